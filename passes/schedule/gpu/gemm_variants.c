/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variants of products on GPUs whose sizes are known only at run time, four at most. One is for one
 * row, where a model decodes, and one for few rows: they read the matrix once
 * (passes/schedule/gpu/skinny.c). The one for few rows would multiply the matrix by 8 rows where
 * there is one, unless its rows lie along the sum. A matrix in the order of fragments is read in
 * tiles, for one row as for 8. If rows in memory have an unknown length, one is for runs in which
 * they are whole vectors (multiples.c). Else one is for few results, batch x rows x columns: their
 * number decides how much work an SM gets, and so the tile and the number of split-K parts. The
 * last one is for all other runs. A variant is planned for a size in the middle of its range, a
 * power of two: whether that size is a multiple of a tile says nothing about other sizes. A variant
 * of a tile that saves little by the model of passes/schedule/gpu/gemm_choose.c is left out.
 */
#include "passes/schedule/gpu/gemm_impl.h"

#include <math.h>

enum {
	FEWEST = 16,   /* least rows and columns that a tile is planned for */
	REST = 131072, /* results per SM that the last variant is planned for */
	SUM = 4096,    /* terms assumed of a sum without bound */
	FEW_RESULTS = 8192 /* results per SM */
};

/* a variant must take at most this part of the time, as the model is rough */
static const double WORTH = 0.8;

/* For the few rows of STEP, K is scheduled for thread groups, which read the matrix once. A thread
 * for each result would be no better than tiles. */
static bool by_groups(const Target *t, Kernel *k, SizeStep *step)
{
	Schedule s = {.kernel = k, .where = *step};

	sched_gpu(t, k, &s);
	return s.stages.n && s.stages.at[0]->block.group > 1;
}

bool gemm_gpu_variant(const Target *t, Kernel *k, const SizeStep *step, GpuGemm *g,
		      ProductVariant *v)
{
	Schedule *s = NEW(k->arena, Schedule);

	*s = (Schedule){.kernel = k, .where = *step};
	if (step->nof)
		gpu_take_multiples(k, &s->where);
	return gemm_gpu_open(g, t, k, k->stmts.n - 1, s) && gemm_gpu_plan(g, v) > 0;
}

/* The tile for the runs of STEP saves time in relation to that for all runs, which is no smaller;
 * or, for runs of whole vectors, its accesses are wider. */
static bool saves(const Target *t, Kernel *k, SizeStep *step)
{
	GpuGemm all, g;
	ProductVariant plan_all, plan;

	if (!gemm_gpu_variant(t, kernel_clone(k, k->arena), &(SizeStep){0}, &all, &plan_all))
		return false;
	if (!step->nof)
		step->tile = plan_all.s.bm * plan_all.s.bn;
	if (!gemm_gpu_variant(t, kernel_clone(k, k->arena), step, &g, &plan))
		return false;
	return step->nof ? g.a.vector > all.a.vector || g.b.vector > all.b.vector
			 : gemm_gpu_plan(&g, &plan) < WORTH * gemm_gpu_cost(&g, &plan_all);
}

Dim *gemm_gpu_rows(Kernel *k, const Form *f)
{
	return iters_points(k->ctx, f->c.m, f->c.nm);
}

Dim *gemm_gpu_results(Kernel *k, const Form *f)
{
	return dim_mul(k->ctx, gemm_gpu_rows(k, f),
		       dim_mul(k->ctx, iters_points(k->ctx, f->c.n, f->c.nn),
			       iters_points(k->ctx, f->c.g, f->c.ng)));
}

