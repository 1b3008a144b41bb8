/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scalar instructions of ir/expr/insts.def, and the conversions of every element type, in C.
 * The compiler includes this file for its own evaluation, and generated C contains its text, so
 * both run the same code. It avoids branches where possible, so that loops over it vectorise, and
 * never calls libm.
 *
 * Compile with -ffp-contract=off; generated C also needs -fwrapv, since its integers wrap.
 * -fno-math-errno and -fno-trapping-math make it fast. The rounding mode is to nearest even. Names:
 * dl_add_f32 is an instruction on a scalar type, dl_round_f16 rounds to an element type,
 * dl_load_f16 and dl_store_f16 access an element in packed memory.
 */
#ifndef DL_SCALAR_H
#define DL_SCALAR_H

#include <stdbool.h>
#include <stdint.h>

/* _Bool as a type instead of a macro, so that the word `bool` survives as an argument of macros. */
#ifdef bool
#undef bool
typedef _Bool bool;
#endif

#define DL_FN static inline __attribute__((always_inline, unused))
/* For loops and long code, which would only bloat their callers. */
#define DL_SLOW static inline __attribute__((unused))

/* ---- Bits ---- */

#define DL_BITS(s, S, t, T)                                                                        \
	DL_FN T dl_bits_##s##_##t(S x)                                                             \
	{                                                                                          \
		T r;                                                                               \
		__builtin_memcpy(&r, &x, sizeof r);                                                \
		return r;                                                                          \
	}
DL_BITS(f32, float, i32, int32_t)
DL_BITS(f32, float, u32, uint32_t)
DL_BITS(i32, int32_t, f32, float)
DL_BITS(u32, uint32_t, f32, float)
DL_BITS(i32, int32_t, u32, uint32_t)
DL_BITS(u32, uint32_t, i32, int32_t)
DL_BITS(f64, double, i64, int64_t)
DL_BITS(f64, double, u64, uint64_t)
DL_BITS(i64, int64_t, f64, double)
DL_BITS(u64, uint64_t, f64, double)
DL_BITS(i64, int64_t, u64, uint64_t)
DL_BITS(u64, uint64_t, i64, int64_t)

/* ---- What every type has ---- */

#define DL_COMMON(t, T)                                                                            \
	DL_FN bool dl_eq_##t(T a, T b) { return a == b; }                                          \
	DL_FN bool dl_ne_##t(T a, T b) { return a != b; }                                          \
	DL_FN bool dl_lt_##t(T a, T b) { return a < b; }                                           \
	DL_FN bool dl_le_##t(T a, T b) { return a <= b; }                                          \
	DL_FN bool dl_gt_##t(T a, T b) { return a > b; }                                           \
	DL_FN bool dl_ge_##t(T a, T b) { return a >= b; }                                          \
	DL_FN bool dl_isnan_##t(T a) { return a != a; }
/* Computed in the unsigned type U, so that integers wrap. */
#define DL_NUMBER(t, T, U)                                                                         \
	DL_COMMON(t, T)                                                                            \
	DL_FN T dl_neg_##t(T a) { return (T)(-(U)a); }                                             \
	DL_FN T dl_add_##t(T a, T b) { return (T)((U)a + (U)b); }                                  \
	DL_FN T dl_sub_##t(T a, T b) { return (T)((U)a - (U)b); }                                  \
	DL_FN T dl_mul_##t(T a, T b) { return (T)((U)a * (U)b); }
#define DL_BITWISE(t, T)                                                                           \
	DL_FN T dl_and_##t(T a, T b) { return a & b; }                                             \
	DL_FN T dl_or_##t(T a, T b) { return a | b; }                                              \
	DL_FN T dl_xor_##t(T a, T b) { return a ^ b; }

DL_COMMON(bool, bool)
DL_BITWISE(bool, bool)
DL_FN bool dl_not_bool(bool a) { return !a; }

/* ---- Integers ---- */

/* Shifts by the width or more, or by a negative number, shift all bits out; the sign stays. x^n
 * for n < 0 is 1/x^-n rounded towards zero; 0 if x is 0. */
#define DL_INTEGER(t, T, U, W)                                                                     \
	DL_NUMBER(t, T, U)                                                                         \
	DL_BITWISE(t, T)                                                                           \
	DL_FN T dl_not_##t(T a) { return ~a; }                                                     \
	DL_FN T dl_min_##t(T a, T b) { return a < b ? a : b; }                                     \
	DL_FN T dl_max_##t(T a, T b) { return a > b ? a : b; }                                     \
	DL_FN T dl_shl_##t(T a, T b) { return (U)b < W ? (T)((U)a << ((U)b & (W - 1))) : 0; }      \
	DL_SLOW T dl_ipow_##t(T a, T b)                                                            \
	{                                                                                          \
		U r = 1, x = (U)a;                                                                 \
		if (b < (T)1 && b != 0)                                                            \
			return a == 1 ? 1 : a == (T)-1 && (T)-1 < (T)1 ? (b & 1 ? a : 1) : 0;      \
		for (U n = (U)b; n; n >>= 1, x *= x)                                               \
			r *= n & 1 ? x : 1;                                                        \
		return (T)r;                                                                       \
	}
