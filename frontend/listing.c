/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/listing.h"

#include "frontend/import_impl.h"
#include "frontend/upgrade.h"

enum { NODES_MAX = 1 << 20, DEPTH_MAX = 64 };

typedef struct Lister {
	Arena *arena;
	const Onnx__ModelProto *model;
	Listing out;
} Lister;

bool onnx_op_known(const Onnx__NodeProto *p)
{
	OpKind op = op_by_name(upgrade_name(text(p->op_type)));

	return !*domain_of(p->domain) && (!strcmp(text(p->op_type), "Constant") ||
					  (op != OP_NONE && !(op_row[op].flags & OPF_INTERNAL)));
}

static const Onnx__FunctionProto *function_of(const Lister *l, const Onnx__NodeProto *p)
{
	for (size_t i = 0; i < l->model->n_functions; i++) {
		const Onnx__FunctionProto *fn = l->model->functions[i];

		if (!strcmp(domain_of(fn->domain), domain_of(p->domain)) &&
		    !strcmp(text(fn->name), text(p->op_type)) &&
		    !strcmp(text(fn->overload), text(p->overload)))
			return fn;
	}
	return NULL;
}

static void list(Lister *l, Onnx__NodeProto *const *nodes, size_t n, const char *prefix, int depth)
{
	for (size_t i = 0; i < n && !l->out.cut; i++) {
		const Onnx__NodeProto *p = nodes[i];
		const Onnx__FunctionProto *fn = function_of(l, p);
		const char *name = arena_printf(l->arena, "%s%s", prefix, text(p->name));
		ListedNode one = {name, text(p->op_type), domain_of(p->domain), fn != NULL,
				  fn || onnx_op_known(p)};

		if (l->out.nodes.n == NODES_MAX || depth > DEPTH_MAX) {
			l->out.cut = true;
			return;
		}
		vec_push(l->arena, &l->out.nodes, one);
		if (fn)
			list(l, fn->node, fn->n_node, arena_printf(l->arena, "%s/", name),
			     depth + 1);
		for (size_t k = 0; k < p->n_attribute && !fn; k++) {
			const Onnx__GraphProto *g = p->attribute[k]->g;

			if (g)
				list(l, g->node, g->n_node, prefix, depth + 1);
		}
	}
}

Listing onnx_nodes(Arena *a, const OnnxFile *f)
{
	Lister l = {.arena = a, .model = f->model};
	const Onnx__GraphProto *g = f->model->graph;

	if (g)
		list(&l, g->node, g->n_node, "", 0);
	return l.out;
}

const char *onnx_op_missing(Arena *a, const ListedNode *n)
{
	if (!*n->domain)
		return "this operator is not supported; `dlcc --list-ops` names those that are";
	return arena_printf(a,
			    "operators of domain \"%s\" are not supported; export the model with "
			    "operators of the ONNX standard",
			    n->domain);
}
