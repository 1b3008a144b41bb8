/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic as nvcc uses it, each result against C. */
#include "tests/ptxsim/check/gpu.h"
#include "tests/ptxsim/half.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 512, MAX_OUT = 64 };

typedef int32_t s32;
typedef int64_t s64;
typedef uint32_t u32;
typedef uint64_t u64;

static void run(const char *module_name, const char *kernel, int n_in, const void *const *in,
		const size_t *in_size, void *out, size_t out_size)
{
	CUdeviceptr p[4], q = put(NULL, out_size);
	int n = N;

	for (int i = 0; i < n_in; i++)
		p[i] = put(in[i], in_size[i]);
	CUfunction f = function(module_name, kernel);
	CUresult r = n_in == 2	 ? launch(f, 5, 128, 0, &p[0], &p[1], &q, &n, NULL)
		     : n_in == 3 ? launch(f, 5, 128, 0, &p[0], &p[1], &p[2], &q, &n, NULL)
				 : 1;
	OK(r);
	get(out, q, out_size);
}

/* ---- Integers ---- */

static u32 rev32(u32 v)
{
	u32 r = 0;

	for (int i = 0; i < 32; i++)
		r |= (v >> i & 1) << (31 - i);
	return r;
}

static u32 bytes(u32 a, u32 b, u32 c, bool signs)
{
	u32 r = 0;

	for (int i = 0; i < 4; i++) {
		u32 s = c >> (4 * i) & 7, v = s < 4 ? a >> (8 * s) : b >> (8 * (s - 4));
		v &= 0xff;
		if (signs && c >> (4 * i + 3) & 1)
			v = v & 0x80 ? 0xff : 0;
		r |= v << (8 * i);
	}
	return r;
}

static u32 field(s64 a, u32 pos, u32 len, bool is_signed)
{
	s64 v = is_signed ? (s32)a : (s64)(u32)a;

	if (!len)
		return 0;
	v >>= pos;
	return len >= 32		      ? (u32)v
	       : is_signed && pos + len <= 32 ? (u32)((s32)((u32)v << (32 - len)) >> (32 - len))
	       : is_signed		      ? (u32)v
					      : (u32)v & ((1u << len) - 1);
}

static u32 insert(u32 a, u32 b, u32 pos, u32 len)
{
	for (u32 i = 0; i < len && pos + i < 32; i++)
		b = (b & ~(1u << (pos + i))) | (a >> i & 1) << (pos + i);
	return b;
}

static u32 dot(s32 a, s32 b, s32 c, bool is_signed)
{
	for (int i = 0; i < 4; i++)
		c += is_signed ? (int8_t)(a >> (8 * i)) * (int8_t)(b >> (8 * i))
			       : (uint8_t)(a >> (8 * i)) * (uint8_t)(b >> (8 * i));
	return (u32)c;
}

static u32 dot2(s32 a, s32 b, s32 c)
{
	return (u32)(c + (int16_t)a * (int8_t)b + (a >> 16) * (int8_t)(b >> 8));
}

static s32 low24(s32 v)
{
	return (s32)((u32)v << 8) >> 8;
}

static u32 vmax4(u32 a, u32 b)
{
	u32 r = 0;

	for (int i = 0; i < 32; i += 8) {
		int8_t x = (int8_t)(a >> i), y = (int8_t)(b >> i);
		r |= (u32)(uint8_t)(x > y ? x : y) << i;
	}
	return r;
}

