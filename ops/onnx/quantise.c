/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised tensors: small integers q, or floats of 8 bits and less, that represent the numbers (q
 * - zero point) * scale. All operators here are composites of conversions, products and elementwise
 * operators, so a quantised model consists of the same nodes as any other. Their products become
 * products of bytes in passes/kernel/algebra.c.
 *
 * A scale or zero point has one element, one for each index of an axis, or one for each block of
 * successive indices of an axis. It is given a shape that broadcasts to its tensor's. Integers are
 * multiplied and summed in i32; ONNX lets such sums wrap. To quantise, a number is divided by the
 * scale and rounded to the nearest integer, ties to even, before the zero point is added.
 */
#include "ops/infer/build.h"
#include "ops/infer/infer.h"
#include "ops/onnx/shape.h"

#include <math.h>

/* ---- Types ---- */

/* Whether elements of type T can be quantised numbers. */
static bool is_quantised(DType t)
{
	return dtype_is_int(t) ? dtype_info[t].bits <= 16
			       : dtype_is_float(t) && dtype_info[t].bits <= 8 && t != DT_F8E8M0;
}

static bool bad_type(Infer *in, Node *n, const char *what, DType t)
{
	return infer_error(in, n, "%s has elements of type %s, which is not supported", what,
			   dtype_info[t].name);
}

/* Checks that operand ZERO, if there is one, has elements of operand X's type T. */
static bool zero_type(Infer *in, Node *n, int zero, DType t)
{
	const Type *z = infer_type(n, zero);

	return !z || z->dtype == t ||
	       infer_error(in, n, "the zero point has elements of type %s, expected %s",
			   dtype_info[z->dtype].name, dtype_info[t].name);
}

/* Sets *OUT to the element type that attribute NAME has, or to OTHERWISE if it is absent or 0. */
static bool type_attr(Infer *in, Node *n, const char *name, DType otherwise, DType *out)
{
	int64_t code = node_int(n, name, 0);

	*out = code ? DT_NONE : otherwise;
	if (code > 0 && code < 1000)
		*out = dtype_by_onnx((int)code);
	return *out || infer_error(in, n, "attribute \"%s\" is %lld, which is not an element type",
				   name, (long long)code);
}

/* ---- Scales and zero points ---- */

static bool has_one_element(const Value *v)
{
	return type_const_numel(v->type, 1) == 1;
}

/* V with each element repeated SIZE times along AXIS, in the shape that SHAPE is; null after a
 * diagnostic. */
static Value *repeated(Infer *in, Node *n, Value *v, Value *shape, int axis, int64_t size)
{
	Node *m = expand_start(in, n, OP_Repeat, (Value *[]){v, shape}, 2, 1);

	node_set_int(m, "axis", axis);
	node_set_int(m, "size", size);
	v = expand_finish(in, m);
	return v;
}

/* The last block may have fewer than SIZE elements. With blocks of one element, Repeat gives an
 * operand the dims that it must have, if only run time can compare them; along the axis it may then
 * have one element for all. */
static bool infer_repeat(Infer *in, Node *n)
{
	static const char no_fit[] = "a scale or zero point does not fit its tensor";
	const Type *x = infer_type(n, 0);
	Ctx *c = infer_ctx(in);
	int64_t size = node_int(n, "size", 1);
	int count, axis;
	Dim **dims = infer_vector(in, n, 1, -1, &count);

	if (!dims)
		return false;
	if (count != x->rank)
		return infer_error(in, n,
				   "a scale or zero point of blocks has rank %d, expected %d",
				   x->rank, count);
	if (!infer_axis(in, n, node_int(n, "axis", 0), count, &axis))
		return false;
	if (size < 1)
		return infer_error(in, n, "blocks have %lld elements, expected 1 or more",
				   (long long)size);
	for (int d = 0; d < count; d++) {
		Dim *want = d == axis ? dim_ceildiv(c, dims[d], dim_const(c, size)) : dims[d];

		if (d == axis && size == 1
			    ? !infer_broadcasts_to(in, n, &x->dims[d], &want, no_fit)
			    : !infer_equal_shown(in, n, x->dims[d], want, no_fit,
						 infer_dim_shown(in, n, &x->dims[d]),
						 (FactSize){"expected", want}))
			return false;
	}
	return infer_result(in, n, 0, x->dtype, count, dims);
}

