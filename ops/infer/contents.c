/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents: the elements of small integer tensors as dims, so that shape arithmetic that exporters
 * write (Shape, Gather, Concat, Reshape) disappears. There is no table of shape arithmetic: a
 * node's own lowered statements are evaluated over symbolic integers. If an element has no such
 * expression, it becomes a symbol that is read from the tensor at run time.
 */
#include "ops/infer/infer.h"

#include "ir/eval/eval.h"

#include <assert.h>

int64_t type_const_numel(const Type *t, int64_t max)
{
	int64_t n = 1;

	if (!t || t->kind != TYPE_TENSOR)
		return -1;
	for (int i = 0; i < t->rank; i++) {
		int64_t d;

		if (!dim_is_const(t->dims[i], &d) || d < 0 || (d && n > max))
			return -1;
		n *= d;
	}
	return n <= max ? n : -1;
}

static bool is_whole(const Type *t)
{
	return t && t->kind == TYPE_TENSOR && (dtype_is_int(t->dtype) || t->dtype == DT_BOOL);
}

static Contents *slot(Infer *in, const Value *v)
{
	while (in->contents.n <= v->id)
		vec_push(in->arena, &in->contents, NULL);
	if (!in->contents.at[v->id])
		in->contents.at[v->id] = NEW(in->arena, Contents);
	return in->contents.at[v->id];
}

/* ---- What is known ---- */

static Dim **tensor_dims(Infer *in, const Tensor *t, int n)
{
	Dim **d = NEW_ARRAY(in->arena, n, Dim *);

	for (int i = 0; i < n; i++)
		d[i] = dim_const(in->ctx, dtype_load_i64(t->dtype, t->data, i));
	return d;
}

static Dim **trace(Infer *in, Value *v, int n, bool syms);

void infer_forget_syms(Infer *in, int first)
{
	if (first == sym_count(in->ctx))
		return;
	VEC_EACH (c, &in->contents) {
		bool mentions = false;

		for (int k = 0; c && c->at && k < c->n; k++)
			DIM_EACH_SYM (s, c->at[k])
				mentions = mentions || s->id >= first;
		if (mentions)
			*c = (Contents){.opaque = c->opaque};
	}
	for (int i = first; i < sym_count(in->ctx); i++)
		graph_set_source(in->graph, sym_at(in->ctx, i), NULL, 0);
}

/* The contents of V, if known without reading V itself at run time: without any symbol read from
 * data; or, with SYMS, over symbols of the values that V is computed from. */
static Dim **known(Infer *in, Value *v, int n, bool syms)
{
	const Tensor *t = value_const(v);
	Contents *c = slot(in, v);
	Dim **d;

	if (c->at)
		return c->at;
	c->n = n;
	if (t)
		return c->at = tensor_dims(in, t, n);
	if (!v->def || in->depth >= MAX_DEPTH)
		return NULL;
	d = c->opaque ? NULL : trace(in, v, n, false);
	c->opaque = !d;
	if (!d && syms) {
		int before = sym_count(in->ctx);

		d = trace(in, v, n, true);
		if (!d)
			infer_forget_syms(in, before);
	}
	return c->at = d;
}

/*
 * The kernel that computes a node from only integers. The statements of small float operands
 * become part of it. So a size that passes through floats (Cast, Mul, Floor, Cast) is followed.
 */
typedef struct Chain {
	Infer *in;
	Kernel *k;
	Arena *tmp;
	VEC(Value *) args; /* by Buf.param */
	int nodes;
} Chain;

/* The pads of a convolution "same", which PyTorch's exporter writes in floats, take 22 nodes. */
enum { MAX_CHAIN = 64 };

static Buf *lower_into(Chain *c, const Value *v);

static bool can_lower(const Node *n)
{
	return n->op == OP_Kernel ? node_attr(n, "kernel") != NULL
				  : op_table[n->op]->lower || op_table[n->op]->scalar;
}

