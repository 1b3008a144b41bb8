/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by passes/kernel/views.c and views_repeat.c, which choose the dims to split;
 * views_parts.c, which rewrites the kernels; and views_ones.c, which splits no dim. */
#ifndef PASSES_FORMS_VIEWS_IMPL_H
#define PASSES_FORMS_VIEWS_IMPL_H

#include "passes/forms/kernels.h"
#include "passes/forms/parts.h"
#include "passes/module.h"

enum { MOST_NODES = 32 };

/* A kernel node to rewrite. */
typedef struct Member {
	Node *node;
	const Parts **iter; /* by Iter.id: its parts */
	/* by Buf.id, then by dim; operands and results share the parts of their value */
	const Parts ***buf;
} Member;

typedef struct Views {
	Module *m;
	Arena *tmp; /* lives while one View is tried */
	Member member[MOST_NODES];
	int n;
	Value *value[MAX_PARAMS]; /* values that the members read or write */
	const Parts **parts[MAX_PARAMS];
	int nvalues;
	bool ok, changed;
	bool repeats; /* values that no member computes may be split: members read Views of them */
} Views;

/* ---- passes/kernel/views.c ---- */

bool parts_any(const Parts *const *p, int n);
/* The member of V that is N, or null. */
const Member *views_member(const Views *v, const Node *n);
/* The parts of X's dims. */
const Parts **views_parts_of(Views *v, Value *x);
/* Whether N is a kernel that only moves elements; false for null. */
bool views_moves(const Node *n);
/* Whether all accesses of N are indexed by plain iterators, and no size is read from its
 * results. */
bool views_may_join(const Node *n);
/* Adds N to the members. */
void views_join(Views *v, Node *n);
/* Gives dims and the iterators that index them the same parts, in all members. */
void views_meet(Views *v);
/* Rewrites the members if they can be split; true if they were. */
bool views_try(Views *v);

/* ---- views_repeat.c ---- */

/* Splits the readers of View N if N merges a dim along which its operand repeats elements; true if
 * it did. */
bool views_repeat(Views *v, Node *n);

/* ---- views_ones.c ---- */

/* If View N only adds or drops dims of 1, and a kernel moved its elements, lets kernels read that
 * kernel's result instead; true if one does. */
bool views_ones(Node *n);

/* ---- views_parts.c ---- */

/* Rewrites the members. Other users of their results read Views with the former shape, and the
 * members read Views of their operands. */
void views_rewrite(Views *v);

#endif