#define DL_SIGNED(t, T, U, W)                                                                      \
	DL_INTEGER(t, T, U, W)                                                                     \
	DL_FN T dl_abs_##t(T a) { return a < 0 ? (T)(0 - (U)a) : a; }                              \
	DL_FN T dl_shr_##t(T a, T b) { return a >> ((U)b < W ? b : W - 1); }                       \
	DL_FN T dl_div_##t(T a, T b)                                                               \
	{                                                                                          \
		T q = a / (b == 0 || b == -1 ? 1 : b);                                             \
		return b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : q;                                   \
	}                                                                                          \
	DL_FN T dl_rem_##t(T a, T b)                                                               \
	{                                                                                          \
		T r = a % (b == 0 || b == -1 ? 1 : b);                                             \
		return b == 0 ? a : r;                                                             \
	}                                                                                          \
	DL_FN T dl_mod_##t(T a, T b)                                                               \
	{                                                                                          \
		T r = dl_rem_##t(a, b);                                                            \
		return r != 0 && b != 0 && (r ^ b) < 0 ? r + b : r;                                \
	}                                                                                          \
	DL_FN T dl_floordiv_##t(T a, T b)                                                          \
	{                                                                                          \
		T r = dl_rem_##t(a, b);                                                            \
		return dl_div_##t(a, b) - (T)(r != 0 && b != 0 && (r ^ b) < 0);                    \
	}
#define DL_UNSIGNED(t, T, W)                                                                       \
	DL_INTEGER(t, T, T, W)                                                                     \
	DL_FN T dl_abs_##t(T a) { return a; }                                                      \
	DL_FN T dl_shr_##t(T a, T b) { return b < W ? a >> (b & (W - 1)) : 0; }                    \
	DL_FN T dl_div_##t(T a, T b) { return b == 0 ? 0 : a / (b == 0 ? 1 : b); }                 \
	DL_FN T dl_rem_##t(T a, T b) { return b == 0 ? a : a % (b == 0 ? 1 : b); }                 \
	DL_FN T dl_mod_##t(T a, T b) { return dl_rem_##t(a, b); }                                  \
	DL_FN T dl_floordiv_##t(T a, T b) { return dl_div_##t(a, b); }
DL_SIGNED(i32, int32_t, uint32_t, 32)
DL_SIGNED(i64, int64_t, uint64_t, 64)
DL_UNSIGNED(u32, uint32_t, 32)
DL_UNSIGNED(u64, uint64_t, 64)

#define DL_MULHI(t, T, W2, W) DL_FN T dl_mulhi_##t(T a, T b) { return (T)(((W2)a * (W2)b) >> W); }
DL_MULHI(i32, int32_t, int64_t, 32)
DL_MULHI(i64, int64_t, __int128, 64)
DL_MULHI(u32, uint32_t, uint64_t, 32)
DL_MULHI(u64, uint64_t, unsigned __int128, 64)

/* ---- Rounding to an integer ---- */

#if defined(__SSE4_1__) || defined(__aarch64__) || defined(__ARM_FEATURE_DIRECTED_ROUNDING)
#define DL_ROUNDING(t, T, f, big)                                                                  \
	DL_FN T dl_floor_##t(T x) { return __builtin_floor##f(x); }                                \
	DL_FN T dl_ceil_##t(T x) { return __builtin_ceil##f(x); }                                  \
	DL_FN T dl_trunc_##t(T x) { return __builtin_trunc##f(x); }                                \
	DL_FN T dl_rint_##t(T x) { return __builtin_rint##f(x); }
#else /* x + 2^23 - 2^23 rounds x; larger x are integers already */
#define DL_ROUNDING(t, T, f, big)                                                                  \
	DL_FN T dl_rint_##t(T x)                                                                   \
	{                                                                                          \
		T a = __builtin_fabs##f(x), r = (a + big) - big;                                   \
		return a < big ? __builtin_copysign##f(r, x) : x;                                  \
	}                                                                                          \
	DL_FN T dl_floor_##t(T x)                                                                  \
	{                                                                                          \
		T r = dl_rint_##t(x);                                                              \
		return __builtin_copysign##f(r > x ? r - 1 : r, x);                                \
	}                                                                                          \
	DL_FN T dl_ceil_##t(T x)                                                                   \
	{                                                                                          \
		T r = dl_rint_##t(x);                                                              \
		return __builtin_copysign##f(r < x ? r + 1 : r, x);                                \
	}                                                                                          \
	DL_FN T dl_trunc_##t(T x)                                                                  \
	{                                                                                          \
		T a = __builtin_fabs##f(x), r = dl_rint_##t(a);                                    \
		return __builtin_copysign##f(r > a ? r - 1 : r, x);                                \
	}
#endif
DL_ROUNDING(f32, float, f, 0x1p23f)
DL_ROUNDING(f64, double, , 0x1p52)

