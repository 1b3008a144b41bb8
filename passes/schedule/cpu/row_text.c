/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on maps, rows and single statements as text:
 *
 *	map vector n*c*h*w block 4096 grain 16384
 *	row parallel n*h reduce 0 lanes j,2 lanes j hold 0,1,2 grain 16384
 *	row parallel n,h tile w 28 vector c block 64 reduce 0 stencil 4 hold 0 grain 16384
 *
 * Merged iterators are joined by `*`. An order has a part for each statement, with `|` between
 * them.
 */
#include "passes/schedule/cpu/cpu.h"
#include "passes/schedule/cpu/row_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- Printing ---- */

static void print_group(StrBuf *b, const Band *band, const IterGroup *g)
{
	char name[MOST_NAME];

	for (int i = 0; i < g->n; i++) {
		line_iter(band->iter, g->of[i], name);
		strbuf_printf(b, "%s%s", i ? "*" : "", name);
	}
}

/* The groups of ROLE, after WORD; nothing if there are none. */
static void print_role(StrBuf *b, const RowPlan *p, IterRole role, const char *word)
{
	const RowStage *st = p->stage;
	int n = 0;

	for (int i = 0; i < st->ngroups; i++) {
		if (st->group[i].role != role)
			continue;
		strbuf_printf(b, n++ ? "," : " %s ", word);
		print_group(b, p->band, &st->group[i]);
	}
}

static void print_reduction(StrBuf *b, const Stmt *s, const StmtDecision *how)
{
	char name[MOST_NAME];

	switch (how->form) {
	case REDUCE_LANES:
		line_iter(s->iter + s->nband, how->lane - s->nband, name);
		strbuf_printf(b, "%d lanes %s", s->id, name);
		break;
	case REDUCE_STENCIL:
		strbuf_printf(b, "%d stencil %lld", s->id, (long long)how->points);
		break;
	default: strbuf_printf(b, "%d %s", s->id, how->form == REDUCE_TAPS ? "taps" : "states");
	}
}

static void print_stage(StrBuf *b, const Kernel *k, const RowPlan *p)
{
	int n = 0;

	print_role(b, p, ITER_PARALLEL, "parallel");
	print_role(b, p, ITER_SERIAL, "serial");
	print_role(b, p, ITER_TILE, "tile");
	if (p->stage->tile)
		strbuf_printf(b, " %lld", (long long)p->stage->tile);
	print_role(b, p, ITER_VECTOR, "vector");
	if (p->stage->block)
		strbuf_printf(b, " block %lld", (long long)p->stage->block);
	for (int i = p->first; i <= p->last; i++)
		if (p->how[i].form) {
			strbuf_puts(b, n++ ? "," : " reduce ");
			print_reduction(b, k->stmts.at[i], &p->how[i]);
		}
	n = 0;
	for (int i = p->first; i <= p->last; i++)
		if (p->how[i].hold)
			strbuf_printf(b, n++ ? ",%d" : " hold %d", i);
}

void rows_print(StrBuf *b, Kernel *k, const Decision *d)
{
	for (int i = 0; i < d->rows.nstages; i++) {
		Band band;
		const RowPlan plan = row_plan(k, d, i, &band);

		strbuf_puts(b, i ? " |" : "");
		print_stage(b, k, &plan);
	}
}

/* ---- Reading ---- */

/* Says why NAME is not an iterator of the stage that may be parallel. */
static bool no_iterator(const RowPlan *p, const Kernel *k, const char *name, StrBuf *why)
{
	char other[MOST_NAME];

	for (int i = p->first; i <= p->last; i++) {
		const Stmt *s = k->stmts.at[i];
		const int at = line_find_iter(s->iter, s->niters, name);

		if (at < 0)
			continue;
		if (at >= s->nband)
			return decision_refuse(
				why,
				"iterator %s carries a dependence: statement %d (%s) reduces over it",
				name, i, monoid_info[s->red].name);
		if (s->ordered || s->update)
			return decision_refuse(
				why,
				"iterator %s carries a dependence: the points of statement %d are in order",
				name, i);
		return decision_refuse(
			why,
			"iterator %s carries a dependence: a statement reads what statement %d writes at other points of it",
			name, i);
	}
	decision_refuse(why, "there is no iterator \"%s\"; there are", name);
	for (int i = 0; i < p->band->n; i++) {
		line_iter(p->band->iter, i, other);
		strbuf_printf(why, "%s %s", i ? "," : "", other);
	}
	if (!p->band->n)
		strbuf_puts(why, " none");
	return false;
}

static bool is_used(const RowStage *st, int b)
{
	for (int i = 0; i < st->ngroups; i++)
		for (int j = 0; j < st->group[i].n; j++)
			if (st->group[i].of[j] == b)
				return true;
	return false;
}

