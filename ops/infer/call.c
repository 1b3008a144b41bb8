/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators that the user defines (ir/graph/definition.h). Inference replaces a Call by the first
 * definition that fits its operands and attributes: it binds the names in the definition's
 * signature to the node's element types, sizes and attributes, reads the definition's text with
 * these, and puts the resulting nodes before the Call. Equalities of sizes in the signature become
 * facts, as for any operator.
 */
#include "ops/infer/call.h"

#include "ir/graph/definition.h"
#include "ops/infer/control.h"

#include <stdlib.h>

enum { MAX_CALLED = 64 << 20 }; /* bytes of definitions that are read for the nodes of a graph */

/* ---- Which definition fits ---- */

typedef struct CallMatch {
	Infer *in;
	Node *n;
	const Definition *d;
	Bindings *b;
	const char *why; /* why the definition does not fit; null: it fits */
} CallMatch;

static bool misfit(CallMatch *m, const char *fmt, ...) BASE_PRINTF(2, 3);

static bool misfit(CallMatch *m, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	m->why = arena_vprintf(m->in->arena, fmt, ap);
	va_end(ap);
	return false;
}

static bool match_dtype(CallMatch *m, int k, const SignatureType *s, const Type *t)
{
	for (int i = 0; s->var && i < m->b->types.n; i++) {
		const BoundType *x = &m->b->types.at[i];

		if (strcmp(x->name, s->var) != 0)
			continue;
		return x->dtype == t->dtype ||
		       misfit(m,
			      "operand %d is of type %s, and the definition takes %s, where %s is %s",
			      k + 1, dtype_info[t->dtype].name, s->text, s->var,
			      dtype_info[x->dtype].name);
	}
	if (s->var) {
		vec_push(m->in->arena, &m->b->types, ((BoundType){s->var, t->dtype}));
		return true;
	}
	return s->dtype == t->dtype ||
	       misfit(m, "operand %d is of type %s, and the definition takes %s", k + 1,
		      dtype_info[t->dtype].name, s->text);
}

static bool match_operand(CallMatch *m, int k)
{
	const DefinedOperand *x = &m->d->in.at[k];
	const Type *t = infer_type(m->n, k);
	const int fixed = x->type.ndims - (x->type.run >= 0);

	if (!t)
		return x->optional || misfit(m, "operand %d is missing", k + 1);
	if (t->kind != TYPE_TENSOR)
		return misfit(m, "operand %d is not a tensor", k + 1);
	if (!match_dtype(m, k, &x->type, t))
		return false;
	return (x->type.run >= 0 ? t->rank >= fixed : t->rank == fixed) ||
	       misfit(m, "operand %d has rank %d, and the definition takes %s", k + 1, t->rank,
		      x->type.text);
}

static bool same_value(const Attr *a, const Attr *b)
{
	switch (a->kind) {
	case ATTR_INT: return a->i == b->i;
	case ATTR_FLOAT: return a->f == b->f;
	case ATTR_STR: return !strcmp(a->s, b->s);
	case ATTR_INTS: return a->n == b->n && !memcmp(a->is, b->is, (size_t)a->n * sizeof *a->is);
	case ATTR_FLOATS:
		for (int i = 0; i < a->n && a->n == b->n; i++)
			if (a->fs[i] != b->fs[i])
				return false;
		return a->n == b->n;
	default: return false;
	}
}

static bool match_attrs(CallMatch *m)
{
	for (int i = 0; i < m->n->attrs.n; i++) {
		const char *name = m->n->attrs.at[i].name;
		bool found = !strcmp(name, CALL_NAME);

		for (int k = 0; k < m->d->attrs.n && !found; k++)
			found = !strcmp(m->d->attrs.at[k].name, name);
		if (!found)
			return misfit(m, "the definition has no attribute \"%s\"", name);
	}
	VEC_EACH_AT (x, &m->d->attrs) {
		const Attr *a = node_attr(m->n, x->name);

		if (a && a->kind != x->kind)
			return misfit(m,
				      "attribute \"%s\" is of kind %s, and the definition takes %s",
				      x->name, attr_kind_name(a->kind), attr_kind_name(x->kind));
		a = a ? a : x->otherwise;
		if (!a && !x->optional)
			return misfit(m, "attribute \"%s\" is missing", x->name);
		vec_push(m->in->arena, &m->b->attrs, bound_attr_of(m->in->arena, x->name, a));
		if (a && a->kind == ATTR_INT)
			vec_push(m->in->arena, &m->b->sizes,
				 ((BoundSize){x->name, dim_const(m->in->ctx, a->i)}));
	}
	return true;
}

