/* SPDX-License-Identifier: Apache-2.0 */
/* Windows on GPUs: what passes/gpu_window.c decides and passes/gpu_window_emit.c writes. */
#ifndef PASSES_GPU_WINDOW_IMPL_H
#define PASSES_GPU_WINDOW_IMPL_H

#include "passes/gpu_impl.h"

enum {
	WINDOW_THREADS = 256,
	MOST_BOXES = 6,
	MOST_SLID = 2 /* iterators that tiles have several points of, but for the one along memory */
};

typedef struct Box {
	Stmt *s;
	const Buf *buf;
	Expr *load; /* of BUF; null: what S writes */
	Affine at[MAX_RANK];
	int dim[MAX_RANK]; /* in the order of memory, outermost first */
	Buf *tile;
} Box;

typedef struct Window {
	Row *r;
	int along; /* of the band */
	int slid[MOST_SLID], nslid;
	int64_t size[MAX_ITERS]; /* of the tile */
	Iter *in[MAX_ITERS];     /* the point in the tile */
	Expr *from[MAX_ITERS];   /* where the tile begins */
	Box box[MOST_BOXES], out;
	int n;
} Window;

/* Memory runs on along the last dims of a box, those that it has all of and the one before. */
typedef struct Run {
	int outer;           /* dims before, in the order of memory */
	int64_t inner;       /* elements of one point of the run's first dim */
	int64_t size, runs;  /* elements of a run, runs of a box */
	Dim *extent;         /* elements of the buffer along the run's dims */
	int64_t even;        /* elements of which runs begin at multiples, up to a sector's */
	int pack;            /* elements of an access */
	bool skewed;         /* accesses begin where a sector does, in or before the run */
	int64_t few, times;  /* threads that have it, and accesses of each */
} Run;

/* By how much term I of index A moves from point to point; -1: it is not known, or backwards. */
int64_t window_stride(const Affine *a, int i);
/* Points of the box along dim D. */
int64_t window_side(const Window *w, const Box *x, int d);
int window_bytes(const Box *x); /* of an element */
/* How memory, and the threads, go along box X, or what is written (passes/gpu_window_run.c). */
Run window_run(const Window *w, const Box *x);

/* The stage of W, whose tile is chosen. */
void window_emit(Window *w);

#endif
