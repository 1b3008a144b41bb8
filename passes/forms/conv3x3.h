/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises 3x3 convolutions, and chooses the tile size of Winograd's minimal filtering for them.
 * A convolution is known by its access relations: a contraction of a constant operand with an image
 * that a 3x3 stencil slides over, followed by elementwise maps.
 */
#ifndef PASSES_FORMS_CONV3X3_H
#define PASSES_FORMS_CONV3X3_H

#include "passes/module.h"

enum { WINOGRAD_TAPS = 3 };

/* A 3x3 convolution with stride 1, as the rewrite reads it from a kernel. */
typedef struct Conv3x3 {
	Node *n;
	Kernel *k;
	Expr *x;           /* the load of the image */
	Expr *filter;
	int at[2];         /* the dims of the image along which the stencil slides: rows, columns */
	Iter *out[2];      /* the iterators of the result's rows and columns */
	Iter *tap[2];      /* the iterators of the filter's rows and columns */
	Iter *c, *o;       /* channels of the image, and of the result; or those of a group */
	/* the other iterators of the result; the first NGROUP count groups, each with its filter */
	Iter *other[MAX_ITERS];
	int nother, ngroup;
	/* by Buf.id of K, a result or temporary: its indices, in the product's iterators */
	Expr *(*index)[MAX_RANK];
} Conv3x3;

/* Initialises C if N's kernel is a 3x3 convolution whose filter is known at compile time; else
 * returns false. Before pass `layout` it may miss a convolution whose image is not channels
 * last. */
bool conv3x3_find(Module *m, Node *n, Conv3x3 *c);
/* Index E is OF with other iterators. Records in ITER, by Iter.id, that of OF for each of E, and is
 * false if E's has another there. */
bool conv3x3_same_index(Ctx *c, Expr *e, Expr *of, Iter **iter);
/* The dim of C's result B that has its channels, if another is innermost: then the transform back
 * stores B with this dim innermost, and a kernel copies it. Else, or if B is not a result, -1. */
int conv3x3_moved_dim(const Conv3x3 *c, const Buf *b);
/* The number of rows of Winograd's tiles, 2 or 4, if M's first processor computes C so in less
 * than 90 % of the direct form's time; 0: it does not, C has fewer than 16 channels, or 24 in a
 * group, or --winograd forbids it. Modules for GPUs do not ask. */
int conv3x3_tile(Module *m, const Conv3x3 *c);
/* For --explain: records the predicted time of C directly and with each tile size, and which one is
 * CHOSEN. */
void conv3x3_explain(Module *m, const Conv3x3 *c, int chosen);

#endif
