/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/product_apart.h"

#include "passes/forms/contraction.h"
#include "passes/forms/product.h"

/* The statement of K from which on it is a product that tiles can compute and its epilogue, after
 * maps that would be computed at every point of the product; 0: there is none. */
static int product_after_maps(Kernel *k)
{
	int at = 1;
	Contraction c;

	while (at < k->stmts.n && !stmt_contraction(k, k->stmts.at[at], &c))
		at++;
	if (at >= k->stmts.n || !c.nm || stmts_kind(k, 0, at - 1) != FORM_MAP ||
	    stmts_kind(k, at, k->stmts.n - 1) != FORM_CONTRACTION || !product_pays(k, &c, true, false))
		return 0;
	return at;
}

/* Whether statements from AT on read B. */
static bool later_ones_read(const Kernel *k, int at, const Buf *b)
{
	for (int i = at; i < k->stmts.n; i++)
		if (stmt_reads(k->stmts.at[i], b))
			return true;
	return false;
}

/* The only buffer that statements before AT write and later ones read; null: there is none, or
 * there are several, or the earlier part writes a result. */
static Buf *passed_on(const Kernel *k, int at)
{
	Buf *passed = NULL;

	for (int i = 0; i < at; i++) {
		Buf *out = k->stmts.at[i]->out[0];

		if (out->kind != BUF_TEMP)
			return NULL;
		if (out == passed || !later_ones_read(k, at, out))
			continue;
		if (passed)
			return NULL;
		passed = out;
	}
	return passed;
}

/* A copy of K in A with the statements of one part. B, by its id, becomes operand or result
 * PARAM. */
static Kernel *part_of(Kernel *k, Arena *a, int at, bool later, const Buf *b, int param)
{
	Kernel *part = kernel_clone(k, a);
	Buf *copy = part->bufs.at[b->id];

	for (int i = k->stmts.n; i-- > 0;)
		if ((i >= at) != later)
			kernel_remove_stmt(part, i);
	copy->kind = later ? BUF_IN : BUF_OUT;
	copy->param = param;
	return part;
}

Node *product_apart(Module *m, Node *n)
{
	Kernel *k = node_kernel(n);
	const int at = k->stmts.n > 1 && n->nin < MAX_PARAMS ? product_after_maps(k) : 0;
	Buf *passed;
	FusedKernel *maps, *rest;
	Node *first, *second;

	passed = at ? passed_on(k, at) : NULL;
	if (!passed)
		return NULL;
	maps = fused_own(m->arena, n);
	rest = fused_own(m->arena, n);
	maps->k = part_of(k, m->arena, at, false, passed, 0);
	maps->nout = 1;
	fused_drop_unused(maps);
	first = node_new(m->graph, OP_Kernel, maps->in, maps->nin, 1, n);
	node_locs_from(first, n);
	first->out[0]->type = type_tensor(m->ctx, passed->dtype, passed->rank, passed->dims);
	kernel_node_set(first, maps->k);
	rest->in[rest->nin] = first->out[0];
	rest->k = part_of(k, m->arena, at, true, passed, rest->nin++);
	fused_drop_unused(rest);
	second = node_new(m->graph, OP_Kernel, rest->in, rest->nin, n->nout, n);
	node_locs_from(second, n);
	for (int i = 0; i < n->nout; i++) {
		second->out[i]->type = n->out[i]->type;
		second->out[i]->name = n->out[i]->name;
		second->out[i]->place = n->out[i]->place;
		value_move(n->out[i], second->out[i]);
	}
	kernel_node_set(second, rest->k);
	node_remove(n);
	return second;
}
