/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: nodes in order, values and their uses, attributes, constants. */
#include "ir/graph/graph.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const OpRow op_row[OP_COUNT] = {
	[OP_NONE] = {"?", 0, 0, 0, 0, OPF_INTERNAL},
#define OP(name, nin_min, nin_max, nout_min, nout_max, flags) \
	[OP_##name] = {#name, nin_min, nin_max, nout_min, nout_max, flags},
#include "ir/graph/ops.def"
#undef OP
};

OpKind op_by_name(const char *name)
{
	for (int k = OP_NONE + 1; k < OP_COUNT; k++)
		if (!strcmp(op_row[k].name, name))
			return (OpKind)k;
	return OP_NONE;
}

/* ---- Domains ---- */

/* The domains beside the ONNX standard. The name of a row for one of their operators is PREFIX and
 * the operator's name. */
static const struct {
	const char *name, *prefix;
} domains[] = {
	{"com.microsoft", "microsoft_"},
	{"ai.onnx.preview", "preview_"},
	{"ai.onnx.ml", "ml_"},
};

enum { NDOMAINS = sizeof domains / sizeof *domains };

const char *op_domain(OpKind op, const char **name)
{
	*name = op_row[op].name;
	for (int d = 0; d < NDOMAINS; d++) {
		size_t n = strlen(domains[d].prefix);

		if (!strncmp(op_row[op].name, domains[d].prefix, n)) {
			*name += n;
			return domains[d].name;
		}
	}
	return "";
}

OpKind op_in_domain(const char *domain, const char *name)
{
	const char *prefix = "", *own;

	for (int d = 0; d < NDOMAINS; d++)
		if (!strcmp(domains[d].name, domain))
			prefix = domains[d].prefix;
	for (int k = OP_NONE + 1; k < OP_COUNT; k++)
		if (str_starts(op_row[k].name, prefix) &&
		    !strcmp(op_row[k].name + strlen(prefix), name) &&
		    !strcmp(op_domain((OpKind)k, &own), domain))
			return (OpKind)k;
	return OP_NONE;
}

bool op_domain_known(const char *domain)
{
	for (int d = 0; d < NDOMAINS; d++)
		if (!strcmp(domains[d].name, domain))
			return true;
	return !*domain;
}

/* ---- Values and uses ---- */

static void use_link(Use *u, Value *v)
{
	u->value = v;
	u->prev = NULL;
	u->next = v ? v->uses : NULL;
	if (u->next)
		u->next->prev = u;
	if (v)
		v->uses = u;
}

static void use_unlink(Use *u)
{
	if (u->prev)
		u->prev->next = u->next;
	else if (u->value)
		u->value->uses = u->next;
	if (u->next)
		u->next->prev = u->prev;
	u->value = NULL;
	u->next = u->prev = NULL;
}

static Value *value_new(Graph *g, Node *def, int index)
{
	Value *v = NEW(g->arena, Value);

	*v = (Value){.def = def, .index = index, .id = g->nvalues++};
	return v;
}

void value_replace(Value *a, Value *b)
{
	Use *last = a->uses;

	assert(b && a != b);
	if (!last)
		return;
	for (;; last = last->next) {
		last->value = b;
		if (!last->next)
			break;
	}
	last->next = b->uses;
	if (b->uses)
		b->uses->prev = last;
	b->uses = a->uses;
	a->uses = NULL;
}

void graph_set_source(Graph *g, Sym *s, Value *v, int64_t at)
{
	SymSources *sources = g->sources;
	const SymSource old = graph_source(g, s);

	if (!old.value && !v)
		return;
	while (sources->n <= s->id)
		vec_push(g->arena, sources, (SymSource){0});
	if (old.value) {
		Sym **link = &old.value->syms;

		while (*link != s)
			link = &sources->at[(*link)->id].next;
		*link = old.next;
	}
	sources->at[s->id] = v ? (SymSource){v, at, v->syms} : (SymSource){0};
	if (v) {
		v->syms = s;
		s->from_data = true;
	}
}

void graph_move_sources(Graph *g, Value *from, Value *to)
{
	while (from != to && from->syms)
		graph_set_source(g, from->syms, to, graph_source(g, from->syms).at);
}

