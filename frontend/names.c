/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/names.h"

#include "base/vec.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct NamedNode {
	const char *name; /* of the model, or after the operator */
	Onnx__NodeProto *node;
	bool given; /* the name is the model's */
	int index;  /* in the order of the file */
} NamedNode;

typedef struct Namer {
	Arena *arena;
	VEC(NamedNode) all;
} Namer;

static void find_nodes(Namer *n, Onnx__NodeProto **nodes, size_t count, const char *around)
{
	for (size_t i = 0; i < count; i++) {
		Onnx__NodeProto *p = nodes[i];
		const bool given = p->name && *p->name;

		if (!given)
			p->name = arena_printf(n->arena, "%s%s_%zu", around,
					       p->op_type ? p->op_type : "", i);
		vec_push(n->arena, &n->all, ((NamedNode){p->name, p, given, n->all.n}));
		for (size_t k = 0; k < p->n_attribute; k++) {
			const Onnx__AttributeProto *at = p->attribute[k];

			if (at->g)
				find_nodes(n, at->g->node, at->g->n_node,
					   arena_printf(n->arena, "%s/%s/", p->name,
							at->name ? at->name : ""));
		}
	}
}

/* By name; a name that the model gives goes before the same one made here. */
static int compare(const void *pa, const void *pb)
{
	const NamedNode *a = pa, *b = pb;
	const int c = strcmp(a->name, b->name);

	return c                      ? c
	       : a->given != b->given ? (a->given ? -1 : 1)
				      : (a->index > b->index) - (a->index < b->index);
}

static int compare_name(const void *name, const void *node)
{
	return strcmp(name, ((const NamedNode *)node)->name);
}

static void name_apart(Arena *a, Onnx__NodeProto **nodes, size_t count)
{
	Namer n = {.arena = a};
	int number = 1;

	find_nodes(&n, nodes, count, "");
	if (n.all.n)
		qsort(n.all.at, (size_t)n.all.n, sizeof *n.all.at, compare);
	for (int i = 1; i < n.all.n; i++) {
		const NamedNode *x = &n.all.at[i];
		char *name = NULL;

		if (strcmp(x->name, x[-1].name) != 0)
			number = 1;
		else
			do
				name = arena_printf(a, "%s#%d", x->name, ++number);
			while (bsearch(name, n.all.at, (size_t)n.all.n, sizeof *n.all.at,
				       compare_name));
		if (name)
			x->node->name = name;
	}
}

void onnx_name_nodes(Arena *a, Onnx__ModelProto *model)
{
	name_apart(a, model->graph->node, model->graph->n_node);
	for (size_t i = 0; i < model->n_functions; i++)
		name_apart(a, model->functions[i]->node, model->functions[i]->n_node);
}
