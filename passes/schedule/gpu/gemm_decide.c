/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy *product* on GPUs as decisions: chooses the variants of a product (gemm_variants.c)
 * and their tiles, by the model of gemm_choose.c, says which decisions of a user are legal, and
 * offers others. gemm_block.c builds the trees.
 */
#include "passes/schedule/gpu/gemm_impl.h"

#include "base/round.h"

#include <string.h>

enum {
	MOST_THREADS = 512,
	MOST_BUFFERS = 8,
	MOST_SIDE = 512, /* rows or columns of a block */
	FEWEST_TERM_BYTES = 32,
	MOST_TERM_BYTES = 128
};

/* The runs of variant V, in sizes of K. */
static SizeStep step_of(Kernel *k, const ProductVariant *v)
{
	const Form f = form_of_stmt(k, k->stmts.at[0]);
	SizeStep step = {0};

	if (v->multiples)
		gpu_multiples(k, &step);
	if (v->rows || v->results) {
		step.size = v->rows ? gemm_gpu_rows(k, &f) : gemm_gpu_results(k, &f);
		step.most = v->rows ? v->rows : v->results;
	}
	if (v->rows && v->results) {
		step.also = gemm_gpu_results(k, &f);
		step.also_most = v->results;
	}
	return step;
}

bool gpu_product_choose(const Target *t, Kernel *k, Decision *d)
{
	SizeStep step[MOST_STEPS];
	int n;

	if (kernel_kind(k) != FORM_CONTRACTION)
		return false;
	n = gemm_gpu_steps(t, k, step);
	step[n++] = (SizeStep){0};
	for (int i = 0; i < n; i++) {
		Kernel *copy = kernel_clone(k, k->arena);
		ProductVariant *v = &d->gpu_product.variant[d->gpu_product.n++];
		const Form f = form_of_stmt(k, k->stmts.at[0]);
		const bool rows = step[i].size && step[i].size == gemm_gpu_rows(k, &f);
		GpuGemm g;

		if (!gemm_gpu_variant(t, copy, &step[i], &g, v)) {
			if (!rows)
				return false;
			*v = (ProductVariant){.skinny = true};
		}
		*(rows ? &v->rows : &v->results) = step[i].most;
	}
	return true;
}

/* ---- Legality ---- */

static bool power_of_two(int n)
{
	return n > 0 && (n & (n - 1)) == 0;
}

static bool wgmma_is_legal(const GpuGemm *g, const ProductVariant *v, StrBuf *why)
{
	const BlockShape s = v->s;
	enum { GROUP = GROUP_WARPS * WARP };
	const int row = TILE_ATOM / ATOM_ROWS, bytes = dtype_bytes(g->a.type);

	if (g->a.lanes || g->b.lanes)
		return decision_refuse(why, "%s does not read constants in the order of fragments",
				       mma_info[v->s.kind].name);
	if (s.producers > GROUP || (s.producers && s.stages < 3))
		return decision_refuse(why, "%s",
				       s.producers > GROUP
					       ? "a block has at most 1 warpgroup of producers"
					       : "with producers there are at least 3 buffers");
	if (s.bn > MOST_WGMMA)
		return decision_refuse(why, "%d columns of an instruction are more than %d", s.bn,
				       MOST_WGMMA);
	if (s.bk * bytes != row || (!g->b.along && s.bn * bytes % row))
		return decision_refuse(why, "rows of %d bytes are not multiples of %d",
				       s.bk * bytes != row ? s.bk * bytes : s.bn * bytes, row);
	return true;
}

static bool shape_is_legal(const GpuGemm *g, const ProductVariant *v, StrBuf *why)
{
	const BlockShape s = v->s;
	const int bytes = (int)dtype_size(g->a.type, s.bk), columns = s.bn / s.wn;

	if (!power_of_two(s.wm) || !power_of_two(s.wn) || !power_of_two(s.bm) ||
	    !power_of_two(columns) || !power_of_two(s.bk) || columns < MMA_ROWS)
		return decision_refuse(
			why, "warps and digits are not powers of two, or n has less than reg2");
	if (gemm_gpu_threads(&s) > MOST_THREADS || s.bm > MOST_SIDE || s.bn > MOST_SIDE)
		return decision_refuse(
			why, "a block of %d by %d by %d threads is more than %d by %d by %d", s.bm,
			s.bn, gemm_gpu_threads(&s), MOST_SIDE, MOST_SIDE, MOST_THREADS);
	if (bytes < FEWEST_TERM_BYTES || bytes > MOST_TERM_BYTES)
		return decision_refuse(why, "%d terms of an iteration are not %d to %d bytes", s.bk,
				       FEWEST_TERM_BYTES, MOST_TERM_BYTES);
	if ((g->a.lanes || g->b.lanes) && bytes != FRAGMENT_BYTES)
		return decision_refuse(
			why, "a constant in fragments has %d bytes of terms an iteration, not %d",
			FRAGMENT_BYTES, bytes);
	if (s.stages < 2 || s.stages > MOST_BUFFERS)
		return decision_refuse(why, "%d buffers are not 2 to %d", s.stages, MOST_BUFFERS);
	return (!mma_is_wgmma(v->s.kind) || wgmma_is_legal(g, v, why)) &&
	       gemm_gpu_possible(g, &s, why);
}

