/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/host/gen_host.h"

#include "codegen/host/host_impl.h"
#include "codegen/targets.h"
#include "runtime/strtable.h"

/* The scratch of stages: the largest constant, and each other size once. Sizes that are known only
 * during a run are not planned; print_launch allocates them. */
typedef struct StageScratch {
	int64_t constant;
	VEC(Dim *) dims;
} StageScratch;

/* Adds the scratch of S's stages, of one variant, to ALL. */
static void find_scratch(Host *h, const Schedule *s, StageScratch *all)
{
	for (int j = 0; j < s->stages.n; j++) {
		Dim *d = memplan_size(h->m, s->stages.at[j]->scratch);
		bool seen = false;
		int64_t v;

		if (!d)
			continue;
		if (dim_is_const(d, &v)) {
			all->constant = v > all->constant ? v : all->constant;
			continue;
		}
		for (int i = 0; i < all->dims.n; i++)
			seen = seen || all->dims.at[i] == d;
		if (!seen)
			vec_push(h->m->arena, &all->dims, d);
	}
}

/* The offset of slot I of S, whose first one is number FROM of the program; where it ends, rounded
 * up. */
static const char *slot_begin(Host *h, const Slots *s, int i, int from)
{
	return s->at[i].offset >= 0 ? arena_printf(h->m->arena, "%lld", (long long)s->at[i].offset)
				    : arena_printf(h->m->arena, "offset[%d]", from + i);
}

static const char *slot_end(Host *h, const Slots *s, int i, int from)
{
	return arena_printf(h->m->arena, "dl_add(%s, dl_align(dl_size(%s)))",
			    slot_begin(h, s, i, from), host_dim(h, s->at[i].size));
}

/* Prints the offsets of S, whose first slot is number FROM of the program, above BASE (null: 0),
 * and assigns to END where the last one ends. */
static void print_slots(Host *h, const Slots *s, int from, const char *base, const char *end)
{
	for (int k = 0; k < s->n; k++) {
		const int i = s->order[k];

		strbuf_printf(h->b, "\toffset[%d] = %s;\n", from + i,
			      s->at[i].offset >= 0 ? slot_begin(h, s, i, from)
						   : slot_end(h, s, s->at[i].below[0], from));
		for (int b = 1; s->at[i].offset < 0 && b < s->at[i].nbelow; b++)
			strbuf_printf(h->b, "\toffset[%d] = dl_max(offset[%d], %s);\n", from + i,
				      from + i, slot_end(h, s, s->at[i].below[b], from));
	}
	for (int i = 0; i < s->n; i++)
		if (s->at[i].top)
			strbuf_printf(h->b, "\t%s = dl_max(%s, %s);\n", end, end,
				      slot_end(h, s, i, from));
	for (int i = 0; base && i < s->n; i++)
		strbuf_printf(h->b, "\toffset[%d] = dl_add(%s, offset[%d]);\n", from + i, base,
			      from + i);
}

static void print_plan(Host *h)
{
	MemPlan *p = h->m->mem;
	StageScratch all = {0};

	for (int t = 0; t < h->m->ntargets; t++)
		for (const Node *n = h->m->graph->first; n; n = n->next)
			if (n->id < h->m->nsched && (!h->gpu || node_on_host(n)))
				for (const Schedule *s = h->m->sched[t][n->id]; s; s = s->next)
					find_scratch(h, s, &all);
	strbuf_printf(
		h->b,
		"static void %s(const int64_t *sym, int64_t *offset, int64_t *total, int64_t *scratch)\n{\n"
		"\tint64_t end = 0;\n\n\t(void)sym;\n\t(void)offset;\n",
		host_own(h, "plan"));
	print_slots(h, &p->slots, 0, NULL, "end");
	strbuf_printf(h->b, "\t*total = end;\n\t*scratch = %lld;\n", (long long)all.constant);
	for (int i = 0; i < all.dims.n; i++)
		strbuf_printf(h->b, "\t*scratch = dl_max(*scratch, %s);\n",
			      host_dim(h, all.dims.at[i]));
	if (p->host.n) {
		strbuf_puts(h->b, "\tend = 0;\n");
		print_slots(h, &p->host, p->slots.n, "dl_align(*scratch)", "end");
		strbuf_puts(h->b, "\t*scratch = dl_add(dl_align(*scratch), end);\n");
	}
	strbuf_puts(h->b, "}\n\n");
}

