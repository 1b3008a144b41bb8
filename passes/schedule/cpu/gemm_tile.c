/* SPDX-License-Identifier: Apache-2.0 */
/* The strategy *product*'s tiles: the micro-kernel's call and the epilogue over its result.
 * Gemm is in passes/schedule/common/gemm.h, TileAt in gemm_impl.h, and what a tile is in
 * ir/loop/loop.h. */
#include "passes/schedule/cpu/gemm_impl.h"

#include "base/round.h"

enum {
	/* Rows of a square that is transposed in registers. A tile with whole squares is moved
	 * while it is in registers or L1; of another one, the whole block. */
	TRANSPOSED_ROWS = 8
};

Expr *gemm_a_index(Gemm *g, Expr *m, Expr *const *k)
{
	ExprPool *p = g->b.p;
	const bool merges = g->p.m_merges && g->p.a_direct;
	Expr *at = flat_index(g->p.k, g->p.c.a->load.buf, g->p.c.a->load.idx), *to[MAX_ITERS];

	iters_split(p, g->p.c.m, g->p.c.nm, m, to);
	for (int i = 0; merges && i < g->p.c.nm; i++)
		to[i] = i + 1 < g->p.c.nm ? l_int(&g->b, 0) : m;
	at = ex_subst_iters(p, at, g->p.c.k, k, g->p.c.nk);
	return ex_subst_iters(p, at, g->p.c.m, to, g->p.c.nm);
}

/* The flat index of the first element of A's row ROW of the tile. */
static Expr *a_index(Gemm *g, const TileAt *t, Iter *row)
{
	ExprPool *p = g->b.p;
	Expr *m = ex_add(p, ex_iter(p, t->mt), ex_iter(p, row)), *zero[MAX_ITERS];

	if (g->blocks.runs)
		return ex_sub(p, m, ex_iter(p, g->blocks.m0));
	if (!g->p.a_direct)
		return ex_mul(p, ex_sub(p, m, ex_iter(p, g->blocks.m0)),
			      ex_mul(p, ex_dim(p, g->p.steps), l_int(&g->b, g->p.kpack)));
	for (int i = 0; i < g->p.c.nk; i++)
		zero[i] = l_int(&g->b, 0);
	return gemm_a_index(g, m, zero);
}

/* The flat index of the element of LOAD, a part of B in panels, at the tile's first column, of the
 * first term. */
static Expr *panel_start(Gemm *g, const TileAt *t, const Expr *load)
{
	ExprPool *p = g->b.p;
	Placing pl = {.g = g, .s = g->p.c.s};
	const Buf *buf = load->load.buf;
	Expr *idx[MAX_RANK];

	/* in this layout, a panel begins at column n / pw and k = 0 */
	for (int i = 0; i < buf->rank; i++) {
		Iter *from[MAX_ITERS];
		Expr *to[MAX_ITERS];
		int c = 0;

		for (int j = 0; j < g->p.c.nk; j++) {
			from[c] = g->p.c.k[j];
			to[c++] = l_int(&g->b, 0);
		}
		from[c] = g->p.c.n[g->p.c.nn - 1];
		to[c++] = ex_iter(p, t->nt);
		idx[i] = ex_subst_iters(p, gemm_placed(&pl, load->load.idx[i]), from, to, c);
	}
	return flat_index(g->p.k, buf, idx);
}

/* Sets the scales and zero points of TL; they begin with the group of the part's first term. */
static void set_scale(Gemm *g, const TileAt *t, Tile *tl)
{
	ExprPool *p = g->b.p;
	Expr *first = l_int(&g->b, 0);

	if (g->p.group)
		first = ex_mul(p, ex_op2(p, IN_floordiv, t->k0, l_int(&g->b, g->p.group)),
			       l_int(&g->b, g->p.pw));
	tl->scaled.terms = g->p.terms;
	tl->scaled.group = g->p.group;
	tl->scaled.scale = g->p.scale->load.buf;
	tl->scaled.scale_at = ex_add(p, panel_start(g, t, g->p.scale), first);
	if (g->p.row_scale) {
		tl->scaled.row_scale = g->p.row_scale->load.buf;
		tl->scaled.row_group = g->p.row_group;
	}
	if (!g->p.zero)
		return;
	tl->scaled.zero = g->p.zero->load.buf;
	tl->scaled.zero_at = ex_add(p, panel_start(g, t, g->p.zero), first);
}

