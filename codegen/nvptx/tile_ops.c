/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations on tiles (ir/loop/loop.h, TileNode) by all threads of a block: copies to shared
 * memory, and maps and folds over registers. A tile in registers is an array of each thread, which
 * LLVM promotes; its elements are at constant indices, since the layouts say which register every
 * point reads (ir/loop/place.h). Products are in tile_dot.c. The tree has all barriers and waits,
 * except the barrier after mbarriers are made, which is put here.
 */
#include "codegen/nvptx/kernel.h"

#include <assert.h>
#include <string.h>

enum { MOST_AT_ONCE = 16 }; /* elements of one access */

/* ---- Points ---- */

/* The part of an index of dim DIM that follows from this thread's lane and warp, an i64. */
static const char *thread_digits(LlKernel *k, const TileLayout *l, int dim)
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
			r = ll_set(f, "add nuw nsw i64 %s, %s", sum, digit);
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
		p.base[d] = thread_digits(k, &n->points, d);
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

/* E with loads of tiles as loads of the thread's array, or of shared memory. */
static Expr *placed(TilePoints *p, Expr *e)
{
	ExprPool *pool = p->k->sched->kernel->pool;

	EX_MAP (x, pool, &e) {
		Buf *b = x->kind == EX_LOAD ? x->load.buf : NULL;
		Expr *at;

		if (!b || !b->tile)
			continue;
		at = tile_in_registers(b)
			     ? ex_int(pool, CT_I64, register_at(p, b, x->load.idx, x->load.nidx))
			     : tile_flat_index(pool, b, x->load.idx, 1);
		x = ex_load(pool, b, &at, 1);
	}
	return e;
}

static const char *value_at(TilePoints *p, Expr *e)
{
	return ll_expr(&p->k->f, placed(p, e));
}

static void store_register(LlKernel *k, Buf *b, int r, const char *val)
{
	ll_store(k, b, ll_number(&k->f, r), val);
}

/* ---- Maps ---- */

/* How many adjacent registers hold adjacent points along the last iterator and have one value of
 * the guard. */
static int points_at_once(const TileNode *n)
{
	const TileAxis *last = n->points.n ? &n->points.axis[n->points.n - 1] : NULL;
	const int64_t most = TILE_VECTOR * 8 / dtype_info[n->to->dtype].bits;

	if (!last || last->at != AT_REGISTER || last->dim != n->n - 1 || last->stride != 1 ||
	    last->extent > most || dtype_info[n->to->dtype].bits < 8 ||
	    (n->guard && expr_has_iter(n->guard, n->it[n->n - 1])))
		return 1;
	return (int)last->extent;
}

/* Stores the points of register REG and the ones after it to memory, as one access if they are
 * aligned. The iterators are bound to the first one. */
static void map_vector(TilePoints *p, int reg, int vector)
{
	LlKernel *k = p->k;
	LlFn *f = &k->f;
	const TileNode *n = p->n;
	const Iter *last = n->it[n->n - 1];
	LlVector v = {.k = k, .var = last, .vector = vector, .kept = -1};
	const char *lo = ll_iter(k, last), *val[MOST_AT_ONCE], *after;
	const bool one = vector == 1 || ll_one_access(&v, n->to, n->idx[0]);

	after = n->guard ? ll_open_if(k, value_at(p, n->guard)) : NULL;
	ll_forget(f);
	p->reg = reg;
	if (vector > 1)
		ll_vector_find(&v, placed(p, n->val));
	ll_vector_fetch(&v, lo);
	for (int i = 0; i < vector; i++) {
		p->reg = reg + i;
		ll_vector_element(&v, lo, i);
		val[i] = value_at(p, n->val);
		if (one && vector > 1)
			val[i] = ll_encoded(k, n->to->dtype, val[i]);
		else
			ll_store(k, n->to, ll_expr(f, n->idx[0]), val[i]);
	}
	ll_forget(f);
	ll_bind(k, last, lo);
	if (one && vector > 1)
		ll_store_run(k, n->to, ll_expr(f, n->idx[0]), val, vector);
	ll_forget(f);
	ll_close_if(k, after);
}

