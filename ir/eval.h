/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference interpreter: runs statements as they stand, with the exact semantics of the element
 * types. It is the oracle of the project. Sums and products of floats are carried in f64 and rounded
 * once (and a product that is the term of a sum is not rounded before); everything else is ir/scalar.h.
 *
 * Beside each value it can compute the error bound of rule class *reassoc*: how far a target may lie from
 * it. A sum of n terms may be off by n * eps * sum |terms| (eps: machine epsilon of the type that adds),
 * and by what its terms may be off; where a bound is not 0 a step of the element type is added, since both
 * sides round. What follows in the kernel moves by max |f(x +- e) - f(x)| for each load x of bound e, and
 * these are added. Where a shifted value has no meaning (an index leaves its buffer, an arg-max of values
 * that may be off) the bound is infinite. Inputs may carry bounds of their own.
 *
 * It works on strips of points, one blocked path serves contractions (1 G MAC/s or more).
 */
#ifndef IR_EVAL_H
#define IR_EVAL_H

#include "ir/kernel.h"

typedef struct EvalBuf {
	void *data;     /* row-major in the buffer's element type; a layout's order where it has one */
	double *bound;  /* an absolute error bound an element, always row-major; null: exact (input), not
	                   asked for (output) */
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

/* Values of a kernel's single output as dims, where extents are constants and N is small (64): statements
 * are evaluated over symbolic integers; an integer that goes through floats is taken to be below 2^24.
 * IN[k]: the contents of operand k (Buf.param) or null. False where something is not expressible as a dim. */
bool eval_symbolic(Kernel *k, Dim *const *const *in, Dim **out, int n);

/* Elements in memory with the layout's padding, -1 on overflow. */
int64_t layout_elements(const Buf *b, const int64_t *dims);
/* Between row-major PLAIN and B's physical order; packing writes the padding as zero. */
void layout_unpack(const Buf *b, const int64_t *dims, const void *physical, void *plain);
void layout_pack(const Buf *b, const int64_t *dims, const void *plain, void *physical);

#endif
