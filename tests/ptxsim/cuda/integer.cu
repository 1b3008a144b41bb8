// SPDX-License-Identifier: Apache-2.0
// nvcc -ptx -arch=sm_80 integer.cu -o integer.ptx
// Output k of input i stands at out[k * n + i].

typedef long long s64;
typedef unsigned long long u64;

extern "C" __global__ void ops32(const int *pa, const int *pb, const int *pc, unsigned *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;

	if (i >= n)
		return;
	int a = pa[i], b = pb[i], c = pc[i];
	unsigned ua = a, ub = b, uc = c;
#define PUT(v) out[k++ * n + i] = (unsigned)(v)
	PUT(a + b);
	PUT(a - b);
	PUT(a * b);
	PUT(a * b + c);
	PUT(__mulhi(a, b));
	PUT(__umulhi(ua, ub));
	PUT(__mul24(a, b));
	PUT(__umul24(ua, ub));
	PUT(b ? a / b : 0);
	PUT(b ? a % b : 0);
	PUT(b ? ua / ub : 0);
	PUT(b ? ua % ub : 0);
	PUT(a / 7);
	PUT(ua % 1000003);
	PUT(abs(a));
	PUT(min(a, b));
	PUT(max(a, b));
	PUT(min(ua, ub));
	PUT(max(ua, ub));
	PUT(__clz(a));
	PUT(__ffs(a));
	PUT(__popc(a));
	PUT(__brev(ua));
	PUT(__byte_perm(ua, ub, uc));
	PUT(__funnelshift_l(ua, ub, uc));
	PUT(__funnelshift_r(ua, ub, uc));
	PUT(__funnelshift_lc(ua, ub, uc & 63));
	PUT(__funnelshift_rc(ua, ub, uc & 63));
	PUT(__sad(a, b, uc));
	PUT(__usad(ua, ub, uc));
	PUT(__dp4a(a, b, c));
	PUT(__dp4a(ua, ub, uc));
	PUT(__dp2a_lo(a, b, c));
	PUT(__dp2a_hi(a, b, c));
	PUT((a & b) ^ (~c | b));
	PUT(a << (c & 31));
	PUT(a >> (c & 31));
	PUT(ua >> (c & 31));
	PUT((short)a * (short)b);
	PUT((unsigned short)(a + b));
	PUT((signed char)a);
	PUT(__hadd(a, b));
	PUT(__rhadd(a, b));
	PUT(a < b ? c : -c);
	PUT(__vadd2(ua, ub));
	PUT(__vmaxs4(ua, ub));
	unsigned field, inserted;
	asm("bfe.s32 %0, %1, %2, %3;" : "=r"(field) : "r"(a), "r"(b & 63), "r"(c & 63));
	PUT(field);
	asm("bfe.u32 %0, %1, %2, %3;" : "=r"(field) : "r"(a), "r"(b & 63), "r"(c & 63));
	PUT(field);
	asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(inserted) : "r"(a), "r"(b), "r"(c & 63), "r"(c >> 8 & 63));
	PUT(inserted);
	asm("prmt.b32 %0, %1, %2, %3;" : "=r"(field) : "r"(a), "r"(b), "r"(c));
	PUT(field);
}

extern "C" __global__ void ops64(const s64 *pa, const s64 *pb, u64 *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x, k = 0;

	if (i >= n)
		return;
	s64 a = pa[i], b = pb[i];
	u64 ua = a, ub = b;
#undef PUT
#define PUT(v) out[k++ * n + i] = (u64)(v)
	PUT(a + b);
	PUT(a * b);
	PUT(__mul64hi(a, b));
	PUT(__umul64hi(ua, ub));
	PUT(b ? a / b : 0);
	PUT(b ? a % b : 0);
	PUT(b ? ua / ub : 0);
	PUT(b ? ua % ub : 0);
	PUT(min(a, b));
	PUT(max(ua, ub));
	PUT(a << (b & 63));
	PUT(a >> (b & 63));
	PUT(ua >> (b & 63));
	PUT(__clzll(a));
	PUT(__popcll(a));
	PUT(__brevll(ua));
	PUT((s64)(int)a * (int)b);
	PUT((u64)(unsigned)a * (unsigned)b + ub);
	PUT(ua < ub);
	PUT(a < b);
	PUT(llabs(a));
}
