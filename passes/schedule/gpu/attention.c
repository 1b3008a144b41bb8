/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy *attention* on GPUs (passes/forms/online.h says what it takes): one launch, and no
 * scores in memory. A block has some rows of queries, which it stages in shared memory, and goes
 * through all keys:
 *
 *   p over (g, block of rows)                        a block of warps, each with 16 rows or a multiple
 *     for jb over blocks of keys                     a software pipeline
 *       s = Q tile * K tile                          sums in registers
 *       the statements between the products, point by point; running maxima, and sums, of rows
 *       w = the weights, as the operand of the second product: the sums of the first one lie as it wants them
 *       o = o * exp(shift before - shift now) + w * V tile
 *     the statements after the products
 *
 * A warp has whole rows, so that maxima and sums cross lanes only. The layouts are those of
 * ir/loop/tile_layouts.c.
 *
 * Where few rows share many keys, as where a model decodes with a cache, blocks share the keys of a
 * row, and so may the warps of a block, which then have the same rows. Each has a maximum, sums and
 * results of its own, which are combined (attention_combine.c). Heads that share keys
 * are rows as well.
 *
 * Here: the operands. attention_decide.c chooses, attention_emit.c builds the tree.
 */
#include "passes/schedule/gpu/attention_impl.h"

#include "base/round.h"

static void open_operand(GpuAttention *a, GpuOperand i, Expr *val, DType type, Iter *const *side,
			 int nside, Iter *term)
{
	a->op[i] = (TileOperand){
		.val = expr_flatten(a->f.k, val), .type = type, .side = side, .nside = nside};
	gpu_operand_open(a->f.k, a->t->gpu, &a->op[i], &term, 1);
}

static DType type_of(MmaKind kind, int operand)
{
	return kind == MMA_FMA ? DT_F32 : mma_info[kind].type[operand];
}

/* E without factors that are the same at every point, which go to A->factor. */
static Expr *without_factor(GpuAttention *a, Expr *e)
{
	ExprPool *p = a->f.k->pool;

	while (ex_is_op(e, IN_mul) && e->ct == CT_F32) {
		const int at = e->op.arg[0]->kind == EX_CONST ? 0 : 1;

		if (e->op.arg[at]->kind != EX_CONST)
			break;
		a->factor = a->factor ? ex_op2(p, IN_mul, a->factor, e->op.arg[at]) : e->op.arg[at];
		e = e->op.arg[!at];
	}
	return e;
}

bool gpu_attention_open(GpuAttention *a, const Target *t, Kernel *k)
{
	const Gpu *gpu = t->gpu;
	OnlineForm *f = &a->f;
	const char *why;

	*a = (GpuAttention){.t = t};
	if (!online_takes(k, &why) || !online_begin(f, k))
		return false;
	/* Scores stay f32 up to the exponential: they are more exact than the model's tensors of 16
	 * bits, and rounding would take a sixth of the instructions between the products. */
	EX_MAP (e, k->pool, &f->x)
		if (ex_is_op(e, IN_round) && dtype_is_half(e->op.dtype) && expr_loads(e, f->score))
			e = e->op.arg[0];
	a->mma[0] = product_instruction(&f->scores, gpu, gpu->rounds);
	a->mma[1] = product_instruction(&f->values, gpu, gpu->rounds);
	a->rows = iters_points(k->ctx, f->scores.m, f->scores.nm);
	a->keys = f->key->extent;
	a->batch = iters_points(k->ctx, f->scores.g, f->scores.ng);
	dim_is_const(f->term->extent, &a->d);
	dim_is_const(f->column->extent, &a->e);
	open_operand(a, OPERAND_Q, f->scores.a, type_of(a->mma[0], 0), f->scores.m,
		     f->scores.nm == 1, f->term);
	open_operand(a, OPERAND_K, without_factor(a, f->scores.b), type_of(a->mma[0], 1), &f->key,
		     1, f->term);
	if (a->factor)
		EX_MAP (e, k->pool, &f->x)
			if (e->kind == EX_LOAD && e->load.buf == f->score)
				e = ex_op2(k->pool, IN_mul, e, a->factor);
	open_operand(a, OPERAND_V, f->v, type_of(a->mma[1], 1), &f->column, 1, f->key);
	a->dp = (int)round_up(a->d, MMA_STEP_BYTES / dtype_bytes(a->op[OPERAND_K].type));
	a->ep = (int)round_up(a->e, KEYS);
	return true;
}

static bool is_exponential(const OnlineForm *f, const Expr *e)
{
	return e->kind == EX_LOAD && e->load.buf == f->score;
}

