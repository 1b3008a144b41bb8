/* SPDX-License-Identifier: Apache-2.0 */
/* Running a program over a strip: the addresses of accesses, and the evaluation of eager and
 * lazy nodes. */
#include "ir/eval/eval_impl.h"
#include "runtime/strtable.h"

#include <math.h>
#include <string.h>

/* ---- Patterns ---- */

static int64_t lin_base(const Lin *l, const EvalPoints *at)
{
	uint64_t v = (uint64_t)l->base;

	for (int i = 0; i < l->n; i++)
		v += (uint64_t)l->term[i].coef * (uint64_t)at->base[l->term[i].slot];
	return (int64_t)v;
}

static void pattern_fill(Arena *a, const Lin *l, LinPattern *p, const EvalPoints *at)
{
	bool any = false, contiguous = true;

	p->id = at->pattern;
	p->min = p->max = 0;
	p->kind = OFF_UNIFORM;
	for (int i = 0; i < l->n; i++)
		any |= at->rel[l->term[i].slot] != NULL;
	if (!any && p->rel)
		memset(p->rel, 0, STRIP * sizeof *p->rel);
	if (!any)
		return;
	if (!p->rel)
		p->rel = NEW_ARRAY(a, STRIP, int64_t);
	memset(p->rel, 0, (size_t)at->n * sizeof *p->rel);
	for (int i = 0; i < l->n; i++) {
		const int64_t *rel = at->rel[l->term[i].slot];
		uint64_t coef = (uint64_t)l->term[i].coef;

		for (int j = 0; rel && j < at->n; j++)
			p->rel[j] = (int64_t)((uint64_t)p->rel[j] + coef * (uint64_t)rel[j]);
	}
	p->min = p->max = p->rel[0];
	for (int j = 0; j < at->n; j++) {
		contiguous &= p->rel[j] == j;
		p->min = p->rel[j] < p->min ? p->rel[j] : p->min;
		p->max = p->rel[j] > p->max ? p->rel[j] : p->max;
	}
	p->kind = contiguous                   ? OFF_CONTIGUOUS
		  : p->min == 0 && p->max == 0 ? OFF_UNIFORM
					       : OFF_TABLE;
}

static const LinPattern *pattern_of(Arena *a, const Lin *l, LinPattern pat[2], const EvalPoints *at)
{
	LinPattern *p = &pat[at->pattern & 1];

	if (p->id != at->pattern)
		pattern_fill(a, l, p, at);
	return p;
}

/* ---- Places ---- */

static bool none_set(const uint8_t *mask, int n)
{
	return !memchr(mask, 1, (size_t)n);
}

/* The values of a linear form in all lanes. */
static void lin_values(Prog *p, const Lin *lin, LinPattern pat[2], int64_t *out)
{
	const LinPattern *of = pattern_of(p->a, lin, pat, p->at);
	int64_t base = lin_base(lin, p->at);

	if (of->kind == OFF_UNIFORM)
		for (int l = 0; l < p->at->n; l++)
			out[l] = base;
	else
		for (int l = 0; l < p->at->n; l++)
			out[l] = (int64_t)((uint64_t)base + (uint64_t)of->rel[l]);
}

static bool inside_whole(Prog *p, EvalAccess *a, int d)
{
	const LinPattern *pat = pattern_of(p->a, &a->lin[d], a->dim[d], p->at);
	int64_t base = lin_base(&a->lin[d], p->at);

	return base + pat->min >= 0 && base + pat->max < a->extent[d];
}

