/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps that turn: the write goes through memory along other iterators than loads do: transposes, and whatever reads such
 * operands. A block has a tile of points. It fetches what the turned loads read, in their order, into shared memory, and
 * stores in the order of the write. A tile has whole iterators, innermost ones first, and a part of one more, as far as runs
 * of memory, of the loads and of the write, are to be long; so short rows, and batches of small matrices, make long runs, too.
 * Accesses are of 16 bytes where sizes allow. In the tile the write steps by an odd number of elements, such that neither way
 * meets a bank twice. Where runs of memory are ragged, accesses begin where sectors do, before the first point of the run.
 */
#include "passes/gpu_impl.h"

#include <assert.h>

enum {
	TURN_THREADS = 256,
	SIDE = 32,
	LONG = 4 * SIDE,
	TILE = 1024,
	RAGGED = 4, /* times as many points a tile has where runs are ragged */
	MOST_LOADS = 4
};

/* One way through the tile. */
typedef struct Way {
	const Buf *buf; /* what is accessed, at AT, */
	Expr *at;
	Affine a; /* which is this */
	int along[MAX_ITERS],
		n; /* iterators (of Points) along which memory runs on, innermost first */
} Way;

typedef struct Turn {
	LBuild *b;
	Points *p;
	Way out, in[MOST_LOADS];
	Expr *load[MOST_LOADS]; /* those that are turned */
	int n;
	int common; /* iterators along which the write and the loads both run first */
	int64_t tile
		[MAX_ITERS]; /* of each iterator, so many points; 1: the tile does not run along it */
	Expr *first[MAX_ITERS]; /* where the tile begins */
} Turn;

static int bytes_of(const Buf *b)
{
	return dtype_info[b->dtype].bits / 8;
}

static int64_t sector_of(const Way *w)
{
	return SECTOR / bytes_of(w->buf);
}

static Dim *step(const Turn *t, const Way *w, int i)
{
	return affine_coef(t->p->k->ctx, &w->a, t->p->it[i]);
}

/* False where AT is not affine. */
static bool way_of(const Turn *t, const Buf *buf, Expr *at, Way *w)
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

/* Both read and write whole rows, but those are no whole sectors, and each row is another element of the other. */
static bool rows_turn(const Turn *t, const Way *in, int common)
{
	Ctx *c = t->p->k->ctx;
	Dim *row = dim_const(c, 1);
	int64_t n;

	for (int i = 0; i < common; i++)
		row = dim_mul(c, row, t->p->it[in->along[i]]->extent);
	if (!dim_is_const(row, &n) || (n % sector_of(in) == 0 && n % sector_of(&t->out) == 0))
		return false;
	for (int i = 0; i < t->p->n; i++) {
		if (!dim_is_const(step(t, in, i), &n) || !n)
			return false;
		for (int j = 0; j < i; j++)
			if (step(t, in, i) == step(t, in, j))
				return false;
	}
	return true;
}

/* IN and the write part after *COMMON iterators. */
static bool turns(const Turn *t, const Way *in, int *common)
{
	int i = 0;

	while (i < in->n && i < t->out.n && in->along[i] == t->out.along[i])
		i++;
	*common = i;
	return i < in->n && i < t->out.n && !dim_equals(step(t, in, t->out.along[i]), 0) &&
	       (!i || rows_turn(t, in, i));
}

/* Loads that each point makes and that turn in the way of the first of them. */
static void find_turned(void *arg, Expr *e)
{
	Turn *t = arg;
	int common;
	Way w;

	if (e->kind != EX_LOAD || e->load.buf->data || dtype_info[e->load.buf->dtype].bits < 8 ||
	    t->n == MOST_LOADS || !way_of(t, e->load.buf, e->load.idx[0], &w) ||
	    !turns(t, &w, &common))
		return;
	if (t->n && (common != t->common || w.along[common] != t->in[0].along[common]))
		return;
	t->common = common;
	t->in[t->n] = w;
	t->load[t->n++] = e;
}

/* ---- The tile ---- */

static bool is_whole(const Turn *t, int i)
{
	return dim_equals(t->p->it[i]->extent, t->tile[i]);
}

/* Elements of W that follow one another in memory; *N: along so many of its iterators. */
static int64_t run_of(const Turn *t, const Way *w, int *n)
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

static int64_t points_of(const Turn *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->p->n; i++)
		n *= t->tile[i];
	return n;
}

