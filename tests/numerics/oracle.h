/* SPDX-License-Identifier: Apache-2.0 */
/* The exact error of a function's result, by MPFR; and a fast one by libm in 80 bits, to choose
 * whom to ask. */
#ifndef TESTS_NUMERICS_ORACLE_H
#define TESTS_NUMERICS_ORACLE_H

/* A binary format: bits of the significand, exponents as frexp's. */
typedef struct Format {
	const char *name;
	int bits, least, most;
} Format;

typedef struct Function Function;

/* Null where NAME has no row. */
const Function *function_find(const char *name);
/* In units of the last place of the true value; infinity where a special value or the sign of a
 * zero is wrong. Beyond the largest value infinity counts as the next one. */
double exact_error(const Function *f, const Format *t, double x, double y, double got);
/* The same, within 2^-7 (f64) or less. */
double rough_error(const Function *f, const Format *t, double x, double y, double got);

#endif
