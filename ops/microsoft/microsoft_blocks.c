/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of the domain com.microsoft on weights that are quantised in blocks: MatMulNBits and
 * GatherBlockQuantized. Numbers of fewer than 8 bits are packed in bytes, the first one in the
 * lowest bits. Without a zero point, the middle of the numbers' range stands for 0.
 */
#include "ops/infer/build.h"
#include "ops/infer/infer.h"

Value *blocks_unpacked(Infer *in, Node *n, Value *v, int64_t bits, Dim *count)
{
	int64_t shift[8], last = -1, per = 8 / bits;
	int rank = v->type->rank;
	Ctx *c = infer_ctx(in);
	Dim *d[MAX_RANK];
	Node *m;

	if (bits == 8)
		return v;
	for (int64_t i = 0; i < per; i++)
		shift[i] = i * bits;
	for (int i = 0; i < rank; i++)
		d[i] = v->type->dims[i];
	d[rank - 1] = dim_mul(c, d[rank - 1], dim_const(c, per));
	v = expand_unsqueeze(in, n, v, last);
	m = expand_start(
		in, n, OP_BitShift,
		(Value *[]){v, expand_cast(in, n, expand_ints(in, n, shift, (int)per), DT_U8)}, 2,
		1);
	node_set_str(m, "direction", "RIGHT");
	v = EXPAND(in, n, BitwiseAnd, expand_finish(in, m),
		   expand_scalar(in, n, DT_U8, (double)((1 << bits) - 1)));
	v = expand_cast(in, n, v, bits == 4 ? DT_U4 : DT_U2);
	v = expand_reshape(in, n, v, d, rank);
	if (d[rank - 1] != count)
		v = expand_part(in, n, v, rank - 1, dim_const(c, 0), count);
	return v;
}

static bool bits_attr(Infer *in, Node *n, int64_t *bits)
{
	*bits = node_int(n, "bits", 4);
	return *bits == 2 || *bits == 4 || *bits == 8 ||
	       infer_error(in, n, "attribute \"bits\" is %lld, expected 2, 4 or 8",
			   (long long)*bits);
}

static bool block_attr(Infer *in, Node *n, int64_t otherwise, int64_t *size)
{
	*size = node_int(n, "block_size", otherwise);
	return (*size >= 8 && *size <= INT32_MAX && *size % 8 == 0) ||
	       infer_error(in, n, "attribute \"block_size\" is %lld, expected a multiple of 8",
			   (long long)*size);
}

/* ---- MatMulNBits ---- */

/* Sets *OUT to the zero points, operand 3, as [rows, blocks, 1] or a scalar, of type REAL. */
static bool zero_points(Infer *in, Node *n, int64_t bits, Dim *rows, Dim *blocks, DType real,
			Value **out)
{
	Ctx *c = infer_ctx(in);
	Value *v = node_in(n, 3);
	Dim *d[3] = {rows, blocks, dim_const(c, 1)};

	if (!v) {
		*out = expand_scalar(in, n, real, (double)(1 << (bits - 1)));
		return true;
	}
	if (v->type->dtype == DT_U8) {
		Dim *bytes[2] = {rows, dim_ceildiv(c, blocks, dim_const(c, 8 / bits))};

		v = expand_reshape(in, n, v, bytes, 2);
		v = blocks_unpacked(in, n, v, bits, blocks);
		if (!v)
			return false;
	}
	*out = expand_cast(in, n, expand_reshape(in, n, v, d, 3), real);
	return true;
}

/* The least exact arithmetic that attribute accuracy_level of MatMulNBits allows for operand 0:
 * 1 f32, 2 f16, 3 bf16, 4 bytes with a scale for each block. */
enum { LEVEL_INT8 = 4 };

