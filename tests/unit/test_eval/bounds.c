/* SPDX-License-Identifier: Apache-2.0 */
/* Error bounds of values. */
#include "tests/unit/test_eval/parts.h"

#include <math.h>

/* Bounds hold for an f32 sum in any order, and propagate through later operations. */
static void check_bounds_sum(void)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(
		c, a,
		"kernel @b(%a: f32[8,500], %b: f32[500,9]) -> (%y: f32[8,9], %m: f32[8]) {\n"
		"  t: f32[8,9]\n"
		"  t[i,j] = sum mul(a[i,k], b[k,j]) for i < 8, j < 9 over k < 500\n"
		"  y[i,j] = mul(max(t[i,j], 0), 0.25) for i < 8, j < 9\n"
		"  m[i] = sum t[i,j] for i < 8 over j < 9\n}");
	static float x[8 * 500], w[500 * 9];
	float y[72], m[8], sum[72];
	double by[72], bm[8];
	EvalBuf bufs[] = {{x, NULL}, {w, NULL}, {y, by}, {m, bm}, {0}};
	EvalOpts o = {.bounds = true};

	for (int i = 0; i < 4000; i++)
		x[i] = (float)(random_bits() % 20001) * 1e-4f - 1;
	for (int i = 0; i < 4500; i++)
		w[i] = (float)(random_bits() % 20001) * 1e-4f - 1;
	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	for (int i = 0; i < 8; i++) {
		float total = 0;

		for (int j = 0; j < 9; j++) {
			float s = 0;
			double e;

			for (int q = 499; q >= 0; q--)
				s += x[i * 500 + q] * w[q * 9 + j];
			sum[i * 9 + j] = s;
			total += s;
			e = fabs((double)(s > 0 ? s * 0.25f : 0) - (double)y[i * 9 + j]);
			CHECK(e <= by[i * 9 + j]);
			CHECK(y[i * 9 + j] == 0 || (by[i * 9 + j] > 0 && by[i * 9 + j] < 0.01));
		}
		CHECK(fabs((double)total - (double)m[i]) <= bm[i] && bm[i] > 0 && bm[i] < 0.1);
	}
	(void)sum;
	arena_free(a);
	ctx_free(c);
}

/* Updates of one element are a sum: its bound holds for any order, also if large terms cancel
 * first. */
static void check_bounds_updates(void)
{
	enum { N = 400 };
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a,
				"kernel @u(%v: f32[400], %i: i64[400]) -> (%y: f32[3]) {\n"
				"  y[k] = 0 for k < 3\n"
				"  y[i[j]] = update sum v[j] for j < 400\n}");
	float v[N], y[3], sum = 0;
	int64_t at[N];
	double by[3];
	EvalBuf bufs[] = {{v, NULL}, {at, NULL}, {y, by}, {0}};
	EvalOpts o = {.bounds = true};

	for (int i = 0; i < N; i++) {
		v[i] = i == 0 ? 0x1p27f : i == 1 ? -0x1p27f : 1;
		at[i] = 1;
	}
	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	sum += v[0];
	for (int i = N - 1; i > 0; i--)
		sum += v[i];
	CHECK(y[1] == N - 2 && sum == 0);
	CHECK(fabs((double)(y[1] - sum)) <= by[1] && by[1] <= 64.0 * (double)N);
	CHECK(by[0] == 0 && by[2] == 0);
	arena_free(a);
	ctx_free(c);
}

