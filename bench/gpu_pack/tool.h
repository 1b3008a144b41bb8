/* SPDX-License-Identifier: Apache-2.0 */
/* Functions shared by the files of the GPU pack's tool. */
#ifndef BENCH_GPU_PACK_TOOL_H
#define BENCH_GPU_PACK_TOOL_H

#include "tests/ptxsim/check/gpu.h"

#include <stdint.h>

/* Ends the program with status 1 unless R is 0. */
void expect(int r, const char *call);
#define CU(call) expect((int)(call), #call)

/* The first GPU's context is this thread's. */
void open_device(void);
/* Whatever float format WORD holds, one of 32 bits or two of 16: their exponents stay, signs and
 * mantissas are drawn. */
uint32_t near(uint32_t word, int bits);

/* ---- libraries.c ---- */

struct LibraryType;
/* Null: no library has this name. */
const struct LibraryType *type_named(const char *name);
/* Time a library for SECONDS, at least three runs, and print a line of JSON. A few results are
 * computed here, too: what differs is status 1. */
int gemm(const struct LibraryType *t, int m, int n, int k, double seconds);
/* SIZE: N C H W K SIDE STRIDE PAD. */
int conv(const struct LibraryType *t, const int *size, double seconds);

#endif
