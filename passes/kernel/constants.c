/* SPDX-License-Identifier: Apache-2.0 */
/*
 * constants: stores constants in the narrowest type that holds their values, for GPUs. Composite
 * operators compute in f32, so folding leaves their constants, such as a norm's scale and shift, in
 * f32, twice as large as in the model. If a constant's elements are exact in f16 and the kernel
 * also reads f16, it is stored as f16. A load converts it at no cost, and vectorised accesses to
 * both have the same width.
 */
#include "passes/forms/form.h"
#include "passes/forms/kernels.h"
#include "passes/module.h"

#include <string.h>

enum { MAX_CONSTANT = 1 << 20 /* size limit: no larger constant is examined */ };

static bool exact(DType half, const Tensor *t)
{
	const float *v = t->data;

	for (int64_t i = 0, n = tensor_numel(t); i < n; i++) {
		const float w = dtype_round_f32(half, v[i], false);

		if (memcmp(&v[i], &w, sizeof w))
			return false;
	}
	return true;
}

/* Whether the kernel of U also reads HALF, and only maps read U's operand; schedules choose the
 * types in products and reductions. */
static bool beside(DType half, const Use *u)
{
	Kernel *k = u->user ? node_kernel(u->user) : NULL;
	bool halves = false;

	if (!k || node_on_host(u->user))
		return false;
	VEC_EACH (b, &k->bufs) {
		halves = halves || (b->kind != BUF_TEMP && b->dtype == half);
		for (int j = 0; j < k->stmts.n; j++)
			if (b->kind == BUF_IN && b->param == u->slot &&
			    k->stmts.at[j]->red != MONOID_NONE && stmt_reads(k->stmts.at[j], b))
				return false;
	}
	return halves;
}

static bool all_beside(DType half, const Value *v)
{
	for (const Use *u = v->uses; u; u = u->next)
		if (!beside(half, u))
			return false;
	return true;
}

static void keep_as(DType half, Graph *g, Value *v)
{
	const Tensor *t = value_const(v);
	Tensor *to = tensor_new(g->arena, half, t->rank, t->dims);
	Value *w;

	for (int64_t i = 0, n = tensor_numel(t); i < n; i++)
		dtype_store_f64(half, (void *)(uintptr_t)to->data, i,
				dtype_load_f64(t->dtype, t->data, i));
	w = graph_const(g, to, v->def);
	w->name = v->name;
	w->place = v->place;
	node_locs_from(w->def, v->def);
	for (const Use *u = v->uses; u; u = u->next) {
		Kernel *k = node_kernel(u->user);

		for (int i = 0; i < k->bufs.n; i++)
			if (k->bufs.at[i]->kind == BUF_IN && k->bufs.at[i]->param == u->slot)
				k->bufs.at[i]->dtype = half;
	}
	value_replace(v, w);
}

bool pass_constants(Module *m)
{
	static const DType halves[] = {DT_F16, DT_BF16};
	bool any = false;

	if (m->opt.level == 0)
		return true;
	for (Node *n = m->graph->first; n; n = n->next) {
		Value *v = n->op == OP_Const ? n->out[0] : NULL;
		const Tensor *t = v ? value_const(v) : NULL;

		if (!t || t->dtype != DT_F32 || t->rank == 0 || t->bytes > MAX_CONSTANT)
			continue;
		for (int i = 0; i < 2; i++)
			if (all_beside(halves[i], v) && exact(halves[i], t)) {
				keep_as(halves[i], m->graph, v);
				any = true;
				break;
			}
	}
	if (any) {
		forms_changed(m);
		dce_graph(m);
	}
	return true;
}
