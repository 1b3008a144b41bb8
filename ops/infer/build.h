/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the `lower` functions of the structured operators: points, statements over points,
 * accumulators, and windows. A point is a list of iterators, one for each dim that is not 1 at
 * compile time; other dims are indexed by the constant 0. So a 1x1 convolution, a depthwise one and
 * a product of one row have no iterators of extent 1 for the scheduler to look through.
 */
#ifndef OPS_INFER_BUILD_H
#define OPS_INFER_BUILD_H

#include "ops/op.h"

/* The iterators of a statement, in order. Zero-initialise. */
typedef struct Point {
	Iter *it[MAX_ITERS];
	int n;
} Point;

/* Adds an iterator 0 <= it < EXTENT and returns it as an index; if EXTENT is 1, returns 0 and
 * adds none. */
Expr *point_add(Kernel *k, Point *p, const char *name, Dim *extent);
/* Adds an iterator for every dim of B; IDX gets their indices. */
void point_add_dims(Kernel *k, Point *p, const Buf *b, Expr **idx);

/* Adds the map out[widx] = val over P. */
Stmt *point_map(Kernel *k, const Point *p, Buf *out, Expr *const *widx, Expr *val, Expr *guard);
/* Adds out[widx] = the reduction of VAL over RED, for every point of BAND. An empty RED has one
 * term. */
Stmt *point_reduce(Kernel *k, Monoid m, const Point *band, const Point *red, Buf *out,
		   Expr *const *widx, Expr *val, Expr *guard);
/* As point_reduce, for a monoid of two components. */
Stmt *point_reduce2(Kernel *k, Monoid m, const Point *band, const Point *red, Buf *const *out,
		    Expr *const *widx, Expr *const *val, Expr *guard);

/* The type that sums of T are accumulated in: f32 for smaller floats, i32 for smaller integers,
 * else T. */
DType acc_dtype(DType t);
/* The buffer to accumulate in: OUT itself if it has that type and no statement follows (LAST),
 * else a temporary of the same shape. */
Buf *acc_buf(Kernel *k, Buf *out, bool last);
/* Checks that the operands are numbers of one element type; reports an error if not. */
bool contract_types(Infer *in, Node *n);
/* The index into a dim of extent FROM that broadcasts to a dim of extent TO, at index IT of the
 * latter. If only run time knows whether FROM is 1, the stride is min(1, FROM - 1), which is 0
 * if it is and 1 if not. */
Expr *broadcast_index(Kernel *k, Dim *from, Dim *to, Expr *it);
/* ex_parse over named values. TEXT is part of dlcc, so a fault in it is a bug. */
Expr *build_expr(Kernel *k, CType t, const char *text, const ExprName *names, int n);
#define BUILD_EXPR(k, t, text, ...)                                                                \
	build_expr((k), (t), (text), (ExprName[]){__VA_ARGS__},                                    \
		   (int)(sizeof((ExprName[]){__VA_ARGS__}) / sizeof(ExprName)))

/* The string with this id of k->ctx, as an expression; text shows the string. */
Expr *build_string(Kernel *k, int64_t id);

/* The window attributes of Conv and the pools, for the spatial dims of operand 0 (all dims after
 * the first two). */
typedef struct Window {
	int n;                                  /* number of spatial dims */
	Dim *in[MAX_RANK], *kernel[MAX_RANK];   /* extents */
	int64_t stride[MAX_RANK], dilation[MAX_RANK];
	Dim *begin[MAX_RANK], *end[MAX_RANK];   /* pads */
	Dim *out[MAX_RANK];                     /* extents of the result */
	bool padded[MAX_RANK];                  /* a window may reach outside the input */
	bool ceil[MAX_RANK];                    /* a window may extend past the end pad, too */
} Window;

/* Reads N's attributes for the input X. The extents of the window are WEIGHT's dims after the
 * first two, or kernel_shape if WEIGHT is null. A null IN means `lower`, where inference has
 * checked everything. False after a diagnostic. */
bool window_init(Infer *in, Ctx *c, Node *n, const Type *x, const Type *weight, Window *w);
/* Gives result K the type T, the batch of operand 0, CHANNELS, and the extents of W's result. */
void window_result(Infer *in, Node *n, int k, DType t, Dim *channels, const Window *w);
/* The effective extent of the kernel: (k - 1) * dilation + 1. */
Dim *window_extent(Ctx *c, const Window *w, int d);
/* The index in spatial dim D at output O and tap R; its bounds check is added to *GUARD if one
 * is needed. */
Expr *window_index(Kernel *k, const Window *w, int d, Expr *o, Expr *r, Expr **guard);
/* Reads attribute NAME as COUNT ints of at least LEAST; OTHERWISE is the default. */
bool window_ints(Infer *in, Node *n, const char *name, int count, int64_t least, int64_t otherwise, int64_t *out);

/* ---- ops/onnx/attention.c ---- */

/* Expands N, a node of the standard's Attention. SINK, if it is not null, has a logit for each head
 * of queries: it takes part in the softmax's maximum and sum, and its probability is dropped. */
bool attention_with_sink(Infer *in, Node *n, Value *sink, Value **out);
/* V, [batch, heads, sequence, size], as [batch, sequence, heads * size]. */
Value *attention_join_heads(Infer *in, Node *n, Value *v);

/* ---- ops/microsoft/microsoft_blocks.c ---- */

/* The numbers of BITS bits in the last dim of V, which is of bytes; there are COUNT of them.
 * Null after a diagnostic. */
Value *blocks_unpacked(Infer *in, Node *n, Value *v, int64_t bits, Dim *count);

#endif
