/* SPDX-License-Identifier: Apache-2.0 */
/* Queries on kernels (which buffers and iterators occur, how statements read) and small rewrites
 * that preserve the meaning. */
#ifndef PASSES_FORMS_KERNELS_H
#define PASSES_FORMS_KERNELS_H

#include "ir/graph/graph.h"

enum { MAX_PARAMS = 256 };

Kernel *node_kernel(const Node *n); /* null if N is not a Kernel node */
void kernel_node_set(Node *n, Kernel *k);
/* Replaces all uses of FROM by TO, and the symbols that are read from FROM by ones that are read
 * from TO. */
void value_move(Value *from, Value *to);
/* Whether a symbol is read from V's elements. */
bool value_feeds_sym(const Value *v);

/* Replaces iterators of extent 1 by the constant 0. */
void kernel_drop_unit_iters(Kernel *k);
/* Removes buffers that no statement mentions and renumbers the others. */
void kernel_mark_used(Kernel *k);
/* Removes statement AT. */
void kernel_remove_stmt(Kernel *k, int at);
/* Moves the last statement to AT, before those that were there. */
void kernel_move_last_stmt(Kernel *k, int at);
/* Rewrite every expression of S by ex_replace; by ex_subst_iters. */
void stmt_replace(Kernel *k, Stmt *s, const Expr *from, Expr *to);
void stmt_subst_iters(Kernel *k, Stmt *s, Iter *const *it, Expr *const *with, int n);
/* Rewrites a map into a buffer with a layout as a map over its physical axes into plain memory. */
void kernel_physical(Kernel *k);
/* Whether E is hi*N + lo, where hi and lo are iterators and lo < N; unless WHOLE is null, E must
 * also cover all of 0 <= E < WHOLE. */
bool expr_divmod(Ctx *c, Expr *e, const Dim *whole, Iter **hi, Iter **lo);
/* Whether LOAD of S reads each element at most once: every iterator of S is one of its indices. */
bool load_once(const Stmt *s, const Expr *load);
/* Whether all indices of LOAD are iterators or constants. */
bool load_plain(const Expr *load);
/* Whether LOAD reads every element of its buffer over all points of its statement. */
bool load_whole(const Expr *load);
/* Sets READ[Buf.id] for every buffer that S loads. */
void stmt_mark_loads(Stmt *s, bool *read);
bool stmt_reads(const Stmt *s, const Buf *b);
bool expr_loads(Expr *e, const Buf *b);
bool stmt_writes(const Stmt *s, const Buf *b);
/* The only statement of K that writes B; null: none, or several. */
Stmt *kernel_writer(const Kernel *k, const Buf *b);
bool expr_can_fault(Expr *e);
/* Whether an index that S or K computes may be out of range. */
bool stmt_can_fault(const Stmt *s);
bool kernel_can_fault(const Kernel *k);
/* The cost of evaluating E: 0 for moves, 1 for each instruction, 20 for each function. Indices of
 * loads cost nothing, unless more than two of them depend on one another. */
int expr_cost(Expr *e);
/* The number of points of N iterators: the product of their extents. */
Dim *iters_points(Ctx *c, Iter *const *it, int n);
/* OUT[0..n): the values of the iterators IT at point FLAT of all of their points. */
void iters_split(ExprPool *p, Iter *const *it, int n, Expr *flat, Expr **out);
/* Whether that number is constant and less than LEAST. */
bool iters_fewer(Ctx *c, Iter *const *it, int n, int64_t least);
/* Whether S stores each element once, in any order. */
bool stmt_is_map(const Stmt *s);
/* Whether S is a scatter: it updates an element of a buffer at each point. */
bool stmt_is_scatter(const Stmt *s);
/* Bits of the narrowest element for which GPUs have atomic operations. */
enum { SCATTER_BITS = 16 };
/* Whether S is a map without guard whose write is a permutation of its iterators, with constants
 * 0 for dims of extent 1. */
bool stmt_is_simple_map(const Stmt *s);
/* The same of the elements at a constant index in any dims: a part of a Concat of such elements. */
bool stmt_is_part(const Stmt *s);
/* Whether N is a View, or a kernel of only such a map. */
bool node_is_map(const Node *n);

/* Copies expression E from kernel FROM of node NODE to K. The buffers that E reads become
 * operands, whose values are appended to IN. Iterators IT[0..n) are replaced by WITH. */
Expr *kernel_import_expr(Kernel *k, Kernel *from, Expr *e, Iter *const *it, Expr *const *with,
			 int n, const Node *node, Value **in, int *nin);
/* The operand of N that E, an expression of N's kernel, loads; null: E is not a load of an
 * operand. */
Value *node_loaded(const Node *n, const Expr *e);
/* The constant that E, an expression of N's kernel, loads; null: E does not load a constant. */
const Tensor *node_loaded_const(const Node *n, const Expr *e);
/* *V: the number that E of N's kernel is, a constant or the one element of F32 or I32 that it
 * loads; false if it is neither. */
bool node_number(const Node *n, const Expr *e, double *v);
/* Adds V to the operands of N; returns its buffer in N's kernel. */
Buf *node_add_operand(Node *n, const char *name, Value *v);
/* Removes operands that no statement of the kernel reads from the node. */
void node_drop_unused_inputs(Node *n);

/* Component K of the state A combined with the term B. A sum of products uses multiply-adds, as the
 * micro-kernel does. */
Expr *monoid_step(ExprPool *p, Monoid m, int k, Expr *const *a, Expr *const *b);

/* A copy of E in which every load has one flat index: the sum of index times stride in B's memory
 * order. */
Expr *expr_flatten(Kernel *k, Expr *e);
/* The flat index of B's element at IDX. */
Expr *flat_index(Kernel *k, const Buf *b, Expr *const *idx);

#endif