static Buf *chain_operand(Chain *c, Value *v)
{
	const Type *t = v->type;
	const Tensor *known_at = value_const(v);
	bool follow = dtype_is_float(t->dtype) && type_const_numel(t, MAX_CONTENTS) >= 0;
	Buf *b;

	if (follow && known_at) {
		b = kernel_temp(c->k, "c", t->dtype, t->rank, t->dims);
		b->data = known_at->data;
		return b;
	}
	if (follow && v->def && v->def->op != OP_Kernel && can_lower(v->def) &&
	    c->nodes < MAX_CHAIN)
		return lower_into(c, v);
	b = kernel_temp(c->k, "x", t->dtype, t->rank, t->dims);
	b->kind = BUF_IN;
	b->param = c->args.n;
	vec_push(c->tmp, &c->args, v);
	return b;
}

/* Calls the `lower` of V's node, which finds its buffers by kind and number. Until it returns, only
 * the node's buffers have these numbers. Returns the buffer of V. Other results of the node are
 * temporaries, which nothing reads. */
static Buf *lower_into(Chain *c, const Value *v)
{
	Node *n = v->def;
	const Op *op = op_table[n->op];
	Buf **in = NEW_ARRAY(c->tmp, n->nin + 1, Buf *), **out = NEW_ARRAY(c->tmp, n->nout, Buf *);
	int nbufs, *param;
	BufKind *kind;

	c->nodes++;
	for (int i = 0; i < n->nin; i++)
		in[i] = n->in[i].value ? chain_operand(c, n->in[i].value) : NULL;
	for (int i = 0; i < n->nout; i++)
		if (node_out(n, i) && n->out[i]->type)
			out[i] = kernel_temp(c->k, "f", n->out[i]->type->dtype,
					     n->out[i]->type->rank, n->out[i]->type->dims);
	nbufs = c->k->bufs.n;
	param = NEW_ARRAY(c->tmp, nbufs, int);
	kind = NEW_ARRAY(c->tmp, nbufs, BufKind);
	for (int i = 0; i < nbufs; i++) {
		param[i] = c->k->bufs.at[i]->param;
		kind[i] = c->k->bufs.at[i]->kind;
		c->k->bufs.at[i]->param = -1;
	}
	for (int i = 0; i < n->nin; i++)
		if (in[i]) {
			in[i]->kind = BUF_IN;
			in[i]->param = i;
		}
	for (int i = 0; i < n->nout; i++)
		if (out[i]) {
			out[i]->kind = BUF_OUT;
			out[i]->param = i;
		}
	if (op->lower)
		op->lower(c->in, n, c->k);
	else
		lower_elementwise(c->in, n, c->k);
	for (int i = 0; i < nbufs; i++) {
		c->k->bufs.at[i]->param = param[i];
		c->k->bufs.at[i]->kind = kind[i];
	}
	return out[v->index];
}

/* Makes the kernel of V's node, where *RESULT is the buffer of V; ARGS are the values of its
 * operands by Buf.param. */
static Kernel *kernel_of(Infer *in, Value *v, Arena *tmp, Value *const **args, int *nargs,
			 Buf **result)
{
	Node *n = v->def;
	Chain c = {.in = in, .tmp = tmp};

	if (n->op == OP_Kernel) {
		for (int i = 0; i < n->nin; i++)
			vec_push(tmp, &c.args, n->in[i].value);
		c.k = node_attr(n, "kernel")->kernel;
		*result = lower_out(c.k, v->index);
	} else {
		c.k = kernel_new(in->ctx, tmp, "contents");
		*result = lower_into(&c, v);
	}
	*args = c.args.at;
	*nargs = c.args.n;
	return c.k;
}

static Dim *const *operand(Infer *in, Value *v, bool syms)
{
	int64_t numel = v && is_whole(v->type) ? type_const_numel(v->type, MAX_CONTENTS) : -1;
	int count;

	if (numel < 0)
		return NULL;
	return syms ? infer_contents(in, NULL, v, &count) : known(in, v, (int)numel, false);
}

static Dim **trace(Infer *in, Value *v, int n, bool syms)
{
	ARENA_LOCAL(tmp);
	Dim **out = NEW_ARRAY(in->arena, n ? n : 1, Dim *);
	Dim *const **arg;
	Value *const *args;
	bool ok = infer_operands_typed(v->def) && can_lower(v->def);
	int nargs;

	in->depth++;
	if (ok) {
		Buf *result;
		Kernel *k = kernel_of(in, v, tmp, &args, &nargs, &result);

		arg = NEW_ARRAY(tmp, nargs + 1, Dim *const *);
		for (int i = 0; i < nargs; i++)
			arg[i] = operand(in, args[i], syms);
		ok = eval_symbolic(k, result, arg, out, n);
	}
	in->depth--;
	return ok ? out : NULL;
}

