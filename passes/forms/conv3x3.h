/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions of 3x3, and with tiles of which size Winograd's minimal filtering computes them. A
 * convolution is known by its access relations: a contraction with a constant operand, whose other
 * operand is an image that a window of 3x3 slides over, and maps that follow it element by element.
 */
#ifndef PASSES_FORMS_CONV3X3_H
#define PASSES_FORMS_CONV3X3_H

#include "passes/module.h"

enum { WINOGRAD_TAPS = 3 };

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

/* Makes C the convolution of 3x3 that N's kernel is, whose filter is known when the model is
 * compiled; false if it is none. Tensors are laid out already. */
bool conv3x3_find(Module *m, Node *n, Conv3x3 *c);
/* The rows of the tiles by which C is fastest on M's first CPU; 0: by its taps. */
int conv3x3_tile(Module *m, const Conv3x3 *c);
/* Notes for --explain what C takes by its taps and by each form, of which CHOSEN is taken. */
void conv3x3_explain(Module *m, const Conv3x3 *c, int chosen);

#endif
