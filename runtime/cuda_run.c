/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run on a GPU. Tensors that the caller has in host memory are copied through pinned memory
 * (cuda_stage.c); tensors in the GPU's memory are used where they are. If the dims were prepared,
 * the run is one launch of a graph; otherwise generated code launches one kernel after another.
 *
 * An index out of range sets the status word to its site. The word is in pinned memory, so kernels
 * can write it and no copy is needed. It is checked when the stream is waited for: at the end of a
 * run with tensors on the host, by rt_gpu_wait, and at the beginning of the next run.
 */
#include "runtime/cuda.h"
#include "runtime/vector.h"

#include <string.h>

/* Nothing is in flight: reports the status word and clears it. EARLIER: prefix of the text, for
 * a fault of earlier runs. */
static int look_at_word(dl_context *c, const char *earlier)
{
	const dl_program *p = c->model->prog;
	uint64_t site;

	memcpy(&site, c->gpu->word.at, sizeof(site));
	if (!site)
		return DL_OK;
	memset(c->gpu->word.at, 0, sizeof(site));
	return dl_fail(&c->x, DL_INDEX, "%s%s", earlier,
		       site <= (uint64_t)p->n_faults ? p->faults[site - 1] : "index out of range");
}

static int wait_for_it(dl_context *c, const char *earlier)
{
	const int rc = gpu_idle(c);

	return rc ? gpu_fail_by_now(c, rc) : look_at_word(c, earlier);
}

/* Makes this run's work follow the work of the last run, whose stream may be another one; that
 * stream may even be destroyed, and this one may have the same handle. From now until leave_stream,
 * failures also concern STREAM. */
static int choose_stream(dl_context *c, CUstream stream)
{
	GpuContext *g = c->gpu;
	const Cuda *cuda = c->model->gpu->cuda;
	int rc = 0;

	if (g->capturing) { /* a capture cannot wait for work outside of the caller's graph */
		g->stream = stream;
		return DL_OK;
	}
	if (g->busy && (g->ended || stream != g->stream)) {
		rc = g->ended ? 0 : cuda->cuEventRecord(g->order, g->stream);
		rc = rc ? rc : cuda->cuStreamWaitEvent(stream, g->order, 0);
	}
	if (rc)
		return gpu_fail(c, rc, "the stream");
	g->stream = stream;
	g->ended = false;
	return DL_OK;
}

/* After the run, even if it failed, the caller may do anything with the stream. */
static void leave_stream(dl_context *c)
{
	GpuContext *g = c->gpu;
	int rc = 0;

	if (g->stream == g->own)
		return;
	if (g->busy && !g->ended && !g->capturing) {
		rc = c->model->gpu->cuda->cuEventRecord(g->order, g->stream);
		g->ended = !rc;
	}
	if (rc) {
		gpu_fail(c, rc, "the stream");
		gpu_idle(c);
	}
	g->stream = g->own;
	g->capturing = false;
}

/* Makes the GPU's context current, unless the device is lost. */
static int push(dl_context *c)
{
	GpuModel *g = c->model->gpu;
	const char *lost = gpu_lost(g);
	int rc;

	if (lost)
		return dl_fail(&c->x, DL_DEVICE_LOST, "%s %s", g->name, lost);
	rc = gpu_push(g);
	return rc ? gpu_fail(c, rc, "its context") : DL_OK;
}

/* Finds out whether the caller is capturing STREAM. If so, nothing that a capture forbids is called
 * from now on. */
static int find_capture(dl_context *c, CUstream stream)
{
	int state = CUDA_CAPTURE_NONE, rc;

	rc = c->model->gpu->cuda->cuStreamIsCapturing(stream, &state);
	if (rc == CUDA_CAPTURE_IMPLICIT)
		return dl_fail(&c->x, DL_UNSUPPORTED,
			       "%s: the default stream cannot be used while a stream that waits "
			       "for it is being captured; give run that stream, or one of its own",
			       c->model->gpu->name);
	if (rc)
		return gpu_fail(c, rc, "the stream");
	if (state != CUDA_CAPTURE_NONE && state != CUDA_CAPTURE_ACTIVE)
		return dl_fail(&c->x, DL_UNSUPPORTED, "%s: the capture of the stream has failed",
			       c->model->gpu->name);
	c->gpu->capturing = state == CUDA_CAPTURE_ACTIVE;
	return c->model->profile ? gpu_not_captured(c, "is timed for a profile") : DL_OK;
}

static int enter(dl_context *c, CUstream stream)
{
	uint64_t site;
	int rc = push(c);

	if (rc)
		return rc;
	rc = find_capture(c, stream);
	__atomic_load((const uint64_t *)(const void *)c->gpu->word.at, &site, __ATOMIC_RELAXED);
	if (!rc && site)
		rc = c->gpu->capturing ? look_at_word(c, "an earlier run: ")
				       : wait_for_it(c, "an earlier run: ");
	rc = rc ? rc : choose_stream(c, stream);
	if (rc) {
		c->gpu->capturing = false;
		gpu_pop(c->model->gpu);
	}
	c->gpu->waits = c->model->profile != NULL;
	return rc;
}

