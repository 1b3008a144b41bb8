/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that generated code calls on a GPU: launches, copies, and values that the host
 * reads. They put work into the stream, or into the graph that is being made. With a profile, an
 * event is recorded before the first kernel and after each kernel. The times are read at the end of
 * a run, or when the events are used up.
 */
#include "runtime/cuda.h"

#include <string.h>

/* ---- Events ---- */

enum { MARKS = 256 };

struct GpuMarks {
	CUevent event[MARKS];
	int32_t kernel[MARKS]; /* the kernel that ends at this event; -1: none */
	LaunchWork work[MARKS];
	int32_t n;
};

int gpu_marks_new(dl_context *c)
{
	const Cuda *cuda = c->model->gpu->cuda;
	GpuMarks *m = rt_alloc(c->model, sizeof(*m));

	if (!m)
		return dl_fail(&c->x, DL_NOMEM, "no memory for the profile");
	memset(m, 0, sizeof(*m));
	c->gpu->marks = m;
	for (int i = 0; i < MARKS; i++) {
		const int rc = cuda->cuEventCreate(&m->event[i], 0);

		if (rc) {
			m->event[i] = NULL;
			return gpu_fail(c, rc, "an event");
		}
	}
	return DL_OK;
}

void gpu_marks_free(dl_context *c, bool held)
{
	GpuMarks *m = c->gpu->marks;

	for (int i = 0; m && held && i < MARKS && m->event[i]; i++)
		c->model->gpu->cuda->cuEventDestroy_v2(m->event[i]);
	rt_free(c->model, m, sizeof(*m));
	c->gpu->marks = NULL;
}

static int mark(dl_context *c, int32_t kernel)
{
	GpuMarks *m = c->gpu->marks;
	int rc;

	if (!m)
		return DL_OK;
	if (m->n == MARKS && gpu_marks_flush(c))
		return c->x.status;
	rc = c->model->gpu->cuda->cuEventRecord(m->event[m->n], c->gpu->stream);
	if (rc)
		return gpu_fail(c, rc, "an event");
	m->work[m->n] = kernel < 0 ? (LaunchWork){0} : rt_take_work(c);
	m->kernel[m->n++] = kernel;
	return DL_OK;
}

int gpu_marks_flush(dl_context *c)
{
	const Cuda *cuda = c->model->gpu->cuda;
	GpuMarks *m = c->gpu->marks;
	const int32_t n = m->n;
	double end = 0;
	float ms = 0;
	int rc = n ? cuda->cuEventSynchronize(m->event[n - 1]) : 0;
	const uint64_t now = rt_now();

	m->n = 0;
	/* From the last to the first, since the host's clock is known for the end. */
	for (int32_t i = n; --i > 0 && !rc; end += (double)ms * 1e6) {
		rc = cuda->cuEventElapsedTime(&ms, m->event[i - 1], m->event[i]);
		if (!rc && m->kernel[i] >= 0)
			rt_profile_add(c->model->profile, m->kernel[i], c->id,
				       now - (uint64_t)(end + (double)ms * 1e6),
				       now - (uint64_t)end, m->work[i]);
	}
	return rc ? gpu_fail_by_now(c, rc) : DL_OK;
}

void gpu_marks_drop(dl_context *c)
{
	if (c->gpu->marks)
		c->gpu->marks->n = 0;
}

/* ---- Launches ---- */

void gpu_args(const dl_exec *x, GpuArgs *a, const dl_gpu_fn *f, const uint64_t *arg, int32_t n,
	      int32_t site)
{
	const GpuContext *gpu = x->ctx->gpu;

	a->status = (uint64_t)(uintptr_t)gpu->word.at;
	a->site = (uint64_t)site + 1;
	for (int32_t i = 0; i < n; i++)
		a->p[i] = (void *)(uintptr_t)&arg[i];
	if (f->faults) {
		a->p[n++] = &a->status;
		a->p[n++] = &a->site;
	}
	if (f->arrives) {
		a->arrivals = gpu->arrivals[gpu->n_arrivals - 1].at;
		a->p[n] = &a->arrivals;
	}
}

static int launch(dl_exec *x, int32_t kernel, int32_t fn, const uint64_t *arg, int32_t n_args,
		  int64_t blocks, int32_t site)
{
	const GpuModel *gpu = x->ctx->model->gpu;
	const dl_gpu_fn *f = &gpu->image->fn[fn];
	GpuMarks *m = x->ctx->gpu->marks;
	GpuArgs a;
	int rc;

	if (gpu_need(x->ctx, &fn, 1))
		return x->status;
	if (m && ((m->n == MARKS && gpu_marks_flush(x->ctx)) || (!m->n && mark(x->ctx, -1))))
		return x->status;
	gpu_args(x, &a, f, arg, n_args, site);
	if (gpu->listened)
		rt_nvtx_push(x->prog->kernels[kernel]);
	rc = gpu->cuda->cuLaunchKernel(atomic_load_explicit(&gpu->fn[fn], memory_order_acquire),
				       (unsigned)blocks, 1, 1, (unsigned)f->threads, 1, 1,
				       (unsigned)f->shared, x->ctx->gpu->stream, a.p, NULL);
	if (gpu->listened)
		rt_nvtx_pop();
	if (rc)
		return gpu_fail(x->ctx, rc, x->prog->kernels[kernel]);
	gpu_launched(x->ctx, kernel, NULL);
	return mark(x->ctx, kernel);
}

