/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread pool of a model. The caller is thread 0; the other threads wait, first spinning, then
 * asleep. In a parallel region all threads call one function, which runs the same jobs in the same
 * order in each of them. Between two jobs is a barrier, which costs a fifth of a fork and a join:
 * the threads only wait until the first job is complete, whichever threads computed it. A region
 * may be a whole run of a model (run.c), or a single job.
 *
 * A job gets as many threads as the model has (dl_load_options.threads, by default the processors
 * of rt_cpus; budget.c bounds them), but at most one for each `grain` iterations (rt_job_cut). The
 * schedule says the grain: the work for which it pays to wake a thread, divided by the work of an
 * iteration (l_grain, passes/schedule/common/loops.c).
 *
 * A job is cut into contiguous parts, one for each thread, and each part into a few chunks. A
 * thread takes its own part from front to back; those chunks are likely in its caches. When that is
 * done, it takes chunks of the other parts from their backs: a worker that wakes late, shares its
 * processor or has a slow one delays the others by a chunk at most. Chunks do not depend on timing,
 * and so neither do a kernel's results.
 *
 * One word publishes a region: a generation in its high bits, and the number of workers that take
 * part in the low 12. A worker enters the region by counting itself in `members`, which it can only
 * do while that has the same generation. The caller closes the region by the next generation and
 * waits for the members that are left; a worker that is late finds the region closed.
 *
 * The rest of a part is one word, too: the number of a job, and the first and the end of the chunks
 * of this job that no thread has taken. A thread takes a chunk by a compare-and-swap of this word.
 * Jobs are numbered through all regions; a word with an earlier number means that no chunk of the
 * part is taken yet. Sleeping is a futex on the low half of a word.
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
/* Limit on the chunks of a part: a thread that is late delays the others by one chunk. */
#define CHUNKS 8
#define CHUNK_BITS 4
#define CHUNK_MASK ((1u << CHUNK_BITS) - 1)
/* Nanoseconds of spinning before a thread sleeps. Waking takes about 40 us, and kernels that are
 * too short to share take up to some 100 us between two that are not. */
#define SPIN_NS 200000
/* number of spins in which other threads have to begin their parts after one has finished its
 * part */
#define MOMENT 20
/* spins between two looks at the clock */
#define LOOK 32
/* Bytes of a worker's stack: the bytes that a run needs, and as much again for the application's
 * thread-local variables, which glibc puts there. */
#define LEAST_STACK (2 * (size_t)RT_STACK)

typedef struct Worker {
	Pool *pool;
	pthread_t thread;
	uint64_t seen;  /* the word when the worker was created */
	uint32_t index; /* number of its part, from 1 */
} Worker;

/* The rest of a thread's part: number of the job, first chunk, end, in CHUNK_BITS each. Two cache
 * lines, because processors fetch pairs of them. */
typedef struct PoolPart {
	_Alignas(128) _Atomic uint64_t left;
} PoolPart;

