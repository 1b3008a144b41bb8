/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/import.h"

#include "frontend/attrs.h"
#include "frontend/order.h"
#include "frontend/scope.h"
#include "frontend/tensor.h"
#include "frontend/upgrade.h"
#include "frontend/valuetype.h"

enum {
	CALL_DEPTH = 64, /* functions in functions, subgraphs in subgraphs */
	OPERANDS_MAX = 100000,
	ATTRS_MAX = 1000,
	MISSING_MAX = 64, /* kinds of operators that are reported as not supported */
	NODE_COST = 512,
	NAME_COST = 64,
};

/* What inlined functions may take: a small file can ask for exponentially many nodes. */
static const size_t inline_max = (size_t)256 << 20;

/* One body that is being imported: the model's graph, or a call of a function, or a subgraph in
 * one. */
typedef struct Frame {
	const struct Frame *caller;
	const Onnx__FunctionProto *fn; /* null: the model's graph */
	AttrArgs args;
	const char *prefix; /* before the names of what is in it: "call/" */
	const char *around; /* before the names that unnamed nodes get, besides */
	int opset;	    /* of the standard domain; 0: none is imported */
	int depth;
} Frame;

/* An operator that is not supported, reported once for all its nodes. */
typedef struct Missing {
	const char *domain, *op;
	DiagLoc loc;
	int nodes;
} Missing;

typedef struct Import {
	Ctx *ctx;
	Arena *arena;	/* the graph's */
	Arena *scratch; /* what only import needs */
	OnnxFile *file;
	Diag *diag;
	const Onnx__ModelProto *model;
	Scope *functions; /* by "domain:name:overload"; Binding.node is the index */
	DimNames dims;
	VEC(Missing) missing;
	size_t inlined; /* bytes, about */
	bool opset_reported;
} Import;

typedef struct Nodes {
	Onnx__NodeProto *const *at;
	size_t n;
} Nodes;

static bool import_nodes(Import *im, const Frame *fr, Scope *s, Nodes nodes);

static const char *text(const char *s)
{
	return s ? s : "";
}

static const char *domain_of(const char *s)
{
	return s && strcmp(s, "ai.onnx") != 0 ? s : "";
}

static DiagLoc file_loc(const Import *im)
{
	return (DiagLoc){.file = im->file->path};
}

/* ---- Names ---- */

static void add_loc(Import *im, Node *n, DiagLoc loc)
{
	vec_push(im->arena, &n->locs, ((Loc){.node = loc.node, .op = loc.op}));
}

/* The constant of an initialiser, made in G. */
static Value *make_const(Import *im, Graph *g, Binding *b)
{
	DiagLoc loc = {.file = im->file->path, .node = b->name};
	Tensor *t = b->sparse ? onnx_sparse_tensor(im->file, b->sparse, loc)
			      : onnx_tensor(im->file, b->tensor, loc);
	Value *v;

	if (!t)
		return NULL;
	v = graph_const(g, t, NULL);
	v->name = b->name;
	loc.op = "Const";
	add_loc(im, v->def, loc);
	return v;
}

/* What NAME means in S: *OUT is its value, null where an operand is omitted. False where there
 * is none, after a diagnostic at the first such use. */
static bool lookup(Import *im, Scope *s, const char *name, DiagLoc loc, Value **out)
{
	Binding *b = scope_find(s, name), *outer = NULL;
	Value *around;

	*out = NULL;
	for (Scope *p = s->parent; p && !b && !outer; p = p->parent)
		outer = scope_find(p, name);
	if (!b && !outer) {
		scope_add(s, name, BIND_BROKEN);
		return diag_error(im->diag, loc,
				  "\"%s\" is used, and no node, input or initialiser "
				  "makes it",
				  name);
	}
	if (!b && outer->kind == BIND_TENSOR) {
		b = scope_add(s, name, BIND_TENSOR);
		b->tensor = outer->tensor;
		b->sparse = outer->sparse;
	} else if (!b) {
		if (!lookup(im, s->parent, name, loc, &around)) {
			scope_add(s, name, BIND_BROKEN);
			return false;
		}
		b = scope_add(s, name, BIND_VALUE);
		if (around)
			b->value = scope_capture(s, around, name);
	}
	if (b->kind == BIND_TENSOR) {
		b->value = make_const(im, s->graph, b);
		b->kind = b->value ? BIND_VALUE : BIND_BROKEN;
	}
	*out = b->value;
	return b->kind == BIND_VALUE;
}

