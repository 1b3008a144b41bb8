/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Merges iterators that step through every access with one stride: one long loop is faster than
 * nested short ones, and needs fewer divisions.
 */
#ifndef PASSES_FORMS_POINTS_H
#define PASSES_FORMS_POINTS_H

#include "passes/forms/kernels.h"

/* Two iterators to merge: IN has EXTENT points, and a step of OUT should be as large as EXTENT
 * steps of IN. */
typedef struct Pair {
	Kernel *k;
	const Iter *out, *in;
	Dim *extent;
	const Buf *skip; /* loads of this buffer are ignored; may be null */
} Pair;

/* Whether neither iterator occurs in E; true for null. */
bool pair_absent(const Pair *p, Expr *e);
/* Whether flat index AT steps through both iterators with one stride. */
bool pair_steps(const Pair *p, Expr *at);
/* Whether all loads of E, whose indices may be flat, step through both iterators with one stride,
 * and E contains them nowhere else. */
bool pair_joins(const Pair *p, Expr *e);

enum { MAX_TERMS = 4 };

/* The expressions in which the iterators to merge occur, all with flat indices, and what
 * replaces each iterator. */
typedef struct Points {
	Kernel *k;
	Iter *it[MAX_ITERS]; /* outermost first */
	int n;
	/* by the order of points_add: each iterator as an expression over IT */
	Expr *at[MAX_ITERS];
	int nat;
	Expr *e[MAX_TERMS]; /* values */
	int ne;
	Expr *guard, *write; /* the guard, and the flat index of the write; each may be null */
} Points;

void points_add(Points *p, Iter *it);
/* Merges adjacent iterators wherever possible. */
void points_join(Points *p);
/* Makes one iterator of those that remain. Expressions that step through all of them with one
 * stride use it directly; others use quotients and remainders of it. */
void points_flatten(Points *p);
/* Replaces P's only iterator by IT. */
void points_rename(Points *p, Iter *it);

#endif
