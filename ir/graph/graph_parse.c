/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what graph_print wrote (docs/ir.md has the grammar). Only the first fault is reported;
 * objects that were read before it remain in the arena. Symbols get their bounds after everything
 * has been read. Otherwise a bound might simplify a min or max that the printed graph still has,
 * because it was built before the bound was known.
 */
#include "ir/graph/graph.h"

#include "ir/graph/blocks.h"
#include "ir/graph/definition.h"
#include "ir/graph/text_impl.h"
#include "ir/loop/loop.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

enum {
	MAX_REGION_DEPTH = 64, /* as deep as subgraphs of an ONNX file may be nested */
	MAX_OPERANDS = 1 << 16
};

/* ---- Values ---- */

static NamedValue *named_slot(const GraphText *r, const char *label)
{
	size_t mask = (size_t)r->cap - 1, i = hash_bytes(HASH_SEED, &label, sizeof label) & mask;

	while (r->map[i].label && r->map[i].label != label)
		i = (i + 1) & mask;
	return &r->map[i];
}

static void grow_map(GraphText *r)
{
	NamedValue *old = r->map;
	int cap = r->cap;

	r->cap = cap ? cap * 2 : 256;
	r->map = NEW_ARRAY(r->tmp, r->cap, NamedValue);
	for (int i = 0; i < cap; i++)
		if (old[i].label)
			*named_slot(r, old[i].label) = old[i];
}

bool text_label(GraphText *r, const char *label, Value *v)
{
	if ((r->n + 1) * 2 > r->cap)
		grow_map(r);
	if (named_slot(r, label)->label)
		return text_fault(r, r->line, "the value %%%s is defined twice", label);
	*named_slot(r, label) = (NamedValue){label, v};
	r->n++;
	return true;
}

/* Reads a label and makes the value V for it. V's name is the name in the text, else the label. */
static bool read_definition(GraphText *r, Value *(*make)(void *arg), void *arg, Value **out)
{
	const char *label = text_value_label(r), *name = NULL;
	Value *v;

	if (!label)
		return false;
	if (text_peek(r) == '"' && !(name = text_string(r)))
		return false;
	if (r->cap && named_slot(r, label)->label)
		return text_fault(r, r->line, "the value %%%s is defined twice", label);
	v = make(arg);
	v->name = name ? name : isdigit((unsigned char)*label) ? NULL : label;
	*out = v;
	return text_label(r, label, v);
}

/* Whether LABEL is an operand of a definition, and the node that it is read for omits it. */
static bool is_omitted(const GraphText *r, const char *label)
{
	const NamedValue *at = r->cap ? named_slot(r, label) : NULL;

	return at && at->label && !at->v;
}

static Value *find_value(GraphText *r, const Graph *g, const char *label, int line)
{
	const NamedValue *at = r->cap ? named_slot(r, label) : NULL;
	Value *v = at && at->label ? at->v : NULL;
	bool here = v && (v->def ? v->def->graph == g
				 : v->index < g->inputs.n && g->inputs.at[v->index] == v);

	if (here)
		return v;
	text_fault(r, line,
		   v ? "the value %%%s is of another graph"
		     : "the value %%%s is not defined before this",
		   label);
	return NULL;
}

/* ---- Nodes ---- */

/* Reads a location, after the @. */
static bool read_loc(GraphText *r, const char *op, Loc *l)
{
	*l = (Loc){.op = op};
	if (!text_take_word(r, "_") && !(l->node = text_string(r)))
		return false;
	if (*r->p != '(')
		return true;
	r->p++;
	l->op = NULL;
	if (text_take(r, ")"))
		return true;
	return (l->op = text_name(r)) && text_want(r, ")");
}

static bool read_locs(GraphText *r, Node *n)
{
	const char *call = node_str(n, CALL_NAME, NULL);
	const char *op = call ? definition_shown(r->ctx, call)
			      : ctx_name(r->ctx, op_row[n->op].name);

	if (!text_take(r, "@"))
		return true;
	do {
		Loc l;

		if (n->locs && !text_want(r, "@"))
			return false;
		if (!read_loc(r, op, &l))
			return false;
		n->locs = locs_union(r->arena, n->locs, locs_one(r->arena, l));
	} while (text_take(r, ","));
	return true;
}

/* Skips the text of a node's results, which are read once the operator is known; returns their
 * number. */
