/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a reduction, for each lane of a strip: how terms are combined into it. Sums and
 * products of floats are accumulated in f64; so is a product that is the term of a sum.
 */
#ifndef IR_EVAL_EVAL_STATE_H
#define IR_EVAL_EVAL_STATE_H

#include "ir/eval/eval_impl.h"

typedef struct Reduce {
	KernelRun *r;
	const Stmt *s;
	int ncomp;
	/* CARRY: the state is ACC, in f64; PRODUCT: the term is root 0 times root 1, not rounded */
	bool carry, product;
	Prog *term, *write, *combine;
	VecFn fn; /* combines one component whose type has native arithmetic, or null */
	CType ct[2];
	uint64_t identity[2];
	void *state[2], *next[2], *blend;
	double *acc;
	bool bounds;
	/* for the bound: sum of |terms|, sum of their bounds, number of terms; for a product, the
	 * products of |terms| and of those above 1; for a maximum, the upper and the lower end of
	 * its interval */
	double *sum, *err, *count;
	int band[MAX_ITERS], nband, red[MAX_ITERS], nred;
} Reduce;

/* Prepares the programs and storage for R's statement; false if R cannot run it. */
bool reduce_init(Reduce *d, KernelRun *r);
/* Sets lanes [0, n) to the identity; for an update, then loads the buffer's elements. */
void reduce_identity(Reduce *d, int n);
bool reduce_start(Reduce *d, const EvalPoints *at, int lanes);
/* Loads the buffer's elements into the state. */
bool reduce_load(Reduce *d, const EvalPoints *at);
/* Combines a strip's terms with the state, lane by lane. */
bool reduce_take(Reduce *d, const EvalPoints *at);
/* Combines TERM with the state, lane by lane, where ACC does not carry it. Lanes outside of MASK
 * keep their state. */
void reduce_combine(Reduce *d, const void *const *term, const uint8_t *mask, int n);
/* The values of the terms in the strip that d->term evaluated, and their bounds. */
void reduce_term_f64(Reduce *d, double *out, int n);
void reduce_term_bounds(Reduce *d, double *out, int n);
/* Lane L has a further term, of BOUND and at MOST that large. */
void reduce_term_counts(Reduce *d, int l, double most, double bound);
/* How far the sum, the product or another state but an extreme one, VALUE, of lane L may move. */
double reduce_bound(const Reduce *d, int l, double value);
/* Combines lanes [0, n) into lane 0. */
void reduce_fold(Reduce *d, int n);
/* The address that the statement writes at AT. */
bool reduce_place(Reduce *d, const EvalPoints *at, ResolvedAccess *where);
bool reduce_store(Reduce *d, const EvalPoints *at);

#endif
