/* SPDX-License-Identifier: Apache-2.0 */
/* The strategy *product*'s packing: operand expressions evaluated into panels of B and rows of
 * A; and the starts of the runs in which A is read in place. */
#include "passes/schedule/cpu/gemm_impl.h"

enum {
	/* Elements of a packed row, at most, whose copies are unrolled. */
	MOST_UNROLLED_COPIES = 8
};

static LNode *open_term(Gemm *g, int i)
{
	return l_loop(&g->b, LOOP_SERIAL, g->p.c.k[i], gemm_first_term(g, i), gemm_end_term(g, i),
		      1);
}

static int open_k(Gemm *g, LNode **loops)
{
	for (int i = 0; i < g->p.c.nk; i++)
		loops[i] = open_term(g, i);
	return g->p.c.nk;
}

static void close_loops(Gemm *g, LNode **loops, int n)
{
	while (n)
		l_close(&g->b, loops[--n]);
}

/* The number of terms of a packed row: those past the last one fill a step. */
static Dim *packed_terms(const Gemm *g)
{
	return dim_mul(g->p.k->ctx, g->p.steps, dim_const(g->p.k->ctx, g->p.kpack));
}

/* The place of column J in the panel row at BASE. */
static Expr *column(Gemm *g, Expr *base, Expr *j)
{
	return ex_add(g->b.p, base, ex_mul(g->b.p, j, l_int(&g->b, g->p.kpack)));
}

/* Where the row of term K is in the panel with number JB: K's step, then its place in the step. */
static Expr *panel_row(Gemm *g, Expr *jb, Expr *k)
{
	ExprPool *p = g->b.p;
	Expr *kpack = l_int(&g->b, g->p.kpack), *width = l_int(&g->b, g->p.pw * g->p.kpack);

	if (g->p.kpack == 1)
		return ex_mul(p, ex_add(p, ex_mul(p, jb, ex_dim(p, g->p.kk)), k), width);
	return ex_add(p,
		      ex_mul(p,
			     ex_add(p, ex_mul(p, jb, ex_dim(p, g->p.steps)),
				    ex_op2(p, IN_floordiv, k, kpack)),
			     width),
		      ex_op2(p, IN_mod, k, kpack));
}

static Expr *zero_of(Gemm *g)
{
	return ex_num(g->b.p, g->p.c.ct, 0);
}

Dim *gemm_block_columns(Gemm *g)
{
	Ctx *c = g->p.k->ctx;
	Dim *pw = dim_const(c, g->p.pw);

	return g->blocks.nc ? dim_const(c, g->blocks.nc)
			    : dim_mul(c, dim_ceildiv(c, g->p.n, pw), pw);
}

Expr *gemm_block_end(Gemm *g)
{
	if (!g->blocks.nc)
		return ex_dim(g->b.p, g->p.n);
	return l_min(&g->b,
		     ex_add(g->b.p, ex_iter(g->b.p, g->blocks.n0), l_int(&g->b, g->blocks.nc)),
		     ex_dim(g->b.p, g->p.n));
}

Expr *gemm_panels(Gemm *g)
{
	ExprPool *p = g->b.p;

	if (dim_multiple(g->p.k->ctx, g->p.n, g->blocks.nc))
		return l_int(&g->b, g->blocks.nc / g->p.pw);
	return ex_op2(p, IN_floordiv,
		      ex_add(p, ex_sub(p, gemm_block_end(g), ex_iter(p, g->blocks.n0)),
			     l_int(&g->b, g->p.pw - 1)),
		      l_int(&g->b, g->p.pw));
}

/* The merged columns have one stride in B's loads, so no contiguous range ends inside a panel. */
static bool b_merges(Gemm *g)
{
	if (g->p.c.guard_b)
		return false;
	for (int i = 0; i + 1 < g->p.nnin; i++) {
		Pair p = {g->p.k, g->p.nin[i], g->p.nin[i + 1], g->p.nin[i + 1]->extent, NULL};

		if (!pair_joins(&p, g->p.c.b))
			return false;
	}
	return true;
}

