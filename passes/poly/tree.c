/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the loop tree as executions: for each node that carries out part of a statement, the loops
 * around it, their bounds, and the point. They are expressed over new iterators, one for each loop,
 * with the definitions of LETs substituted.
 *
 * The loop of a stage runs over several iterators as one: p mod N and p div N. If N is an unknown
 * size, these are not affine. But if p runs from 0 to a multiple of N, (p div N, p mod N) takes
 * every pair within its ranges once and in order, so p is split into two axes.
 */
#include "passes/poly/poly_impl.h"

typedef struct Bind {
	const Iter *var;
	Expr *is;
} Bind;

typedef struct TreeWalk {
	Poly *p;
	VEC(Bind) env; /* later ones hide earlier ones */
	VEC(Bound) loops;
	VEC(AxisKind) kinds;
	VEC(Dim *) when; /* sizes that are not 0 here, or loops would be skipped */
	VEC(const SplitAt *) splits; /* before here, in the bodies around here */
	int order;
	bool unbound;
} TreeWalk;

Iter *poly_fresh(Poly *p, const char *name, Dim *extent)
{
	Iter *it = NEW(p->arena, Iter);

	*it = (Iter){.name = name, .extent = extent, .id = -1};
	return it;
}

/* ---- Splits ---- */

/* Splits X into Q*N + R; null if that is not possible, or X is split by another number. */
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
	s.q = poly_fresh(p, x->name, many);
	s.r = poly_fresh(p, x->name, n);
	vec_push(p->arena, &p->splits, s);
	return &vec_last(&p->splits);
}

enum {
	NOT_FREE = -2
}; /* Iter.id of a loop that does not run over all of its extent; -1 of one that does */

static Expr *bound_to(TreeWalk *w, Expr *e)
{
	if (e->kind == EX_ITER && e->iter->id >= 0) {
		for (int i = w->env.n - 1; i >= 0; i--)
			if (w->env.at[i].var == e->iter)
				return w->env.at[i].is;
		w->unbound = true;
	}
	if (e->kind == EX_INST && (e->op.inst == IN_floordiv || e->op.inst == IN_mod) &&
	    e->op.arg[0]->kind == EX_ITER) {
		Dim *n = ex_as_dim(w->p->ctx, e->op.arg[1]);
		const Split *s = n ? split(w->p, e->op.arg[0]->iter, n) : NULL;

		return s ? ex_iter(w->p->pool, e->op.inst == IN_mod ? s->r : s->q) : NULL;
	}
	return NULL;
}

static Expr *resolve(TreeWalk *w, Expr *e)
{
	EX_MAP (x, w->p->pool, &e)
		x = bound_to(w, x) ?: x;
	return e;
}

/* ---- Nodes ---- */

static void bind(TreeWalk *w, const Iter *var, Expr *is)
{
	Bind b = {var, is};

	vec_push(w->p->arena, &w->env, b);
}

static void push_loop(TreeWalk *w, const Iter *var, AxisKind kind, Expr *lo, Expr *hi, int64_t step,
		      Dim *extent)
{
	Bound b = {.lo = lo, .hi = hi, .step = step};
	Dim *end = ex_as_dim(w->p->ctx, hi), *from = ex_as_dim(w->p->ctx, lo);

	b.full = step == 1 && end && from && dim_equals(from, 0);
	b.it = poly_fresh(w->p, var->name, b.full ? end : extent);
	if (!b.full)
		b.it->id = NOT_FREE;
	vec_push(w->p->arena, &w->loops, b);
	vec_push(w->p->arena, &w->kinds, kind);
	bind(w, var, ex_iter(w->p->pool, b.it));
}

static void pop_to(TreeWalk *w, int loops, int env)
{
	w->loops.n = w->kinds.n = loops;
	w->env.n = env;
}

