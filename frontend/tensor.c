/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/tensor.h"

#include "runtime/strtable.h"

#include <stdlib.h>
#include <unistd.h>

enum { TENSOR_FLOAT_DATA = 4, TENSOR_DOUBLE_DATA = 10 };

/* The most bytes that all sparse tensors of a file may take as dense ones. */
static const uint64_t densified_max = UINT64_C(256) << 20;

DType onnx_dtype(OnnxFile *f, int code, DiagLoc loc)
{
	DType t = dtype_by_onnx(code);
	const ProtobufCEnumValue *e;

	if (t != DT_NONE)
		return t;
	e = protobuf_c_enum_descriptor_get_value(&onnx__tensor_proto__data_type__descriptor, code);
	if (code == ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX64 ||
	    code == ONNX__TENSOR_PROTO__DATA_TYPE__COMPLEX128)
		diag_error(f->diag, loc,
			   "element type %s: complex numbers are not supported; "
			   "export the real and the imaginary part as two tensors",
			   e->name);
	else if (code == ONNX__TENSOR_PROTO__DATA_TYPE__UNDEFINED)
		diag_error(f->diag, loc, "the tensor has no element type");
	else if (e)
		diag_error(f->diag, loc, "element type %s is not supported", e->name);
	else
		diag_error(f->diag, loc,
			   "element type %d is not one that ONNX knows; "
			   "is the model newer than this compiler?",
			   code);
	return DT_NONE;
}

static bool set_shape(OnnxFile *f, Tensor *t, const int64_t *dims, size_t rank, DiagLoc loc)
{
	int64_t n = 1;
	bool zero = false;

	if (rank > MAX_RANK)
		return diag_error(f->diag, loc, "the tensor has rank %zu; at most %d is supported",
				  rank, MAX_RANK);
	t->rank = (int)rank;
	t->dims = NEW_ARRAY(f->arena, rank, int64_t);
	for (size_t i = 0; i < rank; i++) {
		if (dims[i] < 0)
			return diag_error(f->diag, loc,
					  "dim %zu of the tensor is %lld, expected 0 or more", i,
					  (long long)dims[i]);
		t->dims[i] = dims[i];
		zero |= !dims[i];
	}
	for (size_t i = 0; i < rank; i++)
		if (__builtin_mul_overflow(n, dims[i] ? dims[i] : 1, &n))
			return diag_error(f->diag, loc,
					  "the tensor has more elements than 64 bits can count");
	t->bytes = dtype_size(t->dtype, zero ? 0 : n);
	if (t->bytes < 0)
		return diag_error(f->diag, loc, "the tensor has more bytes than 64 bits can count");
	return true;
}

static bool count_is(OnnxFile *f, uint64_t have, uint64_t want, const char *what, DiagLoc loc)
{
	if (have == want)
		return true;
	return diag_error(f->diag, loc,
			  "the tensor's shape asks for %llu %s, and the file holds %llu; "
			  "the file is damaged",
			  (unsigned long long)want, what, (unsigned long long)have);
}

/* Makes all true values 1, which every reader expects; a file may contain any nonzero byte. */
static void normalise_bools(OnnxFile *f, Tensor *t)
{
	const uint8_t *p = t->data;
	uint8_t *q = NULL;

	for (int64_t i = 0; i < t->bytes && !q; i++)
		if (p[i] > 1)
			q = arena_copy(f->arena, p, (size_t)t->bytes);
	if (!q)
		return;
	for (int64_t i = 0; i < t->bytes; i++)
		q[i] = q[i] != 0;
	t->data = q;
	t->file = NULL;
}

static bool set_raw(OnnxFile *f, Tensor *t, const void *data, uint64_t size, DiagLoc loc)
{
	if (t->dtype == DT_STR)
		return diag_error(f->diag, loc, "strings cannot be raw data");
	if (!count_is(f, size, (uint64_t)t->bytes, "bytes", loc))
		return false;
	t->data = size ? data : arena_alloc(f->arena, 0);
	if (t->dtype == DT_BOOL)
		normalise_bools(f, t);
	return true;
}

