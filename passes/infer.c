/* SPDX-License-Identifier: Apache-2.0 */
/* infer: types for every value, composite ops replaced by what they are made of. It may run again at any
 * time; what was known of contents is then found anew. */
#include "passes/module.h"

/* Changes where a fact has tightened a symbol's bound. */
static uint64_t bounds_hash(const Ctx *c, int n)
{
	uint64_t h = HASH_SEED;

	for (int i = 0; i < n; i++) {
		h = hash_bytes(h, &sym_at(c, i)->lo, sizeof(int64_t));
		h = hash_bytes(h, &sym_at(c, i)->hi, sizeof(int64_t));
	}
	return h;
}

/* A fact met late (seq <= 512) makes sizes before it simpler: min(seq, 512) is seq. So a second run follows
 * where the first one learned something of the symbols that were there. */
bool pass_infer(Module *m)
{
	int n = sym_count(m->ctx);
	uint64_t before = bounds_hash(m->ctx, n);

	m->infer = infer_new(m->graph);
	if (!infer_graph_run(m->infer))
		return false;
	if (bounds_hash(m->ctx, n) == before)
		return true;
	m->infer = infer_new(m->graph);
	return infer_graph_run(m->infer);
}
