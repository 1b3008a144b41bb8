/* SPDX-License-Identifier: Apache-2.0 */
/* Converts guards of statements to ranges of iterators. */
#ifndef PASSES_FORMS_GUARDS_H
#define PASSES_FORMS_GUARDS_H

#include "ir/kernel/kernel.h"

/* Conjunct G compares affine functions. */
bool guard_is_affine(Kernel *k, Expr *g);
/* Removes from GUARD the conjuncts that bound VAR, and tightens *LO and *HI by them. Conjuncts
 * without VAR are removed, too: the range is empty where one fails. Returns the remaining guard
 * (null: none). */
Expr *guard_to_range(Kernel *k, Expr *guard, const Iter *var, Expr **lo, Expr **hi);
/* The condition, over the other iterators, that G holds for all points of IT[0..n). Null with *OK
 * false if G is not a conjunction of bounds that step evenly along these iterators. The caller may
 * pass in *OK false. */
Expr *guard_for_all(Kernel *k, Expr *g, Iter *const *it, int n, bool *ok);

#endif
