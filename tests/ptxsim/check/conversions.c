/* SPDX-License-Identifier: Apache-2.0 */
/* Conversions, f16 and bf16 as nvcc uses them, each result against C. */
#include "tests/ptxsim/check/numbers.h"

#include "tools/ptxsim/half.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

/* ---- Conversions ---- */

static s64 to_int(double a, int mode, double lo, double hi, s64 nan)
{
	if (a != a)
		return nan;
	volatile double x = a, r;
	fesetround(mode);
	r = nearbyint(x);
	fesetround(FE_TONEAREST);
	r = r < lo ? lo : r > hi ? hi : r;
	return r >= 0x1p63 ? (s64)(r >= 0x1p64 ? ~0ull : (u64)r) : (s64)r;
}

static int want_to_int(float f, double d, s64 *w)
{
	const int rn = FE_TONEAREST, rz = FE_TOWARDZERO, ru = FE_UPWARD, rd = FE_DOWNWARD;
	const double lo = INT32_MIN, hi = INT32_MAX;
	double a = (double)f, h = (double)f32_of_f16(f16_of(f)), byte = (double)most(f, 0),
	       word = (double)most(f, -32768);
	s64 ll = f >= 0x1p63f ? INT64_MAX : to_int(a, rn, -0x1p63, 0x1p63, INT64_MIN);
	s64 dl = d >= 0x1p63 ? INT64_MAX : to_int(d, ru, -0x1p63, 0x1p63, INT64_MIN);
	s64 v[] = {
		to_int(a, rn, lo, hi, 0),
		to_int(a, rz, lo, hi, 0),
		to_int(a, ru, lo, hi, 0),
		to_int(a, rd, lo, hi, 0),
		to_int(a, rn, 0, UINT32_MAX, 0),
		to_int(a, rz, 0, UINT32_MAX, 0),
		ll,
		to_int(a, rz, 0, 0x1p64, INT64_MIN),
		to_int(d, rn, lo, hi, INT32_MIN),
		to_int(d, rd, lo, hi, INT32_MIN),
		to_int(d, rz, 0, UINT32_MAX, 0x80000000),
		dl,
		(s64)(byte > 255 ? 255 : byte),
		(s64)(word > 32767 ? 32767 : word),
		to_int(h, rn, lo, hi, 0),
		to_int(h, rz, -32768, 32767, 0),
	};

	memcpy(w, v, sizeof v);
	return sizeof v / sizeof *v;
}

static void compare64(const char *name, const s64 *got, int k, int i, s64 want, double f, double d,
		      s64 v)
{
	if (got[k * N + i] != want)
		wrong("%s: output %d of %a, %a, %lld is 0x%llx, not 0x%llx", name, k, f, d,
		      (long long)v, (unsigned long long)got[k * N + i], (unsigned long long)want);
}

static void to_ints(void)
{
	static float f[N];
	static double d[N];
	static s64 got[MAX_OUT * N], want[MAX_OUT];
	const void *const p[] = {f, d};
	const size_t size[] = {sizeof f, sizeof d};
	int n = want_to_int(0, 0, want);

	for (int i = 0; i < N; i++) {
		f[i] = odd_float();
		d[i] = (double)odd_float() * 1.000000001;
	}
	run_rows("cuda/convert", "to_int", 2, p, size, got, (size_t)n * N * 8);
	for (int i = 0; i < N; i++) {
		want_to_int(f[i], d[i], want);
		for (int k = 0; k < n; k++)
			compare64("to_int", got, k, i, want[k], (double)f[i], d[i], 0);
	}
}

enum { FROM_S32, FROM_U32, FROM_S64, FROM_U64 };

__attribute__((noinline)) static s64 int_float(s64 v, int from, int mode, bool wide)
{
	volatile s64 x = v;
	volatile float f = 0;
	volatile double d = 0;

	fesetround(mode);
	if (wide)
		d = from == FROM_S64 ? (double)x : (double)(u64)x;
	else
		f = from == FROM_S32   ? (float)(s32)x
		    : from == FROM_U32 ? (float)(u32)x
		    : from == FROM_S64 ? (float)x
				       : (float)(u64)x;
	fesetround(FE_TONEAREST);
	return wide ? (s64)f64_bits(d) : (s64)f32_bits(f);
}

__attribute__((noinline)) static s64 double_float(double v, int mode)
{
	volatile double x = v;
	volatile float f;

	fesetround(mode);
	f = (float)x;
	fesetround(FE_TONEAREST);
	return f != f ? 0x7fffffff : (s64)f32_bits(f);
}

/* Toward zero: what does not fit is the largest that does. */
static s64 f16_toward_zero(float f)
{
	uint16_t h = f16_of(f);

	if (f != f)
		return 0x7fff;
	if (fabsf(f32_of_f16(h)) > fabsf(f))
		h--;
	return h;
}

static s64 bf16_toward_zero(float f)
{
	return f != f ? 0x7fff : f32_bits(f) >> 16;
}

