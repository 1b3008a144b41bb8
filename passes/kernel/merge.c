/* SPDX-License-Identifier: Apache-2.0 */
/*
 * merge: on GPUs, products that share a factor, and whose other factors are constants, become one
 * product, such as the queries, keys and values of an attention, or the branches of a convolutional
 * network:
 *
 *     q[m,n] = sum x[m,k] * wq[k,n] + bq[n]  for n < 768      y[m,n] = sum x[m,k] * w[k,n] + b[n]  for n < 2304
 *     v[m,n] = sum x[m,k] * wv[k,n] + bv[n]  for n < 768
 *
 * with the constants concatenated. Readers of v read y[m,n+768] instead, so nothing is copied. One
 * launch takes the place of several, its blocks fill the device better, and x is read once.
 *
 * The kernels have the same statements, apart from constants and from the extent of the iterator
 * that only constants and results have: it is called wide. Results of the graph, and results that
 * are read as other shapes than one in which the wide dim is split, keep their own products. Each
 * part is a multiple of ALIGNED elements, so that its readers' vectors stay aligned.
 *
 * It runs after `fuse`, when the maps that follow a product are part of its kernel.
 */
#include "passes/forms/form.h"
#include "passes/module.h"

#include "ir/graph/blocks.h"

#include <stdlib.h>
#include <string.h>

enum {
	ALIGNED = 8,       /* halves in 16 bytes, the widest access */
	MOST_PRODUCTS = 16 /* products that become one */
};

/* A kernel that may be merged: its wide iterators and dims. */
typedef struct WideProduct {
	Node *n;
	Kernel *k;
	const Value *shared;       /* the other factor */
	const Iter *it[MAX_ITERS]; /* by statement */
	int *dim;                  /* by Buf.id: the wide dim; -1: none */
	int out;                   /* the wide dim of the result */
	int64_t size;              /* its extent */
} WideProduct;

/* ---- The wide dim ---- */

/* Sets the wide dim of the buffer that statement S writes, along IT. False if there is another
 * form. */
static bool widen_result(WideProduct *w, const Stmt *s, const Iter *it)
{
	Buf *b = s->out[0];
	int64_t size;
	int found = -1;

	for (int d = 0; d < s->nwidx; d++) {
		if (!expr_has_iter(s->widx[d], it))
			continue;
		if (found >= 0 || s->widx[d]->kind != EX_ITER || b->dims[d] != it->extent)
			return false;
		found = d;
	}
	if (found < 0 || s->nwidx != b->rank || (w->dim[b->id] >= 0 && w->dim[b->id] != found) ||
	    !dim_is_const(it->extent, &size) || (w->size && w->size != size))
		return false;
	w->size = size;
	w->dim[b->id] = found;
	if (b->kind == BUF_OUT)
		w->out = found;
	return true;
}

/* Statement AT goes along its wide iterator only by indices of loads and of its result. */
static bool widen_stmt(WideProduct *w, int at)
{
	Stmt *s = w->k->stmts.at[at];
	const Iter *it = w->it[at];

	if (!it)
		STMT_EACH_LOAD (x, s) {
			const int d = w->dim[x->load.buf->id];

			if (d >= 0 && x->load.buf->kind != BUF_IN &&
			    x->load.idx[d]->kind == EX_ITER)
				it = x->load.idx[d]->iter;
		}
	w->it[at] = it;
	return it && s->nout == 1 && !s->update && !s->scan && !s->ordered &&
	       !expr_has_iter(s->guard, it) && !expr_has_iter_outside_loads(s->val[0], it) &&
	       widen_result(w, s, it);
}

/* Whether N is such a product. Sets W, in A. */
static bool open_wide(Module *m, Arena *a, Node *n, WideProduct *w)
{
	Kernel *k = node_kernel(n);
	Form f = {0};
	const Expr *other;
	bool swapped;

	*w = (WideProduct){.n = n, .k = k, .dim = NEW_ARRAY(a, k->bufs.n + 1, int), .out = -1};
	for (int i = 0; i < k->bufs.n; i++)
		w->dim[i] = -1;
	if (n->nout != 1 || !k->stmts.n || k->stmts.n > MAX_ITERS || kernel_calls_routine(k))
		return false;
	f = form_of_stmt(k, k->stmts.at[0]);
	if (f.kind != FORM_CONTRACTION)
		return false;
	swapped = !expr_is_weights(m, n, f.c.b);
	if (swapped)
		contraction_swap(&f.c);
	other = f.c.a;
	if (f.c.nn != 1 || !expr_is_weights(m, n, f.c.b) || other->kind != EX_LOAD ||
	    !(w->shared = node_loaded(n, other)))
		return false;
	w->it[0] = f.c.n[0];
	for (int i = 0; i < k->stmts.n; i++)
		if (!widen_stmt(w, i))
			return false;
	return w->out >= 0 && w->size % ALIGNED == 0;
}

