/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Constant folding. A node over constants whose result is small is evaluated by the interpreter. A
 * larger one remains and is evaluated when the artifact's weights are computed. A view of a
 * constant becomes the constant with another shape. A small integer tensor whose elements inference
 * knows becomes a constant, or Dims.
 */
#include "passes/graph/canon.h"
#include "passes/forms/kernels.h"

#include "ir/eval/eval.h"
#include "ir/graph/blocks.h"

enum {
	MAX_OPERANDS = 1 << 20, /* limit on the bytes of operands that folding reads */
	MAX_WORK = 1 << 22      /* limit on the points that folding visits */
};

static void replace_by_const(Canon *c, Node *n, int k, const Tensor *t)
{
	Value *v = graph_const(c->g, t, n);

	node_locs_from(v->def, n);
	v->type = n->out[k]->type;
	v->name = n->out[k]->name;
	value_move(n->out[k], v);
}

/* ---- Constants ---- */

static bool small_constants(const Node *n)
{
	int64_t bytes = 0;

	if (n->nin == 0)
		return false;
	for (int i = 0; i < n->nin; i++) {
		const Tensor *t = value_const(node_in(n, i));

		if (!node_in(n, i))
			continue;
		if (!t || t->bytes > MAX_OPERANDS)
			return false;
		bytes += t->bytes;
	}
	return bytes <= MAX_OPERANDS;
}

static bool small_result(const Value *v, int64_t *dims)
{
	int64_t n = 1, bytes;

	if (v->type->kind != TYPE_TENSOR || v->type->layout || !type_static(v->type, dims))
		return false;
	for (int i = 0; i < v->type->rank; i++)
		if (dims[i] < 0 || __builtin_mul_overflow(n, dims[i], &n))
			return false;
	bytes = dtype_size(v->type->dtype, n);
	return bytes >= 0 && bytes <= FOLD_BYTES;
}

static bool little_work(const Kernel *k)
{
	int64_t all = 0;

	VEC_EACH (s, &k->stmts) {
		int64_t points = 1, d;

		for (int j = 0; j < s->niters; j++)
			if (!dim_is_const(s->iter[j]->extent, &d) || d < 0 ||
			    __builtin_mul_overflow(points, d, &points))
				return false;
		if (points > MAX_WORK || (all += points) > MAX_WORK)
			return false;
	}
	return true;
}

/* Runs K with the operands IN, and the results OUT. False if K mentions a symbol, which has no
 * value yet. */
static bool run(Ctx *ctx, Kernel *k, const Tensor *const *in, Tensor **out, Arena *tmp)
{
	EvalBuf *bufs = NEW_ARRAY(tmp, k->bufs.n + 1, EvalBuf);
	int64_t *sym = NEW_ARRAY(tmp, sym_count(ctx) + 1, int64_t);

	if (kernel_has_syms(k))
		return false;
	for (int i = 0; i < k->bufs.n; i++) {
		const Buf *b = k->bufs.at[i];

		if (b->kind == BUF_IN)
			bufs[i].data = (void *)(uintptr_t)in[b->param]->data;
		else if (b->kind == BUF_OUT)
			bufs[i].data = (void *)(uintptr_t)out[b->param]->data;
	}
	return eval_kernel(k, &(EvalOpts){.sym = sym}, bufs, NULL) == EVAL_OK;
}

static bool fold_constants(Canon *c, Node *n)
{
	ARENA_LOCAL(tmp);
	Tensor **out = NEW_ARRAY(tmp, n->nout, Tensor *);
	const Tensor **in = NEW_ARRAY(tmp, n->nin + 1, const Tensor *);
	int64_t dims[MAX_RANK];
	Kernel *k = NULL;
	bool ok = true;

	for (int i = 0; i < n->nout && ok; i++) {
		ok = !n->out[i] || small_result(n->out[i], dims);
		if (ok && n->out[i])
			out[i] = tensor_new(c->g->arena, n->out[i]->type->dtype,
					    n->out[i]->type->rank, dims);
	}
	for (int i = 0; i < n->nin; i++)
		in[i] = node_in(n, i) ? value_const(node_in(n, i)) : NULL;
	if (ok)
		k = lower_node(c->in, n, tmp);
	ok = k && little_work(k) && run(c->m->ctx, k, in, out, tmp);
	for (int i = 0; i < n->nout && ok; i++)
		if (n->out[i])
			replace_by_const(c, n, i, out[i]);
	if (!ok)
		return false;
	node_remove(n);
	canon_count(c);
	return true;
}

