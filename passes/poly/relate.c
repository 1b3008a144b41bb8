/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Executions as relations from loop iterators to points of statements. Iterators of the tree that
 * are a div/mod split of one number are replaced by that number.
 */
#include "passes/poly/poly_impl.h"

/* ---- Relations ---- */

/* Appends the parts of axis A, outermost first. */
static void expand(Poly *p, Exec *e, SetAxis a)
{
	const Split *s = poly_split_of(p, a.it);

	if (s) {
		Iter *q = s->q, *r = s->r;

		expand(p, e, (SetAxis){q, a.loop, a.kind});
		expand(p, e, (SetAxis){r, a.loop, a.kind});
		return;
	}
	vec_push(p->arena, &e->axis, a);
}

/* Limits axes FROM and later of SET to [0, extent), except loops with bounds of their own. */
static bool cut_boxes(Poly *p, const SetDims *sc, Exec *e, int from, isl_set **set)
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

static bool cut_bound(Poly *p, const SetDims *sc, Exec *e, const Bound *b, isl_set **set)
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

bool poly_has_rests(const Poly *p, const Exec *e)
{
	for (int i = 0; i < p->rests.n; i++)
		if (p->rests.at[i].of == e)
			return true;
	return false;
}

/* The set of the axes up to the last loop of E that does not run over all of its extent. Executions
 * share it, unless they have rests. */
static isl_set *outer_axes(Poly *p, const SetDims *all, Exec *e, int *naxes)
{
	int last = e->bound.n - 1, odd = e->odd;
	SetDims sc = {all->it, 0};
	Outer o = {0};
	bool shared = true;

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
		shared = !poly_has_rests(p, e);
		if (shared)
			vec_push(p->arena, &p->outers, o);
	}
	e->odd = odd + o.odd;
	e->weak = e->weak || o.weak;
	return shared ? isl_set_copy(o.set) : o.set;
}

/* IT, or both of its parts, are in SC. */
static bool in_scope(const Poly *p, const SetDims *sc, const Iter *it)
{
	const Split *s = poly_split_of(p, it);

	if (iter_among(it, sc->it, sc->n))
		return true;
	return s && in_scope(p, sc, s->q) && in_scope(p, sc, s->r);
}

/* X depends only on iterators in SC, and on those that have parts there; not on memory. */
static bool of_scope(const Poly *p, const SetDims *sc, Expr *x)
{
	EX_EACH (e, x)
		if (e->kind == EX_LOAD || (e->kind == EX_ITER && !in_scope(p, sc, e->iter)))
			return false;
	return true;
}

/* A, or an iterator that it is a part of, occurs in X. */
static bool made_of(const Poly *p, Expr *x, const Iter *a)
{
	VEC_EACH_AT (s, &p->splits)
		if ((s->q == a || s->r == a) && made_of(p, x, s->x))
			return true;
	return expr_has_iter(x, a);
}

/* Each point of E determines the iterators in X, whatever the rests of E are, so X depends
 * only on the point. */
static bool of_points(Poly *p, const SetDims *sc, const Exec *e, Expr *x)
{
	isl_map *at = isl_map_reverse(isl_map_copy(e->map));
	isl_bool one;

	for (int i = sc->n - 1; i >= 0; i--)
		if (!made_of(p, x, sc->it[i]))
			at = isl_map_project_out(at, isl_dim_out, (unsigned)i, 1);
	at = isl_map_intersect_params(at, poly_context(p));
	for (int i = 0; i < p->rests.n; i++) {
		const int k = isl_map_find_dim_by_id(at, isl_dim_param, p->rests.at[i].id);

		if (k >= 0)
			at = isl_map_project_out(at, isl_dim_param, (unsigned)k, 1);
	}
	one = isl_map_is_single_valued(at);
	isl_map_free(at);
	return one == isl_bool_true;
}

/* No two points of E are ever compared: they are not terms of one sum, are unordered, and are
 * not stored to a local. */
