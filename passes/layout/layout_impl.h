/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the pass layout. */
#ifndef PASSES_LAYOUT_LAYOUT_IMPL_H
#define PASSES_LAYOUT_LAYOUT_IMPL_H

#include "passes/forms/contraction.h"
#include "passes/module.h"

/* Convolutions with fewer channels keep the order of the model's image. */
enum { FEW_CHANNELS = 8 };

/* ---- layout.c ---- */

/* Whether E increases by 1 along one of the N iterators IT. */
bool layout_has_unit(Ctx *c, Expr *e, Iter *const *it, int n);

/* The number of points of the N iterators IT, with an estimate for sizes that are symbols. */
double layout_size(Iter *const *it, int n);
/* The last dim that is indexed with unit stride by one of the iterators WITH, and by none of
 * WITHOUT; -1: none. */
int layout_dim_along(Ctx *c, Expr *const *idx, int rank, Iter *const *with, int nwith,
		     Iter *const *without, int nwithout);
/* T with dim LAST innermost and the others in their order. */
const Type *layout_permuted(Ctx *c, const Type *t, int last);

/* ---- images.c ---- */

/* A copy of V, for N, with dim LAST innermost; LAST has TO indices, of which those that V lacks
 * hold 0 (TO 0: as many as V). Its node is before BEFORE. */
Value *layout_copy(Module *m, const Node *n, Node *before, Value *v, int last, int64_t to);
/* Gives the result of N that buffer B stands for an order with dim LAST innermost. Its readers read
 * a copy in the former order. */
void layout_result(Module *m, Node *n, Buf *b, int last);
/* If N is a product on a GPU, makes its factors contiguous along the sum: it reads a transposed
 * copy of an image. COPIES has the copies for earlier readers, by Value.id. INSIDE: N is inside of
 * a loop or branch. */
void layout_images(Module *m, Node *n, bool inside, Value **copies);

/* ---- vectors.c ---- */

/* The dim of SUMS, which the first statement of K computes, that is innermost in the tensor *OUT
 * that K stores; -1: unknown. */
int layout_stored_dim(Kernel *k, const Buf *sums, const Buf **out);
/* If N is a product on a CPU with a constant operand, orders its sums so that the better operand is
 * vectorised. */
void layout_vectors(Module *m, Node *n);

#endif
