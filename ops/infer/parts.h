/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that are not tensors. Inference replaces each of them by tensors, its parts, so that no
 * later pass sees another kind of value:
 *
 *     seq(T), opt(T)    the elements of all its tensors, one tensor after the other, in a vector; and
 *                       their shapes, i64[tensors, rank of T]. An optional is a sequence of at most one.
 *     opt(seq(T))       the same, and the number of tensors as i64[1], or i64[0] where there is no sequence
 *     map(K,V)          the keys K[n] and the values V[n]
 *     seq(map(K,V))     the keys K[n], which all its maps share, and the values V[maps, n]
 *
 * While inference runs, the node Join {type = T} makes a value of type T from its parts. A sequence
 * whose tensors are known one by one is a SequenceConstruct, SequenceEmpty or Optional, and needs
 * no parts until control flow, an index that is not constant or a result of the graph asks for
 * them. All tensors of a sequence with parts have one rank.
 */
#ifndef OPS_INFER_PARTS_H
#define OPS_INFER_PARTS_H

#include "ops/op.h"

enum { PARTS_MAX = 3 };

/* Creates a value of type T before N. A tensor is its own part. */
Value *parts_join(Infer *in, Node *n, const Type *t, Value *const *part);
/* PART gets the parts of V as a value of type AS, which may have an optional more than V's type,
 * or a rank where V has no tensors. False after a diagnostic. */
bool parts_of(Infer *in, Node *n, Value *v, const Type *as, Value **part);
/* The type that holds values of types A and B; null after a diagnostic that calls them WHAT. */
const Type *parts_merge(Infer *in, Node *n, const Type *a, const Type *b, const char *what);

/* The type of V. For a sequence with tensors of unknown rank, the rank is that of the listed
 * tensors, or 0. */
const Type *parts_ranked(Infer *in, Node *n, Value *v);

/* A sequence or optional of tensors: listed one by one, or as parts. */
typedef struct Items {
	const Type *elem;
	bool listed;
	Value *const *at; /* listed: the tensors; for an opt(seq), those of the sequence */
	int n;
	Value *data, *shapes; /* of another one */
	Value *count;         /* of an opt(seq): i64[0] or i64[1]; null: it is there */
	bool absent;          /* an optional that is known to have nothing */
} Items;

/* The tensors of V, a value of a type with type_listed. */
Items items_of(Infer *in, Node *n, Value *v);
/* The same, as parts. FIRST, unless null, is a tensor's type: where the tensors of V have
 * another rank or no known type, V must be empty. DATA is null after a diagnostic. */
Items items_with_parts(Infer *in, Node *n, Value *v, const Type *first);
/* The number of tensors. */
Dim *items_count(Infer *in, const Items *s);

/* ---- ops/onnx/sequence.c ---- */

/* The tensor number POSITION, a scalar, of S, which has parts. */
Value *sequence_at(Infer *in, Node *n, const Items *s, Value *position);
/* The sequence V with the tensor X at POSITION, or at its end where that is null; null after a
 * diagnostic. */
Value *sequence_insert(Infer *in, Node *n, Value *v, Value *x, Value *position);

/* ---- parts.c ---- */

/* Replaces inputs of the graph that are not tensors by their parts; notes them in Graph.takes. */
bool parts_of_inputs(Infer *in);
/* The same for the results, in Graph.gives. Removes nodes that only inference needed. */
bool parts_of_results(Infer *in);

#endif
