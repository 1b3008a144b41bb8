/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Schedules for CPUs: matrix products (gemm.c) and everything else (row.c). A strategy appends
 * stages to schedule S of kernel K. If the kernel is not of its kind, it returns false and does
 * nothing.
 */
#ifndef PASSES_SCHEDULE_CPU_CPU_H
#define PASSES_SCHEDULE_CPU_CPU_H

#include "passes/kernel/contraction.h"
#include "passes/schedule/common/loops.h"

struct Band;

/* ---- gemm.c ---- */

/* Schedules all statements as a blocked matrix product. */
bool sched_contraction(const Target *t, Kernel *k, Schedule *s);
/* Columns of a panel of B: the same for every CPU, so that variants share packed weights. */
int64_t gemm_panel(CType t);
/* Rows and columns of a tile, whose accumulators fit into registers. */
void gemm_tile(const Target *t, CType ct, int64_t *mr, int64_t *nr);
/* K is a contraction that the strategy takes; B_CONSTANT: B is a constant. *C: the contraction,
 * with its m and n iterators in the order in which the result is stored. */
bool gemm_takes(Kernel *k, Contraction *c, bool b_constant);
/* All statements of K are a product and its epilogue, which the strategy takes on CPU T. */
bool gemm_is_whole(const Target *t, Kernel *k);

/* ---- row.c ---- */

/* Schedules all statements as one stage under their common band. */
bool sched_row(Kernel *k, Schedule *s);
/* Schedules one statement after the other, which is possible for every kernel. */
void sched_order(Kernel *k, Schedule *s);
/* Schedules statements FIRST..LAST of K as one stage under BAND. */
void row_stage(LBuild *b, const char *strategy, int first, int last, const struct Band *band);

#endif
