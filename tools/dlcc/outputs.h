/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refuses outputs that would overwrite the model, its external data, or another output; and names
 * the files that an output follows from.
 */
#ifndef TOOLS_DLCC_OUTPUTS_H
#define TOOLS_DLCC_OUTPUTS_H

#include "frontend/model.h"
#include "ir/graph/graph.h"
#include "tools/dlcc/options.h"

/* False after a diagnostic: an output is a file that was read, or another output. G came from
 * FILE or, where that is null, from a text. */
bool outputs_spare(Cli *c, Arena *a, const OnnxFile *file, const Graph *g);
/* The text of --depfile: a rule of make by which the output depends on the model, its external
 * data, and the files of options. Null after a diagnostic. Call it before passes replace G's
 * constants. */
const char *outputs_depend(Cli *c, Arena *a, const OnnxFile *file, const Graph *g);

#endif
