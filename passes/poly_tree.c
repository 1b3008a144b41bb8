/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop tree as executions: for each node that carries out part of a statement, the loops around it, their
 * bounds, and the point, all over fresh iterators, a loop each; what LETs name is put in.
 *
 * A stage's loop runs over several iterators as one: p mod N and p div N. With N a size that is not affine;
 * but where p runs from 0 to a multiple of N, (p div N, p mod N) is any pair within its ranges, each once and
 * in order, so p is split into two axes.
 */
#include "passes/poly_impl.h"

typedef struct Bind {
	const Iter *var;
	Expr *is;
} Bind;

typedef struct Walk {
	Poly *p;
	VEC(Bind) env; /* the last one counts */
	VEC(Bound) loops;
	VEC(AxisKind) kinds;
	int order;
	bool unbound;
} Walk;

static Iter *fresh(Poly *p, const char *name, Dim *extent)
{
	Iter *it = NEW(p->arena, Iter);

	*it = (Iter){.name = name, .extent = extent, .id = -1};
	return it;
}

/* ---- Splits ---- */

static Dim *as_dim(Poly *p, const Expr *e)
{
	return e->kind == EX_DIM ? e->dim : e->kind == EX_CONST ? dim_const(p->ctx, e->i) : NULL;
}

/* X as Q*N + R: null where it is not split so and cannot be. */
static const Split *split(Poly *p, Iter *x, Dim *n)
{
	const Split *old = poly_split_of(p, x);
	Split s = {.x = x, .n = n};
	Dim *many;
	int64_t v;

	if (old)
		return old->n == n ? old : NULL;
	if (x->id != -1 || (dim_is_const(n, &v) && v <= 0) ||
	    !dim_divides(p->ctx, x->extent, n, &many))
		return NULL;
	s.q = fresh(p, x->name, many);
	s.r = fresh(p, x->name, n);
	vec_push(p->arena, &p->splits, s);
	return &vec_last(&p->splits);
}

enum {
	NOT_FREE = -2
}; /* Iter.id of a loop that does not run over all of its extent; -1: of one that does */

static Expr *bound_to(void *arg, Expr *e)
{
	Walk *w = arg;

	if (e->kind == EX_ITER && e->iter->id >= 0) {
		for (int i = w->env.n - 1; i >= 0; i--)
			if (w->env.at[i].var == e->iter)
				return w->env.at[i].is;
		w->unbound = true;
	}
	if (e->kind == EX_INST && (e->op.inst == IN_floordiv || e->op.inst == IN_mod) &&
	    e->op.arg[0]->kind == EX_ITER) {
		Dim *n = as_dim(w->p, e->op.arg[1]);
		const Split *s = n ? split(w->p, e->op.arg[0]->iter, n) : NULL;

		return s ? ex_iter(w->p->pool, e->op.inst == IN_mod ? s->r : s->q) : NULL;
	}
	return NULL;
}

static Expr *resolve(Walk *w, Expr *e)
{
	return e ? ex_rewrite(w->p->pool, e, bound_to, w) : NULL;
}

/* ---- Nodes ---- */

static void bind(Walk *w, const Iter *var, Expr *is)
{
	Bind b = {var, is};

	vec_push(w->p->arena, &w->env, b);
}

static void push_loop(Walk *w, const Iter *var, AxisKind kind, Expr *lo, Expr *hi, int64_t step,
		      Dim *extent)
{
	Bound b = {.lo = lo, .hi = hi, .step = step};
	Dim *end = as_dim(w->p, hi), *from = as_dim(w->p, lo);

	b.full = step == 1 && end && from && dim_equals(from, 0);
	b.it = fresh(w->p, var->name, b.full ? end : extent);
	if (!b.full)
		b.it->id = NOT_FREE;
	vec_push(w->p->arena, &w->loops, b);
	vec_push(w->p->arena, &w->kinds, kind);
	bind(w, var, ex_iter(w->p->pool, b.it));
}

