/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row strategy's reductions on CPUs: with the vector iterator innermost (a block of states at a
 * time; small stencils compute all taps in one loop, without a guard but at the ends of a row), or
 * in lanes along the reduced iterator.
 */
#include "passes/schedule/cpu/row_impl.h"

#include <assert.h>

enum {
	/* Terms of a float sum that are added one after another: a longer sum is computed from the
	 * sums of such blocks, so that its error grows with their number. */
	SUM_BLOCK = 512
};

/* The conjuncts of a stencil's guard by what they bound; null: none. */
typedef struct TapGuards {
	Expr *points; /* points of v: an end of a row has fewer taps */
	Expr *taps;   /* taps, for all points alike: a phase of a stride may have fewer */
	Expr *rows;   /* neither */
} TapGuards;

static void split_guard(Row *r, Expr *g, const Iter *v, const Iter *u, TapGuards *out)
{
	Expr **to;

	if (!g)
		return;
	if (g->kind == EX_INST && g->op.inst == IN_and) {
		split_guard(r, g->op.arg[0], v, u, out);
		split_guard(r, g->op.arg[1], v, u, out);
		return;
	}
	to = expr_has_iter(g, v) ? &out->points : expr_has_iter(g, u) ? &out->taps : &out->rows;
	*to = ex_and(r->k->pool, *to, g);
}

/* The guards of the current statement S, whose taps are those of its innermost iterator. */
static TapGuards tap_guards(Row *r, const Stmt *s)
{
	TapGuards g = {NULL, NULL, NULL};

	split_guard(r, row_placed(r, s->guard), r->rep[r->vec], s->iter[s->niters - 1], &g);
	return g;
}

/* The points of v in the block for which the taps need no guard, [*LO, *HI). False if their guard,
 * POINTS, is not a bound of an interval. */
static bool inside_of_guard(Row *r, const Stmt *s, Expr *points, Expr **lo, Expr **hi)
{
	ExprPool *p = r->k->pool;
	bool ok = true;
	Expr *all = guard_for_all(r->k, points, s->iter + s->niters - 1, 1, &ok);

	*lo = r->vlo;
	*hi = r->vhi;
	if (!ok || guard_to_range(r->k, all, r->rep[r->vec], lo, hi))
		return false;
	/* of a short row, no point may be inside */
	*lo = ex_op2(p, IN_min, *lo, r->vhi);
	*hi = ex_op2(p, IN_max, *hi, *lo);
	return true;
}

bool row_taps_fit(Row *r, Stmt *s)
{
	Expr *points, *lo, *hi;

	if (r->vec < 0 || s->niters == s->nband || monoid_info[s->red].n != 1)
		return false;
	points = tap_guards(r, s).points;
	return !points || inside_of_guard(r, s, points, &lo, &hi);
}

/* Emits the taps of VAL at the points [LO, HI) of v, each where WHEN holds (null: always). There
 * are no points where ROWS, which all taps have in common, does not. */
static void emit_taps_at(Row *r, Stmt *s, Buf *const *acc, Expr *at, Expr *val, Expr *when,
			 Expr *rows, LoopKind kind, Expr *lo, Expr *hi)
{
	ExprPool *p = r->k->pool;
	Iter *u = s->iter[s->niters - 1];
	Nest in = {.n = 0};
	int64_t taps = 0;

	dim_is_const(u->extent, &taps);
	guard_to_range(r->k, rows, r->rep[r->vec], &lo, &hi);
	row_open(r, &in, kind, r->rep[r->vec], lo, hi);
	for (int64_t j = 0; j < taps; j++) {
		Expr *tap = l_int(r->b, j), *term[2] = {ex_subst_iters(p, val, &u, &tap, 1), NULL},
		     *guard = ex_subst_iters(p, when, &u, &tap, 1), *place_of[MAX_ITERS];

		for (int i = s->nband; i < s->niters; i++)
			place_of[i - s->nband] = i + 1 < s->niters ? ex_iter(p, s->iter[i]) : tap;
		if (guard && guard->kind == EX_CONST && guard->i)
			guard = NULL;
		row_does(r, row_state_node(r, LN_UPDATE, s, acc, at, term, guard), s, PART_TERM,
			 s->niters, place_of);
	}
	row_close(r, &in);
}

/* The loop over the points [LO, HI) at an end of a row, each with TAPS. Unrolled, the C compiler
 * knows which of the taps have a term at each of them. */
static LoopKind end_kind(const Expr *lo, const Expr *hi, int64_t taps)
{
	return lo->kind == EX_CONST && hi->kind == EX_CONST && (hi->i - lo->i) * taps <= MOST_TAPS
		       ? LOOP_UNROLL
		       : LOOP_SERIAL;
}

/* Emits the innermost reduced iterator unrolled inside the loop over v, with the state in a
 * register. Points at the ends of a row, where taps need a guard, have loops of their own. */
static void emit_taps(Row *r, Stmt *s, Buf *const *acc, Expr *at)
{
	const TapGuards g = tap_guards(r, s);
	Expr *val = row_placed(r, s->val[0]), *from = r->vlo, *to = r->vhi,
	     *both = ex_and(r->k->pool, g.taps, g.points);
	Nest in = {.n = 0};
	int64_t taps = 0;

	dim_is_const(s->iter[s->niters - 1]->extent, &taps);
	if (g.points) {
		const bool fits = inside_of_guard(r, s, g.points, &from, &to);

		assert(fits);
	}
	for (int i = s->nband; i < s->niters - 1; i++)
		row_open(r, &in, LOOP_SERIAL, s->iter[i], l_int(r->b, 0),
			 row_extent(r, s->iter[i]));
	if (g.points)
		emit_taps_at(r, s, acc, at, val, both, g.rows, end_kind(r->vlo, from, taps),
			     r->vlo, from);
	emit_taps_at(r, s, acc, at, val, g.taps, g.rows, LOOP_VECTOR, from, to);
	if (g.points)
		emit_taps_at(r, s, acc, at, val, both, g.rows, end_kind(to, r->vhi, taps), to,
			     r->vhi);
	row_close(r, &in);
}

