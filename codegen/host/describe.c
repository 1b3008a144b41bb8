/* SPDX-License-Identifier: Apache-2.0 */
/* The tables for describe(), and the header of a model. */
#include "codegen/host/host_impl.h"

#include <ctype.h>

const char *host_own(Host *h, const char *name)
{
	return arena_printf(h->m->arena, "%s%s%s", name, h->gpu ? "_gpu" : "",
			    h->o->suffix ? h->o->suffix : "");
}

void host_quote(Host *h, const char *s)
{
	strbuf_puts(h->b, "\"");
	strbuf_escape(h->b, s, escape_c_string);
	strbuf_puts(h->b, "\"");
}

void host_quote_n(Host *h, const char *s, size_t n)
{
	STRBUF_LOCAL(text);
	const char *at, *end;

	strbuf_put(&text, s, n); /* it ends with its own NUL */
	at = strbuf_str(&text);
	end = at + n;
	strbuf_puts(h->b, "\"");
	for (;; at++) {
		strbuf_escape(h->b, at, escape_c_string);
		at += strlen(at);
		if (at == end)
			break;
		strbuf_puts(h->b, "\\000");
	}
	strbuf_puts(h->b, "\"");
}

const char *host_node(Host *h, Loc l)
{
	const char *name = l.node ? l.node : "";

	return l.op ? arena_printf(h->m->arena, "node \"%.100s\" (%.100s)", name, l.op)
		    : arena_printf(h->m->arena, "node \"%.100s\"", name);
}

const char *host_input_name(const Graph *g, int i)
{
	return g->inputs.at[i]->name ? g->inputs.at[i]->name : "";
}

static const char *host_result_name(const Graph *g, int i)
{
	return g->result_names.at[i] ? g->result_names.at[i] : "";
}

static void print_io(Host *h, const char *table, const Type *t, int i)
{
	int64_t c;

	if (!t->rank)
		return;
	strbuf_printf(h->b, "static const dl_dim %s[] = {\n",
		      host_own(h, arena_printf(h->m->arena, "%s_%d_dims", table, i)));
	for (int d = 0; d < t->rank; d++) {
		STRBUF_LOCAL(text);
		Sym *s = dim_as_sym(t->dims[d]);

		dim_print(&text, t->dims[d]);
		strbuf_printf(h->b, "\t{sizeof(dl_dim), %d, %lld, ", s ? h->sym_index[s->id] : -1,
			      dim_is_const(t->dims[d], &c) ? (long long)c : -1LL);
		host_quote(h, strbuf_str(&text));
		strbuf_puts(h->b, "},\n");
	}
	strbuf_puts(h->b, "};\n");
}

/* The C name of T: DL_F32 ... */
static const char *dtype_c(Host *h, DType t)
{
	char *s = arena_printf(h->m->arena, "DL_%s", dtype_info[t].name);

	for (char *p = s; *p; p++)
		*p = (char)toupper((unsigned char)*p);
	return s;
}

static const char *io_flags(Host *h, const Value *input)
{
	return arena_printf(h->m->arena, "%s%s",
			    input->place == ON_HOST   ? "DL_IO_HOST | DL_IO_HOST_ONLY"
			    : input->place == ON_BOTH ? "DL_IO_HOST"
						      : "0",
			    input->preset ? " | DL_IO_DEFAULT" : "");
}

/* ALIAS: the input that the output may share memory with, or -1. ACCURACY: the name of its table,
 * or NULL. */
static void print_io_row(Host *h, const char *table, const Type *t, const char *name, int i,
			 int alias, const char *flags, const char *accuracy)
{
	strbuf_printf(h->b, "\t{sizeof(dl_io), %s, DL_TENSOR, %d, ", dtype_c(h, t->dtype), t->rank);
	host_quote(h, name);
	strbuf_printf(h->b, ", %s, %d, %s, NULL, %s},\n",
		      t->rank ? host_own(h, arena_printf(h->m->arena, "%s_%d_dims", table, i))
			      : "NULL",
		      alias, flags, accuracy);
}

