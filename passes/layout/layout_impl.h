/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the pass layout. */
#ifndef PASSES_LAYOUT_LAYOUT_IMPL_H
#define PASSES_LAYOUT_LAYOUT_IMPL_H

#include "passes/forms/contraction.h"
#include "passes/module.h"

/* ---- layout.c ---- */

/* The number of points of the N iterators IT, with an estimate for sizes that are symbols. */
double layout_size(Iter *const *it, int n);
/* The last dim that is indexed with unit stride by one of the iterators WITH, and by none of
 * WITHOUT; -1: none. */
int layout_dim_along(Ctx *c, Expr *const *idx, int rank, Iter *const *with, int nwith,
		     Iter *const *without, int nwithout);
/* T with dim LAST innermost and the others in their order. */
const Type *layout_permuted(Ctx *c, const Type *t, int last);

/* ---- vectors.c ---- */

/* The dim of SUMS, which the first statement of K computes, that is innermost in the tensor *OUT that
 * K stores; -1: unknown. */
int layout_stored_dim(Kernel *k, const Buf *sums, const Buf **out);
/* The innermost dim of B in memory that has more than one element; -1: none. */
int layout_innermost(const Buf *b);
/* If N is a product on a CPU with a constant operand, orders its sums so that the better operand is
 * vectorised. */
void layout_vectors(Module *m, Node *n);

#endif
