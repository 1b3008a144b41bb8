/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The reference run of a graph. Symbols are bound from the inputs' shapes; then each node's own
 * lowered statements are evaluated. A symbol that is read from data is bound as soon as its tensor
 * has been computed. A fact is checked as soon as its symbols are bound, before any node that
 * relies on it.
 */
#include "tests/oracle/eval_graph.h"

#include "ir/graph/blocks.h"
#include "ops/infer/infer.h"
#include "runtime/strtable.h"

#include <assert.h>
#include <stdlib.h>

typedef struct GraphRun {
	Graph *g;
	Infer *in;
	Diag *diag;
	int64_t *sym; /* by Sym.id */
	bool *bound;
	int nsym;
	void **data; /* by Value.id */
	bool *owned; /* by Value.id: whether the data was malloc'ed here */
	int *uses;   /* by Value.id: uses that are still to come */
	bool *fact_done;
	Arena *tmp;
	const EvalGraphOpts *o;
	struct LoopRun *loop; /* the innermost loop that runs */
} GraphRun;

/* A loop that runs. */
typedef struct LoopRun {
	struct LoopRun *outer;
	Node *open, *close;
	int64_t iteration, trip;
	Dim *elements; /* loop_elements */
	void **stack;  /* by result of the EndFor: what the iterations so far have given */
	int64_t *room; /* bytes of the stack */
	/* what was known before the loop: an iteration forgets what the one before found */
	bool *bound, *fact_done;
	int nsym;
} LoopRun;

static DiagLoc graph_loc(const GraphRun *r)
{
	return (DiagLoc){.file = r->g->file};
}

/* ---- Symbols ---- */

typedef struct Unbound {
	Sym *s;
	int n;
} Unbound;

static Unbound unbound(const GraphRun *r, Dim *d)
{
	Unbound u = {NULL, 0};

	DIM_EACH_SYM (s, d)
		if (s->id >= r->nsym || !r->bound[s->id]) {
			u.s = s;
			u.n++;
		}
	return u;
}

static bool bind(GraphRun *r, DiagLoc loc, Sym *s, int64_t v);

/* Binds the symbols that abbreviate a dim; the symbols of that dim are bound by now. */
static bool bind_named(GraphRun *r, DiagLoc loc)
{
	for (int i = 0; i < r->nsym; i++) {
		Sym *s = sym_at(r->g->ctx, i);
		int64_t v;

		if (!s->def || r->bound[i] || unbound(r, s->def).n)
			continue;
		if (!dim_eval(s->def, r->sym, &v))
			return diag_error(r->diag, loc, "a size overflows");
		return bind(r, loc, s, v);
	}
	return true;
}

static bool bind(GraphRun *r, DiagLoc loc, Sym *s, int64_t v)
{
	if (!sym_allows(s, v))
		return diag_error(r->diag, loc, "%s is %lld, out of its bounds", s->name,
				  (long long)v);
	r->sym[s->id] = v;
	r->bound[s->id] = true;
	return bind_named(r, loc);
}

/* Solves D == V if exactly one symbol of D is unbound and D is linear in it. */
static bool solve(GraphRun *r, Dim *d, int64_t v, bool *progress)
{
	Unbound u = unbound(r, d);
	int64_t k, at;
	Dim *rest;

	if (u.n != 1 || !dim_linear_in(r->g->ctx, d, u.s, &k, &rest) || unbound(r, rest).n ||
	    !dim_eval(rest, r->sym, &at))
		return true;
	if (k == 0 || (v - at) % k)
		return diag_error(r->diag, graph_loc(r), "no %s makes a dim of an input %lld",
				  u.s->name, (long long)v);
	*progress = true;
	return bind(r, graph_loc(r), u.s, (v - at) / k);
}

