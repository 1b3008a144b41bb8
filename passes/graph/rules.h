/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Equations over graph ops as data (rules.def): where the left side stands, the right side may. Both are text:
 *
 *     x                any value; the same name is the same value
 *     0, 1.5           a constant all of whose elements are this number; on the right a scalar
 *     Add(x, Neg(y))   an op of one result; operands of commutative ops match in either order
 *     Conv:c(x, w)     the node is called c; on the right, c(x, w) is a node of c's operator with c's attributes
 *     A|B:c(x)         a node of either operator
 *     c(x, w, b?)      a last operand that may be absent. A node of the right side that would read an absent value is absent
 *                      itself; in b?0 the number 0 stands for an absent b
 *     vector(s, c)     on the right, a function of rules.c
 *     c(x){f(p)}       on the right, the function f of rules.c changes the new node's attributes by p
 *
 * Conditions "once(c) weights(w)" are predicates of rules.c over values, or the results of labelled nodes, of the left side.
 * They hold of an absent value; one of another name stops the reading of the table:
 *     once            its only use is in the left side
 *     weights         computed from constants alone
 *     ints            elements are integers
 *     power2          a constant whose elements are all one power of two, of floats, with an exact reciprocal
 *     channels(s, c)  s is computed from constants alone and has one element, or one for each channel (dim 1) of c's result,
 *                     and the left side has the type of c's result: broadcasting to s changes nothing
 *     own_weights     each output channel of the convolution has a slice of the weights to itself: not so for a ConvTranspose
 *                     with groups
 *     zeros_around    made by a Pad node of constant widths, of zeros around the dims after the first two
 *
 * Laws: the right side's type is the left side's, or the rule is not applied; a rule is bit-exact unless it says REASSOC.
 */
#ifndef PASSES_GRAPH_RULES_H
#define PASSES_GRAPH_RULES_H

#include "passes/graph/canon.h"

enum RuleFlags { RULE_EXACT = 0, RULE_REASSOC = 1 };

typedef struct Rule {
	const char *name, *lhs, *rhs, *where;
	/* Types of the left side's values, for the test, which tries all operators and leaves out what may be absent, too:
	 * "x: f32[2,3], w: const f32[3]"; "c: 8 f32[]" a constant all of whose elements are 8; "a: i64[2](1,2)" a constant
	 * of these elements. */
	const char *example;
	int flags;
} Rule;

extern const Rule rule_table[]; /* ends with a null name */

typedef struct RuleSet RuleSet;

/* The table, read. */
RuleSet *rules_read(Arena *a);
/* Tries rule AT of the table on N; true: N was replaced. */
bool rule_apply(Canon *c, int at, Node *n);
/* The left side of rule AT as nodes at the end of C's graph, with the alternatives PICK (a bit each: the second operator of A|B,
 * an operand that is absent); values by name through VALUE. Null where there are not so many alternatives, and where a node is
 * refused. For the test. */
Value *rule_example(Canon *c, int at, unsigned pick, Value *(*value)(void *arg, const char *name), void *arg);

#endif
