/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that build loop trees, which the strategies share. */
#ifndef PASSES_SCHEDULE_COMMON_LOOPS_H
#define PASSES_SCHEDULE_COMMON_LOOPS_H

#include "ir/loop/loop.h"
#include "passes/forms/guards.h"
#include "passes/forms/kernels.h"
#include "passes/module.h"

/* Where nodes are appended. */
typedef struct LBuild {
	Schedule *sched;
	Kernel *k;
	ExprPool *p;
	Arena *arena;
	Stage *stage;
	LNode **tail;
	Loc loc;
	int stmt;
} LBuild;

/* A builder of stages of K, which are appended to S. */
LBuild l_build(Kernel *k, Schedule *s);
/* The nodes from here on belong to statement S. */
void l_of(LBuild *b, const Stmt *s);
/* Appends a node of KIND, whose members are the caller's to set. */
LNode *l_node(LBuild *b, LNodeKind kind);
/* Opens a loop; what follows goes into it until l_close. */
LNode *l_loop(LBuild *b, LoopKind kind, Iter *var, Expr *lo, Expr *hi, int64_t step);
/* Opens what is done where COND holds: a loop of one iteration there, of none elsewhere. */
LNode *l_where(LBuild *b, Expr *cond);
void l_close(LBuild *b, LNode *loop);
/* VAR is VALUE for the rest of this body. */
void l_let(LBuild *b, Iter *var, Expr *value);
/* BUF[IDX] = VAL where GUARD (null: always); IDX is flat. */
LNode *l_store(LBuild *b, Buf *buf, Expr *idx, Expr *val, Expr *guard);
/* N carries out PART of the current statement at the point AT[0..nat) (copied). */
void l_does(LBuild *b, LNode *n, LPart part, Expr *const *at, int nat);
/* Statements FIRST to LAST of K take few instructions for a point, and no functions. */
bool stmts_are_short(const Kernel *k, int first, int last);
/* A buffer for the rest of this body, on the stack or in scratch. */
void l_local(LBuild *b, Buf *buf);
/* A new temporary of EXTENT elements (null: a scalar), which is declared here. */
Buf *l_temp(LBuild *b, const char *name, DType t, Dim *extent);
/* A new iterator, for a loop or a LET. */
Iter *l_iter(LBuild *b, const char *name, Dim *extent);
/* A loop of this extent is too short to pay for a peeled vector loop. */
bool l_short(Dim *extent);
Expr *l_int(LBuild *b, int64_t v);
Expr *l_min(LBuild *b, Expr *x, Expr *y);
Expr *l_max(LBuild *b, Expr *x, Expr *y);

/* Opens a stage of EXTENT parallel iterations, named after the kernel; what follows goes into its
 * body. Its grain is 1. */
Stage *l_stage(LBuild *b, const char *strategy, Dim *extent);
/* Sets the stage's grain: an iteration costs WORK, and ENOUGH work pays for waking a thread. */
void l_grain(LBuild *b, int64_t enough, Dim *work);
/* var[0..n) from the flat index P over their extents: LETs. */
void l_split(LBuild *b, Iter *const *var, int n, Expr *p);

/* ---- tidy.c ---- */

/* Stages of S, a schedule for CPUs, that follow each other and that one thread runs become one: a
 * launch takes longer than a few numbers. */
void l_join(Schedule *s);
/* Simplifies S: removes names of constants and of other names, and loops of one iteration. */
void l_tidy(Schedule *s);

/* ---- empty.c ---- */

/* Sets the conditions on which the stages and loops of S do something. */
void l_skip_empty(Schedule *s);

#endif
