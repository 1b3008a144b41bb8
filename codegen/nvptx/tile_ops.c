/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on tiles (ir/loop/loop.h, TileNode) by all threads of a block: copies to shared memory, and maps
 * and folds over registers. A tile in registers is an array of each thread, which LLVM promotes; its elements
 * are at constant indices, since the layouts say which register every point reads (ir/loop/place.h). Products
 * are in tile_dot.c. The tree has all barriers and waits.
 */
#include "codegen/nvptx/kernel.h"

#include <assert.h>
#include <string.h>

/* ---- Points ---- */

const char *ll_tile_digits(LlKernel *k, const TileLayout *l, int dim)
{
	LlFn *f = &k->f;
	const char *sum = "0", *number[2] = {NULL, NULL};
	int64_t inner[PLACES] = {1, 1, 1, 1};

	for (int i = l->n - 1; i >= 0; i--) {
		const TileAxis *x = &l->axis[i];
		const bool warp = x->at == AT_WARP;
		const char *digit, *r;

		if (x->dim == dim && (warp || x->at == AT_LANE)) {
			if (!number[warp])
				number[warp] = warp ? ll_op(f, "lshr i64", "%tid", 5)
						    : ll_op(f, "and i64", "%tid", 31);
			digit = inner[x->at] > 1 ? ll_op(f, "udiv i64", number[warp], inner[x->at])
						 : number[warp];
			digit = ll_op(f, "mul nuw nsw i64", ll_op(f, "urem i64", digit, x->extent),
				      x->stride);
			r = ll_new(f);
			ll_put(f, "%s = add nuw nsw i64 %s, %s", r, sum, digit);
			sum = r;
		}
		inner[x->at] *= x->extent;
	}
	return sum;
}

typedef struct TilePoints {
	LlKernel *k;
	const TileNode *n;
	const char *base[TILE_RANK]; /* the index of register 0 */
	int reg;                     /* the register of the current point */
} TilePoints;

static Ctx *ctx_of(const TilePoints *p)
{
	return p->k->f.g->ctx;
}

static TilePoints open_points(LlKernel *k, const TileNode *n)
{
	TilePoints p = {.k = k, .n = n};

	ll_forget(&k->f);
	for (int d = 0; d < n->n; d++)
		p.base[d] = ll_tile_digits(k, &n->points, d);
	return p;
}

/* Binds the iterators to the point in register REG. */
static void enter_point(TilePoints *p, int reg)
{
	int64_t idx[TILE_RANK];

	ll_forget(&p->k->f);
	p->reg = reg;
	layout_element(&p->n->points, reg, 0, 0, idx);
	for (int d = 0; d < p->n->n; d++)
		ll_bind(p->k, p->n->it[d], ll_plus(&p->k->f, p->base[d], idx[d]));
}

/* The register of tile B with element IDX of the current point. */
static int register_at(const TilePoints *p, const Buf *b, Expr *const *idx, int n)
{
	TileLayout want;
	const bool ok = tile_reads(ctx_of(p), p->n, idx, n, &want);
	const int r = ok ? layout_register(b->tile, &want, p->reg) : -1;

	assert(r >= 0); /* tiles_verify */
	return r;
}

/* A load of a tile as one of the thread's array. */
static Expr *from_register(void *arg, Expr *e)
{
	TilePoints *p = arg;
	ExprPool *pool = p->k->sched->kernel->pool;
	Expr *at;

	if (e->kind != EX_LOAD || !e->load.buf->tile)
		return NULL;
	at = ex_int(pool, CT_I64, register_at(p, e->load.buf, e->load.idx, e->load.nidx));
	return ex_load(pool, e->load.buf, &at, 1);
}

static const char *value_at(TilePoints *p, Expr *e)
{
	return ll_expr(&p->k->f, ex_rewrite(p->k->sched->kernel->pool, e, from_register, p));
}

static void store_register(LlKernel *k, Buf *b, int r, const char *val)
{
	ll_store(k, b, arena_printf(k->f.arena, "%d", r), val);
}

/* ---- Maps ---- */

/* Elements of memory that adjacent registers store at once: 2, or 1. */
static int stored_at_once(const TilePoints *p)
{
	const TileNode *n = p->n;
	const int bytes = dtype_info[n->to->dtype].bits / 8;
	const Iter *last = n->it[n->n - 1];
	TileLayout address = {.rank = n->n};
	Affine at;

	if (n->n != 2 || bytes < 2 || !ex_affine(ctx_of(p), n->idx[0], &at) ||
	    !dim_equals(affine_coef(ctx_of(p), &at, last), 1) ||
	    !affine_aligned(ctx_of(p), &at, last, 2))
		return 1;
	/* the guard may end within a pair */
	if (n->guard && expr_has_iter(n->guard, last))
		return 1;
	layout_add(&address, 0, AT_ADDRESS, layout_extent_of(&n->points, 0), 1,
		   INT32_MAX / 2 * (int64_t)2 + 2);
	layout_add(&address, 1, AT_ADDRESS, layout_extent_of(&n->points, 1), 1, bytes);
	return layout_vector_width(&n->points, &address, bytes, 2);
}

