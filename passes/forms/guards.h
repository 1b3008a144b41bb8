/* SPDX-License-Identifier: Apache-2.0 */
/* Guards of statements as ranges of iterators. */
#ifndef PASSES_FORMS_GUARDS_H
#define PASSES_FORMS_GUARDS_H

#include "ir/kernel/kernel.h"

/* The conjunct G compares affine functions. */
bool guard_is_affine(Kernel *k, Expr *g);
/* Removes from GUARD the conjuncts that bound VAR, and tightens *LO and *HI by them. Conjuncts
 * without VAR are removed, too: where they fail the range is empty. Returns the remaining guard
 * (null: none). */
Expr *guard_to_range(Kernel *k, Expr *guard, const Iter *var, Expr **lo, Expr **hi);
/* The condition that G holds for all points of IT[0..n), in terms of the other iterators; null with
 * *OK false if G is no conjunction of bounds that step evenly along them. *OK may be false
 * before. */
Expr *guard_for_all(Kernel *k, Expr *g, Iter *const *it, int n, bool *ok);

#endif
