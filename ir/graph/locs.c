/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/graph/locs.h"

#include "base/str.h"

#include <stdbool.h>

struct Locs {
	Loc first;
	const Locs *x, *y; /* of a union; null in a set of one location */
};

const Locs *locs_one(Arena *a, Loc l)
{
	Locs *one = NEW(a, Locs);

	one->first = l;
	return one;
}

const Locs *locs_union(Arena *a, const Locs *x, const Locs *y)
{
	Locs *both;

	if (!x || !y || x == y)
		return x ? x : y;
	both = NEW(a, Locs);
	*both = (Locs){.first = x->first, .x = x, .y = y};
	return both;
}

Loc locs_first(const Locs *l)
{
	return l ? l->first : (Loc){NULL, NULL};
}

/* ---- All of a set ---- */

/* The visited locations: unions, which a set may share, and single locations, since equal ones may
 * have been created independently. */
typedef struct Visited {
	Arena *tmp;
	const Locs **slot; /* a hash table with open addressing */
	size_t n, cap;     /* cap is a power of two */
} Visited;

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

bool loc_equal(Loc a, Loc b)
{
	return same_text(a.node, b.node) && same_text(a.op, b.op);
}

static bool same(const Locs *a, const Locs *b)
{
	return a == b || (!a->x && !b->x && loc_equal(a->first, b->first));
}

static uint64_t hash_text(uint64_t seed, const char *s)
{
	return s ? hash_bytes(seed, s, strlen(s)) : seed;
}

static size_t hash(const Locs *l)
{
	const uint64_t h = l->x ? hash_bytes(HASH_SEED, &l, sizeof l)
				: hash_text(hash_text(HASH_SEED, l->first.node), l->first.op);

	return (size_t)(h ^ h >> 32);
}

/* The slot of L, or where it belongs. */
static const Locs **find(const Visited *v, const Locs *l)
{
	size_t at = hash(l) & (v->cap - 1);

	while (v->slot[at] && !same(v->slot[at], l))
		at = (at + 1) & (v->cap - 1);
	return &v->slot[at];
}

static void grow(Visited *v)
{
	const Visited old = *v;

	v->cap = old.cap ? old.cap * 2 : 16;
	v->slot = NEW_ARRAY(v->tmp, v->cap, const Locs *);
	for (size_t i = 0; i < old.cap; i++)
		if (old.slot[i])
			*find(v, old.slot[i]) = old.slot[i];
}

/* Adds L; false if it was there. */
static bool visit(Visited *v, const Locs *l)
{
	const Locs **at;

	if (v->n * 2 >= v->cap)
		grow(v);
	at = find(v, l);
	if (*at)
		return false;
	*at = l;
	v->n++;
	return true;
}

LocList locs_all(Arena *a, const Locs *l)
{
	Visited v = {.tmp = arena_new()};
	VEC(const Locs *) rest = {0};
	LocList all = {0};

	if (l)
		vec_push(v.tmp, &rest, l);
	while (rest.n) {
		const Locs *s = rest.at[--rest.n];

		if (!visit(&v, s))
			continue;
		if (s->x) {
			vec_push(v.tmp, &rest, s->y);
			vec_push(v.tmp, &rest, s->x);
		} else {
			vec_push(a, &all, s->first);
		}
	}
	arena_free(v.tmp);
	return all;
}

int locs_count(const Locs *l)
{
	ARENA_LOCAL(tmp);
	const int n = locs_all(tmp, l).n;

	return n;
}
