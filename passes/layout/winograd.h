/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions with fewer multiplications: Winograd's minimal filtering. */
#ifndef PASSES_LAYOUT_WINOGRAD_H
#define PASSES_LAYOUT_WINOGRAD_H

#include "passes/layout/winograd_form.h"
#include "passes/module.h"

/* A convolution of 3x3 with stride 1, as the rewrite reads it from a kernel. */
typedef struct Conv3x3 {
	Node *n;
	Kernel *k;
	Expr *x;           /* the load of the image */
	Expr *filter;
	int at[2];         /* the dims of the image in which the window slides: rows, columns */
	Iter *out[2];      /* the iterators of the result's rows and columns */
	Iter *tap[2];      /* and of the filter's */
	Iter *c, *o;       /* channels of the image, and of the result */
	Iter *other[MAX_ITERS]; /* the other iterators of the result */
	int nother;
	/* by Buf.id of K, a result or temporary: the iterator of the product that indexes each
	 * dim; null: none */
	Iter *(*dim)[MAX_RANK];
} Conv3x3;

/* ---- winograd.c ---- */

/* Replaces the convolution of N's kernel by three kernels if N has one for which that pays, and
 * tensors are laid out already. */
void winograd(Module *m, Node *n);

/* ---- winograd_build.c ---- */

/* Replaces C by kernels that compute it with the form F. */
void winograd_build(Module *m, const Conv3x3 *c, const WinogradForm *f);

#endif
