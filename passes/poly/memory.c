/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The check of the memory of locals: elements that are accessed exist, their type holds what the
 * statement computes, the state of a reduction is one element from its first value to its last
 * reader, and locals in scratch lie inside of it, apart from others that hold values at the same
 * time.
 */
#include "passes/poly/poly_impl.h"

static SetDims axes_of(Poly *p, const Exec *e)
{
	Iter **it = NEW_ARRAY(p->arena, e->axis.n + 1, Iter *);

	for (int i = 0; i < e->axis.n; i++)
		it[i] = e->axis.at[i].it;
	return (SetDims){it, e->axis.n};
}

/* SET (taken) is empty in all runs that the schedule is for. */
static bool never_runs(Poly *p, isl_set *set)
{
	const SizeStep *w = &p->s->where;
	Dim *const size[] = {w->size, w->also};
	const int64_t most[] = {w->most, w->also_most};
	const SetDims none = {NULL, 0};

	for (int i = 0; i < 2; i++) {
		isl_set *fits = size[i] ? poly_cond(p, &none,
						    ex_op2(p->pool, IN_le, ex_dim(p->pool, size[i]),
							   ex_int(p->pool, CT_I64, most[i])))
					: NULL;

		if (fits)
			set = isl_set_intersect_params(set, isl_set_params(fits));
	}
	return poly_empty(p, set);
}

/* ---- Bounds ---- */

typedef struct BoundsCheck {
	Poly *p;
	const Exec *e;
	int choices; /* the access is below so many selects, whose conditions may exclude a fault */
} BoundsCheck;

/* Elements AT, and AT + MORE, of local B exist at all times of the execution. */
static void check_element(BoundsCheck *c, const Buf *b, Expr *at, int64_t more)
{
	Poly *p = c->p;
	ExprPool *pool = p->pool;
	const SetDims sc = axes_of(p, c->e);
	isl_set *set = isl_map_domain(isl_map_copy(c->e->map)), *low, *high;

	at = poly_form(p, at);
	low = poly_cond(p, &sc, ex_op2(pool, IN_lt, at, ex_int(pool, CT_I64, 0)));
	high = poly_cond(p, &sc,
			 ex_op2(pool, IN_ge, ex_add(pool, at, ex_int(pool, CT_I64, more)),
				ex_dim(pool, buf_numel(p->ctx, b))));
	if (!low || !high) {
		poly_unchecked(p, "that all accesses to %s are inside of it", b->name);
		isl_set_free(low);
		isl_set_free(high);
		isl_set_free(set);
		return;
	}
	set = isl_set_intersect(set, isl_set_union(low, high));
	if (never_runs(p, set))
		return;
	if (c->e->weak || c->e->odd || c->choices)
		poly_unchecked(p, "that all accesses to %s are inside of it", b->name);
	else
		poly_wrong(p, "a node accesses an element of %s that does not exist", b->name);
}

/* A local that is accessed by its elements' addresses. */
static const Buf *addressed(const Poly *p, const Buf *b)
{
	const Local *l = b ? poly_local(p, b) : NULL;

	return l && !l->node->local.keep && !b->tile ? b : NULL;
}

/* A copy reads element E of a tensor; what a statement reads is compared with the statement. */
static void check_read(BoundsCheck *c, const Expr *e)
{
	const Buf *b = e->load.buf;

	if (e->load.nidx == 1 && !b->layout)
		check_element(c, b, e->load.idx[0], 0);
	else
		poly_unchecked(c->p, "that all accesses to %s are inside of it", b->name);
}

static void check_loads(BoundsCheck *c, Expr *e)
{
	Expr *const *arg;
	const int n = ex_operands(e, &arg), choice = ex_is_op(e, IN_select);

	if (e->kind == EX_LOAD && addressed(c->p, e->load.buf))
		check_element(c, e->load.buf, e->load.idx[0], 0);
	else if (e->kind == EX_LOAD && c->e->part == PART_NONE && !poly_local(c->p, e->load.buf))
		check_read(c, e);
	c->choices += choice;
	for (int i = 0; i < n; i++)
		check_loads(c, arg[i]);
	c->choices -= choice;
}

