/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by panels.c, which packs the constant operand of a product, panels_order.c, which adds to
 * panels of bytes the order of their terms, and panels_scaled.c, which packs a quantised operand in
 * parts. */
#ifndef PASSES_LAYOUT_PANELS_IMPL_H
#define PASSES_LAYOUT_PANELS_IMPL_H

#include "passes/forms/contraction.h"
#include "passes/layout/panels.h"

/* A kernel that copies operand B of product C of node N, or a part of it. */
typedef struct Packing {
	Module *m;
	Node *n;
	const Contraction *c;
	bool fragments;
	Kernel *k;
	/* iterators of the product; iterators of the copy's dims */
	Iter *from[MAX_ITERS], *it[MAX_ITERS];
	Expr *with[MAX_ITERS]; /* each iterator of FROM in terms of IT */
	int nfrom, rank;
} Packing;

/* ---- panels.c ---- */

/* Adds the iterators IT as dims of the copy. */
void packing_add(Packing *p, Iter *const *it, int n);
/* Adds the iterators IT as one dim of the copy. */
void packing_join(Packing *p, Iter *const *it, int n);
/* Adds the kernel, which computes packed = E, a value of type T, in P's dims. */
Value *packing_close(Packing *p, Expr *e, const Type *t);
/* The index of P's term, if all k iterators of C are one dim; over C's iterators. */
Expr *packed_term(ExprPool *p, const Contraction *c);

/* ---- panels_order.c ---- */

/* Packs B, the i8 operand of product C of node N with C's terms as one dim, into panels of layout
 * L, and adds the rows that say how its terms are multiplied in pairs. */
Value *panels_with_order(Module *m, Node *n, Value *b, const Contraction *c, const Layout *l);

/* ---- panels_groups.c ---- */

/* Packs operand B of C, a constant, for vectors across groups, if C has groups of few columns. */
bool pack_groups(Module *m, Node *n, Contraction *c);

/* ---- panels_scaled.c ---- */

/* Packs operand B of C, a constant, in parts if it consists of quantised numbers. N may keep
 * operands that it no longer reads. */
bool pack_scaled(Module *m, Node *n, Contraction *c);

#endif
