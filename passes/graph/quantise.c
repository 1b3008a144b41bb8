/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantise: carries out a plan of quantisation (passes/graph/quantise.h). The operands of each
 * layer that the plan quantises are rounded to integers and back:
 *
 *     x' = DequantizeLinear(QuantizeLinear(x, scale, zero), scale, zero)
 *     w' = DequantizeLinear(i8 constant, scales)
 *
 * which `algebra` turns into products of bytes, where targets have an instruction for them. Layers
 * with the same x share x'. Other readers of x still read the unrounded x: on CPUs the quotients
 * are the epilogue of the kernel that computes x, and sums of unrounded numbers are more exact.
 *
 * It runs after `canon`, which folds normalisations into the weights.
 */
#include "passes/graph/quantise.h"

#include "ir/graph/blocks.h"

/* Whether V depends only on constants. DONE has the answers by Value.id: 0: not known, 1: yes, 2:
 * no. */
bool quantise_is_weights(const Value *v, char *done)
{
	bool yes = v->def && !op_is_control(v->def->op) && type_static(v->type, NULL) &&
		   (v->def->op == OP_Const || v->def->nin > 0);

	if (done[v->id])
		return done[v->id] == 1;
	for (int i = 0; yes && i < v->def->nin; i++)
		yes = !node_in(v->def, i) || quantise_is_weights(node_in(v->def, i), done);
	done[v->id] = yes ? 1 : 2;
	return yes;
}

static bool is_layer(const Node *n, char *done)
{
	const Value *x = node_in(n, 0), *w = node_in(n, 1);

	return op_table[n->op] && op_table[n->op]->weights_axes && x->type->dtype == DT_F32 &&
	       w->type->dtype == DT_F32 && w->type->rank >= 2 && quantise_is_weights(w, done) &&
	       !quantise_is_weights(x, done);
}

int64_t quantise_channels(const QuantLayer *l)
{
	int64_t n = 1;

	return l->axes.terms >= 0 && dim_is_const(l->x->type->dims[l->axes.of], &n) &&
			       dim_equals(l->w->type->dims[l->axes.terms], n)
		       ? n
		       : 1;
}

/* An activation is smoothed for all layers that read it, or for none of them. */
static void agree(QuantLayers *l)
{
	for (int i = 0; i < l->n; i++)
		for (int j = 0; j < l->n; j++) {
			QuantLayer *a = &l->at[i], *b = &l->at[j];

			if (a->activation == b->activation &&
			    (a->axes.of != b->axes.of ||
			     quantise_channels(a) != quantise_channels(b)))
				a->axes.terms = b->axes.terms = -1;
		}
	for (int i = 0; i < l->n; i++)
		for (int j = 0; j < l->n; j++)
			if (l->at[i].activation == l->at[j].activation && l->at[i].axes.terms < 0)
				l->at[j].axes.terms = -1;
}

QuantLayers quantise_layers(Module *m, Arena *a)
{
	const Graph *g = m->graph;
	const Blocks blocks = blocks_of(g, a);
	char *done = NEW_ARRAY(a, g->nvalues + 1, char);
	int *activation = NEW_ARRAY(a, g->nvalues + 1, int), activations = 0;
	QuantLayers l = {0};

	for (Node *n = g->first; n; n = n->next) {
		Value *x = node_in(n, 0);

		/* Values inside loops and branches cannot be results of the graph. */
		if (blocks.of[n->id] || !is_layer(n, done))
			continue;
		if (!activation[x->id])
			activation[x->id] = ++activations;
		vec_push(a, &l,
			 ((QuantLayer){.node = n,
				       .x = x,
				       .w = node_in(n, 1),
				       .axes = op_table[n->op]->weights_axes(n),
				       .activation = activation[x->id] - 1}));
	}
	agree(&l);
	return l;
}

/* ---- The rewrite ---- */

static Value *with_type(Graph *g, Node *before, OpKind op, Value *const *in, int nin, DType t)
{
	Node *n = node_new(g, op, in, nin, 1, before);

	node_locs_from(n, before);
	n->out[0]->type = type_tensor(g->ctx, t, in[0]->type->rank, in[0]->type->dims);
	return n->out[0];
}

/* Operators that commute with rounding to bytes: they move elements, or select the largest. */
static const OpKind movers[] = {OP_View, OP_Transpose, OP_MaxPool};

/* Whether V is the only result of an operator that commutes with rounding. */
static bool is_moved(const Value *v)
{
	const Node *n = v->def;

	if (!n || (n->nout > 1 && n->out[1]))
		return false;
	for (size_t i = 0; i < sizeof movers / sizeof *movers; i++)
		if (n->op == movers[i])
			return true;
	return false;
}

/* X in bytes. It is rounded as early as possible: before the movers that only X depends on, so that
 * a kernel before them writes bytes, and they move bytes. ALONE: only layers in bytes read X. */
