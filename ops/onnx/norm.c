/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Normalizations, as composites of reductions and elementwise operators. So fusion sees the same
 * form whether an exporter wrote the operator or its parts. Elements smaller than f32 are computed
 * in f32 and rounded once at the end.
 */
#include "ops/infer/build.h"

/* The type that N computes in. */
static DType real_dtype(const Node *n)
{
	return acc_dtype(infer_type(n, 0)->dtype);
}

static Value *real_in(Infer *in, Node *n, int k)
{
	return expand_cast(in, n, node_in(n, k), real_dtype(n));
}

static bool norm_types(Infer *in, Node *n, int least_rank)
{
	const Type *x = infer_type(n, 0);

	return x->rank >= least_rank ||
	       infer_error(in, n, "operand has rank %d, less than %d", x->rank, least_rank);
}

/* The axes from FROM up to TO - 1, as a constant operand. */
static Value *axes_range(Infer *in, Node *n, int from, int to)
{
	int64_t axes[MAX_RANK];

	for (int d = from; d < to; d++)
		axes[d - from] = d;
	return expand_ints(in, n, axes, to - from);
}

/* A value with one element for each channel, reshaped to broadcast with a tensor of this rank: C
 * becomes C,1,1. */
static Value *by_channel(Infer *in, Node *n, Value *v, int rank)
{
	return rank <= 2 ? v : EXPAND(in, n, Unsqueeze, v, axes_range(in, n, 1, rank - 1));
}

/* X minus its mean over AXES; *MEAN, unless MEAN is null, gets the mean. */
static Value *centred(Infer *in, Node *n, Value *x, Value *axes, Value **mean)
{
	Value *m = EXPAND(in, n, ReduceMean, x, axes);

	if (mean)
		*mean = m;
	return EXPAND(in, n, Sub, x, m);
}

/* 1 / sqrt(mean of X squared over AXES + EPSILON). */
static Value *inverse_rms(Infer *in, Node *n, Value *x, Value *axes, float epsilon)
{
	Value *v = EXPAND(in, n, Mul, x, x);

	v = EXPAND(in, n, ReduceMean, v, axes);
	v = EXPAND(in, n, Add, v, expand_scalar(in, n, real_dtype(n), (double)epsilon));
	return EXPAND(in, n, Reciprocal, EXPAND(in, n, Sqrt, v));
}

/* (x - mean) / sqrt(variance + epsilon) over AXES. */
static Value *standardised(Infer *in, Node *n, Value *x, Value *axes)
{
	Value *d = centred(in, n, x, axes, NULL);

	return EXPAND(in, n, Mul, d, inverse_rms(in, n, d, axes, node_float(n, "epsilon", 1e-5F)));
}

/* X * operand 1 + operand 2, which may be omitted. If CHANNEL_RANK is above 2 they have an
 * element for each channel. */
static Value *affine(Infer *in, Node *n, Value *x, int channel_rank)
{
	for (int k = 1; k <= 2 && k < n->nin; k++) {
		Value *v;

		if (!node_in(n, k))
			continue;
		v = by_channel(in, n, real_in(in, n, k), channel_rank);
		x = k == 1 ? EXPAND(in, n, Mul, x, v) : EXPAND(in, n, Add, x, v);
	}
	return x;
}

/* Checks that scale and bias have one element for each channel (dim 1). */
static bool check_channels(Infer *in, Node *n, int from, int to)
{
	const Type *x = infer_type(n, 0);
	Ctx *c = infer_ctx(in);
	Dim *channels = x->rank > 1 ? x->dims[1] : dim_const(c, 1);

	for (int k = from; k < to; k++) {
		const Type *t = infer_type(n, k);

		if (t->rank != 1)
			return infer_error(in, n, "operand %d has rank %d, expected 1", k + 1,
					   t->rank);
		if (!infer_equal_shown(in, n, t->dims[0], channels,
				       "an operand must have one element for each channel",
				       infer_dim_shown(in, n, &t->dims[0]),
				       (FactSize){"channels are", channels}))
			return false;
	}
	return true;
}

