/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control flow. A graph is one list of nodes; brackets in the list control which nodes are
 * executed. After inference no node has regions: If, Loop and Scan have become brackets around the
 * nodes of their bodies.
 *
 *     When {value = i64[C]}                  the nodes up to Else run if the size C is not 0,
 *       ...
 *     Else                                   those after it if C is 0
 *       ...
 *     %y = EndWhen(%then, %else)             the values of the side that ran: first those of the
 *                                            first side, then as many of the second
 *
 *     %h = For(%init) {trip = i64[K]}        the nodes up to EndFor run K times; without `trip`, until
 *                                            a While ends the loop
 *       %i = Iteration()                     which time it is, from 0 on; only symbols are read from it
 *       While {value = i64[C]}               ends the loop before this iteration if C is 0
 *       ...
 *     %last, %all = EndFor(%next, %each) {carried = 1}
 *
 * For and EndFor carry values from iteration to iteration: %h is %init in the first one, then %next
 * of the one before, and %last is the value that the next iteration would have had. The values
 * %each of all iterations are stacked along a new first axis of %all; `reverse` lists, for each
 * stacked result, whether the first iteration's value is last.
 *
 * A block is a list of nodes that run together: a side of a When, or the body of a For. A node may
 * use the values of its own block and of the blocks around it. Since sizes steer the brackets, the
 * host knows where control goes before it launches a kernel.
 */
#ifndef IR_GRAPH_BLOCKS_H
#define IR_GRAPH_BLOCKS_H

#include "ir/graph/graph.h"

typedef struct Block {
	Node *open, *close; /* the brackets around its nodes: When and Else, Else and EndWhen, or For and
			     * EndFor; both null for the whole graph */
	int outer;          /* the block that the brackets are in */
} Block;

typedef struct Blocks {
	VEC(Block) at; /* the first is the whole graph */
	int *of;       /* by Node.id: the block of the node; a bracket is in the block around it */
	int *opens, *closes; /* by Node.id: the blocks that the bracket opens and closes; 0: none */
} Blocks;

/* The blocks of G. Its brackets must match (graph_verify checks that). */
Blocks blocks_of(const Graph *g, Arena *a);
/* Whether block INNER is OUTER or inside of it. */
bool block_within(const Blocks *b, int inner, int outer);
/* The block in which V is computed; 0 for an input of the graph. */
int block_of_value(const Blocks *b, const Value *v);
static inline bool block_is_loop(const Block *b) { return b->open && b->open->op == OP_For; }
/* The block in which operand K of N must be available: N's own block, or, if N is a bracket that
 * closes blocks, the block that computes the value. */
int block_of_operand(const Blocks *b, const Node *n, int k);
/* The bracket that closes the block opened by N, a For, When or Else. */
Node *block_close(const Node *n);
/* The bracket that opens the block closed by N, an EndFor, Else or EndWhen. */
Node *block_open(const Node *n);
/* The number of values that the loop that CLOSE ends carries: its first operands and results; 0 if
 * CLOSE is not an EndFor. */
int loop_carried(const Node *close);
/* The While of the loop that OPEN, a For, begins; null if it has none. */
Node *loop_while_of(const Node *open);
/* How many elements the loop between the brackets carries from iteration to iteration, and stacks
 * in one: if there are none, iterations do nothing. Null: a While may end the loop, so they do. */
Dim *loop_elements(Ctx *c, const Node *open, const Node *close);
/* Whether the first iteration is the last one in result K of CLOSE, a stack. */
bool stack_is_reversed(const Node *close, int k);
/* The size that attribute NAME of a bracket holds, or null. */
Dim *control_dim(const Node *n, const char *name);
/* Sets it. */
void control_set_dim(Node *n, const char *name, Dim *d);
/* Checks that the brackets of G match, that their operands and results do, and that values are used
 * only where they are available. Returns a text about the first fault, or null, and sets *AT to the
 * faulty node; null for a result of G. */
const char *blocks_fault(const Graph *g, Arena *a, const Node **at);

static inline bool op_is_control(OpKind op) { return (op_row[op].flags & OPF_CONTROL) != 0; }

#endif