static s64 tf32_away(float f)
{
	return f != f || isinf(f) ? f != f ? 0 : f32_bits(f) : (f32_bits(f) + 0x1000) & 0xffffe000;
}

static int want_to_float(float f, double d, s64 v, s64 *w)
{
	const int rn = FE_TONEAREST, rz = FE_TOWARDZERO, ru = FE_UPWARD, rd = FE_DOWNWARD;
	float low = f32_of_f16((uint16_t)v), lowb = f32_of_bf16((uint16_t)v);
	s64 x[] = {
		int_float(v, FROM_S32, rn, false),
		int_float(v, FROM_S32, rz, false),
		int_float(v, FROM_U32, ru, false),
		int_float(v, FROM_S64, rn, false),
		int_float(v, FROM_S64, rd, false),
		int_float(v, FROM_U64, rn, false),
		int_float(v, FROM_S64, rn, true),
		int_float(v, FROM_U64, rz, true),
		double_float(d, rn),
		double_float(d, rz),
		double_float(d, ru),
		f16_of(f),
		f16_toward_zero(f),
		f16_of_f64(d),
		f16_of_f64((double)(s32)v),
		low != low ? 0 : f32_bits(low),
		bf16_of(f),
		bf16_toward_zero(f),
		lowb != lowb ? 0 : f32_bits(lowb),
		tf32_away(f),
		f16_of(f) | (s64)f16_of((float)d) << 16,
		bf16_of(f) | (s64)bf16_of((float)d) << 16,
	};

	memcpy(w, x, sizeof x);
	return sizeof x / sizeof *x;
}

/* Whether output K is a NaN, of whose bits nothing promises which. */
static bool unpromised(int k, float f, double d, s64 v, s64 got, s64 want)
{
	switch (k) {
	case 8: /* f64 to f32, by three roundings */
	case 9:
	case 10: return d != d && (got & 0x7fffffff) > 0x7f800000;
	case 13: /* f64 to f16 */ return d != d && (got & 0x7fff) > 0x7c00;
	case 15: /* f16 and bf16 to f32; WANT has 0 for NaNs */
	case 18: return !want && v & 0x7fff;
	case 19: /* f32 to tf32 */ return f != f;
	default: return false;
	}
}

static void to_floats(void)
{
	static float f[N];
	static double d[N];
	static s64 v[N], got[MAX_OUT * N], want[MAX_OUT];
	const void *const p[] = {f, d, v};
	const size_t size[] = {sizeof f, sizeof d, sizeof v};
	int n = want_to_float(0, 0, 0, want);

	for (int i = 0; i < N; i++) {
		f[i] = odd_float();
		d[i] = (double)odd_float() * 1.000000001;
		v[i] = (s64)((u64)odd_bits() << (below(2) * 32) | odd_bits());
	}
	run_rows("cuda/convert", "to_float", 3, p, size, got, (size_t)n * N * 8);
	for (int i = 0; i < N; i++) {
		want_to_float(f[i], d[i], v[i], want);
		for (int k = 0; k < n; k++)
			if (!unpromised(k, f[i], d[i], v[i], got[k * N + i], want[k]))
				compare64("to_float", got, k, i, want[k], (double)f[i], d[i], v[i]);
	}
}

/* ---- Halves ---- */

typedef uint16_t Half(float a, float b, float c);

static uint16_t h_add(float a, float b, float c)
{
	(void)c;
	return f16_of(a + b);
}

static uint16_t h_sub(float a, float b, float c)
{
	(void)c;
	return f16_of(a - b);
}

static uint16_t h_mul(float a, float b, float c)
{
	(void)c;
	return f16_of(a * b);
}

static uint16_t h_fma(float a, float b, float c)
{
	return f16_of_f64((double)a * (double)b + (double)c);
}

static uint16_t clamp(uint16_t h)
{
	float f = f32_of_f16(h);

	return f > 0 ? f < 1 ? h : 0x3c00 : 0;
}

static uint16_t h_fma_sat(float a, float b, float c)
{
	return clamp(h_fma(a, b, c));
}

static uint16_t h_fma_relu(float a, float b, float c)
{
	uint16_t h = h_fma(a, b, c);
	return h == 0x7fff ? h : h & 0x8000 ? 0 : h;
}

static uint16_t h_add_sat(float a, float b, float c)
{
	return clamp(h_add(a, b, c));
}

static uint16_t h_min(float a, float b, float c)
{
	(void)c;
	return f16_of(least(a, b));
}

static uint16_t h_max(float a, float b, float c)
{
	(void)c;
	return f16_of(most(a, b));
}

static uint16_t h_max_nan(float a, float b, float c)
{
	(void)c;
	return a != a || b != b ? 0x7fff : f16_of(most(a, b));
}

static uint16_t h_neg(float a, float b, float c)
{
	(void)b;
	(void)c;
	return f16_of(-a);
}

static uint16_t h_abs(float a, float b, float c)
{
	(void)b;
	(void)c;
	return f16_of(fabsf(a));
}

static uint16_t h_lt(float a, float b, float c)
{
	(void)c;
	return a < b ? 0x3c00 : 0;
}