/* A * W^T + bias, where W, [N, K], has the numbers of operand 1 in blocks along K. */
static bool expand_matmul_bits(Infer *in, Node *n, Value **out)
{
	static const int64_t perm[] = {1, 0};
	const DType t = infer_type(n, 0)->dtype, real = acc_dtype(t);
	int64_t bits, block, rows = node_int(n, "N", 0), columns = node_int(n, "K", 0);
	Ctx *c = infer_ctx(in);
	Dim *d[3];
	Value *w, *zero, *scale;
	Node *product;

	if (!bits_attr(in, n, &bits) || !block_attr(in, n, 0, &block))
		return false;
	if (!dtype_is_float(t) || infer_type(n, 1)->dtype != DT_U8)
		return infer_error(in, n, "the operands are %s and %s, expected floats and u8",
				   dtype_info[t].name, dtype_info[infer_type(n, 1)->dtype].name);
	if (rows < 1 || columns < 1 || rows > INT32_MAX || columns > INT32_MAX)
		return infer_error(in, n,
				   "attributes N and K are %lld and %lld, expected 1 or more",
				   (long long)rows, (long long)columns);
	if (node_in(n, 4) || node_int(n, "weight_prepacked", 0))
		return infer_error(in, n, "g_idx and weight_prepacked are not supported");
	d[0] = dim_const(c, rows);
	d[1] = dim_const(c, (columns + block - 1) / block);
	d[2] = dim_const(c, block * bits / 8);
	w = expand_reshape(in, n, node_in(n, 1), d, 3);
	w = blocks_unpacked(in, n, w, bits, dim_const(c, block));
	d[2] = dim_const(c, 1);
	scale = expand_reshape(in, n, node_in(n, 2), d, 3);
	if (!w || !zero_points(in, n, bits, d[0], d[1], real, &zero))
		return false;
	w = EXPAND(in, n, Sub, expand_cast(in, n, w, real), zero);
	w = EXPAND(in, n, Mul, w, expand_cast(in, n, scale, real));
	d[1] = dim_mul(c, d[1], dim_const(c, block));
	w = expand_slice(in, n, expand_reshape(in, n, w, d, 2), 1, 0, columns, 1);
	w = expand_transpose(in, n, expand_cast(in, n, w, t), perm, 2);
	product = expand_start(in, n, OP_MatMul, (Value *[]){node_in(n, 0), w}, 2, 1);
	if (node_int(n, "accuracy_level", 0) >= LEVEL_INT8)
		node_set_int(product, ATTR_BYTE_ROWS, 1);
	w = expand_finish(in, product);
	*out = node_in(n, 5) ? EXPAND(in, n, Add, w, node_in(n, 5)) : w;
	return true;
}

const Op op_microsoft_MatMulNBits = {
	.expand = expand_matmul_bits,
	.types = "f",
	.doc = "without g_idx and prepacked weights; 2, 4 or 8 bits; accuracy_level 4 lets CPUs quantise operand 0",
	.attrs = "K: int, N: int, accuracy_level: int, bits: int, block_size: int, "
		 "weight_prepacked: int",
};

/* ---- GatherBlockQuantized ---- */

static Value *gathered(Infer *in, Node *n, Value *v, int axis)
{
	return v ? expand_node_ints(in, n, OP_Gather, (Value *[]){v, node_in(n, 1)}, 2, "axis",
				    axis)
		 : NULL;
}

/* Gathers from the data, scales and zero points, and dequantises the gathered numbers, unless the
 * axis of the blocks is the one to gather along. */
static bool expand_gather_blocks(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	const bool bytes = x->dtype == DT_U8;
	int64_t bits, block;
	int along, axis, at;
	Value *v = node_in(n, 0), *scale = node_in(n, 2), *zero = node_in(n, 3);
	Node *m;

	if (!bits_attr(in, n, &bits) || !block_attr(in, n, 128, &block) ||
	    !infer_axis(in, n, node_int(n, "gather_axis", 0), x->rank, &along) ||
	    !infer_axis(in, n, node_int(n, "quantize_axis", 1), x->rank, &axis))
		return false;
	if (!dtype_is_int(x->dtype) || dtype_info[x->dtype].bits > 8)
		return infer_error(in, n, "data with elements of type %s are not supported",
				   dtype_info[x->dtype].name);
	if (!bytes && bits != dtype_info[x->dtype].bits)
		return infer_error(in, n, "attribute \"bits\" is %lld for data of type %s",
				   (long long)bits, dtype_info[x->dtype].name);
	if (bytes && (along || along == axis))
		return infer_error(in, n,
				   "bytes are gathered along axis 0, and their blocks are not");
	at = axis < along || along == axis ? axis : axis - 1 + infer_type(n, 1)->rank;
	if (along != axis) {
		v = gathered(in, n, v, along);
		scale = gathered(in, n, scale, along);
		zero = gathered(in, n, zero, along);
	}
	if (bytes) {
		Ctx *c = infer_ctx(in);
		Dim *last = v->type->dims[v->type->rank - 1];

		v = blocks_unpacked(in, n, v, bits, dim_mul(c, last, dim_const(c, 8 / bits)));
		zero = zero ? blocks_unpacked(in, n, zero, bits, scale->type->dims[scale->type->rank - 1])
			    : v ? expand_scalar(in, n, v->type->dtype, (double)(1 << (bits - 1)))
				: NULL;
		if (!v || !zero)
			return false;
	}
	m = expand_start(in, n, OP_DequantizeLinear, (Value *[]){v, scale, zero}, 3, 1);
	node_set_int(m, "axis", at);
	node_set_int(m, "block_size", block);
	*out = expand_finish(in, m);
	if (along == axis)
		*out = gathered(in, n, *out, along);
	return true;
}

const Op op_microsoft_GatherBlockQuantized = {
	.expand = expand_gather_blocks,
	.types = "iu",
	.doc = "an index out of range ends the run; data of floats is not supported",
	.attrs = "bits: int, block_size: int, gather_axis: int, quantize_axis: int",
};