static void lower_repeat(Infer *in, Node *n, Kernel *k)
{
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0);
	int64_t axis = node_int(n, "axis", 0), size = node_int(n, "size", 1);
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK];

	(void)in;
	kernel_iters_of(k, out, it);
	axis += axis < 0 ? out->rank : 0;
	for (int d = 0; d < out->rank; d++)
		idx[d] = at_iter(k, it[d]);
	idx[axis] = size == 1 ? broadcast_index(k, x->dims[axis], out->dims[axis], idx[axis])
			      : ex_op2(k->pool, IN_floordiv, idx[axis], at_int(k, size));
	kernel_map_id(k, it, out, kernel_load(k, x, idx));
}

const Op op_Repeat = {.infer = infer_repeat, .lower = lower_repeat};

/* Sets *OUT to operand K, which has one element for each index of dim AXIS of X, in a shape that
 * broadcasts to a tensor of rank RANK whose dim AT has that size. */
static bool along_axis(Infer *in, Node *n, int k, Value *x, int axis, int at, int rank, Value **out)
{
	Value *v = node_in(n, k);
	int64_t axes[MAX_RANK], which = axis;

	if (v->type->rank != 1)
		return infer_error(in, n, "operand %d has rank %d, expected 0 or 1", k + 1,
				   v->type->rank);
	if (v->type->dims[0] != x->type->dims[axis])
		v = repeated(in, n, v,
			     EXPAND(in, n, Gather, EXPAND(in, n, Shape, x),
				    expand_ints(in, n, &which, 1)),
			     0, 1);
	if (!v)
		return false;
	for (int d = at + 1; d < rank; d++)
		axes[d - at - 1] = d - at;
	*out = at + 1 < rank ? EXPAND(in, n, Unsqueeze, v, expand_ints(in, n, axes, rank - at - 1))
			     : v;
	return true;
}

/* Sets *OUT to operand K, a scale or zero point of operand 0, in a shape that broadcasts to that of
 * operand 0; to null if it is omitted. */
static bool like_input(Infer *in, Node *n, int k, Value **out)
{
	Value *v = node_in(n, k), *x = node_in(n, 0);
	int64_t size = node_int(n, "block_size", 0);
	int axis, rank = x->type->rank;

	*out = v && has_one_element(v) ? expand_as_scalar(in, n, v) : NULL;
	if (!v || *out)
		return true;
	if (!infer_axis(in, n, rank == 1 ? 0 : node_int(n, "axis", 1), rank, &axis))
		return false;
	if (!size)
		return along_axis(in, n, k, x, axis, axis, rank, out);
	*out = repeated(in, n, v, EXPAND(in, n, Shape, x), axis, size);
	return *out != NULL;
}

/* Sets *OUT to operand K, which must have one element, as a scalar. */
static bool scalar_in(Infer *in, Node *n, int k, Value **out)
{
	if (!infer_sized(in, n, k, 1))
		return false;
	if (!has_one_element(node_in(n, k)))
		return infer_error(in, n, "operand %d has not one element", k + 1);
	*out = expand_as_scalar(in, n, node_in(n, k));
	return true;
}

/* ---- From and to real numbers ---- */

/* The type that X - zero point is exact in. */
static DType exact_type(DType t)
{
	return dtype_is_int(t) ? DT_I32 : DT_F32;
}

/* V - ZERO, which may be null, in i32 or, for floats, in f32. */
static Value *minus_zero(Infer *in, Node *n, Value *v, Value *zero)
{
	DType t = exact_type(v->type->dtype);

	v = expand_cast(in, n, v, t);
	return zero ? EXPAND(in, n, Sub, v, expand_cast(in, n, zero, t)) : v;
}

