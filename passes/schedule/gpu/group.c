/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules that assign a row to a thread group: a part of a warp, a warp or a block. Most
 * statements of a row have a point for each of its elements. The group shares these points out in
 * one way for all statements (passes/schedule/gpu/group_share.c), so a value that a thread computes
 * at a point in one statement is in its registers for the next (passes/schedule/gpu/group_keep.c).
 * Other temporaries are in shared memory where they are small, else in global memory.
 *
 * Here: which statements iterate over the row, and the nodes of the stage.
 */
#include "passes/schedule/gpu/group_impl.h"

#include "base/round.h"

/* ---- Statements that iterate over the row ---- */

static void place_part(Group *t, RowStmt *x)
{
	Row *r = t->r;
	Stmt *s = x->s;

	row_begin(r, s);
	x->p = row_free_points(r, s);
	if (!s->red)
		x->p.write = row_write_index(r, s, 0, &x->out);
	points_join(&x->p);
	x->along = x->p.n == 1;
}

int64_t group_length(const Group *t, Dim *d)
{
	return gpu_most(t->r->b->sched, d);
}

/* Finds the row: the longest iterator that is a statement's only one beside the band. Rewrites the
 * statements that iterate over it to Group.it. */
static void find_row(Group *t)
{
	Dim *most = NULL;

	for (int i = 0; i < t->n; i++) {
		place_part(t, &t->part[i]);
		if (t->part[i].along &&
		    (!most || group_length(t, t->part[i].p.it[0]->extent) > group_length(t, most)))
			most = t->part[i].p.it[0]->extent;
	}
	t->it = most ? l_iter(t->r->b, "i", most) : NULL;
	for (int i = 0; i < t->n; i++) {
		points_flatten(&t->part[i].p);
		t->part[i].along = t->part[i].p.n && t->part[i].p.it[0]->extent == most;
		if (t->part[i].along)
			points_rename(&t->part[i].p, t->it);
	}
}

/* ---- Nodes ---- */

static void shared_by(const Group *t, LNode *n)
{
	n->share.vector = t->vector > 1 ? t->vector : 0;
	n->share.keep = t->keep;
	n->share.scratch = t->scratch_points;
	n->share.peel = t->peel;
	if (!n->share.vector && !n->share.keep)
		n->share.vector = 1;
}

static void declare_kept(Group *t, const Kept *x)
{
	LNode *n = gpu_declare(t->r->b, x->buf, x->in_scratch ? l_int(t->r->b, x->at) : NULL);

	n->local.keep = t->keep;
	n->local.scratch = x->in_scratch ? t->scratch_points : 0;
	n->local.var = t->it;
	n->local.val = x->is;
}

/* Declares BUF, which all rows of the block share. A persistent block has it in its scratch. */
static void declare_shared(Group *t, Buf *buf)
{
	Stage *st = t->r->b->stage;
	Ctx *c = t->r->k->ctx;

	gpu_declare(t->r->b, buf, t->persistent ? ex_dim(t->r->b->p, st->scratch) : NULL);
	if (!t->persistent)
		return;
	st->scratch = dim_add(c, st->scratch, dim_const(c, gpu_shared_bytes(gpu_bytes_of(buf))));
}

/* Emits the loops that read the kept inputs: those that the block shares (BLOCK), or those of a
 * group; those that depend on the skinny row (EACH), or the others. */
static void fetch(Group *t, bool block, bool each)
{
	LBuild *b = t->r->b;

	for (int i = 0; i < t->nkept; i++) {
		const Kept *x = &t->kept[i];
		LNode *loop;

		if (x->temp || x->block != block ||
		    (t->skinny_row && expr_has_iter(x->is, t->skinny_row)) != each)
			continue;
		if (block)
			declare_shared(t, x->buf);
		else
			declare_kept(t, x);
		loop = gpu_fetch(b, t->it, row_extent(t->r, t->it), x->buf, x->is, x->where);
		if (!block)
			shared_by(t, loop);
		else
			loop->share.vector = gpu_vector(dtype_bytes(x->buf->dtype), t->vector);
	}
}

/* Emits, in the stage's head, what the block fetches for all of its rows. */
static void fetch_for_block(Group *t)
{
	LBuild *b = t->r->b;
	LNode **body = b->tail;

	b->tail = &b->stage->block.head;
	fetch(t, true, false);
	group_fetch_ones(t);
	b->tail = body;
}

static void declare(Group *t, const RowStmt *x)
{
	for (int i = 0; x->ahead && i < t->nkept; i++)
		if (t->kept[i].buf == x->out)
			declare_kept(t, &t->kept[i]);
	for (int o = 0; o < x->s->nout; o++) {
		Buf *b = x->s->out[o]->id < t->r->nlocal ? t->r->local[x->s->out[o]->id] : NULL;
		int k = 0;

		while (k < t->nkept && t->kept[k].buf != b)
			k++;
		if (b && k < t->nkept)
			declare_kept(t, &t->kept[k]);
		else if (b)
			gpu_declare(t->r->b, b, NULL);
	}
}

static void map_part(Group *t, const RowStmt *x)
{
	Row *r = t->r;
	const Stmt *s = x->s;
	LNode *loop = NULL, *store;
	Expr *at[MAX_ITERS];

	if (x->p.n)
		loop = l_loop(r->b, LOOP_GROUP, x->p.it[0], l_int(r->b, 0),
			      row_extent(r, x->p.it[0]), 1);
	if (x->along)
		shared_by(t, loop);
	row_point(r, x->p.at, at);
	store = l_store(r->b, x->out, x->p.write, x->p.e[0], x->p.guard);
	if (!x->ahead)
		l_does(r->b, store, PART_WRITE, at, s->niters);
	if (loop)
		l_close(r->b, loop);
}

