/* SPDX-License-Identifier: Apache-2.0 */
/* Strips of points over boxes of iterators. */
#include "ir/eval/eval_impl.h"

#include <assert.h>
#include <string.h>

/* ---- Walks ---- */

void walk_init(StripWalk *w, Arena *a, const int *slot, int n, const int64_t *extents, int limit,
	       int64_t *pattern)
{
	int64_t inner = 1;
	int at;

	assert(limit <= STRIP);
	*w = (StripWalk){.n = n, .pattern = *pattern};
	*pattern += 2;
	for (int i = 0; i < n; i++) {
		w->slot[i] = slot[i];
		w->extent[i] = extents[slot[i]];
		w->empty |= w->extent[i] <= 0;
	}
	if (w->empty)
		return;
	for (at = n - 1; at >= 0 && w->extent[at] <= limit / inner; at--)
		inner *= w->extent[at];
	w->chunk_at = at;
	w->inner = (int)inner;
	w->chunk = at >= 0 ? limit / inner : 1;
	w->table = NEW_ARRAY(a, (int64_t)n * STRIP, int64_t);
	for (int64_t l = 0; l < w->chunk * inner; l++) {
		int64_t rest = l;

		for (int i = n - 1; i > at; i--) {
			w->table[i * STRIP + l] = rest % w->extent[i];
			rest /= w->extent[i];
		}
		if (at >= 0)
			w->table[at * STRIP + l] = rest;
	}
}

static void walk_place(const StripWalk *w, EvalPoints *p)
{
	int64_t chunk = 1;

	p->pattern = w->pattern;
	for (int i = 0; i < w->n; i++) {
		p->base[w->slot[i]] = w->at[i];
		p->rel[w->slot[i]] = i >= w->chunk_at ? &w->table[i * STRIP] : NULL;
	}
	if (w->chunk_at >= 0) {
		chunk = w->extent[w->chunk_at] - w->at[w->chunk_at];
		if (chunk < w->chunk)
			p->pattern++;
		else
			chunk = w->chunk;
	}
	p->n = (int)(chunk * w->inner);
}

bool walk_first(StripWalk *w, EvalPoints *p)
{
	if (w->empty)
		return false;
	memset(w->at, 0, sizeof w->at);
	walk_place(w, p);
	return true;
}

bool walk_next(StripWalk *w, EvalPoints *p)
{
	for (int i = w->chunk_at; i >= 0; i--) {
		w->at[i] += i == w->chunk_at ? w->chunk : 1;
		if (w->at[i] < w->extent[i]) {
			walk_place(w, p);
			return true;
		}
		w->at[i] = 0;
	}
	return false;
}

bool points_step(EvalPoints *p, const int *slot, int n, const int64_t *extents)
{
	for (int i = n - 1; i >= 0; i--) {
		if (++p->base[slot[i]] < extents[slot[i]])
			return true;
		p->base[slot[i]] = 0;
	}
	return false;
}
