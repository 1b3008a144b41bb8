/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops that would do nothing. A tensor of [2^40, 0] takes no memory, but a loop over its rows
 * takes hours although the loop over the elements of each row is empty. So a stage or loop that may
 * have many iterations gets a condition, Stage.when or LLoop.when, if its body stores elements only
 * in loops over sizes that may be 0: the product of these sizes, or a sum of such products.
 *
 *     for i in [0, N) if M        a store to a local that is declared outside of the loop counts: a
 *       for j in [0, M)           sum over no elements is still written after the loop
 *         y[i*M + j] = ...
 *
 * Stores to locals that the body itself declares have no effect by themselves. Left out are sizes
 * that cannot be 0 in the body, since a loop around it would be empty then: M, in a stage of N*M
 * iterations. So most loops need no condition, and a nest needs one at its outermost loop.
 */
#include "passes/schedule/common/loops.h"

enum {
	FEW_ITERATIONS = 1 << 16, /* take no time that counts, even if they do nothing */
	MOST_PRODUCTS = 8         /* in a condition */
};

typedef struct EmptyWalk {
	Ctx *ctx;
	Arena *arena;
	const Kernel *k;
	bool *local;         /* by Buf.id: declared in the body that is looked at */
	VEC(Dim *) work;     /* that body does something where one of these products is not 0 */
	VEC(Dim *) positive; /* sizes above 0 at the current node */
} EmptyWalk;

/* ---- Sizes that cannot be 0 ---- */

/* Whether D is not 0 wherever E is above 0, as E is 0 if any symbol of D is, a product of
 * symbols. */
static bool follows(EmptyWalk *w, Dim *d, Dim *e)
{
	const int n = sym_count(w->ctx);
	int64_t coef;
	Dim *mono;

	if (d == e)
		return true;
	if (dim_has_opaque(d) || !dim_term(w->ctx, d, 0, &coef, &mono) ||
	    dim_term(w->ctx, d, 1, &coef, &mono))
		return false;
	DIM_EACH_SYM (s, d) {
		Dim **to = NEW_ARRAY(w->arena, n + 1, Dim *);

		to[s->id] = dim_const(w->ctx, 0);
		if (!dim_equals(dim_subst(w->ctx, e, to, n), 0))
			return false;
	}
	return true;
}

static bool is_positive(EmptyWalk *w, Dim *d)
{
	for (int i = 0; i < w->positive.n; i++)
		if (follows(w, d, w->positive.at[i]))
			return true;
	return dim_prove_lt(w->ctx, dim_const(w->ctx, 0), d);
}

/* ---- What a body does ---- */

/* Whether N does something only for the points of its range. */
static bool is_loop(const LNode *n)
{
	return n->kind == LN_LOOP || n->kind == LN_REDUCE;
}

/* The length of the range of loop N; null if iterators decide it. */
static Dim *length(EmptyWalk *w, const LNode *n)
{
	Dim *lo = ex_as_dim(w->ctx, n->range.lo), *hi = ex_as_dim(w->ctx, n->range.hi);

	return lo && hi ? dim_sub(w->ctx, hi, lo) : NULL;
}

static void find_locals(EmptyWalk *w, const LNode *n)
{
	for (; n; n = n->next) {
		if (n->kind == LN_LOCAL)
			w->local[n->local.buf->id] = true;
		find_locals(w, n->body);
	}
}

/* Whether N stores to a buffer that the body does not declare. */
static bool stores(const EmptyWalk *w, const LNode *n)
{
	const LBufs bufs = lnode_bufs(n);

	VEC_EACH_AT (u, &bufs)
		if (u->use == LUSE_WRITES && !w->local[u->b->id])
			return true;
	return false;
}

static void add_work(EmptyWalk *w, Dim *product)
{
	for (int i = 0; i < w->work.n; i++)
		if (w->work.at[i] == product)
			return;
	vec_push(w->arena, &w->work, product);
}

