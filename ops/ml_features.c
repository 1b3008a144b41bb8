/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of ai.onnx.ml that prepare features: Scaler, Normalizer, Binarizer, Imputer,
 * ArrayFeatureExtractor, FeatureVectorizer, OneHotEncoder and LabelEncoder. All are composites.
 * LabelEncoder searches its keys as a tree of decisions.
 */
#include "ops/infer.h"
#include "ops/ml.h"
#include "ops/ml_forest.h"
#include "ops/shape.h"

#include <math.h>

static bool numbers_only(Infer *in, Node *n)
{
	for (int k = 0; k < n->nin; k++) {
		DType t = infer_type(n, k)->dtype;

		if (!dtype_is_float(t) && !dtype_is_int(t))
			return infer_error(in, n, "elements of type %s are not supported",
					   dtype_info[t].name);
	}
	return true;
}

static bool finish(Infer *in, Node *n, Value *v, DType t, Value **out)
{
	out[0] = expand_cast(in, n, v, t);
	return out[0]->type != NULL;
}

/* Whether the COUNT numbers of attribute NAME are one for all features or one for each, in the last axis of operand 0. */
static bool per_feature(Infer *in, Node *n, const char *name, int count)
{
	const Type *x = infer_type(n, 0);

	if (count == 1)
		return true;
	if (count < 1 || x->rank < 1)
		return infer_error(in, n, "attribute \"%s\" has %d entries", name,
				   count < 0 ? 0 : count);
	return infer_dim_equals(in, n, &x->dims[x->rank - 1], dim_const(infer_ctx(in), count),
				"the attributes are of another number of features");
}

/* COUNT numbers V that per_feature has checked. */
static Value *features(Infer *in, Node *n, const double *v, int count, DType t)
{
	return count == 1 ? expand_scalar(in, n, t, v[0]) : ml_vector(in, n, t, v, count);
}

/* ---- Scaler, Normalizer, Binarizer ---- */

static bool expand_scaler(Infer *in, Node *n, Value **out)
{
	static const struct {
		const char *attr;
		OpKind op;
	} row[] = {{"offset", OP_Sub}, {"scale", OP_Mul}};
	Value *v, *w;

	if (!numbers_only(in, n))
		return false;
	v = expand_cast(in, n, node_in(n, 0), ml_real(n));
	for (int i = 0; i < 2; i++) {
		int count;
		double *a = ml_numbers(in, n, row[i].attr, &count);

		if (!a)
			return false;
		if (!count)
			continue;
		if (!per_feature(in, n, row[i].attr, count))
			return false;
		w = features(in, n, a, count, ml_real(n));
		v = expand_node(in, n, row[i].op, (Value *[]){v, w}, 2);
	}
	return finish(in, n, v, DT_F32, out);
}

const Op op_ml_Scaler = {.expand = expand_scaler};

/* Each row by its largest element, its sum of absolute values, or its length, unless that is 0. */
static bool expand_normalizer(Infer *in, Node *n, Value **out)
{
	static const char *const names[] = {"MAX", "L1", "L2"};
	static const OpKind ops[] = {OP_ReduceMax, OP_ReduceL1, OP_ReduceL2};
	const int64_t last = -1;
	Value *v, *by, *zero, *one;
	int how;

	if (!numbers_only(in, n) || !infer_choice(in, n, "norm", names, 3, &how))
		return false;
	if (infer_type(n, 0)->rank != 1 && infer_type(n, 0)->rank != 2)
		return infer_error(in, n, "the operand has rank %d, expected 1 or 2",
				   infer_type(n, 0)->rank);
	v = expand_cast(in, n, node_in(n, 0), ml_real(n));
	by = expand_node(in, n, ops[how], (Value *[]){v, expand_ints(in, n, &last, 1)}, 2);
	zero = expand_scalar(in, n, ml_real(n), 0);
	one = expand_scalar(in, n, ml_real(n), 1);
	by = EXPAND(in, n, Where, EXPAND(in, n, Equal, by, zero), one, by);
	return finish(in, n, EXPAND(in, n, Div, v, by), DT_F32, out);
}

const Op op_ml_Normalizer = {.expand = expand_normalizer};

static bool expand_binarizer(Infer *in, Node *n, Value **out)
{
	Value *v, *t;

	if (!numbers_only(in, n))
		return false;
	v = expand_cast(in, n, node_in(n, 0), ml_real(n));
	t = expand_scalar(in, n, ml_real(n), (double)node_float(n, "threshold", 0));
	return finish(in, n, EXPAND(in, n, Greater, v, t), infer_type(n, 0)->dtype, out);
}

const Op op_ml_Binarizer = {.expand = expand_binarizer};

/* ---- Imputer ---- */

/* The ints V, or where COUNT is 1 a scalar. */
static Value *whole(Infer *in, Node *n, const int64_t *v, int count, DType t)
{
	Value *c = expand_ints(in, n, v, count);

	return expand_cast(in, n, count == 1 ? expand_reshape(in, n, c, NULL, 0) : c, t);
}

