/* SPDX-License-Identifier: Apache-2.0 */
/*
 * i64 expressions as linear forms, the normal form in which ex_inst keeps them; the ranges of such
 * forms; and the simplifications that ranges allow: affine views, guards that always hold, and
 * simpler quotients and remainders of flattened indices.
 */
#include "ir/expr/expr_impl.h"

#include "ir/kernel/kernel.h"

#include <assert.h>
#include <string.h>

/* ---- Linear forms ---- */

static bool is_const_zero(const Dim *d)
{
	return dim_equals(d, 0);
}

/* Set *OUT to A + B or A * B; false if a constant overflows. */
static bool dim_sum(Ctx *c, Dim *a, Dim *b, Dim **out)
{
	int64_t x, y, r;

	if (dim_is_const(a, &x) && dim_is_const(b, &y) && __builtin_add_overflow(x, y, &r))
		return false;
	*out = dim_add(c, a, b);
	return true;
}

static bool dim_product(Ctx *c, Dim *a, Dim *b, Dim **out)
{
	int64_t x, y, r;

	if (dim_is_const(a, &x) && dim_is_const(b, &y) && __builtin_mul_overflow(x, y, &r))
		return false;
	*out = dim_mul(c, a, b);
	return true;
}

static void linear_zero(ExprPool *p, Linear *l)
{
	l->n = 0;
	l->base = dim_const(p->ctx, 0);
}

/* OUT += K * ATOM; keeps the order of terms. */
static bool add_term(ExprPool *p, Linear *out, Expr *atom, Dim *k)
{
	int at = 0;

	if (is_const_zero(k))
		return true;
	while (at < out->n && expr_cmp(out->atom[at], atom) < 0)
		at++;
	if (at < out->n && out->atom[at] == atom) {
		if (!dim_sum(p->ctx, out->coef[at], k, &out->coef[at]))
			return false;
		if (is_const_zero(out->coef[at])) {
			out->n--;
			memmove(out->atom + at, out->atom + at + 1,
				(size_t)(out->n - at) * sizeof *out->atom);
			memmove(out->coef + at, out->coef + at + 1,
				(size_t)(out->n - at) * sizeof *out->coef);
		}
		return true;
	}
	if (out->n == LINEAR_MAX)
		return false;
	memmove(out->atom + at + 1, out->atom + at, (size_t)(out->n - at) * sizeof *out->atom);
	memmove(out->coef + at + 1, out->coef + at, (size_t)(out->n - at) * sizeof *out->coef);
	out->atom[at] = atom;
	out->coef[at] = k;
	out->n++;
	return true;
}

bool linear_add(ExprPool *p, Linear *out, const Linear *l, Dim *k)
{
	Dim *d;

	for (int i = 0; i < l->n; i++)
		if (!dim_product(p->ctx, l->coef[i], k, &d) || !add_term(p, out, l->atom[i], d))
			return false;
	return dim_product(p->ctx, l->base, k, &d) && dim_sum(p->ctx, out->base, d, &out->base);
}

/* OUT += K * E. A sum in normal form nests to the left, so the loop handles nearly all of its
 * terms. */
static bool add_expr(ExprPool *p, Linear *out, Expr *e, Dim *k)
{
	while (e->kind == EX_INST && e->op.inst == IN_add) {
		if (!add_expr(p, out, e->op.arg[1], k))
			return false;
		e = e->op.arg[0];
	}
	if (e->kind == EX_INST && e->op.inst == IN_mul) {
		for (int i = 0; i < 2; i++) {
			Dim *d = ex_as_dim(p->ctx, e->op.arg[i]);

			if (d)
				return dim_product(p->ctx, k, d, &d) &&
				       add_expr(p, out, e->op.arg[1 - i], d);
		}
	}
	if (ex_as_dim(p->ctx, e)) {
		Dim *d;

		return dim_product(p->ctx, ex_as_dim(p->ctx, e), k, &d) &&
		       dim_sum(p->ctx, out->base, d, &out->base);
	}
	return add_term(p, out, e, k);
}

bool linear_of(ExprPool *p, Expr *e, Linear *out)
{
	linear_zero(p, out);
	return add_expr(p, out, e, dim_const(p->ctx, 1));
}

static Expr *plus_term(ExprPool *p, Expr *sum, Expr *atom, Dim *k)
{
	Expr *t = dim_equals(k, 1) ? atom
				   : ex_raw(p, IN_mul, CT_I64, DT_NONE,
					    (Expr *[]){atom, ex_dim(p, k)}, 2);

	return sum ? ex_raw(p, IN_add, CT_I64, DT_NONE, (Expr *[]){sum, t}, 2) : t;
}

/* No sum begins with a term that is subtracted if another can be the first: min(a, b) - i, not -i +
 * min(a, b). */