/* Sets where TL finds the order of its panel, which follows the terms. */
static void set_order(Gemm *g, const TileAt *t, Tile *tl)
{
	ExprPool *p = g->b.p;
	Expr *row = l_int(&g->b, g->p.pw * g->p.kpack), *bits, *rest;
	int64_t terms = 0;

	dim_is_const(g->p.steps, &terms);
	bits = l_int(&g->b, product_bits_rows(terms, g->p.pw));
	tl->order.first = t->k0;
	tl->order.sums_at = ex_add(p, tl->b_at, ex_mul(p, ex_dim(p, g->p.steps), row));
	tl->order.wide_at = ex_add(
		p, ex_sub(p, tl->order.sums_at, ex_mul(p, t->js, l_int(&g->b, g->p.kpack))), row);
	if (product_has_flips(terms)) {
		rest = ex_add(p, bits, ex_add(p, t->k0, l_int(&g->b, 1)));
		tl->order.flips_at = ex_add(p, tl->order.sums_at, ex_mul(p, rest, row));
	} else {
		tl->order.next_at = ex_add(p, tl->order.wide_at, ex_mul(p, bits, row));
	}
}

/* G's condition at the row and column of TL. */
static Expr *tile_when(Gemm *g, const TileAt *t, const Tile *tl)
{
	ExprPool *p = g->b.p;
	const Stmt *s = g->p.c.s;
	Placing pl = {.g = g, .s = s};
	Expr *to[MAX_ITERS], *m = ex_add(p, ex_iter(p, t->mt), ex_iter(p, tl->row)),
			     *n = ex_add(p, ex_iter(p, t->nt), ex_iter(p, tl->col));

	for (int i = 0; i < s->nband; i++)
		to[i] = gemm_at(g, s, s->iter[i], m, n, NULL);
	return ex_subst_iters(p, gemm_placed(&pl, g->attention.when), s->iter, to, s->nband);
}

/* Whether it pays to know that a tile has all rows: its micro-kernel may be inlined, and sums stay
 * in registers. The time that this saves counts where sums are short. Micro-kernels for bytes,
 * pairs and quantised numbers are functions, and those whose sums or terms are looked at first
 * spend their time there. */
static bool gains_by_rows(const Gemm *g, const TileAt *t)
{
	return t->k->kind == EX_CONST && t->k->i <= INLINED_TERMS && g->p.kpack == 1 &&
	       !g->p.scale && !g->p.matrix && !g->attention.when && !g->attention.trim;
}

/* The most rows of a tile. One with a rest has an even number, as it may be computed in halves. */
static int64_t most_rows(const Gemm *g)
{
	return g->blocks.rest ? round_up(g->blocks.mr + g->blocks.rest, 2) : g->blocks.mr;
}

/* Gives the tile TL its rows. */
static void set_rows(Gemm *g, const TileAt *t, Tile *tl)
{
	int64_t m;

	tl->usual = (int)g->blocks.mr;
	if (product_by_parts(&g->p))
		tl->usual = (int)gemm_vector_rows(g->t, &g->p);
	tl->m_valid = t->m_valid;
	tl->whole = t->m_valid->kind == EX_CONST && t->m_valid->i == g->blocks.mr &&
		    gains_by_rows(g, t);
	tl->mr = (int)(tl->whole ? g->blocks.mr : most_rows(g));
	tl->row = l_iter(&g->b, "r", dim_const(g->p.k->ctx, tl->mr));
	if ((gemm_may_have_sums(&g->p) || product_by_parts(&g->p)) &&
	    !(dim_is_const(g->p.m, &m) && m <= (g->p.matrix ? tl->usual : tl->mr)))
		tl->rows = ex_dim(g->b.p, g->p.m);
}

/* The flat index of B's element at T's first column, of the first term, in panels. */
static Expr *b_index(Gemm *g, const TileAt *t)
{
	ExprPool *p = g->b.p;

	if (g->p.b_panels)
		return panel_start(g, t, g->p.numbers);
	return ex_add(p,
		      ex_mul(p, ex_mul(p, t->panel, ex_dim(p, g->p.steps)),
			     l_int(&g->b, g->p.pw * g->p.kpack)),
		      ex_mul(p, t->js, l_int(&g->b, g->p.kpack)));
}

