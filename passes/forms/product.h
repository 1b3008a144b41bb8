/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A product of matrices as a kernel has it, acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n), and the
 * maps that follow it point by point: which tiles may compute it, and how they can read its operands.
 * Nothing here chooses; schedules say with product_pack_a, product_pack_b and product_use_dot what
 * they chose, which changes how the operands are read.
 */
#ifndef PASSES_FORMS_PRODUCT_H
#define PASSES_FORMS_PRODUCT_H

#include "passes/forms/band.h"
#include "passes/forms/contraction.h"
#include "passes/module.h"

/* The least rows or columns, and terms, for which a tile on a GPU pays. */
enum { GEMM_ROWS = 9, GEMM_TERMS = 8 };

enum {
	/* Bytes of a row of a panel that is packed at run time: those of a tile with the widest
	 * vectors. */
	PANEL_BYTES = 128,
	/* Bits of the contiguous terms of a column, in a panel of numbers of less than a byte: a
	 * lane of a vector, from which shifts take one term after the other. */
	PANEL_WORD = 32,
	/* Vectors of a tile's row: two independent sums hide the latency of the multiply-add. */
	TILE_VECTORS = 2,
	/* From so many channels of a convolution on, vectors of pixels are packed for all of
	 * them, rather than read in place for each; from half as many if the width is unknown.
	 * 3x3 from 32 channels of 128x128 took 3.0 ms packed for 3 and for 6 channels, and 0.66
	 * and 1.1 in place. */
	PACKED_CHANNELS = 8,
	/* Terms of a run of A for which reading it in place costs less than packing it. First
	 * layers of 3x3 and 32 channels took 226 us in runs of three, and 272 packed. */
	LEAST_RUN = 3,
	/* Least points of an iterator that is worth being the innermost loop: a vector of 16. */
	SHORT_LOOP = 16
};

/* Members that stand together are set together. */
typedef struct Product {
	/* product_open: statements FIRST to FIRST + NSTMTS - 1 of K are the product and the maps
	 * after it; C has its m and n iterators in the order in which the result is stored */
	Kernel *k;
	int first, nstmts;
	Contraction c;
	Band band;

	/* product_begin, operand B: KPACK terms are a step of the micro-kernel
	 * (contraction_kpack). B_PANELS: it is in panels of PW columns, of which TERMS of a column
	 * are contiguous. NUMBERS is the load of its elements, or of numbers that SCALE and ZERO,
	 * loads of one element for each GROUP terms and column, make such (null: 1, 0; GROUP 0:
	 * one for all terms). */
	bool b_panels;
	int kpack, terms;
	int64_t pw, group;
	Expr *numbers, *scale, *zero;

	/* product_begin, operand A: A_DIRECT: it is read in place, with one stride, A_STEP; else, if
	 * RUN is less than the number of k iterators, in runs: the iterators from RUN on merge,
	 * and have RUN_TERMS points; each point of those before has its run. */
	bool a_direct;
	int run;
	Dim *run_terms;
	Expr *a_step;
	/* both operands are read as bf16, in pairs of terms */
	bool dot;
	/* A is quantised, too: c.a is the load of its bytes, and ROW_SCALE that of the scale of
	 * ROW_GROUP terms (null: it is not). WHOLE_A is the operand. */
	Expr *row_scale, *whole_a;
	int64_t row_group;

	/* product_flatten: OUTER are the iterators of g, and those of n that do not merge; NIN
	 * those that merge to one, outermost first. M_MERGES: the m iterators have one stride in
	 * every access. M, N and KK are extents, STEPS the steps of all terms. */
	Iter *outer[MAX_ITERS], *nin[MAX_ITERS];
	int nouter, nnin;
	bool m_merges;
	Dim *m, *n, *kk, *steps;
} Product;

/* ---- Whether tiles take a contraction ---- */

/* Columns of a panel of constants for the N CPUs T, which share it: those of the widest one's tile,
 * and at least a line of the cache. Where a tile reads a part of each row instead, its part of the
 * panel shares few sets of L1: products on AVX2 took 1.03 times as long. */
int64_t product_panel(const Target *const *t, int n, CType ct);
/* C, of K, has enough columns for panels. On a CPU, few are enough if the sums are short, or slide
 * over an image that has no rows of pixels. */
bool product_has_columns(Kernel *k, const Contraction *c, bool gpu);
/* C, of K, is a convolution of IMAGE to so few channels, those of CHANNELS[0..N), that reading rows
 * of pixels in place for each of them takes less time than packing vectors of pixels for all: the
 * row strategy computes it, its taps unrolled. Not if a row has few taps, or few pixels beside
 * those at its ends, nor by phases of a stride. */
bool product_reads_rows(Kernel *k, const Contraction *c, Expr *image, Iter *const *channels, int n);
/* The m and n iterators of C in the order in which the result is stored. */
void product_sort(Ctx *ctx, Contraction *c);
/* C, of K, is one that tiles take; B_CONSTANT: B is a constant. */
bool product_pays(Kernel *k, const Contraction *c, bool b_constant, bool gpu);
/* All statements of K are a product and the maps after it (product_open). */
bool product_is_open(Kernel *k);
/* All statements of K are a product and its epilogue, which tiles of a CPU take. */
bool product_is_whole(Kernel *k);

/* The matrix instruction of GPU for the types of C: the one with the largest k. MAY_ROUND: f32
 * operands may be rounded to tf32. */
MmaKind product_instruction(const Contraction *c, const Gpu *gpu, bool may_round);

/* ---- The product of a kernel ---- */

/* The statements of P from FIRST on, NSTMTS of them, are a product and the maps after it, all of
 * them in the band. */
bool product_open(Product *p);
/* Makes P the product that kernel K is, with its operands read in place where that is possible;
 * false if tiles of CPUs do not take K. */
bool product_begin(Product *p, Kernel *k);
/* product_begin for the NSTMTS statements of K from FIRST on, whose ids are their numbers. */
bool product_begin_some(Product *p, Kernel *k, int first, int nstmts);
/* A is packed, even if it can be read in place; then in f32, if it is quantised. */
void product_pack_a(Product *p);
/* B is packed, even if it is stored in panels. */
void product_pack_b(Product *p);
/* A is of bf16, rounded or in memory, and B in panels of bf16; product_use_dot has them read in
 * pairs of terms. */
bool product_has_dot(const Product *p);
void product_use_dot(Product *p);
/* Merges the iterators of P as far as the accesses allow, where A_DIRECT and B_PANELS tell how the
 * operands are read; sets the extents. */
void product_flatten(Product *p);

/* ---- Questions ---- */

/* Bytes of an element of type CT. */
int64_t product_element_bytes(CType ct);
/* The element type of operand E in panels and packed rows. */
DType product_packed_type(const Product *p, const Expr *e);
/* A sum that is split into parts is split at multiples of so many terms. */
int64_t product_part_step(const Product *p);
/* Statement S of P stores to memory: an output, or a sum that a later stage reads. */
bool product_stores(const Product *p, const Stmt *s);
/* Iterators OUT and IN, the inner one, can be merged in all results and in all reads of the
 * statements after the product. */
bool product_merges_after(const Product *p, const Iter *out, const Iter *in);
/* The N iterators IT can be merged in all results and in all reads of the statements after the
 * product. */
bool product_joins_after(const Product *p, Iter *const *it, int n);
/* The iterator of the contraction that corresponds to iterator IT of statement S; IT itself if
 * there is none. */
Iter *product_iter(const Product *p, const Stmt *s, const Iter *it);

#endif
