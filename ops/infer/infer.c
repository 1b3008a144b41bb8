/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inference: computes types in one forward walk over a graph, and replaces composite nodes.
 *
 * A relation of two dims that cannot be proved becomes a fact of the graph, which run time checks
 * before a node that relies on it. A node whose operand has no type is skipped silently: the fault
 * was already reported.
 */
#include "ops/infer/control.h"

#include "ir/graph/blocks.h"
#include "ir/graph/definition.h"
#include "ops/infer/parts.h"

#include <assert.h>

Ctx *infer_ctx(Infer *in)
{
	return in->ctx;
}
Arena *infer_arena(Infer *in)
{
	return in->arena;
}

Infer *infer_new(Graph *g)
{
	Infer *in = NEW(g->arena, Infer);

	in->graph = g;
	in->ctx = g->ctx;
	in->arena = g->arena;
	/* the graph may have been typed before, apart from some nodes inside of blocks */
	for (const Node *n = g->first; n && !in->brackets; n = n->next)
		in->brackets = op_is_control(n->op);
	return in;
}

Infer *infer_clone(const Infer *in, Graph *g)
{
	Infer *to = arena_copy(g->arena, in, sizeof *in);

	to->graph = g;
	to->arena = g->arena;
	to->contents.n = to->contents.cap = 0;
	VEC_EACH (c, &in->contents) {
		Contents *copy = c ? arena_copy(g->arena, c, sizeof *c) : NULL;

		if (c && c->at)
			copy->at = arena_copy(g->arena, c->at, (size_t)c->n * sizeof *c->at);
		vec_push(g->arena, &to->contents, copy);
	}
	return to;
}

bool infer_error(Infer *in, Node *n, const char *fmt, ...)
{
	ARENA_LOCAL(tmp);
	va_list ap;
	char *msg;

	va_start(ap, fmt);
	msg = arena_vprintf(tmp, fmt, ap);
	va_end(ap);
	infer_fault(in, node_diag(n), msg);
	return false;
}

bool infer_fault(Infer *in, DiagLoc at, const char *text)
{
	in->errors++;
	return diag_error(in->ctx->diag, at, "%s", text);
}

const Type *infer_type(const Node *n, int k)
{
	Value *v = node_in(n, k);

	return v ? v->type : NULL;
}

/* ---- Results ---- */

/* Whether tensor types A and B certainly differ: in the elements, or in a rank or a size that
 * both know. */
static bool types_differ(const Type *a, const Type *b)
{
	int64_t m, n;

	if (a->rank < 0 || b->rank < 0)
		return a->dtype != b->dtype;
	if (a->dtype != b->dtype || a->rank != b->rank)
		return true;
	for (int i = 0; i < a->rank; i++)
		if (dim_is_const(a->dims[i], &m) && dim_is_const(b->dims[i], &n) && m != n)
			return true;
	return false;
}

/* Refuses the type GIVEN to V by a text, if it certainly differs from MADE, the one that N gives
 * it. */
static bool check_given(Infer *in, Node *n, const Value *v, const Type *given, const Type *made)
{
	STRBUF_LOCAL(b);

	if (given->kind == made->kind && (made->kind != TYPE_TENSOR || !types_differ(given, made)))
		return true;
	type_print(&b, given);
	strbuf_puts(&b, ", but it is ");
	type_print(&b, made);
	infer_error(in, n, "%s%s is declared as %s", v->name ? "result " : "the result",
		    v->name ? v->name : "", strbuf_str(&b));
	return false;
}

/* Whether the sizes that an ONNX file declares for V certainly differ from the sizes of MADE, which
 * has the same rank. */
static bool sizes_differ(const Value *v, const Type *made)
{
	int64_t n;

	for (int i = 0; v->declared_dims && i < made->rank; i++)
		if (v->declared_dims[i] >= 0 && dim_is_const(made->dims[i], &n) &&
		    n != v->declared_dims[i])
			return true;
	return false;
}

