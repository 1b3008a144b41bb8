/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normal forms of floor, min and max. A rule that applies rewrites its operands and starts over; an
 * atom is made only when no rule applies. So rebuilding a dim from its parts gives the same dim.
 */
#include "ir/dim/dim_impl.h"

#include <assert.h>

int64_t int_floordiv(int64_t a, int64_t b)
{
	int64_t q = a / b;

	return q - (a % b != 0 && (a < 0) != (b < 0));
}

static uint64_t int_gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

/* ---- Division ---- */

/* A's monomial divided by B's. F is room for the factors. */
static bool mono_div(const Term *a, const Term *b, Factor *f, Term *out)
{
	int j = 0;

	*out = (Term){1, 0, a->degree - b->degree, f};
	for (int i = 0; i < a->n; i++) {
		Factor x = a->f[i];

		if (j < b->n && b->f[j].atom == x.atom)
			x.pow -= b->f[j++].pow;
		if (x.pow < 0)
			return false;
		if (x.pow)
			f[out->n++] = x;
	}
	return j == b->n;
}

/* Divides: A = Q*B + R, where no term of R is divisible by B's leading term. False if the result
 * grows too large. */
static bool poly_divmod(Ctx *c, const Dim *a, const Dim *b, Dim **q, Dim **r)
{
	const Term *lead = &b->t[0];
	Factor f[DIM_MAX_FACTORS];
	Term t;
	int i = 0;

	assert(b->n && lead->coef > 0);
	*q = dim_const(c, 0);
	*r = dim_make(c, a->t, a->n);
	for (int steps = 0; i < (*r)->n;) {
		Dim *part, *sub;

		if (!mono_div(&(*r)->t[i], lead, f, &t) ||
		    !(t.coef = int_floordiv((*r)->t[i].coef, lead->coef))) {
			i++;
			continue;
		}
		part = dim_from_term(c, t);
		if (++steps > DIM_MAX_TERMS || !poly_add(c, *q, 1, part, q) ||
		    !poly_mul_term(c, b, &t, &sub) || !poly_add(c, *r, -1, sub, r))
			return false;
		i = 0;
	}
	return true;
}

static bool poly_neg(Ctx *c, const Dim *d, Dim **out)
{
	return poly_add(c, dim_const(c, 0), -1, d, out);
}

bool dim_divides(Ctx *c, Dim *a, Dim *b, Dim **q)
{
	Dim *r, *quot;

	if (!b->n)
		return false;
	if (b->t[0].coef < 0 && (!poly_neg(c, a, &a) || !poly_neg(c, b, &b)))
		return false;
	if (!poly_divmod(c, a, b, &quot, &r) || !dim_equals(r, 0))
		return false;
	*q = quot;
	return true;
}

bool dim_multiple(Ctx *c, Dim *d, int64_t n)
{
	Dim *q;

	return dim_divides(c, d, dim_const(c, n), &q);
}

/* ---- Floor ---- */

/* Reduces COMMON to the greatest monomial that divides it and every term of D. */
static void common_mono(const Dim *d, Term *common)
{
	for (int i = 0; i < d->n; i++) {
		int n = 0;

		for (int k = 0; k < common->n; k++) {
			int pow = 0;

			for (int j = 0; j < d->t[i].n; j++)
				if (d->t[i].f[j].atom == common->f[k].atom)
					pow = d->t[i].f[j].pow;
			if (pow > common->f[k].pow)
				pow = common->f[k].pow;
			if (pow)
				common->f[n++] = (Factor){common->f[k].atom, pow};
		}
		common->n = n;
	}
	common->degree = 0;
	for (int k = 0; k < common->n; k++)
		common->degree += common->f[k].pow;
}

/* The greatest common divisor of G and all coefficients of D; with the constant term if WHOLE. */
static uint64_t content(const Dim *d, uint64_t g, bool whole)
{
	for (int i = 0; i < d->n; i++)
		if (whole || d->t[i].n)
			g = int_gcd(int_mag(d->t[i].coef), g);
	return g;
}

/* D divided by a monomial whose coefficient divides every term. */
static Dim *divide_exact(Ctx *c, const Dim *d, const Term *by)
{
	Term t[DIM_MAX_TERMS];
	Factor f[DIM_MAX_TERMS][DIM_MAX_FACTORS];

	for (int i = 0; i < d->n; i++) {
		bool ok = mono_div(&d->t[i], by, f[i], &t[i]);

		assert(ok && d->t[i].coef % by->coef == 0);
		(void)ok;
		t[i].coef = d->t[i].coef / by->coef;
	}
	return dim_make(c, t, d->n);
}

