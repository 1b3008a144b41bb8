/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/attrs.h"

#include "frontend/tensor.h"
#include "frontend/valuetype.h"
#include "runtime/strtable.h"

#include <string.h>

#define T(x) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##x

const Onnx__AttributeProto *attr_resolve(const AttrArgs *args, const Onnx__AttributeProto *p)
{
	if (!p->ref_attr_name || !*p->ref_attr_name)
		return p;
	for (int i = 0; args && i < args->n; i++)
		if (!strcmp(args->name[i], p->ref_attr_name))
			return args->attr[i];
	return NULL;
}

Onnx__AttributeProto__AttributeType attr_type(const Onnx__AttributeProto *p)
{
	if (p->has_type && p->type != T(UNDEFINED))
		return p->type;
	if (p->has_f)
		return T(FLOAT);
	if (p->has_i)
		return T(INT);
	if (p->has_s)
		return T(STRING);
	if (p->t)
		return T(TENSOR);
	if (p->g)
		return T(GRAPH);
	if (p->tp)
		return T(TYPE_PROTO);
	if (p->n_floats)
		return T(FLOATS);
	if (p->n_ints)
		return T(INTS);
	if (p->n_strings)
		return T(STRINGS);
	return T(UNDEFINED);
}

static bool convert_string(Ctx *c, OnnxFile *f, const char *name, ProtobufCBinaryData s,
			   DiagLoc loc, const char **out)
{
	if (s.len && memchr(s.data, 0, s.len))
		return diag_error(f->diag, loc,
				  "attribute \"%s\" is a string that holds a zero byte", name);
	*out = intern_n(c->names, s.len ? (const char *)s.data : "", s.len);
	return true;
}

static bool convert_strings(Ctx *c, Arena *a, OnnxFile *f, const char *name,
			    const Onnx__AttributeProto *p, DiagLoc loc, const char ***out)
{
	*out = NEW_ARRAY(a, p->n_strings, const char *);
	for (size_t i = 0; i < p->n_strings; i++)
		if (!convert_string(c, f, name, p->strings[i], loc, &(*out)[i]))
			return false;
	return true;
}

static bool convert_tensor(OnnxFile *f, const char *name, const Onnx__AttributeProto *p,
			   DiagLoc loc, Tensor **out)
{
	if (!p->t)
		return diag_error(f->diag, loc, "attribute \"%s\" holds no tensor", name);
	*out = onnx_tensor(f, p->t, loc);
	return *out != NULL;
}

static const char *type_name(Onnx__AttributeProto__AttributeType t)
{
	const ProtobufCEnumValue *v = protobuf_c_enum_descriptor_get_value(
		&onnx__attribute_proto__attribute_type__descriptor, (int)t);

	return v ? v->name : "unknown";
}

bool attr_convert(Ctx *c, Arena *a, OnnxFile *f, const char *name, const Onnx__AttributeProto *p,
		  DiagLoc loc, Attr *out)
{
	size_t n = p->n_ints > p->n_floats ? p->n_ints : p->n_floats;

	if (n > INT32_MAX || p->n_strings > INT32_MAX)
		return diag_error(f->diag, loc,
				  "attribute \"%s\" has %zu elements; at most %d are supported",
				  name, n > p->n_strings ? n : p->n_strings, INT32_MAX);
	*out = (Attr){.name = ctx_name(c, name)};
	switch (attr_type(p)) {
	case T(INT):
		out->kind = ATTR_INT;
		out->i = p->i;
		return true;
	case T(FLOAT):
		out->kind = ATTR_FLOAT;
		out->f = p->f;
		return true;
	case T(STRING): out->kind = ATTR_STR; return convert_string(c, f, name, p->s, loc, &out->s);
	case T(INTS):
		out->kind = ATTR_INTS;
		out->n = (int)p->n_ints;
		out->is = arena_copy(a, p->ints, p->n_ints * sizeof *p->ints);
		return true;
	case T(FLOATS):
		out->kind = ATTR_FLOATS;
		out->n = (int)p->n_floats;
		out->fs = arena_copy(a, p->floats, p->n_floats * sizeof *p->floats);
		return true;
	case T(STRINGS):
		out->kind = ATTR_STRS;
		out->n = (int)p->n_strings;
		return convert_strings(c, a, f, name, p, loc, &out->ss);
	case T(TENSOR): out->kind = ATTR_TENSOR; return convert_tensor(f, name, p, loc, &out->t);
	case T(TYPE_PROTO):
		out->kind = ATTR_TYPE;
		out->type = onnx_item_type(c, f, p->tp, loc);
		return out->type != NULL;
	case T(UNDEFINED): return diag_error(f->diag, loc, "attribute \"%s\" has no value", name);
	default:
		return diag_error(
			f->diag, loc,
			"attribute \"%s\" is of type %s; expected a number, a string, a tensor, a type or a list of numbers or strings",
			name, type_name(attr_type(p)));
	}
}

static Tensor *list_tensor(Arena *a, DType t, size_t n, const void *data)
{
	int64_t dim = (int64_t)n;
	Tensor *r = tensor_new(a, t, 1, &dim);

	if (n)
		r->data = arena_copy(a, data, (size_t)dtype_size(t, dim));
	return r;
}

static Tensor *scalar_tensor(Arena *a, DType t, const void *data)
{
	Tensor *r = tensor_new(a, t, 0, NULL);

	r->data = arena_copy(a, data, (size_t)dtype_size(t, 1));
	return r;
}

static Tensor *string_tensor(Ctx *c, Arena *a, int rank, const char *const *s, int64_t n)
{
	Tensor *r = tensor_new(a, DT_STR, rank, &n);

	for (int64_t i = 0; i < n; i++)
		((int64_t *)(uintptr_t)r->data)[i] = strings_intern(c->strings, s[i], strlen(s[i]));
	return r;
}

Tensor *attr_constant(Ctx *c, Arena *a, OnnxFile *f, const char *name,
		      const Onnx__AttributeProto *p, DiagLoc loc)
{
	Attr v;

	if (!strcmp(name, "sparse_value") && p->sparse_tensor)
		return onnx_sparse_tensor(f, p->sparse_tensor, loc);
	if (!attr_convert(c, a, f, name, p, loc, &v))
		return NULL;
	switch (v.kind) {
	case ATTR_TENSOR: return v.t;
	case ATTR_INT: return scalar_tensor(a, DT_I64, &v.i);
	case ATTR_FLOAT: return scalar_tensor(a, DT_F32, &v.f);
	case ATTR_STR: return string_tensor(c, a, 0, &v.s, 1);
	case ATTR_INTS: return list_tensor(a, DT_I64, (size_t)v.n, v.is);
	case ATTR_FLOATS: return list_tensor(a, DT_F32, (size_t)v.n, v.fs);
	case ATTR_STRS: return string_tensor(c, a, 1, v.ss, v.n);
	default:
		diag_error(f->diag, loc,
			   "attribute \"%s\" is a type, expected the value of the constant", name);
		return NULL;
	}
}