static uint16_t h_geu(float a, float b, float c)
{
	(void)c;
	return !(a < b) ? 0x3c00 : 0;
}

/* Outputs 0 to 13 of the kernel; the others are not by halves. */
static Half *const halves[] = {h_add, h_sub, h_mul,     h_fma, h_fma_sat, h_fma_relu, h_add_sat,
			       h_min, h_max, h_max_nan, h_neg, h_abs,     h_lt,       h_geu};
enum { N_HALVES = 14, N_F16 = 16 };

static uint16_t half_bits(void)
{
	static const uint16_t special[] = {0,      0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00,
					   0x7e00, 1,      0x8001, 0x7bff, 0x0400};
	u32 k = below(30);

	return k < 11 ? special[k] : (uint16_t)below(0x10000);
}

static bool same_half(uint16_t a, uint16_t b, uint16_t infinity)
{
	return a == b || ((a & 0x7fff) > infinity && (b & 0x7fff) > infinity);
}

static void f16(void)
{
	static u32 in[3][N], got[N_F16 * N];
	const void *const p[] = {in[0], in[1], in[2]};
	const size_t size[] = {sizeof in[0], sizeof in[0], sizeof in[0]};

	for (int i = 0; i < N; i++)
		for (int k = 0; k < 3; k++)
			in[k][i] = half_bits() | (u32)half_bits() << 16;
	run_rows("cuda/half", "f16", 3, p, size, got, sizeof got);
	for (int i = 0; i < N; i++) {
		for (int k = 0; k < 2 * N_HALVES; k++) {
			int s = 16 * (k & 1);
			float v[3];
			for (int j = 0; j < 3; j++)
				v[j] = f32_of_f16((uint16_t)(in[j][i] >> s));
			uint16_t want = halves[k / 2](v[0], v[1], v[2]),
				 g = (uint16_t)(got[k / 2 * N + i] >> s);
			if (!same_half(g, want, 0x7c00))
				wrong("output %d of %g, %g, %g is 0x%x, not 0x%x", k / 2,
				      (double)v[0], (double)v[1], (double)v[2], g, want);
		}
		float a0 = f32_of_f16((uint16_t)in[0][i]),
		      a1 = f32_of_f16((uint16_t)(in[0][i] >> 16));
		float b0 = f32_of_f16((uint16_t)in[1][i]),
		      b1 = f32_of_f16((uint16_t)(in[1][i] >> 16));
		CHECK(got[N_HALVES * N + i] == ((a0 == b0 && a1 == b1) | (u32)(a0 < b1) << 1));
	}
}

/* A*B+C rounded once: the sum is exact in a long double where it matters. */
static uint16_t bf16_fma(float a, float b, float c)
{
	long double sum = (long double)a * (long double)b + (long double)c;
	uint16_t h = bf16_of((float)sum), best = h;

	for (int k = -1; k <= 1 && isfinite((float)sum) && (float)sum != 0; k++) {
		uint16_t near = (uint16_t)(h + k);
		long double d = fabsl(f32_of_bf16(near) - sum), e = fabsl(f32_of_bf16(best) - sum);
		if (d < e || (d == e && !(near & 1)))
			best = near;
	}
	return best;
}

static void bf16(void)
{
	enum { N_BF16 = 8 };
	static u32 in[3][N], got[N_BF16 * N];
	const void *const p[] = {in[0], in[1], in[2]};
	const size_t size[] = {sizeof in[0], sizeof in[0], sizeof in[0]};

	for (int i = 0; i < N; i++)
		for (int k = 0; k < 3; k++)
			in[k][i] = bf16_of(odd_float()) | (u32)bf16_of(odd_float()) << 16;
	run_rows("cuda/half", "bf16", 3, p, size, got, sizeof got);
	for (int i = 0; i < N; i++)
		for (int k = 0; k < 2 * N_BF16; k++) {
			int s = 16 * (k & 1);
			float a = f32_of_bf16((uint16_t)(in[0][i] >> s)),
			      b = f32_of_bf16((uint16_t)(in[1][i] >> s));
			float c = f32_of_bf16((uint16_t)(in[2][i] >> s)),
			      f = f32_of_bf16(bf16_fma(a, b, c));
			float v[] = {a + b,       a * b,
				     f,           f != f ? f : f > 0 ? f : 0,
				     least(a, b), a != a || b != b ? NAN : most(a, b),
				     -a,          a < b ? 1 : 0};
			uint16_t want = bf16_of(v[k / 2]), g = (uint16_t)(got[k / 2 * N + i] >> s);
			if (!same_half(g, want, 0x7f80))
				wrong("output %d of %g, %g, %g is 0x%x, not 0x%x", k / 2, (double)a,
				      (double)b, (double)c, g, want);
		}
}

const Case conversion_cases[] = {
	{"numbers: to integers", to_ints},
	{"numbers: to floats", to_floats},
	{"numbers: f16", f16},
	{"numbers: bf16", bf16},
	{NULL, NULL},
};
