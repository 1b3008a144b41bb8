/* SPDX-License-Identifier: Apache-2.0 */
/* Launches single kernels on a GPU, or the simulated one, through the runtime's table of driver
 * functions. */
#ifndef TESTS_TOOLS_BATCH_GPU_H
#define TESTS_TOOLS_BATCH_GPU_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct TestGpu TestGpu;

/* A kernel, as described by codegen/nvptx/nvptx.h. */
typedef struct TestEntry {
	const char *name;
	int threads, shared;
	bool faults, arrives;
} TestEntry;

/* Opens the first GPU and loads the kernels of PTX; null with the reason in *WHY. */
TestGpu *test_gpu_open(Arena *a, const char *ptx, const char **why);
/* Bytes of shared memory that a block may have. */
int test_gpu_shared(const TestGpu *t);
/* Copies BYTES bytes at DATA to the GPU, until test_gpu_clear; 0 after a failure. */
uint64_t test_gpu_put(TestGpu *t, const void *data, int64_t bytes);
/* Launches E with N parameters, and adds those for reporting faults. */
void test_gpu_launch(TestGpu *t, TestEntry e, const uint64_t *arg, int n, int64_t blocks);
/* Waits, and copies from the GPU. */
void test_gpu_get(TestGpu *t, void *data, uint64_t from, int64_t bytes);
void test_gpu_clear(TestGpu *t);
/* Null, or the text of the first failure. */
const char *test_gpu_failure(const TestGpu *t);
void test_gpu_close(TestGpu *t);

#endif
