/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/ptxsim/half.h"

/* D at 2^-SHIFT as an integer, rounded. */
static double round_at(double d, int shift, Round r)
{
	double v = ldexp(d, -shift), down = floor(v), rest = v - down;

	switch (r) {
	case RZ: return trunc(v);
	case RM: return down;
	case RP: return ceil(v);
	case RNA: return v < 0 ? ceil(v - 0.5) : floor(v + 0.5);
	default: return rest > 0.5 || (rest == 0.5 && fmod(down, 2) != 0) ? down + 1 : down;
	}
}

uint32_t float_round(double d, FloatForm form, Round r, bool saturate)
{
	int bias = (1 << (form.exponent - 1)) - 1, width = form.fraction + form.exponent;
	uint32_t sign = (uint32_t)signbit(d) << width, ones = (1u << width) - 1;
	uint32_t infinity = ones & ~((1u << form.fraction) - 1),
		 greatest = form.no_infinity ? ones - 1 : infinity - 1;
	int e;

	if (d != d)
		return ones;
	if (isinf(d))
		return sign | (saturate ? greatest : form.no_infinity ? ones : infinity);
	if (d == 0)
		return sign;
	frexp(d, &e);
	int least = 1 - bias - form.fraction, shift = e - 1 - form.fraction;
	if (shift < least)
		shift = least;
	double units = fabs(round_at(d, shift, r));
	/* Units of 2^shift; a carry into the next binade falls into place by itself. */
	uint32_t bits = (uint32_t)units + ((uint32_t)(shift - least) << form.fraction);
	if (units == 0)
		return sign;
	if (bits > greatest) {
		bool away = r == RN || r == RNA || (r == RP && d > 0) || (r == RM && d < 0);
		bits = saturate || !away ? greatest : form.no_infinity ? ones : infinity;
	}
	return sign | bits;
}

double float_value(uint32_t bits, FloatForm form)
{
	int bias = (1 << (form.exponent - 1)) - 1, width = form.fraction + form.exponent;
	uint32_t ones = (1u << width) - 1, sign = bits >> width & 1, rest = bits & ones;
	int e = (int)(rest >> form.fraction);
	double v;

	if (form.no_infinity ? rest == ones : e == (1 << form.exponent) - 1)
		v = !form.no_infinity && !(rest & ((1u << form.fraction) - 1)) ? INFINITY : NAN;
	else if (e == 0)
		v = ldexp((double)rest, 1 - bias - form.fraction);
	else
		v = ldexp((double)((rest & ((1u << form.fraction) - 1)) | 1u << form.fraction),
			  e - bias - form.fraction);
	return sign ? -v : v;
}