struct Pool {
	_Alignas(128) _Atomic uint64_t word;
	_Alignas(128) _Atomic uint64_t members; /* generation, and workers in the region */
	_Atomic uint32_t caller_sleeps;
	_Alignas(128) _Atomic uint64_t done;     /* chunks that are finished, of all regions */
	_Atomic uint32_t waiters;                /* threads that sleep until a job is done */
	_Alignas(128) _Atomic uint32_t sleepers; /* workers that sleep until a region opens */
	_Atomic uint32_t busy;
	_Atomic int32_t pid; /* -1 while workers are created in a forked child */
	/* the region: its function, and the last job and the chunks done before it */
	PoolThreadFn *fn;
	void *arg;
	uint64_t job_before, done_before;
	uint64_t bytes;
	int32_t max_workers, n_workers;
	bool flush; /* subnormal numbers are zero in its threads */
	Worker *worker;
	PoolPart part[]; /* the caller's, and one for each worker */
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

/* The first iteration of part I of a job. */
static int64_t part_begin(const Job *job, int64_t i)
{
	const int64_t each = job->n / job->parts, rest = job->n % job->parts;

	return each * i + (i < rest ? i : rest);
}

/* Runs iterations BEGIN to END - 1 of a job with the scratch of thread T. */
static void run_range(const Job *job, int64_t begin, int64_t end, int64_t t)
{
	if (begin < end)
		job->fn(job->k, begin, end, job->scratch + job->scratch_bytes * t);
}

void rt_job_cut(Job *job, int32_t threads)
{
	int64_t parts = 1;

	if (threads > 1 && job->n / 2 >= job->grain)
		parts = job->n / job->grain;
	job->parts = parts < threads ? (int32_t)parts : threads;
}

void rt_job_part(const Job *job, int32_t i)
{
	run_range(job, part_begin(job, i), part_begin(job, i + 1), i);
}

/* The number of chunks of part I of a job. Most of them have at least a quarter of the grain. */
static int64_t part_chunks(const Job *job, int64_t i)
{
	const int64_t n = part_begin(job, i + 1) - part_begin(job, i),
		      least = job->grain / 4 + (job->grain % 4 != 0);

	return n / least < 1 ? 1 : n / least < CHUNKS ? n / least : CHUNKS;
}

/* Runs chunk C of part I of a job, as thread T. */
static void run_chunk(const Job *job, int64_t i, int64_t c, int64_t t)
{
	const int64_t first = part_begin(job, i), all = part_begin(job, i + 1) - first,
		      n = part_chunks(job, i);

	/* multiplied in two steps: all * c could overflow */
	run_range(job, first + all / n * c + all % n * c / n,
		  first + all / n * (c + 1) + all % n * (c + 1) / n, t);
}

/* Takes a chunk of PART, which has N of them, of job number JOB: the first or the last one that is
 * left. Returns its number, or -1 if there is none. */
static int64_t take_chunk(PoolPart *part, uint64_t job, int64_t n, bool last)
{
	uint64_t left = atomic_load(&part->left);

	for (;;) {
		const uint64_t of = left >> (2 * CHUNK_BITS);
		uint64_t first = left >> CHUNK_BITS & CHUNK_MASK, end = left & CHUNK_MASK;

		if (of < job) {
			first = 0;
			end = (uint64_t)n;
		}
		if (of > job || first >= end)
			return -1;
		if (atomic_compare_exchange_weak(&part->left, &left,
						 job << (2 * CHUNK_BITS) |
							 (last ? first : first + 1) << CHUNK_BITS |
							 (last ? end - 1 : end)))
			return (int64_t)(last ? end - 1 : first);
	}
}

/* Spin I of a thread is one too many; *FROM is when it began, 0 at first. */
static bool spun_out(uint32_t i, uint64_t *from)
{
	if (i % LOOK)
		return false;
	if (!*from)
		*from = rt_now();
	return rt_now() - *from > SPIN_NS;
}

/* Waits until the word differs from SEEN; returns it. */
static uint64_t next_word(Pool *p, uint64_t seen)
{
	uint64_t w, from = 0;

	for (uint32_t i = 0;; i++) {
		w = atomic_load_explicit(&p->word, memory_order_acquire);
		if (w != seen)
			return w;
		if (spun_out(i, &from))
			break;
		pause_cpu();
	}
	atomic_fetch_add(&p->sleepers, 1);
	while ((w = atomic_load(&p->word)) == seen)
		sleep_on(&p->word, (uint32_t)seen);
	atomic_fetch_sub(&p->sleepers, 1);
	return w;
}

/* Counts N chunks as finished. */
static void add_done(PoolThread *t, uint64_t n)
{
	Pool *p = t->pool;

	if (n && atomic_fetch_add(&p->done, n) + n >= t->done && atomic_load(&p->waiters))
		wake(&p->done);
}

/* T runs all chunks of part I that no thread has taken; its own part from the front. */
static void do_part(PoolThread *t, const Job *job, int64_t i)
{
	const int64_t n = part_chunks(job, i);
	uint64_t ran = 0;

	for (int64_t c; (c = take_chunk(&t->pool->part[i], t->job, n, i != t->index)) >= 0; ran++)
		run_chunk(job, i, c, t->index);
	add_done(t, ran);
}

/* Whether all chunks up to the current job's are done within SPINS spins (0: SPIN_NS). */
static bool done_soon(const PoolThread *t, uint32_t spins)
{
	uint64_t from = 0;

	for (uint32_t i = 0; spins ? i < spins : !spun_out(i, &from); i++) {
		if (atomic_load_explicit(&t->pool->done, memory_order_acquire) >= t->done)
			return true;
		pause_cpu();
	}
	return false;
}

void rt_thread_wait(PoolThread *t)
{
	Pool *p = t->pool;
	uint64_t done;

	if (done_soon(t, 0))
		return;
	atomic_fetch_add(&p->waiters, 1);
	while ((done = atomic_load(&p->done)) < t->done)
		sleep_on(&p->done, (uint32_t)done);
	atomic_fetch_sub(&p->waiters, 1);
}

void rt_thread_run(PoolThread *t, const Job *job)
{
	rt_thread_wait(t);
	t->job++;
	for (int64_t i = 0; i < job->parts; i++)
		t->done += (uint64_t)part_chunks(job, i);
	if (t->index < job->parts)
		do_part(t, job, t->index);
	if (done_soon(t, MOMENT))
		return;
	for (int64_t i = 1; i <= job->parts; i++)
		do_part(t, job, (t->index + i) % job->parts);
}

/* Enters the region of GENERATION; false if it is closed. */
static bool enter(Pool *p, uint64_t generation)
{
	uint64_t m = atomic_load(&p->members);

	do {
		if (m >> ACTIVE_BITS != generation)
			return false;
	} while (!atomic_compare_exchange_weak(&p->members, &m, m + 1));
	return true;
}

static void leave(Pool *p)
{
	if ((atomic_fetch_sub(&p->members, 1) & ACTIVE_MASK) == 1 && atomic_load(&p->caller_sleeps))
		wake(&p->members);
}

static void *worker_main(void *arg)
{
	Worker *me = arg;
	Pool *p = me->pool;
	uint64_t w = me->seen;

	rt_fp_enter(p->flush);
	for (;;) {
		uint32_t active;

		w = next_word(p, w);
		active = (uint32_t)w & ACTIVE_MASK;
		if (active == STOP)
			return NULL;
		if (me->index > active || !enter(p, w >> ACTIVE_BITS))
			continue;
		p->fn(&(PoolThread){p, (int32_t)me->index, p->job_before, p->done_before, NULL},
		      p->arg);
		leave(p);
	}
}

static uint64_t next_generation(Pool *p)
{
	return (atomic_load_explicit(&p->word, memory_order_relaxed) >> ACTIVE_BITS) + 1;
}

/* Publishes the region of GENERATION to ACTIVE workers. */
static void publish(Pool *p, uint64_t generation, uint32_t active)
{
	atomic_store(&p->word, generation << ACTIVE_BITS | active);
	if (atomic_load(&p->sleepers))
		wake(&p->word);
}

static void start_workers(Pool *p)
{
	sigset_t all, old;
	pthread_attr_t attr;
	size_t stack = 0;

	pthread_attr_init(&attr);
	pthread_attr_getstacksize(&attr, &stack);
	if (stack <
	    LEAST_STACK) /* musl's threads have 128 KiB; a limit may make glibc's as small */
		pthread_attr_setstacksize(&attr, LEAST_STACK);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (p->n_workers = 0; p->n_workers < p->max_workers; p->n_workers++) {
		Worker *w = &p->worker[p->n_workers];

		w->pool = p;
		w->index = (uint32_t)p->n_workers + 1;
		w->seen = atomic_load(&p->word);
		if (pthread_create(&w->thread, &attr, worker_main, w))
			break;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
}

Pool *rt_pool_new(const dl_model *m, int32_t threads, bool flush)
{
	const uint64_t parts = sizeof(Pool) + sizeof(PoolPart) * (uint64_t)threads,
		       bytes = parts + sizeof(Worker) * (uint64_t)threads;
	Pool *p = rt_alloc(m, bytes);

	if (!p)
		return NULL;
	memset(p, 0, bytes);
	p->bytes = bytes;
	p->worker = (Worker *)((char *)p + parts);
	p->max_workers = threads - 1;
	p->flush = flush;
	start_workers(p);
	atomic_store(&p->pid, (int32_t)getpid());
	return p;
}

void rt_pool_free(const dl_model *m, Pool *p)
{
	if (!p)
		return;
	if (atomic_load(&p->pid) == (int32_t)getpid()) {
		publish(p, next_generation(p), STOP);
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
	atomic_store(&p->waiters, 0);
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

PoolThread rt_pool_open(Pool *p, int32_t threads, PoolThreadFn *fn, void *arg)
{
	const uint64_t generation = next_generation(p);

	p->fn = fn;
	p->arg = arg;
	for (int32_t i = 0; i <= p->n_workers; i++) {
		const uint64_t job = atomic_load(&p->part[i].left) >> (2 * CHUNK_BITS);

		p->job_before = job > p->job_before ? job : p->job_before;
	}
	p->done_before = atomic_load(&p->done);
	atomic_store(&p->members, generation << ACTIVE_BITS);
	publish(p, generation, (uint32_t)threads - 1);
	return (PoolThread){p, 0, p->job_before, p->done_before, NULL};
}

void rt_pool_close(Pool *p)
{
	uint64_t from = 0, m;

	atomic_fetch_add(&p->members, 1u << ACTIVE_BITS);
	for (uint32_t i = 0; !spun_out(i, &from); i++) {
		if (!(atomic_load_explicit(&p->members, memory_order_acquire) & ACTIVE_MASK))
			return;
		pause_cpu();
	}
	atomic_store(&p->caller_sleeps, 1);
	while ((m = atomic_load(&p->members)) & ACTIVE_MASK)
		sleep_on(&p->members, (uint32_t)m);
	atomic_store(&p->caller_sleeps, 0);
}

static void run_one(PoolThread *t, void *job)
{
	rt_thread_run(t, job);
}

void rt_pool_run(Pool *p, Job *job)
{
	PoolThread me = rt_pool_open(p, job->parts, run_one, job);

	rt_thread_run(&me, job);
	rt_thread_wait(&me);
	rt_pool_close(p);
}
