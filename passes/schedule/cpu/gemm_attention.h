/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the strategy *attention* on CPUs share (gemm_attention.c says what it is). */
#ifndef PASSES_SCHEDULE_CPU_GEMM_ATTENTION_H
#define PASSES_SCHEDULE_CPU_GEMM_ATTENTION_H

#include "passes/schedule/common/row.h"
#include "passes/schedule/cpu/gemm_impl.h"

/* An attention kernel, and the state of its loop tree while it is built. */
typedef struct AttentionPlan {
	Kernel *k;
	LBuild b;
	/* scores[g,m,n] = sum over k of Q*K, with the maps after it; values[g,m,d] = sum over n of
	 * weights[g,m,n] * V, with the maps after it. NC of both is 0. */
	Gemm scores, values;
	Band band;         /* g and m, of all statements */
	int first, last;   /* the statements between the two products, which make the weights */
	/* by Buf.id: a thread's rows of the temporary are in memory at once: the scores that
	 * FIRST..LAST read, and the weights */
	bool *rows;
	int nbufs; /* entries of ROWS */
	bool bounded; /* scores.when holds for scores below TILE_BOUND in magnitude */
	Buf *weights;
} AttentionPlan;

/* ---- gemm_attention.c ---- */

/* Makes A the attention that kernel K is; false if K is none. */
bool attention_begin(AttentionPlan *a, Kernel *k);

/* There are batches, and the keys or the values of one are rows in memory, which can be prefetched. */
bool attention_may_fetch(const AttentionPlan *a);
/* The temporaries of which whole rows are in memory. */
int attention_row_temps(const AttentionPlan *a);

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