static bool match_choice(CallMatch *m, const DefinedChoice *x)
{
	const Attr *value = NULL;
	DType t = DT_NONE;

	for (int i = 0; i < m->b->attrs.n && x->attr; i++)
		if (m->b->attrs.at[i].name == x->name)
			value = m->b->attrs.at[i].value;
	for (int i = 0; i < m->b->types.n && !x->attr; i++)
		if (m->b->types.at[i].name == x->name)
			t = m->b->types.at[i].dtype;
	for (int i = 0; i < x->n; i++)
		if (x->attr ? value && same_value(value, &x->values[i]) : t == x->types[i])
			return true;
	if (x->attr)
		return misfit(m, "attribute \"%s\" has a value that the definition does not take",
			      x->name);
	return misfit(m, "%s is %s, which the definition does not take", x->name,
		      dtype_info[t].name);
}

/* Whether M's definition matches the node, judged by the properties that are known whatever its
 * sizes are. */
static bool match(CallMatch *m)
{
	const Definition *d = m->d;

	m->why = NULL;
	m->b = NEW(m->in->arena, Bindings);
	m->b->arena = m->in->arena;
	m->b->file = d->file;
	if (m->n->nin > d->in.n || m->n->nout > d->out.n)
		return misfit(m, "has %d operands and %d results, and the definition has %d and %d",
			      m->n->nin, m->n->nout, d->in.n, d->out.n);
	for (int k = 0; k < d->in.n; k++)
		if (!match_operand(m, k))
			return false;
	if (!match_attrs(m))
		return false;
	for (int i = 0; i < d->choices.n; i++)
		if (!match_choice(m, &d->choices.at[i]))
			return false;
	return true;
}

/* ---- Sizes ---- */

static Dim *bound(const Bindings *b, const char *name)
{
	for (int i = 0; i < b->sizes.n; i++)
		if (!strcmp(b->sizes.at[i].name, name))
			return b->sizes.at[i].dim;
	return NULL;
}

/* The axis of T that dim I of its signature begins at. */
static int axis_of(const SignatureType *s, const Type *t, int i)
{
	return s->run >= 0 && i > s->run ? i + t->rank - s->ndims : i;
}

static void bind_dim(CallMatch *m, const SignatureType *s, const Type *t, int i)
{
	Ctx *c = m->in->ctx;
	const SignatureDim *x = &s->dim[i];
	Dim *const *at = t->dims + axis_of(s, t, i);
	Dim *all = dim_const(c, 1);
	const int n = t->rank - s->ndims + 1;

	if (!x->name || bound(m->b, x->name))
		return;
	for (int k = 0; x->run && k < n; k++)
		all = dim_mul(c, all, at[k]);
	if (x->run)
		vec_push(m->in->arena, &m->b->runs, ((BoundRun){x->name, at, n}));
	vec_push(m->in->arena, &m->b->sizes,
		 ((BoundSize){x->name, x->run ? dim_named(c, all, "d") : *at}));
}

/* The dims that dim I of a signature stands for; null if a name in it is not bound. *N is their
 * number. */
static Dim *const *signature_dims(Infer *in, const Bindings *b, const SignatureDim *x, int *n)
{
	const char *p = x->text;
	const BoundRun *run;
	Dim **one;

	in->ctx->bound = b;
	run = x->run ? bound_run(in->ctx, &p) : NULL;
	one = arena_array(in->arena, 1, sizeof *one);
	*one = x->run ? NULL : dim_parse(in->ctx, &p);
	in->ctx->bound = NULL;
	*n = run ? run->n : 1;
	return run ? run->dims : *one ? one : NULL;
}

