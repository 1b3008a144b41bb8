/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Simplifies a loop tree. Strategies build blocks, tiles and remainders for any sizes; for known
 * sizes many of these are trivial. A LET of a constant or of another iterator is substituted; a
 * loop of one iteration is replaced by its body; a loop of none is removed.
 *
 * No name is captured. A strategy creates a new iterator for each LET and loop, so a definition
 * mentions only iterators of enclosing bodies, which have the same meaning wherever the name is
 * used. If an iterator is bound again in a later body (a kernel's own iterator, looped over once
 * for each statement), its definition is dropped there.
 */
#include "passes/schedule/common/loops.h"

typedef struct Tidy {
	Arena *arena;
	ExprPool *p;
	VEC(Iter *) of;
	VEC(Expr *) value; /* what replaces each */
} Tidy;

static void substitute(Tidy *t, Expr **e)
{
	if (t->of.n)
		*e = ex_subst_iters(t->p, *e, t->of.at, t->value.at, t->of.n);
}

/* IT is bound again: drops its definition by an outer body. */
static void forget(Tidy *t, const Iter *it)
{
	for (int i = 0; i < t->of.n; i++)
		if (t->of.at[i] == it) {
			t->of.at[i] = t->of.at[--t->of.n];
			t->value.at[i] = t->value.at[--t->value.n];
			return;
		}
}

static void name_is(Tidy *t, Iter *name, Expr *e)
{
	vec_push(t->arena, &t->of, name);
	vec_push(t->arena, &t->value, e);
}

/* Substitutes in the expressions of N. Its iterators are bound after its bounds are evaluated. */
static void substitute_all(Tidy *t, LNode *n)
{
	LExprs exprs = lnode_exprs(n);

	while (exprs.next < exprs.inside)
		substitute(t, lnode_next_expr(&exprs));
	LNODE_EACH_ITER (it, n)
		forget(t, *it);
	for (Expr **e; (e = lnode_next_expr(&exprs)) != NULL;)
		substitute(t, e);
	for (int i = 0; i < n->point.nat; i++)
		substitute(t, &n->point.at[i]);
}

/* The trip count of a loop; -1 if unknown. */
static int64_t trips(const LNode *n)
{
	int64_t span;

	if (n->range.lo->kind != EX_CONST || n->range.hi->kind != EX_CONST ||
	    __builtin_sub_overflow(n->range.hi->i, n->range.lo->i, &span))
		return -1;
	return span <= 0 ? 0 : (span - 1) / n->loop.step + 1;
}

/* Replaces loop N by its body. */
static void splice(LNode **at, LNode *n)
{
	*at = n->body;
	while (*at)
		at = &(*at)->next;
	*at = n->next;
}

static void tidy(Tidy *t, LNode **at)
{
	LNode *n;

	while ((n = *at)) {
		substitute_all(t, n);
		if (n->kind == LN_LET &&
		    (n->range.lo->kind == EX_CONST || n->range.lo->kind == EX_ITER)) {
			name_is(t, n->range.var, n->range.lo);
			*at = n->next;
		} else if (n->kind == LN_LOOP && trips(n) == 0) {
			*at = n->next;
		} else if (n->kind == LN_LOOP && n->loop.kind != LOOP_LAST && trips(n) == 1) {
			name_is(t, n->range.var, n->range.lo);
			splice(at, n);
		} else {
			tidy(t, &n->body);
			at = &n->next;
		}
	}
}

/* ---- Stages of one iteration ---- */

/* Whether stage B can follow A in one stage: at most one of them has arrays on the stack, which
 * together would exceed the limit of a stage. */
static bool can_join(const Stage *a, const Stage *b)
{
	return dim_equals(a->extent, 1) && dim_equals(b->extent, 1) &&
	       (!a->cpu.stack || !b->cpu.stack);
}

/* Appends the body of NEXT to that of ST. */
static void append_body(Schedule *s, Stage *st, Stage *next)
{
	LBuild b = {.sched = s, .k = s->kernel, .p = s->kernel->pool, .arena = s->kernel->arena};
	Ctx *c = s->kernel->ctx;

	b.tail = &st->body;
	while (*b.tail)
		b.tail = &(*b.tail)->next;
	b.stmt = next->body ? next->body->point.stmt : -1;
	l_let(&b, next->var, ex_iter(b.p, st->var));
	*b.tail = next->body;
	st->cpu.stack += next->cpu.stack;
	st->scratch = dim_max(c, st->scratch, next->scratch);
}

void l_join(Schedule *s)
{
	int n = 0;

	for (int i = 0; i < s->stages.n; i++)
		if (n && can_join(s->stages.at[n - 1], s->stages.at[i]))
			append_body(s, s->stages.at[n - 1], s->stages.at[i]);
		else
			s->stages.at[n++] = s->stages.at[i];
	s->stages.n = n;
}

/* ---- All of it ---- */

void l_tidy(Schedule *s)
{
	for (int i = 0; i < s->stages.n; i++) {
		Tidy t = {.arena = s->kernel->arena, .p = s->kernel->pool};

		tidy(&t, &s->stages.at[i]->body);
	}
}
