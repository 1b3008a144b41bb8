/* SPDX-License-Identifier: Apache-2.0 */
/* f64 references over strips: glibc's vector library where it has one, else libm. */
#include "tests/numerics/strips.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GLIBC_PREREQ(2, 35)
#define LANES __attribute__((simd("notinbranch")))
#else
#define LANES
#endif

#define LIST_1(X)                                                                            \
	X(exp)                                                                               \
	X(exp2)                                                                              \
	X(expm1) X(log) X(log1p) X(tanh) X(erf) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) \
		X(sinh) X(cosh) X(asinh) X(acosh) X(atanh)
#define LIST_2(X) X(atan2) X(pow)

#define DECLARE_1(f) LANES double f(double);
#define DECLARE_2(f) LANES double f(double, double);
LIST_1(DECLARE_1)
LIST_2(DECLARE_2)

static inline double sigmoid(double x)
{
	double z = exp(-fabs(x));

	return (x < 0 ? z : 1) / (1 + z);
}

#define REF_1(f)                                                         \
	static void ref_##f(const float *x, const float *y, double *out) \
	{                                                                \
		(void)y;                                                 \
		for (int i = 0; i < STRIP; i++)                          \
			out[i] = f((double)x[i]);                        \
	}
#define REF_2(f)                                                         \
	static void ref_##f(const float *x, const float *y, double *out) \
	{                                                                \
		for (int i = 0; i < STRIP; i++)                          \
			out[i] = f((double)x[i], (double)y[i]);          \
	}
LIST_1(REF_1)
LIST_2(REF_2)
REF_1(sigmoid)

void ref_strip(const char *name, const float *x, const float *y, double *out)
{
#define ROW(f) {#f, ref_##f},
	static const struct {
		const char *name;
		void (*run)(const float *x, const float *y, double *out);
	} rows[] = {LIST_1(ROW) LIST_2(ROW) ROW(sigmoid)};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (!strcmp(rows[i].name, name)) {
			rows[i].run(x, y, out);
			return;
		}
	fprintf(stderr, "%s has no reference: add it to LIST_1 or LIST_2 in tests/numerics/refs.c\n", name);
	_exit(1);
}
