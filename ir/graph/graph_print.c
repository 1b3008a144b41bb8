/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Graphs as text, version 1 (docs/ir.md). The label of a value is its name if that is a unique
 * identifier, else its number in the order of printing. Labels are unique over a graph and its
 * regions. A graph that graph_parse read from printed text prints as the same bytes.
 */
#include "ir/graph/graph.h"

#include "ir/graph/definition.h"
#include "ir/graph/text_impl.h"
#include "runtime/strtable.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WHOLE_ELEMENTS = 64, TYPE_COLUMN = 44, LABEL_MAX = 32 };

typedef struct ValueLabel {
	const Value *v;
	const char *text;
} ValueLabel;

typedef struct GraphPrinter {
	StrBuf *b;
	Ctx *ctx;
	Arena *tmp;
	VEC(const Value *) order; /* every value, in the order of printing */
	ValueLabel *map;          /* open addressing */
	int cap;
	bool *sym; /* symbols that occur, by id */
} GraphPrinter;

/* ---- Labels ---- */

static void number_values(GraphPrinter *p, const Graph *g)
{
	for (int i = 0; i < g->inputs.n; i++)
		vec_push(p->tmp, &p->order, g->inputs.at[i]);
	for (const Node *n = g->first; n; n = n->next) {
		for (int k = 0; k < n->nout; k++)
			if (n->out[k])
				vec_push(p->tmp, &p->order, n->out[k]);
		for (int k = 0; k < n->regions.n; k++)
			number_values(p, n->regions.at[k]);
	}
}