static void print_strings(Host *h, const char *name, const char *const *s, int n)
{
	if (!n)
		return;
	strbuf_printf(h->b, "static const char *const %s[] = {\n", host_own(h, name));
	for (int i = 0; i < n; i++) {
		strbuf_puts(h->b, "\t");
		host_quote(h, s[i]);
		strbuf_puts(h->b, ",\n");
	}
	strbuf_puts(h->b, "};\n\n");
}

static const char *weights_name(Host *h)
{
	return arena_printf(h->m->arena, "weights%s", h->o->suffix ? h->o->suffix : "");
}

static void print_embedded(Host *h)
{
	/* one array serves both programs, before the first */
	if (h->o->weights != WEIGHTS_EMBEDDED || h->m->gpu)
		return;
	if (h->o->weights_path) {
		/* the assembler copies them: as C text they would take a hundred times as long to
		 * compile */
		strbuf_printf(
			h->b,
			"extern const unsigned char %s[] __attribute__((visibility(\"hidden\")));\n",
			weights_name(h));
		strbuf_printf(
			h->b,
			"__asm__(\".section .rodata\\n.balign 64\\n%s:\\n.incbin \\\"%s\\\"\\n.previous\");\n\n",
			weights_name(h), h->o->weights_path);
		return;
	}
	strbuf_printf(h->b, "static const _Alignas(64) unsigned char %s[] = {", weights_name(h));
	for (int64_t i = 0; i < h->o->weights_size; i++)
		strbuf_printf(h->b, "%s%d,", i % 24 ? "" : "\n\t", h->o->weights_data[i]);
	strbuf_puts(h->b, "\n};\n\n");
}

/* Prints the offsets, in the weights, of the default values of inputs. */
static void print_presets(Host *h)
{
	if (!h->presets)
		return;
	strbuf_printf(h->b, "static const int64_t %s[] = {", host_own(h, "defaults"));
	for (int i = 0; i < h->m->graph->inputs.n; i++)
		strbuf_printf(h->b, "%s%lld", i ? ", " : "", (long long)h->presets[i]);
	strbuf_puts(h->b, "};\n\n");
}

/* Whether the program has strings: values, or routines on them. */
static bool has_strings(const Graph *g)
{
	for (int i = 0; i < g->inputs.n; i++)
		if (g->inputs.at[i]->type->dtype == DT_STR)
			return true;
	for (const Node *n = g->first; n; n = n->next) {
		const Attr *a = node_attr(n, "kernel");

		for (int i = 0; i < n->nout; i++)
			if (n->out[i] && n->out[i]->type->dtype == DT_STR)
				return true;
		if (a && kernel_has_strings(a->kernel))
			return true;
	}
	return false;
}

/* Prints the results that may be computed in the memory of an input. */
static void print_aliases(Host *h)
{
	const Graph *g = h->m->graph;

	if (!g->aliases.n)
		return;
	strbuf_printf(h->b, "static const dl_alias %s[] = {\n", host_own(h, "aliases"));
	VEC_EACH_AT (a, &g->aliases) {
		strbuf_printf(h->b, "\t{%d, %d, %d, %d, %d, %d},\n", a->result, a->input, a->dim,
			      a->room_in ? h->sym_index[a->room_in->id] : -1,
			      a->room_in ? h->sym_index[a->room_out->id] : -1,
			      h->sym_index[a->copied->id]);
	}
	strbuf_puts(h->b, "};\n\n");
}

/* Prints all strings that have an id at compile time, in the order of their ids. */
static void print_constant_strings(Host *h)
{
	const dl_strings *t = h->m->graph->ctx->strings;

	h->strings = has_strings(h->m->graph) ? strings_count(t) : 0;
	if (!h->strings)
		return;
	strbuf_printf(h->b, "static const dl_str %s[] = {\n", host_own(h, "strings"));
	for (int64_t i = 0; i < h->strings; i++) {
		const dl_str s = strings_get(t, i);

		strbuf_puts(h->b, "\t{");
		host_quote_n(h, s.p, s.n);
		strbuf_printf(h->b, ", %llu},\n", (unsigned long long)s.n);
	}
	strbuf_puts(h->b, "};\n\n");
}

