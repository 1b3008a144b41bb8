/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ptxsim/shadow.h"

#include <stdlib.h>
#include <string.h>

/* A tag: moment 20 bits, warp 5, lane 6, strong 1. */
enum { STRONG_BIT = 1, LANE_SHIFT = 1, WARP_SHIFT = 7, MOMENT_SHIFT = 12 };
static const uint32_t LAST_MOMENT = (1u << 20) - 1;

typedef struct Cell {
	uint32_t write, read[2];
} Cell;

struct Shadow {
	uint8_t *state;
	Cell *cell;
	size_t state_cap, cell_cap;
	uint32_t granule_bits, now,
		begun; /* NOW: a moment that no tag has reached; BEGUN: the block's first */
};

Shadow *shadow_new(void)
{
	return calloc(1, sizeof(Shadow));
}

void shadow_begin(Shadow *s, uint32_t size, uint32_t granule, Warp *const *warps, int n_warps)
{
	size_t cells = (size >> __builtin_ctz(granule)) + 1;

	if (s->state_cap < size + 64) {
		free(s->state);
		s->state_cap = size + 64;
		s->state = malloc(s->state_cap);
	}
	/* Moments go on from block to block, so that old tags are old. */
	if (s->cell_cap < cells || s->granule_bits != (uint32_t)__builtin_ctz(granule) ||
	    s->now > LAST_MOMENT / 2) {
		if (s->cell_cap < cells) {
			free(s->cell);
			s->cell_cap = cells;
			s->cell = malloc(cells * sizeof(Cell));
		}
		if (s->cell)
			memset(s->cell, 0, s->cell_cap * sizeof(Cell));
		s->granule_bits = (uint32_t)__builtin_ctz(granule);
		s->now = 1;
	}
	if (!s->state || !s->cell)
		abort();
	memset(s->state, BYTE_POISON, size);
	s->begun = ++s->now;
	for (int i = 0; i < n_warps; i++) {
		for (int k = 0; k < MAX_WARPS; k++)
			warps[i]->seen.clock[k] = s->now - 1;
		warps[i]->seen.clock[MAX_WARPS] = s->now - 1;
		warps[i]->seen.clock[i] = s->now;
	}
}

void shadow_close(Shadow *s, uint32_t at, uint32_t len)
{
	memset(s->state + at, BYTE_NOBODYS, len);
}