static bool set_range(OnnxFile *f, Tensor *t, uint64_t ref, const uint8_t *bytes, DiagLoc loc)
{
	const WireRange *r;

	if (ref >= (uint64_t)f->ranges.v.n)
		return diag_error(f->diag, loc, "the tensor has no data");
	r = &f->ranges.v.at[ref];
	if ((r->field == TENSOR_FLOAT_DATA && t->dtype != DT_F32) ||
	    (r->field == TENSOR_DOUBLE_DATA && t->dtype != DT_F64))
		return diag_error(f->diag, loc,
				  "the tensor's data is in the field of another element type");
	t->file = f->map.path; /* null for a model in memory, whose pages nobody reads again */
	t->offset = (int64_t)r->at;
	return set_raw(f, t, bytes + r->at, r->size, loc);
}

/* Reads an unsigned number. */
static bool parse_u64(const char *s, uint64_t *v)
{
	*v = 0;
	if (!*s)
		return false;
	for (; *s; s++)
		if (*s < '0' || *s > '9' || __builtin_mul_overflow(*v, UINT64_C(10), v) ||
		    __builtin_add_overflow(*v, (uint64_t)(*s - '0'), v))
			return false;
	return true;
}

/* LOCATION as a path that can be opened from here: beside the model, or beside the file that the
 * model's path links to. */
static const char *path_beside(OnnxFile *f, const char *location)
{
	char *real = realpath(f->path, NULL);
	const char *of[2] = {f->path, real};
	const char *path = location;

	for (int i = 0; i < 2 && of[i]; i++) {
		const char *slash = strrchr(of[i], '/');

		path = slash ? arena_printf(f->arena, "%.*s/%s", (int)(slash - of[i]), of[i],
					    location)
			     : location;
		if (!access(path, R_OK))
			break;
	}
	free(real);
	return path;
}

static bool set_external(OnnxFile *f, Tensor *t, const Onnx__TensorProto *p, DiagLoc loc)
{
	const char *location = NULL;
	uint64_t at = 0, size = (uint64_t)t->bytes;
	const MappedFile *m;

	for (size_t i = 0; i < p->n_external_data; i++) {
		const char *key = p->external_data[i]->key, *v = p->external_data[i]->value;

		if (!key || !v)
			continue;
		if (!strcmp(key, "location"))
			location = v;
		else if (!strcmp(key, "offset") && !parse_u64(v, &at))
			return diag_error(f->diag, loc,
					  "external data: the offset \"%s\" is not a number", v);
		else if (!strcmp(key, "length") && !parse_u64(v, &size))
			return diag_error(f->diag, loc,
					  "external data: the length \"%s\" is not a number", v);
	}
	if (!location)
		return diag_error(f->diag, loc, "external data: the location is missing");
	if (t->dtype == DT_STR)
		return diag_error(f->diag, loc, "strings cannot be external data");
	if (!count_is(f, size, (uint64_t)t->bytes, "bytes", loc))
		return false;
	m = onnx_external(f, location, loc);
	if (!m)
		return false;
	if (at > m->size || size > m->size - at)
		return diag_error(f->diag, loc,
				  "external data: %llu bytes at %llu are past the end of "
				  "\"%s\", which has %zu; is the file complete?",
				  (unsigned long long)size, (unsigned long long)at, location,
				  m->size);
	t->file = path_beside(f, location);
	t->offset = (int64_t)at;
	return set_raw(f, t, m->bytes ? m->bytes + at : NULL, size, loc);
}

static bool set_strings(OnnxFile *f, Tensor *t, const Onnx__TensorProto *p, uint64_t n, DiagLoc loc)
{
	int64_t *s;

	if (!count_is(f, p->n_string_data, n, "strings", loc))
		return false;
	s = NEW_ARRAY(f->arena, n, int64_t);
	for (size_t i = 0; i < n; i++) {
		const ProtobufCBinaryData *b = &p->string_data[i];

		s[i] = strings_intern(f->strings, (const char *)b->data, b->len);
	}
	t->data = s;
	return !strings_status(f->strings) ||
	       diag_error(f->diag, loc, "out of memory for %zu strings", (size_t)n);
}

