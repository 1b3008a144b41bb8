/* SPDX-License-Identifier: Apache-2.0 */
/* Adapts the expression printer of ir/expr/expr_c.h to gen_c: several roots at once, loads by flat
 * index, and a test whether a text needs parentheses as an operand. */
#include "codegen/c/expr.h"

#include "ir/expr/expr_c.h"

#include <string.h>

const char *c_type(CType t)
{
	return ctype_c(t);
}

static void put_iter(void *arg, StrBuf *b, const Iter *it)
{
	const CExprNames *n = arg;

	n->iter(n->arg, b, it);
}

static void put_dim(void *arg, StrBuf *b, Dim *d)
{
	const CExprNames *n = arg;

	n->dim(n->arg, b, d);
}

static void put_load(void *arg, StrBuf *b, const Expr *e, const char *const *idx)
{
	const CExprNames *n = arg;

	n->load(n->arg, b, e, e->load.nidx ? idx[0] : "0");
}

static bool is_natural(void *arg, const Expr *e)
{
	const CExprNames *n = arg;

	return n->natural && n->natural(n->arg, e);
}

bool c_is_operation(const char *s)
{
	int depth = 0;

	for (; *s; s++) {
		depth += *s == '(' || *s == '[' ? 1 : *s == ')' || *s == ']' ? -1 : 0;
		if (*s == ' ' && !depth)
			return true;
	}
	return false;
}

void c_exprs(StrBuf *pre, StrBuf *out, Expr *const *e, int n, const CExprNames *names, int indent,
	     int *ntemp)
{
	ARENA_LOCAL(tmp);
	FuncUses funcs = {0};
	CExprNames of = *names;
	ExprC c = {.arena = tmp,
		   .arg = &of,
		   .iter = put_iter,
		   .dim = put_dim,
		   .load = put_load,
		   .natural = is_natural,
		   .fault = "fault",
		   .temp = "t",
		   .indent = indent,
		   .funcs = &funcs,
		   .near = names->near,
		   .ntemps = *ntemp,
		   .names = {.in_bounds = names->in_bounds, .arg = names->arg}};

	for (int i = 0; i < names->nknown; i++)
		ex_c_name(&c, names->known[i].e, names->known[i].name);
	for (int i = 0; i < n; i++)
		ex_c_count(&c, e[i]);
	for (int i = 0; i < n; i++)
		ex_c(&c, pre, e[i], &out[i]);
	*ntemp = c.ntemps;
	for (int i = 0; i < INST_COUNT && names->func; i++)
		for (int form = 0; form < FUNC_FORMS; form++)
			if (funcs.used[i][form])
				names->func(names->arg, (Inst)i, (FuncForm)form);
}