/* ---- One rounding of a * b + c ---- */

#if defined(__FMA__) || defined(__aarch64__) || defined(__ARM_FEATURE_FMA)
#define DL_FUSED 1
DL_FN float dl_fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
DL_FN double dl_fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
#define DL_FUSED 0

/* The product is exact in f64. Its sum with c is rounded to odd, so that rounding it to f32
 * rounds only once. */
DL_FN float dl_fma_f32(float a, float b, float c)
{
	double p = (double)a * (double)b, d = (double)c, s = p + d, t = s - p;
	double err = (p - (s - t)) + (d - t);
	int64_t bits = dl_bits_f64_i64(s), off = (err > 0) == (s > 0) ? 1 : -1;

	bits += (err > 0 || err < 0) && !(bits & 1) ? off : 0;
	return (float)dl_bits_i64_f64(bits);
}

/* X as m * 2^e, where m has 53 bits; not for 0, inf and NaN. */
DL_FN uint64_t dl_split_f64(double x, int *e)
{
	uint64_t bits = dl_bits_f64_u64(x) & INT64_MAX, m = bits & 0xfffffffffffffu;
	int shift;

	*e = (int)(bits >> 52) - 1075;
	if (bits >> 52)
		return m | 1ull << 52;
	shift = __builtin_clzll(m) - 11;
	*e = -1074 - shift;
	return m << shift;
}

/* M * 2^e, rounded once. The lowest bit of M also represents all bits that were lost below it. */
DL_SLOW double dl_join_f64(bool negative, unsigned __int128 m, int e)
{
	int top = m >> 64 ? 127 - __builtin_clzll((uint64_t)(m >> 64)) : 63 - __builtin_clzll((uint64_t)m);
	int drop = top - 52 > -1074 - e ? top - 52 : -1074 - e;
	uint64_t r, sign = negative ? 1ull << 63 : 0;

	if (drop > 0) {
		unsigned __int128 half, rest;

		if (drop > 120) {
			m = (m >> 16) | ((m & 0xffff) != 0);
			e += 16;
			drop -= 16;
			if (drop > 120)
				return dl_bits_u64_f64(sign);
		}
		half = (unsigned __int128)1 << (drop - 1);
		rest = m & ((half << 1) - 1);
		r = (uint64_t)(m >> drop);
		r += rest > half || (rest == half && (r & 1));
		e += drop;
	} else {
		r = (uint64_t)m << -drop;
		e += drop;
	}
	if (r >> 53) {
		r >>= 1;
		e++;
	}
	if (e + 1075 > 2046)
		return dl_bits_u64_f64(sign | 2047ull << 52);
	r += r >> 52 ? (uint64_t)(e + 1074) << 52 : 0;
	return dl_bits_u64_f64(sign | r);
}

DL_SLOW double dl_fma_f64(double a, double b, double c)
{
	int ea, eb, ec, shift;
	unsigned __int128 p, q;
	bool neg = (a < 0) != (b < 0), cneg = c < 0;

	if (!(__builtin_fabs(a) <= 0x1.fffffffffffffp1023 && __builtin_fabs(b) <= 0x1.fffffffffffffp1023 &&
	      __builtin_fabs(c) <= 0x1.fffffffffffffp1023) || a == 0 || b == 0 || c == 0) {
		/* If c is 0, the product is rounded once; if c is infinite, it is the sum. */
		if (__builtin_fabs(a) <= 0x1.fffffffffffffp1023 && __builtin_fabs(b) <= 0x1.fffffffffffffp1023)
			return c == 0 && a != 0 && b != 0 ? a * b : (a != 0 && b != 0 ? c : a * b + c);
		return a * b + c;
	}
	p = (unsigned __int128)dl_split_f64(a, &ea) * dl_split_f64(b, &eb) << 16;
	ea += eb - 16;
	q = (unsigned __int128)dl_split_f64(c, &ec) << 69;
	ec -= 69;
	shift = ea - ec;
	if (shift > 0) {
		q = shift > 127 ? 1 : (q >> shift) | ((q << (128 - shift)) != 0);
	} else if (shift < 0) {
		p = -shift > 127 ? 1 : (p >> -shift) | ((p << (128 + shift)) != 0);
		ea = ec;
	}
	if (neg == cneg)
		return dl_join_f64(neg, p + q, ea);
	if (p == q)
		return 0;
	return p > q ? dl_join_f64(neg, p - q, ea) : dl_join_f64(cneg, q - p, ea);
}
#endif

#if DL_FUSED
#define DL_MAD_f32(a, b, c) dl_fma_f32(a, b, c)
#define DL_MAD_f64(a, b, c) dl_fma_f64(a, b, c)
#else
#define DL_MAD_f32(a, b, c) ((a) * (b) + (c))
#define DL_MAD_f64(a, b, c) ((a) * (b) + (c))
#endif
DL_FN float dl_mad_f32(float a, float b, float c) { return DL_MAD_f32(a, b, c); }
DL_FN double dl_mad_f64(double a, double b, double c) { return DL_MAD_f64(a, b, c); }

