/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alias: finds results that may be computed in the memory of an input, such as the caches of
 * language models:
 *
 *     present[b,h,t,d] = past[b,h,t,d]               for t < P
 *     present[b,h,t+P,d] = new[b,h,t,d]              for t < S
 *
 * A kernel that writes a result copies an input to the same indices. All its other writes are
 * beyond the input's end in one dim, or they are updates after the copy, and nothing else reads the
 * input (alias_split.c makes such statements of a map that selects). If the caller passes the same
 * memory for both tensors, only the copy is skipped:
 *
 *   copied   its extent becomes min(P, copied). The symbol `copied` is 0 if memory is shared, else P.
 *   room     rows of past and of present are then as far apart as the caller's strides say. In
 *            every kernel that accesses them the dim t of the buffers gets the size room_in or
 *            room_out, which are P and P + S where the tensors are contiguous. Domains stay.
 *
 * The runtime sets these symbols in each run. Pairs of inputs and results with the same two sizes
 * share them, so the kernels of all layers still share their code. The types of values do not
 * change. What loops carry is updated in place likewise (alias_carried.c). This is the last pass
 * that may move values: layouts have been chosen, and the results are in the caller's memory.
 */
#include "passes/forms/form.h"
#include "passes/memory/alias.h"
#include "passes/forms/kernels.h"
#include "passes/module.h"

#include <string.h>

/* An input and a result that may share memory, before the graph is changed. */
typedef struct Candidate {
	int result, input, dim;
	bool grows;  /* the result has more elements, along dim */
	Node *node;  /* the node that computes the result */
	Stmt *copy;  /* its statement that copies the input */
	bool splits; /* the statement has to be split first */
	AliasSplit split;
} Candidate;

Buf *alias_copied(const Stmt *s, const Expr *e, int dim, const Dim *past)
{
	Buf *b = e && e->kind == EX_LOAD ? e->load.buf : NULL;

	if (!b || !stmt_is_map(s) || s->guard || b->kind != BUF_IN || b->layout ||
	    b->dtype != s->out[0]->dtype || dtype_info[b->dtype].bits < 8 ||
	    b->rank != s->out[0]->rank || e->load.nidx != b->rank || s->nwidx != b->rank)
		return NULL;
	for (int d = 0; d < b->rank; d++) {
		const Expr *i = s->widx[d];
		const Dim *extent = i->kind != EX_ITER ? NULL : d == dim ? past : i->iter->extent;

		if (e->load.idx[d] != i || (extent && extent != b->dims[d]) ||
		    (!extent && (i->kind != EX_CONST || !dim_equals(b->dims[d], 1))))
			return NULL;
	}
	return b;
}

/* Finds the only dim in which A and B differ; -1: they are equal. False if they differ in
 * several. */
static bool differing_dim(const Buf *a, const Buf *b, int *dim)
{
	*dim = -1;
	for (int d = 0; d < a->rank; d++) {
		if (a->dims[d] == b->dims[d])
			continue;
		if (*dim >= 0)
			return false;
		*dim = d;
	}
	return true;
}

/* Whether all writes of S are at or after index FROM of dim D. */
static bool writes_behind(Ctx *c, const Stmt *s, int d, Dim *from)
{
	Affine a;

	if (s->nwidx != s->out[0]->rank || !ex_affine(c, s->widx[d], &a) ||
	    !dim_prove_le(c, from, a.base))
		return false;
	for (int i = 0; i < a.n; i++)
		if (!dim_prove_le(c, dim_const(c, 0), a.coef[i]))
			return false;
	return true;
}

/* ---- Accesses to the tensors ---- */

typedef struct Access {
	Module *m;
	bool change; /* else only check */
	Dim *room;
	bool ok;
} Access;

static void in_kernel(Access *a, Node *n, Buf *b, int dim)
{
	Kernel *k = node_kernel(n);

	if (a->change) {
		Dim **dims = NEW_ARRAY(k->arena, b->rank + 1, Dim *);

		memcpy(dims, b->dims, (size_t)b->rank * sizeof *dims);
		dims[dim] = a->room;
		b->dims = dims;
		return;
	}
	if (b->layout || node_on_host(n) || kernel_calls_routine(k))
		a->ok = false;
	for (int i = 0; i < k->stmts.n; i++) {
		if (stmt_writes(k->stmts.at[i], b) && k->stmts.at[i]->nwidx != b->rank)
			a->ok = false;
		STMT_EACH_LOAD (x, k->stmts.at[i])
			if (x->load.buf == b && x->load.nidx != b->rank)
				a->ok = false;
	}
}

