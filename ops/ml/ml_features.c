/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of ai.onnx.ml that prepare features: Scaler, Normalizer, Binarizer, Imputer,
 * ArrayFeatureExtractor and FeatureVectorizer. All are composites.
 */
#include "ops/infer/infer.h"
#include "ops/ml/ml.h"

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
	return true;
}

/* Whether the COUNT numbers of attribute NAME are one for all features or one for each, in the
 * last axis of operand 0. Which axis has the features of a tensor of higher rank than 2 is not
 * defined. */
static bool per_feature(Infer *in, Node *n, const char *name, int count)
{
	const Type *x = infer_type(n, 0);

	if (count == 1)
		return true;
	if (count < 1 || x->rank < 1)
		return infer_error(in, n, "attribute \"%s\" has %d entries", name,
				   count < 0 ? 0 : count);
	if (x->rank > 2)
		return infer_error(in, n, "attribute \"%s\" has %d entries for an operand of rank %d, expected 1",
				   name, count, x->rank);
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

const Op op_ml_Scaler = {
	.expand = expand_scaler, .types = "fi",
	.attrs = "offset: floats, scale: floats",
};

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

const Op op_ml_Normalizer = {.expand = expand_normalizer, .types = "fi", .attrs = "norm: string"};

static bool expand_binarizer(Infer *in, Node *n, Value **out)
{
	Value *v, *t;

	if (!numbers_only(in, n))
		return false;
	v = expand_cast(in, n, node_in(n, 0), ml_real(n));
	t = expand_scalar(in, n, ml_real(n), (double)node_float(n, "threshold", 0));
	return finish(in, n, EXPAND(in, n, Greater, v, t), infer_type(n, 0)->dtype, out);
}

const Op op_ml_Binarizer = {.expand = expand_binarizer, .types = "fi", .attrs = "threshold: float"};

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

const Op op_ml_Imputer = {
	.expand = expand_imputer, .types = "fi",
	.attrs = "imputed_value_floats: floats, imputed_value_int64s: ints, "
		 "replaced_value_float: float, replaced_value_int64: int",
};

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
	return true;
}

const Op op_ml_ArrayFeatureExtractor = {.expand = expand_extractor, .types = "fis"};

/* V, [rows, features], with zeros after its features or without its last ones, so that there are
 * SIZE. */
static Value *resized(Infer *in, Node *n, Value *v, int64_t size)
{
	static const int64_t axis = 1;
	Ctx *c = infer_ctx(in);
	Dim *pads[2] = {dim_const(c, 0), dim_sub(c, dim_const(c, size), v->type->dims[1])};

	if (dim_equals(pads[1], 0))
		return v;
	return EXPAND(in, n, Pad, v, expand_sizes(in, n, pads, 2),
		      expand_scalar(in, n, v->type->dtype, 0), expand_ints(in, n, &axis, 1));
}

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
		if (size && (size[k] < 0 || size[k] > INT32_MAX))
			return infer_error(in, n, "attribute \"inputdimensions\" has the entry %lld",
					   (long long)size[k]);
		dims[1] = x->dims[x->rank - 1];
		v[k] = x->rank == 1 ? expand_reshape(in, n, node_in(n, k), dims, 2) : node_in(n, k);
		v[k] = expand_cast(in, n, v[k], DT_F32);
		if (size)
			v[k] = resized(in, n, v[k], size[k]);
	}
	out[0] = expand_node_ints(in, n, OP_Concat, v, n->nin, "axis", 1);
	return true;
}

const Op op_ml_FeatureVectorizer = {
	.expand = expand_vectorizer, .types = "fi",
	.attrs = "inputdimensions: ints",
};
