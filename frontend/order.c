/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/order.h"

typedef struct Order {
	Ctx *ctx;
	Arena *arena;
	const Scope *scope;
	VEC(int) deps; /* of node i: deps[first[i]] to deps[first[i + 1]] */
	int *first;
	bool forward; /* some node stands before one that it needs */
} Order;

static void need(Order *o, int node, const char *name)
{
	const Binding *b;

	if (!*name)
		return;
	b = scope_find(o->scope, ctx_name(o->ctx, name));
	if (!b || b->kind != BIND_NODE)
		return;
	vec_push(o->arena, &o->deps, b->node);
	o->forward |= b->node >= node;
}

/* Depth is bounded by frontend/wire.c. */
static void need_graph(Order *o, int node, const Onnx__GraphProto *g);

static void need_attrs(Order *o, int node, const Onnx__NodeProto *p)
{
	for (size_t i = 0; i < p->n_attribute; i++)
		if (p->attribute[i]->g)
			need_graph(o, node, p->attribute[i]->g);
}

static void need_graph(Order *o, int node, const Onnx__GraphProto *g)
{
	for (size_t i = 0; i < g->n_node; i++) {
		for (size_t k = 0; k < g->node[i]->n_input; k++)
			need(o, node, g->node[i]->input[k]);
		need_attrs(o, node, g->node[i]);
	}
	for (size_t i = 0; i < g->n_output; i++)
		need(o, node, g->output[i]->name ? g->output[i]->name : "");
}

/* Depth first, by an explicit stack: a file may hold a chain of any length. */
static int sort(Order *o, int n, int *order)
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
	Order o = { .ctx = c, .arena = a, .scope = s };
	int *order = NEW_ARRAY(a, n, int);

	*cyclic = -1;
	o.first = NEW_ARRAY(a, (size_t)n + 1, int);
	for (int i = 0; i < n; i++) {
		o.first[i] = o.deps.n;
		for (size_t k = 0; k < nodes[i]->n_input; k++)
			need(&o, i, nodes[i]->input[k]);
		need_attrs(&o, i, nodes[i]);
		order[i] = i;
	}
	o.first[n] = o.deps.n;
	if (o.forward)
		*cyclic = sort(&o, n, order);
	return order;
}
