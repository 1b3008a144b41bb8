/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs as CUDA graphs. A run with prepared dims is one launch. If sizes depend on values that the
 * host reads during the run, there is one launch for each part between two such reads. Generated
 * code determines the nodes of a graph: it runs, and its calls are collected. A part ends where the
 * host must wait for its work.
 *
 * If nothing is read, prepare makes the graph, and generated code runs again only if pointers have
 * changed. If something is read, or copied from or to addresses that are known only in a run, the
 * first run makes the graph. If something is read, generated code runs each time, and each part is
 * updated where it differs and launched as soon as it is complete.
 */
#include "runtime/cuda.h"

#include <string.h>

struct GpuGraph {
	/* AT: where the part that is being collected is stored; null there: it is a new one */
	GpuPart *part, **at;
	bool launches;     /* parts are launched when they are complete */
	bool by_first_run; /* prepare could not build it, so the first run does */
	bool reads;        /* the host reads values during the run */
	/* its nodes have the pointers in io and on_gpu, and addresses of the context as of
	 * `moves` */
	bool set;
	int64_t *sym;   /* the dims that it is for */
	void **io;      /* x.in, then x.out */
	bool *on_gpu;   /* whether the pointer is to the GPU's memory */
	uint64_t moves; /* GpuContext.moves when it was set */
	uint64_t used, bytes;
};

/* ---- Collecting ---- */

int gpu_graph_kernel(dl_exec *x, int32_t kernel, int32_t fn, const uint64_t *arg, int32_t n_args,
		     int64_t blocks, int32_t site)
{
	const GpuCall call = {.kind = GPU_KERNEL,
			      .which = kernel,
			      .fn = fn,
			      .site = site,
			      .n = n_args,
			      .blocks = blocks};

	return gpu_call(x->ctx, &call, arg);
}

int gpu_graph_copy(dl_exec *x, CUdeviceptr to, CUdeviceptr from, uint64_t bytes)
{
	const GpuCall call = {.kind = GPU_COPY, .n = 3};
	const uint64_t word[] = {to, from, bytes};

	if (!bytes)
		return DL_OK;
	/* The driver rejects copies without addresses. */
	if (!to || !from)
		return gpu_graph_reads(x);
	return gpu_call(x->ctx, &call, word);
}

/* Whether the caller's memory is the GPU's. */
static bool on_gpu(const GpuIo *io)
{
	return !io->host && !io->staged;
}

/* Collects the copy of input or output I (counted together) from or to pinned memory; none if
 * there is no such memory. A tensor that is copied in pieces is copied outside of the graph. */
static int collect_io(dl_context *c, GpuCallKind kind, int32_t i)
{
	const GpuIo *io = &c->gpu->in[i];
	const GpuCall call = {
		.kind = kind, .which = i, .n = 3, .off = on_gpu(io) || gpu_in_pieces(io)};
	const uint64_t pinned = (uint64_t)(uintptr_t)io->pinned.at;
	const uint64_t word[] = {kind == GPU_IN ? io->mem.at : pinned,
				 kind == GPU_IN ? pinned : io->mem.at, io->bytes};

	if (!io->bytes || io->pinned.bytes < io->bytes || io->mem.bytes < io->bytes)
		return DL_OK;
	return gpu_call(c, &call, word);
}

static void begin_part(dl_context *c)
{
	c->gpu->collected.n = c->gpu->collected.n_words = 0;
}

static int end_part(dl_context *c, GpuGraph *g)
{
	int rc;

	if (!c->gpu->collected.n)
		return DL_OK;
	if (g->launches && atomic_load_explicit(&c->cancel, memory_order_relaxed))
		return dl_fail(&c->x, DL_CANCELLED, "cancelled before %s", "a graph of the run");
	if (!*g->at) {
		*g->at = rt_alloc(c->model, sizeof(GpuPart));
		if (!*g->at)
			return dl_fail(&c->x, DL_NOMEM, "no memory for a graph");
		memset(*g->at, 0, sizeof(GpuPart));
	}
	rc = gpu_part_set(c, *g->at);
	if (!rc && g->launches)
		rc = gpu_part_launch(c, *g->at);
	g->at = &(*g->at)->next;
	begin_part(c);
	return rc;
}

