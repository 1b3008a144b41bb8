/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dlcc --check: prints a line for each node of an ONNX model that says whether it is supported, and
 * how: its kernel and strategy, or the reason why not. Everything is found by compiling: faults are
 * collected through Diag's sink, and names of nodes are followed into the kernels.
 */
#ifndef TOOLS_DLCC_CHECK_H
#define TOOLS_DLCC_CHECK_H

#include "frontend/import.h"
#include "passes/module.h"

typedef struct Refusal {
	const char *node, *op, *text; /* NODE may be null; OP: "" if there is no node */
} Refusal;

typedef struct Refusals {
	Arena *arena;
	VEC(Refusal) all;
} Refusals;

/* A Diag.sink, its argument a Refusals. */
void check_sink(void *arg, DiagLoc loc, const char *text);
/* Prints the report on F, or, for JSON, an object on each line. M: after all passes, or after the
 * one that failed (PLANNED false). True where every node is supported and nothing else was
 * refused. */
bool check_report(const OnnxFile *f, Module *m, bool planned, const Refusals *r, bool json);

#endif
