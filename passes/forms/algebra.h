/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the pass `algebra`. */
#ifndef PASSES_FORMS_ALGEBRA_H
#define PASSES_FORMS_ALGEBRA_H

#include "passes/forms/contraction.h"

enum { MAX_CONSTANT = 1 << 20 /* bytes of the largest constant that is examined */ };

/* An i32 of the form byte - zero; or an f32 of the form f32(byte - zero) * scale, a dequantised
 * number. BYTE has a type of 8 bits. ZERO and SCALE are the same for all terms of a sum; ZERO null:
 * 0, SCALE null: 1. */
typedef struct ByteFactor {
	Expr *byte, *zero, *scale;
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

/* The sum of the most products of differences of bytes that fits in an i32: 255 * 255 each. */
enum { MOST_BYTE_TERMS = INT32_MAX / (255 * 255) };
/* The sum of the most such products that is exact in f32. */
enum { MOST_FLOAT_TERMS = (1 << 24) / (255 * 255) };
/* Brings factor E of N's contraction *C, which is N's first statement, into this form, and adds
 * the operands that it reads to N (passes/forms/narrow.c). False if E does not have the form,
 * or that cannot be decided; operands that nothing reads may then have been added. */
bool narrow_factor(Node *n, const Contraction *c, Expr *e, ByteFactor *out);

/* ---- requantise.c ---- */

/* Replaces a rounded quotient, if that is what N computes, by a product
 * (passes/forms/requantise.c). */
bool requantise(Node *n);
enum { MOST_VISITS = 32 /* kernels before a quotient that are looked at */ };
/* A kernel before N's result reads bytes; false if the first *VISITS kernels do not. */
bool stems_from_bytes(const Node *n, int *visits);

/* ---- border_classes.c ---- */

/* Finds the border classes of S's guard along IT, an iterator of S's band
 * (passes/forms/border_classes.c). False if they are not known, or there are as many as points. */
bool border_classes(Ctx *c, const Stmt *s, Iter *it, BorderClasses *out);
/* The number of the class of point AT, and a point of class NUMBER. */
Expr *border_class_of(ExprPool *p, const BorderClasses *l, Expr *at);
Expr *point_of_border_class(ExprPool *p, const BorderClasses *l, Expr *number);

#endif
