/* SPDX-License-Identifier: Apache-2.0 */
/* The loop tree of a contraction's block on a GPU: the pipeline with its copies, the barriers
 * between them (TILE_SYNC), and the epilogue. */
#include "passes/schedule/gpu/gemm_impl.h"

/* A substitution for the iterators of a copy or a result: FROM[i] becomes TO[i]. */
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

static Dim *split_of(Naming *x, Dim *d, int n)
{
	Ctx *c = x->gg->g.p.k->ctx;

	return dim_floordiv(c, d, dim_const(c, n));
}

/* Substitutes for IT[0..n) a div/mod split of FLAT. */
static void name_split(Naming *x, Iter *const *it, int n, Expr *flat)
{
	Expr *to[MAX_ITERS];

	iters_split(x->gg->g.b.p, it, n, flat, to);
	for (int i = 0; i < n; i++)
		name(x, it[i], to[i]);
}

/*
 * Substitutes for IT[0..n) the position of element ELEM (null: 0) of chunk CHUNK, of VECTOR
 * elements each, in block BLOCK of SIZE elements: one flat index if they are JOINED, else an index
 * each. Chunks do not cross the end of the last iterator; nor do blocks if SIZE divides its extent.
 */
static void name_at(Naming *x, Iter *const *it, int n, bool joined, Expr *block, int size,
		    Expr *chunk, int vector, Expr *elem)
{
	LBuild *b = &x->gg->g.b;
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
	if (gpu_is_multiple(last->extent, size)) {
		Expr *many = ex_dim(p, split_of(x, last->extent, size)),
		     *q = ex_op2(p, IN_mod, block, many);

		name(x, last, ex_add(p, ex_mul(p, q, l_int(b, size)), in));
		at = ex_op2(p, IN_floordiv, block, many);
	} else {
		Expr *many = ex_dim(p, split_of(x, last->extent, vector)),
		     *c = ex_add(p, ex_mul(p, block, l_int(b, size / vector)), chunk),
		     *q = ex_op2(p, IN_mod, c, many);

		in = ex_mul(p, q, l_int(b, vector));
		name(x, last, elem ? ex_add(p, in, elem) : in);
		at = ex_op2(p, IN_floordiv, c, many);
	}
	name_split(x, it, n - 1, at);
}

/* The condition BLOCK * SIZE + CHUNK * VECTOR < ALL; null if it always holds. */
static Expr *before_end(Gemm *g, Expr *block, int size, Expr *chunk, int vector, Dim *all)
{
	ExprPool *p = g->b.p;

	Expr *before;

	if (gpu_is_multiple(all, size))
		return NULL;
	before = ex_op2(p, IN_lt,
			ex_add(p, ex_mul(p, block, l_int(&g->b, size)),
			       ex_mul(p, chunk, l_int(&g->b, vector))),
			ex_dim(p, all));
	return before->kind == EX_CONST && before->i ? NULL : before;
}

/* ---- Copies ---- */

/* The pieces of a tile of ROWS by COLS elements, in buffer SLOT. */
static TileNode *add_copy(GpuGemm *gg, const TileOperand *o, Buf *to, int rows, int cols)
{
	static const char *const names[] = {"r", "c", "e"};
	ExprPool *p = gg->g.b.p;
	TileNode *n = gpu_op(&gg->g.b, TILE_COPY, to, names,
			     (int[]){rows, cols / o->vector, o->vector}, 3);

	n->vector = o->vector;
	n->async = o->async;
	n->idx[n->nidx++] = ex_iter(p, gg->slot);
	n->idx[n->nidx++] = ex_iter(p, n->it[0]);
	n->idx[n->nidx++] = ex_add(p, ex_mul(p, ex_iter(p, n->it[1]), l_int(&gg->g.b, o->vector)),
				   o->vector > 1 ? ex_iter(p, n->it[2]) : l_int(&gg->g.b, 0));
	return n;
}

/* Fills a tile in the order of fragments. One row of it is MMA_ROWS of the free side by the terms
 * of one stage, contiguous in memory. */
