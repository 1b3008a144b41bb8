/* SPDX-License-Identifier: Apache-2.0 */
/*
 * invariant: moves loop-invariant nodes out of loops: nodes whose operands and sizes do not depend
 * on the iteration, and which cannot fail, as the loop may have no iterations. A map that only
 * copies elements moves only if a node that needs it moves, since fusion inlines such a copy into
 * its readers (passes/kernel/fuse.c).
 */
#include "ir/graph/blocks.h"
#include "passes/forms/inline.h"
#include "passes/forms/kernels.h"
#include "passes/module.h"

typedef struct Invariant {
	Module *m;
	Blocks blocks;
	int loop;
	bool *same, *moves; /* by Node.id: invariant, so it moves out */
} Invariant;

static bool in_loop(const Invariant *x, const Value *v)
{
	return block_within(&x->blocks, block_of_value(&x->blocks, v), x->loop) && v->def;
}

/* Whether D depends on a size that is read from a value of the loop. */
static bool size_varies(const Invariant *x, const Dim *d)
{
	DIM_EACH_SYM (s, d) {
		const Value *from = graph_source(x->m->graph, s).value;

		if ((from && in_loop(x, from)) || size_varies(x, s->def))
			return true;
	}
	return false;
}

static bool computes_the_same(Invariant *x, const Node *n)
{
	const Kernel *k = node_kernel(n);
	ARENA_LOCAL(tmp);
	DimList dims = {0};

	if (op_is_control(n->op) || n->op == OP_Copy || (k && kernel_can_fault(k)))
		return false;
	for (int i = 0; i < n->nin; i++) {
		const Value *v = node_in(n, i);

		if (v && in_loop(x, v) && !x->same[v->def->id])
			return false;
	}
	node_dims(n, tmp, &dims);
	VEC_EACH (d, &dims)
		if (size_varies(x, d))
			return false;
	return true;
}

/* Whether N by itself is worth moving: it computes, rather than only moving elements. */
static bool computes(const Node *n)
{
	const Kernel *k = node_kernel(n);

	return k && !(k->stmts.n == 1 && stmt_is_simple_map(k->stmts.at[0]) &&
		      inline_is_free(k->stmts.at[0]));
}

static bool needed_outside(const Invariant *x, const Node *n)
{
	for (int i = 0; i < n->nout; i++)
		for (const Use *u = n->out[i] ? n->out[i]->uses : NULL; u; u = u->next)
			if (u->user && x->moves[u->user->id])
				return true;
	return false;
}

static void move_out(Invariant *x)
{
	const Block *b = &x->blocks.at.at[x->loop];

	for (Node *n = b->open->next; n != b->close; n = n->next)
		x->same[n->id] = x->blocks.of[n->id] == x->loop && computes_the_same(x, n);
	for (Node *n = b->close->prev; n != b->open; n = n->prev)
		x->moves[n->id] = x->same[n->id] && (computes(n) || needed_outside(x, n));
	for (Node *n = b->open->next, *next; n != b->close; n = next) {
		next = n->next;
		if (!x->moves[n->id])
			continue;
		node_move(n, b->open);
		x->blocks.of[n->id] = b->outer;
		x->moves[n->id] = x->same[n->id] = false;
	}
}

bool pass_invariant(Module *m)
{
	Invariant x = {.m = m};
	ARENA_LOCAL(tmp);

	x.blocks = blocks_of(m->graph, tmp);
	x.same = NEW_ARRAY(tmp, m->graph->nnodes + 1, bool);
	x.moves = NEW_ARRAY(tmp, m->graph->nnodes + 1, bool);
	/* inner loops come first: a node that leaves one may then leave the next */
	for (x.loop = x.blocks.at.n - 1; x.loop > 0 && m->opt.level > 0; x.loop--)
		if (block_is_loop(&x.blocks.at.at[x.loop]))
			move_out(&x);
	return true;
}