static bool expand_imputer(Infer *in, Node *n, Value **out)
{
	const DType t = infer_type(n, 0)->dtype;
	const bool real = dtype_is_float(t);
	const double from = real ? (double)node_float(n, "replaced_value_float", 0) : 0;
	const int64_t from_int = node_int(n, "replaced_value_int64", 0);
	const char *name = real ? "imputed_value_floats" : "imputed_value_int64s";
	const int64_t *ints;
	double *v;
	int count, nints;
	Value *x = node_in(n, 0), *hit, *to;

	if (!numbers_only(in, n))
		return false;
	v = ml_numbers(in, n, "imputed_value_floats", &count);
	ints = node_ints(n, "imputed_value_int64s", &nints);
	if (!v || !per_feature(in, n, name, real ? count : nints))
		return false;
	to = real ? features(in, n, v, count, t) : whole(in, n, ints, nints, t);
	hit = isnan(from) ? EXPAND(in, n, IsNaN, x)
			  : EXPAND(in, n, Equal, x,
				   real ? expand_scalar(in, n, t, from)
					: whole(in, n, &from_int, 1, t));
	return finish(in, n, EXPAND(in, n, Where, hit, to, x), t, out);
}

const Op op_ml_Imputer = {.expand = expand_imputer};

/* ---- Selecting and joining features ---- */

static bool expand_extractor(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0), *i = infer_type(n, 1);
	Ctx *c = infer_ctx(in);
	Dim *count = dims_product(c, i->dims, i->rank), *row[2];
	Value *v = node_in(n, 0);

	if (x->rank < 1)
		return infer_error(in, n, "the operand is a scalar");
	if (x->rank == 1) {
		row[0] = dim_const(c, 1);
		row[1] = x->dims[0];
		v = expand_reshape(in, n, v, row, 2);
	}
	out[0] = expand_node_ints(in, n, OP_Gather,
				  (Value *[]){v, expand_reshape(in, n, node_in(n, 1), &count, 1)},
				  2, "axis", -1);
	return out[0]->type != NULL;
}

const Op op_ml_ArrayFeatureExtractor = {.expand = expand_extractor};

static bool expand_vectorizer(Infer *in, Node *n, Value **out)
{
	Ctx *c = infer_ctx(in);
	Value **v = NEW_ARRAY(infer_arena(in), n->nin + 1, Value *);
	int count;
	const int64_t *size = node_ints(n, "inputdimensions", &count);

	if (!numbers_only(in, n))
		return false;
	if (count >= 0 && count != n->nin)
		return infer_error(in, n,
				   "attribute \"inputdimensions\" has %d entries for %d operands",
				   count, n->nin);
	for (int k = 0; k < n->nin; k++) {
		const Type *x = infer_type(n, k);
		Dim *dims[2] = {dim_const(c, 1), NULL};

		if (x->rank != 1 && x->rank != 2)
			return infer_error(in, n, "operand %d has rank %d, expected 1 or 2", k + 1,
					   x->rank);
		if (size && !infer_dim_equals(in, n, &x->dims[x->rank - 1], dim_const(c, size[k]),
					      "an operand has another number of features"))
			return false;
		dims[1] = x->dims[x->rank - 1];
		v[k] = x->rank == 1 ? expand_reshape(in, n, node_in(n, k), dims, 2) : node_in(n, k);
		v[k] = expand_cast(in, n, v[k], DT_F32);
	}
	out[0] = expand_node_ints(in, n, OP_Concat, v, n->nin, "axis", 1);
	return out[0]->type != NULL;
}

const Op op_ml_FeatureVectorizer = {.expand = expand_vectorizer};

/* ---- OneHotEncoder ---- */

static bool has_strings(const Node *n, const char *name)
{
	const Attr *a = node_attr(n, name);

	return a && a->kind == ATTR_STRS && a->n;
}

/* Where a category that is not listed is a fault, it gets an index that is out of range. */
static bool expand_onehot_encoder(Infer *in, Node *n, Value **out)
{
	const int64_t last = -1;
	int count;
	const int64_t *cats = node_ints(n, "cats_int64s", &count);
	Value *x, *hit, *known;

	if (!numbers_only(in, n))
		return false;
	if (has_strings(n, "cats_strings") || count <= 0)
		return infer_error(in, n,
				   count <= 0 && !has_strings(n, "cats_strings")
					   ? "has no categories"
					   : "categories that are strings are not supported");
	x = EXPAND(in, n, Unsqueeze, expand_cast(in, n, node_in(n, 0), DT_I64),
		   expand_ints(in, n, &last, 1));
	hit = EXPAND(in, n, Equal, x, expand_ints(in, n, cats, count));
	out[0] = expand_cast(in, n, hit, DT_F32);
	if (!node_int(n, "zeros", 1) && out[0]->type) {
		static const float ones[2] = {1, 1};
		const int64_t two = 1;
		Tensor *t = tensor_new(infer_arena(in), DT_F32, 1, &two);

		t->data = ones;
		known = expand_node_ints(in, n, OP_ReduceMax,
					 (Value *[]){out[0], expand_ints(in, n, &last, 1)}, 2,
					 "keepdims", 1);
		known = EXPAND(in, n, Sub, expand_scalar(in, n, DT_I64, 1),
			       expand_cast(in, n, known, DT_I64));
		known = EXPAND(in, n, Gather, expand_tensor(in, n, t), known);
		out[0] = EXPAND(in, n, Mul, out[0], known);
	}
	return out[0]->type != NULL;
}

