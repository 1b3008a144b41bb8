/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy *contraction*: acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n), and the maps that follow it
 * pointwise, as a blocked matrix product.
 *
 *   p over (g, other n, block of n, block of m)            parallel
 *     pack B's block into panels of 128 bytes of columns   unless the weights are packed already
 *     pack A's block                                       unless A is read by plain strides
 *     for tiles of m, panels of n (or panels, then tiles)
 *       tile = A rows * B panel over all k                 the micro-kernel
 *       the epilogue over the tile, m rows by n columns
 *
 * Operands are expressions: im2col, padding, conversions and prologues are what packing evaluates. Edges:
 * rows past the end repeat the last row and are not stored; columns past the end are zero in the panel.
 * Blocking follows the analytic model of Low et al., "Analytical modeling is enough for high-performance
 * BLIS" (2016), in its simplest form: B's panel block in half of L2, a tile's accumulators in registers.
 */
#include "passes/gemm.h"

#include "passes/band.h"
#include "passes/loops.h"

#include <assert.h>

enum { PANEL_BYTES = 128, ROWS = 128, COLUMNS = 128, MAX_COLUMNS = 512, MIN_N = 8 };

int64_t gemm_panel(CType t)
{
	return PANEL_BYTES / (dtype_info[ctype_dtype(t)].bits / 8);
}

typedef struct Gemm {
	LBuild b;
	Kernel *k;
	const Target *t;
	Contraction c;
	Band band;
	Iter *outer[MAX_ITERS]; /* g and the n iterators that do not merge: LETs of the task */
	int nouter;
	Iter *nin[MAX_ITERS];   /* the n iterators that merge to one, outermost first */
	int nnin;
	Iter *mflat, *nflat;    /* row and column of the whole matrix */
	Dim *m, *n, *kk;        /* extents */
	bool m_merges;          /* rows are one stride in every access */
	bool a_direct, b_panels;
	Expr *a_step;
	int64_t pw, nr, mr, nc, mc;
	Buf *abuf, *bbuf;
	Iter *m0, *n0;          /* the block's first row and column */
} Gemm;

/* ---- Which iterators merge ---- */

/* Whether in E's flat loads (and the flat index AT) OUT*extent(IN) steps as IN does, so that the pair can be
 * one iterator. */
typedef struct Merge {
	Kernel *k;
	const Iter *out, *in;
	const Buf *skip; /* accumulators live in the tile */
	bool ok;
} Merge;

static void merge_index(Merge *g, const Buf *buf, Expr *const *idx)
{
	Affine a;
	Dim *so, *si;

	if (buf == g->skip || !g->ok)
		return;
	if (!ex_affine(g->k->ctx, flat_index(g->k, buf, idx), &a)) {
		g->ok = false;
		return;
	}
	so = affine_coef(g->k->ctx, &a, g->out);
	si = affine_coef(g->k->ctx, &a, g->in);
	g->ok = so == dim_mul(g->k->ctx, si, g->in->extent);
}

static void merge_load(void *arg, Stmt *s, Expr *load)
{
	(void)s;
	merge_index(arg, load->load.buf, load->load.idx);
}

/* The iterator of statement S that runs with iterator IT of the contraction. */
static Iter *partner(const Gemm *g, const Stmt *s, const Iter *it)
{
	for (int b = 0; b < g->band.n; b++)
		if (g->band.of[g->c.s->id][b] == it)
			return g->band.of[s->id][b];
	return NULL;
}

static bool merges_in_epilogue(Gemm *g, const Iter *out, const Iter *in)
{
	for (int i = 0; i < g->k->stmts.n; i++) {
		Stmt *s = g->k->stmts.at[i];
		const Iter *o = partner(g, s, out), *n = partner(g, s, in);
		Merge m = {g->k, o, n, i > 0 ? g->c.s->out[0] : NULL, true};

		if (!o || !n)
			return false;
		if (i > 0) {
			for (int v = 0; v < 1; v++)
				if (expr_has_iter_outside_loads(s->val[v], o) || expr_has_iter_outside_loads(s->val[v], n))
					return false;
			stmt_loads(s, merge_load, &m);
		}
		m.skip = s->out[0]->kind == BUF_TEMP ? s->out[0] : NULL;
		merge_index(&m, s->out[0], s->widx);
		if (!m.ok)
			return false;
	}
	return true;
}