/* Prints the table of the features that each target's code needs. PORTABLE: plain C multiplies
 * bytes. */
static void print_features(Host *h, bool portable)
{
	strbuf_printf(h->b, "static const uint64_t %s[] = {", host_own(h, "variants"));
	for (int i = 0; i < h->m->ntargets; i++) {
		const Target *t = h->m->target[i];
		const uint64_t dot = portable ? target_dot_features(t) : 0;

		strbuf_printf(h->b, "%s%lluu", i ? ", " : "",
			      (unsigned long long)(t->features & ~dot));
	}
	strbuf_puts(h->b, "};\n");
}

static void print_variants(Host *h)
{
	bool dot = false;

	for (int i = 0; i < h->m->ntargets; i++)
		dot = dot || target_dot_features(h->m->target[i]);
	if (dot) {
		strbuf_puts(h->b, "#ifdef DL_PORTABLE_DOT\n");
		print_features(h, true);
		strbuf_puts(h->b, "#else\n");
	}
	print_features(h, false);
	strbuf_puts(h->b, dot ? "#endif\n\n" : "\n");
}

static void print_program(Host *h)
{
	static const char *const kinds[] = {"DL_WEIGHTS_NONE", "DL_WEIGHTS_EMBEDDED",
					    "DL_WEIGHTS_SECTION", "DL_WEIGHTS_FILE"};
	MemPlan *p = h->m->mem;

	if (h->m->ntargets > 1) {
		strbuf_printf(h->b, "static int %s(dl_exec *x)\n{\n", host_own(h, "exec"));
		strbuf_puts(h->b, "\tswitch (x->variant) {\n");
		for (int t = 0; t + 1 < h->m->ntargets; t++)
			strbuf_printf(h->b, "\tcase %d: return %s(x);\n", t, host_exec_name(h, t));
		strbuf_printf(h->b, "\tdefault: return %s(x);\n\t}\n}\n\n",
			      host_exec_name(h, h->m->ntargets - 1));
	}
	print_strings(h, "kernels", h->kernels.at, h->kernels.n);
	print_strings(h, "faults", h->faults.at, h->faults.n);
	if (h->gpu)
		host_gpu_tables(h);
	print_variants(h);
	print_embedded(h);
	print_presets(h);
	print_aliases(h);
	print_constant_strings(h);
	strbuf_printf(
		h->b,
		"static const dl_program %s = {\n\t.size = sizeof(dl_program),\n\t.abi = DL_ABI_VERSION,\n\t.desc = &%s,\n"
		"\t.n_buf = %d,\n\t.n_region = %d,\n",
		host_own(h, "prog"), host_own(h, "desc"), p->slots.n + p->host.n, p->nregions);
	if (p->host.n)
		strbuf_printf(h->b, "\t.n_host_buf = %d,\n", p->host.n);
	if (h->kernels.n)
		strbuf_printf(h->b, "\t.kernels = %s,\n\t.n_kernels = %d,\n",
			      host_own(h, "kernels"), h->kernels.n);
	if (h->faults.n)
		strbuf_printf(h->b, "\t.faults = %s,\n\t.n_faults = %d,\n", host_own(h, "faults"),
			      h->faults.n);
	strbuf_printf(h->b, "\t.variants = %s,\n\t.n_variants = %d,\n\t.weights_kind = %s,\n",
		      host_own(h, "variants"), h->m->ntargets, kinds[h->o->weights]);
	if (h->o->weights == WEIGHTS_EMBEDDED)
		strbuf_printf(h->b, "\t.weights = %s,\n", weights_name(h));
	if (h->o->weights == WEIGHTS_FILE) {
		strbuf_puts(h->b, "\t.weights_file = ");
		host_quote(h, h->o->weights_file);
		strbuf_puts(h->b, ",\n");
	}
	strbuf_printf(
		h->b,
		"\t.weights_hash = UINT64_C(0x%016llx),\n\t.bind = %s,\n\t.plan = %s,\n\t.exec = %s,\n",
		(unsigned long long)h->o->weights_hash, host_own(h, "bind"), host_own(h, "plan"),
		host_own(h, "exec"));
	if (h->dims)
		strbuf_printf(h->b, "\t.dims = %s,\n", host_own(h, "dims"));
	if (h->presets)
		strbuf_printf(h->b, "\t.defaults = %s,\n", host_own(h, "defaults"));
	if (h->m->graph->takes.n || h->m->graph->gives.n)
		strbuf_printf(h->b, "\t.shown = &%s,\n", host_own(h, "shown"));
	if (h->strings)
		strbuf_printf(
			h->b,
			"\t.strings = %s,\n\t.n_strings = %lld,\n\t.string_table = &dl_rt_strings,\n",
			host_own(h, "strings"), (long long)h->strings);
	if (h->m->graph->aliases.n)
		strbuf_printf(h->b, "\t.aliases = %s,\n\t.n_aliases = %d,\n\t.n_more_sym = %d,\n",
			      host_own(h, "aliases"), h->m->graph->aliases.n,
			      h->syms.n - h->npublic);
	if (host_only_launches(h)) {
		strbuf_puts(h->b, "\t.only_launches = 1,\n");
		if (h->m->slice.sym)
			strbuf_printf(h->b, "\t.slice_sym = %d,\n\t.slice = %lld,\n",
				      h->sym_index[h->m->slice.sym->id],
				      (long long)h->m->slice.parts);
	}
	if (h->gpu)
		strbuf_printf(h->b, "\t.gpu = &%s,\n};\n\n", host_own(h, "gpu"));
	else if (h->m->gpu)
		strbuf_printf(h->b, "\t.on_gpu = &%s,\n};\n\nDL_DEFINE_API(%s, %s);\n",
			      host_own(h, "prog_gpu"), h->o->name, host_own(h, "prog"));
	else
		strbuf_printf(h->b, "};\n\nDL_DEFINE_API(%s, %s);\n", h->o->name,
			      host_own(h, "prog"));
}