/* Sets a->off, and marks in LOST those lanes of MAKE that have an index outside of the buffer. */
static void lane_offsets(Prog *p, EvalAccess *a, const uint8_t *make, uint8_t *lost)
{
	int64_t own[STRIP];
	int n = p->at->n;

	if (a->affine)
		lin_values(p, &a->flat, a->flat_pattern, a->off);
	else
		memset(a->off, 0, (size_t)n * sizeof *a->off);
	for (int d = 0; d < a->n; d++) {
		const int64_t *i = own;
		uint64_t extent = (uint64_t)a->extent[d], stride = (uint64_t)a->stride[d];

		if (a->affine && inside_whole(p, a, d))
			continue;
		if (a->affine)
			lin_values(p, &a->lin[d], a->dim[d], own);
		else
			i = p->nodes.at[a->idx[d]].val;
		for (int l = 0; l < n; l++)
			lost[l] |= (uint8_t)(make[l] & ((uint64_t)i[l] >= extent));
		for (int l = 0; !a->affine && l < n; l++)
			a->off[l] = (int64_t)((uint64_t)a->off[l] + (uint64_t)i[l] * stride);
	}
}

/* An access that only the lanes of MASK make, or that has an index outside of the buffer in some
 * lane. The other lanes get the address of a lane that makes the access. */
static bool place_lanes(Prog *p, EvalAccess *a, const uint8_t *mask, ResolvedAccess *out)
{
	int64_t some = -1;
	uint8_t make[STRIP], lost[STRIP] = {0};
	int n = p->at->n;
	bool outside;

	memcpy(make, mask ? mask : p->all, (size_t)n);
	lane_offsets(p, a, make, lost);
	outside = memchr(lost, 1, (size_t)n) != NULL;
	for (int l = 0; outside && l < n; l++) {
		make[l] = make[l] & !lost[l];
		p->lost[l] |= lost[l];
	}
	/* an index that faulted is 0, which an empty buffer lacks */
	if (outside && p->shifted < 0 && !p->fault)
		p->stray = a->buf;
	for (int l = 0; l < n && some < 0; l++)
		some = make[l] ? a->off[l] : some;
	for (int l = 0; l < n; l++)
		a->off[l] = make[l] ? a->off[l] : some;
	*out = (ResolvedAccess){OFF_TABLE, 0, a->off};
	return some >= 0;
}

static bool place_affine(Prog *p, EvalAccess *a, const uint8_t *mask, ResolvedAccess *out)
{
	bool inside = true;
	const LinPattern *flat;

	for (int d = 0; d < a->n; d++)
		inside &= inside_whole(p, a, d);
	if (!inside)
		return place_lanes(p, a, mask, out);
	flat = pattern_of(p->a, &a->flat, a->flat_pattern, p->at);
	*out = (ResolvedAccess){flat->kind, lin_base(&a->flat, p->at), flat->rel};
	return true;
}

/* The address of A in the lanes of MASK; false if no lane makes the access. */
static bool place(Prog *p, EvalAccess *a, const uint8_t *mask, ResolvedAccess *out)
{
	uint64_t outside = 0;
	int n = p->at->n;

	if (a->affine)
		return place_affine(p, a, mask, out);
	if (mask)
		return place_lanes(p, a, mask, out);
	memset(a->off, 0, (size_t)n * sizeof *a->off);
	for (int d = 0; d < a->n; d++) {
		const int64_t *i = p->nodes.at[a->idx[d]].val;
		uint64_t extent = (uint64_t)a->extent[d], stride = (uint64_t)a->stride[d];

		for (int l = 0; l < n; l++) {
			outside |= (uint64_t)i[l] >= extent;
			a->off[l] = (int64_t)((uint64_t)a->off[l] + (uint64_t)i[l] * stride);
		}
	}
	if (outside)
		return place_lanes(p, a, mask, out);
	*out = (ResolvedAccess){OFF_TABLE, 0, a->off};
	return true;
}

bool prog_place(Prog *p, const EvalPoints *at, ResolvedAccess *out)
{
	p->at = at;
	return place(p, p->write, p->mask, out) && !p->stray;
}

/* ---- Running ---- */

