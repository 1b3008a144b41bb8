/* SPDX-License-Identifier: Apache-2.0 */
/* The tree of an attention on a GPU. It is as the decision says: nothing is chosen here. */
#include "passes/schedule/gpu/attention_impl.h"

#include <assert.h>
#include <math.h>

typedef struct AttentionEmit {
	GpuAttention a;
	LBuild b;
	Ctx *c;
	ExprPool *p;
	Iter *mb, *jb, *slot;
	Buf *tile[OPERAND_COUNT];
	Buf *score, *weight, *result;
	/* of each row: the maximum so far, and with the current keys; what the sums so far are multiplied by, or -1
	 * if nothing was summed; the sums */
	Buf *most, *next, *scale, *sum[ONLINE_SUMS];
	TileLayout scores, results, row;
} AttentionEmit;

/* ---- Operations ---- */

static Iter *new_iter(AttentionEmit *e, const char *name, int64_t extent)
{
	return l_iter(&e->b, name, dim_const(e->c, extent));
}

/* An operation whose points are ROWS by COLS (0: rows only) of LAYOUT. */
static TileNode *add_op(AttentionEmit *e, TileOp op, Buf *to, const TileLayout *layout, int rows,
			int cols)
{
	TileNode *n = NEW(e->b.arena, TileNode);

	*n = (TileNode){.op = op, .to = to, .n = cols ? 2 : 1};
	if (layout)
		n->points = *layout;
	n->it[0] = new_iter(e, cols && op == TILE_COPY ? "r" : "m", rows);
	n->it[1] = cols ? new_iter(e, op == TILE_COPY ? "c" : "n", cols) : NULL;
	l_node(&e->b, LN_OP)->op = n;
	return n;
}

static Expr *iter_of(AttentionEmit *e, const TileNode *n, int i)
{
	return ex_iter(e->p, n->it[i]);
}

/* Element [it...] of tile B at the points of N. */
static Expr *at_point(AttentionEmit *e, const TileNode *n, Buf *b)
{
	Expr *idx[] = {iter_of(e, n, 0), b->rank > 1 ? iter_of(e, n, 1) : NULL};

	return ex_load(e->p, b, idx, b->rank);
}

static void write_point(AttentionEmit *e, TileNode *n)
{
	n->nidx = n->to->rank;
	for (int i = 0; i < n->nidx; i++)
		n->idx[i] = iter_of(e, n, i);
}

static TileNode *map_rows(AttentionEmit *e, Buf *to)
{
	TileNode *n = add_op(e, TILE_MAP, to, &e->row, e->a.bm, 0);

	write_point(e, n);
	return n;
}

static TileNode *map_scores(AttentionEmit *e, Buf *to)
{
	TileNode *n = add_op(e, TILE_MAP, to, &e->scores, e->a.bm, e->a.bn);

	write_point(e, n);
	return n;
}

static Expr *number(AttentionEmit *e, double v)
{
	return ex_num(e->p, CT_F32, v);
}

/* ---- Expressions of the form at the points of an operation ---- */

typedef struct PlacedAt {
	AttentionEmit *e;
	const TileNode *n;
	Buf *most; /* the tile that stands for the maximum */
	Iter *from[MAX_ITERS];
	Expr *to[MAX_ITERS],
		*inside[MAX_ITERS]; /* INSIDE: for the indices of loads, kept in the buffer */
	int nfrom;
} PlacedAt;

static void put(PlacedAt *x, Iter *it, Expr *to, Expr *inside)
{
	x->from[x->nfrom] = it;
	x->to[x->nfrom] = to;
	x->inside[x->nfrom++] = inside;
}

/* D is a constant multiple of N. */
static bool const_multiple(Dim *d, int64_t n)
{
	int64_t v;

	return dim_is_const(d, &v) && v % n == 0;
}

/* AT, which is less than SIZE rounded up to STEP; or the last one before SIZE. */
static Expr *kept_inside(AttentionEmit *e, Expr *at, Dim *size, int64_t step)
{
	if (const_multiple(size, step))
		return at;
	return l_min(&e->b, at, ex_sub(e->p, ex_dim(e->p, size), l_int(&e->b, 1)));
}

