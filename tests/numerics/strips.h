/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of ir/expr/funcs.def over strips of STRIP values. strips.c is compiled twice, with
 * the instructions' `mad` fused and in two roundings (VARIANT), so that one program measures both
 * against one reference.
 */
#ifndef TESTS_NUMERICS_STRIPS_H
#define TESTS_NUMERICS_STRIPS_H

#include <stdbool.h>

enum { STRIP = 4096, VARIANTS = 2 };

/* Reads X and, where there are two operands, Y. */
typedef struct Strips {
	const char *name; /* null ends a table */
	int operands;
	void (*f32)(const float *x, const float *y, float *out);
	void (*f64)(const double *x, const double *y, double *out);
} Strips;

extern const Strips strips_fused[], strips_rounded[];
extern const bool fused_fused,
	fused_rounded; /* whether its mad fuses: both say no where the machine cannot */

/* f32 inputs in f64, within some units of f64's last place: far below what f32 shows. Special
 * values may be off. */
void ref_strip(const char *name, const float *x, const float *y, double *out);

#endif
