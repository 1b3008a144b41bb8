/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Properties of a dim that hold for all values of its symbols: intervals, and proofs that a dim is
 * not negative.
 *
 * A proof tries, in this order:
 *
 *   - the interval of the dim
 *   - every atom is written as its lower bound plus a nonnegative rest; the dim is nonnegative if
 *     the resulting polynomial has no negative coefficient; then the same with upper bounds
 *   - one opaque atom is replaced by its bounds: floor(x, m) is in [(x - m + 1)/m, x/m], and a min
 *     or max equals one of its arguments
 *
 * That B - A is not negative proves A <= B; so do the intervals of A and B.
 *
 * The number of steps and the size of the polynomials are limited, so a proof may fail to be found.
 */
#include "ir/dim/dim_impl.h"

enum { PROOF_STEPS = 96, PROOF_SIZE = 160 };

/* ---- Intervals, saturating at DIM_INF ---- */

typedef struct IntRange {
	int64_t lo, hi;
} IntRange;

static const IntRange unknown = {-DIM_INF, DIM_INF};

static int64_t clamp(int64_t v)
{
	return v < -DIM_INF ? -DIM_INF : v;
}

static int64_t sat_add(int64_t a, int64_t b, int64_t inf)
{
	int64_t v;

	if (a == inf || b == inf)
		return inf;
	if (__builtin_add_overflow(a, b, &v))
		return a < 0 ? -DIM_INF : DIM_INF;
	return clamp(v);
}

static int64_t sat_mul(int64_t a, int64_t b)
{
	int64_t v;

	if (__builtin_mul_overflow(a, b, &v))
		return (a < 0) != (b < 0) ? -DIM_INF : DIM_INF;
	return clamp(v);
}

static IntRange range_add(IntRange a, IntRange b)
{
	return (IntRange){sat_add(a.lo, b.lo, -DIM_INF), sat_add(a.hi, b.hi, DIM_INF)};
}

static IntRange range_hull(const int64_t *v, int n)
{
	IntRange r = {v[0], v[0]};

	for (int i = 1; i < n; i++) {
		r.lo = v[i] < r.lo ? v[i] : r.lo;
		r.hi = v[i] > r.hi ? v[i] : r.hi;
	}
	return r;
}

static bool is_inf(int64_t v)
{
	return v == DIM_INF || v == -DIM_INF;
}

/* An infinite bound times 0 is 0; times anything else it is infinite. */
static int64_t bound_mul(int64_t a, int64_t b)
{
	if (!a || !b)
		return 0;
	if (is_inf(a) || is_inf(b))
		return (a < 0) != (b < 0) ? -DIM_INF : DIM_INF;
	return sat_mul(a, b);
}

static IntRange range_mul(IntRange a, IntRange b)
{
	int64_t v[4] = {bound_mul(a.lo, b.lo), bound_mul(a.lo, b.hi), bound_mul(a.hi, b.lo),
			bound_mul(a.hi, b.hi)};

	return range_hull(v, 4);
}

static int64_t bound_floordiv(int64_t a, int64_t b)
{
	if (is_inf(a))
		return a;
	if (b == DIM_INF)
		return a < 0 ? -1 : 0;
	return int_floordiv(a, b);
}

/* A divisor of 0 gives 0. Negative divisors are not analysed. */
static IntRange range_floordiv(IntRange a, IntRange b)
{
	IntRange r;

	if (b.lo < 0 || b.hi < 1)
		return unknown;
	int64_t least = b.lo ? b.lo : 1;
	int64_t v[5] = {bound_floordiv(a.lo, least), bound_floordiv(a.lo, b.hi),
			bound_floordiv(a.hi, least), bound_floordiv(a.hi, b.hi), 0};

	r = range_hull(v, b.lo ? 4 : 5);
	return r;
}

static IntRange range_of(const Dim *d);

static IntRange extreme_range(const Atom *a)
{
	IntRange r = range_of(a->arg[0]);
	bool max = a->kind == ATOM_MAX;

	for (int i = 1; i < a->n; i++) {
		IntRange x = range_of(a->arg[i]);

		r.lo = (max ? x.lo > r.lo : x.lo < r.lo) ? x.lo : r.lo;
		r.hi = (max ? x.hi > r.hi : x.hi < r.hi) ? x.hi : r.hi;
	}
	if (a->fixed_sum && a->sum > -DIM_INF) { /* the maximum is at least the mean */
		int64_t mean = max ? -int_floordiv(-a->sum, a->n) : int_floordiv(a->sum, a->n);

		if (max && mean > r.lo)
			r.lo = mean;
		if (!max && mean < r.hi)
			r.hi = mean;
	}
	return r;
}

