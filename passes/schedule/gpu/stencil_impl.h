/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of stencils on GPUs share (passes/schedule/gpu/stencil.c says what they are). */
#ifndef PASSES_SCHEDULE_GPU_STENCIL_IMPL_H
#define PASSES_SCHEDULE_GPU_STENCIL_IMPL_H

#include "passes/schedule/gpu/gpu_impl.h"

enum {
	STENCIL_THREADS = 256,
	MOST_BOXES = 6, /* input tiles at most; further inputs are read from memory */
	MOST_MOVING = 2 /* iterators, the contiguous one apart, with several points in a tile */
};

typedef struct InputTile {
	Stmt *s;
	const Buf *buf;
	Expr *load; /* load of BUF; null: the output of S */
	Affine at[MAX_RANK];
	int dim[MAX_RANK]; /* dims of BUF in memory order, outermost first */
	Buf *tile;
} InputTile;

typedef struct Stencil {
	Row *r;
	int along; /* band index of the contiguous iterator */
	int moving[MOST_MOVING], nmoving;
	int64_t size[MAX_ITERS]; /* points of the output tile */
	/* contiguous points that a thread computes at a time: at most, and with this tile */
	int most, vector;
	Iter *elem; /* the point of the vector */
	/* the point in the tile; along the contiguous iterator, the number of the vector */
	Iter *in[MAX_ITERS];
	Expr *from[MAX_ITERS]; /* the first point of the tile */
	InputTile box[MOST_BOXES];
	int n;
	InputTile out; /* the output of the last statement; no buffer: its form is not known */
} Stencil;

/* The contiguous runs of an input tile. Its innermost dims that span the whole buffer, and the one
 * before them, are contiguous in memory. */
typedef struct StencilRun {
	int outer;              /* dims outside the run, in memory order */
	int64_t inner;          /* elements per point of the run's first dim */
	int64_t size, runs;     /* elements of a run; runs of an input tile */
	Dim *extent;            /* elements of the buffer along the run's dims */
	/* runs begin at multiples of this many elements, a sector at most */
	int64_t align;
	int vector;             /* elements of an access */
	/* the first access begins at the sector's boundary before the run */
	bool peeled;
	int64_t threads, times; /* threads that move a run; accesses of each */
} StencilRun;

/* The start of a run: FROM, its index along the run's dims, and BEFORE, the flat index of the outer
 * dims. */
typedef struct Begin {
	Expr *from, *before;
	bool whole; /* all of the run is inside the buffer */
} Begin;

/* ---- stencil_emit.c ---- */

/* Emits the stage of W, whose tile is chosen. */
void stencil_emit(Stencil *w);

/* ---- stencil.c ---- */

/* Chooses how threads traverse input tile X, or the output. */
StencilRun stencil_run(const Stencil *w, const InputTile *x);
/* The step of iterator I in index A; -1: unknown or negative. */
int64_t stencil_stride(const Affine *a, int i);
/* Points of the input tile along dim D. */
int64_t stencil_side(const Stencil *w, const InputTile *x, int d);

#endif
