/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps that turn: the write runs through memory along one iterator, W, and loads run along another, R: transposes,
 * and whatever reads such operands. A block has a tile of R by W. It fetches what the turned loads read in the order
 * of R into shared memory, and stores in the order of W. Both go by 16 bytes where sizes allow; a row of the tile
 * has an odd number of words, such that neither way meets a bank twice. Where runs of memory are ragged, accesses
 * begin where sectors do, before the first point of the run.
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

typedef struct Turn {
	LBuild *b;
	Points *p;
	Iter *w, *r;
	Expr *load[MOST_LOADS]; /* those that run along R */
	int n;
	int64_t wide, high,
		row;   /* elements of the tile along R and along W; of a row in shared memory */
	Expr *r0, *w0; /* where the tile begins */
} Turn;

static Dim *step(Ctx *c, Expr *at, const Iter *it)
{
	Affine a;

	return ex_affine(c, at, &a) ? affine_coef(c, &a, it) : NULL;
}

static int bytes_of(const Buf *b)
{
	return dtype_info[b->dtype].bits / 8;
}

/* Loads that each point makes, which run along another iterator than W: the first says which. */
static void find_turned(Turn *t, Expr *e)
{
	Expr *const *arg = e->kind == EX_INST ? e->op.arg : NULL;
	int n = e->kind != EX_INST ? 0 : e->op.inst == IN_select ? 1 : e->op.n;
	Ctx *c = t->p->k->ctx;
	Dim *d;

	for (int i = 0; i < n; i++)
		find_turned(t, arg[i]);
	for (int i = 0; i < t->n; i++)
		if (t->load[i] == e)
			return;
	if (e->kind != EX_LOAD || e->load.buf->data || dtype_info[e->load.buf->dtype].bits < 8 ||
	    t->n == MOST_LOADS)
		return;
	d = step(c, e->load.idx[0], t->w);
	if (!d || dim_equals(d, 0) || dim_equals(d, 1))
		return;
	for (int i = 0; i < t->p->n; i++)
		if (t->p->it[i] != t->w && ex_runs_along(c, e->load.idx[0], t->p->it[i]) &&
		    (!t->r || t->r == t->p->it[i])) {
			t->r = t->p->it[i];
			t->load[t->n++] = e;
			return;
		}
}

/* Points of a tile along IT: all of a short one, which then may run on in its neighbour. */
static int64_t side(const Iter *it)
{
	int64_t n;

	return dim_is_const(it->extent, &n) && (n < SIDE || (n < LONG && n % SIDE)) ? n : SIDE;
}

/* One way through the tile: along INNER, of SIZE points from LO on, PACK at a time, and then along OUTER. */
typedef struct Way {
	const Buf *buf; /* what is accessed, at AT */
	Expr *at;
	Iter *inner, *outer;
	int64_t size, osize;
	Expr *lo, *olo; /* where the tile begins along them */
	int pack;
	int64_t sector; /* elements */
} Way;

/* Elements of one access on WAY. */
static int pack_along(Ctx *c, const Way *w)
{
	enum { MOST = 4 };
	int pack = PACK_BYTES / bytes_of(w->buf) < MOST ? PACK_BYTES / bytes_of(w->buf) : MOST;
	Affine a;

	return w->size % pack == 0 && dim_multiple(c, w->inner->extent, pack) &&
			       ex_affine(c, w->at, &a) && affine_aligned(c, &a, w->inner, pack)
		       ? pack
		       : 1;
}

static Way way_of(const Turn *t, const Buf *buf, Expr *at, bool read)
{
	Way w = {buf,
		 at,
		 read ? t->r : t->w,
		 read ? t->w : t->r,
		 read ? t->wide : t->high,
		 read ? t->high : t->wide,
		 read ? t->r0 : t->w0,
		 read ? t->w0 : t->r0,
		 1,
		 SECTOR / bytes_of(buf)};

	w.pack = pack_along(t->p->k->ctx, &w);
	return w;
}

/* Runs along INNER do not all begin where sectors do, and it is known where each does. Whole ones that follow one another
 * are one. */
static bool ragged(Ctx *c, const Way *w)
{
	Affine a;
	bool one, known;

	if (!ex_affine(c, w->at, &a) || affine_aligned(c, &a, w->inner, w->sector))
		return false;
	known = dim_is_const(a.base, NULL);
	one = dim_equals(w->inner->extent, w->size) &&
	      dim_equals(affine_coef(c, &a, w->outer), w->size) &&
	      w->size * w->osize % w->sector == 0 && dim_multiple(c, a.base, w->sector);
	for (int i = 0; i < a.n; i++) {
		known = known && dim_is_const(a.coef[i], NULL);
		one = one && (a.iter[i] == w->inner || a.iter[i] == w->outer ||
			      dim_multiple(c, a.coef[i], w->sector));
	}
	return known && !one;
}

