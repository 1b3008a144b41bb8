/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that Triton compiled: products of matrices in every type, softmax, attention; and what
 * becomes of a product whose PTX lacks a line. */
#include "tests/ptxsim/check/gpu.h"
#include "tools/ptxsim/half.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEEDS = 4 };

typedef enum Num { F16, BF16, F32, F64, S8, S32, E4M3 } Num;
static const int num_size[] = {2, 2, 4, 8, 1, 4, 1};

static void encode(void *at, int i, Num t, double v)
{
	switch (t) {
	case F16: ((uint16_t *)at)[i] = f16_of_f64(v); break;
	case BF16: ((uint16_t *)at)[i] = bf16_of((float)v); break;
	case F32: ((float *)at)[i] = (float)v; break;
	case F64: ((double *)at)[i] = v; break;
	case S8: ((int8_t *)at)[i] = (int8_t)v; break;
	case S32: ((int32_t *)at)[i] = (int32_t)v; break;
	case E4M3: {
		/* 0, a half or one */
		double a = v < 0 ? -v : v;
		((uint8_t *)at)[i] = (uint8_t)((v < 0 ? 0x80 : 0) | (a == 1  ? 0x38
								     : a > 0 ? 0x30
									     : 0));
	}
	}
}

static double decode_num(const void *at, int i, Num t)
{
	switch (t) {
	case F16: return (double)f32_of_f16(((const uint16_t *)at)[i]);
	case F32: return (double)((const float *)at)[i];
	case F64: return ((const double *)at)[i];
	case S32: return ((const int32_t *)at)[i];
	default: return 0;
	}
}

typedef struct Gemm {
	const char *module;
	Num in, out;
	int bm, bn, threads, shared;
} Gemm;

enum { MAX_SIZE = 160 * 160 };

/* C = A B with elements that every type has, so that the sums are exact; ROUGH: any elements.
 * Returns whether it is right. */
static bool product(const Gemm *g, CUfunction f, int m, int n, int k, bool rough)
{
	static double a[MAX_SIZE], b[MAX_SIZE];
	static uint8_t bytes[8 * MAX_SIZE];
	double step = g->in == S8 ? 1 : 0.5;
	CUdeviceptr pa, pb, pc, none = 0;

	for (int i = 0; i < m * k; i++)
		encode(bytes, i, g->in,
		       a[i] = rough ? (double)uniform() - 0.5 : ((int)below(5) - 2) * step);
	for (int i = 0; rough && i < m * k; i++)
		a[i] = decode_num(bytes, i, g->in);
	pa = put(bytes, (size_t)(m * k * num_size[g->in]));
	for (int i = 0; i < k * n; i++)
		encode(bytes, i, g->in,
		       b[i] = rough ? (double)uniform() - 0.5 : ((int)below(5) - 2) * step);
	for (int i = 0; rough && i < k * n; i++)
		b[i] = decode_num(bytes, i, g->in);
	pb = put(bytes, (size_t)(k * n * num_size[g->in]));
	pc = put(NULL, (size_t)(m * n * num_size[g->out]));
	void *params[] = {&pa, &pb, &pc, &m, &n, &k, &k, &n, &n, &none, &none};
	if (launch2(f, (unsigned)((m + g->bm - 1) / g->bm), (unsigned)((n + g->bn - 1) / g->bn),
		    (unsigned)g->threads, (unsigned)g->shared, params))
		return false;
	if (cuMemcpyDtoH_v2(bytes, pc, (size_t)(m * n * num_size[g->out])))
		return false;
	for (int i = 0; i < m; i++)
		for (int j = 0; j < n; j++) {
			double sum = 0, got = decode_num(bytes, i * n + j, g->out);
			for (int q = 0; q < k; q++)
				sum += a[i * k + q] * b[q * n + j];
			if (rough ? fabs(got - sum) > 2e-3 : got != sum)
				return false;
		}
	return true;
}

