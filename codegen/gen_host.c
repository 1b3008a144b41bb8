/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/gen_host.h"

#include "passes/kernels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct Host {
	Module *m;
	GenC *const *gc;
	const HostOpts *o;
	StrBuf *b;
	int *sym_index;      /* by Sym.id: index in dl_desc.sym, -1 */
	VEC(Sym *) syms;     /* those known from shapes first */
	int nshape_syms;
	bool *known;         /* by Sym.id, while exec is printed */
	bool *fact_done;
	VEC(const char *) kernels, faults;
	int *kernel_id;      /* by Node.id */
} Host;

/* The name of a static object of this file. */
static const char *own(Host *h, const char *name)
{
	return h->o->suffix ? arena_printf(h->m->arena, "%s%s", name, h->o->suffix) : name;
}

/* ---- Symbols ---- */

static const char *sym_text(void *arg, const Sym *s)
{
	Host *h = arg;

	return arena_printf(h->m->arena, "sym[%d]", h->sym_index[s->id]);
}

static const char *dim_c(Host *h, Dim *d)
{
	StrBuf b = {0};
	char *s;

	dim_print_c(&b, d, sym_text, h);
	s = arena_strdup(h->m->arena, strbuf_str(&b));
	strbuf_free(&b);
	return s;
}

static void add_sym(void *arg, Sym *s)
{
	Host *h = arg;

	if (h->sym_index[s->id] >= 0)
		return;
	h->sym_index[s->id] = h->syms.n;
	vec_push(h->m->arena, &h->syms, s);
}

static bool alive(const Host *h, const Value *v)
{
	return v->id < h->m->graph->nvalues && (v->def || v->index < h->m->graph->inputs.n) && h->m->mem->value[v->id].kind != PLACE_NONE;
}

typedef struct Indexed {
	const Host *h;
	bool ok;
} Indexed;

static void indexed(void *arg, Sym *s)
{
	Indexed *x = arg;

	x->ok = x->ok && x->h->sym_index[s->id] >= 0;
}

/* Whether the stub has all symbols of D. */
static bool all_indexed(const Host *h, Dim *d)
{
	Indexed x = {h, true};

	dim_syms(d, indexed, &x);
	return x.ok;
}

static void find_syms(Host *h)
{
	Graph *g = h->m->graph;
	int n = sym_count(h->m->ctx);

	h->sym_index = NEW_ARRAY(h->m->arena, n + 1, int);
	h->known = NEW_ARRAY(h->m->arena, n + 1, bool);
	for (int i = 0; i < n; i++)
		h->sym_index[i] = -1;
	for (int i = 0; i < g->inputs.n; i++)
		for (int d = 0; d < g->inputs.at[i]->type->rank; d++)
			dim_syms(g->inputs.at[i]->type->dims[d], add_sym, h);
	for (int i = 0; i < n; i++)
		if (sym_at(h->m->ctx, i)->def && !sym_from_data(sym_at(h->m->ctx, i)) && all_indexed(h, sym_at(h->m->ctx, i)->def))
			add_sym(h, sym_at(h->m->ctx, i));
	h->nshape_syms = h->syms.n;
	for (int i = 0; i < n; i++)
		if (sym_at(h->m->ctx, i)->src && alive(h, sym_at(h->m->ctx, i)->src))
			add_sym(h, sym_at(h->m->ctx, i));
	for (int i = 0; i < n; i++)
		if (sym_at(h->m->ctx, i)->def && all_indexed(h, sym_at(h->m->ctx, i)->def))
			add_sym(h, sym_at(h->m->ctx, i));
}

typedef struct KnownCheck {
	Host *h;
	bool ok;
} KnownCheck;

static void check_known(void *arg, Sym *s)
{
	KnownCheck *k = arg;

	k->ok = k->ok && k->h->known[s->id];
}

static bool dim_known(Host *h, Dim *d)
{
	KnownCheck k = {h, true};

	dim_syms(d, check_known, &k);
	return k.ok;
}

/* ---- Tables ---- */

