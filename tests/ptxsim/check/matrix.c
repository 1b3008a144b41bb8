/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mma in shapes that Triton does not use, ldmatrix and stmatrix in every form, mbarriers. The
 * fragments are put together here from the tables of the ISA: for each type, the row and column of
 * element I of a lane.
 */
#include "tests/ptxsim/check/gpu.h"
#include "tools/ptxsim/half.h"
#include "tools/ptxsim/half.h"

#include <string.h>

/* ---- Fragments ---- */

typedef enum Num { F16, BF16, TF32, F64, S8, U8, S4, E5M2, F32, S32 } Num;
static const int bits_of[] = {16, 16, 32, 64, 8, 8, 4, 8, 32, 32};

/* Small numbers that each type has; bits that tf32 has not are any. */
static uint64_t encode(Num t, double v)
{
	double a = fabs(v);

	switch (t) {
	case F16: return f16_of_f64(v);
	case BF16: return bf16_of((float)v);
	case TF32: return f32_bits((float)v) | below(1 << 13);
	case F32: return f32_bits((float)v);
	case F64: return f64_bits(v);
	/* 1, 2, 3 in e5m2: 1 = 0x3c, 2 = 0x40, 3 = 0x42 */
	case E5M2:
		return (v < 0 ? 0x80 : 0) | (a == 3 ? 0x42u : a == 2 ? 0x40u : a == 1 ? 0x3cu : 0u);
	default: return (uint64_t)(int64_t)v;
	}
}

/* Where element I (of all that a lane has) of A is: ISA, "Matrix Fragments for mma". */
static void place_a(Num t, int m, int lane, int i, int *row, int *column)
{
	int g = lane >> 2, tg = lane & 3;

	switch (bits_of[t]) {
	case 16:
		*row = i < 2 || (i >= 4 && i < 6) ? g : g + 8;
		*column = tg * 2 + (i & 1) + (i >= 4 ? 8 : 0);
		break;
	case 8:
		*row = m == 8 || i < 4 || (i >= 8 && i < 12) ? g : g + 8;
		*column = tg * 4 + (i & 3) + (i >= 8 ? 16 : 0);
		break;
	case 4:
		*row = i < 8 || (i >= 16 && i < 24) ? g : g + 8;
		*column = tg * 8 + (i & 7) + (i >= 16 ? 32 : 0);
		break;
	default: *row = m == 8 || i == 0 || i == 2 ? g : g + 8; *column = i < 2 ? tg : tg + 4;
	}
}

static void place_b(Num t, int lane, int i, int *row, int *column)
{
	int tg = lane & 3;

	*column = lane >> 2;
	switch (bits_of[t]) {
	case 16: *row = tg * 2 + (i & 1) + (i >= 2 ? 8 : 0); break;
	case 8: *row = tg * 4 + (i & 3) + (i >= 4 ? 16 : 0); break;
	case 4: *row = tg * 8 + (i & 7) + (i >= 8 ? 32 : 0); break;
	default: *row = i == 0 ? tg : tg + 4;
	}
}

static void place_c(int lane, int i, int *row, int *column)
{
	*row = i < 2 ? lane >> 2 : (lane >> 2) + 8;
	*column = (lane & 3) * 2 + (i & 1);
}

/* Sets element I of LANE among elements of type T. */
static void set_element(void *regs, Num t, int lane, int i, double v)
{
	int bits = bits_of[t], per = bits < 32 ? 32 / bits : 1, shift = bits * (i % per);

	if (t == F64)
		((uint64_t *)regs)[i * 32 + lane] = encode(t, v);
	else
		((uint32_t *)regs)[i / per * 32 + lane] |=
			(uint32_t)((encode(t, v) & ((1ull << bits) - 1)) << shift);
}

