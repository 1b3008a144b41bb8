/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategies *row* and *map* on CPUs: statements under their common parallel band, one after
 * the other. Softmax, norms, reductions and elementwise kernels are scheduled here;
 * row_reduce.c has the reductions. A temporary that lives only inside a row is in registers or in a
 * local of one row; another one is in scratch memory of the thread. Which iterators are parallel,
 * and all else, stands in the decision (row_decide.c).
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

#include "base/round.h"

#include <assert.h>

enum {
	/* Statements of some multiply-adds that take as long together, in vectors. Measured on
	 * the transforms of Winograd's convolutions. */
	SIMPLE_STMTS = 16
};

/* ---- Locals ---- */

/* The band iterator that indexes dim D of what S writes; -1: none. */
static int band_dim(const Row *r, const Stmt *s, int d)
{
	return s->widx[d]->kind == EX_ITER ? band_index(r->band, s, s->widx[d]->iter) : -1;
}

bool row_may_hold(const Row *r, const Stmt *s, const Buf *t)
{
	if (!row_keeps(r, t) || r->local[t->id])
		return false;
	for (int i = r->first; i <= r->last; i++) {
		const Stmt *w = r->k->stmts.at[i];

		if (!stmt_writes(w, t))
			continue;
		if (i < s->id || w->update || w->ordered)
			return false;
		for (int d = 0; d < t->rank; d++)
			if (band_dim(r, w, d) != band_dim(r, s, d))
				return false;
	}
	return true;
}

/* How dim D of S's result, indexed by band iterator B (-1: none), is held. */
static Keep kept(const Row *r, int b)
{
	return b >= 0 && b == r->vec    ? KEEP_BLOCK
	       : b >= 0 && b == r->tile ? KEEP_TILE
	       : b >= 0 && r->fixed[b]  ? KEEP_NOT
					: KEEP_ALL;
}

/* Elements of a local along the vector iterator. */
static Dim *block_points(const Row *r)
{
	int64_t all;

	return dim_const(r->k->ctx, dim_is_const(r->rep[r->vec]->extent, &all) && all < r->block
					    ? all
					    : r->block);
}

static void make_local(Row *r, Stmt *s, Buf *t)
{
	const int64_t tile = round_up(r->tile_points, TILE_POINTS);
	Dim *dims[MAX_RANK];
	int n = 0, inner = -1;

	if (!row_may_hold(r, s, t))
		return;
	for (int i = 0; i < t->rank; i++) {
		int d = buf_memory_dim(t, i);
		const Keep keep = kept(r, band_dim(r, s, d));

		r->keep[t->id][d] = keep;
		inner = keep == KEEP_BLOCK ? n : inner;
		if (keep != KEEP_NOT)
			dims[n++] = keep == KEEP_ALL    ? t->dims[d]
				    : keep == KEEP_TILE ? dim_const(r->k->ctx, tile)
							: block_points(r);
	}
	r->local[t->id] = kernel_temp(r->k, t->name, t->dtype, n, dims);
	if (inner >= 0 && inner < n - 1)
		r->local[t->id]->layout = row_layout_with_inner(r->b->arena, n, inner);
	l_local(r->b, r->local[t->id]);
}

void row_hold(Row *r, Stmt *s)
{
	for (int o = 0; o < s->nout && r->how[s->id].hold; o++)
		make_local(r, s, s->out[o]);
}

/* ---- Expressions of a statement in terms of the stage's iterators, in flat memory ---- */

/* Emits S, and statements after it with it; returns the id of the last one. */
static int emit_stmt(Row *r, Stmt *s)
{
	int through = s->id;

	row_begin(r, s);
	if (r->how[s->id].form == REDUCE_STENCIL)
		through = row_stencil_through(r, s);
	if (through == s->id)
		row_hold(r, s);
	switch (r->how[s->id].form) {
	case REDUCE_STENCIL: row_emit_stencil(r, s, through); break;
	case REDUCE_TAPS:
	case REDUCE_STATES: row_emit_reduce_vector(r, s); break;
	default: row_emit(r);
	}
	return through;
}

/* ---- Band iterators that run through memory as one ---- */

/* The bounds [lo, hi) of block P of SIZE points of IT. */
static Expr *block_of(Row *r, Expr *p, Iter *it, int64_t size, const char *name, Expr **hi)
{
	LBuild *b = r->b;
	Expr *lo = l_int(b, 0);
	int64_t all;
	Dim *count;

	if (!dim_is_const(it->extent, &all) || all > size) {
		Iter *v0 = l_iter(b, name, it->extent);

		l_let(b, v0, ex_mul(b->p, p, l_int(b, size)));
		lo = ex_iter(b->p, v0);
	}
	*hi = ex_add(b->p, lo, l_int(b, size));
	if (!dim_divides(b->k->ctx, it->extent, dim_const(b->k->ctx, size), &count))
		*hi = l_min(b, *hi, row_extent(r, it));
	return lo;
}

/* Points of band iterator AT in one iteration of the stage. */
static Dim *reach(const Row *r, int at)
{
	Ctx *c = r->k->ctx;
	Dim *all = r->band->iter[at]->extent;

	if (at == r->vec)
		return dim_min(c, r->rep[at]->extent, dim_const(c, r->block));
	return at == r->tile ? dim_min(c, all, dim_const(c, r->tile_points)) : all;
}

/* Points of statement S in one iteration of the stage. */
static Dim *points_of(const Row *r, const Stmt *s)
{
	Ctx *c = r->k->ctx;
	Dim *n = dim_const(c, 1);

	for (int j = 0; j < s->niters; j++) {
		const int at = band_index(r->band, s, s->iter[j]);

		if (at < 0)
			n = dim_mul(c, n, s->iter[j]->extent);
		else if (!r->fixed[at])
			n = dim_mul(c, n, reach(r, at));
	}
	return n;
}

