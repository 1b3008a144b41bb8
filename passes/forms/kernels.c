/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/kernels.h"


#include <assert.h>

Kernel *node_kernel(const Node *n)
{
	const Attr *a = n->op == OP_Kernel ? node_attr(n, "kernel") : NULL;

	return a ? a->kernel : NULL;
}

void kernel_node_set(Node *n, Kernel *k)
{
	Attr a = {.name = ctx_name(n->graph->ctx, "kernel"), .kind = ATTR_KERNEL};

	a.kernel = k;
	node_set_attr(n, a);
}

/* Moves the node's results to the new node: their uses, and the symbols that are read from them. */
void value_move(Value *from, Value *to)
{
	value_replace(from, to);
	graph_move_sources(from->def ? from->def->graph : to->def->graph, from, to);
}

bool value_feeds_sym(const Value *v)
{
	return v->def && v->syms;
}

void stmt_replace(Kernel *k, Stmt *s, const Expr *from, Expr *to)
{
	STMT_MAP (x, k, s)
		if (x == from)
			x = to;
}

void stmt_subst_iters(Kernel *k, Stmt *s, Iter *const *it, Expr *const *with, int n)
{
	for (int i = 0; i < s->nwidx + 3; i++)
		*stmt_expr(s, i) = ex_subst_iters(k->pool, *stmt_expr(s, i), it, with, n);
}

void kernel_drop_unit_iters(Kernel *k)
{
	Expr *zero = ex_int(k->pool, CT_I64, 0);

	VEC_EACH (s, &k->stmts) {
		Iter *gone[MAX_ITERS];
		Expr *with[MAX_ITERS];
		int ngone = 0, n = 0, nband = s->nband;

		/* A scan needs its iterator even if that has one point. */
		for (int j = 0; j < s->niters - (s->scan ? 1 : 0); j++)
			if (dim_equals(s->iter[j]->extent, 1)) {
				gone[ngone] = s->iter[j];
				with[ngone++] = zero;
			}
		if (!ngone)
			continue;
		for (int j = 0; j < s->niters; j++) {
			if (dim_equals(s->iter[j]->extent, 1) && !(s->scan && j == s->niters - 1)) {
				nband -= j < s->nband;
				continue;
			}
			s->iter[n++] = s->iter[j];
		}
		s->niters = n;
		s->nband = nband;
		stmt_subst_iters(k, s, gone, with, ngone);
	}
}

/* ---- Walks ---- */

bool load_once(const Stmt *s, const Expr *load)
{
	for (int i = 0; i < s->niters; i++) {
		int hits = 0;

		for (int j = 0; j < load->load.nidx; j++)
			hits += load->load.idx[j]->kind == EX_ITER &&
				load->load.idx[j]->iter == s->iter[i];
		if (hits != 1)
			return false;
	}
	return true;
}

bool load_plain(const Expr *load)
{
	for (int j = 0; j < load->load.nidx; j++)
		if (load->load.idx[j]->kind != EX_ITER && load->load.idx[j]->kind != EX_CONST)
			return false;
	return true;
}

bool load_whole(const Expr *load)
{
	for (int d = 0; d < load->load.nidx; d++) {
		const Expr *i = load->load.idx[d];
		Dim *extent = load->load.buf->dims[d];

		if (i->kind == EX_ITER ? i->iter->extent != extent
				       : i->kind != EX_CONST || i->i || !dim_equals(extent, 1))
			return false;
	}
	return true;
}

bool stmt_reads(const Stmt *s, const Buf *b)
{
	STMT_EACH_LOAD (x, s)
		if (x->load.buf == b)
			return true;
	return s->update && stmt_writes(s, b);
}

bool expr_loads(Expr *e, const Buf *b)
{
	EX_EACH_LOAD (x, e)
		if (x->load.buf == b)
			return true;
	return false;
}