static void emit_fragments(GpuGemm *gg, const TileOperand *o, Buf *buf, Expr *side_block, int side,
			   Expr *kb)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	const Fragments *x = &o->fragments;
	const int rows = side / MMA_ROWS;
	TileNode *n = add_copy(gg, o, buf, rows, MMA_ROWS * gg->s.bk);
	Naming names = {.gg = gg};
	Expr *row = ex_iter(p, n->it[0]), *term;

	name_at(&names, g->p.c.k, g->p.c.nk, x->joins, kb, gg->s.bk, l_int(b, 0), 1, NULL);
	term = ex_subst_iters(p, x->term, names.from, names.to, names.n);
	n->val = fragments_load(p, o->val, x, ex_add(p, ex_mul(p, side_block, l_int(b, rows)), row),
				term, n->idx[2]);
	n->guard = before_end(g, side_block, rows, row, 1, x->blocks);
	gpu_add_op(&gg->g.b, n);
}

static void emit_copy(GpuGemm *gg, const TileOperand *o, Buf *buf, Expr *side_block, int side,
		      Dim *side_all, Expr *kb)
{
	Gemm *g = &gg->g;
	ExprPool *p = g->b.p;
	Naming x = {.gg = gg};
	Expr *row, *chunk, *elem, *guard;
	TileNode *n;

	if (o->lanes) {
		emit_fragments(gg, o, buf, side_block, side, kb);
		return;
	}
	n = add_copy(gg, o, buf, o->along ? side : gg->s.bk, o->along ? gg->s.bk : side);
	row = ex_iter(p, n->it[0]);
	chunk = ex_iter(p, n->it[1]);
	elem = o->vector > 1 ? ex_iter(p, n->it[2]) : NULL;
	name_at(&x, g->p.c.k, g->p.c.nk, o->k_joins, kb, gg->s.bk, o->along ? chunk : row,
		o->along ? o->vector : 1, o->along ? elem : NULL);
	name_at(&x, o->side, o->nside, o->side_joins, side_block, side, o->along ? row : chunk,
		o->along ? 1 : o->vector, o->along ? NULL : elem);
	guard = before_end(g, kb, gg->s.bk, o->along ? chunk : row, o->along ? o->vector : 1,
			   g->p.kk);
	guard = ex_and(p, guard,
		       before_end(g, side_block, side, o->along ? row : chunk,
				  o->along ? 1 : o->vector, side_all));
	if (o->guard)
		guard = ex_and(p, guard, ex_subst_iters(p, o->guard, x.from, x.to, x.n));
	n->guard = guard;
	n->val = ex_subst_iters(p, o->val, x.from, x.to, x.n);
	gpu_add_op(&gg->g.b, n);
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
	int vector = VECTOR_BYTES / ctype_bytes(g->p.c.ct);

	for (int i = 0; i < g->p.nstmts; i++) {
		const Stmt *s = g->p.k->stmts.at[g->p.first + i];
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

/* Row ROW and column COL of the whole matrix exist. */
static Expr *in_matrix(Gemm *g, Expr *row, Expr *col)
{
	ExprPool *p = g->b.p;

	return ex_and(p, ex_op2(p, IN_lt, row, ex_dim(p, g->p.m)),
		      ex_op2(p, IN_lt, col, ex_dim(p, g->p.n)));
}

/* ---- The epilogue ---- */

enum {
	MOST_HELD = 4,  /* partial sums of an element that are loaded at once */
	HELD_LOADS = 64 /* registers of a thread for these */
};

/* A part of the sums, MMA_ROWS of each warp, in shared memory: rows of LD elements, or columns. */
typedef struct StagedSums {
	Buf *buf;
	int number, rows; /* of the part */
	bool down;        /* contiguous along rows */
	int mv, nv;       /* rows and columns of a vector of results: one of them is 1 */
	/* the whole sums of partial ones: BUF is in registers, in vectors, as are NHELD parts in
	 * HELD */
	Buf *held[MOST_HELD];
	int nheld;
} StagedSums;

/* The row of the tile that is row R of the staged ones, both counted in units of VECTOR rows. */
static Expr *staged_row(GpuGemm *gg, const StagedSums *st, Expr *r, int vector)
{
	LBuild *b = &gg->g.b;
	ExprPool *p = b->p;
	const int unit = MMA_ROWS / vector;

	return ex_add(p,
		      ex_add(p, ex_op2(p, IN_mod, r, l_int(b, unit)), l_int(b, st->number * unit)),
		      ex_mul(p, ex_op2(p, IN_floordiv, r, l_int(b, unit)),
			     l_int(b, gg->s.bm / gg->s.wm / vector)));
}

/* Copies the part of the sums to shared memory. */
static void stage_sums(GpuGemm *gg, const StagedSums *st)
{
	static const char *const names[] = {"w", "r", "j"};
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	const BlockShape *s = &gg->s;
	const TileGrid grid = gemm_gpu_grid(gg);
	const int each = grid.every_column ? 4 : 2, columns = s->bn / s->wn;
	TileNode *n = gpu_op(&gg->g.b, TILE_MAP, st->buf, names, (int[]){s->wm, MMA_ROWS, s->bn},
			     3);
	TileLayout *l = &n->points;
	Expr *w = ex_iter(p, n->it[0]), *r = ex_iter(p, n->it[1]), *j = ex_iter(p, n->it[2]),
	     *row = ex_add(p, ex_mul(p, w, l_int(b, MMA_ROWS)), r), *at[2];
	LNode *node;

	/* a lane's adjacent columns are adjacent registers */
	l->rank = 3;
	layout_add(l, 0, AT_WARP, s->wm, 1, 0);
	layout_add(l, 2, AT_WARP, s->wn, columns, 0);
	layout_add(l, 2, AT_REGISTER, columns / (4 * each), 4 * each, 0);
	layout_add(l, 1, AT_REGISTER, 2, grid.every_row ? 1 : 8, 0);
	layout_add(l, 1, AT_LANE, 8, grid.every_row ? 2 : 1, 0);
	layout_add(l, 2, AT_LANE, 4, each, 0);
	layout_add(l, 2, AT_REGISTER, each, 1, 0);
	n->nidx = 2;
	n->idx[st->down] = row;
	n->idx[!st->down] = j;
	at[0] = ex_add(p, ex_mul(p, w, l_int(b, s->bm / s->wm)),
		       ex_add(p, r, l_int(b, MMA_ROWS * st->number)));
	at[1] = j;
	n->val = ex_load(p, gg->sums, at, 2);
	node = gpu_add_op(&gg->g.b, n);
	if (product_stores(&g->p, g->p.c.s))
		return;
	at[0] = ex_add(p, ex_mul(p, ex_iter(p, gg->mb), l_int(b, s->bm)), at[0]);
	at[1] = in_block(g, gg->nb, s->bn, n->it[2]);
	node->store.guard = in_matrix(g, at[0], at[1]);
	gemm_does(g, node, g->p.c.s, PART_WRITE, at[0], at[1], NULL);
}

/* Element ELEM (null: 0) of chunk CHUNK, of VECTOR elements each, from AT on. */
static Expr *in_chunk(Gemm *g, Expr *at, Expr *chunk, int vector, Expr *elem)
{
	ExprPool *p = g->b.p;

	at = ex_add(p, at, ex_mul(p, chunk, l_int(&g->b, vector)));
	return elem ? ex_add(p, at, elem) : at;
}

/* What a result at the points of an operation is made of: the substitution for iterators, the
 * staged sum, the row and column of the matrix, and where they exist. */
typedef struct ResultPoint {
	Naming x;
	Expr *sum, *m, *n, *guard;
} ResultPoint;

/* The points of N, an operation over staged rows (columns if they are contiguous along rows),
 * vectors of these, and their elements. */
static ResultPoint point_of(GpuGemm *gg, const StagedSums *st, const TileNode *n)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	const int vector = st->mv * st->nv;
	Expr *outer = ex_iter(p, n->it[0]), *inner = ex_iter(p, n->it[1]),
	     *elem = vector > 1 ? ex_iter(p, n->it[2]) : NULL, *melem = st->down ? elem : NULL,
	     *nelem = st->down ? NULL : elem, *col = st->down ? outer : inner,
	     *i = staged_row(gg, st, st->down ? inner : outer, st->mv), *mb = ex_iter(p, gg->mb),
	     *nb = ex_iter(p, gg->nb),
	     *at[] = {outer, st->nheld ? inner : in_chunk(g, l_int(b, 0), inner, vector, elem),
		      ex_iter(p, n->it[2])};
	ResultPoint r = {.x = {.gg = gg}};

	r.guard = ex_and(p, before_end(g, mb, gg->s.bm, i, st->mv, g->p.m),
			 before_end(g, nb, gg->s.bn, col, st->nv, g->p.n));
	name_at(&r.x, g->p.c.m, g->p.c.nm, product_joins_after(&g->p, g->p.c.m, g->p.c.nm), mb,
		gg->s.bm, i, st->mv, melem);
	name_at(&r.x, g->p.c.n, g->p.c.nn, product_joins_after(&g->p, g->p.c.n, g->p.c.nn), nb,
		gg->s.bn, col, st->nv, nelem);
	r.sum = ex_load(p, st->buf, at, st->nheld ? 3 : 2);
	r.m = in_chunk(g, ex_mul(p, mb, l_int(b, gg->s.bm)), i, st->mv, melem);
	r.n = in_chunk(g, ex_mul(p, nb, l_int(b, gg->s.bn)), col, st->nv, nelem);
	return r;
}

/* The points of a staged part: rows, vectors of columns, and their elements; or columns, and
 * vectors of rows. */
static TileNode *over_results(GpuGemm *gg, const StagedSums *st, TileOp op, Buf *to)
{
	static const char *const names[] = {"r", "c", "e"};
	const int vector = st->mv * st->nv, rows = st->rows / st->mv, columns = gg->s.bn / st->nv,
		  extent[] = {st->down ? columns : rows, st->down ? rows : columns, vector};
	TileNode *n = gpu_op(&gg->g.b, op, to, names, extent, 3);

	n->points = tile_pieces(n, (PieceOrder){.rows = 1, .run = extent[1]},
				gemm_gpu_threads(&gg->s) / WARP);
	gpu_write(&gg->g.b, n, to ? 3 : 0);
	return n;
}

/* Stores the results of the staged part: every statement's value is an expression of
 * the sum and of what it reads. */
static void emit_results(GpuGemm *gg, const StagedSums *st)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Placing pl = {.g = g, .nvalues = g->p.k->bufs.n};
	TileNode *points = over_results(gg, st, TILE_MAP, NULL);
	const ResultPoint r = point_of(gg, st, points);
	Expr *sum = r.sum;

	pl.value = NEW_ARRAY(b->arena, pl.nvalues + 1, Expr *);
	for (int i = 0; i < g->p.nstmts; i++) {
		Stmt *s = g->p.k->stmts.at[g->p.first + i];
		Buf *o = s->out[0];
		TileNode *n;
		Expr *val;

		l_of(b, s);
		pl.s = s;
		val = i ? gemm_placed(&pl, s->val[0]) : sum;
		pl.value[o->id] = ex_round(p, o->dtype, val);
		if (!product_stores(&g->p, s))
			continue;
		n = arena_copy(b->arena, points, sizeof *n);
		n->to = o;
		n->nidx = 1;
		n->idx[0] = ex_subst_iters(p, gemm_placed(&pl, flat_index(g->p.k, o, s->widx)),
					   r.x.from, r.x.to, r.x.n);
		n->val = ex_subst_iters(p, val, r.x.from, r.x.to, r.x.n);
		n->guard = r.guard;
		if (i && s->guard)
			n->guard = ex_and(p, n->guard,
					  ex_subst_iters(p, gemm_placed(&pl, s->guard), r.x.from,
							 r.x.to, r.x.n));
		gemm_does(g, gpu_add_op(&gg->g.b, n), s, PART_WRITE, r.m, r.n, NULL);
	}
}

