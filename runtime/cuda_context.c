/* SPDX-License-Identifier: Apache-2.0 */
/* A context on a GPU: its stream, and its memory on both sides, which grows and is reused. */
#include "runtime/cuda.h"

#include <string.h>

/* The kernels that ran last: of this context, else of another one; null if none is known. */
static const char *suspect(const dl_context *c, char *text, size_t room)
{
	const GpuContext *g = c->gpu;

	if (g && g->busy && g->last >= 0)
		return c->model->prog->kernels[g->last];
	if (g && g->busy && g->flown)
		return gpu_part_text(c, g->flown, text, room);
	return atomic_load(&c->model->gpu->last_kernel);
}

/* Names are cut, so that the driver's message after them fits. */
static int fail(dl_context *c, int status, const char *what, bool by_now)
{
	GpuModel *g = c->model->gpu;
	char text[120], graph[120];
	const char *after = by_now ? suspect(c, graph, sizeof(graph)) : NULL;

	return dl_fail(&c->x, gpu_status(g, status), "%s: %.150s%s%.120s: %s", g->name, what,
		       after ? ", after " : "", after ? after : "",
		       cuda_error(g->cuda, status, text, sizeof(text)));
}

int gpu_fail(dl_context *c, int status, const char *what)
{
	return fail(c, status, what, gpu_is_sticky(status));
}

int gpu_fail_by_now(dl_context *c, int status)
{
	return fail(c, status, "the run", true);
}

int gpu_not_captured(dl_context *c, const char *does)
{
	if (!c->gpu->capturing)
		return DL_OK;
	return dl_fail(&c->x, DL_UNSUPPORTED, "%s: the stream is being captured, and the run %s",
		       c->model->gpu->name, does);
}

void gpu_began(dl_context *c)
{
	c->gpu->busy = c->gpu->busy || !c->gpu->capturing;
}

int gpu_need(dl_context *c, const int32_t *fn, int32_t n)
{
	const GpuModel *g = c->model->gpu;
	char why[GPU_WHY];
	bool all = true;
	int rc;

	for (int32_t i = 0; i < (fn ? n : g->image->n_fn); i++)
		all = all && atomic_load_explicit(&g->fn[fn ? fn[i] : i], memory_order_acquire);
	if (all || gpu_not_captured(
			   c, "needs a kernel that is not loaded yet: prepare its dims before the "
			      "capture"))
		return c->x.status;
	rc = gpu_load(c->model, fn, n, why);
	return rc ? dl_fail(&c->x, rc, "%s", why) : DL_OK;
}

void gpu_launched(dl_context *c, int32_t kernel, const GpuPart *part)
{
	GpuContext *g = c->gpu;
	const char *name = kernel >= 0 ? c->model->prog->kernels[kernel] : NULL;

	for (int32_t i = part ? part->has.n : 0; i-- > 0 && !name;)
		if (part->has.call[i].kind == GPU_KERNEL)
			name = c->model->prog->kernels[part->has.call[i].which];
	if (!g->capturing) {
		g->last = kernel;
		g->flown = part;
	}
	gpu_began(c);
	if (name)
		atomic_store_explicit(&c->model->gpu->last_kernel, name, memory_order_relaxed);
}

int gpu_idle(dl_context *c)
{
	const Cuda *cuda = c->model->gpu->cuda;
	GpuContext *g = c->gpu;
	int rc = 0;

	if (g->busy)
		rc = g->ended ? cuda->cuEventSynchronize(g->order)
			      : cuda->cuStreamSynchronize(g->stream);
	if (rc)
		return rc;
	g->busy = g->ended = false;
	g->last = -1;
	g->flown = NULL;
	return 0;
}

/* Fails if M may not be freed in this run. */
static int may_free(dl_context *c, const GpuMem *m)
{
	if (!m->at)
		return DL_OK;
	if (c->gpu->captured)
		return dl_fail(&c->x, DL_UNSUPPORTED,
			       "%s: a captured graph may use the context's memory, which therefore "
			       "cannot grow; prepare the largest dims before the capture",
			       c->model->gpu->name);
	return gpu_graph_cut(c);
}

