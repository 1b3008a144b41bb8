/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on a product that may be faster than a given one: other tiles, blocks, packing and
 * orders. Their time follows from multiply-adds, loads and copies of one core, without memory.
 */
#include "passes/schedule/cpu/cpu.h"

#include "base/round.h"
#include "passes/schedule/cpu/gemm_impl.h"

/* The sizes of a product; those that are unknown when the model is compiled are taken as
 * UNKNOWN. */
typedef struct Sizes {
	int64_t m, n, k, groups, lanes, panel;
	int pack; /* terms of a step */
} Sizes;

enum { UNKNOWN = 128 };

static int64_t size_of(const Dim *d)
{
	int64_t v;

	return dim_is_const(d, &v) && v > 0 ? v : UNKNOWN;
}

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Cycles of a core for one term of a tile: two multiply-adds or two loads in each, and at least the
 * latency of one multiply-add. A product of matrix registers takes 16 cycles for 16 steps of
 * terms. */
static double term_cycles(const ProductDecision *p, const Sizes *z)
{
	const double latency = 4;
	const int64_t vectors = larger(1, p->nr / z->lanes);
	const double sums = (double)(p->mr * vectors) / 2, loads = (double)(p->mr + vectors) / 2,
		     most = sums > loads ? sums : loads;

	if (p->matrix && z->pack == 1) /* six products of 32 terms */
		return (double)(p->mr * p->nr * 6 * MATRIX_SIDE) /
		       (MATRIX_SIDE * MATRIX_SIDE * SPLIT_TERMS);
	if (p->matrix)
		return (double)(p->mr * p->nr) / (MATRIX_SIDE * MATRIX_SIDE) / z->pack;
	return most > latency ? most : latency;
}

/* Cycles for all of it, on T's cores together. */
static double cost(const Target *t, const ProductDecision *p, const Sizes *z)
{
	/* cycles of an element that is copied into a packed block, and of a vector that is added
	 * to or stored from the sums; what it costs where a part of a panel exceeds L1; and cycles
	 * of an element that is split into parts, an estimate by its instructions */
	const double copy = 1, store = 2, beyond_l1 = 1.1, split = 0.5;
	const int64_t kc = p->kc ? p->kc : z->k,
		      tiles = ceil_div(z->m, p->mr) * ceil_div(z->n, p->nr),
		      column_blocks = ceil_div(z->n, p->nc), row_blocks = ceil_div(z->m, p->mc),
		      blocks = z->groups * column_blocks * row_blocks;
	const double sums = (double)(p->mr * larger(1, p->nr / z->lanes)),
		     l1 = (double)(kc * (p->nr + p->mr)) * 64 / (double)z->lanes / 16;
	double cycles = (double)(tiles * z->k) * term_cycles(p, z);

	if (l1 * (double)t->vector_bytes / 4 > (double)t->l1)
		cycles *= beyond_l1;
	cycles += (double)(tiles * ceil_div(z->k, kc)) * sums * store;
	if (p->matrix && z->pack == 1)
		cycles += split * (double)(z->m * z->k * column_blocks + z->n * z->k * row_blocks);
	if (p->pack_a)
		cycles += copy * (double)(z->m * z->k * column_blocks);
	if (p->pack_b)
		cycles += copy * (double)(z->n * z->k * row_blocks);
	/* the last round of blocks leaves cores idle */
	return cycles * (double)(ceil_div(blocks, t->cores) * t->cores) / (double)blocks;
}

typedef struct ProductOffers {
	Offers *to;
	const Decision *base;
	Sizes sizes;
	double base_cost;
} ProductOffers;

/* Offers BASE with P, whose blocks are fitted to its tile and to the product. */
static void offer(const ProductOffers *o, ProductDecision p)
{
	Decision d = *o->base;

	p.mc = round_up(p.mc < o->sizes.m ? p.mc : o->sizes.m, p.mr);
	p.nc = round_up(p.nc < o->sizes.n ? p.nc : o->sizes.n, o->sizes.panel);
	if (p.kc >= o->sizes.k)
		p.kc = 0;
	d.product = p;
	offer_add(o->to, &d, cost(o->to->target, &p, &o->sizes) / o->base_cost);
}

static void offer_tiles(const ProductOffers *o)
{
	ProductDecision p = o->base->product;
	const int64_t unit = p.matrix ? MATRIX_SIDE : 1,
		      most = p.matrix ? MATRIX_SUMS * MATRIX_SIDE : o->to->target->registers;

	for (p.nr = o->sizes.lanes < o->sizes.panel ? o->sizes.lanes : o->sizes.panel;
	     p.nr <= o->sizes.panel; p.nr *= 2)
		for (p.mr = unit < 2 ? 2 : unit; p.mr <= most; p.mr += unit)
			if (p.mr <= o->sizes.m &&
			    (p.mr != o->base->product.mr || p.nr != o->base->product.nr))
				offer(o, p);
}

static void offer_blocks(const ProductOffers *o)
{
	const ProductDecision *base = &o->base->product;
	ProductDecision p;

	for (int up = 0; up < 2; up++) {
		p = *base;
		p.mc = up ? p.mc * 2 : larger(p.mr, p.mc / 2);
		offer(o, p);
		p = *base;
		p.nc = up ? p.nc * 2 : larger(o->sizes.panel, p.nc / 2);
		offer(o, p);
		p = *base;
		p.kc = up ? p.kc * 2 : round_up(ceil_div(p.kc ? p.kc : o->sizes.k, 2), DEPTH_STEP);
		offer(o, p);
	}
	p = *base;
	p.mc = o->sizes.m;
	offer(o, p);
	p = *base;
	p.nc = o->sizes.n;
	offer(o, p);
}

static void offer_orders(const ProductOffers *o)
{
	ProductDecision p = o->base->product;

	p.pack_a = !p.pack_a;
	offer(o, p);
	p = o->base->product;
	p.pack_b = !p.pack_b;
	p.panels_first = !p.pack_b;
	offer(o, p);
	p = o->base->product;
	p.panels_first = !p.panels_first;
	p.kc = 0;
	offer(o, p);
	p = o->base->product;
	if (p.nparallel < 2)
		return;
	/* the two innermost of the parallel axes */
	p.parallel[p.nparallel - 1] = o->base->product.parallel[p.nparallel - 2];
	p.parallel[p.nparallel - 2] = o->base->product.parallel[p.nparallel - 1];
	offer(o, p);
}

void product_offer(Offers *to, Kernel *k, const Decision *base)
{
	Product g;
	ProductOffers o = {.to = to, .base = base};

	if (!gemm_begin_as(&g, k, &base->product))
		return;
	o.sizes = (Sizes){.m = size_of(g.m),
			  .n = size_of(g.n),
			  .k = size_of(g.kk),
			  .groups = size_of(iters_points(k->ctx, g.outer, g.nouter)),
			  .lanes = gemm_lanes(to->target, g.c.ct),
			  .panel = g.pw,
			  .pack = g.kpack};
	o.base_cost = cost(to->target, &base->product, &o.sizes);
	offer_tiles(&o);
	offer_blocks(&o);
	offer_orders(&o);
}
