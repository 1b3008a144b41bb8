/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run on a GPU. What the caller keeps in host memory is copied through pinned memory, in the stream; what the
 * caller has on the GPU is used where it is. An index out of range leaves its site in the status word, which comes
 * back with the outputs.
 */
#include "runtime/cuda.h"

#include <stdio.h>
#include <string.h>

enum { VECTOR = 16 }; /* kernels read so many bytes at once */

/* A kernel runs when the driver likes: what went wrong is known by the time of the last one. */
static int failed_by_now(dl_context *c, int status)
{
	const int32_t k = c->gpu->last;
	char what[128] = "the run";

	if (k >= 0)
		snprintf(what, sizeof(what), "by the time of %s", c->model->prog->kernels[k]);
	return gpu_fail(c, status, what);
}

int rt_gpu_enter(dl_context *c, void *stream)
{
	Gpu *g = c->model->gpu;

	if (atomic_load(&g->lost))
		return dl_fail(&c->x, DL_DEVICE_LOST, "%s failed before", g->name);
	if (!gpu_push(g))
		return dl_fail(&c->x, DL_DEVICE, "%s: its context cannot be used", g->name);
	c->gpu->stream = stream ? stream : c->gpu->own;
	c->gpu->last = -1;
	c->gpu->waits = false;
	return DL_OK;
}

void rt_gpu_leave(dl_context *c)
{
	gpu_pop(c->model->gpu);
}

static bool on_gpu(const dl_context *c, const void *p)
{
	unsigned type = 0;

	return p &&
	       !c->model->gpu->cuda->cuPointerGetAttribute(&type, CUDA_MEMORY_TYPE,
							   (CUdeviceptr)(uintptr_t)p) &&
	       type == CUDA_MEMORY_DEVICE;
}

/* Where the GPU has an input or output whose memory is P. */
static void *settle(dl_context *c, GpuIo *io, void *p, uint64_t bytes)
{
	const bool device = on_gpu(c, p);

	io->bytes = bytes;
	io->host = device ? NULL : p;
	io->device = device && (uintptr_t)p % VECTOR ? p : NULL;
	if (device && !io->device)
		return p;
	return gpu_grow(c, &io->mem, (int64_t)bytes) ? NULL : (void *)(uintptr_t)io->mem.at;
}

int rt_gpu_output(dl_context *c, int32_t o, void *data, int64_t bytes)
{
	c->x.out[o] = settle(c, &c->gpu->out[o], data, (uint64_t)bytes);
	return c->x.status;
}

static uint64_t in_bytes(const dl_context *c, int32_t i)
{
	const dl_io *io = RT_AT(const dl_io, c->model->prog->desc->in, i);
	int64_t n = 1;

	for (int32_t d = 0; d < io->rank; d++)
		n *= c->x.in_shape[i][d];
	return (uint64_t)rt_bytes(io->dtype, n);
}

static int copy_inputs(dl_context *c)
{
	GpuContext *g = c->gpu;
	const Cuda *cuda = c->model->gpu->cuda;
	const int32_t n = c->model->prog->desc->n_in;
	uint64_t total = 0, at = 0;

	for (int32_t i = 0; i < n; i++) {
		c->x.in[i] = settle(c, &g->in[i], c->x.in[i], in_bytes(c, i));
		if (c->x.status)
			return c->x.status;
		total += g->in[i].host ? (uint64_t)dl_align((int64_t)g->in[i].bytes) : 0;
	}
	if (gpu_pin(c, &g->in_pinned, total))
		return c->x.status;
	for (int32_t i = 0; i < n; i++) {
		GpuIo *io = &g->in[i];
		int rc = 0;

		if (io->host && io->bytes) {
			memcpy(g->in_pinned.at + at, io->host, io->bytes);
			rc = cuda->cuMemcpyHtoDAsync_v2(io->mem.at, g->in_pinned.at + at, io->bytes,
							g->stream);
			at += (uint64_t)dl_align((int64_t)io->bytes);
			g->waits = true; /* pinned memory is free again when the run is over */
		} else if (io->device && io->bytes) {
			rc = cuda->cuMemcpyDtoDAsync_v2(io->mem.at,
							(CUdeviceptr)(uintptr_t)io->device,
							io->bytes, g->stream);
		}
		if (rc)
			return gpu_fail(c, rc,
					RT_AT(const dl_io, c->model->prog->desc->in, i)->name);
	}
	return DL_OK;
}