/* ---- What only run time knows ---- */

static void set_bounds(Ctx *c, Sym *s, DType t)
{
	int bits = t == DT_BOOL ? 1 : dtype_info[t].bits;
	bool sign = dtype_is_signed(t);
	int64_t hi = bits < 64 ? ((int64_t)1 << (sign ? bits - 1 : bits)) - 1 : DIM_INF;

	sym_bound(c, s, !sign ? 0 : bits < 64 ? -hi - 1 : -DIM_INF, hi);
}

static Dim *find_sym(const Infer *in, const Value *v, int at)
{
	const Sym *first = NULL;

	for (const Sym *s = v->syms; s; s = graph_source(in->graph, s).next)
		if (graph_source(in->graph, s).at == at && (!first || s->id < first->id))
			first = s;
	return first ? first->dim : NULL;
}

/* The symbol for element AT of V; makes one if there is none. */
static Dim *element_sym(Infer *in, Value *v, int at, int n)
{
	Dim *d = find_sym(in, v, at);
	Sym *s;
	char *name;

	if (d)
		return d;
	name = arena_printf(in->arena, n > 1 ? "%s_%d" : "%s",
			    v->name && *v->name ? v->name : "data", at);
	s = sym_fresh(in->ctx, name);
	graph_set_source(in->graph, s, v, at);
	set_bounds(in->ctx, s, v->type->dtype);
	return s->dim;
}

void infer_read_at_run_time(Infer *in, Value *v)
{
	int n = (int)type_const_numel(v->type, MAX_CONTENTS);
	Contents *c = slot(in, v);

	assert(n >= 0 && is_whole(v->type));
	c->n = n;
	c->at = NEW_ARRAY(in->arena, n ? n : 1, Dim *);
	for (int i = 0; i < n; i++)
		c->at[i] = element_sym(in, v, i, n);
}

/* If an element is a long expression of data, reading it from the tensor is better. */
static Dim *simple_or_sym(Infer *in, Value *v, Dim *d, int at, int n)
{
	enum { LONG = 40 };
	STRBUF_LOCAL(b);
	bool is_long;

	if (!dim_from_data(d))
		return d;
	dim_print(&b, d);
	is_long = b.n > LONG;
	return is_long ? element_sym(in, v, at, n) : d;
}

/* Symbols that exist are reused, so a second inference finds the same as the first. */
static void find_contents(Infer *in, Value *v, int n)
{
	Contents *c = slot(in, v);
	int there = 0;

	if (c->at && c->done)
		return;
	for (int i = 0; i < n; i++)
		there += find_sym(in, v, i) != NULL;
	if ((n && there == n) || !known(in, v, n, true))
		infer_read_at_run_time(in, v);
	else
		for (int i = 0; i < n; i++)
			c->at[i] = find_sym(in, v, i) ? find_sym(in, v, i)
						      : simple_or_sym(in, v, c->at[i], i, n);
	c->done = true;
}

static void contents_error(Infer *in, Node *n, const Value *v, const char *why)
{
	STRBUF_LOCAL(b);

	type_print(&b, v->type);
	infer_error(in, n, "operand \"%s\" is %s, %s", v->name ? v->name : "", strbuf_str(&b), why);
}

Dim **infer_contents(Infer *in, Node *n, Value *v, int *count)
{
	int64_t numel;

	*count = 0;
	if (!v || !v->type)
		return NULL;
	numel = type_const_numel(v->type, MAX_CONTENTS);
	if (!is_whole(v->type) || numel < 0) {
		if (n && is_whole(v->type))
			contents_error(
				in, n, v,
				arena_printf(
					in->arena,
					"which must have a constant size of at most %d elements",
					MAX_CONTENTS));
		else if (n)
			contents_error(in, n, v, "which must be a tensor of integers");
		return NULL;
	}
	*count = (int)numel;
	find_contents(in, v, (int)numel);
	return slot(in, v)->at;
}

Dim **infer_asked(Infer *in, const Value *v, int *count)
{
	const Contents *c = v->id < in->contents.n ? in->contents.at[v->id] : NULL;

	if (!c || !c->at)
		return NULL;
	*count = (int)type_const_numel(v->type, MAX_CONTENTS);
	return c->at;
}