/* Stores zeros to columns FROM and later of the panel row at BASE. */
static void zero_columns(Gemm *g, Expr *base, Expr *from)
{
	LBuild *b = &g->b;
	Iter *z = l_iter(b, "j", dim_const(g->p.k->ctx, g->p.pw));
	LNode *l = l_loop(b, LOOP_VECTOR, z, from, l_int(b, g->p.pw), 1);

	l_store(b, g->blocks.bbuf, column(g, base, ex_iter(b->p, z)), zero_of(g), NULL);
	l_close(b, l);
}

/* Packs one panel row, columns c0 to cend - 1, as a single range. The loop over the terms has
 * nothing else in it, so codegen can print the two loops as a transpose. */
static void pack_run(Gemm *g, Expr *base, Expr *c0, Expr *cend)
{
	LBuild *b = &g->b;
	Placing pl = {.g = g, .s = g->p.c.s, .flat = true};
	LNode *l = l_loop(b, LOOP_VECTOR, g->nflat, c0, cend, 1);

	l_store(b, g->blocks.bbuf, column(g, base, ex_sub(b->p, ex_iter(b->p, g->nflat), c0)),
		gemm_placed(&pl, g->p.c.b), NULL);
	l_close(b, l);
}

/* Packs one panel row as ranges of the innermost iterator, each limited to where the guard
 * holds. */
static void pack_runs(Gemm *g, Expr *base, Expr *c0, Expr *cend)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Placing pl = {.g = g, .s = g->p.c.s};
	Iter *w = g->p.nin[g->p.nnin - 1];
	Expr *row0 = l_int(b, 0), *lo = c0, *hi = cend, *val, *guard;
	LNode *hl = NULL, *wl;

	zero_columns(g, base, l_int(b, 0));
	if (g->p.nnin > 1) {
		Iter *h = l_iter(b, "h", iters_points(g->p.k->ctx, g->p.nin, g->p.nnin - 1));
		Expr *ww = ex_dim(p, w->extent);

		hl = l_loop(b, LOOP_SERIAL, h, ex_op2(p, IN_floordiv, c0, ww),
			    ex_add(p, ex_op2(p, IN_floordiv, ex_sub(p, cend, l_int(b, 1)), ww),
				   l_int(b, 1)),
			    1);
		l_split(b, g->p.nin, g->p.nnin - 1, ex_iter(p, h));
		row0 = ex_mul(p, ex_iter(p, h), ww);
		lo = l_max(b, l_int(b, 0), ex_sub(p, c0, row0));
		hi = l_min(b, ww, ex_sub(p, cend, row0));
	}
	val = gemm_placed(&pl, g->p.c.b);
	guard = gemm_placed(&pl, g->p.c.guard_b);
	guard = guard_to_range(g->p.k, guard, w, &lo, &hi);
	wl = l_loop(b, l_short(w->extent) ? LOOP_SHORT : LOOP_VECTOR, w, lo, hi, 1);
	l_store(b, g->blocks.bbuf, column(g, base, ex_sub(p, ex_add(p, row0, ex_iter(p, w)), c0)),
		val, guard);
	l_close(b, wl);
	if (hl)
		l_close(b, hl);
}

void gemm_pack_b(Gemm *g)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Dim *columns = gemm_block_columns(g);
	Iter *jb = l_iter(b, "jb",
			  dim_ceildiv(g->p.k->ctx, columns, dim_const(g->p.k->ctx, g->p.pw))),
	     *c0 = l_iter(b, "c0", g->p.n);
	Expr *cend, *base;
	LNode *loops[MAX_ITERS], *jbl;
	const bool merges = b_merges(g);
	int nl;

	g->blocks.bbuf = l_temp(b, "bp", product_packed_type(&g->p, g->p.c.b),
				dim_mul(g->p.k->ctx, columns, packed_terms(g)));
	jbl = l_loop(b, LOOP_SERIAL, jb, l_int(b, 0), gemm_panels(g), 1);
	l_let(b, c0,
	      ex_add(p, ex_iter(p, g->blocks.n0), ex_mul(p, ex_iter(p, jb), l_int(b, g->p.pw))));
	cend = ex_add(p, ex_iter(p, c0), l_int(b, g->p.pw));
	if (!dim_multiple(g->p.k->ctx, g->p.n, g->p.pw))
		cend = l_min(b, cend, ex_dim(p, g->p.n));
	nl = open_k(g, loops);
	base = panel_row(g, ex_iter(p, jb), gemm_flat_terms(g));
	if (merges)
		pack_run(g, base, ex_iter(p, c0), cend);
	else
		pack_runs(g, base, ex_iter(p, c0), cend);
	close_loops(g, loops, nl);
	if (merges && !dim_multiple(g->p.k->ctx, g->p.n, g->p.pw)) {
		nl = open_k(g, loops);
		zero_columns(g, base, ex_sub(p, cend, ex_iter(p, c0)));
		close_loops(g, loops, nl);
	}
	l_close(b, jbl);
}