/* ---- How exactly results are determined ---- */

/* The result called NAME, or -1. */
static int result_called(const Graph *g, const char *name)
{
	for (int i = 0; i < g->results.n && name; i++)
		if (!strcmp(host_result_name(g, i), name))
			return i;
	return -1;
}

/* The known accuracy of result I, or null. */
static const ResultAccuracy *accuracy_of(const Graph *g, int i)
{
	for (int k = 0; k < g->accuracy.n; k++)
		if (!strcmp(g->accuracy.at[k].name, host_result_name(g, i)))
			return &g->accuracy.at[k];
	return NULL;
}

/* The name of the table of result I. */
static const char *accuracy_table(Host *h, int i)
{
	return accuracy_of(h->m->graph, i)
		       ? arena_printf(h->m->arena, "&%s",
				      host_own(h, arena_printf(h->m->arena, "out_%d_accuracy", i)))
		       : "NULL";
}

/* Prints that table. The number of the values is that in the graph, so it is for results that are
 * all tensors. */
static void print_accuracy(Host *h, int i)
{
	const Graph *g = h->m->graph;
	const ResultAccuracy *a = accuracy_of(g, i);
	const int rank = g->results.at[i]->value->type->rank;
	const int64_t axis = a ? a->axis : 0;

	if (a)
		strbuf_printf(
			h->b,
			"static const dl_accuracy %s = {sizeof(dl_accuracy), %d, %d, 0, %a, %a};\n",
			accuracy_table(h, i) + 1,
			!a->unordered ? -1 : (int)(axis < 0 ? axis + rank : axis),
			g->gives.n ? -1 : result_called(g, a->by), a->step, a->unit);
}

/* ---- Values that are not tensors ---- */

static const char *const form_c[] = {[TYPE_TENSOR] = "DL_TENSOR",
				     [TYPE_SEQUENCE] = "DL_SEQUENCE",
				     [TYPE_OPTIONAL] = "DL_OPTIONAL",
				     [TYPE_MAP] = "DL_MAP"};

/* Prints the dl_io rows of the items of a value of type T as table NAME, after the tables of the
 * items' own items. */
static void print_items(Host *h, const char *name, const Type *t)
{
	const Type *item[2] = {t->elem, t->elem};
	const int n = t->kind == TYPE_MAP ? 2 : 1;
	const bool nested = t->kind != TYPE_MAP && t->elem->kind != TYPE_TENSOR;
	const char *inner = arena_printf(h->m->arena, "%s_of", name);
	/* keys and values are vectors */
	const int rank = n == 2 ? 1 : nested || t->elem->rank < 0 ? 0 : t->elem->rank;

	if (nested)
		print_items(h, inner, t->elem);
	if (rank) {
		strbuf_printf(h->b, "static const dl_dim %s_dims[] = {\n", host_own(h, name));
		for (int d = 0; d < rank; d++)
			strbuf_puts(h->b, "\t{sizeof(dl_dim), -1, -1, \"?\"},\n");
		strbuf_puts(h->b, "};\n");
	}
	if (n == 2)
		item[0] = type_items(h->m->ctx, t->dtype, 0);
	strbuf_printf(h->b, "static const dl_io %s[] = {\n", host_own(h, name));
	for (int k = 0; k < n; k++) {
		strbuf_printf(h->b, "\t{sizeof(dl_io), %s, %s, %d, \"%s\", ",
			      nested ? "0" : dtype_c(h, item[k]->dtype), form_c[item[k]->kind],
			      rank,
			      n == 1 ? ""
			      : k    ? "values"
				     : "keys");
		strbuf_printf(h->b, rank ? "%s_dims, -1, 0, " : "NULL, -1, 0, ", host_own(h, name));
		strbuf_printf(h->b, nested ? "%s, NULL},\n" : "NULL, NULL},\n",
			      host_own(h, inner));
	}
	strbuf_puts(h->b, "};\n");
}

