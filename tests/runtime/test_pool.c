/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pool, first in parallel regions whose jobs read what the jobs before them wrote, then where
 * its workers have no processor of their own: all threads share one. Every part of a job is done
 * once, after all of the job before, and the caller does the parts of workers that have not begun.
 * Prints "N passed, N failed".
 */
#include "runtime/rt.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, JOBS = 4000, POINTS = 64, IN_REGION = 80 };

static int done[POINTS];
static int round_of[2][POINTS]; /* job J writes J to [J % 2], and reads the other one */
static int out_of_order;
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

static void in_order(const dl_kctx *k, int64_t begin, int64_t end, void *scratch)
{
	const int j = (int)k->dim[0];

	(void)scratch;
	for (int64_t i = begin; i < end; i++) {
		if (round_of[!(j % 2)][POINTS - 1 - i] != j - 1)
			__atomic_store_n(&out_of_order, 1, __ATOMIC_RELAXED);
		round_of[j % 2][i] = j;
	}
}

/* IN_REGION jobs of a region, from number FIRST on. Every third one has only one part. */
static void jobs(PoolThread *t, void *first)
{
	for (int j = *(int *)first; j < *(int *)first + IN_REGION; j++) {
		const dl_kctx k = {.dim = (int64_t[]){j}};
		const Job job = {.fn = in_order,
				 .k = &k,
				 .n = POINTS,
				 .grain = 1,
				 .parts = j % 3 ? 1 + j % THREADS : 1};

		rt_thread_run(t, &job);
	}
}

static void test_regions(Pool *p)
{
	for (int i = 0; i < POINTS; i++)
		round_of[0][i] = 0;
	for (int first = 1; first < JOBS; first += IN_REGION) {
		PoolThread me = rt_pool_open(p, THREADS, jobs, &first);

		jobs(&me, &first);
		rt_thread_wait(&me);
		rt_pool_close(p);
	}
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

	p = rt_pool_new(&m, THREADS, false);
	if (!p)
		return 2;
	test_regions(p);
	rt_pool_free(&m, p);
	on_one_cpu();
	caller = pthread_self();
	p = rt_pool_new(&m, THREADS, false);
	if (!p)
		return 2;
	test_regions(p);
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
	if (out_of_order)
		printf("FAIL: pool: a job began before the one before it was done\n");
	printf("%d passed, %d failed\n", !wrong + !!of_others + !out_of_order,
	       !!wrong + !of_others + out_of_order);
	return wrong || !of_others || out_of_order;
}
