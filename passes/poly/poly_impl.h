/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of passes/poly/ share; no other file includes this header, or isl. */
#ifndef PASSES_POLY_POLY_IMPL_H
#define PASSES_POLY_POLY_IMPL_H

#include "passes/kernel/kernels.h"
#include "passes/poly/poly.h"

#include <isl/aff.h>
#include <isl/ctx.h>
#include <isl/id.h>
#include <isl/local_space.h>
#include <isl/map.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/val.h>

typedef struct Exec Exec;

/* A product of symbols and opaque terms: a parameter. */
typedef struct Param {
	Dim *mono;
	isl_id *id;
} Param;

/*
 * X mod C in one execution, where X is not affine: peels of rows whose lengths are not known. It is some number below C, and a
 * parameter, as though it were one number for all points. That it may be where X is of the point alone: what holds of all points
 * for any number holds of each for its own; and where nothing is asked of two of the execution's points, which may differ in it.
 */
typedef struct Rest {
	const Exec *of;
	Expr *is; /* X mod C */
	isl_id *id;
} Rest;

/* A loop variable that is only used as X div N and X mod N is two: X runs from 0 to a multiple of N. */
typedef struct Split {
	Iter *x, *q, *r;
	Dim *n;
} Split;

/*
 * The coordinates of a statement's points: its iterators, but those that the loop tree runs as digits of one
 * flat number, X mod N and X div N, are that number. So sizes of digits need not be affine.
 */
typedef struct Coords {
	Iter *it[MAX_ITERS];
	int n, nband;
	int first
		[MAX_ITERS]; /* by coordinate: the flat one's digits are the statement's iterators digit[first ..] */
	int ndigits[MAX_ITERS];
	const Iter *digit[MAX_ITERS];
} Coords;

typedef struct Digit {
	const Iter *it;
	Iter *flat;
	Dim *by, *mod; /* it = flat div BY mod MOD; MOD null: the first digit */
} Digit;

typedef enum AxisKind {
	AXIS_SERIAL,
	AXIS_PARALLEL,
	AXIS_ANY /* terms in any order, one at a time: lanes of a reduction, a tile */
} AxisKind;

typedef struct SetAxis {
	Iter *it;         /* fresh: one loop, or a part of one */
	const Iter *loop; /* the whole of it */
	AxisKind kind;
} SetAxis;

typedef struct Bound {
	Expr *lo, *hi; /* lo <= it < hi */
	Iter *it;
	int64_t step;
	bool full; /* all of the iterator's extent */
} Bound;

/* A load of a local by an execution, which stands for one of element IDX of TEMP. */
typedef struct Read {
	const Buf *temp;
	Expr *const *idx;
	int nidx;
	const Buf *local;
	Expr *cell; /* flat */
} Read;

/* What each element of a local is, at VAR (LN_LOCAL). */
typedef struct LocalValue {
	const Buf *buf;
	Iter *var;
	Expr *is;
} LocalValue;

/* A node that carries out part of a statement: when and for which points. */
struct Exec {
	int stmt, comp, order; /* order: of nodes in one body */
	LPart part;
	const LNode *node;
	Buf *buf[2]; /* what it stores to */
	Expr *idx;
	VEC(SetAxis) axis; /* outermost first */
	VEC(Bound) bound;
	VEC(Expr *) guard;
	Expr *val[2];
	VEC(Read) reads;
	Expr **point; /* of the statement: an expression for each of its first NPOINT iterators */
	int npoint;
	Expr **at; /* the same in coordinates */
	int nat;
	int odd;      /* conditions that are not affine */
	bool weak;    /* a bound or a place is not affine: MAP has too many pairs */
	isl_map *map; /* axes -> point */
};

/* The axes up to a loop as a set; how it is read is as in Exec. */
typedef struct Outer {
	const Iter *last;
	isl_set *set;
	bool weak;
	int odd;
} Outer;

/* A local, and the loops around its declaration: it lives for one turn of the innermost. */
typedef struct Local {
	const Buf *buf;
	const Iter **loop;
	int nloops;
} Local;

typedef struct Poly {
	Ctx *ctx;
	Arena *arena;
	ExprPool *pool;
	Kernel *k; /* the original */
	Schedule *s;
	isl_ctx *isl;
	isl_set *
		context; /* what holds of the first NCONTEXT parameters (poly_context), rests among them */
	int ncontext;
	VEC(Param) params;
	VEC(Rest) rests;
	const Exec *
		reads; /* whose rests are parameters while its bounds, places and conditions are read; or null */
	VEC(Split) splits;
	VEC(Digit) digits;
	Coords *coords; /* by statement */
	VEC(Exec *) execs;
	VEC(Outer) outers;
	VEC(Local) locals;
	VEC(LocalValue) kept;
	VEC(const LNode *) copies; /* stores that carry out nothing: a local has what memory has */
	StrBuf *why;
	bool wrong, unproved;
} Poly;

