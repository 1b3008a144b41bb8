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
#include "passes/band.h"
#include "passes/loops.h"

#include <assert.h>

enum { BLOCK = 512, BLOCK_MAP = 4096, GRAIN_POINTS = 16384, WINDOW = 16 };

typedef struct Row {
	LBuild *b;
	Kernel *k;
	const Band *band;
	int first, last;
	Stmt *s;        /* the statement in hand */
	int si;
	bool fixed[MAX_ITERS]; /* by band index */
	int vec;        /* band index of the vector iterator, or -1 */
	Iter *rep[MAX_ITERS];  /* the stage's iterator for each band iterator */
	Expr *v0;       /* first of this block of v */
	Expr *vlo, *vhi;
	Buf **local;    /* by Buf.id: the local that stands for a temporary, or null */
	int (*keep)[MAX_RANK]; /* by Buf.id, per dim: 0 dropped, 1 kept, 2 the block of v */
	int nlocal;
} Row;

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

static Expr *placed(Row *r, Expr *e)
{
	return e ? ex_rewrite(r->k->pool, e, place, r) : NULL;
}

/* Where statement S writes, flat; the buffer in *OUT for component K. */
static Expr *write_index(Row *r, Stmt *s, int k, Buf **out)
{
	Expr *idx[MAX_RANK];
	Buf *t = s->out[k];

	for (int d = 0; d < s->nwidx; d++)
		idx[d] = placed(r, s->widx[d]);
	if (t->id < r->nlocal && r->local[t->id]) {
		Expr *in[MAX_RANK];

		memcpy(in, idx, sizeof in);
		local_index(r, t, in, idx);
		t = r->local[t->id];
	}
	*out = t;
	return flat_index(r->k, t, idx);
}

/* N does PART of statement S at its first NAT iterators; RED, where not null, is the place of those it reduces. */
static void does(Row *r, LNode *n, const Stmt *s, LPart part, int nat, Expr *const *red)
{
	Expr *at[MAX_ITERS];

	for (int i = 0; i < nat; i++)
		at[i] = red && i >= s->nband ? red[i - s->nband] : placed(r, ex_iter(r->k->pool, s->iter[i]));
	l_does(r->b, n, part, at, nat);
}

/* ---- Nests ---- */

enum { MAX_NEST = MAX_ITERS };

typedef struct Nest {
	LNode *loop[MAX_NEST];
	int n;
} Nest;

static void open_loop(Row *r, Nest *n, LoopKind kind, Iter *it, Expr *lo, Expr *hi)
{
	n->loop[n->n++] = l_loop(r->b, kind, it, lo, hi, 1);
}

static void close_all(Row *r, Nest *n)
{
	while (n->n)
		l_close(r->b, n->loop[--n->n]);
}

static bool is_vec(const Row *r, const Iter *it)
{
	return r->vec >= 0 && r->band->of[r->si][r->vec] == it;
}

static bool is_fixed(const Row *r, const Iter *it)
{
	for (int b = 0; b < r->band->n; b++)
		if (r->band->of[r->si][b] == it)
			return r->fixed[b];
	return false;
}

static Expr *extent(Row *r, const Iter *it)
{
	return ex_dim(r->k->pool, it->extent);
}

/* Loops over the band iterators of S that the stage did not fix, but for the vector one and the last one
 * where there is no vector (given back, to be the innermost). */
static Iter *open_band(Row *r, Stmt *s, Nest *n, bool leave_last)
{
	Iter *last = NULL;

	for (int i = 0; i < s->nband; i++)
		if (!is_fixed(r, s->iter[i]) && !is_vec(r, s->iter[i]))
			last = s->iter[i];
	for (int i = 0; i < s->nband; i++) {
		Iter *it = s->iter[i];

		if (is_fixed(r, it) || is_vec(r, it) || (leave_last && r->vec < 0 && it == last))
			continue;
		open_loop(r, n, LOOP_SERIAL, it, l_int(r->b, 0), extent(r, it));
	}
	return leave_last && r->vec < 0 ? last : NULL;
}

/* Elements that share a byte are stored one after the other. */
static bool packed(const Stmt *s)
{
	return dtype_info[s->out[0]->dtype].bits < 8;
}

