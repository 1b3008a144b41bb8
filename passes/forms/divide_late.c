/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sum over n of (e[m,n] / s[m]) * v[n,d]  is  (sum over n of e[m,n] * v[n,d]) / s[m], with a
 * division for each result rather than one for each weight: 64 in a row, not 384.
 *
 * The two differ only in rounding where e = exp(x - max x) and s is the sum of e: then e is at most
 * 1, s is at least 1, and a NaN in a row makes both NaN. Only the sum of a row without elements is
 * 0, for which y is 0: so y is divided by max(s, 1) instead. The sum over n may overflow where its
 * quotient would not, if v is within a factor of the row's length from the largest number of its
 * type (docs/numerics.md). The rewrite matches these statements:
 *
 *	x_max[m] = max x[m,n]    over n
 *	e[m,n]   = exp(sub(x[m,n], x_max[m]))
 *	s[m]     = sum e[m,n]    over n
 *	w[m,n]   = div(e[m,n], s[m])
 *	y[m,d]   = sum mul(w[m,n], v[n,d])    over n
 *
 * If w is rounded to 16 bits, e is rounded in its place, with the same relative error.
 *
 * Either x_max or s may be clamped by a maximum with a constant, which keeps fully masked rows
 * finite. If x_max is clamped, s may be any number from 0 upwards; then s must be clamped by a
 * constant above 0, and y is divided by the clamped s.
 */
#include "passes/forms/divide_late.h"

#include "passes/forms/contraction.h"

/* The only writer of the temporary that E loads; null: E is not such a load, or there are several
 * writers. */
static Stmt *source_of(const Kernel *k, const Expr *e)
{
	return e->kind == EX_LOAD && e->load.buf->kind == BUF_TEMP && !e->load.buf->data
		       ? kernel_writer(k, e->load.buf)
		       : NULL;
}

/* The only iterator of map S that E does not mention; null: none, or several. */
static Iter *row_of(const Stmt *s, Expr *e)
{
	Iter *row = NULL;

	for (int i = 0; i < s->niters; i++)
		if (!expr_has_iter(e, s->iter[i])) {
			if (row)
				return NULL;
			row = s->iter[i];
		}
	return row;
}

/* Maps the iterators of S's write to the indices of LOAD: *N pairs in FROM and TO. False if the
 * write has indices other than iterators and constants that LOAD has, too. */
static bool at_load(const Stmt *s, const Expr *load, Iter **from, Expr **to, int *n)
{
	for (int d = 0; d < load->load.nidx; d++) {
		if (s->widx[d]->kind == EX_ITER) {
			from[*n] = s->widx[d]->iter;
			to[(*n)++] = load->load.idx[d];
		} else if (s->widx[d] != load->load.idx[d]) {
			return false;
		}
	}
	return *n == s->nband;
}

/* S is the reduction, by RED along ROW, of the terms TERM, and LOAD reads its result. */
static bool reduces(Kernel *k, const Stmt *s, Monoid red, const Expr *load, Iter *row,
		    const Expr *term)
{
	Iter *from[MAX_ITERS + 1];
	Expr *to[MAX_ITERS + 1];
	int n = 0;

	if (!s || !row || s->red != red || s->scan || s->update || s->guard ||
	    s->niters != s->nband + 1 || s->iter[s->nband]->extent != row->extent ||
	    !at_load(s, load, from, to, &n))
		return false;
	from[n] = s->iter[s->nband];
	to[n++] = ex_iter(k->pool, row);
	return ex_subst_iters(k->pool, s->val[0], from, to, n) == term;
}

/* X of max(X, C), where C is the same at every point of S; else E itself. */
static Expr *unclamped(const Stmt *s, Expr *e)
{
	return ex_is_op(e, IN_max) && !expr_has_any(e->op.arg[1], s->iter, s->niters) ? e->op.arg[0]
										      : e;
}

/* E, in S, is the maximum of something and a constant above 0. */
static bool is_above_zero(const Stmt *s, Expr *e)
{
	return unclamped(s, e) != e && e->op.arg[1]->kind == EX_CONST && e->op.arg[1]->f > 0;
}

/* The row maximum that S subtracts, if S is e of the form above; else null. */
static Expr *row_maximum(Kernel *k, const Stmt *s)
{
	Expr *x, *most;

	if (!s || !stmt_is_simple_map(s) || !ex_is_op(s->val[0], FN_exp))
		return NULL;
	x = s->val[0]->op.arg[0];
	if (!ex_is_op(x, IN_sub))
		return NULL;
	most = unclamped(s, x->op.arg[1]);
	return reduces(k, source_of(k, most), MONOID_max, most, row_of(s, most), x->op.arg[0])
		       ? x->op.arg[1]
		       : NULL;
}

/* The quotient that W computes, which it may round to its element type. */
static Expr *quotient_of(const Stmt *w)
{
	Expr *e = w->val[0];

	return ex_is_op(e, IN_round) || ex_is_op(e, IN_roundsat) ? e->op.arg[0] : e;
}

/* W is w of the form above: it divides by the sum of its row. *CLAMPED: the row's maximum is
 * clamped. */
