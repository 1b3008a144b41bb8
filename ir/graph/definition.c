/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads definitions, checks them, and reads them for a node.
 *
 *     definition = "operator" name "(" [operand {"," operand}] ")" ["{" attr {"," attr} "}"]
 *                  "->" "(" result {"," result} ")" ["where" choice {"," choice}] {check} body
 *     operand    = ["optional"] "%" label ":" type
 *     attr       = ["optional"] name ":" kind ["=" value]
 *     result     = "%" label [":" type]
 *     choice     = name "in" value {"|" value}
 *     body       = "{" {node} "}" | "kernel" "{" {temporary | statement} "}"
 *
 * A type's dims are sizes, or names of sizes and of sequences of dims, "B...". A name is bound by
 * the first operand that has just this name as a dim.
 */
#include "ir/graph/definition.h"

#include "base/sys.h"
#include "ir/graph/text_impl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	MAX_SIGNATURE = 256, /* operands, attributes, and so on, of a definition */
	MAX_VARS = 4,        /* element types */
	MAX_NESTED = 64      /* limit on the nesting of definitions */
};

/* ---- Names ---- */

const char *definition_name(Ctx *c, const char *domain, const char *name)
{
	STRBUF_LOCAL(b);

	strbuf_printf(&b, "%s::%s", *domain ? domain : "ai.onnx", name);
	return ctx_name(c, strbuf_str(&b));
}

/* The length of the domain in NAME; *OP is the operator's name without the domain. */
static size_t split_name(const char *name, const char **op)
{
	const char *at = strstr(name, "::");

	*op = at + 2;
	return (size_t)(at - name);
}

const char *definition_shown(Ctx *c, const char *name)
{
	const char *op;
	const size_t n = split_name(name, &op);
	STRBUF_LOCAL(b);

	if (strncmp(name, "ai.onnx::", 9))
		strbuf_printf(&b, "%.*s.", (int)n, name);
	strbuf_puts(&b, op);
	return ctx_name(c, strbuf_str(&b));
}

const Definition *definition_find(const Ctx *c, const char *name)
{
	for (int i = 0; c->definitions && i < c->definitions->all.n; i++)
		if (!strcmp(c->definitions->all.at[i]->name, name))
			return c->definitions->all.at[i];
	return NULL;
}

static const char *const kind_name[] = {
	[ATTR_INT] = "int",      [ATTR_FLOAT] = "float",   [ATTR_STR] = "string",
	[ATTR_INTS] = "ints",    [ATTR_FLOATS] = "floats", [ATTR_STRS] = "strings",
	[ATTR_TENSOR] = "tensor", [ATTR_TYPE] = "type"};

enum {
	NKINDS = sizeof kind_name / sizeof *kind_name,
	NDEFINED = ATTR_TENSOR + 1, /* kinds that a definition may declare */
};

const char *attr_kind_name(AttrKind kind)
{
	return (int)kind < NKINDS ? kind_name[kind] : "of another kind";
}

/* ---- Signatures ---- */

/* Moves to the "," or "]" that ends a dim. */
static bool skip_dim(GraphText *r)
{
	int depth = 0;

	for (; *r->p && *r->p != '\n'; r->p++) {
		if (!depth && (*r->p == ',' || *r->p == ']'))
			return true;
		depth += *r->p == '(' ? 1 : *r->p == ')' ? -1 : 0;
	}
	return text_fail(r, "']'");
}

static bool read_dim(GraphText *r, SignatureType *t)
{
	SignatureDim d = {.text = (text_peek(r), r->p)};
	const char *name = text_word(r);

	if (name && text_is_word(name)) {
		d.run = text_take(r, "...");
		if (text_peek(r) == ',' || *r->p == ']')
			d.name = name;
	}
	if (d.run && !d.name)
		return text_fail(r, "',' or ']'");
	if (d.run && t->run >= 0)
		return text_fault(r, r->line, "a type has two sequences of dims");
	if (d.run)
		t->run = t->ndims;
	if (t->ndims == MAX_RANK)
		return text_fault(r, r->line, "a type has too many dims");
	t->dim[t->ndims++] = d;
	r->p = d.name ? r->p : d.text;
	return d.name || skip_dim(r);
}