static int begin_copies_out(dl_context *c)
{
	GpuContext *g = c->gpu;
	const Cuda *cuda = c->model->gpu->cuda;
	const int32_t n = c->model->prog->desc->n_out;
	uint64_t total = 0, at = 0;
	int rc = 0;

	for (int32_t o = 0; o < n; o++)
		total += g->out[o].host ? (uint64_t)dl_align((int64_t)g->out[o].bytes) : 0;
	if (gpu_pin(c, &g->out_pinned, total))
		return c->x.status;
	for (int32_t o = 0; o < n && !rc; o++) {
		GpuIo *io = &g->out[o];

		if (!io->bytes)
			continue;
		if (io->host) {
			rc = cuda->cuMemcpyDtoHAsync_v2(g->out_pinned.at + at, io->mem.at,
							io->bytes, g->stream);
			at += (uint64_t)dl_align((int64_t)io->bytes);
			g->waits = true;
		} else if (io->device) {
			rc = cuda->cuMemcpyDtoDAsync_v2((CUdeviceptr)(uintptr_t)io->device,
							io->mem.at, io->bytes, g->stream);
		}
	}
	return rc ? failed_by_now(c, rc) : DL_OK;
}

static void end_copies_out(dl_context *c)
{
	GpuContext *g = c->gpu;
	uint64_t at = 0;

	for (int32_t o = 0; o < c->model->prog->desc->n_out; o++)
		if (g->out[o].host && g->out[o].bytes) {
			memcpy(g->out[o].host, g->out_pinned.at + at, g->out[o].bytes);
			at += (uint64_t)dl_align((int64_t)g->out[o].bytes);
		}
}

/* Waits for all that was begun, and looks at the status word. */
static int finish(dl_context *c)
{
	GpuContext *g = c->gpu;
	const Cuda *cuda = c->model->gpu->cuda;
	const dl_program *p = c->model->prog;
	uint64_t site = 0;
	int rc = 0;

	if (p->n_faults) {
		rc = cuda->cuMemcpyDtoHAsync_v2(g->word.at, g->status.at, 8, g->stream);
		g->waits = true;
	}
	if (!rc && g->waits)
		rc = cuda->cuStreamSynchronize(g->stream);
	if (rc)
		return failed_by_now(c, rc);
	if (p->n_faults)
		memcpy(&site, g->word.at, sizeof(site));
	if (site)
		return dl_fail(&c->x, DL_INDEX, "%s",
			       site <= (uint64_t)p->n_faults ? p->faults[site - 1]
							     : "index out of range");
	return DL_OK;
}

int rt_gpu_execute(dl_context *c)
{
	const Cuda *cuda = c->model->gpu->cuda;
	const dl_program *p = c->model->prog;
	int rc = 0;

	if (p->n_faults)
		rc = cuda->cuMemsetD8Async(c->gpu->status.at, 0, 8, c->gpu->stream);
	if (rc)
		return gpu_fail(c, rc, "the status word");
	if (copy_inputs(c))
		return c->x.status;
	rc = p->exec(&c->x);
	if (!rc)
		rc = begin_copies_out(c);
	if (rc) {
		/* What was begun uses memory of this context. */
		cuda->cuStreamSynchronize(c->gpu->stream);
		return rc;
	}
	rc = finish(c);
	if (!rc)
		end_copies_out(c);
	return rc;
}

/* ---- What generated code calls ---- */

static int launch(dl_exec *x, const dl_gpu_fn *fn, CUfunction f, void **arg, int64_t blocks)
{
	GpuContext *g = x->ctx->gpu;

	return x->ctx->model->gpu->cuda->cuLaunchKernel(f, (unsigned)blocks, 1, 1,
							(unsigned)fn->threads, 1, 1,
							(unsigned)fn->shared, g->stream, arg, NULL);
}

