/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is an output what was expected? Integers, booleans and strings are equal. A float may be off by a
 * share of the reference's largest element: 2e-5; 2e-3 where the output is f16 or narrower, or the
 * model rounds to f16 inside; 1.6e-2 likewise for bf16. Where a noise is known, 8 times that noise
 * is allowed instead if it is more. A measured noise allows 1e-2 at most. Elements beyond that
 * which would be allowed more by their own noise are too noisy to judge, which is not ok. With rtol
 * or atol, instead, each element must satisfy |a - b| <= atol + rtol * |b|. NaN equals NaN, an
 * infinity equals itself, always. The thresholds stand in compare.c. A sequence, optional or map is
 * as expected if it has as many items, and each of them is.
 *
 * The model may say that right results differ by more (dl_accuracy in runtime/dlrt.h). An element
 * of floats or integers that are quantised may be off by one step besides. Where elements are
 * differences of numbers of magnitude UNIT, they may be off by four units in the last place of a
 * number just below UNIT. Elements whose order is open are put in order before they are compared
 * (unordered.h).
 */
#ifndef TOOLS_DLRUN_COMPARE_H
#define TOOLS_DLRUN_COMPARE_H

#include "tools/dlrun/array.h"

typedef struct Tolerance {
	double rtol, atol;       /* negative: not given */
	double noise;            /* of the reference itself, relative to its largest element */
	const char *noise_from;  /* what says NOISE, after the word "noise": "given" */
	uint32_t inside;         /* of the model: DL_DESC_F16, DL_DESC_BF16 */
	const double *moved;     /* by element, those of all items, how far it moved when noise was measured (noise.h); null: it was not */
	const char *measured_by; /* how it was: "moving inputs by one ulp" */
	double step, unit;       /* of dl_accuracy */
} Tolerance;

typedef struct Comparison {
	bool ok;
	bool noise_may_tell; /* not ok, but each element is finite where the reference is: measure the noise */
	double max_abs;      /* largest absolute error */
	double max_rel;      /* the same, divided by the largest expected value */
	int64_t unequal;     /* elements that fail */
	char rule[240];      /* what decided, after "within": "2e-05 of the reference's largest element" */
	char why[300];       /* "" when ok */
} Comparison;

Comparison compare(const Array *got, const Array *want, Tolerance t);
/* By how much an element of floats may be off that is compared with WANT, without measured noise;
 * infinities and NaN apart. */
double compare_allowance(const Array *want, Tolerance t);
/* Two values are compared element by element: tensors of one type and shape. */
bool compare_matches(const Array *got, const Array *want);

#endif
