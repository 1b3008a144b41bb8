/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by passes/memory/alias.c, which finds results that may be computed in place,
 * alias_carried.c, alias_split.c and memplan.c. */
#ifndef PASSES_MEMORY_ALIAS_H
#define PASSES_MEMORY_ALIAS_H

#include "passes/module.h"

/* ---- alias.c ---- */

/* The buffer that S copies completely to its output, at the same indices, by load E; or null. Its
 * domain has the size PAST in dim DIM (-1: S keeps its own sizes). */
Buf *alias_copied(const Stmt *s, const Expr *e, int dim, const Dim *past);

/* ---- alias_carried.c ---- */

/* Makes the values that loops carry updates in place where an iteration replaces some elements. */
void alias_carried(Module *m);
/* The node that computes NEXT, the next value of CARRIED, does not read CARRIED but to copy it to
 * NEXT, at the same indices, and no node reads CARRIED later. So both may have one memory. ORDER:
 * by Node.id, its position in program order. */
bool alias_in_place(const Value *carried, Value *next, const int *order);

/* ---- alias_split.c ---- */

/* A map S that takes ROWS rows of dim DIM, starting at START, from the value UPDATE, and all other
 * rows from LOAD. */
typedef struct AliasSplit {
	Stmt *s;
	int dim;
	Dim *rows;
	Expr *start, *update, *load;
	Expr *when; /* the rows are taken only where this holds; null: always */
	Expr *rest; /* the value from row PAST onwards, where LOAD has no more rows; or null */
	Dim *past;
} AliasSplit;

/* Whether S of K is such a map, and all its other loads are from other buffers than LOAD's. */
bool alias_split_find(Kernel *k, Stmt *s, AliasSplit *out);
/* Replaces it by the copy of LOAD, which is returned, and updates after the copy. */
Stmt *alias_split(Kernel *k, const AliasSplit *x);

#endif
