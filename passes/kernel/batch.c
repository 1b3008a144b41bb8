/* SPDX-License-Identifier: Apache-2.0 */
/*
 * batch: which sizes of the inputs are batches: elements along them are computed independently
 * (passes/forms/apart.h), and every input and output has at most one dim of the size, which is the
 * size itself. The description of the model says so (DL_SYM_INDEPENDENT), so a server may compute
 * several requests in one run. Nothing in the compiler depends on it.
 *
 * It looks at the statements of single operators, where indices are as the operators define them.
 * Later passes change the kernels, but not the values that the model computes, so a text that
 * begins after them states which sizes are batches.
 */
#include "passes/forms/apart.h"

#include <string.h>

void batch_print(StrBuf *b, const Module *m)
{
	strbuf_puts(b, "independent:");
	for (int i = 0; i < m->graph->batches.n; i++) {
		strbuf_puts(b, " ");
		dim_print(b, m->graph->batches.at[i]->dim);
	}
}

/* Whether V, an input or a result, can be cut into elements along S, or does not depend on it. */
static bool can_be_cut(Apart *x, const Value *v)
{
	const int at = apart_value(x, v);

	return at == NO_PARTS || (at >= 0 && v->type->dims[at] == x->s->dim);
}

static bool is_batch(Apart *x)
{
	const Graph *g = x->m->graph;

	for (int i = 0; i < g->facts.n; i++)
		if (apart_mentions(x, g->facts.at[i].a) || apart_mentions(x, g->facts.at[i].b))
			return false;
	for (int i = 0; i < g->inputs.n; i++)
		if (!can_be_cut(x, g->inputs.at[i]))
			return false;
	for (int i = 0; i < g->results.n; i++)
		if (!can_be_cut(x, g->results.at[i]->value))
			return false;
	/* a size that is read from an element would depend on all elements along S */
	for (int i = 0; i < sym_count(x->m->ctx); i++) {
		const Value *from = graph_source(g, sym_at(x->m->ctx, i)).value;

		if (from && apart_value(x, from) != NO_PARTS)
			return false;
	}
	memset(x->position, 0, (size_t)g->nvalues * sizeof *x->position);
	for (const Node *n = g->first; n; n = n->next)
		if (!apart_node(x, n))
			return false;
	for (int i = 0; i < g->results.n; i++)
		if (x->position[g->results.at[i]->value->id])
			return false;
	return true;
}

bool pass_batch(Module *m)
{
	Graph *g = m->graph;
	Apart x = {.m = m, .multiples = true};
	bool *tried; /* by Sym.id */

	if (g->takes.n ||
	    g->gives.n) /* items of sequences and maps are not elements of one tensor */
		return true;
	x.tmp = arena_new();
	x.position = NEW_ARRAY(x.tmp, g->nvalues + 1, bool);
	tried = NEW_ARRAY(x.tmp, sym_count(m->ctx) + 1, bool);
	for (int i = 0; i < g->inputs.n; i++) {
		const Type *t = g->inputs.at[i]->type;

		for (int d = 0; d < t->rank; d++) {
			x.s = dim_as_sym(t->dims[d]);
			if (!x.s || tried[x.s->id])
				continue;
			tried[x.s->id] = true;
			if (!graph_has_batch(g, x.s) && !x.s->from_data && !x.s->def &&
			    x.s->lo <= 1 && is_batch(&x))
				vec_push(g->arena, &g->batches, x.s);
		}
	}
	arena_free(x.tmp);
	return true;
}
