/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting, for the operators that are made of it. */
#ifndef OPS_SORT_H
#define OPS_SORT_H

#include "ops/infer.h"

/* Sorts X along its last axis, the largest first or last. *INDEX gets the indices of its elements, in i64. Null after a
 * diagnostic. */
Value *sort_last(Infer *in, Node *n, Value *x, bool largest, Value **index);
/* The first COUNT elements of V's last axis, which has as many. */
Value *sort_first(Infer *in, Node *n, Value *v, Dim *count);

/* ---- select.c ---- */

/* The positions at which MASK, a vector of bool, is true, in order, as a vector of i64; its size is at most that of
 * MASK. Null after a diagnostic. */
Value *select_positions(Infer *in, Node *n, Value *mask);

#endif
