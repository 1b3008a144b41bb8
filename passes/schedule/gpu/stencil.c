/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stencils on GPUs: short sums whose terms adjacent points share, as in depthwise convolutions and
 * pools, where memory is contiguous along a band iterator that the stencil does not slide along
 * (channels last). A block has a tile of the band: some points along each iterator that the stencil
 * slides along, and a part of the contiguous iterator, or all. The elements of a buffer that its
 * points read are an input tile: as many elements as points, and a halo, which the next block
 * reads, too. The block fetches the input tile into shared memory, clipped to the buffer. Each of
 * its threads computes one point at a time, or several that are adjacent in memory. A tap is a term
 * of a point's sum.
 */
#include "passes/schedule/gpu/stencil_impl.h"

#include "base/round.h"

#include <string.h>

enum {
	MOST_SIDE = 16,
	MOST_WIDE = 8 * WARP,
	/* bytes of all input tiles, so that other blocks fit on the SM, too */
	MOST_BYTES = SHARED / 4 * 3
};

static const double NONE = 1e30; /* the cost of a tile that cannot be */

/* ---- Boxes ---- */

int64_t stencil_stride(const Affine *a, int i)
{
	int64_t v;

	return dim_is_const(a->coef[i], &v) && v > 0 ? v : -1;
}

static bool indices(Stencil *w, InputTile *x, Expr *const *idx)
{
	const Buf *buf = x->buf;
	Ctx *c = w->r->k->ctx;
	int64_t v;

	for (int d = 0; d < buf->rank; d++) {
		if (!ex_affine(c, idx[d], &x->at[d]))
			return false;
		for (int i = 0; i < x->at[d].n; i++)
			if (stencil_stride(&x->at[d], i) < 0 ||
			    (band_index(w->r->band, x->s, x->at[d].iter[i]) < 0 &&
			     !dim_is_const(x->at[d].iter[i]->extent, &v)))
				return false;
		x->dim[buf_axis(buf, d)] = d;
	}
	return true;
}

/* Notes the band iterators that a stencil slides along in dim D: dim D's index is a sum of them and
 * of a reduced iterator. */
static void find_slid(Stencil *w, const InputTile *x, int d)
{
	const Affine *a = &x->at[d];
	bool inner = false;

	for (int i = 0; i < a->n; i++)
		inner = inner || band_index(w->r->band, x->s, a->iter[i]) < 0;
	for (int i = 0; i < a->n && inner; i++) {
		const int b = band_index(w->r->band, x->s, a->iter[i]);
		int j = 0;

		while (j < w->nmoving && w->moving[j] != b)
			j++;
		if (b >= 0 && j == w->nmoving && j < MOST_MOVING)
			w->moving[w->nmoving++] = b;
	}
}

static void find_box(Stencil *w, Stmt *s, Expr *load)
{
	const Buf *buf = load->load.buf;
	InputTile *x = &w->box[w->n];

	for (int i = 0; i < w->n; i++)
		if (w->box[i].load == load && w->box[i].s == s)
			return;
	if (w->n == MOST_BOXES || !gpu_may_stage(w->r, load) || buf->kind == BUF_TEMP ||
	    !buf->rank || load->load.nidx != buf->rank ||
	    (buf->layout && buf->layout->n != buf->rank))
		return;
	*x = (InputTile){.s = s, .buf = buf, .load = load};
	if (!indices(w, x, load->load.idx))
		return;
	w->n++;
	for (int d = 0; d < buf->rank; d++)
		find_slid(w, x, d);
}

/* Finds the output tile: what S, the last statement, writes. */
static void find_out(Stencil *w, Stmt *s)
{
	const Buf *buf = s->out[0];

	w->out = (InputTile){.s = s, .buf = buf};
	if (!buf->rank || s->nwidx != buf->rank || dtype_info[buf->dtype].bits < 8 ||
	    (buf->layout && buf->layout->n != buf->rank) || !indices(w, &w->out, s->widx))
		w->out.buf = NULL;
}

/* X is contiguous along the band iterator that is contiguous in the tile, or does not depend on
 * it. */
static bool runs_along(const Stencil *w, const InputTile *x)
{
	const Iter *it = w->r->band->of[x->s->id][w->along];
	int last = x->buf->rank - 1;

	while (last > 0 && dim_equals(x->buf->dims[x->dim[last]], 1))
		last--;
	for (int d = 0; d < x->buf->rank; d++)
		for (int i = 0; i < x->at[d].n; i++)
			if (x->at[d].iter[i] == it &&
			    (stencil_stride(&x->at[d], i) != 1 || d != x->dim[last]))
				return false;
	return true;
}

