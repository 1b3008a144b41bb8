/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The probe of quantisation: a graph in which each layer can be switched at run time between floats
 * and quantised numbers. So one compiled artifact gives the ranges of all values, and the error of
 * quantising any set of layers with any scales:
 *
 *     x' = Where(on[layer], clamp(round(x / s), lo, hi) * s, x)
 */
#include "passes/graph/quantise.h"

typedef struct Probe {
	Module *m;
	Graph *g;
	Node *at; /* nodes are added before it */
} Probe;

static Value *node1(const Probe *p, OpKind op, Value *const *in, int nin)
{
	Node *n = node_new(p->g, op, in, nin, 1, p->at);

	node_locs_from(n, p->at);
	infer_node(p->m->infer, n);
	return n->out[0];
}

#define NODE(p, op, ...)                              \
	node1((p), OP_##op, (Value *[]){__VA_ARGS__}, \
	      (int)(sizeof((Value *[]){__VA_ARGS__}) / sizeof(Value *)))

/* Element I of V, as a scalar, if V has one dim; row I, if V has two. */
static Value *element(const Probe *p, Value *v, int i)
{
	return NODE(p, Gather, v, graph_const_scalar(p->g, DT_I64, i, p->at));
}

static Value *rounded(const Probe *p, Value *x, Value *scale, Value *lo, Value *hi)
{
	return NODE(p, Mul,
		    NODE(p, Min, NODE(p, Max, NODE(p, Round, NODE(p, Div, x, scale)), lo), hi),
		    scale);
}

static Value *input(const Probe *p, const char *name, int rank, const int64_t *dims)
{
	Dim *d[MAX_RANK];

	for (int i = 0; i < rank; i++)
		d[i] = dim_const(p->g->ctx, dims[i]);
	return graph_input(p->g, name, type_tensor(p->g->ctx, DT_F32, rank, d));
}

/* An input with N elements along axis AT of a tensor of rank RANK. */
static Value *vector_input(const Probe *p, const char *name, int rank, int at, int64_t n)
{
	int64_t dims[MAX_RANK];

	for (int i = 0; i < rank; i++)
		dims[i] = i == at ? n : 1;
	return input(p, name, rank, dims);
}

/* The rounded weights of layer I, L. */
static void add_weights(Probe *p, const QuantLayer *l, QuantProbe *q, Arena *a, int i, Value **out)
{
	const int rank = l->w->type->rank;
	Value *s, *t, *most;
	int64_t dims[MAX_RANK];

	type_static(l->w->type, dims);
	p->at = l->node;
	s = vector_input(p, arena_printf(a, "dlcc.scales%d", i), rank, l->axes.channels,
			 dims[l->axes.channels]);
	t = vector_input(p, arena_printf(a, "dlcc.factors%d", i), rank, l->axes.terms,
			 quantise_channels(l));
	q->weights[i] = -1;
	if (!value_const(l->w)) {
		q->weights[i] = p->g->results.n;
		graph_result(p->g, l->w, arena_printf(a, "dlcc.w%d", i));
	}
	most = graph_const_scalar(p->g, DT_F32, QUANT_I8_MAX, p->at);
	*out = rounded(p, NODE(p, Mul, l->w, t), s, NODE(p, Neg, most), most);
}

QuantProbe quantise_probe(Module *m, Arena *a, const QuantLayers *layers)
{
	Probe p = {.m = m, .g = m->graph};
	QuantProbe q = {.results = p.g->results.n,
			.inputs = p.g->inputs.n,
			.weights = NEW_ARRAY(a, layers->n + 1, int)};
	Value **fake = NEW_ARRAY(a, layers->n + 1, Value *), *on, *ranges;
	Value **weights = NEW_ARRAY(a, layers->n + 1, Value *);
	const int64_t n = layers->n;

	for (int i = 0; i < n; i++)
		if (layers->at[i].activation == q.activations) {
			q.activations++;
			graph_result(p.g, layers->at[i].x,
				     arena_printf(a, "dlcc.x%d", q.activations));
		}
	on = input(&p, "dlcc.on", 1, &n);
	ranges = input(&p, "dlcc.ranges", 2, (int64_t[]){q.activations, 3});
	for (int i = 0; i < n; i++)
		add_weights(&p, &layers->at[i], &q, a, i, &weights[i]);
	for (int i = 0; i < n; i++) {
		const QuantLayer *l = &layers->at[i];
		Value **x = &fake[l->activation], *yes;

		p.at = l->node;
		yes = NODE(&p, Greater, element(&p, on, i),
			   graph_const_scalar(p.g, DT_F32, 0, p.at));
		if (!*x) {
			Value *r = element(&p, ranges, l->activation);
			Value *by = vector_input(
				&p, arena_printf(a, "dlcc.smooth%d", l->activation),
				l->x->type->rank, l->axes.of, quantise_channels(l));

			*x = rounded(&p, NODE(&p, Mul, l->x, by), element(&p, r, 0),
				     element(&p, r, 1), element(&p, r, 2));
		}
		node_set_input(l->node, 0, NODE(&p, Where, yes, *x, l->x));
		node_set_input(l->node, 1, NODE(&p, Where, yes, weights[i], l->w));
	}
	return q;
}
