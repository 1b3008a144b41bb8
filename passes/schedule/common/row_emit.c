/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop nests of the row strategy: loops over the iterators that the stage does not fix, maps,
 * states, prefix sums and scatters.
 */
#include "passes/schedule/common/row.h"

enum {
	/* Remainders and bounds, at most, of an index that are looked through for a range where
	 * it is contiguous: those of four pads of pads. Each pad has the index of the one before
	 * it several times, so that many of them would take minutes. */
	MOST_WRAPPED = 12
};

void row_open(Row *r, Nest *n, LoopKind kind, Iter *it, Expr *lo, Expr *hi)
{
	n->loop[n->n++] = l_loop(r->b, kind, it, lo, hi, 1);
}

void row_close(Row *r, Nest *n)
{
	while (n->n)
		l_close(r->b, n->loop[--n->n]);
}

static bool is_vec(const Row *r, const Iter *it)
{
	return r->vec >= 0 && r->band->of[r->s->id][r->vec] == it;
}

bool row_is_fixed(const Row *r, const Iter *it)
{
	const int b = band_index(r->band, r->s, it);

	return b >= 0 && r->fixed[b];
}

void row_point(const Row *r, Expr *const *free, Expr **at)
{
	for (int i = 0; i < r->s->niters; i++) {
		Iter *it = r->s->iter[i];

		at[i] = row_is_fixed(r, it) ? r->pos[band_index(r->band, r->s, it)] : *free++;
	}
}

Expr *row_extent(Row *r, const Iter *it)
{
	return ex_dim(r->k->pool, it->extent);
}

/* The loop iterator of IT, an iterator of the current statement that the stage does not fix, and
 * the bounds of its loop. */
static Iter *loop_over(Row *r, Iter *it, Expr **lo, Expr **hi)
{
	const int b = band_index(r->band, r->s, it);
	const bool tiled = b >= 0 && b == r->tile;

	*lo = tiled ? r->tlo : l_int(r->b, 0);
	*hi = tiled ? r->thi : row_extent(r, it);
	return b >= 0 ? r->rep[b] : it;
}

Iter *row_open_band(Row *r, Stmt *s, Nest *n, bool leave_last)
{
	Iter *last = NULL;

	for (int i = 0; i < s->nband; i++)
		if (!row_is_fixed(r, s->iter[i]) && !is_vec(r, s->iter[i]))
			last = s->iter[i];
	for (int i = 0; i < s->nband; i++) {
		Iter *it = s->iter[i], *over;
		Expr *lo, *hi;

		if (row_is_fixed(r, it) || is_vec(r, it) ||
		    (leave_last && r->vec < 0 && it == last))
			continue;
		over = loop_over(r, it, &lo, &hi);
		row_open(r, n, r->unrolled ? LOOP_UNROLL : LOOP_SERIAL, over, lo, hi);
	}
	return leave_last && r->vec < 0 ? last : NULL;
}

bool row_packed(const Stmt *s)
{
	return dtype_info[s->out[0]->dtype].bits < 8;
}

/* A map that is being emitted: the loop over its innermost iterator. */
typedef struct MapRange {
	Row *r;
	Stmt *s;
	Buf *out;
	Expr *at, *guard;
	Iter *it; /* null: there is no loop */
	LoopKind kind;
} MapRange;

/* MapParts of a map's value that all points evaluate, and what stands for each of them. */
typedef struct MapParts {
	const MapRange *m;
	/* Whether E is a part or has none, so that its operands are not looked at; adds a part
	 * to ALL. */
	bool (*end)(struct MapParts *p, Expr *e);
	bool *seen; /* by Expr.id */
	VEC(Expr *) all, by;
	Expr *guard; /* where BY stand for ALL; null: everywhere */
	/* what stands for the last of ALL where its own guard fails, which is used if there is no
	 * other; or null */
	Expr *otherwise;
} MapParts;

