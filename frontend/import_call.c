/* SPDX-License-Identifier: Apache-2.0 */
/* Inlines calls of model-local functions. */
#include "frontend/import_impl.h"

#include "frontend/upgrade.h"

enum {
	NODE_COST = 512,
	NAME_COST = 64,
	ARG_COST = sizeof(const char *) + sizeof(const Onnx__AttributeProto *),
};

/* Limit on the memory of inlined functions. Otherwise a small file could ask for exponentially
 * many nodes, or use a function with a million attributes ten thousand times. */
static const size_t inline_max = (size_t)256 << 20;

/* A key that differs if any of its parts do. Names may contain any bytes. */
static const char *function_key(Import *im, const char *domain, const char *name,
				const char *overload)
{
	const char *part[] = {domain_of(domain), text(name), text(overload)};
	STRBUF_LOCAL(b);

	for (int i = 0; i < 3; i++)
		strbuf_quote(&b, part[i]);
	return ctx_name(im->ctx, strbuf_str(&b));
}

const Onnx__FunctionProto *import_function(Import *im, const Onnx__NodeProto *p)
{
	Binding *b;

	if (!im->model->n_functions)
		return NULL;
	b = scope_find(im->functions, function_key(im, p->domain, p->op_type, p->overload));
	return b ? im->model->functions[b->node] : NULL;
}

void import_functions(Import *im)
{
	im->functions = scope_new(im->scratch, NULL, NULL);
	for (size_t i = 0; i < im->model->n_functions; i++) {
		const Onnx__FunctionProto *fn = im->model->functions[i];
		Binding *b = scope_add(im->functions,
				       function_key(im, fn->domain, fn->name, fn->overload),
				       BIND_NODE);

		if (b)
			b->node = (int)i;
		else
			diag_error(im->diag, import_loc(im),
				   "function \"%s\" of domain \"%s\" is "
				   "defined twice",
				   text(fn->name), text(fn->domain));
	}
}

static const Onnx__OperatorSetIdProto *imported(const Frame *fr, const char *domain)
{
	for (size_t i = 0; i < fr->nsets; i++)
		if (!strcmp(domain_of(fr->sets[i]->domain), domain))
			return fr->sets[i];
	return NULL;
}

int64_t import_version(const Frame *fr, const char *domain)
{
	const Onnx__OperatorSetIdProto *set = imported(fr, domain);

	return set ? set->version : 0;
}

void import_opsets(Import *im, Frame *fr, Onnx__OperatorSetIdProto *const *sets, size_t n)
{
	const Onnx__OperatorSetIdProto *standard;

	fr->sets = sets;
	fr->nsets = n;
	standard = imported(fr, "");
	if (!standard)
		return;
	fr->opset = OPSET_MAX;
	if (standard->version >= OPSET_MIN && standard->version <= OPSET_MAX) {
		fr->opset = (int)standard->version;
		if (fr->opset > im->newest)
			im->newest = fr->opset;
		return;
	}
	if (!im->opset_reported)
		diag_error(im->diag, import_loc(im),
			   "opset %lld; this compiler reads opsets %d to "
			   "%d: export the model with opset_version=%d",
			   (long long)standard->version, OPSET_MIN, OPSET_MAX, OPSET_MAX);
	im->opset_reported = true;
}

static const Onnx__AttributeProto *given_attr(const Frame *fr, const Onnx__NodeProto *p,
					      const char *name)
{
	for (size_t i = 0; i < p->n_attribute; i++)
		if (!strcmp(text(p->attribute[i]->name), name))
			return attr_resolve(&fr->args, p->attribute[i]);
	return NULL;
}

static void push_arg(AttrArgs *args, const char *name, const Onnx__AttributeProto *attr)
{
	if (!attr)
		return;
	args->name[args->n] = name;
	args->attr[args->n++] = attr;
}

static AttrArgs call_args(Import *im, const Frame *fr, const Onnx__NodeProto *p,
			  const Onnx__FunctionProto *fn)
{
	size_t n = fn->n_attribute + fn->n_attribute_proto;
	AttrArgs args = {NEW_ARRAY(im->scratch, n, const char *),
			 NEW_ARRAY(im->scratch, n, const Onnx__AttributeProto *), 0};

	for (size_t i = 0; i < fn->n_attribute; i++)
		push_arg(&args, fn->attribute[i], given_attr(fr, p, fn->attribute[i]));
	for (size_t i = 0; i < fn->n_attribute_proto; i++) {
		const Onnx__AttributeProto *d = fn->attribute_proto[i], *a;

		a = given_attr(fr, p, text(d->name));
		push_arg(&args, text(d->name), a ? a : d);
	}
	return args;
}

