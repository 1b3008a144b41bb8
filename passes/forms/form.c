/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/form.h"

#include "passes/forms/attention.h"
#include "passes/forms/conv3x3.h"

/* ---- Recognition ---- */

Form form_of_stmt(Kernel *k, Stmt *s)
{
	Form f = {0};

	if (stmt_contraction(k, s, &f.c))
		f.kind = FORM_CONTRACTION;
	else
		f.kind = s->ordered || s->scan || s->update ? FORM_ORDER
			 : s->red                           ? FORM_ROW
							    : FORM_MAP;
	if (f.kind != FORM_CONTRACTION)
		f.c = (Contraction){0};
	return f;
}

static FormOperand operand_of(Module *m, Node *n, const Contraction *c, Expr *e, Iter *const *other,
			      int nother)
{
	return (FormOperand){.weights = expr_is_weights(m, n, e),
			     .slides = contraction_slides(c, e),
			     .in_rows = product_reads_rows(node_kernel(n), c, e, other, nother)};
}

static int winograd_tile(Module *m, Node *n, const Contraction *c)
{
	Conv3x3 conv;

	return m->opt.winograd && c->nk == 3 && module_schedules(m, n) &&
			       conv3x3_find(m, n, &conv)
		       ? conv3x3_tile(m, &conv)
		       : 0;
}

Form form_of(Module *m, Node *n)
{
	Kernel *k = node_kernel(n);
	Form f = {.kind = kernel_kind(k)};

	if (f.kind == FORM_ORDER && !module_on_gpu(m) && attention_takes(k))
		f.kind = FORM_ATTENTION;
	if ((f.kind != FORM_CONTRACTION && f.kind != FORM_ATTENTION) ||
	    !stmt_contraction(k, k->stmts.at[0], &f.c))
		return f;
	product_sort(k->ctx, &f.c);
	f.a = operand_of(m, n, &f.c, f.c.a, f.c.n, f.c.nn);
	f.b = operand_of(m, n, &f.c, f.c.b, f.c.m, f.c.nm);
	f.kpack = contraction_kpack(&f.c);
	if (f.kind == FORM_ATTENTION)
		return f;
	f.tiled_gpu = product_pays(k, &f.c, true, true);
	if (module_on_gpu(m))
		return f;
	f.tiled_packed = product_pays(k, &f.c, true, false);
	f.tiled = product_is_whole(k);
	f.panel = product_panel(m->target, m->ntargets, f.c.ct);
	f.winograd = winograd_tile(m, n, &f.c);
	return f;
}

/* ---- The side array ---- */

const Form *module_form(Module *m, Node *n)
{
	if (n->id >= m->nforms) {
		Form **more = NEW_ARRAY(m->arena, m->graph->nnodes, Form *);

		for (int i = 0; i < m->nforms; i++)
			more[i] = m->form[i];
		m->form = more;
		m->nforms = m->graph->nnodes;
	}
	if (!m->form[n->id]) {
		const Form f = form_of(m, n);

		m->form[n->id] = arena_copy(m->arena, &f, sizeof f);
	}
	return m->form[n->id];
}

void form_changed(Module *m, const Node *n)
{
	if (n->id < m->nforms)
		m->form[n->id] = NULL;
}

void forms_changed(Module *m)
{
	for (int i = 0; i < m->nforms; i++)
		m->form[i] = NULL;
}

/* ---- Text ---- */

static const char *const kind_name[FORM_KINDS] = {
	[FORM_MAP] = "map",
	[FORM_ROW] = "row",
	[FORM_CONTRACTION] = "contraction",
	[FORM_ATTENTION] = "attention",
	[FORM_ORDER] = "order",
};

/* The iterators of one side of a contraction of K, by their NAMES. */
static void print_iters(StrBuf *b, const Kernel *k, const char *const *names, const char *side,
			Iter *const *it, int n)
{
	strbuf_printf(b, " %s(", side);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < k->iters.n; j++)
			if (k->iters.at[j] == it[i])
				strbuf_printf(b, "%s%s", i ? ", " : "", names[j]);
	strbuf_puts(b, ")");
}

static void print_operand(StrBuf *b, const char *name, const FormOperand *o)
{
	strbuf_printf(b, ", %s", name);
	strbuf_puts(b, o->weights ? " weights" : " data");
	if (o->slides)
		strbuf_puts(b, " slides");
	if (o->in_rows)
		strbuf_puts(b, " in_rows");
}

void form_print(StrBuf *b, const Kernel *k, const Form *f)
{
	Arena *tmp;
	const char **names;

	strbuf_puts(b, kind_name[f->kind]);
	if (!f->c.s)
		return;
	tmp = arena_new();
	names = kernel_iter_names(k, tmp);
	print_iters(b, k, names, "g", f->c.g, f->c.ng);
	print_iters(b, k, names, "m", f->c.m, f->c.nm);
	print_iters(b, k, names, "n", f->c.n, f->c.nn);
	print_iters(b, k, names, "k", f->c.k, f->c.nk);
	arena_free(tmp);
	print_operand(b, "A", &f->a);
	print_operand(b, "B", &f->b);
	if (f->kpack > 1)
		strbuf_printf(b, ", terms by %d", f->kpack);
	if (f->kind == FORM_CONTRACTION)
		strbuf_puts(b, f->tiled          ? ", tiled"
			       : f->tiled_packed ? ", tiled with packed B"
			       : f->tiled_gpu    ? ", tiled on GPUs"
						 : ", no tiles");
	if (f->panel)
		strbuf_printf(b, ", panels of %lld", (long long)f->panel);
	if (f->winograd)
		strbuf_printf(b, ", winograd %d", f->winograd);
}

void forms_print(StrBuf *b, Module *m, const char *node)
{
	Arena *tmp = arena_new();
	const char **label = graph_labels(m->graph, tmp);

	for (Node *n = m->graph->first; n; n = n->next) {
		if (!node_kernel(n) || !n->nout || !n->out[0] || !kernel_serves(node_kernel(n), node))
			continue;
		strbuf_printf(b, "form %%%s = \"", label[n->out[0]->id]);
		form_print(b, node_kernel(n), module_form(m, n));
		strbuf_puts(b, "\"\n");
	}
	arena_free(tmp);
}

bool forms_verify(Module *m, const char *p)
{
	bool ok = true;

	for (Node *n = m->graph->first; n && ok; n = n->next) {
		StrBuf was = {0}, is = {0};
		Form f;

		if (!node_kernel(n) || n->id >= m->nforms || !m->form[n->id])
			continue;
		f = form_of(m, n);
		form_print(&was, node_kernel(n), m->form[n->id]);
		form_print(&is, node_kernel(n), &f);
		if (strcmp(strbuf_str(&was), strbuf_str(&is)) || f.c.s != m->form[n->id]->c.s)
			ok = diag_error(m->ctx->diag, node_diag(n),
					"after %s: the recorded form of its kernel is \"%s\", but the kernel is now \"%s\"",
					p, strbuf_str(&was), strbuf_str(&is));
		strbuf_free(&was);
		strbuf_free(&is);
	}
	return ok;
}