/* By iterator: its step in the tile of W. The elements that it has. */
static int64_t steps_of(const Turn *t, const Way *w, int64_t *steps)
{
	const int odd = t->out.along[t->common];
	int64_t n = 1;

	for (int i = 0; i < t->p->n; i++)
		steps[i] = 0;
	for (int i = 0; i < w->n + t->p->n; i++) {
		const int it = i < w->n ? w->along[i] : i - w->n;

		if (steps[it] || t->tile[it] == 1)
			continue;
		steps[it] = it == odd ? n | 1 : n;
		n = steps[it] * t->tile[it];
	}
	return n;
}

static bool fits(const Turn *t)
{
	int64_t bytes = 0, steps[MAX_ITERS];

	for (int i = 0; i < t->n; i++)
		bytes += steps_of(t, &t->in[i], steps) *
			 ((dtype_info[ctype_dtype(t->load[i]->ct)].bits + 7) / 8);
	return bytes <= SHARED;
}

/* Points of iterator I in a larger tile: all of a short one, which then may run on in its neighbour. */
static int64_t larger(const Turn *t, int i)
{
	int64_t n, twice = t->tile[i] == 1 ? SIDE : 2 * t->tile[i];

	if (!dim_is_const(t->p->it[i]->extent, &n))
		return twice;
	return n <= twice || (t->tile[i] == 1 && n < LONG && n % SIDE) ? n : twice;
}

/* Makes the run of W longer, with MOST points in the tile, or with more where it is shorter than a SIDE. Where no larger tile
 * will do, a few points of an iterator are more than one, but not of the first one. */
static bool grow(Turn *t, const Way *w, int64_t most)
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
		if (fits(t) && (points_of(t) <= most || run < SIDE))
			return true;
		t->tile[i] = was;
		if (was > 1 || size / 2 < least)
			return false;
	}
}

static void grow_all(Turn *t, int64_t most)
{
	bool grew = true;
	int n;

	while (grew) {
		const bool in = run_of(t, &t->in[0], &n) <= run_of(t, &t->out, &n);

		grew = grow(t, in ? &t->in[0] : &t->out, most) ||
		       grow(t, in ? &t->out : &t->in[0], most);
	}
}

/* Runs of W do not all begin where sectors do, and it is known where each does. */
static bool ragged(const Turn *t, const Way *w)
{
	Ctx *c = t->p->k->ctx;
	const int64_t sector = sector_of(w);
	bool known = dim_is_const(w->a.base, NULL), aligned = dim_multiple(c, w->a.base, sector);
	int n;

	run_of(t, w, &n);
	for (int i = 0; i < t->p->n; i++) {
		Dim *by = step(t, w, i);
		bool in_run = false;

		known = known && dim_is_const(by, NULL);
		for (int j = 0; j < n; j++)
			in_run = in_run || w->along[j] == i;
		if (in_run && is_whole(t, i))
			continue;
		if (in_run)
			by = dim_mul(c, by, dim_const(c, t->tile[i]));
		aligned = aligned && dim_multiple(c, by, sector);
	}
	return known && !aligned;
}

static bool any_ragged(const Turn *t)
{
	bool any = ragged(t, &t->out);

	for (int i = 0; i < t->n; i++)
		any = any || ragged(t, &t->in[i]);
	return any;
}

/* As run_of, but no longer than is good: parts of whole sectors, of which neighbours go along a SIDE of several. */
static int64_t short_run(const Turn *t, const Way *w, int *n)
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

/* About TILE points; more where runs are ragged: each is then cut at both ends. */
static bool shape(Turn *t)
{
	int64_t points = bytes_of(t->in[0].buf) < 4 ? 2 * TILE : TILE;
	int n;

	for (int i = 0; i < t->p->n; i++)
		t->tile[i] = 1;
	grow_all(t, points);
	if (any_ragged(t))
		grow_all(t, points * RAGGED);
	return run_of(t, &t->out, &n) > 1 && run_of(t, &t->in[0], &n) > 1;
}

/* Elements of one access on W. */
static int pack_along(const Turn *t, const Way *w)
{
	enum { MOST = 4 };
	int pack = PACK_BYTES / bytes_of(w->buf) < MOST ? PACK_BYTES / bytes_of(w->buf) : MOST;
	const Iter *inner = w->n ? t->p->it[w->along[0]] : NULL;

	return inner && t->tile[w->along[0]] % pack == 0 &&
			       dim_multiple(t->p->k->ctx, inner->extent, pack) &&
			       affine_aligned(t->p->k->ctx, &w->a, inner, pack)
		       ? pack
		       : 1;
}

