/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common parallel band of a kernel's statements: iterators that all statements share, such that
 * every temporary is read only at the point of the band that wrote it. The band of a softmax is its
 * rows; the band of a map is its whole domain.
 */
#ifndef PASSES_FORMS_BAND_H
#define PASSES_FORMS_BAND_H

#include "passes/forms/kernels.h"

typedef struct Band {
	/* number of common iterators, outermost first (in the order of the last statement) */
	int n;
	Iter *iter[MAX_ITERS]; /* the last statement's */
	/* of[s][b]: the iterator of statement s for band iterator b */
	Iter *(*of)[MAX_ITERS];
} Band;

void band_of(Kernel *k, Arena *a, Band *out);
/* As band_of, for a kernel that is scheduled as one stage: maps that share no temporary have common
 * iterators, too. */
void band_of_stage(Kernel *k, Arena *a, Band *out);
/* The index in B of IT, an iterator of statement S; -1 if IT is not in the band. */
int band_index(const Band *b, const Stmt *s, const Iter *it);
/* The band of statements FIRST..LAST. */
void band_of_some(Kernel *k, int first, int last, Arena *a, Band *out);
/* The band of only S: all its band iterators; none if its points are ordered. */
void band_of_one(Kernel *k, Stmt *s, Band *out);
/* Whether some statement of FIRST..LAST reduces every iterator outside of the band B. Each
 * temporary then holds one row. */
bool band_is_rows(Kernel *k, int first, int last, const Band *b);
/* Whether the band has enough parallelism for the kernel to be worth fusing. On a GPU any number of
 * rows is enough: a thread group computes a row, or several groups share one
 * (passes/schedule/gpu/split.c). */
bool band_good(Kernel *k, bool gpu);
/* Whether the statements have so few points that a CPU had better execute them one after the other
 * in one launch, whether or not they have a common band: a launch takes as long as they do. */
bool kernel_is_tiny(Kernel *k);

#endif