static void quote(Host *h, const char *s)
{
	/* C strings: the escapes of the text IR, with \xHH closed so that no digit follows it. */
	strbuf_puts(h->b, "\"");
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c == '"' || c == '\\')
			strbuf_printf(h->b, "\\%c", c);
		else if (c < 32 || c == 127 || c == '?')
			strbuf_printf(h->b, "\\%03o", c);
		else
			strbuf_put(h->b, s, 1);
	}
	strbuf_puts(h->b, "\"");
}

static void print_io(Host *h, const char *table, const Type *t, int i)
{
	int64_t c;

	if (!t->rank)
		return;
	strbuf_printf(h->b, "static const dl_dim %s[] = {\n", own(h, arena_printf(h->m->arena, "%s_%d_dims", table, i)));
	for (int d = 0; d < t->rank; d++) {
		StrBuf text = {0};
		Sym *s = dim_as_sym(t->dims[d]);

		dim_print(&text, t->dims[d]);
		strbuf_printf(h->b, "\t{sizeof(dl_dim), %d, %lld, ", s ? h->sym_index[s->id] : -1,
			      dim_is_const(t->dims[d], &c) ? (long long)c : -1LL);
		quote(h, strbuf_str(&text));
		strbuf_puts(h->b, "},\n");
		strbuf_free(&text);
	}
	strbuf_puts(h->b, "};\n");
}

static void print_io_row(Host *h, const char *table, const Type *t, const char *name, int i)
{
	strbuf_printf(h->b, "\t{sizeof(dl_io), %d, DL_TENSOR, %d, ", dtype_info[t->dtype].onnx, t->rank);
	quote(h, name);
	if (t->rank)
		strbuf_printf(h->b, ", %s, -1, 0},\n", own(h, arena_printf(h->m->arena, "%s_%d_dims", table, i)));
	else
		strbuf_puts(h->b, ", NULL, -1, 0},\n");
}

static const char *input_name(const Graph *g, int i)
{
	return g->inputs.at[i]->name ? g->inputs.at[i]->name : "";
}

static const char *result_name(const Graph *g, int i)
{
	return g->result_names.at[i] ? g->result_names.at[i] : "";
}

static void print_desc(Host *h)
{
	Graph *g = h->m->graph;

	if (h->syms.n) {
		strbuf_printf(h->b, "static const dl_sym %s[] = {\n", own(h, "syms"));
		for (int i = 0; i < h->syms.n; i++) {
			Sym *s = h->syms.at[i];

			strbuf_printf(h->b, "\t{sizeof(dl_sym), %s, ", i < h->nshape_syms ? "DL_SYM_INPUT" : "DL_SYM_DATA");
			quote(h, s->name);
			strbuf_printf(h->b, ", %lld, ", (long long)s->lo);
			if (s->hi == DIM_INF)
				strbuf_puts(h->b, "DL_UNLIMITED},\n");
			else
				strbuf_printf(h->b, "%lld},\n", (long long)s->hi);
		}
		strbuf_puts(h->b, "};\n\n");
	}
	for (int i = 0; i < g->inputs.n; i++)
		print_io(h, "in", g->inputs.at[i]->type, i);
	for (int i = 0; i < g->results.n; i++)
		print_io(h, "out", g->results.at[i]->value->type, i);
	if (g->inputs.n) {
		strbuf_printf(h->b, "\nstatic const dl_io %s[] = {\n", own(h, "inputs"));
		for (int i = 0; i < g->inputs.n; i++)
			print_io_row(h, "in", g->inputs.at[i]->type, input_name(g, i), i);
		strbuf_puts(h->b, "};\n");
	}
	if (g->results.n) {
		strbuf_printf(h->b, "\nstatic const dl_io %s[] = {\n", own(h, "outputs"));
		for (int i = 0; i < g->results.n; i++)
			print_io_row(h, "out", g->results.at[i]->value->type, result_name(g, i), i);
		strbuf_puts(h->b, "};\n");
	}
	strbuf_printf(h->b, "\nstatic const dl_desc %s = {\n\t.size = sizeof(dl_desc),\n", own(h, "desc"));
	if (h->m->mem->nregions)
		strbuf_puts(h->b, "\t.flags = DL_DESC_UNBOUNDED,\n");
	strbuf_printf(h->b, "\t.name = \"%s\",\n\t.version = \"%s\",\n\t.hash = \"%016llx\",\n\t.targets = \"", h->o->name, h->o->version,
		      (unsigned long long)h->o->hash);
	for (int t = 0; t < h->m->ntargets; t++)
		strbuf_printf(h->b, "%s%s", t ? " " : "", h->m->target[t]->name);
	strbuf_puts(h->b, "\",\n");
	if (g->inputs.n)
		strbuf_printf(h->b, "\t.in = %s,\n\t.n_in = %d,\n", own(h, "inputs"), g->inputs.n);
	if (g->results.n)
		strbuf_printf(h->b, "\t.out = %s,\n\t.n_out = %d,\n", own(h, "outputs"), g->results.n);
	if (h->syms.n)
		strbuf_printf(h->b, "\t.sym = %s,\n\t.n_sym = %d,\n", own(h, "syms"), h->syms.n);
	strbuf_printf(h->b, "\t.weights_size = %lld,\n};\n\n", (long long)h->m->mem->weights);
}