static void sync(GpuGemm *gg, TileSync kind)
{
	l_of(&gg->g.b, gg->g.p.c.s);
	gpu_add_op(&gg->g.b, gpu_op(&gg->g.b, TILE_SYNC, NULL, NULL, NULL, 0))->op->sync = kind;
}

/* The parts of the sums of G, from the first one on. Vectors are contiguous along the rows of the
 * staging buffer; along its columns if it is column-major. */
static StagedSums staged_sums(GpuGemm *gg)
{
	const Contraction *c = &gg->g.p.c;
	const bool down = gg->by_columns;
	const int vector = result_chunk(&gg->g, down ? c->m[c->nm - 1] : c->n[c->nn - 1]);

	return (StagedSums){.rows = MMA_ROWS * gg->s.wm,
			    .down = down,
			    .mv = down ? vector : 1,
			    .nv = down ? 1 : vector};
}

/* The epilogue: stages the sums in shared memory part by part, and stores the results from there.
 * The memory is that of the operands' tiles. */
static void emit_parts(GpuGemm *gg)
{
	Gemm *g = &gg->g;
	const BlockShape *s = &gg->s;
	StagedSums st = staged_sums(gg);
	const int64_t extent[] = {st.down ? s->bn : st.rows, st.down ? st.rows : s->bn};
	const DType t = ctype_dtype(g->p.c.ct);
	const int bytes = dtype_bytes(t), parts = s->bm / st.rows;
	TileLayout l = {.rank = 2};

	layout_add(&l, 0, AT_ADDRESS, extent[0], 1, (int64_t)gemm_gpu_staged_row(gg, s) * bytes);
	layout_add(&l, 1, AT_ADDRESS, extent[1], 1, bytes);
	if ((gg->a.async || gg->b.async) && !s->producers)
		sync(gg, TILE_WAIT);
	for (st.number = 0; st.number < parts; st.number++) {
		st.buf = gpu_shared_tile(&g->b, "staged", t, extent, &l, 0);
		sync(gg, TILE_BARRIER);
		stage_sums(gg, &st);
		sync(gg, TILE_BARRIER);
		emit_results(gg, &st);
	}
}

