/* SPDX-License-Identifier: Apache-2.0 */
/* Dims split into parts: passes/kernel/views.c decides, passes/kernel/views_parts.c rewrites. */
#ifndef PASSES_KERNEL_VIEWS_IMPL_H
#define PASSES_KERNEL_VIEWS_IMPL_H

#include "passes/kernel/kernels.h"
#include "passes/module.h"

enum { MOST_NODES = 32 };

/* What a dim, or an iterator, becomes, outermost first; null: it stays. */
typedef struct Parts {
	int n;
	Dim *dim[MAX_RANK];
} Parts;

/* A kernel node and what becomes parts of it. */
typedef struct Member {
	Node *node;
	const Parts **iter; /* by Iter.id */
	const Parts ***buf; /* by Buf.id, then by dim; of operands and results: that of the value */
} Member;

typedef struct Views {
	Module *m;
	Arena *tmp; /* of the current View */
	Member member[MOST_NODES];
	int n;
	Value *value[MAX_PARAMS]; /* that kernels here read or write */
	const Parts **parts[MAX_PARAMS];
	int nvalues;
	bool ok, changed;
} Views;

/* Dims, or iterators, in the place of one that becomes P. */
int parts_count(const Parts *p);
bool parts_any(const Parts *const *p, int n);
/* What N is of V's members, or null. */
const Member *views_member(const Views *v, const Node *n);

/* Members become parts; what reads their results besides reads Views of those, and they read Views of what they are given. */
void views_rewrite(Views *v);

#endif
