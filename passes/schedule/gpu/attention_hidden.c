/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that the rows of a block may see, where a mask hides the others: half of them with a
 * causal mask, most with a window. The scores' expression says so by comparisons of rows and keys:
 *
 *	select(le(n, m + past), score, -inf)	  or	  score + select(le(n, m + past), 0, -inf)
 *
 * Blocks of keys that no row sees are left out. They would add 0 to all sums, unless a value there
 * is infinite or NaN, or a score to which -inf is added (docs/numerics.md). A mask of finite
 * numbers does not count: a row without keys to see is the mean of all values then.
 */
#include "passes/schedule/gpu/attention_impl.h"

#include <math.h>

typedef struct VisibleKeys {
	AttentionEmit *e;
	Expr *low, *high; /* keys that may be seen; null: no bound */
} VisibleKeys;

/* The largest value of AT, which is affine, over the rows of the block; null: it is not known. */
static Expr *largest(VisibleKeys *v, Expr *at)
{
	AttentionEmit *e = v->e;
	const Contraction *s = &e->a.f.scores;
	Iter *row = s->m[s->nm - 1];
	Expr *last = ex_sub(e->p,
			    l_min(&e->b, ex_add(e->p, e->first_row, l_int(&e->b, e->rm)),
				  ex_dim(e->p, e->rows)),
			    l_int(&e->b, 1)),
	     *size = ex_dim(e->p, row->extent), *to = e->first_row;
	Affine a;
	int64_t coef;

	if (!ex_affine(e->c, at, &a))
		return NULL;
	for (int i = 0; i + 1 < s->nm; i++)
		if (!dim_equals(affine_coef(e->c, &a, s->m[i]), 0))
			return NULL;
	if (!dim_is_const(affine_coef(e->c, &a, row), &coef))
		return NULL;
	to = coef > 0 ? last : e->first_row;
	if (s->nm > 1) /* the rows may begin again */
		to = ex_op3(e->p, IN_select,
			    ex_op2(e->p, IN_eq, ex_op2(e->p, IN_floordiv, e->first_row, size),
				   ex_op2(e->p, IN_floordiv, last, size)),
			    ex_op2(e->p, IN_mod, to, size),
			    coef > 0 ? ex_sub(e->p, size, l_int(&e->b, 1)) : l_int(&e->b, 0));
	return ex_subst_iters(e->p, at, &row, &to, 1);
}

/* Keys are seen only where A <= B. */
static void see_bound(VisibleKeys *v, Expr *a, Expr *b)
{
	AttentionEmit *e = v->e;
	Iter *key = e->a.f.key;
	Expr *zero = l_int(&e->b, 0), *rest, *at;
	Affine diff;
	int64_t coef;

	if (a->ct != CT_I64)
		return;
	if (ex_is_op(a, IN_abs)) {
		see_bound(v, a->op.arg[0], b);
		see_bound(v, ex_sub(e->p, zero, a->op.arg[0]), b);
		return;
	}
	rest = ex_sub(e->p, b, a);
	if (!ex_affine(e->c, rest, &diff) || !dim_is_const(affine_coef(e->c, &diff, key), &coef) ||
	    (coef != 1 && coef != -1))
		return;
	at = largest(v, ex_subst_iters(e->p, rest, &key, &zero, 1));
	if (!at)
		return;
	if (coef < 0)
		v->high = v->high ? l_min(&e->b, v->high, at) : at;
	else
		v->low = v->low ? l_max(&e->b, v->low, ex_sub(e->p, zero, at))
				: ex_sub(e->p, zero, at);
}

/* Keys are seen only where C is HOLDS. */
static void see_condition(VisibleKeys *v, Expr *c, bool holds)
{
	AttentionEmit *e = v->e;
	Expr *a, *b;

	if (c->kind != EX_INST)
		return;
	a = c->op.arg[0];
	b = c->op.n > 1 ? c->op.arg[1] : NULL;
	switch (c->op.inst) {
	case IN_not: see_condition(v, a, !holds); return;
	case IN_and:
	case IN_or:
		if (holds == (c->op.inst == IN_and)) {
			see_condition(v, a, holds);
			see_condition(v, b, holds);
		}
		return;
	case IN_lt:
	case IN_le:
	case IN_gt:
	case IN_ge: {
		const bool swaps = c->op.inst == IN_gt || c->op.inst == IN_ge,
			   strict = (c->op.inst == IN_lt || c->op.inst == IN_gt) == holds;
		Expr *low = swaps == holds ? b : a, *high = swaps == holds ? a : b;

		if (low->ct == CT_I64)
			see_bound(v, strict ? ex_add(e->p, low, l_int(&e->b, 1)) : low, high);
		return;
	}
	default: return;
	}
}

static bool hides(const Expr *e)
{
	return e->kind == EX_CONST && ctype_is_float(e->ct) && e->f == -INFINITY;
}

static void see_score(VisibleKeys *v, Expr *x)
{
	if (x->kind != EX_INST)
		return;
	switch (x->op.inst) {
	case IN_add:
		see_score(v, x->op.arg[0]);
		see_score(v, x->op.arg[1]);
		break;
	case IN_round:
	case IN_cvt: see_score(v, x->op.arg[0]); break;
	case IN_select:
		for (int i = 1; i < 3; i++)
			if (hides(x->op.arg[3 - i])) {
				see_condition(v, x->op.arg[0], i == 1);
				see_score(v, x->op.arg[i]);
			}
		break;
	default: break;
	}
}

void attention_visible(AttentionEmit *e, Expr **low, Expr **high)
{
	VisibleKeys v = {.e = e};

	see_score(&v, e->a.f.x);
	*low = v.low;
	*high = v.high;
}
