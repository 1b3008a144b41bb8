/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/order.h"

typedef struct NodeOrder {
	Ctx *ctx;
	Arena *arena;
	const Scope *scope;
	VEC(int) deps; /* of node i: deps[first[i]] to deps[first[i + 1]] */
	int *first;
	bool forward; /* some node comes before one that it depends on */
} NodeOrder;

/* LOCAL: the names that enclosing subgraphs define; null in the body itself. */
static void need(NodeOrder *o, int node, const Scope *local, const char *text)
{
	const Binding *b;
	const char *name;

	if (!text || !*text)
		return;
	name = ctx_name(o->ctx, text);
	for (; local; local = local->parent)
		if (scope_find(local, name))
			return;
	b = scope_find(o->scope, name);
	if (!b || b->kind != BIND_NODE)
		return;
	vec_push(o->arena, &o->deps, b->node);
	o->forward |= b->node >= node;
}

static void need_graph(NodeOrder *o, int node, Scope *local, const Onnx__GraphProto *g);

static void need_attrs(NodeOrder *o, int node, Scope *local, const Onnx__NodeProto *p)
{
	for (size_t i = 0; i < p->n_attribute; i++)
		if (p->attribute[i]->g)
			need_graph(o, node, local, p->attribute[i]->g);
}

static void define(NodeOrder *o, Scope *local, const char *name)
{
	scope_add(local, ctx_name(o->ctx, name ? name : ""), BIND_VALUE);
}

/* Depth is bounded by frontend/wire.c. */
static void need_graph(NodeOrder *o, int node, Scope *around, const Onnx__GraphProto *g)
{
	Scope *local = scope_new(o->arena, NULL, around);

	for (size_t i = 0; i < g->n_input; i++)
		define(o, local, g->input[i]->name);
	for (size_t i = 0; i < g->n_initializer; i++)
		define(o, local, g->initializer[i]->name);
	for (size_t i = 0; i < g->n_node; i++)
		for (size_t k = 0; k < g->node[i]->n_output; k++)
			define(o, local, g->node[i]->output[k]);
	for (size_t i = 0; i < g->n_node; i++) {
		for (size_t k = 0; k < g->node[i]->n_input; k++)
			need(o, node, local, g->node[i]->input[k]);
		need_attrs(o, node, local, g->node[i]);
	}
	for (size_t i = 0; i < g->n_output; i++)
		need(o, node, local, g->output[i]->name);
}

/* A depth-first sort with an explicit stack: a file may contain a chain of any length. */
static int sort(NodeOrder *o, int n, int *order)
{
	enum { NEW_NODE, OPEN, DONE };
	char *state = NEW_ARRAY(o->arena, n, char);
	int *stack = NEW_ARRAY(o->arena, n, int), *at = NEW_ARRAY(o->arena, n, int);
	int count = 0;

	for (int root = 0; root < n; root++) {
		int top = 0;

		if (state[root] == DONE)
			continue;
		state[root] = OPEN;
		at[root] = o->first[root];
		stack[top++] = root;
		while (top) {
			int i = stack[top - 1], d;

			if (at[i] == o->first[i + 1]) {
				state[i] = DONE;
				order[count++] = i;
				top--;
				continue;
			}
			d = o->deps.at[at[i]++];
			if (state[d] == OPEN)
				return d;
			if (state[d] == DONE)
				continue;
			state[d] = OPEN;
			at[d] = o->first[d];
			stack[top++] = d;
		}
	}
	return -1;
}

const int *nodes_order(Ctx *c, Arena *a, const Scope *s, Onnx__NodeProto *const *nodes, int n,
		       int *cyclic)
{
	NodeOrder o = {.ctx = c, .arena = a, .scope = s};
	int *order = NEW_ARRAY(a, n, int);

	*cyclic = -1;
	o.first = NEW_ARRAY(a, (size_t)n + 1, int);
	for (int i = 0; i < n; i++) {
		o.first[i] = o.deps.n;
		for (size_t k = 0; k < nodes[i]->n_input; k++)
			need(&o, i, NULL, nodes[i]->input[k]);
		need_attrs(&o, i, NULL, nodes[i]);
		order[i] = i;
	}
	o.first[n] = o.deps.n;
	if (o.forward)
		*cyclic = sort(&o, n, order);
	return order;
}