static bool bind_inputs(GraphRun *r, const Tensor *const *inputs)
{
	bool progress = true;

	for (int i = 0; i < r->g->inputs.n; i++) {
		const Value *v = r->g->inputs.at[i];
		const Tensor *t = inputs[i];

		if (!v->type || v->type->kind != TYPE_TENSOR)
			return diag_error(r->diag, graph_loc(r), "input %s is not a tensor",
					  v->name ? v->name : "");
		if (!t || t->dtype != v->type->dtype || t->rank != v->type->rank)
			return diag_error(r->diag, graph_loc(r),
					  "input %s: element type or rank differs",
					  v->name ? v->name : "");
	}
	while (progress) {
		progress = false;
		for (int i = 0; i < r->g->inputs.n; i++)
			for (int d = 0; d < inputs[i]->rank; d++)
				if (!solve(r, r->g->inputs.at[i]->type->dims[d], inputs[i]->dims[d],
					   &progress))
					return false;
	}
	for (int i = 0; i < r->g->inputs.n; i++)
		for (int d = 0; d < inputs[i]->rank; d++) {
			int64_t v;

			if (!dim_eval(r->g->inputs.at[i]->type->dims[d], r->sym, &v) ||
			    v != inputs[i]->dims[d])
				return diag_error(r->diag, graph_loc(r),
						  "input %s: dim %d is %lld, which does not fit",
						  r->g->inputs.at[i]->name, d,
						  (long long)inputs[i]->dims[d]);
		}
	return true;
}

static int64_t read_element(const GraphRun *r, const Value *v, int64_t at)
{
	int64_t x = dtype_load_i64(v->type->dtype, r->data[v->id], at);

	return v->type->dtype == DT_U64 && x < 0 ? INT64_MAX : x; /* more than any size */
}

static bool bind_from_data(GraphRun *r, const Value *v)
{
	for (int i = 0; i < r->nsym; i++) {
		Sym *s = sym_at(r->g->ctx, i);
		const SymSource from = graph_source(r->g, s);

		if (from.value == v && !bind(r, v->def ? node_diag(v->def) : graph_loc(r), s,
					     read_element(r, v, from.at)))
			return false;
	}
	return true;
}

static bool fact_fails(GraphRun *r, const Fact *f, DiagLoc loc)
{
	StrBuf b = {0};
	FactSize size;
	int64_t v;

	strbuf_puts(&b, f->what ? f->what : "sizes do not agree");
	for (int k = 0; fact_size(r->tmp, f, k, &size) && !unbound(r, size.dim).n &&
			dim_eval(size.dim, r->sym, &v);
	     k++)
		strbuf_printf(&b, "%s%lld", size.name, (long long)v);
	diag_error(r->diag, loc, "%s", strbuf_str(&b));
	strbuf_free(&b);
	return false;
}

static bool check_facts(GraphRun *r)
{
	for (int i = 0; i < r->g->facts.n; i++) {
		const Fact *f = &r->g->facts.at[i];
		DiagLoc loc = {.file = r->g->file, .node = f->loc.node, .op = f->loc.op};
		int64_t a, b;

		if (r->fact_done[i] || unbound(r, f->a).n || unbound(r, f->b).n)
			continue;
		r->fact_done[i] = true;
		if (!dim_eval(f->a, r->sym, &a) || !dim_eval(f->b, r->sym, &b))
			return diag_error(r->diag, loc, "a size overflows");
		if (f->le ? a > b : a != b)
			return fact_fails(r, f, loc);
	}
	return true;
}

/* ---- Nodes ---- */

static bool value_dims(GraphRun *r, const Value *v, DiagLoc loc, int64_t *dims, int64_t *bytes)
{
	int64_t n = 1;

	for (int i = 0; i < v->type->rank; i++) {
		if (unbound(r, v->type->dims[i]).n || !dim_eval(v->type->dims[i], r->sym, &dims[i]))
			return diag_error(r->diag, loc,
					  "the size of dim %d of a result is not known", i);
		if (dims[i] < 0)
			return diag_error(r->diag, loc, "dim %d of a result is %lld", i,
					  (long long)dims[i]);
		if (__builtin_mul_overflow(n, dims[i], &n))
			return diag_error(r->diag, loc, "a result is too large");
	}
	*bytes = dtype_size(v->type->dtype, n);
	if (*bytes < 0 || *bytes > (int64_t)1 << 34)
		return diag_error(r->diag, loc, "a result is too large");
	return true;
}

