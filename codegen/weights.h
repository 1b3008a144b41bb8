/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weights: constants, and what kernels over constants alone compute (packing, folding), written at the
 * offsets that memplan gave them. They go from mapped file to mapped file and are never all in memory.
 */
#ifndef CODEGEN_WEIGHTS_H
#define CODEGEN_WEIGHTS_H

#include "passes/module.h"

/* Bytes of all weights of M: its own, and from weights_gpu_at on those of M->gpu. */
int64_t weights_size(const Module *m);
int64_t weights_gpu_at(const Module *m);
/* Fills FD from offset BASE (a multiple of a page) on with all weights of M, by THREADS threads at most, and gives their
 * hash (runtime/hash.h). What they are does not depend on the number. False after a
 * diagnostic. */
bool weights_write(Module *m, int fd, int64_t base, int threads, uint64_t *hash);

#endif