/* Reads T[N,2*K]. A name that is not an element type and begins with a capital is one of D's
 * variables. */
static bool read_signature_type(GraphText *r, Definition *d, SignatureType *t)
{
	const char *from = (text_peek(r), r->p), *word = text_word(r);
	bool found = false;

	*t = (SignatureType){.run = -1, .dim = NEW_ARRAY(r->arena, MAX_RANK, SignatureDim)};
	t->dtype = word ? dtype_by_name(word) : DT_NONE;
	if (!word || (t->dtype == DT_NONE && !isupper((unsigned char)*word)) || *r->p != '[') {
		r->p = from;
		return text_fail(r, "a type, such as f32[N], T[N,64] or T[S...]");
	}
	if (t->dtype == DT_NONE) {
		t->var = word;
		for (int i = 0; i < d->vars.n; i++)
			found |= d->vars.at[i] == word;
		if (!found && d->vars.n == MAX_VARS)
			return text_fault(r, r->line, "a definition has too many element types");
		if (!found)
			vec_push(r->arena, &d->vars, word);
	}
	r->p++;
	if (!text_take(r, "]")) {
		do {
			if (!read_dim(r, t))
				return false;
		} while (text_take(r, ","));
		if (!text_want(r, "]"))
			return false;
	}
	t->text = arena_strndup(r->arena, from, (size_t)(r->p - from));
	return true;
}

static bool read_operands(GraphText *r, Definition *d)
{
	if (!text_want(r, "("))
		return false;
	while (!text_take(r, ")")) {
		DefinedOperand x = {0};

		if (d->in.n && !text_want_next(r))
			return false;
		x.optional = text_take_word(r, "optional");
		if (!(x.name = text_value_label(r)) || !text_want(r, ":") ||
		    !read_signature_type(r, d, &x.type))
			return false;
		for (int i = 0; i < d->in.n; i++)
			if (d->in.at[i].name == x.name)
				return text_fault(r, r->line, "two operands have one label");
		if (d->in.n == MAX_SIGNATURE)
			return text_fault(r, r->line, "too many operands");
		vec_push(r->arena, &d->in, x);
	}
	return true;
}

/* Reads a value of A's kind; *OUT has A's name. */
static bool read_value(GraphText *r, const DefinedAttr *a, Attr *out)
{
	const int line = r->line;

	out->name = a->name;
	if (!text_value(r, out))
		return false;
	if (a->kind == ATTR_FLOAT && out->kind == ATTR_INT) {
		out->kind = ATTR_FLOAT;
		out->f = (float)out->i;
	}
	return out->kind == a->kind ||
	       text_fault(r, line, "the value is not of kind %s", kind_name[a->kind]);
}

static const DefinedAttr *find_attr(const Definition *d, const char *name)
{
	for (int i = 0; i < d->attrs.n; i++)
		if (!strcmp(d->attrs.at[i].name, name))
			return &d->attrs.at[i];
	return NULL;
}

static bool read_attr(GraphText *r, Definition *d)
{
	DefinedAttr a = {.optional = text_take_word(r, "optional"), .kind = ATTR_KERNEL};
	Attr *value;

	if (!(a.name = text_name(r)) || !text_want(r, ":"))
		return false;
	for (int k = 0; k < NDEFINED; k++)
		if (text_take_word(r, kind_name[k]))
			a.kind = (AttrKind)k;
	if (a.kind == ATTR_KERNEL)
		return text_fail(r, "int, float, string, ints, floats, strings or tensor");
	if (find_attr(d, a.name) || d->attrs.n == MAX_SIGNATURE)
		return text_fault(r, r->line,
				  "two attributes have one name, or there are too many");
	if (text_take(r, "=")) {
		value = NEW(r->arena, Attr);
		a.otherwise = value;
		if (a.optional)
			return text_fault(r, r->line,
					  "an attribute with a default is always there");
		if (!read_value(r, &a, value))
			return false;
	}
	vec_push(r->arena, &d->attrs, a);
	return true;
}

