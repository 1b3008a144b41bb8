/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/form.h"

#include "passes/forms/attention.h"
#include "passes/forms/conv3x3.h"
#include "passes/forms/online.h"

/* ---- Recognition ---- */

Form form_of_stmt(Kernel *k, Stmt *s)
{
	Form f = {.kind = FORM_CONTRACTION};

	if (stmt_contraction(k, s, &f.c))
		return f;
	return (Form){.kind = s->ordered || s->scan || s->update ? FORM_ORDER
			      : s->red                           ? FORM_ROW
								 : FORM_MAP};
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

static bool is_attention(const Module *m, Kernel *k)
{
	const char *why;

	return module_on_gpu(m) ? online_takes(k, &why) : attention_takes(k);
}

Form form_of(Module *m, Node *n)
{
	Kernel *k = node_kernel(n);
	Form f = {.kind = kernel_kind(k)};
	Product p;

	if (f.kind == FORM_ORDER && is_attention(m, k))
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
	f.whole = product_open_all(&p, k);
	f.tiled_gpu = product_pays(k, &f.c, true, true);
	if (module_on_gpu(m))
		return f;
	f.tiled_packed = product_pays(k, &f.c, true, false);
	f.tiled = f.whole && product_tiles(&p);
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

/* Appends F, the form of K, with the names that the text of K has. What depends on the target
 * follows a semicolon: "contraction g(b) m(i) n(j) k(c), A data slides, B weights; tiles with
 * packed B, panels of 16". */
static void form_print(StrBuf *b, const Kernel *k, const Form *f)
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
	if (f->kind == FORM_CONTRACTION && !f->whole)
		strbuf_puts(b, ", maps apart");
	if (f->kpack > 1)
		strbuf_printf(b, ", terms by %d", f->kpack);
	if (f->kind == FORM_ATTENTION)
		return;
	strbuf_puts(b, f->tiled || f->tiled_packed || f->tiled_gpu ? "; tiles" : "; no tiles");
	if (f->tiled)
		strbuf_puts(b, " with B as it is");
	if (f->tiled_packed)
		strbuf_puts(b, f->tiled ? " or packed" : " with packed B");
	if (f->tiled_gpu)
		strbuf_puts(b, f->tiled_packed ? ", also on GPUs" : " on GPUs");
	if (f->panel)
		strbuf_printf(b, ", panels of %lld", (long long)f->panel);
	if (f->winograd)
		strbuf_printf(b, ", winograd %d", f->winograd);
}

void forms_state(Module *m)
{
	for (Node *n = m->graph->first; n; n = n->next) {
		STRBUF_LOCAL(b);

		if (!node_kernel(n))
			continue;
		form_print(&b, node_kernel(n), module_form(m, n));
		node_set_str(n, ATTR_FORM, strbuf_str(&b));
	}
}

void forms_unstate(Module *m)
{
	for (Node *n = m->graph->first; n; n = n->next)
		if (node_str(n, ATTR_FORM, NULL))
			node_remove_attr(n, ATTR_FORM);
}

/* Whether STATED says of N's kernel what it is. */
static bool is_as_stated(Module *m, Node *n, const char *stated)
{
	const Form f = form_of(m, n);
	STRBUF_LOCAL(is);
	bool ok;

	form_print(&is, node_kernel(n), &f);
	if (strchr(strbuf_str(&is), ';'))
		is.n = (size_t)(strchr(strbuf_str(&is), ';') - strbuf_str(&is));
	ok = !strncmp(strbuf_str(&is), stated, is.n) && (!stated[is.n] || stated[is.n] == ';');
	/* the text may be for another kind of device, whose strategies take other attentions */
	ok = ok || (f.kind == FORM_ORDER && str_starts(stated, kind_name[FORM_ATTENTION]));
	if (!ok)
		diag_error(m->ctx->diag, node_diag(n),
			   "the text says that its kernel is \"%s\", but it is \"%s\"", stated,
			   strbuf_str(&is));
	return ok;
}

bool forms_check_stated(Module *m)
{
	bool ok = true;

	for (Node *n = m->graph->first; n && ok; n = n->next) {
		const char *stated = node_kernel(n) ? node_str(n, ATTR_FORM, NULL) : NULL;

		ok = !stated || is_as_stated(m, n, stated);
	}
	forms_unstate(m);
	return ok;
}

/* ---- Verification ---- */

static bool same_operand(const FormOperand *a, const FormOperand *b)
{
	return a->weights == b->weights && a->slides == b->slides && a->in_rows == b->in_rows;
}

static bool same_iters(Iter *const *a, int na, Iter *const *b, int nb)
{
	return na == nb && !memcmp(a, b, (size_t)na * sizeof(Iter *));
}

static bool same_contraction(const Contraction *a, const Contraction *b)
{
	return a->s == b->s && a->a == b->a && a->b == b->b && a->guard_a == b->guard_a &&
	       a->guard_b == b->guard_b && a->ct == b->ct && same_iters(a->g, a->ng, b->g, b->ng) &&
	       same_iters(a->m, a->nm, b->m, b->nm) && same_iters(a->n, a->nn, b->n, b->nn) &&
	       same_iters(a->k, a->nk, b->k, b->nk);
}

static bool same(const Form *a, const Form *b)
{
	return a->kind == b->kind && same_contraction(&a->c, &b->c) && same_operand(&a->a, &b->a) &&
	       same_operand(&a->b, &b->b) && a->kpack == b->kpack && a->whole == b->whole &&
	       a->tiled == b->tiled && a->tiled_packed == b->tiled_packed &&
	       a->tiled_gpu == b->tiled_gpu && a->panel == b->panel && a->winograd == b->winograd;
}

bool forms_verify(Module *m, const char *p)
{
	bool ok = true;

	for (Node *n = m->graph->first; n && ok; n = n->next) {
		STRBUF_LOCAL(was);
		STRBUF_LOCAL(is);
		Form f;

		if (!node_kernel(n) || n->id >= m->nforms || !m->form[n->id])
			continue;
		f = form_of(m, n);
		if (same(m->form[n->id], &f))
			continue;
		form_print(&was, node_kernel(n), m->form[n->id]);
		form_print(&is, node_kernel(n), &f);
		ok = diag_error(
			m->ctx->diag, node_diag(n),
			"after %s: the recorded form of its kernel is \"%s\", but the kernel is now \"%s\"; a pass that changes a kernel calls form_changed",
			p, strbuf_str(&was), strbuf_str(&is));
	}
	return ok;
}