static void shift_load(Prog *p, PNode *n, const ResolvedAccess *at)
{
	double v[STRIP], e[STRIP];
	int count = p->at->n;

	strip_to_f64(n->ct, n->val, v, count);
	strip_load_bounds(n->access, at, e, count);
	for (int l = 0; l < count; l++) {
		double by = ctype_is_float(n->ct) ? e[l] : e[l] > 0 && e[l] < 1 ? 1 : e[l];

		v[l] += p->sign * by;
		if (n->ct == CT_BOOL)
			v[l] = by == 0 ? v[l] : p->sign > 0;
	}
	n->val = n->own;
	strip_from_f64(n->ct, v, n->own, count);
}

static void exec_load(Prog *p, int i, const uint8_t *mask)
{
	PNode *n = &p->nodes.at[i];
	EvalAccess *a = n->access;
	size_t size = (size_t)ctype_bytes(n->ct);
	ResolvedAccess at;
	char *direct;

	n->val = n->own;
	if (!place(p, a, mask, &at)) {
		memset(n->own, 0, (size_t)p->at->n * size);
		return;
	}
	direct = (char *)a->data + (size_t)at.at * size;
	if (at.kind == OFF_CONTIGUOUS && n->ct != CT_BOOL && (uintptr_t)direct % size == 0 &&
	    dtype_info[a->buf->dtype].bits == 8 * (int)size)
		n->val = direct;
	else
		strip_load(a, &at, n->ct, n->own, p->at->n);
	if (p->shifted == i && p->sign)
		shift_load(p, n, &at);
}

static void exec_index(Prog *p, PNode *n, const uint8_t *mask)
{
	const int64_t *i = p->nodes.at[n->arg[0]].val, *extent = p->nodes.at[n->arg[1]].val;
	int64_t *out = n->own;

	for (int l = 0; l < p->at->n; l++) {
		int64_t at = i[l] < 0 ? (int64_t)((uint64_t)i[l] + (uint64_t)extent[l]) : i[l];
		bool inside = at >= 0 && at < extent[l];

		out[l] = inside ? at : 0;
		if (inside || (mask && !mask[l]))
			continue;
		if (p->shifted >= 0) {
			p->lost[l] = 1;
			continue;
		}
		if (!p->fault) {
			p->bad_index = i[l];
			p->bad_size = extent[l];
		}
		p->fault = true;
	}
}

static void exec_routine(Prog *p, PNode *n, const void *const *arg, const uint8_t *mask)
{
	dl_strings *t = p->k->ctx->strings;

	strings_clear(t);
	eval_routine(n->inst, t, n->own, arg, mask, p->at->n);
	if (!strings_status(t))
		return;
	if (p->shifted >= 0)
		memset(p->lost, 1, STRIP);
	else
		p->fault = true;
}

/* Evaluates a comparison that is the same in the whole strip, which the range of its index
 * shows. */
static bool exec_range_test(Prog *p, PNode *n)
{
	PNode *a = &p->nodes.at[n->arg[0]];
	const LinPattern *pat = pattern_of(p->a, &a->lin, a->pat, p->at);
	int64_t c = *(const int64_t *)p->nodes.at[n->arg[1]].val, base = lin_base(&a->lin, p->at);
	int64_t lo = base + pat->min, hi = base + pat->max;
	bool strict = n->inst == IN_lt ||
		      n->inst == IN_ge; /* which side of c is true: below c, or c and above */
	bool below = strict ? hi < c : hi <= c, above = strict ? lo >= c : lo > c;
	bool want_below = n->inst == IN_lt || n->inst == IN_le;

	if (!below && !above) {
		if (a->unread)
			lin_values(p, &a->lin, a->pat, a->own);
		return false;
	}
	memset(n->own, below == want_below, (size_t)p->at->n);
	return true;
}

static void demand(Prog *p, int i, const uint8_t *mask);

/* Evaluates the lazy arms of a select, each in the lanes of MASK (null: all) that take it. */
static void demand_arms(Prog *p, const PNode *n, const uint8_t *mask)
{
	const uint8_t *cond = p->nodes.at[n->arg[0]].val;
	uint8_t taken[STRIP];

	for (int arm = 1; arm <= 2; arm++) {
		if (p->nodes.at[n->arg[arm]].eager)
			continue;
		for (int l = 0; l < p->at->n; l++)
			taken[l] = (uint8_t)((mask ? mask[l] : 1) &
					     (arm == 1 ? cond[l] : !cond[l]));
		demand(p, n->arg[arm], taken);
	}
}

