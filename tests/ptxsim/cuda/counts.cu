// SPDX-License-Identifier: Apache-2.0
// nvcc -ptx -arch=sm_80 counts.cu -o counts.ptx

extern "C" __global__ void copy(const float *in, float *out, int stride, int offset)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	out[i] = in[i * stride + offset];
}

extern "C" __global__ void copy4(const float4 *in, float4 *out, int stride, int offset)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	out[i] = in[i * stride + offset];
}

template <typename T> __device__ void banks(T *s, T *out, int stride, int xor_mask)
{
	int t = threadIdx.x, n = blockDim.x * (stride ? stride : 1);

	for (int i = t; i < n; i += blockDim.x)
		s[i] = {};
	__syncthreads();
	out[t] = s[(t * stride) ^ xor_mask];
}

extern "C" __global__ void banks1(float *out, int stride, int xor_mask)
{
	extern __shared__ float s1[];
	banks(s1, out, stride, xor_mask);
}

extern "C" __global__ void banks2(float2 *out, int stride, int xor_mask)
{
	extern __shared__ float2 s2[];
	banks(s2, out, stride, xor_mask);
}

extern "C" __global__ void banks4(float4 *out, int stride, int xor_mask)
{
	extern __shared__ float4 s4[];
	banks(s4, out, stride, xor_mask);
}

extern "C" __global__ void bytes(unsigned char *out, int stride, int xor_mask)
{
	extern __shared__ unsigned char s0[];
	banks(s0, out, stride, xor_mask);
}
