/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of gen_nvptx share: the library of scalar functions, and a function that is being emitted. */
#ifndef CODEGEN_NVPTX_NVPTX_IMPL_H
#define CODEGEN_NVPTX_NVPTX_IMPL_H

#include "codegen/nvptx/nvptx.h"
#include "ir/expr_names.h"

/* ---- scalar_lib.c: ir/scalar.ll ---- */

typedef struct LlLib LlLib;

/* For GPUs of compute capability SM, times ten. */
LlLib *ll_lib_new(Arena *a, int sm);
bool ll_lib_has(const LlLib *l, const char *name);
/* Appends to B what computes function NAME of N arguments ARG, and gives its value: the call, or, where it is one
 * instruction, that. TEMP numbers values. */
const char *ll_lib_call(LlLib *l, Arena *a, StrBuf *b, const char *name, const char *const *arg, int n, int *temp);
/* Appends the definitions of what TEXT calls, and of what those call, each once: of the library, or, where it does
 * not have them, what MAKE gives (null: an intrinsic). */
void ll_lib_define(LlLib *l, Arena *a, StrBuf *b, const char *text, const char *(*make)(void *arg, const char *name), void *arg);

/* LLVM's type of a scalar type, and of an element type's stored form in a register. */
const char *ll_ctype(CType t);
const char *ll_stored(DType t);

/* ---- expr.c: expressions ---- */

/*
 * A function in the making. Values are named within the block that made them and those it dominates: ll_enter and
 * ll_leave bound where a name holds. The names of one expression tree are dropped by ll_forget, since memory may
 * have changed.
 */
typedef struct LlFn {
	GenPtx *g;
	Arena *arena;
	StrBuf b, allocas;
	const char *block;      /* the label of the block being written */
	int temp, labels;
	/* Leaves: what they append goes to B. */
	void *arg;
	const char *(*iter)(void *arg, const Iter *it);
	const char *(*dim)(void *arg, Dim *d);
	const char *(*load)(void *arg, const Expr *e, const char *const *idx);
	/* Division E is one of 32 bits, of what is 0 or more by what is 1 or more; null: none is. */
	bool (*is_short)(void *arg, const Expr *e);
	const char *param[4];   /* of EX_PARAM */

	ExprNames names;
} LlFn;

const char *ll_new(LlFn *f);                            /* "%t12" */
const char *ll_label(LlFn *f, const char *what);        /* "then3" */
void ll_begin(LlFn *f, const char *label);              /* the block LABEL begins here */
void ll_put(LlFn *f, const char *fmt, ...) BASE_PRINTF(2, 3); /* a line of the block */
/* X INST Y, where INST is "add nsw i64" or the like; of i64 and "add nsw" ll_plus, which is X where Y is 0. */
const char *ll_op(LlFn *f, const char *inst, const char *x, long long y);
const char *ll_plus(LlFn *f, const char *x, long long y);
/* Function NAME of the N arguments ARG: of ir/scalar.ll, or of ir/funcs.def ("exp_f32"). */
const char *ll_call(LlFn *f, const char *name, const char *const *arg, int n);
/* The value of E, which is printed where it has none yet. */
const char *ll_expr(LlFn *f, Expr *e);
/* NAME is E's value from here on. */
void ll_name(LlFn *f, Expr *e, const char *name);
int ll_enter(LlFn *f);
void ll_leave(LlFn *f, int mark);
void ll_forget(LlFn *f);
/* A constant as LLVM writes it. */
const char *ll_const(Arena *a, const Expr *e);
/* The definition of the function FN of ir/funcs.def on f32 or f64. */
const char *ll_func(GenPtx *g, Inst fn, CType t);

/* ---- registers.c: registers ---- */

/* The most registers of 32 bits that are alive at once in PTX, an entry. */
int ptx_most_alive(const char *ptx);
/* PTX, the entry of FN, that also says how many registers ptxas may give it. The caller frees it. */
char *ptx_limited(const char *ptx, const Gpu *gpu, const PtxFunc *fn);

#endif
