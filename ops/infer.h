/* SPDX-License-Identifier: Apache-2.0 */
/* Inference's own state, shared by ops/infer.c, contents.c, expand.c, lower.c and elementwise.c. */
#ifndef OPS_INFER_H
#define OPS_INFER_H

#include "ops/op.h"

enum {
	MAX_CONTENTS = 64, /* elements of a tensor whose contents are kept as dims */
	MAX_DEPTH = 128    /* how far contents are traced back through nodes */
};

typedef struct Contents {
	Dim **at;    /* null: not computed yet */
	int n;
	bool done;   /* whether the symbols in it have been chosen */
	bool opaque; /* cannot be expressed without symbols that are read from data */
} Contents;

struct Infer {
	Graph *graph;
	Ctx *ctx;
	Arena *arena;
	VEC(Contents *) contents; /* by Value.id */
	int errors, depth;
	/* a fact has tightened the bound of a symbol since the types were last simplified */
	bool bounded;
	bool seedless; /* the warning about random numbers without a seed was given */
};

/* infer_node for a node that may be composite. OUT (nout entries) gets the values that stand for
 * its results; if the node was replaced and removed, they differ from the node's own. */
bool infer_or_expand(Infer *in, Node *n, Value **out);

/* ---- elementwise.c ---- */

/* The defaults for operators with `scalar` (ops/elementwise.c). */
bool infer_elementwise(Infer *in, Node *n);
void lower_elementwise(Infer *in, Node *n, Kernel *k);

/* ---- contents.c ---- */

/* The tensor that V is equal to, if V depends on small constants alone; else null. */
const Tensor *infer_const_tensor(Infer *in, Value *v);
/* From now on the contents of V are symbols that are read from it, even if V could be traced
 * back. */
void infer_read_at_run_time(Infer *in, Value *v);
/* Whether D depends on the elements of a tensor at run time. */
bool dim_from_data(Dim *d);
/* The number of elements, if it is a constant up to MAX; else -1. */
int64_t type_const_numel(const Type *t, int64_t max);

#endif
