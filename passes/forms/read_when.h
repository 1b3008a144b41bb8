/* SPDX-License-Identifier: Apache-2.0 */
/* When the value of a statement matters to the statements that read it. */
#ifndef PASSES_FORMS_READ_WHEN_H
#define PASSES_FORMS_READ_WHEN_H

#include "ir/loop/loop.h"
#include "passes/forms/kernels.h"

/* The condition without which the element that statement number S of K writes changes nothing
 * that other statements compute, an expression over the iterators of S; null: an element may be
 * read always, or the condition is not simple. It loads nothing but operands of K, cannot fault
 * and is cheap. Where it does not hold, the element may have any value; if BOUNDED, any value of
 * less than TILE_BOUND in magnitude. */
Expr *kernel_read_when(Kernel *k, int s, bool bounded);

#endif
