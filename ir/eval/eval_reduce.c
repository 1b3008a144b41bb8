/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions, prefixes and updates over strips. Lanes run either along the reduced iterators, and
 * are combined at the end, or along the band, with the reduced points one after the other. The
 * choice is whichever has more unit-stride loads.
 */
#include "ir/eval/eval_state.h"

#include <math.h>
#include <string.h>

enum { BAND_LANES_MIN = 16, RED_LANES_MIN = 64 };

static int64_t box_points(const KernelRun *r, const int *slot, int n)
{
	int64_t total = 1;

	for (int i = 0; i < n; i++)
		if (__builtin_mul_overflow(total, r->extent[slot[i]], &total))
			return INT64_MAX;
	return total;
}

/* The number of P's loads with unit stride along the innermost iterator of SLOT with more than
 * one point. */
static int contiguous_loads(const Reduce *d, const int *slot, int n)
{
	int count = 0;

	while (n > 0 && d->r->extent[slot[n - 1]] == 1)
		n--;
	for (int i = 0; n > 0 && i < d->term->nodes.n; i++) {
		const PNode *e = &d->term->nodes.at[i];

		if (e->kind != EX_LOAD || !e->access->affine)
			continue;
		for (int t = 0; t < e->access->flat.n; t++)
			count += e->access->flat.term[t].slot == slot[n - 1] &&
				 e->access->flat.term[t].coef == 1;
	}
	return count;
}

static bool lanes_along_band(const Reduce *d)
{
	int64_t band = box_points(d->r, d->band, d->nband), red = box_points(d->r, d->red, d->nred);

	if (band < BAND_LANES_MIN)
		return false;
	if (red < RED_LANES_MIN)
		return true;
	return band >= RED_LANES_MIN &&
	       contiguous_loads(d, d->band, d->nband) > contiguous_loads(d, d->red, d->nred);
}

static bool run_along_band(Reduce *d)
{
	EvalPoints at = {0};
	StripWalk w;

	walk_init(&w, d->r->a, d->band, d->nband, d->r->extent, STRIP, &d->r->pattern);
	for (bool more = walk_first(&w, &at); more; more = walk_next(&w, &at)) {
		bool any = box_points(d->r, d->red, d->nred) > 0;

		if (!reduce_start(d, &at, at.n))
			return false;
		for (; any; any = points_step(&at, d->red, d->nred, d->r->extent)) {
			if (!reduce_take(d, &at))
				return false;
			if (d->s->scan && !reduce_store(d, &at))
				return false;
		}
		if (!d->s->scan && !reduce_store(d, &at))
			return false;
	}
	return true;
}

static bool run_along_red(Reduce *d)
{
	EvalPoints at = run_point(d->r);
	int most;
	StripWalk w;

	if (box_points(d->r, d->band, d->nband) == 0)
		return true;
	walk_init(&w, d->r->a, d->red, d->nred, d->r->extent, STRIP, &d->r->pattern);
	most = w.empty ? 1 : (int)(w.chunk * w.inner);
	do {
		EvalPoints band = at;
		int lanes = 0;

		reduce_identity(d, most);
		if (d->s->update && !reduce_load(d, &band))
			return false;
		for (bool more = walk_first(&w, &at); more; more = walk_next(&w, &at)) {
			lanes = at.n > lanes ? at.n : lanes;
			if (!reduce_take(d, &at))
				return false;
		}
		reduce_fold(d, lanes);
		at = band;
		if (!reduce_store(d, &at))
			return false;
	} while (points_step(&at, d->band, d->nband, d->r->extent));
	return true;
}

/* One strip of a prefix: all terms are evaluated at once, then combined one by one in lane 0. */
static bool scan_strip(Reduce *d, const EvalPoints *at, void *const *out, double *bound)
{
	double v[STRIP], e[STRIP], held;
	const void *term[2];

	if (!prog_run(d->term, at))
		return run_failed(d->r, d->term);
	if (d->carry || d->bounds)
		reduce_term_f64(d, v, at->n);
	if (d->bounds)
		reduce_term_bounds(d, e, at->n);
	for (int l = 0; l < at->n; l++) {
		bool holds = !d->term->mask || d->term->mask[l];

		if (holds && d->carry) {
			d->acc[0] = d->s->red == MONOID_prod ? d->acc[0] * v[l] : d->acc[0] + v[l];
		} else if (holds) {
			for (int c = 0; c < d->ncomp; c++)
				term[c] = (const char *)prog_val(d->term, c) +
					  l * ctype_bytes(d->ct[c]);
			reduce_combine(d, term, NULL, 1);
		}
		if (d->carry)
			strip_from_f64(d->ct[0], d->acc, d->state[0], 1);
		for (int c = 0; c < d->ncomp; c++) {
			size_t size = (size_t)ctype_bytes(d->ct[c]);

			memcpy((char *)out[c] + (size_t)l * size, d->state[c], size);
		}
		if (!d->bounds)
			continue;
		strip_to_f64(d->ct[0], d->state[0], &held, 1);
		if (holds)
			reduce_term_counts(d, 0, fabs(v[l]) + e[l], e[l]);
		bound[l] = reduce_bound(d, 0, held);
		bound[l] += bound[l] > 0 ? ulp_of(d->s->out[0]->dtype, held) : 0;
	}
	return true;
}

