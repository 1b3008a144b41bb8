/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the kernels of a model one by one. Each kernel runs on eval's values of its operands. Its
 * results may differ from eval's by the bound for reassociated sums; if it computes no sums, not at
 * all. So a fault is found at the kernel that has it, however deep in the model, and no bound has
 * to cover many kernels. In a program for GPUs every variant whose guard holds is tested.
 */
#ifndef TESTS_TOOLS_BATCH_KERNELS_H
#define TESTS_TOOLS_BATCH_KERNELS_H

#include "codegen/c/gen_c.h"
#include "codegen/nvptx/nvptx.h"

/* Prints a table of M's stages, called NAME, for kernels_differ; after gen_host. In a program
 * for GPUs the table has the host's stages, and G is the host's code. */
void kernels_table(StrBuf *b, Module *m, GenC *g, const char *name);
/* Null, or how a kernel differs. STAGES: the compiled table. PTX: the GPU's kernels, or null. */
const char *kernels_differ(Arena *a, Module *m, GenC *g, GenPtx *ptx, const void *stages,
			   const Tensor *const *inputs, Diag *diag);

#endif
