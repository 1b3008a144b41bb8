/* SPDX-License-Identifier: Apache-2.0 */
/* The loop tree of a contraction's block on a GPU: the pipeline with its fills, and the
 * epilogue. */
#include "passes/schedule/gpu/gemm_impl.h"
#include "passes/schedule/gpu/gpu_impl.h"

/* A substitution for the iterators of a fill or a result: FROM[i] becomes TO[i]. */
typedef struct Naming {
	GpuGemm *gg;
	Iter *from[2 * MAX_ITERS];
	Expr *to[2 * MAX_ITERS];
	int n;
} Naming;

static void name(Naming *x, Iter *it, Expr *e)
{
	x->from[x->n] = it;
	x->to[x->n++] = e;
}

static Iter *let(Naming *x, const char *what, Dim *extent, Expr *e)
{
	LBuild *b = &x->gg->g.b;
	Iter *it = l_iter(b, what, extent);

	l_let(b, it, e);
	return it;
}

static bool const_multiple(Dim *d, int n)
{
	int64_t v;

	return dim_is_const(d, &v) && v % n == 0;
}

static Dim *split_of(Naming *x, Dim *d, int n)
{
	Ctx *c = x->gg->g.p.k->ctx;

	return dim_floordiv(c, d, dim_const(c, n));
}

/* Binds the iterators IT[0..n), the last one apart, by a div/mod split of REST. */
static void name_outer(Naming *x, Iter *const *it, int n, Expr *rest)
{
	ExprPool *p = x->gg->g.b.p;

	for (int i = n - 2; i >= 0; i--) {
		Expr *extent = ex_dim(p, it[i]->extent);
		Iter *v = let(x, it[i]->name, it[i]->extent,
			      i ? ex_op2(p, IN_mod, rest, extent) : rest);

		name(x, it[i], ex_iter(p, v));
		if (i)
			rest = ex_iter(p, let(x, "q", iters_points(x->gg->g.p.k->ctx, it, i),
					      ex_op2(p, IN_floordiv, rest, extent)));
	}
}

/*
 * Substitutes for IT[0..n) the position of element ELEM (null: 0) of chunk CHUNK, of VECTOR
 * elements each, in block BLOCK of SIZE elements: one flat index if they are JOINED, else an index
 * each. Chunks do not cross the end of the last iterator; nor do blocks if SIZE divides its extent.
 */
static void name_at(Naming *x, Iter *const *it, int n, bool joined, Expr *block, int size,
		    Expr *chunk, int vector, Expr *elem)
{
	Gemm *g = &x->gg->g;
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Iter *last = it[n - 1];
	Expr *in = ex_mul(p, chunk, l_int(b, vector)), *at;

	if (elem)
		in = ex_add(p, in, elem);
	if (joined || n == 1) {
		name(x, last, ex_add(p, ex_mul(p, block, l_int(b, size)), in));
		for (int i = 0; i + 1 < n; i++)
			name(x, it[i], l_int(b, 0));
		return;
	}
	if (const_multiple(last->extent, size)) {
		Expr *many = ex_dim(p, split_of(x, last->extent, size));
		Iter *q = let(x, last->name, split_of(x, last->extent, size),
			      ex_op2(p, IN_mod, block, many));

		name(x, last, ex_add(p, ex_mul(p, ex_iter(p, q), l_int(b, size)), in));
		at = ex_op2(p, IN_floordiv, block, many);
	} else {
		Expr *many = ex_dim(p, split_of(x, last->extent, vector));
		Dim *all = split_of(x, iters_points(g->p.k->ctx, it, n), vector);
		Iter *c = let(x, "c", all,
			      ex_add(p, ex_mul(p, block, l_int(b, size / vector)), chunk)),
		     *q = let(x, last->name, split_of(x, last->extent, vector),
			      ex_op2(p, IN_mod, ex_iter(p, c), many));

		in = ex_mul(p, ex_iter(p, q), l_int(b, vector));
		name(x, last, elem ? ex_add(p, in, elem) : in);
		at = ex_op2(p, IN_floordiv, ex_iter(p, c), many);
	}
	name_outer(x, it, n, ex_iter(p, let(x, "q", iters_points(g->p.k->ctx, it, n - 1), at)));
}

