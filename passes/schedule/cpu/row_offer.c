/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on maps, rows and single statements that may be faster than a given one: other blocks
 * and tiles, other forms of their reductions. There is no model of their time; what usually matters
 * most is offered first.
 */
#include "passes/schedule/cpu/cpu.h"
#include "passes/schedule/cpu/row_impl.h"

/* The order in which changes are offered, as costs in relation to the given decision: before 1,
 * what often pays; after 1, what seldom does. */
static const double FORM = 0.8, POINTS = 0.85, BLOCK = 0.9, TILE = 0.95, FAR = 1.05, LOOPS = 1.1;

static Decision *copy_of(const Offers *o, const Decision *base)
{
	return decision_copy(o->arena, base, o->kernel->stmts.n);
}

/* Blocks and tiles of stage I times UP, or divided by DOWN. */
static void offer_size(Offers *o, const Decision *base, int i, int64_t up, int64_t down)
{
	const RowStage *is = &base->rows.stage[i];
	const bool near = up <= 2 && down <= 2;
	Decision *d;

	if (is->block * up / down > 0) {
		d = copy_of(o, base);
		d->rows.stage[i].block = is->block * up / down;
		offer_add(o, d, near ? BLOCK : FAR);
	}
	if (is->tile * up / down > 0) {
		d = copy_of(o, base);
		d->rows.stage[i].tile = is->tile * up / down;
		offer_add(o, d, near ? TILE : FAR);
	}
}

static void offer_points(Offers *o, const Decision *base, int64_t up, int64_t down)
{
	Decision *d = copy_of(o, base);
	bool any = false;

	for (int s = 0; s < o->kernel->stmts.n; s++)
		if (d->rows.stmt[s].form == REDUCE_STENCIL) {
			d->rows.stmt[s].points = d->rows.stmt[s].points * up / down;
			any = true;
		}
	if (any)
		offer_add(o, d, POINTS);
}

/* Reductions of the form FROM get the form TO. */
static void offer_form(Offers *o, const Decision *base, ReductionForm from, ReductionForm to)
{
	Decision *d = copy_of(o, base);
	bool any = false;

	for (int s = 0; s < o->kernel->stmts.n; s++)
		if (d->rows.stmt[s].form == from) {
			d->rows.stmt[s].form = to;
			d->rows.stmt[s].points = 0;
			any = true;
		}
	if (any)
		offer_add(o, d, FORM);
}

/* A loop over all points of an iterator in place of tiles or parallel points: the innermost of the
 * distributed iterators of stage I. */
static void offer_serial(Offers *o, const Decision *base, int i)
{
	const RowStage *is = &base->rows.stage[i];
	int last = -1;
	Decision *d;

	for (int g = 0; g < is->ngroups; g++)
		if (is->group[g].role == ITER_PARALLEL && is->group[g].n == 1)
			last = g;
	if (last < 0)
		return;
	d = copy_of(o, base);
	d->rows.stage[i].group[last].role = ITER_SERIAL;
	offer_add(o, d, LOOPS);
}

/* The first two parallel groups of stage I change places. */
static void offer_swap(Offers *o, const Decision *base, int i)
{
	const RowStage *is = &base->rows.stage[i];
	Decision *d;

	if (is->ngroups < 2 || is->group[0].role != ITER_PARALLEL ||
	    is->group[1].role != ITER_PARALLEL)
		return;
	d = copy_of(o, base);
	d->rows.stage[i].group[0] = is->group[1];
	d->rows.stage[i].group[1] = is->group[0];
	offer_add(o, d, LOOPS);
}

void rows_offer(Offers *o, Kernel *k, const Decision *base)
{
	(void)k;
	offer_form(o, base, REDUCE_STENCIL, REDUCE_TAPS);
	offer_form(o, base, REDUCE_TAPS, REDUCE_STATES);
	offer_form(o, base, REDUCE_STATES, REDUCE_TAPS);
	offer_points(o, base, 2, 1);
	offer_points(o, base, 1, 2);
	for (int i = 0; i < base->rows.nstages; i++) {
		offer_size(o, base, i, 2, 1);
		offer_size(o, base, i, 1, 2);
		offer_size(o, base, i, 4, 1);
		offer_size(o, base, i, 1, 4);
		offer_serial(o, base, i);
		offer_swap(o, base, i);
	}
}
