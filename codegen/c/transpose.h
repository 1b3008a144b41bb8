/* SPDX-License-Identifier: Apache-2.0 */
/* The C function to which loops that transpose are printed as calls. */
#ifndef CODEGEN_C_TRANSPOSE_H
#define CODEGEN_C_TRANSPOSE_H

#include "codegen/c/gen_c.h"

/* Notes that elements of SIZE bytes, a power of two up to MOST_TRANSPOSED, are transposed;
 * returns the name of the function that does it. */
const char *c_transpose(GenC *g, int size);
/* Prints those of these functions that functions of part FILE call. */
void c_transpose_functions(GenC *g, StrBuf *b, int file);

#endif