static void check_bounds(Poly *p, const Exec *e)
{
	BoundsCheck c = {.p = p, .e = e};
	const LNode *n = e->node;

	if (n->kind == LN_OP)
		return; /* the dims of its tiles are checked as a text is read */
	for (int i = 0; i < e->guard.n; i++)
		check_loads(&c, e->guard.at[i]);
	for (int i = 0; i < 2; i++) {
		if (addressed(p, e->buf[i]) && e->idx)
			check_element(&c, e->buf[i], e->idx, 0);
		if (e->val[i])
			check_loads(&c, e->val[i]);
	}
}

/* ---- Types ---- */

/* Storing numbers of type WANT with type HELD does not change them. */
static bool holds_type(DType held, DType want)
{
	return held == want || held == ctype_dtype(dtype_info[want].ctype);
}

static void check_type(Poly *p, const Exec *e)
{
	const Stmt *s = p->k->stmts.at[e->stmt];

	for (int i = 0; i < 2; i++) {
		const int comp = e->part == PART_TERM ? i : e->comp;
		const Buf *b = e->buf[i], *out;

		if (!b || !poly_local(p, b) || comp >= s->nout)
			continue;
		out = s->out[comp];
		if (!holds_type(b->dtype, out->dtype))
			poly_wrong(p, "%s has elements of %s, and statement %d computes %s",
				   b->name, dtype_info[b->dtype].name, s->id,
				   dtype_info[out->dtype].name);
	}
}

/* ---- States ---- */

/* The map [first NBAND coordinates of the point] -> [element AT of B] of E; null if it is not
 * affine. */
static isl_map *state_of(Poly *p, const Exec *e, Expr *at, int nband)
{
	const SetDims sc = axes_of(p, e);
	isl_map *point, *cell;
	int odd = 0;

	at = poly_form(p, at);
	cell = poly_map(p, &sc, isl_map_domain(isl_map_copy(e->map)), &at, 1, &odd);
	if (odd || e->nat < nband) {
		isl_map_free(cell);
		return NULL;
	}
	point = isl_map_project_out(isl_map_copy(e->map), isl_dim_out, (unsigned)nband,
				    (unsigned)(e->nat - nband));
	return isl_map_apply_range(isl_map_reverse(point), cell);
}

/* The elements at which nodes store the first value of component C of S's state to local B; null:
 * they are not known. */
static isl_map *states(Poly *p, const Stmt *s, int c, const Buf *b, bool *any)
{
	const int nband = p->coords[s->id].nband;
	isl_map *all = isl_map_empty(isl_space_alloc(p->isl, 0, (unsigned)nband, 1));

	for (int i = 0; i < p->execs.n && all; i++) {
		const Exec *e = p->execs.at[i];
		isl_map *one;

		if (e->stmt != s->id || e->part != PART_INIT || e->buf[0] != b || !e->idx ||
		    (e->comp != c && e->node->kind != LN_TILE))
			continue;
		*any = true;
		one = state_of(p, e, e->idx, nband);
		if (one) {
			all = isl_map_union(all, one);
		} else {
			isl_map_free(all);
			all = NULL;
		}
	}
	return all;
}

/* Where E accesses component C of its point's state, AT in local B, a node has stored its first
 * value. */
static void check_state(Poly *p, const Exec *e, int c, const Buf *b, Expr *at)
{
	const Stmt *s = p->k->stmts.at[e->stmt];
	bool any = false;
	isl_map *put = states(p, s, c, b, &any), *here;

	here = put && any ? state_of(p, e, at, p->coords[s->id].nband) : NULL;
	if (!here) {
		isl_map_free(put);
		poly_unchecked(p, "that %s begins with the first value of statement %d", b->name,
			       s->id);
		return;
	}
	if (poly_no_pair(p, isl_map_subtract(here, put)))
		return;
	if (e->weak)
		poly_unchecked(p, "that %s begins with the first value of statement %d", b->name,
			       s->id);
	else
		poly_wrong(p, "an element of %s is not the one that has the state of statement %d",
			   b->name, s->id);
}