static bool merges_in(Gemm *g, Expr *e, const Iter *out, const Iter *in)
{
	Merge m = {g->k, out, in, NULL, true};

	if (e->kind != EX_LOAD)
		return false;
	merge_load(&m, NULL, e);
	return m.ok;
}

/* ---- Set-up ---- */

static Dim *product(Gemm *g, Iter *const *it, int n)
{
	Dim *d = dim_const(g->k->ctx, 1);

	for (int i = 0; i < n; i++)
		d = dim_mul(g->k->ctx, d, it[i]->extent);
	return d;
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

	g->a_direct = plain(e, g->c.ct) && !g->c.guard_a && ex_affine(g->k->ctx, flat_index(g->k, e->load.buf, e->load.idx), &a);
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

	g->b_panels = l && l->n > 1 && l->ax[l->n - 1].inner && l->ax[l->n - 1].block == g->pw && plain(e, g->c.ct) &&
		      e->load.idx[l->ax[l->n - 1].dim]->kind == EX_ITER &&
		      e->load.idx[l->ax[l->n - 1].dim]->iter == g->c.n[g->c.nn - 1] && !g->c.guard_b;
}

static int by_write(const Stmt *s, const Iter *it)
{
	for (int i = 0; i < s->nwidx; i++)
		if (s->widx[i]->kind == EX_ITER && s->widx[i]->iter == it)
			return i;
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
	int64_t esize = dtype_info[ctype_dtype(g->c.ct)].bits / 8, lanes = g->t->vector_bytes / esize, v, kk;

	g->nr = lanes * 2 < g->pw ? lanes * 2 : g->pw;
	g->mr = g->t->registers >= 32 ? 8 : 6;
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
		if (dim_is_const(product(g, g->outer, g->nouter), &v) && dim_is_const(g->n, &n)) {
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

typedef struct Placing {
	Gemm *g;
	const Stmt *s;
	const Buf *acc;   /* read from the tile instead */
	Buf *tile;
	Expr *tile_at;
	Buf **local;      /* by Buf.id: later temporaries of the epilogue */
	int nlocal;
	bool flat;        /* in the epilogue: merged iterators stand for their last */
} Placing;

/* Iterators that merged: all but the last read 0, the last one the flat one, as strides agree. */
static Expr *flat_iter(Gemm *g, const Iter *it)
{
	for (int i = 0; i < g->nnin; i++)
		if (g->nin[i] == it)
			return i + 1 < g->nnin ? l_int(&g->b, 0) : ex_iter(g->b.p, g->nflat);
	if (g->m_merges)
		for (int i = 0; i < g->c.nm; i++)
			if (g->c.m[i] == it)
				return i + 1 < g->c.nm ? l_int(&g->b, 0) : ex_iter(g->b.p, g->mflat);
	return NULL;
}

static Iter *original(const Gemm *g, const Stmt *s, const Iter *it)
{
	for (int b = 0; b < g->band.n; b++)
		if (g->band.of[s->id][b] == it)
			return g->band.of[g->c.s->id][b];
	return (Iter *)it;
}

static Expr *place(void *arg, Expr *e)
{
	Placing *p = arg;
	Gemm *g = p->g;

	if (e->kind == EX_ITER) {
		Iter *it = original(g, p->s, e->iter);
		Expr *f = p->flat ? flat_iter(g, it) : NULL;

		return f ? f : it != e->iter ? ex_iter(g->b.p, it) : NULL;
	}
	if (e->kind == EX_LOAD) {
		Buf *b = e->load.buf;
		Expr *at;

		if (p->acc && b == p->acc)
			return ex_load(g->b.p, p->tile, &p->tile_at, 1);
		if (p->local && b->id < p->nlocal && p->local[b->id])
			return ex_load(g->b.p, p->local[b->id], &p->tile_at, 1);
		at = flat_index(g->k, b, e->load.idx);
		return ex_load(g->b.p, b, &at, 1);
	}
	return NULL;
}

/* ---- Packing ---- */

/* kf, the flat k, of the k iterators. */
static Expr *flat_k(Gemm *g)
{
	Expr *e = l_int(&g->b, 0);

	for (int i = 0; i < g->c.nk; i++)
		e = ex_add(g->b.p, ex_mul(g->b.p, e, ex_dim(g->b.p, g->c.k[i]->extent)), ex_iter(g->b.p, g->c.k[i]));
	return e;
}

static int open_k(Gemm *g, LNode **loops)
{
	for (int i = 0; i < g->c.nk; i++)
		loops[i] = l_loop(&g->b, LOOP_SERIAL, g->c.k[i], l_int(&g->b, 0), ex_dim(g->b.p, g->c.k[i]->extent), 1);
	return g->c.nk;
}

static void close_loops(Gemm *g, LNode **loops, int n)
{
	while (n)
		l_close(&g->b, loops[--n]);
}

static Expr *zero_of(Gemm *g)
{
	return ex_num(g->b.p, g->c.ct, 0);
}

static Expr *block_end(Gemm *g)
{
	return l_min(&g->b, ex_add(g->b.p, ex_iter(g->b.p, g->n0), l_int(&g->b, g->nc)), ex_dim(g->b.p, g->n));
}

/* Panels of the block that hold a column. */
static Expr *panels(Gemm *g)
{
	ExprPool *p = g->b.p;

	return ex_op2(p, IN_floordiv, ex_add(p, ex_sub(p, block_end(g), ex_iter(p, g->n0)), l_int(&g->b, g->pw - 1)), l_int(&g->b, g->pw));
}

static void merge_any_load(void *arg, Expr *e)
{
	if (e->kind == EX_LOAD)
		merge_load(arg, NULL, e);
}

/* B's loads step through the merged columns as through one iterator: no run ends inside a panel. */
static bool b_merges(Gemm *g)
{
	if (g->c.guard_b)
		return false;
	for (int i = 0; i < g->nnin; i++)
		if (expr_has_iter_outside_loads(g->c.b, g->nin[i]) && g->nnin > 1)
			return false;
	for (int i = 0; i + 1 < g->nnin; i++) {
		Merge m = {g->k, g->nin[i], g->nin[i + 1], NULL, true};

		ex_walk(g->c.b, merge_any_load, &m);
		if (!m.ok)
			return false;
	}
	return true;
}

/* Stores zeros in columns FROM.. of the panel row at BASE. */
static void zero_columns(Gemm *g, Expr *base, Expr *from)
{
	LBuild *b = &g->b;
	Iter *z = l_iter(b, "j", dim_const(g->k->ctx, g->pw));
	LNode *l = l_loop(b, LOOP_VECTOR, z, from, l_int(b, g->pw), 1);

	l_store(b, g->bbuf, ex_add(b->p, base, ex_iter(b->p, z)), zero_of(g), NULL);
	l_close(b, l);
}

/* One panel row: columns c0 .. cend as a single run. */
static void pack_run(Gemm *g, Expr *base, Expr *c0, Expr *cend)
{
	LBuild *b = &g->b;
	Placing pl = {.g = g, .s = g->c.s, .flat = true};
	LNode *l = l_loop(b, LOOP_VECTOR, g->nflat, c0, cend, 1);

	l_store(b, g->bbuf, ex_add(b->p, base, ex_sub(b->p, ex_iter(b->p, g->nflat), c0)), ex_rewrite(b->p, g->c.b, place, &pl), NULL);
	l_close(b, l);
	zero_columns(g, base, ex_sub(b->p, cend, c0));
}

/* One panel row in runs of the innermost iterator, each cut to where the guard holds. */
static void pack_runs(Gemm *g, Expr *base, Expr *c0, Expr *cend)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Placing pl = {.g = g, .s = g->c.s};
	Iter *w = g->nin[g->nnin - 1];
	Expr *row0 = l_int(b, 0), *lo = c0, *hi = cend, *val, *guard;
	LNode *hl = NULL, *wl;

	zero_columns(g, base, l_int(b, 0));
	if (g->nnin > 1) {
		Iter *h = l_iter(b, "h", product(g, g->nin, g->nnin - 1));
		Expr *ww = ex_dim(p, w->extent);

		hl = l_loop(b, LOOP_SERIAL, h, ex_op2(p, IN_floordiv, c0, ww),
			    ex_add(p, ex_op2(p, IN_floordiv, ex_sub(p, cend, l_int(b, 1)), ww), l_int(b, 1)), 1);
		l_split(b, g->nin, g->nnin - 1, ex_iter(p, h));
		row0 = ex_mul(p, ex_iter(p, h), ww);
		lo = l_max(b, l_int(b, 0), ex_sub(p, c0, row0));
		hi = l_min(b, ww, ex_sub(p, cend, row0));
	}
	val = ex_rewrite(p, g->c.b, place, &pl);
	guard = g->c.guard_b ? ex_rewrite(p, g->c.guard_b, place, &pl) : NULL;
	guard = guard_to_range(g->k, guard, w, &lo, &hi);
	wl = l_loop(b, l_short(w->extent) ? LOOP_SHORT : LOOP_VECTOR, w, lo, hi, 1);
	l_store(b, g->bbuf, ex_add(p, base, ex_sub(p, ex_add(p, row0, ex_iter(p, w)), c0)), val, guard);
	l_close(b, wl);
	if (hl)
		l_close(b, hl);
}

/* Bp[panel][k][column] of columns n0.. of the block. */
static void pack_b(Gemm *g)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Iter *jb = l_iter(b, "jb", dim_const(g->k->ctx, g->nc / g->pw)), *c0 = l_iter(b, "c0", g->n);
	Expr *cend, *base;
	LNode *loops[MAX_ITERS], *jbl;
	int nl;

	g->bbuf = l_temp(b, "bp", ctype_dtype(g->c.ct), dim_mul(g->k->ctx, dim_const(g->k->ctx, g->nc), g->kk));
	jbl = l_loop(b, LOOP_SERIAL, jb, l_int(b, 0), panels(g), 1);
	l_let(b, c0, ex_add(p, ex_iter(p, g->n0), ex_mul(p, ex_iter(p, jb), l_int(b, g->pw))));
	cend = l_min(b, ex_add(p, ex_iter(p, c0), l_int(b, g->pw)), ex_dim(p, g->n));
	nl = open_k(g, loops);
	base = ex_mul(p, ex_add(p, ex_mul(p, ex_iter(p, jb), ex_dim(p, g->kk)), flat_k(g)), l_int(b, g->pw));
	if (b_merges(g))
		pack_run(g, base, ex_iter(p, c0), cend);
	else
		pack_runs(g, base, ex_iter(p, c0), cend);
	close_loops(g, loops, nl);
	l_close(b, jbl);
}

