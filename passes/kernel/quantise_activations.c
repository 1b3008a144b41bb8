/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quantise_activations: if a product's weights are quantised, also quantises the rows of its other
 * factor X to bytes, so that CPUs multiply bytes. This applies to all products with
 * --activations-as=i8, else to those whose nodes allow it (ATTR_BYTE_ROWS). A row has a scale for
 * each group of terms: the groups of the weights, or ROW_GROUP terms if the weights have one scale
 * for all terms:
 *
 *     scale[m,g] = max over j of |x[m, g*G + j]| / 127
 *     byte[m,k]  = rint(x[m,k] * (127 / max)) + 128
 *
 * The product reads f32(byte - 128) * scale instead of X. Products with the same X share both
 * tensors. A group whose elements are all tiny becomes 0, and one with an infinity or NaN makes all
 * sums of its row NaN.
 *
 * passes/forms/scaled.c recognises the form, and the tiles of codegen/c/tile_rows.c compute it. On
 * GPUs products have weights in f32, and nothing is quantised.
 */
#include "passes/forms/form.h"
#include "passes/forms/scaled.h"
#include "passes/forms/through.h"

#include "ir/graph/blocks.h"
#include "passes/module.h"
#include "passes/forms/product.h"

enum {
	ROW_GROUP = 64, /* terms of a group if they divide the sum's terms, else half as many */
	LEAST_ROW_GROUP = 16, /* groups are multiples of this: whole words of panels of any type */
	MOST_GROUP =
		1 << 13, /* a sum of as many products of bytes, times 16, fits in 32 bits */
	ADDED = 8        /* limit on the operands that a product gets */
};

/* X, quantised in groups of GROUP terms for the readers in one block of the graph. */
typedef struct QuantisedRows {
	const Value *x;
	int64_t group;
	int block;
	Value *byte, *scale;
} QuantisedRows;

typedef struct RowsPass {
	Module *m;
	const int *block; /* by Node.id; not for nodes that the pass adds */
	VEC(QuantisedRows) done;
	int64_t count, kept;
} RowsPass;

/* ---- The kernel that quantises ---- */

/* A kernel under construction: the outputs' dims, and the iterators of all dims but the last. */
typedef struct RowsKernel {
	Kernel *k;
	int rank;
	Dim *groups;
	int64_t group;
	Buf *x;
} RowsKernel;

/* Adds iterators over the points of a scale, and returns them as indices in IDX. */
static void scale_iters(const RowsKernel *r, Iter **it, Expr **idx)
{
	for (int i = 0; i < r->rank; i++) {
		it[i] = kernel_iter(r->k, i + 1 < r->rank ? "m" : "g",
				    i + 1 < r->rank ? r->x->dims[i] : r->groups);
		idx[i] = ex_iter(r->k->pool, it[i]);
	}
}

/* Adds an iterator over the terms of a group, and converts the last of IDX from a group to a
 * term. */
static Iter *term_iter(const RowsKernel *r, Expr **idx)
{
	ExprPool *p = r->k->pool;
	Iter *it = kernel_iter(r->k, "j", dim_const(r->k->ctx, r->group));

	idx[r->rank - 1] = ex_add(p, ex_mul(p, idx[r->rank - 1], ex_int(p, CT_I64, r->group)),
				  ex_iter(p, it));
	return it;
}

static void add_scales(const RowsKernel *r, Buf *largest, Buf *inverse, Buf *scale)
{
	ExprPool *p = r->k->pool;
	Expr *idx[MAX_RANK], *top, *zero = ex_num(p, CT_F32, 0),
				   *least = ex_num(p, CT_F32, LEAST_SCALED);
	Iter *it[MAX_RANK];

	scale_iters(r, it, idx);
	top = kernel_load(r->k, largest, idx);
	kernel_map(r->k, it, r->rank, inverse, idx,
		   ex_op3(p, IN_select, ex_op2(p, IN_ge, top, least),
			  ex_op2(p, IN_div, ex_num(p, CT_F32, 127), top), zero),
		   NULL);
	scale_iters(r, it, idx);
	top = kernel_load(r->k, largest, idx);
	kernel_map(r->k, it, r->rank, scale, idx,
		   ex_op3(p, IN_select, ex_op2(p, IN_lt, top, least), zero,
			  ex_op2(p, IN_mul, top, ex_num(p, CT_F32, 1.0 / 127))),
		   NULL);
}

