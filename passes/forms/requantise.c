/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the rounded quotient of a number that was computed from bytes, by a constant scale, with
 * a rounded product:
 *
 *     rint(x / s)  =  rint(x * (1 / s))
 *
 * x is a sum of dequantised numbers and already rounded, so ties between two integers may go either
 * way (docs/numerics.md, "Quantised tensors"); the product adds at most two units in the last
 * place. A quotient of a number that the model is given stays exact. A division takes as long as
 * ten products, so it would be the largest part of most epilogues. `algebra` calls it (algebra.c).
 */
#include "passes/forms/algebra.h"

#include "passes/module.h"

#include <math.h>

bool stems_from_bytes(const Node *n, int *visits)
{
	const Kernel *k = n ? node_kernel(n) : NULL;

	if (!k || !*visits)
		return false;
	--*visits;
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == BUF_IN && dtype_is_byte(k->bufs.at[i]->dtype))
			return true;
	for (int i = 0; i < n->nin; i++)
		if (node_in(n, i) && stems_from_bytes(node_in(n, i)->def, visits))
			return true;
	return false;
}

/* V's only readers round its elements to integers. */
static bool is_rounded(const Value *v)
{
	for (const Use *u = v->uses; u; u = u->next) {
		const Kernel *k = u->user ? node_kernel(u->user) : NULL;
		const Expr *e = k && k->stmts.n == 1 ? k->stmts.at[0]->val[0] : NULL;

		if (!e || !ex_is_op(e, IN_rint) || e->op.arg[0]->kind != EX_LOAD)
			return false;
	}
	return v->uses;
}

/* A constant with the reciprocals of V's elements. Null unless V is a constant of normal numbers
 * with normal reciprocals. */
static Value *reciprocals(Graph *g, const Value *v, Node *before)
{
	const Tensor *t = value_const(v);
	Tensor *to;

	if (!t || t->dtype != DT_F32 || t->bytes > MAX_CONSTANT || v->type->layout)
		return NULL;
	to = tensor_new(g->arena, DT_F32, t->rank, t->dims);
	for (int64_t i = 0, n = tensor_numel(t); i < n; i++) {
		const float s = ((const float *)t->data)[i], r = 1 / s;

		if (!isnormal(s) || !isnormal(r))
			return NULL;
		((float *)(uintptr_t)to->data)[i] = r;
	}
	return graph_const(g, to, before);
}

bool requantise(Node *n)
{
	Kernel *k = node_kernel(n);
	Stmt *s = k->stmts.n == 1 ? k->stmts.at[0] : NULL;
	Expr *e = s ? s->val[0] : NULL, *by;
	int visits = MOST_VISITS;
	Value *v;
	Buf *b;

	if (!s || !stmt_is_map(s) || !ex_is_op(e, IN_div) || e->ct != CT_F32 || n->nout != 1 ||
	    n->nin >= MAX_PARAMS)
		return false;
	by = e->op.arg[1];
	if (by->kind != EX_LOAD || by->load.buf->kind != BUF_IN || !is_rounded(n->out[0]) ||
	    !stems_from_bytes(n, &visits))
		return false;
	v = reciprocals(n->graph, node_in(n, by->load.buf->param), n);
	if (!v)
		return false;
	b = node_add_operand(n, "reciprocal", v);
	s->val[0] = ex_op2(k->pool, IN_mul, e->op.arg[0],
			   ex_load(k->pool, b, by->load.idx, by->load.nidx));
	node_drop_unused_inputs(n);
	return true;
}
