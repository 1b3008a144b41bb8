/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of an attention on a GPU. It is as the decision says: nothing is chosen here. */
#include "passes/schedule/gpu/attention_impl.h"

#include <assert.h>
#include <math.h>

/* ---- Rows and keys ---- */

static TileNode *map_scores(AttentionEmit *e, Buf *to)
{
	TileNode *n = attention_op(e, TILE_MAP, to, &e->scores, e->bm, e->a.bn);

	gpu_write(&e->b, n, n->to->rank);
	return n;
}

/* Key N of the current step, of the part of the warps that row M of the tiles belongs to, or number
 * PART. */
static Expr *key_at(AttentionEmit *e, Expr *part, Expr *n)
{
	Expr *step = ex_add(e->p, ex_iter(e->p, e->first), ex_iter(e->p, e->jb));

	if (e->a.splits > 1)
		step = ex_add(e->p, ex_mul(e->p, step, l_int(&e->b, e->a.splits)), part);
	return ex_add(e->p, ex_mul(e->p, step, l_int(&e->b, e->a.bn)), n);
}

static Expr *part_of(AttentionEmit *e, Expr *m)
{
	return ex_op2(e->p, IN_floordiv, m, l_int(&e->b, e->rm));
}

/* KEY exists; null: always. */
static Expr *key_exists(AttentionEmit *e, Expr *key)
{
	return attention_before(e, key, e->a.keys, e->a.bn * e->a.splits);
}

static Expr *key_of(AttentionEmit *e, const TileNode *n)
{
	return key_at(e, part_of(e, attention_it(e, n, 0)), attention_it(e, n, 1));
}

/* For the points of N: rows and keys. */
static PlacedAt at_scores(AttentionEmit *e, const TileNode *n)
{
	PlacedAt x = {.e = e, .n = n, .most = e->most};
	Expr *key = key_of(e, n);

	attention_put_row(&x, attention_row(e, attention_it(e, n, 0)));
	attention_put(&x, e->a.f.key, key,
		      attention_inside(e, key, e->a.keys, e->a.bn * e->a.splits));
	return x;
}

/* ---- Tiles ---- */

/* The number of the buffer of part PART that is filled or read in the current step. */
static Expr *buffer_at(AttentionEmit *e, Expr *part)
{
	Expr *slot = ex_iter(e->p, e->slot);

	return e->a.splits > 1 ? ex_add(e->p, ex_mul(e->p, slot, l_int(&e->b, e->a.splits)), part)
			       : slot;
}

static void declare_tiles(AttentionEmit *e, const GpuDecision *d)
{
	static const char *const names[] = {"q_tile", "k_tile", "v_tile"};
	GpuAttention *a = &e->a;
	const int64_t scores[] = {e->bm, a->bn};
	const int warps = a->warps * a->splits;
	const MmaKind kind = a->mma[1];
	const DType type = kind == MMA_FMA ? DT_F32 : mma_info[kind].type[0];
	TileLayout weights = tile_operand(kind, warps, e->bm, a->bn, true);

	e->scores = tile_sums(&(TileGrid){.wm = warps, .wn = 1}, e->bm, a->bn);
	e->results = tile_sums(&(TileGrid){.wm = warps, .wn = 1}, e->bm, a->ep);
	for (int i = 0; i < OPERAND_COUNT; i++)
		e->tile[i] = gpu_operand_declare(
			&e->b, names[i], &a->op[i], &a->tile[i], a->mma[i == OPERAND_V],
			i == OPERAND_Q ? 0 : d->stages * a->splits, a->at[i]);
	e->score = gpu_tile(&e->b, "s", DT_F32, scores, &e->scores);
	assert(layout_change(&e->scores, &weights) <= CHANGE_RENAME);
	e->weight = gpu_tile(&e->b, "w", type, scores, &e->scores);
	attention_declare_state(e);
}

/* ---- Copies ---- */

