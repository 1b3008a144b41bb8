/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slice: finds a dim, usually the batch, whose elements are computed independently
 * (passes/forms/apart.h). The runtime then runs the program for a few elements at a time, so that
 * intermediate values stay in the caches. In inputs and results of the graph the elements must be
 * contiguous, because a slice is passed as a tensor.
 *
 * Each slice reads the weights once more. That pays if the intermediate values of an element are
 * larger than the weights. A kernel whose results do not depend on the batch would run once for
 * each slice, so a graph with such a kernel has no slices.
 */
#include "ir/graph/blocks.h"
#include "passes/forms/apart.h"
#include "passes/forms/kernels.h"
#include "passes/memory/memplan_pack.h"
#include "passes/module.h"

enum {
	/* Bytes of the arena of a slice, for each thread. A core's share of the last-level cache is
	 * 4 to 32 MiB. On a machine with 32 MiB, ResNet-50 took 60.3, 62.2, 65.0 and 66.3 ms an
	 * image in slices with arenas of 11, 20, 39 and 75 MiB, MobileNetV2 6.4, 6.6, 7.1 and 7.8
	 * ms with 6, 12, 24 and 48, and MobileNetV3, whose weights are larger, 5.1, 4.9, 5.2 and
	 * 5.7 with 4.4, 9, 18 and 35. */
	SLICE_BYTES = 10 << 20
};

/* Whether V has parts that are contiguous in memory, consecutive, and of whole bytes. */
static bool parts_contiguous(Apart *x, const Value *v)
{
	const Type *t = v->type;
	const int at = apart_value(x, v);

	return at >= 0 && !t->layout && dtype_info[t->dtype].bits >= 8 &&
	       dim_equals(apart_volume(x->m->ctx, t, 0, at), 1);
}

/* ---- The graph ---- */

static bool node_apart(Apart *x, const Node *n)
{
	const Kernel *k = node_kernel(n);

	if (op_is_control(n->op) || !apart_node(x, n) || (k && kernel_has_strings(k)))
		return false;
	for (int i = 0; k && i < n->nout; i++)
		if (n->out[i] && !value_is_weights(x->m, n->out[i]) &&
		    apart_value(x, n->out[i]) < 0)
			return false;
	return true;
}

static bool graph_apart(Apart *x)
{
	const Graph *g = x->m->graph;

	/* `bind` computes symbols that abbreviate a size once, from the whole batch */
	for (int i = 0; i < sym_count(x->m->ctx); i++)
		if (sym_at(x->m->ctx, i)->def && apart_mentions(x, sym_at(x->m->ctx, i)->def))
			return false;
	for (int i = 0; i < g->facts.n; i++)
		if (apart_mentions(x, g->facts.at[i].a) || apart_mentions(x, g->facts.at[i].b))
			return false;
	for (int i = 0; i < g->inputs.n; i++)
		if (apart_value(x, g->inputs.at[i]) != NO_PARTS &&
		    !parts_contiguous(x, g->inputs.at[i]))
			return false;
	for (int i = 0; i < g->results.n; i++) {
		const Value *v = g->results.at[i]->value;
		const Place *at = &x->m->mem->value[v->id];

		/* others are copied from their place, which is not a launch */
		if (at->kind != PLACE_OUTPUT || at->at != i || !parts_contiguous(x, v))
			return false;
	}
	for (const Node *n = g->first; n; n = n->next)
		if (!node_apart(x, n))
			return false;
	return true;
}

/* ---- Whether it pays ---- */

/* The bytes of a part of V; 0 if V has no parts, or their size is not constant. */
static int64_t part_bytes(Apart *x, const Value *v)
{
	Dim **one = NEW_ARRAY(x->tmp, sym_count(x->m->ctx), Dim *);
	int64_t n;

	if (apart_value(x, v) < 0)
		return 0;
	one[x->s->id] = dim_const(x->m->ctx, 1);
	return dim_is_const(dim_subst(x->m->ctx, apart_volume(x->m->ctx, v->type, 0, v->type->rank),
				      one, sym_count(x->m->ctx)),
			    &n)
		       ? dtype_size(v->type->dtype, n)
		       : 0;
}

/* The bytes that kernels write and read of one part of all values. */
static int64_t traffic(Apart *x)
{
	int64_t all = 0;

	for (const Node *n = x->m->graph->first; n; n = n->next) {
		if (!node_kernel(n))
			continue;
		for (int i = 0; i < n->nin; i++)
			all += node_in(n, i) ? part_bytes(x, node_in(n, i)) : 0;
		for (int i = 0; i < n->nout; i++)
			all += n->out[i] ? part_bytes(x, n->out[i]) : 0;
	}
	return all;
}

/* The bytes that every slice reads: the weights, and inputs without parts. If an input's size is
 * unknown, its upper bound counts. */
static int64_t shared_bytes(Apart *x)
{
	const Graph *g = x->m->graph;
	int64_t all = x->m->mem->weights, n;

	for (int i = 0; i < g->inputs.n; i++) {
		const Type *t = g->inputs.at[i]->type;

		if (apart_value(x, g->inputs.at[i]) >= 0)
			continue;
		if (!dim_is_const(apart_volume(x->m->ctx, t, 0, t->rank), &n))
			return INT64_MAX;
		all += dtype_size(t->dtype, n);
	}
	return all;
}

/* The number of parts that each thread computes at once; 0: slices do not pay. */
static int64_t parts_at_once(Apart *x)
{
	const MemPlan *p = x->m->mem;
	const int64_t sample = memplan_sample(x->m, x->tmp)[x->s->id];
	const int64_t each = p->slots.sample_total / (sample > 0 ? sample : 1);

	if (x->m->opt.slice >= 0)
		return x->m->opt.slice;
	if (!each || traffic(x) < shared_bytes(x))
		return 0;
	return each < SLICE_BYTES ? SLICE_BYTES / each : 1;
}

void slice_print(StrBuf *b, const Module *m)
{
	if (!m->slice.sym) {
		strbuf_puts(b, "slices: none");
		return;
	}
	strbuf_printf(b, "slices: %lld of ", (long long)m->slice.parts);
	dim_print(b, m->slice.sym->dim);
	strbuf_puts(b, " for each thread");
}

bool pass_slice(Module *m)
{
	const Graph *g = m->graph;
	Apart x = {.m = m};
	bool *tried; /* by Sym.id */

	if (module_on_gpu(m) || g->aliases.n || !m->opt.slice)
		return true;
	x.tmp = arena_new();
	tried = NEW_ARRAY(x.tmp, sym_count(m->ctx) + 1, bool);
	for (int i = 0; i < g->inputs.n; i++) {
		const Type *t = g->inputs.at[i]->type;

		for (int d = 0; d < t->rank && !m->slice.sym; d++) {
			x.s = dim_as_sym(t->dims[d]);
			if (!x.s || tried[x.s->id])
				continue;
			tried[x.s->id] = true;
			if (x.s->from_data || x.s->def || x.s->lo > 1 || !graph_apart(&x))
				continue;
			m->slice.parts = parts_at_once(&x);
			m->slice.sym = m->slice.parts ? x.s : NULL;
		}
	}
	arena_free(x.tmp);
	return true;
}
