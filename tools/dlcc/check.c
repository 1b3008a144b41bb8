/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/dlcc/check.h"

#include "frontend/listing.h"
#include "passes/kernel/kernels.h"

#include <stdio.h>
#include <string.h>

void check_sink(void *arg, DiagLoc loc, const char *text)
{
	Refusals *r = arg;
	Refusal one = {loc.node ? arena_strdup(r->arena, loc.node) : NULL,
		       loc.op ? arena_strdup(r->arena, loc.op) : NULL,
		       arena_strdup(r->arena, text)};

	vec_push(r->arena, &r->all, one);
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

static void put_node(StrBuf *b, Module *m, Node *n)
{
	Schedule *s = n->id < m->nsched ? m->sched[0][n->id] : NULL;

	if (node_kernel(n) && !s)
		put_once(b, "kernel");
	else if (s)
		for (; s; s = s->next)
			for (int i = 0; i < s->stages.n; i++)
				put_once(b, s->stages.at[i]->strategy);
	else if (n->op == OP_View)
		put_once(b, "view");
	else
		put_once(b, op_row[n->op].name);
}

/* What became of node NAME: what a run does for it, or else that compiling did it. */
static void put_how(StrBuf *b, Module *m, const char *name)
{
	bool compiled = false;

	for (Node *n = m->graph->first; n; n = n->next) {
		bool weights = n->nout && n->out[0] && value_is_weights(m, n->out[0]);

		if (!stands_for(n, name))
			continue;
		compiled = compiled || weights;
		if (!weights)
			put_node(b, m, n);
	}
	if (!b->n)
		strbuf_puts(b, compiled ? "computed when compiled"
					: "no code: folded, or nothing needs it");
}

/* Why a node is not supported; null: nothing is against it. Import does not look into the bodies of a node that it
 * does not take. */
static const char *against(const Refusals *r, const ListedNode *n)
{
	const char *why = refused(r, n->name, n->op);

	return why || n->known ? why : "this operator is not supported";
}

static bool listed(const Listing *l, const char *name)
{
	for (int i = 0; i < l->nodes.n; i++)
		if (!strcmp(l->nodes.at[i].name, name))
			return true;
	return false;
}

/* The weights whose data is missing are one fault, however many they are. */
static bool of_data(const char *text)
{
	return str_starts(text, "external data at");
}

/* A line of the report, about the file F. It holds names from the model. */
static void line(const OnnxFile *f, const char *fmt, ...) BASE_PRINTF(2, 3);

static void line(const OnnxFile *f, const char *fmt, ...)
{
	StrBuf b = {0};
	va_list ap;

	va_start(ap, fmt);
	strbuf_printf(&b, "%s: ", f->path);
	strbuf_vprintf(&b, fmt, ap);
	va_end(ap);
	escape_to_file(stdout, strbuf_str(&b), escape_terminal);
	putchar('\n');
	strbuf_free(&b);
}

static void print_missing(const OnnxFile *f, const Listing *l, const Refusals *r)
{
	const char *first = NULL;
	int n = 0;

	for (int i = 0; i < r->all.n; i++) {
		const Refusal *x = &r->all.at[i];

		if (!of_data(x->text) || (x->node && listed(l, x->node)))
			continue;
		first = first ? first : x->text;
		n++;
	}
	if (n)
		line(f, "error: %d weight%s data: %s", n, n > 1 ? "s lack their" : " lacks its",
		     first);
}

bool check_report(const OnnxFile *f, Module *m, bool planned, const Refusals *r)
{
	const Listing l = onnx_nodes(m->arena, f);
	int bad = 0;

	for (int i = 0; i < l.nodes.n; i++) {
		const ListedNode *n = &l.nodes.at[i];
		const char *why = against(r, n);
		StrBuf how = {0};

		if (n->call)
			strbuf_puts(&how, "a function, its nodes follow");
		else if (!planned)
			strbuf_puts(&how, "nothing found against it");
		else
			put_how(&how, m, n->name);
		line(f, "node \"%s\" (%s): %s%s", n->name, n->op,
		     why ? "not supported: " : "supported: ", why ? why : strbuf_str(&how));
		bad += why != NULL;
		strbuf_free(&how);
	}
	for (int i = 0; i < r->all.n; i++) {
		const char *node = r->all.at[i].node;

		if (!node && !of_data(r->all.at[i].text))
			line(f, "not supported: %s", r->all.at[i].text);
		else if (node && !listed(&l, node) && !of_data(r->all.at[i].text))
			line(f, "not supported: node \"%s\": %s", node, r->all.at[i].text);
	}
	print_missing(f, &l, r);
	line(f, "%d nodes, %d supported%s", l.nodes.n, l.nodes.n - bad,
	     l.cut ? "; the first ones of too many" : "");
	return !r->all.n && planned;
}
