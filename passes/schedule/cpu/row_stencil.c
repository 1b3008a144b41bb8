/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stencils of the row strategy along a band iterator that is not the vector one: depthwise
 * convolutions and pools over channels that are innermost. The stage takes that iterator, w, in
 * tiles. A few adjacent points share their loads and keep their states in registers:
 *
 *   for w in the tile, inside, by 4
 *     for v
 *       4 states; all taps, unrolled; 4 stores
 *
 * Of more than MOST_TAPS taps, those of the innermost iterators are unrolled, and loops go over the
 * others, with states in a local row as below.
 *
 * Short maps that follow, such as a bias and an activation, are computed at these stores, instead
 * of in loops of their own over a local that holds the tile.
 *
 * A guard never stands inside the loop over v. There the C compiler would load under a mask, from
 * addresses outside of the input where the mask is empty. Such loads are slow where the page is
 * not mapped, and where the processor has no cheap masks. Instead,
 *
 *   - near the ends of w, which are constants as a rule, the points are unrolled, and the taps
 *     that are outside of the input are left out: a group of points from column 0 on, for example,
 *   - a guard of other iterators bounds loops over their taps, outside of v:
 *
 *   for w in the tile, inside, by 4
 *     for v: 4 states to a local row each
 *     for r0, the taps along h, in bounds
 *       for v: 4 states; all taps along w, unrolled
 *     for v: 4 stores
 *
 * If the extent of w is a symbol, the points near its ends are taken one by one, and each
 * iterator of the taps has such bounds.
 */
#include "passes/schedule/cpu/row_impl.h"

#include "base/round.h"

#include <assert.h>

int row_stencil_iter(const Row *r)
{
	int band = -1, axis = -1; /* the slid iterator in the innermost dim so far, and that dim */

	if (r->vec < 0)
		return -1;
	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i];

		if (row_packed(s))
			return -1;
		if (!row_taps(s))
			continue;
		STMT_EACH_LOAD (x, s)
			for (int d = 0; d < x->load.nidx; d++) {
				Expr *e = x->load.idx[d];

				if (!expr_has_any(e, s->iter + s->nband, s->niters - s->nband))
					continue;
				for (int b = 0; b < r->band->n; b++) {
					if (!expr_has_iter(e, r->band->of[s->id][b]))
						continue;
					if (b == r->vec) /* it slides along the vectors */
						return -1;
					if (buf_axis(x->load.buf, d) > axis) {
						axis = buf_axis(x->load.buf, d);
						band = b;
					}
				}
			}
	}
	return band;
}

/* The condition that G holds for all taps of S (guard_for_all). */
static Expr *for_all_taps(Row *r, const Stmt *s, Expr *g, bool *ok)
{
	return guard_for_all(r->k, g, s->iter + s->nband, s->niters - s->nband, ok);
}

/* Returns the conjuncts of G without W; those with W go to *OF. */
static Expr *apart(ExprPool *p, Expr *g, const Iter *w, Expr **of)
{
	if (!g)
		return NULL;
	if (g->kind == EX_INST && g->op.inst == IN_and) {
		Expr *a = apart(p, g->op.arg[0], w, of), *b = apart(p, g->op.arg[1], w, of);

		return a && b ? ex_and(p, a, b) : a ? a : b;
	}
	if (!expr_has_iter(g, w))
		return g;
	*of = *of ? ex_and(p, *of, g) : g;
	return NULL;
}

static void set_w(Row *r, Expr *w)
{
	r->as[r->tile] = r->pos[r->tile] = w;
}

/* ---- The statements after a stencil ---- */

/* S is a map of one value for each point of the stencil FIRST. What FIRST and the statements
 * between have written it reads at its own point: it is parallel over the iterators of the band
 * that they have in common. */
static bool maps_points(const Row *r, const Stmt *s, const Stmt *first)
{
	if (s->red || s->guard || s->ordered || s->nout != 1 || row_packed(s) ||
	    expr_can_fault(s->val[0]) || s->niters != first->nband)
		return false;
	for (int i = 0; i < s->niters; i++)
		if (band_index(r->band, s, s->iter[i]) < 0)
			return false;
	return true;
}

