/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs: a run of dims that were prepared is one launch. Generated code itself makes the graph: it runs three times
 * over, to count its calls, to make a node of each, and, when pointers have changed since, to compare each call with
 * its node and tell the driver of the difference. So the calls must be the same for the same dims: code that reads
 * values back is refused, and its kernels are launched one by one.
 *
 * Kernels and copies are a chain, as in a stream. Copies from and to pinned memory stand beside it: a kernel that uses
 * an input comes after its copy, and an output is copied after the last that uses it. They are switched off for what
 * is on the GPU already.
 */
#include "runtime/cuda.h"

#include <stdio.h>
#include <string.h>

typedef struct GpuNode {
	CUgraphNode node; /* null: nothing to do */
	int32_t kernel;   /* -1: a copy; its words are to, from, bytes */
	int32_t first, n; /* of words: what was given last */
	int64_t blocks;
	bool off;
} GpuNode;

typedef enum Step { COUNT, ADD, UPDATE } Step;

struct GpuGraph {
	Step step;
	CUgraph graph;
	CUgraphExec exec;
	GpuNode *node; /* copies in, the chain, copies out */
	uint64_t *word;
	int32_t n_nodes, n_words, n_in, n_out;
	int32_t at, at_word, last; /* of the chain, while generated code runs */
	int32_t *user;  /* by input, then output: the first or last of the chain that uses it; -1 */
	int64_t *sym;   /* the dims */
	void **io;      /* x.in, then x.out, that the nodes have */
	uint64_t moves; /* as in the context, at that time */
	uint64_t used, bytes;
	bool refused;
};

static GpuCopyNode copy_node(int from, uint64_t src, int to, uint64_t dst, uint64_t bytes)
{
	GpuCopyNode n = {.width = bytes, .height = 1, .depth = 1};

	n.from.type = from;
	n.to.type = to;
	if (from == CUDA_MEMORY_HOST)
		n.from.host = (void *)(uintptr_t)src;
	else
		n.from.device = src;
	if (to == CUDA_MEMORY_HOST)
		n.to.host = (void *)(uintptr_t)dst;
	else
		n.to.device = dst;
	return n;
}

/* Whether a node must be told of these words; it has them from now on. */
static bool differs(GpuGraph *g, const GpuNode *n, const uint64_t *word)
{
	return memcmp(g->word + n->first, word, sizeof(*word) * (size_t)n->n) != 0;
}

static void keep(GpuGraph *g, const GpuNode *n, const uint64_t *word)
{
	memcpy(g->word + n->first, word, sizeof(*word) * (size_t)n->n);
}

static GpuNode *add_words(GpuGraph *g, GpuNode *n, int32_t kernel, const uint64_t *word,
			  int32_t count)
{
	n->kernel = kernel;
	n->first = g->at_word;
	n->n = count;
	g->at_word += count;
	keep(g, n, word);
	return n;
}

/* ---- The chain ---- */

/* What a node of the chain at index AT comes after, given addresses that it may use. The number of nodes. */
static size_t after(dl_context *c, GpuGraph *g, const uint64_t *word, int32_t n,
		    CUgraphNode *before)
{
	size_t count = 0;

	if (g->last >= 0)
		before[count++] = g->node[g->last].node;
	for (int32_t i = 0; i < g->n_in + g->n_out; i++) {
		const GpuIo *io = &c->gpu->in[i]; /* outputs stand behind */
		bool uses = false;

		for (int32_t k = 0; k < n && io->bytes; k++)
			uses = uses || word[k] - io->mem.at < io->bytes;
		if (uses && i < g->n_in && g->user[i] < 0 && g->node[i].node)
			before[count++] = g->node[i].node;
		if (uses && (i >= g->n_in || g->user[i] < 0))
			g->user[i] = g->at;
	}
	return count;
}

static void step_on(GpuGraph *g)
{
	g->last = g->at++;
}

