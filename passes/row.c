/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategies *row* and *map*: statements under their common parallel band, then in sequence. What lives
 * only inside a row lives in registers or in a row-sized local.
 *
 *   p over the fixed band iterators        parallel
 *     v in blocks of the vector iterator   parallel too
 *       statement 1 over its own iterators, v innermost, or a reduction in lanes
 *       statement 2 ...
 *
 * The vector iterator is the band's contiguous one where memory runs along the band (maps, reductions over
 * an outer axis); where memory runs along what is reduced, there is none and reductions go in lanes.
 */
#include "passes/row_impl.h"

#include <assert.h>

/* ---- Choosing the vector iterator ---- */

typedef struct Strides {
	Row *r;
	int band_hits[MAX_ITERS], inner_hits;
} Strides;

static void score_index(Strides *st, const Stmt *s, const Buf *buf, Expr *const *idx)
{
	Kernel *k = st->r->k;
	Affine a;

	if (buf->rank == 0 || !ex_affine(k->ctx, flat_index(k, buf, idx), &a))
		return;
	for (int i = 0; i < s->niters; i++) {
		bool banded = false;
		int64_t few;

		if (!dim_equals(affine_coef(k->ctx, &a, s->iter[i]), 1))
			continue;
		for (int b = 0; b < st->r->band->n; b++)
			if (st->r->band->of[s->id][b] == s->iter[i]) {
				st->band_hits[b]++;
				banded = true;
			}
		/* A window is no row. */
		if (!banded && !(dim_is_const(s->iter[i]->extent, &few) && few < WINDOW))
			st->inner_hits++;
	}
}

static void score_load(void *arg, Stmt *s, Expr *load)
{
	score_index(arg, s, load->load.buf, load->load.idx);
}

static void choose_vector(Row *r)
{
	Strides st = {.r = r};
	int best = -1;

	for (int i = r->first; i <= r->last; i++) {
		stmt_loads(r->k->stmts.at[i], score_load, &st);
		score_index(&st, r->k->stmts.at[i], r->k->stmts.at[i]->out[0], r->k->stmts.at[i]->widx);
	}
	for (int b = 0; b < r->band->n; b++)
		if (best < 0 || st.band_hits[b] >= st.band_hits[best])
			best = b;
	r->vec = best >= 0 && (st.band_hits[best] > st.inner_hits || !st.inner_hits) ? best : -1;
	if (r->vec < 0 && best >= 0 && r->first == r->last && !r->k->stmts.at[r->first]->red &&
	    r->k->stmts.at[r->first]->niters == r->band->n)
		r->vec = r->band->n - 1;
	for (int b = 0; b < r->band->n; b++)
		r->fixed[b] = b != r->vec;
}

/* ---- Locals ---- */

/* Dim D of T, written by S, runs with which band iterator? -1: none. */
static int band_dim(const Row *r, const Stmt *s, int d)
{
	if (s->widx[d]->kind == EX_ITER)
		for (int b = 0; b < r->band->n; b++)
			if (r->band->of[s->id][b] == s->widx[d]->iter)
				return b;
	return -1;
}

static bool used_outside(const Row *r, const Buf *t)
{
	for (int i = 0; i < r->k->stmts.n; i++)
		if ((i < r->first || i > r->last) && (stmt_reads(r->k->stmts.at[i], t) || stmt_writes(r->k->stmts.at[i], t)))
			return true;
	return false;
}

static void make_local(Row *r, Stmt *s, Buf *t)
{
	Dim *dims[MAX_RANK];
	int n = 0, writers = 0;

	for (int i = r->first; i <= r->last; i++)
		writers += stmt_writes(r->k->stmts.at[i], t);
	if (t->kind != BUF_TEMP || t->data || r->local[t->id] || writers != 1 || used_outside(r, t) || s->update || s->ordered)
		return;
	for (int d = 0; d < t->rank; d++) {
		int b = band_dim(r, s, d);

		r->keep[t->id][d] = b < 0 ? 1 : b == r->vec ? 2 : 0;
		if (b >= 0 && b != r->vec)
			continue;
		dims[n++] = b == r->vec && b >= 0 ? dim_const(r->k->ctx, BLOCK) : t->dims[d];
	}
	r->local[t->id] = kernel_temp(r->k, t->name, t->dtype, n, dims);
	l_local(r->b, r->local[t->id]);
}

static int local_index(Row *r, const Buf *t, Expr *const *idx, Expr **out)
{
	int n = 0;

	for (int d = 0; d < t->rank; d++)
		if (r->keep[t->id][d] == 1)
			out[n++] = idx[d];
		else if (r->keep[t->id][d] == 2)
			out[n++] = ex_sub(r->k->pool, idx[d], r->v0);
	return n;
}

/* ---- Expressions of a statement in terms of the stage's iterators, in flat memory ---- */

static Expr *place(void *arg, Expr *e)
{
	Row *r = arg;

	if (e->kind == EX_ITER) {
		for (int b = 0; b < r->band->n; b++)
			if (r->band->of[r->si][b] == e->iter)
				return ex_iter(r->k->pool, r->rep[b]);
	} else if (e->kind == EX_LOAD && e->load.buf->id < r->nlocal && r->local[e->load.buf->id]) {
		Expr *idx[MAX_RANK], *at;
		int n = local_index(r, e->load.buf, e->load.idx, idx);

		(void)n;
		at = flat_index(r->k, r->local[e->load.buf->id], idx);
		return ex_load(r->k->pool, r->local[e->load.buf->id], &at, 1);
	} else if (e->kind == EX_LOAD) {
		Expr *at = flat_index(r->k, e->load.buf, e->load.idx);

		return ex_load(r->k->pool, e->load.buf, &at, 1);
	}
	return NULL;
}