/* Stores zeros to the terms of A's row at ROW that follow the last one of the sum in its step.
 * B's panels have integers there, or are constants and have zeros. */
static void fill_last_step(Gemm *g, Expr *row)
{
	LBuild *b = &g->b;
	Iter *z;
	LNode *l;

	if (g->p.kpack == 1 || dim_multiple(g->p.k->ctx, g->p.kk, g->p.kpack))
		return;
	z = l_iter(b, "z", packed_terms(g));
	l = l_loop(b, LOOP_SERIAL, z, ex_dim(b->p, g->p.kk), ex_dim(b->p, packed_terms(g)), 1);
	l_store(b, g->blocks.abuf, ex_add(b->p, row, ex_iter(b->p, z)), zero_of(g), NULL);
	l_close(b, l);
}

/* The first of the innermost k iterators that A's rows are packed along at once: they merge in
 * A, and of them the guard mentions only the first one, by bounds. */
static int first_packed_at_once(Gemm *g)
{
	int first = g->p.c.nk - 1;

	if (g->p.c.a->kind != EX_LOAD)
		return first;
	while (first > 0) {
		const Iter *in = g->p.c.k[first];
		Expr *lo = l_int(&g->b, 0), *hi = lo;

		if (g->blocks.k_hi[first - 1] || g->blocks.k_hi[first] ||
		    !pair_joins(&(Pair){g->p.k, g->p.c.k[first - 1], in, in->extent, NULL},
				g->p.c.a) ||
		    (g->p.c.guard_a &&
		     (expr_has_iter(g->p.c.guard_a, in) ||
		      guard_to_range(g->p.k, g->p.c.guard_a, g->p.c.k[first - 1], &lo, &hi))))
			break;
		first--;
	}
	return first;
}

/* Packs the row of A at the current point of the m iterators to the block's row I. INSIDE: the
 * guard holds for all terms. */
static void pack_row(Gemm *g, Expr *i, bool inside)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Placing pl = {.g = g, .s = g->p.c.s};
	const int first = first_packed_at_once(g), rest = g->p.c.nk - first;
	Iter **k = g->p.c.k + first, *bounded = k[0];
	Dim *inner = iters_points(g->p.k->ctx, k + 1, rest - 1),
	    *all = dim_mul(g->p.k->ctx, inner, bounded->extent);
	Iter *t = l_iter(b, "t", all);
	Expr *lo = gemm_first_term(g, first), *hi = gemm_end_term(g, first), *guard = NULL,
	     *to[MAX_ITERS], *row = ex_mul(p, i, ex_dim(p, packed_terms(g))), *at;
	LoopKind kind = l_short(all) ? LOOP_SHORT : LOOP_VECTOR;
	LNode *loops[MAX_ITERS], *wl;
	int64_t n;
	int nl = 0;

	fill_last_step(g, row);
	for (; nl < first; nl++)
		loops[nl] = open_term(g, nl);
	for (int j = 0; j < rest; j++)
		to[j] = j + 1 < rest ? l_int(b, 0) : ex_iter(p, t);
	at = ex_add(p, row, ex_subst_iters(p, gemm_flat_terms(g), k, to, rest));
	if (!inside && g->p.c.guard_a) {
		wl = l_loop(b, kind, t, ex_mul(p, lo, ex_dim(p, inner)),
			    ex_mul(p, hi, ex_dim(p, inner)), 1);
		l_store(b, g->blocks.abuf, at, zero_of(g), NULL);
		l_close(b, wl);
		guard = guard_to_range(g->p.k, gemm_placed(&pl, g->p.c.guard_a), bounded, &lo, &hi);
		guard = ex_subst_iters(p, guard, k, to, rest);
	} else if (dim_is_const(all, &n) && n <= MOST_UNROLLED_COPIES && !g->blocks.k_hi[first]) {
		kind = LOOP_UNROLL;
	}
	wl = l_loop(b, kind, t, ex_mul(p, lo, ex_dim(p, inner)), ex_mul(p, hi, ex_dim(p, inner)),
		    1);
	l_store(b, g->blocks.abuf, at, ex_subst_iters(p, gemm_placed(&pl, g->p.c.a), k, to, rest),
		guard);
	l_close(b, wl);
	close_loops(g, loops, nl);
}

