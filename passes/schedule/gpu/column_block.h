/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A block of columns: adjacent columns whose terms the threads of a block share out. It is what the
 * strategies of column reductions have in common: column_reduce.c has one reduction, columns.c
 * several and the statements between them.
 */
#ifndef PASSES_SCHEDULE_GPU_COLUMN_BLOCK_H
#define PASSES_SCHEDULE_GPU_COLUMN_BLOCK_H

#include "passes/schedule/gpu/gpu_impl.h"

enum { COLUMN_THREADS = 256 };

typedef struct ColumnBlock {
	Row *r;
	/* band indices of the columns and of a candidate for the rows; m is -1 if the matrix
	 * depends on it */
	int n, m;
	SkinnyRows skinny; /* n is 0: one row */
	int vector, bytes; /* elements of an access along n, and bytes of the largest element */
	int64_t by;        /* bytes from one term to the next; 0: not known */
	/* peeled: columns of a thread, each a warp apart, where rows begin within a sector; else
	 * 0 */
	int threads, peeled;
	int64_t cols, rows;
	/* row_block: number of the block of rows; null: one block has all rows */
	Iter *col, *row, *block, *row_block;
	Expr *guard; /* the column exists; null: always */
	/* the row exists, and the number of rows that do; null: all */
	Expr *row_exists, *valid;
	Buf *acc;
	int64_t left; /* bytes of shared memory that are left beside the states */
} ColumnBlock;

/* Makes the temporary that S writes at points of the band a local of the block, if shared memory is
 * left for it. */
void column_local(ColumnBlock *x, const Stmt *s);
/* Stores VAL to OUT[AT] for all of the block's points of the band, as PART of S. */
void column_store(const ColumnBlock *x, Stmt *s, Buf *out, Expr *at, Expr *val, LPart part);
/* Emits reduction S over the one iterator of P. */
void column_sum(ColumnBlock *x, Stmt *s, const Points *p);

#endif
