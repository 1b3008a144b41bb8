/* SPDX-License-Identifier: Apache-2.0 */
/* A grid: its blocks on two threads of the host, or on one where blocks may see each other's
 * atomics. */
#include "tools/ptxsim/exec.h"
#include "tools/ptxsim/shadow.h"

#include <fenv.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_WORKERS = 2 };
static Worker *workers[MAX_WORKERS];

static Worker *worker(int i)
{
	if (!workers[i]) {
		workers[i] = aligned_alloc(64, (sizeof(Worker) + 63) & ~63ul);
		if (!workers[i])
			abort();
		memset(workers[i], 0, sizeof(Worker));
		workers[i]->shadow = shadow_new();
	}
	return workers[i];
}

static void begin_block(Worker *k, Launch *l, uint64_t index)
{
	Block *b = &k->block;
	uint32_t threads = l->block[0] * l->block[1] * l->block[2];
	uint32_t fixed = (l->f->static_shared + 127) & ~127u;

	memset(b, 0, offsetof(Block, mbar));
	b->launch = l;
	b->worker = k;
	b->index = index;
	b->id[0] = (uint32_t)(index % l->grid[0]);
	b->id[1] = (uint32_t)(index / l->grid[0] % l->grid[1]);
	b->id[2] = (uint32_t)(index / l->grid[0] / l->grid[1]);
	b->n_threads = (int)threads;
	b->n_warps = (int)((threads + 31) / 32);
	b->random = mix(l->seed ^ mix(index));
	b->dynamic_at = fixed;
	b->shared_bytes = l->dynamic_shared ? fixed + l->dynamic_shared : l->f->static_shared;
	if (k->shared_cap < b->shared_bytes + 64) {
		free(k->shared);
		k->shared_cap = b->shared_bytes + 64;
		k->shared = malloc(k->shared_cap);
		if (!k->shared)
			abort();
	}
	b->shared = k->shared;
	memset(b->shared, POISON, b->shared_bytes);
	k->count.shared_bytes += l->f->declared_shared + l->dynamic_shared;
	for (int i = 0; i < b->n_warps; i++) {
		uint32_t left = threads - 32 * (uint32_t)i;
		warp_begin(k, i, left >= 32 ? ~0u : (1u << left) - 1);
	}
	b->shadow = k->shadow;
	shadow_begin(k->shadow, b->shared_bytes, l->f->module->granule, k->warp, b->n_warps);
	for (int i = 0; i < l->f->zones.n; i++)
		shadow_close(k->shadow, l->f->zones.at[i], ZONE);
}

typedef struct Job {
	Worker *k;
	Launch *l;
} Job;

/* Takes blocks until there are no more. */
static void take_blocks(Worker *k, Launch *l)
{
	for (;;) {
		uint64_t i = __atomic_fetch_add(&l->next, 1, __ATOMIC_RELAXED);
		if (i >= l->n_blocks || __atomic_load_n(&l->fault_at, __ATOMIC_RELAXED) < i)
			return;
		k->fault.code = 0;
		if (!setjmp(k->stop)) {
			begin_block(
				k, l,
				(uint64_t)(((unsigned __int128)i * l->order_mul + l->order_add) %
					   l->n_blocks));
			run_block(k);
		}
		if (k->fault.code) {
			/* Of several faults the first in the order of blocks is reported. */
			static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
			pthread_mutex_lock(&lock);
			if (i < l->fault_at) {
				__atomic_store_n(&l->fault_at, i, __ATOMIC_RELAXED);
				l->fault = k->fault;
			}
			pthread_mutex_unlock(&lock);
		}
	}
}

/* The caller's rounding mode and flushing of floats must not change a kernel's results. */
static void *work(void *arg)
{
	Job *job = arg;
	fenv_t env;

	fegetenv(&env);
	fesetenv(FE_DFL_ENV);
	take_blocks(job->k, job->l);
	fesetenv(&env);
	return NULL;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t t = a % b;
		a = b;
		b = t;
	}
	return a;
}

/* Blocks in order for seed 0, else in an order of the seed's. */
static void choose_order(Launch *l, uint64_t seed)
{
	l->order_mul = 1;
	l->order_add = 0;
	if (!seed || l->n_blocks < 2)
		return;
	l->order_mul = 1 + mix(seed) % (l->n_blocks - 1);
	while (gcd(l->order_mul, l->n_blocks) != 1)
		l->order_mul++;
	l->order_add = mix(seed + 1) % l->n_blocks;
}

void launch_run(Launch *l)
{
	Job job[MAX_WORKERS];
	pthread_t thread;
	Stats *s = stats_of(l->f->name);
	uint64_t seed = l->seed;

	l->n_blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
	l->next = 0;
	l->fault_at = UINT64_MAX;
	l->fault.code = 0;
	l->seed = mix(seed + 0x51ed * (uint64_t)l->grid_id);
	choose_order(l, seed ? l->seed : 0);
	bool two = l->n_blocks > 1 && !l->f->module->atomics && !l->trace &&
		   sysconf(_SC_NPROCESSORS_ONLN) > 1;
	for (int i = 0; i < MAX_WORKERS; i++) {
		job[i] = (Job){worker(i), l};
		job[i].k->last = NULL;
		memset(&job[i].k->count, 0, sizeof job[i].k->count);
	}
	two = two && !pthread_create(&thread, NULL, work, &job[1]);
	work(&job[0]);
	if (two)
		pthread_join(thread, NULL);
	s->launches++;
	s->blocks += l->n_blocks;
	s->threads += l->n_blocks * l->block[0] * l->block[1] * l->block[2];
	for (int i = 0; i < 1 + two; i++)
		counters_add(&s->c, &job[i].k->count);
	l->seed = seed;
}
