/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter of operations on tiles: it executes stages of them as they stand, block after
 * block and operation after operation, each at all of its points. So a wrong index, mask or order
 * shows without code generation. An element that nothing wrote, or that an asynchronous copy has
 * not brought for certain, must not be read. A DOT adds its products in f64 and rounds once.
 * Layouts and races are not its business: tiles_verify and the checks of barriers look at these.
 */
#ifndef IR_EVAL_EVAL_TILES_H
#define IR_EVAL_EVAL_TILES_H

#include "ir/loop/loop.h"

/*
 * Counts of the work of all blocks in operations on tiles, as tools/ptxsim/count.h defines them:
 * matrix instructions and arrivals at barriers by warp, asynchronous copies by thread, the accesses
 * of warps, their bytes, and sectors of 32 bytes of memory or passes of shared memory beyond the
 * fewest. If an operation loads an element several times and no store in between may change it, one
 * load counts.
 */
#define TILE_COUNTERS(X)          \
	X(mma)                    \
	X(barriers)               \
	X(async_copies)           \
	X(global_load_requests)   \
	X(global_load_sectors)    \
	X(global_load_bytes)      \
	X(global_store_requests)  \
	X(global_store_sectors)   \
	X(global_store_bytes)     \
	X(shared_load_requests)   \
	X(shared_load_conflicts)  \
	X(shared_load_bytes)      \
	X(shared_store_requests)  \
	X(shared_store_conflicts) \
	X(shared_store_bytes)     \
	X(shared_bytes)

typedef struct TileCounts {
#define X(name) int64_t name;
	TILE_COUNTERS(X)
#undef X
} TileCounts;

typedef struct TileRun {
	const int64_t *sym;  /* values of symbols, by Sym.id; null: there are none */
	void *const *memory; /* by Buf.id: the elements of operands and results, in their types */
	TileCounts *
		counts; /* operations are counted instead, and what they read is 0; null: they run */
} TileRun;

/* Runs S. Returns null, or what went wrong, in the arena of S's kernel. */
const char *tiles_run(const Schedule *s, const TileRun *o);
/* Counts the work of stage ST of S, whose sizes are constant; else, or if it has other nodes,
 * returns why not. */
const char *tiles_count(const Schedule *s, const Stage *st, TileCounts *counts);

#endif