/* The condition BLOCK * SIZE + CHUNK * VECTOR < ALL; null if it always holds. */
static Expr *before_end(Gemm *g, Expr *block, int size, Expr *chunk, int vector, Dim *all)
{
	ExprPool *p = g->b.p;

	Expr *before;

	if (const_multiple(all, size))
		return NULL;
	before = ex_op2(p, IN_lt,
			ex_add(p, ex_mul(p, block, l_int(&g->b, size)),
			       ex_mul(p, chunk, l_int(&g->b, vector))),
			ex_dim(p, all));
	return before->kind == EX_CONST && before->i ? NULL : before;
}

/* ---- Fills ---- */

/* Fills a tile in the order of fragments. One row of it is MMA_ROWS of the free side by the terms
 * of one stage, contiguous in memory. */
static void emit_lanes(GpuGemm *gg, const TileOperand *o, Buf *buf, Expr *side_block, int side,
		       Expr *kb, Expr *slot)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	const Fragments *x = &o->fragments;
	const int cols = MMA_ROWS * gg->s.bk, rows = side / MMA_ROWS;
	Fill *f = NEW(b->arena, Fill);
	LNode *n = l_node(b, LN_FILL);
	Naming names = {.gg = gg};
	Expr *row, *in, *term;

	*f = (Fill){.row = l_iter(b, "r", dim_const(g->p.k->ctx, rows)),
		    .chunk = l_iter(b, "c", dim_const(g->p.k->ctx, cols / o->vector)),
		    .elem = l_iter(b, "e", dim_const(g->p.k->ctx, o->vector)),
		    .rows = rows,
		    .chunks = cols / o->vector,
		    .vector = o->vector,
		    .async = o->async};
	n->fill = f;
	b->tail = &n->body;
	name_at(&names, g->p.c.k, g->p.c.nk, x->joins, kb, gg->s.bk, l_int(b, 0), 1, NULL);
	term = ex_subst_iters(p, x->term, names.from, names.to, names.n);
	row = ex_iter(p, f->row);
	in = ex_add(p, ex_mul(p, ex_iter(p, f->chunk), l_int(b, o->vector)), ex_iter(p, f->elem));
	l_store(b, buf,
		ex_add(p,
		       ex_mul(p, ex_add(p, ex_mul(p, slot, l_int(b, rows)), row), l_int(b, cols)),
		       in),
		fragments_load(p, o->val, x, ex_add(p, ex_mul(p, side_block, l_int(b, rows)), row),
			       term, in),
		before_end(g, side_block, rows, row, 1, x->blocks));
	l_close(b, n);
}

static void emit_fill(GpuGemm *gg, const TileOperand *o, Buf *buf, Expr *side_block, int side,
		      Dim *side_all, Expr *kb, Expr *slot)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Ctx *ctx = g->p.k->ctx;
	const int cols = o->along ? gg->s.bk : side, rows = o->along ? side : gg->s.bk;
	Fill *f;
	LNode *n;
	Naming x = {.gg = gg};
	Expr *row, *chunk, *elem, *at, *guard = NULL;

	if (o->lanes) {
		emit_lanes(gg, o, buf, side_block, side, kb, slot);
		return;
	}
	f = NEW(b->arena, Fill);
	n = l_node(b, LN_FILL);
	f->rows = rows;
	f->vector = o->vector;
	f->chunks = cols / o->vector;
	f->async = o->async;
	f->row = l_iter(b, "r", dim_const(ctx, rows));
	f->chunk = l_iter(b, "c", dim_const(ctx, f->chunks));
	f->elem = l_iter(b, "e", dim_const(ctx, f->vector));
	n->fill = f;
	b->tail = &n->body;
	row = ex_iter(p, f->row);
	chunk = ex_iter(p, f->chunk);
	elem = f->vector > 1 ? ex_iter(p, f->elem) : NULL;
	name_at(&x, g->p.c.k, g->p.c.nk, o->k_joins, kb, gg->s.bk, o->along ? chunk : row,
		o->along ? o->vector : 1, o->along ? elem : NULL);
	name_at(&x, o->side, o->nside, o->side_joins, side_block, side, o->along ? row : chunk,
		o->along ? 1 : o->vector, o->along ? NULL : elem);
	guard = ex_and(p, guard,
		       before_end(g, kb, gg->s.bk, o->along ? chunk : row, o->along ? o->vector : 1,
				  g->p.kk));
	guard = ex_and(p, guard,
		       before_end(g, side_block, side, o->along ? row : chunk,
				  o->along ? 1 : o->vector, side_all));
	if (o->guard)
		guard = ex_and(p, guard, ex_subst_iters(p, o->guard, x.from, x.to, x.n));
	at = ex_add(p, ex_mul(p, ex_add(p, ex_mul(p, slot, l_int(b, rows)), row), l_int(b, cols)),
		    ex_mul(p, chunk, l_int(b, o->vector)));
	l_store(b, buf, elem ? ex_add(p, at, elem) : at,
		ex_subst_iters(p, o->val, x.from, x.to, x.n), guard);
	l_close(b, n);
}

