/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks locals: from the write of a value to its last read, no other value is stored to its
 * element of the local. The same is checked for the scratch of a block in shared memory.
 */
#include "passes/poly/poly_impl.h"

const Local *poly_local(const Poly *p, const Buf *b)
{
	for (int i = 0; i < p->locals.n; i++)
		if (p->locals.at[i].buf == b)
			return &p->locals.at[i];
	return NULL;
}

/* The number of E's axes around the declaration of L. */
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

bool poly_node_loads(const LNode *n, const Buf *b)
{
	const LBufs bufs = lnode_bufs(n);
	LExprs exprs = lnode_exprs(n);

	VEC_EACH_AT (u, &bufs)
		if (u->b == b && (u->use == LUSE_READS || u->use == LUSE_VALUE))
			return true;
	exprs.next = exprs.inside;
	for (Expr **e; (e = lnode_next_expr(&exprs)) != NULL;)
		if (expr_loads(*e, b))
			return true;
	return false;
}

/* N reads B, or a copy of B. */
static bool reads(const Poly *p, const LNode *n, const Buf *b)
{
	for (int i = 0; i < p->copies.n; i++)
		if (poly_node_loads(p->copies.at[i], b) &&
		    poly_node_loads(n, p->copies.at[i]->store.buf[0]))
			return true;
	return poly_node_loads(n, b);
}

/* The local whose value store W copies, if N reads that local, too; else null. */
static const Buf *copied_local(const Poly *p, const LNode *w, const LNode *n)
{
	const Expr *e = w->kind == LN_STORE ? w->store.val[0] : NULL;

	return e && e->kind == EX_LOAD && poly_local(p, e->load.buf) && reads(p, n, e->load.buf)
		       ? e->load.buf
		       : NULL;
}

/* Replaces split iterators by their parts. */
Expr *poly_by_parts(Poly *p, Expr *e)
{
	if (!p->splits.n)
		return e;
	EX_MAP (x, p->pool, &e) {
		const Split *s = x->kind == EX_ITER ? poly_split_of(p, x->iter) : NULL;
		Expr *q = s ? poly_by_parts(p, ex_iter(p->pool, s->q)) : NULL;
		Expr *r = s ? poly_by_parts(p, ex_iter(p->pool, s->r)) : NULL;

		if (s)
			x = ex_add(p->pool, ex_mul(p->pool, q, ex_dim(p->pool, s->n)), r);
	}
	return e;
}

/* Converts flat index FLAT into B to indices by dims, in their order in memory, using B's strides;
 * false if it has no such form. What is not an iterator is split, too: in a local [3][512], 512 + i
 * is [1][i]. */