/* ---- bind ---- */

static void print_fact(Host *h, const Fact *f, const char *fail)
{
	StrBuf a = {0}, c = {0};

	dim_print(&a, f->a);
	dim_print(&c, f->b);
	strbuf_printf(h->b, "\tif (!(%s %s %s))\n\t\t%s dl_fail(x, DL_SHAPE, \"%%s: %%lld and %%lld\", ", dim_c(h, f->a), f->le ? "<=" : "==",
		      dim_c(h, f->b), fail);
	quote(h, arena_printf(h->m->arena, "node \"%s\" (%s): %s: %s and %s", f->loc.node ? f->loc.node : "", f->loc.op ? f->loc.op : "",
			      f->what, strbuf_str(&a), strbuf_str(&c)));
	strbuf_printf(h->b, ",\n\t\t\t(long long)(%s), (long long)(%s));\n", dim_c(h, f->a), dim_c(h, f->b));
	strbuf_free(&a);
	strbuf_free(&c);
}

/* Symbols that stand for dims whose own symbols are known by now. */
static void print_named(Host *h)
{
	for (int i = 0; i < h->syms.n; i++) {
		Sym *s = h->syms.at[i];

		if (!s->def || h->known[s->id] || !dim_known(h, s->def))
			continue;
		strbuf_printf(h->b, "\tsym[%d] = %s;\n", i, dim_c(h, s->def));
		h->known[s->id] = true;
		i = -1;
	}
}

/* Facts whose symbols are all known by now. */
static void print_facts(Host *h)
{
	Graph *g = h->m->graph;

	for (int i = 0; i < g->facts.n; i++)
		if (!h->fact_done[i] && dim_known(h, g->facts.at[i].a) && dim_known(h, g->facts.at[i].b)) {
			h->fact_done[i] = true;
			print_fact(h, &g->facts.at[i], "return");
		}
}

/* Symbols that stand in an input's dim by themselves are the runtime's; others are solved from a dim that is
 * linear in them. */
static void solve_syms(Host *h)
{
	Graph *g = h->m->graph;
	bool again = true;

	for (int i = 0; i < g->inputs.n; i++)
		for (int d = 0; d < g->inputs.at[i]->type->rank; d++)
			if (dim_as_sym(g->inputs.at[i]->type->dims[d]))
				h->known[dim_as_sym(g->inputs.at[i]->type->dims[d])->id] = true;
	while (again) {
		again = false;
		for (int i = 0; i < g->inputs.n; i++)
			for (int d = 0; d < g->inputs.at[i]->type->rank; d++)
				for (int s = 0; s < h->nshape_syms; s++) {
					Dim *rest;
					int64_t k;

					if (h->known[h->syms.at[s]->id] ||
					    !dim_linear_in(h->m->ctx, g->inputs.at[i]->type->dims[d], h->syms.at[s], &k, &rest) || k == 0 ||
					    !dim_known(h, rest))
						continue;
					strbuf_printf(h->b, "\tsym[%d] = (x->in_shape[%d][%d] - (%s)) / %lld;\n", s, i, d, dim_c(h, rest), (long long)k);
					h->known[h->syms.at[s]->id] = again = true;
				}
	}
}

