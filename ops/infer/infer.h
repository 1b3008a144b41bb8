/* SPDX-License-Identifier: Apache-2.0 */
/* Inference's own state, shared by ops/infer/infer.c, contents.c, expand.c, lower.c and
 * elementwise.c. */
#ifndef OPS_INFER_INFER_H
#define OPS_INFER_INFER_H

#include "ops/op.h"

#include <setjmp.h>

enum {
	MAX_CONTENTS = 64, /* limit on the elements of a tensor whose contents are stored as dims */
	MAX_DEPTH = 128    /* limit on the nodes through which contents are traced back */
};

typedef struct Contents {
	Dim **at;    /* null: not computed yet */
	int n;
	bool done;   /* whether the symbols in it have been chosen */
	bool opaque; /* cannot be expressed without symbols that are read from data */
} Contents;

/* The exit from the expansion of a node when a node that it creates cannot be inferred. */
typedef struct Expansion {
	jmp_buf end;
	struct Expansion *outer; /* the expansion that created this one's node; null: none */
	Dim *iteration;          /* Infer.iteration where it began */
} Expansion;

struct Infer {
	Graph *graph;
	Ctx *ctx;
	Arena *arena;
	VEC(Contents *) contents; /* by Value.id */
	int errors, depth;
	Expansion *expansion; /* null: none is under way */
	bool brackets; /* whether the graph has control flow */
	/* a fact has tightened the bound of a symbol since the types were last simplified */
	bool bounded;
	/* in loops: the number of the iteration, of all iterations of the loops around; else
	 * null */
	Dim *iteration;
	int64_t called; /* bytes of definitions that were read for nodes (ops/infer/call.c) */
	/* why a result of an If has no type: its sides give different ranks; the node that it is
	 * of */
	const char *unmerged;
	DiagLoc unmerged_at;
	int copied;    /* nodes that are in both sides of an If for that reason */
	bool seedless; /* the warning about random numbers without a seed was given */
};

/* infer_node for a node that may be composite. OUT (nout entries) gets the replacements of its
 * results; if the node was replaced and removed, they differ from the node's results. */
bool infer_or_expand(Infer *in, Node *n, Value **out);
/* Whether all operands that are there have types. */
bool infer_operands_typed(const Node *n);

/* Whether an operator whose struct says TYPES (Op.types) takes elements of type T; else a
 * diagnostic. */
bool infer_takes(Infer *in, Node *n, const char *types, DType t);
/* Reports TEXT about AT; returns false. */
bool infer_fault(Infer *in, DiagLoc at, const char *text);
/* Infers the nodes from FIRST up to STOP, null for the end of the graph. False after a
 * diagnostic, or with UNMERGED set. */
bool infer_nodes(Infer *in, Node *first, Node *stop);

/* ---- ops/onnx/internal.c ---- */

/* Element AT of X's first axis, which is known to be in range. */
Value *expand_row(Infer *in, Node *n, Value *x, Dim *at);
/* A tensor whose elements are the dims D; a scalar of one where SCALAR. */
Value *expand_dims(Infer *in, Node *n, DType t, Dim *const *d, int count, bool scalar);

/* ---- ops/onnx/random.c ---- */

/* Random numbers with the seed of N: uniform in [0, 1), or of the standard normal distribution. */
Value *random_numbers(Infer *in, Node *n, DType t, int rank, Dim *const *dims, bool normal);

/* ---- ops/onnx/elementwise.c ---- */

/* The defaults for operators with `scalar` (ops/onnx/elementwise.c). */
bool infer_elementwise(Infer *in, Node *n);
void lower_elementwise(Infer *in, Node *n, Kernel *k);

/* ---- contents.c ---- */

/* The tensor that V equals, if V depends only on small constants; else null. */
const Tensor *infer_const_tensor(Infer *in, Value *v);
/* Symbols from number FIRST on belong to nodes that were made for an attempt and are removed
 * now: they are no longer read from tensors. */
void infer_forget_syms(Infer *in, int first);
/* Makes the contents of V symbols that are read from V, even if V could be traced back. */
void infer_read_at_run_time(Infer *in, Value *v);
/* The number of elements, if it is a constant up to MAX; else -1. */
int64_t type_const_numel(const Type *t, int64_t max);

/* ---- control.c ---- */

/* 1 where the node N runs, else 0: facts of a side of a When, or of a loop that may have no
 * iteration, hold only then. Null: N always runs. */
Dim *infer_when(Infer *in, const Node *n);

#endif
