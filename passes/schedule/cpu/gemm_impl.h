/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files of the strategy *product* on CPUs (see gemm.c). */
#ifndef PASSES_SCHEDULE_CPU_GEMM_IMPL_H
#define PASSES_SCHEDULE_CPU_GEMM_IMPL_H

#include "passes/schedule/common/decision.h"
#include "passes/schedule/common/gemm.h"

enum {
	/* Rows of a block that share a packed block of B, if the number of rows is unknown. */
	PACKED_ROWS = 512,
	/* Terms of a sum between two roundings of KC: the loop over terms is unrolled by it. */
	DEPTH_STEP = 8,
	/* Multiply-adds of a core in a nanosecond: two vectors of 8 f32 in a clock of 1 GHz, as
	 * slow as a loaded core gets. */
	TERMS_PER_NS = 16
};

/* ---- gemm_decide.c ---- */

/* Makes G the product that K is, as D reads and packs its operands, merged as far as it can be;
 * false if tiles do not take K. */
bool gemm_begin_as(Product *g, Kernel *k, const ProductDecision *d);
/* Elements of type CT in a vector of T. */
int64_t gemm_lanes(const Target *t, CType ct);
/* Whether X is one of the N axes PARALLEL. */
bool axis_is_parallel(const ProductAxis *parallel, int n, ProductAxis x);
/* The tile of the product G. */
void gemm_choose_tile(const Target *t, const Product *g, int64_t *mr, int64_t *nr);
/* Rows of the vector tiles that compute a tile of G where its operands do not fit in parts. */
int64_t gemm_vector_rows(const Target *t, const Product *g);
/* A is better packed than read in place. */
bool gemm_packs_a(const Product *g);
/* Tiles of few rows of G may have several sums for each element. */
bool gemm_may_have_sums(const Product *g);
/* Gemm.rest for the tiles and blocks of D on T. */
int64_t gemm_rest(const Target *t, const Product *g, const ProductDecision *d);
/* The sums of a tile of MR x NR are whole vectors of G's panels and fit into the registers of T;
 * else WHY says what is wrong. */
bool gemm_tile_is_legal(const Target *t, const Product *g, int64_t mr, int64_t nr, StrBuf *why);

/* ---- gemm_terms.c ---- */

/* E as the value of a new name that has values from 0 to MOST; numbers need none. */
Expr *gemm_named(Gemm *g, const char *name, Expr *e, Dim *most);
/* Takes conditions out of both guards that bound an iterator of k by iterators of g, whose names
 * are declared; what follows packs and multiplies only the terms in these bounds (Gemm.k_lo). */
void gemm_limit_terms(Gemm *g);
/* The bounds of iterator I of k. */
Expr *gemm_first_term(Gemm *g, int i);
Expr *gemm_end_term(Gemm *g, int i);
/* The number of the current term in a packed row. */
Expr *gemm_flat_terms(Gemm *g);
/* The number of steps of all terms. */
Expr *gemm_steps(Gemm *g);

/* ---- gemm_pack.c ---- */

/* The columns of a block, a multiple of a panel's. */
Dim *gemm_block_columns(Gemm *g);
/* One past the last column of the block. */
Expr *gemm_block_end(Gemm *g);
/* The number of panels of the block. */
Expr *gemm_panels(Gemm *g);
/* Packs B into Bp[panel][k][column], for columns from n0 on of the block. */
void gemm_pack_b(Gemm *g);
/* Packs A into Ap[row][k], for the block's rows. */
void gemm_pack_a(Gemm *g);
/* Computes where the runs of the block's rows of A start, and packs the runs that lie partly
 * outside of the tensor (TileRuns in ir/loop/loop.h). Run t of row i is element t*mc + i. */
void gemm_find_runs(Gemm *g);

/* Columns of a tile, or of all tiles of a panel of the block, are stored as rows. */
typedef enum TileColumns { COLUMNS_AS_THEY_ARE, COLUMNS_OF_TILE, COLUMNS_OF_BLOCK } TileColumns;

/* A tile while its nodes are built. */
typedef struct TileAt {
	Iter *mt, *nt; /* first row and column of the tile */
	Expr *panel;   /* the panel's number in the block */
	Expr *js;      /* column of the tile in the panel */
	Expr *m_valid, *n_valid, *rows_end;
	TileColumns columns;
	/* the tile's sums; or, if the sum is split into parts, those of all tiles of the block */
	Buf *tile;
	Expr *tile_at; /* offset of this tile's sums */
	Expr *k0, *k;  /* the part of the sum: its first term and the number of terms */
	bool accumulate, partial;
} TileAt;

/* ---- gemm_fetch.c ---- */

/* Sets what the tile TL at T prefetches. */
void gemm_fetch(Gemm *g, Tile *tl, const TileAt *t);

/* ---- gemm_tile.c ---- */

/* The flat index of the element of A, which is a load, at row M of the whole matrix and the
 * terms K. */
Expr *gemm_a_index(Gemm *g, Expr *m, Expr *const *k);

/* Emits the tiles of a block. Panels are the outer loop if B's panel is to stay in L1 or L2 (packed
 * weights; long sums are split into parts of kc terms); tiles of rows are if A is the larger
 * operand. */
void gemm_emit_tiles(Gemm *g);

#endif