static int skip_results(GraphText *r)
{
	int n = 0;

	if (text_peek(r) != '%' && !(*r->p == '_' && !text_is_word_char(r->p[1])))
		return 0;
	do {
		if (!text_take_word(r, "_")) {
			if (!text_value_label(r) || (text_peek(r) == '"' && !text_string(r)))
				return -1;
		}
		n++;
	} while (text_take(r, ","));
	return text_want(r, "=") ? n : -1;
}

typedef struct OperandSlot {
	Node *n;
	int k;
} OperandSlot;

static Value *result_at(void *arg)
{
	const OperandSlot *s = arg;

	return s->n->out[s->k];
}

static bool read_results(GraphText *r, Node *n)
{
	Value *v;

	for (int k = 0; k < n->nout; k++) {
		OperandSlot s = {n, k};

		if (k && !text_want(r, ","))
			return false;
		if (text_take_word(r, "_"))
			n->out[k] = NULL;
		else if (!read_definition(r, result_at, &s, &v))
			return false;
	}
	return true;
}

/* Reads a value's type, and its place if that is not the device. */
static bool read_type(GraphText *r, Value *v)
{
	int64_t size;

	if (!text_type(r, &v->type))
		return false;
	for (int i = 0; v->type && v->type->kind == TYPE_TENSOR && i < v->type->rank; i++)
		if (dim_is_const(v->type->dims[i], &size) && size < 0)
			return text_fault(r, r->line,
					  "dim %d of the type is %lld; sizes are 0 or more", i,
					  (long long)size);
	v->place = text_take_word(r, "host")   ? ON_HOST
		   : text_take_word(r, "both") ? ON_BOTH
					       : ON_DEVICE;
	return true;
}

static bool read_types(GraphText *r, Node *n)
{
	if (!n->nout)
		return true;
	if (!text_take(r, ":"))
		return text_fail(r, "':' and the results' types, which may be ?");
	for (int k = 0; k < n->nout; k++) {
		if (k && !text_want(r, ","))
			return false;
		if (!n->out[k]) {
			if (!text_take_word(r, "_"))
				return text_fail(r, "'_' for the omitted result");
			continue;
		}
		if (!read_type(r, n->out[k]))
			return false;
	}
	return true;
}

static bool read_operands(GraphText *r, Graph *g, Value ***in, int *nin)
{
	VEC(Value *) v = {0};

	*nin = 0;
	if (!text_take(r, "("))
		return true;
	while (!text_take(r, ")")) {
		const char *label;
		Value *x = NULL;

		if (v.n && !text_want_next(r))
			return false;
		if (v.n == MAX_OPERANDS)
			return text_fault(r, r->line, "the node has too many operands");
		if (!text_take_word(r, "_") &&
		    (!(label = text_value_label(r)) ||
		     (!is_omitted(r, label) && !(x = find_value(r, g, label, r->line)))))
			return false;
		vec_push(r->tmp, &v, x);
	}
	*in = v.at;
	*nin = v.n;
	return true;
}

static Graph *read_graph(GraphText *r, const Graph *around);

/* Checks the numbers of operands and results of N, which begins in LINE. Values that its bodies
 * capture are operands, too. */
static bool check_arity(GraphText *r, const Node *n, int line)
{
	const OpRow *row = &op_row[n->op];
	const char *why = n->regions.n ? NULL
				       : count_fault(r->tmp, "operands", n->nin, row->nin_min,
						     row->nin_max);

	why = why ? why : count_fault(r->tmp, "results", n->nout, row->nout_min, row->nout_max);
	return !why || text_fault(r, line, "%s %s", row->name, why);
}

/* Checks that N has the operands, and its bodies the inputs, that ATTR_CAPTURES says. */
static bool check_captures(GraphText *r, const Node *n)
{
	int count;
	const int64_t *captures = node_ints(n, ATTR_CAPTURES, &count);
	int64_t total = 0;
	bool ok = count < 0 || count == n->regions.n;

	for (int i = 0; ok && i < count; i++) {
		ok = captures[i] >= 0 && captures[i] <= n->regions.at[i]->inputs.n &&
		     captures[i] <= n->nin - total;
		total += captures[i];
	}
	return ok || text_fault(r, r->line,
				"\"captures\" has one number for each body: how many of its "
				"inputs are the node's last operands");
}

