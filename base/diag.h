/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Diagnostics: messages for the user about errors in the input.
 *
 *     model.onnx: error: node "/fc/MatMul" (MatMul): inner dimensions differ: dim 1 of input "x" is 64, dim 0 of "w" is 32
 *       note: left operand %12: f32[N,64] from "/pool/Flatten"
 *
 * Each fault is reported once, and a run reports several faults. Bad input gives a diagnostic and a
 * `false` return; a bug is an assert. Nothing here exits.
 */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H

#include "base/arena.h"

#include <stdbool.h>
#include <stdio.h>

/* The location of a fault: the file, the node's name and its operator; each may be null. */
typedef struct DiagLoc {
	const char *file, *node, *op;
	int line, column; /* of a text IR file, from 1; 0: none */
} DiagLoc;

typedef enum DiagLevel { DIAG_SILENT, DIAG_WARNING, DIAG_ERROR } DiagLevel;

/* Whether the warning called NAME is silent, a warning or an error. */
typedef struct DiagRule {
	const char *name;
	DiagLevel level;
} DiagRule;

typedef struct Diag {
	FILE *out;        /* null: messages are not printed, only counted (fuzzing, tests) */
	const char *file; /* the input; used if a DiagLoc has no file */
	/* the current node, for faults in code that knows no nodes, such as sizes; set by infer,
	 * lower, sched */
	DiagLoc where;
	bool colour;
	bool json; /* each message is an object on a line of its own: kind, file, line, node, op, text, message */
	int errors, warnings;
	int limit; /* errors that are printed at most; 0: 20 */
	/* ends with a null name; null: there are none, and each is what its function says */
	const DiagRule *rules;
	/* If set, gets every error, and errors are not printed. */
	void (*sink)(void *arg, DiagLoc loc, const char *text);
	void *sink_arg;
} Diag;

/* Reports an error. Always returns false, for `return diag_error(...)`. FMT has no newline. */
bool diag_error(Diag *d, DiagLoc loc, const char *fmt, ...) BASE_PRINTF(3, 4);
/* Reports a warning. NAME is its name in options, as in -Wfallback, which may turn it into an
 * error or off. Returns false if it is an error. */
bool diag_warning(Diag *d, DiagLoc loc, const char *name, const char *fmt, ...) BASE_PRINTF(4, 5);
/* Reports an error that -Wno-error=NAME turns into a warning. Returns true if it is one: the caller
 * then goes on without what is wrong. */
bool diag_named_error(Diag *d, DiagLoc loc, const char *name, const char *fmt, ...)
	BASE_PRINTF(4, 5);
/* Reports how many errors past the limit were not printed, if there are any. */
void diag_end(Diag *d);
/* Prints a line below the last diagnostic. */
void diag_note(Diag *d, const char *fmt, ...) BASE_PRINTF(2, 3);

#endif
