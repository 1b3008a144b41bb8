/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the weights: constants, and results of kernels that read only constants (packing,
 * folding), at the offsets of the memory plan. They are copied from mapped file to mapped file, and
 * are never all in memory.
 */
#ifndef CODEGEN_WEIGHTS_WEIGHTS_H
#define CODEGEN_WEIGHTS_WEIGHTS_H

#include "passes/module.h"

/* A contiguous piece of a GPU's weights: its offsets in the GPU's memory and in the file. */
typedef struct WeightsPiece {
	int64_t to, from, bytes;
} WeightsPiece;

/* The file: the weights of M's CPUs, then those that only M->gpu has. */
typedef struct WeightsFile {
	int64_t *at;   /* by Value.id of M->gpu: the offset; below `own`: of the CPUs */
	int64_t own;   /* offset of the first weight that only GPUs have */
	int64_t bytes; /* of the file */
	VEC(WeightsPiece) piece;
} WeightsFile;

/* Bytes of all weights of M, and of those that only M->gpu has. */
int64_t weights_size(Module *m);
/* Writes all weights of M to FD from offset BASE, a multiple of a page, with at most THREADS
 * threads, and returns their hash (runtime/hash.h). The bytes do not depend on THREADS. False
 * after a diagnostic. */
bool weights_write(Module *m, int fd, int64_t base, int threads, uint64_t *hash);
/* Whether all weights of M can be computed. If one has an index that may be out of range, they are
 * computed, into an unlinked temporary file. False after a diagnostic. */
bool weights_check(Module *m);

/* ---- share.c ---- */

/* Null without GPUs. */
const WeightsFile *weights_file(Module *m);

#endif
