/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forms: finds the form of every kernel (passes/forms/form.h), which layouts, schedules and
 * --explain read. If the graph was read from a text with forms, as --dump-ir=forms prints them,
 * each must match its kernel.
 */
#include "passes/forms/form.h"

/* The form that the text states for N must match N's kernel. */
static bool check_stated(Module *m, Node *n, const char *stated)
{
	StrBuf is = {0};
	bool ok;

	if (!node_kernel(n))
		return diag_error(m->ctx->diag, node_diag(n), "the text gives it a form, but it has no kernel");
	form_print(&is, node_kernel(n), module_form(m, n));
	ok = !strcmp(strbuf_str(&is), stated) ||
	     diag_error(m->ctx->diag, node_diag(n),
			"the text says that the form of its kernel is \"%s\", but it is \"%s\"", stated,
			strbuf_str(&is));
	strbuf_free(&is);
	return ok;
}

bool pass_forms(Module *m)
{
	bool ok = true;

	for (Node *n = m->graph->first; n; n = n->next)
		if (node_kernel(n))
			module_form(m, n);
	for (int i = 0; i < m->graph->stated.n && ok; i++)
		ok = check_stated(m, m->graph->stated.at[i].node, m->graph->stated.at[i].form);
	return ok;
}