void poly_wrong(Poly *p, const char *fmt, ...) BASE_PRINTF(2, 3);
void poly_unproved(Poly *p, const char *fmt, ...) BASE_PRINTF(2, 3);

/* ---- passes/poly/expr.c ---- */

/* The iterators that are the dims of a set. */
typedef struct SetDims {
	Iter *const *it;
	int n;
} SetDims;

/* E over the set's dims; null where it has no affine form. */
isl_pw_aff *poly_aff(Poly *p, const SetDims *s, Expr *e);
/* Where the bool E holds; null where it has no affine form. */
isl_set *poly_cond(Poly *p, const SetDims *s, Expr *e);
isl_set *poly_universe(Poly *p, int n);
/* SET cut to LO <= E or E < HI; false where it has no affine form. A range that a condition empties is
 * select(condition, HI, LO): a condition that is not affine is counted in *ODD. */
bool poly_at_least(Poly *p, const SetDims *s, isl_set **set, Expr *e, Expr *lo);
bool poly_below(Poly *p, const SetDims *s, isl_set **set, Expr *e, Expr *hi, int *odd);
/* SET cut to the conjuncts of GUARD that are affine; returns how many are not. */
int poly_guard(Poly *p, const SetDims *s, isl_set **set, Expr *guard);
/* [dims] -> [E0, E1 ...] on SET (taken); an E that is not affine may be anything, and is counted. */
isl_map *poly_map(Poly *p, const SetDims *s, isl_set *set, Expr *const *e, int n, int *odd);
/* What is known of the parameters seen so far. */
isl_set *poly_context(Poly *p);
/* Whether S or M (taken) is empty for all sizes. What the budget does not decide counts as empty; so does what has points only at
 * sizes of which none was found, and then the schedule is not proved. */
bool poly_empty(Poly *p, isl_set *s);
bool poly_no_pair(Poly *p, isl_map *m);
const Split *poly_split_of(const Poly *p, const Iter *x);

/* ---- passes/poly/tree.c ---- */

/* Fills p->execs and p->locals. */
void poly_read_tree(Poly *p);
/* An iterator of no loop yet. */
Iter *poly_fresh(Poly *p, const char *name, Dim *extent);
/* E where it is a size, else null. */
Dim *poly_as_dim(Poly *p, const Expr *e);

/* ---- passes/poly/relate.c ---- */

/* Fills p->coords, and the points and maps of p->execs. */
void poly_relate(Poly *p);
/* E has rests of its own (Rest.of). */
bool poly_has_rests(const Poly *p, const Exec *e);

/* ---- passes/poly/deps.c ---- */

/* STRICT: the first before the second. ALONE: not at once. */
typedef enum Need { STRICT, ALONE } Need;

typedef struct Dep {
	isl_map *rel; /* points of the source -> points of the sink */
	int from, to; /* statements */
	LPart fpart, tpart;
	Need need;
	bool weak;
	const char *what;
	const Buf *buf;
	Expr *const *
		idx; /* a flow's: what of BUF the sink reads, over the iterators of its statement */
	int nidx;
} Dep;

void poly_check_deps(Poly *p);
/* How many coordinates of S's points tell what S writes. */
int poly_writes_of(const Poly *p, const Stmt *s);
/* Whether a pair of M differs in dim D. */
bool poly_differs(Poly *p, isl_map *m, int d);
/* The times of A and B at pairs of points REL. */
isl_map *poly_times(const Exec *a, const Exec *b, const isl_map *rel);
/* Dependence D from A to B fails at the times BAD, in the way HOW; or is not proved. */
void poly_say(Poly *p, const Dep *d, const Exec *a, const Exec *b, isl_map *bad, const char *how);

/* ---- passes/poly/values.c ---- */

void poly_check_values(Poly *p);
/* The element of B at IDX[0..n), by dims or already flat, as a flat index. */
Expr *poly_flat(Poly *p, const Buf *b, Expr *const *idx, int n);
/* E in the form in which values and indices are compared. */
Expr *poly_form(Poly *p, Expr *e);

/* ---- passes/poly/locals.c ---- */

/* E with iterators that are split (Split) as their parts. */
Expr *poly_by_parts(Poly *p, Expr *e);

/* The value goes from A to B, at the times V, through a buffer that both name; through a local only while it lives. */
void poly_check_holder(Poly *p, const Dep *d, const Exec *a, const Exec *b, isl_map *v);
void poly_check_locals(Poly *p);
bool poly_node_loads(const LNode *n, const Buf *b);

#endif