static void warn_sizes(Infer *in, Node *n, const Value *v, const Type *made)
{
	STRBUF_LOCAL(b);

	strbuf_printf(&b, "%s[", dtype_info[made->dtype].name);
	for (int i = 0; i < made->rank; i++)
		if (v->declared_dims[i] < 0)
			strbuf_printf(&b, "%s?", i ? "," : "");
		else
			strbuf_printf(&b, "%s%lld", i ? "," : "", (long long)v->declared_dims[i]);
	strbuf_puts(&b, "], but it is ");
	type_print(&b, made);
	diag_warning(in->ctx->diag, node_diag(n), "shape", "%s%s is declared as %s",
		     v->name ? "result " : "the result", v->name ? v->name : "", strbuf_str(&b));
}

/* Checks the declaration of V in an ONNX file against its inferred type MADE: the element type must
 * agree. A different rank or size is only a warning, since other runtimes run such models. */
static void check_declared(Infer *in, Node *n, Value *v, const Type *made)
{
	if (made->kind != TYPE_TENSOR) {
		if (v->declared)
			infer_error(in, n, "the result is declared as a tensor, which it is not");
		return;
	}
	if (v->declared && v->declared != (int)made->dtype)
		infer_error(in, n, "the result is declared as %s, but it is %s",
			    dtype_info[(DType)v->declared].name, dtype_info[made->dtype].name);
	else if (v->declared_rank && v->declared_rank - 1 != made->rank)
		diag_warning(in->ctx->diag, node_diag(n), "shape",
			     "result %s is declared with %d dims, but it has %d",
			     v->name ? v->name : "", v->declared_rank - 1, made->rank);
	else if (sizes_differ(v, made))
		warn_sizes(in, n, v, made);
	v->declared = v->declared_rank = 0;
	v->declared_dims = NULL;
}

bool infer_result(Infer *in, Node *n, int k, DType t, int rank, Dim *const *dims)
{
	Value *v = node_out(n, k);
	Dim *fresh[MAX_RANK];
	const Type *made;

	if (!v)
		return true;
	if (rank > MAX_RANK)
		return infer_error(in, n, "the result has rank %d; at most %d is supported", rank,
				   MAX_RANK);
	for (int i = 0; i < rank; i++)
		fresh[i] = dim_named(in->ctx, dim_refresh(in->ctx, dims[i]), "d");
	made = type_tensor(in->ctx, t, rank, fresh);
	if (v->type && v->type != made) {
		if (!check_given(in, n, v, v->type, made))
			return false;
		if (v->type->layout)
			made = type_with_layout(in->ctx, made, v->type->layout);
	}
	check_declared(in, n, v, made);
	v->type = made;
	return true;
}

/* ---- Attributes ---- */

bool infer_choice(Infer *in, Node *n, const char *attr, const char *const *names, int count,
		  int *out)
{
	const char *s = node_str(n, attr, names[0]);
	STRBUF_LOCAL(b);

	for (*out = 0; *out < count; ++*out)
		if (!strcmp(s, names[*out]))
			return true;
	*out = 0;
	if (!in)
		return true;
	for (int i = 0; i < count; i++)
		strbuf_printf(&b, "%s%s", !i ? "" : i + 1 < count ? ", " : " or ", names[i]);
	infer_error(in, n, "attribute \"%s\" is \"%s\", expected %s", attr, s, strbuf_str(&b));
	return false;
}

/* ---- Axes ---- */

bool infer_floats(Infer *in, Node *n, int k)
{
	const Type *t = infer_type(n, k);

	return !t || dtype_is_float(t->dtype) ||
	       infer_error(in, n, "operand %d has elements of type %s, expected floats", k + 1,
			   dtype_info[t->dtype].name);
}

bool infer_axis(Infer *in, Node *n, int64_t axis, int rank, int *out)
{
	if (axis < -rank || axis >= rank)
		return infer_error(in, n, "axis %lld is out of range for rank %d", (long long)axis,
				   rank);
	*out = (int)(axis < 0 ? axis + rank : axis);
	return true;
}

