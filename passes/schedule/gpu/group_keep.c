/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that a thread of a group keeps in registers from one statement to later ones, at its
 * points of the row:
 *
 *   - inputs that several statements read at the same point, which so are read from memory once
 *   - temporaries that are written and read at the same point
 *   - outputs that are read at the same point: a sum that is normalised and that the model
 *     uses elsewhere, too
 *
 * as far as registers and shared memory go. Of longer rows, the rest is read from memory again, and
 * temporaries are recomputed. Inputs that all rows read (scales) are put in shared memory once: by
 * a block of warps with a row each, or, where rows are longer than a warp has registers for, by a
 * persistent block that computes one row after another.
 */
#include "passes/schedule/gpu/group_impl.h"

#include <string.h>

/* ---- Temporaries ---- */

bool group_at_point(const Group *t, const Expr *at)
{
	return t->it && at->kind == EX_ITER && at->iter == t->it;
}

/* Part X reads B, if at all, at the current point of the row. */
static bool reads_at_point(const Group *t, const RowStmt *x, const Buf *b)
{
	for (int j = 0; j <= x->p.ne; j++)
		EX_EACH_LOAD (e, j < x->p.ne ? x->p.e[j] : x->p.guard)
			if (e->load.buf == b && !(x->along && group_at_point(t, e->load.idx[0])))
				return false;
	return true;
}

/* Local B is written and read only at the current point of the row. *BY: the part that writes
 * it. */
static bool only_at_points(Group *t, const Buf *b, const RowStmt **by)
{
	*by = NULL;
	for (int i = 0; i < t->n; i++) {
		const RowStmt *x = &t->part[i];

		if (!reads_at_point(t, x, b))
			return false;
		if (x->s->red || x->out != b)
			continue;
		if (!x->along || x->p.guard || !group_at_point(t, x->p.write))
			return false;
		*by = x;
	}
	return *by != NULL;
}

static void add_kept(Group *t, Buf *b, Expr *is, bool temp)
{
	if (temp)
		is = ex_round(t->r->k->pool, b->dtype, is);
	t->kept[t->nkept++] = (Kept){.buf = b, .is = is, .temp = temp};
}

bool group_choose_kept(Group *t)
{
	Row *r = t->r;
	bool changed = false;
	const RowStmt *by;

	t->nkept = 0;
	for (int i = 0; i < r->nlocal; i++) {
		Buf *b = r->local[i];

		if (!b || !b->rank)
			continue;
		if (t->nkept < MOST_KEPT && only_at_points(t, b, &by)) {
			add_kept(t, b, by->p.e[0], true);
		} else if (dtype_info[b->dtype].bits < 8 || gpu_bytes_of(b) > SHARED) {
			r->local[i] = NULL;
			changed = true;
		}
	}
	return changed;
}

/* ---- What is written to memory, too ---- */

/* Keeps the value that part AT writes, if later parts read it at the same point; false if none
 * does. */
static bool keep_written(Group *t, int at)
{
	ExprPool *p = t->r->k->pool;
	RowStmt *x = &t->part[at];
	Expr *it = ex_iter(p, t->it);
	bool any = false;
	Staged w;

	if (!x->along || x->s->red || x->p.guard || x->s->nout != 1 || x->out != x->s->out[0] ||
	    dtype_info[x->out->dtype].bits < 8 || t->nkept == MOST_KEPT)
		return false;
	w = (Staged){ex_load(p, x->out, &x->p.write, 1),
		     kernel_temp(t->r->k, x->out->name, x->out->dtype, 1, &t->it->extent), it};
	for (int i = at + 1; i < t->n; i++)
		for (int j = 0; j < t->part[i].p.ne && t->part[i].along; j++) {
			Expr *was = t->part[i].p.e[j];

			t->part[i].p.e[j] = gpu_from_copies(p, was, &w, 1);
			any = any || t->part[i].p.e[j] != was;
		}
	for (int i = 0; i < t->nkept && any; i++)
		t->kept[i].is = gpu_from_copies(p, t->kept[i].is, &w, 1);
	if (!any)
		return false;
	memmove(x + 1, x, (size_t)(t->n++ - at) * sizeof *x);
	x[0].ahead = true;
	x[0].out = w.copy;
	x[0].p.write = it;
	x[1].p.e[0] = ex_load(p, w.copy, &it, 1);
	add_kept(t, w.copy, x->p.e[0], true);
	return true;
}

void group_keep_written(Group *t)
{
	for (int i = 0; i < t->n; i++)
		i += keep_written(t, i);
}

/* ---- What several statements read ---- */