/* ---- Nodes ---- */

/* How far before the run that W is at it begins, so that accesses begin where sectors do. */
static Expr *skew(const Turn *t, const Way *w, int n)
{
	ExprPool *p = t->b->p;
	Iter *it[MAX_ITERS];
	Expr *with[MAX_ITERS];

	for (int i = 0; i < n; i++) {
		it[i] = t->p->it[w->along[i]];
		with[i] = t->first[w->along[i]];
	}
	return ex_op2(p, IN_mod, ex_subst_iters(p, w->at, it, with, n),
		      ex_int(p, CT_I64, sector_of(w)));
}

/* Point U of the tile along iterator I, which *REST counts; what is left of *REST counts the next one. */
static Expr *digit(const Turn *t, int i, bool last, Expr **rest)
{
	ExprPool *p = t->b->p;
	Expr *size = ex_int(p, CT_I64, t->tile[i]), *u = *rest;

	if (!last) {
		u = ex_op2(p, IN_mod, *rest, size);
		*rest = ex_op2(p, IN_floordiv, *rest, size);
	}
	return ex_add(p, t->first[i], u);
}

/* PLACE is one of iterator I, too: not of the iterator, which is known to be inside. */
static Expr *inside(const Turn *t, int i, Expr *place)
{
	Iter *it = t->p->it[i];

	return dim_multiple(t->p->k->ctx, it->extent, t->tile[i])
		       ? NULL
		       : ex_op2(t->b->p, IN_lt, place, ex_dim(t->b->p, it->extent));
}

/* The iterators of the tile that are in no run of W, of which N are, at number O of all their points. */
static Expr *let_outer(Turn *t, const Way *w, int n, Expr *o)
{
	Expr *guard = NULL;
	bool seen[MAX_ITERS] = {false};
	int left = 0;

	for (int i = 0; i < t->p->n; i++)
		left += t->tile[i] > 1;
	for (int i = 0; i < w->n + t->p->n; i++) {
		const int it = i < w->n ? w->along[i] : i - w->n;
		Expr *place;

		if (seen[it] || t->tile[it] == 1)
			continue;
		seen[it] = true;
		left--;
		if (i < n)
			continue;
		place = digit(t, it, !left, &o);
		l_let(t->b, t->p->it[it], place);
		guard = ex_and(t->b->p, guard, inside(t, it, place));
	}
	return guard;
}

/*
 * The tile's points, shared out between the threads. What follows is done at each that exists; *GUARD says where, *VECTOR
 * is the loop over one access, or null. Neighbours go along a run for SIDE points, or, where runs are ragged, for as many as
 * a warp has, or for all, and then to the next run.
 */
