/* SPDX-License-Identifier: Apache-2.0 */
/* What is guaranteed about the numbers of a compiled graph's kernels, and whether two results
 * agree. */
#ifndef TESTS_TOOLS_BATCH_JUDGE_H
#define TESTS_TOOLS_BATCH_JUDGE_H

#include "passes/module.h"
#include "tools/dlrun/compare.h"

/* Whether no kernel of M adds or multiplies floats in an order that a schedule may choose. Then
 * results equal eval's bit by bit. */
bool module_is_elementwise(Module *m);
/* Whether M has sums or products, and all of them are exact on small integers. */
bool module_is_exact_on_integers(Module *m);
/* By Buf.id: whether a zero in the buffer may have either sign, because it depends on a minimum or
 * maximum of floats, for which -0 and +0 count as equal (docs/numerics.md). The inputs of K have
 * defined signs. */
bool *kernel_unsigned_zeros(Arena *a, const Kernel *k);
/* The same for each result of M's graph. */
bool *module_unsigned_zeros(Module *m);

/* How exactly two results must agree. */
typedef enum Agreement {
	AGREE_WITHIN, /* by the rule of dlrun --data (tools/dlrun/compare.h) */
	AGREE_EQUAL,  /* equal numbers: -0 equals +0, and NaN equals NaN */
	AGREE_BITS,   /* the same, and zeros have the same sign */
} Agreement;

/* Whether A is a tensor whose elements are all whole numbers, infinities or NaN. */
bool array_is_whole(const Array *a);
/* Null, or how GOT differs from WANT. T applies to AGREE_WITHIN. */
const char *difference(Arena *a, const Array *got, const Array *want, Agreement how, Tolerance t);

#endif