/* Row AT of all rows, as the iterators of m. */
static void put_row(PlacedAt *x, Expr *at)
{
	AttentionEmit *e = x->e;
	const Contraction *s = &e->a.f.scores;
	Expr *in = kept_inside(e, at, e->a.rows, e->a.bm);

	for (int i = s->nm - 1; i >= 0; i--) {
		Expr *extent = ex_dim(e->p, s->m[i]->extent);

		put(x, s->m[i], i ? ex_op2(e->p, IN_mod, at, extent) : at,
		    i ? ex_op2(e->p, IN_mod, in, extent) : in);
		at = i ? ex_op2(e->p, IN_floordiv, at, extent) : at;
		in = i ? ex_op2(e->p, IN_floordiv, in, extent) : in;
	}
}

static Expr *row_at(AttentionEmit *e, Expr *m)
{
	return ex_add(e->p, ex_mul(e->p, ex_iter(e->p, e->mb), l_int(&e->b, e->a.bm)), m);
}

static Expr *key_at(AttentionEmit *e, Expr *n)
{
	return ex_add(e->p, ex_mul(e->p, ex_iter(e->p, e->jb), l_int(&e->b, e->a.bn)), n);
}

/* The key at N exists; null: always. */
static Expr *key_exists(AttentionEmit *e, Expr *n)
{
	return const_multiple(e->a.keys, e->a.bn)
		       ? NULL
		       : ex_op2(e->p, IN_lt, key_at(e, n), ex_dim(e->p, e->a.keys));
}

static Buf *tile_for(const PlacedAt *x, const Buf *b)
{
	const AttentionEmit *e = x->e;
	const OnlineForm *f = &e->a.f;

	for (int i = 0; i < f->nsums; i++)
		if (b == f->sum[i]->out[0])
			return e->sum[i];
	return b == f->score ? e->score : b == f->most ? x->most : b == f->acc ? e->result : NULL;
}

static Expr *place_load(void *arg, Expr *ex)
{
	PlacedAt *x = arg;
	Buf *tile = ex->kind == EX_LOAD ? tile_for(x, ex->load.buf) : NULL;
	Kernel *k = x->e->a.f.k;
	Expr *at;

	if (tile) {
		at = at_point(x->e, x->n, tile);
		return tile == x->e->result && x->e->a.f.divisor
			       ? ex_op2(x->e->p, IN_div, at,
					ex_rewrite(x->e->p, x->e->a.f.divisor, place_load, x))
			       : at;
	}
	if (ex->kind != EX_LOAD)
		return NULL;
	at = ex->load.nidx == 1 && ex->load.buf->rank == 1 && !ex->load.buf->layout
		     ? ex->load.idx[0]
		     : flat_index(k, ex->load.buf, ex->load.idx);
	at = ex_subst_iters(x->e->p, at, x->from, x->inside, x->nfrom);
	return ex_load(x->e->p, ex->load.buf, &at, 1);
}

static Expr *placed(PlacedAt *x, Expr *e)
{
	e = ex_rewrite(x->e->p, e, place_load, x);
	return ex_subst_iters(x->e->p, e, x->from, x->to, x->nfrom);
}

/* For the points of N: rows, and keys if N has two iterators. */
static PlacedAt at_scores(AttentionEmit *e, const TileNode *n)
{
	PlacedAt x = {.e = e, .n = n, .most = e->most};
	Expr *key;

	put_row(&x, row_at(e, iter_of(e, n, 0)));
	if (n->n == 1)
		return x;
	key = key_at(e, iter_of(e, n, 1));
	put(&x, e->a.f.key, key, kept_inside(e, key, e->a.keys, e->a.bn));
	return x;
}

/* ---- Tiles ---- */

static Buf *declare(AttentionEmit *e, const char *name, DType t, int rank, const int64_t *extent,
		    const TileLayout *layout)
{
	Dim *dims[TILE_RANK];
	LNode *n = l_node(&e->b, LN_LOCAL);

	for (int i = 0; i < rank; i++)
		dims[i] = dim_const(e->c, extent[i]);
	n->buf[0] = kernel_temp(e->b.k, name, t, rank, dims);
	n->buf[0]->tile = arena_copy(e->b.arena, layout, sizeof *layout);
	return n->buf[0];
}

static void declare_shared(AttentionEmit *e, GpuOperand i, int stages)
{
	static const char *const names[] = {"q_tile", "k_tile", "v_tile"};
	const StagedOperand *o = &e->a.op[i];
	const int bytes = dtype_info[o->type].bits / 8, staged = i != OPERAND_Q;
	const int64_t extent[] = {stages, o->rows, o->cols};
	TileLayout l = {.rank = 2 + staged};
	LNode **at = e->b.tail;

	if (staged)
		layout_add(&l, 0, AT_ADDRESS, stages, 1, o->rows * o->pitch);
	layout_add(&l, staged, AT_ADDRESS, o->rows, 1, o->pitch);
	layout_add(&l, staged + 1, AT_ADDRESS, o->cols, 1, bytes);
	e->tile[i] = declare(e, names[i], o->type, l.rank, extent + !staged, &l);
	(*at)->idx = l_int(&e->b, o->at);
}

