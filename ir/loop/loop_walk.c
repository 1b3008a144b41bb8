/* SPDX-License-Identifier: Apache-2.0 */
/* The only lists of what a node of a loop tree mentions: expressions, buffers and iterators. */
#include "ir/loop/loop.h"

typedef struct ExprVisit {
	void (*fn)(void *arg, Expr **e, bool inside);
	void *arg;
} ExprVisit;

static void visit(const ExprVisit *v, Expr **e, bool inside)
{
	if (*e)
		v->fn(v->arg, e, inside);
}

static void tile_exprs(Tile *t, const ExprVisit *v)
{
	Expr **e[] = {&t->acc_at,         &t->a_at,          &t->a_step,
		      &t->b_at,           &t->b_step,        &t->k,
		      &t->m_valid,        &t->n_valid,       &t->by_runs.first,
		      &t->by_runs.terms,  &t->by_runs.step,  &t->scaled.scale_at,
		      &t->scaled.zero_at, &t->mask.when,     &t->rows,
		      &t->order.sums_at,  &t->order.wide_at, &t->order.first,
		      &t->order.next_at,  &t->order.flips_at};

	for (size_t i = 0; i < sizeof e / sizeof *e; i++)
		visit(v, e[i], true);
	for (int i = 0; i < t->nahead; i++) {
		visit(v, &t->ahead[i].at, true);
		visit(v, &t->ahead[i].step, true);
		visit(v, &t->ahead[i].when, true);
	}
}

void lnode_exprs(LNode *n, void (*fn)(void *arg, Expr **e, bool inside), void *arg)
{
	const ExprVisit v = {fn, arg};

	visit(&v, &n->range.lo, false);
	visit(&v, &n->range.hi, false);
	if (n->columns)
		visit(&v, &n->columns->valid, false);
	visit(&v, &n->store.idx, true);
	visit(&v, &n->local.at, true);
	visit(&v, &n->share.peel, true);
	visit(&v, &n->store.guard, true);
	for (int i = 0; i < n->store.nout; i++)
		visit(&v, &n->store.val[i], true);
	visit(&v, &n->local.val, true);
	if (n->tile)
		tile_exprs(n->tile, &v);
	for (int i = 0; n->op && i < n->op->nidx; i++)
		visit(&v, &n->op->idx[i], true);
	if (n->op) {
		visit(&v, &n->op->val, true);
		visit(&v, &n->op->by, true);
		visit(&v, &n->op->guard, true);
	}
}

LBufs lnode_bufs(const LNode *n)
{
	const Tile *t = n->tile;
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

void lnode_iters(LNode *n, void (*fn)(void *arg, Iter **it), void *arg)
{
	ColumnReduction *c = n->columns;
	Tile *t = n->tile;
	Iter **const all[] = {&n->range.var,       &n->local.var,      c ? &c->col : NULL,
			      c ? &c->row : NULL,  t ? &t->row : NULL, t ? &t->col : NULL,
			      t ? &t->depth : NULL};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i] && *all[i])
			fn(arg, all[i]);
	for (int i = 0; n->op && i < n->op->n; i++)
		fn(arg, &n->op->it[i]);
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