/* ---- What follows ---- */

/* The guard of S depends on LAST. */
static bool guarded_along(const Gemm *g, const Stmt *s, const Iter *last)
{
	for (int i = 0; s->guard && i < s->niters; i++)
		if (product_iter(&g->p, s, s->iter[i]) == last &&
		    expr_has_iter(s->guard, s->iter[i]))
			return true;
	return false;
}

/* Elements of a chunk along LAST, the last iterator of a side: an access of every result and of the
 * staging buffer. */
static int result_chunk(Gemm *g, const Iter *last)
{
	/* elements of the staging buffer */
	int vector = VECTOR_BYTES / (dtype_info[ctype_dtype(g->p.c.ct)].bits / 8);

	for (int i = 0; i < g->p.nstmts; i++) {
		const Stmt *s = g->p.k->stmts.at[i];
		const Buf *o = s->out[0];
		Affine a;
		bool ok = false;

		if (!product_stores(&g->p, s))
			continue;
		if (i && guarded_along(g, s, last))
			return 1;
		while (vector > 1 && !ok) {
			ok = dtype_info[o->dtype].bits >= 8 &&
			     vector * dtype_info[o->dtype].bits <= VECTOR_BYTES * 8 &&
			     dim_multiple(g->p.k->ctx, last->extent, vector) &&
			     ex_affine(g->p.k->ctx, flat_index(g->p.k, o, s->widx), &a) &&
			     dim_multiple(g->p.k->ctx, a.base, vector);
			for (int j = 0; ok && j < a.n; j++)
				ok = product_iter(&g->p, s, a.iter[j]) == last
					     ? dim_equals(a.coef[j], 1)
					     : dim_multiple(g->p.k->ctx, a.coef[j], vector);
			vector = ok ? vector : vector / 2;
		}
	}
	return vector;
}

static Expr *in_block(Gemm *g, const Iter *block, int size, const Iter *in)
{
	ExprPool *p = g->b.p;

	return ex_add(p, ex_mul(p, ex_iter(p, (Iter *)(uintptr_t)block), l_int(&g->b, size)),
		      ex_iter(p, (Iter *)(uintptr_t)in));
}

/* Stores the results at the points of a staged part: every statement's value is an expression of
 * the sum and of what it reads. */
static void emit_results(Gemm *g, const Naming *x, Buf *staged, Expr *sum_at, Expr *guard,
			 Iter *elem, int vector, Expr *m, Expr *col)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Placing pl = {.g = g, .nvalues = g->p.k->bufs.n};

	pl.value = NEW_ARRAY(b->arena, pl.nvalues + 1, Expr *);
	for (int i = 0; i < g->p.nstmts; i++) {
		Stmt *s = g->p.k->stmts.at[i];
		Buf *o = s->out[0];
		Expr *val, *at, *cond = guard;
		LNode *loop = NULL;

		l_of(b, s);
		pl.s = s;
		val = i ? gemm_placed(&pl, s->val[0]) : ex_load(p, staged, &sum_at, 1);
		pl.value[o->id] = ex_round(p, o->dtype, val);
		if (!product_stores(&g->p, s))
			continue;
		at = gemm_placed(&pl, flat_index(g->p.k, o, s->widx));
		if (i && s->guard)
			cond = ex_and(p, cond,
				      ex_subst_iters(p, gemm_placed(&pl, s->guard), x->from, x->to,
						     x->n));
		if (vector > 1) {
			loop = l_loop(b, LOOP_VECTOR, elem, l_int(b, 0), l_int(b, vector), 1);
			loop->vector = vector;
		}
		gemm_does(g,
			  l_store(b, o, ex_subst_iters(p, at, x->from, x->to, x->n),
				  ex_subst_iters(p, val, x->from, x->to, x->n), cond),
			  s, PART_WRITE, m, col, NULL);
		if (loop)
			l_close(b, loop);
	}
}

