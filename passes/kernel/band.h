/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common parallel band of a kernel's statements: iterators that all statements share, chosen so that every temporary is read only
 * at the point of the band that wrote it. The band of a softmax is its rows; that of a map is all of its domain.
 */
#ifndef PASSES_KERNEL_BAND_H
#define PASSES_KERNEL_BAND_H

#include "passes/kernel/kernels.h"

typedef struct Band {
	int n; /* common iterators, outermost first (the order of the last statement) */
	Iter *iter[MAX_ITERS]; /* of the last statement */
	/* of[s][b]: the iterator of statement s that runs with band iterator b */
	Iter *(*of)[MAX_ITERS];
} Band;

void band_of(Kernel *k, Arena *a, Band *out);
/* Which of B's iterators IT is, of statement S; -1: none. */
int band_index(const Band *b, const Stmt *s, const Iter *it);
/* Of statements FIRST..LAST alone. */
void band_of_some(Kernel *k, int first, int last, Arena *a, Band *out);
/* The band of S alone: all its band iterators, or none where points must keep their order. */
void band_of_one(Kernel *k, Stmt *s, Band *out);
/* Outside of band B statements FIRST..LAST run only along what they reduce: then temporaries are rows. */
bool band_is_rows(Kernel *k, int first, int last, const Band *b);
/* The band leaves enough to do in parallel for the kernel to be worth fusing; on a GPU rows do however few they are: a group
 * has one, or several share it (passes/schedule/gpu/split.c). */
bool band_good(Kernel *k, bool gpu);

#endif
