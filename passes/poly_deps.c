/* SPDX-License-Identifier: Apache-2.0 */
/* Dependences of the original statements against the times of the loop tree; and locals. */
#include "passes/poly_impl.h"

/* ---- Accesses ---- */

typedef enum Side { READS, WRITES } Side;

static void find_load(void *arg, Expr *e)
{
	*(bool *)arg = *(bool *)arg || e->kind == EX_LOAD;
}

static bool has_load(Expr *e)
{
	bool yes = false;

	ex_walk(e, find_load, &yes);
	return yes;
}

/* One access of a statement, over the first N of its coordinates. */
typedef struct Access {
	Stmt *s;
	int n;
	Expr *const *idx;
	int nidx;
	bool guarded;
} Access;

/* The dims of access A that run by the digits of its coordinate C, in DIM[digit]; false where not all have one. */
static bool digit_dims(const Poly *p, const Access *a, int c, int *dim)
{
	const Coords *co = &p->coords[a->s->id];

	for (int k = 0; k < co->ndigits[c]; k++) {
		int d = 0;

		while (d < a->nidx && (a->idx[d]->kind != EX_ITER ||
				       a->idx[d]->iter != co->digit[co->first[c] + k]))
			d++;
		if (d == a->nidx)
			return false;
		dim[k] = d;
	}
	return true;
}

/* Coordinates CA of A and CB of B are digits of the same extents in the same dims, which DIM gets. */
static bool same_digits(const Poly *p, const Access *a, int ca, const Access *b, int cb, int *dim)
{
	const Coords *x = &p->coords[a->s->id], *y = &p->coords[b->s->id];
	int other[MAX_ITERS], n = x->ndigits[ca];

	if (n < 2 || y->ndigits[cb] != n || !digit_dims(p, a, ca, dim) ||
	    !digit_dims(p, b, cb, other) || memcmp(dim, other, (size_t)n * sizeof *dim) != 0)
		return false;
	for (int k = 1; k < n; k++)
		if (a->idx[dim[k]]->iter->extent != b->idx[dim[k]]->iter->extent)
			return false;
	return true;
}

static isl_map *access_map(Poly *p, const Access *a, Expr *const *idx, int nidx, bool *weak)
{
	const Coords *c = &p->coords[a->s->id];
	Scope sc = {c->it, a->n};
	isl_set *dom = poly_universe(p, a->n);
	int odd = 0;

	for (int i = 0; i < nidx; i++) {
		isl_pw_aff *e = poly_aff(p, &sc, idx[i]);

		*weak = *weak || (!e && !has_load(idx[i]));
		isl_pw_aff_free(e);
	}
	if (a->guarded)
		poly_guard(p, &sc, &dom, a->s->guard);
	return poly_map(p, &sc, dom, idx, nidx, &odd);
}

/* Points of A -> points of B that meet in an element: an index that is not affine may be anywhere. *WEAK where that
 * is for want of an affine form alone, not since data say where. */
static isl_map *meet(Poly *p, const Access *a, const Access *b, bool *weak)
{
	const Coords *x = &p->coords[a->s->id], *y = &p->coords[b->s->id];
	Expr *ia[MAX_RANK], *ib[MAX_RANK];
	isl_map *ma, *mb;
	int n = 0, dim[MAX_ITERS];
	bool flat[MAX_RANK] = {false};

	for (int i = 0; a->nidx == b->nidx && i < a->n; i++)
		for (int j = 0; j < b->n; j++) {
			if (!same_digits(p, a, i, b, j, dim))
				continue;
			for (int k = 0; k < x->ndigits[i]; k++)
				flat[dim[k]] = true;
			ia[n] = ex_iter(p->pool, x->it[i]);
			ib[n++] = ex_iter(p->pool, y->it[j]);
		}
	for (int d = 0; a->nidx == b->nidx && d < a->nidx; d++)
		if (!flat[d]) {
			ia[n] = a->idx[d];
			ib[n++] = b->idx[d];
		}
	*weak = *weak || a->nidx != b->nidx;
	ma = access_map(p, a, ia, n, weak);
	mb = access_map(p, b, ib, n, weak);
	return isl_map_apply_range(ma, isl_map_reverse(mb));
}

