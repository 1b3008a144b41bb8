/* SPDX-License-Identifier: Apache-2.0 */
/* A context on a GPU: its stream, and memory on both sides, which grows and is kept. */
#include "runtime/cuda.h"

#include <string.h>

int gpu_fail(dl_context *c, int status, const char *what)
{
	Gpu *g = c->model->gpu;
	char text[160];

	return dl_fail(&c->x, gpu_status(g, status), "%s: %s: %s", g->name, what,
		       cuda_error(g->cuda, status, text, sizeof(text)));
}

int gpu_grow(dl_context *c, GpuMem *m, int64_t bytes)
{
	const Cuda *cuda = c->model->gpu->cuda;
	int rc;

	if ((uint64_t)bytes <= m->bytes && m->at)
		return DL_OK;
	/* Work in flight may still use it. */
	rc = m->at ? cuda->cuStreamSynchronize(c->gpu->stream) : 0;
	if (m->at)
		cuda->cuMemFree_v2(m->at);
	*m = (GpuMem){0, 0};
	rc = rc ? rc : cuda->cuMemAlloc_v2(&m->at, (size_t)dl_align(bytes ? bytes : 1));
	if (rc) {
		m->at = 0;
		return gpu_fail(c, rc, "memory");
	}
	m->bytes = (uint64_t)dl_align(bytes ? bytes : 1);
	return DL_OK;
}

int gpu_pin(dl_context *c, Pinned *p, uint64_t bytes)
{
	const Cuda *cuda = c->model->gpu->cuda;
	int rc;

	if (bytes <= p->bytes)
		return DL_OK;
	if (p->at)
		cuda->cuMemFreeHost(p->at);
	*p = (Pinned){NULL, 0};
	rc = cuda->cuMemHostAlloc((void **)&p->at, bytes, 0);
	if (rc) {
		p->at = NULL;
		return gpu_fail(c, rc, "host memory");
	}
	p->bytes = bytes;
	return DL_OK;
}

static uint64_t block_bytes(const dl_program *p)
{
	return sizeof(GpuContext) + sizeof(GpuMem) * (uint64_t)p->n_region +
	       sizeof(GpuIo) * (uint64_t)(p->desc->n_in + p->desc->n_out);
}

int rt_gpu_context(dl_context *c)
{
	const dl_program *p = c->model->prog;
	Gpu *g = c->model->gpu;
	int rc;

	if (atomic_load(&g->lost))
		return dl_fail(&c->x, DL_DEVICE_LOST, "%s failed before", g->name);
	c->gpu = rt_alloc(c->model, block_bytes(p));
	if (!c->gpu)
		return dl_fail(&c->x, DL_NOMEM, "no memory for a context");
	memset(c->gpu, 0, block_bytes(p));
	c->gpu->region = (GpuMem *)(void *)(c->gpu + 1);
	c->gpu->in = (GpuIo *)(void *)(c->gpu->region + p->n_region);
	c->gpu->out = c->gpu->in + p->desc->n_in;
	c->x.weights = (char *)(uintptr_t)g->weights.at;
	rc = g->cuda->cuStreamCreate(&c->gpu->own, 1); /* not waiting for the default stream */
	if (rc) {
		c->gpu->own = NULL;
		return gpu_fail(c, rc, "a stream");
	}
	c->gpu->stream = c->gpu->own;
	if (gpu_grow(c, &c->gpu->status, 16) || gpu_pin(c, &c->gpu->word, 64))
		return c->x.status;
	rc = c->model->profile ? g->cuda->cuEventCreate(&c->gpu->begin, 0) : 0;
	rc = rc || !c->model->profile ? rc : g->cuda->cuEventCreate(&c->gpu->end, 0);
	return rc ? gpu_fail(c, rc, "an event") : DL_OK;
}

void rt_gpu_context_free(dl_context *c)
{
	GpuContext *x = c->gpu;
	const dl_program *p = c->model->prog;
	Gpu *g = c->model->gpu;
	const Cuda *cuda;

	if (!x)
		return;
	cuda = g->cuda;
	if (gpu_push(g)) {
		GpuMem *fixed[] = {&x->status, &x->arena};
		Pinned *pinned[] = {&x->word, &x->in_pinned, &x->out_pinned};

		if (x->own)
			cuda->cuStreamSynchronize(x->own);
		for (int i = 0; i < 2; i++)
			if (fixed[i]->at)
				cuda->cuMemFree_v2(fixed[i]->at);
		for (int i = 0; i < 3; i++)
			if (pinned[i]->at)
				cuda->cuMemFreeHost(pinned[i]->at);
		for (int32_t i = 0; i < p->n_region; i++)
			if (x->region[i].at)
				cuda->cuMemFree_v2(x->region[i].at);
		for (int32_t i = 0; i < p->desc->n_in + p->desc->n_out; i++)
			if (x->in[i].mem.at)
				cuda->cuMemFree_v2(x->in[i].mem.at);
		if (x->begin)
			cuda->cuEventDestroy_v2(x->begin);
		if (x->end)
			cuda->cuEventDestroy_v2(x->end);
		if (x->own)
			cuda->cuStreamDestroy_v2(x->own);
		gpu_pop(g);
	}
	rt_free(c->model, x, block_bytes(p));
	c->gpu = NULL;
}

int rt_gpu_arena(dl_context *c, int64_t bytes)
{
	if (gpu_grow(c, &c->gpu->arena, bytes))
		return c->x.status;
	c->arena = (char *)(uintptr_t)c->gpu->arena.at;
	return DL_OK;
}

void *rt_gpu_region(dl_context *c, int32_t s, int64_t bytes)
{
	return gpu_grow(c, &c->gpu->region[s], bytes) ? NULL
						      : (void *)(uintptr_t)c->gpu->region[s].at;
}
