/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/dlrun/roof.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
	SUMS = 14, /* independent sums: 2 units times a latency of 4 cycles fit, and the registers */
	LOOPS = 4000,         /* multiply-adds of each sum in a chunk: some 20 us */
	STREAMS = 4,          /* a kernel reads about as many operands */
	L2_BYTES = 256 << 10, /* more than any L1, at most half of an L2 */
	MOST_THREADS = 1024
};
/* For all threads together: more than most last-level caches, and a chunk of it at least 8 MiB. */
static const size_t MEMORY_BYTES = (size_t)256 << 20, CHUNK_BYTES = (size_t)8 << 20;
static const size_t HUGE_PAGE = (size_t)2 << 20; /* of x86-64 and of most aarch64 systems */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- One thread's work ---- */

/* X(i) for each sum, and X(i, j) for each stream i and each of two vectors j: as variables of their
 * own and not as arrays, which compilers may leave in memory. */
#define EACH_SUM(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#define EACH_VECTOR(X) X(0, 0) X(0, 1) X(1, 0) X(1, 1) X(2, 0) X(2, 1) X(3, 0) X(3, 1)
#define ONE(i) +1
#define ONE_VECTOR(i, j) +1
_Static_assert(EACH_SUM(ONE) == SUMS, "one for each");
_Static_assert(EACH_VECTOR(ONE_VECTOR) == 2 * STREAMS, "two for each");

#define SUM_NEW(i) s##i = zero + (float)(i),
#define SUM_MAD(i) mad(s##i, m, b);
#define SUM_ADD(i) r += s##i[0];
#define VECTOR_NEW(i, j) v##i##j = zero,
#define VECTOR_READ(i, j) \
	v##i##j ^= *(const word *)(const void *)(p + (i)*part + at + (j) * sizeof(word));
#define VECTOR_XOR(i, j) all ^= v##i##j;

/*
 * For vectors of BYTES bytes: multiply-adds, and reads of STREAMS parts of P side by side, of which
 * each has a multiple of 128 bytes. Both return a number that depends on all of the work.
 * mad(S, M, B) sets S to S * M + B: an instruction, since the compiler shall not choose whether it
 * fuses.
 */
#define KERNELS(name, bytes, attribute)                                                          \
	attribute __attribute__((noinline)) static float name##_fma(float a)                     \
	{                                                                                        \
		typedef float vec __attribute__((vector_size(bytes)));                           \
		const vec zero = {0}, m = zero + a, b = zero + 1e-9f;                            \
		vec EACH_SUM(SUM_NEW) unused = zero;                                             \
		float r = unused[0];                                                             \
                                                                                                 \
		for (int k = 0; k < LOOPS; k++) {                                                \
			EACH_SUM(SUM_MAD)                                                        \
		}                                                                                \
		EACH_SUM(SUM_ADD)                                                                \
		return r;                                                                        \
	}                                                                                        \
	attribute __attribute__((noinline)) static uint64_t name##_read(const char *p, size_t n) \
	{                                                                                        \
		typedef uint64_t word __attribute__((vector_size(bytes), may_alias));            \
		const word zero = {0};                                                           \
		const size_t part = n / STREAMS;                                                 \
		word EACH_VECTOR(VECTOR_NEW) all = zero;                                         \
                                                                                                 \
		for (size_t at = 0; at < part; at += 2 * sizeof(word)) {                         \
			EACH_VECTOR(VECTOR_READ)                                                 \
		}                                                                                \
		EACH_VECTOR(VECTOR_XOR)                                                          \
		return all[0] ^ all[1];                                                          \
	}

#define mad(s, m, b) (s) = (s) * (m) + (b)
KERNELS(v128, 16, )
#undef mad
#if defined(__x86_64__)
#define mad(s, m, b) __asm__("vfmadd213ps %2, %1, %0" : "+x"(s) : "x"(m), "x"(b))
KERNELS(v256, 32, __attribute__((target("avx2,fma"))))
#undef mad
#define mad(s, m, b) __asm__("vfmadd213ps %2, %1, %0" : "+v"(s) : "v"(m), "v"(b))
KERNELS(v512, 64, __attribute__((target("avx512f,fma"))))
#undef mad
#endif

typedef struct Kernels {
	int lanes;
	float (*fma)(float a);
	uint64_t (*read)(const char *p, size_t n);
} Kernels;

