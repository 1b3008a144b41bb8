/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of codegen/c/kernel.h.in, which become C of kernels. */
#ifndef CODEGEN_C_TEXT_H
#define CODEGEN_C_TEXT_H

#include "base/arena.h"

/* The replacement of @NAME@: TEXT, or, if that is null, the number. */
typedef struct CWord {
	const char *name, *text;
	long long number;
} CWord;

/* The part PART with the names of WORDS replaced; WORDS ends with a null name, and is null if the
 * part has no names. */
const char *c_text(Arena *a, const char *part, const CWord *words);
#define C_WORDS(...) ((const CWord[]){__VA_ARGS__, {NULL, NULL, 0}})

#endif