/* ---- Whether two kernels compute the same ---- */

typedef struct ProductMatch {
	WideProduct *a;
	const WideProduct *b;
	int at;            /* the statement */
	Buf **buf;         /* by Buf.id of A: the buffer of B */
	Expr **seen;       /* by Expr.id of A: the expression of B that it is the same as */
	const Iter **iter; /* by Iter.id of A: the iterator of B */
} ProductMatch;

static bool same_buffers(ProductMatch *m, Buf *x, Buf *y, int wide)
{
	const Value *vx = x->kind == BUF_IN ? node_in(m->a->n, x->param) : NULL,
		    *vy = y->kind == BUF_IN ? node_in(m->b->n, y->param) : NULL;

	if (m->buf[x->id] && m->buf[x->id] != y)
		return false;
	if (x->kind != y->kind || x->dtype != y->dtype || x->rank != y->rank || x->data ||
	    y->data || x->layout || y->layout)
		return false;
	for (int d = 0; d < x->rank; d++)
		if (d != wide && x->dims[d] != y->dims[d])
			return false;
	m->buf[x->id] = y;
	if (x->kind != BUF_IN)
		return m->a->dim[x->id] == wide && m->b->dim[y->id] == wide;
	if (wide < 0)
		return vx == vy && m->a->dim[x->id] < 0;
	if (!value_const(vx) || !value_const(vy) || !dim_equals(x->dims[wide], m->a->size) ||
	    !dim_equals(y->dims[wide], m->b->size) ||
	    (m->a->dim[x->id] >= 0 && m->a->dim[x->id] != wide))
		return false;
	m->a->dim[x->id] = wide;
	return true;
}

static bool same_expr(ProductMatch *m, Expr *x, Expr *y);

static bool same_load(ProductMatch *m, Expr *x, Expr *y)
{
	const Iter *ix = m->a->it[m->at], *iy = m->b->it[m->at];
	int wide = -1;

	if (x->load.nidx != y->load.nidx || x->load.nidx != x->load.buf->rank)
		return false;
	for (int d = 0; d < x->load.nidx; d++) {
		Expr *ex = x->load.idx[d], *ey = y->load.idx[d];

		if (!expr_has_iter(ex, ix) && !expr_has_iter(ey, iy)) {
			if (!same_expr(m, ex, ey))
				return false;
			continue;
		}
		if (wide >= 0 || ex->kind != EX_ITER || ey->kind != EX_ITER || ex->iter != ix ||
		    ey->iter != iy)
			return false;
		wide = d;
	}
	return same_buffers(m, x->load.buf, y->load.buf, wide);
}

/* Whether X of A's kernel computes what Y of B's does. */
static bool same_expr(ProductMatch *m, Expr *x, Expr *y)
{
	if (x->kind != y->kind || x->ct != y->ct)
		return false;
	if (m->seen[x->id])
		return m->seen[x->id] == y;
	switch (x->kind) {
	case EX_CONST:
		if (ctype_is_float(x->ct) ? memcmp(&x->f, &y->f, sizeof x->f) != 0 : x->i != y->i)
			return false;
		break;
	case EX_ITER:
		if (m->iter[x->iter->id] != y->iter)
			return false;
		break;
	case EX_DIM:
		if (x->dim != y->dim)
			return false;
		break;
	case EX_LOAD:
		if (!same_load(m, x, y))
			return false;
		break;
	case EX_INST:
		if (x->op.inst != y->op.inst || x->op.dtype != y->op.dtype || x->op.n != y->op.n)
			return false;
		for (int i = 0; i < x->op.n; i++)
			if (!same_expr(m, x->op.arg[i], y->op.arg[i]))
				return false;
		break;
	case EX_PARAM: return false;
	}
	m->seen[x->id] = y;
	return true;
}