static bool has_register(Expr *e)
{
	EX_EACH_LOAD (x, e)
		if (tile_in_registers(x->load.buf))
			return true;
	return false;
}

/* Binds the iterators to the point of the register whose number is known only at run time: REG, an
 * i64, a multiple of VECTOR. */
static void enter_number(TilePoints *p, const char *reg)
{
	LlFn *f = &p->k->f;
	int64_t inner = 1;
	const char *idx[TILE_RANK];

	ll_forget(f);
	for (int d = 0; d < p->n->n; d++)
		idx[d] = p->base[d];
	for (int i = p->n->points.n - 1; i >= 0; i--) {
		const TileAxis *x = &p->n->points.axis[i];
		const char *digit = reg, *r;

		if (x->at != AT_REGISTER)
			continue;
		if (inner > 1)
			digit = ll_op(f, "udiv i64", digit, inner);
		inner *= x->extent;
		if (x->dim < 0)
			continue;
		digit = ll_op(f, "mul nuw nsw i64", ll_op(f, "urem i64", digit, x->extent),
			      x->stride);
		r = ll_set(f, "add nuw nsw i64 %s, %s", idx[x->dim], digit);
		idx[x->dim] = r;
	}
	for (int d = 0; d < p->n->n; d++)
		ll_bind(p->k, p->n->it[d], idx[d]);
}

/* A loop over many points that do not depend on registers; else straight code. */
static void map_to_memory(TilePoints *p)
{
	enum { UNROLLED_STORES = 4 };
	const TileNode *n = p->n;
	const int regs = (int)layout_count(&n->points, AT_REGISTER), vector = points_at_once(n);
	Kernel *kernel = p->k->sched->kernel;
	LlLoop l;

	if (has_register(n->val) || has_register(n->guard) || regs / vector <= UNROLLED_STORES) {
		for (int r = 0; r < regs; r += vector) {
			enter_point(p, r);
			map_vector(p, r, vector);
		}
		return;
	}
	l = ll_open_loop(p->k, kernel_iter(kernel, "round", dim_const(kernel->ctx, regs)), "0",
			 ll_number(&p->k->f, regs), ll_number(&p->k->f, vector));
	enter_number(p, l.var);
	map_vector(p, 0, vector);
	ll_close_loop(p->k, &l);
}

static void map_to_registers(TilePoints *p)
{
	const TileNode *n = p->n;
	const int regs = (int)layout_count(&n->points, AT_REGISTER);

	for (int r = 0; r < regs; r++) {
		enter_point(p, r);
		store_register(p->k, n->to, register_at(p, n->to, n->idx, n->nidx),
			       value_at(p, n->val));
	}
}

static void map_to_shared(TilePoints *p)
{
	const TileNode *n = p->n;
	ExprPool *pool = p->k->sched->kernel->pool;
	const int regs = (int)layout_count(&n->points, AT_REGISTER),
		  bytes = dtype_bytes(n->to->dtype);
	TileLayout to;
	int vector = 1;

	if (tile_reads(ctx_of(p), n, n->idx, n->nidx, &to))
		vector = layout_vector_width(&to, n->to->tile, bytes, TILE_VECTOR / bytes);
	for (int r = 0; r < regs; r += vector) {
		const char *val[MOST_AT_ONCE];

		for (int v = 0; v < vector; v++) {
			enter_point(p, r + v);
			val[v] = ll_encoded(p->k, n->to->dtype, value_at(p, n->val));
		}
		enter_point(p, r);
		ll_store_run(p->k, n->to,
			     ll_expr(&p->k->f, tile_flat_index(pool, n->to, n->idx, 1)), val,
			     vector);
	}
}

/* ---- Folds ---- */

static const char *combined(TilePoints *p, const char *x, const char *y)
{
	return !x || !y ? (x ? x : y)
			: ll_combined(p->k, p->n->red, dtype_ctype(p->n->to->dtype), x, y);
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
		const char *at = ll_number(&p->k->f, s), *v = over_lanes(p, state[s]);

		ll_store(p->k, n->to, at, n->adds ? combined(p, ll_load(p->k, n->to, at), v) : v);
	}
}

