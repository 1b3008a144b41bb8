/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of graphs. A copy has the ids of the original, and all of its lists in the same order, so
 * that a pass does the same to both.
 */
#include "ir/graph/graph.h"

typedef struct GraphCloner {
	const Graph *from;
	Graph *to;
	Value **value; /* by Value.id */
	Node **node;   /* by Node.id */
} GraphCloner;

/* V, without its uses. DEF: the copy of its node. */
static Value *clone_value(GraphCloner *c, const Value *v, Node *def)
{
	Value *w = arena_copy(c->to->arena, v, sizeof *v);

	w->def = def;
	w->uses = NULL;
	c->value[v->id] = w;
	for (const Sym *s = v->syms; s; s = graph_source(c->from, s).next) {
		c->to->sources->at[s->id] = graph_source(c->from, s);
		c->to->sources->at[s->id].value = w;
	}
	return w;
}

static void clone_body(const Graph *from, Graph *to);

static Node *clone_node(GraphCloner *c, const Node *n)
{
	Arena *a = c->to->arena;
	Node *m = arena_copy(a, n, sizeof *n);

	c->node[n->id] = m;
	m->graph = c->to;
	m->in = NEW_ARRAY(a, n->nin + 1, Use);
	for (int k = 0; k < n->nin; k++) {
		m->in[k].user = m;
		m->in[k].slot = k;
	}
	m->out = NEW_ARRAY(a, n->nout + 1, Value *);
	for (int k = 0; k < n->nout; k++)
		m->out[k] = n->out[k] ? clone_value(c, n->out[k], m) : NULL;
	m->attrs.n = m->attrs.cap = m->regions.n = m->regions.cap = 0;
	VEC_EACH (at, &n->attrs) {
		if (at.kind == ATTR_KERNEL)
			at.kernel = kernel_clone(at.kernel, a);
		vec_push(a, &m->attrs, at);
	}
	for (int i = 0; i < n->regions.n; i++) {
		vec_push(a, &m->regions, graph_new_region(c->to, n->regions.at[i]->name));
		clone_body(n->regions.at[i], m->regions.at[i]);
	}
	m->next = NULL;
	m->prev = c->to->last;
	*(m->prev ? &m->prev->next : &c->to->first) = m;
	return c->to->last = m;
}

static void clone_uses(GraphCloner *c, const Value *v)
{
	Use **at = &c->value[v->id]->uses, *prev = NULL;

	for (const Use *u = v->uses; u; u = u->next) {
		Use *x = u->user ? &c->node[u->user->id]->in[u->slot] : c->to->results.at[u->slot];

		x->value = c->value[v->id];
		x->prev = prev;
		*at = prev = x;
		at = &x->next;
	}
}

static void clone_lists(const GraphCloner *c)
{
	const Graph *g = c->from;
	Graph *to = c->to;

	for (int i = 0; i < g->takes.n; i++)
		vec_push(to->arena, &to->takes, g->takes.at[i]);
	for (int i = 0; i < g->gives.n; i++)
		vec_push(to->arena, &to->gives, g->gives.at[i]);
	for (int i = 0; i < g->facts.n; i++)
		vec_push(to->arena, &to->facts, g->facts.at[i]);
	for (int i = 0; i < g->aliases.n; i++)
		vec_push(to->arena, &to->aliases, g->aliases.at[i]);
	for (int i = 0; i < g->batches.n; i++)
		vec_push(to->arena, &to->batches, g->batches.at[i]);
	/* Accuracy.unordered stays a node of G: only `infer` compares it with others. */
	for (int i = 0; i < g->accuracy.n; i++)
		vec_push(to->arena, &to->accuracy, g->accuracy.at[i]);
}

/* TO, which is empty, becomes a copy of FROM. */
static void clone_body(const Graph *from, Graph *to)
{
	ARENA_LOCAL(tmp);
	GraphCloner c = {.from = from,
			 .to = to,
			 .value = NEW_ARRAY(tmp, from->nvalues + 1, Value *),
			 .node = NEW_ARRAY(tmp, from->nnodes + 1, Node *)};

	to->file = from->file;
	to->metadata = from->metadata;
	to->opset = from->opset;
	to->nvalues = from->nvalues;
	to->nnodes = from->nnodes;
	for (int i = 0; i < from->inputs.n; i++)
		vec_push(to->arena, &to->inputs, clone_value(&c, from->inputs.at[i], NULL));
	for (const Node *n = from->first; n; n = n->next)
		clone_node(&c, n);
	for (int i = 0; i < from->results.n; i++) {
		vec_push(to->arena, &to->results, NEW(to->arena, Use));
		to->results.at[i]->slot = i;
		vec_push(to->arena, &to->result_names, from->result_names.at[i]);
	}
	for (int i = 0; i < from->inputs.n; i++)
		clone_uses(&c, from->inputs.at[i]);
	for (const Node *n = from->first; n; n = n->next)
		for (int k = 0; k < n->nout; k++)
			if (n->out[k])
				clone_uses(&c, n->out[k]);
	clone_lists(&c);
}

Graph *graph_clone(const Graph *g, Arena *a)
{
	Graph *to = graph_new(g->ctx, a, g->name);

	while (to->sources->n < g->sources->n)
		vec_push(a, to->sources, (SymSource){0});
	clone_body(g, to);
	return to;
}
