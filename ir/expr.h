/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalar expressions: what one point of a statement computes. A hash-consed DAG over constants,
 * iterators, dims, loads and instructions (ir/insts.def, ir/funcs.def), each of one scalar type.
 * Index expressions are expressions of type i64. Everything a kernel means is here: eval, C and PTX
 * are three readings of it.
 *
 * Equal expressions of one pool are equal pointers. `select` is lazy, so a load behind a guard is
 * never made; everything else is pure and may be evaluated or not.
 */
#ifndef IR_EXPR_H
#define IR_EXPR_H

#include "ir/dim.h"
#include "ir/dtype.h"

typedef enum Inst {
#define INST(name, n, rule, c) IN_##name,
#include "ir/insts.def"
#undef INST
#define FUNC(name, n, f32, f64) FN_##name,
#include "ir/funcs.def"
#undef FUNC
	INST_COUNT,
	INST_FUNCS = INST_COUNT /* see inst_is_func */
} Inst;

typedef enum InstRule {
	RULE_ARITH,   /* (T, T...) -> T, any number */
	RULE_FLOAT,   /* (T, T...) -> T, f32 or f64 */
	RULE_INT,     /* (T, T) -> T, integer */
	RULE_CMP,     /* (T, T) -> bool */
	RULE_TEST,    /* (T) -> bool */
	RULE_BITS,    /* (T, T) -> T, bool or integer */
	RULE_SELECT,  /* (bool, T, T) -> T */
	RULE_CVT,     /* (S) -> T */
	RULE_BITCAST, /* (S) -> T of S's width */
	RULE_ROUND,   /* (T) -> T, with an element type */
	RULE_INDEX,   /* (i64, i64) -> i64, may fault */
	RULE_FUNC     /* (T, T...) -> T, f32 or f64: an expansion over the others */
} InstRule;

typedef struct InstInfo {
	const char *name;
	int nargs;
	InstRule rule;
	const char *c; /* C pattern; null for a function */
	const char *f32, *f64; /* a function's expansion; null for an instruction */
} InstInfo;

extern const InstInfo inst_info[INST_COUNT];
/* INST_COUNT where there is none. */
Inst inst_by_name(const char *name, size_t n);
static inline bool inst_is_func(Inst i) { return inst_info[i].rule == RULE_FUNC; }

typedef enum ExprKind { EX_CONST, EX_ITER, EX_DIM, EX_LOAD, EX_INST, EX_PARAM } ExprKind;

typedef struct Iter Iter; /* ir/kernel.h */
typedef struct Buf Buf;

typedef struct Expr Expr;
struct Expr {
	ExprKind kind;
	CType ct;
	int id; /* dense in the pool: operands have smaller ids */
	int nest; /* of an i64: how deep min, max, select and quotients stand in one another (ir/affine.c) */
	union {
		int64_t i;     /* EX_CONST: integer and bool; floats: see f */
		double f;      /* EX_CONST of f32, f64 (an f32 is exact in it; NaN is the quiet one) */
		Iter *iter;    /* EX_ITER: i64 */
		Dim *dim;      /* EX_DIM: i64 */
		int param;     /* EX_PARAM: the operand number, in an op's or function's own expression */
		struct {
			Buf *buf;
			Expr **idx; /* one i64 a dim of BUF, or exactly one into flat memory (a scheduled kernel) */
			int nidx;
		} load;        /* EX_LOAD: of buf's ctype */
		struct {
			Inst inst;
			DType dtype; /* of round; else DT_NONE */
			int n;
			Expr *arg[3];
		} op;          /* EX_INST */
	};
};

/* Owns and hash-conses expressions. */
typedef struct ExprPool ExprPool;

ExprPool *expr_pool_new(Ctx *c, Arena *a);
Ctx *expr_ctx(ExprPool *p);
int expr_count(const ExprPool *p);

static inline bool ex_is_op(const Expr *e, Inst i)
{
	return e->kind == EX_INST && e->op.inst == i;
}

/* How many expressions E is made of, *OUT: indices of a load, operands. */
static inline int ex_operands(const Expr *e, Expr *const **out)
{
	*out = e->kind == EX_LOAD ? e->load.idx : e->op.arg;
	return e->kind == EX_LOAD ? e->load.nidx : e->kind == EX_INST ? e->op.n : 0;
}

Expr *ex_int(ExprPool *p, CType t, int64_t v); /* integer or bool constant */
Expr *ex_float(ExprPool *p, CType t, double v);
/* The number V as a constant of type T, whatever T is. */
Expr *ex_num(ExprPool *p, CType t, double v);
Expr *ex_iter(ExprPool *p, Iter *i);
Expr *ex_dim(ExprPool *p, Dim *d); /* a constant dim becomes an EX_CONST */
Expr *ex_param(ExprPool *p, CType t, int k);
Expr *ex_load(ExprPool *p, Buf *b, Expr *const *idx, int n);
/* Whether the rule of I takes operands of these types. */
bool ex_inst_takes(Inst i, Expr *const *arg, int n);
/* Folds constants and the plain identities (x+0, x*1, i64 affine forms into a normal order, select of a
 * constant, dims into one EX_DIM); asserts the rule's types. Float folds are exact: evaluated as
 * ir/scalar.h does. */
