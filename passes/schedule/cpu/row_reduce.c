/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row strategy's reductions on CPUs: with the vector iterator innermost (a block of states at a
 * time; small stencils read a padded copy of their row and compute all taps in one loop), or in
 * lanes along the reduced iterator.
 */
#include "passes/schedule/cpu/row_impl.h"

#include <assert.h>

/* Splits guard G: conjuncts with V or U go to *INNER, the rest to *OUTER. */
static void split_guard(Row *r, Expr *g, const Iter *v, const Iter *u, Expr **inner, Expr **outer)
{
	if (!g)
		return;
	if (g->kind == EX_INST && g->op.inst == IN_and) {
		split_guard(r, g->op.arg[0], v, u, inner, outer);
		split_guard(r, g->op.arg[1], v, u, inner, outer);
	} else if (expr_has_iter(g, v) || expr_has_iter(g, u)) {
		*inner = ex_and(r->k->pool, *inner, g);
	} else {
		*outer = ex_and(r->k->pool, *outer, g);
	}
}

/*
 * A row of a stencil's input: the only load of VAL that is contiguous along v, at base + cv*v +
 * cu*u, where the guard bounds just that sum. It is copied once, padded with the monoid's identity,
 * and serves all taps without a guard.
 */
typedef struct InputRow {
	Expr *load;
	int64_t cv, cu, length;
	Iter *t;       /* cv*v + cu*u */
	Expr *base;    /* the load's index without t */
	Expr *lo, *hi; /* bounds of t where the guard holds */
	Buf *row;
} InputRow;

typedef struct FindLoad {
	const Iter *v;
	Expr *load;
	int n;
} FindLoad;

static void find_load(void *arg, Expr *e)
{
	FindLoad *f = arg;

	if (e->kind != EX_LOAD || !expr_has_iter(e, f->v))
		return;
	f->load = e;
	f->n++;
}

/* Converts guard G to bounds on t; false if that is not possible. */
static bool guard_to_bounds(Row *r, InputRow *w, Expr *g, const Iter *v, const Iter *u)
{
	ExprPool *p = r->k->pool;
	Expr *rest;
	Affine d;
	int64_t gv, gu;

	if (!g)
		return true;
	if (g->kind == EX_INST && g->op.inst == IN_and)
		return guard_to_bounds(r, w, g->op.arg[0], v, u) &&
		       guard_to_bounds(r, w, g->op.arg[1], v, u);
	if (!guard_affine(r->k, g, &d) || !dim_is_const(affine_coef(r->k->ctx, &d, v), &gv) ||
	    !dim_is_const(affine_coef(r->k->ctx, &d, u), &gu) || (gv != w->cv && gv != -w->cv) ||
	    gu != (gv > 0 ? w->cu : -w->cu))
		return false;
	rest = ex_sub(p, ex_from_affine(p, &d),
		      ex_add(p, ex_mul(p, l_int(r->b, gv), ex_iter(p, (Iter *)(uintptr_t)v)),
			     ex_mul(p, l_int(r->b, gu), ex_iter(p, (Iter *)(uintptr_t)u))));
	if (gv > 0)
		w->lo = ex_op2(p, IN_max, w->lo, ex_sub(p, l_int(r->b, 0), rest));
	else
		w->hi = ex_op2(p, IN_min, w->hi, ex_add(p, rest, l_int(r->b, 1)));
	return true;
}

/* Padding elements must not change the state. */
static bool pads_neutral(const Stmt *s, const Expr *val, const Expr *load)
{
	if (val == load)
		return true;
	return s->red == MONOID_sum && val->kind == EX_INST && val->op.inst == IN_mul &&
	       (val->op.arg[0] == load || val->op.arg[1] == load);
}

static bool find_input_row(Row *r, Stmt *s, Expr *val, Expr *inner, InputRow *w)
{
	ExprPool *p = r->k->pool;
	Iter *v = r->rep[r->vec], *u = s->iter[s->niters - 1];
	FindLoad f = {v, NULL, 0};
	int64_t nv, nu;
	Affine a;

	ex_walk(val, find_load, &f);
	if (f.n != 1 || !pads_neutral(s, val, f.load) ||
	    !ex_affine(r->k->ctx, f.load->load.idx[0], &a) ||
	    !dim_is_const(affine_coef(r->k->ctx, &a, v), &w->cv) ||
	    !dim_is_const(affine_coef(r->k->ctx, &a, u), &w->cu) || w->cv < 1 || w->cu < 0 ||
	    !dim_is_const(v->extent, &nv) || !dim_is_const(u->extent, &nu) || nv > ROW_BLOCK)
		return false;
	w->length = w->cv * (nv - 1) + w->cu * (nu - 1) + 1;
	if (w->length > 4 * ROW_BLOCK)
		return false;
	w->load = f.load;
	w->t = l_iter(r->b, "t", dim_const(r->k->ctx, w->length));
	w->base = ex_sub(p, f.load->load.idx[0],
			 ex_add(p, ex_mul(p, l_int(r->b, w->cv), ex_iter(p, v)),
				ex_mul(p, l_int(r->b, w->cu), ex_iter(p, u))));
	w->lo = l_int(r->b, 0);
	w->hi = l_int(r->b, w->length);
	return guard_to_bounds(r, w, inner, v, u);
}

