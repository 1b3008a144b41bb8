/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of polynomials. A result that would be too large becomes an opaque term. */
#include "ir/dim/dim_impl.h"

#include <string.h>

bool dim_is_const(const Dim *d, int64_t *v)
{
	if (d->n > 1 || (d->n == 1 && d->t[0].n))
		return false;
	if (v)
		*v = d->n ? d->t[0].coef : 0;
	return true;
}

Dim *dims_product(Ctx *c, Dim *const *d, int n)
{
	Dim *p = dim_const(c, 1);

	for (int i = 0; i < n; i++)
		p = dim_mul(c, p, d[i]);
	return p;
}

bool dims_are_const(Dim *const *d, int n)
{
	for (int i = 0; i < n; i++)
		if (!dim_is_const(d[i], NULL))
			return false;
	return true;
}

bool dim_equals(const Dim *d, int64_t v)
{
	int64_t k;

	return dim_is_const(d, &k) && k == v;
}

bool dim_has_opaque(const Dim *d)
{
	for (int i = 0; i < d->n; i++)
		for (int k = 0; k < d->t[i].n; k++) {
			const Atom *a = d->t[i].f[k].atom;

			if (a->kind == ATOM_ADD || a->kind == ATOM_MUL)
				return true;
			for (int j = 0; j < a->n; j++)
				if (dim_has_opaque(a->arg[j]))
					return true;
		}
	return false;
}

int64_t dim_const_part(const Dim *d)
{
	return d->n && !d->t[d->n - 1].n ? d->t[d->n - 1].coef : 0;
}

bool poly_add(Ctx *c, const Dim *a, int64_t k, const Dim *b, Dim **out)
{
	Term t[DIM_MAX_TERMS * 2];
	int n = 0, i = 0, j = 0;

	while (i < a->n || j < b->n) {
		int64_t v = 0;
		int order = i == a->n ? -1 : j == b->n ? 1 : term_cmp(&a->t[i], &b->t[j]);

		t[n] = order >= 0 ? a->t[i] : b->t[j];
		if (order <= 0 && __builtin_mul_overflow(b->t[j].coef, k, &v))
			return false;
		if (order >= 0 && __builtin_add_overflow(v, a->t[i].coef, &v))
			return false;
		t[n].coef = v;
		n += v != 0;
		i += order >= 0;
		j += order <= 0;
	}
	if (n > DIM_MAX_TERMS)
		return false;
	*out = dim_make(c, t, n);
	return true;
}

static bool term_mul(const Term *a, const Term *b, Term *out)
{
	int n = 0, i = 0, j = 0;

	if (a->n + b->n > DIM_MAX_FACTORS || __builtin_mul_overflow(a->coef, b->coef, &out->coef))
		return false;
	while (i < a->n || j < b->n) {
		int order = i == a->n ? 1 : j == b->n ? -1 : atom_cmp(a->f[i].atom, b->f[j].atom);
		Factor f = order <= 0 ? a->f[i] : b->f[j];

		if (!order)
			f.pow += b->f[j].pow;
		if (f.pow > DIM_MAX_POW)
			return false;
		out->f[n++] = f;
		i += order <= 0;
		j += order >= 0;
	}
	out->n = n;
	out->degree = a->degree + b->degree;
	return true;
}

bool poly_mul_term(Ctx *c, const Dim *a, const Term *t, Dim **out)
{
	Term to[DIM_MAX_TERMS];
	Factor f[DIM_MAX_TERMS][DIM_MAX_FACTORS];

	for (int i = 0; i < a->n; i++) {
		to[i].f = f[i];
		if (!term_mul(&a->t[i], t, &to[i]))
			return false;
	}
	*out = dim_make(c, to, t->coef ? a->n : 0);
	return true;
}

bool poly_mul(Ctx *c, const Dim *a, const Dim *b, Dim **out)
{
	Dim *sum = dim_const(c, 0), *part;
	int64_t k;

	if (dim_is_const(a, &k))
		return poly_add(c, sum, k, b, out);
	if (dim_is_const(b, &k))
		return poly_add(c, sum, k, a, out);
	if (a->n * b->n > DIM_MAX_TERMS ||
	    ((a->n > 1 || b->n > 1) && a->n * b->size + b->n * a->size > DIM_MAX_PRODUCT))
		return false;
	for (int j = 0; j < b->n; j++)
		if (!poly_mul_term(c, a, &b->t[j], &part) || !poly_add(c, sum, 1, part, &sum))
			return false;
	*out = sum;
	return true;
}

/* *OUT is the term without atom A; returns A's power in it. */
static int term_without(const Term *t, const Atom *a, Term *out, Factor *f)
{
	int pow = 0;

	*out = (Term){t->coef, 0, 0, f};
	for (int k = 0; k < t->n; k++) {
		if (t->f[k].atom == a) {
			pow = t->f[k].pow;
			continue;
		}
		out->f[out->n++] = t->f[k];
		out->degree += t->f[k].pow;
	}
	return pow;
}

bool poly_replace(Ctx *c, const Dim *d, const Atom *a, const Dim *with, Dim **out)
{
	Dim *sum = dim_const(c, 0), *part;
	Factor f[DIM_MAX_FACTORS];
	Term rest;

	for (int i = 0; i < d->n; i++) {
		int pow = term_without(&d->t[i], a, &rest, f);

		if (pow > 4)
			return false;
		part = dim_from_term(c, rest);
		for (int k = 0; k < pow; k++)
			if (!poly_mul(c, part, with, &part))
				return false;
		if (!poly_add(c, sum, 1, part, &sum))
			return false;
	}
	*out = sum;
	return true;
}

/* The opaque sum or product of A and B, with the greater operand first. */
static Dim *opaque(Ctx *c, AtomKind kind, Dim *a, Dim *b)
{
	Dim *arg[2] = {a, b};

	if (dim_cmp(a, b) > 0)
		arg[0] = b, arg[1] = a;
	return dim_atom(c, kind, arg, 2);
}

Dim *dim_add(Ctx *c, Dim *a, Dim *b)
{
	Dim *out;

	return poly_add(c, a, 1, b, &out) ? out : opaque(c, ATOM_ADD, a, b);
}

Dim *dim_mul(Ctx *c, Dim *a, Dim *b)
{
	Dim *out;

	if (dim_equals(a, 0) || dim_equals(b, 0))
		return dim_const(c, 0);
	return poly_mul(c, a, b, &out) ? out : opaque(c, ATOM_MUL, a, b);
}

Dim *dim_sub(Ctx *c, Dim *a, Dim *b)
{
	Dim *out;

	return poly_add(c, a, -1, b, &out) ? out : dim_add(c, a, dim_mul(c, dim_const(c, -1), b));
}