static bool points_apart(const Poly *p, const Exec *e)
{
	const Stmt *s = e->part == PART_NONE ? NULL : p->k->stmts.at[e->stmt];

	return s && !s->red && !s->ordered && e->buf[0]->id < p->k->bufs.n;
}

/* Treating the rests of E as parameters is sound (passes/poly/poly_impl.h). */
static bool rests_hold(Poly *p, const SetDims *sc, const Exec *e)
{
	bool ok = true;

	for (int i = 0; i < p->rests.n && ok; i++)
		if (p->rests.at[i].of == e)
			ok = points_apart(p, e) && of_scope(p, sc, p->rests.at[i].is) &&
			     of_points(p, sc, e, p->rests.at[i].is);
	return ok;
}

static void relate(Poly *p, Exec *e)
{
	VEC(SetAxis) loops = {e->axis.at, e->axis.n, e->axis.cap};
	Iter **it;
	isl_set *set;
	SetDims sc;
	int odd = 0, outer;

	memset(&e->axis, 0, sizeof e->axis);
	for (int i = 0; i < loops.n; i++)
		expand(p, e, loops.at[i]);
	it = NEW_ARRAY(p->arena, e->axis.n + 1, Iter *);
	for (int i = 0; i < e->axis.n; i++)
		it[i] = e->axis.at[i].it;
	sc = (SetDims){it, e->axis.n};
	p->reads = e;
	set = outer_axes(p, &sc, e, &outer);
	set = isl_set_add_dims(set, isl_dim_set, (unsigned)(sc.n - outer));
	e->weak = !cut_boxes(p, &sc, e, outer, &set) || e->weak;
	for (int i = 0; i < e->guard.n; i++)
		e->odd += poly_guard(p, &sc, &set, e->guard.at[i]);
	e->map = poly_map(p, &sc, set, e->at, e->nat, &odd);
	p->reads = NULL;
	e->weak = (e->weak || odd || !rests_hold(p, &sc, e)) &&
		  isl_map_is_empty(e->map) != isl_bool_true;
}

/* ---- Coordinates ---- */

/* Whether iterator A of S precedes iterator B = X mod N in a div/mod split in E, where Y = X div N.
 * 0: no. 1: A = Y, which ends the split. 2: A = Y mod its own extent. */
static int before(Poly *p, const Exec *e, const Stmt *s, int a, const Expr *y)
{
	Expr *mod;

	if (e->at[a] == y)
		return 1;
	mod = ex_op2(p->pool, IN_mod, (Expr *)(uintptr_t)y, ex_dim(p->pool, s->iter[a]->extent));
	return e->at[a] == mod ? 2 : 0;
}

/* The iterators of the div/mod split whose innermost one is LAST, innermost first. *FLAT: the
 * number that is split. Returns their number; 0 if LAST is not such an iterator. */
static int div_mod_of(Poly *p, const Exec *e, const Stmt *s, int last, int *part, Expr **flat)
{
	Expr *y = e->at[last];
	int n = 0, lo = last < s->nband ? 0 : s->nband;
	bool taken[MAX_ITERS] = {false};

	if (y->kind != EX_INST || y->op.inst != IN_mod ||
	    ex_as_dim(p->ctx, y->op.arg[1]) != s->iter[last]->extent)
		return 0;
	*flat = y = y->op.arg[0];
	part[n++] = last;
	taken[last] = true;
	for (;;) {
		int how = 0, a;

		y = ex_op2(p->pool, IN_floordiv, y, ex_dim(p->pool, s->iter[part[n - 1]]->extent));
		for (a = lo; a < (last < s->nband ? s->nband : e->nat) && !how; a++)
			how = taken[a] ? 0 : before(p, e, s, a, y);
		if (!how)
			return 0;
		part[n++] = a - 1;
		taken[a - 1] = true;
		if (how == 1)
			return n;
	}
}

