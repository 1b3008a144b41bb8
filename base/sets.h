/* SPDX-License-Identifier: Apache-2.0 */
/* Disjoint sets of 0 .. n-1, each represented by one of its members: union-find with path
 * halving (Tarjan and van Leeuwen, "Worst-case analysis of set union algorithms", 1984). */
#ifndef BASE_SETS_H
#define BASE_SETS_H

#include "base/arena.h"

typedef struct Sets {
	int *parent;
} Sets;

/* N sets with one member each. */
static inline Sets sets_new(Arena *a, int n)
{
	Sets s = {NEW_ARRAY(a, n, int)};

	for (int i = 0; i < n; i++)
		s.parent[i] = i;
	return s;
}

/* The representative of X's set. */
static inline int sets_find(Sets s, int x)
{
	while (s.parent[x] != x)
		x = s.parent[x] = s.parent[s.parent[x]];
	return x;
}

/* Merges the sets represented by KEEP and GONE into one, represented by KEEP. */
static inline void sets_join(Sets s, int keep, int gone)
{
	s.parent[gone] = keep;
}

#endif
