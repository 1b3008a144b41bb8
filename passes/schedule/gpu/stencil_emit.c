/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of a stencil (passes/schedule/gpu/stencil.c): the block fetches its input tiles to
 * shared memory, clipped to the buffers. Then a thread has one point at a time, or several that are
 * adjacent in memory. One vector access loads a tap for all of them, and the guard is tested once:
 *
 *   for each row of taps
 *     for each tap, unrolled, where it is inside the input
 *       for the adjacent points: a term of each one's sum
 */
#include "passes/schedule/gpu/stencil_impl.h"

static void place_band(Stencil *w)
{
	Row *r = w->r;
	LBuild *b = r->b;
	Ctx *c = r->k->ctx;
	Iter *split[MAX_ITERS];

	for (int i = 0; i < r->band->n; i++) {
		const Iter *it = r->band->iter[i];

		split[i] = l_iter(b, it->name,
				  dim_ceildiv(c, it->extent, dim_const(c, w->size[i])));
		w->in[i] = l_iter(b, "in",
				  dim_const(c, w->size[i] / (i == w->along ? w->vector : 1)));
	}
	l_stage(b, "stencil", iters_points(c, split, r->band->n));
	b->stage->block.group = b->stage->block.threads = STENCIL_THREADS;
	l_split(b, split, r->band->n, ex_iter(b->p, b->stage->var));
	for (int i = 0; i < r->band->n; i++)
		w->from[i] = dim_equals(split[i]->extent, 1)
				     ? l_int(b, 0)
				     : ex_mul(b->p, ex_iter(b->p, split[i]), l_int(b, w->size[i]));
}

/* The first index of the tile along D. *WHOLE: the tile is always inside the buffer along D. */
static Expr *from_of(const Stencil *w, const InputTile *x, int d, bool *whole)
{
	LBuild *b = w->r->b;
	Ctx *c = w->r->k->ctx;
	const Affine *a = &x->at[d];
	Expr *at = ex_dim(b->p, a->base);

	*whole = dim_equals(a->base, 0) &&
		 (!a->n || (a->n == 1 && stencil_stride(a, 0) == 1 &&
			    dim_prove_le(c, a->iter[0]->extent, x->buf->dims[d])));
	for (int i = 0; i < a->n; i++) {
		const int k = band_index(w->r->band, x->s, a->iter[i]);

		if (k < 0)
			continue;
		at = ex_add(b->p, at,
			    ex_mul(b->p, w->from[k], ex_int(b->p, CT_I64, stencil_stride(a, i))));
		*whole = *whole && dim_multiple(c, a->iter[i]->extent, w->size[k]);
	}
	return at;
}

static Expr *inside(LBuild *b, Expr *guard, Expr *at, Dim *n)
{
	return ex_and(b->p, guard, ex_inside(b->p, at, ex_dim(b->p, n)));
}

/* AT plus the distance along D of the current point from the first point of the tile. */
static Expr *at_point(const Stencil *w, const InputTile *x, int d, Expr *at)
{
	LBuild *b = w->r->b;
	const Affine *a = &x->at[d];

	for (int i = 0; i < a->n; i++) {
		const int k = band_index(w->r->band, x->s, a->iter[i]);
		Expr *e = ex_iter(b->p, k < 0 ? a->iter[i] : w->in[k]);

		if (k == w->along && w->vector > 1)
			e = ex_add(b->p, ex_mul(b->p, e, l_int(b, w->vector)),
				   ex_iter(b->p, w->elem));
		at = ex_add(b->p, at, ex_mul(b->p, e, l_int(b, stencil_stride(a, i))));
	}
	return at;
}

/* The start of run Y of X, whose indices along the outer dims are AT. */
static Begin begin_of(const Stencil *w, const InputTile *x, const StencilRun *y, Expr **at)
{
	LBuild *b = w->r->b;
	Begin g;

	for (int i = y->outer; i < x->buf->rank; i++)
		at[x->dim[i]] = l_int(b, 0);
	g.before = flat_index(b->k, x->buf, at);
	g.from = ex_mul(b->p, from_of(w, x, x->dim[y->outer], &g.whole), l_int(b, y->inner));
	return g;
}

/* ---- Fetching ---- */

/* Adds to GUARD that element E of the run, whose index along the run's dims is AT, exists. */
static Expr *in_run(LBuild *b, const StencilRun *y, const Begin *g, Expr *guard, Expr *at, Expr *e)
{
	Expr *lo = l_int(b, 0), *hi = l_int(b, y->size);

	if (!y->peeled)
		return g->whole ? guard : inside(b, guard, at, y->extent);
	if (!g->whole) {
		lo = l_max(b, lo, ex_sub(b->p, lo, g->from));
		hi = l_min(b, hi, ex_sub(b->p, ex_dim(b->p, y->extent), g->from));
	}
	guard = ex_and(b->p, guard, ex_op2(b->p, IN_ge, e, lo));
	return ex_and(b->p, guard, ex_op2(b->p, IN_lt, e, hi));
}

