/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a run as a CUDA graph. The calls of generated code are collected in a list. A graph is
 * built from the list, with one node for each call; or an existing graph is updated where the
 * arguments and sizes differ from those of its nodes.
 *
 * Kernels and copies on the GPU form a chain, as in a stream. Copies from and to pinned memory are
 * beside the chain: the copy of an input precedes the first kernel that uses the input, and the
 * copy of an output follows the last one that uses it. They are switched off if the caller's tensor
 * is in the GPU's memory.
 *
 * The order of a graph cannot be updated. If a call uses another input or output than before, such
 * as a copy of the result of an If's branch, the graph is rebuilt.
 */
#include "runtime/cuda.h"

#include <stdio.h>
#include <string.h>

/* ---- Lists of calls ---- */

/* Makes room for MORE items of SIZE after N items; false if there is no memory. */
static bool make_room(const dl_model *m, void **p, int32_t n, int32_t more, int32_t *room,
		      size_t size)
{
	const int32_t want = n + more < 32 ? 32 : 2 * (n + more);
	void *grown;

	if (n + more <= *room)
		return true;
	grown = rt_alloc(m, (uint64_t)want * size);
	if (!grown)
		return false;
	if (n)
		memcpy(grown, *p, (size_t)n * size);
	rt_free(m, *p, (uint64_t)*room * size);
	*p = grown;
	*room = want;
	return true;
}

static bool calls_add(const dl_model *m, GpuCalls *s, const GpuCall *call, const uint64_t *word)
{
	void *calls = s->call, *words = s->word;
	const bool ok = make_room(m, &calls, s->n, 1, &s->room, sizeof(*s->call)) &&
			make_room(m, &words, s->n_words, call->n, &s->room_words, sizeof(*s->word));

	s->call = calls;
	s->word = words;
	if (!ok)
		return false;
	s->call[s->n] = *call;
	s->call[s->n++].first = s->n_words;
	if (call->n)
		memcpy(s->word + s->n_words, word, sizeof(*word) * (size_t)call->n);
	s->n_words += call->n;
	return true;
}

int gpu_call(dl_context *c, const GpuCall *call, const uint64_t *word)
{
	return calls_add(c->model, &c->gpu->collected, call, word)
		       ? DL_OK
		       : dl_fail(&c->x, DL_NOMEM, "no memory for a graph");
}

void gpu_calls_free(dl_context *c, GpuCalls *s)
{
	rt_free(c->model, s->call, sizeof(*s->call) * (uint64_t)s->room);
	rt_free(c->model, s->word, sizeof(*s->word) * (uint64_t)s->room_words);
	*s = (GpuCalls){0};
}

/* Whether both lists have the same calls in the same order, apart from arguments and sizes. */
static bool alike(const GpuCalls *a, const GpuCalls *b)
{
	bool same = a->n == b->n;

	for (int32_t i = 0; i < a->n && same; i++) {
		const GpuCall *x = &a->call[i], *y = &b->call[i];

		same = x->kind == y->kind && x->which == y->which && x->fn == y->fn &&
		       x->site == y->site && x->n == y->n;
	}
	return same;
}

/* ---- Inputs and outputs ---- */

static int32_t n_io(const dl_context *c)
{
	return c->model->prog->desc->n_in + c->model->prog->desc->n_out;
}

static uint64_t io_address(const dl_context *c, int32_t i)
{
	const int32_t n_in = c->model->prog->desc->n_in;

	return (uint64_t)(uintptr_t)(i < n_in ? c->x.in[i] : c->x.out[i - n_in]);
}

static bool is_in(const dl_context *c, uint64_t word, int32_t i)
{
	return word - io_address(c, i) < c->gpu->in[i].bytes;
}

/* Whether CALL is one of the chain. The inputs and outputs that it uses decide which copies come
 * before and after it. */
static bool in_chain(const GpuCall *call)
{
	return call->kind == GPU_KERNEL || call->kind == GPU_COPY;
}

/* The input or output that WORD points to, among those that S copies; -1: none. The copies of
 * inputs are first in S, those of outputs last. */
static int32_t use_of(const dl_context *c, const GpuCalls *s, uint64_t word)
{
	for (int32_t i = 0; i < s->n && s->call[i].kind == GPU_IN; i++)
		if (is_in(c, word, s->call[i].which))
			return s->call[i].which;
	for (int32_t i = s->n; i-- > 0 && s->call[i].kind == GPU_OUT;)
		if (is_in(c, word, s->call[i].which))
			return s->call[i].which;
	return -1;
}

