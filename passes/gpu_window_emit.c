/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of a window: the block fetches its boxes, then each thread has a point at a time (passes/gpu_window.c). */
#include "passes/gpu_window_impl.h"

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
		 (!a->n || (a->n == 1 && window_stride(a, 0) == 1 &&
			    dim_prove_le(c, a->iter[0]->extent, x->buf->dims[d])));
	for (int i = 0; i < a->n; i++) {
		const int k = band_index(w->r->band, x->s, a->iter[i]);

		if (k < 0)
			continue;
		at = ex_add(b->p, at, ex_mul(b->p, w->from[k], ex_int(b->p, CT_I64, window_stride(a, i))));
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
	int pack = PACK_BYTES / window_bytes(x) < MOST_PACK ? PACK_BYTES / window_bytes(x) : MOST_PACK;

	if (a->n != 1 || band_index(w->r->band, x->s, a->iter[0]) != w->along || window_stride(a, 0) != 1)
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
		const int64_t n = window_side(w, x, x->dim[i]) / (i == rank - 1 ? pack : 1);

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
		to = ex_add(b->p, ex_mul(b->p, to, l_int(b, window_side(w, x, d))), j);
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

		at = ex_mul(p, at, ex_int(p, CT_I64, window_side(w, x, d)));
		for (int i = 0; i < x->at[d].n; i++) {
			Iter *it = x->at[d].iter[i];
			const int k = band_index(w->r->band, x->s, it);

			at = ex_add(p, at,
				    ex_mul(p, ex_iter(p, k < 0 ? it : w->in[k]),
					   ex_int(p, CT_I64, window_stride(&x->at[d], i))));
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

void window_emit(Window *w)
{
	Row *r = w->r;

	place_band(w);
	r->unrolled = row_taps(r->k->stmts.at[r->first]) > 0;
	for (int i = 0; i < w->n; i++)
		fetch(w, &w->box[i]);
	points(w);
}