/* Opens the loop over the threads that share out runs Y. IN are the N iterators that number the
 * runs; it has space for the iterator over the threads of one run. */
static void open_runs(Row *r, const StencilRun *y, Iter **in, int n, Nest *nest)
{
	LBuild *b = r->b;
	Dim *all;
	Iter *t;

	in[n] = l_iter(b, "b", dim_const(b->k->ctx, y->threads));
	all = iters_points(b->k->ctx, in, n + 1);
	t = l_iter(b, "t", all);
	row_open(r, nest, LOOP_GROUP, t, l_int(b, 0), ex_dim(b->p, all));
	l_split(b, in, n + 1, ex_iter(b->p, t));
}

/* Opens the loop over the accesses of thread LANE to run Y; returns the element of the run that an
 * access begins at. */
static Expr *open_times(Row *r, const InputTile *x, const StencilRun *y, const Begin *g, Iter *lane,
			Nest *nest)
{
	LBuild *b = r->b;
	const int64_t sector = gpu_sector(dtype_bytes(x->buf->dtype));
	const LoopKind kind = x->load ? LOOP_UNROLL : LOOP_SERIAL;
	Iter *u = l_iter(b, "u", dim_const(b->k->ctx, y->times)),
	     *peel = l_iter(b, "peel", dim_const(b->k->ctx, sector / y->vector));
	Expr *e = ex_iter(b->p, lane), *begin = ex_add(b->p, g->before, g->from);

	if (y->peeled)
		l_let(b, peel,
		      ex_op2(b->p, IN_floordiv,
			     gpu_peel(b, begin, NULL, NULL, 0, dtype_bytes(x->buf->dtype)),
			     l_int(b, y->vector)));
	if (y->times > 1) {
		row_open(r, nest, kind, u, l_int(b, 0), l_int(b, y->times));
		e = ex_add(b->p, e, ex_mul(b->p, ex_iter(b->p, u), l_int(b, y->threads)));
	}
	return y->peeled ? ex_sub(b->p, e, ex_iter(b->p, peel)) : e;
}

static void fetch(Stencil *w, InputTile *x)
{
	LBuild *b = w->r->b;
	const StencilRun y = stencil_run(w, x);
	Dim *cells = dim_const(b->k->ctx, y.runs * y.size);
	Iter *in[MAX_RANK];
	Expr *at[MAX_RANK], *guard = NULL, *to = l_int(b, 0), *e, *place;
	Nest nest = {.n = 0};
	Begin g;

	for (int i = 0; i < y.outer; i++) {
		const int d = x->dim[i];
		const int64_t n = stencil_side(w, x, d);
		bool whole;

		in[i] = l_iter(b, "b", dim_const(b->k->ctx, n));
		at[d] = ex_add(b->p, from_of(w, x, d, &whole), ex_iter(b->p, in[i]));
		if (!whole)
			guard = inside(b, guard, at[d], x->buf->dims[d]);
		to = ex_add(b->p, ex_mul(b->p, to, l_int(b, n)), ex_iter(b->p, in[i]));
	}
	g = begin_of(w, x, &y, at);
	x->tile = kernel_temp(b->k, x->buf->name, x->buf->dtype, 1, &cells);
	gpu_declare(b, x->tile, NULL);
	open_runs(w->r, &y, in, y.outer, &nest);
	e = ex_mul(b->p, open_times(w->r, x, &y, &g, in[y.outer], &nest), l_int(b, y.vector));
	place = ex_add(b->p, g.from, e);
	guard = in_run(b, &y, &g, guard, place, e);
	to = ex_add(b->p, ex_mul(b->p, to, l_int(b, y.size)), e);
	if (y.vector > 1) {
		Iter *v = l_iter(b, "v", y.extent);

		nest.loop[nest.n++] = gpu_open_access(b, v, place, NULL, y.vector, guard);
		to = ex_add(b->p, to, ex_sub(b->p, ex_iter(b->p, v), place));
		place = ex_iter(b->p, v);
		guard = NULL;
	}
	place = ex_add(b->p, g.before, place);
	l_store(b, x->tile, to, ex_load(b->p, x->load->load.buf, &place, 1), guard);
	row_close(w->r, &nest);
}

/* ---- Where points are ---- */

/* The band iterators that form a peeled run of the output. Their points are shared out between
 * threads as the run's accesses are. */
typedef struct Joint {
	int of[MAX_ITERS], n; /* outermost first; n is 0: each iterator is shared out separately */
	StencilRun run;
	Begin begin;
} Joint;

