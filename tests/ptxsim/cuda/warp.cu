// SPDX-License-Identifier: Apache-2.0
// nvcc -ptx -arch=sm_80 -std=c++17 warp.cu -o warp.ptx
// Output k of thread i stands at out[k * n + i].
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>

#define PUT(v) out[k++ * n + i] = (unsigned)(v)

extern "C" __global__ void collectives(const int *in, unsigned *out, int n)
{
	int i = threadIdx.x, lane = i & 31, k = 0, v = in[i], valid;
	const unsigned all = 0xffffffff;

	PUT(__shfl_sync(all, v, lane * 7));
	PUT(__shfl_sync(all, v, 3, 8));
	PUT(__shfl_up_sync(all, v, 5));
	PUT(__shfl_up_sync(all, v, 2, 16));
	PUT(__shfl_down_sync(all, v, 9));
	PUT(__shfl_down_sync(all, v, 1, 4));
	PUT(__shfl_xor_sync(all, v, 21));
	PUT(__shfl_xor_sync(all, v, 1, 2));
	PUT(__ballot_sync(all, v & 1));
	PUT(__any_sync(all, v == 0));
	PUT(__all_sync(all, v >= 0));
	PUT(__match_any_sync(all, v & 3));
	PUT(__match_all_sync(all, i >> 5, &valid) + valid);
	PUT(__reduce_add_sync(all, v));
	PUT(__reduce_min_sync(all, v));
	PUT(__reduce_max_sync(all, (unsigned)v));
	PUT(__reduce_xor_sync(all, (unsigned)v));
	unsigned some = 0;
	if (v & 2) {
		unsigned here = __activemask();
		some = __shfl_sync(here, v, __ffs(here) - 1) + __popc(here);
		__syncwarp(here);
	}
	PUT(some);
	PUT(__syncthreads_count(v & 1));
	PUT(__syncthreads_and(v < 1000));
	PUT(__syncthreads_or(v == 77));
	auto tile = cooperative_groups::tiled_partition<8>(cooperative_groups::this_thread_block());
	PUT(cooperative_groups::reduce(tile, v, cooperative_groups::plus<int>()));
}

struct Cells {
	int add, min, max, bits_and, bits_or, bits_xor;
	unsigned inc, dec, umin, umax;
	float fadd;
	int cas, exch;
	unsigned long long wide_add, wide_max;
	double dadd;
	__half2 hadd;
};

__device__ void update(Cells *c, int v)
{
	atomicAdd(&c->add, v);
	atomicMin(&c->min, v);
	atomicMax(&c->max, v);
	atomicAnd(&c->bits_and, v);
	atomicOr(&c->bits_or, v);
	atomicXor(&c->bits_xor, v);
	atomicInc(&c->inc, 10);
	atomicDec(&c->dec, 20);
	atomicMin(&c->umin, (unsigned)v);
	atomicMax(&c->umax, (unsigned)v);
	atomicAdd(&c->fadd, (float)(v & 15));
	for (int old = *(volatile int *)&c->cas, seen; (seen = atomicCAS(&c->cas, old, old + 2)) != old;)
		old = seen;
	atomicExch(&c->exch, 5);
	atomicAdd(&c->wide_add, (unsigned long long)v << 20);
	atomicMax(&c->wide_max, (unsigned long long)v << 20);
	atomicAdd(&c->dadd, 0.25);
	atomicAdd(&c->hadd, __halves2half2(__float2half(1), __float2half(0.5f)));
}

extern "C" __global__ void atomics(const int *in, Cells *out, const Cells *start, int *tickets)
{
	__shared__ Cells s;
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (threadIdx.x == 0)
		s = *start;
	__syncthreads();
	update(&s, in[i]);
	update(&out[0], in[i]);
	tickets[atomicAdd(&tickets[gridDim.x * blockDim.x], 1)] = 1;
	__syncthreads();
	if (threadIdx.x == 0)
		out[1 + blockIdx.x] = s;
}

// A ring of STAGES tiles that are copied while earlier ones are summed.
template <int STAGES, int SIZE> __device__ void ring(const float *in, float *out, int tiles)
{
	extern __shared__ float s[];
	int t = threadIdx.x, wide = blockDim.x * SIZE;
	float sum = 0;

	for (int k = 0; k < STAGES - 1; k++) {
		if (k < tiles)
			__pipeline_memcpy_async(s + k * wide + t * SIZE, in + k * wide + t * SIZE, SIZE * 4);
		__pipeline_commit();
	}
	for (int k = 0; k < tiles; k++) {
		__pipeline_wait_prior(STAGES - 2);
		__syncthreads();
		int next = k + STAGES - 1;
		if (next < tiles)
			__pipeline_memcpy_async(s + next % STAGES * wide + t * SIZE, in + next * wide + t * SIZE, SIZE * 4);
		__pipeline_commit();
		for (int j = 0; j < SIZE; j++)
			sum += s[k % STAGES * wide + (t * SIZE + j * 37 + 11) % wide];
	}
	out[t] = sum;
}

extern "C" __global__ void ring16(const float *in, float *out, int tiles)
{
	ring<4, 4>(in, out, tiles);
}

extern "C" __global__ void ring4(const float *in, float *out, int tiles)
{
	ring<2, 1>(in, out, tiles);
}

// The tail of the array is filled with zeros.
extern "C" __global__ void zero_fill(const float4 *in, float4 *out, int bytes)
{
	__shared__ float4 s[64];
	int t = threadIdx.x, left = bytes - t * 16;

	__pipeline_memcpy_async(&s[t], &in[t], 16, left >= 16 ? 0 : left <= 0 ? 16 : 16 - left);
	__pipeline_commit();
	__pipeline_wait_prior(0);
	__syncthreads();
	out[t] = s[63 - t];
}

// Blocks of warps with a role each, that meet at named barriers.
extern "C" __global__ void roles(const int *in, int *out)
{
	__shared__ int s[2][64];
	int t = threadIdx.x, sum = 0;

	if (t < 64) {
		for (int k = 0; k < 6; k++) {
			if (k >= 2)
				asm volatile("bar.sync %0, 128;" ::"r"(3 + (k & 1)) : "memory");
			s[k & 1][t] = in[k * 64 + t];
			asm volatile("bar.arrive %0, 128;" ::"r"(1 + (k & 1)) : "memory");
		}
	} else {
		for (int k = 0; k < 6; k++) {
			asm volatile("bar.sync %0, 128;" ::"r"(1 + (k & 1)) : "memory");
			sum += s[k & 1][127 - t] * (k + 1);
			if (k < 4)
				asm volatile("bar.arrive %0, 128;" ::"r"(3 + (k & 1)) : "memory");
		}
		out[t - 64] = sum;
	}
}