static bool read_attrs(GraphText *r, Definition *d)
{
	if (!text_take(r, "{"))
		return true;
	do {
		if (!read_attr(r, d))
			return false;
	} while (text_take(r, ","));
	return text_want(r, "}");
}

static bool read_results(GraphText *r, Definition *d)
{
	if (!text_want(r, "->") || !text_want(r, "("))
		return false;
	do {
		DefinedResult x = {0};

		if (!(x.name = text_value_label(r)))
			return false;
		x.typed = text_take(r, ":");
		if (x.typed && !read_signature_type(r, d, &x.type))
			return false;
		if (d->out.n == MAX_SIGNATURE)
			return text_fault(r, r->line, "too many results");
		vec_push(r->arena, &d->out, x);
	} while (text_take(r, ","));
	return text_want(r, ")");
}

static bool read_choice(GraphText *r, Definition *d)
{
	VEC(DType) types = {0};
	VEC(Attr) values = {0};
	DefinedChoice x = {.name = text_name(r)};
	bool found;

	if (!x.name || !text_take_word(r, "in"))
		return text_fail(r, "NAME in VALUE | VALUE");
	x.attr = find_attr(d, x.name);
	found = x.attr != NULL;
	for (int i = 0; i < d->vars.n; i++)
		found |= d->vars.at[i] == x.name;
	if (!found)
		return text_fault(r, r->line, "\"%s\" is neither an element type nor an attribute",
				  x.name);
	do {
		Attr value = {0};
		const char *word = x.attr ? NULL : text_word(r);

		if (x.attr ? !read_value(r, x.attr, &value)
			   : !word || dtype_by_name(word) == DT_NONE)
			return text_fail(r, "an element type, such as f32");
		if (x.attr)
			vec_push(r->arena, &values, value);
		else
			vec_push(r->arena, &types, dtype_by_name(word));
	} while (text_take(r, "|"));
	x.types = types.at;
	x.values = values.at;
	x.n = x.attr ? values.n : types.n;
	vec_push(r->arena, &d->choices, x);
	return true;
}

static bool read_choices(GraphText *r, Definition *d)
{
	if (!text_take_word(r, "where"))
		return true;
	do {
		if (!read_choice(r, d))
			return false;
	} while (text_take(r, ","));
	return true;
}

/* Every name has one meaning, and the operands determine all element types and sizes. */
static bool check_names(GraphText *r, const Definition *d)
{
	for (int i = 0; i < d->vars.n; i++) {
		bool found = false;

		for (int k = 0; k < d->in.n; k++)
			found |= d->in.at[k].type.var == d->vars.at[i] && !d->in.at[k].optional;
		if (!found)
			return text_fault(r, d->line,
					  "no operand that is always there has the element type %s",
					  d->vars.at[i]);
		if (find_attr(d, d->vars.at[i]))
			return text_fault(r, d->line, "\"%s\" is an element type and an attribute",
					  d->vars.at[i]);
	}
	for (int k = 0; k < d->in.n; k++)
		for (int i = 0; i < d->in.at[k].type.ndims; i++) {
			const char *name = d->in.at[k].type.dim[i].name;
			const DefinedAttr *a = name ? find_attr(d, name) : NULL;

			if (a && (a->kind != ATTR_INT || a->optional))
				return text_fault(r, d->line, "\"%s\" is a size and an attribute",
						  name);
		}
	for (int i = 0; i < d->out.n && d->kernel; i++)
		if (!d->out.at[i].typed)
			return text_fault(r, d->line, "the results of a kernel have types");
	return true;
}

/* ---- Reading a definition for a node ---- */