/* ---- BatchNormalization ---- */

/* x * a + b, with a and b by channel, which can be folded into a convolution before it. */
static Value *batch_affine(Infer *in, Node *n, Value *mean, Value *var)
{
	int rank = infer_type(n, 0)->rank;
	Value *eps = expand_scalar(in, n, real_dtype(n), (double)node_float(n, "epsilon", 1e-5F));
	Value *a = EXPAND(in, n, Div, real_in(in, n, 1),
			  EXPAND(in, n, Sqrt, EXPAND(in, n, Add, var, eps)));
	Value *b = EXPAND(in, n, Sub, real_in(in, n, 2), EXPAND(in, n, Mul, mean, a));
	Value *x = EXPAND(in, n, Mul, real_in(in, n, 0), by_channel(in, n, a, rank));

	return EXPAND(in, n, Add, x, by_channel(in, n, b, rank));
}

/* old * momentum + batch * (1 - momentum), in the type of operand K. */
static Value *running(Infer *in, Node *n, int k, Value *batch)
{
	double momentum = (double)node_float(n, "momentum", 0.9F);
	Value *old = EXPAND(in, n, Mul, real_in(in, n, k),
			    expand_scalar(in, n, real_dtype(n), momentum));

	batch = EXPAND(in, n, Mul, batch, expand_scalar(in, n, real_dtype(n), 1 - momentum));
	return expand_cast(in, n, EXPAND(in, n, Add, old, batch), infer_type(n, k)->dtype);
}

static bool batch_training(Infer *in, Node *n, Value **out)
{
	int64_t axes[MAX_RANK], channels = -1;
	int rank = infer_type(n, 0)->rank, count = 0;
	Value *x = real_in(in, n, 0), *list, *mean, *var, *d, *flat;

	for (int i = 0; i < rank; i++)
		if (i != 1)
			axes[count++] = i;
	list = expand_ints(in, n, axes, count);
	d = centred(in, n, x, list, &mean);
	var = EXPAND(in, n, ReduceMean, EXPAND(in, n, Mul, d, d), list);
	flat = expand_ints(in, n, &channels, 1);
	mean = EXPAND(in, n, Reshape, mean, flat);
	var = EXPAND(in, n, Reshape, var, flat);
	if (node_out(n, 1))
		out[1] = running(in, n, 3, mean);
	if (node_out(n, 2))
		out[2] = running(in, n, 4, var);
	return expand_result(in, n, 0, batch_affine(in, n, mean, var), &out[0]);
}

static bool expand_batch(Infer *in, Node *n, Value **out)
{
	if (!norm_types(in, n, 1) || !check_channels(in, n, 1, 5))
		return false;
	if (node_int(n, "training_mode", 0))
		return batch_training(in, n, out);
	if (node_out(n, 1) || node_out(n, 2))
		return infer_error(
			in, n, "the running mean and variance are results, but training_mode is 0");
	return expand_result(in, n, 0, batch_affine(in, n, real_in(in, n, 3), real_in(in, n, 4)),
			     &out[0]);
}

/* ---- Over spatial dims, groups, trailing dims ---- */

static bool expand_instance(Infer *in, Node *n, Value **out)
{
	int rank = infer_type(n, 0)->rank;
	Value *x;

	if (!norm_types(in, n, 3) || !check_channels(in, n, 1, 3))
		return false;
	x = standardised(in, n, real_in(in, n, 0), axes_range(in, n, 2, rank));
	return expand_result(in, n, 0, affine(in, n, x, rank), &out[0]);
}