static bool is_scatter(const Stmt *s)
{
	return s->red && s->update && s->nband == s->niters;
}

static int writes_of(const Poly *p, const Stmt *s)
{
	return s->red && !s->scan ? p->coords[s->id].nband : p->coords[s->id].n;
}

/* Which part of S makes access SIDE, and over how many iterators. */
static LPart part_of(const Stmt *s, Side side)
{
	if (is_scatter(s))
		return PART_TERM;
	return side == READS && s->red ? PART_TERM : PART_WRITE;
}

typedef struct Accesses {
	const Poly *p;
	const Buf *buf;
	VEC(Access) list;
} Accesses;

static void add_read(void *arg, Stmt *s, Expr *load)
{
	Accesses *l = arg;
	Access a = {s, l->p->coords[s->id].n, load->load.idx, load->load.nidx, true};

	if (load->load.buf == l->buf)
		vec_push(l->p->arena, &l->list, a);
}

static Accesses accesses(const Poly *p, Stmt *s, Side side, const Buf *b)
{
	Accesses l = {.p = p, .buf = b};
	Access w = {s, writes_of(p, s), s->widx, s->nwidx, !s->red || is_scatter(s)};

	if (side == READS)
		stmt_loads(s, add_read, &l);
	for (int k = 0; k < s->nout && side == WRITES && !l.list.n; k++)
		if (s->out[k] == b)
			vec_push(p->arena, &l.list, w);
	return l;
}

/* ---- Times ---- */

/* STRICT: the first before the second. ALONE: not at once. */
typedef enum Need { STRICT, ALONE } Need;

typedef struct Dep {
	isl_map *rel; /* points of the source -> points of the sink */
	int from, to; /* statements */
	LPart fpart, tpart;
	Need need;
	bool weak;
	const char *what;
	const Buf *buf;
} Dep;

static bool is_empty(Poly *p, isl_map *m)
{
	isl_map *in = isl_map_intersect_params(m, poly_context(p));
	isl_bool empty = isl_map_is_empty(in);

	isl_map_free(in);
	return empty != isl_bool_false;
}

static void say(Poly *p, const Dep *d, const Exec *a, const Exec *b, isl_map *bad, const char *how)
{
	isl_map *one = isl_map_from_basic_map(
		isl_map_sample(isl_map_intersect_params(isl_map_copy(bad), poly_context(p))));
	isl_set *from = isl_set_from_basic_set(isl_set_sample(
		isl_set_apply(isl_map_domain(isl_map_copy(one)), isl_map_copy(a->map))));
	isl_set *to = isl_set_from_basic_set(
		isl_set_sample(isl_set_apply(isl_map_range(one), isl_map_copy(b->map))));
	char *f = isl_set_to_str(from), *t = isl_set_to_str(to);

	if (d->weak || a->weak || b->weak || !f || !t)
		poly_unproved(p, "%s%s%s from statement %d to statement %d", d->what,
			      d->buf ? " through " : "", d->buf ? d->buf->name : "", d->from,
			      d->to);
	else
		poly_wrong(p, "%s%s%s from statement %d at %s to statement %d at %s %s", d->what,
			   d->buf ? " through " : "", d->buf ? d->buf->name : "", d->from, f, d->to,
			   t, how);
	free(f);
	free(t);
	isl_set_free(from);
	isl_set_free(to);
}

static bool differs(Poly *p, isl_map *m, int d)
{
	return !is_empty(p, isl_map_order_lt(isl_map_copy(m), isl_dim_in, d, isl_dim_out, d)) ||
	       !is_empty(p, isl_map_order_gt(isl_map_copy(m), isl_dim_in, d, isl_dim_out, d));
}

