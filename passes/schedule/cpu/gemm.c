/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy *contraction*: acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n), and the maps that follow it
 * pointwise, as a blocked matrix product.
 *
 *   p over (g, other n, block of n, block of m)            parallel
 *     pack B's block into panels of 128 bytes of columns   unless the weights are packed already
 *     pack A's block                                       unless A is read by plain strides
 *     for panels of n, for tiles of m (or tiles, then panels)
 *       tile = A rows * B panel                            the micro-kernel
 *       the epilogue over the tile, m rows by n columns
 *
 * A sum longer than kc goes through all tiles of a panel in parts, and each tile fetches some of the panel that
 * follows, which the first tile of the next would otherwise wait for.
 *
 * Operands are expressions: im2col, padding, conversions and prologues are what packing evaluates. Edges:
 * rows past the end repeat the last row and are not stored; columns past the end are zero in the panel.
 * Blocking follows the analytic model of Low et al., "Analytical modeling is enough for high-performance
 * BLIS" (2016), in its simplest form: B's panel block in half of L2, a part of a panel and of A's rows in L1, a tile's
 * accumulators in registers.
 */
#include "passes/schedule/common/gemm_impl.h"

#include <assert.h>

enum {
	PANEL_BYTES = 128,
	ROWS = 128,
	COLUMNS = 128,
	MAX_COLUMNS = 512,
	MIN_N = 8,
	GRAIN_TERMS = 1 << 18
};

int64_t gemm_panel(CType t)
{
	return PANEL_BYTES / (dtype_info[ctype_dtype(t)].bits / 8);
}

void gemm_tile(const Target *t, CType ct, int64_t *mr, int64_t *nr)
{
	int64_t lanes = t->vector_bytes / (dtype_info[ctype_dtype(ct)].bits / 8),
		pw = gemm_panel(ct);

	*mr = t->registers >= 32 ? 8 : 6;
	*nr = lanes * 2 < pw ? lanes * 2 : pw;
}

/* ---- Which iterators merge ---- */

/* The iterator of statement S that runs with iterator IT of the contraction. */
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

