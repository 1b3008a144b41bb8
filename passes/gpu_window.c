/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows on GPUs: short sums whose terms neighbouring points read again, as those of depthwise convolutions and pools
 * do, where memory runs along an iterator of the band that no window slides along (channels last). A block has a tile of
 * the band: some points along each iterator that windows slide along, and a warp's width along memory. What its points read of a
 * buffer is a box, by the index of each dim; the block fetches the box into shared memory, as far as the buffer goes,
 * and its threads have a point at a time.
 */
#include "passes/gpu_window_impl.h"

enum {
	MOST_SIDE = 16,
	MOST_WIDE = 4 * WARP,
	MOST_BYTES = SHARED / 2 /* of all boxes: other blocks are to have room beside */
};

static const double NONE = 1e30; /* the cost of a tile that cannot be */

/* ---- Boxes ---- */

int64_t window_stride(const Affine *a, int i)
{
	int64_t v;

	return dim_is_const(a->coef[i], &v) && v > 0 ? v : -1;
}

static bool indices(Window *w, Box *x, Expr *const *idx)
{
	const Buf *buf = x->buf;
	Ctx *c = w->r->k->ctx;
	int64_t v;

	for (int d = 0; d < buf->rank; d++) {
		if (!ex_affine(c, idx[d], &x->at[d]))
			return false;
		for (int i = 0; i < x->at[d].n; i++)
			if (window_stride(&x->at[d], i) < 0 ||
			    (band_index(w->r->band, x->s, x->at[d].iter[i]) < 0 &&
			     !dim_is_const(x->at[d].iter[i]->extent, &v)))
				return false;
		x->dim[buf_axis(buf, d)] = d;
	}
	return true;
}

/* Several points of a band iterator, which are a window apart, read the same in dim D. */
static void find_slid(Window *w, const Box *x, int d)
{
	const Affine *a = &x->at[d];
	bool inner = false;

	for (int i = 0; i < a->n; i++)
		inner = inner || band_index(w->r->band, x->s, a->iter[i]) < 0;
	for (int i = 0; i < a->n && inner; i++) {
		const int b = band_index(w->r->band, x->s, a->iter[i]);
		int j = 0;

		while (j < w->nslid && w->slid[j] != b)
			j++;
		if (b >= 0 && j == w->nslid && j < MOST_SLID)
			w->slid[w->nslid++] = b;
	}
}

static void find_box(void *arg, Stmt *s, Expr *load)
{
	Window *w = arg;
	const Buf *buf = load->load.buf;
	Box *x = &w->box[w->n];

	for (int i = 0; i < w->n; i++)
		if (w->box[i].load == load && w->box[i].s == s)
			return;
	if (w->n == MOST_BOXES || buf->data || buf->kind == BUF_TEMP || gpu_writes(w->r, buf) ||
	    !buf->rank || load->load.nidx != buf->rank || dtype_info[buf->dtype].bits < 8 ||
	    (buf->layout && buf->layout->n != buf->rank))
		return;
	*x = (Box){.s = s, .buf = buf, .load = load};
	if (!indices(w, x, load->load.idx))
		return;
	w->n++;
	for (int d = 0; d < buf->rank; d++)
		find_slid(w, x, d);
}

/* What S, the last statement, writes. */
static void find_out(Window *w, Stmt *s)
{
	const Buf *buf = s->out[0];

	w->out = (Box){.s = s, .buf = buf};
	if (s->nwidx != buf->rank || dtype_info[buf->dtype].bits < 8 ||
	    (buf->layout && buf->layout->n != buf->rank) || !indices(w, &w->out, s->widx))
		w->out.buf = NULL;
}

int64_t window_side(const Window *w, const Box *x, int d)
{
	int64_t n = 1, many = 1;

	for (int i = 0; i < x->at[d].n; i++) {
		const int b = band_index(w->r->band, x->s, x->at[d].iter[i]);

		if (b >= 0)
			many = w->size[b];
		else
			dim_is_const(x->at[d].iter[i]->extent, &many);
		n += window_stride(&x->at[d], i) * (many - 1);
	}
	return n;
}

int window_bytes(const Box *x)
{
	return dtype_info[x->buf->dtype].bits / 8;
}

/* How often memory does not run on from dim AT (in the order of memory) to the next. */
static double runs(const Window *w, const Box *x, int at)
{
	double n = 1;

	for (int i = 0; i < at; i++)
		n *= (double)window_side(w, x, x->dim[i]);
	return n;
}

