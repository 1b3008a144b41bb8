/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that nvcc compiled, against C. */
#include "tests/ptxsim/check/gpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1000 };

static void vadd(void)
{
	float a[N], b[N], want[N], c[N];
	int n = N;

	for (int i = 0; i < N; i++) {
		a[i] = uniform();
		b[i] = uniform();
		want[i] = a[i] + b[i];
	}
	CUdeviceptr pa = put(a, sizeof a), pb = put(b, sizeof b), pc = put(NULL, sizeof c);
	OK(launch(function("cuda/basic", "vadd"), 8, 128, 0, &pa, &pb, &pc, &n, NULL));
	get(c, pc, sizeof c);
	close_f32(c, want, N, 0, "sums");
}

static void loops(void)
{
	uint32_t want[N], got[N];
	int n = N;

	for (uint32_t i = 0; i < N; i++) {
		uint32_t v = i + 1, steps = 0;
		for (; v != 1 && steps <= 150; steps++)
			v = v & 1 ? 3 * v + 1 : v / 2;
		want[i] = steps;
	}
	CUdeviceptr p = put(NULL, sizeof got);
	OK(launch(function("cuda/basic", "collatz"), 11, 96, 0, &p, &n, NULL));
	get(got, p, sizeof got);
	same_u32(got, want, N, "steps");
}

static void calls(void)
{
	enum { T = 96 };
	int got[T + 1], want[T + 1], n = 7;
	float fgot[T], fwant[T];

	for (int i = 0; i < T; i++) {
		int v[8], s = 0;
		for (int k = 0; k < 8; k++)
			v[k] = i * k + n;
		for (int k = 0; k < n; k++) {
			s += v[k];
			v[k] = s * k;
		}
		want[i] = i % 3 ? s + v[n - 1] + v[i & 7] : -1;
		fwant[i] = i % 4 == 0 ? 1.5f : (float)(i % 4 + 1);
	}
	want[T] = 7 + T / 2;
	CUdeviceptr p = put(NULL, sizeof got), q = put(NULL, sizeof fgot);
	OK(launch(function("cuda/basic", "calls"), 1, T, 0, &p, &q, &n, NULL));
	get(got, p, sizeof got);
	get(fgot, q, sizeof fgot);
	same_u32((uint32_t *)got, (uint32_t *)want, T + 1, "results");
	close_f32(fgot, fwant, T, 0, "constants");
}

static void recursion(void)
{
	uint32_t got[64], want[64];

	for (uint32_t i = 0; i < 64; i++)
		want[i] = i & 1 ? (i & 7) + 2 : (i & 7) + 1;
	CUdeviceptr p = put(NULL, sizeof got);
	OK(launch(function("cuda/basic", "recursion"), 1, 64, 0, &p, NULL));
	get(got, p, sizeof got);
	same_u32(got, want, 64, "values");
}

static void choose(void)
{
	int in[64], got[64], want[64];

	for (int i = 0; i < 64; i++) {
		int v = in[i] = (int)below(10),
		    r[] = {i, i * i, ~i, i << 3, i / 3, i % 5, -i, i ^ 0x55};
		want[i] = v < 8 ? r[v] : 1000;
	}
	CUdeviceptr p = put(NULL, sizeof got), q = put(in, sizeof in);
	OK(launch(function("cuda/basic", "choose"), 1, 64, 0, &p, &q, NULL));
	get(got, p, sizeof got);
	same_u32((uint32_t *)got, (uint32_t *)want, 64, "values");
}

static void tree_sum(void)
{
	enum { B = 3, T = 256, M = 5000 };
	float in[M], got[B];
	double want = 0, sum = 0;
	int n = M;

	for (int i = 0; i < M; i++)
		want += (double)(in[i] = uniform());
	CUdeviceptr p = put(in, sizeof in), q = put(NULL, sizeof got);
	OK(launch(function("cuda/basic", "tree_sum"), B, T, T * 4, &p, &q, &n, NULL));
	get(got, q, sizeof got);
	for (int i = 0; i < B; i++)
		sum += (double)got[i];
	CHECK(fabs(sum - want) < 1e-3 * want);
}

const Case cuda_cases[] = {
	{"basic: vadd", vadd},
	{"basic: loops", loops},
	{"basic: calls", calls},
	{"basic: recursion", recursion},
	{"basic: jump table", choose},
	{"basic: tree sum", tree_sum},
	{NULL, NULL},
};