int dl_gpu_arrivals(dl_exec *x, int64_t n)
{
	return x->status || n <= 0 ? x->status : gpu_arrivals(x->ctx, n);
}

int32_t dl_gpu_shared(const dl_exec *x)
{
	return x->ctx->model->gpu->block_shared;
}

int dl_gpu_launch(dl_exec *x, int32_t kernel, int32_t fn, const uint64_t *arg, int32_t n_args,
		  int64_t blocks, int32_t site)
{
	const GpuModel *gpu = x->ctx->model->gpu;
	const dl_gpu_fn *f = &gpu->image->fn[fn];
	const int32_t shared = f->shared, added = (f->faults ? 2 : 0) + (f->arrives ? 1 : 0);

	if (x->status)
		return x->status;
	if (shared > gpu->block_shared)
		return dl_fail(x, DL_TARGET,
			       "%s: %s gives a block %d bytes of shared memory, and it needs %d",
			       x->prog->kernels[kernel], gpu->name, gpu->block_shared, (int)shared);
	if (blocks > INT32_MAX || n_args + added > GPU_MOST_ARGS)
		return dl_fail(x, DL_UNSUPPORTED, "%s: too large for a launch",
			       x->prog->kernels[kernel]);
	if (x->ctx->gpu->making)
		return blocks <= 0 ? DL_OK
				   : gpu_graph_kernel(x, kernel, fn, arg, n_args, blocks, site);
	if (atomic_load_explicit(&x->ctx->cancel, memory_order_relaxed))
		return dl_fail(x, DL_CANCELLED, "cancelled before %s", x->prog->kernels[kernel]);
	return blocks <= 0 ? DL_OK : launch(x, kernel, fn, arg, n_args, blocks, site);
}

int dl_gpu_copy(dl_exec *x, void *to, const void *from, int64_t bytes)
{
	const CUdeviceptr dst = (CUdeviceptr)(uintptr_t)to, src = (CUdeviceptr)(uintptr_t)from;
	int rc;

	if (x->status)
		return x->status;
	if (x->ctx->gpu->making)
		return gpu_graph_copy(x, dst, src, (uint64_t)bytes);
	rc = x->ctx->model->gpu->cuda->cuMemcpyDtoDAsync_v2(dst, src, (size_t)bytes,
							    x->ctx->gpu->stream);
	return rc ? gpu_fail(x->ctx, rc, "a copy") : mark(x->ctx, -1);
}

/* ---- Values on the host ---- */

int dl_gpu_reads(dl_exec *x)
{
	return gpu_graph_reads(x);
}

int dl_gpu_to_host(dl_exec *x, void *to, const void *from, int64_t bytes)
{
	const Cuda *cuda = x->ctx->model->gpu->cuda;
	const CUstream stream = x->ctx->gpu->stream;
	int rc;

	if (x->status || bytes <= 0)
		return x->status;
	if (gpu_not_captured(x->ctx, "copies values to the host, which computes with them") ||
	    gpu_graph_reads(x) || gpu_graph_cut(x->ctx))
		return x->status;
	rc = cuda->cuMemcpyDtoHAsync_v2(to, (CUdeviceptr)(uintptr_t)from, (size_t)bytes, stream);
	rc = rc ? rc : cuda->cuStreamSynchronize(stream);
	return rc ? gpu_fail_by_now(x->ctx, rc) : DL_OK;
}

int dl_gpu_from_host(dl_exec *x, void *to, const void *from, int64_t bytes)
{
	const Cuda *cuda = x->ctx->model->gpu->cuda;
	const CUstream stream = x->ctx->gpu->stream;
	int rc;

	if (x->status || bytes <= 0)
		return x->status;
	if (gpu_not_captured(x->ctx, "copies values that the host computes") ||
	    gpu_graph_reads(x) || gpu_graph_cut(x->ctx))
		return x->status;
	rc = cuda->cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)to, from, (size_t)bytes, stream);
	gpu_began(x->ctx);
	rc = rc ? rc : cuda->cuStreamSynchronize(stream);
	return rc ? gpu_fail_by_now(x->ctx, rc) : DL_OK;
}

int dl_gpu_give(dl_exec *x, int32_t o, const void *from, int64_t bytes)
{
	GpuIo *io = &x->ctx->gpu->out[o];

	if (x->status || bytes <= 0)
		return x->status;
	if (!io->host)
		return dl_gpu_from_host(x, x->out[o], from, bytes);
	memcpy(io->host, from, (size_t)bytes);
	io->bytes = 0; /* nothing is copied from the GPU */
	return DL_OK;
}
