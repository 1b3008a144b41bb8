/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions, prefixes and updates over strips. Lanes run either along the reduced iterators, folded in the
 * end, or along the band, with the reduced points one after the other; whichever reads memory in order.
 * Sums and products of floats are carried in f64, and so is a product that is the term of a sum.
 */
#include "ir/eval_impl.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { BAND_LANES_MIN = 16, RED_LANES_MIN = 64 };

typedef struct Reduce {
	Run *r;
	const Stmt *s;
	int ncomp;
	bool carry, product;   /* acc is the state; the term is root 0 times root 1 */
	Prog *term, *write, *combine;
	VecFn fn;              /* combines one component of a native type, or null */
	CType ct[2];
	uint64_t identity[2];
	void *state[2], *next[2], *blend;
	double *acc;
	bool bounds;
	double *sum, *err, *count; /* of |terms|, of their bounds, and how many; a product's in `sum` */
	int band[MAX_ITERS], nband, red[MAX_ITERS], nred;
} Reduce;

static bool is_float_sum(const Stmt *s)
{
	return (s->red == MONOID_sum || s->red == MONOID_prod) && ctype_is_float(s->val[0]->ct);
}

static VecFn native(Monoid m, CType t)
{
	static const struct { Monoid m; Inst inst; } table[] = {
		{MONOID_sum, IN_add}, {MONOID_prod, IN_mul}, {MONOID_max, IN_max},
		{MONOID_min, IN_min}, {MONOID_or, IN_or}, {MONOID_and, IN_and}
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].m == m)
			return vec_inst(table[i].inst, t);
	return NULL;
}

static void identity_bits(Kernel *k, Monoid m, int comp, CType t, uint64_t *out)
{
	const Expr *e = monoid_identity(k->pool, m, comp, t);
	float f = (float)e->f;

	assert(e->kind == EX_CONST);
	*out = 0;
	if (t == CT_F32)
		memcpy(out, &f, sizeof f);
	else if (t == CT_F64)
		memcpy(out, &e->f, sizeof e->f);
	else
		memcpy(out, &e->i, (size_t)ctype_bytes(t));
}

static bool make_combine(Reduce *d)
{
	Kernel *k = d->r->k;
	Expr *a[2], *b[2];

	for (int c = 0; c < d->ncomp; c++) {
		a[c] = ex_param(k->pool, d->ct[c], c);
		b[c] = ex_param(k->pool, d->ct[c], 2 + c);
	}
	d->combine = prog_new(d->r->a, k, d->r->o, d->r->bufs, NULL, 0);
	for (int c = 0; c < d->ncomp; c++)
		prog_root(d->combine, monoid_combine(k->pool, d->s->red, c, a, b));
	return prog_end(d->combine) || run_failed(d->r, d->combine);
}

static bool reduce_init(Reduce *d, Run *r)
{
	Stmt *s = r->s;
	const Expr *v = s->val[0];

	*d = (Reduce){.r = r, .s = s, .ncomp = monoid_info[s->red].n, .carry = is_float_sum(s)};
	d->product = d->carry && s->red == MONOID_sum && v->kind == EX_INST && v->op.inst == IN_mul;
	d->bounds = run_wants_bounds(r);
	d->nband = run_slots(0, s->nband, d->band);
	d->nred = run_slots(s->nband, s->niters, d->red);
	d->acc = NEW_ARRAY(r->a, STRIP, double);
	d->sum = NEW_ARRAY(r->a, STRIP, double);
	d->err = NEW_ARRAY(r->a, STRIP, double);
	d->count = NEW_ARRAY(r->a, STRIP, double);
	d->blend = arena_alloc(r->a, STRIP * 8);
	d->term = run_prog(r);
	prog_guard(d->term, s->guard);
	for (int c = 0; c < d->ncomp; c++) {
		d->ct[c] = s->val[c]->ct;
		d->state[c] = arena_alloc(r->a, STRIP * 8);
		d->next[c] = arena_alloc(r->a, STRIP * 8);
		identity_bits(r->k, s->red, c, d->ct[c], &d->identity[c]);
		if (!d->product)
			prog_root(d->term, s->val[c]);
	}
	for (int i = 0; d->product && i < 2; i++)
		prog_root(d->term, v->op.arg[i]);
	d->write = run_prog(r);
	prog_write(d->write, s->out[0], s->widx, s->nwidx);
	if (!prog_end(d->term))
		return run_failed(r, d->term);
	if (!prog_end(d->write))
		return run_failed(r, d->write);
	if (d->ncomp == 1)
		d->fn = native(s->red, d->ct[0]);
	return d->fn || make_combine(d);
}

