/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Windows on GPUs: short sums whose terms neighbouring points read again, as those of depthwise convolutions and pools
 * do, where memory runs along an iterator of the band that no window slides along (channels last). A block has a tile of
 * the band: some points along each iterator that windows slide along, and a warp's width along memory. What its points read of a
 * buffer is a box, by the index of each dim; the block fetches the box into shared memory, as far as the buffer goes,
 * and its threads have a point at a time.
 */
#include "passes/gpu_impl.h"

enum {
	WINDOW_THREADS = 256,
	MOST_BOXES = 6,
	MOST_SLID =
		2, /* iterators that tiles have several points of, but for the one along memory */
	MOST_SIDE = 16,
	MOST_WIDE = 4 * WARP,
	MOST_BYTES = SHARED / 2 /* of all boxes: other blocks are to have room beside */
};

static const double NONE = 1e30; /* the cost of a tile that cannot be */

typedef struct Box {
	Stmt *s;
	const Buf *buf;
	Expr *load; /* of BUF; null: what S writes */
	Affine at[MAX_RANK];
	int dim[MAX_RANK]; /* in the order of memory, outermost first */
	Buf *tile;
} Box;

typedef struct Window {
	Row *r;
	int along; /* of the band */
	int slid[MOST_SLID], nslid;
	int64_t size[MAX_ITERS]; /* of the tile */
	Iter *in[MAX_ITERS];     /* the point in the tile */
	Expr *from[MAX_ITERS];   /* where the tile begins */
	Box box[MOST_BOXES], out;
	int n;
} Window;

/* ---- Boxes ---- */