static IntRange atom_range(const Atom *a)
{
	switch (a->kind) {
	case ATOM_SYM: return (IntRange){clamp(a->sym->lo), a->sym->hi};
	case ATOM_FLOOR: return range_floordiv(range_of(a->arg[0]), range_of(a->arg[1]));
	case ATOM_ADD: return range_add(range_of(a->arg[0]), range_of(a->arg[1]));
	case ATOM_MUL: return range_mul(range_of(a->arg[0]), range_of(a->arg[1]));
	default: return extreme_range(a);
	}
}

static IntRange range_of(const Dim *d)
{
	IntRange sum = {0, 0};

	for (int i = 0; i < d->n; i++) {
		IntRange r = {clamp(d->t[i].coef), clamp(d->t[i].coef)};

		for (int k = 0; k < d->t[i].n; k++) {
			IntRange x = atom_range(d->t[i].f[k].atom), p = x;

			for (int j = 1; j < d->t[i].f[k].pow; j++)
				p = range_mul(p, x);
			if (d->t[i].f[k].pow % 2 == 0 && p.lo < 0)
				p.lo = 0;
			r = range_mul(r, p);
		}
		sum = range_add(sum, r);
	}
	return sum;
}

void dim_interval(const Dim *d, int64_t *lo, int64_t *hi)
{
	IntRange r = range_of(d);

	*lo = r.lo;
	*hi = r.hi;
}

static void atom_interval(const Atom *a, int64_t *lo, int64_t *hi)
{
	IntRange r = atom_range(a);

	*lo = r.lo;
	*hi = r.hi;
}

/* ---- Proofs ---- */

static int negative_terms(const Dim *d)
{
	int n = 0;

	for (int i = 0; i < d->n; i++)
		n += d->t[i].coef < 0;
	return n;
}

typedef struct AtomList {
	Atom *at[32];
	int n;
} AtomList;

static bool atoms_of(const Dim *d, AtomList *l)
{
	l->n = 0;
	for (int i = 0; i < d->n; i++)
		for (int k = 0; k < d->t[i].n; k++) {
			int j = 0;

			while (j < l->n && l->at[j] != d->t[i].f[k].atom)
				j++;
			if (j == 32)
				return false;
			l->at[j] = d->t[i].f[k].atom;
			l->n += j == l->n;
		}
	return true;
}

/* D with A replaced by K + SIGN*A, so that A now stands for its distance from the bound K. */
static bool shift(Ctx *c, const Dim *d, const Atom *a, int64_t k, int sign, Dim **out)
{
	Dim *with;

	return poly_add(c, dim_const(c, k), sign, a->dim, &with) &&
	       poly_replace(c, d, a, with, out);
}

static bool nonneg_shifted(Ctx *c, const Dim *d, int *steps)
{
	AtomList l;
	Dim *e = dim_make(c, d->t, d->n), *f;
	int64_t lo, hi;

	if (!atoms_of(d, &l))
		return false;
	*steps -= l.n;
	for (int i = 0; i < l.n; i++) {
		atom_interval(l.at[i], &lo, &hi);
		if (lo == -DIM_INF && hi == DIM_INF)
			return false;
		if (lo != 0 &&
		    !shift(c, e, l.at[i], lo == -DIM_INF ? hi : lo, lo == -DIM_INF ? -1 : 1, &e))
			return false;
	}
	for (int i = 0; i < l.n && negative_terms(e); i++) {
		atom_interval(l.at[i], &lo, &hi);
		if (lo == -DIM_INF || hi == DIM_INF || __builtin_sub_overflow(hi, lo, &hi))
			continue;
		if (shift(c, e, l.at[i], hi, -1, &f) && negative_terms(f) < negative_terms(e))
			e = f;
	}
	return !negative_terms(e);
}

static bool nonneg(Ctx *c, const Dim *d, int *steps);

static bool appears_beside(const Dim *d, const Atom *a, const Term *alone)
{
	for (int i = 0; i < d->n; i++)
		for (int k = 0; k < d->t[i].n; k++)
			if (d->t[i].f[k].atom == a && &d->t[i] != alone)
				return true;
	return false;
}

