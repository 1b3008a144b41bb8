/* SPDX-License-Identifier: Apache-2.0 */
/* Values: protobuf files through the frontend, and random ones. NumPy files are in npy.c. */
#include "tools/dlrun/array.h"

#include "base/sys.h"
#include "base/vec.h"
#include "frontend/tensor.h"
#include "tools/dlrun/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int64_t array_count(const Array *v)
{
	int64_t n = v->form == DL_TENSOR;

	for (int32_t i = 0; i < v->rank; i++)
		n *= v->dims[i];
	for (int64_t i = 0; i < v->n_items; i++)
		n += array_count(&v->items[i]);
	return n;
}

int64_t array_bytes(const Array *v)
{
	const int64_t n = array_count(v);

	return v->dtype == DT_STR ? n * (int64_t)sizeof(dl_str) : dtype_size(v->dtype, n);
}

Array array_copy(Arena *a, const Array *v)
{
	Array to = *v;

	if (v->form != DL_TENSOR) {
		to.items = NEW_ARRAY(a, v->n_items, Array);
		for (int64_t i = 0; i < v->n_items; i++)
			to.items[i] = array_copy(a, &v->items[i]);
		return to;
	}
	to.dims = arena_copy(a, v->dims, (size_t)v->rank * sizeof(*v->dims));
	to.data = arena_copy(a, v->data, (size_t)array_bytes(v));
	for (int64_t i = 0; v->dtype == DT_STR && i < array_count(v); i++) {
		dl_str *s = (dl_str *)to.data + i;

		s->p = s->n ? arena_strndup(a, s->p, s->n) : "";
	}
	return to;
}

const char *array_item_name(Arena *a, const char *name, const Array *v, int64_t i)
{
	return v->form == DL_MAP ? arena_printf(a, "%s.%s", name, i ? "values" : "keys")
				 : arena_printf(a, "%s.%" PRId64, name, i);
}

int64_t array_items(const Array *v)
{
	int64_t n = v->n_items;

	for (int64_t i = 0; i < v->n_items; i++)
		n += array_items(&v->items[i]);
	return n;
}

dl_tensor *array_tensor(const Array *v, dl_tensor *t, dl_tensor *room)
{
	*t = (dl_tensor){.size = sizeof(dl_tensor), .form = (int32_t)v->form};
	if (v->form == DL_TENSOR) {
		t->dtype = dtype_info[v->dtype].onnx;
		t->rank = v->rank;
		t->shape = v->dims;
		t->data = v->data;
		return room;
	}
	t->items = room;
	t->n_items = v->n_items;
	room += v->n_items;
	for (int64_t i = 0; i < v->n_items; i++)
		room = array_tensor(&v->items[i], &t->items[i], room);
	return room;
}

Array array_of(Arena *a, const dl_tensor *t, const char *name)
{
	Array v = {.name = name, .form = (dl_form)t->form};

	if (t->form == DL_TENSOR)
		return array_make(name, dtype_by_onnx(t->dtype), t->rank, t->shape, t->data);
	v.items = NEW_ARRAY(a, t->n_items, Array);
	v.n_items = t->n_items;
	for (int64_t i = 0; i < t->n_items; i++) /* an item may be of another version */
		v.items[i] = array_of(a,
				      (const dl_tensor *)(const void *)((const char *)t->items +
									(size_t)i * t->items->size),
				      "");
	return v;
}

void *array_strings(Arena *a, const dl_strings *t, const int64_t *ids, int64_t n)
{
	dl_str *to = NEW_ARRAY(a, n, dl_str);

	for (int64_t i = 0; i < n; i++) {
		const dl_str s = strings_get(t, ids[i]);

		to[i] = (dl_str){arena_strndup(a, s.p, s.n), s.n};
	}
	return to;
}

/* ---- Messages of ONNX ---- */