/* ---- Broadcasting ---- */

/* If a fact A <= HI holds, where A is k*s + r with constants k > 0 and r: derives a bound of s. */
static void bound_above(Infer *in, const Node *n, Dim *a, int64_t hi)
{
	Sym *const *syms = dim_syms(a), *s = syms[0];
	Dim *rest;
	int64_t k, r;

	if (infer_when(in, n) || !s || syms[1] ||
	    !dim_linear_in(in->ctx, a, s, &k, &rest) || k <= 0 || !dim_is_const(rest, &r) ||
	    __builtin_sub_overflow(hi, r, &hi) || hi / k < s->lo || hi < 0)
		return;
	if (hi / k < s->hi) {
		sym_bound(in->ctx, s, s->lo, hi / k);
		in->bounded = true;
	}
}

static const char no_broadcast[] = "dimensions do not broadcast";

static FactSize shown(Infer *in, Node *n, Dim *const *at)
{
	const FactSize s = infer_dim_shown(in, n, at);

	return s.name ? s : (FactSize){"the other is", *at};
}

/* If B is min(A, K) with K > 1, A and B broadcast only if A <= K, and then they are equal. Adds
 * that fact, and the bound that it implies. */
static bool equal_below(Infer *in, Node *n, Dim *const *at, Dim *b, Dim **out)
{
	Dim *a = *at;
	Ctx *c = in->ctx;
	int64_t lo, hi;

	dim_bounds(c, b, &lo, &hi);
	if (dim_is_const(a, NULL) || hi == DIM_INF || hi < 2 ||
	    b != dim_min(c, a, dim_const(c, hi)))
		return false;
	*out = a;
	if (!infer_le_shown(in, n, a, dim_const(c, hi), no_broadcast, shown(in, n, at),
			    (FactSize){"expected at most", dim_const(c, hi)}))
		return false;
	bound_above(in, n, a, hi);
	return true;
}

/* A dim that is 0 if A is 1 or A is R, that is, if A broadcasts to R. */
static Dim *misfit(Ctx *c, Dim *a, Dim *r)
{
	return dim_mul(c, dim_sub(c, r, a), dim_sub(c, a, dim_const(c, 1)));
}

/* Whether an earlier operation on A and R has already added that fact. */
static bool known_to_stretch(const Infer *in, Dim *a, Dim *r)
{
	Dim *zero = dim_const(in->ctx, 0), *d = misfit(in->ctx, a, r);

	for (int i = 0; i < in->graph->facts.n; i++)
		if (in->graph->facts.at[i].a == d && in->graph->facts.at[i].b == zero)
			return true;
	return false;
}

bool infer_broadcasts_to(Infer *in, Node *n, Dim *const *a, Dim *const *r, const char *what)
{
	return *a == *r || infer_equal_shown(in, n, misfit(in->ctx, *a, *r), dim_const(in->ctx, 0),
					     what, shown(in, n, a), (FactSize){"expected 1 or", *r});
}

/* Adds the fact that A is 1 or R, the result. The message shows X and Y, the two dims that
 * broadcast to R. */
static bool stretches(Infer *in, Node *n, Dim *a, Dim *r, Dim *const *x, Dim *const *y)
{
	return a == r || infer_equal_shown(in, n, misfit(in->ctx, a, r), dim_const(in->ctx, 0),
					   no_broadcast, shown(in, n, x), shown(in, n, y));
}

/* The result of broadcasting two dims that may both be 1: the larger one, but 0 if they are 0
 * and 1. It is abbreviated by a symbol, so that dims stay short over many operations. */
static Dim *stretched(Ctx *c, Dim *a, Dim *b)
{
	Dim *some = dim_min(c, dim_const(c, 1), dim_min(c, a, b));

	return dim_named(c, dim_mul(c, dim_max(c, a, b), some), "d");
}

