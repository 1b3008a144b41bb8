/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposes on GPUs: maps whose loads are contiguous along other iterators than their store. A
 * block has a tile of points. It fetches the elements of the transposed loads to shared memory in
 * the order of the loads, and stores in the order of the store. A tile has whole iterators,
 * innermost ones first, and a part of one more, until the contiguous ranges of both the loads and
 * the store are long; so short rows, and batches of small matrices, have long ranges, too. Accesses
 * are of 16 bytes where sizes allow. Rows of the tile in shared memory are padded to an odd number
 * of elements, so that neither direction has bank conflicts. Where ranges are misaligned, as they
 * may be where sizes are not known, their first access is peeled to the boundary of a sector.
 * Transposes that keep rows of unknown length whole have tiles of their own
 * (passes/schedule/gpu/transpose_rows.c).
 */
#include "passes/schedule/gpu/transpose_impl.h"

#include "base/round.h"

enum {
	TILE = 1024,
	/* times as many points where contiguous ranges are misaligned: 24 KiB, of which an SM has
	 * room for several */
	MISALIGNED_TIMES = 6,
	/* bytes, accessed by 16: for rows so long, partial sectors are a small part */
	LONG_ROW = 10 * SECTOR
};

int64_t transpose_sector(const Way *w)
{
	return gpu_sector(dtype_bytes(w->buf->dtype));
}

static Dim *step(const TransposePlan *t, const Way *w, int i)
{
	return affine_coef(t->p->k->ctx, &w->a, t->p->it[i]);
}

bool transpose_way(const TransposePlan *t, const Buf *buf, Expr *at, Way *w)
{
	Ctx *c = t->p->k->ctx;
	Dim *next = dim_const(c, 1);

	*w = (Way){.buf = buf, .at = at};
	if (!ex_affine(c, at, &w->a))
		return false;
	for (int i = t->p->n - 1; i >= 0; i--) {
		bool taken = false;

		for (int j = 0; j < w->n; j++)
			taken = taken || w->along[j] == i;
		if (taken || step(t, w, i) != next)
			continue;
		w->along[w->n++] = i;
		next = dim_mul(c, next, t->p->it[i]->extent);
		i = t->p->n;
	}
	return true;
}

/* ---- What turns ---- */

static bool long_row(const Way *w, int64_t n)
{
	const int64_t bytes = n * dtype_bytes(w->buf->dtype);

	return bytes >= LONG_ROW && bytes % VECTOR_BYTES == 0;
}

/* Both the load and the store are contiguous along the same COMMON innermost iterators: whole rows
 * are permuted. A tile pays if rows are no multiple of a sector and not long. Each iterator must
 * have a step of its own in the load. Rows of unknown length must be a single iterator. */
static bool permutes_rows(const TransposePlan *t, const Way *in, int common)
{
	Ctx *c = t->p->k->ctx;
	Dim *row = dim_const(c, 1);
	int64_t n;

	for (int i = 0; i < common; i++)
		row = dim_mul(c, row, t->p->it[in->along[i]]->extent);
	if (dim_multiple(c, row, transpose_sector(in)) &&
	    dim_multiple(c, row, transpose_sector(&t->out)))
		return false;
	if (dim_is_const(row, &n) ? long_row(in, n) && long_row(&t->out, n) : common > 1)
		return false;
	for (int i = 0; i < t->p->n; i++) {
		if (dim_equals(step(t, in, i), 0))
			return false;
		for (int j = 0; j < i; j++)
			if (step(t, in, i) == step(t, in, j))
				return false;
	}
	return true;
}

/* IN and the store are contiguous along the same *COMMON innermost iterators, and then along
 * different ones. */
static bool is_transposed(const TransposePlan *t, const Way *in, int *common)
{
	int i = 0;

	while (i < in->n && i < t->out.n && in->along[i] == t->out.along[i])
		i++;
	*common = i;
	return i < in->n && i < t->out.n && !dim_equals(step(t, in, t->out.along[i]), 0) &&
	       (!i || permutes_rows(t, in, i));
}

/* Collects the transposed loads that every point makes and that are contiguous along the same
 * iterators as the first one. */
