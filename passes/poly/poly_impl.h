/* SPDX-License-Identifier: Apache-2.0 */
/* Types and functions shared by the files of passes/poly/; no other file includes this header, or
 * isl. */
#ifndef PASSES_POLY_POLY_IMPL_H
#define PASSES_POLY_POLY_IMPL_H

#include "passes/forms/kernels.h"
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

/* A parameter: a product of symbols and opaque terms. */
typedef struct Param {
	Dim *mono;
	isl_id *id;
} Param;

/*
 * X mod C in one execution, where X is not affine: the peel of a row whose length is unknown. It is
 * a number below C, treated as a parameter, as though it were the same number for all points. This
 * is sound where X depends only on the point: what holds for all points and any number holds for
 * each point and its own number. And no two points of the execution, whose numbers may differ, may
 * be compared with each other (rests_hold in relate.c).
 */
typedef struct Rest {
	const Exec *of;
	Expr *is; /* X mod C */
	isl_id *id;
} Rest;

/* A loop variable X that is only used as X div N and X mod N is split into these two: X runs from 0
 * to a multiple of N. */
typedef struct Split {
	Iter *x, *q, *r;
	Dim *n;
} Split;

/*
 * The coordinates of a statement's points: its iterators. If the loop tree runs some of them as a
 * div/mod split of one flat number, that number is a single coordinate instead, so their extents
 * need not be affine.
 */
typedef struct Coords {
	Iter *it[MAX_ITERS];
	int n, nband;
	/* by coordinate: it stands for iterators part[first] and on, nparts of them */
	int first[MAX_ITERS];
	int nparts[MAX_ITERS];
	const Iter *part[MAX_ITERS];
} Coords;

typedef struct DivMod {
	const Iter *it;
	Iter *flat;
	Dim *by, *mod; /* it = flat div BY mod MOD; MOD null: the outermost */
} DivMod;

typedef enum AxisKind {
	AXIS_SERIAL,
	AXIS_PARALLEL,
	AXIS_ANY /* terms in any order, one at a time: lanes of a reduction, a tile */
} AxisKind;

typedef struct SetAxis {
	Iter *it;         /* a new iterator: a loop, or a part of one */
	const Iter *loop; /* the loop */
	AxisKind kind;
} SetAxis;

typedef struct Bound {
	Expr *lo, *hi; /* lo <= it < hi */
	Iter *it;
	int64_t step;
	bool full; /* the loop runs over the iterator's whole extent */
} Bound;

/* A load of a local by an execution, in place of a load of element IDX of TEMP. */
typedef struct Read {
	const Buf *temp;
	Expr *const *idx;
	int nidx;
	const Buf *local;
	Expr *cell; /* flat index */
} Read;

/* The value of each element of a local, at VAR (LN_LOCAL). */
typedef struct LocalValue {
	const Buf *buf;
	Iter *var;
	Expr *is;
} LocalValue;

/* A split of an operand, with its expressions at the times of the nodes after it. */
typedef struct SplitAt {
	const SplitOperand *s;
	Expr *at, *step, *valid, *k;
} SplitAt;

/*
 * The elements of the operands that a tile multiplies for term D, over an iterator of that name;
 * null: it is not known which. And how many rows, columns and steps the tile has. D is a number
 * whose digits are the NOF iterators OF, from 0 to their extents, in an order that the tree does
 * not have.
 */
typedef struct TileTerm {
	Iter *d;
	Expr *a, *b;
	Expr *rows, *columns, *steps;
	Iter *of[MAX_ITERS];
	int nof;
	const struct SplitAt *split[2]; /* of the parts of A and of B; null: there is none */
	Expr *part_a, *part_b;          /* the elements of which they have the parts */
	Expr *part_row;                 /* the tile's first row among those that are split */
} TileTerm;

