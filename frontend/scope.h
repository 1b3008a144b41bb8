/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes: the meaning of the names of one ONNX graph during import. The parent of a subgraph's
 * scope is the scope of the surrounding graph; the body of a function has no parent.
 *
 * Names are interned in the context, so a lookup compares pointers.
 */
#ifndef FRONTEND_SCOPE_H
#define FRONTEND_SCOPE_H

#include "frontend/onnx.pb-c.h"
#include "ir/graph/graph.h"

typedef enum BindKind {
	BIND_NODE,   /* made by node NODE, which is not imported yet */
	BIND_TENSOR, /* an initialiser that was not used so far: TENSOR or SPARSE */
	BIND_VALUE,  /* VALUE; null: an optional operand that a call omits */
	BIND_BROKEN /* a fault was reported where it is defined; uses of it report nothing more */
} BindKind;

typedef struct Binding {
	const char *name;
	BindKind kind;
	Value *value;
	const Onnx__TensorProto *tensor;
	const Onnx__SparseTensorProto *sparse;
	int node;
} Binding;

typedef struct Scope {
	struct Scope *parent;
	Arena *arena;
	Graph *graph; /* the graph that its nodes are added to */
	Binding **slot;
	int n, cap; /* CAP: a power of two */
	VEC(Value *)
	/* of a region: outer values that it uses, in the order of its additional inputs */
	captures;
} Scope;

Scope *scope_new(Arena *a, Graph *g, Scope *parent);
/* NAME in this scope, without its parents; null if it is not bound. */
Binding *scope_find(const Scope *s, const char *name);
/* Binds NAME; null if it is bound already. */
Binding *scope_add(Scope *s, const char *name, BindKind kind);
/* The input of S's region for OUTER, a value of the parent's graph. */
Value *scope_capture(Scope *s, Value *outer, const char *name);

#endif
