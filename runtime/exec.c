/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that generated code calls during a run: launches, failures, memory of the second
 * region.
 */
#include "runtime/rt.h"
#include "runtime/strtable.h"

int dl_fail(dl_exec *x, int status, const char *fmt, ...)
{
	va_list ap;

	if (x->status)
		return x->status;
	x->status = status;
	va_start(ap, fmt);
	rt_message(x->ctx->head.error, sizeof(x->ctx->head.error), fmt, ap);
	va_end(ap);
	return status;
}

/* A task for the application's executor: one part of the job, in the floating point environment
 * of kernels. */
static void task(void *arg, int32_t i)
{
	const Job *job = arg;
	const uint64_t fp = rt_fp_enter(job->flush);

	rt_job_part(job, i);
	rt_fp_leave(fp);
}

void rt_job_run(dl_context *c, Job *job)
{
	const dl_model *m = c->model;

	rt_job_cut(job, c->threads);
	if (job->parts == 1)
		job->fn(job->k, 0, job->n, job->scratch);
	else if (m->opt.executor)
		m->opt.executor(m->opt.user, job->parts, task, job);
	else
		rt_pool_run(m->pool, job);
}

/* Runs a job for X. If all threads run the launches, each runs its share, and the run's own thread
 * also waits for the others. */
static void run_job(dl_exec *x, Job *job)
{
	PoolThread *t = x->thread;

	if (!t) {
		rt_job_run(x->ctx, job);
		return;
	}
	if (t->scratch) {
		job->scratch = t->scratch;
		rt_job_part(job, 0);
		return;
	}
	rt_job_cut(job, x->ctx->threads);
	rt_thread_run(t, job);
	if (!t->index)
		rt_thread_wait(t);
}

/* The launches of one of several threads, from a dl_exec like X. */
static void launches(PoolThread *t, void *x)
{
	dl_exec own = *(const dl_exec *)x;

	own.thread = t;
	own.prog->exec(&own);
}

int rt_exec_host(dl_exec *x)
{
	dl_context *c = x->ctx;
	dl_exec others = *x;
	PoolThread me;
	int rc;

	/* With a profile this thread begins each launch: others that run ahead while the system has
	 * given its CPU away would leave it launches of no time. */
	if (!x->prog->only_launches || c->threads == 1 || c->model->opt.executor ||
	    c->model->profile)
		return x->prog->exec(x);
	others.counts = 0;
	me = rt_pool_open(c->model->pool, c->threads, launches, &others);
	x->thread = &me;
	rc = x->prog->exec(x);
	x->thread = NULL;
	rt_pool_close(c->model->pool);
	return rc;
}

static int fault(dl_exec *x, int32_t site)
{
	const dl_program *p = x->prog;
	const char *what =
		site >= 0 && site < p->n_faults ? p->faults[site] : "index out of range";
	const int64_t i = x->ctx->bad_index[0], n = x->ctx->bad_index[1];

	if (n < 0)
		return dl_fail(x, DL_INDEX, "%s", what);
	return dl_fail(x, DL_INDEX, "%s: %lld, in a dim of %lld", what, (long long)i, (long long)n);
}

int rt_exec_failed(dl_exec *x, int status)
{
	const int32_t site = x->ctx->fault;

	return site ? fault(x, site - 1) : dl_fail(x, status, "%s", dl_rt_status_text(status));
}

/* Reports a failure of the table of strings in the kernel of these nodes. */
static int strings_fault(dl_exec *x, const char *nodes)
{
	const dl_strings *t = x->ctx->strings;
	const char *what;
	dl_str s;

	if (rt_strings(x->ctx)->status(t) == DL_NOMEM)
		return dl_fail(x, DL_NOMEM, "%.200s: no memory for its strings", nodes);
	s = rt_strings(x->ctx)->refused(t, &what);
	return dl_fail(x, DL_RUNTIME, "%.200s: \"%.*s\" %s", nodes, s.n < 100 ? (int)s.n : 100, s.p,
		       what);
}

/* A launch in a thread other than the run's own, or in one that computes slices by itself: it
 * reports nothing. If all threads run the launches, it stops where the run's own thread stops; the
 * launch before is complete then. */
