/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the pass `algebra`. */
#ifndef PASSES_KERNEL_ALGEBRA_H
#define PASSES_KERNEL_ALGEBRA_H

#include "passes/kernel/contraction.h"

/* An i32 of the form byte - zero. BYTE has a type of 8 bits. ZERO is the same for all terms of a
 * sum; null: 0. */
typedef struct ByteFactor {
	Expr *byte, *zero;
} ByteFactor;

/* The border classes along IT: FIRST first points, LAST last points, and one class for all
 * points between, for which the guard leaves out no term. If there are fewer points, some
 * classes are empty. */
typedef struct BorderClasses {
	Iter *it;
	Dim *first, *last;
	Dim *n; /* number of classes: first + 1 + last */
} BorderClasses;

/* ---- narrow.c ---- */

/* Brings factor E of N's contraction *C, which is N's first statement, into this form, and adds
 * the operands that it reads to N (passes/kernel/narrow.c). False if E does not have the form,
 * or that cannot be decided; operands that nothing reads may then have been added. */
bool narrow_factor(Node *n, const Contraction *c, Expr *e, ByteFactor *out);

/* ---- border_classes.c ---- */

/* Finds the border classes of S's guard along IT, an iterator of S's band
 * (passes/kernel/border_classes.c). False if they are not known, or there are as many as points. */
bool border_classes(Ctx *c, const Stmt *s, Iter *it, BorderClasses *out);
/* The number of the class of point AT, and a point of class NUMBER. */
Expr *border_class_of(ExprPool *p, const BorderClasses *l, Expr *at);
Expr *point_of_border_class(ExprPool *p, const BorderClasses *l, Expr *number);

#endif