/* Fills the tile of operand I; of keys and values, that of part PART. */
static void emit_copy(AttentionEmit *e, GpuOperand i, bool async, int part)
{
	GpuAttention *a = &e->a;
	const TileOperand *o = &a->op[i];
	TileNode *n = attention_op(e, TILE_COPY, e->tile[i], NULL, a->tile[i].rows,
				   a->tile[i].cols);
	Expr *side = attention_it(e, n, !o->along), *term = attention_it(e, n, o->along), *guard,
	     *number = l_int(&e->b, part), *row = attention_row(e, side);
	PlacedAt x = {.e = e, .n = n};

	if (i == OPERAND_Q) {
		attention_put_row(&x, row);
		guard = attention_before(e, row, e->rows, e->rm);
	} else if (i == OPERAND_K) {
		attention_put(&x, a->f.key, key_at(e, number, side), NULL);
		guard = key_exists(e, key_at(e, number, side));
	} else {
		attention_put(&x, a->f.key, key_at(e, number, term), NULL);
		attention_put(&x, a->f.column, side, NULL);
		guard = ex_and(e->p, key_exists(e, key_at(e, number, term)),
			       attention_before(e, side, dim_const(e->c, a->e), a->ep));
	}
	if (i != OPERAND_V) {
		attention_put(&x, a->f.term, term, NULL);
		guard = ex_and(e->p, guard,
			       attention_before(e, term, dim_const(e->c, a->d), a->dp));
	}
	if (e->tile[i]->rank > 2)
		n->idx[n->nidx++] = buffer_at(e, number);
	n->idx[n->nidx++] = attention_it(e, n, 0);
	n->idx[n->nidx++] = attention_it(e, n, 1);
	n->val = ex_subst_iters(e->p, o->val, x.from, x.to, x.nfrom);
	n->guard = guard;
	n->vector = o->vector;
	n->async = async;
}

/* ---- The loop over keys ---- */

/* Operand I of N, a dot whose other side is the rows. */
static Expr *tile_operand_at(AttentionEmit *e, const TileNode *n, GpuOperand i, Iter *side)
{
	Expr *buffer = i == OPERAND_Q ? NULL : buffer_at(e, part_of(e, attention_it(e, n, 0)));

	return gpu_operand_at(&e->b, &e->a.op[i], e->tile[i], buffer, side, n->it[2]);
}

static TileNode *add_dot(AttentionEmit *e, Buf *to, int cols, int terms, MmaKind kind)
{
	TileNode *n = attention_op(e, TILE_DOT, to, NULL, e->bm, cols);

	gpu_write(&e->b, n, n->to->rank);
	n->it[n->n++] = attention_iter(e, "c", terms);
	n->mma = kind;
	return n;
}

static void emit_scores(AttentionEmit *e)
{
	TileNode *n = add_dot(e, e->score, e->a.bn, e->a.dp, e->a.mma[0]);
	PlacedAt x;

	n->val = tile_operand_at(e, n, OPERAND_Q, n->it[0]);
	n->by = tile_operand_at(e, n, OPERAND_K, n->it[1]);
	if (gpu_is_multiple(e->a.keys, e->a.bn * e->a.splits) && e->a.f.x->kind == EX_LOAD &&
	    e->a.f.x->load.buf == e->a.f.score)
		return;
	/* Loads are of elements that exist (attention_placed). So they are not in an arm of the
	 * selection: there each would have a branch of its own. */
	n = map_scores(e, e->score);
	x = at_scores(e, n);
	n->val = attention_placed(&x, e->a.f.x);
	if (gpu_is_multiple(e->a.keys, e->a.bn * e->a.splits))
		return;
	n = map_scores(e, e->score);
	n->val = ex_op3(e->p, IN_select, key_exists(e, key_of(e, n)), attention_at(e, n, e->score),
			attention_number(e, -INFINITY));
}

static void emit_maxima(AttentionEmit *e)
{
	TileNode *n = attention_map_rows(e, e->next);

	n->val = attention_at(e, n, e->most);
	n = attention_op(e, TILE_FOLD, e->next, &e->scores, e->bm, e->a.bn);
	gpu_write(&e->b, n, n->to->rank);
	n->red = MONOID_max;
	n->adds = true;
	n->val = attention_at(e, n, e->score);
	attention_rescale(e);
}