static bool print_bind(Host *h)
{
	Graph *g = h->m->graph;
	bool ok = true;

	strbuf_printf(h->b, "static int %s(dl_exec *x)\n{\n\tint64_t *const sym = x->sym;\n\n\t(void)sym;\n", own(h, "bind"));
	solve_syms(h);
	print_named(h);
	for (int s = 0; s < h->nshape_syms; s++)
		if (!h->known[h->syms.at[s]->id])
			ok = diag_error(h->m->ctx->diag, (DiagLoc){.file = g->file}, "no input's shape gives \"%s\"; bind it with --dim %s=N",
					h->syms.at[s]->name, h->syms.at[s]->name);
	if (!ok)
		return false;
	for (int i = 0; i < g->inputs.n; i++)
		for (int d = 0; d < g->inputs.at[i]->type->rank; d++) {
			Dim *e = g->inputs.at[i]->type->dims[d];

			if (dim_as_sym(e) || dim_is_const(e, NULL))
				continue;
			strbuf_printf(h->b, "\tif (x->in_shape[%d][%d] != %s)\n\t\treturn dl_fail(x, DL_SHAPE, \"input %%s: dim %d is %%lld, expected %%lld\", ",
				      i, d, dim_c(h, e), d);
			quote(h, input_name(g, i));
			strbuf_printf(h->b, ",\n\t\t\t(long long)x->in_shape[%d][%d], (long long)(%s));\n", i, d, dim_c(h, e));
		}
	print_facts(h);
	for (int i = 0; i < g->results.n; i++)
		for (int d = 0; d < g->results.at[i]->value->type->rank; d++) {
			Dim *e = g->results.at[i]->value->type->dims[d];

			if (!dim_as_sym(e) && !dim_is_const(e, NULL) && dim_known(h, e))
				strbuf_printf(h->b, "\tx->out_shape[%d][%d] = %s;\n", i, d, dim_c(h, e));
		}
	strbuf_puts(h->b, "\treturn DL_OK;\n}\n\n");
	return true;
}

/* ---- plan ---- */

static void print_plan(Host *h)
{
	MemPlan *p = h->m->mem;
	strbuf_printf(h->b, "static void %s(const int64_t *sym, int64_t *offset, int64_t *total, int64_t *scratch)\n{\n"
			    "\tint64_t at = 0, most = 0, n;\n\n\t(void)sym;\n\t(void)offset;\n\t(void)n;\n", own(h, "plan"));
	for (int i = 0; i < p->slots.n; i++)
		strbuf_printf(h->b, "\toffset[%d] = at;\n\tat = dl_add(at, dl_align(dl_size(%s)));\n", i, dim_c(h, p->slots.at[i]));
	for (int t = 0; t < h->m->ntargets; t++)
		for (int i = 0; i < h->m->nsched; i++) {
			Schedule *s = h->m->sched[t][i];

			for (int j = 0; s && j < s->stages.n; j++) {
				Dim *d = s->stages.at[j]->scratch;
				bool seen = dim_equals(d, 0);

				for (int u = 0; u <= t && !seen; u++)
					for (int v = 0; v < (u == t ? i : h->m->nsched) && !seen; v++)
						for (int w = 0; h->m->sched[u][v] && w < h->m->sched[u][v]->stages.n && !seen; w++)
							seen = h->m->sched[u][v]->stages.at[w]->scratch == d;
				if (seen)
					continue;
				strbuf_printf(h->b, "\tn = dl_size(%s);\n\tmost = n > most ? n : most;\n", dim_c(h, d));
			}
		}
	strbuf_puts(h->b, "\t*total = at;\n\t*scratch = most;\n}\n\n");
}

/* ---- exec ---- */

static const char *place_c(Host *h, const Place *p)
{
	Arena *a = h->m->arena;

	switch (p->kind) {
	case PLACE_INPUT: return arena_printf(a, "x->in[%d]", p->at);
	case PLACE_OUTPUT: return arena_printf(a, "x->out[%d]", p->at);
	case PLACE_SLOT: return arena_printf(a, "x->buf[%d]", p->at);
	case PLACE_REGION: return arena_printf(a, "region[%d]", p->at);
	case PLACE_WEIGHTS: return arena_printf(a, "x->weights + %lld", (long long)p->offset);
	case PLACE_NONE: break;
	}
	return "NULL";
}