static bool read_regions(GraphText *r, Node *n)
{
	if (!text_take(r, "{"))
		return check_captures(r, n);
	while (!text_take(r, "}")) {
		Graph *g = read_graph(r, n->graph);

		if (!g)
			return false;
		vec_push(r->arena, &n->regions, g);
	}
	return check_captures(r, n);
}

/* The current column, from 1. */
static int column_of(const GraphText *r)
{
	const char *p = r->p;

	while (p > r->text && p[-1] != '\n')
		p--;
	return (int)(r->p - p) + 1;
}

static bool read_node(GraphText *r, Graph *g)
{
	const char *start, *after, *word, *call;
	int nout, nin, start_line, after_line, place;
	Value **in = NULL;
	OpKind op;
	Node *n;

	text_peek(r);
	start = r->p;
	start_line = r->line;
	if ((nout = skip_results(r)) < 0)
		return false;
	text_peek(r);
	after = r->p;
	if (text_defined_name(r, &call)) {
		if (!call)
			return false;
		op = OP_Call;
		word = call;
	} else {
		word = text_word(r);
		op = word ? op_by_name(word) : OP_NONE;
	}
	if (word && !nout && (text_peek(r) == '=' || text_peek(r) == ','))
		return text_fault(r, start_line, "a value begins with %%");
	if ((op == OP_NONE && word) || (op == OP_Call && !call))
		return text_fault(r, r->line, "there is no operator \"%s\"", word);
	if (op == OP_NONE) {
		r->p = after;
		return text_fail(r, "a node or '}'");
	}
	if (!read_operands(r, g, &in, &nin))
		return false;
	n = node_new(g, op, in, nin, nout, NULL);
	place = r->nodes.n;
	vec_push(r->tmp, &r->nodes, ((NodeLine){.n = n, .line = start_line}));
	if (call)
		node_set_str(n, CALL_NAME, call);
	if (!text_attrs(r, n))
		return false;
	after = r->p;
	after_line = r->line;
	r->p = start;
	r->line = start_line;
	if (!read_results(r, n))
		return false;
	r->p = after;
	r->line = after_line;
	text_peek(r);
	r->nodes.at[place].types = (DiagLoc){
		.file = r->file, .line = r->line, .column = column_of(r)};
	return read_types(r, n) && read_locs(r, n) && read_regions(r, n) &&
	       check_arity(r, n, start_line);
}

/* ---- Headers ---- */

/* Skips a bracketed list, with strings in it. */
static bool skip_list(GraphText *r)
{
	int depth = 0;

	if (text_peek(r) != '(')
		return text_fail(r, "'('");
	do {
		char c = text_peek(r);

		if (!c)
			return text_fail(r, "')'");
		if (c == '"') {
			if (!text_skip_string(r))
				return false;
			continue;
		}
		depth += c == '(' ? 1 : c == ')' ? -1 : 0;
		r->p++;
	} while (depth);
	return true;
}

/* Reads the dim that S abbreviates. It may mention only symbols that were defined before S, so
 * that no symbol stands for itself. */
static bool read_meaning(GraphText *r, Sym *s)
{
	Dim *d = text_dim(r);
	int last = -1;

	if (!d)
		return false;
	DIM_EACH_SYM (used, d)
		last = used->id;
	if (last >= s->id)
		return text_fault(r, r->line,
				  "a symbol stands for a size over the symbols before it");
	sym_define(s, d);
	return true;
}

static bool read_source(GraphText *r, Pending *s)
{
	return (s->label = text_value_label(r)) && text_want(r, "[") && text_i64(r, &s->at) &&
	       text_want(r, "]");
}

static bool read_symbol(GraphText *r, Graph *g)
{
	Pending s = {.line = r->line, .lo = -DIM_INF, .hi = DIM_INF};
	const char first = text_peek(r);
	Dim *d;

	if ((first == '-' || (first >= '0' && first <= '9')) &&
	    (!text_i64(r, &s.lo) || !text_want(r, "<=")))
		return false;
	if (!(d = text_dim(r)))
		return false;
	s.sym = dim_as_sym(d);
	if (!s.sym)
		return text_fault(r, r->line, "only a symbol has bounds");
	if (text_take(r, "<=") && !text_i64(r, &s.hi))
		return false;
	if (s.lo > s.hi)
		return text_fault(r, r->line, "the bounds leave no value");
	sym_bound(r->ctx, s.sym, -DIM_INF, DIM_INF);
	if (text_take_word(r, "independent"))
		vec_push(r->arena, &g->batches, s.sym);
	if (text_take(r, "=") &&
	    !(text_peek(r) == '%' ? read_source(r, &s) : read_meaning(r, s.sym)))
		return false;
	vec_push(r->tmp, &r->pending, s);
	return true;
}

