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

static void variant(LineText *t, GpuDecision *g)
{
	static const char *const names[OPERAND_COUNT] = {"q", "k", "v"};
	const int terms = gpu_mma_terms(g->mma[0]);
	int stages[OPERAND_COUNT];

	line_put(t, " q grid");
	line_digit(t, " warp", &g->warps, 1);
	line_digit(t, " reg", &g->fragments, 1);
	line_instruction(t, MMA_ROWS);
	line_put(t, " kv");
	line_optional(t, " grid", &g->parts);
	line_put(t, " loop");
	line_optional(t, " warp", &g->splits);
	line_digit(t, " reg", &g->keys, 8);
	line_instruction(t, 8);
	line_put(t, " d");
	line_digit(t, " reg", &g->terms, terms);
	line_instruction(t, terms);
	line_put(t, " e");
	line_digit(t, " reg", &g->columns, 8);
	line_instruction(t, 8);
	line_put(t, " stage");
	for (int i = 0; i < OPERAND_COUNT; i++) {
		Hold h = {g->async[i], i == OPERAND_Q ? 1 : g->stages};

		line_hold(t, names[i], &h);
		g->async[i] = h.async;
		stages[i] = h.stages;
	}
	g->stages = stages[OPERAND_K];
	if (stages[OPERAND_Q] != 1)
		line_wrong(t, "q has %d buffers, not 1", stages[OPERAND_Q]);
	if (stages[OPERAND_V] != g->stages)
		line_wrong(t, "k and v have %d and %d buffers: they are filled together", g->stages,
			   stages[OPERAND_V]);
}

void gpu_attention_text(LineText *t, Kernel *k, Decision *d)
{
	GpuAttentionDecision *g = &d->gpu;

	(void)k;
	line_put(t, " mma ");
	line_mma(t, &g->all.mma[0]);
	line_put(t, ",");
	line_mma(t, &g->all.mma[1]);
	variant(t, &g->all);
	memcpy(g->few.mma, g->all.mma, sizeof g->few.mma);
	if (line_opt(t, g->few.warps > 0, " few"))
		variant(t, &g->few);
}
