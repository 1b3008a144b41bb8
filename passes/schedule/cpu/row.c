/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategies *row* and *map* on CPUs: statements under their common parallel band, one after
 * the other. Softmax, norms, reductions and elementwise kernels are scheduled here;
 * row_reduce.c has the reductions, and common/row_along.c chooses the vector iterator. A temporary
 * that lives only inside a row is in registers or in a local of one row; another one is in scratch
 * memory of the thread.
 *
 *   p over the fixed band iterators        parallel
 *     v in blocks of the vector iterator   parallel too
 *       statement 1 over its own iterators, v innermost, or a reduction in lanes
 *       statement 2 ...
 *
 * The vector iterator is the band's contiguous one, if there is one (maps, reductions over an outer
 * axis). Where the reduced iterator is the contiguous one, as in a softmax over the last axis,
 * there is none, and reductions go in lanes.
 */
#include "passes/schedule/cpu/row_impl.h"

#include <assert.h>

/* ---- Locals ---- */

/* The band iterator that indexes dim D of what S writes; -1: none. */
static int band_dim(const Row *r, const Stmt *s, int d)
{
	return s->widx[d]->kind == EX_ITER ? band_index(r->band, s, s->widx[d]->iter) : -1;
}

static void make_local(Row *r, Stmt *s, Buf *t)
{
	Dim *dims[MAX_RANK];
	int n = 0;

	if (!row_may_be_local(r, s, t))
		return;
	for (int i = 0; i < t->rank; i++) {
		int d = row_memory_dim(t, i), b = band_dim(r, s, d);

		r->keep[t->id][d] = b < 0          ? KEEP_ALL
				    : b == r->vec  ? KEEP_BLOCK
				    : b == r->tile ? KEEP_TILE
						   : KEEP_NOT;
		if (r->keep[t->id][d] != KEEP_NOT)
			dims[n++] = b < 0 ? t->dims[d]
					  : dim_const(r->k->ctx,
						      b == r->tile ? TILE_STENCIL : r->block);
	}
	r->local[t->id] = kernel_temp(r->k, t->name, t->dtype, n, dims);
	l_local(r->b, r->local[t->id]);
}

/* ---- Expressions of a statement in terms of the stage's iterators, in flat memory ---- */

static void emit_stmt(Row *r, Stmt *s)
{
	row_begin(r, s);
	for (int o = 0; o < s->nout; o++)
		make_local(r, s, s->out[o]);
	if (r->vec >= 0 && s->red && !s->scan && !stmt_is_scatter(s))
		row_emit_reduce_vector(r, s);
	else
		row_emit(r);
}

/* ---- Band iterators that run through memory as one ---- */

/* The bounds [lo, hi) of block P of SIZE points of IT. */
static Expr *block_of(Row *r, Expr *p, Iter *it, int64_t size, const char *name, Expr **hi)
{
	LBuild *b = r->b;
	Expr *lo = l_int(b, 0);
	int64_t all;

	if (!dim_is_const(it->extent, &all) || all > size) {
		Iter *v0 = l_iter(b, name, it->extent);

		l_let(b, v0, ex_mul(b->p, p, l_int(b, size)));
		lo = ex_iter(b->p, v0);
	}
	*hi = l_min(b, ex_add(b->p, lo, l_int(b, size)), row_extent(r, it));
	return lo;
}

/* The tile size of the iterator that stencils slide along: it is divided evenly, into tiles that
 * begin at multiples of SIDE_BY_SIDE. */
static int64_t tile_size(const Iter *it)
{
	int64_t n, tiles;

	if (!dim_is_const(it->extent, &n))
		return TILE_STENCIL;
	tiles = (n + TILE_STENCIL - 1) / TILE_STENCIL;
	n = tiles ? (n + tiles - 1) / tiles : 1;
	return (n + SIDE_BY_SIDE - 1) / SIDE_BY_SIDE * SIDE_BY_SIDE;
}

