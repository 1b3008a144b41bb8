/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reduction as two (passes/gpu_split.c). Softmax's sum is of exponentials relative to the row's maximum, which no part
 * knows; so each is relative to its part's own,
 *
 *     top[i,p] = max x[i,p*C+q]                    part[i,p] = sum exp(x[i,p*C+q] - top[i,p])
 *     m[i] = max top[i,p]                          s[i] = sum part[i,p] * exp(top[i,p] - m[i])
 *
 * and one reading of the row makes both (Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018). An
 * infinity is no number to be relative to: the nearest number stands for it, and sums are infinite, zero or NaN as before.
 */
#include "passes/gpu_split_impl.h"

#include <assert.h>
#include <float.h>

/* A load of BUF at all points of a statement, each once. */
typedef struct Reads {
	const Buf *buf;
	Expr *load;
} Reads;

static void reads_each(void *arg, Stmt *s, Expr *load)
{
	Reads *r = arg;

	if (load->load.buf == r->buf && load_once(s, load) && load_plain(load))
		r->load = load;
}

static const Iter *writes_with(const Stmt *s, Expr *load, const Iter *it)
{
	for (int d = 0; d < load->load.nidx; d++)
		if (load->load.idx[d]->kind == EX_ITER && load->load.idx[d]->iter == it &&
		    s->widx[d]->kind == EX_ITER)
			return s->widx[d]->iter;
	return NULL;
}

/* The iterators of S's band as T, which reads the results at LOAD, stores to memory; S itself: LOAD is null. */
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

/* The band's iterators as what is made of S's results, point by point, lies in memory, or they themselves. */
static int band_in_memory(Kernel *k, const Stmt *s, Iter **out)
{
	for (int i = k->stmts.n - 1; i >= 0 && s->out[0]->kind == BUF_TEMP; i--) {
		Stmt *t = k->stmts.at[i];
		Reads r = {s->out[0], NULL};

		if (t->red || t->out[0]->kind == BUF_TEMP)
			continue;
		stmt_loads(t, reads_each, &r);
		if (r.load && band_as_stored(s, t, r.load, out) == s->nband)
			return s->nband;
	}
	return band_as_stored(s, s, NULL, out);
}

/* The place of the slice among the dims of the parts. */
static int slice_dim(const Halves *h, const Cut *c)
{
	return c->inner ? h->n : 0;
}

