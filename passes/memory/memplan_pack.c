/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the offsets of the slots in an arena. Slots that are in use at the same time must not
 * overlap, and the arena should be little larger than the peak of the memory in use.
 *
 * Sizes are dims. The slots are packed for one sample of the symbols' values, the largest first,
 * each into the lowest gap that fits among the slots that it may not overlap. Other orders are
 * tried, too, and the shortest arena wins. Only the order of the slots is recorded: a slot begins
 * where the highest slot below it ends. This is valid for all sizes, and for the sample the arena
 * is no longer than the packed one.
 */
#include "passes/memory/memplan_pack.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* The value, in the sample, of symbols without an upper bound; other symbols have their bound, up
 * to this limit. */
enum { SAMPLE = 64 };

typedef VEC(int) Numbers;

typedef struct Packer {
	Module *m;
	Arena *tmp;
	Slots *s;
	Numbers *with;      /* by slot: the slots in use at the same time */
	int64_t *bytes;     /* in the sample */
	int64_t *at, *best; /* offsets in the sample; at: -1 if not placed yet */
	int64_t total, best_total;
	int *order;
} Packer;

int memplan_take(Module *m, Slots *s, Dim *size)
{
	vec_push(m->arena, s, ((Slot){.size = size, .from = s->clock++, .until = INT_MAX}));
	return s->n - 1;
}

void memplan_give_back(Slots *s, int i)
{
	s->at[i].until = s->clock++;
}

static bool together(const Slots *s, int i, int j)
{
	return s->at[i].from <= s->at[j].until && s->at[j].from <= s->at[i].until;
}

/* Finds the slots in use at the same time as each slot, from the slots in use at each tick. */
static void find_together(Packer *p)
{
	Slots *s = p->s;
	int *taken = NEW_ARRAY(p->tmp, s->clock + 1, int);
	int *given = NEW_ARRAY(p->tmp, s->clock + 1, int); /* slot + 1; 0: none */
	Numbers use = {0};

	p->with = NEW_ARRAY(p->tmp, s->n + 1, Numbers);
	for (int i = 0; i < s->n; i++) {
		taken[s->at[i].from] = i + 1;
		if (s->at[i].until < s->clock)
			given[s->at[i].until] = i + 1;
	}
	for (int t = 0; t < s->clock; t++) {
		for (int k = 0; taken[t] && k < use.n; k++) {
			vec_push(p->tmp, &p->with[taken[t] - 1], use.at[k]);
			vec_push(p->tmp, &p->with[use.at[k]], taken[t] - 1);
		}
		if (taken[t])
			vec_push(p->tmp, &use, taken[t] - 1);
		for (int k = 0; given[t] && k < use.n; k++)
			if (use.at[k] == given[t] - 1) {
				use.at[k] = use.at[--use.n];
				break;
			}
	}
}

int64_t *memplan_sample(const Module *m, Arena *a)
{
	return syms_sample(m->ctx, a, SAMPLE);
}

static void take_sample(Packer *p)
{
	const int64_t align = 64, most = (int64_t)1 << 40;
	int64_t *sym = memplan_sample(p->m, p->tmp);

	p->bytes = NEW_ARRAY(p->tmp, p->s->n + 1, int64_t);
	for (int i = 0; i < p->s->n; i++) {
		int64_t *b = &p->bytes[i];

		if (!dim_eval(p->s->at[i].size, sym, b) || *b > most)
			*b = most;
		*b = *b < align ? align : (*b + align - 1) / align * align;
	}
}

/* ---- Packing the sample ---- */

static int by_key(const void *a, const void *b, void *arg)
{
	const int64_t *key = arg;
	const int x = *(const int *)a, y = *(const int *)b;

	return key[x] < key[y] ? -1 : key[x] > key[y] ? 1 : x - y;
}

static void sort_by(int *list, int n, const int64_t *key)
{
	if (n)
		qsort_r(list, (size_t)n, sizeof *list, by_key, (void *)(uintptr_t)key);
}

/* The lowest offset at which slot I overlaps none of the placed slots; ROOM has space for all
 * slots. */
static int64_t lowest_gap(Packer *p, int i, int *room)
{
	int64_t at = 0;
	int n = 0;

	for (int k = 0; k < p->with[i].n; k++)
		if (p->at[p->with[i].at[k]] >= 0)
			room[n++] = p->with[i].at[k];
	sort_by(room, n, p->at);
	for (int k = 0; k < n && p->at[room[k]] < at + p->bytes[i]; k++) {
		const int64_t end = p->at[room[k]] + p->bytes[room[k]];

		at = end > at ? end : at;
	}
	return at;
}

/* Places all slots in the order of KEY, and records the result if the arena is the shortest so
 * far. */
