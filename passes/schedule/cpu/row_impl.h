/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the row strategy on CPUs share. */
#ifndef PASSES_SCHEDULE_CPU_ROW_IMPL_H
#define PASSES_SCHEDULE_CPU_ROW_IMPL_H

#include "passes/schedule/common/row.h"

enum {
	BLOCK = 512,
	BLOCK_MAP = 4096,
	BLOCK_STENCIL = 64,
	TILE_STENCIL = 32,
	SIDE_BY_SIDE = 4,
	GRAIN_POINTS = 16384
};

/* ---- row_reduce.c ---- */

/* Emits a reduction with v innermost: a block of states, updated a row of terms at a time. */
void row_emit_reduce_vector(Row *r, Stmt *s);

/* ---- row_stencil.c ---- */

/* Emits a stencil along a band iterator that is not v; false if S is none. */
bool row_emit_stencil(Row *r, Stmt *s);
/* The band iterator that the stencils of the stage slide along, or -1. */
int row_stencil_iter(const Row *r);

#endif
