/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of codegen/nvptx/: the library of scalar functions, and a function that is
 * being emitted. */
#ifndef CODEGEN_NVPTX_NVPTX_IMPL_H
#define CODEGEN_NVPTX_NVPTX_IMPL_H

#include "codegen/nvptx/nvptx.h"
#include "ir/expr/expr_names.h"

/* ---- scalar_lib.c: ir/expr/scalar.ll ---- */

typedef struct LlLib LlLib;

/* ---- expr.c: expressions ---- */

/*
 * A function while it is emitted. A value's name is valid in the block that computes it and in
 * the blocks that it dominates. ll_forget drops the names
 * of expressions, since memory may have changed.
 */
typedef struct LlFn {
	GenPtx *g;
	Arena *arena;
	StrBuf b, allocas;
	const char *block; /* label of the current block */
	int temp, labels;
	/* callbacks for the leaves of expressions; the code they append goes to B */
	void *arg;
	const char *(*iter)(void *arg, const Iter *it);
	const char *(*dim)(void *arg, Dim *d);
	/* how many loops were open where an iterator was bound; null: it is not known */
	int (*depth)(void *arg, const Iter *it);
	const char *(*load)(void *arg, const Expr *e, const char *const *idx);
	/* whether division E fits in 32 bits, if the dividend is >= 0 and the divisor >= 1;
	 * null: no division does */
	bool (*is_short)(void *arg, const Expr *e);
	const char *param[4]; /* values of EX_PARAM */

	ExprNames names;
} LlFn;

/* ---- scalar_lib.c ---- */

/* The library for GPUs of compute capability SM, times ten. */
LlLib *ll_lib_new(Arena *a, int sm);
bool ll_lib_has(const LlLib *l, const char *name);
/* Appends to B the code that computes function NAME of the N arguments ARG, and returns its value.
 * A function that is one instruction is expanded, others are called. TEMP numbers values. */
const char *ll_lib_call(LlLib *l, Arena *a, StrBuf *b, const char *name, const char *const *arg, int n, int *temp);
/* Appends the definitions of the functions that TEXT calls, and of those that these call, each
 * once. A function that the library does not have is defined by MAKE (null: it is an intrinsic). */
void ll_lib_define(LlLib *l, Arena *a, StrBuf *b, const char *text, const char *(*make)(void *arg, const char *name), void *arg);
/* LLVM's type of a scalar type; and of the stored form of an element type in a register. */
const char *ll_ctype(CType t);
const char *ll_stored(DType t);

/* ---- expr.c ---- */

const char *ll_new(LlFn *f);                            /* "%t12" */
const char *ll_label(LlFn *f, const char *what);        /* "then3" */
void ll_begin(LlFn *f, const char *label);              /* begins the block LABEL */
void ll_put(LlFn *f, const char *fmt, ...) BASE_PRINTF(2, 3); /* appends a line to the block */
/* Appends "%t12 = " and an instruction, and returns the value's name. Arguments of one call must
 * not append code in an order that matters, as C leaves that order open. */
const char *ll_set(LlFn *f, const char *fmt, ...) BASE_PRINTF(2, 3);
/* X INST Y, where INST is "add nsw i64" or the like. ll_plus adds i64, and returns X where Y is
 * 0. */
const char *ll_op(LlFn *f, const char *inst, const char *x, long long y);
const char *ll_plus(LlFn *f, const char *x, long long y);
/* The constant V; X, an i64, as an i32; the address of element AT of P, an array of TYPE in address
 * space SPACE. */
const char *ll_number(LlFn *f, int64_t v);
const char *ll_narrow(LlFn *f, const char *x);
const char *ll_gep(LlFn *f, const char *type, int space, const char *p, const char *at);
/* The vector of the N values VAL, of TYPE. */
const char *ll_together(LlFn *f, const char *type, const char *const *val, int n);
/* The value of function NAME of the N arguments ARG: one of ir/expr/scalar.ll, or of
 * ir/expr/funcs.def ("exp_f32"). */
const char *ll_call(LlFn *f, const char *name, const char *const *arg, int n);
/* The value of E; its code is emitted if E has no name yet. */
const char *ll_expr(LlFn *f, Expr *e);
/* Makes NAME the value of E for the code that follows. */
void ll_name(LlFn *f, Expr *e, const char *name);
void ll_forget(LlFn *f);
/* A constant in LLVM's syntax. */
const char *ll_const(Arena *a, const Expr *e);
/* The definition of the function FN of ir/expr/funcs.def on f32 or f64. */
const char *ll_func(GenPtx *g, Inst fn, CType t);

/* ---- registers.c ---- */

/* The maximum number of 32-bit registers that are live at once in PTX, which is one entry. */
int ptx_most_alive(const char *ptx);
/* PTX, the entry of FN, with a directive that limits the registers ptxas may use. The caller frees
 * the result. */
char *ptx_limited(const char *ptx, const Gpu *gpu, const PtxFunc *fn);

#endif