static LNode *open_tile(Turn *t, const Way *w, Expr **guard, LNode **vector)
{
	LBuild *b = t->b;
	Ctx *c = b->k->ctx;
	int n;
	const bool skewed = ragged(t, w);
	const int pack = pack_along(t, w);
	const int64_t sector = sector_of(w), size = skewed ? run_of(t, w, &n) : short_run(t, w, &n),
		      runs = points_of(t) / size, unit = pack == 1 ? sector : SIDE,
		      run = skewed ? (size + sector + unit - 1) / unit * unit : size,
		      each = skewed && size < LONG ? WARP * pack : SIDE,
		      few = (run % each ? run : each) / pack, all = run / pack * runs;
	Iter *at = l_iter(b, "t", dim_const(c, all)), *v = l_iter(b, "v", dim_const(c, run / pack)),
	     *o = l_iter(b, "o", dim_const(c, runs)), *inner = t->p->it[w->along[0]];
	LNode *loop = l_loop(b, LOOP_TEAM, at, l_int(b, 0), l_int(b, all), 1);
	Expr *x = ex_iter(b->p, at), *q = ex_op2(b->p, IN_floordiv, x, l_int(b, few)), *place, *hi;

	l_let(b, v,
	      ex_add(b->p, ex_op2(b->p, IN_mod, x, l_int(b, few)),
		     ex_mul(b->p, ex_op2(b->p, IN_floordiv, x, l_int(b, few * runs)),
			    l_int(b, few))));
	l_let(b, o, run / pack == few ? q : ex_op2(b->p, IN_mod, q, l_int(b, runs)));
	*guard = let_outer(t, w, n, ex_iter(b->p, o));
	x = ex_mul(b->p, ex_iter(b->p, v), l_int(b, pack));
	if (skewed) {
		x = ex_sub(b->p, x, skew(t, w, n));
		*guard = ex_and(b->p, *guard, ex_op2(b->p, IN_ge, x, l_int(b, 0)));
		*guard = ex_and(b->p, *guard, ex_op2(b->p, IN_lt, x, l_int(b, size)));
	}
	*vector = NULL;
	for (int i = n - 1; i >= 1; i--) {
		int64_t below = 1;
		Expr *rest;

		for (int j = 0; j < i; j++)
			below *= t->tile[w->along[j]];
		rest = ex_op2(b->p, IN_floordiv, x, l_int(b, below));
		place = digit(t, w->along[i], i == n - 1, &rest);
		l_let(b, t->p->it[w->along[i]], place);
		*guard = ex_and(b->p, *guard, inside(t, w->along[i], place));
	}
	place = digit(t, w->along[0], n == 1, &x);
	if (pack == 1) {
		l_let(b, inner, place);
		*guard = ex_and(b->p, *guard, inside(t, w->along[0], place));
		return loop;
	}
	hi = ex_add(b->p, place, l_int(b, pack));
	if (inside(t, w->along[0], place))
		hi = l_min(b, hi, ex_dim(b->p, inner->extent));
	if (*guard)
		hi = ex_op3(b->p, IN_select, *guard, hi, place);
	*guard = NULL;
	*vector = l_loop(b, LOOP_VECTOR, inner, place, hi, 1);
	(*vector)->pack = pack;
	return loop;
}

static void close_tile(Turn *t, LNode *loop, LNode *vector)
{
	if (vector)
		l_close(t->b, vector);
	l_close(t->b, loop);
}

/* Where the tile of W has the point. */
static Expr *in_tile(const Turn *t, const Way *w)
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

typedef struct Staged {
	const Turn *t;
	Buf *const *tile;
} Staged;

static Expr *from_tile(void *arg, Expr *e)
{
	const Staged *s = arg;
	Expr *at;

	for (int i = 0; i < s->t->n; i++)
		if (s->t->load[i] == e) {
			at = in_tile(s->t, &s->t->in[i]);
			return ex_load(s->t->b->p, s->tile[i], &at, 1);
		}
	return NULL;
}

/* Who has which tile. */
static void open_stage(Turn *t, const Stmt *s)
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
	l_stage(b, "turn", iters_points(c, outer, n));
	b->stage->team = b->stage->threads = TURN_THREADS;
	l_split(b, outer, n, ex_iter(b->p, b->stage->var));
}

static void emit(Turn *t, Stmt *s)
{
	LBuild *b = t->b;
	Buf *tile[MOST_LOADS];
	Staged staged = {t, tile};
	Expr *guard, *val;
	LNode *loop, *vector;

	open_stage(t, s);
	for (int i = 0; i < t->n; i++) {
		int64_t steps[MAX_ITERS];
		Dim *cells = dim_const(b->k->ctx, steps_of(t, &t->in[i], steps));

		tile[i] = kernel_temp(b->k, t->in[i].buf->name, ctype_dtype(t->load[i]->ct), 1,
				      &cells);
		l_node(b, LN_LOCAL)->buf[0] = tile[i];
	}
	for (int i = 0; i < t->n; i++) {
		loop = open_tile(t, &t->in[i], &guard, &vector);
		l_store(b, tile[i], in_tile(t, &t->in[i]), t->load[i], guard);
		close_tile(t, loop, vector);
	}
	loop = open_tile(t, &t->out, &guard, &vector);
	val = ex_rewrite(b->p, t->p->e[0], from_tile, &staged);
	l_does(b, l_store(b, s->out[0], t->p->write, val, guard), PART_WRITE, t->p->at, t->p->nat);
	close_tile(t, loop, vector);
}

bool gpu_turn(LBuild *b, Stmt *s, Points *p)
{
	Turn t = {.b = b, .p = p};

	if (p->guard || dtype_info[s->out[0]->dtype].bits < 8 ||
	    !way_of(&t, s->out[0], p->write, &t.out))
		return false;
	ex_walk_always(p->e[0], find_turned, &t);
	if (!t.n || !shape(&t))
		return false;
	emit(&t, s);
	return true;
}