/* ---- Floats ---- */

/* The exact remainder of a / b, with the sign of a. A quotient of two f32 below 2^28, computed in
 * f64, is truncated right, and its product by b is exact. A quotient of two f64 below 2^52 may be
 * one too large, and is subtracted in one rounding, which is exact. Otherwise by long division of
 * the significands, STEP bits at a time. */
#define DL_REM(t, T, U, f, man, top, step)                                                         \
	DL_SLOW T dl_long_rem_##t(T a, T b)                                                        \
	{                                                                                          \
		U x = (U)dl_bits_##t##_##top(__builtin_fabs##f(a));                                \
		U y = (U)dl_bits_##t##_##top(__builtin_fabs##f(b)), one = (U)1 << man;             \
		int ex = (int)(x >> man), ey = (int)(y >> man);                                    \
		uint64_t m, n, mask = one - 1;                                                     \
		if (!(a - a == 0) || b != b || b == 0)                                             \
			return (a - a) / (b - b);                                                  \
		if (x < y)                                                                         \
			return a;                                                                  \
		m = (x & mask) | (ex ? one : 0);                                                   \
		n = (y & mask) | (ey ? one : 0);                                                   \
		ex += !ex;                                                                         \
		ey += !ey;                                                                         \
		m %= n;                                                                            \
		while (ex > ey) {                                                                  \
			int k = ex - ey < step ? ex - ey : step;                                   \
			m = (m << k) % n;                                                          \
			ex -= k;                                                                   \
		}                                                                                  \
		if (m == 0)                                                                        \
			return __builtin_copysign##f(0, a);                                        \
		while (!(m >> man) && ex > 1) {                                                    \
			m <<= 1;                                                                   \
			ex--;                                                                      \
		}                                                                                  \
		m = m >> man ? (m & mask) | (uint64_t)ex << man : m;                               \
		return __builtin_copysign##f(dl_bits_##top##_##t((U)m), a);                        \
	}
DL_REM(f32, float, uint32_t, f, 23, u32, 40)
DL_REM(f64, double, uint64_t, , 52, u64, 11)
DL_FN float dl_rem_f32(float a, float b)
{
	const double x = a, y = b, most = __builtin_fabs(y) * 0x1p28;

	if (!(most > __builtin_fabs(x)) || most > 0x1p156)
		return dl_long_rem_f32(a, b);
	return __builtin_copysignf((float)(x - (double)(int32_t)(x / y) * y), a);
}
DL_FN double dl_rem_f64(double a, double b)
{
#if DL_FUSED
	const double most = __builtin_fabs(b) * 0x1p52;

	if (most > __builtin_fabs(a) && most <= 0x1.fffffffffffffp1023) {
		double r = dl_fma_f64(-(double)(int64_t)(a / b), b, a);

		if (r != 0 && (r < 0) != (a < 0))
			r += __builtin_copysign(b, a);
		return __builtin_copysign(r, a);
	}
#endif
	return dl_long_rem_f64(a, b);
}

/* COND ? NaN : X. Setting all bits of an element is one instruction; a blend is three on some CPUs.
 * clang would turn a sequence of ?: into branches. */
#define DL_NAN_IF(cond, t, i, x) dl_bits_##i##_##t(dl_bits_##t##_##i(x) | -(cond))

#define DL_FLOATING(t, T, f, i)                                                                    \
	DL_NUMBER(t, T, T)                                                                         \
	DL_FN T dl_abs_##t(T a) { return __builtin_fabs##f(a); }                                   \
	DL_FN T dl_div_##t(T a, T b) { return a / b; }                                             \
	DL_FN T dl_sqrt_##t(T a) { return __builtin_sqrt##f(a); }                                  \
	DL_FN T dl_ex2_##t(T a) { return __builtin_exp2##f(a); }                                   \
	DL_FN T dl_copysign_##t(T a, T b) { return __builtin_copysign##f(a, b); }                  \
	DL_FN T dl_min_##t(T a, T b) { T r = a < b ? a : b; return DL_NAN_IF(a != a, t, i, r); }   \
	DL_FN T dl_max_##t(T a, T b) { T r = a > b ? a : b; return DL_NAN_IF(a != a, t, i, r); }   \
	DL_SLOW T dl_mod_##t(T a, T b)                                                             \
	{                                                                                          \
		T r = dl_rem_##t(a, b);                                                            \
		return r == 0 ? __builtin_copysign##f(r, b) : (r < 0) != (b < 0) ? r + b : r;      \
	}
DL_FLOATING(f32, float, f, i32)
DL_FLOATING(f64, double, , i64)

/* The bits of m 2^e, given B, which would be these bits if exponents had no lower limit. If m
 * 2^e is normal, or infinite, that is B. If it is subnormal, it is a multiple k of the least
 * subnormal number 2^-LEAST, and its bits are k: adding 2^MAN to m 2^(e + LEAST) rounds it to k.
 * (A product would take processors many times as long.) For a subnormal result k >= B, for a
 * normal one the same sum gives k <= B, so the result is the maximum. Code for CPUs that flush
 * such results to zero defines DL_FLUSH. */
