/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by passes/memory/alias.c, which finds results that may be computed in place, and
 * alias_split.c. */
#ifndef PASSES_MEMORY_ALIAS_H
#define PASSES_MEMORY_ALIAS_H

#include "ir/kernel/kernel.h"

/* ---- alias_split.c ---- */

/* A map S that takes ROWS rows of dim DIM, starting at START, from the value UPDATE, and all other
 * rows from LOAD. */
typedef struct AliasSplit {
	Stmt *s;
	int dim;
	Dim *rows;
	Expr *start, *update, *load;
	Expr *rest; /* the value from row PAST onwards, where LOAD has no more rows; or null */
	Dim *past;
} AliasSplit;

/* Whether S of K is such a map, and all its other loads are from other buffers than LOAD's. */
bool alias_split_find(Kernel *k, Stmt *s, AliasSplit *out);
/* Replaces it by the copy of LOAD, which is returned, and updates after the copy. */
Stmt *alias_split(Kernel *k, const AliasSplit *x);

#endif
