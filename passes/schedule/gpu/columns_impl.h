/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of columns share. A block has adjacent columns, whose terms its threads share out:
 * columns_reduce.c has one reduction, columns.c several, the statements between them and the loops
 * over a block's elements, columns_staged.c the buffers that a block holds in shared memory.
 */
#ifndef PASSES_SCHEDULE_GPU_COLUMNS_IMPL_H
#define PASSES_SCHEDULE_GPU_COLUMNS_IMPL_H

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

enum { MOST_TILES = 8 };

/* A value that the block holds in shared memory: an input that several statements read, or that one
 * statement reads for all columns alike; or, with no LOAD, a temporary that a statement of the
 * stage computes. */
typedef struct ColumnValue {
	Expr *load;
	Buf *buf; /* the block's copy */
	const Buf *temp;
	Expr *at; /* index at which the temporary is written */
	/* an input: the number of statements that read it; a temporary: the statement that writes
	 * it. The last statement that reads it, which may write a temporary to the same slot */
	int in, last;
	DType type;
	bool in_order;  /* a temporary whose elements have the order of the inputs */
	bool elsewhere; /* it is also read at other points than the current one */
	bool shared;    /* it depends only on the terms: all columns read the same elements */
	int slot;
} ColumnValue;

typedef struct Columns {
	ColumnBlock x;
	Merged *group; /* merged band iterators, the last of which is X.N */
	Merged all[MAX_ITERS];
	int n;
	Iter *term;
	int64_t terms; /* upper bound of the number of terms */
	ColumnValue tile[MOST_TILES];
	int ntiles, at;                      /* at: the current statement */
	const ColumnValue *slot[MOST_TILES]; /* by slot: the first value that lies there */
	int slots;
	/* columns of a block, X.COLS of which have states; threads along the columns */
	int64_t wide, side;
	Expr *many; /* number of columns that exist */
	bool run;   /* the block's rows are one contiguous range */
	/* rows in memory begin at multiples of this many elements, SECTOR at most */
	int64_t begins;
} Columns;

/* ---- columns_reduce.c ---- */

/* Makes the temporary that S writes at points of the band a local of the block, if shared memory is
 * left for it. */
void column_local(ColumnBlock *x, const Stmt *s);
/* Stores VAL to OUT[AT] for all of the block's points of the band, as PART of S. */
void column_store(const ColumnBlock *x, Stmt *s, Buf *out, Expr *at, Expr *val, LPart part);
/* Emits reduction S over the one iterator of P. */
void column_sum(ColumnBlock *x, Stmt *s, const Points *p);

/* ---- columns_staged.c ---- */

/* AT is contiguous along the columns and differs from term to term. Notes the alignment of its
 * rows. */
bool columns_run(Columns *c, Expr *at);
/* Notes that B is accessed along the columns: a sector is counted in elements of the smallest type
 * that is. */
void columns_see(Columns *c, const Buf *b);
/* Finds the inputs that VAL, the value of statement C.AT, reads along the columns. */
void columns_find(Columns *c, Expr *val);
/* Statement C.AT is S, and writes a temporary of all terms at AT. False if the block cannot hold
 * it. */
bool columns_make(Columns *c, const Stmt *s, Expr *at);
/* Decides which values the block holds, and assigns slots. */
void columns_hold(Columns *c);
/* Shared memory does not suffice: drops the inputs, which are read from memory each time. False if
 * temporaries are held, or there is none to drop. */
bool columns_let_go(Columns *c);
/* Bytes of slot I. */
int64_t columns_bytes(const Columns *c, int i);
/* Emits the loops that fetch the held inputs to shared memory. */
void columns_fetch(Columns *c);
/* Declares the shared buffer of the temporary that S writes, if the block holds it. The columns are
 * its innermost axis. */
void columns_local(Columns *c, const Stmt *s);
/* VAL, of the current statement, with loads of held inputs replaced by loads of their copies. */
Expr *columns_held(Columns *c, Expr *val);

/* ---- columns.c ---- */

/* Emits OUT[TO] = VAL for all elements of the block. AT is the index in memory that the loop reads
 * or writes along; null: it accesses shared memory only. */
LNode *columns_each(Columns *c, Expr *at, Buf *out, Expr *to, Expr *val);

#endif
