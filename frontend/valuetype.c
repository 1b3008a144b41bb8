/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/valuetype.h"

#include "frontend/tensor.h"

#include <ctype.h>
#include <strings.h>

/* Limits that no real name reaches, so that a hostile one costs little. */
enum { EXPR_TEXT = 100, EXPR_DEPTH = 16, NAMES_MAX = 1024 };

/* ---- dim_param as an expression: sum := product {(+|-) product}, product := atom {* atom} ---- */

typedef struct DimText {
	Ctx *ctx;
	const DimNames *names;
	const char *p;
	int depth;
} DimText;

static bool ident_char(char ch)
{
	return isalnum((unsigned char)ch) || ch == '_' || ch == '.';
}

static void skip_space(DimText *t)
{
	while (*t->p == ' ')
		t->p++;
}

static bool take_char(DimText *t, char ch)
{
	skip_space(t);
	if (*t->p != ch)
		return false;
	t->p++;
	return true;
}

static bool known(const DimNames *names, const char *name)
{
	for (int i = 0; i < names->v.n; i++)
		if (names->v.at[i] == name)
			return true;
	return false;
}

static Dim *parse_sum(DimText *t);

static Dim *parse_atom(DimText *t)
{
	const char *start, *name;
	Dim *d;

	skip_space(t);
	start = t->p;
	if (take_char(t, '(')) {
		if (t->depth++ > EXPR_DEPTH)
			return NULL;
		d = parse_sum(t);
		t->depth--;
		return d && take_char(t, ')') ? d : NULL;
	}
	if (isdigit((unsigned char)*t->p)) {
		int64_t v = 0;

		for (; isdigit((unsigned char)*t->p); t->p++)
			if (__builtin_mul_overflow(v, (int64_t)10, &v) ||
			    __builtin_add_overflow(v, (int64_t)(*t->p - '0'), &v))
				return NULL;
		return ident_char(*t->p) ? NULL : dim_const(t->ctx, v);
	}
	while (ident_char(*t->p))
		t->p++;
	if (t->p == start)
		return NULL;
	name = intern_n(t->ctx->names, start, (size_t)(t->p - start));
	return known(t->names, name) ? sym_get(t->ctx, name)->dim : NULL;
}

static Dim *parse_product(DimText *t)
{
	Dim *d = parse_atom(t);

	while (d && take_char(t, '*')) {
		Dim *e = parse_atom(t);

		d = e ? dim_mul(t->ctx, d, e) : NULL;
	}
	return d;
}

static Dim *parse_sum(DimText *t)
{
	Dim *d = parse_product(t);

	while (d) {
		bool plus = take_char(t, '+'), minus = !plus && take_char(t, '-');
		Dim *e = plus || minus ? parse_product(t) : NULL;

		if (!plus && !minus)
			break;
		if (!e)
			return NULL;
		d = plus ? dim_add(t->ctx, d, e) : dim_sub(t->ctx, d, e);
	}
	return d;
}

static bool plain_name(const char *s)
{
	if (!*s || isdigit((unsigned char)*s))
		return false;
	for (; *s; s++)
		if (!ident_char(*s))
			return false;
	return true;
}

static Dim *named_dim(Ctx *c, const DimNames *names, const char *text)
{
	DimText t = {.ctx = c, .names = names, .p = text};
	Dim *d;

	if (!plain_name(text) && strlen(text) <= EXPR_TEXT) {
		d = parse_sum(&t);
		skip_space(&t);
		if (d && !*t.p)
			return d;
	}
	return sym_get(c, ctx_name(c, text))->dim;
}

/* Whether S stands for an unknown size, and not for the size of that name: it has no letter or
 * digit, or is a negative number, or Python's None. */
static bool is_placeholder(const char *s)
{
	const char *digits = s + (*s == '-');

	if (!strcasecmp(s, "None") || (*s == '-' && *digits && !digits[strspn(digits, "0123456789")]))
		return true;
	for (; *s; s++)
		if (ident_char(*s) || (unsigned char)*s >= 0x80)
			return false;
	return true;
}

/* The name of dim D of a shape, or null. */
static const char *param_of(const Onnx__TensorShapeProto__Dimension *d)
{
	return d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
			       !is_placeholder(d->dim_param)
		       ? d->dim_param
		       : NULL;
}

/* Sets *OUT to P, a tensor or a sparse one. */
static bool tensor_of(const Onnx__TypeProto *p, Onnx__TypeProto__Tensor *out)
{
	*out = (Onnx__TypeProto__Tensor)ONNX__TYPE_PROTO__TENSOR__INIT;
	switch (p ? p->value_case : ONNX__TYPE_PROTO__VALUE__NOT_SET) {
	case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE:
		out->elem_type = p->tensor_type->elem_type;
		out->shape = p->tensor_type->shape;
		return true;
	case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
		out->elem_type = p->sparse_tensor_type->elem_type;
		out->shape = p->sparse_tensor_type->shape;
		return true;
	default: return false;
	}
}

/* The shape of P, or null. */
static const Onnx__TensorShapeProto *shape_of(const Onnx__TypeProto *p)
{
	Onnx__TypeProto__Tensor t;

	return tensor_of(p, &t) ? t.shape : NULL;
}

void dim_names_note(Ctx *c, Arena *a, DimNames *names, const Onnx__TypeProto *p)
{
	const Onnx__TensorShapeProto *s = shape_of(p);

	for (size_t i = 0; s && i < s->n_dim; i++) {
		const char *name = param_of(s->dim[i]);

		if (!name || !plain_name(name))
			continue;
		name = ctx_name(c, name);
		if (names->v.n < NAMES_MAX && !known(names, name))
			vec_push(a, &names->v, name);
	}
}

