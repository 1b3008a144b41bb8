/* SPDX-License-Identifier: Apache-2.0 */
/* State and functions shared by the files of the row strategy on CPUs. */
#ifndef PASSES_SCHEDULE_CPU_ROW_IMPL_H
#define PASSES_SCHEDULE_CPU_ROW_IMPL_H

#include "passes/schedule/common/row.h"

enum {
	/* Points of the vector iterator in one iteration: states of a block stay in L1. */
	ROW_BLOCK = 512,
	/* A stencil's tile is a rectangle, whose other side has up to TILE_POINTS. */
	STENCIL_BLOCK = 64,
	TILE_POINTS = 32,
	/* Adjacent points of a stencil that share their loads. With two vectors each, more of them
	 * would not keep their states in 16 registers. */
	STENCIL_POINTS = 4
};

/* A stage before it is emitted: statements FIRST..LAST under BAND, as STAGE and, by Stmt.id, HOW
 * say. */
typedef struct RowPlan {
	const char *strategy;
	int first, last;
	const Band *band;
	RowStage *stage;
	StmtDecision *how;
	int64_t grain;
} RowPlan;

/* ---- row.c ---- */

/* Stage number STAGE of D, a decision for K; *BAND: its band. */
RowPlan row_plan(Kernel *k, const Decision *d, int stage, Band *band);
/* Opens the stage of PLAN. Statements follow in order: row_begin, row_hold, and the nodes. */
Row row_open_stage(LBuild *b, const RowPlan *plan);
/* Only the stage uses T, statement S is the first that writes to it, and the others index it by
 * the same band iterators, so it need not be stored. */
bool row_may_hold(const Row *r, const Stmt *s, const Buf *t);
/* Declares the locals that hold the result of S, if its decision says so. */
void row_hold(Row *r, Stmt *s);
/* Emits the stage of PLAN. */
void row_emit_stage(LBuild *b, const RowPlan *plan);

/* ---- row_decide.c ---- */

/* S is a reduction that keeps states until all of its terms are combined. */
bool row_has_states(const Stmt *s);
/* K can be one stage under the common band of its statements. */
bool rows_one_stage(Kernel *k);
/* Chooses the stage and the statements of PLAN. */
void row_choose(const Target *t, LBuild *b, const RowPlan *plan);

/* ---- row_reduce.c ---- */

/* Whether REDUCE_TAPS is possible for S, the current statement: the taps need no guard but at
 * the ends of the row. */
bool row_taps_fit(Row *r, Stmt *s);
/* Emits a reduction with v innermost: a block of states, updated a row of terms at a time. */
void row_emit_reduce_vector(Row *r, Stmt *s);

/* ---- row_stencil.c ---- */

/* Whether S, the current statement, is a stencil along the tile. */
bool row_is_stencil(Row *r, Stmt *s);
/* The id of the last statement of the stage, if each one after the stencil S is a map of the
 * same points, which can be computed where the state of a point is stored; else that of S. */
int row_stencil_through(const Row *r, const Stmt *s);
/* Emits such a stencil, and the statements after it up to THROUGH. */
void row_emit_stencil(Row *r, Stmt *s, int through);
/* The band iterator that the stencils of the stage slide along, or -1. */
int row_stencil_iter(const Row *r);

#endif
