/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* Every instruction over a strip: one loop for each instruction and type, made from
 * ir/expr/scalar.h. */
#include "ir/eval/eval_impl.h"
#include "ir/expr/scalar.h"

#include <assert.h>
#include <string.h>

#define T_bool uint8_t
#define T_i32 int32_t
#define T_i64 int64_t
#define T_u32 uint32_t
#define T_u64 uint64_t
#define T_f32 float
#define T_f64 double

#define LOOP(attr, name, R, A, B, C, expr)                                                        \
	attr static void name(void *restrict dst, const void *pa, const void *pb, const void *pc, \
			      int n)                                                              \
	{                                                                                         \
		R *d = dst;                                                                       \
		const A *a = pa;                                                                  \
		const B *b = pb;                                                                  \
		const C *c = pc;                                                                  \
		(void)b;                                                                          \
		(void)c;                                                                          \
		for (int i = 0; i < n; i++)                                                       \
			d[i] = (R)(expr);                                                         \
	}

#define OP1(op, t, expr) LOOP(, op##_##t, T_##t, T_##t, T_##t, T_##t, expr)
#define OP2(op, t, expr) OP1(op, t, expr)
#define TEST(op, t, expr) LOOP(, op##_##t, uint8_t, T_##t, T_##t, T_##t, expr)

#define INTS(X) X(i32) X(i64) X(u32) X(u64)
#define FLOATS(X) X(f32) X(f64)
#define NUMBERS(X) INTS(X) FLOATS(X)
#define ALL(X) X(bool) NUMBERS(X)

/* Plain arithmetic on signed types goes through the unsigned ones: it wraps. */
#define U_i32 uint32_t
#define U_i64 uint64_t
#define U_u32 uint32_t
#define U_u64 uint64_t
#define U_f32 float
#define U_f64 double

