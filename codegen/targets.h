/* SPDX-License-Identifier: Apache-2.0 */
/* What code can be made for: a target is one row of targets.c. */
#ifndef CODEGEN_TARGETS_H
#define CODEGEN_TARGETS_H

#include "passes/module.h"

/* The row of this name; null where there is none. "native": the best CPU row that this machine can run. */
const Target *target_by_name(const char *name);
/* All rows, CPUs before GPUs, best first; ends with a null name. */
extern const Target target_table[];
/* Appends the names of all CPUs, or of all GPUs, with commas between them. */
void target_names(StrBuf *b, bool gpu);

#endif
