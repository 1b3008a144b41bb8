/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the operators of the domain ai.onnx.ml: attributes, the transformation of scores,
 * labels. See ml.h. */
#include "ops/ml/ml.h"

#include "runtime/strtable.h"

#include <math.h>
#include <string.h>

/* ---- Attributes ---- */

double *ml_tensor(Infer *in, Node *n, const char *name, int *count)
{
	const Attr *a = node_attr(n, name);
	int64_t have = a && a->kind == ATTR_TENSOR ? tensor_numel(a->t) : -1;
	double *v;

	if (have < 0 || have > INT32_MAX || !a->t->data ||
	    (!dtype_is_float(a->t->dtype) && !dtype_is_int(a->t->dtype))) {
		infer_error(in, n, "attribute \"%s\" is not a tensor of numbers", name);
		return NULL;
	}
	*count = (int)have;
	v = NEW_ARRAY(infer_arena(in), have + 1, double);
	for (int64_t i = 0; i < have; i++)
		v[i] = dtype_is_float(a->t->dtype)
			       ? dtype_load_f64(a->t->dtype, a->t->data, i)
			       : (double)dtype_load_i64(a->t->dtype, a->t->data, i);
	return v;
}

double *ml_numbers(Infer *in, Node *n, const char *name, int *count)
{
	const char *tensor = arena_printf(infer_arena(in), "%s_as_tensor", name);
	const float *f = node_floats(n, name, count);
	double *v;

	if (*count <= 0 && node_attr(n, tensor))
		return ml_tensor(in, n, tensor, count);
	*count = *count < 0 ? 0 : *count;
	v = NEW_ARRAY(infer_arena(in), *count + 1, double);
	for (int i = 0; i < *count; i++)
		v[i] = (double)f[i];
	return v;
}

Value *ml_vector(Infer *in, Node *n, DType t, const double *v, int64_t count)
{
	Tensor *c = tensor_new(infer_arena(in), t, 1, &count);
	void *data = arena_alloc(infer_arena(in), (size_t)dtype_size(t, count));

	for (int64_t i = 0; i < count; i++)
		if (dtype_is_float(t))
			dtype_store_f64(t, data, i, v[i]);
		else
			dtype_store_i64(t, data, i, (int64_t)v[i]);
	c->data = data;
	return expand_tensor(in, n, c);
}

/* ---- Operands ---- */

DType ml_real(const Node *n)
{
	return infer_type(n, 0)->dtype == DT_F64 ? DT_F64 : DT_F32;
}

Value *ml_rows(Infer *in, Node *n, DType t)
{
	const Type *x = infer_type(n, 0);
	Dim *dims[2] = {dim_const(infer_ctx(in), 1), x->rank == 1 ? x->dims[0] : NULL};
	Value *v = node_in(n, 0);

	if (!dtype_is_float(x->dtype) && !dtype_is_int(x->dtype)) {
		infer_error(in, n, "elements of type %s are not supported",
			    dtype_info[x->dtype].name);
		return NULL;
	}
	if (x->rank != 1 && x->rank != 2) {
		infer_error(in, n, "the operand has rank %d, expected 2", x->rank);
		return NULL;
	}
	v = x->rank == 1 ? expand_reshape(in, n, v, dims, 2) : v;
	return expand_cast(in, n, v, t);
}

/* ---- Scores ---- */

static Value *scalar(Infer *in, Node *n, Value *like, double v)
{
	return expand_scalar(in, n, like->type->dtype, v);
}

/* Softmax over the scores that are not nearly 0; the others are unchanged. */
static Value *softmax_zero(Infer *in, Node *n, Value *v)
{
	Value *most = expand_reduce(in, n, OP_ReduceMax, v, -1, true);
	Value *near = EXPAND(in, n, LessOrEqual, EXPAND(in, n, Abs, v), scalar(in, n, v, 1e-7));
	Value *e = EXPAND(in, n, Exp, EXPAND(in, n, Sub, v, most));
	Value *sum = expand_reduce(in, n, OP_ReduceSum,
				   EXPAND(in, n, Where, near, scalar(in, n, v, 0), e), -1, true);

	e = EXPAND(in, n, Where, near,
		   EXPAND(in, n, Mul, v, EXPAND(in, n, Exp, EXPAND(in, n, Neg, most))), e);
	return EXPAND(in, n, Div, e, sum);
}

/* sqrt(2) times the inverse of erf at 2 v - 1, by Winitzki's approximation, as in ONNX Runtime. */
static Value *probit(Infer *in, Node *n, Value *v)
{
	const double a = 0.147;
	Value *one = scalar(in, n, v, 1), *x, *l, *b;

	x = EXPAND(in, n, Sub, EXPAND(in, n, Mul, v, scalar(in, n, v, 2)), one);
	l = EXPAND(in, n, Log,
		   EXPAND(in, n, Mul, EXPAND(in, n, Sub, one, x), EXPAND(in, n, Add, one, x)));
	b = EXPAND(in, n, Add, EXPAND(in, n, Mul, l, scalar(in, n, v, 0.5)),
		   scalar(in, n, v, 2 / (3.14159 * a)));
	l = EXPAND(in, n, Sub, EXPAND(in, n, Mul, b, b),
		   EXPAND(in, n, Mul, l, scalar(in, n, v, 1 / a)));
	l = EXPAND(in, n, Sqrt, EXPAND(in, n, Sub, EXPAND(in, n, Sqrt, l), b));
	l = EXPAND(in, n, Mul, l, scalar(in, n, v, 1.41421356));
	return EXPAND(in, n, Where, EXPAND(in, n, Less, x, scalar(in, n, v, 0)),
		      EXPAND(in, n, Neg, l), l);
}

