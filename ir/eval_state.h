/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a reduction in lanes: what a strip of points does to it. Sums and products of floats are carried
 * in f64, and so is a product that is the term of a sum.
 */
#ifndef IR_EVAL_STATE_H
#define IR_EVAL_STATE_H

#include "ir/eval_impl.h"

typedef struct Reduce {
	KernelRun *r;
	const Stmt *s;
	int ncomp;
	bool carry, product; /* acc is the state; the term is root 0 times root 1 */
	Prog *term, *write, *combine;
	VecFn fn; /* combines one component of a native type, or null */
	CType ct[2];
	uint64_t identity[2];
	void *state[2], *next[2], *blend;
	double *acc;
	bool bounds;
	double *sum, *err,
		*count; /* of |terms|, of their bounds, and how many; a product's in `sum` */
	int band[MAX_ITERS], nband, red[MAX_ITERS], nred;
} Reduce;

/* Programs and storage for R's statement; false where R cannot run it. */
bool reduce_init(Reduce *d, KernelRun *r);
/* Lanes [0, n): the identity; and, of an update, what is in memory. */
void reduce_identity(Reduce *d, int n);
bool reduce_start(Reduce *d, const EvalPoints *at, int lanes);
/* What the buffer holds becomes the state. */
bool reduce_load(Reduce *d, const EvalPoints *at);
/* Combines a strip's terms into the state, lane by lane. */
bool reduce_take(Reduce *d, const EvalPoints *at);
/* STATE and TERM, lane by lane, where no f64 carries the state; lanes outside MASK stay. */
void reduce_combine(Reduce *d, const void *const *term, const uint8_t *mask, int n);
/* The terms of the strip that d->term ran, and how far each may move. */
void reduce_term_f64(Reduce *d, double *out, int n);
void reduce_term_bounds(Reduce *d, double *out, int n);
/* Lanes [0, n) into lane 0. */
void reduce_fold(Reduce *d, int n);
/* Where the statement writes at AT; the state goes there. */
bool reduce_place(Reduce *d, const EvalPoints *at, ResolvedAccess *where);
bool reduce_store(Reduce *d, const EvalPoints *at);

#endif