bool stmt_writes(const Stmt *s, const Buf *b)
{
	for (int i = 0; i < s->nout; i++)
		if (s->out[i] == b)
			return true;
	return false;
}

Stmt *kernel_writer(const Kernel *k, const Buf *b)
{
	Stmt *w = NULL;

	for (int i = 0; i < k->stmts.n; i++)
		if (stmt_writes(k->stmts.at[i], b)) {
			if (w)
				return NULL;
			w = k->stmts.at[i];
		}
	return w;
}

void stmt_mark_loads(Stmt *s, bool *read)
{
	STMT_EACH_LOAD (x, s)
		read[x->load.buf->id] = true;
}

void kernel_remove_stmt(Kernel *k, int at)
{
	k->stmts.n--;
	memmove(k->stmts.at + at, k->stmts.at + at + 1,
		(size_t)(k->stmts.n - at) * sizeof *k->stmts.at);
	kernel_renumber(k);
}

void kernel_move_last_stmt(Kernel *k, int at)
{
	Stmt *last = vec_last(&k->stmts);

	memmove(k->stmts.at + at + 1, k->stmts.at + at,
		(size_t)(k->stmts.n - 1 - at) * sizeof *k->stmts.at);
	k->stmts.at[at] = last;
	kernel_renumber(k);
}

void kernel_mark_used(Kernel *k)
{
	ARENA_LOCAL(tmp);
	bool *used = NEW_ARRAY(tmp, k->bufs.n + 1, bool);
	int n = 0;

	VEC_EACH (s, &k->stmts) {
		stmt_mark_loads(s, used);
		for (int j = 0; j < s->nout; j++)
			used[s->out[j]->id] = true;
	}
	for (int i = 0; i < k->bufs.n; i++) {
		Buf *b = k->bufs.at[i];

		if (!used[i])
			continue;
		k->bufs.at[n++] = b;
	}
	k->bufs.n = n;
	kernel_renumber(k);
}

Dim *iters_points(Ctx *c, Iter *const *it, int n)
{
	Dim *points = dim_const(c, 1);

	for (int i = 0; i < n; i++)
		points = dim_mul(c, points, it[i]->extent);
	return points;
}

void iters_split(ExprPool *p, Iter *const *it, int n, Expr *flat, Expr **out)
{
	for (int i = n - 1; i >= 0; i--) {
		Expr *extent = ex_dim(p, it[i]->extent);

		out[i] = i ? ex_op2(p, IN_mod, flat, extent) : flat;
		flat = i ? ex_op2(p, IN_floordiv, flat, extent) : flat;
	}
}

bool iters_fewer(Ctx *c, Iter *const *it, int n, int64_t least)
{
	int64_t v;

	return dim_is_const(iters_points(c, it, n), &v) && v < least;
}

bool expr_can_fault(Expr *e)
{
	EX_EACH (x, e)
		if (x->kind == EX_INST && inst_may_fault(x->op.inst))
			return true;
	return false;
}

bool stmt_can_fault(const Stmt *s)
{
	STMT_EACH (x, s)
		if (x->kind == EX_INST && inst_may_fault(x->op.inst))
			return true;
	return false;
}

bool kernel_can_fault(const Kernel *k)
{
	for (int i = 0; i < k->stmts.n; i++)
		if (stmt_can_fault(k->stmts.at[i]))
			return true;
	return false;
}

/* Indices of loads cost nothing, so this recurses instead of using EX_EACH. A shared subexpression
 * counts once for each use, which overestimates the cost. */
static int cost(Expr *e, int depth)
{
	int c = 0;

	if (e->kind != EX_INST || depth > 12)
		return depth > 12 ? 50 : 0;
	if (inst_is_func(e->op.inst))
		c = 20;
	else if (inst_is_routine(e->op.inst))
		c = 1000;
	else if (e->op.inst == IN_div || e->op.inst == IN_sqrt || e->op.inst == IN_mod ||
		 e->op.inst == IN_rem)
		c = 5;
	else if (e->ct != CT_I64)
		c = 1;
	for (int i = 0; i < e->op.n; i++)
		c += cost(e->op.arg[i], depth + 1);
	return c < 10000 ? c : 10000;
}

