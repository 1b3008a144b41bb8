/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/online.h"

#include "passes/forms/product.h"

static bool refuse(OnlineForm *f, const char *why)
{
	if (!f->why)
		f->why = why;
	return false;
}

/* ---- The two products ---- */

static bool in_band(const OnlineForm *f, const Stmt *s, Iter *const *it, int n)
{
	for (int i = 0; i < n; i++)
		if (band_index(&f->band, s, it[i]) < 0)
			return false;
	return true;
}

/* Exchanges the operands of C if its rows are then in the band and its columns are not. */
static bool orient(const OnlineForm *f, Contraction *c)
{
	if (in_band(f, c->s, c->m, c->nm) && c->nn == 1 && !in_band(f, c->s, c->n, c->nn))
		return true;
	contraction_swap(c);
	return in_band(f, c->s, c->m, c->nm) && c->nn == 1 && !in_band(f, c->s, c->n, c->nn);
}

/* The iterator of the scores that is IT of S in the band; null: none. */
static Iter *in_scores(const OnlineForm *f, const Stmt *s, const Iter *it)
{
	const int b = band_index(&f->band, s, it);

	return b < 0 ? NULL : f->band.of[f->scores.s->id][b];
}

/* The rows of both products are the same iterators of the band. */
static bool same_rows(const OnlineForm *f)
{
	const Contraction *s = &f->scores, *v = &f->values;

	if (s->nm != v->nm || s->ng != v->ng || s->nm + s->ng != f->band.n)
		return false;
	for (int i = 0; i < v->nm; i++)
		if (!iter_among(in_scores(f, v->s, v->m[i]), s->m, s->nm))
			return false;
	return true;
}

static bool find_products(OnlineForm *f)
{
	Contraction *s = &f->scores, *v = &f->values;

	f->second = kernel_second_product(f->k);
	if (f->second < 0 || !stmt_contraction(f->k, f->k->stmts.at[0], s))
		return false;
	stmt_contraction(f->k, f->k->stmts.at[f->second], v);
	band_of(f->k, f->k->arena, &f->band);
	if (!orient(f, s) || !orient(f, v) || !same_rows(f))
		return refuse(
			f,
			"the two products share no rows, or the rows are not all that they share");
	if (s->nk != 1 || v->nk != 1 || v->k[0]->extent != s->n[0]->extent)
		return refuse(
			f,
			"a product sums over several iterators, or the second one over other keys");
	if (s->guard_a || s->guard_b || v->guard_a || v->guard_b || s->ct != CT_F32 ||
	    v->ct != CT_F32)
		return refuse(f, "a product has a guard, or its sums are not f32");
	f->key = s->n[0];
	f->term = s->k[0];
	f->column = v->n[0];
	f->score = s->s->out[0];
	f->acc = v->s->out[0];
	return (s->s->out[0]->kind == BUF_TEMP && s->s->out[0]->dtype == DT_F32) ||
	       refuse(f, "the scores are a result of the kernel, or not f32");
}

/* ---- Substitution ---- */

/* Iterator IT of statement S as one of the products: of the band, the keys, the columns, or the
 * terms. */
static Iter *canonical(const OnlineForm *f, const Stmt *s, const Iter *it)
{
	Iter *b = in_scores(f, s, it);

	if (b)
		return b;
	if (s->id < f->second)
		return it == f->term ? f->term : it->extent == f->key->extent ? f->key : NULL;
	if (s == f->values.s && it == f->values.k[0])
		return f->key;
	return it->extent == f->column->extent ? f->column : NULL;
}

/* E of S over canonical iterators. Clears *OK if an iterator has none. */
static Expr *with_canonical(OnlineForm *f, const Stmt *s, Expr *e, bool *ok)
{
	EX_MAP (x, f->k->pool, &e) {
		Iter *it = x->kind == EX_ITER ? canonical(f, s, x->iter) : NULL;

		*ok = *ok && (it || x->kind != EX_ITER);
		x = it ? ex_iter(f->k->pool, it) : x;
	}
	return e;
}

