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

void sched_gpu(const Target *t, Kernel *k, Schedule *s)
{
	LBuild b = {.sched = s, .k = k, .p = k->pool, .arena = k->arena, .stmt = -1};
	KernelClass c = kernel_class(k);
	Band band;

	if (c == KC_CONTRACTION && sched_gpu_contraction(t, k, s))
		return;
	if (c != KC_OTHER && !all_maps(k) && !any_packed(k)) {
		band_of(k, k->arena, &band);
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
		own_band(k, st, &band);
		gpu_row(&b, t->gpu, "order", i, i, &band);
	}
}