#ifdef DL_FLUSH
#define DL_TINY(t, T, i, I, man, least)         \
	DL_FN I dl_tiny_##t(I b)                \
	{                                       \
		return b < (I)1 << man ? 0 : b; \
	}
#else
#define DL_TINY(t, T, i, I, man, least)                                            \
	DL_FN I dl_tiny_##t(I b)                                                   \
	{                                                                          \
		const T x = dl_bits_##i##_##t(dl_add_##i(b, (I)least << man));     \
		const I k = dl_bits_##t##_##i(x + (T)0x1p##man);                   \
		return dl_max_##i(b, k - dl_bits_##t##_##i((T)0x1p##man));         \
	}
#endif
/* m 2^e, where n = 1.5 * 2^MAN + e is the sum by which e was rounded to an integer. Adding e to m's
 * exponent is exact where the result is normal, or infinite. */
#define DL_SCALE(t, T, i, I, man, least, inf)                                      \
	DL_TINY(t, T, i, I, man, least)                                            \
	DL_FN T dl_scale_##t(T m, T n)                                             \
	{                                                                          \
		const I e = dl_bits_##t##_##i(n) - dl_bits_##t##_##i(0x1.8p##man); \
		const I b = dl_bits_##t##_##i(m) + dl_shl_##i(e, man);             \
		const I r = dl_min_##i(dl_tiny_##t(b), inf);                       \
		return dl_bits_##i##_##t(r | -(m != m));                           \
	}
DL_SCALE(f64, double, i64, int64_t, 52, 1074, 0x7ff0000000000000)
#if defined(__AVX512F__) && defined(__clang__) && __clang_major__ >= 22
/* One instruction, for vectors as well. LLVM 22.1 stops with an error on a vector of 16 floats
 * if vectors of 512 bits are not legal for the function, so the attribute makes them legal in
 * callers. */
__attribute__((min_vector_width(512))) DL_FN float dl_scale_f32(float m, float n)
{
	return __builtin_elementwise_ldexp(m, dl_bits_f32_i32(n) - dl_bits_f32_i32(0x1.8p23f));
}
#else
DL_SCALE(f32, float, i32, int32_t, 23, 149, 0x7f800000)
#endif

/* ---- Conversions: integers wrap, floats saturate, NaN is 0 and true ---- */

#define DL_CVT(s, S, t, T) DL_FN T dl_cvt_##s##_##t(S x) { return (T)x; }
#define DL_CVT_BOOL(s, S) DL_FN bool dl_cvt_##s##_bool(S x) { return x != 0; }
#define DL_CVT_INT(s, S)                                                                           \
	DL_CVT_BOOL(s, S) DL_CVT(s, S, i32, int32_t) DL_CVT(s, S, i64, int64_t)                   \
	DL_CVT(s, S, u32, uint32_t) DL_CVT(s, S, u64, uint64_t)                                    \
	DL_CVT(s, S, f32, float) DL_CVT(s, S, f64, double)
DL_CVT_INT(bool, bool)
DL_CVT_INT(i32, int32_t)
DL_CVT_INT(i64, int64_t)
DL_CVT_INT(u32, uint32_t)
DL_CVT_INT(u64, uint64_t)

/* X as a T, saturated: LO for X below LO, LAST for X >= HI. X is compared in the type VIA. */
#define DL_CVT_SAT(s, S, t, T, VIA, lo, hi, last)                                                  \
	DL_FN T dl_cvt_##s##_##t(S x)                                                              \
	{                                                                                          \
		S v = x < (S)lo ? (S)lo : x, w = v < (S)hi ? v : (S)0;                             \
		T r = (T)(VIA)w;                                                                   \
		return x >= (S)hi ? last : r;                                                      \
	}
#define DL_CVT_FLOAT(s, S)                                                                         \
	DL_CVT_BOOL(s, S)                                                                          \
	DL_CVT_SAT(s, S, i32, int32_t, int32_t, -0x1p31, 0x1p31, INT32_MAX)                        \
	DL_CVT_SAT(s, S, i64, int64_t, int64_t, -0x1p63, 0x1p63, INT64_MAX)                        \
	DL_CVT_SAT(s, S, u32, uint32_t, int64_t, 0, 0x1p32, UINT32_MAX)                            \
	DL_CVT_SAT(s, S, u64, uint64_t, uint64_t, 0, 0x1p64, UINT64_MAX)
DL_CVT_FLOAT(f32, float)
/* dl_cvt_f32_i64 where i32 has the result: vectors of CPUs before AVX-512 have only that
 * instruction. */
