/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of column reductions share: column_reduce.c has one reduction, columns.c several and the statements between them.
 */
#ifndef PASSES_SCHEDULE_GPU_COLUMN_REDUCE_IMPL_H
#define PASSES_SCHEDULE_GPU_COLUMN_REDUCE_IMPL_H

#include "passes/schedule/gpu/gpu_impl.h"

enum { COLUMN_THREADS = 256 };

typedef struct ColumnBlock {
	Row *r;
	int n, m;          /* of the band; M: a trial, -1 where the matrix has it */
	SkinnyRows skinny; /* none: a block has one row */
	int vector, bytes; /* of the accesses that are contiguous along N */
	int64_t by;        /* bytes from one term of it to the next; 0: that is not known */
	int threads,
		peeled; /* SKEWED: columns of a thread, a warp apart, where rows begin anywhere in a sector; else 0 */
	int64_t cols, rows;
	Iter *col, *row, *block, *some; /* SOME: which block of rows, null: one has all */
	Expr *guard;                    /* the column is there; null: all are */
	Expr *there, *valid;            /* the row is, and how many are; null: all are */
	Buf *acc;
	int64_t left; /* bytes that the block may share beside the states */
} ColumnBlock;

/* A temporary that S writes at points of the band has the block's points alone, as far as there is room for them. */
void column_local(ColumnBlock *x, const Stmt *s);
/* PART of S: stores VAL in OUT at AT for all of the block's points of the band. */
void column_store(const ColumnBlock *x, Stmt *s, Buf *out, Expr *at, Expr *val, LPart part);
/* S, placed, over what of its iterators the stage does not fix; none are joined yet. */
void column_points(ColumnBlock *x, const Stmt *s, Points *p);
/* S reduces, over the one iterator of P. */
void column_sum(ColumnBlock *x, Stmt *s, const Points *p);

#endif
