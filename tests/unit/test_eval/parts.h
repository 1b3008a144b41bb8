/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of test_eval, one in each file, and their shared functions. */
#ifndef TESTS_UNIT_TEST_EVAL_PARTS_H
#define TESTS_UNIT_TEST_EVAL_PARTS_H

#include "ir/eval/eval.h"

#define CHECK(x) ((x) ? (void)0 : fail(__FILE__, __LINE__, #x))

extern int failed;

void fail(const char *file, int line, const char *what);
/* Null, with a message, if TEXT is not a kernel. */
Kernel *read_kernel(Ctx *c, Arena *a, const char *text);
/* Checks that K is the same after it is printed and read, and after it is copied. */
void check_text(Ctx *c, Kernel *k);

uint64_t random_bits(void);
/* The number of elements of B for the symbols SYM. */
int64_t numel(const Buf *b, const int64_t *sym);
/* N small integers as elements of B; the caller frees them. */
void *filled(const Buf *b, int64_t n);

/* plain.c: runs K on BUFS, point by point. */
void plain_kernel(Kernel *k, const int64_t *sym, EvalBuf *bufs);

void check_kernels(void);
void check_layouts(void);
void check_bounds(void);
void check_symbolics(void);
void time_kernels(void);

#endif
