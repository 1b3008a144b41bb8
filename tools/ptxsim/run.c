/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the warps of a block, a few instructions at a time, in an order drawn from the seed. */
#include "tools/ptxsim/exec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TURN = 128 }; /* instructions of a warp until another may run */

uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
	x = (x ^ x >> 27) * 0x94d049bb133111eb;
	return x ^ x >> 31;
}

uint32_t draw(Block *b, uint32_t n)
{
	b->random = mix(b->random);
	return (uint32_t)((b->random >> 32) * n >> 32);
}

void fault(Warp *w, int lane, int code, const char *fmt, ...)
{
	Block *b = w->block;
	Launch *l = b->launch;
	Fault *f = &b->worker->fault;
	char why[700], who[80] = "";
	int length = 0;
	const char *text = w->in ? module_line(l->f->module, w->in->line, &length) : "";
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(why, sizeof why, fmt, ap);
	va_end(ap);
	if (lane >= 0) {
		uint32_t t = (uint32_t)w->id * 32 + (uint32_t)lane;
		snprintf(who, sizeof who, "thread (%u,%u,%u)", t % l->block[0],
			 t / l->block[0] % l->block[1], t / l->block[0] / l->block[1]);
	} else {
		snprintf(who, sizeof who, "warp %d", w->id);
	}
	f->code = code;
	snprintf(f->text, sizeof f->text, "kernel %s, block (%u,%u,%u), %s: line %d: %.*s: %s",
		 l->f->name, b->id[0], b->id[1], b->id[2], who, w->in ? w->in->line : 0, length,
		 text, why);
	longjmp(b->worker->stop, 1);
}

/* ---- Lanes of results ---- */

#define PUT(type)                                                \
	do {                                                     \
		type *to = (type *)d_at;                         \
		const type *from = src;                          \
		for (int i = 0; i < 32; i++)                     \
			to[i] = mask >> i & 1 ? from[i] : to[i]; \
	} while (0)

void put_lanes(const Warp *w, Slot d, const void *src, uint32_t mask)
{
	uint8_t *d_at = slot_at(w, d);

	if (d.none)
		return;
	if (mask == ~0u) {
		memcpy(d_at, src, (size_t)d.size * 32);
		return;
	}
	switch (d.size) {
	case 1: PUT(uint8_t); break;
	case 2: PUT(uint16_t); break;
	case 4: PUT(uint32_t); break;
	case 8: PUT(uint64_t); break;
	default: break;
	}
}

void put_pred(const Warp *w, Slot d, uint32_t bits, uint32_t mask)
{
	uint32_t *to = slot_at(w, d);

	if (!d.none)
		*to = (*to & ~mask) | (bits & mask);
}

/* ---- Warps ---- */

static void fill(Warp *w, enum Special s, uint32_t v)
{
	uint32_t *at = (uint32_t *)(w->special + s * SPECIAL_BYTES);

	for (int i = 0; i < 32; i++)
		at[i] = v;
}

static void fill_specials(Warp *w)
{
	Block *b = w->block;
	Launch *l = b->launch;
	uint32_t *tid[3], *mask[5], *laneid = (uint32_t *)(w->special + S_laneid * SPECIAL_BYTES);

	for (int k = 0; k < 3; k++) {
		tid[k] = (uint32_t *)(w->special + (S_tid_x + k) * SPECIAL_BYTES);
		fill(w, S_ntid_x + (enum Special)k, l->block[k]);
		fill(w, S_ctaid_x + (enum Special)k, b->id[k]);
		fill(w, S_nctaid_x + (enum Special)k, l->grid[k]);
	}
	for (int k = 0; k < 5; k++)
		mask[k] = (uint32_t *)(w->special + (S_lanemask_eq + k) * SPECIAL_BYTES);
	for (uint32_t i = 0; i < 32; i++) {
		uint32_t t = (uint32_t)w->id * 32 + i, bit = 1u << i;
		tid[0][i] = t % l->block[0];
		tid[1][i] = t / l->block[0] % l->block[1];
		tid[2][i] = t / l->block[0] / l->block[1];
		laneid[i] = i;
		mask[0][i] = bit;
		mask[1][i] = bit | (bit - 1);
		mask[2][i] = bit - 1;
		mask[3][i] = ~(bit - 1);
		mask[4][i] = ~(bit | (bit - 1));
		((uint64_t *)(w->special + S_gridid * SPECIAL_BYTES))[i] = l->grid_id;
	}
	fill(w, S_warpid, (uint32_t)w->id);
	fill(w, S_nwarpid, (uint32_t)b->n_warps);
	fill(w, S_smid, (uint32_t)(b->index % l->n_sm));
	fill(w, S_nsmid, l->n_sm);
	fill(w, S_dynamic_smem_size, l->dynamic_shared);
	fill(w, S_total_smem_size, b->shared_bytes);
}