/* By how much term I of index A moves from point to point; -1: it is not known, or backwards. */
static int64_t stride(const Affine *a, int i)
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
			if (stride(&x->at[d], i) < 0 ||
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

/* Points of the box along dim D. */
static int64_t box_size(const Window *w, const Box *x, int d)
{
	int64_t n = 1, many = 1;

	for (int i = 0; i < x->at[d].n; i++) {
		const int b = band_index(w->r->band, x->s, x->at[d].iter[i]);

		if (b >= 0)
			many = w->size[b];
		else
			dim_is_const(x->at[d].iter[i]->extent, &many);
		n += stride(&x->at[d], i) * (many - 1);
	}
	return n;
}

static int bytes_of(const Box *x)
{
	return dtype_info[x->buf->dtype].bits / 8;
}

/* How often memory does not run on from dim AT (in the order of memory) to the next. */
static double runs(const Window *w, const Box *x, int at)
{
	double n = 1;

	for (int i = 0; i < at; i++)
		n *= (double)box_size(w, x, x->dim[i]);
	return n;
}

/* By how much boxes are apart along dim D. */
static int64_t box_step(const Window *w, const Box *x, int d)
{
	int64_t by = 0;

	for (int i = 0; i < x->at[d].n; i++) {
		const int b = band_index(w->r->band, x->s, x->at[d].iter[i]);

		if (b >= 0)
			by += stride(&x->at[d], i) * w->size[b];
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
	if (row != box_size(w, x, last))
		return ragged_by(row * bytes_of(x)) * runs(w, x, rank - 1);
	if (rank == 1)
		return 0;
	return ragged_by(box_step(w, x, x->dim[rank - 2]) * row * bytes_of(x)) *
	       runs(w, x, rank - 2);
}

/* Bytes that memory gives for it. */
static double box_bytes(const Window *w, const Box *x)
{
	return runs(w, x, x->buf->rank) * bytes_of(x) + ragged_bytes(w, x);
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

/* ---- The stage ---- */

static void place_band(Window *w)
{
	Row *r = w->r;
	LBuild *b = r->b;
	Ctx *c = r->k->ctx;
	Iter *split[MAX_ITERS];

	for (int i = 0; i < r->band->n; i++) {
		const Iter *it = r->band->iter[i];

		split[i] = l_iter(b, it->name,
				  dim_ceildiv(c, it->extent, dim_const(c, w->size[i])));
		w->in[i] = l_iter(b, "in", dim_const(c, w->size[i]));
	}
	l_stage(b, "window", iters_points(c, split, r->band->n));
	b->stage->team = b->stage->threads = WINDOW_THREADS;
	l_split(b, split, r->band->n, ex_iter(b->p, b->stage->var));
	for (int i = 0; i < r->band->n; i++)
		w->from[i] = ex_mul(b->p, ex_iter(b->p, split[i]), l_int(b, w->size[i]));
}

/* Where the box begins along D, and, in *WHOLE, that all of it is in the buffer. */
static Expr *box_from(const Window *w, const Box *x, int d, bool *whole)
{
	LBuild *b = w->r->b;
	Ctx *c = w->r->k->ctx;
	const Affine *a = &x->at[d];
	Expr *at = ex_dim(b->p, a->base);

	*whole = dim_equals(a->base, 0) &&
		 (!a->n || (a->n == 1 && stride(a, 0) == 1 &&
			    dim_prove_le(c, a->iter[0]->extent, x->buf->dims[d])));
	for (int i = 0; i < a->n; i++) {
		const int k = band_index(w->r->band, x->s, a->iter[i]);

		if (k < 0)
			continue;
		at = ex_add(b->p, at, ex_mul(b->p, w->from[k], ex_int(b->p, CT_I64, stride(a, i))));
		*whole = *whole && dim_multiple(c, a->iter[i]->extent, w->size[k]);
	}
	return at;
}

static Expr *inside(LBuild *b, Expr *guard, Expr *at, Dim *n)
{
	guard = ex_and(b->p, guard, ex_op2(b->p, IN_ge, at, l_int(b, 0)));
	return ex_and(b->p, guard, ex_op2(b->p, IN_lt, at, ex_dim(b->p, n)));
}

/* Elements of one access of the box, whose last dim in memory is D and begins at a multiple of the tile's size. */
static int pack_of(const Window *w, const Box *x, int d)
{
	const Affine *a = &x->at[d];
	Ctx *c = w->r->k->ctx;
	int pack = PACK_BYTES / bytes_of(x) < MOST_PACK ? PACK_BYTES / bytes_of(x) : MOST_PACK;

	if (a->n != 1 || band_index(w->r->band, x->s, a->iter[0]) != w->along || stride(a, 0) != 1)
		return 1;
	while (pack > 1 && (!dim_multiple(c, a->base, pack) || w->size[w->along] % pack != 0 ||
			    !dim_multiple(c, x->buf->dims[d], pack)))
		pack /= 2;
	return pack;
}

/* The loop over the accesses of X's tile, of PACK elements each, which it declares; IN: an access, by dims in the order of
 * memory. */
static LNode *open_box(Window *w, Box *x, int pack, Iter **in)
{
	LBuild *b = w->r->b;
	Ctx *c = w->r->k->ctx;
	const int rank = x->buf->rank;
	Dim *cells;
	Iter *t;
	LNode *loop;
	int64_t all = 1;

	for (int i = 0; i < rank; i++) {
		const int64_t n = box_size(w, x, x->dim[i]) / (i == rank - 1 ? pack : 1);

		in[i] = l_iter(b, "b", dim_const(c, n));
		all *= n;
	}
	cells = dim_const(c, all * pack);
	x->tile = kernel_temp(b->k, x->buf->name, x->buf->dtype, 1, &cells);
	l_node(b, LN_LOCAL)->buf[0] = x->tile;
	t = l_iter(b, "t", dim_const(c, all));
	loop = l_loop(b, LOOP_TEAM, t, l_int(b, 0), l_int(b, all), 1);
	l_split(b, in, rank, ex_iter(b->p, t));
	return loop;
}

/* The loop over the PACK elements of the access at *AT, along a dim of EXTENT, where *GUARD holds. Then *AT is one of them, and
 * *TO its place in the tile. */
static LNode *open_access(LBuild *b, Dim *extent, int pack, Expr **at, Expr **to, Expr **guard)
{
	Iter *v = l_iter(b, "v", extent);
	Expr *lo = *at, *hi = ex_add(b->p, lo, l_int(b, pack));
	LNode *loop;

	if (*guard)
		hi = ex_op3(b->p, IN_select, *guard, hi, lo);
	*guard = NULL;
	loop = l_loop(b, LOOP_VECTOR, v, lo, hi, 1);
	loop->pack = pack;
	*at = ex_iter(b->p, v);
	*to = ex_add(b->p, *to, ex_sub(b->p, *at, lo));
	return loop;
}

static void fetch(Window *w, Box *x)
{
	LBuild *b = w->r->b;
	const Buf *buf = x->buf;
	const int last = x->dim[buf->rank - 1], pack = pack_of(w, x, last);
	Iter *in[MAX_RANK];
	Expr *at[MAX_RANK], *guard = NULL, *to = l_int(b, 0), *flat;
	LNode *loop = open_box(w, x, pack, in), *vector = NULL;

	for (int i = 0; i < buf->rank; i++) {
		const int d = x->dim[i];
		Expr *j = ex_mul(b->p, ex_iter(b->p, in[i]), l_int(b, d == last ? pack : 1));
		bool whole;

		at[d] = ex_add(b->p, box_from(w, x, d, &whole), j);
		if (!whole)
			guard = inside(b, guard, at[d], buf->dims[d]);
		to = ex_add(b->p, ex_mul(b->p, to, l_int(b, box_size(w, x, d))), j);
	}
	if (pack > 1)
		vector = open_access(b, buf->dims[last], pack, &at[last], &to, &guard);
	flat = flat_index(b->k, buf, at);
	l_store(b, x->tile, to, ex_load(b->p, x->load->load.buf, &flat, 1), guard);
	if (vector)
		l_close(b, vector);
	l_close(b, loop);
}

typedef struct Boxed {
	Window *w;
	const Stmt *s;
} Boxed;

static Expr *from_box(void *arg, Expr *e)
{
	const Boxed *y = arg;
	const Window *w = y->w;
	ExprPool *p = w->r->b->p;
	Expr *at = ex_int(p, CT_I64, 0);
	const Box *x = w->box;

	while (x < w->box + w->n && (x->load != e || x->s != y->s))
		x++;
	if (x == w->box + w->n)
		return NULL;
	for (int j = 0; j < e->load.buf->rank; j++) {
		const int d = x->dim[j];

		at = ex_mul(p, at, ex_int(p, CT_I64, box_size(w, x, d)));
		for (int i = 0; i < x->at[d].n; i++) {
			Iter *it = x->at[d].iter[i];
			const int k = band_index(w->r->band, x->s, it);

			at = ex_add(p, at,
				    ex_mul(p, ex_iter(p, k < 0 ? it : w->in[k]),
					   ex_int(p, CT_I64, stride(&x->at[d], i))));
		}
	}
	return ex_load(p, x->tile, &at, 1);
}

/* The loops of one thread, each over one point or, past the end of what the tile runs along, none. */
static void points(Window *w)
{
	Row *r = w->r;
	LBuild *b = r->b;
	Ctx *c = b->k->ctx;
	LNode *open[MAX_ITERS + 1];
	Iter *split[MAX_ITERS], *t;
	int64_t all = 1;
	int n = 0, nopen = 0;

	for (int i = 0; i < r->band->n; i++) {
		if (i != w->along)
			split[n++] = w->in[i];
		all *= w->size[i];
	}
	split[n++] = w->in[w->along];
	t = l_iter(b, "t", dim_const(c, all));
	open[nopen++] = l_loop(b, LOOP_TEAM, t, l_int(b, 0), l_int(b, all), 1);
	l_split(b, split, n, ex_iter(b->p, t));
	for (int i = 0; i < r->band->n; i++) {
		Expr *at = ex_add(b->p, w->from[i], ex_iter(b->p, w->in[i]));
		Dim *end = r->band->iter[i]->extent;

		if (dim_multiple(c, end, w->size[i]))
			l_let(b, r->rep[i], at);
		else
			open[nopen++] = l_loop(
				b, LOOP_SERIAL, r->rep[i], at,
				l_min(b, ex_add(b->p, at, l_int(b, 1)), ex_dim(b->p, end)), 1);
	}
	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i], boxed = *s;
		Boxed y = {w, s};

		boxed.val[0] = ex_rewrite(b->p, s->val[0], from_box, &y);
		gpu_row_stmt(r, s, &boxed);
	}
	while (nopen)
		l_close(b, open[--nopen]);
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
	place_band(&w);
	r->unrolled = row_taps(r->k->stmts.at[r->first]) > 0;
	for (int i = 0; i < w.n; i++)
		fetch(&w, &w.box[i]);
	points(&w);
	return true;
}