int rt_gpu_enter(dl_context *c, void *stream)
{
	if (!stream && c->flags & DL_CONTEXT_OWN_STREAM)
		stream = c->gpu->own;
	return enter(c, stream);
}

int rt_gpu_enter_own(dl_context *c)
{
	return enter(c, c->gpu->own);
}

int rt_gpu_leave(dl_context *c)
{
	leave_stream(c);
	gpu_pop(c->model->gpu);
	return c->x.status;
}

int rt_gpu_wait(dl_context *c)
{
	int rc = push(c);

	if (rc)
		return rc;
	rc = wait_for_it(c, "");
	gpu_pop(c->model->gpu);
	return rc;
}

/* ---- Where inputs and outputs are ---- */

int rt_gpu_owns(dl_context *c, const void *p)
{
	GpuModel *g = c->model->gpu;
	int what[] = {CUDA_MEMORY_TYPE, CUDA_DEVICE_ORDINAL}, type = 0, device = g->device, rc;
	void *value[] = {&type, &device};

	if (!p)
		return 0;
	rc = g->cuda->cuPointerGetAttributes(2, what, value, (CUdeviceptr)(uintptr_t)p);
	if (rc)
		return gpu_fail(c, rc, "a pointer of the caller"), -1;
	if (type != CUDA_MEMORY_DEVICE)
		return 0;
	if (device == g->device)
		return 1;
	dl_fail(&c->x, DL_INVALID, "%s: a tensor is on another GPU, cuda:%d", g->name, device);
	return -1;
}

/* The address in the GPU's memory of the input or output with the caller's data P. Null after a
 * failure, and if there are no elements. */
static void *settle(dl_context *c, GpuIo *io, void *p, uint64_t bytes)
{
	const int device = rt_gpu_owns(c, p);

	if (device < 0)
		return NULL;
	io->bytes = bytes;
	io->staged = false;
	io->host = device ? NULL : p;
	io->device = device && (uintptr_t)p % GPU_VECTOR ? p : NULL;
	if (device && !io->device)
		return p;
	if (!bytes || (!device && gpu_not_captured(c, "has a tensor in host memory")))
		return NULL;
	if (gpu_grow(c, &io->mem, (int64_t)bytes, 0) || (!device && gpu_stage(c, io)))
		return NULL;
	return (void *)(uintptr_t)io->mem.at;
}

int rt_gpu_output(dl_context *c, int32_t o, void *data, int64_t bytes)
{
	c->x.out[o] = settle(c, &c->gpu->out[o], data, (uint64_t)bytes);
	return c->x.status;
}

static uint64_t io_bytes(const dl_io *io, const int64_t *shape)
{
	int64_t n = 1;

	for (int32_t d = 0; d < io->rank; d++)
		n = shape[d] < 0 ? 0 : dl_mul(n, shape[d]);
	return (uint64_t)rt_bytes(io->dtype, n);
}

static const dl_io *in_io(const dl_context *c, int32_t i)
{
	return dl_desc_in(c->model->prog->desc, i);
}

static const dl_io *out_io(const dl_context *c, int32_t o)
{
	return dl_desc_out(c->model->prog->desc, o);
}

/* Sets the inputs that the host reads: the caller's memory, or a copy of the GPU's. */
static int read_inputs(dl_context *c)
{
	const dl_program *p = c->model->prog;
	bool begun = false;
	int rc = 0;

	for (int32_t i = 0; i < p->desc->n_in && !rc; i++) {
		dl_region *r = &c->region[p->n_region + i];
		const uint64_t bytes = io_bytes(in_io(c, i), c->x.in_shape[i]);
		const int device = in_io(c, i)->flags & DL_IO_HOST && bytes
					   ? rt_gpu_owns(c, c->x.in[i])
					   : 0;

		c->x.host_in[i] = c->x.in[i];
		if (device < 0)
			return c->x.status;
		if (!device)
			continue;
		if (gpu_not_captured(c, "reads a tensor of the GPU's on the host"))
			return c->x.status;
		if (!rt_region_grow(c, r, (int64_t)bytes, 0))
			return dl_fail(&c->x, DL_NOMEM, "no memory on the host for the values that the host reads");
		rc = c->model->gpu->cuda->cuMemcpyDtoHAsync_v2(
			r->p, (CUdeviceptr)(uintptr_t)c->x.in[i], bytes, c->gpu->stream);
		c->x.host_in[i] = r->p;
		c->gpu->busy = begun = true;
	}
	rc = rc || !begun ? rc : gpu_idle(c);
	return rc ? gpu_fail_by_now(c, rc) : DL_OK;
}