static bool read_symbols(GraphText *r, Graph *g)
{
	if (!text_take_word(r, "where"))
		return true;
	do {
		if (!read_symbol(r, g))
			return false;
	} while (text_take(r, ","));
	return true;
}

/* The sizes that the message of F shows. */
static bool read_shown(GraphText *r, Fact *f)
{
	int n = 0;

	if (!text_take_word(r, "with"))
		return true;
	do {
		if (n == 2)
			return text_fault(r, r->line, "a check shows two sizes at most");
		if (!(f->show[n].name = text_string(r)) || !(f->show[n].dim = text_dim(r)))
			return false;
		n++;
	} while (text_take(r, ","));
	return true;
}

static bool read_fact(GraphText *r, Graph *g)
{
	Fact f = {0};

	if (!(f.a = text_dim(r)))
		return false;
	f.le = text_take(r, "<=");
	if ((!f.le && !text_want(r, "==")) || !(f.b = text_dim(r)))
		return false;
	if (text_take(r, "@") && !read_loc(r, NULL, &f.loc))
		return false;
	if (text_peek(r) == '"' && (!(f.what = text_string(r)) || !read_shown(r, &f)))
		return false;
	vec_push(r->arena, &g->facts, f);
	return true;
}

/* Reads what follows the word accuracy. */
static bool read_accuracy(GraphText *r, Graph *g)
{
	ResultAccuracy a = {.name = text_string(r)};

	if (!a.name || (text_take_word(r, "step") && !text_f64(r, &a.step)) ||
	    (text_take_word(r, "unit") && !text_f64(r, &a.unit)))
		return false;
	a.unordered = text_take_word(r, "unordered");
	if ((a.unordered && !text_i64(r, &a.axis)) ||
	    (text_take_word(r, "by") && !(a.by = text_string(r))))
		return false;
	vec_push(r->arena, &g->accuracy, a);
	return true;
}

/* Reads a symbol that abbreviates a size. */
static bool read_named(GraphText *r, Sym **out)
{
	Dim *d = text_dim(r);

	*out = d ? dim_as_sym(d) : NULL;
	if (d && (!*out || !(*out)->def))
		return text_fault(r, r->line, "an alias has symbols that stand for sizes");
	return d != NULL;
}

/* Reads what follows the word alias. The results are read later. */
static bool read_alias(GraphText *r, Graph *g)
{
	Alias a = {0};
	int64_t result, input, dim;

	if (!text_i64(r, &result) || !text_want(r, "=") || !text_i64(r, &input))
		return false;
	if (result < 0 || result >= INT_MAX || input < 0 || input >= g->inputs.n)
		return text_fault(r, r->line, "an alias of no input or result");
	if (!text_take_word(r, "dim"))
		return text_fail(r, "'dim'");
	if (!text_i64(r, &dim))
		return false;
	if (!g->inputs.at[input]->type || dim < 0 || dim >= g->inputs.at[input]->type->rank)
		return text_fault(r, r->line, "an alias in no dim of the input");
	if (!text_take_word(r, "copied"))
		return text_fail(r, "'copied'");
	if (!read_named(r, &a.copied))
		return false;
	if (text_take_word(r, "room") &&
	    (!read_named(r, &a.room_in) || !text_want(r, ",") || !read_named(r, &a.room_out)))
		return false;
	a.copied->settable = true;
	if (a.room_in)
		a.room_in->settable = a.room_out->settable = true;
	a.result = (int)result;
	a.input = (int)input;
	a.dim = (int)dim;
	vec_push(r->arena, &g->aliases, a);
	return true;
}

static Value *input_of(void *arg)
{
	return graph_input(arg, NULL, NULL);
}

