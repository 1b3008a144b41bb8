/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins stages of one thread, and simplifies loop trees. Strategies build blocks, tiles and
 * remainders for any sizes; for known sizes many of these are trivial. A LET of a constant or of
 * another iterator is substituted; a loop of one iteration is replaced by its body; a loop of none
 * is removed, and so is one whose body had only such loops.
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
			if (n->kind == LN_LOOP && !n->body)
				*at = n->next;
			else
				at = &n->next;
		}
	}
}

/* ---- Stages of one thread ---- */

/* Whether one thread runs ST in any case (rt_job_cut in runtime/pool.c). */
static bool is_serial(Ctx *c, const Stage *st)
{
	int64_t lo, most, grain, hi;

	dim_bounds(c, st->extent, &lo, &most);
	dim_bounds(c, st->cpu.grain, &grain, &hi);
	return most / 2 < grain;
}

/* Whether stage B can follow A in one stage: at most one of them has arrays on the stack, which
 * together would exceed the limit of a stage. */
static bool can_join(Ctx *c, const Stage *a, const Stage *b)
{
	return is_serial(c, a) && is_serial(c, b) && (!a->cpu.stack || !b->cpu.stack);
}

/* Appends the iterations of ST to B. */
static void append_iterations(LBuild *b, const Stage *st, LNode *body)
{
	LNode *loop;

	b->stmt = body ? body->point.stmt : -1;
	if (dim_equals(st->extent, 1)) {
		l_let(b, st->var, l_int(b, 0));
		*b->tail = body;
		while (*b->tail)
			b->tail = &(*b->tail)->next;
		return;
	}
	loop = l_loop(b, LOOP_SERIAL, st->var, l_int(b, 0), ex_dim(b->p, st->extent), 1);
	loop->body = body;
	l_close(b, loop);
}

/* Stages FIRST to FIRST + N - 1 of S in one. */
static Stage *joined(Schedule *s, int first, int n)
{
	Stage *all = s->stages.at[first];
	LBuild b = l_build(s->kernel, s);
	const Stage one = *all;
	Ctx *c = s->kernel->ctx;

	if (n == 1)
		return all;
	all->body = NULL;
	b.tail = &all->body;
	append_iterations(&b, &one, one.body);
	for (int i = 1; i < n; i++) {
		const Stage *st = s->stages.at[first + i];

		append_iterations(&b, st, st->body);
		all->cpu.stack += st->cpu.stack;
		all->scratch = dim_max(c, all->scratch, st->scratch);
	}
	all->extent = all->cpu.grain = dim_const(c, 1);
	all->var = l_iter(&b, "p", all->extent);
	return all;
}

void l_join(Schedule *s)
{
	Ctx *c = s->kernel->ctx;
	int n = 0;

	for (int i = 0, to; i < s->stages.n; i = to) {
		Stage stack = *s->stages.at[i];

		for (to = i + 1; to < s->stages.n && can_join(c, &stack, s->stages.at[to]); to++)
			stack.cpu.stack += s->stages.at[to]->cpu.stack;
		s->stages.at[n++] = joined(s, i, to - i);
	}
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