/* A bound that propagates through a second contraction, a product and a prefix. */
static void check_bounds_chain(void)
{
	enum { N = 16, K = 300 };
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(
		c, a,
		"kernel @c(%a: f32[16,300], %b: f32[300,16]) -> "
		"(%y: f32[16,16], %p: f32[16], %s: f16[16,16]) {\n"
		"  t: f32[16,16]\n"
		"  t[i,j] = sum mul(a[i,k], b[k,j]) for i < 16, j < 16 over k < 300\n"
		"  y[i,j] = sum mul(t[i,l], max(t[l,j], 0)) for i < 16, j < 16 over l < 16\n"
		"  p[i] = prod t[i,l] for i < 16 over l < 16\n"
		"  s[i,l] = scan sum t[i,l] for i < 16 over l < 16\n}");
	static float x[N * K], w[K * N], t[N * N], y[N * N], p[N];
	uint16_t s[N * N];
	double by[N * N], bp[N], bs[N * N];
	EvalBuf bufs[] = {{x, NULL}, {w, NULL}, {y, by}, {p, bp}, {s, bs}, {0}};
	EvalOpts o = {.bounds = true};

	for (int i = 0; i < N * K; i++) {
		x[i] = (float)(random_bits() % 20001) * 1e-4f - 1;
		w[i] = (float)(random_bits() % 20001) * 1e-4f - 1;
	}
	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) {
			t[i * N + j] = 0;
			for (int q = K - 1; q >= 0; q--)
				t[i * N + j] += x[i * K + q] * w[q * N + j];
		}
	for (int i = 0; i < N; i++) {
		float product = 1, prefix = 0;

		for (int j = 0; j < N; j++) {
			float sum = 0;

			for (int q = N - 1; q >= 0; q--)
				sum += t[i * N + q] * (t[q * N + j] > 0 ? t[q * N + j] : 0);
			CHECK(fabs((double)sum - (double)y[i * N + j]) <= by[i * N + j]);
			CHECK(by[i * N + j] < 2);
			product *= t[i * N + N - 1 - j];
			prefix += t[i * N + j];
			CHECK(fabs((double)prefix - dtype_load_f64(DT_F16, s, i * N + j)) <=
			      bs[i * N + j]);
			CHECK(bs[i * N + j] < 0.2);
		}
		CHECK(fabs((double)product - (double)p[i]) <= bp[i]);
		CHECK(isfinite(bp[i]));
	}
	arena_free(a);
	ctx_free(c);
}

/* Bounds where shifting an operand changes nothing: at an extremum, where terms cancel, for
 * subnormal numbers. */
static void check_bounds_flat(void)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a,
				"kernel @f(%x: f32[2]) -> (%y: f32[2], %z: f32[2], %s: f32[]) {\n"
				"  y[i] = mul(x[i], add(mul(x[i], 0.16666667), 0.5)) for i < 2\n"
				"  z[i] = sub(add(x[i], 1), 1) for i < 2\n"
				"  s[] = sum mul(x[i], 2e-38) over i < 2\n}");
	float x[2] = {-1.5f, 1e-4f}, y[2], z[2], s;
	double bx[2] = {1e-6, 1e-10}, by[2], bz[2], bs;
	EvalBuf bufs[] = {{x, bx}, {y, by}, {z, bz}, {&s, &bs}};
	EvalOpts o = {.bounds = true};

	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	CHECK(by[0] >= 0x1p-25 && by[0] < 1e-6);
	CHECK(bz[1] >= 0x1p-24 && bz[1] < 1e-6);
	x[0] = -1e-4f;
	bx[0] = bx[1] = 0;
	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	CHECK(bs > 0x1p-148 && bs < 1e-43);
	arena_free(a);
	ctx_free(c);
}

/* A value that is rounded to a narrower type inside an expression may move by one ulp of it,
 * although both ends of its interval round to the same number. A value without a bound does not
 * move. */
static void check_bounds_narrowed(void)
{
	Diag diag = {.out = stdout};
	Ctx *c = ctx_new(&diag);
	Arena *a = arena_new();
	Kernel *k = read_kernel(c, a,
				"kernel @n(%x: f32[3]) -> (%y: f32[3], %i: i32[3]) {\n"
				"  y[i] = select(lt(i, 2), round.f16(x[i]), -inf) for i < 3\n"
				"  i[j] = round.i8(i32(x[j])) for j < 3\n}");
	float x[3] = {1.5f, 1.5f, 1.5f}, y[3];
	int32_t to[3];
	double bx[3] = {1e-6, 0, 1e-6}, by[3], bi[3];
	EvalBuf bufs[] = {{x, bx}, {y, by}, {to, bi}};
	EvalOpts o = {.bounds = true};

	CHECK(eval_kernel(k, &o, bufs, NULL) == EVAL_OK);
	CHECK(by[0] >= 0x1p-10 && by[0] < 0x1.01p-10);
	CHECK(by[1] == 0 && by[2] == 0);
	CHECK(bi[0] == 0);
	arena_free(a);
	ctx_free(c);
}

void check_bounds(void)
{
	check_bounds_sum();
	check_bounds_updates();
	check_bounds_chain();
	check_bounds_flat();
	check_bounds_narrowed();
}