static uint32_t later(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

void shadow_join(Seen *to, const Seen *from)
{
	for (int i = 0; i < CLOCKS; i++)
		to->clock[i] = later(to->clock[i], from->clock[i]);
	for (int i = 0; i < MAX_WARPS; i++)
		to->fenced[i] = later(to->fenced[i], from->fenced[i]);
}

void shadow_tick(Warp *w)
{
	Shadow *s = w->block->shadow;

	if (w->seen.clock[w->id] < LAST_MOMENT)
		w->seen.clock[w->id]++;
	if (s && s->now < w->seen.clock[w->id])
		s->now = w->seen.clock[w->id];
}

void shadow_fence(Warp *w)
{
	memcpy(w->seen.fenced, w->seen.clock, sizeof w->seen.fenced);
	shadow_tick(w);
}

static int warp_of(uint32_t tag)
{
	return (int)(tag >> WARP_SHIFT & 31);
}

static int lane_of(uint32_t tag)
{
	return (int)(tag >> LANE_SHIFT & 63);
}

static bool ordered(uint32_t tag, const Warp *w, int lane)
{
	uint32_t moment = tag >> MOMENT_SHIFT;

	if (lane_of(tag) == BULK_COPY)
		return moment <= w->seen.clock[MAX_WARPS];
	if (warp_of(tag) != w->id)
		return moment <= w->seen.clock[warp_of(tag)];
	return moment < w->seen.clock[w->id] || (lane_of(tag) == lane && lane != WHOLE_WARP);
}

_Noreturn static void race(Warp *w, int lane, uint32_t at, const char *what, const char *did,
			   uint32_t tag)
{
	char who[40];

	if (lane_of(tag) == BULK_COPY)
		snprintf(who, sizeof who, "a bulk copy of warp %d", warp_of(tag));
	else if (lane_of(tag) == WHOLE_WARP)
		snprintf(who, sizeof who, "warp %d", warp_of(tag));
	else
		snprintf(who, sizeof who, "warp %d lane %d", warp_of(tag), lane_of(tag));
	fault(w, lane == WHOLE_WARP ? -1 : lane, CUDA_ERROR_LAUNCH_FAILED,
	      "race: %s shared memory at %u, which %s %s, and no barrier orders the two", what, at,
	      who, did);
}

static bool conflict(uint32_t tag, const Warp *w, int lane, bool strong)
{
	return tag && !ordered(tag, w, lane) && !(strong && (tag & STRONG_BIT));
}

/* W uses, by the async proxy, what a store wrote. */
static void check_proxy(Warp *w, int lane, uint32_t at, uint32_t tag)
{
	if (tag && lane_of(tag) != BULK_COPY && tag >> MOMENT_SHIFT > w->seen.fenced[warp_of(tag)])
		fault(w, lane == WHOLE_WARP ? -1 : lane, CUDA_ERROR_LAUNCH_FAILED,
		      "an asynchronous operation uses shared memory at %u, which warp %d wrote, and no "
		      "fence.proxy.async is between the two",
		      at, warp_of(tag));
}

static void note_read(Cell *c, const Warp *w, int lane, uint32_t tag)
{
	for (int k = 0; k < 2; k++)
		if (c->read[k] && warp_of(c->read[k]) == w->id) {
			bool others = c->read[k] >> MOMENT_SHIFT == tag >> MOMENT_SHIFT &&
				      lane_of(c->read[k]) != lane;
			c->read[k] = others ? tag | WHOLE_WARP << LANE_SHIFT : tag;
			return;
		}
	for (int k = 0; k < 2; k++)
		if (!c->read[k] || ordered(c->read[k], w, lane)) {
			c->read[k] = tag;
			return;
		}
	c->read[draw(w->block, 2)] = tag;
}

void shadow_use(Warp *w, int lane, uint32_t at, uint32_t len, int how)
{
	Shadow *s = w->block->shadow;
	bool strong = how & (STRONG | ATOMIC), writes = how & (WRITE | ATOMIC);
	uint32_t tag = w->seen.clock[w->id] << MOMENT_SHIFT | (uint32_t)w->id << WARP_SHIFT |
		       (uint32_t)lane << LANE_SHIFT | strong;

	for (uint32_t g = at >> s->granule_bits; g <= (at + len - 1) >> s->granule_bits; g++) {
		Cell *c = &s->cell[g];
		uint32_t where = g << s->granule_bits;
		if (how & SAME) {
			c->write = tag;
			continue;
		}
		if (conflict(c->write, w, lane, strong))
			race(w, lane, where, writes ? "writes" : "reads", "wrote", c->write);
		if (how & ASYNC && c->write >> MOMENT_SHIFT >= s->begun)
			check_proxy(w, lane, where, c->write);
		if (writes) {
			for (int k = 0; k < 2; k++)
				if (conflict(c->read[k], w, lane, strong))
					race(w, lane, where, "writes", "reads", c->read[k]);
			c->write = tag;
			c->read[0] = c->read[1] = 0;
		} else {
			note_read(c, w, lane, tag);
		}
	}
	for (uint32_t i = at; i < at + len; i++) {
		if (s->state[i] == BYTE_WRITTEN)
			continue;
		if (s->state[i] == BYTE_NOBODYS)
			fault(w, lane == WHOLE_WARP ? -1 : lane, CUDA_ERROR_ILLEGAL_ADDRESS,
			      "out of bounds: %s shared memory at %u, behind a variable",
			      writes ? "writes" : "reads", i);
		if ((s->state[i] == BYTE_PENDING || s->state[i] == BYTE_BULK) && !(how & LANDS))
			fault(w, lane == WHOLE_WARP ? -1 : lane, CUDA_ERROR_LAUNCH_FAILED,
			      "%s shared memory at %u, where a %s may not have landed",
			      writes ? "writes" : "reads", i,
			      s->state[i] == BYTE_BULK ? "bulk copy" : "cp.async");
		if (how & (READ | ATOMIC))
			fault(w, lane == WHOLE_WARP ? -1 : lane, CUDA_ERROR_LAUNCH_FAILED,
			      "reads shared memory at %u, which was never written", i);
		s->state[i] = BYTE_WRITTEN;
	}
}

void shadow_pend(Warp *w, int lane, uint32_t at, uint32_t len, int how)
{
	shadow_use(w, lane, at, len, WRITE | how);
	memset(w->block->shadow->state + at, how & ASYNC ? BYTE_BULK : BYTE_PENDING, len);
}

uint32_t shadow_land(Block *b, uint32_t at, uint32_t len)
{
	Shadow *s = b->shadow;
	const uint32_t moment = b->landed < s->begun ? s->begun
						     : b->landed + (b->landed < LAST_MOMENT);

	for (uint32_t g = at >> s->granule_bits; g <= (at + len - 1) >> s->granule_bits; g++) {
		Cell *c = &s->cell[g];

		c->write = moment << MOMENT_SHIFT | (c->write & 31u << WARP_SHIFT) |
			   BULK_COPY << LANE_SHIFT;
	}
	memset(s->state + at, BYTE_WRITTEN, len);
	s->now = s->now < moment ? moment : s->now;
	return b->landed = moment;
}
