/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on products on GPUs as text: the variants, of which a run takes the first one that is
 * for it.
 *
 *	product rows 8: skinny | results 884736: mma f16 m grid warp2 reg2 mma16 ... | mma f16 m grid warp4 reg4 mma16
 *		n grid warp2 reg8 mma8 k loop reg2 mma16 stage a:async*3 b:async*3 raster 8 parts 2
 *
 * The runs of a variant: at most so many rows or results, or "multiples", in which rows in memory
 * are whole vectors. The instruction; for rows, columns and terms the digits, outermost first; for
 * each operand how it gets to shared memory (async: by cp.async; shared: through registers), and
 * the number of its buffers. RASTER blocks of rows follow one another before the next block of
 * columns; the sum is in PARTS. wgmma has warpgroups, and all columns of the block in one
 * instruction:
 *
 *	mma wgmma_f16 m grid warpgroup2 mma64 n grid mma256 k loop reg4 mma16 stage a:async*3 b:async*3 producers 1
 *
 * With producers, another warpgroup copies, and the others only multiply.
 */
#include "passes/schedule/gpu/gemm_impl.h"

/* The digits of wgmma for rows and columns. */
static void groups(LineText *t, BlockShape *s)
{
	line_digit(t, " warpgroup", &s->wm, GROUP_WARPS);
	line_instruction(t, mma_info[s->kind].m);
	line_put(t, " n grid");
	line_digit(t, " mma", &s->bn, 1);
	if (s->bn % 8)
		line_wrong(t, "%d columns are not a multiple of 8", s->bn);
	s->bm = s->wm * MMA_ROWS;
	s->wn = 1;
}

static void warps(LineText *t, BlockShape *s)
{
	line_digit(t, " warp", &s->wm, 1);
	line_digit(t, " reg", &s->bm, s->wm * MMA_ROWS);
	line_instruction(t, MMA_ROWS);
	line_put(t, " n grid");
	line_digit(t, " warp", &s->wn, 1);
	line_digit(t, " reg", &s->bn, s->wn * 8);
	line_instruction(t, 8);
}

static void tile(LineText *t, ProductVariant *v)
{
	BlockShape *s = &v->s;
	Hold a, b;

	if (!t->out)
		s->raster = (int)(v->parts = 1);
	line_put(t, " mma ");
	line_mma(t, &s->kind);
	line_put(t, " m grid");
	(mma_is_wgmma(s->kind) ? groups : warps)(t, s);
	line_put(t, " k loop");
	line_digit(t, " reg", &s->bk, gpu_mma_terms(s->kind));
	line_instruction(t, gpu_mma_terms(s->kind));
	line_put(t, " stage");
	a = (Hold){v->async[0], s->stages};
	b = (Hold){v->async[1], s->stages};
	line_hold(t, "a", &a);
	line_hold(t, "b", &b);
	if (a.stages != b.stages)
		line_wrong(t, "a and b have %d and %d buffers: they are filled together", a.stages,
			   b.stages);
	v->async[0] = a.async;
	v->async[1] = b.async;
	s->stages = a.stages;
	if (mma_is_wgmma(s->kind) && line_opt(t, s->producers > 0, " producers"))
		line_digit(t, " ", &s->producers, GROUP_WARPS * WARP_LANES);
	if (line_opt(t, s->raster > 1, " raster"))
		line_digit(t, " ", &s->raster, 1);
	if (line_opt(t, v->parts > 1, " parts"))
		line_number(t, " ", &v->parts);
}

static void variant(LineText *t, ProductVariant *v)
{
	if (line_opt(t, v->rows > 0, " rows"))
		line_number(t, " ", &v->rows);
	if (line_opt(t, v->results > 0, " results"))
		line_number(t, " ", &v->results);
	v->multiples = line_opt(t, v->multiples, " multiples");
	if (v->rows || v->results || v->multiples)
		line_put(t, ":");
	v->skinny = line_opt(t, v->skinny, " skinny");
	if (!v->skinny)
		tile(t, v);
}

void gpu_product_text(LineText *t, Kernel *k, Decision *d)
{
	GpuProductDecision *p = &d->gpu_product;
	int n = 0;

	(void)k;
	do {
		if (n == PRODUCT_VARIANTS) {
			line_wrong(t, "there are more than %d variants", PRODUCT_VARIANTS);
			return;
		}
		variant(t, &p->variant[n++]);
	} while (line_opt(t, n < p->n, " |"));
	p->n = n;
}
