/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place: decides which side of a program for GPUs computes each value. The host launches kernels, so it must know all sizes. A tensor
 * whose values are sizes is computed on the host if it depends on nothing but inputs and constants and all of these are small: by C
 * kernels, in host memory, before the first launch, without any wait. All else is computed on the GPU. Values that both sides read,
 * both compute: a kernel of a few elements costs less than a transfer.
 *
 * That leaves sizes that depend on results of the GPU. A Copy node brings such a tensor to the host, and the run waits for it
 * (-Wfallback). The earliest small value on the way to the size is copied, so that other sizes that follow from it need no other copy.
 */
#include "passes/kernel/kernels.h"
#include "passes/module.h"

typedef struct HostPlacing {
	Module *m;
	Arena *tmp;
	/* By Value.id, of the values that were there before. */
	bool *have;   /* the host can have it */
	bool *copied; /* by a Copy */
	Value **host; /* what the host has for it */
	/* By Node.id, likewise: who runs it. */
	bool *on_host, *on_device;
} HostPlacing;

static bool small(const Value *v)
{
	enum { MOST = 64 };
	int64_t dims[MAX_RANK], n = 1;

	if (v->type->kind != TYPE_TENSOR || !type_static(v->type, dims))
		return false;
	for (int i = 0; i < v->type->rank; i++)
		if (dims[i] > MOST || (n *= dims[i]) > MOST)
			return false;
	return true;
}

/* ---- What the host can have ---- */

/* Whether the host could run N, had it N's operands. */
static bool could_run(const Node *n)
{
	if (!node_kernel(n) && n->op != OP_View)
		return false;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && !small(n->out[i]))
			return false;
	return true;
}

/* How many operands of N the host lacks; the last of them. */
static int lacking(const HostPlacing *p, const Node *n, Value **which)
{
	int count = 0;

	for (int i = 0; i < n->nin; i++) {
		Value *v = node_in(n, i);

		if (v && !p->have[v->id] && (!count || v != *which)) {
			*which = v;
			count++;
		}
	}
	return count;
}

/* The host runs N. */
static void host_has(HostPlacing *p, const Node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i]) {
			p->have[n->out[i]->id] = true;
			p->copied[n->out[i]->id] = false;
		}
}

/* The host must have V. Back along what it could compute of one operand alone, to where it has that or copies it. */
static void obtain(HostPlacing *p, Value *v)
{
	VEC(Node *) way = {0};

	while (v && !p->have[v->id]) {
		Value *from = NULL;
		const bool runs = could_run(v->def);
		const int lacks = runs ? lacking(p, v->def, &from) : 0;

		if (runs && (!lacks || (lacks == 1 && small(from)))) {
			vec_push(p->tmp, &way, v->def);
			v = from;
		} else {
			p->copied[v->id] = p->have[v->id] = true;
		}
	}
	while (way.n)
		host_has(p, way.at[--way.n]);
}

static void find_values(HostPlacing *p)
{
	Graph *g = p->m->graph;
	Value *none;

	for (int i = 0; i < g->inputs.n; i++)
		p->have[g->inputs.at[i]->id] = small(g->inputs.at[i]);
	for (Node *n = g->first; n; n = n->next) {
		if (n->op == OP_Const ? small(n->out[0]) : could_run(n) && !lacking(p, n, &none))
			host_has(p, n);
		for (int i = 0; i < n->nout; i++)
			if (n->out[i] && n->out[i]->syms)
				obtain(p, n->out[i]);
	}
}

/* ---- Who runs what ---- */

static bool used_by(const Value *v, const bool *nodes)
{
	for (const Use *u = v->uses; u; u = u->next)
		if (u->user && nodes[u->user->id])
			return true;
	return false;
}

static bool is_result(const Value *v)
{
	for (const Use *u = v->uses; u; u = u->next)
		if (!u->user)
			return true;
	return false;
}

static bool wanted_on_host(const HostPlacing *p, const Value *v)
{
	return v->syms || used_by(v, p->on_host);
}

static bool wanted_on_device(const HostPlacing *p, const Value *v)
{
	return p->copied[v->id] || is_result(v) || used_by(v, p->on_device);
}

