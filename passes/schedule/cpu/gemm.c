/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy *contraction*: acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n), and the maps that
 * follow it pointwise, as a blocked matrix product.
 *
 *   p over (g, other n, block of n, block of m)            parallel
 *     pack B's block into panels of 128 bytes of columns   unless the weights are packed already
 *     pack A's block                                       unless A is read by plain strides,
 *                                                          or in runs of contiguous terms
 *     for panels of n, for tiles of m (or tiles, then panels)
 *       tile = A rows * B panel                            the micro-kernel
 *       the epilogue over the tile, m rows by n columns
 *
 * A sum longer than kc goes through all tiles of a panel in parts, and each tile fetches some of
 * the panel that follows, which the first tile of the next would otherwise wait for.
 *
 * Operands are expressions: im2col, padding, conversions and prologues are what packing evaluates.
 * Edges: rows past the end repeat the last row and are not stored; columns past the end are zero in
 * the panel. Blocking follows the analytic model of Low et al., "Analytical modeling is enough for
 * high-performance BLIS" (2016), in its simplest form: B's panel block in half of L2, a part of a
 * panel and of A's rows in L1, a tile's accumulators in registers.
 */
#include "passes/schedule/cpu/cpu.h"
#include "passes/schedule/cpu/gemm_impl.h"

#include <assert.h>