static void map_to_memory(TilePoints *p)
{
	LlKernel *k = p->k;
	const TileNode *n = p->n;
	const int regs = (int)layout_count(&n->points, AT_REGISTER), vector = stored_at_once(p);

	for (int r = 0; r < regs; r += vector) {
		const char *after = NULL, *val[2], *idx;

		enter_point(p, r);
		if (n->guard)
			after = ll_open_if(k, value_at(p, n->guard));
		ll_forget(&k->f);
		for (int v = 0; v < vector; v++) {
			enter_point(p, r + v);
			val[v] = ll_encoded(k, n->to->dtype, value_at(p, n->val));
		}
		enter_point(p, r);
		idx = ll_expr(&k->f, n->idx[0]);
		ll_store_run(k, n->to, idx, val, vector);
		ll_forget(&k->f);
		ll_close_if(k, after);
	}
}

static void map_to_tile(TilePoints *p)
{
	const TileNode *n = p->n;
	const int regs = (int)layout_count(&n->points, AT_REGISTER);

	for (int r = 0; r < regs; r++) {
		enter_point(p, r);
		store_register(p->k, n->to, register_at(p, n->to, n->idx, n->nidx),
			       value_at(p, n->val));
	}
}

/* ---- Folds ---- */

static const char *combined(TilePoints *p, const char *x, const char *y)
{
	LlFn *f = &p->k->f;
	ExprPool *pool = p->k->sched->kernel->pool;
	const CType t = dtype_ctype(p->n->to->dtype);
	Expr *a = ex_param(pool, t, 0), *b = ex_param(pool, t, 1);
	const char *r;

	if (!x || !y)
		return x ? x : y;
	ll_forget(f);
	f->param[0] = x;
	f->param[1] = y;
	r = ll_expr(f, monoid_combine(pool, p->n->red, 0, &a, &b));
	ll_forget(f);
	return r;
}

/* Whether N's index mentions iterator D. */
static bool is_kept(const TileNode *n, int d)
{
	for (int i = 0; i < n->nidx; i++)
		if (d >= 0 && expr_has_iter(n->idx[i], n->it[d]))
			return true;
	return false;
}

/* Combines VALUE over the lanes that differ in iterators that are folded. */
static const char *over_lanes(TilePoints *p, const char *value)
{
	const TileLayout *l = &p->n->points;
	int64_t inner = 1;

	for (int i = l->n - 1; i >= 0; i--) {
		const TileAxis *x = &l->axis[i];

		if (x->at != AT_LANE)
			continue;
		for (int64_t off = 1; off < x->extent && x->dim >= 0 && !is_kept(p->n, x->dim);
		     off *= 2)
			value = combined(p, value,
					 ll_shuffled(p->k, value, dtype_ctype(p->n->to->dtype),
						     (int)(off * inner)));
		inner *= x->extent;
	}
	return value;
}

static void fold(TilePoints *p)
{
	const TileNode *n = p->n;
	const int regs = (int)layout_count(&n->points, AT_REGISTER),
		  states = (int)layout_count(n->to->tile, AT_REGISTER);
	const char **state = NEW_ARRAY(p->k->f.arena, states, const char *);

	for (int r = 0; r < regs; r++) {
		const char *v;
		int s;

		enter_point(p, r);
		s = register_at(p, n->to, n->idx, n->nidx);
		v = value_at(p, n->val);
		state[s] = combined(p, state[s], v);
	}
	for (int s = 0; s < states; s++) {
		const char *at = arena_printf(p->k->f.arena, "%d", s), *v = over_lanes(p, state[s]);

		ll_store(p->k, n->to, at, n->adds ? combined(p, ll_load(p->k, n->to, at), v) : v);
	}
}

/* ---- Copies ---- */

/* The flat index of N's element, in elements of the tile. */
static Expr *tile_index(LlKernel *k, const TileNode *n)
{
	ExprPool *p = k->sched->kernel->pool;
	const int bytes = dtype_info[n->to->dtype].bits / 8;
	Expr *at = ex_int(p, CT_I64, 0);

	for (int i = 0; i < n->to->tile->n; i++) {
		const TileAxis *x = &n->to->tile->axis[i];

		at = ex_add(p, at, ex_mul(p, n->idx[x->dim], ex_int(p, CT_I64, x->pitch / bytes)));
	}
	return at;
}

static int extent_of(const Iter *it)
{
	int64_t v = 0;

	dim_is_const(it->extent, &v);
	return (int)v;
}

/* Binds the row and chunk of piece T, an i64. */
static void bind_piece(LlKernel *k, const Fill *fill, const char *t)
{
	LlFn *f = &k->f;

	ll_forget(f);
	ll_bind(k, fill->row, ll_op(f, "udiv i64", t, fill->chunks));
	ll_bind(k, fill->chunk, ll_op(f, "urem i64", t, fill->chunks));
	ll_bind(k, fill->elem, "0");
}

