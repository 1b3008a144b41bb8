/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposes that keep rows whole whose length is known only at run time. In the source, rows are
 * consecutive along iterator A; in the destination, rows along B are. A block has some rows along A
 * and, of each contiguous range of the destination, a part of fixed size, wherever rows begin in
 * it: X counts elements along B and rows together. So tiles and stores are as for known sizes. The
 * source of such a part is, for each B, a contiguous range of A's rows, which a warp reads, peeled
 * to the boundary of a sector. Elements of the first and the last B that belong to the parts of
 * other blocks are left out.
 */
#include "passes/schedule/gpu/transpose_impl.h"

#include <assert.h>

typedef struct TransposeRows {
	TransposePlan *t; /* the plan for known sizes */
	TransposePlan to; /* the plan in which X replaces the row and B */
	Points p;
	Iter *row, *a, *b;
	int ia, ix;  /* indices of A and X among TO's iterators */
	int64_t pad; /* elements of padding behind each part in the tile: a row, at most */
	Expr *a0;    /* the tile's first index of A */
	Expr *x0;    /* a warp fetches LEN elements of the part from X0 on */
	int64_t len;
} TransposeRows;

static Expr *over_x(const TransposeRows *r, Expr *e)
{
	ExprPool *p = r->t->b->p;
	Expr *x = ex_iter(p, r->p.it[r->ix]), *row = ex_dim(p, r->row->extent),
	     *with[] = {ex_op2(p, IN_mod, x, row), ex_op2(p, IN_floordiv, x, row)};
	Iter *it[] = {r->row, r->b};

	return ex_subst_iters(p, e, it, with, 2);
}

/* Expresses the iterators of S by X: those that were merged into the row and into B are div/mod
 * splits of X. */
static void place(const TransposeRows *r, const Stmt *s)
{
	ExprPool *p = r->t->b->p;
	Expr *x = ex_iter(p, r->p.it[r->ix]), *b = x;
	Iter *row = r->row, *of = r->b;

	for (int i = r->t->p->nat - 1; i >= 0; i--) {
		Expr *at = r->t->p->at[i], *n = ex_dim(p, s->iter[i]->extent);

		if (!expr_has_iter(at, row))
			continue;
		at = ex_subst_iters(p, at, &row, &x, 1);
		r->to.p->at[i] = ex_is_op(at, IN_mod) ? at : ex_op2(p, IN_mod, at, n);
		b = ex_op2(p, IN_floordiv, b, n);
	}
	for (int i = 0; i < r->t->p->nat; i++)
		if (!expr_has_iter(r->t->p->at[i], row))
			r->to.p->at[i] = ex_subst_iters(p, r->t->p->at[i], &of, &b, 1);
}

/* Replaces the row and B by their product X. */
static void join(TransposeRows *r, const Stmt *s)
{
	const TransposePlan *t = r->t;
	ExprPool *p = t->b->p;
	Iter *x = l_iter(t->b, "x", dim_mul(t->b->k->ctx, r->row->extent, r->b->extent)),
	     *it[] = {r->row, r->b};
	Expr *flat[] = {ex_iter(p, x), ex_int(p, CT_I64, 0)};

	r->p = (Points){.k = t->p->k, .nat = t->p->nat};
	for (int i = 0; i < t->p->n; i++) {
		if (t->p->it[i] == r->a)
			r->ia = r->p.n;
		if (t->p->it[i] != r->row && t->p->it[i] != r->b)
			r->p.it[r->p.n++] = t->p->it[i];
	}
	r->ix = r->p.n;
	r->p.it[r->p.n++] = x;
	r->p.write = ex_subst_iters(p, t->p->write, it, flat, 2);
	r->to = (TransposePlan){.b = t->b, .p = &r->p};
	place(r, s);
	transpose_way(&r->to, t->out.buf, r->p.write, &r->to.out);
}

/* Chooses the tile. Longer rows get longer parts, so that few rows are cut, and fewer points of A.
 * In shared memory, the parts of adjacent A are a part and a row apart, so that a fetch, which runs
 * over rows of adjacent A, hits the banks in memory order. */
