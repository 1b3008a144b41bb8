/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of rows of a thread group share: group.c has the stage, group_keep.c the values
 * that threads keep of the row, group_bulk.c the buffers that a block moves as a whole,
 * group_share.c how points are shared out to threads.
 */
#ifndef PASSES_SCHEDULE_GPU_GROUP_IMPL_H
#define PASSES_SCHEDULE_GPU_GROUP_IMPL_H

#include "passes/schedule/gpu/gpu_impl.h"

enum {
	MOST_KEPT = 8,  /* buffers that threads keep for one row, at most */
	MOST_ONES = 4,  /* values of one element per row, at most */
	BLOCK_ROWS = 8, /* rows of a block whose warps share reads */
	BLOCK_THREADS = BLOCK_ROWS * WARP,
	STATES = 2048 /* bytes of shared memory for partial states */
};

/* A statement of a row. */
typedef struct RowStmt {
	Stmt *s;
	Points p;
	Buf *out;
	bool along; /* it iterates over the row with Group.it */
	/* it computes into a kept buffer the value that the next part, S's write, stores */
	bool ahead;
} RowStmt;

/* A value that is read or computed once for each point of the row, and kept for the statements that
 * use it. */
typedef struct Kept {
	Buf *buf;
	Expr *is;    /* its value at Group.it */
	Expr *where; /* the condition under which it is read; null: always */
	bool temp;   /* a temporary of the row; else an input */
	bool block;  /* the same for all rows: fetched once to the block's shared memory */
	bool in_scratch; /* elements beyond those in registers are in the block's scratch, too, */
	int64_t at;  /* from this byte on */
} Kept;

typedef struct Group {
	Row *r;
	RowStmt *part;
	int n;
	Iter *it;           /* over the row; null: no statement iterates over it */
	Iter *const *split; /* the iterators of the stage, outermost first */
	int nsplit;
	/* over the skinny rows that the group computes one after the other; null: one row */
	Iter *skinny_row;
	Kept kept[MOST_KEPT];
	int nkept;
	/* inputs with one element for each row; the block's copies have one for each group */
	Staged one[MOST_ONES];
	int nones;
	int64_t shared; /* bytes of shared memory for the locals of a group */
	/* elements of one access; points of the row that a thread keeps in registers */
	int vector, keep;
	int scratch_points; /* further points of a thread whose elements are in the block's scratch */
	bool persistent;    /* persistent blocks: a block computes one row after another */
	Expr *peel; /* elements by which the first access begins before the row; null: 0 */
} Group;

/* ---- group.c ---- */

/* Upper bound of D, or INT64_MAX. */
int64_t group_length(const Group *t, Dim *d);

/* ---- group_keep.c ---- */

/* AT is just Group.it. */
bool group_at_point(const Group *t, const Expr *at);
/* Chooses the locals that threads keep in registers. Locals that are too large to be shared stay
 * temporaries in memory. True: there were some, so the statements have to be placed again. */
bool group_choose_kept(Group *t);
/* Splits statements whose output later statements read at the same point: a part of its own
 * computes the value, which is kept, and another one stores it. */
void group_keep_written(Group *t);
/* Keeps inputs that several statements or all rows read, and redirects the statements to the kept
 * values. Chooses between warps and blocks. */
void group_keep_reads(Group *t, const Gpu *gpu);

/* ---- group_share.c ---- */

/* E depends on a loop that only one statement has around the row. */
bool group_knows_loop(const Group *t, Expr *e);
/* Points of a row that a thread of GROUP threads can keep, with REGISTERS registers for each. */
int group_most_kept(int group, int registers);
/* Bytes of scratch that a persistent block needs to hold POINTS of BYTES each. */
int64_t group_scratch(int64_t points, int bytes);
/* Chooses the threads, the vector width and the registers for a row, and the scratch for points
 * beyond the registers. */
void group_share_out(Group *t, const Gpu *gpu);

/* ---- group_bulk.c ---- */

/* Finds the buffers whose short rows a block moves by bulk copies, through shared memory. */
void group_choose_bulk(Group *t);
bool group_is_bulk(const Group *t, const Buf *b);
/* group_share_ones finds inputs with one element per row and redirects the reads to the block's
 * copies. group_fetch_ones emits the loop that fetches these. */
void group_share_ones(Group *t);
void group_fetch_ones(Group *t);

#endif
