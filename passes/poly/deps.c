/* SPDX-License-Identifier: Apache-2.0 */
/* Dependences of the kernel's statements, compared with the times at which the loop tree carries
 * statements out. */
#include "passes/poly/poly_impl.h"

/* ---- Accesses ---- */

typedef enum DepSide { READS, WRITES } DepSide;

/* One access of a statement, over the first N of its coordinates. */
typedef struct StmtAccess {
	Stmt *s;
	int n;
	Expr *const *idx;
	int nidx;
	bool guarded;
} StmtAccess;

/* The dims of access A that are indexed by the iterators of its coordinate C, in order; false if
 * some has none. */
static bool part_dims(const Poly *p, const StmtAccess *a, int c, int *dim)
{
	const Coords *co = &p->coords[a->s->id];

	for (int k = 0; k < co->nparts[c]; k++) {
		int d = 0;

		while (d < a->nidx && (a->idx[d]->kind != EX_ITER ||
				       a->idx[d]->iter != co->part[co->first[c] + k]))
			d++;
		if (d == a->nidx)
			return false;
		dim[k] = d;
	}
	return true;
}

/* Coordinates CA of A and CB of B stand for iterators of the same extents that index the same dims,
 * DIM. */
static bool same_parts(const Poly *p, const StmtAccess *a, int ca, const StmtAccess *b, int cb,
		       int *dim)
{
	const Coords *x = &p->coords[a->s->id], *y = &p->coords[b->s->id];
	int other[MAX_ITERS], n = x->nparts[ca];

	if (n < 2 || y->nparts[cb] != n || !part_dims(p, a, ca, dim) ||
	    !part_dims(p, b, cb, other) || memcmp(dim, other, (size_t)n * sizeof *dim) != 0)
		return false;
	for (int k = 1; k < n; k++)
		if (a->idx[dim[k]]->iter->extent != b->idx[dim[k]]->iter->extent)
			return false;
	return true;
}

static isl_map *access_map(Poly *p, const StmtAccess *a, Expr *const *idx, int nidx, bool *weak)
{
	const Coords *c = &p->coords[a->s->id];
	SetDims sc = {c->it, a->n};
	isl_set *dom = poly_universe(p, a->n);
	int odd = 0;

	for (int i = 0; i < nidx; i++) {
		isl_pw_aff *e = poly_aff(p, &sc, idx[i]);

		*weak = *weak || (!e && !expr_has_load(idx[i]));
		isl_pw_aff_free(e);
	}
	if (a->guarded)
		poly_guard(p, &sc, &dom, a->s->guard);
	return poly_map(p, &sc, dom, idx, nidx, &odd);
}

/* The map from points of A to points of B that access the same element. An index that is not affine
 * may be any number; *WEAK: some index is not affine for another reason than being data. */