static const Type *io_type(const Graph *g, bool in, int k)
{
	return (in ? g->inputs.at[k] : g->results.at[k]->value)->type;
}

/* Prints the table of the values that an application passes (IN) or gets, from FORMS; FLAGS are
 * those of the inputs. */
static void print_forms(Host *h, const GraphForms *forms, bool in, const Graph *placed)
{
	const char *table = in ? "in" : "out";
	const Graph *g = h->m->graph;

	for (int i = 0; i < forms->n; i++)
		if (forms->at[i].type)
			print_items(h, arena_printf(h->m->arena, "%s_%d_items", table, i),
				    forms->at[i].type);
	strbuf_printf(h->b, "\nstatic const dl_io %s[] = {\n",
		      host_own(h, in ? "shown_inputs" : "shown_outputs"));
	for (int i = 0, k = 0; i < forms->n; k += forms->at[i++].parts) {
		const GraphForm *f = &forms->at[i];
		const char *name = f->name ? f->name : "";

		if (!f->type) {
			print_io_row(h, table, io_type(g, in, k), name, k, -1,
				     in ? io_flags(h, placed->inputs.at[k]) : "0",
				     in ? "NULL" : accuracy_table(h, k));
			continue;
		}
		strbuf_printf(h->b, "\t{sizeof(dl_io), 0, %s, 0, ", form_c[f->type->kind]);
		host_quote(h, name);
		strbuf_printf(h->b, ", NULL, -1, 0, %s, NULL},\n",
			      host_own(h, arena_printf(h->m->arena, "%s_%d_items", table, i)));
	}
	strbuf_puts(h->b, "};\n");
}

static void print_flags(Host *h)
{
	const struct {
		bool set;
		const char *name;
	} flags[] = {
		{h->m->mem->nregions > 0, "DL_DESC_UNBOUNDED"},
		{h->m->f16 || (h->m->gpu && h->m->gpu->f16), "DL_DESC_F16"},
		{h->m->bf16 || (h->m->gpu && h->m->gpu->bf16), "DL_DESC_BF16"},
		{h->m->opt.flush, "DL_DESC_FLUSH"},
	};
	const char *before = "\t.flags = ";

	for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
		if (flags[i].set) {
			strbuf_printf(h->b, "%s%s", before, flags[i].name);
			before = " | ";
		}
	strbuf_puts(h->b, *before == '\t' ? "" : ",\n");
}

/* ---- What the model says of itself ---- */

/* Prints the table, if there is one. */
static void print_metadata(Host *h, const Metadata *m)
{
	const char *texts[] = {m->producer, m->producer_version, m->domain, m->doc,
			       m->graph,    m->graph_doc};

	if (m->properties.n)
		strbuf_printf(h->b, "\nstatic const dl_property %s[] = {\n",
			      host_own(h, "properties"));
	for (int i = 0; i < m->properties.n; i++) {
		strbuf_puts(h->b, "\t{sizeof(dl_property), 0, ");
		host_quote(h, m->properties.at[i].key);
		strbuf_puts(h->b, ", ");
		host_quote(h, m->properties.at[i].value);
		strbuf_puts(h->b, "},\n");
	}
	strbuf_puts(h->b, m->properties.n ? "};\n" : "");
	strbuf_printf(h->b, "\nstatic const dl_metadata %s = {\n\tsizeof(dl_metadata), %d, ",
		      host_own(h, "metadata"), m->properties.n);
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		host_quote(h, texts[i]);
		strbuf_puts(h->b, ", ");
	}
	if (m->version == INT64_MIN) /* whose digits are not a number of C */
		strbuf_puts(h->b, "INT64_MIN, ");
	else
		strbuf_printf(h->b, "%lld, ", (long long)m->version);
	strbuf_printf(h->b, "%s,\n};\n", m->properties.n ? host_own(h, "properties") : "NULL");
}

