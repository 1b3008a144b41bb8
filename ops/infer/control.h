/* SPDX-License-Identifier: Apache-2.0 */
/* Building blocks of control flow operators: bodies, brackets, and loops that `expand` builds. */
#ifndef OPS_INFER_CONTROL_H
#define OPS_INFER_CONTROL_H

#include "ops/infer/infer.h"

/* The number of N's operands, without the last ones, which its bodies capture. */
int control_operands(const Node *n);
/* The body that attribute NAME holds; *FROM is the first operand that it captures. Null after a
 * diagnostic. */
Graph *control_body(Infer *in, Node *n, const char *name, int *from);
/* Copies FROM, a node of another graph, before BEFORE. MAP, by Value.id, has the replacements of
 * the values of FROM's graph. */
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
 * nodes up to STOP that depend on the results; or, if other nodes must be inferred first, moves N
 * after them. *NEXT is the node to infer next. False after a diagnostic, or if this does not help:
 * IN->unmerged has the reason. */
bool control_both(Infer *in, Node *n, Node *stop, Node **next);
/* Removes the nodes from OPEN up to the node before N, with symbols from number SYMS and facts
 * from number FACTS on. */
void control_undo(Infer *in, Node *n, Node *open, int syms, int facts);
/* Requires that V, which a message calls WHAT, is a tensor of type T with one element (DT_NONE:
 * of integers). */
bool control_single(Infer *in, Node *n, const Value *v, DType t, const char *what);
/* A size that element AT of SIZES, a vector of integers, is. */
Dim *control_size(Infer *in, Value *sizes, int at);

/*
 * Builds a loop, for `expand`, before node N:
 *
 *     LoopBuild b = loop_open(in, n, trip, init, ninit);   b.carried[k]: INIT[k] in an iteration
 *     ... nodes that compute NEXT[k], and what each iteration gives ...
 *     loop_close(&b, next, each, neach, reverse, count, last, all);
 *
 * TRIP is the number of iterations, at least 0, or null if a While ends the loop. B.iteration is
 * the number of the current iteration. A carried value has the same type in all iterations.
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
/* A loop of 0 iterations returns its initial values, and empty stacks. Its body, in which an index
 * may be out of every range, loses its readers. */
void loop_skip(const LoopBuild *b, int neach, Value **last, Value **all);

#endif
