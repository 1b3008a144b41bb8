/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a dim is made, for the ir/dim*.c files alone. A Dim is a sum of terms, greatest first; a term is
 * a coefficient times atoms to a power, in atom order; an atom is a symbol or an opaque term over
 * other dims. Terms are ordered by degree, then lexicographically, so that multiplying by a term keeps
 * the order and multivariate division terminates. Everything is ordered by names and structure, never by
 * address or age, so that text read back in another context comes out the same.
 *
 * Sizes are limited (DIM_MAX_*): what grows over them is an opaque term, and past that an error of
 * the context's diagnostics, so that a hostile model costs neither time nor stack.
 */
#ifndef IR_DIM_IMPL_H
#define IR_DIM_IMPL_H

#include "ir/dim.h"

enum {
	DIM_MAX_TERMS = 128,
	DIM_MAX_FACTORS = 24,
	DIM_MAX_POW = 1000,
	DIM_MAX_ARGS = 24,
	DIM_MAX_DEPTH = 100,
	DIM_MAX_SIZE = 4000,
	DIM_MAX_PRODUCT = 500 /* a product of sums that would be longer is not multiplied out */
};

/* ATOM_ADD and ATOM_MUL stand where a coefficient would overflow, or a product of sums would be long. */
typedef enum AtomKind { ATOM_SYM, ATOM_FLOOR, ATOM_MIN, ATOM_MAX, ATOM_ADD, ATOM_MUL } AtomKind;

typedef struct Atom {
	AtomKind kind;
	int n; /* args */
	int depth, size;
	uint64_t hash;
	Sym *sym;
	Dim **arg;
	Dim *dim;	/* the atom as a dim */
	bool fixed_sum; /* of a min or max: the args sum to a constant, */
	int64_t sum;	/* which is this */
} Atom;

typedef struct Factor {
	Atom *atom;
	int pow;
} Factor;

typedef struct Term {
	int64_t coef;
	int n, degree;
	Factor *f;
} Term;

struct Dim {
	uint64_t hash;
	int n, depth, size;
	int proved; /* what dim_nonneg found, or could not, when this was the count of changed bounds; 0: not asked */
	bool nonneg;
	Sym *named; /* the symbol that stands for it (dim_named), or null */
	Term *t;
};

struct DimTable *dim_table_new(Ctx *c);
/* 1 and, for every sym_bound, one more. */
int dim_bounds_changed(const Ctx *c);
/* What is past the limits: an error at Diag.where, and a symbol that stands for it. */
Dim *dim_too_complex(Ctx *c);

int atom_cmp(const Atom *a, const Atom *b);
/* Of the monomials: > 0 where A is the greater. */
int term_cmp(const Term *a, const Term *b);
int dim_cmp(const Dim *a, const Dim *b);

/* The dim with these terms, which are in order, combined and not zero. */
Dim *dim_make(Ctx *c, const Term *t, int n);
Dim *dim_from_term(Ctx *c, Term t);
/* An opaque term as it stands: no rule is tried. */
Dim *dim_atom(Ctx *c, AtomKind kind, Dim *const *arg, int n);
/* The constant part, which is the last term. */
int64_t dim_const_part(const Dim *d);
/* A term that is one atom to the first power. */
static inline Atom *term_atom(const Term *t)
{
	return t->n == 1 && t->f[0].pow == 1 ? t->f[0].atom : NULL;
}

/* A + k*B, A*B and A*T; false where a coefficient overflows or the result is too large. */
bool poly_add(Ctx *c, const Dim *a, int64_t k, const Dim *b, Dim **out);
bool poly_mul(Ctx *c, const Dim *a, const Dim *b, Dim **out);
bool poly_mul_term(Ctx *c, const Dim *a, const Term *t, Dim **out);
/* D with every occurrence of the atom at the top level replaced. */
bool poly_replace(Ctx *c, const Dim *d, const Atom *a, const Dim *with, Dim **out);
/* A = Q*B + R with no term of R divisible by B's first; false where that grows too large. */
bool poly_divmod(Ctx *c, const Dim *a, const Dim *b, Dim **q, Dim **r);

/* Min or max of N dims, in normal form. */
Dim *dim_extreme(Ctx *c, AtomKind kind, Dim *const *arg, int n);
/* Interval arithmetic alone. */
void dim_interval(const Dim *d, int64_t *lo, int64_t *hi);
void atom_interval(const Atom *a, int64_t *lo, int64_t *hi);
/* D >= 0 for all values of the symbols within their bounds, proved. */
bool dim_nonneg(Ctx *c, Dim *d);

int64_t int_floordiv(int64_t a, int64_t b); /* B not 0, not INT64_MIN / -1 */
uint64_t int_gcd(uint64_t a, uint64_t b);
static inline uint64_t int_mag(int64_t v)
{
	return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

#endif
