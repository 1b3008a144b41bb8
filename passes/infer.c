/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/module.h"

bool pass_infer(Module *m)
{
	m->infer = infer_new(m->graph);
	return infer_graph_run(m->infer);
}