/* The text of a type's dims, with runs as one dim, their product. */
static const Type *flat_type(GraphText *r, const SignatureType *t, bool flat)
{
	DType dt = t->var ? bound_dtype(r->ctx, t->var, strlen(t->var)) : t->dtype;
	Dim *dims[MAX_RANK];
	int rank = 0;

	for (int i = 0; i < t->ndims; i++) {
		const char *p = t->dim[i].text;
		const BoundRun *run = t->dim[i].run && !flat ? bound_run(r->ctx, &p) : NULL;

		for (int k = 0; run && k < run->n; k++)
			if (rank < MAX_RANK)
				dims[rank++] = run->dims[k];
		if (run)
			continue;
		if (t->dim[i].run) /* its product is a size of the same name */
			dims[rank] = bound_size(r->ctx, t->dim[i].name, strlen(t->dim[i].name), &p);
		else
			dims[rank] = dim_parse(r->ctx, &p);
		if (!dims[rank] || rank == MAX_RANK - 1) {
			text_fault(
				r, r->line,
				"a size in %s is that of no operand that is given, or divides by 0",
				t->text);
			return NULL;
		}
		rank++;
	}
	return type_tensor(r->ctx, dt, rank, dims);
}

static Value *view(Graph *g, Value *v, const Type *t)
{
	Node *n;

	if (v->type == t)
		return v;
	n = node_new(g, OP_View, &v, 1, 1, NULL);
	n->out[0]->type = t;
	return n->out[0];
}

/* Reads statements over the operands and results, each with its runs as one dim. */
static Graph *read_kernel(GraphText *r, Graph *g, const Definition *d)
{
	const char *op;
	Kernel *k;
	Node *n;
	Value *in[MAX_SIGNATURE];
	int nin = 0;

	split_name(d->name, &op);
	op = str_word(r->arena, op, 48);
	k = kernel_new(r->ctx, r->arena, isdigit((unsigned char)*op) || !*op ? "kernel" : op);
	for (int i = 0; i < d->in.n; i++) {
		const Type *t = g->inputs.at[i]->type ? flat_type(r, &d->in.at[i].type, true)
						      : NULL;

		if (!g->inputs.at[i]->type)
			continue;
		if (!t)
			return NULL;
		kernel_buf(k, BUF_IN, ctx_name(r->ctx, d->in.at[i].name), t)->param = nin;
		in[nin++] = view(g, g->inputs.at[i], t);
	}
	n = node_new(g, OP_Kernel, in, nin, d->out.n, NULL);
	for (int i = 0; i < d->out.n; i++) {
		const Type *t = flat_type(r, &d->out.at[i].type, true);
		const Type *whole = t ? flat_type(r, &d->out.at[i].type, false) : NULL;

		if (!whole)
			return NULL;
		kernel_buf(k, BUF_OUT, ctx_name(r->ctx, d->out.at[i].name), t)->param = i;
		n->out[i]->type = t;
		graph_result(g, view(g, n->out[i], whole), NULL);
	}
	if (!text_want(r, "{"))
		return NULL;
	if (!kernel_parse_body(k, &r->p, &r->line)) {
		r->failed = true;
		return NULL;
	}
	node_set_attr(n,
		      (Attr){.name = ctx_name(r->ctx, "kernel"), .kind = ATTR_KERNEL, .kernel = k});
	return g;
}

/* Reads D's checks and its body at R. IN: the operands' types. */
static Graph *read_instance(GraphText *r, const Definition *d, const Type *const *in)
{
	Graph *g = graph_new(r->ctx, r->arena, ctx_name(r->ctx, d->name));

	g->file = r->file;
	for (int i = 0; i < d->in.n; i++) {
		Value *v = graph_input(g, NULL, in[i]);

		if (!text_label(r, ctx_name(r->ctx, d->in.at[i].name), in[i] ? v : NULL))
			return NULL;
	}
	if (!text_checks(r, g))
		return NULL;
	if (text_take_word(r, "kernel"))
		return read_kernel(r, g, d);
	if (!text_body(r, g))
		return NULL;
	for (int i = 0; i < d->out.n; i++)
		if (!text_result(r, g, ctx_name(r->ctx, d->out.at[i].name), NULL))
			return NULL;
	for (const Node *n = g->first; n; n = n->next)
		if ((op_row[n->op].flags & OPF_CONTROL) || n->op == OP_Copy) {
			text_fault(r, d->line, "%s cannot be used in a definition",
				   op_row[n->op].name);
			return NULL;
		}
	return g;
}