static void find_transposed(TransposePlan *t, Expr *e)
{
	int common;
	Way w;

	if (e->load.buf->data || dtype_info[e->load.buf->dtype].bits < 8 || t->n == MOST_LOADS ||
	    !transpose_way(t, e->load.buf, e->load.idx[0], &w) || !is_transposed(t, &w, &common))
		return;
	if (t->n && (common != t->common || w.along[common] != t->in[0].along[common]))
		return;
	t->common = common;
	t->in[t->n] = w;
	t->load[t->n++] = e;
}

/* ---- The tile ---- */

/* The tile has all points of iterator I. */
static bool is_whole(const TransposePlan *t, int i)
{
	return dim_equals(t->p->it[i]->extent, t->tile[i]);
}

/* Contiguous elements of W in a tile; *N: the number of iterators that they span. */
static int64_t run_of(const TransposePlan *t, const Way *w, int *n)
{
	int64_t run = 1;

	for (*n = 0; *n < w->n && t->tile[w->along[*n]] > 1; ++*n) {
		run *= t->tile[w->along[*n]];
		if (!is_whole(t, w->along[*n])) {
			++*n;
			break;
		}
	}
	return run;
}

/* Points of a tile. */
static int64_t tile_points(const TransposePlan *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->p->n; i++)
		n *= t->tile[i];
	return n;
}

/* The iterators with more than one point in the tile, in W's order: those of its contiguous run
 * come first. Returns their number. */
static int order_of(const TransposePlan *t, const Way *w, int *order)
{
	bool seen[MAX_ITERS] = {false};
	int n = 0;

	for (int i = 0; i < w->n + t->p->n; i++) {
		const int it = i < w->n ? w->along[i] : i - w->n;

		if (!seen[it] && t->tile[it] > 1)
			order[n++] = it;
		seen[it] = true;
	}
	return n;
}

/* The step of each iterator in a tile stored in W's order. Returns the elements of the tile. */
static int64_t steps_of(const TransposePlan *t, const Way *w, int64_t *steps)
{
	const int odd = t->out.along[t->common];
	int order[MAX_ITERS];
	const int count = order_of(t, w, order);
	int64_t n = 1;

	for (int i = 0; i < t->p->n; i++)
		steps[i] = 0;
	for (int i = 0; i < count; i++) {
		steps[order[i]] = order[i] == odd ? n | 1 : n;
		n = steps[order[i]] * t->tile[order[i]];
	}
	return n;
}

static bool fits(const TransposePlan *t)
{
	int64_t bytes = 0, steps[MAX_ITERS];

	for (int i = 0; i < t->n; i++)
		bytes += steps_of(t, &t->in[i], steps) *
			 ((dtype_info[ctype_dtype(t->load[i]->ct)].bits + 7) / 8);
	return bytes <= SHARED;
}

/* Points of iterator I in the next larger tile: all points of a short one, so that the contiguous
 * range can continue in the next iterator. */
static int64_t larger(const TransposePlan *t, int i)
{
	int64_t n, twice = t->tile[i] == 1 ? SIDE : 2 * t->tile[i];

	if (!dim_is_const(t->p->it[i]->extent, &n))
		return twice;
	return n <= twice || (t->tile[i] == 1 && n < LONG && n % SIDE) ? n : twice;
}

/* Extends the contiguous range of W, to a tile of at most MOST points, or more if the range is
 * shorter than SIDE. If no larger tile is possible, tries fewer points of an iterator, but not of
 * the innermost one. */
static bool grow(TransposePlan *t, const Way *w, int64_t most)
{
	int n, k = 0, i;
	const int64_t run = run_of(t, w, &n);

	while (k < w->n && is_whole(t, w->along[k]))
		k++;
	if (k == w->n)
		return false;
	i = w->along[k];
	for (int64_t was = t->tile[i], least = k ? 2 : SIDE, size = larger(t, i);;
	     size = size > SIDE ? SIDE : size / 2) {
		t->tile[i] = size;
		if (fits(t) && (tile_points(t) <= most || run < SIDE))
			return true;
		t->tile[i] = was;
		if (was > 1 || size / 2 < least)
			return false;
	}
}

