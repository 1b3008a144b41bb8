/* SPDX-License-Identifier: Apache-2.0 */
/* dlcc --explain: prints, for each kernel, its fused nodes, how it is computed and why, a lower
 * bound on its time, and its measured time. */
#ifndef TOOLS_DLCC_EXPLAIN_H
#define TOOLS_DLCC_EXPLAIN_H

#include "passes/module.h"
#include "tools/dlcc/options.h"

/* Prints the kernels of M, after all passes, and those of GPU, unless it is null or M. False after
 * a diagnostic: the trace that C names cannot be read, or belongs to another model. */
bool explain(Cli *c, const Module *m, const Module *gpu);

/* ---- trace.c ---- */

/* A kernel in a trace of dlrun --profile=FILE: sums of all of its runs. */
typedef struct Traced {
	const char *name;
	double runs, ns, flops, bytes;
} Traced;

typedef struct Trace {
	VEC(Traced) kernels;
} Trace;

/* Reads otherData.kernels of the trace PATH; other parts of the file only have to be JSON. False
 * after a diagnostic. */
bool trace_read(Arena *a, Diag *d, const char *path, Trace *t);
/* NAME as a trace gives it: JSON has no bytes that are not text. */
const char *trace_name(Arena *a, const char *name);

#endif
