/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/parts.h"

bool parts_common(Ctx *c, Arena *arena, const Type *a, const Type *b, const Parts **pa,
		  const Parts **pb)
{
	const Type *type[2] = {a, b};
	const Parts **to[2] = {pa, pb};
	Parts *part[2] = {NULL, NULL};
	Dim *left[2] = {NULL, NULL}, *q;
	int at[2] = {0, 0};

	for (int n = 0; at[0] < a->rank || at[1] < b->rank; n++) {
		int less;

		for (int s = 0; s < 2; s++) {
			if (left[s])
				continue;
			if (at[s] == type[s]->rank)
				return false;
			left[s] = type[s]->dims[at[s]];
			part[s] = NEW(arena, Parts);
		}
		less = dim_divides(c, left[1], left[0], &q) ? 0 : 1;
		if (n == MAX_RANK || (less == 1 && !dim_divides(c, left[0], left[1], &q)))
			return false;
		for (int s = 0; s < 2; s++)
			part[s]->dim[part[s]->n++] = left[less];
		left[1 - less] = left[0] == left[1] ? NULL : q;
		left[less] = NULL;
		for (int s = 0; s < 2; s++)
			if (!left[s])
				to[s][at[s]++] = part[s]->n > 1 ? part[s] : NULL;
	}
	return true;
}

int parts_count(const Parts *p)
{
	return p ? p->n : 1;
}
