/* SPDX-License-Identifier: Apache-2.0 */
/*
 * views: gives rows and the maps after them the same dims if a View separates them. A norm over
 * groups has rows of [N,G,L], but the scale after it applies to the channels of [N,C,H,W], so
 * neither kernel could be fused into the other. The pass splits each dim into factors that both
 * shapes share:
 *
 *     d[n,g,l] = x[n,g,l] - mean[n,g,0]          d[n,g,k,h,w] = x[n,g,k,h,w] - mean[n,g,0]
 *     y = View(d)                                z[n,g,k,h,w] = d[n,g,k,h,w] * s[g,k,0,0]
 *     z[n,c,h,w] = y[n,c,h,w] * s[c,0,0]         View(z)
 *
 * The Views then surround the kernels. So the pass requires that all operands of the rows are
 * Views, constants and inputs: there, another View separates no kernels that could be fused. It
 * only serves GPUs, where a warp or a block computes a row. CPUs loop over the dims of a row, and
 * distribute channels, of which there are more than groups, over threads.
 *
 * Readers of repeated elements are split likewise, on all devices: views_repeat.c. Views that only
 * add or drop dims of 1 after a move disappear: views_ones.c.
 */
#include "passes/forms/inline.h"
#include "passes/forms/views_impl.h"

#include <string.h>

/* ---- Parts ---- */

const Parts **views_parts_of(Views *v, Value *x)
{
	const Parts **parts;

	for (int i = 0; i < v->nvalues; i++)
		if (v->value[i] == x)
			return v->parts[i];
	parts = NEW_ARRAY(v->tmp, x->type->rank + 1, const Parts *);
	v->ok = v->ok && v->nvalues < MAX_PARAMS;
	if (v->ok) {
		v->value[v->nvalues] = x;
		v->parts[v->nvalues++] = parts;
	}
	return parts;
}

bool parts_any(const Parts *const *p, int n)
{
	for (int i = 0; i < n; i++)
		if (p[i])
			return true;
	return false;
}

static int rank_in_parts(int rank, const Parts *const *parts)
{
	int n = 0;

	for (int d = 0; d < rank; d++)
		n += parts_count(parts[d]);
	return n;
}

/* ---- Kernels ---- */

static Value *buf_value(const Node *n, const Buf *b)
{
	return b->kind == BUF_IN    ? node_in(n, b->param)
	       : b->kind == BUF_OUT ? node_out(n, b->param)
				    : NULL;
}

bool views_moves(const Node *n)
{
	Kernel *k = n ? node_kernel(n) : NULL;

	return k && k->stmts.n == 1 && n->nout == 1 && stmt_is_simple_map(k->stmts.at[0]) &&
	       inline_is_free(k->stmts.at[0]);
}

bool views_may_join(const Node *n)
{
	Kernel *k = node_kernel(n);
	bool ok = k && !node_on_host(n);

	for (int i = 0; ok && i < n->nout; i++)
		ok = n->out[i] && !value_feeds_sym(n->out[i]);
	for (int i = 0; ok && i < k->bufs.n; i++) {
		const Value *x = buf_value(n, k->bufs.at[i]);

		ok = !k->bufs.at[i]->layout && (!x || (x->type->dtype == k->bufs.at[i]->dtype &&
						       x->type->rank == k->bufs.at[i]->rank));
	}
	for (int i = 0; ok && i < k->stmts.n; i++) {
		Stmt *s = k->stmts.at[i];

		ok = !s->guard && !s->update && !s->scan && !s->ordered;
		for (int d = 0; d < s->nwidx; d++)
			ok = ok && (s->widx[d]->kind == EX_ITER || s->widx[d]->kind == EX_CONST);
		STMT_EACH_LOAD (x, s)
			ok = ok && load_plain(x);
	}
	return ok;
}

const Member *views_member(const Views *v, const Node *n)
{
	for (int i = 0; i < v->n; i++)
		if (v->member[i].node == n)
			return &v->member[i];
	return NULL;
}

