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
/* Whether all bits agree, except for those of NaN. */
bool same_bits(const Array *a, const Array *b, int64_t *at);
/* Null, or how GOT differs. BITS: bit by bit; else by the rule of dlrun --data
 * (tools/dlrun/compare.h), within T. */
const char *difference(Arena *a, const Array *got, const Array *want, bool bits, Tolerance t);

#endif
