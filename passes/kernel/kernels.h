/* SPDX-License-Identifier: Apache-2.0 */
/* What passes ask of kernels: which buffers and iterators occur, how statements read, and small rewrites
 * that keep the meaning. */
#ifndef PASSES_KERNEL_KERNELS_H
#define PASSES_KERNEL_KERNELS_H

#include "ir/graph.h"

enum { MAX_PARAMS = 256 };

Kernel *node_kernel(const Node *n); /* null where N is no Kernel node */
void kernel_node_set(Node *n, Kernel *k);
/* All uses of FROM become uses of TO, symbols read from it included. */
void value_move(Value *from, Value *to);
/* Whether a symbol is read from V's elements. */
bool value_feeds_sym(const Value *v);

/* Iterators of extent 1 become the constant 0 and leave their statements. */
void kernel_drop_unit_iters(Kernel *k);
/* Drops buffers that no statement mentions and renumbers the rest. */
void kernel_mark_used(Kernel *k);
/* Every expression of S replaced by MAP's (ex_rewrite). */
void stmt_rewrite(Kernel *k, Stmt *s, ExprMap map, void *arg);
/* A map into a buffer with a layout becomes a map over its physical axes into plain memory. */
void kernel_physical(Kernel *k);
/* E is hi*N + lo, of iterators, with lo < N, and goes over all of 0 <= E < WHOLE. */
bool expr_digits(Ctx *c, Expr *e, const Dim *whole, Iter **hi, Iter **lo);
/* Calls FN on every load in S's values and guard (not the write). */
void stmt_loads(Stmt *s, void (*fn)(void *arg, Stmt *s, Expr *load), void *arg);
/* LOAD, of S, reads an element at one point of S at the most: each iterator of S is one of its indices. */
bool load_once(const Stmt *s, const Expr *load);
/* Its indices are iterators and constants. */
bool load_plain(const Expr *load);
/* Sets READ[Buf.id] for every buffer that S loads. */
void stmt_mark_loads(Stmt *s, bool *read);
bool stmt_reads(Stmt *s, const Buf *b);
bool stmt_writes(const Stmt *s, const Buf *b);
bool expr_can_fault(Expr *e);
/* Work of one evaluation: 0 for moves, 1 an instruction, 20 a function. Loads' indices count nothing. */
int expr_cost(Expr *e);
/* The points of N iterators: the product of their extents. */
Dim *iters_points(Ctx *c, Iter *const *it, int n);
/* S stores each element once, in any order. */
bool stmt_is_map(const Stmt *s);
/* S updates elements of a buffer, a point each: a scatter. */
bool stmt_is_scatter(const Stmt *s);
/* The narrowest element that a GPU's memory combines with another in one step. */
enum { SCATTER_BITS = 16 };
/* If S is a map without guard whose write is a permutation of its iterators (constants 0 in dims of extent
 * 1), true. */
bool stmt_is_simple_map(const Stmt *s);

/* E of kernel FROM (node NODE) as an expression of K: its buffers come along as operands, appended to IN, and
 * iterators IT[0..n) become WITH. */
Expr *kernel_import_expr(Kernel *k, Kernel *from, Expr *e, Iter *const *it, Expr *const *with, int n, const Node *node,
			 Value **in, int *nin);
/* Operands that no statement of the kernel reads any more leave the node. */
void node_drop_unused_inputs(Node *n);

/* Component K of state A combined with term B; a sum of products is made of multiply-adds, as the
 * micro-kernel's is. */
Expr *monoid_step(ExprPool *p, Monoid m, int k, Expr *const *a, Expr *const *b);

/* Statement classes, by shape alone. */
typedef enum KernelClass { KC_MAP, KC_ROW, KC_CONTRACTION, KC_OTHER } KernelClass;
KernelClass kernel_class(Kernel *k);
/* Of its statements FIRST..LAST. */
KernelClass kernel_class_of(Kernel *k, int first, int last);
/* Those are a contraction and maps after it, which may be of some of its points alone. */
bool kernel_is_product(Kernel *k, int first, int last);

/* A copy of E with every load at one flat index: the sum of index times stride, in C's memory order. */
Expr *expr_flatten(Kernel *k, Expr *e);
/* The place of dim D of B among its physical axes, outermost first. */
int buf_axis(const Buf *b, int d);
/* The flat index of B at IDX. */
Expr *flat_index(Kernel *k, const Buf *b, Expr *const *idx);

#endif
