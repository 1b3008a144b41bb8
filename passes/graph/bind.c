/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces symbols whose bounds allow only one value by that value in the types of a graph's
 * inputs. Inference propagates it. */
#include "passes/module.h"

void graph_bind_dims(Graph *g)
{
	Ctx *c = g->ctx;
	int n = sym_count(c);
	Dim **to = NEW_ARRAY(g->arena, n + 1, Dim *);

	for (int i = 0; i < n; i++)
		if (sym_at(c, i)->lo == sym_at(c, i)->hi)
			to[i] = dim_const(c, sym_at(c, i)->lo);
	for (int i = 0; i < g->inputs.n; i++) {
		const Type *t = g->inputs.at[i]->type;
		Dim *dims[MAX_RANK];

		if (t->kind != TYPE_TENSOR)
			continue;
		for (int d = 0; d < t->rank; d++)
			dims[d] = dim_subst(c, t->dims[d], to, n);
		g->inputs.at[i]->type = type_tensor(c, t->dtype, t->rank, dims);
	}
}
