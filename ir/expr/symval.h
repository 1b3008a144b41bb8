/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolic numbers: the values that shape arithmetic (Shape, Gather, Concat, Mul ...) computes, as
 * dims.
 *
 * A value is an integer dim, or a float that is either a constant or dim/den with a constant den.
 * Exporters scale sizes through floats (cvt, mul by 0.5, floor, cvt back), which the last form
 * represents. Float arithmetic is taken as exact, which holds for sizes below 2^24 in f32. All
 * other instructions fail; then only run time knows the value.
 */
#ifndef IR_EXPR_SYMVAL_H
#define IR_EXPR_SYMVAL_H

#include "ir/expr/expr.h"

typedef enum SymKind { SYM_FAIL, SYM_INT, SYM_RATIO, SYM_FLOAT } SymKind;

typedef struct SymVal {
	SymKind kind;
	Dim *d;      /* SYM_INT; numerator of SYM_RATIO */
	int64_t den; /* SYM_RATIO: > 0 */
	double f;    /* SYM_FLOAT */
} SymVal;

extern const SymVal symval_fail;

SymVal symval_dim(Dim *d); /* D null: a failed value */
SymVal symval_int(Ctx *c, int64_t v);
SymVal symval_float(double f);
SymVal symval_ratio(Ctx *c, Dim *num, int64_t den);
bool symval_is_const(SymVal v, int64_t *out);
/* Applies instruction E, which is not `select`, to A and, if it has two operands, B. A must not
 * be a failure. */
SymVal symval_inst(Ctx *c, const Expr *e, SymVal a, SymVal b);

#endif