/* Whether E has LOADS dependent loads, each of which is the index of the next. */
static bool waits_for(Expr *e, int loads, int depth)
{
	Expr *const *arg;

	loads -= e->kind == EX_LOAD;
	if (loads <= 0 || depth > 12)
		return loads <= 0;
	for (int i = ex_operands(e, &arg); i-- > 0;)
		if (waits_for(arg[i], loads, depth + 1))
			return true;
	return false;
}

/* A gather is free, but following a chain of pointers waits for each of its loads. */
static int cost_of_waits(Expr *e)
{
	enum { FREE = 2, WAIT = 20 };
	Arena *tmp;
	int *most, c;

	if (!waits_for(e, FREE + 1, 0))
		return 0;
	tmp = arena_new();
	/* by Expr.id: the length of the longest chain of dependent loads */
	most = NEW_ARRAY(tmp, e->id + 1, int);
	EX_EACH (x, e) {
		Expr *const *of;

		for (int i = ex_operands(x, &of); i-- > 0;)
			if (most[of[i]->id] > most[x->id])
				most[x->id] = most[of[i]->id];
		most[x->id] += x->kind == EX_LOAD;
	}
	c = (most[e->id] - FREE) * WAIT;
	arena_free(tmp);
	return c;
}

int expr_cost(Expr *e)
{
	return cost(e, 0) + cost_of_waits(e);
}

bool stmt_is_map(const Stmt *s)
{
	return !s->red && !s->update && !s->ordered && s->nout == 1;
}

bool stmt_is_scatter(const Stmt *s)
{
	return s->update && s->nband == s->niters && s->nout == 1;
}

/* Whether S is a map that writes each element of its result once, or, if it may be a PART, each of
 * those at a constant index in some dims. */
static bool is_plain_map(const Stmt *s, bool part)
{
	bool seen[MAX_ITERS] = {false};
	int n = 0;

	if (s->red || s->guard || s->update || s->ordered || s->nout != 1)
		return false;
	for (int i = 0; i < s->nwidx; i++) {
		Expr *e = s->widx[i];
		bool found = false;

		if (e->kind == EX_CONST &&
		    (part || (e->i == 0 && dim_equals(s->out[0]->dims[i], 1))))
			continue;
		if (e->kind != EX_ITER || e->iter->extent != s->out[0]->dims[i])
			return false;
		for (int j = 0; j < s->niters; j++)
			if (s->iter[j] == e->iter && !seen[j]) {
				seen[j] = found = true;
				n++;
			}
		if (!found)
			return false;
	}
	return n == s->niters;
}

bool stmt_is_simple_map(const Stmt *s)
{
	return is_plain_map(s, false);
}

bool stmt_is_part(const Stmt *s)
{
	return is_plain_map(s, true);
}

bool node_is_map(const Node *n)
{
	Kernel *k = node_kernel(n);

	return n->nout == 1 &&
	       (n->op == OP_View || (k && k->stmts.n == 1 && stmt_is_simple_map(k->stmts.at[0])));
}

/* ---- Flat memory ---- */

