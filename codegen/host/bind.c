/* SPDX-License-Identifier: Apache-2.0 */
/* The values of symbols, which bind computes from the shapes of inputs, and the checks of facts
 * about them: host_bind prints the code, solve_syms finds which dim of which input gives each
 * symbol. */
#include "codegen/host/host_impl.h"

#include <string.h>

/* The C text of a symbol. */
static const char *host_sym(void *arg, const Sym *s)
{
	Host *h = arg;

	if (s->inlined)
		return arena_printf(h->m->arena, "(%s)", host_dim(h, s->def));
	if (h->sym_index[s->id] < 0)
		h->lacks = s;
	return arena_printf(h->m->arena, "sym[%d]", h->sym_index[s->id]);
}

/* As host_sym, in an expression of type dl_wide. */
static const char *wide_sym(void *arg, const Sym *s)
{
	Host *h = arg;
	const char *sym = host_sym(h, s);

	return s->def ? arena_printf(h->m->arena, "dl_widen(%s)", sym) : sym;
}

/* The text of B, which is freed. */
static const char *text_of(Host *h, StrBuf *b)
{
	const char *s = arena_strdup(h->m->arena, strbuf_str(b));

	strbuf_free(b);
	return s;
}

/* D in 64 bits; values that are too large become INT64_MAX. */
static const char *checked_text(void *host, const Dim *d)
{
	Host *h = host;
	StrBuf b = {0};

	dim_print_checked(&b, d, host_sym, h);
	return text_of(h, &b);
}

/* ---- Functions for dims with long expressions ---- */

/* The slot of D in H's table of functions for such dims, which is hashed by address; an empty
 * one if D has no function. */
static WideDim *wide_slot(const Host *h, const Dim *d)
{
	size_t i = hash_mix(HASH_SEED, (uintptr_t)d) >> 32;

	while (h->wide[i &= (size_t)h->nslots - 1].dim && h->wide[i].dim != d)
		i++;
	return &h->wide[i];
}

static void grow_wide(Host *h)
{
	const WideDim *old = h->wide;
	const int n = h->nslots;

	h->nslots = n ? 2 * n : 64;
	h->wide = NEW_ARRAY(h->m->arena, h->nslots, WideDim);
	for (int i = 0; i < n; i++)
		if (old[i].dim)
			*wide_slot(h, old[i].dim) = old[i];
}

/* D in dl_wide. A long expression becomes a function, which all uses of D call: compilers take long
 * for arithmetic of 128 bits, and the sizes of a detector have the same long parts in thousands of
 * places. Without these functions the stub of FCOS took 2.3 s of CPU to compile. */
static const char *wide_text(void *host, const Dim *d)
{
	/* letters of an expression: the stub of FCOS takes 1.25 s with 30, 1.32 with 60, 1.38
	 * with 120, which leaves the fewest functions to read */
	enum { LONG = 120 };
	Host *h = host;
	StrBuf b = {0};
	const char *text;

	if (h->nslots && wide_slot(h, d)->dim)
		return wide_slot(h, d)->call;
	dim_print_wide(&b, d, wide_sym, wide_text, h);
	text = text_of(h, &b);
	if (strlen(text) < LONG)
		return text;
	if (2 * h->nwide >= h->nslots)
		grow_wide(h);
	*wide_slot(h, d) = (WideDim){
		d, arena_printf(h->m->arena, "%s_%d(sym)", host_own(h, "size"), h->nwide)};
	strbuf_printf(h->sizes, "static dl_wide %s_%d(const int64_t *sym)\n{\n\treturn %s;\n}\n\n",
		      host_own(h, "size"), h->nwide++, text);
	return wide_slot(h, d)->call;
}

/* Whether D is computed from elements of tensors that may be any numbers of 64 bits. */
static bool is_wide(const Dim *d);

static bool is_wide(const Dim *d)
{
	DIM_EACH_SYM (s, d)
		if ((s->from_data && (s->lo < -DIM_FAR || s->hi > DIM_FAR)) ||
		    (s->def && is_wide(s->def)))
			return true;
	return false;
}

/* D in C; as an argument if WRAPS. */
static const char *size_text(Host *h, Dim *d, bool wraps)
{
	StrBuf b = {0};

	if (!dim_as_sym(d) && is_wide(d))
		return arena_printf(h->m->arena, wraps ? "(int64_t)(%s)" : "dl_narrow(%s)",
				    wide_text(h, d));
	if (!wraps)
		return checked_text(h, d);
	dim_print_c(&b, d, host_sym, h);
	return text_of(h, &b);
}