/*
 * A float sum is rounded at every term. A long one is computed from the sums of blocks of SUM_BLOCK
 * terms, so that for terms of one sign the error grows with the number of blocks, not of terms.
 * Returns the iterator of which a block has *STEP points, with all points of the iterators inside
 * it; null if the sum is short, or of no terms.
 */
static Iter *sum_blocks(const Stmt *s, int64_t *step)
{
	int64_t n, inner = 1;

	if (s->red != MONOID_sum || !ctype_is_float(s->val[0]->ct))
		return NULL;
	for (int i = s->niters; i-- > s->nband && inner; inner *= n)
		if (!dim_is_const(s->iter[i]->extent, &n) || n > SUM_BLOCK / inner) {
			*step = SUM_BLOCK / inner;
			return s->iter[i];
		}
	return NULL;
}

/* Opens a loop over the states [LO, HI) of a block. Its remainder is not masked: the next loop
 * loads the states, and a CPU cannot forward a masked store to a load. Masked, means of 3x3 took 5
 * times as long on AVX2, and twice on AVX-512. */
static void open_some_states(Row *r, Nest *in, Expr *lo, Expr *hi)
{
	row_open(r, in, LOOP_VECTOR, r->rep[r->vec], lo, hi);
}

static void open_states(Row *r, Nest *in)
{
	open_some_states(r, in, r->vlo, r->vhi);
}

/* Adds the terms of S to ACC, a row of them at a time. If ROW_BLOCKS is not null, only its
 * points in [FIRST, END). */
static void emit_terms(Row *r, Stmt *s, Buf *const *acc, Expr *at, const Iter *blocks, Expr *first,
		       Expr *end)
{
	Nest in = {.n = 0};
	Expr *lo = r->vlo, *hi = r->vhi, *val[2] = {NULL, NULL}, *guard;
	int i = s->nband;

	while (blocks && s->iter[i] != blocks)
		i++;
	for (; i < s->niters; i++)
		if (s->iter[i] == blocks)
			row_open(r, &in, LOOP_SERIAL, s->iter[i], first, end);
		else
			row_open(r, &in, LOOP_SERIAL, s->iter[i], l_int(r->b, 0),
				 row_extent(r, s->iter[i]));
	for (int c = 0; c < monoid_info[s->red].n; c++)
		val[c] = row_placed(r, s->val[c]);
	guard = guard_to_range(r->k, row_placed(r, s->guard), r->rep[r->vec], &lo, &hi);
	open_some_states(r, &in, lo, hi);
	row_does(r, row_state_node(r, LN_UPDATE, s, acc, at, val, guard), s, PART_TERM, s->niters,
		 NULL);
	row_close(r, &in);
}

/* As emit_terms, by blocks of STEP points of ROW_BLOCKS, whose sums are added to ACC. */
static void emit_sum_blocks(Row *r, Stmt *s, Buf *const *acc, Expr *at, Iter *blocks, int64_t step)
{
	ExprPool *p = r->k->pool;
	Iter *first = l_iter(r->b, "first", blocks->extent);
	Expr *all = row_extent(r, blocks),
	     *end = l_min(r->b, ex_add(p, ex_iter(p, first), l_int(r->b, step)), all), *val;
	Nest n = {.n = 0}, in = {.n = 0};
	const CType ct = s->val[0]->ct;
	Buf *sum;

	for (int i = s->nband; s->iter[i] != blocks; i++)
		row_open(r, &n, LOOP_SERIAL, s->iter[i], l_int(r->b, 0), row_extent(r, s->iter[i]));
	row_open(r, &n, LOOP_SERIAL, first, l_int(r->b, 0), all);
	n.loop[n.n - 1]->loop.step = step;
	sum = l_temp(r->b, "sum", ctype_dtype(ct), dim_const(r->k->ctx, ROW_BLOCK));
	open_states(r, &in);
	l_store(r->b, sum, at, monoid_identity(p, s->red, 0, ct), NULL);
	row_close(r, &in);
	emit_terms(r, s, &sum, at, blocks, ex_iter(p, first), end);
	open_states(r, &in);
	val = ex_load(p, sum, &at, 1);
	row_state_node(r, LN_UPDATE, s, acc, at, &val, NULL);
	row_close(r, &in);
	row_close(r, &n);
}

void row_emit_reduce_vector(Row *r, Stmt *s)
{
	Nest n = {.n = 0}, in = {.n = 0};
	Expr *v = ex_iter(r->k->pool, r->rep[r->vec]), *at = ex_sub(r->k->pool, v, r->v0);
	Buf *acc[2];
	Iter *blocks;
	int64_t step;

	assert(r->block <= ROW_BLOCK);
	row_open_band(r, s, &n, false);
	row_declare_state(r, s, acc, dim_const(r->k->ctx, ROW_BLOCK));
	open_states(r, &in);
	row_init_state(r, s, acc, at);
	row_close(r, &in);
	if (r->how[s->id].form == REDUCE_TAPS)
		emit_taps(r, s, acc, at);
	else if ((blocks = sum_blocks(s, &step)))
		emit_sum_blocks(r, s, acc, at, blocks, step);
	else
		emit_terms(r, s, acc, at, NULL, NULL, NULL);
	open_states(r, &in);
	row_store_state(r, s, acc, at);
	row_close(r, &in);
	row_close(r, &n);
}