int row_stencil_through(const Row *r, const Stmt *s)
{
	if (s->nout != 1 || !r->how[s->id].hold || !row_may_hold(r, s, s->out[0]) ||
	    !stmts_are_short(r->k, s->id + 1, r->last))
		return s->id;
	for (int i = s->id + 1; i <= r->last; i++)
		if (!maps_points(r, r->k->stmts.at[i], s))
			return s->id;
	return r->last;
}

/* Declares a variable for the result of S at one point, if it is not stored. */
static void hold_point(Row *r, Stmt *s)
{
	Buf *t = s->out[0];

	if (!r->how[s->id].hold || (!r->local[t->id] && !row_may_hold(r, s, t)))
		return;
	for (int d = 0; d < t->rank; d++)
		r->keep[t->id][d] = KEEP_NOT;
	r->local[t->id] = l_temp(r->b, t->name, t->dtype, NULL);
}

/* Stores the states ACC at IDX of S, and the results of the maps after it up to statement
 * THROUGH at that point. */
static void store_through(Row *r, Stmt *s, int through, Buf *const *acc, Expr *idx)
{
	if (through > s->id)
		hold_point(r, s);
	row_store_state(r, s, acc, idx);
	for (int i = s->id + 1; i <= through; i++) {
		Stmt *m = r->k->stmts.at[i];
		Expr *at;
		Buf *out;

		row_begin(r, m);
		hold_point(r, m);
		at = row_write_index(r, m, 0, &out);
		row_does(r, l_store(r->b, out, at, row_placed(r, m->val[0]), NULL), m, PART_WRITE, m->nband,
			 NULL);
	}
	row_begin(r, s);
}

/* ---- The stencil ---- */

/* A stencil that is being emitted. */
typedef struct ChannelStencil {
	Row *r;
	Stmt *s;
	Iter *w;
	int through;                /* the last statement that is emitted with it */
	int side;                   /* adjacent points that share their loads */
	Expr *along, *rest;         /* the guard: conjuncts with w, and without; or null */
	Expr *all_along, *all_rest; /* that they hold for all taps; or null */
	/* the innermost reduced iterators that have TAPS points together, at most MOST_TAPS;
	 * unrolled unless a guard bounds them */
	bool unrolled[MAX_ITERS];
	int64_t taps;
} ChannelStencil;

/* SIDE points from W on. UNROLLED says which of the reduced iterators are unrolled inside the loop
 * over v. GUARD is that of the other ones. TESTED, unless null, is constant in each unrolled
 * tap. */
typedef struct ColumnGroup {
	Expr *w;
	int side;
	bool unrolled[MAX_ITERS];
	Expr *guard, *tested;
} ColumnGroup;

static void open_v(Row *r, Nest *n)
{
	Iter *v = r->rep[r->vec];

	row_open(r, n, l_short(v->extent) ? LOOP_SHORT : LOOP_VECTOR, v, r->vlo, r->vhi);
}

/* Returns the conjuncts of G that have none of the reduced iterators of S from I on; the other ones
 * go to *LATER. */
static Expr *without_from(ExprPool *p, const Stmt *s, Expr *g, int i, Expr **later)
{
	for (; g && i < s->niters; i++) {
		Expr *of = NULL;

		g = apart(p, g, s->iter[i], &of);
		*later = ex_and(p, *later, of);
	}
	return g;
}

/* Opens loops over the reduced iterators of which UNROLLED says MINE, in the bounds that GUARD
 * gives them. Each conjunct bounds the last of its iterators. */
static void open_taps(const ChannelStencil *t, const ColumnGroup *g, bool mine, Expr *guard,
		      Nest *n)
{
	Row *r = t->r;
	Stmt *s = t->s;

	for (int i = s->nband; i < s->niters; i++) {
		Expr *lo = l_int(r->b, 0), *hi = row_extent(r, s->iter[i]), *later = NULL;

		guard_to_range(r->k, without_from(r->k->pool, s, guard, i + 1, &later), s->iter[i],
			       &lo, &hi);
		guard = later;
		if (g->unrolled[i] == mine)
			row_open(r, n, mine ? LOOP_UNROLL : LOOP_SERIAL, s->iter[i], lo, hi);
	}
}

