/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the strategy *contraction* on CPUs share (gemm.c says what it is). */
#ifndef PASSES_SCHEDULE_CPU_GEMM_IMPL_H
#define PASSES_SCHEDULE_CPU_GEMM_IMPL_H

#include "passes/schedule/common/gemm.h"

/* ---- gemm_pack.c ---- */

/* One past the last column of the block. */
Expr *gemm_block_end(Gemm *g);
/* Panels of the block that hold a column. */
Expr *gemm_panels(Gemm *g);
/* Bp[panel][k][column] of columns n0.. of the block. */
void gemm_pack_b(Gemm *g);
/* Ap[row][k] of the block's rows. */
void gemm_pack_a(Gemm *g);

/* ---- gemm_tile.c ---- */

/* The tiles of a block: panels outside where B's panel is to stay in L1 or L2 (packed weights; long sums in parts
 * of kc terms), tiles of rows outside where A is the larger. */
void gemm_emit_tiles(Gemm *g);

#endif