/* int32_data: one element for each entry; for the packed types of 4 and 2 bits one byte for each
 * entry. */
static bool set_int32(OnnxFile *f, Tensor *t, const Onnx__TensorProto *p, uint64_t n, DiagLoc loc)
{
	int bits = dtype_info[t->dtype].bits;
	uint64_t want = bits == 4 || bits == 2 ? (uint64_t)t->bytes : n;
	uint8_t *q;

	if (!count_is(f, p->n_int32_data, want, "entries", loc))
		return false;
	if (bits == 32) {
		t->data = n ? (const void *)p->int32_data : arena_alloc(f->arena, 0);
		return true;
	}
	q = arena_alloc(f->arena, (size_t)t->bytes);
	for (size_t i = 0; i < want; i++) {
		uint32_t v = (uint32_t)p->int32_data[i];

		if (t->dtype == DT_BOOL)
			v = v != 0;
		if (bits == 16) {
			memcpy(q + 2 * i, &(uint16_t){(uint16_t)v}, 2);
		} else if (bits == 6) {
			size_t at = i * 6;

			q[at / 8] = (uint8_t)(q[at / 8] | (v & 63) << at % 8);
			if (at % 8 > 2)
				q[at / 8 + 1] = (uint8_t)((v & 63) >> (8 - at % 8));
		} else {
			q[i] = (uint8_t)v;
		}
	}
	t->data = q;
	return true;
}

static bool set_u32(OnnxFile *f, Tensor *t, const Onnx__TensorProto *p, uint64_t n)
{
	uint32_t *q = NEW_ARRAY(f->arena, n, uint32_t);

	for (size_t i = 0; i < n; i++)
		q[i] = (uint32_t)p->uint64_data[i];
	t->data = q;
	return true;
}

static bool set_typed(OnnxFile *f, Tensor *t, const Onnx__TensorProto *p, DiagLoc loc)
{
	uint64_t n = (uint64_t)tensor_numel(t);
	const void *data;
	size_t have;

	switch (t->dtype) {
	case DT_STR: return set_strings(f, t, p, n, loc);
	case DT_F32:
		data = p->float_data;
		have = p->n_float_data;
		break;
	case DT_F64:
		data = p->double_data;
		have = p->n_double_data;
		break;
	case DT_I64:
		data = p->int64_data;
		have = p->n_int64_data;
		break;
	case DT_U32: return count_is(f, p->n_uint64_data, n, "values", loc) && set_u32(f, t, p, n);
	case DT_U64:
		data = p->uint64_data;
		have = p->n_uint64_data;
		break;
	default: return set_int32(f, t, p, n, loc);
	}
	if (!count_is(f, have, n, "values", loc))
		return false;
	t->data = n ? data : arena_alloc(f->arena, 0);
	return true;
}

static DiagLoc tensor_loc(OnnxFile *f, const char *name, DiagLoc loc)
{
	if (!loc.file)
		loc.file = f->path;
	if (!loc.node && name && *name)
		loc.node = name;
	return loc;
}

