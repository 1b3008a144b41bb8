/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Element types: the table, and the reference conversions. All small floats are described by rows
 * of `formats` and converted exactly through f64. ir/expr/scalar.h has the fast conversions; the
 * tests compare the two.
 */
#include "ir/dtype.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

const DTypeInfo dtype_info[DT_COUNT] = {
	[DT_NONE] = {"none", 0, 0, CT_NONE},
#define DTYPE(name, text, onnx, bits, ct) [DT_##name] = {text, onnx, bits, CT_##ct},
#include "ir/dtypes.def"
#undef DTYPE
};

const char *const ctype_name[CT_COUNT] = {"none", "bool", "i32", "i64", "u32", "u64", "f32", "f64"};

typedef enum FloatKind {
	FK_NONE,
	FK_IEEE,   /* the top exponent holds inf and NaN */
	FK_FN,     /* no inf; all ones is NaN */
	FK_FNUZ,   /* no inf, no -0; its code is NaN */
	FK_FINITE, /* neither inf nor NaN */
	FK_POW2    /* f8e8m0: powers of two, all ones is NaN */
} FloatKind;

typedef struct FloatFormat {
	FloatKind kind;
	int man, bias; /* mantissa bits, exponent bias */
	double max;    /* the largest finite value */
} FloatFormat;

static const FloatFormat formats[DT_COUNT] = {
	[DT_F16] = {FK_IEEE, 10, 15, 65504},   [DT_BF16] = {FK_IEEE, 7, 127, 0x1.fep127},
	[DT_F8E4M3FN] = {FK_FN, 3, 7, 448},    [DT_F8E4M3FNUZ] = {FK_FNUZ, 3, 8, 240},
	[DT_F8E5M2] = {FK_IEEE, 2, 15, 57344}, [DT_F8E5M2FNUZ] = {FK_FNUZ, 2, 16, 57344},
	[DT_F4E2M1] = {FK_FINITE, 1, 1, 6},    [DT_F6E2M3] = {FK_FINITE, 3, 1, 7.5},
	[DT_F6E3M2] = {FK_FINITE, 2, 3, 28},   [DT_F8E8M0] = {FK_POW2, 0, 127, 0x1p127},
};

/* ---- The table ---- */

DType dtype_by_name(const char *name)
{
	for (DType t = DT_NONE + 1; t < DT_COUNT; t++)
		if (!strcmp(dtype_info[t].name, name))
			return t;
	return DT_NONE;
}

DType dtype_by_onnx(int code)
{
	for (DType t = DT_NONE + 1; t < DT_COUNT; t++)
		if (dtype_info[t].onnx == code)
			return t;
	return DT_NONE;
}

bool dtype_is_float(DType t)
{
	return t == DT_F32 || t == DT_F64 || formats[t].kind != FK_NONE;
}

bool dtype_is_int(DType t)
{
	return t != DT_NONE && t != DT_STR && t != DT_BOOL && !dtype_is_float(t);
}

bool dtype_is_half(DType t)
{
	return t == DT_F16 || t == DT_BF16;
}

bool dtype_is_byte(DType t)
{
	return t == DT_I8 || t == DT_U8;
}

bool dtype_is_signed(DType t)
{
	return dtype_is_float(t) || (dtype_is_int(t) && dtype_info[t].name[0] == 'i');
}

bool ctype_is_float(CType t)
{
	return t == CT_F32 || t == CT_F64;
}

CType dtype_ctype(DType t)
{
	return dtype_info[t].ctype;
}

double dtype_largest(DType t)
{
	return t == DT_F32 ? (double)FLT_MAX : t == DT_F64 ? DBL_MAX : formats[t].max;
}

int64_t dtype_size(DType t, int64_t n)
{
	int bits = dtype_info[t].bits;
	int64_t total;

	if (n < 0 || __builtin_mul_overflow(n / 8, (int64_t)bits, &total))
		return -1;
	if (__builtin_add_overflow(total, (n % 8 * bits + 7) / 8, &total))
		return -1;
	return total;
}

DType ctype_dtype(CType t)
{
	static const DType of[CT_COUNT] = {DT_NONE, DT_BOOL, DT_I32, DT_I64,
					   DT_U32,  DT_U64,  DT_F32, DT_F64};

	return of[t];
}

