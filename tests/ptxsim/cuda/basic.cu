// SPDX-License-Identifier: Apache-2.0
// nvcc -ptx -arch=sm_80 basic.cu -o basic.ptx

extern "C" __global__ void vadd(const float *a, const float *b, float *c, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < n)
		c[i] = a[i] + b[i];
}

/* A loop whose trip count differs by thread, with a break and a continue inside. */
extern "C" __global__ void collatz(unsigned *out, int n)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	unsigned v = i + 1, steps = 0;

	if (i >= n)
		return;
	while (v != 1) {
		if (steps > 150)
			break;
		steps++;
		if (v & 1) {
			v = 3 * v + 1;
			continue;
		}
		v >>= 1;
	}
	out[i] = steps;
}

__device__ int counter = 7;
__constant__ float table[4] = {1.5f, 2, 3, 4};

__device__ __noinline__ int sum_and_spoil(int *p, int n)
{
	int s = 0;

	for (int i = 0; i < n; i++) {
		s += p[i];
		p[i] = s * i;
	}
	return s + p[n - 1];
}

/* A local array passed to a function, called by some threads only; constant and global variables. */
extern "C" __global__ void calls(int *out, float *fout, int n)
{
	int i = threadIdx.x, local[8];

	for (int k = 0; k < 8; k++)
		local[k] = i * k + n;
	out[i] = -1;
	if (i % 3)
		out[i] = sum_and_spoil(local, n) + local[i & 7];
	atomicAdd(&counter, i & 1);
	fout[i] = table[i & 3];
	__syncthreads();
	if (i == 0)
		out[blockDim.x] = counter;
}

__device__ __noinline__ unsigned ackermann(unsigned m, unsigned n)
{
	if (m == 0)
		return n + 1;
	if (n == 0)
		return ackermann(m - 1, 1);
	return ackermann(m - 1, ackermann(m, n - 1));
}

extern "C" __global__ void recursion(unsigned *out)
{
	out[threadIdx.x] = ackermann(threadIdx.x & 1, threadIdx.x & 7);
}

/* A jump table. */
extern "C" __global__ void choose(int *out, const int *in)
{
	int i = threadIdx.x, v = in[i], r;

	switch (v) {
	case 0: r = i; break;
	case 1: r = i * i; break;
	case 2: r = ~i; break;
	case 3: r = i << 3; break;
	case 4: r = i / 3; break;
	case 5: r = i % 5; break;
	case 6: r = -i; break;
	case 7: r = i ^ 0x55; break;
	default: r = 1000;
	}
	out[i] = r;
}

/* A tree in shared memory, blocks of any power of two. */
extern "C" __global__ void tree_sum(const float *in, float *out, int n)
{
	extern __shared__ float s[];
	int t = threadIdx.x;
	float sum = 0;

	for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x)
		sum += in[i];
	s[t] = sum;
	__syncthreads();
	for (int k = blockDim.x / 2; k > 0; k /= 2) {
		if (t < k)
			s[t] += s[t + k];
		__syncthreads();
	}
	if (t == 0)
		out[blockIdx.x] = s[0];
}
