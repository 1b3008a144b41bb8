/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stores constant operands of matrix instructions in the order of fragments (ir/loop/mma.def).
 * Blocks of MMA_ROWS rows of the operand's free side by 64 bytes of terms follow one another along
 * the summed iterator. A block holds, for each half of the terms, the four registers (16 bytes) of
 * lane 0, of lane 1 and so on. So a tile is filled by contiguous pieces of 1 KiB, a lane reads its
 * registers in one access, and one array serves all tile sizes and all instructions for elements of
 * its size. The padding to whole blocks is zero, as a product needs.
 *
 * As a layout, the block is a div/mod split of two dims, the side and the last summed one: for f16
 * (E, the elements of a register, is 2) f16[K,N]{1/16,0/32,0/16%2,1%8,0/2%4,1/8%2,0/8%2,0%2}.
 */
#include "passes/layout/fragments.h"

#include <assert.h>

int fragment_terms(DType t)
{
	return FRAGMENT_BYTES * 8 / dtype_info[t].bits;
}

static LayoutAxis *axis(Layout *l, int dim, int div, int mod)
{
	LayoutAxis *ax = &l->ax[l->n++];

	*ax = (LayoutAxis){dim, div > 1 ? div : 0, mod};
	return ax;
}

const Type *fragment_type(Ctx *c, const Type *plain, int ng)
{
	const int side = plain->rank - 1, k = side - 1, e = fragment_terms(plain->dtype) / 16;
	Layout l = {0};

	assert(k >= ng && plain->rank + 7 <= MAX_RANK * 2);
	for (int d = 0; d < ng; d++)
		axis(&l, d, 0, 0);
	axis(&l, side, MMA_ROWS, 0);
	for (int d = ng; d < k; d++)
		axis(&l, d, 0, 0);
	axis(&l, k, 16 * e, 0);
	axis(&l, k, 8 * e, 2);
	axis(&l, side, 0, 8);
	axis(&l, k, e, 4);
	axis(&l, side, 8, 2);
	axis(&l, k, 4 * e, 2);
	if (e > 1)
		axis(&l, k, 0, e);
	return type_with_layout(c, plain, &l);
}

/* The number of group dims of B if B is in the order of fragments; else -1. */
static int groups_of(Ctx *c, const Buf *b)
{
	const Type *plain;

	if (!b->layout || b->rank < 2 || dtype_info[b->dtype].bits < 8 ||
	    dtype_info[b->dtype].bits > 32)
		return -1;
	plain = type_tensor(c, b->dtype, b->rank, b->dims);
	for (int ng = 0; ng < b->rank - 1; ng++)
		if (fragment_type(c, plain, ng)->layout == b->layout)
			return ng;
	return -1;
}

/* Indices FROM to TO - 1 of LOAD as one flat index. */
static Expr *joined(Kernel *k, const Expr *load, int from, int to)
{
	Expr *at = ex_int(k->pool, CT_I64, 0);
	Dim *stride = dim_const(k->ctx, 1);

	for (int d = to - 1; d >= from; d--) {
		at = ex_add(k->pool, at,
			    ex_mul(k->pool, load->load.idx[d], ex_dim(k->pool, stride)));
		stride = dim_mul(k->ctx, stride, load->load.buf->dims[d]);
	}
	return at;
}

/* The sum over TERM covers whole blocks of SIZE terms, or it covers ALL of the terms, and the last
 * block is padded. *JOINS: its iterators traverse the terms in order, as one. */
static bool in_blocks(Kernel *k, const Contraction *c, Expr *term, int size, const Dim *all,
		      bool *joins)
{
	Ctx *ctx = k->ctx;
	Dim *step = dim_const(ctx, 1);
	Affine a;

	*joins = true;
	if (!ex_affine(ctx, term, &a) || !dim_equals(affine_coef(ctx, &a, c->k[c->nk - 1]), 1))
		return false;
	for (int i = c->nk - 1; i >= 0; i--) {
		*joins = *joins && affine_coef(ctx, &a, c->k[i]) == step;
		step = dim_mul(ctx, step, c->k[i]->extent);
	}
	if (*joins && step == all)
		return true;
	if (!dim_multiple(ctx, *joins ? step : c->k[c->nk - 1]->extent, size) ||
	    !dim_multiple(ctx, a.base, size))
		return false;
	for (int i = 0; i < a.n; i++) {
		bool within = false;

		for (int j = *joins ? 0 : c->nk - 1; j < c->nk; j++)
			within = within || a.iter[i] == c->k[j];
		if (!within && !dim_multiple(ctx, a.coef[i], size))
			return false;
	}
	return true;
}

bool fragments_find(Kernel *k, const Contraction *c, const Expr *val, Iter *const *side, int nside,
		    Fragments *f)
{
	const Buf *b = val->kind == EX_LOAD ? val->load.buf : NULL;
	const int ng = b && nside == 1 ? groups_of(k->ctx, b) : -1;
	Dim *depth, *all;
	int last;

	if (ng < 0)
		return false;
	last = b->rank - 1;
	*f = (Fragments){.terms = fragment_terms(b->dtype)};
	f->term = joined(k, val, ng, last);
	depth = dim_ceildiv(k->ctx, b->dims[last - 1], dim_const(k->ctx, f->terms));
	all = b->dims[last - 1];
	for (int d = ng; d < last - 1; d++) {
		depth = dim_mul(k->ctx, depth, b->dims[d]);
		all = dim_mul(k->ctx, all, b->dims[d]);
	}
	if (val->load.idx[last]->kind != EX_ITER || val->load.idx[last]->iter != side[0] ||
	    !in_blocks(k, c, f->term, f->terms, all, &f->joins))
		return false;
	f->blocks = dim_ceildiv(k->ctx, b->dims[last], dim_const(k->ctx, MMA_ROWS));
	f->row = dim_mul(k->ctx, depth, dim_const(k->ctx, MMA_ROWS * f->terms));
	f->group = ex_mul(k->pool, joined(k, val, 0, ng),
			  ex_dim(k->pool, dim_mul(k->ctx, f->blocks, f->row)));
	return true;
}

Expr *fragments_load(ExprPool *p, const Expr *val, const Fragments *f, Expr *block, Expr *term,
		     Expr *in)
{
	Expr *at = ex_add(p, ex_mul(p, block, ex_dim(p, f->row)),
			  ex_mul(p, term, ex_int(p, CT_I64, MMA_ROWS)));

	at = ex_add(p, f->group, ex_add(p, at, in));
	return ex_load(p, val->load.buf, &at, 1);
}