static void emit_map(Row *r, Stmt *s)
{
	Nest n = {.n = 0};
	Iter *last = open_band(r, s, &n, true);
	Expr *val = placed(r, s->val[0]), *guard = placed(r, s->guard), *at, *lo, *hi;
	Buf *out;
	LoopKind kind = s->ordered || expr_can_fault(val) || packed(s) ? LOOP_SERIAL : r->vec >= 0 && l_short(r->rep[r->vec]->extent) ? LOOP_SHORT : LOOP_VECTOR;

	at = write_index(r, s, 0, &out);
	if (r->vec >= 0) {
		lo = r->vlo;
		hi = r->vhi;
		guard = guard_to_range(r->k, guard, r->rep[r->vec], &lo, &hi);
		open_loop(r, &n, kind, r->rep[r->vec], lo, hi);
	} else if (last) {
		lo = l_int(r->b, 0);
		hi = extent(r, last);
		guard = guard_to_range(r->k, guard, last, &lo, &hi);
		open_loop(r, &n, kind, last, lo, hi);
	}
	does(r, l_store(r->b, out, at, val, guard), s, PART_WRITE, s->niters, NULL);
	close_all(r, &n);
}

static LNode *state_node(Row *r, LNodeKind kind, Stmt *s, Buf *const *acc, Expr *idx, Expr *const *val, Expr *guard)
{
	LNode *n = l_node(r->b, kind);

	n->red = s->red;
	n->nout = monoid_info[s->red].n;
	for (int i = 0; i < n->nout; i++) {
		n->buf[i] = acc[i];
		n->val[i] = val[i];
	}
	n->idx = idx;
	n->guard = guard;
	return n;
}

/* Declares the state; EXTENT null: scalars. */
static void declare_state(Row *r, Stmt *s, Buf **acc, Dim *size)
{
	for (int i = 0; i < monoid_info[s->red].n; i++)
		acc[i] = l_temp(r->b, "acc", ctype_dtype(s->val[i]->ct), size);
}

static Expr *initial(Row *r, Stmt *s, int i)
{
	if (s->update && i < s->nout) {
		Buf *out;
		Expr *at = write_index(r, s, i, &out);

		return ex_load(r->k->pool, out, &at, 1);
	}
	return monoid_identity(r->k->pool, s->red, i, s->val[i]->ct);
}

static void init_state(Row *r, Stmt *s, Buf *const *acc, Expr *idx)
{
	for (int i = 0; i < monoid_info[s->red].n; i++) {
		LNode *n = l_store(r->b, acc[i], idx, initial(r, s, i), NULL);

		does(r, n, s, PART_INIT, s->nband, NULL);
		n->comp = i;
	}
}

static void store_state(Row *r, Stmt *s, Buf *const *acc, Expr *idx)
{
	for (int i = 0; i < s->nout; i++) {
		Buf *out;
		Expr *at = write_index(r, s, i, &out);
		LNode *n = l_store(r->b, out, at, ex_load(r->k->pool, acc[i], &idx, 1), NULL);

		does(r, n, s, PART_WRITE, s->scan ? s->niters : s->nband, NULL);
		n->comp = i;
	}
}

/* The innermost reduced iterator of a small window is unrolled inside the vector loop. */
static bool unrolled(const Stmt *s)
{
	enum { TAPS = 8 };
	int64_t n;

	return s->niters > s->nband && monoid_info[s->red].n == 1 && dim_is_const(s->iter[s->niters - 1]->extent, &n) && n > 0 &&
	       n <= TAPS;
}

/* The conjuncts of G that mention V or U go to *INNER, the rest to *OUTER. */
static void split_guard(Row *r, Expr *g, const Iter *v, const Iter *u, Expr **inner, Expr **outer)
{
	if (!g)
		return;
	if (g->kind == EX_INST && g->op.inst == IN_and) {
		split_guard(r, g->op.arg[0], v, u, inner, outer);
		split_guard(r, g->op.arg[1], v, u, inner, outer);
	} else if (expr_has_iter(g, v) || expr_has_iter(g, u)) {
		*inner = ex_and(r->k->pool, *inner, g);
	} else {
		*outer = ex_and(r->k->pool, *outer, g);
	}
}

/*
 * A row of the input of a window: the one load of VAL that runs along v, at base + cv*v + cu*u, where the guard
 * bounds just that sum. Copied once with the monoid's neutral padding, it serves all taps without a guard.
 */
