/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops over the elements of a block of columns; adjacent threads have adjacent columns. Where rows
 * of columns begin within a sector, a warp's first access begins at the sector's boundary: its
 * first threads have no element of the first row, and a thread has the rows that begin at the same
 * offset. Where the block has all columns, and they are few, its rows are one contiguous range.
 */
#include "passes/schedule/gpu/columns_impl.h"

#include "base/round.h"

enum {
	FEW_ROWS = 16, /* rows of a thread that are unrolled, at most */
	SAME_ROWS = 2, /* rows of a thread with the same offset in a sector, at least */
	MANY_ROWS = 4, /* rows of a thread for which several loads are kept in flight */
};

/* The loops around an element, innermost last. */
typedef struct ElementLoops {
	LNode *open[3];
	int n;
	Expr *val, *guard;
} ElementLoops;

/* The number of rows after which the offset in a sector repeats, for rows read or written AT. */
static int64_t period(const Columns *c, Expr *at)
{
	int64_t by;
	Affine a;

	return ex_affine(c->x.r->k->ctx, at, &a) &&
			       dim_is_const(affine_coef(c->x.r->k->ctx, &a, c->term), &by)
		       ? gpu_period(by * c->x.bytes)
		       : gpu_sector(c->x.bytes);
}

/* Rows at AT are adjacent: the next one begins where the last one ends. */
static bool rows_are_adjacent(const Columns *c, Expr *at)
{
	Affine a;

	return ex_affine(c->x.r->k->ctx, at, &a) &&
	       dim_equals(affine_coef(c->x.r->k->ctx, &a, c->term), c->wide);
}

/* The offset in its sector of the row of TERM at AT. */
static Expr *peel(const Columns *c, Expr *at, Expr *term)
{
	LBuild *b = c->x.r->b;
	Iter *from[2] = {c->term, c->x.col};
	Expr *with[2] = {term, l_int(b, 0)};

	return gpu_peel(b, at, from, with, 2, c->x.bytes);
}

/* Hoists loads of per-column values, such as a mean, out of the loop over the terms. */
static Expr *ahead(const Columns *c, Expr *val, Expr *where)
{
	LBuild *b = c->x.r->b;

	EX_MAP (e, b->p, &val) {
		Buf *one;

		if (e->kind != EX_LOAD || e->load.buf->id < c->x.r->nlocal ||
		    e->load.idx[0]->kind != EX_ITER || e->load.idx[0]->iter != c->x.col)
			continue;
		one = kernel_temp(b->k, e->load.buf->name, e->load.buf->dtype, 0, NULL);
		gpu_declare(b, one, NULL);
		l_store(b, one, l_int(b, 0), e, where);
		e = ex_load(b->p, one, &(Expr *){l_int(b, 0)}, 1);
	}
	return val;
}

bool columns_unrolled(const Columns *c, int64_t n)
{
	return n <= FEW_ROWS && dim_is_const(c->term->extent, NULL);
}

/* Binds the column of thread T in the row of TERM at AT; returns whether the block has this
 * column. */
static Expr *place(Columns *c, Expr *at, Iter *t, Expr *term)
{
	LBuild *b = c->x.r->b;
	ExprPool *p = b->p;
	Expr *col = ex_op2(p, IN_mod, ex_iter(p, t), l_int(b, c->side));

	if (at)
		col = ex_sub(p, col, peel(c, at, term));
	l_let(b, c->x.col, col);
	return ex_and(p, ex_op2(p, IN_ge, col, l_int(b, 0)), ex_op2(p, IN_lt, col, c->many));
}

/* A thread has every LANES-th row from FIRST on. These are few, and unrolled if their number is
 * known. */
