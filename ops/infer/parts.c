/* SPDX-License-Identifier: Apache-2.0 */
/* Values that are not tensors, as tensors. */
#include "ops/infer/parts.h"

#include "ops/infer/infer.h"

/* ---- Types ---- */

static bool is_tensor(const Type *t)
{
	return t->kind == TYPE_TENSOR;
}

static bool is_optional_sequence(const Type *t)
{
	return t->kind == TYPE_OPTIONAL && t->elem->kind == TYPE_SEQUENCE;
}

static bool unsupported(Infer *in, Node *n, const Type *t, const char *why)
{
	STRBUF_LOCAL(b);

	type_print(&b, t);
	infer_error(in, n, "a value of type %s: %s", strbuf_str(&b), why);
	return false;
}

static bool known_parts(Infer *in, Node *n, const Type *t)
{
	const Type *elem = type_listed(t);

	if (!type_parts(t))
		return unsupported(
			in, n, t,
			"sequences and optionals of tensors, optional sequences of them, "
			"maps and sequences of maps are supported");
	if (elem && elem->rank < 0)
		return unsupported(in, n, t, "the rank of its tensors is not known");
	if (elem && !elem->dtype)
		return unsupported(in, n, t, "the type of its elements is not known");
	return true;
}

/* ---- Joining ---- */

Value *parts_join(Infer *in, Node *n, const Type *t, Value *const *part)
{
	Node *j;

	if (is_tensor(t))
		return part[0];
	j = expand_start(in, n, OP_Join, part, type_parts(t), 1);
	node_set_attr(j, (Attr){.name = "type", .kind = ATTR_TYPE, .type = t});
	return expand_finish(in, j);
}

/* The type of part K of a value of type T. SIZE has the dims that differ between values. */
static const Type *part_type(Ctx *c, const Type *t, int k, Dim *const *size)
{
	const Type *elem = type_listed(t), *map = type_map_of(t);

	if (map && k == 0)
		return type_tensor(c, map->dtype, 1, size);
	if (map)
		return t == map ? type_tensor(c, map->elem->dtype, 1, size)
				: type_tensor(c, map->elem->dtype, 2, (Dim *[]){size[1], size[0]});
	if (k == 0)
		return type_tensor(c, elem->dtype, 1, size);
	if (k == 1)
		return type_tensor(c, DT_I64, 2, (Dim *[]){size[1], dim_const(c, elem->rank)});
	return type_tensor(c, DT_I64, 1, size + 2);
}

static bool infer_join(Infer *in, Node *n)
{
	const Attr *a = node_attr(n, "type");
	const Type *t = a && a->kind == ATTR_TYPE ? a->type : NULL;

	if (!t || is_tensor(t))
		return infer_error(in, n, "has no type");
	if (!known_parts(in, n, t))
		return false;
	if (n->nin != type_parts(t))
		return infer_error(in, n, "has %d operands, expected %d", n->nin, type_parts(t));
	for (int k = 0; k < n->nin; k++)
		if (!infer_type(n, k) || !type_is_part(t, k, infer_type(n, k)))
			return infer_error(
				in, n, "operand %d has another type than its form requires", k + 1);
	n->out[0]->type = t;
	return true;
}

const Op op_Join = {.infer = infer_join};

/* ---- Taking apart ---- */

/* The node that computes V, which is not a tensor. */
static const Node *made_by(const Value *v)
{
	while (v->def->op == OP_Identity)
		v = node_in(v->def, 0);
	return v->def;
}

Items items_of(Infer *in, Node *n, Value *v)
{
	Items s = {.elem = type_listed(v->type)};
	const Node *def = made_by(v);
	Value **at;

	if (def->op == OP_Join) {
		s.data = node_in(def, 0);
		s.shapes = node_in(def, 1);
		s.count = node_in(def, 2);
		return s;
	}
	if (def->op == OP_Optional && node_in(def, 0) && is_optional_sequence(v->type))
		return items_of(in, n, node_in(def, 0));
	at = NEW_ARRAY(in->arena, def->nin + 1, Value *);
	for (int i = 0; i < def->nin; i++)
		at[i] = node_in(def, i);
	s.listed = true;
	s.at = at;
	s.n = def->nin;
	s.absent = def->op == OP_Optional && !def->nin;
	return s;
}