int gpu_graph_kernel(dl_exec *x, int32_t kernel, int32_t fn, const uint64_t *arg, int32_t n_args,
		     int64_t blocks, int32_t site)
{
	const Gpu *gpu = x->ctx->model->gpu;
	const dl_gpu_fn *f = &gpu->image->fn[fn];
	GpuGraph *g = x->ctx->gpu->making;
	GpuNode *n = g->node + g->at;
	GpuKernelNode k = {.function = gpu->fn[fn],
			   .grid = {(unsigned)blocks, 1, 1},
			   .block = {(unsigned)f->threads, 1, 1},
			   .shared = (unsigned)f->shared};
	GpuArgs a;
	int rc = 0;

	if (g->step == COUNT) {
		g->n_nodes++;
		g->n_words += n_args;
		return DL_OK;
	}
	k.parameter = a.p;
	gpu_args(x, &a, f, arg, n_args, site);
	if (g->step == ADD) {
		CUgraphNode *before = (CUgraphNode *)(void *)(g->io + g->n_in + g->n_out);
		const size_t count = after(x->ctx, g, arg, n_args, before);

		rc = gpu->cuda->cuGraphAddKernelNode(&n->node, g->graph, before, count, &k);
		add_words(g, n, kernel, arg, n_args);
		n->blocks = blocks;
	} else if (n->blocks != blocks || differs(g, n, arg)) {
		rc = gpu->cuda->cuGraphExecKernelNodeSetParams(g->exec, n->node, &k);
	}
	if (rc)
		return gpu_fail(x->ctx, rc, x->prog->kernels[kernel]);
	keep(g, n, arg);
	step_on(g);
	return DL_OK;
}

int gpu_graph_copy(dl_exec *x, CUdeviceptr to, CUdeviceptr from, uint64_t bytes)
{
	const Gpu *gpu = x->ctx->model->gpu;
	GpuGraph *g = x->ctx->gpu->making;
	GpuNode *n = g->node + g->at;
	const uint64_t word[] = {to, from, bytes};
	const GpuCopyNode k = copy_node(CUDA_MEMORY_DEVICE, from, CUDA_MEMORY_DEVICE, to, bytes);
	int rc = 0;

	if (!bytes)
		return DL_OK;
	if (g->step == COUNT) {
		g->n_nodes++;
		g->n_words += 3;
		return DL_OK;
	}
	if (g->step == ADD) {
		CUgraphNode *before = (CUgraphNode *)(void *)(g->io + g->n_in + g->n_out);
		const size_t count = after(x->ctx, g, word, 2, before);

		rc = gpu->cuda->cuGraphAddMemcpyNode(&n->node, g->graph, before, count, &k,
						     gpu->context);
		add_words(g, n, -1, word, 3);
	} else if (differs(g, n, word)) {
		rc = gpu->cuda->cuGraphExecMemcpyNodeSetParams(g->exec, n->node, &k, gpu->context);
	}
	if (rc)
		return gpu_fail(x->ctx, rc, "a copy");
	keep(g, n, word);
	step_on(g);
	return DL_OK;
}

void gpu_graph_refuse(dl_exec *x)
{
	x->ctx->gpu->making->refused = true;
	x->status = x->status ? x->status : DL_UNSUPPORTED;
}

/* ---- Copies from and to pinned memory ---- */

/* The copy of input or output I, of both, over pinned memory. */
static int io_copy(dl_context *c, GpuGraph *g, int32_t i, GpuNode *n)
{
	const Gpu *gpu = c->model->gpu;
	const GpuIo *io = &c->gpu->in[i];
	const uint64_t pinned = (uint64_t)(uintptr_t)io->pinned.at, word[] = {pinned, io->mem.at};
	const GpuCopyNode k = i < g->n_in ? copy_node(CUDA_MEMORY_HOST, pinned, CUDA_MEMORY_DEVICE,
						      io->mem.at, io->bytes)
					  : copy_node(CUDA_MEMORY_DEVICE, io->mem.at,
						      CUDA_MEMORY_HOST, pinned, io->bytes);
	int rc = 0;

	if (!io->bytes)
		return DL_OK;
	if (g->step == ADD) {
		const int32_t user = i < g->n_in ? -1 : g->user[i];

		rc = gpu->cuda->cuGraphAddMemcpyNode(&n->node, g->graph,
						     user < 0 ? NULL : &g->node[user].node,
						     user >= 0, &k, gpu->context);
		add_words(g, n, -1, word, 2);
	} else if (io->host && differs(g, n, word)) {
		rc = gpu->cuda->cuGraphExecMemcpyNodeSetParams(g->exec, n->node, &k, gpu->context);
		if (!rc)
			keep(g, n, word);
	}
	if (!rc && g->step == UPDATE && n->off != !io->host) {
		rc = gpu->cuda->cuGraphNodeSetEnabled(g->exec, n->node, io->host != NULL);
		n->off = rc ? n->off : !io->host;
	}
	return rc ? gpu_fail(c, rc, "a copy") : DL_OK;
}