static void parts_of(Kernel *k, const Stmt *s, const Cut *c, Halves *h)
{
	ExprPool *p = k->pool;
	Stmt *part = NEW(k->arena, Stmt);
	Iter *slice = kernel_iter(k, "slice", c->parts), *q = kernel_iter(k, "q", c->each);
	Expr *place = ex_add(p, ex_mul(p, ex_iter(p, slice), ex_dim(p, c->each)), ex_iter(p, q));
	Dim *dims[MAX_ITERS];

	*part = *s;
	for (int i = 0; i < h->n; i++)
		part->iter[i + !c->inner] = h->band[i];
	part->iter[slice_dim(h, c)] = slice;
	part->nband = part->nwidx = h->n + 1;
	for (int i = s->nband; i < s->niters; i++)
		part->iter[i + 1] = s->iter[i] == c->along ? q : s->iter[i];
	part->niters = s->niters + 1;
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

static void whole_of(Kernel *k, const Stmt *s, const Cut *c, Halves *h)
{
	ExprPool *p = k->pool;
	Stmt *whole = NEW(k->arena, Stmt);
	Expr *with[MAX_ITERS], *idx[MAX_ITERS];
	const int at = slice_dim(h, c);

	*whole = *s;
	for (int i = 0; i < h->n; i++) {
		whole->iter[i] = h->to[i] = kernel_iter(k, h->band[i]->name, h->band[i]->extent);
		with[i] = idx[i + (i >= at)] = ex_iter(p, h->to[i]);
	}
	whole->iter[h->n] = kernel_iter(k, "slice", c->parts);
	idx[at] = ex_iter(p, whole->iter[h->n]);
	whole->nband = h->n;
	whole->niters = h->n + 1;
	whole->guard = NULL;
	whole->widx = NEW_ARRAY(k->arena, s->nwidx + 1, Expr *);
	for (int d = 0; d < s->nwidx; d++)
		whole->widx[d] = ex_subst_iters(p, s->widx[d], h->band, with, h->n);
	for (int i = 0; i < h->part->nout; i++)
		whole->val[i] = ex_load(p, h->part->out[i], idx, h->n + 1);
	h->whole = whole;
}

void gpu_halve(Kernel *k, const Stmt *s, const Cut *c, Halves *h)
{
	h->n = band_in_memory(k, s, h->band);
	assert(h->n == s->nband);
	parts_of(k, s, c, h);
	whole_of(k, s, c, h);
}

/* ---- Sums of exponentials ---- */

bool gpu_is_softmax(Kernel *k, const Stmt *w, const Cut *cw, const Stmt *s, const Cut *cs)
{
	Expr *e = s->val[0], *to[MAX_ITERS];

	if (w->red != MONOID_max || s->red != MONOID_sum || w->guard || s->guard ||
	    w->niters != s->niters || w->nband != s->nband || !ex_is_op(e, FN_exp) ||
	    !ex_is_op(e->op.arg[0], IN_sub) || cw->parts != cs->parts || cw->each != cs->each ||
	    cw->inner != cs->inner)
		return false;
	e = e->op.arg[0];
	for (int i = 0; i < s->niters; i++) {
		if (w->iter[i]->extent != s->iter[i]->extent ||
		    (w->iter[i] == cw->along) != (s->iter[i] == cs->along) ||
		    (i >= s->nband && expr_has_iter(e->op.arg[1], s->iter[i])))
			return false;
		to[i] = ex_iter(k->pool, s->iter[i]);
	}
	return ex_subst_iters(k->pool, w->val[0], w->iter, to, w->niters) == e->op.arg[0];
}

/* The largest term of a part, as a number: what the terms of the part are taken relative to. */
static Expr *number(ExprPool *p, Expr *largest)
{
	const double most = largest->ct == CT_F64 ? DBL_MAX : FLT_MAX;

	return ex_op2(p, IN_min, ex_num(p, largest->ct, most),
		      ex_op2(p, IN_max, ex_num(p, largest->ct, -most), largest));
}

/* The parts of W's maximum at the point of S's that iterators BAND and SLICE stand for. */
static Expr *largest_at(Kernel *k, const Stmt *w, const Halves *hw, const Cut *c, const Stmt *s,
			Iter *const *from, Iter *const *to, Iter *slice)
{
	Expr *idx[MAX_ITERS];
	const int at = slice_dim(hw, c);

	for (int d = 0; d <= hw->n; d++) {
		Iter *it = slice;

		for (int i = 0; d != at && i < w->nband; i++)
			for (int b = 0; w->iter[i] == hw->part->iter[d] && b < hw->n; b++)
				if (from[b] == s->iter[i])
					it = to[b];
		idx[d] = ex_iter(k->pool, it);
	}
	return ex_load(k->pool, hw->part->out[0], idx, hw->n + 1);
}

void gpu_relative(Kernel *k, const Stmt *w, const Halves *hw, const Cut *c, const Stmt *s,
		  Halves *h)
{
	ExprPool *p = k->pool;
	Expr *f = h->part->val[0]->op.arg[0]->op.arg[0], *from = s->val[0]->op.arg[0]->op.arg[1],
	     *to[MAX_ITERS];
	Expr *mine = number(p, largest_at(k, w, hw, c, s, h->band, h->band,
					  h->part->iter[slice_dim(h, c)])),
	     *all = number(p, largest_at(k, w, hw, c, s, h->band, h->to, h->whole->iter[h->n]));

	for (int i = 0; i < h->n; i++)
		to[i] = ex_iter(p, h->to[i]);
	h->part->val[0] = ex_op1(p, FN_exp, ex_op2(p, IN_sub, f, mine));
	from = ex_subst_iters(p, from, h->band, to, h->n);
	h->whole->val[0] = ex_op2(p, IN_mul, h->whole->val[0],
				  ex_op1(p, FN_exp, ex_op2(p, IN_sub, all, from)));
}
