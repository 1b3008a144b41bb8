/* SPDX-License-Identifier: Apache-2.0 */
/* Contractions, recognised by access relations. */
#ifndef PASSES_KERNEL_CONTRACTION_H
#define PASSES_KERNEL_CONTRACTION_H

#include "passes/kernel/kernels.h"

/*
 * A contraction: acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n), recognised by which iterators the two
 * factors of a sum's term read. N is the side whose iterators lie innermost in the result; K goes as A lies in
 * memory, outermost first.
 */
typedef struct Contraction {
	Stmt *s;
	Expr *a, *b;           /* A reads no n iterator, B no m iterator */
	Expr *guard_a, *guard_b; /* the guard's terms, by operand; null: true */
	Iter *g[MAX_ITERS], *m[MAX_ITERS], *n[MAX_ITERS], *k[MAX_ITERS];
	int ng, nm, nn, nk;
	CType ct;
} Contraction;
bool stmt_contraction(Kernel *k, Stmt *s, Contraction *out);
/* The element type that has every value of operand E. */
DType contraction_type(const Expr *e);
void contraction_swap(Contraction *c); /* A, m and its guard for B and n */

#endif
