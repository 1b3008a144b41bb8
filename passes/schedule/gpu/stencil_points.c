/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The points of a stencil's block, once its input tiles are in shared memory
 * (passes/schedule/gpu/stencil.c). A thread has one point at a time, or several that are adjacent
 * in memory. One vector access then loads a tap for all of them, and the guard is tested once:
 *
 *   for each row of taps
 *     for each tap, unrolled, where it is inside the input
 *       for the adjacent points: a term of each one's sum
 */
#include "passes/schedule/gpu/stencil_impl.h"

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

		at[d] = stencil_at(w, x, d, stencil_from(w, x, d, &whole));
	}
	for (int i = j.run.outer; i < x->buf->rank; i++) {
		const Affine *a = &x->at[x->dim[i]];
		const int k = a->n ? band_index(w->r->band, x->s, a->iter[0]) : -1;

		if (a->n > 1 || (a->n && (stencil_stride(a, 0) != 1 || is_joint(&j, k))))
			return none;
		if (a->n)
			j.of[j.n++] = k;
	}
	j.begin = stencil_begin(w, x, &j.run, at);
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

/* Binds the joint iterators to access AT of their segment. If that access may not exist, a loop of 0
 * or 1 iterations guards it. */
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
	stencil_open_runs(r, j.n ? &j.run : &alone, in, n, &nest);
	if (!j.n)
		l_let(r->b, w->in[w->along], ex_iter(r->b->p, in[n]));
	for (int i = 0; i < r->band->n; i++)
		if (!is_joint(&j, i))
			open_point(w, i, &nest);
	if (j.n)
		open_joint(w, &j, stencil_open_times(r, &w->out, &j.run, &j.begin, in[n], &nest),
			   &nest);
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

			at = stencil_at(w, x, d, ex_mul(b->p, at, l_int(b, stencil_side(w, x, d))));
		}
		if (x->s == s)
			of[n++] = (Staged){x->load, x->tile, at};
	}
	return gpu_from_copies(b->p, s->val[0], of, n);
}

/* Keeps the elements of a temporary at the thread's adjacent points in registers. */
static void keep_elements(Stencil *w, const Stmt *s)
{
	Row *r = w->r;
	Buf *t = s->out[0];
	Held h = {.columns = false};

	if (!row_may_be_local(r, s, t))
		return;
	for (int d = 0; d < t->rank; d++) {
		h.keep[d] = gpu_written_along(r, s, d) == w->along ? KEEP_BLOCK : KEEP_NOT;
		h.size[d] = w->elem->extent;
	}
	gpu_declare(r->b, gpu_hold(r, t, &h), NULL);
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

void stencil_points(Stencil *w)
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
