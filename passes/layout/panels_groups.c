/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs the constant operand of a product of groups of few columns, such as a convolution of 32
 * groups of 4 channels, for vectors across groups. A vector of the image has the channels of
 * several groups. It is multiplied by a vector of filters for each of the 4 columns of a group:
 * product D of channel c belongs to column (c + D) % 4, so the vector itself is never permuted.
 * Only the 4 sums of a vector are, at the end (codegen/c/tile_groups.c).
 *
 *     packed[r,s,d,g,c] = w[g*4 + (c + d) % 4,c,r,s]
 *     acc[g*4 + n] = sum over c, r, s of x[g*4 + c] * packed[r,s,(n - c) % 4,g,c]
 */
#include "passes/forms/product.h"
#include "passes/layout/panels_impl.h"

bool pack_groups(Module *m, Node *n, Contraction *c)
{
	Kernel *k = node_kernel(n);
	Packing pk = {.m = m, .n = n, .c = c};
	Expr *idx[MAX_RANK], *sum;
	Dim *dims[MAX_RANK];
	ProductGroups g;
	Product p;
	Value *packed;
	int r = 0;

	if (c->nk + 2 > MAX_RANK || !product_open_all(&p, k) || p.c.b != c->b ||
	    !product_in_groups(&p, &g))
		return false;
	for (int i = 0; i < m->ntargets; i++) /* a vector has several groups */
		if (m->target[i]->vector_bytes / 4 < 2 * g.columns)
			return false;
	pk.k = kernel_new(m->ctx, m->arena, arena_printf(m->arena, "%s_pack", k->name));
	packing_add(&pk, p.c.k, p.c.nk - 1);
	pk.it[pk.rank++] = kernel_iter(pk.k, "d", dim_const(m->ctx, g.columns));
	packing_add(&pk, &g.group, 1);
	packing_add(&pk, &g.term, 1);
	sum = ex_add(pk.k->pool, ex_iter(pk.k->pool, pk.it[pk.rank - 1]),
		     ex_iter(pk.k->pool, pk.it[pk.rank - 3]));
	pk.from[pk.nfrom] = g.column;
	pk.with[pk.nfrom++] = ex_op2(pk.k->pool, IN_mod, sum,
				     ex_int(pk.k->pool, CT_I64, g.columns));
	for (int i = 0; i < pk.rank; i++)
		dims[i] = pk.it[i]->extent;
	packed = packing_close(&pk, c->b, type_tensor(m->ctx, DT_F32, pk.rank, dims));
	for (; r + 1 < p.c.nk; r++)
		idx[r] = ex_iter(k->pool, p.c.k[r]);
	sum = ex_sub(k->pool, ex_iter(k->pool, g.column), ex_iter(k->pool, g.term));
	idx[r++] = ex_op2(k->pool, IN_mod, sum, ex_int(k->pool, CT_I64, g.columns));
	idx[r++] = ex_iter(k->pool, g.group);
	idx[r++] = ex_iter(k->pool, g.term);
	c->s->val[0] = ex_op2(k->pool, IN_mul, c->a,
			      ex_load(k->pool, node_add_operand(n, "packed", packed), idx, r));
	return true;
}