static void multiply(const char *kernel, Num at, Num bt, Num ct, int m, int k)
{
	static double a[16][64], b[64][8], c[16][8];
	static uint64_t ra[128], rb[128], rc[128], rd[128];
	int row, column, n_a = m * k / 32, n_b = k * 8 / 32, n_c = m / 4;
	bool is_unsigned = at == U8;

	memset(ra, 0, sizeof ra);
	memset(rb, 0, sizeof rb);
	memset(rc, 0, sizeof rc);
	for (int i = 0; i < m; i++)
		for (int j = 0; j < k; j++)
			a[i][j] = is_unsigned ? (int)below(256) : (int)below(7) - 3;
	for (int i = 0; i < k; i++)
		for (int j = 0; j < 8; j++)
			b[i][j] = bt == U8 ? (int)below(256) : (int)below(7) - 3;
	for (int i = 0; i < m; i++)
		for (int j = 0; j < 8; j++)
			c[i][j] = (int)below(100) - 50;
	for (int lane = 0; lane < 32; lane++) {
		for (int i = 0; i < n_a; i++) {
			place_a(at, m, lane, i, &row, &column);
			set_element(ra, at, lane, i, a[row][column]);
		}
		for (int i = 0; i < n_b; i++) {
			place_b(bt, lane, i, &row, &column);
			set_element(rb, bt, lane, i, b[row][column]);
		}
		for (int i = 0; i < n_c; i++) {
			place_c(lane, i, &row, &column);
			set_element(rc, ct, lane, i, c[row][column]);
		}
	}
	CUdeviceptr pa = put(ra, sizeof ra), pb = put(rb, sizeof rb), pc = put(rc, sizeof rc),
		    pd = put(rd, sizeof rd);
	OK(launch(function("cuda/matrix", kernel), 1, 32, 0, &pa, &pb, &pc, &pd, NULL));
	get(rd, pd, sizeof rd);
	for (int lane = 0; lane < 32; lane++)
		for (int i = 0; i < n_c; i++) {
			place_c(lane, i, &row, &column);
			double want = c[row][column];
			for (int q = 0; q < k; q++)
				want += a[row][q] * b[q][column];
			uint32_t got = ((uint32_t *)rd)[i * 32 + lane];
			if (ct == F64 ? rd[i * 32 + lane] != f64_bits(want)
				      : got != (uint32_t)encode(ct, want))
				wrong("%s: row %d, column %d is 0x%x, not %g", kernel, row, column,
				      got, want);
		}
}

static void shapes(void)
{
	CHECK(!ptxsim_device(90));
	multiply("f16_k8", F16, F16, F32, 16, 8);
	multiply("f16_k16", F16, F16, F32, 16, 16);
	multiply("bf16_k8", BF16, BF16, F32, 16, 8);
	multiply("tf32_k4", TF32, TF32, F32, 16, 4);
	multiply("tf32_k8", TF32, TF32, F32, 16, 8);
	multiply("s8_k16", S8, S8, S32, 16, 16);
	multiply("s8_k32", S8, S8, S32, 16, 32);
	multiply("u8s8_k32", U8, S8, S32, 16, 32);
	multiply("u8_k32", U8, U8, S32, 16, 32);
	multiply("s8u8_k32", S8, U8, S32, 16, 32);
	multiply("s4_k64", S4, S4, S32, 16, 64);
	multiply("e5m2_k32", E5M2, E5M2, F32, 16, 32);
	multiply("s8_small", S8, S8, S32, 8, 16);
	multiply("s8u8_small", S8, U8, S32, 8, 16);
	multiply("u8s8_small", U8, S8, S32, 8, 16);
	multiply("u8_small", U8, U8, S32, 8, 16);
	multiply("f64_small", F64, F64, F64, 8, 4);
}

/* ---- Matrices in shared memory ---- */

static void moves(void)
{
	static uint16_t in[4][8][8], stored[3][4][8][8], out[5][4][32][2];

	CHECK(!ptxsim_device(90));
	for (int i = 0; i < 256; i++)
		((uint16_t *)in)[i] = (uint16_t)(1000 + i);
	CUdeviceptr p = put(in, sizeof in), q = put(out, sizeof out), s = put(NULL, sizeof stored);
	OK(launch(function("cuda/matrix", "moves"), 1, 32, 0, &p, &q, &s, NULL));
	get(out, q, sizeof out);
	get(stored, s, sizeof stored);
	for (int lane = 0; lane < 32; lane++)
		for (int e = 0; e < 2; e++) {
			int i = lane / 4, j = 2 * (lane % 4) + e;
			CHECK(out[0][0][lane][e] == in[0][i][j]);
			CHECK(out[1][0][lane][e] == in[0][i][j] &&
			      out[1][1][lane][e] == in[1][i][j]);
			for (int k = 0; k < 4; k++) {
				CHECK(out[2][k][lane][e] == in[k][j][i]);
				CHECK(out[3][k][lane][e] == in[k][i][j]);
			}
			CHECK(out[4][0][lane][e] == in[0][j][i]);
		}
	for (int k = 0; k < 4; k++)
		for (int i = 0; i < 8; i++)
			for (int j = 0; j < 8; j++) {
				CHECK(stored[0][k][i][j] == in[k][j][i]);
				CHECK(stored[1][k][i][j] == in[k][j][i]);
				CHECK(stored[2][k][i][j] == in[k][i][j]);
			}
}

/* ---- mbarriers ---- */

