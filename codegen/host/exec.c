/* SPDX-License-Identifier: Apache-2.0 */
/* Prints exec, which runs the graph: it reads the symbols that are elements of values, launches
 * kernels, and copies results that no kernel wrote. */
#include "codegen/host/host_impl.h"
#include "ir/graph/blocks.h"
#include "passes/forms/kernels.h"

#include <string.h>

static const char *int_type(DType t)
{
	switch (t) {
	case DT_I64: return "int64_t";
	case DT_U64: return "uint64_t";
	case DT_I32: return "int32_t";
	case DT_U32: return "uint32_t";
	case DT_I16: return "int16_t";
	case DT_U16: return "uint16_t";
	case DT_I8: return "int8_t";
	case DT_U8:
	case DT_BOOL: return "uint8_t";
	default: return NULL;
	}
}

/* Describes symbol S, an element of V, for messages. */
static const char *element_text(Host *h, const Value *v, const Sym *s)
{
	const char *from = v->def && v->def->locs ? host_node(h, locs_first(v->def->locs))
						  : arena_printf(h->m->arena, "input \"%.100s\"",
								 v->name ? v->name : "");

	return arena_printf(h->m->arena, "%s: element %lld", from,
			    (long long)graph_source(h->m->graph, s).at);
}

/* Prints a check that symbol S, number I, an element of V, is within its bounds. */
static void print_bounds(Host *h, const Value *v, const Sym *s, int i)
{
	const bool low = s->lo > -DIM_INF, high = s->hi < DIM_INF;
	const long long lo = s->lo, hi = s->hi;

	if (!low && !high)
		return;
	strbuf_puts(h->b, "\tif (");
	if (low)
		strbuf_printf(h->b, "sym[%d] < INT64_C(%lld)%s", i, lo, high ? " || " : "");
	if (high)
		strbuf_printf(h->b, "sym[%d] > INT64_C(%lld)", i, hi);
	strbuf_puts(h->b, ")\n\t\treturn dl_fail(x, DL_SHAPE, \"%s is %lld, expected ");
	if (low && high)
		strbuf_printf(h->b, "%lld to %lld\", ", lo, hi);
	else
		strbuf_printf(h->b, "%lld or %s\", ", low ? lo : hi, low ? "more" : "less");
	host_quote(h, element_text(h, v, s));
	strbuf_printf(h->b, ", (long long)sym[%d]);\n", i);
}

/* The For that the node N is in. */
static const Node *loop_around(const Node *n)
{
	for (n = block_open(n); n->op != OP_For;)
		n = block_open(n);
	return n;
}

/* Prints the reads of symbols that are elements of V, and the sizes that depend on them. */
static void print_reads(Host *h, Value *v)
{
	bool any = false;

	for (int i = h->nshape_syms; v->syms && i < h->npublic; i++) {
		Sym *s = h->syms.at[i];
		const SymSource source = graph_source(h->m->graph, s);

		if (source.value != v || h->known[s->id])
			continue;
		if (v->def && v->def->op == OP_Iteration) {
			strbuf_printf(h->b, "\tsym[%d] = %s;\n", i,
				      host_iteration(h, loop_around(v->def)));
			h->known[s->id] = any = true;
			continue;
		}
		h->reads = true;
		strbuf_printf(h->b, "\tif (x->status)\n\t\treturn x->status;\n");
		strbuf_printf(h->b,
			      "\tsym[%d] = (int64_t)((const %s *)(const void *)(%s))[%lld];\n", i,
			      int_type(v->type->dtype), host_value(h, v), (long long)source.at);
		if (v->type->dtype == DT_U64) /* more than any size */
			strbuf_printf(h->b, "\tsym[%d] = sym[%d] < 0 ? INT64_MAX : sym[%d];\n", i,
				      i, i);
		print_bounds(h, v, s, i);
		h->known[s->id] = any = true;
	}
	if (!any)
		return;
	host_named(h);
	host_facts(h);
}

void host_output(Host *h, int o)
{
	const Type *t = h->m->graph->results.at[o]->value->type;

	if (!type_from_data(t))
		return;
	strbuf_printf(h->b, "\tif (dl_output(x, %d, (int64_t[]){", o);
	for (int d = 0; d < t->rank; d++)
		strbuf_printf(h->b, "%s%s", d ? ", " : "", host_dim(h, t->dims[d]));
	strbuf_puts(h->b,
		    t->rank ? "}))\n\t\treturn x->status;\n" : "0}))\n\t\treturn x->status;\n");
}

void host_indent(StrBuf *b, StrBuf *body)
{
	const char *s = strbuf_str(body);

	while (*s) {
		const size_t n = strcspn(s, "\n") + 1;

		strbuf_puts(b, "\t");
		strbuf_put(b, s, n);
		s += n;
	}
	strbuf_free(body);
	*body = (StrBuf){0};
}

/* Prints the copy of a value between host and GPU, after all work before it is done. */
static void print_crossing(Host *h, Node *n)
{
	const bool down = node_on_host(n);
	Value *from = node_in(n, 0);

	host_result_memory(h, n);
	h->reads = true;
	strbuf_printf(h->b, "\tif (%s(x, %s, %s, %s))\n\t\treturn x->status;\n",
		      down ? "dl_gpu_to_host" : "dl_gpu_from_host",
		      host_place(h, host_value_place(h, n->out[0])),
		      down ? host_place(h, host_value_place(h, from)) : host_value(h, from),
		      host_dim(h, type_bytes(h->m->ctx, n->out[0]->type)));
}