/* Ap[row][k] of the block's rows. */
static void pack_a(Gemm *g)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Placing pl = {.g = g, .s = g->c.s};
	Iter *i = l_iter(b, "i", g->m), *last = g->c.k[g->c.nk - 1];
	Expr *rows = l_min(b, l_int(b, g->mc), ex_sub(p, ex_dim(p, g->m), ex_iter(p, g->m0)));
	Expr *lo = l_int(b, 0), *hi = ex_dim(p, last->extent), *guard, *at;
	LNode *loops[MAX_ITERS], *il, *wl;
	int nl = 0;

	g->abuf = l_temp(b, "ap", ctype_dtype(g->c.ct), dim_mul(g->k->ctx, dim_const(g->k->ctx, g->mc), g->kk));
	il = l_loop(b, LOOP_SERIAL, i, l_int(b, 0), rows, 1);
	l_split(b, g->c.m, g->c.nm, ex_add(p, ex_iter(p, g->m0), ex_iter(p, i)));
	at = ex_add(p, ex_mul(p, ex_iter(p, i), ex_dim(p, g->kk)), flat_k(g));
	for (; nl + 1 < g->c.nk; nl++)
		loops[nl] = l_loop(b, LOOP_SERIAL, g->c.k[nl], l_int(b, 0), ex_dim(p, g->c.k[nl]->extent), 1);
	if (g->c.guard_a) {
		wl = l_loop(b, LOOP_VECTOR, last, lo, hi, 1);
		l_store(b, g->abuf, at, zero_of(g), NULL);
		l_close(b, wl);
	}
	guard = g->c.guard_a ? ex_rewrite(p, g->c.guard_a, place, &pl) : NULL;
	guard = guard_to_range(g->k, guard, last, &lo, &hi);
	wl = l_loop(b, LOOP_VECTOR, last, lo, hi, 1);
	l_store(b, g->abuf, at, ex_rewrite(p, g->c.a, place, &pl), guard);
	l_close(b, wl);
	close_loops(g, loops, nl);
	l_close(b, il);
}

