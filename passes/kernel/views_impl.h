/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by passes/kernel/views.c, which decides which dims are split, and views_parts.c, which
 * rewrites the kernels. */
#ifndef PASSES_KERNEL_VIEWS_IMPL_H
#define PASSES_KERNEL_VIEWS_IMPL_H

#include "passes/kernel/kernels.h"
#include "passes/module.h"

enum { MOST_NODES = 32 };

/* The parts that a dim or an iterator is split into, outermost first; null: it is not split. */
typedef struct Parts {
	int n;
	Dim *dim[MAX_RANK];
} Parts;

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
} Views;

/* ---- views.c ---- */

/* The number of dims or iterators that replace one with the parts P (1 if that is null). */
int parts_count(const Parts *p);
bool parts_any(const Parts *const *p, int n);
/* The member of V that is N, or null. */
const Member *views_member(const Views *v, const Node *n);

/* ---- views_parts.c ---- */

/* Rewrites the members. Other users of their results read Views with the former shape, and the
 * members read Views of their operands. */
void views_rewrite(Views *v);

#endif
