/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewrites kernels so that their dims and iterators are split into parts, with Views around them
 * (passes/kernel/views.c).
 */
#include "passes/forms/views_impl.h"

#include <string.h>

/* T with each dim replaced by its PARTS. */
static const Type *type_in_parts(Ctx *c, const Type *t, const Parts *const *parts)
{
	Dim *dims[MAX_RANK];
	int n = 0;

	for (int d = 0; d < t->rank; d++)
		for (int i = 0; i < parts_count(parts[d]); i++)
			dims[n++] = parts[d] ? parts[d]->dim[i] : t->dims[d];
	return type_tensor(c, t->dtype, n, dims);
}

/* ---- Kernels ---- */

typedef struct Rewrite {
	Kernel *k;
	const Member *m;
	Buf **buf;               /* by Buf.id: the buffer with split dims */
	Expr *(*with)[MAX_RANK]; /* by Iter.id: the iterators for its parts */
} Rewrite;

/* Writes the indices IDX of buffer B, split into parts, to TO; returns their number. */
static int index_in_parts(const Rewrite *r, const Buf *b, Expr *const *idx, int n, Expr **to)
{
	int count = 0;

	for (int d = 0; d < n; d++) {
		const Parts *p = r->m->buf[b->id][d];

		for (int i = 0; i < parts_count(p); i++)
			to[count++] = p ? r->with[idx[d]->iter->id][i] : idx[d];
	}
	return count;
}

static void stmt_in_parts(const Rewrite *r, Stmt *s)
{
	Iter *it[MAX_ITERS];
	int n = 0, nband = 0;
	Expr **widx = NEW_ARRAY(r->k->arena, MAX_RANK, Expr *), *idx[MAX_RANK];

	for (int j = 0; j < 2; j++)
		EX_MAP (e, r->k->pool, &s->val[j])
			if (e->kind == EX_LOAD)
				e = ex_load(r->k->pool, r->buf[e->load.buf->id], idx,
					    index_in_parts(r, e->load.buf, e->load.idx,
							   e->load.nidx, idx));
	s->nwidx = index_in_parts(r, s->out[0], s->widx, s->nwidx, widx);
	s->widx = widx;
	for (int j = 0; j < s->nout; j++)
		s->out[j] = r->buf[s->out[j]->id];
	for (int j = 0; j < s->niters; j++) {
		const Parts *p = r->m->iter[s->iter[j]->id];

		for (int i = 0; i < parts_count(p); i++) {
			const Expr *e = p ? r->with[s->iter[j]->id][i] : NULL;

			if (!e || e->kind == EX_ITER)
				it[n++] = e ? e->iter : s->iter[j];
		}
		if (j < s->nband)
			nband = n;
	}
	memcpy(s->iter, it, (size_t)n * sizeof *it);
	s->niters = n;
	s->nband = nband;
}

/* Rewrites M's kernel; a part of extent 1 gets no iterator. */
static void kernel_in_parts(Views *v, const Member *m)
{
	Kernel *k = node_kernel(m->node);
	const int niters = k->iters.n;
	Rewrite r = {k, m, NEW_ARRAY(v->tmp, k->bufs.n + 1, Buf *),
		     arena_array(v->tmp, (size_t)niters + 1, sizeof *r.with)};

	for (int i = 0; i < k->bufs.n; i++) {
		const Buf *b = k->bufs.at[i];
		const Type t = {
			.kind = TYPE_TENSOR, .dtype = b->dtype, .rank = b->rank, .dims = b->dims};
		const Type *in_parts = parts_any(m->buf[i], b->rank)
					       ? type_in_parts(k->ctx, &t, m->buf[i])
					       : NULL;

		r.buf[i] = k->bufs.at[i];
		if (!in_parts)
			continue;
		r.buf[i] = buf_copy(k->arena, b);
		r.buf[i]->rank = in_parts->rank;
		r.buf[i]->dims = in_parts->dims;
	}
	for (int i = 0; i < niters; i++)
		for (int j = 0; m->iter[i] && j < m->iter[i]->n; j++) {
			Dim *d = m->iter[i]->dim[j];

			r.with[i][j] = dim_equals(d, 1)
					       ? ex_int(k->pool, CT_I64, 0)
					       : ex_iter(k->pool,
							 kernel_iter(k, k->iters.at[i]->name, d));
		}
	for (int i = 0; i < k->stmts.n; i++)
		stmt_in_parts(&r, k->stmts.at[i]);
	memcpy(k->bufs.at, r.buf, (size_t)k->bufs.n * sizeof *r.buf);
}

/* ---- The graph ---- */

/* X with type T: a value that X is a view of, if that has type T; else a new view after X's
 * definition. */
static Value *as_type(Graph *g, Value *x, const Type *t)
{
	Node *n;

	while (x->def && x->def->op == OP_View && x->type != t)
		x = node_in(x->def, 0);
	if (x->type == t)
		return x;
	n = node_new(g, OP_View, &x, 1, 1, x->def ? x->def->next : g->first);
	if (x->def)
		node_locs_from(n, x->def);
	n->out[0]->type = t;
	return n->out[0];
}

/* Gives X the type T. All users then read a view with the former type; members are changed to read
 * X later. */
static Value *change_type(Graph *g, Value *x, const Type *t)
{
	const Type *was = x->type;
	Value *view;

	x->type = t;
	view = as_type(g, x, was);
	view->name = x->name;
	x->name = NULL;
	value_move(x, view);
	node_set_input(view->def, 0, x);
	return view;
}

void views_rewrite(Views *v)
{
	Graph *g = v->m->graph;
	const Type **t = NEW_ARRAY(v->tmp, v->nvalues + 1, const Type *);

	for (int i = 0; i < v->n; i++)
		kernel_in_parts(v, &v->member[i]);
	for (int i = 0; i < v->nvalues; i++) {
		Value *x = v->value[i];

		t[i] = parts_any(v->parts[i], x->type->rank)
			       ? type_in_parts(v->m->ctx, x->type, v->parts[i])
			       : NULL;
		if (t[i] && x->def && views_member(v, x->def))
			v->value[i] = change_type(g, x, t[i]);
	}
	for (int i = 0; i < v->nvalues; i++) {
		Value *x = t[i] ? as_type(g, v->value[i], t[i]) : NULL;

		for (int j = 0; x && j < v->n; j++)
			for (int in = 0; in < v->member[j].node->nin; in++)
				if (node_in(v->member[j].node, in) == v->value[i])
					node_set_input(v->member[j].node, in, x);
	}
}