static Exec *read_exec(TreeWalk *w, const LNode *n, LPart part, int order)
{
	Poly *p = w->p;
	Exec *e = NEW(p->arena, Exec);

	*e = (Exec){.stmt = n->point.stmt,
		    .comp = n->point.comp,
		    .order = order,
		    .part = part,
		    .node = n,
		    .nat = n->point.nat};
	for (int i = 0; i < w->loops.n; i++) {
		SetAxis a = {w->loops.at[i].it, w->loops.at[i].it, w->kinds.at[i]};

		vec_push(p->arena, &e->bound, w->loops.at[i]);
		vec_push(p->arena, &e->axis, a);
	}
	for (int i = 0; i < w->when.n; i++)
		vec_push(p->arena, &e->nonzero, w->when.at[i]);
	e->at = NEW_ARRAY(p->arena, n->point.nat + 1, Expr *);
	w->unbound = false;
	for (int i = 0; i < n->point.nat; i++)
		e->at[i] = resolve(w, n->point.at[i]);
	if (w->unbound)
		poly_wrong(p, "statement %d is done at a point over an iterator that no loop runs",
			   n->point.stmt);
	if (n->store.guard)
		vec_push(p->arena, &e->guard, resolve(w, n->store.guard));
	e->point = e->at;
	e->npoint = e->nat;
	e->buf[0] = n->store.buf[0];
	e->buf[1] = n->store.buf[1];
	e->idx = resolve(w, n->store.idx);
	for (int i = 0; i < 2; i++)
		e->val[i] = resolve(w, n->store.val[i]);
	return e;
}

static Exec *exec(TreeWalk *w, const LNode *n, LPart part, int order)
{
	Exec *e = read_exec(w, n, part, order);

	vec_push(w->p->arena, &w->p->execs, e);
	return e;
}

static void reduce(TreeWalk *w, const LNode *n)
{
	int loops = w->loops.n, env = w->env.n;

	push_loop(w, n->range.var, AXIS_ANY, resolve(w, n->range.lo), resolve(w, n->range.hi), 1,
		  n->range.var->extent);
	exec(w, n, PART_TERM, w->order);
	pop_to(w, loops, env);
}

static void columns(TreeWalk *w, const LNode *n)
{
	Iter *const it[] = {n->columns->row, n->columns->col};
	Expr *const rows = n->columns->valid ? resolve(w, n->columns->valid)
					     : ex_int(w->p->pool, CT_I64, n->columns->rows);
	Expr *const many[] = {rows, ex_int(w->p->pool, CT_I64, n->columns->cols)};
	int loops = w->loops.n, env = w->env.n;

	for (int i = 0; i < 2; i++)
		push_loop(w, it[i], AXIS_PARALLEL, ex_int(w->p->pool, CT_I64, 0), many[i], 1,
			  it[i]->extent);
	reduce(w, n);
	pop_to(w, loops, env);
}

static bool written_elsewhere(const LNode *l, int stmt)
{
	for (; l; l = l->next)
		if ((l->point.stmt == stmt && l->point.part == PART_WRITE) ||
		    written_elsewhere(l->body, stmt))
			return true;
	return false;
}

/* The element of B that tile T, whose columns are in groups (TileRuns.shift in ir/loop/loop.h),
 * multiplies for term D of column J. */
static Expr *element_of_group(TreeWalk *w, const Tile *t, Iter *d, Expr *j)
{
	ExprPool *p = w->p->pool;
	Expr *n = resolve(w, t->by_runs.terms), *k = ex_iter(p, d), *term = ex_op2(p, IN_mod, k, n),
	     *row = ex_add(p, ex_sub(p, k, term), ex_op2(p, IN_mod, ex_sub(p, j, term), n)),
	     *lane = ex_add(p, ex_sub(p, j, ex_op2(p, IN_mod, j, n)), term);

	return ex_add(p, ex_add(p, resolve(w, t->b_at), ex_mul(p, row, resolve(w, t->b_step))),
		      lane);
}

/* The terms of tile T; loop AT is the one over its columns, and those after it are over its
 * terms. */
