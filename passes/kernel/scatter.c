/* SPDX-License-Identifier: Apache-2.0 */
/*
 * scatter: for GPUs, where each thread performs one update, rewrites scatters so that the updates
 * may happen in any order.
 *
 *   - If the last update of an element should win, the update with the greatest number wins, which
 *     is a monoid:
 *
 *         last[..] = -1      last[at i] = max i      y[at i] = u[i] where last[at i] = i
 *
 *     If an index of the element is a plain iterator, points that differ in it never update the
 *     same element. LAST then has only the other dims, and gets no updates if that iterator has no
 *     points.
 *
 *   - Elements that are narrower than the hardware's atomic operations are widened in a temporary
 *     until all updates are done.
 */
#include "passes/forms/form.h"
#include "passes/forms/kernels.h"
#include "passes/module.h"

typedef struct Scatters {
	Kernel *k;
	VEC(Stmt *) out;
	bool any;
} Scatters;

static void emit(Scatters *x, Stmt *s, const Stmt *from)
{
	s->loc = from->loc;
	vec_push(x->k->arena, &x->out, s);
}

/* ---- The last update wins ---- */

/* Whether points of S that differ in iterator IT update different elements: IT is the index in dim
 * D of the write, and the guard does not depend on it. False if the guard may fault: it must be
 * evaluated at exactly the points that exist. */
static bool keeps_apart(const Stmt *s, int d)
{
	const Iter *it = s->widx[d]->kind == EX_ITER ? s->widx[d]->iter : NULL;

	for (int i = 0; it && i < s->nwidx; i++)
		if (i != d && expr_has_iter(s->widx[i], it))
			return false;
	return it && !(s->guard && (expr_has_iter(s->guard, it) || expr_can_fault(s->guard)));
}

/* The iterators and indices of an update, without the iterators in APART. */
typedef struct ScatterUpdate {
	Iter *it[MAX_ITERS];
	Expr *at[MAX_RANK];
	Dim *dims[MAX_RANK];
	const Iter *apart[MAX_RANK];
	int n, rank, napart;
} ScatterUpdate;

static ScatterUpdate order_of(const Stmt *s)
{
	ScatterUpdate o = {.n = 0};

	for (int d = 0; d < s->nwidx; d++) {
		if (keeps_apart(s, d)) {
			o.apart[o.napart++] = s->widx[d]->iter;
			continue;
		}
		o.at[o.rank] = s->widx[d];
		o.dims[o.rank++] = s->out[0]->dims[d];
	}
	for (int i = 0; i < s->niters; i++) {
		bool is = false;

		for (int j = 0; j < o.napart; j++)
			is = is || o.apart[j] == s->iter[i];
		if (!is)
			o.it[o.n++] = s->iter[i];
	}
	return o;
}

/* GUARD, and a check that the iterators of APART have points. */
static Expr *where_any(Kernel *k, const ScatterUpdate *o, Expr *guard)
{
	Dim *zero = dim_const(k->ctx, 0);
	Expr *any = NULL;

	for (int i = 0; i < o->napart; i++) {
		Dim *n = o->apart[i]->extent;

		if (!dim_prove_lt(k->ctx, zero, n))
			any = ex_and(k->pool, any,
				     ex_op2(k->pool, IN_lt, ex_int(k->pool, CT_I64, 0),
					    ex_dim(k->pool, n)));
	}
	return any ? ex_and(k->pool, any, guard) : guard;
}

/* The index of an update in the order of the points. */
static Expr *number_of(Kernel *k, const ScatterUpdate *o, CType t)
{
	Expr *at = ex_int(k->pool, CT_I64, 0);

	for (int i = 0; i < o->n; i++)
		at = ex_add(k->pool, ex_mul(k->pool, at, ex_dim(k->pool, o->it[i]->extent)),
			    ex_iter(k->pool, o->it[i]));
	return ex_cvt(k->pool, t, at);
}

/* If the stored value may fault, a map computes it for all updates, since the faults of updates
 * that do not win must be reported, too. */
static Expr *made_before(Scatters *x, const Stmt *s)
{
	Kernel *k = x->k;
	Dim *dims[MAX_ITERS];
	Stmt *made;
	Buf *t;

	if (!expr_can_fault(s->val[0]))
		return s->val[0];
	for (int i = 0; i < s->niters; i++)
		dims[i] = s->iter[i]->extent;
	t = kernel_temp(k, "new", s->out[0]->dtype, s->niters, dims);
	made = kernel_map_id(k, s->iter, t, s->val[0]);
	made->guard = s->guard;
	emit(x, made, s);
	return kernel_load_iters(k, t, s->iter);
}