static void shape(TransposeRows *r)
{
	enum { TILE = 26 << 10 };
	const int64_t longest = gpu_most(r->t->b->sched, r->row->extent);
	int64_t bytes = 1, cells, part, many, all;

	for (int i = 0; i < r->t->n; i++) {
		const int64_t size = (dtype_info[ctype_dtype(r->t->load[i]->ct)].bits + 7) / 8;

		bytes = size > bytes ? size : bytes;
	}
	cells = (r->t->n * TILE > SHARED ? SHARED / r->t->n : TILE) / bytes;
	r->pad = longest <= TRANSPOSE_SHORT    ? TRANSPOSE_SHORT
		 : longest <= TRANSPOSE_MIDDLE ? TRANSPOSE_MIDDLE
					       : 0;
	part = longest <= TRANSPOSE_SHORT    ? 6 * SIDE
	       : longest <= TRANSPOSE_MIDDLE ? 28 * SIDE
					     : cells / TRANSPOSE_THREADS * TRANSPOSE_THREADS;
	many = cells / (part + r->pad);
	assert(many > 0);
	if (dim_is_const(r->a->extent, &all) && all < many) {
		many = all ? all : 1;
		part = (cells / many - r->pad) / SIDE * SIDE;
	}
	for (int i = 0; i < r->p.n; i++)
		r->to.tile[i] = 1;
	r->to.tile[r->ix] = part;
	r->to.tile[r->ia] = many;
}

static bool one_row(const TransposeRows *r)
{
	return r->to.tile[r->ia] == 1;
}

/* The index in the tile of element X of the part, for point A of the tile. */
static Expr *in_tile(const TransposeRows *r, Expr *a, Expr *x)
{
	ExprPool *p = r->t->b->p;
	Dim *step = dim_add(r->t->b->k->ctx, dim_const(r->t->b->k->ctx, r->to.tile[r->ix]),
			    r->row->extent);

	return ex_add(p, ex_mul(p, a, ex_dim(p, step)), x);
}

/* For one load and one B: elements FROM to END - 1 of A's rows, counted from BEGIN, the start of
 * the first row. */
typedef struct RowRange {
	Expr *begin, *from, *end;
} RowRange;

/* The range of load I for the current B. If the tile has one point of A, it is limited to the
 * warp's share. */
static RowRange run_of(const TransposeRows *r, int i)
{
	LBuild *b = r->t->b;
	ExprPool *p = b->p;
	Expr *row = ex_dim(p, r->row->extent), *zero = l_int(b, 0), *with[] = {zero, r->a0},
	     *before;
	Iter *it[] = {r->row, r->a};
	RowRange run = {.begin = ex_subst_iters(p, r->t->in[i].at, it, with, 2), .from = zero};

	if (one_row(r)) {
		before = ex_sub(p, r->x0, ex_mul(p, ex_iter(p, r->b), row));
		run.from = l_max(b, zero, before);
		run.end = l_min(b, row, ex_add(p, before, l_int(b, r->len)));
		return run;
	}
	run.end = l_min(b, l_int(b, r->to.tile[r->ia]), ex_sub(p, ex_dim(p, r->a->extent), r->a0));
	run.end = ex_mul(p, run.end, row);
	return run;
}

/* Copies element Y of RUN to TILE, if it belongs to the part and GUARD holds. */
static void fetch_one(const TransposeRows *r, int i, const RowRange *run, Expr *y, Expr *guard,
		      Buf *tile)
{
	LBuild *b = r->t->b;
	ExprPool *p = b->p;
	Expr *row = ex_dim(p, r->row->extent), *from = ex_add(p, run->begin, y), *a = l_int(b, 0),
	     *x;

	if (!one_row(r)) { /* both fit 32 bits, and are not negative where the guard holds */
		Iter *number = l_iter(b, "row", r->a->extent);

		a = ex_op2(p, IN_floordiv, ex_cvt(p, CT_U32, y), ex_cvt(p, CT_U32, row));
		l_let(b, number, ex_cvt(p, CT_I64, a));
		a = ex_iter(p, number);
	}
	x = ex_add(p, ex_mul(p, ex_iter(p, r->b), row), ex_sub(p, y, ex_mul(p, a, row)));
	x = ex_sub(p, x, r->to.first[r->ix]);
	if (!one_row(r))
		guard = ex_and(p, guard, ex_inside(p, x, l_int(b, r->to.tile[r->ix])));
	l_store(b, tile, in_tile(r, a, x), ex_load(p, r->t->load[i]->load.buf, &from, 1), guard);
}

