/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules for CPUs: matrix products (gemm.c) and everything else (row.c). These functions are
 * members of strategy_table (common/decision.h), which says what they do.
 */
#ifndef PASSES_SCHEDULE_CPU_CPU_H
#define PASSES_SCHEDULE_CPU_CPU_H

#include "passes/forms/contraction.h"
#include "passes/schedule/common/decision.h"
#include "passes/schedule/common/loops.h"

/* ---- gemm.c ---- */

/* The loop tree of decision D, a product. */
void product_emit(const Target *t, Kernel *k, const Decision *d, Schedule *s);
/* Columns of a panel of constants for the N CPUs T, which share it: those of the widest one's tile,
 * and at least a line of the cache. Where a tile reads a part of each row instead, its part of the
 * panel shares few sets of L1: products on AVX2 took 1.03 times as long. */
int64_t gemm_panel(const Target *const *t, int n, CType ct);
/* C, of K, has enough columns for panels. On a CPU, few are enough if the sums are short, or slide
 * over an image that has no rows of pixels. */
bool gemm_has_columns(Kernel *k, const Contraction *c, bool gpu);
/* C, of K, is a convolution of IMAGE to so few channels, those of CHANNELS[0..N), that reading rows
 * of pixels in place for each of them takes less time than packing vectors of pixels for all: the
 * row strategy computes it, its taps unrolled. Not if a row has few taps, or few pixels beside
 * those at its ends, nor by phases of a stride. */
bool gemm_reads_rows(Kernel *k, const Contraction *c, Expr *image, Iter *const *channels, int n);
/* K is a contraction that the strategy takes; B_CONSTANT: B is a constant. *C: the contraction,
 * with its m and n iterators in the order in which the result is stored. */
bool gemm_takes(Kernel *k, Contraction *c, bool b_constant, bool gpu);
/* All statements of K are a product and its epilogue, which the strategy takes on CPU T. */
bool gemm_is_whole(const Target *t, Kernel *k);

/* ---- gemm_decide.c ---- */

/* Rows and columns of a tile over panels of PW columns, whose accumulators fit into registers. */
void gemm_tile(const Target *t, CType ct, int64_t pw, int64_t *mr, int64_t *nr);
/* The members of strategy_table's row. */
bool product_choose(const Target *t, Kernel *k, Decision *d);
void product_reason(const Target *t, Kernel *k, const Decision *d, StrBuf *b);
bool product_legal(const Target *t, Kernel *k, const Decision *d, StrBuf *why);

/* ---- gemm_text.c ---- */

void product_print(StrBuf *b, Kernel *k, const Decision *d);
bool product_parse(Kernel *k, const char *text, Decision *d, StrBuf *why);
void attention_print(StrBuf *b, Kernel *k, const Decision *d);
bool attention_parse(Kernel *k, const char *text, Decision *d, StrBuf *why);

/* ---- gemm_offer.c ---- */

void product_offer(Offers *o, Kernel *k, const Decision *base);

/* ---- gemm_attention.c ---- */

/* K is an attention that the strategy takes on every CPU: a product, statements that share its
 * rows, and a product that sums along them. */
bool attention_takes(Kernel *k);
/* The loop tree of decision D, an attention. */
void attention_emit(const Target *t, Kernel *k, const Decision *d, Schedule *s);

/* ---- gemm_attention_decide.c ---- */

/* The members of strategy_table's row. */
bool attention_choose(const Target *t, Kernel *k, Decision *d);
bool attention_legal(const Target *t, Kernel *k, const Decision *d, StrBuf *why);
void attention_offer(Offers *o, Kernel *k, const Decision *base);

/* ---- row.c ---- */

/* The loop tree of decision D, a map, row or order. */
void rows_emit(const Target *t, Kernel *k, const Decision *d, Schedule *s);

/* ---- row_decide.c ---- */

/* The members of strategy_table's rows. */
bool map_choose(const Target *t, Kernel *k, Decision *d);
bool row_choose_all(const Target *t, Kernel *k, Decision *d);
bool order_choose(const Target *t, Kernel *k, Decision *d);
void rows_reason(const Target *t, Kernel *k, const Decision *d, StrBuf *b);

/* ---- row_legal.c ---- */

bool rows_legal(const Target *t, Kernel *k, const Decision *d, StrBuf *why);

/* ---- row_text.c ---- */

void rows_print(StrBuf *b, Kernel *k, const Decision *d);
bool rows_parse(Kernel *k, const char *text, Decision *d, StrBuf *why);

/* ---- row_offer.c ---- */

void rows_offer(Offers *o, Kernel *k, const Decision *base);

#endif
