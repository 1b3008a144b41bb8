/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules for GPUs. A stage is a launch, and a thread group has each of its iterations
 * (ir/loop/loop.h). The strategies:
 *
 *   map               statements that store each element once (map.c)
 *   transpose         maps whose loads are contiguous along other iterators than their store
 *                     (transpose.c)
 *   column reduction  a reduction across memory, and the maps that follow it (columns_reduce.c)
 *   columns           several column reductions over the same elements: a softmax over an outer
 *                     axis (columns.c)
 *   stencil           short sums whose terms adjacent points share: depthwise convolutions, pools
 *                     (stencil.c)
 *   row               statements under their common band: softmax, norms, reductions (row.c,
 *                     group.c); short columns of small panels (small_panels.c)
 *   contraction       matrix products in tiles of shared memory, and the maps that follow them
 *                     (gemm.c); products of few rows (skinny.c)
 *   scatter           updates at indices that are data (scatter.c)
 *   attention         two products with a softmax between them, in one launch (attention.c). It and
 *                     contractions have decisions (passes/schedule/common/decision.h); the others
 *                     choose as they emit
 *   order             everything else: statement after statement, a thread for each point of the
 *                     band, or one thread if the order of points matters
 *
 * The strategies share how accesses are aligned to sectors, how a block stages elements that it
 * reads several times, and holds temporaries between statements (stage.c).
 *
 * A kernel whose schedule leaves SMs without a block is scheduled again with its long sums in parts
 * (split.c). A kernel whose threads would pass rows of temporaries through memory is scheduled
 * again without those (recompute.c).
 *
 * Products of sizes that are not known have variants (gemm_variants.c), of which a run takes the
 * first whose guard holds. Rows of unknown length have variants, too: for a warp, for a block, or
 * transposed in tiles of some shapes. Of two equal variants one is left out.
 *
 * A block plans for the shared memory that it gets on every GPU that runs the code. A schedule that
 * could use more has another variant before it, for GPUs that give a block as much as the target
 * does: it keeps more of a long row in shared memory.
 */
#include "passes/schedule/common/gemm.h"
#include "passes/schedule/gpu/gpu_impl.h"

static bool all_maps(const Kernel *k, int first, int last)
{
	if (first == last)
		return stmt_is_map(k->stmts.at[first]);
	for (int i = first; i <= last; i++)
		if (!stmt_is_map(k->stmts.at[i]) || k->stmts.at[i]->out[0]->kind == BUF_TEMP)
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

int64_t gpu_least(Ctx *c, const Dim *d)
{
	int64_t v;

	if (!dim_least(c, d, &v))
		return DIM_INF;
	return v > 1 ? v : 1;
}

int gpu_add_step(Ctx *c, SizeStep *step, int n, Dim *size, int64_t most)
{
	int64_t lo, hi;

	dim_bounds(c, size, &lo, &hi);
	if (lo < hi && most >= gpu_least(c, size) && most < hi && n < MOST_STEPS)
		step[n++] = (SizeStep){.size = size, .most = most};
	return n;
}

/* Variants for rows, by their length: rows of which each lane of a warp has a few elements, rows
 * that a warp keeps in registers, and rows for blocks of two sizes; longer ones get the largest
 * block. Transposed rows have tiles of other shapes where they are short. */
static int row_steps(Kernel *k, SizeStep *step)
{
	static const int64_t length[] = {128, 1024, 2048, 4096},
			     transposed[] = {TRANSPOSE_SHORT, TRANSPOSE_MIDDLE};
	Dim *size = gpu_row_length(k), *row = size ? NULL : gpu_map_row(k);
	int n = 0;

	for (size_t i = 0; size && i < sizeof length / sizeof *length; i++)
		n = gpu_add_step(k->ctx, step, n, size, length[i]);
	for (size_t i = 0; row && i < sizeof transposed / sizeof *transposed; i++)
		n = gpu_add_step(k->ctx, step, n, row, transposed[i]);
	return n;
}

int sched_gpu_steps(const Target *t, Kernel *k, SizeStep *step)
{
	return !t->gpu                              ? 0
	       : kernel_kind(k) == FORM_CONTRACTION ? gemm_gpu_steps(t, k, step)
						    : row_steps(k, step);
}

/* Schedules statements FIRST..LAST as one stage, or, if no strategy takes them together, one by
 * one. */
static void stages(const Target *t, Kernel *k, int first, int last, Schedule *s)
{
	LBuild b = l_build(k, s);
	FormKind c = stmts_kind(k, first, last);
	SkinnyRows skinny;
	Band band;

	if (first == 0 && sched_gpu_contraction(t, k, last, s))
		return;
	if (c != FORM_ORDER && !all_maps(k, first, last) && !any_packed(k, first, last)) {
		band_of_some(k, first, last, k->arena, &band);
		gpu_skinny_rows(s, k, first, &band, &skinny);
		if (band.n || first == last || band_is_rows(k, first, last, &band)) {
			gpu_row(&b, t->gpu, "row", first, last, &band, &skinny);
			return;
		}
	}
	for (int i = first; i <= last; i++) {
		Stmt *st = k->stmts.at[i];

		if ((stmt_is_map(st) && gpu_map(&b, st)) || gpu_scatter(&b, st))
			continue;
		band_of_one(k, st, &band);
		if (row_packed(st))
			band.n = 0; /* points share bytes */
		skinny = (SkinnyRows){.rows = dim_const(k->ctx, 1)};
		gpu_row(&b, t->gpu, "order", i, i, &band, &skinny);
	}
}

/* Stages that may run at the same time are one launch. */
static void merge_launches(Schedule *s)
{
	for (int i = 1, first = 0; i < s->stages.n; i++) {
		s->stages.at[i]->block.beside = stages_beside(s, first, i);
		first = s->stages.at[i]->block.beside ? first : i;
	}
}

static void all_stages(const Target *t, Kernel *k, Schedule *s)
{
	Kernel *other = gpu_may_split(k) || gpu_may_recompute(k) ? kernel_clone(k, k->arena) : NULL;
	int all = 0, *first = &all, n = 1;

	stages(t, k, 0, k->stmts.n - 1, s);
	if (!other || (!gpu_split(t, other, s, &first, &n) && !gpu_recompute(other, s)))
		return;
	*s = (Schedule){.kernel = other,
			.split = kernel_clone(other, k->arena),
			.where = s->where,
			.parts = s->parts,
			.short_of_shared = s->short_of_shared};
	if (n == 2 && sched_gpu_in_parts(t, other, s))
		return;
	for (int i = 0; i < n; i++)
		stages(t, other, first[i], i + 1 < n ? first[i + 1] - 1 : other->stmts.n - 1, s);
}

void sched_gpu(const Target *t, Kernel *k, Schedule *s)
{
	all_stages(t, k, s);
	merge_launches(s);
}