/* The rows of A of a block that lie at W in [LO, HI), in an open loop over the other m iterators;
 * ROW0: the number in the block of the one at 0. W null: there is one row. */
typedef struct BlockRows {
	Iter *w;
	Expr *lo, *hi, *row0;
	LNode *loop;
} BlockRows;

static BlockRows open_rows(Gemm *g)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Expr *m0 = ex_iter(p, g->blocks.m0), *zero = l_int(b, 0),
	     *end = l_min(b, ex_add(p, m0, l_int(b, g->blocks.mc)), ex_dim(p, g->p.m));
	BlockRows r = {g->p.c.nm ? g->p.c.m[g->p.c.nm - 1] : NULL, m0, end, zero, NULL};

	if (g->p.c.nm > 1) {
		Expr *ww = ex_dim(p, r.w->extent);
		Iter *h = l_iter(b, "h", iters_points(g->p.k->ctx, g->p.c.m, g->p.c.nm - 1));

		r.loop = l_loop(b, LOOP_SERIAL, h, ex_op2(p, IN_floordiv, m0, ww),
				ex_add(p, ex_op2(p, IN_floordiv, ex_sub(p, end, l_int(b, 1)), ww),
				       l_int(b, 1)),
				1);
		l_split(b, g->p.c.m, g->p.c.nm - 1, ex_iter(p, h));
		r.row0 = ex_mul(p, ex_iter(p, h), ww);
		r.lo = l_max(b, zero, ex_sub(p, m0, r.row0));
		r.hi = l_min(b, ww, ex_sub(p, end, r.row0));
	}
	r.row0 = ex_sub(p, r.row0, m0);
	return r;
}

/* An action on the rows of A that lie at W of R in [LO, HI), or on the only row.
 * INSIDE: the guard holds for all of their terms. */
typedef void RowsDo(Gemm *g, const BlockRows *r, Expr *lo, Expr *hi, bool inside);

/* The number in the block of the row at W of R. */
static Expr *number_of_row(Gemm *g, const BlockRows *r)
{
	return r->w ? ex_add(g->b.p, r->row0, ex_iter(g->b.p, r->w)) : l_int(&g->b, 0);
}

/* Opens the loop over W of R, unless there is one row; returns the number of LOOPS. */
static int open_w(Gemm *g, const BlockRows *r, LoopKind kind, Expr *lo, Expr *hi, LNode **loops)
{
	if (!r->w)
		return 0;
	*loops = l_loop(&g->b, kind, r->w, lo, hi, 1);
	return 1;
}

/* Does EMIT for all rows of the block, those inside apart. */
static void emit_rows(Gemm *g, RowsDo *emit)
{
	LBuild *b = &g->b;
	Placing pl = {.g = g, .s = g->p.c.s};
	BlockRows r = open_rows(g);
	Expr *first = r.lo, *end = r.hi, *inside;
	bool ok = true;

	if (!r.w) {
		emit(g, &r, NULL, NULL, !g->p.c.guard_a);
		return;
	}
	inside = guard_for_all(b->k, gemm_placed(&pl, g->p.c.guard_a), g->p.c.k, g->p.c.nk, &ok);
	if (ok && !guard_to_range(g->p.k, inside, r.w, &first, &end)) {
		if (inside) {
			first = gemm_named(g, "inside", l_min(b, first, r.hi), r.w->extent);
			end = gemm_named(g, "outside", l_max(b, first, end), r.w->extent);
			emit(g, &r, r.lo, first, false);
		}
		emit(g, &r, first, end, true);
		r.lo = end;
	}
	if (!ok || inside)
		emit(g, &r, r.lo, r.hi, false);
	if (r.loop)
		l_close(b, r.loop);
}

