/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places the barriers of a kernel, bar.sync and bar.warp.sync, except those of operations on tiles,
 * which the scheduler places (TILE_SYNC: tile_pipeline.c and gemm_block.c of passes/schedule/gpu),
 * and three that need no choice: one after mbarriers are made (tile_ops.c), and two around the
 * search for the last block to arrive, where a kernel has LOOP_LAST (loop.c).
 *
 * While the loop tree is walked, each access to shared or global memory is recorded with the buffer
 * and whether threads access disjoint elements. Each point where a barrier may be put (ll_barrier)
 * is recorded, too: after a node whose threads share memory, and where a node passes data between
 * threads. Either all threads of a group reach such a point, or none. Loops and conditions around
 * them are recorded, too.
 *
 * A barrier is put at a point if some path through it, up to the next barriers on either side, has
 * accesses before and after the point to the same memory, by different threads, and one of them is
 * a store. Points are decided in order. Undecided points count as barriers, so of two adjacent
 * points the last one gets the barrier.
 *
 * The tests run the kernels on the simulated GPU, which reports every race in shared memory that it
 * executes (tools/ptxsim/shadow.c), and in many orders of threads, so that races in global memory
 * show as wrong results (suite `orders`). Barriers of operations on tiles are also checked in the
 * loop tree, with --verify, for edited decisions and for schedules read from a text (tiles_check,
 * ir/loop/tile_check.c).
 */
#include "codegen/nvptx/kernel.h"

#include <assert.h>
#include <string.h>

/* ---- Recording ---- */

static void add_event(LlKernel *k, SyncEvent e)
{
	vec_push(k->f.arena, &k->events, e);
}

/* The index of A among the kernel's accesses, to which it is added if needed. */
static int access_index(LlKernel *k, const MemAccess *a)
{
	for (int i = 0; i < k->accesses.n; i++) {
		const MemAccess *b = &k->accesses.at[i];

		if (a->memory == b->memory && a->from == b->from && a->to == b->to &&
		    a->write == b->write && a->own == b->own && a->threads == b->threads)
			return i;
	}
	vec_push(k->f.arena, &k->accesses, *a);
	return k->accesses.n - 1;
}

void ll_access(LlKernel *k, MemAccess a)
{
	const int index = access_index(k, &a);

	for (int i = k->events.n - 1; i >= 0 && k->events.at[i].kind == SYNC_ACCESS; i--)
		if (k->events.at[i].index == index)
			return;
	add_event(k, (SyncEvent){.kind = SYNC_ACCESS, .index = index});
}

void ll_barrier(LlKernel *k)
{
	if (k->group <= 1)
		return;
	assert(!k->in_group && k->conditions == 0);
	add_event(k, (SyncEvent){.kind = SYNC_BARRIER,
				 .at = k->f.b.n,
				 .mask = k->group <= 32 ? k->mask : NULL});
}

void ll_sync_open(LlKernel *k, SyncKind kind)
{
	vec_push(k->f.arena, &k->open, k->events.n);
	add_event(k, (SyncEvent){.kind = kind});
}

void ll_sync_close(LlKernel *k)
{
	const int begin = vec_last(&k->open);

	k->open.n--;
	k->events.at[begin].index = k->events.n;
	add_event(k, (SyncEvent){.kind = k->events.at[begin].kind == SYNC_LOOP ? SYNC_LOOP_END
									       : SYNC_IF_END,
				 .index = begin});
}

/* ---- Placing ---- */

typedef struct Placement {
	const LlKernel *k;
	/* the number of the last walk that visited an event; the events to continue from */
	int *seen, walks, *todo;
	bool *found[2]; /* accesses, [0] after and [1] before the event where a walk began */
} Placement;

/* The event, other than the next one (BACK: the one before it), that follows E on some path;
 * -1: none. A loop may have no iteration. */
static int other_next(const SyncEvent *e, bool back)
{
	switch (e->kind) {
	case SYNC_LOOP:
	case SYNC_LOOP_END: return e->index;
	case SYNC_IF: return back ? -1 : e->index;
	case SYNC_IF_END: return back ? e->index : -1;
	default: return -1;
	}
}

/* B separates the code before and after it as barrier A would. */
static bool separates(const SyncEvent *b, const SyncEvent *a)
{
	return b->kind == SYNC_BARRIER && (!b->mask || a->mask);
}

/* Finds the accesses after event AT (BACK: before it), up to the next barriers. */
static const bool *around(Placement *p, int at, bool back)
{
	const SyncEvent *events = p->k->events.at;
	bool *found = p->found[back];
	int n = 0;

	memset(found, 0, (size_t)p->k->accesses.n * sizeof *found);
	p->walks++;
	p->todo[n++] = at;
	while (n) {
		const int from = p->todo[--n],
			  next[2] = {from + (back ? -1 : 1), other_next(&events[from], back)};

		for (int i = 0; i < 2; i++) {
			const int to = next[i];

			if (to < 0 || to == p->k->events.n || p->seen[to] == p->walks ||
			    separates(&events[to], &events[at]))
				continue;
			p->seen[to] = p->walks;
			if (events[to].kind == SYNC_ACCESS)
				found[events[to].index] = true;
			p->todo[n++] = to;
		}
	}
	return found;
}

/* Accesses A and B by different threads may be to the same element, and one of them is a store. */
static bool conflict(const MemAccess *a, const MemAccess *b)
{
	return (a->write || b->write) && a->memory == b->memory && a->from < b->to &&
	       b->from < a->to && !(a->own && a->own == b->own && a->threads == b->threads);
}

static bool is_needed(Placement *p, int at)
{
	const bool *before = around(p, at, true), *after = around(p, at, false);
	const MemAccess *a = p->k->accesses.at;

	for (int i = 0; i < p->k->accesses.n; i++)
		for (int j = 0; before[i] && j < p->k->accesses.n; j++)
			if (after[j] && conflict(&a[i], &a[j]))
				return true;
	return false;
}

const char *ll_with_barriers(LlKernel *k)
{
	Arena *a = arena_new();
	Placement p = {
		.k = k,
		.seen = NEW_ARRAY(a, k->events.n, int),
		.todo = NEW_ARRAY(a, k->events.n + 1, int),
		.found = {NEW_ARRAY(a, k->accesses.n, bool), NEW_ARRAY(a, k->accesses.n, bool)}};
	const char *code = strbuf_str(&k->f.b), *text;
	StrBuf b = {0};
	size_t done = 0;

	for (int i = 0; i < k->events.n; i++) {
		SyncEvent *e = &k->events.at[i];

		if (e->kind != SYNC_BARRIER)
			continue;
		if (!is_needed(&p, i)) {
			e->kind = SYNC_NONE;
			continue;
		}
		strbuf_put(&b, code + done, e->at - done);
		done = e->at;
		if (e->mask)
			strbuf_printf(&b, "  call void @llvm.nvvm.bar.warp.sync(i32 %s)\n",
				      e->mask);
		else
			strbuf_puts(&b, "  call void @llvm.nvvm.barrier0()\n");
	}
	strbuf_puts(&b, code + done);
	text = arena_strdup(k->f.arena, strbuf_str(&b));
	strbuf_free(&b);
	arena_free(a);
	return text;
}
