/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PASSES_INLINE_H
#define PASSES_INLINE_H

#include "passes/kernels.h"

/* Inlines what is worth it; true where anything changed. */
bool kernel_inline(Kernel *k);
/* A map that only moves elements. */
bool inline_is_free(const Stmt *s);
/* What DEF, a simple map, stores at IDX. */
Expr *inline_value(Kernel *k, const Stmt *def, Expr *const *idx);

#endif
