/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stencils of the row strategy along a band iterator that is not the vector one: depthwise
 * convolutions and pools over channels that are innermost. The stage takes that iterator, w, in
 * tiles. Where every tap is inside the input, a few adjacent points share their loads and keep
 * their states in registers:
 *
 *   for w in the tile, up to the inside  each tap under its guard
 *   for w in the tile, inside, by 4      no guard
 *     for v
 *       4 states; all taps, unrolled; 4 stores
 *   for w, the remainder                 each tap under its guard
 */
#include "passes/schedule/cpu/row_impl.h"

enum { MAX_TAPS = 64 };

typedef struct Slide {
	const Row *r;
	int band, axis; /* the slid iterator in the innermost dim so far, and that dim */
	bool vec;       /* a stencil slides along the vector iterator */
} Slide;

static void slide_load(void *arg, Stmt *s, Expr *load)
{
	Slide *f = arg;
	const Buf *b = load->load.buf;

	for (int d = 0; d < load->load.nidx; d++) {
		bool red = false;

		for (int i = s->nband; i < s->niters; i++)
			red = red || expr_has_iter(load->load.idx[d], s->iter[i]);
		for (int i = 0; red && i < f->r->band->n; i++) {
			if (!expr_has_iter(load->load.idx[d], f->r->band->of[s->id][i]))
				continue;
			f->vec = f->vec || i == f->r->vec;
			if (buf_axis(b, d) > f->axis) {
				f->axis = buf_axis(b, d);
				f->band = i;
			}
		}
	}
}

int row_stencil_iter(const Row *r)
{
	Slide f = {r, -1, -1, false};

	if (r->vec < 0)
		return -1;
	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i];

		if (row_packed(s))
			return -1;
		if (row_taps(s))
			stmt_loads(s, slide_load, &f);
	}
	return f.vec ? -1 : f.band;
}

/* The condition that G holds for all taps; null with *OK false if G is no conjunction of affine
 * bounds. */
static Expr *for_all_taps(Row *r, const Stmt *s, Expr *g, bool *ok)
{
	ExprPool *p = r->k->pool;
	Affine d;
	Expr *e;

	if (!g || !*ok)
		return NULL;
	if (g->kind == EX_INST && g->op.inst == IN_and) {
		Expr *x = for_all_taps(r, s, g->op.arg[0], ok),
		     *y = for_all_taps(r, s, g->op.arg[1], ok);

		return *ok ? ex_and(p, x, y) : NULL;
	}
	*ok = guard_affine(r->k, g, &d);
	e = *ok ? ex_from_affine(p, &d) : NULL;
	for (int i = s->nband; i < s->niters && *ok; i++) {
		int64_t step, n;
		Expr *worst;

		*ok = dim_is_const(affine_coef(r->k->ctx, &d, s->iter[i]), &step) &&
		      dim_is_const(s->iter[i]->extent, &n);
		worst = *ok ? l_int(r->b, step < 0 ? n - 1 : 0) : NULL;
		e = *ok ? ex_subst_iters(p, e, &s->iter[i], &worst, 1) : NULL;
	}
	return *ok ? ex_op2(p, IN_ge, e, l_int(r->b, 0)) : NULL;
}

/* Returns the conjuncts of G without W; those with W go to *OF. */
static Expr *apart(ExprPool *p, Expr *g, const Iter *w, Expr **of)
{
	if (!g)
		return NULL;
	if (g->kind == EX_INST && g->op.inst == IN_and) {
		Expr *a = apart(p, g->op.arg[0], w, of), *b = apart(p, g->op.arg[1], w, of);

		return a && b ? ex_and(p, a, b) : a ? a : b;
	}
	if (!expr_has_iter(g, w))
		return g;
	*of = *of ? ex_and(p, *of, g) : g;
	return NULL;
}

static void set_w(Row *r, Expr *w)
{
	r->as[r->tile] = r->pos[r->tile] = w;
}

/* Computes the points w to w+SIDE-1 for w in [LO, HI) by SIDE. The guard is tested only if SIDE is
 * 1. */