typedef struct Window {
	Expr *load;
	int64_t cv, cu, length;
	Iter *t;      /* cv*v + cu*u */
	Expr *base;   /* the load's index without that */
	Expr *lo, *hi; /* of t, where the guard holds */
	Buf *row;
} Window;

typedef struct FindLoad {
	const Iter *v;
	Expr *load;
	int n;
} FindLoad;

static void find_load(void *arg, Expr *e)
{
	FindLoad *f = arg;

	if (e->kind != EX_LOAD || !expr_has_iter(e, f->v))
		return;
	f->load = e;
	f->n++;
}

/* G in terms of t; false where it is no bound on it. */
static bool window_guard(Row *r, Window *w, Expr *g, const Iter *v, const Iter *u)
{
	ExprPool *p = r->k->pool;
	Expr *rest;
	Affine d;
	int64_t gv, gu;

	if (!g)
		return true;
	if (g->kind == EX_INST && g->op.inst == IN_and)
		return window_guard(r, w, g->op.arg[0], v, u) && window_guard(r, w, g->op.arg[1], v, u);
	if (!guard_affine(r->k, g, &d) || !dim_is_const(affine_coef(r->k->ctx, &d, v), &gv) ||
	    !dim_is_const(affine_coef(r->k->ctx, &d, u), &gu) || (gv != w->cv && gv != -w->cv) || gu != (gv > 0 ? w->cu : -w->cu))
		return false;
	rest = ex_sub(p, ex_from_affine(p, &d), ex_add(p, ex_mul(p, l_int(r->b, gv), ex_iter(p, (Iter *)(uintptr_t)v)),
						       ex_mul(p, l_int(r->b, gu), ex_iter(p, (Iter *)(uintptr_t)u))));
	if (gv > 0)
		w->lo = ex_op2(p, IN_max, w->lo, ex_sub(p, l_int(r->b, 0), rest));
	else
		w->hi = ex_op2(p, IN_min, w->hi, ex_add(p, rest, l_int(r->b, 1)));
	return true;
}

/* Padding must leave the state as it is. */
static bool pads_neutral(const Stmt *s, const Expr *val, const Expr *load)
{
	if (val == load)
		return true;
	return s->red == MONOID_sum && val->kind == EX_INST && val->op.inst == IN_mul &&
	       (val->op.arg[0] == load || val->op.arg[1] == load);
}

static bool find_window(Row *r, Stmt *s, Expr *val, Expr *inner, Window *w)
{
	ExprPool *p = r->k->pool;
	Iter *v = r->rep[r->vec], *u = s->iter[s->niters - 1];
	FindLoad f = {v, NULL, 0};
	int64_t nv, nu;
	Affine a;

	ex_walk(val, find_load, &f);
	if (f.n != 1 || !pads_neutral(s, val, f.load) || !ex_affine(r->k->ctx, f.load->load.idx[0], &a) ||
	    !dim_is_const(affine_coef(r->k->ctx, &a, v), &w->cv) || !dim_is_const(affine_coef(r->k->ctx, &a, u), &w->cu) ||
	    w->cv < 1 || w->cu < 0 || !dim_is_const(v->extent, &nv) || !dim_is_const(u->extent, &nu) || nv > BLOCK)
		return false;
	w->length = w->cv * (nv - 1) + w->cu * (nu - 1) + 1;
	if (w->length > 4 * BLOCK)
		return false;
	w->load = f.load;
	w->t = l_iter(r->b, "t", dim_const(r->k->ctx, w->length));
	w->base = ex_sub(p, f.load->load.idx[0], ex_add(p, ex_mul(p, l_int(r->b, w->cv), ex_iter(p, v)),
							ex_mul(p, l_int(r->b, w->cu), ex_iter(p, u))));
	w->lo = l_int(r->b, 0);
	w->hi = l_int(r->b, w->length);
	return window_guard(r, w, inner, v, u);
}

static void copy_window(Row *r, Stmt *s, Window *w, Expr *outer, Nest *in)
{
	ExprPool *p = r->k->pool;
	Expr *t = ex_iter(p, w->t), *at = ex_add(p, w->base, t);
	DType type = ctype_dtype(w->load->ct);
	int keep = in->n;

	w->row = l_temp(r->b, "row", type, dim_const(r->k->ctx, w->length));
	open_loop(r, in, LOOP_VECTOR, w->t, l_int(r->b, 0), l_int(r->b, w->length));
	l_store(r->b, w->row, t, monoid_identity(p, s->red, 0, w->load->ct), NULL);
	l_close(r->b, in->loop[--in->n]);
	guard_to_range(r->k, outer, w->t, &w->lo, &w->hi);
	open_loop(r, in, l_short(w->t->extent) ? LOOP_SHORT : LOOP_VECTOR, w->t, w->lo, w->hi);
	l_store(r->b, w->row, t, ex_load(p, w->load->load.buf, &at, 1), NULL);
	while (in->n > keep)
		l_close(r->b, in->loop[--in->n]);
}

