/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points for graphs. A launch puts each node into the queue, after those that it depends
 * on. */
#include "tools/ptxsim/driver.h"

#include <stdlib.h>
#include <string.h>

struct CUgraphNode_st {
	Head head;
	CUgraph graph;
	Work work;
	Seq after; /* indices of nodes */
	int index;
};

struct CUgraph_st {
	Head head;
	CUgraphNode *node;
	int n, cap;
};

typedef struct Step {
	CUgraphNode node; /* as a name only: the graph may be gone */
	Work work;
	Seq after;
	bool off;
} Step;

struct CUgraphExec_st {
	Head head;
	Step *step;
	int n;
	uint64_t last; /* launches follow one another */
};

static Work work_copy(const Work *w)
{
	Work copy = *w;

	if (w->params) {
		size_t n = w->f->f->param_bytes + 16;
		copy.params = malloc(n);
		if (!copy.params)
			abort();
		memcpy(copy.params, w->params, n);
	}
	return copy;
}

/* ---- Graphs ---- */

CUresult graph_new(CUgraph *out)
{
	CUgraph g = new_head(K_GRAPH, sizeof *g);

	if (g)
		*out = g;
	return g ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void graph_free(CUgraph g)
{
	for (int i = 0; i < g->n; i++) {
		work_free(&g->node[i]->work);
		free(g->node[i]->after.at);
		free_head(g->node[i]);
	}
	free(g->node);
	free_head(g);
}

API CUresult cuGraphCreate(CUgraph *out, unsigned flags)
{
	CUresult r = enter("cuGraphCreate", true);

	if (!r && flags)
		r = CUDA_ERROR_INVALID_VALUE;
	return leave(r ? r : graph_new(out));
}

API CUresult cuGraphDestroy(CUgraph g)
{
	CUresult r = enter("cuGraphDestroy", true);

	if (r && r != driver.sticky)
		return leave(r);
	if (!is_head(g, K_GRAPH))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	graph_free(g);
	return leave(r);
}

CUresult graph_add(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n, Work w)
{
	for (size_t i = 0; i < n; i++)
		if (!is_head(after[i], K_NODE) || after[i]->graph != g) {
			work_free(&w);
			return CUDA_ERROR_INVALID_VALUE;
		}
	if (g->n == g->cap) {
		int cap = g->cap ? 2 * g->cap : 16;
		CUgraphNode *grown = realloc(g->node, (size_t)cap * sizeof *grown);
		if (!grown) {
			work_free(&w);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		g->node = grown;
		g->cap = cap;
	}
	CUgraphNode k = new_head(K_NODE, sizeof *k);
	if (!k) {
		work_free(&w);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	k->graph = g;
	k->work = w;
	k->index = g->n;
	for (size_t i = 0; i < n; i++)
		seq_push(&k->after, (uint64_t)after[i]->index);
	g->node[g->n++] = k;
	*out = k;
	return CUDA_SUCCESS;
}

bool graph_precedes(CUgraph g, CUgraphNode node, const Seq *ends)
{
	bool *reached = calloc((size_t)g->n + 1, sizeof *reached), found;

	if (!reached)
		abort();
	for (int i = 0; i < ends->n; i++)
		reached[((CUgraphNode)(uintptr_t)ends->at[i])->index] = true;
	/* A captured node comes after nodes of lower numbers. */
	for (int i = g->n - 1; i >= 0; i--)
		for (int k = 0; reached[i] && k < g->node[i]->after.n; k++)
			reached[g->node[i]->after.at[k]] = true;
	found = reached[node->index];
	free(reached);
	return found;
}

static CUresult kernel_work(Work *w, const CUDA_KERNEL_NODE_PARAMS *p)
{
	unsigned grid[3] = {p->gridDimX, p->gridDimY, p->gridDimZ},
		 block[3] = {p->blockDimX, p->blockDimY, p->blockDimZ};

	return work_kernel(w, p->func, grid, block, p->sharedMemBytes, p->kernelParams, p->extra);
}

static CUresult enter_graph(const char *name, CUgraph g)
{
	CUresult r = enter(name, true);

	return r ? r : is_head(g, K_GRAPH) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

API CUresult cuGraphAddKernelNode_v2(CUgraphNode *out, CUgraph g, const CUgraphNode *after,
				     size_t n, const CUDA_KERNEL_NODE_PARAMS *p)
{
	CUresult r = enter_graph("cuGraphAddKernelNode_v2", g);
	Work w;

	if (!r)
		r = kernel_work(&w, p);
	return leave(r ? r : graph_add(out, g, after, n, w));
}

API CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
				  const CUDA_KERNEL_NODE_PARAMS *p)
{
	return cuGraphAddKernelNode_v2(out, g, after, n, p);
}

API CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
				  const CUDA_MEMCPY3D *p, CUcontext context)
{
	CUresult r = enter_graph("cuGraphAddMemcpyNode", g);
	Work w;

	(void)context;
	if (!r)
		r = work_copy3d(&w, p);
	return leave(r ? r : graph_add(out, g, after, n, w));
}

static CUresult set_work(Work *w, const CUDA_MEMSET_NODE_PARAMS *p)
{
	CUresult r = work_set(w, p->dst, p->value, p->elementSize, p->width);

	if (!r && p->height > 1) {
		w->rows = p->height;
		w->dst_pitch = p->pitch;
		if (!memory_at(p->dst, p->pitch * (p->height - 1) + p->width * p->elementSize))
			r = CUDA_ERROR_INVALID_VALUE;
	}
	return r;
}

API CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n,
				  const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
	CUresult r = enter_graph("cuGraphAddMemsetNode", g);
	Work w;

	(void)context;
	if (!r)
		r = set_work(&w, p);
	return leave(r ? r : graph_add(out, g, after, n, w));
}

API CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *after, size_t n)
{
	CUresult r = enter_graph("cuGraphAddEmptyNode", g);

	return leave(r ? r : graph_add(out, g, after, n, (Work){.type = OP_NOTHING}));
}

API CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
				    size_t n)
{
	CUresult r = enter_graph("cuGraphAddDependencies", g);

	for (size_t i = 0; !r && i < n; i++)
		if (!is_head(from[i], K_NODE) || !is_head(to[i], K_NODE) || from[i]->graph != g ||
		    to[i]->graph != g)
			r = CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; !r && i < n; i++)
		seq_push(&to[i]->after, (uint64_t)from[i]->index);
	return leave(r);
}

API CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *n)
{
	CUresult r = enter_graph("cuGraphGetNodes", g);

	for (size_t i = 0; !r && nodes && i < *n && i < (size_t)g->n; i++)
		nodes[i] = g->node[i];
	if (!r)
		*n = (size_t)g->n;
	return leave(r);
}

/* ---- Graphs that can be launched ---- */

/* Nodes in topological order; false: there is a cycle. */
static bool sort(const struct CUgraph_st *g, int *order)
{
	int n = 0, *place = malloc(((size_t)g->n + 1) * sizeof *place);

	if (!place)
		abort();
	memset(place, -1, ((size_t)g->n + 1) * sizeof *place);
	for (bool more = true; more && n < g->n;) {
		more = false;
		for (int i = 0; i < g->n; i++) {
			bool ready = place[i] < 0;
			for (int k = 0; ready && k < g->node[i]->after.n; k++)
				ready = place[g->node[i]->after.at[k]] >= 0;
			if (ready) {
				place[i] = n;
				order[n++] = i;
				more = true;
			}
		}
	}
	free(place);
	return n == g->n;
}

static CUresult instantiate(CUgraphExec *out, CUgraph g)
{
	int *order = calloc((size_t)g->n + 1, sizeof *order),
	    *place = calloc((size_t)g->n + 1, sizeof *place);
	CUgraphExec e = NULL;
	CUresult r = order && place ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

	if (!r && !sort(g, order))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		e = new_head(K_EXEC, sizeof *e);
		r = e ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!r) {
		e->step = calloc((size_t)g->n + 1, sizeof *e->step);
		if (!e->step)
			abort();
		e->n = g->n;
		for (int i = 0; i < g->n; i++)
			place[order[i]] = i;
		for (int i = 0; i < g->n; i++) {
			CUgraphNode node = g->node[order[i]];
			e->step[i] = (Step){.node = node, .work = work_copy(&node->work)};
			for (int k = 0; k < node->after.n; k++)
				seq_push(&e->step[i].after, (uint64_t)place[node->after.at[k]]);
		}
		*out = e;
	}
	free(order);
	free(place);
	return r;
}

API CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags)
{
	CUresult r = enter_graph("cuGraphInstantiateWithFlags", g);

	(void)flags;
	return leave(r ? r : instantiate(out, g));
}

API CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph g, unsigned long long flags)
{
	return cuGraphInstantiateWithFlags(out, g, flags);
}

static CUresult enter_exec(const char *name, CUgraphExec e)
{
	CUresult r = enter(name, true);

	return r ? r : is_head(e, K_EXEC) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

API CUresult cuGraphExecDestroy(CUgraphExec e)
{
	CUresult r = enter("cuGraphExecDestroy", true);

	if (r && r != driver.sticky)
		return leave(r);
	if (!is_head(e, K_EXEC))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	for (int i = 0; i < e->n; i++) {
		work_free(&e->step[i].work);
		free(e->step[i].after.at);
	}
	free(e->step);
	free_head(e);
	return leave(r);
}

API CUresult cuGraphUpload(CUgraphExec e, CUstream stream)
{
	CUresult r = enter_exec("cuGraphUpload", e);
	CUstream s;

	return leave(r ? r : stream_for(stream, NOT_CAPTURABLE, &s));
}

API CUresult cuGraphLaunch(CUgraphExec e, CUstream stream)
{
	CUresult r = enter_exec("cuGraphLaunch", e);
	CUstream s;
	Seq ids = {0};

	r = r ? r : stream_for(stream, NOT_CAPTURABLE, &s);
	if (r)
		return leave(r);
	uint64_t begin = queue_add(s, (Work){.type = OP_NOTHING}, &e->last, 1);
	for (int i = 0; i < e->n; i++) {
		Seq after = {0};
		seq_push(&after, begin);
		for (int k = 0; k < e->step[i].after.n; k++)
			seq_push(&after, ids.at[e->step[i].after.at[k]]);
		Work w = {.type = OP_NOTHING};
		if (!e->step[i].off)
			w = work_copy(&e->step[i].work);
		seq_push(&ids, queue_add(NULL, w, after.at, after.n));
		free(after.at);
	}
	e->last = queue_add(s, (Work){.type = OP_NOTHING}, ids.at, ids.n);
	free(ids.at);
	return leave(CUDA_SUCCESS);
}

static CUresult change(CUgraphExec e, CUgraphNode node, Work w)
{
	for (int i = 0; i < e->n; i++)
		if (e->step[i].node == node && e->step[i].work.type == w.type) {
			work_free(&e->step[i].work);
			e->step[i].work = w;
			return CUDA_SUCCESS;
		}
	work_free(&w);
	return CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec e, CUgraphNode node,
					       const CUDA_KERNEL_NODE_PARAMS *p)
{
	CUresult r = enter_exec("cuGraphExecKernelNodeSetParams_v2", e);
	Work w;

	if (!r)
		r = kernel_work(&w, p);
	return leave(r ? r : change(e, node, w));
}

API CUresult cuGraphExecKernelNodeSetParams(CUgraphExec e, CUgraphNode node,
					    const CUDA_KERNEL_NODE_PARAMS *p)
{
	return cuGraphExecKernelNodeSetParams_v2(e, node, p);
}

API CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec e, CUgraphNode node, const CUDA_MEMCPY3D *p,
					    CUcontext context)
{
	CUresult r = enter_exec("cuGraphExecMemcpyNodeSetParams", e);
	Work w;

	(void)context;
	if (!r)
		r = work_copy3d(&w, p);
	return leave(r ? r : change(e, node, w));
}

API CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec e, CUgraphNode node,
					    const CUDA_MEMSET_NODE_PARAMS *p, CUcontext context)
{
	CUresult r = enter_exec("cuGraphExecMemsetNodeSetParams", e);
	Work w;

	(void)context;
	if (!r)
		r = set_work(&w, p);
	return leave(r ? r : change(e, node, w));
}

API CUresult cuGraphNodeSetEnabled(CUgraphExec e, CUgraphNode node, unsigned enabled)
{
	CUresult r = enter_exec("cuGraphNodeSetEnabled", e);
	bool found = false;

	for (int i = 0; !r && i < e->n; i++)
		if (e->step[i].node == node) {
			e->step[i].off = !enabled;
			found = e->step[i].work.type == OP_KERNEL ||
				e->step[i].work.type == OP_COPY || e->step[i].work.type == OP_SET;
		}
	return leave(r ? r : found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}
