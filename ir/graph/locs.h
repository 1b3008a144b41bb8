/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ONNX nodes that a node of the graph, a kernel or a function implements, for messages, dumps
 * and profiles. A set is one location, or the union of two sets, to which it refers without copying
 * them. So a rewrite that merges two nodes unites their sets in constant time and space: of
 * 20,000 Relu in a row, one node is left, with all their names.
 */
#ifndef IR_GRAPH_LOCS_H
#define IR_GRAPH_LOCS_H

#include "base/vec.h"

#include <stdbool.h>

/* An ONNX node: its name and operator; either may be null. */
typedef struct Loc {
	const char *node, *op;
} Loc;

bool loc_equal(Loc a, Loc b);

typedef struct Locs Locs; /* immutable; a null pointer is the empty set */
typedef VEC(Loc) LocList;

const Locs *locs_one(Arena *a, Loc l);
/* The first location of the union is that of X; if X is empty, that of Y. */
const Locs *locs_union(Arena *a, const Locs *x, const Locs *y);
/* The main location; both members are null if L is empty. */
Loc locs_first(const Locs *l);
/* Visits each location once: the first set's locations, then the locations of the second set that
 * the first lacks. */
LocList locs_all(Arena *a, const Locs *l);
int locs_count(const Locs *l);

#endif