static bool expand_group(Infer *in, Node *n, Value **out)
{
	const Type *t = infer_type(n, 0);
	int64_t groups = node_int(n, "num_groups", 0), shape[3] = {0, groups, -1};
	Ctx *c = infer_ctx(in);
	Value *x, *whole;

	if (!norm_types(in, n, 2) || !check_channels(in, n, 1, 3))
		return false;
	if (groups < 1)
		return infer_error(in, n, "attribute \"num_groups\" is %lld, expected 1 or more",
				   (long long)groups);
	if (!infer_equal_shown(in, n, dim_mod(c, t->dims[1], dim_const(c, groups)), dim_const(c, 0),
			       "num_groups does not divide the channels",
			       infer_dim_shown(in, n, &t->dims[1]),
			       (FactSize){"num_groups is", dim_const(c, groups)}))
		return false;
	whole = EXPAND(in, n, Shape, node_in(n, 0));
	x = EXPAND(in, n, Reshape, node_in(n, 0), expand_ints(in, n, shape, 3));
	x = expand_cast(in, n, x, real_dtype(n));
	x = EXPAND(in, n, Reshape, standardised(in, n, x, axes_range(in, n, 2, 3)), whole);
	return expand_result(in, n, 0, affine(in, n, x, t->rank), &out[0]);
}

/* The dims from the axis attribute to the last, as an operand; null after a diagnostic. */
static Value *trailing_axes(Infer *in, Node *n)
{
	int rank = infer_type(n, 0)->rank, axis;

	if (!infer_axis(in, n, node_int(n, "axis", -1), rank, &axis))
		return NULL;
	return axes_range(in, n, axis, rank);
}

static bool expand_layer(Infer *in, Node *n, Value **out)
{
	DType stash = dtype_by_onnx((int)node_int(n, "stash_type", 1));
	Value *axes, *d, *inv, *mean;

	if (!norm_types(in, n, 1) || !(axes = trailing_axes(in, n)))
		return false;
	d = centred(in, n, real_in(in, n, 0), axes, &mean);
	inv = inverse_rms(in, n, d, axes, node_float(n, "epsilon", 1e-5F));
	if (node_out(n, 1))
		out[1] = expand_cast(in, n, mean, stash);
	if (node_out(n, 2))
		out[2] = expand_cast(in, n, inv, stash);
	return expand_result(in, n, 0, affine(in, n, EXPAND(in, n, Mul, d, inv), 0), &out[0]);
}

static bool expand_rms(Infer *in, Node *n, Value **out)
{
	Value *axes, *x;

	if (!norm_types(in, n, 1) || !(axes = trailing_axes(in, n)))
		return false;
	x = real_in(in, n, 0);
	x = EXPAND(in, n, Mul, x, inverse_rms(in, n, x, axes, node_float(n, "epsilon", 1e-5F)));
	return expand_result(in, n, 1, affine(in, n, x, 0), &out[0]);
}

/* x / norm, and 0 where the norm is 0. */
static bool expand_lp(Infer *in, Node *n, Value **out)
{
	int rank = infer_type(n, 0)->rank, axis;
	int64_t p = node_int(n, "p", 2);
	Value *x, *axes, *norm, *zero;

	if (!norm_types(in, n, 1) || !infer_axis(in, n, node_int(n, "axis", -1), rank, &axis))
		return false;
	if (p != 1 && p != 2)
		return infer_error(in, n, "attribute \"p\" is %lld, expected 1 or 2", (long long)p);
	x = real_in(in, n, 0);
	axes = axes_range(in, n, axis, axis + 1);
	norm = p == 1 ? EXPAND(in, n, ReduceL1, x, axes) : EXPAND(in, n, ReduceL2, x, axes);
	zero = expand_scalar(in, n, real_dtype(n), 0);
	x = EXPAND(in, n, Where, EXPAND(in, n, Equal, norm, zero), zero,
		   EXPAND(in, n, Div, x, norm));
	return expand_result(in, n, 0, x, &out[0]);
}