static void emit_tile(Gemm *g, const TileAt *t)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Tile *tl = NEW(b->arena, Tile);
	LNode *n;

	tl->ct = g->p.c.ct;
	tl->kpack = g->p.kpack;
	tl->matrix = g->p.matrix;
	tl->parts = g->blocks.parts;
	if (tl->parts.a)
		tl->parts.row = ex_sub(p, ex_iter(p, t->mt), ex_iter(p, g->blocks.m0));
	set_rows(g, t, tl);
	tl->nr = (int)g->blocks.nr;
	tl->acc = t->tile;
	tl->acc_at = t->tile_at;
	tl->accumulate = t->accumulate;
	tl->partial = t->partial;
	tl->a = g->p.a_direct || g->blocks.runs ? g->p.c.a->load.buf : g->blocks.abuf;
	tl->a_at = a_index(g, t, tl->row);
	tl->a_step = ex_mul(p, g->p.a_direct || g->blocks.runs ? g->p.a_step : l_int(b, 1),
			    l_int(b, g->p.kpack));
	if (g->blocks.runs) {
		tl->by_runs.starts = g->blocks.runs;
		tl->by_runs.edge = g->blocks.edge;
		tl->by_runs.first = t->k0;
		tl->by_runs.terms = ex_dim(p, dim_ceildiv(g->p.k->ctx, g->p.run_terms,
							  dim_const(g->p.k->ctx, g->p.kpack)));
		tl->by_runs.step = l_int(b, g->blocks.mc);
		tl->by_runs.shift = g->p.group_columns ? ex_iter(p, t->nt) : NULL;
	} else {
		tl->a_at = ex_add(p, tl->a_at, ex_mul(p, t->k0, tl->a_step));
	}
	if (g->p.group_columns) {
		tl->b = g->p.numbers->load.buf;
		tl->b_at = ex_iter(p, t->nt);
	} else {
		tl->b = g->p.b_panels ? g->p.numbers->load.buf : g->blocks.bbuf;
		tl->b_at = b_index(g, t);
		if (g->p.b_panels && g->p.ordered)
			set_order(g, t, tl);
	}
	if (g->p.scale)
		set_scale(g, t, tl);
	tl->b_step = g->p.group_columns ? ex_dim(p, g->p.n) : l_int(b, g->p.pw * g->p.kpack);
	tl->b_at = ex_add(p, tl->b_at, ex_mul(p, t->k0, tl->b_step));
	tl->k = t->k;
	gemm_fetch(g, tl, t);
	if (t->accumulate || t->partial)
		tl->depth = l_iter(b, "d", g->p.kk);
	tl->col = l_iter(b, "c", dim_const(g->p.k->ctx, g->blocks.nr));
	tl->n_valid = t->n_valid;
	tl->mask.when = g->attention.when ? tile_when(g, t, tl) : NULL;
	tl->mask.squares = g->attention.squares;
	tl->mask.trim = g->attention.trim;
	l_of(b, g->p.c.s);
	n = l_node(b, LN_TILE);
	n->tile = tl;
	gemm_does(g, n, g->p.c.s, PART_TERM, ex_add(p, ex_iter(p, t->mt), ex_iter(p, tl->row)),
		  ex_add(p, ex_iter(p, t->nt), ex_iter(p, tl->col)),
		  tl->depth
			  ? ex_add(p, ex_mul(p, t->k0, l_int(b, g->p.kpack)), ex_iter(p, tl->depth))
			  : NULL);
}

/* The element of the current row and column in HELD, a local of Gemm.held. */
static Expr *held_value(Gemm *g, Buf *held)
{
	ExprPool *p = g->b.p;
	Expr *at = ex_sub(p, ex_iter(p, g->mflat), ex_iter(p, g->blocks.m0));

	if (held->rank > 1)
		at = ex_add(p, ex_mul(p, at, ex_dim(p, g->p.n)), ex_iter(p, g->nflat));
	return ex_load(p, held, &at, 1);
}

/* The epilogue over all sums of a tile is unrolled if it is short. Then compilers keep the sums
 * in registers, instead of storing them to the tile and loading them again. Where a sum is split
 * into parts, or was in matrix registers, they are in memory anyway. */