Graph *definition_graph(Ctx *c, Arena *a, const Definition *d, const Bindings *b,
			const Type *const *in, const int **lines)
{
	GraphText r = {.ctx = c,
		       .arena = a,
		       .tmp = arena_new(),
		       .text = d->body,
		       .p = d->body,
		       .line = d->body_line,
		       .file = d->file};
	Graph *g;
	int *line;

	c->bound = b;
	g = read_instance(&r, d, in);
	c->bound = NULL;
	*lines = NULL;
	if (g) {
		*lines = line = NEW_ARRAY(a, g->nnodes + 1, int);
		for (int i = 0; i < g->nnodes; i++)
			line[i] = d->body_line;
		for (int i = 0; i < r.nodes.n; i++)
			if (r.nodes.at[i].n->graph == g)
				line[r.nodes.at[i].n->id] = r.nodes.at[i].line;
	}
	arena_free(r.tmp);
	return r.failed ? NULL : g;
}

/* ---- Checking a definition when it is read ---- */

/* The first fault of an attempt to read a definition, and the position that it reached. */
typedef struct FirstFault {
	Arena *arena;
	const char *text;
	int line;
	const char *at;
} FirstFault;

static void keep_first(void *arg, DiagLoc loc, const char *text)
{
	FirstFault *f = arg;

	if (f->text)
		return;
	f->text = arena_strdup(f->arena, text);
	f->line = loc.line;
}

static Dim *some_size(Ctx *c, const char *name)
{
	Sym *s = sym_get(c, name);

	sym_bound(c, s, 1, DIM_INF);
	return s->dim;
}

/* A value that an attribute of A's kind may have. */
static Attr *some_value(Arena *arena, const Definition *d, const DefinedAttr *a)
{
	static int64_t one = 1;
	static float half = 0.5f;
	static const char *empty = "";
	Attr *v = NEW(arena, Attr);

	for (int i = 0; i < d->choices.n; i++)
		if (d->choices.at[i].attr && d->choices.at[i].name == a->name)
			return arena_copy(arena, &d->choices.at[i].values[0], sizeof *v);
	if (a->otherwise)
		return arena_copy(arena, a->otherwise, sizeof *v);
	*v = (Attr){.name = a->name, .kind = a->kind, .n = 1};
	switch (a->kind) {
	case ATTR_INT: v->i = 1; break;
	case ATTR_FLOAT: v->f = half; break;
	case ATTR_STR: v->s = empty; break;
	case ATTR_INTS: v->is = &one; break;
	case ATTR_FLOATS: v->fs = &half; break;
	case ATTR_STRS: v->ss = &empty; break;
	default: v->t = tensor_new(arena, DT_F32, 0, NULL); break;
	}
	return v;
}

BoundAttr bound_attr_of(Arena *a, const char *name, const Attr *value)
{
	BoundAttr b = {.name = name, .value = value};

	if (!value)
		return b;
	b.integer = value->kind == ATTR_INT;
	b.list = value->kind == ATTR_INTS;
	if (b.integer)
		b.number = arena_printf(a, "%" PRId64, value->i);
	if (value->kind == ATTR_FLOAT)
		b.number = arena_printf(a, "%.9g", (double)value->f);
	if (b.list) {
		b.ints = value->is;
		b.n = value->n;
	}
	return b;
}