/* Combines the taps that loops N are over with the state at AT. */
static void emit_tap(const ChannelStencil *t, Buf *const *acc, Expr *at)
{
	Expr *val[2] = {row_placed(t->r, t->s->val[0]), NULL};

	row_does(t->r, row_state_node(t->r, LN_UPDATE, t->s, acc, at, val, NULL), t->s, PART_TERM,
		 t->s->niters, NULL);
}

typedef enum ColumnPart { INIT, TAPS, STORE } ColumnPart;

/* Emits PART for all columns of G. The state of column u is at u*STEP + AT. */
static void emit_part(const ChannelStencil *t, const ColumnGroup *g, ColumnPart part,
		      Buf *const *acc, int step, Expr *at)
{
	Row *r = t->r;
	ExprPool *p = r->k->pool;
	Iter *u = l_iter(r->b, "u", dim_const(r->k->ctx, g->side));
	const bool apart_taps = part == TAPS && g->tested, loop = !apart_taps && g->side > 1;
	Nest n = {.n = 0};

	if (part == TAPS && !apart_taps)
		open_taps(t, g, true, NULL, &n);
	if (loop)
		row_open(r, &n, LOOP_UNROLL, u, l_int(r->b, 0), l_int(r->b, g->side));
	for (int j = 0; j < (apart_taps ? g->side : 1); j++) {
		Expr *side = loop ? ex_iter(p, u) : l_int(r->b, j), *w = ex_add(p, g->w, side),
		     *state = ex_add(p, at, ex_mul(p, side, l_int(r->b, step)));

		set_w(r, w);
		if (apart_taps)
			open_taps(t, g, true, ex_subst_iters(p, g->tested, &t->w, &w, 1), &n);
		if (part == INIT)
			row_init_state(r, t->s, acc, state);
		else if (part == STORE)
			store_through(r, t->s, t->through, acc, state);
		else
			emit_tap(t, acc, state);
		if (apart_taps)
			row_close(r, &n);
	}
	row_close(r, &n);
	set_w(r, ex_iter(p, t->w));
}

static void emit_in_registers(const ChannelStencil *t, const ColumnGroup *g)
{
	Row *r = t->r;
	Expr *zero = l_int(r->b, 0);
	Nest n = {.n = 0};
	Buf *acc[2];

	open_v(r, &n);
	row_declare_state(r, t->s, acc, dim_const(r->k->ctx, g->side));
	for (ColumnPart part = INIT; part <= STORE; part++)
		emit_part(t, g, part, acc, 1, zero);
	row_close(r, &n);
}

static void emit_in_rows(const ChannelStencil *t, const ColumnGroup *g)
{
	Row *r = t->r;
	ExprPool *p = r->k->pool;
	Expr *at = ex_sub(p, ex_iter(p, r->rep[r->vec]), r->v0), *guard = NULL, *uniform;
	Nest n = {.n = 0};
	Buf *acc[2];

	row_declare_state(r, t->s, acc, dim_const(r->k->ctx, g->side * r->block));
	for (ColumnPart part = INIT; part <= STORE; part++) {
		if (part == TAPS &&
		    (uniform = without_from(p, t->s, g->guard, t->s->nband, &guard)))
			n.loop[n.n++] = l_where(r->b, uniform);
		if (part == TAPS)
			open_taps(t, g, false, guard, &n);
		open_v(r, &n);
		emit_part(t, g, part, acc, (int)r->block, at);
		row_close(r, &n);
	}
}

/* Computes the points W in [LO, HI), SIDE at a time. Their guard is GUARD; TESTED is constant in
 * each tap of the points from COLUMN on, unless null. */