static void find_parts(MapParts *p, Expr *e)
{
	Expr *const *of;
	int n = ex_operands(e, &of);

	if (p->seen[e->id])
		return;
	p->seen[e->id] = true;
	if (p->end(p, e))
		return;
	if (ex_is_op(e, IN_select) || ex_is_op(e, IN_and) || ex_is_op(e, IN_or))
		n = 1; /* the other operands may not be evaluated */
	for (int i = 0; i < n; i++)
		find_parts(p, of[i]);
}

/* The parts of VAL that END finds. */
static MapParts map_parts(const MapRange *m, Expr *val, bool (*end)(MapParts *p, Expr *e))
{
	ARENA_LOCAL(tmp);
	MapParts p = {.m = m, .end = end, .seen = NEW_ARRAY(tmp, expr_count(m->r->k->pool), bool)};

	find_parts(&p, val);
	return p;
}

static Expr *with_parts(MapParts *p, Expr *val)
{
	if (!p->all.n)
		return val;
	EX_MAP (x, p->m->r->k->pool, &val)
		for (int i = 0; i < p->all.n; i++)
			if (p->all.at[i] == x) {
				x = p->by.at[i];
				break;
			}
	return val;
}

/* ---- Ranges ---- */

/* The quotient of X by N in the middle of the loop of M; 0 if only the run tells. */
static int64_t middle_quotient(const MapRange *m, Expr *x, const Expr *n)
{
	ExprPool *p = m->r->k->pool;
	Iter *it = m->it;
	Expr *middle;
	int64_t extent;

	if (!dim_is_const(it->extent, &extent) || n->kind != EX_CONST || n->i <= 0)
		return 0;
	middle = ex_int(p, CT_I64, extent / 2);
	x = ex_subst_iters(p, x, &it, &middle, 1);
	return x->kind == EX_CONST && x->i > 0 ? x->i / n->i : 0;
}

/* Index E of the map M at the points of the loop where GUARD, to which conditions are added, holds:
 * without the remainders and bounds that E has for the other points. The index of a row of W
 * elements with two reflected ones before it, say, is i - 2 where inside(i - 2, W). */
static Expr *inside_of(const MapRange *m, Expr *e, Expr **guard)
{
	ExprPool *p = m->r->k->pool;
	Expr *x, *y, *q;
	int64_t step;
	int by = 0;

	if (e->kind != EX_INST || e->op.n != 2 || !expr_has_iter(e, m->it))
		return e;
	switch (e->op.inst) {
	case IN_add:
	case IN_sub:
	case IN_mul:
		x = inside_of(m, e->op.arg[0], guard);
		y = inside_of(m, e->op.arg[1], guard);
		return e->op.inst == IN_add   ? ex_add(p, x, y)
		       : e->op.inst == IN_sub ? ex_sub(p, x, y)
					      : ex_mul(p, x, y);
	case IN_mod:
	case IN_floordiv:
		if (expr_has_iter(e->op.arg[1], m->it))
			return e;
		x = inside_of(m, e->op.arg[0], guard);
		q = ex_int(p, CT_I64, middle_quotient(m, x, e->op.arg[1]));
		y = ex_sub(p, x, ex_mul(p, q, e->op.arg[1]));
		*guard = ex_and(p, *guard, ex_inside(p, y, e->op.arg[1]));
		return e->op.inst == IN_mod ? y : q;
	case IN_min:
	case IN_max:
		x = inside_of(m, e->op.arg[0], guard);
		if (!ex_const_step(m->r->k->ctx, x, m->it, &step) || step != 1)
			x = inside_of(m, e->op.arg[by = 1], guard);
		y = inside_of(m, e->op.arg[1 - by], guard);
		*guard = ex_and(p, *guard, ex_op2(p, e->op.inst == IN_min ? IN_le : IN_ge, x, y));
		return x;
	default: return e;
	}
}

static int count_wrapped(Expr *e)
{
	int n = 0;

	EX_EACH (x, e)
		n += ex_is_op(x, IN_mod) || ex_is_op(x, IN_floordiv) || ex_is_op(x, IN_min) ||
		     ex_is_op(x, IN_max);
	return n;
}