/* S writes to a different element for each point of the contiguous iterator, by one index that is
 * this iterator. */
static bool writes_apart(const Stencil *w, const Stmt *s)
{
	const Iter *it = w->r->band->of[s->id][w->along];
	int n = 0;

	for (int d = 0; d < s->nwidx; d++) {
		if (!expr_has_iter(s->widx[d], it))
			continue;
		if (s->widx[d]->kind != EX_ITER || n++)
			return false;
	}
	return n == 1;
}

/* The largest number of contiguous points that a thread can compute at a time: a tap of all of them
 * is one access of each input tile, under one guard. */
static int most_adjacent(const Stencil *w)
{
	enum { MOST = 4 };
	const Stmt *s = w->r->k->stmts.at[w->r->first];
	int bytes;

	if (!w->out.buf || !runs_along(w, &w->out) ||
	    (s->guard && expr_has_iter(s->guard, w->r->band->of[s->id][w->along])))
		return 1;
	for (int i = w->r->first; i <= w->r->last; i++)
		if (w->r->k->stmts.at[i]->out[0]->kind == BUF_TEMP &&
		    !writes_apart(w, w->r->k->stmts.at[i]))
			return 1;
	bytes = dtype_bytes(w->out.buf->dtype);
	for (int i = 0; i < w->n; i++) {
		if (!runs_along(w, &w->box[i]))
			return 1;
		bytes = dtype_bytes(w->box[i].buf->dtype) > bytes
				? dtype_bytes(w->box[i].buf->dtype)
				: bytes;
	}
	return gpu_vector(bytes, MOST);
}

int64_t stencil_side(const Stencil *w, const InputTile *x, int d)
{
	int64_t n = 1, many = 1;

	for (int i = 0; i < x->at[d].n; i++) {
		const int b = band_index(w->r->band, x->s, x->at[d].iter[i]);

		if (b >= 0)
			many = w->size[b];
		else
			dim_is_const(x->at[d].iter[i]->extent, &many);
		n += stencil_stride(&x->at[d], i) * (many - 1);
	}
	return n;
}

/* ---- How input tiles are accessed ---- */

/* An input tile is several contiguous pieces of memory, which threads access by vectors or by
 * single elements. If a piece begins in the middle of a sector, each access of a warp touches one
 * sector too many. If the first access ends at the boundary of a sector, the whole piece touches at
 * most one too many. */

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

/* Contiguous points that a thread computes at a time: the largest number that still gives half of
 * the block's threads work. */
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
		MOST_TIMES = 8, /* accesses of a thread to a peeled run */
		FEW = 8,        /* a peel pays only if an access spans at most this many sectors */
		ROOM = 5        /* a peel may lengthen a segment by at most 1/ROOM */
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
	if (y.peeled) { /* a run has its share of the block's threads, at least a warp */
		const int64_t all = reach / y.vector, unit = sector / y.vector,
			      share = STENCIL_THREADS / y.runs / unit * unit,
			      least = round_up(all / MOST_TIMES, unit);

		y.threads = share > WARP ? share : WARP;
		y.threads = y.threads > least ? y.threads : least;
		y.threads = y.threads < all ? y.threads : all;
		y.times = ceil_div(all, y.threads);
	}
	return y;
}

/* The cost, in bytes, of misaligned runs Y. The extra sectors matter less than the threads that a
 * peeled first access leaves idle. The weight makes tiles wide enough that accesses touch at most a
 * tenth more sectors than necessary (for 24 to 200 channels, counted by the simulator). In return
 * halos grow, up to twice the bytes for small images; they come from the L2 cache. Instructions,
 * which limit these kernels, decrease by up to a third. */
static double misaligned_bytes(const InputTile *x, const StencilRun *y)
{
	const double weight = 12;

	return weight * ((double)SECTOR - (double)y->align * dtype_bytes(x->buf->dtype)) *
	       (double)y->runs;
}

/* ---- The tile ---- */

/* The cost of a tile: the bytes that a block fetches, plus misaligned_bytes, times the number of
 * consecutive blocks if half of the SMs run one at a time. A block with fewer than EACH points per
 * thread costs as much as if it had them. Unknown sizes count as UNKNOWN. */
