/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values as dlrun holds them: from ONNX's test data (.pb), from and to NumPy files (.npy), or random.
 * Data is packed as dlrt packs it; strings are dl_str. Memory is an arena's or a mapped file's and
 * lives until the program ends.
 */
#ifndef TOOLS_DLRUN_ARRAY_H
#define TOOLS_DLRUN_ARRAY_H

#include "base/diag.h"
#include "ir/dtype.h"
#include "runtime/dlrt.h"

typedef struct Array {
	const char *name; /* "" when there is none */
	DType dtype;
	int32_t rank;
	int64_t *dims;
	void *data;
} Array;

int64_t array_count(const Array *v);
/* As an input of a model. */
dl_tensor array_tensor(const Array *v);
/* A model's tensor, which keeps its memory. */
Array array_of(const dl_tensor *t, const char *name);

/* Reads a .npy or .pb file, by its suffix; false after a diagnostic. */
bool array_read(Arena *a, Diag *d, const char *path, Array *v);
/* For a benchmark: normal floats, small non-negative integers, masks of ones. The same every time.
 * dtype, rank and dims are set; makes the data. */
void array_random(Arena *a, Array *v, uint64_t *seed);

#endif
