/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The weights: constants, and what kernels over constants alone compute (packing, folding), written at the
 * offsets that memplan gave them. They go from mapped file to mapped file and are never all in memory.
 */
#ifndef CODEGEN_WEIGHTS_WEIGHTS_H
#define CODEGEN_WEIGHTS_WEIGHTS_H

#include "passes/module.h"

/* A run of bytes of a GPU's weights: where the GPU has them, and where the file has. */
typedef struct WeightsPiece {
	int64_t to, from, bytes;
} WeightsPiece;

/* The weights of M's CPUs, and then what M->gpu has beside. */
typedef struct WeightsFile {
	int64_t *at;   /* by Value.id of what M->gpu stores: where it is; below `own`: the CPUs' */
	int64_t own;   /* where the GPUs' own begin */
	int64_t bytes; /* of all */
	VEC(WeightsPiece) piece;
} WeightsFile;

/* Bytes of all weights of M: its own, and what M->gpu has beside. */
int64_t weights_size(Module *m);
/* Fills FD from offset BASE (a multiple of a page) on with all weights of M, by THREADS threads at most, and gives their
 * hash (runtime/hash.h). What they are does not depend on the number. False after a
 * diagnostic. */
bool weights_write(Module *m, int fd, int64_t base, int threads, uint64_t *hash);
/* Whether all weights of M can be computed: where one takes an index that may be out of range, they are, into a file that
 * is gone afterwards. False after a diagnostic. */
bool weights_check(Module *m);

/* ---- share.c ---- */

/* Null without GPUs. */
const WeightsFile *weights_file(Module *m);

#endif
