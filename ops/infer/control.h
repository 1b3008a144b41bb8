/* SPDX-License-Identifier: Apache-2.0 */
/* What operators of control flow are made of: bodies, brackets, and loops that `expand` builds. */
#ifndef OPS_INFER_CONTROL_H
#define OPS_INFER_CONTROL_H

#include "ops/infer/infer.h"

/* The number of N's operands, without those that its bodies capture, which are the last. */
int control_operands(const Node *n);
/* The body that attribute NAME holds; *FROM is the first operand that it captures. Null after a
 * diagnostic. */
Graph *control_body(Infer *in, Node *n, const char *name, int *from);
/* A copy of FROM, which is of another graph, before BEFORE. MAP, by Value.id, has the values
 * that stand for those of FROM's graph. */
Node *control_copy_node(Infer *in, const Node *from, Node *before, Value *const *map);
/* The inputs of BODY, one of N's, that are not captured; they come first. */
int control_own_inputs(const Node *n, const Graph *body);
/* Puts the nodes of BODY before AT. ARGS stand for its inputs; RESULTS gets the values that
 * stand for its results. False after a diagnostic. */
bool control_put_body(Infer *in, Node *at, const Graph *body, Value *const *args, Value **results);
/* If N is an If whose condition is known, puts the nodes of the side that runs in its place, not
 * inferred yet; *NEXT is the first node to infer then. False if it is not; also true after a
 * diagnostic. */
bool control_known(Infer *in, Node *n, Node **next);
/* The sides of the If N give results of different ranks. Puts both sides before STOP, with the
 * nodes up to STOP that follow from the results; or, if other nodes are to be inferred first,
 * moves N behind them. *NEXT is the node to infer next. False after a diagnostic, or if that
 * does not help: IN->unmerged says why. */
bool control_both(Infer *in, Node *n, Node *stop, Node **next);
/* Removes the nodes from OPEN up to the node before N, with symbols from number SYMS and facts
 * from number FACTS on. */
void control_undo(Infer *in, Node *n, Node *open, int syms, int facts);
/* Requires that V, which a message calls WHAT, is a tensor of type T with one element (DT_NONE:
 * of integers). */
bool control_single(Infer *in, Node *n, const Value *v, DType t, const char *what);
/* A size that element AT of SIZES, a vector of integers, is. */
Dim *control_size(Infer *in, Value *sizes, int at);
/* Makes a bracket before N. */
Node *control_bracket(Infer *in, Node *n, OpKind op, Value *const *args, int nin, int nout);

/*
 * Builds a loop, for `expand`, before node N:
 *
 *     LoopBuild b = loop_open(in, n, trip, init, ninit);   b.carried[k]: INIT[k] in an iteration
 *     ... nodes that compute NEXT[k], and what each iteration gives ...
 *     loop_close(&b, next, each, neach, reverse, count, last, all);
 *
 * TRIP is the number of iterations, not below 0, or null where a While ends the loop. B.iteration
 * is the number of the current iteration. A value that is carried keeps its type from iteration to
 * iteration.
 */
typedef struct LoopBuild {
	Infer *in;
	Node *n, *open;
	Dim *trip, *iteration;
	Value **carried;
	int ncarried;
	Dim *outer; /* Infer.iteration outside of the loop */
} LoopBuild;

LoopBuild loop_open(Infer *in, Node *n, Dim *trip, Value *const *init, int ninit);
/* Ends the loop that has just been opened once GO, one element that is computed in it before
 * anything else, is 0. */
void loop_while(LoopBuild *b, Value *go);
/* LAST gets the carried values after the last iteration, ALL the stacked ones, whose first axis has
 * COUNT elements. REVERSE may be null. It is loop_end and loop_skip. */
void loop_close(LoopBuild *b, Value *const *next, Value *const *each, int neach, const int64_t *reverse,
		Dim *count, Value **last, Value **all);
void loop_end(LoopBuild *b, Value *const *next, Value *const *each, int neach, const int64_t *reverse,
	      Dim *count, Value **last, Value **all);
/* A loop of 0 iterations gives what it began with, and empty stacks. Its body, in which an index may
 * be out of every range, is left without readers. */
void loop_skip(const LoopBuild *b, int neach, Value **last, Value **all);

#endif
