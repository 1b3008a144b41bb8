/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes: what the names of one ONNX graph mean while it is imported. A subgraph's scope has the scope
 * around it as parent; the body of a function has none.
 *
 * Names are interned in the context, so a lookup compares pointers.
 */
#ifndef FRONTEND_SCOPE_H
#define FRONTEND_SCOPE_H

#include "frontend/onnx.pb-c.h"
#include "ir/graph.h"

typedef enum BindKind {
	BIND_NODE,   /* made by a node that is still to be imported: NODE */
	BIND_TENSOR, /* an initialiser that nothing has used yet: TENSOR or SPARSE */
	BIND_VALUE,  /* VALUE; null: an optional operand that the caller omitted */
	BIND_BROKEN /* a fault was reported where it should have been made; its users keep silent */
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
	Graph *graph; /* where its nodes go */
	Binding **slot;
	int n, cap; /* CAP: a power of two */
	VEC(Value *)
	captures; /* of a region: what it takes from around it, in the order of its inputs */
} Scope;

Scope *scope_new(Arena *a, Graph *g, Scope *parent);
/* NAME in this scope alone; null where there is none. */
Binding *scope_find(const Scope *s, const char *name);
/* A new binding of NAME, or null where it has one already. */
Binding *scope_add(Scope *s, const char *name, BindKind kind);
/* The input of S's region that stands for OUTER, a value of the parent's graph. */
Value *scope_capture(Scope *s, Value *outer, const char *name);

#endif
