/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the operators of the domain ai.onnx.ml. */
#ifndef OPS_ML_ML_H
#define OPS_ML_ML_H

#include "ops/op.h"

/* ---- ml.c ---- */

/* The tensor of numbers that attribute NAME is, as doubles; null after a diagnostic. */
double *ml_tensor(Infer *in, Node *n, const char *name, int *count);
/* The numbers of the list NAME, or of the tensor NAME_as_tensor; none if N has neither. Null
 * after a diagnostic. */
double *ml_numbers(Infer *in, Node *n, const char *name, int *count);
/* COUNT numbers as a constant of type T and shape [COUNT]. */
Value *ml_vector(Infer *in, Node *n, DType t, const double *v, int64_t count);

/* Operand 0 as rows of features, [N, F] of T; a vector is one row. Null after a diagnostic. */
Value *ml_rows(Infer *in, Node *n, DType t);
/* The type in which the operators compute: f64 if operand 0 is f64, else f32. Integers are
 * converted. */
DType ml_real(const Node *n);

/* The transformation of scores. The numbers are TreeEnsemble's. */
typedef enum MlPost { ML_NONE, ML_SOFTMAX, ML_LOGISTIC, ML_SOFTMAX_ZERO, ML_PROBIT } MlPost;
/* Attribute post_transform, a name. */
bool ml_post_of(Infer *in, Node *n, MlPost *out);
/* SCORES, [N, C], transformed. */
Value *ml_post(Infer *in, Node *n, Value *scores, MlPost post);

/* The id of the string S. */
int64_t ml_string(Infer *in, const char *s);
/* The list of strings NAME; null if N has none, or an empty one. */
Tensor *ml_strings(Infer *in, Node *n, const char *name);
/* The list INTS, or the list STRINGS. Null after a diagnostic, which calls them WHAT, unless N
 * has exactly one of them. */
const Tensor *ml_list(Infer *in, Node *n, const char *what, const char *ints, const char *strings);
/* The class labels of N, *COUNT of them, which are the list INTS or STRINGS; null, and -1, after
 * a diagnostic. */
const Tensor *ml_labels(Infer *in, Node *n, const char *ints, const char *strings, int *count);
/* The labels of the classes that AT, [N] of i64, numbers. */
Value *ml_label_of(Infer *in, Node *n, const Tensor *labels, Value *at);
/* The labels where there is one class: AT, which is 1 or 0; "1" or "0" where LABELS are strings. */
Value *ml_only_label(Infer *in, Node *n, const Tensor *labels, Value *at);
/* The number of the highest score of each row of V, [N, C]. */
Value *ml_best(Infer *in, Node *n, Value *v);

/* 1 where the only column of V, [N, 1], is above THAN, else 0: [N] of i64. */
Value *ml_above(Infer *in, Node *n, Value *v, double than);
/* The scores [N, 2] of two classes from the score V of the second one, [N, 1]: that of the first
 * one is 1 - v if V is a PROBABILITY, else -v. LOGISTIC is of v and -v. SOFTMAX and SOFTMAX_ZERO
 * change nothing, as in ONNX Runtime. */
Value *ml_two_scores(Infer *in, Node *n, Value *v, bool probability, MlPost post);

/* ---- ml_labels.c ---- */

/* For each element of X, of any shape, its first index in KEYS, a vector of the same type; the
 * length of KEYS if KEYS does not have it. */
Value *ml_place(Infer *in, Node *n, Value *x, Value *keys);

/* ---- ml_trees.c ---- */

/* For each element of X, of any shape, the entry of RESULTS that belongs to the first of the
 * COUNT keys that it equals, or else the last one. NaN equals NaN. */
Value *ml_lookup(Infer *in, Node *n, Value *x, const double *keys, int count, const Tensor *results);

#endif