/* (P*x)/(P*y) is x/y for the greatest common monomial P with its coefficient. */
static bool cancel_common(Ctx *c, Dim **a, Dim **b)
{
	Factor f[DIM_MAX_FACTORS];
	Term common = {1, (*b)->t[0].n, 0, f};
	uint64_t g = content(*b, content(*a, 0, true), true);

	for (int k = 0; k < common.n; k++)
		f[k] = (*b)->t[0].f[k];
	common_mono(*a, &common);
	common_mono(*b, &common);
	if (g > INT64_MAX || (g == 1 && !common.n))
		return false;
	common.coef = (int64_t)g;
	*a = divide_exact(c, *a, &common);
	*b = divide_exact(c, *b, &common);
	return true;
}

/* floor((g*P + k)/(g*Q)) is floor((P + floor(k/g))/Q) for Q >= 0. */
static bool cancel_content(Ctx *c, Dim **a, Dim **b)
{
	uint64_t g = content(*b, content(*a, 0, false), true);
	int64_t low;
	Factor none;
	Term by = {0, 0, 0, &none};
	Dim *rest;

	if (g <= 1 || g > INT64_MAX || !dim_nonneg(c, *b))
		return false;
	by.coef = (int64_t)g;
	low = dim_const_part(*a) % by.coef;
	low += low < 0 ? by.coef : 0;
	if (!low || !poly_add(c, *a, -1, dim_const(c, low), &rest))
		return false;
	*a = divide_exact(c, rest, &by);
	*b = divide_exact(c, *b, &by);
	return true;
}

/* floor((floor(x/m) + P)/b) is floor((x + m*P)/(m*b)) for b >= 0. */
static bool unnest(Ctx *c, Dim **a, Dim **b)
{
	Dim *rest, *div;

	for (int i = 0; i < (*a)->n; i++) {
		const Term *t = &(*a)->t[i];
		const Atom *in = term_atom(t);

		if (!in || in->kind != ATOM_FLOOR || t->coef != 1)
			continue;
		if (!poly_add(c, *a, -1, in->dim, &rest) || !dim_nonneg(c, *b))
			return false;
		if (!dim_is_const(in->arg[1], NULL) && !dim_is_const(rest, NULL))
			continue;
		if (!poly_mul(c, rest, in->arg[1], &rest) ||
		    !poly_add(c, rest, 1, in->arg[0], &rest) || !poly_mul(c, *b, in->arg[1], &div))
			return false;
		*a = rest;
		*b = div;
		return true;
	}
	return false;
}

/* Whether bounds decide floor(a/b): 0 <= a < b gives 0, -b <= a < 0 gives -1, or only one value
 * is possible. */
static bool decided(Ctx *c, Dim *a, Dim *b, int64_t *v)
{
	int64_t al, ah, bl, bh;
	Dim *sum;

	dim_interval(a, &al, &ah);
	dim_interval(b, &bl, &bh);
	if (bl == bh && bl > 0 && al != -DIM_INF && ah != DIM_INF) {
		*v = int_floordiv(al, bl);
		if (*v == int_floordiv(ah, bl))
			return true;
	}
	*v = 0;
	if (dim_prove_lt(c, a, b) && dim_nonneg(c, a))
		return true;
	*v = -1;
	return dim_prove_lt(c, a, dim_const(c, 0)) && bl >= 1 && poly_add(c, a, 1, b, &sum) &&
	       dim_nonneg(c, sum);
}

static bool floor_consts(Dim *a, Dim *b, int64_t *v)
{
	int64_t x, y;

	*v = 0;
	if (dim_equals(a, 0) || dim_equals(b, 0))
		return true;
	if (!dim_is_const(a, &x) || !dim_is_const(b, &y) || (x == INT64_MIN && y == -1))
		return false;
	*v = int_floordiv(x, y);
	return true;
}

Dim *dim_floordiv(Ctx *c, Dim *a, Dim *b)
{
	Dim *q, *r, *x, *y;
	int64_t v;

	for (;;) {
		if (floor_consts(a, b, &v))
			return dim_const(c, v);
		if (b->t[0].coef < 0) {
			if (!poly_neg(c, a, &x) || !poly_neg(c, b, &y))
				break;
			a = x, b = y;
		} else if (dim_equals(b, 1)) {
			return a;
		} else if (cancel_common(c, &a, &b)) {
			continue;
		} else if (decided(c, a, b, &v)) {
			return dim_const(c, v);
		} else if (poly_divmod(c, a, b, &q, &r) && !dim_equals(q, 0)) {
			return dim_add(c, q, dim_floordiv(c, r, b));
		} else if (!cancel_content(c, &a, &b) && !unnest(c, &a, &b)) {
			break;
		}
	}
	return dim_atom(c, ATOM_FLOOR, (Dim *[]){a, b}, 2);
}

