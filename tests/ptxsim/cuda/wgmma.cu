// SPDX-License-Identifier: Apache-2.0
// nvcc -ptx -arch=sm_90a -std=c++17 wgmma.cu -o wgmma.ptx
#include <cuda_fp16.h>

static __device__ unsigned shared_at(const void *p)
{
	return (unsigned)__cvta_generic_to_shared(p);
}

static __device__ unsigned long long descriptor(unsigned at, unsigned lead, unsigned stride, unsigned swizzle)
{
	return (unsigned long long)(at >> 4) | (unsigned long long)(lead >> 4) << 16 |
	       (unsigned long long)(stride >> 4) << 32 | (unsigned long long)swizzle << 62;
}

static __device__ void fence_proxy() { asm volatile("fence.proxy.async;" ::: "memory"); }
static __device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
static __device__ void wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
static __device__ void wait1() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }

#define D "{%0,%1,%2,%3,%4,%5,%6,%7}"
#define SUMS                                                                                           \
	"+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])

template <int TA, int TB>
static __device__ void multiply(float *d, unsigned long long a, unsigned long long b, int adds)
{
	asm volatile("{.reg .pred p; setp.ne.b32 p, %10, 0;\n"
		     "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 " D ", %8, %9, p, 1, 1, %11, %12;}"
		     : SUMS
		     : "l"(a), "l"(b), "r"(adds), "n"(TA), "n"(TB)
		     : "memory");
}

static __device__ void put_sums(float *out, const float *d)
{
	int t = threadIdx.x, row = t / 32 * 16 + t % 32 / 4;

	for (int i = 0; i < 8; i++)
		out[(row + i / 2 % 2 * 8) * 16 + i / 4 * 8 + t % 4 * 2 + i % 2] = d[i];
}

// Where 16 bytes of a matrix lie, so many atoms of rows of `width` bytes from each other.
static __device__ unsigned swizzled(unsigned at, unsigned width)
{
	return at ^ (at >> 7 & (width / 16 - 1)) << 4;
}

// out[64][16] = a[64][K] b[16][K], K-major: rows of WIDTH bytes (16: no swizzle), atoms of 8 rows.
template <int WIDTH, int MODE>
static __device__ void k_major(const __half *a, const __half *b, float *out)
{
	constexpr int K = WIDTH == 16 ? 16 : WIDTH / 2;
	__shared__ __align__(1024) char sa[64 * K * 2], sb[16 * K * 2];
	float d[8];

	for (int i = threadIdx.x; i < 80 * K / 8; i += 128) {
		int r = i / (K / 8), c = i % (K / 8);
		char *s = r < 64 ? sa : sb;
		int row = r < 64 ? r : r - 64;
		// without a swizzle the pieces of 8 rows are together
		unsigned at = WIDTH == 16 ? row / 8 * 128 + row % 8 * 16 + c * (r < 64 ? 1024 : 256)
					  : swizzled(row * WIDTH + c * 16, WIDTH);
		*(uint4 *)(s + at) = *(const uint4 *)((r < 64 ? a : b) + row * K + c * 8);
	}
	fence_proxy();
	__syncthreads();
	fence();
	for (int k = 0; k < K; k += 16)
		multiply<0, 0>(d, descriptor(shared_at(sa) + k * 2, WIDTH == 16 ? 1024 : 16, WIDTH * 8, MODE),
			       descriptor(shared_at(sb) + k * 2, WIDTH == 16 ? 256 : 16, WIDTH * 8, MODE), k > 0);
	commit();
	wait();
	put_sums(out, d);
}

extern "C" __global__ void plain(const __half *a, const __half *b, float *out) { k_major<16, 0>(a, b, out); }
extern "C" __global__ void swizzle32(const __half *a, const __half *b, float *out) { k_major<32, 3>(a, b, out); }
extern "C" __global__ void swizzle64(const __half *a, const __half *b, float *out) { k_major<64, 2>(a, b, out); }
extern "C" __global__ void swizzle128(const __half *a, const __half *b, float *out) { k_major<128, 1>(a, b, out); }