int gemm_gpu_steps(const Target *t, Kernel *k, SizeStep *step)
{
	const Form f = form_of_stmt(k, k->stmts.at[0]);
	Dim *rows = gemm_gpu_rows(k, &f);
	static const int64_t few[] = {1, 8};
	Arena *tmp = arena_new();
	Fragments fragments;
	const bool tiles = fragments_find(k, &f.c, f.c.b, f.c.n, f.c.nn, &fragments);
	int n = 0, more;

	for (int i = tiles || gpu_skinny_along(k, &f.c); i < 2; i++) {
		more = gpu_add_step(k->ctx, step, n, rows, few[i]);
		n += more > n && (tiles ? saves : by_groups)(t, kernel_clone(k, tmp), &step[n]);
	}
	step[n] = (SizeStep){0};
	if (gpu_multiples(k, &step[n])) {
		n += saves(t, kernel_clone(k, tmp), &step[n]);
	} else {
		more = gpu_add_step(k->ctx, step, n, gemm_gpu_results(k, &f),
				    (int64_t)FEW_RESULTS * t->gpu->sms);
		n += more > n && saves(t, kernel_clone(k, tmp), &step[n]);
	}
	arena_free(tmp);
	return n;
}

/* Upper bound of the results of G in the runs that its schedule serves; DIM_INF: unknown. */
static int64_t most_results(const GpuGemm *g)
{
	Gemm *x = (Gemm *)(uintptr_t)&g->g;
	Ctx *c = x->p.k->ctx;
	Dim *all = dim_mul(c, dim_mul(c, x->p.m, x->p.n),
			   iters_points(x->p.k->ctx, x->p.c.g, x->p.c.ng)),
	    *q;
	int64_t lo, hi, each;

	dim_bounds(c, all, &lo, &hi);
	if (!g->serves->where.size || !dim_divides(c, all, g->serves->where.size, &q))
		return hi;
	dim_bounds(c, q, &lo, &each);
	return each < hi / g->serves->where.most ? each * g->serves->where.most : hi;
}

bool gemm_gpu_bounded(const GpuGemm *g)
{
	return most_results(g) < DIM_INF;
}

/* Grows size I by factor BY, at most to MOST[i], and divides *ROOM by the growth. */
static void grow(double size[4], const double most[4], int i, double by, double *room)
{
	const double was = size[i], to = fmin(most[i], was * fmax(by, 1));

	*room /= to / was;
	size[i] = to < most[i] ? fmax(was, exp2(floor(log2(to)))) : to;
}

void gemm_gpu_sizes(const GpuGemm *g, double size[4])
{
	Gemm *x = (Gemm *)(uintptr_t)&g->g;
	Dim *d[] = {x->p.m, x->p.n, x->p.kk, iters_points(x->p.k->ctx, x->p.c.g, x->p.c.ng)};
	const int64_t all = most_results(g);
	double most[4], room;
	int64_t lo, hi;

	for (int i = 0; i < 4; i++) {
		dim_bounds(x->p.k->ctx, d[i], &lo, &hi);
		size[i] = (double)(lo == hi ? hi : gpu_least(x->p.k->ctx, d[i]));
		most[i] = hi < DIM_INF ? fmax((double)hi, 1) : HUGE_VAL;
		if (d[i] == g->serves->where.also)
			most[i] = fmin(most[i], (double)g->serves->where.also_most);
		if (d[i] == g->serves->where.size)
			size[i] = most[i] = fmin(most[i], (double)g->serves->where.most);
		else if (i < 2 && size[i] < (double)FEWEST)
			size[i] = fmin(most[i], (double)FEWEST);
	}
	if (g->serves->parts) {
		size[2] = most[2] = (double)SUM / (double)g->serves->parts;
		size[3] *= (double)g->serves->parts;
	}
	size[2] = fmax(size[2], fmin(most[2], (double)SUM));
	room = all < DIM_INF && g->serves->where.size ? (double)all / 2
	       : all < DIM_INF                        ? (double)all
						      : (double)REST * x->t->gpu->sms;
	room /= size[0] * size[1] * size[3];
	grow(size, most, 0, most[1] > size[1] ? sqrt(room) : room, &room);
	grow(size, most, 1, room, &room);
	grow(size, most, 0, room, &room);
	grow(size, most, 3, room, &room);
}