static void pack_rows(Gemm *g, const BlockRows *r, Expr *lo, Expr *hi, bool inside)
{
	LNode *wl;
	const int nl = open_w(g, r, LOOP_SERIAL, lo, hi, &wl);

	pack_row(g, number_of_row(g, r), inside);
	close_loops(g, &wl, nl);
}

void gemm_pack_a(Gemm *g)
{
	g->blocks.abuf = l_temp(
		&g->b, "ap", product_packed_type(&g->p, g->p.c.a),
		dim_mul(g->p.k->ctx, dim_const(g->p.k->ctx, g->blocks.mc), packed_terms(g)));
	emit_rows(g, pack_rows);
}

/* Packs terms LO to HI of a run, whose first term is at FROM of A, to AT of the edge; the others
 * become zero. All of it is done where COND holds. */
static void pack_edge(Gemm *g, Expr *at, Expr *from, Expr *lo, Expr *hi, Expr *cond)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Iter *u = l_iter(b, "u", g->p.run_terms);
	LoopKind kind = l_short(g->p.run_terms) ? LOOP_SHORT : LOOP_VECTOR;
	Expr *to = ex_add(p, at, ex_iter(p, u)), *source = ex_add(p, from, ex_iter(p, u));
	LNode *cl = l_where(b, cond),
	      *ul = l_loop(b, kind, u, l_int(b, 0), ex_dim(p, g->p.run_terms), 1);

	l_store(b, g->blocks.edge, to, zero_of(g), NULL);
	l_close(b, ul);
	ul = l_loop(b, kind, u, lo, hi, 1);
	l_store(b, g->blocks.edge, to, ex_load(p, g->p.c.a->load.buf, &source, 1), NULL);
	l_close(b, ul);
	l_close(b, cl);
}

/* Elements of zeros that runs outside of the tensor start at: of those of all groups, whose tiles
 * read them at a shift. */
static Dim *zero_run(const Gemm *g)
{
	return g->p.group_columns ? g->p.n : g->p.run_terms;
}

/* Finds where the runs of the rows at W of R in [LO, HI) start. Those inside are found a run at
 * a time, in vectors of rows. */
static void find_runs(Gemm *g, const BlockRows *r, Expr *rows_lo, Expr *rows_hi, bool inside)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Placing pl = {.g = g, .s = g->p.c.s};
	Expr *zero = l_int(b, 0), *zeros[2 * MAX_ITERS], *run = ex_dim(p, g->p.run_terms),
	     *lo = zero, *hi = run, *from, *start, *at = zero;
	LNode *loops[MAX_ITERS + 1];
	int nl = inside ? 0 : open_w(g, r, LOOP_SERIAL, rows_lo, rows_hi, loops);

	for (int k = g->p.run; k < g->p.c.nk; k++)
		zeros[k] = zero;
	for (int k = 0; k < g->p.run; k++) {
		loops[nl++] = l_loop(b, LOOP_SERIAL, g->p.c.k[k], zero,
				     ex_dim(p, g->p.c.k[k]->extent), 1);
		at = ex_add(p, ex_mul(p, at, ex_dim(p, g->p.c.k[k]->extent)),
			    ex_iter(p, g->p.c.k[k]));
	}
	if (inside)
		nl += open_w(g, r, LOOP_VECTOR, rows_lo, rows_hi, loops + nl);
	at = ex_add(p, ex_mul(p, at, l_int(b, g->blocks.mc)), number_of_row(g, r));
	from = ex_subst_iters(p, gemm_placed(&pl, g->p.c.a)->load.idx[0], g->p.c.k + g->p.run,
			      zeros + g->p.run, g->p.c.nk - g->p.run);
	for (int i = 0; i < g->p.c.nn; i++)
		zeros[i] = zero;
	from = ex_subst_iters(p, from, g->p.c.n, zeros, g->p.c.nn); /* of the first group */
	start = from;
	if (g->blocks.edge && !inside) {
		Expr *edge_at = ex_add(p, ex_mul(p, at, run), ex_dim(p, zero_run(g))), *whole,
		     *none;

		guard_to_range(g->p.k, gemm_placed(&pl, g->p.c.guard_a), g->p.c.k[g->p.c.nk - 1],
			       &lo, &hi);
		lo = gemm_named(g, "lo", l_min(b, lo, run), g->p.run_terms);
		hi = gemm_named(g, "hi", l_max(b, hi, zero), g->p.run_terms);
		whole = ex_and(p, ex_op2(p, IN_eq, lo, zero), ex_op2(p, IN_eq, hi, run));
		none = ex_op2(p, IN_le, hi, lo);
		start = ex_op3(p, IN_select, none, l_int(b, -1), ex_sub(p, l_int(b, -1), edge_at));
		start = ex_op3(p, IN_select, whole, from, start);
		pack_edge(g, edge_at, from, lo, hi,
			  ex_and(p, ex_op1(p, IN_not, none), ex_op1(p, IN_not, whole)));
	} else {
		start = gemm_named(g, "from", from, buf_numel(g->p.k->ctx, g->p.c.a->load.buf));
	}
	l_store(b, g->blocks.runs, at, start, NULL);
	close_loops(g, loops, nl);
}

