/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the strategy *contraction* on GPUs share (gemm.c says what it is). */
#ifndef PASSES_SCHEDULE_GPU_GEMM_IMPL_H
#define PASSES_SCHEDULE_GPU_GEMM_IMPL_H

#include "passes/forms/form.h"
#include "passes/schedule/common/decision.h"
#include "passes/schedule/common/gemm.h"
#include "passes/schedule/gpu/gpu_impl.h"

enum { PART_COLUMNS = 32 }; /* least columns of a staged row of sums */

typedef struct GpuGemm {
	Gemm g;
	TileOperand a, b;
	BlockShape s;
	bool by_columns;        /* results are contiguous along m */
	const Schedule *serves; /* the schedule, whose guard bounds a size */
	Iter *mb, *nb;          /* the block's tile coordinates */
	Iter *slice;            /* of partial sums: the iterator of c.g over the parts; else null */
	Iter *slot;             /* which buffer of each tile is accessed */
	Buf *sums;
} GpuGemm;

/* ---- gemm_variants.c ---- */

/* The M, N and K and the number of matrices that the cost model assumes in the runs that G's
 * schedule serves (passes/schedule/gpu/gemm_variants.c). gemm_gpu_bounded: whether the number of
 * results is bounded there. */
void gemm_gpu_sizes(const GpuGemm *g, double size[4]);
bool gemm_gpu_bounded(const GpuGemm *g);

/* The rows, and all results, of a product of form F in K. */
Dim *gemm_gpu_rows(Kernel *k, const Form *f);
Dim *gemm_gpu_results(Kernel *k, const Form *f);

/* Sets up G for the runs of STEP of K, a copy of the kernel, and plans it; false if tiles do not
 * pay. */
bool gemm_gpu_variant(const Target *t, Kernel *k, const SizeStep *step, GpuGemm *g,
		      ProductVariant *v);

/* ---- gemm_choose.c ---- */

/* S fits the GPU's registers and shared memory, and its accesses fill sectors; else false, after
 * WHY (null: none) says which bound it breaks. */
bool gemm_gpu_possible(const GpuGemm *g, const BlockShape *s, StrBuf *why);
/* The next possible shape for SIZE after *AT, in S, and its cost; 0: there are no more. */
double gemm_gpu_next(const GpuGemm *g, const double size[4], BlockShape *s, int *at);
/* The iterator along which the sum may be split, *ALONG, and its points; an unknown number counts
 * as N. 0: none. */
int64_t gemm_gpu_longest(const GpuGemm *g, double n, Iter **along);

/* Finds the cheapest tile and split of the sum (passes/schedule/gpu/gemm_choose.c), and sets V but
 * for its sizes. Returns the cost in seconds, or 0 if no tile fits or one thread per result is
 * faster. */
double gemm_gpu_plan(const GpuGemm *g, ProductVariant *v);
/* The cost of G as variant V, which may be planned for other sizes; 0 if V is not possible. */
double gemm_gpu_cost(const GpuGemm *g, const ProductVariant *v);
/* Threads of a block, and its bytes of shared memory. */
int gemm_gpu_threads(const BlockShape *s);
int64_t gemm_gpu_shared(const GpuGemm *g, const BlockShape *s);
/* Bytes of all buffers of O's tile, SIDE of the block. */
int64_t gemm_gpu_tiles(const BlockShape *s, const TileOperand *o, int side);
/* Elements from row to row (column if they are contiguous along rows) of staged sums. */
int gemm_gpu_staged_row(const GpuGemm *g, const BlockShape *s);
/* The grid of warps, and how the operands' order distributes rows and columns over lanes. */
TileGrid gemm_gpu_grid(const GpuGemm *g);

/* ---- gemm.c ---- */

/* Sets up GG for statements 0..LAST of K as a tiled product for the runs that S serves; false if
 * they are not one. */
bool gemm_gpu_open(GpuGemm *gg, const Target *t, Kernel *k, int last, const Schedule *s);

/* ---- gemm_block.c ---- */

/* Emits the body of the stage (passes/schedule/gpu/gemm_block.c). If G has partial sums, WHOLE, the
 * product whose terms they are, is in the body of last blocks; else WHOLE is null. */
void gemm_gpu_emit(GpuGemm *g, GpuGemm *whole);

#endif