static void by_few_rows(Columns *c, Expr *at, Iter *t, Expr *first, int64_t lanes, ElementLoops *e)
{
	LBuild *b = c->x.r->b;
	ExprPool *p = b->p;
	const int64_t n = ceil_div(c->terms, lanes);
	Expr *end = row_extent(c->x.r, c->term), *in;
	Iter *u;

	if (columns_unrolled(c, n)) {
		u = l_iter(b, "u", dim_const(b->k->ctx, n));
		e->open[e->n++] = l_loop(b, LOOP_UNROLL, u, l_int(b, 0), l_int(b, n), 1);
		first = ex_add(p, first, ex_mul(p, ex_iter(p, u), l_int(b, lanes)));
		in = ex_op2(p, IN_lt, first, end);
		l_let(b, c->term, first);
	} else {
		e->open[e->n++] = l_loop(b, LOOP_SERIAL, c->term, first, end, lanes);
		in = NULL;
	}
	e->guard = ex_and(p, place(c, at, t, ex_iter(p, c->term)), in);
}

/* Adjacent threads have adjacent columns: SIDE of them, less those before a misaligned row. A
 * thread has rows with the same offset in a sector, or, if these are few, every LANES-th row. */
static void by_rows(Columns *c, Expr *at, Iter *t, ElementLoops *e)
{
	LBuild *b = c->x.r->b;
	ExprPool *p = b->p;
	const int64_t lanes = c->x.threads / c->side, same = at ? period(c, at) : 1,
		      step = same > lanes ? same : lanes;
	Expr *first = ex_op2(p, IN_floordiv, ex_iter(p, t), l_int(b, c->side)), *in;

	if (c->terms < SAME_ROWS * same || columns_unrolled(c, ceil_div(c->terms, lanes))) {
		by_few_rows(c, at, t, first, lanes, e);
		return;
	}
	if (same > lanes) {
		Iter *later = l_iter(b, "later", dim_const(b->k->ctx, same / lanes));

		e->open[e->n++] = l_loop(b, LOOP_SERIAL, later, l_int(b, 0), l_int(b, same / lanes),
					 1);
		first = ex_add(p, first, ex_mul(p, ex_iter(p, later), l_int(b, lanes)));
	}
	in = place(c, at, t, first);
	e->val = ahead(c, e->val, in);
	e->open[e->n++] = l_loop(
		b, c->terms >= MANY_ROWS * step ? LOOP_VECTOR : LOOP_SERIAL, c->term, first,
		ex_op3(p, IN_select, in, row_extent(c->x.r, c->term), l_int(b, 0)), step);
}

/* The block's rows are one contiguous range, which its threads traverse together. */
static void by_run(Columns *c, Expr *at, Iter *t, ElementLoops *e)
{
	ColumnBlock *x = &c->x;
	LBuild *b = x->r->b;
	ExprPool *p = b->p;
	Dim *all = dim_mul(b->k->ctx, c->term->extent, dim_const(b->k->ctx, c->wide));
	Iter *run = l_iter(b, "u", all);
	Expr *first = ex_iter(p, t), *u = ex_iter(p, run);

	if (at) {
		first = ex_sub(p, first, peel(c, at, l_int(b, 0)));
		first = ex_op3(p, IN_select, ex_op2(p, IN_lt, first, l_int(b, 0)),
			       ex_add(p, first, l_int(b, x->threads)), first);
	}
	e->open[e->n++] = l_loop(b, LOOP_VECTOR, run, first, ex_dim(p, all), x->threads);
	l_let(b, c->term, ex_op2(p, IN_floordiv, u, l_int(b, c->wide)));
	l_let(b, x->col, ex_op2(p, IN_mod, u, l_int(b, c->wide)));
}

LNode *columns_each(Columns *c, Expr *at, Buf *out, Expr *to, Expr *val)
{
	LBuild *b = c->x.r->b;
	Iter *t = l_iter(b, "t", dim_const(b->k->ctx, c->x.threads));
	ElementLoops e = {.val = val};
	LNode *store;

	e.open[e.n++] = l_loop(b, LOOP_GROUP, t, l_int(b, 0), l_int(b, c->x.threads), 1);
	(c->run && (!at || rows_are_adjacent(c, at)) ? by_run : by_rows)(c, at, t, &e);
	store = l_store(b, out, to, e.val, e.guard);
	while (e.n)
		l_close(b, e.open[--e.n]);
	return store;
}
