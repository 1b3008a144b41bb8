// SPDX-License-Identifier: Apache-2.0
// nvcc -ptx -arch=sm_80 faults.cu -o faults.ptx
// Each kernel has one fault, named by it, where `bad` is set, and none where it is not.
#include <cuda_pipeline.h>

typedef const float *In;
typedef float *Out;

extern "C" __global__ void missing_barrier(In in, Out out, int bad)
{
	__shared__ float s[128];
	int t = threadIdx.x;

	s[t] = in[t];
	if (!bad)
		__syncthreads();
	out[t] = s[127 - t];
}

// The loop reads what the next iteration overwrites.
extern "C" __global__ void missing_second_barrier(In in, Out out, int bad)
{
	__shared__ float s[128];
	int t = threadIdx.x;
	float sum = 0;

	for (int k = 0; k < 4; k++) {
		s[t] = in[t] + k;
		__syncthreads();
		sum += s[127 - t];
		if (!bad)
			__syncthreads();
	}
	out[t] = sum;
}

extern "C" __global__ void missing_warp_sync(In in, Out out, int bad)
{
	__shared__ float s[128];
	int t = threadIdx.x;

	s[t] = in[t];
	if (!bad)
		__syncwarp();
	out[t] = s[t ^ 1];
}

extern "C" __global__ void missing_wait(In in, Out out, int bad)
{
	__shared__ float s[128];
	int t = threadIdx.x;

	__pipeline_memcpy_async(&s[t], &in[t], 4);
	__pipeline_commit();
	if (!bad)
		__pipeline_wait_prior(0);
	__syncthreads();
	out[t] = s[127 - t];
}

extern "C" __global__ void weak_wait(In in, Out out, int bad)
{
	__shared__ float s[2][128];
	int t = threadIdx.x;

	for (int k = 0; k < 2; k++) {
		__pipeline_memcpy_async(&s[k][t], &in[t], 4);
		__pipeline_commit();
	}
	if (bad)
		__pipeline_wait_prior(1);
	else
		__pipeline_wait_prior(0);
	__syncthreads();
	out[t] = s[0][127 - t] + s[1][t];
}

extern "C" __global__ void missing_commit(In in, Out out, int bad)
{
	__shared__ float s[128];
	int t = threadIdx.x;

	__pipeline_memcpy_async(&s[t], &in[t], 4);
	if (!bad)
		__pipeline_commit();
	__pipeline_wait_prior(0);
	__syncthreads();
	out[t] = s[127 - t];
}

extern "C" __global__ void read_past_end(In in, Out out, int bad)
{
	int t = threadIdx.x;

	out[t] = in[t + bad];
}

extern "C" __global__ void write_past_end(In in, Out out, int bad)
{
	int t = threadIdx.x;

	out[t + bad] = in[t];
}

extern "C" __global__ void read_before_begin(In in, Out out, int bad)
{
	int t = threadIdx.x;

	out[t] = in[t - bad];
}

extern "C" __global__ void shared_past_end(In in, Out out, int bad)
{
	extern __shared__ float dynamic[];
	int t = threadIdx.x;

	dynamic[t + bad] = in[t];
	__syncthreads();
	out[t] = dynamic[t + bad];
}

extern "C" __global__ void behind_a_variable(In in, Out out, int bad)
{
	__shared__ float s[128], after[128];
	int t = threadIdx.x;

	s[t + bad] = in[t];
	after[t] = in[t];
	__syncthreads();
	out[t] = s[t ^ 1] + after[t ^ 2];
}

extern "C" __global__ void shared_never_written(In in, Out out, int bad)
{
	__shared__ float s[256];
	int t = threadIdx.x;

	s[t] = in[t];
	__syncthreads();
	out[t] = s[(t ^ 1) + (bad ? 128 : 0)];
}

extern "C" __global__ void local_never_written(In in, Out out, int bad)
{
	float v[8];
	int t = threadIdx.x;

	for (int k = 0; k < 8; k += 1 + bad)
		v[k] = in[t] + k;
	out[t] = v[t & 7] + v[(t >> 3) & 7];
}

extern "C" __global__ void global_never_written(In in, Out out, int bad)
{
	int t = threadIdx.x;

	if (!bad || t == 5)
		out[t] = in[t];
	else if (t == 6)
		out[t] = out[t] + 1;
	else
		out[t] = 0;
}

extern "C" __global__ void barrier_in_half_a_warp(In in, Out out, int bad)
{
	int t = threadIdx.x;

	if (!bad || (t & 16))
		__syncthreads();
	out[t] = in[t];
}

extern "C" __global__ void barrier_in_one_warp(In in, Out out, int bad)
{
	int t = threadIdx.x;

	out[t] = in[t];
	if (!bad || t < 32)
		__syncthreads();
	out[t] += 1;
}

extern "C" __global__ void barrier_after_return(In in, Out out, int bad)
{
	int t = threadIdx.x;

	out[t] = in[t];
	if (bad && t > 100)
		return;
	__syncthreads();
	out[t] += 1;
}

extern "C" __global__ void misaligned(In in, Out out, int bad)
{
	int t = threadIdx.x;

	if (t < 31)
		*(float4 *)(out + 4 * t + bad) = *(const float4 *)(in + 4 * t);
}

extern "C" __global__ void misaligned_shared(In in, Out out, int bad)
{
	__shared__ __align__(16) float s[132];
	int t = threadIdx.x;

	s[t] = in[t];
	__syncthreads();
	float2 v = *(float2 *)&s[(t & ~1) + bad];
	out[t] = v.x + v.y;
}

extern "C" __global__ void shuffle_from_absent(In in, Out out, int bad)
{
	int t = threadIdx.x;

	out[t] = 0;
	if (!bad || (t & 1))
		out[t] = __shfl_xor_sync(0xffffffff, in[t], 1);
}

extern "C" __global__ void two_values(In in, Out out, int bad)
{
	__shared__ float s[4];
	int t = threadIdx.x;

	s[t >> 5] = in[bad ? t : 0];
	__syncthreads();
	out[t] = s[t >> 5];
}

extern "C" __global__ void null_pointer(In in, Out out, int bad)
{
	In from = (In)((unsigned long long)in * (1 - bad));

	out[threadIdx.x] = from[threadIdx.x];
}

extern "C" __global__ void endless(In in, Out out, int bad)
{
	volatile float *v = out;
	int t = threadIdx.x;

	v[t] = in[t];
	while (bad && v[t] >= 0)
		v[t] = v[t] + 1;
}

extern "C" __global__ void trapped(In in, Out out, int bad)
{
	out[threadIdx.x] = in[threadIdx.x];
	if (bad && threadIdx.x == 77)
		__trap();
}
