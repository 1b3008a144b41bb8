/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the pass `algebra` share. */
#ifndef PASSES_KERNEL_ALGEBRA_H
#define PASSES_KERNEL_ALGEBRA_H

#include "passes/kernel/contraction.h"

/* byte - zero: an i32. BYTE is of a type of 8 bits; ZERO is the same for all terms of a sum, null: 0. */
typedef struct ByteFactor {
	Expr *byte, *zero;
} ByteFactor;

/* Factor E of N's contraction *C, its first statement, as that; N gets the operands that it reads (passes/kernel/narrow.c). False where
 * it is none, or cannot be told; then operands may be left that nothing reads. */
bool narrow_factor(Node *n, const Contraction *c, Expr *e, ByteFactor *out);

/* Points along IT by what a guard leaves out of the sum of each: so many first ones, so many last ones, and those between, from
 * which it leaves nothing out; of few points some places have none. */
typedef struct Places {
	Iter *it;
	Dim *first, *last;
	Dim *n; /* places: first + 1 + last */
} Places;

/* Those of S's guard along IT, of its band (passes/kernel/border_classes.c); false where they are not known, or as many as points. */
bool guard_places(Ctx *c, const Stmt *s, Iter *it, Places *out);
/* The place of point AT; a point of PLACE. */
Expr *place_of(ExprPool *p, const Places *l, Expr *at);
Expr *place_at(ExprPool *p, const Places *l, Expr *place);

#endif