static bool same_stmt(ProductMatch *m, int at)
{
	Stmt *x = m->a->k->stmts.at[at], *y = m->b->k->stmts.at[at];

	if (x->niters != y->niters || x->nband != y->nband || x->red != y->red ||
	    x->nwidx != y->nwidx || !x->guard != !y->guard)
		return false;
	m->at = at;
	for (int i = 0; i < x->niters; i++) {
		const bool wide = x->iter[i] == m->a->it[at];

		if (wide != (y->iter[i] == m->b->it[at]) ||
		    (!wide && x->iter[i]->extent != y->iter[i]->extent))
			return false;
		m->iter[x->iter[i]->id] = y->iter[i];
	}
	for (int d = 0; d < x->nwidx; d++)
		if (!same_expr(m, x->widx[d], y->widx[d]))
			return false;
	return same_expr(m, x->val[0], y->val[0]) &&
	       (!x->guard || same_expr(m, x->guard, y->guard)) &&
	       same_buffers(m, x->out[0], y->out[0], m->a->dim[x->out[0]->id]);
}

/* If A and B compute the same, so that they can be one, B's buffers by Buf.id of A's; else null.
 * Sets the wide dims of A's constants. */
static Buf **matches(Arena *tmp, WideProduct *a, const WideProduct *b)
{
	Kernel *k = a->k;
	ProductMatch m = {.a = a,
			  .b = b,
			  .buf = NEW_ARRAY(tmp, k->bufs.n + 1, Buf *),
			  .seen = NEW_ARRAY(tmp, expr_count(k->pool) + 1, Expr *),
			  .iter = NEW_ARRAY(tmp, k->iters.n + 1, const Iter *)};

	if (a->shared != b->shared || a->out != b->out || k->stmts.n != b->k->stmts.n)
		return NULL;
	for (int i = 0; i < k->stmts.n; i++)
		if (!same_stmt(&m, i))
			return NULL;
	return m.buf;
}

/* ---- Readers ---- */

/* If V is a View of a result whose dim D is wide, in which only that dim is split, the number of
 * elements of an index of dim D of V; else 0. */
static int64_t view_unit(const Value *v, const Type *of, int d, int64_t size)
{
	int64_t unit = 1, n;

	if (d != of->rank - 1 || v->type->rank <= d)
		return 0;
	for (int i = 0; i < d; i++)
		if (v->type->dims[i] != of->dims[i])
			return 0;
	for (int i = d + 1; i < v->type->rank; i++) {
		if (!dim_is_const(v->type->dims[i], &n))
			return 0;
		unit *= n;
	}
	return unit > 0 && dim_equals(v->type->dims[d], size / unit) && size % unit == 0 ? unit : 0;
}

/* Whether N reads V only by loads that name each dim. */
static bool reads_plainly(Module *m, const Node *n, int slot)
{
	const Kernel *k = n ? node_kernel(n) : NULL;

	return k && module_schedules(m, n) && !kernel_calls_routine(k) &&
	       kernel_param(k, BUF_IN, slot);
}

/* Whether the readers of W's result may read a part of a wider one, where the offset and the size
 * of that are multiples of *UNIT. */
static bool readers_take_part(Module *m, const WideProduct *w, int64_t *unit)
{
	const Value *v = w->n->out[0];

	*unit = 1;
	if (value_feeds_sym(v) || v->type->layout)
		return false;
	for (const Use *u = v->uses; u; u = u->next) {
		const Value *view;
		int64_t each;

		if (reads_plainly(m, u->user, u->slot))
			continue;
		if (!u->user || !(op_row[u->user->op].flags & OPF_VIEW) || u->slot)
			return false;
		view = u->user->out[0];
		each = view_unit(view, v->type, w->out, w->size);
		if (!each || value_feeds_sym(view) || (*unit > 1 && each > 1 && each != *unit))
			return false;
		for (const Use *r = view->uses; r; r = r->next)
			if (!reads_plainly(m, r->user, r->slot))
				return false;
		*unit = each > *unit ? each : *unit;
	}
	return true;
}

