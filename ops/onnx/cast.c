/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conversions between element types. Between integers, values wrap. A float is rounded to the
 * nearest value of a narrower float. To an integer it is rounded towards zero and limited to the
 * range; NaN gives 0. The conversion to bool is x != 0. Between strings and numbers routines
 * convert (runtime/str_number.c); a string becomes a number of 32 or 64 bits, which is then
 * converted.
 */
#include "ops/infer/infer.h"

#include <math.h>

static bool check_cast(Infer *in, Node *n, DType to)
{
	if (to == DT_NONE && !node_attr(n, "to"))
		return infer_error(in, n, "attribute \"to\" is missing");
	if (to == DT_NONE)
		return infer_error(
			in, n,
			"attribute \"to\" is %lld, which is not a supported element type",
			(long long)node_int(n, "to", 0));
	return infer_result(in, n, 0, to, infer_type(n, 0)->rank, infer_type(n, 0)->dims);
}

static bool infer_cast(Infer *in, Node *n)
{
	int64_t to = node_int(n, "to", 0);

	return check_cast(in, n, to > 0 && to < 1000 ? dtype_by_onnx((int)to) : DT_NONE);
}

static bool infer_castlike(Infer *in, Node *n)
{
	return check_cast(in, n, infer_type(n, 1)->dtype);
}

/* Clamps a float to the range of an 8 or 16-bit integer, since the store would wrap. For 4 and 2
 * bits ONNX requires wrapping. */
static Expr *float_to_int(ExprPool *p, Expr *e, DType to)
{
	CType t = dtype_ctype(to);
	int bits = dtype_info[to].bits;
	bool sign = dtype_is_signed(to);
	int64_t hi;

	e = ex_cvt(p, t, e);
	if (bits < 8 || bits >= 32)
		return e;
	hi = ((int64_t)1 << (sign ? bits - 1 : bits)) - 1;
	e = ex_op2(p, IN_max, e, ex_int(p, t, sign ? -hi - 1 : 0));
	return ex_op2(p, IN_min, e, ex_int(p, t, hi));
}

/* Rounds an f64 to odd as f32: if it is inexact, the last bit is set. A second rounding to fewer
 * bits then gives the same as a single rounding. */
static Expr *round_to_odd(ExprPool *p, Expr *x)
{
	Expr *near = ex_cvt(p, CT_F32, x), *back = ex_cvt(p, CT_F64, near),
	     *bits = ex_bits(p, CT_I32, near), *beyond;

	beyond = ex_op2(p, IN_gt, ex_op1(p, IN_abs, back), ex_op1(p, IN_abs, x));
	bits = ex_op2(p, IN_sub, bits, ex_cvt(p, CT_I32, beyond));
	bits = ex_op2(p, IN_or, bits, ex_int(p, CT_I32, 1));
	return ex_op3(p, IN_select, ex_op2(p, IN_eq, back, x), near, ex_bits(p, CT_F32, bits));
}

/* A power of two: the one at or below |x|, or (up) the next one if |x| is not a power of two. */
static Expr *power_of_two(ExprPool *p, Expr *x, bool up, bool saturate)
{
	Expr *b = ex_op2(p, IN_and, ex_bits(p, CT_I32, x), ex_int(p, CT_I32, 0x7fffffff)), *e,
	     *small;

	e = up ? ex_op2(p, IN_add, b, ex_int(p, CT_I32, 0x7fffff)) : b;
	e = ex_op2(p, IN_shr, e, ex_int(p, CT_I32, 23));
	if (saturate)
		e = ex_op2(p, IN_min, e, ex_int(p, CT_I32, 0xfe));
	small = ex_op2(p, IN_eq, e, ex_int(p, CT_I32, 0));
	e = ex_op3(p, IN_select, small, ex_int(p, CT_I32, 0x400000),
		   ex_op2(p, IN_shl, e, ex_int(p, CT_I32, 23)));
	e = ex_op3(p, IN_select, ex_op2(p, IN_ge, b, ex_int(p, CT_I32, 0x7f800000)),
		   ex_int(p, CT_I32, 0x7fc00000), e);
	return ex_bits(p, CT_F32, e);
}

static Expr *to_float(ExprPool *p, Node *n, Expr *e, DType to)
{
	CType t = dtype_ctype(to);
	bool saturate = node_int(n, "saturate", 1) != 0;
	const char *mode = node_str(n, "round_mode", "up");

	if (dtype_info[to].bits >= 32 || e->ct == CT_BOOL || e->ct == CT_F32)
		e = ex_cvt(p, t, e);
	else
		e = round_to_odd(p, ex_cvt(p, CT_F64, e));
	if (dtype_info[to].bits >= 32)
		return e;
	if (to == DT_F8E8M0 && strcmp(mode, "nearest"))
		return power_of_two(p, e, !strcmp(mode, "up"), saturate);
	return saturate ? ex_roundsat(p, to, e) : ex_round(p, to, e);
}