/* Frees M, which work in flight may still use: in the order of the stream, or after waiting. */
static int give_back(dl_context *c, GpuMem *m)
{
	const GpuModel *g = c->model->gpu;
	int rc;

	if (!m->at)
		return DL_OK;
	if (g->pools) {
		rc = g->cuda->cuMemFreeAsync(m->at, c->gpu->stream);
		gpu_began(c);
	} else {
		rc = gpu_idle(c);
		rc = rc ? rc : g->cuda->cuMemFree_v2(m->at);
	}
	if (rc)
		return gpu_fail_by_now(c, rc);
	*m = (GpuMem){0, 0};
	return DL_OK;
}

/* Allocates M; returns the driver's status. If memory is short, waits for memory that was freed
 * but is still in use. */
static int take(dl_context *c, GpuMem *m)
{
	const GpuModel *g = c->model->gpu;
	int rc;

	if (!g->pools)
		return g->cuda->cuMemAlloc_v2(&m->at, m->bytes);
	rc = g->cuda->cuMemAllocAsync(&m->at, m->bytes, c->gpu->stream);
	if (rc == CUDA_NO_MEMORY) {
		rc = gpu_idle(c);
		rc = rc ? rc : g->cuda->cuMemAllocAsync(&m->at, m->bytes, c->gpu->stream);
	}
	gpu_began(c);
	return rc;
}

/* Copies the first KEEP bytes of FROM to TO. */
static int move_kept(dl_context *c, const GpuMem *to, const GpuMem *from, int64_t keep)
{
	const int rc = c->model->gpu->cuda->cuMemcpyDtoDAsync_v2(to->at, from->at, (size_t)keep,
								 c->gpu->stream);

	gpu_began(c);
	return rc;
}

int gpu_grow(dl_context *c, GpuMem *m, int64_t bytes, int64_t keep)
{
	const bool kept = keep > 0 && m->at;
	GpuMem old = *m, more = {0, (uint64_t)dl_align(bytes ? bytes : 1)};
	int rc;

	if (more.bytes <= m->bytes && m->at)
		return DL_OK;
	if (gpu_not_captured(c, kept ? "has a value that grows as it runs"
				     : "needs memory that the context does not have yet: prepare "
				       "its dims before the capture") ||
	    may_free(c, m) || (!kept && give_back(c, m)))
		return c->x.status;
	if (kept)
		more.bytes = (uint64_t)dl_align(dl_add(bytes, bytes / 2));
	c->gpu->moves++;
	rc = take(c, &more);
	if (rc)
		return gpu_fail(c, rc, "memory");
	*m = more;
	if (!kept)
		return DL_OK;
	rc = move_kept(c, &more, &old, keep);
	return give_back(c, &old) || !rc ? c->x.status : gpu_fail(c, rc, "memory");
}

int gpu_arrivals(dl_context *c, int64_t n)
{
	GpuContext *g = c->gpu;
	const uint64_t last = g->n_arrivals ? g->arrivals[g->n_arrivals - 1].bytes : 0,
		       bytes = (uint64_t)dl_align(dl_mul(n, sizeof(uint32_t)));
	GpuMem more = {0, bytes < 2 * last ? 2 * last : bytes};
	int rc;

	if (bytes <= last)
		return DL_OK;
	if (gpu_not_captured(c, "needs memory that the context does not have yet: prepare its dims "
				"before the capture"))
		return c->x.status;
	rc = take(c, &more);
	if (rc)
		return gpu_fail(c, rc, "memory");
	rc = c->model->gpu->cuda->cuMemsetD32Async(more.at, 0, more.bytes / sizeof(uint32_t),
						   g->stream);
	gpu_began(c);
	if (rc) {
		gpu_fail(c, rc, "the counters of blocks");
		give_back(c, &more);
		return c->x.status;
	}
	g->arrivals[g->n_arrivals++] = more;
	return DL_OK;
}

int gpu_pin(dl_context *c, Pinned *p, uint64_t bytes)
{
	const Cuda *cuda = c->model->gpu->cuda;
	Pinned more = {NULL, bytes};
	int rc;

	if (bytes <= p->bytes)
		return DL_OK;
	rc = p->at ? cuda->cuMemFreeHost(p->at) : 0;
	if (rc)
		return gpu_fail_by_now(c, rc);
	*p = (Pinned){NULL, 0};
	c->gpu->moves++;
	rc = cuda->cuMemHostAlloc((void **)&more.at, bytes, 0);
	if (rc)
		return gpu_fail(c, rc, "host memory");
	*p = more;
	return DL_OK;
}