static void print_prototypes(Host *h, const GenC *g)
{
	for (int i = 0; i < g->funcs.n; i++)
		strbuf_printf(
			h->b,
			"void %s(const dl_kctx *k, int64_t begin, int64_t end, void *scratch);\n",
			g->funcs.at[i]->name);
}

/* Prints the program of H's module to OUT. */
static bool print_all(Host *h, StrBuf *out)
{
	Module *m = h->m;
	STRBUF_LOCAL(body);
	STRBUF_LOCAL(sizes);

	h->b = &body;
	h->sizes = &sizes;
	h->kernel_id = NEW_ARRAY(m->arena, m->graph->nnodes + 1, int);
	for (int i = 0; i < m->graph->nnodes; i++)
		h->kernel_id[i] = -1;
	host_find_syms(h);
	host_desc(h);
	if (!host_bind(h))
		return false;
	print_plan(h);
	for (int t = 0; t < m->ntargets; t++)
		host_exec(h, t);
	print_program(h);
	strbuf_puts(out, strbuf_str(&sizes));
	strbuf_puts(out, strbuf_str(&body));
	return !h->lacks || diag_error(m->ctx->diag, (DiagLoc){.file = m->graph->file},
				       "the size \"%s\" does not follow from the inputs",
				       h->lacks->name);
}

bool gen_host(Module *m, GenC *const *g, const HostOpts *o, StrBuf *b)
{
	STRBUF_LOCAL(body);
	const int64_t *presets = m->mem ? m->mem->presets : NULL;
	Host h = {.m = m, .gc = g, .o = o, .presets = presets},
	     gpu = {.m = m->gpu, .o = o, .gpu = true, .presets = presets};
	bool ok = (!m->gpu || print_all(&gpu, &body)) && (!m->ntargets || print_all(&h, &body));

	h.b = b;
	for (int t = 0; t < m->ntargets && !o->one_file; t++)
		print_prototypes(&h, g[t]);
	if (o->beside && !o->one_file)
		print_prototypes(&h, o->beside);
	strbuf_puts(b, "\n");
	strbuf_puts(b, strbuf_str(&body));
	return ok;
}
