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

/* By how much term I of index A moves from point to point; -1: it is not known, or backwards. */
int64_t window_stride(const Affine *a, int i);
/* Points of the box along dim D. */
int64_t window_side(const Window *w, const Box *x, int d);
int window_bytes(const Box *x); /* of an element */

/* The stage of W, whose tile is chosen. */
void window_emit(Window *w);

#endif