static void last_wins(Scatters *x, Stmt *s)
{
	Kernel *k = x->k;
	const ScatterUpdate o = order_of(s);
	int64_t least, most;
	Iter *it[MAX_RANK];
	Stmt *all = NEW(k->arena, Stmt), *none, *last;
	DType t;
	Buf *b;

	dim_bounds(k->ctx, iters_points(k->ctx, o.it, o.n), &least, &most);
	t = most <= INT32_MAX ? DT_I32 : DT_I64;
	b = kernel_temp(k, "last", t, o.rank, o.dims);
	kernel_iters_of(k, b, it);
	none = kernel_map_id(k, it, b, ex_int(k->pool, dtype_ctype(t), -1));
	emit(x, none, s);
	last = kernel_map(k, o.it, o.n, b, o.at, number_of(k, &o, dtype_ctype(t)),
			  where_any(k, &o, s->guard));
	last->update = true;
	last->red = MONOID_max;
	emit(x, last, s);
	*all = *s;
	all->val[0] = made_before(x, s);
	all->ordered = false;
	all->guard = ex_and(
		k->pool, s->guard,
		ex_op2(k->pool, IN_eq, kernel_load(k, b, o.at), number_of(k, &o, dtype_ctype(t))));
	emit(x, all, s);
}

/* ---- Small elements ---- */

static DType wide_type(const Buf *b)
{
	return ctype_dtype(dtype_ctype(b->dtype));
}

/* Integers give the same result whether they wrap at each update or at the end. Floats do not: they
 * are rounded at each update. */
static bool wants_wide(const Stmt *s)
{
	const Buf *b = s->out[0];
	const int least = s->red ? SCATTER_BITS : 8;

	return dtype_info[b->dtype].bits < least && dtype_info[wide_type(b)].bits >= least &&
	       !dtype_is_float(b->dtype);
}

/* E rounded as a store to type T would. */
static Expr *as_stored(Kernel *k, DType t, Expr *e)
{
	return e->kind == EX_LOAD && e->load.buf->dtype == t ? e : ex_round(k->pool, t, e);
}

/* Redirects all statements so far, S included, from S's buffer to a wide temporary, and adds a
 * map that stores its elements to the buffer. */
static void widen(Scatters *x, const Stmt *s)
{
	Kernel *k = x->k;
	Buf *b = s->out[0];
	Buf *wide = kernel_temp(k, "wide", wide_type(b), b->rank, b->dims);
	Iter *it[MAX_RANK];

	VEC_EACH (o, &x->out) {
		STMT_MAP (e, k, o)
			if (e->kind == EX_LOAD && e->load.buf == b)
				e = ex_load(k->pool, wide, e->load.idx, e->load.nidx);
		for (int c = 0; c < o->nout; c++)
			if (o->out[c] == b) {
				o->out[c] = wide;
				o->val[c] = as_stored(k, b->dtype, o->val[c]);
			}
	}
	kernel_iters_of(k, b, it);
	emit(x, kernel_map_id(k, it, b, kernel_load_iters(k, wide, it)), s);
}

/* ---- The pass ---- */

/* Whether earlier statements that write S's buffer are all maps and scatters. */
static bool follows_maps(const Kernel *k, const Stmt *s)
{
	for (int i = 0; i < s->id; i++)
		if (stmt_writes(k->stmts.at[i], s->out[0]) && !stmt_is_map(k->stmts.at[i]) &&
		    !stmt_is_scatter(k->stmts.at[i]))
			return false;
	return true;
}

/* Whether S has to be rewritten: its points are ordered, or its elements are too narrow. */
static bool may_change(const Kernel *k, const Stmt *s)
{
	const bool wide = wants_wide(s);

	if (!stmt_is_scatter(s) || s->nwidx != s->out[0]->rank || s->niters > MAX_RANK ||
	    (wide && !follows_maps(k, s)))
		return false;
	if (s->red)
		return wide && *monoid_info[s->red].atomic;
	return s->ordered && (wide || dtype_info[s->out[0]->dtype].bits >= 8);
}

/* False if K has no such updates. */
static bool allow_any_order(Kernel *k)
{
	Scatters x = {.k = k};
	VEC(Stmt *) was = {0};

	for (int i = 0; i < k->stmts.n; i++) {
		vec_push(k->arena, &was, k->stmts.at[i]);
		x.any = x.any || may_change(k, k->stmts.at[i]);
	}
	if (!x.any)
		return false;
	VEC_EACH (s, &was) {
		const bool may = may_change(k, s), wide = may && wants_wide(s);

		if (may && s->ordered)
			last_wins(&x, s);
		else
			vec_push(k->arena, &x.out, s);
		if (wide)
			widen(&x, s);
	}
	k->stmts.n = 0;
	for (int i = 0; i < x.out.n; i++)
		vec_push(k->arena, &k->stmts, x.out.at[i]);
	kernel_renumber(k);
	return true;
}

bool pass_scatter(Module *m)
{
	for (Node *n = m->graph->first; n; n = n->next)
		if (module_schedules(m, n)) {
			allow_any_order(node_kernel(n));
			form_changed(m, n);
		}
	return true;
}