static const Place *value_place(Host *h, Value *v)
{
	return &h->m->mem->value[value_base(v)->id];
}

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
	case DT_U8: case DT_BOOL: return "uint8_t";
	default: return NULL;
	}
}

/* Symbols that are elements of V. */
static void print_reads(Host *h, Value *v)
{
	for (int i = h->nshape_syms; i < h->syms.n; i++) {
		Sym *s = h->syms.at[i];

		if (s->src != v || h->known[s->id])
			continue;
		strbuf_printf(h->b, "\tif (x->status)\n\t\treturn x->status;\n\tsym[%d] = (int64_t)((const %s *)%s)[%lld];\n", i,
			      int_type(v->type->dtype), arena_printf(h->m->arena, "(const void *)(%s)", place_c(h, value_place(h, v))),
			      (long long)s->at);
		if (dtype_info[v->type->dtype].bits == 64)
			strbuf_printf(h->b, "\tsym[%d] = dl_max(-INT64_C(%lld), dl_min(INT64_C(%lld), sym[%d]));\n", i,
				      (long long)DIM_FAR, (long long)DIM_FAR, i);
		if (s->lo > INT64_MIN || s->hi < DIM_INF) {
			strbuf_printf(h->b, "\tif (sym[%d] < %s%lld || sym[%d] > INT64_C(%lld))\n\t\treturn dl_fail(x, DL_SHAPE, ", i,
				      s->lo == INT64_MIN ? "-INT64_MAX - 1 + 0 * " : "", s->lo == INT64_MIN ? 0 : (long long)s->lo, i, (long long)s->hi);
			quote(h, arena_printf(h->m->arena, "node \"%s\" (%s): value %s is %%lld, out of its bounds",
					      v->def && v->def->locs.n ? v->def->locs.at[0].node : v->name ? v->name : "",
					      v->def && v->def->locs.n ? v->def->locs.at[0].op : "input", s->name));
			strbuf_printf(h->b, ", (long long)sym[%d]);\n", i);
		}
		h->known[s->id] = true;
	}
	print_named(h);
	print_facts(h);
}

typedef struct HasData {
	Host *h;
	bool yes;
} HasData;

static void has_data(void *arg, Sym *s)
{
	HasData *d = arg;

	d->yes = d->yes || sym_from_data(s);
}

static bool type_has_data(Host *h, const Type *t)
{
	HasData d = {h, false};

	for (int i = 0; i < t->rank; i++)
		dim_syms(t->dims[i], has_data, &d);
	return d.yes;
}

static void print_output(Host *h, int o)
{
	const Type *t = h->m->graph->results.at[o]->value->type;

	if (!type_has_data(h, t))
		return;
	strbuf_printf(h->b, "\tif (dl_output(x, %d, (int64_t[]){", o);
	for (int d = 0; d < t->rank; d++)
		strbuf_printf(h->b, "%s%s", d ? ", " : "", dim_c(h, t->dims[d]));
	strbuf_puts(h->b, t->rank ? "}))\n\t\treturn x->status;\n" : "0}))\n\t\treturn x->status;\n");
}

static void print_region(Host *h, const Place *p)
{
	if (p->kind == PLACE_REGION)
		strbuf_printf(h->b, "\tif (!(region[%d] = dl_region_alloc(x, %d, dl_size(%s), 0)))\n\t\treturn x->status;\n", p->at, p->at,
			      dim_c(h, p->size));
}

static const char *join_locs(Host *h, const Node *n)
{
	StrBuf b = {0};
	const char *s;

	for (int i = 0; i < n->locs.n && i < 6; i++)
		strbuf_printf(&b, "%s%s", i ? ", " : "", n->locs.at[i].node ? n->locs.at[i].node : "?");
	if (n->locs.n > 6)
		strbuf_printf(&b, ", and %d more", n->locs.n - 6);
	s = arena_strdup(h->m->arena, strbuf_str(&b));
	strbuf_free(&b);
	return s;
}

