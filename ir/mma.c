/* SPDX-License-Identifier: Apache-2.0 */
/* The table of matrix instructions, and how sums lie in registers. */
#include "ir/loop.h"

/* Tiles, fragments and ldmatrix are written for these alone. */
#define MMA(name, type, ...) \
	_Static_assert((type) == DT_F16 || (type) == DT_BF16, #name ": elements of 16 bits");
#include "ir/mma.def"
#undef MMA

const MmaInfo mma_info[MMA_COUNT] = {
	[MMA_FMA] = {.name = "fma", .m = 1, .n = 1, .k = 1},
#define MMA(name, type, sum, m, n, k, sm, a, b, reg, call) \
	[MMA_##name] = {#name, type, sum, m, n, k, sm, a, b, reg, call},
#include "ir/mma.def"
#undef MMA
};

int mma_strip(const Mma *m)
{
	const int lanes = 4, piece = 16 / (dtype_info[ctype_dtype(m->ct)].bits / 8);

	if (m->kind != MMA_FMA)
		return mma_info[m->kind].m;
	return m->a_along ? lanes : lanes * piece;
}
