/* SPDX-License-Identifier: Apache-2.0 */
/* The C text of the addresses of values in exec, and the allocation of values that the plan omits
 * because their size is known only there. */
#include "codegen/host/host_impl.h"
#include "ir/graph/blocks.h"

#include <assert.h>

const char *host_iteration(Host *h, const Node *open)
{
	int loop =
		0; /* the number of the loop, as ids of nodes are not those of the graph's text */

	for (; open; open = open->prev)
		loop += open->op == OP_For;
	return arena_printf(h->m->arena, "iteration_%d", loop);
}

const char *host_stack(Host *h, const Stack *s)
{
	Arena *a = h->m->arena;
	const char *all = host_place(h, &h->m->mem->value[s->all->id]);
	const char *iteration = host_iteration(h, s->open);

	if (s->reverse)
		iteration = arena_printf(a, "(%s - 1 - %s)",
					 host_dim(h, control_dim(s->open, "trip")), iteration);
	return arena_printf(a, "(char *)(%s) + %s * %s", all, iteration, host_dim(h, s->each));
}

const char *host_place(Host *h, const Place *p)
{
	Arena *a = h->m->arena;

	switch (p->kind) {
	case PLACE_INPUT: return arena_printf(a, "x->in[%d]", p->at);
	case PLACE_OUTPUT: return arena_printf(a, "x->out[%d]", p->at);
	case PLACE_SLOT: return arena_printf(a, "x->buf[%d]", p->at);
	case PLACE_HOST: return arena_printf(a, "x->buf[%d]", h->m->mem->slots.n + p->at);
	case PLACE_REGION: return arena_printf(a, "region[%d]", p->at);
	case PLACE_WEIGHTS:
		return p->offset ? arena_printf(a, "x->weights + %lld", (long long)p->offset)
				 : "x->weights";
	case PLACE_CARRY: return arena_printf(a, "carry[%d]", p->at);
	case PLACE_NEXT: return arena_printf(a, "next[%d]", p->at);
	case PLACE_STACK: return host_stack(h, &h->m->mem->stack.at[p->at]);
	case PLACE_ITERATION:
	case PLACE_NONE: break;
	}
	return "NULL";
}

const Place *host_value_place(Host *h, Value *v)
{
	return &h->m->mem->value[value_base(v)->id];
}

/* A copy of a constant for a kernel on the host of a GPU, as the weights are in the GPU's
 * memory. */
static const char *const_text(Host *h, const Value *v)
{
	int i = 0;

	while (i < h->consts.n && h->consts.at[i] != v)
		i++;
	if (i == h->consts.n)
		vec_push(h->m->arena, &h->consts, v);
	return arena_printf(h->m->arena, "(void *)(uintptr_t)%s_%d", host_own(h, "const"), i);
}

void host_consts(Host *h, int from)
{
	for (int i = from; i < h->consts.n; i++) {
		const Tensor *t = value_const(h->consts.at[i]);
		const unsigned char *byte = t->data;

		strbuf_printf(h->b, "static const _Alignas(64) unsigned char %s_%d[] = {%d",
			      host_own(h, "const"), i, t->bytes ? byte[0] : 0);
		for (int64_t k = 1; k < t->bytes; k++)
			strbuf_printf(h->b, ",%d", byte[k]);
		strbuf_puts(h->b, "};\n");
	}
	strbuf_puts(h->b, from < h->consts.n ? "\n" : "");
}

const char *host_value(Host *h, Value *v)
{
	v = value_base(v);
	if (h->gpu && value_const(v))
		return const_text(h, v);
	if (h->gpu && !v->def)
		return arena_printf(h->m->arena, "x->host_in[%d]", v->index);
	assert(!h->gpu || v->place == ON_HOST);
	return host_place(h, host_value_place(h, v));
}

void host_next_region(Host *h, int at, Dim *bytes)
{
	const Place *pair = h->m->mem->carry.at[at].pair;

	if (pair[0].kind != PLACE_REGION)
		return;
	strbuf_printf(
		h->b,
		"\tat = carry[%d] == region[%d] ? %d : %d;\n"
		"\tif (!(next[%d] = region[at] = dl_region_alloc(x, at, dl_size(%s), 0)))\n\t\treturn x->status;\n",
		at, pair[0].at, pair[1].at, pair[0].at, at, host_dim(h, bytes));
	h->picks = true;
}

void host_result_memory(Host *h, Node *n)
{
	for (int i = 0; i < n->nout; i++) {
		const Place *p = host_value_place(h, n->out[i]);

		host_region(h, p, node_on_host(n));
		if (p->kind == PLACE_OUTPUT)
			host_output(h, p->at);
	}
}

void host_region(Host *h, const Place *p, bool on_host)
{
	if (p->kind == PLACE_NEXT)
		host_next_region(h, p->at, p->size);
	if (p->kind == PLACE_REGION)
		strbuf_printf(
			h->b,
			"\tif (!(region[%d] = %s(x, %d, dl_size(%s), 0)))\n\t\treturn x->status;\n",
			p->at, h->gpu && on_host ? "dl_host_region_alloc" : "dl_region_alloc",
			p->at, host_dim(h, p->size));
}

const char *host_buf(Host *h, int t, Node *n, Buf *b)
{
	Schedule *s = h->m->sched[t][n->id];

	if (b->kind == BUF_IN && node_on_host(n))
		return host_value(h, node_in(n, b->param));
	if (b->kind == BUF_IN)
		return host_place(h, host_value_place(h, node_in(n, b->param)));
	if (b->kind == BUF_OUT)
		return host_place(h, host_value_place(h, n->out[b->param]));
	for (int i = 0; schedule_temp(s, i); i++)
		if (schedule_temp(s, i) == b)
			return host_place(h, &h->m->mem->temp[t][n->id][i]);
	return "NULL";
}