void views_join(Views *v, Node *n)
{
	Kernel *k = node_kernel(n);
	Member *m = &v->member[v->n++];

	m->node = n;
	m->iter = NEW_ARRAY(v->tmp, k->iters.n + 1, const Parts *);
	m->buf = NEW_ARRAY(v->tmp, k->bufs.n + 1, const Parts **);
	for (int i = 0; i < k->bufs.n; i++) {
		Value *x = buf_value(n, k->bufs.at[i]);

		m->buf[i] = x ? views_parts_of(v, x)
			      : NEW_ARRAY(v->tmp, k->bufs.at[i]->rank + 1, const Parts *);
	}
}

/* ---- Choosing kernels ---- */

/* Adds N, which computes rows, and all kernels before it, up to Views. */
static void join_rows(Views *v, Node *n)
{
	if (views_member(v, n) || !v->ok || !views_may_join(n))
		return;
	if (v->n == MOST_NODES) {
		v->ok = false;
		return;
	}
	views_join(v, n);
	for (int i = 0; i < n->nin; i++)
		if (node_in(n, i) && node_in(n, i)->def)
			join_rows(v, node_in(n, i)->def);
}

static bool reads_parts(const Stmt *s, const Expr *load, const Parts *const *parts)
{
	for (int d = 0; d < s->nwidx; d++)
		for (int i = 0; parts[d] && i < load->load.nidx; i++)
			if (load->load.idx[i] == s->widx[d])
				return true;
	return false;
}

/* Whether the map N, a statement S, reads Y, and results of members from number MAPS on, which are
 * such maps, at the point that it writes. If N also reads the result of another kernel, no split
 * iterator may index that result: N could otherwise have been fused with that kernel. */
static bool follows(Views *v, const Node *n, const Stmt *s, Value *y, int maps)
{
	const Parts *const *parts = views_parts_of(v, y);

	STMT_EACH_LOAD (load, s) {
		const Value *x = buf_value(n, load->load.buf);
		const Member *m = x && x->def ? views_member(v, x->def) : NULL;

		if (x == y || (m && m - v->member >= maps)) {
			if (load->load.nidx != s->nwidx ||
			    memcmp(load->load.idx, s->widx, (size_t)s->nwidx * sizeof(Expr *)))
				return false;
		} else if (x && x->def && node_kernel(x->def) && reads_parts(s, load, parts)) {
			return false;
		}
	}
	return true;
}

static void join_maps(Views *v, Value *y, const Value *of, int maps)
{
	for (Use *u = of->uses; u; u = u->next) {
		Node *n = u->user;
		Kernel *k = n ? node_kernel(n) : NULL;

		if (!k || views_member(v, n) || k->stmts.n != 1 || n->nout != 1 ||
		    v->n == MOST_NODES || !stmt_is_simple_map(k->stmts.at[0]) ||
		    expr_can_fault(k->stmts.at[0]->val[0]) ||
		    k->stmts.at[0]->nwidx != y->type->rank || !views_may_join(n) ||
		    !follows(v, n, k->stmts.at[0], y, maps))
			continue;
		views_join(v, n);
		join_maps(v, y, n->out[0], maps);
	}
}

static bool any_reduces(const Views *v, int n)
{
	for (int i = 0; i < n; i++) {
		const Kernel *k = node_kernel(v->member[i].node);

		for (int s = 0; s < k->stmts.n; s++)
			if (k->stmts.at[s]->red)
				return true;
	}
	return false;
}

/* ---- Choosing dims ---- */

static void meet(Views *v, const Parts **a, const Parts **b)
{
	if (*a == *b)
		return;
	if (*a && *b)
		v->ok = false;
	else if (*a)
		*b = *a;
	else
		*a = *b;
	v->changed = true;
}