static int first_term(const Linear *l)
{
	for (int i = 0; i < l->n; i++)
		if (!dim_equals(l->coef[i], -1))
			return i;
	return 0;
}

Expr *linear_expr(ExprPool *p, const Linear *l)
{
	const int first = first_term(l);
	Expr *sum;

	if (!l->n)
		return ex_dim(p, l->base);
	sum = plus_term(p, NULL, l->atom[first], l->coef[first]);
	for (int i = 0; i < l->n; i++)
		if (i != first)
			sum = plus_term(p, sum, l->atom[i], l->coef[i]);
	if (is_const_zero(l->base))
		return sum;
	return ex_raw(p, IN_add, CT_I64, DT_NONE, (Expr *[]){sum, ex_dim(p, l->base)}, 2);
}

/* ---- Ranges ---- */

/* The range of a min or max contains the ranges of both operands, so the bounds grow with each
 * level. Deeper than this, no range is computed. */
enum { MAX_NESTED = 8 };

int expr_nest(const Expr *e)
{
	int deepest = 0, own = 0;

	if (e->kind != EX_INST || e->ct != CT_I64)
		return 0;
	switch (e->op.inst) {
	case IN_add:
	case IN_sub:
	case IN_mul: break;
	case IN_min:
	case IN_max:
	case IN_select:
	case IN_floordiv: own = 1; break;
	default: return 0;
	}
	for (int i = 0; i < e->op.n; i++)
		deepest = e->op.arg[i]->nest > deepest ? e->op.arg[i]->nest : deepest;
	return deepest + own;
}

static DimRange expr_range(ExprPool *p, Expr *e)
{
	DimRange r = {0};
	Linear l;

	if (e->nest < MAX_NESTED && linear_of(p, e, &l))
		linear_range(p, &l, &r.lo, &r.hi);
	return r;
}

static Dim *minus_one(ExprPool *p, Dim *d)
{
	return dim_sub(p->ctx, d, dim_const(p->ctx, 1));
}

/* The bound of a min or max from its operands' bounds, each null if unknown. EITHER: one of them
 * suffices. */
static Dim *either_bound(ExprPool *p, Dim *a, Dim *b, bool is_min, bool either)
{
	if (!a || !b)
		return !either ? NULL : a ? a : b;
	return is_min ? dim_min(p->ctx, a, b) : dim_max(p->ctx, a, b);
}

static DimRange find_range(ExprPool *p, Expr *e)
{
	Dim *zero = dim_const(p->ctx, 0), *d;
	DimRange none = {0}, a, b;

	if (e->kind == EX_ITER)
		return (DimRange){.lo = zero, .hi = minus_one(p, e->iter->extent)};
	if (e->kind != EX_INST)
		return none;
	switch (e->op.inst) {
	case IN_index:
		d = ex_as_dim(p->ctx, e->op.arg[1]);
		return d ? (DimRange){.lo = zero, .hi = minus_one(p, d)} : none;
	case IN_mod:
		d = ex_as_dim(p->ctx, e->op.arg[1]);
		return d && dim_prove_lt(p->ctx, zero, d)
			       ? (DimRange){.lo = zero, .hi = minus_one(p, d)}
			       : none;
	case IN_floordiv:
		d = ex_as_dim(p->ctx, e->op.arg[1]);
		if (!d || !dim_prove_lt(p->ctx, zero, d))
			return none;
		a = expr_range(p, e->op.arg[0]);
		if (!a.lo || !a.hi)
			return none;
		return (DimRange){.lo = dim_floordiv(p->ctx, a.lo, d),
				  .hi = dim_floordiv(p->ctx, a.hi, d)};
	case IN_min:
	case IN_max:
	case IN_select:
		a = expr_range(p, e->op.arg[e->op.n - 2]);
		b = expr_range(p, e->op.arg[e->op.n - 1]);
		return (DimRange){.lo = either_bound(p, a.lo, b.lo, e->op.inst != IN_max,
						     e->op.inst == IN_max),
				  .hi = either_bound(p, a.hi, b.hi, e->op.inst == IN_min,
						     e->op.inst == IN_min)};
	case IN_cvt:
		return e->op.arg[0]->ct == CT_BOOL
			       ? (DimRange){.lo = zero, .hi = dim_const(p->ctx, 1)}
			       : none;
	default: return none;
	}
}

/* The range of an atom, cached. */
static DimRange atom_range(ExprPool *p, Expr *e)
{
	DimRange r;

	if (e->id >= p->nranges) {
		DimRange *more = NEW_ARRAY(p->arena, 2 * p->n, DimRange);

		if (p->nranges)
			memcpy(more, p->range, (size_t)p->nranges * sizeof *more);
		p->range = more;
		p->nranges = 2 * p->n;
	}
	if (p->range[e->id].known)
		return p->range[e->id];
	r = find_range(p, e);
	r.known = true;
	p->range[e->id] = r;
	return r;
}

