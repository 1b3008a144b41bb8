/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference interpreter: runs statements as they stand, with the exact semantics of the element
 * types. It is the oracle of the project. Sums and products of floats are carried in f64 and rounded
 * once; everything else is ir/scalar.h. Beside each value it can compute the error bound of rule class
 * *reassoc*.
 *
 * It works on strips of points, one blocked path serves contractions (1 G MAC/s or more).
 */
#ifndef IR_EVAL_H
#define IR_EVAL_H

#include "ir/kernel.h"

typedef struct EvalBuf {
	void *data;     /* row-major in the buffer's element type; a layout's order where it has one */
	double *bound;  /* an absolute error bound an element, or null where not asked for */
} EvalBuf;

typedef struct EvalOpts {
	const int64_t *sym; /* values by Sym.id */
	bool bounds;        /* fill EvalBuf.bound of the outputs */
	bool mad_fused;     /* how the target's mad rounds */
} EvalOpts;

typedef enum EvalStatus { EVAL_OK, EVAL_INDEX /* an index out of range: the statement in *FAULT */, EVAL_BAD } EvalStatus;

/* Runs the kernel's statements. BUFS is indexed by Buf.id; entries of inputs and outputs are the caller's;
 * temporaries are made and freed inside. On EVAL_INDEX *FAULT is the statement. */
EvalStatus eval_kernel(Kernel *k, const EvalOpts *o, EvalBuf *bufs, Stmt **fault);

/* Values of a kernel's single output as dims, where extents are constants and N <= 64 points: statements
 * are evaluated over symbolic integers. IN[k]: the contents of operand k (Buf.param) or null. False where
 * something is not expressible as a dim. */
bool eval_symbolic(Kernel *k, Dim *const *const *in, Dim **out, int n);

#endif
