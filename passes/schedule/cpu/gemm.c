/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy *product*: acc[g,m,n] = sum over k of A(g,m,k) * B(g,k,n), and the maps that
 * follow it pointwise, as a blocked matrix product.
 *
 *   p over (g, other n, block of n, block of m)            parallel
 *     pack B's block into panels of 128 bytes of columns   unless the weights are packed already
 *     pack A's block                                       unless A is read by plain strides,
 *                                                          or in runs of contiguous terms
 *     for panels of n, for tiles of m (or tiles, then panels)
 *       tile = A rows * B panel                            the micro-kernel
 *       the epilogue over the tile, m rows by n columns
 *
 * A sum longer than kc goes through all tiles of a block in parts. Each tile fetches some of what
 * later ones would otherwise wait for (gemm_fetch.c).
 *
 * This file emits the loop tree. What is packed, the sizes of tiles and
 * blocks, their order and which blocks are parallel stand in the decision (gemm_decide.c).
 *
 * Operands are expressions: im2col, padding, conversions and prologues are what packing evaluates.
 * Edges: rows past the end repeat the last row and are not stored; columns past the end are zero in
 * the panel. Every element of a product is the sum of its terms in the same order, whatever its
 * tile is: a few rows that are left over go to the tile before them (Gemm.rest), as they would not
 * hide the latency of the multiply-add.
 */
#include "passes/forms/scaled.h"
#include "passes/schedule/cpu/cpu.h"
#include "passes/schedule/cpu/gemm_impl.h"

#include <assert.h>

enum {
	/* A product of fewer rows is bound by reading B, so it takes as long as one of so many. */
	READING_ROWS = 4
};

static bool is_parallel(const ProductDecision *d, ProductAxis x)
{
	return axis_is_parallel(d->parallel, d->nparallel, x);
}

/* The loops over blocks. */
typedef struct ProductBlocks {
	const ProductDecision *d;
	Iter *nb, *mb; /* number of the block of columns, and of rows */
	Dim *nblocks, *mblocks;
	LNode *serial[MAX_ITERS + 2];
	int nserial;
} ProductBlocks;

static void open_serial(Gemm *g, ProductBlocks *bl, Iter *it)
{
	bl->serial[bl->nserial++] = l_loop(&g->b, LOOP_SERIAL, it, l_int(&g->b, 0),
					   ex_dim(g->b.p, it->extent), 1);
}

static void let_m0(Gemm *g, const ProductBlocks *bl)
{
	l_let(&g->b, g->blocks.m0,
	      ex_mul(g->b.p, ex_iter(g->b.p, bl->mb), l_int(&g->b, g->blocks.mc)));
}

static void let_n0(Gemm *g, const ProductBlocks *bl)
{
	l_let(&g->b, g->blocks.n0,
	      ex_mul(g->b.p, ex_iter(g->b.p, bl->nb), l_int(&g->b, g->blocks.nc)));
}

/* The grain counts an iteration's multiply-adds, where few rows count as READING_ROWS. */
static void set_grain(Gemm *g, const ProductDecision *d, int64_t grain)
{
	Ctx *c = g->p.k->ctx;
	Dim *m = dim_min(c, g->p.m, dim_const(c, g->blocks.mc)),
	    *n = dim_min(c, g->p.n, dim_const(c, g->blocks.nc)),
	    *work = dim_mul(c,
			    dim_mul(c,
				    dim_max(c, dim_const(c, READING_ROWS),
					    is_parallel(d, PRODUCT_M) ? m : g->p.m),
				    is_parallel(d, PRODUCT_N) ? n : g->p.n),
			    g->p.steps);

	if (!is_parallel(d, PRODUCT_G))
		work = dim_mul(c, work, iters_points(g->p.k->ctx, g->p.outer, g->p.nouter));
	l_grain(&g->b, grain, work);
}