/* A symbol of D whose value is not KNOWN, by Sym.id; or null. */
static Sym *unknown_in(const bool *known, const Dim *d)
{
	Sym *unknown = NULL;

	DIM_EACH_SYM (s, d) {
		Sym *x = s->inlined ? unknown_in(known, s->def) : known[s->id] ? NULL : s;

		unknown = x ? x : unknown;
	}
	return unknown;
}

/* ---- Sizes that loops do not change ---- */

/* The variable for D, as an argument if WRAPS, that is computed before the innermost loop; null:
 * the loop changes D, or D needs no arithmetic. */
static const char *before_loop(Host *h, Dim *d, bool wraps)
{
	LoopSizes *l = h->loop;
	const Sym *s = dim_as_sym(d);
	const char *name;

	if (!l || dim_is_const(d, NULL) || (s && !s->inlined))
		return NULL;
	VEC_EACH_AT (x, &l->sizes)
		if (x->dim == d && x->wraps == wraps)
			return x->name;
	if (unknown_in(l->known, d))
		return NULL;
	name = arena_printf(h->m->arena, "loop_size_%d", h->nloop_sizes++);
	vec_push(h->m->arena, &l->sizes, ((LoopSize){d, wraps, name}));
	return name;
}

static const char *size_or_variable(Host *h, Dim *d, bool wraps)
{
	const char *name = before_loop(h, d, wraps);

	return name ? name : size_text(h, d, wraps);
}

void host_open_loop(Host *h, LoopSizes *l)
{
	const size_t n = (size_t)sym_count(h->m->ctx);

	*l = (LoopSizes){.outer = h->loop, .known = NEW_ARRAY(h->m->arena, n + 1, bool)};
	memcpy(l->known, h->known, n);
	h->loop = l;
}

void host_close_loop(Host *h)
{
	const LoopSizes *l = h->loop;

	h->loop = l->outer;
	VEC_EACH_AT (x, &l->sizes)
		strbuf_printf(h->b, "\tconst int64_t %s = %s;\n", x->name,
			      size_or_variable(h, x->dim, x->wraps));
}

const char *host_dim(Host *h, Dim *d)
{
	return size_or_variable(h, d, false);
}

const char *host_argument(Host *h, Dim *d)
{
	return size_or_variable(h, d, true);
}

static void add_sym(Host *h, Sym *s)
{
	if (h->sym_index[s->id] >= 0)
		return;
	h->sym_index[s->id] = h->syms.n;
	vec_push(h->m->arena, &h->syms, s);
}

int host_alias(const Host *h, int o)
{
	const Module *const modules[] = {h->m, h->m->gpu};
	int input = -1;

	for (int k = 0; k < 2 && modules[k]; k++) {
		const Graph *g = modules[k]->graph;
		int found = -1;

		for (int i = 0; i < g->aliases.n; i++)
			if (g->aliases.at[i].result == o)
				found = g->aliases.at[i].input;
		if (k && found != input)
			return -1;
		input = found;
	}
	return input;
}

static void find_alias_syms(Host *h)
{
	const Graph *g = h->m->graph;

	VEC_EACH_AT (a, &g->aliases) {
		h->of_alias[a->copied->id] = true;
		if (a->room_in)
			h->of_alias[a->room_in->id] = h->of_alias[a->room_out->id] = true;
	}
}

static bool alive(const Host *h, const Value *v)
{
	return v->id < h->m->graph->nvalues && (v->def || v->index < h->m->graph->inputs.n) &&
	       h->m->mem->value[v->id].kind != PLACE_NONE;
}

/* By Sym.id: whether the program needs the symbol. */
static bool *used_syms(const Host *h)
{
	bool *used = NEW_ARRAY(h->m->arena, sym_count(h->m->ctx) + 1, bool);

	graph_syms(h->m->graph, used);
	if (h->m->gpu)
		graph_syms(h->m->gpu->graph, used);
	return used;
}

/* Whether the program reads S from a tensor. */
static bool is_read(const Host *h, const Sym *s)
{
	const Value *v = graph_source(h->m->graph, s).value;

	return v && alive(h, v);
}

bool host_dim_indexed(const Host *h, Dim *d)
{
	DIM_EACH_SYM (s, d)
		if (s->inlined ? !host_dim_indexed(h, s->def) : h->sym_index[s->id] < 0)
			return false;
	return true;
}

/* Whether programs compute S from other symbols, once. */
static bool is_named(const Sym *s)
{
	return s->def && !s->settable && !s->inlined;
}

