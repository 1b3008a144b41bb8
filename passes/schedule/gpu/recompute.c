/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recomputes temporaries instead of passing them through global memory on GPUs. Where each thread
 * has a row, it would store its row of a temporary contiguously, so accesses of adjacent lanes
 * could not coalesce. Unless a thread or a block holds such a temporary, it is computed where it is
 * read, and the kernel is scheduled anew.
 *
 * A map that reads another map's copy reads what was copied instead, so that both are one launch
 * (Stage.block.beside).
 */
#include "passes/schedule/gpu/gpu_impl.h"
#include "passes/forms/inline.h"

static bool may_be_recomputed(Kernel *k, int i)
{
	return inline_may(k, i) && !row_packed(k->stmts.at[i]);
}

static bool reads_only_inputs(const Stmt *s)
{
	STMT_EACH_LOAD (load, s)
		if (load->load.buf->kind != BUF_IN)
			return false;
	return true;
}

/* Statement I of K is the only one that writes its result, a copy of inputs; only maps read it, at
 * least one. */
static bool is_copy_for_maps(const Kernel *k, int i)
{
	const Stmt *s = k->stmts.at[i];
	bool any = false;

	if (!reads_only_inputs(s) || s->out[0]->kind != BUF_OUT || !stmt_is_simple_map(s) ||
	    !inline_is_free(s) || expr_can_fault(s->val[0]) || row_packed(s))
		return false;
	for (int j = 0; j < k->stmts.n; j++) {
		const Stmt *o = k->stmts.at[j];
		const bool reader = stmt_reads(o, s->out[0]);

		if (j != i && (o->out[0] == s->out[0] || (reader && (j < i || !stmt_is_map(o)))))
			return false;
		any = any || reader;
	}
	return any;
}

bool gpu_may_recompute(Kernel *k)
{
	for (int i = 0; i < k->stmts.n; i++)
		if (may_be_recomputed(k, i) || is_copy_for_maps(k, i))
			return true;
	return false;
}

/* Each thread of the stage of statement I has its points, whose accesses are contiguous. */
static bool is_plain(const Schedule *s, int i)
{
	const Stage *st = schedule_stage_of(s, i, PART_NONE);

	return st && !strcmp(st->strategy, "map");
}

/* Map I is a copy that all of its readers may read past. */
static bool is_read_past(const Kernel *k, const Schedule *sched, int i)
{
	bool ok = is_copy_for_maps(k, i) && is_plain(sched, i);

	for (int j = i + 1; j < k->stmts.n && ok; j++)
		ok = !stmt_reads(k->stmts.at[j], k->stmts.at[i]->out[0]) || is_plain(sched, j);
	return ok;
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
	VEC_EACH (st, &s->stages) {
		if (!strcmp(st->strategy, "row") && st->block.group == 1 &&
		    stores_to(st->body, b->id))
			return true;
	}
	return false;
}

bool gpu_recompute(Kernel *k, const Schedule *sched)
{
	int n = 0;
	bool any = false;

	for (int i = 0; i < k->stmts.n; i++) {
		if (is_read_past(k, sched, i)) {
			inline_after(k, i);
			any = true;
		}
	}
	for (int i = 0; i < k->stmts.n; i++) {
		Stmt *s = k->stmts.at[i];

		if (may_be_recomputed(k, i) && is_in_memory(sched, s->out[0])) {
			inline_after(k, i);
			continue;
		}
		k->stmts.at[n++] = s;
	}
	if (n == k->stmts.n)
		return any;
	k->stmts.n = n;
	kernel_renumber(k);
	return true;
}
