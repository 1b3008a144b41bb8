/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows that a warp or a block has. Most statements of a row run along all of it; these share their points out in one
 * way, so what a thread made of a point in one statement it has at hand in the next. It keeps in registers
 *
 *   - what several statements read at the same point, which so is read from memory once
 *   - temporaries that are written and read at the same point
 *
 * as far as registers go; a row that is longer is read again beyond them, and temporaries are made again. What is of
 * all rows (scales) the warps of a block read from shared memory, where the block put it once. Runs of
 * neighbouring points are one access of 16 bytes where rows begin at multiples; else the first run begins so far before
 * the row that the requests of a warp begin where sectors do.
 *
 * Other temporaries are in shared memory where they are small, else in memory.
 */
#include "passes/gpu_impl.h"

#include <assert.h>

enum {
	MOST_KEPT = 8,
	REGISTERS = 64,
	SECTOR = 32,
	UNKNOWN = 16,
	BLOCK_ROWS = 8,
	MOST_THREADS = 1024
};

/* A statement of a row. */
typedef struct Part {
	Stmt *s;
	Points p;
	Buf *out;
	bool along; /* it runs along the row, over Team.it */
} Part;

typedef struct Kept {
	Buf *buf;
	Expr *is; /* what it holds at Team.it */
	bool temp;
	bool block; /* of all rows: in memory that the block shares */
} Kept;

typedef struct Team {
	Row *r;
	Part *part;
	int n;
	Iter *it; /* along the row; null: no statement runs along it */
	Kept kept[MOST_KEPT];
	int nkept;
	int pack, keep;
	Expr *skew;
} Team;

/* ---- What runs along the row ---- */

static void place_part(Team *t, Part *x)
{
	Row *r = t->r;
	Stmt *s = x->s;

	r->s = s;
	r->si = s->id;
	r->b->stmt = s->id;
	x->p = (Points){.k = r->k,
			.ne = s->red ? monoid_info[s->red].n : 1,
			.guard = row_placed(r, s->guard)};
	for (int i = 0; i < x->p.ne; i++)
		x->p.e[i] = row_placed(r, s->val[i]);
	if (!s->red)
		x->p.write = row_write_index(r, s, 0, &x->out);
	for (int i = s->red ? s->nband : 0; i < s->niters; i++)
		if (!row_is_fixed(r, s->iter[i]))
			points_add(&x->p, s->iter[i]);
	points_join(&x->p);
	x->along = x->p.n == 1;
}

static int64_t length(const Dim *d)
{
	int64_t n;

	return dim_is_const(d, &n) ? n : INT64_MAX;
}

static void use_row(Team *t, Part *x)
{
	ExprPool *p = t->r->k->pool;
	Expr *it = ex_iter(p, t->it);

	for (int i = 0; i < x->p.ne; i++)
		x->p.e[i] = ex_subst_iters(p, x->p.e[i], x->p.it, &it, 1);
	if (x->p.guard)
		x->p.guard = ex_subst_iters(p, x->p.guard, x->p.it, &it, 1);
	if (x->p.write)
		x->p.write = ex_subst_iters(p, x->p.write, x->p.it, &it, 1);
	for (int i = 0; i < x->p.nat; i++)
		x->p.at[i] = ex_subst_iters(p, x->p.at[i], x->p.it, &it, 1);
	x->p.it[0] = t->it;
}

/* The longest extent that a statement runs along, and who runs along it. */
static void find_row(Team *t)
{
	Dim *most = NULL;

	for (int i = 0; i < t->n; i++) {
		place_part(t, &t->part[i]);
		if (t->part[i].along &&
		    (!most || length(t->part[i].p.it[0]->extent) > length(most)))
			most = t->part[i].p.it[0]->extent;
	}
	t->it = most ? l_iter(t->r->b, "i", most) : NULL;
	for (int i = 0; i < t->n; i++) {
		t->part[i].along = t->part[i].along && t->part[i].p.it[0]->extent == most;
		if (t->part[i].along)
			use_row(t, &t->part[i]);
		else
			points_flatten(&t->part[i].p);
	}
}

