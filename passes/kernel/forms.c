/* SPDX-License-Identifier: Apache-2.0 */
/*
 * forms: finds the form of every kernel (passes/forms/form.h), which layouts, schedules and
 * --explain read.
 */
#include "passes/forms/form.h"

bool pass_forms(Module *m)
{
	for (Node *n = m->graph->first; n; n = n->next)
		if (node_kernel(n))
			module_form(m, n);
	return true;
}