DL_FN int64_t dl_cvt_f32_i64_near(float x) { return (int32_t)x; }
DL_FN float dl_within_f32(float x, int32_t lo, int32_t hi)
{
	float v = x > (float)lo ? x : (float)lo;

	return v < (float)hi ? v : (float)hi;
}
/* min(max(dl_cvt_f32_i32(x), lo), hi) where lo <= 0 <= hi and f32 represents both. */
DL_FN int32_t dl_limit_f32(float x, int32_t lo, int32_t hi)
{
	int32_t r = (int32_t)dl_within_f32(x, lo, hi);

	return lo == 0 || x == x ? r : 0;
}
/* dl_limit_f32(dl_rint_f32(x), lo, hi) where -2^16 <= lo <= 0 <= hi <= 2^16. A sum with 1.5 *
 * 2^23 has no bits for a fraction: it is rounded to even, and its last bits are the integer. */
DL_FN int32_t dl_nearest_f32(float x, int32_t lo, int32_t hi)
{
	const float to_integer = 0x1.8p23f;
	float sum = dl_within_f32(x, lo, hi) + to_integer;
	int32_t r = dl_bits_f32_i32(sum) - dl_bits_f32_i32(to_integer);

	return lo == 0 || x == x ? r : 0;
}
DL_CVT_FLOAT(f64, double)
DL_CVT(f32, float, f64, double)
DL_CVT(f64, double, f32, float)
DL_FN float dl_cvt_f32_f32(float x) { return x; }
DL_FN double dl_cvt_f64_f64(double x) { return x; }

/* ---- Small floats ---- */

/*
 * X as a code with MAN mantissa bits and exponent bias BIAS. LAST is the largest finite code, OVER
 * the code for larger values, NAN_ the code of NaN, SIGN the sign bit. A magnitude below the
 * smallest normal number is rounded by adding a power of two whose ulp is the format's smallest
 * step. KEEP_INF: infinities become OVER even if SAT turns other large values into LAST. NO_NEG0:
 * zero and NaN have no sign. A format without NaN stores 0.
 */
DL_FN uint32_t dl_encode(float x, int man, int bias, uint32_t last, uint32_t over, uint32_t nan_,
			 uint32_t sign, bool sat, bool keep_inf, bool no_neg0)
{
	uint32_t u = dl_bits_f32_u32(x), a = u & 0x7fffffff, s = u >> 31 ? sign : 0, m, n;
	float step = dl_bits_u32_f32((uint32_t)(127 + 24 - bias - man) << 23);

	n = ((a + ((1u << (22 - man)) - 1) + ((a >> (23 - man)) & 1)) >> (23 - man)) -
	    ((uint32_t)(127 - bias) << man);
	m = dl_bits_f32_u32(dl_bits_u32_f32(a) + step) - dl_bits_f32_u32(step);
	m = a < (uint32_t)(128 - bias) << 23 ? m : n;
	m = m > last ? (sat && !(keep_inf && a == 0x7f800000) ? last : over) : m;
	m = a > 0x7f800000 ? nan_ : m;
	s = nan_ == 0 && a > 0x7f800000 ? 0 : s;
	return no_neg0 && (m == 0 || m == nan_) ? m : m | s;
}

/* The value of a code. The magnitude INF is infinity, larger ones are NaN. */
DL_FN float dl_decode(uint32_t code, int man, int bias, uint32_t inf, uint32_t nan_, uint32_t sign,
		      bool no_neg0)
{
	uint32_t m = code & (sign - 1), s = code & sign ? 0x80000000u : 0;
	uint32_t n = (m << (23 - man)) + ((uint32_t)(127 - bias) << 23);
	float unit = dl_bits_u32_f32((uint32_t)(128 - bias - man) << 23);
	uint32_t small = dl_bits_f32_u32((float)(int32_t)m * unit);

	n = m < 1u << man ? small : n;
	n = m == inf ? 0x7f800000 : m > inf || m == nan_ ? 0x7fc00000 : n;
	n = no_neg0 && code == sign ? 0x7fc00000 : n;
	return dl_bits_u32_f32(n | s);
}

/* NAME, mantissa bits, bias, largest finite code, the code after it, code of NaN, first code
 * that is not a finite number, magnitude that is NaN, sign bit, whether there are infinities,
 * whether -0 is NaN. */
#define DL_SMALL(d, man, bias, last, over, nan_, inf, dnan, sign, has_inf, fnuz)                   \
	DL_FN uint32_t dl_encode_##d(float x)                                                      \
	{                                                                                          \
		return dl_encode(x, man, bias, last, over, nan_, sign, true, has_inf, fnuz);       \
	}                                                                                          \
	DL_FN float dl_decode_##d(uint32_t c) { return dl_decode(c, man, bias, inf, dnan, sign, fnuz); } \
	DL_FN float dl_round_##d(float x)                                                          \
	{                                                                                          \
		return dl_decode_##d(dl_encode(x, man, bias, last, over, nan_, sign, false, true, fnuz)); \
	}                                                                                          \
	DL_FN float dl_roundsat_##d(float x)                                                       \
	{                                                                                          \
		return dl_decode_##d(dl_encode(x, man, bias, last, over, nan_, sign, true, false, fnuz)); \
	}
