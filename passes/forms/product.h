/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A matrix product in a kernel, acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n), and the elementwise
 * maps that follow it: which tiles can compute it, and how they can read its operands. Schedules
 * choose how the operands are read, by product_pack_a, product_pack_b and product_use_dot. What
 * layouts and schedules must agree on is decided here: product_panel gives the columns of a panel
 * of constants, and product_pack_b those of a panel that is packed at run time.
 */
#ifndef PASSES_FORMS_PRODUCT_H
#define PASSES_FORMS_PRODUCT_H

#include "passes/forms/band.h"
#include "passes/forms/contraction.h"
#include "passes/module.h"

/* The fewest rows or columns, and terms, for which a tile pays on a GPU. */
enum { GEMM_ROWS = 9, GEMM_TERMS = 8 };

enum {
	/* Bytes of a row of a panel that is packed at run time: a row of the tile with the widest
	 * vectors. */
	PANEL_BYTES = 128,
	/* Bits of a column's contiguous terms in a panel of sub-byte numbers: a vector lane, from
	 * which shifts extract one term after the other. */
	PANEL_WORD = 32,
	/* Vectors of a tile's row: two independent sums hide the latency of the multiply-add. */
	TILE_VECTORS = 2,
	/* Convolutions with at least this many output channels pack vectors of pixels; smaller ones
	 * read them in place for each channel. If the width is unknown, half as many channels
	 * suffice for packing. 3x3 from 32 channels of 128x128 took 3.0 ms packed for 3 and for 6
	 * output channels, and 0.66 and 1.1 ms in place. */
	PACKED_CHANNELS = 8,
	/* The fewest terms of a segment of A for which reading it in place costs less than packing
	 * it. First layers of 3x3 and 32 channels took 226 us in segments of three, and 272 us
	 * packed. */
	LEAST_RUN = 3,
	/* The fewest points of an iterator that is worth being the innermost loop: a vector of
	 * 16. */
	SHORT_LOOP = 16
};

/* Each group of members is set by the function that its comment names. */
typedef struct Product {
	/* product_open: statements FIRST to FIRST + NSTMTS - 1 of K are the product and the maps
	 * after it; C has its m and n iterators in the order in which the result is stored */
	Kernel *k;
	int first, nstmts;
	Contraction c;
	Band band;

	/* product_begin, operand B: a step of the micro-kernel has KPACK terms (contraction_kpack).
	 * B_PANELS: B is in panels of PW columns, where TERMS terms of a column are contiguous.
	 * NUMBERS is the load of its elements. If B is quantised, NUMBERS loads its numbers, and
	 * SCALE and ZERO load one element for each column and GROUP terms (null: 1, 0; GROUP 0: one
	 * for all terms). ORDERED: below the terms, panels have product_order_rows rows
	 * (passes/layout/panels_order.c). */
	bool b_panels, ordered;
	/* B has the order of TileRuns.shift (ir/loop/loop.h), for groups of GROUP_COLUMNS: its
	 * columns, all groups after one another, are one panel. The iterator of groups is the
	 * first of C's n. 0: B has not */
	int64_t group_columns;
	int kpack, terms;
	int64_t pw, group;
	Expr *numbers, *scale, *zero;

	/* product_begin, operand A: A_DIRECT: A is read in place with one stride, A_STEP.
	 * Otherwise, if RUN is less than the number of k iterators, A is read in segments: the
	 * iterators from RUN onwards merge and have RUN_TERMS points, and each point of the
	 * iterators before RUN has one segment. */
	bool a_direct;
	int run;
	Dim *run_terms;
	Expr *a_step;
	/* both operands are read as bf16, in pairs of terms */
	bool dot;
	bool matrix; /* product_use_matrix: tiles are in matrix registers */
	/* A is quantised, too: c.a is the load of its bytes, and ROW_SCALE that of the scale of
	 * ROW_GROUP terms (null: it is not). WHOLE_A is the operand. */
	Expr *row_scale, *whole_a;
	int64_t row_group;

	/* product_flatten: OUTER has the iterators of g, and those of n that do not merge; NIN has
	 * the iterators of n that merge into one, outermost first. M_MERGES: the m iterators have
	 * one stride in every access. M, N and KK are extents, STEPS the steps of all terms. */
	Iter *outer[MAX_ITERS], *nin[MAX_ITERS];
	int nouter, nnin;
	bool m_merges;
	Dim *m, *n, *kk, *steps;
} Product;

/* ---- Whether tiles can compute a contraction ---- */

/* Columns of a panel of constants that the N CPUs T share, if products are computed in CT: two
 * vectors of the widest CPU, and at least a cache line, divided by the bytes of CT. So f32 has
 * 16 columns up to AVX2 and 32 with AVX-512, f64 half as many. A narrower CPU's tile reads only
 * a part of each row; the parts fall into few sets of L1 and evict one another: its products
 * took 1.03 times as long on AVX2. */
