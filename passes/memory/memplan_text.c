/* SPDX-License-Identifier: Apache-2.0 */
/* The memory plan as text, for --dump-ir=memplan: slots, and where each value is, from its node to
 * its last reader. */
#include "passes/module.h"

typedef struct MemPlanPrinter {
	StrBuf *b;
	const Module *m;
	const char **label; /* by Value.id */
	const char **node;  /* by position: the label of its first result */
} MemPlanPrinter;

static void put_place(MemPlanPrinter *p, const Place *at)
{
	switch (at->kind) {
	case PLACE_NONE: strbuf_puts(p->b, "not stored"); return;
	case PLACE_INPUT: strbuf_printf(p->b, "input %d", at->at); return;
	case PLACE_OUTPUT: strbuf_printf(p->b, "output %d", at->at); break;
	case PLACE_SLOT: strbuf_printf(p->b, "slot %d", at->at); break;
	case PLACE_HOST: strbuf_printf(p->b, "host slot %d", at->at); break;
	case PLACE_REGION: strbuf_printf(p->b, "region %d", at->at); break;
	case PLACE_CARRY: strbuf_printf(p->b, "carried %d", at->at); return;
	case PLACE_NEXT: strbuf_printf(p->b, "what is carried %d next", at->at); return;
	case PLACE_STACK: strbuf_printf(p->b, "an iteration of stack %d", at->at); return;
	case PLACE_ITERATION: strbuf_puts(p->b, "the iteration's number"); return;
	case PLACE_WEIGHTS: strbuf_printf(p->b, "weights at %lld", (long long)at->offset); break;
	}
	strbuf_puts(p->b, ", ");
	dim_print(p->b, at->size);
	strbuf_puts(p->b, " bytes");
}

static void put_value(MemPlanPrinter *p, const Value *v)
{
	const MemPlan *mem = p->m->mem;
	const Value *base = value_base((Value *)(uintptr_t)v);
	const char *last = p->node[mem->last[v->id]];

	strbuf_printf(p->b, "  %%%s: ", p->label[v->id]);
	if (base != v) {
		strbuf_printf(p->b, "where %%%s is\n", p->label[base->id]);
		return;
	}
	put_place(p, &mem->value[v->id]);
	if (mem->over[v->id])
		strbuf_printf(p->b, ", over %%%s", p->label[mem->over[v->id]->id]);
	if (mem->value[v->id].kind == PLACE_SLOT || mem->value[v->id].kind == PLACE_HOST)
		strbuf_printf(p->b, ", until %s%s", last ? "%" : "the end", last ? last : "");
	strbuf_puts(p->b, "\n");
}

static void put_temps(MemPlanPrinter *p, const Node *n)
{
	for (int t = 0; t < p->m->ntargets; t++) {
		const Schedule *s = n->id < p->m->nsched ? p->m->sched[t][n->id] : NULL;

		for (int i = 0; p->m->mem->temp[t][n->id] && schedule_temp(s, i); i++) {
			strbuf_printf(p->b, "  %s of %%%s on %s: ", schedule_temp(s, i)->name,
				      p->label[n->out[0]->id], p->m->target[t]->name);
			put_place(p, &p->m->mem->temp[t][n->id][i]);
			strbuf_puts(p->b, "\n");
		}
	}
}

/* The offset of slot I. */
static void put_begin(StrBuf *b, const Slot *s)
{
	if (s->offset >= 0)
		strbuf_printf(b, " at %lld", (long long)s->offset);
	else
		strbuf_puts(b, " after");
	for (int k = 0; k < s->nbelow && s->offset < 0; k++)
		strbuf_printf(b, "%s %d", k ? "," : "", s->below[k]);
}

static bool sizes_are_known(const Slots *s)
{
	for (int i = 0; i < s->n; i++)
		if (!dim_is_const(s->at[i].size, NULL))
			return false;
	return s->n > 0;
}

static void put_slots(StrBuf *b, const char *what, const Slots *slots)
{
	for (int i = 0; i < slots->n; i++) {
		strbuf_printf(b, "  %s %d: ", what, i);
		dim_print(b, slots->at[i].size);
		strbuf_puts(b, " bytes");
		put_begin(b, &slots->at[i]);
		strbuf_puts(b, "\n");
	}
}

void memplan_print(StrBuf *b, const Module *m)
{
	ARENA_LOCAL(tmp);
	const Graph *g = m->graph;
	MemPlanPrinter p = {b, m, graph_labels(g, tmp),
			    NEW_ARRAY(tmp, g->nnodes + 1, const char *)};
	int at = 0;

	for (const Node *n = g->first; n; n = n->next)
		p.node[at++] = n->nout && n->out[0] ? p.label[n->out[0]->id] : "?";
	strbuf_printf(b, "memory: %lld bytes of weights, %d slots, %d regions\n",
		      (long long)m->mem->weights, m->mem->slots.n, m->mem->nregions);
	if (sizes_are_known(&m->mem->slots))
		strbuf_printf(b, "  slots: %lld bytes, of which %lld are in use together\n",
			      (long long)m->mem->slots.sample_total,
			      (long long)m->mem->slots.sample_least);
	put_slots(b, "slot", &m->mem->slots);
	put_slots(b, "host slot", &m->mem->host);
	for (int i = 0; i < g->inputs.n; i++)
		put_value(&p, g->inputs.at[i]);
	for (const Node *n = g->first; n; n = n->next) {
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				put_value(&p, n->out[i]);
		put_temps(&p, n);
	}
}
