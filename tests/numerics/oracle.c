/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/numerics/oracle.h"

#include <math.h>
#include <mpfr.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { PRECISION = 192 };

typedef int (*Exact1)(mpfr_ptr, mpfr_srcptr, mpfr_rnd_t);
typedef int (*Exact2)(mpfr_ptr, mpfr_srcptr, mpfr_srcptr, mpfr_rnd_t);

struct Function {
	const char *name;
	Exact1 exact1;
	Exact2 exact2;
	long double (*rough1)(long double);
	long double (*rough2)(long double, long double);
	bool rough_subnormals; /* any subnormal number of f32, or 0, will do for another */
};

static int exact_sigmoid(mpfr_ptr r, mpfr_srcptr x, mpfr_rnd_t rnd)
{
	mpfr_neg(r, x, rnd);
	mpfr_exp(r, r, rnd);
	mpfr_add_ui(r, r, 1, rnd);
	return mpfr_ui_div(r, 1, r, rnd);
}

static long double rough_sigmoid(long double x)
{
	long double z = expl(-fabsl(x));

	return (x < 0 ? z : 1) / (1 + z);
}

static const Function functions[] = {
#define ROW_1(f) {#f, mpfr_##f, NULL, f##l, NULL, false},
#define ROW_2(f) {#f, NULL, mpfr_##f, NULL, f##l, false},
	ROW_1(exp) ROW_1(exp2) ROW_1(expm1) ROW_1(log) ROW_1(log1p) ROW_1(tanh) ROW_1(erf)
		ROW_1(sin) ROW_1(cos) ROW_1(tan) ROW_1(asin) ROW_1(acos) ROW_1(atan) ROW_1(sinh)
			ROW_1(cosh) ROW_1(asinh) ROW_1(acosh) ROW_1(atanh) ROW_2(atan2) ROW_2(pow){
				"sigmoid", exact_sigmoid, NULL, rough_sigmoid, NULL, true},
};

const Function *function_find(const char *name)
{
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (!strcmp(functions[i].name, name))
			return &functions[i];
	return NULL;
}

/* Whether GOT is right, or wrong, by what kind of number it is; else the error is to be
 * measured. */
static bool special(double got, bool nan, bool inf, bool zero, bool negative, double *error)
{
	bool right = nan    ? isnan(got)
		     : inf  ? isinf(got) && !signbit(got) == !negative
		     : zero ? got == 0 && !signbit(got) == !negative
			    : !isnan(got) && !signbit(got) == !negative;

	*error = right ? 0 : INFINITY;
	return !right || nan || inf || zero;
}

double exact_error(const Function *f, const Format *t, double x, double y, double got)
{
	static bool ready;
	static mpfr_t mx, my, r;
	double error;
	mpfr_exp_t e;

	if (!ready)
		mpfr_inits2(PRECISION, mx, my, r, (mpfr_ptr)NULL);
	ready = true;
	mpfr_set_d(mx, x, MPFR_RNDN);
	mpfr_set_d(my, y, MPFR_RNDN);
	if (f->exact1)
		f->exact1(r, mx, MPFR_RNDN);
	else
		f->exact2(r, mx, my, MPFR_RNDN);
	if (special(got, mpfr_nan_p(r), mpfr_inf_p(r), mpfr_zero_p(r), mpfr_signbit(r), &error))
		return error;
	e = mpfr_get_exp(r);
	if ((isinf(got) && e > t->most) ||
	    (f->rough_subnormals && t->least == -125 && e < t->least &&
	     fabs(got) < ldexp(1, (int)t->least - 1)))
		return 0;
	if (isinf(got))
		mpfr_set_si_2exp(mx, got < 0 ? -1 : 1, t->most, MPFR_RNDN);
	else
		mpfr_set_d(mx, got, MPFR_RNDN);
	mpfr_sub(r, r, mx, MPFR_RNDN);
	e = e < t->least ? t->least : e > t->most ? t->most : e;
	mpfr_mul_2si(r, r, t->bits - e, MPFR_RNDN);
	return fabs(mpfr_get_d(r, MPFR_RNDN));
}

double rough_error(const Function *f, const Format *t, double x, double y, double got)
{
	long double r = f->rough1 ? f->rough1(x) : f->rough2(x, y), g = got;
	double error;
	int e;

	if (special(got, isnan(r), isinf(r), r == 0, signbit(r), &error))
		return error;
	frexpl(r, &e);
	if (isinf(got) && e > t->most)
		return 0;
	if (isinf(got))
		g = copysignl(ldexpl(1, t->most), g);
	e = e < t->least ? t->least : e > t->most ? t->most : e;
	return (double)ldexpl(fabsl(r - g), t->bits - e);
}