int64_t product_panel(const Target *const *t, int n, CType ct);
/* C, a contraction of K, has enough columns for panels. On a CPU, any number is enough if the sums
 * are short, or slide over an image whose rows of pixels cannot be read in place. */
bool product_has_columns(Kernel *k, const Contraction *c, bool gpu);
/* C, a contraction of K, is a convolution of IMAGE with few output channels, those of
 * CHANNELS[0..N). Reading rows of pixels in place for each channel then takes less time than
 * packing vectors of pixels once, so the row strategy computes it, with its taps unrolled. False if
 * a row has few taps, or few pixels besides those at its ends, or if C has the phases of a
 * stride. */
bool product_reads_rows(Kernel *k, const Contraction *c, Expr *image, Iter *const *channels, int n);
/* Sorts the m and n iterators of C as the result is stored. */
void product_sort(Ctx *ctx, Contraction *c);
/* C, a contraction of K, can be computed in tiles; B_CONSTANT: B is a constant. */
bool product_pays(Kernel *k, const Contraction *c, bool b_constant, bool gpu);
/* All statements of K are a product and its epilogue, which tiles of a CPU can compute. */
bool product_is_whole(Kernel *k);

/* The matrix instruction of GPU for the types of C: the one with the largest k. MAY_ROUND: f32
 * operands may be rounded to tf32. */
MmaKind product_instruction(const Contraction *c, const Gpu *gpu, bool may_round);

/* ---- The product of a kernel ---- */

/* Statements FIRST to FIRST + NSTMTS - 1 of P are a product and the maps after it, all in the
 * band. */
bool product_open(Product *p);
/* Sets the band of P, whose C is set, and returns whether all of its statements are in it. */
bool product_in_band(Product *p);
/* Makes P all statements of K, and calls product_open. */
bool product_open_all(Product *p, Kernel *k);
/* Tiles of a CPU can compute P, which is open, with B as it is; sets what P says of B. */
bool product_tiles(Product *p);
/* Initialises P if kernel K is a product, with operands read in place where possible; false if
 * tiles of CPUs cannot compute K. */
bool product_begin(Product *p, Kernel *k);
/* product_begin for the NSTMTS statements of K from FIRST onwards, whose ids are their indices. */
bool product_begin_some(Product *p, Kernel *k, int first, int nstmts);
/* Packs A even if it could be read in place. A quantised A is packed in f32. */
void product_pack_a(Product *p);
/* The iterators of a product of groups that vectors across the groups can compute. */
typedef struct ProductGroups {
	Iter *group, *column, *term; /* in c.g, c.n and c.k, where TERM is the last one */
	int64_t columns;             /* of a group, as many as it has terms in a run */
} ProductGroups;
/* P, which is open, has the terms and the columns of a group side by side with those of the next
 * one, in A and in all results. */
bool product_in_groups(const Product *p, ProductGroups *g);
/* Packs B even if it is stored in panels. Its panels have PANEL_BYTES divided by the bytes of a
 * scalar of the product: 32 columns of f32. */
void product_pack_b(Product *p);
/* A is bf16, rounded or in memory, and B is in panels of bf16; product_use_dot makes tiles read
 * both in pairs of terms. */
bool product_has_dot(const Product *p);
void product_use_dot(Product *p);
/* P is of bytes, or of bf16 by dot, or of f32, so that matrix registers can multiply it; and they
 * do. */
bool product_has_matrix(const Product *p);
void product_use_matrix(Product *p);
/* Matrix registers multiply parts of P's f32 (SplitOperand in ir/loop/loop.h). */
bool product_by_parts(const Product *p);
/* Merges the iterators of P as far as the accesses allow; A_DIRECT and B_PANELS say how the
 * operands are read. Sets the extents. */
void product_flatten(Product *p);

/* ---- Questions ---- */

/* The rows that panels of bytes of WIDTH columns have below TERMS rows of terms, if they have an
 * order (passes/layout/panels_order.c); those of bits among them. */
int64_t product_order_rows(int64_t terms, int64_t width);
int64_t product_bits_rows(int64_t terms, int64_t width);
/* Panels of TERMS terms have flips; others have next terms, within each ORDER_TERMS. */
enum { ORDER_TERMS = 64 };
bool product_has_flips(int64_t terms);

/* The element type of operand E in panels and packed rows. */
DType product_packed_type(const Product *p, const Expr *e);
/* A split sum is divided at multiples of this many terms. */
int64_t product_part_step(const Product *p);
/* Statement S of P stores to memory: an output, or a sum that a later stage reads. */
bool product_stores(const Product *p, const Stmt *s);
/* The N iterators IT can be merged in all results and in all reads of the statements after the
 * product. */
bool product_joins_after(const Product *p, Iter *const *it, int n);
/* The iterator of the contraction that corresponds to iterator IT of statement S; IT itself if
 * there is none. */
Iter *product_iter(const Product *p, const Stmt *s, const Iter *it);

#endif
