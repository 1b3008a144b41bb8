/* SPDX-License-Identifier: Apache-2.0 */
/* Scalar expressions as C, for gen_c, over ir/expr/expr_c.h. Shared subexpressions become named
 * temporaries. A load in an arm of a select is only evaluated if the arm is taken. */
#ifndef CODEGEN_C_EXPR_H
#define CODEGEN_C_EXPR_H

#include "base/str.h"
#include "ir/expr/expr.h"
#include "ir/kernel/kernel.h"

/* A variable that holds the value of E. */
typedef struct CExprNamed {
	Expr *e;
	const char *name;
} CExprNamed;

/* Callbacks that append the C text of leaves. */
typedef struct CExprNames {
	void (*iter)(void *arg, StrBuf *b, const Iter *it);
	void (*dim)(void *arg, StrBuf *b, Dim *d);
	/* The element that LOAD reads, at the index text AT, converted to its scalar type. */
	void (*load)(void *arg, StrBuf *b, const Expr *load, const char *at);
	/* notes that a form of a function is used; may be null */
	void (*func)(void *arg, Inst fn, FuncForm form);
	bool near; /* as in ExprC */
	bool (*natural)(void *arg, const Expr *e); /* the i64 E is never negative; may be null */
	bool (*in_bounds)(void *arg, const Expr *load); /* LOAD certainly is; may be null */
	void *arg;
	const CExprNamed *known; /* NKNOWN of them */
	int nknown;
} CExprNames;

const char *c_type(CType t);
/* The C text S has an operator outside of parentheses and brackets, so it needs parentheses as an
 * operand. */
bool c_is_operation(const char *s);
/* Prints the C text of the N expressions E[i] to OUT[i]. Subexpressions that are used more than
 * once become `const T tN = ...;` lines, which are appended to PRE, indented by INDENT tabs; *NTEMP
 * numbers them. */
void c_exprs(StrBuf *pre, StrBuf *out, Expr *const *e, int n, const CExprNames *names, int indent, int *ntemp);
#endif