// out[64][16] = the transpose of a[32][64] times b[32][64]'s first 16 columns: rows of 128 bytes, along m and n.
extern "C" __global__ void along_sides(const __half *a, const __half *b, float *out)
{
	__shared__ __align__(1024) char sa[32 * 128], sb[32 * 128];
	float d[8];

	for (int i = threadIdx.x; i < 2 * 32 * 8; i += 128) {
		int r = i / 8 % 32, c = i % 8;
		*(uint4 *)((i < 256 ? sa : sb) + swizzled(r * 128 + c * 16, 128)) =
			*(const uint4 *)((i < 256 ? a : b) + r * 64 + c * 8);
	}
	fence_proxy();
	__syncthreads();
	fence();
	for (int k = 0; k < 32; k += 16)
		multiply<1, 1>(d, descriptor(shared_at(sa) + k * 128, 4096, 1024, 1),
			       descriptor(shared_at(sb) + k * 128, 4096, 1024, 1), k > 0);
	commit();
	wait();
	put_sums(out, d);
}

enum { NO_PROXY_FENCE = 1, NO_WAIT, EARLY_WAIT, NO_FENCE, NO_COMMIT, OVERWRITTEN, ONE_WARP_LESS, UNALIGNED };

// out[64][16] = a[64][64] b[16][64]; bad: what is wrong.
extern "C" __global__ void faulty(const __half *a, const __half *b, float *out, int bad)
{
	__shared__ __align__(1024) char sa[64 * 128 + 1024], sb[16 * 128];
	const int shift = bad == UNALIGNED ? 128 : 0;
	float d[8];

	for (int i = threadIdx.x; i < 80 * 8; i += 128) {
		int r = i / 8, c = i % 8;
		*(uint4 *)((r < 64 ? sa + shift : sb) + swizzled((r < 64 ? r : r - 64) * 128 + c * 16, 128)) =
			*(const uint4 *)((r < 64 ? a + r * 64 : b + (r - 64) * 64) + c * 8);
	}
	if (bad != NO_PROXY_FENCE)
		fence_proxy();
	__syncthreads();
	if (bad == ONE_WARP_LESS && threadIdx.x >= 96)
		return;
	if (bad != NO_FENCE)
		fence();
	for (int k = 0; k < 64; k += 16) {
		multiply<0, 0>(d, descriptor(shared_at(sa) + shift + k * 2, 16, 1024, 1),
			       descriptor(shared_at(sb) + k * 2, 16, 1024, 1), k > 0);
		if (k == 32)
			commit();
	}
	if (bad != NO_COMMIT)
		commit();
	if (bad == OVERWRITTEN)
		*(int *)(sb + threadIdx.x * 4) = 0;
	if (bad == EARLY_WAIT)
		wait1();
	else if (bad != NO_WAIT)
		wait();
	put_sums(out, d);
}

enum { BULK_UNREAD = 1, BULK_FEW_BYTES, BULK_NO_WAIT, BULK_STILL_READ, BULK_UNFENCED, BULK_STORED };

// A ring of two buffers of 1 KiB: a warp copies, the others add. bad: what is wrong.
extern "C" __global__ void ring_of_bulk(const int *in, int *out, int rounds, int bad)
{
	__shared__ __align__(1024) int s[2][256];
	__shared__ unsigned long long full[2], empty[2];
	int t = threadIdx.x, sum = 0;

	if (t == 0) {
		for (int k = 0; k < 2; k++) {
			asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_at(&full[k])));
			asm volatile("mbarrier.init.shared::cta.b64 [%0], 96;" ::"r"(shared_at(&empty[k])));
		}
		if (bad != BULK_UNFENCED)
			asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	}
	if (bad == BULK_STORED)
		s[0][t] = 0;
	__syncthreads();
	for (int r = 0; r < rounds; r++) {
		int k = r % 2, parity = r / 2 % 2, done = 0;

		if (t == 0) {
			while (r >= 2 && !done && bad != BULK_STILL_READ)
				asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
					     "selp.b32 %0, 1, 0, p;}" : "=r"(done) : "r"(shared_at(&empty[k])), "r"(parity ^ 1) : "memory");
			asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_at(&full[k])),
				     "r"(bad == BULK_FEW_BYTES ? 1008 : 1024) : "memory");
			asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
					     shared_at(s[k])), "l"(in + r * 256), "r"(1024), "r"(shared_at(&full[k])) : "memory");
		} else if (t >= 32 && !(bad == BULK_UNREAD && r == rounds - 1)) {
			while (!done && bad != BULK_NO_WAIT)
				asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
					     "selp.b32 %0, 1, 0, p;}" : "=r"(done) : "r"(shared_at(&full[k])), "r"(parity) : "memory");
			for (int i = t - 32; i < 256; i += 96)
				sum += s[k][i] * (r + 1);
			asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_at(&empty[k])) : "memory");
		}
	}
	if (t >= 32)
		out[t - 32] = sum;
}
