/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a printer of expressions: the variable with the value of each expression, if there
 * is one, and thus which selects must remain lazy. If an arm of a select loads, or may
 * fault otherwise, it may be evaluated only when it is taken: the load might be out of bounds. An
 * arm that does neither, or loads only values that have a name already or are certainly in bounds,
 * may always be evaluated; so may expressions that both arms evaluate.
 */
#ifndef IR_EXPR_EXPR_NAMES_H
#define IR_EXPR_EXPR_NAMES_H

#include "ir/expr/expr.h"

/* The operands that evaluating an expression reads. */
typedef enum ExprReads {
	READS_UNKNOWN, /* not determined yet */
	READS_NOT,
	READS_IN_BOUNDS, /* loads that are certainly in bounds */
	READS            /* other loads, or indexes, which may be out of range */
} ExprReads;

typedef struct ExprNote {
	const char *name;  /* the variable that holds the value, or null */
	int uses;          /* number of uses; only for the printer */
	ExprReads reads;
} ExprNote;

/* Zero-initialise. */
typedef struct ExprNames {
	ExprNote *at; /* by Expr.id */
	int n;
	bool (*in_bounds)(void *arg, const Expr *load); /* certainly; null: for no load */
	void *arg;
	struct { struct ExprNamed { int id; const char *before; } *at; int n, cap; } named; /* in order */
} ExprNames;

/* The note of E; the pointer is valid until a note of a newer expression is asked for. */
ExprNote *ex_note(ExprNames *t, Arena *a, const Expr *e);
/* NAME holds E's value, until ex_leave. */
void ex_set_name(ExprNames *t, Arena *a, const Expr *e, const char *name);
/* Names that are set between ex_enter and ex_leave are forgotten by ex_leave, as C's blocks do. */
int ex_enter(const ExprNames *t);
void ex_leave(ExprNames *t, int mark);

/* Whether E is a select that must evaluate only the chosen arm, given the names so far. */
bool ex_is_lazy(ExprNames *t, Arena *a, const Expr *e);
/* Whether E loads, apart from values that have a name. */
bool ex_still_loads(ExprNames *t, Arena *a, const Expr *e);
/* Calls FN on the largest expressions that both arms of the select E evaluate in any case. */
void ex_of_both_arms(Expr *e, void (*fn)(void *arg, Expr *e), void *arg);

#endif