static void set_uses(const dl_context *c, GpuPart *p)
{
	for (int32_t i = 0; i < p->has.n; i++) {
		const GpuCall *call = &p->has.call[i];

		for (int32_t w = call->first; w < call->first + call->n; w++)
			p->uses[w] = in_chain(call) ? use_of(c, &p->has, p->has.word[w]) : -1;
	}
	p->moves = c->gpu->moves;
}

/* Whether the collected calls, which are like those of P, use the same inputs and outputs. A word
 * that did not change points to the same one, as long as no memory has moved. A word may point to
 * several if the caller passes one address twice; then the address is in the GPU's memory, and not
 * copied. */
static bool same_uses(const dl_context *c, const GpuPart *p)
{
	const GpuCalls *s = &c->gpu->collected;
	const bool moved = p->moves != c->gpu->moves;
	bool same = true;

	for (int32_t i = 0; i < s->n; i++) {
		const GpuCall *call = &s->call[i];

		for (int32_t k = 0; k < call->n && in_chain(call) && same; k++) {
			const int32_t w = call->first + k, use = p->uses[w];

			if (moved || s->word[w] != p->has.word[w])
				same = use < 0 ? use_of(c, s, s->word[w]) < 0
					       : is_in(c, s->word[w], use);
		}
	}
	return same;
}

/* ---- Nodes ---- */

static GpuCopyNode copy_node(const GpuCall *call, const uint64_t *word)
{
	GpuCopyNode n = {.width = word[2], .height = 1, .depth = 1};

	n.to.type = call->kind == GPU_OUT ? CUDA_MEMORY_HOST : CUDA_MEMORY_DEVICE;
	n.from.type = call->kind == GPU_IN ? CUDA_MEMORY_HOST : CUDA_MEMORY_DEVICE;
	n.to.host = call->kind == GPU_OUT ? (void *)(uintptr_t)word[0] : NULL;
	n.to.device = call->kind == GPU_OUT ? 0 : word[0];
	n.from.host = call->kind == GPU_IN ? (void *)(uintptr_t)word[1] : NULL;
	n.from.device = call->kind == GPU_IN ? 0 : word[1];
	return n;
}

static GpuKernelNode kernel_node(dl_context *c, const GpuCall *call, const uint64_t *word,
				 GpuArgs *a)
{
	const GpuModel *gpu = c->model->gpu;
	const dl_gpu_fn *f = &gpu->image->fn[call->fn];

	gpu_args(&c->x, a, f, word, call->n, call->site);
	return (GpuKernelNode){
		.function = atomic_load_explicit(&gpu->fn[call->fn], memory_order_acquire),
		.grid = {(unsigned)call->blocks, 1, 1},
		.block = {(unsigned)f->threads, 1, 1},
		.shared = (unsigned)f->shared,
		.parameter = a->p};
}

static int failed_call(dl_context *c, const GpuCall *call, int status)
{
	return gpu_fail(c, status,
			call->kind == GPU_KERNEL ? c->model->prog->kernels[call->which] : "a copy");
}

/* The order of nodes while a graph is built; arrays by input, then output. */
typedef struct Order {
	CUgraphNode *before;
	/* the call that copies this input to the GPU; -1: none, or a later call has used it */
	int32_t *copy;
	int32_t *user; /* the last call of the chain that uses this output; -1: none */
	int32_t last;  /* the last call of the chain */
} Order;

/* Sets O->before to the nodes that must precede call I of P; returns their number. */
static size_t after(const dl_context *c, const GpuPart *p, int32_t i, Order *o)
{
	const GpuCall *call = &p->has.call[i];
	const uint64_t *word = p->has.word + call->first;
	size_t count = 0;

	if (call->kind == GPU_IN) {
		o->copy[call->which] = i;
		return 0;
	}
	if (call->kind == GPU_OUT) {
		if (o->user[call->which] >= 0)
			o->before[count++] = p->node[o->user[call->which]];
		return count;
	}
	if (o->last >= 0)
		o->before[count++] = p->node[o->last];
	for (int32_t k = 0; k < n_io(c); k++) {
		bool uses = false;

		for (int32_t w = 0; w < call->n; w++)
			uses = uses || is_in(c, word[w], k);
		if (uses && o->copy[k] >= 0)
			o->before[count++] = p->node[o->copy[k]];
		o->copy[k] = uses ? -1 : o->copy[k];
		o->user[k] = uses ? i : o->user[k];
	}
	o->last = i;
	return count;
}