/* Allocates V's elements; a layout pads dims up to multiples of its blocks. */
static bool make_data(GraphRun *r, const Value *v, DiagLoc loc)
{
	int64_t dims[MAX_RANK], bytes;

	if (!value_dims(r, v, loc, dims, &bytes))
		return false;
	if (v->type->layout &&
	    (!dim_eval(type_bytes(r->g->ctx, v->type), r->sym, &bytes) || bytes > (int64_t)1 << 34))
		return diag_error(r->diag, loc, "a result is too large");
	if (r->owned[v->id])
		free(r->data[v->id]);
	r->data[v->id] = calloc((size_t)bytes + 8, 1);
	r->owned[v->id] = true;
	return r->data[v->id] ||
	       diag_error(r->diag, loc, "out of memory for a result of %lld bytes",
			  (long long)bytes);
}

static void drop_use(GraphRun *r, const Value *v)
{
	if (r->loop)
		return;
	if (--r->uses[v->id] == 0 && r->owned[v->id]) {
		free(r->data[v->id]);
		r->data[v->id] = NULL;
		r->owned[v->id] = false;
	}
}

static double *bound_of(const GraphRun *r, const Buf *b, Arena *a)
{
	int64_t n = 1, v = 0;

	for (int d = 0; d < b->rank; d++)
		n *= dim_eval(b->dims[d], r->sym, &v) ? v : 0;
	return NEW_ARRAY(a, n + 1, double);
}

/* Reports an index that is out of range, or a string that a routine refuses. */
static bool kernel_fails(GraphRun *r, const Node *n, const EvalFault *fault)
{
	const dl_strings *t = r->g->ctx->strings;
	const char *what;
	dl_str s;

	if (!strings_status(t))
		return diag_error(r->diag, node_diag(n),
				  "index out of range: %lld, in a dim of %lld",
				  (long long)fault->index, (long long)fault->size);
	s = strings_refused(t, &what);
	return diag_error(r->diag, node_diag(n), "\"%.*s\" %s", s.n < 100 ? (int)s.n : 100, s.p,
			  what);
}

/* In this run B and V, which it stands for, have the same dims. */
static bool fits(const GraphRun *r, const Buf *b, const Value *v)
{
	int64_t x, y;

	for (int i = 0; i < b->rank; i++)
		if (!dim_eval(b->dims[i], r->sym, &x) || !dim_eval(v->type->dims[i], r->sym, &y) ||
		    x != y)
			return false;
	return true;
}

static bool run_kernel(GraphRun *r, Node *n, Kernel *k, Arena *tmp)
{
	EvalBuf *bufs = NEW_ARRAY(tmp, k->bufs.n + 1, EvalBuf);
	EvalFault fault = {0};

	for (int i = 0; i < k->bufs.n; i++) {
		const Buf *b = k->bufs.at[i];

		if (b->kind != BUF_TEMP &&
		    !fits(r, b, b->kind == BUF_IN ? node_in(n, b->param) : node_out(n, b->param)))
			return diag_error(r->diag, node_diag(n),
					  "buffer %s of the kernel has other dims than its tensor",
					  b->name);
		if (b->kind == BUF_IN)
			bufs[i].data = r->data[node_in(n, b->param)->id];
		else if (b->kind == BUF_OUT)
			bufs[i].data = r->data[node_out(n, b->param)->id];
		if (b->kind == BUF_OUT && r->o->watch)
			bufs[i].bound = bound_of(r, b, tmp);
	}
	strings_clear(k->ctx->strings);
	switch (eval_kernel(k, &(EvalOpts){r->sym, r->o->watch != NULL, r->o->mad_fused}, bufs,
			    &fault)) {
	case EVAL_OK: return !r->o->watch || r->o->watch(r->o->arg, n, k, bufs, r->sym);
	case EVAL_INDEX: return kernel_fails(r, n, &fault);
	case EVAL_BAD: break;
	}
	return diag_error(r->diag, node_diag(n), "the kernel cannot be evaluated%s%s",
			  fault.stray ? ": it accesses an element outside of " : "",
			  fault.stray ? fault.stray->name : "");
}

