/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growable arrays in an arena: VEC(T) is a struct {T *at; int n, cap;}. Growing leaves the old copy
 * in the arena, so after a push pointers into `at` are to the old copy.
 */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include "base/arena.h"

#include <string.h>

#define VEC(T) struct { T *at; int n, cap; }

#define vec_push(arena, v, x)                                                                      \
	((v)->n == (v)->cap ? vec_grow_((arena), (void **)&(v)->at, &(v)->cap, sizeof *(v)->at)   \
			    : (void)0,                                                             \
	 (v)->at[(v)->n++] = (x))

/* Loops over the elements of V, to which the body appends nothing. X is the element, or a pointer
 * to it. */
#define VEC_EACH(x, v)                                  \
	for (__typeof__(*(v)->at) x, *x##_at = (v)->at; \
	     x##_at - (v)->at < (v)->n && ((void)(x = *x##_at), 1); x##_at++)
#define VEC_EACH_AT(x, v) for (__typeof__(&*(v)->at) x = (v)->at; x - (v)->at < (v)->n; x++)

#define vec_last(v) ((v)->at[(v)->n - 1])

static inline void vec_grow_(Arena *a, void **at, int *cap, size_t size)
{
	int want = *cap ? *cap * 2 : 8;
	void *p = arena_array(a, (size_t)want, size);

	if (*cap)
		memcpy(p, *at, (size_t)*cap * size);
	*at = p;
	*cap = want;
}

#endif
