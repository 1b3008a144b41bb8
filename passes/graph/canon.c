/* SPDX-License-Identifier: Apache-2.0 */
/*
 * canon: brings the graph into the form that later passes expect. It repeats rounds over the nodes,
 * in order, until nothing changes: fold constants, remove nodes that do nothing, apply the
 * equations of rules.def; then merge common subexpressions and remove dead code.
 *
 * After it no nodes that compute a dim (Shape, Gather, Concat) remain, Reshape and similar
 * operators are Views, and constants that were used only for sizes are gone. Every rewrite
 * preserves the result's type and the ONNX names.
 */
#include "passes/graph/canon.h"
#include "passes/forms/kernels.h"
#include "passes/graph/rules.h"
#include "ir/graph/blocks.h"

#include <assert.h>

enum { MAX_ROUNDS = 16 };

void canon_count(Canon *c)
{
	assert(c->budget != 0);
	c->budget -= c->budget > 0;
	c->changed = true;
}

void canon_replace(Canon *c, Node *n, Value *v)
{
	Value *old = n->out[0];

	assert(v != old && v->type == old->type);
	if (!v->name && v->def && v->def->op != OP_Const)
		v->name = old->name;
	value_move(old, v);
	node_remove(n);
	canon_count(c);
}

Value *canon_node(Canon *c, Node *n, OpKind op, Value *const *in, int nin)
{
	Node *x = node_new(c->g, op, in, nin, 1, n);

	node_locs_from(x, n);
	infer_node(c->in, x);
	return x->out[0];
}

Value *canon_view(Canon *c, Node *n, Value *v, const Type *t)
{
	Node *x;

	while (v->def && v->def->op == OP_View)
		v = node_in(v->def, 0);
	if (v->type == t)
		return v;
	x = node_new(c->g, OP_View, &v, 1, 1, n);
	node_locs_from(x, n);
	x->out[0]->type = t;
	return x->out[0];
}

void canon_concat(Canon *c, Node *n, Value *const *in, int nin)
{
	Node *x = node_new(c->g, OP_Concat, in, nin, 1, n);

	node_locs_from(x, n);
	node_set_int(x, "axis", node_int(n, "axis", 0));
	x->out[0]->type = n->out[0]->type;
	canon_replace(c, n, x->out[0]);
}

bool canon_may_move_here(Canon *c, const Node *n)
{
	return n->id >= c->nnodes || c->block[n->id] == c->now ||
	       (n->out[0] && value_is_weights(c->m, n->out[0]));
}

bool canon_splat(const Value *v, double *out)
{
	const Tensor *t = value_const(v);
	int64_t n = t && t->bytes <= FOLD_BYTES && t->dtype != DT_STR ? tensor_numel(t) : 0;
	bool is_float = t && dtype_is_float(t->dtype);

	for (int64_t i = 0; i < n; i++) {
		double x = is_float ? dtype_load_f64(t->dtype, t->data, i)
				    : (double)dtype_load_i64(t->dtype, t->data, i);

		if (i && !(x == *out))
			return false;
		*out = x;
	}
	return n > 0;
}

static void visit(Canon *c, Node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			value_is_weights(c->m, n->out[i]);
	if (n->op == OP_Const || n->op == OP_Kernel || op_is_control(n->op) || !canon_may(c))
		return;
	if (!fold_node(c, n) && !simplify_node(c, n))
		rules_node(c, n);
}

/* A rewrite of N adds nodes before N and removes only N, so the next node stays valid. */
static void walk(Canon *c)
{
	c->block = blocks_of(c->g, c->tmp).of;
	c->nnodes = c->g->nnodes;
	for (Node *n = c->g->first, *next; n; n = next) {
		next = n->next;
		c->now = n->id < c->nnodes ? c->block[n->id] : c->now;
		visit(c, n);
	}
}

bool pass_canon(Module *m)
{
	Canon c = {.m = m,
		   .g = m->graph,
		   .in = m->infer,
		   .tmp = arena_new(),
		   .budget = m->opt.rewrite_limit};

	c.rules = rules_read(c.tmp);
	dce_graph(m);
	c.changed = m->opt.level > 0;
	for (int i = 0; i < MAX_ROUNDS && c.changed && canon_may(&c); i++) {
		c.changed = false;
		walk(&c);
		dce_graph(m);
		cse_graph(&c);
	}
	dce_graph(m);
	arena_free(c.tmp);
	return true;
}