/* E is a load, whose indices are canonical, of the element that W writes at its own point. */
static bool reads_point(OnlineForm *f, const Stmt *w, const Expr *e)
{
	bool ok = w->nwidx == e->load.nidx;

	for (int d = 0; d < w->nwidx && ok; d++)
		ok = with_canonical(f, w, w->widx[d], &ok) == e->load.idx[d] && ok;
	return ok;
}

/* E of S over canonical iterators. A load of a temporary becomes what a map wrote there; those of
 * reductions and products stay. */
static Expr *resolve(OnlineForm *f, const Stmt *s, Expr *e, bool *ok)
{
	EX_MAP (x, f->k->pool, &e) {
		const Stmt *w;

		if (x->kind == EX_ITER)
			x = with_canonical(f, s, x, ok);
		if (x->kind != EX_LOAD || x->load.buf->kind != BUF_TEMP || x->load.buf->data ||
		    !*ok)
			continue;
		w = kernel_writer(f->k, x->load.buf);
		*ok = w && w->nout == 1 && !w->guard && w->id < s->id && reads_point(f, w, x);
		if (*ok && !w->red)
			x = ex_round(f->k->pool, x->load.buf->dtype, resolve(f, w, w->val[0], ok));
	}
	return e;
}

/* ---- The exponential ---- */

/* E is the exponential (a load of SCORE by now) times something that does not depend on the
 * scores. */
static bool is_linear(const OnlineForm *f, const Expr *e)
{
	Expr *a, *b;

	if (e->kind == EX_LOAD)
		return e->load.buf == f->score;
	if (e->kind != EX_INST)
		return false;
	a = e->op.arg[0];
	b = e->op.n > 1 ? e->op.arg[1] : NULL;
	switch (e->op.inst) {
	case IN_round:
	case IN_roundsat:
	case IN_cvt: return is_linear(f, a);
	case IN_mul:
		return (is_linear(f, a) && !expr_loads(b, f->score) && !expr_loads(b, f->most)) ||
		       (is_linear(f, b) && !expr_loads(a, f->score) && !expr_loads(a, f->most));
	case IN_select:
		for (int i = 1; i < 3; i++)
			if (!is_linear(f, e->op.arg[i]) &&
			    (e->op.arg[i]->kind != EX_CONST || e->op.arg[i]->f != 0))
				return false;
		return !expr_loads(a, f->score) && !expr_loads(a, f->most);
	default: return false;
	}
}

/* E with the exponential as a load of the score's element. False: it has another one, or is not
 * linear. */
static bool with_exponential(OnlineForm *f, Expr *e, Expr **out)
{
	Expr *idx[MAX_RANK];
	Expr *found = NULL;
	bool ok = true;
	int n = 0;

	EX_EACH (x, e)
		if ((ex_is_op(x, FN_exp) || ex_is_op(x, FN_exp2)) && expr_loads(x, f->most) &&
		    expr_loads(x, f->score)) {
			found = x;
			n++;
		}
	if (!f->exponential && n == 1)
		f->exponential = found;
	if (n != 1 || found != f->exponential)
		return refuse(
			f,
			"what is summed over the keys has not one exponential of a score less its row's maximum");
	for (int d = 0; d < f->scores.s->nwidx; d++)
		idx[d] = with_canonical(f, f->scores.s, f->scores.s->widx[d], &ok);
	*out = ex_replace(f->k->pool, e, found,
			  ex_load(f->k->pool, f->score, idx, f->scores.s->nwidx));
	return (ok && is_linear(f, *out)) ||
	       refuse(f, "what is summed over the keys is not proportional to the exponential");
}

/* The exponential is of x - shift, where the row's maximum is of x, and the shift has no key. */
static bool exponential_fits(OnlineForm *f)
{
	Expr *e = f->exponential->op.arg[0];

	if (!ex_is_op(e, IN_sub) || e->op.arg[0] != f->x)
		return refuse(f, "the exponential is not of the score less its row's maximum");
	f->shift = e->op.arg[1];
	return (!expr_has_iter(f->shift, f->key) && !expr_loads(f->shift, f->score)) ||
	       refuse(f, "the exponential is not of the score less its row's maximum");
}

/* ---- The statements ---- */

static bool over_keys(const OnlineForm *f, const Stmt *s)
{
	return s->nout == 1 && !s->guard && !s->scan && !s->update && s->niters == s->nband + 1 &&
	       canonical(f, s, s->iter[s->nband]) == f->key;
}

