/* SPDX-License-Identifier: Apache-2.0 */
/* What operators of control flow are made of: bodies, brackets, and loops that `expand` builds. */
#ifndef OPS_CONTROL_H
#define OPS_CONTROL_H

#include "ops/infer.h"

/* The number of N's operands, without those that its bodies capture, which are the last. */
int control_operands(const Node *n);
/* The body that attribute NAME holds; *FROM is the first operand that it captures. Null after a diagnostic. */
Graph *control_body(Infer *in, Node *n, const char *name, int *from);
/* Puts the nodes of BODY before AT. ARGS stand for its inputs; RESULTS gets the values that stand for its
 * results. False after a diagnostic. */
bool control_put_body(Infer *in, Node *at, const Graph *body, Value *const *args, Value **results);
/* Makes a bracket before N. */
Node *control_bracket(Infer *in, Node *n, OpKind op, Value *const *args, int nin, int nout);

/*
 * Builds a loop, for `expand`, before node N:
 *
 *     LoopBuild b = loop_open(in, n, trip, init, ninit);   b.carried[k] is the value of INIT[k] in a turn
 *     ... nodes that compute NEXT[k], and what each turn gives ...
 *     loop_close(&b, next, each, neach, reverse, last, all);
 *
 * TRIP is the number of turns, not below 0, or null where a While ends the loop. B.turn is the number of
 * the current turn. A value that is carried keeps its type from turn to turn.
 */
typedef struct LoopBuild {
	Infer *in;
	Node *n, *open;
	Dim *trip, *turn;
	Value **carried;
	int ncarried;
	Dim *outer; /* Infer.turn outside of the loop */
} LoopBuild;

LoopBuild loop_open(Infer *in, Node *n, Dim *trip, Value *const *init, int ninit);
/* LAST gets the carried values after the last turn, ALL the stacked ones, whose first axis has COUNT
 * elements. REVERSE may be null. */
void loop_close(LoopBuild *b, Value *const *next, Value *const *each, int neach, const int64_t *reverse,
		Dim *count, Value **last, Value **all);

#endif