Expr *flat_index(Kernel *k, const Buf *b, Expr *const *idx)
{
	ExprPool *p = k->pool;
	Expr *at = ex_int(p, CT_I64, 0);
	Dim *stride = dim_const(k->ctx, 1);

	if (b->layout) {
		for (int i = b->layout->n - 1; i >= 0; i--) {
			LayoutAxis ax = b->layout->ax[i];
			Expr *e = idx[ax.dim];
			Dim *div = dim_const(k->ctx, ax.div), *mod = dim_const(k->ctx, ax.mod);
			Dim *extent = layout_extent(k->ctx, &ax, b->dims);

			if (layout_pads(b->layout, i)) {
				ax = b->layout->ax[--i];
				extent = dim_mul(k->ctx, layout_extent(k->ctx, &ax, b->dims), mod);
			} else {
				if (ax.div)
					e = ex_op2(p, IN_floordiv, e, ex_dim(p, div));
				if (ax.mod)
					e = ex_op2(p, IN_mod, e, ex_dim(p, mod));
			}
			at = ex_add(p, at, ex_mul(p, e, ex_dim(p, stride)));
			stride = dim_mul(k->ctx, stride, extent);
		}
		return at;
	}
	for (int i = b->rank - 1; i >= 0; i--) {
		at = ex_add(p, at, ex_mul(p, idx[i], ex_dim(p, stride)));
		stride = dim_mul(k->ctx, stride, b->dims[i]);
	}
	return at;
}

Expr *expr_flatten(Kernel *k, Expr *e)
{
	EX_MAP (x, k->pool, &e) {
		Expr *at;

		if (x->kind != EX_LOAD ||
		    (x->load.nidx == 1 && x->load.buf->rank == 1 && !x->load.buf->layout))
			continue;
		assert(x->load.nidx == x->load.buf->rank);
		at = flat_index(k, x->load.buf, x->load.idx);
		x = ex_load(k->pool, x->load.buf, &at, 1);
	}
	return e;
}

/* Rewrites a map into a buffer with a layout as a map over the physical axes into plain memory,
 * which writes the padding as zero. */
void kernel_physical(Kernel *k)
{
	Stmt *s = k->stmts.at[0];
	Buf *b = s->out[0];
	const Layout *l = b->layout;
	Iter *it[MAX_RANK * 2], *from[MAX_ITERS];
	Expr *logical[MAX_RANK] = {NULL}, *with[MAX_ITERS], *guard = NULL;
	Dim *dims[MAX_RANK * 2];
	int n = 0;

	if (!l || k->stmts.n != 1 || !stmt_is_simple_map(s) || l->n > MAX_RANK)
		return;
	for (int i = 0; i < l->n; i++) {
		LayoutAxis ax = l->ax[i];
		Expr *e;

		dims[i] = layout_extent(k->ctx, &ax, b->dims);
		it[i] = kernel_iter(k, ax.mod ? "in" : "at", dims[i]);
		e = ex_iter(k->pool, it[i]);
		if (ax.div)
			e = ex_mul(k->pool, e, ex_int(k->pool, CT_I64, ax.div));
		logical[ax.dim] = logical[ax.dim] ? ex_add(k->pool, logical[ax.dim], e) : e;
	}
	for (int d = 0; d < b->rank; d++) {
		guard = ex_and(k->pool, guard,
			       ex_inside(k->pool, logical[d], ex_dim(k->pool, b->dims[d])));
		if (s->widx[d]->kind == EX_ITER) {
			from[n] = s->widx[d]->iter;
			with[n++] = logical[d];
		}
	}
	s->val[0] = ex_subst_iters(k->pool, s->val[0], from, with, n);
	if (guard)
		s->val[0] = ex_op3(k->pool, IN_select, guard, s->val[0],
				   ex_num(k->pool, s->val[0]->ct, 0));
	s->niters = s->nband = s->nwidx = l->n;
	s->widx = NEW_ARRAY(k->arena, l->n, Expr *);
	for (int i = 0; i < l->n; i++) {
		s->iter[i] = it[i];
		s->widx[i] = ex_iter(k->pool, it[i]);
	}
	b->layout = NULL;
	b->rank = l->n;
	b->dims = arena_copy(k->arena, dims, (size_t)l->n * sizeof *dims);
}