/* Proves K*F + rest >= 0, where F = floor(x, m) and m >= 1, from m*F <= x and m*F >= x - m + 1. */
static bool nonneg_floor(Ctx *c, const Dim *d, const Term *t, int *steps)
{
	const Atom *a = term_atom(t);
	Dim *x = a->arg[0], *m = a->arg[1], *rest;
	int64_t lo, hi;

	dim_interval(m, &lo, &hi);
	if (lo < 1)
		return false;
	if (t->coef > 0 && (!poly_add(c, x, -1, m, &x) || !poly_add(c, x, 1, dim_const(c, 1), &x)))
		return false;
	return poly_add(c, d, -1, dim_from_term(c, *t), &rest) && poly_mul(c, rest, m, &rest) &&
	       poly_add(c, rest, t->coef, x, &rest) && nonneg(c, rest, steps);
}

static bool nonneg_extreme(Ctx *c, const Dim *d, const Atom *a, bool any, int *steps)
{
	Dim *e;

	for (int i = 0; i < a->n; i++) {
		bool ok = poly_replace(c, d, a, a->arg[i], &e) && nonneg(c, e, steps);

		if (ok == any)
			return any;
	}
	return !any;
}

/* Eliminates one opaque atom: a min or max if there is one, else a floor. */
static bool nonneg_opaque(Ctx *c, const Dim *d, int *steps)
{
	for (int i = 0; i < d->n; i++)
		for (int k = 0; k < d->t[i].n; k++) {
			const Atom *a = d->t[i].f[k].atom;
			bool alone = term_atom(&d->t[i]) && !appears_beside(d, a, &d->t[i]);
			bool up = (a->kind == ATOM_MAX) == (d->t[i].coef > 0);

			if (a->kind == ATOM_MIN || a->kind == ATOM_MAX)
				return nonneg_extreme(c, d, a, alone && up, steps);
		}
	for (int i = 0; i < d->n; i++) {
		const Atom *a = term_atom(&d->t[i]);

		if (a && a->kind == ATOM_FLOOR && !appears_beside(d, a, &d->t[i]))
			return nonneg_floor(c, d, &d->t[i], steps);
	}
	return false;
}

static bool nonneg(Ctx *c, const Dim *d, int *steps)
{
	int64_t lo, hi;

	dim_interval(d, &lo, &hi);
	if (lo >= 0)
		return true;
	if (hi < 0 || dim_is_const(d, NULL) || --*steps < 0 || d->size > PROOF_SIZE)
		return false;
	return nonneg_shifted(c, d, steps) || nonneg_opaque(c, d, steps);
}

bool dim_nonneg(Ctx *c, Dim *d)
{
	int steps = PROOF_STEPS;

	if (d->proved != dim_bounds_changed(c)) {
		d->nonneg = nonneg(c, d, &steps);
		d->proved = dim_bounds_changed(c);
	}
	return d->nonneg;
}

/* Whether the largest value of A is below the smallest of B, or OR_EQUAL to it. Values are numbers
 * of 64 bits, so INT64_MIN and INT64_MAX are bounds of every dim; the difference of A and B may
 * need more. */
static bool apart(const Dim *a, const Dim *b, bool or_equal)
{
	int64_t most = range_of(a).hi, least = range_of(b).lo;

	if (!dim_is_const(a, &most) && is_inf(most))
		most = INT64_MAX;
	if (!dim_is_const(b, &least) && is_inf(least))
		least = INT64_MIN;
	return most < least || (or_equal && most == least);
}

bool dim_prove_le(Ctx *c, Dim *a, Dim *b)
{
	Dim *d;

	return a == b || (poly_add(c, b, -1, a, &d) && dim_nonneg(c, d)) || apart(a, b, true);
}

bool dim_prove_lt(Ctx *c, Dim *a, Dim *b)
{
	Dim *d;

	return a != b && ((poly_add(c, b, -1, a, &d) && poly_add(c, d, 1, dim_const(c, -1), &d) &&
			   dim_nonneg(c, d)) ||
			  apart(a, b, false));
}

void dim_bounds(Ctx *c, Dim *d, int64_t *lo, int64_t *hi)
{
	IntRange r = range_of(d);

	if (r.lo < 0 && r.hi >= 0 && dim_nonneg(c, d))
		r.lo = 0;
	*lo = r.lo;
	*hi = r.hi;
}
