/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Outputs whose elements may come in any order along a dim (dl_accuracy.dim): those of TopK with
 * sorted = 0. They are put in order before they are compared, so that each of an output's elements
 * has to be among the reference's, as often.
 */
#ifndef TOOLS_DLRUN_UNORDERED_H
#define TOOLS_DLRUN_UNORDERED_H

#include "tools/dlrun/array.h"

/* V with the elements of each line along DIM in ascending order, NaN last; in A. */
Array unordered_values(Arena *a, const Array *v, int dim);
/* Puts the lines of GOT and WANT, integers of one shape, in the order of the values that they
 * belong to, which are in GOT_BY and WANT_BY at the same places. Those whose values in WANT_BY are
 * equal, or differ by no more than TIE from one to the next, are in ascending order. */
void unordered_indices(Arena *a, Array *got, Array *want, int dim, const Array *got_by,
		       const Array *want_by, double tie);

#endif