bool value_used_once(const Value *v)
{
	return v->uses && !v->uses->next;
}

/* ---- Graphs ---- */

Graph *graph_new(Ctx *c, Arena *a, const char *name)
{
	Graph *g = NEW(a, Graph);

	g->ctx = c;
	g->arena = a;
	g->name = ctx_name(c, name);
	g->sources = NEW(a, SymSources);
	return g;
}

Graph *graph_new_region(const Graph *around, const char *name)
{
	Graph *g = graph_new(around->ctx, around->arena, name);

	g->sources = around->sources;
	g->file = around->file;
	return g;
}

Value *graph_input(Graph *g, const char *name, const Type *t)
{
	Value *v = value_new(g, NULL, g->inputs.n);

	v->name = name ? ctx_name(g->ctx, name) : NULL;
	v->type = t;
	vec_push(g->arena, &g->inputs, v);
	return v;
}

void graph_result(Graph *g, Value *v, const char *name)
{
	Use *u = NEW(g->arena, Use);

	u->slot = g->results.n;
	use_link(u, v);
	vec_push(g->arena, &g->results, u);
	vec_push(g->arena, &g->result_names, name ? ctx_name(g->ctx, name) : NULL);
}

void graph_set_inputs(Graph *g, Value *const *v, int n)
{
	g->inputs.n = 0;
	for (int i = 0; i < n; i++) {
		v[i]->index = i;
		vec_push(g->arena, &g->inputs, v[i]);
	}
}

void graph_set_results(Graph *g, Value *const *v, const char *const *names, int n)
{
	for (int i = 0; i < g->results.n; i++)
		use_unlink(g->results.at[i]);
	g->results.n = g->result_names.n = 0;
	for (int i = 0; i < n; i++)
		graph_result(g, v[i], names[i]);
}

/* ---- Nodes ---- */

static void node_link(Node *n, Node *before)
{
	Graph *g = n->graph;

	n->next = before;
	n->prev = before ? before->prev : g->last;
	*(n->prev ? &n->prev->next : &g->first) = n;
	*(before ? &before->prev : &g->last) = n;
}

static void node_unlink(Node *n)
{
	Graph *g = n->graph;

	*(n->prev ? &n->prev->next : &g->first) = n->next;
	*(n->next ? &n->next->prev : &g->last) = n->prev;
	n->next = n->prev = NULL;
}

Node *node_new(Graph *g, OpKind op, Value *const *in, int nin, int nout, Node *before)
{
	Node *n = NEW(g->arena, Node);

	*n = (Node){.op = op, .id = g->nnodes++, .nin = nin, .nout = nout, .graph = g};
	n->in = NEW_ARRAY(g->arena, nin, Use);
	for (int k = 0; k < nin; k++) {
		n->in[k].user = n;
		n->in[k].slot = k;
		use_link(&n->in[k], in[k]);
	}
	n->out = NEW_ARRAY(g->arena, nout, Value *);
	for (int k = 0; k < nout; k++)
		n->out[k] = value_new(g, n, k);
	node_link(n, before);
	return n;
}

const char *count_fault(Arena *a, const char *what, int count, int least, int most)
{
	if (count < least)
		return arena_printf(a, "has %d %s, expected at least %d", count, what, least);
	return most >= 0 && count > most
		       ? arena_printf(a, "has %d %s, expected at most %d", count, what, most)
		       : NULL;
}

void node_locs_from(Node *n, const Node *from)
{
	n->locs = locs_union(n->graph->arena, n->locs, from->locs);
	if (node_int(from, ATTR_BYTE_ROWS, 0))
		node_set_int(n, ATTR_BYTE_ROWS, 1);
}

static void grow_inputs(Node *n)
{
	Use *old = n->in;

	n->in = NEW_ARRAY(n->graph->arena, n->nin + 1, Use);
	for (int k = 0; k < n->nin; k++) {
		Value *v = old[k].value;

		use_unlink(&old[k]);
		n->in[k].user = n;
		n->in[k].slot = k;
		use_link(&n->in[k], v);
	}
	n->in[n->nin].user = n;
	n->in[n->nin].slot = n->nin;
	n->nin++;
}

