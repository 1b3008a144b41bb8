/* SPDX-License-Identifier: Apache-2.0 */
/* The matrices of Winograd's minimal filtering F(m,3). */
#ifndef PASSES_LAYOUT_WINOGRAD_FORM_H
#define PASSES_LAYOUT_WINOGRAD_FORM_H

#include "passes/forms/conv3x3.h"

enum { WINOGRAD_MOST = 4, WINOGRAD_POINTS = WINOGRAD_MOST + WINOGRAD_TAPS - 1 };

/*
 * F(m,3): M results y from M + 2 inputs d and three taps g, by POINTS multiplications: y = a ((f g)
 * * (b d)), where * multiplies point by point. In two dims the matrices apply to rows and to
 * columns.
 */
typedef struct WinogradForm {
	int m, points;
	double a[WINOGRAD_MOST][WINOGRAD_POINTS];
	double b[WINOGRAD_POINTS][WINOGRAD_POINTS];
	double f[WINOGRAD_POINTS][WINOGRAD_TAPS];
} WinogradForm;

/* The form with M results, 2 or 4. */
void winograd_form(int m, WinogradForm *f);

#endif
