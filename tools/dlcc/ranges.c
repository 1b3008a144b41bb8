/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scales of quantised numbers, by the least sum of squared errors. A range that excludes a few
 * large elements rounds all others more finely. An element inside of the range has the error of
 * uniform rounding, scale^2 / 12, except 0, which is exact. The error of an element outside is its
 * distance from the range.
 */
#include "tools/dlcc/quantise.h"

#include <math.h>

enum { STEPS = 32 /* ends of ranges that are tried: k/32 of the largest element */ };

/* Bytes for LO..HI, which 0 is in. */
static ByteScale bytes_for(double lo, double hi)
{
	const float scale = (float)((hi - lo) / (double)QUANT_U8_MAX);

	/* The reciprocal must be a normal number, too. */
	if (!isnormal(scale) || !isnormal(1 / scale))
		return (ByteScale){1, 0};
	return (ByteScale){scale, (int)lrint(fmin(QUANT_U8_MAX, -lo / (double)scale))};
}

ByteScale range_all(const ValueRange *r)
{
	return bytes_for(r->lo, r->hi);
}

/* The sum of squared errors if only LO..HI has quantised numbers. */
static double squares(const ValueRange *r, double lo, double hi)
{
	const double step = (hi - lo) / (double)QUANT_U8_MAX, each = (r->hi - r->lo) / (double)RANGE_BINS;
	double sum = 0;

	for (int i = 0; i < RANGE_BINS; i++) {
		const double x = r->lo + (i + 0.5) * each, off = x < lo   ? lo - x
								 : x > hi ? x - hi
									  : 0;

		sum += r->bin[i] * (off > 0 ? off * off : step * step / 12);
	}
	return sum;
}

ByteScale range_least_squares(const ValueRange *r)
{
	double least = INFINITY, best_lo = r->lo, best_hi = r->hi;

	for (int i = r->lo < 0 ? 1 : STEPS; i <= STEPS; i++)
		for (int j = r->hi > 0 ? 1 : STEPS; j <= STEPS; j++) {
			const double lo = r->lo * i / (double)STEPS, hi = r->hi * j / (double)STEPS,
				     sum = squares(r, lo, hi);

			if (sum <= least) {
				least = sum;
				best_lo = lo;
				best_hi = hi;
			}
		}
	return bytes_for(best_lo, best_hi);
}

float scale_of_channel(const float *x, int64_t n, int64_t group, int64_t stride)
{
	enum { TRIES = 9, PERCENT = 4 }; /* down to 68 % of the largest element */
	double least = INFINITY;
	float most = 0, best = 1;

	for (int64_t i = 0; i < n; i++)
		most = fmaxf(most, fabsf(x[i / group * stride + i % group]));
	for (int t = 0; t < TRIES; t++) {
		const float scale = most * (float)(100 - PERCENT * t) / (100 * QUANT_I8_MAX);
		double sum = 0;

		if (!isnormal(scale) || !isnormal(1 / scale))
			return best;
		for (int64_t i = 0; i < n; i++) {
			const float v = x[i / group * stride + i % group],
				    q = fmaxf(-QUANT_I8_MAX, fminf(QUANT_I8_MAX, rintf(v / scale))),
				    e = q * scale - v;

			sum += (double)(e * e);
		}
		if (sum < least) {
			least = sum;
			best = scale;
		}
	}
	return best;
}