/* ---- The block ---- */

/* The tile of operand O, which begins at byte AT. */
static Buf *declare_tile(GpuGemm *gg, const char *name, const TileOperand *o, int side, int64_t at)
{
	const OperandTile t = gpu_operand_tile(o, gg->s.kind, side, gg->s.bk);

	return gpu_operand_declare(&gg->g.b, name, o, &t, gg->s.kind, gg->s.stages, at);
}

/* MANY mbarriers, from byte AT on. */
static Buf *declare_mbarriers(GpuGemm *gg, const char *what, int many, int64_t at)
{
	const int64_t extent[] = {many};
	TileLayout l = {.rank = 1};

	layout_add(&l, 0, AT_ADDRESS, extent[0], 1, MBARRIER_BYTES);
	return gpu_shared_tile(&gg->g.b, what, DT_I64, extent, &l, at);
}

/* Sets the matrix and the tile's coordinates of block BLOCK, of all or of those of one part. */
static void split_blocks(GpuGemm *gg, Expr *block)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	Ctx *ctx = g->p.k->ctx;
	const BlockShape *s = &gg->s;
	Dim *nb = dim_ceildiv(ctx, g->p.n, dim_const(ctx, s->bn)),
	    *mb = dim_ceildiv(ctx, g->p.m, dim_const(ctx, s->bm));
	const int raster = s->raster > 1 ? s->raster : 0;
	Iter *split[MAX_ITERS + 3], *group = NULL, *in = NULL;
	int n = 0;

	for (int i = 0; i < g->p.c.ng; i++)
		if (g->p.c.g[i] != gg->slice)
			split[n++] = g->p.c.g[i];
	gg->mb = l_iter(b, "mb", mb);
	if (raster)
		split[n++] = group = l_iter(b, "group",
					    dim_floordiv(ctx, mb, dim_const(ctx, raster)));
	split[n++] = gg->nb = l_iter(b, "nb", nb);
	split[n++] = in = raster ? l_iter(b, "row", dim_const(ctx, raster)) : gg->mb;
	if (gg->slice)
		split[n++] = gg->slice;
	l_split(b, split, n, block);
	if (raster)
		l_let(b, gg->mb, in_block(g, group, raster, in));
}

