/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Equations over graph operators, as data (rules.def): a graph that matches the left side may be
 * replaced by the right side. Both sides are text:
 *
 *     x                any value; the same name is the same value
 *     0, 1.5           a constant all of whose elements are this number; on the right side a scalar
 *     Add(x, Neg(y))   an operator with one result; operands of commutative operators match in
 *                      either order
 *     Conv:c(x, w)     labels the node c; on the right side, c(x, w) is a node with c's operator
 *                      and attributes
 *     A|B:c(x)         a node of either operator
 *     c(x, w, b?)      the last operand may be absent. A node of the right side that would read
 *                      an absent value is absent itself; in b?0 the number 0 replaces an absent b
 *     vector(s, c)     on the right side: calls a function of rules.c
 *     c(x){f(p)}       on the right side: function f of rules.c changes the new node's attributes,
 *                      given p
 *
 * Conditions such as "once(c) weights(w)" are predicates of rules.c over values of the left side,
 * or results of labelled nodes. They are true for an absent value. An unknown predicate is an error
 * when the table is read.
 *
 *     once            its only use is in the left side
 *     weights         depends only on constants
 *     ints            elements are integers
 *     power2          a constant whose elements are all the same power of two, in floats, with an
 *                     exact reciprocal
 *     divisor         a constant of f32 whose elements are all the same number, of a magnitude from
 *                     1/128 to 128
 *     channels(s, c)  s depends only on constants, and has one element, or one for each
 *                     channel (dim 1) of c's result; the left side has the type of c's result, so s
 *                     does not broadcast it to a larger one
 *     own_weights     no two output channels of the convolution share weights, as they do in a
 *                     ConvTranspose with groups
 *     zeros_around    made by a Pad node that adds constant numbers of zeros around the dims after
 *                     the first two
 *
 * Laws: a rule is applied only if the right side has the left side's type, and it is bit-exact
 * unless it is marked REASSOC, which means equal up to rounding.
 */
#ifndef PASSES_GRAPH_RULES_H
#define PASSES_GRAPH_RULES_H

#include "passes/graph/canon.h"

enum RuleFlags { RULE_EXACT = 0, RULE_REASSOC = 1 };

typedef struct Rule {
	const char *name, *lhs, *rhs, *where;
	/* Types of the left side's values, for the test. The test also tries all alternative
	 * operators, and omits optional operands. "x: f32[2,3], w: const f32[3]"; "c: 8 f32[]"
	 * is a constant all of whose elements are 8; "a: i64[2](1,2)" a constant with these
	 * elements. */
	const char *example;
	int flags;
} Rule;

extern const Rule rule_table[]; /* ends with a null name */

typedef struct RuleSet RuleSet;

/* Parses the table. */
RuleSet *rules_read(Arena *a);
/* Tries rule AT of the table on N; returns true if it replaced N. */
bool rule_apply(Canon *c, int at, Node *n);
/* For the test: builds the left side of rule AT as nodes at the end of C's graph. PICK chooses
 * alternatives, one bit each: the second operator of A|B, an absent operand. VALUE gives the values
 * by name. Null if there are fewer alternatives than PICK wants, or a node cannot be built. */
Value *rule_example(Canon *c, int at, unsigned pick, Value *(*value)(void *arg, const char *name), void *arg);

#endif