static void copy_input_row(Row *r, Stmt *s, InputRow *w, Expr *outer, Nest *in)
{
	ExprPool *p = r->k->pool;
	Expr *t = ex_iter(p, w->t), *at = ex_add(p, w->base, t);
	DType type = ctype_dtype(w->load->ct);
	int keep = in->n;

	w->row = l_temp(r->b, "row", type, dim_const(r->k->ctx, w->length));
	row_open(r, in, LOOP_VECTOR, w->t, l_int(r->b, 0), l_int(r->b, w->length));
	l_store(r->b, w->row, t, monoid_identity(p, s->red, 0, w->load->ct), NULL);
	l_close(r->b, in->loop[--in->n]);
	guard_to_range(r->k, outer, w->t, &w->lo, &w->hi);
	row_open(r, in, l_short(w->t->extent) ? LOOP_SHORT : LOOP_VECTOR, w->t, w->lo, w->hi);
	l_store(r->b, w->row, t, ex_load(p, w->load->load.buf, &at, 1), NULL);
	while (in->n > keep)
		l_close(r->b, in->loop[--in->n]);
}

static Expr *from_input_row(void *arg, Expr *e)
{
	InputRow *w = arg;

	(void)e;
	return e == w->load ? w->base : NULL;
}

bool row_taps_fit(Row *r, Stmt *s)
{
	Expr *inner = NULL, *outer = NULL;
	InputRow w = {0};

	if (r->vec < 0 || s->niters == s->nband || monoid_info[s->red].n != 1)
		return false;
	split_guard(r, row_placed(r, s->guard), r->rep[r->vec], s->iter[s->niters - 1], &inner,
		    &outer);
	return !inner || find_input_row(r, s, row_placed(r, s->val[0]), inner, &w);
}

/* Emits the innermost reduced iterator unrolled inside the loop over v, without a guard, with the
 * state in a register. */
static void emit_taps(Row *r, Stmt *s, Buf *const *acc, Expr *at)
{
	ExprPool *p = r->k->pool;
	Iter *v = r->rep[r->vec], *u = s->iter[s->niters - 1];
	Nest in = {.n = 0};
	Expr *val = row_placed(r, s->val[0]);
	Expr *inner = NULL, *outer = NULL, *lo = r->vlo, *hi = r->vhi;
	InputRow w = {0};
	int64_t taps = 0;
	bool fits;

	dim_is_const(u->extent, &taps);
	split_guard(r, row_placed(r, s->guard), v, u, &inner, &outer);
	fits = !inner || find_input_row(r, s, val, inner, &w);
	assert(fits);
	for (int i = s->nband; i < s->niters - 1; i++)
		row_open(r, &in, LOOP_SERIAL, s->iter[i], l_int(r->b, 0),
			 row_extent(r, s->iter[i]));
	if (inner) {
		Expr *idx = ex_add(p, ex_mul(p, l_int(r->b, w.cv), ex_iter(p, v)),
				   ex_mul(p, l_int(r->b, w.cu), ex_iter(p, u)));

		copy_input_row(r, s, &w, outer, &in);
		w.base = ex_load(p, w.row, &idx, 1);
		val = ex_rewrite(p, val, from_input_row, &w);
	}
	guard_to_range(r->k, outer, v, &lo, &hi);
	row_open(r, &in, l_short(v->extent) ? LOOP_SHORT : LOOP_VECTOR, v, lo, hi);
	for (int64_t j = 0; j < taps; j++) {
		Expr *tap = l_int(r->b, j), *term[2] = {ex_subst_iters(p, val, &u, &tap, 1), NULL},
		     *place_of[MAX_ITERS];

		for (int i = s->nband; i < s->niters; i++)
			place_of[i - s->nband] = i + 1 < s->niters ? ex_iter(p, s->iter[i]) : tap;
		row_does(r, row_state_node(r, LN_UPDATE, s, acc, at, term, NULL), s, PART_TERM,
			 s->niters, place_of);
	}
	row_close(r, &in);
}

/*
 * A float sum is rounded at every term. A long one is computed from the sums of blocks of SUM_BLOCK
 * terms, so that for terms of one sign the error grows with the number of blocks, not of terms.
 * Returns the iterator of which a block has *STEP points, with all points of the iterators inside
 * it; null if the sum is short, or of no terms.
 */