static void gemm(const Gemm *g)
{
	char path[64];

	snprintf(path, sizeof path, "triton/%s", g->module);
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		ptxsim_seed(seed);
		if (!product(g, function(path, "gemm"), 64, 64, 64, false) ||
		    !product(g, function(path, "gemm"), 96, 128, 32, false))
			wrong("%s, seed %d: %s", g->module, (int)seed, ptxsim_message());
	}
}

#define GEMM(name, ...)                                     \
	static void name(void)                              \
	{                                                   \
		static const Gemm g = {#name, __VA_ARGS__}; \
		gemm(&g);                                   \
	}
GEMM(gemm_acc16, F16, F16, 32, 32, 64, 4096)
GEMM(gemm_bf16, BF16, F32, 32, 64, 128, 8192)
GEMM(gemm_tf32, F32, F32, 32, 32, 64, 8192)
GEMM(gemm_s8, S8, S32, 32, 32, 64, 4096)
GEMM(gemm_f64, F64, F64, 16, 16, 32, 4096)

static void gemm_fp8(void)
{
	static const Gemm g = {"gemm_fp8", E4M3, F32, 32, 32, 64, 4096};

	CHECK(!ptxsim_device(89));
	gemm(&g);
}

static void wgmma(void)
{
	static const Gemm g[] = {{"wgmma", F16, F16, 64, 64, 128, 32768},
				 {"wgmma_bf16", BF16, F32, 128, 32, 256, 36864},
				 {"wgmma_odd", F16, F16, 64, 64, 128, 8192}};

	CHECK(!ptxsim_device(90));
	for (int i = 0; i < 3; i++)
		gemm(&g[i]);
	CHECK(product(&g[0], function("triton/wgmma", "gemm"), 128, 80, 112, true));
	CHECK(product(&g[2], function("triton/wgmma_odd", "gemm"), 51, 77, 93, false));
}

static const Gemm f16 = {"gemm", F16, F16, 64, 64, 128, 12288},
		  odd = {"gemm_odd", F16, F16, 32, 64, 64, 6144};

static void gemm_f16(void)
{
	gemm(&f16);
	CHECK(product(&f16, function("triton/gemm", "gemm"), 128, 80, 112, true));
	ptxsim_stats_clear();
	CHECK(product(&f16, function("triton/gemm", "gemm"), 128, 128, 64, true));
	CHECK(ptxsim_counter("gemm", "mma") == 128 / 16 * 128 / 8 * 64 / 16);
}

static void gemm_odd_sizes(void)
{
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		ptxsim_seed(seed);
		CHECK(product(&odd, function("triton/gemm_odd", "gemm"), 51, 77, 93, false));
		CHECK(product(&odd, function("triton/gemm_odd", "gemm"), 1, 1, 1, true));
	}
}

static void softmax(void)
{
	enum { R = 7, N = 1000 };
	static float x[R * N], got[R * N], want[R * N];
	int n = N;
	CUdeviceptr none = 0;

	for (int r = 0; r < R; r++) {
		float top = -1e30f;
		double sum = 0;
		for (int i = 0; i < N; i++) {
			x[r * N + i] = uniform() * 20 - 10;
			top = fmaxf(top, x[r * N + i]);
		}
		for (int i = 0; i < N; i++)
			sum += exp((double)(x[r * N + i] - top));
		for (int i = 0; i < N; i++)
			want[r * N + i] = (float)(exp((double)(x[r * N + i] - top)) / sum);
	}
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		ptxsim_seed(seed);
		CUdeviceptr p = put(x, sizeof x), q = put(NULL, sizeof x);
		OK(launch(function("triton/softmax", "softmax"), R, 128, 16, &p, &q, &n, &n, &none,
			  &none, NULL));
		get(got, q, sizeof got);
		close_f32(got, want, R * N, 1e-7f, "rows");
	}
}

