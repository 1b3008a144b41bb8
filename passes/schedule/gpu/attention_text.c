/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on attention on GPUs as text:
 *
 *	attention mma f16,f16 q grid warp4 reg1 mma16 kv loop reg8 mma8 d reg4 mma16 e reg8 mma8 stage q:async k:async*2 v:async*2
 *
 * The instructions of both products; for each group of iterators its digits, outermost first; and
 * for each operand how it gets to shared memory (async: by cp.async; shared: through registers),
 * and the number of its buffers. After `few`, the same for runs whose rows are at most those of one
 * block, here with the keys in up to 32 parts for blocks, each of which has four for its warps:
 *
 *	... few q grid warp1 reg1 mma16 kv grid32 loop warp4 reg8 mma8 d reg4 mma16 e reg8 mma8 stage q:async k:async*2 v:async*2
 */
#include "passes/schedule/gpu/attention_impl.h"

#include <string.h>

static const char *const operand_names[OPERAND_COUNT] = {"q", "k", "v"};

static int terms_of(MmaKind kind)
{
	return kind == MMA_FMA ? 8 : mma_info[kind].k;
}

static void print_variant(StrBuf *b, const GpuDecision *g)
{
	const int terms = terms_of(g->mma[0]);

	strbuf_printf(b, " q grid warp%d reg%d mma%d kv", g->warps, g->fragments, MMA_ROWS);
	if (g->parts > 1)
		strbuf_printf(b, " grid%d", g->parts);
	strbuf_puts(b, " loop");
	if (g->splits > 1)
		strbuf_printf(b, " warp%d", g->splits);
	strbuf_printf(b, " reg%d mma8 d reg%d mma%d e reg%d mma8 stage", g->keys / 8,
		      g->terms / terms, terms, g->columns / 8);
	for (int i = 0; i < OPERAND_COUNT; i++)
		hold_print(b, operand_names[i],
			   &(Hold){g->async[i], i == OPERAND_Q ? 1 : g->stages});
}

void gpu_attention_print(StrBuf *b, Kernel *k, const Decision *d)
{
	const GpuDecision *g = &d->gpu.all;

	(void)k;
	strbuf_printf(b, " mma %s,%s", mma_info[g->mma[0]].name, mma_info[g->mma[1]].name);
	print_variant(b, g);
	if (!d->gpu.few.warps)
		return;
	strbuf_puts(b, " few");
	print_variant(b, &d->gpu.few);
}

static bool read_digits(const char **p, GpuDecision *g, StrBuf *why)
{
	const int terms = terms_of(g->mma[0]);

	g->parts = g->splits = 1;
	if (!line_expect(p, "q", why) || !line_expect(p, "grid", why) ||
	    !line_digit(p, "warp", &g->warps, why) || !line_digit(p, "reg", &g->fragments, why) ||
	    !line_instruction(p, MMA_ROWS, why) || !line_expect(p, "kv", why) ||
	    !line_optional(p, "grid", &g->parts, why) || !line_expect(p, "loop", why) ||
	    !line_optional(p, "warp", &g->splits, why) || !line_digit(p, "reg", &g->keys, why) ||
	    !line_instruction(p, 8, why) || !line_expect(p, "d", why) ||
	    !line_digit(p, "reg", &g->terms, why) || !line_instruction(p, terms, why) ||
	    !line_expect(p, "e", why) || !line_digit(p, "reg", &g->columns, why) ||
	    !line_instruction(p, 8, why))
		return false;
	g->keys *= 8;
	g->terms *= terms;
	g->columns *= 8;
	return line_expect(p, "stage", why);
}

static bool read_variant(const char **p, GpuDecision *g, StrBuf *why)
{
	Hold hold[OPERAND_COUNT];

	if (!read_digits(p, g, why))
		return false;
	for (int i = 0; i < OPERAND_COUNT; i++) {
		if (!line_hold(p, operand_names[i], &hold[i], why))
			return false;
		g->async[i] = hold[i].async;
	}
	g->stages = hold[OPERAND_K].stages;
	if (hold[OPERAND_Q].stages != 1)
		return decision_refuse(why, "q has %d buffers, not 1", hold[OPERAND_Q].stages);
	return hold[OPERAND_V].stages == g->stages ||
	       decision_refuse(why, "k and v have %d and %d buffers: they are filled together",
			       g->stages, hold[OPERAND_V].stages);
}

bool gpu_attention_parse(Kernel *k, const char *text, Decision *d, StrBuf *why)
{
	GpuAttentionDecision *g = &d->gpu;

	(void)k;
	if (!line_expect(&text, "mma", why) || !line_mma(&text, &g->all.mma[0], why) ||
	    !line_expect(&text, ",", why) || !line_mma(&text, &g->all.mma[1], why) ||
	    !read_variant(&text, &g->all, why))
		return false;
	memcpy(g->few.mma, g->all.mma, sizeof g->few.mma);
	return (!line_accept(&text, "few") || read_variant(&text, &g->few, why)) &&
	       line_end(text, why);
}
