/* SPDX-License-Identifier: Apache-2.0 */
/* What threads do together: shuffles and votes, atomics, copies on their way, named barriers;
 * each under several seeds. */
#include "tests/ptxsim/check/gpu.h"
#include "tools/ptxsim/half.h"

#include <string.h>

enum { SEEDS = 6 };

/* ---- Shuffles, votes, reductions ---- */

enum { T = 96, N_OUT = 22 };

static uint32_t sum_of(const int *v, int n)
{
	uint32_t s = 0;

	for (int i = 0; i < n; i++)
		s += (uint32_t)v[i];
	return s;
}

static void want_warp(const int *v, int i, int warp, uint32_t out[17])
{
	uint32_t ballot = 0, match = 0, least = ~0u, most = 0, xor = 0, same = 0;
	bool any = false, all = true;

	for (int j = 0; j < 32; j++) {
		uint32_t x = (uint32_t)v[j];
		ballot |= (x & 1) << j;
		any |= x == 0;
		all &= v[j] >= 0;
		same |= (uint32_t)((v[j] & 3) == (v[i] & 3)) << j;
		least = j == 0 || v[j] < (int)least ? x : least;
		most = x > most ? x : most;
		xor ^= x;
	}
	match = same;
	uint32_t w[17] = {
		(uint32_t)v[i * 7 & 31],
		(uint32_t)v[(i & 24) + 3],
		(uint32_t)v[i >= 5 ? i - 5 : i],
		(uint32_t)v[(i & 15) >= 2 ? i - 2 : i],
		(uint32_t)v[i + 9 < 32 ? i + 9 : i],
		(uint32_t)v[(i & 3) < 3 ? i + 1 : i],
		(uint32_t)v[i ^ 21],
		(uint32_t)v[i ^ 1],
		ballot,
		any,
		all,
		match,
		0 /* ~0 + 1 */,
		sum_of(v, 32),
		least,
		most,
		xor,
	};
	(void)warp;
	memcpy(out, w, sizeof w);
}

static void collectives(void)
{
	static int in[T];
	static uint32_t got[N_OUT * T], want[N_OUT * T];
	int n = T;

	for (int i = 0; i < T; i++)
		in[i] = i < 32 ? (int)below(50) : (int)below(2000) - 3;
	in[40] = 77;
	for (int i = 0; i < T; i++) {
		uint32_t w[17];
		const int *v = in + (i & ~31);
		want_warp(v, i & 31, i / 32, w);
		for (int k = 0; k < 17; k++)
			want[k * T + i] = w[k];
		int first = -1, count = 0;
		for (int j = 0; j < 32; j++)
			if (v[j] & 2) {
				first = first < 0 ? j : first;
				count++;
			}
		want[17 * T + i] = in[i] & 2 ? (uint32_t)(v[first] + count) : 0;
		int odd = 0, big = 0;
		for (int j = 0; j < T; j++) {
			odd += in[j] & 1;
			big += in[j] >= 1000;
		}
		want[18 * T + i] = (uint32_t)odd;
		want[19 * T + i] = big == 0;
		want[20 * T + i] = 1;
		want[21 * T + i] = sum_of(in + (i & ~7), 8);
	}
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		ptxsim_seed(seed);
		CUdeviceptr p = put(in, sizeof in), q = put(NULL, sizeof got);
		OK(launch(function("cuda/warp", "collectives"), 1, T, 0, &p, &q, &n, NULL));
		get(got, q, sizeof got);
		same_u32(got, want, N_OUT * T, "outputs of 96 threads");
	}
}

/* ---- Atomics ---- */

typedef struct Cells {
	int add, min, max, bits_and, bits_or, bits_xor;
	unsigned inc, dec, umin, umax;
	float fadd;
	int cas, exch, unused;
	unsigned long long wide_add, wide_max;
	double dadd;
	uint32_t hadd, unused2;
} Cells;

static Cells updated(Cells c, const int *in, int n)
{
	for (int i = 0; i < n; i++) {
		unsigned u = (unsigned)in[i];
		unsigned long long wide = (unsigned long long)in[i] << 20;
		c.add += in[i];
		c.min = in[i] < c.min ? in[i] : c.min;
		c.max = in[i] > c.max ? in[i] : c.max;
		c.bits_and &= in[i];
		c.bits_or |= in[i];
		c.bits_xor ^= in[i];
		c.inc = c.inc >= 10 ? 0 : c.inc + 1;
		c.dec = c.dec == 0 || c.dec > 20 ? 20 : c.dec - 1;
		c.umin = u < c.umin ? u : c.umin;
		c.umax = u > c.umax ? u : c.umax;
		c.fadd += (float)(in[i] & 15);
		c.cas += 2;
		c.exch = 5;
		c.wide_add += wide;
		c.wide_max = wide > c.wide_max ? wide : c.wide_max;
		c.dadd += 0.25;
		c.hadd = f16_of(f32_of_f16((uint16_t)c.hadd) + 1) |
			 (uint32_t)f16_of(f32_of_f16((uint16_t)(c.hadd >> 16)) + 0.5f) << 16;
	}
	return c;
}