static void pack(Packer *p, const int64_t *key)
{
	const int n = p->s->n;
	int *room = NEW_ARRAY(p->tmp, n + 1, int);

	for (int i = 0; i < n; i++) {
		p->order[i] = i;
		p->at[i] = -1;
	}
	sort_by(p->order, n, key);
	p->total = 0;
	for (int k = 0; k < n; k++) {
		const int i = p->order[k];

		p->at[i] = lowest_gap(p, i, room);
		if (p->at[i] + p->bytes[i] > p->total)
			p->total = p->at[i] + p->bytes[i];
	}
	if (p->total < p->best_total) {
		p->best_total = p->total;
		memcpy(p->best, p->at, (size_t)n * sizeof *p->at);
	}
}

/* The peak of bytes in use together, in the sample: no arena is shorter. */
static int64_t least_total(const Packer *p)
{
	int64_t *change = NEW_ARRAY(p->tmp, p->s->clock + 1, int64_t), sum = 0, most = 0;

	for (int i = 0; i < p->s->n; i++) {
		change[p->s->at[i].from] += p->bytes[i];
		if (p->s->at[i].until < p->s->clock)
			change[p->s->at[i].until] -= p->bytes[i];
	}
	for (int t = 0; t < p->s->clock; t++) {
		sum += change[t];
		most = sum > most ? sum : most;
	}
	return most;
}

static void pack_sample(Packer *p)
{
	const int n = p->s->n;
	int64_t *key = NEW_ARRAY(p->tmp, n + 1, int64_t), least = least_total(p);

	p->at = NEW_ARRAY(p->tmp, n + 1, int64_t);
	p->best = NEW_ARRAY(p->tmp, n + 1, int64_t);
	p->order = NEW_ARRAY(p->tmp, n + 1, int);
	p->best_total = INT64_MAX;
	/* the largest first; those with the most concurrent bytes first; in time; backwards */
	for (int kind = 0; kind < 4 && p->best_total > least; kind++) {
		for (int i = 0; i < n; i++) {
			int64_t beside = p->bytes[i];

			for (int k = 0; k < p->with[i].n; k++)
				beside += p->bytes[p->with[i].at[k]];
			key[i] = kind == 0   ? -p->bytes[i]
				 : kind == 1 ? -beside
				 : kind == 2 ? p->s->at[i].from
					     : -p->s->at[i].from;
		}
		pack(p, key);
	}
}

/* ---- The order of slots ---- */

/* Records the slots directly below slot I. Slots below those are left out. */
static void find_below(Packer *p, int i, int *room, bool *covered)
{
	Slot *s = &p->s->at[i];
	int n = 0;

	for (int k = 0; k < p->with[i].n; k++) {
		const int j = p->with[i].at[k];

		if (p->best[j] < p->best[i])
			room[n++] = j;
	}
	sort_by(room, n, p->best);
	for (int k = n - 1; k >= 0; k--) {
		bool hidden = false;

		covered[room[k]] = true;
		for (int x = 0; x < s->nbelow && !hidden; x++)
			hidden = together(p->s, room[k], s->below[x]);
		if (hidden)
			continue;
		/* a slot has at most as many slots below it as are in use together with it */
		if (!s->below)
			s->below = NEW_ARRAY(p->m->arena, n, int);
		s->below[s->nbelow++] = room[k];
	}
}

/* The offset of slot I if it is known at compile time, else -1. */
static int64_t known_offset(const Slots *s, int i)
{
	int64_t at = 0, size;

	for (int k = 0; k < s->at[i].nbelow; k++) {
		const Slot *b = &s->at[s->at[i].below[k]];

		if (b->offset < 0 || !dim_is_const(b->size, &size))
			return -1;
		size = (size + 63) / 64 * 64 + b->offset;
		at = size > at ? size : at;
	}
	return at;
}

void memplan_pack(Module *m, Slots *s)
{
	Packer p = {.m = m, .tmp = arena_new(), .s = s};
	int *room = NEW_ARRAY(p.tmp, s->n + 1, int);
	bool *covered = NEW_ARRAY(p.tmp, s->n + 1, bool);

	find_together(&p);
	take_sample(&p);
	s->sample_least = least_total(&p);
	pack_sample(&p);
	s->sample_total = s->n ? p.best_total : 0;
	s->order = NEW_ARRAY(m->arena, s->n + 1, int);
	for (int i = 0; i < s->n; i++)
		s->order[i] = i;
	sort_by(s->order, s->n, p.best);
	for (int k = 0; k < s->n; k++) {
		const int i = s->order[k];

		find_below(&p, i, room, covered);
		s->at[i].offset = known_offset(s, i);
	}
	for (int i = 0; i < s->n; i++)
		s->at[i].top = !covered[i];
	arena_free(p.tmp);
}