/* (x - mean) / (deviation + 1e-9). */
static bool expand_mean_variance(Infer *in, Node *n, Value **out)
{
	static const int64_t nchw[] = {0, 2, 3};
	int count;
	const int64_t *given = node_ints(n, "axes", &count);
	Value *axes, *d, *v;

	if (!norm_types(in, n, 1))
		return false;
	axes = count < 0 ? expand_ints(in, n, nchw, 3) : expand_ints(in, n, given, count);
	d = centred(in, n, real_in(in, n, 0), axes, NULL);
	v = EXPAND(in, n, Sqrt, EXPAND(in, n, ReduceMean, EXPAND(in, n, Mul, d, d), axes));
	v = EXPAND(in, n, Add, v, expand_scalar(in, n, real_dtype(n), 1e-9));
	return expand_result(in, n, 0, EXPAND(in, n, Div, d, v), &out[0]);
}

/* ---- Softmax ---- */

/* Computes x - max over the axis, its exponentials, and their sum. */
static bool softmax_parts(Infer *in, Node *n, Value **shifted, Value **exps, Value **sum)
{
	int axis;
	Value *x, *axes;

	if (!norm_types(in, n, 1) ||
	    !infer_axis(in, n, node_int(n, "axis", -1), infer_type(n, 0)->rank, &axis))
		return false;
	x = real_in(in, n, 0);
	axes = axes_range(in, n, axis, axis + 1);
	*shifted = EXPAND(in, n, Sub, x, EXPAND(in, n, ReduceMax, x, axes));
	*exps = EXPAND(in, n, Exp, *shifted);
	*sum = EXPAND(in, n, ReduceSum, *exps, axes);
	return true;
}

static bool expand_softmax(Infer *in, Node *n, Value **out)
{
	Value *x, *e, *sum;

	return softmax_parts(in, n, &x, &e, &sum) &&
	       expand_result(in, n, 0, EXPAND(in, n, Div, e, sum), &out[0]);
}

static bool expand_log_softmax(Infer *in, Node *n, Value **out)
{
	Value *x, *e, *sum;

	return softmax_parts(in, n, &x, &e, &sum) &&
	       expand_result(in, n, 0, EXPAND(in, n, Sub, x, EXPAND(in, n, Log, sum)), &out[0]);
}

/* ---- Hardmax, LRN: with separate statements ---- */

static bool infer_same(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	int axis;

	if (!norm_types(in, n, 1))
		return false;
	if (n->op == OP_Hardmax && !infer_axis(in, n, node_int(n, "axis", -1), x->rank, &axis))
		return false;
	if (n->op == OP_LRN && x->rank < 2)
		return infer_error(in, n, "operand has rank %d, less than 2", x->rank);
	if (n->op == OP_LRN && (node_int(n, "size", 0) < 1 || node_int(n, "size", 0) > INT32_MAX))
		return infer_error(in, n, "attribute \"size\" is %lld, expected 1 to %d",
				   (long long)node_int(n, "size", 0), INT32_MAX);
	return infer_result(in, n, 0, x->dtype, x->rank, x->dims);
}

static void lower_hardmax(Infer *in, Node *n, Kernel *k)
{
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0), *best, *place;
	Expr *oi[MAX_RANK], *xi[MAX_RANK], *ti[MAX_RANK], *val[2];
	Dim *dims[MAX_RANK];
	Point band = {0}, red = {0}, all = {0};
	CType ct = dtype_ctype(x->dtype);
	int axis, rank = 0;

	infer_axis(in, n, node_int(n, "axis", -1), x->rank, &axis);
	for (int d = 0; d < x->rank; d++) {
		xi[d] = point_add(k, d == axis ? &red : &band, d == axis ? "r" : "i", x->dims[d]);
		if (d != axis) {
			ti[rank] = xi[d];
			dims[rank++] = x->dims[d];
		}
	}
	best = kernel_temp(k, "best", x->dtype, rank, dims);
	place = kernel_temp(k, "place", DT_I64, rank, dims);
	val[0] = kernel_load(k, x, xi);
	val[1] = xi[axis];
	point_reduce2(k, MONOID_argmax_first, &band, &red, (Buf *[]){best, place}, ti, val, NULL);
	point_add_dims(k, &all, out, oi);
	for (int d = 0, j = 0; d < x->rank; d++)
		if (d != axis)
			ti[j++] = oi[d];
	val[0] = ex_op2(p, IN_eq, kernel_load(k, place, ti), oi[axis]);
	val[0] = ex_op3(p, IN_select, val[0], ex_num(p, ct, 1), ex_num(p, ct, 0));
	point_map(k, &all, out, oi, val[0], NULL);
}