typedef struct KeepCandidates {
	const Group *t;
	/* load: the inputs; where: the guard under which all statements read it, or null */
	Expr *load[MOST_KEPT], *where[MOST_KEPT];
	/* the guards differ, or depend on values that are unknown where the input would be
	 * fetched */
	bool apart[MOST_KEPT];
	/* the number of statements that read it; the last one that does */
	int in[MOST_KEPT], last[MOST_KEPT];
	int n, part;
} KeepCandidates;

/* S iterates over its row several times and reads the same elements AT each time. */
static bool reads_again(const Group *t, const Stmt *s, Expr *at)
{
	bool repeated = t->skinny_row && s->red && !expr_has_iter(at, t->skinny_row);

	for (int i = 0; i < s->nband && s->red; i++) {
		repeated = repeated || !row_is_fixed(t->r, s->iter[i]);
		if (!row_is_fixed(t->r, s->iter[i]) && expr_has_iter(at, s->iter[i]))
			return false;
	}
	return repeated;
}

/* AT depends only on Group.it, so all rows read the same elements. */
static bool of_all_rows(const Group *t, Expr *at)
{
	Affine a;

	return ex_affine(t->r->k->ctx, at, &a) && a.n == 1;
}

/* Guard WHERE can be evaluated where the input AT is fetched: before the rows, or at the begin of a
 * row. */
static bool known_there(const Group *t, Expr *where, Expr *at)
{
	if (!where)
		return true;
	if (!of_all_rows(t, at))
		return !group_knows_loop(t, where) &&
		       !(t->skinny_row && expr_has_iter(where, t->skinny_row) &&
			 !expr_has_iter(at, t->skinny_row));
	EX_EACH (e, where)
		if (e->kind == EX_ITER && e->iter != t->it)
			return false;
	return true;
}

/* Collects loads that every point makes. */
static void find_load(KeepCandidates *f, Expr *e)
{
	Expr *where = f->t->part[f->part].p.guard;
	int at = 0;

	if (!gpu_may_stage(f->t->r, e) || e->load.buf->kind == BUF_TEMP ||
	    !ex_runs_along(f->t->r->k->ctx, e->load.idx[0], f->t->it))
		return;
	while (at < f->n && f->load[at] != e)
		at++;
	if (at == MOST_KEPT)
		return;
	if (at == f->n) {
		f->load[f->n++] = e;
		f->where[at] = where;
		f->apart[at] = false;
		f->in[at] = 0;
		f->last[at] = -1;
	}
	f->apart[at] = f->where[at] && where &&
		       (f->apart[at] || f->where[at] != where ||
			!known_there(f->t, where, e->load.idx[0]));
	f->where[at] = where ? f->where[at] : NULL;
	f->in[at] += f->last[at] != f->part;
	f->in[at] += reads_again(f->t, f->t->part[f->part].s, e->load.idx[0]);
	f->last[at] = f->part;
}

/* The maximum length of a row as a dim; its extent if there is no bound. */
static Dim *most_points(const Group *t)
{
	const int64_t n = group_length(t, t->it->extent);

	return n < INT64_MAX ? dim_const(t->r->k->ctx, n) : t->it->extent;
}

/* Bytes of one row's elements of type B->dtype; INT64_MAX as for gpu_bytes_of. */
static int64_t row_bytes(const Group *t, const Buf *b)
{
	Dim *points = most_points(t);

	return gpu_bytes_of(&(Buf){.dtype = b->dtype, .rank = 1, .dims = &points});
}

/* Registers of 32 bits that an element of B takes. */
static int words(const Buf *b)
{
	return (dtype_info[b->dtype].bits + 31) / 32;
}

/* *REGISTERS: registers for each point of a row's kept elements. *SHARED: the number of inputs that
 * all rows share and that fit into LEFT bytes of shared memory. */
static void count_reads(const Group *t, const KeepCandidates *f, int64_t left, int *registers,
			int *shared)
{
	*registers = *shared = 0;
	for (int i = 0; i < t->nkept; i++)
		*registers += words(t->kept[i].buf);
	for (int i = 0; i < f->n; i++) {
		const int64_t bytes = gpu_shared_bytes(row_bytes(t, f->load[i]->load.buf));

		if (f->apart[i])
			continue;
		if (of_all_rows(t, f->load[i]->load.idx[0]) && bytes <= left) {
			left -= bytes;
			(*shared)++;
		} else {
			*registers += f->in[i] > 1 ? words(f->load[i]->load.buf) : 0;
		}
	}
}

/* The largest element that threads keep at a point, in bytes. */
static int bytes_kept(const Group *t, const KeepCandidates *f)
{
	int most = 0;

	for (int i = 0; i < t->nkept + f->n; i++) {
		const Buf *b = i < t->nkept ? t->kept[i].buf : f->load[i - t->nkept]->load.buf;
		const int bytes = dtype_bytes(b->dtype);

		if ((i < t->nkept || f->in[i - t->nkept] > 1) && bytes > most)
			most = bytes;
	}
	return most;
}

