/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the passes that rewrite kernels one by one: eval's results for the graph before such a pass
 * and after it must be equal bit by bit. That requires exact sums and products, as small integers
 * give, since a rewrite may change the order of additions.
 */
#ifndef TESTS_TOOLS_BATCH_REWRITES_H
#define TESTS_TOOLS_BATCH_REWRITES_H

#include "passes/module.h"

/* Runs the passes of TABLE (pass_table) on M, up to the last that rewrites kernels. Returns
 * null, or which pass changes a value; "" after a diagnostic. M must be exact on small integers
 * (module_is_exact_on_integers), and INPUTS must be such integers. */
const char *rewrites_differ(const Pass *table, Module *m, const Tensor *const *inputs);

#endif
