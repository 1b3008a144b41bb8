/* SPDX-License-Identifier: Apache-2.0 */
/*
 * apart: whether the elements of a size S, usually the batch, are computed independently: every
 * element b of a result along S depends only on element b of the inputs along S, and on inputs and
 * constants without such a dim.
 *
 * The proof is about index expressions, not about operators. A value that depends on S has exactly
 * one dim that mentions S, of size S or S*k, where k does not mention S; its elements i*k to i*k +
 * k-1 along that dim are part i. A statement that writes such a value indexes that dim by an
 * iterator of the same extent, and indexes the dim of parts of all values that it reads by the same
 * iterator. The statement mentions this iterator and S nowhere else. With POSITION, an index of a
 * dim of S*k may also be i*k + j, where i is the iterator and 0 <= j < k, and it may be computed by
 * other nodes: a Range over the batch, times the rows of an element, plus a row. So a sum over the
 * batch, a batch that is split or moved by a reshape, two batches in one product, the number of the
 * element itself, and the size of the batch as a number all fail; whatever is not understood fails,
 * too.
 */
#ifndef PASSES_FORMS_APART_H
#define PASSES_FORMS_APART_H

#include "passes/module.h"

typedef struct Apart {
	Module *m;
	Arena *tmp;
	Sym *s;
	bool multiples; /* dims of S*k have parts, too; else only S itself */
	/* by Value.id: its elements are sums of multiples of their own indices, and may only be
	 * used as indices; null: such values are not looked for */
	bool *position;
} Apart;

enum { NO_PARTS = -1, NOT_APART = -2 };

/* Whether D depends on S, also through symbols that abbreviate a dim. */
bool apart_mentions(const Apart *x, const Dim *d);
/* The dim of V that has the parts; NO_PARTS if V does not depend on S; else NOT_APART. */
int apart_value(Apart *x, const Value *v);
/* The product of V's dims FROM to TO - 1. */
Dim *apart_volume(Ctx *c, const Type *t, int from, int to);
/* Whether all results of N are computed so. Sizes that are read from elements decide how often the
 * nodes of a loop run: the caller checks that none is read from a value with parts. */
bool apart_node(Apart *x, const Node *n);

#endif
