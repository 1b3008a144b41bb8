/* SPDX-License-Identifier: Apache-2.0 */
/* What the rewrites of `algebra` share. */
#ifndef PASSES_ALGEBRA_H
#define PASSES_ALGEBRA_H

#include "passes/kernels.h"

/* byte - zero: an i32. BYTE is of a type of 8 bits; ZERO is the same for all terms of a sum, null: 0. */
typedef struct Factor {
	Expr *byte, *zero;
} Factor;

/* Factor E of N's contraction *C, its first statement, as that; N gets the operands that it reads (passes/narrow.c). False where
 * it is none, or cannot be told; then operands may be left that nothing reads. */
bool narrow_factor(Node *n, const Contraction *c, Expr *e, Factor *out);

#endif
