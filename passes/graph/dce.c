/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dead code elimination. A value is live if it is a graph result, an operand of a live node, or the
 * source of a symbol in use. A symbol is in use if the type of a live value, a fact, or the
 * contents of a live node's operand mention it: a kernel may mention every dim that inference found
 * for an operand. A node is live if one of its results is. The brackets around a live node are
 * live.
 */
#include "ir/graph/blocks.h"
#include "passes/module.h"
#include "passes/forms/kernels.h"

typedef struct Live {
	Module *m;
	Arena *tmp;
	bool *value, *sym, *block; /* by id; by number */
	VEC(Value *) todo;
	DimList dims; /* mentioned by what is live; of use only while that is examined */
	Graph *g;
	Blocks blocks;
} Live;

static void live_value(Live *l, Value *v)
{
	if (!v || l->value[v->id])
		return;
	l->value[v->id] = true;
	vec_push(l->tmp, &l->todo, v);
}

static void live_sym(Live *l, const Sym *s)
{
	Value *from = graph_source(l->g, s).value;

	if (l->sym[s->id])
		return;
	l->sym[s->id] = true;
	if (from)
		live_value(l, from);
	DIM_EACH_SYM (of, s->def)
		live_sym(l, of);
}

/* Takes the symbols of Live.dims. */
static void live_dims(Live *l)
{
	VEC_EACH (d, &l->dims)
		DIM_EACH_SYM (s, d)
			live_sym(l, s);
	l->dims.n = 0;
}

static void live_node(Live *l, Node *n)
{
	for (int i = 0; i < n->nin; i++) {
		Value *v = node_in(n, i);
		int count = 0;
		Dim **d = v && n->op != OP_Kernel && l->m->infer
				  ? infer_asked(l->m->infer, v, &count)
				  : NULL;

		live_value(l, v);
		for (int j = 0; j < count; j++)
			vec_push(l->tmp, &l->dims, d[j]);
	}
	node_dims(n, l->tmp, &l->dims);
	live_dims(l);
}

/* Marks the brackets around the nodes of BLOCK. */
static void live_block(Live *l, int block)
{
	for (; block && !l->block[block]; block = l->blocks.at.at[block].outer) {
		const Block *b = &l->blocks.at.at[block];

		l->block[block] = true;
		live_node(l, b->open);
		live_node(l, b->close);
		/* the other side of a When, and the While and the iteration of a For */
		if (b->open->op == OP_Else || b->close->op == OP_Else)
			live_block(l, b->open->op == OP_Else ? l->blocks.closes[b->open->id]
							     : l->blocks.opens[b->close->id]);
		for (Node *n = b->open->next; block_is_loop(b) && n != b->close; n = n->next)
			if (l->blocks.of[n->id] == block &&
			    (n->op == OP_Iteration || n->op == OP_While))
				live_node(l, n);
	}
}

static void mark(Live *l)
{
	graph_dims(l->g, l->tmp, &l->dims);
	live_dims(l);
	for (int i = 0; i < l->g->results.n; i++)
		live_value(l, l->g->results.at[i]->value);
	while (l->todo.n) {
		Value *v = l->todo.at[--l->todo.n];

		type_dims(v->type, l->tmp, &l->dims);
		live_dims(l);
		if (!v->def)
			continue;
		live_node(l, v->def);
		live_block(l, l->blocks.of[v->def->id]);
		/* the brackets that give values their results are brackets of a block, too */
		live_block(l, l->blocks.opens[v->def->id]);
		live_block(l, l->blocks.closes[v->def->id]);
	}
}

/* An optional result without uses is dropped. A list of results (Split) is kept whole. */
static void drop_results(Live *l, Node *n)
{
	if (op_row[n->op].nout_max < 0)
		return;
	for (int i = op_row[n->op].nout_min; i < n->nout; i++)
		if (n->out[i] && !n->out[i]->uses && !l->value[n->out[i]->id])
			n->out[i] = NULL;
}

static bool bracket_is_live(const Live *l, const Node *n)
{
	if (n->op == OP_Iteration || n->op == OP_While)
		return l->block[l->blocks.of[n->id]];
	return l->block[l->blocks.opens[n->id]] || l->block[l->blocks.closes[n->id]];
}

static bool node_is_live(const Live *l, const Node *n)
{
	if (op_is_control(n->op))
		return bracket_is_live(l, n);

	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && l->value[n->out[i]->id])
			return true;
	return false;
}

void dce_graph(Module *m)
{
	Live l = {.m = m, .tmp = arena_new(), .g = m->graph};
	int nsyms = sym_count(m->ctx);

	l.value = NEW_ARRAY(l.tmp, m->graph->nvalues + 1, bool);
	l.sym = NEW_ARRAY(l.tmp, nsyms + 1, bool);
	l.blocks = blocks_of(m->graph, l.tmp);
	l.block = NEW_ARRAY(l.tmp, l.blocks.at.n, bool);
	mark(&l);
	for (Node *n = m->graph->last, *prev; n; n = prev) {
		prev = n->prev;
		if (!node_is_live(&l, n))
			node_remove(n);
		else
			drop_results(&l, n);
	}
	for (int i = 0; i < nsyms; i++)
		if (!l.sym[i])
			graph_set_source(m->graph, sym_at(m->ctx, i), NULL, 0);
	arena_free(l.tmp);
}
