/* SPDX-License-Identifier: Apache-2.0 */
/* Declarations shared by the files of the strategy *attention* on CPUs (see gemm_attention.c). */
#ifndef PASSES_SCHEDULE_CPU_GEMM_ATTENTION_H
#define PASSES_SCHEDULE_CPU_GEMM_ATTENTION_H

#include "passes/forms/attention.h"
#include "passes/schedule/common/row.h"
#include "passes/schedule/cpu/gemm_impl.h"

/* An attention, and the state of its loop tree while it is built. NC of both products is 0. */
typedef struct AttentionPlan {
	AttentionForm at;
	LBuild b;
	Gemm scores, values;
	bool bounded; /* scores.when holds for scores below TILE_BOUND in magnitude */
} AttentionPlan;

/* ---- gemm_attention.c ---- */

/* There are batches, and the keys or the values of one are rows in memory, which can be
 * prefetched. */
bool attention_may_fetch(const AttentionForm *a);

/* ---- gemm_attention_mask.c ---- */

/* Sets a->scores.when, if that pays, and a->bounded. */
void attention_skip_scores(AttentionPlan *a);
/* If a->bounded, emits the sum of the squares of the packed keys, and sets a->scores.squares to
 * it. */
void attention_sum_squares(AttentionPlan *a);
/* Emits the sum of the packed values times 0, which is 0 if all are finite, and sets
 * a->values.trim to it; if that pays. */
void attention_trim_values(AttentionPlan *a);

#endif