static isl_map *same_element(Poly *p, const StmtAccess *a, const StmtAccess *b, bool *weak)
{
	const Coords *x = &p->coords[a->s->id], *y = &p->coords[b->s->id];
	Expr *ia[MAX_RANK], *ib[MAX_RANK];
	isl_map *ma, *mb;
	int n = 0, dim[MAX_ITERS];
	bool flat[MAX_RANK] = {false};

	for (int i = 0; a->nidx == b->nidx && i < a->n; i++)
		for (int j = 0; j < b->n; j++) {
			if (!same_parts(p, a, i, b, j, dim))
				continue;
			for (int k = 0; k < x->nparts[i]; k++)
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

int poly_writes_of(const Poly *p, const Stmt *s)
{
	return s->red && !s->scan ? p->coords[s->id].nband : p->coords[s->id].n;
}

/* The part of S that makes access SIDE. */
static LPart part_of(const Stmt *s, DepSide side)
{
	if (is_scatter(s))
		return PART_TERM;
	return side == READS && s->red ? PART_TERM : PART_WRITE;
}

typedef VEC(StmtAccess) Accesses;

static Accesses accesses(const Poly *p, Stmt *s, DepSide side, const Buf *b)
{
	Accesses l = {0};
	StmtAccess w = {s, poly_writes_of(p, s), s->widx, s->nwidx, !s->red || is_scatter(s)};

	if (side == READS)
		STMT_EACH_LOAD (x, s)
			if (x->load.buf == b)
				vec_push(p->arena, &l,
					 ((StmtAccess){s, p->coords[s->id].n, x->load.idx,
						       x->load.nidx, true}));
	for (int k = 0; k < s->nout && side == WRITES && !l.n; k++)
		if (s->out[k] == b)
			vec_push(p->arena, &l, w);
	return l;
}

/* ---- Times ---- */

/* A and B both have rests, which need not agree at two points that access one element, so nothing
 * found with them proves an error. */
static bool apart_in_rests(const Poly *p, const Exec *a, const Exec *b)
{
	return a != b && poly_has_rests(p, a) && poly_has_rests(p, b);
}

void poly_say(Poly *p, const Dep *d, const Exec *a, const Exec *b, isl_map *bad, const char *how)
{
	isl_map *one = isl_map_from_basic_map(
		isl_map_sample(isl_map_intersect_params(isl_map_copy(bad), poly_context(p))));
	isl_set *from = isl_set_from_basic_set(isl_set_sample(
		isl_set_apply(isl_map_domain(isl_map_copy(one)), isl_map_copy(a->map))));
	isl_set *to = isl_set_from_basic_set(
		isl_set_sample(isl_set_apply(isl_map_range(one), isl_map_copy(b->map))));
	char *f = isl_set_to_str(from), *t = isl_set_to_str(to);

	if (d->weak || a->weak || b->weak || apart_in_rests(p, a, b) || !f || !t)
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

bool poly_differs(Poly *p, isl_map *m, int d)
{
	return !poly_no_pair(p, isl_map_order_lt(isl_map_copy(m), isl_dim_in, d, isl_dim_out, d)) ||
	       !poly_no_pair(p, isl_map_order_gt(isl_map_copy(m), isl_dim_in, d, isl_dim_out, d));
}

/* Checks that dependence D is kept at the pairs of times V (taken). */
static void check_times(Poly *p, const Dep *d, const Exec *a, const Exec *b, isl_map *v)
{
	const char *how = NULL;
	int i = 0;

	for (; !how && i < a->axis.n && i < b->axis.n && a->axis.at[i].it == b->axis.at[i].it;
	     i++) {
		AxisKind k = a->axis.at[i].kind;

		if (k == AXIS_PARALLEL && poly_differs(p, v, i))
			how = "is carried by a parallel loop";
		else if (k == AXIS_ANY && d->need == STRICT && poly_differs(p, v, i))
			how = "is carried by a loop in any order";
		else if (k == AXIS_SERIAL && d->need == STRICT &&
			 !poly_no_pair(p, isl_map_order_gt(isl_map_copy(v), isl_dim_in, i,
							   isl_dim_out, i)))
			how = "runs backwards";
		if (!how)
			v = isl_map_equate(v, isl_dim_in, i, isl_dim_out, i);
	}
	if (!how && d->need == STRICT && a->order >= b->order && !poly_no_pair(p, isl_map_copy(v)))
		how = "runs backwards";
	if (how)
		poly_say(p, d, a, b, v, how);
	isl_map_free(v);
}

isl_map *poly_times(const Exec *a, const Exec *b, const isl_map *rel)
{
	isl_map *m = isl_map_apply_range(isl_map_copy(a->map),
					 isl_map_copy((isl_map *)(uintptr_t)rel));

	return isl_map_apply_range(m, isl_map_reverse(isl_map_copy(b->map)));
}

/* ---- Dependences ---- */

/* Atomic updates of one monoid may run at the same time. */
static bool may_run_together(const Dep *d, const Exec *a, const Exec *b)
{
	return d->need == ALONE && a->node->kind == LN_ATOMIC && b->node->kind == LN_ATOMIC;
}

static void check_dep(Poly *p, Dep d, bool flow)
{
	for (int i = 0; i < p->execs.n; i++)
		for (int j = 0; j < p->execs.n; j++) {
			const Exec *a = p->execs.at[i], *b = p->execs.at[j];
			isl_map *v;

			if (a->stmt != d.from || a->part != d.fpart || b->stmt != d.to ||
			    b->part != d.tpart || may_run_together(&d, a, b))
				continue;
			v = poly_times(a, b, d.rel);
			if (poly_no_pair(p, isl_map_copy(v))) {
				isl_map_free(v);
				continue;
			}
			if (flow)
				poly_check_holder(p, &d, a, b, v);
			check_times(p, &d, a, b, v);
		}
	isl_map_free(d.rel);
}

static void check_accesses(Poly *p, Dep d, Accesses a, Accesses b, bool flow)
{
	for (int i = 0; i < a.n; i++)
		for (int j = 0; j < b.n; j++) {
			Dep one = d;

			one.rel = same_element(p, &a.at[i], &b.at[j], &one.weak);
			one.idx = b.at[j].idx;
			one.nidx = b.at[j].nidx;
			check_dep(p, one, flow);
		}
}

static void between(Poly *p, Stmt *s, Stmt *t, const Buf *b)
{
	static const struct {
		DepSide s, t;
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

		check_accesses(p, d, accesses(p, s, kinds[i].s, b), accesses(p, t, kinds[i].t, b),
			       i == 0);
	}
	/* an update's state starts from the previous element */
	if (t->update && !is_scatter(t) && t->red) {
		Dep d = {.from = s->id,
			 .to = t->id,
			 .fpart = part_of(s, WRITES),
			 .tpart = PART_INIT,
			 .need = STRICT,
			 .what = "the flow",
			 .buf = b};

		check_accesses(p, d, accesses(p, s, WRITES, b), accesses(p, t, WRITES, b), true);
	}
}

/* The pairs of points of S with equal band, over the first N coordinates and the first M. */
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

/* Checks the order of a reduction: the initial value, the terms, the write. */
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

/* Checks points of one statement that access the same element: the terms of a scatter are not
 * combined at the same time, and ordered points keep their order. */
static void within_writes(Poly *p, Stmt *s)
{
	Dep d = {.from = s->id,
		 .to = s->id,
		 .buf = s->out[0],
		 .fpart = part_of(s, WRITES),
		 .tpart = part_of(s, WRITES)};
	StmtAccess w;

	d.need = s->ordered ? STRICT : ALONE;
	d.what = s->ordered ? "the order of writes" : "the combining of terms";
	if (!s->ordered) {
		check_accesses(p, d, accesses(p, s, WRITES, d.buf), accesses(p, s, WRITES, d.buf),
			       false);
		return;
	}
	w = accesses(p, s, WRITES, d.buf).at[0];
	d.rel = same_element(p, &w, &w, &d.weak);
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
	poly_check_locals(p);
}