static bool unrolls_epilogue(const Gemm *g, const TileAt *t)
{
	return !g->blocks.kc && !g->p.matrix && t->m_valid->kind == EX_CONST &&
	       t->n_valid->kind == EX_CONST &&
	       stmts_are_short(g->p.k, g->p.first + 1, g->p.first + g->p.nstmts - 1);
}

/* The last statement of G stores columns of a tile as rows: of a product of pixels by channels,
 * whose result keeps its rows of pixels. The results are first held by rows, then moved in squares
 * that are transposed in registers. Scattering the columns of each row took a 1x1 convolution from
 * 64 to 32 channels of 32x32 four times as long. */
static bool stores_columns(Gemm *g)
{
	const Stmt *s = g->p.k->stmts.at[g->p.first + g->p.nstmts - 1];
	Placing pl = {.g = g, .s = s, .flat = true};
	Ctx *c = g->p.k->ctx;
	Expr *at;

	if (s->out[0]->kind == BUF_TEMP || (s->guard && s != g->p.c.s) || !g->p.m_merges ||
	    !g->p.c.nm || g->attention.nheld ||
	    (g->blocks.mr % TRANSPOSED_ROWS && !g->blocks.panels_first))
		return false;
	at = gemm_placed(&pl, flat_index(g->p.k, s->out[0], s->widx));
	return ex_runs_along(c, at, g->mflat) && !ex_runs_along(c, at, g->nflat) &&
	       ex_step(c, at, g->nflat);
}

/* Moves T's rows, which FROM has from FROM_AT on, to the columns of the result. */
static void move_columns(Gemm *g, const TileAt *t, int64_t most, Buf *from, Expr *from_at)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	const Stmt *s = g->p.k->stmts.at[g->p.first + g->p.nstmts - 1];
	Placing pl = {.g = g, .s = s, .flat = true};
	Iter *i = l_iter(b, "i", dim_const(g->p.k->ctx, most)),
	     *j = l_iter(b, "j", dim_const(g->p.k->ctx, g->blocks.nr));
	Expr *at = ex_add(p, ex_mul(p, ex_iter(p, i), l_int(b, g->blocks.nr)), ex_iter(p, j)),
	     *m = ex_add(p, ex_iter(p, t->mt), ex_iter(p, i)),
	     *n = ex_add(p, ex_iter(p, t->nt), ex_iter(p, j)),
	     *to = gemm_placed(&pl, flat_index(g->p.k, s->out[0], s->widx));
	LNode *jl = l_loop(b, LOOP_SERIAL, j, l_int(b, 0), t->n_valid, 1),
	      *il = l_loop(b, LOOP_VECTOR, i, l_int(b, 0), t->m_valid, 1);

	at = ex_add(p, from_at, at);
	to = ex_subst_iters(p, to, (Iter *[]){g->mflat, g->nflat}, (Expr *[]){m, n}, 2);
	l_of(b, s);
	gemm_does(g, l_store(b, s->out[0], to, ex_load(p, from, &at, 1), NULL), s, PART_WRITE, m, n,
		  NULL);
	l_close(b, il);
	l_close(b, jl);
}

/* The last statement of G stores the sums as they are in TILE. */
static bool stores_sums(const Gemm *g, const Buf *tile)
{
	const Stmt *s = g->p.k->stmts.at[g->p.first + g->p.nstmts - 1];

	return s->out[0]->dtype == tile->dtype &&
	       (s == g->p.c.s || (g->p.nstmts == 2 && s->val[0]->kind == EX_LOAD &&
				  s->val[0]->load.buf == g->p.c.s->out[0]));
}

/* The epilogue over T's tile; COLUMNS, of MOST rows, holds the results instead of the tensor; null:
 * it does not. */