/* Opens the stage, whose iterations are the blocks of the parallel axes. */
static void open_stage(Gemm *g, ProductBlocks *bl, int64_t grain)
{
	Ctx *c = g->p.k->ctx;
	const ProductDecision *d = bl->d;
	Dim *extent[PRODUCT_AXES] = {iters_points(g->p.k->ctx, g->p.outer, g->p.nouter),
				     bl->nblocks, bl->mblocks},
	    *all = dim_const(c, 1);
	Iter *split[MAX_ITERS + 2];
	int n = 0;

	for (int i = 0; i < d->nparallel; i++)
		all = dim_mul(c, all, extent[d->parallel[i]]);
	l_of(&g->b, g->p.c.s);
	l_stage(&g->b, "product", all);
	set_grain(g, d, grain);
	bl->nb = l_iter(&g->b, "nb", bl->nblocks);
	bl->mb = l_iter(&g->b, "mb", bl->mblocks);
	for (int i = 0; i < d->nparallel; i++) {
		const ProductAxis x = d->parallel[i];

		for (int j = 0; x == PRODUCT_G && j < g->p.nouter; j++)
			split[n++] = g->p.outer[j];
		if (x != PRODUCT_G)
			split[n++] = x == PRODUCT_N ? bl->nb : bl->mb;
	}
	l_split(&g->b, split, n, ex_iter(g->b.p, g->b.stage->var));
}

/* Packs the block's rows of A, or finds their runs, unless A is read with one stride. */
static void prepare_a(Gemm *g)
{
	if (g->p.run < g->p.c.nk)
		gemm_find_runs(g);
	else if (!g->p.a_direct)
		gemm_pack_a(g);
}

/* Opens the serial loops over blocks, and packs each operand outside of the loops that it does not
 * depend on. */
static void open_blocks(Gemm *g, ProductBlocks *bl)
{
	const bool m = is_parallel(bl->d, PRODUCT_M), n = is_parallel(bl->d, PRODUCT_N);

	for (int i = 0; i < g->p.nouter && !is_parallel(bl->d, PRODUCT_G); i++)
		open_serial(g, bl, g->p.outer[i]);
	gemm_limit_terms(g);
	if (m)
		let_m0(g, bl);
	if (m && !n)
		prepare_a(g);
	if (!n)
		open_serial(g, bl, bl->nb);
	let_n0(g, bl);
	if (!g->p.b_panels)
		gemm_pack_b(g);
	if (!m) {
		open_serial(g, bl, bl->mb);
		let_m0(g, bl);
	}
	if (n || !m)
		prepare_a(g);
}

void product_emit(const Target *t, Kernel *k, const Decision *d, Schedule *s)
{
	ProductBlocks bl = {.d = s->where.size ? &d->few : &d->product};
	Gemm g = {.t = t};
	const bool fits = gemm_begin_as(&g.p, k, bl.d);

	assert(fits);
	g.b = l_build(k, s);
	g.blocks.panels_first = bl.d->panels_first;
	g.blocks.fetch = bl.d->fetch;
	g.blocks.mr = bl.d->mr;
	g.blocks.nr = bl.d->nr;
	g.blocks.rest = gemm_rest(t, &g.p, bl.d);
	g.blocks.mc = bl.d->mc;
	g.blocks.nc = bl.d->nc;
	g.blocks.kc = bl.d->kc;
	bl.nblocks = dim_ceildiv(k->ctx, g.p.n, dim_const(k->ctx, g.blocks.nc));
	bl.mblocks = dim_ceildiv(k->ctx, g.p.m, dim_const(k->ctx, g.blocks.mc));
	open_stage(&g, &bl, d->grain);
	g.blocks.m0 = l_iter(&g.b, "m0", g.p.m);
	g.blocks.n0 = l_iter(&g.b, "n0", g.p.n);
	g.mflat = l_iter(&g.b, "m", g.p.m);
	g.nflat = l_iter(&g.b, "n", g.p.n);
	open_blocks(&g, &bl);
	gemm_emit_tiles(&g);
	while (bl.nserial)
		l_close(&g.b, bl.serial[--bl.nserial]);
}