/* Stores what is loaded where COND holds (null: always), else zeros. */
static void copy_through_registers(LlKernel *k, const LNode *fill, const char *cond)
{
	LlFn *f = &k->f;
	const char *from = f->block, *after = cond ? ll_open_if(k, cond) : NULL, *loaded, *end,
		   *all;

	loaded = all = ll_chunk_load(k, fill);
	end = f->block;
	ll_forget(f);
	ll_close_if(k, after);
	if (cond) {
		all = ll_new(f);
		ll_put(f, "%s = phi %s [ zeroinitializer, %%%s ], [ %s, %%%s ]", all,
		       ll_chunk_type(k, fill), from, loaded, end);
	}
	ll_chunk_store(k, fill, all);
}

/* Copies piece T, an i64. The first LEFT threads of the block have such a piece. */
static void copy_piece(LlKernel *k, const LNode *fill, Expr *guard, const char *t, int left)
{
	const char *after = NULL, *cond;

	if (left < k->stage->threads)
		after = ll_open_if(k, ll_op(&k->f, "icmp ult i64", "%tid", left));
	bind_piece(k, fill->fill, t);
	cond = guard ? ll_expr(&k->f, guard) : NULL;
	if (fill->fill->async)
		ll_chunk_copy(k, fill, cond);
	else
		copy_through_registers(k, fill, cond);
	ll_forget(&k->f);
	ll_close_if(k, after);
}

enum { UNROLLED = 8 /* pieces of a thread whose loads may be in flight, in registers, at once */ };

/* Copies the whole rounds of pieces of all threads, in a loop. Returns their number. */
static int copy_rounds(LlKernel *k, const LNode *fill, Expr *guard, const Iter *round, int pieces)
{
	const int rounds = pieces / k->stage->threads;
	const char *t = ll_new(&k->f), *first = ll_new(&k->f);
	LlLoop l;

	if (rounds <= UNROLLED)
		return 0;
	l = ll_open_loop(k, round, "0", arena_printf(k->f.arena, "%d", rounds), "1");
	l.once = true;
	ll_put(&k->f, "%s = mul nuw nsw i64 %s, %d", first, l.var, k->stage->threads);
	ll_put(&k->f, "%s = add nuw nsw i64 %s, %%tid", t, first);
	copy_piece(k, fill, guard, t, INT32_MAX);
	ll_close_loop(k, &l);
	return rounds;
}

static void copy(LlKernel *k, const TileNode *n)
{
	Kernel *kernel = k->sched->kernel;
	ExprPool *p = kernel->pool;
	const int rows = extent_of(n->it[0]), chunks = extent_of(n->it[1]) / n->vector,
		  pieces = rows * chunks, threads = k->stage->threads;
	Fill fill = {.row = n->it[0],
		     .chunk = kernel_iter(kernel, "chunk", dim_const(kernel->ctx, chunks)),
		     .elem = kernel_iter(kernel, "elem", dim_const(kernel->ctx, n->vector)),
		     .rows = rows,
		     .chunks = chunks,
		     .vector = n->vector,
		     .async = n->async};
	Expr *c = ex_add(p, ex_mul(p, ex_iter(p, fill.chunk), ex_int(p, CT_I64, n->vector)),
			 ex_iter(p, fill.elem));
	LNode store = {.kind = LN_STORE, .nout = 1, .stmt = -1},
	      node = {.kind = LN_FILL, .body = &store, .fill = &fill};
	Expr *guard = n->guard ? ex_subst_iters(p, n->guard, &n->it[1], &c, 1) : NULL;

	store.buf[0] = n->to;
	store.idx = ex_subst_iters(p, tile_index(k, n), &n->it[1], &c, 1);
	store.val[0] = ex_subst_iters(p, n->val, &n->it[1], &c, 1);
	for (int at = copy_rounds(k, &node, guard,
				  kernel_iter(kernel, "round", dim_const(kernel->ctx, pieces)),
				  pieces);
	     at * threads < pieces; at++)
		copy_piece(k, &node, guard,
			   at ? ll_op(&k->f, "add nuw nsw i64", "%tid", (long long)at * threads)
			      : "%tid",
			   pieces - at * threads);
}

/* ---- All of them ---- */

static void sync(LlKernel *k, const TileNode *n)
{
	if (n->sync == TILE_COMMIT)
		ll_put(&k->f, "call void @llvm.nvvm.cp.async.commit.group()");
	else if (n->sync == TILE_WAIT)
		ll_put(&k->f, "call void @llvm.nvvm.cp.async.wait.group(i32 %d)", n->pending);
	else
		ll_put(&k->f, "call void @llvm.nvvm.barrier0()");
}

void ll_tile_op(LlKernel *k, const TileNode *n)
{
	TilePoints p;

	ll_forget(&k->f);
	switch (n->op) {
	case TILE_COPY: copy(k, n); break;
	case TILE_DOT: ll_tile_dot(k, n); break;
	case TILE_SYNC: sync(k, n); break;
	case TILE_MAP:
	case TILE_FOLD:
		p = open_points(k, n);
		if (n->op == TILE_FOLD)
			fold(&p);
		else if (n->to->tile)
			map_to_tile(&p);
		else
			map_to_memory(&p);
		break;
	}
	ll_forget(&k->f);
}
