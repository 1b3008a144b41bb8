/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread pool of a model. The caller is thread 0; the other threads wait, first spinning, then
 * asleep. A job is cut into contiguous parts, one for each thread, always in the same way (a static
 * split), so what a kernel writes does not depend on timing. Normally each part is computed by its
 * own worker, which thus finds in its caches what it wrote before. But when the caller has finished
 * its own part, it takes the parts that no worker has begun: a worker that sleeps, or has no
 * processor, delays nobody.
 *
 * One word publishes a job: a generation in its high bits, and the number of workers that take part
 * in the low 12. Workers that do not take part read nothing else, so only those that do have to be
 * waited for. Sleeping is a futex on the low half of the word.
 *
 * A pool serves one run at a time; a second run at the same time computes in its caller's thread.
 * In a forked child the workers do not exist: the first run there detects another process id and
 * creates new ones. Signals are blocked in workers.
 */
#include "runtime/rt.h"

#include <limits.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#endif

#define ACTIVE_BITS 12
#define ACTIVE_MASK ((1u << ACTIVE_BITS) - 1)
#define STOP ACTIVE_MASK
#define SPINS 1000
/* spins that workers have to begin their parts after the caller has finished its own */
#define MOMENT 20

typedef struct Worker {
	Pool *pool;
	pthread_t thread;
	uint64_t seen;  /* the word when the worker was created */
	uint32_t index; /* number of its part, from 1 */
	/* the generation of the last job whose part INDEX was begun by anybody */
	_Alignas(64) _Atomic uint64_t begun;
} Worker;

struct Pool {
	_Alignas(64) _Atomic uint64_t word;
	_Alignas(64) _Atomic uint32_t pending; /* workers that have not finished */
	_Alignas(64) _Atomic uint32_t sleepers;
	_Atomic uint32_t caller_sleeps;
	_Atomic uint32_t busy;
	_Atomic int32_t pid; /* -1 while workers are created in a forked child */
	const Job *job;
	uint64_t bytes;
	int32_t max_workers, n_workers;
	Worker worker[];
};

