/* SPDX-License-Identifier: Apache-2.0 */
/*
 * caches (--caches): stores the caches of a language model as f16 or bf16. A cache is an input of f32 and a result that is this
 * input with something appended,
 *
 *     present = Concat(past, new)
 *
 * Both get the narrow type, which is thus that of the model's input and output:
 *
 *     present = Concat(past, Cast(new))
 *
 * and what reads them reads Cast(present), or Cast(past), instead. Only new elements are rounded, once. The result may still be in place of the
 * input (passes/layout/alias.c), since the elements of `past` are not converted.
 *
 * It runs after `infer`, which makes such nodes of attention with a cache, and before `canon`, so that those of the Casts that
 * cancel each other do.
 */
#include "passes/module.h"

static Value *cast(Graph *g, Value *v, DType t, Node *before)
{
	Node *n = node_new(g, OP_Cast, &v, 1, 1, before);

	node_set_int(n, "to", dtype_info[t].onnx);
	n->out[0]->type = type_tensor(g->ctx, t, v->type->rank, v->type->dims);
	return n->out[0];
}

/* Whether V is a tensor that callers give, of f32, and without a default. */
static bool is_input(const Value *v)
{
	return v && !v->def && !v->preset && v->type->dtype == DT_F32 && v->type->rank > 0;
}

/* The operand of N, the node of a result, that is the cache's input; -1: N appends to none. */
static int appended_to(const Graph *g, const Node *n)
{
	if (!n || n->op != OP_Concat || n->graph != g)
		return -1;
	for (int i = 0; i < n->nin; i++)
		if (is_input(node_in(n, i)))
			return i;
	return -1;
}

static bool is_read(const Value *v, const Node *by)
{
	for (const Use *u = v->uses; u; u = u->next)
		if (u->user && u->user != by)
			return true;
	return false;
}

/* V becomes of type T. Nodes that read it, except for N, read its values as f32, from a Cast before BEFORE. Where V is a result
 * of the graph, that is narrow. */
static void make_narrow(Graph *g, Value *v, DType t, const Node *n, Node *before)
{
	Value *wide = is_read(v, n) ? cast(g, v, DT_F32, before) : NULL;

	for (Use *u = v->uses, *next; u; u = next) {
		next = u->next;
		if (u->user && u->user != n && u->user != wide->def)
			node_set_input(u->user, u->slot, wide);
	}
	v->type = type_tensor(g->ctx, t, v->type->rank, v->type->dims);
}

/* Stores the cache that N appends to its operand number K as T. */
static void narrow_cache(Node *n, int k, DType t)
{
	Graph *g = n->graph;

	for (int i = 0; i < n->nin; i++)
		if (i != k)
			node_set_input(n, i, cast(g, node_in(n, i), t, n));
	make_narrow(g, node_in(n, k), t, n, g->first);
	make_narrow(g, n->out[0], t, n, n->next);
}

bool pass_caches(Module *m)
{
	Graph *g = m->graph;
	int caches = 0;

	if (!m->opt.caches)
		return true;
	for (int i = 0; i < g->results.n; i++) {
		const Value *v = g->results.at[i]->value;
		const int k = appended_to(g, v->def);

		if (k < 0)
			continue;
		narrow_cache(v->def, k, m->opt.caches);
		caches++;
	}
	if (!caches)
		return diag_error(
			m->ctx->diag, (DiagLoc){0},
			"--caches: the model has no result that is an input of f32 with something appended");
	if (m->report)
		fprintf(m->report, "; caches: %d, as inputs and outputs, are %s now\n", caches,
			dtype_info[m->opt.caches].name);
	return true;
}