bool linear_range(ExprPool *p, const Linear *l, Dim **lo, Dim **hi)
{
	Dim *zero = dim_const(p->ctx, 0);

	*lo = *hi = l->base;
	for (int i = 0; i < l->n; i++) {
		DimRange r = atom_range(p, l->atom[i]);
		Dim *c = l->coef[i], *t;

		if (dim_prove_le(p->ctx, c, zero))
			r = (DimRange){.lo = r.hi, .hi = r.lo};
		else if (!dim_prove_le(p->ctx, zero, c))
			r = (DimRange){0};
		*lo = *lo && r.lo && dim_product(p->ctx, c, r.lo, &t) && dim_sum(p->ctx, *lo, t, &t)
			      ? t
			      : NULL;
		*hi = *hi && r.hi && dim_product(p->ctx, c, r.hi, &t) && dim_sum(p->ctx, *hi, t, &t)
			      ? t
			      : NULL;
	}
	return *lo && *hi;
}

/* ---- Quotients and remainders ---- */

/* Divides: L = D*Q + R, with the terms and the base that D divides in Q. SPLIT: a constant base
 * is divided with remainder, so that R's base is in [0, D). */
static bool linear_split(ExprPool *p, const Linear *l, Dim *d, bool split, Linear *q, Linear *r)
{
	int64_t base, div;
	Dim *k;

	linear_zero(p, q);
	linear_zero(p, r);
	for (int i = 0; i < l->n; i++) {
		bool divides = dim_divides(p->ctx, l->coef[i], d, &k);

		if (!add_term(p, divides ? q : r, l->atom[i], divides ? k : l->coef[i]))
			return false;
	}
	if (dim_divides(p->ctx, l->base, d, &k)) {
		q->base = k;
	} else if (split && dim_is_const(l->base, &base) && dim_is_const(d, &div) && div > 0) {
		int64_t rest = base % div + (base % div < 0 ? div : 0);

		q->base = dim_const(p->ctx, (base - rest) / div);
		r->base = dim_const(p->ctx, rest);
	} else {
		r->base = l->base;
	}
	return true;
}

Expr *fold_divmod(ExprPool *p, Inst i, Expr *a, Expr *b)
{
	Dim *d = ex_as_dim(p->ctx, b), *lo, *hi, *zero = dim_const(p->ctx, 0);
	Linear l, q, r;
	Expr *rest;

	/* linear_range also proves that nothing wraps. */
	if (!d || is_const_zero(d) || !linear_of(p, a, &l) || !linear_range(p, &l, &lo, &hi))
		return NULL;
	for (int split = 0; split < 2; split++) {
		if (!linear_split(p, &l, d, split, &q, &r) || !linear_range(p, &r, &lo, &hi))
			return NULL;
		/* For a point that exists, 0 <= a < d implies d > 0. */
		if (dim_prove_le(p->ctx, zero, lo) && dim_prove_lt(p->ctx, hi, d))
			return linear_expr(p, i == IN_mod ? &r : &q);
	}
	if ((!q.n && is_const_zero(q.base)) || !dim_prove_lt(p->ctx, zero, d))
		return NULL;
	rest = ex_raw(p, i, CT_I64, DT_NONE, (Expr *[]){linear_expr(p, &r), b}, 2);
	return i == IN_mod ? rest : ex_add(p, linear_expr(p, &q), rest);
}

bool ex_in_range(ExprPool *p, Expr *e, Dim *n)
{
	DimRange r = expr_range(p, e);

	return r.lo && r.hi && dim_prove_le(p->ctx, dim_const(p->ctx, 0), r.lo) &&
	       dim_prove_lt(p->ctx, r.hi, n);
}

/* ---- Views ---- */

Expr *ex_inside(ExprPool *p, Expr *a, Expr *n)
{
	return ex_and(p, ex_op2(p, IN_ge, a, ex_int(p, CT_I64, 0)), ex_op2(p, IN_lt, a, n));
}

bool affine_add_term(Ctx *c, Affine *a, Iter *it, Dim *coef)
{
	for (int i = 0; i < a->n; i++)
		if (a->iter[i] == it) {
			a->coef[i] = dim_add(c, a->coef[i], coef);
			return true;
		}
	if (a->n == MAX_ITERS)
		return false;
	a->iter[a->n] = it;
	a->coef[a->n++] = coef;
	return true;
}

