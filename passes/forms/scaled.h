/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of a product's quantised operands: numbers of few bits, times scales that groups of
 * terms share. */
#ifndef PASSES_FORMS_SCALED_H
#define PASSES_FORMS_SCALED_H

#include "passes/forms/contraction.h"
#include "passes/module.h"

/* The parts of operand B of product C of node N. The caller sets C and N. */
typedef struct ScaledForm {
	const Contraction *c;
	Node *n;
	Expr *number; /* an i32: the load of a number, perhaps minus the middle of its range */
	DType type;   /* of NUMBER */
	Expr *zero, *scale; /* f32, over the iterator GROUPS instead of k; null: 0, 1 */
	Iter *groups;       /* the number of the group */
	int64_t group;      /* terms of a group; 0: all */
} ScaledForm;

/* Splits E, operand B of F's product, into its parts. False if it has another form. */
bool scaled_find(ScaledForm *f, Expr *e);

/* A group with no element above this becomes 0, so that the reciprocals of all scales are
 * finite. */
#define LEAST_SCALED 0x1p-100

/* Offset of a row's numbers that makes them unsigned bytes. */
enum { ROW_ZERO = 128 };

/* An operand A that is quantised in groups of contiguous terms:
 *
 *     A(m, k) = f32(byte(m, k) - ROW_ZERO) * scale(m, k / group)
 *
 * BYTE is the load of a u8 and SCALE that of an f32, from tensors whose last dim is k, or the
 * group. */
typedef struct ScaledRows {
	Expr *byte, *scale;
	int64_t group;
} ScaledRows;

/* ---- passes/kernel/quantise_weights.c ---- */

/* Runs the pass on kernels that the operators of an ONNX graph from `quantise` became. False after
 * a diagnostic. */
bool quantise_weights_operators(Module *m);

/* ---- scaled.c ---- */

/* The name of N, which may be null, for a report on a terminal. */
const char *scaled_name(Module *m, const Node *n);
/* Reports that the operands WHAT of N are left unchanged, and counts them in *KEPT. */
void scaled_report(Module *m, const Node *n, const char *what, int64_t *kept, const char *why);
/* Reports that COUNT products have activations of TYPE and KEPT ones stay. WANTED: the option that
 * the weights lack for more, or null. */
void scaled_report_rows(Module *m, const char *type, int64_t count, int64_t kept,
			const char *wanted);
/* Whether operand A of C has that form. */
bool scaled_rows(const Contraction *c, ScaledRows *out);

#endif
