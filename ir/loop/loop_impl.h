/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of loop trees, both ways. ir/loop/loop_text.c describes each node once, by calls of the
 * functions below, which print a member or read it. Reading is line by line: a node is a line, and
 * its body has a larger indentation. Only the first fault is reported; after it, reading functions
 * do nothing, and the description runs to its end.
 */
#ifndef IR_LOOP_LOOP_IMPL_H
#define IR_LOOP_LOOP_IMPL_H

#include "ir/loop/loop.h"

/* How many iterators and buffers may be mentioned, and which group's loop is around: what
 * a body adds is forgotten at its end. */
typedef struct LoopScope {
	int iters, bufs, splits;
	LNode *group;
} LoopScope;

typedef struct LoopText {
	StrBuf *out; /* where the text is printed; null: it is read */
	bool bare;   /* names, locations and points are not printed */

	/* ---- for reading ---- */
	Kernel *k; /* of the schedule */
	Ctx *ctx;
	Arena *arena;
	const char *file, *p, *line_start;
	int *line;
	int nsyms; /* the symbols that the graph has */
	bool failed;
	VEC(ExprName) iters; /* in scope */
	VEC(Buf *) bufs;     /* likewise */
	VEC(Iter *) known;   /* of the schedule: a name has one extent */
	int nglobal;         /* buffers of smaller ids are not locals */
	int niters;          /* likewise of iterators: of the kernel */
	Stage *stage;
	LNode *group;            /* around the node; null: none is */
	VEC(LNode *) kept;       /* locals of which threads keep elements */
	VEC(const SplitOperand *) splits; /* in scope */
} LoopText;

/* ---- loop_read.c ---- */

/* Reports a fault at the current position: "expected EXPECTED, found ..."; or what FMT says. */
void lt_expected(LoopText *t, const char *expected);
void lt_fault(LoopText *t, const char *fmt, ...) BASE_PRINTF(2, 3);

/* Prints TEXT, or reads it; blanks at its ends may be missing in a text that is read. */
void lt_put(LoopText *t, const char *text);
/* As lt_put, for TEXT that is there only if PRESENT, which is of no meaning when reading; returns
 * whether it is. */
bool lt_opt(LoopText *t, bool present, const char *text);
/* As lt_opt, for the first of TEXT[0..N) that is there (read), or TEXT[AT]; returns its number. */
int lt_choice(LoopText *t, const char *const *text, int n, int at);
/* Whether BEFORE, a size and AFTER come next in the text. */
bool lt_size_ahead(LoopText *t, const char *before, const char *after);
/* A word. */
void lt_word(LoopText *t, const char **s);
/* An integer from LO to HI. */
void lt_number(LoopText *t, int64_t *v, int64_t lo, int64_t hi);
void lt_count(LoopText *t, int *v, int lo, int hi);
void lt_dim(LoopText *t, Dim **d);
/* An expression of type CT. */
void lt_expr(LoopText *t, Expr **e, CType ct);
/* A layout of this rank, "0 lane 8*1, 1 lane 4*2, 0 at 16*1+144": dim, place, extent, stride and
 * pitch of each axis. */
void lt_layout(LoopText *t, TileLayout *l, int rank);
/* A buffer in scope. */
void lt_buf(LoopText *t, Buf **b);
/* Declares B in scope, after it was read. */
void lt_declare(LoopText *t, Buf *b);
/* Brings the iterator of this name and extent into scope, after its name and extent were read. */
void lt_bind(LoopText *t, Iter **it, const char *name, Dim *extent);
/* Goes to the next line of a text that is read, unless the position is within a line: past empty
 * lines and comments, which begin with a semicolon. */
void lt_next_line(LoopText *t);
/* The end of a line. */
void lt_end(LoopText *t);
/* Whether another line of a body follows, which is indented by COLUMNS (0: not known yet, set) and
 * by more than AROUND; when printing, whether MORE, and indents it by AROUND + 2. */
bool lt_line(LoopText *t, bool more, int around, int *columns);
/* The word at the current position, and whether the text continues with "[" or ",". */
size_t lt_ahead(LoopText *t, const char **word, bool *element);
/* The current scope; to go back to it. */
LoopScope lt_enter(const LoopText *t);
void lt_leave(LoopText *t, LoopScope s);

/* ---- loop_text.c ---- */

/* WORD and an expression, if *E is not null. */
void lt_opt_expr(LoopText *t, const char *word, Expr **e, CType ct);
/* "i < N", which brings the iterator into scope. */
void lt_bounded(LoopText *t, Iter **it);
void lt_monoid(LoopText *t, Monoid *red);
/* A row of ir/loop/mma.def. */
void lt_mma(LoopText *t, MmaKind *kind);

/* One stage, whose lines are indented by two. */
void lt_stage(LoopText *t, Stage *st);
/* The condition of a variant; nothing if it is for all runs. */
void lt_guard(LoopText *t, SizeStep *x);

/* ---- tile_text.c ---- */

/* An operation on tiles, LN_OP. */
void lt_tile_op(LoopText *t, LNode *n);

/* ---- loop_verify.c ---- */

/* Report a fault of the line that was just read: a node, whose body is not read yet; or a stage. */
void lt_check_node(LoopText *t, LNode *n);
enum { MOST_THREADS = 1024 }; /* of a block */
void lt_check_stage(LoopText *t, const Stage *st);
/* As lt_check_stage, when the nodes of ST have been read. */
void lt_check_stage_nodes(LoopText *t, const Stage *st);
void lt_check_bulk(LoopText *t, const Stage *st, const BulkCopy *s);
/* The same, of the lines before: the body of N. */
void lt_check_body(LoopText *t, const LNode *n);

#endif
