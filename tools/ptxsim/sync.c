/* SPDX-License-Identifier: Apache-2.0 */
/* Barriers. */
#include "tools/ptxsim/decode.h"
#include "tools/ptxsim/shadow.h"

#include <string.h>

enum { BAR_SYNC, BAR_ARRIVE, BAR_RED_POPC, BAR_RED_AND, BAR_RED_OR };

static void release(Block *b, Barrier *bar)
{
	for (int i = 0; i < b->n_warps; i++) {
		Warp *w = b->worker->warp[i];
		if (!(bar->waiting >> i & 1))
			continue;
		shadow_join(&w->seen, &bar->seen);
		shadow_tick(w);
		w->state = WARP_READY;
		if (w->in->sub == BAR_RED_POPC) {
			EACH_LANE (k, w->mask)
				set_lane(w, w->in->d, k, bar->ones);
		} else if (w->in->sub >= BAR_RED_AND) {
			bool hit = w->in->sub == BAR_RED_AND ? bar->ones == bar->threads
							     : bar->ones != 0;
			put_pred(w, w->in->d, hit ? ~0u : 0, w->mask);
		}
	}
	*bar = (Barrier){0};
}

/* S[0]: the barrier, S[1]: the number of threads, none: all; S[2]: a predicate to reduce */
static void exec_bar(Warp *w, const Inst *in, uint32_t mask)
{
	Block *b = w->block;
	int first = __builtin_ctz(mask);
	uint64_t which = lane_at(w, in->s[0], first);
	int threads = in->s[1].none ? b->n_threads : (int)lane_at(w, in->s[1], first);

	if (in->flag && !all_here(w, w->live, mask, "divergent barrier"))
		return;
	if (which >= N_BARRIERS)
		fault(w, first, CUDA_ERROR_LAUNCH_FAILED, "there is no barrier %llu",
		      (unsigned long long)which);
	if (in->s[1].none && b->n_exited)
		fault(w, first, CUDA_ERROR_LAUNCH_FAILED,
		      "divergent barrier: %d threads of the block have ended before it",
		      b->n_exited);
	if (threads % 32 && !in->s[1].none)
		fault(w, first, CUDA_ERROR_LAUNCH_FAILED,
		      "a barrier of %d threads, no multiple of 32", threads);
	Barrier *bar = &b->barrier[which];
	if (bar->expected && bar->expected != threads)
		fault(w, first, CUDA_ERROR_LAUNCH_FAILED,
		      "a barrier of %d threads, where others wait for %d", threads, bar->expected);
	bar->expected = threads;
	/* With a count, a warp counts whole. */
	bar->arrived += in->s[1].none ? __builtin_popcount(mask) : 32;
	bar->in = in;
	if (in->sub >= BAR_RED_POPC) {
		bar->ones += (uint32_t)__builtin_popcount(pred_at(w, in->s[2]) & mask);
		bar->threads += (uint32_t)__builtin_popcount(mask);
	}
	shadow_join(&bar->seen, &w->seen);
	b->worker->count.barriers++;
	if (in->sub == BAR_ARRIVE) {
		shadow_tick(w);
	} else {
		bar->waiting |= 1u << w->id;
		w->state = WARP_WAITING;
		w->barrier = (int)which;
	}
	if (bar->arrived >= bar->expected)
		release(b, bar);
}

void barrier_stuck(Block *b)
{
	Warp *w = NULL;
	uint32_t waiting = 0;

	for (int i = 0; i < b->n_warps; i++)
		if (b->worker->warp[i]->state == WARP_WAITING) {
			w = b->worker->warp[i];
			waiting |= 1u << i;
		}
	fault(w, -1, CUDA_ERROR_LAUNCH_FAILED,
	      "divergent barrier: %d of %d threads arrived (warps %08x wait), the others never will",
	      b->barrier[w->barrier].arrived, b->barrier[w->barrier].expected, waiting);
}

