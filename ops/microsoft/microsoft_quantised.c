/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quantised operators of the domain com.microsoft, as composites of the standard's
 * DequantizeLinear, QuantizeLinear and MatMulInteger and operators on real numbers. An operand (x,
 * scale, zero point) stands for (x - zero point) * scale; the zero point may be omitted.
 */
#include "ops/infer/build.h"
#include "ops/infer/infer.h"

/* The real numbers that operands X, X + 1 and X + 2 stand for. */
static Value *real(Infer *in, Node *n, int x)
{
	return EXPAND(in, n, DequantizeLinear, node_in(n, x), node_in(n, x + 1), node_in(n, x + 2));
}

/* Sets *OUT to V as elements of type T with the scale and zero point that operands SCALE and
 * SCALE + 1 are. */
static bool requantised(Infer *in, Node *n, Value *v, int scale, DType t, Value **out)
{
	*out = expand_node_ints(in, n, OP_QuantizeLinear,
				(Value *[]){v, node_in(n, scale), node_in(n, scale + 1)}, 3,
				"output_dtype", dtype_info[t].onnx);
	return true;
}

static bool required(Infer *in, Node *n, int k)
{
	return node_in(n, k) || infer_error(in, n, "operand %d is missing", k + 1);
}

/* ---- Elementwise ---- */

/* QLinearAdd, QLinearMul: operands a, b and the result have a scale and zero point each. */
static bool expand_binary(Infer *in, Node *n, Value **out)
{
	const OpKind op = n->op == OP_microsoft_QLinearAdd ? OP_Add : OP_Mul;
	Value *a, *b;

	if (!required(in, n, 3) || !required(in, n, 4) || !required(in, n, 6))
		return false;
	a = real(in, n, 0);
	b = real(in, n, 3);
	return requantised(in, n, expand_node(in, n, op, (Value *[]){a, b}, 2), 6,
			   infer_type(n, 0)->dtype, out);
}

/* QLinearSigmoid, QLinearLeakyRelu, QLinearSoftmax: OP with N's attributes. */
static bool unary(Infer *in, Node *n, OpKind op, Value **out)
{
	Value *x;

	if (!required(in, n, 3))
		return false;
	x = real(in, n, 0);
	return requantised(in, n, expand_node_like(in, n, op, &x, 1), 3, infer_type(n, 0)->dtype,
			   out);
}

static bool expand_sigmoid(Infer *in, Node *n, Value **out)
{
	return unary(in, n, OP_Sigmoid, out);
}

static bool expand_leaky_relu(Infer *in, Node *n, Value **out)
{
	return unary(in, n, OP_LeakyRelu, out);
}

/* Before opset 13, Softmax is over all dims from the axis on, which is 1 unless it is given. */
static bool expand_softmax(Infer *in, Node *n, Value **out)
{
	int axis, rank = infer_type(n, 0)->rank;
	bool flat = node_int(n, "opset", 13) < 13;
	Dim *const *from = infer_type(n, 0)->dims, *d[2];
	Ctx *c = infer_ctx(in);
	Value *x;

	if (!required(in, n, 3) ||
	    !infer_axis(in, n, node_int(n, "axis", -1), rank, &axis))
		return false;
	if (!flat || axis == rank - 1)
		return unary(in, n, OP_Softmax, out);
	d[0] = d[1] = dim_const(c, 1);
	for (int i = 0; i < rank; i++)
		d[i >= axis] = dim_mul(c, d[i >= axis], from[i]);
	x = expand_reshape(in, n, real(in, n, 0), d, 2);
	x = expand_node_ints(in, n, OP_Softmax, &x, 1, "axis", 1);
	return requantised(in, n, expand_reshape(in, n, x, from, rank), 3, infer_type(n, 0)->dtype,
			   out);
}