static void declare_tiles(AttentionEmit *e, const GpuDecision *d)
{
	GpuAttention *a = &e->a;
	const int64_t scores[] = {a->bm, a->bn}, results[] = {a->bm, a->ep};
	const MmaKind kind = a->mma[1];
	const DType type = kind == MMA_FMA ? DT_F32 : mma_info[kind].type[0];
	Iter *m = new_iter(e, "m", a->bm), *n = new_iter(e, "n", a->bn), *it[] = {m, n};
	Expr *index = ex_iter(e->p, m);
	TileLayout weights = tile_operand(kind, a->warps, a->bm, a->bn, true);

	e->scores = tile_sums(a->mma[0], a->warps, a->bm, a->bn);
	e->results = tile_sums(kind, a->warps, a->bm, a->ep);
	layout_of_operand(e->c, &index, 1, it, 2, &e->scores, &e->row);
	layout_drop_copies(&e->row);
	for (int i = 0; i < OPERAND_COUNT; i++)
		declare_shared(e, (GpuOperand)i, d->hold[i].stages);
	e->score = declare(e, "s", DT_F32, 2, scores, &e->scores);
	assert(layout_change(&e->scores, &weights) <= CHANGE_RENAME);
	e->weight = declare(e, "w", type, 2, scores, &e->scores);
	e->result = declare(e, "o", DT_F32, 2, results, &e->results);
	e->most = declare(e, "most", DT_F32, 1, scores, &e->row);
	e->next = declare(e, "next", DT_F32, 1, scores, &e->row);
	e->scale = declare(e, "scale", DT_F32, 1, scores, &e->row);
	for (int i = 0; i < a->f.nsums; i++)
		e->sum[i] = declare(e, "total", DT_F32, 1, scores, &e->row);
}

/* ---- Copies ---- */

/* AT is less than SIZE; null: it always is, as SIZE is a multiple of STEP. */
static Expr *before(AttentionEmit *e, Expr *at, Dim *size, int64_t step)
{
	return const_multiple(size, step) ? NULL : ex_op2(e->p, IN_lt, at, ex_dim(e->p, size));
}

static void emit_copy(AttentionEmit *e, GpuOperand i, const Hold *h)
{
	GpuAttention *a = &e->a;
	const StagedOperand *o = &a->op[i];
	TileNode *n = add_op(e, TILE_COPY, e->tile[i], NULL, o->rows, o->cols);
	Expr *side = iter_of(e, n, !o->along), *term = iter_of(e, n, o->along), *guard;
	PlacedAt x = {.e = e, .n = n};

	if (i == OPERAND_Q) {
		put_row(&x, row_at(e, side));
		guard = before(e, row_at(e, side), a->rows, a->bm);
	} else if (i == OPERAND_K) {
		put(&x, a->f.key, key_at(e, side), NULL);
		guard = key_exists(e, side);
	} else {
		put(&x, a->f.key, key_at(e, term), NULL);
		put(&x, a->f.column, side, NULL);
		guard = ex_and(e->p, key_exists(e, term),
			       before(e, side, dim_const(e->c, a->e), a->ep));
	}
	if (i != OPERAND_V) {
		put(&x, a->f.term, term, NULL);
		guard = ex_and(e->p, guard, before(e, term, dim_const(e->c, a->d), a->dp));
	}
	if (e->tile[i]->rank > 2)
		n->idx[n->nidx++] = ex_iter(e->p, e->slot);
	n->idx[n->nidx++] = iter_of(e, n, 0);
	n->idx[n->nidx++] = iter_of(e, n, 1);
	n->val = ex_subst_iters(e->p, o->val, x.from, x.to, x.nfrom);
	n->guard = guard;
	n->vector = o->vector;
	n->async = h->async;
}

/* ---- The loop over keys ---- */

static Expr *tile_operand_at(AttentionEmit *e, GpuOperand i, Iter *side, Iter *term)
{
	Expr *idx[TILE_RANK], *s = ex_iter(e->p, side), *t = ex_iter(e->p, term);
	int n = 0;

	if (e->tile[i]->rank > 2)
		idx[n++] = ex_iter(e->p, e->slot);
	idx[n++] = e->a.op[i].along ? s : t;
	idx[n++] = e->a.op[i].along ? t : s;
	return ex_load(e->p, e->tile[i], idx, n);
}