void decode_bar(Parser *p)
{
	static const char *const kinds[] = {"sync", "arrive", "red", NULL};
	static const char *const reductions[] = {"popc", "and", "or", NULL};
	Inst *in = p->in;
	bool bar = !strcmp(p->mods[0], "bar");

	if (bar && take_mod(p, "warp")) {
		decode_warp_sync(p);
		return;
	}
	take_mod(p, "cta");
	int kind = take_choice(p, kinds), red = take_choice(p, reductions), at = 0;
	in->flag = take_mod(p, "aligned") || bar;
	take_mod(p, "u32");
	take_mod(p, "pred");
	no_mods(p);
	if (kind < 0 || (kind == 2) != (red >= 0))
		parse_fail(p, "%s is not supported", in->text);
	in->exec = exec_bar;
	in->cls = C_sync;
	in->sub = (uint8_t)(kind + (kind == 2 ? red : 0));
	in->s[1].none = in->s[2].none = true;
	need_operands(p, kind == 2 ? 3 : 1, kind == 2 ? 4 : 2);
	if (kind == 2)
		in->d = dest_of(p, &in->op[at++], red == 0 ? T_u32 : T_pred, false);
	in->s[0] = slot_of(p, &in->op[at++], T_u32, false);
	if (at < in->n_op - (kind == 2))
		in->s[1] = slot_of(p, &in->op[at++], T_u32, false);
	if (kind == 2)
		in->s[2] = pred_of(p, &in->op[at]);
}

/* bar.warp.sync */
static void exec_warp_sync(Warp *w, const Inst *in, uint32_t mask)
{
	if (members_here(w, in->s[0], mask))
		shadow_tick(w);
}

void decode_warp_sync(Parser *p)
{
	Inst *in = p->in;

	take_mod(p, "sync");
	no_mods(p);
	need_operands(p, 1, 1);
	in->exec = exec_warp_sync;
	in->cls = C_sync;
	in->s[0] = slot_of(p, &in->op[0], T_b32, false);
}

/* ---- Who must be here ---- */

/* Runs another side of the branch that split these lanes first; false: each of them is blocked
 * already. */
static bool run_others(Warp *w, uint32_t mask)
{
	Counters *c = &w->block->worker->count;
	Entry *top = &w->stack[w->n_stack - 1];

	top->held = true;
	for (int i = w->n_stack - 2;
	     i >= w->frame[w->depth - 1].stack && w->stack[i].meet == top->meet; i--)
		if (!w->stack[i].held && w->stack[i].pc != w->stack[i].meet && w->stack[i].mask) {
			Entry other = w->stack[i];
			top->pc--;
			w->stack[i] = *top;
			*top = other;
			/* It did not run. */
			c->warp_instructions--;
			c->inst[w->in->cls] -= (unsigned)__builtin_popcount(mask);
			return true;
		}
	return false;
}

bool all_here(Warp *w, uint32_t wanted, uint32_t mask, const char *what)
{
	wanted &= w->live;
	if (!(wanted & ~mask)) {
		w->stack[w->n_stack - 1].held = false;
		return true;
	}
	if (!run_others(w, mask))
		fault(w, __builtin_ctz(wanted & ~mask), CUDA_ERROR_LAUNCH_FAILED,
		      "%s: this thread is not there, threads of its warp are (%08x wanted, %08x "
		      "there)",
		      what, wanted, mask);
	return false;
}

uint32_t next_group(const Warp *w, Slot s, uint32_t *left)
{
	uint32_t group = *left ? (uint32_t)lane_at(w, s, __builtin_ctz(*left)) & *left : 0;

	*left &= ~group;
	return group;
}

bool members_here(Warp *w, Slot s, uint32_t mask)
{
	uint32_t wanted = 0;

	EACH_LANE (i, mask) {
		uint32_t members = (uint32_t)lane_at(w, s, i);
		if (!(members >> i & 1))
			fault(w, i, CUDA_ERROR_LAUNCH_FAILED,
			      "the members %08x are without this thread", members);
		wanted |= members;
	}
	return all_here(w, wanted, mask, "divergent");
}

static void exec_proxy_fence(Warp *w, const Inst *in, uint32_t mask)
{
	(void)in, (void)mask;
	shadow_fence(w);
}

/* Fences: memory is in order here, apart from asynchronous operations. */
void decode_fence(Parser *p)
{
	p->in->exec = str_starts(p->in->text, "fence.proxy.async") ||
				      str_starts(p->in->text, "fence.mbarrier_init")
			      ? exec_proxy_fence
			      : exec_nop;
	p->in->cls = C_sync;
}