/* Reads the default value of input V, if the text has one. */
static bool read_preset(GraphText *r, Value *v)
{
	const Tensor *t;

	if (!text_take(r, "="))
		return true;
	if (!(t = text_tensor(r)))
		return false;
	v->preset = t;
	return (v->type && tensor_has_type(t, v->type)) ||
	       text_fault(r, r->line, "the input's type is not that of its value");
}

static bool read_inputs(GraphText *r, Graph *g)
{
	if (!text_want(r, "("))
		return false;
	while (!text_take(r, ")")) {
		Value *v;

		if (g->inputs.n && !text_want_next(r))
			return false;
		if (!read_definition(r, input_of, g, &v) || !text_want(r, ":") ||
		    !read_type(r, v) || !read_preset(r, v))
			return false;
	}
	return true;
}

/* Reads the results' names and labels, which the body defines. */
static bool read_graph_results(GraphText *r, Graph *g)
{
	if (!text_want(r, "("))
		return false;
	for (int k = 0; !text_take(r, ")"); k++) {
		const char *label, *name = NULL;
		Value *v;

		if (k && !text_want_next(r))
			return false;
		if (!(label = text_value_label(r)) || !(v = find_value(r, g, label, r->line)))
			return false;
		if (text_peek(r) == '"' && !(name = text_string(r)))
			return false;
		graph_result(g, v, name);
	}
	return true;
}

/* Reads the graph's values as applications see them, if WORD comes next. */
static bool read_forms(GraphText *r, const char *word, GraphForms *out)
{
	if (!text_take_word(r, word))
		return true;
	if (!text_want(r, "("))
		return false;
	while (!text_take(r, ")")) {
		GraphForm f = {.parts = 1};

		if (out->n && !text_want_next(r))
			return false;
		if (!(f.name = text_string(r)))
			return false;
		if (text_take(r, ":")) {
			if (!text_type(r, &f.type))
				return false;
			f.parts = f.type ? type_parts(f.type) : 0;
			if (!f.parts || f.type->kind == TYPE_TENSOR ||
			    (type_listed(f.type) && type_listed(f.type)->rank < 0))
				return text_fault(
					r, r->line,
					"the type must be that of a sequence, an optional or a map, of "
					"tensors of a known rank");
		}
		vec_push(r->arena, out, f);
	}
	return true;
}

/* Reads what the model's file says of itself, if that comes next. */
static bool read_metadata(GraphText *r, Graph *g)
{
	Metadata *m;

	if (!text_take_word(r, "metadata"))
		return true;
	g->metadata = m = NEW(r->arena, Metadata);
	for (const MetadataText *t = metadata_texts; t->name; t++)
		*(const char **)((char *)m + t->at) = "";
	if (!text_want(r, "(") || !text_take_word(r, "version") || !text_i64(r, &m->version))
		return text_fail(r, "version and a number");
	while (text_take(r, ",")) {
		const MetadataText *t = metadata_texts;
		Property p;

		while (t->name && !text_take_word(r, t->name))
			t++;
		if (t->name) {
			if (!(*(const char **)((char *)m + t->at) = text_string(r)))
				return false;
			continue;
		}
		if (!text_take_word(r, "property"))
			return text_fail(r, "property, or the name of a text");
		if (!(p.key = text_string(r)) || !(p.value = text_string(r)))
			return false;
		vec_push(r->arena, &m->properties, p);
	}
	return text_want(r, ")");
}

/* FORMS, unless there are none, must have as many parts as there are tensors, COUNT. */
static bool check_forms(GraphText *r, const GraphForms *f, int count, const char *fault)
{
	int parts = 0;

	for (int i = 0; i < f->n; i++)
		parts += f->at[i].parts;
	return !f->n || parts == count || text_fault(r, r->line, "%s", fault);
}

/* Checks that tensor number K of GraphForms F, of TYPE (null: not known yet), has the type that its
 * form requires. */
static bool check_part(GraphText *r, const GraphForms *f, int k, const Type *type)
{
	int i = 0;

	for (; i < f->n && k >= f->at[i].parts; i++)
		k -= f->at[i].parts;
	if (i == f->n || !f->at[i].type || !type || type_is_part(f->at[i].type, k, type))
		return true;
	return text_fault(r, r->line, "tensor %d of \"%s\" has another type than its form requires",
			  k + 1, f->at[i].name);
}