static double cost(const Stencil *w, const Gpu *gpu)
{
	enum { UNKNOWN = 256, EACH = 4 };
	double held = 0, bytes = 0, blocks = 1, points = 1;
	int64_t n;

	for (int i = 0; i < w->n + (w->out.buf != NULL); i++) {
		const InputTile *x = i < w->n ? &w->box[i] : &w->out;
		const StencilRun y = stencil_run(w, x);

		held += x->load ? (double)(y.size * y.runs * dtype_bytes(x->buf->dtype)) : 0;
		bytes += misaligned_bytes(x, &y);
	}
	if (held > (double)MOST_BYTES)
		return NONE;
	bytes += held;
	for (int b = 0; b < w->r->band->n; b++) {
		n = dim_is_const(w->r->band->iter[b]->extent, &n) ? n : UNKNOWN;
		blocks *= b == w->along ? (double)n / (double)w->size[b] /* no halo along memory */
					: (double)((n + w->size[b] - 1) / w->size[b]);
		points *= (double)w->size[b];
	}
	if (points < EACH * STENCIL_THREADS)
		bytes *= EACH * STENCIL_THREADS / points;
	blocks /= gpu->sms / 2.0;
	return bytes * (blocks < 1 ? 1 : blocks);
}

/* Finds the cheapest tile that has WIDE points along memory; its other sides go to SIDE. Returns
 * the cost. */
static double sides(Stencil *w, const Gpu *gpu, int64_t wide, int64_t *side)
{
	double best = NONE;

	w->size[w->along] = wide;
	for (int64_t at = 0; at < MOST_SIDE * MOST_SIDE; at++) {
		double now;

		for (int i = 0; i < w->nmoving; i++)
			w->size[w->moving[i]] = (i ? at / MOST_SIDE : at % MOST_SIDE) + 1;
		now = cost(w, gpu);
		if (now >= best)
			continue;
		best = now;
		for (int i = 0; i < w->nmoving; i++)
			side[i] = w->size[w->moving[i]];
	}
	return best;
}

/* Elements of a sector, for the smallest type of an input. */
static int64_t most_of_sector(const Stencil *w)
{
	int64_t n = 1;

	for (int i = 0; i < w->n; i++)
		if (gpu_sector(dtype_bytes(w->box[i].buf->dtype)) > n)
			n = gpu_sector(dtype_bytes(w->box[i].buf->dtype));
	return n;
}

/* The stencil has a stride: adjacent points are not adjacent in some input tile. */
static bool strides(const Stencil *w)
{
	for (const InputTile *x = w->box; x < w->box + w->n; x++)
		for (int d = 0; d < x->buf->rank; d++)
			for (int i = 0; i < x->at[d].n; i++)
				if (stencil_stride(&x->at[d], i) > 1 &&
				    band_index(w->r->band, x->s, x->at[d].iter[i]) >= 0)
					return true;
	return false;
}

/* Chooses the tile. Along memory it has at least a warp's width, up to the whole extent. For
 * strided stencils it has at least a line, which covers all banks of shared memory, so that the
 * accesses of a warp have no bank conflicts. */
static bool shape(Stencil *w, const Gpu *gpu)
{
	const int64_t sector = most_of_sector(w),
		      least = strides(w) ? LINE / SECTOR * sector : WARP;
	int64_t side[MOST_MOVING], all = least, wide = 0, each;
	double best = NONE;

	for (int b = 0; b < w->r->band->n; b++)
		w->size[b] = 1;
	dim_is_const(w->r->band->iter[w->along]->extent, &all);
	/* Divide the extent into N parts of whole sectors, then into fewer parts that are at least
	 * a sector wider. */
	for (int64_t n = ceil_div(all, least); n > 0; n = (all - 1) / each) {
		int64_t now_side[MOST_MOVING];
		double now;

		each = round_up(ceil_div(all, n), sector);
		each = each < all ? each : all;
		if (each > MOST_WIDE)
			break;
		now = sides(w, gpu, each, now_side);
		if (now >= best)
			continue;
		best = now;
		wide = each;
		memcpy(side, now_side, sizeof side);
	}
	w->size[w->along] = wide;
	for (int i = 0; i < w->nmoving && wide; i++)
		w->size[w->moving[i]] = side[i];
	return best < NONE;
}

bool gpu_stencil(Row *r, const Gpu *gpu, int along)
{
	Stencil w = {.r = r, .along = along};

	if (along < 0 || !gpu_chain(r))
		return false;
	for (int i = r->first; i <= r->last; i++)
		STMT_EACH_LOAD (load, r->k->stmts.at[i])
			find_box(&w, r->k->stmts.at[i], load);
	for (int i = 0; i < w.nmoving; i++)
		if (w.moving[i] == along)
			return false;
	find_out(&w, r->k->stmts.at[r->last]);
	w.most = most_adjacent(&w);
	if (!w.nmoving || !shape(&w, gpu))
		return false;
	stencil_emit(&w);
	return true;
}