/* V: pairs of times (taken). */
static void check_times(Poly *p, const Dep *d, const Exec *a, const Exec *b, isl_map *v)
{
	const char *how = NULL;
	int i = 0;

	for (; !how && i < a->axis.n && i < b->axis.n && a->axis.at[i].it == b->axis.at[i].it;
	     i++) {
		AxisKind k = a->axis.at[i].kind;

		if (k == AXIS_PARALLEL && differs(p, v, i))
			how = "is carried by a parallel loop";
		else if (k == AXIS_ANY && d->need == STRICT && differs(p, v, i))
			how = "is carried by a loop in any order";
		else if (k == AXIS_SERIAL && d->need == STRICT &&
			 !is_empty(p, isl_map_order_gt(isl_map_copy(v), isl_dim_in, i, isl_dim_out,
						       i)))
			how = "runs backwards";
		if (!how)
			v = isl_map_equate(v, isl_dim_in, i, isl_dim_out, i);
	}
	if (!how && d->need == STRICT && a->order >= b->order && !is_empty(p, isl_map_copy(v)))
		how = "runs backwards";
	if (how)
		say(p, d, a, b, v, how);
	isl_map_free(v);
}

static isl_map *times(const Exec *a, const Exec *b, const isl_map *rel)
{
	isl_map *m =
		isl_map_apply_range(isl_map_copy(a->map), isl_map_copy((isl_map *)(uintptr_t)rel));

	return isl_map_apply_range(m, isl_map_reverse(isl_map_copy(b->map)));
}

/* ---- Locals ---- */

static const Local *local_of(const Poly *p, const Buf *b)
{
	for (int i = 0; i < p->locals.n; i++)
		if (p->locals.at[i].buf == b)
			return &p->locals.at[i];
	return NULL;
}

/* Axes of E around the declaration of L. */
static int around(const Exec *e, const Local *l)
{
	int n = 0, loops = 0;

	for (; n < e->axis.n; n++) {
		while (loops < l->nloops && l->loop[loops] != e->axis.at[n].loop && n > 0 &&
		       e->axis.at[n].loop != e->axis.at[n - 1].loop)
			loops++;
		if (loops >= l->nloops || l->loop[loops] != e->axis.at[n].loop)
			break;
	}
	return n;
}

typedef struct Asked {
	const Buf *b;
	bool yes;
} Asked;

static void ask(void *arg, Expr *e)
{
	Asked *a = arg;

	a->yes = a->yes || (e->kind == EX_LOAD && e->load.buf == a->b);
}

bool poly_node_loads(const LNode *n, const Buf *b)
{
	Asked a = {b, false};
	Expr *e[] = {n->val[0],
		     n->val[1],
		     n->guard,
		     n->idx,
		     n->tile ? n->tile->a_at : NULL,
		     n->tile ? n->tile->b_at : NULL};

	if (n->tile && (n->tile->a == b || n->tile->b == b))
		return true;
	for (size_t i = 0; i < sizeof e / sizeof *e; i++)
		if (e[i])
			ex_walk(e[i], ask, &a);
	return a.yes;
}