static void check_states(Poly *p, const Exec *e)
{
	const Stmt *s = p->k->stmts.at[e->stmt];

	if (!s->red || s->update || s->scan)
		return;
	for (int c = 0; c < monoid_info[s->red].n && e->part == PART_TERM; c++)
		if (e->buf[c] && poly_local(p, e->buf[c]) && e->idx)
			check_state(p, e, c, e->buf[c], e->idx);
	if (e->part == PART_WRITE && e->val[0] && e->val[0]->kind == EX_LOAD &&
	    addressed(p, e->val[0]->load.buf) && e->node->kind == LN_STORE)
		check_state(p, e, e->comp, e->val[0]->load.buf, e->val[0]->load.idx[0]);
}

/* ---- Scratch ---- */

/* A local in the scratch of a stage, up to byte END of it; it is accessed from node FIRST to node
 * LAST, in the order of the text. */
typedef struct Placed {
	const LNode *node;
	Expr *end;
	int declared, first, last;
} Placed;

typedef struct ScratchWalk {
	Poly *p;
	const Stage *stage;
	VEC(Placed) placed;
	VEC(const LNode *) nodes; /* in the order of the text */
	int now;
} ScratchWalk;

static void place(ScratchWalk *w, const LNode *n)
{
	const Buf *b = n->local.buf;
	Ctx *c = w->p->ctx;
	const int64_t bits = dtype_info[b->dtype].bits;
	const int64_t held = (int64_t)w->stage->block.threads * n->local.scratch;
	Dim *all = dim_mul(c, n->local.keep ? dim_const(c, held) : buf_numel(c, b),
			   dim_const(c, bits));
	Placed x = {.node = n, .declared = w->now, .first = -1, .last = -1};

	x.end = ex_add(w->p->pool, n->local.at,
		       ex_dim(w->p->pool, dim_ceildiv(c, all, dim_const(c, 8))));
	vec_push(w->p->arena, &w->placed, x);
}

static bool accesses(const LNode *n, const Buf *b)
{
	const LBufs bufs = lnode_bufs(n);

	VEC_EACH_AT (u, &bufs)
		if (u->b == b && u->use != LUSE_DECLARES)
			return true;
	return poly_node_loads(n, b);
}

/* Notes that nodes FROM to TO access X. */
static void extend(Placed *x, int from, int to)
{
	x->first = x->first < 0 || from < x->first ? from : x->first;
	x->last = to > x->last ? to : x->last;
}

/* A local that is declared outside of a loop and accessed in it has values in all of the loop. */
static void walk(ScratchWalk *w, const LNode *n)
{
	for (; n; n = n->next) {
		const int from = ++w->now;

		vec_push(w->p->arena, &w->nodes, n);
		if (n->kind == LN_LOCAL && n->local.at)
			place(w, n);
		for (int i = 0; i < w->placed.n; i++) {
			if (accesses(n, w->placed.at[i].node->local.buf))
				extend(&w->placed.at[i], from, from);
		}
		walk(w, n->body);
		for (int i = 0; i < w->placed.n && n->body; i++)
			if (w->placed.at[i].declared < from && w->placed.at[i].last >= from)
				extend(&w->placed.at[i], from, w->now);
	}
}

/* The conjunction of A < B and C < D, and of sizes that exist; null if it is not affine. */
static isl_set *both_below(Poly *p, Expr *a, Expr *b, Expr *c, Expr *d)
{
	const SetDims none = {NULL, 0};
	isl_set *x = poly_cond(p, &none, ex_op2(p->pool, IN_lt, a, b)),
		*y = poly_cond(p, &none, ex_op2(p->pool, IN_lt, c, d));

	if (x && y)
		return isl_set_intersect(x, y);
	isl_set_free(x);
	isl_set_free(y);
	return NULL;
}

