/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the strategy *attention* on GPUs (attention.c describes it). */
#ifndef PASSES_SCHEDULE_GPU_ATTENTION_IMPL_H
#define PASSES_SCHEDULE_GPU_ATTENTION_IMPL_H

#include "passes/forms/online.h"
#include "passes/schedule/common/decision.h"
#include "passes/schedule/gpu/gpu_impl.h"

/* An operand of one of the products: how its tiles in shared memory are filled, and lie there. */
typedef struct StagedOperand {
	Expr *val; /* over the iterators of OnlineForm; loads of memory are flat */
	DType type;
	/* contiguous along the terms of its product, as rows of the tile: [side][term]; else [term][side] */
	bool along;
	int vector; /* elements of one access */
	bool async; /* cp.async can copy it */
	int rows, cols;
	int64_t pitch,
		at; /* bytes from row to row, and from the block's scratch to the first buffer */
} StagedOperand;

typedef struct GpuAttention {
	const Target *t;
	OnlineForm f;
	MmaKind mma[2];
	StagedOperand op[OPERAND_COUNT];
	Dim *rows, *keys, *batch;
	int64_t d, e;
	int dp, ep; /* the same, up to the next multiple of the instruction */
	/* from the decision: warps of a block; fragments of 16 rows of a warp; rows and keys of a block */
	int warps, fragments, bm, bn;
	int64_t shared;
} GpuAttention;

/* ---- attention.c ---- */

/* Initialises A for K on T, but for what follows from a decision; false if K is not an attention of this
 * form. */
bool gpu_attention_open(GpuAttention *a, const Target *t, Kernel *k);
/* Sets what follows from D, whose digits are as gpu_attention_digits makes them. */
void gpu_attention_shape(GpuAttention *a, const GpuDecision *d);
/* The decision for WARPS warps, each with FRAGMENTS fragments of rows, and blocks of KEYS keys, in STAGES
 * buffers. */
GpuDecision gpu_attention_digits(const GpuAttention *a, int warps, int fragments, int keys,
				 int stages);
/* An estimate of the registers of a thread. */
int gpu_attention_registers(const GpuAttention *a);

#endif