static void ring(void)
{
	enum { ROUNDS = 7 };
	int in[ROUNDS * 64], got[64], want[64] = {0}, rounds = ROUNDS;

	CHECK(!ptxsim_device(90));
	for (int i = 0; i < ROUNDS * 64; i++)
		in[i] = (int)below(1000);
	for (int t = 0; t < 64; t++)
		for (int r = 0; r < ROUNDS; r++)
			want[t] += in[r * 64 + 63 - t] * (r + 1);
	for (uint64_t seed = 0; seed < 6; seed++) {
		ptxsim_seed(seed);
		CUdeviceptr p = put(in, sizeof in), q = put(NULL, sizeof got);
		OK(launch(function("cuda/mbarrier", "ring"), 1, 128, 0, &p, &q, &rounds, NULL));
		get(got, q, sizeof got);
		same_u32((uint32_t *)got, (uint32_t *)want, 64, "sums");
	}
}

static void copies(void)
{
	float in[128], got[128], want[128];

	CHECK(!ptxsim_device(90));
	for (int i = 0; i < 128; i++)
		want[127 - i] = in[i] = uniform();
	for (uint64_t seed = 0; seed < 6; seed++) {
		ptxsim_seed(seed);
		CUdeviceptr p = put(in, sizeof in), q = put(NULL, sizeof got);
		OK(launch(function("cuda/mbarrier", "copies"), 1, 128, 0, &p, &q, NULL));
		get(got, q, sizeof got);
		close_f32(got, want, 128, 0, "elements");
	}
}

/* ---- wgmma ---- */

static void half_numbers(uint16_t *h, float *f, int n)
{
	for (int i = 0; i < n; i++)
		h[i] = f16_of_f64((double)(f[i] = (float)below(9) - 4));
}

/* KERNEL's product of 64 by 16, with K terms; ALONG: both operands have rows of 64 along their
 * sides. */
static void wgmma(const char *kernel, int k, bool along)
{
	static uint16_t a[64 * 64], b[64 * 64];
	static float x[64 * 64], y[64 * 64], got[64 * 16], want[64 * 16];

	half_numbers(a, x, 64 * 64);
	half_numbers(b, y, 64 * 64);
	for (int i = 0; i < 64; i++)
		for (int j = 0; j < 16; j++) {
			want[i * 16 + j] = 0;
			for (int q = 0; q < k; q++)
				want[i * 16 + j] += along ? x[q * 64 + i] * y[q * 64 + j]
							  : x[i * k + q] * y[j * k + q];
		}
	for (uint64_t seed = 0; seed < 3; seed++) {
		ptxsim_seed(seed);
		CUdeviceptr p = put(a, sizeof a), q = put(b, sizeof b), r = put(NULL, sizeof got);
		OK(launch(function("cuda/wgmma", kernel), 1, 128, 0, &p, &q, &r, NULL));
		get(got, r, sizeof got);
		close_f32(got, want, 64 * 16, 0, kernel);
	}
}

static void descriptors(void)
{
	CHECK(!ptxsim_device(90));
	wgmma("plain", 16, false);
	wgmma("swizzle32", 16, false);
	wgmma("swizzle64", 32, false);
	wgmma("swizzle128", 64, false);
	wgmma("along_sides", 32, true);
}

static void bulk_copies(void)
{
	enum { ROUNDS = 5 };
	int in[ROUNDS * 256], got[96], want[96] = {0}, rounds = ROUNDS, none = 0;

	CHECK(!ptxsim_device(90));
	for (int i = 0; i < ROUNDS * 256; i++)
		in[i] = (int)below(1000);
	for (int r = 0; r < ROUNDS; r++)
		for (int i = 0; i < 256; i++)
			want[i % 96] += in[r * 256 + i] * (r + 1);
	for (uint64_t seed = 0; seed < 6; seed++) {
		ptxsim_seed(seed);
		CUdeviceptr p = put(in, sizeof in), q = put(NULL, sizeof got);
		OK(launch(function("cuda/wgmma", "ring_of_bulk"), 1, 128, 0, &p, &q, &rounds, &none,
			  NULL));
		get(got, q, sizeof got);
		same_u32((uint32_t *)got, (uint32_t *)want, 96, "sums");
	}
}

const Case matrix_cases[] = {
	{"matrix: shapes of mma", shapes},
	{"matrix: ldmatrix, stmatrix, movmatrix", moves},
	{"matrix: ring of mbarriers", ring},
	{"matrix: copies that arrive", copies},
	{"matrix: descriptors of wgmma", descriptors},
	{"matrix: bulk copies", bulk_copies},
	{NULL, NULL},
};