/* The result NAME of node INDEX of S's body (see register_results), unless another node defines
 * it too. V null: it does not exist. SHOWN: its name in messages. */
static void bind_result(Scope *s, const char *name, int index, Value *v, const char *shown)
{
	Binding *b = scope_find(s, name);

	if (!b || b->kind != BIND_NODE || b->node != index)
		return;
	b->kind = BIND_VALUE;
	b->value = v;
	if (v && !v->name)
		v->name = shown;
}

static void break_results(Import *im, Scope *s, const Onnx__NodeProto *p, int index)
{
	for (size_t i = 0; i < p->n_output; i++) {
		Binding *b = scope_find(s, ctx_name(im->ctx, p->output[i]));

		if (b && b->kind == BIND_NODE && b->node == index)
			b->kind = BIND_BROKEN;
	}
}

static const char *node_name(Import *im, const Frame *fr, const Onnx__NodeProto *p, int index)
{
	const char *s;

	if (*text(p->name))
		s = arena_printf(im->scratch, "%s%s", fr->prefix, p->name);
	else
		s = arena_printf(im->scratch, "%s%s%s_%d", fr->prefix, fr->around, text(p->op_type),
				 index);
	return ctx_name(im->ctx, s);
}

/* ---- Calls of model-local functions ---- */

static const char *function_key(Import *im, const char *domain, const char *name,
				const char *overload)
{
	return ctx_name(im->ctx, arena_printf(im->scratch, "%s:%s:%s", domain_of(domain),
					      text(name), text(overload)));
}

static const Onnx__FunctionProto *find_function(Import *im, const Onnx__NodeProto *p)
{
	Binding *b;

	if (!im->model->n_functions)
		return NULL;
	b = scope_find(im->functions, function_key(im, p->domain, p->op_type, p->overload));
	return b ? im->model->functions[b->node] : NULL;
}

static void register_functions(Import *im)
{
	im->functions = scope_new(im->scratch, NULL, NULL);
	for (size_t i = 0; i < im->model->n_functions; i++) {
		const Onnx__FunctionProto *fn = im->model->functions[i];
		Binding *b =
			scope_add(im->functions,
				  function_key(im, fn->domain, fn->name, fn->overload), BIND_NODE);

		if (b)
			b->node = (int)i;
		else
			diag_error(im->diag, file_loc(im),
				   "function \"%s\" of domain \"%s\" is "
				   "defined twice",
				   text(fn->name), text(fn->domain));
	}
}

static int standard_opset(Import *im, Onnx__OperatorSetIdProto *const *sets, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (*domain_of(sets[i]->domain))
			continue;
		if (sets[i]->version >= OPSET_MIN && sets[i]->version <= OPSET_MAX)
			return (int)sets[i]->version;
		if (!im->opset_reported)
			diag_error(im->diag, file_loc(im),
				   "opset %lld; this compiler reads opsets %d to "
				   "%d: export the model with opset_version=%d",
				   (long long)sets[i]->version, OPSET_MIN, OPSET_MAX, OPSET_MAX);
		im->opset_reported = true;
		return OPSET_MAX;
	}
	return 0;
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

/* About what a body takes in memory once imported; NAME: the length of the prefix its names get. */
static size_t body_cost(Nodes nodes, size_t name)
{
	size_t cost = NODE_COST;

	for (size_t i = 0; i < nodes.n; i++) {
		const Onnx__NodeProto *p = nodes.at[i];

		cost += NODE_COST + (1 + p->n_input + p->n_output) * (name + NAME_COST);
		for (size_t k = 0; k < p->n_attribute; k++) {
			const Onnx__AttributeProto *a = p->attribute[k];

			cost += NAME_COST + 8 * (a->n_ints + a->n_floats) +
				NAME_COST * a->n_strings;
			if (a->t)
				cost += 4 * a->t->n_int32_data + NAME_COST * a->t->n_string_data;
			if (a->g)
				cost += body_cost((Nodes){a->g->node, a->g->n_node}, name);
		}
	}
	return cost;
}

