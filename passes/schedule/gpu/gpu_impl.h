/* SPDX-License-Identifier: Apache-2.0 */
/* What the strategies for GPUs share (passes/schedule/gpu/sched_gpu.c lists them). */
#ifndef PASSES_SCHEDULE_GPU_GPU_IMPL_H
#define PASSES_SCHEDULE_GPU_GPU_IMPL_H

#include "passes/kernel/points.h"
#include "passes/schedule/common/row.h"
#include "passes/schedule/gpu/gpu.h"
#include "runtime/vector.h"

enum {
	WARP = 32,
	VECTOR_BYTES = GPU_VECTOR, /* of one access, at most */
	MOST_VECTOR = 8,           /* elements of one access */
	SECTOR = 32,               /* bytes: memory answers requests in such */
	LINE = 128,                /* bytes: of four sectors, and of all banks of shared memory */
	SHARED = 40 << 10,         /* bytes that a block may share */
	TRANSPOSE_SHORT = 16,      /* rows of no more elements, */
	TRANSPOSE_MIDDLE = 128,    /* or of these, are turned in tiles of their own shapes */
	GPU_DRIVER =
		1
		<< 10 /* bytes of an SM's shared memory that the driver takes of each block, from sm_80 on */
};

/* The few rows of a product: iterators of the band that its matrix does not have, which what has a part of the matrix
 * does all at once. None: n is 0. */
typedef struct SkinnyRows {
	int of[MAX_ITERS], n; /* of the band, outermost first */
	Dim *rows;            /* their product */
	int64_t most;         /* rows are so many at the most, or that many are done at once */
	bool along;           /* the matrix is contiguous along the summed iterator */
	const Buf *lanes;     /* the matrix, in the order of fragments; else null */
	int col;              /* then: of the band, its columns */
} SkinnyRows;

/* What D is at most in runs for which S is, or DIM_INF. */
int64_t gpu_most(const Schedule *s, Dim *d);
/* Bytes of shared memory that a block of S may have on GPU, and on any other that S is for, where it has use of WANTED. */
int64_t gpu_block_room(Schedule *s, const Gpu *gpu, int64_t wanted);
/* The length of rows of K, where it is not known when they are scheduled; else null. */
Dim *gpu_row_length(Kernel *k);
/* D where no symbol is more than it must be, but none is 0 either. */
int64_t gpu_least(Ctx *c, const Dim *d);
/* STEP, of N, with one of SIZE up to MOST, where that says anything: some sizes are so small, and some are not. */
int gpu_add_step(Ctx *c, SizeStep *step, int n, Dim *size, int64_t most);
/* What of K's statements from FIRST on under BAND are few rows where S is to serve (passes/schedule/gpu/skinny.c). */
void gpu_skinny_rows(const Schedule *s, Kernel *k, int first, const Band *band, SkinnyRows *skinny);
/* Row FLAT of all stands for the iterators of F; AS, another or the same, in accesses. */
void gpu_skinny_place(Row *r, const SkinnyRows *f, Expr *as, Expr *flat);
/* Some reduction of K has so many terms that its sum may be worth splitting (passes/schedule/gpu/split.c). */
bool gpu_may_split(Kernel *k);
/* Splits reductions of K whose stages, in schedule SCHED of its like, leave SMs idle, over blocks; false where there are
 * none. Else the statements are now those of *N stages, which begin at *FIRST. */
bool gpu_split(const Module *m, const Target *t, Kernel *k, Schedule *sched, int **first, int *n);
/* What statements of K make of all of their rows goes through memory in SCHED, of its like, and is recomputed here where it is read
 * (passes/schedule/gpu/recompute.c); false where there is none, or, of any schedule, may be none. */
bool gpu_recompute(Kernel *k, const Schedule *sched);
bool gpu_may_recompute(Kernel *k);
/* A stage of S, where its points are updates in any order (passes/schedule/gpu/scatter.c); false where they are not. */
bool gpu_scatter(LBuild *b, Stmt *s);
/* A stage of map S alone. False where elements of less than a byte would be shared between threads. */
bool gpu_map(LBuild *b, Stmt *s);
/* The length of rows that some map of K keeps whole while it turns what it reads, where that is not known; else null. */
Dim *gpu_map_row(Kernel *k);
Dim *gpu_transpose_length(const Stmt *s, Points *p); /* that of map S, given as P */
/* A stage of map S, given as P, where it turns what it reads (passes/schedule/gpu/transpose.c); false where it does not. */
bool gpu_transpose(LBuild *b, Stmt *s, Points *p);
/* A stage of the statements of R, where they reduce across memory, which is contiguous along iterator ALONG of the band
 * (passes/schedule/gpu/column_reduce.c); false where they do not. */
bool gpu_column_reduce(Row *r, const Gpu *gpu, int along, const SkinnyRows *skinny);
/* A stage of the statements of R, where they reduce across memory several times, or go over it again (passes/schedule/gpu/columns.c);
 * false where they do not. */
bool gpu_columns(Row *r, const Gpu *gpu, int along);
/* A stage of the statements of R, which each have few points of a row, where rows lie side by side along iterator ALONG of the band in
 * small panels (passes/schedule/gpu/small_panels.c); false where they do not. */
bool gpu_small_panels(Row *r, int along);
/* The elements that an iteration of a stage, the N iterators SPLIT, has for itself, side by side, where AT runs over all of those; null:
 * it has no such, as where AT is null; 0: all iterations have one element. */
Dim *gpu_own_elements(Ctx *c, Expr *at, Iter *const *split, int n);
/* A statement of R writes B: what it has is not to be read before. */
bool gpu_writes(const Row *r, const Buf *b);
/* The first statement of R reduces to one value, and the others follow it point by point. */
bool gpu_chain(const Row *r);
/* A stage of the statements of R, where stencils slide and memory is contiguous along iterator ALONG of the band
 * (passes/schedule/gpu/stencil.c); false where they do not. */
bool gpu_stencil(Row *r, const Gpu *gpu, int along);
/* Statement S of a thread's own row, in the form AS, which reads the same elsewhere. */
void gpu_row_stmt(Row *r, Stmt *s, Stmt *as);
/* A stage of statements FIRST..LAST under BAND. */
void gpu_row(LBuild *b, const Gpu *gpu, const char *strategy, int first, int last, const Band *band,
	     const SkinnyRows *skinny);
/* Temporary T, which S writes, as a local of the row, where it may be one; not declared yet. */
void gpu_make_local(Row *r, const Stmt *s, Buf *t);
/* The statements of a stage whose rows have a group each (passes/schedule/gpu/group.c); the N iterators that the stage is split into; null,
 * or what goes over few rows of a group. */
void gpu_group(Row *r, const Gpu *gpu, Iter *const *split, int n, Iter *skinny);

#endif