static const char *buf_place(Host *h, int t, Node *n, Buf *b)
{
	Schedule *s = h->m->sched[t][n->id];

	if (b->kind == BUF_IN)
		return place_c(h, value_place(h, node_in(n, b->param)));
	if (b->kind == BUF_OUT)
		return place_c(h, value_place(h, n->out[b->param]));
	for (int i = 0; i < s->temps.n; i++)
		if (s->temps.at[i] == b)
			return place_c(h, &h->m->mem->temp[t][n->id][i]);
	return "NULL";
}

/* The site of the statements that may fault: fuse leaves a kernel those of one node. */
static int fault_site(Host *h, const Schedule *s)
{
	Loc l = s->kernel->locs.n ? s->kernel->locs.at[0] : (Loc){"?", "?"};

	for (int i = 0; i < s->kernel->stmts.n; i++) {
		Stmt *st = s->kernel->stmts.at[i];
		bool f = expr_can_fault(st->val[0]);

		for (int d = 0; d < st->nwidx; d++)
			f = f || expr_can_fault(st->widx[d]);
		if (f && st->loc.node)
			l = st->loc;
	}
	vec_push(h->m->arena, &h->faults, arena_printf(h->m->arena, "node \"%s\" (%s): index out of range", l.node, l.op));
	return h->faults.n - 1;
}

static void print_launch(Host *h, int t, Node *n, const Stage *st, const Schedule *s)
{
	CStage c = gen_c_stage(h->gc[t], s, st);

	strbuf_printf(h->b, "\tdl_launch(x, %d, %s, ", h->kernel_id[n->id], c.fn->name);
	if (c.nbuf) {
		strbuf_puts(h->b, "(void *[]){");
		for (int i = 0; i < c.nbuf; i++)
			strbuf_printf(h->b, "%s%s", i ? ", " : "", buf_place(h, t, n, c.buf[i]));
		strbuf_puts(h->b, "}, ");
	} else {
		strbuf_puts(h->b, "NULL, ");
	}
	if (c.nsym || c.fn->faults) {
		strbuf_puts(h->b, "(int64_t[]){");
		for (int i = 0; i < c.nsym; i++)
			strbuf_printf(h->b, "%s%s", i ? ", " : "", sym_text(h, c.sym[i]));
		if (c.fn->faults)
			strbuf_printf(h->b, "%s%d", c.nsym ? ", " : "", fault_site(h, s));
		strbuf_puts(h->b, "}");
	} else {
		strbuf_puts(h->b, "NULL");
	}
	strbuf_printf(h->b, ", %s, %lld);\n", dim_c(h, st->extent), (long long)st->grain);
}

static void print_node(Host *h, int t, Node *n)
{
	Schedule *s = n->id < h->m->nsched ? h->m->sched[t][n->id] : NULL;

	if (!s || (n->nout && value_is_weights(n->out[0])))
		return;
	if (h->kernel_id[n->id] < 0) {
		h->kernel_id[n->id] = h->kernels.n;
		vec_push(h->m->arena, &h->kernels, join_locs(h, n));
	}
	for (int i = 0; i < n->nout; i++) {
		const Place *p = value_place(h, n->out[i]);

		print_region(h, p);
		if (p->kind == PLACE_OUTPUT)
			print_output(h, p->at);
	}
	for (int i = 0; i < s->temps.n; i++)
		print_region(h, &h->m->mem->temp[t][n->id][i]);
	for (int i = 0; i < s->stages.n; i++)
		print_launch(h, t, n, s->stages.at[i], s);
}

/* Results that no kernel wrote where the caller wants them. */
static void print_copies(Host *h)
{
	Graph *g = h->m->graph;

	for (int i = 0; i < g->results.n; i++) {
		Value *v = g->results.at[i]->value;
		const Place *p = value_place(h, v);
		const char *some;
		Dim *bytes;
		int64_t n;

		if (p->kind == PLACE_OUTPUT && p->at == i)
			continue;
		print_output(h, i);
		bytes = type_bytes(h->m->ctx, v->type);
		some = dim_is_const(bytes, &n) ? "" : arena_printf(h->m->arena, " && %s > 0", dim_c(h, bytes));
		if (!dim_equals(bytes, 0))
			strbuf_printf(h->b, "\tif (!x->status%s)\n\t\tmemcpy(x->out[%d], %s, (size_t)(%s));\n", some, i,
				      place_c(h, p), dim_c(h, bytes));
	}
}

