/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dims (sizes): hash-consed integer polynomials over symbols and opaque terms (floor, min, max), in
 * normal form, with exact division: B*S*768/(S*768) is B. Equal pointers mean equal values.
 * Different pointers mean that equality is *unknown*; dim_prove_le may still prove an order. Dims
 * describe extents, strides, offsets and the elements of small integer tensors, so they may be
 * negative.
 *
 * Arithmetic is over the mathematical integers. A constant that would overflow becomes an opaque
 * term. Dims are evaluated in 128 bits, since the difference of two elements of an i64 tensor may
 * need more than 64, and overflow of these is detected, so a hostile model cannot wrap a size.
 */
#ifndef IR_DIM_DIM_H
#define IR_DIM_DIM_H

#include "base/vec.h"
#include "ir/ctx.h"

#define DIM_INF INT64_MAX
/* More than any number of elements that there can be: "to the end". */
#define DIM_FAR (INT64_C(1) << 60)

typedef struct Dim Dim;

/* A symbol: a named integer whose value is known only at run time. It follows from the shapes of
 * the inputs, or, with FROM_DATA, is an element of an integer tensor (a data-dependent size).
 * graph_source in ir/graph/graph.h says which element. */
typedef struct Sym {
	const char *name; /* interned, unique in the context */
	int id;           /* dense in the context */
	int64_t lo, hi;   /* inclusive bounds; -DIM_INF and DIM_INF: none */
	bool from_data;   /* set by graph_set_source, for all graphs of the context */
	int taken;           /* the names NAME_2 .. NAME_taken are in use */
	Dim *dim; /* the symbol as a dim */
	struct Sym *syms[2]; /* the symbols of DIM, which is this one, and a null */
	Dim *def; /* if the symbol abbreviates a long dim (dim_named): that dim; else null */
	bool settable; /* a run may give the symbol another value than DEF's */
	bool inlined;  /* programs compute DEF wherever they use the symbol, and do not have it */
	int nested; /* nesting depth of such abbreviations: 1 if DEF mentions none, and so on */
	int gathered; /* for dim.c: the last list of symbols that it was put into */
} Sym;

/* The symbol called NAME; a new one, with bounds [0, DIM_INF], if there is none. */
Sym *sym_get(Ctx *c, const char *name);
/* A new symbol, named BASE or BASE_2, BASE_3 ... */
Sym *sym_fresh(Ctx *c, const char *base);
/* Sets the bounds of S and drops all proofs that were cached with the old ones. Nothing else
 * writes bounds. */
void sym_bound(Ctx *c, Sym *s, int64_t lo, int64_t hi);
bool sym_allows(const Sym *s, int64_t v); /* V is within the bounds of S */
int sym_count(const Ctx *c);
Sym *sym_at(const Ctx *c, int id);

Dim *dim_const(Ctx *c, int64_t v);
/* An order by names and structure, the same in every context: < 0 if A is before B. */
int dim_cmp(const Dim *a, const Dim *b);

/* ---- dim_named.c ---- */

/* Values of all symbols, by Sym.id, in A: WANT, or the nearest value in the symbol's bounds;
 * symbols that abbreviate a dim have the dim's value. */
int64_t *syms_sample(Ctx *c, Arena *a, int64_t want);
/* The value of D where each symbol is 1, or its lower bound if that is larger. False on
 * overflow. */
bool dim_least(Ctx *c, const Dim *d, int64_t *v);

/* Whether the value of S depends on the elements of a tensor, directly or through DEF. */
bool sym_from_data(const Sym *s);
bool dim_from_data(const Dim *d);     /* the value of D does */
/* D itself if it is short, else a symbol that abbreviates it. Products of sizes that are known only
 * at run time thus remain short. The symbol is named after BASE. */
Dim *dim_named(Ctx *c, Dim *d, const char *base);
/* A symbol that abbreviates D, however short D is; D itself if it is a constant or a symbol. */
Dim *dim_symbol(Ctx *c, Dim *d, const char *base);
/* Makes S a symbol that abbreviates D, which mentions only symbols before S. */
void sym_define(Sym *s, Dim *d);

/* ---- dim_fold.c ---- */

/* Rounds towards minus infinity. Finds exact quotients. A constant divisor of 0 gives 0. */
Dim *dim_floordiv(Ctx *c, Dim *a, Dim *b);
Dim *dim_ceildiv(Ctx *c, Dim *a, Dim *b);
Dim *dim_mod(Ctx *c, Dim *a, Dim *b); /* a - b*floordiv(a, b) */
Dim *dim_min(Ctx *c, Dim *a, Dim *b);
Dim *dim_max(Ctx *c, Dim *a, Dim *b);
/* 1 where a == b, else 0: 1 - min(1, max(a-b, b-a)). A constant if the bounds of a and b decide
 * it. */
Dim *dim_eq(Ctx *c, Dim *a, Dim *b);
/* If D is dim_eq(a, b) for some a and b: a - b, or b - a. Otherwise null. */
Dim *dim_as_eq(Ctx *c, Dim *d);
Dim *dim_le(Ctx *c, Dim *a, Dim *b); /* 1 where a <= b, else 0: min(1, max(0, b-a+1)) */
/* COND (0 or 1) ? A : B, as COND*A + (1-COND)*B. */
Dim *dim_select(Ctx *c, Dim *cond, Dim *a, Dim *b);
/* Whether B divides A for all values of the symbols; if so, *Q is the quotient. */
bool dim_divides(Ctx *c, Dim *a, Dim *b, Dim **q);
bool dim_multiple(Ctx *c, Dim *d, int64_t n); /* D is a multiple of the constant N, whatever the symbols are */