/* A file whose root becomes an array of the arena: the file is closed after. */
typedef struct Reading {
	Arena *a;
	OnnxFile *f;
	const char *path;
} Reading;

static const char *own_name(const Reading *r, const char *name)
{
	return name ? arena_strdup(r->a, name) : "";
}

static bool take_tensor(const Reading *r, const Onnx__TensorProto *p, Array *v)
{
	const Tensor *t = onnx_tensor(r->f, p, (DiagLoc){.file = r->path});

	if (!t)
		return false;
	*v = array_make(own_name(r, p->name), t->dtype, t->rank,
			NEW_ARRAY(r->a, t->rank + 1, int64_t), NULL);
	for (int i = 0; i < t->rank; i++)
		v->dims[i] = t->dims[i];
	if (t->dtype == DT_STR)
		v->data = array_strings(r->a, r->f->strings, t->data, array_count(v));
	else if (t->bytes)
		v->data = arena_copy(r->a, t->data, (size_t)t->bytes);
	return true;
}

static bool take_sequence(const Reading *r, const Onnx__SequenceProto *p, Array *v);

/* The keys are a vector, and so are the values, of which the file has a scalar each. */
static bool take_map(const Reading *r, const Onnx__MapProto *p, Array *v)
{
	const bool strings = p->n_string_keys > 0;
	const size_t n = strings ? p->n_string_keys : p->n_keys;
	Array *item = NEW_ARRAY(r->a, 2, Array), values = {.name = ""};
	int64_t *dim = NEW_ARRAY(r->a, 1, int64_t), bytes;

	if (p->values && !take_sequence(r, p->values, &values))
		return false;
	*v = (Array){.name = own_name(r, p->name), .form = DL_MAP, .items = item, .n_items = 2};
	*dim = (int64_t)n;
	item[0] = array_make("", strings ? DT_STR : DT_I64, 1, dim, NULL);
	if (!strings) {
		item[0].data = arena_copy(r->a, p->keys, n * sizeof *p->keys);
	} else {
		dl_str *key = NEW_ARRAY(r->a, n, dl_str);

		for (size_t i = 0; i < n; i++)
			key[i] = (dl_str){arena_strndup(r->a, (const char *)p->string_keys[i].data,
							p->string_keys[i].len),
					  p->string_keys[i].len};
		item[0].data = key;
	}
	if (values.n_items != *dim)
		return diag_error(r->f->diag, (DiagLoc){.file = r->path},
				  "a map has %lld keys and %lld values", (long long)n,
				  (long long)values.n_items);
	item[1] = array_make("", n ? values.items[0].dtype : DT_F32, 1, dim, NULL);
	bytes = n ? array_bytes(&values.items[0]) : 0;
	item[1].data = arena_alloc(r->a, n * (size_t)bytes + 1);
	for (size_t i = 0; i < n; i++) {
		const Array *one = &values.items[i];

		if (one->form != DL_TENSOR || array_count(one) != 1 ||
		    one->dtype != item[1].dtype || bytes < 1)
			return diag_error(r->f->diag, (DiagLoc){.file = r->path},
					  "the values of a map must be scalars of one type");
		memcpy((char *)item[1].data + i * (size_t)bytes, one->data, (size_t)bytes);
	}
	return true;
}

static bool take_optional(const Reading *r, const Onnx__OptionalProto *p, Array *v)
{
	*v = (Array){.name = own_name(r, p->name),
		     .form = DL_OPTIONAL,
		     .items = NEW_ARRAY(r->a, 1, Array),
		     .n_items = p->tensor_value || p->sequence_value || p->map_value ||
				p->optional_value};
	return p->tensor_value     ? take_tensor(r, p->tensor_value, v->items)
	       : p->sequence_value ? take_sequence(r, p->sequence_value, v->items)
	       : p->map_value      ? take_map(r, p->map_value, v->items)
	       : p->optional_value ? take_optional(r, p->optional_value, v->items)
				   : true;
}