/* V limited to the values of the integer type T. */
static Value *limited(Infer *in, Node *n, Value *v, DType t)
{
	int bits = dtype_info[t].bits;
	double range = (double)(1 << bits), low = dtype_is_signed(t) ? -range / 2 : 0;

	return EXPAND(in, n, Clip, v, expand_scalar(in, n, v->type->dtype, low),
		      expand_scalar(in, n, v->type->dtype, low + range - 1));
}

/* Whether V is the constant 0. */
static bool is_zero(Infer *in, Value *v)
{
	int count;
	const double *f = infer_const_floats(in, v, &count);
	Dim **d = f || !has_one_element(v) ? NULL : infer_known(in, v, &count);

	return f ? count == 1 && f[0] == 0 : d && dim_equals(d[0], 0);
}

/* V, a quotient by a scale, as elements of type T: rounded, plus ZERO (may be null), saturated. */
static Value *quantised(Infer *in, Node *n, Value *v, Value *zero, DType t)
{
	bool whole = dtype_is_int(t);

	v = expand_cast(in, n, v, acc_dtype(v->type->dtype));
	if (whole)
		v = EXPAND(in, n, Round, v);
	if (zero && !is_zero(in, zero))
		v = EXPAND(in, n, Add, v, expand_cast(in, n, zero, v->type->dtype));
	if (whole && dtype_info[t].bits < 8)
		v = limited(in, n, v, t); /* Cast would wrap */
	v = expand_cast(in, n, v, t);
	node_set_int(v->def, "saturate", node_int(n, "saturate", 1));
	return v;
}

/* ---- QuantizeLinear, DequantizeLinear ---- */

/* The type of the division: that of the scale, unless an attribute gives another. An f8e8m0 is a
 * power of two, by which X's own type divides exactly; quotients of integers are exact in f64 as
 * far as rounding goes. */
static bool division_type(Infer *in, Node *n, DType *out)
{
	DType x = infer_type(n, 0)->dtype, s = infer_type(n, 1)->dtype;

	if (s == DT_F8E8M0)
		s = dtype_is_float(x) ? x : DT_F32;
	else if (s == DT_I32)
		s = DT_F64;
	if (!type_attr(in, n, "precision", s, out))
		return false;
	return dtype_is_float(*out) ||
	       infer_error(in, n, "the precision %s is not a float type", dtype_info[*out].name);
}

/* Whether scales may have elements of type T. */
static bool is_scale(DType t)
{
	return dtype_is_float(t) && (dtype_info[t].bits >= 16 || t == DT_F8E8M0);
}

static bool expand_quantize(Infer *in, Node *n, Value **out)
{
	DType x = infer_type(n, 0)->dtype, s = infer_type(n, 1)->dtype, real, to;
	Value *scale = NULL, *zero = NULL, *v;

	if (!dtype_is_float(x) && x != DT_I32)
		return bad_type(in, n, "the operand", x);
	if (!is_scale(s) && s != DT_I32)
		return bad_type(in, n, "the scale", s);
	if (!type_attr(in, n, "output_dtype", infer_type(n, 2) ? infer_type(n, 2)->dtype : DT_U8,
		       &to) ||
	    !zero_type(in, n, 2, to) || !division_type(in, n, &real))
		return false;
	if (!is_quantised(to))
		return bad_type(in, n, "the result", to);
	if (!like_input(in, n, 1, &scale) || !like_input(in, n, 2, &zero))
		return false;
	v = EXPAND(in, n, Div, expand_cast(in, n, node_in(n, 0), real),
		   expand_cast(in, n, scale, real));
	*out = quantised(in, n, v, zero, to);
	return true;
}

