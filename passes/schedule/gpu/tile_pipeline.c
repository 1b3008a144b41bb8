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
 * barriers. If then the first product reads some of the tiles and a later one the others, as in an
 * attention, the copies of each overlap the operations that read the other:
 *
 *	wait; barrier; copies that the later product reads, for i; commit
 *	the first product
 *	wait; barrier; copies that the first product reads, for i + 1; commit
 *	the other operations
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
	Buf *full, *empty; /* mbarriers of the buffers, where producers copy; or null */
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
	n->producers = p->full != NULL;
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

/* Appends KIND at element SLOT of the mbarriers M, in phase PHASE, whose parity is that of PHASE /
 * STAGES. */
static void at_mbarrier(Pipeline *p, TileSync kind, Buf *m, Expr *slot, Expr *phase, bool producers)
{
	ExprPool *pool = p->b->p;
	TileNode *n = append(p)->op;

	*n = (TileNode){.op = TILE_SYNC, .sync = kind, .to = m, .nidx = 1, .producers = producers};
	n->idx[0] = slot;
	if (kind == TILE_AWAIT)
		n->val = ex_op2(pool, IN_ge,
				ex_op2(pool, IN_mod, phase, l_int(p->b, 2 * p->stages)),
				l_int(p->b, p->stages));
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
	return (int)(dtype_size(copy->to->dtype, n) + word - 1) / word;
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
		op->producers = p->full != NULL;
		if (ahead && !p->full && registers_of(p, op) <= p->held) {
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

/* The loop's body, whose operations are BODY, with producers:
 *
 *	producers: wait for iteration i - 1, whose buffer the copies for i + S - 1 fill; copies; commit;
 *		wait until those for i have arrived; fence; arrive
 *	others: wait for the producers' arrival of i; operations; arrive
 *
 * After the loop the others wait at one more mbarrier for the producers' last copies, of nothing,
 * to arrive. */
static void emit_roles(Pipeline *p, LNode *loop, LNode *body)
{
	ExprPool *pool = p->b->p;
	Expr *i = ex_iter(pool, p->var), *stages = l_int(p->b, p->stages),
	     *slot = ex_op2(pool, IN_mod, i, stages),
	     *ahead = ex_add(pool, i, l_int(p->b, p->stages - 1)), *none = l_int(p->b, 0);

	/* in iteration 0 the wait is for the phase before the first, and ends at once */
	at_mbarrier(p, TILE_AWAIT, p->empty, ex_op2(pool, IN_mod, ahead, stages),
		    ex_add(pool, ahead, stages), true);
	start(p, ahead, false, false);
	sync(p, TILE_WAIT, p->stages - 1);
	sync(p, TILE_FENCE, 0);
	at_mbarrier(p, TILE_ARRIVE, p->full, slot, i, true);
	at_mbarrier(p, TILE_AWAIT, p->full, slot, i, false);
	*p->tail = body;
	while (*p->tail)
		p->tail = &(*p->tail)->next;
	at_mbarrier(p, TILE_ARRIVE, p->empty, slot, i, false);
	p->tail = &loop->next;
	sync(p, TILE_WAIT, 0);
	at_mbarrier(p, TILE_ARRIVE, p->full, stages, none, true);
	at_mbarrier(p, TILE_AWAIT, p->full, stages, none, false);
}

static LNode *first_dot(LNode *n)
{
	while (n && (n->kind != LN_OP || n->op->op != TILE_DOT))
		n = n->next;
	return n;
}

/* Moves the copies of *FROM that DOT does not read to a list of their own, which is returned. */
static LNode *take_later(LNode **from, const TileNode *dot)
{
	LNode *later = NULL, **tail = &later;

	while (*from) {
		const Buf *to = (*from)->op->to;

		if (expr_loads(dot->by, to) || expr_loads(dot->val, to)) {
			from = &(*from)->next;
			continue;
		}
		*tail = *from;
		tail = &(*tail)->next;
		*from = *tail;
		*tail = NULL;
	}
	return later;
}

/* The loop's body, whose operations are BODY, with one buffer; LATER are the copies that the first
 * product, DOT, does not read. */
static void emit_alternating(Pipeline *p, LNode *later, LNode *body, LNode *dot)
{
	Expr *i = ex_iter(p->b->p, p->var);
	LNode *first = p->copies, *rest = dot->next;

	sync(p, TILE_WAIT, 0);
	sync(p, TILE_BARRIER, 0);
	p->copies = later;
	start(p, i, true, false);
	dot->next = NULL;
	*p->tail = body;
	p->tail = &dot->next;
	sync(p, TILE_WAIT, 0);
	sync(p, TILE_BARRIER, 0);
	p->copies = first;
	start(p, ex_add(p->b->p, i, l_int(p->b, 1)), false, false);
	*p->tail = rest;
}

void gpu_tile_pipeline(LBuild *b, LNode *loop, LNode **at, Iter *slot, int stages, int held,
		       Buf *full, Buf *empty)
{
	Pipeline p = {.b = b,
		      .copies = loop->body,
		      .var = loop->range.var,
		      .slot = slot,
		      .end = loop->range.hi,
		      .stages = stages,
		      .held = held,
		      .full = full,
		      .empty = empty};
	Expr *i = ex_iter(b->p, loop->range.var);
	LNode **rest = &loop->body, *body, *dot, *later = NULL;

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
	dot = first_dot(body);
	if (stages == 1 && dot)
		later = take_later(&p.copies, dot->op);
	for (int s = 0; s + 1 < stages || (later && !s); s++)
		start(&p, l_int(b, s), false, false);
	p.locals = p.tail;
	*p.tail = loop;
	p.tail = &loop->body;
	if (full) {
		emit_roles(&p, loop, body);
	} else if (later) {
		emit_alternating(&p, later, body, dot);
	} else {
		if (stages > 1)
			sync(&p, TILE_WAIT, stages - 2);
		sync(&p, TILE_BARRIER, 0);
		start(&p, ex_add(b->p, i, l_int(b, stages - 1)), stages == 1, stages > 1);
		if (stages == 1) {
			sync(&p, TILE_WAIT, 0);
			sync(&p, TILE_BARRIER, 0);
		}
		*p.tail = body;
	}
	for (LNode *n = body; n; n = n->next)
		if (n->kind == LN_OP)
			place(&p, n->op, i, ex_op2(b->p, IN_mod, i, l_int(b, stages)));
	for (at = p.tail; *at;)
		at = &(*at)->next;
	*at = p.stores;
}