/* A node that carries out part of a statement: at which times, and for which points. */
struct Exec {
	int stmt, comp, order; /* order: position among the nodes of a body */
	LPart part;
	const LNode *node;
	Buf *buf[2]; /* buffers it stores to */
	Expr *idx;
	Expr *when;        /* the terms of a tile: TileMask.when */
	TileTerm tile;     /* of the terms of a tile */
	VEC(SetAxis) axis; /* outermost first */
	VEC(Bound) bound;
	VEC(Expr *) guard;
	VEC(Dim *) nonzero; /* where one of these sizes is 0, a loop around the node is skipped */
	Expr *val[2];
	VEC(Read) reads;
	/* the statement's point: an expression for each of its first NPOINT iterators */
	Expr **point;
	int npoint;
	Expr **at; /* the point in coordinates */
	int nat;
	int odd;      /* number of conditions that are not affine */
	bool weak;    /* a bound or a coordinate is not affine, so MAP has too many pairs */
	isl_map *map; /* axes -> point in coordinates */
};

/* The axes up to a loop as a set; WEAK and ODD as in Exec. */
typedef struct Outer {
	const Iter *last;
	isl_set *set;
	bool weak;
	int odd;
} Outer;

/* A local, and the loops around its declaration: it lives for one iteration of the innermost
 * one. */
typedef struct Local {
	const Buf *buf;
	const LNode *node;
	const Iter **loop;
	int nloops;
} Local;

typedef struct Poly {
	Ctx *ctx;
	Arena *arena;
	ExprPool *pool;
	Kernel *k; /* the original kernel */
	Schedule *s;
	isl_ctx *isl;
	/* what is known of the first NCONTEXT parameters (poly_context), counting rests */
	isl_set *context;
	int ncontext;
	VEC(Param) params;
	VEC(Rest) rests;
	/* the execution that is being read, whose rests become parameters; or null */
	const Exec *reads;
	VEC(Split) splits;
	VEC(DivMod) divmods;
	Coords *coords; /* coordinates of each statement */
	VEC(Exec *) execs;
	VEC(Outer) outers;
	VEC(Local) locals;
	VEC(LocalValue) kept;
	VEC(const LNode *) copies; /* stores that carry out no statement: they copy to a local */
	VEC(Exec *) moves; /* those of COPIES that store, and the stores of fills: of no points */
	StrBuf *why;
	bool wrong, unproved;
	bool opaque; /* two parameters may be one number in two forms: no counterexample is certain */
} Poly;

/* ---- expr.c ---- */

/* The iterators that are the dims of a set. */
typedef struct SetDims {
	Iter *const *it;
	int n;
} SetDims;

/* ---- deps.c ---- */

/* STRICT: the source must run before the sink. ALONE: they must not run at the same time. */
typedef enum Need { STRICT, ALONE } Need;

typedef struct Dep {
	isl_map *rel; /* points of the source -> points of the sink */
	int from, to; /* statements */
	LPart fpart, tpart;
	Need need;
	bool weak;
	const char *what;
	const Buf *buf;
	/* of a flow: the element of BUF that the sink reads, over the iterators of its statement */
	Expr *const *idx;
	int nidx;
} Dep;

/* ---- poly.c ---- */

void poly_wrong(Poly *p, const char *fmt, ...) BASE_PRINTF(2, 3);
void poly_unproved(Poly *p, const char *fmt, ...) BASE_PRINTF(2, 3);
/* As poly_unproved, for the schedule of a text. The compiler's own need not be proved in this
 * respect. */
void poly_unchecked(Poly *p, const char *fmt, ...) BASE_PRINTF(2, 3);

/* ---- expr.c ---- */

/* E as an affine form over the set's dims; null if it has none. */
isl_pw_aff *poly_aff(Poly *p, const SetDims *s, Expr *e);
/* The set where the bool E holds; null if it has no affine form. */
isl_set *poly_cond(Poly *p, const SetDims *s, Expr *e);
isl_set *poly_universe(Poly *p, int n);
/* Intersects SET with LO <= E, or with E < HI; false if that has no affine form. A range that a
 * condition empties has the end select(condition, HI, LO); a condition that is not affine is
 * counted in *ODD. */
bool poly_at_least(Poly *p, const SetDims *s, isl_set **set, Expr *e, Expr *lo);
bool poly_below(Poly *p, const SetDims *s, isl_set **set, Expr *e, Expr *hi, int *odd);
/* Intersects SET with the affine conjuncts of GUARD; returns the number of the others. */
int poly_guard(Poly *p, const SetDims *s, isl_set **set, Expr *guard);
/* The map [dims] -> [E0, E1 ...] on SET (taken). An E that is not affine may have any value, and is
 * counted in *ODD. */