#define DL_NEVER 0xffffffffu
DL_SMALL(f8e4m3fn, 3, 7, 0x7e, 0x7f, 0x7f, DL_NEVER, 0x7f, 0x80, false, false)
DL_SMALL(f8e4m3fnuz, 3, 8, 0x7f, 0x80, 0x80, DL_NEVER, DL_NEVER, 0x80, false, true)
DL_SMALL(f8e5m2, 2, 15, 0x7b, 0x7c, 0x7e, 0x7c, DL_NEVER, 0x80, true, false)
DL_SMALL(f8e5m2fnuz, 2, 16, 0x7f, 0x80, 0x80, DL_NEVER, DL_NEVER, 0x80, false, true)
DL_SMALL(f4e2m1, 1, 1, 0x7, 0x7, 0, DL_NEVER, DL_NEVER, 0x8, false, false)
DL_SMALL(f6e2m3, 3, 1, 0x1f, 0x1f, 0, DL_NEVER, DL_NEVER, 0x20, false, false)
DL_SMALL(f6e3m2, 2, 3, 0x1f, 0x1f, 0, DL_NEVER, DL_NEVER, 0x20, false, false)

/* f16 and bf16 overflow to infinity in every mode. gcc does not vectorise loops over _Float16,
 * but does over bits. */
#if (defined(__F16C__) && defined(__clang__) && __clang_major__ >= 15) || defined(__AVX512FP16__) || defined(__aarch64__)
DL_FN uint32_t dl_encode_f16(float x)
{
	_Float16 h = (_Float16)x;
	uint16_t r;

	__builtin_memcpy(&r, &h, sizeof r);
	return r;
}
DL_FN float dl_decode_f16(uint32_t c)
{
	uint16_t r = (uint16_t)c;
	_Float16 h;

	__builtin_memcpy(&h, &r, sizeof h);
	return (float)h;
}
#else
DL_FN uint32_t dl_encode_f16(float x)
{
	return dl_encode(x, 10, 15, 0x7bff, 0x7c00, 0x7e00, 0x8000, false, true, false);
}
DL_FN float dl_decode_f16(uint32_t c) { return dl_decode(c, 10, 15, 0x7c00, DL_NEVER, 0x8000, false); }
#endif
DL_FN uint32_t dl_encode_bf16(float x)
{
	uint32_t u = dl_bits_f32_u32(x), r = (u + 0x7fff + (u >> 16 & 1)) >> 16;

	return (u & 0x7fffffff) > 0x7f800000 ? u >> 16 | 0x40 : r;
}
DL_FN float dl_decode_bf16(uint32_t c) { return dl_bits_u32_f32(c << 16); }
DL_FN float dl_round_f16(float x) { return dl_decode_f16(dl_encode_f16(x)); }
DL_FN float dl_roundsat_f16(float x) { return dl_round_f16(x); }
DL_FN float dl_round_bf16(float x) { return dl_decode_bf16(dl_encode_bf16(x)); }
DL_FN float dl_roundsat_bf16(float x) { return dl_round_bf16(x); }

/* f8e8m0: the power of two nearest to |x|; ties round up, and so does everything between 2^-127
 * and 2^-126. */
DL_FN uint32_t dl_round_code_f8e8m0(float x, bool sat)
{
	uint32_t a = dl_bits_f32_u32(x) & 0x7fffffff, r = (a + 0x400000 - (a < 0x800000)) >> 23;

	r = r > 0xfe && sat ? 0xfe : r;
	return a > 0x7f800000 ? 0xff : r;
}
DL_FN uint32_t dl_encode_f8e8m0(float x) { return dl_round_code_f8e8m0(x, true); }
DL_FN float dl_decode_f8e8m0(uint32_t c)
{
	uint32_t r = c == 0 ? 0x400000 : c << 23;

	return dl_bits_u32_f32(c == 0xff ? 0x7fc00000 : r);
}
DL_FN float dl_round_f8e8m0(float x) { return dl_decode_f8e8m0(dl_round_code_f8e8m0(x, false)); }
DL_FN float dl_roundsat_f8e8m0(float x) { return dl_decode_f8e8m0(dl_round_code_f8e8m0(x, true)); }

/* ---- X(ENUM, name, scalar type) for the element types that a store rounds or wraps ---- */

#define DL_SMALL_FLOATS(X, v)                                                                      \
	X(F16, f16, v) X(BF16, bf16, v) X(F8E4M3FN, f8e4m3fn, v) X(F8E4M3FNUZ, f8e4m3fnuz, v)     \
	X(F8E5M2, f8e5m2, v) X(F8E5M2FNUZ, f8e5m2fnuz, v) X(F8E8M0, f8e8m0, v)                     \
	X(F4E2M1, f4e2m1, v) X(F6E2M3, f6e2m3, v) X(F6E3M2, f6e3m2, v)
#define DL_SMALL_INTS(X, v)                                                                        \
	X(U8, u8, v) X(I8, i8, v) X(U16, u16, v) X(I16, i16, v) X(U4, u4, v) X(I4, i4, v)          \
	X(U2, u2, v) X(I2, i2, v)

