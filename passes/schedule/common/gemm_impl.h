/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the contraction strategy share: one blocked matrix product in the making. */
#ifndef PASSES_SCHEDULE_COMMON_GEMM_IMPL_H
#define PASSES_SCHEDULE_COMMON_GEMM_IMPL_H

#include "passes/kernel/band.h"
#include "passes/layout/fragments.h"
#include "passes/schedule/common/gemm.h"
#include "passes/schedule/common/loops.h"
#include "passes/kernel/points.h"

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

/* ---- GPUs: a block's tile ---- */

enum { STRIP_COLUMNS = 32 }; /* of a strip's row, the fewest */

/* One operand of the product as its tiles in shared memory are filled. */
typedef struct Operand {
	Expr *val, *guard;     /* flat loads */
	Iter *const *side;     /* its free iterators, m or n */
	int nside;
	bool along;            /* a row of the tile runs along k */
	bool k_joins, side_joins; /* the iterators run through every load as one would */
	int pack;              /* elements of a chunk */
	bool lanes;            /* it lies in the order of FRAGMENTS, and so do tiles */
	Fragments fragments;
	bool async;
	DType type;            /* as it lies there */
} Operand;

/* What a block does, and in which steps. */
typedef struct BlockShape {
	MmaKind kind;
	int bm, bn, bk, wm, wn, tm, tn, stages;
} BlockShape;

/* How a product is done: blocks for each of PARTS of the sum, of EACH points of iterator ALONG. */
typedef struct GemmPlan {
	BlockShape s;
	int64_t parts, each; /* 1 part: the whole, and no EACH */
	Iter *along;
} GemmPlan;

typedef struct GpuGemm {
	Gemm g;
	Operand a, b;
	BlockShape s;
	bool by_columns;       /* results lie along m */
	const Schedule *serves; /* its guard tells a size */
	Iter *mb, *nb;         /* the block's numbers */
} GpuGemm;

/* What the model takes G's rows, columns, terms and matrices to be in runs for which its schedule is (passes/schedule/gpu/gemm_variants.c). And whether
 * the number of its results is bounded there. */
void gemm_gpu_sizes(const GpuGemm *g, double size[4]);
bool gemm_gpu_bounded(const GpuGemm *g);
/* The shape for G's sizes on its target (passes/schedule/gpu/gemm_choose.c); false where a thread a result serves better. */
bool gemm_gpu_shape(GpuGemm *g, const Options *o);
/* Prints the N best tiles for it. */
void gemm_gpu_list(const GpuGemm *g, int n);
/* Of a product on G's target, with these M, N and K, the line of TEXT, which may be null: the tile and the slots in *S. Prints
 * such a line (passes/schedule/gpu/gemm_tiles_text.c). */
bool gemm_tiles_find(const char *text, const GpuGemm *g, const double size[4], BlockShape *s);
void gemm_tiles_print(const GpuGemm *g, const double size[4], const BlockShape *s);
/* The best tile, and into how many parts the sum is better split (passes/schedule/gpu/gemm_choose.c); its cost in seconds, 0 where there
 * is none. One whose tile O names has no parts but such as O names, too. */
double gemm_gpu_plan(const GpuGemm *g, const Options *o, GemmPlan *p);
/* What G costs by plan P, which may be that for other sizes; 0: it cannot. */
double gemm_gpu_cost(const GpuGemm *g, const GemmPlan *p);
/* Statements 0..LAST of K as a product of tiles, of sizes for which S is; false where they are none. */
bool gemm_gpu_open(GpuGemm *gg, const Options *o, const Target *t, Kernel *k, int last,
		   const Schedule *s);
/* Threads of a block, and bytes of shared memory. */
int gemm_gpu_threads(const BlockShape *s);
int64_t gemm_gpu_shared(const GpuGemm *g, const BlockShape *s);
/* The body of the stage (passes/schedule/gpu/gemm_block.c). */
void gemm_gpu_emit(GpuGemm *g);

/* The first nstmts statements of kernel K are a product that the strategy takes, all of them in the band; G is then set up so
 * far. */
bool gemm_open(Gemm *g);
/* What statement S of G makes goes to memory: a result, or a sum that a later stage reads. */
bool gemm_stores(const Gemm *g, const Stmt *s);
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
/* One past the last column of the block. */
Expr *gemm_block_end(Gemm *g);
/* Panels of the block that hold a column. */
Expr *gemm_panels(Gemm *g);
/* Bp[panel][k][column] of columns n0.. of the block. */
void gemm_pack_b(Gemm *g);
/* Ap[row][k] of the block's rows. */
void gemm_pack_a(Gemm *g);
/* The tiles of a block: panels outside where B's panel is to stay in L1 or L2 (packed weights; long sums in parts
 * of kc terms), tiles of rows outside where A is the larger. */
void gemm_emit_tiles(Gemm *g);

#endif