/* ---- The tile and what follows it ---- */

typedef struct TileAt {
	Iter *mt, *nt; /* first row and column of the tile */
	Expr *panel;   /* the panel's number in the block */
	Expr *js;      /* column of the tile in the panel */
	Expr *m_valid, *n_valid;
	Buf *tile;
} TileAt;

/* A's row ROW of the tile, flat. */
static Expr *a_index(Gemm *g, const TileAt *t, Iter *row)
{
	ExprPool *p = g->b.p;
	Expr *m = ex_add(p, ex_iter(p, t->mt), ex_iter(p, row)), *at;
	Iter *from[MAX_ITERS];
	Expr *to[MAX_ITERS];
	int n = 0;

	if (!g->a_direct)
		return ex_mul(p, ex_sub(p, m, ex_iter(p, g->m0)), ex_dim(p, g->kk));
	at = flat_index(g->k, g->c.a->load.buf, g->c.a->load.idx);
	for (int i = 0; i < g->c.nk; i++) {
		from[n] = g->c.k[i];
		to[n++] = l_int(&g->b, 0);
	}
	for (int i = g->c.nm - 1; i >= 0; i--) {
		Expr *e = ex_dim(p, g->c.m[i]->extent);

		from[n] = g->c.m[i];
		if (g->m_merges)
			to[n++] = i + 1 < g->c.nm ? l_int(&g->b, 0) : m;
		else
			to[n++] = i ? ex_op2(p, IN_mod, m, e) : m;
		m = g->m_merges ? m : ex_op2(p, IN_floordiv, m, e);
	}
	return ex_subst_iters(p, at, from, to, n);
}