static bool expand_dequantize(Infer *in, Node *n, Value **out)
{
	DType x = infer_type(n, 0)->dtype, s = infer_type(n, 1)->dtype, to;
	Value *scale = NULL, *zero = NULL, *v;

	if (!is_quantised(x) && x != DT_I32)
		return bad_type(in, n, "the operand", x);
	if (!is_scale(s))
		return bad_type(in, n, "the scale", s);
	if (!zero_type(in, n, 2, x) || !type_attr(in, n, "output_dtype", s, &to))
		return false;
	if (!dtype_is_float(to) || dtype_info[to].bits < 16)
		return bad_type(in, n, "the result", to);
	if (!like_input(in, n, 1, &scale) || !like_input(in, n, 2, &zero))
		return false;
	v = expand_cast(in, n, minus_zero(in, n, node_in(n, 0), zero), acc_dtype(to));
	v = EXPAND(in, n, Mul, v, expand_cast(in, n, scale, v->type->dtype));
	*out = expand_cast(in, n, v, to);
	return true;
}

/* The range of X, extended to hold 0, becomes 0 to 255. A range of 0 has the scale 1. */
static bool expand_dynamic_quantize(Infer *in, Node *n, Value **out)
{
	Value *x = node_in(n, 0), *least, *most, *zero, *top, *scale, *start;

	if (x->type->dtype != DT_F32)
		return bad_type(in, n, "the operand", x->type->dtype);
	zero = expand_scalar(in, n, DT_F32, 0);
	top = expand_scalar(in, n, DT_F32, 255);
	least = expand_node_ints(in, n, OP_ReduceMin, &x, 1, "keepdims", 0);
	most = expand_node_ints(in, n, OP_ReduceMax, &x, 1, "keepdims", 0);
	least = EXPAND(in, n, Min, least, zero);
	most = EXPAND(in, n, Max, most, zero);
	scale = EXPAND(in, n, Where, EXPAND(in, n, Equal, most, least),
		       expand_scalar(in, n, DT_F32, 1),
		       EXPAND(in, n, Div, EXPAND(in, n, Sub, most, least), top));
	start = EXPAND(in, n, Sub, zero, EXPAND(in, n, Div, least, scale));
	start = EXPAND(in, n, Round, EXPAND(in, n, Clip, start, zero, top));
	out[0] = quantised(in, n, EXPAND(in, n, Div, x, scale), start, DT_U8);
	if (node_out(n, 1))
		out[1] = scale;
	if (node_out(n, 2))
		out[2] = expand_cast(in, n, start, DT_U8);
	return true;
}

/* ---- Accuracy ---- */

/* The constant that V is, or null. */
static const Tensor *constant(const Value *v)
{
	return v ? value_const(value_within(v)) : NULL;
}

/* V is computed, not an input of the graph or a constant: two implementations may round it
 * differently. */
static bool is_computed(const Value *v)
{
	return value_within(v)->def && !constant(v);
}

/* The element type of the result of N, a QuantizeLinear; DT_NONE: it is not known before
 * inference. */
static DType quantised_type(const Node *n)
{
	const int64_t code = node_int(n, "output_dtype", 0);
	const Tensor *zero = constant(node_in(n, 2));

	if (code)
		return dtype_by_onnx((int)code);
	return !node_in(n, 2) ? DT_U8 : zero ? zero->dtype : DT_NONE;
}

static void quantize_accuracy(const Node *n, int o, int depth, Accuracy *a)
{
	(void)o, (void)depth;
	a->step = dtype_is_int(quantised_type(n)) && is_computed(node_in(n, 0));
}

/* With a constant, finite scale of the whole tensor. */
static void dequantize_accuracy(const Node *n, int o, int depth, Accuracy *a)
{
	const Tensor *scale = constant(node_in(n, 1));
	double by = 0;

	(void)o;
	if (scale && dtype_is_float(scale->dtype) && tensor_numel(scale) == 1)
		by = fabs(dtype_load_f64(scale->dtype, scale->data, 0));
	if (isfinite(by))
		a->step = value_accuracy(node_in(n, 0), depth).step * by;
}