static int want32(s32 a, s32 b, s32 c, u32 *w)
{
	u32 ua = (u32)a, ub = (u32)b, uc = (u32)c, s = uc & 31, t = uc & 63,
	    clamped = t > 32 ? 32 : t;
	u64 both = (u64)ub << 32 | ua;
	bool edge = a == INT32_MIN && b == -1;
	u32 v[] = {
		ua + ub,
		ua - ub,
		ua * ub,
		ua * ub + uc,
		(u32)((s64)a * b >> 32),
		(u32)((u64)ua * ub >> 32),
		(u32)((s64)low24(a) * low24(b)),
		(ua & 0xffffff) * (ub & 0xffffff),
		b ? edge ? ua : (u32)(a / b) : 0,
		b ? edge ? 0 : (u32)(a % b) : 0,
		b ? ua / ub : 0,
		b ? ua % ub : 0,
		(u32)(a / 7),
		ua % 1000003,
		a < 0 ? -ua : ua,
		(u32)(a < b ? a : b),
		(u32)(a > b ? a : b),
		ua < ub ? ua : ub,
		ua > ub ? ua : ub,
		ua ? (u32)__builtin_clz(ua) : 32,
		(u32)__builtin_ffs(a),
		(u32)__builtin_popcount(ua),
		rev32(ua),
		bytes(ua, ub, uc, false),
		(u32)(both << s >> 32),
		(u32)(both >> s),
		(u32)(both << clamped >> 32),
		(u32)(both >> clamped),
		(a < b ? ub - ua : ua - ub) + uc,
		(ua < ub ? ub - ua : ua - ub) + uc,
		dot(a, b, c, true),
		dot(a, b, c, false),
		dot2(a, b, c),
		dot2(a, b >> 16, c),
		(ua & ub) ^ (~uc | ub),
		ua << s,
		(u32)(a >> s),
		ua >> s,
		(u32)((int16_t)a * (int16_t)b),
		(uint16_t)(ua + ub),
		(u32)(int8_t)a,
		(u32)(((s64)a + b) >> 1),
		(u32)(((s64)a + b + 1) >> 1),
		a < b ? uc : -uc,
		((ua + ub) & 0xffff) | ((ua & 0xffff0000) + (ub & 0xffff0000)),
		vmax4(ua, ub),
		field(a, ub & 63, uc & 63, true),
		field(a, ub & 63, uc & 63, false),
		insert(ua, ub, uc & 63, uc >> 8 & 63),
		bytes(ua, ub, uc, true),
	};

	memcpy(w, v, sizeof v);
	return sizeof v / sizeof *v;
}

static u32 odd_bits(void)
{
	static const u32 special[] = {0,  1,  0xffffffff, 0x80000000, 0x7fffffff,
				      31, 32, 0x8000,	  0xffff};
	u32 k = below(12);

	return k < 9 ? special[k] : below(0xffffffff) >> below(28);
}

static void ints32(void)
{
	static u32 in[3][N], got[MAX_OUT * N], want[MAX_OUT];
	const void *const p[] = {in[0], in[1], in[2]};
	const size_t size[] = {sizeof in[0], sizeof in[0], sizeof in[0]};
	int n = want32(0, 0, 0, want);

	for (int i = 0; i < N; i++)
		for (int k = 0; k < 3; k++)
			in[k][i] = odd_bits();
	run("cuda/integer", "ops32", 3, p, size, got, (size_t)n * N * 4);
	for (int i = 0; i < N; i++) {
		want32((s32)in[0][i], (s32)in[1][i], (s32)in[2][i], want);
		for (int k = 0; k < n; k++)
			if (got[k * N + i] != want[k])
				wrong("output %d of 0x%x, 0x%x, 0x%x is 0x%x, not 0x%x", k,
				      in[0][i], in[1][i], in[2][i], got[k * N + i], want[k]);
	}
}

static int want64(s64 a, s64 b, u64 *w)
{
	u64 ua = (u64)a, ub = (u64)b, r = 0;
	bool edge = a == INT64_MIN && b == -1;

	for (int i = 0; i < 64; i++)
		r |= (ua >> i & 1) << (63 - i);
	u64 v[] = {
		ua + ub,
		ua * ub,
		(u64)((__int128)a * b >> 64),
		(u64)((unsigned __int128)ua * ub >> 64),
		b ? edge ? ua : (u64)(a / b) : 0,
		b ? edge ? 0 : (u64)(a % b) : 0,
		b ? ua / ub : 0,
		b ? ua % ub : 0,
		(u64)(a < b ? a : b),
		ua > ub ? ua : ub,
		ua << (b & 63),
		(u64)(a >> (b & 63)),
		ua >> (b & 63),
		ua ? (u64)__builtin_clzll(ua) : 64,
		(u64)__builtin_popcountll(ua),
		r,
		(u64)((s64)(s32)a * (s32)b),
		(u64)(u32)a * (u32)b + ub,
		ua < ub,
		a < b,
		a < 0 ? -ua : ua,
	};
	memcpy(w, v, sizeof v);
	return sizeof v / sizeof *v;
}