/*
 * Broadcasts A and B: a dim that is 1 stretches to the other one. Relations that cannot be decided
 * become facts. If one of the two is itself the result of broadcasting the other, it is reused, so
 * that dims do not grow along a chain of operators.
 */
static bool broadcast_dim(Infer *in, Node *n, Dim *const *at, Dim *const *bt, Dim **out)
{
	Dim *a = *at, *b = *bt;
	Ctx *c = in->ctx;
	int64_t alo, ahi, blo, bhi;
	bool fixed_a, fixed_b;

	dim_bounds(c, a, &alo, &ahi);
	dim_bounds(c, b, &blo, &bhi);
	fixed_a = alo > 1 || dim_is_const(a, NULL);
	fixed_b = blo > 1 || dim_is_const(b, NULL);
	*out = a;
	if (a == b || dim_equals(b, 1))
		return true;
	if (dim_equals(a, 1)) {
		*out = b;
		return true;
	}
	if (equal_below(in, n, at, b, out) || equal_below(in, n, bt, a, out))
		return true;
	if (fixed_a && fixed_b)
		return infer_equal_shown(in, n, a, b, no_broadcast, shown(in, n, at),
					 shown(in, n, bt));
	if (known_to_stretch(in, b, a))
		return true;
	*out = b;
	if (known_to_stretch(in, a, b))
		return true;
	*out = fixed_a ? a : fixed_b ? b : stretched(c, a, b);
	return stretches(in, n, a, *out, at, bt) && stretches(in, n, b, *out, at, bt);
}

int infer_broadcast(Infer *in, Node *n, Dim *const *a, int ra, Dim *const *b, int rb, Dim **out)
{
	int r = ra > rb ? ra : rb;
	Dim *res[MAX_RANK];

	assert(r <= MAX_RANK);
	for (int i = 0; i < r; i++) {
		int ia = i - (r - ra), ib = i - (r - rb);

		if (ia < 0)
			res[i] = b[ib];
		else if (ib < 0)
			res[i] = a[ia];
		else if (!broadcast_dim(in, n, &a[ia], &b[ib], &res[i]))
			return -1;
	}
	memcpy(out, res, (size_t)r * sizeof *res);
	return r;
}

/* ---- The driver ---- */

bool infer_operands_typed(const Node *n)
{
	for (int i = 0; i < n->nin; i++)
		if (n->in[i].value && !n->in[i].value->type)
			return false;
	return true;
}

static bool check_tensors(Infer *in, Node *n)
{
	for (int i = 0; i < n->nin; i++) {
		Value *v = n->in[i].value;

		if (v && v->type->kind != TYPE_TENSOR && !op_table[n->op]->compound)
			return infer_error(in, n, "operand %d must be a tensor", i + 1);
		if (v && v->type->rank > MAX_RANK)
			return infer_error(in, n, "operand %d has rank %d; at most %d is supported",
					   i + 1, v->type->rank, MAX_RANK);
	}
	return true;
}

static bool check_arity(Infer *in, Node *n)
{
	const OpRow *r = &op_row[n->op];
	const char *why =
		count_fault(in->arena, "operands", n->nin, r->nin_min, r->nin_max);

	why = why ? why
		  : count_fault(in->arena, "results", n->nout, r->nout_min, r->nout_max);
	if (why)
		return infer_error(in, n, "%s", why);
	for (int i = 0; i < (r->nin_max < 0 ? n->nin : r->nin_min) && !op_table[n->op]->regions;
	     i++)
		if (!node_in(n, i))
			return infer_error(in, n, "operand %d is missing", i + 1);
	return true;
}

static bool infer_tensor_const(Infer *in, Node *n)
{
	const Tensor *t = value_const(n->out[0]);
	Dim *dims[MAX_RANK];

	if (!t)
		return infer_error(in, n, "the constant has no value");
	if (t->rank > MAX_RANK)
		return infer_error(in, n, "the constant has rank %d; at most %d is supported",
				   t->rank, MAX_RANK);
	for (int i = 0; i < t->rank; i++)
		dims[i] = dim_const(in->ctx, t->dims[i]);
	return infer_result(in, n, 0, t->dtype, t->rank, dims);
}