void host_find_syms(Host *h)
{
	Graph *g = h->m->graph;
	const int n = sym_count(h->m->ctx);
	const bool *used = used_syms(h);

	h->sym_index = NEW_ARRAY(h->m->arena, n + 1, int);
	h->known = NEW_ARRAY(h->m->arena, n + 1, bool);
	h->of_alias = NEW_ARRAY(h->m->arena, n + 1, bool);
	find_alias_syms(h);
	for (int i = 0; i < n; i++)
		h->sym_index[i] = -1;
	for (int i = 0; i < g->inputs.n; i++)
		for (int d = 0; d < g->inputs.at[i]->type->rank; d++)
			DIM_EACH_SYM (s, g->inputs.at[i]->type->dims[d])
				add_sym(h, s);
	for (int i = 0; i < n; i++)
		if (used[i] && is_named(sym_at(h->m->ctx, i)) &&
		    !sym_from_data(sym_at(h->m->ctx, i)) &&
		    host_dim_indexed(h, sym_at(h->m->ctx, i)->def))
			add_sym(h, sym_at(h->m->ctx, i));
	h->nshape_syms = h->syms.n;
	for (int i = 0; i < n; i++)
		if (used[i] && is_read(h, sym_at(h->m->ctx, i)))
			add_sym(h, sym_at(h->m->ctx, i));
	for (int i = 0; i < n; i++)
		if (used[i] && is_named(sym_at(h->m->ctx, i)) &&
		    host_dim_indexed(h, sym_at(h->m->ctx, i)->def))
			add_sym(h, sym_at(h->m->ctx, i));
	h->npublic = h->syms.n;
	for (int i = 0; i < n; i++)
		if (h->of_alias[i])
			add_sym(h, sym_at(h->m->ctx, i));
	h->sym_waits = NEW_ARRAY(h->m->arena, h->syms.n + 1, Sym *);
	h->fact_done = NEW_ARRAY(h->m->arena, g->facts.n + 1, bool);
	h->fact_waits = NEW_ARRAY(h->m->arena, g->facts.n + 1, Sym *);
}

bool host_dim_known(const Host *h, const Dim *d)
{
	return !unknown_in(h->known, d);
}

/* All symbols of A and B are known. *WAITS: a symbol that was unknown at the last test; while it
 * is, the result is false. */
static bool both_known(const Host *h, const Dim *a, const Dim *b, Sym **waits)
{
	if (*waits && !h->known[(*waits)->id])
		return false;
	*waits = unknown_in(h->known, a);
	if (!*waits)
		*waits = unknown_in(h->known, b);
	return !*waits;
}

/* ---- bind ---- */

static void print_fact(Host *h, const Fact *f, const char *fail)
{
	Arena *a = h->m->arena;
	const bool wide = is_wide(f->a) || is_wide(f->b) || dim_may_cancel(f->a) ||
			  dim_may_cancel(f->b);
	const char *(*const text)(void *, const Dim *) = wide ? wide_text : checked_text;
	const char *left = text(h, f->a), *right = text(h, f->b);
	FactSize size;
	int n = 0;

	strbuf_printf(h->b, "\tif (!%s%s(%s, %s))\n\t\t%s dl_fail(x, DL_SHAPE, \"%%s",
		      wide ? "dl_wide_" : "dl_", f->le ? "at_most" : "equal", left, right, fail);
	for (; fact_size(a, f, n, &size) && host_dim_known(h, size.dim); n++)
		strbuf_puts(h->b, "%s%lld");
	strbuf_puts(h->b, "\", ");
	host_quote(h, arena_printf(a, "%s: %.100s", host_node(h, f->loc),
				   f->what ? f->what : "sizes do not agree"));
	for (int k = 0; k < n; k++) {
		fact_size(a, f, k, &size);
		strbuf_puts(h->b, ",\n\t\t\t");
		host_quote(h, size.name);
		strbuf_printf(h->b, ", (long long)(%s)", host_dim(h, size.dim));
	}
	strbuf_puts(h->b, ");\n");
}

/* Prints symbols that are defined by dims, as soon as the symbols of these are known. */
void host_named(Host *h)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (int i = 0; i < h->syms.n; i++) {
			Sym *s = h->syms.at[i];

			if (!s->def || h->known[s->id] ||
			    !both_known(h, s->def, s->def, &h->sym_waits[i]))
				continue;
			strbuf_printf(h->b, "\tsym[%d] = %s;\n", i, host_dim(h, s->def));
			h->known[s->id] = changed = true;
		}
	}
}

/* Prints the checks of facts whose symbols are all known. */
void host_facts(Host *h)
{
	Graph *g = h->m->graph;

	for (int i = 0; i < g->facts.n; i++)
		if (!h->fact_done[i] &&
		    both_known(h, g->facts.at[i].a, g->facts.at[i].b, &h->fact_waits[i])) {
			h->fact_done[i] = true;
			print_fact(h, &g->facts.at[i], "return");
		}
}

/* If a whole dim of an input is one symbol, the runtime itself sets the symbol. Others are
 * solved from dims that are linear in them. */
