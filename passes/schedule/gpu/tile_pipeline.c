/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software pipelines of operations on tiles. With S buffers of each tile, iteration i of the loop is
 *
 *	wait until the copies for i have arrived; barrier
 *	copies for iteration i + S - 1, into the buffer that iteration i - 1 read; commit
 *	the operations that read the buffers of i
 *
 * The barrier publishes what other threads copied, and orders their reads in iteration i - 1 before these
 * copies: one barrier an iteration. With one buffer the copies for i stand between two barriers.
 */
#include "passes/schedule/gpu/gpu_impl.h"

typedef struct Pipeline {
	LBuild *b;
	LNode *copies, **tail; /* TAIL: where nodes are appended */
	Iter *var, *slot;
	Expr *end;
	int stages;
	bool async; /* some copy is, here or before the loop */
} Pipeline;

static LNode *append(Pipeline *p)
{
	LNode *n = NEW(p->b->arena, LNode);

	n->kind = LN_OP;
	n->stmt = -1;
	n->step = 1;
	n->op = NEW(p->b->arena, TileNode);
	*p->tail = n;
	p->tail = &n->next;
	return n;
}

static void sync(Pipeline *p, TileSync kind, int pending)
{
	TileNode *n;

	if (kind != TILE_BARRIER && !p->async)
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

/* The copies for iteration AT, where it is before the end. */
static void start(Pipeline *p, Expr *at, bool whole)
{
	ExprPool *pool = p->b->p;
	Expr *slot = ex_op2(pool, IN_mod, at, l_int(p->b, p->stages));

	for (const LNode *n = p->copies; n; n = n->next) {
		LNode *c = append(p);
		LNode *next = c->next;
		TileNode *op = c->op;

		*c = *n;
		c->next = next;
		c->op = op;
		*op = *n->op;
		place(p, op, at, slot);
		if (!whole)
			op->guard = ex_and(pool, op->guard, ex_op2(pool, IN_lt, at, p->end));
	}
	sync(p, TILE_COMMIT, 0);
}

static bool is_copy(const LNode *n)
{
	return n && n->kind == LN_OP && n->op->op == TILE_COPY;
}

static bool any_async(const LNode *n, const LNode *end)
{
	for (; n && n != end; n = n->next)
		if (is_copy(n) && n->op->async)
			return true;
	return false;
}

void gpu_tile_pipeline(LBuild *b, LNode *loop, LNode **at, Iter *slot, int stages)
{
	Pipeline p = {.b = b,
		      .copies = loop->body,
		      .var = loop->var,
		      .slot = slot,
		      .end = loop->hi,
		      .stages = stages};
	Expr *i = ex_iter(b->p, loop->var);
	LNode **rest = &loop->body, *body;

	while (is_copy(*rest))
		rest = &(*rest)->next;
	body = *rest;
	*rest = NULL;
	p.async = any_async(p.copies, NULL) || any_async(*at, loop);
	while (*at != loop)
		at = &(*at)->next;
	p.tail = at;
	for (int s = 0; s + 1 < stages; s++)
		start(&p, l_int(b, s), false);
	*p.tail = loop;
	p.tail = &loop->body;
	if (stages > 1)
		sync(&p, TILE_WAIT, stages - 2);
	sync(&p, TILE_BARRIER, 0);
	start(&p, ex_add(b->p, i, l_int(b, stages - 1)), stages == 1);
	if (stages == 1) {
		sync(&p, TILE_WAIT, 0);
		sync(&p, TILE_BARRIER, 0);
	}
	*p.tail = body;
	for (LNode *n = body; n; n = n->next)
		if (n->kind == LN_OP)
			place(&p, n->op, i, ex_op2(b->p, IN_mod, i, l_int(b, stages)));
}
