/* SPDX-License-Identifier: Apache-2.0 */
/* The table of matrix instructions. */
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

bool mma_is_wgmma(MmaKind kind)
{
	return kind != MMA_FMA && !mma_info[kind].a;
}

bool mma_rounds(int sm)
{
	for (int i = MMA_FMA + 1; i < MMA_COUNT; i++)
		if (mma_info[i].round && mma_info[i].sm <= sm)
			return true;
	return false;
}