static LNode *declare(GpuGemm *gg, const char *what, DType t, int d0, int d1, int d2,
		      Swizzle swizzle, int64_t at)
{
	LBuild *b = &gg->g.b;
	Ctx *c = gg->g.p.k->ctx;
	Dim *dims[3] = {dim_const(c, d0), dim_const(c, d1), dim_const(c, d2)};
	Buf *buf = kernel_temp(b->k, what, t, d2 ? 3 : d1 ? 2 : 1, dims);
	LNode *n = l_node(b, LN_LOCAL);

	buf->swizzle = swizzle;
	n->buf[0] = buf;
	n->idx = at >= 0 ? l_int(b, at) : NULL;
	return n;
}

/* The row of the tile that is row R of part S of the sums, both counted in units of VECTOR rows. */
static Expr *staged_row(Gemm *g, const Mma *m, Iter *r, Iter *s, int vector)
{
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Expr *unit = l_int(b, mma_part_rows(m) / vector), *row = ex_iter(p, r);

	return ex_add(
		p, ex_add(p, ex_op2(p, IN_mod, row, unit), ex_mul(p, ex_iter(p, s), unit)),
		ex_mul(p, ex_op2(p, IN_floordiv, row, unit), l_int(b, m->bm / m->wm / vector)));
}

/* Row ROW and column COL of the whole matrix exist. */
static Expr *in_matrix(Gemm *g, Expr *row, Expr *col)
{
	ExprPool *p = g->b.p;

	return ex_and(p, ex_op2(p, IN_lt, row, ex_dim(p, g->p.m)),
		      ex_op2(p, IN_lt, col, ex_dim(p, g->p.n)));
}

static void emit_copy_sums(GpuGemm *gg, Mma *m, Buf *staged, int ld, Iter *s)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	LNode *n = l_node(b, LN_COPY_SUMS);
	Expr *row, *col;

	n->buf[0] = staged;
	n->nout = 1;
	n->idx = ex_iter(p, s);
	n->step = ld;
	n->mma = m;
	n->var = l_iter(b, "r", dim_const(g->p.k->ctx, mma_part_rows(m) * m->wm));
	if (product_stores(&g->p, g->p.c.s))
		return;
	row = ex_add(p, ex_mul(p, ex_iter(p, gg->mb), l_int(b, m->bm)),
		     staged_row(g, m, n->var, s, 1));
	col = in_block(g, gg->nb, m->bn, m->col);
	n->guard = in_matrix(g, row, col);
	gemm_does(g, n, g->p.c.s, PART_WRITE, row, col, NULL);
}

/* Element ELEM (null: 0) of chunk CHUNK, of VECTOR elements each, from AT on. */
static Expr *in_chunk(Gemm *g, Expr *at, Expr *chunk, int vector, Expr *elem)
{
	ExprPool *p = g->b.p;

	at = ex_add(p, at, ex_mul(p, chunk, l_int(&g->b, vector)));
	return elem ? ex_add(p, at, elem) : at;
}

/* The epilogue: stages the sums in shared memory part by part, and stores the results from there.
 * Chunks are contiguous along the rows of the staging buffer; along its columns if it is
 * column-major. */