isl_map *poly_map(Poly *p, const SetDims *s, isl_set *set, Expr *const *e, int n, int *odd);
/* The constraints on the parameters so far. */
isl_set *poly_context(Poly *p);
/* S or M (taken) is empty for all sizes. It counts as empty if the budget is spent. It also does if
 * it has points only at sizes of which none was found to exist; the schedule is then not proved. */
bool poly_empty(Poly *p, isl_set *s);
bool poly_no_pair(Poly *p, isl_map *m);
const Split *poly_split_of(const Poly *p, const Iter *x);

/* ---- tree.c ---- */

/* Reads the loop tree into p->execs and p->locals. */
void poly_read_tree(Poly *p);
/* A new iterator, of no loop yet. */
Iter *poly_fresh(Poly *p, const char *name, Dim *extent);

/* ---- relate.c ---- */

/* Fills p->coords, and the points and maps of p->execs. */
void poly_relate(Poly *p);
/* E has rests (Rest.of). */
bool poly_has_rests(const Poly *p, const Exec *e);

/* ---- deps.c ---- */

void poly_check_deps(Poly *p);
/* The number of S's coordinates that determine what S writes. */
int poly_writes_of(const Poly *p, const Stmt *s);
/* Some pair of M differs in dim D. */
bool poly_differs(Poly *p, isl_map *m, int d);
/* The pairs of times of A and B at the pairs of points REL. */
isl_map *poly_times(const Exec *a, const Exec *b, const isl_map *rel);
/* Reports that dependence D from A to B fails at the times BAD, in the way HOW; or that it is not
 * proved. */
void poly_say(Poly *p, const Dep *d, const Exec *a, const Exec *b, isl_map *bad, const char *how);

/* ---- values.c ---- */

void poly_check_values(Poly *p);
/* The flat index of the element of B at IDX[0..n), which is by dims or already flat. */
Expr *poly_flat(Poly *p, const Buf *b, Expr *const *idx, int n);
/* E in the canonical form in which values and indices are compared. */
Expr *poly_form(Poly *p, Expr *e);

typedef enum Answer { SAME, DIFFERENT, UNKNOWN } Answer;

typedef struct ValueMatch {
	Poly *p;
	Exec *e;
	SetDims sc; /* axes of E */
} ValueMatch;

/* Whether indices A and B are the same at all times of M's execution. */
Answer poly_same_index(const ValueMatch *m, Expr *a, Expr *b);
/* The bool C is VALUE at all times of M's execution. */
bool poly_always(const ValueMatch *m, Expr *c, bool value);
/* E, of statement S, at the point of M's execution. */
Expr *poly_at_point(const ValueMatch *m, const Stmt *s, Expr *e);
const char *poly_text(const ValueMatch *m, const Expr *e);
/* The original kernel's buffer that corresponds to B of the schedule's kernel; null if B is a
 * local. */
const Buf *poly_original(const Poly *p, const Buf *b);

/* ---- operands.c ---- */

/* Checks that the terms of the tile M->e are those of statement S. */
void poly_check_operands(const ValueMatch *m, const Stmt *s);

/* ---- trim.c ---- */

/* Checks the terms that tile E leaves out because of their weights. */
void poly_check_trim(Poly *p, const Exec *e);
/* Checks that the terms of a sum that tile E may not leave out if it is large are added. */
void poly_check_squares(Poly *p, const Exec *e);

/* ---- locals.c ---- */

/* E with split iterators (Split) replaced by their parts. */
Expr *poly_by_parts(Poly *p, Expr *e);
/* Checks that the value goes from A to B, at the times V, through a buffer that both access;
 * through a local only while it lives. */
void poly_check_holder(Poly *p, const Dep *d, const Exec *a, const Exec *b, isl_map *v);
void poly_check_locals(Poly *p);
bool poly_node_loads(const LNode *n, const Buf *b);
/* The declaration of B, if it is a local; else null. */
const Local *poly_local(const Poly *p, const Buf *b);

/* ---- memory.c ---- */

/* Checks the memory of locals. */
void poly_check_memory(Poly *p);

#endif