static void grow_all(TransposePlan *t, int64_t most)
{
	bool grew = true;
	int n;

	while (grew) {
		const bool in = run_of(t, &t->in[0], &n) <= run_of(t, &t->out, &n);

		grew = grow(t, in ? &t->in[0] : &t->out, most) ||
		       grow(t, in ? &t->out : &t->in[0], most);
	}
}

/* Some runs of W may begin within a sector. */
static bool is_misaligned(const TransposePlan *t, const Way *w)
{
	Ctx *c = t->p->k->ctx;
	const int64_t sector = transpose_sector(w);
	bool aligned = dim_multiple(c, w->a.base, sector);
	int n;

	run_of(t, w, &n);
	for (int i = 0; i < t->p->n; i++) {
		Dim *by = step(t, w, i);
		bool in_run = false;

		for (int j = 0; j < n; j++)
			in_run = in_run || w->along[j] == i;
		if (in_run && is_whole(t, i))
			continue;
		if (in_run)
			by = dim_mul(c, by, dim_const(c, t->tile[i]));
		aligned = aligned && dim_multiple(c, by, sector);
	}
	return !aligned;
}

static bool any_misaligned(const TransposePlan *t)
{
	bool any = is_misaligned(t, &t->out);

	for (int i = 0; i < t->n; i++)
		any = any || is_misaligned(t, &t->in[i]);
	return any;
}

/* Chooses a tile of about TILE points; more where ranges are misaligned, as each has a partial
 * sector at both ends. */
static bool shape(TransposePlan *t)
{
	int64_t points = dtype_bytes(t->in[0].buf->dtype) < 4 ? 2 * TILE : TILE;
	int n;

	for (int i = 0; i < t->p->n; i++)
		t->tile[i] = 1;
	grow_all(t, points);
	if (any_misaligned(t))
		grow_all(t, points * MISALIGNED_TIMES);
	return run_of(t, &t->out, &n) > 1 && run_of(t, &t->in[0], &n) > 1;
}

/* ---- The stage ---- */

/* The block copies the tile of each transposed load to shared memory, then stores the tile of the
 * result: each in the order of its memory, one contiguous range after the other. */

/* As run_of, but stops at the first length that is a multiple of SIDE: adjacent threads then
 * take adjacent ranges. */
static int64_t short_run(const TransposePlan *t, const Way *w, int *n)
{
	const int64_t all = run_of(t, w, n);
	int64_t run = 1;

	for (int i = 0; i < *n; i++) {
		run *= t->tile[w->along[i]];
		if (run % SIDE == 0) {
			*n = i + 1;
			return run;
		}
	}
	return all;
}

/* Elements of one access of W. */
static int vector_along(const TransposePlan *t, const Way *w)
{
	enum { MOST = 4 };
	const int vector = gpu_vector(dtype_bytes(w->buf->dtype), MOST);
	const Iter *inner = w->n ? t->p->it[w->along[0]] : NULL;

	return inner && t->tile[w->along[0]] % vector == 0 &&
			       dim_multiple(t->p->k->ctx, inner->extent, vector) &&
			       affine_aligned(t->p->k->ctx, &w->a, inner, vector)
		       ? vector
		       : 1;
}

/* The offset in its sector of the current range of W: its first access begins this many elements
 * earlier. */
static Expr *peel(const TransposePlan *t, const Way *w, int n)
{
	Iter *it[MAX_ITERS];
	Expr *with[MAX_ITERS];

	for (int i = 0; i < n; i++) {
		it[i] = t->p->it[w->along[i]];
		with[i] = t->first[w->along[i]];
	}
	return gpu_peel(t->b, w->at, it, with, n, dtype_bytes(w->buf->dtype));
}

/* Takes iterator I's index in the tile out of *REST by a div/mod split; *REST then counts the
 * remaining iterators. */
static Expr *take_index(const TransposePlan *t, int i, bool last, Expr **rest)
{
	ExprPool *p = t->b->p;
	Expr *size = ex_int(p, CT_I64, t->tile[i]), *u = *rest;

	if (!last) {
		u = ex_op2(p, IN_mod, *rest, size);
		*rest = ex_op2(p, IN_floordiv, *rest, size);
	}
	return ex_add(p, t->first[i], u);
}

