/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the pass `algebra`. */
#ifndef PASSES_FORMS_ALGEBRA_H
#define PASSES_FORMS_ALGEBRA_H

#include "passes/forms/contraction.h"

enum { MAX_CONSTANT = 1 << 20 /* size limit: no larger constant is examined */ };

/* An i32 of the form `byte - zero`, or a dequantised f32, `f32(byte - zero) * scale`. BYTE has an
 * 8-bit type. All terms of a sum share ZERO and SCALE; a null ZERO is 0 and a null SCALE is 1. */
typedef struct ByteFactor {
	Expr *byte, *zero, *scale;
} ByteFactor;

/* The border classes along IT: FIRST points at the start, LAST points at the end, and one class for
 * all points between, where the guard drops no term. Classes may be empty if the iterator has fewer
 * points. */
typedef struct BorderClasses {
	Iter *it;
	Dim *first, *last;
	Dim *n; /* number of classes: first + 1 + last */
} BorderClasses;

/* ---- narrow.c ---- */

/* The largest number of products of byte differences, at most 255 * 255 each, whose sum fits in an
 * i32. */
enum { MOST_BYTE_TERMS = INT32_MAX / (255 * 255) };
/* The largest number of such products whose sum is exact in f32. */
enum { MOST_FLOAT_TERMS = (1 << 24) / (255 * 255) };
/* Brings factor E of N's contraction *C, which is N's first statement, into this form, and adds the
 * operands that the form reads to N (passes/forms/narrow.c). False if E does not have the form or
 * the form cannot be established; N may then have operands that nothing reads. */
bool narrow_factor(Node *n, const Contraction *c, Expr *e, ByteFactor *out);

/* ---- requantise.c ---- */

/* If N computes a rounded quotient, replaces the division by a product
 * (passes/forms/requantise.c). */
bool requantise(Node *n);
enum { MOST_VISITS = 32 /* limit on the kernels that are searched before a quotient */ };
/* Whether a kernel that N's result depends on reads bytes; the search ends after *VISITS
 * kernels. */
bool stems_from_bytes(const Node *n, int *visits);

/* ---- border_classes.c ---- */

/* Finds the border classes of S's guard along IT, an iterator of S's band
 * (passes/forms/border_classes.c). False if the guard has another form, or if every point would be
 * a class. */
bool border_classes(Ctx *c, const Stmt *s, Iter *it, BorderClasses *out);
/* The class of point AT, and a point of class NUMBER. */
Expr *border_class_of(ExprPool *p, const BorderClasses *l, Expr *at);
Expr *point_of_border_class(ExprPool *p, const BorderClasses *l, Expr *number);

#endif
