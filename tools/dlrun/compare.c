/* SPDX-License-Identifier: Apache-2.0 */
/* Comparison of one output with its reference. */
#include "tools/dlrun/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool same_kind(const Array *got, const Array *want, Comparison *c)
{
	if (got->dtype != want->dtype) {
		snprintf(c->why, sizeof(c->why), "type is %s, expected %s",
			 dtype_info[got->dtype].name, dtype_info[want->dtype].name);
		return false;
	}
	if (got->rank != want->rank) {
		snprintf(c->why, sizeof(c->why), "rank is %d, expected %d", got->rank, want->rank);
		return false;
	}
	for (int32_t i = 0; i < got->rank; i++)
		if (got->dims[i] != want->dims[i]) {
			snprintf(c->why, sizeof(c->why), "dim %d is %" PRId64 ", expected %" PRId64,
				 i, got->dims[i], want->dims[i]);
			return false;
		}
	return true;
}

/*
 * The thresholds, all but the 8 relative to the reference's largest element:
 *
 *   2e-5     f32 and f64: sums of some thousands of terms, each rounded to 2^-24, in another order than the reference's
 *   2e-3     f16 and narrower floats: two units in the last place of f16's 11 bits
 *   1.6e-2   bf16: two units in the last place of its 8 bits
 *   8        times a noise: a noise is measured on few runs, and the two sides differ by the noise of both
 *   1e-2     the most that a measured noise allows: at steps and near-ties any wrong result would pass else
 *   2^-22    of UNIT: four units in the last place of the largest f32 below it; ONNX Runtime's Sigmoid has an
 *            error of two. 2^-51 in f64
 */
static const struct Precision {
	const char *type;
	double limit;
} f32 = {"f32", 2e-5}, f16 = {"f16", 2e-3}, bf16 = {"bf16", 1.6e-2};
static const double NOISES = 8, MEASURED_MOST = 1e-2, UNIT_F32 = 0x1p-22, UNIT_F64 = 0x1p-51;

/* Of the type of T or, where the model rounds to a coarser one inside, of that. */
static struct Precision precision(DType t, uint32_t inside)
{
	if (t == DT_BF16 || inside & DL_DESC_BF16)
		return bf16;
	return dtype_info[t].bits <= 16 || inside & DL_DESC_F16 ? f16 : f32;
}