/* ---- Copies ---- */

typedef struct TileCopy {
	LlKernel *k;
	const TileNode *n;
	LlPiece piece;
	Iter *chunk; /* the number of the piece in its row */
	int chunks, pieces;
	PieceOrder order;
	Expr *guard;
	const Buf *from; /* the tile in registers that is copied; null: none is */
} TileCopy;

static TileCopy open_copy(LlKernel *k, const TileNode *n)
{
	Kernel *kernel = k->sched->kernel;
	ExprPool *p = kernel->pool;
	const bool split = n->n == 2; /* the pieces of a row have no iterators of their own */
	const int chunks = (int)iter_count(n->it[1]) / (split ? n->vector : 1);
	TileCopy c = {.k = k,
		      .n = n,
		      .chunk = split ? kernel_iter(kernel, "chunk", dim_const(kernel->ctx, chunks))
				     : n->it[1],
		      .chunks = chunks,
		      .pieces = (int)iter_count(n->it[0]) * chunks};
	Iter *elem = split ? kernel_iter(kernel, "elem", dim_const(kernel->ctx, n->vector))
			   : n->it[2];
	Expr *at = ex_add(p, ex_mul(p, ex_iter(p, c.chunk), ex_int(p, CT_I64, n->vector)),
			  ex_iter(p, elem)),
	     *idx = tile_in_registers(n->to) ? NULL : tile_flat_index(p, n->to, n->idx, n->vector);

	c.piece = (LlPiece){.store = {.kind = LN_STORE,
				      .store.nout = 1,
				      .point.stmt = -1,
				      .store.buf[0] = n->to,
				      .store.idx = idx,
				      .store.val[0] = n->val},
			    .elem = elem,
			    .vector = n->vector};
	if (!tile_piece_order(p, n, tile_threads(k->stage, n), &c.order))
		assert(0); /* tiles_verify */
	c.guard = n->guard;
	if (n->val->kind == EX_LOAD && tile_in_registers(n->val->load.buf))
		c.from = n->val->load.buf;
	if (split) {
		c.guard = c.guard ? ex_subst_iters(p, c.guard, &n->it[1], &at, 1) : NULL;
		c.piece.store.store.idx = idx ? ex_subst_iters(p, idx, &n->it[1], &at, 1) : NULL;
		c.piece.store.store.val[0] = ex_subst_iters(p, n->val, &n->it[1], &at, 1);
	}
	return c;
}

/* T / DIV % MOD, both constants above 0. */
static const char *digit_of(LlFn *f, const char *t, int div, int mod)
{
	if (mod == 1)
		return "0";
	return ll_op(f, "urem i64", div > 1 ? ll_op(f, "udiv i64", t, div) : t, mod);
}

/* HIGH * BASE + LOW, where LOW < BASE. */
static const char *joined(LlFn *f, const char *high, int base, const char *low)
{
	if (!strcmp(high, "0"))
		return low;
	if (base > 1)
		high = ll_op(f, "mul nuw nsw i64", high, base);
	if (!strcmp(low, "0"))
		return high;
	return ll_set(f, "add nuw nsw i64 %s, %s", high, low);
}

/* C with it[0] replaced by it[0] + ROWS. The pool of expressions moves constants out of products
 * of sums, so that addresses differ only by constants; LLVM 14 does not where a sum has become a
 * bitwise or. */
static TileCopy rows_further(const TileCopy *c, long long rows)
{
	ExprPool *p = c->k->sched->kernel->pool;
	Iter *it = c->n->it[0];
	Expr *at = ex_add(p, ex_iter(p, it), ex_int(p, CT_I64, rows));
	TileCopy r = *c;

	r.guard = c->guard ? ex_subst_iters(p, c->guard, &it, &at, 1) : NULL;
	r.piece.store.store.idx = c->piece.store.store.idx
					  ? ex_subst_iters(p, c->piece.store.store.idx, &it, &at, 1)
					  : NULL;
	r.piece.store.store.val[0] = ex_subst_iters(p, c->piece.store.store.val[0], &it, &at, 1);
	return r;
}