static int add_node(dl_context *c, GpuPart *p, int32_t i, Order *o)
{
	const GpuModel *gpu = c->model->gpu;
	const GpuCall *call = &p->has.call[i];
	const uint64_t *word = p->has.word + call->first;
	const size_t n = after(c, p, i, o);
	GpuArgs a;
	int rc;

	if (call->kind == GPU_KERNEL) {
		const GpuKernelNode k = kernel_node(c, call, word, &a);

		rc = gpu->cuda->cuGraphAddKernelNode(&p->node[i], p->graph, o->before, n, &k);
	} else {
		const GpuCopyNode k = copy_node(call, word);

		rc = gpu->cuda->cuGraphAddMemcpyNode(&p->node[i], p->graph, o->before, n, &k,
						     gpu->context);
	}
	return rc ? failed_call(c, call, rc) : DL_OK;
}

static int change_node(dl_context *c, GpuPart *p, int32_t i, const GpuCall *call,
		       const uint64_t *word)
{
	const GpuModel *gpu = c->model->gpu;
	GpuArgs a;

	if (call->kind == GPU_KERNEL) {
		const GpuKernelNode k = kernel_node(c, call, word, &a);

		return gpu->cuda->cuGraphExecKernelNodeSetParams(p->exec, p->node[i], &k);
	}
	const GpuCopyNode k = copy_node(call, word);

	return gpu->cuda->cuGraphExecMemcpyNodeSetParams(p->exec, p->node[i], &k, gpu->context);
}

/* ---- A graph ---- */

/* Frees everything of P except its struct. */
static void clear(dl_context *c, GpuPart *p, bool held)
{
	const Cuda *cuda = c->model->gpu->cuda;

	if (c->gpu->flown == p)
		c->gpu->flown = NULL;
	if (held && p->exec)
		cuda->cuGraphExecDestroy(p->exec);
	if (held && p->graph)
		cuda->cuGraphDestroy(p->graph);
	rt_free(c->model, p->node, p->node_bytes);
	gpu_calls_free(c, &p->has);
	*p = (GpuPart){.next = p->next};
}

static int add_nodes(dl_context *c, GpuPart *p)
{
	const uint64_t io = (uint64_t)n_io(c);
	const uint64_t bytes = (io + 1) * sizeof(CUgraphNode) + 2 * io * sizeof(int32_t);
	Order o = {.before = rt_alloc(c->model, bytes), .last = -1};
	int rc = DL_OK;

	if (!o.before)
		return dl_fail(&c->x, DL_NOMEM, "no memory for a graph");
	o.copy = (int32_t *)(void *)(o.before + io + 1);
	o.user = o.copy + io;
	memset(o.copy, -1, 2 * io * sizeof(int32_t));
	for (int32_t i = 0; i < p->has.n && !rc; i++)
		rc = add_node(c, p, i, &o);
	rt_free(c->model, o.before, bytes);
	return rc;
}

static int build(dl_context *c, GpuPart *p)
{
	const Cuda *cuda = c->model->gpu->cuda;
	const GpuCalls *s = &c->gpu->collected;
	bool ok = true;
	int rc;

	for (int32_t i = 0; i < s->n && ok; i++)
		ok = calls_add(c->model, &p->has, &s->call[i], s->word + s->call[i].first);
	p->node_bytes = sizeof(*p->node) * (uint64_t)s->n + sizeof(*p->uses) * (uint64_t)s->n_words;
	p->node = ok ? rt_alloc(c->model, p->node_bytes) : NULL;
	if (!p->node)
		return dl_fail(&c->x, DL_NOMEM, "no memory for a graph");
	p->uses = (int32_t *)(void *)(p->node + s->n);
	set_uses(c, p);
	rc = cuda->cuGraphCreate(&p->graph, 0);
	if (rc)
		return p->graph = NULL, gpu_fail(c, rc, "a graph");
	if (add_nodes(c, p))
		return c->x.status;
	rc = cuda->cuGraphInstantiateWithFlags(&p->exec, p->graph, 0);
	if (rc)
		return p->exec = NULL, gpu_part_fail(c, p, rc);
	for (int32_t i = 0; i < s->n && !rc; i++)
		if (s->call[i].off)
			rc = cuda->cuGraphNodeSetEnabled(p->exec, p->node[i], 0);
	return rc ? gpu_part_fail(c, p, rc) : DL_OK;
}