/* The dims of B and the iterators that index them get the same parts. */
static void meet_index(Views *v, Member *m, const Buf *b, Expr *const *idx, int n)
{
	for (int d = 0; d < n && n == b->rank; d++) {
		const Parts **dim = &m->buf[b->id][d];

		if (idx[d]->kind == EX_ITER && idx[d]->iter->extent == b->dims[d])
			meet(v, &m->iter[idx[d]->iter->id], dim);
		else if (*dim || (idx[d]->kind == EX_ITER && m->iter[idx[d]->iter->id]))
			v->ok = false;
	}
	v->ok = v->ok && n == b->rank;
}

static bool in_loads_alone(const Stmt *s, const Iter *it)
{
	for (int i = 0; i < 2; i++)
		if (s->val[i] && expr_has_iter_outside_loads(s->val[i], it))
			return false;
	return true;
}

static void meet_all(Views *v, Member *m)
{
	Kernel *k = node_kernel(m->node);

	VEC_EACH (s, &k->stmts) {
		STMT_EACH_LOAD (x, s)
			meet_index(v, m, x->load.buf, x->load.idx, x->load.nidx);
		for (int j = 0; j < s->nout; j++)
			meet_index(v, m, s->out[j], s->widx, s->nwidx);
		for (int j = 0; j < s->niters; j++)
			v->ok = v->ok &&
				(!m->iter[s->iter[j]->id] || in_loads_alone(s, s->iter[j]));
	}
}

/* Whether the split kernels have at most MAX_ITERS iterators and MAX_RANK dims, and all values to
 * be split are results of members or of Views, or inputs, or constants. */
static bool may_part(Views *v, const Member *m)
{
	const Kernel *k = node_kernel(m->node);
	bool ok = true;

	VEC_EACH (s, &k->stmts) {
		int n = s->niters;

		for (int j = 0; j < s->niters; j++)
			n += m->iter[s->iter[j]->id] ? m->iter[s->iter[j]->id]->n : 0;
		ok = ok && n <= MAX_ITERS;
	}
	for (int i = 0; i < k->bufs.n; i++) {
		const Buf *b = k->bufs.at[i];
		const Value *x = buf_value(m->node, b);

		ok = ok && rank_in_parts(b->rank, m->buf[i]) <= MAX_RANK;
		if (!v->repeats && x && x->def && node_kernel(x->def) &&
		    parts_any(m->buf[i], b->rank))
			ok = ok && views_member(v, x->def);
	}
	return ok;
}

void views_meet(Views *v)
{
	do {
		v->changed = false;
		for (int i = 0; i < v->n; i++)
			meet_all(v, &v->member[i]);
	} while (v->ok && v->changed);
}

bool views_try(Views *v)
{
	for (int i = 0; i < v->n; i++)
		v->ok = v->ok && may_part(v, &v->member[i]);
	if (v->ok)
		views_rewrite(v);
	return v->ok;
}

/* Tries to move View N, with rows before it and maps after it; true if it was. */
static bool through(Views *v, Node *n)
{
	Value *x = node_in(n, 0), *y = n->out[0];
	const Parts **px, **py;
	int rows;

	if (!x->def || !node_kernel(x->def))
		return false;
	v->ok = true;
	v->n = v->nvalues = 0;
	px = views_parts_of(v, x);
	py = views_parts_of(v, y);
	if (!parts_common(v->m->ctx, v->tmp, x->type, y->type, px, py))
		return false;
	join_rows(v, x->def);
	rows = v->n;
	if (!v->ok || !rows || !any_reduces(v, rows))
		return false;
	join_maps(v, y, y, rows);
	if (v->n == rows)
		return false;
	views_meet(v);
	return views_try(v);
}

bool pass_views(Module *m)
{
	bool any = false;

	if (m->opt.level == 0)
		return true;
	for (Node *n = m->graph->first; n; n = n->next) {
		Views v = {.m = m, .tmp = arena_new()}, repeat = v;

		if (n->op == OP_View && ((module_on_gpu(m) && through(&v, n)) ||
					 views_repeat(&repeat, n) || views_ones(n)))
			any = true;
		arena_free(v.tmp);
	}
	if (any)
		dce_graph(m);
	return true;
}