static void attention(void)
{
	enum { H = 2, L = 75, D = 64, SIZE = H * L * D };
	static uint16_t q[SIZE], k[SIZE], v[SIZE], got[SIZE];
	int length = L;
	float scale = 0.125f * 1.44269504f;
	CUdeviceptr none = 0;

	for (int i = 0; i < SIZE; i++) {
		q[i] = f16_of(uniform() * 4 - 2);
		k[i] = f16_of(uniform() * 4 - 2);
		v[i] = f16_of(uniform() * 4 - 2);
	}
	for (uint64_t seed = 0; seed < 2; seed++) {
		ptxsim_seed(seed);
		CUdeviceptr pq = put(q, sizeof q), pk = put(k, sizeof k), pv = put(v, sizeof v),
			    po = put(NULL, sizeof got);
		void *params[] = {&pq, &pk, &pv, &po, &length, &scale, &none, &none};
		OK(launch2(function("triton/attention", "attention"), 2, H, 128, 16384, params));
		get(got, po, sizeof got);
		for (int h = 0; h < H; h++)
			for (int i = 0; i < L; i++) {
				double p[L], sum = 0;
				for (int j = 0; j < L; j++) {
					double s = 0;
					for (int d = 0; d < D; d++)
						s += (double)(f32_of_f16(q[(h * L + i) * D + d]) *
							      f32_of_f16(k[(h * L + j) * D + d]));
					sum += p[j] = exp(s * 0.125);
				}
				for (int d = 0; d < D; d++) {
					double o = 0;
					for (int j = 0; j < L; j++)
						o += p[j] / sum *
						     (double)f32_of_f16(v[(h * L + j) * D + d]);
					if (fabs(o - (double)f32_of_f16(got[(h * L + i) * D + d])) >
					    2e-3)
						wrong("head %d, row %d, column %d is %g, not %g", h,
						      i, d,
						      (double)f32_of_f16(got[(h * L + i) * D + d]),
						      o);
				}
			}
	}
}

/* ---- Mutants ---- */

/* Whether the product is still right and silent when line number AT (from 0) that has PATTERN is
 * gone; -1: there is none. */
static int survives(const char *pattern, int at)
{
	char *text = module_text("triton/gemm"), *p = text;
	int status;

	for (p = strstr(p, pattern); p && at; at--)
		p = strstr(p + 1, pattern);
	if (!p)
		return -1;
	memset(p, ' ', strcspn(p, "\n"));
	fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		CUmodule m;
		CUfunction f;
		bool good = !cuModuleLoadDataEx(&m, text, 0, NULL, NULL) &&
			    !cuModuleGetFunction(&f, m, "gemm");
		for (uint64_t seed = 0; seed < 8 && good; seed++) {
			ptxsim_seed(seed);
			good = product(&f16, f, 64, 64, 160, true);
		}
		_exit(good);
	}
	free(text);
	waitpid(pid, &status, 0);
	return WIFEXITED(status) && WEXITSTATUS(status);
}

static void mutants(void)
{
	static const char *const patterns[] = {
		"bar.sync", "cp.async.wait_group", "cp.async.commit_group", "mma.sync",
		"ldmatrix", "cp.async.cg"};

	for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++)
		for (int at = 0, s; (s = survives(patterns[k], at)) >= 0; at++)
			if (s)
				wrong("%s, number %d is gone, and the product is right",
				      patterns[k], at);
}

const Case triton_cases[] = {
	{"triton: wgmma", wgmma},
	{"triton: f16", gemm_f16},
	{"triton: odd sizes", gemm_odd_sizes},
	{"triton: f16 sums", gemm_acc16},
	{"triton: bf16", gemm_bf16},
	{"triton: tf32", gemm_tf32},
	{"triton: s8", gemm_s8},
	{"triton: fp8", gemm_fp8},
	{"triton: f64", gemm_f64},
	{"triton: softmax", softmax},
	{"triton: attention", attention},
	{"triton: mutants", mutants},
	{NULL, NULL},
};