static void emit_sum(AttentionEmit *e, int i)
{
	const bool weights = attention_sums_weights(&e->a, i);
	TileNode *n;
	PlacedAt x;

	attention_scale(e, attention_map_rows(e, e->sum[i]));
	n = attention_op(e, TILE_FOLD, e->sum[i], &e->scores, e->bm, e->a.bn);
	gpu_write(&e->b, n, n->to->rank);
	n->red = MONOID_sum;
	n->adds = true;
	if (weights)
		n->mma = e->a.mma[1];
	x = at_scores(e, n);
	n->val = weights ? attention_at(e, n, e->weight) : attention_placed(&x, e->a.f.sum_term[i]);
}

/* The exponentials replace the scores; then the weights, and the sums of rows. */
static void emit_weights(AttentionEmit *e)
{
	TileNode *n = map_scores(e, e->score);
	PlacedAt x;

	n->val = attention_weight(e, n);
	n = map_scores(e, e->weight);
	x = at_scores(e, n);
	n->val = attention_placed(&x, e->a.f.w);
	for (int i = 0; i < e->a.f.nsums; i++)
		emit_sum(e, i);
}

static void emit_values(AttentionEmit *e)
{
	TileNode *n;

	attention_scale(e, attention_map_results(e, e->result));
	n = add_dot(e, e->result, e->a.ep, e->a.bn, e->a.mma[1]);
	n->adds = true;
	n->val = ex_load(e->p, e->weight, (Expr *[]){attention_it(e, n, 0), attention_it(e, n, 2)},
			 2);
	n->by = tile_operand_at(e, n, OPERAND_V, n->it[1]);
}

/* ---- The stage ---- */

/* Blocks that a GPU runs at once, as all of them do something else: more parts than these blocks
 * gain nothing. */
enum {
	BLOCKS = 4,
	LEAST = 2 /* steps of a part: with fewer, its start and end take most of its time */
};

/* The steps over the keys are divided into parts of EACH, so that there are blocks for all SMs, but
 * not many more. */
static void divide_steps(AttentionEmit *e, Dim *steps, Dim *blocks)
{
	const GpuAttention *a = &e->a;
	Dim *most, *enough;

	e->parts = dim_const(e->c, 1);
	e->each = steps;
	if (a->parts < 2)
		return;
	most = dim_ceildiv(e->c, steps, dim_const(e->c, a->parts));
	enough = dim_ceildiv(e->c, dim_mul(e->c, steps, blocks),
			     dim_const(e->c, (int64_t)BLOCKS * a->t->gpu->sms));
	e->each = dim_max(e->c, dim_max(e->c, most, enough), dim_const(e->c, LEAST));
	/* without keys one part writes the results */
	e->parts = dim_max(e->c, dim_ceildiv(e->c, steps, e->each), dim_const(e->c, 1));
}

/* FEW: all rows, if there are any, are in one block. */
static void open_blocks(AttentionEmit *e, Dim *steps, bool few)
{
	const Contraction *s = &e->a.f.scores;
	Dim *blocks = few ? dim_min(e->c, e->a.rows, dim_const(e->c, 1))
			  : dim_ceildiv(e->c, e->a.rows, dim_const(e->c, e->a.rm));
	Iter *split[MAX_ITERS + 2], *mb;
	int n = 0;

	divide_steps(e, steps, dim_mul(e->c, e->a.batch, blocks));
	mb = l_iter(&e->b, "mb", blocks);
	e->part = l_iter(&e->b, "part", e->parts);
	l_of(&e->b, s->s);
	l_stage(&e->b, "attention", dim_mul(e->c, dim_mul(e->c, e->a.batch, blocks), e->parts));
	e->b.stage->block.threads = e->b.stage->block.group = e->a.warps * e->a.splits * WARP;
	e->b.stage->scratch = dim_const(e->c, e->a.shared);
	for (; n < s->ng; n++)
		split[n] = s->g[n];
	split[n++] = mb;
	split[n++] = e->part;
	l_split(&e->b, split, n, ex_iter(e->p, e->b.stage->var));
	e->first_row = ex_mul(e->p, ex_iter(e->p, mb), l_int(&e->b, e->rm));
}

