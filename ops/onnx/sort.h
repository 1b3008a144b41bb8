/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting, for the operators that are made of it. */
#ifndef OPS_ONNX_SORT_H
#define OPS_ONNX_SORT_H

#include "ops/infer/infer.h"

/* Sorts X along its last axis, the largest first or last. *INDEX gets the indices of its
 * elements, in i64. MEASURED: run time may look at X to do less, for which a GPU's results are
 * waited for. Null after a diagnostic. */
Value *sort_last(Infer *in, Node *n, Value *x, bool largest, bool measured, Value **index);

/* ---- sort_keys.c ---- */

/* The part of an element that a key has: all of it, or a half of its 64 bits. */
typedef enum SortHalf { SORT_WHOLE, SORT_LOW, SORT_HIGH } SortHalf;

/* Elements of type T have keys; or, if they have 64 bits, a key for each half. */
bool sort_has_keys(DType t);
bool sort_has_halves(DType t);
/* The keys of X's last axis. The largest key belongs to the largest element, or to the smallest
 * one. BLOCK: the axis is split into blocks of this size, along one more axis; 0: it is not
 * split. */
Value *sort_keys(Infer *in, Node *n, Value *x, bool largest, int64_t block);
/* The same of half HALF of elements of 64 bits. */
Value *sort_half_keys(Infer *in, Node *n, Value *x, bool largest, SortHalf half);
/* The indices in keys, and the elements of X's last axis at indices. */
Value *sort_key_index(Infer *in, Node *n, Value *keys);
Value *sort_key_elements(Infer *in, Node *n, Value *x, Value *index);
/* The keys of an axis in blocks of BLOCK, [.., blocks, block], and the largest key of each
 * block. */
typedef struct SortBlocks {
	Value *keys, *best;
	int64_t block;
} SortBlocks;

/* Sets *B to the keys of X's last axis. */
void sort_blocks(Infer *in, Node *n, Value *x, bool largest, SortBlocks *b);
/* The largest of the keys BEST, [.., 1], which are those of B's blocks, [.., blocks]. *REST gets
 * the same keys, with the block of the largest one advanced to its next key. */
Value *sort_blocks_take(Infer *in, Node *n, const SortBlocks *b, Value *best, Value **rest);
/* Taking the first COUNT elements of X's last axis one by one costs less than sorting it. */
bool sort_takes_few(Ctx *c, Value *x, Dim *count);
/* These elements. *INDEX gets their indices, in i64. */
Value *sort_few(Infer *in, Node *n, Value *x, bool largest, Dim *count, Value **index);

/* ---- select.c ---- */

/* The positions at which MASK, a vector of bool, is true, in order, as a vector of i64; its size
 * is at most that of MASK. */
Value *select_positions(Infer *in, Node *n, Value *mask);
/* SIZE, which the run computes, is at most MOST. */
void select_bound(Ctx *c, Dim *size, Dim *most);

#endif