static int join_launch(dl_exec *x, Job *job)
{
	dl_context *c = x->ctx;
	PoolThread *t = x->thread;

	if (!t->scratch)
		rt_thread_wait(t);
	if (atomic_load_explicit(&c->cancel, memory_order_relaxed))
		x->status = DL_CANCELLED;
	else if (__atomic_load_n(&c->fault, __ATOMIC_RELAXED))
		x->status = DL_INDEX;
	else if (job->n == INT64_MAX)
		x->status = DL_NOMEM;
	else if (job->n > 0)
		run_job(x, job);
	return x->status;
}

int dl_launch(dl_exec *x, int32_t kernel, dl_kernel_fn fn, void *const *buf, const int64_t *dim,
	      int64_t n, int64_t grain)
{
	dl_context *c = x->ctx;
	Profile *profile = c->model->profile;
	const PoolThread *t = x->thread;
	const dl_kctx k = {buf, dim, &c->fault, c->strings, c->bad_index, x->part};
	Job job = {fn,
		   &k,
		   n,
		   grain < 1 ? 1 : grain,
		   1,
		   c->scratch,
		   c->scratch_bytes,
		   c->model->prog->desc->flags & DL_DESC_FLUSH};
	uint64_t begin;

	if (x->status)
		return x->status;
	if (t && (t->index || t->scratch))
		return join_launch(x, &job);
	if (atomic_load_explicit(&c->cancel, memory_order_relaxed))
		return dl_fail(x, DL_CANCELLED, "cancelled before %s", x->prog->kernels[kernel]);
	if (n == INT64_MAX)
		return dl_fail(x, DL_NOMEM, "%s: more points than can be counted",
			       x->prog->kernels[kernel]);
	if (n <= 0)
		return DL_OK;
	begin = profile ? rt_now() : 0;
	run_job(x, &job);
	if (profile)
		rt_profile_add(profile, kernel, c->id, begin, rt_now(), rt_take_work(c));
	if (__atomic_load_n(&c->fault, __ATOMIC_RELAXED))
		return fault(x, c->fault - 1);
	return c->strings && rt_strings(c)->status(c->strings)
		       ? strings_fault(x, x->prog->kernels[kernel])
		       : DL_OK;
}

int dl_iterate(dl_exec *x, const char *loop)
{
	if (!x->status && atomic_load_explicit(&x->ctx->cancel, memory_order_relaxed))
		dl_fail(x, DL_CANCELLED, "cancelled in %s", loop);
	return !x->status;
}

int dl_output(dl_exec *x, int32_t o, const int64_t *shape)
{
	return x->status ? x->status : rt_output(x->ctx, o, shape);
}

void *dl_region_alloc(dl_exec *x, int32_t s, int64_t bytes, int64_t keep)
{
	if (x->status)
		return NULL;
	return x->ctx->gpu ? rt_gpu_region(x->ctx, s, bytes, keep)
			   : dl_host_region_alloc(x, s, bytes, keep);
}

void *dl_host_region_alloc(dl_exec *x, int32_t s, int64_t bytes, int64_t keep)
{
	dl_region *r = &x->ctx->region[s];

	if (x->status)
		return NULL;
	if (rt_region_grow(x->ctx, r, bytes, keep))
		return r->p;
	dl_fail(x, DL_NOMEM, "no memory for a value of %lld bytes", (long long)bytes);
	return NULL;
}

int dl_scratch(dl_exec *x, int64_t bytes)
{
	dl_context *c = x->ctx;
	const int64_t each = bytes < INT64_MAX / 2 ? dl_align(bytes) : bytes;

	if (x->status || each <= c->scratch_bytes)
		return x->status;
	c->planned = false; /* scratch may be in the block that is freed now */
	if (!rt_region_grow(c, &c->more, dl_mul(each, c->model->threads), 0))
		return dl_fail(x, DL_NOMEM, "no memory for %lld bytes of scratch in each thread",
			       (long long)bytes);
	c->scratch = c->more.p;
	c->scratch_bytes = each;
	c->planned = true;
	return DL_OK;
}
