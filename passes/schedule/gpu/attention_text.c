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

#include <stdlib.h>
#include <string.h>

static const char *const group_names[GROUP_COUNT] = {"q", "kv", "d", "e"};
static const char *const place_names[] = {[GPU_GRID] = "grid",
					  [GPU_LOOP] = "loop",
					  [GPU_WARP] = "warp",
					  [GPU_REG] = "reg",
					  [GPU_MMA] = "mma"};
static const char *const operand_names[OPERAND_COUNT] = {"q", "k", "v"};

enum { PLACE_COUNT = sizeof place_names / sizeof *place_names };

static void print_variant(StrBuf *b, const GpuDecision *g)
{
	for (int i = 0; i < g->ndigits; i++) {
		const Digit *x = &g->digit[i];

		if (!i || g->digit[i - 1].group != x->group)
			strbuf_printf(b, " %s", group_names[x->group]);
		strbuf_printf(b, " %s", place_names[x->at]);
		if (x->n)
			strbuf_printf(b, "%lld", (long long)x->n);
	}
	strbuf_puts(b, " stage");
	for (int i = 0; i < OPERAND_COUNT; i++)
		hold_print(b, operand_names[i], &g->hold[i]);
}

void gpu_attention_print(StrBuf *b, Kernel *k, const Decision *d)
{
	const GpuDecision *g = &d->gpu.all;

	(void)k;
	strbuf_printf(b, " mma %s,%s", mma_info[g->mma[0]].name, mma_info[g->mma[1]].name);
	print_variant(b, g);
	if (!d->gpu.few.ndigits)
		return;
	strbuf_puts(b, " few");
	print_variant(b, &d->gpu.few);
}

/* Splits "warp4" into a place and a number, or "grid" into a place and 0. */
static bool place_of(const char *word, Digit *x)
{
	for (int i = 0; i < PLACE_COUNT; i++) {
		const size_t n = strlen(place_names[i]);
		char *end;

		if (strncmp(word, place_names[i], n))
			continue;
		x->at = (GpuPlace)i;
		x->n = strtoll(word + n, &end, 10);
		return !*end &&
		       (word[n] ? x->n > 0 && x->n <= 1024 : i == GPU_GRID || i == GPU_LOOP);
	}
	return false;
}

/* The groups with their digits, up to "stage". */
static bool read_digits(const char **p, GpuDecision *g, StrBuf *why)
{
	int group = -1;

	while (!line_accept(p, "stage")) {
		char word[MOST_NAME];
		int i = 0;

		if (!line_name(p, word, why))
			return false;
		while (i < GROUP_COUNT && strcmp(word, group_names[i]))
			i++;
		if (i < GROUP_COUNT) {
			group = i;
			continue;
		}
		if (group < 0 || g->ndigits == GPU_DIGITS)
			return decision_refuse(
				why, "expected a group, which is q, kv, d or e, instead of \"%s\"",
				word);
		g->digit[g->ndigits].group = (GpuGroup)group;
		if (!place_of(word, &g->digit[g->ndigits++]))
			return decision_refuse(
				why,
				"\"%s\" is not a digit: grid, loop, or warp, reg, mma with a number from 1 to 1024",
				word);
	}
	return true;
}

static bool read_variant(const char **p, GpuDecision *g, StrBuf *why)
{
	if (!read_digits(p, g, why))
		return false;
	for (int i = 0; i < OPERAND_COUNT; i++)
		if (!line_hold(p, operand_names[i], &g->hold[i], why))
			return false;
	return true;
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