/* The dim of VIEW that corresponds to dim D of X, with as many elements before and after it; -1:
 * none. */
static int dim_in_view(Ctx *c, const Type *x, int d, const Type *view)
{
	Dim *outer = dims_product(c, x->dims, d);
	Dim *inner = dims_product(c, x->dims + d + 1, x->rank - d - 1);

	for (int i = 0; i < view->rank; i++)
		if (view->dims[i] == x->dims[d] && dims_product(c, view->dims, i) == outer &&
		    dims_product(c, view->dims + i + 1, view->rank - i - 1) == inner)
			return i;
	return -1;
}

/* Visits all kernels that read V, whose dim DIM has room. */
static void readers(Access *a, Value *v, int dim)
{
	for (Use *u = v->uses; u && a->ok; u = u->next) {
		Node *n = u->user;

		if (!n) { /* a result of the graph; if it is an input, it is copied as a whole */
			a->ok = v->def != NULL;
			continue;
		}
		if (n->op == OP_View && n->out[0]->place != ON_HOST) {
			const int d = dim_in_view(a->m->ctx, v->type, dim, n->out[0]->type);
			const Use *r = n->out[0]->uses;

			for (; r && r->user; r = r->next)
				;
			a->ok = d >= 0 && !r && !value_feeds_sym(n->out[0]);
			if (a->ok)
				readers(a, n->out[0], d);
			continue;
		}
		a->ok = node_kernel(n) != NULL;
		for (int i = 0; i < n->nin && a->ok; i++)
			if (node_in(n, i) == v) {
				Buf *b = kernel_param(node_kernel(n), BUF_IN, i);

				a->ok = b && b->rank == v->type->rank;
				if (a->ok)
					in_kernel(a, n, b, dim);
			}
	}
}

/* Visits all kernels that access the input and the result of C. */
static bool accesses(Module *m, const Candidate *c, bool change, Dim *in, Dim *out)
{
	Graph *g = m->graph;
	Value *v = g->results.at[c->result]->value;
	Access a = {m, change, in, true};

	readers(&a, g->inputs.at[c->input], c->dim);
	a.room = out;
	readers(&a, v, c->dim);
	for (int i = 0; i < c->node->nout && a.ok; i++)
		if (c->node->out[i] == v)
			in_kernel(&a, c->node, kernel_param(node_kernel(c->node), BUF_OUT, i),
				  c->dim);
	return a.ok;
}

/* ---- Finding pairs ---- */

static int loads_of(const Kernel *k, const Buf *b)
{
	int n = 0;

	for (int i = 0; i < k->stmts.n; i++)
		n += stmt_reads(k->stmts.at[i], b);
	return n;
}

/* Besides the copy of B, C's node also writes to OUT. Whether these writes leave the copied
 * elements unchanged, or are updates after the copy and nothing else reads B. */
static bool others_fit(Module *m, Candidate *c, const Buf *b, const Buf *out)
{
	const Kernel *k = node_kernel(c->node);
	const Value *x = m->graph->inputs.at[c->input];
	const bool alone = value_used_once(x) && loads_of(k, b) == 1;
	bool fit = alone || !c->splits;

	VEC_EACH (s, &k->stmts) {
		if (s == c->copy || !stmt_writes(s, out))
			continue;
		fit = fit && ((alone && s->update) ||
			      (c->grows && writes_behind(m->ctx, s, c->dim, b->dims[c->dim])));
	}
	return fit;
}