static bool take_sequence(const Reading *r, const Onnx__SequenceProto *p, Array *v)
{
	Array *to;
	bool ok = true;

	*v = (Array){.name = own_name(r, p->name),
		     .form = DL_SEQUENCE,
		     .n_items = (int64_t)(p->n_tensor_values + p->n_sequence_values +
					  p->n_map_values + p->n_optional_values)};
	v->items = to = NEW_ARRAY(r->a, v->n_items, Array);
	for (size_t i = 0; i < p->n_tensor_values && ok; i++)
		ok = take_tensor(r, p->tensor_values[i], to++);
	for (size_t i = 0; i < p->n_sequence_values && ok; i++)
		ok = take_sequence(r, p->sequence_values[i], to++);
	for (size_t i = 0; i < p->n_map_values && ok; i++)
		ok = take_map(r, p->map_values[i], to++);
	for (size_t i = 0; i < p->n_optional_values && ok; i++)
		ok = take_optional(r, p->optional_values[i], to++);
	return ok;
}

static bool read_pb(Arena *a, Diag *d, const char *path, dl_form form, Array *v)
{
	static const ProtobufCMessageDescriptor *const root[] = {
		[DL_TENSOR] = &onnx__tensor_proto__descriptor,
		[DL_SEQUENCE] = &onnx__sequence_proto__descriptor,
		[DL_OPTIONAL] = &onnx__optional_proto__descriptor,
		[DL_MAP] = &onnx__map_proto__descriptor,
	};
	const Reading r = {a, onnx_open_as(d, path, root[form]), path};
	const void *message = r.f ? r.f->message : NULL;
	bool ok = false;

	if (!r.f)
		return false;
	switch (form) {
	case DL_TENSOR: ok = take_tensor(&r, message, v); break;
	case DL_SEQUENCE: ok = take_sequence(&r, message, v); break;
	case DL_OPTIONAL: ok = take_optional(&r, message, v); break;
	case DL_MAP: ok = take_map(&r, message, v); break;
	case DL_PIECES: break; /* no description of an input has this form */
	}
	onnx_close(r.f);
	return ok;
}

/* The lines of the file, without their ends. */
static bool read_lines(Arena *a, Diag *d, const char *path, Array *v)
{
	VEC(dl_str) lines = {0};
	char *line = NULL;
	size_t room = 0;
	ssize_t n;
	FILE *f = fopen(path, "rb");

	if (!f)
		return diag_error(d, (DiagLoc){.file = path}, "%s", strerror(errno));
	while ((n = getline(&line, &room, f)) >= 0) {
		if (!lines.n && is_lfs_pointer(line, (size_t)n))
			break;
		n -= n && line[n - 1] == '\n';
		vec_push(a, &lines, ((dl_str){arena_strndup(a, line, (size_t)n), (uint64_t)n}));
	}
	free(line);
	fclose(f);
	if (n >= 0)
		return diag_error(d, (DiagLoc){.file = path}, LFS_POINTER);
	*v = array_make("", DT_STR, 1, NEW_ARRAY(a, 1, int64_t), lines.at);
	v->dims[0] = lines.n;
	return true;
}

bool array_read(Arena *a, Diag *d, const char *path, dl_form form, Array *v)
{
	if (str_ends(path, ".npy"))
		return npy_read(a, d, path, v);
	if (str_ends(path, ".pb"))
		return read_pb(a, d, path, form, v);
	if (str_ends(path, ".txt"))
		return read_lines(a, d, path, v);
	if (access(path, F_OK))
		return diag_error(d, (DiagLoc){.file = path}, "%s", strerror(errno));
	return diag_error(d, (DiagLoc){.file = path}, "neither .npy, .pb nor .txt");
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
	const int64_t n = array_count(v);
	const bool ones = v->dtype == DT_BOOL || strcasestr(v->name, "mask");

	v->data = arena_alloc(a, (size_t)array_bytes(v));
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
