/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills of tiles in shared memory, and the software pipeline around them. Thread t of a block of T
 * threads copies pieces t, t + T ... of a tile, row after row. An iteration of the pipeline:
 *
 *   wait for the copies of this iteration's stage; barrier
 *   copies into the stage that was read last, for STAGES - 1 iterations ahead: cp.async, or loads
 *     into registers
 *   the work that reads this iteration's stage
 *   stores of the elements that were loaded into registers
 *
 * so that loads of either kind are in flight during the work. Before the first iteration the first
 * stages are filled. The last iterations commit empty groups, so no copy is in flight after the
 * pipeline.
 */
#include "codegen/nvptx/kernel.h"

#include <assert.h>

/* ---- Chunks ---- */

/* One thread's chunk of a fill, between its load and its store. */
typedef struct FillChunk {
	const LNode *fill;
	int at;          /* its number among the thread's chunks */
	const char *all; /* its stored elements */
} FillChunk;

typedef VEC(FillChunk) Chunks;

static int chunks_each(const LlKernel *k, const Fill *f)
{
	return (f->rows * f->chunks + k->stage->threads - 1) / k->stage->threads;
}

/* Binds the iterators of the thread's chunk AT. */
static void bind_chunk(LlKernel *k, const LNode *n, int at)
{
	LlFn *f = &k->f;
	const Fill *fill = n->fill;
	const int threads = k->stage->threads;
	const char *t = "%tid", *row, *chunk;

	ll_forget(f);
	if (at && threads % fill->chunks)
		t = ll_op(f, "add nuw nsw i64", t, at * threads);
	row = ll_op(f, "lshr i64", t, ll_log2(fill->chunks));
	chunk = ll_op(f, "and i64", t, fill->chunks - 1);
	if (at && threads % fill->chunks == 0)
		row = ll_op(f, "add nuw nsw i64", row, at * threads / fill->chunks);
	ll_bind(k, fill->row, row);
	ll_bind(k, fill->chunk, chunk);
	ll_bind(k, fill->elem, "0");
	for (const LNode *x = n->body; x->next; x = x->next) {
		ll_forget(f);
		ll_bind(k, x->var, ll_expr(f, x->lo));
	}
	ll_forget(f);
}

/* The condition that this thread has a chunk AT; null: all threads have. */
static const char *has_chunk(LlKernel *k, const Fill *f, int at)
{
	const int left = f->rows * f->chunks - at * k->stage->threads;

	return left >= k->stage->threads ? NULL : ll_op(&k->f, "icmp ult i64", "%tid", left);
}

static const char *and_also(LlKernel *k, const char *a, const char *b)
{
	const char *c;

	if (!a || !b)
		return a ? a : b;
	c = ll_new(&k->f);
	ll_put(&k->f, "%s = and i1 %s, %s", c, a, b);
	return c;
}

static void copy_chunks(LlKernel *k, const LNode *n)
{
	for (int i = 0; i < chunks_each(k, n->fill); i++) {
		const char *after = NULL, *has = has_chunk(k, n->fill, i);
		Expr *guard = ll_fill_store(n)->guard;

		if (has)
			after = ll_open_if(k, has);
		bind_chunk(k, n, i);
		ll_chunk_copy(k, n, guard ? ll_expr(&k->f, guard) : NULL);
		ll_forget(&k->f);
		ll_close_if(k, after);
	}
}

/* Loads the thread's chunks where INSIDE (null: always) and the guard hold; others are zero. */
static void load_chunks(LlKernel *k, const LNode *n, const char *inside, Chunks *out)
{
	LlFn *f = &k->f;
	const char *type = ll_chunk_type(k, n);

	for (int i = 0; i < chunks_each(k, n->fill); i++) {
		FillChunk c = {n, i, NULL};
		Expr *guard = ll_fill_store(n)->guard;
		const char *cond, *from, *loaded, *after = NULL, *end;

		bind_chunk(k, n, i);
		cond = and_also(k, has_chunk(k, n->fill, i), inside);
		cond = and_also(k, cond, guard ? ll_expr(f, guard) : NULL);
		ll_forget(f);
		from = f->block;
		if (cond)
			after = ll_open_if(k, cond);
		loaded = ll_chunk_load(k, n);
		end = f->block;
		ll_forget(f);
		ll_close_if(k, after);
		c.all = loaded;
		if (cond) {
			c.all = ll_new(f);
			ll_put(f, "%s = phi %s [ zeroinitializer, %%%s ], [ %s, %%%s ]", c.all,
			       type, from, loaded, end);
		}
		vec_push(f->arena, out, c);
	}
}

static void store_chunks(LlKernel *k, const Chunks *c)
{
	for (int i = 0; i < c->n; i++) {
		const FillChunk *x = &c->at[i];
		const char *has = has_chunk(k, x->fill->fill, x->at), *after = NULL;

		if (has)
			after = ll_open_if(k, has);
		bind_chunk(k, x->fill, x->at);
		ll_chunk_store(k, x->fill, x->all);
		ll_forget(&k->f);
		ll_close_if(k, after);
	}
}

void ll_fill(LlKernel *k, const LNode *n)
{
	Chunks c = {0};

	load_chunks(k, n, NULL, &c);
	store_chunks(k, &c);
	ll_barrier(k);
}

/* ---- The pipeline ---- */

/* Starts all fills of one iteration; chunks loaded to registers go to *KEPT. Returns whether some
 * are asynchronous. */