void host_copy(Host *h, const char *to, Value *v)
{
	Dim *bytes = type_bytes(h->m->ctx, v->type);
	const char *from = host_place(h, host_value_place(h, v));
	const char *nonempty = dim_is_const(bytes, NULL) ? ""
							 : arena_printf(h->m->arena, " && %s > 0",
									host_dim(h, bytes));

	if (dim_equals(bytes, 0))
		return;
	strbuf_printf(h->b,
		      h->gpu ? "\tif (!x->status%s)\n\t\tdl_gpu_copy(x, %s, %s, %s);\n"
			     : "\tif (!x->status%s)\n\t\tmemcpy(%s, %s, (size_t)(%s));\n",
		      nonempty, to, from, host_dim(h, bytes));
}

/* Copies results that no kernel wrote to the caller's memory. */
static void print_copies(Host *h)
{
	Graph *g = h->m->graph;

	for (int i = 0; i < g->results.n; i++) {
		Value *v = g->results.at[i]->value;
		const Place *p = host_value_place(h, v);

		if (p->kind == PLACE_OUTPUT && p->at == i)
			continue;
		host_output(h, i);
		if (h->gpu && v->place == ON_HOST)
			strbuf_printf(
				h->b, "\tif (dl_gpu_give(x, %d, %s, %s))\n\t\treturn x->status;\n",
				i, host_value(h, v), host_dim(h, type_bytes(h->m->ctx, v->type)));
		else
			host_copy(h, arena_printf(h->m->arena, "x->out[%d]", i), v);
	}
}

void host_results_read(Host *h, Node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			print_reads(h, n->out[i]);
}

void host_nodes(Host *h, int t, Node *from, const Node *to)
{
	for (Node *n = from; n != to; n = n->next) {
		if (n->op == OP_For) {
			n = host_loop(h, t, n);
		} else if (n->op == OP_When) {
			n = host_condition(h, t, n);
		} else if (n->op == OP_While) {
			strbuf_printf(h->b, "\tif (!(%s))\n\t\tbreak;\n",
				      host_dim(h, control_dim(n, "value")));
		} else if (node_kernel(n)) {
			host_launch(h, t, n);
		} else if (n->op == OP_Copy) {
			print_crossing(h, n);
		}
		host_results_read(h, n);
	}
}

bool host_only_launches(Host *h)
{
	const Graph *g = h->m->graph;
	const MemPlan *p = h->m->mem;

	if (h->gpu || h->strings || p->nregions || p->carry.n || h->npublic > h->nshape_syms)
		return false;
	for (const Node *n = g->first; n; n = n->next)
		if (n->op == OP_For || n->op == OP_When || n->op == OP_Copy)
			return false;
	for (int i = 0; i < g->results.n; i++) {
		const Place *at = host_value_place(h, g->results.at[i]->value);

		if (at->kind != PLACE_OUTPUT || at->at != i)
			return false;
	}
	return true;
}

const char *host_exec_name(Host *h, int t)
{
	return host_own(h, h->m->ntargets > 1 ? arena_printf(h->m->arena, "exec_%d", t) : "exec");
}

void host_exec(Host *h, int t)
{
	Graph *g = h->m->graph;
	int n = sym_count(h->m->ctx), nconsts = h->consts.n;
	bool *known = NEW_ARRAY(h->m->arena, n + 1, bool),
	     *done = NEW_ARRAY(h->m->arena, g->facts.n + 1, bool);
	STRBUF_LOCAL(body);
	StrBuf *b = h->b;

	memcpy(known, h->known, (size_t)n);
	memcpy(done, h->fact_done, (size_t)g->facts.n);
	h->b = &body;
	h->nb = h->nd = h->nloop_sizes = 0;
	h->reads = h->picks = false;
	for (int i = 0; i < g->inputs.n; i++)
		print_reads(h, g->inputs.at[i]);
	host_nodes(h, t, g->first, NULL);
	print_copies(h);
	h->b = b;
	host_consts(h, nconsts);
	strbuf_printf(b, "static int %s(dl_exec *x)\n{\n\tint64_t *const sym = x->sym;\n",
		      host_exec_name(h, t));
	if (h->m->mem->nregions)
		strbuf_printf(b, "\tvoid *region[%d] = {NULL};\n", h->m->mem->nregions);
	if (h->m->mem->carry.n)
		strbuf_printf(b, "\tvoid *carry[%d], *next[%d];\n", h->m->mem->carry.n,
			      h->m->mem->carry.n);
	if (h->picks)
		strbuf_puts(b, "\tint at;\n");
	if (h->nb)
		strbuf_printf(b, "\tvoid *b[%d];\n", h->nb);
	if (h->nd)
		strbuf_printf(b, "\tint64_t d[%d];\n", h->nd);
	strbuf_puts(b, "\n\t(void)sym;\n");
	if (h->m->mem->carry.n)
		strbuf_puts(b, "\t(void)next;\n");
	if (h->gpu && h->reads)
		strbuf_puts(b, "\tif (dl_gpu_reads(x))\n\t\treturn x->status;\n");
	strbuf_printf(b, "%s\treturn x->status;\n}\n\n", strbuf_str(&body));
	memcpy(h->known, known, (size_t)n);
	memcpy(h->fact_done, done, (size_t)g->facts.n);
}
