/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking and rewriting expressions. Operands have smaller ids than the nodes that use them, so a
 * heap of the nodes still to be visited, largest id first, gives each node once, users before
 * operands. Time and memory are proportional to the nodes of the expression, not of its pool.
 * Nothing recurses.
 */
#include "ir/expr/expr_impl.h"

#include "ir/graph/type.h"

#include <string.h>

static void append(ExprNodes *w, ExprList *l, Expr *e)
{
	if (l->n == l->cap) {
		Expr **old = l->at;

		if (!w->tmp)
			w->tmp = arena_new();
		l->cap *= 2;
		l->at = NEW_ARRAY(w->tmp, l->cap, Expr *);
		memcpy(l->at, old, (size_t)l->n * sizeof *old);
	}
	l->at[l->n++] = e;
}

static void heap_push(ExprNodes *w, Expr *e)
{
	int k = w->heap.n;

	append(w, &w->heap, e);
	for (Expr **h = w->heap.at; k > 0 && h[(k - 1) / 2]->id < e->id; k = (k - 1) / 2) {
		h[k] = h[(k - 1) / 2];
		h[(k - 1) / 2] = e;
	}
}

static Expr *heap_pop(ExprNodes *w)
{
	Expr **h = w->heap.at, *top = h[0], *e = h[--w->heap.n];
	int n = w->heap.n, k = 0;

	for (int child; (child = 2 * k + 1) < n; k = child) {
		if (child + 1 < n && h[child + 1]->id > h[child]->id)
			child++;
		if (h[child]->id <= e->id)
			break;
		h[k] = h[child];
	}
	h[k] = e;
	return top;
}

/* Lists the nodes of E. */
static void list_nodes(ExprNodes *w, Expr *e)
{
	Expr *const *arg, *last = NULL;

	for (heap_push(w, e); w->heap.n;) {
		e = heap_pop(w);
		if (e == last)
			continue;
		append(w, &w->node, e);
		last = e;
		for (int i = w->operands(e, &arg); i-- > 0;)
			heap_push(w, arg[i]);
	}
}

ExprNodes *ex_nodes(ExprNodes *w, Expr *e, ExprOperands *operands)
{
	w->operands = operands;
	w->root[0] = e;
	w->nroots = 1;
	w->begun = 0;
	w->node.at = w->node.small;
	w->heap.at = w->heap.small;
	w->node.cap = w->heap.cap = EXPR_LIST_SMALL;
	w->node.n = w->heap.n = 0;
	w->tmp = NULL;
	return w;
}

void ex_nodes_end(ExprNodes *w)
{
	if (w->tmp)
		arena_free(w->tmp);
}

Expr *ex_next(ExprNodes *w)
{
	while (!w->node.n && w->begun < w->nroots) {
		Expr *root = w->root[w->begun++];

		if (root)
			list_nodes(w, root);
	}
	return w->node.n ? w->node.at[--w->node.n] : NULL;
}

Expr *ex_next_load(ExprNodes *w)
{
	Expr *e = ex_next(w);

	while (e && e->kind != EX_LOAD)
		e = ex_next(w);
	return e;
}

int ex_operands_always(const Expr *e, Expr *const **out)
{
	const int n = ex_operands(e, out);

	return e->kind == EX_LOAD ? 0 : e->kind == EX_INST && e->op.inst == IN_select ? 1 : n;
}

int ex_operands_outside_loads(const Expr *e, Expr *const **out)
{
	const int n = ex_operands(e, out);

	return e->kind == EX_LOAD ? 0 : n;
}

