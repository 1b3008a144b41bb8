/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The roof of one core: multiply-adds on registers alone, as GFLOP/s on one line. Vectors of the widest kind
 * that the machine has, 14 independent sums, so that latency is hidden (4 cycles, 2 units).
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

enum { SUMS = 14, LOOPS = 20000, ROUNDS = 200 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#define ROOF(name, bytes, attribute)                                                                \
	typedef float name##_vec __attribute__((vector_size(bytes)));                              \
	attribute __attribute__((optimize("fp-contract=fast"), noinline)) static float name(float a) \
	{                                                                                          \
		name##_vec s[SUMS], m = (name##_vec){0} + a, b = (name##_vec){0} + 1e-9f;          \
		float r = 0;                                                                       \
                                                                                                   \
		for (int i = 0; i < SUMS; i++)                                                     \
			s[i] = (name##_vec){0} + (float)i;                                         \
		for (int k = 0; k < LOOPS; k++) {                                                  \
			_Pragma("GCC unroll 14") for (int i = 0; i < SUMS; i++)                    \
				s[i] = s[i] * m + b;                                               \
		}                                                                                  \
		for (int i = 0; i < SUMS; i++)                                                     \
			r += s[i][0];                                                              \
		return r;                                                                          \
	}

#if defined(__x86_64__)
ROOF(roof512, 64, __attribute__((target("avx512f,fma"))))
ROOF(roof256, 32, __attribute__((target("avx2,fma"))))
#endif
ROOF(roof128, 16, )

static double measure(float (*f)(float), int lanes)
{
	double best = 0;
	volatile float sink = 0;

	for (int i = 0; i < ROUNDS; i++) {
		double t = now(), g;

		sink = sink + f(0.999f);
		g = 2.0 * SUMS * LOOPS * lanes / (now() - t) * 1e-9;
		best = g > best ? g : best;
	}
	return best;
}

int main(void)
{
	double best = measure(roof128, 4), g;

#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("fma") && (g = measure(roof256, 8)) > best)
		best = g;
	if (__builtin_cpu_supports("avx512f") && (g = measure(roof512, 16)) > best)
		best = g;
#else
	(void)g;
#endif
	printf("%.1f\n", best);
	return 0;
}