/* ---- The state ---- */

/* STATE and TERM, lane by lane, into d->next, which becomes the state; lanes outside MASK stay. */
static void combine_lanes(Reduce *d, const void *const *term, const uint8_t *mask, int n)
{
	Points at = {.n = n, .pattern = 2};

	if (d->fn) {
		const void *b = term[0];

		if (mask) {
			VecFn select = vec_inst(IN_select, d->ct[0]);
			char one[STRIP * 8];

			vec_fill(d->ct[0], one, &d->identity[0], n);
			select(d->blend, mask, b, one, n);
			b = d->blend;
		}
		d->fn(d->next[0], d->state[0], b, NULL, n);
	} else {
		for (int c = 0; c < d->ncomp; c++) {
			prog_param(d->combine, c, d->state[c]);
			prog_param(d->combine, 2 + c, term[c]);
		}
		prog_run(d->combine, &at);
		for (int c = 0; c < d->ncomp; c++) {
			const void *v = prog_val(d->combine, c);

			if (mask)
				vec_inst(IN_select, d->ct[c])(d->next[c], mask, v, d->state[c], n);
			else
				memcpy(d->next[c], v, (size_t)n * (size_t)ctype_bytes(d->ct[c]));
		}
	}
	for (int c = 0; c < d->ncomp; c++) {
		void *t = d->state[c];

		d->state[c] = d->next[c];
		d->next[c] = t;
	}
}

static void term_as_f64(Reduce *d, double *out, int n)
{
	double b[STRIP];

	strip_to_f64(d->ct[0], prog_val(d->term, 0), out, n);
	if (!d->product)
		return;
	strip_to_f64(d->ct[0], prog_val(d->term, 1), b, n);
	for (int l = 0; l < n; l++)
		out[l] *= b[l];
}

/* How far the term may move, after its strip was run. */
static void term_bounds(Reduce *d, double *out, int n)
{
	double v[2][STRIP], e[2][STRIP];
	double *each[4] = {e[0], d->term->nroots > 1 ? e[1] : NULL, NULL, NULL};

	prog_bounds(d->term, each);
	memcpy(out, e[0], (size_t)n * sizeof *out);
	if (!d->product)
		return;
	for (int k = 0; k < 2; k++)
		strip_to_f64(d->ct[0], prog_val(d->term, k), v[k], n);
	for (int l = 0; l < n; l++)
		out[l] = fabs(v[0][l]) * e[1][l] + fabs(v[1][l]) * e[0][l] + e[0][l] * e[1][l];
}

static void accumulate_bounds(Reduce *d, int n)
{
	const uint8_t *mask = d->term->mask;
	double v[STRIP], e[STRIP];

	term_as_f64(d, v, n);
	term_bounds(d, e, n);
	for (int l = 0; l < n; l++) {
		if (mask && !mask[l])
			continue;
		d->count[l]++;
		if (d->s->red == MONOID_prod)
			d->sum[l] *= fabs(v[l]) + e[l];
		else
			d->sum[l] += fabs(v[l]) + e[l];
		d->err[l] = d->s->red == MONOID_sum ? d->err[l] + e[l] : fmax(d->err[l], e[l]);
	}
}

static bool accumulate(Reduce *d, const Points *at)
{
	const void *term[2];
	const uint8_t *mask;
	double v[STRIP];

	if (!prog_run(d->term, at))
		return run_failed(d->r, d->term);
	mask = d->term->mask;
	if (mask && !memchr(mask, 1, (size_t)at->n))
		return true;
	if (d->carry) {
		term_as_f64(d, v, at->n);
		if (d->s->red == MONOID_sum)
			for (int l = 0; l < at->n; l++)
				d->acc[l] += !mask || mask[l] ? v[l] : 0;
		else
			for (int l = 0; l < at->n; l++)
				d->acc[l] *= !mask || mask[l] ? v[l] : 1;
	} else {
		for (int c = 0; c < d->ncomp; c++)
			term[c] = prog_val(d->term, c);
		combine_lanes(d, term, mask, at->n);
	}
	if (d->bounds)
		accumulate_bounds(d, at->n);
	return true;
}