/* The value goes from A to B through a buffer that both name; through a local only while it lives. */
static void check_holder(Poly *p, const Dep *d, const Exec *a, const Exec *b, isl_map *v)
{
	const Buf *held = NULL;
	const Local *l;

	if (b->node->kind == LN_TILE)
		return; /* its operands may be packed */
	for (int i = 0; i < p->execs.n && !held; i++) {
		const Exec *e = p->execs.at[i];

		for (int k = 0; k < 2 && e->stmt == d->from && e->part != PART_INIT && !held; k++)
			if (e->buf[k] && poly_node_loads(b->node, e->buf[k]))
				held = e->buf[k];
	}
	if (!held) {
		poly_wrong(p, "statement %d does not read %s from where statement %d leaves it",
			   d->to, d->buf->name, d->from);
		return;
	}
	l = local_of(p, held);
	if (!l)
		return;
	v = isl_map_copy(v);
	for (int i = 0; i < around(a, l) || i < around(b, l); i++) {
		bool shared =
			i < a->axis.n && i < b->axis.n && a->axis.at[i].it == b->axis.at[i].it;

		if (!is_empty(p, isl_map_copy(v)) && (!shared || differs(p, v, i))) {
			say(p, d, a, b, v, "outlives the local that holds the value");
			break;
		}
		v = isl_map_equate(v, isl_dim_in, i, isl_dim_out, i);
	}
	isl_map_free(v);
}

/* The flat index into B by dims: strides are B's own. False where it has no such form. */
static bool by_dims(Poly *p, const Buf *b, Expr *flat, Expr **out)
{
	Affine a;
	Dim *stride[MAX_RANK], *q;
	int64_t v;

	if (!ex_affine(p->ctx, flat, &a))
		return false;
	for (int d = b->rank - 1; d >= 0; d--) {
		stride[d] = d + 1 < b->rank ? dim_mul(p->ctx, stride[d + 1], b->dims[d + 1])
					    : dim_const(p->ctx, 1);
		out[d] = ex_int(p->pool, CT_I64, 0);
	}
	for (int i = 0; i < a.n; i++) {
		int d = 0;

		while (d < b->rank &&
		       !(dim_divides(p->ctx, a.coef[i], stride[d], &q) && dim_is_const(q, &v)))
			d++;
		if (d == b->rank)
			return false;
		out[d] = ex_add(
			p->pool, out[d],
			ex_mul(p->pool, ex_int(p->pool, CT_I64, v), ex_iter(p->pool, a.iter[i])));
	}
	if (b->rank)
		out[b->rank - 1] = ex_add(p->pool, out[b->rank - 1], ex_dim(p->pool, a.base));
	return true;
}

static isl_map *cell_map(Poly *p, const Exec *e, const Buf *b)
{
	Iter **it = NEW_ARRAY(p->arena, e->axis.n + 1, Iter *);
	Expr *idx[MAX_RANK];
	isl_map *m;
	Scope sc = {it, e->axis.n};
	int odd = 0;

	for (int i = 0; i < e->axis.n; i++)
		it[i] = e->axis.at[i].it;
	m = poly_map(p, &sc, poly_universe(p, sc.n), &e->idx, e->idx ? 1 : 0, &odd);
	if (odd && by_dims(p, b, e->idx, idx)) {
		isl_map_free(m);
		odd = 0;
		m = poly_map(p, &sc, poly_universe(p, sc.n), idx, b->rank, &odd);
	}
	if (!odd)
		return m;
	isl_map_free(m);
	return NULL;
}

/* Points of the band that A and B put into one cell of L in one life of it are one. */
static void check_cells(Poly *p, const Exec *a, const Exec *b, const Local *l, int nband)
{
	isl_map *ca = cell_map(p, a, l->buf), *cb = cell_map(p, b, l->buf), *v;
	Dep d = {.from = a->stmt, .to = b->stmt, .what = "the local of a value", .buf = l->buf};
	isl_map *points;

	if (!ca || !cb || isl_map_dim(ca, isl_dim_out) != isl_map_dim(cb, isl_dim_out)) {
		isl_map_free(ca);
		isl_map_free(cb);
		poly_unproved(p, "the cells of %s", l->buf->name);
		return;
	}
	v = isl_map_apply_range(ca, isl_map_reverse(cb));
	for (int i = 0; i < around(a, l); i++)
		v = isl_map_equate(v, isl_dim_in, i, isl_dim_out, i);
	points = isl_map_apply_range(isl_map_apply_domain(isl_map_copy(v), isl_map_copy(a->map)),
				     isl_map_copy(b->map));
	for (int i = 0; i < nband && i < a->nat && i < b->nat; i++) {
		isl_map *bad =
			isl_map_order_lt(isl_map_copy(points), isl_dim_in, i, isl_dim_out, i);

		bad = isl_map_union(
			bad, isl_map_order_gt(isl_map_copy(points), isl_dim_in, i, isl_dim_out, i));
		if (!is_empty(p, isl_map_copy(bad))) {
			isl_map *when = isl_map_intersect(times(a, b, bad), isl_map_copy(v));

			say(p, &d, a, b, when, "is shared");
			isl_map_free(when);
			isl_map_free(bad);
			break;
		}
		isl_map_free(bad);
	}
	isl_map_free(points);
	isl_map_free(v);
}

