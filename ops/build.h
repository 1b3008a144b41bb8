/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `lower` of the structured ops shares: points (iterators with the dims of 1 left out), statements
 * over them, accumulators and windows. A dim that is 1 at compile time has no iterator and is read at
 * 0, so that a 1x1 convolution, a depthwise one and a product of one row show their plain form to the
 * scheduler.
 */
#ifndef OPS_BUILD_H
#define OPS_BUILD_H

#include "ops/op.h"

/* Iterators of a statement, in order. Zero-initialise. */
typedef struct Point {
	Iter *it[MAX_ITERS];
	int n;
} Point;

/* Adds an iterator 0 <= it < EXTENT and returns it as an index; 0 where EXTENT is 1. */
Expr *point_add(Kernel *k, Point *p, const char *name, Dim *extent);
/* Adds an iterator for every dim of B; their indices to IDX. */
void point_add_dims(Kernel *k, Point *p, const Buf *b, Expr **idx);

/* out[widx] = val over P. */
Stmt *point_map(Kernel *k, const Point *p, Buf *out, Expr *const *widx, Expr *val, Expr *guard);
/* out[widx] = the reduction of VAL over RED for every point of BAND. RED may be empty: then one term. */
Stmt *point_reduce(Kernel *k, Monoid m, const Point *band, const Point *red, Buf *out,
		   Expr *const *widx, Expr *val, Expr *guard);
/* A reduction of two components. */
Stmt *point_reduce2(Kernel *k, Monoid m, const Point *band, const Point *red, Buf *const *out,
		    Expr *const *widx, Expr *const *val, Expr *guard);

/* What sums of T are carried in: f32 for the smaller floats, i32 for the smaller integers, else T. */
DType acc_dtype(DType t);
/* OUT itself where its type is that of its sums and nothing follows (LAST), else a temporary like it. */
Buf *acc_buf(Kernel *k, Buf *out, bool last);
/* Numbers, and the same element type for every operand; an error where not. */
bool contract_types(Infer *in, Node *n);
/* Index into a dim of extent FROM at IT of the dim TO that it broadcasts to. Where FROM may be 1 at run time, the stride is
 * min(1, FROM - 1): 0 then, else 1. */
Expr *broadcast_index(Kernel *k, Dim *from, Dim *to, Expr *it);
/* ex_parse of a text over named values; the text is ours, so a fault is a bug. */
Expr *build_expr(Kernel *k, CType t, const char *text, const ExprName *names, int n);
#define BUILD_EXPR(k, t, text, ...)                                                                \
	build_expr((k), (t), (text), (ExprName[]){__VA_ARGS__},                                    \
		   (int)(sizeof((ExprName[]){__VA_ARGS__}) / sizeof(ExprName)))

/* The window attributes of Conv and the pools, over the spatial dims of operand 0 (those after two). */
typedef struct Window {
	int n;                                  /* spatial dims */
	Dim *in[MAX_RANK], *kernel[MAX_RANK];   /* extents */
	int64_t stride[MAX_RANK], dilation[MAX_RANK];
	Dim *begin[MAX_RANK], *end[MAX_RANK];   /* pads */
	Dim *out[MAX_RANK];                     /* extents of the result */
	bool padded[MAX_RANK];                  /* a window may reach outside the input */
	bool ceil[MAX_RANK];                    /* a window may reach past the end pad, too */
} Window;

/* Reads N's attributes for input X; kernel extents come from WEIGHT's dims after two where it is not null,
 * else from kernel_shape. With IN null (in `lower`, after inference passed) nothing is checked. False
 * after a diagnostic. */
bool window_init(Infer *in, Ctx *c, Node *n, const Type *x, const Type *weight, Window *w);
/* The effective extent of the kernel: (k - 1) * dilation + 1. */
Dim *window_extent(Ctx *c, const Window *w, int d);
/* The index in spatial dim D at output O and tap R; *GUARD gains what must hold. */
Expr *window_index(Kernel *k, const Window *w, int d, Expr *o, Expr *r, Expr **guard);
/* The attribute NAME as N positive ints, OTHERWISE where absent. */
bool window_ints(Infer *in, Node *n, const char *name, int count, int64_t least, int64_t otherwise, int64_t *out);

#endif
