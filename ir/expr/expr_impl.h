/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the ir/expr*.c files and ir/expr/affine.c; not for other files. */
#ifndef IR_EXPR_EXPR_IMPL_H
#define IR_EXPR_EXPR_IMPL_H

#include "ir/expr/expr.h"

/* Bounds of an i64 as dims, each null if unknown. */
typedef struct DimRange {
	bool known; /* whether LO and HI were computed */
	Dim *lo, *hi;
} DimRange;

struct ExprPool {
	Ctx *ctx;
	Arena *arena;
	Expr **slot; /* a hash table with open addressing; its size is a power of two */
	int nslots, n;
	DimRange *range; /* by Expr.id, for atoms (see Linear) */
	int nranges;
	Expr *func[INST_COUNT][FUNC_FORMS]; /* cached expansions */
};

/*
 * The linear form of an i64 expression: sum of coef[k]*atom[k] + base. An atom is any expression
 * that is neither a sum nor a dim. Atoms are ordered by expr_cmp and distinct, and no coefficient
 * is 0. Exact modulo 2^64.
 */
enum { LINEAR_MAX = 2 * MAX_ITERS };
typedef struct Linear {
	int n;
	Expr *atom[LINEAR_MAX];
	Dim *coef[LINEAR_MAX];
	Dim *base;
} Linear;

/* ---- expr.c ---- */

/* Orders expressions of a pool: < 0 if A is before B. What does not change in inner loops is first,
 * so that compilers hoist the sum of these terms, and an iterator is before other expressions of
 * its loop. The rest of the order is structure, never age: a text that is read again gives the
 * same. */
int expr_cmp(const Expr *a, const Expr *b);
/* Makes the instruction, hash-consed, without folding. */
Expr *ex_raw(ExprPool *p, Inst i, CType ct, DType dtype, Expr *const *arg, int n);
/* Wraps V to the integer or bool type T. */
int64_t int_wrap(CType t, int64_t v);

/* ---- expr_fold.c ---- */

/* A simpler expression that equals the instruction, or null. */
Expr *ex_fold(ExprPool *p, Inst i, CType ct, DType dtype, Expr *const *arg, int n);

/* ---- affine.c ---- */

/* False if a constant would overflow or there are too many terms. */
bool linear_of(ExprPool *p, Expr *e, Linear *out);
/* OUT += K * L. */
bool linear_add(ExprPool *p, Linear *out, const Linear *l, Dim *k);
Expr *linear_expr(ExprPool *p, const Linear *l);
/* The nesting depth (Expr.nest) of the new expression E. */
int expr_nest(const Expr *e);
/* Bounds LO <= L <= HI as dims, from the iterators' ranges; each null if unknown. True if both
 * are known, in which case no term wraps, either. */
bool linear_range(ExprPool *p, const Linear *l, Dim **lo, Dim **hi);
/* Simplifies i64 floordiv and mod: A's terms that are multiples of B are separated, and the rest
 * is decided by its range. Null if that does not simplify. */
Expr *fold_divmod(ExprPool *p, Inst i, Expr *a, Expr *b);

#endif
