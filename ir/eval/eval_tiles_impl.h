/* SPDX-License-Identifier: Apache-2.0 */
/* State shared by the interpreter of operations on tiles and the counts of their work. */
#ifndef IR_EVAL_EVAL_TILES_IMPL_H
#define IR_EVAL_EVAL_TILES_IMPL_H

#include "ir/eval/eval_tiles.h"

typedef enum TileState { TILE_EMPTY, TILE_VALID, TILE_IN_FLIGHT } TileState;

typedef struct TileStore {
	const Buf *buf;
	int64_t n, dim[TILE_RANK];
	double *value;
	char *state;
	int *group; /* TILE_IN_FLIGHT: the number of the commit that follows the copy */
} TileStore;

typedef struct TileIter {
	const Iter *it;
	int64_t value;
} TileIter;

typedef struct TileEval {
	const Schedule *s;
	const Stage *st;
	const TileRun *o;
	Ctx *c;
	Arena *a;
	ExprPool *p; /* for constants that fold */
	VEC(TileStore) tiles;
	VEC(TileIter) iters;
	int commits;
	const char *fault;
	int64_t block, counted; /* counted: operations that tile_count has seen */
} TileEval;

/* A value of an expression: I of integers and bool, F of floats. */
typedef struct TileValue {
	int64_t i;
	double f;
} TileValue;

/* ---- eval_tiles.c ---- */

/* Warps of a block of ST, its producers too. */
int64_t tile_block_warps(const Stage *st);
TileValue tile_eval(TileEval *e, const Expr *x);
void tile_bind(TileEval *e, const Iter *it, int64_t v);

/* ---- eval_tile_counts.c ---- */

/* Adds what the threads of the block do for N to the counts of E's run. */
void tile_count(TileEval *e, const TileNode *n);
/* Adds what a block does to find whether it is the last of BLOCKS (LOOP_LAST). */
void tile_count_last(TileEval *e, int64_t blocks);

#endif