const Op op_ml_OneHotEncoder = {
	.expand = expand_onehot_encoder,
	.doc = "categories that are strings are not supported",
};

/* ---- LabelEncoder ---- */

/* Attribute PREFIX_int64s, PREFIX_floats or PREFIX_tensor, as a tensor of one axis; null after a
 * diagnostic. */
static const Tensor *list_of(Infer *in, Node *n, const char *prefix)
{
	Arena *a = infer_arena(in);
	const char *name = arena_printf(a, "%s_tensor", prefix);
	const Attr *t = node_attr(n, name);
	int nints, nfloats;
	const int64_t *is = node_ints(n, arena_printf(a, "%s_int64s", prefix), &nints);
	const float *fs = node_floats(n, arena_printf(a, "%s_floats", prefix), &nfloats);
	const int64_t count = nints > 0 ? nints : nfloats > 0 ? nfloats : 0;
	Tensor *made;

	if (has_strings(n, arena_printf(a, "%s_strings", prefix)) ||
	    (t && t->kind == ATTR_TENSOR && t->t->dtype == DT_STR)) {
		infer_error(in, n, "%s that are strings are not supported", prefix);
		return NULL;
	}
	if (!count && t && t->kind == ATTR_TENSOR && t->t->rank == 1 && t->t->data)
		return t->t;
	if (!count) {
		infer_error(in, n, "has no %s", prefix);
		return NULL;
	}
	made = tensor_new(a, nints > 0 ? DT_I64 : DT_F32, 1, &count);
	made->data = nints > 0 ? (const void *)is : (const void *)fs;
	return made;
}

/* What the default is, as an element of T at DATA. */
static bool put_default(Infer *in, Node *n, DType t, void *data, int64_t at)
{
	const Attr *a = node_attr(n, "default_tensor");

	if (a &&
	    (a->kind != ATTR_TENSOR || !a->t->data || tensor_numel(a->t) != 1 || a->t->dtype != t))
		return infer_error(in, n, "attribute \"default_tensor\" is no %s",
				   dtype_info[t].name);
	if (a)
		memcpy((char *)data + dtype_size(t, at), a->t->data, (size_t)dtype_size(t, 1));
	else if (dtype_is_float(t))
		dtype_store_f64(t, data, at, (double)node_float(n, "default_float", -0.0F));
	else
		dtype_store_i64(t, data, at, node_int(n, "default_int64", -1));
	return true;
}

/* The keys as doubles, which are exact; null after a diagnostic. */
static double *exact_keys(Infer *in, Node *n, const Tensor *t, int count)
{
	const int64_t most = INT64_C(1) << 53;
	double *v = NEW_ARRAY(infer_arena(in), count + 1, double);

	for (int i = 0; i < count; i++) {
		if (dtype_is_float(t->dtype)) {
			v[i] = dtype_load_f64(t->dtype, t->data, i);
			continue;
		}
		v[i] = (double)dtype_load_i64(t->dtype, t->data, i);
		if (v[i] >= (double)most || v[i] <= -(double)most) {
			infer_error(in, n, "keys beyond 2^53 are not supported");
			return NULL;
		}
	}
	return v;
}

static bool expand_label_encoder(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	const Tensor *keys = list_of(in, n, "keys"),
		     *values = keys ? list_of(in, n, "values") : NULL;
	double *key;
	void *data;
	int64_t count, rows;
	Tensor *results;

	if (!values)
		return false;
	count = tensor_numel(keys);
	if (tensor_numel(values) != count || count < 1 || count > INT32_MAX / 4)
		return infer_error(in, n, "has %lld keys and %lld values", (long long)count,
				   (long long)tensor_numel(values));
	if (keys->dtype != x->dtype)
		return infer_error(in, n, "the keys are %s, the operand %s",
				   dtype_info[keys->dtype].name, dtype_info[x->dtype].name);
	if (!numbers_only(in, n))
		return false;
	key = exact_keys(in, n, keys, (int)count);
	rows = count + 1;
	data = arena_alloc(infer_arena(in), (size_t)dtype_size(values->dtype, rows));
	memcpy(data, values->data, (size_t)dtype_size(values->dtype, count));
	if (!key || !put_default(in, n, values->dtype, data, count))
		return false;
	results = tensor_new(infer_arena(in), values->dtype, 1, &rows);
	results->data = data;
	out[0] = ml_lookup(in, n, node_in(n, 0), key, (int)count, results);
	return out[0]->type != NULL;
}

const Op op_ml_LabelEncoder = {
	.expand = expand_label_encoder,
	.doc = "only from numbers to numbers",
};