static Expr *from_window(void *arg, Expr *e)
{
	Window *w = arg;

	(void)e;
	return e == w->load ? w->base : NULL;
}

/* The innermost reduced iterator of a small window, unrolled inside the loop over v: no guard, one register of
 * states. False where the window cannot be had so. */
static bool emit_taps(Row *r, Stmt *s, Buf *const *acc, Expr *at, Expr *val, Nest *in)
{
	ExprPool *p = r->k->pool;
	Iter *v = r->rep[r->vec], *u = s->iter[s->niters - 1];
	Expr *inner = NULL, *outer = NULL, *lo = r->vlo, *hi = r->vhi;
	Window w = {0};
	int64_t taps = 0;

	dim_is_const(u->extent, &taps);
	split_guard(r, placed(r, s->guard), v, u, &inner, &outer);
	if (inner && !find_window(r, s, val, inner, &w))
		return false;
	for (int i = s->nband; i < s->niters - 1; i++)
		open_loop(r, in, LOOP_SERIAL, s->iter[i], l_int(r->b, 0), extent(r, s->iter[i]));
	if (inner) {
		Expr *idx = ex_add(p, ex_mul(p, l_int(r->b, w.cv), ex_iter(p, v)), ex_mul(p, l_int(r->b, w.cu), ex_iter(p, u)));

		copy_window(r, s, &w, outer, in);
		w.base = ex_load(p, w.row, &idx, 1);
		val = ex_rewrite(p, val, from_window, &w);
	}
	guard_to_range(r->k, outer, v, &lo, &hi);
	open_loop(r, in, l_short(v->extent) ? LOOP_SHORT : LOOP_VECTOR, v, lo, hi);
	for (int64_t j = 0; j < taps; j++) {
		Expr *tap = l_int(r->b, j), *term[2] = {ex_subst_iters(p, val, &u, &tap, 1), NULL}, *place_of[MAX_ITERS];

		for (int i = s->nband; i < s->niters; i++)
			place_of[i - s->nband] = i + 1 < s->niters ? ex_iter(p, s->iter[i]) : tap;
		does(r, state_node(r, LN_UPDATE, s, acc, at, term, NULL), s, PART_TERM, s->niters, place_of);
	}
	return true;
}

/* Reduction with v innermost: a block of states, updated a row of terms at a time. */
static void emit_reduce_vector(Row *r, Stmt *s)
{
	Nest n = {.n = 0}, in = {.n = 0};
	Expr *v = ex_iter(r->k->pool, r->rep[r->vec]), *at = ex_sub(r->k->pool, v, r->v0);
	Expr *lo = r->vlo, *hi = r->vhi, *val[2] = {NULL, NULL}, *guard;
	Buf *acc[2];

	open_band(r, s, &n, false);
	declare_state(r, s, acc, dim_const(r->k->ctx, BLOCK));
	open_loop(r, &in, LOOP_VECTOR, r->rep[r->vec], lo, hi);
	for (int i = 0; i < monoid_info[s->red].n; i++)
		val[i] = placed(r, s->val[i]);
	init_state(r, s, acc, at);
	close_all(r, &in);
	if (!unrolled(s) || !emit_taps(r, s, acc, at, val[0], &in)) {
		for (int i = s->nband; i < s->niters; i++)
			open_loop(r, &in, LOOP_SERIAL, s->iter[i], l_int(r->b, 0), extent(r, s->iter[i]));
		guard = guard_to_range(r->k, placed(r, s->guard), r->rep[r->vec], &lo, &hi);
		open_loop(r, &in, l_short(r->rep[r->vec]->extent) ? LOOP_SHORT : LOOP_VECTOR, r->rep[r->vec], lo, hi);
		does(r, state_node(r, LN_UPDATE, s, acc, at, val, guard), s, PART_TERM, s->niters, NULL);
	}
	close_all(r, &in);
	open_loop(r, &in, LOOP_VECTOR, r->rep[r->vec], r->vlo, r->vhi);
	store_state(r, s, acc, at);
	close_all(r, &in);
	close_all(r, &n);
}

