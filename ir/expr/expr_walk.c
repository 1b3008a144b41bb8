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

enum { SMALL_LIST = 192 };

typedef struct ExprList {
	Expr **at;
	int n, cap;
	Expr *small[SMALL_LIST];
} ExprList;

typedef int Operands(const Expr *e, Expr *const **out);

/* The nodes of an expression, in descending order of ids. */
typedef struct Dag {
	ExprList node, heap;
	Arena *tmp; /* null while the nodes fit the fixed array */
} Dag;

static void append(Dag *d, ExprList *l, Expr *e)
{
	if (l->n == l->cap) {
		Expr **old = l->at;

		if (!d->tmp)
			d->tmp = arena_new();
		l->cap *= 2;
		l->at = NEW_ARRAY(d->tmp, l->cap, Expr *);
		memcpy(l->at, old, (size_t)l->n * sizeof *old);
	}
	l->at[l->n++] = e;
}

static void heap_push(Dag *d, Expr *e)
{
	int k = d->heap.n;

	append(d, &d->heap, e);
	for (Expr **h = d->heap.at; k > 0 && h[(k - 1) / 2]->id < e->id; k = (k - 1) / 2) {
		h[k] = h[(k - 1) / 2];
		h[(k - 1) / 2] = e;
	}
}

static Expr *heap_pop(Dag *d)
{
	Expr **h = d->heap.at, *top = h[0], *e = h[--d->heap.n];
	int n = d->heap.n, k = 0;

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

static void dag_of(Dag *d, Expr *e, Operands *operands)
{
	Expr *const *arg, *last = NULL;

	d->node.at = d->node.small;
	d->heap.at = d->heap.small;
	d->node.cap = d->heap.cap = SMALL_LIST;
	d->node.n = d->heap.n = 0;
	d->tmp = NULL;
	for (heap_push(d, e); d->heap.n;) {
		e = heap_pop(d);
		if (e == last)
			continue;
		append(d, &d->node, e);
		last = e;
		for (int i = operands(e, &arg); i-- > 0;)
			heap_push(d, arg[i]);
	}
}

static void dag_free(Dag *d)
{
	if (d->tmp)
		arena_free(d->tmp);
}

static void walk(Expr *e, Operands *operands, void (*fn)(void *arg, Expr *e), void *arg)
{
	Dag d;

	dag_of(&d, e, operands);
	for (int i = d.node.n; i-- > 0;)
		fn(arg, d.node.at[i]);
	dag_free(&d);
}

void ex_walk(Expr *e, void (*fn)(void *arg, Expr *e), void *arg)
{
	walk(e, ex_operands, fn, arg);
}

static int operands_always(const Expr *e, Expr *const **out)
{
	const int n = ex_operands(e, out);

	return e->kind == EX_LOAD ? 0 : e->kind == EX_INST && e->op.inst == IN_select ? 1 : n;
}

void ex_walk_always(Expr *e, void (*fn)(void *arg, Expr *e), void *arg)
{
	walk(e, operands_always, fn, arg);
}

static int operands_outside_loads(const Expr *e, Expr *const **out)
{
	const int n = ex_operands(e, out);

	return e->kind == EX_LOAD ? 0 : n;
}

void ex_walk_outside_loads(Expr *e, void (*fn)(void *arg, Expr *e), void *arg)
{
	walk(e, operands_outside_loads, fn, arg);
}

/* E rebuilt in P with the operands ARG. */
static Expr *rebuild(ExprPool *p, Expr *e, Expr *const *arg)
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
	if (e->kind == EX_INST)
		return ex_raw(p, e->op.inst, e->ct, e->op.dtype, arg, e->op.n);
	/* The cast drops const; a leaf has no operands to change. */
	return rebuild(p, (Expr *)(uintptr_t)e, arg);
}

/* The index of E in the list of nodes. */
static int place_of(const Dag *d, const Expr *e)
{
	int lo = 0, hi = d->node.n - 1;

	while (lo < hi) {
		int mid = (lo + hi) / 2;

		if (d->node.at[mid]->id > e->id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

Expr *ex_rewrite(ExprPool *p, Expr *e, ExprMap map, void *arg)
{
	Dag d;
	Expr *small[SMALL_LIST], **copy = small, *r = NULL, *m, *with[MAX_RANK * 2];
	Expr *const *ops;

	dag_of(&d, e, ex_operands);
	if (d.node.n > SMALL_LIST)
		copy = NEW_ARRAY(d.tmp, d.node.n, Expr *);
	/* If rebuilding folded the node into another one, MAP was already called on that one. */
	for (int i = d.node.n; i-- > 0; copy[i] = m ? m : r) {
		Expr *old = d.node.at[i];

		for (int k = ex_operands(old, &ops); k-- > 0;)
			with[k] = copy[place_of(&d, ops[k])];
		r = rebuild(p, old, with);
		m = r->kind == old->kind && (r->kind != EX_INST || r->op.inst == old->op.inst)
			    ? map(arg, r)
			    : NULL;
	}
	r = copy[0];
	dag_free(&d);
	return r;
}

typedef struct IterSubst {
	Iter *const *from;
	Expr *const *to;
	int n;
} IterSubst;

static Expr *subst_iter(void *arg, Expr *e)
{
	const IterSubst *s = arg;

	if (e->kind == EX_ITER)
		for (int i = 0; i < s->n; i++)
			if (s->from[i] == e->iter)
				return s->to[i];
	return NULL;
}

Expr *ex_subst_iters(ExprPool *p, Expr *e, Iter *const *iters, Expr *const *with, int n)
{
	return ex_rewrite(p, e, subst_iter, &(IterSubst){iters, with, n});
}

typedef struct HasIter {
	const Iter *it;
	bool yes;
} HasIter;

static void has_iter(void *arg, Expr *e)
{
	HasIter *h = arg;

	h->yes = h->yes || (e->kind == EX_ITER && e->iter == h->it);
}

bool expr_has_iter(Expr *e, const Iter *it)
{
	HasIter h = {it, false};

	ex_walk(e, has_iter, &h);
	return h.yes;
}

bool expr_has_iter_outside_loads(Expr *e, const Iter *it)
{
	HasIter h = {it, false};

	ex_walk_outside_loads(e, has_iter, &h);
	return h.yes;
}

static void find_load(void *arg, Expr *e)
{
	bool *any = arg;

	*any = *any || e->kind == EX_LOAD;
}

bool expr_has_load(Expr *e)
{
	bool any = false;

	ex_walk(e, find_load, &any);
	return any;
}

bool expr_has_any(Expr *e, Iter *const *it, int n)
{
	for (int i = 0; i < n; i++)
		if (expr_has_iter(e, it[i]))
			return true;
	return false;
}
