/* SPDX-License-Identifier: Apache-2.0 */
/* The contraction strategy's tiles: the micro-kernel's call and the epilogue over its result. */
#include "passes/schedule/cpu/gemm_impl.h"

typedef struct TileAt {
	Iter *mt, *nt; /* first row and column of the tile */
	Expr *panel;   /* the panel's number in the block */
	Expr *js;      /* column of the tile in the panel */
	Expr *m_valid, *n_valid, *rows_end;
	/* the tile's sums; or, if the sum is split into parts, those of all tiles of the panel */
	Buf *tile;
	Expr *tile_at; /* offset of this tile's sums */
	Expr *k0, *k;  /* the part of the sum: its first term and the number of terms */
	bool accumulate, partial;
} TileAt;

/* The flat index of the first element of A's row ROW of the tile. */
static Expr *a_index(Gemm *g, const TileAt *t, Iter *row)
{
	ExprPool *p = g->b.p;
	Expr *m = ex_add(p, ex_iter(p, t->mt), ex_iter(p, row)), *at;
	Iter *from[MAX_ITERS];
	Expr *to[MAX_ITERS];
	int n = 0;

	if (g->runs)
		return ex_sub(p, m, ex_iter(p, g->m0));
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
	tl->acc_at = t->tile_at;
	tl->accumulate = t->accumulate;
	tl->partial = t->partial;
	tl->row = l_iter(b, "r", dim_const(g->k->ctx, g->mr));
	tl->a = g->a_direct || g->runs ? g->c.a->load.buf : g->abuf;
	tl->a_at = a_index(g, t, tl->row);
	tl->a_step = g->a_direct || g->runs ? g->a_step : l_int(b, 1);
	if (g->runs) {
		tl->runs = g->runs;
		tl->edge = g->edge;
		tl->k0 = t->k0;
		tl->run = ex_dim(p, g->run_terms);
		tl->runs_step = l_int(b, g->mc);
	} else {
		tl->a_at = ex_add(p, tl->a_at, ex_mul(p, t->k0, tl->a_step));
	}
	if (g->b_panels) {
		/* in this layout, a panel begins at column n / pw and k = 0 */
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
			idx[i] = ex_subst_iters(p, gemm_placed(&pl, g->c.b->load.idx[i]), from, to,
						c);
		}
		tl->b = g->c.b->load.buf;
		tl->b_at = flat_index(g->k, tl->b, idx);
	} else {
		tl->b = g->bbuf;
		tl->b_at = ex_add(p,
				  ex_mul(p, ex_mul(p, t->panel, ex_dim(p, g->kk)), l_int(b, g->pw)),
				  t->js);
	}
	tl->b_step = l_int(b, g->pw);
	tl->b_at = ex_add(p, tl->b_at, ex_mul(p, t->k0, tl->b_step));
	tl->k = t->k;
	if (g->b_panels && g->panels_first) {
		/* only the first tile of rows reads the panel from memory: all tiles prefetch parts
		 * of the next panel */
		Expr *tiles = ex_op2(
			p, IN_floordiv,
			ex_add(p, ex_sub(p, t->rows_end, ex_iter(p, g->m0)), l_int(b, g->mr - 1)),
			l_int(b, g->mr));

		tl->ahead_step = l_max(b, ex_op2(p, IN_floordiv, l_int(b, g->pw), tiles),
				       l_int(b, 1));
		tl->ahead = ex_add(
			p, tl->b_at,
			ex_mul(p, t->k,
			       ex_add(p, tl->b_step,
				      ex_mul(p, tl->ahead_step,
					     ex_op2(p, IN_floordiv,
						    ex_sub(p, ex_iter(p, t->mt), ex_iter(p, g->m0)),
						    l_int(b, g->mr))))));
	}
	if (t->accumulate || t->partial)
		tl->depth = l_iter(b, "d", g->kk);
	tl->m_valid = t->m_valid;
	tl->col = l_iter(b, "c", dim_const(g->k->ctx, g->nr));
	tl->n_valid = t->n_valid;
	n = l_node(b, LN_TILE);
	n->tile = tl;
	gemm_does(g, n, g->c.s, PART_TERM, ex_add(p, ex_iter(p, t->mt), ex_iter(p, tl->row)),
		  ex_add(p, ex_iter(p, t->nt), ex_iter(p, tl->col)),
		  tl->depth ? ex_add(p, t->k0, ex_iter(p, tl->depth)) : NULL);
}