/* PLACE is less than the extent of iterator I; null if it always is. */
static Expr *inside(const TransposePlan *t, int i, Expr *place)
{
	Iter *it = t->p->it[i];

	return dim_multiple(t->p->k->ctx, it->extent, t->tile[i])
		       ? NULL
		       : ex_op2(t->b->p, IN_lt, place, ex_dim(t->b->p, it->extent));
}

/* Binds the iterators of the tile that are outside of W's ranges, whose first N iterators are
 * inside, from the flat number O. Returns the guard for them. */
static Expr *let_outer(TransposePlan *t, const Way *w, int n, Expr *o)
{
	Expr *guard = NULL, *place;
	int order[MAX_ITERS];
	const int count = order_of(t, w, order);

	for (int i = n; i < count; i++) {
		place = take_index(t, order[i], i == count - 1, &o);
		l_let(t->b, t->p->it[order[i]], place);
		guard = ex_and(t->b->p, guard, inside(t, order[i], place));
	}
	return guard;
}

/* Binds the N iterators of a range of W at its element X, except for the innermost one, whose index
 * is returned. Adds to GUARD, unless it is null, that they exist. */
static Expr *let_run(TransposePlan *t, const Way *w, int n, Expr *x, Expr **guard)
{
	LBuild *b = t->b;
	Expr *rest, *place;

	for (int i = n - 1; i >= 1; i--) {
		int64_t below = 1;

		for (int j = 0; j < i; j++)
			below *= t->tile[w->along[j]];
		rest = ex_op2(b->p, IN_floordiv, x, l_int(b, below));
		place = take_index(t, w->along[i], i == n - 1, &rest);
		l_let(b, t->p->it[w->along[i]], place);
		if (guard)
			*guard = ex_and(b->p, *guard, inside(t, w->along[i], place));
	}
	return take_index(t, w->along[0], n == 1, &x);
}

/*
 * How the threads traverse W. FEW adjacent threads serve one range; each round covers FEW accesses
 * of every range. If ranges are misaligned and each warp has one, the warp takes all of it, so that
 * the range's offset is computed once.
 */
typedef struct Path {
	/* the first access begins at the boundary of a sector, in or before the range */
	bool peeled;
	bool ends;          /* a warp takes the range to its end */
	int n;              /* iterators of a range */
	int vector;         /* elements of an access */
	int64_t size, runs; /* elements of a range; ranges of a tile */
	int64_t few, times; /* adjacent threads of a range, and accesses of each */
} Path;

/* Adjacent threads cover SIDE points. Of a misaligned range they are a warp, or cover all of it.
 * Misaligned ranges of no more than SIDE points touch the same sectors with or without a peel, so
 * they are not peeled. */
static Path path_of(const TransposePlan *t, const Way *w)
{
	Path x = {.vector = vector_along(t, w)};
	const int64_t sector = transpose_sector(w), unit = x.vector == 1 ? sector : SIDE;
	int64_t run, few;

	x.size = run_of(t, w, &x.n);
	x.peeled = x.size > SIDE && is_misaligned(t, w);
	if (!x.peeled)
		x.size = short_run(t, w, &x.n);
	x.runs = tile_points(t) / x.size;
	x.ends = x.peeled && x.runs >= TRANSPOSE_THREADS / WARP;
	run = x.peeled ? round_up(x.size + sector, unit) : x.size;
	few = x.peeled && x.size < LONG ? WARP * x.vector : SIDE;
	x.few = x.ends ? WARP : (run % few ? run : few) / x.vector;
	x.times = ceil_div(run / x.vector, x.few);
	return x;
}

/* Computes how many elements of a range of W exist in the tensor; 0 where GUARD fails. The result
 * is bound to an iterator, so that each access needs one comparison. */
static Expr *let_end(TransposePlan *t, const Way *w, const Path *y, Expr *guard)
{
	LBuild *b = t->b;
	const int last = w->along[y->n - 1];
	Iter *end = l_iter(b, "end", dim_const(b->k->ctx, y->size + 1));
	Expr *at = l_int(b, y->size), *left;

	if (inside(t, last, at)) {
		left = ex_sub(b->p, ex_dim(b->p, t->p->it[last]->extent), t->first[last]);
		at = l_min(b, at, ex_mul(b->p, left, l_int(b, y->size / t->tile[last])));
	}
	if (guard)
		at = ex_op3(b->p, IN_select, guard, at, l_int(b, 0));
	l_let(b, end, at);
	return ex_iter(b->p, end);
}

