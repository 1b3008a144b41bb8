/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of schedules, by isl. Statements of the original kernel, their dependences, and the
 * points and times at which the nodes of a loop tree carry them out are integer sets and relations
 * over the sizes; what is proved holds for every size that the symbols' bounds allow:
 *
 *   - every point of every statement is executed once: for a reduction, these are the initial
 *     value of its state, each term, and its write;
 *   - the source of a dependence runs before its sink; neither the parallel loop of a stage nor a
 *     vector loop carries one. Terms of one monoid may be reordered, but two terms are not combined
 *     into one state at the same time;
 *   - two points that use the same element of a local while it lives are one point, and readers
 *     read the element that holds the value;
 *   - at each point a node computes what its statement computes there, from the elements that the
 *     statement reads, and stores it where the statement writes (passes/poly/values.c);
 *   - terms that a tile leaves out are of sums that no statement reads, or their weights are found to
 *     be 0 and the other factors finite (passes/poly/trim.c);
 *   - a tile on a CPU multiplies the elements that its statement does (passes/poly/operands.c);
 *   - accesses to locals are inside of them, their types hold the values, and those in scratch do not
 *     overlap (passes/poly/memory.c).
 *
 * Not checked: the contents of copies of operands (packing, tiles in shared memory), and how
 * threads divide the points of a loop. A schedule of a text (Schedule.stated) that has these is not
 * proved.
 */
#ifndef PASSES_POLY_POLY_H
#define PASSES_POLY_POLY_H

#include "passes/module.h"

/* POLY_UNPROVED: a size or an index has no affine form, or isl's budget of operations is spent. */
typedef enum PolyVerdict { POLY_PROVED, POLY_UNPROVED, POLY_WRONG } PolyVerdict;

/* Checks schedule S of kernel ORIGINAL. Appends to WHY what is wrong or not proved. OPERATIONS:
 * isl's budget; 0: the default. */
PolyVerdict poly_verdict(Kernel *original, Schedule *s, unsigned long operations, StrBuf *why);
/* As poly_verdict. A wrong schedule is an error; one that is not proved is the warning
 * "unproved". */
PolyVerdict poly_check(Kernel *original, Schedule *s, Diag *d);
/* Checks every schedule of M, equal ones once, and counts the verdicts in M. False if one is wrong,
 * or not proved under -Werror=unproved. */
bool poly_check_module(Module *m, Diag *d);

#endif
