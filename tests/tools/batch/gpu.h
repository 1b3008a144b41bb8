/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU, or the simulated one, on which a test launches single kernels, through the runtime's table of the driver. */
#ifndef TESTS_TOOLS_BATCH_GPU_H
#define TESTS_TOOLS_BATCH_GPU_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct TestGpu TestGpu;

/* A kernel, as codegen/nvptx/nvptx.h has it. */
typedef struct TestEntry {
	const char *name;
	int threads, shared;
	bool faults;
} TestEntry;

/* The first GPU, with the kernels of PTX; null, and *WHY. */
TestGpu *test_gpu_open(Arena *a, const char *ptx, const char **why);
/* Bytes of shared memory that it gives a block. */
int test_gpu_shared(const TestGpu *t);
/* A copy of BYTES bytes at DATA, until test_gpu_clear; 0 after a failure. */
uint64_t test_gpu_put(TestGpu *t, const void *data, int64_t bytes);
/* Launches E with N parameters, and those of faults. */
void test_gpu_launch(TestGpu *t, TestEntry e, const uint64_t *arg, int n, int64_t blocks);
/* Waits, and copies back. */
void test_gpu_get(TestGpu *t, void *data, uint64_t from, int64_t bytes);
void test_gpu_clear(TestGpu *t);
/* Null, or what went wrong first. */
const char *test_gpu_failure(const TestGpu *t);
void test_gpu_close(TestGpu *t);

#endif
