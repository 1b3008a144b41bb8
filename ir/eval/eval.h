/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference interpreter: it executes statements as they are written, with the exact semantics
 * of the element types. Tests compare generated code with it. Sums and products of floats are
 * accumulated in f64 and rounded once; a product that is the term of a sum is not rounded before it
 * is added. Everything else is computed by ir/expr/scalar.h, as in generated code.
 *
 * The interpreter can also compute an error bound for each value: how far the value that a target
 * computes may differ, since a target may reassociate sums.
 *
 *   - A sum of n terms may be off by n * eps * sum |terms|, where eps is the machine epsilon of the
 *     type that accumulates, plus the bounds of its terms.
 *   - One ulp of the element type is added to a bound that is not 0, since both sides round; one of
 *     the narrower type where an expression rounds such a value.
 *   - An expression f over loads x with bounds e may be off by the sum of max |f(x +- e) - f(x)|,
 *     taking each load in turn.
 *   - The bound is infinite where a shifted value has no meaning: an index leaves its buffer, or an
 *     arg-max compares values with bounds.
 *
 * Inputs may have bounds, too. The interpreter evaluates strips of points at once; contractions
 * have a blocked path of 1 G multiply-adds a second or more.
 */
#ifndef IR_EVAL_EVAL_H
#define IR_EVAL_EVAL_H

#include "ir/kernel/kernel.h"

typedef struct EvalBuf {
	/* elements of the buffer's type; row-major, or in the order of the buffer's layout */
	void *data;
	/* absolute error bound for each element, always row-major; null: an input is exact, an
	 * output's bound is not wanted */
	double *bound;
} EvalBuf;

typedef struct EvalOpts {
	const int64_t *sym; /* values of symbols, by Sym.id */
	bool bounds;        /* fill EvalBuf.bound of the outputs */
	bool mad_fused;     /* whether the target's mad rounds once */
} EvalOpts;

/* EVAL_INDEX: an index was out of range */
typedef enum EvalStatus { EVAL_OK, EVAL_INDEX, EVAL_BAD } EvalStatus;

/* The statement with an index out of range, that index, and the size of its dim. */
typedef struct EvalFault {
	Stmt *stmt;
	int64_t index, size;
	const Buf *stray; /* of EVAL_BAD: the buffer outside of which the kernel accesses memory, or null */
} EvalFault;

/* Runs the kernel's statements. BUFS is indexed by Buf.id. The caller provides entries for
 * inputs and outputs; temporaries are allocated inside. If a statement fails, *FAULT, which may be
 * null, is set. */
EvalStatus eval_kernel(Kernel *k, const EvalOpts *o, EvalBuf *bufs, EvalFault *fault);

/* ---- eval_symbolic.c ---- */

/* The elements of RESULT, a buffer that K writes, as dims. Extents must be constants and N small
 * (64). Statements are evaluated over symbolic integers; an integer that is computed through floats
 * is assumed to be below 2^24. IN[k]: the elements of operand k (Buf.param), or null. False if an
 * element cannot be expressed as a dim. */
bool eval_symbolic(Kernel *k, const Buf *result, Dim *const *const *in, Dim **out, int n);

/* ---- eval_layout.c ---- */

/* The number of elements in memory, with the layout's padding; -1 on overflow. */
int64_t layout_elements(const Buf *b, const int64_t *dims);
/* Convert between row-major PLAIN and B's physical order. Packing sets the padding to zero. */
void layout_unpack(const Buf *b, const int64_t *dims, const void *physical, void *plain);
void layout_pack(const Buf *b, const int64_t *dims, const void *plain, void *physical);

#endif
