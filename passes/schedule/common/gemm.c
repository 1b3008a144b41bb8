/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the matrix products of CPUs and GPUs share: recognises the contraction in a kernel, and
 * flattens its iterators to m, n and k.
 */
#include "passes/schedule/common/gemm.h"

/* ---- Recognition ---- */

/* The axis of the result in memory that goes along IT; -1: none. */
static int axis_along(Ctx *ctx, const Stmt *s, const Iter *it)
{
	for (int i = 0; i < s->nwidx; i++)
		if (index_goes_along(ctx, s->widx[i], it))
			return buf_axis(s->out[0], i);
	return -1;
}

static void sort_by_axis(Ctx *ctx, const Stmt *s, Iter **it, int n)
{
	for (int i = 1; i < n; i++)
		for (int j = i;
		     j > 0 && axis_along(ctx, s, it[j - 1]) > axis_along(ctx, s, it[j]); j--) {
			Iter *t = it[j];

			it[j] = it[j - 1];
			it[j - 1] = t;
		}
}

void gemm_sort(Ctx *ctx, Contraction *c)
{
	sort_by_axis(ctx, c->s, c->m, c->nm);
	sort_by_axis(ctx, c->s, c->n, c->nn);
}

static bool all_in_band(Gemm *g)
{
	int n = g->c.ng + g->c.nm + g->c.nn;

	if (g->band.n != n || g->c.s->id != g->first)
		return false;
	for (int i = 0; i < g->nstmts; i++) {
		const Stmt *s = g->k->stmts.at[g->first + i];

		if (s->niters != n + (i ? 0 : g->c.nk))
			return false;
	}
	return true;
}

bool gemm_open(Gemm *g)
{
	const int last = g->first + g->nstmts - 1;

	if (kernel_class_of(g->k, g->first, last) != KC_CONTRACTION ||
	    !stmt_contraction(g->k, g->k->stmts.at[g->first], &g->c))
		return false;
	gemm_sort(g->k->ctx, &g->c);
	band_of_some(g->k, g->first, last, g->k->arena, &g->band);
	return all_in_band(g);
}

Dim *gemm_product(Gemm *g, Iter *const *it, int n)
{
	return iters_points(g->k->ctx, it, n);
}

/* ---- Which iterators merge ---- */

/* The iterator of statement S that corresponds to iterator IT of the contraction. */
static Iter *partner(const Gemm *g, const Stmt *s, const Iter *it)
{
	for (int b = 0; b < g->band.n; b++)
		if (g->band.of[g->c.s->id][b] == it)
			return g->band.of[s->id][b];
	return NULL;
}

bool gemm_stores(const Gemm *g, const Stmt *s)
{
	return s->out[0]->kind != BUF_TEMP || g->nstmts == 1;
}

bool gemm_merges_after(Gemm *g, const Iter *out, const Iter *in)
{
	for (int i = 0; i < g->nstmts; i++) {
		Stmt *s = g->k->stmts.at[g->first + i];
		const Iter *o = partner(g, s, out), *n = partner(g, s, in);
		Pair p = {g->k, o, n, in->extent, g->c.s->out[0]};

		if (!o || !n || (i && !pair_joins(&p, s->val[0])))
			return false;
		if (i && s->guard && (expr_has_iter(s->guard, o) || expr_has_iter(s->guard, n)))
			return false;
		if (gemm_stores(g, s) && !pair_steps(&p, flat_index(g->k, s->out[0], s->widx)))
			return false;
	}
	return true;
}

bool gemm_joins_after(Gemm *g, Iter *const *it, int n)
{
	for (int i = 0; i + 1 < n; i++)
		if (!gemm_merges_after(g, it[i], it[i + 1]))
			return false;
	return true;
}

/* ---- Expressions ---- */

/* Merged iterators: the last one is replaced by the flat one, the others by 0, which is right as
 * their strides agree. */
static Expr *flat_iter(Gemm *g, const Iter *it)
{
	for (int i = 0; i < g->nnin; i++)
		if (g->nin[i] == it)
			return i + 1 < g->nnin ? l_int(&g->b, 0) : ex_iter(g->b.p, g->nflat);
	if (g->m_merges)
		for (int i = 0; i < g->c.nm; i++)
			if (g->c.m[i] == it)
				return i + 1 < g->c.nm ? l_int(&g->b, 0)
						       : ex_iter(g->b.p, g->mflat);
	return NULL;
}

Iter *gemm_original(const Gemm *g, const Stmt *s, const Iter *it)
{
	for (int b = 0; b < g->band.n; b++)
		if (g->band.of[s->id][b] == it)
			return g->band.of[g->c.s->id][b];
	return (Iter *)it;
}

static Expr *place_load(void *arg, Expr *e)
{
	const Placing *p = arg;
	Buf *b = e->load.buf;
	Expr *at;

	if (e->kind != EX_LOAD)
		return NULL;
	if (b->id < p->nvalues && p->value[b->id])
		return p->value[b->id];
	at = flat_index(p->g->k, b, e->load.idx);
	return ex_load(p->g->b.p, b, &at, 1);
}

static Expr *place_iter(void *arg, Expr *e)
{
	const Placing *p = arg;
	Iter *it;
	Expr *f;

	if (e->kind != EX_ITER)
		return NULL;
	it = gemm_original(p->g, p->s, e->iter);
	f = p->flat ? flat_iter(p->g, it) : NULL;
	return f ? f : it != e->iter ? ex_iter(p->g->b.p, it) : NULL;
}

Expr *gemm_placed(Placing *p, Expr *e)
{
	ExprPool *pool = p->g->b.p;

	return e ? ex_rewrite(pool, ex_rewrite(pool, e, place_load, p), place_iter, p) : NULL;
}

Expr *gemm_at(Gemm *g, const Stmt *s, const Iter *it, Expr *m, Expr *n, Expr *k)
{
	Iter *o = gemm_original(g, s, it), *const * list[] = {g->nin, g->c.m, g->c.k};
	Expr *flat[] = {n, m, k};
	int count[] = {g->nnin, g->c.nm, k ? g->c.nk : 0};

	for (int side = 0; side < 3; side++) {
		Expr *e = flat[side];

		for (int i = count[side] - 1; i >= 0; i--) {
			Expr *ext = ex_dim(g->b.p, list[side][i]->extent);

			if (list[side][i] == o)
				return i ? ex_op2(g->b.p, IN_mod, e, ext) : e;
			e = ex_op2(g->b.p, IN_floordiv, e, ext);
		}
	}
	return ex_iter(g->b.p, o);
}

void gemm_does(Gemm *g, LNode *node, const Stmt *s, LPart part, Expr *m, Expr *n, Expr *k)
{
	Expr *at[MAX_ITERS];
	int nat = part == PART_TERM ? s->niters : s->nband;

	for (int i = 0; i < nat; i++)
		at[i] = gemm_at(g, s, s->iter[i], m, n, k);
	l_does(&g->b, node, part, at, nat);
}