/* Copies the operand's elements unchanged. */
static bool copy_view(GraphRun *r, const Node *n, DiagLoc loc)
{
	const Value *to = n->out[0], *from = n->in[0].value;
	int64_t dims[MAX_RANK], bytes, src;

	if (!value_dims(r, to, loc, dims, &bytes) || !value_dims(r, from, loc, dims, &src))
		return false;
	if (src != bytes)
		return diag_error(r->diag, loc, "the result has another number of elements");
	if (bytes)
		memcpy(r->data[to->id], r->data[from->id], (size_t)bytes);
	return true;
}

/* Makes room for symbols that lowering made, and binds them from tensors that are still in
 * memory. */
static bool grow_syms(GraphRun *r)
{
	int n = sym_count(r->g->ctx);
	int64_t *sym;
	bool *bound;

	if (n == r->nsym && r->sym)
		return true;
	sym = NEW_ARRAY(r->tmp, n + 1, int64_t);
	bound = NEW_ARRAY(r->tmp, n + 1, bool);
	if (r->nsym) {
		memcpy(sym, r->sym, (size_t)r->nsym * sizeof *sym);
		memcpy(bound, r->bound, (size_t)r->nsym * sizeof *bound);
	}
	r->sym = sym;
	r->bound = bound;
	for (int i = r->nsym; i < n; i++) {
		Sym *s = sym_at(r->g->ctx, i);
		const SymSource from = graph_source(r->g, s);

		r->nsym = i + 1;
		if (!bind_named(r, graph_loc(r)))
			return false;
		if (r->data && from.value && r->data[from.value->id] &&
		    !bind(r, graph_loc(r), s, read_element(r, from.value, from.at)))
			return false;
	}
	r->nsym = n;
	return true;
}

static bool run_node(GraphRun *r, Node *n)
{
	Arena *tmp = arena_new();
	DiagLoc loc = node_diag(n);
	const Attr *a;
	Kernel *k;
	bool ok = true;

	for (int i = 0; i < n->nout && ok; i++)
		ok = !n->out[i] || make_data(r, n->out[i], loc);
	if (ok && (op_row[n->op].flags & OPF_VIEW || n->op == OP_Copy)) {
		ok = copy_view(r, n, loc);
	} else if (ok) {
		a = n->op == OP_Kernel ? node_attr(n, "kernel") : NULL;
		k = a ? a->kernel : lower_node(r->in, n, tmp);
		ok = k && grow_syms(r) && run_kernel(r, n, k, tmp);
	}
	arena_free(tmp);
	return ok;
}

/* ---- Control flow ---- */

static bool control_value(GraphRun *r, const Node *n, const char *name, int64_t *v)
{
	return dim_eval(control_dim(n, name), r->sym, v) ||
	       diag_error(r->diag, node_diag(n), "a size overflows");
}

/* TO gets the elements of FROM, which has its size by now. */
static bool copy_value(GraphRun *r, const Value *to, const Value *from, DiagLoc loc)
{
	int64_t dims[MAX_RANK], bytes;
	void *data;

	if (!value_dims(r, from, loc, dims, &bytes))
		return false;
	data = calloc((size_t)bytes + 8, 1);
	if (!data)
		return diag_error(r->diag, loc, "out of memory for a result of %lld bytes",
				  (long long)bytes);
	if (bytes)
		memcpy(data, r->data[from->id], (size_t)bytes);
	if (r->owned[to->id])
		free(r->data[to->id]);
	r->data[to->id] = data;
	r->owned[to->id] = true;
	return true;
}

