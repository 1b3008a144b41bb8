/* SPDX-License-Identifier: Apache-2.0 */
/* Values that a kernel of their own computes before the kernels that need them. */
#ifndef PASSES_FORMS_AHEAD_H
#define PASSES_FORMS_AHEAD_H

#include "passes/module.h"

/* A kernel that was made, the block that it is in, and a hash of what it computes. */
typedef struct PrecomputedNode {
	Node *n;
	int block;
	uint64_t hash;
} PrecomputedNode;

/* The kernels that a pass has made so far. */
typedef struct Precomputed {
	Module *m;
	int *block; /* by Node.id, for the nodes that the graph had at the start */
	VEC(PrecomputedNode) at;
} Precomputed;

Precomputed ahead_new(Module *m);
/* The values of E, an expression of statement S of N's kernel, at all points of IT, the iterators
 * that it depends on: a dim for each. They are computed before N, by a kernel whose name ends in
 * SUFFIX, as its result RESULT. Kernels of one block that need the same values share them. */
Value *ahead_value(Precomputed *all, Node *n, const Stmt *s, Expr *e, Iter *const *it, int nit,
		   const char *suffix, const char *result);

#endif