const Op op_microsoft_QLinearAdd = {.expand = expand_binary, .types = "iu"};
const Op op_microsoft_QLinearMul = {.expand = expand_binary, .types = "iu"};
const Op op_microsoft_QLinearSigmoid = {.expand = expand_sigmoid, .types = "iu"};
const Op op_microsoft_QLinearLeakyRelu = {
	.expand = expand_leaky_relu, .types = "iu",
	.attrs = "alpha: float",
};
const Op op_microsoft_QLinearSoftmax = {
	.expand = expand_softmax, .types = "iu",
	.attrs = "axis: int, opset: int",
};

/* ---- Pools ---- */

/* V with its channels moved from the last dim to dim 1, or, if BACK, the other way round. */
static Value *move_channels(Infer *in, Node *n, Value *v, bool back)
{
	int rank = v->type->rank;
	int64_t perm[MAX_RANK];

	if (rank < 3)
		return v;
	for (int d = 0; d < rank; d++)
		perm[d] = back ? d + 1 : d - 1;
	perm[0] = 0;
	perm[back ? rank - 1 : 1] = back ? 1 : rank - 1;
	return expand_transpose(in, n, v, perm, rank);
}

static bool pool(Infer *in, Node *n, OpKind op, Value **out)
{
	const bool last = node_int(n, "channels_last", 0) != 0;
	Value *x;

	if (!required(in, n, 3))
		return false;
	x = real(in, n, 0);
	x = last ? move_channels(in, n, x, false) : x;
	x = expand_node_like(in, n, op, &x, 1);
	x = last ? move_channels(in, n, x, true) : x;
	return requantised(in, n, x, 3, infer_type(n, 0)->dtype, out);
}

static bool expand_average_pool(Infer *in, Node *n, Value **out)
{
	return pool(in, n, OP_AveragePool, out);
}

static bool expand_global_average_pool(Infer *in, Node *n, Value **out)
{
	return pool(in, n, OP_GlobalAveragePool, out);
}

const Op op_microsoft_QLinearAveragePool = {
	.expand = expand_average_pool, .types = "iu",
	.attrs = "auto_pad: string, ceil_mode: int, channels_last: int, count_include_pad: int, "
		 "kernel_shape: ints, pads: ints, strides: ints",
};
const Op op_microsoft_QLinearGlobalAveragePool = {
	.expand = expand_global_average_pool,
	.types = "iu",
	.attrs = "channels_last: int",
};

/* ---- Concat ---- */

/* Operands: the scale and zero point of the result, then x, scale, zero point of each part. */
static bool expand_concat(Infer *in, Node *n, Value **out)
{
	const int parts = (n->nin - 2) / 3;
	Value **part;

	if (n->nin < 5 || (n->nin - 2) % 3)
		return infer_error(in, n, "has %d operands, expected 2 and 3 for each part",
				   n->nin);
	for (int k = 0; k < n->nin; k++)
		if (!required(in, n, k))
			return false;
	part = NEW_ARRAY(infer_arena(in), parts, Value *);
	for (int i = 0; i < parts; i++)
		if (!requantised(in, n, real(in, n, 2 + 3 * i), 0, infer_type(n, 1)->dtype,
				 &part[i]))
			return false;
	*out = expand_node_like(in, n, OP_Concat, part, parts);
	return true;
}

const Op op_microsoft_QLinearConcat = {.expand = expand_concat, .types = "f", .attrs = "axis: int"};

/* ---- Products ---- */

static Value *times(Infer *in, Node *n, Value *a, Value *b)
{
	return EXPAND(in, n, Mul, a, b);
}

/* V, whose rank is at most RANK, else one element as a scalar. */
static Value *of_rank(Infer *in, Node *n, Value *v, int rank)
{
	return v->type->rank > rank ? expand_as_scalar(in, n, v) : v;
}

/* A product of integers, V, times the scales of its factors, plus BIAS, which may be null. */
static bool scaled(Infer *in, Node *n, Value *v, Value *a, Value *b, Value *bias, Value **out)
{
	const int rank = v->type->rank;
	Value *y;

	y = times(in, n, of_rank(in, n, a, rank), of_rank(in, n, b, rank));
	y = times(in, n, expand_cast(in, n, v, DT_F32), y);
	*out = bias ? EXPAND(in, n, Add, y, of_rank(in, n, bias, rank)) : y;
	return infer_same_shape(in, n, v->type, (*out)->type,
				"a scale or the bias has more elements than the product");
}