static bool bind_results(GraphRun *r, const Node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && !bind_from_data(r, n->out[i]))
			return false;
	return true;
}

/* Begins an iteration: its number is known, and what is read from the values that the loop carries.
 */
static bool begin_iteration(GraphRun *r)
{
	const LoopRun *l = r->loop;

	for (int i = 0; i < r->nsym; i++)
		r->bound[i] = i < l->nsym && l->bound[i];
	memcpy(r->fact_done, l->fact_done, (size_t)r->g->facts.n);
	return bind_results(r, l->open);
}

/* Ends the innermost loop after its last iteration; *N becomes its EndFor. */
static bool leave_loop(GraphRun *r, Node **n)
{
	LoopRun *l = r->loop;
	const int carried = loop_carried(l->close);

	r->loop = l->outer;
	*n = l->close;
	for (int i = 0; i < l->close->nout; i++) {
		const int id = l->close->out[i]->id;

		if (r->owned[id])
			free(r->data[id]);
		if (i < carried) {
			r->data[id] = r->data[l->open->out[i]->id];
			r->owned[id] = true;
			r->owned[l->open->out[i]->id] = false;
		} else {
			r->data[id] = l->stack[i] ? l->stack[i] : calloc(8, 1);
			r->owned[id] = true;
		}
		if (!r->uses[id])
			r->uses[id] = 1;
	}
	return true;
}

static bool enter_loop(GraphRun *r, Node **n)
{
	Node *open = *n;
	LoopRun *l = NEW(r->tmp, LoopRun);

	*l = (LoopRun){
		.outer = r->loop, .open = open, .close = block_close(open), .trip = INT64_MAX};
	l->elements = loop_elements(r->g->ctx, open, l->close);
	l->stack = NEW_ARRAY(r->tmp, l->close->nout + 1, void *);
	l->room = NEW_ARRAY(r->tmp, l->close->nout + 1, int64_t);
	l->bound = arena_copy(r->tmp, r->bound, (size_t)r->nsym + 1);
	l->fact_done = arena_copy(r->tmp, r->fact_done, (size_t)r->g->facts.n + 1);
	l->nsym = r->nsym;
	for (int i = 0; i < open->nout; i++) {
		/* the first value has the size that it was made with */
		if (!copy_value(r, open->out[i], node_in(open, i), node_diag(open)))
			return false;
	}
	r->loop = l;
	if (control_dim(open, "trip") && !control_value(r, open, "trip", &l->trip))
		return false;
	if (l->trip <= 0)
		return leave_loop(r, n);
	return begin_iteration(r);
}

/* Appends what an iteration has given to the stack of result K, or puts it before. */
static bool push(GraphRun *r, LoopRun *l, int k)
{
	const Value *v = node_in(l->close, k);
	const DiagLoc loc = node_diag(l->close);
	int64_t dims[MAX_RANK], bytes;
	char *to;

	if (!value_dims(r, v, loc, dims, &bytes))
		return false;
	if (l->room[k] < (l->iteration + 1) * bytes || !l->stack[k]) {
		l->room[k] = 2 * (l->iteration + 1) * bytes;
		l->stack[k] = realloc(l->stack[k], (size_t)l->room[k] + 8);
	}
	to = l->stack[k];
	if (!to)
		return diag_error(r->diag, loc, "out of memory");
	if (stack_is_reversed(l->close, k))
		memmove(to + bytes, to, (size_t)(l->iteration * bytes));
	else
		to += l->iteration * bytes;
	if (bytes)
		memcpy(to, r->data[v->id], (size_t)bytes);
	return true;
}

/* Whether iterations like the one that ends now do nothing. */
static bool is_idle(const GraphRun *r, const LoopRun *l)
{
	int64_t n;

	return l->elements && dim_eval(l->elements, r->sym, &n) && !n;
}

