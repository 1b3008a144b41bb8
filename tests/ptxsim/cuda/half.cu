// SPDX-License-Identifier: Apache-2.0
// nvcc -ptx -arch=sm_80 half.cu -o half.ptx
// Output k of input i stands at out[k * n + i].
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define PUT2(type, v)                                                                              \
	do {                                                                                       \
		type t = (v);                                                                      \
		out[k++ * n + i] = *(unsigned *)&t;                                                \
	} while (0)

extern "C" __global__ void f16(const unsigned *pa, const unsigned *pb, const unsigned *pc, unsigned *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;

	if (i >= n)
		return;
	__half2 a = *(__half2 *)&pa[i], b = *(__half2 *)&pb[i], c = *(__half2 *)&pc[i];
	PUT2(__half2, __hadd2_rn(a, b));
	PUT2(__half2, __hsub2_rn(a, b));
	PUT2(__half2, __hmul2_rn(a, b));
	PUT2(__half2, __hfma2(a, b, c));
	PUT2(__half2, __hfma2_sat(a, b, c));
	PUT2(__half2, __hfma2_relu(a, b, c));
	PUT2(__half2, __hadd2_sat(a, b));
	PUT2(__half2, __hmin2(a, b));
	PUT2(__half2, __hmax2(a, b));
	PUT2(__half2, __hmax2_nan(a, b));
	PUT2(__half2, __hneg2(a));
	PUT2(__half2, __habs2(a));
	PUT2(__half2, __hlt2(a, b));
	PUT2(__half2, __hgeu2(a, b));
	PUT2(unsigned, (unsigned)__hbeq2(a, b) | (unsigned)(__low2half(a) < __high2half(b)) << 1);
	PUT2(__half2, __h2div(a, b));
}

extern "C" __global__ void bf16(const unsigned *pa, const unsigned *pb, const unsigned *pc, unsigned *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;

	if (i >= n)
		return;
	__nv_bfloat162 a = *(__nv_bfloat162 *)&pa[i], b = *(__nv_bfloat162 *)&pb[i], c = *(__nv_bfloat162 *)&pc[i];
	PUT2(__nv_bfloat162, __hadd2_rn(a, b));
	PUT2(__nv_bfloat162, __hmul2_rn(a, b));
	PUT2(__nv_bfloat162, __hfma2(a, b, c));
	PUT2(__nv_bfloat162, __hfma2_relu(a, b, c));
	PUT2(__nv_bfloat162, __hmin2(a, b));
	PUT2(__nv_bfloat162, __hmax2_nan(a, b));
	PUT2(__nv_bfloat162, __hneg2(a));
	PUT2(__nv_bfloat162, __hlt2(a, b));
}