static bool is_joint(const Joint *j, int k)
{
	for (int i = 0; i < j->n; i++)
		if (j->of[i] == k)
			return true;
	return false;
}

static Joint joint_points(const Stencil *w)
{
	const InputTile *x = &w->out;
	const Joint none = {.n = 0};
	Joint j = none;
	Expr *at[MAX_RANK];

	if (!x->buf)
		return none;
	j.run = stencil_run(w, x);
	for (int i = 0; i < j.run.outer; i++) {
		const int d = x->dim[i];
		bool whole;

		at[d] = at_point(w, x, d, from_of(w, x, d, &whole));
	}
	for (int i = j.run.outer; i < x->buf->rank; i++) {
		const Affine *a = &x->at[x->dim[i]];
		const int k = a->n ? band_index(w->r->band, x->s, a->iter[0]) : -1;

		if (a->n > 1 || (a->n && (stencil_stride(a, 0) != 1 || is_joint(&j, k))))
			return none;
		if (a->n)
			j.of[j.n++] = k;
	}
	j.begin = begin_of(w, x, &j.run, at);
	return j.run.peeled ? j : none;
}

/* The thread's first point along band iterator K. */
static Expr *first_along(const Stencil *w, int k)
{
	ExprPool *p = w->r->b->p;

	return ex_add(
		p, w->from[k],
		ex_mul(p, ex_iter(p, w->in[k]), l_int(w->r->b, k == w->along ? w->vector : 1)));
}

/* Binds the stage's iterator K to the thread's point. */
static void place_point(Stencil *w, int k)
{
	Row *r = w->r;
	Expr *at = first_along(w, k);

	if (k == w->along && w->vector > 1)
		r->as[k] = r->pos[k] = ex_add(r->b->p, at, ex_iter(r->b->p, w->elem));
	else
		l_let(r->b, r->rep[k], at);
}

/* As place_point. If the point may be past the end, a loop of 0 or 1 iterations guards it. */
static void open_point(Stencil *w, int k, Nest *nest)
{
	Row *r = w->r;
	LBuild *b = r->b;
	Expr *at = first_along(w, k);
	Dim *end = r->band->iter[k]->extent;
	Iter *first = k == w->along && w->vector > 1 ? l_iter(b, "first", end) : r->rep[k];

	if (dim_multiple(b->k->ctx, end, w->size[k]) || first != r->rep[k])
		place_point(w, k);
	if (!dim_multiple(b->k->ctx, end, w->size[k]))
		row_open(r, nest, LOOP_SERIAL, first, at,
			 l_min(b, ex_add(b->p, at, l_int(b, 1)), ex_dim(b->p, end)));
}

/* Binds the joint iterators to access AT of their segment. If that access may not exist, a loop of
 * 0 or 1 iterations guards it. */
static void open_joint(Stencil *w, const Joint *j, Expr *at, Nest *nest)
{
	Row *r = w->r;
	LBuild *b = r->b;
	const int first = j->of[0], vector = w->vector;
	Dim *extent = r->band->iter[first]->extent;
	Iter *in[MAX_ITERS], *e = l_iter(b, "e", dim_const(b->k->ctx, j->run.size / vector));
	Expr *end = l_int(b, j->run.size / vector), *left;

	if (!dim_multiple(b->k->ctx, extent, w->size[first])) {
		left = ex_mul(b->p, ex_sub(b->p, ex_dim(b->p, extent), w->from[first]),
			      l_int(b, j->run.inner));
		end = l_min(b, end, ex_op2(b->p, IN_floordiv, left, l_int(b, vector)));
	}
	row_open(r, nest, LOOP_SERIAL, e, l_max(b, at, l_int(b, 0)),
		 l_min(b, ex_add(b->p, at, l_int(b, 1)), end));
	for (int i = 0; i < j->n; i++)
		in[i] = w->in[j->of[i]];
	l_split(b, in, j->n, ex_iter(b->p, e));
	for (int i = 0; i < j->n; i++)
		place_point(w, j->of[i]);
}

/* Opens the loops of a thread over its points; a loop has no iteration past the end of the tile. */
static Nest open_points(Stencil *w)
{
	Row *r = w->r;
	const Joint j = joint_points(w);
	const StencilRun alone = {.threads = w->size[w->along] / w->vector};
	Iter *in[MAX_ITERS + 1];
	Nest nest = {.n = 0};
	int n = 0;

	for (int i = 0; i < r->band->n; i++)
		if (!is_joint(&j, i) && (j.n || i != w->along))
			in[n++] = w->in[i];
	open_runs(r, j.n ? &j.run : &alone, in, n, &nest);
	if (!j.n)
		l_let(r->b, w->in[w->along], ex_iter(r->b->p, in[n]));
	for (int i = 0; i < r->band->n; i++)
		if (!is_joint(&j, i))
			open_point(w, i, &nest);
	if (j.n)
		open_joint(w, &j, open_times(r, &w->out, &j.run, &j.begin, in[n], &nest), &nest);
	return nest;
}