#define ARITH(t)                               \
	OP1(neg, t, -(U_##t)a[i])              \
	OP1(abs, t, dl_abs_##t(a[i]))          \
	OP2(add, t, (U_##t)a[i] + (U_##t)b[i]) \
	OP2(sub, t, (U_##t)a[i] - (U_##t)b[i]) \
	OP2(mul, t, (U_##t)a[i] * (U_##t)b[i]) \
	OP2(div, t, dl_div_##t(a[i], b[i]))    \
	OP2(mod, t, dl_mod_##t(a[i], b[i]))    \
	OP2(rem, t, dl_rem_##t(a[i], b[i]))    \
	OP2(min, t, dl_min_##t(a[i], b[i]))    \
	OP2(max, t, dl_max_##t(a[i], b[i]))
NUMBERS(ARITH)
OP2(min, bool, a[i] & b[i])
OP2(max, bool, a[i] | b[i])

#define INT(t)                                        \
	OP2(floordiv, t, dl_floordiv_##t(a[i], b[i])) \
	OP2(ipow, t, dl_ipow_##t(a[i], b[i]))         \
	OP2(mulhi, t, dl_mulhi_##t(a[i], b[i]))       \
	OP2(shl, t, dl_shl_##t(a[i], b[i]))           \
	OP2(shr, t, dl_shr_##t(a[i], b[i]))
INTS(INT)

#define FLOAT(t)                                      \
	OP1(sqrt, t, dl_sqrt_##t(a[i]))               \
	OP1(ex2, t, dl_ex2_##t(a[i]))                 \
	OP1(floor, t, dl_floor_##t(a[i]))             \
	OP1(ceil, t, dl_ceil_##t(a[i]))               \
	OP1(trunc, t, dl_trunc_##t(a[i]))             \
	OP1(rint, t, dl_rint_##t(a[i]))               \
	OP2(copysign, t, dl_copysign_##t(a[i], b[i])) \
	OP2(scale, t, dl_scale_##t(a[i], b[i]))       \
	LOOP(EVAL_CLONES, fma_##t, T_##t, T_##t, T_##t, T_##t, dl_fma_##t(a[i], b[i], c[i]))
FLOATS(FLOAT)

#define CMP(t)                       \
	TEST(eq, t, a[i] == b[i])    \
	TEST(ne, t, a[i] != b[i])    \
	TEST(lt, t, a[i] < b[i])     \
	TEST(le, t, a[i] <= b[i])    \
	TEST(gt, t, a[i] > b[i])     \
	TEST(ge, t, a[i] >= b[i])    \
	TEST(isnan, t, a[i] != a[i]) \
	LOOP(, select_##t, T_##t, uint8_t, T_##t, T_##t, a[i] ? b[i] : c[i])
ALL(CMP)

#define BITS(t)                  \
	OP2(and, t, a[i] & b[i]) \
	OP2(or, t, a[i] | b[i])  \
	OP2(xor, t, a[i] ^ b[i])
INTS(BITS)
BITS(bool)
#define NOT(t) OP1(not, t, ~a[i])
INTS(NOT)
OP1(not, bool, !a[i])

/* Two roundings, with the product in memory so that no compiler can fuse it. */
#define MAD(t)                                                                                  \
	static void mad_##t(void *restrict dst, const void *pa, const void *pb, const void *pc, \
			    int n)                                                              \
	{                                                                                       \
		T_##t product[STRIP], *d = dst;                                                 \
		const T_##t *c = pc;                                                            \
                                                                                                \
		mul_##t(product, pa, pb, NULL, n);                                              \
		add_##t(d, product, c, NULL, n);                                                \
	}
FLOATS(MAD)

/* The types that each rule allows; an instruction of ir/expr/insts.def without its loops does not
 * compile. */
#define ROW_INTS(op) \
	[CT_I32] = op##_i32, [CT_I64] = op##_i64, [CT_U32] = op##_u32, [CT_U64] = op##_u64
#define ROW_FLOATS(op) [CT_F32] = op##_f32, [CT_F64] = op##_f64
#define ROW_ARITH(op) [IN_##op] = {ROW_INTS(op), ROW_FLOATS(op)},
#define ROW_FLOAT(op) [IN_##op] = {ROW_FLOATS(op)},
#define ROW_INT(op) [IN_##op] = {ROW_INTS(op)},
#define ROW_BITS(op) [IN_##op] = {[CT_BOOL] = op##_bool, ROW_INTS(op)},
#define ROW_CMP(op) [IN_##op] = {[CT_BOOL] = op##_bool, ROW_INTS(op), ROW_FLOATS(op)},
#define ROW_TEST(op) ROW_CMP(op)
#define ROW_SELECT(op) ROW_CMP(op)
#define ROW_CVT(op)     /* two types: vec_cvt, */
#define ROW_BITCAST(op) /* vec_bits, */
#define ROW_ROUND(op)   /* vec_round; */
#define ROW_INDEX(op)   /* it may fault: ir/eval/eval_prog.c */
#define INST(name, n, rule, c) ROW_##rule(name)

static const VecFn inst_fn[INST_COUNT][CT_COUNT] = {
#include "ir/expr/insts.def"
	/* the instruction that combines bools in reductions */
	[IN_min][CT_BOOL] = min_bool,
	[IN_max][CT_BOOL] = max_bool,
};

#undef INST

VecFn vec_inst(Inst i, CType t)
{
	return inst_fn[i][t];
}

/* ---- Conversions ---- */

#define CVT(s, t) LOOP(, cvt_##s##_##t, T_##t, T_##s, T_##s, T_##s, dl_cvt_##s##_##t(a[i]))
#define CVT_FROM(s) \
	CVT(s, bool) CVT(s, i32) CVT(s, i64) CVT(s, u32) CVT(s, u64) CVT(s, f32) CVT(s, f64)
CVT_FROM(bool)
CVT_FROM(i32)
CVT_FROM(i64)
CVT_FROM(u32)
CVT_FROM(u64)
CVT_FROM(f32)
CVT_FROM(f64)

#define CVT_ROW(S, s)                                                            \
	[CT_##S] = {NULL,          cvt_##s##_bool, cvt_##s##_i32, cvt_##s##_i64, \
		    cvt_##s##_u32, cvt_##s##_u64,  cvt_##s##_f32, cvt_##s##_f64},

VecFn vec_cvt(CType from, CType to)
{
	static const VecFn fn[CT_COUNT][CT_COUNT] = {CVT_ROW(BOOL, bool) CVT_ROW(I32, i32) CVT_ROW(
		I64, i64) CVT_ROW(U32, u32) CVT_ROW(U64, u64) CVT_ROW(F32, f32) CVT_ROW(F64, f64)};

	return fn[from][to];
}

static void copy1(void *restrict d, const void *a, const void *b, const void *c, int n)
{
	(void)b;
	(void)c;
	memcpy(d, a, (size_t)n);
}

static void copy4(void *restrict d, const void *a, const void *b, const void *c, int n)
{
	(void)b;
	(void)c;
	memcpy(d, a, (size_t)n * 4);
}

static void copy8(void *restrict d, const void *a, const void *b, const void *c, int n)
{
	(void)b;
	(void)c;
	memcpy(d, a, (size_t)n * 8);
}

VecFn vec_bits(CType from, CType to)
{
	if (ctype_bytes(from) != ctype_bytes(to))
		return NULL;
	return ctype_bytes(to) == 8 ? copy8 : ctype_bytes(to) == 4 ? copy4 : copy1;
}

void vec_fill(CType t, void *dst, const void *one, int n)
{
	int size = ctype_bytes(t);
	uint64_t v8;
	uint32_t v4;

	if (size == 1) {
		memset(dst, *(const uint8_t *)one, (size_t)n);
		return;
	}
	if (size == 4) {
		memcpy(&v4, one, 4);
		for (int i = 0; i < n; i++)
			((uint32_t *)dst)[i] = v4;
		return;
	}
	memcpy(&v8, one, 8);
	for (int i = 0; i < n; i++)
		((uint64_t *)dst)[i] = v8;
}

/* ---- Rounding to an element type ---- */

static int64_t wrap_to(DType to, int64_t v)
{
	int drop = 64 - dtype_info[to].bits;

	if (to == DT_BOOL)
		return v != 0;
	if (dtype_is_signed(to))
		return (int64_t)((uint64_t)v << drop) >> drop;
	return (int64_t)(((uint64_t)v << drop) >> drop);
}

/* Through storage, so that an f64 is rounded once; only a non-saturating f8 goes through f32. */
static double round_f64(DType to, double v, bool saturate)
{
	uint64_t one = 0;

	if (!saturate && dtype_info[to].bits < 16)
		return (double)dtype_round_f32(to, (float)v, false);
	dtype_store_f64(to, &one, 0, v);
	return dtype_load_f64(to, &one, 0);
}

void vec_round(Inst i, DType to, CType t, void *dst, const void *a, int n)
{
	bool saturate = i == IN_roundsat;

	for (int l = 0; l < n; l++)
		switch (t) {
		case CT_F32:
			((float *)dst)[l] = dtype_round_f32(to, ((const float *)a)[l], saturate);
			break;
		case CT_F64:
			((double *)dst)[l] = round_f64(to, ((const double *)a)[l], saturate);
			break;
		case CT_BOOL: ((uint8_t *)dst)[l] = ((const uint8_t *)a)[l]; break;
		case CT_I32:
			((int32_t *)dst)[l] = (int32_t)wrap_to(to, ((const int32_t *)a)[l]);
			break;
		case CT_U32:
			((uint32_t *)dst)[l] = (uint32_t)wrap_to(to, ((const uint32_t *)a)[l]);
			break;
		default: ((int64_t *)dst)[l] = wrap_to(to, ((const int64_t *)a)[l]);
		}
}

/* ---- Strips as f64 ---- */

#define TO_F64(T)                                     \
	for (int i = 0; i < n; i++)                   \
		dst[i] = (double)((const T *)src)[i]; \
	break

void strip_to_f64(CType t, const void *src, double *dst, int n)
{
	switch (t) {
	case CT_BOOL: TO_F64(uint8_t);
	case CT_I32: TO_F64(int32_t);
	case CT_I64: TO_F64(int64_t);
	case CT_U32: TO_F64(uint32_t);
	case CT_U64: TO_F64(uint64_t);
	case CT_F32: TO_F64(float);
	case CT_F64: TO_F64(double);
	case CT_NONE:
	case CT_COUNT: assert(t != CT_NONE && t != CT_COUNT);
	}
}

void strip_from_f64(CType t, const double *src, void *dst, int n)
{
	VecFn fn = vec_cvt(CT_F64, t);

	fn(dst, src, NULL, NULL, n);
}