static void state_identity(Reduce *d, int n)
{
	double one = d->s->red == MONOID_prod ? 1 : 0;

	for (int l = 0; d->carry && l < n; l++)
		d->acc[l] = one;
	for (int l = 0; d->bounds && l < n; l++) {
		d->sum[l] = one;
		d->err[l] = d->count[l] = 0;
	}
	for (int c = 0; c < d->ncomp && !d->carry; c++)
		vec_fill(d->ct[c], d->state[c], &d->identity[c], n);
}

static bool write_place(Reduce *d, const Points *at, Place *where)
{
	if (prog_run(d->write, at) && prog_place(d->write, at, where))
		return true;
	return run_failed(d->r, d->write);
}

/* What the buffer holds, as the state. */
static bool state_load(Reduce *d, const Points *at)
{
	Place where;

	if (!write_place(d, at, &where))
		return false;
	for (int c = 0; c < d->s->nout; c++) {
		Access a = run_write(d->r, d->write->write, c);

		strip_load(&a, &where, d->ct[c], d->state[c], at->n);
		if (c == 0 && d->carry)
			strip_to_f64(d->ct[0], d->state[0], d->acc, at->n);
		if (c == 0 && d->bounds && a.bound) {
			double held[STRIP];

			strip_load_bounds(&a, &where, d->err, at->n);
			strip_to_f64(d->ct[0], d->state[0], held, at->n);
			for (int l = 0; l < at->n; l++)
				d->sum[l] = fabs(held[l]) + d->err[l];
		}
	}
	return true;
}

static bool state_init(Reduce *d, const Points *at, int lanes)
{
	state_identity(d, lanes);
	return !d->s->update || state_load(d, at);
}

/* Lanes [0, n) into lane 0. */
static void state_fold(Reduce *d, int n)
{
	bool prod = d->s->red == MONOID_prod;

	for (int many = n; d->carry && many > 1; many = (many + 1) / 2) {
		double *upper = d->acc + (many + 1) / 2;

		for (int l = 0; l < many / 2; l++)
			d->acc[l] = prod ? d->acc[l] * upper[l] : d->acc[l] + upper[l];
	}
	for (int l = 1; d->bounds && l < n; l++) {
		d->sum[0] = prod ? d->sum[0] * d->sum[l] : d->sum[0] + d->sum[l];
		d->err[0] = d->s->red == MONOID_sum ? d->err[0] + d->err[l] : fmax(d->err[0], d->err[l]);
		d->count[0] += d->count[l];
	}
	while (!d->carry && n > 1) {
		int half = (n + 1) / 2;
		const void *upper[2];
		char keep[2][STRIP * 8];

		for (int c = 0; c < d->ncomp; c++) {
			size_t size = (size_t)ctype_bytes(d->ct[c]);

			memcpy(keep[c], (char *)d->state[c] + (size_t)half * size, (size_t)(n - half) * size);
			memcpy((char *)d->next[c] + (size_t)(n - half) * size,
			       (char *)d->state[c] + (size_t)(n - half) * size,
			       (size_t)(2 * half - n) * size);
			upper[c] = keep[c];
		}
		combine_lanes(d, upper, NULL, n - half);
		n = half;
	}
}

static void store_bounds(Reduce *d, int comp, const Place *where, const double *value, int n)
{
	Access a = run_write(d->r, d->write->write, comp);
	double b[STRIP], eps = ctype_eps(d->ct[0]);

	if (!a.bound)
		return;
	for (int l = 0; l < n; l++) {
		if (comp == 1)
			b[l] = d->err[l] > 0 ? (double)INFINITY : 0;
		else if (d->s->red == MONOID_prod)
			b[l] = d->sum[l] - fabs(value[l]) + d->count[l] * eps * d->sum[l];
		else
			b[l] = d->err[l] + (d->s->red == MONOID_sum ? d->count[l] * eps * d->sum[l] : 0);
		if (b[l] > 0 && comp == 0)
			b[l] += ulp_of(a.buf->dtype, value[l]);
	}
	strip_store_bounds(&a, where, b, NULL, n);
}