/* Readers of V, kernels, read WHOLE instead, from index BY of dim D on. */
static void read_part(Value *v, Value *whole, int d, int64_t by)
{
	while (v->uses) {
		Node *n = v->uses->user;
		const int slot = v->uses->slot;
		Kernel *k = node_kernel(n);
		Buf *b = kernel_param(k, BUF_IN, slot);
		Expr *idx[MAX_RANK];

		b->dims = arena_copy(k->arena, b->dims, (size_t)b->rank * sizeof *b->dims);
		b->dims[d] = whole->type->dims[d];
		for (int i = 0; by && i < k->stmts.n; i++)
			STMT_MAP (x, k, k->stmts.at[i]) {
				if (x->kind != EX_LOAD || x->load.buf != b)
					continue;
				for (int j = 0; j < x->load.nidx; j++)
					idx[j] = x->load.idx[j];
				idx[d] = ex_add(k->pool, idx[d], ex_int(k->pool, CT_I64, by));
				x = ex_load(k->pool, b, idx, x->load.nidx);
			}
		node_set_input(n, slot, whole);
	}
}

/* WHOLE as VIEW sees a part of it: dim D split in units of UNIT elements. */
static Value *whole_view(Module *m, Value *whole, const Value *view, int d, int64_t unit,
			 int64_t size)
{
	Node *n = node_new(m->graph, OP_View, &whole, 1, 1, view->def);
	Dim *dims[MAX_RANK];

	for (int i = 0; i < view->type->rank; i++)
		dims[i] = i == d ? dim_const(m->ctx, size / unit) : view->type->dims[i];
	n->out[0]->type = type_tensor(m->ctx, whole->type->dtype, view->type->rank, dims);
	node_locs_from(n, view->def);
	return n->out[0];
}

/* Redirects readers of W's result to WHOLE, of SIZE elements along the wide dim, from element BY
 * on. */
static void read_whole(Module *m, const WideProduct *w, Value *whole, int64_t by, int64_t size)
{
	Value *v = w->n->out[0];

	for (Use *u = v->uses, *next; u; u = next) {
		Node *n = u->user;

		next = u->next;
		if (node_kernel(n))
			continue;
		const int64_t unit = view_unit(n->out[0], v->type, w->out, w->size);

		read_part(n->out[0], whole_view(m, whole, n->out[0], w->out, unit, size), w->out,
			  by / unit);
		node_remove(n);
	}
	read_part(v, whole, w->out, by);
}

/* ---- The merged kernel ---- */

/* The constants that are operand SLOT of the kernels W[0..n), concatenated along dim D. Each part
 * of a row is a multiple of ALIGNED = 8 elements, so whole bytes of elements of any number of
 * bits. */
static Value *concatenated(Module *m, const WideProduct *w, const int *slot, int n, int d,
			   Node *before)
{
	const Tensor *part[MOST_PRODUCTS];
	Value *v;

	for (int i = 0; i < n; i++)
		part[i] = value_const(node_in(w[i].n, slot[i]));
	v = graph_const(m->graph, tensor_concat(m->graph->arena, part, n, d), before);
	for (int i = 0; i < n; i++)
		node_locs_from(v->def, node_in(w[i].n, slot[i])->def);
	return v;
}

/* Replaces the products W[0..n), where BUF[i][j] of product i is what buffer j of the first is, by
 * one of SIZE. */
static void merge(Module *m, WideProduct *w, Buf ***buf, int n, int64_t size)
{
	Node *at = w[0].n, *made;
	Kernel *k = kernel_clone(w[0].k, m->arena);
	Value *in[MAX_PARAMS];
	const Type *t = at->out[0]->type;
	Dim *dims[MAX_RANK], *whole = dim_const(m->ctx, size);
	int64_t by = 0;

	for (int i = 0; i < at->nin; i++)
		in[i] = node_in(at, i);
	for (int i = 0; i < k->bufs.n; i++) {
		Buf *b = k->bufs.at[i];
		const int d = w[0].dim[i];
		int slot[MOST_PRODUCTS];

		if (d < 0)
			continue;
		b->dims = arena_copy(m->arena, b->dims, (size_t)b->rank * sizeof *b->dims);
		b->dims[d] = whole;
		for (int j = 0; j < n; j++)
			slot[j] = j ? buf[j][i]->param : b->param;
		if (b->kind == BUF_IN)
			in[b->param] = concatenated(m, w, slot, n, d, at);
	}
	for (int i = 0; i < k->stmts.n; i++)
		for (int j = 0; j < k->stmts.at[i]->niters; j++)
			if (w[0].k->stmts.at[i]->iter[j] == w[0].it[i])
				k->stmts.at[i]->iter[j]->extent = whole;
	made = node_new(m->graph, OP_Kernel, in, at->nin, 1, at);
	for (int i = 0; i < t->rank; i++)
		dims[i] = i == w[0].out ? whole : t->dims[i];
	made->out[0]->type = type_tensor(m->ctx, t->dtype, t->rank, dims);
	for (int i = n - 1; i >= 0; i--) {
		node_locs_from(made, w[i].n);
		if (i)
			k->locs = locs_union(m->graph->arena, w[i].k->locs, k->locs);
	}
	kernel_node_set(made, k);
	for (int i = 0; i < n; i++) {
		read_whole(m, &w[i], made->out[0], by, size);
		by += w[i].size;
		node_remove(w[i].n);
	}
}