/* Binds the row and chunk of piece T, an i64, in the order of tile_piece. */
static void bind_piece(const TileCopy *c, const char *t)
{
	const PieceOrder o = c->order;
	LlFn *f = &c->k->f;
	const char *row, *chunk;

	ll_forget(f);
	row = joined(f, ll_op(f, "udiv i64", t, o.rows * c->chunks), o.rows,
		     digit_of(f, t, o.run, o.rows));
	chunk = joined(f, digit_of(f, t, o.run * o.rows, c->chunks / o.run), o.run,
		       digit_of(f, t, 1, o.run));
	ll_bind(c->k, c->n->it[0], row);
	ll_bind(c->k, c->chunk, chunk);
	ll_bind(c->k, c->piece.elem, "0");
}

/* The thread's piece number AT of tile B in registers. */
static const char *held_at(const TileCopy *c, const Buf *b, int at)
{
	return ll_element(c->k, ll_buf_name(c->k, b), b->dtype, (int64_t)at * c->n->vector);
}

/* Loads the element where COND holds (null: always), else gives zeros. */
static const char *loaded(const TileCopy *c, const char *cond)
{
	LlKernel *k = c->k;
	LlFn *f = &k->f;
	const char *from = f->block, *after = cond ? ll_open_if(k, cond) : NULL, *value, *end, *all;

	value = all = ll_piece_load(k, &c->piece);
	end = f->block;
	ll_forget(f);
	ll_close_if(k, after);
	if (cond)
		all = ll_set(f, "phi %s [ zeroinitializer, %%%s ], [ %s, %%%s ]",
			     ll_piece_type(k, &c->piece), from, value, end);
	return all;
}

/* Copies the piece that is bound, the thread's piece number AT. */
static void copy_bound(const TileCopy *c, int at)
{
	LlKernel *k = c->k;
	const char *type = ll_piece_type(k, &c->piece), *all, *cond;

	if (c->from) {
		all = ll_set(&k->f, "load %s, ptr %s, align 4", type, held_at(c, c->from, at));
		ll_piece_store(k, &c->piece, all);
		return;
	}
	cond = c->guard ? ll_expr(&k->f, c->guard) : NULL;
	if (c->n->async) {
		ll_piece_copy(k, &c->piece, cond);
		return;
	}
	all = loaded(c, cond);
	if (tile_in_registers(c->n->to))
		ll_put(&k->f, "store %s %s, ptr %s, align 4", type, all, held_at(c, c->n->to, at));
	else
		ll_piece_store(k, &c->piece, all);
}

static const char *thread_of(const TileNode *n)
{
	return n->producers ? "%producer" : "%tid";
}

enum { UNROLLED = 8 /* pieces of a thread whose loads may be in flight, in registers, at once */ };

/* Copies the whole rounds of pieces of all threads, in a loop. Returns their number. */
static int copy_rounds(const TileCopy *c)
{
	LlKernel *k = c->k;
	Kernel *kernel = k->sched->kernel;
	const int threads = tile_threads(k->stage, c->n), rounds = c->pieces / threads;
	const char *first;
	LlLoop l;

	if (rounds <= UNROLLED || c->from || tile_in_registers(c->n->to))
		return 0;
	l = ll_open_loop(k, kernel_iter(kernel, "round", dim_const(kernel->ctx, rounds)), "0",
			 ll_number(&k->f, rounds), "1");
	l.once = true;
	first = ll_op(&k->f, "mul nuw nsw i64", l.var, threads);
	bind_piece(c, ll_set(&k->f, "add nuw nsw i64 %s, %s", first, thread_of(c->n)));
	copy_bound(c, 0);
	ll_close_loop(k, &l);
	return rounds;
}