static void reduce_part(Group *t, const RowStmt *x)
{
	Row *r = t->r;
	Stmt *s = x->s;
	Nest n = {.n = 0};
	Expr *zero = l_int(r->b, 0);
	Buf *acc[2];
	LNode *node;

	row_open_band(r, s, &n, false);
	row_declare_state(r, s, acc, NULL);
	row_init_state(r, s, acc, zero);
	node = row_state_node(r, x->p.n ? LN_REDUCE : LN_UPDATE, s, acc, zero, x->p.e, x->p.guard);
	if (x->p.n) {
		node->range.var = x->p.it[0];
		node->range.lo = zero;
		node->range.hi = row_extent(r, x->p.it[0]);
	}
	if (x->along)
		shared_by(t, node);
	row_does(r, node, s, PART_TERM, s->niters, x->p.at);
	row_store_state(r, s, acc, zero);
	row_close(r, &n);
}

/* Makes temporaries locals, which then lie in registers or shared memory. */
static void make_locals(Group *t)
{
	for (int i = 0; i < t->n; i++)
		for (int o = 0; o < t->part[i].s->nout; o++)
			gpu_make_local(t->r, t->part[i].s, t->part[i].s->out[o]);
}

/* Shared memory beyond STATES that the states of all reductions take, a word for each warp. */
static int64_t further_states(const Group *t)
{
	int64_t bytes = -STATES;

	for (int i = 0; i < t->n; i++)
		bytes += t->part[i].s->red ? (int64_t)t->part[i].s->nout * WARP * 8 : 0;
	return bytes > 0 ? bytes : 0;
}

/* Turns locals that do not fit into shared memory back into temporaries in global memory. True:
 * there were some. */
static bool drop_large(Group *t)
{
	const Stage *st = t->r->b->stage;
	const int64_t most = SHARED / (st->block.threads / st->block.group);
	bool any = false;

	t->shared = further_states(t);
	for (int i = 0; i < t->r->nlocal; i++) {
		Buf *b = t->r->local[i];
		bool kept = false;

		for (int k = 0; k < t->nkept; k++)
			kept = kept || t->kept[k].buf == b;
		if (!b || !b->rank || kept)
			continue;
		if (gpu_bytes_of(b) > most - t->shared) {
			t->r->local[i] = NULL;
			any = true;
		} else {
			t->shared += gpu_bytes_of(b);
		}
	}
	return any;
}

/* Makes the blocks persistent: as many as the GPU runs at once, each with a loop over rows. */
static void loop_rows(Group *t, const Gpu *gpu)
{
	enum { OTHER = 48 }; /* registers of a thread beside those that keep elements */
	LBuild *b = t->r->b;
	Stage *st = b->stage;
	Ctx *c = b->k->ctx;
	int64_t bytes = 0, room = gpu->threads / st->block.threads, many;
	Dim *rows = st->extent;
	LNode *loop = NEW(b->arena, LNode);

	dim_is_const(st->scratch, &bytes);
	bytes += t->shared + GPU_DRIVER;
	if (room > gpu->shared / bytes)
		room = gpu->shared / bytes;
	if (room > gpu->registers / (st->block.threads * (t->keep + OTHER)))
		room = gpu->registers / (st->block.threads * (t->keep + OTHER));
	room = (room ? room : 1) * gpu->sms;
	if (dim_is_const(rows, &many)) { /* with this many rounds, use no more blocks than needed */
		const int64_t rounds = ceil_div(many, room);

		room = ceil_div(many, rounds);
	}
	*loop = (LNode){.kind = LN_LOOP,
			.loop.kind = LOOP_SERIAL,
			.range.var = st->var,
			.range.hi = ex_dim(b->p, rows),
			.loop.step = room,
			.body = st->body,
			.point.stmt = -1};
	st->extent = dim_min(c, rows, dim_const(c, room));
	st->var = l_iter(b, "first", st->extent);
	loop->range.lo = ex_iter(b->p, st->var);
	st->body = loop;
	b->tail = &loop->next;
}

void gpu_group(Row *r, const Gpu *gpu, Iter *const *split, int n, Iter *skinny_row)
{
	Group t = {.r = r,
		   .n = r->last - r->first + 1,
		   .split = split,
		   .nsplit = n,
		   .skinny_row = skinny_row,
		   .vector = 1};
	LNode *rows = NULL;

	t.part = NEW_ARRAY(r->b->arena, 2 * t.n, RowStmt);
	for (int i = 0; i < t.n; i++)
		t.part[i].s = r->k->stmts.at[r->first + i];
	make_locals(&t);
	do
		find_row(&t);
	while (group_choose_kept(&t) || drop_large(&t));
	if (t.it) {
		group_keep_written(&t);
		group_keep_reads(&t, gpu);
		group_choose_bulk(&t);
		group_share_out(&t, gpu);
		group_share_ones(&t);
	}
	r->b->stmt = -1;
	fetch_for_block(&t);
	fetch(&t, false, false);
	if (skinny_row) {
		rows = l_loop(r->b, LOOP_SERIAL, skinny_row, l_int(r->b, 0),
			      row_extent(r, skinny_row), 1);
		fetch(&t, false, true);
	}
	for (int i = 0; i < t.n; i++) {
		const RowStmt *x = &t.part[i];

		row_begin(r, x->s);
		declare(&t, x);
		(x->s->red ? reduce_part : map_part)(&t, x);
	}
	if (rows)
		l_close(r->b, rows);
	if (t.persistent)
		loop_rows(&t, gpu);
}