/* False, after a diagnostic, where what is inlined outgrows its bound. */
static bool spend_call(Import *im, const Onnx__FunctionProto *fn, const char *prefix, DiagLoc loc)
{
	size_t cost = body_cost((Nodes){fn->node, fn->n_node}, strlen(prefix));

	if (cost > inline_max - im->inlined)
		return diag_error(im->diag, loc,
				  "the model is too large once its functions are inlined");
	im->inlined += cost;
	return true;
}

/* IN: the operands, null where omitted; KNOWN: false where a fault was reported for one. */
static bool inline_call(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p, int index,
			const Onnx__FunctionProto *fn, DiagLoc loc, Value *const *in,
			const bool *known)
{
	Frame callee = {.caller = fr, .fn = fn, .around = "", .depth = fr->depth + 1};
	Scope *body;

	if (!call_allowed(im, fr, p, fn, loc))
		return false;
	callee.args = call_args(im, fr, p, fn);
	callee.prefix = arena_printf(im->scratch, "%s/", loc.node);
	if (!spend_call(im, fn, callee.prefix, loc))
		return false;
	callee.opset = standard_opset(im, fn->opset_import, fn->n_opset_import);
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

		if (*name && lookup(im, body, ctx_name(im->ctx, fn->output[i]), loc, &v))
			bind_result(s, name, index, v, name);
	}
	return true;
}

/* ---- Nodes ---- */

static bool import_constant(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p,
			    int index, DiagLoc loc)
{
	for (size_t i = 0; i < p->n_attribute; i++) {
		const Onnx__AttributeProto *a = attr_resolve(&fr->args, p->attribute[i]);
		const char *name = text(p->attribute[i]->name);
		Tensor *t;
		Value *v;

		if (!a || (!str_starts(name, "value") && strcmp(name, "sparse_value") != 0))
			continue;
		t = attr_constant(im->ctx, im->arena, im->file, name, a, loc);
		if (!t || !p->n_output)
			return t != NULL;
		v = graph_const(s->graph, t, NULL);
		add_loc(im, v->def, loc);
		name = ctx_name(im->ctx, p->output[0]);
		bind_result(s, name, index, v, name);
		return true;
	}
	return diag_error(im->diag, loc, "a constant without a value");
}

static bool import_region(Import *im, const Frame *fr, Scope *s, Node *n, const char *name,
			  const Onnx__GraphProto *g, DiagLoc loc);

static bool add_region(Import *im, const Frame *fr, Scope *s, Node *n, const char *name,
		       const Onnx__AttributeProto *a, DiagLoc loc)
{
	if (!a->g)
		return diag_error(im->diag, loc, "attribute \"%s\" holds no graph", name);
	return import_region(im, fr, s, n, name, a->g, loc);
}

static bool add_attrs(Import *im, const Frame *fr, Scope *s, Node *n, const Onnx__NodeProto *p,
		      DiagLoc loc)
{
	for (size_t i = 0; i < p->n_attribute; i++) {
		const Onnx__AttributeProto *a = attr_resolve(&fr->args, p->attribute[i]);
		const char *name = ctx_name(im->ctx, text(p->attribute[i]->name));
		Attr v;

		if (!a)
			continue;
		if (node_attr(n, name))
			return diag_error(im->diag, loc, "attribute \"%s\" is given twice", name);
		if (attr_type(a) == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH) {
			if (!add_region(im, fr, s, n, name, a, loc))
				return false;
			continue;
		}
		if (!attr_convert(im->ctx, im->arena, im->file, name, a, loc, &v))
			return false;
		node_set_attr(n, v);
	}
	return true;
}

static bool arity_holds(Import *im, const Node *n, DiagLoc loc)
{
	const OpRow *row = &op_row[n->op];

	if (n->nin < row->nin_min)
		return diag_error(im->diag, loc, "%d operands, and at least %d are needed", n->nin,
				  row->nin_min);
	if (row->nin_max >= 0 && n->nin > row->nin_max)
		return diag_error(im->diag, loc, "%d operands, and at most %d are allowed", n->nin,
				  row->nin_max);
	for (int i = 0; i < row->nin_min; i++)
		if (!node_in(n, i))
			return diag_error(im->diag, loc, "operand %d is omitted, and must not be",
					  i + 1);
	if (row->nout_max >= 0 && n->nout > row->nout_max)
		return diag_error(im->diag, loc, "%d results, and at most %d are supported",
				  n->nout, row->nout_max);
	return true;
}