/* ---- Codes of the small floats ---- */

/* |V| (finite) rounded to the format's precision, to nearest even. The result may exceed the
 * largest value. */
static double round_magnitude(const FloatFormat *f, double v)
{
	int e, unit;

	if (v == 0)
		return 0;
	frexp(v, &e);
	unit = (e - 1 < 1 - f->bias ? 1 - f->bias : e - 1) - f->man;
	return ldexp(nearbyint(ldexp(v, -unit)), unit);
}

/* Ties round up; zero and negative numbers give the code of their magnitude, as in ONNX's own
 * conversion. */
static double round_pow2(double v, bool saturate)
{
	int e;
	double m;

	v = fabs(v);
	if (!(v <= 0x1p127))
		return isnan(v) || !saturate ? (v < 0x1.8p127 ? 0x1p127 : NAN) : 0x1p127;
	if (v <= 0x1p-127)
		return 0x1p-127;
	m = frexp(v, &e);
	if (v < 0x1p-126)
		return 0x1p-126;
	return ldexp(1, m >= 0.75 ? e : e - 1);
}

/* The value (or inf, or NaN) that V has after it is stored as type T. */
static double round_value(DType t, double v, bool saturate, bool keep_inf)
{
	const FloatFormat *f = &formats[t];
	double r;

	if (f->kind == FK_POW2)
		return round_pow2(v, saturate);
	if (isnan(v))
		return f->kind == FK_FINITE ? 0 : NAN;
	if (isinf(v) && f->kind == FK_IEEE && keep_inf)
		return v;
	r = isinf(v) ? HUGE_VAL : round_magnitude(f, fabs(v));
	if (r > f->max) {
		if (f->kind == FK_FINITE || saturate)
			r = f->max;
		else
			r = f->kind == FK_IEEE ? HUGE_VAL : NAN;
	}
	if (f->kind == FK_FNUZ && r == 0)
		return 0;
	return isnan(r) ? NAN : copysign(r, v);
}

/* f16 and bf16 overflow to infinity whatever SATURATE says. */
static bool can_saturate(DType t)
{
	return t != DT_F16 && t != DT_BF16;
}

static unsigned float_code(DType t, double v)
{
	const FloatFormat *f = &formats[t];
	unsigned sign = 1u << (dtype_info[t].bits - 1), top, code;
	int e;

	if (f->kind == FK_POW2) {
		frexp(v, &e);
		return isnan(v) ? 0xff : (unsigned)(e - 1 + 127);
	}
	top = sign - 1 - ((1u << f->man) - 1); /* the exponent all ones */
	if (isnan(v)) {
		if (f->kind == FK_FNUZ)
			return sign;
		return f->kind == FK_FN ? sign - 1 : top | 1u << (f->man - 1);
	}
	code = signbit(v) ? sign : 0;
	v = fabs(v);
	if (isinf(v))
		return code | top;
	frexp(v, &e);
	e -= 1;
	if (v == 0 || e < 1 - f->bias)
		return code | (unsigned)ldexp(v, f->man - 1 + f->bias);
	return code + ((unsigned)(e + f->bias - 1) << f->man) + (unsigned)ldexp(v, f->man - e);
}

static double float_value(DType t, unsigned code)
{
	const FloatFormat *f = &formats[t];
	unsigned sign = 1u << (dtype_info[t].bits - 1), mag = code & (sign - 1);
	int e;
	double v;

	if (f->kind == FK_POW2)
		return code == 0xff ? NAN : ldexp(1, (int)code - 127);
	if ((f->kind == FK_FNUZ && code == sign) || (f->kind == FK_FN && mag == sign - 1))
		return NAN;
	e = (int)(mag >> f->man);
	v = mag & ((1u << f->man) - 1);
	if (f->kind == FK_IEEE && mag >= sign - (1u << f->man))
		v = v > 0 ? NAN : HUGE_VAL;
	else if (e == 0)
		v = ldexp(v, 1 - f->bias - f->man);
	else
		v = ldexp(v + (1 << f->man), e - f->bias - f->man);
	return code & sign ? -v : v;
}

/* ---- Elements of packed arrays ---- */

