/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool where its workers have no processor of their own: all threads share one. Every part of a job is done once, and
 * the caller does those of workers that have not begun. Prints "N passed, N failed".
 */
#include "runtime/rt.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, JOBS = 4000, POINTS = 64 };

static int done[POINTS];
static pthread_t caller;
static int of_others; /* parts of workers that the caller did */

static void kernel(const dl_kctx *k, int64_t begin, int64_t end, void *scratch)
{
	(void)k;
	(void)scratch;
	for (int64_t i = begin; i < end; i++)
		done[i]++;
	if (begin && pthread_equal(pthread_self(), caller))
		of_others++;
}

static void *from_heap(void *user, uint64_t bytes, uint64_t align)
{
	(void)user;
	return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void to_heap(void *user, void *p, uint64_t bytes)
{
	(void)user;
	(void)bytes;
	free(p);
}

static void on_one_cpu(void)
{
	cpu_set_t all, one;
	size_t cpu = 0;

	sched_getaffinity(0, sizeof(all), &all);
	while (!CPU_ISSET(cpu, &all))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

/* Points whose count is wrong after a job of N; all are 0 again. */
static int wrong_points(int64_t n)
{
	int wrong = 0;

	for (int64_t i = 0; i < POINTS; i++) {
		wrong += done[i] != (i < n);
		done[i] = 0;
	}
	return wrong;
}

int main(void)
{
	static dl_model m = {.opt = {.alloc = from_heap, .free = to_heap}};
	int wrong = 0;
	Pool *p;

	on_one_cpu();
	caller = pthread_self();
	p = rt_pool_new(&m, THREADS, false);
	if (!p)
		return 2;
	for (int j = 0; j < JOBS; j++) {
		Job job = {.fn = kernel, .n = THREADS + j % (POINTS - THREADS), .grain = 1};

		job.parts = 2 + j % (THREADS - 1);
		rt_pool_run(p, &job);
		wrong += wrong_points(job.n);
	}
	rt_pool_free(&m, p);
	if (wrong)
		printf("FAIL: pool: %d points were done more or less than once\n", wrong);
	if (!of_others)
		printf("FAIL: pool: the caller waits for workers that have not begun\n");
	printf("%d passed, %d failed\n", !wrong + !!of_others, !!wrong + !of_others);
	return wrong || !of_others;
}