/* Rows past the last one of the block repeat it: a tile reads all of its rows. */
static void repeat_last_row(Gemm *g, Dim *nruns)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Iter *i = l_iter(b, "i", dim_const(g->p.k->ctx, g->blocks.mc)), *t = l_iter(b, "t", nruns);
	Expr *rows = l_min(b, l_int(b, g->blocks.mc),
			   ex_sub(p, ex_dim(p, g->p.m), ex_iter(p, g->blocks.m0))),
	     *tiles = ex_op2(p, IN_floordiv, ex_add(p, rows, l_int(b, g->blocks.mr - 1)),
			     l_int(b, g->blocks.mr)),
	     *run = ex_mul(p, ex_iter(p, t), l_int(b, g->blocks.mc)),
	     *last = ex_add(p, run, ex_sub(p, rows, l_int(b, 1)));
	LNode *il = l_loop(b, LOOP_SERIAL, i, rows, ex_mul(p, tiles, l_int(b, g->blocks.mr)), 1),
	      *tl = l_loop(b, LOOP_SERIAL, t, l_int(b, 0), ex_dim(p, nruns), 1);

	l_store(b, g->blocks.runs, ex_add(p, run, ex_iter(p, i)),
		ex_load(p, g->blocks.runs, &last, 1), NULL);
	l_close(b, tl);
	l_close(b, il);
}

/* Makes the first run of the edge zero: it stands for all runs outside of the tensor. */
static void clear_edge(Gemm *g)
{
	LBuild *b = &g->b;
	Iter *u = l_iter(b, "u", zero_run(g));
	LNode *l = l_loop(b, l_short(zero_run(g)) ? LOOP_SHORT : LOOP_VECTOR, u, l_int(b, 0),
			  ex_dim(b->p, zero_run(g)), 1);

	l_store(b, g->blocks.edge, ex_iter(b->p, u), zero_of(g), NULL);
	l_close(b, l);
}

void gemm_find_runs(Gemm *g)
{
	Ctx *c = g->p.k->ctx;
	Dim *nruns = iters_points(g->p.k->ctx, g->p.c.k, g->p.run);

	g->blocks.runs = l_temp(&g->b, "runs", DT_I64,
				dim_mul(c, dim_const(c, g->blocks.mc), nruns));
	if (g->p.c.guard_a)
		g->blocks.edge = l_temp(
			&g->b, "edge", product_packed_type(&g->p, g->p.c.a),
			dim_add(c, zero_run(g), dim_mul(c, dim_const(c, g->blocks.mc), g->p.kk)));
	if (g->blocks.edge)
		clear_edge(g);
	emit_rows(g, find_runs);
	repeat_last_row(g, nruns);
}