Dim **infer_known(Infer *in, Value *v, int *count)
{
	int64_t n = v && is_whole(v->type) ? type_const_numel(v->type, MAX_CONTENTS) : -1;

	*count = n < 0 ? 0 : (int)n;
	return n < 0 ? NULL : known(in, v, (int)n, false);
}

/* ---- Constants ---- */

static const Tensor *run_const(Infer *in, Node *n)
{
	ARENA_LOCAL(tmp);
	Tensor *r = NULL;
	const Tensor **arg = NEW_ARRAY(tmp, n->nin ? n->nin : 1, const Tensor *);
	int64_t dims[MAX_RANK];
	EvalBuf *bufs;
	Kernel *k = NULL;
	bool ok = type_static(n->out[0]->type, dims);

	in->depth++;
	for (int i = 0; i < n->nin && ok; i++)
		ok = !n->in[i].value || (arg[i] = infer_const_tensor(in, n->in[i].value));
	if (ok)
		k = lower_node(in, n, tmp);
	if (k) {
		r = tensor_new(in->arena, n->out[0]->type->dtype, n->out[0]->type->rank, dims);
		bufs = NEW_ARRAY(tmp, k->bufs.n, EvalBuf);
		for (int i = 0; i < k->bufs.n; i++) {
			const Buf *b = k->bufs.at[i];

			if (b->kind == BUF_IN)
				bufs[i].data = (void *)(uintptr_t)arg[b->param]->data;
			else if (b->kind == BUF_OUT)
				bufs[i].data = (void *)(uintptr_t)r->data;
		}
		if (eval_kernel(k,
				&(EvalOpts){.sym = NEW_ARRAY(tmp, sym_count(in->ctx) + 1, int64_t)},
				bufs, NULL) != EVAL_OK)
			r = NULL;
	}
	in->depth--;
	return r;
}

const Tensor *infer_const_tensor(Infer *in, Value *v)
{
	const Tensor *t = value_const(v);

	if (t)
		return t;
	if (!v->def || v->def->nout != 1 || v->def->nin == 0 || !can_lower(v->def) ||
	    v->def->op == OP_Kernel || !v->type || in->depth >= MAX_DEPTH ||
	    type_const_numel(v->type, MAX_CONTENTS) < 0)
		return NULL;
	for (int i = 0; i < v->def->nin; i++)
		if (v->def->in[i].value &&
		    type_const_numel(v->def->in[i].value->type, MAX_CONTENTS) < 0)
			return NULL;
	return run_const(in, v->def);
}

const int64_t *infer_const_ints(Infer *in, Value *v, int *count)
{
	const Tensor *t = v ? value_const(v) : NULL;
	Dim **d;
	int64_t *r, numel;

	*count = 0;
	if (t && (dtype_is_int(t->dtype) || t->dtype == DT_BOOL)) {
		int64_t n = tensor_numel(t);

		if (n > INT32_MAX)
			return NULL;
		r = NEW_ARRAY(in->arena, n ? n : 1, int64_t);
		for (int64_t i = 0; i < n; i++)
			r[i] = dtype_load_i64(t->dtype, t->data, i);
		*count = (int)n;
		return r;
	}
	numel = v && is_whole(v->type) ? type_const_numel(v->type, MAX_CONTENTS) : -1;
	if (numel < 0 || !(d = known(in, v, (int)numel, false)))
		return NULL;
	*count = (int)numel;
	r = NEW_ARRAY(in->arena, *count ? *count : 1, int64_t);
	for (int i = 0; i < *count; i++)
		if (!dim_is_const(d[i], &r[i]))
			return NULL;
	return r;
}

const double *infer_const_floats(Infer *in, Value *v, int *count)
{
	const Tensor *t = v ? infer_const_tensor(in, v) : NULL;
	int64_t n;
	double *r;

	*count = 0;
	if (!t || !dtype_is_float(t->dtype) || (n = tensor_numel(t)) > INT32_MAX)
		return NULL;
	r = NEW_ARRAY(in->arena, n ? n : 1, double);
	for (int64_t i = 0; i < n; i++)
		r[i] = dtype_load_f64(t->dtype, t->data, i);
	*count = (int)n;
	return r;
}
