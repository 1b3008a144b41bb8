/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/guards.h"

/* D such that conjunct G says D >= 0; null: G compares no indices. */
static Expr *difference(Kernel *k, Expr *g)
{
	Expr *l, *r;
	bool strict;

	if (g->kind != EX_INST || g->op.n != 2 || g->op.arg[0]->ct != CT_I64)
		return NULL;
	l = g->op.arg[0];
	r = g->op.arg[1];
	switch (g->op.inst) {
	case IN_le: strict = false; break;
	case IN_lt: strict = true; break;
	case IN_ge:
		strict = false;
		l = g->op.arg[1];
		r = g->op.arg[0];
		break;
	case IN_gt:
		strict = true;
		l = g->op.arg[1];
		r = g->op.arg[0];
		break;
	default: return NULL;
	}
	r = ex_sub(k->pool, r, l);
	return strict ? ex_sub(k->pool, r, ex_int(k->pool, CT_I64, 1)) : r;
}

bool guard_is_affine(Kernel *k, Expr *g)
{
	Expr *e = difference(k, g);
	Affine a;

	return e && ex_affine(k->ctx, e, &a);
}

/* The REST such that conjunct G says STEP * VAR + REST >= 0. REST does not contain VAR, but may
 * have quotients of other iterators. Null: G has another form. */
static Expr *apart_from(Kernel *k, Expr *g, const Iter *var, int64_t *step)
{
	Expr *e = difference(k, g), *zero = ex_int(k->pool, CT_I64, 0);
	Iter *it = (Iter *)var;
	Affine a;

	if (e && ex_affine(k->ctx, e, &a))
		e = ex_from_affine(k->pool, &a);
	return e && ex_const_step(k->ctx, e, var, step) ? ex_subst_iters(k->pool, e, &it, &zero, 1)
							: NULL;
}

static bool bound(Kernel *k, Expr *g, const Iter *var, Expr **lo, Expr **hi)
{
	ExprPool *p = k->pool;
	Expr *one = ex_int(p, CT_I64, 1), *zero = ex_int(p, CT_I64, 0);
	int64_t c;
	Expr *rest = apart_from(k, g, var, &c);

	if (!rest || c == 0)
		return false;
	if (c > 0) { /* var >= ceil(-rest / c) = -floor(rest / c) */
		Expr *b = ex_sub(p, zero, ex_op2(p, IN_floordiv, rest, ex_int(p, CT_I64, c)));

		*lo = ex_op2(p, IN_max, *lo, b);
	} else { /* var <= floor(rest / -c) */
		Expr *b = ex_add(p, ex_op2(p, IN_floordiv, rest, ex_int(p, CT_I64, -c)), one);

		*hi = ex_op2(p, IN_min, *hi, b);
	}
	return true;
}

Expr *guard_to_range(Kernel *k, Expr *guard, const Iter *var, Expr **lo, Expr **hi)
{
	if (!guard)
		return NULL;
	if (guard->kind == EX_INST && guard->op.inst == IN_and) {
		Expr *a = guard_to_range(k, guard->op.arg[0], var, lo, hi);
		Expr *b = guard_to_range(k, guard->op.arg[1], var, lo, hi);

		return a ? ex_and(k->pool, a, b) : b;
	}
	if (!expr_has_iter(guard, var)) {
		*hi = ex_op3(k->pool, IN_select, guard, *hi, *lo);
		return NULL;
	}
	return bound(k, guard, var, lo, hi) ? NULL : guard;
}

Expr *guard_for_all(Kernel *k, Expr *g, Iter *const *it, int n, bool *ok)
{
	Expr *e;

	if (!g || !*ok)
		return NULL;
	if (g->kind == EX_INST && g->op.inst == IN_and) {
		Expr *x = guard_for_all(k, g->op.arg[0], it, n, ok),
		     *y = guard_for_all(k, g->op.arg[1], it, n, ok);

		return *ok ? ex_and(k->pool, x, y) : NULL;
	}
	e = difference(k, g);
	*ok = e != NULL;
	for (int i = 0; i < n && *ok; i++) {
		int64_t step, extent;
		Expr *worst;

		*ok = ex_const_step(k->ctx, e, it[i], &step) &&
		      dim_is_const(it[i]->extent, &extent);
		worst = *ok ? ex_int(k->pool, CT_I64, step < 0 ? extent - 1 : 0) : NULL;
		e = *ok ? ex_subst_iters(k->pool, e, &it[i], &worst, 1) : NULL;
	}
	return *ok ? ex_op2(k->pool, IN_ge, e, ex_int(k->pool, CT_I64, 0)) : NULL;
}
