/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/dlcc/check.h"

#include "frontend/listing.h"
#include "passes/forms/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void check_sink(void *arg, DiagLoc loc, const char *text)
{
	Refusals *r = arg;
	Refusal one = {loc.node ? arena_strdup(r->arena, loc.node) : NULL,
		       loc.op ? arena_strdup(r->arena, loc.op) : "", arena_strdup(r->arena, text)};

	vec_push(r->arena, &r->all, one);
}

/* A fault of a listed node, or a node of the compiled graph that corresponds to one. After a call
 * is inlined, a node of a function may have the name of another node, so operators are compared,
 * too. */
typedef struct Mention {
	const char *name, *op;
	int order;
	const char *fault;
	Node *node;
} Mention;

/* All that is said of listed nodes: by name and operator, then in order. */
typedef struct Mentions {
	const Ctx *ctx;
	Arena *arena;
	VEC(Mention) all;
} Mentions;

static int compare_names(const Mention *m, const char *name, const char *op)
{
	const int c = strcmp(m->name, name);

	return c ? c : strcmp(m->op, op);
}

static int compare(const void *pa, const void *pb)
{
	const Mention *a = pa, *b = pb;
	const int c = compare_names(a, b->name, b->op);

	return c ? c : (a->order > b->order) - (a->order < b->order);
}

static void mention(Mentions *m, const char *name, const char *op, const char *fault, Node *n)
{
	vec_push(m->arena, &m->all, ((Mention){name, op ? op : "", m->all.n, fault, n}));
}

static void mention_all(Mentions *m, Node *n)
{
	const LocList all = locs_all(m->arena, n->locs);

	for (int i = 0; i < all.n; i++)
		if (all.at[i].node)
			mention(m, all.at[i].node, all.at[i].op, NULL, n);
}

static Mentions all_mentions(const Module *m, const Refusals *r)
{
	Mentions all = {.ctx = m->ctx, .arena = m->arena};

	for (int i = 0; i < r->all.n; i++)
		if (r->all.at[i].node)
			mention(&all, r->all.at[i].node, r->all.at[i].op, r->all.at[i].text, NULL);
	for (Node *n = m->graph ? m->graph->first : NULL; n; n = n->next)
		mention_all(&all, n);
	if (all.all.n)
		qsort(all.all.at, (size_t)all.all.n, sizeof *all.all.at, compare);
	return all;
}

/* The first mention of node NAME of operator OP, or where it would be. */
static int first_mention(const Mentions *m, const char *name, const char *op)
{
	int lo = 0, hi = m->all.n;

	while (lo < hi) {
		const int mid = lo + (hi - lo) / 2;

		if (compare_names(&m->all.at[mid], name, op) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool mentions(const Mentions *m, int i, const char *name, const char *op)
{
	return i < m->all.n && !compare_names(&m->all.at[i], name, op);
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

/* How L is executed: its kernel at run time, or a note that it was computed at compile time. */
static void put_how(StrBuf *b, Module *m, const Mentions *all, const ListedNode *l)
{
	bool compiled = false;

	for (int i = first_mention(all, l->name, l->op); mentions(all, i, l->name, l->op); i++) {
		Node *n = all->all.at[i].node;
		bool weights = n && n->nout && n->out[0] && value_is_weights(m, n->out[0]);

		compiled = compiled || weights;
		if (n && !weights)
			put_node(b, m, n);
	}
	if (!b->n)
		strbuf_puts(b, compiled ? "computed when compiled"
					: "no code: folded, or nothing needs it");
}

/* The reason why a node is not supported; null: it is supported. If several nodes have an
 * unsupported operator, import reports only the first one. */
static const char *against(const Mentions *all, const ListedNode *n)
{
	for (int i = first_mention(all, n->name, n->op); mentions(all, i, n->name, n->op); i++)
		if (all->all.at[i].fault)
			return all->all.at[i].fault;
	return n->known ? NULL : onnx_op_missing(all->ctx, all->arena, n);
}

/* The weights whose data is missing are one fault, however many they are. */
static bool of_data(const char *text)
{
	return str_starts(text, "external data at");
}

/* Prints a line of the report, about the file F. It holds names from the model. */
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

/* A line of the report: on a node, or on a fault of no node, where NAME and OP are null. */
typedef struct Finding {
	const char *name, *op;
	bool supported;
	const char *how; /* its kernel, or the reason */
} Finding;

static void print_json(const Finding *x)
{
	StrBuf b = {0};

	strbuf_printf(&b, "{\"supported\":%s", x->supported ? "true" : "false");
	strbuf_json(&b, ",", "node", x->name);
	strbuf_json(&b, ",", "op", x->op);
	strbuf_json(&b, ",", "how", x->how);
	printf("%s}\n", strbuf_str(&b));
	strbuf_free(&b);
}

static void print_node(const OnnxFile *f, const Finding *x, bool json)
{
	if (json)
		print_json(x);
	else
		line(f, "node \"%s\" (%s): %s%s", x->name, x->op,
		     x->supported                          ? "supported: "
		     : str_starts(x->how, "not supported") ? ""
							   : "not supported: ",
		     x->how);
}

static void print_other(const OnnxFile *f, const Refusal *r, bool json)
{
	if (json)
		print_json(&(Finding){r->node, r->node ? r->op : NULL, false, r->text});
	else if (r->node)
		line(f, "not supported: \"%s\": %s", r->node, r->text);
	else
		line(f, "not supported: %s", r->text);
}

/* Faults that belong to no listed node: of inputs and weights, and of the model as a whole. */
static void print_others(const OnnxFile *f, Arena *a, const Mentions *nodes, const Refusals *r,
			 bool json)
{
	const char *first = NULL;
	int missing = 0;

	VEC_EACH_AT (x, &r->all) {
		if (x->node &&
		    mentions(nodes, first_mention(nodes, x->node, x->op), x->node, x->op))
			continue;
		if (of_data(x->text)) {
			first = first ? first : x->text;
			missing++;
		} else {
			print_other(f, x, json);
		}
	}
	if (missing) {
		const char *text = arena_printf(a, "%d weight%s data: %s", missing,
						missing > 1 ? "s lack their" : " lacks its", first);

		if (json)
			print_json(&(Finding){.how = text});
		else
			line(f, "error: %s", text);
	}
}

bool check_report(const OnnxFile *f, Module *m, bool planned, const Refusals *r, bool json)
{
	const Listing l = onnx_nodes(m->ctx, m->arena, f);
	const Mentions all = all_mentions(m, r);
	Mentions nodes = {.arena = m->arena};
	int bad = 0;

	VEC_EACH_AT (n, &l.nodes) {
		const char *why = against(&all, n);
		StrBuf how = {0};

		if (n->call)
			strbuf_puts(&how, "a function, its nodes follow");
		else if (!planned)
			strbuf_puts(&how, "nothing found against it");
		else
			put_how(&how, m, &all, n);
		print_node(f, &(Finding){n->name, n->op, !why, why ? why : strbuf_str(&how)}, json);
		bad += why != NULL;
		strbuf_free(&how);
		mention(&nodes, n->name, n->op, NULL, NULL);
	}
	if (nodes.all.n)
		qsort(nodes.all.at, (size_t)nodes.all.n, sizeof *nodes.all.at, compare);
	print_others(f, m->arena, &nodes, r, json);
	if (!json)
		line(f, "%d node%s, %d supported%s", l.nodes.n, l.nodes.n == 1 ? "" : "s",
		     l.nodes.n - bad, l.cut ? "; the first ones of too many" : "");
	return !r->all.n && planned;
}
