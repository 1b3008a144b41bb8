/* SPDX-License-Identifier: Apache-2.0 */
#include "ir/expr/expr_names.h"

#include "base/vec.h"

#include <string.h>

ExprNote *ex_note(ExprNames *t, Arena *a, const Expr *e)
{
	int n = t->n ? t->n : 64;
	ExprNote *more;

	if (e->id < t->n)
		return &t->at[e->id];
	while (n <= e->id)
		n *= 2;
	more = NEW_ARRAY(a, n, ExprNote);
	if (t->n)
		memcpy(more, t->at, (size_t)t->n * sizeof *more);
	t->at = more;
	t->n = n;
	return &t->at[e->id];
}

void ex_set_name(ExprNames *t, Arena *a, const Expr *e, const char *name)
{
	ExprNote *note = ex_note(t, a, e);

	vec_push(a, &t->named, ((struct ExprNamed){e->id, note->name}));
	note->name = name;
}

int ex_enter(const ExprNames *t)
{
	return t->named.n;
}

void ex_leave(ExprNames *t, int mark)
{
	while (t->named.n > mark) {
		t->named.n--;
		t->at[t->named.at[t->named.n].id].name = t->named.at[t->named.n].before;
	}
}

/* ---- Selects ---- */

static ExprReads own_reads(const ExprNames *t, const Expr *e)
{
	if (e->kind == EX_LOAD && (!t->in_bounds || !t->in_bounds(t->arg, e)))
		return READS;
	if (e->kind == EX_LOAD) /* one element: it is loaded once, and has a name then */
		return e->load.nidx && e->load.idx[0]->kind != EX_CONST ? READS_IN_BOUNDS
									: READS_NOT;
	return e->kind == EX_INST && inst_may_fault(e->op.inst) ? READS : READS_NOT;
}

static ExprReads reads(ExprNames *t, Arena *a, const Expr *e)
{
	ExprReads known = ex_note(t, a, e)->reads;
	Expr *const *arg;

	if (known)
		return known;
	known = own_reads(t, e);
	for (int i = ex_operands(e, &arg); i-- > 0;) {
		const ExprReads of = reads(t, a, arg[i]);

		known = of > known ? of : known;
	}
	t->at[e->id].reads = known;
	return known;
}

/* Whether evaluating E, apart from values that have a name, reads memory, LEAST or more of it. */
static bool still_reads(ExprNames *t, Arena *a, const Expr *e, ExprReads least)
{
	Expr *const *arg;

	if (reads(t, a, e) < least || t->at[e->id].name)
		return false;
	if (own_reads(t, e) >= least)
		return true;
	for (int i = ex_operands(e, &arg); i-- > 0;)
		if (still_reads(t, a, arg[i], least))
			return true;
	return false;
}

bool ex_is_lazy(ExprNames *t, Arena *a, const Expr *e)
{
	return ex_is_op(e, IN_select) &&
	       (still_reads(t, a, e->op.arg[1], READS) || still_reads(t, a, e->op.arg[2], READS));
}

bool ex_still_loads(ExprNames *t, Arena *a, const Expr *e)
{
	return still_reads(t, a, e, READS_IN_BOUNDS);
}

/* Whether an expression is always evaluated by the one arm, by the other, and whether it was
 * visited. */
enum { THEN = 1, ELSE = 2, SEEN = 4 };

static void mark_must(const Expr *e, unsigned char *must, unsigned char arm)
{
	Expr *const *arg;
	int n = ex_operands(e, &arg);

	if (must[e->id] & arm)
		return;
	must[e->id] |= arm;
	for (int i = 0; i < (ex_is_op(e, IN_select) ? 1 : n); i++)
		mark_must(arg[i], must, arm);
}

void ex_of_both_arms(Expr *e, void (*fn)(void *arg, Expr *e), void *fn_arg)
{
	ARENA_LOCAL(tmp);
	unsigned char *must = NEW_ARRAY(tmp, e->id + 1, unsigned char);
	Expr **todo = NEW_ARRAY(tmp, e->id + 1, Expr *), *const * arg;
	int n = 0;

	mark_must(e->op.arg[1], must, THEN);
	mark_must(e->op.arg[2], must, ELSE);
	todo[n++] = e->op.arg[1];
	must[todo[0]->id] |= SEEN;
	while (n) {
		Expr *at = todo[--n];

		if (must[at->id] & ELSE) {
			fn(fn_arg, at);
			continue;
		}
		for (int i = ex_operands(at, &arg); i-- > 0;) {
			if (must[arg[i]->id] & SEEN || !(must[arg[i]->id] & THEN))
				continue;
			must[arg[i]->id] |= SEEN;
			todo[n++] = arg[i];
		}
	}
}