void dim_names_take(Ctx *c, const DimNames *names, const Onnx__TypeProto *p)
{
	const Onnx__TensorShapeProto *s = shape_of(p);

	for (size_t i = 0; s && i < s->n_dim; i++)
		if (param_of(s->dim[i]))
			named_dim(c, names, param_of(s->dim[i]));
}

/* The dim of axis I of value NAME that D describes; a null D tells nothing. */
static Dim *declared_dim(Ctx *c, OnnxFile *f, const DimNames *names,
			 const Onnx__TensorShapeProto__Dimension *d, const char *name, int i)
{
	if (d && d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
	    d->dim_value >= 0)
		return dim_const(c, d->dim_value);
	if (d && param_of(d))
		return named_dim(c, names, param_of(d));
	return sym_fresh(c, ctx_name(c, arena_printf(f->arena, "%s_dim%d", name, i)))->dim;
}

static const Type *tensor_type(Ctx *c, OnnxFile *f, const DimNames *names,
			       const Onnx__TypeProto__Tensor *p, int rank, const char *name,
			       DiagLoc loc)
{
	DType t = onnx_dtype(f, p->elem_type, loc);
	Dim *dims[MAX_RANK];

	if (t == DT_NONE)
		return NULL;
	if (p->shape && p->shape->n_dim > MAX_RANK) {
		diag_error(f->diag, loc, "its rank is %zu; at most %d is supported",
			   p->shape->n_dim, MAX_RANK);
		return NULL;
	}
	if (p->shape)
		rank = (int)p->shape->n_dim;
	if (rank < 0) {
		diag_error(f->diag, loc,
			   "its rank is not known, and does not follow from its use; export the "
			   "model with a shape for it, whose dims may be names");
		return NULL;
	}
	for (int i = 0; i < rank; i++) {
		const Onnx__TensorShapeProto__Dimension *d = p->shape ? p->shape->dim[i] : NULL;

		if (d && d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
		    d->dim_value > DIM_FAR) {
			diag_error(f->diag, loc, "its dim %d is %lld; at most %lld is supported", i,
				   (long long)d->dim_value, (long long)DIM_FAR);
			return NULL;
		}
		dims[i] = declared_dim(c, f, names, d, name, i);
	}
	return type_tensor(c, t, rank, dims);
}

static const Type *unsupported(OnnxFile *f, DiagLoc loc, const char *what)
{
	diag_error(f->diag, loc, "%s", what);
	return NULL;
}

static const Type *item_tensor(Ctx *c, OnnxFile *f, const Onnx__TypeProto__Tensor *p, DiagLoc loc)
{
	const DType t = onnx_dtype(f, p->elem_type, loc);

	if (p->shape && p->shape->n_dim > MAX_RANK) {
		diag_error(f->diag, loc, "its rank is %zu; at most %d is supported",
			   p->shape->n_dim, MAX_RANK);
		return NULL;
	}
	return t == DT_NONE ? NULL : type_items(c, t, p->shape ? (int)p->shape->n_dim : -1);
}

static const Type *map_type(Ctx *c, OnnxFile *f, const Onnx__TypeProto__Map *p, DiagLoc loc)
{
	const DType key = onnx_dtype(f, p->key_type, loc);
	const Type *elem = key == DT_NONE ? NULL : onnx_item_type(c, f, p->value_type, loc);

	if (elem && (elem->kind != TYPE_TENSOR || elem->rank > 0))
		return unsupported(
			f, loc,
			"its type is a map whose values are not scalars, which is not supported");
	return elem ? type_map(c, key, type_items(c, elem->dtype, 0)) : NULL;
}

const Type *onnx_item_type(Ctx *c, OnnxFile *f, const Onnx__TypeProto *p, DiagLoc loc)
{
	const Type *elem;

	switch (p ? p->value_case : ONNX__TYPE_PROTO__VALUE__NOT_SET) {
	case ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE: return item_tensor(c, f, p->tensor_type, loc);
	case ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE:
		elem = onnx_item_type(c, f, p->sequence_type->elem_type, loc);
		return elem ? type_sequence(c, elem) : NULL;
	case ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE:
		elem = onnx_item_type(c, f, p->optional_type->elem_type, loc);
		return elem ? type_optional(c, elem) : NULL;
	case ONNX__TYPE_PROTO__VALUE_MAP_TYPE: return map_type(c, f, p->map_type, loc);
	case ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE:
		return unsupported(f, loc, "its type has sparse tensors, which is not supported");
	case ONNX__TYPE_PROTO__VALUE_OPAQUE_TYPE:
		return unsupported(f, loc, "its type is opaque, which is not supported");
	default:
		return unsupported(f, loc,
				   "it has no type; export the model with types for its inputs");
	}
}

const Type *onnx_type(Ctx *c, OnnxFile *f, const DimNames *names, const Onnx__TypeProto *p, int rank,
		      const char *name, DiagLoc loc)
{
	Onnx__TypeProto__Tensor t;

	if (!tensor_of(p, &t))
		return onnx_item_type(c, f, p, loc);
	if (p->value_case == ONNX__TYPE_PROTO__VALUE_SPARSE_TENSOR_TYPE)
		diag_warning(f->diag, loc, "sparse",
			     "it is a sparse tensor, and is passed as a dense one of its shape");
	return tensor_type(c, f, names, &t, rank, name, loc);
}