/* Requires that value V of node N has the type S. WHAT names the value in messages. */
static bool require_type(CallMatch *m, Node *n, const SignatureType *s, const Type *t,
			 const char *what)
{
	for (int i = 0; i < s->ndims; i++) {
		Dim *const *at = t->dims + axis_of(s, t, i);
		int count;
		Dim *const *expected = signature_dims(m->in, m->b, &s->dim[i], &count);
		const int here = s->dim[i].run ? t->rank - s->ndims + 1 : 1;

		if (!expected)
			return infer_error(
				m->in, n,
				"a size in %s is that of no operand that is given, or divides by 0",
				s->text);
		if (count != here)
			return infer_error(
				m->in, n, "%s is not %s: %s... stands for %d dims, and here for %d",
				what, s->text, s->dim[i].name, count, here);
		for (int k = 0; k < count; k++)
			if (at[k] != expected[k] &&
			    !infer_dim_equals(
				    m->in, n, &at[k], expected[k],
				    arena_printf(m->in->arena, "%s is not %s", what, s->text)))
				return false;
	}
	return true;
}

static bool bind_sizes(CallMatch *m)
{
	bool ok = true;

	for (int k = 0; k < m->d->in.n; k++) {
		const Type *t = infer_type(m->n, k);

		for (int i = 0; t && i < m->d->in.at[k].type.ndims; i++)
			bind_dim(m, &m->d->in.at[k].type, t, i);
	}
	for (int k = 0; k < m->d->in.n && ok; k++)
		if (infer_type(m->n, k))
			ok = require_type(m, m->n, &m->d->in.at[k].type, infer_type(m->n, k),
					  arena_printf(m->in->arena, "operand %d", k + 1));
	return ok;
}

/* ---- Putting a definition into the graph ---- */

/* Says where in the definition the last fault is: at node N, if that is not null. */
static void note_line(CallMatch *m, int line, const Node *n)
{
	const char *call = n ? node_str(n, CALL_NAME, NULL) : NULL;
	const char *op = call ? definition_shown(m->in->ctx, call) : n ? op_row[n->op].name : "";

	diag_note(m->in->ctx->diag, "in its definition, %s:%d%s%s", m->d->file, line, n ? ": " : "",
		  op);
}

static bool put_node(CallMatch *m, const Node *from, Value **map)
{
	Infer *in = m->in;
	Value **out = NEW_ARRAY(in->arena, from->nout + 1, Value *);
	Node *copy;
	bool ok;

	for (int i = 0; i < from->nout; i++)
		if (from->out[i])
			from->out[i]->name = NULL;
	copy = control_copy_node(in, from, m->n, map);
	copy->locs = m->n->locs;
	for (int i = 0; i < from->nout; i++)
		out[i] = copy->out[i];
	ok = copy->op == OP_Kernel ? call_check_kernel(in, copy) : infer_or_expand(in, copy, out);
	for (int i = 0; i < from->nout; i++)
		if (from->out[i]) {
			map[from->out[i]->id] = out[i];
			ok = ok && out[i] && out[i]->type;
		}
	return ok;
}

/* Requires that no size of a result of type T, which the definition gives as S, is below 0. */
static bool require_sizes(CallMatch *m, const SignatureType *s, const Type *t, const char *what)
{
	Ctx *c = m->in->ctx;

	for (int d = 0; d < t->rank; d++)
		if (!infer_le_shown(
			    m->in, m->n, dim_const(c, 0), t->dims[d],
			    arena_printf(m->in->arena, "a size of %s, %s in %s:%d, is negative",
					 what, s->text, m->d->file, m->d->line),
			    (FactSize){0},
			    (FactSize){arena_printf(m->in->arena, "dim %d is", d), t->dims[d]}))
			return false;
	return true;
}

static bool check_results(CallMatch *m, Value **out)
{
	for (int i = 0; i < m->n->nout; i++) {
		const DefinedResult *r = &m->d->out.at[i];
		const SignatureType *s = &r->type;
		const Type *t = m->n->out[i] ? out[i]->type : NULL;
		DType want = s->dtype;
		const char *what = arena_printf(m->in->arena, "result %d", i + 1);

		if (!t || !r->typed)
			continue;
		for (int k = 0; s->var && k < m->b->types.n; k++)
			if (!strcmp(m->b->types.at[k].name, s->var))
				want = m->b->types.at[k].dtype;
		if (t->kind != TYPE_TENSOR || t->dtype != want ||
		    (s->run >= 0 ? t->rank < s->ndims - 1 : t->rank != s->ndims)) {
			STRBUF_LOCAL(b);

			type_print(&b, t);
			infer_error(m->in, m->n, "%s is %s, and the definition says %s", what,
				    strbuf_str(&b), s->text);
			return false;
		}
		if (!require_type(m, m->n, s, t, what) || !require_sizes(m, s, t, what))
			return false;
	}
	return true;
}