static uint64_t block_bytes(const dl_program *p)
{
	return sizeof(GpuContext) + sizeof(GpuMem) * (uint64_t)p->n_region +
	       sizeof(GpuIo) * (uint64_t)(p->desc->n_in + p->desc->n_out);
}

enum {
	ARRIVALS = 1 << 12
}; /* counters that a context has from the start: enough, unless sizes are huge */

int rt_gpu_context(dl_context *c)
{
	const dl_program *p = c->model->prog;
	GpuModel *g = c->model->gpu;
	GpuContext *x;
	int rc;

	rc = gpu_fetch(c->model);
	if (rc)
		return rc;
	x = c->gpu = rt_alloc(c->model, block_bytes(p));
	if (!x)
		return dl_fail(&c->x, DL_NOMEM, "no memory for a context");
	memset(x, 0, block_bytes(p));
	x->region = (GpuMem *)(void *)(x + 1);
	x->last = -1;
	x->in = (GpuIo *)(void *)(x->region + p->n_region);
	x->out = x->in + p->desc->n_in;
	c->x.weights = (char *)(uintptr_t)g->weights.at;
	rc = g->cuda->cuStreamCreate(&x->own, CUDA_NON_BLOCKING);
	x->own = rc ? NULL : x->own;
	x->stream = x->own;
	c->threads = 1; /* computations on the host are small */
	if (rc)
		return gpu_fail(c, rc, "a stream");
	rc = g->cuda->cuEventCreate(&x->order, CUDA_NO_TIMING);
	x->order = rc ? NULL : x->order;
	if (rc)
		return gpu_fail(c, rc, "an event");
	if (gpu_pin(c, &x->word, 64))
		return c->x.status;
	memset(x->word.at, 0, 64);
	for (int32_t i = 0; i < g->image->n_fn; i++)
		if (g->image->fn[i].arrives && gpu_arrivals(c, ARRIVALS))
			return c->x.status;
	return c->model->profile ? gpu_marks_new(c) : DL_OK;
}

void rt_gpu_context_free(dl_context *c)
{
	GpuContext *x = c->gpu;
	const dl_program *p = c->model->prog;
	GpuModel *g = c->model->gpu;
	const Cuda *cuda;

	if (!x)
		return;
	cuda = g->cuda;
	if (gpu_push_to_free(g)) {
		gpu_idle(c);
		gpu_graphs_free(c, true);
		gpu_marks_free(c, true);
		if (x->arena.at)
			cuda->cuMemFree_v2(x->arena.at);
		for (int32_t i = 0; i < x->n_arrivals; i++)
			cuda->cuMemFree_v2(x->arrivals[i].at);
		if (x->word.at)
			cuda->cuMemFreeHost(x->word.at);
		for (int32_t i = 0; i < p->n_region; i++)
			if (x->region[i].at)
				cuda->cuMemFree_v2(x->region[i].at);
		for (int32_t i = 0; i < p->desc->n_in + p->desc->n_out; i++)
			gpu_io_free(cuda, &x->in[i]);
		if (x->order)
			cuda->cuEventDestroy_v2(x->order);
		if (x->own)
			cuda->cuStreamDestroy_v2(x->own);
		gpu_pop(g);
	} else {
		/* The GPU's memory cannot be freed any more, but the host's can. */
		gpu_graphs_free(c, false);
		gpu_marks_free(c, false);
	}
	rt_free(c->model, x, block_bytes(p));
	c->gpu = NULL;
}

int rt_gpu_workspace(dl_context *c, void *p, uint64_t bytes)
{
	int rc;

	if (!p || !bytes)
		return DL_OK;
	rc = rt_gpu_owns(c, p);
	if (rc < 0)
		return c->x.status;
	return rc ? DL_OK
		  : dl_fail(&c->x, DL_INVALID,
			    "%s: a workspace that the caller gives is memory of this GPU",
			    c->model->gpu->name);
}

int rt_gpu_arena(dl_context *c, int64_t bytes)
{
	if (gpu_grow(c, &c->gpu->arena, bytes, 0))
		return c->x.status;
	c->arena = (char *)(uintptr_t)c->gpu->arena.at;
	return DL_OK;
}

void *rt_gpu_region(dl_context *c, int32_t s, int64_t bytes, int64_t keep)
{
	GpuMem *m = &c->gpu->region[s];

	return gpu_grow(c, m, bytes, keep) ? NULL : (void *)(uintptr_t)m->at;
}
