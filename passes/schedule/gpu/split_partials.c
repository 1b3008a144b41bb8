/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrites a reduction as two (passes/schedule/gpu/split.c). The sum of a softmax is of
 * exponentials relative to the row's maximum, which no part knows; so each part is relative to its
 * own maximum,
 *
 *     top[i,p] = max x[i,p*C+q]                    part[i,p] = sum exp(x[i,p*C+q] - top[i,p])
 *     m[i] = max top[i,p]                          s[i] = sum part[i,p] * exp(top[i,p] - m[i])
 *
 * and one reading of the row computes both (Milakov and Gimelshein, "Online normalizer calculation
 * for softmax", 2018). An infinite maximum cannot be subtracted: the nearest finite number replaces
 * it, and sums are infinite, zero or NaN as before.
 *
 * Likewise the sum of squares of a norm, which is relative to the row's mean: each part is relative
 * to its own mean,
 *
 *     part[i,p] = sum x[i,p*C+q]        square[i,p] = sum (x[i,p*C+q] - part[i,p]/C)^2
 *     m[i] = (sum part[i,p]) / n        v[i] = sum square[i,p] + C * (part[i,p]/C - m[i])^2
 *
 * (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
 * variances", 1979).
 */
#include "passes/schedule/gpu/split_impl.h"

#include <assert.h>
#include <float.h>

/* A load of BUF that reads each of its elements once. */
static const Iter *writes_with(const Stmt *s, Expr *load, const Iter *it)
{
	for (int d = 0; d < load->load.nidx; d++)
		if (load->load.idx[d]->kind == EX_ITER && load->load.idx[d]->iter == it &&
		    s->widx[d]->kind == EX_ITER)
			return s->widx[d]->iter;
	return NULL;
}

/* The band iterators of S in the memory order of what T stores, where T reads S's result at LOAD.
 * LOAD is null: T is S. */
static int band_as_stored(const Stmt *s, const Stmt *t, Expr *load, Iter **out)
{
	int n = 0;

	for (int a = 0; a < t->nwidx; a++)
		for (int d = 0; d < t->nwidx; d++) {
			const Iter *it = t->widx[d]->kind == EX_ITER ? t->widx[d]->iter : NULL;

			if (buf_axis(t->out[0], d) != a || !it)
				continue;
			it = load ? writes_with(s, load, it) : it;
			if (it)
				out[n++] = (Iter *)(uintptr_t)it;
		}
	return n;
}

/* The band iterators of S in the memory order of the output that maps compute from S's results;
 * else in that of S. */
static int band_in_memory(Kernel *k, const Stmt *s, Iter **out)
{
	for (int i = k->stmts.n - 1; i >= 0 && s->out[0]->kind == BUF_TEMP; i--) {
		Stmt *t = k->stmts.at[i];
		Expr *once = NULL;

		if (t->red || t->out[0]->kind == BUF_TEMP)
			continue;
		STMT_EACH_LOAD (e, t)
			if (e->load.buf == s->out[0] && load_once(t, e) && load_plain(e))
				once = e;
		if (once && band_as_stored(s, t, once, out) == s->nband)
			return s->nband;
	}
	return band_as_stored(s, s, NULL, out);
}

/* The dim of the slice in the partial sums. It comes after the outer iterator. */
static int slice_dim(const Partials *h, const Cut *c)
{
	return (c->inner ? h->n : 0) + (c->outer != NULL);
}

/* The number of dims of the partial sums before those of the band. */
static int before(const Cut *c)
{
	return c->inner ? 0 : 1 + (c->outer != NULL);
}

/* The first point of part SLICE. */
static Expr *first_of(Kernel *k, const Cut *c, Iter *slice)
{
	return ex_mul(k->pool, ex_iter(k->pool, slice), ex_dim(k->pool, c->each));
}

static void parts_of(Kernel *k, const Stmt *s, const Cut *c, Partials *h)
{
	ExprPool *p = k->pool;
	Stmt *part = NEW(k->arena, Stmt);
	Iter *slice = kernel_iter(k, "slice", c->parts), *q = kernel_iter(k, "q", c->each);
	Expr *place = ex_add(p, first_of(k, c, slice), ex_iter(p, q));
	Dim *dims[MAX_ITERS];

	*part = *s;
	for (int i = 0; i < h->n; i++)
		part->iter[i + before(c)] = h->band[i];
	if (c->outer)
		part->iter[slice_dim(h, c) - 1] = c->outer;
	part->iter[slice_dim(h, c)] = slice;
	part->niters = part->nband = part->nwidx = h->n + 1 + (c->outer != NULL);
	for (int i = s->nband; i < s->niters; i++)
		if (s->iter[i] != c->outer)
			part->iter[part->niters++] = s->iter[i] == c->along ? q : s->iter[i];
	part->widx = NEW_ARRAY(k->arena, part->nwidx, Expr *);
	for (int i = 0; i < part->nwidx; i++) {
		dims[i] = part->iter[i]->extent;
		part->widx[i] = ex_iter(p, part->iter[i]);
	}
	part->guard = s->guard ? ex_subst_iters(p, s->guard, &c->along, &place, 1) : NULL;
	if (!c->exact)
		part->guard = ex_and(p, part->guard,
				     ex_op2(p, IN_lt, place, ex_dim(p, c->along->extent)));
	part->nout = monoid_info[s->red].n;
	for (int i = 0; i < part->nout; i++) {
		part->val[i] = ex_subst_iters(p, s->val[i], &c->along, &place, 1);
		part->out[i] = kernel_temp(k, "part", ctype_dtype(s->val[i]->ct), part->nwidx,
					   dims);
	}
	h->part = part;
}

static void whole_of(Kernel *k, const Stmt *s, const Cut *c, Partials *h)
{
	ExprPool *p = k->pool;
	Stmt *whole = NEW(k->arena, Stmt);
	Expr *with[MAX_ITERS], *idx[MAX_ITERS];
	const int at = slice_dim(h, c);

	*whole = *s;
	for (int i = 0; i < h->n; i++) {
		whole->iter[i] = h->to[i] = kernel_iter(k, h->band[i]->name, h->band[i]->extent);
		with[i] = idx[i + before(c)] = ex_iter(p, h->to[i]);
	}
	whole->nband = whole->niters = h->n;
	if (c->outer) {
		whole->iter[whole->niters++] = kernel_iter(k, c->outer->name, c->outer->extent);
		idx[at - 1] = ex_iter(p, whole->iter[h->n]);
	}
	h->slice = whole->iter[whole->niters++] = kernel_iter(k, "slice", c->parts);
	idx[at] = ex_iter(p, h->slice);
	whole->guard = NULL;
	whole->widx = NEW_ARRAY(k->arena, s->nwidx + 1, Expr *);
	for (int d = 0; d < s->nwidx; d++)
		whole->widx[d] = ex_subst_iters(p, s->widx[d], h->band, with, h->n);
	for (int i = 0; i < h->part->nout; i++)
		whole->val[i] = ex_load(p, h->part->out[i], idx, h->part->nwidx);
	h->whole = whole;
}

void gpu_partials(Kernel *k, const Stmt *s, const Cut *c, Partials *h)
{
	h->n = band_in_memory(k, s, h->band);
	assert(h->n == s->nband);
	parts_of(k, s, c, h);
	whole_of(k, s, c, h);
}

/* ---- Sums relative to another reduction's result ---- */

/* The difference F - C in S = sum exp(F - C), W = max F, or in S = sum (F - C)^2, W = sum F; else
 * null. */
static Expr *difference(const Stmt *w, const Stmt *s)
{
	Expr *e = s->val[0], *d = NULL;

	if (s->red != MONOID_sum || !ctype_is_float(e->ct))
		return NULL;
	if (w->red == MONOID_max && ex_is_op(e, FN_exp))
		d = e->op.arg[0];
	else if (w->red == MONOID_sum && ex_is_op(e, IN_mul) && e->op.arg[0] == e->op.arg[1])
		d = e->op.arg[0];
	return d && ex_is_op(d, IN_sub) ? d : NULL;
}

/* E loads B, or a map of B. */
static bool is_made_from(const Kernel *k, Expr *e, const Buf *b)
{
	EX_EACH_LOAD (x, e) {
		if (x->load.buf == b)
			return true;
		VEC_EACH (s, &k->stmts)
			if (!s->red && x->load.buf->kind == BUF_TEMP && stmt_is_simple_map(s) &&
			    s->out[0] == x->load.buf && is_made_from(k, s->val[0], b))
				return true;
	}
	return false;
}

/* C is computed from the result of W. If C were an unrelated number, it might be finite where W's
 * result is infinite. */
static bool is_of(Kernel *k, const Stmt *w, const Expr *d)
{
	return is_made_from(k, d->op.arg[1], w->out[0]);
}

bool gpu_is_relative(Kernel *k, const Stmt *w, const Stmt *s)
{
	Expr *d = difference(w, s), *to[MAX_ITERS];

	if (!d || (w->red == MONOID_sum && !is_of(k, w, d)) || w->guard || s->guard ||
	    w->niters != s->niters || w->nband != s->nband)
		return false;
	for (int i = 0; i < s->niters; i++) {
		if (w->iter[i]->extent != s->iter[i]->extent ||
		    (i >= s->nband && expr_has_iter(d->op.arg[1], s->iter[i])))
			return false;
		to[i] = ex_iter(k->pool, s->iter[i]);
	}
	return ex_subst_iters(k->pool, w->val[0], w->iter, to, w->niters) == d->op.arg[0];
}

bool gpu_cut_alike(const Stmt *w, const Cut *cw, const Stmt *s, const Cut *cs)
{
	for (int i = 0; i < s->niters; i++)
		if ((w->iter[i] == cw->along) != (s->iter[i] == cs->along) ||
		    (w->iter[i] == cw->outer) != (s->iter[i] == cs->outer))
			return false;
	return cw->parts == cs->parts && cw->each == cs->each && cw->inner == cs->inner;
}

/* LARGEST clamped to the finite numbers: the terms of its part are taken relative to it. */
static Expr *number(ExprPool *p, Expr *largest)
{
	const double most = largest->ct == CT_F64 ? DBL_MAX : FLT_MAX;

	return ex_op2(p, IN_min, ex_num(p, largest->ct, most),
		      ex_op2(p, IN_max, ex_num(p, largest->ct, -most), largest));
}

/* The load of W's partial result that corresponds to H's part; WHOLE: at the point of the combining
 * statement. */
static Expr *part_at(Kernel *k, const Stmt *w, const Partials *hw, const Cut *c, const Stmt *s,
		     const Partials *h, bool whole)
{
	Expr *idx[MAX_ITERS];
	const int at = slice_dim(hw, c);

	for (int d = 0; d < hw->part->nwidx; d++) {
		Iter *it = whole ? h->slice : h->part->iter[at];

		if (d == at - 1 && c->outer)
			it = whole ? h->whole->iter[h->n] : h->part->iter[d];
		for (int i = 0; i < w->nband; i++)
			for (int b = 0; w->iter[i] == hw->part->iter[d] && b < hw->n; b++)
				if (h->band[b] == s->iter[i])
					it = whole ? h->to[b] : h->band[b];
		idx[d] = ex_iter(k->pool, it);
	}
	return ex_load(k->pool, hw->part->out[0], idx, hw->part->nwidx);
}

/* The number of terms of S in part SLICE of cut C. */
static Expr *terms_at(Kernel *k, const Stmt *s, const Cut *c, Iter *slice)
{
	ExprPool *p = k->pool;
	Dim *others = dim_const(k->ctx, 1);
	Expr *each = ex_dim(p, c->each);

	for (int i = s->nband; i < s->niters; i++)
		if (s->iter[i] != c->along && s->iter[i] != c->outer)
			others = dim_mul(k->ctx, others, s->iter[i]->extent);
	if (!c->exact)
		each = ex_op2(p, IN_min, each,
			      ex_sub(p, ex_dim(p, c->along->extent), first_of(k, c, slice)));
	return ex_cvt(p, s->val[0]->ct, ex_mul(p, each, ex_dim(p, others)));
}

static Expr *square(ExprPool *p, Expr *e)
{
	return ex_op2(p, IN_mul, e, e);
}

void gpu_relative(Kernel *k, const Stmt *w, const Partials *hw, const Cut *c, const Stmt *s,
		  Partials *h)
{
	ExprPool *p = k->pool;
	Expr *f = difference(w, h->part)->op.arg[0], *from = difference(w, s)->op.arg[1],
	     *to[MAX_ITERS], *sum = h->whole->val[0], *d, *n;
	Expr *partial = part_at(k, w, hw, c, s, h, false), *all = part_at(k, w, hw, c, s, h, true);

	for (int i = 0; i < h->n; i++)
		to[i] = ex_iter(p, h->to[i]);
	from = ex_subst_iters(p, from, h->band, to, h->n);
	if (w->red == MONOID_max) {
		d = ex_op2(p, IN_sub, number(p, all), from);
		h->part->val[0] = ex_op1(p, FN_exp, ex_op2(p, IN_sub, f, number(p, partial)));
		h->whole->val[0] = ex_op2(p, IN_mul, sum, ex_op1(p, FN_exp, d));
		return;
	}
	partial = ex_op2(p, IN_div, partial, terms_at(k, w, c, h->part->iter[slice_dim(h, c)]));
	n = terms_at(k, w, c, h->slice);
	d = ex_op2(p, IN_sub, ex_op2(p, IN_div, all, n), from);
	h->part->val[0] = square(p, ex_op2(p, IN_sub, f, partial));
	h->whole->val[0] = ex_op2(p, IN_add, sum, ex_op2(p, IN_mul, n, square(p, d)));
}
