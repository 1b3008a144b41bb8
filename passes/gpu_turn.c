/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps that turn: the write runs through memory along one iterator, W, and loads run along another, R: transposes,
 * and whatever reads such operands. A block has a tile of R by W. It fetches what the turned loads read in the order
 * of R into shared memory, and stores in the order of W. Both go by 16 bytes where sizes allow; a row of the tile
 * has an odd number of words, such that neither way meets a bank twice.
 */
#include "passes/gpu_impl.h"

#include <assert.h>

enum {
	TURN_THREADS = 256,
	SIDE = 32,
	LONG = 4 * SIDE,
	TILE = 1024,
	MOST_TILE = 6144,
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

static void shape(Turn *t)
{
	const int64_t points = bytes_of(t->load[0]->load.buf) < 4 ? 2 * TILE : TILE;

	t->wide = side(t->r);
	t->high = side(t->w);
	while (t->wide * t->high < points && t->wide % SIDE == 0)
		t->wide *= 2;
	while (t->wide * t->high < points && t->high % SIDE == 0)
		t->high *= 2;
	t->row = t->wide | 1;
}

/* Elements of one access of BUF at AT along IT, of which the tile has SIZE. */
static int pack_along(const Turn *t, const Buf *buf, Expr *at, const Iter *it, int64_t size)
{
	enum { MOST = 4 };
	Ctx *c = t->p->k->ctx;
	int pack = PACK_BYTES / bytes_of(buf) < MOST ? PACK_BYTES / bytes_of(buf) : MOST;
	Affine a;

	return size % pack == 0 && dim_multiple(c, it->extent, pack) && ex_affine(c, at, &a) &&
			       affine_aligned(c, &a, it, pack)
		       ? pack
		       : 1;
}

/*
 * The tile's points, shared out between the threads: INNER, of SIZE points from LO on, PACK at a time, and OUTER, of
 * OSIZE from OLO on. What follows is done at each that exists; *GUARD says where, *VECTOR is the loop over one access,
 * or null. Neighbours go along INNER for SIDE points and then along OUTER.
 */
static LNode *open_tile(Turn *t, Iter *inner, int64_t size, Expr *lo, Iter *outer, int64_t osize,
			Expr *olo, int pack, Expr **guard, LNode **vector)
{
	LBuild *b = t->b;
	Ctx *c = b->k->ctx;
	const int64_t few = (size % SIDE ? size : SIDE) / pack, all = size / pack * osize;
	Iter *at = l_iter(b, "t", dim_const(c, all)),
	     *v = l_iter(b, "v", dim_const(c, size / pack)),
	     *o = l_iter(b, "o", dim_const(c, osize));
	LNode *loop = l_loop(b, LOOP_TEAM, at, l_int(b, 0), l_int(b, all), 1);
	Expr *x = ex_iter(b->p, at), *hi, *end = ex_dim(b->p, inner->extent),
	     *oend = ex_dim(b->p, outer->extent);
	Expr *q = ex_op2(b->p, IN_floordiv, x, l_int(b, few));

	l_let(b, v,
	      ex_add(b->p, ex_op2(b->p, IN_mod, x, l_int(b, few)),
		     ex_mul(b->p, ex_op2(b->p, IN_floordiv, x, l_int(b, few * osize)),
			    l_int(b, few))));
	l_let(b, o, size / pack == few ? q : ex_op2(b->p, IN_mod, q, l_int(b, osize)));
	olo = ex_add(b->p, olo, ex_iter(b->p, o));
	l_let(b, outer, olo);
	lo = ex_add(b->p, lo, ex_mul(b->p, ex_iter(b->p, v), l_int(b, pack)));
	*vector = NULL;
	/* Of the places, not of the iterators, which are known to be inside. */
	*guard = dim_multiple(c, outer->extent, osize) ? NULL : ex_op2(b->p, IN_lt, olo, oend);
	if (pack == 1) {
		l_let(b, inner, lo);
		if (!dim_multiple(c, inner->extent, size))
			*guard = ex_and(b->p, *guard, ex_op2(b->p, IN_lt, lo, end));
		return loop;
	}
	hi = ex_add(b->p, lo, l_int(b, pack));
	if (!dim_multiple(c, inner->extent, size))
		hi = l_min(b, hi, end);
	if (*guard)
		hi = ex_op3(b->p, IN_select, *guard, hi, lo);
	*guard = NULL;
	*vector = l_loop(b, LOOP_VECTOR, inner, lo, hi, 1);
	(*vector)->pack = pack;
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
	Dim *total = dim_const(c, 1), *cells = dim_const(c, t->row * t->high);
	Staged staged = {t, tile};
	Expr *guard, *val;
	LNode *loop, *vector;
	int n = 0;

	for (int i = 0; i < t->p->n; i++)
		if (t->p->it[i] != t->r && t->p->it[i] != t->w)
			outer[n++] = t->p->it[i];
	outer[n++] = l_iter(b, "down", dim_ceildiv(c, t->w->extent, dim_const(c, t->high)));
	outer[n++] = l_iter(b, "across", dim_ceildiv(c, t->r->extent, dim_const(c, t->wide)));
	for (int i = 0; i < n; i++)
		total = dim_mul(c, total, outer[i]->extent);
	l_of(b, s);
	l_stage(b, "turn", total, 1);
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
		Expr *at = t->load[i]->load.idx[0];

		loop = open_tile(t, t->r, t->wide, t->r0, t->w, t->high, t->w0,
				 pack_along(t, t->load[i]->load.buf, at, t->r, t->wide), &guard,
				 &vector);
		l_store(b, tile[i], in_tile(t), t->load[i], guard);
		close_tile(t, loop, vector);
	}
	loop = open_tile(t, t->w, t->high, t->w0, t->r, t->wide, t->r0,
			 pack_along(t, s->out[0], t->p->write, t->w, t->high), &guard, &vector);
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
	shape(&t);
	if (t.row * t.high > MOST_TILE || t.n * t.row * t.high * 8 > SHARED)
		return false;
	emit(&t, s);
	return true;
}
