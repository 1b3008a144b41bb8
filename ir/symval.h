/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbolic numbers: what shape arithmetic (Shape, Gather, Concat, Mul ...) computes, as dims.
 *
 * A value is an integer dim, or a float that is either a constant or dim/den with a constant den. The
 * latter covers the ways exporters scale a size through floats (cvt, mul by 0.5, floor, cvt back); it
 * takes the float arithmetic as exact, which holds for sizes below 2^24 in f32. Everything else fails: the
 * caller then has a value that only run time knows.
 */
#ifndef IR_SYMVAL_H
#define IR_SYMVAL_H

#include "ir/expr.h"

typedef enum SymKind { SYM_FAIL, SYM_INT, SYM_RATIO, SYM_FLOAT } SymKind;

typedef struct SymVal {
	SymKind kind;
	Dim *d;      /* SYM_INT; numerator of SYM_RATIO */
	int64_t den; /* SYM_RATIO: > 0 */
	double f;    /* SYM_FLOAT */
} SymVal;

extern const SymVal symval_fail;

SymVal symval_dim(Dim *d); /* D null: a failure */
SymVal symval_int(Ctx *c, int64_t v);
SymVal symval_float(double f);
SymVal symval_ratio(Ctx *c, Dim *num, int64_t den);
bool symval_is_const(SymVal v, int64_t *out);
/* Instruction E, which is not `select`, of A and, where it has two operands, B; A has not failed. */
SymVal symval_inst(Ctx *c, const Expr *e, SymVal a, SymVal b);

#endif