static void pop_to(Walk *w, int loops, int env)
{
	w->loops.n = w->kinds.n = loops;
	w->env.n = env;
}

static Exec *exec(Walk *w, const LNode *n, LPart part, int order)
{
	Poly *p = w->p;
	Exec *e = NEW(p->arena, Exec);

	*e = (Exec){.stmt = n->stmt,
		    .comp = n->comp,
		    .order = order,
		    .part = part,
		    .node = n,
		    .nat = n->nat};
	for (int i = 0; i < w->loops.n; i++) {
		Axis a = {w->loops.at[i].it, w->loops.at[i].it, w->kinds.at[i]};

		vec_push(p->arena, &e->bound, w->loops.at[i]);
		vec_push(p->arena, &e->axis, a);
	}
	e->at = NEW_ARRAY(p->arena, n->nat + 1, Expr *);
	w->unbound = false;
	for (int i = 0; i < n->nat; i++)
		e->at[i] = resolve(w, n->at[i]);
	if (w->unbound)
		poly_wrong(p, "statement %d is done at a point over an iterator that no loop runs",
			   n->stmt);
	if (n->guard)
		vec_push(p->arena, &e->guard, resolve(w, n->guard));
	e->buf[0] = n->buf[0];
	e->buf[1] = n->buf[1];
	e->idx = resolve(w, n->idx);
	vec_push(p->arena, &p->execs, e);
	return e;
}

static void reduce(Walk *w, const LNode *n)
{
	int loops = w->loops.n, env = w->env.n;

	push_loop(w, n->var, AXIS_ANY, resolve(w, n->lo), resolve(w, n->hi), 1, n->var->extent);
	exec(w, n, PART_TERM, w->order);
	pop_to(w, loops, env);
}

static void folds(Walk *w, const LNode *n)
{
	Iter *const it[] = {n->fold->row, n->fold->col};
	const int many[] = {n->fold->rows, n->fold->cols};
	int loops = w->loops.n, env = w->env.n;

	for (int i = 0; i < 2; i++)
		push_loop(w, it[i], AXIS_PARALLEL, ex_int(w->p->pool, CT_I64, 0),
			  ex_int(w->p->pool, CT_I64, many[i]), 1, it[i]->extent);
	reduce(w, n);
	pop_to(w, loops, env);
}

static bool written_elsewhere(const LNode *l, int stmt)
{
	for (; l; l = l->next)
		if ((l->stmt == stmt && l->part == PART_WRITE) || written_elsewhere(l->body, stmt))
			return true;
	return false;
}

static void tile_part(Walk *w, const LNode *n, LPart part, int order)
{
	Poly *p = w->p;
	const Tile *t = n->tile;
	const Stmt *s = p->k->stmts.at[n->stmt];
	int loops = w->loops.n, env = w->env.n;
	Expr *zero = ex_int(p->pool, CT_I64, 0);
	Exec *e;

	push_loop(w, t->row, AXIS_ANY, zero, resolve(w, t->m_valid), 1, t->row->extent);
	push_loop(w, t->col, AXIS_ANY, zero, resolve(w, t->n_valid), 1, t->col->extent);
	if (t->depth && part == PART_TERM)
		push_loop(w, t->depth, AXIS_ANY, zero, resolve(w, t->k), 1, t->depth->extent);
	for (int i = s->nband; i < s->niters && part == PART_TERM && !t->depth; i++)
		if (n->at[i]->kind == EX_ITER)
			push_loop(w, n->at[i]->iter, AXIS_ANY, zero,
				  ex_dim(p->pool, n->at[i]->iter->extent), 1,
				  n->at[i]->iter->extent);
	if (part == PART_TERM) {
		e = exec(w, n, part, order);
	} else {
		LNode band = *n;

		band.nat = s->nband;
		e = exec(w, arena_copy(p->arena, &band, sizeof band), part, order);
	}
	e->buf[0] = t->acc;
	e->idx = ex_add(p->pool,
			ex_mul(p->pool, ex_iter(p->pool, w->loops.at[loops].it),
			       ex_int(p->pool, CT_I64, t->nr)),
			ex_iter(p->pool, w->loops.at[loops + 1].it));
	e->idx = ex_add(p->pool, resolve(w, t->acc_at), e->idx);
	pop_to(w, loops, env);
}