/* The range for quantising is rounded, too, so that inputs may also differ by a step. */
static void dynamic_quantize_accuracy(const Node *n, int o, int depth, Accuracy *a)
{
	(void)depth;
	a->step = o != 1 && is_computed(node_in(n, 0));
}

const Op op_QuantizeLinear = {
	.expand = expand_quantize, .accuracy = quantize_accuracy, .types = "fi",
	.attrs = "axis: int since 13, block_size: int since 21, output_dtype: int since 21, "
		 "precision: int since 23, saturate: int since 19",
};
const Op op_DequantizeLinear = {
	.expand = expand_dequantize, .accuracy = dequantize_accuracy, .types = "fiu",
	.attrs = "axis: int since 13, block_size: int since 21, output_dtype: int since 23",
};
const Op op_DynamicQuantizeLinear = {
	.expand = expand_dynamic_quantize, .accuracy = dynamic_quantize_accuracy, .types = "f"};

/* ---- Matrix products ---- */

/* Sets *OUT to operand K, a scale or zero point of matrix X, in a shape that broadcasts to X's; to
 * null if it is omitted. It has one element, or one for each row or, if ROWS is false, column. */
static bool like_matrix(Infer *in, Node *n, int x, int k, bool rows, Value **out)
{
	const Type *m = infer_type(n, x), *t = infer_type(n, k);

	*out = t && has_one_element(node_in(n, k)) ? expand_as_scalar(in, n, node_in(n, k))
						   : node_in(n, k);
	if (!t || !(*out)->type->rank)
		return true;
	if (m->rank < 2 || t->rank > m->rank)
		return infer_error(in, n, "operand %d has rank %d, the matrix %d", k + 1, t->rank,
				   m->rank);
	if (t->rank == 1)
		return along_axis(in, n, k, node_in(n, x), m->rank - (rows ? 2 : 1), rows ? 0 : 1,
				  2, out);
	for (int d = 0; d < t->rank; d++)
		if (d == t->rank - (rows ? 1 : 2)
			    ? !infer_dim_equals(in, n, &t->dims[d], dim_const(infer_ctx(in), 1),
						"an operand differs along the dim that is summed")
			    : !infer_broadcasts_to(in, n, &t->dims[d],
						   &m->dims[m->rank - t->rank + d],
						   "a scale or zero point does not fit its matrix"))
			return false;
	return true;
}

/* Checks the types of operand X, an integer or, if FLOATS, a small float, and of its zero point. */
static bool factor_type(Infer *in, Node *n, int x, int zero, bool floats)
{
	DType t = infer_type(n, x)->dtype;

	if (!is_quantised(t) || (!floats && !dtype_is_int(t)))
		return infer_error(in, n, "elements of type %s are not supported",
				   dtype_info[t].name);
	return zero_type(in, n, zero, t);
}

/* Sets *OUT to the product of matrices A and B minus their zero points. FLOATS: they may be small
 * floats. */
static bool product(Infer *in, Node *n, int a, int a_zero, int b, int b_zero, bool floats,
		    Value **out)
{
	Value *za, *zb, *x, *y;

	if (!factor_type(in, n, a, a_zero, floats) || !factor_type(in, n, b, b_zero, floats) ||
	    !like_matrix(in, n, a, a_zero, true, &za) || !like_matrix(in, n, b, b_zero, false, &zb))
		return false;
	x = minus_zero(in, n, node_in(n, a), za);
	y = minus_zero(in, n, node_in(n, b), zb);
	if (x->type->dtype != y->type->dtype) {
		x = expand_cast(in, n, x, DT_F32);
		y = expand_cast(in, n, y, DT_F32);
	}
	*out = EXPAND(in, n, MatMul, x, y);
	return true;
}

/* Sets *OUT to V, a product of numbers with scales A and B, as quantised numbers with the scale and
 * zero point that operands SCALE and SCALE + 1 are. */