static char type_letter(DType t)
{
	if (dtype_is_float(t))
		return 'f';
	if (dtype_is_int(t))
		return dtype_is_signed(t) ? 'i' : 'u';
	return t == DT_BOOL ? 'b' : t == DT_STR ? 's' : '?';
}

bool infer_takes(Infer *in, Node *n, const char *types, DType t)
{
	if (!strchr(types ? types : "fiu", type_letter(t)))
		return infer_error(in, n, "elements of type %s are not supported",
				   dtype_info[t].name);
	return true;
}

static bool expand_composite(Infer *in, Node *n, const Op *op, Value **out)
{
	if (!op->expand(in, n, out))
		return false;
	if (op->infer && out[0] == n->out[0])
		return true;
	for (int i = 0; i < n->nout; i++) {
		if (!n->out[i])
			continue;
		if (!out[i])
			return infer_error(in, n, "result %d is not supported", i + 1);
		if (!out[i]->type)
			return false;
		if (!out[i]->name && out[i]->def)
			out[i]->name = n->out[i]->name;
		if (n->out[i]->type &&
		    !check_given(in, n, n->out[i], n->out[i]->type, out[i]->type))
			return false;
		check_declared(in, n, n->out[i], out[i]->type);
		value_replace(n->out[i], out[i]);
	}
	node_remove(n);
	return true;
}

/* Strings are for the operators of ir/graph/ops.def that have the flag, and for elementwise ones
 * that say so. */
static bool check_strings(Infer *in, Node *n)
{
	const bool may = op_row[n->op].flags & (OPF_INTERNAL | OPF_STRINGS) ||
			 op_table[n->op]->scalar;

	for (int i = 0; i < n->nin && !may; i++)
		if (infer_type(n, i) && infer_type(n, i)->dtype == DT_STR)
			return infer_error(in, n, "elements of type str are not supported");
	return true;
}

/* Whether N's operator takes its attributes: a name that is misspelt must not leave a default in
 * force. Which captures a node has, the reader of the text has checked. */
static bool check_attrs(Infer *in, Node *n)
{
	STRBUF_LOCAL(b);
	OpAttr declared;
	bool ok;

	if (op_row[n->op].flags & OPF_INTERNAL)
		return true;
	for (int i = 0; i < n->attrs.n; i++) {
		const Attr *a = &n->attrs.at[i];

		if (str_starts(a->name, NOTE_PREFIX) || !strcmp(a->name, ATTR_BYTE_ROWS) ||
		    (n->regions.n && !strcmp(a->name, ATTR_CAPTURES)))
			continue;
		if (!op_attr_find(n->op, a->name, &declared)) {
			op_attrs_print(&b, n->op);
			ok = diag_named_error(in->ctx->diag, node_diag(n), "attribute",
					      "has no attribute \"%s\"; the operator takes %s",
					      a->name, strbuf_str(&b));
			in->errors += !ok;
			if (!ok)
				return false;
			node_remove_attr(n, a->name);
			i--;
			continue;
		}
		if (strcmp(declared.kind, attr_kind_name(a->kind)) != 0)
			return infer_error(
				in, n, "attribute \"%s\" is of kind %s, and the operator takes %s",
				a->name, attr_kind_name(a->kind), declared.kind);
	}
	return true;
}

/* Calls the functions of N's operator. If one of them creates a node that cannot be inferred,
 * expand_finish_all returns here. */
