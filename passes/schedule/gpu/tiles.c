/* SPDX-License-Identifier: Apache-2.0 */
/* What products and attention on GPUs share: the tiles of their trees, and parts of their decisions. */
#include "passes/schedule/gpu/gpu_impl.h"

static LNode *declare(LBuild *b, const char *name, DType t, const int64_t *extent,
		      const TileLayout *l)
{
	Dim *dims[TILE_RANK];
	LNode *n = l_node(b, LN_LOCAL);

	for (int i = 0; i < l->rank; i++)
		dims[i] = dim_const(b->k->ctx, extent[i]);
	n->local.buf = kernel_temp(b->k, name, t, l->rank, dims);
	n->local.buf->tile = arena_copy(b->arena, l, sizeof *l);
	return n;
}

Buf *gpu_tile(LBuild *b, const char *name, DType t, const int64_t *extent, const TileLayout *l)
{
	return declare(b, name, t, extent, l)->local.buf;
}

Buf *gpu_shared_tile(LBuild *b, const char *name, DType t, const int64_t *extent,
		     const TileLayout *l, int64_t at)
{
	LNode *n = declare(b, name, t, extent, l);

	n->local.at = l_int(b, at);
	return n->local.buf;
}

TileNode *gpu_op(LBuild *b, TileOp op, Buf *to, const char *const *names, const int *extent, int n)
{
	TileNode *node = NEW(b->arena, TileNode);

	*node = (TileNode){.op = op, .to = to, .n = n};
	for (int i = 0; i < n; i++)
		node->it[i] = l_iter(b, names[i], dim_const(b->k->ctx, extent[i]));
	return node;
}

LNode *gpu_add_op(LBuild *b, TileNode *op)
{
	LNode *n = l_node(b, LN_OP);

	n->op = op;
	return n;
}

void gpu_write(LBuild *b, TileNode *n, int rank)
{
	for (n->nidx = 0; n->nidx < rank; n->nidx++)
		n->idx[n->nidx] = ex_iter(b->p, n->it[n->nidx]);
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
