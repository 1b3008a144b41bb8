/* SPDX-License-Identifier: Apache-2.0 */
/* Looks through the maps and views that compute an operand when the model is built, or only move
 * its elements. */
#ifndef PASSES_FORMS_THROUGH_H
#define PASSES_FORMS_THROUGH_H

#include "passes/forms/kernels.h"
#include "passes/module.h"

/* E, an expression of N's kernel, in which a load of a value that a map or a View computed is
 * replaced by what the map evaluates, or by a load of what the View shows, as long as there are
 * such. If MOVES, these are maps that move elements, of any value; else any maps, of values that
 * depend on constants alone. They are never those of an integer of at most 8 bits: such a value
 * is stored as it is. The operands are added to N. */
Expr *weights_through(Module *m, Node *n, Expr *e, bool moves);
/* The map that is all of the kernel which computes what E, an expression of N's kernel, loads, and
 * that cannot fail; else null. */
Stmt *loaded_map(const Node *n, const Expr *e);
/* What load E reads, as that map S evaluates. Its operands are added to N; null: there would be too
 * many. */
Expr *load_as_map(Node *n, const Expr *e, const Stmt *s);
/* E loads an integer of at most 8 bits. */
bool expr_is_narrow(const Expr *e);
/* Adds V to the operands of N and returns the load of its element IDX, for N's kernel. */
Expr *load_added(Node *n, const char *name, Value *v, Expr *const *idx, int rank);

#endif
