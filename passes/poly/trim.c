/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of tiles that leave out terms whose weights are 0 (Tile.trim): such a term is 0 unless
 * the other factor is infinite or NaN, so the tile must look at a number that says whether one is.
 * This is the sum of all elements of the tile's B times 0, which starts from 0 and to which nothing
 * else is stored.
 */
#include "passes/poly/poly_impl.h"

#include <math.h>

static bool is_number(const Expr *e, double v)
{
	return e->kind == EX_CONST && (isnan(v) ? isnan(e->f) : e->f == v);
}

/* N sums all elements of B times 0, if the condition *WHEN holds; null: always. */
static bool sums_zeros(ExprPool *p, const LNode *n, Buf *b, Expr **when)
{
	Ctx *c = expr_ctx(p);
	Dim *all = dim_const(c, 1);
	Expr *at = n->kind == LN_REDUCE ? ex_iter(p, n->var) : NULL, *hi = n->hi, *e = n->val[0];

	if (!at || n->red != MONOID_sum || n->guard || n->lo != ex_int(p, CT_I64, 0))
		return false;
	for (int d = 0; d < b->rank; d++)
		all = dim_mul(c, all, b->dims[d]);
	*when = NULL;
	if (ex_is_op(hi, IN_select) && hi->op.arg[2] == n->lo) {
		*when = hi->op.arg[0];
		hi = hi->op.arg[1];
	}
	return hi == ex_dim(p, all) && ex_is_op(e, IN_mul) &&
	       e->op.arg[0] == ex_load(p, b, &at, 1) && is_number(e->op.arg[1], 0);
}

/* N sets a number to 0 if WHEN holds (null: always), else to NaN. */
static bool sets_zero(const LNode *n, const Expr *when)
{
	const Expr *e = n->val[0];

	if (n->kind != LN_STORE || n->guard)
		return false;
	if (!when)
		return is_number(e, 0);
	return ex_is_op(e, IN_select) && e->op.arg[0] == when && is_number(e->op.arg[1], 0) &&
	       is_number(e->op.arg[2], NAN);
}

void poly_check_trim(Poly *p, const Exec *e)
{
	const Tile *t = e->node->tile;
	const LNode *set = NULL, *sum = NULL;
	Expr *when;
	bool fits = t->ct == CT_F32 || t->ct == CT_F64;

	for (int i = 0; i < p->copies.n; i++) {
		const LNode *n = p->copies.at[i];

		if (n->buf[0] != t->trim)
			continue;
		fits = fits && !sum;
		sum = set ? n : NULL;
		set = set ? set : n;
	}
	for (int i = 0; i < p->execs.n; i++)
		fits = fits && p->execs.at[i]->buf[0] != t->trim;
	if (!fits || !sum || !sums_zeros(p->s->kernel->pool, sum, t->b, &when) ||
	    !sets_zero(set, when))
		poly_wrong(p, "a node leaves out terms of statement %d that may be NaN", e->stmt);
}