static void check_locals(Poly *p)
{
	for (int i = 0; i < p->execs.n; i++)
		for (int j = i; j < p->execs.n; j++) {
			const Exec *a = p->execs.at[i], *b = p->execs.at[j];
			const Local *l =
				a->buf[0] && a->buf[0] == b->buf[0] ? local_of(p, a->buf[0]) : NULL;

			if (!l)
				continue;
			if (a->stmt != b->stmt)
				poly_wrong(p, "statements %d and %d share the local %s", a->stmt,
					   b->stmt, l->buf->name);
			else
				check_cells(p, a, b, l,
					    a->part == PART_WRITE && b->part == PART_WRITE
						    ? writes_of(p, p->k->stmts.at[a->stmt])
						    : p->coords[a->stmt].nband);
		}
}

/* ---- Dependences ---- */

static void check_dep(Poly *p, Dep d, bool flow)
{
	for (int i = 0; i < p->execs.n; i++)
		for (int j = 0; j < p->execs.n; j++) {
			const Exec *a = p->execs.at[i], *b = p->execs.at[j];
			isl_map *v;

			if (a->stmt != d.from || a->part != d.fpart || b->stmt != d.to ||
			    b->part != d.tpart)
				continue;
			v = times(a, b, d.rel);
			if (is_empty(p, isl_map_copy(v))) {
				isl_map_free(v);
				continue;
			}
			if (flow)
				check_holder(p, &d, a, b, v);
			check_times(p, &d, a, b, v);
		}
	isl_map_free(d.rel);
}

static void check_meetings(Poly *p, Dep d, Accesses a, Accesses b, bool flow)
{
	for (int i = 0; i < a.list.n; i++)
		for (int j = 0; j < b.list.n; j++) {
			Dep one = d;

			one.rel = meet(p, &a.list.at[i], &b.list.at[j], &one.weak);
			check_dep(p, one, flow);
		}
}

static void between(Poly *p, Stmt *s, Stmt *t, const Buf *b)
{
	static const struct {
		Side s, t;
		const char *what;
	} kinds[] = {{WRITES, READS, "the flow"},
		     {READS, WRITES, "the anti-dependence"},
		     {WRITES, WRITES, "the output dependence"}};

	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		Dep d = {.from = s->id,
			 .to = t->id,
			 .fpart = part_of(s, kinds[i].s),
			 .tpart = part_of(t, kinds[i].t),
			 .need = STRICT,
			 .what = kinds[i].what,
			 .buf = b};

		check_meetings(p, d, accesses(p, s, kinds[i].s, b), accesses(p, t, kinds[i].t, b),
			       i == 0);
	}
	/* An update's state starts from what is there. */
	if (t->update && !is_scatter(t) && t->red) {
		Dep d = {.from = s->id,
			 .to = t->id,
			 .fpart = part_of(s, WRITES),
			 .tpart = PART_INIT,
			 .need = STRICT,
			 .what = "the flow",
			 .buf = b};

		check_meetings(p, d, accesses(p, s, WRITES, b), accesses(p, t, WRITES, b), true);
	}
}