/* The result of div_mod_of if it is equal for all executions of S; else 0. */
static int common_div_mod(Poly *p, const Stmt *s, int last, int *part)
{
	int n = -1, other[MAX_ITERS];
	Expr *flat;

	VEC_EACH (e, &p->execs) {
		int m;

		if (e->stmt != s->id || last >= e->nat)
			continue;
		m = div_mod_of(p, e, s, last, n < 0 ? part : other, &flat);
		if (m == 0 || (n >= 0 && (m != n || memcmp(part, other, (size_t)n * sizeof *part))))
			return 0;
		n = m;
	}
	return n < 0 ? 0 : n;
}

static void add_flat(Poly *p, Coords *c, const Stmt *s, const int *part, int n)
{
	Dim *by = dim_const(p->ctx, 1);
	Iter *flat = poly_fresh(p, s->iter[part[0]]->name, by);

	c->first[c->n] = c->n ? c->first[c->n - 1] + c->nparts[c->n - 1] : 0;
	c->nparts[c->n] = n;
	for (int i = 0; i < n; i++) {
		const Iter *it = s->iter[part[i]];
		DivMod d = {it, flat, by, i + 1 < n ? it->extent : NULL};

		vec_push(p->arena, &p->divmods, d);
		c->part[c->first[c->n] + n - 1 - i] = it;
		by = dim_mul(p->ctx, by, it->extent);
	}
	flat->extent = by;
	c->it[c->n++] = flat;
}

static void find_coords(Poly *p, const Stmt *s, Coords *c)
{
	int part[MAX_ITERS][MAX_ITERS], n[MAX_ITERS] = {0};
	bool inner[MAX_ITERS] = {false};

	for (int i = 0; i < s->niters && !s->ordered; i++) {
		n[i] = common_div_mod(p, s, i, part[i]);
		for (int j = 1; j < n[i]; j++)
			inner[part[i][j]] = true;
	}
	for (int i = 0; i < s->niters; i++) {
		if (n[i] && !inner[i]) {
			add_flat(p, c, s, part[i], n[i]);
		} else if (!inner[i]) {
			c->first[c->n] = c->n ? c->first[c->n - 1] + c->nparts[c->n - 1] : 0;
			c->nparts[c->n] = 1;
			c->part[c->first[c->n]] = s->iter[i];
			c->it[c->n++] = s->iter[i];
		}
		if (i + 1 == s->nband)
			c->nband = c->n;
	}
}

/* Converts E's point to coordinates. */
static void to_coords(Poly *p, Exec *e)
{
	const Stmt *s = p->k->stmts.at[e->stmt];
	const Coords *c = &p->coords[e->stmt];
	Expr **at = NEW_ARRAY(p->arena, c->n + 1, Expr *);
	int n = e->nat == s->niters ? c->n : e->nat == s->nband ? c->nband : -1, part[MAX_ITERS];

	if (n < 0) {
		poly_wrong(p, "statement %d: the loop tree executes a part of it at no valid point",
			   e->stmt);
		e->nat = 0;
		return;
	}
	for (int i = 0; i < n; i++)
		for (int j = 0; j < s->niters; j++) {
			if (s->iter[j] != c->part[c->first[i] + c->nparts[i] - 1])
				continue;
			at[i] = e->at[j];
			if (c->nparts[i] > 1)
				div_mod_of(p, e, s, j, part, &at[i]);
		}
	e->at = at;
	e->nat = n;
}

void poly_relate(Poly *p)
{
	p->coords = NEW_ARRAY(p->arena, p->k->stmts.n + 1, Coords);
	for (int i = 0; i < p->k->stmts.n; i++)
		find_coords(p, p->k->stmts.at[i], &p->coords[i]);
	for (int i = 0; i < p->execs.n; i++) {
		to_coords(p, p->execs.at[i]);
		relate(p, p->execs.at[i]);
	}
	for (int i = 0; i < p->moves.n; i++)
		relate(p, p->moves.at[i]);
}
