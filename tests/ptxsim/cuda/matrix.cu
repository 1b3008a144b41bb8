// SPDX-License-Identifier: Apache-2.0
// nvcc -ptx -arch=sm_90 matrix.cu -o matrix.ptx
// Fragments go in and come out as registers: register r of a lane stands at [r * 32 + lane].

typedef unsigned u32;

#define A2 "{%4, %5}"
#define A4 "{%4, %5, %6, %7}"

// D of 4 registers, A of 4 or 2, B of 2 or 1, C of 4.
#define MMA_4_2(name, text)                                                                                          \
	extern "C" __global__ void name(const u32 *a, const u32 *b, const u32 *c, u32 *d)                            \
	{                                                                                                            \
		int i = threadIdx.x;                                                                                 \
		u32 x[4];                                                                                            \
		asm("mma.sync.aligned." text " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"   \
		    : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])                                                 \
		    : "r"(a[i]), "r"(a[32 + i]), "r"(a[64 + i]), "r"(a[96 + i]), "r"(b[i]), "r"(b[32 + i]),          \
		      "r"(c[i]), "r"(c[32 + i]), "r"(c[64 + i]), "r"(c[96 + i]));                                    \
		for (int r = 0; r < 4; r++)                                                                          \
			d[r * 32 + i] = x[r];                                                                        \
	}
#define MMA_2_1(name, text)                                                                                          \
	extern "C" __global__ void name(const u32 *a, const u32 *b, const u32 *c, u32 *d)                            \
	{                                                                                                            \
		int i = threadIdx.x;                                                                                 \
		u32 x[4];                                                                                            \
		asm("mma.sync.aligned." text " {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};"                  \
		    : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])                                                 \
		    : "r"(a[i]), "r"(a[32 + i]), "r"(b[i]), "r"(c[i]), "r"(c[32 + i]), "r"(c[64 + i]),               \
		      "r"(c[96 + i]));                                                                               \
		for (int r = 0; r < 4; r++)                                                                          \
			d[r * 32 + i] = x[r];                                                                        \
	}

MMA_2_1(f16_k8, "m16n8k8.row.col.f32.f16.f16.f32")
MMA_4_2(f16_k16, "m16n8k16.row.col.f32.f16.f16.f32")
MMA_2_1(bf16_k8, "m16n8k8.row.col.f32.bf16.bf16.f32")
MMA_2_1(tf32_k4, "m16n8k4.row.col.f32.tf32.tf32.f32")
MMA_4_2(tf32_k8, "m16n8k8.row.col.f32.tf32.tf32.f32")
MMA_2_1(s8_k16, "m16n8k16.row.col.s32.s8.s8.s32")
MMA_4_2(s8_k32, "m16n8k32.row.col.s32.s8.s8.s32")
MMA_4_2(u8s8_k32, "m16n8k32.row.col.s32.u8.s8.s32")
MMA_4_2(u8_k32, "m16n8k32.row.col.s32.u8.u8.s32")
MMA_4_2(s8u8_k32, "m16n8k32.row.col.s32.s8.u8.s32")
MMA_4_2(s4_k64, "m16n8k64.row.col.s32.s4.s4.s32")
MMA_4_2(e5m2_k32, "m16n8k32.row.col.f32.e5m2.e5m2.f32")

// D, A, B and C of 2, 1, 1 and 2 registers.
#define MMA_1_1(name, text)                                                                                          \
	extern "C" __global__ void name(const u32 *a, const u32 *b, const u32 *c, u32 *d)                            \
	{                                                                                                            \
		int i = threadIdx.x;                                                                                 \
		u32 x, y;                                                                                            \
		asm("mma.sync.aligned." text " {%0, %1}, {%2}, {%3}, {%4, %5};"                                       \
		    : "=r"(x), "=r"(y)                                                                               \
		    : "r"(a[i]), "r"(b[i]), "r"(c[i]), "r"(c[32 + i]));                                              \
		d[i] = x;                                                                                            \
		d[32 + i] = y;                                                                                       \
	}

MMA_1_1(s8_small, "m8n8k16.row.col.s32.s8.s8.s32")
MMA_1_1(s8u8_small, "m8n8k16.row.col.s32.s8.u8.s32")
MMA_1_1(u8s8_small, "m8n8k16.row.col.s32.u8.s8.s32")
MMA_1_1(u8_small, "m8n8k16.row.col.s32.u8.u8.s32")

extern "C" __global__ void f64_small(const double *a, const double *b, const double *c, double *d)
{
	int i = threadIdx.x;
	double x, y;

	asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%4, %5};"
	    : "=d"(x), "=d"(y)
	    : "d"(a[i]), "d"(b[i]), "d"(c[i]), "d"(c[32 + i]));
	d[i] = x;
	d[32 + i] = y;
}

// 4 matrices of 8x8 in rows of 16 bytes, loaded in every way, stored in every way, and one transposed in registers.
// out[way][register][lane], then what was stored.
extern "C" __global__ void moves(const uint4 *in, u32 *out, uint4 *stored)
{
	__shared__ uint4 s[32], t[3][32];
	int i = threadIdx.x;
	u32 at = (u32)__cvta_generic_to_shared(&s[i]), to[3], r[4], way = 0;

	s[i] = in[i];
	__syncwarp();
	for (int k = 0; k < 3; k++)
		to[k] = (u32)__cvta_generic_to_shared(&t[k][i]);
#define OUT(n)                                                                                                       \
	do {                                                                                                         \
		for (int k = 0; k < n; k++)                                                                          \
			out[(way * 4 + k) * 32 + i] = r[k];                                                          \
		way++;                                                                                               \
	} while (0)
	asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r[0]) : "r"(at));
	OUT(1);
	asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at));
	OUT(2);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at));
	OUT(4);
	asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to[0]), "r"(r[0]), "r"(r[1]),
		     "r"(r[2]), "r"(r[3])
		     : "memory");
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
		     : "r"(at));
	OUT(4);
	asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to[1]), "r"(r[0]),
		     "r"(r[1]), "r"(r[2]), "r"(r[3])
		     : "memory");
	asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to[2]), "r"(r[0]), "r"(r[1]),
		     "r"(r[2]), "r"(r[3])
		     : "memory");
	asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r[0]) : "r"(r[0]));
	OUT(1);
	__syncwarp();
	for (int k = 0; k < 3; k++)
		stored[k * 32 + i] = t[k][i];
}
