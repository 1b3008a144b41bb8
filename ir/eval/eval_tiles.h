/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter of operations on tiles: it executes stages of them as they stand, block after block
 * and operation after operation, each at all of its points. So a wrong index, mask or order shows
 * without code generation. An element that nothing wrote, or that an asynchronous copy has not brought
 * for certain, must not be read. A DOT adds its products in f64 and rounds once. Layouts and races are not its business: tiles_verify and the checks
 * of barriers look at these.
 */
#ifndef IR_EVAL_EVAL_TILES_H
#define IR_EVAL_EVAL_TILES_H

#include "ir/loop/loop.h"

typedef struct TileRun {
	const int64_t *sym;  /* values of symbols, by Sym.id */
	void *const *memory; /* by Buf.id: the elements of operands and results, in their types */
} TileRun;

/* Runs S. Returns null, or what went wrong, in the arena of S's kernel. */
const char *tiles_run(const Schedule *s, const TileRun *o);

#endif