static const char *exec_name(Host *h, int t)
{
	return own(h, arena_printf(h->m->arena, "exec_%d", t));
}

static void print_exec(Host *h, int t)
{
	Graph *g = h->m->graph;
	int n = sym_count(h->m->ctx);
	bool *known = NEW_ARRAY(h->m->arena, n + 1, bool), *done = NEW_ARRAY(h->m->arena, g->facts.n + 1, bool);

	memcpy(known, h->known, (size_t)n);
	memcpy(done, h->fact_done, (size_t)g->facts.n);
	strbuf_printf(h->b, "static int %s(dl_exec *x)\n{\n\tint64_t *const sym = x->sym;\n", exec_name(h, t));
	if (h->m->mem->nregions)
		strbuf_printf(h->b, "\tvoid *region[%d] = {NULL};\n", h->m->mem->nregions);
	strbuf_puts(h->b, "\n\t(void)sym;\n");
	for (int i = 0; i < g->inputs.n; i++)
		print_reads(h, g->inputs.at[i]);
	for (Node *nd = g->first; nd; nd = nd->next) {
		if (node_kernel(nd))
			print_node(h, t, nd);
		for (int i = 0; i < nd->nout; i++)
			if (nd->out[i])
				print_reads(h, nd->out[i]);
	}
	print_copies(h);
	strbuf_puts(h->b, "\treturn x->status;\n}\n\n");
	memcpy(h->known, known, (size_t)n);
	memcpy(h->fact_done, done, (size_t)g->facts.n);
}

static void print_strings(Host *h, const char *name, const char *const *s, int n)
{
	if (!n)
		return;
	strbuf_printf(h->b, "static const char *const %s[] = {\n", own(h, name));
	for (int i = 0; i < n; i++) {
		strbuf_puts(h->b, "\t");
		quote(h, s[i]);
		strbuf_puts(h->b, ",\n");
	}
	strbuf_puts(h->b, "};\n\n");
}

static void print_embedded(Host *h)
{
	if (h->o->weights != WEIGHTS_EMBEDDED)
		return;
	strbuf_printf(h->b, "static const _Alignas(64) unsigned char %s[] = {", own(h, "weights"));
	for (int64_t i = 0; i < h->m->mem->weights; i++)
		strbuf_printf(h->b, "%s%d,", i % 24 ? "" : "\n\t", h->o->weights_data[i]);
	strbuf_puts(h->b, "\n};\n\n");
}