static void copy(LlKernel *k, const TileNode *n)
{
	const TileCopy c = open_copy(k, n);
	const int threads = tile_threads(k->stage, n);
	const char *tid = thread_of(n);

	for (int at = copy_rounds(&c); at * threads < c.pieces; at++) {
		const long long first = (long long)at * threads;
		const bool rows = threads % (c.order.rows * c.chunks) ==
				  0; /* the thread has the same chunk of each row */
		const char *after = NULL;
		TileCopy further;

		if (c.pieces - first < threads)
			after = ll_open_if(k, ll_op(&k->f, "icmp ult i64", tid, c.pieces - first));
		bind_piece(&c, rows || !at ? tid : ll_op(&k->f, "add nuw nsw i64", tid, first));
		further = rows_further(&c, rows ? first / c.chunks : 0);
		copy_bound(&further, at);
		ll_forget(&k->f);
		ll_close_if(k, after);
	}
}

/* ---- Order ---- */

/* The address of an mbarrier, an i32. */
static const char *mbarrier(LlKernel *k, const TileNode *n)
{
	LlFn *f = &k->f;
	const char *at = ll_narrow(f, ll_expr(f, n->idx[0])),
		   *base = ll_set(f, "ptrtoint ptr addrspace(3) %s to i32",
				  ll_tile_memory(k, n->to));

	return ll_set(f, "add i32 %s, %s", base, ll_op(f, "mul i32", at, MBARRIER_BYTES));
}

/* Every thread of the producers arrives, since each needs a fence of its own. A warp of readers,
 * whose lanes have all waited, arrives by one lane. */
static void arrive(LlKernel *k, const TileNode *n)
{
	const char *at = mbarrier(k, n),
		   *lane = n->producers ? "0" : ll_op(&k->f, "and i64", "%tid", WARP_LANES - 1);

	ll_put(&k->f,
	       "call void asm sideeffect \"{ .reg .pred p; setp.eq.u64 p, $1, 0; "
	       "@p mbarrier.arrive.shared::cta.b64 _, [$0]; }\", \"r,l,~{memory}\"(i32 %s, i64 %s) convergent",
	       at, lane);
}

/* The vote makes the branch one of whole warps, so that ptxas needs no reconvergence of lanes
 * after it. */
static void await(LlKernel *k, const TileNode *n)
{
	const char *at = mbarrier(k, n), *parity = ll_expr(&k->f, n->val),
		   *wide = ll_set(&k->f, "zext i1 %s to i32", parity);

	ll_put(&k->f,
	       "call void asm sideeffect \"{ .reg .pred p; $$dl_wait${:uid}: "
	       "mbarrier.try_wait.parity.shared::cta.b64 p, [$0], $1; vote.sync.all.pred p, p, -1; @!p bra.uni $$dl_wait${:uid}; }\", "
	       "\"r,r,~{memory}\"(i32 %s, i32 %s) convergent",
	       at, wide);
}

static void sync(LlKernel *k, const TileNode *n)
{
	switch (n->sync) {
	case TILE_COMMIT: ll_put(&k->f, "call void @llvm.nvvm.cp.async.commit.group()"); break;
	case TILE_WAIT:
		ll_put(&k->f, "call void @llvm.nvvm.cp.async.wait.group(i32 %d)", n->pending);
		break;
	case TILE_ARRIVE: arrive(k, n); break;
	case TILE_AWAIT: await(k, n); break;
	case TILE_FENCE:
		ll_put(&k->f, "call void asm sideeffect \"fence.proxy.async.shared::cta;\", "
			      "\"~{memory}\"() convergent");
		break;
	case TILE_BARRIER:
		if (k->stage->block.producers)
			ll_put(&k->f,
			       "call void asm sideeffect \"bar.sync 1, %d;\", \"~{memory}\"() convergent",
			       k->stage->block.threads);
		else
			ll_put(&k->f, "call void @llvm.nvvm.barrier0()");
		break;
	}
}

static bool is_sync(const LNode *n, TileSync kind)
{
	return n->kind == LN_OP && n->op->op == TILE_SYNC && n->op->sync == kind;
}

typedef VEC(const Buf *) MadeTiles;

