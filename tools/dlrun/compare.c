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

static void compare_floats(const Array *got, const Array *want, Tolerance t, Comparison *c)
{
	const bool each = t.rtol >= 0 || t.atol >= 0;
	const double rtol = t.rtol >= 0 ? t.rtol : 0, atol = t.atol >= 0 ? t.atol : 0;
	/* Two units in the last place of f16's and bf16's 11 and 8 bits. */
	const double base = got->dtype == DT_BF16               ? 1.6e-2
			    : dtype_info[got->dtype].bits <= 16 ? 2e-3
								: 2e-5;
	const double limit = 8 * t.noise > base ? 8 * t.noise : base;
	double largest = 0;

	for (int64_t i = 0, n = array_count(got); i < n; i++) {
		const double a = dtype_load_f64(got->dtype, got->data, i);
		const double b = dtype_load_f64(want->dtype, want->data, i);
		const double e = fabs(a - b);

		if (isfinite(b) && fabs(b) > largest)
			largest = fabs(b);
		if ((isnan(a) && isnan(b)) || a == b)
			continue;
		if (isfinite(e) && e > c->max_abs)
			c->max_abs = e;
		c->unequal += !isfinite(a) || !isfinite(b) ||
			      (each && !(e <= atol + rtol * fabs(b)));
	}
	c->max_rel = largest > 0 ? c->max_abs / largest : c->max_abs;
	if (c->unequal)
		snprintf(c->why, sizeof(c->why), "%" PRId64 " elements %s", c->unequal,
			 each ? "beyond the tolerance" : "differ in NaN or infinity");
	else if (!each && !(c->max_rel <= limit))
		snprintf(c->why, sizeof(c->why), "beyond %.3g of the largest output", limit);
}

static bool equal_at(const Array *got, const Array *want, int64_t i)
{
	const dl_str *a = got->data, *b = want->data;

	if (got->dtype != DT_STR)
		return dtype_load_i64(got->dtype, got->data, i) ==
		       dtype_load_i64(want->dtype, want->data, i);
	return a[i].n == b[i].n && !memcmp(a[i].p, b[i].p, a[i].n);
}

static void compare_exact(const Array *got, const Array *want, Tolerance t, Comparison *c)
{
	double largest = 0;

	for (int64_t i = 0, n = array_count(got); i < n; i++) {
		double a = 0, b = 0, e;

		if (got->dtype != DT_STR) {
			a = (double)dtype_load_i64(got->dtype, got->data, i);
			b = (double)dtype_load_i64(want->dtype, want->data, i);
		}
		if (fabs(b) > largest)
			largest = fabs(b);
		if (equal_at(got, want, i))
			continue;
		e = fabs(a - b);
		if (e > c->max_abs)
			c->max_abs = e;
		c->unequal += !(t.rtol >= 0 || t.atol >= 0) || got->dtype == DT_STR ||
			      !(e <=
				(t.atol > 0 ? t.atol : 0) + (t.rtol > 0 ? t.rtol : 0) * fabs(b));
	}
	c->max_rel = largest > 0 ? c->max_abs / largest : c->max_abs;
	if (c->unequal)
		snprintf(c->why, sizeof(c->why), "%" PRId64 " elements differ", c->unequal);
}

Comparison compare(const Array *got, const Array *want, Tolerance t)
{
	Comparison c = {0};

	if (same_kind(got, want, &c))
		(dtype_is_float(got->dtype) ? compare_floats : compare_exact)(got, want, t, &c);
	c.ok = !c.why[0];
	return c;
}
