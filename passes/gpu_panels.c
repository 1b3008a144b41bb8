/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small panels on GPUs: short columns beside few others, which have a piece of memory to themselves, as a softmax over 10 classes of
 * 6 boxes has. A warp's threads would have columns of several panels, of each row a part of a sector. So a team has a panel, its
 * threads a column each, and a block moves the panels of its teams as a whole (ir/loop.h, Span).
 */
#include "passes/gpu_impl.h"

enum {
	PANEL_THREADS = 256,
	MOST_SPANS = 8 /* buffers whose panels a block moves */
};

typedef struct Panels {
	Row *r;
	Iter *split[MAX_ITERS]; /* over panels, outermost first */
	int n;
	Span span[MOST_SPANS];
	int nspans;
	bool ok;
} Panels;

/* Statements that have an order, or leave out points, have no panels. */
static bool is_plain(const Stmt *s)
{
	return !s->guard && !s->update && !s->scan && !s->ordered && s->nout == 1 &&
	       s->nwidx == s->out[0]->rank && !row_packed(s) && !expr_can_fault(s->val[0]) &&
	       (!s->red || monoid_info[s->red].n == 1);
}

/* B is accessed AT, all of it that is a panel's. */
static void find_span(Panels *x, Buf *b, Expr *at, bool written)
{
	Dim *each = gpu_own_elements(x->r->k->ctx, at, x->split, x->n);
	int i = 0;

	if (!each || b->data || b->kind == BUF_TEMP || dtype_info[b->dtype].bits < 8)
		return;
	while (i < x->nspans && x->span[i].buf != b)
		i++;
	if (i == MOST_SPANS)
		return;
	if (i == x->nspans)
		x->span[x->nspans++] = (Span){.buf = b, .each = each, .written = written};
	else
		x->ok = x->ok && x->span[i].each == each && !written && !x->span[i].written;
}

static void find_load(void *arg, Expr *e)
{
	Panels *x = arg;

	if (e->kind == EX_LOAD && e->load.nidx)
		find_span(x, e->load.buf, e->load.idx[0], false);
}

/* What has spans is accessed in no other way. */
static void see_other(void *arg, Expr *e)
{
	Panels *x = arg;

	for (int i = 0; i < x->nspans && e->kind == EX_LOAD; i++)
		if (x->span[i].buf == e->load.buf)
			x->ok = x->ok && e->load.nidx &&
				gpu_own_elements(x->r->k->ctx, e->load.idx[0], x->split, x->n) ==
					x->span[i].each;
}

static void find_spans(Panels *x)
{
	Row *r = x->r;
	Buf *out;
	Expr *at;

	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i];

		row_begin(r, s);
		ex_walk_always(row_placed(r, s->val[0]), find_load, x);
		at = row_write_index(r, s, 0, &out);
		find_span(x, out, at, true);
	}
	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i];

		row_begin(r, s);
		ex_walk(row_placed(r, s->val[0]), see_other, x);
	}
}

/* Some panel's rows begin where no sector does, and all panels have room; a block's begin where accesses of it do. */
static bool is_worth(Panels *x, int64_t cols, int team)
{
	int64_t bytes = 0, n;
	bool ragged = false;

	for (int i = 0; i < x->nspans; i++) {
		Span *s = &x->span[i];
		const int64_t size = dtype_info[s->buf->dtype].bits / 8,
			      teams = PANEL_THREADS / team;

		if (!dim_is_const(s->each, &n) || teams * size % PACK_BYTES)
			return false;
		s->most = n;
		bytes += (n * size * teams + LINE - 1) / LINE * LINE;
		ragged = ragged || cols * size % SECTOR;
	}
	return ragged && bytes <= SHARED;
}

bool gpu_panels(Row *r, int along)
{
	Panels x = {.r = r, .ok = true};
	Merged all[MAX_ITERS], *group = NULL;
	LBuild *b = r->b;
	const Row was = *r;
	const int n = row_merge_band(r, all);
	int64_t cols;
	int team = 2;
	LNode *loop;

	row_stage_iters(r, all, n);
	for (int i = 0; i < n; i++) {
		const int last = all[i].of[all[i].n - 1];

		if (last == along)
			group = &all[i];
		else
			x.split[x.n++] = r->rep[last];
	}
	for (int i = r->first; i <= r->last; i++)
		x.ok = x.ok && is_plain(r->k->stmts.at[i]);
	x.ok = x.ok && group && dim_is_const(group->extent, &cols) && cols > 1 && cols <= WARP;
	if (x.ok)
		find_spans(&x);
	while (x.ok && team < cols)
		team *= 2;
	if (!x.ok || !is_worth(&x, cols, team)) {
		*r = was;
		return false;
	}
	l_stage(b, "row", iters_points(r->k->ctx, x.split, x.n));
	b->stage->team = team;
	b->stage->threads = PANEL_THREADS;
	for (int i = 0; i < x.nspans; i++)
		vec_push(b->arena, &b->stage->spans, x.span[i]);
	l_split(b, x.split, x.n, ex_iter(b->p, b->stage->var));
	loop = l_loop(b, LOOP_TEAM, r->rep[along], l_int(b, 0), ex_dim(b->p, group->extent), 1);
	for (int i = r->first; i <= r->last; i++)
		gpu_row_stmt(r, r->k->stmts.at[i], r->k->stmts.at[i]);
	l_close(b, loop);
	return true;
}