bool prog_rounds(const PNode *n)
{
	switch (n->inst) {
	case IN_add:
	case IN_sub:
	case IN_mul:
	case IN_div:
	case IN_sqrt:
	case IN_fma:
	case IN_mad: return n->ct == CT_F32 || n->ct == CT_F64;
	default: return false;
	}
}

/* Sets STAYS for the values of node I that equal one operand of a sum, since the other operand is
 * negligible: 8388608 + 1e-20, which expansions use to round, or -1e9 + a score. */
static void absorbed(const Prog *p, int i, bool *stays)
{
	const PNode *n = &p->nodes.at[i];
	double v[STRIP], arg[STRIP];

	memset(stays, 0, STRIP * sizeof *stays);
	if (n->inst != IN_add && n->inst != IN_sub)
		return;
	strip_to_f64(n->ct, n->own, v, p->at->n);
	for (int k = 0; k < 2; k++) {
		strip_to_f64(n->ct, p->nodes.at[n->arg[k]].val, arg, p->at->n);
		for (int l = 0; l < p->at->n; l++)
			stays[l] = stays[l] || fabs(v[l]) == fabs(arg[l]);
	}
}

/* Whether trial P->jitter moves only the results of functions. In all other trials the operations
 * of a function may undo each other's moves, as those of erf often do. */
static bool moves_funcs(const Prog *p)
{
	return p->jitter == 1 && p->has_funcs;
}

/* Moves the values of node I by one ulp, up or down at random; or by FUNC_ULPS, the limit of most
 * functions' error plus one. Zero, inf and NaN are unchanged. */
static void jitter(const Prog *p, int i)
{
	enum { FUNC_ULPS = 3 };
	const PNode *n = &p->nodes.at[i];
	const int ulps = moves_funcs(p) ? FUNC_ULPS : 1;
	uint32_t seed = ((uint32_t)i * 2654435761u + (uint32_t)p->jitter * 40503u) | 1;
	double v[STRIP];
	bool stays[STRIP];

	strip_to_f64(n->ct, n->own, v, p->at->n);
	absorbed(p, i, stays);
	for (int l = 0; l < p->at->n; l++) {
		int64_t step, bits = 0;
		size_t size = n->ct == CT_F32 ? 4 : 8;

		seed = seed * 1664525u + 1013904223u;
		step = seed >> 31 ? ulps : -ulps;
		if (v[l] == 0 || v[l] - v[l] != 0 || stays[l])
			continue;
		memcpy(&bits, (char *)n->own + (size_t)l * size, size); /* little-endian */
		bits += step;
		memcpy((char *)n->own + (size_t)l * size, &bits, size);
	}
}

/* Moves the values of node I, which are rounded to a narrower type, up or down at random: by one
 * ulp of that type after the measured effect is multiplied by SAFETY. If the operand moves, a
 * rounding to nearest moves by one ulp or not at all, and a target may round elsewhere: in an
 * attention on a GPU scores stay f32, and weights are rounded before they are divided. */
static void jitter_narrowed(const Prog *p, int i)
{
	const PNode *n = &p->nodes.at[i];
	uint32_t seed = ((uint32_t)i * 2654435761u + (uint32_t)p->jitter * 40503u) | 1;
	double v[STRIP];

	strip_to_f64(n->ct, n->own, v, p->at->n);
	for (int l = 0; l < p->at->n; l++) {
		const double by = v[l] != 0 ? ulp_of(n->dtype, v[l]) / (double)SAFETY : 0;

		seed = seed * 1664525u + 1013904223u;
		v[l] += seed >> 31 ? by : -by;
	}
	strip_from_f64(n->ct, v, n->own, p->at->n);
}

static bool narrows(const PNode *n)
{
	return (n->inst == IN_round || n->inst == IN_roundsat) && ctype_is_float(n->ct) &&
	       dtype_is_float(n->dtype);
}

