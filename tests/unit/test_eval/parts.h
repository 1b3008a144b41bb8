/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of test_eval, a file each, and what they share. */
#ifndef TESTS_UNIT_TEST_EVAL_PARTS_H
#define TESTS_UNIT_TEST_EVAL_PARTS_H

#include "ir/eval.h"

#define CHECK(x) ((x) ? (void)0 : fail(__FILE__, __LINE__, #x))

extern int failed;

void fail(const char *file, int line, const char *what);
/* Null where TEXT is none, which is said. */
Kernel *read_kernel(Ctx *c, Arena *a, const char *text);
/* K is the same once it is printed and read, or copied. */
void check_text(Ctx *c, Kernel *k);

uint64_t random_bits(void);
/* Elements of B where symbols are SYM. */
int64_t numel(const Buf *b, const int64_t *sym);
/* N elements for B, small integers, which the caller frees. */
void *filled(const Buf *b, int64_t n);

/* plain.c: K on BUFS, point by point. */
void plain_kernel(Kernel *k, const int64_t *sym, EvalBuf *bufs);

void check_kernels(void);
void check_layouts(void);
void check_bounds(void);
void check_symbolics(void);
void time_kernels(void);

#endif