static void emit_window_points(Row *r, Stmt *s, Expr *lo, Expr *hi, int side)
{
	ExprPool *p = r->k->pool;
	Iter *w = r->rep[r->tile], *v = r->rep[r->vec],
	     *u = l_iter(r->b, "u", dim_const(r->k->ctx, side));
	Expr *at = side > 1 ? ex_iter(p, u) : l_int(r->b, 0), *val[2] = {NULL, NULL};
	Nest n = {.n = 0}, in = {.n = 0};
	Buf *acc[2];

	row_open(r, &n, LOOP_SERIAL, w, lo, hi);
	n.loop[0]->step = side;
	row_open(r, &n, l_short(v->extent) ? LOOP_SHORT : LOOP_VECTOR, v, r->vlo, r->vhi);
	set_w(r, ex_add(p, ex_iter(p, w), at));
	row_declare_state(r, s, acc, side > 1 ? u->extent : NULL);
	for (int part = 0; part < 3; part++) {
		for (int i = s->nband; i < s->niters && part == 1; i++)
			row_open(r, &in, LOOP_UNROLL, s->iter[i], l_int(r->b, 0),
				 row_extent(r, s->iter[i]));
		if (side > 1)
			row_open(r, &in, LOOP_UNROLL, u, l_int(r->b, 0), l_int(r->b, side));
		val[0] = row_placed(r, s->val[0]);
		if (part == 0)
			row_init_state(r, s, acc, at);
		else if (part == 1)
			row_does(r,
				 row_state_node(r, LN_UPDATE, s, acc, at, val,
						side == 1 ? row_placed(r, s->guard) : NULL),
				 s, PART_TERM, s->niters, NULL);
		else
			row_store_state(r, s, acc, at);
		row_close(r, &in);
	}
	set_w(r, ex_iter(p, w));
	row_close(r, &n);
}

/* Names E, a bound of the tiled iterator: 0 to its extent, inclusive. */
static Expr *let(Row *r, const char *name, Expr *e)
{
	Ctx *c = r->k->ctx;
	Iter *it;

	if (e->kind == EX_CONST || e->kind == EX_ITER)
		return e;
	it = l_iter(r->b, name, dim_add(c, r->rep[r->tile]->extent, dim_const(c, 1)));
	l_let(r->b, it, e);
	return ex_iter(r->k->pool, it);
}

bool row_emit_stencil(Row *r, Stmt *s)
{
	LBuild *b = r->b;
	ExprPool *p = r->k->pool;
	Expr *lo = r->tlo, *hi = r->thi, *none = l_int(b, 0), *along = NULL, *all, *rest, *many;
	bool ok = row_taps(s) > 0;

	for (int i = 0; i < s->nband && ok; i++)
		ok = row_is_fixed(r, s->iter[i]) || s->iter[i] == r->band->of[r->s->id][r->vec] ||
		     s->iter[i] == r->band->of[r->s->id][r->tile];
	all = for_all_taps(r, s, row_placed(r, s->guard), &ok);
	if (!ok || (all && expr_has_iter(all, r->rep[r->vec])))
		return false;
	rest = apart(p, all, r->rep[r->tile], &along);
	if (guard_to_range(r->k, along, r->rep[r->tile], &lo, &hi))
		return false;
	if (lo != r->tlo) {
		lo = let(r, "inside", l_min(b, lo, r->thi));
		emit_window_points(r, s, r->tlo, lo, 1);
	}
	many = l_max(b, ex_sub(p, hi, lo), none);
	many = rest ? ex_op3(p, IN_select, rest, many, none) : many;
	many = ex_op2(p, IN_floordiv, many, l_int(b, SIDE_BY_SIDE));
	hi = let(r, "outside", ex_add(p, lo, ex_mul(p, l_int(b, SIDE_BY_SIDE), many)));
	emit_window_points(r, s, lo, hi, SIDE_BY_SIDE);
	emit_window_points(r, s, hi, r->thi, 1);
	return true;
}