/* Iterator IT of statement S, of a column or a row (as flat expressions N and M) of the whole matrix. */
static Expr *at_of(Gemm *g, const Stmt *s, const Iter *it, Expr *m, Expr *n)
{
	Iter *o = original(g, s, it), *const *list[2] = {g->nin, g->c.m};
	int count[2] = {g->nnin, g->c.nm};

	for (int side = 0; side < 2; side++) {
		Expr *e = side ? m : n;

		for (int i = count[side] - 1; i >= 0; i--) {
			Expr *ext = ex_dim(g->b.p, list[side][i]->extent);

			if (list[side][i] == o)
				return i ? ex_op2(g->b.p, IN_mod, e, ext) : e;
			e = ex_op2(g->b.p, IN_floordiv, e, ext);
		}
	}
	return ex_iter(g->b.p, o);
}

static void does(Gemm *g, LNode *node, const Stmt *s, LPart part, Expr *m, Expr *n)
{
	Expr *at[MAX_ITERS];
	int nat = part == PART_TERM ? s->niters : s->nband;

	for (int i = 0; i < nat; i++)
		at[i] = at_of(g, s, s->iter[i], m, n);
	l_does(&g->b, node, part, at, nat);
}

static void emit_tile(Gemm *g, const TileAt *t)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Tile *tl = NEW(b->arena, Tile);
	LNode *n;

	tl->ct = g->c.ct;
	tl->mr = (int)g->mr;
	tl->nr = (int)g->nr;
	tl->acc = t->tile;
	tl->row = l_iter(b, "r", dim_const(g->k->ctx, g->mr));
	tl->a = g->a_direct ? g->c.a->load.buf : g->abuf;
	tl->a_at = a_index(g, t, tl->row);
	tl->a_step = g->a_direct ? g->a_step : l_int(b, 1);
	if (g->b_panels) {
		/* The layout puts a panel's first element at n / pw and k = 0. */
		Expr *idx[MAX_RANK];
		Placing pl = {.g = g, .s = g->c.s};
		const Buf *buf = g->c.b->load.buf;

		for (int i = 0; i < buf->rank; i++) {
			Iter *from[MAX_ITERS];
			Expr *to[MAX_ITERS];
			int c = 0;

			for (int j = 0; j < g->c.nk; j++) {
				from[c] = g->c.k[j];
				to[c++] = l_int(b, 0);
			}
			from[c] = g->c.n[g->c.nn - 1];
			to[c++] = ex_iter(p, t->nt);
			idx[i] = ex_subst_iters(p, ex_rewrite(p, g->c.b->load.idx[i], place, &pl), from, to, c);
		}
		tl->b = g->c.b->load.buf;
		tl->b_at = flat_index(g->k, tl->b, idx);
	} else {
		tl->b = g->bbuf;
		tl->b_at = ex_add(p, ex_mul(p, ex_mul(p, t->panel, ex_dim(p, g->kk)), l_int(b, g->pw)), t->js);
	}
	tl->b_step = l_int(b, g->pw);
	tl->k = ex_dim(p, g->kk);
	tl->m_valid = t->m_valid;
	tl->col = l_iter(b, "c", dim_const(g->k->ctx, g->nr));
	tl->n_valid = t->n_valid;
	n = l_node(b, LN_TILE);
	n->tile = tl;
	does(g, n, g->c.s, PART_TERM, ex_add(p, ex_iter(p, t->mt), ex_iter(p, tl->row)),
	     ex_add(p, ex_iter(p, t->nt), ex_iter(p, tl->col)));
}