static bool merges_in_epilogue(Gemm *g, const Iter *out, const Iter *in)
{
	for (int i = 0; i < g->nstmts; i++) {
		Stmt *s = g->k->stmts.at[i];
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

static bool merges_in(Gemm *g, Expr *e, const Iter *out, const Iter *in)
{
	return e->kind == EX_LOAD && pair_joins(&(Pair){g->k, out, in, in->extent, NULL}, e);
}

bool gemm_joins_after(Gemm *g, Iter *const *it, int n)
{
	for (int i = 0; i + 1 < n; i++)
		if (!merges_in_epilogue(g, it[i], it[i + 1]))
			return false;
	return true;
}

/* ---- Set-up ---- */

Dim *gemm_product(Gemm *g, Iter *const *it, int n)
{
	return iters_points(g->k->ctx, it, n);
}

static bool plain(const Expr *e, CType t)
{
	return e->kind == EX_LOAD && e->load.buf->dtype == ctype_dtype(t) && !e->load.buf->data;
}

/* A is read in place where k steps by one stride. */
static void look_at_a(Gemm *g)
{
	Affine a;
	Expr *e = g->c.a;

	g->a_direct = plain(e, g->c.ct) && !g->c.guard_a &&
		      ex_affine(g->k->ctx, flat_index(g->k, e->load.buf, e->load.idx), &a);
	for (int i = 0; i + 1 < g->c.nk && g->a_direct; i++)
		g->a_direct = merges_in(g, e, g->c.k[i], g->c.k[i + 1]);
	if (g->a_direct)
		g->a_step = ex_dim(g->k->pool, affine_coef(g->k->ctx, &a, g->c.k[g->c.nk - 1]));
}

/* B is read in place where its buffer has the layout that gemm_pack_layout gives. */
static void look_at_b(Gemm *g)
{
	Expr *e = g->c.b;
	const Layout *l = e->kind == EX_LOAD ? e->load.buf->layout : NULL;

	g->b_panels = l && l->n > 1 && l->ax[l->n - 1].mod == g->pw && plain(e, g->c.ct) &&
		      e->load.idx[l->ax[l->n - 1].dim]->kind == EX_ITER &&
		      e->load.idx[l->ax[l->n - 1].dim]->iter == g->c.n[g->c.nn - 1] &&
		      !g->c.guard_b;
}

static int by_write(const Stmt *s, const Iter *it)
{
	for (int i = 0; i < s->nwidx; i++)
		if (s->widx[i]->kind == EX_ITER && s->widx[i]->iter == it)
			return buf_axis(s->out[0], i);
	return -1;
}

static void sort_by_write(const Stmt *s, Iter **it, int n)
{
	for (int i = 1; i < n; i++)
		for (int j = i; j > 0 && by_write(s, it[j - 1]) > by_write(s, it[j]); j--) {
			Iter *t = it[j];

			it[j] = it[j - 1];
			it[j - 1] = t;
		}
}

static void split_n(Gemm *g)
{
	int first = g->c.nn - 1;

	if (!g->b_panels)
		while (first > 0 && merges_in_epilogue(g, g->c.n[first - 1], g->c.n[first]))
			first--;
	for (int i = 0; i < g->c.ng; i++)
		g->outer[g->nouter++] = g->c.g[i];
	for (int i = 0; i < first; i++)
		g->outer[g->nouter++] = g->c.n[i];
	for (int i = first; i < g->c.nn; i++)
		g->nin[g->nnin++] = g->c.n[i];
	g->m_merges = true;
	for (int i = 0; i + 1 < g->c.nm; i++)
		g->m_merges = g->m_merges && merges_in_epilogue(g, g->c.m[i], g->c.m[i + 1]) &&
			      (!g->a_direct || merges_in(g, g->c.a, g->c.m[i], g->c.m[i + 1]));
}

static int64_t round_up(int64_t v, int64_t to)
{
	return (v + to - 1) / to * to;
}

static void choose_blocks(Gemm *g)
{
	int64_t esize = dtype_info[ctype_dtype(g->c.ct)].bits / 8, v, kk;

	gemm_tile(g->t, g->c.ct, &g->mr, &g->nr);
	g->kc = g->t->l1 * 3 / 4 / (esize * (g->mr + g->nr)) / 8 * 8;
	if (dim_is_const(g->m, &v) && v < g->mr)
		g->mr = v > 0 ? v : 1;
	g->mc = round_up(ROWS, g->mr);
	g->nc = COLUMNS / (esize == 8 ? 2 : 1);
	if (!g->b_panels) {
		if (dim_is_const(g->kk, &kk) && kk > 0)
			g->nc = g->t->l2 / 2 / (kk * esize) / g->pw * g->pw;
		g->nc = g->nc < g->pw ? g->pw : g->nc > MAX_COLUMNS ? MAX_COLUMNS : g->nc;
		g->mc = 0; /* all rows: B's block is packed once */
	}
	if (dim_is_const(g->n, &v) && v < g->nc)
		g->nc = round_up(v > 0 ? v : 1, g->pw);
	/* With few blocks of columns, rows are split too, and B's block is packed again for each. */
	if (!g->mc) {
		int64_t m, n, blocks = 4;

		g->mc = 512;
		if (dim_is_const(gemm_product(g, g->outer, g->nouter), &v) &&
		    dim_is_const(g->n, &n)) {
			blocks = v * ((n + g->nc - 1) / g->nc);
			if (blocks >= 4 && dim_is_const(g->m, &m))
				g->mc = m;
		}
		if (dim_is_const(g->m, &m) && blocks < 4)
			g->mc = (m + 1) / 2;
		g->mc = round_up(g->mc < 1 ? 1 : g->mc, g->mr);
	}
}

/* ---- Expressions ---- */

/* Iterators that merged: all but the last read 0, the last one the flat one, as strides agree. */
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

static bool all_in_band(Gemm *g)
{
	int n = g->c.ng + g->c.nm + g->c.nn;

	if (g->band.n != n || g->c.s->id != 0)
		return false;
	for (int i = 0; i < g->nstmts; i++)
		if (g->k->stmts.at[i]->niters != n + (i ? 0 : g->c.nk) ||
		    (i && g->k->stmts.at[i]->guard && !g->t->gpu))
			return false;
	return true;
}

bool gemm_takes(Kernel *k, Contraction *c, bool b_constant)
{
	int64_t v;

	if (kernel_class(k) != KC_CONTRACTION || !stmt_contraction(k, k->stmts.at[0], c))
		return false;
	if (c->ct == CT_BOOL || (c->nm == 0 && !b_constant))
		return false;
	sort_by_write(c->s, c->m, c->nm);
	sort_by_write(c->s, c->n, c->nn);
	return !dim_is_const(c->n[c->nn - 1]->extent, &v) || v >= MIN_N || c->nn > 1;
}

bool gemm_open(Gemm *g)
{
	if (!kernel_is_product(g->k, 0, g->nstmts - 1) ||
	    !stmt_contraction(g->k, g->k->stmts.at[0], &g->c))
		return false;
	sort_by_write(g->c.s, g->c.m, g->c.nm);
	sort_by_write(g->c.s, g->c.n, g->c.nn);
	band_of_some(g->k, 0, g->nstmts - 1, g->k->arena, &g->band);
	return all_in_band(g);
}

/* A block's multiply-adds. */
static void set_grain(Gemm *g)
{
	Ctx *c = g->k->ctx;
	Dim *m = dim_min(c, g->m, dim_const(c, g->mc)), *n = dim_min(c, g->n, dim_const(c, g->nc));

	l_grain(&g->b, GRAIN_TERMS, dim_mul(c, dim_mul(c, m, n), g->kk));
}

static bool open_whole(Gemm *g)
{
	if (!gemm_open(g))
		return false;
	g->pw = gemm_panel(g->c.ct);
	look_at_b(g);
	return gemm_takes(g->k, &g->c, g->b_panels);
}

static void number_stmts(Kernel *k)
{
	for (int i = 0; i < k->stmts.n; i++)
		k->stmts.at[i]->id = i;
}

bool gemm_is_whole(const Target *t, Kernel *k)
{
	Gemm g = {.k = k, .t = t, .nstmts = k->stmts.n};

	number_stmts(k);
	return open_whole(&g);
}

bool sched_contraction(const Target *t, Kernel *k, Schedule *s)
{
	Gemm g = {.k = k, .t = t, .nstmts = k->stmts.n, .b = l_build(k, s)};
	Dim *nb, *mb;
	Iter *inb, *imb, *split[MAX_ITERS];
	ExprPool *p = k->pool;
	int n = 0;

	if (!open_whole(&g))
		return false;
	look_at_a(&g);
	split_n(&g);
	g.m = gemm_product(&g, g.c.m, g.c.nm);
	g.n = gemm_product(&g, g.nin, g.nnin);
	g.kk = gemm_product(&g, g.c.k, g.c.nk);
	choose_blocks(&g);
	nb = dim_ceildiv(k->ctx, g.n, dim_const(k->ctx, g.nc));
	mb = dim_ceildiv(k->ctx, g.m, dim_const(k->ctx, g.mc));
	l_of(&g.b, g.c.s);
	l_stage(&g.b, "contraction",
		dim_mul(k->ctx, gemm_product(&g, g.outer, g.nouter), dim_mul(k->ctx, nb, mb)));
	set_grain(&g);
	for (; n < g.nouter; n++)
		split[n] = g.outer[n];
	split[n++] = inb = l_iter(&g.b, "nb", nb);
	split[n++] = imb = l_iter(&g.b, "mb", mb);
	l_split(&g.b, split, n, ex_iter(p, g.b.stage->var));
	g.m0 = l_iter(&g.b, "m0", g.m);
	g.n0 = l_iter(&g.b, "n0", g.n);
	g.mflat = l_iter(&g.b, "m", g.m);
	g.nflat = l_iter(&g.b, "n", g.n);
	l_let(&g.b, g.m0, ex_mul(p, ex_iter(p, imb), l_int(&g.b, g.mc)));
	l_let(&g.b, g.n0, ex_mul(p, ex_iter(p, inb), l_int(&g.b, g.nc)));
	if (!g.b_panels)
		gemm_pack_b(&g);
	if (!g.a_direct)
		gemm_pack_a(&g);
	gemm_emit_tiles(&g);
	return true;
}