/* Prints the description NAME, with the tables IN and OUT, which may be null. */
static void print_desc(Host *h, const char *name, const char *in, int n_in, const char *out,
		       int n_out)
{
	strbuf_printf(h->b, "\nstatic const dl_desc %s = {\n\t.size = sizeof(dl_desc),\n",
		      host_own(h, name));
	print_flags(h);
	strbuf_printf(
		h->b,
		"\t.name = \"%s\",\n\t.version = \"%s\",\n\t.hash = %s.text,\n\t.targets = \"",
		h->o->name, h->o->version, host_own(h, "hash"));
	for (int t = 0; t < h->m->ntargets; t++)
		strbuf_printf(h->b, "%s%s", t ? " " : "", h->m->target[t]->name);
	for (int t = 0; h->m->gpu && t < h->m->gpu->ntargets; t++)
		strbuf_printf(h->b, " %s%s", h->m->gpu->target[t]->name,
			      h->m->opt.tf32 ? "+tf32" : "");
	strbuf_puts(h->b, "\",\n");
	if (in)
		strbuf_printf(h->b, "\t.in = %s,\n\t.n_in = %d,\n", host_own(h, in), n_in);
	if (out)
		strbuf_printf(h->b, "\t.out = %s,\n\t.n_out = %d,\n", host_own(h, out), n_out);
	if (h->npublic)
		strbuf_printf(h->b, "\t.sym = %s,\n\t.n_sym = %d,\n", host_own(h, "syms"),
			      h->npublic);
	if (h->m->graph->metadata)
		strbuf_printf(h->b, "\t.metadata = &%s,\n", host_own(h, "metadata"));
	strbuf_printf(h->b, "\t.weights_size = %lld,\n};\n\n", (long long)h->o->weights_size);
}

/* The least value of S that its bounds and the facts, as 2 <= H, allow. */
static int64_t least_of(const Host *h, const Sym *s)
{
	const Graph *g = h->m->graph;
	int64_t least = s->lo, v;

	/* the parts of a sequence have checks that say more than their sizes */
	for (int i = 0; i < g->facts.n && !g->takes.n; i++)
		if (g->facts.at[i].le && g->facts.at[i].b == s->dim &&
		    dim_is_const(g->facts.at[i].a, &v) && v > least && v <= s->hi)
			least = v;
	return least;
}

void host_desc(Host *h)
{
	Graph *g = h->m->graph;
	/* whether inputs are read on the host is known for GPUs, and reported by the CPUs'
	 * description */
	const Graph *placed = h->m->gpu ? h->m->gpu->graph : g;

	if (h->npublic) {
		strbuf_printf(h->b, "static const dl_sym %s[] = {\n", host_own(h, "syms"));
		for (int i = 0; i < h->npublic; i++) {
			Sym *s = h->syms.at[i];
			int64_t least;

			strbuf_printf(h->b, "\t{sizeof(dl_sym), %s, ",
				      i < h->nshape_syms ? "DL_SYM_INPUT" : "DL_SYM_DATA");
			host_quote(h, s->name);
			least = least_of(h, s);
			if (least == -DIM_INF)
				strbuf_puts(h->b, ", INT64_MIN, ");
			else
				strbuf_printf(h->b, ", %lld, ", (long long)least);
			if (s->hi == DIM_INF)
				strbuf_puts(h->b, "DL_UNLIMITED, ");
			else
				strbuf_printf(h->b, "%lld, ", (long long)s->hi);
			strbuf_puts(h->b,
				    graph_has_batch(g, s) ? "DL_SYM_INDEPENDENT, 0},\n" : "0, 0},\n");
		}
		strbuf_puts(h->b, "};\n\n");
	}
	for (int i = 0; i < g->inputs.n; i++)
		print_io(h, "in", g->inputs.at[i]->type, i);
	for (int i = 0; i < g->results.n; i++) {
		print_io(h, "out", g->results.at[i]->value->type, i);
		print_accuracy(h, i);
	}
	if (g->inputs.n) {
		strbuf_printf(h->b, "\nstatic const dl_io %s[] = {\n", host_own(h, "inputs"));
		for (int i = 0; i < g->inputs.n; i++)
			print_io_row(h, "in", g->inputs.at[i]->type, host_input_name(g, i), i, -1,
				     io_flags(h, placed->inputs.at[i]), "NULL");
		strbuf_puts(h->b, "};\n");
	}
	if (g->results.n) {
		strbuf_printf(h->b, "\nstatic const dl_io %s[] = {\n", host_own(h, "outputs"));
		for (int i = 0; i < g->results.n; i++)
			print_io_row(h, "out", g->results.at[i]->value->type,
				     host_result_name(g, i), i, host_alias(h, i), "0",
				     accuracy_table(h, i));
		strbuf_puts(h->b, "};\n");
	}
	if (g->metadata)
		print_metadata(h, g->metadata);
	/* in a struct, as linkers merge string literals, and the hash may change after linking */
	strbuf_printf(h->b, "\nstatic const struct {\n\tchar text[17];\n} %s = {\"%016llx\"};\n",
		      host_own(h, "hash"), (unsigned long long)h->o->hash);
	print_desc(h, "desc", g->inputs.n ? "inputs" : NULL, g->inputs.n,
		   g->results.n ? "outputs" : NULL, g->results.n);
	if (!g->takes.n && !g->gives.n)
		return;
	if (g->takes.n)
		print_forms(h, &g->takes, true, placed);
	if (g->gives.n)
		print_forms(h, &g->gives, false, placed);
	print_desc(h, "shown",
		   g->takes.n    ? "shown_inputs"
		   : g->inputs.n ? "inputs"
				 : NULL,
		   g->takes.n ? g->takes.n : g->inputs.n,
		   g->gives.n     ? "shown_outputs"
		   : g->results.n ? "outputs"
				  : NULL,
		   g->gives.n ? g->gives.n : g->results.n);
}