Expr *ex_inst(ExprPool *p, Inst i, Expr *const *arg, int n);
Expr *ex_op1(ExprPool *p, Inst i, Expr *a);
Expr *ex_op2(ExprPool *p, Inst i, Expr *a, Expr *b);
Expr *ex_op3(ExprPool *p, Inst i, Expr *a, Expr *b, Expr *c);
Expr *ex_cvt(ExprPool *p, CType to, Expr *a);        /* A itself where it has the type */
Expr *ex_bits(ExprPool *p, CType to, Expr *a);
Expr *ex_round(ExprPool *p, DType t, Expr *a);       /* A itself where T holds every value of A's type */
Expr *ex_roundsat(ExprPool *p, DType t, Expr *a);
/* i64 shorthands */
Expr *ex_add(ExprPool *p, Expr *a, Expr *b);
Expr *ex_sub(ExprPool *p, Expr *a, Expr *b);
Expr *ex_mul(ExprPool *p, Expr *a, Expr *b);
/* 0 <= A < N, as one bool; true where it is provable from iterator ranges. */
Expr *ex_inside(ExprPool *p, Expr *a, Expr *n);
Expr *ex_and(ExprPool *p, Expr *a, Expr *b); /* either may be null: true */

/* A copy of E in P (which may be another pool) with parts replaced: MAP is asked bottom up for every node,
 * rebuilt over its replaced operands, and returns a replacement or null. */
typedef Expr *(*ExprMap)(void *arg, Expr *e);
Expr *ex_rewrite(ExprPool *p, Expr *e, ExprMap map, void *arg);
/* As ex_rewrite, replacing iterators: iters[k] by with[k]. */
Expr *ex_subst_iters(ExprPool *p, Expr *e, Iter *const *iters, Expr *const *with, int n);
/* Calls FN on every distinct node of E, operands first. */
void ex_walk(Expr *e, void (*fn)(void *arg, Expr *e), void *arg);
/* The same, but only on what is computed wherever E is: not on what a select chooses from. Nor on indices of loads. */
void ex_walk_always(Expr *e, void (*fn)(void *arg, Expr *e), void *arg);
/* As ex_walk, but on no node that only occurs in the index of a load. */
void ex_walk_outside_loads(Expr *e, void (*fn)(void *arg, Expr *e), void *arg);
/* IT occurs in E. */
bool expr_has_iter(Expr *e, const Iter *it);
/* IT occurs in E other than in the index of a load: the value depends on IT itself, not only on which element is loaded. */
bool expr_has_iter_outside_loads(Expr *e, const Iter *it);
/* Any of the N iterators IT does. */
bool expr_has_any(Expr *e, Iter *const *it, int n);

/*
 * Affine view of an i64 expression: sum of coef[k] * iter[k] + base, with dims as coefficients.
 * False where E is not affine (a load, a floordiv of an iterator ...).
 */
enum { MAX_ITERS = 32 };
typedef struct Affine {
	int n;
	Iter *iter[MAX_ITERS];
	Dim *coef[MAX_ITERS];
	Dim *base;
} Affine;
bool ex_affine(Ctx *c, Expr *e, Affine *out);
Expr *ex_from_affine(ExprPool *p, const Affine *a);
Dim *affine_coef(Ctx *c, const Affine *a, const Iter *it); /* 0 where it does not occur */
/* A is a multiple of N at every point, but for its steps along BUT: its base is, and so is each other coefficient. */
bool affine_aligned(Ctx *c, const Affine *a, const Iter *but, int64_t n);
/* What E goes by from point to point along IT, whatever else is in it; null where that is not the same everywhere. */
Dim *ex_step(Ctx *c, Expr *e, const Iter *it);
/* E is affine and goes by one from point to point along IT. */
bool ex_runs_along(Ctx *c, Expr *e, const Iter *it);

/*
 * Text: "select(lt(x, 0), mul(alpha, x), x)", with let: "let y = exp(x); div(y, add(y, 1))". Literals
 * take the type of what they stand beside (or T); names are looked up in NAMES (values EX_PARAM or any
 * expression). i32(x) f32(x) ... convert, bits.i32(x) reinterprets, round.f16(x) rounds. Numbers may be
 * decimal, hex floats, inf, nan. Returns null and sets *ERR (in the arena of P) on a fault.
 */
typedef struct ExprName { const char *name; Expr *e; } ExprName;
typedef struct ExprScope {
	const ExprName *names;
	int nnames;
	Buf *const *bufs; /* x[i, j] loads from them */
	int nbufs;
	bool dims;        /* dim(B*S + 1), and an unknown name is a symbol */
} ExprScope;
Expr *ex_parse(ExprPool *p, const char *text, CType t, const ExprName *names, int n, const char **err);
/* Reads one expression at *TEXT and advances it. i64 and bool have infix + - * and &, inside(a, n) is
 * ex_inside. */
Expr *ex_parse_at(ExprPool *p, const char **text, CType t, const ExprScope *s, const char **err);
/* The function's expansion for type T as an expression over EX_PARAM 0.. (cached in the pool). */
Expr *ex_func_body(ExprPool *p, Inst fn, CType t);
/* What ex_parse_at reads back to the same pointer; parameters print as x, y, p2 ... */
void ex_print(StrBuf *b, const Expr *e);

#endif
