/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules for GPUs. A stage is a launch, and a team of threads has each of its iterations (ir/loop.h):
 *
 *   map     statements that store each element once (passes/gpu_map.c); turn: that read along other iterators than
 *           they write (passes/gpu_turn.c)
 *   fold    a reduction across memory, and what follows it point by point (passes/gpu_fold.c)
 *   window  short sums whose terms neighbours read again (passes/gpu_window.c)
 *   row     statements under their common band (passes/gpu_row.c)
 *   order   what is left, statement after statement, a thread for each point of its band; for what must keep its
 *           order (scatters) that is one thread
 */
#include "passes/gpu_impl.h"

static bool all_maps(const Kernel *k, int first, int last)
{
	if (first == last)
		return gpu_is_map(k->stmts.at[first]);
	for (int i = first; i <= last; i++)
		if (!gpu_is_map(k->stmts.at[i]) || k->stmts.at[i]->out[0]->kind == BUF_TEMP)
			return false;
	return true;
}

static bool any_packed(const Kernel *k, int first, int last)
{
	for (int i = first; i <= last; i++)
		if (row_packed(k->stmts.at[i]))
			return true;
	return false;
}

typedef struct AlongSum {
	Kernel *k;
	const Contraction *c;
	bool yes;
} AlongSum;

static void along_sum(void *arg, Expr *e)
{
	AlongSum *x = arg;
	Affine a;

	if (e->kind != EX_LOAD ||
	    !ex_affine(x->k->ctx, flat_index(x->k, e->load.buf, e->load.idx), &a))
		return;
	for (int i = 0; i < x->c->nk; i++)
		x->yes = x->yes || dim_equals(affine_coef(x->k->ctx, &a, x->c->k[i]), 1);
}

/* Of a product with a small batch whose matrix runs along what is summed, a row has all points of the batch: it reads
 * its row of the matrix once. */
static void leave_batch(Kernel *k, int first, int last, Band *band)
{
	enum { MOST = 8 };
	Contraction c;
	int64_t v;

	AlongSum x = {k, &c, false};

	if (!stmt_contraction(k, k->stmts.at[first], &c))
		return;
	ex_walk(c.b, along_sum, &x);
	if (!x.yes)
		return;
	for (int b = 0; b < band->n; b++) {
		bool of_a = false;

		for (int i = 0; i < c.nm; i++)
			of_a = of_a || band->of[first][b] == c.m[i];
		if (c.nm != 1 || !c.nn || !of_a || !dim_is_const(band->iter[b]->extent, &v) ||
		    v > MOST)
			continue;
		band->n--;
		for (int i = b; i < band->n; i++)
			band->iter[i] = band->iter[i + 1];
		for (int s = first; s <= last; s++)
			for (int i = b; i < band->n; i++)
				band->of[s][i] = band->of[s][i + 1];
		return;
	}
}

/* Statements FIRST..LAST, which what comes before and after them leaves to themselves. */
static void stages(const Module *m, const Target *t, Kernel *k, int first, int last, Schedule *s)
{
	LBuild b = l_build(k, s);
	KernelClass c = kernel_class_of(k, first, last);
	Band band;

	if (c == KC_CONTRACTION && first == 0 && sched_gpu_contraction(m, t, k, last, s))
		return;
	if (c != KC_OTHER && !all_maps(k, first, last) && !any_packed(k, first, last)) {
		band_of_some(k, first, last, k->arena, &band);
		leave_batch(k, first, last, &band);
		if (band.n || first == last || band_is_rows(k, first, last, &band)) {
			gpu_row(&b, t->gpu, "row", first, last, &band);
			return;
		}
	}
	for (int i = first; i <= last; i++) {
		Stmt *st = k->stmts.at[i];

		st->id = i;
		if (gpu_is_map(st) && gpu_map(&b, st))
			continue;
		band_of_one(k, st, &band);
		if (row_packed(st))
			band.n = 0; /* points share bytes */
		gpu_row(&b, t->gpu, "order", i, i, &band);
	}
}

void sched_gpu(const Module *m, const Target *t, Kernel *k, Schedule *s)
{
	Kernel *parts = gpu_may_split(k) ? kernel_clone(k, k->arena) : NULL;
	int *first, n;

	stages(m, t, k, 0, k->stmts.n - 1, s);
	if (!parts || !gpu_split(m, t, parts, s, &first, &n))
		return;
	*s = (Schedule){.kernel = parts, .split = kernel_clone(parts, k->arena)};
	for (int i = 0; i < n; i++)
		stages(m, t, parts, first[i], i + 1 < n ? first[i + 1] - 1 : parts->stmts.n - 1, s);
}
