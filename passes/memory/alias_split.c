/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces a map that takes some rows from one operand and all others from an input by a copy of
 * the input and updates. TensorScatter and the caches of GroupQueryAttention are lowered to such
 * maps. The copy can then be skipped (passes/memory/alias.c).
 *
 *     y[b,t] = inside(t - s[b], n) ? u[b,t - s[b]] : x[b,t]     for t < T
 *
 *     y[b,t] = x[b,t]              for t < T
 *     y[b,t + s[b]] = u[b,t]       for t < n
 *
 * A row may be taken only under a condition:
 *
 *     y[t] = t == s & c ? u : x[t]     for t < T
 *
 *     y[t] = x[t]                      for t < T
 *     y[t + s] = u                     for t < 1 where inside(s, T) & c
 *
 * If x has fewer rows than y, P say, the map has another value for the rest: t < P ? x[b,t] : 0.
 * These rows get a separate statement.
 */
#include "passes/forms/kernels.h"
#include "passes/memory/alias.h"

/* E without a rounding to T, if E is an element of that type already. */
static Expr *without_round(Expr *e, DType t)
{
	return ex_is_op(e, IN_round) && e->op.dtype == t ? e->op.arg[0] : e;
}

/* E is 0 <= AT < N. */
static bool is_inside(Expr *e, Expr **at, Expr **n)
{
	const Expr *low = ex_is_op(e, IN_and) ? e->op.arg[0] : NULL;
	const Expr *high = low ? e->op.arg[1] : NULL;

	if (!low || !ex_is_op(low, IN_ge) || !ex_is_op(high, IN_lt) ||
	    low->op.arg[0] != high->op.arg[0] || low->op.arg[1]->kind != EX_CONST ||
	    low->op.arg[1]->i != 0)
		return false;
	*at = high->op.arg[0];
	*n = high->op.arg[1];
	return (*n)->kind == EX_DIM || (*n)->kind == EX_CONST;
}

/* E is AT == 0, perhaps and WHEN, and compares an index. */
static bool is_row(ExprPool *p, Expr *e, Expr **at, Expr **when)
{
	Expr *a, *b;

	*when = NULL;
	if (ex_is_op(e, IN_and)) {
		*when = e->op.arg[1];
		e = e->op.arg[0];
	}
	if (!ex_is_op(e, IN_eq) || e->op.arg[0]->ct != CT_I64)
		return false;
	a = e->op.arg[0];
	b = e->op.arg[1];
	*at = a->kind == EX_ITER ? ex_sub(p, a, b) : ex_sub(p, b, a);
	return true;
}

/* Whether the conditions of X, which are evaluated once for a row, neither fail nor read LOAD's
 * buffer. */
static bool conditions_fit(const AliasSplit *x)
{
	Expr *const e[] = {x->start, x->when};

	for (int i = 0; i < 2; i++)
		if (e[i] &&
		    (expr_loads(e[i], x->load->load.buf) || (x->when && expr_can_fault(e[i]))))
			return false;
	return true;
}

bool alias_split_find(Kernel *k, Stmt *s, AliasSplit *out)
{
	Expr *v = s->val[0], *at, *n = ex_int(k->pool, CT_I64, 1), *old, *when = NULL;
	const DType t = s->out[0]->dtype;
	bool one = false;

	*out = (AliasSplit){.s = s};
	if (!stmt_is_simple_map(s) || !ex_is_op(v, IN_select))
		return false;
	if (!is_inside(v->op.arg[0], &at, &n) && !(one = is_row(k->pool, v->op.arg[0], &at, &when)))
		return false;
	for (int d = 0; d < s->nwidx && !out->start; d++) {
		const Expr *i = s->widx[d];

		if (i->kind != EX_ITER || !expr_has_iter_outside_loads(at, i->iter))
			continue;
		out->dim = d;
		out->start = ex_sub(k->pool, s->widx[d], at);
		if (expr_has_iter(out->start, i->iter))
			return false;
	}
	if (!out->start)
		return false;
	out->rows = ex_as_dim(k->ctx, n);
	if (one)
		out->when = ex_and(
			k->pool,
			ex_inside(k->pool, out->start, ex_dim(k->pool, s->out[0]->dims[out->dim])),
			when);
	out->update = v->op.arg[1];
	old = without_round(v->op.arg[2], t);
	if (ex_is_op(old, IN_select) && ex_is_op(old->op.arg[0], IN_lt)) {
		const Expr *less = old->op.arg[0];

		if (less->op.arg[0] != s->widx[out->dim] ||
		    (less->op.arg[1]->kind != EX_DIM && less->op.arg[1]->kind != EX_CONST))
			return false;
		out->rest = old->op.arg[2];
		out->past = ex_as_dim(k->ctx, less->op.arg[1]);
		old = old->op.arg[1];
	}
	if (old->kind != EX_LOAD)
		return false;
	out->load = old;
	return !expr_loads(out->update, old->load.buf) && conditions_fit(out) &&
	       (!out->rest || !expr_loads(out->rest, old->load.buf)) &&
	       (!out->rest || old->load.buf->dims[out->dim] == out->past);
}

/* Inserts, as statement number PLACE, a copy of S under the guard WHEN whose extent differs in dim
 * D, and which starts at FROM in that dim of the output. */
static Stmt *part(Kernel *k, const Stmt *s, int d, Dim *extent, Expr *from, Expr *value, Expr *when,
		  int place)
{
	Iter *it[MAX_ITERS], *old = s->widx[d]->iter, *own = kernel_iter(k, old->name, extent);
	Expr *with = ex_add(k->pool, ex_iter(k->pool, own), from), *widx[MAX_RANK];
	Stmt *p;

	for (int i = 0; i < s->niters; i++)
		it[i] = s->iter[i] == old ? own : s->iter[i];
	for (int i = 0; i < s->nwidx; i++)
		widx[i] = i == d ? with : s->widx[i];
	p = kernel_map(k, it, s->niters, s->out[0], widx,
		       ex_subst_iters(k->pool, value, &old, &with, 1),
		       when ? ex_subst_iters(k->pool, when, &old, &with, 1) : NULL);
	p->loc = s->loc;
	kernel_move_last_stmt(k, place);
	return p;
}

Stmt *alias_split(Kernel *k, const AliasSplit *x)
{
	Stmt *s = x->s, *copy;
	Dim *whole = s->out[0]->dims[x->dim];
	const int at = s->id;

	copy = part(k, s, x->dim, x->rest ? x->past : whole, ex_int(k->pool, CT_I64, 0), x->load,
		    NULL, at);
	if (x->rest)
		part(k, s, x->dim, dim_sub(k->ctx, whole, x->past), ex_dim(k->pool, x->past),
		     x->rest, NULL, at + 1);
	part(k, s, x->dim, x->rows, x->start, x->update, x->when, s->id)->update = true;
	kernel_remove_stmt(k, s->id);
	return copy;
}
