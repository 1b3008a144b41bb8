// SPDX-License-Identifier: Apache-2.0
// nvcc -ptx -arch=sm_80 convert.cu -o convert.ptx
// Output k of input i stands at out[k * n + i].
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define PUT(v) out[k++ * n + i] = (long long)(v)

extern "C" __global__ void to_int(const float *pa, const double *pd, long long *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;

	if (i >= n)
		return;
	float a = pa[i];
	double d = pd[i];
	PUT(__float2int_rn(a));
	PUT(__float2int_rz(a));
	PUT(__float2int_ru(a));
	PUT(__float2int_rd(a));
	PUT(__float2uint_rn(a));
	PUT(__float2uint_rz(a));
	PUT(__float2ll_rn(a));
	PUT(__float2ull_rz(a));
	PUT(__double2int_rn(d));
	PUT(__double2int_rd(d));
	PUT(__double2uint_rz(d));
	PUT(__double2ll_ru(d));
	PUT((unsigned char)fminf(fmaxf(a, 0), 255));
	PUT((short)fminf(fmaxf(a, -32768), 32767));
	PUT(__half2int_rn(__float2half_rn(a)));
	PUT(__half2short_rz(__float2half_rn(a)));
}

// Bits of floats.
extern "C" __global__ void to_float(const float *pa, const double *pd, const long long *pi, long long *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;

	if (i >= n)
		return;
	float a = pa[i];
	double d = pd[i];
	long long v = pi[i];
	PUT(__float_as_uint(__int2float_rn((int)v)));
	PUT(__float_as_uint(__int2float_rz((int)v)));
	PUT(__float_as_uint(__uint2float_ru((unsigned)v)));
	PUT(__float_as_uint(__ll2float_rn(v)));
	PUT(__float_as_uint(__ll2float_rd(v)));
	PUT(__float_as_uint(__ull2float_rn((unsigned long long)v)));
	PUT(__double_as_longlong(__ll2double_rn(v)));
	PUT(__double_as_longlong(__ull2double_rz((unsigned long long)v)));
	PUT(__float_as_uint(__double2float_rn(d)));
	PUT(__float_as_uint(__double2float_rz(d)));
	PUT(__float_as_uint(__double2float_ru(d)));
	PUT(__half_as_ushort(__float2half_rn(a)));
	PUT(__half_as_ushort(__float2half_rz(a)));
	PUT(__half_as_ushort(__double2half(d)));
	PUT(__half_as_ushort(__int2half_rn((int)v)));
	PUT(__float_as_uint(__half2float(__ushort_as_half((unsigned short)v))));
	PUT(__bfloat16_as_ushort(__float2bfloat16_rn(a)));
	PUT(__bfloat16_as_ushort(__float2bfloat16_rz(a)));
	PUT(__float_as_uint(__bfloat162float(__ushort_as_bfloat16((unsigned short)v))));
	unsigned tf;
	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf) : "f"(a));
	PUT(tf);
	__half2 h2 = __floats2half2_rn(a, (float)d);
	PUT(*(unsigned *)&h2);
	__nv_bfloat162 b2 = __floats2bfloat162_rn(a, (float)d);
	PUT(*(unsigned *)&b2);
}