/* Finds the input that result R may share memory with. */
static bool find(Module *m, int r, const bool *taken, Candidate *c)
{
	Graph *g = m->graph;
	Value *v = g->results.at[r]->value;
	Kernel *k = v->def ? node_kernel(v->def) : NULL;
	Buf *out = NULL;

	if (!k || node_on_host(v->def) || v->type->layout || v->type->rank == 0 ||
	    value_feeds_sym(v) || type_from_data(v->type))
		return false;
	for (const Use *u = v->uses; u; u = u->next)
		if (!u->user && u != g->results.at[r])
			return false;
	for (int i = 0; i < v->def->nout; i++)
		if (v->def->out[i] == v)
			out = kernel_param(k, BUF_OUT, i);
	for (int i = 0; out && i < k->stmts.n; i++) {
		Stmt *s = k->stmts.at[i];
		Candidate t = {.result = r, .node = v->def, .copy = s};
		Buf *b = NULL;
		const Value *x;
		int dim;

		if (s->out[0] != out)
			continue;
		t.splits = alias_split_find(k, s, &t.split);
		b = t.splits ? alias_copied(s, t.split.load, t.split.rest ? t.split.dim : -1,
					    t.split.past)
			     : alias_copied(s, s->val[0], -1, NULL);
		x = b ? node_in(v->def, b->param) : NULL;

		if (!x || x->def || taken[x->index] || x->preset || x->place == ON_HOST ||
		    x->syms || !differing_dim(b, out, &dim))
			continue;
		t.input = x->index;
		t.grows = dim >= 0;
		t.dim = t.grows ? dim : t.splits ? t.split.dim : 0;
		*c = t;
		if ((!t.splits || t.dim == t.split.dim) && t.copy->widx[t.dim]->kind == EX_ITER &&
		    others_fit(m, c, b, out) && (!c->grows || accesses(m, c, false, NULL, NULL)))
			return true;
	}
	return false;
}

/* ---- The change ---- */

/* A symbol whose value is D unless the runtime sets another value. */
static Sym *symbol(Ctx *c, const char *name, Dim *d)
{
	Sym *s = sym_fresh(c, name);
	int64_t lo, hi;

	dim_bounds(c, d, &lo, &hi);
	sym_bound(c, s, 0, DIM_INF);
	s->def = d;
	s->settable = true;
	s->nested = 1;
	return s;
}

/* The symbols of an earlier pair that has the same sizes: A of the input, and D of the result. */
static const Alias *same_sizes(const Graph *g, const Candidate *c, const Dim *in, const Dim *out)
{
	VEC_EACH_AT (a, &g->aliases) {
		if ((a->room_in != NULL) == c->grows && a->copied->def == in &&
		    (!c->grows || a->room_out->def == out))
			return a;
	}
	return NULL;
}

/* Gives the copy the extent min(P, copied). */
static void limit_copy(Ctx *ctx, const Candidate *c, Sym *copied)
{
	Kernel *k = node_kernel(c->node);
	Stmt *s = c->copy;
	Iter *old = s->widx[c->dim]->iter, *it;
	Expr *with;

	it = kernel_iter(k, old->name, dim_min(ctx, old->extent, copied->dim));
	with = ex_iter(k->pool, it);
	for (int i = 0; i < s->niters; i++)
		if (s->iter[i] == old)
			s->iter[i] = it;
	s->val[0] = ex_subst_iters(k->pool, s->val[0], &old, &with, 1);
	for (int d = 0; d < s->nwidx; d++)
		s->widx[d] = ex_subst_iters(k->pool, s->widx[d], &old, &with, 1);
}

static void share(Module *m, const Candidate *c)
{
	Graph *g = m->graph;
	Dim *in = g->inputs.at[c->input]->type->dims[c->dim];
	Dim *out = g->results.at[c->result]->value->type->dims[c->dim];
	const Alias *same = same_sizes(g, c, in, out);
	Alias a = {.result = c->result, .input = c->input, .dim = c->dim};

	a.copied = same ? same->copied : symbol(m->ctx, "copied", in);
	if (c->grows) {
		a.room_in = same ? same->room_in : symbol(m->ctx, "room_in", in);
		a.room_out = same ? same->room_out : symbol(m->ctx, "room_out", out);
		accesses(m, c, true, a.room_in->dim, a.room_out->dim);
	}
	limit_copy(m->ctx, c, a.copied);
	vec_push(g->arena, &g->aliases, a);
}

bool pass_alias(Module *m)
{
	const Graph *g = m->graph;
	bool *taken = NEW_ARRAY(m->arena, g->inputs.n + 1, bool);

	if (m->opt.level == 0)
		return true;
	alias_carried(m);
	for (int r = 0; r < g->results.n; r++) {
		Candidate c;

		if (!find(m, r, taken, &c))
			continue;
		taken[c.input] = true;
		if (c.splits)
			c.copy = alias_split(node_kernel(c.node), &c.split);
		share(m, &c);
		forms_changed(m);
	}
	return true;
}
