/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the row strategy share: the stage that is being built, and the loop nests of one statement. */
#ifndef PASSES_SCHEDULE_COMMON_ROW_H
#define PASSES_SCHEDULE_COMMON_ROW_H

#include "passes/kernel/band.h"
#include "passes/schedule/common/loops.h"
#include "passes/kernel/points.h"

/* Fewer points are too few for the innermost loop. */
enum { SHORT_LOOP = 16 };

typedef enum Keep { KEEP_NOT, KEEP_ALL, KEEP_BLOCK, KEEP_TILE, KEEP_ROWS } Keep;

typedef struct Row {
	LBuild *b;
	Kernel *k;
	const Band *band;
	int first, last;
	Stmt *s;        /* the current statement */
	bool fixed[MAX_ITERS]; /* by band index */
	int vec;        /* band index of the vector iterator, or -1 */
	int tile;       /* band index of the iterator that windows slide along, looped over in tiles, or -1 */
	Iter *rep[MAX_ITERS];  /* the stage's iterator for each band iterator; merged ones: of the last of them */
	Expr *as[MAX_ITERS];   /* what stands for a band iterator in flat accesses: merged ones are 0 but for the last */
	Expr *pos[MAX_ITERS];  /* its value */
	int64_t block;  /* points of v that a block has at most */
	Expr *v0;       /* first of this block of v */
	Expr *vlo, *vhi;
	Expr *tlo, *thi; /* of the tile */
	bool unrolled;  /* what a thread goes over alone is short, of so many points always, and written out */
	Expr *row_at;   /* KEEP_ROWS: which of the rows it is */
	Buf **local;    /* by Buf.id: the local that stands for a temporary, or null */
	Keep (*keep)[MAX_RANK]; /* by Buf.id, per dim: how it is kept */
	int nlocal;
} Row;

enum { MAX_NEST = MAX_ITERS };

typedef struct Nest {
	LNode *loop[MAX_NEST];
	int n;
} Nest;

/* Of statements FIRST..LAST under BAND, of which the first is the current one: nothing is local yet, and no iterator is the vector's
 * or looped over in tiles. */
Row row_new(LBuild *b, int first, int last, const Band *band);
/* S is the current statement from here on: expressions and nodes belong to it. */
void row_begin(Row *r, Stmt *s);
/* The nodes of the current statement, whose locals are declared (row_emit.c, row_reduce.c). */
void row_emit(Row *r);
/* E of the current statement in terms of the stage's iterators, with flat indices; null stays null. */
Expr *row_placed(Row *r, Expr *e);
/* Where statement S writes, flat; the buffer in *OUT for component K. */
Expr *row_write_index(Row *r, Stmt *s, int k, Buf **out);
/* N does PART of statement S at its first NAT iterators; RED, where not null, is the place of those it reduces. */
void row_does(Row *r, LNode *n, const Stmt *s, LPart part, int nat, Expr *const *red);
/* Opens a loop in the nest N; row_close ends all of them. */
void row_open(Row *r, Nest *n, LoopKind kind, Iter *it, Expr *lo, Expr *hi);
void row_close(Row *r, Nest *n);
/* Loops over the band iterators of S that the stage did not fix, but for the vector one and the last one
 * where there is no vector (given back, to be the innermost). */
Iter *row_open_band(Row *r, Stmt *s, Nest *n, bool leave_last);
/* A node that combines VAL into the states ACC at IDX where GUARD holds. */
LNode *row_state_node(Row *r, LNodeKind kind, Stmt *s, Buf *const *acc, Expr *idx, Expr *const *val, Expr *guard);
/* Declares the states of S, SIZE elements each; null: scalars. Then: gives them their first value, and writes
 * them where S writes. */
void row_declare_state(Row *r, Stmt *s, Buf **acc, Dim *size);
void row_init_state(Row *r, Stmt *s, Buf *const *acc, Expr *idx);
void row_store_state(Row *r, Stmt *s, Buf *const *acc, Expr *idx);
/* The dim that is axis I of temporary T in memory, and in a local that stands for it. Its layout has no blocks. */
int row_memory_dim(const Buf *t, int i);
/* T is a temporary of this stage alone. */
bool row_keeps(const Row *r, const Buf *t);
/* And what S, alone, writes to it need not be stored. */
bool row_may_be_local(const Row *r, const Stmt *s, const Buf *t);
/* Whether band iterators OUT and IN, which stands for EXTENT points, step as one in every access. */
bool row_joins(Row *r, int out, int in, Dim *extent);
/* A merged iterator: the band iterators that it stands for, in order. */
typedef struct Merged {
	int of[MAX_ITERS], n;
	Dim *extent;
} Merged;

/* The band of R in G, one for each run of iterators that step as one; how many. Then: the stage's iterators for them, REP, AS
 * and POS. */
int row_merge_band(Row *r, Merged *g);
void row_stage_iters(Row *r, const Merged *g, int n);
/* AT: the values of the iterators of the current statement; those that the stage does not loop over are FREE's, in order. */
void row_point(const Row *r, Expr *const *free, Expr **at);
/* The stage loops over IT, a band iterator of the current statement. */
bool row_is_fixed(const Row *r, const Iter *it);
/* S stores elements that share a byte: one after the other, in one thread. */
bool row_packed(const Stmt *s);
Expr *row_extent(Row *r, const Iter *it);

/* VEC and FIXED, by the accesses of all statements (row_along.c). */
void row_choose_vector(Row *r);
/* Of iterators T the one that lanes go over; -1 where there are none. */
int row_lane_of(const Points *t);
/* The taps of a window: points of what S reduces, 0 where that is not known or too many to unroll. */
int64_t row_taps(const Stmt *s);

#endif
