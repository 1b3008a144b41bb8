/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a printer of expressions knows of each: its name, where one holds its value, and from that which selects are
 * lazy. Evaluating the arm of a select that is not taken would read where nothing may be read, unless it reads
 * nothing; what both arms evaluate always may be read before.
 */
#ifndef IR_EXPR_NAMES_H
#define IR_EXPR_NAMES_H

#include "ir/expr.h"

typedef struct ExprNote {
	const char *name;  /* null: none holds */
	int uses;          /* the printer's own count */
	signed char reads; /* 0 not known, 1 no memory, 2 loads or indexes */
} ExprNote;

/* Zero-initialise. */
typedef struct ExprNames {
	ExprNote *at; /* by Expr.id */
	int n;
	struct { struct ExprNamed { int id; const char *before; } *at; int n, cap; } named; /* in order */
} ExprNames;

/* The note of E; valid until one is asked for of an expression made later. */
ExprNote *ex_note(ExprNames *t, Arena *a, const Expr *e);
/* NAME holds E's value until ex_leave. */
void ex_set_name(ExprNames *t, Arena *a, const Expr *e, const char *name);
/* Names set between the two hold no longer: they are a block's. */
int ex_enter(const ExprNames *t);
void ex_leave(ExprNames *t, int mark);

/* E is a select of which only the arm taken may be evaluated, as far as names go by now. */
bool ex_is_lazy(ExprNames *t, Arena *a, const Expr *e);
/* Calls FN on the largest expressions that both arms of select E always evaluate. */
void ex_of_both_arms(Expr *e, void (*fn)(void *arg, Expr *e), void *arg);

#endif