/* The elements at the flat index IDX are contiguous along the loop of M. */
static bool is_contiguous(const MapRange *m, Expr *idx)
{
	int64_t step;

	return ex_const_step(m->r->k->ctx, idx, m->it, &step) && step == 1;
}

/* Divides the conjuncts of COND into those that bound the loop of M by affine functions, *ALONG,
 * and those without its iterator, *APART; each is null if there are none. False if there are
 * others. */
static bool bounds_loop(const MapRange *m, Expr *cond, Expr **along, Expr **apart)
{
	Expr **to;

	if (ex_is_op(cond, IN_and))
		return bounds_loop(m, cond->op.arg[0], along, apart) &&
		       bounds_loop(m, cond->op.arg[1], along, apart);
	if (!guard_is_affine(m->r->k, cond))
		return false;
	to = expr_has_iter(cond, m->it) ? along : apart;
	*to = ex_and(m->r->k->pool, *to, cond);
	return true;
}

/* Adds a choice by position that is the same for a range of the loop: of a row that is padded
 * with a constant. The range must be known: rows of a triangle, whose ends depend on the row,
 * took 4 times as long in two loops with AVX2, and short padded rows of unknown sizes 1.7 times.
 * A GPU loads under a condition anyway. */
static bool ends_at_bounded(MapParts *p, Expr *e)
{
	Expr *along = NULL, *apart = NULL;
	const Row *r = p->m->r;

	if (!r->how || !ex_is_op(e, IN_select) ||
	    !bounds_loop(p->m, e->op.arg[0], &along, &apart) || !along)
		return false;
	p->guard = ex_and(r->k->pool, p->guard, along);
	p->otherwise = e->op.arg[2];
	vec_push(r->b->arena, &p->all, e);
	vec_push(r->b->arena, &p->by,
		 apart ? ex_op3(r->k->pool, IN_select, apart, e->op.arg[1], e->op.arg[2])
		       : e->op.arg[1]);
	return true;
}

/* Adds a load that is contiguous for a range of the loop: of a row that is padded with its own
 * elements. */
static bool ends_at_padded(MapParts *p, Expr *e)
{
	Expr *inside, *guard = p->guard;
	int wrapped;

	if (ends_at_bounded(p, e))
		return true;
	if (e->kind != EX_LOAD)
		return false;
	wrapped = count_wrapped(e);
	if (!wrapped || wrapped > MOST_WRAPPED || !expr_has_iter(e->load.idx[0], p->m->it) ||
	    is_contiguous(p->m, e->load.idx[0]))
		return true;
	inside = inside_of(p->m, e->load.idx[0], &guard);
	if (is_contiguous(p->m, inside)) {
		p->guard = guard;
		vec_push(p->m->r->b->arena, &p->all, e);
		vec_push(p->m->r->b->arena, &p->by,
			 ex_load(p->m->r->k->pool, e->load.buf, &inside, 1));
	}
	return true;
}

/* The range FROM to TO is most of the loop from LO to HI; OTHERWISE, if that is not known. */
static bool is_most(const Expr *lo, const Expr *hi, const Expr *from, const Expr *to,
		    bool otherwise)
{
	if (lo->kind != EX_CONST || hi->kind != EX_CONST || from->kind != EX_CONST ||
	    to->kind != EX_CONST)
		return otherwise;
	return 2 * (to->i - from->i) >= hi->i - lo->i;
}

/* VAL has a load with a bounded index, which would be gathered along the loop of M, though it may
 * be contiguous for a range of it. */
static bool gathers_bounded(const MapRange *m, Expr *val)
{
	EX_EACH_LOAD (e, val)
		if (e->load.nidx && expr_has_iter(e, m->it) && count_wrapped(e) &&
		    !is_contiguous(m, e->load.idx[0]))
			return true;
	return false;
}