static void emit_epilogue(Gemm *g, const TileAt *t, Buf *columns, int64_t most)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Iter *i = l_iter(b, "i", dim_const(g->p.k->ctx, most)),
	     *j = l_iter(b, "j", dim_const(g->p.k->ctx, g->blocks.nr));
	Expr *at = ex_add(p, ex_mul(p, ex_iter(p, i), l_int(b, g->blocks.nr)), ex_iter(p, j));
	Expr *acc_at = ex_add(p, t->tile_at, at);
	Placing pl = {.g = g, .nvalues = g->p.k->bufs.n, .flat = true};
	const Stmt *last = g->p.k->stmts.at[g->p.first + g->p.nstmts - 1];
	LNode *il, *jl;

	pl.value = NEW_ARRAY(b->arena, pl.nvalues + 1, Expr *);
	for (int h = 0; h < g->attention.nheld; h++)
		pl.value[h] = g->attention.held[h] ? held_value(g, g->attention.held[h]) : NULL;
	pl.value[g->p.c.s->out[0]->id] = ex_load(p, t->tile, &acc_at, 1);
	for (int s = 1; s < g->p.nstmts; s++) {
		Buf *o = g->p.k->stmts.at[g->p.first + s]->out[0], *local;

		if (o->kind != BUF_TEMP || pl.value[o->id])
			continue;
		local = l_temp(b, o->name, o->dtype, dim_const(g->p.k->ctx, most * g->blocks.nr));
		pl.value[o->id] = ex_load(p, local, &at, 1);
	}
	il = l_loop(b, !columns && unrolls_epilogue(g, t) ? LOOP_UNROLL : LOOP_SERIAL, i,
		    l_int(b, 0), t->m_valid, 1);
	l_let(b, g->mflat, ex_add(p, ex_iter(p, t->mt), ex_iter(p, i)));
	if (!g->p.m_merges)
		l_split(b, g->p.c.m, g->p.c.nm, ex_iter(p, g->mflat));
	jl = l_loop(b, LOOP_VECTOR, j, l_int(b, 0), t->n_valid, 1);
	l_let(b, g->nflat, ex_add(p, ex_iter(p, t->nt), ex_iter(p, j)));
	for (int s = 0; s < g->p.nstmts; s++) {
		Stmt *st = g->p.k->stmts.at[g->p.first + s];
		Buf *held = g->attention.nheld ? g->attention.held[st->out[0]->id] : NULL;
		Expr *val;
		LNode *n;

		l_of(b, st);
		pl.s = st;
		val = s ? gemm_placed(&pl, st->val[0]) : ex_load(p, t->tile, &acc_at, 1);
		if (st == last && columns) {
			l_store(b, columns, at, val, NULL);
			continue;
		}
		if (st->out[0]->kind != BUF_TEMP)
			n = l_store(b, st->out[0],
				    gemm_placed(&pl, flat_index(g->p.k, st->out[0], st->widx)), val,
				    s ? gemm_placed(&pl, st->guard) : NULL);
		else if (held)
			n = l_store(b, held, held_value(g, held)->load.idx[0], val, NULL);
		else if (s)
			n = l_store(b, pl.value[st->out[0]->id]->load.buf, at, val, NULL);
		else
			continue;
		gemm_does(g, n, st, PART_WRITE, ex_iter(p, g->mflat), ex_iter(p, g->nflat), NULL);
	}
	l_close(b, jl);
	l_close(b, il);
}

/* The epilogue over T's MOST rows, which are moved to columns. */
static void emit_held_epilogue(Gemm *g, const TileAt *t, int64_t most)
{
	const Stmt *s = g->p.k->stmts.at[g->p.first + g->p.nstmts - 1];
	Buf *columns;

	if (stores_sums(g, t->tile)) {
		move_columns(g, t, most, t->tile, t->tile_at);
		return;
	}
	columns = kernel_temp(g->p.k, "columns", s->out[0]->dtype, 1,
			      (Dim *[]){dim_const(g->p.k->ctx, most * g->blocks.nr)});
	l_local(&g->b, columns);
	emit_epilogue(g, t, columns, most);
	move_columns(g, t, most, columns, l_int(&g->b, 0));
}

/* The loops over the tiles of a block. */
typedef struct TileLoops {
	LNode *m, *panel, *column;
} TileLoops;

