/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of schedules, by isl. Statements of the original kernel, their dependences, and the points and
 * times at which the nodes of a loop tree carry them out are integer sets and relations over the sizes;
 * what is proved holds for every size that the symbols' bounds allow:
 *
 *   - every point of every statement is carried out, and once: a reduction as its state's first value, each
 *     term, and its write;
 *   - the source of a dependence runs before its sink; neither the parallel loop of a stage nor a vector loop
 *     carries one. Terms of one monoid may change places, and are not combined into one state at once;
 *   - two points that share a cell of a local while it lives are one point, and readers read the cell that holds the
 *     value;
 *   - at each point a node computes what its statement computes there, from the elements that the statement reads, and stores
 *     it where the statement writes (passes/poly/values.c).
 *
 * Not looked at: what copies of operands hold (packing, tiles in shared memory).
 */
#ifndef PASSES_POLY_POLY_H
#define PASSES_POLY_POLY_H

#include "passes/module.h"

/* UNPROVED: a size or an index has no affine form, or the budget of operations is spent. */
typedef enum PolyVerdict { POLY_PROVED, POLY_UNPROVED, POLY_WRONG } PolyVerdict;

/* Appends to WHY what is wrong, or not proved. OPERATIONS: isl's budget, 0: the usual one. */
PolyVerdict poly_verdict(Kernel *original, Schedule *s, unsigned long operations, StrBuf *why);
/* What is wrong is an error; what is not proved is the warning "unproved". */
PolyVerdict poly_check(Kernel *original, Schedule *s, Diag *d);
/* Every schedule of M, equal ones once; counts them in M. False where one is wrong, or not proved under
 * -Werror=unproved. */
bool poly_check_module(Module *m, Diag *d);

#endif