static void note_missing(Import *im, const Onnx__NodeProto *p, DiagLoc loc)
{
	const char *domain = domain_of(p->domain);
	Missing m = {.domain = domain, .op = text(p->op_type), .loc = loc, .nodes = 1};

	for (int i = 0; i < im->missing.n; i++) {
		Missing *old = &im->missing.at[i];

		if (!strcmp(old->domain, domain) && !strcmp(old->op, m.op)) {
			old->nodes++;
			return;
		}
	}
	if (im->missing.n < MISSING_MAX)
		vec_push(im->scratch, &im->missing, m);
}

static void report_missing(Import *im)
{
	for (int i = 0; i < im->missing.n; i++) {
		const Missing *m = &im->missing.at[i];

		if (*m->domain)
			diag_error(im->diag, m->loc,
				   "operators of domain \"%s\" are not supported; export "
				   "the model with operators of the ONNX standard",
				   m->domain);
		else
			diag_error(im->diag, m->loc,
				   "this operator is not supported; `dlcc --list-ops` "
				   "names those that are");
		if (m->nodes > 1)
			diag_note(im->diag, "so are %d more nodes of this operator", m->nodes - 1);
	}
}

static size_t without_trailing(char *const *names, size_t n)
{
	while (n && !*names[n - 1])
		n--;
	return n;
}

/* The node itself, with operands IN. */
static bool make_node(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p, int index,
		      OpKind op, DiagLoc loc, Value *const *in)
{
	int nout = (int)without_trailing(p->output, p->n_output);
	int nin = (int)without_trailing(p->input, p->n_input);
	Node *n = node_new(s->graph, op, in, nin, nout > 1 ? nout : 1, NULL);
	Value **out;

	add_loc(im, n, loc);
	for (int i = op_row[op].nout_min; i < nout; i++)
		if (!*p->output[i])
			n->out[i] = NULL;
	out = arena_copy(im->scratch, n->out, (size_t)n->nout * sizeof *out);
	if (!add_attrs(im, fr, s, n, p, loc) ||
	    !upgrade_node(&n, text(p->op_type), fr->opset, out) || (n && !arity_holds(im, n, loc)))
		return false;
	for (int i = 0; i < nout; i++) {
		const char *name = ctx_name(im->ctx, p->output[i]);

		if (*name)
			bind_result(s, name, index, out[i],
				    ctx_name(im->ctx,
					     arena_printf(im->scratch, "%s%s", fr->prefix, name)));
	}
	return true;
}

static bool import_op(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p, int index,
		      DiagLoc loc, Value *const *in, bool sound)
{
	OpKind op;

	if (*domain_of(p->domain)) {
		note_missing(im, p, loc);
		return false;
	}
	if (!fr->opset) {
		if (!im->opset_reported)
			diag_error(im->diag, loc,
				   "the model does not say which opset of the standard "
				   "operators it uses; its opset_import lacks the domain \"\"");
		im->opset_reported = true;
		return false;
	}
	if (!strcmp(text(p->op_type), "Constant"))
		return import_constant(im, fr, s, p, index, loc);
	op = op_by_name(upgrade_name(text(p->op_type)));
	if (op == OP_NONE || (op_row[op].flags & OPF_INTERNAL)) {
		note_missing(im, p, loc);
		return false;
	}
	return sound && make_node(im, fr, s, p, index, op, loc, in);
}

/* Node P, at INDEX of its body. A fault leaves its results broken, and import goes on. */
static void import_node(Import *im, const Frame *fr, Scope *s, const Onnx__NodeProto *p, int index)
{
	const char *name = node_name(im, fr, p, index);
	DiagLoc loc = {
		.file = im->file->path, .node = name, .op = ctx_name(im->ctx, text(p->op_type))};
	const Onnx__FunctionProto *fn = find_function(im, p);
	Value **in = NEW_ARRAY(im->scratch, p->n_input, Value *);
	bool *known = NEW_ARRAY(im->scratch, p->n_input, bool);
	bool sound = true;

	if (p->n_input > OPERANDS_MAX || p->n_output > OPERANDS_MAX || p->n_attribute > ATTRS_MAX) {
		diag_error(im->diag, loc,
			   "more operands, results or attributes than any operator has");
		break_results(im, s, p, index);
		return;
	}
	for (size_t i = 0; i < p->n_input; i++) {
		known[i] =
			!*p->input[i] || lookup(im, s, ctx_name(im->ctx, p->input[i]), loc, &in[i]);
		sound &= known[i];
	}
	if (fn ? inline_call(im, fr, s, p, index, fn, loc, in, known)
	       : import_op(im, fr, s, p, index, loc, in, sound))
		return;
	break_results(im, s, p, index);
}

