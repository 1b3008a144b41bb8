/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gathers: if a Gather takes matrices out of a constant for products, a separate kernel checks the
 * indices:
 *
 *     t[i,n,k] = w[index(j[i], 8),n,k]
 *
 * becomes
 *
 *     c[i]     = index(j[i], 8)
 *     t[i,n,k] = w[c[i],n,k]
 *
 * The Gather then only moves elements and cannot fault, so `fuse` inlines it into the products, and
 * the layout packs all matrices of the constant at compile time (passes/layout/panels.c). Gathers
 * of one constant by the same indices share the check.
 *
 * On CPUs likewise where samples of an image are summed whose number is checked, as in RoiAlign:
 *
 *     y[r,c] = sum select(outside(r,s), 0, x[index(j[r], 4),c,at(r,s)])
 *
 * An arm of a select that may fault must not be evaluated in vain, so that no compiler vectorises
 * the loop over c. max(min(c[r], 3), 0) is always in bounds.
 */
#include "passes/forms/ahead.h"
#include "passes/forms/contraction.h"
#include "passes/forms/form.h"
#include "passes/module.h"

enum {
	MOST_MAPS = 8,   /* limit on the maps and views between a Gather and its product */
	MOST_USES = 64,  /* limit on the uses of the Gather, maps and views that are examined */
	LEAST_MATRIX = 2 /* dims */
};

typedef struct Check {
	Node *n;
	Kernel *k;
	Stmt *s;
	Expr *index;         /* the only expression of S that may fault */
	int count;           /* number of such expressions */
	Iter *it[MAX_ITERS]; /* the iterators that INDEX depends on */
	int nit;
} Check;

/* Whether a product reads V, perhaps through maps and views; DEPTH of them have been passed. *LEFT
 * is the number of uses that may still be examined. */
static bool feeds_product(const Value *v, int depth, int *left)
{
	for (const Use *u = v->uses; u && depth < MOST_MAPS && --*left >= 0; u = u->next) {
		Kernel *k = u->user ? node_kernel(u->user) : NULL;

		if (k && k->stmts.n &&
		    form_of_stmt(k, k->stmts.at[0]).kind == FORM_CONTRACTION)
			return true;
		if (u->user && node_is_map(u->user) &&
		    feeds_product(u->user->out[0], depth + 1, left))
			return true;
	}
	return false;
}

/* Whether C's first statement has one expression that may fault, an index. */
static bool has_one_index(Check *c)
{
	c->k = node_kernel(c->n);
	if (!c->k || node_on_host(c->n) || c->n->nout != 1 || !c->k->stmts.n)
		return false;
	c->s = c->k->stmts.at[0];
	STMT_EACH (e, c->s)
		if (e->kind == EX_INST && inst_may_fault(e->op.inst)) {
			c->index = e;
			c->count++;
		}
	if (c->count != 1 || !ex_is_op(c->index, IN_index))
		return false;
	for (int i = 0; i < c->s->niters; i++)
		if (expr_has_iter(c->index, c->s->iter[i]))
			c->it[c->nit++] = c->s->iter[i];
	return true;
}

static bool gathers_matrices(Module *m, const Check *c)
{
	int left = MOST_USES;
	const Value *v;
	const Expr *load = c->s->val[0];

	if (c->k->stmts.n != 1 || !stmt_is_simple_map(c->s) || load->kind != EX_LOAD)
		return false;
	v = node_loaded(c->n, load);
	return v && value_is_weights(m, v) && c->s->niters - c->nit >= LEAST_MATRIX &&
	       feeds_product(c->n->out[0], 0, &left);
}

static bool sums_samples(const Check *c)
{
	return c->s->red != MONOID_NONE && ex_is_op(c->s->val[0], IN_select) &&
	       c->s->niters > c->nit;
}

/* The samples of C with the index INDEX, checked, which is loaded in any case, by the condition of
 * the select. */
static void load_samples(Check *c, Expr *index)
{
	ExprPool *p = c->k->pool;
	Expr *zero = ex_int(p, CT_I64, 0),
	     *last = ex_sub(p, c->index->op.arg[1], ex_int(p, CT_I64, 1)), *e;

	stmt_replace(c->k, c->s, c->index, ex_op2(p, IN_max, ex_op2(p, IN_min, index, last), zero));
	e = c->s->val[0];
	c->s->val[0] = ex_op3(p, IN_select,
			      ex_op2(p, IN_or, e->op.arg[0], ex_op2(p, IN_lt, index, zero)),
			      e->op.arg[1], e->op.arg[2]);
}

static void check_apart(Precomputed *all, Check *c)
{
	Value *checked = ahead_value(all, c->n, c->s, c->index, c->it, c->nit, "index", "checked");
	Buf *b = node_add_operand(c->n, "checked", checked);
	Expr *index = kernel_load_iters(c->k, b, c->it);

	if (sums_samples(c))
		load_samples(c, index);
	else
		stmt_replace(c->k, c->s, c->index, index);
	node_drop_unused_inputs(c->n);
}

bool pass_gathers(Module *m)
{
	Precomputed all = ahead_new(m);

	if (m->opt.level == 0)
		return true;
	for (Node *n = m->graph->first; n; n = n->next) {
		Check c = {.n = n};

		if (has_one_index(&c) &&
		    (gathers_matrices(m, &c) || (!module_on_gpu(m) && sums_samples(&c))))
			check_apart(&all, &c);
	}
	return true;
}