/* Opens the stage: a block for each tile of each matrix; the parts of a tile are adjacent. */
static void open_blocks(GpuGemm *gg)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	Ctx *ctx = g->p.k->ctx;
	const BlockShape *s = &gg->s;

	l_of(b, g->p.c.s);
	l_stage(b, "product",
		dim_mul(ctx, iters_points(g->p.k->ctx, g->p.c.g, g->p.c.ng),
			dim_mul(ctx, dim_ceildiv(ctx, g->p.n, dim_const(ctx, s->bn)),
				dim_ceildiv(ctx, g->p.m, dim_const(ctx, s->bm)))));
	b->stage->block.threads = b->stage->block.group = gemm_gpu_threads(s);
	b->stage->block.producers = s->producers;
	b->stage->scratch = dim_const(ctx, gemm_gpu_shared(gg, s));
	split_blocks(gg, ex_iter(b->p, b->stage->var));
}

/* Clears the sums; ROW and COL are an element's position in the matrix. */
static void emit_start(GpuGemm *gg)
{
	static const char *const names[] = {"i", "j"};
	Gemm *g = &gg->g;
	const TileGrid grid = gemm_gpu_grid(gg);
	const int extent[] = {gg->s.bm, gg->s.bn};
	TileNode *n = gpu_op(&gg->g.b, TILE_MAP, gg->sums, names, extent, 2);
	Expr *row = in_block(g, gg->mb, gg->s.bm, n->it[0]),
	     *col = in_block(g, gg->nb, gg->s.bn, n->it[1]);
	LNode *node;

	n->points = tile_sums(&grid, gg->s.bm, gg->s.bn);
	gpu_write(&g->b, n, 2);
	n->val = ex_num(g->b.p, g->p.c.ct, 0);
	node = gpu_add_op(&gg->g.b, n);
	node->store.guard = in_matrix(g, row, col);
	gemm_does(g, node, g->p.c.s, PART_INIT, row, col, NULL);
}

