/* SPDX-License-Identifier: Apache-2.0 */
/* Inlines maps inside one kernel. */
#ifndef PASSES_FORMS_INLINE_H
#define PASSES_FORMS_INLINE_H

#include "passes/forms/kernels.h"

/* Inlines every temporary for which that pays off; returns true if there was one. */
bool kernel_inline(Kernel *k);
/* Whether the map S only moves elements. */
bool inline_is_free(const Stmt *s);
/* Whether statement AT is a map that may be recomputed wherever its temporary is read. */
bool inline_may(Kernel *k, int at);
/* Inlines statement AT, a simple map, into the later statements that read its result. */
void inline_after(Kernel *k, int at);

#endif