static void print_program(Host *h)
{
	static const char *const kinds[] = {"DL_WEIGHTS_NONE", "DL_WEIGHTS_EMBEDDED", "DL_WEIGHTS_SECTION", "DL_WEIGHTS_FILE"};
	MemPlan *p = h->m->mem;

	strbuf_printf(h->b, "static int %s(dl_exec *x)\n{\n", own(h, "exec"));
	if (h->m->ntargets > 1) {
		strbuf_puts(h->b, "\tswitch (x->variant) {\n");
		for (int t = 0; t + 1 < h->m->ntargets; t++)
			strbuf_printf(h->b, "\tcase %d: return %s(x);\n", t, exec_name(h, t));
		strbuf_printf(h->b, "\tdefault: return %s(x);\n\t}\n}\n\n", exec_name(h, h->m->ntargets - 1));
	} else {
		strbuf_printf(h->b, "\treturn %s(x);\n}\n\n", exec_name(h, 0));
	}
	print_strings(h, "kernels", h->kernels.at, h->kernels.n);
	print_strings(h, "faults", h->faults.at, h->faults.n);
	strbuf_printf(h->b, "static const uint64_t %s[] = {", own(h, "variants"));
	for (int t = 0; t < h->m->ntargets; t++)
		strbuf_printf(h->b, "%s%lluu", t ? ", " : "", (unsigned long long)h->m->target[t]->features);
	strbuf_puts(h->b, "};\n\n");
	print_embedded(h);
	strbuf_printf(h->b, "static const dl_program %s = {\n\t.size = sizeof(dl_program),\n\t.abi = DL_ABI_VERSION,\n\t.desc = &%s,\n"
		      "\t.n_buf = %d,\n\t.n_region = %d,\n", own(h, "prog"), own(h, "desc"), p->slots.n, p->nregions);
	if (h->kernels.n)
		strbuf_printf(h->b, "\t.kernels = %s,\n\t.n_kernels = %d,\n", own(h, "kernels"), h->kernels.n);
	if (h->faults.n)
		strbuf_printf(h->b, "\t.faults = %s,\n\t.n_faults = %d,\n", own(h, "faults"), h->faults.n);
	strbuf_printf(h->b, "\t.variants = %s,\n\t.n_variants = %d,\n\t.weights_kind = %s,\n", own(h, "variants"), h->m->ntargets, kinds[h->o->weights]);
	if (h->o->weights == WEIGHTS_EMBEDDED)
		strbuf_printf(h->b, "\t.weights = %s,\n", own(h, "weights"));
	if (h->o->weights == WEIGHTS_FILE) {
		strbuf_puts(h->b, "\t.weights_file = ");
		quote(h, h->o->weights_file);
		strbuf_puts(h->b, ",\n");
	}
	strbuf_printf(h->b, "\t.weights_hash = UINT64_C(0x%016llx),\n\t.bind = %s,\n\t.plan = %s,\n\t.exec = %s,\n};\n\nDL_DEFINE_API(%s, %s);\n",
		      (unsigned long long)h->o->weights_hash, own(h, "bind"), own(h, "plan"), own(h, "exec"), h->o->name, own(h, "prog"));
}

static void print_prototypes(Host *h)
{
	for (int t = 0; t < h->m->ntargets; t++)
		for (int i = 0; i < h->gc[t]->funcs.n; i++)
			strbuf_printf(h->b, "void %s(const dl_kctx *k, int64_t begin, int64_t end, void *scratch);\n", h->gc[t]->funcs.at[i]->name);
	strbuf_puts(h->b, "\n");
}

bool gen_host(Module *m, GenC *const *g, const HostOpts *o, StrBuf *b)
{
	StrBuf body = {0};
	Host h = {.m = m, .gc = g, .o = o, .b = &body};

	h.kernel_id = NEW_ARRAY(m->arena, m->graph->nnodes + 1, int);
	for (int i = 0; i < m->graph->nnodes; i++)
		h.kernel_id[i] = -1;
	h.fact_done = NEW_ARRAY(m->arena, m->graph->facts.n + 1, bool);
	find_syms(&h);
	print_desc(&h);
	if (!print_bind(&h)) {
		strbuf_free(&body);
		return false;
	}
	print_plan(&h);
	for (int t = 0; t < m->ntargets; t++)
		print_exec(&h, t);
	print_program(&h);
	h.b = b;
	if (!o->one_file)
		print_prototypes(&h);
	strbuf_puts(b, strbuf_str(&body));
	strbuf_free(&body);
	return true;
}

void gen_header(Module *m, const HostOpts *o, StrBuf *b)
{
	Graph *g = m->graph;

	strbuf_printf(b, "/* The model %s, as compiled by dlcc. Generated: belongs to whoever compiled it. */\n#ifndef DLCC_%s_H\n#define DLCC_%s_H\n\n"
		      "#include \"dlrt.h\"\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n", o->name, o->name, o->name);
	for (int i = 0; i < g->inputs.n; i++) {
		StrBuf t = {0};

		type_print(&t, g->inputs.at[i]->type);
		strbuf_printf(b, "/* input %d: \"%s\" %s */\n", i, input_name(g, i), strbuf_str(&t));
		strbuf_free(&t);
	}
	for (int i = 0; i < g->results.n; i++) {
		StrBuf t = {0};

		type_print(&t, g->results.at[i]->value->type);
		strbuf_printf(b, "/* output %d: \"%s\" %s */\n", i, result_name(g, i), strbuf_str(&t));
		strbuf_free(&t);
	}
	strbuf_printf(b, "\nconst dl_api *%s_get_api(uint32_t abi_version);\nconst dl_desc *%s_describe(void);\n\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n",
		      o->name, o->name);
}
