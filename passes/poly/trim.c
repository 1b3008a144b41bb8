/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Some tiles skip terms once a sum over all elements of their B has proved them harmless. Checks
 * this sum: it starts from 0, covers all elements of B, and nothing else writes it.
 *
 * A term whose weight is 0 (TileMask.trim) is 0 unless the other factor is infinite or NaN: the sum
 * of all elements times 0 says whether one is. A sum that is used only if it is large
 * (TileMask.squares) is at most half of the sum of the squares of both factors.
 */
#include "passes/poly/poly_impl.h"

#include <math.h>

static bool is_number(const Expr *e, double v)
{
	return e->kind == EX_CONST && (isnan(v) ? isnan(e->f) : e->f == v);
}

/* N sums all elements of B, each times 0, or if SQUARES times itself, if the condition *WHEN holds;
 * null: always. */
static bool sums_all(ExprPool *p, const LNode *n, Buf *b, bool squares, Expr **when)
{
	Expr *at = n->kind == LN_REDUCE ? ex_iter(p, n->range.var) : NULL, *hi = n->range.hi,
	     *e = n->store.val[0];

	if (!at || n->store.red != MONOID_sum || n->store.guard ||
	    n->range.lo != ex_int(p, CT_I64, 0))
		return false;
	*when = NULL;
	if (ex_is_op(hi, IN_select) && hi->op.arg[2] == n->range.lo) {
		*when = hi->op.arg[0];
		hi = hi->op.arg[1];
	}
	return hi == ex_dim(p, buf_numel(expr_ctx(p), b)) && ex_is_op(e, IN_mul) &&
	       e->op.arg[0] == ex_load(p, b, &at, 1) &&
	       (squares ? e->op.arg[1] == e->op.arg[0] : is_number(e->op.arg[1], 0));
}

/* N sets a number to 0 if WHEN holds (null: always), else to NaN. */
static bool sets_zero(const LNode *n, const Expr *when)
{
	const Expr *e = n->store.val[0];

	if (n->kind != LN_STORE || n->store.guard)
		return false;
	if (!when)
		return is_number(e, 0);
	return ex_is_op(e, IN_select) && e->op.arg[0] == when && is_number(e->op.arg[1], 0) &&
	       is_number(e->op.arg[2], NAN);
}

/* Before TILE, its local IN has the sum of all elements of its B, each times 0, or if SQUARES times
 * itself; or NaN. */
static bool has_sum(Poly *p, const Tile *t, const Buf *in, bool squares)
{
	const LNode *set = NULL, *sum = NULL;
	Expr *when;

	VEC_EACH (n, &p->copies) {
		if (n->store.buf[0] != in)
			continue;
		if (sum)
			return false;
		sum = set ? n : NULL;
		set = set ? set : n;
	}
	for (int i = 0; i < p->execs.n; i++)
		if (p->execs.at[i]->buf[0] == in)
			return false;
	return sum && sums_all(p->s->kernel->pool, sum, t->b, squares, &when) &&
	       sets_zero(set, when);
}

void poly_check_trim(Poly *p, const Exec *e)
{
	const Tile *t = e->node->tile;

	if ((t->ct != CT_F32 && t->ct != CT_F64) || !has_sum(p, t, t->mask.trim, false))
		poly_wrong(p, "a node leaves out terms of statement %d that may be NaN", e->stmt);
}

void poly_check_squares(Poly *p, const Exec *e)
{
	const Tile *t = e->node->tile;

	if (t->ct != CT_F32 || t->by_runs.starts ||
	    t->a_step != ex_int(p->s->kernel->pool, CT_I64, 1) ||
	    !has_sum(p, t, t->mask.squares, true))
		poly_wrong(p, "a node leaves out terms of statement %d that may be large", e->stmt);
}