/* ---- Temporaries ---- */

typedef struct Uses {
	const Team *t;
	const Buf *buf;
	bool ok;
} Uses;

static bool at_point(const Team *t, const Expr *at)
{
	return t->it && at->kind == EX_ITER && at->iter == t->it;
}

static void used_at_point(void *arg, Expr *e)
{
	Uses *u = arg;

	if (e->kind == EX_LOAD && e->load.buf == u->buf)
		u->ok = u->ok && at_point(u->t, e->load.idx[0]);
}

/* Local B, of what S writes, is written and read at the points of the row alone; PART that writes it in *BY. */
static bool only_at_points(Team *t, const Buf *b, const Part **by)
{
	Uses u = {t, b, true};
	Expr *all[MAX_TERMS + 1];

	*by = NULL;
	for (int i = 0; i < t->n; i++) {
		const Part *x = &t->part[i];
		int n = 0;

		for (int j = 0; j < x->p.ne; j++)
			all[n++] = x->p.e[j];
		if (x->p.guard)
			all[n++] = x->p.guard;
		for (int j = 0; j < n; j++)
			ex_walk(all[j], used_at_point, &u);
		for (int j = 0; j < n && u.ok && !x->along; j++) {
			Uses any = {t, b, true};

			any.t = &(Team){.it = NULL};
			ex_walk(all[j], used_at_point, &any);
			u.ok = any.ok;
		}
		if (!x->s->red && x->out == b) {
			u.ok = u.ok && x->along && !x->p.guard && at_point(t, x->p.write);
			*by = x;
		}
	}
	return u.ok && *by;
}

static int64_t bytes_of(const Buf *b)
{
	int64_t bytes = (dtype_info[b->dtype].bits + 7) / 8, v;

	for (int d = 0; d < b->rank; d++) {
		if (!dim_is_const(b->dims[d], &v) || v > SHARED || bytes * v > SHARED)
			return INT64_MAX;
		bytes *= v;
	}
	return bytes;
}

static void add_kept(Team *t, Buf *b, Expr *is, bool temp)
{
	t->kept[t->nkept++] = (Kept){b, is, temp, false};
}

/* Locals that threads keep; others that would be too large are none. True: some are none, all is to be placed again. */
static bool choose_kept(Team *t)
{
	Row *r = t->r;
	bool again = false;
	const Part *by;

	t->nkept = 0;
	for (int i = 0; i < r->nlocal; i++) {
		Buf *b = r->local[i];

		if (!b || !b->rank)
			continue;
		if (t->nkept < MOST_KEPT && only_at_points(t, b, &by)) {
			add_kept(t, b, by->p.e[0], true);
		} else if (dtype_info[b->dtype].bits < 8 || bytes_of(b) == INT64_MAX) {
			r->local[i] = NULL;
			again = true;
		}
	}
	return again;
}

/* ---- What several statements read ---- */

typedef struct Found {
	const Team *t;
	Expr *load[MOST_KEPT];
	int in[MOST_KEPT], last[MOST_KEPT]; /* how many statements read it; the last one */
	int n, part;
} Found;

static bool written_here(const Team *t, const Buf *b)
{
	for (int i = 0; i < t->n; i++)
		if (stmt_writes(t->part[i].s, b))
			return true;
	return false;
}

static bool runs_along(const Team *t, Expr *at)
{
	Ctx *c = t->r->k->ctx;
	Affine a;

	return ex_affine(c, at, &a) && dim_equals(affine_coef(c, &a, t->it), 1);
}

/* S does its row several times, and reads AT each time. */
static bool reads_again(const Team *t, const Stmt *s, Expr *at)
{
	bool again = false;

	for (int i = 0; i < s->nband && s->red; i++) {
		again = again || !row_is_fixed(t->r, s->iter[i]);
		if (!row_is_fixed(t->r, s->iter[i]) && expr_has_iter(at, s->iter[i]))
			return false;
	}
	return again;
}

