/* SPDX-License-Identifier: Apache-2.0 */
/* The condition under which a statement's value matters to the statements that read it. */
#ifndef PASSES_FORMS_READ_WHEN_H
#define PASSES_FORMS_READ_WHEN_H

#include "ir/loop/loop.h"
#include "passes/forms/kernels.h"

/* A condition over the iterators of statement S, number S of K. Where it fails, the element that S
 * writes affects no other statement, so it may have any value; if BOUNDED, any value of less than
 * TILE_BOUND in magnitude. Null: an element may always be read, or the condition is not simple. The
 * condition loads only operands of K, cannot fault and is cheap. */
Expr *kernel_read_when(Kernel *k, int s, bool bounded);

#endif