static TileTerm tile_term(TreeWalk *w, const Tile *t, int at)
{
	ExprPool *p = w->p->pool;
	Dim *all = dim_const(w->p->ctx, 1);
	Expr *pack = ex_int(p, CT_I64, t->kpack), *col = ex_iter(p, w->loops.at[at].it), *k, *rest;
	TileTerm x = {.rows = resolve(w, t->m_valid),
		      .columns = resolve(w, t->n_valid),
		      .steps = resolve(w, t->k)};

	for (int i = at + 1; i < w->loops.n; i++) {
		x.of[x.nof++] = w->loops.at[i].it;
		all = dim_mul(w->p->ctx, all, w->loops.at[i].it->extent);
	}
	x.d = poly_fresh(w->p, "term", all);
	k = ex_op2(p, IN_floordiv, ex_iter(p, x.d), pack);
	rest = ex_op2(p, IN_mod, ex_iter(p, x.d), pack);
	if (!t->by_runs.starts)
		x.a = ex_add(p, ex_add(p, resolve(w, t->a_at), ex_mul(p, k, resolve(w, t->a_step))),
			     rest);
	if (t->by_runs.shift)
		x.b = element_of_group(w, t, x.d, col);
	else if (!t->scaled.scale && !t->order.sums_at && t->scaled.terms <= 1)
		x.b = ex_add(p, ex_add(p, resolve(w, t->b_at), ex_mul(p, k, resolve(w, t->b_step))),
			     ex_add(p, ex_mul(p, col, pack), rest));
	return x;
}

/* The last split before here that writes B; null: there is none, or its operand changed. */
static const SplitAt *split_of(const TreeWalk *w, const Buf *b)
{
	for (int i = w->splits.n - 1; i >= 0; i--)
		if (w->splits.at[i] && w->splits.at[i]->s->to == b)
			return w->splits.at[i];
	return NULL;
}

/* Adds to X, the terms of tile T, those whose parts it multiplies. */
static void tile_parts(TreeWalk *w, const Tile *t, TileTerm *x, int at)
{
	ExprPool *p = w->p->pool;
	Expr *d = ex_iter(p, x->d), *row;
	const SplitAt *a = split_of(w, t->parts.a), *b = split_of(w, t->parts.b);

	x->split[0] = a;
	x->split[1] = b;
	x->part_row = resolve(w, t->parts.row);
	if (!a || !a->s->row || !b)
		return;
	row = ex_add(p, x->part_row, ex_iter(p, w->loops.at[at].it));
	x->part_a = ex_add(p, ex_subst_iters(p, a->at, &a->s->row, &row, 1), ex_mul(p, d, a->step));
	x->part_b = ex_add(p, ex_add(p, b->at, ex_mul(p, d, b->step)),
			   ex_iter(p, w->loops.at[at + 1].it));
}

static void tile_part(TreeWalk *w, const LNode *n, LPart part, int order)
{
	Poly *p = w->p;
	const Tile *t = n->tile;
	const Stmt *s = p->k->stmts.at[n->point.stmt];
	int loops = w->loops.n, env = w->env.n;
	Expr *zero = ex_int(p->pool, CT_I64, 0);
	Exec *e;

	push_loop(w, t->row, AXIS_ANY, zero, resolve(w, t->m_valid), 1, t->row->extent);
	push_loop(w, t->col, AXIS_ANY, zero, resolve(w, t->n_valid), 1, t->col->extent);
	if (t->depth && part == PART_TERM)
		push_loop(w, t->depth, AXIS_ANY, zero,
			  ex_mul(p->pool, resolve(w, t->k), ex_int(p->pool, CT_I64, t->kpack)), 1,
			  t->depth->extent);
	for (int i = s->nband; i < s->niters && part == PART_TERM && !t->depth; i++)
		if (n->point.at[i]->kind == EX_ITER)
			push_loop(w, n->point.at[i]->iter, AXIS_ANY, zero,
				  ex_dim(p->pool, n->point.at[i]->iter->extent), 1,
				  n->point.at[i]->iter->extent);
	if (part == PART_TERM) {
		e = exec(w, n, part, order);
		e->tile = tile_term(w, t, loops + 1);
		if (t->parts.a)
			tile_parts(w, t, &e->tile, loops);
	} else {
		LNode band = *n;

		band.point.nat = s->nband;
		e = exec(w, arena_copy(p->arena, &band, sizeof band), part, order);
	}
	e->buf[0] = t->acc;
	e->when = part == PART_TERM ? resolve(w, t->mask.when) : NULL;
	e->idx = ex_add(p->pool,
			ex_mul(p->pool, ex_iter(p->pool, w->loops.at[loops].it),
			       ex_int(p->pool, CT_I64, t->nr)),
			ex_iter(p->pool, w->loops.at[loops + 1].it));
	e->idx = ex_add(p->pool, resolve(w, t->acc_at), e->idx);
	pop_to(w, loops, env);
}