/* All nodes in their order, in the step that the graph is in. */
static int walk(dl_context *c, GpuGraph *g)
{
	int rc = DL_OK;

	g->at = g->n_in;
	g->at_word = 0;
	g->last = -1;
	for (int32_t i = 0; i < g->n_in && g->step != COUNT && !rc; i++)
		rc = io_copy(c, g, i, &g->node[i]);
	c->gpu->making = g;
	rc = rc ? rc : c->model->prog->exec(&c->x);
	c->gpu->making = NULL;
	for (int32_t o = 0; o < g->n_out && g->step != COUNT && !rc; o++)
		rc = io_copy(c, g, g->n_in + o, &g->node[g->n_nodes - g->n_out + o]);
	return rc;
}

/* ---- What went wrong ---- */

const char *gpu_graph_text(const dl_context *c, const GpuGraph *g, char *text, size_t room)
{
	enum { DOTS = 6 }; /* "; ..." */
	const char *const *names = c->model->prog->kernels;
	int32_t n = 0, last = -1;
	size_t at;

	for (int32_t i = 0; i < g->n_nodes; i++)
		n += g->node[i].node && g->node[i].kernel >= 0;
	at = (size_t)snprintf(text, room, "a graph of %d kernels:", (int)n);
	for (int32_t i = 0; i < g->n_nodes; i++) {
		const int32_t k = g->node[i].kernel;

		if (!g->node[i].node || k < 0 || k == last)
			continue;
		if (at + strlen(names[k]) + 2 + DOTS > room) {
			snprintf(text + at, room - at, "%s ...", last < 0 ? "" : ";");
			break;
		}
		at += (size_t)snprintf(text + at, room - at, "%s %s", last < 0 ? "" : ";",
				       names[k]);
		last = k;
	}
	return text;
}

static int failed(dl_context *c, const GpuGraph *g, int status)
{
	char text[256];

	return gpu_fail(c, status, gpu_graph_text(c, g, text, sizeof(text)));
}

/* ---- Making one ---- */

static uint64_t n_syms(const dl_context *c)
{
	return (uint64_t)c->model->prog->desc->n_sym;
}

static void free_graph(dl_context *c, GpuGraph *g, bool held)
{
	const Cuda *cuda = c->model->gpu->cuda;

	if (g && held && g->exec)
		cuda->cuGraphExecDestroy(g->exec);
	if (g && held && g->graph)
		cuda->cuGraphDestroy(g->graph);
	if (g)
		rt_free(c->model, g, g->bytes);
}

/* Memory for a graph of as many nodes and words as COUNTED, in one block; null without. */
static GpuGraph *new_graph(dl_context *c, const GpuGraph *counted)
{
	const uint64_t io = (uint64_t)(counted->n_in + counted->n_out);
	const uint64_t nodes = (uint64_t)counted->n_nodes, words = (uint64_t)counted->n_words;
	const uint64_t bytes = sizeof(GpuGraph) + nodes * sizeof(GpuNode) +
			       (words + n_syms(c)) * sizeof(uint64_t) +
			       (2 * io + 1) * sizeof(void *) + io * sizeof(int32_t);
	GpuGraph *g = rt_alloc(c->model, bytes);

	if (!g)
		return NULL;
	memset(g, 0, bytes);
	*g = *counted;
	g->bytes = bytes;
	g->node = (GpuNode *)(void *)(g + 1);
	g->word = (uint64_t *)(void *)(g->node + nodes);
	g->sym = (int64_t *)(void *)(g->word + words);
	g->io = (void **)(void *)(g->sym + n_syms(c));
	/* Behind io: room for what a node comes after. */
	g->user = (int32_t *)(void *)(g->io + 2 * io + 1);
	for (uint64_t i = 0; i < io; i++)
		g->user[i] = -1;
	return g;
}