/* Sizes that any node may have. */
static Bindings *some_bindings(Ctx *c, Arena *a, const Definition *d, const DType *types, bool all)
{
	Bindings *b = NEW(a, Bindings);

	*b = (Bindings){.arena = a, .file = d->file, .generic = true};
	for (int i = 0; i < d->vars.n; i++)
		vec_push(a, &b->types, ((BoundType){d->vars.at[i], types[i]}));
	for (int k = 0; k < d->in.n; k++)
		for (int i = 0; i < d->in.at[k].type.ndims && (all || !d->in.at[k].optional); i++) {
			const SignatureDim *x = &d->in.at[k].type.dim[i];
			Dim **dim = NEW(a, Dim *);

			if (!x->name)
				continue;
			*dim = some_size(c, x->name);
			vec_push(a, &b->sizes, ((BoundSize){x->name, *dim}));
			if (x->run)
				vec_push(a, &b->runs, ((BoundRun){x->name, dim, 1}));
		}
	VEC_EACH_AT (x, &d->attrs) {
		const bool given = all || !x->optional;

		vec_push(a, &b->attrs,
			 bound_attr_of(a, x->name, given ? some_value(a, d, x) : NULL));
		if (x->kind == ATTR_INT && given)
			vec_push(a, &b->sizes, ((BoundSize){x->name, some_size(c, x->name)}));
	}
	return b;
}

/* Reads the body of D at R with element types TYPES, in a separate context. ALL: with the optional
 * operands and attributes. Moves R to the end of the definition. */
static bool try_types(GraphText *r, Definition *d, const DType *types, bool all, FirstFault *f)
{
	Diag diag = {.sink = keep_first, .sink_arg = f};
	Ctx *c = ctx_new(&diag);
	GraphText own = *r;
	const Type **in = NEW_ARRAY(r->tmp, d->in.n + 1, const Type *);
	Bindings *b = some_bindings(c, c->arena, d, types, all);
	Graph *g = NULL;
	bool ok = true;

	own.ctx = c;
	own.arena = c->arena;
	own.tmp = arena_new();
	own.map = NULL;
	own.n = own.cap = 0;
	memset(&own.pending, 0, sizeof own.pending);
	memset(&own.files, 0, sizeof own.files);
	memset(&own.nodes, 0, sizeof own.nodes);
	own.text = own.p = d->body;
	own.line = d->body_line;
	c->bound = b;
	for (int i = 0; i < d->in.n && ok; i++)
		if (all || !d->in.at[i].optional)
			ok = (in[i] = flat_type(&own, &d->in.at[i].type, false)) != NULL;
	for (int i = 0; i < d->out.n && ok; i++)
		if (d->out.at[i].typed)
			ok = flat_type(&own, &d->out.at[i].type, false) != NULL;
	if (ok)
		g = read_instance(&own, d, in);
	f->at = own.p;
	ok = ok && g && !own.failed;
	for (const Node *n = g ? g->first : NULL; n && ok; n = n->next)
		if (n->op == OP_Kernel && node_attr(n, "kernel")) {
			ok = kernel_verify(node_attr(n, "kernel")->kernel, &diag, NULL);
			f->line = d->body_line;
		}
	if (ok) {
		r->p = own.p;
		r->line = own.line;
		d->calls.n = 0;
		for (int i = 0; i < own.nodes.n; i++) {
			const char *name = own.nodes.at[i].n->op == OP_Call
						   ? node_str(own.nodes.at[i].n, CALL_NAME, "")
						   : "";

			if (*name)
				vec_push(r->arena, &d->calls,
					 ((DefinedCall){ctx_name(r->ctx, name),
							own.nodes.at[i].line}));
		}
	}
	arena_free(own.tmp);
	ctx_free(c);
	return ok;
}

/* Reads the body of D with one choice of element types after another, until one is right.
 * Otherwise the fault is that of the attempt that came furthest. */
static bool try_body(GraphText *r, Definition *d, bool all)
{
	static const DType usual[] = {DT_F32, DT_I64, DT_I32, DT_BOOL, DT_F64, DT_U32, DT_U64};
	const DType *list[MAX_VARS];
	int n[MAX_VARS], at[MAX_VARS] = {0}, k;
	FirstFault worst = {0};

	for (int i = 0; i < d->vars.n; i++) {
		list[i] = usual;
		n[i] = sizeof usual / sizeof *usual;
		for (int j = 0; j < d->choices.n; j++)
			if (!d->choices.at[j].attr && d->choices.at[j].name == d->vars.at[i]) {
				list[i] = d->choices.at[j].types;
				n[i] = d->choices.at[j].n;
			}
	}
	do {
		DType types[MAX_VARS] = {0};
		FirstFault f = {.arena = r->tmp};

		for (int i = 0; i < d->vars.n; i++)
			types[i] = list[i][at[i]];
		if (try_types(r, d, types, all, &f))
			return true;
		if (!worst.at || f.at > worst.at)
			worst = f;
		for (k = 0; k < d->vars.n && ++at[k] == n[k]; k++)
			at[k] = 0;
	} while (k < d->vars.n);
	return text_fault(r, worst.line ? worst.line : d->line, "%s",
			  worst.text ? worst.text : "the definition cannot be read");
}

