/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops over the elements that a block of columns has. Neighbouring threads have neighbouring columns. Where rows of columns begin
 * anywhere in a sector, a warp begins with one: its first threads have nothing of the first row, and a thread has rows that
 * begin at the same place. Where the block has few columns, but all, its rows are one run.
 */
#include "passes/gpu_columns_impl.h"

enum {
	SAME_ROWS = 2, /* rows of a thread that begin alike, at least */
	MANY_ROWS = 4, /* of a thread: several are in flight at once */
};

/* The loops around an element, innermost last. */
typedef struct Element {
	LNode *open[3];
	int n;
	Expr *val, *guard;
} Element;

/* Terms from one whose row begins at the same place of a sector to the next, where rows are read or written AT. */
static int64_t period(const Columns *c, Expr *at)
{
	int64_t n = SECTOR / c->x.bytes, by;
	Affine a;

	if (ex_affine(c->x.r->k->ctx, at, &a) &&
	    dim_is_const(affine_coef(c->x.r->k->ctx, &a, c->term), &by))
		while (n > 1 && by * (n / 2) % (SECTOR / c->x.bytes) == 0)
			n /= 2;
	return n;
}

/* The next row AT begins where the last one ends. */
static bool runs_on(const Columns *c, Expr *at)
{
	Affine a;

	return ex_affine(c->x.r->k->ctx, at, &a) &&
	       dim_equals(affine_coef(c->x.r->k->ctx, &a, c->term), c->wide);
}

/* How far after a sector's begin the row of TERM is AT. */
static Expr *skew(const Columns *c, Expr *at, Expr *term)
{
	LBuild *b = c->x.r->b;
	Iter *from[2] = {c->term, c->x.col};
	Expr *with[2] = {term, l_int(b, 0)};

	return ex_op2(b->p, IN_mod, ex_subst_iters(b->p, at, from, with, 2),
		      l_int(b, SECTOR / c->x.bytes));
}

typedef struct Ahead {
	const Columns *c;
	Expr *where;
} Ahead;

/* What the block has of a column alone is read before its terms, where the column is. */
static Expr *read_ahead(void *arg, Expr *e)
{
	const Ahead *a = arg;
	LBuild *b = a->c->x.r->b;
	Buf *one;

	if (e->kind != EX_LOAD || e->load.buf->id < a->c->x.r->nlocal ||
	    e->load.idx[0]->kind != EX_ITER || e->load.idx[0]->iter != a->c->x.col)
		return NULL;
	one = kernel_temp(b->k, e->load.buf->name, e->load.buf->dtype, 0, NULL);
	l_node(b, LN_LOCAL)->buf[0] = one;
	l_store(b, one, l_int(b, 0), e, a->where);
	return ex_load(b->p, one, &(Expr *){l_int(b, 0)}, 1);
}

static Expr *ahead(const Columns *c, Expr *val, Expr *where)
{
	Ahead a = {c, where};

	return ex_rewrite(c->x.r->b->p, val, read_ahead, &a);
}

/* Neighbouring threads have neighbouring columns, as many as SIDE less those before the row; a thread has rows that begin at the
 * same place of a sector, or, where those are few, each LANES-th row. */
static void by_rows(Columns *c, Expr *at, Iter *t, Element *e)
{
	Across *x = &c->x;
	LBuild *b = x->r->b;
	ExprPool *p = b->p;
	const int64_t lanes = x->threads / c->side, same = at ? period(c, at) : 1;
	const bool each = c->terms < SAME_ROWS * same;
	const int64_t step = !each && same > lanes ? same : lanes;
	Expr *first = ex_op2(p, IN_floordiv, ex_iter(p, t), l_int(b, c->side)), *place, *in;

	if (!each && same > lanes) {
		Iter *later = l_iter(b, "later", dim_const(b->k->ctx, same / lanes));

		e->open[e->n++] = l_loop(b, LOOP_SERIAL, later, l_int(b, 0), l_int(b, same / lanes),
					 1);
		first = ex_add(p, first, ex_mul(p, ex_iter(p, later), l_int(b, lanes)));
	}
	place = ex_op2(p, IN_mod, ex_iter(p, t), l_int(b, c->side));
	if (at)
		place = ex_sub(p, place, skew(c, at, each ? ex_iter(p, c->term) : first));
	in = ex_and(p, ex_op2(p, IN_ge, place, l_int(b, 0)), ex_op2(p, IN_lt, place, c->many));
	if (!each) {
		l_let(b, x->col, place);
		e->val = ahead(c, e->val, in);
	}
	e->open[e->n++] = l_loop(
		b, c->terms >= MANY_ROWS * step ? LOOP_VECTOR : LOOP_SERIAL, c->term, first,
		each ? row_extent(x->r, c->term)
		     : ex_op3(p, IN_select, in, row_extent(x->r, c->term), l_int(b, 0)),
		step);
	if (each) {
		l_let(b, x->col, place);
		e->guard = in;
	}
}

/* All of the block's rows are one run. */
static void by_run(Columns *c, Expr *at, Iter *t, Element *e)
{
	Across *x = &c->x;
	LBuild *b = x->r->b;
	ExprPool *p = b->p;
	Dim *all = dim_mul(b->k->ctx, c->term->extent, dim_const(b->k->ctx, c->wide));
	Iter *run = l_iter(b, "u", all);
	Expr *first = ex_iter(p, t), *u = ex_iter(p, run);

	if (at) {
		first = ex_sub(p, first, skew(c, at, l_int(b, 0)));
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
	Element e = {.val = val};
	LNode *store;

	e.open[e.n++] = l_loop(b, LOOP_TEAM, t, l_int(b, 0), l_int(b, c->x.threads), 1);
	(c->run && (!at || runs_on(c, at)) ? by_run : by_rows)(c, at, t, &e);
	store = l_store(b, out, to, e.val, e.guard);
	while (e.n)
		l_close(b, e.open[--e.n]);
	return store;
}