/* Finds what N and its siblings do, inside of loops whose sizes have this product. */
static void find_work(EmptyWalk *w, const LNode *n, Dim *product)
{
	Ctx *c = w->ctx;

	for (; n && w->work.n <= MOST_PRODUCTS; n = n->next) {
		Dim *size = is_loop(n) ? length(w, n) : NULL, *all = product;

		if (size && !is_positive(w, size) && !follows(w, size, product))
			all = dim_mul(c, product, dim_max(c, size, dim_const(c, 0)));
		if (stores(w, n))
			add_work(w, all);
		find_work(w, n->body, all);
	}
}

/* The condition on which BODY does something; null: always, or, with *KNOWN false, unknown. */
static Dim *condition(EmptyWalk *w, const LNode *head, const LNode *body, bool *known)
{
	Dim *sum = dim_const(w->ctx, 0);

	memset(w->local, 0, sizeof *w->local * (size_t)w->k->bufs.n);
	find_locals(w, head);
	find_locals(w, body);
	w->work.n = 0;
	find_work(w, body, dim_const(w->ctx, 1));
	*known = w->work.n > 0 && w->work.n <= MOST_PRODUCTS;
	if (!*known)
		return NULL;
	for (int i = 0; i < w->work.n; i++)
		sum = dim_add(w->ctx, sum, w->work.at[i]);
	return is_positive(w, sum) ? NULL : sum;
}

/* ---- Conditions ---- */

/* The most iterations of N: by the bounds of its length, or in [x, min(x + 512, M)) 512. */
static int64_t most(EmptyWalk *w, const LNode *n)
{
	Dim *size = length(w, n);
	int64_t lo, hi = DIM_INF;

	if (size)
		dim_bounds(w->ctx, size, &lo, &hi);
	for (int i = 0; ex_is_op(n->range.hi, IN_min) && i < 2; i++) {
		const Expr *part = ex_sub(w->k->pool, n->range.hi->op.arg[i], n->range.lo);

		if (part->kind == EX_CONST && part->i < hi)
			hi = part->i;
	}
	return hi;
}

static int64_t times(int64_t a, int64_t b)
{
	int64_t all;

	return __builtin_mul_overflow(a, b, &all) ? DIM_INF : all;
}

static void set_conditions(EmptyWalk *w, LNode *n, int64_t around);

/* Sets *WHEN, the condition of a loop around BODY, and those of the loops in BODY. ALL: the loop's
 * iterations, together with the loops around it. SIZE, its length, may be null. If what BODY does
 * is known, an iteration that runs stores something, so the loops in BODY are counted anew. */
static void set_condition(EmptyWalk *w, Dim **when, const LNode *head, LNode *body, Dim *size,
			  int64_t all)
{
	const int before = w->positive.n;
	bool known = false;

	if (size)
		vec_push(w->arena, &w->positive, size);
	if (all > FEW_ITERATIONS)
		*when = condition(w, head, body, &known);
	if (*when)
		vec_push(w->arena, &w->positive, *when);
	set_conditions(w, body, known ? 1 : all);
	w->positive.n = before;
}

/* Sets the conditions of the loops among N, its siblings and in their bodies. AROUND: the
 * iterations of the loops around them that may do nothing. */
static void set_conditions(EmptyWalk *w, LNode *n, int64_t around)
{
	for (; n; n = n->next)
		if (n->kind == LN_LOOP && n->loop.kind != LOOP_LAST)
			set_condition(w, &n->loop.when, NULL, n->body, length(w, n),
				      times(around, most(w, n)));
		else
			set_conditions(w, n->body, around);
}

void l_skip_empty(Schedule *s)
{
	Kernel *k = s->kernel;
	EmptyWalk w = {.ctx = k->ctx, .arena = arena_new(), .k = k};

	w.local = NEW_ARRAY(w.arena, k->bufs.n + 1, bool);
	VEC_EACH (st, &s->stages) {
		int64_t lo, hi;

		dim_bounds(k->ctx, st->extent, &lo, &hi);
		set_condition(&w, &st->when, st->block.head, st->body, st->extent, hi);
	}
	arena_free(w.arena);
}