Dim *dim_ceildiv(Ctx *c, Dim *a, Dim *b)
{
	Dim *up, *zero = dim_const(c, 0);

	if (b->n && b->t[0].coef < 0 && dim_is_const(b, NULL))
		return dim_ceildiv(c, dim_sub(c, zero, a), dim_sub(c, zero, b));
	if (dim_nonneg(c, b) && poly_add(c, a, 1, b, &up) &&
	    poly_add(c, up, 1, dim_const(c, -1), &up))
		return dim_floordiv(c, up, b);
	return dim_sub(c, zero, dim_floordiv(c, dim_sub(c, zero, a), b));
}

Dim *dim_mod(Ctx *c, Dim *a, Dim *b)
{
	return dim_sub(c, a, dim_mul(c, b, dim_floordiv(c, a, b)));
}

/* ---- Min and max ---- */

typedef struct Args {
	Dim *at[DIM_MAX_ARGS];
	int n;
} Args;

/* A min within a min (max within a max), plus some term, is replaced by its arguments plus that
 * term. */
static bool flatten(Ctx *c, AtomKind kind, Args *l)
{
	for (int i = 0; i < l->n; i++) {
		Dim *d = l->at[i], *rest;

		for (int k = 0; k < d->n; k++) {
			const Atom *a = term_atom(&d->t[k]);
			Args with = *l;
			bool ok = true;

			if (!a || a->kind != kind || d->t[k].coef != 1 ||
			    l->n - 1 + a->n > DIM_MAX_ARGS || !poly_add(c, d, -1, a->dim, &rest))
				continue;
			for (int j = 0; j < a->n && ok; j++)
				ok = poly_add(c, a->arg[j], 1, rest, &with.at[j ? with.n++ : i]);
			if (!ok)
				continue;
			*l = with;
			return true;
		}
	}
	return false;
}

static void sort_args(Args *l)
{
	for (int i = 1; i < l->n; i++) {
		Dim *d = l->at[i];
		int j = i;

		for (; j && dim_cmp(l->at[j - 1], d) > 0; j--)
			l->at[j] = l->at[j - 1];
		l->at[j] = d;
	}
}

static void drop_dominated(Ctx *c, AtomKind kind, Args *l)
{
	for (int i = 0; i < l->n; i++)
		for (int j = 0; j < l->n; j++) {
			Dim *win = l->at[i], *lose = l->at[j];
			bool gone = i != j && (win == lose ||
					       (kind == ATOM_MIN ? dim_prove_le(c, win, lose)
								 : dim_prove_le(c, lose, win)));

			if (!gone)
				continue;
			for (int k = j; k + 1 < l->n; k++)
				l->at[k] = l->at[k + 1];
			l->n--;
			i -= j < i;
			j--;
		}
}

static int64_t coef_of(const Dim *d, const Term *t)
{
	for (int i = 0; i < d->n; i++)
		if (!term_cmp(&d->t[i], t))
			return d->t[i].coef;
	return 0;
}

/* Takes terms that every argument has out of the min or max; also the constant of the first
 * argument that is not a constant. */
static Dim *pull_common(Ctx *c, Args *l)
{
	Dim *out = dim_const(c, 0), *first = l->at[0], *next[DIM_MAX_ARGS];
	bool ok = true;

	for (int k = 0; k < first->n && ok; k++) {
		bool all = first->t[k].n > 0;

		for (int i = 1; i < l->n; i++)
			all = all && coef_of(l->at[i], &first->t[k]) == first->t[k].coef;
		if (all)
			ok = poly_add(c, out, 1, dim_from_term(c, first->t[k]), &out);
	}
	for (int i = 0; i < l->n; i++)
		if (!dim_is_const(l->at[i], NULL)) {
			ok = ok &&
			     poly_add(c, out, 1, dim_const(c, dim_const_part(l->at[i])), &out);
			break;
		}
	for (int i = 0; i < l->n && ok; i++)
		ok = poly_add(c, l->at[i], -1, out, &next[i]);
	if (!ok)
		return dim_const(c, 0);
	for (int i = 0; i < l->n; i++)
		l->at[i] = next[i];
	return out;
}