/* ---- The statements at each point ---- */

/* The value of S, which reads its input tiles. */
static Expr *from_boxes(const Stencil *w, const Stmt *s)
{
	LBuild *b = w->r->b;
	Staged of[MOST_BOXES];
	int n = 0;

	for (const InputTile *x = w->box; x < w->box + w->n; x++) {
		Expr *at = l_int(b, 0);

		for (int j = 0; j < x->buf->rank && x->s == s; j++) {
			const int d = x->dim[j];

			at = at_point(w, x, d, ex_mul(b->p, at, l_int(b, stencil_side(w, x, d))));
		}
		if (x->s == s)
			of[n++] = (Staged){x->load, x->tile, at};
	}
	return gpu_from_copies(b->p, s->val[0], of, n);
}

/* Keeps the elements of a temporary at the thread's adjacent points in registers. */
static void keep_elements(Stencil *w, const Stmt *s)
{
	Buf *b = gpu_hold(w->r, s, s->out[0],
			  &(Held){.along = w->along, .rows = -1, .many = w->elem->extent});

	if (b)
		gpu_declare(w->r->b, b, NULL);
}

static void open_elements(Stencil *w, Nest *nest)
{
	row_open(w->r, nest, LOOP_VECTOR, w->elem, l_int(w->r->b, 0), l_int(w->r->b, w->vector));
	nest->loop[nest->n - 1]->share.vector = w->vector;
}

/* One row of taps is unrolled, not all of them: ptxas would hoist all of their loads and run out of
 * registers. */
static LoopKind tap_loop(const Stmt *s, int i)
{
	enum { ROW = 16 };
	int64_t n;

	return i + 1 == s->niters && dim_is_const(s->iter[i]->extent, &n) && n <= ROW ? LOOP_UNROLL
										      : LOOP_SERIAL;
}

/* Emits the sums of the thread's adjacent points: for each tap, under one guard, a term of each
 * sum. */
static void sum_elements(Stencil *w, Stmt *s)
{
	Row *r = w->r;
	Expr *zero = l_int(r->b, 0), *at = ex_iter(r->b->p, w->elem),
	     *val = row_placed(r, s->val[0]);
	Nest taps = {.n = 0}, in = {.n = 0};
	Buf *acc[2];

	row_declare_state(r, s, acc, w->elem->extent);
	open_elements(w, &in);
	row_init_state(r, s, acc, at);
	row_close(r, &in);
	for (int i = s->nband; i < s->niters; i++)
		row_open(r, &taps, tap_loop(s, i), s->iter[i], zero, row_extent(r, s->iter[i]));
	open_elements(w, &in);
	row_does(r, row_state_node(r, LN_UPDATE, s, acc, at, &val, row_placed(r, s->guard)), s,
		 PART_TERM, s->niters, NULL);
	row_close(r, &in);
	row_close(r, &taps);
	open_elements(w, &in);
	row_store_state(r, s, acc, at);
	row_close(r, &in);
}

static void map_elements(Stencil *w, Stmt *s)
{
	Row *r = w->r;
	Nest in = {.n = 0};
	Buf *out;
	Expr *at;

	open_elements(w, &in);
	at = row_write_index(r, s, 0, &out);
	row_does(r, l_store(r->b, out, at, row_placed(r, s->val[0]), NULL), s, PART_WRITE,
		 s->niters, NULL);
	row_close(r, &in);
}

/* Emits the computation of each thread's points from the input tiles. */
static void emit_points(Stencil *w)
{
	Row *r = w->r;
	Nest nest = open_points(w);
	const int64_t taps = row_taps(r->k->stmts.at[r->first]);

	r->v0 = first_along(w, w->along);
	r->unrolled = taps > 0 && taps <= MOST_TAPS;
	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i], boxed = *s;

		boxed.val[0] = from_boxes(w, s);
		if (w->vector == 1) {
			gpu_row_stmt(r, s, &boxed);
			continue;
		}
		row_begin(r, s);
		keep_elements(w, s);
		r->s = &boxed;
		(s->red ? sum_elements : map_elements)(w, &boxed);
	}
	row_close(r, &nest);
}

void stencil_emit(Stencil *w)
{
	w->vector = w->out.buf ? stencil_run(w, &w->out).vector : 1;
	w->elem = l_iter(w->r->b, "v", dim_const(w->r->k->ctx, w->vector));
	place_band(w);
	for (int i = 0; i < w->n; i++)
		fetch(w, &w->box[i]);
	emit_points(w);
}