/* Has no pool for a normal form, so it walks the sums directly. */
static bool affine_add(Ctx *c, Expr *e, Dim *k, Affine *out)
{
	int64_t v;

	switch (e->kind) {
	case EX_CONST:
		out->base = dim_add(c, out->base, dim_mul(c, k, dim_const(c, e->i)));
		return true;
	case EX_DIM: out->base = dim_add(c, out->base, dim_mul(c, k, e->dim)); return true;
	case EX_ITER: return affine_add_term(c, out, e->iter, k);
	case EX_INST: break;
	case EX_LOAD:
	case EX_PARAM: return false;
	}
	if (e->op.inst == IN_add)
		return affine_add(c, e->op.arg[0], k, out) && affine_add(c, e->op.arg[1], k, out);
	if (e->op.inst != IN_mul)
		return false;
	for (int i = 0; i < 2; i++) {
		Expr *f = e->op.arg[i];

		if (f->kind != EX_CONST && f->kind != EX_DIM)
			continue;
		v = f->kind == EX_CONST ? f->i : 0;
		return affine_add(c, e->op.arg[1 - i],
				  dim_mul(c, k, f->kind == EX_DIM ? f->dim : dim_const(c, v)), out);
	}
	return false;
}

bool ex_affine(Ctx *c, Expr *e, Affine *out)
{
	int n = 0;

	out->n = 0;
	out->base = dim_const(c, 0);
	if (e->ct != CT_I64 || !affine_add(c, e, dim_const(c, 1), out))
		return false;
	for (int i = 0; i < out->n; i++) {
		if (is_const_zero(out->coef[i]))
			continue;
		out->iter[n] = out->iter[i];
		out->coef[n++] = out->coef[i];
	}
	out->n = n;
	return true;
}

Expr *ex_from_affine(ExprPool *p, const Affine *a)
{
	Expr *e = ex_dim(p, a->base);

	for (int i = 0; i < a->n; i++)
		e = ex_add(p, e, ex_mul(p, ex_iter(p, a->iter[i]), ex_dim(p, a->coef[i])));
	return e;
}

Dim *affine_coef(Ctx *c, const Affine *a, const Iter *it)
{
	for (int i = 0; i < a->n; i++)
		if (a->iter[i] == it)
			return a->coef[i];
	return dim_const(c, 0);
}

bool affine_aligned(Ctx *c, const Affine *a, const Iter *but, int64_t n)
{
	for (int i = 0; i < a->n; i++)
		if (a->iter[i] != but && !dim_multiple(c, a->coef[i], n))
			return false;
	return dim_multiple(c, a->base, n);
}

static bool is_multiple(Ctx *c, const Expr *e, int n)
{
	Expr *const *arg = e->kind == EX_INST ? e->op.arg : NULL;

	if (e->kind == EX_CONST)
		return e->i % n == 0;
	if (e->kind == EX_DIM)
		return dim_multiple(c, e->dim, n);
	if (ex_is_op(e, IN_mul))
		return is_multiple(c, arg[0], n) || is_multiple(c, arg[1], n);
	return ex_is_op(e, IN_add) && is_multiple(c, arg[0], n) && is_multiple(c, arg[1], n);
}

bool ex_aligned_along(Ctx *c, Expr *e, const Iter *it, int n)
{
	Affine a;

	if (ex_affine(c, e, &a))
		return dim_equals(affine_coef(c, &a, it), 1) && affine_aligned(c, &a, it, n);
	for (int i = 0; i < 2 && ex_is_op(e, IN_add); i++)
		if (is_multiple(c, e->op.arg[!i], n) && !expr_has_iter(e->op.arg[!i], it) &&
		    ex_aligned_along(c, e->op.arg[i], it, n))
			return true;
	return false;
}

Dim *ex_step(Ctx *c, Expr *e, const Iter *it)
{
	if (!expr_has_iter(e, it))
		return dim_const(c, 0);
	if (e->kind == EX_ITER)
		return dim_const(c, 1);
	if (e->kind != EX_INST || e->ct != CT_I64)
		return NULL;
	if (e->op.inst == IN_add) {
		Dim *a = ex_step(c, e->op.arg[0], it), *b = ex_step(c, e->op.arg[1], it);

		return a && b ? dim_add(c, a, b) : NULL;
	}
	for (int i = 0; e->op.inst == IN_mul && i < 2; i++) {
		const Expr *f = e->op.arg[i];
		Dim *k = f->kind == EX_CONST ? dim_const(c, f->i)
			 : f->kind == EX_DIM ? f->dim
					     : NULL,
		    *step = k ? ex_step(c, e->op.arg[1 - i], it) : NULL;

		if (k)
			return step ? dim_mul(c, k, step) : NULL;
	}
	return NULL;
}

bool ex_const_step(Ctx *c, Expr *e, const Iter *it, int64_t *step)
{
	const Dim *d = ex_step(c, e, it);

	return d && dim_is_const(d, step);
}

bool ex_runs_along(Ctx *c, Expr *e, const Iter *it)
{
	Affine a;

	return ex_affine(c, e, &a) && dim_equals(affine_coef(c, &a, it), 1);
}