/* Element IDX of B is the only one that E loads. */
static bool loads_only(const Expr *e, const Buf *b, const Expr *idx)
{
	Expr *const *arg;
	const int n = ex_operands(e, &arg);

	if (e->kind == EX_LOAD && e->load.buf == b && e->load.idx[0] != idx)
		return false;
	for (int i = 0; i < n; i++)
		if (!loads_only(arg[i], b, idx))
			return false;
	return true;
}

/* Where both X and Y hold values, each node that accesses them computes an element of Y from that
 * of X at the same place, once. */
static bool in_place(const ScratchWalk *w, const Placed *x, const Placed *y)
{
	const Buf *a = x->node->local.buf, *b = y->node->local.buf;
	const int last = x->last < y->last ? x->last : y->last;

	if (x->node->local.at != y->node->local.at ||
	    dtype_info[a->dtype].bits != dtype_info[b->dtype].bits)
		return false;
	for (int i = y->first; i <= last; i++) {
		const LNode *n = w->nodes.at[i - 1];

		if (accesses(n, a) || accesses(n, b))
			if (n->kind != LN_STORE || n->point.part == PART_NONE ||
			    n->store.buf[0] != b || expr_loads(n->store.val[0], b) ||
			    !loads_only(n->store.val[0], a, n->store.idx) ||
			    (n->store.guard && expr_loads(n->store.guard, a)))
				return false;
	}
	return true;
}

static void check_apart(const ScratchWalk *w, const Placed *x, const Placed *y)
{
	Poly *p = w->p;
	const char *a = x->node->local.buf->name, *b = y->node->local.buf->name;
	isl_set *both;

	if (y->first < x->first) {
		check_apart(w, y, x);
		return;
	}
	/* elements that threads hold: poly_check_locals */
	if (x->node->local.keep || y->node->local.keep || x->last < y->first || x->first < 0 ||
	    in_place(w, x, y))
		return;
	both = both_below(p, x->node->local.at, y->end, y->node->local.at, x->end);
	if (!both)
		poly_unchecked(p, "that %s and %s are at different places in scratch", a, b);
	else if (!never_runs(p, both))
		poly_wrong(p, "%s and %s are in the same scratch at the same time", a, b);
}

static void check_inside(Poly *p, const Stage *st, const Placed *x)
{
	Expr *zero = ex_int(p->pool, CT_I64, 0), *one = ex_int(p->pool, CT_I64, 1),
	     *all = st->scratch ? ex_dim(p->pool, st->scratch) : zero;
	const char *name = x->node->local.buf->name;
	isl_set *low = both_below(p, x->node->local.at, zero, zero, one),
		*high = both_below(p, all, x->end, x->node->local.at, x->end);

	if (!low || !high) {
		poly_unchecked(p, "that %s is inside of scratch", name);
		isl_set_free(low);
		isl_set_free(high);
		return;
	}
	if (!never_runs(p, isl_set_union(low, high)))
		poly_wrong(p, "%s lies outside of scratch", name);
}

static void check_scratch(Poly *p, const Stage *st)
{
	ScratchWalk w = {.p = p, .stage = st};
	int body;

	walk(&w, st->block.head);
	body = w.now;
	walk(&w, st->body);
	for (int i = 0; i < w.placed.n; i++) {
		Placed *x = &w.placed.at[i];

		/* all groups of a block share what its head declares */
		if (x->declared <= body && x->last > body)
			extend(x, x->declared, w.now);
		check_inside(p, st, x);
		for (int j = 0; j < i; j++)
			check_apart(&w, &w.placed.at[j], x);
	}
}

/* M, which stores to component C of a state that E adds terms to, begins a partial state, or adds
 * one to the whole. */
static bool is_partial(Poly *p, const Exec *m, const Exec *e, int c)
{
	const Stmt *s = p->k->stmts.at[e->stmt];
	const LNode *n = m->node;

	if (!s->red)
		return false;
	if (n->kind == LN_UPDATE)
		return n->store.red == s->red;
	return n->kind == LN_STORE && e->part == PART_TERM && !n->store.guard &&
	       m->val[0] == monoid_identity(p->pool, s->red, e->buf[0] == m->buf[c] ? 0 : 1,
					    m->val[0]->ct);
}

