/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of a window: the block fetches its boxes, then each thread has a point at a time (passes/gpu_window.c). */
#include "passes/gpu_window_impl.h"

static void place_band(Window *w)
{
	Row *r = w->r;
	LBuild *b = r->b;
	Ctx *c = r->k->ctx;
	Iter *split[MAX_ITERS];

	for (int i = 0; i < r->band->n; i++) {
		const Iter *it = r->band->iter[i];

		split[i] = l_iter(b, it->name,
				  dim_ceildiv(c, it->extent, dim_const(c, w->size[i])));
		w->in[i] = l_iter(b, "in", dim_const(c, w->size[i]));
	}
	l_stage(b, "window", iters_points(c, split, r->band->n));
	b->stage->team = b->stage->threads = WINDOW_THREADS;
	l_split(b, split, r->band->n, ex_iter(b->p, b->stage->var));
	for (int i = 0; i < r->band->n; i++)
		w->from[i] = dim_equals(split[i]->extent, 1)
				     ? l_int(b, 0)
				     : ex_mul(b->p, ex_iter(b->p, split[i]), l_int(b, w->size[i]));
}

/* Where the box begins along D, and, in *WHOLE, that all of it is in the buffer. */
static Expr *box_from(const Window *w, const Box *x, int d, bool *whole)
{
	LBuild *b = w->r->b;
	Ctx *c = w->r->k->ctx;
	const Affine *a = &x->at[d];
	Expr *at = ex_dim(b->p, a->base);

	*whole = dim_equals(a->base, 0) &&
		 (!a->n || (a->n == 1 && window_stride(a, 0) == 1 &&
			    dim_prove_le(c, a->iter[0]->extent, x->buf->dims[d])));
	for (int i = 0; i < a->n; i++) {
		const int k = band_index(w->r->band, x->s, a->iter[i]);

		if (k < 0)
			continue;
		at = ex_add(b->p, at,
			    ex_mul(b->p, w->from[k], ex_int(b->p, CT_I64, window_stride(a, i))));
		*whole = *whole && dim_multiple(c, a->iter[i]->extent, w->size[k]);
	}
	return at;
}

static Expr *inside(LBuild *b, Expr *guard, Expr *at, Dim *n)
{
	return ex_and(b->p, guard, ex_inside(b->p, at, ex_dim(b->p, n)));
}

/* Where a run begins in the buffer along its dims, and, by the dims before, in memory. */
typedef struct Begin {
	Expr *from, *before;
	bool whole; /* all of it is in the buffer */
} Begin;

/* AT: where run Y of X is along the dims before it. */
static Begin run_begin(const Window *w, const Box *x, const Run *y, Expr **at)
{
	LBuild *b = w->r->b;
	Begin g;

	for (int i = y->outer; i < x->buf->rank; i++)
		at[x->dim[i]] = l_int(b, 0);
	g.before = flat_index(b->k, x->buf, at);
	g.from = ex_mul(b->p, box_from(w, x, x->dim[y->outer], &g.whole), l_int(b, y->inner));
	return g;
}

/* ---- Fetching ---- */

/* The loop over the PACK elements of the access at *AT, along a dim of EXTENT, where *GUARD holds. Then *AT is one of them, and
 * *TO its place in the tile. */
static LNode *open_access(LBuild *b, Dim *extent, int pack, Expr **at, Expr **to, Expr **guard)
{
	Iter *v = l_iter(b, "v", extent);
	Expr *lo = *at, *hi = ex_add(b->p, lo, l_int(b, pack));
	LNode *loop;

	if (*guard)
		hi = ex_op3(b->p, IN_select, *guard, hi, lo);
	*guard = NULL;
	loop = l_loop(b, LOOP_VECTOR, v, lo, hi, 1);
	loop->pack = pack;
	*at = ex_iter(b->p, v);
	*to = ex_add(b->p, *to, ex_sub(b->p, *at, lo));
	return loop;
}

/* Element E of the run, AT along its dims of the buffer, is one that there is. */
static Expr *in_run(LBuild *b, const Run *y, const Begin *g, Expr *guard, Expr *at, Expr *e)
{
	Expr *lo = l_int(b, 0), *hi = l_int(b, y->size);

	if (!y->skewed)
		return g->whole ? guard : inside(b, guard, at, y->extent);
	if (!g->whole) {
		lo = l_max(b, lo, ex_sub(b->p, lo, g->from));
		hi = l_min(b, hi, ex_sub(b->p, ex_dim(b->p, y->extent), g->from));
	}
	guard = ex_and(b->p, guard, ex_op2(b->p, IN_ge, e, lo));
	return ex_and(b->p, guard, ex_op2(b->p, IN_lt, e, hi));
}

