/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products as CPUs and GPUs schedule them: acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n),
 * and the maps that follow it point by point.
 */
#ifndef PASSES_SCHEDULE_COMMON_GEMM_H
#define PASSES_SCHEDULE_COMMON_GEMM_H

#include "passes/forms/points.h"
#include "passes/forms/product.h"
#include "passes/schedule/common/loops.h"

/* The operand that the tiles of a product on a CPU prefetch (passes/schedule/cpu/gemm_fetch.c). */
typedef enum ProductFetch { FETCH_NONE, FETCH_PANEL, FETCH_ROWS } ProductFetch;

/* The blocks of a product on a CPU. */
typedef struct GemmBlocks {
	/* the decision's sizes of tiles and blocks; NC 0: a block has all columns. So many rows,
	 * REST at most, that are left over go to the last tile of MR rows. PANELS_FIRST: panels
	 * are the outer loop, tiles of rows the inner one. */
	int64_t nr, mr, nc, mc, kc, rest;
	bool panels_first;
	ProductFetch fetch;
	Iter *m0, *n0; /* the first row and column of the block */
	/* the block's operands where they are packed; or the rows of A as runs: where each
	 * starts, and those that lie partly outside of the tensor (TileRuns) */
	Buf *abuf, *bbuf, *runs, *edge;
	/* the parts of rows of A and of a panel of B, if tiles are computed by them */
	TileParts parts;
	/* by number in p.c.k: of an iterator's points only those in [LO, HI) are terms, which
	 * iterators of g decide; HI null: all of them */
	Expr *k_lo[MAX_ITERS], *k_hi[MAX_ITERS];
} GemmBlocks;

/* Members of a product that is one of the two of an attention on a CPU. */
typedef struct GemmInAttention {
	/* the condition, over the iterators of the product, without which no statement reads its
	 * sum (null: a sum is read always); TileMask.squares, TileMask.trim */
	Expr *when;
	Buf *squares, *trim;
	/* the rows of keys and values that the next batch packs, in which NFLAT stands for the
	 * number of a key; they have NEXT_LINES lines of the cache */
	Prefetch next[2];
	int64_t next_lines[2];
	int nnext;
	/* by Buf.id: a local with the block's rows of a temporary, or null: n columns of each,
	 * which the tiles store for what follows them; or one element, which is read */
	Buf **held;
	int nheld;
} GemmInAttention;

/* A blocked matrix product while its loop tree is built. */
typedef struct Gemm {
	Product p;
	LBuild b;
	const Target *t;
	Iter *mflat, *nflat; /* row and column of the whole matrix */
	GemmBlocks blocks;
	GemmInAttention attention;
} Gemm;

/* How gemm_placed rewrites the expressions of a statement: loads get flat indices, and iterators
 * become those of the contraction. */
typedef struct Placing {
	Gemm *g;
	const Stmt *s;
	/* by Buf.id, NVALUES of them: the value of a temporary's element at this point; or null */
	Expr **value;
	int nvalues;
	bool flat;        /* merged iterators: the last one stands for all, the others are 0 */
} Placing;

/* E rewritten as P says; null stays null. Loads are made flat before iterators are merged, because
 * only in a flat index can the last one stand for all of them. */
Expr *gemm_placed(Placing *p, Expr *e);
/* The value of iterator IT of statement S at flat row M, column N and term K; K null: unchanged. */
Expr *gemm_at(Gemm *g, const Stmt *s, const Iter *it, Expr *m, Expr *n, Expr *k);
/* Notes that NODE carries out PART of statement S at row M, column N and term K (null: none) of the
 * whole matrix. */
void gemm_does(Gemm *g, LNode *node, const Stmt *s, LPart part, Expr *m, Expr *n, Expr *k);

#endif
