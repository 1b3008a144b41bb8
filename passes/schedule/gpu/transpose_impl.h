/* SPDX-License-Identifier: Apache-2.0 */
/* Transposes: what transpose_rows.c takes of transpose.c. */
#ifndef PASSES_SCHEDULE_GPU_TRANSPOSE_IMPL_H
#define PASSES_SCHEDULE_GPU_TRANSPOSE_IMPL_H

#include "passes/schedule/gpu/gpu_impl.h"

enum { SIDE = 32, LONG = 4 * SIDE, MOST_LOADS = 4, TRANSPOSE_THREADS = 256 };

/* An access of the tile: in which order of the iterators it is contiguous. */
typedef struct Way {
	const Buf *buf; /* the buffer, accessed at AT */
	Expr *at;
	Affine a; /* AT as an affine expression */
	int along[MAX_ITERS],
		n; /* indices of Points' iterators along which AT is contiguous, innermost first */
} Way;

typedef struct TransposePlan {
	LBuild *b;
	Points *p;
	Way out, in[MOST_LOADS];
	Expr *load[MOST_LOADS]; /* the loads whose order differs from the store's */
	int n;
	int common; /* innermost iterators that the write and the loads have in common */
	int64_t tile[MAX_ITERS]; /* points of each iterator in a tile; 1: one index */
	Expr *first[MAX_ITERS];  /* the tile's first index */
} TransposePlan;

/* ---- transpose.c ---- */

int64_t transpose_sector(const Way *w); /* elements of a sector */
/* Analyses the access of BUF at AT; false if AT is not affine. */
bool transpose_way(const TransposePlan *t, const Buf *buf, Expr *at, Way *w);

/* Opens the stage of transpose S, and computes the tile of a block. */
void transpose_open_stage(TransposePlan *t, const Stmt *s);
/* Declares a shared tile of CELLS elements for load I, whose element is at AT of it. */
Staged transpose_local(TransposePlan *t, int i, int64_t cells, Expr *at);
/* Emits the store of VAL at the tile's points. */
void transpose_store(TransposePlan *t, Stmt *s, Expr *val);

/* ---- transpose_rows.c ---- */

/* Emits the stage of S, which keeps rows of unknown length whole
 * (passes/schedule/gpu/transpose_rows.c). */
void transpose_rows(TransposePlan *t, Stmt *s);

#endif
