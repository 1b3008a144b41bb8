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
 * columns; the sum is in PARTS. wgmma has warpgroups, and all columns of the block in one instruction:
 *
 *	mma wgmma_f16 m grid warpgroup2 mma64 n grid mma256 k loop reg4 mma16 stage a:async*3 b:async*3 producers 1
 *
 * With producers, another warpgroup copies, and the others only multiply.
 */
#include "passes/schedule/gpu/gemm_impl.h"

static void print_variant(StrBuf *b, const ProductVariant *v)
{
	static const char *const names[] = {"a", "b"};
	const BlockShape *s = &v->s;

	if (v->rows)
		strbuf_printf(b, " rows %lld", (long long)v->rows);
	if (v->results)
		strbuf_printf(b, " results %lld", (long long)v->results);
	strbuf_puts(b, v->multiples ? " multiples" : "");
	strbuf_puts(b, v->rows || v->results || v->multiples ? ":" : "");
	if (v->skinny) {
		strbuf_puts(b, " skinny");
		return;
	}
	strbuf_printf(b, " mma %s m grid", mma_info[s->kind].name);
	if (mma_is_wgmma(s->kind))
		strbuf_printf(b, " warpgroup%d mma%d n grid mma%d", s->wm / GROUP_WARPS,
			      mma_info[s->kind].m, s->bn);
	else
		strbuf_printf(b, " warp%d reg%d mma%d n grid warp%d reg%d mma8", s->wm,
			      s->bm / s->wm / MMA_ROWS, MMA_ROWS, s->wn, s->bn / s->wn / 8);
	strbuf_printf(b, " k loop reg%d mma%d stage", s->bk / gemm_gpu_terms(s->kind),
		      gemm_gpu_terms(s->kind));
	for (int i = 0; i < 2; i++)
		hold_print(b, names[i], &(Hold){v->async[i], s->stages});
	if (s->producers)
		strbuf_printf(b, " producers %d", s->producers / (GROUP_WARPS * WARP_LANES));
	if (s->raster > 1)
		strbuf_printf(b, " raster %d", s->raster);
	if (v->parts > 1)
		strbuf_printf(b, " parts %lld", (long long)v->parts);
}

void gpu_product_print(StrBuf *b, Kernel *k, const Decision *d)
{
	(void)k;
	for (int i = 0; i < d->gpu_product.n; i++) {
		strbuf_puts(b, i ? " |" : "");
		print_variant(b, &d->gpu_product.variant[i]);
	}
}

/* The digits of wgmma for rows and columns. */
static bool read_groups(const char **p, BlockShape *s, StrBuf *why)
{
	if (!line_digit(p, "warpgroup", &s->wm, why) ||
	    !line_instruction(p, mma_info[s->kind].m, why) || !line_expect(p, "n", why) ||
	    !line_expect(p, "grid", why) || !line_digit(p, "mma", &s->bn, why))
		return false;
	if (s->bn % 8)
		return decision_refuse(why, "%d columns are not a multiple of 8", s->bn);
	s->wm *= GROUP_WARPS;
	s->bm = s->wm * MMA_ROWS;
	s->wn = 1;
	return true;
}

static bool read_warps(const char **p, BlockShape *s, StrBuf *why)
{
	if (!line_digit(p, "warp", &s->wm, why) || !line_digit(p, "reg", &s->bm, why) ||
	    !line_instruction(p, MMA_ROWS, why) || !line_expect(p, "n", why) ||
	    !line_expect(p, "grid", why) || !line_digit(p, "warp", &s->wn, why) ||
	    !line_digit(p, "reg", &s->bn, why) || !line_instruction(p, 8, why))
		return false;
	s->bm *= s->wm * MMA_ROWS;
	s->bn *= s->wn * 8;
	return true;
}

static bool read_tile(const char **p, ProductVariant *v, StrBuf *why)
{
	Hold hold[2] = {{0}};
	BlockShape *s = &v->s;

	if (!line_expect(p, "mma", why) || !line_mma(p, &s->kind, why))
		return false;
	s->raster = 1;
	v->parts = 1;
	if (!line_expect(p, "m", why) || !line_expect(p, "grid", why) ||
	    !(mma_is_wgmma(s->kind) ? read_groups : read_warps)(p, s, why) ||
	    !line_expect(p, "k", why) || !line_expect(p, "loop", why) ||
	    !line_digit(p, "reg", &s->bk, why) ||
	    !line_instruction(p, gemm_gpu_terms(s->kind), why) || !line_expect(p, "stage", why) ||
	    !line_hold(p, "a", &hold[0], why) || !line_hold(p, "b", &hold[1], why))
		return false;
	if (hold[0].stages != hold[1].stages)
		return decision_refuse(why,
				       "a and b have %d and %d buffers: they are filled together",
				       hold[0].stages, hold[1].stages);
	s->bk *= gemm_gpu_terms(s->kind);
	s->stages = hold[0].stages;
	for (int i = 0; i < 2; i++)
		v->async[i] = hold[i].async;
	if (mma_is_wgmma(s->kind) && line_accept(p, "producers")) {
		if (!line_digit(p, "", &s->producers, why))
			return false;
		s->producers *= GROUP_WARPS * WARP_LANES;
	}
	return (!line_accept(p, "raster") || line_digit(p, "", &s->raster, why)) &&
	       (!line_accept(p, "parts") || line_number(p, &v->parts, why));
}

static bool read_variant(const char **p, ProductVariant *v, StrBuf *why)
{
	bool some;

	if (line_accept(p, "rows") && !line_number(p, &v->rows, why))
		return false;
	if (line_accept(p, "results") && !line_number(p, &v->results, why))
		return false;
	v->multiples = line_accept(p, "multiples");
	some = v->rows || v->results || v->multiples;
	if (some && !line_expect(p, ":", why))
		return false;
	v->skinny = line_accept(p, "skinny");
	return v->skinny || read_tile(p, v, why);
}

bool gpu_product_parse(Kernel *k, const char *text, Decision *d, StrBuf *why)
{
	GpuProductDecision *p = &d->gpu_product;

	(void)k;
	do {
		if (p->n == PRODUCT_VARIANTS)
			return decision_refuse(why, "there are more than %d variants",
					       PRODUCT_VARIANTS);
		if (!read_variant(&text, &p->variant[p->n++], why))
			return false;
	} while (line_accept(&text, "|"));
	return line_end(text, why);
}
