/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy *contraction* on a GPU: matrix products and convolutions. A block has a tile of the
 * result, BM rows of m by BN columns of n:
 *
 *   p over (g, block of n, block of m)        a block of threads each
 *     for kb over blocks of k, BK terms       a software pipeline of several buffers
 *       copy A's tile, copy B's tile          operand expressions, in 16-byte pieces if contiguous
 *       sums += A tile * B tile               registers
 *     for groups of rows of the sums
 *       copy the group to shared memory       epilogue staging
 *       the statements that follow, point by point, in contiguous pieces
 *
 * These are operations on tiles (ir/loop/loop.h, TileNode).
 *
 * An operand is whatever its expression says: im2col, padding and prologues are computed where a
 * tile is filled. A tile is contiguous along the iterator along which its operand is. Elements past
 * an edge, or for which a guard fails, are zero.
 *
 * Here: the properties of the operands. gemm_choose.c chooses the tile, gemm_block.c builds the
 * loop tree.
 */
#include "passes/schedule/gpu/gemm_impl.h"
#include "passes/forms/inline.h"

static void open_operand(GpuGemm *gg, TileOperand *o, Expr *val, Expr *guard, Iter *const *side,
			 int nside)
{
	Gemm *g = &gg->g;
	Placing pl = {.g = g, .s = g->p.c.s};
	const Contraction *c = &g->p.c;

	*o = (TileOperand){.val = gemm_placed(&pl, val),
			   .guard = gemm_placed(&pl, guard),
			   .side = side,
			   .nside = nside,
			   .type = gg->s.kind ? mma_info[gg->s.kind].type[o == &gg->b]
					      : ctype_dtype(c->ct)};
	o->lanes = gg->s.kind && !guard &&
		   fragments_find(g->p.k, c, val, side, nside, &o->fragments);
	gpu_operand_open(g->p.k, g->t->gpu, o, c->k, c->nk);
}

/* All results are contiguous along m, none along n. */
static bool results_along_m(Gemm *g)
{
	const Iter *m = g->p.c.m[g->p.c.nm - 1], *n = g->p.c.n[g->p.c.nn - 1];

	for (int i = 0; i < g->p.nstmts; i++) {
		const Stmt *s = g->p.k->stmts.at[g->p.first + i];
		bool along_m = false;
		Affine a;

		if (!product_stores(&g->p, s))
			continue;
		if (!ex_affine(g->p.k->ctx, flat_index(g->p.k, s->out[0], s->widx), &a))
			return false;
		for (int j = 0; j < a.n; j++) {
			const Iter *it = product_iter(&g->p, s, a.iter[j]);

			if (it == n && dim_equals(a.coef[j], 1))
				return false;
			along_m = along_m || (it == m && dim_equals(a.coef[j], 1));
		}
		if (!along_m)
			return false;
	}
	return true;
}

/* Substitutes the temporaries of the epilogue into the statements that read them, so that each
 * result is one expression of the sum. Schedule S is then that of the kernel without them. */
static void inline_temps(Gemm *g, Schedule *s)
{
	Kernel *k = g->p.k;
	int n = g->p.first + 1;

	if (g->p.nstmts == 1)
		return;
	for (int i = n; i < k->stmts.n; i++) {
		Stmt *st = k->stmts.at[i];

		if (st->out[0]->kind == BUF_TEMP && stmt_is_simple_map(st))
			inline_after(k, i);
		else
			k->stmts.at[n++] = st;
	}
	if (n == k->stmts.n)
		return;
	k->stmts.n = n;
	g->p.nstmts = n - g->p.first;
	kernel_renumber(k);
	s->split = kernel_clone(k, k->arena);
	product_in_band(&g->p);
}

bool gemm_gpu_open(GpuGemm *gg, const Target *t, Kernel *k, int last, const Schedule *s)
{
	Gemm *g = &gg->g;
	Contraction *c = &g->p.c;

	*gg = (GpuGemm){.g = {.p.k = k, .t = t, .p.nstmts = last + 1, .b = l_build(k, NULL)},
			.serves = s};
	if (!product_open(&g->p) || !c->nm || c->ct == CT_BOOL)
		return false;
	for (int i = 0; i < c->nn; i++)
		g->p.nin[g->p.nnin++] = c->n[i];
	g->p.m = iters_points(g->p.k->ctx, c->m, c->nm);
	g->p.n = iters_points(g->p.k->ctx, c->n, c->nn);
	g->p.kk = iters_points(g->p.k->ctx, c->k, c->nk);
	gg->s.kind = product_instruction(c, t->gpu, t->gpu->rounds);
	gg->by_columns = results_along_m(g);
	open_operand(gg, &gg->a, c->a, c->guard_a, c->m, c->nm);
	open_operand(gg, &gg->b, c->b, c->guard_b, c->n, c->nn);
	if (!s->where.decided)
		return true;
	gg->a.async = gg->a.async && s->where.decided->async[0];
	gg->b.async = gg->b.async && s->where.decided->async[1];
	gg->s = s->where.decided->s;
	return !s->where.decided->skinny;
}