static ValueLabel *label_slot(GraphPrinter *p, const Value *v)
{
	size_t mask = (size_t)p->cap - 1, i = hash_bytes(HASH_SEED, &v, sizeof v) & mask;

	while (p->map[i].v && p->map[i].v != v)
		i = (i + 1) & mask;
	return &p->map[i];
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool name_is_unique(const char *const *sorted, int n, const char *name)
{
	const char *const *at = bsearch(&name, sorted, (size_t)n, sizeof *sorted, compare_names);

	return (at == sorted || strcmp(at[-1], name)) &&
	       (at == sorted + n - 1 || strcmp(at[1], name));
}

static bool is_label(const char *s)
{
	if (isdigit((unsigned char)*s) || strlen(s) > LABEL_MAX)
		return false;
	return text_is_word(s);
}

static void label_values(GraphPrinter *p, const Graph *g)
{
	const char **names;
	int n = 0;

	number_values(p, g);
	for (p->cap = 64; p->cap < p->order.n * 2;)
		p->cap *= 2;
	p->map = NEW_ARRAY(p->tmp, p->cap, ValueLabel);
	names = NEW_ARRAY(p->tmp, p->order.n, const char *);
	for (int i = 0; i < p->order.n; i++)
		if (p->order.at[i]->name)
			names[n++] = p->order.at[i]->name;
	qsort(names, (size_t)n, sizeof *names, compare_names);
	for (int i = 0; i < p->order.n; i++) {
		const Value *v = p->order.at[i];
		bool own = v->name && is_label(v->name) && name_is_unique(names, n, v->name);

		*label_slot(p, v) = (ValueLabel){v, own ? v->name : arena_printf(p->tmp, "%d", i)};
	}
}

static void put_value(GraphPrinter *p, const Value *v)
{
	const ValueLabel *l = v ? label_slot(p, v) : NULL;

	if (!v)
		strbuf_puts(p->b, "_");
	else
		/* ?: not a value of this graph */
		strbuf_printf(p->b, "%%%s", l->v ? l->text : "?");
}

static void put_definition(GraphPrinter *p, const Value *v)
{
	put_value(p, v);
	if (v && v->name && v->name != label_slot(p, v)->text) {
		strbuf_puts(p->b, " ");
		strbuf_quote(p->b, v->name);
	}
}

/* ---- Symbols ---- */

static void print_symbols(GraphPrinter *p, const Graph *g)
{
	const char *sep = "\n    where ";

	for (int i = 0; i < sym_count(p->ctx); i++) {
		const Sym *s = sym_at(p->ctx, i);
		const SymSource source = graph_source(g, s);

		if (!p->sym[i])
			continue;
		strbuf_puts(p->b, sep);
		if (s->lo != -DIM_INF)
			strbuf_printf(p->b, "%" PRId64 " <= ", s->lo);
		dim_print(p->b, s->dim);
		if (s->hi != DIM_INF)
			strbuf_printf(p->b, " <= %" PRId64, s->hi);
		strbuf_puts(p->b, graph_has_batch(g, s) ? " independent" : "");
		if (source.value) {
			strbuf_puts(p->b, " = ");
			put_value(p, source.value);
			strbuf_printf(p->b, "[%" PRId64 "]", source.at);
		} else if (s->def) {
			strbuf_puts(p->b, " = ");
			dim_print(p->b, s->def);
		}
		sep = ", ";
	}
}

/* ---- Attributes ---- */

static void text_put_name(StrBuf *b, const char *s)
{
	if (text_is_word(s))
		strbuf_puts(b, s);
	else
		strbuf_quote(b, s);
}

/* Prints the shortest decimal that reads back as V, with a point or an exponent. */
static void text_put_float(StrBuf *b, double v, bool f32)
{
	char text[40];

	if (isnan(v) || isinf(v)) {
		strbuf_puts(b, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
		return;
	}
	for (int digits = 1; digits <= 17; digits++) {
		double back;

		snprintf(text, sizeof text, "%.*g", digits, v);
		back = strtod(text, NULL);
		if (f32 ? (float)back == (float)v : back == v)
			break;
	}
	strbuf_puts(b, text);
	if (!strpbrk(text, ".e"))
		strbuf_puts(b, ".0");
}

static void put_element(StrBuf *b, Ctx *c, const Tensor *t, int64_t i)
{
	int64_t v;

	if (t->dtype == DT_STR) {
		const dl_str s = strings_get(c->strings, dtype_load_i64(DT_STR, t->data, i));

		strbuf_quote_n(b, s.p, s.n);
	} else if (dtype_is_float(t->dtype)) {
		text_put_float(b, dtype_load_f64(t->dtype, t->data, i), t->dtype != DT_F64);
	} else {
		v = dtype_load_i64(t->dtype, t->data, i);
		strbuf_printf(b, t->dtype == DT_U64 ? "%" PRIu64 : "%" PRId64, v);
	}
}

static void put_hex(StrBuf *b, const Tensor *t)
{
	static const char digit[] = "0123456789abcdef";
	const unsigned char *at = t->data;

	strbuf_puts(b, " hex(\"");
	for (int64_t i = 0; i < t->bytes; i++) {
		char two[2] = {digit[at[i] >> 4], digit[at[i] & 15]};

		strbuf_put(b, two, 2);
	}
	strbuf_puts(b, "\")");
}

static void put_tensor(StrBuf *b, Ctx *c, const Tensor *t)
{
	int64_t n = tensor_numel(t);

	strbuf_printf(b, "%s[", dtype_info[t->dtype].name);
	for (int i = 0; i < t->rank; i++)
		strbuf_printf(b, "%s%" PRId64, i ? "," : "", t->dims[i]);
	strbuf_puts(b, "]");
	if (n > WHOLE_ELEMENTS && t->computed && t->part) {
		strbuf_printf(b, " concat(%d", t->axis);
		for (int i = 0; i < t->nparts; i++) {
			strbuf_puts(b, ", ");
			put_tensor(b, c, t->part[i]);
		}
		strbuf_puts(b, ")");
	} else if (n > WHOLE_ELEMENTS && t->computed) {
		strbuf_puts(b, " computed");
	} else if (n > WHOLE_ELEMENTS && t->file && t->dtype != DT_STR) {
		strbuf_puts(b, " file(");
		strbuf_quote(b, t->file);
		strbuf_printf(b, ", %" PRId64 ", %" PRId64 ")", t->offset, t->bytes);
	} else if (n > WHOLE_ELEMENTS && t->dtype != DT_STR) {
		put_hex(b, t);
	} else {
		strbuf_puts(b, "(");
		for (int64_t i = 0; i < n; i++) {
			strbuf_puts(b, i ? ", " : "");
			put_element(b, c, t, i);
		}
		strbuf_puts(b, ")");
	}
}

/* Prints the kernel, each line indented. */
static void put_kernel(StrBuf *b, const Kernel *k, int indent)
{
	STRBUF_LOCAL(text);
	const char *s, *end;

	kernel_print(&text, k);
	s = strbuf_str(&text);
	for (end = s + text.n; end > s && (end[-1] == '\n' || end[-1] == ' ');)
		end--;
	for (; s < end; s++) {
		strbuf_put(b, s, 1);
		if (*s == '\n')
			strbuf_printf(b, "%*s", indent, "");
	}
}

static void put_list(StrBuf *b, const Attr *a)
{
	static const char *const empty[] = {
		[ATTR_INTS] = "ints[]", [ATTR_FLOATS] = "floats[]", [ATTR_STRS] = "strs[]"};

	if (!a->n) {
		strbuf_puts(b, empty[a->kind]);
		return;
	}
	strbuf_puts(b, "[");
	for (int i = 0; i < a->n; i++) {
		strbuf_puts(b, i ? ", " : "");
		if (a->kind == ATTR_INTS)
			strbuf_printf(b, "%" PRId64, a->is[i]);
		else if (a->kind == ATTR_FLOATS)
			text_put_float(b, (double)a->fs[i], true);
		else
			strbuf_quote(b, a->ss[i]);
	}
	strbuf_puts(b, "]");
}

static void put_attr(StrBuf *b, Ctx *c, const Attr *a, int indent)
{
	text_put_name(b, a->name);
	strbuf_puts(b, " = ");
	switch (a->kind) {
	case ATTR_INT: strbuf_printf(b, "%" PRId64, a->i); break;
	case ATTR_FLOAT: text_put_float(b, (double)a->f, true); break;
	case ATTR_STR: strbuf_quote(b, a->s); break;
	case ATTR_INTS:
	case ATTR_FLOATS:
	case ATTR_STRS: put_list(b, a); break;
	case ATTR_TENSOR: put_tensor(b, c, a->t); break;
	case ATTR_TYPE:
		strbuf_puts(b, "type(");
		type_print(b, a->type);
		strbuf_puts(b, ")");
		break;
	case ATTR_KERNEL: put_kernel(b, a->kernel, indent + 2); break;
	}
}

/* ---- Nodes and graphs ---- */

static void put_type(StrBuf *b, const Value *v)
{
	static const char *const places[] = {
		[ON_DEVICE] = "", [ON_HOST] = " host", [ON_BOTH] = " both"};

	if (v->type)
		type_print(b, v->type);
	else
		strbuf_puts(b, "?");
	strbuf_puts(b, places[v->place]);
}

/* Prints @"name", followed by (op) if that is not OP. */
static void put_loc(StrBuf *b, Loc l, const char *op)
{
	strbuf_puts(b, "@");
	if (l.node)
		strbuf_quote(b, l.node);
	else
		strbuf_puts(b, "_");
	if (l.op && (!op || strcmp(l.op, op))) {
		strbuf_puts(b, "(");
		text_put_name(b, l.op);
		strbuf_puts(b, ")");
	} else if (!l.op) {
		strbuf_puts(b, "()");
	}
}

static void print_graph(GraphPrinter *p, const Graph *g, int indent);

static void put_call(GraphPrinter *p, const Node *n, int indent)
{
	const char *call = n->op == OP_Call ? node_str(n, CALL_NAME, NULL) : NULL;
	const char *sep = " {";

	for (int k = 0; k < n->nout; k++) {
		strbuf_puts(p->b, k ? ", " : "");
		if (n->out[k])
			put_definition(p, n->out[k]);
		else
			strbuf_puts(p->b, "_");
	}
	strbuf_puts(p->b, n->nout ? " = " : "");
	if (call)
		text_put_defined(p->b, call);
	else
		strbuf_puts(p->b, op_row[n->op].name);
	if (n->nin || n->op != OP_Const) {
		strbuf_puts(p->b, "(");
		for (int k = 0; k < n->nin; k++) {
			strbuf_puts(p->b, k ? ", " : "");
			put_value(p, n->in[k].value);
		}
		strbuf_puts(p->b, ")");
	}
	for (int k = 0; k < n->attrs.n; k++) {
		if (call && !strcmp(n->attrs.at[k].name, CALL_NAME))
			continue;
		strbuf_puts(p->b, sep);
		put_attr(p->b, n->graph->ctx, &n->attrs.at[k], indent);
		sep = ", ";
	}
	strbuf_puts(p->b, *sep == ',' ? "}" : "");
}

static void put_locs(GraphPrinter *p, const Node *n)
{
	ARENA_LOCAL(tmp);
	const LocList all = locs_all(tmp, n->locs);
	const char *call = node_str(n, CALL_NAME, NULL);

	for (int i = 0; i < all.n; i++) {
		strbuf_puts(p->b, i ? ", " : "  ");
		put_loc(p->b, all.at[i],
			call ? definition_shown(p->ctx, call) : op_row[n->op].name);
	}
}

static void print_node(GraphPrinter *p, const Node *n, int indent)
{
	size_t start = p->b->n;

	strbuf_printf(p->b, "%*s", indent, "");
	put_call(p, n, indent);
	while (n->nout && p->b->n - start < TYPE_COLUMN)
		strbuf_puts(p->b, " ");
	for (int k = 0; k < n->nout; k++) {
		strbuf_puts(p->b, k ? ", " : " : ");
		if (n->out[k])
			put_type(p->b, n->out[k]);
		else
			strbuf_puts(p->b, "_");
	}
	put_locs(p, n);
	if (n->regions.n) {
		strbuf_puts(p->b, " {\n");
		for (int k = 0; k < n->regions.n; k++)
			print_graph(p, n->regions.at[k], indent + 2);
		strbuf_printf(p->b, "%*s}", indent, "");
	}
	strbuf_puts(p->b, "\n");
}

static void print_facts(GraphPrinter *p, const Graph *g, int indent)
{
	VEC_EACH_AT (f, &g->facts) {
		strbuf_printf(p->b, "\n%*scheck ", indent + 4, "");
		dim_print(p->b, f->a);
		strbuf_puts(p->b, f->le ? " <= " : " == ");
		dim_print(p->b, f->b);
		if (f->loc.node || f->loc.op) {
			strbuf_puts(p->b, " ");
			put_loc(p->b, f->loc, NULL);
		}
		if (f->what) {
			strbuf_puts(p->b, " ");
			strbuf_quote(p->b, f->what);
		}
		for (int k = 0; k < 2 && f->show[k].dim; k++) {
			strbuf_puts(p->b, k ? ", " : " with ");
			strbuf_quote(p->b, f->show[k].name);
			strbuf_puts(p->b, " ");
			dim_print(p->b, f->show[k].dim);
		}
	}
}

static void print_aliases(GraphPrinter *p, const Graph *g, int indent)
{
	VEC_EACH_AT (a, &g->aliases) {
		strbuf_printf(p->b, "\n%*salias %d = %d dim %d copied ", indent + 4, "", a->result,
			      a->input, a->dim);
		dim_print(p->b, a->copied->dim);
		if (!a->room_in)
			continue;
		strbuf_puts(p->b, " room ");
		dim_print(p->b, a->room_in->dim);
		strbuf_puts(p->b, ", ");
		dim_print(p->b, a->room_out->dim);
	}
}

/* How exactly results are determined, if the nodes say it no longer. */
static void print_accuracy(GraphPrinter *p, const Graph *g, int indent)
{
	VEC_EACH_AT (a, &g->accuracy) {
		strbuf_printf(p->b, "\n%*saccuracy ", indent + 4, "");
		strbuf_quote(p->b, a->name);
		if (a->step > 0) {
			strbuf_puts(p->b, " step ");
			text_put_float(p->b, a->step, false);
		}
		if (a->unit > 0) {
			strbuf_puts(p->b, " unit ");
			text_put_float(p->b, a->unit, false);
		}
		if (a->unordered)
			strbuf_printf(p->b, " unordered %lld", (long long)a->axis);
		if (a->by) {
			strbuf_puts(p->b, " by ");
			strbuf_quote(p->b, a->by);
		}
	}
}

/* The inputs or results as applications see them, if some are not tensors. */
static void print_forms(GraphPrinter *p, const char *word, const GraphForms *f)
{
	if (!f->n)
		return;
	strbuf_printf(p->b, "\n    %s (", word);
	for (int i = 0; i < f->n; i++) {
		strbuf_puts(p->b, i ? ", " : "");
		strbuf_quote(p->b, f->at[i].name ? f->at[i].name : "");
		if (f->at[i].type) {
			strbuf_puts(p->b, ": ");
			type_print(p->b, f->at[i].type);
		}
	}
	strbuf_puts(p->b, ")");
}

const MetadataText metadata_texts[] = {
	{"producer", offsetof(Metadata, producer)},
	{"producer_version", offsetof(Metadata, producer_version)},
	{"domain", offsetof(Metadata, domain)},
	{"doc", offsetof(Metadata, doc)},
	{"graph", offsetof(Metadata, graph)},
	{"graph_doc", offsetof(Metadata, graph_doc)},
	{0},
};

/* The metadata of the model's file. */
static void print_metadata(GraphPrinter *p, const Metadata *m)
{
	if (!m)
		return;
	strbuf_printf(p->b, "\n    metadata (version %lld", (long long)m->version);
	for (const MetadataText *t = metadata_texts; t->name; t++) {
		const char *text = *(const char *const *)((const char *)m + t->at);

		if (!*text)
			continue;
		strbuf_printf(p->b, ", %s ", t->name);
		strbuf_quote(p->b, text);
	}
	for (int i = 0; i < m->properties.n; i++) {
		strbuf_puts(p->b, ", property ");
		strbuf_quote(p->b, m->properties.at[i].key);
		strbuf_puts(p->b, " ");
		strbuf_quote(p->b, m->properties.at[i].value);
	}
	strbuf_puts(p->b, ")");
}

static void print_graph(GraphPrinter *p, const Graph *g, int indent)
{
	strbuf_printf(p->b, "%*sgraph @", indent, "");
	text_put_name(p->b, g->name);
	strbuf_puts(p->b, "(");
	for (int i = 0; i < g->inputs.n; i++) {
		strbuf_puts(p->b, i ? ", " : "");
		put_definition(p, g->inputs.at[i]);
		strbuf_puts(p->b, ": ");
		put_type(p->b, g->inputs.at[i]);
		if (g->inputs.at[i]->preset) {
			strbuf_puts(p->b, " = ");
			put_tensor(p->b, g->ctx, g->inputs.at[i]->preset);
		}
	}
	strbuf_puts(p->b, ") -> (");
	for (int i = 0; i < g->results.n; i++) {
		strbuf_puts(p->b, i ? ", " : "");
		put_value(p, g->results.at[i]->value);
		if (g->result_names.at[i]) {
			strbuf_puts(p->b, " ");
			strbuf_quote(p->b, g->result_names.at[i]);
		}
	}
	strbuf_puts(p->b, ")");
	print_forms(p, "takes", &g->takes);
	print_forms(p, "gives", &g->gives);
	print_metadata(p, g->metadata);
	if (!indent)
		print_symbols(p, g);
	print_facts(p, g, indent);
	print_aliases(p, g, indent);
	print_accuracy(p, g, indent);
	strbuf_puts(p->b, " {\n");
	for (const Node *n = g->first; n; n = n->next)
		print_node(p, n, indent + 2);
	strbuf_printf(p->b, "%*s}\n", indent, "");
}

void graph_print(StrBuf *b, const Graph *g)
{
	GraphPrinter p = {.b = b, .ctx = g->ctx, .tmp = arena_new()};

	p.sym = NEW_ARRAY(p.tmp, sym_count(g->ctx), bool);
	label_values(&p, g);
	graph_syms(g, p.sym);
	strbuf_puts(b, "dlir 1\n");
	text_put_definitions(b, g);
	print_graph(&p, g, 0);
	arena_free(p.tmp);
}

const char **graph_labels(const Graph *g, Arena *a)
{
	GraphPrinter p = {.tmp = arena_new()};
	const char **labels = NEW_ARRAY(a, g->nvalues + 1, const char *);

	label_values(&p, g);
	for (int i = 0; i < g->inputs.n; i++)
		labels[g->inputs.at[i]->id] = arena_strdup(a,
							   label_slot(&p, g->inputs.at[i])->text);
	for (const Node *n = g->first; n; n = n->next)
		for (int k = 0; k < n->nout; k++)
			if (n->out[k])
				labels[n->out[k]->id] = arena_strdup(
					a, label_slot(&p, n->out[k])->text);
	arena_free(p.tmp);
	return labels;
}
