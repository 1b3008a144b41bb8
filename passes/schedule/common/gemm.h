/* SPDX-License-Identifier: Apache-2.0 */
/* What `layout` and the contraction strategy agree on: which kernels are blocked matrix products, and how
 * their constant operands are packed. */
#ifndef PASSES_SCHEDULE_COMMON_GEMM_H
#define PASSES_SCHEDULE_COMMON_GEMM_H

#include "passes/kernel/kernels.h"
#include "passes/module.h"

/* Fewer rows or columns, or terms, are not worth a tile on a GPU. */
enum { GEMM_ROWS = 9, GEMM_TERMS = 8 };
/* Columns of a panel of B: the same for every CPU, so that variants share packed weights. */
int64_t gemm_panel(CType t);
/* Rows and columns of a tile, whose accumulators are in registers. */
void gemm_tile(const Target *t, CType ct, int64_t *mr, int64_t *nr);
/* K is a contraction that the strategy takes, given whether B is a constant; its m and n iterators in *C are
 * sorted as the result is stored. */
bool gemm_takes(Kernel *k, Contraction *c, bool b_constant);

/* All statements of K are a product and what follows it, which the strategy takes on CPU T. */
bool gemm_is_whole(const Target *t, Kernel *k);

/* The instruction of GPU for products of tiles of C, the one with most terms; MAY_ROUND: to tf32. */
MmaKind gemm_gpu_instruction(const Contraction *c, const Gpu *gpu, bool may_round);

/* TEXT of FILE can be Options.tiles; else a diagnostic (passes/schedule/gpu/gemm_tiles_text.c). IS_GPU: whether that is a target's name. */
bool gemm_tiles_check(const char *text, const char *file, bool (*is_gpu)(const char *), Diag *d);

/* E of node N reads constants alone, and no size. */
bool expr_is_weights(Module *m, const Node *n, Expr *e);
/* Packs the constant operand of N's contraction into panels (passes/layout/panels.c); false where there is none. */
bool pack_operand(Module *m, Node *n);

#endif
