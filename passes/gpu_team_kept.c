/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a thread of a team keeps in registers, so that it has it at hand at its points of the row:
 *
 *   - what several statements read at the same point, which so is read from memory once
 *   - temporaries that are written and read at the same point
 *
 * as far as registers go; a row that is longer is read again beyond them, and temporaries are made again. What is of
 * all rows (scales) the warps of a block read from shared memory, where the block put it once.
 */
#include "passes/gpu_team_impl.h"

enum {
	BLOCK_ROWS = 8 /* warps, so rows, of a block that shares what it read: 256 threads */
};

/* ---- Temporaries ---- */

typedef struct Uses {
	const Team *t;
	const Buf *buf;
	bool ok;
} Uses;

bool team_at_point(const Team *t, const Expr *at)
{
	return t->it && at->kind == EX_ITER && at->iter == t->it;
}

static void used_at_point(void *arg, Expr *e)
{
	Uses *u = arg;

	if (e->kind == EX_LOAD && e->load.buf == u->buf)
		u->ok = u->ok && team_at_point(u->t, e->load.idx[0]);
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
			u.ok = u.ok && x->along && !x->p.guard && team_at_point(t, x->p.write);
			*by = x;
		}
	}
	return u.ok && *by;
}

int64_t team_bytes_of(const Buf *b)
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

bool team_choose_kept(Team *t)
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
		} else if (dtype_info[b->dtype].bits < 8 || team_bytes_of(b) == INT64_MAX) {
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
	    dtype_info[e->load.buf->dtype].bits < 8 ||
	    !ex_runs_along(f->t->r->k->ctx, e->load.idx[0], f->t->it) ||
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

/* Bytes of what B has of one row; INT64_MAX as team_bytes_of. */
static int64_t row_bytes(const Team *t, const Buf *b)
{
	return team_bytes_of(&(Buf){.dtype = b->dtype, .rank = 1, .dims = &t->it->extent});
}

/* E has no other iterator than IT: it is of all rows. */
static bool of_all_rows(const Team *t, Expr *at)
{
	Affine a;

	return ex_affine(t->r->k->ctx, at, &a) && a.n == 1;
}

/* Rows that are longer than a warp has usually, but may be a warp's: what is of all rows is so read once a block and not
 * once a row, and what is of the row has registers. */
static bool may_be_warps(const Team *t, const Found *f)
{
	const Band *band = t->r->band;
	Ctx *c = t->r->k->ctx;
	Dim *rows = dim_const(c, 1);
	int64_t left = SHARED - BLOCK_ROWS * t->shared, n;
	int registers = t->nkept;

	for (int i = 0; i < f->n; i++) {
		const int64_t bytes = row_bytes(t, f->load[i]->load.buf);

		if (of_all_rows(t, f->load[i]->load.idx[0]) && bytes <= left)
			left -= bytes;
		else
			registers += f->in[i] > 1;
	}
	for (int b = 0; b < band->n; b++)
		rows = dim_mul(c, rows, band->iter[b]->extent);
	return left >= 0 && left < SHARED - BLOCK_ROWS * t->shared &&
	       team_length(t, t->it->extent) <= (int64_t)team_most_kept(WARP, registers) * WARP &&
	       (!dim_is_const(rows, &n) || n >= BLOCK_ROWS);
}

static void find_reads(Team *t)
{
	Stage *st = t->r->b->stage;
	int64_t left = SHARED - BLOCK_ROWS * t->shared; /* each row has its own locals */
	Found f = {.t = t};

	for (f.part = 0; f.part < t->n; f.part++)
		for (int j = 0; j < t->part[f.part].p.ne && t->part[f.part].along; j++)
			find_loads(&f, t->part[f.part].p.e[j]);
	if (may_be_warps(t, &f))
		st->team = WARP;
	for (int i = 0; i < f.n && t->nkept < MOST_KEPT; i++) {
		const Buf *from = f.load[i]->load.buf;
		Buf *b = kernel_temp(t->r->k, from->name, from->dtype, 1, &t->it->extent);
		const bool block = st->team == WARP && of_all_rows(t, f.load[i]->load.idx[0]) &&
				   team_bytes_of(b) <= left;

		if (!block && f.in[i] == 1)
			continue;
		add_kept(t, b, f.load[i], false);
		t->kept[t->nkept - 1].block = block;
		left -= block ? team_bytes_of(b) : 0;
		if (block)
			st->threads = BLOCK_ROWS * WARP;
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

void team_keep_reads(Team *t)
{
	find_reads(t);
	use_kept(t);
}
