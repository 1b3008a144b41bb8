/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/* Compares ir/expr/scalar.h with the reference conversions of ir/dtype.c, wide arithmetic and
 * libm. */
#include "ir/dtype.h"
#include "ir/expr/scalar.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int faults;

static void fault(const char *what, double a, double b, double got, double want)
{
	if (faults++ < 20)
		printf("%s(%a, %a): %a, expected %a\n", what, a, b, got, want);
}

static bool same(double a, double b)
{
	return a == b ? signbit(a) == signbit(b) : isnan(a) && isnan(b);
}

static void check(const char *what, double a, double b, double got, double want)
{
	if (!same(got, want))
		fault(what, a, b, got, want);
}

static uint64_t next_random(uint64_t *s)
{
	uint64_t z = *s += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* ---- Small floats ---- */

typedef struct SmallFloat {
	DType t;
	float (*load)(const void *p, int64_t i);
	void (*store)(void *p, int64_t i, float v);
	float (*round)(float v), (*roundsat)(float v);
} SmallFloat;

#define X(CT, d, v) {DT_##CT, dl_load_##d, dl_store_##d, dl_round_##d, dl_roundsat_##d},
static const SmallFloat small_floats[] = {DL_SMALL_FLOATS(X, f32)};
#undef X

/* Packs codes of BITS bits as ONNX does: the first one in the low bits. */
static void put_code(unsigned char *p, int bits, int i, unsigned code)
{
	for (int k = 0; k < bits; k++) {
		int at = i * bits + k;

		p[at / 8] = (unsigned char)((p[at / 8] & ~(1 << at % 8)) | (int)(code >> k & 1)
										   << at % 8);
	}
}

static void check_float(const SmallFloat *f, float v)
{
	const char *name = dtype_info[f->t].name;
	unsigned char got[16] = {0}, want[16] = {0};

	check(name, v, 0, f->round(v), dtype_round_f32(f->t, v, false));
	check(name, v, 1, f->roundsat(v), dtype_round_f32(f->t, v, true));
	for (int i = 0; i < 3; i++) {
		f->store(got, i, v);
		dtype_store_f64(f->t, want, i, v);
	}
	if (memcmp(got, want, sizeof got) && !isnan(v))
		fault(name, v, 2, f->load(got, 0), dtype_load_f64(f->t, want, 0));
	check(name, v, 3, f->load(got, 1), f->load(want, 1));
}

static void test_small_float(const SmallFloat *f)
{
	unsigned char mem[16] = {0};
	int bits = dtype_info[f->t].bits;
	uint64_t seed = 7;

	for (unsigned c = 0; c < 1u << bits; c++) {
		double v, w;
		float mid;

		put_code(mem, bits, 5, c);
		v = dtype_load_f64(f->t, mem, 5);
		check(dtype_info[f->t].name, c, 4, f->load(mem, 5), v);
		if (isnan(v) || isinf(v))
			continue;
		put_code(mem, bits, 5, (c + 1) & ((1u << bits) - 1));
		w = dtype_load_f64(f->t, mem, 5);
		mid = (float)((v + w) / 2);
		check_float(f, (float)v);
		check_float(f, mid);
		check_float(f, nextafterf(mid, 0));
		check_float(f, nextafterf(mid, INFINITY));
		check_float(f, nextafterf(mid, -INFINITY));
	}
	for (int i = 0; i < 300000; i++)
		check_float(f, dl_bits_u32_f32((uint32_t)next_random(&seed)));
	for (int i = -160; i < 129; i++) {
		check_float(f, ldexpf(1, i));
		check_float(f, ldexpf(1.5, i));
		check_float(f, ldexpf(-1.75, i));
	}
	check_float(f, NAN);
	check_float(f, INFINITY);
	check_float(f, -INFINITY);
	check_float(f, -0.0f);
	check_float(f, 0x1.fffffep127f);
}

/* ---- Small integers ---- */

typedef struct SmallInt {
	DType t;
	int32_t (*load)(const void *p, int64_t i);
	void (*store)(void *p, int64_t i, int32_t v);
	int32_t (*round)(int32_t v);
} SmallInt;

#define X(CT, d, v) {DT_##CT, dl_load_##d, dl_store_##d, dl_round_##d},
static const SmallInt small_ints[] = {DL_SMALL_INTS(X, i32)};
#undef X

static void test_small_int(const SmallInt *s)
{
	unsigned char got[64], want[64];

	memset(got, 0xa5, sizeof got);
	memset(want, 0xa5, sizeof want);
	for (int v = -70000; v < 70000; v += 7) {
		int i = (v + 70000) / 7 % 20;

		s->store(got, i, v);
		dtype_store_i64(s->t, want, i, v);
		if (memcmp(got, want, sizeof got))
			fault(dtype_info[s->t].name, v, i, s->load(got, i), 0);
		check(dtype_info[s->t].name, v, 0, s->load(got, i),
		      (double)dtype_load_i64(s->t, want, i));
		check(dtype_info[s->t].name, v, 1, s->round(v),
		      (double)dtype_load_i64(s->t, want, i));
	}
}

/* ---- Integers ---- */

typedef __int128 Wide;

static Wide floor_div(Wide a, Wide b)
{
	return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static Wide wide_pow(Wide a, Wide b)
{
	Wide r = 1;

	if (b < 0)
		return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
	for (Wide i = 0; i < b % 4096; i++)
		r = (Wide)((unsigned __int128)r * (unsigned __int128)a);
	return r;
}

#define SAME(t, T, op, want)                                                               \
	if (dl_##op##_##t((T)a, (T)b) != (T)(want))                                        \
		fault(#op "_" #t, (double)a, (double)b, (double)dl_##op##_##t((T)a, (T)b), \
		      (double)(T)(want));
#define INTEGER(t, T, bits, is_signed)                                                            \
	static void test_##t(Wide a, Wide b)                                                      \
	{                                                                                         \
		Wide n = b < 0 || b >= bits ? bits : b;                                           \
		a = (T)a;                                                                         \
		b = (T)b;                                                                         \
		SAME(t, T, add, a + b)                                                            \
		SAME(t, T, sub, a - b)                                                            \
		SAME(t, T, mul, (unsigned __int128)a *(unsigned __int128)b)                       \
		SAME(t, T, div, b == 0 ? 0 : a / b)                                               \
		SAME(t, T, rem, b == 0 ? a : a % b)                                               \
		SAME(t, T, floordiv, floor_div(a, b))                                             \
		SAME(t, T, mod, b == 0 ? a : a - b * floor_div(a, b))                             \
		SAME(t, T, min, a < b ? a : b)                                                    \
		SAME(t, T, max, a > b ? a : b)                                                    \
		SAME(t, T, mulhi,                                                                 \
		     ((is_signed) ? a * b >> bits                                                 \
				  : (Wide)((unsigned __int128)a * (unsigned __int128)b >> bits))) \
		n = (Wide)(T)b < 0 || b >= bits ? bits : b;                                       \
		SAME(t, T, shl, n == bits ? 0 : (unsigned __int128)a << n)                        \
		SAME(t, T, shr, a >> n)                                                           \
		if (b < 4096)                                                                     \
			SAME(t, T, ipow, wide_pow(a, b))                                          \
		if (dl_abs_##t((T)a) != (T)(a < 0 ? -a : a))                                      \
			fault("abs_" #t, (double)a, 0, (double)dl_abs_##t((T)a), 0);              \
		if (dl_neg_##t((T)a) != (T)-a)                                                    \
			fault("neg_" #t, (double)a, 0, (double)dl_neg_##t((T)a), 0);              \
	}
INTEGER(i32, int32_t, 32, true)
INTEGER(u32, uint32_t, 32, false)
INTEGER(i64, int64_t, 64, true)
INTEGER(u64, uint64_t, 64, false)

static void test_integers(void)
{
	static const Wide edges[] = {
		0,          1,         -1,        2,          -2,   3,     7,         -7,
		31,         32,        33,        63,         64,   65,    INT32_MAX, INT32_MIN,
		UINT32_MAX, INT64_MAX, INT64_MIN, UINT64_MAX, 1000, -1000, 65536};
	enum { N = sizeof edges / sizeof *edges };
	uint64_t seed = 3;

	for (int i = 0; i < 20000 + N * N; i++) {
		Wide a = i < N * N ? edges[i / N]
				   : (Wide)(int64_t)(next_random(&seed) >> next_random(&seed) % 64);
		Wide b = i < N * N ? edges[i % N]
				   : (Wide)(int64_t)(next_random(&seed) >> next_random(&seed) % 64);

		test_i32(a, b);
		test_u32(a, b);
		test_i64(a, b);
		test_u64(a, b);
	}
}

/* ---- Floats ---- */

static double some_f64(uint64_t *s, int emax)
{
	static const double edges[] = {
		0.0,       -0.0,    1,      -1,       0.5,       -0.5,
		1.5,       2.5,     -2.5,   0x1p23,   0x1p52,    0x1.fffffffffffffp51,
		0x1p31,    -0x1p31, 0x1p32, 0x1p63,   -0x1p63,   0x1p64,
		1e30,      -1e30,   NAN,    INFINITY, -INFINITY, 0x1p-149,
		0x1p-1074, 0.1};
	uint64_t r = next_random(s), m = next_random(s);

	if (r % 4 == 0)
		return edges[m % (sizeof edges / sizeof *edges)];
	return ldexp((double)(int64_t)m, -63 + (int)((r >> 8) % (uint64_t)(2 * emax)) - emax);
}

static void test_fma(uint64_t *s)
{
	for (int i = 0; i < 400000; i++) {
		int range = i % 3 == 0 ? 1070 : i % 3 == 1 ? 40 : 2;
		double a = some_f64(s, range), b = some_f64(s, range), c = some_f64(s, range);

		if (i % 5 == 0)
			c = -a * b * (1 + (double)(i % 7) * 0x1p-52);
		check("fma_f64", a, b, dl_fma_f64(a, b, c), fma(a, b, c));
		check("fma_f32", a, b, dl_fma_f32((float)a, (float)b, (float)c),
		      fmaf((float)a, (float)b, (float)c));
	}
}

static double python_mod(double a, double b)
{
	double r = fmod(a, b);

	return r == 0 ? copysign(r, b) : (r < 0) != (b < 0) ? r + b : r;
}

static void test_rounding(double v)
{
	float f = (float)v;

	check("floor_f64", v, 0, dl_floor_f64(v), floor(v));
	check("ceil_f64", v, 0, dl_ceil_f64(v), ceil(v));
	check("trunc_f64", v, 0, dl_trunc_f64(v), trunc(v));
	check("rint_f64", v, 0, dl_rint_f64(v), rint(v));
	check("floor_f32", f, 0, dl_floor_f32(f), floorf(f));
	check("ceil_f32", f, 0, dl_ceil_f32(f), ceilf(f));
	check("trunc_f32", f, 0, dl_trunc_f32(f), truncf(f));
	check("rint_f32", f, 0, dl_rint_f32(f), rintf(f));
	check("sqrt_f32", f, 0, dl_sqrt_f32(f), sqrtf(f));
	check("ex2_f32", f, 0, dl_ex2_f32(f), exp2f(f));
}

#define SATURATED(v, lo, hi, T)                             \
	(isnan(v)      ? 0                                  \
	 : (v) < (lo)  ? (T)(lo)                            \
	 : (v) >= (hi) ? (T)((T)(hi / 2) - 1 + (T)(hi / 2)) \
		       : (T)(v))

static void test_cvt(double v)
{
	float f = (float)v;

	/* Compared as integers: a compiler may turn a conversion there and back into one
	 * truncation, which keeps -0. */
	if (dl_cvt_f64_i32(v) != SATURATED(v, -0x1p31, 0x1p31, int32_t) ||
	    dl_cvt_f32_i32(f) != SATURATED(f, -0x1p31, 0x1p31, int32_t) ||
	    dl_cvt_f64_u32(v) != SATURATED(v, 0, 0x1p32, uint32_t) ||
	    dl_cvt_f32_u32(f) != SATURATED(f, 0, 0x1p32, uint32_t))
		fault("f64_i32", v, 0, 0, 0);
	if (dl_cvt_f64_i64(v) != SATURATED(v, -0x1p63, 0x1p63, int64_t))
		fault("f64_i64", v, 0, 0, 0);
	if (dl_cvt_f32_u64(f) != SATURATED(f, 0, 0x1p64, uint64_t))
		fault("f32_u64", f, 0, 0, 0);
	if (fabsf(f) <= 0x1.fffffep30f && dl_cvt_f32_i64_near(f) != dl_cvt_f32_i64(f))
		fault("f32_i64_near", f, 0, 0, 0);
	if (dl_cvt_f64_bool(v) != !(v == 0))
		fault("f64_bool", v, 0, 0, 0);
}

/* scale(m, t) for m in [0.5, 2) and all exponents that it takes: normal, subnormal, 0 and
 * infinite results. */
static void test_scale(uint64_t *s)
{
	for (int i = 0; i < 2000; i++) {
		const double m = 0.5 + 1.5 * fabs(fmod(some_f64(s, 4), 1));
		const float f = (float)m < 2 ? (float)m : 1;

		for (int n = -152; n <= 128; n++)
			check("scale_f32", f, n, dl_scale_f32(f, 0x1.8p23f + (float)n),
			      (double)ldexpf(f, n));
		for (int n = -1077; n <= 1024; n += n < -1020 || n > 1020 ? 1 : 37)
			check("scale_f64", m, n, dl_scale_f64(m, 0x1.8p52 + n), ldexp(m, n));
	}
	if (!isnan(dl_scale_f32(NAN, 0x1.8p23f)) || !isnan(dl_scale_f64(NAN, 0x1.8p52)))
		fault("scale", NAN, 0, 0, 0);
}

/* Remainders by B of a multiple of it, A 2^AT times B, and of the numbers next to that, whose
 * quotients may round to the same integer. */
static void test_multiple(double a, double b, int at)
{
	const double m = rint(ldexp(a, at)) * b;
	const float fb = (float)b, f = (float)rint(ldexp(a, at)) * fb;

	for (int to = -1; to <= 1; to++) {
		const double x = to ? nextafter(m, (double)to * (double)INFINITY) : m;
		const float y = to ? nextafterf(f, (float)to * INFINITY) : f;

		check("rem_f64", x, b, dl_rem_f64(x, b), fmod(x, b));
		check("rem_f32", y, fb, dl_rem_f32(y, fb), fmodf(y, fb));
	}
}

static void test_floats(void)
{
	uint64_t s = 11;

	for (int i = 0; i < 200000; i++) {
		double a = some_f64(&s, i % 2 ? 70 : 4), b = some_f64(&s, i % 2 ? 70 : 4);
		float fa = (float)a, fb = (float)b;

		test_rounding(a);
		test_cvt(a);
		check("rem_f64", a, b, dl_rem_f64(a, b), fmod(a, b));
		check("rem_f32", fa, fb, dl_rem_f32(fa, fb), fmodf(fa, fb));
		test_multiple(some_f64(&s, 4), some_f64(&s, 4), (int)(i % 60));
		check("mod_f32", fa, fb, dl_mod_f32(fa, fb), (float)python_mod(fa, fb));
		if (a != 0 || b != 0) {
			check("min_f64", a, b, dl_min_f64(a, b),
			      isnan(a) || isnan(b) ? NAN : fmin(a, b));
			check("max_f64", a, b, dl_max_f64(a, b),
			      isnan(a) || isnan(b) ? NAN : fmax(a, b));
		}
	}
	test_fma(&s);
	test_scale(&s);
}

static void test_index(void)
{
	dl_bad_index f = {0};

	if (dl_index(0, 4, &f) != 0 || dl_index(-4, 4, &f) != 0 || dl_index(-1, 4, &f) != 3 ||
	    f.found)
		fault("index", 0, 0, 0, 0);
	for (int64_t i = -6; i < 6; i++) {
		f.found = false;
		dl_index(i, 4, &f);
		if (f.found != (i < -4 || i >= 4) || (f.found && (f.i != i || f.n != 4)))
			fault("index", (double)i, 4, f.found, 0);
	}
	f.found = false;
	if (dl_index(0, 0, &f) != 0 || !f.found)
		fault("index", 0, 0, f.found, 1);
	f.found = false;
	if (dl_index(INT64_MIN, INT64_MAX, &f) != 0 || !f.found)
		fault("index", 0, 0, f.found, 1);
}

int main(void)
{
	for (size_t i = 0; i < sizeof small_floats / sizeof *small_floats; i++)
		test_small_float(&small_floats[i]);
	for (size_t i = 0; i < sizeof small_ints / sizeof *small_ints; i++)
		test_small_int(&small_ints[i]);
	test_integers();
	test_floats();
	test_index();
	if (faults)
		printf("%d faults\n", faults);
	return faults != 0;
}