static bool expand_matmul_to_float(Infer *in, Node *n, Value **out)
{
	Value *v = EXPAND(in, n, MatMulInteger, node_in(n, 0), node_in(n, 1), node_in(n, 4),
			  node_in(n, 5));

	return scaled(in, n, v, node_in(n, 2), node_in(n, 3), node_in(n, 6), out);
}

/* A is quantised to u8 by its range. */
static bool expand_dynamic_matmul(Infer *in, Node *n, Value **out)
{
	Node *m = expand_start(in, n, OP_DynamicQuantizeLinear, (Value *[]){node_in(n, 0)}, 1, 3);
	Value *a[3], *v;

	expand_finish_all(in, m, a);
	v = EXPAND(in, n, MatMulInteger, a[0], node_in(n, 1), a[2], node_in(n, 3));
	return scaled(in, n, v, a[1], node_in(n, 2), node_in(n, 4), out);
}

static Value *transposed_if(Infer *in, Node *n, int k, const char *attr)
{
	static const int64_t perm[] = {1, 0};

	return node_int(n, attr, 0) ? expand_transpose(in, n, node_in(n, k), perm, 2)
				    : node_in(n, k);
}

/* alpha * a * b + c; c is in units of the product's. It is divided by the scale of the result, if
 * there is one, and quantised only if there is a zero point, as ONNX Runtime has it. */
static bool expand_gemm(Infer *in, Node *n, Value **out)
{
	double alpha = (double)node_float(n, "alpha", 1);
	Value *v, *scale;

	if (infer_type(n, 0)->rank != 2 || infer_type(n, 3)->rank != 2)
		return infer_error(in, n, "the matrices have ranks %d and %d, expected 2",
				   infer_type(n, 0)->rank, infer_type(n, 3)->rank);
	v = EXPAND(in, n, MatMulInteger, transposed_if(in, n, 0, "transA"),
		   transposed_if(in, n, 3, "transB"), node_in(n, 2), node_in(n, 5));
	if (node_in(n, 6))
		v = EXPAND(in, n, Add, v, node_in(n, 6));
	scale = node_in(n, 1);
	if (alpha != 1)
		scale = times(in, n, scale, expand_scalar(in, n, DT_F32, alpha));
	if (!scaled(in, n, v, scale, node_in(n, 4), NULL, &v))
		return false;
	scale = node_in(n, 7);
	if (node_in(n, 8))
		v = EXPAND(in, n, QuantizeLinear, v,
			   scale ? scale : expand_scalar(in, n, DT_F32, 1), node_in(n, 8));
	else if (scale)
		v = EXPAND(in, n, Div, v, scale);
	*out = v;
	return true;
}

const Op op_microsoft_MatMulIntegerToFloat = {.expand = expand_matmul_to_float, .types = "iu"};
const Op op_microsoft_DynamicQuantizeMatMul = {.expand = expand_dynamic_matmul, .types = "f"};
const Op op_microsoft_QGemm = {
	.expand = expand_gemm, .types = "iu",
	.attrs = "alpha: float, transA: int, transB: int",
};

/* ---- QuantizeLinear, DequantizeLinear ---- */

/* As the standard's, which have had these types since opset 21. */
static bool expand_same(Infer *in, Node *n, Value **out)
{
	const OpKind op = n->op == OP_microsoft_QuantizeLinear ? OP_QuantizeLinear
							       : OP_DequantizeLinear;

	*out = expand_node_like(in, n, op, (Value *[]){node_in(n, 0), node_in(n, 1), node_in(n, 2)},
				3);
	return true;
}

const Op op_microsoft_QuantizeLinear = {.expand = expand_same, .types = "fi", .attrs = "axis: int"};
const Op op_microsoft_DequantizeLinear = {
	.expand = expand_same, .types = "fiu",
	.attrs = "axis: int",
};