static bool has_optional(const Definition *d)
{
	bool found = false;

	for (int i = 0; i < d->in.n; i++)
		found |= d->in.at[i].optional;
	for (int i = 0; i < d->attrs.n; i++)
		found |= d->attrs.at[i].optional;
	return found;
}

/* ---- Files ---- */

static bool add_definition(GraphText *r, Definition *d)
{
	Ctx *c = r->ctx;
	Definition *first = (Definition *)(uintptr_t)definition_find(c, d->name);
	const char *op;
	const size_t n = split_name(d->name, &op);
	const char *domain = arena_strndup(r->tmp, d->name, n);
	const OpKind own = op_in_domain(strcmp(domain, "ai.onnx") ? domain : "", op);

	if (own != OP_NONE && !(op_row[own].flags & OPF_INTERNAL))
		return text_fault(r, d->line, "%s is an operator of dlcc and cannot be redefined",
				  definition_shown(c, d->name));
	if (!c->definitions)
		c->definitions = NEW(c->arena, Definitions);
	if (!first) {
		vec_push(c->arena, &c->definitions->all, d);
		return true;
	}
	if (first->file != d->file)
		return text_fault(r, d->line, "%s is also defined in %s",
				  definition_shown(c, d->name), first->file);
	while (first->next)
		first = first->next;
	first->next = d;
	return true;
}

/* Whether D's body is statements: the keyword `kernel` follows the checks at R. */
static bool body_is_kernel(const GraphText *r)
{
	GraphText own = *r;

	for (;;) {
		const char ch = text_peek(&own);
		const char *word;

		if (!ch || ch == '{')
			return false;
		word = text_is_word_char(ch) ? text_word(&own) : NULL;
		if (word && !strcmp(word, "kernel") && text_peek(&own) == '{')
			return true;
		if (!word && (ch != '"' || !text_string(&own)))
			own.p++;
	}
}

static bool read_one(GraphText *r, const char *from)
{
	Definition *d = NEW(r->arena, Definition);

	*d = (Definition){.file = r->file, .line = r->line};
	if (!text_defined_name(r, &d->name))
		return text_fail(r, "an operator's name: DOMAIN::NAME");
	if (!d->name || !read_operands(r, d) || !read_attrs(r, d) || !read_results(r, d) ||
	    !read_choices(r, d))
		return false;
	text_peek(r);
	d->body = r->p;
	d->body_line = r->line;
	d->kernel = body_is_kernel(r);
	if (!check_names(r, d) || !try_body(r, d, true) ||
	    (has_optional(d) && !try_body(r, d, false)))
		return false;
	d->text = arena_strndup(r->arena, from, (size_t)(r->p - from));
	return add_definition(r, d);
}

bool text_definitions(GraphText *r)
{
	const char *from = (text_peek(r), r->p), *begin;
	GraphText own = *r;

	/* Definitions live as long as the context, and so must their text. */
	own.arena = r->ctx->arena;
	own.text = own.p = arena_strdup(own.arena, from);
	begin = own.p;
	while (text_take_word(&own, "operator")) {
		if (!read_one(&own, own.p - strlen("operator"))) {
			r->failed = true;
			return false;
		}
		text_peek(&own);
		r->p = from + (own.p - begin);
		r->line = own.line;
	}
	return true;
}

