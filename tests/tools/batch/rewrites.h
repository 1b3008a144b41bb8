/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The passes that rewrite kernels, one by one: what eval gives for the graph before such a pass and after it is compared bit by bit.
 * That holds where all sums and products are exact, as they are on small integers; a rewrite may then add in any order.
 */
#ifndef TESTS_TOOLS_BATCH_REWRITES_H
#define TESTS_TOOLS_BATCH_REWRITES_H

#include "passes/module.h"

/* Runs the passes of TABLE (pass_table) on M up to the last that rewrites kernels. Null, or which pass changes a value; "" after a
 * diagnostic. M must be exact on small integers (module_is_exact_on_integers), and INPUTS be such integers. */
const char *rewrites_differ(const Pass *table, Module *m, const Tensor *const *inputs);

#endif
