/* SPDX-License-Identifier: Apache-2.0 */
/* Constant operands of matrix instructions in the order of fragments: their layout, and how a product finds them in it. */
#ifndef PASSES_LAYOUT_FRAGMENTS_H
#define PASSES_LAYOUT_FRAGMENTS_H

#include "ir/loop.h"
#include "passes/kernel/contraction.h"
#include "passes/module.h"

enum { FRAGMENT_BYTES = 64 }; /* of terms, in a block */

/* Terms of a block. */
int fragment_terms(DType t);
/* PLAIN, with dims g (NG of them), k and one side, elements of 8 to 32 bits, as laid out so. The last k is padded to whole
 * blocks of terms, the side to MMA_ROWS. */
const Type *fragment_type(Ctx *c, const Type *plain, int ng);

/* An operand that lies so. */
typedef struct Fragments {
	int terms;   /* of a block */
	Expr *term;  /* the index of the term in the constant as it lies, over iterators of the sum and others */
	bool joins;  /* the sum's iterators go through the terms as one would */
	Dim *blocks; /* along the side */
	Dim *row;    /* elements from one of these to the next */
	Expr *group; /* the group's first element */
} Fragments;

/* What VAL loads at element IN of block BLOCK of the side and of the terms from TERM on, a multiple of F's. */
Expr *fragments_load(ExprPool *p, const Expr *val, const Fragments *f, Expr *block, Expr *term, Expr *in);
/* VAL, an operand of C with side SIDE, whose indices are logical, is a load of such a buffer, and the sum takes whole blocks of
 * it. */
bool fragments_find(Kernel *k, const Contraction *c, const Expr *val, Iter *const *side, int nside, Fragments *f);

#endif
