/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the strategy *contraction* on GPUs share (gemm.c says what it is). */
#ifndef PASSES_SCHEDULE_GPU_GEMM_IMPL_H
#define PASSES_SCHEDULE_GPU_GEMM_IMPL_H

#include "passes/layout/fragments.h"
#include "passes/schedule/common/gemm.h"
#include "passes/schedule/gpu/gpu.h"

enum { PART_COLUMNS = 32 }; /* of a strip's row, the fewest */

/* One operand of the product as its tiles in shared memory are filled. */
typedef struct TileOperand {
	Expr *val, *guard; /* flat loads */
	Iter *const *side; /* its free iterators, m or n */
	int nside;
	bool along;               /* a row of the tile is contiguous along k */
	bool k_joins, side_joins; /* the iterators run through every load as one would */
	int vector;               /* elements of a chunk */
	bool lanes;               /* it lies in the order of FRAGMENTS, and so do tiles */
	Fragments fragments;
	bool async;
	DType type; /* as it lies there */
} TileOperand;

/* What a block does, and in which steps. */
typedef struct BlockShape {
	MmaKind kind;
	int bm, bn, bk, wm, wn, tm, tn, stages;
} BlockShape;

/* How a product is done: blocks for each of PARTS of the sum, of EACH points of iterator ALONG. */
typedef struct GemmPlan {
	BlockShape s;
	int64_t parts, each; /* 1 part: the whole, and no EACH */
	Iter *along;
} GemmPlan;

typedef struct GpuGemm {
	Gemm g;
	TileOperand a, b;
	BlockShape s;
	bool by_columns;        /* results lie along m */
	const Schedule *serves; /* its guard tells a size */
	Iter *mb, *nb;          /* the block's numbers */
} GpuGemm;

/* What the model takes G's rows, columns, terms and matrices to be in runs for which its schedule is (passes/schedule/gpu/gemm_variants.c). And whether
 * the number of its results is bounded there. */
void gemm_gpu_sizes(const GpuGemm *g, double size[4]);
bool gemm_gpu_bounded(const GpuGemm *g);
/* The shape for G's sizes on its target (passes/schedule/gpu/gemm_choose.c); false where a thread a result serves better. */
bool gemm_gpu_shape(GpuGemm *g, const Options *o);
/* Prints the N best tiles for it. */
void gemm_gpu_list(const GpuGemm *g, int n);
/* Of a product on G's target, with these M, N and K, the line of TEXT, which may be null: the tile and the slots in *S. Prints
 * such a line (passes/schedule/gpu/gemm_tiles_text.c). */
bool gemm_tiles_find(const char *text, const GpuGemm *g, const double size[4], BlockShape *s);
void gemm_tiles_print(const GpuGemm *g, const double size[4], const BlockShape *s);
/* The best tile, and into how many parts the sum is better split (passes/schedule/gpu/gemm_choose.c); its cost in seconds, 0 where there
 * is none. One whose tile O names has no parts but such as O names, too. */
double gemm_gpu_plan(const GpuGemm *g, const Options *o, GemmPlan *p);
/* What G costs by plan P, which may be that for other sizes; 0: it cannot. */
double gemm_gpu_cost(const GpuGemm *g, const GemmPlan *p);
/* Statements 0..LAST of K as a product of tiles, of sizes for which S is; false where they are none. */
bool gemm_gpu_open(GpuGemm *gg, const Options *o, const Target *t, Kernel *k, int last,
		   const Schedule *s);
/* Threads of a block, and bytes of shared memory. */
int gemm_gpu_threads(const BlockShape *s);
int64_t gemm_gpu_shared(const GpuGemm *g, const BlockShape *s);
/* The body of the stage (passes/schedule/gpu/gemm_block.c). */
void gemm_gpu_emit(GpuGemm *g);

#endif