/* A tile starts its state unless it adds to it; where nothing stores the result, the tile holds it. */
static void tile(Walk *w, const LNode *n)
{
	bool stored = false;

	for (int i = 0; i < w->p->s->stages.n; i++)
		stored = stored || written_elsewhere(w->p->s->stages.at[i]->body, n->stmt);
	if (!n->tile->accumulate)
		tile_part(w, n, PART_INIT, w->order);
	tile_part(w, n, PART_TERM, w->order + 1);
	if (!stored && !n->tile->partial)
		tile_part(w, n, PART_WRITE, w->order + 2);
	w->order += 2;
}

/* PART for each element of a block's tile, and each term that the ring's round adds to it; or of a strip of it. */
static void product(Walk *w, const LNode *n, const Mma *m, LPart part)
{
	Poly *p = w->p;
	int loops = w->loops.n, env = w->env.n;
	Iter *const it[] = {n->kind == LN_DRAIN ? n->var : m->row, m->col, m->depth};
	Exec *e;

	for (int i = 0; i < (part == PART_TERM ? 3 : 2); i++)
		push_loop(w, it[i], AXIS_ANY, ex_int(p->pool, CT_I64, 0),
			  ex_dim(p->pool, it[i]->extent), 1, it[i]->extent);
	e = exec(w, n, part, w->order);
	e->buf[0] = n->kind == LN_DRAIN ? n->buf[0] : m->acc;
	e->idx = ex_add(p->pool,
			ex_mul(p->pool, ex_iter(p->pool, w->loops.at[loops].it),
			       ex_int(p->pool, CT_I64, n->kind == LN_DRAIN ? n->step : m->bn)),
			ex_iter(p->pool, w->loops.at[loops + 1].it));
	pop_to(w, loops, env);
}

static bool is_local(const Poly *p, const Buf *b)
{
	for (int i = 0; i < p->locals.n; i++)
		if (p->locals.at[i].buf == b)
			return true;
	return false;
}

static void local(Walk *w, const Buf *b)
{
	Local l = {.buf = b, .nloops = w->loops.n};

	l.loop = NEW_ARRAY(w->p->arena, l.nloops + 1, const Iter *);
	for (int i = 0; i < l.nloops; i++)
		l.loop[i] = w->loops.at[i].it;
	vec_push(w->p->arena, &w->p->locals, l);
}