/* The threads that runs Y are shared out between; IN: N iterators, which say what run it is, and room for the thread's own. */
static void open_runs(Row *r, const Run *y, Iter **in, int n, Nest *nest)
{
	LBuild *b = r->b;
	Dim *all;
	Iter *t;

	in[n] = l_iter(b, "b", dim_const(b->k->ctx, y->few));
	all = iters_points(b->k->ctx, in, n + 1);
	t = l_iter(b, "t", all);
	row_open(r, nest, LOOP_TEAM, t, l_int(b, 0), ex_dim(b->p, all));
	l_split(b, in, n + 1, ex_iter(b->p, t));
}

/* The accesses of thread LANE of run Y; the element of the run that one begins with. */
static Expr *open_times(Row *r, const Box *x, const Run *y, const Begin *g, Iter *lane, Nest *nest)
{
	LBuild *b = r->b;
	const int sector = SECTOR / window_bytes(x);
	const LoopKind kind = x->load ? LOOP_UNROLL : LOOP_SERIAL;
	Iter *u = l_iter(b, "u", dim_const(b->k->ctx, y->times)),
	     *skew = l_iter(b, "skew", dim_const(b->k->ctx, sector));
	Expr *e = ex_iter(b->p, lane);

	if (y->skewed)
		l_let(b, skew,
		      ex_op2(b->p, IN_mod, ex_add(b->p, g->before, g->from), l_int(b, sector)));
	if (y->times > 1) {
		row_open(r, nest, kind, u, l_int(b, 0), l_int(b, y->times));
		e = ex_add(b->p, e, ex_mul(b->p, ex_iter(b->p, u), l_int(b, y->few)));
	}
	e = ex_mul(b->p, e, l_int(b, y->pack));
	return y->skewed ? ex_sub(b->p, e, ex_iter(b->p, skew)) : e;
}

static void fetch(Window *w, Box *x)
{
	LBuild *b = w->r->b;
	const Run y = window_run(w, x);
	Dim *cells = dim_const(b->k->ctx, y.runs * y.size);
	Iter *in[MAX_RANK];
	Expr *at[MAX_RANK], *guard = NULL, *to = l_int(b, 0), *e, *place;
	Nest nest = {.n = 0};
	Begin g;

	for (int i = 0; i < y.outer; i++) {
		const int d = x->dim[i];
		const int64_t n = window_side(w, x, d);
		bool whole;

		in[i] = l_iter(b, "b", dim_const(b->k->ctx, n));
		at[d] = ex_add(b->p, box_from(w, x, d, &whole), ex_iter(b->p, in[i]));
		if (!whole)
			guard = inside(b, guard, at[d], x->buf->dims[d]);
		to = ex_add(b->p, ex_mul(b->p, to, l_int(b, n)), ex_iter(b->p, in[i]));
	}
	g = run_begin(w, x, &y, at);
	x->tile = kernel_temp(b->k, x->buf->name, x->buf->dtype, 1, &cells);
	l_node(b, LN_LOCAL)->buf[0] = x->tile;
	open_runs(w->r, &y, in, y.outer, &nest);
	e = open_times(w->r, x, &y, &g, in[y.outer], &nest);
	place = ex_add(b->p, g.from, e);
	guard = in_run(b, &y, &g, guard, place, e);
	to = ex_add(b->p, ex_mul(b->p, to, l_int(b, y.size)), e);
	if (y.pack > 1)
		nest.loop[nest.n++] = open_access(b, y.extent, y.pack, &place, &to, &guard);
	place = ex_add(b->p, g.before, place);
	l_store(b, x->tile, to, ex_load(b->p, x->load->load.buf, &place, 1), guard);
	row_close(w->r, &nest);
}

typedef struct Boxed {
	Window *w;
	const Stmt *s;
} Boxed;

static Expr *from_box(void *arg, Expr *e)
{
	const Boxed *y = arg;
	const Window *w = y->w;
	ExprPool *p = w->r->b->p;
	Expr *at = ex_int(p, CT_I64, 0);
	const Box *x = w->box;

	while (x < w->box + w->n && (x->load != e || x->s != y->s))
		x++;
	if (x == w->box + w->n)
		return NULL;
	for (int j = 0; j < e->load.buf->rank; j++) {
		const int d = x->dim[j];

		at = ex_mul(p, at, ex_int(p, CT_I64, window_side(w, x, d)));
		for (int i = 0; i < x->at[d].n; i++) {
			Iter *it = x->at[d].iter[i];
			const int k = band_index(w->r->band, x->s, it);

			at = ex_add(p, at,
				    ex_mul(p, ex_iter(p, k < 0 ? it : w->in[k]),
					   ex_int(p, CT_I64, window_stride(&x->at[d], i))));
		}
	}
	return ex_load(p, x->tile, &at, 1);
}