static bool require_checks(CallMatch *m, const Graph *g)
{
	VEC_EACH_AT (f, &g->facts) {
		const char *what = f->what ? f->what : "a check of the definition fails";
		const bool shown = f->show[0].dim || f->show[1].dim;
		const FactSize left = {"the left side is", f->a},
			       right = {"the right side is", f->b};

		if (!(f->le ? infer_le_shown : infer_equal_shown)(m->in, m->n, f->a, f->b, what,
								  shown ? f->show[0] : left,
								  shown ? f->show[1] : right))
			return false;
	}
	return true;
}

static bool put_definition(CallMatch *m, Value **out)
{
	Infer *in = m->in;
	const Type **types = NEW_ARRAY(in->arena, m->d->in.n + 1, const Type *);
	const int *lines;
	Value **map;
	Graph *g;

	for (int k = 0; k < m->d->in.n; k++)
		types[k] = infer_type(m->n, k);
	g = definition_graph(in->ctx, in->arena, m->d, m->b, types, &lines);
	if (!g) {
		in->errors++;
		diag_note(in->ctx->diag, "while it is read for node \"%s\" (%s)",
			  node_loc(m->n).node ? node_loc(m->n).node : "",
			  definition_shown(in->ctx, m->d->name));
		return false;
	}
	if (!require_checks(m, g)) {
		note_line(m, m->d->body_line, NULL);
		return false;
	}
	map = NEW_ARRAY(in->arena, g->nvalues + 1, Value *);
	for (int k = 0; k < m->d->in.n; k++)
		map[g->inputs.at[k]->id] = node_in(m->n, k);
	for (const Node *x = g->first; x; x = x->next)
		if (!put_node(m, x, map)) {
			note_line(m, lines[x->id], x);
			return false;
		}
	for (int i = 0; i < m->n->nout; i++)
		out[i] = map[g->results.at[i]->value->id];
	if (!check_results(m, out)) {
		note_line(m, m->d->line, NULL);
		return false;
	}
	return true;
}

typedef VEC(const char *) Reasons;

/* Adds WHY to R, unless an earlier definition does not fit for the same reason. */
static void add_reason(Arena *a, Reasons *r, const char *why)
{
	for (int i = 0; i < r->n; i++)
		if (!strcmp(r->at[i], why))
			return;
	vec_push(a, r, why);
}

/* Reports, with these reasons, that no definition from FIRST onwards matches N. */
static bool none_fits(Infer *in, Node *n, const Definition *first, const Reasons *r)
{
	STRBUF_LOCAL(b);

	for (int i = 0; i < r->n; i++)
		strbuf_printf(&b, "%s%s", i ? "; or " : "", r->at[i]);
	infer_error(in, n, "%s%s", first->next ? "none of its definitions fits: " : "",
		    strbuf_str(&b));
	diag_note(in->ctx->diag, "it is defined in %s:%d", first->file, first->line);
	return false;
}

static bool expand_call(Infer *in, Node *n, Value **out)
{
	const char *name = node_str(n, CALL_NAME, NULL);
	const Definition *first = name ? definition_find(in->ctx, name) : NULL;
	CallMatch m = {.in = in, .n = n};
	Reasons reasons = {0};

	if (n->regions.n)
		return infer_error(in, n,
				   "attribute \"%s\" holds a graph, which no definition takes",
				   n->regions.at[0]->name);
	if (!first)
		return infer_error(in, n, "no definition of %s is given",
				   name ? definition_shown(in->ctx, name) : "the operator");
	for (m.d = first; m.d; m.d = m.d->next) {
		if (match(&m))
			break;
		add_reason(in->arena, &reasons, m.why);
	}
	if (!m.d)
		return none_fits(in, n, first, &reasons);
	in->called += (int64_t)strlen(m.d->text);
	if (in->called > MAX_CALLED)
		return infer_error(in, n,
				   "the definitions that the model uses are too large: this node "
				   "and the calls before it take more than %d MiB of text",
				   MAX_CALLED >> 20);
	if (!bind_sizes(&m)) {
		note_line(&m, m.d->line, NULL);
		return false;
	}
	return put_definition(&m, out);
}

const Op op_Call = {.expand = expand_call, .regions = true};