static bool any_ragged(const Turn *t, const Buf *out)
{
	Ctx *c = t->p->k->ctx;
	Way w = way_of(t, out, t->p->write, false);
	bool any = ragged(c, &w);

	for (int i = 0; i < t->n; i++) {
		w = way_of(t, t->load[i]->load.buf, t->load[i]->load.idx[0], true);
		any = any || ragged(c, &w);
	}
	return any;
}

static bool fits(const Turn *t)
{
	int64_t bytes = 0;

	for (int i = 0; i < t->n; i++)
		bytes += t->high * (t->wide | 1) *
			 (dtype_info[ctype_dtype(t->load[i]->ct)].bits + 7) / 8;
	return bytes <= SHARED;
}

/* Doubles the shorter side that may be, as far as it fits. */
static bool grow(Turn *t)
{
	const bool wide = t->wide % SIDE == 0, high = t->high % SIDE == 0;
	int64_t *size = wide && (!high || t->wide <= t->high) ? &t->wide : high ? &t->high : NULL;

	if (!size)
		return false;
	*size *= 2;
	if (fits(t))
		return true;
	*size /= 2;
	return false;
}

/* About TILE points; more where runs are ragged: each is then cut at both ends. */
static bool shape(Turn *t, const Buf *out)
{
	int64_t points = bytes_of(t->load[0]->load.buf) < 4 ? 2 * TILE : TILE;

	t->wide = side(t->r);
	t->high = side(t->w);
	while (!fits(t) && (t->wide > SIDE || t->high > SIDE)) {
		int64_t *most = t->wide > t->high ? &t->wide : &t->high;

		*most = (*most - 1) / SIDE * SIDE;
	}
	if (any_ragged(t, out))
		points *= RAGGED;
	while (t->wide * t->high < points && grow(t))
		;
	t->row = t->wide | 1;
	return fits(t);
}

/* How far before LO a run begins, so that accesses begin where sectors do. */
static Expr *skew(const Turn *t, const Way *w)
{
	ExprPool *p = t->b->p;

	return ex_op2(p, IN_mod, ex_subst_iters(p, w->at, &w->inner, (Expr **)&w->lo, 1),
		      ex_int(p, CT_I64, w->sector));
}

/*
 * The tile's points, shared out between the threads. What follows is done at each that exists; *GUARD says where, *VECTOR
 * is the loop over one access, or null. Neighbours go along INNER for SIDE points, or, where runs are ragged, for all,
 * and then along OUTER.
 */
static LNode *open_tile(Turn *t, const Way *w, Expr **guard, LNode **vector)
{
	LBuild *b = t->b;
	Ctx *c = b->k->ctx;
	const bool skewed = ragged(c, w);
	const int64_t unit = w->pack == 1 ? w->sector : SIDE,
		      run = skewed ? (w->size + w->sector + unit - 1) / unit * unit : w->size,
		      few = (run % SIDE ? run : SIDE) / w->pack, all = run / w->pack * w->osize;
	Iter *at = l_iter(b, "t", dim_const(c, all)),
	     *v = l_iter(b, "v", dim_const(c, run / w->pack)),
	     *o = l_iter(b, "o", dim_const(c, w->osize));
	LNode *loop = l_loop(b, LOOP_TEAM, at, l_int(b, 0), l_int(b, all), 1);
	Expr *x = ex_iter(b->p, at), *hi, *end = ex_dim(b->p, w->inner->extent), *lo, *olo,
	     *oend = ex_dim(b->p, w->outer->extent);
	Expr *q = ex_op2(b->p, IN_floordiv, x, l_int(b, few));

	l_let(b, v,
	      ex_add(b->p, ex_op2(b->p, IN_mod, x, l_int(b, few)),
		     ex_mul(b->p, ex_op2(b->p, IN_floordiv, x, l_int(b, few * w->osize)),
			    l_int(b, few))));
	l_let(b, o, run / w->pack == few ? q : ex_op2(b->p, IN_mod, q, l_int(b, w->osize)));
	olo = ex_add(b->p, w->olo, ex_iter(b->p, o));
	l_let(b, w->outer, olo);
	lo = ex_add(b->p, w->lo, ex_mul(b->p, ex_iter(b->p, v), l_int(b, w->pack)));
	*vector = NULL;
	/* Of the places, not of the iterators, which are known to be inside. */
	*guard = dim_multiple(c, w->outer->extent, w->osize) ? NULL
							     : ex_op2(b->p, IN_lt, olo, oend);
	if (skewed) {
		lo = ex_sub(b->p, lo, skew(t, w));
		*guard = ex_and(b->p, *guard, ex_op2(b->p, IN_ge, lo, w->lo));
		*guard = ex_and(b->p, *guard,
				ex_op2(b->p, IN_lt, lo, ex_add(b->p, w->lo, l_int(b, w->size))));
	}
	if (w->pack == 1) {
		l_let(b, w->inner, lo);
		if (!dim_multiple(c, w->inner->extent, w->size))
			*guard = ex_and(b->p, *guard, ex_op2(b->p, IN_lt, lo, end));
		return loop;
	}
	hi = ex_add(b->p, lo, l_int(b, w->pack));
	if (!dim_multiple(c, w->inner->extent, w->size))
		hi = l_min(b, hi, end);
	if (*guard)
		hi = ex_op3(b->p, IN_select, *guard, hi, lo);
	*guard = NULL;
	*vector = l_loop(b, LOOP_VECTOR, w->inner, lo, hi, 1);
	(*vector)->pack = w->pack;
	return loop;
}

