/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of columns share: columns.c has the stage, columns_staged.c the buffers that a block holds in shared memory,
 * columns_loop.c the loops over its elements.
 */
#ifndef PASSES_SCHEDULE_GPU_COLUMNS_IMPL_H
#define PASSES_SCHEDULE_GPU_COLUMNS_IMPL_H

#include "passes/schedule/gpu/column_reduce_impl.h"

enum { MOST_TILES = 8 };

/* What several statements read of the columns, or one reads for all of them; or, no LOAD, a temporary that one makes of them. */
typedef struct ColumnValue {
	Expr *load;
	Buf *buf; /* what the block has of it */
	const Buf *temp;
	Expr *at; /* where the temporary is written */
	int in, last; /* how many statements read it; the last one, which may write another in its place */
	DType type;
	bool in_order;  /* a temporary, and lies as what is read does */
	bool elsewhere; /* it is read at other points than the current one, too */
	bool shared;    /* all columns read the same of it: it is of the terms alone */
	int slot;
} ColumnValue;

typedef struct Columns {
	ColumnBlock x;
	Merged *group; /* of the band, whose last one has N */
	Merged all[MAX_ITERS];
	int n;
	Iter *term;
	int64_t terms; /* at most */
	ColumnValue tile[MOST_TILES];
	int ntiles, at;                      /* AT: the current statement */
	const ColumnValue *slot[MOST_TILES]; /* who was there first */
	int slots;
	int64_t wide,
		side; /* columns of a block, of which X.COLS have states, and threads along them */
	Expr *many;   /* those that exist */
	bool run;     /* its rows are one run */
	int64_t begins; /* rows in memory begin at multiples of so many elements; SECTOR or less */
} Columns;

/* S goes over more than the band. */
bool columns_inner(const Row *r, const Stmt *s);
/* AT is contiguous along the columns, and each term is in another row: rows in memory may begin there. */
bool columns_run(Columns *c, Expr *at);
/* B lies along columns: sectors have elements of the smallest type that does. */
void columns_see(Columns *c, const Buf *b);
/* Finds what statement C.AT, whose value is VAL, reads of the columns. */
void columns_find(Columns *c, Expr *val);
/* Statement C.AT is S, which makes a temporary of all terms AT; false where it cannot be the block's. */
bool columns_make(Columns *c, const Stmt *s, Expr *at);
/* What of all that the block is to hold, and where. */
void columns_hold(Columns *c);
/* There is no room: what is read of the columns is read from memory each time; then what all columns share is, too. False where
 * temporaries are held, or nothing is. */
bool columns_let_go(Columns *c);
/* Bytes of slot I. */
int64_t columns_bytes(const Columns *c, int i);
/* Fetches what the block holds of memory. */
void columns_fetch(Columns *c);
/* What S writes, where the block holds it: its columns come last. */
void columns_local(Columns *c, const Stmt *s);
/* VAL, of the current statement, with loads of staged temporaries replaced by those of their tiles. */
Expr *columns_held(Columns *c, Expr *val);
/* A thread's N of all terms are written out. */
bool columns_unrolled(const Columns *c, int64_t n);
/* OUT[TO] = VAL for all of the block's elements, where memory is accessed AT; null: it is not. */
LNode *columns_each(Columns *c, Expr *at, Buf *out, Expr *to, Expr *val);

#endif