/* S reduces over the keys: the maximum, or a sum. */
static bool see_reduction(OnlineForm *f, Stmt *s)
{
	bool ok = true;
	Expr *e;

	if (!over_keys(f, s) || (s->red != MONOID_max && s->red != MONOID_sum))
		return refuse(
			f,
			"a statement between the products is neither a map nor a maximum or sum over the keys");
	e = resolve(f, s, s->val[0], &ok);
	if (!ok)
		return refuse(
			f,
			"a statement between the products reads other elements than those at its point");
	if (s->red == MONOID_max) {
		if (f->most)
			return refuse(f, "there are two maxima over the keys");
		f->most = s->out[0];
		f->x = e;
		return true;
	}
	if (!f->most || f->nsums == ONLINE_SUMS)
		return refuse(f, "a sum over the keys comes before the maximum");
	f->sum[f->nsums] = s;
	return with_exponential(f, e, &f->sum_term[f->nsums++]);
}

static bool see_middle(OnlineForm *f)
{
	for (int i = 1; i < f->second; i++) {
		Stmt *s = f->k->stmts.at[i];

		if (s->nout != 1 || s->out[0]->kind != BUF_TEMP || s->guard || s->ordered ||
		    s->update)
			return refuse(
				f,
				"a statement between the products has a guard, an order, or a result of the kernel");
		if (s->red && !see_reduction(f, s))
			return false;
	}
	return f->most || refuse(f, "no maximum over the keys is between the products");
}

static bool rounds(const Expr *e)
{
	return ex_is_op(e, IN_round) || ex_is_op(e, IN_roundsat);
}

/* Q of W = select(isnan(Q), 0, Q); else W. Such a softmax has weights 0 where all keys of a row are
 * masked. */
static Expr *without_nan(OnlineForm *f, Expr *w)
{
	const Expr *s = rounds(w) ? w->op.arg[0] : w, *test, *zero;

	if (!ex_is_op(s, IN_select))
		return w;
	test = s->op.arg[0];
	zero = s->op.arg[1];
	if (!ex_is_op(test, IN_isnan) || test->op.arg[0] != s->op.arg[2] ||
	    zero->kind != EX_CONST || zero->f != 0)
		return w;
	f->nan_is_zero = true;
	return rounds(w) ? ex_round(f->k->pool, w->op.dtype, s->op.arg[2]) : s->op.arg[2];
}

/* W without the division by what does not depend on the key, which goes to F->divisor. Where there
 * are no keys, the results are 0, whatever the divisor is. */
static Expr *without_division(OnlineForm *f, Expr *w)
{
	ExprPool *p = f->k->pool;
	Expr *q = rounds(w) ? w->op.arg[0] : w, *by, *any;

	if (rounds(q))
		q = q->op.arg[0];
	if (!ex_is_op(q, IN_div))
		return w;
	by = q->op.arg[1];
	if (expr_has_iter(by, f->key) || expr_loads(by, f->score))
		return w;
	any = ex_op2(p, IN_gt, ex_dim(p, f->key->extent), ex_int(p, CT_I64, 0));
	f->divisor = f->nan_is_zero ? by : ex_op3(p, IN_select, any, by, ex_num(p, by->ct, 1));
	return rounds(w) ? ex_round(p, w->op.dtype, q->op.arg[0]) : q->op.arg[0];
}

/* The weights are the exponentials divided by their sum. So where one of a row is NaN, all are, or
 * there is an infinite or no sum: a row with a NaN has a NaN as its sum. */
static bool nan_fits(const OnlineForm *f)
{
	const Expr *w = rounds(f->w) ? f->w->op.arg[0] : f->w;

	for (int i = 0; i < f->nsums; i++)
		if (f->divisor && f->divisor->kind == EX_LOAD &&
		    f->divisor->load.buf == f->sum[i]->out[0])
			return f->sum_term[i] == w && w->kind == EX_LOAD;
	return false;
}

/* X of E = select(lt(abs(X), inf), min(C, max(-C, X)), X), finite numbers of which are kept in the
 * range of a type that has 1; else E. */