static void emit_epilogue(Gemm *g, const TileAt *t)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Iter *i = l_iter(b, "i", dim_const(g->k->ctx, g->mr)), *j = l_iter(b, "j", dim_const(g->k->ctx, g->nr));
	Expr *at = ex_add(p, ex_mul(p, ex_iter(p, i), l_int(b, g->nr)), ex_iter(p, j)), *idx[MAX_RANK];
	Placing pl = {.g = g, .acc = g->c.s->out[0], .tile = t->tile, .tile_at = at, .flat = true};
	LNode *il, *jl;

	pl.nlocal = g->k->bufs.n;
	pl.local = NEW_ARRAY(b->arena, pl.nlocal + 1, Buf *);
	for (int s = 1; s < g->k->stmts.n; s++) {
		Buf *o = g->k->stmts.at[s]->out[0];

		if (o->kind == BUF_TEMP)
			pl.local[o->id] = l_temp(b, o->name, o->dtype, dim_const(g->k->ctx, g->mr * g->nr));
	}
	il = l_loop(b, LOOP_SERIAL, i, l_int(b, 0), t->m_valid, 1);
	l_let(b, g->mflat, ex_add(p, ex_iter(p, t->mt), ex_iter(p, i)));
	if (!g->m_merges)
		l_split(b, g->c.m, g->c.nm, ex_iter(p, g->mflat));
	jl = l_loop(b, LOOP_VECTOR, j, l_int(b, 0), t->n_valid, 1);
	l_let(b, g->nflat, ex_add(p, ex_iter(p, t->nt), ex_iter(p, j)));
	for (int s = 0; s < g->k->stmts.n; s++) {
		Stmt *st = g->k->stmts.at[s];
		Expr *val;

		b->stmt = st->id;
		b->loc = st->loc;
		pl.s = st;
		val = s ? ex_rewrite(p, st->val[0], place, &pl) : ex_load(p, t->tile, &at, 1);
		if (st->out[0]->kind == BUF_TEMP) {
			if (s)
				does(g, l_store(b, pl.local[st->out[0]->id], at, val, NULL), st, PART_WRITE,
				     ex_iter(p, g->mflat), ex_iter(p, g->nflat));
			continue;
		}
		for (int d = 0; d < st->nwidx; d++)
			idx[d] = ex_rewrite(p, st->widx[d], place, &pl);
		does(g, l_store(b, st->out[0], flat_index(g->k, st->out[0], idx), val, NULL), st, PART_WRITE,
		     ex_iter(p, g->mflat), ex_iter(p, g->nflat));
	}
	l_close(b, jl);
	l_close(b, il);
}

/* The tiles of a block: panels outside where B's panel is to stay in L1 or L2 (packed weights), tiles of rows
 * outside where A is the larger. */
