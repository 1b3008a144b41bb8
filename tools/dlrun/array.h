/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values as dlrun holds them: from ONNX's test data (.pb), from and to NumPy files (.npy), from
 * text (.txt), or random. Data is packed as dlrt packs it; strings are dl_str. Memory is an arena's
 * or a mapped file's and lives until the program ends.
 */
#ifndef TOOLS_DLRUN_ARRAY_H
#define TOOLS_DLRUN_ARRAY_H

#include "base/diag.h"
#include "ir/dtype.h"
#include "runtime/strtable.h"

/* A tensor, or a sequence, optional or map of items (dl_tensor). */
typedef struct Array {
	const char *name; /* "" when there is none */
	DType dtype;
	int32_t rank;
	int64_t *dims;
	void *data;
	dl_form form;
	struct Array *items; /* of other forms than tensors, in place of type, dims and data */
	int64_t n_items;
} Array;

/* A tensor. */
static inline Array array_make(const char *name, DType dtype, int32_t rank, int64_t *dims, void *data)
{
	return (Array){.name = name, .dtype = dtype, .rank = rank, .dims = dims, .data = data};
}

/* The number of elements; of all tensors in V. */
int64_t array_count(const Array *v);
/* The bytes of the elements of a tensor; strings without those that they point to. */
int64_t array_bytes(const Array *v);
/* A copy of V, but for its name, in A. */
Array array_copy(Arena *a, const Array *v);
/* The name of item I of V, a value called NAME: NAME.0, or NAME.keys of a map. */
const char *array_item_name(Arena *a, const char *name, const Array *v, int64_t i);
/* The number of items at all levels: those of items, too. */
int64_t array_items(const Array *v);
/* Makes T an input of a model. ROOM has array_items(V) tensors; returns what is left of it. */
dl_tensor *array_tensor(const Array *v, dl_tensor *t, dl_tensor *room);
/* A model's tensor, which keeps its memory, or a tree of those in A. */
Array array_of(Arena *a, const dl_tensor *t, const char *name);

/* The N strings of T with these ids, as dl_str, in A. */
void *array_strings(Arena *a, const dl_strings *t, const int64_t *ids, int64_t n);

/* Reads a .npy or .pb file, or the lines of a .txt file as strings, by its suffix; false after a
 * diagnostic. FORM says what a .pb file has: messages of ONNX do not say what they are. */
bool array_read(Arena *a, Diag *d, const char *path, dl_form form, Array *v);
/* For a benchmark: normal floats, small non-negative integers, masks of ones. The same every time.
 * dtype, rank and dims are set; makes the data. */
void array_random(Arena *a, Array *v, uint64_t *seed);

#endif