Dim *items_count(Infer *in, const Items *s)
{
	return s->listed ? dim_const(in->ctx, s->n) : s->shapes->type->dims[0];
}

/* An empty vector, or matrix with COLUMNS columns. */
static Value *nothing(Infer *in, Node *n, DType t, int columns)
{
	return expand_tensor(in, n,
			     tensor_new(in->arena, t, columns < 0 ? 1 : 2,
					(int64_t[]){0, columns < 0 ? 0 : columns}));
}

/* The elements and shapes of the tensors AT, all of rank RANK. */
static void put_together(Infer *in, Node *n, Value *const *at, int count, int rank, Value **part)
{
	Value **data = NEW_ARRAY(in->arena, 2 * count + 1, Value *), **shape = data + count;

	for (int i = 0; i < count; i++) {
		const Type *t = at[i]->type;
		Dim *numel = type_numel(in->ctx, t), *row[2];

		row[0] = dim_const(in->ctx, 1);
		row[1] = dim_const(in->ctx, rank);
		data[i] = expand_reshape(in, n, at[i], &numel, 1);
		shape[i] = expand_reshape(in, n, expand_sizes(in, n, t->dims, rank), row, 2);
	}
	part[0] = count == 1 ? data[0] : expand_node_ints(in, n, OP_Concat, data, count, "axis", 0);
	part[1] = count == 1 ? shape[0]
			     : expand_node_ints(in, n, OP_Concat, shape, count, "axis", 0);
}

/* The parts of S as tensors of rank RANK. */
static bool list_parts(Infer *in, Node *n, const Items *s, const Type *elem, Value **part)
{
	if (s->listed) {
		for (int i = 0; i < s->n; i++)
			if (s->at[i]->type->rank != elem->rank)
				return infer_error(
					in, n,
					"the sequence has tensors of rank %d and of rank %d, and which "
					"one is used is not known when compiling",
					elem->rank, s->at[i]->type->rank);
		if (s->n) {
			put_together(in, n, s->at, s->n, elem->rank, part);
			return true;
		}
	} else if (s->elem->rank == elem->rank) {
		part[0] = s->data;
		part[1] = s->shapes;
		return true;
	} else if (!infer_equal(in, n, items_count(in, s), dim_const(in->ctx, 0),
				"a sequence whose tensors have another rank than others that take "
				"its place must be empty")) {
		return false;
	}
	part[0] = nothing(in, n, elem->dtype, -1);
	part[1] = nothing(in, n, DT_I64, elem->rank);
	return true;
}

bool parts_of(Infer *in, Node *n, Value *v, const Type *as, Value **part)
{
	const Type *elem = type_listed(as);
	Items s = {.listed = true, .at = &v, .n = 1};

	if (is_tensor(as)) {
		part[0] = v;
		return is_tensor(v->type) || infer_error(in, n, "a tensor was expected");
	}
	if (!known_parts(in, n, as))
		return false;
	if (type_map_of(as)) {
		for (int k = 0; k < 2; k++)
			part[k] = node_in(made_by(v), k);
		return v->type == as || unsupported(in, n, v->type, "a map was expected");
	}
	if (!is_tensor(v->type))
		s = items_of(in, n, v);
	if (!list_parts(in, n, &s, elem, part))
		return false;
	if (!is_optional_sequence(as))
		return true;
	if (s.count) {
		part[2] = s.count;
	} else if (s.absent) {
		part[2] = nothing(in, n, DT_I64, -1);
	} else {
		Dim *count = items_count(in, &s);

		part[2] = expand_sizes(in, n, &count, 1);
	}
	return true;
}

