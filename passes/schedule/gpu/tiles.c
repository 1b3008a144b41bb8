/* SPDX-License-Identifier: Apache-2.0 */
/* What products and attention on GPUs share: the tiles of their trees, and parts of their decisions. */
#include "passes/schedule/gpu/gpu_impl.h"

LNode *gpu_tile(LBuild *b, const char *name, DType t, const int64_t *extent, const TileLayout *l)
{
	Dim *dims[TILE_RANK];
	LNode *n = l_node(b, LN_LOCAL);

	for (int i = 0; i < l->rank; i++)
		dims[i] = dim_const(b->k->ctx, extent[i]);
	n->local.buf = kernel_temp(b->k, name, t, l->rank, dims);
	n->local.buf->tile = arena_copy(b->arena, l, sizeof *l);
	return n;
}

bool gpu_is_multiple(const Dim *d, int64_t n)
{
	int64_t v;

	return dim_is_const(d, &v) && v % n == 0;
}

bool gpu_hold_is_legal(const char *name, bool async, bool can, StrBuf *why)
{
	return !async || can ||
	       decision_refuse(
		       why,
		       "%s cannot be copied asynchronously: cp.async needs sm_80 or later, and loads of at least 4 bytes of the type that the product multiplies",
		       name);
}
