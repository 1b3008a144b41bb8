/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place: what of a model for GPUs does not run there. All kernels do; inputs and outputs that the caller keeps in
 * host memory are copied at the ends. What remains is a size that depends on data: the run waits for the tensor that
 * tells it. Each such wait is told of, under the name of the node (-Wfallback).
 */
#include "passes/module.h"

bool pass_place(Module *m)
{
	bool ok = true;

	if (!module_on_gpu(m))
		return true;
	for (Node *n = m->graph->first; n; n = n->next) {
		bool read = false;

		for (int i = 0; i < sym_count(m->ctx); i++)
			read = read ||
			       (sym_at(m->ctx, i)->src && sym_at(m->ctx, i)->src->def == n &&
				sym_at(m->ctx, i)->src->uses);
		if (read)
			ok = diag_warning(
				     m->ctx->diag, node_diag(n), "fallback",
				     "the GPU's run waits for this result, since sizes depend on it") &&
			     ok;
	}
	return ok;
}
