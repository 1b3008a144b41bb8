/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caches (--caches-as): stores the caches of a language model as f16, bf16 or i8. A cache is an f32
 * input together with a result that is this input with new rows appended, or written into it,
 * perhaps after padding. If a Concat has several such operands, the first is the cache:
 *
 *     present = Concat(past, new)              present = TensorScatter(Pad(past), new, start)
 *
 * Both get the narrow type, which becomes the type of the model's input and output:
 *
 *     present = Concat(past, Cast(new))
 *
 * and their readers read Cast(present), or Cast(past), instead. Only new elements are rounded,
 * once. The result may still share the input's memory (passes/memory/alias.c), since the elements
 * of `past` are not converted.
 *
 * Caches of i8 have f32 scales: another input and another result, whose last dim is 1, or the dim
 * before it if rows are appended along the last one. So each key and each value of a head has its
 * own scale, its largest magnitude / 127, and no row affects another row's scale. This takes two
 * dims besides the batch, which is dim 0: TensorScatter writes each of its elements at a different
 * row. A cache with only one other dim remains f32.
 *
 *     scale = max over row of |new| / 127
 *     present = Concat(past, Cast(Round(new / scale)))    present.scale = Concat(past.scale, scale)
 *
 * Readers of the cache read Cast(present) * present.scale.
 *
 * The pass runs after `infer`, which expands attention with a cache to such nodes, and before
 * `canon`, which removes pairs of Casts that cancel.
 */
#include "passes/module.h"

#include <float.h>
#include <string.h>

DType caches_type(const char *name)
{
	const DType t = dtype_by_name(name);

	return t == DT_F16 || t == DT_BF16 || t == DT_I8 ? t : DT_NONE;
}

typedef struct Cache {
	Graph *g;
	DType type;
	Node *node; /* computes the result */
	Node *pad;  /* adds rows to the input; or null */
	Value *past;
	int slot; /* the operand of NODE that is the cache; the others may be new rows */
	int row;  /* the dim along which a row has one scale */
} Cache;

/* A node with one result, of type T with dims like V; dim ONE, unless that is -1, has one
 * element. */
static Value *made(Graph *g, OpKind op, Value *const *in, int nin, DType t, const Value *v, int one,
		   Node *before)
{
	Node *n = node_new(g, op, in, nin, 1, before);
	Dim *dims[MAX_RANK];

	for (int d = 0; d < v->type->rank; d++)
		dims[d] = d == one ? dim_const(g->ctx, 1) : v->type->dims[d];
	n->out[0]->type = type_tensor(g->ctx, t, v->type->rank, dims);
	return n->out[0];
}

static Value *cast(Graph *g, Value *v, DType t, Node *before)
{
	Value *made_value = made(g, OP_Cast, &v, 1, t, v, -1, before);

	node_set_int(made_value->def, "to", dtype_info[t].onnx);
	return made_value;
}

/* Whether V is an f32 tensor that callers pass, without a default. */
static bool is_input(const Value *v)
{
	return v && !v->def && !v->preset && v->type->dtype == DT_F32 && v->type->rank > 0;
}

/* Axis A of V, which counts from the end if it is negative. */
static int64_t from_end(int64_t a, const Value *v)
{
	return a < 0 ? a + v->type->rank : a;
}

/* Whether N only appends rows of zeros to an input, or cuts rows off it, along dim AXIS, and
 * nothing else reads the result. */
static bool adds_rows(const Node *n, int64_t axis)
{
	const Tensor *fill, *axes;

	if (!n || n->op != OP_Pad || strcmp(node_str(n, "mode", "constant"), "constant") ||
	    !is_input(node_in(n, 0)) || !node_in(n, 2) || !node_in(n, 3) ||
	    !value_used_once(n->out[0]))
		return false;
	fill = value_const(node_in(n, 2));
	axes = value_const(node_in(n, 3));
	return fill && tensor_is_zero(fill) && axes && tensor_numel(axes) == 1 &&
	       from_end(dtype_load_i64(axes->dtype, axes->data, 0), node_in(n, 0)) == axis;
}

/* If N, the node of a result, appends to an input or writes into it, sets C's members except the
 * type. */