static void close_tile(Turn *t, LNode *loop, LNode *vector)
{
	if (vector)
		l_close(t->b, vector);
	l_close(t->b, loop);
}

/* Where the tile has the point. */
static Expr *in_tile(const Turn *t)
{
	ExprPool *p = t->b->p;
	Expr *w = ex_sub(p, ex_iter(p, t->w), t->w0), *r = ex_sub(p, ex_iter(p, t->r), t->r0);

	return ex_add(p, ex_mul(p, w, ex_int(p, CT_I64, t->row)), r);
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
			at = in_tile(s->t);
			return ex_load(s->t->b->p, s->tile[i], &at, 1);
		}
	return NULL;
}

/* The number of the block's tile along IT. */
static Expr *tile_of(Turn *t, Iter *const *blocks, int i, int64_t size)
{
	return ex_mul(t->b->p, ex_iter(t->b->p, blocks[i]), l_int(t->b, size));
}

static void emit(Turn *t, Stmt *s)
{
	LBuild *b = t->b;
	Ctx *c = b->k->ctx;
	Iter *outer[MAX_ITERS];
	Buf *tile[MOST_LOADS];
	Dim *cells = dim_const(c, t->row * t->high);
	Staged staged = {t, tile};
	Expr *guard, *val;
	LNode *loop, *vector;
	Way out;
	int n = 0;

	for (int i = 0; i < t->p->n; i++)
		if (t->p->it[i] != t->r && t->p->it[i] != t->w)
			outer[n++] = t->p->it[i];
	outer[n++] = l_iter(b, "down", dim_ceildiv(c, t->w->extent, dim_const(c, t->high)));
	outer[n++] = l_iter(b, "across", dim_ceildiv(c, t->r->extent, dim_const(c, t->wide)));
	l_of(b, s);
	l_stage(b, "turn", iters_points(c, outer, n), 1);
	b->stage->team = b->stage->threads = TURN_THREADS;
	l_split(b, outer, n, ex_iter(b->p, b->stage->var));
	t->w0 = tile_of(t, outer, n - 2, t->high);
	t->r0 = tile_of(t, outer, n - 1, t->wide);
	for (int i = 0; i < t->n; i++) {
		const Buf *from = t->load[i]->load.buf;

		tile[i] = kernel_temp(b->k, from->name, ctype_dtype(t->load[i]->ct), 1, &cells);
		l_node(b, LN_LOCAL)->buf[0] = tile[i];
	}
	for (int i = 0; i < t->n; i++) {
		const Way w = way_of(t, t->load[i]->load.buf, t->load[i]->load.idx[0], true);

		loop = open_tile(t, &w, &guard, &vector);
		l_store(b, tile[i], in_tile(t), t->load[i], guard);
		close_tile(t, loop, vector);
	}
	out = way_of(t, s->out[0], t->p->write, false);
	loop = open_tile(t, &out, &guard, &vector);
	val = ex_rewrite(b->p, t->p->e[0], from_tile, &staged);
	l_does(b, l_store(b, s->out[0], t->p->write, val, guard), PART_WRITE, t->p->at, t->p->nat);
	close_tile(t, loop, vector);
}

bool gpu_turn(LBuild *b, Stmt *s, Points *p)
{
	Turn t = {.b = b, .p = p};
	Ctx *c = b->k->ctx;

	for (int i = 0; i < p->n; i++)
		if (ex_runs_along(c, p->write, p->it[i]))
			t.w = p->it[i];
	if (!t.w || p->guard || dtype_info[s->out[0]->dtype].bits < 8)
		return false;
	find_turned(&t, p->e[0]);
	if (!t.n)
		return false;
	if (!shape(&t, s->out[0]))
		return false;
	emit(&t, s);
	return true;
}
