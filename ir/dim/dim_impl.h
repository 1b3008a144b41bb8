/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The representation of dims; only files of ir/dim and ir/ctx.c may include this. A Dim is a sum of
 * terms in descending order. A term is a coefficient times powers of atoms, in the order of the
 * atoms. An atom is a symbol, or an opaque term over other dims. Terms are ordered by degree, then
 * lexicographically: multiplying by a term preserves the order, so multivariate division
 * terminates. All orders are by names and structure, never by address or age, so another context
 * that reads the text gets the same result.
 *
 * The size of a dim is limited (DIM_MAX_*). A dim that would exceed the limits becomes an opaque
 * term; if that is impossible, the context reports an error. So a hostile model can exhaust neither
 * time nor stack.
 */
#ifndef IR_DIM_DIM_IMPL_H
#define IR_DIM_DIM_IMPL_H

#include "ir/dim/dim.h"

enum {
	DIM_MAX_TERMS = 128,
	DIM_MAX_FACTORS = 24,
	DIM_MAX_POW = 1000,
	DIM_MAX_ARGS = 24,
	DIM_MAX_DEPTH = 100,
	DIM_MAX_SIZE = 4000,
	DIM_MAX_PRODUCT = 500 /* a product of sums that would be longer is not multiplied out */
};

/* ATOM_ADD and ATOM_MUL are sums and products whose coefficients would overflow, or that would
 * be too long. */
typedef enum AtomKind { ATOM_SYM, ATOM_FLOOR, ATOM_MIN, ATOM_MAX, ATOM_ADD, ATOM_MUL } AtomKind;

typedef struct Atom {
	AtomKind kind;
	int n; /* number of args */
	int depth, size;
	uint64_t hash;
	Sym *sym;
	Dim **arg;
	Dim *dim;	/* the atom as a dim */
	bool fixed_sum; /* of a min or max: whether the args sum to a constant, SUM */
	int64_t sum;
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
	/* a cached result of dim_nonneg: the value of dim_bounds_changed when it was proved, or
	 * was not; 0: not tried */
	int proved;
	bool nonneg;
	Sym *named; /* the symbol that abbreviates the dim (dim_named), or null */
	Sym *const *syms; /* dim_syms; dims that mention the same symbols may share a list */
	Term *t;
};

/* A term that is one atom to the first power. */
static inline Atom *term_atom(const Term *t)
{
	return t->n == 1 && t->f[0].pow == 1 ? t->f[0].atom : NULL;
}

static inline uint64_t int_mag(int64_t v)
{
	return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

/* ---- dim.c ---- */

struct DimTable *dim_table_new(Ctx *c);
/* A count: 1 plus the number of sym_bound calls so far. */
int dim_bounds_changed(const Ctx *c);
/* Reports a dim beyond the limits at Diag.where, and returns a symbol in its place. */
Dim *dim_too_complex(Ctx *c);
int atom_cmp(const Atom *a, const Atom *b);
/* Compares the monomials of A and B: > 0 if A is greater. */
int term_cmp(const Term *a, const Term *b);
/* The dim with the terms T, which are sorted, combined and nonzero. */
Dim *dim_make(Ctx *c, const Term *t, int n);
Dim *dim_from_term(Ctx *c, Term t);
/* Makes an opaque term without simplifying it, except that a term without symbols becomes its
 * value. */
Dim *dim_atom(Ctx *c, AtomKind kind, Dim *const *arg, int n);

/* ---- dim_subst.c ---- */

/* As dim_eval. */
bool atom_eval(const Atom *a, const int64_t *sym, int64_t *out);

/* ---- dim_poly.c ---- */

/* A + k*B, A*B and A*T; false where a coefficient overflows or the result is too large. */
bool poly_add(Ctx *c, const Dim *a, int64_t k, const Dim *b, Dim **out);
bool poly_mul(Ctx *c, const Dim *a, const Dim *b, Dim **out);
bool poly_mul_term(Ctx *c, const Dim *a, const Term *t, Dim **out);
/* Replaces every occurrence of atom A at the top level of D by WITH. */
bool poly_replace(Ctx *c, const Dim *d, const Atom *a, const Dim *with, Dim **out);

/* ---- dim_fold.c ---- */

/* Min or max of N dims, in normal form. */
Dim *dim_extreme(Ctx *c, AtomKind kind, Dim *const *arg, int n);
int64_t int_floordiv(int64_t a, int64_t b); /* B not 0, not INT64_MIN / -1 */

/* ---- dim_bounds.c ---- */

/* Bounds from interval arithmetic, without proofs. */
void dim_interval(const Dim *d, int64_t *lo, int64_t *hi);
/* Tries to prove that D >= 0 for all values of the symbols within their bounds. */
bool dim_nonneg(Ctx *c, Dim *d);

#endif