bool ml_post_of(Infer *in, Node *n, MlPost *out)
{
	static const char *const names[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO",
					    "PROBIT"};
	int k;

	if (!infer_choice(in, n, "post_transform", names, 5, &k))
		return false;
	*out = (MlPost)k;
	return true;
}

Value *ml_post(Infer *in, Node *n, Value *scores, MlPost post)
{
	switch (post) {
	case ML_SOFTMAX:
		return expand_node_ints(in, n, OP_Softmax, (Value *[]){scores}, 1, "axis", -1);
	case ML_LOGISTIC: return EXPAND(in, n, Sigmoid, scores);
	case ML_SOFTMAX_ZERO: return softmax_zero(in, n, scores);
	case ML_PROBIT: return probit(in, n, scores);
	default: return scores;
	}
}

/* ---- Labels ---- */

int64_t ml_string(Infer *in, const char *s)
{
	return strings_intern(infer_ctx(in)->strings, s, strlen(s));
}

Tensor *ml_strings(Infer *in, Node *n, const char *name)
{
	const Attr *a = node_attr(n, name);
	const int64_t count = a && a->kind == ATTR_STRS ? a->n : 0;
	Tensor *t = count ? tensor_new(infer_arena(in), DT_STR, 1, &count) : NULL;

	for (int64_t i = 0; i < count; i++)
		dtype_store_i64(DT_STR, (void *)(uintptr_t)t->data, i, ml_string(in, a->ss[i]));
	return t;
}

const Tensor *ml_list(Infer *in, Node *n, const char *what, const char *ints, const char *strings)
{
	Tensor *t = ml_strings(in, n, strings);
	int count;
	const int64_t *v = node_ints(n, ints, &count), numel = count;

	if (t && count > 0) {
		infer_error(in, n, "has both \"%s\" and \"%s\"", ints, strings);
		return NULL;
	}
	if (!t && count <= 0) {
		infer_error(in, n, "has no %s", what);
		return NULL;
	}
	if (t)
		return t;
	t = tensor_new(infer_arena(in), DT_I64, 1, &numel);
	t->data = v;
	return t;
}

const Tensor *ml_labels(Infer *in, Node *n, const char *ints, const char *strings, int *count)
{
	const Tensor *t = ml_list(in, n, "class labels", ints, strings);

	*count = t ? (int)tensor_numel(t) : -1;
	return t;
}

Value *ml_label_of(Infer *in, Node *n, const Tensor *labels, Value *at)
{
	bool same = labels->dtype == DT_I64;

	for (int64_t i = 0; i < tensor_numel(labels) && same; i++)
		same = dtype_load_i64(DT_I64, labels->data, i) == i;
	return same ? at : EXPAND(in, n, Gather, expand_tensor(in, n, labels), at);
}

Value *ml_only_label(Infer *in, Node *n, const Tensor *labels, Value *at)
{
	const int64_t two = 2;
	Tensor *t;

	if (labels->dtype != DT_STR)
		return at;
	t = tensor_new(infer_arena(in), DT_STR, 1, &two);
	dtype_store_i64(DT_STR, (void *)(uintptr_t)t->data, 0, ml_string(in, "0"));
	dtype_store_i64(DT_STR, (void *)(uintptr_t)t->data, 1, ml_string(in, "1"));
	return EXPAND(in, n, Gather, expand_tensor(in, n, t), at);
}

Value *ml_best(Infer *in, Node *n, Value *v)
{
	Node *m = expand_start(in, n, OP_ArgMax, &v, 1, 1);

	node_set_int(m, "axis", -1);
	node_set_int(m, "keepdims", 0);
	return expand_finish(in, m);
}

Value *ml_above(Infer *in, Node *n, Value *v, double than)
{
	v = expand_reshape(in, n, v, v->type->dims, 1);
	return expand_cast(in, n, EXPAND(in, n, Greater, v, scalar(in, n, v, than)), DT_I64);
}

Value *ml_two_scores(Infer *in, Node *n, Value *v, bool probability, MlPost post)
{
	Value *pair[2] = {NULL, v}, *both;

	pair[0] = probability && post != ML_LOGISTIC ? EXPAND(in, n, Sub, scalar(in, n, v, 1), v)
						     : EXPAND(in, n, Neg, v);
	both = expand_node_ints(in, n, OP_Concat, pair, 2, "axis", 1);
	return ml_post(in, n, both, post == ML_LOGISTIC || post == ML_PROBIT ? post : ML_NONE);
}