static bool check_parts(GraphText *r, const Graph *g)
{
	bool ok = check_forms(r, &g->takes, g->inputs.n,
			      "the forms of the inputs have another number of tensors than the graph's "
			      "inputs") &&
		  check_forms(r, &g->gives, g->results.n,
			      "the forms of the results have another number of tensors than the graph's "
			      "results");

	for (int i = 0; i < g->takes.n && ok; i++)
		if (g->takes.at[i].type && g->takes.at[i].type->kind == TYPE_SEQUENCE &&
		    type_map_of(g->takes.at[i].type))
			ok = text_fault(r, r->line, "a sequence of maps cannot be passed");
	for (int i = 0; i < g->inputs.n && ok; i++)
		ok = check_part(r, &g->takes, i, g->inputs.at[i]->type);
	for (int i = 0; i < g->results.n && ok; i++)
		ok = check_part(r, &g->gives, i, g->results.at[i]->value->type);
	return ok;
}

bool text_body(GraphText *r, Graph *g)
{
	if (!text_want(r, "{"))
		return false;
	while (!text_take(r, "}"))
		if (!read_node(r, g))
			return false;
	return true;
}

bool text_checks(GraphText *r, Graph *g)
{
	while (text_take_word(r, "check"))
		if (!read_fact(r, g))
			return false;
	return true;
}

bool text_result(GraphText *r, Graph *g, const char *label, const char *name)
{
	Value *v = find_value(r, g, label, r->line);

	if (v)
		graph_result(g, v, name);
	return v != NULL;
}

typedef struct TextPosition {
	const char *p;
	int line;
} TextPosition;

static TextPosition here(const GraphText *r)
{
	return (TextPosition){r->p, r->line};
}

static void go(GraphText *r, TextPosition to)
{
	r->p = to.p;
	r->line = to.line;
}

/* Control flow must be whole before a pass walks through it. */
static bool check_blocks(GraphText *r, const Graph *g)
{
	const Node *at;
	const char *fault = blocks_fault(g, r->tmp, &at);
	int line = r->line;

	for (int i = 0; fault && i < r->nodes.n; i++)
		if (r->nodes.at[i].n == at)
			line = r->nodes.at[i].line;
	if (fault && at)
		fault = arena_printf(r->tmp, "%s: %s", op_row[at->op].name, fault);
	return !fault || text_fault(r, line, "%s", fault);
}

static Kernel *kernel_of(const Node *n)
{
	const Attr *a = n->op == OP_Kernel ? node_attr(n, "kernel") : NULL;

	return a && a->kind == ATTR_KERNEL ? a->kernel : NULL;
}

/* Reads, in this order: symbols, inputs, facts, aliases, accuracies, the body, and the results that
 * it defines. */
static bool read_parts(GraphText *r, Graph *g, bool region)
{
	TextPosition inputs = here(r), results, facts, end;

	if (!skip_list(r) || !text_want(r, "->"))
		return false;
	results = here(r);
	if (!skip_list(r) || !read_forms(r, "takes", &g->takes) ||
	    !read_forms(r, "gives", &g->gives) || (!region && !read_metadata(r, g)) ||
	    (!region && !read_symbols(r, g)))
		return false;
	facts = here(r);
	go(r, inputs);
	if (!read_inputs(r, g))
		return false;
	go(r, facts);
	if (!text_checks(r, g))
		return false;
	while (text_take_word(r, "alias"))
		if (!read_alias(r, g))
			return false;
	while (!region && text_take_word(r, "accuracy"))
		if (!read_accuracy(r, g))
			return false;
	if (!text_body(r, g))
		return false;
	end = here(r);
	go(r, results);
	if (!read_graph_results(r, g))
		return false;
	go(r, end);
	for (int i = 0; i < g->aliases.n; i++)
		if (g->aliases.at[i].result >= g->results.n)
			return text_fault(r, r->line, "an alias of no input or result");
	return check_parts(r, g) && check_blocks(r, g);
}

/* AROUND: the graph that contains this region; null: the graph is not a region. */
static Graph *read_graph(GraphText *r, const Graph *around)
{
	const char *name;
	Graph *g;
	bool ok;

	if (!text_take_word(r, "graph")) {
		text_fail(r, around ? "'graph' or '}'" : "'graph'");
		return NULL;
	}
	if (!text_want(r, "@") || !(name = text_name(r)))
		return NULL;
	if (++r->depth > MAX_REGION_DEPTH + 1) {
		text_fault(r, r->line, "regions are nested more than %d deep", MAX_REGION_DEPTH);
		return NULL;
	}
	g = around ? graph_new_region(around, name) : graph_new(r->ctx, r->arena, name);
	g->file = r->file;
	ok = read_parts(r, g, around != NULL);
	r->depth--;
	return ok ? g : NULL;
}