/* A tile initialises its state unless it accumulates. If no node stores the result, the tile itself
 * counts as the write. */
static void tile(TreeWalk *w, const LNode *n)
{
	bool stored = false;

	for (int i = 0; i < w->p->s->stages.n; i++)
		stored = stored || written_elsewhere(w->p->s->stages.at[i]->body, n->point.stmt);
	if (!n->tile->accumulate)
		tile_part(w, n, PART_INIT, w->order);
	tile_part(w, n, PART_TERM, w->order + 1);
	if (!stored && !n->tile->partial)
		tile_part(w, n, PART_WRITE, w->order + 2);
	w->order += 2;
}

static bool is_local(const Poly *p, const Buf *b)
{
	for (int i = 0; i < p->locals.n; i++)
		if (p->locals.at[i].buf == b)
			return true;
	return false;
}

static void local(TreeWalk *w, const LNode *n)
{
	Local l = {.buf = n->local.buf, .node = n, .nloops = w->loops.n};

	l.loop = NEW_ARRAY(w->p->arena, l.nloops + 1, const Iter *);
	for (int i = 0; i < l.nloops; i++)
		l.loop[i] = w->loops.at[i].it;
	vec_push(w->p->arena, &w->p->locals, l);
	if (n->local.val)
		vec_push(w->p->arena, &w->p->kept,
			 ((LocalValue){n->local.buf, n->local.var, resolve(w, n->local.val)}));
}

/* A store or an update of a state. A node that carries out no statement is a copy. */
static void stores(TreeWalk *w, const LNode *n)
{
	Poly *p = w->p;

	if (n->point.part != PART_NONE)
		exec(w, n, n->point.part, w->order);
	else if (!is_local(p, n->store.buf[0]))
		poly_wrong(p, "a node stores to %s and carries out no statement",
			   n->store.buf[0]->name);
	else {
		const int loops = w->loops.n, env = w->env.n;

		vec_push(p->arena, &p->copies, n);
		if (n->kind == LN_REDUCE)
			push_loop(w, n->range.var, AXIS_ANY, resolve(w, n->range.lo),
				  resolve(w, n->range.hi), 1, n->range.var->extent);
		vec_push(p->arena, &p->moves, read_exec(w, n, PART_NONE, w->order));
		pop_to(w, loops, env);
	}
}

/* The rows that N, the split AT, reads exist; their terms are those of the tiles that read TO. */
static void split_reads(TreeWalk *w, const LNode *n, const SplitAt *at)
{
	Poly *p = w->p;
	ExprPool *pool = p->pool;
	const int loops = w->loops.n, env = w->env.n;
	Expr *row, *idx;
	Exec *e;

	push_loop(w, at->s->row, AXIS_ANY, ex_int(pool, CT_I64, 0), at->valid, 1,
		  at->s->row->extent);
	row = ex_iter(pool, w->loops.at[loops].it);
	idx = ex_subst_iters(pool, at->at, &at->s->row, &row, 1);
	e = read_exec(w, n, PART_NONE, w->order);
	e->val[0] = ex_load(pool, at->s->from, &idx, 1);
	vec_push(p->arena, &p->moves, e);
	pop_to(w, loops, env);
}

