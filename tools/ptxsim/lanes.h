/* SPDX-License-Identifier: Apache-2.0 */
/* The instructions of isa.def as functions over 32 lanes, with their operands. */
#ifndef TOOLS_PTXSIM_LANES_H
#define TOOLS_PTXSIM_LANES_H

#include "tools/ptxsim/ptx.h"

typedef struct MapRow {
	const char *pattern;
	MapFn *fn;
	Class cls;
	uint8_t n; /* sources */
	Type d, s[4];
} MapRow;

extern const MapRow map_rows[];
extern const int n_map_rows;

/* Comparisons of two vectors of type T, which return a mask. OP is a name such as "lt"; null:
 * none. */
typedef uint32_t CompareFn(const void *a, const void *b);
CompareFn *compare_fn(const char *op, Type t);

/* The code around the C of a row: subnormals, saturation, relu, for values of type T in 32
 * lanes. */
void lanes_flush(void *v, Type t);
void lanes_saturate(void *v, Type t);
void lanes_relu(void *v, Type t);

#endif