/* Whether the GPU does not use input I. */
static bool stays_here(const dl_context *c, int32_t i)
{
	return in_io(c, i)->flags & DL_IO_HOST_ONLY;
}

static int settle_inputs(dl_context *c)
{
	for (int32_t i = 0; i < c->model->prog->desc->n_in && !c->x.status; i++)
		if (!stays_here(c, i))
			c->x.in[i] = settle(c, &c->gpu->in[i], c->x.in[i],
					    io_bytes(in_io(c, i), c->x.in_shape[i]));
	return c->x.status;
}

/* ---- A run ---- */

/* Puts the work of the run into the stream. */
static int begin(dl_context *c, GpuGraph *graph)
{
	const dl_desc *d = c->model->prog->desc;
	int rc = DL_OK;

	gpu_began(c); /* also at the end: memory that grows in between waits for begun work */
	for (int32_t i = 0; i < d->n_in && !rc; i++)
		rc = gpu_send(c, &c->gpu->in[i], in_io(c, i)->name, graph != NULL);
	if (!rc)
		rc = graph ? gpu_graph_launch(c, graph) : c->model->prog->exec(&c->x);
	for (int32_t o = 0; o < d->n_out && !rc; o++)
		rc = gpu_bring(c, &c->gpu->out[o], graph != NULL);
	gpu_began(c);
	return rc;
}

/* Whether a tool or the profile observes kernels, which are then launched one by one. */
static bool is_watched(const dl_context *c)
{
	return c->model->profile || c->model->gpu->listened;
}

/* The kernels become nodes of the caller's graph; earlier work of the context is not part of it. */
static int execute_captured(dl_context *c)
{
	c->gpu->captured = true;
	return begin(c, NULL);
}

/* Waits for the run, and copies outputs to the caller's host memory. */
static int end(dl_context *c)
{
	const int32_t n_out = c->model->prog->desc->n_out;
	int rc = DL_OK;

	for (int32_t o = 0; o < n_out && !rc; o++)
		rc = gpu_take_pieces(c, &c->gpu->out[o]);
	rc = rc ? rc : wait_for_it(c, "");
	for (int32_t o = 0; o < n_out && !rc; o++)
		gpu_take(&c->gpu->out[o]);
	return rc;
}

static int execute(dl_context *c)
{
	GpuGraph *graph;
	int rc;

	if (read_inputs(c) || settle_inputs(c))
		return c->x.status;
	if (c->gpu->capturing)
		return execute_captured(c);
	graph = is_watched(c) ? NULL : gpu_graph_find(c);
	if (graph && atomic_load_explicit(&c->cancel, memory_order_relaxed))
		return dl_fail(&c->x, DL_CANCELLED, "cancelled before the run");
	rc = begin(c, graph);
	if (!rc && c->model->profile)
		rc = gpu_marks_flush(c);
	if (rc) {
		/* The work in flight uses memory of this context. */
		gpu_idle(c);
		gpu_marks_drop(c);
		return rc;
	}
	return c->gpu->waits ? end(c) : DL_OK;
}

int rt_gpu_execute(dl_context *c)
{
	int rc;

	if (!c->model->gpu->listened)
		return execute(c);
	rt_nvtx_push(c->model->desc->name);
	rc = execute(c);
	rt_nvtx_pop();
	return rc;
}

/* ---- Before a run ---- */

/* Allocates memory for an input or output of known shape in host memory, unless the caller will
 * have it in the GPU's. */
static int stage(dl_context *c, GpuIo *io, void **data, uint64_t bytes)
{
	io->staged = !(c->flags & DL_CONTEXT_ON_GPU);
	io->bytes = io->staged ? bytes : 0;
	io->host = io->device = *data = NULL;
	if (!io->staged)
		return DL_OK;
	if (gpu_grow(c, &io->mem, (int64_t)bytes, 0) || gpu_stage(c, io))
		return c->x.status;
	*data = (void *)(uintptr_t)io->mem.at;
	return DL_OK;
}

int rt_gpu_prepare(dl_context *c)
{
	const dl_desc *d = c->model->prog->desc;

	for (int32_t i = 0; i < d->n_in; i++)
		if (!stays_here(c, i) &&
		    stage(c, &c->gpu->in[i], &c->x.in[i], io_bytes(in_io(c, i), c->x.in_shape[i])))
			return c->x.status;
	for (int32_t o = 0; o < d->n_out; o++)
		if (stage(c, &c->gpu->out[o], &c->x.out[o],
			  io_bytes(out_io(c, o), c->x.out_shape[o])))
			return c->x.status;
	return is_watched(c) ? gpu_need(c, NULL, 0) : gpu_graph_make(c);
}