static bool is_softmax(Kernel *k, const Stmt *w, bool *clamped)
{
	Expr *e, *s, *most;

	if (!w || !stmt_is_simple_map(w) || !ex_is_op(quotient_of(w), IN_div))
		return false;
	e = quotient_of(w)->op.arg[0];
	s = unclamped(w, quotient_of(w)->op.arg[1]);
	most = row_maximum(k, source_of(k, e));
	if (!most || e->load.nidx != w->nwidx ||
	    !reduces(k, source_of(k, s), MONOID_sum, s, row_of(w, s), e))
		return false;
	for (int d = 0; d < w->nwidx; d++)
		if (w->widx[d] != e->load.idx[d])
			return false;
	*clamped = unclamped(source_of(k, e), most) != most;
	return (e->load.buf->dtype == w->out[0]->dtype || quotient_of(w) != w->val[0]) &&
	       (!*clamped || is_above_zero(w, quotient_of(w)->op.arg[1]));
}

typedef struct DivideLate {
	Kernel *k;
	Stmt *w, *y;      /* as above */
	const Expr *read; /* the weight that Y reads from W */
	bool clamped;     /* row maxima are clamped, and the clamped sums are above 0 */
} DivideLate;

/* A load of Y's result divided by its row's sum, or by 1 where the row is empty. */
static Expr *divided(const DivideLate *r, Expr *load)
{
	Iter *from[MAX_ITERS];
	Expr *to[MAX_ITERS], *sum = quotient_of(r->w)->op.arg[1];
	int n = 0;

	at_load(r->w, r->read, from, to, &n);
	sum = ex_subst_iters(r->k->pool, sum, from, to, n);
	if (!r->clamped)
		sum = ex_op2(r->k->pool, IN_max, sum, ex_num(r->k->pool, sum->ct, 1));
	n = 0;
	at_load(r->y, load, from, to, &n);
	return ex_op2(r->k->pool, IN_div, load, ex_subst_iters(r->k->pool, sum, from, to, n));
}

/* Y's result is an output. Y writes a temporary instead, and a new map divides it into the
 * output. */
static void add_division(DivideLate *r)
{
	Kernel *k = r->k;
	Buf *out = r->y->out[0], *sums = kernel_temp(k, "sums", out->dtype, out->rank, out->dims);
	Iter *it[MAX_ITERS];
	Expr *to[MAX_ITERS], *idx[MAX_RANK], *load;

	for (int i = 0; i < r->y->nband; i++) {
		it[i] = kernel_iter(k, r->y->iter[i]->name, r->y->iter[i]->extent);
		to[i] = ex_iter(k->pool, it[i]);
	}
	for (int d = 0; d < r->y->nwidx; d++)
		idx[d] = ex_subst_iters(k->pool, r->y->widx[d], r->y->iter, to, r->y->nband);
	r->y->out[0] = sums;
	load = kernel_load(k, sums, idx);
	kernel_map(k, it, r->y->nband, out, idx, divided(r, load), NULL)->loc = r->w->loc;
}

/* R's product Y sums over the rows of a softmax W that no other statement reads. */
static bool fits(DivideLate *r)
{
	Kernel *k = r->k;
	Iter *from[MAX_ITERS], *row;
	Expr *to[MAX_ITERS];
	Contraction c;
	int n = 0;

	if (!stmt_contraction(k, r->y, &c) || c.nk != 1 || r->y->guard)
		return false;
	r->w = source_of(k, c.a);
	if (!is_softmax(k, r->w, &r->clamped))
		return false;
	r->read = c.a;
	for (int i = 0; i < k->stmts.n; i++)
		STMT_EACH_LOAD (x, k->stmts.at[i])
			if (x->load.buf == r->w->out[0] && (k->stmts.at[i] != r->y || x != c.a))
				return false;
	if (!at_load(r->w, r->read, from, to, &n))
		return false;
	row = row_of(r->w, quotient_of(r->w)->op.arg[1]);
	for (int i = 0; i < n; i++)
		if ((from[i] == row) != expr_has_iter(to[i], c.k[0]) ||
		    (from[i] == row && to[i]->kind != EX_ITER))
			return false;
	return true;
}

/* The last statement that is a contraction. */
static Stmt *last_contraction(Kernel *k)
{
	Contraction c;

	for (int i = k->stmts.n - 1; i >= 0; i--)
		if (stmt_contraction(k, k->stmts.at[i], &c))
			return k->stmts.at[i];
	return NULL;
}

void kernel_divide_late(Kernel *k)
{
	DivideLate r = {.k = k, .y = last_contraction(k)};

	if (!r.y || !fits(&r))
		return;
	if (r.y->out[0]->kind == BUF_OUT)
		add_division(&r);
	else
		for (int i = 0; i < k->stmts.n; i++)
			if (k->stmts.at[i] != r.y)
				STMT_MAP (x, k, k->stmts.at[i])
					if (x->kind == EX_LOAD && x->load.buf == r.y->out[0])
						x = divided(&r, x);
	if (quotient_of(r.w) != r.w->val[0]) {
		r.w->val[0] = ex_round(k->pool, r.w->val[0]->op.dtype, quotient_of(r.w)->op.arg[0]);
	} else {
		STMT_MAP (x, k, r.y)
			if (x->kind == EX_LOAD && x->load.buf == r.w->out[0])
				x = ex_load(k->pool, r.w->val[0]->op.arg[0]->load.buf, x->load.idx,
					    x->load.nidx);
		kernel_remove_stmt(k, r.w->id);
	}
	kernel_mark_used(k);
}