static void emit_loop(const MapRange *m, Expr *val, Expr *lo, Expr *hi)
{
	LBuild *b = m->r->b;
	LNode *l = m->it ? l_loop(b, m->kind, m->it, lo, hi, 1) : NULL;

	row_does(m->r, l_store(b, m->out, m->at, val, m->guard), m->s, PART_WRITE, m->s->niters,
		 NULL);
	if (l)
		l_close(b, l);
}

/* Stores VAL from LO to HI. A choice by position that is the same for all points divides the
 * range, one part of which is empty, so that the loop has no condition. The ends of a row that is
 * padded with its own elements divide it, too: between 3 elements before and 3 after it, a row of
 * 128 is read in order. */
static void emit_range(const MapRange *m, Expr *val, Expr *lo, Expr *hi)
{
	LBuild *b = m->r->b;
	Expr *from = lo, *to = hi, *along = NULL, *apart = NULL;
	MapParts padded;

	if (!m->it || expr_can_fault(val)) {
		emit_loop(m, val, lo, hi);
		return;
	}
	if (ex_is_op(val, IN_select) && bounds_loop(m, val->op.arg[0], &along, &apart) && !along) {
		guard_to_range(m->r->k, val->op.arg[0], m->it, &from, &to);
		emit_range(m, val->op.arg[1], lo, to);
		emit_range(m, val->op.arg[2], to, hi);
		return;
	}
	padded = map_parts(m, val, ends_at_padded);
	if (padded.all.n && !guard_to_range(m->r->k, padded.guard, m->it, &from, &to) &&
	    is_most(lo, hi, from, to, !padded.otherwise || gathers_bounded(m, padded.by.at[0]))) {
		Expr *inside = with_parts(&padded, val), *outside = val;
		const bool begins = from == lo, ends = to == hi;

		if (padded.all.n == 1 && padded.otherwise) {
			padded.by.at[0] = padded.otherwise;
			outside = with_parts(&padded, val);
		}
		from = begins ? lo : l_min(b, from, hi);
		to = ends ? hi : l_max(b, to, from);
		if (!begins)
			emit_loop(m, outside, lo, from);
		emit_range(m, inside, from, to);
		if (!ends)
			emit_loop(m, outside, to, hi);
		return;
	}
	emit_loop(m, val, lo, hi);
}

/* ---- Indices that may fail ---- */

/* Adds an index that is the same for all points of the loop. */
static bool ends_at_index(MapParts *p, Expr *e)
{
	ExprKind size;

	if (!ex_is_op(e, IN_index))
		return false;
	size = e->op.arg[1]->kind;
	if (!expr_has_iter(e, p->m->it) && (size == EX_DIM || size == EX_CONST))
		vec_push(p->m->r->b->arena, &p->all, e);
	return true;
}

/* VAL of the map M, with names for such indices, which are evaluated before the loop. With them,
 * it could not be in vectors. */
static Expr *index_before(const MapRange *m, Expr *val)
{
	LBuild *b = m->r->b;
	MapParts p = map_parts(m, val, ends_at_index);

	for (int i = 0; i < p.all.n; i++) {
		const Expr *size = p.all.at[i]->op.arg[1];
		Iter *it = l_iter(b, arena_printf(b->arena, "at%d", i),
				  size->kind == EX_DIM ? size->dim : dim_const(b->k->ctx, size->i));

		l_let(b, it, p.all.at[i]);
		vec_push(b->arena, &p.by, ex_iter(b->p, it));
	}
	return with_parts(&p, val);
}

/* ---- Transposes ---- */

/* Adds a load that goes along the tile in memory, and not along the vector iterator. */
static bool ends_at_turned(MapParts *p, Expr *e)
{
	const Row *r = p->m->r;
	Ctx *c = r->k->ctx;

	if (e->kind != EX_LOAD)
		return false;
	if (!expr_can_fault(e) && !e->load.buf->data && dtype_info[e->load.buf->dtype].bits >= 8 &&
	    ex_runs_along(c, e->load.idx[0], r->rep[r->tile]) &&
	    !ex_runs_along(c, e->load.idx[0], r->rep[r->vec]) && expr_has_iter(e, r->rep[r->vec]))
		vec_push(r->b->arena, &p->all, e);
	return true;
}