/* Points of band iterator AT in one iteration of the stage. */
static Dim *reach(const Row *r, int at)
{
	Ctx *c = r->k->ctx;
	Dim *all = r->band->iter[at]->extent;

	if (at == r->vec)
		return dim_min(c, r->rep[at]->extent, dim_const(c, r->block));
	return at == r->tile ? dim_min(c, all, dim_const(c, tile_size(r->rep[at]))) : all;
}

/* Points of one iteration of the stage, for the statement with the most. */
static Dim *points(const Row *r)
{
	Ctx *c = r->k->ctx;
	Dim *most = dim_const(c, 1);

	for (int i = r->first; i <= r->last; i++) {
		const Stmt *s = r->k->stmts.at[i];
		Dim *n = dim_const(c, 1);

		for (int j = 0; j < s->niters; j++) {
			const int at = band_index(r->band, s, s->iter[j]);

			if (at < 0)
				n = dim_mul(c, n, s->iter[j]->extent);
			else if (!r->fixed[at])
				n = dim_mul(c, n, reach(r, at));
		}
		most = dim_max(c, most, n);
	}
	return most;
}

void row_stage(LBuild *b, const char *strategy, int first, int last, const Band *band)
{
	Row r = row_new(b, first, last, band);
	Ctx *c = b->k->ctx;
	Iter *split[MAX_ITERS + 2], *tiles = NULL, *blocks = NULL;
	int nsplit = 0, ngroups;
	Merged g[MAX_ITERS];

	row_choose_vector(&r);
	r.tile = row_stencil_iter(&r);
	r.block = r.tile >= 0                                    ? BLOCK_STENCIL
		  : first == last && !b->k->stmts.at[first]->red ? BLOCK_MAP
								 : BLOCK;
	ngroups = row_merge_band(&r, g);
	row_stage_iters(&r, g, ngroups);
	for (int i = 0; i < ngroups; i++) {
		int at = g[i].of[g[i].n - 1];

		if (at != r.vec && at != r.tile)
			split[nsplit++] = r.rep[at];
	}
	if (r.tile >= 0) {
		split[nsplit++] = tiles = l_iter(
			b, "tile",
			dim_ceildiv(c, r.rep[r.tile]->extent,
				    dim_const(c, tile_size(r.rep[r.tile]))));
	}
	if (r.vec >= 0)
		split[nsplit++] = blocks = l_iter(
			b, "block", dim_ceildiv(c, r.rep[r.vec]->extent, dim_const(c, r.block)));
	l_stage(b, strategy, iters_points(c, split, nsplit));
	l_grain(b, GRAIN_POINTS, points(&r));
	l_split(b, split, nsplit, ex_iter(b->p, b->stage->var));
	if (r.tile >= 0)
		r.tlo = block_of(&r, ex_iter(b->p, tiles), r.rep[r.tile], tile_size(r.rep[r.tile]),
				 "tile0", &r.thi);
	if (r.vec >= 0)
		r.vlo = r.v0 = block_of(&r, ex_iter(b->p, blocks), r.rep[r.vec], r.block, "v0",
					&r.vhi);
	for (int i = first; i <= last; i++)
		emit_stmt(&r, b->k->stmts.at[i]);
}

bool sched_row(Kernel *k, Schedule *s)
{
	LBuild b = l_build(k, s);
	KernelClass c = kernel_class(k);
	Band band;

	if (c == KC_OTHER)
		return false;
	band_of(k, k->arena, &band);
	if (!band.n && k->stmts.n > 1)
		return false;
	row_stage(&b, c == KC_MAP ? "map" : "row", 0, k->stmts.n - 1, &band);
	return true;
}

void sched_order(Kernel *k, Schedule *s)
{
	LBuild b = l_build(k, s);

	for (int i = 0; i < k->stmts.n; i++) {
		Band band;

		k->stmts.at[i]->id = i;
		band_of_one(k, k->stmts.at[i], &band);
		row_stage(&b, "order", i, i, &band);
	}
}
