/* SPDX-License-Identifier: Apache-2.0 */
/* Inlining of maps where they are read, inside one kernel. */
#ifndef PASSES_KERNEL_INLINE_H
#define PASSES_KERNEL_INLINE_H

#include "passes/kernel/kernels.h"

/* Inlines what is worth it; true where anything changed. */
bool kernel_inline(Kernel *k);
/* A map that only moves elements. */
bool inline_is_free(const Stmt *s);
/* Statement AT is a map that may be recomputed wherever its result, a temporary, is read. */
bool inline_may(Kernel *k, int at);
/* What the statements behind number AT, a simple map, read of its result becomes part of them. */
void inline_after(Kernel *k, int at);

#endif