const Type *parts_merge(Infer *in, Node *n, const Type *a, const Type *b, const char *what)
{
	const Type *x, *y;

	if (a == b)
		return a;
	if (is_tensor(a) && is_tensor(b))
		return a;
	if (a->kind == TYPE_OPTIONAL && b->kind != TYPE_OPTIONAL)
		b = type_optional(in->ctx, b);
	else if (b->kind == TYPE_OPTIONAL && a->kind != TYPE_OPTIONAL)
		a = type_optional(in->ctx, a);
	x = type_listed(a);
	y = type_listed(b);
	if (!x || !y || (x->dtype != y->dtype && x->dtype && y->dtype) || a->kind != b->kind ||
	    is_optional_sequence(a) != is_optional_sequence(b)) {
		STRBUF_LOCAL(s);

		type_print(&s, a);
		strbuf_puts(&s, " and ");
		type_print(&s, b);
		infer_error(in, n, "%s has the types %s", what, strbuf_str(&s));
		return NULL;
	}
	/* where the ranks are known and differ, the one of the smaller rank must be empty */
	return y->rank < 0 || (x->rank >= y->rank && x->dtype) ? a : b;
}

const Type *parts_ranked(Infer *in, Node *n, Value *v)
{
	const Type *elem = type_listed(v->type), *t;
	Items s;

	if (!elem || elem->rank >= 0)
		return v->type;
	s = items_of(in, n, v);
	t = type_items(in->ctx, elem->dtype, s.n ? s.at[0]->type->rank : 0);
	t = v->type->kind == TYPE_SEQUENCE || is_optional_sequence(v->type)
		    ? type_sequence(in->ctx, t)
		    : type_optional(in->ctx, t);
	return is_optional_sequence(v->type) ? type_optional(in->ctx, t) : t;
}

Items items_with_parts(Infer *in, Node *n, Value *v, const Type *first)
{
	const Type *elem = type_listed(v->type), *t;
	const Type *known = parts_ranked(in, n, v);
	Items s = items_of(in, n, v);
	Value *part[PARTS_MAX];

	elem = first ? type_items(in->ctx, elem->dtype ? elem->dtype : first->dtype, first->rank)
		     : type_listed(known);
	t = type_sequence(in->ctx, elem);
	if (!parts_of(in, n, v, v->type->kind == TYPE_OPTIONAL ? type_optional(in->ctx, elem) : t,
		      part))
		return (Items){0};
	s.elem = elem;
	s.listed = false;
	s.data = part[0];
	s.shapes = part[1];
	return s;
}

/* ---- The graph's inputs and results ---- */

static void note_form(Graph *g, GraphForms *forms, const char *name, const Type *t)
{
	const GraphForm f = {.name = name, .type = is_tensor(t) ? NULL : t, .parts = type_parts(t)};

	vec_push(g->arena, forms, f);
}

static bool any_form(const GraphForms *f)
{
	for (int i = 0; i < f->n; i++)
		if (f->at[i].type)
			return true;
	return false;
}

static const char *part_word(const Type *t, int k)
{
	static const char *const of_list[] = {"elements", "shapes", "count"};
	static const char *const of_map[] = {"keys", "values"};

	return type_map_of(t) ? of_map[k] : of_list[k];
}

/* A symbol for a size of input NAME. */
static Dim *size_of_input(Ctx *c, const char *name, int64_t most)
{
	Sym *s = sym_fresh(c, name);

	sym_bound(c, s, 0, most);
	return s->dim;
}

/* Replaces input V, of type T, by its parts: new inputs in PART, and a Join before the node N. */
static bool split_input(Infer *in, Value *v, Value **part)
{
	const Type *t = v->type;
	const bool map = type_map_of(t) != NULL;
	Ctx *c = in->ctx;
	Node *first = in->graph->first, *j;
	Dim *size[PARTS_MAX];
	DiagLoc loc = {.file = in->graph->file, .node = v->name};
	const bool passed = type_parts(t) && (!map || t->kind == TYPE_MAP);

	if (!passed || (!map && type_listed(t)->rank < 0)) {
		STRBUF_LOCAL(b);

		type_print(&b, t);
		in->errors++;
		diag_error(
			c->diag, loc,
			passed ? "its type is %s: the rank of its tensors is not known; export the model "
				 "with a shape for them"
			       : "its type is %s, which is not supported as an input",
			strbuf_str(&b));
		return false;
	}
	size[0] = size_of_input(c, map ? "keys" : "elements", DIM_FAR);
	size[1] = size_of_input(c, map ? "maps" : "tensors",
				t->kind == TYPE_OPTIONAL && !is_optional_sequence(t) ? 1 : DIM_FAR);
	size[2] = is_optional_sequence(t) ? size_of_input(c, "count", 1) : NULL;
	for (int k = 0; k < type_parts(t); k++)
		part[k] = graph_input(
			in->graph,
			arena_printf(in->arena, "%s.%s", v->name ? v->name : "", part_word(t, k)),
			part_type(c, t, k, size));
	j = node_new(in->graph, OP_Join, part, type_parts(t), 1, first);
	node_set_attr(j, (Attr){.name = "type", .kind = ATTR_TYPE, .type = t});
	infer_node(in, j);
	value_replace(v, j->out[0]);
	return true;
}