static bool next_iteration(GraphRun *r, Node **n)
{
	LoopRun *l = r->loop;
	const int carried = loop_carried(l->close);
	const Value **next = NEW_ARRAY(r->tmp, carried + 1, const Value *);
	void **data = NEW_ARRAY(r->tmp, carried + 1, void *);
	bool ok = true;

	for (int i = carried; i < l->close->nout && ok; i++)
		ok = push(r, l, i);
	for (int i = 0; i < carried && ok; i++) {
		int64_t dims[MAX_RANK], bytes;

		next[i] = node_in(l->close, i);
		ok = value_dims(r, next[i], node_diag(l->close), dims, &bytes);
		data[i] = ok ? calloc((size_t)bytes + 8, 1) : NULL;
		if (data[i] && bytes)
			memcpy(data[i], r->data[next[i]->id], (size_t)bytes);
	}
	for (int i = 0; i < carried && ok; i++) {
		const int id = l->open->out[i]->id;

		if (r->owned[id])
			free(r->data[id]);
		r->data[id] = data[i];
		r->owned[id] = true;
	}
	if (!ok)
		return false;
	l->iteration++;
	if (l->iteration >= l->trip || is_idle(r, l))
		return leave_loop(r, n);
	*n = l->open;
	return begin_iteration(r);
}

/* Binds the symbols that are read from values between FROM and TO, which did not run: sizes
 * multiply them by 0. */
static void bind_skipped(GraphRun *r, const Node *from, const Node *to)
{
	for (const Node *n = from; n != to; n = n->next)
		for (int i = 0; i < n->nout; i++)
			for (Sym *s = n->out[i] ? n->out[i]->syms : NULL; s;
			     s = graph_source(r->g, s).next) {
				r->sym[s->id] = s->lo > 0 ? s->lo : s->hi < 0 ? s->hi : 0;
				r->bound[s->id] = true;
			}
}

/* Runs the bracket *N, and sets *N to the bracket from which control goes on. */
static bool run_bracket(GraphRun *r, Node **n)
{
	Node *at = *n;
	int64_t v;

	switch (at->op) {
	case OP_For: return check_facts(r) && enter_loop(r, n);
	case OP_EndFor: return check_facts(r) && next_iteration(r, n);
	case OP_Iteration:
		for (Sym *s = at->out[0]->syms; s; s = graph_source(r->g, s).next)
			if (!bind(r, node_diag(at), s, r->loop->iteration))
				return false;
		return true;
	case OP_While: return control_value(r, at, "value", &v) && (v || leave_loop(r, n));
	case OP_When:
		if (!check_facts(r) || !control_value(r, at, "value", &v))
			return false;
		if (!v) {
			*n = block_close(at);
			bind_skipped(r, at, *n);
		}
		return bind_named(r, node_diag(at));
	case OP_Else: /* reached from the first side: the second one is skipped */
		*n = block_close(at);
		bind_skipped(r, at, *n);
		if (!bind_named(r, node_diag(at)))
			return false;
		for (int i = 0; i < (*n)->nout; i++)
			if (!copy_value(r, (*n)->out[i], node_in(*n, i), node_diag(at)))
				return false;
		return true;
	case OP_EndWhen:
		for (int i = 0; i < at->nout; i++)
			if (!copy_value(r, at->out[i], node_in(at, at->nout + i), node_diag(at)))
				return false;
		return true;
	default: return true;
	}
}