/* Opens, in NEST, the loops over the accesses along W, and binds what is constant in a range.
 * Returns the position of an access in its range. *GUARD: the range exists and, if it is peeled, so
 * does this position. */
static Expr *open_path(TransposePlan *t, const Way *w, const Path *y, Nest *nest, Expr **guard)
{
	LBuild *b = t->b;
	Ctx *c = b->k->ctx;
	const int64_t all = y->few * y->runs * (y->ends ? 1 : y->times);
	Iter *at = l_iter(b, "t", dim_const(c, all)), *o = l_iter(b, "o", dim_const(c, y->runs)),
	     *u = l_iter(b, "u", dim_const(c, y->times));
	Expr *x = ex_iter(b->p, at), *q = ex_op2(b->p, IN_floordiv, x, l_int(b, y->few)), *end,
	     *begun;

	nest->loop[nest->n++] = l_loop(b, LOOP_GROUP, at, l_int(b, 0), l_int(b, all), 1);
	l_let(b, o, y->ends || y->times == 1 ? q : ex_op2(b->p, IN_mod, q, l_int(b, y->runs)));
	*guard = let_outer(t, w, y->n, ex_iter(b->p, o));
	end = y->peeled ? let_end(t, w, y, *guard) : NULL;
	if (y->ends)
		nest->loop[nest->n++] = l_loop(b, LOOP_UNROLL, u, l_int(b, 0), l_int(b, y->times),
					       1);
	else
		l_let(b, u, ex_op2(b->p, IN_floordiv, x, l_int(b, y->few * y->runs)));
	x = ex_add(b->p, ex_op2(b->p, IN_mod, x, l_int(b, y->few)),
		   ex_mul(b->p, ex_iter(b->p, u), l_int(b, y->few)));
	x = ex_mul(b->p, x, l_int(b, y->vector));
	if (!end)
		return x;
	x = ex_sub(b->p, x, peel(t, w, y->n));
	begun = ex_op2(b->p, IN_ge, x, l_int(b, 0));
	/* `x >= 0` may simplify to a constant because an iterator outside of the range has an
	 * extent of at most 1. That proof holds only for ranges that exist, so the guard stays. */
	*guard = ex_and(b->p, begun->kind == EX_CONST ? *guard : begun,
			ex_op2(b->p, IN_lt, x, end));
	return x;
}

/* Opens the loops over the tile's points, shared out between the threads. *GUARD: the point
 * exists. */
static Nest open_tile(TransposePlan *t, const Way *w, Expr **guard)
{
	LBuild *b = t->b;
	const Path y = path_of(t, w);
	Nest nest = {.n = 0};
	Expr *x = open_path(t, w, &y, &nest, guard),
	     *place = let_run(t, w, y.n, x, y.peeled ? NULL : guard);

	if (y.vector > 1) {
		Iter *it = t->p->it[w->along[0]];
		Expr *end = inside(t, w->along[0], place) ? ex_dim(b->p, it->extent) : NULL;

		nest.loop[nest.n++] = gpu_open_access(b, it, place, end, y.vector, *guard);
		*guard = NULL;
		return nest;
	}
	l_let(b, t->p->it[w->along[0]], place);
	if (!y.peeled)
		*guard = ex_and(b->p, *guard, inside(t, w->along[0], place));
	return nest;
}

static void close_tile(TransposePlan *t, Nest *nest)
{
	while (nest->n)
		l_close(t->b, nest->loop[--nest->n]);
}

/* The index of the current point in the tile of W. */
static Expr *in_tile(const TransposePlan *t, const Way *w)
{
	ExprPool *p = t->b->p;
	int64_t steps[MAX_ITERS];
	Expr *at = ex_int(p, CT_I64, 0);

	steps_of(t, w, steps);
	for (int i = 0; i < t->p->n; i++)
		if (steps[i])
			at = ex_add(p, at,
				    ex_mul(p, ex_sub(p, ex_iter(p, t->p->it[i]), t->first[i]),
					   ex_int(p, CT_I64, steps[i])));
	return at;
}