static bool requantised(Infer *in, Node *n, Value *v, Value *a, Value *b, int scale, Value **out)
{
	DType t = infer_type(n, scale + 1)->dtype;
	Value *s, *zero;

	if (!is_quantised(t))
		return bad_type(in, n, "the result", t);
	if (!scalar_in(in, n, scale, &s) || !scalar_in(in, n, scale + 1, &zero))
		return false;
	s = EXPAND(in, n, Div,
		   EXPAND(in, n, Mul, expand_cast(in, n, a, DT_F32), expand_cast(in, n, b, DT_F32)),
		   expand_cast(in, n, s, DT_F32));
	*out = quantised(in, n, EXPAND(in, n, Mul, expand_cast(in, n, v, DT_F32), s), zero, t);
	return true;
}

static bool expand_matmul_integer(Infer *in, Node *n, Value **out)
{
	return product(in, n, 0, 2, 1, 3, false, out);
}

static bool expand_qlinear_matmul(Infer *in, Node *n, Value **out)
{
	Value *v, *a, *b;

	return like_matrix(in, n, 0, 1, true, &a) && like_matrix(in, n, 3, 4, false, &b) &&
	       product(in, n, 0, 2, 3, 5, true, &v) && requantised(in, n, v, a, b, 6, out);
}

const Op op_MatMulInteger = {.expand = expand_matmul_integer, .types = "iu"};
const Op op_QLinearMatMul = {.expand = expand_qlinear_matmul, .types = "fiu"};

/* ---- Convolutions ---- */

/* Sets *OUT to operand K, a scale or zero point of the weights W, in a shape that broadcasts to a
 * tensor of the weights' rank whose dim AT is the output channels; to null if it is omitted. */
static bool like_channels(Infer *in, Node *n, int w, int k, int at, Value **out)
{
	*out = node_in(n, k);
	if (!*out || has_one_element(*out)) {
		*out = *out ? expand_as_scalar(in, n, *out) : NULL;
		return true;
	}
	if (infer_type(n, w)->rank < 3)
		return infer_error(in, n, "the weights have rank %d, less than 3",
				   infer_type(n, w)->rank);
	return along_axis(in, n, k, node_in(n, w), 0, at, infer_type(n, w)->rank, out);
}

/* Sets *OUT to the convolution of operand X by operand W, minus their zero points, with N's
 * attributes. */
static bool convolution(Infer *in, Node *n, int x, int x_zero, int w, int w_zero, Value *bias,
			Value **out)
{
	Value *zx = NULL, *zw, *args[3];

	if (!factor_type(in, n, x, x_zero, false) || !factor_type(in, n, w, w_zero, false) ||
	    (node_in(n, x_zero) && !scalar_in(in, n, x_zero, &zx)) ||
	    !like_channels(in, n, w, w_zero, 0, &zw))
		return false;
	args[0] = minus_zero(in, n, node_in(n, x), zx);
	args[1] = minus_zero(in, n, node_in(n, w), zw);
	args[2] = bias;
	*out = expand_node_like(in, n, OP_Conv, args, 3);
	return true;
}

static bool expand_conv_integer(Infer *in, Node *n, Value **out)
{
	return convolution(in, n, 0, 2, 1, 3, NULL, out);
}

static bool expand_qlinear_conv(Infer *in, Node *n, Value **out)
{
	Value *v, *x, *w;

	return scalar_in(in, n, 1, &x) && like_channels(in, n, 3, 4, 1, &w) &&
	       convolution(in, n, 0, 2, 3, 5, node_in(n, 8), &v) &&
	       requantised(in, n, v, x, w, 6, out);
}

const Op op_ConvInteger = {
	.expand = expand_conv_integer, .types = "iu",
	.attrs = "auto_pad: string, dilations: ints, group: int, kernel_shape: ints, pads: ints, "
		 "strides: ints",
};
const Op op_QLinearConv = {
	.expand = expand_qlinear_conv, .types = "iu",
	.attrs = "auto_pad: string, dilations: ints, group: int, kernel_shape: ints, pads: ints, "
		 "strides: ints",
};