void node_dims(const Node *n, Arena *a, DimList *out)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			type_dims(n->out[i]->type, a, out);
	VEC_EACH_AT (x, &n->attrs) {
		if (x->kind == ATTR_TYPE)
			type_dims(x->type, a, out);
		else if (x->kind == ATTR_KERNEL)
			kernel_dims(x->kernel, a, out);
	}
}

void graph_dims(const Graph *g, Arena *a, DimList *out)
{
	VEC_EACH (v, &g->inputs)
		type_dims(v->type, a, out);
	VEC_EACH_AT (f, &g->facts) {
		vec_push(a, out, f->a);
		vec_push(a, out, f->b);
		for (int k = 0; k < 2; k++)
			vec_push(a, out, f->show[k].dim);
	}
}

static void use_sym(const Sym *s, bool *used)
{
	if (!used[s->id])
		DIM_EACH_SYM (of, s->def)
			use_sym(of, used);
	used[s->id] = true;
}

void graph_syms(const Graph *g, bool *used)
{
	ARENA_LOCAL(tmp);
	DimList dims = {0};

	graph_dims(g, tmp, &dims);
	VEC_EACH_AT (a, &g->aliases) {
		use_sym(a->copied, used);
		if (a->room_in) {
			use_sym(a->room_in, used);
			use_sym(a->room_out, used);
		}
	}
	for (const Node *n = g->first; n; n = n->next) {
		node_dims(n, tmp, &dims);
		for (int k = 0; k < n->regions.n; k++)
			graph_syms(n->regions.at[k], used);
	}
	VEC_EACH (d, &dims)
		DIM_EACH_SYM (s, d)
			use_sym(s, used);
}

bool graph_takes_size(const Graph *g, const Sym *s)
{
	if (s->def || sym_from_data(s) || s->lo == s->hi)
		return false;
	VEC_EACH (v, &g->inputs)
		for (int i = 0; i < v->type->rank; i++)
			DIM_EACH_SYM (x, v->type->dims[i])
				if (x == s)
					return true;
	return false;
}

void node_set_input(Node *n, int k, Value *v)
{
	assert(k >= 0 && k <= n->nin);
	if (k == n->nin)
		grow_inputs(n);
	use_unlink(&n->in[k]);
	use_link(&n->in[k], v);
}

void node_truncate_inputs(Node *n, int nin)
{
	for (int k = nin; k < n->nin; k++)
		use_unlink(&n->in[k]);
	n->nin = nin;
}

void node_remove(Node *n)
{
	for (int k = 0; k < n->nout; k++)
		assert(!n->out[k] || !n->out[k]->uses);
	for (int k = 0; k < n->nin; k++)
		use_unlink(&n->in[k]);
	node_unlink(n);
}

void node_move(Node *n, Node *before)
{
	if (before == n || (before && before == n->next))
		return;
	node_unlink(n);
	node_link(n, before);
}

/* ---- Attributes ---- */

static Attr *find_attr(const Node *n, const char *name)
{
	for (int i = 0; i < n->attrs.n; i++)
		if (!strcmp(n->attrs.at[i].name, name))
			return &n->attrs.at[i];
	return NULL;
}

static const Attr *attr_of(const Node *n, const char *name, AttrKind kind)
{
	const Attr *a = find_attr(n, name);

	return a && a->kind == kind ? a : NULL;
}

const Attr *node_attr(const Node *n, const char *name)
{
	return find_attr(n, name);
}

int64_t node_int(const Node *n, const char *name, int64_t otherwise)
{
	const Attr *a = attr_of(n, name, ATTR_INT);

	return a ? a->i : otherwise;
}

float node_float(const Node *n, const char *name, float otherwise)
{
	const Attr *a = attr_of(n, name, ATTR_FLOAT);

	return a ? a->f : otherwise;
}

const char *node_str(const Node *n, const char *name, const char *otherwise)
{
	const Attr *a = attr_of(n, name, ATTR_STR);

	return a ? a->s : otherwise;
}

const int64_t *node_ints(const Node *n, const char *name, int *count)
{
	const Attr *a = attr_of(n, name, ATTR_INTS);

	*count = a ? a->n : -1;
	return a ? a->is : NULL;
}