static void open_panels(Gemm *g, TileAt *t, TileLoops *l)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Iter *jb = l_iter(b, "jb",
			  dim_ceildiv(g->p.k->ctx, gemm_block_columns(g),
				      dim_const(g->p.k->ctx, g->p.pw))),
	     *js = l_iter(b, "js", dim_const(g->p.k->ctx, g->p.pw));
	Expr *nend = gemm_block_end(g), *c0, *columns = l_int(b, g->p.pw);
	int64_t n;

	t->nt = l_iter(b, "nt", g->p.n);
	t->panel = ex_iter(p, jb);
	t->js = ex_iter(p, js);
	l->panel = l_loop(b, LOOP_SERIAL, jb, l_int(b, 0), gemm_panels(g), 1);
	c0 = ex_add(p, ex_iter(p, g->blocks.n0), ex_mul(p, ex_iter(p, jb), l_int(b, g->p.pw)));
	if (!dim_multiple(g->p.k->ctx, g->p.n, g->p.pw))
		columns = l_min(b, columns, ex_sub(p, nend, c0));
	l->column = l_loop(b, LOOP_SERIAL, js, l_int(b, 0), columns, g->blocks.nr);
	l_let(b, t->nt, ex_add(p, c0, ex_iter(p, js)));
	t->n_valid = l_int(b, dim_is_const(g->p.n, &n) && n < g->blocks.nr ? n : g->blocks.nr);
	if (!dim_multiple(g->p.k->ctx, g->p.n, g->blocks.nr) && t->n_valid->i == g->blocks.nr)
		t->n_valid = l_min(b, t->n_valid, ex_sub(p, nend, ex_iter(p, t->nt)));
}

static void open_rows(Gemm *g, TileAt *t, TileLoops *l)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Expr *m0 = ex_iter(p, g->blocks.m0), *mr = l_int(b, g->blocks.mr), *end, *left;

	t->mt = l_iter(b, "mt", g->p.m);
	t->rows_end = l_min(b, ex_add(p, m0, l_int(b, g->blocks.mc)), ex_dim(p, g->p.m));
	end = t->rows_end;
	if (g->blocks.rest) /* no tile begins with them, but the first one */
		end = l_max(b, ex_add(p, m0, l_int(b, 1)),
			    ex_sub(p, end, l_int(b, g->blocks.rest)));
	l->m = l_loop(b, LOOP_SERIAL, t->mt, m0, end, g->blocks.mr);
	t->m_valid = mr;
	if (dim_multiple(g->p.k->ctx, g->p.m, g->blocks.mr))
		return;
	left = ex_sub(p, t->rows_end, ex_iter(p, t->mt));
	t->m_valid = g->blocks.rest ? ex_op3(p, IN_select,
					     ex_op2(p, IN_le, left,
						    l_int(b, g->blocks.mr + g->blocks.rest)),
					     left, mr)
				    : l_min(b, mr, left);
}

/* Declares the parts of the block's rows of A and of a panel of B. */
static void declare_parts(Gemm *g)
{
	LBuild *b = &g->b;
	Ctx *c = g->p.k->ctx;
	TileParts *s = &g->blocks.parts;
	Dim *terms = g->blocks.kc ? dim_const(c, g->blocks.kc) : g->p.kk,
	    *steps = dim_ceildiv(c, terms, dim_const(c, SPLIT_TERMS)),
	    *all = dim_mul(c, steps, dim_const(c, SPLIT_TERMS * SPLIT_PARTS));

	s->a = l_temp(b, "a_parts", DT_BF16, dim_mul(c, all, dim_const(c, g->blocks.mc)));
	s->b = l_temp(b, "b_parts", DT_BF16, dim_mul(c, all, dim_const(c, g->blocks.nr)));
	s->a_fits = l_temp(b, "a_fits", DT_BOOL, NULL);
	s->b_fits = l_temp(b, "b_fits", DT_BOOL, NULL);
}

static SplitOperand *split_of(Gemm *g, Buf *to, Buf *fits, Buf *from, Expr *k)
{
	SplitOperand *s = NEW(g->b.arena, SplitOperand);

	s->to = to;
	s->fits = fits;
	s->from = from;
	s->k = k;
	l_of(&g->b, g->p.c.s);
	l_node(&g->b, LN_SPLIT)->split = s;
	return s;
}

/* The block's rows of A in parts, of T's terms. */
static void split_rows(Gemm *g, const TileAt *t)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	TileAt block = *t;
	SplitOperand *s = split_of(g, g->blocks.parts.a, g->blocks.parts.a_fits,
				   g->p.a_direct ? g->p.c.a->load.buf : g->blocks.abuf, t->k);

	block.mt = g->blocks.m0;
	s->rows = (int)g->blocks.mc;
	s->row = l_iter(b, "r", dim_const(g->p.k->ctx, s->rows));
	s->valid = l_int(b, s->rows);
	if (!dim_multiple(g->p.k->ctx, g->p.m, s->rows))
		s->valid = l_min(b, s->valid,
				 ex_sub(p, ex_dim(p, g->p.m), ex_iter(p, g->blocks.m0)));
	s->step = l_int(b, 1);
	s->at = ex_add(p, a_index(g, &block, s->row), t->k0);
}