int gpu_graph_cut(dl_context *c)
{
	return c->gpu->making ? end_part(c, c->gpu->making) : DL_OK;
}

int gpu_graph_reads(dl_exec *x)
{
	GpuGraph *g = x->ctx->gpu->making;

	if (x->status || !g)
		return x->status;
	g->reads = true;
	if (g->launches)
		return DL_OK;
	g->by_first_run = true;
	return x->status = DL_UNSUPPORTED;
}

static int walk(dl_context *c, GpuGraph *g, bool launches)
{
	const dl_desc *d = c->model->prog->desc;
	int rc = DL_OK;

	g->launches = launches;
	g->at = &g->part;
	g->set = g->reads = false;
	begin_part(c);
	for (int32_t i = 0; i < d->n_in && !rc; i++)
		rc = collect_io(c, GPU_IN, i);
	c->gpu->making = g;
	rc = rc ? rc : c->model->prog->exec(&c->x);
	c->gpu->making = NULL;
	for (int32_t o = 0; o < d->n_out && !rc; o++)
		rc = collect_io(c, GPU_OUT, d->n_in + o);
	rc = rc ? rc : end_part(c, g);
	if (rc)
		return rc;
	/* An earlier run may have had more parts. */
	if (*g->at && (rc = gpu_idle(c)))
		return gpu_fail_by_now(c, rc);
	gpu_parts_free(c, *g->at, true);
	*g->at = NULL;
	return DL_OK;
}

/* ---- Making one ---- */

static int32_t n_io(const dl_context *c)
{
	return c->model->prog->desc->n_in + c->model->prog->desc->n_out;
}

static void free_graph(dl_context *c, GpuGraph *g, bool held)
{
	if (!g)
		return;
	gpu_parts_free(c, g->part, held);
	rt_free(c->model, g, g->bytes);
}

/* A graph without parts for the dims that are bound, in one block; null if there is no memory. */
static GpuGraph *new_graph(dl_context *c)
{
	const uint64_t io = (uint64_t)n_io(c);
	const uint64_t bytes = sizeof(GpuGraph) + rt_n_sym(c->model->prog) * sizeof(int64_t) +
			       io * (sizeof(void *) + 1);
	GpuGraph *g = rt_alloc(c->model, bytes);

	if (!g)
		return NULL;
	memset(g, 0, bytes);
	g->bytes = bytes;
	g->sym = (int64_t *)(void *)(g + 1);
	g->io = (void **)(void *)(g->sym + rt_n_sym(c->model->prog));
	g->on_gpu = (bool *)(void *)(g->io + io);
	memcpy(g->sym, c->x.sym, sizeof(*g->sym) * rt_n_sym(c->model->prog));
	return g;
}

/* The slot for a new graph: a free one, or that of the graph that was unused for longest. */
static GpuGraph **place(dl_context *c)
{
	GpuGraph **best = &c->gpu->graph[0];

	for (int i = 1; i < GPU_GRAPHS && *best; i++)
		if (!c->gpu->graph[i] || c->gpu->graph[i]->used < (*best)->used)
			best = &c->gpu->graph[i];
	return best;
}

static void has_now(dl_context *c, GpuGraph *g)
{
	const dl_desc *d = c->model->prog->desc;

	memcpy(g->io, c->x.in, sizeof(void *) * (size_t)d->n_in);
	memcpy(g->io + d->n_in, c->x.out, sizeof(void *) * (size_t)d->n_out);
	for (int32_t i = 0; i < n_io(c); i++)
		g->on_gpu[i] = on_gpu(&c->gpu->in[i]);
	g->moves = c->gpu->moves;
	g->set = true;
}

