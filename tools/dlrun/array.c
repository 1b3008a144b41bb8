/* SPDX-License-Identifier: Apache-2.0 */
/* Values: protobuf files through the frontend, and random ones. NumPy files are in npy.c. */
#include "tools/dlrun/array.h"

#include "frontend/tensor.h"
#include "tools/dlrun/npy.h"

#include <math.h>
#include <string.h>
#include <strings.h>

int64_t array_count(const Array *v)
{
	int64_t n = 1;

	for (int32_t i = 0; i < v->rank; i++)
		n *= v->dims[i];
	return n;
}

dl_tensor array_tensor(const Array *v)
{
	return (dl_tensor){.size = sizeof(dl_tensor),
			   .dtype = dtype_info[v->dtype].onnx,
			   .rank = v->rank,
			   .shape = v->dims,
			   .data = v->data};
}

Array array_of(const dl_tensor *t, const char *name)
{
	return (Array){name, dtype_by_onnx(t->dtype), t->rank, t->shape, t->data};
}

/* Strings of the frontend as those of the runtime. */
static void *strings(Arena *a, const void *data, int64_t n)
{
	const char *const *from = data;
	dl_str *to = NEW_ARRAY(a, n, dl_str);

	for (int64_t i = 0; i < n; i++)
		to[i] = (dl_str){arena_strdup(a, from[i]), strlen(from[i])};
	return to;
}

/* The file's root as an array of arena A: the file is closed after. */
static bool read_open(Arena *a, OnnxFile *f, const char *path, Array *v)
{
	const Onnx__TensorProto *p = (const Onnx__TensorProto *)f->message;
	const Tensor *t = onnx_tensor(f, p, (DiagLoc){.file = path});

	if (!t)
		return false;
	*v = (Array){p->name ? arena_strdup(a, p->name) : "", t->dtype, t->rank,
		     NEW_ARRAY(a, t->rank + 1, int64_t), NULL};
	for (int i = 0; i < t->rank; i++)
		v->dims[i] = t->dims[i];
	if (t->dtype == DT_STR)
		v->data = strings(a, t->data, array_count(v));
	else if (t->bytes)
		v->data = arena_copy(a, t->data, (size_t)t->bytes);
	return true;
}

static bool read_pb(Arena *a, Diag *d, const char *path, Array *v)
{
	OnnxFile *f = onnx_open_as(d, path, &onnx__tensor_proto__descriptor);
	bool ok;

	if (!f)
		return false;
	ok = read_open(a, f, path, v);
	onnx_close(f);
	return ok;
}

bool array_read(Arena *a, Diag *d, const char *path, Array *v)
{
	if (str_ends(path, ".npy"))
		return npy_read(a, d, path, v);
	if (str_ends(path, ".pb"))
		return read_pb(a, d, path, v);
	return diag_error(d, (DiagLoc){.file = path}, "neither .npy nor .pb");
}

static uint64_t next(uint64_t *seed)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

static double normal(uint64_t *seed)
{
	const double u = ((double)(next(seed) >> 11) + 1.0) * 0x1p-53;
	const double t = (double)(next(seed) >> 11) * 0x1p-53;

	return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * t);
}

void array_random(Arena *a, Array *v, uint64_t *seed)
{
	const int64_t n = array_count(v), bytes = dtype_size(v->dtype, n);
	const bool ones = v->dtype == DT_BOOL || strcasestr(v->name, "mask");

	v->data = arena_alloc(a,
			      (size_t)(v->dtype == DT_STR ? n * (int64_t)sizeof(dl_str) : bytes));
	for (int64_t i = 0; v->dtype != DT_STR && i < n; i++) {
		if (ones)
			dtype_is_float(v->dtype) ? dtype_store_f64(v->dtype, v->data, i, 1.0)
						 : dtype_store_i64(v->dtype, v->data, i, 1);
		else if (dtype_is_float(v->dtype))
			dtype_store_f64(v->dtype, v->data, i, normal(seed));
		else
			/* 0 and 1: an index that the smallest table has. */
			dtype_store_i64(v->dtype, v->data, i, (int64_t)(next(seed) % 2));
	}
}
