/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Temporaries that go through memory on GPUs. What a stage makes of all of its rows where a thread has a row, and no block can hold
 * it, lies in memory the way no neighbours read it: it is made again where it is read, and the kernel is scheduled anew.
 */
#include "passes/gpu_impl.h"
#include "passes/inline.h"

static bool may_be_made_again(const Stmt *s)
{
	return s->out[0]->kind == BUF_TEMP && stmt_is_simple_map(s) && !row_packed(s) &&
	       !expr_can_fault(s->val[0]);
}

bool gpu_may_make_again(const Kernel *k)
{
	for (int i = 0; i < k->stmts.n; i++)
		if (may_be_made_again(k->stmts.at[i]))
			return true;
	return false;
}

/* A node of N and those after it stores to buffer ID. */
static bool stores_to(const LNode *n, int id)
{
	for (; n; n = n->next)
		if ((n->kind == LN_STORE && n->buf[0]->id == id) || stores_to(n->body, id))
			return true;
	return false;
}

static bool is_in_memory(const Schedule *s, const Buf *b)
{
	for (int i = 0; i < s->stages.n; i++) {
		const Stage *st = s->stages.at[i];

		if (!strcmp(st->strategy, "row") && st->team == 1 && stores_to(st->body, b->id))
			return true;
	}
	return false;
}

bool gpu_make_again(Kernel *k, const Schedule *sched)
{
	int n = 0;

	for (int i = 0; i < k->stmts.n; i++) {
		Stmt *s = k->stmts.at[i];

		if (may_be_made_again(s) && is_in_memory(sched, s->out[0])) {
			inline_after(k, i);
			continue;
		}
		s->id = n;
		k->stmts.at[n++] = s;
	}
	if (n == k->stmts.n)
		return false;
	k->stmts.n = n;
	return true;
}
