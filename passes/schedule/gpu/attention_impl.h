/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the strategy *attention* on GPUs (attention.c describes it). */
#ifndef PASSES_SCHEDULE_GPU_ATTENTION_IMPL_H
#define PASSES_SCHEDULE_GPU_ATTENTION_IMPL_H

#include "passes/forms/online.h"
#include "passes/schedule/common/decision.h"
#include "passes/schedule/gpu/gpu_impl.h"

enum { KEYS = 16 /* a step of two instructions has so many, or MMA_STEP_BYTES of terms */ };

typedef struct GpuAttention {
	const Target *t;
	OnlineForm f;
	MmaKind mma[2];
	TileOperand op[OPERAND_COUNT]; /* over the iterators of OnlineForm */
	OperandTile tile[OPERAND_COUNT];
	int64_t at[OPERAND_COUNT]; /* bytes of the block's scratch before their buffers */
	Dim *rows, *keys, *batch;
	int64_t d, e;
	int dp, ep; /* the same, up to the next multiple of the instruction */
	Expr *factor; /* of the scores, which are summed without it; or null */
	/* from the decision: warps of a block for rows, and for keys; fragments of 16 rows of a
	 * warp; rows of a block, and keys of a step of a warp; parts of the keys, at most */
	int warps, splits, fragments, rm, bn, parts;
	int bm; /* rows of the tiles: each row of the block is there for every part of its warps */
	int64_t shared;
} GpuAttention;

/* A tree that is being built. */
typedef struct AttentionEmit {
	GpuAttention a;
	LBuild b;
	Ctx *c;
	ExprPool *p;
	/* The tiles have BM rows: RM rows, from FIRST_ROW on, of ROWS; in the blocks that go
	 * through the keys once for each part of the warps. All rows are the points of the NROWS
	 * iterators ROW_ITER. */
	Iter *row_iter[MAX_ITERS];
	int nrows, rm, bm;
	Dim *rows;
	Expr *first_row;
	Iter *part, *jb, *slot, *first; /* FIRST: of the block's steps over the keys */
	Dim *parts, *each;              /* parts of the keys for blocks; steps of a part */
	Buf *tile[OPERAND_COUNT];
	Buf *score, *weight, *result;
	/* of each row: the maximum so far, and with the current keys; what the sums so far are
	 * multiplied by; the sums */
	Buf *most, *next, *scale, *sum[ONLINE_SUMS];
	/* in memory, by part of blocks, part of warps, batch, row: what is combined */
	Buf *part_most, *part_sum[ONLINE_SUMS], *part_result;
	TileLayout scores, results, row;
} AttentionEmit;

/* Where expressions of the form are evaluated: the iterators FROM are TO at the points of N. */
typedef struct PlacedAt {
	AttentionEmit *e;
	const TileNode *n;
	Buf *most; /* the tile that stands for the maximum */
	Iter *from[MAX_ITERS];
	Expr *to[MAX_ITERS],
		*inside[MAX_ITERS]; /* INSIDE: for the indices of loads, kept in the buffer */
	int nfrom;
} PlacedAt;

/* ---- attention.c ---- */

/* Initialises A for K on T, but for what follows from a decision; false if K is not an attention of
 * this form. */
bool gpu_attention_open(GpuAttention *a, const Target *t, Kernel *k);
/* Sets what follows from D. */
void gpu_attention_shape(GpuAttention *a, const GpuDecision *d);
/* An estimate of the registers of a thread. */
int gpu_attention_registers(const GpuAttention *a);
/* Sum I is of the exponentials, which are the weights before they are rounded, and only divides
 * results. Then the instruction that multiplies the weights by the values adds up the weights, too,
 * as a product by ones: adding up exponentials would take a quarter of the instructions between the
 * products. Results are means of values by the weights as they are. */
bool attention_sums_weights(const GpuAttention *a, int i);
/* Whether blocks or warps compute partial results, which are combined. */
bool gpu_attention_splits(const GpuAttention *a);

/* ---- attention_points.c ---- */

Iter *attention_iter(AttentionEmit *e, const char *name, int64_t extent);
/* Appends an operation whose points are ROWS by COLS (0: rows only) of LAYOUT. */
TileNode *attention_op(AttentionEmit *e, TileOp op, Buf *to, const TileLayout *layout, int rows,
		       int cols);
Expr *attention_it(AttentionEmit *e, const TileNode *n, int i); /* iterator I of N */
/* Element [it...] of tile B at the points of N. */
Expr *attention_at(AttentionEmit *e, const TileNode *n, Buf *b);
/* Maps to TO over the rows, and over the results. */
TileNode *attention_map_rows(AttentionEmit *e, Buf *to);
TileNode *attention_map_results(AttentionEmit *e, Buf *to);
Expr *attention_number(AttentionEmit *e, double v);
/* Row M of the tiles as one of all rows. */
Expr *attention_row(AttentionEmit *e, Expr *m);
/* AT is less than SIZE; null: it always is, as SIZE is a multiple of STEP. */
Expr *attention_before(AttentionEmit *e, Expr *at, Dim *size, int64_t step);
/* AT, which is less than SIZE rounded up to STEP; or the last one before SIZE. */
Expr *attention_inside(AttentionEmit *e, Expr *at, Dim *size, int64_t step);
void attention_put(PlacedAt *x, Iter *it, Expr *to, Expr *inside);
void attention_put_row(PlacedAt *x, Expr *at); /* row AT of all rows */
/* E, an expression of the form, at X. */
Expr *attention_placed(PlacedAt *x, Expr *e);
/* The factor, at the points of N, of sums whose maximum was WAS and is IS: 0 if all keys were
 * masked. */
Expr *attention_factor(AttentionEmit *e, const TileNode *n, Buf *was, Buf *is);
/* The exponential at the points of N, of the score less the shift. While all keys so far are
 * masked, the maximum is -inf, and maybe the shift; the exponentials are 0. */
Expr *attention_weight(AttentionEmit *e, const TileNode *n);
/* Tiles for the results, the maxima and the sums, whose layouts are E's, and their initial
 * values. */
void attention_declare_state(AttentionEmit *e);
void attention_start(AttentionEmit *e);
/* NEXT has the new maxima: sets the factor of what was summed with the old ones, then the
 * maxima. */
void attention_rescale(AttentionEmit *e);
/* The points of N, which has what was summed, times the factor. */
void attention_scale(AttentionEmit *e, TileNode *n);
/* Stores the results of the form. */
void attention_results(AttentionEmit *e);

/* ---- attention_hidden.c ---- */

/* The first and the last key that some row of the block may see; null: no bound is known. They may
 * be no keys. */
void attention_visible(AttentionEmit *e, Expr **low, Expr **high);

/* ---- attention_combine.c ---- */

/* Declares the memory for partial results, and stores those of a block. */
void attention_declare_parts(AttentionEmit *e);
void attention_store_parts(AttentionEmit *e);
/* Combines them, in the last block of those that share rows. */
void attention_combine(AttentionEmit *e);

#endif
