/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules for GPUs. A stage is a launch, and a team of threads has each of its iterations (ir/loop.h):
 *
 *   map     a statement that stores each element once: a thread has as many neighbours as 16 bytes hold, and
 *           neighbouring threads have neighbouring vectors
 *   row     statements under their common band. Where memory runs along the rows, a warp or a block has a row:
 *           its lanes share the loops, and reductions go over the lanes. Else a thread has a row, and neighbouring
 *           threads have neighbouring rows.
 *   order   what is left, statement after statement, a thread for each point of its band; for what must keep its
 *           order (scatters) that is one thread
 */
#include "passes/points.h"
#include "passes/row_impl.h"

#include <assert.h>

enum {
	MAP_THREADS = 256,
	ROW_THREADS = 128,
	BLOCK_THREADS = 256,
	WARP = 32,
	PACK_BYTES = 16,
	MOST_PACK = 8,
	SHARED = 40 << 10
};

/* ---- map ---- */

typedef struct Along {
	Ctx *ctx;
	const Iter *it;
	int bytes; /* of the largest element that is read along it */
} Along;

static void read_along(void *arg, Expr *e)
{
	Along *x = arg;
	Affine a;
	int bytes;

	if (e->kind != EX_LOAD || !ex_affine(x->ctx, e->load.idx[0], &a) ||
	    !dim_equals(affine_coef(x->ctx, &a, x->it), 1))
		return;
	bytes = (dtype_info[e->load.buf->dtype].bits + 7) / 8;
	x->bytes = bytes > x->bytes ? bytes : x->bytes;
}

static bool divides(Ctx *c, Dim *d, int n)
{
	Dim *q;

	return dim_divides(c, d, dim_const(c, n), &q);
}

/* Elements that a thread has of the innermost iterator. *WHOLE: they are always so many. */
static int pack_of(Points *p, const Buf *out, bool *whole)
{
	Iter *in = p->n ? p->it[p->n - 1] : NULL;
	Along x = {p->k->ctx, in, (dtype_info[out->dtype].bits + 7) / 8};
	int64_t n;
	int pack;
	Affine a;

	*whole = false;
	if (!in || p->guard || !ex_affine(x.ctx, p->write, &a) ||
	    !dim_equals(affine_coef(x.ctx, &a, in), 1))
		return 1;
	ex_walk(p->e[0], read_along, &x);
	if (dtype_info[out->dtype].bits < 8)
		x.bytes = 1;
	pack = PACK_BYTES / x.bytes < MOST_PACK ? PACK_BYTES / x.bytes : MOST_PACK;
	*whole = divides(x.ctx, in->extent, pack);
	if (p->n > 1 && !*whole)
		return 1;
	return dim_is_const(in->extent, &n) && n < pack && dtype_info[out->dtype].bits >= 8 ? 1
											    : pack;
}

/* A thread's store of sub-byte elements fills whole bytes: other threads have none of them. */
static bool fills_bytes(Points *p, int pack)
{
	Affine a;

	if (pack != MOST_PACK || !ex_affine(p->k->ctx, p->write, &a) ||
	    !divides(p->k->ctx, a.base, pack))
		return false;
	for (int i = 0; i < a.n; i++)
		if (a.iter[i] != p->it[p->n - 1] && !divides(p->k->ctx, a.coef[i], pack))
			return false;
	return true;
}

static bool is_map(const Stmt *s)
{
	return !s->red && !s->update && !s->ordered && s->nout == 1;
}

