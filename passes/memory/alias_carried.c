/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that a loop carries and of which an iteration replaces some elements: the boxes that
 * NonMaxSuppression has selected, a sequence to which a decoder adds a token.
 *
 *     sum = sum over carried                    next[i] = carried[i]
 *     next[i] = i == at ? sum : carried[i]      sum = sum over next
 *                                               next[at] = sum
 *
 * The kernel then reads the carried value only for the copy, so the next value may have the same
 * memory (passes/memory/memplan.c): one that the loop does not write twice in turn. The copy of the
 * first iteration fills it, and those of later iterations, which would copy it to itself, are left
 * out (codegen/c/loop.c).
 */
#include "passes/forms/form.h"
#include "passes/forms/kernels.h"
#include "passes/memory/alias.h"
#include "ir/graph/blocks.h"

/* The only operand of N that is V or a view of it; -1: none, or several. */
static int operand_of(const Node *n, const Value *v)
{
	int at = -1;

	for (int i = 0; i < n->nin; i++)
		if (node_in(n, i) && value_base(node_in(n, i)) == v) {
			if (at >= 0)
				return -1;
			at = i;
		}
	return at;
}

/* Whether a node after N reads V or a view of it; N itself does not count. */
static bool read_after(const Value *v, const Node *n, const int *order)
{
	for (const Use *u = v->uses; u; u = u->next) {
		if (!u->user || order[u->user->id] > order[n->id])
			return true;
		if ((op_row[u->user->op].flags & OPF_VIEW) && read_after(u->user->out[0], n, order))
			return true;
	}
	return value_feeds_sym(v);
}

/* The kernel that computes NEXT from CARRIED, and its buffers of both. */
typedef struct InPlace {
	Kernel *k;
	Buf *in, *out;
} InPlace;

/* NEXT is computed by a kernel that is the last to read CARRIED. */
static bool find(const Value *carried, Value *next, const int *order, InPlace *x)
{
	Node *n = next->def;
	int at;

	*x = (InPlace){n ? node_kernel(n) : NULL, NULL, NULL};
	at = x->k && !node_on_host(n) && !kernel_calls_routine(x->k) ? operand_of(n, carried) : -1;
	if (at < 0 || read_after(carried, n, order))
		return false;
	x->in = kernel_param(x->k, BUF_IN, at);
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] == next)
			x->out = kernel_param(x->k, BUF_OUT, i);
	return x->in && x->out;
}

bool alias_in_place(const Value *carried, Value *next, const int *order)
{
	InPlace x;
	bool copied = false;

	if (!find(carried, next, order, &x))
		return false;
	VEC_EACH (s, &x.k->stmts) {
		const bool copies = s->out[0] == x.out &&
				    alias_copied(s, s->val[0], -1, NULL) == x.in;

		if (!copies && stmt_reads(s, x.in))
			return false;
		copied = copied || copies;
	}
	return copied;
}

/* The statement of X that copies the carried value, perhaps without some rows, before all others
 * that write the next value; these are updates. Null: there is no such statement. */
static Stmt *copy_of(const InPlace *x, AliasSplit *split, bool *splits)
{
	Stmt *copy = NULL;

	VEC_EACH (s, &x->k->stmts) {
		if (!stmt_writes(s, x->out))
			continue;
		if (copy && !s->update)
			return NULL;
		if (copy)
			continue;
		*splits = alias_split_find(x->k, s, split) && !split->rest;
		if (alias_copied(s, *splits ? split->load : s->val[0], -1, NULL) != x->in)
			return NULL;
		copy = s;
	}
	return copy;
}

/* Moves the copy to the front of the kernel, and has all other statements read the next value. */
static bool make_in_place(const InPlace *x)
{
	AliasSplit split;
	bool splits = false;
	Stmt *copy = copy_of(x, &split, &splits);
	Kernel *k = x->k;

	if (!copy || (!splits && k->stmts.n == 1))
		return false;
	if (splits)
		copy = alias_split(k, &split);
	for (int i = copy->id; i > 0; i--)
		k->stmts.at[i] = k->stmts.at[i - 1];
	k->stmts.at[0] = copy;
	kernel_renumber(k);
	for (int i = 1; i < k->stmts.n; i++)
		STMT_MAP (e, k, k->stmts.at[i])
			if (e->kind == EX_LOAD && e->load.buf == x->in)
				e = ex_load(k->pool, x->out, e->load.idx, e->load.nidx);
	return true;
}

void alias_carried(Module *m)
{
	ARENA_LOCAL(tmp);
	const Graph *g = m->graph;
	const Blocks blocks = blocks_of(g, tmp);
	int *order = NEW_ARRAY(tmp, g->nnodes + 1, int), at = 0;

	for (const Node *n = g->first; n; n = n->next)
		order[n->id] = at++;
	for (Node *n = g->first; n; n = n->next) {
		Node *end = n->op == OP_For ? block_close(n) : NULL;

		for (int i = 0; end && i < n->nout; i++) {
			Value *next = value_base(node_in(end, i));
			InPlace x;

			if (next->def && blocks.of[next->def->id] == blocks.opens[n->id] &&
			    find(n->out[i], next, order, &x) && make_in_place(&x))
				form_changed(m, next->def);
		}
	}
}
