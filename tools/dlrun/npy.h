/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NumPy's .npy files, versions 1 to 3, row-major and little-endian. Types that NumPy lacks travel
 * as unsigned integers: of the same width from 8 bits on (bf16: u2, f8: u1), one byte an element
 * below.
 */
#ifndef TOOLS_DLRUN_NPY_H
#define TOOLS_DLRUN_NPY_H

#include "tools/dlrun/array.h"

/* The value's name is "". False after a diagnostic. */
bool npy_read(Arena *a, Diag *d, const char *path, Array *v);
/* Writes V, by write_file(): PATH has the old or the new contents. False after a diagnostic. */
bool npy_write(Diag *d, const char *path, const Array *v);
/* Reads v, which has a type of its own in NumPy, as one of the model's type t that has the same
 * width or less than 8 bits; false when it is neither. */
bool npy_retype(Arena *a, Array *v, DType t);

#endif