static void pause_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#if defined(__linux__)
static void sleep_on(void *p, uint32_t expected)
{
	syscall(SYS_futex, p, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void wake(void *p)
{
	syscall(SYS_futex, p, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
#else
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleep_cond = PTHREAD_COND_INITIALIZER;

static void sleep_on(void *p, uint32_t expected)
{
	pthread_mutex_lock(&sleep_lock);
	if (__atomic_load_n((uint32_t *)p, __ATOMIC_SEQ_CST) == expected)
		pthread_cond_wait(&sleep_cond, &sleep_lock);
	pthread_mutex_unlock(&sleep_lock);
}

static void wake(void *p)
{
	(void)p;
	pthread_mutex_lock(&sleep_lock);
	pthread_cond_broadcast(&sleep_cond);
	pthread_mutex_unlock(&sleep_lock);
}
#endif

void rt_job_part(const Job *job, int32_t i)
{
	const int64_t units = job->n / job->grain + (job->n % job->grain != 0);
	const int64_t each = units / job->parts, rest = units % job->parts;
	const int64_t first = each * i + (i < rest ? i : rest);
	const int64_t last = first + each + (i < rest);
	const int64_t begin = first * job->grain;
	const int64_t end = last >= units ? job->n : last * job->grain;

	if (begin < end)
		job->fn(job->k, begin, end, job->scratch + job->scratch_bytes * i);
}

/* Waits until the word differs from SEEN; returns it. */
static uint64_t next_word(Pool *p, uint64_t seen)
{
	uint64_t w;

	for (int i = 0; i < SPINS; i++) {
		w = atomic_load_explicit(&p->word, memory_order_acquire);
		if (w != seen)
			return w;
		pause_cpu();
	}
	atomic_fetch_add(&p->sleepers, 1);
	while ((w = atomic_load(&p->word)) == seen)
		sleep_on(&p->word, (uint32_t)seen);
	atomic_fetch_sub(&p->sleepers, 1);
	return w;
}

/*
 * Does W's part of JOB, unless another thread has begun it. A worker may be so late that everything
 * is done, or even that another job is published. So it reads the job only after it has claimed the
 * part: the job cannot end before the part does.
 */
static void do_part(Pool *p, Worker *w, uint64_t job)
{
	uint64_t last = atomic_load(&w->begun);

	if (last >= job || !atomic_compare_exchange_strong(&w->begun, &last, job))
		return;
	rt_job_part(p->job, (int32_t)w->index);
	if (atomic_fetch_sub(&p->pending, 1) == 1 && atomic_load(&p->caller_sleeps))
		wake(&p->pending);
}

static void *worker_main(void *arg)
{
	Worker *me = arg;
	Pool *p = me->pool;
	uint64_t w = me->seen;

	rt_fp_enter();
	for (;;) {
		uint32_t active;

		w = next_word(p, w);
		active = (uint32_t)w & ACTIVE_MASK;
		if (active == STOP)
			return NULL;
		if (me->index > active)
			continue;
		do_part(p, me, w >> ACTIVE_BITS);
	}
}

/* Publishes the job; returns its generation. */
static uint64_t publish(Pool *p, uint32_t active)
{
	const uint64_t job = (atomic_load_explicit(&p->word, memory_order_relaxed) >> ACTIVE_BITS) +
			     1;

	atomic_store(&p->word, job << ACTIVE_BITS | active);
	if (atomic_load(&p->sleepers))
		wake(&p->word);
	return job;
}

static void start_workers(Pool *p)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (p->n_workers = 0; p->n_workers < p->max_workers; p->n_workers++) {
		Worker *w = &p->worker[p->n_workers];

		w->pool = p;
		w->index = (uint32_t)p->n_workers + 1;
		w->seen = atomic_load(&p->word);
		if (pthread_create(&w->thread, NULL, worker_main, w))
			break;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

Pool *rt_pool_new(const dl_model *m, int32_t threads)
{
	const uint64_t bytes = sizeof(Pool) + sizeof(Worker) * (uint64_t)threads;
	Pool *p = rt_alloc(m, bytes);

	if (!p)
		return NULL;
	memset(p, 0, bytes);
	p->bytes = bytes;
	p->max_workers = threads - 1;
	start_workers(p);
	atomic_store(&p->pid, (int32_t)getpid());
	return p;
}

void rt_pool_free(const dl_model *m, Pool *p)
{
	if (!p)
		return;
	if (atomic_load(&p->pid) == (int32_t)getpid()) {
		publish(p, STOP);
		for (int32_t i = 0; i < p->n_workers; i++)
			pthread_join(p->worker[i].thread, NULL);
	}
	rt_free(m, p, p->bytes);
}

/* In a forked child: creates the workers again. False if another thread is already doing so. */
static bool after_fork(Pool *p, int32_t pid)
{
	int32_t old = atomic_load(&p->pid);

	if (old == -1 || old == pid || !atomic_compare_exchange_strong(&p->pid, &old, -1))
		return false;
	atomic_store(&p->pending, 0);
	atomic_store(&p->sleepers, 0);
	atomic_store(&p->caller_sleeps, 0);
	atomic_store(&p->busy, 0);
	start_workers(p);
	atomic_store(&p->pid, pid);
	return true;
}

int32_t rt_pool_acquire(Pool *p, int32_t threads)
{
	const int32_t pid = (int32_t)getpid();
	bool mine;
	int32_t n;

	if (!p)
		return 1;
	mine = (atomic_load(&p->pid) == pid || after_fork(p, pid)) && !atomic_exchange(&p->busy, 1);
	n = threads < p->n_workers + 1 ? threads : p->n_workers + 1;
	n = rt_budget_take(mine ? n : 1);
	if (mine && n == 1)
		atomic_store(&p->busy, 0);
	return n;
}

void rt_pool_release(Pool *p, int32_t threads)
{
	if (!p)
		return;
	rt_budget_give(threads);
	if (threads > 1)
		atomic_store(&p->busy, 0);
}

/* Whether all parts are done within SPINS spins. */
static bool done_soon(Pool *p, int spins)
{
	for (int i = 0; i < spins; i++) {
		if (!atomic_load_explicit(&p->pending, memory_order_acquire))
			return true;
		pause_cpu();
	}
	return false;
}

void rt_pool_run(Pool *p, const Job *job)
{
	const uint32_t others = (uint32_t)job->parts - 1;
	uint64_t generation;
	uint32_t left;

	p->job = job;
	atomic_store(&p->pending, others);
	generation = publish(p, others);
	rt_job_part(job, 0);
	if (done_soon(p, MOMENT))
		return;
	for (uint32_t i = 0; i < others; i++)
		do_part(p, &p->worker[i], generation);
	if (done_soon(p, SPINS))
		return;
	atomic_store(&p->caller_sleeps, 1);
	while ((left = atomic_load(&p->pending)))
		sleep_on(&p->pending, left);
	atomic_store(&p->caller_sleeps, 0);
}