/* Points of a row that a warp keeps. With unknown lengths every point is tested against the end,
 * which takes registers, so it is half as many. */
static int64_t most_of_warp(const Group *t, int registers)
{
	const int64_t most = (int64_t)group_most_kept(WARP, registers) * WARP;

	return dim_is_const(t->it->extent, NULL) ? most : most / 2;
}

/* Shared memory that a persistent block has for inputs that all rows share: what its own row
 * leaves. */
static int64_t left_beside_row(const Group *t, const KeepCandidates *f, const Gpu *gpu)
{
	const int64_t other = t->shared + GPU_DRIVER + STATES +
			      group_scratch(group_length(t, t->it->extent), bytes_kept(t, f));
	int64_t all = 0, bytes;

	for (int i = 0; i < f->n; i++) {
		bytes = gpu_shared_bytes(row_bytes(t, f->load[i]->load.buf));
		if (of_all_rows(t, f->load[i]->load.idx[0]) && bytes < INT64_MAX)
			all += bytes;
	}
	return gpu_block_room(t->r->b->sched, gpu, other + all) - other;
}

/* Chooses who computes a row where all rows share some inputs, which a block then fetches once for
 * many rows. Warps do if they have enough registers for a row; else persistent blocks do, if there
 * are more rows than blocks. Returns the shared memory of a block for the shared inputs. */
static int64_t share_reads(Group *t, const KeepCandidates *f, const Gpu *gpu)
{
	Stage *st = t->r->b->stage;
	const int rows_each = BLOCK_THREADS / (st->block.group < WARP ? st->block.group : WARP);
	const int64_t all = left_beside_row(t, f, gpu);
	int64_t rows, each = SHARED - rows_each * t->shared; /* each row has locals of its own */
	int registers, shared;

	if (!dim_is_const(st->extent, &rows))
		rows = INT64_MAX;
	each = rows > 1 ? each : 0;
	count_reads(t, f, each, &registers, &shared);
	if (st->block.group <= WARP ||
	    (shared && rows >= BLOCK_ROWS &&
	     (!registers || group_length(t, t->it->extent) <= most_of_warp(t, registers)))) {
		st->block.group = st->block.group < WARP ? st->block.group : WARP;
		st->block.threads = shared ? BLOCK_THREADS : st->block.threads;
		return each;
	}
	count_reads(t, f, all, &registers, &shared);
	t->persistent = shared && rows > gpu->sms;
	return t->persistent ? all : 0;
}

static void find_reads(Group *t, const Gpu *gpu)
{
	KeepCandidates f = {.t = t};
	int64_t left;

	for (f.part = 0; f.part < t->n; f.part++) {
		t->r->s = t->part[f.part].s;
		for (int j = 0; j < t->part[f.part].p.ne && t->part[f.part].along; j++)
			EX_EACH_LOAD_ALWAYS (e, t->part[f.part].p.e[j])
				find_load(&f, e);
	}
	left = share_reads(t, &f, gpu);
	for (int i = 0; i < f.n && t->nkept < MOST_KEPT; i++) {
		const Buf *from = f.load[i]->load.buf;
		const int64_t bytes = gpu_shared_bytes(row_bytes(t, from));
		const bool block = of_all_rows(t, f.load[i]->load.idx[0]) && bytes <= left;
		Dim *points = block ? most_points(t) : t->it->extent;
		Buf *b = kernel_temp(t->r->k, from->name, from->dtype, 1, &points);

		if (f.apart[i] || (!block && f.in[i] == 1))
			continue;
		add_kept(t, b, f.load[i], false);
		t->kept[t->nkept - 1].where = f.where[i];
		t->kept[t->nkept - 1].block = block;
		left -= block ? bytes : 0;
	}
}

static void use_kept(Group *t)
{
	ExprPool *p = t->r->k->pool;
	Staged inputs[MOST_KEPT];
	int n = 0;

	for (int i = 0; i < t->nkept; i++)
		if (!t->kept[i].temp)
			inputs[n++] = (Staged){t->kept[i].is, t->kept[i].buf, ex_iter(p, t->it)};
	for (int i = 0; i < t->n; i++)
		for (int j = 0; j < t->part[i].p.ne && t->part[i].along; j++)
			t->part[i].p.e[j] = gpu_from_copies(p, t->part[i].p.e[j], inputs, n);
	for (int i = 0; i < t->nkept; i++)
		if (t->kept[i].temp)
			t->kept[i].is = gpu_from_copies(p, t->kept[i].is, inputs, n);
}

void group_keep_reads(Group *t, const Gpu *gpu)
{
	find_reads(t, gpu);
	use_kept(t);
}
