/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products as CPUs and GPUs schedule them: acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n),
 * and the maps that follow it point by point.
 */
#ifndef PASSES_SCHEDULE_COMMON_GEMM_H
#define PASSES_SCHEDULE_COMMON_GEMM_H

#include "passes/forms/band.h"
#include "passes/forms/contraction.h"
#include "passes/forms/points.h"
#include "passes/schedule/common/loops.h"

/* The least rows or columns, and terms, for which a tile on a GPU pays. */
enum { GEMM_ROWS = 9, GEMM_TERMS = 8 };

/* What the tiles of a product on a CPU prefetch (passes/schedule/cpu/gemm_fetch.c). */
typedef enum ProductFetch { FETCH_NONE, FETCH_PANEL, FETCH_ROWS } ProductFetch;

/* A blocked matrix product while its loop tree is built. */
typedef struct Gemm {
	LBuild b;
	Kernel *k;
	const Target *t;
	Contraction c;
	int first, nstmts; /* the product's statement, and the number of statements from it on in the band */
	Band band;
	Iter *outer[MAX_ITERS]; /* g, and the n iterators that are not merged: LETs of the task */
	int nouter;
	Iter *nin[MAX_ITERS];   /* the n iterators that merge to one, outermost first */
	int nnin;
	Iter *mflat, *nflat;    /* row and column of the whole matrix */
	Dim *m, *n, *kk;        /* extents */
	int kpack;              /* CPUs: terms of a step of the micro-kernel (contraction_kpack) */
	Dim *steps;             /* steps of all terms */
	/* CPUs: B in panels. NUMBERS is the load of its elements, or of numbers that SCALE and
	 * ZERO, loads of one element for each GROUP terms and column, make such (null: 1, 0;
	 * GROUP 0: one for all terms). TERMS of a column are contiguous. */
	Expr *numbers, *scale, *zero;
	int64_t group;
	int terms;
	/* CPUs: the operand A is quantised, too: c.a is the load of its bytes, and this the load
	 * of the scale of ROW_GROUP terms. WHOLE_A is the operand. */
	Expr *row_scale, *whole_a;
	int64_t row_group;
	bool m_merges;          /* the m iterators have one stride in every access */
	bool a_direct, b_panels; /* the operand is read in place, with one stride */
	bool dot;                /* CPUs: both operands are read as bf16, in pairs of terms */
	bool panels_first;       /* CPUs: panels are the outer loop, tiles of rows the inner one */
	ProductFetch fetch;      /* CPUs */
	/* CPUs: of an attention's scores: the rows of keys and values that the next batch packs,
	 * in which NFLAT stands for the number of a key; they have NEXT_LINES lines of the cache */
	Prefetch next[2];
	int64_t next_lines[2];
	int nnext;
	/* CPUs: the condition, over the iterators of the product, without which no statement reads
	 * its sum; null: a sum is read always */
	Expr *when;
	Buf *squares, *trim; /* CPUs: Tile.squares, Tile.trim */
	/* A is read in runs: the k iterators from RUN on merge in A, and have RUN_TERMS points;
	 * each point of those before it has its run. No runs: run is nk. */
	int run;
	Dim *run_terms;
	Buf *runs, *edge;
	Expr *a_step;
	/* CPUs: by number in c.k: of an iterator's points only those in [LO, HI) are terms,
	 * which iterators of g decide; HI null: all of them */
	Expr *k_lo[MAX_ITERS], *k_hi[MAX_ITERS];
	int64_t pw, nr, mr, nc, mc, kc; /* NC 0: a block has all columns */
	int64_t rest; /* CPUs: so many rows, at most, that are left over go to the last tile of MR rows */
	Buf *abuf, *bbuf;
	Iter *m0, *n0;          /* the block's first row and column */
	/* by Buf.id: a local with the block's rows of a temporary, or null: n columns of each,
	 * which the tiles store for what follows them; or one element, which is read */
	Buf **held;
	int nheld;
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

/* The m and n iterators of C in the order in which the result is stored. */
void gemm_sort(Ctx *ctx, Contraction *c);
/* The NSTMTS statements of kernel K from FIRST on are a product that the strategy takes, and all of
 * them are in the band. Fills in the members of G that follow from this. */
bool gemm_open(Gemm *g);
/* Statement S of G stores to memory: an output, or a sum that a later stage reads. */
bool gemm_stores(const Gemm *g, const Stmt *s);
/* Iterators OUT and IN, the inner one, can be merged in all results and in all reads of the
 * statements after the product. */
bool gemm_merges_after(Gemm *g, const Iter *out, const Iter *in);
/* The N iterators IT can be merged in all results and in all reads of the statements after the
 * product. */
bool gemm_joins_after(Gemm *g, Iter *const *it, int n);
/* The iterator of the contraction that corresponds to iterator IT of statement S; IT itself if
 * there is none. */
Iter *gemm_original(const Gemm *g, const Stmt *s, const Iter *it);
Dim *gemm_product(Gemm *g, Iter *const *it, int n);
/* E rewritten as P says; null stays null. Loads are made flat before iterators are merged, because
 * only in a flat index can the last one stand for all of them. */
Expr *gemm_placed(Placing *p, Expr *e);
/* The value of iterator IT of statement S at flat row M, column N and term K; K null: unchanged. */
Expr *gemm_at(Gemm *g, const Stmt *s, const Iter *it, Expr *m, Expr *n, Expr *k);
/* Notes that NODE carries out PART of statement S at row M, column N and term K (null: none) of the
 * whole matrix. */
void gemm_does(Gemm *g, LNode *node, const Stmt *s, LPart part, Expr *m, Expr *n, Expr *k);

#endif