static Iter *sum_blocks(const Stmt *s, int64_t *step)
{
	int64_t n, inner = 1;

	if (s->red != MONOID_sum || !ctype_is_float(s->val[0]->ct))
		return NULL;
	for (int i = s->niters; i-- > s->nband && inner; inner *= n)
		if (!dim_is_const(s->iter[i]->extent, &n) || n > SUM_BLOCK / inner) {
			*step = SUM_BLOCK / inner;
			return s->iter[i];
		}
	return NULL;
}

/* Opens a loop over v, which is over the states of a block. */
static void open_states(Row *r, Nest *in)
{
	row_open(r, in, LOOP_VECTOR, r->rep[r->vec], r->vlo, r->vhi);
}

/* Adds the terms of S to ACC, a row of them at a time. If ROW_BLOCKS is not null, only its points in
 * [FIRST, END). */
static void emit_terms(Row *r, Stmt *s, Buf *const *acc, Expr *at, const Iter *blocks, Expr *first,
		       Expr *end)
{
	Nest in = {.n = 0};
	Expr *lo = r->vlo, *hi = r->vhi, *val[2] = {NULL, NULL}, *guard;
	int i = s->nband;

	while (blocks && s->iter[i] != blocks)
		i++;
	for (; i < s->niters; i++)
		if (s->iter[i] == blocks)
			row_open(r, &in, LOOP_SERIAL, s->iter[i], first, end);
		else
			row_open(r, &in, LOOP_SERIAL, s->iter[i], l_int(r->b, 0),
				 row_extent(r, s->iter[i]));
	for (int c = 0; c < monoid_info[s->red].n; c++)
		val[c] = row_placed(r, s->val[c]);
	guard = guard_to_range(r->k, row_placed(r, s->guard), r->rep[r->vec], &lo, &hi);
	row_open(r, &in, l_short(r->rep[r->vec]->extent) ? LOOP_SHORT : LOOP_VECTOR, r->rep[r->vec],
		 lo, hi);
	row_does(r, row_state_node(r, LN_UPDATE, s, acc, at, val, guard), s, PART_TERM, s->niters,
		 NULL);
	row_close(r, &in);
}

/* As emit_terms, by blocks of STEP points of ROW_BLOCKS, whose sums are added to ACC. */
static void emit_sum_blocks(Row *r, Stmt *s, Buf *const *acc, Expr *at, Iter *blocks, int64_t step)
{
	ExprPool *p = r->k->pool;
	Iter *first = l_iter(r->b, "first", blocks->extent);
	Expr *all = row_extent(r, blocks),
	     *end = l_min(r->b, ex_add(p, ex_iter(p, first), l_int(r->b, step)), all), *val;
	Nest n = {.n = 0}, in = {.n = 0};
	const CType ct = s->val[0]->ct;
	Buf *sum;

	for (int i = s->nband; s->iter[i] != blocks; i++)
		row_open(r, &n, LOOP_SERIAL, s->iter[i], l_int(r->b, 0), row_extent(r, s->iter[i]));
	row_open(r, &n, LOOP_SERIAL, first, l_int(r->b, 0), all);
	n.loop[n.n - 1]->step = step;
	sum = l_temp(r->b, "sum", ctype_dtype(ct), dim_const(r->k->ctx, ROW_BLOCK));
	open_states(r, &in);
	l_store(r->b, sum, at, monoid_identity(p, s->red, 0, ct), NULL);
	row_close(r, &in);
	emit_terms(r, s, &sum, at, blocks, ex_iter(p, first), end);
	open_states(r, &in);
	val = ex_load(p, sum, &at, 1);
	row_state_node(r, LN_UPDATE, s, acc, at, &val, NULL);
	row_close(r, &in);
	row_close(r, &n);
}

void row_emit_reduce_vector(Row *r, Stmt *s)
{
	Nest n = {.n = 0}, in = {.n = 0};
	Expr *v = ex_iter(r->k->pool, r->rep[r->vec]), *at = ex_sub(r->k->pool, v, r->v0);
	Buf *acc[2];
	Iter *blocks;
	int64_t step;

	assert(r->block <= ROW_BLOCK);
	row_open_band(r, s, &n, false);
	row_declare_state(r, s, acc, dim_const(r->k->ctx, ROW_BLOCK));
	open_states(r, &in);
	row_init_state(r, s, acc, at);
	row_close(r, &in);
	if (r->how[s->id].form == REDUCE_TAPS)
		emit_taps(r, s, acc, at);
	else if ((blocks = sum_blocks(s, &step)))
		emit_sum_blocks(r, s, acc, at, blocks, step);
	else
		emit_terms(r, s, acc, at, NULL, NULL, NULL);
	open_states(r, &in);
	row_store_state(r, s, acc, at);
	row_close(r, &in);
	row_close(r, &n);
}
