/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants of a graph that every pass must preserve:
 *
 *   - definitions come before uses, and use lists agree with operands
 *   - brackets of control flow match, and a value is used only in its own block or one inside of it
 *   - numbers of operands and results agree with ir/graph/ops.def
 *   - every value has a type (import and parse may leave that to inference)
 *   - constants and kernels agree with the types around them
 *   - the operands of a node are on the side, host or GPU, that executes the node
 *   - values that symbols are read from exist
 */
#include "ir/graph/blocks.h"

#include <string.h>

typedef struct GraphVerifier {
	Graph *g;
	Diag *d;
	const char *pass;
	Arena *tmp;
	const struct GraphVerifier *outer;
	const Value **value; /* by id; null: not a live value */
	int *order;          /* by id: the position of the defining node, from 1; 0: an input */
	bool untyped;        /* whether types may be missing */
	bool ok;
} GraphVerifier;

static bool report(GraphVerifier *v, const Node *n, const char *fmt, ...) BASE_PRINTF(3, 4);

static bool report(GraphVerifier *v, const Node *n, const char *fmt, ...)
{
	DiagLoc loc = n ? node_diag(n) : (DiagLoc){.file = v->g->file};
	va_list ap;

	va_start(ap, fmt);
	v->ok = diag_error(v->d, loc, "after %s: graph @%s: %s", v->pass, v->g->name,
			   arena_vprintf(v->tmp, fmt, ap));
	va_end(ap);
	return false;
}

/* ---- Values ---- */

static bool add_value(GraphVerifier *v, const Node *n, const Value *x, int order)
{
	if (x->id < 0 || x->id >= v->g->nvalues)
		return report(v, n, "a value has the id %d, of %d handed out", x->id,
			      v->g->nvalues);
	if (v->value[x->id])
		return report(v, n, "two values have the id %d", x->id);
	v->value[x->id] = x;
	v->order[x->id] = order;
	return true;
}

static bool is_live(const GraphVerifier *v, const Value *x)
{
	return x->id >= 0 && x->id < v->g->nvalues && v->value[x->id] == x;
}

static bool collect_values(GraphVerifier *v)
{
	int order = 0;

	for (int i = 0; i < v->g->inputs.n; i++) {
		const Value *x = v->g->inputs.at[i];

		if (x->def || x->index != i)
			return report(v, NULL, "input %d does not say that it is one", i);
		if (x->preset && x->type && !tensor_has_type(x->preset, x->type))
			return report(v, NULL, "input %d and the value it has else differ", i);
		if (!add_value(v, NULL, x, 0))
			return false;
	}
	for (const Node *n = v->g->first; n; n = n->next) {
		order++;
		if (n->graph != v->g || n->id < 0 || n->id >= v->g->nnodes)
			return report(v, n, "the node does not belong to the graph");
		if (n->next ? n->next->prev != n : v->g->last != n)
			return report(v, n, "the list of nodes is broken");
		for (int k = 0; k < n->nout; k++) {
			const Value *x = n->out[k];

			if (x && (x->def != n || x->index != k))
				return report(v, n, "result %d does not say that it is one", k);
			if (x && !add_value(v, n, x, order))
				return false;
		}
	}
	return true;
}

/* ---- Uses ---- */

static bool on_list(const Use *u)
{
	for (const Use *x = u->value->uses; x; x = x->next)
		if (x == u)
			return true;
	return false;
}

/* Every use of a live value must be an operand slot, or a result of the graph, that holds the
 * value. Returns the number. */
static int count_uses(GraphVerifier *v, const Value *x)
{
	const Use *prev = NULL;
	int n = 0;

	for (const Use *u = x->uses; u; prev = u, u = u->next, n++) {
		bool slot = u->user ? u->slot >= 0 && u->slot < u->user->nin &&
					      &u->user->in[u->slot] == u
				    : u->slot >= 0 && u->slot < v->g->results.n &&
					      v->g->results.at[u->slot] == u;

		if (u->value != x || u->prev != prev || !slot) {
			report(v, x->def, "the list of uses of value %d is broken", x->id);
			break;
		}
	}
	return n;
}

static void check_uses(GraphVerifier *v)
{
	long listed = 0, held = 0;

	for (int i = 0; i < v->g->nvalues; i++)
		if (v->value[i])
			listed += count_uses(v, v->value[i]);
	for (const Node *n = v->g->first; n; n = n->next)
		for (int k = 0; k < n->nin; k++)
			held += n->in[k].value != NULL;
	held += v->g->results.n;
	if (!v->ok || listed == held)
		return;
	for (const Node *n = v->g->first; n; n = n->next)
		for (int k = 0; k < n->nin; k++)
			if (n->in[k].value && !on_list(&n->in[k]))
				report(v, n, "operand %d is not on its value's list of uses", k);
	if (v->ok)
		report(v, NULL, "the list has %ld uses, the operands %ld", listed, held);
}

