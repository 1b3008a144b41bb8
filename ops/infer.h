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
	Dim **at;    /* null: not asked for yet */
	int n;
	bool done;   /* the symbols in it are chosen */
	bool opaque; /* cannot be had without symbols read from data */
} Contents;

struct Infer {
	Graph *graph;
	Ctx *ctx;
	Arena *arena;
	VEC(Contents *) contents; /* by Value.id */
	int errors, depth;
	bool bounded; /* a fact has bounded a symbol since types were last refreshed */
};

/* Ops with `scalar`, where they bring no infer or lower of their own (ops/elementwise.c). */
bool infer_elementwise(Infer *in, Node *n);
void lower_elementwise(Infer *in, Node *n, Kernel *k);
/* infer_node for a node that may be a composite: OUT (nout entries) gets the values that stand for its
 * results, which are others than the node's own where it was replaced and removed. */
bool infer_or_expand(Infer *in, Node *n, Value **out);
/* The tensor behind V where V depends on small constants alone; null where it does not. */
const Tensor *infer_const_tensor(Infer *in, Value *v);
/* From now on the contents of V are symbols that are read from it, whatever it is computed from. */
void infer_read_at_run_time(Infer *in, Value *v);
/* Whether D depends on what a tensor holds at run time. */
bool dim_from_data(Dim *d);
/* Elements where the size is a constant up to MAX, else -1. */
int64_t type_const_numel(const Type *t, int64_t max);

#endif