/* Pairs of points of S with equal band, over the first N coordinates and the first M. */
static isl_map *same_band(Poly *p, const Stmt *s, int n, int m)
{
	isl_map *r = isl_map_universe(isl_space_alloc(p->isl, 0, (unsigned)n, (unsigned)m));

	for (int i = 0; i < p->coords[s->id].nband; i++)
		r = isl_map_equate(r, isl_dim_in, i, isl_dim_out, i);
	return r;
}

static void within_scan(Poly *p, Stmt *s, Dep d)
{
	int k = p->coords[s->id].n - 1;

	d.fpart = d.tpart = PART_TERM;
	d.what = "the order of a prefix's terms";
	d.rel = isl_map_order_lt(same_band(p, s, k + 1, k + 1), isl_dim_in, k, isl_dim_out, k);
	check_dep(p, d, false);
	d.tpart = PART_WRITE;
	d.what = "the flow of the state";
	d.rel = same_band(p, s, k + 1, k + 1);
	d.rel = isl_map_subtract(
		d.rel, isl_map_order_gt(isl_map_copy(d.rel), isl_dim_in, k, isl_dim_out, k));
	check_dep(p, d, false);
	d.fpart = PART_WRITE;
	d.tpart = PART_TERM;
	d.rel = isl_map_order_lt(same_band(p, s, k + 1, k + 1), isl_dim_in, k, isl_dim_out, k);
	check_dep(p, d, false);
}

/* The state's first value, the terms, the write. */
static void within_reduction(Poly *p, Stmt *s)
{
	const Coords *c = &p->coords[s->id];
	Dep d = {.from = s->id,
		 .to = s->id,
		 .fpart = PART_INIT,
		 .tpart = PART_TERM,
		 .need = STRICT,
		 .what = "the flow of the state"};

	d.rel = same_band(p, s, c->nband, c->n);
	check_dep(p, d, false);
	if (s->scan) {
		within_scan(p, s, d);
		return;
	}
	d.fpart = PART_TERM;
	d.tpart = PART_WRITE;
	d.rel = same_band(p, s, c->n, c->nband);
	check_dep(p, d, false);
	d.tpart = PART_TERM;
	d.need = ALONE;
	d.what = "the combining of terms";
	d.rel = same_band(p, s, c->n, c->n);
	check_dep(p, d, false);
}

/* Points of one statement that meet in memory: a scatter's are not combined at once, ordered ones keep order. */
static void within_writes(Poly *p, Stmt *s)
{
	Dep d = {.from = s->id,
		 .to = s->id,
		 .buf = s->out[0],
		 .fpart = part_of(s, WRITES),
		 .tpart = part_of(s, WRITES)};
	Access w;

	d.need = s->ordered ? STRICT : ALONE;
	d.what = s->ordered ? "the order of writes" : "the combining of terms";
	if (!s->ordered) {
		check_meetings(p, d, accesses(p, s, WRITES, d.buf), accesses(p, s, WRITES, d.buf),
			       false);
		return;
	}
	w = accesses(p, s, WRITES, d.buf).list.at[0];
	d.rel = meet(p, &w, &w, &d.weak);
	d.rel = isl_map_intersect(d.rel,
				  isl_map_lex_lt(isl_space_set_alloc(p->isl, 0, (unsigned)w.n)));
	check_dep(p, d, false);
}

void poly_check_deps(Poly *p)
{
	Kernel *k = p->k;

	for (int i = 0; i < k->stmts.n; i++) {
		Stmt *s = k->stmts.at[i];

		if (s->ordered || is_scatter(s))
			within_writes(p, s);
		else if (s->red)
			within_reduction(p, s);
		for (int j = i + 1; j < k->stmts.n; j++)
			for (int b = 0; b < k->bufs.n; b++)
				if (k->bufs.at[b]->kind != BUF_IN && !k->bufs.at[b]->data)
					between(p, s, k->stmts.at[j], k->bufs.at[b]);
	}
	check_locals(p);
}