/* Adds a node before N that quantises X; returns its results. */
static QuantisedRows quantise(RowsPass *p, Node *n, Value *x, int64_t group)
{
	Module *m = p->m;
	QuantisedRows q = {x, group, p->block[n->id], NULL, NULL};
	RowsKernel r = {.rank = x->type->rank, .group = group};
	Kernel *k = r.k = kernel_new(m->ctx, m->arena,
				     arena_printf(m->arena, "%s_rows", node_kernel(n)->name));
	ExprPool *pool = k->pool;
	Dim *dims[MAX_RANK];
	Iter *it[MAX_RANK + 1];
	Expr *idx[MAX_RANK], *at[MAX_RANK], *v;
	Buf *largest, *inverse, *byte, *scale;
	Node *kn;

	for (int i = 0; i < r.rank; i++)
		dims[i] = x->type->dims[i];
	r.groups = dims[r.rank - 1] = dim_floordiv(m->ctx, dims[r.rank - 1],
						   dim_const(m->ctx, group));
	kn = node_new(m->graph, OP_Kernel, &x, 1, 2, n);
	node_locs_from(kn, n);
	kn->out[0]->type = type_tensor(m->ctx, DT_U8, r.rank, x->type->dims);
	kn->out[1]->type = type_tensor(m->ctx, DT_F32, r.rank, dims);
	r.x = kernel_buf(k, BUF_IN, "x", x->type);
	byte = kernel_buf(k, BUF_OUT, "byte", kn->out[0]->type);
	scale = kernel_buf(k, BUF_OUT, "scale", kn->out[1]->type);
	scale->param = 1;
	largest = kernel_temp(k, "largest", DT_F32, r.rank, dims);
	inverse = kernel_temp(k, "inverse", DT_F32, r.rank, dims);
	scale_iters(&r, it, idx);
	it[r.rank] = term_iter(&r, idx);
	kernel_reduce(k, MONOID_max, it, r.rank, it + r.rank, 1, largest,
		      ex_op1(pool, IN_abs, kernel_load(k, r.x, idx)), NULL);
	add_scales(&r, largest, inverse, scale);
	scale_iters(&r, it, at);
	for (int i = 0; i < r.rank; i++)
		idx[i] = at[i];
	it[r.rank] = term_iter(&r, idx);
	v = ex_op1(pool, IN_rint,
		   ex_op2(pool, IN_mul, kernel_load(k, r.x, idx), kernel_load(k, inverse, at)));
	kernel_map(k, it, r.rank + 1, byte, idx,
		   ex_op2(pool, IN_add, ex_cvt(pool, CT_I32, v), ex_int(pool, CT_I32, ROW_ZERO)),
		   NULL);
	kernel_node_set(kn, k);
	q.byte = kn->out[0];
	q.scale = kn->out[1];
	return q;
}

/* ---- The products ---- */

/* The number of terms in a group of a row whose weights have groups of GROUP (0: one group) of K
 * terms; 0: no number is suitable. */
static int64_t group_of_rows(int64_t k, int64_t group)
{
	int64_t g = group ? group : ROW_GROUP;

	while (!group && g > LEAST_ROW_GROUP && k % g)
		g /= 2;
	return k % g || g % LEAST_ROW_GROUP || g > MOST_GROUP ? 0 : g;
}

/* The value that factor A of C in N loads by whole rows; null: another form. */
static Value *rows_of(const Node *n, const Contraction *c)
{
	const Expr *e = c->a;
	Value *v = node_loaded(n, e);

	if (!v || v->type->dtype != DT_F32 || v->type->layout || !e->load.nidx || c->guard_a ||
	    c->guard_b || c->nk != 1)
		return NULL;
	for (int i = 0; i + 1 < e->load.nidx; i++)
		if (expr_has_iter(e->load.idx[i], c->k[0]))
			return NULL;
	if (v->type->dims[e->load.nidx - 1] != c->k[0]->extent)
		return NULL;
	e = e->load.idx[e->load.nidx - 1];
	return e->kind == EX_ITER && e->iter == c->k[0] ? v : NULL;
}

