/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dims: hash-consed integer polynomials over symbols and opaque floor, min and max terms, in normal
 * form, with exact division: B*S*768/(S*768) is B. Equal pointers mean equal; different pointers mean
 * *unknown*, and dim_prove_le may say so. Dims describe extents, strides, offsets and the contents of
 * small integer tensors, so they may be negative.
 *
 * Arithmetic is that of the integers; overflow of a constant makes an opaque term that evaluates with
 * a check, so a hostile model cannot wrap a size.
 */
#ifndef IR_DIM_H
#define IR_DIM_H

#include "ir/ctx.h"

#define DIM_INF INT64_MAX
/* A number read from data beyond this is as good as this: "to the end", and arithmetic has room above it. */
#define DIM_FAR (INT64_C(1) << 60)

typedef struct Dim Dim;

/* A symbol: a named integer that run time knows. Where SRC is set it is the element AT of that integer
 * tensor (a data-dependent size); otherwise the shapes of the inputs give it. */
typedef struct Sym {
	const char *name; /* interned, unique in the context */
	int id;           /* dense in the context */
	int64_t lo, hi;   /* inclusive bounds; hi DIM_INF: none */
	struct Value *src;  /* set by sym_read_from */
	int64_t at;
	struct Sym *sibling; /* the next that is read from SRC */
	int taken;           /* the names NAME_2 .. NAME_taken are taken */
	Dim *dim; /* the symbol as a dim */
	Dim *def; /* what it stands for, where it names a dim that grew long (dim_named) */
	int nested; /* symbols that stand for dims with such symbols ...: how deep */
} Sym;

/* The symbol of this name, made with bounds [0, DIM_INF] where new. */
Sym *sym_get(Ctx *c, const char *name);
/* A new symbol, named BASE or BASE_2, BASE_3 ... */
Sym *sym_fresh(Ctx *c, const char *base);
/* Sets the bounds of S, which no one else writes: proofs that stood on the old ones are forgotten. */
void sym_bound(Ctx *c, Sym *s, int64_t lo, int64_t hi);
/* D itself, or, where it is long, a symbol that stands for it: sizes that run time gives stay short however
 * they are multiplied. BASE names the symbol. */
Dim *dim_named(Ctx *c, Dim *d, const char *base);
/* Whether the value of S depends on the contents of a tensor, directly or by what it stands for. */
bool sym_from_data(Sym *s);
int sym_count(const Ctx *c);
Sym *sym_at(const Ctx *c, int id);

Dim *dim_const(Ctx *c, int64_t v);
Dim *dim_add(Ctx *c, Dim *a, Dim *b);
Dim *dim_sub(Ctx *c, Dim *a, Dim *b);
Dim *dim_mul(Ctx *c, Dim *a, Dim *b);
/* Towards minus infinity; exact quotients are found. A divisor of 0 that is a constant gives 0. */
Dim *dim_floordiv(Ctx *c, Dim *a, Dim *b);
Dim *dim_ceildiv(Ctx *c, Dim *a, Dim *b);
Dim *dim_mod(Ctx *c, Dim *a, Dim *b); /* a - b*floordiv(a, b) */
Dim *dim_min(Ctx *c, Dim *a, Dim *b);
Dim *dim_max(Ctx *c, Dim *a, Dim *b);
/* 1 where a == b, else 0: 1 - min(1, max(a-b, b-a)), decided where bounds decide it. */
Dim *dim_eq(Ctx *c, Dim *a, Dim *b);
Dim *dim_le(Ctx *c, Dim *a, Dim *b); /* 1 where a <= b, else 0: min(1, max(0, b-a+1)) */
/* COND (0 or 1) ? A : B, as COND*A + (1-COND)*B. */
Dim *dim_select(Ctx *c, Dim *cond, Dim *a, Dim *b);

bool dim_is_const(const Dim *d, int64_t *v); /* V may be null */
bool dim_equals(const Dim *d, int64_t v);
/* Bounds from the symbols' bounds, by interval arithmetic; -DIM_INF and DIM_INF where unknown. */
void dim_bounds(Ctx *c, Dim *d, int64_t *lo, int64_t *hi);
bool dim_prove_le(Ctx *c, Dim *a, Dim *b);
bool dim_prove_lt(Ctx *c, Dim *a, Dim *b);
/* Whether B divides A for all values of the symbols; the quotient in *Q where it does. */
bool dim_divides(Ctx *c, Dim *a, Dim *b, Dim **q);
bool dim_multiple(Ctx *c, Dim *d, int64_t n); /* D is a multiple of the constant N, whatever the symbols are */

/* The value for SYM (indexed by Sym.id); false on overflow. */
bool dim_eval(const Dim *d, const int64_t *sym, int64_t *out);
/* TO[id] replaces the symbol id where not null. N: entries of TO; higher ids stay. */
Dim *dim_subst(Ctx *c, Dim *d, Dim *const *to, int n);
/* D as it would be made today: bounds of symbols that changed since may decide a min, max or floor. */
Dim *dim_refresh(Ctx *c, Dim *d);
/* Calls FN once for each distinct symbol of D, in id order. */
void dim_syms(const Dim *d, void (*fn)(void *arg, Sym *s), void *arg);
/* If D is exactly one symbol, that symbol, else null. */
Sym *dim_as_sym(const Dim *d);
/* Term I of D as *COEF times *MONO, a product of symbols and opaque terms (1 in the constant part); false past the last. */
bool dim_term(Ctx *c, const Dim *d, int i, int64_t *coef, Dim **mono);
/* D is exactly floor(a/b). */
bool dim_as_floor(const Dim *d, Dim **a, Dim **b);
/* How many sizes D is exactly the least of; 0: it is no such dim. */
int dim_as_min(const Dim *d, Dim *const **arg);
/* If D is k*s + rest with s not in rest and constant k: for solving a symbol from an input's shape. */
bool dim_linear_in(Ctx *c, Dim *d, Sym *s, int64_t *k, Dim **rest);

/* "B*S + 1", "floor(N + 1, 2)", "min(N, 64)": what dim_parse reads back to the same pointer.
 * Symbol names that are not identifiers are quoted as $"a.b". */
void dim_print(StrBuf *b, const Dim *d);
/* Reads a dim at *P and advances it; null with *P at the fault. Unknown symbols are made. */
Dim *dim_parse(Ctx *c, const char **p);
/* A C expression of type int64_t; SYM_NAME gives the C text of a symbol. floor, min and max print as
 * dl_floordiv(a, b), dl_min(a, b), dl_max(a, b) (runtime/dlrt.h). */
void dim_print_c(StrBuf *b, const Dim *d, const char *(*sym_name)(void *arg, const Sym *s), void *arg);
/* The same with dl_add and dl_mul, whose value is INT64_MAX where the dim does not fit. */
void dim_print_checked(StrBuf *b, const Dim *d, const char *(*sym_name)(void *arg, const Sym *s), void *arg);

#endif