/* E uses SUM only to divide what the second product sums. */
static bool only_divides(const OnlineForm *f, Expr *e, const Buf *sum)
{
	if (!expr_loads(e, sum))
		return true;
	if (e->kind != EX_INST)
		return false;
	if (ex_is_op(e, IN_div) && !expr_loads(e->op.arg[0], sum))
		return expr_loads(e->op.arg[0], f->acc);
	for (int i = 0; i < e->op.n; i++)
		if (!only_divides(f, e->op.arg[i], sum))
			return false;
	return true;
}

bool attention_sums_weights(const GpuAttention *a, int i)
{
	const OnlineForm *f = &a->f;
	const Expr *w = ex_is_op(f->w, IN_round) || ex_is_op(f->w, IN_roundsat) ? f->w->op.arg[0]
										: f->w;

	if (a->mma[1] == MMA_FMA || !is_exponential(f, w) || !is_exponential(f, f->sum_term[i]))
		return false;
	for (int r = 0; r < f->nresults; r++)
		if (!only_divides(f, f->result_val[r], f->sum[i]->out[0]))
			return false;
	return true;
}

bool gpu_attention_splits(const GpuAttention *a)
{
	return a->parts > 1 || a->splits > 1;
}

void gpu_attention_shape(GpuAttention *a, const GpuDecision *d)
{
	a->warps = d->warps;
	a->splits = d->splits;
	a->fragments = d->fragments;
	a->rm = a->warps * a->fragments * MMA_ROWS;
	a->bm = a->rm * a->splits;
	a->bn = d->keys;
	a->parts = d->parts;
	a->shared = 0;
	for (int i = 0; i < OPERAND_COUNT; i++) {
		const int side = i == OPERAND_Q   ? a->bm
				 : i == OPERAND_K ? a->bn
						  : a->ep,
			  buffers = i == OPERAND_Q ? 1 : d->stages * a->splits;

		a->tile[i] = gpu_operand_tile(&a->op[i], a->mma[i == OPERAND_V], side,
					      i == OPERAND_V ? a->bn : a->dp);
		a->at[i] = a->shared;
		a->shared += round_up(buffers * a->tile[i].rows * a->tile[i].pitch, LINE);
	}
}

/* The scores depend on a mask with an element for each key. */
static bool has_mask(const OnlineForm *f)
{
	EX_EACH_LOAD (e, f->x)
		if (e->load.buf->kind == BUF_IN && expr_has_iter(e, f->key))
			return true;
	return false;
}

/* An integer that the scores depend on combines a row and a key: their distance, in a window. */
static bool has_distances(const OnlineForm *f)
{
	EX_EACH (e, f->x)
		if (e->kind == EX_INST && !ctype_is_float(e->ct) && e->ct != CT_BOOL &&
		    expr_has_iter(e, f->key) && expr_has_any(e, f->scores.m, f->scores.nm))
			return true;
	return false;
}

int gpu_attention_registers(const GpuAttention *a)
{
	/* addresses, counters, and fragments of operands; what guards compare; what is selected or
	 * read for a score, with its addresses. With less, ptxas spills registers for forms of
	 * tests/gpu_attention. */
	enum { REST = 48, GUARDS = 16, MASKS = 24 };
	const bool mask = has_mask(&a->f);
	/* LLVM computes distances of a thread's rows from the keys of a step before the loop over
	 * the keys. They are 64 bits, and rows, eight apart, share them: two distances for 8 keys.
	 * With 4 registers for these, ptxas spilled on sm_120, for 64 keys in tf32. */
	const int pair = a->t->gpu->spare ? 6 : 4,
		  distances = has_distances(&a->f) ? pair * (a->bn / 8 + 2 * a->fragments - 1) : 0;
	bool masked = false;
	const int scores = a->bn / 2, results = a->ep / 2, bytes = dtype_bytes(type_of(a->mma[1], 0));
	const bool whole = gpu_is_multiple(a->keys, (int64_t)a->bn * a->splits) &&
			   gpu_is_multiple(a->rows, a->rm);
	/* scores live on beside the weights: for sums of exponentials, or while they are rounded */
	bool both = bytes > 2;

	for (int i = 0; i < a->f.nsums; i++)
		both = both || !attention_sums_weights(a, i);
	/* ptxas starts the loads of a mask, for all scores of a thread, before their uses */
	EX_EACH (e, a->f.x)
		masked = masked || ex_is_op(e, IN_select);
	return REST + (whole ? 0 : GUARDS) + (masked || mask ? MASKS : 0) + distances +
	       a->t->gpu->spare +
	       a->fragments * (scores * (mask ? 2 : 1) + results + (both ? a->bn * bytes / 8 : 0));
}