Tensor *onnx_tensor(OnnxFile *f, const Onnx__TensorProto *p, DiagLoc loc)
{
	Tensor *t = NEW(f->arena, Tensor);
	bool ok;

	loc = tensor_loc(f, p->name, loc);
	t->dtype = onnx_dtype(f, p->data_type, loc);
	if (t->dtype == DT_NONE || !set_shape(f, t, p->dims, p->n_dims, loc))
		return NULL;
	if (p->segment) {
		diag_error(f->diag, loc,
			   "the tensor is stored in segments, which is not supported");
		return NULL;
	}
	if (p->has_data_location && p->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
		ok = set_external(f, t, p, loc);
	else if (p->has_raw_ref)
		ok = set_range(f, t, p->raw_ref, f->bytes, loc);
	else if (p->has_raw_data)
		ok = set_raw(f, t, p->raw_data.data, p->raw_data.len, loc);
	else
		ok = set_typed(f, t, p, loc);
	return ok ? t : NULL;
}

static unsigned get_bits(const uint8_t *p, int64_t i, int bits)
{
	unsigned v = 0;

	for (int b = 0; b < bits; b++) {
		int64_t at = i * bits + b;

		v |= (unsigned)(p[at / 8] >> at % 8 & 1) << b;
	}
	return v;
}

/* Sets BITS bits, which must be zero before. */
static void set_bits(uint8_t *p, int64_t i, int bits, unsigned v)
{
	for (int b = 0; b < bits; b++) {
		int64_t at = i * bits + b;

		p[at / 8] = (uint8_t)(p[at / 8] | (v >> b & 1) << at % 8);
	}
}

/* The index of the element that row ROW of the indices denotes; -1 if it is outside of T. */
static int64_t sparse_index(const Tensor *t, const Tensor *indices, int64_t row)
{
	int64_t at = 0, v;

	if (indices->rank == 1) {
		memcpy(&v, (const char *)indices->data + row * 8, 8);
		return v >= 0 && v < tensor_numel(t) ? v : -1;
	}
	for (int k = 0; k < t->rank; k++) {
		memcpy(&v, (const char *)indices->data + (row * t->rank + k) * 8, 8);
		if (v < 0 || v >= t->dims[k])
			return -1;
		at = at * t->dims[k] + v;
	}
	return at;
}

static bool densify(OnnxFile *f, Tensor *t, const Tensor *values, const Tensor *indices,
		    DiagLoc loc)
{
	int64_t nnz = values->dims[0];
	int bits = dtype_info[t->dtype].bits;
	uint8_t *q;

	if ((uint64_t)t->bytes > densified_max - f->densified)
		return diag_error(f->diag, loc,
				  "the sparse tensor would take %lld bytes; sparse tensors are "
				  "stored densely, up to %llu MiB in a model",
				  (long long)t->bytes, (unsigned long long)densified_max >> 20);
	f->densified += (uint64_t)t->bytes;
	q = arena_alloc(f->arena, (size_t)t->bytes);
	for (int64_t i = 0; i < nnz; i++) {
		int64_t at = sparse_index(t, indices, i);
		size_t size = (size_t)dtype_bytes(t->dtype);

		if (at < 0)
			return diag_error(f->diag, loc,
					  "index %lld of the sparse tensor is outside its shape",
					  (long long)i);
		if (bits < 8)
			set_bits(q, at, bits, get_bits(values->data, i, bits));
		else
			memcpy(q + (size_t)at * size, (const char *)values->data + (size_t)i * size,
			       size);
	}
	t->data = q;
	return true;
}

Tensor *onnx_sparse_tensor(OnnxFile *f, const Onnx__SparseTensorProto *p, DiagLoc loc)
{
	Tensor *t = NEW(f->arena, Tensor), *values, *indices;

	loc = tensor_loc(f, p->values ? p->values->name : NULL, loc);
	if (!p->values || !p->indices) {
		diag_error(f->diag, loc, "the sparse tensor has no values or no indices");
		return NULL;
	}
	values = onnx_tensor(f, p->values, loc);
	indices = onnx_tensor(f, p->indices, loc);
	if (!values || !indices)
		return NULL;
	t->dtype = values->dtype;
	if (!set_shape(f, t, p->dims, p->n_dims, loc))
		return NULL;
	if (values->rank != 1 || indices->dtype != DT_I64 || indices->rank < 1 ||
	    indices->rank > 2 || indices->dims[0] != values->dims[0] ||
	    (indices->rank == 2 && indices->dims[1] != t->rank)) {
		diag_error(f->diag, loc,
			   "the sparse tensor's values and indices do not fit its shape");
		return NULL;
	}
	return densify(f, t, values, indices, loc) ? t : NULL;
}