static void walk(Walk *w, const LNode *n)
{
	Poly *p = w->p;
	int env = w->env.n;

	for (; n; n = n->next) {
		int loops = w->loops.n, inner = w->env.n;

		w->order++;
		if (n->part != PART_NONE && (n->stmt < 0 || n->stmt >= p->k->stmts.n)) {
			poly_wrong(p, "a node does part of statement %d, which is none", n->stmt);
			continue;
		}
		switch (n->kind) {
		case LN_LOOP:
			push_loop(w, n->var,
				  n->loop == LOOP_SERIAL || n->loop == LOOP_UNROLL ? AXIS_SERIAL
										   : AXIS_PARALLEL,
				  resolve(w, n->lo), resolve(w, n->hi), n->step, n->var->extent);
			walk(w, n->body);
			pop_to(w, loops, inner);
			break;
		case LN_LET: bind(w, n->var, resolve(w, n->lo)); break;
		case LN_LOCAL:
			local(w, n->buf[0]);
			if (n->part == PART_INIT)
				product(w, n, n->mma, PART_INIT);
			break;
		case LN_RING:
			push_loop(w, n->var, AXIS_SERIAL, resolve(w, n->lo), resolve(w, n->hi), 1,
				  n->var->extent);
			walk(w, n->body);
			pop_to(w, loops, inner);
			break;
		case LN_MMA: product(w, n, n->mma, PART_TERM); break;
		case LN_FOLD: folds(w, n); break;
		case LN_DRAIN:
			if (n->part == PART_WRITE)
				product(w, n, n->mma, PART_WRITE);
			break;
		case LN_FILL: break; /* as packing: a copy of what the product reads */
		case LN_TILE:
		case LN_REDUCE:
			if (n->part != PART_TERM)
				poly_wrong(p, "a node combines terms and carries out no statement");
			else if (n->kind == LN_TILE)
				tile(w, n);
			else
				reduce(w, n);
			break;
		case LN_STORE:
		case LN_UPDATE:
			if (n->part != PART_NONE)
				exec(w, n, n->part, w->order);
			else if (!is_local(p, n->buf[0]))
				poly_wrong(p, "a node stores to %s and carries out no statement",
					   n->buf[0]->name);
			else
				vec_push(p->arena, &p->copies, n);
			break;
		}
	}
	w->env.n = env;
}

/* ---- As relations ---- */

/* The parts of axis A, outermost first. */
static void expand(Poly *p, Exec *e, Axis a)
{
	const Split *s = poly_split_of(p, a.it);

	if (s) {
		Iter *q = s->q, *r = s->r;

		expand(p, e, (Axis){q, a.loop, a.kind});
		expand(p, e, (Axis){r, a.loop, a.kind});
		return;
	}
	vec_push(p->arena, &e->axis, a);
}

/* Cuts SET to what axes FROM and after run over, where that is all of their extents. */
static bool cut_boxes(Poly *p, const Scope *sc, Exec *e, int from, isl_set **set)
{
	bool ok = true;

	for (int i = from; i < sc->n; i++) {
		Expr *x = ex_iter(p->pool, sc->it[i]);

		if (sc->it[i]->id != -1)
			continue;
		ok = poly_at_least(p, sc, set, x, ex_int(p->pool, CT_I64, 0)) && ok;
		ok = poly_below(p, sc, set, x, ex_dim(p->pool, sc->it[i]->extent), &e->odd) && ok;
	}
	return ok;
}

static bool cut_bound(Poly *p, const Scope *sc, Exec *e, const Bound *b, isl_set **set)
{
	Expr *x = ex_iter(p->pool, b->it), *off;
	bool ok = poly_at_least(p, sc, set, x, b->lo);

	ok = poly_below(p, sc, set, x, b->hi, &e->odd) && ok;
	if (b->step == 1)
		return ok;
	off = ex_op2(p->pool, IN_mod, ex_sub(p->pool, x, b->lo), ex_int(p->pool, CT_I64, b->step));
	return !poly_guard(p, sc, set, ex_op2(p->pool, IN_eq, off, ex_int(p->pool, CT_I64, 0))) &&
	       ok;
}

/* The axes up to the last loop of E that does not run over all of its extent: other executions share them. */
static isl_set *outer_axes(Poly *p, const Scope *all, Exec *e, int *naxes)
{
	int last = e->bound.n - 1, odd = e->odd;
	Scope sc = {all->it, 0};
	Outer o = {0};

	while (last >= 0 && e->bound.at[last].full)
		last--;
	if (last < 0)
		return poly_universe(p, *naxes = 0);
	o.last = e->bound.at[last].it;
	while (sc.it[sc.n++] != o.last)
		;
	*naxes = sc.n;
	for (int i = 0; i < p->outers.n && !o.set; i++)
		if (p->outers.at[i].last == o.last)
			o = p->outers.at[i];
	if (!o.set) {
		o.set = poly_universe(p, sc.n);
		o.weak = !cut_boxes(p, &sc, e, 0, &o.set);
		for (int i = 0; i <= last; i++)
			if (!e->bound.at[i].full)
				o.weak = !cut_bound(p, &sc, e, &e->bound.at[i], &o.set) || o.weak;
		o.odd = e->odd - odd;
		o.set = isl_set_coalesce(isl_set_intersect_params(o.set, poly_context(p)));
		vec_push(p->arena, &p->outers, o);
	}
	e->odd = odd + o.odd;
	e->weak = e->weak || o.weak;
	return isl_set_copy(o.set);
}

