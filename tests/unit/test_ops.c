/* SPDX-License-Identifier: Apache-2.0 */
/* The text of every elementwise operator is a valid expression for every element type of the
 * operator; a mistake aborts. The attributes of every operator are a list that is read to its
 * end. */
#include "ir/graph/definition.h"
#include "ops/op.h"

#include <stdio.h>
#include <string.h>

static char letter(DType t)
{
	return dtype_is_float(t)    ? 'f'
	       : t == DT_BOOL       ? 'b'
	       : t == DT_STR        ? 's'
	       : dtype_is_signed(t) ? 'i'
				    : 'u';
}

/* The operator's expression over parameters, for as many operands as it may mention; null: it
 * does not have type T. */
static const Expr *lowered(Graph *g, Kernel *k, OpKind kind, DType t)
{
	const Op *op = op_table[kind];
	const int n = op_row[kind].nin_max > 0 ? op_row[kind].nin_max : 2;
	Expr *args[3];

	if (t == DT_NONE || t == DT_STR || !op->scalar || n > 3 ||
	    !strchr(op->types ? op->types : "fiu", letter(t)))
		return NULL;
	for (int i = 0; i < n; i++)
		args[i] = ex_param(k->pool, dtype_ctype(t), i);
	return lower_scalar(k, node_new(g, kind, NULL, 0, 1, NULL), op, dtype_ctype(t), args, n);
}

static bool is_kind(const char *name)
{
	for (int k = 0; k <= ATTR_TYPE; k++)
		if (!strcmp(name, attr_kind_name((AttrKind)k)))
			return true;
	return !strcmp(name, "graph");
}

static bool attrs_read(OpKind kind)
{
	const char *list = op_table[kind]->attrs;
	OpAttr a;

	bool kinds = true;

	while (op_attr_next(&list, &a)) {
		if (is_kind(a.kind))
			continue;
		printf("operator %s: attribute %s: there is no kind %s\n", op_row[kind].name, a.name,
		       a.kind);
		kinds = false;
	}
	if (list && *list)
		printf("operator %s: no attribute is \"%s\"\n", op_row[kind].name, list);
	return kinds && (!list || !*list);
}

int main(void)
{
	Diag d = {.out = stderr};
	Ctx *c = ctx_new(&d);
	Arena *a = arena_new();
	Graph *g = graph_new(c, a, "main");
	Kernel k = {.arena = a, .pool = expr_pool_new(c, a)};
	int texts = 0, wrong = 0;

	for (int i = 1; i < OP_COUNT; i++)
		wrong += !attrs_read((OpKind)i);
	for (int i = 1; i < OP_COUNT; i++)
		for (int t = 0; t < DT_COUNT; t++)
			texts += lowered(g, &k, (OpKind)i, (DType)t) != NULL;
	arena_free(a);
	ctx_free(c);
	printf("%d texts\n", texts);
	return texts < 100 || wrong;
}