/* ---- dim_poly.c ---- */

Dim *dim_add(Ctx *c, Dim *a, Dim *b);
Dim *dim_sub(Ctx *c, Dim *a, Dim *b);
Dim *dim_mul(Ctx *c, Dim *a, Dim *b);
bool dim_is_const(const Dim *d, int64_t *v); /* V may be null */
/* The product of the N dims D, and whether all of them are constants. */
Dim *dims_product(Ctx *c, Dim *const *d, int n);
bool dims_are_const(Dim *const *d, int n);
int64_t dim_const_part(const Dim *d);        /* the constant term, or 0 */
/* Whether D has a sum or product that would be too long: the same number may then have other
 * forms. */
bool dim_has_opaque(const Dim *d);
bool dim_equals(const Dim *d, int64_t v);

/* ---- dim_bounds.c ---- */

/* Bounds of D, by interval arithmetic over the symbols' bounds; -DIM_INF and DIM_INF where
 * unknown. */
void dim_bounds(Ctx *c, Dim *d, int64_t *lo, int64_t *hi);
bool dim_prove_le(Ctx *c, Dim *a, Dim *b);
bool dim_prove_lt(Ctx *c, Dim *a, Dim *b);

/* ---- dim_subst.c ---- */

/* Evaluates D at the symbol values SYM (indexed by Sym.id); null: D has no symbols. False if the
 * value does not fit. */
bool dim_eval(const Dim *d, const int64_t *sym, int64_t *out);
/* Replaces symbol id by TO[id], unless that is null. TO has N entries; symbols from id N onwards
 * are unchanged. */
Dim *dim_subst(Ctx *c, Dim *d, Dim *const *to, int n);
/* D rebuilt: bounds that have become tighter since D was made may decide a min, max or floor. */
Dim *dim_refresh(Ctx *c, Dim *d);
/* The distinct symbols of D in the order of their ids, with a null at the end; only the null if D
 * is null. */
Sym *const *dim_syms(const Dim *d);
/* A loop over them. */
#define DIM_EACH_SYM(s, d) \
	for (Sym *const *s##_at = dim_syms(d), *s; (s = *s##_at) != NULL; s##_at++)
/* The dims that something mentions. */
typedef VEC(Dim *) DimList;
/* If D is exactly one symbol, that symbol, else null. */
Sym *dim_as_sym(const Dim *d);
/* Term I of D as *COEF times *MONO, a product of symbols and opaque terms (1 for the constant
 * term). False if D has fewer terms. */
bool dim_term(Ctx *c, const Dim *d, int i, int64_t *coef, Dim **mono);
/* D is exactly floor(a/b). */
bool dim_as_floor(const Dim *d, Dim **a, Dim **b);
/* If D is exactly the min of n dims: n, with the dims in *ARG. Otherwise 0. */
int dim_as_min(const Dim *d, Dim *const **arg);
/* Whether D is a sum with a product of symbols, which may have terms beyond 64 bits where it is
 * small. */
bool dim_may_cancel(const Dim *d);
/* If D is k*s + rest, where k is constant and rest does not mention s. Used to solve for a
 * symbol from an input's shape. */
bool dim_linear_in(Ctx *c, Dim *d, Sym *s, int64_t *k, Dim **rest);

/* ---- dim_walk.c ---- */

typedef enum DimOp { DIM_OP_ADD, DIM_OP_MUL, DIM_OP_FLOORDIV, DIM_OP_MIN, DIM_OP_MAX } DimOp;

/* Makes something of the parts of a dim; each function returns null if it cannot. */
typedef struct DimBuilder {
	void *(*constant)(void *arg, int64_t v);
	void *(*sym)(void *arg, Sym *s);
	void *(*op)(void *arg, DimOp op, void *a, void *b);
	void *arg;
} DimBuilder;

/* Builds D, in which a symbol that abbreviates a dim is that dim. Null if B cannot. */
void *dim_walk(const Dim *d, const DimBuilder *b);

/* ---- dim_text.c ---- */

/* Prints "B*S + 1", "floor(N + 1, 2)", "min(N, 64)"; dim_parse reads the text back as the same
 * pointer. Symbol names that are not identifiers are quoted as $"a.b". */
void dim_print(StrBuf *b, const Dim *d);
/* Reads a dim at *P and advances *P past it; null, with *P at the fault, as a division by 0 is.
 * Makes symbols that are unknown. */
Dim *dim_parse(Ctx *c, const char **p);
/* Prints D as a C expression of type int64_t, which wraps on overflow, as values that a model
 * computes do. SYM_NAME gives the C text of a symbol. floor, min and max print as dl_floordiv(a,
 * b), dl_min(a, b), dl_max(a, b) (runtime/dlrt.h). */
void dim_print_c(StrBuf *b, const Dim *d, const char *(*sym_name)(void *arg, const Sym *s), void *arg);
/* As dim_print_c, but with dl_add and dl_mul, which give INT64_MAX on overflow. */
void dim_print_checked(StrBuf *b, const Dim *d, const char *(*sym_name)(void *arg, const Sym *s), void *arg);
/* The same of type dl_wide, of 128 bits, with dl_wide_add and so on. PART gives the text of a dim
 * that is an operand of a floor, min or max. */
void dim_print_wide(StrBuf *b, const Dim *d, const char *(*sym_name)(void *arg, const Sym *s),
		    const char *(*part)(void *arg, const Dim *d), void *arg);

#endif
