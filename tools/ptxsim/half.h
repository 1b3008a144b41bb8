/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small floats. Each is computed in double and rounded once: sums and products of two of them are
 * exact there, and odd_fma rounds a fused product so that a second rounding gives what one would.
 */
#ifndef TOOLS_PTXSIM_HALF_H
#define TOOLS_PTXSIM_HALF_H

#include "tools/ptxsim/ptx.h"

#include <math.h>
#include <string.h>

static inline uint32_t f32_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, sizeof u);
	return u;
}

static inline float f32_from(uint32_t u)
{
	float f;
	memcpy(&f, &u, sizeof f);
	return f;
}

static inline uint64_t f64_bits(double d)
{
	uint64_t u;
	memcpy(&u, &d, sizeof u);
	return u;
}

static inline double f64_from(uint64_t u)
{
	double d;
	memcpy(&d, &u, sizeof d);
	return d;
}

static inline float f32_of_f16(uint16_t h)
{
	_Float16 f;
	memcpy(&f, &h, sizeof f);
	return (float)f;
}

static inline uint16_t f16_of_f64(double d)
{
	_Float16 f = (_Float16)d;
	uint16_t h;

	memcpy(&h, &f, sizeof h);
	return d != d ? 0x7fff : h;
}

static inline uint16_t f16_of(float d)
{
	_Float16 f = (_Float16)d;
	uint16_t h;

	memcpy(&h, &f, sizeof h);
	return d != d ? 0x7fff : h;
}

static inline float f32_of_bf16(uint16_t h)
{
	return f32_from((uint32_t)h << 16);
}

static inline uint16_t bf16_of(float f)
{
	uint32_t u = f32_bits(f);

	return f != f ? 0x7fff : (uint16_t)((u + 0x7fff + ((u >> 16) & 1)) >> 16);
}

/* A*B+C rounded to odd, for A*B exact in double. */
static inline double odd_fma(double a, double b, double c)
{
	double p = a * b, s = p + c, t = s - p, err = (p - (s - t)) + (c - t);
	uint64_t u = f64_bits(s);

	if (err != 0 && !(u & 1) && isfinite(s))
		u += (err > 0) == (s > 0) ? 1 : (uint64_t)-1;
	return f64_from(u);
}

/* D as a float, rounded to odd: rounding that once more, to fewer bits, is as rounding D once. */
static inline float odd_f32(double d)
{
	float f = (float)d;
	uint32_t u = f32_bits(f);

	if ((double)f != d && isfinite(f))
		u = (fabs((double)f) > fabs(d) ? u - 1 : u) | 1;
	return f32_from(u);
}

/* How small floats look: bits of the fraction and of the exponent. SATURATES: no infinity. */
typedef struct FloatForm {
	int fraction, exponent;
	bool no_infinity;
} FloatForm;

/* D in that form, rounded as R says (RN, RZ, RM, RP, RNA), as bits; beyond the range: infinity,
 * or the greatest value where SATURATE. A NaN gives all ones without the sign. */
uint32_t float_round(double d, FloatForm form, Round r, bool saturate);
double float_value(uint32_t bits, FloatForm form);

#endif
