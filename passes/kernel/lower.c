/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lower: replaces every node except constants, views and brackets of control flow by a Kernel node,
 * whose kernel the operator's `lower` function builds. A node with too many operands for a kernel
 * becomes several nodes. Operands that no statement reads (shapes that became dims) are dropped,
 * and iterators of extent 1 are removed. After this pass no operator is referred to by name.
 */
#include "ir/graph/blocks.h"
#include "passes/forms/kernels.h"
#include "passes/module.h"

#include <assert.h>

/* A view needs no kernel if its operand is row-major, as every plain value is. */
static bool is_view(const Node *n)
{
	return (op_row[n->op].flags & OPF_VIEW) && node_in(n, 0) && !node_in(n, 0)->type->layout;
}

/* The most operands of a node: a kernel has MAX_PARAMS operands and results. */
enum { WIDE = MAX_PARAMS - 1 };

/* Combines COUNT operands, the first of which is number FROM, into one value. */
static Value *group(Module *m, Node *n, int from, int count)
{
	Value *in[WIDE];
	Node *x;

	for (int i = 0; i < count; i++)
		in[i] = node_in(n, from + i);
	if (count == 1)
		return in[0];
	x = node_new(n->graph, n->op, in, count, 1, n);
	node_locs_from(x, n);
	for (int i = 0; i < n->attrs.n; i++)
		node_set_attr(x, n->attrs.at[i]);
	infer_node(m->infer, x);
	return x->out[0];
}

/* Combines operands in groups until at most WIDE are left. The order of the arithmetic is
 * preserved: only the first operands are grouped. */
static void narrow(Module *m, Node *n)
{
	while (op_table[n->op]->grouped && n->nin > WIDE) {
		int count = 0;

		for (int i = 0, take; i < n->nin; i += take) {
			take = i && op_table[n->op]->variadic ? 1
			       : n->nin - i < WIDE            ? n->nin - i
							      : WIDE;
			node_set_input(n, count++, group(m, n, i, take));
		}
		node_truncate_inputs(n, count);
	}
}

static bool lower_one(Module *m, Node *n)
{
	Kernel *k = lower_node(m->infer, n, m->arena);
	Value *in[MAX_PARAMS], *out[MAX_PARAMS];
	int nin = 0, nout = 0;
	Node *kn;

	if (!k)
		return false;
	kernel_drop_unit_iters(k);
	kernel_mark_used(k);
	VEC_EACH (b, &k->bufs) {
		if (nin == MAX_PARAMS || nout == MAX_PARAMS)
			return infer_error(m->infer, n,
					   "has more than %d operands that are not constants",
					   MAX_PARAMS);
		if (b->kind == BUF_IN) {
			in[nin] = node_in(n, b->param);
			b->param = nin++;
		} else if (b->kind == BUF_OUT) {
			out[nout] = node_out(n, b->param);
			b->param = nout++;
		}
	}
	kn = node_new(n->graph, OP_Kernel, in, nin, nout, n);
	node_locs_from(kn, n);
	for (int i = 0; i < nout; i++) {
		kn->out[i]->type = out[i]->type;
		kn->out[i]->name = out[i]->name;
		value_move(out[i], kn->out[i]);
	}
	kernel_node_set(kn, k);
	node_remove(n);
	return true;
}

/* Removes all operands of a view but the first: the view's type has the information of the
 * others. */
static void lower_view(Node *n)
{
	Value *x = node_in(n, 0);
	Node *v;

	if (n->op == OP_View)
		return;
	v = node_new(n->graph, OP_View, &x, 1, 1, n);
	node_locs_from(v, n);
	v->out[0]->type = n->out[0]->type;
	v->out[0]->name = n->out[0]->name;
	value_move(n->out[0], v->out[0]);
	node_remove(n);
}

/* A kernel from a definition (ir/graph/definition.h) is normalised as lowered kernels are. */
static void tidy(Node *n)
{
	kernel_drop_unit_iters(node_kernel(n));
	node_drop_unused_inputs(n);
}

bool pass_lower(Module *m)
{
	bool ok = true;

	for (Node *n = m->graph->first; n; n = n->next)
		narrow(m, n);
	for (Node *n = module_first(m), *next; n; n = next) {
		next = module_next(m, n);
		diag_at(m->ctx, node_diag(n));
		if (is_view(n))
			lower_view(n);
		else if (n->op == OP_Kernel)
			tidy(n);
		else if (n->op != OP_Const && !op_is_control(n->op))
			ok = lower_one(m, n) && ok;
	}
	diag_at(m->ctx, (DiagLoc){0});
	if (ok)
		dce_graph(m);
	return ok;
}