/* The current statement loops only over the tile and the vector iterator. */
static bool has_tile_alone(const Row *r)
{
	for (int i = 0; i < r->s->niters; i++) {
		const int b = band_index(r->band, r->s, r->s->iter[i]);

		if (b < 0 || (!r->fixed[b] && b != r->tile && b != r->vec))
			return false;
	}
	return r->tile >= 0 && r->vec >= 0;
}

/* VAL of the map M over a tile, which computes something of what it transposes: that is transposed
 * first, in loops with nothing else, to a local from which VAL loads it. */
static Expr *transposed_first(const MapRange *m, Expr *val)
{
	const Row *r = m->r;
	LBuild *b = r->b;
	ExprPool *p = b->p;
	MapParts turned = map_parts(m, val, ends_at_turned);
	Iter *j = r->rep[r->tile], *v = r->rep[r->vec];
	Expr *at = ex_add(p, ex_mul(p, ex_sub(p, ex_iter(p, j), r->tlo), l_int(b, r->block)),
			  ex_sub(p, ex_iter(p, v), r->v0));

	VEC_EACH (load, &turned.all) {
		Buf *to = l_temp(b, "turned", load->load.buf->dtype,
				 dim_const(r->k->ctx, r->tile_points * r->block));
		LNode *outer = l_loop(b, LOOP_SERIAL, j, r->tlo, r->thi, 1),
		      *inner = l_loop(b, LOOP_VECTOR, v, r->vlo, r->vhi, 1);

		l_store(b, to, at, load, NULL);
		l_close(b, inner);
		l_close(b, outer);
		vec_push(b->arena, &turned.by, ex_load(p, to, &at, 1));
	}
	return with_parts(&turned, val);
}

/* The loop of M, from LO to HI, has points. */
static bool has_points(const MapRange *m, const Expr *lo, const Expr *hi)
{
	int64_t least, most;

	if (m->it == (m->r->vec >= 0 ? m->r->rep[m->r->vec] : NULL))
		return true; /* a stage has no blocks without points */
	if (lo->kind == EX_CONST && hi->kind == EX_CONST)
		return lo->i < hi->i;
	dim_bounds(m->r->k->ctx, m->it->extent, &least, &most);
	return least > 0 && lo->kind == EX_CONST && !lo->i;
}

/* The points of the loop of M, whose statement stores VAL in the order of its points, write
 * elements that differ, such as those of a row of a ScatterND, and read none of them: their order
 * does not matter. */
static bool differ_along_loop(const MapRange *m, Expr *val)
{
	if (!m->it || expr_can_fault(m->at) || !ex_runs_along(m->r->k->ctx, m->at, m->it))
		return false;
	EX_EACH_LOAD (e, val)
		if (e->load.buf == m->out)
			return false;
	return true;
}

static void emit_map(Row *r, Stmt *s)
{
	Nest n = {.n = 0};
	Iter *last;
	Expr *val = row_placed(r, s->val[0]), *lo = NULL, *hi = NULL;
	MapRange m = {.r = r, .s = s, .guard = row_placed(r, s->guard)};

	if (has_tile_alone(r) && !s->guard && val->kind != EX_LOAD)
		val = transposed_first(&m, val);
	last = row_open_band(r, s, &n, true);
	m.at = row_write_index(r, s, 0, &m.out);
	if (r->vec >= 0) {
		lo = r->vlo;
		hi = r->vhi;
		m.it = r->rep[r->vec];
	} else if (last) {
		m.it = loop_over(r, last, &lo, &hi);
	}
	if (m.it && !m.guard && (expr_can_fault(val) || expr_can_fault(m.at)) &&
	    has_points(&m, lo, hi)) {
		val = index_before(&m, val);
		m.at = index_before(&m, m.at);
	}
	m.kind = r->unrolled ? LOOP_UNROLL
		 : (s->ordered && !differ_along_loop(&m, val)) || expr_can_fault(val) ||
				 row_packed(s)
			 ? LOOP_SERIAL
		 : r->vec >= 0 && l_short(r->rep[r->vec]->extent) ? LOOP_SHORT
								  : LOOP_VECTOR;
	if (m.it)
		m.guard = guard_to_range(r->k, m.guard, m.it, &lo, &hi);
	emit_range(&m, val, lo, hi);
	row_close(r, &n);
}