static bool by_dims(Poly *p, const Buf *b, Expr *flat, Expr **out)
{
	Affine a;
	Dim *stride[MAX_RANK], *rest, *q;
	int64_t v, all, unit;

	if (!ex_affine(p->ctx, poly_by_parts(p, flat), &a))
		return false;
	for (int d = b->rank - 1; d >= 0; d--) {
		stride[d] = d + 1 < b->rank ? dim_mul(p->ctx, stride[d + 1],
						      b->dims[buf_memory_dim(b, d + 1)])
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
	rest = a.base;
	for (int d = 0; d < b->rank; d++) {
		if (dim_divides(p->ctx, rest, stride[d], &q) && dim_is_const(q, &v))
			rest = dim_const(p->ctx, 0);
		else if (dim_is_const(rest, &all) && dim_is_const(stride[d], &unit) && unit > 0) {
			v = all / unit;
			rest = dim_const(p->ctx, all % unit);
		} else {
			continue;
		}
		out[d] = ex_add(p->pool, out[d], ex_int(p->pool, CT_I64, v));
	}
	if (b->rank)
		out[b->rank - 1] = ex_add(p->pool, out[b->rank - 1], ex_dim(p->pool, rest));
	return true;
}

/* The map [axes of E] -> [element of B at flat index AT], by DIMS or flat; null if it is not
 * affine. */
static isl_map *cell_map(Poly *p, const Exec *e, const Buf *b, Expr *at, bool dims)
{
	Iter **it = NEW_ARRAY(p->arena, e->axis.n + 1, Iter *);
	SetDims sc = {it, e->axis.n};
	Expr *idx[MAX_RANK];
	int odd = 0, n = 1;
	isl_map *m;

	for (int i = 0; i < e->axis.n; i++)
		it[i] = e->axis.at[i].it;
	idx[0] = at;
	if (dims && !by_dims(p, b, at, idx))
		return NULL;
	n = dims ? b->rank : at ? 1 : 0;
	m = poly_map(p, &sc, poly_universe(p, sc.n), idx, n, &odd);
	if (!odd)
		return m;
	isl_map_free(m);
	return NULL;
}

/* The elements of B that A and C access, flat or, if that is not affine, by dims. */
static bool cell_maps(Poly *p, const Buf *b, const Exec *a, Expr *at_a, const Exec *c, Expr *at_c,
		      isl_map **ma, isl_map **mc)
{
	for (int dims = 0; dims < 2; dims++) {
		*ma = cell_map(p, a, b, at_a, dims);
		*mc = *ma ? cell_map(p, c, b, at_c, dims) : NULL;
		if (*mc)
			return true;
		isl_map_free(*ma);
	}
	return false;
}

/* Checks that points of the band that A and B store to the same element of L, in one lifetime of L,
 * are equal. */
static void check_cells(Poly *p, const Exec *a, const Exec *b, const Local *l, int nband)
{
	Dep d = {.from = a->stmt, .to = b->stmt, .what = "the local of a value", .buf = l->buf};
	isl_map *ca, *cb, *v, *points;

	if (!cell_maps(p, l->buf, a, a->idx, b, b->idx, &ca, &cb)) {
		poly_unproved(p, "the cells of %s", l->buf->name);
		return;
	}
	v = isl_map_apply_range(ca, isl_map_reverse(cb));
	for (int i = 0; i < around(a, l); i++)
		v = isl_map_equate(v, isl_dim_in, i, isl_dim_out, i);
	points = isl_map_apply_range(isl_map_apply_domain(isl_map_copy(v), isl_map_copy(a->map)),
				     isl_map_copy(b->map));
	for (int i = 0; i < nband && i < a->nat && i < b->nat; i++) {
		isl_map *bad = isl_map_order_lt(isl_map_copy(points), isl_dim_in, i, isl_dim_out,
						i);

		bad = isl_map_union(
			bad, isl_map_order_gt(isl_map_copy(points), isl_dim_in, i, isl_dim_out, i));
		if (!poly_no_pair(p, isl_map_copy(bad))) {
			isl_map *when = isl_map_intersect(poly_times(a, b, bad), isl_map_copy(v));

			poly_say(p, &d, a, b, when, "is shared");
			isl_map_free(when);
			isl_map_free(bad);
			break;
		}
		isl_map_free(bad);
	}
	isl_map_free(points);
	isl_map_free(v);
}

/* The axes of an execution, and further axes for expressions that are not affine in them. */
typedef struct Wide {
	Poly *p;
	const Exec *e;
	SetDims sc;
	VEC(Iter *) it;
	VEC(Expr *) odd; /* the expressions of the further axes */
} Wide;

static void widen(Wide *w, Iter *it)
{
	vec_push(w->p->arena, &w->it, it);
	w->sc = (SetDims){w->it.at, w->it.n};
}

static Wide wide(Poly *p, const Exec *e)
{
	Wide w = {.p = p, .e = e};

	for (int i = 0; i < e->axis.n; i++)
		widen(&w, e->axis.at[i].it);
	return w;
}

/* The further axis of W for E. */
static Expr *axis_of(Wide *w, Expr *e)
{
	int i = 0;

	while (i < w->odd.n && w->odd.at[i] != e)
		i++;
	if (i == w->odd.n) {
		vec_push(w->p->arena, &w->odd, e);
		widen(w, poly_fresh(w->p, "odd", dim_const(w->p->ctx, 1)));
	}
	return ex_iter(w->p->pool, w->it.at[w->e->axis.n + i]);
}

/* X times size D as a sum of axes, one for each monomial of D, so that X*2*N and X*-N are multiples
 * of the same axis. */
static Expr *times_size(Wide *w, Expr *x, Dim *d)
{
	ExprPool *p = w->p->pool;
	Expr *sum = ex_int(p, CT_I64, 0);
	int64_t coef;
	Dim *mono;

	for (int i = 0; dim_term(w->p->ctx, d, i, &coef, &mono); i++)
		sum = ex_add(p, sum,
			     ex_mul(p, ex_int(p, CT_I64, coef),
				    axis_of(w, ex_mul(p, x, ex_dim(p, mono)))));
	return sum;
}

static Expr *odd_as_axis(Wide *w, Expr *e)
{
	isl_pw_aff *aff = e->ct == CT_I64 ? poly_aff(w->p, &w->sc, e) : NULL;

	isl_pw_aff_free(aff);
	if (aff || e->ct != CT_I64)
		return NULL;
	if (ex_is_op(e, IN_mul) && e->op.arg[1]->kind == EX_DIM)
		return times_size(w, e->op.arg[0], e->op.arg[1]->dim);
	return axis_of(w, e);
}

/* The map [axes of W] -> [AT], at the times of its execution. */
static isl_map *wide_map(const Wide *w, Expr *const *at, int n)
{
	isl_set *set = isl_map_domain(isl_map_copy(w->e->map));
	int odd = 0;

	set = isl_set_add_dims(set, isl_dim_set, (unsigned)w->odd.n);
	return poly_map(w->p, &w->sc, set, at, n, &odd);
}

/* How an element is identified: by its indices, by its flat index, or by the flat index in terms of
 * the strides of dims, where several merged dims are represented by the first. */
typedef enum IndexForm { BY_INDEX, FLAT, BY_STRIDES, INDEX_FORMS } IndexForm;

/* Converts IDX[0..N) of buffer B to this form, in TO; returns the number of indices, 0 if that is
 * not possible. */
static int to_form(Poly *p, IndexForm how, const Buf *b, Expr *const *idx, int n, Expr **to)
{
	for (int d = 0; d < n; d++)
		to[d] = idx[d];
	if (how == BY_INDEX)
		return n;
	to[0] = poly_form(p, poly_flat(p, b, idx, n));
	if (how == FLAT)
		return 1;
	return by_dims(p, b, to[0], to) ? b->rank : 0;
}

/* An element of a buffer as an execution accesses it. */
typedef struct NamedLocal {
	Expr *at[MAX_RANK];
	int n;
} NamedLocal;

/* Rewrites X in terms of the axes of W. */
static void in_axes(Wide *w, NamedLocal *x)
{
	for (int i = 0; i < x->n; i++)
		EX_MAP (e, w->p->pool, &x->at[i])
			e = odd_as_axis(w, e) ?: e;
}

/* The map from times of A to times of B at which they access the same element; null if their
 * numbers of indices differ. */
static isl_map *where_same(const Wide *a, const NamedLocal *x, const Wide *b, const NamedLocal *y)
{
	return x->n && x->n == y->n ? isl_map_apply_range(wide_map(a, x->at, x->n),
							  isl_map_reverse(wide_map(b, y->at, y->n)))
				    : NULL;
}

/* The forms of elements and of cells of locals, and whether expressions that are not affine may be
 * axes. */
typedef struct Terms {
	IndexForm elements, cells;
	bool odd;
} Terms;

static const Terms ways[] = {{BY_INDEX, FLAT, false},   {BY_INDEX, BY_STRIDES, false},
			     {FLAT, FLAT, false},       {FLAT, BY_STRIDES, false},
			     {BY_STRIDES, FLAT, false}, {BY_STRIDES, BY_STRIDES, false},
			     {BY_INDEX, FLAT, true},    {BY_INDEX, BY_STRIDES, true}};
enum { WAYS = sizeof ways / sizeof *ways };

/* The element of B that the statement of W's execution writes, in form HOW and in the axes of W. */
static NamedLocal written(Wide *w, IndexForm how, const Buf *b)
{
	Poly *p = w->p;
	const Exec *e = w->e;
	const Stmt *s = p->k->stmts.at[e->stmt];
	Expr *idx[MAX_RANK];
	NamedLocal x;

	for (int d = 0; d < s->nwidx; d++)
		idx[d] = poly_form(
			p, ex_subst_iters(p->pool, s->widx[d], s->iter, e->point, e->npoint));
	x.n = to_form(p, how, b, idx, s->nwidx, x.at);
	in_axes(w, &x);
	return x;
}

/* The cell of L that W's execution stores to, in form HOW and in the axes of W. */
static NamedLocal stored_cell(Wide *w, IndexForm how, const Local *l)
{
	Expr *cell = poly_by_parts(w->p, w->e->idx);
	NamedLocal x;

	x.n = to_form(w->p, how, l->buf, &cell, 1, x.at);
	in_axes(w, &x);
	return x;
}

/* Whether every pair of PAIRS (times of A and B) that lies in one lifetime of L is in SAME. Frees
 * PAIRS and SAME. UNPROVED if SAME is null. A pair that is not in SAME is WRONG only if both maps
 * are EXACT. */
static PolyVerdict among(const Wide *a, const Wide *b, const Local *l, isl_map *pairs,
			 isl_map *same, bool exact)
{
	if (!same) {
		isl_map_free(pairs);
		return POLY_UNPROVED;
	}
	for (int i = 0; i < around(a->e, l) && i < around(b->e, l); i++)
		pairs = isl_map_equate(pairs, isl_dim_in, i, isl_dim_out, i);
	if (poly_no_pair(a->p, isl_map_subtract(pairs, same)))
		return POLY_PROVED;
	return exact && !a->e->weak && !b->e->weak ? POLY_WRONG : POLY_UNPROVED;
}

/* Checks that, in one lifetime of the local, A stores the element that B reads as R to the cell
 * that B reads. V: the times at which the dependence relates them; null: those at which the
 * elements are equal. UNPROVED if the forms T do not suffice. */
static PolyVerdict reads_own(Poly *p, const Exec *a, const Exec *b, const Read *r, isl_map *v,
			     Terms t)
{
	const Local *l = poly_local(p, r->local);
	Wide wa = wide(p, a), wb = wide(p, b);
	NamedLocal made = {.n = 0}, read = {.n = 0}, put, loaded;
	isl_map *pairs, *same;

	if (!v) {
		made = written(&wa, t.elements, r->temp);
		read.n = to_form(p, t.elements, r->temp, r->idx, r->nidx, read.at);
	}
	put = stored_cell(&wa, t.cells, l);
	loaded.n = to_form(p, t.cells, l->buf, &r->cell, 1, loaded.at);
	in_axes(&wb, &read);
	in_axes(&wb, &loaded);
	if ((wa.odd.n || wb.odd.n) && !t.odd)
		return POLY_UNPROVED;
	pairs = v ? isl_map_copy(v) : where_same(&wa, &made, &wb, &read);
	same = pairs ? where_same(&wa, &put, &wb, &loaded) : NULL;
	return among(&wa, &wb, l, pairs, same, !v && !t.odd);
}

/* Checks that A and B, of two statements, store the same element where they store to the same cell
 * of L in one lifetime of it. UNPROVED if the forms T do not suffice. */
static PolyVerdict shares_own(Poly *p, const Exec *a, const Exec *b, const Local *l, Terms t)
{
	Wide wa = wide(p, a), wb = wide(p, b);
	const Buf *temp = p->k->stmts.at[a->stmt]->out[0];
	const NamedLocal made[2] = {written(&wa, t.elements, temp), written(&wb, t.elements, temp)},
			 put[2] = {stored_cell(&wa, t.cells, l), stored_cell(&wb, t.cells, l)};
	isl_map *pairs, *same;

	if ((wa.odd.n || wb.odd.n) && !t.odd)
		return POLY_UNPROVED;
	pairs = where_same(&wa, &put[0], &wb, &put[1]);
	same = pairs ? where_same(&wa, &made[0], &wb, &made[1]) : NULL;
	return among(&wa, &wb, l, pairs, same, !t.odd);
}

/* Several statements may write a temporary, each some of its elements, and a local stand for it. */
static void check_sharers(Poly *p, const Exec *a, const Exec *b, const Local *l)
{
	const Stmt *s = p->k->stmts.at[a->stmt], *t = p->k->stmts.at[b->stmt];
	const bool single = s->nout == 1 && t->nout == 1;
	PolyVerdict is = single && s->out[0] != t->out[0] ? POLY_WRONG : POLY_UNPROVED;

	for (int i = 0; i < WAYS && single && is == POLY_UNPROVED; i++)
		is = shares_own(p, a, b, l, ways[i]);
	if (is == POLY_WRONG)
		poly_wrong(p, "statements %d and %d share the local %s", a->stmt, b->stmt,
			   l->buf->name);
	else if (is == POLY_UNPROVED)
		poly_unproved(p, "the cells of %s", l->buf->name);
}

/* V: the times of A and B that the dependence relates. */
static void check_read(Poly *p, const Exec *a, const Exec *b, const Read *r, isl_map *v)
{
	PolyVerdict is = reads_own(p, a, b, r, v, ways[0]);

	if (is == POLY_UNPROVED)
		is = reads_own(p, a, b, r, v, ways[1]);
	for (int i = 0; i < WAYS && is == POLY_UNPROVED; i++)
		is = reads_own(p, a, b, r, NULL, ways[i]);
	if (is == POLY_UNPROVED)
		poly_unproved(p, "which elements of %s are read", r->local->name);
	else if (is == POLY_WRONG)
		poly_wrong(p, "statement %d reads another element of %s than its own", b->stmt,
			   r->local->name);
}

/* Read R of B is the access of dependence D, and A stores to the local that R reads. */
static bool is_read(Poly *p, const Dep *d, const Exec *a, const Exec *b, const Read *r)
{
	const Stmt *s = p->k->stmts.at[b->stmt];

	if (r->temp != d->buf || r->nidx != d->nidx || a->buf[0] != r->local || !a->idx)
		return false;
	for (int i = 0; i < r->nidx; i++)
		if (poly_form(p, ex_subst_iters(p->pool, d->idx[i], s->iter, b->point,
						b->npoint)) != r->idx[i])
			return false;
	return true;
}

/* B, whose value is known to be its statement's, reads TEMP. A node need not read it where a
 * condition skips the subexpression that reads it. */
static bool reads_temp(const Poly *p, const Exec *b, const Buf *temp)
{
	for (int i = 0; i < b->reads.n; i++)
		if (b->reads.at[i].temp == temp)
			return true;
	return poly_node_loads(b->node, p->s->kernel->bufs.at[temp->id]);
}

/* B reads the local BUF itself, perhaps in a name's value. */
static bool reads_local(const Exec *b, const Buf *buf)
{
	for (int i = 0; i < b->reads.n; i++)
		if (b->reads.at[i].local == buf)
			return true;
	return false;
}

void poly_check_holder(Poly *p, const Dep *d, const Exec *a, const Exec *b, isl_map *v)
{
	const Buf *holder = NULL;
	const Local *l;

	if (b->node->kind == LN_TILE || b->node->kind == LN_OP)
		return; /* its operands may be packed copies */
	for (int i = 0; i < p->execs.n && !holder; i++) {
		const Exec *e = p->execs.at[i];

		for (int k = 0; k < 2 && e->stmt == d->from && e->part != PART_INIT && !holder; k++)
			if (e->buf[k] &&
			    (reads(p, b->node, e->buf[k]) || reads_local(b, e->buf[k])))
				holder = e->buf[k];
			else if (e->buf[k])
				holder = copied_local(p, e->node, b->node);
	}
	if (!holder && !reads_temp(p, b, d->buf))
		return;
	if (!holder) {
		poly_wrong(p, "statement %d does not read %s from where statement %d leaves it",
			   d->to, d->buf->name, d->from);
		return;
	}
	l = poly_local(p, holder);
	if (!l)
		return;
	for (int i = 0; i < b->reads.n; i++)
		if (is_read(p, d, a, b, &b->reads.at[i]))
			check_read(p, a, b, &b->reads.at[i], v);
	v = isl_map_copy(v);
	for (int i = 0; i < around(a, l) || i < around(b, l); i++) {
		bool shared = i < a->axis.n && i < b->axis.n &&
			      a->axis.at[i].it == b->axis.at[i].it;

		if (!poly_no_pair(p, isl_map_copy(v)) && (!shared || poly_differs(p, v, i))) {
			poly_say(p, d, a, b, v, "outlives the local that holds the value");
			break;
		}
		v = isl_map_equate(v, isl_dim_in, i, isl_dim_out, i);
	}
	isl_map_free(v);
}

/* ---- What scratch holds ---- */

/* A local whose elements threads hold, and its scratch: BYTES from AT on; BYTES is 0 if it has
 * none. */
typedef struct HeldLocal {
	const LNode *node;
	int64_t at, bytes;
	bool holds; /* the scratch still holds what was stored to it */
} HeldLocal;

typedef struct ScratchCheck {
	Poly *p;
	const Stage *stage;
	VEC(HeldLocal) locals;
} ScratchCheck;

static bool find_locals(ScratchCheck *s, const LNode *n)
{
	bool has_scratch = false;

	for (; n; n = n->next) {
		if (n->kind == LN_LOCAL && (n->local.keep || n->local.at)) {
			HeldLocal x = {.node = n};

			if (n->local.at && n->local.at->kind == EX_CONST)
				x.at = n->local.at->i;
			else if (n->local.at)
				dim_is_const(ex_as_dim(s->p->ctx, n->local.at), &x.at);
			if (n->local.keep)
				x.bytes = (int64_t)s->stage->block.threads * n->local.scratch *
					  dtype_bytes(n->local.buf->dtype);
			else
				x.bytes = buf_bytes(n->local.buf, INT64_MAX);
			x.bytes = x.bytes < 0 ? 0 : x.bytes;
			vec_push(s->p->arena, &s->locals, x);
			has_scratch = has_scratch || n->local.scratch;
		}
		has_scratch = find_locals(s, n->body) || has_scratch;
	}
	return has_scratch;
}

/* N reads X in scratch, or recomputes from X a value that it reads. */
static bool needs(const ScratchCheck *s, const LNode *n, const HeldLocal *x)
{
	if (poly_node_loads(n, x->node->local.buf))
		return true;
	VEC_EACH_AT (y, &s->locals) {
		if (!y->bytes && y->node != n && poly_node_loads(n, y->node->local.buf) &&
		    needs(s, y->node, x))
			return true;
	}
	return false;
}

static void store_to(ScratchCheck *s, const LNode *n, HeldLocal *x)
{
	VEC_EACH_AT (y, &s->locals) {
		if (y == x || x->at >= y->at + y->bytes || y->at >= x->at + x->bytes)
			continue;
		if (needs(s, n, y) && (x->at != y->at || x->bytes != y->bytes))
			poly_wrong(s->p, "%s is stored over a part of %s that it is made of",
				   x->node->local.buf->name, y->node->local.buf->name);
		y->holds = false;
	}
	x->holds = true;
}

/* Simulates stores to scratch. Loops run twice, so that an iteration sees what the previous one
 * stored. Each thread has its own elements. */
static void run_scratch(ScratchCheck *s, const LNode *n)
{
	for (; n; n = n->next) {
		VEC_EACH_AT (x, &s->locals)
			if (n->kind != LN_LOCAL && x->bytes && !x->holds && needs(s, n, x))
				poly_wrong(s->p, "another local is where %s was in scratch",
					   x->node->local.buf->name);
		VEC_EACH_AT (x, &s->locals) {
			if (n == x->node)
				x->holds = false;
			if (n->kind == LN_STORE && n->store.buf[0] == x->node->local.buf &&
			    x->bytes)
				store_to(s, n, x);
		}
		run_scratch(s, n->body);
		if (n->kind == LN_LOOP && n->loop.kind != LOOP_GROUP)
			run_scratch(s, n->body);
	}
}

/* Checks, in stages whose threads have elements in scratch beyond those in registers, that each
 * read finds what was stored. */
static void check_scratch(Poly *p, const Stage *st)
{
	ScratchCheck s = {.p = p, .stage = st};
	bool has_scratch = find_locals(&s, st->block.head);

	has_scratch = find_locals(&s, st->body) || has_scratch;
	if (!has_scratch)
		return;
	run_scratch(&s, st->block.head);
	run_scratch(&s, st->body);
}

void poly_check_locals(Poly *p)
{
	for (int i = 0; i < p->s->stages.n; i++)
		check_scratch(p, p->s->stages.at[i]);
	for (int i = 0; i < p->execs.n; i++)
		for (int j = i; j < p->execs.n; j++) {
			const Exec *a = p->execs.at[i], *b = p->execs.at[j];
			const Local *l = a->buf[0] && a->buf[0] == b->buf[0]
						 ? poly_local(p, a->buf[0])
						 : NULL;

			if (!l)
				continue;
			if (a->stmt != b->stmt)
				check_sharers(p, a, b, l);
			else
				check_cells(p, a, b, l,
					    a->part == PART_WRITE && b->part == PART_WRITE
						    ? poly_writes_of(p, p->k->stmts.at[a->stmt])
						    : p->coords[a->stmt].nband);
		}
}
