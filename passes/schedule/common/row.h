/* SPDX-License-Identifier: Apache-2.0 */
/* State shared by the files of the row strategy: the stage that is being built, and the loop nests
 * of one statement. */
#ifndef PASSES_SCHEDULE_COMMON_ROW_H
#define PASSES_SCHEDULE_COMMON_ROW_H

#include "passes/forms/band.h"
#include "passes/forms/points.h"
#include "passes/schedule/common/decision.h"
#include "passes/schedule/common/loops.h"

enum {
	/* Taps of a stencil along one iterator, and taps that are unrolled, at most: of a larger
	 * one, loops go over the outer iterators of the taps. GPUs unroll all or none. */
	MOST_TAPS = 64
};

typedef enum Keep { KEEP_NOT, KEEP_ALL, KEEP_BLOCK, KEEP_TILE, KEEP_ROWS } Keep;

typedef struct Row {
	LBuild *b;
	Kernel *k;
	const Band *band;
	int first, last;
	Stmt *s;        /* the current statement */
	bool fixed[MAX_ITERS]; /* by band index */
	int vec;        /* band index of the vector iterator, or -1 */
	/* band index of the iterator that stencils slide along, looped over in tiles, or -1 */
	int tile;
	/* the stage's iterator for each band iterator; if merged, that of the last one */
	Iter *rep[MAX_ITERS];
	/* what replaces a band iterator in flat indices; of merged ones, all but the last are 0 */
	Expr *as[MAX_ITERS];
	Expr *pos[MAX_ITERS];  /* its value */
	/* CPUs: how each statement is executed, by Stmt.id; GPUs: null */
	const StmtDecision *how;
	int64_t block;         /* upper bound of the points of v in a block */
	int64_t tile_points;   /* upper bound of the points of a tile */
	Expr *v0;              /* first point of v in this block */
	Expr *vlo, *vhi;
	Expr *tlo, *thi; /* bounds of the tile */
	bool unrolled;   /* a thread's own loops are short, of constant length, and unrolled */
	Expr *row_at;    /* KEEP_ROWS: the index of the row */
	Buf **local;    /* by Buf.id: the local that stands for a temporary, or null */
	Keep (*keep)[MAX_RANK]; /* by Buf.id, per dim: how it is kept */
	int nlocal;
} Row;

enum { MAX_NEST = MAX_ITERS };

typedef struct Nest {
	LNode *loop[MAX_NEST];
	int n;
} Nest;

/* A Row for statements FIRST..LAST under BAND. FIRST is the current statement. There are no locals,
 * no vector iterator and no tiles yet. */
Row row_new(LBuild *b, int first, int last, const Band *band);
/* Makes S the current statement, to which expressions and nodes belong from here on. */
void row_begin(Row *r, Stmt *s);
/* Rewrites E of the current statement to the stage's iterators and flat indices; null stays
 * null. */
Expr *row_placed(Row *r, Expr *e);
/* The flat index at which statement S writes component K; *OUT: the buffer. */
Expr *row_write_index(Row *r, Stmt *s, int k, Buf **out);
/* Notes that N carries out PART of statement S at the point of its first NAT iterators. RED, unless
 * null, are the values of the reduced ones. */
void row_does(Row *r, LNode *n, const Stmt *s, LPart part, int nat, Expr *const *red);
/* The layout of N dims in order, but with dim INNER innermost. */
Layout *row_layout_with_inner(Arena *a, int n, int inner);
/* T is a temporary that no other stage reads or writes. */
bool row_keeps(const Row *r, const Buf *t);
/* T is such a temporary, and S is its only writer, so it need not be stored. */
bool row_may_be_local(const Row *r, const Stmt *s, const Buf *t);
/* Band iterators OUT and IN can be merged in every access; IN stands for EXTENT points. */
bool row_joins(Row *r, int out, int in, Dim *extent);
/* A merged iterator: the band iterators that it stands for, in order. */
typedef struct Merged {
	int of[MAX_ITERS], n;
	Dim *extent;
} Merged;

/* row_merge_band merges the band iterators of R as far as possible, to G; returns their number.
 * row_stage_iters then creates the stage's iterators for them: rep, as and pos. */
int row_merge_band(Row *r, Merged *g);
void row_stage_iters(Row *r, const Merged *g, int n);

/* The taps of a stencil: the points over which S reduces, at most MOST_TAPS along each iterator;
 * 0 if S is not a stencil. */
int64_t row_taps(const Stmt *s);

/* ---- row_emit.c ---- */

/* Emits the nodes of the current statement, whose locals are declared (row_emit.c,
 * row_reduce.c). */
void row_emit(Row *r);
/* Opens a loop in the nest N; row_close ends all of them. */
void row_open(Row *r, Nest *n, LoopKind kind, Iter *it, Expr *lo, Expr *hi);
void row_close(Row *r, Nest *n);
/* Opens loops over the band iterators of S that the stage does not fix, except for the vector one.
 * LEAVE_LAST: if there is no vector iterator, the last one is left to be the innermost loop, and
 * returned. */
Iter *row_open_band(Row *r, Stmt *s, Nest *n, bool leave_last);
/* The points of S over those of its iterators that the stage does not fix, in terms of the stage.
 * None of the iterators are merged yet. */
Points row_free_points(Row *r, Stmt *s);
/* The points over which S reduces, in terms of the stage. They are merged where possible, so that
 * lanes traverse one long row rather than many short ones. */
void row_terms(Row *r, Stmt *s, Points *t);
/* A node that combines VAL into the states ACC at IDX where GUARD holds. */
LNode *row_state_node(Row *r, LNodeKind kind, Stmt *s, Buf *const *acc, Expr *idx, Expr *const *val, Expr *guard);
/* row_declare_state declares the states of S, SIZE elements each (null: scalars). row_init_state
 * gives them their initial value, and row_store_state stores them where S writes. */
void row_declare_state(Row *r, Stmt *s, Buf **acc, Dim *size);
void row_init_state(Row *r, Stmt *s, Buf *const *acc, Expr *idx);
void row_store_state(Row *r, Stmt *s, Buf *const *acc, Expr *idx);
/* AT: the values of the iterators of the current statement. Those that the stage does not fix are
 * taken from FREE in order. */
void row_point(const Row *r, Expr *const *free, Expr **at);
/* The stage fixes IT, a band iterator of the current statement. */
bool row_is_fixed(const Row *r, const Iter *it);
/* S stores elements of less than a byte, which one thread must store one after the other. */
bool row_packed(const Stmt *s);
Expr *row_extent(Row *r, const Iter *it);

/* ---- row_along.c ---- */

/* Chooses vec and fixed by the accesses of all statements (row_along.c). */
void row_choose_vector(Row *r);
/* The band iterator along which a map accesses memory that is strided along vec, as a transpose
 * does; -1: there is none, or one of the two has few points. */
int row_transposed_iter(const Row *r);
/* The index of T's iterator that lanes should traverse; -1 if T has no iterators. */
int row_lane_of(const Points *t);

#endif
