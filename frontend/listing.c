/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/listing.h"

#include "frontend/import_impl.h"
#include "frontend/upgrade.h"

#include <stdlib.h>
#include <string.h>

enum { NODES_MAX = 1 << 20, DEPTH_MAX = 64, NAMED_MOST = 8 /* definitions in a message */ };

typedef struct Lister {
	Ctx *ctx;
	Arena *arena;
	const Onnx__FunctionProto **function; /* sorted by compare_functions */
	size_t nfunctions;
	Listing out;
} Lister;

OpKind onnx_op(const Onnx__NodeProto *p)
{
	const char *domain = domain_of(p->domain), *name = text(p->op_type);
	OpKind op = op_in_domain(domain, *domain ? name : upgrade_name(name));

	return op_row[op].flags & OPF_INTERNAL ? OP_NONE : op;
}

bool onnx_op_known(const Onnx__NodeProto *p)
{
	return onnx_op(p) != OP_NONE ||
	       (!*domain_of(p->domain) && !strcmp(text(p->op_type), "Constant"));
}

const Definition *onnx_definition(Ctx *c, const Onnx__NodeProto *p)
{
	return c->definitions ? definition_find(c, definition_name(c, domain_of(p->domain),
								   text(p->op_type)))
			      : NULL;
}

const char *onnx_op_shown(Arena *a, const Onnx__NodeProto *p)
{
	const char *domain = domain_of(p->domain), *name = text(p->op_type);

	return *domain ? arena_printf(a, "%s.%s", domain, name) : name;
}

/* By domain, name and overload. */
static int compare_function(const char *domain, const char *name, const char *overload,
			    const Onnx__FunctionProto *fn)
{
	int c = strcmp(domain_of(domain), domain_of(fn->domain));

	c = c ? c : strcmp(text(name), text(fn->name));
	return c ? c : strcmp(text(overload), text(fn->overload));
}

static int compare_functions(const void *pa, const void *pb)
{
	const Onnx__FunctionProto *const *a = pa, *const *b = pb;

	return compare_function((*a)->domain, (*a)->name, (*a)->overload, *b);
}

static int compare_call(const void *call, const void *function)
{
	const Onnx__NodeProto *p = call;
	const Onnx__FunctionProto *const *fn = function;

	return compare_function(p->domain, p->op_type, p->overload, *fn);
}

static const Onnx__FunctionProto *function_of(const Lister *l, const Onnx__NodeProto *p)
{
	const Onnx__FunctionProto **found = l->nfunctions
						    ? bsearch(p, l->function, l->nfunctions,
							      sizeof *l->function, compare_call)
						    : NULL;

	return found ? *found : NULL;
}

/* BODY: the body, and its node, that contains the nodes, as messages name it; null: none. */
static void list(Lister *l, Onnx__NodeProto *const *nodes, size_t n, const char *prefix,
		 const char *body, int depth)
{
	for (size_t i = 0; i < n && !l->out.cut; i++) {
		const Onnx__NodeProto *p = nodes[i];
		const bool defined = onnx_definition(l->ctx, p) != NULL;
		const Onnx__FunctionProto *fn = defined ? NULL : function_of(l, p);
		const char *name = arena_printf(l->arena, "%s%s", prefix, text(p->name));
		ListedNode one = {name,
				  fn ? text(p->op_type) : onnx_op_shown(l->arena, p),
				  domain_of(p->domain),
				  body,
				  fn != NULL,
				  defined || fn || onnx_op_known(p)};

		if (l->out.nodes.n == NODES_MAX || depth > DEPTH_MAX) {
			l->out.cut = true;
			return;
		}
		vec_push(l->arena, &l->out.nodes, one);
		if (fn)
			list(l, fn->node, fn->n_node, arena_printf(l->arena, "%s/", name), NULL,
			     depth + 1);
		for (size_t k = 0; k < p->n_attribute && !fn; k++) {
			const Onnx__GraphProto *g = p->attribute[k]->g;

			if (g)
				list(l, g->node, g->n_node, prefix,
				     arena_printf(l->arena, "%s of \"%s\"",
						  text(p->attribute[k]->name), name),
				     depth + 1);
		}
	}
}