static bool start_fills(LlKernel *k, const LNode *pipeline, const char *inside, Chunks *kept)
{
	bool any = false;

	for (const LNode *n = pipeline->body; n; n = n->next)
		any = any || (n->kind == LN_FILL && n->fill->async);
	if (any) {
		const char *after = ll_open_if(k, inside);

		for (const LNode *n = pipeline->body; n; n = n->next)
			if (n->kind == LN_FILL && n->fill->async)
				copy_chunks(k, n);
		ll_close_if(k, after);
		ll_put(&k->f, "call void @llvm.nvvm.cp.async.commit.group()");
	}
	for (const LNode *n = pipeline->body; n; n = n->next)
		if (n->kind == LN_FILL && !n->fill->async)
			load_chunks(k, n, inside, kept);
	return any;
}

/* Iterations and stages are counted in 32 bits, the width of a register; values that are bound have
 * 64. */
static const char *load_count(LlKernel *k, const char *slot)
{
	const char *r = ll_new(&k->f);

	ll_put(&k->f, "%s = load i32, ptr %s", r, slot);
	return r;
}

static const char *wide(LlKernel *k, const char *count)
{
	const char *r = ll_new(&k->f);

	ll_put(&k->f, "%s = zext i32 %s to i64", r, count);
	return r;
}

static const char *narrow(LlKernel *k, const char *value)
{
	const char *r = ll_new(&k->f);

	ll_put(&k->f, "%s = trunc i64 %s to i32", r, value);
	return r;
}

/* AT + STEP in the circle of stages: after EDGE comes TO. */
static const char *other_slot(LlKernel *k, const char *at, int step, int edge, int to)
{
	const char *next = ll_op(&k->f, "add nsw i32", at, step),
		   *leaves = ll_op(&k->f, "icmp eq i32", at, edge), *r = ll_new(&k->f);

	ll_put(&k->f, "%s = select i1 %s, i32 %d, i32 %s", r, leaves, to, next);
	return r;
}

static const char *less(LlKernel *k, const char *a, const char *b)
{
	const char *r = ll_new(&k->f);

	ll_put(&k->f, "%s = icmp slt i32 %s, %s", r, a, b);
	return r;
}

/* A + N. */
static const char *plus(LlKernel *k, const char *a, int n)
{
	return ll_op(&k->f, "add nuw nsw i32", a, n);
}

/* Waits for the oldest copies in flight; only this thread sees their data before a barrier. */
static void wait_for_copies(LlKernel *k, const LNode *pipeline)
{
	ll_put(&k->f, "call void @llvm.nvvm.cp.async.wait.group(i32 %d)", pipeline->stages - 2);
	for (const LNode *n = pipeline->body; n; n = n->next)
		if (n->kind == LN_FILL && n->fill->async)
			ll_access_buf(k, ll_fill_store(n)->buf[0], true);
}

void ll_pipeline(LlKernel *k, const LNode *n)
{
	LlFn *f = &k->f;
	const char *at = ll_slot(k, "i32", 0), *read = ll_slot(k, "i32", 0);
	const char *head = ll_label(f, "pipeline"), *round = ll_label(f, "round"),
		   *end = ll_label(f, "done");
	const char *lo, *hi, *i, *ahead, *from, *to, *inside;
	bool async = false;
	Chunks kept = {0};

	ll_forget(f);
	lo = narrow(k, ll_expr(f, n->lo));
	hi = narrow(k, ll_expr(f, n->hi));
	ll_bind(k, n->stage, "0");
	for (int s = 0; s + 1 < n->stages; s++) {
		Chunks now = {0};

		ahead = plus(k, lo, s);
		ll_bind(k, n->var, wide(k, ahead));
		k->slot = arena_printf(f->arena, "%d", s);
		async = start_fills(k, n, less(k, ahead, hi), &now);
		store_chunks(k, &now);
	}
	ll_put(f, "store i32 %s, ptr %s", lo, at);
	ll_put(f, "store i32 0, ptr %s", read);
	ll_sync_open(k, SYNC_LOOP);
	ll_put(f, "br label %%%s", head);
	ll_begin(f, head);
	i = load_count(k, at);
	inside = less(k, i, hi);
	ll_put(f, "br i1 %s, label %%%s, label %%%s", inside, round, end);
	ll_begin(f, round);
	from = load_count(k, read);
	to = other_slot(k, from, -1, 0, n->stages - 1);
	if (async)
		wait_for_copies(k, n);
	ll_barrier(k);
	ahead = plus(k, i, n->stages - 1);
	ll_bind(k, n->var, wide(k, ahead));
	k->slot = wide(k, to);
	start_fills(k, n, less(k, ahead, hi), &kept);
	ll_bind(k, n->var, wide(k, i));
	k->slot = wide(k, from);
	ll_forget(f);
	for (const LNode *x = n->body; x; x = x->next)
		if (x->kind != LN_FILL) {
			LNode alone = *x;

			alone.next = NULL;
			ll_nodes(k, &alone);
		}
	ll_bind(k, n->var, wide(k, ahead));
	k->slot = wide(k, to);
	store_chunks(k, &kept);
	ll_put(f, "store i32 %s, ptr %s", plus(k, i, 1), at);
	ll_put(f, "store i32 %s, ptr %s", other_slot(k, from, 1, n->stages - 1, 0), read);
	/* without asynchronous copies, no unrolling: ptxas would hold the loads of several
	 * iterations in registers */
	ll_put(f, "br label %%%s%s", head, async ? "" : LL_LOOP_ONCE);
	ll_begin(f, end);
	ll_sync_close(k);
	ll_forget(f);
	ll_barrier(k);
}