static TileNode *add_dot(AttentionEmit *e, Buf *to, int cols, int terms, MmaKind kind)
{
	TileNode *n = add_op(e, TILE_DOT, to, NULL, e->a.bm, cols);

	write_point(e, n);
	n->it[n->n++] = new_iter(e, "c", terms);
	n->mma = kind;
	return n;
}

static void emit_scores(AttentionEmit *e)
{
	TileNode *n = add_dot(e, e->score, e->a.bn, e->a.dp, e->a.mma[0]);
	PlacedAt x;
	Expr *valid;

	n->val = tile_operand_at(e, OPERAND_Q, n->it[0], n->it[2]);
	n->by = tile_operand_at(e, OPERAND_K, n->it[1], n->it[2]);
	n = map_scores(e, e->score);
	x = at_scores(e, n);
	n->val = placed(&x, e->a.f.x);
	valid = key_exists(e, iter_of(e, n, 1));
	if (valid)
		n->val = ex_op3(e->p, IN_select, valid, n->val, number(e, -INFINITY));
}

/* The shift of rows whose maximum is in tile MOST, at the points of N. */
static Expr *shift_at(AttentionEmit *e, const TileNode *n, Buf *most)
{
	PlacedAt x = at_scores(e, n);

	x.most = most;
	return placed(&x, e->a.f.shift);
}

static Expr *exponential(AttentionEmit *e, Expr *at)
{
	return ex_op1(e->p, e->a.f.exponential->op.inst, at);
}

/* The new maxima, and the factor of what was summed with the old ones. While the maximum is -inf, what was
 * summed is 0 or, without a guard in the model, NaN, and is dropped. */
static void emit_maxima(AttentionEmit *e)
{
	TileNode *n = map_rows(e, e->next);
	Expr *was, *is, *factor;

	n->val = at_point(e, n, e->most);
	n = add_op(e, TILE_FOLD, e->next, &e->scores, e->a.bm, e->a.bn);
	write_point(e, n);
	n->red = MONOID_max;
	n->adds = true;
	n->val = at_point(e, n, e->score);
	n = map_rows(e, e->scale);
	was = at_point(e, n, e->most);
	is = at_point(e, n, e->next);
	factor = exponential(
		e, ex_op2(e->p, IN_sub, shift_at(e, n, e->most), shift_at(e, n, e->next)));
	factor = ex_op3(e->p, IN_select, ex_op2(e->p, IN_eq, was, number(e, -INFINITY)),
			number(e, -1), factor);
	n->val = ex_op3(e->p, IN_select, ex_op2(e->p, IN_eq, was, is), number(e, 1), factor);
	n = map_rows(e, e->most);
	n->val = at_point(e, n, e->next);
}

/* The points of N, which has what was summed, times the factor. */
static void scale_point(AttentionEmit *e, TileNode *n)
{
	Expr *idx = iter_of(e, n, 0), *factor = ex_load(e->p, e->scale, &idx, 1);

	n->val = ex_op3(e->p, IN_select, ex_op2(e->p, IN_lt, factor, number(e, 0)), number(e, 0),
			ex_op2(e->p, IN_mul, at_point(e, n, n->to), factor));
}

static TileNode *map_results(AttentionEmit *e, Buf *to)
{
	TileNode *n = add_op(e, TILE_MAP, to, &e->results, e->a.bm, e->a.ep);

	if (to->tile)
		write_point(e, n);
	return n;
}

/* The exponentials replace the scores; then the sums of rows, and the weights. */
static void emit_weights(AttentionEmit *e)
{
	const OnlineForm *f = &e->a.f;
	TileNode *n = map_scores(e, e->score);
	Expr *valid = key_exists(e, iter_of(e, n, 1));
	PlacedAt x;

	n->val = exponential(
		e, ex_op2(e->p, IN_sub, at_point(e, n, e->score), shift_at(e, n, e->most)));
	if (valid)
		n->val = ex_op3(e->p, IN_select, valid, n->val, number(e, 0));
	for (int i = 0; i < f->nsums; i++) {
		scale_point(e, map_rows(e, e->sum[i]));
		n = add_op(e, TILE_FOLD, e->sum[i], &e->scores, e->a.bm, e->a.bn);
		n->nidx = 1;
		n->idx[0] = iter_of(e, n, 0);
		n->red = MONOID_sum;
		n->adds = true;
		x = at_scores(e, n);
		n->val = placed(&x, f->sum_term[i]);
	}
	n = map_scores(e, e->weight);
	x = at_scores(e, n);
	n->val = placed(&x, f->w);
}