/* The number that a string is, in the type that is nearest to TO; a bool is whether it is not 0. */
static Expr *number_of(ExprPool *p, Expr *e, DType to)
{
	static const Inst of[CT_COUNT] = {
		[CT_BOOL] = RT_str_to_f64, [CT_I32] = RT_str_to_i64, [CT_I64] = RT_str_to_i64,
		[CT_U32] = RT_str_to_i64,  [CT_U64] = RT_str_to_u64, [CT_F32] = RT_str_to_f32,
		[CT_F64] = RT_str_to_f64};

	return ex_op1(p, of[dtype_ctype(to)], e);
}

static Expr *string_of(ExprPool *p, Expr *e)
{
	switch (e->ct) {
	case CT_F32: return ex_op1(p, RT_str_of_f32, e);
	case CT_F64: return ex_op1(p, RT_str_of_f64, e);
	case CT_U64: return ex_op1(p, RT_str_of_u64, e);
	default: return ex_op1(p, RT_str_of_i64, ex_cvt(p, CT_I64, e));
	}
}

static Expr *cast_expr(Kernel *k, Node *n, Expr *e, DType from, DType to)
{
	ExprPool *p = k->pool;

	if (from == DT_STR && to == DT_STR)
		return e;
	if (to == DT_STR)
		return string_of(p, e);
	if (from == DT_STR)
		e = number_of(p, e, to);
	if (to == DT_BOOL)
		return e->ct == CT_BOOL ? e : ex_op2(p, IN_ne, e, ex_num(p, e->ct, 0));
	if (dtype_is_float(to))
		return to_float(p, n, e, to);
	if (ctype_is_float(e->ct))
		return float_to_int(p, e, to);
	return ex_cvt(p, dtype_ctype(to), e);
}

static void lower_cast(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Iter *it[MAX_RANK];

	(void)in;
	kernel_iters_of(k, out, it);
	kernel_map_id(k, it, out,
		      cast_expr(k, n, kernel_load_iters(k, lower_in(k, 0), it),
				lower_in(k, 0)->dtype, out->dtype));
}

/* An integer keeps what is a multiple of whole steps. */
static void cast_accuracy(const Node *n, int o, int depth, Accuracy *a)
{
	const DType to = dtype_by_onnx((int)node_int(n, "to", 0));

	(void)o;
	*a = value_accuracy(node_in(n, 0), depth);
	if (dtype_is_float(to))
		return;
	a->unit = 0;
	a->step = dtype_is_int(to) && a->step == rint(a->step) ? a->step : 0;
}

const Op op_Cast = {
	.infer = infer_cast, .lower = lower_cast, .types = "fiubs", .host = "to and from strings",
	.accuracy = cast_accuracy,
	.attrs = "round_mode: string since 24, saturate: int since 19, to: int",
};
const Op op_CastLike = {
	.infer = infer_castlike,
	.lower = lower_cast,
	.types = "fiubs",
	.host = "to and from strings",
	.attrs = "round_mode: string since 24, saturate: int since 19",
};

/* ---- BitCast ---- */

static bool infer_bitcast(Infer *in, Node *n)
{
	int64_t code = node_int(n, "to", 0);
	DType to = code > 0 && code < 1000 ? dtype_by_onnx((int)code) : DT_NONE,
	      from = infer_type(n, 0)->dtype;

	if (from == DT_STR || to == DT_STR)
		return infer_error(in, n, "strings are not supported");
	if (to == DT_NONE || dtype_info[to].bits != dtype_info[from].bits)
		return infer_error(
			in, n, "cannot take the bits of %s as %s: both must have the same width",
			dtype_info[from].name, to ? dtype_info[to].name : "an unknown type");
	return infer_result(in, n, 0, to, infer_type(n, 0)->rank, infer_type(n, 0)->dims);
}

static DType bits_type(int bits)
{
	switch (bits) {
	case 2: return DT_U2;
	case 4: return DT_U4;
	case 8: return DT_U8;
	case 16: return DT_U16;
	case 32: return DT_U32;
	case 64: return DT_U64;
	default: return DT_NONE;
	}
}

/* If the scalar type has the element's width, `bits` reinterprets it. Narrower elements are moved
 * as unsigned integers: both buffers are declared with that type. */
static void lower_bitcast(Infer *in, Node *n, Kernel *k)
{
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	int bits = dtype_info[out->dtype].bits;

	(void)in;
	(void)n;
	kernel_iters_of(k, out, it);
	if (bits >= 32) {
		kernel_map_id(
			k, it, out,
			ex_bits(k->pool, dtype_ctype(out->dtype), kernel_load_iters(k, x, it)));
		return;
	}
	if (dtype_is_float(x->dtype) || x->dtype == DT_BOOL)
		x->dtype = bits_type(bits);
	if (dtype_is_float(out->dtype) || out->dtype == DT_BOOL)
		out->dtype = bits_type(bits);
	kernel_map_id(k, it, out, kernel_load_iters(k, x, it));
}

const Op op_BitCast = {
	.infer = infer_bitcast, .lower = lower_bitcast, .types = "fiub",
	.attrs = "to: int",
};
