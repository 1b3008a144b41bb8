/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machines that dlcc generates code for. A target is one row of the table in targets.c. A CPU
 * is described by its compiler flag, features, vector width, number of vector registers and caches;
 * a GPU by the properties that schedules need. A CPU with another vector width is a new row, as
 * long as its features are among those that the runtime detects; vectors of up to 128 bytes are
 * supported. A new feature is also a bit in runtime/dlrt.h, which runtime/cpu.c detects, and
 * machine_features in targets.c.
 */
#ifndef CODEGEN_TARGETS_H
#define CODEGEN_TARGETS_H

#include "passes/module.h"

/* The row named NAME; null if there is none. "native": the best CPU row that this machine can
 * run. */
const Target *target_by_name(const char *name);
/* All rows, CPUs before GPUs, best first; ends with a null name. */
extern const Target target_table[];
/*
 * The next target of *LIST, the argument of --target=: names with commas between them,
 * cpu:v4,cuda:sm_80,sm_90a. A prefix cpu: or cuda: holds until the next one; *CUDA remembers it.
 * Null at the end of the list, or for an unknown name, which ERROR then describes.
 */
const Target *target_next(const char **list, bool *cuda, StrBuf *error);
bool target_is_x86(const Target *t);
/* The features of an x86-64 CPU that its code does not need where -DDL_PORTABLE_DOT has bytes
 * and bf16 multiplied by plain C. (On Arm, -march has them for all of the code.) */
uint64_t target_dot_features(const Target *t);
/* Appends the names of all CPUs, or of all GPUs, with commas between them. */
void target_names(StrBuf *b, bool gpu);

#endif
