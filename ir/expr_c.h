/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions as C: what ir/insts.def's patterns say, over the functions of ir/scalar.h. A value is
 * printed as statements that name what is used twice or grows long (`const float t3 = ...;`) and the C
 * text of the value itself. Memory, iterators and dims are the caller's callbacks.
 *
 * A select whose arm loads or indexes becomes `if` or `?:` such that only the arm taken does; other
 * selects are `?:` and may be evaluated whole.
 */
#ifndef IR_EXPR_C_H
#define IR_EXPR_C_H

#include "ir/expr_names.h"

/* Functions of ir/funcs.def that printed text calls, for f32 and f64. Zero-initialise. */
typedef struct FuncUses {
	bool used[INST_COUNT][2];
} FuncUses;

/* A printer. The caller sets the first part and zeroes the rest. */
typedef struct ExprC {
	Arena *arena; /* names live here; a pass's scratch */
	void *arg;    /* of the callbacks, each of which appends C text to OUT */
	void (*iter)(void *arg, StrBuf *out, const Iter *it);
	void (*dim)(void *arg, StrBuf *out, Dim *d);   /* of type int64_t */
	void (*load)(void *arg, StrBuf *out, const Expr *e, const char *const *idx); /* IDX: a text an index */
	bool (*natural)(void *arg, const Expr *e); /* the i64 E is known to be 0 or more; may be null */
	const char *fault; /* an int that `index` sets: "fault" */
	const char *temp;  /* prefix of the names it makes: "t" */
	int indent;        /* tabs before each statement; the caller changes it as it opens blocks */
	FuncUses *funcs;   /* gains what is called; may be null */

	int ntemps;        /* names made so far */
	ExprNames names;
} ExprC;

/* The C type of a scalar type: "float", "int64_t" ... */
const char *ctype_c(CType t);

/* Tells the printer of an expression it will be asked for, so that what several share gets a name.
 * Optional: ex_c counts what it has not been told of. */
void ex_c_count(ExprC *c, Expr *e);
/*
 * Prints the statements that E needs to B and appends E's C text to VALUE, without outer parentheses. Names
 * made before in the open blocks are used again.
 */
void ex_c(ExprC *c, StrBuf *b, Expr *e, StrBuf *value);
/* As ex_c, into a new variable; returns its name. */
const char *ex_c_named(ExprC *c, StrBuf *b, Expr *e);
/* Names made after ex_c_enter are forgotten by ex_c_leave, as C's blocks do. */
int ex_c_enter(ExprC *c);
void ex_c_leave(ExprC *c, int mark);
/* Says that NAME holds E in this block: an iterator's derived index, a value kept in a variable. */
void ex_c_name(ExprC *c, Expr *e, const char *name);

/* A constant as a C literal of its type. */
void ex_c_const(StrBuf *b, const Expr *e);
/* The functions of USES and those they call, each after what it needs, as `dl_exp_f32(float x)`. */
void ex_c_funcs(StrBuf *b, ExprPool *p, const FuncUses *uses);

#endif