/* The pipeline over blocks of k: it fills the tiles A and B, and adds their products to the
 * sums. */
static void emit_pipeline(GpuGemm *gg, Buf *a, Buf *b, Buf *full, Buf *empty)
{
	static const char *const names[] = {"i", "j", "k"};
	enum { HELD = 64 }; /* registers of a thread for loads that are in flight */
	Gemm *g = &gg->g;
	ExprPool *p = g->b.p;
	const BlockShape *s = &gg->s;
	Dim *blocks = dim_ceildiv(g->p.k->ctx, g->p.kk, dim_const(g->p.k->ctx, s->bk));
	Iter *kb = l_iter(&g->b, "kb", blocks);
	LNode **first = g->b.tail, *loop, *node;
	TileNode *n;
	Expr *at[3];

	emit_start(gg);
	gg->slot = l_iter(&g->b, "slot", dim_const(g->p.k->ctx, s->stages));
	loop = l_loop(&g->b, LOOP_SERIAL, kb, l_int(&g->b, 0), ex_dim(p, blocks), 1);
	emit_copy(gg, &gg->a, a, ex_iter(p, gg->mb), s->bm, g->p.m, ex_iter(p, kb));
	emit_copy(gg, &gg->b, b, ex_iter(p, gg->nb), s->bn, g->p.n, ex_iter(p, kb));
	n = gpu_op(&gg->g.b, TILE_DOT, gg->sums, names, (int[]){s->bm, s->bn, s->bk}, 3);
	n->mma = s->kind;
	n->adds = true;
	gpu_write(&g->b, n, 2);
	n->val = gpu_operand_at(&g->b, &gg->a, a, ex_iter(p, gg->slot), n->it[0], n->it[2]);
	n->by = gpu_operand_at(&g->b, &gg->b, b, ex_iter(p, gg->slot), n->it[1], n->it[2]);
	at[0] = in_block(g, gg->mb, s->bm, n->it[0]);
	at[1] = in_block(g, gg->nb, s->bn, n->it[1]);
	at[2] = in_block(g, kb, s->bk, n->it[2]);
	node = gpu_add_op(&gg->g.b, n);
	node->store.guard = ex_and(p, in_matrix(g, at[0], at[1]),
				   ex_op2(p, IN_lt, at[2], ex_dim(p, g->p.kk)));
	gemm_does(g, node, g->p.c.s, PART_TERM, at[0], at[1], at[2]);
	l_close(&g->b, loop);
	gpu_tile_pipeline(&g->b, loop, first, gg->slot, s->stages, HELD, full, empty);
	while (*g->b.tail)
		g->b.tail = &(*g->b.tail)->next;
}