/* ---- The pass ---- */

typedef struct MergePass {
	Module *m;
	const int *block, *order; /* by Node.id, of nodes that the pass has not made */
	int nodes;
	bool *gone; /* by Node.id: merged */
} MergePass;

static int by_order(const void *a, const void *b, void *arg)
{
	const int *order = arg;
	Node *const *x = a, *const *y = b;

	return order[(*x)->id] - order[(*y)->id];
}

/* The kernels after N, in its block, that read V, in their order. */
static int readers_after(const MergePass *g, Arena *tmp, const Node *n, const Value *v, Node ***out)
{
	int count = 0;

	for (const Use *u = v->uses; u; u = u->next)
		count++;
	*out = NEW_ARRAY(tmp, count + 1, Node *);
	count = 0;
	for (const Use *u = v->uses; u; u = u->next) {
		Node *r = u->user;

		if (r && r->id < g->nodes && node_kernel(r) && g->block[r->id] == g->block[n->id] &&
		    g->order[r->id] > g->order[n->id] && module_schedules(g->m, r))
			(*out)[count++] = r;
	}
	qsort_r(*out, (size_t)count, sizeof **out, by_order, (void *)(uintptr_t)g->order);
	return count;
}

/* Merges N with all products that it can be one with. */
static void merge_with_others(const MergePass *g, Node *n)
{
	ARENA_LOCAL(tmp);
	WideProduct w[MOST_PRODUCTS];
	Buf **buf[MOST_PRODUCTS];
	int64_t unit, size = 0, each;
	Node **reader;
	int parts = 1, readers;

	if (!open_wide(g->m, tmp, n, &w[0]) || !readers_take_part(g->m, &w[0], &unit))
		return;
	readers = readers_after(g, tmp, n, w[0].shared, &reader);
	size = w[0].size;
	for (int i = 0; i < readers && parts < MOST_PRODUCTS; i++) {
		WideProduct *b = &w[parts];

		if ((i && reader[i] == reader[i - 1]) || !open_wide(g->m, tmp, reader[i], b) ||
		    !readers_take_part(g->m, b, &each) || (unit > 1 && each > 1 && each != unit) ||
		    size % each || b->size % (each > unit ? each : unit) ||
		    !(buf[parts] = matches(tmp, &w[0], b)))
			continue;
		unit = each > unit ? each : unit;
		size += b->size;
		parts++;
	}
	if (parts > 1)
		merge(g->m, w, buf, parts, size);
	for (int i = 0; parts > 1 && i < parts; i++)
		g->gone[w[i].n->id] = true;
}

bool pass_merge(Module *m)
{
	MergePass g = {.m = m, .nodes = m->graph->nnodes};
	int *order, at = 0;
	Node **all;

	if (m->opt.level == 0)
		return true;
	g.order = order = NEW_ARRAY(m->arena, g.nodes + 1, int);
	g.gone = NEW_ARRAY(m->arena, g.nodes + 1, bool);
	g.block = blocks_of(m->graph, m->arena).of;
	for (const Node *n = m->graph->first; n; n = n->next)
		order[n->id] = at++;
	all = NEW_ARRAY(m->arena, at + 1, Node *);
	for (Node *n = m->graph->first; n; n = n->next)
		all[order[n->id]] = n;
	for (int i = 0; i < at; i++)
		if (!g.gone[all[i]->id] && node_kernel(all[i]) && module_schedules(m, all[i]))
			merge_with_others(&g, all[i]);
	dce_graph(m);
	return true;
}