/* Loads that each point makes. */
static void find_loads(Found *f, Expr *e)
{
	int n = e->kind != EX_INST ? 0 : e->op.inst == IN_select ? 1 : e->op.n, at = 0;

	for (int i = 0; i < n; i++)
		find_loads(f, e->op.arg[i]);
	if (e->kind != EX_LOAD || e->load.buf->data || e->load.buf->kind == BUF_TEMP ||
	    dtype_info[e->load.buf->dtype].bits < 8 || !runs_along(f->t, e->load.idx[0]) ||
	    written_here(f->t, e->load.buf))
		return;
	while (at < f->n && f->load[at] != e)
		at++;
	if (at == MOST_KEPT)
		return;
	if (at == f->n) {
		f->load[f->n++] = e;
		f->in[at] = 0;
		f->last[at] = -1;
	}
	f->in[at] += f->last[at] != f->part;
	f->in[at] += reads_again(f->t, f->t->part[f->part].s, e->load.idx[0]);
	f->last[at] = f->part;
}

/* E has no other iterator than IT: it is of all rows. */
static bool of_all_rows(const Team *t, Expr *at)
{
	Affine a;

	return ex_affine(t->r->k->ctx, at, &a) && a.n == 1;
}

static void keep_reads(Team *t)
{
	const bool warps = t->r->b->stage->team == WARP;
	int64_t left = SHARED;
	Found f = {.t = t};

	for (f.part = 0; f.part < t->n; f.part++)
		for (int j = 0; j < t->part[f.part].p.ne && t->part[f.part].along; j++)
			find_loads(&f, t->part[f.part].p.e[j]);
	for (int i = 0; i < f.n && t->nkept < MOST_KEPT; i++) {
		const Buf *from = f.load[i]->load.buf;
		Buf *b = kernel_temp(t->r->k, from->name, from->dtype, 1, &t->it->extent);
		const bool block = warps && of_all_rows(t, f.load[i]->load.idx[0]) &&
				   bytes_of(b) <= left;

		if (!block && f.in[i] == 1)
			continue;
		add_kept(t, b, f.load[i], false);
		t->kept[t->nkept - 1].block = block;
		left -= block ? bytes_of(b) : 0;
		if (block)
			t->r->b->stage->threads = BLOCK_ROWS * WARP;
	}
}

static Expr *from_kept(void *arg, Expr *e)
{
	const Team *t = arg;
	Expr *at;

	for (int i = 0; i < t->nkept && e->kind == EX_LOAD; i++)
		if (!t->kept[i].temp && t->kept[i].is == e) {
			at = ex_iter(t->r->k->pool, t->it);
			return ex_load(t->r->k->pool, t->kept[i].buf, &at, 1);
		}
	return NULL;
}

static void use_kept(Team *t)
{
	ExprPool *p = t->r->k->pool;

	for (int i = 0; i < t->n; i++)
		for (int j = 0; j < t->part[i].p.ne && t->part[i].along; j++)
			t->part[i].p.e[j] = ex_rewrite(p, t->part[i].p.e[j], from_kept, t);
	for (int i = 0; i < t->nkept; i++)
		if (t->kept[i].temp)
			t->kept[i].is = ex_rewrite(p, t->kept[i].is, from_kept, t);
}

/* ---- How points are shared out ---- */

/* Accesses along the row: PACK elements are one; the largest element; one of the flat indices. */
typedef struct Along {
	const Team *t;
	int pack, bytes;
	Expr *at;
} Along;

static void access_along(Along *x, const Buf *b, Expr *at)
{
	Ctx *c = x->t->r->k->ctx;
	const int bits = dtype_info[b->dtype].bits;
	Affine a;

	if (b->data || bits < 8 || !runs_along(x->t, at) || !ex_affine(c, at, &a))
		return;
	x->at = at;
	x->bytes = bits / 8 > x->bytes ? bits / 8 : x->bytes;
	while (x->pack > 1 && x->pack * bits / 8 > PACK_BYTES)
		x->pack /= 2;
	while (x->pack > 1 && !gpu_divides(c, a.base, x->pack))
		x->pack /= 2;
	for (int i = 0; i < a.n; i++)
		while (x->pack > 1 && a.iter[i] != x->t->it && !gpu_divides(c, a.coef[i], x->pack))
			x->pack /= 2;
}