/* T's panel of B in parts, of its terms. */
static void split_columns(Gemm *g, const TileAt *t)
{
	ExprPool *p = g->b.p;
	Buf *from = g->p.b_panels ? g->p.numbers->load.buf : g->blocks.bbuf;
	SplitOperand *s = split_of(g, g->blocks.parts.b, g->blocks.parts.b_fits, from, t->k);

	s->columns = (int)g->blocks.nr;
	s->step = l_int(&g->b, g->p.pw);
	s->at = ex_add(p, b_index(g, t), ex_mul(p, t->k0, s->step));
}

static void open_tiles(Gemm *g, TileAt *t, TileLoops *l)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;

	if (g->blocks.parts.a)
		split_rows(g, t);
	if (!g->blocks.panels_first)
		open_rows(g, t, l);
	open_panels(g, t, l);
	if (g->blocks.parts.a)
		split_columns(g, t);
	if (t->columns == COLUMNS_OF_BLOCK && !t->tile) {
		t->tile = kernel_temp(
			g->p.k, "tiles", ctype_dtype(g->p.c.ct), 1,
			(Dim *[]){dim_const(g->p.k->ctx,
					    (g->blocks.mc + most_rows(g)) * g->blocks.nr)});
		l_local(b, t->tile);
	}
	if (g->blocks.panels_first)
		open_rows(g, t, l);
	t->tile_at = l_int(b, 0);
	if (t->columns == COLUMNS_OF_BLOCK)
		t->tile_at = ex_mul(p, ex_sub(p, ex_iter(p, t->mt), ex_iter(p, g->blocks.m0)),
				    l_int(b, g->blocks.nr));
	if (!g->blocks.kc)
		return;
	/* the sums of all tiles of the block are kept */
	t->tile_at = ex_add(p,
			    ex_mul(p, ex_sub(p, ex_iter(p, t->mt), ex_iter(p, g->blocks.m0)),
				   l_int(b, g->blocks.nr)),
			    ex_mul(p, ex_sub(p, ex_iter(p, t->nt), ex_iter(p, g->blocks.n0)),
				   l_int(b, g->blocks.mc)));
}

/* The epilogue over all tiles of the block that are in T's panel. */
static void emit_block_epilogue(Gemm *g, TileAt t)
{
	ExprPool *p = g->b.p;

	t.mt = g->blocks.m0;
	t.m_valid = ex_sub(p, t.rows_end, ex_iter(p, t.mt));
	t.tile_at = l_int(&g->b, 0);
	if (g->blocks.kc)
		t.tile_at = ex_mul(p, ex_sub(p, ex_iter(p, t.nt), ex_iter(p, g->blocks.n0)),
				   l_int(&g->b, g->blocks.mc));
	emit_held_epilogue(g, &t, g->blocks.mc);
}

static void close_tiles(Gemm *g, const TileAt *t, const TileLoops *l)
{
	if (g->blocks.panels_first)
		l_close(&g->b, l->m);
	if (t->columns == COLUMNS_OF_BLOCK)
		emit_block_epilogue(g, *t);
	l_close(&g->b, l->column);
	l_close(&g->b, l->panel);
	if (!g->blocks.panels_first)
		l_close(&g->b, l->m);
}

/* Emits the tile at T and its epilogue. */
static void emit_one(Gemm *g, TileAt t)
{
	if (!t.tile) {
		t.tile = kernel_temp(
			g->p.k, "tile", ctype_dtype(g->p.c.ct), 1,
			(Dim *[]){dim_const(g->p.k->ctx, most_rows(g) * g->blocks.nr)});
		l_local(&g->b, t.tile);
	}
	emit_tile(g, &t);
	if (t.columns == COLUMNS_OF_TILE)
		emit_held_epilogue(g, &t, most_rows(g));
	else if (!t.columns)
		emit_epilogue(g, &t, NULL, most_rows(g));
}