/* Prints a line of the header: input 0: "x" f32[batch,64], then SUFFIX. */
static void put_io_comment(StrBuf *b, const char *what, int i, const char *name, const Type *t,
			   const char *suffix)
{
	STRBUF_LOCAL(type);

	type_print(&type, t);
	strbuf_printf(b, "/* %s %d: \"", what, i);
	strbuf_escape(b, name, escape_c_comment);
	strbuf_puts(b, "\" ");
	strbuf_escape(b, strbuf_str(&type), escape_c_comment);
	strbuf_printf(b, "%s */\n", suffix);
}

/* The same for the values that an application passes (IN) or gets, if some are not tensors. */
static void put_form_comments(StrBuf *b, const Graph *g, bool in)
{
	const GraphForms *forms = in ? &g->takes : &g->gives;

	for (int i = 0, k = 0; i < forms->n; k += forms->at[i++].parts) {
		const GraphForm *f = &forms->at[i];

		put_io_comment(b, in ? "input" : "output", i, f->name ? f->name : "",
			       f->type ? f->type : io_type(g, in, k),
			       in && g->inputs.at[k]->preset ? ", which has a default" : "");
	}
}

void gen_header(Module *m, const HostOpts *o, StrBuf *b)
{
	Graph *g = m->graph;

	strbuf_printf(
		b,
		"/* The model %s, as compiled by dlcc. Generated: belongs to whoever compiled it. */\n#ifndef DLCC_%s_H\n#define DLCC_%s_H\n\n"
		"#include \"dlrt.h\"\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
		o->name, o->name, o->name);
	for (int i = 0; i < g->inputs.n && !g->takes.n; i++)
		put_io_comment(b, "input", i, host_input_name(g, i), g->inputs.at[i]->type,
			       g->inputs.at[i]->preset ? ", which has a default" : "");
	put_form_comments(b, g, true);
	for (int i = 0; i < g->results.n && !g->gives.n; i++)
		put_io_comment(b, "output", i, host_result_name(g, i),
			       g->results.at[i]->value->type, "");
	put_form_comments(b, g, false);
	strbuf_printf(
		b,
		"\nconst dl_api *%s_get_api(uint32_t abi_version);\nconst dl_desc *%s_describe(void);\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n",
		o->name, o->name);
}