#define DL_WRAP(d, expr)                                                                           \
	DL_FN int32_t dl_round_##d(int32_t x) { return expr; }                                     \
	DL_FN int32_t dl_roundsat_##d(int32_t x) { return expr; }                                  \
	DL_FN uint32_t dl_encode_##d(int32_t x) { return (uint32_t)x; }                            \
	DL_FN int32_t dl_decode_##d(uint32_t c) { return dl_round_##d((int32_t)c); }
DL_WRAP(u8, (uint8_t)x)
DL_WRAP(i8, (int8_t)x)
DL_WRAP(u16, (uint16_t)x)
DL_WRAP(i16, (int16_t)x)
DL_WRAP(u4, x & 15)
DL_WRAP(i4, ((x & 15) ^ 8) - 8)
DL_WRAP(u2, x & 3)
DL_WRAP(i2, ((x & 3) ^ 2) - 2)

/* ---- Elements of memory ---- */

#define DL_ELEM(d, T, C)                                                                           \
	DL_FN T dl_load_##d(const void *p, int64_t i) { return ((const C *)p)[i]; }                \
	DL_FN void dl_store_##d(void *p, int64_t i, T x) { ((C *)p)[i] = x; }
DL_ELEM(f32, float, float)
DL_ELEM(f64, double, double)
DL_ELEM(i32, int32_t, int32_t)
DL_ELEM(i64, int64_t, int64_t)
DL_ELEM(u32, uint32_t, uint32_t)
DL_ELEM(u64, uint64_t, uint64_t)
DL_FN bool dl_load_bool(const void *p, int64_t i) { return ((const uint8_t *)p)[i] != 0; }
DL_FN void dl_store_bool(void *p, int64_t i, bool x) { ((uint8_t *)p)[i] = x; }

#define DL_CODED(d, T, C)                                                                          \
	DL_FN T dl_load_##d(const void *p, int64_t i) { return dl_decode_##d((uint32_t)((const C *)p)[i]); } \
	DL_FN void dl_store_##d(void *p, int64_t i, T x) { ((C *)p)[i] = (C)dl_encode_##d(x); }
DL_CODED(u8, int32_t, uint8_t)
DL_CODED(i8, int32_t, int8_t)
DL_CODED(u16, int32_t, uint16_t)
DL_CODED(i16, int32_t, int16_t)
DL_CODED(f16, float, uint16_t)
DL_CODED(bf16, float, uint16_t)
DL_CODED(f8e4m3fn, float, uint8_t)
DL_CODED(f8e4m3fnuz, float, uint8_t)
DL_CODED(f8e5m2, float, uint8_t)
DL_CODED(f8e5m2fnuz, float, uint8_t)
DL_CODED(f8e8m0, float, uint8_t)

/* Less than 8 bits: the first element is in the low bits. A store rewrites the whole byte, so
 * threads that write elements of one byte would race. An element of 6 bits may span two bytes. */
#define DL_PACKED(d, T, bits)                                                                      \
	DL_FN T dl_load_##d(const void *p, int64_t i)                                              \
	{                                                                                          \
		const uint8_t *b = (const uint8_t *)p + (i * bits >> 3);                           \
		int shift = (int)(i * bits & 7);                                                   \
		uint32_t v = b[0];                                                                 \
		if (8 % bits && shift + bits > 8)                                                  \
			v |= (uint32_t)b[1] << 8;                                                  \
		return dl_decode_##d(v >> shift & ((1u << bits) - 1));                             \
	}                                                                                          \
	DL_FN void dl_store_##d(void *p, int64_t i, T x)                                           \
	{                                                                                          \
		uint8_t *b = (uint8_t *)p + (i * bits >> 3);                                       \
		int shift = (int)(i * bits & 7);                                                   \
		uint32_t mask = ((1u << bits) - 1) << shift, v = dl_encode_##d(x) << shift & mask; \
		b[0] = (uint8_t)((b[0] & ~mask) | v);                                              \
		if (8 % bits && shift + bits > 8)                                                  \
			b[1] = (uint8_t)((b[1] & ~(mask >> 8)) | v >> 8);                          \
	}
DL_PACKED(u4, int32_t, 4)
DL_PACKED(i4, int32_t, 4)
DL_PACKED(u2, int32_t, 2)
DL_PACKED(i2, int32_t, 2)
DL_PACKED(f4e2m1, float, 4)
DL_PACKED(f6e2m3, float, 6)
DL_PACKED(f6e3m2, float, 6)

/* An index out of range, with the size of its dim; `found` says whether there was one. */
typedef struct dl_bad_index {
	int64_t i, n;
	bool found;
} dl_bad_index;

/* I in [-n, n), wrapped to [0, n); otherwise sets *BAD and returns 0. */
DL_FN int64_t dl_index(int64_t i, int64_t n, dl_bad_index *bad)
{
	int64_t at = i + (i < 0 ? n : 0);

	if (__builtin_expect((uint64_t)at < (uint64_t)n, 1))
		return at;
	*bad = (dl_bad_index){i, n, true};
	return 0;
}

#endif