static void relate(Poly *p, Exec *e)
{
	VEC(Axis) loops = {e->axis.at, e->axis.n, e->axis.cap};
	Iter **it;
	isl_set *set;
	Scope sc;
	int odd = 0, outer;

	memset(&e->axis, 0, sizeof e->axis);
	for (int i = 0; i < loops.n; i++)
		expand(p, e, loops.at[i]);
	it = NEW_ARRAY(p->arena, e->axis.n + 1, Iter *);
	for (int i = 0; i < e->axis.n; i++)
		it[i] = e->axis.at[i].it;
	sc = (Scope){it, e->axis.n};
	set = outer_axes(p, &sc, e, &outer);
	set = isl_set_add_dims(set, isl_dim_set, (unsigned)(sc.n - outer));
	e->weak = !cut_boxes(p, &sc, e, outer, &set) || e->weak;
	for (int i = 0; i < e->guard.n; i++)
		e->odd += poly_guard(p, &sc, &set, e->guard.at[i]);
	e->map = poly_map(p, &sc, set, e->at, e->nat, &odd);
	e->weak = (e->weak || odd) && isl_map_is_empty(e->map) != isl_bool_true;
}

/* ---- Coordinates ---- */

/* Where iterator A of S is the digit before iterator B = X mod N in execution E: 0 no, 1 A = X div N, which ends it,
 * 2 A = (X div N) mod its own extent. */
static int before(Poly *p, const Exec *e, const Stmt *s, int a, const Expr *y)
{
	Expr *mod;

	if (e->at[a] == y)
		return 1;
	mod = ex_op2(p->pool, IN_mod, (Expr *)(uintptr_t)y, ex_dim(p->pool, s->iter[a]->extent));
	return e->at[a] == mod ? 2 : 0;
}

/* The digits that end in iterator LAST, last first, with their flat number in *FLAT; 0 where LAST is no digit. */
static int digits_of(Poly *p, const Exec *e, const Stmt *s, int last, int *digit, Expr **flat)
{
	Expr *y = e->at[last];
	int n = 0, lo = last < s->nband ? 0 : s->nband;
	bool taken[MAX_ITERS] = {false};

	if (y->kind != EX_INST || y->op.inst != IN_mod ||
	    as_dim(p, y->op.arg[1]) != s->iter[last]->extent)
		return 0;
	*flat = y = y->op.arg[0];
	digit[n++] = last;
	taken[last] = true;
	for (;;) {
		int how = 0, a;

		y = ex_op2(p->pool, IN_floordiv, y, ex_dim(p->pool, s->iter[digit[n - 1]]->extent));
		for (a = lo; a < (last < s->nband ? s->nband : e->nat) && !how; a++)
			how = taken[a] ? 0 : before(p, e, s, a, y);
		if (!how)
			return 0;
		digit[n++] = a - 1;
		taken[a - 1] = true;
		if (how == 1)
			return n;
	}
}

/* The digits that end in LAST are the same in all executions of S. */
static int common_digits(Poly *p, const Stmt *s, int last, int *digit)
{
	int n = -1, other[MAX_ITERS];
	Expr *flat;

	for (int i = 0; i < p->execs.n; i++) {
		const Exec *e = p->execs.at[i];
		int m;

		if (e->stmt != s->id || last >= e->nat)
			continue;
		m = digits_of(p, e, s, last, n < 0 ? digit : other, &flat);
		if (m == 0 ||
		    (n >= 0 && (m != n || memcmp(digit, other, (size_t)n * sizeof *digit))))
			return 0;
		n = m;
	}
	return n < 0 ? 0 : n;
}

