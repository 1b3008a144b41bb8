/* SPDX-License-Identifier: Apache-2.0 */
/* Looks through the maps and views that compute an operand at compile time, or only move its
 * elements. */
#ifndef PASSES_FORMS_THROUGH_H
#define PASSES_FORMS_THROUGH_H

#include "passes/forms/kernels.h"
#include "passes/module.h"

/* Rewrites E, an expression of N's kernel. While a load reads the result of a map or a View, it is
 * replaced by the map's expression, or by a load of the View's operand. If MOVES, only maps that
 * move elements are looked through; else any maps of values that depend only on constants. Integers
 * of at most 8 bits are not looked through: such a value is stored. The new operands are added to
 * N. */
Expr *weights_through(Module *m, Node *n, Expr *e, bool moves);
/* The map that computes the value which E, an expression of N's kernel, loads, if it is its
 * kernel's only statement and cannot fail; else null. */
Stmt *loaded_map(const Node *n, const Expr *e);
/* The expression of map S for the element that load E reads. Adds its operands to N; null: N would
 * have too many. */
Expr *load_as_map(Node *n, const Expr *e, const Stmt *s);
/* E loads an integer of at most 8 bits. */
bool expr_is_narrow(const Expr *e);
/* Adds V to the operands of N and returns a load of element IDX of V for N's kernel. */
Expr *load_added(Node *n, const char *name, Value *v, Expr *const *idx, int rank);

#endif
