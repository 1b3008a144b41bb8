/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions in generated code, and the names of nodes in its comments. */
#ifndef CODEGEN_NAMES_H
#define CODEGEN_NAMES_H

#include "base/str.h"
#include "ir/kernel/kernel.h"

/*
 * The name of function NUMBER of a file or module, for the kernel or stage KERNEL: digits_k3_conv1
 * for PREFIX "digits", k3_conv1 for "". The number makes the name unique: KERNEL is for readers,
 * may have any bytes, and may be the name of several kernels. No other generated name begins with
 * PREFIX, "_k" and digits.
 */
const char *codegen_name(Arena *a, const char *prefix, int number, const char *kernel);
/* Appends "/fc/MatMul (MatMul)", in a form (base/escape.h). */
void codegen_put_loc(StrBuf *b, Loc l, EscapeForm *form);

#endif