const float *node_floats(const Node *n, const char *name, int *count)
{
	const Attr *a = attr_of(n, name, ATTR_FLOATS);

	*count = a ? a->n : -1;
	return a ? a->fs : NULL;
}

void node_set_attr(Node *n, Attr a)
{
	Attr *at = find_attr(n, a.name);

	a.name = ctx_name(n->graph->ctx, a.name);
	if (at)
		*at = a;
	else
		vec_push(n->graph->arena, &n->attrs, a);
}

void node_remove_attr(Node *n, const char *name)
{
	Attr *at = find_attr(n, name);

	if (at) {
		memmove(at, at + 1, (size_t)(n->attrs.at + n->attrs.n - (at + 1)) * sizeof *at);
		n->attrs.n--;
	}
}

void node_set_int(Node *n, const char *name, int64_t v)
{
	node_set_attr(n, (Attr){.name = name, .kind = ATTR_INT, .i = v});
}

void node_set_float(Node *n, const char *name, float v)
{
	node_set_attr(n, (Attr){.name = name, .kind = ATTR_FLOAT, .f = v});
}

void node_set_str(Node *n, const char *name, const char *v)
{
	node_set_attr(
		n, (Attr){.name = name, .kind = ATTR_STR, .s = arena_strdup(n->graph->arena, v)});
}

void node_set_ints(Node *n, const char *name, const int64_t *v, int count)
{
	int64_t *own = NEW_ARRAY(n->graph->arena, count, int64_t);

	for (int i = 0; i < count; i++)
		own[i] = v[i];
	node_set_attr(n, (Attr){.name = name, .kind = ATTR_INTS, .n = count, .is = own});
}

/* ---- Constants ---- */

const Tensor *value_const(const Value *v)
{
	const Attr *a = v && v->def && v->def->op == OP_Const
				? attr_of(v->def, "value", ATTR_TENSOR)
				: NULL;

	return a ? a->t : NULL;
}

bool tensor_has_type(const Tensor *t, const Type *type)
{
	if (type->kind != TYPE_TENSOR || type->dtype != t->dtype || type->rank != t->rank)
		return false;
	for (int i = 0; i < t->rank; i++)
		if (!dim_equals(type->dims[i], t->dims[i]))
			return false;
	return true;
}

bool tensor_is_zero(const Tensor *t)
{
	const char *at = t->data;

	for (int64_t i = 0; i < t->bytes; i++)
		if (at[i])
			return false;
	return true;
}

int64_t tensor_numel(const Tensor *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->rank; i++)
		n *= t->dims[i];
	return n;
}

Tensor *tensor_new(Arena *a, DType t, int rank, const int64_t *dims)
{
	Tensor *x = NEW(a, Tensor);
	int64_t n = 1;

	x->dtype = t;
	x->rank = rank;
	x->dims = NEW_ARRAY(a, rank, int64_t);
	for (int i = 0; i < rank; i++) {
		bool over = dims[i] < 0 || __builtin_mul_overflow(n, dims[i], &n);

		assert(!over);
		(void)over;
		x->dims[i] = dims[i];
	}
	x->bytes = dtype_size(t, n);
	assert(x->bytes >= 0);
	x->data = arena_alloc(a, (size_t)x->bytes);
	return x;
}

