/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules for GPUs. A stage is a launch, and a team of threads has each of its iterations (ir/loop.h):
 *
 *   map     statements that store each element once (passes/gpu_map.c); turn: that read along other iterators than
 *           they write (passes/gpu_turn.c)
 *   fold    a reduction across memory, and what follows it point by point (passes/gpu_fold.c)
 *   row     statements under their common band (passes/gpu_row.c)
 *   order   what is left, statement after statement, a thread for each point of its band; for what must keep its
 *           order (scatters) that is one thread
 */
#include "passes/gpu_impl.h"

static bool all_maps(const Kernel *k)
{
	for (int i = 0; i < k->stmts.n; i++)
		if (!gpu_is_map(k->stmts.at[i]) || k->stmts.at[i]->out[0]->kind == BUF_TEMP)
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
static void leave_batch(Kernel *k, Band *band)
{
	enum { MOST = 8 };
	Contraction c;
	int64_t v;

	AlongSum x = {k, &c, false};

	if (!stmt_contraction(k, k->stmts.at[0], &c))
		return;
	ex_walk(c.b, along_sum, &x);
	if (!x.yes)
		return;
	for (int b = 0; b < band->n; b++) {
		bool of_a = false;

		for (int i = 0; i < c.nm; i++)
			of_a = of_a || band->of[0][b] == c.m[i];
		if (c.nm != 1 || !c.nn || !of_a || !dim_is_const(band->iter[b]->extent, &v) ||
		    v > MOST)
			continue;
		band->n--;
		for (int i = b; i < band->n; i++)
			band->iter[i] = band->iter[i + 1];
		for (int s = 0; s < k->stmts.n; s++)
			for (int i = b; i < band->n; i++)
				band->of[s][i] = band->of[s][i + 1];
		return;
	}
}

void sched_gpu(const Module *m, const Target *t, Kernel *k, Schedule *s)
{
	LBuild b = l_build(k, s);
	KernelClass c = kernel_class(k);
	Band band;

	if (c == KC_CONTRACTION && sched_gpu_contraction(m, t, k, s))
		return;
	if (c != KC_OTHER && !all_maps(k) && !any_packed(k)) {
		band_of(k, k->arena, &band);
		leave_batch(k, &band);
		if (band.n || k->stmts.n == 1) {
			gpu_row(&b, t->gpu, "row", 0, k->stmts.n - 1, &band);
			return;
		}
	}
	for (int i = 0; i < k->stmts.n; i++) {
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
