/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model's kernels one by one: each runs on what eval gave its operands, and its results may be as far from
 * eval's as the bound of class *reassoc* says; where nothing is added up, not at all. So a fault of a kernel is seen
 * at that kernel, however deep in the model, and no bound has to hold through many. In a program for GPUs that is every
 * variant whose guard holds.
 */
#ifndef TESTS_TOOLS_BATCH_KERNELS_H
#define TESTS_TOOLS_BATCH_KERNELS_H

#include "codegen/c/gen_c.h"
#include "codegen/nvptx/nvptx.h"

/* Prints a table of M's stages, NAME, for kernels_differ to find; after gen_host. Of a program for GPUs, those that its host has,
 * and G is the code beside it. */
void kernels_table(StrBuf *b, Module *m, GenC *g, const char *name);
/* Null, or how a kernel differs. STAGES: that table, compiled. PTX: the kernels on the GPU, or null. */
const char *kernels_differ(Arena *a, Module *m, GenC *g, GenPtx *ptx, const void *stages,
			   const Tensor *const *inputs, Diag *diag);

#endif
