/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of stencils on GPUs share (passes/schedule/gpu/stencil.c says what they are). */
#ifndef PASSES_SCHEDULE_GPU_STENCIL_IMPL_H
#define PASSES_SCHEDULE_GPU_STENCIL_IMPL_H

#include "passes/schedule/gpu/gpu_impl.h"

enum {
	STENCIL_THREADS = 256,
	MOST_BOXES = 6, /* what is read beside them is read from memory */
	MOST_MOVING =
		2 /* iterators that tiles have several points of, but for the one along memory; others have one */
};

typedef struct InputTile {
	Stmt *s;
	const Buf *buf;
	Expr *load; /* of BUF; null: what S writes */
	Affine at[MAX_RANK];
	int dim[MAX_RANK]; /* in the order of memory, outermost first */
	Buf *tile;
} InputTile;

typedef struct Stencil {
	Row *r;
	int along; /* of the band */
	int moving[MOST_MOVING], nmoving;
	int64_t size[MAX_ITERS]; /* of the tile */
	int most,
		vector; /* adjacent points in memory that a thread has at a time, at most and with this tile */
	Iter *elem;            /* which of them */
	Iter *in[MAX_ITERS];   /* the point in the tile; along memory, the PACK that it is of */
	Expr *from[MAX_ITERS]; /* where the tile begins */
	InputTile box[MOST_BOXES];
	int n;
	InputTile out; /* what the last statement writes; no buffer: nothing is known of that */
} Stencil;

/* Memory runs on along the last dims of a box, those that it has all of and the one before. */
typedef struct StencilRun {
	int outer;              /* dims before, in the order of memory */
	int64_t inner;          /* elements of one point of the run's first dim */
	int64_t size, runs;     /* elements of a run, runs of a box */
	Dim *extent;            /* elements of the buffer along the run's dims */
	int64_t align;          /* elements of which runs begin at multiples, up to a sector's */
	int vector;             /* elements of an access */
	bool peeled;            /* accesses begin where a sector does, in or before the run */
	int64_t threads, times; /* that have it, and accesses of each */
} StencilRun;

/* Where a run begins in the buffer along its dims, and, by the dims before, in memory. */
typedef struct Begin {
	Expr *from, *before;
	bool whole; /* all of it is in the buffer */
} Begin;

/* ---- stencil.c: the tile ---- */

/* By how much term I of index A moves from point to point; -1: it is not known, or backwards. */
int64_t stencil_stride(const Affine *a, int i);
/* Points of the box along dim D. */
int64_t stencil_side(const Stencil *w, const InputTile *x, int d);
int stencil_bytes(const InputTile *x); /* of an element */

/* ---- stencil_align.c ---- */

/* How memory, and the threads, go along box X, or what is written. */
StencilRun stencil_run(const Stencil *w, const InputTile *x);

/* ---- stencil_emit.c ---- */

/* The stage of W, whose tile is chosen. */
void stencil_emit(Stencil *w);
/* Where the box begins along D, and, in *WHOLE, that all of it is in the buffer. */
Expr *stencil_from(const Stencil *w, const InputTile *x, int d, bool *whole);
/* AT, and as far along D as the point of the tile is from the first one. */
Expr *stencil_at(const Stencil *w, const InputTile *x, int d, Expr *at);
/* AT: where run Y of X is along the dims before it. */
Begin stencil_begin(const Stencil *w, const InputTile *x, const StencilRun *y, Expr **at);
/* The threads that runs Y are shared out between; IN: N iterators, which say what run it is, and room for the thread's own. */
void stencil_open_runs(Row *r, const StencilRun *y, Iter **in, int n, Nest *nest);
/* The accesses of thread LANE of run Y, and which one of the run it is at. */
Expr *stencil_open_times(Row *r, const InputTile *x, const StencilRun *y, const Begin *g,
			 Iter *lane, Nest *nest);

/* ---- stencil_points.c ---- */

/* Each thread's points, which are made of what is in the tiles of boxes. */
void stencil_points(Stencil *w);

#endif
