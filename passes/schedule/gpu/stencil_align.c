/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alignment of the accesses to input tiles of stencils. An input tile is several contiguous pieces
 * of memory, which threads access by vectors or by single elements. If a piece begins in
 * the middle of a sector, each access of a warp touches one sector too many. If the first access
 * ends at the boundary of a sector, the whole piece touches at most one too many.
 */
#include "passes/schedule/gpu/stencil_impl.h"

#include "base/round.h"

/* The input tile always has all of dim D. */
static bool has_all(const Stencil *w, const InputTile *x, int d)
{
	const Affine *a = &x->at[d];

	for (int i = 0; i < a->n; i++) {
		const int k = band_index(w->r->band, x->s, a->iter[i]);

		if (k >= 0 && !dim_equals(a->iter[i]->extent, w->size[k]))
			return false;
	}
	return dim_equals(a->base, 0) && dim_equals(x->buf->dims[d], stencil_side(w, x, d));
}

/* The alignment of the starts of all segments, in elements: a power of two, at most a sector. */
static int64_t begins(const Stencil *w, const InputTile *x, const StencilRun *y)
{
	Ctx *c = w->r->k->ctx;
	const int first = x->dim[y->outer];
	const Affine *a = &x->at[first];
	Dim *step = dim_const(c, y->inner);
	int64_t n = gpu_divides(c, dim_mul(c, a->base, step),
				gpu_sector(dtype_bytes(x->buf->dtype)));

	for (int i = 0; i < a->n; i++) {
		const int k = band_index(w->r->band, x->s, a->iter[i]);

		if (k >= 0 && !dim_prove_le(c, a->iter[i]->extent, dim_const(c, w->size[k])))
			n = gpu_divides(
				c,
				dim_mul(c, dim_const(c, stencil_stride(a, i) * w->size[k]), step),
				n);
	}
	for (int i = y->outer; i > 0; i--) {
		step = dim_mul(c, step, x->buf->dims[x->dim[i]]);
		if (!dim_equals(x->buf->dims[x->dim[i - 1]], 1))
			n = gpu_divides(c, step, n);
	}
	return n;
}

/* Chooses the threads for a segment of ALL accesses, in multiples of UNIT, the accesses of a sector:
 * the number with the fewest rounds over all segments, with at most MOST accesses per thread. On a
 * tie it is the smallest number, since each thread computes the segment's offset once. */
static void share_peeled(StencilRun *y, int64_t all, int64_t unit)
{
	enum { MOST = 8 };
	const int64_t warp = all < WARP ? all : WARP, least = round_up(all / MOST, unit);
	int64_t best = INT64_MAX;

	for (int64_t n = least > warp ? least : warp; n <= all; n += unit) {
		const int64_t times = ceil_div(all, n),
			      rounds = ceil_div(y->runs * n, STENCIL_THREADS) * times;

		if (rounds >= best)
			continue;
		best = rounds;
		y->threads = n;
		y->times = times;
	}
}

/* Contiguous points that a thread computes at a time: the largest number that still gives half of the
 * block's threads work. */
static int vector_width(const Stencil *w)
{
	Dim *all = w->r->band->iter[w->along]->extent;
	int64_t points = 1;
	int n = w->most;

	for (int i = 0; i < w->r->band->n; i++)
		points *= w->size[i];
	while (n > 1 && (points < n * STENCIL_THREADS / 2 || w->size[w->along] % n ||
			 !dim_multiple(w->r->k->ctx, all, n)))
		n /= 2;
	return n;
}

StencilRun stencil_run(const Stencil *w, const InputTile *x)
{
	enum {
		FEW = 8, /* a peel pays only if an access spans at most this many sectors */
		ROOM = 5 /* a peel may lengthen a segment by at most 1/ROOM */
	};
	Ctx *c = w->r->k->ctx;
	const int rank = x->buf->rank, bytes = dtype_bytes(x->buf->dtype);
	const int64_t sector = gpu_sector(bytes);
	StencilRun y = {.outer = rank - 1, .inner = 1, .runs = 1, .vector = 1, .times = 1};
	int64_t reach, access;

	for (; y.outer && has_all(w, x, x->dim[y.outer]); y.outer--)
		y.inner *= stencil_side(w, x, x->dim[y.outer]);
	for (int i = 0; i < y.outer; i++)
		y.runs *= stencil_side(w, x, x->dim[i]);
	y.size = y.inner * stencil_side(w, x, x->dim[y.outer]);
	y.extent = dim_mul(c, x->buf->dims[x->dim[y.outer]], dim_const(c, y.inner));
	y.align = begins(w, x, &y);
	if (x->load)
		y.vector = gpu_vector(bytes, MOST_VECTOR);
	else
		y.vector = vector_width(w);
	while (y.size % y.vector || y.align % y.vector || !dim_multiple(c, y.extent, y.vector))
		y.vector /= 2;
	y.threads = y.size / y.vector;
	reach = round_up(y.size + sector - y.align, sector);
	access = y.size < WARP * y.vector ? y.size : WARP * y.vector;
	y.peeled = y.align < sector && reach - y.size <= y.size / ROOM &&
		   access * bytes <= FEW * SECTOR;
	if (y.peeled)
		share_peeled(&y, reach / y.vector, sector / y.vector);
	return y;
}