static void find_nodes(HostPlacing *p)
{
	for (Node *n = p->m->graph->last; n; n = n->prev) {
		bool host = false, device = false;

		for (int i = 0; i < n->nout; i++)
			if (n->out[i]) {
				host = host ||
				       (wanted_on_host(p, n->out[i]) && !p->copied[n->out[i]->id]);
				device = device || wanted_on_device(p, n->out[i]);
			}
		p->on_host[n->id] = host;
		p->on_device[n->id] = device || !host;
	}
}

/* Inputs and constants lie where they are read. */
static void place_source(HostPlacing *p, Value *v)
{
	p->host[v->id] = v;
	if (wanted_on_host(p, v))
		v->place = wanted_on_device(p, v) ? ON_BOTH : ON_HOST;
}

/* The host's constants come before all that may read them. */
static void place_sources(HostPlacing *p)
{
	const Graph *g = p->m->graph;
	Node *first = NULL, *next;

	for (int i = 0; i < g->inputs.n; i++)
		place_source(p, g->inputs.at[i]);
	for (Node *n = g->first; n; n = next) {
		next = n->next;
		if (n->op != OP_Const) {
			first = first ? first : n;
			continue;
		}
		place_source(p, n->out[0]);
		if (first && n->out[0]->place != ON_DEVICE)
			node_move(n, first);
	}
}

/* ---- The graph ---- */

/* The host has NOW for WAS; sizes are read from it. */
static void stands_for(HostPlacing *p, Value *was, Value *now)
{
	now->type = was->type;
	now->name = was->name;
	now->place = ON_HOST;
	p->host[was->id] = now;
	while (was != now && was->syms)
		sym_read_from(was->syms, now);
}

static Node *twin(HostPlacing *p, Node *n)
{
	Value *none[MAX_PARAMS] = {NULL};
	Node *t = node_new(n->graph, n->op, none, n->nin, n->nout, n);

	node_locs_from(t, n);
	if (node_kernel(n))
		kernel_node_set(t, kernel_clone(node_kernel(n), p->m->arena));
	return t;
}

/* N, or its twin where the GPU runs it too, goes to the host; before AT, where that is known. */
static void to_host(HostPlacing *p, Node *n, Node *at)
{
	Node *h = p->on_device[n->id] ? twin(p, n) : n;

	for (int i = 0; i < n->nin; i++)
		node_set_input(h, i, node_in(n, i) ? p->host[node_in(n, i)->id] : NULL);
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			stands_for(p, n->out[i], h->out[i]);
		else
			h->out[i] = NULL;
	if (at)
		node_move(h, at);
}

static bool copy(HostPlacing *p, Value *v)
{
	Node *n = node_new(v->def->graph, OP_Copy, &v, 1, 1, v->def->next);

	node_locs_from(n, v->def);
	stands_for(p, v, n->out[0]);
	return diag_warning(
		p->m->ctx->diag, node_diag(v->def), "fallback",
		"the GPU's run waits for a copy of this result, since sizes depend on it");
}

/* What depends on no Copy runs before the GPU's first node. */
static bool rewrite(HostPlacing *p)
{
	Node *at = NULL;
	bool ok = true, copies = false;

	for (Node *n = p->m->graph->first, *next; n; n = next) {
		next = n->next;
		if (n->op == OP_Const)
			continue;
		if (!at && p->on_device[n->id])
			at = n;
		if (p->on_host[n->id])
			to_host(p, n, copies ? NULL : at);
		for (int i = 0; i < n->nout; i++)
			if (n->out[i] && p->copied[n->out[i]->id]) {
				ok = copy(p, n->out[i]) && ok;
				copies = true;
			}
	}
	return ok;
}

bool pass_place(Module *m)
{
	Graph *g = m->graph;
	HostPlacing p = {.m = m};
	bool ok;

	p.tmp = arena_new();
	p.have = NEW_ARRAY(p.tmp, g->nvalues + 1, bool);
	p.copied = NEW_ARRAY(p.tmp, g->nvalues + 1, bool);
	p.host = NEW_ARRAY(p.tmp, g->nvalues + 1, Value *);
	p.on_host = NEW_ARRAY(p.tmp, g->nnodes + 1, bool);
	p.on_device = NEW_ARRAY(p.tmp, g->nnodes + 1, bool);
	find_values(&p);
	find_nodes(&p);
	place_sources(&p);
	ok = rewrite(&p);
	arena_free(p.tmp);
	return ok;
}