static bool call_allowed(Import *im, const Frame *fr, const Onnx__NodeProto *p,
			 const Onnx__FunctionProto *fn, DiagLoc loc)
{
	for (const Frame *f = fr; f; f = f->caller)
		if (f->fn == fn)
			return diag_error(im->diag, loc,
					  "the function calls itself, directly or through "
					  "others");
	if (fr->depth >= CALL_DEPTH)
		return diag_error(im->diag, loc, "functions are nested more than %d deep",
				  CALL_DEPTH);
	if (p->n_input > fn->n_input || p->n_output > fn->n_output)
		return diag_error(im->diag, loc,
				  "the function has %zu inputs and %zu outputs, and is "
				  "called with %zu and %zu",
				  fn->n_input, fn->n_output, p->n_input, p->n_output);
	return true;
}

/* Roughly the memory of an imported body. NAME: length of the prefix of its names. An attribute
 * that refers to one of the call is searched for among all ARGS of them. */
static size_t body_cost(Nodes nodes, size_t name, size_t args)
{
	size_t cost = NODE_COST;

	for (size_t i = 0; i < nodes.n; i++) {
		const Onnx__NodeProto *p = nodes.at[i];

		cost += NODE_COST + (1 + p->n_input + p->n_output) * (name + NAME_COST);
		for (size_t k = 0; k < p->n_attribute; k++) {
			const Onnx__AttributeProto *a = p->attribute[k];

			cost += NAME_COST + 8 * (a->n_ints + a->n_floats) +
				NAME_COST * a->n_strings;
			if (a->ref_attr_name)
				cost += args;
			if (a->t)
				cost += 4 * a->t->n_int32_data + NAME_COST * a->t->n_string_data;
			if (a->g)
				cost += body_cost((Nodes){a->g->node, a->g->n_node}, name, args);
		}
	}
	return cost;
}

/* Adds the cost of the call P to the total of inlined calls. False if that exceeds the limit, with
 * a diagnostic for the first such call. Each attribute of the function is looked up among P's, and
 * stored; so is each input. */
static bool spend_call(Import *im, const Onnx__FunctionProto *fn, const Onnx__NodeProto *p,
		       const char *prefix, DiagLoc loc)
{
	size_t args = fn->n_attribute + fn->n_attribute_proto;
	size_t cost = body_cost((Nodes){fn->node, fn->n_node}, strlen(prefix), args) +
		      args * (ARG_COST + p->n_attribute) + NAME_COST * fn->n_input +
		      fn->n_opset_import;

	if (im->inlined > inline_max)
		return false;
	im->inlined = cost > inline_max ? inline_max + 1 : im->inlined + cost;
	if (im->inlined > inline_max)
		return diag_error(im->diag, loc,
				  "the model is too large once its functions are inlined: this "
				  "call and earlier calls take more than %zu MiB",
				  inline_max >> 20);
	return true;
}

bool import_call(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p, int index,
		 const Onnx__FunctionProto *fn, DiagLoc loc, Value *const *in, const bool *known)
{
	Frame callee = {.caller = fr, .fn = fn, .depth = fr->depth + 1};
	Scope *body;

	if (!call_allowed(im, fr, p, fn, loc))
		return false;
	callee.prefix = arena_printf(im->scratch, "%s/", loc.node);
	if (!spend_call(im, fn, p, callee.prefix, loc))
		return false;
	callee.args = call_args(im, fr, p, fn);
	import_opsets(im, &callee, fn->opset_import, fn->n_opset_import);
	body = scope_new(im->scratch, s->graph, NULL);
	for (size_t i = 0; i < fn->n_input; i++) {
		bool sound = i >= p->n_input || known[i];
		Binding *b = scope_add(body, ctx_name(im->ctx, fn->input[i]),
				       sound ? BIND_VALUE : BIND_BROKEN);

		if (!b)
			return diag_error(im->diag, loc, "the function has two inputs \"%s\"",
					  fn->input[i]);
		b->value = i < p->n_input ? in[i] : NULL;
	}
	import_nodes(im, &callee, body, (Nodes){fn->node, fn->n_node});
	for (size_t i = 0; i < p->n_output; i++) {
		const char *name = ctx_name(im->ctx, p->output[i]);
		Value *v;

		if (*name && import_lookup(im, body, ctx_name(im->ctx, fn->output[i]), loc, &v))
			import_bind(s, name, index, v, name);
	}
	return true;
}
