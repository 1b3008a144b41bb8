/* SPDX-License-Identifier: Apache-2.0 */
/* What the ir/expr*.c files and ir/affine.c share; no one else includes it. */
#ifndef IR_EXPR_IMPL_H
#define IR_EXPR_IMPL_H

#include "ir/expr.h"

/* Bounds of an i64 as dims, each null where unknown. */
typedef struct DimRange {
	bool known; /* LO and HI were looked for */
	Dim *lo, *hi;
} DimRange;

struct ExprPool {
	Ctx *ctx;
	Arena *arena;
	Expr **slot; /* open addressing, a power of two */
	int nslots, n;
	DimRange *range; /* by Expr.id, of atoms (see Linear) */
	int nranges;
	Expr *func[INST_COUNT][2]; /* expansions for f32 and f64 */
};

/* The instruction as it stands, hash-consed, nothing folded. */
Expr *ex_raw(ExprPool *p, Inst i, CType ct, DType dtype, Expr *const *arg, int n);

/* A simpler equal of the instruction, or null. */
Expr *ex_fold(ExprPool *p, Inst i, CType ct, DType dtype, Expr *const *arg, int n);

/*
 * Linear form of an i64 expression: sum of coef[k]*atom[k] + base. Atoms are expressions that are not
 * sums or dims, ordered by id, each once, none with coefficient 0. Exact modulo 2^64.
 */
enum { LINEAR_MAX = 2 * MAX_ITERS };
typedef struct Linear {
	int n;
	Expr *atom[LINEAR_MAX];
	Dim *coef[LINEAR_MAX];
	Dim *base;
} Linear;

/* False where a constant would overflow or there are too many terms. */
bool linear_of(ExprPool *p, Expr *e, Linear *out);
/* OUT += K * L. */
bool linear_add(ExprPool *p, Linear *out, const Linear *l, Dim *k);
Expr *linear_expr(ExprPool *p, const Linear *l);
/* The nest of E, which is to be made. */
int expr_nest(const Expr *e);
/* Bounds LO <= L <= HI as dims, from iterator ranges, each null where unknown; true where both are known,
 * which also says that no term wraps. */
bool linear_range(ExprPool *p, const Linear *l, Dim **lo, Dim **hi);
/* i64 floordiv and mod by the divisor's multiples and the rest's range; null where nothing is gained. */
Expr *fold_divmod(ExprPool *p, Inst i, Expr *a, Expr *b);

/* Wraps V to the integer or bool type T. */
int64_t int_wrap(CType t, int64_t v);

#endif
