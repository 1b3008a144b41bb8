/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of loop trees that matrix products on CPUs and GPUs share. */
#include "passes/schedule/common/gemm.h"

/* Merged iterators: the last one is replaced by the flat one, the others by 0, which is right as
 * their strides agree. */
static Expr *flat_iter(Gemm *g, const Iter *it)
{
	for (int i = 0; i < g->p.nnin; i++)
		if (g->p.nin[i] == it)
			return i + 1 < g->p.nnin ? l_int(&g->b, 0) : ex_iter(g->b.p, g->nflat);
	if (g->p.m_merges)
		for (int i = 0; i < g->p.c.nm; i++)
			if (g->p.c.m[i] == it)
				return i + 1 < g->p.c.nm ? l_int(&g->b, 0)
							 : ex_iter(g->b.p, g->mflat);
	return NULL;
}

Expr *gemm_placed(Placing *p, Expr *e)
{
	ExprPool *pool = p->g->b.p;

	EX_MAP (x, pool, &e) {
		Buf *b = x->load.buf;
		Expr *at;

		if (x->kind != EX_LOAD)
			continue;
		if (b->id < p->nvalues && p->value[b->id]) {
			x = p->value[b->id];
			continue;
		}
		at = flat_index(p->g->p.k, b, x->load.idx);
		x = ex_load(pool, b, &at, 1);
	}
	EX_MAP (x, pool, &e)
		if (x->kind == EX_ITER) {
			Iter *it = product_iter(&p->g->p, p->s, x->iter);
			Expr *f = p->flat ? flat_iter(p->g, it) : NULL;

			x = f ? f : it != x->iter ? ex_iter(pool, it) : x;
		}
	return e;
}

Expr *gemm_at(Gemm *g, const Stmt *s, const Iter *it, Expr *m, Expr *n, Expr *k)
{
	Iter *o = product_iter(&g->p, s, it), *const * list[] = {g->p.nin, g->p.c.m, g->p.c.k};
	Expr *flat[] = {n, m, k};
	int count[] = {g->p.nnin, g->p.c.nm, k ? g->p.c.nk : 0};

	for (int side = 0; side < 3; side++) {
		Expr *e = flat[side];

		for (int i = count[side] - 1; i >= 0; i--) {
			Expr *ext = ex_dim(g->b.p, list[side][i]->extent);

			if (list[side][i] == o)
				return i ? ex_op2(g->b.p, IN_mod, e, ext) : e;
			e = ex_op2(g->b.p, IN_floordiv, e, ext);
		}
	}
	return ex_iter(g->b.p, o);
}

void gemm_does(Gemm *g, LNode *node, const Stmt *s, LPart part, Expr *m, Expr *n, Expr *k)
{
	Expr *at[MAX_ITERS];
	int nat = part == PART_TERM ? s->niters : s->nband;

	for (int i = 0; i < nat; i++)
		at[i] = gemm_at(g, s, s->iter[i], m, n, k);
	l_does(&g->b, node, part, at, nat);
}
