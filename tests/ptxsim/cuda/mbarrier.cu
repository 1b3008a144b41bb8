// SPDX-License-Identifier: Apache-2.0
// nvcc -ptx -arch=sm_90 -std=c++17 mbarrier.cu -o mbarrier.ptx
#include <cuda/barrier>
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline.h>

// Producers and consumers over a ring of two slots, with mbarriers for full and empty.
extern "C" __global__ void ring(const int *in, int *out, int rounds)
{
	__shared__ __mbarrier_t full[2], empty[2];
	__shared__ int s[2][64];
	int t = threadIdx.x;

	if (t == 0)
		for (int k = 0; k < 2; k++) {
			__mbarrier_init(&full[k], 64);
			__mbarrier_init(&empty[k], 64);
		}
	__syncthreads();
	if (t < 64) {
		for (int r = 0; r < rounds; r++) {
			if (r >= 2)
				while (!__mbarrier_test_wait_parity(&empty[r & 1], (r / 2 - 1) & 1))
					;
			s[r & 1][t] = in[r * 64 + t];
			__mbarrier_arrive(&full[r & 1]);
		}
	} else {
		int sum = 0;
		for (int r = 0; r < rounds; r++) {
			while (!__mbarrier_test_wait_parity(&full[r & 1], (r / 2) & 1))
				;
			sum += s[r & 1][127 - t] * (r + 1);
			__mbarrier_arrive(&empty[r & 1]);
		}
		out[t - 64] = sum;
	}
}

// Copies that arrive by themselves, and states instead of parities.
extern "C" __global__ void copies(const float *in, float *out)
{
	__shared__ __mbarrier_t bar;
	__shared__ float s[128];
	int t = threadIdx.x;

	if (t == 0)
		__mbarrier_init(&bar, 128);
	__syncthreads();
	__pipeline_memcpy_async(&s[t], &in[t], 4);
	__pipeline_arrive_on(&bar);
	__mbarrier_token_t token = __mbarrier_arrive(&bar);
	while (!__mbarrier_test_wait(&bar, token))
		;
	out[t] = s[127 - t];
	__syncthreads();
	if (t == 0)
		__mbarrier_inval(&bar);
}
