/* SPDX-License-Identifier: Apache-2.0 */
/* What the runtime's tests share: test_runtime.c. */
#ifndef TESTS_RUNTIME_TEST_RUNTIME_H
#define TESTS_RUNTIME_TEST_RUNTIME_H

#include "runtime/dlrt.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char *dir;       /* of the artifacts */
extern atomic_int failures;   /* of the current test */
extern atomic_long n_mallocs; /* calls, if compiled with COUNT_MALLOC */

#define CHECK(cond)                                                                \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			atomic_fetch_add(&failures, 1);                            \
		}                                                                  \
	} while (0)

/* Checks that a call gives the status, and else shows the error of object. */
#define EXPECT(status, call, object)                                                         \
	do {                                                                                 \
		const int rc_ = (call);                                                      \
		if (rc_ != (status)) {                                                       \
			fprintf(stderr, "%s:%d: %s: status %d, expected %d: %s\n", __FILE__, \
				__LINE__, #call, rc_, (status), api->error(object));         \
			atomic_fetch_add(&failures, 1);                                      \
		}                                                                            \
	} while (0)

const dl_api *open_api(const char *name, void **handle);
dl_tensor tensor(int32_t dtype, int32_t rank, int64_t *shape, void *data, uint64_t bytes);
float relu_mul(int64_t i);
/* Runs relu_mul with N rows in the context and checks both outputs. */
bool run_relu(const dl_api *api, dl_context *c, int64_t N);
dl_model *load(const dl_api *api, int32_t threads);
dl_context *context(const dl_api *api, dl_model *m);
/* Frees C, the last context of M, and M. */
void unload(const dl_api *api, dl_model *m, dl_context *c);
int count_dir(const char *path);
/* Runs nonzero on 0..n-1 (or with x[0] = first), and checks. */
int run_nonzero(const dl_api *api, dl_context *c, int64_t n, int64_t first, int64_t n_mask);

/* ---- test_calls.c ---- */

void test_run(void);
void test_workspace(void);
void test_callbacks(void);
void test_no_malloc(void);
void test_tensors(void);
void test_input_bytes(void);
void test_served_input(void);
void test_arguments(void);
void test_short_structs(void);
void test_data_dependent(void);
void test_fp_state(void);

/* ---- test_threads.c ---- */

void test_concurrent(void);
void test_errors_of_threads(void);
void test_fork(void);
void test_fork_and_descriptors(void);
void test_dlclose(void);
void test_executor_and_cancel(void);
void test_busy(void);
void test_profile(void);
void test_slices(void);

/* ---- test_weights.c ---- */

void test_weights(void);
void test_hash(void);
/* Writes the weights of nonzero and prints their hash; returns the exit status. */
int write_weights(const char *path);

#endif