/* Elements of an operand are copied in parts: each of those that TO has is stored once. */
static void split_parts(TreeWalk *w, const LNode *n)
{
	Poly *p = w->p;
	ExprPool *pool = p->pool;
	const SplitOperand *s = n->split;
	const int loops = w->loops.n, env = w->env.n;
	SplitAt *at = NEW(p->arena, SplitAt);
	Expr *steps, *blocks, *zero = ex_int(pool, CT_I64, 0);
	const int64_t block = (int64_t)MATRIX_SIDE * SPLIT_TERMS * SPLIT_PARTS;
	Iter *step, *unit;
	Exec *e;

	*at = (SplitAt){s, resolve(w, s->at), resolve(w, s->step),
			s->row ? resolve(w, s->valid) : ex_int(pool, CT_I64, s->columns),
			resolve(w, s->k)};
	steps = ex_op2(pool, IN_floordiv,
		       ex_add(pool, at->k, ex_int(pool, CT_I64, SPLIT_TERMS - 1)),
		       ex_int(pool, CT_I64, SPLIT_TERMS));
	blocks = ex_op2(pool, IN_floordiv,
			ex_add(pool, at->valid, ex_int(pool, CT_I64, MATRIX_SIDE - 1)),
			ex_int(pool, CT_I64, MATRIX_SIDE));
	step = poly_fresh(p, "step", buf_numel(p->ctx, s->to));
	unit = poly_fresh(p, "block", buf_numel(p->ctx, s->to));
	push_loop(w, unit, AXIS_ANY, zero, blocks, 1, unit->extent);
	push_loop(w, step, AXIS_ANY, zero, steps, 1, step->extent);
	e = read_exec(w, n, PART_NONE, w->order);
	e->buf[0] = s->to;
	e->idx = ex_add(pool, ex_mul(pool, ex_iter(pool, w->loops.at[loops].it), steps),
			ex_iter(pool, w->loops.at[loops + 1].it));
	e->idx = ex_add(pool, ex_mul(pool, e->idx, ex_int(pool, CT_I64, block)),
			ex_int(pool, CT_I64, block - 1));
	vec_push(p->arena, &p->moves, e);
	pop_to(w, loops, env);
	if (s->row)
		split_reads(w, n, at);
	vec_push(p->arena, &w->splits, at);
}

/* Forgets the splits of buffers that N writes, and what they were written to. */
static void forget_splits(TreeWalk *w, const LNode *n)
{
	const LBufs bufs = lnode_bufs(n);

	VEC_EACH_AT (u, &bufs)
		for (int i = 0; i < w->splits.n; i++) {
			const SplitAt *s = w->splits.at[i];

			if (s && (u->use == LUSE_WRITES || u->use == LUSE_DECLARES) &&
			    (s->s->from == u->b || s->s->to == u->b))
				w->splits.at[i] = NULL;
		}
}

static void walk(TreeWalk *w, const LNode *n);

/* Element IDX of tile B as one flat index. */
static Expr *flat_at(Poly *p, const Buf *b, Expr *const *idx, int n)
{
	Expr *at = ex_int(p->pool, CT_I64, 0);

	for (int d = 0; d < n; d++)
		at = ex_add(p->pool, ex_mul(p->pool, at, ex_dim(p->pool, b->dims[d])), idx[d]);
	return at;
}

/* An operation on tiles: a store at each of its points, or, of a product, terms at each. What fills
 * the tiles is a copy of operands, as packing is. */
static void tile_op(TreeWalk *w, const LNode *n)
{
	Poly *p = w->p;
	const TileNode *o = n->op;
	const int loops = w->loops.n, env = w->env.n;
	LNode *plain = arena_copy(p->arena, n, sizeof *n);
	Expr *idx[TILE_RANK];
	Exec *e;

	poly_unchecked(p, "what operations on tiles compute");
	if (o->op == TILE_SYNC || o->op == TILE_COPY)
		return;
	plain->kind = o->op == TILE_DOT ? LN_OP : o->op == TILE_FOLD ? LN_UPDATE : LN_STORE;
	plain->store.red = o->red;
	plain->store.buf[0] = o->to;
	plain->store.val[0] = o->val;
	if (n->point.part == PART_NONE) {
		vec_push(p->arena, &p->copies, plain);
		return;
	}
	for (int i = 0; i < o->n; i++)
		push_loop(w, o->it[i], AXIS_ANY, ex_int(p->pool, CT_I64, 0),
			  ex_dim(p->pool, o->it[i]->extent), 1, o->it[i]->extent);
	e = exec(w, plain, n->point.part, w->order);
	for (int i = 0; i < o->nidx; i++)
		idx[i] = resolve(w, o->idx[i]);
	e->idx = o->to->tile ? flat_at(p, o->to, idx, o->nidx) : idx[0];
	e->val[0] = resolve(w, o->val);
	EX_MAP (x, p->pool, &e->val[0])
		if (x->kind == EX_LOAD && x->load.buf->tile)
			x = ex_load(p->pool, x->load.buf,
				    &(Expr *){flat_at(p, x->load.buf, x->load.idx, x->load.nidx)},
				    1);
	if (o->guard)
		vec_push(p->arena, &e->guard, resolve(w, o->guard));
	pop_to(w, loops, env);
}