static void quantise_rows(RowsPass *p, Node *n, Contraction *c, int64_t weights_group)
{
	Kernel *k = node_kernel(n);
	ExprPool *pool = k->pool;
	Value *x = rows_of(n, c);
	QuantisedRows q = {NULL, 0, 0, NULL, NULL};
	Expr *idx[MAX_RANK], *byte;
	int64_t terms, group = 0;
	const int last = c->a->kind == EX_LOAD ? c->a->load.nidx - 1 : 0;

	if (x && dim_is_const(c->k[0]->extent, &terms))
		group = group_of_rows(terms, weights_group);
	if (!group) {
		scaled_report(p->m, n, "activations", &p->kept,
			      x ? "the sum does not consist of whole groups"
				: "they are not rows of f32");
		return;
	}
	for (int i = 0; i < p->done.n && !q.byte; i++)
		if (p->done.at[i].x == x && p->done.at[i].group == group &&
		    p->done.at[i].block == p->block[n->id])
			q = p->done.at[i];
	if (!q.byte) {
		q = quantise(p, n, x, group);
		vec_push(p->m->arena, &p->done, q);
	}
	p->count++;
	for (int i = 0; i <= last; i++)
		idx[i] = c->a->load.idx[i];
	byte = load_added(n, "byte", q.byte, idx, last + 1);
	idx[last] = ex_op2(pool, IN_floordiv, idx[last], ex_int(pool, CT_I64, group));
	byte = ex_cvt(pool, CT_F32, ex_op2(pool, IN_sub, byte, ex_int(pool, CT_I32, ROW_ZERO)));
	c->s->val[0] = ex_op2(
		pool, IN_mul,
		ex_op2(pool, IN_mul, byte, load_added(n, "scale", q.scale, idx, last + 1)), c->b);
}

/* E is constant, or loads elements of a constant that data may choose, as the matrices of
 * experts. */
static bool loads_weights(const RowsPass *p, const Node *n, Expr *e)
{
	const Value *v = node_loaded(n, e);

	return expr_is_weights(p->m, n, e) || (v && value_is_weights(p->m, v));
}

static bool has_weights(const RowsPass *p, const Node *n, const Contraction *c)
{
	return (expr_has_load(c->a) && loads_weights(p, n, c->a)) ||
	       (expr_has_load(c->b) && loads_weights(p, n, c->b));
}

static void visit(RowsPass *p, Node *n)
{
	Form form;
	ScaledForm f = {.c = &form.c, .n = n};
	bool narrow = false;
	Expr *e;

	if (!p->m->opt.int8_activations && !node_int(n, ATTR_BYTE_ROWS, 0))
		return;
	form = form_of(p->m, n);
	if (!form.c.s || form.c.ct != CT_F32 || !has_weights(p, n, &form.c))
		return;
	if (!form.tiled_packed || n->nin + ADDED > MAX_PARAMS || !loads_weights(p, n, form.c.b)) {
		scaled_report(p->m, n, "activations", &p->kept,
			      "it is not a product of rows and a matrix of weights");
		return;
	}
	e = weights_through(p->m, n, form.c.b, false);
	EX_EACH (x, e)
		narrow = narrow || expr_is_narrow(x);
	if (scaled_find(&f, e))
		quantise_rows(p, n, &form.c, f.group);
	else
		scaled_report(p->m, n, "activations", &p->kept,
			      narrow ? "the weights are not numbers in groups with a scale"
				     : "the weights are not i8 or i4");
	node_drop_unused_inputs(n);
}

bool pass_quantise_activations(Module *m)
{
	RowsPass p = {.m = m};
	const int nodes = m->graph->nnodes;

	if (module_on_gpu(m)) {
		if (m->report && m->opt.int8_activations)
			fputs("; activations: GPUs ignore --activations-as=i8\n", m->report);
		return true;
	}
	p.block = blocks_of(m->graph, m->arena).of;
	for (Node *n = m->graph->first; n; n = n->next)
		if (n->id < nodes && node_kernel(n) && module_schedules(m, n) &&
		    node_kernel(n)->stmts.n)
			visit(&p, n);
	if (m->opt.int8_activations || p.count || p.kept)
		scaled_report_rows(m, "bytes", p.count, p.kept,
				   p.count || m->opt.weight_type == DT_I8 ||
						   m->opt.weight_type == DT_I4
					   ? NULL
					   : "--weights-as=i8 or i4, too");
	dce_graph(m);
	return true;
}
