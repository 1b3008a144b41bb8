/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels of a compiled graph promise about their numbers, and whether two results agree. */
#ifndef TESTS_TOOLS_BATCH_JUDGE_H
#define TESTS_TOOLS_BATCH_JUDGE_H

#include "passes/module.h"
#include "tools/dlrun/compare.h"

/* No kernel of M adds or multiplies floats in an order that a schedule may choose: equal bit by bit to eval. */
bool module_is_elementwise(Module *m);
/* M has sums or products, and on small integers every one of them is exact. */
bool module_is_exact_on_integers(Module *m);
/* The same bits, but for NaN's. */
bool same_bits(const Array *a, const Array *b, int64_t *at);
/* Null, or how GOT differs: with BITS bit by bit, else by the rule of dlrun --data (tools/dlrun/compare.h), within T. */
const char *difference(Arena *a, const Array *got, const Array *want, bool bits, Tolerance t);

#endif