static bool is_as_before(const dl_context *c, const GpuGraph *g)
{
	const dl_desc *d = c->model->prog->desc;

	for (int32_t i = 0; i < n_io(c); i++)
		if (g->on_gpu[i] != on_gpu(&c->gpu->in[i]))
			return false;
	return g->set && g->moves == c->gpu->moves &&
	       !memcmp(g->io, c->x.in, sizeof(void *) * (size_t)d->n_in) &&
	       !memcmp(g->io + d->n_in, c->x.out, sizeof(void *) * (size_t)d->n_out);
}

static int fill(dl_context *c, GpuGraph *g)
{
	int rc = walk(c, g, false), nodes = 0;

	if (g->by_first_run) {
		c->x.status = DL_OK;
		rt_log(c->model, DL_LOG_INFO, "%s: its first run makes the graphs",
		       c->model->desc->name);
		return gpu_need(c, NULL, 0);
	}
	if (rc)
		return rc;
	has_now(c, g);
	for (GpuPart *p = g->part; p; p = p->next) {
		rc = c->model->gpu->cuda->cuGraphUpload(p->exec, c->gpu->stream);
		c->gpu->busy = true;
		nodes += p->has.n;
		if (rc)
			return gpu_part_fail(c, p, rc);
	}
	rc = gpu_idle(c);
	if (rc)
		return gpu_fail_by_now(c, rc);
	rt_log(c->model, DL_LOG_INFO, "%s: a graph of %d nodes", c->model->desc->name, nodes);
	return DL_OK;
}

int gpu_graph_make(dl_context *c)
{
	const Cuda *cuda = c->model->gpu->cuda;
	GpuGraph *g, **at;
	int rc;

	if (gpu_graph_find(c))
		return DL_OK;
	if (cuda->no_graphs) {
		rt_log(c->model, DL_LOG_WARNING,
		       "%s: the CUDA driver lacks %s, so kernels are launched one by one, without a graph",
		       c->model->gpu->name, cuda->no_graphs);
		return gpu_need(c, NULL, 0);
	}
	g = new_graph(c);
	if (!g)
		return dl_fail(&c->x, DL_NOMEM, "no memory for a graph");
	rc = fill(c, g);
	at = place(c);
	if (!rc && *at && (rc = gpu_idle(c)))
		rc = gpu_fail_by_now(c, rc);
	if (rc) {
		free_graph(c, g, true);
		return rc;
	}
	free_graph(c, *at, true);
	*at = g;
	g->used = ++c->gpu->used;
	return DL_OK;
}

/* ---- Using it ---- */

GpuGraph *gpu_graph_find(dl_context *c)
{
	for (int i = 0; i < GPU_GRAPHS; i++) {
		GpuGraph *g = c->gpu->graph[i];

		if (g && !memcmp(g->sym, c->x.sym, sizeof(*g->sym) * rt_n_sym(c->model->prog))) {
			g->used = ++c->gpu->used;
			return g;
		}
	}
	return NULL;
}

int gpu_graph_launch(dl_context *c, GpuGraph *g)
{
	int rc = DL_OK;

	if (g->by_first_run) {
		rc = walk(c, g, true);
		g->by_first_run = rc || g->reads;
		if (!g->by_first_run)
			has_now(c, g);
		return rc;
	}
	if (!is_as_before(c, g)) {
		if (walk(c, g, false))
			return c->x.status;
		has_now(c, g);
	}
	for (const GpuPart *p = g->part; p && !rc; p = p->next)
		rc = gpu_part_launch(c, p);
	return rc;
}

void gpu_graphs_free(dl_context *c, bool held)
{
	for (int i = 0; i < GPU_GRAPHS; i++) {
		free_graph(c, c->gpu->graph[i], held);
		c->gpu->graph[i] = NULL;
	}
	gpu_calls_free(c, &c->gpu->collected);
}