Expr *row_placed(Row *r, Expr *e)
{
	return e ? ex_rewrite(r->k->pool, e, place, r) : NULL;
}

Expr *row_write_index(Row *r, Stmt *s, int k, Buf **out)
{
	Expr *idx[MAX_RANK];
	Buf *t = s->out[k];

	for (int d = 0; d < s->nwidx; d++)
		idx[d] = row_placed(r, s->widx[d]);
	if (t->id < r->nlocal && r->local[t->id]) {
		Expr *in[MAX_RANK];

		memcpy(in, idx, sizeof in);
		local_index(r, t, in, idx);
		t = r->local[t->id];
	}
	*out = t;
	return flat_index(r->k, t, idx);
}

void row_does(Row *r, LNode *n, const Stmt *s, LPart part, int nat, Expr *const *red)
{
	Expr *at[MAX_ITERS];

	for (int i = 0; i < nat; i++)
		at[i] = red && i >= s->nband ? red[i - s->nband] : row_placed(r, ex_iter(r->k->pool, s->iter[i]));
	l_does(r->b, n, part, at, nat);
}

static void emit_stmt(Row *r, int si)
{
	Stmt *s = r->k->stmts.at[si];

	r->s = s;
	r->si = si;
	r->b->stmt = s->id;
	r->b->loc = s->loc;
	for (int o = 0; o < s->nout; o++)
		make_local(r, s, s->out[o]);
	if (!s->red)
		row_emit_map(r, s);
	else if (s->update && s->nband == s->niters)
		row_emit_scatter(r, s);
	else if (s->scan)
		row_emit_scan(r, s);
	else if (r->vec >= 0)
		row_emit_reduce_vector(r, s);
	else
		row_emit_reduce_lanes(r, s);
}

static int64_t points(const Row *r)
{
	int64_t most = 1;

	for (int i = r->first; i <= r->last; i++) {
		int64_t n = 1, v;

		for (int j = 0; j < r->k->stmts.at[i]->niters; j++)
			if (!row_is_fixed(r, r->k->stmts.at[i]->iter[j]) && dim_is_const(r->k->stmts.at[i]->iter[j]->extent, &v))
				n = n * v < GRAIN_POINTS ? n * v : GRAIN_POINTS;
		most = n > most ? n : most;
	}
	return most;
}

void row_stage(LBuild *b, const char *strategy, int first, int last, const Band *band)
{
	Row r = {.b = b, .k = b->k, .band = band, .first = first, .last = last, .si = first};
	Dim *rows = dim_const(b->k->ctx, 1), *blocks = rows;
	Iter *fixed[MAX_ITERS];
	int nfixed = 0;
	int64_t block = first == last && !b->k->stmts.at[first]->red ? BLOCK_MAP : BLOCK;
	Expr *p;

	choose_vector(&r);
	r.nlocal = b->k->bufs.n;
	r.local = NEW_ARRAY(b->arena, r.nlocal + 1, Buf *);
	r.keep = arena_array(b->arena, (size_t)r.nlocal + 1, sizeof *r.keep);
	for (int i = 0; i < band->n; i++) {
		r.rep[i] = l_iter(b, band->iter[i]->name, band->iter[i]->extent);
		if (r.fixed[i]) {
			fixed[nfixed++] = r.rep[i];
			rows = dim_mul(b->k->ctx, rows, band->iter[i]->extent);
		}
	}
	if (r.vec >= 0)
		blocks = dim_ceildiv(b->k->ctx, r.rep[r.vec]->extent, dim_const(b->k->ctx, block));
	l_stage(b, strategy, dim_mul(b->k->ctx, rows, blocks), 1);
	r.si = first;
	b->stage->grain = GRAIN_POINTS / points(&r);
	if (r.vec >= 0 && b->stage->grain > GRAIN_POINTS / block)
		b->stage->grain = GRAIN_POINTS / block;
	for (int i = first; i <= last; i++)
		if (row_packed(b->k->stmts.at[i]))
			b->stage->grain = INT32_MAX; /* rows may share a byte: one thread */
	p = ex_iter(b->p, b->stage->var);
	if (r.vec >= 0) {
		Expr *nb = ex_dim(b->p, blocks);

		r.v0 = l_int(b, 0);
		if (!dim_equals(blocks, 1)) {
			Iter *v0 = l_iter(b, "v0", r.rep[r.vec]->extent);

			l_let(b, v0, ex_mul(b->p, ex_op2(b->p, IN_mod, p, nb), l_int(b, block)));
			r.v0 = ex_iter(b->p, v0);
		}
		r.vlo = r.v0;
		r.vhi = l_min(b, ex_add(b->p, r.vlo, l_int(b, block)), row_extent(&r, r.rep[r.vec]));
		p = ex_op2(b->p, IN_floordiv, p, nb);
	}
	l_split(b, fixed, nfixed, p);
	for (int i = first; i <= last; i++)
		emit_stmt(&r, i);
}
