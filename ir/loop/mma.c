/* SPDX-License-Identifier: Apache-2.0 */
/* The table of matrix instructions, and the layout of their sums in registers. */
#include "ir/loop/loop.h"

/* The code for tiles, fragments and ldmatrix handles these element types only. */
#define IS_BYTE(t) ((t) == DT_I8 || (t) == DT_U8)
#define MMA(name, a, b, ...)                                                                       \
	_Static_assert((IS_BYTE(a) && IS_BYTE(b)) ||                                               \
			       ((a) == (b) && ((a) == DT_F16 || (a) == DT_BF16 || (a) == DT_F32)), \
		       #name ": elements of 8, 16 or 32 bits, of A and B alike");
#include "ir/loop/mma.def"
#undef MMA

const MmaInfo mma_info[MMA_COUNT] = {
	[MMA_FMA] = {.name = "fma", .m = 1, .n = 1, .k = 1},
#define MMA(name, a, b, sum, m, n, k, sm, na, nb, reg, call, round) \
	[MMA_##name] = {#name, {a, b}, sum, m, n, k, sm, na, nb, reg, call, round},
#include "ir/loop/mma.def"
#undef MMA
};

bool mma_rounds(int sm)
{
	for (int i = MMA_FMA + 1; i < MMA_COUNT; i++)
		if (mma_info[i].round && mma_info[i].sm <= sm)
			return true;
	return false;
}

int mma_part_rows(const Mma *m)
{
	const int lanes = 4, piece = 16 / (dtype_info[ctype_dtype(m->ct)].bits / 8);

	if (m->kind != MMA_FMA)
		return MMA_ROWS;
	return m->a_along && !m->by_columns ? lanes : lanes * piece;
}

bool mma_transposes(const Mma *m, bool along)
{
	return !along && m->kind != MMA_FMA && dtype_info[mma_info[m->kind].type[0]].bits == 8;
}

int mma_pad(const Mma *m)
{
	const int adjacent = mma_transposes(m, m->b_along) ? 4 : 2,
		  rows = mma_transposes(m, m->a_along) ? 2 : 1;

	return m->by_columns ? 4 : 4 * adjacent / rows;
}