static void check_operands(GraphVerifier *v)
{
	int order = 0;

	for (const Node *n = v->g->first; n; n = n->next) {
		order++;
		for (int k = 0; k < n->nin; k++) {
			const Value *x = n->in[k].value;

			if (n->in[k].user != n || n->in[k].slot != k)
				report(v, n, "operand %d does not say whose it is", k);
			else if (x && !is_live(v, x))
				report(v, n, "operand %d is not a value of the graph", k);
			else if (x && v->order[x->id] >= order)
				report(v, n, "operand %d is defined after its use", k);
		}
	}
	for (int i = 0; i < v->g->results.n; i++)
		if (!v->g->results.at[i]->value || !is_live(v, v->g->results.at[i]->value))
			report(v, NULL, "result %d is not a value of the graph", i);
}

/* ---- Blocks ---- */

static void check_blocks(GraphVerifier *v)
{
	const Node *at = NULL;
	const char *fault = blocks_fault(v->g, v->tmp, &at);

	if (fault)
		report(v, at, "%s", fault);
}

/* ---- Nodes ---- */

static void check_arity(GraphVerifier *v, const Node *n)
{
	const OpRow *row = &op_row[n->op];
	int nin = n->nin;

	if (n->op <= OP_NONE || n->op >= OP_COUNT) {
		report(v, n, "there is no operator %d", n->op);
		return;
	}
	if (n->regions.n) /* the values that a node's regions capture are its last operands */
		nin = row->nin_min;
	if (nin < row->nin_min || (row->nin_max >= 0 && nin > row->nin_max))
		report(v, n, "%d operands; %s takes %d to %d", nin, row->name, row->nin_min,
		       row->nin_max);
	for (int k = 0; k < row->nin_min && k < n->nin; k++)
		if (!n->in[k].value && row->nin_max >= 0)
			report(v, n, "operand %d is missing", k);
	if (n->nout < row->nout_min || (row->nout_max >= 0 && n->nout > row->nout_max))
		report(v, n, "%d results; %s gives %d to %d", n->nout, row->name, row->nout_min,
		       row->nout_max);
}

/* A node's results and operands are on the same side; only a Copy's operand is on the other
 * side. */
static void check_place(GraphVerifier *v, const Node *n)
{
	const bool crosses = n->op == OP_Copy, host = node_on_host(n);
	const ValuePlace from = host != crosses ? ON_HOST : ON_DEVICE;

	for (int k = 0; k < n->nout; k++)
		if (n->out[k] && n->out[k]->place != n->out[0]->place)
			report(v, n, "its results are in several places");
	if (n->nout && n->out[0] && n->out[0]->place == ON_BOTH && n->op != OP_Const)
		report(v, n, "only constants and inputs are in both places");
	for (int k = 0; k < n->nin; k++)
		if (n->in[k].value && n->in[k].value->place != from &&
		    n->in[k].value->place != ON_BOTH)
			report(v, n, "operand %d is %s the host", k,
			       from == ON_HOST ? "not on" : "on");
}

static void check_const(GraphVerifier *v, const Node *n)
{
	const Tensor *t = n->nout == 1 && n->out[0] ? value_const(n->out[0]) : NULL;
	const Type *type = t ? n->out[0]->type : NULL;

	if (!t)
		report(v, n, "a constant without a value");
	else if (dtype_size(t->dtype, tensor_numel(t)) != t->bytes)
		report(v, n, "the constant has %lld bytes, its type another number",
		       (long long)t->bytes);
	else if (type && !tensor_has_type(t, type))
		report(v, n, "the constant and its type differ");
}

static const Value *param_value(const Node *n, const Buf *b)
{
	return b->kind == BUF_IN ? node_in(n, b->param) : node_out(n, b->param);
}

/* The size D of a buffer of X in a run whose tensors are contiguous: the caller's strides may give
 * room to the values of an alias, and to views of them. */
static Dim *without_room(const Graph *g, const Value *x, Dim *d)
{
	Sym *s = dim_as_sym(d);

	if (!s || !s->settable)
		return d;
	while (x && x->def && x->def->op == OP_View)
		x = node_in(x->def, 0);
	VEC_EACH_AT (a, &g->aliases) {
		if ((a->room_in == s && g->inputs.at[a->input] == x) ||
		    (a->room_out == s && g->results.at[a->result]->value == x))
			return s->def;
	}
	return d;
}

