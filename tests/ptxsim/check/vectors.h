/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels computed on some GPU, kept in a file: every array that a case reads back, in order.
 * A recording is made where a GPU is, by the same program linked with its driver, and replayed on
 * the simulator, which must agree: each word bit by bit, or as floats within what approximate
 * instructions may differ by.
 *
 * The file: "CASE\tBYTES\n" and the bytes, again and again; cases in the order in which they ran.
 */
#ifndef PTXSIM_CHECK_VECTORS_H
#define PTXSIM_CHECK_VECTORS_H

#include <stdbool.h>
#include <stddef.h>

/* What the arrays of CASE, which is about to run, are appended to (RECORD), or compared with.
 * False: no such file. */
bool vectors_begin(const char *path, bool record, const char *name);
/* An array that the case has read. */
void vectors_take(const void *data, size_t n);

#endif
