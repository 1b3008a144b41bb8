/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of ai.onnx.ml that map categories: OneHotEncoder, LabelEncoder and CategoryMapper. All
 * are composites. Numbers are searched among the keys as in a tree of decisions. The ids of strings
 * have no order that compilation knows (runtime/strtable.h), so a string is compared with all keys.
 */
#include "ops/infer/infer.h"
#include "ops/ml/ml.h"

#include <string.h>

/* ---- Searching ---- */

Value *ml_place(Infer *in, Node *n, Value *x, Value *keys)
{
	Ctx *c = infer_ctx(in);
	const Type *t = x->type;
	Dim *count = keys->type->dims[0], *dims[2] = {type_numel(c, t), dim_const(c, 1)};
	Value *size = expand_size(in, n, count), *v;
	const int64_t last = 1;

	v = EXPAND(in, n, Equal, expand_reshape(in, n, x, dims, 2), keys);
	v = EXPAND(in, n, Where, v, expand_range(in, n, count), size);
	v = expand_reduce(in, n, OP_ReduceMin, v, last, false);
	/* for an empty list the minimum does not exist */
	return expand_reshape(in, n, EXPAND(in, n, Min, v, size), t->dims, t->rank);
}

/* The keys, as doubles; null if these are not exact. */
static double *exact_keys(Infer *in, const Tensor *t, int count)
{
	const int64_t most = INT64_C(1) << 53;
	double *v = NEW_ARRAY(infer_arena(in), count + 1, double);

	for (int i = 0; i < count; i++) {
		if (dtype_is_float(t->dtype)) {
			v[i] = dtype_load_f64(t->dtype, t->data, i);
			continue;
		}
		v[i] = (double)dtype_load_i64(t->dtype, t->data, i);
		if (v[i] >= (double)most || v[i] <= -(double)most ||
		    (v[i] < 0 && t->dtype == DT_U64))
			return NULL;
	}
	return v;
}

/* For each element of operand 0 the entry of RESULTS that belongs to the first of the KEYS that
 * it equals, or else the last entry, which no key has. */
static bool encode(Infer *in, Node *n, const Tensor *keys, const Tensor *results, Value **out)
{
	const int64_t count = tensor_numel(keys);
	const Type *x = infer_type(n, 0);
	const bool number = dtype_is_float(x->dtype) || dtype_is_int(x->dtype);
	double *key;

	if (!number && x->dtype != DT_STR)
		return infer_error(in, n, "elements of type %s are not supported",
				   dtype_info[x->dtype].name);
	if (keys->dtype != x->dtype)
		return infer_error(in, n, "the keys are %s, the operand %s",
				   dtype_info[keys->dtype].name, dtype_info[x->dtype].name);
	if (count < 1 || count > INT32_MAX / 4)
		return infer_error(in, n, "has %lld keys", (long long)count);
	key = number ? exact_keys(in, keys, (int)count) : NULL;
	out[0] = key ? ml_lookup(in, n, node_in(n, 0), key, (int)count, results)
		     : EXPAND(in, n, Gather, expand_tensor(in, n, results),
			      ml_place(in, n, node_in(n, 0), expand_tensor(in, n, keys)));
	return true;
}

/* ---- OneHotEncoder ---- */

/* If a category that is not listed is a fault, it gets an index that is out of range. */
static bool expand_onehot_encoder(Infer *in, Node *n, Value **out)
{
	const int64_t last = -1;
	const Tensor *cats = ml_list(in, n, "categories", "cats_int64s", "cats_strings");
	const DType t = infer_type(n, 0)->dtype;
	Value *x, *hit, *known;

	if (!cats)
		return false;
	if ((t == DT_STR) != (cats->dtype == DT_STR) || t == DT_BOOL)
		return infer_error(in, n, "the categories are %s, the operand %s",
				   dtype_info[cats->dtype].name, dtype_info[t].name);
	x = expand_unsqueeze(in, n, expand_cast(in, n, node_in(n, 0), cats->dtype), last);
	hit = EXPAND(in, n, Equal, x, expand_tensor(in, n, cats));
	out[0] = expand_cast(in, n, hit, DT_F32);
	if (!node_int(n, "zeros", 1)) {
		static const float value = 1;
		const int64_t count = 1;
		Tensor *one = tensor_new(infer_arena(in), DT_F32, 1, &count);

		one->data = &value;
		known = expand_reduce(in, n, OP_ReduceMax, out[0], last, true);
		known = EXPAND(in, n, Sub, expand_scalar(in, n, DT_I64, 1),
			       expand_cast(in, n, known, DT_I64));
		known = EXPAND(in, n, Gather, expand_tensor(in, n, one), known);
		out[0] = EXPAND(in, n, Mul, out[0], known);
	}
	return true;
}

const Op op_ml_OneHotEncoder = {
	.expand = expand_onehot_encoder,
	.types = "fis",
	.doc = "where zeros is 0, a category that is not listed ends the run with an index out of range",
	.attrs = "cats_int64s: ints, cats_strings: strings, zeros: int",
};

/* ---- LabelEncoder and CategoryMapper ---- */

/* The only one of the attributes PREFIX_int64s, PREFIX_floats, PREFIX_strings and PREFIX_tensor,
 * as a tensor of one axis; null after a diagnostic. */