static bool scan_along_red(Reduce *d)
{
	EvalPoints at = run_point(d->r);
	void *out[2] = {arena_alloc(d->r->a, STRIP * 8), arena_alloc(d->r->a, STRIP * 8)};
	double bound[STRIP];
	StripWalk w;

	if (box_points(d->r, d->band, d->nband) == 0)
		return true;
	walk_init(&w, d->r->a, d->red, d->nred, d->r->extent, STRIP, &d->r->pattern);
	do {
		reduce_identity(d, 1);
		for (bool more = walk_first(&w, &at); more; more = walk_next(&w, &at)) {
			ResolvedAccess where;

			if (!scan_strip(d, &at, out, bound) || !reduce_place(d, &at, &where))
				return false;
			for (int c = 0; c < d->s->nout; c++) {
				EvalAccess a = run_write(d->r, d->write->write, c);

				strip_store(&a, &where, out[c], NULL, at.n);
				if (d->bounds && c == 0 && a.bound)
					strip_store_bounds(&a, &where, bound, NULL, at.n);
			}
		}
	} while (points_step(&at, d->band, d->nband, d->r->extent));
	return true;
}

bool eval_reduce(KernelRun *r)
{
	Reduce d;

	if (!reduce_init(&d, r))
		return false;
	if (lanes_along_band(&d))
		return run_along_band(&d);
	return r->s->scan ? scan_along_red(&d) : run_along_red(&d);
}

/* ---- A scatter with a monoid ---- */

static bool update_lane(Reduce *d, Prog *p, const ResolvedAccess *strip, int l)
{
	ResolvedAccess one = {OFF_UNIFORM, strip->at, NULL};
	const void *term[2];

	one.at += strip->kind == OFF_TABLE ? strip->off[l] : strip->kind == OFF_CONTIGUOUS ? l : 0;
	for (int c = 0; c < d->s->nout; c++) {
		EvalAccess a = run_write(d->r, p->write, c);

		strip_load(&a, &one, d->ct[c], d->state[c], 1);
	}
	for (int c = 0; c < d->ncomp; c++)
		term[c] = (const char *)prog_val(p, c) + l * ctype_bytes(d->ct[c]);
	reduce_combine(d, term, NULL, 1);
	for (int c = 0; c < d->s->nout; c++) {
		EvalAccess a = run_write(d->r, p->write, c);

		strip_store(&a, &one, d->state[c], NULL, 1);
	}
	return true;
}

/* The bound of an element to which several terms of a sum are added: N terms, in any order, each of
 * which may be added to the sum of all others. */
typedef struct Met {
	double all; /* sum of |terms|, and of the element's value before */
	double own; /* bounds of terms */
	int64_t n;
} Met;

static Met *met_new(const Reduce *d, const EvalAccess *write)
{
	return d->bounds && d->s->red == MONOID_sum
		       ? NEW_ARRAY(d->r->a, write->n ? write->extent[0] * write->stride[0] : 1, Met)
		       : NULL;
}

static double sum_bound(Met *m, DType t, double held, double was, double v, double e)
{
	if (!m->n++)
		*m = (Met){fabs(held - v), was, 1};
	m->all += fabs(v);
	m->own += e;
	return m->own + 2 * (double)m->n * ulp_of(t, m->all + m->own);
}

/* A term increases the bound of an updated element by its own bound, and by one rounding of the
 * sum so far. */
static void update_bounds(Reduce *d, Prog *p, const ResolvedAccess *strip, Met *met,
			  const double *v, const double *e, int l)
{
	EvalAccess a = run_write(d->r, p->write, 0);
	ResolvedAccess one = {OFF_UNIFORM, strip->at, NULL};
	double held, b;

	if (!a.bound)
		return;
	one.at += strip->kind == OFF_TABLE ? strip->off[l] : strip->kind == OFF_CONTIGUOUS ? l : 0;
	strip_load_bounds(&a, &one, &b, 1);
	strip_to_f64(d->ct[0], d->state[0], &held, 1);
	if (d->s->red == MONOID_sum)
		b = sum_bound(&met[one.at], a.buf->dtype, held, b, v[l], e[l]);
	else if (d->s->red == MONOID_prod)
		b = b * (fabs(v[l]) + e[l]) + fabs(held) * e[l] +
		    2 * ulp_of(a.buf->dtype, fabs(held) + b);
	else
		b = fmax(b, e[l]);
	strip_store_bounds(&a, &one, &b, NULL, 1);
}

bool eval_scatter_update(KernelRun *r)
{
	Prog *p = run_prog(r);
	EvalPoints at = {0};
	double v[STRIP], e[STRIP];
	double *each[4] = {e, NULL, NULL, NULL};
	ResolvedAccess where;
	Reduce d;
	StripWalk w;
	Met *met;

	if (!reduce_init(&d, r))
		return false;
	prog_guard(p, r->s->guard);
	for (int c = 0; c < d.ncomp; c++)
		prog_root(p, r->s->val[c]);
	prog_write(p, r->s->out[0], r->s->widx, r->s->nwidx);
	if (!prog_end(p))
		return run_failed(r, p);
	met = met_new(&d, p->write);
	walk_init(&w, r->a, d.band, d.nband, r->extent, STRIP, &r->pattern);
	for (bool more = walk_first(&w, &at); more; more = walk_next(&w, &at)) {
		if (!prog_run(p, &at))
			return run_failed(r, p);
		if (!prog_place(p, &at, &where)) {
			if (p->stray)
				return run_failed(r, p);
			continue;
		}
		if (d.bounds) {
			prog_bounds(p, each);
			strip_to_f64(d.ct[0], prog_val(p, 0), v, at.n);
		}
		for (int l = 0; l < at.n; l++) {
			if (p->mask && !p->mask[l])
				continue;
			update_lane(&d, p, &where, l);
			if (d.bounds)
				update_bounds(&d, p, &where, met, v, e, l);
		}
	}
	return true;
}
