/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of rows of a thread group share: group.c has the stage, group_keep.c the values that threads keep of the row,
 * group_bulk.c the buffers that a block moves as a whole, group_share.c how points are shared out to threads.
 */
#ifndef PASSES_SCHEDULE_GPU_GROUP_IMPL_H
#define PASSES_SCHEDULE_GPU_GROUP_IMPL_H

#include "passes/schedule/gpu/gpu_impl.h"

enum {
	MOST_KEPT = 8,  /* buffers of one row at most */
	MOST_ONES = 4,  /* elements of one row that a block has for all of its rows */
	BLOCK_ROWS = 8, /* warps of a block that shares what they read, */
	BLOCK_THREADS = BLOCK_ROWS * WARP,
	STATES = 2048 /* bytes of shared memory for partial states */
};

/* A statement of a row. */
typedef struct RowStmt {
	Stmt *s;
	Points p;
	Buf *out;
	bool along; /* it iterates over the row, by Group.it */
	bool ahead; /* it makes what the next part stores, which is S's write */
} RowStmt;

/* What is read or made once for each point, and then at hand. */
typedef struct Kept {
	Buf *buf;
	Expr *is;    /* what it holds at Group.it, */
	Expr *where; /* where that is read at all; null: everywhere */
	bool temp;   /* a temporary of the row, else something that is read */
	bool block;  /* of all rows: in memory that the block shares, where it is put once */
	bool more;   /* threads have elements of it in the block's scratch, too, */
	int64_t at;  /* from that byte on */
} Kept;

/* What a row has one element of. */
typedef struct One {
	Buf *buf; /* the block's, an element for each of its groups */
	Expr *is;
} One;

typedef struct Group {
	Row *r;
	RowStmt *part;
	int n;
	Iter *it;           /* over the row; null: no statement has it */
	Iter *const *split; /* which the stage's iterations are split into, outermost first */
	int nsplit;
	Iter *skinny_row; /* over few rows that the group has, one after the other; null: it has one */
	Kept kept[MOST_KEPT];
	int nkept;
	One one[MOST_ONES];
	int nones;
	int64_t shared;   /* bytes of shared memory that a group has for its locals */
	int vector, keep; /* elements of one access; points of the row that a thread keeps */
	int more;         /* and of how many after those it has elements in the block's scratch */
	bool again;       /* a block has one row after another */
	Expr *peel;       /* how far before the row the first run begins; null: not at all */
} Group;

/* What D is at most, or INT64_MAX. */
int64_t group_length(const Group *t, Dim *d);
/* AT is Group.it: the point itself. */
bool group_at_point(const Group *t, const Expr *at);
/* Bytes of B; INT64_MAX where they are not known or more than any block shares. */
int64_t group_bytes_of(const Buf *b);
/* What a buffer of so many bytes takes of a block's shared memory, where all begin at a line. */
int64_t group_shared_bytes(int64_t bytes);

/* Locals that threads keep; others that would be too large are none. True: some are none, all is to be placed again. */
bool group_choose_kept(Group *t);
/* What a statement writes to memory and later ones read at the same point is made by a part of its own, and kept. */
void group_keep_written(Group *t);
/* Keeps what several statements or all rows read; statements read it there. Chooses between warps and blocks. */
void group_keep_reads(Group *t, const Gpu *gpu);
/* E knows a loop around the row in one statement alone. */
bool group_knows_loop(const Group *t, Expr *e);
/* Finds what a block of rows that are short moves as a whole; accesses of that are of shared memory. */
void group_choose_bulk(Group *t);
bool group_is_bulk(const Group *t, const Buf *b);
/* Finds what rows have one element of; rows read it where the block has it. Then: the block fetches it. */
void group_share_ones(Group *t);
void group_fetch_ones(Group *t);
/* Points of a row for which a thread of a TEAM has registers, where it keeps so many elements of each. */
int group_most_kept(int group, int registers);
/* How many of POINTS of so many bytes a block that has one row after another holds, given ROOM bytes of scratch. */
int64_t group_held(int64_t points, int bytes, int64_t room);
/* How much scratch a block that has one row after another wants for POINTS of so many bytes each. */
int64_t group_scratch(int64_t points, int bytes);
/* Threads, runs and registers of a row, and scratch, where registers do not hold it. */
void group_share_out(Group *t, const Gpu *gpu);

#endif
