/* SPDX-License-Identifier: Apache-2.0 */
/* Partial reductions: passes/schedule/gpu/split.c decides, passes/schedule/gpu/split_partials.c rewrites. */
#ifndef PASSES_SCHEDULE_GPU_SPLIT_IMPL_H
#define PASSES_SCHEDULE_GPU_SPLIT_IMPL_H

#include "passes/schedule/gpu/gpu_impl.h"

/* How a reduction is split. */
typedef struct Cut {
	Iter *along; /* which iterator of the sum is split */
	Dim *parts;
	Iter *outer; /* around it, of which each point has parts of its own; or null */
	Dim *each;   /* points of it in a part */
	bool exact;  /* all parts have so many */
	bool inner;  /* parts of a row lie side by side */
} Cut;

/* A reduction as two: its parts, and those together. */
typedef struct Partials {
	Stmt *part, *whole;
	Iter *band[MAX_ITERS], *to[MAX_ITERS]; /* the iterators of the band in each */
	int n;
	Iter *slice; /* of the whole, that goes over the parts */
} Partials;

/* The statements that reduction S becomes, whose place in the kernel is the caller's to choose. */
void gpu_partials(Kernel *k, const Stmt *s, const Cut *c, Partials *h);
/* S sums exp(F - C) where W is the largest F, or the squares of F - C where W sums F and C is made of that, along the same rows,
 * and C is of the row: a softmax, a norm. */
bool gpu_is_relative(Kernel *k, const Stmt *w, const Stmt *s);
/* Such W and S have the same parts. */
bool gpu_cut_alike(const Stmt *w, const Cut *cw, const Stmt *s, const Cut *cs);
/* Of such S, halved as H: its parts are relative to those of W, halved as HW; what they were to be relative to counts when
 * they meet. */
void gpu_relative(Kernel *k, const Stmt *w, const Partials *hw, const Cut *c, const Stmt *s,
		  Partials *h);

#endif