LNode *row_state_node(Row *r, LNodeKind kind, Stmt *s, Buf *const *acc, Expr *idx, Expr *const *val,
		      Expr *guard)
{
	LNode *n = l_node(r->b, kind);

	n->store.red = s->red;
	n->store.nout = monoid_info[s->red].n;
	for (int i = 0; i < n->store.nout; i++) {
		n->store.buf[i] = acc[i];
		n->store.val[i] = val[i];
	}
	n->store.idx = idx;
	n->store.guard = guard;
	return n;
}

void row_declare_state(Row *r, Stmt *s, Buf **acc, Dim *size)
{
	for (int i = 0; i < monoid_info[s->red].n; i++)
		acc[i] = l_temp(r->b, "acc", ctype_dtype(s->val[i]->ct), size);
}

static Expr *initial(Row *r, Stmt *s, int i)
{
	if (s->update && i < s->nout) {
		Buf *out;
		Expr *at = row_write_index(r, s, i, &out);

		return ex_load(r->k->pool, out, &at, 1);
	}
	return monoid_identity(r->k->pool, s->red, i, s->val[i]->ct);
}

void row_init_state(Row *r, Stmt *s, Buf *const *acc, Expr *idx)
{
	for (int i = 0; i < monoid_info[s->red].n; i++) {
		LNode *n = l_store(r->b, acc[i], idx, initial(r, s, i), NULL);

		row_does(r, n, s, PART_INIT, s->nband, NULL);
		n->point.comp = i;
	}
}

void row_store_state(Row *r, Stmt *s, Buf *const *acc, Expr *idx)
{
	for (int i = 0; i < s->nout; i++) {
		Buf *out;
		Expr *at = row_write_index(r, s, i, &out);
		LNode *n = l_store(r->b, out, at, ex_load(r->k->pool, acc[i], &idx, 1), NULL);

		row_does(r, n, s, PART_WRITE, s->scan ? s->niters : s->nband, NULL);
		n->point.comp = i;
	}
}

/* Opens the loop over the points of the vector iterator, if there is one. */
static void open_points(Row *r, Nest *n, LoopKind kind)
{
	if (r->vec >= 0)
		row_open(r, n, kind, r->rep[r->vec], r->vlo, r->vhi);
}

/* A prefix reduction: one state, or one for each point of the vector iterator, stored after
 * every term. */
static void emit_scan(Row *r, Stmt *s)
{
	Nest n = {.n = 0}, in = {.n = 0};
	ExprPool *p = r->k->pool;
	Expr *zero = l_int(r->b, 0), *val[2] = {NULL, NULL},
	     *at = r->vec >= 0 ? ex_sub(p, ex_iter(p, r->rep[r->vec]), r->v0) : zero;
	LoopKind kind = row_packed(s) ? LOOP_SERIAL : LOOP_VECTOR;
	Buf *acc[2];

	row_open_band(r, s, &n, false);
	row_declare_state(r, s, acc, r->vec >= 0 ? dim_const(r->k->ctx, r->block) : NULL);
	for (int i = 0; i < monoid_info[s->red].n; i++) {
		val[i] = row_placed(r, s->val[i]);
		kind = expr_can_fault(val[i]) ? LOOP_SERIAL : kind;
	}
	open_points(r, &in, LOOP_SERIAL);
	row_init_state(r, s, acc, at);
	row_close(r, &in);
	for (int i = s->nband; i < s->niters; i++)
		row_open(r, &in, LOOP_SERIAL, s->iter[i], zero, row_extent(r, s->iter[i]));
	open_points(r, &in, kind);
	row_does(r, row_state_node(r, LN_UPDATE, s, acc, at, val, row_placed(r, s->guard)), s,
		 PART_TERM, s->niters, NULL);
	row_store_state(r, s, acc, at);
	row_close(r, &in);
	row_close(r, &n);
}