/* Where a graph may be kept: the place of what was not used for longest. */
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
	memcpy(g->io, c->x.in, sizeof(void *) * (size_t)g->n_in);
	memcpy(g->io + g->n_in, c->x.out, sizeof(void *) * (size_t)g->n_out);
	g->moves = c->gpu->moves;
}

static int fill(dl_context *c, GpuGraph *g)
{
	const Cuda *cuda = c->model->gpu->cuda;
	int rc = cuda->cuGraphCreate(&g->graph, 0);

	if (rc)
		return g->graph = NULL, gpu_fail(c, rc, "a graph");
	g->step = ADD;
	if (walk(c, g))
		return c->x.status;
	rc = cuda->cuGraphInstantiateWithFlags(&g->exec, g->graph, 0);
	if (rc)
		return g->exec = NULL, failed(c, g, rc);
	rc = cuda->cuGraphUpload(g->exec, c->gpu->stream);
	c->gpu->busy = true;
	rc = rc ? rc : gpu_idle(c);
	if (rc)
		return failed(c, g, rc);
	g->step = UPDATE;
	memcpy(g->sym, c->x.sym, sizeof(*g->sym) * n_syms(c));
	has_now(c, g);
	return DL_OK;
}

static int refused(dl_context *c)
{
	c->x.status = DL_OK;
	rt_log(c->model, DL_LOG_INFO,
	       "%s: no graph: sizes depend on values, so kernels are launched one by one",
	       c->model->desc->name);
	return DL_OK;
}

int gpu_graph_make(dl_context *c)
{
	const dl_desc *d = c->model->prog->desc;
	GpuGraph counted = {.n_in = d->n_in, .n_out = d->n_out}, *g, **at;
	int rc;

	if (gpu_graph_find(c))
		return DL_OK;
	rc = walk(c, &counted);
	if (counted.refused)
		return refused(c);
	if (rc)
		return rc;
	counted.n_nodes += d->n_in + d->n_out;
	counted.n_words += 2 * (d->n_in + d->n_out);
	g = new_graph(c, &counted);
	if (!g)
		return dl_fail(&c->x, DL_NOMEM, "no memory for a graph");
	if (fill(c, g)) {
		free_graph(c, g, true);
		return c->x.status;
	}
	at = place(c);
	rc = *at ? gpu_idle(c) : 0;
	if (rc) {
		free_graph(c, g, true);
		return gpu_fail_by_now(c, rc);
	}
	free_graph(c, *at, true);
	*at = g;
	g->used = ++c->gpu->used;
	rt_log(c->model, DL_LOG_INFO, "%s: a graph of %d nodes", c->model->desc->name,
	       (int)g->n_nodes);
	return DL_OK;
}

/* ---- Using it ---- */

GpuGraph *gpu_graph_find(dl_context *c)
{
	for (int i = 0; i < GPU_GRAPHS; i++) {
		GpuGraph *g = c->gpu->graph[i];

		if (g && !memcmp(g->sym, c->x.sym, sizeof(*g->sym) * n_syms(c))) {
			g->used = ++c->gpu->used;
			return g;
		}
	}
	return NULL;
}

static bool is_as_before(const dl_context *c, const GpuGraph *g)
{
	for (int32_t i = 0; i < g->n_in + g->n_out; i++) {
		const GpuNode *n = &g->node[i < g->n_in ? i : g->n_nodes - g->n_out + i - g->n_in];

		if (n->node && n->off != !c->gpu->in[i].host)
			return false;
	}
	return g->moves == c->gpu->moves &&
	       !memcmp(g->io, c->x.in, sizeof(void *) * (size_t)g->n_in) &&
	       !memcmp(g->io + g->n_in, c->x.out, sizeof(void *) * (size_t)g->n_out);
}

int gpu_graph_launch(dl_context *c, GpuGraph *g)
{
	int rc;

	if (!is_as_before(c, g)) {
		if (walk(c, g))
			return c->x.status;
		has_now(c, g);
	}
	c->gpu->flown = g;
	rc = c->model->gpu->cuda->cuGraphLaunch(g->exec, c->gpu->stream);
	return rc ? failed(c, g, rc) : DL_OK;
}

void gpu_graphs_free(dl_context *c, bool held)
{
	for (int i = 0; i < GPU_GRAPHS; i++) {
		free_graph(c, c->gpu->graph[i], held);
		c->gpu->graph[i] = NULL;
	}
}
