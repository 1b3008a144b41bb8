/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of canon: the state of the walk, and the only function that replaces a
 * node. */
#ifndef PASSES_GRAPH_CANON_H
#define PASSES_GRAPH_CANON_H

#include "passes/module.h"

enum {
	FOLD_BYTES = 4096 /* larger results are not computed at compile time */
};

struct RuleSet;

typedef struct Canon {
	Module *m;
	Graph *g;
	Infer *in;
	Arena *tmp;        /* freed at the end of the pass */
	int budget;        /* number of rewrites that are left; negative: no limit */
	bool changed;      /* whether this round has changed anything */
	struct RuleSet *rules;
	int *block, nnodes; /* by Node.id, for the nodes that this round began with: their blocks */
	int now;            /* the block of the node that is visited */
} Canon;

/* Whether one more rewrite is allowed (--rewrite-limit). */
static inline bool canon_may(const Canon *c) { return c->budget != 0; }

/* Replaces N's only used result by V and removes N. V has the same type; it gets N's name if it
 * has none. Counts as a rewrite. */
void canon_replace(Canon *c, Node *n, Value *v);
/* Counts a rewrite that was done in place. */
void canon_count(Canon *c);
/* Makes a typed node of one result before N, with N's locations. */
Value *canon_node(Canon *c, Node *n, OpKind op, Value *const *in, int nin);
/* As canon_node: V viewed as type T; V itself if it has that type. */
Value *canon_view(Canon *c, Node *n, Value *v, const Type *t);
/* Replaces the Concat N by one of the NIN operands IN, which have the same elements. */
void canon_concat(Canon *c, Node *n, Value *const *in, int nin);
/* Whether the visited node may as well compute N's result: N is not outside of a loop that contains
 * the visited node. */
bool canon_may_move_here(Canon *c, const Node *n);
/* Whether V is a constant all of whose elements are one number, *OUT. */
bool canon_splat(const Value *v, double *out);

/* fold_node, simplify_node and rules_node each try one kind of rewrite on N; true if N was replaced
 * and removed. */

/* ---- fold.c ---- */

bool fold_node(Canon *c, Node *n); /* constants, and values whose elements are dims */

/* The elements of V, of any size, which is computed from constants: a Const, or f32 made of f32.
 * Null if it is not, or is computed from narrower numbers, as by DequantizeLinear, or by more than
 * DEPTH nodes after one another. What they are computed in is in A. */
const Tensor *fold_floats(Module *m, const Value *v, int depth, Arena *a);

/* ---- simplify.c ---- */

bool simplify_node(Canon *c, Node *n); /* nodes that do nothing, views, pairs that cancel */
/* The permutation of the Transpose N: dim PERM[i] of its operand is dim i of its result. */
void canon_transpose_perm(const Node *n, int64_t *perm);

/* ---- rules.c ---- */

bool rules_node(Canon *c, Node *n); /* the equations of rules.def */

/* ---- cse.c ---- */

/* Common subexpressions: one walk. */
void cse_graph(Canon *c);

#endif