/* Whether B and a tensor X of type T surely have the same dims. */
static bool same_size(const Graph *g, const Buf *b, const Value *x, const Type *t)
{
	bool same = b->rank == t->rank;

	for (int i = 0; same && i < b->rank; i++) {
		Dim *d = without_room(g, x, b->dims[i]);

		same = d == t->dims[i] ||
		       (dim_prove_le(g->ctx, d, t->dims[i]) && dim_prove_le(g->ctx, t->dims[i], d));
	}
	return same;
}

/* Whether B, which has another type than the elements T of its value, is a buffer of a BitCast K:
 * it only moves bits, which it loads and stores as integers of their size. */
static bool moves_bits(const Kernel *k, const Buf *b, DType t)
{
	const Stmt *s = k->stmts.n == 1 ? k->stmts.at[0] : NULL;

	return s && !s->red && s->val[0]->kind == EX_LOAD && b->dtype != DT_STR && t != DT_STR &&
	       dtype_info[b->dtype].bits == dtype_info[t].bits;
}

const Buf *kernel_misfit(const Graph *g, const Node *n)
{
	const Kernel *k = node_attr(n, "kernel")->kernel;

	VEC_EACH (b, &k->bufs) {
		const Value *x = b->kind == BUF_TEMP ? NULL : param_value(n, b);
		const Type *t = x ? x->type : NULL;

		if (b->kind != BUF_TEMP &&
		    (!x || (t && (t->kind != TYPE_TENSOR ||
				  (t->dtype != b->dtype && !moves_bits(k, b, t->dtype)) ||
				  t->layout != b->layout || !same_size(g, b, x, t)))))
			return b;
	}
	return NULL;
}

static void check_kernel(GraphVerifier *v, const Node *n)
{
	const Attr *a = node_attr(n, "kernel");
	const Buf *b;

	if (!a || a->kind != ATTR_KERNEL) {
		report(v, n, "a kernel node without its kernel");
		return;
	}
	if ((b = kernel_misfit(v->g, n)))
		report(v, n,
		       param_value(n, b) ? "buffer %s and its value differ in type"
					 : "buffer %s stands for no operand or result",
		       b->name);
	v->ok = kernel_verify(a->kernel, v->d, v->pass) && v->ok;
}

/* ---- Types and symbols ---- */

/* S occurs in the type of X. */
static void check_sym(GraphVerifier *v, const Value *x, const Sym *s)
{
	const Value *from = graph_source(v->g, s).value;

	for (const GraphVerifier *in = v; in && from; in = in->outer)
		if (is_live(in, from))
			return;
	if (s->from_data)
		report(v, x->def, "size %s of value %d comes from a value that is gone", s->name,
		       x->id);
}

static void check_type(GraphVerifier *v, const Value *x)
{
	if (!x->type) {
		if (!v->untyped)
			report(v, x->def, "value %d has no type", x->id);
		return;
	}
	for (const Type *t = x->type; t; t = t->elem)
		for (int i = 0; i < t->rank; i++)
			DIM_EACH_SYM (s, t->dims[i])
				check_sym(v, x, s);
}

static void check_nodes(GraphVerifier *v);

static bool verify(Graph *g, Diag *d, const char *pass, const GraphVerifier *outer)
{
	GraphVerifier v = {.g = g,
			   .d = d,
			   .pass = pass ? pass : "parse",
			   .tmp = arena_new(),
			   .outer = outer,
			   .ok = true};

	v.untyped = !strcmp(v.pass, "parse") || !strcmp(v.pass, "import");
	v.value = NEW_ARRAY(v.tmp, g->nvalues, const Value *);
	v.order = NEW_ARRAY(v.tmp, g->nvalues, int);
	if (collect_values(&v)) {
		check_uses(&v);
		check_operands(&v);
		check_blocks(&v);
		check_nodes(&v);
		for (int i = 0; i < g->nvalues; i++)
			if (v.value[i])
				check_type(&v, v.value[i]);
	}
	arena_free(v.tmp);
	return v.ok;
}

static void check_nodes(GraphVerifier *v)
{
	for (const Node *n = v->g->first; n; n = n->next) {
		check_arity(v, n);
		check_place(v, n);
		if (n->op == OP_Const)
			check_const(v, n);
		if (n->op == OP_Kernel)
			check_kernel(v, n);
		for (int k = 0; k < n->regions.n; k++)
			v->ok = verify(n->regions.at[k], v->d, v->pass, v) && v->ok;
	}
}

bool graph_verify(Graph *g, Diag *d, const char *pass)
{
	return verify(g, d, pass, NULL);
}
