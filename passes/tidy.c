/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop tree as one would write it: strategies speak of blocks, tiles and rests whatever the sizes are, and where a
 * size is known much of that says nothing. An index that is a number or another index has no name of its own; a loop
 * over one point is that point, a loop over none is nothing.
 *
 * Nothing is captured. A strategy makes an iterator for each LET and loop, so that what a name is said to be mentions
 * only iterators of bodies around it, which mean the same wherever it is mentioned. One that is used again in a later
 * body (a kernel's own, looped over once a statement) is forgotten where it gets its new meaning.
 */
#include "passes/loops.h"

typedef struct Tidy {
	Arena *arena;
	ExprPool *p;
	VEC(Iter *) of;
	VEC(Expr *) is; /* what each is */
} Tidy;

static void put(Tidy *t, Expr **e)
{
	if (*e && t->of.n)
		*e = ex_subst_iters(t->p, *e, t->of.at, t->is.at, t->of.n);
}

/* IT gets a meaning of its own: what an outer body said of it is no more. */
static void forget(Tidy *t, const Iter *it)
{
	for (int i = 0; i < t->of.n; i++)
		if (t->of.at[i] == it) {
			t->of.at[i] = t->of.at[--t->of.n];
			t->is.at[i] = t->is.at[--t->is.n];
			return;
		}
}

static void name_is(Tidy *t, Iter *name, Expr *e)
{
	vec_push(t->arena, &t->of, name);
	vec_push(t->arena, &t->is, e);
}

/* The expressions of N; its variable counts from behind its bounds on. */
static void put_all(Tidy *t, LNode *n)
{
	put(t, &n->lo);
	put(t, &n->hi);
	if (n->var)
		forget(t, n->var);
	if (n->fold) {
		put(t, &n->fold->valid);
		forget(t, n->fold->col);
		forget(t, n->fold->row);
	}
	put(t, &n->idx);
	put(t, &n->skew);
	put(t, &n->guard);
	for (int i = 0; i < n->nout; i++)
		put(t, &n->val[i]);
	for (int i = 0; i < n->nat; i++)
		put(t, &n->at[i]);
	if (n->tile) {
		Expr **x[] = {&n->tile->acc_at, &n->tile->a_at,    &n->tile->a_step,
			      &n->tile->b_at,   &n->tile->b_step,  &n->tile->ahead,
			      &n->tile->k,      &n->tile->m_valid, &n->tile->n_valid};

		for (size_t i = 0; i < sizeof x / sizeof *x; i++)
			put(t, x[i]);
	}
}

/* How often a loop runs, where that is known; else -1. */
static int64_t trips(const LNode *n)
{
	int64_t span;

	if (n->lo->kind != EX_CONST || n->hi->kind != EX_CONST ||
	    __builtin_sub_overflow(n->hi->i, n->lo->i, &span))
		return -1;
	return span <= 0 ? 0 : (span - 1) / n->step + 1;
}

/* The body of loop N in its place. */
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
		put_all(t, n);
		if (n->kind == LN_LET && (n->lo->kind == EX_CONST || n->lo->kind == EX_ITER)) {
			name_is(t, n->var, n->lo);
			*at = n->next;
		} else if (n->kind == LN_LOOP && trips(n) == 0) {
			*at = n->next;
		} else if (n->kind == LN_LOOP && trips(n) == 1) {
			name_is(t, n->var, n->lo);
			splice(at, n);
		} else {
			tidy(t, &n->body);
			at = &n->next;
		}
	}
}

void l_tidy(Schedule *s)
{
	for (int i = 0; i < s->stages.n; i++) {
		Tidy t = {.arena = s->kernel->arena, .p = s->kernel->pool};

		tidy(&t, &s->stages.at[i]->body);
	}
}