/* Sets FIRST, the first step of the block over the keys; returns the number of its steps, which may
 * be less than 0. */
static Expr *count_steps(AttentionEmit *e, Dim *steps)
{
	const int64_t keys = (int64_t)e->a.bn * e->a.splits;
	Expr *zero = l_int(&e->b, 0), *each = ex_dim(e->p, e->each), *low, *high,
	     *first = ex_mul(e->p, ex_iter(e->p, e->part), each), *end = ex_dim(e->p, steps);

	if (e->a.parts > 1)
		end = l_min(&e->b, end, ex_add(e->p, first, each));
	attention_visible(e, &low, &high);
	if (high)
		end = l_min(&e->b, end,
			    ex_op2(e->p, IN_floordiv,
				   ex_add(e->p, l_max(&e->b, high, l_int(&e->b, -1)),
					  l_int(&e->b, keys)),
				   l_int(&e->b, keys)));
	if (low)
		first = l_max(
			&e->b, first,
			ex_op2(e->p, IN_floordiv, l_max(&e->b, low, zero), l_int(&e->b, keys)));
	l_let(&e->b, e->first, first);
	return ex_sub(e->p, end, ex_iter(e->p, e->first));
}

static void emit_keys(AttentionEmit *e, const GpuDecision *d, Dim *steps)
{
	Expr *count = count_steps(e, steps);
	LNode *loop, **start;

	start = e->b.tail;
	emit_copy(e, OPERAND_Q, d->async[OPERAND_Q], 0);
	attention_start(e);
	loop = l_loop(&e->b, LOOP_SERIAL, e->jb, l_int(&e->b, 0), count, 1);
	for (int part = 0; part < e->a.splits; part++) {
		emit_copy(e, OPERAND_K, d->async[OPERAND_K], part);
		emit_copy(e, OPERAND_V, d->async[OPERAND_V], part);
	}
	emit_scores(e);
	emit_maxima(e);
	emit_weights(e);
	emit_values(e);
	l_close(&e->b, loop);
	gpu_tile_pipeline(&e->b, loop, start, e->slot, d->stages, 0, NULL, NULL);
	e->b.tail = &loop->next;
}

void gpu_attention_emit(const Target *t, Kernel *k, const Decision *d, Schedule *s)
{
	const bool few = s->where.size != NULL;
	const GpuDecision *g = few ? &d->gpu.few : &d->gpu.all;
	AttentionEmit e = {.c = k->ctx, .p = k->pool};
	const bool fits = gpu_attention_open(&e.a, t, k);
	Dim *steps;

	assert(fits);
	(void)fits;
	gpu_attention_shape(&e.a, g);
	e.b = l_build(k, s);
	e.rm = e.a.rm;
	e.bm = e.a.bm;
	e.rows = e.a.rows;
	for (; e.nrows < e.a.f.scores.nm; e.nrows++)
		e.row_iter[e.nrows] = e.a.f.scores.m[e.nrows];
	steps = dim_ceildiv(e.c, e.a.keys, dim_const(e.c, (int64_t)e.a.bn * e.a.splits));
	open_blocks(&e, steps, few);
	e.jb = l_iter(&e.b, "jb", e.each);
	e.slot = l_iter(&e.b, "slot", dim_const(e.c, g->stages));
	e.first = l_iter(&e.b, "first", dim_max(e.c, steps, dim_const(e.c, 1)));
	declare_tiles(&e, g);
	emit_keys(&e, g, steps);
	if (!gpu_attention_splits(&e.a)) {
		attention_results(&e);
		return;
	}
	attention_declare_parts(&e);
	attention_store_parts(&e);
	attention_combine(&e);
}
