/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software pipelines of operations on tiles. With S buffers of each tile, iteration i of the loop
 * is
 *
 *	wait until the copies for i have arrived; a fence, where wgmma reads them; barrier
 *	copies for iteration i + S - 1, into the buffer that iteration i - 1 read; commit
 *	the operations that read the buffers of i
 *
 * The barrier publishes what other threads copied, and orders their reads in iteration i - 1 before
 * these copies: one barrier an iteration. With one buffer the copies for i stand between two
 * barriers.
 *
 * Copies that are not asynchronous may be divided: their loads are in flight, in registers, during
 * the operations, and the stores to shared memory follow these.
 */
#include "passes/schedule/gpu/gpu_impl.h"

#include <limits.h>

typedef struct Pipeline {
	LBuild *b;
	LNode *copies, **tail; /* TAIL: where nodes are appended */
	Iter *var, *slot;
	Expr *end;
	int stages;
	bool async; /* some copy is, here or before the loop */
	bool fence; /* wgmma reads what is copied */
	int held;   /* registers of a thread for loads in flight */
	LNode **locals; /* where these registers are declared */
	LNode *stores,
		**last; /* from these registers to shared memory, at the end of an iteration */
} Pipeline;

static LNode *append(Pipeline *p)
{
	LNode *n = NEW(p->b->arena, LNode);

	n->kind = LN_OP;
	n->point.stmt = -1;
	n->op = NEW(p->b->arena, TileNode);
	*p->tail = n;
	p->tail = &n->next;
	return n;
}

static void sync(Pipeline *p, TileSync kind, int pending)
{
	TileNode *n;

	if (kind == TILE_BARRIER && p->fence)
		sync(p, TILE_FENCE, 0);
	if ((kind == TILE_COMMIT || kind == TILE_WAIT) && !p->async)
		return;
	n = append(p)->op;
	n->op = TILE_SYNC;
	n->sync = kind;
	n->pending = pending;
}

static void place(Pipeline *p, TileNode *n, Expr *iteration, Expr *slot)
{
	Iter *from[] = {p->var, p->slot};
	Expr *to[] = {iteration, slot}, **all[] = {&n->val, &n->by, &n->guard};

	for (int i = 0; i < n->nidx; i++)
		n->idx[i] = ex_subst_iters(p->b->p, n->idx[i], from, to, 2);
	for (int i = 0; i < 3; i++)
		if (*all[i])
			*all[i] = ex_subst_iters(p->b->p, *all[i], from, to, 2);
}

/* Divides COPY: it goes to a new tile in registers, and from there to shared memory, at the end of
 * the iteration. */
static void divide(Pipeline *p, TileNode *copy)
{
	LBuild *b = p->b;
	LNode *local = NEW(b->arena, LNode), *store = NEW(b->arena, LNode);
	const int warps = b->stage->block.threads / WARP;
	TileNode *to = arena_copy(b->arena, copy, sizeof *copy);
	TileLayout *l = NEW(b->arena, TileLayout);
	Dim *dims[TILE_RANK];
	PieceOrder order;

	tile_piece_order(b->p, copy, b->stage->block.threads, &order);
	for (int i = 0; i < copy->n; i++) {
		dims[i] = copy->it[i]->extent;
		copy->idx[i] = ex_iter(b->p, copy->it[i]);
	}
	*l = tile_pieces(copy, order, warps);
	copy->to = kernel_temp(b->k, arena_printf(b->arena, "%s_held", copy->to->name),
			       copy->to->dtype, copy->n, dims);
	copy->to->tile = l;
	copy->nidx = copy->n;
	to->val = ex_load(b->p, copy->to, copy->idx, copy->n);
	to->guard = NULL;
	*store = (LNode){.kind = LN_OP, .point.stmt = -1, .op = to};
	*p->last = store;
	p->last = &store->next;
	*local = (LNode){
		.kind = LN_LOCAL, .point.stmt = -1, .local.buf = copy->to, .next = *p->locals};
	*p->locals = local;
	p->locals = &local->next;
}