static void emit_tiles(Gemm *g)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	TileAt t = {0};
	Iter *jb = l_iter(b, "jb", dim_const(g->k->ctx, g->nc / g->pw)), *js = l_iter(b, "js", dim_const(g->k->ctx, g->pw));
	Expr *mhi = l_min(b, ex_add(p, ex_iter(p, g->m0), l_int(b, g->mc)), ex_dim(p, g->m));
	Expr *nend = block_end(g), *c0;
	LNode *ml = NULL, *nl, *sl;

	t.mt = l_iter(b, "mt", g->m);
	t.nt = l_iter(b, "nt", g->n);
	t.tile = kernel_temp(g->k, "tile", ctype_dtype(g->c.ct), 1, (Dim *[]){dim_const(g->k->ctx, g->mr * g->nr)});
	if (!g->b_panels)
		ml = l_loop(b, LOOP_SERIAL, t.mt, ex_iter(p, g->m0), mhi, g->mr);
	nl = l_loop(b, LOOP_SERIAL, jb, l_int(b, 0), panels(g), 1);
	if (g->b_panels)
		ml = l_loop(b, LOOP_SERIAL, t.mt, ex_iter(p, g->m0), mhi, g->mr);
	c0 = ex_add(p, ex_iter(p, g->n0), ex_mul(p, ex_iter(p, jb), l_int(b, g->pw)));
	sl = l_loop(b, LOOP_SERIAL, js, l_int(b, 0), l_min(b, l_int(b, g->pw), ex_sub(p, nend, c0)), g->nr);
	l_local(b, t.tile);
	l_let(b, t.nt, ex_add(p, c0, ex_iter(p, js)));
	t.panel = ex_iter(p, jb);
	t.js = ex_iter(p, js);
	t.m_valid = l_min(b, l_int(b, g->mr), ex_sub(p, mhi, ex_iter(p, t.mt)));
	t.n_valid = l_min(b, l_int(b, g->nr), ex_sub(p, nend, ex_iter(p, t.nt)));
	emit_tile(g, &t);
	emit_epilogue(g, &t);
	l_close(b, sl);
	l_close(b, g->b_panels ? ml : nl);
	l_close(b, g->b_panels ? nl : ml);
}

static bool all_in_band(Gemm *g)
{
	int n = g->c.ng + g->c.nm + g->c.nn;

	if (g->band.n != n || g->c.s->id != 0)
		return false;
	for (int i = 0; i < g->k->stmts.n; i++)
		if (g->k->stmts.at[i]->niters != n + (i ? 0 : g->c.nk) || (i && g->k->stmts.at[i]->guard))
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

bool sched_contraction(const Module *m, const Target *t, Node *node, Kernel *k, Schedule *s)
{
	Gemm g = {.k = k, .t = t, .b = {.sched = s, .k = k, .p = k->pool, .arena = k->arena, .stmt = -1}};
	Dim *nb, *mb;
	Iter *inb, *imb, *split[MAX_ITERS];
	ExprPool *p = k->pool;
	int n = 0;

	(void)m;
	(void)node;
	if (kernel_class(k) != KC_CONTRACTION || !stmt_contraction(k, k->stmts.at[0], &g.c))
		return false;
	g.pw = gemm_panel(g.c.ct);
	sort_by_write(g.c.s, g.c.m, g.c.nm);
	sort_by_write(g.c.s, g.c.n, g.c.nn);
	look_at_b(&g);
	if (!gemm_takes(k, &g.c, g.b_panels))
		return false;
	band_of(k, k->arena, &g.band);
	if (!all_in_band(&g))
		return false;
	look_at_a(&g);
	split_n(&g);
	g.m = product(&g, g.c.m, g.c.nm);
	g.n = product(&g, g.nin, g.nnin);
	g.kk = product(&g, g.c.k, g.c.nk);
	choose_blocks(&g);
	nb = dim_ceildiv(k->ctx, g.n, dim_const(k->ctx, g.nc));
	mb = dim_ceildiv(k->ctx, g.m, dim_const(k->ctx, g.mc));
	g.b.loc = g.c.s->loc;
	g.b.stmt = g.c.s->id;
	l_stage(&g.b, "contraction", dim_mul(k->ctx, product(&g, g.outer, g.nouter), dim_mul(k->ctx, nb, mb)), 1);
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
		pack_b(&g);
	if (!g.a_direct)
		pack_a(&g);
	emit_tiles(&g);
	return true;
}