/* The order of blocks, and the parts of the sum. */
static bool order_is_legal(const GpuGemm *g, const ProductVariant *v, StrBuf *why)
{
	const BlockShape s = v->s;
	Iter *along = NULL;
	int64_t n, blocks;

	if (s.raster > 1 &&
	    (!dim_is_const(g->g.p.m, &n) || (blocks = ceil_div(n, s.bm)) % s.raster))
		return decision_refuse(
			why, "the number of blocks of rows is not a multiple of raster %d",
			s.raster);
	if (v->parts == 1)
		return true;
	n = gemm_gpu_longest(g, (double)v->parts * s.bk, &along);
	if (!along || n % (v->parts * s.bk))
		return decision_refuse(why, "%lld terms are not a multiple of %lld parts of %d",
				       (long long)n, (long long)v->parts, s.bk);
	return true;
}

static bool variant_is_legal(const Target *t, Kernel *k, const ProductVariant *v, StrBuf *why)
{
	static const char *const names[] = {"a", "b"};
	const SizeStep step = step_of(k, v);
	ProductVariant plan;
	GpuGemm g;

	if (v->multiples && !step.nof)
		return decision_refuse(why, "no row in memory has an unknown length");
	if (v->skinny && !(v->rows && v->rows < GEMM_ROWS))
		return decision_refuse(why, "a skinny product has less than %d rows", GEMM_ROWS);
	if (v->skinny)
		return true;
	if (!gemm_gpu_variant(t, k, &step, &g, &plan))
		return decision_refuse(why, "the kernel is not a product that tiles pay for");
	if (mma_is_wgmma(v->s.kind) && !t->gpu->only)
		return decision_refuse(why, "%s needs sm_90a", mma_info[v->s.kind].name);
	if (mma_is_wgmma(v->s.kind) ? g.s.kind == MMA_FMA || mma_info[v->s.kind].type[0] != g.a.type
				    : v->s.kind != g.s.kind)
		return decision_refuse(why, "the instruction for these types is %s",
				       mma_info[g.s.kind].name);
	for (int i = 0; i < 2; i++)
		if (!gpu_hold_is_legal(names[i], v->async[i], (i ? g.b : g.a).async, why))
			return false;
	return shape_is_legal(&g, v, why) && order_is_legal(&g, v, why);
}

bool gpu_product_legal(const Target *t, Kernel *k, const Decision *d, StrBuf *why)
{
	const GpuProductDecision *p = &d->gpu_product;

	if (kernel_kind(k) != FORM_CONTRACTION)
		return decision_refuse(why, "the kernel is not a product");
	for (int i = 0; i < p->n; i++) {
		const ProductVariant *v = &p->variant[i];
		const bool all = !v->rows && !v->results && !v->multiples;

		if (all != (i == p->n - 1))
			return decision_refuse(why, all ? "a variant follows one for all runs"
							: "the last variant is not for all runs");
		if (!variant_is_legal(t, kernel_clone(k, k->arena), v, why))
			return false;
	}
	return true;
}

/* ---- Others ---- */

int gpu_product_steps(const Target *t, Kernel *k, const Decision *d, SizeStep *step)
{
	const int n = d->gpu_product.n - 1;

	(void)t;
	for (int i = 0; i < n; i++) {
		step[i] = step_of(k, &d->gpu_product.variant[i]);
		step[i].decided = &d->gpu_product.variant[i];
	}
	return n;
}

void gpu_product_emit(const Target *t, Kernel *k, const Decision *d, Schedule *s)
{
	if (!s->where.decided)
		s->where.decided = &d->gpu_product.variant[d->gpu_product.n - 1];
	sched_gpu(t, k, s);
}

void gpu_product_offer(Offers *offers, Kernel *k, const Decision *base)
{
	const int last = base->gpu_product.n - 1;
	double size[4], x;
	BlockShape s = {0};
	ProductVariant plan;
	int at = 0;
	GpuGemm g;

	if (!gemm_gpu_variant(offers->target, k, &(SizeStep){0}, &g, &plan))
		return;
	gemm_gpu_sizes(&g, size);
	while ((x = gemm_gpu_next(&g, size, &s, &at)) > 0)
		for (int stages = 2; stages <= 4; stages++) {
			Decision d = *base;
			ProductVariant *v = &d.gpu_product.variant[last];

			*v = plan;
			v->s = s;
			v->s.stages = stages;
			v->parts = 1;
			if (memcmp(v, &base->gpu_product.variant[last], sizeof *v) != 0)
				offer_add(offers, &d, x / gemm_gpu_cost(&g, &plan));
		}
}

void gpu_product_reason(const Target *t, Kernel *k, const Decision *d, StrBuf *b)
{
	for (int i = 0; i < d->gpu_product.n; i++) {
		const ProductVariant *v = &d->gpu_product.variant[i];
		const BlockShape s = v->s;
		const SizeStep step = step_of(k, v);
		ProductVariant plan;
		GpuGemm g;

		if (v->skinny || !gemm_gpu_variant(t, kernel_clone(k, k->arena), &step, &g, &plan))
			continue;
		strbuf_printf(
			b,
			"%s%d by %d by %d in a block of %d warps, %lld bytes of shared memory; predicted: %.3g us",
			b->n ? "; " : "", s.bm, s.bn, s.bk, s.wm * s.wn,
			(long long)gemm_gpu_shared(&g, &s), gemm_gpu_cost(&g, v) * 1e6);
	}
}