/* The element of the current row and column in HELD, a local of Gemm.held. */
static Expr *held_value(Gemm *g, Buf *held)
{
	ExprPool *p = g->b.p;
	Expr *at = ex_sub(p, ex_iter(p, g->mflat), ex_iter(p, g->m0));

	if (held->rank > 1)
		at = ex_add(p, ex_mul(p, at, ex_dim(p, g->n)), ex_iter(p, g->nflat));
	return ex_load(p, held, &at, 1);
}

static void emit_epilogue(Gemm *g, const TileAt *t)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Iter *i = l_iter(b, "i", dim_const(g->k->ctx, g->mr)),
	     *j = l_iter(b, "j", dim_const(g->k->ctx, g->nr));
	Expr *at = ex_add(p, ex_mul(p, ex_iter(p, i), l_int(b, g->nr)), ex_iter(p, j));
	Expr *acc_at = ex_add(p, t->tile_at, at);
	Placing pl = {.g = g, .nvalues = g->k->bufs.n, .flat = true};
	LNode *il, *jl;

	pl.value = NEW_ARRAY(b->arena, pl.nvalues + 1, Expr *);
	for (int h = 0; h < g->nheld; h++)
		pl.value[h] = g->held[h] ? held_value(g, g->held[h]) : NULL;
	pl.value[g->c.s->out[0]->id] = ex_load(p, t->tile, &acc_at, 1);
	for (int s = 1; s < g->nstmts; s++) {
		Buf *o = g->k->stmts.at[g->first + s]->out[0], *local;

		if (o->kind != BUF_TEMP || pl.value[o->id])
			continue;
		local = l_temp(b, o->name, o->dtype, dim_const(g->k->ctx, g->mr * g->nr));
		pl.value[o->id] = ex_load(p, local, &at, 1);
	}
	il = l_loop(b, LOOP_SERIAL, i, l_int(b, 0), t->m_valid, 1);
	l_let(b, g->mflat, ex_add(p, ex_iter(p, t->mt), ex_iter(p, i)));
	if (!g->m_merges)
		l_split(b, g->c.m, g->c.nm, ex_iter(p, g->mflat));
	jl = l_loop(b, LOOP_VECTOR, j, l_int(b, 0), t->n_valid, 1);
	l_let(b, g->nflat, ex_add(p, ex_iter(p, t->nt), ex_iter(p, j)));
	for (int s = 0; s < g->nstmts; s++) {
		Stmt *st = g->k->stmts.at[g->first + s];
		Buf *held = g->nheld ? g->held[st->out[0]->id] : NULL;
		Expr *val;
		LNode *n;

		l_of(b, st);
		pl.s = st;
		val = s ? gemm_placed(&pl, st->val[0]) : ex_load(p, t->tile, &acc_at, 1);
		if (st->out[0]->kind != BUF_TEMP)
			n = l_store(b, st->out[0],
				    gemm_placed(&pl, flat_index(g->k, st->out[0], st->widx)), val,
				    NULL);
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

/* Emits all tiles of a panel, for terms k0 to k0 + k - 1 of the sum. */
static void emit_part(Gemm *g, TileAt t, Expr *mhi, Expr *k0, Expr *k, bool accumulate)
{
	LNode *ml = l_loop(&g->b, LOOP_SERIAL, t.mt, ex_iter(g->b.p, g->m0), mhi, g->mr);

	t.k0 = k0;
	t.k = k;
	t.accumulate = accumulate;
	t.partial = true;
	emit_tile(g, &t);
	l_close(&g->b, ml);
}

/* Emits all parts of a long sum but the last one, which the epilogue follows. So a part of B's
 * panel stays in L1 for all tiles. */
static void emit_parts(Gemm *g, TileAt *t, Expr *mhi)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	int64_t kk = 0, last;
	Iter *kb = l_iter(b, "kb", g->kk);
	LNode *kl;

	dim_is_const(g->kk, &kk);
	last = (kk - 1) / g->kc * g->kc;
	t->tile = kernel_temp(g->k, "tiles", ctype_dtype(g->c.ct), 1,
			      (Dim *[]){dim_const(g->k->ctx, g->mc * g->nr)});
	t->tile_at = ex_mul(p, ex_sub(p, ex_iter(p, t->mt), ex_iter(p, g->m0)), l_int(b, g->nr));
	l_local(b, t->tile);
	emit_part(g, *t, mhi, l_int(b, 0), l_int(b, g->kc), false);
	kl = l_loop(b, LOOP_SERIAL, kb, l_int(b, g->kc), l_int(b, last), g->kc);
	emit_part(g, *t, mhi, ex_iter(p, kb), l_int(b, g->kc), true);
	l_close(b, kl);
	t->k0 = l_int(b, last);
	t->k = l_int(b, kk - last);
	t->accumulate = true;
}

