/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scalar expressions: the computation of one point of a statement. An expression is a hash-consed
 * DAG over constants, iterators, dims, loads and instructions (ir/expr/insts.def,
 * ir/expr/funcs.def), each of one scalar type. Index expressions have type i64. The interpreter and
 * the code for C and for PTX give expressions the same meaning.
 *
 * Equal expressions of one pool are equal pointers. `select` is lazy: a load in the arm that is not
 * taken is not executed. Everything else is pure, so it may be evaluated even if the value is
 * unused.
 */
#ifndef IR_EXPR_EXPR_H
#define IR_EXPR_EXPR_H

#include "ir/dim/dim.h"
#include "ir/dtype.h"

typedef enum Inst {
#define INST(name, n, rule, c) IN_##name,
#include "ir/expr/insts.def"
#undef INST
#define FUNC(name, n, f32, f64) FN_##name,
#include "ir/expr/funcs.def"
#undef FUNC
#define ROUTINE(name, result, n, a, b, c) RT_##name,
#include "ir/expr/routines.def"
#undef ROUTINE
	INST_COUNT
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
	RULE_FUNC,    /* (T, T...) -> T, f32 or f64: expanded to other instructions */
	RULE_ROUTINE  /* the types of its row in ir/expr/routines.def; may refuse its operands */
} InstRule;

typedef struct InstInfo {
	const char *name;
	int nargs;
	InstRule rule;
	const char *c; /* C pattern; null for a function and a routine */
	const char *f32, *f64; /* a function's expansion; null for others */
	CType result, arg[3]; /* a routine's types; CT_NONE for others */
} InstInfo;

extern const InstInfo inst_info[INST_COUNT];
/* INST_COUNT if no instruction has this name. */
Inst inst_by_name(const char *name, size_t n);
/* The expansions of a function: for f32, for f64, and for f32 where func_near_limit allows it. */
typedef enum FuncForm { FUNC_F32, FUNC_F64, FUNC_NEAR, FUNC_FORMS } FuncForm;
static inline bool inst_is_func(Inst i) { return inst_info[i].rule == RULE_FUNC; }
static inline bool inst_compares(Inst i) { return inst_info[i].rule == RULE_CMP; }
static inline bool inst_is_routine(Inst i) { return inst_info[i].rule == RULE_ROUTINE; }
/* Whether I may fail, so that it is not evaluated where its value is not used. */
static inline bool inst_may_fault(Inst i) { return i == IN_index || inst_is_routine(i); }

typedef enum ExprKind { EX_CONST, EX_ITER, EX_DIM, EX_LOAD, EX_INST, EX_PARAM } ExprKind;

typedef struct Iter Iter; /* ir/kernel/kernel.h */
typedef struct Buf Buf;