/* A store that carries out no statement does not change the values of statements. Partial states
 * that it begins and adds are compared in no other respect. */
static void check_move(Poly *p, const Exec *m)
{
	for (int c = 0; c < 2 && m->buf[c]; c++)
		VEC_EACH (e, &p->execs) {
			if (e->buf[0] != m->buf[c] && e->buf[1] != m->buf[c])
				continue;
			if (is_partial(p, m, e, c))
				poly_unchecked(p, "that %s has all terms once", m->buf[c]->name);
			else
				poly_wrong(p,
					   "a node stores to %s, which has values of statement %d, "
					   "and carries out no statement",
					   m->buf[c]->name, e->stmt);
		}
}

/* Where loops around E are skipped because a size is 0, E has no points. */
static void check_skipped(Poly *p, const Exec *e)
{
	const SetDims sc = axes_of(p, e);

	for (int i = 0; i < e->nonzero.n; i++) {
		Expr *zero = ex_int(p->pool, CT_I64, 0), *is = ex_dim(p->pool, e->nonzero.at[i]);
		isl_set *skipped = NULL;
		bool none = false;
		Dim *end, *rest;

		for (int j = 0; j < e->bound.n && !none; j++) {
			end = e->bound.at[j].full ? ex_as_dim(p->ctx, e->bound.at[j].hi) : NULL;
			none = end && dim_divides(p->ctx, end, e->nonzero.at[i], &rest);
		}
		if (!none)
			skipped = poly_cond(p, &sc, ex_op2(p->pool, IN_eq, is, zero));
		if (none || (skipped &&
			     never_runs(p, isl_set_intersect(isl_map_domain(isl_map_copy(e->map)),
							     skipped))))
			continue;
		poly_unchecked(p, "that a loop of statement %d does nothing where a size is 0",
			       e->stmt);
	}
}

/* ---- How threads divide the points of a loop ---- */

static bool has_whole_vectors(const Poly *p, const LNode *n)
{
	const bool blocks = n->kind == LN_COLUMNS && n->share.peel; /* and no vectors */
	Dim *end = n->range.hi && n->range.lo->kind == EX_CONST && !n->range.lo->i
			   ? ex_as_dim(p->ctx, n->range.hi)
			   : NULL;

	return blocks || (end && (n->loop.kind == LOOP_GROUP || n->kind != LN_LOOP) &&
			  dim_multiple(p->ctx, end, n->share.vector));
}

/* Parts of N that tell how the threads of a block divide its points, and are not compared. */
static void see_threads(Poly *p, const LNode *n)
{
	for (; n; n = n->next) {
		if (n->share.peel)
			poly_unchecked(p, "the first points of the threads of a loop");
		if (n->kind == LN_LOCAL && n->local.keep)
			poly_unchecked(p, "which elements of %s threads keep", n->local.buf->name);
		if (n->share.vector > 1 && !has_whole_vectors(p, n))
			poly_unchecked(p, "that a loop has whole vectors of %d points",
				       n->share.vector);
		see_threads(p, n->body);
	}
}

static void check_stage(Poly *p, const Stage *st)
{
	check_scratch(p, st);
	see_threads(p, st->block.head);
	see_threads(p, st->body);
	if (st->block.bulk.n)
		poly_unchecked(p, "the elements that blocks of stage %s copy", st->name);
}

void poly_check_memory(Poly *p)
{
	for (int i = 0; i < p->s->stages.n; i++)
		check_stage(p, p->s->stages.at[i]);
	for (int i = 0; i < p->execs.n; i++) {
		check_bounds(p, p->execs.at[i]);
		check_type(p, p->execs.at[i]);
		check_states(p, p->execs.at[i]);
		check_skipped(p, p->execs.at[i]);
	}
	for (int i = 0; i < p->moves.n; i++)
		check_move(p, p->moves.at[i]);
	for (int i = 0; i < p->moves.n; i++)
		check_bounds(p, p->moves.at[i]);
}