/* Opens a warp's loop over those B that have elements in the part: every 8th one. If the tile has
 * one point of A, whose row may be as long as the part, warps share out the part instead. */
static LNode *open_runs(TransposeRows *r, Expr *t)
{
	LBuild *b = r->t->b;
	ExprPool *p = b->p;
	const int64_t warps = TRANSPOSE_THREADS / WARP, part = r->to.tile[r->ix];
	Expr *row = ex_dim(p, r->row->extent), *x = r->to.first[r->ix],
	     *warp = ex_op2(p, IN_floordiv, t, l_int(b, WARP)), *first, *end;

	r->len = one_row(r) ? part / warps : part;
	r->x0 = one_row(r) ? ex_add(p, x, ex_mul(p, warp, l_int(b, r->len))) : x;
	first = ex_op2(p, IN_floordiv, r->x0, row);
	end = l_min(b, ex_add(p, r->x0, l_int(b, r->len)), ex_dim(p, r->p.it[r->ix]->extent));
	end = ex_op2(p, IN_floordiv, ex_sub(p, end, l_int(b, 1)), row);
	return l_loop(b, LOOP_SERIAL, r->b, one_row(r) ? first : ex_add(p, first, warp),
		      ex_add(p, end, l_int(b, 1)), one_row(r) ? 1 : warps);
}

static void fetch(TransposeRows *r, int i, Buf *tile)
{
	LBuild *b = r->t->b;
	ExprPool *p = b->p;
	Ctx *c = b->k->ctx;
	const int64_t sector = transpose_sector(&r->t->in[i]);
	Dim *most = dim_mul(c, r->row->extent, dim_const(c, r->to.tile[r->ia]));
	Iter *t = l_iter(b, "t", dim_const(c, TRANSPOSE_THREADS)),
	     *before = l_iter(b, "before", dim_const(c, sector)),
	     *u = l_iter(b, "u", dim_add(c, most, dim_const(c, sector)));
	LNode *group = l_loop(b, LOOP_GROUP, t, l_int(b, 0), l_int(b, TRANSPOSE_THREADS), 1),
	      *runs = open_runs(r, ex_iter(p, t)), *along;
	RowRange run = run_of(r, i);
	Expr *peel;

	l_let(b, before,
	      gpu_peel(b, ex_add(p, run.begin, run.from), NULL, NULL, 0,
		       dtype_bytes(r->t->in[i].buf->dtype)));
	peel = ex_sub(p, ex_iter(p, before), run.from);
	along = l_loop(b, LOOP_VECTOR, u, ex_op2(p, IN_mod, ex_iter(p, t), l_int(b, WARP)),
		       ex_add(p, run.end, peel), WARP);
	fetch_one(r, i, &run, ex_sub(p, ex_iter(p, u), peel),
		  ex_op2(p, IN_ge, ex_iter(p, u), ex_iter(p, before)), tile);
	l_close(b, along);
	l_close(b, runs);
	l_close(b, group);
}

void transpose_rows(TransposePlan *t, Stmt *s)
{
	ExprPool *p = t->b->p;
	TransposeRows r = {.t = t,
			   .row = t->p->it[t->out.along[0]],
			   .a = t->p->it[t->in[0].along[1]],
			   .b = t->p->it[t->out.along[1]]};
	Staged tile[MOST_LOADS];
	Expr *index;

	join(&r, s);
	shape(&r);
	transpose_open_stage(&r.to, s);
	r.a0 = one_row(&r) ? ex_iter(p, r.a) : r.to.first[r.ia];
	index = in_tile(&r, ex_sub(p, ex_iter(p, r.a), r.a0),
			ex_sub(p, ex_iter(p, r.p.it[r.ix]), r.to.first[r.ix]));
	for (int i = 0; i < t->n; i++)
		tile[i] = transpose_local(t, i, r.to.tile[r.ia] * (r.to.tile[r.ix] + r.pad), index);
	for (int i = 0; i < t->n; i++)
		fetch(&r, i, tile[i].copy);
	transpose_store(&r.to, s, over_x(&r, gpu_from_copies(p, t->p->e[0], tile, t->n)));
}