/* The body of N is done once for each group of blocks, after all of them: their loop is two, over
 * the groups and in them, and the body is in the first of these. */
static void last_blocks(TreeWalk *w, const LNode *n)
{
	Poly *p = w->p;
	const Bound blocks = w->loops.at[0];
	const int env = w->env.n;
	Dim *count = ex_as_dim(p->ctx, n->range.hi);
	const Split *s = count ? split(p, blocks.it, count) : NULL;

	if (!s) {
		poly_wrong(p,
			   "the blocks are not whole groups of those that the last one waits for");
		return;
	}
	w->loops.at[0] = (Bound){.it = s->q,
				 .lo = ex_int(p->pool, CT_I64, 0),
				 .hi = ex_dim(p->pool, s->q->extent),
				 .step = 1,
				 .full = true};
	bind(w, n->range.var, ex_iter(p->pool, s->q));
	walk(w, n->body);
	w->env.n = env;
	w->loops.at[0] = blocks;
}

static void loop(TreeWalk *w, const LNode *n)
{
	const bool serial = n->loop.kind == LOOP_SERIAL || n->loop.kind == LOOP_UNROLL;
	const int loops = w->loops.n, env = w->env.n, when = w->when.n;

	if (n->loop.when)
		vec_push(w->p->arena, &w->when, n->loop.when);
	push_loop(w, n->range.var, serial ? AXIS_SERIAL : AXIS_PARALLEL, resolve(w, n->range.lo),
		  resolve(w, n->range.hi), n->loop.step, n->range.var->extent);
	walk(w, n->body);
	pop_to(w, loops, env);
	w->when.n = when;
}

static void visit(TreeWalk *w, const LNode *n)
{
	switch (n->kind) {
	case LN_LOOP: (n->loop.kind == LOOP_LAST ? last_blocks : loop)(w, n); break;
	case LN_LET: bind(w, n->range.var, resolve(w, n->range.lo)); break;
	case LN_LOCAL: local(w, n); break;
	case LN_COLUMNS:
		if (n->point.part == PART_TERM)
			columns(w, n);
		else
			poly_wrong(w->p, "a node combines terms and carries out no statement");
		break;
	case LN_OP: tile_op(w, n); break;
	case LN_SPLIT: split_parts(w, n); break;
	case LN_TILE:
	case LN_REDUCE:
		if (n->kind == LN_REDUCE && n->point.part == PART_NONE)
			stores(w, n);
		else if (n->point.part != PART_TERM)
			poly_wrong(w->p, "a node combines terms and carries out no statement");
		else if (n->kind == LN_TILE)
			tile(w, n);
		else
			reduce(w, n);
		break;
	case LN_STORE:
	case LN_UPDATE:
	case LN_ATOMIC: stores(w, n); break;
	}
}

/* Walks over N, its siblings and their bodies. */
static void walk(TreeWalk *w, const LNode *n)
{
	const int env = w->env.n, splits = w->splits.n;

	for (; n; n = n->next) {
		w->order++;
		forget_splits(w, n);
		if (n->point.part != PART_NONE &&
		    (n->point.stmt < 0 || n->point.stmt >= w->p->k->stmts.n))
			poly_wrong(w->p, "a node names statement %d, which does not exist",
				   n->point.stmt);
		else
			visit(w, n);
	}
	w->env.n = env;
	w->splits.n = splits;
}

void poly_read_tree(Poly *p)
{
	TreeWalk w = {.p = p};
	int first = 0;

	for (int i = 0; i < p->s->stages.n; i++) {
		const Stage *st = p->s->stages.at[i];

		w.when.n = 0;
		first = st->block.beside ? first : i;
		if (st->block.beside && (!i || !stages_beside(p->s, first, i)))
			poly_wrong(p, "stage %s cannot be in the launch before it", st->name);
		if (st->when)
			vec_push(p->arena, &w.when, st->when);
		push_loop(&w, st->var, AXIS_PARALLEL, ex_int(p->pool, CT_I64, 0),
			  ex_dim(p->pool, st->extent), 1, st->extent);
		walk(&w, st->block.head);
		walk(&w, st->body);
		pop_to(&w, 0, 0);
	}
	poly_relate(p);
}