static Expr *unlimited(Expr *e)
{
	const Expr *low, *high;
	Expr *x;

	if (!ex_is_op(e, IN_select) || !ex_is_op(e->op.arg[1], IN_min))
		return e;
	x = e->op.arg[2];
	high = e->op.arg[1]->op.arg[0];
	low = e->op.arg[1]->op.arg[1];
	if (high->kind != EX_CONST || high->f < 1 || !ex_is_op(low, IN_max) || low->op.arg[1] != x)
		return e;
	low = low->op.arg[0];
	return low->kind == EX_CONST && low->f <= 0 ? x : e;
}

/* No exponential is above 1. */
static bool at_most_one(const OnlineForm *f)
{
	const Expr *s = f->shift;

	if (ex_is_op(s, IN_max))
		s = s->op.arg[0]->kind == EX_LOAD ? s->op.arg[0] : s->op.arg[1];
	return s->kind == EX_LOAD && s->load.buf == f->most;
}

static bool see_weights(OnlineForm *f)
{
	const bool rounded = rounds(f->values.a);
	Expr *a = rounded ? f->values.a->op.arg[0] : f->values.a, *any = a, *w;
	bool ok = true;

	a = unlimited(a);
	if (a->kind != EX_LOAD || a->load.buf->kind != BUF_TEMP || a->load.buf->data)
		return refuse(f, "the second product does not read the weights as they are");
	f->weight = a->load.buf;
	w = resolve(f, f->values.s, a, &ok);
	w = rounded ? ex_round(f->k->pool, f->values.a->op.dtype, w) : w;
	if (!ok)
		return refuse(f, "the second product reads other weights than those of its row");
	f->v = resolve(f, f->values.s, f->values.b, &ok);
	if (!ok)
		return refuse(f, "the values are not read at their own point");
	if (!with_exponential(f, without_division(f, without_nan(f, w)), &f->w) ||
	    !exponential_fits(f))
		return false;
	if (a != any && !at_most_one(f))
		return refuse(f, "the weights are limited, and not known to be at most 1");
	return !f->nan_is_zero || nan_fits(f) ||
	       refuse(f,
		      "weights that are NaN become 0, and are not exponentials divided by their sum");
}

static bool see_results(OnlineForm *f)
{
	const Stmt *v = f->values.s;
	Expr *idx[MAX_RANK];
	bool ok = true;

	for (int d = 0; d < v->nwidx; d++)
		idx[d] = with_canonical(f, v, v->widx[d], &ok);
	f->result_acc = ex_load(f->k->pool, f->acc, idx, v->nwidx);
	for (int i = f->second; i < f->k->stmts.n; i++) {
		Stmt *s = f->k->stmts.at[i];

		if (i > f->second &&
		    (s->nout != 1 || s->red || s->guard || s->ordered || s->update))
			return refuse(
				f, "a statement after the products is not a map without a guard");
		if (s->out[0]->kind == BUF_TEMP)
			continue;
		if (f->nresults == ONLINE_RESULTS)
			return refuse(f, "there are too many results");
		f->result[f->nresults] = s;
		f->result_at[f->nresults] = resolve(f, s, flat_index(f->k, s->out[0], s->widx),
						    &ok);
		f->result_val[f->nresults++] = i == f->second ? f->result_acc
							      : resolve(f, s, s->val[0], &ok);
		if (!ok || s->niters < f->band.n + 1)
			return refuse(f, "a result reads other elements than those at its point");
	}
	return true;
}

bool online_begin(OnlineForm *f, Kernel *k)
{
	*f = (OnlineForm){.k = k};
	return find_products(f) && see_middle(f) && see_weights(f) && see_results(f);
}

bool online_takes(Kernel *k, const char **why)
{
	OnlineForm f;
	int64_t d, e;

	*why = NULL;
	if (!online_begin(&f, k)) {
		*why = f.why;
		return false;
	}
	if (!dim_is_const(f.term->extent, &d) || !dim_is_const(f.column->extent, &e))
		*why = "the width of a head is not known at compile time";
	else if (d > ONLINE_WIDTH || e > ONLINE_WIDTH || d < 1 || e < 1)
		*why = "a head is wider than 256, so that a row of results does not fit in registers";
	return !*why;
}