/* ---- Points ---- */

/* Iterators of the band whose points are a run of the result that is skewed: they are shared out as its accesses are. */
typedef struct Joint {
	int of[MAX_ITERS], n; /* outermost first; none: each iterator is on its own */
	Run run;
	Begin begin;
} Joint;

static bool is_joint(const Joint *j, int k)
{
	for (int i = 0; i < j->n; i++)
		if (j->of[i] == k)
			return true;
	return false;
}

/* Where, along dim D, the point of the tile is written. */
static Expr *out_at(const Window *w, int d)
{
	LBuild *b = w->r->b;
	const Affine *a = &w->out.at[d];
	bool whole;
	Expr *at = box_from(w, &w->out, d, &whole);

	for (int i = 0; i < a->n; i++) {
		const int k = band_index(w->r->band, w->out.s, a->iter[i]);

		at = ex_add(b->p, at,
			    ex_mul(b->p, ex_iter(b->p, w->in[k]), l_int(b, window_stride(a, i))));
	}
	return at;
}

static Joint joint_points(const Window *w)
{
	const Box *x = &w->out;
	const Joint none = {.n = 0};
	Joint j = none;
	Expr *at[MAX_RANK];

	if (!x->buf)
		return none;
	j.run = window_run(w, x);
	for (int i = 0; i < j.run.outer; i++)
		at[x->dim[i]] = out_at(w, x->dim[i]);
	for (int i = j.run.outer; i < x->buf->rank; i++) {
		const Affine *a = &x->at[x->dim[i]];
		const int k = a->n ? band_index(w->r->band, x->s, a->iter[0]) : -1;

		if (a->n > 1 || (a->n && (window_stride(a, 0) != 1 || is_joint(&j, k))))
			return none;
		if (a->n)
			j.of[j.n++] = k;
	}
	j.begin = run_begin(w, x, &j.run, at);
	return j.run.skewed ? j : none;
}

/* The stage's iterator K is at a point of the tile, in a loop where that may be past the end. */
static void open_point(Window *w, int k, Nest *nest)
{
	Row *r = w->r;
	LBuild *b = r->b;
	Expr *at = ex_add(b->p, w->from[k], ex_iter(b->p, w->in[k]));
	Dim *end = r->band->iter[k]->extent;

	if (dim_multiple(b->k->ctx, end, w->size[k]))
		l_let(b, r->rep[k], at);
	else
		row_open(r, nest, LOOP_SERIAL, r->rep[k], at,
			 l_min(b, ex_add(b->p, at, l_int(b, 1)), ex_dim(b->p, end)));
}

/* The joint ones are at element AT of their run, in a loop where there may be no such. */
static void open_joint(Window *w, const Joint *j, Expr *at, Nest *nest)
{
	Row *r = w->r;
	LBuild *b = r->b;
	const int first = j->of[0];
	Dim *extent = r->band->iter[first]->extent;
	Iter *in[MAX_ITERS], *e = l_iter(b, "e", dim_const(b->k->ctx, j->run.size));
	Expr *end = l_int(b, j->run.size), *left;

	if (!dim_multiple(b->k->ctx, extent, w->size[first])) {
		left = ex_sub(b->p, ex_dim(b->p, extent), w->from[first]);
		end = l_min(b, end, ex_mul(b->p, left, l_int(b, j->run.inner)));
	}
	row_open(r, nest, LOOP_SERIAL, e, l_max(b, at, l_int(b, 0)),
		 l_min(b, ex_add(b->p, at, l_int(b, 1)), end));
	for (int i = 0; i < j->n; i++)
		in[i] = w->in[j->of[i]];
	l_split(b, in, j->n, ex_iter(b->p, e));
	for (int i = 0; i < j->n; i++)
		l_let(b, r->rep[j->of[i]], ex_add(b->p, w->from[j->of[i]], ex_iter(b->p, in[i])));
}

/* The loops of one thread, each over one point or, past the end of what the tile runs along, none. */
static Nest open_points(Window *w)
{
	Row *r = w->r;
	const Joint j = joint_points(w);
	const Run alone = {.few = w->size[w->along]};
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

static void points(Window *w)
{
	Row *r = w->r;
	Nest nest = open_points(w);

	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i], boxed = *s;
		Boxed y = {w, s};

		boxed.val[0] = ex_rewrite(r->b->p, s->val[0], from_box, &y);
		gpu_row_stmt(r, s, &boxed);
	}
	row_close(r, &nest);
}

void window_emit(Window *w)
{
	Row *r = w->r;

	place_band(w);
	r->unrolled = row_taps(r->k->stmts.at[r->first]) > 0;
	for (int i = 0; i < w->n; i++)
		fetch(w, &w->box[i]);
	points(w);
}