static bool read_definitions(Ctx *c, const char *file)
{
	GraphText r = {.ctx = c,
		       .arena = c->arena,
		       .tmp = arena_new(),
		       .line = 1,
		       .file = ctx_name(c, file)};
	size_t n;

	r.text = r.p = read_file(r.tmp, file, &n);
	if (!r.p) {
		r.failed = true;
		diag_error(c->diag, (DiagLoc){.file = file}, "cannot be read: %s", open_error());
	} else if (strlen(r.p) < n) {
		text_fault(&r, 0, "the file is not text");
	} else if (!text_take_word(&r, "dlir"))
		text_fail(&r, "'dlir 1'");
	else if (!text_take_word(&r, "1"))
		text_fail(&r, "version 1 of the text");
	else if (text_definitions(&r) && text_peek(&r))
		text_fail(&r, "'operator', or the end of the file");
	arena_free(r.tmp);
	return !r.failed;
}

bool definitions_read(Ctx *c, const DefinitionFiles *files)
{
	for (int i = 0; i < files->n; i++)
		if (!read_definitions(c, files->name[i]))
			return false;
	return definitions_check(c);
}

/* Computes the depth of D and of all that it uses. */
static bool check_depth(Ctx *c, Definition *d)
{
	int depth = 0;

	if (d->depth > 0)
		return true;
	d->depth = -1;
	VEC_EACH_AT (call, &d->calls) {
		DiagLoc loc = {.file = d->file, .line = call->line};
		Definition *x = (Definition *)(uintptr_t)definition_find(c, call->name);

		if (!x)
			return diag_error(c->diag, loc, "no definition of %s is given",
					  definition_shown(c, call->name));
		for (; x; x = x->next) {
			if (x->depth < 0)
				return diag_error(
					c->diag, loc,
					"%s is defined by itself, directly or through others",
					definition_shown(c, d->name));
			if (!check_depth(c, x))
				return false;
			depth = x->depth > depth ? x->depth : depth;
		}
		if (depth >= MAX_NESTED)
			return diag_error(c->diag, loc, "definitions are nested more than %d deep",
					  MAX_NESTED);
	}
	d->depth = depth + 1;
	return true;
}

bool definitions_check(Ctx *c)
{
	for (int i = 0; c->definitions && i < c->definitions->all.n; i++)
		for (Definition *d = c->definitions->all.at[i]; d; d = d->next)
			if (!check_depth(c, d))
				return false;
	return true;
}

/* ---- Printing ---- */

void text_put_defined(StrBuf *b, const char *name)
{
	const char *p = name;

	while (text_is_word_char(*p) || *p == '.' || *p == '-')
		p++;
	if (p > name && !strncmp(p, "::", 2))
		for (p += 2; text_is_word_char(*p);)
			p++;
	if (*p || p[-1] == ':')
		strbuf_quote(b, name);
	else
		strbuf_puts(b, name);
}

/* Marks the definitions of NAME, and of all operators that they use, by their index in the
 * context. */
static void mark(const Definitions *all, const char *name, bool *used)
{
	for (int i = 0; i < all->all.n; i++) {
		if (used[i] || strcmp(all->all.at[i]->name, name) != 0)
			continue;
		used[i] = true;
		for (const Definition *d = all->all.at[i]; d; d = d->next)
			for (int k = 0; k < d->calls.n; k++)
				mark(all, d->calls.at[k].name, used);
	}
}

static void mark_used(const Definitions *all, const Graph *g, bool *used)
{
	for (const Node *n = g->first; n; n = n->next) {
		if (n->op == OP_Call)
			mark(all, node_str(n, CALL_NAME, ""), used);
		for (int k = 0; k < n->regions.n; k++)
			mark_used(all, n->regions.at[k], used);
	}
}

void text_put_definitions(StrBuf *b, const Graph *g)
{
	const Definitions *all = g->ctx->definitions;
	ARENA_LOCAL(tmp);
	bool *used = NEW_ARRAY(tmp, (all ? all->all.n : 0) + 1, bool);

	if (all)
		mark_used(all, g, used);
	for (int i = 0; all && i < all->all.n; i++)
		for (const Definition *d = used[i] ? all->all.at[i] : NULL; d; d = d->next)
			strbuf_printf(b, "%s\n", d->text);
}
