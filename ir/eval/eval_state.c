/* SPDX-License-Identifier: Apache-2.0 */
/* The state of a reduction: see ir/eval/eval_state.h. */
#include "ir/eval/eval_state.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static bool is_float_sum(const Stmt *s)
{
	return (s->red == MONOID_sum || s->red == MONOID_prod) && ctype_is_float(s->val[0]->ct);
}

static VecFn native(Monoid m, CType t)
{
	static const struct {
		Monoid m;
		Inst inst;
	} table[] = {{MONOID_sum, IN_add}, {MONOID_prod, IN_mul}, {MONOID_max, IN_max},
		     {MONOID_min, IN_min}, {MONOID_or, IN_or},    {MONOID_and, IN_and}};

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

bool reduce_init(Reduce *d, KernelRun *r)
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

/* Combines STATE and TERM, lane by lane, into d->next, and swaps it with the state. Lanes
 * outside of MASK are unchanged. */
void reduce_combine(Reduce *d, const void *const *term, const uint8_t *mask, int n)
{
	EvalPoints at = {.n = n, .pattern = 2};

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
	for (int c = 0; c < d->ncomp; c++) /* lanes from N onwards are unchanged */
		memcpy(d->state[c], d->next[c], (size_t)n * (size_t)ctype_bytes(d->ct[c]));
}

void reduce_term_f64(Reduce *d, double *out, int n)
{
	double b[STRIP];

	strip_to_f64(d->ct[0], prog_val(d->term, 0), out, n);
	if (!d->product)
		return;
	strip_to_f64(d->ct[0], prog_val(d->term, 1), b, n);
	for (int l = 0; l < n; l++)
		out[l] *= b[l];
}

/* The bounds of the terms, after their strip was evaluated. */
void reduce_term_bounds(Reduce *d, double *out, int n)
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

/* The largest or smallest term is in the interval between the ends of the terms' intervals. So
 * terms that are far from it, such as keys that a mask of -1e9 hides, do not affect its bound. */
static bool is_extreme(const Reduce *d)
{
	return (d->s->red == MONOID_max || d->s->red == MONOID_min) && !d->s->scan;
}

/* Adds a term V with bound E to lane L. For a minimum, the interval of the negative is stored. */
static void extend(Reduce *d, int l, double v, double e)
{
	v = d->s->red == MONOID_min ? -v : v;
	d->sum[l] = fmax(d->sum[l], v + e);
	d->err[l] = fmax(d->err[l], v - e);
}

/* How far the extreme VALUE of lane L may move. */
static double extreme_bound(const Reduce *d, int l, double value)
{
	const double v = d->s->red == MONOID_min ? -value : value;
	const double up = d->sum[l] == v ? 0 : d->sum[l] - v,
		     down = d->err[l] == v ? 0 : v - d->err[l];

	return isnan(value) ? 0 : fmax(up, down);
}

void reduce_term_counts(Reduce *d, int l, double most, double bound)
{
	d->count[l]++;
	if (d->s->red == MONOID_prod) {
		d->sum[l] *= most;
		d->err[l] *= fmax(most, 1);
		return;
	}
	d->sum[l] += most;
	d->err[l] = d->s->red == MONOID_sum ? d->err[l] + bound : fmax(d->err[l], bound);
}

double reduce_bound(const Reduce *d, int l, double value)
{
	const double eps = ctype_eps(d->ct[0]), tiny = ctype_tiny(d->ct[0]);

	/* a part of a product may be subnormal, and its rounding grows by the other terms */
	if (d->s->red == MONOID_prod)
		return fmax(d->sum[l] - fabs(value), 0) +
		       d->count[l] * (eps * d->sum[l] + tiny * d->err[l]);
	return d->err[l] +
	       (d->s->red == MONOID_sum ? d->count[l] * (eps * d->sum[l] + tiny) : 0);
}

static void accumulate_bounds(Reduce *d, int n)
{
	const uint8_t *mask = d->term->mask;
	double v[STRIP], e[STRIP];

	reduce_term_f64(d, v, n);
	reduce_term_bounds(d, e, n);
	for (int l = 0; l < n; l++) {
		if (mask && !mask[l])
			continue;
		if (is_extreme(d)) {
			extend(d, l, v[l], e[l]);
			continue;
		}
		reduce_term_counts(d, l, fabs(v[l]) + e[l], e[l]);
	}
}

bool reduce_take(Reduce *d, const EvalPoints *at)
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
		reduce_term_f64(d, v, at->n);
		if (d->s->red == MONOID_sum)
			for (int l = 0; l < at->n; l++)
				d->acc[l] += !mask || mask[l] ? v[l] : 0;
		else
			for (int l = 0; l < at->n; l++)
				d->acc[l] *= !mask || mask[l] ? v[l] : 1;
	} else {
		for (int c = 0; c < d->ncomp; c++)
			term[c] = prog_val(d->term, c);
		reduce_combine(d, term, mask, at->n);
	}
	if (d->bounds)
		accumulate_bounds(d, at->n);
	return true;
}