Expr *ex_rebuild(ExprPool *p, Expr *e, Expr *const *arg)
{
	switch (e->kind) {
	case EX_CONST:
		return ctype_is_float(e->ct) ? ex_float(p, e->ct, e->f) : ex_int(p, e->ct, e->i);
	case EX_ITER: return ex_iter(p, e->iter);
	case EX_DIM: return ex_dim(p, e->dim);
	case EX_PARAM: return ex_param(p, e->ct, e->param);
	case EX_LOAD: return ex_load(p, e->load.buf, arg, e->load.nidx);
	case EX_INST: break;
	}
	switch (e->op.inst) {
	case IN_cvt: return ex_cvt(p, e->ct, arg[0]);
	case IN_bits: return ex_bits(p, e->ct, arg[0]);
	case IN_round: return ex_round(p, e->op.dtype, arg[0]);
	case IN_roundsat: return ex_roundsat(p, e->op.dtype, arg[0]);
	default: return ex_inst(p, e->op.inst, arg, e->op.n);
	}
}

Expr *ex_with_operands(ExprPool *p, const Expr *e, Expr *const *arg)
{
	if (e->kind == EX_INST && !(e->op.inst == IN_add && e->ct == CT_I64))
		return ex_raw(p, e->op.inst, e->ct, e->op.dtype, arg, e->op.n);
	/* The cast drops const. */
	return ex_rebuild(p, (Expr *)(uintptr_t)e, arg);
}

/* The index of E in the list of nodes. */
static int index_of(const ExprNodes *w, const Expr *e)
{
	int lo = 0, hi = w->node.n - 1;

	while (lo < hi) {
		int mid = (lo + hi) / 2;

		if (w->node.at[mid]->id > e->id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

ExprMapping *ex_map(ExprMapping *m, ExprPool *p, Expr **e)
{
	ex_nodes(&m->nodes, *e, ex_operands);
	m->p = p;
	m->root = e;
	m->copy = m->small;
	if (*e)
		list_nodes(&m->nodes, *e);
	m->at = m->nodes.node.n;
	if (m->at > EXPR_LIST_SMALL)
		m->copy = NEW_ARRAY(m->nodes.tmp, m->at, Expr *);
	return m;
}

void ex_map_end(ExprMapping *m)
{
	ex_nodes_end(&m->nodes);
}

bool ex_map_next(ExprMapping *m, Expr **x)
{
	Expr *with[MAX_RANK * 2], *const *ops;

	if (m->at < m->nodes.node.n)
		m->copy[m->at] = *x;
	while (m->at-- > 0) {
		Expr *old = m->nodes.node.at[m->at];

		for (int k = ex_operands(old, &ops); k-- > 0;)
			with[k] = m->copy[index_of(&m->nodes, ops[k])];
		*x = ex_rebuild(m->p, old, with);
		if ((*x)->kind == old->kind &&
		    ((*x)->kind != EX_INST || (*x)->op.inst == old->op.inst))
			return true;
		/* rebuilding folded the node into another one, which the body had already */
		m->copy[m->at] = *x;
	}
	if (m->nodes.node.n)
		*m->root = m->copy[0];
	return false;
}

Expr *ex_replace(ExprPool *p, Expr *e, const Expr *from, Expr *to)
{
	EX_MAP (x, p, &e)
		if (x == from)
			x = to;
	return e;
}

Expr *ex_subst_iters(ExprPool *p, Expr *e, Iter *const *iters, Expr *const *with, int n)
{
	EX_MAP (x, p, &e)
		for (int i = 0; x->kind == EX_ITER && i < n; i++)
			if (iters[i] == x->iter) {
				x = with[i];
				break;
			}
	return e;
}

bool expr_has_iter(Expr *e, const Iter *it)
{
	EX_EACH (x, e)
		if (x->kind == EX_ITER && x->iter == it)
			return true;
	return false;
}

bool expr_has_iter_outside_loads(Expr *e, const Iter *it)
{
	EX_EACH_OUTSIDE_LOADS (x, e)
		if (x->kind == EX_ITER && x->iter == it)
			return true;
	return false;
}

bool expr_has_load(Expr *e)
{
	EX_EACH (x, e)
		if (x->kind == EX_LOAD)
			return true;
	return false;
}

bool expr_has_any(Expr *e, Iter *const *it, int n)
{
	for (int i = 0; i < n; i++)
		if (expr_has_iter(e, it[i]))
			return true;
	return false;
}
