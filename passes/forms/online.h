/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises attention in a kernel for GPUs (for CPUs: passes/forms/attention.h): an attention that
 * can be computed block of keys after block of keys, without its scores in memory: two products,
 * and between them one exponential of the scores less a shift that follows from the row's maximum,
 *
 *	x[m,n] = any expression of the score (Q*K^T)[m,n], of m and n, and of memory: scale, mask, soft cap
 *	e[m,n] = exp(x[m,n] - shift(max over n of x[m,n]))
 *	w[m,n], and terms of sums over n: e[m,n], rounded, selected, or times what does not depend on it;
 *	w may be divided by what does not depend on n, and be 0 where the quotient is NaN
 *	y[m,d] = any expression of (w*V)[m,d], of these sums, of the maximum and of memory
 *
 * When a later block raises the maximum from M to M2, what was summed is multiplied by exp(shift(M)
 * - shift(M2)). Operators have no names here: a softmax with or without a guard against masked
 * rows, with a sink or without, is of this form.
 *
 * All expressions are over the iterators of the two products: g and m, the keys n, the results'
 * columns d. Temporaries are substituted; what remains is loads of memory, of the score
 * (OnlineForm.score), the maximum, the sums, and the second product, each by its temporary.
 */
#ifndef PASSES_FORMS_ONLINE_H
#define PASSES_FORMS_ONLINE_H

#include "passes/forms/band.h"
#include "passes/forms/contraction.h"

enum {
	ONLINE_SUMS = 4,
	ONLINE_RESULTS = 8,
	/* The most terms of a score, and columns of the result: a warp holds a row of results in
	 * registers. */
	ONLINE_WIDTH = 256
};

typedef struct OnlineForm {
	Kernel *k;
	Band band;
	/* scores: A(g,m,k) * B(g,n,k), values: A(g,m,n) * B(g,n,d); M's iterators are in one order
	 * in both */
	Contraction scores, values;
	int second;                /* the statement of the second product */
	Iter *key, *term, *column; /* n, k and d */
	Buf *score, *most, *weight,
		*acc; /* the temporaries that stand for what the comment above says */
	Expr *v;      /* the second factor of the second product */
	Expr *x, *shift, *exponential; /* of the score; of the maximum; exp(x - shift) */
	Expr *w;                       /* of the exponential, which is a load of SCORE here */
	/* of sums and the maximum of a row: all weights are divided by it, so the results are
	 * instead; or null */
	Expr *divisor;
	bool nan_is_zero; /* where that quotient is NaN, the weights are 0 */
	Stmt *sum[ONLINE_SUMS];
	Expr *sum_term[ONLINE_SUMS]; /* of the exponential, likewise */
	int nsums;
	Stmt *result[ONLINE_RESULTS];
	Expr *result_acc; /* the element of the second product */
	Expr *result_val[ONLINE_RESULTS];
	Expr *result_at[ONLINE_RESULTS]; /* the element in flat memory */
	int nresults;
	const char *why; /* if it is not such an attention: why */
} OnlineForm;

/* Initialises F if K is such an attention; else returns false, and F->why says which condition
 * fails, or null where K does not have two products. */
bool online_begin(OnlineForm *f, Kernel *k);
/* As online_begin, for a kernel that fuse would make for GPUs: its sizes fit the registers of a
 * block, too. *WHY: why not, or null where K does not have two products. */
bool online_takes(Kernel *k, const char **why);

#endif
