/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of a stencil: the block fetches its input tiles to shared memory, clipped to the
 * buffers (passes/schedule/gpu/stencil.c).
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

Expr *stencil_from(const Stencil *w, const InputTile *x, int d, bool *whole)
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

Expr *stencil_at(const Stencil *w, const InputTile *x, int d, Expr *at)
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

Begin stencil_begin(const Stencil *w, const InputTile *x, const StencilRun *y, Expr **at)
{
	LBuild *b = w->r->b;
	Begin g;

	for (int i = y->outer; i < x->buf->rank; i++)
		at[x->dim[i]] = l_int(b, 0);
	g.before = flat_index(b->k, x->buf, at);
	g.from = ex_mul(b->p, stencil_from(w, x, x->dim[y->outer], &g.whole), l_int(b, y->inner));
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

void stencil_open_runs(Row *r, const StencilRun *y, Iter **in, int n, Nest *nest)
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

Expr *stencil_open_times(Row *r, const InputTile *x, const StencilRun *y, const Begin *g,
			 Iter *lane, Nest *nest)
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
		at[d] = ex_add(b->p, stencil_from(w, x, d, &whole), ex_iter(b->p, in[i]));
		if (!whole)
			guard = inside(b, guard, at[d], x->buf->dims[d]);
		to = ex_add(b->p, ex_mul(b->p, to, l_int(b, n)), ex_iter(b->p, in[i]));
	}
	g = stencil_begin(w, x, &y, at);
	x->tile = kernel_temp(b->k, x->buf->name, x->buf->dtype, 1, &cells);
	gpu_declare(b, x->tile, NULL);
	stencil_open_runs(w->r, &y, in, y.outer, &nest);
	e = ex_mul(b->p, stencil_open_times(w->r, x, &y, &g, in[y.outer], &nest),
		   l_int(b, y.vector));
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

void stencil_emit(Stencil *w)
{
	w->vector = w->out.buf ? stencil_run(w, &w->out).vector : 1;
	w->elem = l_iter(w->r->b, "v", dim_const(w->r->k->ctx, w->vector));
	place_band(w);
	for (int i = 0; i < w->n; i++)
		fetch(w, &w->box[i]);
	stencil_points(w);
}