/* ---- Partial sums ---- */

/* Declares the registers for the whole sums of a part of the tile, and for some partial ones. */
static void declare_whole(GpuGemm *gg, StagedSums *st)
{
	LBuild *b = &gg->g.b;
	const TileNode *n = over_results(gg, st, TILE_MAP, NULL);
	const DType t = gg->g.p.c.s->val[0]->load.buf->dtype;
	int64_t extent[3];

	for (int i = 0; i < 3; i++)
		dim_is_const(n->it[i]->extent, &extent[i]);
	st->buf = gpu_tile(b, "whole", t, extent, &n->points);
	st->nheld = MOST_HELD;
	while (st->nheld > 1 && st->nheld * layout_count(&n->points, AT_REGISTER) > HELD_LOADS)
		st->nheld /= 2;
	for (int i = 0; i < st->nheld; i++)
		st->held[i] = gpu_tile(b, "held", t, extent, &n->points);
}

/* Loads the partial sums of part AT to HELD; none where there is no such part. */
static void load_slice(GpuGemm *gg, const StagedSums *st, Expr *at, Buf *held)
{
	Gemm *g = &gg->g;
	ExprPool *p = g->b.p;
	Iter *slice = g->p.c.k[0];
	Placing pl = {.g = g, .s = g->p.c.s};
	const Expr *of = g->p.c.s->val[0];
	TileNode *n = over_results(gg, st, TILE_COPY, held);
	ResultPoint r = point_of(gg, st, n);
	Expr *flat = gemm_placed(&pl, flat_index(g->p.k, of->load.buf, of->load.idx));

	name(&r.x, slice, at);
	n->vector = st->mv * st->nv;
	flat = ex_subst_iters(p, flat, r.x.from, r.x.to, r.x.n);
	n->val = ex_load(p, of->load.buf, &flat, 1);
	n->guard = r.guard;
	if (!dim_multiple(g->p.k->ctx, slice->extent, st->nheld))
		n->guard = ex_and(p, n->guard, ex_op2(p, IN_lt, at, ex_dim(p, slice->extent)));
	gpu_add_op(&gg->g.b, n);
}