static void emit_points(const ChannelStencil *t, Expr *lo, Expr *hi, int side, Expr *guard,
			Expr *tested, Expr *column)
{
	Row *r = t->r;
	const Stmt *s = t->s;
	ColumnGroup g = {column ? column : ex_iter(r->k->pool, t->w), side, {false}, guard, tested};
	Nest n = {.n = 0};
	bool all = true;

	for (int i = s->nband; i < s->niters; i++) {
		g.unrolled[i] = t->unrolled[i] && (!guard || !expr_has_iter(guard, s->iter[i]));
		all = all && g.unrolled[i];
	}
	row_open(r, &n, LOOP_SERIAL, t->w, lo, hi);
	n.loop[0]->loop.step = side;
	if (guard || !all)
		emit_in_rows(t, &g);
	else
		emit_in_registers(t, &g);
	row_close(r, &n);
}

/* Names E, a bound of the tiled iterator: 0 to its extent, inclusive. */
static Expr *let(Row *r, const char *name, Expr *e)
{
	Ctx *c = r->k->ctx;
	Iter *it;

	if (e->kind == EX_CONST || e->kind == EX_ITER)
		return e;
	it = l_iter(r->b, name, dim_add(c, r->rep[r->tile]->extent, dim_const(c, 1)));
	l_let(r->b, it, e);
	return ex_iter(r->k->pool, it);
}

/* The points of W in [LO, HI), whose number is a multiple of SIDE: all taps are inside
 * along w. */
static void emit_inside(const ChannelStencil *t, Expr *lo, Expr *hi)
{
	ExprPool *p = t->r->k->pool;

	lo = let(t->r, "inside", lo);
	hi = let(t->r, "outside", hi);
	if (t->all_rest) {
		emit_points(t, lo, ex_op3(p, IN_select, t->all_rest, hi, lo), t->side, NULL, NULL,
			    NULL);
		lo = ex_op3(p, IN_select, t->all_rest, hi, lo);
	}
	emit_points(t, lo, hi, t->side, t->rest, NULL, NULL);
}

/* The points of W in [LO, HI), constant columns, in groups. */
static void emit_columns(const ChannelStencil *t, int64_t lo, int64_t hi)
{
	Row *r = t->r;

	for (int64_t c = lo; c < hi; c += t->side) {
		const int side = hi - c < t->side ? (int)(hi - c) : t->side;

		emit_points(t, l_max(r->b, r->tlo, l_int(r->b, c)),
			    l_min(r->b, r->thi, l_int(r->b, c + 1)), side, t->rest, t->along,
			    l_int(r->b, c));
	}
}

/* Whether the taps of column C that are inside along w are known here: there are some, and in each
 * conjunct of that guard nothing is left but one iterator that the group unrolls. */
static bool known_by_column(const ChannelStencil *t, int64_t c)
{
	ExprPool *p = t->r->k->pool;
	Stmt *s = t->s;
	Expr *zero = l_int(t->r->b, 0), *column = l_int(t->r->b, c),
	     *g = t->along ? ex_subst_iters(p, t->along, &t->w, &column, 1) : NULL;

	for (int i = s->nband; i < s->niters; i++) {
		Expr *lo = zero, *hi = row_extent(t->r, s->iter[i]), *of = NULL;

		g = g ? apart(p, g, s->iter[i], &of) : NULL;
		if (of && (!t->unrolled[i] || (t->rest && expr_has_iter(t->rest, s->iter[i])) ||
			   guard_to_range(t->r->k, of, s->iter[i], &lo, &hi) ||
			   lo->kind != EX_CONST || hi->kind != EX_CONST || lo->i >= hi->i))
			return false;
	}
	return !g || (g->kind == EX_CONST && g->i);
}

static bool known_by_columns(const ChannelStencil *t, int64_t lo, int64_t hi)
{
	for (int64_t c = lo; c < hi; c++)
		if (!known_by_column(t, c))
			return false;
	return true;
}

/* Emits T if the extent of w is constant. Tiles begin at multiples of SIDE, so groups of
 * that many columns are each in one tile. */