/* Points of one iteration of the stage: those of the statement with the most; or, if many simple
 * statements together take longer, as many as take as long. */
static Dim *points(const Row *r)
{
	Ctx *c = r->k->ctx;
	Dim *most = dim_const(c, 1), *all = dim_const(c, 0);

	for (int i = r->first; i <= r->last; i++) {
		Dim *n = points_of(r, r->k->stmts.at[i]);

		most = dim_max(c, most, n);
		all = dim_add(c, all, n);
	}
	return r->last - r->first < SIMPLE_STMTS
		       ? most
		       : dim_max(c, most, dim_floordiv(c, all, dim_const(c, SIMPLE_STMTS)));
}

/* The groups of ST with the role ROLE that stand for the loops of R: for merged iterators, the last
 * one. */
static int with_role(const RowStage *st, IterRole role)
{
	for (int i = 0; i < st->ngroups; i++)
		if (st->group[i].role == role)
			return st->group[i].of[st->group[i].n - 1];
	return -1;
}

/* The group of ST whose last iterator is number B; null: none. */
static const IterGroup *ends_with(const RowStage *st, int b)
{
	for (int i = 0; i < st->ngroups; i++)
		if (st->group[i].of[st->group[i].n - 1] == b)
			return &st->group[i];
	return NULL;
}

/* Creates the stage's iterators for the groups of ST, in the order of the band, by which terms of
 * an index are sorted. */
static void make_iters(Row *r, const RowStage *st)
{
	Merged g[MAX_ITERS];
	int n = 0;

	for (int b = 0; b < r->band->n; b++) {
		const IterGroup *of = ends_with(st, b);

		if (!of)
			continue;
		g[n] = (Merged){.n = of->n, .extent = dim_const(r->k->ctx, 1)};
		for (int j = 0; j < of->n; j++) {
			g[n].of[j] = of->of[j];
			g[n].extent = dim_mul(r->k->ctx, g[n].extent,
					      r->band->iter[of->of[j]]->extent);
		}
		n++;
	}
	row_stage_iters(r, g, n);
	for (int i = 0; i < st->ngroups; i++)
		if (st->group[i].role == ITER_SERIAL)
			r->fixed[st->group[i].of[0]] = false;
}

/* The number of blocks of EACH in EXTENT; 1, the block of which may be empty, where there are never
 * more: a size below 100 that is found while computing need not be divided. */
static Dim *blocks_in(Ctx *c, Dim *extent, int64_t each)
{
	int64_t lo, hi;

	dim_bounds(c, extent, &lo, &hi);
	return hi <= each && hi > 0 ? dim_const(c, 1) : dim_ceildiv(c, extent, dim_const(c, each));
}

Row row_open_stage(LBuild *b, const RowPlan *plan)
{
	const RowStage *st = plan->stage;
	Row r = row_new(b, plan->first, plan->last, plan->band);
	Ctx *c = b->k->ctx;
	Iter *split[MAX_ITERS + 2], *tiles = NULL, *blocks = NULL;
	int nsplit = 0;

	r.how = plan->how;
	r.vec = with_role(st, ITER_VECTOR);
	r.tile = with_role(st, ITER_TILE);
	r.block = st->block;
	r.tile_points = st->tile;
	make_iters(&r, st);
	for (int i = 0; i < st->ngroups; i++)
		if (st->group[i].role == ITER_PARALLEL)
			split[nsplit++] = r.rep[st->group[i].of[st->group[i].n - 1]];
	if (r.tile >= 0)
		split[nsplit++] = tiles = l_iter(b, "tile",
						 blocks_in(c, r.rep[r.tile]->extent, st->tile));
	if (r.vec >= 0)
		split[nsplit++] = blocks = l_iter(b, "block",
						  blocks_in(c, r.rep[r.vec]->extent, r.block));
	l_stage(b, plan->strategy, iters_points(c, split, nsplit));
	l_grain(b, plan->grain, points(&r));
	l_split(b, split, nsplit, ex_iter(b->p, b->stage->var));
	if (r.tile >= 0)
		r.tlo = block_of(&r, ex_iter(b->p, tiles), r.rep[r.tile], st->tile, "tile0",
				 &r.thi);
	if (r.vec >= 0)
		r.vlo = r.v0 = block_of(&r, ex_iter(b->p, blocks), r.rep[r.vec], r.block, "v0",
					&r.vhi);
	return r;
}

RowPlan row_plan(Kernel *k, const Decision *d, int stage, Band *band)
{
	const bool order = d->strategy == STRATEGY_ORDER;
	const int last = order ? stage : k->stmts.n - 1;

	if (order)
		band_of_one(k, k->stmts.at[stage], band);
	else
		band_of_stage(k, k->arena, band);
	return (RowPlan){.strategy = strategy_table[d->strategy].name,
			 .first = order ? stage : 0,
			 .last = last,
			 .band = band,
			 .stage = &d->rows.stage[stage],
			 .how = d->rows.stmt,
			 .grain = d->grain};
}

void row_emit_stage(LBuild *b, const RowPlan *plan)
{
	Row r = row_open_stage(b, plan);

	for (int i = plan->first; i <= plan->last; i++)
		i = emit_stmt(&r, b->k->stmts.at[i]);
}

void rows_emit(const Target *t, Kernel *k, const Decision *d, Schedule *s)
{
	LBuild b = l_build(k, s);

	(void)t;
	for (int i = 0; i < d->rows.nstages; i++) {
		Band band;
		const RowPlan plan = row_plan(k, d, i, &band);

		row_emit_stage(&b, &plan);
	}
}
