/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A case of tests/edges.py: a graph as text (docs/ir.md), after lines about its inputs.
 *
 * ; data x=signs w=pairs      values of inputs; all others are `ints` ; sizes N=1 K=33
 * the symbols of one run; any number of lines, none if there are no symbols ; close
 * results need to agree only as for whole models, not bit by bit
 *
 * Kinds of values, which are the same in every run:
 *
 * ints     -2 .. 2 (unsigned: 0 .. 4): sums of products are exact signs    1 and -1, some 2:
 * products are exact hot      0 and -inf: exp of them is exact pairs    v, -v, w, -w ... along the
 * last dim, and a 0 if its size is odd: means are exact floats   uniform between -1 and 1 spots
 * as `ints`, but with some infinities and NaN at every other index of the first dim special  zeros,
 * infinities, NaN, subnormals, ends of ranges, halves; then random bits
 */
#ifndef TESTS_TOOLS_BATCH_EDGE_H
#define TESTS_TOOLS_BATCH_EDGE_H

#include "ir/graph/graph.h"
#include "tools/dlrun/array.h"

/* Whether DIR is the name of such a file. */
bool edge_is(const char *dir);
/* Reads the graph of TEXT in a context of its own; null after a diagnostic. */
Graph *edge_graph(Arena *a, Diag *d, const char *text);
bool edge_is_close(const char *text);
/* The number of runs in TEXT. */
int edge_count(const char *text);
/* Makes the inputs of G for run K; false after a diagnostic. */
bool edge_inputs(Arena *a, Diag *d, const char *text, const Graph *g, int k, Array *in);

#endif
