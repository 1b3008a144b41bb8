/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges iterators that step through every access in one stride: one long loop is faster than a nest of short ones, and needs fewer
 * quotients.
 */
#ifndef PASSES_KERNEL_POINTS_H
#define PASSES_KERNEL_POINTS_H

#include "passes/kernel/kernels.h"

/* Two iterators that might be one: IN stands for EXTENT points, and OUT should step by as much as all of them. */
typedef struct Pair {
	Kernel *k;
	const Iter *out, *in;
	Dim *extent;
	const Buf *skip; /* loads of it do not count; may be null */
} Pair;

/* Neither of the two occurs in E; true for null. */
bool pair_absent(const Pair *p, Expr *e);
/* They step as one in the flat index AT. */
bool pair_steps(const Pair *p, Expr *at);
/* They step as one in every load of E, whose indices may be flat, and occur nowhere else in it. */
bool pair_joins(const Pair *p, Expr *e);

enum { MAX_TERMS = 4 };

/* Where iterators occur that may be joined, all in flat memory, and what became of each. */
typedef struct Points {
	Kernel *k;
	Iter *it[MAX_ITERS]; /* outermost first */
	int n;
	Expr *at[MAX_ITERS]; /* each iterator that was added, over IT */
	int nat;
	Expr *e[MAX_TERMS]; /* values */
	int ne;
	Expr *guard, *write; /* null: none; the flat index that is written */
} Points;

void points_add(Points *p, Iter *it);
/* Neighbours become one where that can be. */
void points_join(Points *p);
/* What is left becomes one iterator: it steps where all of them do as one, elsewhere they are quotients and remainders. */
void points_flatten(Points *p);

#endif
