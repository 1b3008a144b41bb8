/* SPDX-License-Identifier: Apache-2.0 */
/* Partial reductions: passes/schedule/gpu/split.c decides, passes/schedule/gpu/split_partials.c
 * rewrites. */
#ifndef PASSES_SCHEDULE_GPU_SPLIT_IMPL_H
#define PASSES_SCHEDULE_GPU_SPLIT_IMPL_H

#include "passes/schedule/gpu/gpu_impl.h"

/* How a reduction is split. */
typedef struct Cut {
	Iter *along; /* the iterator of the sum that is split */
	Dim *parts;
	/* a reduced iterator around it, each point of which has its own parts; or null */
	Iter *outer;
	Dim *each;  /* points of ALONG in a part */
	bool exact; /* all parts have EACH points; else the last one may have fewer */
	bool inner; /* the partial sums of a row are contiguous */
} Cut;

/* A reduction as two statements: PART computes the partial sums, WHOLE combines them. */
typedef struct Partials {
	Stmt *part, *whole;
	Iter *band[MAX_ITERS], *to[MAX_ITERS]; /* the band iterators of PART and of WHOLE */
	int n;
	Iter *slice; /* the iterator of WHOLE over the parts */
} Partials;

/* ---- split_partials.c ---- */

/* Builds the two statements that replace reduction S. The caller puts them into the kernel. */
void gpu_partials(Kernel *k, const Stmt *s, const Cut *c, Partials *h);
/* S sums exp(F - C), and W is the maximum of F; or S sums the squares of F - C, and W sums F. C is
 * computed from W and is constant along the row. So are the sums of a softmax and of a norm. */
bool gpu_is_relative(Kernel *k, const Stmt *w, const Stmt *s);
/* W and S, as gpu_is_relative has them, are cut into the same parts. */
bool gpu_cut_alike(const Stmt *w, const Cut *cw, const Stmt *s, const Cut *cs);
/* Makes the partial sums of S, split as H, relative to those of W, split as HW: each part of exp(F
 * - C) uses the maximum of its own part. The combining statement corrects for the difference. */
void gpu_relative(Kernel *k, const Stmt *w, const Partials *hw, const Cut *c, const Stmt *s,
		  Partials *h);

#endif