/* A scatter with a reduction: load, combine and store, one point after the other. */
static void emit_scatter(Row *r, Stmt *s)
{
	Nest n = {.n = 0};
	Expr *val[2] = {NULL, NULL}, *at = NULL;
	Buf *out[2] = {NULL, NULL};

	row_open_band(r, s, &n, false);
	if (r->vec >= 0)
		row_open(r, &n, LOOP_SERIAL, r->rep[r->vec], r->vlo, r->vhi);
	for (int i = 0; i < s->nout; i++) {
		at = row_write_index(r, s, i, &out[i]);
		val[i] = row_placed(r, s->val[i]);
	}
	row_does(r, row_state_node(r, LN_UPDATE, s, out, at, val, row_placed(r, s->guard)), s,
		 PART_TERM, s->niters, NULL);
	row_close(r, &n);
}

/* ---- Reductions with scalar states, in lanes over the contiguous reduced iterator ---- */

Points row_free_points(Row *r, Stmt *s)
{
	Points p = {.k = r->k,
		    .ne = s->red ? monoid_info[s->red].n : 1,
		    .guard = row_placed(r, s->guard)};

	for (int i = 0; i < p.ne; i++)
		p.e[i] = row_placed(r, s->val[i]);
	for (int i = s->red ? s->nband : 0; i < s->niters; i++)
		if (!row_is_fixed(r, s->iter[i]))
			points_add(&p, s->iter[i]);
	return p;
}

void row_terms(Row *r, Stmt *s, Points *t)
{
	*t = row_free_points(r, s);
	points_join(t);
}

/* The number in T of the iterator along which the lanes of S go. */
static int lane_of(const Row *r, const Stmt *s, const Points *t)
{
	const int n = r->how ? r->how[s->id].lane - s->nband : 0;

	if (r->unrolled)
		return -1;
	for (int i = 0; r->how && i < t->n; i++)
		if (expr_has_iter(t->at[n], t->it[i]))
			return i;
	return row_lane_of(t);
}

/* A reduction with scalar states, in lanes over a reduced iterator. */
static void emit_reduction(Row *r, Stmt *s)
{
	Nest n = {.n = 0}, in = {.n = 0};
	Expr *zero = l_int(r->b, 0), *guard, *lo = zero, *hi;
	Buf *acc[2];
	LNode *node;
	Points t;
	int lane;

	row_open_band(r, s, &n, false);
	row_declare_state(r, s, acc, NULL);
	row_terms(r, s, &t);
	lane = t.n ? lane_of(r, s, &t) : -1;
	row_init_state(r, s, acc, zero);
	for (int i = 0; i < t.n; i++)
		if (i != lane)
			row_open(r, &in, r->unrolled ? LOOP_UNROLL : LOOP_SERIAL, t.it[i], zero,
				 row_extent(r, t.it[i]));
	if (!t.n || r->unrolled) {
		node = row_state_node(r, LN_UPDATE, s, acc, zero, t.e, t.guard);
	} else {
		hi = row_extent(r, t.it[lane]);
		guard = guard_to_range(r->k, t.guard, t.it[lane], &lo, &hi);
		node = row_state_node(r, LN_REDUCE, s, acc, zero, t.e, guard);
		node->range.var = t.it[lane];
		node->range.lo = lo;
		node->range.hi = hi;
	}
	row_does(r, node, s, PART_TERM, s->niters, t.at);
	row_close(r, &in);
	row_store_state(r, s, acc, zero);
	row_close(r, &n);
}

void row_emit(Row *r)
{
	Stmt *s = r->s;

	if (!s->red)
		emit_map(r, s);
	else if (s->update && s->nband == s->niters)
		emit_scatter(r, s);
	else if (s->scan)
		emit_scan(r, s);
	else
		emit_reduction(r, s);
}
