/* SPDX-License-Identifier: Apache-2.0 */
/* Which decisions of a user on maps and rows are legal. */
#include "passes/schedule/cpu/cpu.h"
#include "passes/schedule/cpu/row_impl.h"

enum {
	/* Points of a stage without states, and of a tile: locals of this length are in the
	 * scratch memory of each thread. */
	MOST_BLOCK = 1 << 16,
	MOST_TILE = 1 << 10,
	/* Adjacent points of a stencil: their states are scalars of one loop body. */
	MOST_POINTS = 16
};

static bool takes(const Decision *d, bool maps, bool one_stage, StrBuf *why)
{
	if (d->strategy == STRATEGY_ORDER)
		return true;
	if (d->strategy == STRATEGY_MAP && !maps)
		return decision_refuse(why, "the kernel is not a map: it has a reduction");
	if (d->strategy == STRATEGY_ROW && maps)
		return decision_refuse(why, "the kernel is a map; write map");
	return one_stage ||
	       decision_refuse(
		       why,
		       "the statements have no iterator in common at which each of them reads what the others write; only order takes the kernel");
}

/* Every band iterator is in one group, and merged ones step through memory as one. */
static bool groups_are_legal(LBuild *b, const RowPlan *p, StrBuf *why)
{
	Row r = row_new(b, p->first, p->last, p->band);
	const RowStage *st = p->stage;
	bool used[MAX_ITERS] = {false};
	char name[MOST_NAME], last[MOST_NAME];

	for (int i = 0; i < st->ngroups; i++) {
		const IterGroup *g = &st->group[i];
		Dim *extent = dim_const(b->k->ctx, 1);

		line_iter(p->band->iter, g->of[g->n - 1], last);
		if (g->role == ITER_SERIAL && g->n > 1)
			return decision_refuse(why, "serial iterators are not merged");
		for (int j = g->n - 1; j >= 0; j--) {
			used[g->of[j]] = true;
			line_iter(p->band->iter, g->of[j], name);
			if (j + 1 < g->n && !row_joins(&r, g->of[j], g->of[g->n - 1], extent))
				return decision_refuse(
					why,
					"iterators %s and %s cannot be merged, as an access does not step through both with one stride",
					name, last);
			extent = dim_mul(b->k->ctx, extent, p->band->iter[g->of[j]]->extent);
		}
	}
	for (int i = 0; i < p->band->n; i++) {
		line_iter(p->band->iter, i, name);
		if (!used[i])
			return decision_refuse(
				why, "iterator %s is neither parallel, serial, tile nor vector",
				name);
	}
	return true;
}

static bool sizes_are_legal(const Kernel *k, const RowPlan *p, StrBuf *why)
{
	const RowStage *st = p->stage;
	int64_t most = MOST_BLOCK;

	for (int i = p->first; i <= p->last; i++)
		if (row_has_states(k->stmts.at[i]))
			most = ROW_BLOCK;
	if (st->block > most)
		return decision_refuse(why, "a block of %lld points is larger than %lld%s",
				       (long long)st->block, (long long)most,
				       most == ROW_BLOCK ? ", the states of a reduction" : "");
	if (st->tile > MOST_TILE)
		return decision_refuse(why, "a tile of %lld points is larger than %d",
				       (long long)st->tile, MOST_TILE);
	return !st->tile || st->block ||
	       decision_refuse(why, "a tile needs a vector iterator inside it");
}

static bool innermost_fits(const Stmt *s)
{
	int64_t n;

	return s->niters > s->nband && dim_is_const(s->iter[s->niters - 1]->extent, &n) && n > 0 &&
	       n <= MOST_TAPS;
}

/* The form of S, the current statement, which keeps states along the vector iterator. */
static bool vector_form_is_legal(Row *r, Stmt *s, const StmtDecision *how, StrBuf *why)
{
	switch (how->form) {
	case REDUCE_STATES: return true;
	case REDUCE_TAPS:
		return (innermost_fits(s) && row_taps_fit(r, s)) ||
		       decision_refuse(
			       why,
			       "statement %d has no taps: they are at most %d, and need no guard but at the ends of a row",
			       s->id, MOST_TAPS);
	case REDUCE_STENCIL:
		if (how->points < 2 || how->points > MOST_POINTS)
			return decision_refuse(why, "a stencil has 2 to %d points", MOST_POINTS);
		if (r->tile_points % how->points)
			return decision_refuse(
				why, "a tile of %lld points is not a multiple of the stencil's %lld",
				(long long)r->tile_points, (long long)how->points);
		return row_is_stencil(r, s) ||
		       decision_refuse(
			       why,
			       "statement %d is not a stencil along %s: it has at most %d taps along each iterator, and the stage has no loop but those over the tile and the vector iterator",
			       s->id, r->tile >= 0 ? "the tile" : "a tile, which the stage lacks",
			       MOST_TAPS);
	case REDUCE_LANES:
		return decision_refuse(
			why, "statement %d is in lanes only where the stage has no vector iterator",
			s->id);
	default:
		return decision_refuse(
			why, "statement %d is a reduction without a form: states, taps or stencil",
			s->id);
	}
}

static bool form_is_legal(Row *r, Stmt *s, const StmtDecision *how, StrBuf *why)
{
	if (!row_has_states(s))
		return !how->form ||
		       decision_refuse(why, "statement %d is not a reduction that keeps states",
				       s->id);
	if (r->vec >= 0)
		return vector_form_is_legal(r, s, how, why);
	if (how->form == REDUCE_LANES || (s->niters == s->nband && !how->form))
		return true;
	if (how->form)
		return decision_refuse(
			why,
			"statement %d needs a vector iterator for its form; without one: lanes",
			s->id);
	return decision_refuse(why, "statement %d is a reduction without a form: lanes", s->id);
}

static bool hold_is_legal(const Row *r, const Stmt *s, const StmtDecision *how, StrBuf *why)
{
	bool may = !how->hold;

	for (int o = 0; o < s->nout; o++)
		may = may || row_may_hold(r, s, s->out[o]);
	return may ||
	       decision_refuse(
		       why,
		       "statement %d writes what is used outside of its stage, or what an earlier statement writes, or others in another order, so it cannot be held",
		       s->id);
}

static bool stage_is_legal(LBuild *b, const RowPlan *p, StrBuf *why)
{
	Row r;

	if (!groups_are_legal(b, p, why) || !sizes_are_legal(b->k, p, why))
		return false;
	r = row_open_stage(b, p);
	for (int i = p->first; i <= p->last; i++) {
		Stmt *s = b->k->stmts.at[i];

		row_begin(&r, s);
		if (!form_is_legal(&r, s, &p->how[i], why) ||
		    !hold_is_legal(&r, s, &p->how[i], why))
			return false;
		row_hold(&r, s);
	}
	return true;
}

bool rows_legal(const Target *t, Kernel *k, const Decision *d, StrBuf *why)
{
	Schedule none = {.kernel = k};
	LBuild b = l_build(k, &none);

	(void)t;
	if (!takes(d, kernel_is_maps(k), rows_one_stage(k), why))
		return false;
	for (int i = 0; i < d->rows.nstages; i++) {
		Band band;
		const RowPlan plan = row_plan(k, d, i, &band);

		if (!stage_is_legal(&b, &plan, why))
			return false;
	}
	return true;
}