static Value *bytes_of(Graph *g, Value *x, bool alone, Value *scale, Value *zero, Node *n)
{
	Value *from, *q;
	Node *copy;

	if (!alone || !is_moved(x))
		return with_type(g, n, OP_QuantizeLinear, (Value *[]){x, scale, zero}, 3, DT_U8);
	from = node_in(x->def, 0);
	q = bytes_of(g, from, value_used_once(from), scale, zero, n);
	copy = node_new(g, x->def->op, &q, 1, 1, n);
	node_locs_from(copy, x->def);
	for (int i = 0; i < x->def->attrs.n; i++)
		node_set_attr(copy, x->def->attrs.at[i]);
	copy->out[0]->type = type_tensor(g->ctx, DT_U8, x->type->rank, x->type->dims);
	return copy->out[0];
}

/* X, rounded to bytes and back, before N. */
static Value *through_bytes(Graph *g, Value *x, bool alone, const QuantChoice *c, Node *n)
{
	Value *scale = graph_const_scalar(g, DT_F32, (double)c->scale, n);
	Value *zero = graph_const_scalar(g, DT_U8, c->zero, n);
	Value *q;

	if (c->smooth)
		x = with_type(g, n, OP_Mul, (Value *[]){x, graph_const(g, c->smooth, n)}, 2,
			      DT_F32);
	q = bytes_of(g, x, alone && !c->smooth, scale, zero, n);
	return with_type(g, n, OP_DequantizeLinear, (Value *[]){q, scale, zero}, 3, DT_F32);
}

/* By layer of L: how PLAN quantises it; null: PLAN does not. Null after a diagnostic. */
static const QuantChoice **choices_of(const Graph *g, Arena *a, const QuantLayers *l,
				      const QuantPlan *plan)
{
	const QuantChoice **choice = NEW_ARRAY(a, l->n + 1, const QuantChoice *);
	int *layer = NEW_ARRAY(a, g->nnodes + 1, int); /* by Node.id: the layer's index + 1 */

	for (int i = 0; i < l->n; i++)
		layer[l->at[i].node->id] = i + 1;
	for (int i = 0; i < plan->n; i++) {
		const QuantChoice *c = &plan->layer[i];
		const int at = c->node < g->nnodes ? layer[c->node] : 0;

		if (!at) {
			diag_error(
				g->ctx->diag, (DiagLoc){.file = g->file, .node = c->name},
				"the plan of --int8 quantises it, but it is not a product of an input and f32 weights");
			return NULL;
		}
		choice[at - 1] = c;
	}
	return choice;
}

/* Whether all readers of X are layers that are quantised. */
static bool only_bytes(const QuantChoice *const *choice, const QuantLayers *l, const Value *x)
{
	int uses = 0, layers = 0;

	for (const Use *u = x->uses; u; u = u->next)
		uses++;
	for (int i = 0; i < l->n; i++)
		layers += l->at[i].x == x && choice[i];
	return uses == layers;
}

static Value *weights_of(Graph *g, const QuantLayer *l, const QuantChoice *c, Node *n)
{
	const Tensor *s = c->scales;
	Value *in[] = {graph_const(g, c->weights, n), graph_const(g, s, n),
		       graph_const(g, tensor_new(g->arena, DT_I8, s->rank, s->dims), n)};
	Value *w = with_type(g, n, OP_DequantizeLinear, in, 3, DT_F32);

	in[0]->name = l->w->name;
	node_set_int(w->def, "axis", l->axes.channels);
	return w;
}

bool pass_quantise(Module *m)
{
	const QuantPlan *plan = m->opt.quantise;
	Arena *tmp;
	QuantLayers l;
	const QuantChoice **choice;
	Value **bytes;
	bool *alone;

	if (!plan)
		return true;
	tmp = arena_new();
	l = quantise_layers(m, tmp);
	choice = choices_of(m->graph, tmp, &l, plan);
	bytes = NEW_ARRAY(tmp, l.n + 1, Value *);
	alone = NEW_ARRAY(tmp, l.n + 1, bool);
	for (int i = 0; choice && i < l.n; i++)
		alone[i] = only_bytes(choice, &l, l.at[i].x);
	for (int i = 0; choice && i < l.n; i++) {
		Node *n = l.at[i].node;
		Value **x = &bytes[l.at[i].activation];

		if (!choice[i])
			continue;
		if (!*x)
			*x = through_bytes(m->graph, l.at[i].x, alone[i], choice[i], n);
		node_set_input(n, 0, *x);
		node_set_input(n, 1, weights_of(m->graph, &l.at[i], choice[i], n));
	}
	arena_free(tmp);
	if (!choice)
		return false;
	dce_graph(m);
	/* Expands the quantisation operators to their parts, as in a model that contains them. */
	return plan->operators || (pass_infer(m) && pass_canon(m));
}
