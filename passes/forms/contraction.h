/* SPDX-License-Identifier: Apache-2.0 */
/* Recognises contractions by their access relations. */
#ifndef PASSES_FORMS_CONTRACTION_H
#define PASSES_FORMS_CONTRACTION_H

#include "passes/forms/kernels.h"

/*
 * A contraction: acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n), recognised by the iterators that
 * the two factors of the term read. N is the side whose iterators are innermost in the result. K is
 * in A's memory order, outermost first.
 */
typedef struct Contraction {
	Stmt *s;
	Expr *a, *b;           /* A reads no iterator of n, B none of m */
	Expr *guard_a, *guard_b; /* conjuncts of the guard, by operand; null: true */
	Iter *g[MAX_ITERS], *m[MAX_ITERS], *n[MAX_ITERS], *k[MAX_ITERS];
	int ng, nm, nn, nk;
	CType ct;
} Contraction;
bool stmt_contraction(Kernel *k, Stmt *s, Contraction *out);
/* S multiplies vectors by matrices that a Gather takes out of a tensor, and reads the matrices in
 * place; the Gather's index may be checked. No element of a matrix is used twice, so storing the
 * matrices would only cost time. */
bool stmt_gathered_product(Kernel *k, Stmt *s, Contraction *out);
/* B, as factor b of C, is a load of gathered matrices: the check of its index depends on no term,
 * and is the same for some columns. */
bool contraction_gathers(const Contraction *c, Expr *b);
/* Index E has both an iterator of the result of S and one of its sum, so a stencil slides along
 * it. */
bool stmt_index_slides(const Stmt *s, Expr *e);
/* Some index of operand E of C is a stencil's, as in the image of a convolution. */
bool contraction_slides(const Contraction *c, Expr *e);
/* The iterator along which both such an operand and the result are contiguous in memory, so that
 * vectors of the operand need no gathers; null: none. */
const Iter *contraction_row_of_pixels(Kernel *k, const Contraction *c, Expr *e);
/* Index E has unit stride along IT: it is IT, or x*N + phase with IT for x, as in a ConvTranspose
 * with stride N. */
bool index_goes_along(Ctx *c, Expr *e, const Iter *it);
/* The last statement of K that is a contraction, from statement 2 on: where K may be an attention,
 * its second product. -1: there is none. */
int kernel_second_product(Kernel *k);
/* The element type that represents every value of operand E. */
DType contraction_type(const Expr *e);
/* The number of terms of a column that are contiguous in panels of operand B, as a 32-bit word that
 * CPUs read at once (codegen/c/tile.c): 4 if the products are u8 by i8 in either order, with sums
 * in i32; 2 if B is bf16 and sums are f32; else 1. */
int contraction_kpack(const Contraction *c);
void contraction_swap(Contraction *c); /* exchanges A, m and guard_a with B, n and guard_b */

/* The class of a group of statements, decided only by their form. */
typedef enum FormKind {
	FORM_MAP,
	FORM_ROW,         /* only reductions and maps */
	FORM_CONTRACTION, /* a contraction, and maps after it, which may have guards */
	FORM_ATTENTION,   /* two contractions, with statements between them that share their rows */
	FORM_ORDER,       /* anything else */
	FORM_KINDS
} FormKind;
/* The class of statements FIRST..LAST of K. Attention counts as FORM_ORDER here; only form_of
 * recognises it. */
FormKind stmts_kind(Kernel *k, int first, int last);
/* The class of all statements of K. */
FormKind kernel_kind(Kernel *k);
/* Whether all statements of K are maps. Unlike in FORM_MAP, they may have guards. */
bool kernel_is_maps(Kernel *k);

#endif