void transpose_open_stage(TransposePlan *t, const Stmt *s)
{
	LBuild *b = t->b;
	Ctx *c = b->k->ctx;
	Iter *outer[MAX_ITERS];
	int n = 0;

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < t->p->n; i++) {
			Iter *it = t->p->it[i];

			if ((t->tile[i] > 1) != pass)
				continue;
			t->first[i] = is_whole(t, i) ? l_int(b, 0) : NULL;
			if (!pass)
				outer[n++] = it;
			if (!pass || is_whole(t, i))
				continue;
			outer[n] = l_iter(b, arena_printf(b->arena, "%s_tile", it->name),
					  dim_ceildiv(c, it->extent, dim_const(c, t->tile[i])));
			t->first[i] = ex_mul(b->p, ex_iter(b->p, outer[n++]), l_int(b, t->tile[i]));
		}
	l_of(b, s);
	l_stage(b, "transpose", iters_points(c, outer, n));
	b->stage->block.group = b->stage->block.threads = TRANSPOSE_THREADS;
	l_split(b, outer, n, ex_iter(b->p, b->stage->var));
}

Staged transpose_local(TransposePlan *t, int i, int64_t cells, Expr *at)
{
	Dim *extent = dim_const(t->b->k->ctx, cells);
	Buf *tile = kernel_temp(t->b->k, t->load[i]->load.buf->name, ctype_dtype(t->load[i]->ct), 1,
				&extent);

	gpu_declare(t->b, tile, NULL);
	return (Staged){t->load[i], tile, at};
}

void transpose_store(TransposePlan *t, Stmt *s, Expr *val)
{
	Expr *guard;
	Nest nest = open_tile(t, &t->out, &guard);

	l_does(t->b, l_store(t->b, s->out[0], t->p->write, val, guard), PART_WRITE, t->p->at,
	       t->p->nat);
	close_tile(t, &nest);
}

/* Emits the stage of S, whose tile T has chosen. */
static void emit(TransposePlan *t, Stmt *s)
{
	Staged tile[MOST_LOADS];
	Expr *guard;
	int64_t steps[MAX_ITERS];
	Nest nest;

	transpose_open_stage(t, s);
	for (int i = 0; i < t->n; i++)
		tile[i] = transpose_local(t, i, steps_of(t, &t->in[i], steps),
					  in_tile(t, &t->in[i]));
	for (int i = 0; i < t->n; i++) {
		nest = open_tile(t, &t->in[i], &guard);
		l_store(t->b, tile[i].copy, tile[i].at, t->load[i], guard);
		close_tile(t, &nest);
	}
	transpose_store(t, s, gpu_from_copies(t->b->p, t->p->e[0], tile, t->n));
}

/* ---- Maps that are transposes ---- */

/* Finds the transposed loads of S, whose points are P; false if there are none. */
static bool find(TransposePlan *t, const Stmt *s, Points *p)
{
	t->p = p;
	if (p->guard || dtype_info[s->out[0]->dtype].bits < 8 ||
	    !transpose_way(t, s->out[0], p->write, &t->out))
		return false;
	EX_EACH_LOAD_ALWAYS (e, p->e[0])
		find_transposed(t, e);
	return t->n > 0;
}

/* The length of the rows that T permutes, if it is unknown at compile time; else null. */
static Dim *unknown_row(const TransposePlan *t)
{
	Dim *n = t->common ? t->p->it[t->out.along[0]]->extent : NULL;

	return n && !dim_is_const(n, NULL) ? n : NULL;
}

Dim *gpu_transpose_length(const Stmt *s, Points *p)
{
	TransposePlan t = {.n = 0};

	return find(&t, s, p) ? unknown_row(&t) : NULL;
}

bool gpu_transpose(LBuild *b, Stmt *s, Points *p)
{
	TransposePlan t = {.b = b};

	if (!find(&t, s, p))
		return false;
	if (unknown_row(&t)) {
		transpose_rows(&t, s);
		return true;
	}
	if (!shape(&t))
		return false;
	emit(&t, s);
	return true;
}