Listing onnx_nodes(Ctx *c, Arena *a, const OnnxFile *f)
{
	const Onnx__ModelProto *model = f->model;
	Lister l = {.ctx = c, .arena = a, .nfunctions = model->n_functions};
	const Onnx__GraphProto *g = model->graph;

	if (l.nfunctions) {
		l.function = NEW_ARRAY(a, l.nfunctions, const Onnx__FunctionProto *);
		for (size_t i = 0; i < l.nfunctions; i++)
			l.function[i] = model->functions[i];
		qsort(l.function, l.nfunctions, sizeof *l.function, compare_functions);
	}
	if (g)
		list(&l, g->node, g->n_node, "", NULL, 0);
	return l.out;
}

/* The operators of DOMAIN that the user defines, as a text in arena A; null if there are none. */
static const char *defined_in(const Ctx *c, Arena *a, const char *domain)
{
	const size_t n = strlen(domain);
	const char *all = NULL;

	for (int i = 0; c->definitions && i < c->definitions->all.n; i++) {
		const char *name = c->definitions->all.at[i]->name;

		if (!strncmp(name, domain, n) && !strncmp(name + n, "::", 2))
			all = arena_printf(a, "%s%s%s", all ? all : "", all ? ", " : "",
					   name + n + 2);
	}
	return all;
}

/* "; w.dl defines my.op::Hardish": the first NAMED_MOST operators that the files of --op define, as
 * a text in arena A. The reader sees whether the model spells a domain or a name in another way. */
static const char *all_defined(const Ctx *c, Arena *a)
{
	const int n = c->definitions ? c->definitions->all.n : 0;
	const char *text = "", *file = NULL;

	for (int i = 0; i < n && i < NAMED_MOST; i++) {
		const Definition *d = c->definitions->all.at[i];

		if (file && !strcmp(file, d->file))
			text = arena_printf(a, "%s, %s", text, d->name);
		else
			text = arena_printf(a, "%s; %s defines %s", text, d->file, d->name);
		file = d->file;
	}
	return n > NAMED_MOST ? arena_printf(a, "%s and %d more", text, n - NAMED_MOST) : text;
}

/* Why an operator is not supported by design. OP null: all of the domain. */
static const struct {
	const char *domain, *op, *why;
} reasons[] = {
	{"", "ImageDecoder", "it reads image files; decode images before the model"},
	{"ai.onnx.preview.training", NULL,
	 "it trains a model, and models are compiled for inference"},
	{"ai.onnx.training", NULL, "it trains a model, and models are compiled for inference"},
};

const char *onnx_op_missing(const Ctx *c, Arena *a, const ListedNode *n)
{
	const char *at = n->body ? arena_printf(a, " (in %s)", n->body) : "";
	const char *others = defined_in(c, a, n->domain);

	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
		if (!strcmp(n->domain, reasons[i].domain) &&
		    (!reasons[i].op || !strcmp(n->op, reasons[i].op)))
			return arena_printf(a, "not supported%s: %s", at, reasons[i].why);
	if (op_domain_known(n->domain))
		return arena_printf(
			a, "not supported%s; `dlcc --list-ops` names the operators that are%s", at,
			all_defined(c, a));
	if (others)
		return arena_printf(a,
				    "not supported%s; of domain \"%s\" there are definitions of %s",
				    at, n->domain, others);
	return arena_printf(a,
			    "not supported%s, as no operator of domain \"%s\" is; export the model "
			    "with operators of the ONNX standard, or define it: --op=FILE.dl%s",
			    at, n->domain, all_defined(c, a));
}