static void load_along(void *arg, Expr *e)
{
	Along *x = arg;

	if (e->kind != EX_LOAD)
		return;
	for (int i = 0; i < x->t->nkept; i++)
		if (x->t->kept[i].buf == e->load.buf)
			return;
	access_along(x, e->load.buf, e->load.idx[0]);
}

static int in_registers(const Team *t)
{
	int n = 0;

	for (int i = 0; i < t->nkept; i++)
		n += !t->kept[i].block;
	return n;
}

/* Threads, runs and registers of a row. */
static void share_out(Team *t)
{
	Stage *st = t->r->b->stage;
	Ctx *c = t->r->k->ctx;
	Along x = {.t = t, .pack = MOST_PACK};
	const int64_t n = length(t->it->extent);
	const int registers = in_registers(t), each = REGISTERS / (registers ? registers : 1);
	int need = each < UNKNOWN ? each : UNKNOWN, sector;

	for (int i = 0; i < t->n; i++) {
		const Part *y = &t->part[i];

		for (int j = 0; j < y->p.ne && y->along; j++)
			ex_walk(y->p.e[j], load_along, &x);
		if (y->along && y->p.write && !at_point(t, y->p.write))
			access_along(&x, y->out, y->p.write);
		x.pack = y->along && y->p.guard ? 1 : x.pack;
	}
	for (int i = 0; i < t->nkept; i++)
		if (!t->kept[i].temp && !t->kept[i].block)
			access_along(&x, t->kept[i].is->load.buf, t->kept[i].is->load.idx[0]);
	while (x.pack > 1 && (!gpu_divides(c, t->it->extent, x.pack) || n / x.pack < WARP))
		x.pack /= 2;
	t->pack = x.pack;
	sector = x.bytes ? SECTOR / x.bytes : 1;
	if (x.pack == 1 && x.at && sector > 1 && !gpu_divides(c, t->it->extent, sector))
		t->skew = ex_op2(t->r->k->pool, IN_mod,
				 ex_subst_iters(t->r->k->pool, x.at, &t->it,
						&(Expr *){l_int(t->r->b, 0)}, 1),
				 l_int(t->r->b, sector));
	while (st->team != WARP && n < INT64_MAX && st->threads < MOST_THREADS &&
	       st->threads * (int64_t)(each / 2) < n)
		st->team = st->threads *= 2;
	if (n < INT64_MAX) {
		const int64_t runs = (n + (t->skew ? sector : 0) + st->team * t->pack - 1) /
				     (st->team * t->pack);

		need = runs * t->pack < each ? (int)runs * t->pack : each;
	}
	t->keep = registers ? need / t->pack * t->pack : 0;
}

/* ---- Nodes ---- */

static void shared_by(const Team *t, LNode *n)
{
	n->pack = t->pack > 1 ? t->pack : 0;
	n->keep = t->keep;
	n->skew = t->skew;
	if (!n->pack && !n->keep)
		n->pack = 1;
}

static void declare_kept(Team *t, const Kept *x)
{
	LNode *n = l_node(t->r->b, LN_LOCAL);

	n->buf[0] = x->buf;
	n->keep = t->keep;
	n->var = t->it;
	n->val[0] = x->is;
	n->nout = 1;
}

/* Reads once what several statements, or, BLOCK, several rows read. */
static void fetch(Team *t, bool block)
{
	LBuild *b = t->r->b;

	for (int i = 0; i < t->nkept; i++) {
		const Kept *x = &t->kept[i];
		LNode *loop;

		if (x->temp || x->block != block)
			continue;
		if (block)
			l_node(b, LN_LOCAL)->buf[0] = x->buf;
		else
			declare_kept(t, x);
		loop = l_loop(b, LOOP_TEAM, t->it, l_int(b, 0), row_extent(t->r, t->it), 1);
		if (!block)
			shared_by(t, loop);
		else
			loop->pack = t->pack;
		l_store(b, x->buf, ex_iter(b->p, t->it), x->is, NULL);
		l_close(b, loop);
	}
}