/* False where elements of less than a byte would be shared between threads. */
static bool map_stage(LBuild *b, Stmt *s)
{
	Kernel *k = b->k;
	Points p = {.k = k, .ne = 1};
	Iter *in = NULL, *outer[MAX_ITERS];
	Dim *total = dim_const(k->ctx, 1), *inner = total;
	Expr *q, *lo, *hi;
	LNode *n, *loop = NULL;
	bool whole;
	int pack;

	for (int i = 0; i < s->niters; i++)
		points_add(&p, s->iter[i]);
	p.e[0] = expr_flatten(k, s->val[0]);
	p.guard = s->guard ? expr_flatten(k, s->guard) : NULL;
	p.write = flat_index(k, s->out[0], s->widx);
	p.write = expr_flatten(k, p.write);
	points_join(&p);
	pack = pack_of(&p, s->out[0], &whole);
	if (row_packed(s) && !fills_bytes(&p, pack))
		return false;
	if (p.n) {
		in = p.it[--p.n];
		inner = whole || pack > 1 ? dim_ceildiv(k->ctx, in->extent, dim_const(k->ctx, pack))
					  : in->extent;
	}
	for (int i = 0; i < p.n; i++) {
		outer[i] = p.it[i];
		total = dim_mul(k->ctx, total, p.it[i]->extent);
	}
	b->stmt = s->id;
	b->loc = s->loc;
	l_stage(b, "map", dim_mul(k->ctx, total, inner), 1);
	b->stage->team = 1;
	b->stage->threads = MAP_THREADS;
	q = ex_iter(b->p, b->stage->var);
	if (p.n) {
		Expr *many = ex_dim(b->p, inner);

		l_split(b, outer, p.n, ex_op2(b->p, IN_floordiv, q, many));
		q = ex_op2(b->p, IN_mod, q, many);
	}
	if (in && pack > 1) {
		Iter *vector = l_iter(b, "v", inner);

		l_let(b, vector, q);
		lo = ex_mul(b->p, ex_iter(b->p, vector), l_int(b, pack));
		hi = ex_add(b->p, lo, l_int(b, pack));
		loop = l_loop(b, LOOP_VECTOR, in, lo,
			      whole ? hi : l_min(b, hi, ex_dim(b->p, in->extent)), 1);
		loop->pack = pack;
	} else if (in) {
		l_let(b, in, q);
	}
	n = l_store(b, s->out[0], p.write, p.e[0], p.guard);
	l_does(b, n, PART_WRITE, p.at, p.nat);
	if (loop)
		l_close(b, loop);
	return true;
}

/* ---- row ---- */

static bool keeps_order(const Stmt *s)
{
	return s->scan || s->ordered || (s->update && s->nband == s->niters);
}

/* Which iterators memory runs along: those of the band, or others. */
typedef struct Runs {
	Row *r;
	int band, inner;
} Runs;

static void count_runs(Runs *x, const Stmt *s, const Buf *buf, Expr *const *idx)
{
	Kernel *k = x->r->k;
	Affine a;

	if (buf->rank == 0 || buf->data || !ex_affine(k->ctx, flat_index(k, buf, idx), &a))
		return;
	for (int i = 0; i < s->niters; i++) {
		bool banded = false;

		if (!dim_equals(affine_coef(k->ctx, &a, s->iter[i]), 1))
			continue;
		for (int b = 0; b < x->r->band->n; b++)
			banded = banded || x->r->band->of[s->id][b] == s->iter[i];
		x->band += banded;
		x->inner += !banded;
	}
}

static void count_load(void *arg, Stmt *s, Expr *load)
{
	count_runs(arg, s, load->load.buf, load->load.idx);
}

/* Points of the longest statement of a row; many where that is not known. */
static int64_t row_length(const Row *r)
{
	enum { MANY = 1 << 20 };
	int64_t most = 1, v;

	for (int i = r->first; i <= r->last; i++) {
		const Stmt *s = r->k->stmts.at[i];
		int64_t n = 1;

		for (int j = 0; j < s->niters; j++) {
			bool banded = false;

			for (int b = 0; b < r->band->n; b++)
				banded = banded || r->band->of[s->id][b] == s->iter[j];
			if (!banded)
				n = dim_is_const(s->iter[j]->extent, &v) && n * v < MANY ? n * v
											 : MANY;
		}
		most = n > most ? n : most;
	}
	return most;
}

static int choose_team(Row *r)
{
	enum { SHORT = 16, WARPS_ROW = 1024 };
	Runs x = {.r = r};
	int64_t n = row_length(r);

	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i];

		if (keeps_order(s) || row_packed(s))
			return 1;
		stmt_loads(s, count_load, &x);
		if (!s->red)
			count_runs(&x, s, s->out[0], s->widx);
	}
	if (x.inner <= x.band || n < SHORT)
		return 1;
	return n <= WARPS_ROW ? WARP : BLOCK_THREADS;
}

