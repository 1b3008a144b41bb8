/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules for GPUs: the entry points. */
#ifndef PASSES_SCHEDULE_GPU_GPU_H
#define PASSES_SCHEDULE_GPU_GPU_H

#include "passes/forms/contraction.h"
#include "passes/schedule/common/loops.h"

/* ---- sched_gpu.c ---- */

/* Appends the stages of all statements of K to S. */
void sched_gpu(const Target *t, Kernel *k, Schedule *s);
enum { MOST_STEPS = 16 };
/* The sizes for which K has variants on T, in the order in which a run tests them; returns their
 * number. Each strategy chooses its own sizes. */
int sched_gpu_steps(const Target *t, Kernel *k, SizeStep *step);

/* ---- attention_decide.c ---- */

/* The functions of the strategy *attention* (passes/schedule/common/decision.h, StrategyInfo). */
struct Decision;
struct LineText;
struct Offers;
bool gpu_attention_choose(const Target *t, Kernel *k, struct Decision *d);
bool gpu_attention_legal(const Target *t, Kernel *k, const struct Decision *d, StrBuf *why);
int gpu_attention_steps(const Target *t, Kernel *k, const struct Decision *d, SizeStep *step);
void gpu_attention_offer(struct Offers *o, Kernel *k, const struct Decision *base);
void gpu_attention_reason(const Target *t, Kernel *k, const struct Decision *d, StrBuf *b);

/* ---- attention_emit.c ---- */

/* The loop tree of decision D. */
void gpu_attention_emit(const Target *t, Kernel *k, const struct Decision *d, Schedule *s);

/* ---- attention_text.c ---- */

/* Decisions as text; attention_text.c has the grammar. */
void gpu_attention_text(struct LineText *t, Kernel *k, struct Decision *d);

/* ---- gemm_decide.c ---- */

/* The functions of the strategy *product*. */
struct ProductVariant;
bool gpu_product_choose(const Target *t, Kernel *k, struct Decision *d);
bool gpu_product_legal(const Target *t, Kernel *k, const struct Decision *d, StrBuf *why);
void gpu_product_emit(const Target *t, Kernel *k, const struct Decision *d, Schedule *s);
void gpu_product_offer(struct Offers *o, Kernel *k, const struct Decision *base);
void gpu_product_reason(const Target *t, Kernel *k, const struct Decision *d, StrBuf *b);
int gpu_product_steps(const Target *t, Kernel *k, const struct Decision *d, SizeStep *step);

/* ---- gemm_decide_text.c ---- */

/* Decisions as text; gemm_decide_text.c has the grammar. */
void gpu_product_text(struct LineText *t, Kernel *k, struct Decision *d);

/* ---- gemm_variants.c ---- */

/* sched_gpu_steps for matrix products. */
int gemm_gpu_steps(const Target *t, Kernel *k, SizeStep *step);

/* ---- gemm.c ---- */

/* Schedules a contraction, and the statements that follow it up to statement LAST, in tiles
 * (passes/schedule/gpu/gemm.c). sched_gpu_parts: the number of parts into which split-K should cut
 * the sum for the runs that S serves, or 1. The cut is along iterator *ALONG. A part has *EACH
 * terms; where the number of terms is unknown, at least that many. */
bool sched_gpu_contraction(const Target *t, Kernel *k, int last, Schedule *s);
/* The same of K whose first statement is a product's partial sums, and whose others combine them,
 * in one stage; false if K is not of this form. */
bool sched_gpu_in_parts(const Target *t, Kernel *k, Schedule *s);
int64_t sched_gpu_parts(const Target *t, Kernel *k, const Schedule *s, Iter **along, int64_t *each);

/* ---- multiples.c ---- */

/* Sets the members of STEP for runs in which all row strides of K that are symbols are whole
 * vectors. False if K has none, or too many. */
bool gpu_multiples(Kernel *k, SizeStep *step);
/* Substitutes these sizes in K, a copy of the kernel for STEP, and in STEP's own. */
void gpu_take_multiples(Kernel *k, SizeStep *step);
/* Whether the accesses of A are wider than those of B. */
bool gpu_wider(const Schedule *a, const Schedule *b);

#endif