typedef struct Expr Expr;
struct Expr {
	ExprKind kind;
	CType ct;
	int id; /* dense in the pool; operands have smaller ids */
	int nest; /* for an i64: depth of min, max, select and quotients (ir/expr/affine.c) */
	int inner; /* the largest id of an iterator in it, usually that of the innermost loop; -1: none */
	union {
		int64_t i;     /* EX_CONST: integer and bool; floats: see f */
		double f;      /* EX_CONST of f32, f64 (an f32 is exact in it; NaN is the quiet one) */
		Iter *iter;    /* EX_ITER: i64 */
		Dim *dim;      /* EX_DIM: i64 */
		/* in the expression that defines an operator or function: the operand's index */
		int param;
		struct {
			Buf *buf;
			/* one i64 for each dim of BUF; or exactly one, the index into flat
			 * memory (scheduled kernels) */
			Expr **idx;
			int nidx;
		} load;        /* EX_LOAD: of buf's ctype */
		struct {
			Inst inst;
			DType dtype; /* of `round`; else DT_NONE */
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

/* The operands of E, or the indices if it is a load: their number, with the array in *OUT. */
static inline int ex_operands(const Expr *e, Expr *const **out)
{
	*out = e->kind == EX_LOAD ? e->load.idx : e->op.arg;
	return e->kind == EX_LOAD ? e->load.nidx : e->kind == EX_INST ? e->op.n : 0;
}

Expr *ex_int(ExprPool *p, CType t, int64_t v); /* integer or bool constant */
Expr *ex_float(ExprPool *p, CType t, double v);
/* The number V as a constant of any type T. */
Expr *ex_num(ExprPool *p, CType t, double v);
Expr *ex_iter(ExprPool *p, Iter *i);
Expr *ex_dim(ExprPool *p, Dim *d); /* a constant dim becomes an EX_CONST */
Dim *ex_as_dim(Ctx *c, const Expr *e); /* the converse; null if E is neither */
Expr *ex_param(ExprPool *p, CType t, int k);
Expr *ex_load(ExprPool *p, Buf *b, Expr *const *idx, int n);
/* Whether the rule of I accepts these operands. */
bool ex_inst_takes(Inst i, Expr *const *arg, int n);
/* Makes the instruction, simplified: constants are folded, so are exact identities (x+0, x*1,
 * select of a constant); i64 affine forms are brought into a normal order, and dims into one
 * EX_DIM. Asserts that the types follow the rule. Floats are folded exactly, by the functions of
 * ir/expr/scalar.h. */
Expr *ex_inst(ExprPool *p, Inst i, Expr *const *arg, int n);
/* The same, but not simplified: for loop trees, whose text is code as it is generated. */
Expr *ex_inst_as_is(ExprPool *p, Inst i, Expr *const *arg, int n);
Expr *ex_op1(ExprPool *p, Inst i, Expr *a);
Expr *ex_op2(ExprPool *p, Inst i, Expr *a, Expr *b);
Expr *ex_op3(ExprPool *p, Inst i, Expr *a, Expr *b, Expr *c);
Expr *ex_cvt(ExprPool *p, CType to, Expr *a);        /* A itself if it already has the type */
Expr *ex_bits(ExprPool *p, CType to, Expr *a);
/* A itself if T represents every value of A's type */
Expr *ex_round(ExprPool *p, DType t, Expr *a);
Expr *ex_roundsat(ExprPool *p, DType t, Expr *a);
/* i64 shorthands */
Expr *ex_add(ExprPool *p, Expr *a, Expr *b);
Expr *ex_sub(ExprPool *p, Expr *a, Expr *b);
Expr *ex_mul(ExprPool *p, Expr *a, Expr *b);
Expr *ex_and(ExprPool *p, Expr *a, Expr *b); /* null stands for true */

/* The expansion of function FN for type T, over EX_PARAM 0, 1 ...; cached in the pool. */
Expr *ex_func_body(ExprPool *p, Inst fn, CType t);
/* Function FN has a shorter expansion for f32 with the same results where |x| is at most this; 0:
 * it has not. */
float func_near_limit(Inst fn);
/* The same of E: a call of such a function, or a conversion of f32 to i64, which is one to i32
 * there. */
float ex_near_limit(const Expr *e);
/* That expansion. */
Expr *ex_func_near(ExprPool *p, Inst fn);

/* ---- expr_walk.c ---- */

/* E in pool P with the operands ARG (ex_operands), which are in P, not simplified but for sums of
 * i64, whose terms get P's order. */
Expr *ex_with_operands(ExprPool *p, const Expr *e, Expr *const *arg);
/* A copy of E in pool P with TO in place of FROM. Null if E is. */
Expr *ex_replace(ExprPool *p, Expr *e, const Expr *from, Expr *to);
/* The same with WITH[k] in place of ITERS[k]. */
Expr *ex_subst_iters(ExprPool *p, Expr *e, Iter *const *iters, Expr *const *with, int n);
/* A loop over the distinct nodes X of E, operands before users. If E is null there are none. */
#define EX_EACH(x, e) EX_EACH_OF(x, e, ex_operands)
/* The same with only the loads. */
#define EX_EACH_LOAD(x, e) EX_EACH_BY(x, ex_next_load, ex_nodes(&x##_nodes, (e), ex_operands))
/* The same without nodes that occur only in the index of a load. */
#define EX_EACH_OUTSIDE_LOADS(x, e) EX_EACH_OF(x, e, ex_operands_outside_loads)
/* The same with only the loads that are evaluated whenever E is: neither those in the arms of a
 * select nor those in the indices of loads. */
#define EX_EACH_LOAD_ALWAYS(x, e) \
	EX_EACH_BY(x, ex_next_load, ex_nodes(&x##_nodes, (e), ex_operands_always))

typedef int ExprOperands(const Expr *e, Expr *const **out);
ExprOperands ex_operands_always, ex_operands_outside_loads;

enum { EXPR_LIST_SMALL = 192, EXPR_ROOTS = 19 };
typedef struct ExprList {
	Expr **at;
	int n, cap;
	Expr *small[EXPR_LIST_SMALL];
} ExprList;

/* The state of a loop over the nodes of one expression after the other. */
typedef struct ExprNodes {
	ExprOperands *operands;
	Expr *root[EXPR_ROOTS]; /* the expressions; each may be null */
	int nroots, begun;      /* BEGUN: of the roots */
	ExprList node, heap;    /* of the present root: the nodes that remain, largest id first */
	Arena *tmp;             /* null while these fit their fixed arrays */
} ExprNodes;

/* The beginning of a loop over the nodes of E, and the end of such a loop. */
ExprNodes *ex_nodes(ExprNodes *w, Expr *e, ExprOperands *operands);
void ex_nodes_end(ExprNodes *w);
/* The next node, or the next load; null at the end. */
Expr *ex_next(ExprNodes *w);
Expr *ex_next_load(ExprNodes *w);
#define EX_EACH_OF(x, e, operands) EX_EACH_BY(x, ex_next, ex_nodes(&x##_nodes, (e), (operands)))
/* The outer loop has one iteration, whose end frees the state. */
#define EX_EACH_BY(x, next, begin)                                                     \
	for (ExprNodes x##_nodes BASE_AT_END(ex_nodes_end), *x##_of = (begin); x##_of; \
	     x##_of = NULL)                                                            \
		for (Expr *x; (x = next(x##_of)) != NULL;)

/* A loop that replaces *E, an expression or null, by a copy in pool P, which may be another pool. X
 * is each node, rebuilt over its new operands; the body may assign a replacement to X. After a
 * break or a return *E is unchanged. */
#define EX_MAP(x, p, e)                                                                         \
	for (ExprMapping x##_map BASE_AT_END(ex_map_end), *x##_of = ex_map(&x##_map, (p), (e)); \
	     x##_of; x##_of = NULL)                                                             \
		for (Expr *x = NULL; ex_map_next(x##_of, &x);)

typedef struct ExprMapping {
	ExprNodes nodes;
	ExprPool *p;
	Expr **root, **copy, *small[EXPR_LIST_SMALL];
	int at; /* the node that the body has; none yet: nodes.node.n */
} ExprMapping;

ExprMapping *ex_map(ExprMapping *m, ExprPool *p, Expr **e);
void ex_map_end(ExprMapping *m);
bool ex_map_next(ExprMapping *m, Expr **x);
/* E in pool P with the operands ARG (ex_operands), which are in P. */
Expr *ex_rebuild(ExprPool *p, Expr *e, Expr *const *arg);

/* Whether IT occurs in E. */
bool expr_has_iter(Expr *e, const Iter *it);
/* Whether IT occurs in E outside of the indices of loads. Then the value depends on IT itself,
 * not only on which element is loaded. */
bool expr_has_iter_outside_loads(Expr *e, const Iter *it);
/* Whether E loads anything. */
bool expr_has_load(Expr *e);
/* Whether any of the N iterators IT occurs in E. */
bool expr_has_any(Expr *e, Iter *const *it, int n);

/* ---- affine.c ---- */

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
/* A += COEF * IT; false if A has too many iterators. */
bool affine_add_term(Ctx *c, Affine *a, Iter *it, Dim *coef);
Dim *affine_coef(Ctx *c, const Affine *a, const Iter *it); /* 0 if IT does not occur */
/* Whether A, without its term of BUT, is a multiple of N at every point: so are the base and
 * each other coefficient. */
bool affine_aligned(Ctx *c, const Affine *a, const Iter *but, int64_t n);
/* Whether E is IT plus a multiple of N, whether it is affine or not. */
bool ex_aligned_along(Ctx *c, Expr *e, const Iter *it, int n);
/* The difference between E's values at adjacent points along IT, even if the rest of E is not
 * affine. Null if the difference is not the same everywhere. */
Dim *ex_step(Ctx *c, Expr *e, const Iter *it);
/* Whether that difference is a constant, and *STEP. */
bool ex_const_step(Ctx *c, Expr *e, const Iter *it, int64_t *step);
/* Whether E is affine and increases by one from point to point along IT: unit stride. */
bool ex_runs_along(Ctx *c, Expr *e, const Iter *it);
/* 0 <= A < N, as one bool; constant true if the iterators' ranges prove it. */
Expr *ex_inside(ExprPool *p, Expr *a, Expr *n);
/* Whether the ranges of iterators show that 0 <= E < N. */
bool ex_in_range(ExprPool *p, Expr *e, Dim *n);

/* ---- expr_parse.c ---- */

/*
 * Reads the text of an expression: "select(lt(x, 0), mul(alpha, x), x)"; with names for parts: "let
 * y = exp(x); div(y, add(y, 1))". A literal has the type of the operands beside it, or else T.
 * Names are looked up in NAMES (EX_PARAM or any other expression). i32(x), f32(x) ... convert,
 * bits.i32(x) reinterprets, round.f16(x) rounds. Numbers are decimal or hex floats, inf, nan. On a
 * fault returns null and sets *ERR, in the arena of P.
 */
typedef struct ExprName { const char *name; Expr *e; } ExprName;
typedef struct ExprScope {
	const ExprName *names;
	int nnames;
	Buf *const *bufs; /* x[i, j] loads from these */
	int nbufs;
	bool dims;        /* whether dim(B*S + 1) is read, and an unknown name is a symbol */
	/* The text is of a loop tree: nothing is simplified, an element of memory has one flat
	 * index, and only the names of NAMES are known. */
	bool as_is;
} ExprScope;
Expr *ex_parse(ExprPool *p, const char *text, CType t, const ExprName *names, int n, const char **err);
/* Reads one expression at *TEXT and advances *TEXT past it. i64 and bool have infix + - * and &;
 * inside(a, n) is ex_inside. */
Expr *ex_parse_at(ExprPool *p, const char **text, CType t, const ExprScope *s, const char **err);

/* ---- expr_print.c ---- */

/* Prints E so that ex_parse_at reads back the same pointer. Parameters print as x, y, p2 ... */
void ex_print(StrBuf *b, const Expr *e);

#endif