enum {
	PANEL_BYTES = 128,
	ROWS = 128,
	COLUMNS = 128,
	MAX_COLUMNS = 512,
	MIN_N = 8,
	/* terms of a run of A for which reading it in place costs less than packing it: finding
	 * the start of a run costs a tile about as much as four terms */
	MIN_RUN = 6,
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

static bool merges_in(Gemm *g, Expr *e, const Iter *out, const Iter *in)
{
	return e->kind == EX_LOAD && pair_joins(&(Pair){g->k, out, in, in->extent, NULL}, e);
}

/* ---- Set-up ---- */

static bool plain(const Expr *e, CType t)
{
	return e->kind == EX_LOAD && e->load.buf->dtype == ctype_dtype(t) && !e->load.buf->data;
}

/* The first of the innermost k iterators that merge in A: the terms of a run. The guard bounds at most
 * one of a run's iterators, so that what it leaves of a run is a range. */
static int first_of_run(Gemm *g)
{
	Expr *guard = g->c.guard_a;
	int run = g->c.nk - 1;

	while (run > 0 && merges_in(g, g->c.a, g->c.k[run - 1], g->c.k[run]) &&
	       !(guard &&
		 (expr_has_iter(guard, g->c.k[run - 1]) || expr_has_iter(guard, g->c.k[run]))))
		run--;
	return run;
}

/* The guard of A holds for a range of a run's terms, and its packed runs have the stride of A. */
static bool has_edges(Gemm *g)
{
	Expr *lo = ex_int(g->k->pool, CT_I64, 0), *hi = ex_dim(g->k->pool, g->run_terms);

	return !guard_to_range(g->k, g->c.guard_a, g->c.k[g->c.nk - 1], &lo, &hi) &&
	       g->a_step->kind == EX_CONST && g->a_step->i == 1;
}

/* A is read in place if its k iterators merge into one with a constant stride, and in runs if some
 * of them do. Runs outside of the tensor are packed, which makes their stride 1. */
static void look_at_a(Gemm *g)
{
	Affine a;
	Expr *e = g->c.a;
	int64_t terms;

	g->run = g->c.nk;
	if (!plain(e, g->c.ct) ||
	    !ex_affine(g->k->ctx, flat_index(g->k, e->load.buf, e->load.idx), &a))
		return;
	g->a_step = ex_dim(g->k->pool, affine_coef(g->k->ctx, &a, g->c.k[g->c.nk - 1]));
	g->run = first_of_run(g);
	if (g->run == 0 && !g->c.guard_a) {
		g->a_direct = true;
		g->run = g->c.nk;
		return;
	}
	g->run_terms = gemm_product(g, g->c.k + g->run, g->c.nk - g->run);
	if (!dim_is_const(g->run_terms, &terms) || terms < MIN_RUN ||
	    (g->c.guard_a && !has_edges(g)))
		g->run = g->c.nk;
}

/* B is read in place if its buffer is packed in panels (passes/layout/panels.c). */
static void look_at_b(Gemm *g)
{
	Expr *e = g->c.b;
	const Layout *l = e->kind == EX_LOAD ? e->load.buf->layout : NULL;

	g->b_panels = l && l->n > 1 && l->ax[l->n - 1].mod == g->pw && plain(e, g->c.ct) &&
		      e->load.idx[l->ax[l->n - 1].dim]->kind == EX_ITER &&
		      e->load.idx[l->ax[l->n - 1].dim]->iter == g->c.n[g->c.nn - 1] &&
		      !g->c.guard_b;
}

static void split_n(Gemm *g)
{
	int first = g->c.nn - 1;

	if (!g->b_panels)
		while (first > 0 && gemm_merges_after(g, g->c.n[first - 1], g->c.n[first]))
			first--;
	for (int i = 0; i < g->c.ng; i++)
		g->outer[g->nouter++] = g->c.g[i];
	for (int i = 0; i < first; i++)
		g->outer[g->nouter++] = g->c.n[i];
	for (int i = first; i < g->c.nn; i++)
		g->nin[g->nnin++] = g->c.n[i];
	g->m_merges = true;
	for (int i = 0; i + 1 < g->c.nm; i++)
		g->m_merges = g->m_merges && gemm_merges_after(g, g->c.m[i], g->c.m[i + 1]) &&
			      (!g->a_direct || merges_in(g, g->c.a, g->c.m[i], g->c.m[i + 1]));
}

static int64_t round_up(int64_t v, int64_t to)
{
	return (v + to - 1) / to * to;
}

/* Fits the tile to M rows. The tiles get about equal numbers of rows: 4 and 3 of 7, rather than 6
 * and 1. A tile of few rows has more columns if the registers suffice, so that enough independent
 * sums hide the latency of the multiply-add. */
static void fit_tile(Gemm *g, int64_t m)
{
	int64_t tiles = (m + g->mr - 1) / g->mr,
		lanes = g->t->vector_bytes / (dtype_info[ctype_dtype(g->c.ct)].bits / 8);

	g->mr = (m + tiles - 1) / tiles;
	while (g->nr * 2 <= g->pw && (g->mr + 1) * (g->nr * 2 / lanes) < g->t->registers)
		g->nr *= 2;
}

static void choose_blocks(Gemm *g)
{
	int64_t esize = dtype_info[ctype_dtype(g->c.ct)].bits / 8, v, kk;

	gemm_tile(g->t, g->c.ct, &g->mr, &g->nr);
	g->mc = ROWS;
	if (dim_is_const(g->m, &v)) {
		v = v > 0 ? v : 1;
		fit_tile(g, v);
		g->mc = v < ROWS ? v : ROWS;
	}
	g->mc = round_up(g->mc, g->mr);
	g->kc = g->t->l1 * 3 / 4 / (esize * (g->mr + g->nr)) / 8 * 8;
	g->nc = COLUMNS / (esize == 8 ? 2 : 1);
	if (!g->b_panels) {
		if (dim_is_const(g->kk, &kk) && kk > 0)
			g->nc = g->t->l2 / 2 / (kk * esize) / g->pw * g->pw;
		g->nc = g->nc < g->pw ? g->pw : g->nc > MAX_COLUMNS ? MAX_COLUMNS : g->nc;
		g->mc = 0; /* all rows, so that B's block is packed once */
	}
	if (dim_is_const(g->n, &v) && v < g->nc)
		g->nc = round_up(v > 0 ? v : 1, g->pw);
	/* with few blocks of columns, rows are split too, and each block of rows packs B again */
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

bool gemm_takes(Kernel *k, Contraction *c, bool b_constant)
{
	int64_t v;

	if (kernel_class(k) != KC_CONTRACTION || !stmt_contraction(k, k->stmts.at[0], c))
		return false;
	if (c->ct == CT_BOOL || (c->nm == 0 && !b_constant))
		return false;
	gemm_sort(c);
	return !dim_is_const(c->n[c->nn - 1]->extent, &v) || v >= MIN_N || c->nn > 1;
}

/* The grain counts a block's multiply-adds. */
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
	if (g.run < g.c.nk)
		gemm_find_runs(&g);
	else if (!g.a_direct)
		gemm_pack_a(&g);
	gemm_emit_tiles(&g);
	return true;
}