Expr *monoid_step(ExprPool *p, Monoid m, int k, Expr *const *a, Expr *const *b)
{
	if (m == MONOID_sum && ctype_is_float(b[0]->ct) && b[0]->kind == EX_INST &&
	    b[0]->op.inst == IN_mul)
		return ex_op3(p, IN_mad, b[0]->op.arg[0], b[0]->op.arg[1], a[0]);
	return monoid_combine(p, m, k, a, b);
}

bool expr_divmod(Ctx *c, Expr *e, const Dim *whole, Iter **hi, Iter **lo)
{
	Affine a;

	if (e->kind == EX_ITER || !ex_affine(c, e, &a) || a.n != 2 || !dim_equals(a.base, 0))
		return false;
	for (int i = 0; i < 2; i++) {
		*hi = a.iter[i];
		*lo = a.iter[1 - i];
		if (dim_equals(a.coef[1 - i], 1) && a.coef[i] == (*lo)->extent &&
		    (!whole || dim_mul(c, (*hi)->extent, (*lo)->extent) == whole))
			return true;
	}
	return false;
}

/* ---- From kernel to kernel ---- */

Expr *kernel_import_expr(Kernel *k, Kernel *from, Expr *e, Iter *const *it, Expr *const *with,
			 int n, const Node *node, Value **in, int *nin)
{
	bool *used = NEW_ARRAY(k->arena, from->bufs.n + 1, bool);
	Buf **map = NEW_ARRAY(k->arena, from->bufs.n + 1, Buf *);

	EX_EACH_LOAD (x, e)
		used[x->load.buf->id] = true;
	for (int i = 0; i < from->bufs.n; i++) {
		Buf *b = NEW(k->arena, Buf);

		if (!used[i])
			continue;
		*b = *from->bufs.at[i];
		b->id = k->bufs.n;
		if (b->kind == BUF_IN) {
			in[*nin] = node_in(node, b->param);
			b->param = (*nin)++;
		}
		vec_push(k->arena, &k->bufs, b);
		map[i] = b;
	}
	EX_MAP (x, k->pool, &e)
		if (x->kind == EX_LOAD)
			x = ex_load(k->pool, map[x->load.buf->id], x->load.idx, x->load.nidx);
	return ex_subst_iters(k->pool, e, it, with, n);
}

Value *node_loaded(const Node *n, const Expr *e)
{
	return e->kind == EX_LOAD && e->load.buf->kind == BUF_IN ? node_in(n, e->load.buf->param)
								 : NULL;
}

const Tensor *node_loaded_const(const Node *n, const Expr *e)
{
	const Value *v = node_loaded(n, e);

	return v ? value_const(v) : NULL;
}

bool node_number(const Node *n, const Expr *e, double *v)
{
	const Tensor *t = node_loaded_const(n, e);

	if (e->kind == EX_CONST)
		*v = e->ct == CT_F32 ? e->f : (double)e->i;
	else if (t && tensor_numel(t) == 1 && (t->dtype == DT_F32 || t->dtype == DT_I32))
		*v = dtype_load_f64(t->dtype, t->data, 0);
	else
		return false;
	return e->ct == CT_F32 || e->ct == CT_I32;
}

Buf *node_add_operand(Node *n, const char *name, Value *v)
{
	Kernel *k = node_kernel(n);
	Buf *b = kernel_buf(k, BUF_IN, name, v->type);

	b->id = k->bufs.n - 1;
	b->param = n->nin;
	node_set_input(n, n->nin, v);
	return b;
}

void node_drop_unused_inputs(Node *n)
{
	Kernel *k = node_kernel(n);
	Value *in[MAX_PARAMS];
	int nin = 0;

	kernel_mark_used(k);
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == BUF_IN) {
			in[nin] = node_in(n, k->bufs.at[i]->param);
			k->bufs.at[i]->param = nin++;
		}
	for (int i = 0; i < nin; i++)
		node_set_input(n, i, in[i]);
	node_truncate_inputs(n, nin);
}