static void ints64(void)
{
	static u64 in[2][N], got[MAX_OUT * N], want[MAX_OUT];
	const void *const p[] = {in[0], in[1]};
	const size_t size[] = {sizeof in[0], sizeof in[0]};
	int n = want64(0, 0, want);

	for (int i = 0; i < N; i++)
		for (int k = 0; k < 2; k++)
			in[k][i] = (u64)odd_bits() << (below(2) * 32) | odd_bits();
	run("cuda/integer", "ops64", 2, p, size, got, (size_t)n * N * 8);
	for (int i = 0; i < N; i++) {
		want64((s64)in[0][i], (s64)in[1][i], want);
		for (int k = 0; k < n; k++)
			if (got[k * N + i] != want[k])
				wrong("output %d of 0x%llx, 0x%llx is 0x%llx, not 0x%llx", k,
				      (unsigned long long)in[0][i], (unsigned long long)in[1][i],
				      (unsigned long long)got[k * N + i],
				      (unsigned long long)want[k]);
	}
}

/* ---- Floats ---- */

static float odd_float(void)
{
	static const float special[] = {0,     -0.0f,	 1,	  -1,	   INFINITY, -INFINITY,
					NAN,   1e-40f,	 -3e-45f, 3.4e38f, 0.5f,     2.5f,
					-1.5f, 16777216, 65504,	  65520,   1e-8f};
	u32 k = below(40);

	if (k < sizeof special / sizeof *special)
		return special[k];
	return k < 30 ? (uniform() - 0.5f) * 8 : ldexpf(uniform() - 0.5f, (int)below(60) - 30);
}

enum { ADD, MUL, FMA, DIV, SQRT, CAST };

/* In double or float under a rounding, which the compiler must not move. */
__attribute__((noinline)) static float rounded(int op, float a, float b, float c, int mode)
{
	volatile float x = a, y = b, z = c, r = 0;

	fesetround(mode);
	switch (op) {
	case ADD: r = x + y; break;
	case MUL: r = x * y; break;
	case FMA: r = fmaf(x, y, z); break;
	case DIV: r = x / y; break;
	default: r = sqrtf(x); break;
	}
	fesetround(FE_TONEAREST);
	return r;
}

static float least(float a, float b)
{
	return a != a ? b : b != b ? a : a < b || (a == b && signbit(a)) ? a : b;
}

static float most(float a, float b)
{
	return a != a ? b : b != b ? a : a > b || (a == b && !signbit(a)) ? a : b;
}

static int want_exact(float a, float b, float c, float *w)
{
	const int rn = FE_TONEAREST, rz = FE_TOWARDZERO, ru = FE_UPWARD, rd = FE_DOWNWARD;
	float v[] = {
		rounded(ADD, a, b, c, rn),
		rounded(ADD, a, b, c, rz),
		rounded(ADD, a, b, c, ru),
		rounded(ADD, a, b, c, rd),
		rounded(MUL, a, b, c, rn),
		rounded(MUL, a, b, c, rz),
		rounded(FMA, a, b, c, rn),
		rounded(FMA, a, b, c, rz),
		rounded(FMA, a, b, c, ru),
		rounded(FMA, a, b, c, rd),
		rounded(DIV, a, b, c, rn),
		rounded(DIV, a, b, c, rd),
		rounded(SQRT, fabsf(a), 0, 0, rn),
		rounded(SQRT, fabsf(a), 0, 0, ru),
		1 / a,
		least(a, b),
		most(a, b),
		fabsf(a),
		-a,
		copysignf(a, b),
		floorf(a),
		ceilf(a),
		truncf(a),
		rintf(a),
		roundf(a),
		a > 0 ? a < 1 ? a : 1 : 0,
		fmodf(a, b),
		a < b ? a : c,
		a != a	   ? 1
		: isinf(a) ? 2
			   : 3,
		a <= b || c > b ? 1 : 0,
		(float)fma((double)a, (double)b, (double)c),
	};
	memcpy(w, v, sizeof v);
	return sizeof v / sizeof *v;
}