/* Whether the values V match FORMS, which the graph had before inference. */
static bool forms_hold(Infer *in, const GraphForms *forms, const char *what, Value *const *v)
{
	for (int i = 0, first = 0; i < forms->n; first += forms->at[i++].parts)
		for (int k = 0; k < forms->at[i].parts; k++) {
			const Type *t = forms->at[i].type, *have = v[first + k]->type;
			const DiagLoc loc = {.file = in->graph->file, .node = forms->at[i].name};

			if (have && (t ? type_is_part(t, k, have) : is_tensor(have)))
				continue;
			in->errors++;
			return diag_error(
				in->ctx->diag, loc,
				"tensor %d of the %s has another type than its form requires", k + 1,
				what);
		}
	return true;
}

bool parts_of_inputs(Infer *in)
{
	Graph *g = in->graph;
	const int count = g->inputs.n;
	Value **old = arena_copy(in->arena, g->inputs.at, (size_t)count * sizeof *old);
	Value **now = NEW_ARRAY(in->arena, PARTS_MAX * count + 1, Value *);
	bool ok = true;
	int n = 0;

	if (g->takes.n)
		return forms_hold(in, &g->takes, "inputs", old);
	for (int i = 0; i < count; i++) {
		const Type *t = old[i]->type;

		if (!t || is_tensor(t)) {
			now[n++] = old[i];
		} else if (split_input(in, old[i], now + n)) {
			n += type_parts(t);
		} else {
			ok = false;
		}
		if (t && ok)
			note_form(g, &g->takes, old[i]->name, t);
	}
	if (!ok)
		return false;
	if (!any_form(&g->takes))
		g->takes.n = 0;
	else
		graph_set_inputs(g, now, n);
	return true;
}

/* Removes unused nodes whose results are not tensors. */
static void remove_joins(Graph *g)
{
	for (Node *n = g->last, *prev; n; n = prev) {
		prev = n->prev;
		if (n->nout == 1 && n->out[0] && n->out[0]->type && !is_tensor(n->out[0]->type) &&
		    !n->out[0]->uses)
			node_remove(n);
	}
}

bool parts_of_results(Infer *in)
{
	Graph *g = in->graph;
	const int count = g->results.n;
	Value **now = NEW_ARRAY(in->arena, PARTS_MAX * count + 1, Value *);
	const char **names = NEW_ARRAY(in->arena, PARTS_MAX * count + 1, const char *);
	bool ok = true;
	int n = 0;

	if (g->gives.n) {
		for (int i = 0; i < count; i++)
			now[i] = g->results.at[i]->value;
		ok = forms_hold(in, &g->gives, "results", now);
		remove_joins(g);
		return ok;
	}
	for (int i = 0; i < count && ok; i++) {
		Value *v = g->results.at[i]->value;
		const char *name = g->result_names.at[i];
		Node *end = node_new(g, OP_Join, NULL, 0, 0, NULL);
		const Type *t;

		if (v->def)
			node_locs_from(end, v->def);
		t = parts_ranked(in, end, v);
		ok = parts_of(in, end, v, t, now + n);
		for (int k = 0; k < type_parts(t) && ok; k++)
			names[n + k] = is_tensor(t)
					       ? name
					       : arena_printf(in->arena, "%s.%s", name ? name : "",
							      part_word(t, k));
		n += type_parts(t);
		note_form(g, &g->gives, name, t);
		node_remove(end);
	}
	if (ok && any_form(&g->gives))
		graph_set_results(g, now, names, n);
	else
		g->gives.n = 0;
	if (ok)
		remove_joins(g);
	return ok;
}
