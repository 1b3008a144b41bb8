/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that put output K of input I at out[K * N + I], and inputs that are likely to show
 * what is wrong. */
#ifndef PTXSIM_CHECK_NUMBERS_H
#define PTXSIM_CHECK_NUMBERS_H

#include "tests/ptxsim/check/gpu.h"

#include <stddef.h>

enum { N = 512, MAX_OUT = 64 };

typedef int32_t s32;
typedef int64_t s64;
typedef uint32_t u32;
typedef uint64_t u64;

/* Runs the kernel on N_IN (2 or 3) arrays of N inputs. */
void run_rows(const char *module_name, const char *kernel, int n_in, const void *const *in,
	      const size_t *in_size, void *out, size_t out_size);

/* Integers near their limits, floats near theirs. */
u32 odd_bits(void);
float odd_float(void);

/* As min and max of PTX. */
float least(float a, float b);
float most(float a, float b);

#endif