/* ---- Reduced iterators ---- */

/* What is reduced, in terms of the stage and flat memory. */
typedef struct Terms {
	Row *r;
	Iter *it[MAX_ITERS];
	Expr *at[MAX_ITERS]; /* each reduced iterator of the statement over these */
	int n, nat, nval;
	Expr *val[2], *guard;
	const Iter *out, *in; /* asked about */
	bool ok;
	int hits;
} Terms;

static void steps_as_one(void *arg, Expr *e)
{
	Terms *t = arg;
	Ctx *c = t->r->k->ctx;
	Affine a;

	if (e->kind != EX_LOAD || !t->ok || (!expr_has_iter(e, t->out) && !expr_has_iter(e, t->in)))
		return;
	t->ok = e->load.nidx == 1 && ex_affine(c, e->load.idx[0], &a) &&
		affine_coef(c, &a, t->out) == dim_mul(c, affine_coef(c, &a, t->in), t->in->extent);
}

/* Whether iterators OUT and IN run through memory as one would. */
static bool joins(Terms *t, const Iter *out, const Iter *in)
{
	t->out = out;
	t->in = in;
	t->ok = !t->guard || (!expr_has_iter(t->guard, out) && !expr_has_iter(t->guard, in));
	for (int i = 0; i < t->nval; i++) {
		t->ok = t->ok && !expr_has_iter_outside_loads(t->val[i], out) && !expr_has_iter_outside_loads(t->val[i], in);
		ex_walk(t->val[i], steps_as_one, t);
	}
	return t->ok;
}

static void join_last(Terms *t)
{
	Row *r = t->r;
	Iter *from[2] = {t->it[t->n - 2], t->it[t->n - 1]};
	Iter *one = l_iter(r->b, from[1]->name, dim_mul(r->k->ctx, from[0]->extent, from[1]->extent));
	Expr *with[2] = {l_int(r->b, 0), ex_iter(r->k->pool, one)}, *inner = extent(r, from[1]);
	Expr *both[2] = {ex_op2(r->k->pool, IN_floordiv, with[1], inner), ex_op2(r->k->pool, IN_mod, with[1], inner)};

	for (int i = 0; i < t->nat; i++)
		t->at[i] = ex_subst_iters(r->k->pool, t->at[i], from, both, 2);
	for (int i = 0; i < t->nval; i++)
		t->val[i] = ex_subst_iters(r->k->pool, t->val[i], from, with, 2);
	t->n--;
	t->it[t->n - 1] = one;
}

/* The terms of S, iterators joined where they may be: one long loop is faster than a nest of short ones, and
 * its lanes are many short sums rather than a long one. */
static void terms_of(Row *r, Stmt *s, Terms *t)
{
	*t = (Terms){.r = r, .nval = monoid_info[s->red].n, .guard = placed(r, s->guard)};
	for (int i = 0; i < t->nval; i++)
		t->val[i] = placed(r, s->val[i]);
	for (int i = s->nband; i < s->niters; i++) {
		t->it[t->n++] = s->iter[i];
		t->at[t->nat++] = ex_iter(r->k->pool, s->iter[i]);
		while (t->n > 1 && joins(t, t->it[t->n - 2], t->it[t->n - 1]))
			join_last(t);
	}
}

static void hit(void *arg, Expr *e)
{
	Terms *t = arg;
	Ctx *c = t->r->k->ctx;
	Affine a;

	t->hits += e->kind == EX_LOAD && e->load.nidx == 1 && ex_affine(c, e->load.idx[0], &a) && dim_equals(affine_coef(c, &a, t->in), 1);
}

/* The iterator along which memory runs: it goes in lanes. */
static int lane_of(Terms *t)
{
	int best = t->n - 1, most = -1;
	int64_t few;

	for (int i = 0; i < t->n; i++) {
		t->in = t->it[i];
		t->hits = 0;
		for (int v = 0; v < t->nval; v++)
			ex_walk(t->val[v], hit, t);
		if (dim_is_const(t->in->extent, &few) && few < WINDOW)
			t->hits = 0;
		if (t->hits >= most) {
			most = t->hits;
			best = i;
		}
	}
	return best;
}

