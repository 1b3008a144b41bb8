/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Variants of products on GPUs whose sizes are known only at run time: for one row and for few
 * rows, which read the matrix once (passes/schedule/gpu/skinny.c), then by the number of results,
 * batch x rows x columns. That number decides how much work an SM gets, and so the tile and the
 * number of split-K parts. A variant is planned for a size in the middle of its range, a power of
 * two: whether that size is a multiple of a tile says nothing about other sizes. A variant that
 * saves little by the model of passes/schedule/gpu/gemm_choose.c is left out.
 */
#include "passes/forms/form.h"
#include "passes/schedule/gpu/gemm_impl.h"
#include "passes/schedule/gpu/gpu_impl.h"

#include <math.h>

enum {
	FEWEST = 16,   /* least rows and columns that a tile is planned for */
	REST = 131072, /* results per SM that the last variant is planned for */
	SHORT = 1024,  /* terms: sums of unknown length that are no longer are not split */
	SUM = 4096     /* terms assumed of a sum without bound */
};

/* a variant must take at most this part of the time, as the model is rough */
static const double WORTH = 0.8;
static const int64_t few_rows[] = {1, 8}, results_each[] = {128, 1024, 8192}; /* results per SM */

/* Precedes each of the N steps by one for short sums, if TERMS is unknown: these must not pay for
 * split-K. */
static int add_short(Ctx *c, SizeStep *step, int n, Dim *terms)
{
	int64_t lo, hi;

	dim_bounds(c, terms, &lo, &hi);
	if (lo == hi || gpu_least(c, terms) > SHORT || hi <= SHORT || 2 * n > MOST_STEPS)
		return n;
	for (int i = n - 1; i >= 0; i--) {
		step[2 * i + 1] = step[i];
		step[2 * i] = (SizeStep){.size = step[i].size,
					 .most = step[i].most,
					 .also = terms,
					 .also_most = SHORT};
	}
	return 2 * n;
}

/* For the few rows of STEP, K is scheduled for thread groups, which read the matrix once. A thread
 * for each result would be no better than tiles. */
static bool by_groups(const Module *m, const Target *t, Kernel *k, const SizeStep *step)
{
	Schedule s = {.kernel = k, .where = *step};

	sched_gpu(m, t, k, &s);
	return s.stages.n && s.stages.at[0]->group > 1;
}

/* Keeps those of the N steps that save time. The first FEW steps, for few rows, stay if thread
 * groups take them; the others if the model predicts a gain over the next variant that serves their
 * runs. No tile may be larger than the next variant's. */
static int worth_having(const Module *m, const Target *t, Kernel *k, SizeStep *step, int few, int n)
{
	Module model = *m;
	GemmPlan plan[MOST_STEPS + 1];
	bool keep[MOST_STEPS + 1];
	Arena *tmp = arena_new();
	int kept = 0;

	model.opt.tiles = NULL;
	model.opt.list_tiles = 0;
	for (int i = 0; i < few; i++)
		keep[i] = by_groups(&model, t, kernel_clone(k, tmp), &step[i]);
	for (int i = n, next; i >= few; i--) {
		Kernel *copy = kernel_clone(k, tmp);
		GpuGemm g;
		Schedule s;
		double cost, other;

		for (next = i + 1; next < n && (!keep[next] || (step[next].also && !step[i].also));)
			next++;
		if (i < n)
			step[i].tile = plan[next].s.bm * plan[next].s.bn;
		s = (Schedule){.kernel = copy, .where = i < n ? step[i] : (SizeStep){0}};
		keep[i] = true;
		plan[i] = (GemmPlan){0};
		if (!gemm_gpu_open(&g, &model.opt, t, copy, copy->stmts.n - 1, &s))
			continue;
		cost = gemm_gpu_plan(&g, &model.opt, &plan[i]);
		other = i < n && plan[next].parts ? gemm_gpu_cost(&g, &plan[next]) : 0;
		keep[i] = other <= 0 || cost < WORTH * other ||
			  (step[i].also && plan[next].parts > 1);
	}
	for (int i = 0; i < n; i++)
		if (keep[i])
			step[kept++] = step[i];
	arena_free(tmp);
	return kept;
}

int gemm_gpu_steps(const Module *m, const Target *t, Kernel *k, SizeStep *step)
{
	Form f;
	Dim *rows, *others;
	int64_t least;
	int n = 0, few, all;

	if (kernel_kind(k) != FORM_CONTRACTION)
		return 0;
	f = form_of_stmt(k, k->stmts.at[0]);
	rows = iters_points(k->ctx, f.c.m, f.c.nm);
	others = dim_mul(k->ctx, iters_points(k->ctx, f.c.n, f.c.nn),
			 iters_points(k->ctx, f.c.g, f.c.ng));
	for (size_t i = 0; i < sizeof few_rows / sizeof *few_rows; i++)
		n = gpu_add_step(k->ctx, step, n, rows, few_rows[i]);
	few = n;
	least = gpu_least(k->ctx, rows);
	if (n && least < GEMM_ROWS)
		least = GEMM_ROWS;
	for (size_t i = 0; i < sizeof results_each / sizeof *results_each; i++)
		if (gpu_least(k->ctx, others) <= results_each[i] * t->gpu->sms / least)
			n = gpu_add_step(k->ctx, step, n, dim_mul(k->ctx, rows, others),
					 results_each[i] * t->gpu->sms);
	all = add_short(k->ctx, step, n, iters_points(k->ctx, f.c.k, f.c.nk));
	return worth_having(m, t, k, step, n ? few * all / n : 0, all);
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