bool sched_gpu_contraction(const Target *t, Kernel *k, int last, Schedule *s)
{
	GpuGemm gg;

	if (!s->where.decided || !gemm_gpu_open(&gg, t, k, last, s))
		return false;
	gg.g.b.sched = s;
	inline_temps(&gg.g, s);
	gemm_gpu_emit(&gg, NULL);
	return true;
}

/* The statements after that of GG, which add its partial sums, as a product whose only term
 * iterator is the part. *SLICE: the iterator of GG over the parts. False if they are not all of
 * that form. */
static bool open_whole(const GpuGemm *gg, GpuGemm *whole, Iter **slice)
{
	const Contraction *part = &gg->g.p.c;
	Kernel *k = gg->g.p.k;
	Contraction *c;
	Iter *to[MAX_ITERS];
	Stmt *s = k->stmts.at[1];
	const Expr *load = s->val[0];

	if (s->red != MONOID_sum || s->niters != s->nband + 1 || load->kind != EX_LOAD ||
	    load->load.buf != part->s->out[0])
		return false;
	*whole = (GpuGemm){.g = {.p = {.k = k, .first = 1, .nstmts = k->stmts.n - 1, .c = *part},
				 .t = gg->g.t,
				 .b = gg->g.b},
			   .s = gg->s,
			   .serves = gg->serves};
	c = &whole->g.p.c;
	c->s = s;
	c->k[0] = s->iter[s->nband];
	c->nk = 1;
	c->ng = 0;
	for (int d = 0; d < load->load.nidx; d++) {
		if (load->load.idx[d]->kind != EX_ITER || part->s->widx[d]->kind != EX_ITER)
			return false;
		to[d] = load->load.idx[d]->iter;
	}
	for (int d = 0; d < load->load.nidx; d++) {
		Iter *from = part->s->widx[d]->iter;

		for (int i = 0; i < part->nm; i++)
			c->m[i] = part->m[i] == from ? to[d] : c->m[i];
		for (int i = 0; i < part->nn; i++)
			c->n[i] = part->n[i] == from ? to[d] : c->n[i];
		if (to[d] == c->k[0])
			*slice = from;
	}
	for (int i = 0; i < part->ng; i++)
		for (int d = 0; d < load->load.nidx; d++)
			if (part->g[i] == part->s->widx[d]->iter && part->g[i] != *slice)
				c->g[c->ng++] = to[d];
	return product_in_band(&whole->g.p);
}

bool sched_gpu_in_parts(const Target *t, Kernel *k, Schedule *s)
{
	GpuGemm gg, whole;

	if (!s->where.decided || !gemm_gpu_open(&gg, t, k, 0, s))
		return false;
	gg.g.b.sched = s;
	if (!open_whole(&gg, &whole, &gg.slice))
		return false;
	for (int i = 2; i < k->stmts.n; i++)
		if (!stmt_is_map(k->stmts.at[i]))
			return false;
	inline_temps(&whole.g, s);
	whole.g.p.m = gg.g.p.m;
	whole.g.p.n = gg.g.p.n;
	for (int i = 0; i < whole.g.p.c.nn; i++)
		whole.g.p.nin[whole.g.p.nnin++] = whole.g.p.c.n[i];
	whole.by_columns = results_along_m(&whole.g);
	gemm_gpu_emit(&gg, &whole);
	return true;
}

int64_t sched_gpu_parts(const Target *t, Kernel *k, const Schedule *s, Iter **along, int64_t *each)
{
	const ProductVariant *v = s->where.decided;
	double size[4];
	GpuGemm gg;

	if (v->parts <= 1 || !gemm_gpu_open(&gg, t, k, k->stmts.n - 1, s))
		return 1;
	gemm_gpu_sizes(&gg, size);
	*each = gemm_gpu_longest(&gg, size[2], along) / v->parts;
	return v->parts;
}
