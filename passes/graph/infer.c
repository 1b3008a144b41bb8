/* SPDX-License-Identifier: Apache-2.0 */
/* infer: types for every value, composite ops replaced by what they are made of. It may run again at any
 * time; what was known of contents is then found anew. */
#include "passes/module.h"

bool pass_infer(Module *m)
{
	m->infer = infer_new(m->graph);
	return infer_graph_run(m->infer);
}
