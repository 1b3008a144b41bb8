/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Diagnostics: what a user reads when something is wrong.
 *
 *     model.onnx: error: node "/fc/MatMul" (MatMul): inner dimensions differ: dim 1 of input "x" is 64, dim 0 of "w" is 32
 *       note: left operand %12: f32[N,64] from "/pool/Flatten"
 *
 * One diagnostic a fault, several faults a run. Bad input is a diagnostic and a `false` return;
 * a bug is an assert. Nothing here exits.
 */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdio.h>

/* Where a fault is: the file, and the node's name and op where there is one (each may be null). */
typedef struct DiagLoc {
	const char *file, *node, *op;
	int line; /* of a text IR file; 0: none */
} DiagLoc;

typedef struct Diag {
	FILE *out;        /* null: nothing is printed, only counted (fuzzing, tests) */
	const char *file; /* the input; used where a DiagLoc names none */
	DiagLoc where;    /* what is worked on: for faults of what knows no nodes, as sizes; kept by infer, lower, sched */
	bool colour;
	int errors, warnings;
	int limit; /* errors printed at most, 0: 20 */
	const char *werror[16], *wno[16]; /* -Werror=NAME, -Wno-NAME; "all": every one; a name beats "all" */
	/* Where set, gets every error, and errors are not printed. */
	void (*sink)(void *arg, DiagLoc loc, const char *text);
	void *sink_arg;
} Diag;

/* Always returns false, so that `return diag_error(...)` reads well. FMT has no newline. */
bool diag_error(Diag *d, DiagLoc loc, const char *fmt, ...) BASE_PRINTF(3, 4);
/* NAME is the warning's option name, as in -Wfallback; may be promoted or silenced by it.
 * Returns false where it was promoted to an error. */
bool diag_warning(Diag *d, DiagLoc loc, const char *name, const char *fmt, ...) BASE_PRINTF(4, 5);
/* Says how many errors were past the limit and not printed, where there are any. */
void diag_end(Diag *d);
/* A line under the diagnostic before it. */
void diag_note(Diag *d, const char *fmt, ...) BASE_PRINTF(2, 3);

#endif