void reduce_identity(Reduce *d, int n)
{
	const double one = d->s->red == MONOID_prod ? 1 : 0;

	for (int l = 0; d->carry && l < n; l++)
		d->acc[l] = one;
	for (int l = 0; d->bounds && l < n; l++) {
		d->sum[l] = is_extreme(d) ? -(double)INFINITY : one;
		d->err[l] = is_extreme(d) ? -(double)INFINITY : one;
		d->count[l] = 0;
	}
	for (int c = 0; c < d->ncomp && !d->carry; c++)
		vec_fill(d->ct[c], d->state[c], &d->identity[c], n);
}

bool reduce_place(Reduce *d, const EvalPoints *at, ResolvedAccess *where)
{
	if (prog_run(d->write, at) && prog_place(d->write, at, where))
		return true;
	return run_failed(d->r, d->write);
}

/* Loads the buffer's elements as the state. */
bool reduce_load(Reduce *d, const EvalPoints *at)
{
	ResolvedAccess where;

	if (!reduce_place(d, at, &where))
		return false;
	for (int c = 0; c < d->s->nout; c++) {
		EvalAccess a = run_write(d->r, d->write->write, c);

		strip_load(&a, &where, d->ct[c], d->state[c], at->n);
		if (c == 0 && d->carry)
			strip_to_f64(d->ct[0], d->state[0], d->acc, at->n);
		if (c == 0 && d->bounds && a.bound) {
			double held[STRIP];

			strip_load_bounds(&a, &where, d->err, at->n);
			strip_to_f64(d->ct[0], d->state[0], held, at->n);
			for (int l = 0; l < at->n; l++) {
				const double e = d->err[l];

				d->sum[l] = fabs(held[l]) + e;
				if (d->s->red == MONOID_prod)
					d->err[l] = fmax(d->sum[l], 1);
				if (is_extreme(d)) {
					d->sum[l] = d->err[l] = -(double)INFINITY;
					extend(d, l, held[l], e);
				}
			}
		}
	}
	return true;
}

bool reduce_start(Reduce *d, const EvalPoints *at, int lanes)
{
	reduce_identity(d, lanes);
	return !d->s->update || reduce_load(d, at);
}

/* Lanes [0, n) into lane 0. */
void reduce_fold(Reduce *d, int n)
{
	bool prod = d->s->red == MONOID_prod;

	for (int many = n; d->carry && many > 1; many = (many + 1) / 2) {
		double *upper = d->acc + (many + 1) / 2;

		for (int l = 0; l < many / 2; l++)
			d->acc[l] = prod ? d->acc[l] * upper[l] : d->acc[l] + upper[l];
	}
	for (int l = 1; d->bounds && l < n; l++) {
		if (is_extreme(d)) {
			d->sum[0] = fmax(d->sum[0], d->sum[l]);
			d->err[0] = fmax(d->err[0], d->err[l]);
			continue;
		}
		d->sum[0] = prod ? d->sum[0] * d->sum[l] : d->sum[0] + d->sum[l];
		d->err[0] = prod                      ? d->err[0] * d->err[l]
			    : d->s->red == MONOID_sum ? d->err[0] + d->err[l]
						      : fmax(d->err[0], d->err[l]);
		d->count[0] += d->count[l];
	}
	while (!d->carry && n > 1) {
		int half = (n + 1) / 2;
		const void *upper[2];
		char keep[2][STRIP * 8];

		for (int c = 0; c < d->ncomp; c++) {
			size_t size = (size_t)ctype_bytes(d->ct[c]);

			memcpy(keep[c], (char *)d->state[c] + (size_t)half * size,
			       (size_t)(n - half) * size);
			upper[c] = keep[c];
		}
		reduce_combine(d, upper, NULL, n - half);
		n = half;
	}
}

static void store_bounds(Reduce *d, int comp, const ResolvedAccess *where, const double *value,
			 int n)
{
	EvalAccess a = run_write(d->r, d->write->write, comp);
	double b[STRIP];

	if (!a.bound)
		return;
	for (int l = 0; l < n; l++) {
		if (comp == 1)
			b[l] = d->err[l] > 0 ? (double)INFINITY : 0;
		else if (is_extreme(d))
			b[l] = extreme_bound(d, l, value[l]);
		else
			b[l] = reduce_bound(d, l, value[l]);
		if (b[l] > 0 && comp == 0)
			b[l] += ulp_of(a.buf->dtype, value[l]);
	}
	strip_store_bounds(&a, where, b, NULL, n);
}

bool reduce_store(Reduce *d, const EvalPoints *at)
{
	double value[STRIP];
	ResolvedAccess where;

	if (!reduce_place(d, at, &where))
		return false;
	if (d->carry)
		strip_from_f64(d->ct[0], d->acc, d->state[0], at->n);
	if (d->bounds)
		strip_to_f64(d->ct[0], d->state[0], value, at->n);
	for (int c = 0; c < d->s->nout; c++) {
		EvalAccess a = run_write(d->r, d->write->write, c);

		strip_store(&a, &where, d->state[c], NULL, at->n);
		if (d->bounds)
			store_bounds(d, c, &where, value, at->n);
	}
	return true;
}
