/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recomputes temporaries instead of passing them through global memory on GPUs. Where each thread
 * has a row, it would store its row of a temporary contiguously, so accesses of adjacent lanes
 * could not coalesce. Unless a thread or a block holds such a temporary, it is computed where it is
 * read, and the kernel is scheduled anew.
 */
#include "passes/schedule/gpu/gpu_impl.h"
#include "passes/forms/inline.h"

static bool may_be_recomputed(Kernel *k, int i)
{
	return inline_may(k, i) && !row_packed(k->stmts.at[i]);
}

bool gpu_may_recompute(Kernel *k)
{
	for (int i = 0; i < k->stmts.n; i++)
		if (may_be_recomputed(k, i))
			return true;
	return false;
}

/* A node of N, its siblings or their bodies stores to buffer ID. */
static bool stores_to(const LNode *n, int id)
{
	for (; n; n = n->next)
		if ((n->kind == LN_STORE && n->store.buf[0]->id == id) || stores_to(n->body, id))
			return true;
	return false;
}

static bool is_in_memory(const Schedule *s, const Buf *b)
{
	for (int i = 0; i < s->stages.n; i++) {
		const Stage *st = s->stages.at[i];

		if (!strcmp(st->strategy, "row") && st->block.group == 1 &&
		    stores_to(st->body, b->id))
			return true;
	}
	return false;
}

bool gpu_recompute(Kernel *k, const Schedule *sched)
{
	int n = 0;

	for (int i = 0; i < k->stmts.n; i++) {
		Stmt *s = k->stmts.at[i];

		if (may_be_recomputed(k, i) && is_in_memory(sched, s->out[0])) {
			inline_after(k, i);
			continue;
		}
		k->stmts.at[n++] = s;
	}
	if (n == k->stmts.n)
		return false;
	k->stmts.n = n;
	kernel_renumber(k);
	return true;
}
