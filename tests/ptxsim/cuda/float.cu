// SPDX-License-Identifier: Apache-2.0
// nvcc -ptx -arch=sm_80 float.cu -o float.ptx
// Output k of input i stands at out[k * n + i].

#define PUT(v) out[k++ * n + i] = (v)

// What has one right result.
extern "C" __global__ void exact(const float *pa, const float *pb, const float *pc, float *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;

	if (i >= n)
		return;
	float a = pa[i], b = pb[i], c = pc[i];
	PUT(__fadd_rn(a, b));
	PUT(__fadd_rz(a, b));
	PUT(__fadd_ru(a, b));
	PUT(__fadd_rd(a, b));
	PUT(__fmul_rn(a, b));
	PUT(__fmul_rz(a, b));
	PUT(__fmaf_rn(a, b, c));
	PUT(__fmaf_rz(a, b, c));
	PUT(__fmaf_ru(a, b, c));
	PUT(__fmaf_rd(a, b, c));
	PUT(__fdiv_rn(a, b));
	PUT(__fdiv_rd(a, b));
	PUT(__fsqrt_rn(fabsf(a)));
	PUT(__fsqrt_ru(fabsf(a)));
	PUT(__frcp_rn(a));
	PUT(fminf(a, b));
	PUT(fmaxf(a, b));
	PUT(fabsf(a));
	PUT(-a);
	PUT(copysignf(a, b));
	PUT(floorf(a));
	PUT(ceilf(a));
	PUT(truncf(a));
	PUT(rintf(a));
	PUT(roundf(a));
	PUT(__saturatef(a));
	PUT(fmodf(a, b));
	PUT(a < b ? a : c);
	PUT(isnan(a) ? 1.0f : isinf(a) ? 2.0f : 3.0f);
	PUT(a <= b || c > b ? 1.0f : 0.0f);
	PUT((float)((double)a * b + c));
}

extern "C" __global__ void exact64(const double *pa, const double *pb, const double *pc, double *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;

	if (i >= n)
		return;
	double a = pa[i], b = pb[i], c = pc[i];
	PUT(a + b);
	PUT(__dadd_rz(a, b));
	PUT(a * b);
	PUT(__fma_rn(a, b, c));
	PUT(__fma_ru(a, b, c));
	PUT(a / b);
	PUT(sqrt(fabs(a)));
	PUT(fmin(a, b));
	PUT(fmax(a, b));
	PUT(floor(a));
	PUT(rint(a));
	PUT((double)(float)a);
	PUT((double)(long long)a);
	PUT(copysign(a, b));
}

// What is near: CUDA's mathematical functions, which nvcc makes of approximations, tables, local arrays and branches.
extern "C" __global__ void math(const float *pa, const float *pb, float *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;

	if (i >= n)
		return;
	float a = pa[i], b = fabsf(pb[i]);
	PUT(expf(a));
	PUT(exp2f(a));
	PUT(logf(b));
	PUT(log2f(b));
	PUT(log1pf(b));
	PUT(expm1f(a));
	PUT(sinf(a * 1000));
	PUT(cosf(a * 1e6f));
	PUT(tanf(a));
	PUT(tanhf(a));
	PUT(erff(a));
	PUT(erfcf(a));
	PUT(powf(b, a));
	PUT(rsqrtf(b));
	PUT(cbrtf(a));
	PUT(atan2f(a, b));
	PUT(asinhf(a));
	PUT(lgammaf(b + 0.5f));
	PUT(__expf(a));
	PUT(__logf(b));
	PUT(__sinf(a));
	PUT(__fdividef(a, b));
	PUT((float)exp((double)a));
	PUT((float)log((double)b));
	PUT((float)sin((double)a * 1000));
	PUT((float)pow((double)b, (double)a));
}
