/* SPDX-License-Identifier: Apache-2.0 */
/* The only lists of what a node of a loop tree mentions: expressions, buffers and iterators. */
#include "ir/loop/loop.h"

#include <assert.h>

static void add(LExprs *x, Expr *const *e)
{
	assert(x->n < LNODE_EXPRS);
	if (*e)
		x->at[x->n++] = (Expr **)(uintptr_t)e;
}

static void add_of_tile(LExprs *x, const Tile *t)
{
	Expr *const *const e[] = {&t->acc_at,         &t->a_at,           &t->a_step,
				  &t->b_at,           &t->b_step,         &t->k,
				  &t->m_valid,        &t->n_valid,        &t->by_runs.first,
				  &t->by_runs.terms,  &t->by_runs.step,   &t->scaled.scale_at,
				  &t->scaled.zero_at, &t->mask.when,      &t->rows,
				  &t->order.sums_at,  &t->order.wide_at,  &t->order.first,
				  &t->order.next_at,  &t->order.flips_at, &t->by_runs.shift,
				  &t->parts.row};

	for (size_t i = 0; i < sizeof e / sizeof *e; i++)
		add(x, e[i]);
}

LExprs lnode_exprs(const LNode *n)
{
	LExprs x;

	x.n = x.next = 0;
	x.tile = n->tile;
	add(&x, &n->range.lo);
	add(&x, &n->range.hi);
	if (n->columns)
		add(&x, &n->columns->valid);
	x.inside = x.n;
	add(&x, &n->store.idx);
	add(&x, &n->local.at);
	add(&x, &n->share.peel);
	add(&x, &n->store.guard);
	for (int i = 0; i < n->store.nout; i++)
		add(&x, &n->store.val[i]);
	add(&x, &n->local.val);
	if (n->tile)
		add_of_tile(&x, n->tile);
	if (n->split) {
		add(&x, &n->split->at);
		add(&x, &n->split->step);
		add(&x, &n->split->valid);
		add(&x, &n->split->k);
	}
	for (int i = 0; n->op && i < n->op->nidx; i++)
		add(&x, &n->op->idx[i]);
	if (n->op) {
		add(&x, &n->op->val);
		add(&x, &n->op->by);
		add(&x, &n->op->guard);
	}
	return x;
}

Expr **lnode_next_expr(LExprs *x)
{
	while (x->next >= x->n && x->tile && x->next - x->n < 3 * x->tile->nahead) {
		const int i = x->next++ - x->n;
		Prefetch *f = &x->tile->ahead[i / 3];
		Expr **e = (Expr * *[]){&f->at, &f->step, &f->when}[i % 3];

		if (*e)
			return e;
	}
	return x->next < x->n ? x->at[x->next++] : NULL;
}

LBufs lnode_bufs(const LNode *n)
{
	const Tile *t = n->tile;
	const SplitOperand *s = n->split;
	const LBufUse all[LNODE_BUFS] = {
		{n->local.buf, LUSE_DECLARES},
		{n->store.buf[0], LUSE_WRITES},
		{n->store.buf[1], LUSE_WRITES},
		{t ? t->acc : NULL, LUSE_WRITES},
		{t ? t->a : NULL, LUSE_READS},
		{t ? t->b : NULL, LUSE_READS},
		{t ? t->by_runs.starts : NULL, LUSE_READS},
		{t ? t->by_runs.edge : NULL, LUSE_READS},
		{t ? t->scaled.scale : NULL, LUSE_READS},
		{t ? t->scaled.zero : NULL, LUSE_READS},
		{t ? t->scaled.row_scale : NULL, LUSE_READS},
		{t ? t->mask.squares : NULL, LUSE_VALUE},
		{t ? t->mask.trim : NULL, LUSE_VALUE},
		{t ? t->parts.a : NULL, LUSE_READS},
		{t ? t->parts.b : NULL, LUSE_READS},
		{t ? t->parts.a_fits : NULL, LUSE_VALUE},
		{t ? t->parts.b_fits : NULL, LUSE_VALUE},
		{s ? s->from : NULL, LUSE_READS},
		{s ? s->to : NULL, LUSE_WRITES},
		{s ? s->fits : NULL, LUSE_VALUE},
		{n->op ? n->op->to : NULL, LUSE_WRITES},
	};
	LBufs used = {.n = 0};

	for (int i = 0; i < LNODE_BUFS; i++)
		if (all[i].b)
			used.at[used.n++] = all[i];
	return used;
}

LNode *stage_last(const Stage *st)
{
	LNode *n = st->body;

	while (n && (n->kind != LN_LOOP || n->loop.kind != LOOP_LAST))
		n = n->next;
	return n;
}

bool nodes_have_tiles(const LNode *n)
{
	for (; n; n = n->next)
		if (n->kind == LN_OP || nodes_have_tiles(n->body))
			return true;
	return false;
}

bool schedule_has_tiles(const Schedule *s)
{
	for (int i = 0; i < s->stages.n; i++)
		if (nodes_have_tiles(s->stages.at[i]->block.head) ||
		    nodes_have_tiles(s->stages.at[i]->body))
			return true;
	return false;
}

bool schedule_only_reads(const Schedule *s, const Buf *b)
{
	return b->kind == BUF_IN && s->apart && s->apart[b->param];
}

LIters lnode_iters(const LNode *n)
{
	const ColumnReduction *c = n->columns;
	const Tile *t = n->tile;
	Iter *const *const all[] = {&n->range.var,        &n->local.var,
				    c ? &c->col : NULL,   c ? &c->row : NULL,
				    t ? &t->row : NULL,   t ? &t->col : NULL,
				    t ? &t->depth : NULL, n->split ? &n->split->row : NULL};
	LIters x;

	x.n = 0;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i] && *all[i])
			x.at[x.n++] = (Iter **)(uintptr_t)all[i];
	for (int i = 0; n->op && i < n->op->n; i++)
		x.at[x.n++] = &n->op->it[i];
	return x;
}

static bool executes(const LNode *n, int stmt, LPart part)
{
	for (; n; n = n->next)
		if ((n->point.stmt == stmt && n->point.part != PART_NONE &&
		     (part == PART_NONE || n->point.part == part)) ||
		    executes(n->body, stmt, part))
			return true;
	return false;
}

const Stage *schedule_stage_of(const Schedule *s, int stmt, LPart part)
{
	for (int i = 0; i < s->stages.n; i++)
		if (executes(s->stages.at[i]->body, stmt, part))
			return s->stages.at[i];
	return NULL;
}
