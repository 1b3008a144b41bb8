/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of a transpose: the block copies the tile of each transposed load to shared memory, then
 * stores the tile of the result. The copy follows the order of the input's memory and the store that
 * of the output's, one contiguous range after the other (passes/schedule/gpu/transpose.c).
 */
#include "passes/schedule/gpu/transpose_impl.h"

#include "base/round.h"

/* ---- One way ---- */

/* As transpose_run, but stops at the first length that is a multiple of SIDE: adjacent threads then
 * take adjacent ranges. */
static int64_t short_run(const TransposePlan *t, const Way *w, int *n)
{
	const int64_t all = transpose_run(t, w, n);
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
	const int count = transpose_order(t, w, order);

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
 * How the threads traverse W. FEW adjacent threads serve one range; each round covers FEW accesses of
 * every range. If ranges are misaligned and each warp has one, the warp takes all of it, so that the
 * range's offset is computed once.
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

	x.size = transpose_run(t, w, &x.n);
	x.peeled = x.size > SIDE && transpose_misaligned(t, w);
	if (!x.peeled)
		x.size = short_run(t, w, &x.n);
	x.runs = transpose_points(t) / x.size;
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

	transpose_steps(t, w, steps);
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
			t->first[i] = transpose_whole(t, i) ? l_int(b, 0) : NULL;
			if (!pass)
				outer[n++] = it;
			if (!pass || transpose_whole(t, i))
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

void transpose_emit(TransposePlan *t, Stmt *s)
{
	Staged tile[MOST_LOADS];
	Expr *guard;
	int64_t steps[MAX_ITERS];
	Nest nest;

	transpose_open_stage(t, s);
	for (int i = 0; i < t->n; i++)
		tile[i] = transpose_local(t, i, transpose_steps(t, &t->in[i], steps),
					  in_tile(t, &t->in[i]));
	for (int i = 0; i < t->n; i++) {
		nest = open_tile(t, &t->in[i], &guard);
		l_store(t->b, tile[i].copy, tile[i].at, t->load[i], guard);
		close_tile(t, &nest);
	}
	transpose_store(t, s, gpu_from_copies(t->b->p, t->p->e[0], tile, t->n));
}