/* The kernels for the widest vectors that this machine has. */
static Kernels widest(void)
{
#if defined(__x86_64__)
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f"))
		return (Kernels){16, v512_fma, v512_read};
	if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
		return (Kernels){8, v256_fma, v256_read};
#endif
	return (Kernels){4, v128_fma, v128_read};
}

/* ---- All threads ---- */

typedef struct Team {
	pthread_barrier_t barrier;
	Kernels kernels;
	bool fma;
	size_t bytes; /* of each thread's memory, if not FMA */
	double ms;
	int threads;
	_Atomic double *took; /* by thread: seconds of the round */
	_Atomic bool failed, done;
} Team;

typedef struct RoofThread {
	Team *team;
	int at;
	double best; /* in the first worker: work units of all threads in a second */
} RoofThread;

static volatile uint64_t sink;

/* One round of work; returns its units: operations or bytes. */
static double work(const Team *t, const char *memory)
{
	double units = 0;

	if (t->fma) {
		sink ^= (uint64_t)(t->kernels.fma(0.999f) > 0);
		return 2.0 * (double)(SUMS * LOOPS * t->kernels.lanes);
	}
	/* Caches are read several times in a round, so that a round is long enough to be timed. */
	do {
		sink ^= t->kernels.read(memory, t->bytes);
		units += (double)t->bytes;
	} while (units < (double)CHUNK_BYTES);
	return units;
}

/* BYTES bytes that have been written, or NULL. In huge pages where the system has them: with pages
 * of 4 KiB one thread waits for page walks, and reads 22 GB/s where a product's weights came at
 * 29. */
static char *new_memory(size_t bytes)
{
	char *memory = aligned_alloc(HUGE_PAGE, (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);

	if (!memory)
		return NULL;
#if defined(MADV_HUGEPAGE)
	madvise(memory, bytes, MADV_HUGEPAGE); /* a failure costs speed only */
#endif
	return memset(memory, 1, bytes);
}

/* Begins a round together with the other threads, until the first one says that time is over. The
 * rate of a round is all work by the time of the slowest. */
static void *worker(void *arg)
{
	RoofThread *w = arg;
	Team *t = w->team;
	const double begin = now();
	char *memory = t->fma ? NULL : new_memory(t->bytes);

	if (!t->fma && !memory)
		t->failed = true;
	for (;;) {
		double since, units, slowest = 0;

		pthread_barrier_wait(&t->barrier);
		if (t->failed || t->done)
			break;
		since = now();
		units = work(t, memory);
		t->took[w->at] = now() - since;
		pthread_barrier_wait(&t->barrier);
		for (int i = 0; i < t->threads && !w->at; i++)
			slowest = t->took[i] > slowest ? t->took[i] : slowest;
		if (!w->at && units * t->threads > w->best * slowest)
			w->best = units * t->threads / slowest;
		if (!w->at && (now() - begin) * 1e3 > t->ms)
			t->done = true;
	}
	free(memory);
	return NULL;
}

/* Runs T on its threads; the best rate of all rounds, or 0. */
static double run(Team *t)
{
	static RoofThread w[MOST_THREADS];
	static pthread_t thread[MOST_THREADS];
	_Atomic double took[MOST_THREADS];
	int n = 1;

	t->took = took;
	w[0] = (RoofThread){t, 0, 0};
	if (pthread_barrier_init(&t->barrier, NULL, (unsigned)t->threads))
		return 0;
	for (; n < t->threads; n++) {
		w[n] = (RoofThread){t, n, 0};
		if (pthread_create(&thread[n], NULL, worker, &w[n]))
			return 0; /* those that wait for the others end with the process */
	}
	worker(&w[0]);
	for (int i = 1; i < n; i++)
		pthread_join(thread[i], NULL);
	pthread_barrier_destroy(&t->barrier);
	return t->failed ? 0 : w[0].best;
}

static double measure(int threads, double ms, bool fma, size_t bytes)
{
	Team t = {.kernels = widest(), .fma = fma, .bytes = bytes, .ms = ms, .threads = threads};

	return run(&t);
}

Roof roof_measure(unsigned what, int threads, double ms)
{
	const int n = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
	const size_t share = MEMORY_BYTES / (size_t)n / CHUNK_BYTES * CHUNK_BYTES;
	Roof r = {0};

	if (what & ROOF_FLOPS)
		r.flops = measure(n, ms, true, 0);
	if (what & ROOF_BYTES)
		r.bytes = measure(n, ms, false, share ? share : CHUNK_BYTES);
	if (what & ROOF_L2)
		r.l2 = measure(n, ms, false, L2_BYTES);
	return r;
}