static void emit_values(AttentionEmit *e)
{
	TileNode *n;

	scale_point(e, map_results(e, e->result));
	n = add_dot(e, e->result, e->a.ep, e->a.bn, e->a.mma[1]);
	n->adds = true;
	n->val = ex_load(e->p, e->weight, (Expr *[]){iter_of(e, n, 0), iter_of(e, n, 2)}, 2);
	n->by = tile_operand_at(e, OPERAND_V, n->it[1], n->it[2]);
}

/* ---- The stage ---- */

static void open_blocks(AttentionEmit *e)
{
	const Contraction *s = &e->a.f.scores;
	Iter *split[MAX_ITERS + 1];
	int n = 0;

	e->mb = l_iter(&e->b, "mb", dim_ceildiv(e->c, e->a.rows, dim_const(e->c, e->a.bm)));
	l_of(&e->b, s->s);
	l_stage(&e->b, "attention", dim_mul(e->c, e->a.batch, e->mb->extent));
	e->b.stage->threads = e->b.stage->group = e->a.warps * WARP;
	e->b.stage->scratch = dim_const(e->c, e->a.shared);
	for (; n < s->ng; n++)
		split[n] = s->g[n];
	split[n++] = e->mb;
	l_split(&e->b, split, n, ex_iter(e->p, e->b.stage->var));
}

static void emit_start(AttentionEmit *e)
{
	TileNode *n = map_rows(e, e->most);

	n->val = number(e, -INFINITY);
	for (int i = 0; i < e->a.f.nsums; i++)
		map_rows(e, e->sum[i])->val = number(e, 0);
	map_results(e, e->result)->val = number(e, 0);
}

static void emit_results(AttentionEmit *e)
{
	const OnlineForm *f = &e->a.f;

	for (int i = 0; i < f->nresults; i++) {
		TileNode *n = map_results(e, f->result[i]->out[0]);
		PlacedAt x = {.e = e, .n = n, .most = e->most};
		Expr *row = row_at(e, iter_of(e, n, 0)), *col = iter_of(e, n, 1);

		put_row(&x, row);
		put(&x, f->column, col, kept_inside(e, col, dim_const(e->c, e->a.e), e->a.ep));
		n->nidx = 1;
		n->idx[0] = ex_subst_iters(e->p, f->result_at[i], x.from, x.to, x.nfrom);
		n->val = placed(&x, f->result_val[i]);
		n->guard = ex_and(e->p, before(e, row, e->a.rows, e->a.bm),
				  before(e, col, dim_const(e->c, e->a.e), e->a.ep));
	}
}

void gpu_attention_emit(const Target *t, Kernel *k, const Decision *d, Schedule *s)
{
	AttentionEmit e = {.c = k->ctx, .p = k->pool};
	const bool fits = gpu_attention_open(&e.a, t, k);
	LNode *loop, **first;
	Dim *steps;

	assert(fits);
	(void)fits;
	gpu_attention_shape(&e.a, &d->gpu);
	e.b = l_build(k, s);
	open_blocks(&e);
	declare_tiles(&e, &d->gpu);
	steps = dim_ceildiv(e.c, e.a.keys, dim_const(e.c, e.a.bn));
	e.jb = l_iter(&e.b, "jb", steps);
	e.slot = l_iter(&e.b, "slot", dim_const(e.c, d->gpu.hold[OPERAND_K].stages));
	first = e.b.tail;
	emit_copy(&e, OPERAND_Q, &d->gpu.hold[OPERAND_Q]);
	emit_start(&e);
	loop = l_loop(&e.b, LOOP_SERIAL, e.jb, l_int(&e.b, 0), ex_dim(e.p, steps), 1);
	emit_copy(&e, OPERAND_K, &d->gpu.hold[OPERAND_K]);
	emit_copy(&e, OPERAND_V, &d->gpu.hold[OPERAND_V]);
	emit_scores(&e);
	emit_maxima(&e);
	emit_weights(&e);
	emit_values(&e);
	l_close(&e.b, loop);
	gpu_tile_pipeline(&e.b, loop, first, e.slot, d->gpu.hold[OPERAND_K].stages);
	e.b.tail = &loop->next;
	emit_results(&e);
}