static void emit_parts(GpuGemm *gg, Mma *m)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Ctx *ctx = g->p.k->ctx;
	const bool down = m->by_columns;
	const int unit = mma_part_rows(m), rows = unit * m->wm, nparts = m->bm / m->wm / unit,
		  ld = (down ? rows : m->bn) + mma_pad(m),
		  vector = result_chunk(g,
					down ? g->p.c.m[g->p.c.nm - 1] : g->p.c.n[g->p.c.nn - 1]),
		  mvector = down ? vector : 1, nvector = down ? 1 : vector, nr = rows / mvector,
		  nc = m->bn / nvector;
	Iter *s = l_iter(b, "s", dim_const(ctx, nparts)),
	     *t = l_iter(b, "t", dim_const(ctx, nr * nc)), *r = l_iter(b, "r", dim_const(ctx, nr)),
	     *c = l_iter(b, "c", dim_const(ctx, nc)),
	     *i = l_iter(b, "i", dim_const(ctx, m->bm / mvector)),
	     *e = l_iter(b, "e", dim_const(ctx, vector)), *outer = down ? c : r,
	     *inner = down ? r : c;
	LNode *sl = l_loop(b, LOOP_SERIAL, s, l_int(b, 0), l_int(b, nparts), 1), *tl;
	Naming x = {.gg = gg};
	Expr *chunks = l_int(b, down ? nr : nc), *elem, *melem, *nelem, *guard, *at;
	Buf *staged = declare(gg, "staged", ctype_dtype(g->p.c.ct), (down ? m->bn : rows) * ld, 0,
			      0, SWIZZLE_NONE, 0)
			      ->buf[0];

	emit_copy_sums(gg, m, staged, ld, s);
	tl = l_loop(b, LOOP_GROUP, t, l_int(b, 0), l_int(b, nr * nc), 1);
	l_let(b, outer, ex_op2(p, IN_floordiv, ex_iter(p, t), chunks));
	l_let(b, inner, ex_op2(p, IN_mod, ex_iter(p, t), chunks));
	l_let(b, i, staged_row(g, m, r, s, mvector));
	guard = ex_and(p, before_end(g, ex_iter(p, gg->mb), m->bm, ex_iter(p, i), mvector, g->p.m),
		       before_end(g, ex_iter(p, gg->nb), m->bn, ex_iter(p, c), nvector, g->p.n));
	elem = vector > 1 ? ex_iter(p, e) : NULL;
	melem = down ? elem : NULL;
	nelem = down ? NULL : elem;
	name_at(&x, g->p.c.m, g->p.c.nm, product_joins_after(&g->p, g->p.c.m, g->p.c.nm),
		ex_iter(p, gg->mb), m->bm, ex_iter(p, i), mvector, melem);
	name_at(&x, g->p.c.n, g->p.c.nn, product_joins_after(&g->p, g->p.c.n, g->p.c.nn),
		ex_iter(p, gg->nb), m->bn, ex_iter(p, c), nvector, nelem);
	at = in_chunk(g, ex_mul(p, ex_iter(p, outer), l_int(b, ld)), ex_iter(p, inner), vector,
		      elem);
	emit_results(g, &x, staged, at, guard, e, vector,
		     in_chunk(g, ex_mul(p, ex_iter(p, gg->mb), l_int(b, m->bm)), ex_iter(p, i),
			      mvector, melem),
		     in_chunk(g, ex_mul(p, ex_iter(p, gg->nb), l_int(b, m->bn)), ex_iter(p, c),
			      nvector, nelem));
	l_close(b, tl);
	l_close(b, sl);
}

/* ---- The block ---- */

static Mma *new_mma(GpuGemm *gg)
{
	const BlockShape *s = &gg->s;
	LBuild *b = &gg->g.b;
	Ctx *c = gg->g.p.k->ctx;
	Mma *m = NEW(b->arena, Mma);

	*m = (Mma){.kind = s->kind,
		   .ct = gg->g.p.c.ct,
		   .bm = s->bm,
		   .bn = s->bn,
		   .bk = s->bk,
		   .wm = s->wm,
		   .wn = s->wn,
		   .tm = s->tm,
		   .tn = s->tn,
		   .a_along = gg->a.along,
		   .b_along = gg->b.along,
		   .by_columns = gg->by_columns};
	m->stage = l_iter(b, "stage", dim_const(c, s->stages));
	m->row = l_iter(b, "i", dim_const(c, s->bm));
	m->col = l_iter(b, "j", dim_const(c, s->bn));
	m->depth = l_iter(b, "k", dim_const(c, s->bk));
	return m;
}

static Buf *declare_tile(GpuGemm *gg, const char *what, const TileOperand *o, int side, int64_t at)
{
	const bool words = gg->s.kind && !o->along && dtype_info[o->type].bits == 32;

	if (o->lanes)
		return declare(gg, what, o->type, gg->s.stages, side / MMA_ROWS,
			       MMA_ROWS * gg->s.bk, SWIZZLE_FRAGMENTS, at)
			->buf[0];
	return declare(gg, what, o->type, gg->s.stages, o->along ? side : gg->s.bk,
		       o->along ? gg->s.bk : side, words ? SWIZZLE_WORDS : SWIZZLE_ROWS, at)
		->buf[0];
}

