/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the control flow of exec: the brackets of ir/graph/blocks.h become for and if. */
#include "codegen/host/host_impl.h"
#include "ir/graph/blocks.h"

#include <string.h>

static const Stack *stack_of(const Host *h, const Value *all)
{
	const MemPlan *m = h->m->mem;
	int i = 0;

	while (m->stack.at[i].all != all)
		i++;
	return &m->stack.at[i];
}

/* Prints the nodes between the brackets OPEN and CLOSE, indented. */
static void print_block(Host *h, int t, Node *open, const Node *close,
			void (*at_end)(Host *h, const Node *close))
{
	STRBUF_LOCAL(body);
	StrBuf *b = h->b;

	h->b = &body;
	host_results_read(h, open);
	host_nodes(h, t, open->next, close);
	at_end(h, close);
	h->b = b;
	host_indent(b, &body);
	strbuf_puts(b, "\t}");
}

/* The side of a When that CLOSE ends leaves its values. */
static void print_side_end(Host *h, const Node *close)
{
	const bool first = close->op == OP_Else;
	const Node *end = first ? block_close(close) : close;

	for (int i = 0; i < end->nout; i++)
		strbuf_printf(h->b, "\t%s = %s;\n", host_place(h, host_value_place(h, end->out[i])),
			      host_place(h, host_value_place(
						    h, node_in(end, i + (first ? 0 : end->nout)))));
}

/* Prints memory for a further iteration of stack S; for all iterations where the first is the last
 * of the stack. */
static void print_growth(Host *h, const Stack *s)
{
	const char *iteration = host_iteration(h, s->open), *each = host_dim(h, s->each);
	Dim *trip = control_dim(s->open, "trip");
	const int r = h->m->mem->value[s->all->id].at;

	strbuf_printf(
		h->b,
		"\tif (!(region[%d] = dl_region_alloc(x, %d, dl_size(dl_mul(%s, %s)), dl_mul(%s, %s))))\n"
		"\t\treturn x->status;\n",
		r, r,
		s->reverse ? host_dim(h, trip) : arena_printf(h->m->arena, "%s + 1", iteration),
		each, iteration, each);
}

/* Copies results of an iteration that were written elsewhere, then advances the carried
 * pointers. */
static void print_iteration_end(Host *h, const Node *close)
{
	const int carried = loop_carried(close);
	const MemPlan *m = h->m->mem;

	for (int i = carried; i < close->nout; i++) {
		const Stack *s = stack_of(h, close->out[i]);

		if (s->grows)
			print_growth(h, s);
		if (s->copied)
			host_copy(h, host_stack(h, s), node_in(close, i));
	}
	for (int i = 0; i < carried; i++) {
		const int at = host_value_place(h, close->out[i])->at;

		if (!m->carry.at[at].copied)
			continue;
		host_next_region(h, at, type_bytes(h->m->ctx, node_in(close, i)->type));
		host_copy(h, arena_printf(h->m->arena, "next[%d]", at), node_in(close, i));
	}
	for (int i = 0; i < carried; i++) {
		const Place *p = host_value_place(h, close->out[i]);
		const char *to = m->carry.at[p->at].pair[0].kind == PLACE_NONE
					 ? host_place(h, host_value_place(h, node_in(close, i)))
					 : arena_printf(h->m->arena, "next[%d]", p->at);

		if (strcmp(to, host_place(h, p)) != 0)
			strbuf_printf(h->b, "\tcarry[%d] = %s;\n", p->at, to);
	}
	for (int i = 0; i < carried; i++) {
		const int at = host_value_place(h, close->out[i])->at;
		const Place *pair = m->carry.at[at].pair;

		if (pair[0].kind != PLACE_NONE && pair[0].kind != PLACE_REGION &&
		    !m->carry.at[at].in_place)
			strbuf_printf(h->b, "\tnext[%d] = next[%d] == %s ? %s : %s;\n", at, at,
				      host_place(h, &pair[0]), host_place(h, &pair[1]),
				      host_place(h, &pair[0]));
	}
}

/* A size that is 0 if the iterations of the loop between the brackets do nothing. Null: they do
 * something, or it is not known before the loop. */
static Dim *loop_work(Host *h, const Node *open, const Node *close)
{
	Ctx *c = h->m->ctx;
	Dim *all = loop_elements(c, open, close);

	return all && host_dim_known(h, all) && !dim_prove_lt(c, dim_const(c, 0), all) ? all : NULL;
}

/* Prints the head of the loop between the brackets, which also ends after a failure or cancel. */
static void print_loop_head(Host *h, Node *open, const Node *close)
{
	const char *iteration = host_iteration(h, open);
	Dim *trip = control_dim(open, "trip"), *work = loop_work(h, open, close);

	strbuf_printf(h->b, "\tfor (int64_t %s = 0; ", iteration);
	if (trip)
		strbuf_printf(h->b, "%s < %s && ", iteration, host_dim(h, trip));
	if (work)
		strbuf_printf(h->b, "%s && ", host_dim(h, work));
	strbuf_puts(h->b, "dl_iterate(x, ");
	host_quote(h, open->locs ? host_node(h, locs_first(open->locs)) : "a loop");
	strbuf_printf(h->b, "); %s++) {\n", iteration);
}

/* Prints the loop between the brackets, after the sizes that its iterations do not change. */
static void print_loop(Host *h, int t, Node *open, const Node *close)
{
	STRBUF_LOCAL(loop);
	StrBuf *b = h->b;
	LoopSizes sizes;

	h->b = &loop;
	host_open_loop(h, &sizes);
	print_loop_head(h, open, close);
	print_block(h, t, open, close, print_iteration_end);
	h->b = b;
	host_close_loop(h);
	strbuf_printf(b, "%s\n", strbuf_str(&loop));
}

Node *host_loop(Host *h, int t, Node *open)
{
	Node *close = block_close(open);
	const MemPlan *m = h->m->mem;

	for (int i = open->nout; i < close->nout; i++) {
		const Place *p = host_value_place(h, close->out[i]);

		if (p->kind == PLACE_OUTPUT)
			host_output(h, p->at);
		if (!stack_of(h, close->out[i])->grows)
			host_region(h, p, false);
	}
	for (int i = 0; i < open->nout; i++) {
		const int at = host_value_place(h, open->out[i])->at;
		const Place *pair = m->carry.at[at].pair;

		strbuf_printf(h->b, "\tcarry[%d] = %s;\n", at,
			      host_place(h, host_value_place(h, node_in(open, i))));
		if (pair[0].kind != PLACE_NONE && pair[0].kind != PLACE_REGION)
			strbuf_printf(h->b, "\tnext[%d] = %s;\n", at, host_place(h, &pair[0]));
	}
	print_loop(h, t, open, close);
	return close;
}

Node *host_condition(Host *h, int t, Node *when)
{
	Node *otherwise = block_close(when), *close = block_close(otherwise);

	strbuf_printf(h->b, "\tif (%s) {\n", host_dim(h, control_dim(when, "value")));
	print_block(h, t, when, otherwise, print_side_end);
	strbuf_puts(h->b, " else {\n");
	print_block(h, t, otherwise, close, print_side_end);
	strbuf_puts(h->b, "\n");
	return close;
}
