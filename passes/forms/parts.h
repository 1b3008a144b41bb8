/* SPDX-License-Identifier: Apache-2.0 */
/* The factors that two shapes of the same elements share: [n,c,h*w] and [n*c,h,w] are both
 * [n,c,h,w]. */
#ifndef PASSES_FORMS_PARTS_H
#define PASSES_FORMS_PARTS_H

#include "ir/graph/type.h"

/* The factors that a dim or an iterator is split into, outermost first; null: it is not split. */
typedef struct Parts {
	int n;
	Dim *dim[MAX_RANK];
} Parts;

/* Finds parts, in ARENA, that divide the dims of both A and B; false if there are none. */
bool parts_common(Ctx *c, Arena *arena, const Type *a, const Type *b, const Parts **pa,
		  const Parts **pb);
/* The number of dims or iterators that replace one with the parts P (1 if P is null). */
int parts_count(const Parts *p);

#endif