/* x / (bias + alpha / size * sum of squares over SIZE adjacent channels) ^ beta. */
static void lower_lrn(Infer *in, Node *n, Kernel *k)
{
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0), *acc = acc_buf(k, out, false);
	int64_t size = node_int(n, "size", 1);
	Expr *oi[MAX_RANK], *xi[MAX_RANK], *v, *guard;
	Point band = {0}, red = {0};
	CType ct = dtype_ctype(acc->dtype);

	(void)in;
	point_add_dims(k, &band, out, oi);
	for (int d = 0; d < x->rank; d++)
		xi[d] = oi[d];
	v = point_add(k, &red, "r", dim_const(k->ctx, size));
	xi[1] = ex_add(p, oi[1], ex_sub(p, v, ex_int(p, CT_I64, (size - 1) / 2)));
	guard = ex_inside(p, xi[1], ex_dim(p, x->dims[1]));
	v = kernel_load(k, x, xi);
	point_reduce(k, MONOID_sum, &band, &red, acc, oi, ex_op2(p, IN_mul, v, v), guard);
	v = BUILD_EXPR(
		k, ct, "div(x, pow(add(bias, mul(alpha, s)), beta))", {"x", kernel_load(k, x, oi)},
		{"s", kernel_load(k, acc, oi)},
		{"bias", ex_num(p, ct, (double)node_float(n, "bias", 1.0F))},
		{"alpha", ex_num(p, ct, (double)node_float(n, "alpha", 1e-4F) / (double)size)},
		{"beta", ex_num(p, ct, (double)node_float(n, "beta", 0.75F))});
	point_map(k, &band, out, oi, v, NULL);
}

const Op op_BatchNormalization = {
	.types = "f", .expand = expand_batch,
	.attrs = "epsilon: float, momentum: float, training_mode: int since 14",
};
const Op op_InstanceNormalization = {
	.types = "f", .expand = expand_instance,
	.attrs = "epsilon: float",
};
const Op op_LayerNormalization = {
	.types = "f", .expand = expand_layer,
	.attrs = "axis: int, epsilon: float, stash_type: int",
};
const Op op_GroupNormalization = {
	.types = "f", .expand = expand_group,
	.attrs = "epsilon: float, num_groups: int, stash_type: int since 21",
};
const Op op_RMSNormalization = {
	.types = "f", .expand = expand_rms,
	.attrs = "axis: int, epsilon: float, stash_type: int",
};
const Op op_LpNormalization = {.types = "f", .expand = expand_lp, .attrs = "axis: int, p: int"};
const Op op_MeanVarianceNormalization = {
	.types = "f", .expand = expand_mean_variance,
	.attrs = "axes: ints",
};
const Op op_LRN = {
	.types = "f", .infer = infer_same, .lower = lower_lrn,
	.attrs = "alpha: float, beta: float, bias: float, size: int",
};
const Op op_Softmax = {.types = "f", .expand = expand_softmax, .attrs = "axis: int"};
const Op op_LogSoftmax = {.types = "f", .expand = expand_log_softmax, .attrs = "axis: int"};
const Op op_Hardmax = {
	.types = "f", .infer = infer_same, .lower = lower_hardmax,
	.attrs = "axis: int",
};