static int update(dl_context *c, GpuPart *p)
{
	const GpuCalls *s = &c->gpu->collected;
	int rc = 0;

	for (int32_t i = 0; i < s->n && !rc; i++) {
		const GpuCall *now = &s->call[i];
		const uint64_t *word = s->word + now->first;
		const size_t bytes = sizeof(*word) * (size_t)now->n;
		GpuCall *was = &p->has.call[i];
		uint64_t *old_word = p->has.word + was->first;

		if (!now->off &&
		    (now->blocks != was->blocks || memcmp(old_word, word, bytes) != 0)) {
			rc = change_node(c, p, i, now, word);
			if (rc)
				return failed_call(c, now, rc);
			memcpy(old_word, word, bytes);
			was->blocks = now->blocks;
		}
		if (now->off != was->off)
			rc = c->model->gpu->cuda->cuGraphNodeSetEnabled(p->exec, p->node[i],
									!now->off);
		was->off = rc ? was->off : now->off;
	}
	if (rc)
		return gpu_part_fail(c, p, rc);
	p->moves = c->gpu->moves; /* all words are now those that same_uses has compared */
	return DL_OK;
}

static bool is_among(const int32_t *fn, int32_t n, int32_t x)
{
	for (int32_t i = 0; i < n; i++)
		if (fn[i] == x)
			return true;
	return false;
}

/* Loads the kernels of the collected calls. */
static int load_kernels(dl_context *c)
{
	const GpuCalls *s = &c->gpu->collected;
	const uint64_t bytes = sizeof(int32_t) * (uint64_t)c->model->gpu->image->n_fn;
	int32_t *fn = NULL, n = 0;
	int rc;

	for (int32_t i = 0; i < s->n; i++) {
		const int32_t x = s->call[i].fn;

		if (s->call[i].kind != GPU_KERNEL || is_among(fn, n, x) ||
		    atomic_load_explicit(&c->model->gpu->fn[x], memory_order_acquire))
			continue;
		if (!fn && !(fn = rt_alloc(c->model, bytes)))
			return dl_fail(&c->x, DL_NOMEM, "no memory for a graph");
		fn[n++] = x;
	}
	if (!fn)
		return DL_OK;
	rc = gpu_need(c, fn, n);
	rt_free(c->model, fn, bytes);
	return rc;
}

int gpu_part_set(dl_context *c, GpuPart *p)
{
	int rc = load_kernels(c);

	if (rc)
		return rc;
	if (p->exec && alike(&p->has, &c->gpu->collected) && same_uses(c, p))
		return update(c, p);
	rc = p->exec ? gpu_idle(c) : 0; /* the graph may be in flight */
	if (rc)
		return gpu_fail_by_now(c, rc);
	clear(c, p, true);
	if (build(c, p))
		clear(c, p, true);
	return c->x.status;
}

int gpu_part_launch(dl_context *c, const GpuPart *p)
{
	int rc;

	rc = c->model->gpu->cuda->cuGraphLaunch(p->exec, c->gpu->stream);
	if (rc)
		return gpu_part_fail(c, p, rc);
	gpu_launched(c, -1, p);
	return DL_OK;
}

void gpu_parts_free(dl_context *c, GpuPart *p, bool held)
{
	while (p) {
		GpuPart *next = p->next;

		clear(c, p, held);
		rt_free(c->model, p, sizeof(*p));
		p = next;
	}
}

/* ---- What went wrong ---- */

const char *gpu_part_text(const dl_context *c, const GpuPart *p, char *text, size_t room)
{
	enum { DOTS = 6 }; /* for "; ..." */
	const char *const *names = c->model->prog->kernels;
	int32_t n = 0, last = -1;
	size_t at;

	for (int32_t i = 0; i < p->has.n; i++)
		n += p->has.call[i].kind == GPU_KERNEL;
	at = (size_t)snprintf(text, room, "a graph of %d kernels:", (int)n);
	for (int32_t i = 0; i < p->has.n; i++) {
		const int32_t k = p->has.call[i].which;

		if (p->has.call[i].kind != GPU_KERNEL || k == last)
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

int gpu_part_fail(dl_context *c, const GpuPart *p, int status)
{
	char text[150];

	return gpu_fail(c, status, gpu_part_text(c, p, text, sizeof(text)));
}
