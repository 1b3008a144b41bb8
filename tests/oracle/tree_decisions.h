/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of decisions on kernels that operations on tiles compute: a decision is printed and read
 * back as the same text, and so is its tree, which the verifier and the check of races accept,
 * which becomes LLVM IR, and which computes in the interpreter, on small integers, what eval
 * computes from the kernel. Trees that lack a wait or a barrier are reported, and illegal decisions
 * are refused.
 */
#ifndef TESTS_ORACLE_TREE_DECISIONS_H
#define TESTS_ORACLE_TREE_DECISIONS_H

#include "passes/schedule/common/decision.h"

typedef struct DecisionTest {
	const char *file; /* for messages */
	/* Fills N elements of input B. */
	void (*fill)(const Buf *b, void *data, int64_t n, uint64_t *seed);
	void (*emit)(const Target *t, Kernel *k, const Decision *d, Schedule *s);
	int failed;
} DecisionTest;

void decision_wrong(DecisionTest *x, const char *form, const char *decision, const char *what);
/* The tree of D for a copy of K, on arena A. */
Schedule *decision_tree(const DecisionTest *x, const Target *t, Kernel *k, const Decision *d,
			Arena *a);
/* Tests D, for K, whose sizes are G, M and N, as text and tree, and runs it at NSIZES sizes. */
void decision_test(DecisionTest *x, Ctx *c, const Target *t, Kernel *k, const char *form,
		   const Decision *d, const int64_t (*sizes)[3], int nsizes);

typedef struct TreeMutation {
	const char *line; /* the line that begins so, after its indentation, */
	const char *as;   /* becomes this; null: moves behind the next line; "": goes; "+1": gets one more than its number */
} TreeMutation;

/* Each of the N mutations of each line of the tree of D, for K, is reported. Returns how many were
 * tried. */
int decision_mutations(DecisionTest *x, Ctx *c, const Target *t, Kernel *k, const Decision *d,
		       const TreeMutation *m, int n);

typedef struct RefusedDecision {
	const char *decision, *why;
} RefusedDecision;

/* Each of the N decisions is refused for K, with WHY in the message. */
void decision_refused(DecisionTest *x, const Target *t, Kernel *k, const RefusedDecision *r, int n);

#endif