Tensor *tensor_new_large(Arena *a, DType t, int rank, const int64_t *dims)
{
	enum { LEAST_IN_FILE = 1 << 20 };
	Tensor *to = NEW(a, Tensor);
	int64_t n = 1;
	FILE *f;
	void *data;

	for (int i = 0; i < rank; i++)
		n *= dims[i];
	n = dtype_size(t, n);
	f = n >= LEAST_IN_FILE ? tmpfile() : NULL;
	if (!f || ftruncate(fileno(f), n)) {
		if (f)
			fclose(f);
		return tensor_new(a, t, rank, dims);
	}
	data = mmap(NULL, (size_t)n, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
	fclose(f);
	if (data == MAP_FAILED)
		return tensor_new(a, t, rank, dims);
	*to = (Tensor){.dtype = t,
		       .rank = rank,
		       .dims = arena_copy(a, dims, (size_t)rank * sizeof *dims),
		       .data = data,
		       .bytes = n,
		       .computed = true};
	return to;
}

Tensor *tensor_concat(Arena *a, const Tensor *const *part, int n, int d)
{
	const Tensor *first = part[0];
	int64_t dims[MAX_RANK], outer = 1, inner = 1, row, at = 0;
	Tensor *to;

	for (int i = 0; i < first->rank; i++) {
		dims[i] = first->dims[i];
		outer *= i < d ? dims[i] : 1;
		inner *= i > d ? dims[i] : 1;
	}
	for (int i = 1; i < n; i++)
		dims[d] += part[i]->dims[d];
	to = tensor_new_large(a, first->dtype, first->rank, dims);
	row = dtype_size(first->dtype, dims[d] * inner);
	for (int i = 0; i < n; i++) {
		const char *from = part[i]->data;
		const int64_t bytes = dtype_size(first->dtype, part[i]->dims[d] * inner);

		for (int64_t o = 0; o < outer; o++)
			memcpy((char *)(uintptr_t)to->data + o * row + at, from + o * bytes,
			       (size_t)bytes);
		at += bytes;
	}
	to->part = arena_copy(a, part, (size_t)n * sizeof *part);
	to->nparts = n;
	to->axis = d;
	return to;
}

bool tensor_in_file(const Tensor *t)
{
	return t->file || t->computed;
}

Value *graph_const(Graph *g, const Tensor *t, Node *before)
{
	Node *n = node_new(g, OP_Const, NULL, 0, 1, before);
	Dim *dims[MAX_RANK];

	assert(t->rank <= MAX_RANK);
	for (int i = 0; i < t->rank; i++)
		dims[i] = dim_const(g->ctx, t->dims[i]);
	n->out[0]->type = type_tensor(g->ctx, t->dtype, t->rank, dims);
	node_set_attr(n, (Attr){.name = "value", .kind = ATTR_TENSOR, .t = (Tensor *)(uintptr_t)t});
	return n->out[0];
}

Value *graph_const_ints(Graph *g, const int64_t *v, int n, Node *before)
{
	int64_t count = n;
	Tensor *t = tensor_new(g->arena, DT_I64, 1, &count);

	for (int i = 0; i < n; i++)
		((int64_t *)(uintptr_t)t->data)[i] = v[i];
	return graph_const(g, t, before);
}

Value *graph_const_scalar(Graph *g, DType dt, double v, Node *before)
{
	Tensor *t = tensor_new(g->arena, dt, 0, NULL);
	void *at = (void *)(uintptr_t)t->data;

	if (dtype_is_float(dt))
		dtype_store_f64(dt, at, 0, v);
	else
		dtype_store_i64(dt, at, 0, (int64_t)v);
	return graph_const(g, t, before);
}

/* ---- Locations ---- */

bool fact_size(Arena *a, const Fact *f, int k, FactSize *out)
{
	const bool low = dim_is_const(f->a, NULL), limit = low || dim_is_const(f->b, NULL);
	FactSize show[2] = {f->show[0], f->show[1]};

	if (!show[0].dim && limit) {
		show[0] = (FactSize){"it is", low ? f->b : f->a};
		show[1] = (FactSize){!f->le ? "expected"
				     : low  ? "expected at least"
					    : "expected at most",
				     low ? f->a : f->b};
	}
	if (k > 1 || (show[0].dim && !show[k].dim))
		return false;
	if (show[0].dim)
		*out = (FactSize){arena_printf(a, "%s %s ", k ? "," : ":", show[k].name),
				  show[k].dim};
	else
		*out = k ? (FactSize){f->le ? " > " : " and ", f->b} : (FactSize){": ", f->a};
	return true;
}

Loc node_loc(const Node *n)
{
	return n->locs ? locs_first(n->locs) : (Loc){NULL, op_row[n->op].name};
}

DiagLoc diag_at(Ctx *c, DiagLoc where)
{
	DiagLoc before = {0};

	if (c->diag) {
		before = c->diag->where;
		c->diag->where = where;
	}
	return before;
}

DiagLoc node_diag(const Node *n)
{
	Loc l = node_loc(n);

	return (DiagLoc){.file = n->graph->file, .node = l.node, .op = l.op};
}