/* Opens the stage: a block for each tile of each matrix. */
static void open_blocks(GpuGemm *gg)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	Ctx *ctx = g->p.k->ctx;
	const BlockShape *s = &gg->s;
	Dim *nb = dim_ceildiv(ctx, g->p.n, dim_const(ctx, s->bn)),
	    *mb = dim_ceildiv(ctx, g->p.m, dim_const(ctx, s->bm));
	Iter *split[MAX_ITERS];
	int n = 0;

	l_of(b, g->p.c.s);
	l_stage(b, "product",
		dim_mul(ctx, iters_points(g->p.k->ctx, g->p.c.g, g->p.c.ng), dim_mul(ctx, nb, mb)));
	b->stage->threads = b->stage->group = gemm_gpu_threads(s);
	b->stage->scratch = dim_const(ctx, gemm_gpu_shared(gg, s));
	for (; n < g->p.c.ng; n++)
		split[n] = g->p.c.g[n];
	split[n++] = gg->nb = l_iter(b, "nb", nb);
	split[n++] = gg->mb = l_iter(b, "mb", mb);
	l_split(b, split, n, ex_iter(b->p, b->stage->var));
}

/* Declares the sums of M; ROW and COL are an element's position in the matrix. */
static void declare_sums(GpuGemm *gg, Mma *m, Expr *row, Expr *col)
{
	Gemm *g = &gg->g;
	LNode *node = declare(gg, "sums", ctype_dtype(g->p.c.ct), m->bm, m->bn, 0,
			      SWIZZLE_REGISTERS, -1);

	m->acc = node->buf[0];
	node->mma = m;
	node->guard = in_matrix(g, row, col);
	gemm_does(g, node, g->p.c.s, PART_INIT, row, col, NULL);
}

/* The pipeline over blocks of k: it fills the tiles of M, and M adds their products to the sums at
 * ROW and COL. */
static void emit_pipeline(GpuGemm *gg, Mma *m, Expr *row, Expr *col)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Ctx *ctx = g->p.k->ctx;
	Dim *kb = dim_ceildiv(ctx, g->p.kk, dim_const(ctx, m->bk));
	Iter *it = l_iter(b, "kb", kb);
	Expr *term = in_block(g, it, m->bk, m->depth);
	LNode *pipeline = l_node(b, LN_PIPELINE), *node;

	pipeline->var = it;
	pipeline->lo = l_int(b, 0);
	pipeline->hi = ex_dim(p, kb);
	pipeline->stages = gg->s.stages;
	pipeline->stage = m->stage;
	b->tail = &pipeline->body;
	emit_fill(gg, &gg->a, m->a, ex_iter(p, gg->mb), m->bm, g->p.m, ex_iter(p, it),
		  ex_iter(p, m->stage));
	emit_fill(gg, &gg->b, m->b, ex_iter(p, gg->nb), m->bn, g->p.n, ex_iter(p, it),
		  ex_iter(p, m->stage));
	node = l_node(b, LN_MMA);
	node->mma = m;
	node->guard = ex_and(p, in_matrix(g, row, col), ex_op2(p, IN_lt, term, ex_dim(p, g->p.kk)));
	gemm_does(g, node, g->p.c.s, PART_TERM, row, col, term);
	l_close(b, pipeline);
}

void gemm_gpu_emit(GpuGemm *gg)
{
	const BlockShape *s = &gg->s;
	Expr *row, *col;
	Mma *m;

	open_blocks(gg);
	m = new_mma(gg);
	row = in_block(&gg->g, gg->mb, s->bm, m->row);
	col = in_block(&gg->g, gg->nb, s->bn, m->col);
	declare_sums(gg, m, row, col);
	m->a = declare_tile(gg, "a_tile", &gg->a, s->bm, 0);
	m->b = declare_tile(gg, "b_tile", &gg->b, s->bn,
			    (int64_t)s->stages * s->bm * s->bk * (dtype_info[gg->a.type].bits / 8));
	emit_pipeline(gg, m, row, col);
	emit_parts(gg, m);
}
