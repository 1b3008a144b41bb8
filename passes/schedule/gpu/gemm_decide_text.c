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
 *	mma wgmma_f16 m grid warpgroup2 mma64 n grid mma256 k loop reg4 mma16 stage a:async*3 b:async*3
 */
#include "passes/schedule/gpu/gemm_impl.h"

#include <stdlib.h>
#include <string.h>

static void print_variant(StrBuf *b, const ProductVariant *v)
{
	static const char *const names[] = {"a", "b"};

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
	if (mma_is_wgmma(v->mma))
		strbuf_printf(
			b, " mma %s m grid warpgroup%d mma%d n grid mma%d k loop reg%d mma%d stage",
			mma_info[v->mma].name, v->wm / GROUP_WARPS, mma_info[v->mma].m, v->fn * 8,
			v->steps, gemm_gpu_terms(v->mma));
	else
		strbuf_printf(
			b,
			" mma %s m grid warp%d reg%d mma%d n grid warp%d reg%d mma8 k loop reg%d mma%d stage",
			mma_info[v->mma].name, v->wm, v->fm, MMA_ROWS, v->wn, v->fn, v->steps,
			gemm_gpu_terms(v->mma));
	for (int i = 0; i < 2; i++)
		hold_print(b, names[i], &(Hold){v->async[i], v->stages});
	if (v->raster > 1)
		strbuf_printf(b, " raster %d", v->raster);
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

/* Reads a digit: PLACE with a number from 1 to 1024. */
static bool read_digit(const char **p, const char *place, int *n, StrBuf *why)
{
	char word[MOST_NAME], *end;
	const size_t len = strlen(place);
	long v;

	if (!line_name(p, word, why))
		return false;
	v = strncmp(word, place, len) ? 0 : strtol(word + len, &end, 10);
	if (v < 1 || v > 1024 || *end)
		return decision_refuse(why, "\"%s\" is not a digit %s with a number from 1 to 1024",
				       word, place);
	*n = (int)v;
	return true;
}

static bool read_fixed(const char **p, int n, StrBuf *why)
{
	int v;

	return read_digit(p, "mma", &v, why) &&
	       (v == n || decision_refuse(why, "the instruction has mma%d here, not mma%d", n, v));
}

/* The digits of wgmma for rows and columns. */
static bool read_groups(const char **p, ProductVariant *v, StrBuf *why)
{
	int columns;

	if (!read_digit(p, "warpgroup", &v->wm, why) || !read_fixed(p, mma_info[v->mma].m, why) ||
	    !line_expect(p, "n", why) || !line_expect(p, "grid", why) ||
	    !read_digit(p, "mma", &columns, why))
		return false;
	if (columns % 8)
		return decision_refuse(why, "%d columns are not a multiple of 8", columns);
	v->wm *= GROUP_WARPS;
	v->fm = v->wn = 1;
	v->fn = columns / 8;
	return true;
}

static bool read_warps(const char **p, ProductVariant *v, StrBuf *why)
{
	return read_digit(p, "warp", &v->wm, why) && read_digit(p, "reg", &v->fm, why) &&
	       read_fixed(p, MMA_ROWS, why) && line_expect(p, "n", why) &&
	       line_expect(p, "grid", why) && read_digit(p, "warp", &v->wn, why) &&
	       read_digit(p, "reg", &v->fn, why) && read_fixed(p, 8, why);
}

static bool read_tile(const char **p, ProductVariant *v, StrBuf *why)
{
	Hold hold[2] = {{0}};
	int64_t n = 1;

	if (!line_expect(p, "mma", why) || !line_mma(p, &v->mma, why))
		return false;
	v->raster = 1;
	if (!line_expect(p, "m", why) || !line_expect(p, "grid", why) ||
	    !(mma_is_wgmma(v->mma) ? read_groups : read_warps)(p, v, why) ||
	    !line_expect(p, "k", why) || !line_expect(p, "loop", why) ||
	    !read_digit(p, "reg", &v->steps, why) || !read_fixed(p, gemm_gpu_terms(v->mma), why) ||
	    !line_expect(p, "stage", why) || !line_hold(p, "a", &hold[0], why) ||
	    !line_hold(p, "b", &hold[1], why))
		return false;
	if (hold[0].stages != hold[1].stages)
		return decision_refuse(why,
				       "a and b have %d and %d buffers: they are filled together",
				       hold[0].stages, hold[1].stages);
	v->stages = hold[0].stages;
	for (int i = 0; i < 2; i++)
		v->async[i] = hold[i].async;
	if (line_accept(p, "raster") && !read_digit(p, "", &v->raster, why))
		return false;
	if (line_accept(p, "parts") && !line_number(p, &n, why))
		return false;
	v->parts = n;
	return true;
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