/* ---- Bodies ---- */

static bool is_constant(const Onnx__NodeProto *p)
{
	return !*domain_of(p->domain) && !strcmp(text(p->op_type), "Constant");
}

/* Two constants of one name: exporters that merge graphs write that. The last one stands, as in
 * ONNX Runtime. */
static void warn_duplicate(Import *im, const char *name)
{
	diag_warning(im->diag, (DiagLoc){.file = im->file->path, .node = name}, "duplicate",
		     "several constants have this name; the last one is used");
}

/* So that a name can be looked up before its node is imported, and a second definition is seen. */
static void register_result(Import *im, const Frame *fr, Scope *s, Nodes nodes, int index,
			    const char *name)
{
	const Onnx__NodeProto *p = nodes.at[index];
	Binding *b = scope_find(s, name);

	if (!b) {
		scope_add(s, name, BIND_NODE)->node = index;
	} else if (is_constant(p) && (b->kind == BIND_TENSOR ||
				      (b->kind == BIND_NODE && is_constant(nodes.at[b->node])))) {
		warn_duplicate(im, name);
		b->kind = BIND_NODE;
		b->node = index;
	} else {
		diag_error(im->diag,
			   (DiagLoc){.file = im->file->path,
				     .node = node_name(im, fr, p, index),
				     .op = text(p->op_type)},
			   "its result \"%s\" is defined elsewhere too", name);
	}
}

static void register_results(Import *im, const Frame *fr, Scope *s, Nodes nodes)
{
	for (size_t i = 0; i < nodes.n; i++)
		for (size_t k = 0; k < nodes.at[i]->n_output; k++)
			if (*nodes.at[i]->output[k])
				register_result(im, fr, s, nodes, (int)i,
						ctx_name(im->ctx, nodes.at[i]->output[k]));
}

static bool import_nodes(Import *im, const Frame *fr, Scope *s, Nodes nodes)
{
	const int *order;
	int cyclic;

	if (nodes.n > INT32_MAX / 2)
		return diag_error(im->diag, file_loc(im), "%zu nodes in one graph", nodes.n);
	register_results(im, fr, s, nodes);
	order = nodes_order(im->ctx, im->scratch, s, nodes.at, (int)nodes.n, &cyclic);
	if (cyclic >= 0) {
		const Onnx__NodeProto *p = nodes.at[cyclic];

		return diag_error(im->diag,
				  (DiagLoc){.file = im->file->path,
					    .node = node_name(im, fr, p, cyclic),
					    .op = text(p->op_type)},
				  "the node depends on its own result");
	}
	for (size_t i = 0; i < nodes.n; i++)
		import_node(im, fr, s, nodes.at[order[i]], order[i]);
	return true;
}

static void bind_tensor(Import *im, Scope *s, const char *name, const Onnx__TensorProto *t,
			const Onnx__SparseTensorProto *sparse)
{
	Binding *b;

	if (!*text(name)) {
		diag_error(im->diag, file_loc(im), "an initialiser without a name");
		return;
	}
	name = ctx_name(im->ctx, name);
	b = scope_add(s, name, BIND_TENSOR);
	if (!b) {
		warn_duplicate(im, name);
		b = scope_find(s, name);
	}
	b->tensor = t;
	b->sparse = sparse;
}

static void import_initialisers(Import *im, Scope *s, const Onnx__GraphProto *g)
{
	for (size_t i = 0; i < g->n_initializer; i++)
		bind_tensor(im, s, g->initializer[i]->name, g->initializer[i], NULL);
	for (size_t i = 0; i < g->n_sparse_initializer; i++) {
		const Onnx__SparseTensorProto *t = g->sparse_initializer[i];

		bind_tensor(im, s, t->values ? t->values->name : NULL, NULL, t);
	}
}

