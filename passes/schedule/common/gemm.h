/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products as CPUs and GPUs schedule them: acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n), and the maps that follow it point
 * by point.
 */
#ifndef PASSES_SCHEDULE_COMMON_GEMM_H
#define PASSES_SCHEDULE_COMMON_GEMM_H

#include "passes/kernel/band.h"
#include "passes/kernel/contraction.h"
#include "passes/kernel/points.h"
#include "passes/schedule/common/loops.h"

/* Fewer rows or columns, or terms, are not worth a tile on a GPU. */
enum { GEMM_ROWS = 9, GEMM_TERMS = 8 };

/* One blocked matrix product in the making. */
typedef struct Gemm {
	LBuild b;
	Kernel *k;
	const Target *t;
	Contraction c;
	int nstmts; /* the first of K's statements: all that are in the band */
	Band band;
	Iter *outer[MAX_ITERS]; /* g and the n iterators that do not merge: LETs of the task */
	int nouter;
	Iter *nin[MAX_ITERS];   /* the n iterators that merge to one, outermost first */
	int nnin;
	Iter *mflat, *nflat;    /* row and column of the whole matrix */
	Dim *m, *n, *kk;        /* extents */
	bool m_merges;          /* rows are one stride in every access */
	bool a_direct, b_panels;
	Expr *a_step;
	int64_t pw, nr, mr, nc, mc, kc;
	Buf *abuf, *bbuf;
	Iter *m0, *n0;          /* the block's first row and column */
} Gemm;

/* How the expressions of a statement are rewritten: loads get flat indices, iterators become the contraction's. */
typedef struct Placing {
	Gemm *g;
	const Stmt *s;
	Expr **value;     /* by Buf.id, NVALUES of them: what an element of a temporary is at this point; or null */
	int nvalues;
	bool flat;        /* merged iterators: the last one stands for all, the others are 0 */
} Placing;

/* The m and n iterators of C in the order in which the result is stored. */
void gemm_sort(Contraction *c);
/* The first nstmts statements of kernel K are a product that the strategy takes, all of them in the band; G is then set up so
 * far. */
bool gemm_open(Gemm *g);
/* What statement S of G makes goes to memory: a result, or a sum that a later stage reads. */
bool gemm_stores(const Gemm *g, const Stmt *s);
/* Iterator IN, which follows OUT, runs with it through all results and what follows reads as one would. */
bool gemm_merges_after(Gemm *g, const Iter *out, const Iter *in);
/* The N iterators IT run through all results and what follows reads as one would. */
bool gemm_joins_after(Gemm *g, Iter *const *it, int n);
/* The iterator of the contraction that runs with IT of statement S; IT itself where none does. */
Iter *gemm_original(const Gemm *g, const Stmt *s, const Iter *it);
Dim *gemm_product(Gemm *g, Iter *const *it, int n);
/* E so rewritten; null stays null. Loads are flat before merged iterators become one: only in a flat index does the last one
 * stand for all of them. */
Expr *gemm_placed(Placing *p, Expr *e);
/* Iterator IT of statement S, of a column, a row and a term (as flat expressions N, M and K; null: as it is). */
Expr *gemm_at(Gemm *g, const Stmt *s, const Iter *it, Expr *m, Expr *n, Expr *k);
/* NODE does PART of statement S at row M, column N and term K (null: none) of the whole matrix. */
void gemm_does(Gemm *g, LNode *node, const Stmt *s, LPart part, Expr *m, Expr *n, Expr *k);

#endif