/* Registers of a thread for all pieces of COPY; INT_MAX: its threads have not as many. */
static int registers_of(const Pipeline *p, const TileNode *copy)
{
	const int word = 4;
	int64_t n = 1, v = 0;

	for (int i = 0; i < copy->n; i++)
		n *= dim_is_const(copy->it[i]->extent, &v) ? v : 0;
	if (copy->async || copy->n < TILE_RANK)
		return INT_MAX;
	n = (n + p->b->stage->block.threads - 1) / p->b->stage->block.threads;
	return (int)(n * dtype_info[copy->to->dtype].bits / 8 + word - 1) / word;
}

/* The copies for iteration AT, where it is before the end. */
static void start(Pipeline *p, Expr *at, bool whole, bool ahead)
{
	ExprPool *pool = p->b->p;
	Expr *slot = ex_op2(pool, IN_mod, at, l_int(p->b, p->stages));

	for (const LNode *n = p->copies; n; n = n->next) {
		TileNode *op = arena_copy(p->b->arena, n->op, sizeof *op);
		Expr *before = whole ? NULL : ex_op2(pool, IN_lt, at, p->end);
		LNode *c;

		if (before && p->end->kind == EX_CONST && before->kind == EX_CONST && !before->i)
			continue; /* the loop has fewer iterations than there are buffers */
		place(p, op, at, slot);
		if (before && !(before->kind == EX_CONST && before->i))
			op->guard = ex_and(pool, op->guard, before);
		c = append(p);
		*c = *n;
		c->next = NULL;
		c->op = op;
		if (ahead && registers_of(p, op) <= p->held) {
			p->held -= registers_of(p, op);
			divide(p, op);
		}
	}
	sync(p, TILE_COMMIT, 0);
}

static bool is_copy(const LNode *n)
{
	return n && n->kind == LN_OP && n->op->op == TILE_COPY;
}

static bool any_wgmma(const LNode *n)
{
	for (; n; n = n->next)
		if (n->kind == LN_OP && n->op->op == TILE_DOT && mma_is_wgmma(n->op->mma))
			return true;
	return false;
}

static bool any_async(const LNode *n, const LNode *end)
{
	for (; n && n != end; n = n->next)
		if (is_copy(n) && n->op->async)
			return true;
	return false;
}

void gpu_tile_pipeline(LBuild *b, LNode *loop, LNode **at, Iter *slot, int stages, int held)
{
	Pipeline p = {.b = b,
		      .copies = loop->body,
		      .var = loop->range.var,
		      .slot = slot,
		      .end = loop->range.hi,
		      .stages = stages,
		      .held = held};
	Expr *i = ex_iter(b->p, loop->range.var);
	LNode **rest = &loop->body, *body;

	while (is_copy(*rest))
		rest = &(*rest)->next;
	body = *rest;
	*rest = NULL;
	p.fence = any_wgmma(body);
	p.async = any_async(p.copies, NULL) || any_async(*at, loop);
	while (*at != loop)
		at = &(*at)->next;
	p.tail = at;
	p.last = &p.stores;
	p.locals = NULL;
	for (int s = 0; s + 1 < stages; s++)
		start(&p, l_int(b, s), false, false);
	p.locals = p.tail;
	*p.tail = loop;
	p.tail = &loop->body;
	if (stages > 1)
		sync(&p, TILE_WAIT, stages - 2);
	sync(&p, TILE_BARRIER, 0);
	start(&p, ex_add(b->p, i, l_int(b, stages - 1)), stages == 1, stages > 1);
	if (stages == 1) {
		sync(&p, TILE_WAIT, 0);
		sync(&p, TILE_BARRIER, 0);
	}
	*p.tail = body;
	for (LNode *n = body; n; n = n->next)
		if (n->kind == LN_OP)
			place(&p, n->op, i, ex_op2(b->p, IN_mod, i, l_int(b, stages)));
	for (at = p.tail; *at;)
		at = &(*at)->next;
	*at = p.stores;
}