/* Sets the whole sums: the sums of all parts, in their order. */
static void add_slices(GpuGemm *gg, const StagedSums *st)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	ExprPool *p = b->p;
	Iter *slice = g->p.c.k[0];
	TileNode *n = over_results(gg, st, TILE_MAP, st->buf);
	ResultPoint r = point_of(gg, st, n);
	LNode *node, *loop;

	l_of(b, g->p.c.s);
	n->val = ex_num(p, g->p.c.ct, 0);
	node = gpu_add_op(&gg->g.b, n);
	node->store.guard = r.guard;
	gemm_does(g, node, g->p.c.s, PART_INIT, r.m, r.n, NULL);
	loop = l_loop(b, LOOP_SERIAL, slice, l_int(b, 0), ex_dim(p, slice->extent), st->nheld);
	for (int i = 0; i < st->nheld; i++)
		load_slice(gg, st, ex_add(p, ex_iter(p, slice), l_int(b, i)), st->held[i]);
	for (int i = 0; i < st->nheld; i++) {
		Expr *at = ex_add(p, ex_iter(p, slice), l_int(b, i));

		n = over_results(gg, st, TILE_FOLD, st->buf);
		n->red = MONOID_sum;
		n->adds = true;
		n->val = ex_load(p, st->held[i], n->idx, 3);
		r = point_of(gg, st, n);
		node = gpu_add_op(&gg->g.b, n);
		node->store.guard = r.guard;
		if (!dim_multiple(g->p.k->ctx, slice->extent, st->nheld))
			node->store.guard = ex_and(p, node->store.guard,
						   ex_op2(p, IN_lt, at, ex_dim(p, slice->extent)));
		gemm_does(g, node, g->p.c.s, PART_TERM, r.m, r.n, at);
	}
	l_close(b, loop);
	if (product_stores(&g->p, g->p.c.s))
		return;
	/* where they are from now on, as what follows reads them */
	n = over_results(gg, st, TILE_MAP, st->buf);
	n->val = ex_load(p, st->buf, n->idx, 3);
	r = point_of(gg, st, n);
	node = gpu_add_op(&gg->g.b, n);
	node->store.guard = r.guard;
	gemm_does(g, node, g->p.c.s, PART_WRITE, r.m, r.n, NULL);
}

/* The last block of those of one tile combines its parts. */
static void emit_whole(GpuGemm *gg, const GpuGemm *part)
{
	Gemm *g = &gg->g;
	LBuild *b = &g->b;
	StagedSums st = staged_sums(gg);
	Iter *tile = l_iter(b, "tile",
			    dim_floordiv(g->p.k->ctx, b->stage->extent, part->slice->extent));
	LNode *last = l_loop(b, LOOP_LAST, tile, l_int(b, 0), ex_dim(b->p, part->slice->extent), 1);
	split_blocks(gg, ex_iter(b->p, tile));
	for (; st.number < gg->s.bm / st.rows; st.number++) {
		declare_whole(gg, &st);
		add_slices(gg, &st);
		emit_results(gg, &st);
	}
	l_close(b, last);
}

void gemm_gpu_emit(GpuGemm *gg, GpuGemm *whole)
{
	const BlockShape *s = &gg->s;
	const TileGrid grid = gemm_gpu_grid(gg);
	const int64_t extent[] = {s->bm, s->bn};
	const TileLayout sums = tile_sums(&grid, s->bm, s->bn);
	Buf *a, *b, *full = NULL, *empty = NULL;

	open_blocks(gg);
	gg->sums = gpu_tile(&gg->g.b, "sums", ctype_dtype(gg->g.p.c.ct), extent, &sums);
	a = declare_tile(gg, "a_tile", &gg->a, s->bm, 0);
	b = declare_tile(gg, "b_tile", &gg->b, s->bn, gemm_gpu_tiles(s, &gg->a, s->bm));
	if (s->producers) {
		const int64_t end = gemm_gpu_shared(gg, s), each = (int64_t)s->stages * MBARRIER_BYTES;

		empty = declare_mbarriers(gg, "empty", s->stages, end - 2 * each - MBARRIER_BYTES);
		full = declare_mbarriers(gg, "full", s->stages + 1, end - each - MBARRIER_BYTES);
	}
	emit_pipeline(gg, a, b, full, empty);
	emit_parts(gg);
	if (!whole)
		return;
	whole->g.b = gg->g.b;
	emit_whole(whole, gg);
}