const Tensor *fold_floats(Module *m, const Value *v, int depth, Arena *a)
{
	const Tensor *t = value_const(v), **in;
	const Node *n = v->def;
	int64_t dims[MAX_RANK];
	Tensor **out;
	Kernel *k;

	if (t || !n || depth <= 0 || op_is_control(n->op) || !n->nin || !node_in(n, 0) ||
	    v->type->dtype != DT_F32 || node_in(n, 0)->type->dtype != DT_F32)
		return t;
	in = NEW_ARRAY(a, n->nin, const Tensor *);
	out = NEW_ARRAY(a, n->nout, Tensor *);
	for (int i = 0; i < n->nin; i++) {
		in[i] = node_in(n, i) ? fold_floats(m, node_in(n, i), depth - 1, a) : NULL;
		if (node_in(n, i) && !in[i])
			return NULL;
	}
	for (int i = 0; i < n->nout; i++) {
		if (n->out[i] && !type_static(n->out[i]->type, dims))
			return NULL;
		if (n->out[i])
			out[i] = tensor_new(a, n->out[i]->type->dtype, n->out[i]->type->rank, dims);
		if (n->out[i] == v)
			t = out[i];
	}
	k = lower_node(m->infer, (Node *)(uintptr_t)n, a);
	return k && run(m->ctx, k, in, out, a) ? t : NULL;
}

/* A view of a constant. A large constant with other uses is not folded, since it would be stored
 * twice. */
static bool fold_view(Canon *c, Node *n)
{
	const Tensor *t = value_const(node_in(n, 0));
	Tensor *x;
	int64_t dims[MAX_RANK];

	if (n->op != OP_View || !t || !type_static(n->out[0]->type, dims) ||
	    (t->bytes > FOLD_BYTES && !value_used_once(node_in(n, 0))))
		return false;
	x = NEW(c->g->arena, Tensor);
	*x = *t;
	x->rank = n->out[0]->type->rank;
	x->dims = arena_copy(c->g->arena, dims, (size_t)x->rank * sizeof *dims);
	replace_by_const(c, n, 0, x);
	node_remove(n);
	canon_count(c);
	return true;
}

/* ---- Contents ---- */

static bool known_const(Canon *c, Node *n, Dim *const *d, int count)
{
	Tensor *t;
	int64_t dims[MAX_RANK], v;

	if (!small_result(n->out[0], dims))
		return false;
	t = tensor_new(c->g->arena, n->out[0]->type->dtype, n->out[0]->type->rank, dims);
	for (int i = 0; i < count; i++) {
		dim_is_const(d[i], &v);
		dtype_store_i64(t->dtype, (void *)(uintptr_t)t->data, i, v);
	}
	replace_by_const(c, n, 0, t);
	node_remove(n);
	canon_count(c);
	return true;
}

/* Dims that are read from data, or are long expressions, remain arithmetic on tensors. */
static bool is_plain_dim(const Graph *g, Dim *d, const Value *v)
{
	enum { LONG = 60 };
	STRBUF_LOCAL(b);

	DIM_EACH_SYM (s, d)
		if (graph_source(g, s).value == v || (s->def && sym_from_data(s)))
			return false;
	dim_print(&b, d);
	return b.n <= LONG;
}

static bool known_dims(Canon *c, Node *n, Dim *const *d, int count)
{
	const Type *type = n->out[0]->type;
	Node *x;

	if (type->rank > 1 || count > MAX_RANK || n->op == OP_Dims)
		return false;
	for (int i = 0; i < count; i++)
		if (!is_plain_dim(n->graph, d[i], n->out[0]))
			return false;
	x = node_new(c->g, OP_Dims, NULL, 0, 1, n);
	node_locs_from(x, n);
	node_set_attr(x, (Attr){.name = "value",
				.kind = ATTR_TYPE,
				.type = type_tensor(c->m->ctx, type->dtype, count, d)});
	if (type->rank == 0)
		node_set_int(x, "scalar", 1);
	x->out[0]->type = type;
	canon_replace(c, n, x->out[0]);
	return true;
}

/* Whether N may have contents: constants, Dims and shapes do; other nodes if their operands
 * have. So folding proceeds node by node. */
static bool has_contents(const Node *n)
{
	if (n->nout != 1 || !n->out[0] || n->out[0]->type->kind != TYPE_TENSOR)
		return false;
	if (n->op == OP_Shape || n->op == OP_Size || n->op == OP_Dims)
		return true;
	for (int i = 0; i < n->nin; i++) {
		const Value *v = node_in(n, i);

		if (v && (!v->def || (v->def->op != OP_Const && v->def->op != OP_Dims)))
			return false;
	}
	return n->nin > 0;
}

static bool fold_contents(Canon *c, Node *n)
{
	int count;
	Dim **d = has_contents(n) ? infer_known(c->in, n->out[0], &count) : NULL;

	if (!d)
		return false;
	return dims_are_const(d, count) ? known_const(c, n, d, count) : known_dims(c, n, d, count);
}

/* N dequantises a constant matrix of bytes. N is not folded, so that a product can read the bytes
 * (passes/kernel/algebra.c). */
static bool widens_bytes(const Node *n)
{
	enum { FEW = 64 }; /* limit on the elements of a small tensor, which may be a size */
	const Tensor *t = n->op == OP_Cast ? value_const(node_in(n, 0)) : NULL;
	int sides = 0;

	for (int d = 0; t && d < t->rank; d++)
		sides += t->dims[d] > 1;
	return sides > 1 && dtype_is_byte(t->dtype) && tensor_numel(t) > FEW;
}

bool fold_node(Canon *c, Node *n)
{
	if (fold_view(c, n))
		return true;
	if (widens_bytes(n))
		return false;
	if (small_constants(n) && fold_constants(c, n))
		return true;
	return fold_contents(c, n);
}