static void exec(Prog *p, int i, const uint8_t *mask)
{
	PNode *n = &p->nodes.at[i];
	const void *arg[3] = {NULL, NULL, NULL};

	if (n->kind == EX_LOAD) {
		exec_load(p, i, mask);
		return;
	}
	if (n->kind == EX_ITER && !n->unread)
		lin_values(p, &n->lin, n->pat, n->own);
	if (n->kind != EX_INST || (n->by_range && exec_range_test(p, n)))
		return;
	if (n->inst == IN_index) {
		exec_index(p, n, mask);
		return;
	}
	if (n->inst == IN_select)
		demand_arms(p, n, mask);
	for (int k = 0; k < n->n; k++)
		arg[k] = p->nodes.at[n->arg[k]].val;
	if (inst_is_routine(n->inst))
		exec_routine(p, n, arg, mask);
	else if (n->fn)
		n->fn(n->own, arg[0], arg[1], arg[2], p->at->n);
	else
		vec_round(n->inst, n->dtype, n->ct, n->own, arg[0], p->at->n);
	if (p->jitter && n->touched && (moves_funcs(p) ? n->is_func : prog_rounds(n)))
		jitter(p, i);
	else if (p->jitter && n->touched && narrows(n))
		jitter_narrowed(p, i);
}

/* Evaluates lazy node I at least in the lanes of MASK. Lanes that were evaluated before are
 * evaluated again, so that one strip holds all of them. */
static void demand(Prog *p, int i, const uint8_t *mask)
{
	PNode *n = &p->nodes.at[i];
	uint8_t want[STRIP];
	int arg[MAX_RANK + 3], count, missing = 0;

	if (n->eager)
		return;
	for (int l = 0; l < p->at->n; l++) {
		missing |= mask[l] & !n->done[l];
		want[l] = mask[l] | n->done[l];
	}
	if (!missing)
		return;
	count = prog_operands(n, arg);
	for (int k = 0; k < count; k++)
		if (!(n->kind == EX_INST && n->inst == IN_select && k > 0))
			demand(p, arg[k], want);
	exec(p, i, want);
	memcpy(n->done, want, (size_t)p->at->n);
}

static void run_roots(Prog *p)
{
	const uint8_t *mask = p->mask ? p->mask : p->all;

	for (int i = 0; i < p->nroots; i++)
		demand(p, p->root[i], mask);
	for (int i = 0; p->write && !p->write->affine && i < p->write->n; i++)
		demand(p, p->write->idx[i], mask);
}

bool prog_run(Prog *p, const EvalPoints *at)
{
	p->at = at;
	for (int i = 0; i < p->nodes.n; i++) {
		if (p->nodes.at[i].eager)
			exec(p, i, NULL);
		else
			memset(p->nodes.at[i].done, 0, (size_t)at->n);
		if (i == p->guard)
			p->mask = memchr(p->nodes.at[i].val, 0, (size_t)at->n) ? p->nodes.at[i].val
									       : NULL;
	}
	if (!(p->mask && none_set(p->mask, at->n)))
		run_roots(p);
	return !p->fault && !p->stray;
}

void prog_shift(Prog *p, int load, int sign)
{
	int arg[MAX_RANK + 3];

	p->shifted = load;
	p->sign = sign;
	memset(p->lost, 0, STRIP);
	for (int i = 0; i < p->nodes.n; i++) {
		PNode *n = &p->nodes.at[i];
		int count = prog_operands(n, arg);

		n->touched = i == load;
		for (int k = 0; k < count; k++)
			n->touched |= p->nodes.at[arg[k]].touched;
		if (n->touched && !n->eager)
			memset(n->done, 0, (size_t)p->at->n);
		if (n->touched && n->eager)
			exec(p, i, NULL);
		if (n->touched && i == p->guard)
			memset(p->lost, 1, STRIP);
	}
	run_roots(p);
	p->shifted = -1;
}
