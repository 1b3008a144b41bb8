/* SPDX-License-Identifier: Apache-2.0 */
/* infer: computes types for all values, and replaces composite operators by their expansion. It
 * may run again at any time; the contents that it knew are then computed anew. */
#include "passes/module.h"

bool pass_infer(Module *m)
{
	m->infer = infer_new(m->graph);
	return infer_graph_run(m->infer);
}