/* Emits tiles at T as emit_one does. If the last tile of a row has fewer columns than the
 * other ones, two versions are emitted, each for a constant number of columns: the micro-kernel
 * then computes no others, and the epilogue can be unrolled. The micro-kernel for quantised
 * numbers computes all columns. */
static void emit_columns(Gemm *g, const TileAt *t)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Expr *end = ex_add(p, ex_iter(p, t->nt), l_int(b, g->blocks.nr));
	int64_t n;

	if (t->n_valid->kind == EX_CONST || !dim_is_const(g->p.n, &n) || g->p.scale) {
		emit_one(g, *t);
		return;
	}
	for (int last = 0; last < 2; last++) {
		TileAt some = *t;
		LNode *l = l_where(b, ex_op2(p, last ? IN_gt : IN_le, end, l_int(b, n)));

		some.n_valid = l_int(b, last ? n % g->blocks.nr : g->blocks.nr);
		emit_one(g, some);
		l_close(b, l);
	}
}

/* Emits the tile at T. If the last tile of a column may have another number of rows than the other
 * ones, two versions are emitted, one of them for the usual number. The last tile has the other one
 * even if it has as many rows: that is as fast, and isl proves the simpler condition soon. */
static void emit_at(Gemm *g, const TileAt *t)
{
	LBuild *b = &g->b;
	Expr *mr = l_int(b, g->blocks.mr), *left, *most;

	if (t->m_valid->kind == EX_CONST || !gains_by_rows(g, t)) {
		emit_columns(g, t);
		return;
	}
	left = ex_sub(b->p, t->rows_end, ex_iter(b->p, t->mt));
	most = l_int(b, g->blocks.mr + g->blocks.rest);
	for (int last = 0; last < 2; last++) {
		TileAt some = *t;
		LNode *l = l_where(b, ex_op2(b->p, last ? IN_le : IN_gt, left, most));

		some.m_valid = last ? l_min(b, most, left) : mr;
		emit_columns(g, &some);
		l_close(b, l);
	}
}

/* Emits all tiles of the block, for terms k0 to k0 + k - 1 of the sum. */
static void emit_part(Gemm *g, TileAt t, Expr *k0, bool accumulate)
{
	TileLoops l;

	t.k0 = k0;
	t.k = l_int(&g->b, g->blocks.kc / g->p.kpack);
	t.accumulate = accumulate;
	t.partial = true;
	open_tiles(g, &t, &l);
	emit_tile(g, &t);
	close_tiles(g, &t, &l);
}

/* Emits all parts of a long sum but the last one, which the epilogue follows. So a part of A's rows
 * stays in L2 for all panels of the block. */
static void emit_parts(Gemm *g, TileAt *t)
{
	LBuild *b = &g->b;
	const int64_t kc = g->blocks.kc / g->p.kpack;
	int64_t kk = 0, last;
	Iter *kb = l_iter(b, "kb", g->p.steps);
	LNode *kl;

	dim_is_const(g->p.steps, &kk);
	last = (kk - 1) / kc * kc;
	t->tile = kernel_temp(g->p.k, "tiles", ctype_dtype(g->p.c.ct), 1,
			      (Dim *[]){dim_const(g->p.k->ctx, g->blocks.mc * g->blocks.nc)});
	l_local(b, t->tile);
	emit_part(g, *t, l_int(b, 0), false);
	kl = l_loop(b, LOOP_SERIAL, kb, l_int(b, kc), l_int(b, last), kc);
	emit_part(g, *t, ex_iter(b->p, kb), true);
	l_close(b, kl);
	t->k0 = l_int(b, last);
	t->k = l_int(b, kk - last);
	t->accumulate = true;
}

void gemm_emit_tiles(Gemm *g)
{
	LBuild *b = &g->b;
	TileAt t = {.k0 = l_int(b, 0), .k = gemm_steps(g)};
	TileLoops l;

	if (product_by_parts(&g->p))
		declare_parts(g);
	if (g->blocks.kc)
		emit_parts(g, &t);
	if (stores_columns(g))
		t.columns = g->blocks.mr % TRANSPOSED_ROWS ? COLUMNS_OF_BLOCK : COLUMNS_OF_TILE;
	open_tiles(g, &t, &l);
	emit_at(g, &t);
	close_tiles(g, &t, &l);
}