static bool emit_by_columns(const ChannelStencil *t)
{
	enum { MOST = 512 }; /* taps in unrolled groups: larger code does not pay */
	Row *r = t->r;
	Expr *lo = l_int(r->b, 0), *hi = row_extent(r, t->w);
	int64_t from, to, n;

	if (!dim_is_const(t->w->extent, &n) || guard_to_range(r->k, t->all_along, t->w, &lo, &hi) ||
	    lo->kind != EX_CONST || hi->kind != EX_CONST)
		return false;
	from = round_up(lo->i, t->side);
	to = hi->i / t->side * t->side;
	if (from >= to)
		from = to = 0;
	if ((from + n - to) * t->taps > MOST || !known_by_columns(t, 0, from) ||
	    !known_by_columns(t, to, n))
		return false;
	emit_columns(t, 0, from);
	if (from < to)
		emit_inside(t, l_max(r->b, r->tlo, l_int(r->b, from)),
			    l_min(r->b, r->thi, l_int(r->b, to)));
	emit_columns(t, to, n);
	return true;
}

/* Emits T for a range of w that is known at run time. */
static void emit_by_bounds(const ChannelStencil *t, Expr *guard)
{
	Row *r = t->r;
	LBuild *b = r->b;
	ExprPool *p = r->k->pool;
	Expr *lo = r->tlo, *hi = r->thi, *many;

	guard_to_range(r->k, t->all_along, t->w, &lo, &hi);
	if (lo != r->tlo) {
		lo = let(r, "inside", l_min(b, lo, r->thi));
		emit_points(t, r->tlo, lo, 1, guard, NULL, NULL);
	}
	many = ex_op2(p, IN_floordiv, l_max(b, ex_sub(p, hi, lo), l_int(b, 0)), l_int(b, t->side));
	hi = let(r, "outside", ex_add(p, lo, ex_mul(p, l_int(b, t->side), many)));
	emit_inside(t, lo, hi);
	emit_points(t, hi, r->thi, 1, guard, NULL, NULL);
}

static void find_unrolled(ChannelStencil *t)
{
	const Stmt *s = t->s;
	int64_t n;

	t->taps = 1;
	for (int i = s->niters - 1; i >= s->nband; i--) {
		if (!dim_is_const(s->iter[i]->extent, &n) || t->taps * n > MOST_TAPS)
			return;
		t->taps *= n;
		t->unrolled[i] = true;
	}
}

/* Finds out T and the guard of S; false if S is not a stencil along the tile. */
static bool find_stencil(Row *r, Stmt *s, ChannelStencil *t, Expr **guard)
{
	Expr *lo, *hi;
	bool ok = r->tile >= 0 && row_taps(s) > 0;

	if (!ok)
		return false;
	*t = (ChannelStencil){
		.r = r, .s = s, .w = r->rep[r->tile], .side = (int)r->how[s->id].points};
	find_unrolled(t);
	*guard = row_placed(r, s->guard);
	for (int i = 0; i < s->nband && ok; i++)
		ok = row_is_fixed(r, s->iter[i]) || s->iter[i] == r->band->of[r->s->id][r->vec] ||
		     s->iter[i] == r->band->of[r->s->id][r->tile];
	t->rest = apart(r->k->pool, *guard, t->w, &t->along);
	/* each by itself: where one never holds for all taps, the other still bounds w */
	t->all_rest = for_all_taps(r, s, t->rest, &ok);
	t->all_along = for_all_taps(r, s, t->along, &ok);
	if (!ok || (*guard && expr_has_iter(*guard, r->rep[r->vec])))
		return false;
	lo = r->tlo;
	hi = r->thi;
	return !guard_to_range(r->k, t->all_along, t->w, &lo, &hi);
}

bool row_is_stencil(Row *r, Stmt *s)
{
	Expr *guard;
	ChannelStencil t;

	return find_stencil(r, s, &t, &guard);
}

void row_emit_stencil(Row *r, Stmt *s, int through)
{
	Expr *guard;
	ChannelStencil t;
	const bool fits = find_stencil(r, s, &t, &guard);

	assert(fits);
	t.through = through;
	if (!emit_by_columns(&t))
		emit_by_bounds(&t, guard);
}
