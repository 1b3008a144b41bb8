/* SPDX-License-Identifier: Apache-2.0 */
/* infer: computes types for all values, and replaces composite operators by their expansion. It may
 * run again at any time, and then recomputes the known elements. The first time, when the nodes are
 * still the model's own operators, it also records how exactly the results are determined, for
 * comparisons with another implementation (dlrun --data). */
#include "passes/module.h"

/* Whether a model rounds to f16 or bf16 at run time. Values that depend only on constants are
 * exact: casting an f16 weight to f32 rounds nothing. */
static void note_halves(Module *m)
{
	const Graph *g = m->graph;
	bool *runs = NEW_ARRAY(m->arena, g->nvalues + 1,
			       bool); /* by Value.id: depends on an input */

	for (int i = 0; i < g->inputs.n; i++)
		runs[g->inputs.at[i]->id] = true;
	for (const Node *n = g->first; n; n = n->next) {
		bool any = false;

		for (int i = 0; i < n->nin; i++)
			any = any || (n->in[i].value && runs[n->in[i].value->id]);
		for (int i = 0; any && i < n->nout; i++) {
			const Value *v = n->out[i];

			if (!v)
				continue;
			runs[v->id] = true;
			m->f16 = m->f16 || (v->type && v->type->dtype == DT_F16);
			m->bf16 = m->bf16 || (v->type && v->type->dtype == DT_BF16);
		}
	}
}

/* The name of the result of G that corresponds to result 0 of the node OF; or null. */
static const char *values_of(const Graph *g, const Node *of)
{
	for (int i = 0; i < g->results.n; i++) {
		const Accuracy a = value_accuracy(g->results.at[i]->value, 0);

		if (a.unordered == of && !a.part)
			return g->result_names.at[i];
	}
	return NULL;
}

static void note_accuracy(Graph *g)
{
	for (int i = 0; i < g->results.n; i++) {
		const Accuracy a = value_accuracy(g->results.at[i]->value, 0);
		const char *name = g->result_names.at[i],
			   *by = a.unordered && a.part ? values_of(g, a.unordered) : NULL;

		if (name && *name && (a.step > 0 || a.unit > 0 || a.unordered))
			vec_push(g->arena, &g->accuracy,
				 ((ResultAccuracy){name, a.step, a.unit, a.unordered != NULL,
						   a.unordered ? a.axis : 0, by}));
	}
}

bool pass_infer(Module *m)
{
	if (!m->infer && !m->graph->accuracy.n) /* else the text says it */
		note_accuracy(m->graph);
	m->infer = infer_new(m->graph);
	if (!infer_graph_run(m->infer))
		return false;
	note_halves(m);
	return true;
}