static bool read_group(const char **t, const RowPlan *p, const Kernel *k, IterRole role,
		       StrBuf *why)
{
	char name[MOST_NAME];
	IterGroup *g = &p->stage->group[p->stage->ngroups];

	*g = (IterGroup){.role = role};
	do {
		int b;

		if (!line_name(t, name, why))
			return false;
		b = line_find_iter(p->band->iter, p->band->n, name);
		if (b < 0)
			return no_iterator(p, k, name, why);
		for (int i = 0; i < g->n; i++)
			if (g->of[i] == b)
				return decision_refuse(why, "iterator %s is named twice", name);
		if (is_used(p->stage, b))
			return decision_refuse(why, "iterator %s is named twice", name);
		g->of[g->n++] = (uint8_t)b;
	} while (line_accept(t, "*"));
	p->stage->ngroups++;
	return true;
}

static bool read_groups(const char **t, const RowPlan *p, const Kernel *k, const char *word,
			IterRole role, StrBuf *why)
{
	if (!line_accept(t, word))
		return true;
	do {
		if (!read_group(t, p, k, role, why))
			return false;
	} while (line_accept(t, ","));
	return true;
}

static bool read_loops(const char **t, const RowPlan *p, const Kernel *k, StrBuf *why)
{
	RowStage *st = p->stage;

	if (!read_groups(t, p, k, "parallel", ITER_PARALLEL, why) ||
	    !read_groups(t, p, k, "serial", ITER_SERIAL, why))
		return false;
	if (line_accept(t, "tile") &&
	    !(read_group(t, p, k, ITER_TILE, why) && line_number(t, &st->tile, why)))
		return false;
	return !line_accept(t, "vector") ||
	       (read_group(t, p, k, ITER_VECTOR, why) && line_expect(t, "block", why) &&
		line_number(t, &st->block, why));
}

/* Reads the number of a statement of P. */
static bool read_stmt(const char **t, const RowPlan *p, int *n, StrBuf *why)
{
	char name[MOST_NAME], *end;

	if (!line_name(t, name, why))
		return false;
	*n = (int)strtol(name, &end, 10);
	if (*end || strlen(name) > 6 || *n < p->first || *n > p->last)
		return decision_refuse(why, "there is no statement %s here; they are %d to %d",
				       name, p->first, p->last);
	return true;
}

static bool read_reduction(const char **t, const RowPlan *p, const Kernel *k, StrBuf *why)
{
	char name[MOST_NAME];
	StmtDecision *how;
	const Stmt *s;
	int n, lane;

	if (!read_stmt(t, p, &n, why))
		return false;
	s = k->stmts.at[n];
	how = &p->how[n];
	if (how->form)
		return decision_refuse(why, "statement %d is named twice", n);
	if (line_accept(t, "states"))
		return how->form = REDUCE_STATES, true;
	if (line_accept(t, "taps"))
		return how->form = REDUCE_TAPS, true;
	if (line_accept(t, "stencil"))
		return how->form = REDUCE_STENCIL, line_number(t, &how->points, why);
	if (!line_accept(t, "lanes"))
		return decision_refuse(
			why, "the form of statement %d is not lanes, states, taps or stencil", n);
	if (!line_name(t, name, why))
		return false;
	lane = line_find_iter(s->iter + s->nband, s->niters - s->nband, name);
	how->form = REDUCE_LANES;
	how->lane = s->nband + lane;
	return lane >= 0 ||
	       decision_refuse(why, "statement %d does not reduce over an iterator \"%s\"", n,
			       name);
}

static bool read_held(const char **t, const RowPlan *p, StrBuf *why)
{
	int n;

	if (!read_stmt(t, p, &n, why))
		return false;
	if (p->how[n].hold)
		return decision_refuse(why, "statement %d is held twice", n);
	return p->how[n].hold = true;
}

static bool read_stage(const char **t, const RowPlan *p, const Kernel *k, StrBuf *why)
{
	if (!read_loops(t, p, k, why))
		return false;
	if (line_accept(t, "reduce"))
		do {
			if (!read_reduction(t, p, k, why))
				return false;
		} while (line_accept(t, ","));
	if (line_accept(t, "hold"))
		do {
			if (!read_held(t, p, why))
				return false;
		} while (line_accept(t, ","));
	return true;
}

bool rows_parse(Kernel *k, const char *text, Decision *d, StrBuf *why)
{
	const int n = d->strategy == STRATEGY_ORDER ? k->stmts.n : 1;

	d->rows = (RowDecision){.stage = NEW_ARRAY(k->arena, n + 1, RowStage),
				.nstages = n,
				.stmt = NEW_ARRAY(k->arena, k->stmts.n + 1, StmtDecision)};
	for (int i = 0; i < n; i++) {
		Band band;
		const RowPlan plan = row_plan(k, d, i, &band);

		if ((i && !line_expect(&text, "|", why)) || !read_stage(&text, &plan, k, why))
			return false;
	}
	return line_expect(&text, "grain", why) && line_number(&text, &d->grain, why) &&
	       line_end(text, why);
}