static bool run_nodes(GraphRun *r)
{
	for (Node *n = r->g->first; n; n = n->next) {
		const Tensor *t = n->op == OP_Const ? value_const(n->out[0]) : NULL;

		if (op_is_control(n->op)) {
			if (!run_bracket(r, &n))
				return false;
			if (n->op != OP_For && n->op != OP_Iteration && !bind_results(r, n))
				return false;
			continue;
		}
		if (t)
			r->data[n->out[0]->id] = (void *)(uintptr_t)t->data;
		else if (!check_facts(r) || !run_node(r, n))
			return false;
		for (int i = 0; i < n->nout; i++)
			if (n->out[i] && !bind_from_data(r, n->out[i]))
				return false;
		for (int i = 0; i < n->nin; i++)
			if (n->in[i].value)
				drop_use(r, n->in[i].value);
		for (int i = 0; i < n->nout; i++)
			if (n->out[i] && !n->out[i]->uses) {
				r->uses[n->out[i]->id] = 1;
				drop_use(r, n->out[i]);
			}
	}
	return check_facts(r);
}

/* ---- The run ---- */

static bool graph_typed(const Graph *g)
{
	for (const Node *n = g->first; n; n = n->next) {
		if (n->op != OP_Const && n->op != OP_Kernel && op_table[n->op]->expand &&
		    !op_table[n->op]->lower)
			return false;
		for (int i = 0; i < n->nout; i++)
			if (n->out[i] && !n->out[i]->type)
				return false;
	}
	return true;
}

static void run_init(GraphRun *r, const Tensor *const *inputs)
{
	Graph *g = r->g;

	grow_syms(r);
	r->data = NEW_ARRAY(r->tmp, g->nvalues + 1, void *);
	r->owned = NEW_ARRAY(r->tmp, g->nvalues + 1, bool);
	r->uses = NEW_ARRAY(r->tmp, g->nvalues + 1, int);
	r->fact_done = NEW_ARRAY(r->tmp, g->facts.n + 1, bool);
	for (int i = 0; i < g->inputs.n; i++) {
		r->data[g->inputs.at[i]->id] = (void *)(uintptr_t)inputs[i]->data;
		for (Use *u = g->inputs.at[i]->uses; u; u = u->next)
			r->uses[g->inputs.at[i]->id]++;
	}
	for (Node *n = g->first; n; n = n->next)
		for (int i = 0; i < n->nout; i++)
			for (Use *u = n->out[i] ? n->out[i]->uses : NULL; u; u = u->next)
				r->uses[n->out[i]->id]++;
}

static bool take_results(GraphRun *r, Tensor **outputs, Arena *arena)
{
	for (int i = 0; i < r->g->results.n; i++) {
		const Value *v = r->g->results.at[i]->value;
		int64_t dims[MAX_RANK], bytes;

		if (!v->type || v->type->kind != TYPE_TENSOR ||
		    !value_dims(r, v, graph_loc(r), dims, &bytes))
			return false;
		outputs[i] = tensor_new(arena, v->type->dtype, v->type->rank, dims);
		if (bytes)
			memcpy((void *)(uintptr_t)outputs[i]->data, r->data[v->id], (size_t)bytes);
	}
	return true;
}

bool eval_graph(Graph *g, const Tensor *const *inputs, Tensor **outputs, Arena *arena, Diag *diag)
{
	return eval_graph_with(g, inputs, outputs, arena, diag,
			       &(EvalGraphOpts){.mad_fused = true});
}

bool eval_graph_with(Graph *g, const Tensor *const *inputs, Tensor **outputs, Arena *arena,
		     Diag *diag, const EvalGraphOpts *o)
{
	GraphRun r = {.g = g, .diag = diag, .tmp = arena_new(), .o = o};
	bool ok;

	r.in = infer_new(g);
	ok = graph_typed(g) || infer_graph_run(r.in);
	if (ok) {
		run_init(&r, inputs);
		ok = bind_inputs(&r, inputs);
		for (int i = 0; i < g->inputs.n && ok; i++)
			ok = bind_from_data(&r, g->inputs.at[i]);
		ok = ok && run_nodes(&r) && take_results(&r, outputs, arena);
		for (int i = 0; i < g->nvalues; i++)
			if (r.owned[i])
				free(r.data[i]);
	}
	arena_free(r.tmp);
	return ok;
}