static bool infer_by_op(Infer *in, Node *n, const Op *op, Value **out)
{
	Expansion here = {.outer = in->expansion, .iteration = in->iteration};
	bool ok;

	in->expansion = &here;
	if (setjmp(here.end))
		ok = false;
	else if (op->infer)
		ok = op->infer(in, n) && (!op->expand || expand_composite(in, n, op, out));
	else if (op->scalar)
		ok = infer_elementwise(in, n);
	else if (op->expand)
		ok = expand_composite(in, n, op, out);
	else
		ok = infer_error(in, n, "the operator is not supported yet");
	in->expansion = here.outer;
	in->iteration = here.iteration; /* it may have ended in a loop that it built */
	return ok;
}

bool infer_or_expand(Infer *in, Node *n, Value **out)
{
	const Op *op = op_table[n->op];
	int before = in->errors;
	bool ok;

	for (int i = 0; i < n->nout; i++)
		out[i] = n->out[i];
	if (!infer_operands_typed(n) || n->op == OP_Kernel)
		return n->op == OP_Kernel;
	if (n->regions.n && !op->regions)
		return infer_error(in, n,
				   "attribute \"%s\" holds a graph, and the operator takes none",
				   n->regions.at[0]->name);
	if (!check_arity(in, n) || !check_attrs(in, n))
		return false;
	if (n->op == OP_Const)
		return infer_tensor_const(in, n) && in->errors == before;
	if (!check_tensors(in, n) || !check_strings(in, n))
		return false;
	if (op->types && !op->scalar && infer_type(n, 0) && infer_type(n, 0)->kind == TYPE_TENSOR &&
	    !infer_takes(in, n, op->types, infer_type(n, 0)->dtype))
		return false;
	ok = infer_by_op(in, n, op, out);
	assert(ok || in->errors > before || op->expand);
	return ok && in->errors == before;
}

bool infer_node(Infer *in, Node *n)
{
	ARENA_LOCAL(tmp);
	DiagLoc before = diag_at(in->ctx, node_diag(n));
	const Type **given = NEW_ARRAY(tmp, n->nout + 1, const Type *); /* by a text */
	bool ok;

	for (int i = 0; i < n->nout; i++)
		given[i] = n->out[i] ? n->out[i]->type : NULL;
	ok = infer_or_expand(in, n, NEW_ARRAY(tmp, n->nout, Value *));
	/* Clear partial results, so that no later code lowers a node whose inference failed. */
	for (int i = 0; i < n->nout && !ok; i++)
		if (n->out[i] && n->out[i]->type == given[i])
			n->out[i]->type = NULL;
	diag_at(in->ctx, before);
	return ok;
}

/* Simplifies types with bounds that later nodes have added. */
static void refresh_types(Infer *in)
{
	for (Node *n = in->graph->first; n; n = n->next)
		for (int k = 0; k < n->nout; k++) {
			const Type *t = n->out[k] ? n->out[k]->type : NULL;
			Dim *dims[MAX_RANK];

			if (!t || t->kind != TYPE_TENSOR || t->layout)
				continue;
			for (int i = 0; i < t->rank; i++)
				dims[i] = dim_refresh(in->ctx, t->dims[i]);
			n->out[k]->type = type_tensor(in->ctx, t->dtype, t->rank, dims);
		}
	in->bounded = false;
}

bool infer_nodes(Infer *in, Node *first, Node *stop)
{
	const int errors = in->errors;
	Node *next;
	bool ok = true;

	for (Node *n = first; n != stop; n = next) {
		next = n->next;
		if (n->op == OP_If && control_known(in, n, &next))
			continue;
		ok &= infer_node(in, n) ||
		      (in->unmerged && n->op == OP_If && control_both(in, n, stop, &next));
		if (in->unmerged)
			return false;
	}
	return ok && in->errors == errors;
}

bool infer_graph_run(Infer *in)
{
	bool ok;

	if (!parts_of_inputs(in))
		return false;
	ok = infer_nodes(in, in->graph->first, NULL);
	if (in->unmerged)
		infer_fault(in, in->unmerged_at, in->unmerged);
	if (in->bounded)
		refresh_types(in);
	return ok && !in->errors && parts_of_results(in);
}
