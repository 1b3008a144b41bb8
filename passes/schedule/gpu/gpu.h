/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules for GPUs: the entry points. */
#ifndef PASSES_SCHEDULE_GPU_GPU_H
#define PASSES_SCHEDULE_GPU_GPU_H

#include "passes/kernel/contraction.h"
#include "passes/schedule/common/loops.h"

/* ---- sched_gpu.c ---- */

/* Appends stages of all statements of K to S. */
void sched_gpu(const Module *m, const Target *t, Kernel *k, Schedule *s);
enum { MOST_STEPS = 16 };
/* For which sizes K has variants on T, in the order in which a run asks; how many. A strategy names its own. */
int sched_gpu_steps(const Module *m, const Target *t, Kernel *k, SizeStep *step);

/* ---- gemm.c: matrix products ---- */

/* A contraction on a GPU, in tiles (passes/schedule/gpu/gemm.c), with what follows it up to statement LAST. Into how many parts its
 * sum, along iterator *ALONG, is better split where S is to serve, or 1: a part has *EACH terms, or, where it is not known how
 * many there are, so many or more. */
bool sched_gpu_contraction(const Module *m, const Target *t, Kernel *k, int last, Schedule *s);
int64_t sched_gpu_parts(const Module *m, const Target *t, Kernel *k, const Schedule *s, Iter **along, int64_t *each);
/* The instruction of GPU for products of tiles of C, the one with most terms; MAY_ROUND: to tf32. */
MmaKind gemm_gpu_instruction(const Contraction *c, const Gpu *gpu, bool may_round);

/* ---- gemm_variants.c ---- */

/* Those of products (passes/schedule/gpu/gemm_variants.c). */
int gemm_gpu_steps(const Module *m, const Target *t, Kernel *k, SizeStep *step);

/* ---- gemm_tiles_text.c ---- */

/* TEXT of FILE can be Options.tiles; else a diagnostic (passes/schedule/gpu/gemm_tiles_text.c). IS_GPU: whether that is a target's name. */
bool gemm_tiles_check(const char *text, const char *file, bool (*is_gpu)(const char *), Diag *d);

#endif