static bool state_store(Reduce *d, const Points *at)
{
	double value[STRIP];
	Place where;

	if (!write_place(d, at, &where))
		return false;
	if (d->carry)
		strip_from_f64(d->ct[0], d->acc, d->state[0], at->n);
	if (d->bounds)
		strip_to_f64(d->ct[0], d->state[0], value, at->n);
	for (int c = 0; c < d->s->nout; c++) {
		Access a = run_write(d->r, d->write->write, c);

		strip_store(&a, &where, d->state[c], NULL, at->n);
		if (d->bounds)
			store_bounds(d, c, &where, value, at->n);
	}
	return true;
}

/* ---- Ways to run ---- */

static int64_t box_points(const Run *r, const int *slot, int n)
{
	int64_t total = 1;

	for (int i = 0; i < n; i++)
		if (__builtin_mul_overflow(total, r->extent[slot[i]], &total))
			return INT64_MAX;
	return total;
}

/* How many loads of P step by one element along the innermost of SLOT that is longer than 1. */
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
			count += e->access->flat.term[t].slot == slot[n - 1] && e->access->flat.term[t].coef == 1;
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
	Points at = {0};
	Walk w;

	walk_init(&w, d->r->a, d->band, d->nband, d->r->extent, STRIP, &d->r->pattern);
	for (bool more = walk_first(&w, &at); more; more = walk_next(&w, &at)) {
		bool any = box_points(d->r, d->red, d->nred) > 0;

		if (!state_init(d, &at, at.n))
			return false;
		for (; any; any = points_step(&at, d->red, d->nred, d->r->extent)) {
			if (!accumulate(d, &at))
				return false;
			if (d->s->scan && !state_store(d, &at))
				return false;
		}
		if (!d->s->scan && !state_store(d, &at))
			return false;
	}
	return true;
}

static bool run_along_red(Reduce *d)
{
	Points at = run_point(d->r);
	int most;
	Walk w;

	if (box_points(d->r, d->band, d->nband) == 0)
		return true;
	walk_init(&w, d->r->a, d->red, d->nred, d->r->extent, STRIP, &d->r->pattern);
	most = w.empty ? 1 : (int)(w.chunk * w.inner);
	do {
		Points band = at;
		int lanes = 0;

		state_identity(d, most);
		if (d->s->update && !state_load(d, &band))
			return false;
		for (bool more = walk_first(&w, &at); more; more = walk_next(&w, &at)) {
			lanes = at.n > lanes ? at.n : lanes;
			if (!accumulate(d, &at))
				return false;
		}
		state_fold(d, lanes);
		at = band;
		if (!state_store(d, &at))
			return false;
	} while (points_step(&at, d->band, d->nband, d->r->extent));
	return true;
}

