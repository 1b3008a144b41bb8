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

/* ---- gemm_decide.c ---- */

/* Rows and columns of a tile over panels of PW columns, whose accumulators fit into registers. */
void gemm_tile(const Target *t, CType ct, int64_t pw, int64_t *mr, int64_t *nr);
/* The members of strategy_table's row. */
bool product_choose(const Target *t, Kernel *k, Decision *d);
void product_reason(const Target *t, Kernel *k, const Decision *d, StrBuf *b);
bool product_legal(const Target *t, Kernel *k, const Decision *d, StrBuf *why);
int product_steps(const Target *t, Kernel *k, const Decision *d, SizeStep *step);

/* ---- gemm_text.c ---- */

void product_text(LineText *t, Kernel *k, Decision *d);
void attention_text(LineText *t, Kernel *k, Decision *d);

/* ---- gemm_offer.c ---- */

void product_offer(Offers *o, Kernel *k, const Decision *base);

/* ---- gemm_attention.c ---- */

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

void rows_text(LineText *t, Kernel *k, Decision *d);

/* ---- row_offer.c ---- */

void rows_offer(Offers *o, Kernel *k, const Decision *base);

#endif
