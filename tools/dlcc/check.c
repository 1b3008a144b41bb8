/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/dlcc/check.h"

#include "passes/kernels.h"

#include <stdio.h>
#include <string.h>

void check_sink(void *arg, DiagLoc loc, const char *text)
{
	Refusals *r = arg;
	Refusal one = {loc.node ? arena_strdup(r->arena, loc.node) : NULL, loc.op ? arena_strdup(r->arena, loc.op) : NULL,
		       arena_strdup(r->arena, text)};

	vec_push(r->arena, &r->all, one);
}

static const char *name_of(Arena *a, const Onnx__NodeProto *p, int index)
{
	return p->name && *p->name ? p->name : arena_printf(a, "%s_%d", p->op_type ? p->op_type : "", index);
}

/* Import reports an operator that it does not know once, at its first node. */
static bool of_operator(const char *text)
{
	return str_starts(text, "this operator is not") || str_starts(text, "operators of domain");
}

static const char *refused(const Refusals *r, const char *name, const char *op)
{
	for (int i = 0; i < r->all.n; i++) {
		const Refusal *x = &r->all.at[i];

		if (x->node && !strcmp(x->node, name))
			return x->text;
		if (x->op && !strcmp(x->op, op) && of_operator(x->text))
			return x->text;
	}
	return NULL;
}

static bool stands_for(const Node *n, const char *name)
{
	for (int i = 0; i < n->locs.n; i++)
		if (n->locs.at[i].node && !strcmp(n->locs.at[i].node, name))
			return true;
	return false;
}

static void put_once(StrBuf *b, const char *word)
{
	if (b->n && strstr(strbuf_str(b), word))
		return;
	strbuf_printf(b, "%s%s", b->n ? " + " : "", word);
}

static void put_node(StrBuf *b, const Module *m, Node *n)
{
	Schedule *s = n->id < m->nsched ? m->sched[0][n->id] : NULL;

	if (n->nout && n->out[0] && value_is_weights(n->out[0]))
		put_once(b, "computed when compiled");
	else if (node_kernel(n) && !s)
		put_once(b, "kernel");
	else if (s)
		for (int i = 0; i < s->stages.n; i++)
			put_once(b, s->stages.at[i]->strategy);
	else if (n->op == OP_View)
		put_once(b, "view");
	else
		put_once(b, op_row[n->op].name);
}

/* What became of node NAME. */
static void put_how(StrBuf *b, const Module *m, const char *name)
{
	for (Node *n = m->graph->first; n; n = n->next)
		if (stands_for(n, name))
			put_node(b, m, n);
	if (!b->n)
		strbuf_puts(b, "no code: folded, or nothing needs it");
}

bool check_report(const OnnxFile *f, const Module *m, bool planned, const Refusals *r)
{
	const Onnx__GraphProto *g = f->model->graph;
	int bad = 0, total = g ? (int)g->n_node : 0;

	for (int i = 0; i < total; i++) {
		const char *op = g->node[i]->op_type ? g->node[i]->op_type : "", *name = name_of(m->arena, g->node[i], i);
		const char *why = refused(r, name, op);
		StrBuf how = {0};

		if (!why && planned)
			put_how(&how, m, name);
		printf("%s: node \"%s\" (%s): %s%s\n", f->path, name, op, why ? "not supported: " : "supported: ",
		       why ? why : planned ? strbuf_str(&how) : "nothing found against it");
		bad += why != NULL;
		strbuf_free(&how);
	}
	for (int i = 0; i < r->all.n; i++) {
		bool shown = false;

		for (int j = 0; j < total && r->all.at[i].node && !shown; j++)
			shown = !strcmp(name_of(m->arena, g->node[j], j), r->all.at[i].node);
		if (!shown)
			printf("%s: not supported: %s%s%s%s\n", f->path, r->all.at[i].node ? "node \"" : "",
			       r->all.at[i].node ? r->all.at[i].node : "", r->all.at[i].node ? "\": " : "", r->all.at[i].text);
	}
	printf("%s: %d nodes, %d supported\n", f->path, total, total - bad);
	return !r->all.n && planned;
}
