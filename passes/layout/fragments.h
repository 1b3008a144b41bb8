/* SPDX-License-Identifier: Apache-2.0 */
/* Constant operands of matrix instructions in the order of fragments: their layout, and how a
 * product locates elements. */
#ifndef PASSES_LAYOUT_FRAGMENTS_H
#define PASSES_LAYOUT_FRAGMENTS_H

#include "ir/loop/loop.h"
#include "passes/forms/contraction.h"
#include "passes/module.h"

enum { FRAGMENT_BYTES = 64 }; /* bytes of terms in a block */

/* Terms of a block of fragments. */
int fragment_terms(DType t);
/* PLAIN with the layout of fragments. Its dims are g (NG of them), k and one free side; its
 * elements have 8 to 32 bits. The last k is padded to whole blocks of terms, the free side to
 * MMA_ROWS. */
const Type *fragment_type(Ctx *c, const Type *plain, int ng);

/* An operand in the order of fragments. */
typedef struct Fragments {
	int terms; /* terms of a block */
	/* index of the term in the constant, over the iterators of the sum and others */
	Expr *term;
	bool joins;  /* the sum's iterators can be merged */
	Dim *blocks; /* blocks along the free side */
	Dim *row;    /* distance of two such blocks, in elements */
	Expr *group; /* index of the group's first element */
} Fragments;

/* The load of VAL at element IN of block BLOCK of the free side, and of the terms from TERM
 * onwards, a multiple of f->terms. */
Expr *fragments_load(ExprPool *p, const Expr *val, const Fragments *f, Expr *block, Expr *term, Expr *in);
/* VAL, an operand of C with free side SIDE and logical indices, loads a buffer in the order of
 * fragments, and the sum covers whole blocks of it. */
bool fragments_find(Kernel *k, const Contraction *c, const Expr *val, Iter *const *side, int nside, Fragments *f);

#endif
