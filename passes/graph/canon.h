/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of canon share: the walk's state, and the one way in which a node is replaced. */
#ifndef PASSES_GRAPH_CANON_H
#define PASSES_GRAPH_CANON_H

#include "passes/module.h"

enum {
	FOLD_BYTES = 4096 /* results up to this are computed by the compiler itself */
};

struct RuleSet;

typedef struct Canon {
	Module *m;
	Graph *g;
	Infer *in;
	Arena *tmp;        /* until the pass ends */
	int budget;        /* rewrites left; negative: no limit */
	bool changed;      /* in this round */
	struct RuleSet *rules;
	VEC(char) weights; /* by Value.id: 0 not known yet, 1 computed from constants alone, 2 not */
} Canon;

/* Whether one more rewrite is allowed (--rewrite-limit). */
static inline bool canon_may(const Canon *c) { return c->budget != 0; }

/* N's only used result becomes V, which has the same type and keeps N's name where it has none; N goes. Counts
 * as a rewrite. */
void canon_replace(Canon *c, Node *n, Value *v);
/* A rewrite in place was done. */
void canon_count(Canon *c);
/* A node of one result before N, with N's locations, and its type inferred. */
Value *canon_node(Canon *c, Node *n, OpKind op, Value *const *in, int nin);
/* As canon_node: V under type T; V itself where it has it. */
Value *canon_view(Canon *c, Node *n, Value *v, const Type *t);
/* Whether V is computed from constants alone (value_is_weights, remembered). */
bool canon_is_weights(Canon *c, const Value *v);
/* The constant behind V, where every element of it is the same number. */
bool canon_splat(const Value *v, double *out);

/* Each tries one kind of rewrite on N, and says whether N was replaced (and is gone). */
bool fold_node(Canon *c, Node *n);     /* passes/graph/fold.c: constants, and contents that are dims */
bool simplify_node(Canon *c, Node *n); /* passes/graph/simplify.c: what does nothing, views, pairs that cancel */
bool rules_node(Canon *c, Node *n);    /* passes/graph/rules.c: the equations of rules.def */

/* Common subexpressions: one walk (passes/graph/cse.c). */
void cse_graph(Canon *c);

#endif