static bool same_float(float a, float b)
{
	return (a != a && b != b) || !memcmp(&a, &b, sizeof a);
}

static void exact(void)
{
	static float in[3][N], got[MAX_OUT * N], want[MAX_OUT];
	const void *const p[] = {in[0], in[1], in[2]};
	const size_t size[] = {sizeof in[0], sizeof in[0], sizeof in[0]};
	int n = want_exact(0, 0, 0, want);

	for (int i = 0; i < N; i++)
		for (int k = 0; k < 3; k++)
			in[k][i] = odd_float();
	run("cuda/float", "exact", 3, p, size, got, (size_t)n * N * 4);
	for (int i = 0; i < N; i++) {
		want_exact(in[0][i], in[1][i], in[2][i], want);
		for (int k = 0; k < n; k++)
			if (!same_float(got[k * N + i], want[k]))
				wrong("output %d of %a, %a, %a is %a, not %a", k, (double)in[0][i],
				      (double)in[1][i], (double)in[2][i], (double)got[k * N + i],
				      (double)want[k]);
	}
}

__attribute__((noinline)) static double rounded64(int op, double a, double b, double c, int mode)
{
	volatile double x = a, y = b, z = c, r;

	fesetround(mode);
	r = op == ADD ? x + y : op == FMA ? fma(x, y, z) : (double)(float)x;
	fesetround(FE_TONEAREST);
	return r;
}

static double to_s64(double a)
{
	return a != a	     ? (double)INT64_MIN
	       : a >= 0x1p63 ? 0x1p63
	       : a < -0x1p63 ? -0x1p63
			     : trunc(a) + 0.0;
}

static int want_exact64(double a, double b, double c, double *w)
{
	double v[] = {
		a + b,
		rounded64(ADD, a, b, c, FE_TOWARDZERO),
		a * b,
		fma(a, b, c),
		rounded64(FMA, a, b, c, FE_UPWARD),
		a / b,
		sqrt(fabs(a)),
		fmin(a, b),
		fmax(a, b),
		floor(a),
		rint(a),
		(double)(float)a,
		to_s64(a),
		copysign(a, b),
	};

	if (a == b) {
		v[7] = signbit(a) ? a : b;
		v[8] = signbit(a) ? b : a;
	}
	memcpy(w, v, sizeof v);
	return sizeof v / sizeof *v;
}

static void exact64(void)
{
	static double in[3][N], got[MAX_OUT * N], want[MAX_OUT];
	const void *const p[] = {in[0], in[1], in[2]};
	const size_t size[] = {sizeof in[0], sizeof in[0], sizeof in[0]};
	int n = want_exact64(0, 0, 0, want);

	for (int i = 0; i < N; i++)
		for (int k = 0; k < 3; k++)
			in[k][i] = (double)odd_float() * (1 + (double)uniform() * 1e-9);
	run("cuda/float", "exact64", 3, p, size, got, (size_t)n * N * 8);
	for (int i = 0; i < N; i++) {
		want_exact64(in[0][i], in[1][i], in[2][i], want);
		for (int k = 0; k < n; k++) {
			double a = got[k * N + i], b = want[k];
			if (memcmp(&a, &b, sizeof a) && !(a != a && b != b))
				wrong("output %d of %a, %a, %a is %a, not %a", k, in[0][i],
				      in[1][i], in[2][i], a, b);
		}
	}
}

static int want_math(float x, float y, float *w)
{
	double a = (double)x, b = fabs((double)y);
	double v[] = {
		exp(a),
		exp2(a),
		log(b),
		log2(b),
		log1p(b),
		expm1(a),
		sin((double)(x * 1000)),
		cos((double)(x * 1e6f)),
		tan(a),
		tanh(a),
		erf(a),
		erfc(a),
		pow(b, a),
		1 / sqrt(b),
		cbrt(a),
		atan2(a, b),
		asinh(a),
		lgamma((double)((float)b + 0.5f)),
		exp(a),
		log(b),
		sin(a),
		a / b,
		exp(a),
		log(b),
		sin(a * 1000),
		pow(b, a),
	};

	for (size_t i = 0; i < sizeof v / sizeof *v; i++)
		w[i] = (float)v[i];
	return sizeof v / sizeof *v;
}