/* Dim D of what S writes runs with an iterator of the band. */
static bool banded_dim(const Row *r, const Stmt *s, int d)
{
	for (int b = 0; s->widx[d]->kind == EX_ITER && b < r->band->n; b++)
		if (r->band->of[s->id][b] == s->widx[d]->iter)
			return true;
	return false;
}

/* A temporary of a row lives in registers, or, where it is small, in the thread's own or the block's memory. */
static void make_local(Row *r, const Stmt *s, Buf *t, int64_t *shared)
{
	enum { OWN = 256 };
	Stage *st = r->b->stage;
	int64_t bytes = (dtype_info[t->dtype].bits + 7) / 8, v;
	Dim *dims[MAX_RANK];
	int n = 0;

	if (!row_may_be_local(r, s, t))
		return;
	for (int d = 0; d < t->rank; d++) {
		r->keep[t->id][d] = banded_dim(r, s, d) || dim_equals(t->dims[d], 1) ? KEEP_NOT
										     : KEEP_ALL;
		if (r->keep[t->id][d] == KEEP_NOT)
			continue;
		dims[n++] = t->dims[d];
		if (!dim_is_const(t->dims[d], &v) || bytes * v > SHARED)
			return;
		bytes *= v;
	}
	if (n && (dtype_info[t->dtype].bits < 8 || bytes > (st->team == 1 ? OWN : *shared)))
		return;
	*shared -= n && st->team > 1 ? bytes : 0;
	r->local[t->id] = kernel_temp(r->k, t->name, t->dtype, n, dims);
	l_node(r->b, LN_LOCAL)->buf[0] = r->local[t->id];
}

static void team_map(Row *r, Stmt *s)
{
	Points p = {.k = r->k,
		    .e = {row_placed(r, s->val[0])},
		    .ne = 1,
		    .guard = row_placed(r, s->guard)};
	LNode *loop = NULL;
	Buf *out;
	Expr *at[MAX_ITERS];

	p.write = row_write_index(r, s, 0, &out);
	for (int i = 0; i < s->niters; i++)
		if (!row_is_fixed(r, s->iter[i]))
			points_add(&p, s->iter[i]);
	points_join(&p);
	points_flatten(&p);
	if (p.n)
		loop = l_loop(r->b, LOOP_TEAM, p.it[0], l_int(r->b, 0), row_extent(r, p.it[0]), 1);
	for (int i = 0, free = 0; i < s->niters; i++)
		at[i] = row_is_fixed(r, s->iter[i]) ? row_placed(r, ex_iter(r->k->pool, s->iter[i]))
						    : p.at[free++];
	l_does(r->b, l_store(r->b, out, p.write, p.e[0], p.guard), PART_WRITE, at, s->niters);
	if (loop)
		l_close(r->b, loop);
}

static void team_reduce(Row *r, Stmt *s)
{
	Points p = {.k = r->k, .ne = monoid_info[s->red].n, .guard = row_placed(r, s->guard)};
	Nest n = {.n = 0};
	Expr *zero = l_int(r->b, 0);
	Buf *acc[2];
	LNode *node;

	row_open_band(r, s, &n, false);
	row_declare_state(r, s, acc, NULL);
	for (int i = 0; i < p.ne; i++)
		p.e[i] = row_placed(r, s->val[i]);
	for (int i = s->nband; i < s->niters; i++)
		points_add(&p, s->iter[i]);
	points_join(&p);
	points_flatten(&p);
	row_init_state(r, s, acc, zero);
	node = row_state_node(r, p.n ? LN_REDUCE : LN_UPDATE, s, acc, zero, p.e, p.guard);
	if (p.n) {
		node->var = p.it[0];
		node->lo = zero;
		node->hi = row_extent(r, p.it[0]);
	}
	row_does(r, node, s, PART_TERM, s->niters, p.at);
	row_store_state(r, s, acc, zero);
	row_close(r, &n);
}