/* What the block's threads fetch for all of its rows. */
static void fetch_for_block(Team *t)
{
	LBuild *b = t->r->b;
	LNode **body = b->tail;

	b->tail = &b->stage->head;
	fetch(t, true);
	b->tail = body;
}

static void declare(Team *t, const Part *x)
{
	for (int o = 0; o < x->s->nout; o++) {
		Buf *b = x->s->out[o]->id < t->r->nlocal ? t->r->local[x->s->out[o]->id] : NULL;
		int k = 0;

		while (k < t->nkept && t->kept[k].buf != b)
			k++;
		if (b && k < t->nkept)
			declare_kept(t, &t->kept[k]);
		else if (b)
			l_node(t->r->b, LN_LOCAL)->buf[0] = b;
	}
}

static void map_part(Team *t, const Part *x)
{
	Row *r = t->r;
	const Stmt *s = x->s;
	LNode *loop = NULL;
	Expr *at[MAX_ITERS];

	if (x->p.n)
		loop = l_loop(r->b, LOOP_TEAM, x->p.it[0], l_int(r->b, 0),
			      row_extent(r, x->p.it[0]), 1);
	if (x->along)
		shared_by(t, loop);
	for (int i = 0, free = 0; i < s->niters; i++)
		at[i] = row_is_fixed(r, s->iter[i]) ? row_placed(r, ex_iter(r->k->pool, s->iter[i]))
						    : x->p.at[free++];
	l_does(r->b, l_store(r->b, x->out, x->p.write, x->p.e[0], x->p.guard), PART_WRITE, at,
	       s->niters);
	if (loop)
		l_close(r->b, loop);
}

static void reduce_part(Team *t, const Part *x)
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
		node->var = x->p.it[0];
		node->lo = zero;
		node->hi = row_extent(r, x->p.it[0]);
	}
	if (x->along)
		shared_by(t, node);
	row_does(r, node, s, PART_TERM, s->niters, x->p.at);
	row_store_state(r, s, acc, zero);
	row_close(r, &n);
}

/* Locals that may be in registers or in shared memory, as far as that goes. */
static void make_locals(Team *t)
{
	for (int i = 0; i < t->n; i++)
		for (int o = 0; o < t->part[i].s->nout; o++)
			gpu_make_local(t->r, t->part[i].s, t->part[i].s->out[o]);
}

/* What is to be in shared memory and does not fit is in memory. True: there was such. */
static bool drop_large(Team *t)
{
	const Stage *st = t->r->b->stage;
	int64_t left = SHARED / (st->threads / st->team);
	bool any = false;

	for (int i = 0; i < t->r->nlocal; i++) {
		Buf *b = t->r->local[i];
		bool kept = false;

		for (int k = 0; k < t->nkept; k++)
			kept = kept || t->kept[k].buf == b;
		if (!b || !b->rank || kept)
			continue;
		if (bytes_of(b) > left) {
			t->r->local[i] = NULL;
			any = true;
		} else {
			left -= bytes_of(b);
		}
	}
	return any;
}

void gpu_team(Row *r)
{
	Team t = {.r = r, .n = r->last - r->first + 1, .pack = 1};

	t.part = NEW_ARRAY(r->b->arena, t.n, Part);
	for (int i = 0; i < t.n; i++)
		t.part[i].s = r->k->stmts.at[r->first + i];
	make_locals(&t);
	do
		find_row(&t);
	while (choose_kept(&t) || drop_large(&t));
	if (t.it) {
		keep_reads(&t);
		use_kept(&t);
		share_out(&t);
	}
	r->b->stmt = -1;
	fetch_for_block(&t);
	fetch(&t, false);
	for (int i = 0; i < t.n; i++) {
		const Part *x = &t.part[i];

		r->s = x->s;
		r->si = x->s->id;
		r->b->stmt = x->s->id;
		r->b->loc = x->s->loc;
		declare(&t, x);
		(x->s->red ? reduce_part : map_part)(&t, x);
	}
}