static int profiled(dl_exec *x, int32_t kernel, const dl_gpu_fn *fn, CUfunction f, void **arg,
		    int64_t blocks)
{
	GpuContext *g = x->ctx->gpu;
	const Cuda *cuda = x->ctx->model->gpu->cuda;
	float ms = 0;
	int rc = cuda->cuEventRecord(g->begin, g->stream);
	uint64_t now;

	rc = rc ? rc : launch(x, fn, f, arg, blocks);
	rc = rc ? rc : cuda->cuEventRecord(g->end, g->stream);
	rc = rc ? rc : cuda->cuEventSynchronize(g->end);
	rc = rc ? rc : cuda->cuEventElapsedTime(&ms, g->begin, g->end);
	now = rt_now();
	rt_profile_add(x->ctx->model->profile, kernel, x->ctx->id,
		       now - (uint64_t)((double)ms * 1e6), now);
	return rc;
}

int dl_gpu_launch(dl_exec *x, int32_t kernel, int32_t fn, const uint64_t *arg, int32_t n_args,
		  int64_t blocks, int32_t site)
{
	enum { MOST = 512 };
	const Gpu *gpu = x->ctx->model->gpu;
	const dl_gpu_fn *f = &gpu->image->fn[fn];
	uint64_t status = x->ctx->gpu->status.at, at = (uint64_t)site + 1;
	void *p[MOST + 2];
	int rc;

	if (x->status)
		return x->status;
	if (atomic_load_explicit(&x->ctx->cancel, memory_order_relaxed))
		return dl_fail(x, DL_CANCELLED, "cancelled before %s", x->prog->kernels[kernel]);
	if (blocks <= 0)
		return DL_OK;
	if (blocks > INT32_MAX || n_args > MOST)
		return dl_fail(x, DL_UNSUPPORTED, "%s: too large for a launch",
			       x->prog->kernels[kernel]);
	for (int32_t i = 0; i < n_args; i++)
		p[i] = (void *)(uintptr_t)&arg[i];
	if (f->faults) {
		p[n_args] = &status;
		p[n_args + 1] = &at;
	}
	x->ctx->gpu->last = kernel;
	rc = x->ctx->model->profile ? profiled(x, kernel, f, gpu->fn[fn], p, blocks)
				    : launch(x, f, gpu->fn[fn], p, blocks);
	return rc ? gpu_fail(x->ctx, rc, x->prog->kernels[kernel]) : DL_OK;
}

int dl_gpu_copy(dl_exec *x, void *to, const void *from, int64_t bytes)
{
	const Gpu *gpu = x->ctx->model->gpu;
	int rc;

	if (x->status)
		return x->status;
	rc = gpu->cuda->cuMemcpyDtoDAsync_v2((CUdeviceptr)(uintptr_t)to,
					     (CUdeviceptr)(uintptr_t)from, (size_t)bytes,
					     x->ctx->gpu->stream);
	return rc ? gpu_fail(x->ctx, rc, "a copy") : DL_OK;
}

/* What an input in host memory has needs no copy. */
static const char *in_host_memory(const dl_context *c, uintptr_t at, int64_t bytes)
{
	for (int32_t i = 0; i < c->model->prog->desc->n_in; i++) {
		const GpuIo *io = &c->gpu->in[i];

		if (io->host && at >= io->mem.at && at - io->mem.at + (uint64_t)bytes <= io->bytes)
			return (const char *)io->host + (at - io->mem.at);
	}
	return NULL;
}

const void *dl_gpu_read(dl_exec *x, const void *at, int64_t bytes)
{
	GpuContext *g = x->ctx->gpu;
	const Cuda *cuda = x->ctx->model->gpu->cuda;
	const char *near = in_host_memory(x->ctx, (uintptr_t)at, bytes);
	char *to = g->word.at + 16;
	int rc;

	memset(to, 0, 8);
	if (near)
		memcpy(to, near, (size_t)bytes);
	if (x->status || near)
		return to;
	rc = cuda->cuMemcpyDtoHAsync_v2(to, (CUdeviceptr)(uintptr_t)at, (size_t)bytes, g->stream);
	rc = rc ? rc : cuda->cuStreamSynchronize(g->stream);
	if (rc)
		failed_by_now(x->ctx, rc);
	return to;
}
