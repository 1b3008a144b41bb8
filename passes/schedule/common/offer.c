/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Offers other decisions for a kernel than the one that `decide` chose, for `dlcc --tune` to
 * measure. Each strategy proposes decisions beside a given one, which differ from it in one or two
 * respects, with the time that they take by a simple model. Those that are legal are offered, the
 * fastest by the model first. The model only says in which order it pays to measure.
 */
#include "passes/schedule/common/decision.h"

#include <stdlib.h>
#include <string.h>

void offer_add(Offers *o, const Decision *d, double cost)
{
	Offer x = {.decision = decision_copy(o->arena, d, o->kernel->stmts.n), .cost = cost};

	x.number = o->all.n;
	vec_push(o->arena, &o->all, x);
}

/* The work is cut into more or fewer pieces for threads. */
static void offer_grains(Offers *o, const Decision *base, double cost)
{
	enum { STEP = 4 };
	Decision d = *base;

	d.grain = base->grain * STEP;
	offer_add(o, &d, cost);
	d.grain = base->grain > STEP ? base->grain / STEP : 1;
	offer_add(o, &d, cost);
}

/* Offers the decisions of the strategies that come after that of BASE. */
static void offer_strategies(Offers *o, const Decision *base, double cost)
{
	for (int s = (int)base->strategy + 1; s < STRATEGY_COUNT; s++) {
		Decision d = {.strategy = (Strategy)s};

		if (strategy_table[s].gpu == strategy_table[base->strategy].gpu &&
		    strategy_table[s].choose(o->target, kernel_clone(o->kernel, o->arena), &d))
			offer_add(o, &d, cost);
	}
}

static int by_cost(const void *a, const void *b)
{
	const Offer *x = a, *y = b;

	return x->cost < y->cost ? -1 : x->cost > y->cost ? 1 : x->number - y->number;
}

static bool is_legal(const Offers *o, const Decision *d)
{
	STRBUF_LOCAL(why);
	const bool legal = strategy_table[d->strategy].legal(
		o->target, kernel_clone(o->kernel, o->arena), d, &why);

	return legal;
}

int decisions_offer(const Target *t, Kernel *k, const Decision *base, Arena *a, Decision **out,
		    int most)
{
	/* costs, in relation to BASE: a grain matters only on several threads, and a strategy was
	 * passed over for an earlier one that is usually faster */
	const double grain = 1.2, strategy = 2;
	ARENA_LOCAL(tmp);
	Offers o = {.target = t, .kernel = kernel_clone(k, tmp), .arena = tmp};
	int n = 0;

	if (strategy_table[base->strategy].offer)
		strategy_table[base->strategy].offer(&o, kernel_clone(k, tmp), base);
	if (!strategy_table[base->strategy].gpu)
		offer_grains(&o, base, grain);
	offer_strategies(&o, base, strategy);
	if (o.all.n)
		qsort(o.all.at, (size_t)o.all.n, sizeof *o.all.at, by_cost);
	for (int i = 0; i < o.all.n && n < most; i++)
		if (is_legal(&o, o.all.at[i].decision))
			out[n++] = decision_copy(a, o.all.at[i].decision, k->stmts.n);
	return n;
}
