/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints expressions as C: the patterns of ir/expr/insts.def over the functions of
 * ir/expr/scalar.h. The output has two parts: statements that give a name to subexpressions which
 * are used twice or are long (`const float t3 = ...;`), and the C text of the value itself.
 * Callbacks of the caller print loads and dims.
 *
 * A select with a load or an `index` in an arm becomes `if` or `?:`, so that only the arm that is
 * taken is evaluated. Other selects are `?:`, whose arms may both be evaluated.
 */
#ifndef IR_EXPR_EXPR_C_H
#define IR_EXPR_EXPR_C_H

#include "ir/expr/expr_names.h"

/* The functions of ir/expr/funcs.def that the printed text calls, by FuncForm. Zero-initialise. */
typedef struct FuncUses {
	bool used[INST_COUNT][FUNC_FORMS];
} FuncUses;

/* A printer. The caller sets the members of the first part and zeroes the rest. */
typedef struct ExprC {
	Arena *arena; /* for names, such as a pass's scratch arena */
	void *arg;    /* argument of the callbacks, each of which appends C text to OUT */
	void (*iter)(void *arg, StrBuf *out, const Iter *it);
	void (*dim)(void *arg, StrBuf *out, Dim *d);   /* of type int64_t */
	/* IDX: the text of each index */
	void (*load)(void *arg, StrBuf *out, const Expr *e, const char *const *idx);
	/* whether the i64 E is known to be >= 0; may be null */
	bool (*natural)(void *arg, const Expr *e);
	const char *fault; /* the dl_bad_index that `index` sets: "fault" */
	const char *temp;  /* prefix of generated names: "t" */
	/* tabs before each statement; the caller changes it with the nesting of blocks */
	int indent;
	FuncUses *funcs;   /* receives the functions that the text calls; may be null */
	/* operands of functions are small: f32 functions with a form FUNC_NEAR are called so */
	bool near;

	int ntemps;        /* number of generated names */
	ExprNames names;
} ExprC;

/* The C type of a scalar type: "float", "int64_t" ... */
const char *ctype_c(CType t);

/* Announces an expression that will be printed, so that subexpressions which several expressions
 * share get a name. Optional: ex_c counts the uses in an expression that was not announced. */
void ex_c_count(ExprC *c, Expr *e);
/*
 * Prints the statements that E needs to B, and appends E's C text, without outer parentheses, to
 * VALUE. Names that were made earlier in the open blocks are reused.
 */
void ex_c(ExprC *c, StrBuf *b, Expr *e, StrBuf *value);
/* Tells the printer that the variable NAME holds the value of E in this block. */
void ex_c_name(ExprC *c, Expr *e, const char *name);

/* E is min(max(i32(*X), *LO), *HI), or the same with max outside, of an f32 and bounds on both
 * sides of 0 that f32 represents. */
bool ex_limited(const Expr *e, Expr **x, int64_t *lo, int64_t *hi);
/* Prints the functions of USES and all that they call, callees first, as `dl_exp_f32(float x)` or
 * `dl_exp_near(float x)`. */
void ex_c_funcs(StrBuf *b, ExprPool *p, const FuncUses *uses);

#endif