static void solve_syms(Host *h)
{
	Graph *g = h->m->graph;
	bool changed = true;

	for (int i = 0; i < g->inputs.n; i++)
		for (int d = 0; d < g->inputs.at[i]->type->rank; d++)
			if (dim_as_sym(g->inputs.at[i]->type->dims[d]))
				h->known[dim_as_sym(g->inputs.at[i]->type->dims[d])->id] = true;
	while (changed) {
		changed = false;
		for (int i = 0; i < g->inputs.n; i++)
			for (int d = 0; d < g->inputs.at[i]->type->rank; d++)
				for (int s = 0; s < h->nshape_syms; s++) {
					Dim *rest;
					int64_t k;

					if (h->known[h->syms.at[s]->id] ||
					    !dim_linear_in(h->m->ctx,
							   g->inputs.at[i]->type->dims[d],
							   h->syms.at[s], &k, &rest) ||
					    k == 0 || !host_dim_known(h, rest))
						continue;
					strbuf_printf(
						h->b,
						"\tsym[%d] = (x->in_shape[%d][%d] - (%s)) / %lld;\n",
						s, i, d, host_dim(h, rest), (long long)k);
					h->known[h->syms.at[s]->id] = changed = true;
				}
	}
}

/* Prints the function that computes the dims of inputs that are expressions, if there are any. */
static void print_dims(Host *h)
{
	Graph *g = h->m->graph;
	STRBUF_LOCAL(body);
	StrBuf *b = h->b;
	bool *known = NEW_ARRAY(h->m->arena, sym_count(h->m->ctx) + 1, bool);

	memcpy(known, h->known, (size_t)sym_count(h->m->ctx));
	for (int s = 0; s < h->nshape_syms; s++)
		h->known[h->syms.at[s]->id] = !h->syms.at[s]->def;
	h->b = &body;
	host_named(h);
	h->dims = false;
	for (int i = 0; i < g->inputs.n; i++)
		for (int d = 0; d < g->inputs.at[i]->type->rank; d++) {
			Dim *e = g->inputs.at[i]->type->dims[d];

			if (dim_as_sym(e) || dim_is_const(e, NULL))
				continue;
			strbuf_printf(&body, "\tx->in_shape[%d][%d] = %s;\n", i, d, host_dim(h, e));
			h->dims = true;
		}
	h->b = b;
	if (h->dims)
		strbuf_printf(
			b,
			"static void %s(dl_exec *x)\n{\n\tint64_t *const sym = x->sym;\n\n%s}\n\n",
			host_own(h, "dims"), strbuf_str(&body));
	memcpy(h->known, known, (size_t)sym_count(h->m->ctx));
}

bool host_bind(Host *h)
{
	Graph *g = h->m->graph;
	bool ok = true;

	print_dims(h);
	strbuf_printf(
		h->b,
		"static int %s(dl_exec *x)\n{\n\tint64_t *const sym = x->sym;\n\n\t(void)sym;\n",
		host_own(h, "bind"));
	solve_syms(h);
	host_named(h);
	for (int s = 0; s < h->nshape_syms; s++)
		if (!h->known[h->syms.at[s]->id])
			ok = diag_error(h->m->ctx->diag, (DiagLoc){.file = g->file},
					"no input's shape gives \"%s\"; bind it with --dim %s=N",
					h->syms.at[s]->name, h->syms.at[s]->name);
	if (!ok)
		return false;
	for (int i = 0; i < g->inputs.n; i++)
		for (int d = 0; d < g->inputs.at[i]->type->rank; d++) {
			Dim *e = g->inputs.at[i]->type->dims[d];

			if (dim_as_sym(e) || dim_is_const(e, NULL))
				continue;
			strbuf_printf(
				h->b,
				"\tif (!dl_equal(x->in_shape[%d][%d], %s))\n\t\treturn dl_fail(x, DL_SHAPE, \"input \\\"%%.100s\\\": dim %d is %%lld, expected %%lld\", ",
				i, d, host_dim(h, e), d);
			host_quote(h, host_input_name(g, i));
			strbuf_printf(
				h->b,
				",\n\t\t\t(long long)x->in_shape[%d][%d], (long long)(%s));\n", i,
				d, host_dim(h, e));
		}
	host_facts(h);
	for (int i = 0; i < g->results.n; i++)
		for (int d = 0; d < g->results.at[i]->value->type->rank; d++) {
			Dim *e = g->results.at[i]->value->type->dims[d];

			if (!dim_as_sym(e) && !dim_is_const(e, NULL) && host_dim_known(h, e))
				strbuf_printf(h->b, "\tx->out_shape[%d][%d] = %s;\n", i, d,
					      host_dim(h, e));
		}
	strbuf_puts(h->b, "\treturn DL_OK;\n}\n\n");
	return true;
}
