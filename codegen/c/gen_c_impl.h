/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files that print one C function: codegen/c/gen_c.c, names.c, lanes.c, nodes.c,
 * loop.c, quantise.c. */
#ifndef CODEGEN_C_GEN_C_IMPL_H
#define CODEGEN_C_GEN_C_IMPL_H

#include "codegen/c/expr.h"
#include "codegen/c/gen_c.h"

/* Names within one function (names.c). */
typedef struct FnName {
	const void *key;
	const char *text;
} FnName;

typedef struct Fn {
	GenC *g;
	const Schedule *sched;
	const Stage *stage;
	const Tile *runs; /* a tile that reads A in segments; null: there is none. All such
			   * tiles of a function read the same table. */
	VEC(FnName) names;
	VEC(Buf *) bufs; /* buffer parameters, in order of first use */
	VEC(Dim *) sizes; /* size parameters: symbols, and sizes computed from them */
	VEC(Buf *) tables; /* tables of constants */
	/* parameters of one element, which the function loads once, at its beginning */
	VEC(Buf *) values;
	VEC(Buf *) locals;
	VEC(bool) scalar;           /* by local: it is a plain variable */
	VEC(const Iter *) naturals; /* variables that are never negative */
	StrBuf body;
	int indent, ntemp;
	bool unrolls; /* the loop around what is printed is unrolled */
	bool copies; /* what is printed is under a condition that input and result differ (fn_loop) */
	/* it has an index that may be out of range; it uses its scratch */
	bool faults, scratch;
	bool matrix;               /* it calls micro-kernels in matrix registers */
	VEC(CExprNamed) quotients; /* that are computed before the loop that is printed */
	CExprNames cb;
} Fn;

/* ---- names.c ---- */

/* The name of KEY in F. A new one is made from BASE (null: "v"): out_, or out_2_, out_3_ ... */
const char *fn_name(Fn *f, const void *key, const char *base);
/* The number of the name with the N letters S, in f->names; -1: F has no such name. */
int fn_find_name(const Fn *f, const char *s, size_t n);
/* The name of B. Unless B is a local, it becomes a parameter or a table of constants. */
const char *fn_buf(Fn *f, Buf *b);
/* The i64 E is never negative in FN, a Fn, as far as a quick analysis shows. Overflow is ignored: E
 * is an index into memory. */
bool fn_natural(void *fn, const Expr *e);
/* The expression that loads element AT of B. */
void fn_load(Fn *f, StrBuf *b, const Buf *buf, const char *at);
/* The name of the variable that has the element of B, one of f->values. */
const char *fn_value(Fn *f, const Buf *b);
/* B has one element, which the function does not change: a scale, a zero point. The compiler
 * would load it again after each store of a byte, which may change anything. */
bool fn_is_value(const Fn *f, const Buf *b);
/* B is a local of one element, a variable. */
bool fn_is_scalar(const Fn *f, const Buf *b);
/* The first tile in N and its siblings that reads A in segments; null if there is none. */
const Tile *fn_tile_with_runs(const LNode *n);
/* Whether N or a sibling of it writes to B. */
bool fn_writes(const LNode *n, const Buf *b);
/* Records whether N's variable is never negative, judged by its first value. */
void fn_note_natural(Fn *f, const LNode *n);
/* The callbacks that print the leaves of F's expressions. */
CExprNames fn_leaves(Fn *f);
/* The C type of T's elements in memory; null if only dl_load_* and dl_store_* access them.
 * c_converts: loads and stores convert. */
const char *c_memory_type(DType t);
bool c_converts(DType t);
/* Prints the statement that stores VAL to B[AT]. */
void fn_store(Fn *f, StrBuf *b, Buf *buf, const char *at, const char *val);

/* ---- near.c ---- */

enum {
	MOST_NEAR = 2, /* functions of a loop whose operands are tested */
	NEAR_STRIP = 64 /* points of a loop that are tested together */
};

/* Calls of functions that have a form FUNC_NEAR, which a loop evaluates at each of its points. */
typedef struct NearCalls {
	Expr *at[MOST_NEAR];
	int n;
	bool all; /* each such call is among them, and its operand is cheap */
} NearCalls;

/* Adds the calls in VAL. */
void c_near_add(const Fn *f, Expr *val, NearCalls *c);
/* Prints a test of the operands of C at the points of IT from AT to END, as texts, and opens the
 * block for the case that one is large. c_near_else closes it and opens the one where functions
 * have the form FUNC_NEAR; c_near_end closes that. */
void c_near_begin(Fn *f, Iter *it, const char *at, const char *end, const NearCalls *c);
void c_near_else(Fn *f);
void c_near_end(Fn *f);

/* ---- loop.c ---- */

/* Prints loop N. */
void fn_loop(Fn *f, const LNode *n);
/* Prints N, a reduction in lanes. */
void fn_reduce(Fn *f, const LNode *n);

/* ---- quantise.c ---- */

/* Prints the loop N, if it stores quantised floats and is one that compilers vectorise; false if it
 * is another loop. */
bool c_quantise(Fn *f, const LNode *n);
/* Prints the functions that these loops call. */
void c_quantise_functions(const GenC *g, StrBuf *b);

/* ---- narrow.c ---- */

/* Computes positions in the values that N and the nodes after it store in i32, where these fit. */
void fn_narrow(const Schedule *s, LNode *n);

/* ---- lanes.c ---- */

/* Notes that LANES states are combined by RED; returns the name of the function that does it, or
 * null: there is none. */
const char *c_combine_lanes(GenC *g, Monoid red, CType ct, int lanes);
/* Prints these functions. */
void c_lanes_functions(GenC *g, StrBuf *b);

/* ---- nodes.c ---- */

/* Prints the indentation of a line. */
void fn_tabs(Fn *f);
/* The texts of N expressions, after printing their temporaries; the text of a null one is empty. */
void fn_texts(Fn *f, Expr *const *e, int n, StrBuf *out);
/* Opens a block under a guard, false if that is null; temporaries of the guarded part are
 * computed inside. */
bool fn_guard(Fn *f, Expr *guard);
/* Closes a block. */
void fn_close(Fn *f);
/* Prints that the terms of N, an update or a reduction, are combined into element AT of STATE. */
void fn_update(Fn *f, const LNode *n, Buf *const *state, Expr *at);
/* Declares the local B, at byte OFFSET of the scratch, or, if that is null, on the stack. */
void fn_declare(Fn *f, Buf *b, Expr *offset);

/* Prints N and its siblings to f->body. */
void fn_nodes(Fn *f, const LNode *n);

#endif