static bool is_cache(Graph *g, Node *n, Cache *c)
{
	int64_t axis;
	Value *v;

	*c = (Cache){.g = g, .node = n};
	if (!n || n->graph != g || (n->op != OP_Concat && n->op != OP_TensorScatter))
		return false;
	v = node_in(n, 0);
	axis = from_end(node_int(n, "axis", n->op == OP_Concat ? 0 : -2), v);
	if (n->op == OP_TensorScatter && adds_rows(v->def, axis)) {
		c->pad = v->def;
		v = node_in(c->pad, 0);
	}
	while (n->op == OP_Concat && c->slot < n->nin && !is_input(v))
		v = node_in(n, ++c->slot);
	if (!is_input(v))
		return false;
	c->past = v;
	c->row = axis == v->type->rank - 1 ? v->type->rank - 2 : v->type->rank - 1;
	return true;
}

static bool is_new(const Cache *c, int operand)
{
	return c->node->op == OP_Concat ? operand != c->slot : operand == 1;
}

/* Computes the scales of NEW, which become operands of NODE, and sets *V to NEW divided by them. */
static Value *scaled(const Cache *c, Value *new, Value **v)
{
	Graph *g = c->g;
	Node *at = c->node;
	const int64_t row = c->row;
	Value *axis = graph_const_ints(g, &row, 1, at), *s;
	Value *per = graph_const_scalar(g, DT_F32, 1.0 / 127, at),
	      *least = graph_const_scalar(g, DT_F32, (double)FLT_MIN, at);

	s = made(g, OP_Abs, &new, 1, DT_F32, new, -1, at);
	s = made(g, OP_ReduceMax, (Value *[]){s, axis}, 2, DT_F32, new, c->row, at);
	s = made(g, OP_Mul, (Value *[]){s, per}, 2, DT_F32, s, -1, at);
	s = made(g, OP_Max, (Value *[]){s, least}, 2, DT_F32, s, -1, at); /* a row of zeros */
	*v = made(g, OP_Div, (Value *[]){new, s}, 2, DT_F32, new, -1, at);
	*v = made(g, OP_Round, v, 1, DT_F32, new, -1, at);
	*v = cast(g, *v, DT_I8, at);
	return s;
}

/* A copy of N before BEFORE, whose operands are IN, for scales. */
static Value *of_scales(const Cache *c, const Node *n, Value *const *in, Node *before)
{
	Value *v = made(c->g, n->op, in, n->nin, DT_F32, n->out[0], c->row, before);

	for (int i = 0; i < n->attrs.n; i++)
		node_set_attr(v->def, n->attrs.at[i]);
	node_locs_from(v->def, n);
	return v;
}

static bool is_taken(const Graph *g, const char *name)
{
	for (int i = 0; i < g->inputs.n; i++)
		if (g->inputs.at[i]->name && !strcmp(g->inputs.at[i]->name, name))
			return true;
	for (int i = 0; i < g->results.n; i++)
		if (g->result_names.at[i] && !strcmp(g->result_names.at[i], name))
			return true;
	return false;
}

/* NAME with ".scale" appended, repeatedly until the name is new. */
static const char *name_of_scales(const Graph *g, const char *name)
{
	do
		name = arena_printf(g->arena, "%s.scale", name ? name : "");
	while (is_taken(g, name));
	return name;
}

/* Appends the tensor of one form. */
static void add_form(Graph *g, GraphForms *f, const char *name)
{
	if (f->n)
		vec_push(g->arena, f, ((GraphForm){.name = name, .parts = 1}));
}

/* The input with the scales of the past. */
static Value *past_scales(const Cache *c)
{
	Graph *g = c->g;
	const Type *t = c->past->type;
	const char *name = ctx_name(g->ctx, name_of_scales(g, c->past->name));
	Dim *dims[MAX_RANK];

	for (int d = 0; d < t->rank; d++)
		dims[d] = d == c->row ? dim_const(g->ctx, 1) : t->dims[d];
	add_form(g, &g->takes, name);
	return graph_input(g, name, type_tensor(g->ctx, DT_F32, t->rank, dims));
}