void warp_begin(Worker *k, int id, uint32_t live)
{
	const Func *f = k->block.launch->f;

	if (!k->warp[id]) {
		k->warp[id] = aligned_alloc(64, (sizeof(Warp) + 63) & ~63ul);
		if (!k->warp[id])
			abort();
		memset(k->warp[id], 0, sizeof(Warp));
	}
	Warp *w = k->warp[id];
	w->id = id;
	w->block = &k->block;
	w->live = live;
	w->state = WARP_READY;
	w->depth = w->n_stack = w->n_copies = w->pc = 0;
	w->mask = 0;
	w->n_mma = w->all_mma = 0;
	w->mma_group = 0;
	w->mma_fenced = false;
	memset(&w->seen, 0, sizeof w->seen);
	w->seen.clock[id] = 1;
	memset(w->group, 0, sizeof w->group);
	fill_specials(w);
	frame_push(w, f, NULL, live);
}

/* Makes the top entry of the stack the running one; removes entries that have met. */
static void settle(Warp *w)
{
	while (w->n_stack) {
		Entry *top = &w->stack[w->n_stack - 1];
		Frame *fr = &w->frame[w->depth - 1];
		if (top->mask && top->pc != top->meet && top->pc < fr->f->n_inst) {
			w->pc = top->pc;
			w->mask = top->mask;
			return;
		}
		w->n_stack--;
		if (w->n_stack == fr->stack)
			frame_pop(w);
	}
	w->state = WARP_DONE;
}

static void run_warp(Warp *w, uint32_t turn)
{
	Block *b = w->block;
	Counters *c = &b->worker->count;

	settle(w);
	while (w->state == WARP_READY && turn--) {
		const Frame *fr = &w->frame[w->depth - 1];
		const Inst *in = &fr->f->inst[w->pc];
		uint32_t mask = w->mask;
		Entry *top = &w->stack[w->n_stack - 1];

		w->in = in;
		top->pc = w->pc + 1;
		if (in->guarded)
			mask &= pred_at(w, in->guard);
		c->warp_instructions++;
		c->inst[in->cls] += (unsigned)__builtin_popcount(mask);
		b->steps++;
		if (b->launch->trace)
			trace(w, mask);
		if (mask)
			in->exec(w, in, mask);
		settle(w);
	}
}

void trace(const Warp *w, uint32_t mask)
{
	int length;
	const Block *b = w->block;
	const char *text = module_line(b->launch->f->module, w->in->line, &length);

	fprintf(stderr, "%s (%u,%u,%u) warp %d %08x %d: %.*s\n", b->launch->f->name, b->id[0],
		b->id[1], b->id[2], w->id, mask, w->in->line, length, text);
}

void run_block(Worker *k)
{
	Block *b = &k->block;

	for (int left = b->n_warps; left;) {
		int ready[MAX_WARPS], n = 0;
		for (int i = 0; i < b->n_warps; i++)
			if (k->warp[i]->state == WARP_READY)
				ready[n++] = i;
		if (!n)
			barrier_stuck(b);
		Warp *w = k->warp[ready[draw(b, (uint32_t)n)]];
		run_warp(w, 1 + draw(b, TURN));
		left -= w->state == WARP_DONE;
		if (b->launch->limit && b->steps > b->launch->limit)
			fault(w, -1, CUDA_ERROR_LAUNCH_TIMEOUT,
			      "no end after %llu instructions of warps (PTXSIM_LIMIT)",
			      (unsigned long long)b->steps);
	}
	wgmma_end(k);
	bulk_land(b, true);
}
