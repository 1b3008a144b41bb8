/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of operators that move elements: shapes and axes from contents, indices after a
 * reshape. */
#ifndef OPS_ONNX_SHAPE_H
#define OPS_ONNX_SHAPE_H

#include "ops/op.h"

/* If the number of elements of operand K is known only at run time, gives K the COUNT elements that
 * the operator prescribes, which is checked at run time. Otherwise, and if COUNT is negative, K is
 * unchanged. False after a diagnostic. */
bool infer_sized(Infer *in, Node *n, int k, int64_t count);
/* The contents of operand K, which must be a vector (or a scalar) of integers; null after a
 * diagnostic. WANT is the number of elements that the operator prescribes, which an operand
 * gets whose number only run time knows (infer_sized); the caller compares it with *COUNT. */
Dim **infer_vector(Infer *in, Node *n, int k, int want, int *count);
/* The contents of operand K, which must have one element; null after a diagnostic. */
Dim *infer_single(Infer *in, Node *n, int k);
/* The rank of result 0 of N as its model or text declares it; -1: it does not. */
int infer_declared_rank(const Node *n);

/* Requires constant axes; OUT gets each in [0, RANK), and has room for COUNT of them. */
bool infer_axes(Infer *in, Node *n, Dim *const *axes, int count, int rank, int *out);

/* Requires that if any of the dims D is 0, DIMS has no elements, either: there would be no valid
 * index into D for reading or writing them. */
bool infer_places(Infer *in, Node *n, Dim *const *d, int nd, Dim *const *dims, int rank);

/* The lowering of a view: copies the operand's elements in order. */
void lower_view(Infer *in, Node *n, Kernel *k);

/* ---- i64 expressions ---- */
static inline Expr *at_iter(Kernel *k, Iter *it) { return ex_iter(k->pool, it); }
static inline Expr *at_dim(Kernel *k, Dim *d) { return ex_dim(k->pool, d); }
static inline Expr *at_int(Kernel *k, int64_t v) { return ex_int(k->pool, CT_I64, v); }

#endif