static bool is_read(const Value *v, const Node *by)
{
	for (const Use *u = v->uses; u; u = u->next)
		if (u->user && u->user != by)
			return true;
	return false;
}

/* V gets the narrow type. Nodes that read it, except for N, read its values as f32 instead,
 * computed before BEFORE, times SCALES unless that is null. If V is a result of the graph, that
 * result is narrow. */
static void make_narrow(const Cache *c, Value *v, Value *scales, const Node *n, Node *before)
{
	Graph *g = c->g;
	Value *wide = is_read(v, n) ? cast(g, v, DT_F32, before) : NULL;
	const Node *cast_node = wide ? wide->def : NULL;

	if (wide && scales)
		wide = made(g, OP_Mul, (Value *[]){wide, scales}, 2, DT_F32, v, -1, before);
	for (Use *u = v->uses, *next; u; u = next) {
		next = u->next;
		if (u->user && u->user != n && u->user != cast_node)
			node_set_input(u->user, u->slot, wide);
	}
	v->type = type_tensor(g->ctx, c->type, v->type->rank, v->type->dims);
}

/* Stores the cache C in its narrow type; NODE computes result number RESULT of the graph. */
static void narrow_cache(const Cache *c, int result)
{
	Graph *g = c->g;
	Node *n = c->node, *next = n->next;
	const bool scales = c->type == DT_I8;
	Value **of = NEW_ARRAY(g->arena, n->nin, Value *), *old = scales ? past_scales(c) : NULL,
	      *present = NULL, *v;

	for (int i = 0; i < n->nin; i++) {
		of[i] = node_in(n, i);
		if (!is_new(c, i))
			continue;
		if (scales)
			of[i] = scaled(c, of[i], &v);
		else
			v = cast(g, of[i], c->type, n);
		node_set_input(n, i, v);
	}
	if (scales) {
		of[c->slot] = c->pad ? of_scales(c, c->pad,
						 (Value *[]){old, node_in(c->pad, 1),
							     node_in(c->pad, 2),
							     node_in(c->pad, 3)},
						 n)
				     : old;
		present = of_scales(c, n, of, next);
		add_form(g, &g->gives, name_of_scales(g, g->result_names.at[result]));
		graph_result(g, present, name_of_scales(g, g->result_names.at[result]));
	}
	if (c->pad) {
		node_set_input(c->pad, 2, graph_const_scalar(g, c->type, 0, c->pad));
		c->pad->out[0]->type = type_tensor(g->ctx, c->type, c->past->type->rank,
						   c->pad->out[0]->type->dims);
	}
	make_narrow(c, c->past, old, c->pad ? c->pad : n, g->first);
	make_narrow(c, n->out[0], present, present ? present->def : NULL, next);
}

/* False if the warning is an error. */
static bool stays_wide(Module *m, const Cache *c)
{
	return diag_warning(m->ctx->diag, node_diag(c->node), "fallback",
			    "--caches-as=i8: a cache of %d dims has no dim for scales; it remains f32",
			    c->past->type->rank);
}

bool pass_caches(Module *m)
{
	Graph *g = m->graph;
	const int n = g->results.n;
	Cache c;
	int caches = 0, wide = 0;

	if (!m->opt.caches)
		return true;
	for (int i = 0; i < n; i++) {
		if (!is_cache(g, g->results.at[i]->value->def, &c))
			continue;
		if (m->opt.caches == DT_I8 && c.row < 1) {
			if (!stays_wide(m, &c))
				return false;
			wide++;
			continue;
		}
		c.type = m->opt.caches;
		narrow_cache(&c, i);
		caches++;
	}
	if (!caches)
		return diag_error(
			m->ctx->diag, (DiagLoc){0},
			"--caches-as: no result of the model is an f32 input with rows appended (Concat) or written into it (TensorScatter, or an attention's past and present)%s",
			wide ? ", with dims for scales" : "");
	if (m->report)
		fprintf(m->report, "; caches: %d, as inputs and outputs, are %s now%s\n", caches,
			dtype_info[m->opt.caches].name,
			m->opt.caches == DT_I8
				? ", and have scales, which are inputs and outputs, too"
				: "");
	return true;
}