static void add_flat(Poly *p, Coords *c, const Stmt *s, const int *digit, int n)
{
	Dim *by = dim_const(p->ctx, 1);
	Iter *flat = fresh(p, s->iter[digit[0]]->name, by);

	c->first[c->n] = c->n ? c->first[c->n - 1] + c->ndigits[c->n - 1] : 0;
	c->ndigits[c->n] = n;
	for (int i = 0; i < n; i++) {
		const Iter *it = s->iter[digit[i]];
		Digit d = {it, flat, by, i + 1 < n ? it->extent : NULL};

		vec_push(p->arena, &p->digits, d);
		c->digit[c->first[c->n] + n - 1 - i] = it;
		by = dim_mul(p->ctx, by, it->extent);
	}
	flat->extent = by;
	c->it[c->n++] = flat;
}

static void find_coords(Poly *p, const Stmt *s, Coords *c)
{
	int digit[MAX_ITERS][MAX_ITERS], n[MAX_ITERS] = {0};
	bool inner[MAX_ITERS] = {false};

	for (int i = 0; i < s->niters && !s->ordered; i++) {
		n[i] = common_digits(p, s, i, digit[i]);
		for (int j = 1; j < n[i]; j++)
			inner[digit[i][j]] = true;
	}
	for (int i = 0; i < s->niters; i++) {
		if (n[i] && !inner[i]) {
			add_flat(p, c, s, digit[i], n[i]);
		} else if (!inner[i]) {
			c->first[c->n] = c->n ? c->first[c->n - 1] + c->ndigits[c->n - 1] : 0;
			c->ndigits[c->n] = 1;
			c->digit[c->first[c->n]] = s->iter[i];
			c->it[c->n++] = s->iter[i];
		}
		if (i + 1 == s->nband)
			c->nband = c->n;
	}
}

/* E's point in coordinates. */
static void place(Poly *p, Exec *e)
{
	const Stmt *s = p->k->stmts.at[e->stmt];
	const Coords *c = &p->coords[e->stmt];
	Expr **at = NEW_ARRAY(p->arena, c->n + 1, Expr *);
	int n = e->nat == s->niters ? c->n : e->nat == s->nband ? c->nband : -1, digit[MAX_ITERS];

	if (n < 0) {
		poly_wrong(p, "a part of statement %d is not done at a point of it", e->stmt);
		e->nat = 0;
		return;
	}
	for (int i = 0; i < n; i++)
		for (int j = 0; j < s->niters; j++) {
			if (s->iter[j] != c->digit[c->first[i] + c->ndigits[i] - 1])
				continue;
			at[i] = e->at[j];
			if (c->ndigits[i] > 1)
				digits_of(p, e, s, j, digit, &at[i]);
		}
	e->at = at;
	e->nat = n;
}

void poly_read_tree(Poly *p)
{
	Walk w = {.p = p};

	for (int i = 0; i < p->s->stages.n; i++) {
		Stage *st = p->s->stages.at[i];

		push_loop(&w, st->var, AXIS_PARALLEL, ex_int(p->pool, CT_I64, 0),
			  ex_dim(p->pool, st->extent), 1, st->extent);
		walk(&w, st->body);
		pop_to(&w, 0, 0);
	}
	p->coords = NEW_ARRAY(p->arena, p->k->stmts.n + 1, Coords);
	for (int i = 0; i < p->k->stmts.n; i++)
		find_coords(p, p->k->stmts.at[i], &p->coords[i]);
	for (int i = 0; i < p->execs.n; i++) {
		place(p, p->execs.at[i]);
		relate(p, p->execs.at[i]);
	}
}
