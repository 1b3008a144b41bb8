/* SPDX-License-Identifier: Apache-2.0 */
/* accuracy: notes for each result of the graph how exactly it is determined, for whoever compares it
 * with another implementation's (dlrun --data). */
#include "passes/module.h"

#include <string.h>

/* The name of the result of G that has result 0 of the node OF, in the same order; or null. */
static const char *values_of(const Graph *g, const Node *of)
{
	for (int i = 0; i < g->results.n; i++) {
		const Accuracy a = value_accuracy(g->results.at[i]->value, 0);

		if (a.unordered == of && !a.part)
			return g->result_names.at[i];
	}
	return NULL;
}

bool pass_accuracy(Module *m)
{
	Graph *g = m->graph;

	for (int i = 0; i < g->results.n; i++) {
		const Accuracy a = value_accuracy(g->results.at[i]->value, 0);
		const char *name = g->result_names.at[i];

		if (!name || !*name || (!(a.step > 0) && !(a.unit > 0) && !a.unordered))
			continue;
		vec_push(g->arena, &g->accuracy,
			 ((ResultAccuracy){
				 name, a, a.unordered && a.part ? values_of(g, a.unordered) : NULL}));
	}
	return true;
}