/* Makes the mbarriers at which operations of N or its siblings arrive. */
static void make_mbarriers(LlKernel *k, const LNode *n, MadeTiles *made)
{
	for (; n; n = n->next) {
		bool is_made = !is_sync(n, TILE_ARRIVE);

		if (n->kind == LN_LOCAL && tile_in_shared(n->local.buf))
			ll_declare(k, n->local.buf, &n->local);
		make_mbarriers(k, n->body, made);
		for (int i = 0; i < made->n && !is_made; i++)
			is_made = made->at[i] == n->op->to;
		if (is_made)
			continue;
		vec_push(k->f.arena, made, n->op->to);
		for (int i = 0; i < layout_count(n->op->to->tile, AT_ADDRESS); i++) {
			TileNode at = *n->op;

			at.idx[0] = ex_int(k->sched->kernel->pool, CT_I64, i);
			ll_put(&k->f,
			       "call void asm sideeffect \"mbarrier.init.shared::cta.b64 [$0], $1;\", "
			       "\"r,r,~{memory}\"(i32 %s, i32 %d)",
			       mbarrier(k, &at),
			       at.producers ? k->stage->block.producers
					    : k->stage->block.threads / WARP_LANES);
		}
	}
}

void ll_tile_roles(LlKernel *k, const LNode *body)
{
	enum { FEW_REGISTERS = 56, MANY_REGISTERS = 224 };
	const StageBlock *b = &k->stage->block;
	LlFn *f = &k->f;
	MadeTiles made = {0};
	const char *is = ll_op(f, "icmp eq i32", "%tid32", 0), *after;
	/* A block of three warpgroups has 168 registers a thread; those that multiply may have
	 * more. */
	const bool moves = b->producers == 128 && b->threads == 256;

	after = ll_open_if(k, is);
	make_mbarriers(k, body, &made);
	ll_forget(f);
	ll_close_if(k, after);
	ll_put(f, "call void @llvm.nvvm.barrier0()");
	for (int producers = 1; producers >= 0; producers--) {
		is = ll_set(f, "icmp %s i32 %%tid32, %d", producers ? "uge" : "ult", b->threads);
		after = ll_open_if(k, is);
		if (moves)
			ll_put(f,
			       "call void asm sideeffect \"setmaxnreg.%s.sync.aligned.u32 %d;\", \"\"() convergent",
			       producers ? "dec" : "inc",
			       producers ? FEW_REGISTERS : MANY_REGISTERS);
		/* ptxas moves a constant half of wgmma's descriptors to registers for each
		 * instruction. A loop had 46 instructions; with a half that ptxas does not know it
		 * has 41. */
		if (!producers) {
			ll_put(f,
			       "%%lane0 = call i32 @llvm.nvvm.shfl.sync.idx.i32(i32 -1, i32 %%tid32, i32 0, i32 31)");
			ll_put(f, "%%zero = and i32 %%lane0, 31");
		}
		if (producers)
			ll_put(f, "%%producer = sub nuw nsw i64 %%tid, %d", b->threads);
		k->role = producers ? ROLE_PRODUCERS : ROLE_OTHERS;
		ll_forget(f);
		ll_nodes(k, body);
		ll_forget(f);
		ll_close_if(k, after);
	}
	k->role = ROLE_ALL;
}

void ll_tile_op(LlKernel *k, const TileNode *n)
{
	TilePoints p;

	if (k->role != ROLE_ALL && n->producers != (k->role == ROLE_PRODUCERS))
		return;
	ll_forget(&k->f);
	switch (n->op) {
	case TILE_COPY: copy(k, n); break;
	case TILE_DOT: ll_tile_dot(k, n); break;
	case TILE_SYNC: sync(k, n); break;
	case TILE_MAP:
	case TILE_FOLD:
		p = open_points(k, n);
		if (n->op == TILE_FOLD && n->mma != MMA_FMA)
			ll_tile_sums(k, n);
		else if (n->op == TILE_FOLD)
			fold(&p);
		else if (tile_in_registers(n->to))
			map_to_registers(&p);
		else if (n->to->tile)
			map_to_shared(&p);
		else
			map_to_memory(&p);
		break;
	}
	ll_forget(&k->f);
}
