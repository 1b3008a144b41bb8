/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A case of tests/edges.py: a graph as text (docs/ir.md) after lines that say what to feed it.
 *
 *   ; data x=signs w=pairs      values of the inputs; the others are `ints`
 *   ; sizes N=1 K=33            the symbols of one run; any number of lines, none: no symbols
 *   ; close                     results within the rule for whole models, not bit-equal
 *
 * Values, the same every time:
 *   ints     -2 .. 2 (unsigned: 0 .. 4): sums of products are exact
 *   signs    1 and -1, some 2: products are exact
 *   hot      0 and -inf: exp of them is exact
 *   pairs    v, -v, w, -w ... along the last dim, a 0 where it is odd: means are exact
 *   floats   evenly between -1 and 1
 *   spots    as `ints`, and at every other index of the first dim, here and there, an infinity or NaN
 *   special  zeros, infinities, NaN, subnormals, ends of ranges, halves; then any bits
 */
#ifndef TESTS_TOOLS_BATCH_EDGE_H
#define TESTS_TOOLS_BATCH_EDGE_H

#include "ir/graph.h"
#include "tools/dlrun/array.h"

/* Whether DIR names such a file. */
bool edge_is(const char *dir);
/* The graph of TEXT, in a context of its own; null after a diagnostic. */
Graph *edge_graph(Arena *a, Diag *d, const char *text);
bool edge_is_close(const char *text);
/* Runs that TEXT asks for. */
int edge_count(const char *text);
/* The inputs of G for run K; false after a diagnostic. */
bool edge_inputs(Arena *a, Diag *d, const char *text, const Graph *g, int k, Array *in);

#endif