static void atomics(void)
{
	enum { B = 4, N = B * 64 };
	Cells start = {.bits_and = -1, .umin = ~0u, .min = 1000, .max = -1000}, got[1 + B],
	      first[1 + B];
	int in[N], tickets[N + 1];

	memset(first, 0, sizeof first);
	first[0] = start;
	for (int i = 0; i < N; i++)
		in[i] = (int)below(1 << 20);
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		ptxsim_seed(seed);
		memset(tickets, 0, sizeof tickets);
		CUdeviceptr p = put(in, sizeof in), q = put(first, sizeof first),
			    s = put(&start, sizeof start), t = put(tickets, sizeof tickets);
		OK(launch(function("cuda/warp", "atomics"), B, 64, 0, &p, &q, &s, &t, NULL));
		get(got, q, sizeof got);
		get(tickets, t, sizeof tickets);
		for (int i = 0; i < 1 + B; i++) {
			Cells want = updated(start, i ? in + (i - 1) * 64 : in, i ? 64 : N);
			if (memcmp(&got[i], &want, sizeof want))
				for (size_t k = 0; k < sizeof want / 4; k++)
					if (((uint32_t *)&got[i])[k] != ((uint32_t *)&want)[k])
						wrong("cells %d: word %zu is 0x%x, not 0x%x", i, k,
						      ((uint32_t *)&got[i])[k],
						      ((uint32_t *)&want)[k]);
		}
		for (int i = 0; i < N; i++)
			CHECK(tickets[i] == 1);
		CHECK(tickets[N] == N);
	}
}

/* ---- Asynchronous copies ---- */

static void ring(const char *kernel, int stages, int size, int threads)
{
	enum { TILES = 9, MOST = 64 * 4 };
	float in[TILES * MOST], got[64], want[64] = {0};
	int tiles = TILES, wide = threads * size;

	for (int i = 0; i < TILES * wide; i++)
		in[i] = (float)below(1000);
	for (int t = 0; t < threads; t++)
		for (int k = 0; k < tiles; k++)
			for (int j = 0; j < size; j++)
				want[t] += in[k * wide + (t * size + j * 37 + 11) % wide];
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		ptxsim_seed(seed);
		CUdeviceptr p = put(in, sizeof in), q = put(NULL, sizeof got);
		OK(launch(function("cuda/warp", kernel), 1, (unsigned)threads,
			  (unsigned)(stages * wide * 4), &p, &q, &tiles, NULL));
		get(got, q, (size_t)threads * 4);
		close_f32(got, want, threads, 0, "sums");
	}
}

static void ring16(void)
{
	ring("ring16", 4, 4, 64);
}

static void ring4(void)
{
	ring("ring4", 2, 1, 64);
}

static void zero_fill(void)
{
	enum { FLOATS = 101 };
	float in[104], got[256], want[256] = {0};
	int n = FLOATS * 4;

	for (int i = 0; i < FLOATS; i++)
		in[i] = uniform();
	for (int i = 0; i < FLOATS; i++)
		want[(63 - i / 4) * 4 + i % 4] = in[i];
	/* No byte more than the copies may read. */
	CUdeviceptr p = put(in, FLOATS * 4), q = put(NULL, sizeof got);
	OK(launch(function("cuda/warp", "zero_fill"), 1, 64, 0, &p, &q, &n, NULL));
	get(got, q, sizeof got);
	close_f32(got, want, 256, 0, "elements");
}

static void roles(void)
{
	int in[6 * 64], got[64], want[64] = {0};

	for (int i = 0; i < 6 * 64; i++)
		in[i] = (int)below(1000);
	for (int t = 0; t < 64; t++)
		for (int k = 0; k < 6; k++)
			want[t] += in[k * 64 + 63 - t] * (k + 1);
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		ptxsim_seed(seed);
		CUdeviceptr p = put(in, sizeof in), q = put(NULL, sizeof got);
		OK(launch(function("cuda/warp", "roles"), 1, 128, 0, &p, &q, NULL));
		get(got, q, sizeof got);
		same_u32((uint32_t *)got, (uint32_t *)want, 64, "sums");
	}
}

const Case warp_cases[] = {
	{"warps: shuffles, votes, reductions", collectives},
	{"warps: atomics", atomics},
	{"warps: ring of 16-byte copies", ring16},
	{"warps: ring of 4-byte copies", ring4},
	{"warps: zero fill", zero_fill},
	{"warps: named barriers", roles},
	{NULL, NULL},
};