static int64_t pull_content(Ctx *c, Args *l)
{
	Factor none;
	Term by = {1, 0, 0, &none};
	uint64_t g = 0;

	for (int i = 0; i < l->n; i++)
		g = content(l->at[i], g, true);
	if (g <= 1 || g > INT64_MAX)
		return 1;
	by.coef = (int64_t)g;
	for (int i = 0; i < l->n; i++)
		l->at[i] = divide_exact(c, l->at[i], &by);
	return by.coef;
}

Dim *dim_extreme(Ctx *c, AtomKind kind, Dim *const *arg, int n)
{
	Args l = {.n = n};
	Dim *out, *atom, *pulled;
	int64_t k;

	assert(n >= 1 && n <= DIM_MAX_ARGS);
	for (int i = 0; i < n; i++)
		l.at[i] = arg[i];
	while (flatten(c, kind, &l))
		;
	sort_args(&l);
	drop_dominated(c, kind, &l);
	if (l.n == 1)
		return l.at[0];
	out = dim_const(c, 0);
	do {
		pulled = pull_common(c, &l);
		out = dim_add(c, out, pulled);
		sort_args(&l);
	} while (!dim_equals(pulled, 0));
	k = pull_content(c, &l);
	atom = k > 1 ? dim_extreme(c, kind, l.at, l.n) : dim_atom(c, kind, l.at, l.n);
	return dim_add(c, out, dim_mul(c, dim_const(c, k), atom));
}

Dim *dim_min(Ctx *c, Dim *a, Dim *b)
{
	return dim_extreme(c, ATOM_MIN, (Dim *[]){a, b}, 2);
}
Dim *dim_max(Ctx *c, Dim *a, Dim *b)
{
	return dim_extreme(c, ATOM_MAX, (Dim *[]){a, b}, 2);
}

/* ---- Comparisons ---- */

/* Whether A - B is never 0: its terms are multiples of a number that does not divide its
 * constant. */
static bool never_zero(const Dim *d)
{
	uint64_t g = content(d, 0, false);

	return g && int_mag(dim_const_part(d)) % g;
}

Dim *dim_eq(Ctx *c, Dim *a, Dim *b)
{
	Dim *one = dim_const(c, 1), *d = dim_sub(c, a, b);

	if (a == b)
		return one;
	if (never_zero(d) || dim_prove_lt(c, a, b) || dim_prove_lt(c, b, a))
		return dim_const(c, 0);
	return dim_sub(c, one, dim_min(c, one, dim_max(c, d, dim_sub(c, b, a))));
}

/* The difference that a comparison made by dim_eq tests, from AT, its only opaque term. AT is
 * min(k, max(x, y)), where x and y are the difference and its negation plus the same constant, or
 * min(k, x), where the difference is known not to be negative. Null if AT has another form. */
static Dim *eq_difference(Ctx *c, const Atom *at)
{
	const int k = dim_is_const(at->arg[0], NULL);
	const Atom *most = at->arg[k]->n == 1 ? term_atom(&at->arg[k]->t[0]) : NULL;
	Dim *x;

	if (!most || most->kind != ATOM_MAX || most->n != 2)
		return dim_add(c, dim_sub(c, at->arg[k], at->arg[!k]), dim_const(c, 1));
	return dim_divides(c, dim_sub(c, most->arg[0], most->arg[1]), dim_const(c, 2), &x) ? x
											    : NULL;
}

Dim *dim_as_eq(Ctx *c, Dim *d)
{
	const Atom *at = d->n ? term_atom(&d->t[0]) : NULL;
	Dim *x = at && at->kind == ATOM_MIN && at->n == 2 ? eq_difference(c, at) : NULL;

	return x && dim_eq(c, x, dim_const(c, 0)) == d ? x : NULL;
}

Dim *dim_le(Ctx *c, Dim *a, Dim *b)
{
	Dim *zero = dim_const(c, 0), *one = dim_const(c, 1);

	if (dim_prove_le(c, a, b))
		return one;
	if (dim_prove_lt(c, b, a))
		return zero;
	return dim_min(c, one, dim_max(c, zero, dim_add(c, dim_sub(c, b, a), one)));
}

Dim *dim_select(Ctx *c, Dim *cond, Dim *a, Dim *b)
{
	return dim_add(c, b, dim_mul(c, cond, dim_sub(c, a, b)));
}