static bool resolve_symbols(GraphText *r, Graph *g)
{
	VEC_EACH_AT (s, &r->pending) {
		const NamedValue *at = s->label && r->cap ? named_slot(r, s->label) : NULL;

		sym_bound(r->ctx, s->sym, s->lo, s->hi);
		if (!s->label)
			continue;
		if (!at || !at->label)
			return text_fault(r, s->line,
					  "a symbol comes from %%%s, which is not defined",
					  s->label);
		graph_set_source(g, s->sym, at->v, s->at);
	}
	for (int i = 0; i < sym_count(r->ctx); i++) {
		Sym *s = sym_at(r->ctx, i);
		int64_t lo, hi;

		if (!s->inlined) /* variants of schedules define these, without bounds */
			continue;
		dim_bounds(r->ctx, s->def, &lo, &hi);
		sym_bound(r->ctx, s, lo, hi);
	}
	return true;
}

/* Kernels access the values that their graphs have. Bounds of symbols are known, which simplify
 * sizes. */
static bool check_kernels(GraphText *r)
{
	VEC_EACH_AT (at, &r->nodes) {
		const Node *n = at->n;
		const Kernel *k = n->graph ? kernel_of(n) : NULL;
		const Buf *b = k ? kernel_misfit(n->graph, n) : NULL;
		const bool operand = b && b->kind == BUF_IN;
		STRBUF_LOCAL(type);

		if (!b)
			continue;
		type_print(&type, type_tensor(r->ctx, b->dtype, b->rank, b->dims));
		r->failed = true;
		diag_error(r->ctx->diag, operand ? (DiagLoc){.file = r->file, .line = at->line} : at->types,
			   "%s %d of the node does not have the type of %s in kernel @%s, %s",
			   operand ? "operand" : "result", b->param + 1, b->name, k->name,
			   strbuf_str(&type));
		return false;
	}
	return true;
}

/* ---- Schedules ---- */

/* Reads the schedules of the graph's kernels for one target. */
static bool read_schedules(GraphText *r, Graph *g)
{
	VEC(Kernel *) k = {0};
	GraphSchedules all = {.line = r->line,
			      .of = NEW_ARRAY(r->arena, g->nnodes + 1, Schedule *),
			      .nof = g->nnodes};
	Schedule **of;
	int i = 0;

	for (const Node *n = g->first; n; n = n->next)
		if (kernel_of(n))
			vec_push(r->tmp, &k, kernel_of(n));
	of = NEW_ARRAY(r->tmp, k.n + 1, Schedule *);
	if (!schedules_parse(r->ctx, r->arena, r->file, k.at, k.n, &r->p, &r->line, &all.target,
			     of)) {
		r->failed = true;
		return false;
	}
	for (const Node *n = g->first; n; n = n->next)
		all.of[n->id] = kernel_of(n) ? of[i++] : NULL;
	vec_push(r->arena, &g->schedules, all);
	return true;
}

Graph *graph_parse(Ctx *c, Arena *a, const char *text, const char *file)
{
	GraphText r = {.ctx = c,
		       .arena = a,
		       .tmp = arena_new(),
		       .text = text,
		       .p = text,
		       .line = 1,
		       .file = file ? ctx_name(c, file) : NULL};
	Graph *g = NULL;

	if (!text_take_word(&r, "dlir"))
		text_fail(&r, "'dlir 1'");
	else if (!text_take_word(&r, "1"))
		text_fail(&r, "version 1 of the text");
	else if (text_definitions(&r) && definitions_check(c))
		g = read_graph(&r, NULL);
	else
		r.failed = true;
	while (g && !r.failed && text_peek(&r) == 's' && str_starts(r.p, "schedules "))
		read_schedules(&r, g);
	if (g && text_peek(&r))
		text_fail(&r, "the end of the file");
	if (g && !r.failed && resolve_symbols(&r, g))
		check_kernels(&r);
	arena_free(r.tmp);
	return r.failed ? NULL : g;
}