/* One strip of a prefix: the terms are evaluated together, then combined one by one in lane 0. */
static bool scan_strip(Reduce *d, const Points *at, void *const *out, double *bound)
{
	double v[STRIP], e[STRIP], held;
	const void *term[2];

	if (!prog_run(d->term, at))
		return run_failed(d->r, d->term);
	if (d->carry || d->bounds)
		term_as_f64(d, v, at->n);
	if (d->bounds)
		term_bounds(d, e, at->n);
	for (int l = 0; l < at->n; l++) {
		bool holds = !d->term->mask || d->term->mask[l];

		if (holds && d->carry) {
			d->acc[0] = d->s->red == MONOID_prod ? d->acc[0] * v[l] : d->acc[0] + v[l];
		} else if (holds) {
			for (int c = 0; c < d->ncomp; c++)
				term[c] = (const char *)prog_val(d->term, c) + l * ctype_bytes(d->ct[c]);
			combine_lanes(d, term, NULL, 1);
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
		if (holds) {
			d->count[0]++;
			d->sum[0] = d->s->red == MONOID_prod ? d->sum[0] * (fabs(v[l]) + e[l])
							     : d->sum[0] + fabs(v[l]) + e[l];
			d->err[0] = d->s->red == MONOID_sum ? d->err[0] + e[l] : fmax(d->err[0], e[l]);
		}
		bound[l] = d->err[0];
		if (d->s->red == MONOID_sum)
			bound[l] += d->count[0] * ctype_eps(d->ct[0]) * d->sum[0];
		if (d->s->red == MONOID_prod)
			bound[l] = d->sum[0] - fabs(held) + d->count[0] * ctype_eps(d->ct[0]) * d->sum[0];
		bound[l] += bound[l] > 0 ? ulp_of(d->s->out[0]->dtype, held) : 0;
	}
	return true;
}

static bool scan_along_red(Reduce *d)
{
	Points at = run_point(d->r);
	void *out[2] = {arena_alloc(d->r->a, STRIP * 8), arena_alloc(d->r->a, STRIP * 8)};
	double bound[STRIP];
	Walk w;

	if (box_points(d->r, d->band, d->nband) == 0)
		return true;
	walk_init(&w, d->r->a, d->red, d->nred, d->r->extent, STRIP, &d->r->pattern);
	do {
		state_identity(d, 1);
		for (bool more = walk_first(&w, &at); more; more = walk_next(&w, &at)) {
			Place where;

			if (!scan_strip(d, &at, out, bound) || !write_place(d, &at, &where))
				return false;
			for (int c = 0; c < d->s->nout; c++) {
				Access a = run_write(d->r, d->write->write, c);

				strip_store(&a, &where, out[c], NULL, at.n);
				if (d->bounds && c == 0 && a.bound)
					strip_store_bounds(&a, &where, bound, NULL, at.n);
			}
		}
	} while (points_step(&at, d->band, d->nband, d->r->extent));
	return true;
}

bool eval_reduce(Run *r)
{
	Reduce d;

	if (!reduce_init(&d, r))
		return false;
	if (lanes_along_band(&d))
		return run_along_band(&d);
	return r->s->scan ? scan_along_red(&d) : run_along_red(&d);
}

/* ---- A scatter with a monoid ---- */

static bool update_lane(Reduce *d, Prog *p, const Place *strip, int l)
{
	Place one = {OFF_UNIFORM, strip->at, NULL};
	const void *term[2];

	one.at += strip->kind == OFF_TABLE ? strip->off[l] : strip->kind == OFF_CONTIGUOUS ? l : 0;
	for (int c = 0; c < d->s->nout; c++) {
		Access a = run_write(d->r, p->write, c);

		strip_load(&a, &one, d->ct[c], d->state[c], 1);
	}
	for (int c = 0; c < d->ncomp; c++)
		term[c] = (const char *)prog_val(p, c) + l * ctype_bytes(d->ct[c]);
	combine_lanes(d, term, NULL, 1);
	for (int c = 0; c < d->s->nout; c++) {
		Access a = run_write(d->r, p->write, c);

		strip_store(&a, &one, d->state[c], NULL, 1);
	}
	return true;
}

/* Bounds of an update grow with each term: its own, and a rounding of what is there by then. */
static void update_bounds(Reduce *d, Prog *p, const Place *strip, const double *v, const double *e, int l)
{
	Access a = run_write(d->r, p->write, 0);
	Place one = {OFF_UNIFORM, strip->at, NULL};
	double held, b;

	if (!a.bound)
		return;
	one.at += strip->kind == OFF_TABLE ? strip->off[l] : strip->kind == OFF_CONTIGUOUS ? l : 0;
	strip_load_bounds(&a, &one, &b, 1);
	strip_to_f64(d->ct[0], d->state[0], &held, 1);
	if (d->s->red == MONOID_sum)
		b += e[l] + 2 * ulp_of(a.buf->dtype, fabs(held) + fabs(v[l]) + b);
	else if (d->s->red == MONOID_prod)
		b = b * (fabs(v[l]) + e[l]) + fabs(held) * e[l] + 2 * ulp_of(a.buf->dtype, fabs(held) + b);
	else
		b = fmax(b, e[l]);
	strip_store_bounds(&a, &one, &b, NULL, 1);
}

bool eval_scatter_update(Run *r)
{
	Prog *p = run_prog(r);
	Points at = {0};
	double v[STRIP], e[STRIP];
	double *each[4] = {e, NULL, NULL, NULL};
	Place where;
	Reduce d;
	Walk w;

	if (!reduce_init(&d, r))
		return false;
	prog_guard(p, r->s->guard);
	for (int c = 0; c < d.ncomp; c++)
		prog_root(p, r->s->val[c]);
	prog_write(p, r->s->out[0], r->s->widx, r->s->nwidx);
	if (!prog_end(p))
		return run_failed(r, p);
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
				update_bounds(&d, p, &where, v, e, l);
		}
	}
	return true;
}