/* A subgraph's input may lack a type: it has those of the operands. */
static void import_input(Import *im, Scope *s, const Onnx__ValueInfoProto *p)
{
	const char *name = ctx_name(im->ctx, text(p->name));
	Binding *b = scope_find(s, name);
	const Type *t = NULL;

	if (b && b->kind == BIND_TENSOR)
		return;
	if (!*name || b) {
		diag_error(im->diag, file_loc(im), "two inputs are called \"%s\"", name);
		return;
	}
	if (!s->parent)
		t = onnx_type(im->ctx, im->file, &im->dims, p->type, name,
			      (DiagLoc){.file = im->file->path, .node = name});
	b = scope_add(s, name, t || s->parent ? BIND_VALUE : BIND_BROKEN);
	if (b->kind == BIND_VALUE)
		b->value = graph_input(s->graph, name, t);
}

static void import_results(Import *im, Scope *s, const Onnx__GraphProto *g)
{
	for (size_t i = 0; i < g->n_output; i++) {
		const char *name = ctx_name(im->ctx, text(g->output[i]->name));
		DiagLoc loc = {.file = im->file->path, .node = name};
		Value *v;

		if (!lookup(im, s, name, loc, &v))
			continue;
		if (v)
			graph_result(s->graph, v, name);
		else
			diag_error(im->diag, loc, "the output is an omitted operand");
	}
}

static bool import_graph(Import *im, const Frame *fr, Scope *s, const Onnx__GraphProto *g)
{
	import_initialisers(im, s, g);
	for (size_t i = 0; i < g->n_input; i++)
		import_input(im, s, g->input[i]);
	if (!import_nodes(im, fr, s, (Nodes){g->node, g->n_node}))
		return false;
	import_results(im, s, g);
	return true;
}

static bool import_region(Import *im, const Frame *fr, Scope *s, Node *n, const char *name,
			  const Onnx__GraphProto *g, DiagLoc loc)
{
	Frame inner = *fr;
	Graph *region = graph_new(im->ctx, im->arena, name);
	Scope *body = scope_new(im->scratch, region, s);
	int64_t captures[8];
	const int64_t *before;
	int count;

	inner.depth++;
	inner.around = arena_printf(im->scratch, "%s/%s/", loc.node + strlen(fr->prefix), name);
	if (inner.depth > CALL_DEPTH)
		return diag_error(im->diag, loc, "subgraphs are nested more than %d deep",
				  CALL_DEPTH);
	before = node_ints(n, "captures", &count);
	if (count >= 8)
		return diag_error(im->diag, loc, "more subgraphs than an operator has");
	if (count < 0)
		count = 0;
	if (count)
		memcpy(captures, before, (size_t)count * sizeof *captures);
	region->file = im->file->path;
	if (!import_graph(im, &inner, body, g))
		return false;
	vec_push(im->arena, &n->regions, region);
	for (int i = 0; i < body->captures.n; i++)
		node_set_input(n, n->nin, body->captures.at[i]);
	captures[count] = body->captures.n;
	node_set_ints(n, "captures", captures, count + 1);
	return true;
}

static bool versions_hold(Import *im)
{
	int64_t v = im->model->ir_version;

	if (v >= IR_VERSION_MIN && v <= IR_VERSION_MAX)
		return true;
	return diag_error(im->diag, file_loc(im),
			  "IR version %lld; this compiler reads versions %d to %d: %s",
			  (long long)v, IR_VERSION_MIN, IR_VERSION_MAX,
			  v > IR_VERSION_MAX ? "save the model with an older onnx package"
					     : "load and save it once with a newer onnx package");
}

Graph *onnx_import(Ctx *c, Arena *a, OnnxFile *f)
{
	Import im = {.ctx = c,
		     .arena = a,
		     .scratch = arena_new(),
		     .file = f,
		     .diag = f->diag,
		     .model = f->model};
	const Onnx__GraphProto *p = f->model->graph;
	Frame fr = {.prefix = "", .around = ""};
	Graph *g = graph_new(c, a, "main");
	int before = f->diag->errors;

	g->file = f->path;
	if (versions_hold(&im)) {
		register_functions(&im);
		fr.opset = standard_opset(&im, f->model->opset_import, f->model->n_opset_import);
		for (size_t i = 0; i < p->n_input; i++)
			dim_names_note(c, im.scratch, &im.dims, p->input[i]->type);
		import_graph(&im, &fr, scope_new(im.scratch, g, NULL), p);
		if (!p->n_output)
			diag_error(im.diag, file_loc(&im), "the graph has no outputs");
		report_missing(&im);
	}
	arena_free(im.scratch);
	return f->diag->errors == before ? g : NULL;
}