void gemm_emit_tiles(Gemm *g)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	TileAt t = {.k0 = l_int(b, 0), .k = ex_dim(p, g->kk), .tile_at = l_int(b, 0)};
	Iter *jb = l_iter(
		     b, "jb",
		     dim_ceildiv(g->k->ctx, gemm_block_columns(g), dim_const(g->k->ctx, g->pw))),
	     *js = l_iter(b, "js", dim_const(g->k->ctx, g->pw));
	Expr *mhi = l_min(b, ex_add(p, ex_iter(p, g->m0), l_int(b, g->mc)), ex_dim(p, g->m));
	Expr *nend = gemm_block_end(g), *c0;
	LNode *ml = NULL, *nl, *sl;

	t.mt = l_iter(b, "mt", g->m);
	t.nt = l_iter(b, "nt", g->n);
	t.rows_end = mhi;
	t.m_valid = l_min(b, l_int(b, g->mr), ex_sub(p, mhi, ex_iter(p, t.mt)));
	t.panel = ex_iter(p, jb);
	t.js = ex_iter(p, js);
	if (!g->panels_first)
		ml = l_loop(b, LOOP_SERIAL, t.mt, ex_iter(p, g->m0), mhi, g->mr);
	nl = l_loop(b, LOOP_SERIAL, jb, l_int(b, 0), gemm_panels(g), 1);
	c0 = ex_add(p, ex_iter(p, g->n0), ex_mul(p, ex_iter(p, jb), l_int(b, g->pw)));
	sl = l_loop(b, LOOP_SERIAL, js, l_int(b, 0), l_min(b, l_int(b, g->pw), ex_sub(p, nend, c0)),
		    g->nr);
	l_let(b, t.nt, ex_add(p, c0, ex_iter(p, js)));
	t.n_valid = l_min(b, l_int(b, g->nr), ex_sub(p, nend, ex_iter(p, t.nt)));
	if (g->kc)
		emit_parts(g, &t, mhi);
	if (g->panels_first)
		ml = l_loop(b, LOOP_SERIAL, t.mt, ex_iter(p, g->m0), mhi, g->mr);
	if (!t.tile) {
		t.tile = kernel_temp(g->k, "tile", ctype_dtype(g->c.ct), 1,
				     (Dim *[]){dim_const(g->k->ctx, g->mr * g->nr)});
		l_local(b, t.tile);
	}
	emit_tile(g, &t);
	emit_epilogue(g, &t);
	if (g->panels_first)
		l_close(b, ml);
	l_close(b, sl);
	l_close(b, nl);
	if (!g->panels_first)
		l_close(b, ml);
}