/* By how much boxes are apart along dim D. */
static int64_t box_step(const Window *w, const Box *x, int d)
{
	int64_t by = 0;

	for (int i = 0; i < x->at[d].n; i++) {
		const int b = band_index(w->r->band, x->s, x->at[d].iter[i]);

		if (b >= 0)
			by += window_stride(&x->at[d], i) * w->size[b];
	}
	return by;
}

/* Bytes of other boxes in the sectors that a run takes, if runs begin STEP bytes apart: all but one in so many begin within a
 * sector. */
static double ragged_by(int64_t step)
{
	const int64_t even = step & -step;

	return even && even < SECTOR ? (double)(SECTOR - even) : 0;
}

/* The same of all runs of the box. Whole rows follow one another along the dim before. */
static double ragged_bytes(const Window *w, const Box *x)
{
	const int rank = x->buf->rank, last = x->dim[rank - 1];
	int64_t row;

	if (!dim_is_const(x->buf->dims[last], &row))
		return (double)SECTOR * runs(w, x, rank - 1);
	if (row != window_side(w, x, last))
		return ragged_by(row * window_bytes(x)) * runs(w, x, rank - 1);
	if (rank == 1)
		return 0;
	return ragged_by(box_step(w, x, x->dim[rank - 2]) * row * window_bytes(x)) *
	       runs(w, x, rank - 2);
}

/* Bytes that memory gives for it. */
static double box_bytes(const Window *w, const Box *x)
{
	return runs(w, x, x->buf->rank) * window_bytes(x) + ragged_bytes(w, x);
}

/* ---- The tile ---- */

/* Bytes that the GPU fetches, by as many blocks at once as half of it has: the others' latency is to be hidden. */
static double cost(const Window *w, const Gpu *gpu)
{
	enum { UNKNOWN = 256, EACH = 4 };
	double bytes = 0, blocks = 1, points = 1;
	int64_t n;

	for (int i = 0; i < w->n; i++)
		bytes += box_bytes(w, &w->box[i]);
	if (bytes > (double)MOST_BYTES)
		return NONE;
	if (w->out.buf)
		bytes += ragged_bytes(w, &w->out);
	for (int b = 0; b < w->r->band->n; b++) {
		n = dim_is_const(w->r->band->iter[b]->extent, &n) ? n : UNKNOWN;
		blocks *= (double)((n + w->size[b] - 1) / w->size[b]);
		points *= (double)w->size[b];
	}
	if (points < EACH * WINDOW_THREADS)
		bytes *= EACH * WINDOW_THREADS / points;
	blocks /= gpu->sms / 2.0;
	return bytes * (blocks < 1 ? 1 : blocks);
}

/* The sides of the cheapest tile; WIDE along memory. */
static double sides(Window *w, const Gpu *gpu, int64_t wide, int64_t *side)
{
	double best = NONE;

	w->size[w->along] = wide;
	for (int64_t at = 0; at < MOST_SIDE * MOST_SIDE; at++) {
		double now;

		for (int i = 0; i < w->nslid; i++)
			w->size[w->slid[i]] = (i ? at / MOST_SIDE : at % MOST_SIDE) + 1;
		now = cost(w, gpu);
		if (now >= best)
			continue;
		best = now;
		for (int i = 0; i < w->nslid; i++)
			side[i] = w->size[w->slid[i]];
	}
	return best;
}

/* Along memory a tile has a warp's width, or all where that is not much more. */
static bool shape(Window *w, const Gpu *gpu)
{
	int64_t side[2][MOST_SLID], wide[2] = {WARP, WARP};
	double best[2];
	int at;

	for (int b = 0; b < w->r->band->n; b++)
		w->size[b] = 1;
	if (dim_is_const(w->r->band->iter[w->along]->extent, &wide[1]) && wide[1] > MOST_WIDE)
		wide[1] = WARP;
	for (int i = 0; i < 2; i++)
		best[i] = sides(w, gpu, wide[i], side[i]);
	at = best[1] < best[0];
	w->size[w->along] = wide[at];
	for (int i = 0; i < w->nslid; i++)
		w->size[w->slid[i]] = side[at][i];
	return best[at] < NONE;
}

bool gpu_window(Row *r, const Gpu *gpu, int along)
{
	Window w = {.r = r, .along = along};

	if (along < 0 || !gpu_chain(r))
		return false;
	for (int i = r->first; i <= r->last; i++)
		stmt_loads(r->k->stmts.at[i], find_box, &w);
	for (int i = 0; i < w.nslid; i++)
		if (w.slid[i] == along)
			return false;
	find_out(&w, r->k->stmts.at[r->last]);
	if (!w.nslid || !shape(&w, gpu))
		return false;
	window_emit(&w);
	return true;
}