static double largest_finite(const Array *v)
{
	double largest = 0;

	for (int64_t i = 0, n = array_count(v); i < n; i++) {
		const double x = fabs(dtype_load_f64(v->dtype, v->data, i));

		if (isfinite(x) && x > largest)
			largest = x;
	}
	return largest;
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static bool given(Tolerance t)
{
	return t.rtol >= 0 || t.atol >= 0;
}

/* By how much an element may be off that should be WANT: by LIMIT if no tolerance is given. */
static double allowed(Tolerance t, double limit, double want)
{
	return given(t) ? larger(t.atol, 0) + larger(t.rtol, 0) * fabs(want) : limit;
}

/* By how much an element near 0 of type TYPE may be off, as T.unit says. */
static double near_zero(DType type, Tolerance t)
{
	return t.unit * (type == DT_F64 ? UNIT_F64 : UNIT_F32);
}

/* Says what decides, after the word "within" or "beyond". LIMIT and NOISE, the largest that was
 * measured, are relative to the reference's largest element, SCALE. */
static void put_rule(DType type, Tolerance t, double limit, double noise, double scale,
		     Comparison *c)
{
	const struct Precision own = precision(type, 0), p = precision(type, t.inside);
	const size_t n = sizeof(c->rule);
	int k;

	if (given(t)) {
		snprintf(c->rule, n, "the tolerance given");
		return;
	}
	k = snprintf(c->rule, n, "%.2g of the reference's largest element", limit);
	if (limit > p.limit && limit == NOISES * t.noise)
		k += snprintf(c->rule + k, n - (size_t)k, ", %g times the noise %s", NOISES,
			      t.noise_from);
	else if (limit > p.limit && limit == NOISES * noise)
		k += snprintf(c->rule + k, n - (size_t)k, ", %g times the noise", NOISES);
	else if (limit > p.limit)
		k += snprintf(c->rule + k, n - (size_t)k, ", the most that a noise allows");
	else if (p.limit > own.limit)
		k += snprintf(c->rule + k, n - (size_t)k, ", for values inside are %s", p.type);
	if (near_zero(type, t) > limit * scale)
		k += snprintf(c->rule + k, n - (size_t)k,
			      ", or %.2g: the model subtracts numbers of about %g",
			      near_zero(type, t), t.unit);
	if (t.step > 0)
		k += snprintf(c->rule + k, n - (size_t)k,
			      ", and the step of %.3g to which the model rounds", t.step);
	if (t.moved)
		snprintf(c->rule + k, n - (size_t)k, "; the noise measured by %s is %.2g of it",
			 t.measured_by, noise);
}

/* By how much an element may be off, where LIMIT is the part of that relative to the reference's
 * largest element, SCALE. */
static double most_off(DType type, Tolerance t, double limit, double scale)
{
	return larger(limit * scale, near_zero(type, t)) + t.step;
}

static double limit_of(DType type, Tolerance t)
{
	return larger(precision(type, t.inside).limit, NOISES * t.noise);
}

double compare_allowance(const Array *want, Tolerance t)
{
	const double largest = largest_finite(want);

	return allowed(t, most_off(want->dtype, t, limit_of(want->dtype, t), largest), largest);
}

bool compare_matches(const Array *got, const Array *want)
{
	Comparison c = {0};

	return got->form == DL_TENSOR && want->form == DL_TENSOR && same_kind(got, want, &c);
}

static void compare_floats(const Array *got, const Array *want, Tolerance t, Comparison *c)
{
	const int64_t n = array_count(got);
	const double largest = largest_finite(want), scale = largest > 0 ? largest : 1;
	double limit = limit_of(got->dtype, t), noise = 0, most;
	int64_t special = 0, noisy = 0;

	for (int64_t i = 0; t.moved && i < n; i++)
		noise = larger(noise, t.moved[i] / scale);
	limit = larger(limit, fmin(NOISES * noise, MEASURED_MOST));
	most = most_off(got->dtype, t, limit, scale);
	for (int64_t i = 0; i < n; i++) {
		const double a = dtype_load_f64(got->dtype, got->data, i);
		const double b = dtype_load_f64(want->dtype, want->data, i);
		const double e = fabs(a - b);
		const bool finite = isfinite(a) && isfinite(b);

		if ((isnan(a) && isnan(b)) || a == b)
			continue;
		if (isfinite(e) && e > c->max_abs)
			c->max_abs = e;
		special += !finite;
		if (finite && e <= allowed(t, most, b))
			continue;
		c->unequal++;
		noisy += finite && t.moved && NOISES * t.moved[i] > limit * scale &&
			 e <= NOISES * noise * scale + t.step;
	}
	c->max_rel = c->max_abs / scale;
	c->noise_may_tell = c->unequal && !special && !given(t);
	put_rule(got->dtype, t, limit, noise, scale, c);
	if (special)
		snprintf(c->why, sizeof(c->why), "%" PRId64 " elements differ in NaN or infinity",
			 special);
	else if (c->unequal)
		snprintf(c->why, sizeof(c->why), "%s%" PRId64 " elements beyond %s",
			 noisy == c->unequal ? "too noisy to judge: " : "", c->unequal, c->rule);
}

static bool same_string(const Array *got, const Array *want, int64_t i)
{
	const dl_str *a = got->data, *b = want->data;

	return a[i].n == b[i].n && !memcmp(a[i].p, b[i].p, a[i].n);
}

/* |a - b| of integers: subtracted in 64 bits, since doubles are equal for 2^53 and 2^53 + 1. */
static double distance(const Array *got, const Array *want, int64_t i)
{
	const int64_t a = dtype_load_i64(got->dtype, got->data, i);
	const int64_t b = dtype_load_i64(want->dtype, want->data, i);
	const bool above = got->dtype == DT_U64 ? (uint64_t)a > (uint64_t)b : a > b;

	return (double)(above ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a);
}

static void compare_exact(const Array *got, const Array *want, Tolerance t, Comparison *c)
{
	const bool strings = got->dtype == DT_STR;
	double largest = 0;

	for (int64_t i = 0, n = array_count(got); i < n; i++) {
		const double e = strings ? !same_string(got, want, i) : distance(got, want, i);
		const double b = strings ? 0 : fabs(dtype_load_f64(want->dtype, want->data, i));

		largest = larger(largest, b);
		c->max_abs = larger(c->max_abs, strings ? 0 : e);
		c->unequal += e > (strings ? 0 : allowed(t, t.step, b));
	}
	c->max_rel = largest > 0 ? c->max_abs / largest : c->max_abs;
	if (!given(t) && t.step > 0)
		snprintf(c->rule, sizeof(c->rule), "the step of %g to which the model rounds",
			 t.step);
	else
		snprintf(c->rule, sizeof(c->rule), "%s",
			 given(t) ? "the tolerance given" : "no difference");
	if (c->unequal)
		snprintf(c->why, sizeof(c->why), "%" PRId64 " elements differ%s%s", c->unequal,
			 t.step > 0 ? " by more than " : "", t.step > 0 ? c->rule : "");
}

/* The words for kinds of values, by dl_form. */
static const char *const form_word[] = {"a tensor", "a sequence", "an optional", "a map"};

static void compare_items(const Array *got, const Array *want, Tolerance t, Comparison *c)
{
	if (got->n_items != want->n_items) {
		snprintf(c->why, sizeof(c->why), "has %" PRId64 " items, expected %" PRId64,
			 got->n_items, want->n_items);
		return;
	}
	snprintf(c->rule, sizeof(c->rule), "no difference");
	c->noise_may_tell = true;
	for (int64_t i = 0; i < got->n_items; i++) {
		const Comparison one = compare(&got->items[i], &want->items[i], t);

		if (t.moved)
			t.moved += array_count(&got->items[i]);
		c->max_abs = larger(c->max_abs, one.max_abs);
		c->max_rel = larger(c->max_rel, one.max_rel);
		c->unequal += one.unequal;
		c->noise_may_tell &= one.ok || one.noise_may_tell;
		if (!i || (!c->why[0] && !one.ok))
			memcpy(c->rule, one.rule, sizeof(c->rule));
		if (!c->why[0] && !one.ok)
			snprintf(c->why, sizeof(c->why), "item %" PRId64 ": %.*s", i,
				 (int)sizeof(c->why) - 40, one.why);
	}
	c->noise_may_tell &= c->why[0] != '\0';
}

Comparison compare(const Array *got, const Array *want, Tolerance t)
{
	Comparison c = {0};

	if (got->form != want->form)
		snprintf(c.why, sizeof(c.why), "is %s, expected %s", form_word[got->form],
			 form_word[want->form]);
	else if (got->form != DL_TENSOR)
		compare_items(got, want, t, &c);
	else if (same_kind(got, want, &c))
		(dtype_is_float(got->dtype) ? compare_floats : compare_exact)(got, want, t, &c);
	c.ok = !c.why[0];
	return c;
}