static void row_stmt(Row *r, int i, int64_t *shared)
{
	Stmt *s = r->k->stmts.at[i];

	r->s = s;
	r->si = i;
	r->b->stmt = s->id;
	r->b->loc = s->loc;
	for (int o = 0; o < s->nout; o++)
		make_local(r, s, s->out[o], shared);
	if (r->b->stage->team > 1)
		(s->red ? team_reduce : team_map)(r, s);
	else if (!s->red)
		row_emit_map(r, s);
	else if (s->update && s->nband == s->niters)
		row_emit_scatter(r, s);
	else if (s->scan)
		row_emit_scan(r, s);
	else
		row_emit_reduce_lanes(r, s);
}

static void gpu_row(LBuild *b, const char *strategy, int first, int last, const Band *band)
{
	Row r = {.b = b,
		 .k = b->k,
		 .band = band,
		 .first = first,
		 .last = last,
		 .si = first,
		 .vec = -1,
		 .tile = -1};
	Dim *rows = dim_const(b->k->ctx, 1);
	int64_t shared = SHARED;

	r.nlocal = b->k->bufs.n;
	r.local = NEW_ARRAY(b->arena, r.nlocal + 1, Buf *);
	r.keep = arena_array(b->arena, (size_t)r.nlocal + 1, sizeof *r.keep);
	for (int i = 0; i < band->n; i++) {
		r.fixed[i] = true;
		r.rep[i] = l_iter(b, band->iter[i]->name, band->iter[i]->extent);
		r.as[i] = r.pos[i] = ex_iter(b->p, r.rep[i]);
		rows = dim_mul(b->k->ctx, rows, band->iter[i]->extent);
	}
	l_stage(b, strategy, rows, 1);
	b->stage->team = choose_team(&r);
	b->stage->threads = b->stage->team == BLOCK_THREADS ? BLOCK_THREADS : ROW_THREADS;
	if (b->stage->team > 1)
		shared /= b->stage->threads / b->stage->team;
	l_split(b, r.rep, band->n, ex_iter(b->p, b->stage->var));
	for (int i = first; i <= last; i++)
		row_stmt(&r, i, &shared);
}

/* ---- order ---- */

/* All band iterators of S, or none where points must keep their order or share bytes. */
static void own_band(Kernel *k, Stmt *s, Band *band)
{
	*band = (Band){.of = arena_array(k->arena, (size_t)k->stmts.n, sizeof *band->of)};
	if (s->ordered || (s->update && s->nband == s->niters) || row_packed(s))
		return;
	for (int i = 0; i < s->nband; i++) {
		band->iter[band->n] = s->iter[i];
		band->of[s->id][band->n++] = s->iter[i];
	}
}

static bool all_maps(const Kernel *k)
{
	for (int i = 0; i < k->stmts.n; i++)
		if (!is_map(k->stmts.at[i]) || k->stmts.at[i]->out[0]->kind == BUF_TEMP)
			return false;
	return true;
}

static bool any_packed(const Kernel *k)
{
	for (int i = 0; i < k->stmts.n; i++)
		if (row_packed(k->stmts.at[i]))
			return true;
	return false;
}

void sched_gpu(const Target *t, Kernel *k, Schedule *s)
{
	LBuild b = {.sched = s, .k = k, .p = k->pool, .arena = k->arena, .stmt = -1};
	KernelClass c = kernel_class(k);
	Band band;

	(void)t;
	if (c != KC_OTHER && !all_maps(k) && !any_packed(k)) {
		band_of(k, k->arena, &band);
		if (band.n || k->stmts.n == 1) {
			gpu_row(&b, "row", 0, k->stmts.n - 1, &band);
			return;
		}
	}
	for (int i = 0; i < k->stmts.n; i++) {
		Stmt *st = k->stmts.at[i];

		st->id = i;
		if (is_map(st) && map_stage(&b, st))
			continue;
		own_band(k, st, &band);
		gpu_row(&b, "order", i, i, &band);
	}
}