/* Reduction with scalar states: lanes over the contiguous reduced iterator. */
static void emit_reduce_lanes(Row *r, Stmt *s)
{
	Nest n = {.n = 0}, in = {.n = 0};
	Expr *zero = l_int(r->b, 0), *guard, *lo = zero, *hi;
	Buf *acc[2];
	LNode *node;
	Terms t;
	int lane;

	open_band(r, s, &n, false);
	declare_state(r, s, acc, NULL);
	terms_of(r, s, &t);
	lane = lane_of(&t);
	init_state(r, s, acc, zero);
	for (int i = 0; i < t.n; i++)
		if (i != lane)
			open_loop(r, &in, LOOP_SERIAL, t.it[i], zero, extent(r, t.it[i]));
	if (!t.n) {
		node = state_node(r, LN_UPDATE, s, acc, zero, t.val, t.guard);
	} else {
		hi = extent(r, t.it[lane]);
		guard = guard_to_range(r->k, t.guard, t.it[lane], &lo, &hi);
		node = state_node(r, LN_REDUCE, s, acc, zero, t.val, guard);
		node->var = t.it[lane];
		node->lo = lo;
		node->hi = hi;
	}
	does(r, node, s, PART_TERM, s->niters, t.at);
	close_all(r, &in);
	store_state(r, s, acc, zero);
	close_all(r, &n);
}

/* A prefix: one state, stored at every step. */
static void emit_scan(Row *r, Stmt *s)
{
	Nest n = {.n = 0}, in = {.n = 0};
	Expr *zero = l_int(r->b, 0), *val[2] = {NULL, NULL};
	Buf *acc[2];

	open_band(r, s, &n, false);
	if (r->vec >= 0)
		open_loop(r, &n, LOOP_SERIAL, r->rep[r->vec], r->vlo, r->vhi);
	declare_state(r, s, acc, NULL);
	for (int i = 0; i < monoid_info[s->red].n; i++)
		val[i] = placed(r, s->val[i]);
	init_state(r, s, acc, zero);
	for (int i = s->nband; i < s->niters; i++)
		open_loop(r, &in, LOOP_SERIAL, s->iter[i], zero, extent(r, s->iter[i]));
	does(r, state_node(r, LN_UPDATE, s, acc, zero, val, placed(r, s->guard)), s, PART_TERM, s->niters, NULL);
	store_state(r, s, acc, zero);
	close_all(r, &in);
	close_all(r, &n);
}

/* A scatter with a monoid: read, combine, write, point after point. */
static void emit_scatter(Row *r, Stmt *s)
{
	Nest n = {.n = 0};
	Expr *val[2] = {NULL, NULL}, *at = NULL;
	Buf *out[2] = {NULL, NULL};

	open_band(r, s, &n, false);
	if (r->vec >= 0)
		open_loop(r, &n, LOOP_SERIAL, r->rep[r->vec], r->vlo, r->vhi);
	for (int i = 0; i < s->nout; i++) {
		at = write_index(r, s, i, &out[i]);
		val[i] = placed(r, s->val[i]);
	}
	does(r, state_node(r, LN_UPDATE, s, out, at, val, placed(r, s->guard)), s, PART_TERM, s->niters, NULL);
	close_all(r, &n);
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
		emit_map(r, s);
	else if (s->update && s->nband == s->niters)
		emit_scatter(r, s);
	else if (s->scan)
		emit_scan(r, s);
	else if (r->vec >= 0)
		emit_reduce_vector(r, s);
	else
		emit_reduce_lanes(r, s);
}

static int64_t points(const Row *r)
{
	int64_t most = 1;

	for (int i = r->first; i <= r->last; i++) {
		int64_t n = 1, v;

		for (int j = 0; j < r->k->stmts.at[i]->niters; j++)
			if (!is_fixed(r, r->k->stmts.at[i]->iter[j]) && dim_is_const(r->k->stmts.at[i]->iter[j]->extent, &v))
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
		if (packed(b->k->stmts.at[i]))
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
		r.vhi = l_min(b, ex_add(b->p, r.vlo, l_int(b, block)), extent(&r, r.rep[r.vec]));
		p = ex_op2(b->p, IN_floordiv, p, nb);
	}
	l_split(b, fixed, nfixed, p);
	for (int i = first; i <= last; i++)
		emit_stmt(&r, i);
}