static const Tensor *list_of(Infer *in, Node *n, const char *prefix)
{
	Arena *a = infer_arena(in);
	const Attr *t = node_attr(n, arena_printf(a, "%s_tensor", prefix));
	const Tensor *strings = ml_strings(in, n, arena_printf(a, "%s_strings", prefix));
	int nints, nfloats;
	const int64_t *is = node_ints(n, arena_printf(a, "%s_int64s", prefix), &nints);
	const float *fs = node_floats(n, arena_printf(a, "%s_floats", prefix), &nfloats);
	const int64_t count = nints > 0 ? nints : nfloats > 0 ? nfloats : 0;
	const int kinds = (nints > 0) + (nfloats > 0) + (strings != NULL) + (t != NULL);
	Tensor *made;

	if (kinds != 1) {
		infer_error(in, n, kinds ? "has %s of several types" : "has no %s", prefix);
		return NULL;
	}
	if (t && (t->kind != ATTR_TENSOR || t->t->rank != 1 || !t->t->data)) {
		infer_error(in, n, "attribute \"%s_tensor\" is not a vector", prefix);
		return NULL;
	}
	if (t || strings)
		return t ? t->t : strings;
	made = tensor_new(a, nints > 0 ? DT_I64 : DT_F32, 1, &count);
	made->data = nints > 0 ? (const void *)is : (const void *)fs;
	return made;
}

/* The default value, as element AT of T at DATA. */
static bool put_default(Infer *in, Node *n, DType t, void *data, int64_t at)
{
	const Attr *a = node_attr(n, "default_tensor");

	if (a &&
	    (a->kind != ATTR_TENSOR || !a->t->data || tensor_numel(a->t) != 1 || a->t->dtype != t))
		return infer_error(in, n, "attribute \"default_tensor\" is not of type %s",
				   dtype_info[t].name);
	if (a)
		memcpy((char *)data + dtype_size(t, at), a->t->data, (size_t)dtype_size(t, 1));
	else if (t == DT_STR)
		dtype_store_i64(t, data, at,
				ml_string(in, node_str(n, "default_string", "_Unused")));
	else if (dtype_is_float(t))
		dtype_store_f64(t, data, at, (double)node_float(n, "default_float", -0.0F));
	else
		dtype_store_i64(t, data, at, node_int(n, "default_int64", -1));
	return true;
}

/* As encode, where the results are VALUES, and then the default. */
static bool encode_or_default(Infer *in, Node *n, const Tensor *keys, const Tensor *values,
			      Value **out)
{
	const int64_t count = tensor_numel(keys), rows = count + 1;
	const DType t = values->dtype;
	Tensor *results;
	void *data;

	if (tensor_numel(values) != count)
		return infer_error(in, n, "has %lld keys and %lld values", (long long)count,
				   (long long)tensor_numel(values));
	results = tensor_new(infer_arena(in), t, 1, &rows);
	data = (void *)(uintptr_t)results->data;
	memcpy(data, values->data, (size_t)dtype_size(t, count));
	return put_default(in, n, t, data, count) && encode(in, n, keys, results, out);
}

/* The keys are the STRINGS where operand 0 is of strings, else the NUMBERS; the values are the
 * other list. */
static bool encode_strings(Infer *in, Node *n, const Tensor *strings, const Tensor *numbers,
			   Value **out)
{
	const bool back = infer_type(n, 0)->dtype != DT_STR;

	return encode_or_default(in, n, back ? numbers : strings, back ? strings : numbers, out);
}

static bool expand_label_encoder(Infer *in, Node *n, Value **out)
{
	const Tensor *classes = ml_strings(in, n, "classes_strings"), *keys, *values;
	const int64_t count = classes ? tensor_numel(classes) : 0;
	Tensor *places;

	if (classes) { /* opset 1 */
		places = tensor_new(infer_arena(in), DT_I64, 1, &count);
		for (int64_t i = 0; i < count; i++)
			dtype_store_i64(DT_I64, (void *)(uintptr_t)places->data, i, i);
		return encode_strings(in, n, classes, places, out);
	}
	keys = list_of(in, n, "keys");
	values = keys ? list_of(in, n, "values") : NULL;
	return values && encode_or_default(in, n, keys, values, out);
}

const Op op_ml_LabelEncoder = {
	.expand = expand_label_encoder, .types = "fis",
	.attrs = "classes_strings: strings until 2, default_float: float since 2, "
		 "default_int64: int, default_string: string, default_tensor: tensor since 4, "
		 "keys_floats: floats since 2, keys_int64s: ints since 2, "
		 "keys_strings: strings since 2, keys_tensor: tensor since 4, "
		 "values_floats: floats since 2, values_int64s: ints since 2, "
		 "values_strings: strings since 2, values_tensor: tensor since 4",
};

static bool expand_category_mapper(Infer *in, Node *n, Value **out)
{
	const Tensor *strings = ml_strings(in, n, "cats_strings");
	int count;
	const int64_t *v = node_ints(n, "cats_int64s", &count), numel = count < 0 ? 0 : count;
	Tensor *numbers = tensor_new(infer_arena(in), DT_I64, 1, &numel);

	if (!strings || !numel)
		return infer_error(in, n, "has no categories");
	numbers->data = v;
	return encode_strings(in, n, strings, numbers, out);
}

const Op op_ml_CategoryMapper = {
	.expand = expand_category_mapper, .types = "is",
	.attrs = "cats_int64s: ints, cats_strings: strings, default_int64: int, "
		 "default_string: string",
};