static void math(void)
{
	static float in[2][N], got[MAX_OUT * N], want[MAX_OUT];
	const void *const p[] = {in[0], in[1]};
	const size_t size[] = {sizeof in[0], sizeof in[0]};
	int n = want_math(1, 1, want);

	for (int i = 0; i < N; i++) {
		in[0][i] = (uniform() - 0.5f) * 8;
		in[1][i] = uniform() * 10 + 0.01f;
	}
	run("cuda/float", "math", 2, p, size, got, (size_t)n * N * 4);
	for (int i = 0; i < N; i++) {
		want_math(in[0][i], in[1][i], want);
		for (int k = 0; k < n; k++) {
			float g = got[k * N + i];
			/* CUDA's functions are right to a few units in the last place; the __ ones less so. */
			if (!(fabsf(g - want[k]) <= 2e-6f * (fabsf(want[k]) + 0.3f)))
				wrong("output %d of %g, %g is %g, not %g", k, (double)in[0][i],
				      (double)in[1][i], (double)g, (double)want[k]);
		}
	}
}

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
	run("cuda/convert", "to_int", 2, p, size, got, (size_t)n * N * 8);
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

static void to_floats(void)
{
	enum { HALF_VALUE = 15, BF16_VALUE = 18, TF32 = 19 };
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
	run("cuda/convert", "to_float", 3, p, size, got, (size_t)n * N * 8);
	for (int i = 0; i < N; i++) {
		want_to_float(f[i], d[i], v[i], want);
		for (int k = 0; k < n; k++) {
			/* NaNs of these have bits that nothing promises. */
			bool nan =
				(k == HALF_VALUE || k == BF16_VALUE) && !want[k] && v[i] & 0x7fff;
			if (!nan && !(k == TF32 && f[i] != f[i]))
				compare64("to_float", got, k, i, want[k], (double)f[i], d[i], v[i]);
		}
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
static Half *const halves[] = {h_add, h_sub, h_mul,	h_fma, h_fma_sat, h_fma_relu, h_add_sat,
			       h_min, h_max, h_max_nan, h_neg, h_abs,	  h_lt,	      h_geu};
enum { N_HALVES = 14, N_F16 = 16 };

static uint16_t half_bits(void)
{
	static const uint16_t special[] = {0,	   0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00,
					   0x7e00, 1,	   0x8001, 0x7bff, 0x0400};
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
	run("cuda/half", "f16", 3, p, size, got, sizeof got);
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
	run("cuda/half", "bf16", 3, p, size, got, sizeof got);
	for (int i = 0; i < N; i++)
		for (int k = 0; k < 2 * N_BF16; k++) {
			int s = 16 * (k & 1);
			float a = f32_of_bf16((uint16_t)(in[0][i] >> s)),
			      b = f32_of_bf16((uint16_t)(in[1][i] >> s));
			float c = f32_of_bf16((uint16_t)(in[2][i] >> s)),
			      f = f32_of_bf16(bf16_fma(a, b, c));
			float v[] = {a + b,	  a * b,
				     f,		  f != f ? f : f > 0 ? f : 0,
				     least(a, b), a != a || b != b ? NAN : most(a, b),
				     -a,	  a < b ? 1 : 0};
			uint16_t want = bf16_of(v[k / 2]), g = (uint16_t)(got[k / 2 * N + i] >> s);
			if (!same_half(g, want, 0x7f80))
				wrong("output %d of %g, %g, %g is 0x%x, not 0x%x", k / 2, (double)a,
				      (double)b, (double)c, g, want);
		}
}

const Case number_cases[] = {
	{"numbers: 32-bit integers", ints32},
	{"numbers: 64-bit integers", ints64},
	{"numbers: f32", exact},
	{"numbers: f64", exact64},
	{"numbers: functions", math},
	{"numbers: to integers", to_ints},
	{"numbers: to floats", to_floats},
	{"numbers: f16", f16},
	{"numbers: bf16", bf16},
	{NULL, NULL},
};
