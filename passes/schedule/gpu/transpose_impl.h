/* SPDX-License-Identifier: Apache-2.0 */
/* Transposes: what passes/schedule/gpu/transpose.c decides and passes/schedule/gpu/transpose_emit.c builds. */
#ifndef PASSES_SCHEDULE_GPU_TRANSPOSE_IMPL_H
#define PASSES_SCHEDULE_GPU_TRANSPOSE_IMPL_H

#include "passes/schedule/gpu/gpu_impl.h"

enum { SIDE = 32, LONG = 4 * SIDE, MOST_LOADS = 4, TRANSPOSE_THREADS = 256 };

/* One way through the tile. */
typedef struct Way {
	const Buf *buf; /* what is accessed, at AT, */
	Expr *at;
	Affine a; /* which is this */
	int along[MAX_ITERS],
		n; /* iterators (of Points) along which memory runs on, innermost first */
} Way;

typedef struct TransposePlan {
	LBuild *b;
	Points *p;
	Way out, in[MOST_LOADS];
	Expr *load[MOST_LOADS]; /* those that are turned */
	int n;
	int common; /* iterators along which the write and the loads both run first */
	int64_t tile
		[MAX_ITERS]; /* of each iterator, so many points; 1: the tile has one index of it */
	Expr *first[MAX_ITERS]; /* where the tile begins */
} TransposePlan;

int transpose_bytes(const Way *w);      /* of an element */
int64_t transpose_sector(const Way *w); /* elements of a sector */
/* The way through BUF at AT; false where AT is not affine. */
bool transpose_way(const TransposePlan *t, const Buf *buf, Expr *at, Way *w);
/* The tile has all of iterator I. */
bool transpose_whole(const TransposePlan *t, int i);
int64_t transpose_points(const TransposePlan *t); /* of a tile */
/* Elements of W in a tile that follow one another in memory; *N: along so many of its iterators. */
int64_t transpose_run(const TransposePlan *t, const Way *w, int *n);
/* Runs of W do not all begin where sectors do, or there is no saying. */
bool transpose_misaligned(const TransposePlan *t, const Way *w);
/* The iterators of which the tile has several indices, as W goes through them: those of its run are first. How many. */
int transpose_order(const TransposePlan *t, const Way *w, int *order);
/* By iterator: its step in the tile of W. The elements that it has. */
int64_t transpose_steps(const TransposePlan *t, const Way *w, int64_t *steps);

/* Opens the stage of S, a transpose: which block has which tile. */
void transpose_open_stage(TransposePlan *t, const Stmt *s);
/* A tile of so many CELLS for load I. */
Buf *transpose_local(TransposePlan *t, int i, int64_t cells);
/* Stores VAL at the tile's points. */
void transpose_store(TransposePlan *t, Stmt *s, Expr *val);
/* The value of T, whose load I is element AT[I] of TILE[I]. */
Expr *transpose_value(const TransposePlan *t, Buf *const *tile, Expr **at);

/* The stage of S, which T is about, whose tile is chosen. */
void transpose_emit(TransposePlan *t, Stmt *s);
/* That of S, where T keeps rows whose length is not known (passes/schedule/gpu/transpose_rows.c). */
void transpose_rows(TransposePlan *t, Stmt *s);

#endif
