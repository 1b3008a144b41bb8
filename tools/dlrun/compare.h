/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is an output what was expected? For a whole model: the largest absolute error, divided by the
 * largest expected value, is at most max(8 * noise, 2e-5), or 2e-3 for f16 and bf16 and narrower
 * floats; integers, booleans and strings are equal. With rtol or atol, instead, each element must
 * satisfy |a - b| <= atol + rtol * |b|. NaN equals NaN, an infinity equals itself, always.
 */
#ifndef TOOLS_DLRUN_COMPARE_H
#define TOOLS_DLRUN_COMPARE_H

#include "tools/dlrun/array.h"

typedef struct Tolerance {
	double rtol, atol; /* negative: not given */
	double noise;      /* of the reference itself */
} Tolerance;

typedef struct Comparison {
	bool ok;
	double max_abs;  /* largest absolute error */
	double max_rel;  /* the same, divided by the largest expected value */
	int64_t unequal; /* elements that fail: NaN, infinity, integers, or by rtol and atol */
	char why[160];   /* "" when ok */
} Comparison;

Comparison compare(const Array *got, const Array *want, Tolerance t);

#endif
