/* SPDX-License-Identifier: Apache-2.0 */
/* Arithmetic of integers, f32 and f64 as nvcc uses it, each result against C. */
#include "tests/ptxsim/check/numbers.h"
#include "tools/ptxsim/half.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	return len >= 32                      ? (u32)v
	       : is_signed && pos + len <= 32 ? (u32)((s32)((u32)v << (32 - len)) >> (32 - len))
	       : is_signed                    ? (u32)v
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

static void ints32(void)
{
	static u32 in[3][N], got[MAX_OUT * N], want[MAX_OUT];
	const void *const p[] = {in[0], in[1], in[2]};
	const size_t size[] = {sizeof in[0], sizeof in[0], sizeof in[0]};
	int n = want32(0, 0, 0, want);

	for (int i = 0; i < N; i++)
		for (int k = 0; k < 3; k++)
			in[k][i] = odd_bits();
	run_rows("cuda/integer", "ops32", 3, p, size, got, (size_t)n * N * 4);
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
	run_rows("cuda/integer", "ops64", 2, p, size, got, (size_t)n * N * 8);
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
		a != a     ? 1
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
	run_rows("cuda/float", "exact", 3, p, size, got, (size_t)n * N * 4);
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
	return a != a        ? (double)INT64_MIN
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
	run_rows("cuda/float", "exact64", 3, p, size, got, (size_t)n * N * 8);
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
	run_rows("cuda/float", "math", 2, p, size, got, (size_t)n * N * 4);
	for (int i = 0; i < N; i++) {
		want_math(in[0][i], in[1][i], want);
		for (int k = 0; k < n; k++) {
			float g = got[k * N + i];
			/* CUDA's functions are right to a few units in the last place; the __
			 * ones less so. */
			if (!(fabsf(g - want[k]) <= 2e-6f * (fabsf(want[k]) + 0.3f)))
				wrong("output %d of %g, %g is %g, not %g", k, (double)in[0][i],
				      (double)in[1][i], (double)g, (double)want[k]);
		}
	}
}

const Case number_cases[] = {
	{"numbers: 32-bit integers", ints32},
	{"numbers: 64-bit integers", ints64},
	{"numbers: f32", exact},
	{"numbers: f64", exact64},
	{"numbers: functions", math},
	{NULL, NULL},
};