/* The bits of element I, little-endian. An element of less than 8 bits may span two bytes (f6). */
static uint64_t load_bits(DType t, const void *p, int64_t i)
{
	int bits = dtype_info[t].bits;
	const unsigned char *b = p;
	uint64_t v = 0;

	if (bits >= 8) {
		memcpy(&v, b + i * (bits / 8), (size_t)bits / 8);
		return v;
	}
	b += i / 8 * bits + i % 8 * bits / 8;
	bits += (int)(i % 8 * bits % 8);
	v = b[0];
	if (bits > 8)
		v |= (uint64_t)b[1] << 8;
	return (v >> (bits - dtype_info[t].bits)) & ((1u << dtype_info[t].bits) - 1);
}

static void store_bits(DType t, void *p, int64_t i, uint64_t v)
{
	int bits = dtype_info[t].bits, shift;
	unsigned char *b = p;
	uint64_t mask;

	if (bits >= 8) {
		memcpy(b + i * (bits / 8), &v, (size_t)bits / 8);
		return;
	}
	b += i / 8 * bits + i % 8 * bits / 8;
	shift = (int)(i % 8 * bits % 8);
	mask = ((1u << bits) - 1) << shift;
	v = v << shift & mask;
	b[0] = (unsigned char)((b[0] & ~mask) | v);
	if (shift + bits > 8)
		b[1] = (unsigned char)((b[1] & ~(mask >> 8)) | v >> 8);
}

static int64_t sign_extend(uint64_t v, int bits)
{
	return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

static int64_t saturate_i64(double v)
{
	if (isnan(v))
		return 0;
	if (v >= 0x1p63)
		return INT64_MAX;
	return v < -0x1p63 ? INT64_MIN : (int64_t)v;
}

int64_t dtype_load_i64(DType t, const void *p, int64_t i)
{
	uint64_t v;

	if (dtype_is_float(t))
		return saturate_i64(dtype_load_f64(t, p, i));
	v = load_bits(t, p, i);
	if (t == DT_BOOL)
		return v != 0;
	return dtype_is_signed(t) ? sign_extend(v, dtype_info[t].bits) : (int64_t)v;
}

double dtype_load_f64(DType t, const void *p, int64_t i)
{
	uint64_t v;
	double d;
	float f;

	if (!dtype_is_float(t)) {
		int64_t n = dtype_load_i64(t, p, i);

		return t == DT_U64 ? (double)(uint64_t)n : (double)n;
	}
	v = load_bits(t, p, i);
	if (t == DT_F64) {
		memcpy(&d, &v, sizeof d);
		return d;
	}
	if (t == DT_F32) {
		memcpy(&f, &v, sizeof f);
		return (double)f;
	}
	return float_value(t, (unsigned)v);
}

void dtype_store_i64(DType t, void *p, int64_t i, int64_t v)
{
	if (dtype_is_float(t))
		dtype_store_f64(t, p, i, (double)v);
	else
		store_bits(t, p, i, t == DT_BOOL ? v != 0 : (uint64_t)v);
}

void dtype_store_f64(DType t, void *p, int64_t i, double v)
{
	uint64_t b = 0;

	if (t == DT_BOOL) {
		store_bits(t, p, i, v != 0);
	} else if (t == DT_U64) {
		store_bits(t, p, i,
			   v >= 0x1p63 ? (v >= 0x1p64 ? UINT64_MAX : (uint64_t)v)
				       : (uint64_t)saturate_i64(v));
	} else if (!dtype_is_float(t)) {
		store_bits(t, p, i, (uint64_t)saturate_i64(v));
	} else if (t == DT_F64) {
		memcpy(&b, &v, sizeof v);
		store_bits(t, p, i, b);
	} else if (t == DT_F32) {
		float f = (float)v;

		memcpy(&b, &f, sizeof f);
		store_bits(t, p, i, b);
	} else {
		store_bits(t, p, i, float_code(t, round_value(t, v, can_saturate(t), true)));
	}
}

float dtype_round_f32(DType t, float v, bool saturate)
{
	assert(dtype_is_float(t));
	if (t == DT_F32 || t == DT_F64)
		return v;
	saturate = saturate && can_saturate(t);
	return (float)round_value(t, (double)v, saturate, !saturate);
}
