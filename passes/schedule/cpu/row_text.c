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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Iterator I of group G. */
static void iterator(LineText *t, const RowPlan *p, const Kernel *k, IterGroup *g, int i)
{
	char name[MOST_NAME];
	int b;

	if (t->out)
		line_iter(p->band->iter, g->of[i], name);
	line_name(t, name);
	if (t->out || !t->ok)
		return;
	b = line_find_iter(p->band->iter, p->band->n, name);
	if (b < 0)
		t->ok = no_iterator(p, k, name, t->why);
	else if (is_used(p->stage, b))
		line_wrong(t, "iterator %s is named twice", name);
	else
		g->of[g->n++] = (uint8_t)b;
}

static void group(LineText *t, const RowPlan *p, const Kernel *k, IterGroup *g)
{
	int i = 0;

	do
		iterator(t, p, k, g, i++);
	while (line_opt(t, i < g->n, "*"));
}

/* The first group of ROLE from number I on, or the number of groups. */
static int next_group(const RowStage *st, IterRole role, int i)
{
	while (i < st->ngroups && st->group[i].role != role)
		i++;
	return i;
}

/* The groups of ROLE, after WORD, or nothing if there are none; returns whether there are. */
static bool groups(LineText *t, const RowPlan *p, const Kernel *k, const char *word, IterRole role)
{
	const bool several = role == ITER_PARALLEL || role == ITER_SERIAL;
	RowStage *st = p->stage;
	int i = next_group(st, role, 0);

	if (!line_opt(t, i < st->ngroups, word))
		return false;
	do {
		if (!t->out) {
			i = st->ngroups++;
			st->group[i] = (IterGroup){.role = role};
		}
		group(t, p, k, &st->group[i]);
		i = next_group(st, role, i + 1);
	} while (several && line_opt(t, i < st->ngroups, ","));
	return true;
}

/* The number of a statement of P. */
static void stmt(LineText *t, const RowPlan *p, int *n)
{
	char name[MOST_NAME], *end;
	long v;

	snprintf(name, sizeof name, "%d", *n);
	line_name(t, name);
	v = strtol(name, &end, 10);
	if (*end || strlen(name) > 6 || v < p->first || v > p->last)
		line_wrong(t, "there is no statement %s here; they are %d to %d", name, p->first,
			   p->last);
	else
		*n = (int)v;
}

/* The first statement of P from number N on with a form, or, if HOLD, of those that are held. */
static int next_stmt(const RowPlan *p, int n, bool hold)
{
	while (n <= p->last && !(hold ? p->how[n].hold : p->how[n].form != REDUCE_NONE))
		n++;
	return n;
}

static void lane(LineText *t, const Stmt *s, StmtDecision *how)
{
	char name[MOST_NAME];
	int i;

	if (t->out)
		line_iter(s->iter + s->nband, how->lane - s->nband, name);
	line_name(t, name);
	if (t->out || !t->ok)
		return;
	i = line_find_iter(s->iter + s->nband, s->niters - s->nband, name);
	how->lane = s->nband + i;
	if (i < 0)
		line_wrong(t, "statement %d does not reduce over an iterator \"%s\"", s->id, name);
}

static void reduction(LineText *t, const RowPlan *p, const Kernel *k, int *n)
{
	static const char *const forms[] = {[REDUCE_LANES] = " lanes ",
					    [REDUCE_STATES] = " states",
					    [REDUCE_TAPS] = " taps",
					    [REDUCE_STENCIL] = " stencil "};
	enum { FORMS = sizeof forms / sizeof *forms };
	StmtDecision *how;
	int f = 1;

	stmt(t, p, n);
	how = &p->how[*n];
	if (!t->out && how->form)
		line_wrong(t, "statement %d is named twice", *n);
	while (f < FORMS && !line_opt(t, f == (int)how->form, forms[f]))
		f++;
	if (f == FORMS) {
		line_wrong(t, "the form of statement %d is not lanes, states, taps or stencil", *n);
		return;
	}
	how->form = (ReductionForm)f;
	if (f == REDUCE_STENCIL)
		line_number(t, "", &how->points);
	else if (f == REDUCE_LANES)
		lane(t, k->stmts.at[*n], how);
}

static void held(LineText *t, const RowPlan *p, int *n)
{
	stmt(t, p, n);
	if (!t->out && p->how[*n].hold)
		line_wrong(t, "statement %d is held twice", *n);
	p->how[*n].hold = true;
}

static void stage(LineText *t, const RowPlan *p, const Kernel *k)
{
	int n;

	groups(t, p, k, " parallel ", ITER_PARALLEL);
	groups(t, p, k, " serial ", ITER_SERIAL);
	if (groups(t, p, k, " tile ", ITER_TILE))
		line_number(t, " ", &p->stage->tile);
	if (groups(t, p, k, " vector ", ITER_VECTOR))
		line_number(t, " block ", &p->stage->block);
	n = next_stmt(p, p->first, false);
	if (line_opt(t, n <= p->last, " reduce "))
		do {
			reduction(t, p, k, &n);
			n = next_stmt(p, n + 1, false);
		} while (line_opt(t, n <= p->last, ","));
	n = next_stmt(p, p->first, true);
	if (line_opt(t, n <= p->last, " hold "))
		do {
			held(t, p, &n);
			n = next_stmt(p, n + 1, true);
		} while (line_opt(t, n <= p->last, ","));
}

void rows_text(LineText *t, Kernel *k, Decision *d)
{
	const int n = d->strategy == STRATEGY_ORDER ? k->stmts.n : 1;

	if (!t->out)
		d->rows = (RowDecision){.stage = NEW_ARRAY(k->arena, n + 1, RowStage),
					.nstages = n,
					.stmt = NEW_ARRAY(k->arena, k->stmts.n + 1, StmtDecision)};
	for (int i = 0; i < n; i++) {
		Band band;
		const RowPlan plan = row_plan(k, d, i, &band);

		line_put(t, i ? " |" : "");
		stage(t, &plan, k);
	}
}
