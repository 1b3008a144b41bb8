/* SPDX-License-Identifier: Apache-2.0 */
#include "frontend/import.h"

#include "frontend/import_impl.h"
#include "frontend/listing.h"
#include "frontend/order.h"
#include "frontend/tensor.h"

enum { INPUTS_NAMED = 8 }; /* limit on the inputs that a message names, about a line */

/* ---- Names ---- */

static Tensor *initialiser(Import *im, const Binding *b)
{
	DiagLoc loc = {.file = im->file->path, .node = b->name};

	return b->sparse ? onnx_sparse_tensor(im->file, b->sparse, loc)
			 : onnx_tensor(im->file, b->tensor, loc);
}

/* Makes the constant of an initialiser, in G. */
static Value *make_const(Import *im, Graph *g, Binding *b)
{
	DiagLoc loc = {.file = im->file->path, .node = b->name, .op = "Const"};
	Tensor *t = initialiser(im, b);
	Value *v;

	if (!t)
		return NULL;
	v = graph_const(g, t, NULL);
	v->name = b->name;
	import_add_loc(im, v->def, loc);
	return v;
}

bool import_lookup(Import *im, Scope *s, const char *name, DiagLoc loc, Value **out)
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
		if (!import_lookup(im, s->parent, name, loc, &around)) {
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

void import_bind(Scope *s, const char *name, int index, Value *v, const char *shown)
{
	Binding *b = scope_find(s, name);

	if (!b || b->kind != BIND_NODE || b->node != index)
		return;
	b->kind = BIND_VALUE;
	b->value = v;
	if (v && !v->name)
		v->name = shown;
}

const char *import_node_name(Import *im, const Frame *fr, const Onnx__NodeProto *p)
{
	return ctx_name(im->ctx, arena_printf(im->scratch, "%s%s", fr->prefix, text(p->name)));
}

/* ---- Bodies ---- */

static bool is_constant(const Onnx__NodeProto *p)
{
	return !*domain_of(p->domain) && !strcmp(text(p->op_type), "Constant");
}

/* Notes a second constant of the same name. Exporters that merge graphs write hundreds of them.
 * The last one is used, as in ONNX Runtime. */
static void see_duplicate(Import *im, const char *name)
{
	if (!im->duplicates++)
		im->duplicate = name;
}

static void warn_duplicates(const Import *im)
{
	if (im->duplicates)
		diag_warning(im->diag, import_loc(im), "duplicate",
			     "%d constant%s ignored, since a later one has the same name: \"%s\"%s",
			     im->duplicates, im->duplicates > 1 ? "s are" : " is", im->duplicate,
			     im->duplicates > 1 ? " and others" : "");
}

/* Registers a result, so that its name is found before its node is imported, and a second
 * definition is detected. */
static void register_result(Import *im, const Frame *fr, Scope *s, Nodes nodes, int index,
			    const char *name)
{
	const Onnx__NodeProto *p = nodes.at[index];
	Binding *b = scope_find(s, name);

	if (!b) {
		scope_add(s, name, BIND_NODE)->node = index;
	} else if (is_constant(p) && (b->kind == BIND_TENSOR ||
				      (b->kind == BIND_NODE && is_constant(nodes.at[b->node])))) {
		see_duplicate(im, name);
		b->kind = BIND_NODE;
		b->node = index;
	} else {
		diag_error(im->diag,
			   (DiagLoc){.file = im->file->path,
				     .node = import_node_name(im, fr, p),
				     .op = import_op_shown(im, p)},
			   "its result \"%s\" is also the name of another value", name);
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

bool import_nodes(Import *im, const Frame *fr, Scope *s, Nodes nodes)
{
	const int *order;
	int cyclic;

	if (nodes.n > INT32_MAX / 2)
		return diag_error(im->diag, import_loc(im),
				  "the graph has %zu nodes; at most %d are supported", nodes.n,
				  INT32_MAX / 2);
	register_results(im, fr, s, nodes);
	order = nodes_order(im->ctx, im->scratch, s, nodes.at, (int)nodes.n, &cyclic);
	if (cyclic >= 0) {
		const Onnx__NodeProto *p = nodes.at[cyclic];

		return diag_error(im->diag,
				  (DiagLoc){.file = im->file->path,
					    .node = import_node_name(im, fr, p),
					    .op = import_op_shown(im, p)},
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
		diag_error(im->diag, import_loc(im), "an initialiser has no name");
		return;
	}
	name = ctx_name(im->ctx, name);
	b = scope_add(s, name, BIND_TENSOR);
	if (!b) {
		see_duplicate(im, name);
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

/* ---- Inputs ---- */

static bool is_overridable(Import *im, const char *name)
{
	const Overridable *o = im->overridable;
	bool found = false;

	for (int i = 0; o && i < o->n; i++)
		if (!strcmp(o->name[i], name))
			im->found[i] = found = true;
	return found;
}

/* Whether DECLARED, the input's type in the file if there is one, fits its initialiser T. A
 * symbol fits any size. */
static bool fits_declared(const Tensor *t, const Type *declared)
{
	int64_t n;

	if (!declared || declared->kind != TYPE_TENSOR || declared->dtype != t->dtype ||
	    declared->rank != t->rank)
		return !declared;
	for (int i = 0; i < declared->rank; i++)
		if (dim_is_const(declared->dims[i], &n) && n != t->dims[i])
			return false;
	return true;
}

/* Makes the initialiser B an input whose default value it is. */
static void import_preset(Import *im, Scope *s, Binding *b, const Type *declared)
{
	const Tensor *t = initialiser(im, b);
	Dim **dims = t ? NEW_ARRAY(im->scratch, t->rank + 1, Dim *) : NULL;

	b->kind = BIND_BROKEN;
	if (!t)
		return;
	if (!fits_declared(t, declared)) {
		diag_error(im->diag, (DiagLoc){.file = im->file->path, .node = b->name},
			   "the input's declared type is not that of its initialiser");
		return;
	}
	for (int i = 0; i < t->rank; i++)
		dims[i] = dim_const(im->ctx, t->dims[i]);
	b->kind = BIND_VALUE;
	b->value = graph_input(s->graph, b->name, type_tensor(im->ctx, t->dtype, t->rank, dims));
	b->value->preset = t;
}

static bool has_shape(const Onnx__TypeProto *t)
{
	return t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && t->tensor_type->shape;
}

/* Input P is also an initialiser. Before version 4 of the IR all initialisers are inputs, and
 * mean constants. */
static void import_initialised(Import *im, Scope *s, Binding *b, const Onnx__ValueInfoProto *p)
{
	if (s->parent || im->model->ir_version < 4)
		return;
	if (is_overridable(im, b->name))
		import_preset(
			im, s, b,
			has_shape(p->type)
				? onnx_type(im->ctx, im->file, &im->dims, p->type, RANK_UNKNOWN,
					    b->name,
					    (DiagLoc){.file = im->file->path, .node = b->name})
				: NULL);
	else
		vec_push(im->scratch, &im->constants, b->name);
}

/* The names of the inputs that are constants, the first ones where they are many. */
static void put_constants(const Import *im, StrBuf *b)
{
	const int n = im->constants.n;

	for (int i = 0; i < n && i < INPUTS_NAMED; i++)
		strbuf_printf(b, "%s\"%s\"", i ? ", " : "", im->constants.at[i]);
	if (n > INPUTS_NAMED)
		strbuf_printf(b, " and %d more", n - INPUTS_NAMED);
}

/* Refuses --overridable=NAME, naming the inputs that it could be. */
static void not_overridable(const Import *im, const char *name)
{
	STRBUF_LOCAL(b);

	if (im->model->ir_version < 4) {
		diag_error(
			im->diag, import_loc(im),
			"--overridable=%s: in IR version 3 every initialiser is listed among the "
			"inputs, and is a constant; save the model in a later version",
			name);
		return;
	}
	put_constants(im, &b);
	diag_error(
		im->diag, import_loc(im),
		"--overridable=%s: the model has no input of this name with an initialiser; %s%s",
		name, b.n ? "it has " : "no other input has one", strbuf_str(&b));
}

/* Warns once about inputs that are constants; reports names in OVERRIDABLE that are not such
 * inputs. */
static void see_constants(const Import *im)
{
	const Overridable *o = im->overridable;
	const bool one = im->constants.n == 1;
	STRBUF_LOCAL(b);

	for (int i = 0; o && i < o->n; i++)
		if (!im->found[i])
			not_overridable(im, o->name[i]);
	if (!im->constants.n)
		return;
	put_constants(im, &b);
	diag_warning(
		im->diag, import_loc(im), "overridable",
		"%d input%s compiled as %s: %s; --overridable=NAME makes %s an input with that default",
		im->constants.n, one ? " has an initialiser and is" : "s have initialisers and are",
		one ? "a constant" : "constants", strbuf_str(&b), one ? "it" : "one");
}

/* Imports an input. That of a subgraph may lack a type: it has the type of the operand. */
static void import_input(Import *im, Scope *s, const Onnx__ValueInfoProto *p, int rank)
{
	const char *name = ctx_name(im->ctx, text(p->name));
	Binding *b = scope_find(s, name);
	const Type *t = NULL;

	if (b && b->kind == BIND_TENSOR) {
		import_initialised(im, s, b, p);
		return;
	}
	if (!*name || b) {
		diag_error(im->diag, import_loc(im), "two inputs are called \"%s\"", name);
		return;
	}
	if (!s->parent && rank != RANK_LEFT)
		t = onnx_type(im->ctx, im->file, &im->dims, p->type, rank, name,
			      (DiagLoc){.file = im->file->path, .node = name});
	b = scope_add(s, name, t || s->parent || rank == RANK_LEFT ? BIND_VALUE : BIND_BROKEN);
	if (b->kind == BIND_VALUE)
		b->value = graph_input(s->graph, name, t);
}

/* The sizes that T declares; -1 for one that is not a number. */
static const int64_t *claimed_dims(Import *im, const Onnx__TensorShapeProto *t)
{
	int64_t *dims = NEW_ARRAY(im->arena, t->n_dim + 1, int64_t);

	for (size_t i = 0; i < t->n_dim; i++)
		dims[i] = t->dim[i]->value_case ==
					  ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE
				  ? t->dim[i]->dim_value
				  : -1;
	return dims;
}

/* Notes the types that the file declares for results of nodes; inference checks them. */
static void import_claims(Import *im, Scope *s, Onnx__ValueInfoProto *const *info, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const Onnx__TypeProto *type = info[i]->type;
		const Binding *b = scope_find(s, ctx_name(im->ctx, text(info[i]->name)));
		const Onnx__TypeProto__Tensor *t;

		if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !b ||
		    b->kind != BIND_VALUE || !b->value || !b->value->def)
			continue;
		t = type->tensor_type;
		b->value->declared = (signed char)dtype_by_onnx(t->elem_type);
		if (t->shape && t->shape->n_dim <= MAX_RANK) {
			b->value->declared_rank = (signed char)(t->shape->n_dim + 1);
			b->value->declared_dims = claimed_dims(im, t->shape);
		}
	}
}

static void import_results(Import *im, Scope *s, const Onnx__GraphProto *g)
{
	for (size_t i = 0; i < g->n_output; i++) {
		const char *name = ctx_name(im->ctx, text(g->output[i]->name));
		DiagLoc loc = {.file = im->file->path, .node = name};
		Value *v;

		if (!import_lookup(im, s, name, (DiagLoc){.file = loc.file}, &v))
			continue;
		if (v)
			graph_result(s->graph, v, name);
		else
			diag_error(
				im->diag, loc,
				"the output has no value: it is an operand that the call of a function omits");
	}
}

static bool import_graph(Import *im, const Frame *fr, Scope *s, const Onnx__GraphProto *g)
{
	import_initialisers(im, s, g);
	for (size_t i = 0; i < g->n_input; i++)
		import_input(im, s, g->input[i], s->parent ? RANK_UNKNOWN : im->ranks[i]);
	if (!import_nodes(im, fr, s, (Nodes){g->node, g->n_node}))
		return false;
	import_results(im, s, g);
	import_claims(im, s, g->value_info, g->n_value_info);
	import_claims(im, s, g->output, g->n_output);
	return true;
}

bool import_region(Import *im, const Frame *fr, Scope *s, Node *n, const char *name,
		   const Onnx__GraphProto *g, DiagLoc loc)
{
	Frame inner = *fr;
	Graph *region = graph_new_region(n->graph, name);
	Scope *body = scope_new(im->scratch, region, s);
	int64_t captures[8];
	const int64_t *before;
	int count;

	inner.depth++;
	if (inner.depth > CALL_DEPTH)
		return diag_error(im->diag, loc, "subgraphs are nested more than %d deep",
				  CALL_DEPTH);
	before = node_ints(n, ATTR_CAPTURES, &count);
	if (count >= 8)
		return diag_error(im->diag, loc, "more than 8 attributes are graphs");
	if (count < 0)
		count = 0;
	if (count)
		memcpy(captures, before, (size_t)count * sizeof *captures);
	if (!import_graph(im, &inner, body, g))
		return false;
	vec_push(im->arena, &n->regions, region);
	for (int i = 0; i < body->captures.n; i++)
		node_set_input(n, n->nin, body->captures.at[i]);
	captures[count] = body->captures.n;
	node_set_ints(n, ATTR_CAPTURES, captures, count + 1);
	return true;
}

static bool versions_hold(Import *im)
{
	int64_t v = im->model->ir_version;

	if (v >= IR_VERSION_MIN && v <= IR_VERSION_MAX)
		return true;
	return diag_error(im->diag, import_loc(im),
			  "IR version %lld; this compiler reads versions %d to %d: %s",
			  (long long)v, IR_VERSION_MIN, IR_VERSION_MAX,
			  v > IR_VERSION_MAX ? "save the model with an older onnx package"
					     : "load and save it once with a newer onnx package");
}

Graph *onnx_import(Ctx *c, Arena *a, OnnxFile *f, const Overridable *overridable)
{
	return import_ranked(c, a, f, overridable, import_ranks(a, f, overridable));
}

/* The metadata of the model; null: it has only a name of its graph. */
static const Metadata *metadata(Arena *a, const Onnx__ModelProto *m)
{
	const Onnx__GraphProto *g = m->graph;
	Metadata *d = NEW(a, Metadata);

	*d = (Metadata){.producer = text(m->producer_name),
			.producer_version = text(m->producer_version),
			.domain = text(m->domain),
			.doc = text(m->doc_string),
			.graph = text(g->name),
			.graph_doc = text(g->doc_string),
			.version = m->model_version};
	if (!m->n_metadata_props && !m->model_version && !*d->producer && !*d->producer_version &&
	    !*d->domain && !*d->doc && !*d->graph_doc)
		return NULL;
	for (const MetadataText *t = metadata_texts; t->name; t++) {
		const char **text = (const char **)((char *)d + t->at);

		*text = arena_strdup(a, *text);
	}
	for (size_t i = 0; i < m->n_metadata_props; i++) {
		const Onnx__StringStringEntryProto *p = m->metadata_props[i];

		vec_push(a, &d->properties,
			 ((Property){arena_strdup(a, text(p->key)),
				     arena_strdup(a, text(p->value))}));
	}
	return d;
}

Graph *import_ranked(Ctx *c, Arena *a, OnnxFile *f, const Overridable *overridable, const int *ranks)
{
	Import im = {.ctx = c,
		     .arena = a,
		     .scratch = arena_new(),
		     .file = f,
		     .diag = f->diag,
		     .model = f->model,
		     .overridable = overridable,
		     .ranks = ranks};
	const Onnx__GraphProto *p = f->model->graph;
	Frame fr = {.prefix = ""};
	Graph *g = graph_new(c, a, "main");
	int before = f->diag->errors;

	g->file = f->path;
	g->metadata = metadata(a, f->model);
	f->strings = c->strings;
	if (versions_hold(&im)) {
		import_functions(&im);
		import_opsets(&im, &fr, f->model->opset_import, f->model->n_opset_import);
		for (size_t i = 0; i < p->n_input; i++)
			dim_names_note(c, im.scratch, &im.dims, p->input[i]->type);
		for (size_t i = 0; i < p->n_input; i++)
			dim_names_take(c, &im.dims, p->input[i]->type);
		import_graph(&im, &fr, scope_new(im.scratch, g, NULL), p);
		if (!p->n_output)
			diag_error(im.diag, import_loc(&im), "the graph has no outputs");
		import_missing(&im);
		warn_duplicates(&im);
		see_constants(&im);
	}
	g->opset = im.newest;
	arena_free(im.scratch);
	return f->diag->errors == before ? g : NULL;
}
