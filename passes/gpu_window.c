/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows on GPUs: short sums whose terms neighbouring points read again, as those of depthwise convolutions and pools
 * do, where memory runs along an iterator of the band that no window slides along (channels last). A block has a tile of
 * the band: some points along each iterator that windows slide along, and a part of what memory runs along, or all. What its
 * points read of a buffer is a box, by the index of each dim; the block fetches the box into shared memory, as far as the buffer goes,
 * and its threads have a point at a time.
 */
#include "passes/gpu_window_impl.h"

#include <string.h>

enum {
	MOST_SIDE = 16,
	MOST_WIDE = 8 * WARP,
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
	if (!buf->rank || s->nwidx != buf->rank || dtype_info[buf->dtype].bits < 8 ||
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

/* Bytes of others in the sectors that runs Y take. */
static double ragged_bytes(const Box *x, const Run *y)
{
	return ((double)SECTOR - (double)y->even * window_bytes(x)) * (double)y->runs;
}

/* Bytes that memory gives for it. */
static double box_bytes(const Window *w, const Box *x)
{
	const Run y = window_run(w, x);

	return (double)(y.size * y.runs * window_bytes(x)) + ragged_bytes(x, &y);
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
	if (w->out.buf) {
		const Run y = window_run(w, &w->out);

		bytes += ragged_bytes(&w->out, &y);
	}
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

/* Elements of a sector, of the smallest type. */
static int64_t most_of_sector(const Window *w)
{
	int64_t n = 1;

	for (int i = 0; i < w->n; i++)
		if (SECTOR / window_bytes(&w->box[i]) > n)
			n = SECTOR / window_bytes(&w->box[i]);
	return n;
}

/* The width of tiles that share out ALL along memory in parts of EACH. Where rows are no whole sectors, of SECTOR elements, so
 * that parts have sectors in common, and these are more than a few of all, a warp's. */
static int64_t part(int64_t all, int64_t each, int64_t sector)
{
	enum { FEW = 10 };

	if (each >= all)
		return all;
	return all % sector && each < FEW * (sector - (all & -all)) ? WARP : each;
}

/* Along memory a tile has about a warp's width, or more, up to all. */
static bool shape(Window *w, const Gpu *gpu)
{
	const int64_t sector = most_of_sector(w);
	int64_t side[MOST_SLID], all = WARP, wide = 0, each;
	double best = NONE;

	for (int b = 0; b < w->r->band->n; b++)
		w->size[b] = 1;
	dim_is_const(w->r->band->iter[w->along]->extent, &all);
	/* Fewer parts, such that each has a sector more at least. */
	for (int64_t n = (all + WARP - 1) / WARP; n > 0; n = (all - 1) / each) {
		int64_t now_side[MOST_SLID], now_wide;
		double now;

		each = ((all + n - 1) / n + sector - 1) / sector * sector;
		now_wide = part(all, each, sector);
		if (now_wide > MOST_WIDE)
			break;
		now = sides(w, gpu, now_wide, now_side);
		if (now >= best)
			continue;
		best = now;
		wide = now_wide;
		memcpy(side, now_side, sizeof side);
	}
	w->size[w->along] = wide;
	for (int i = 0; i < w->nslid && wide; i++)
		w->size[w->slid[i]] = side[i];
	return best < NONE;
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
