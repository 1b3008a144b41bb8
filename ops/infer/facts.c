/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relations between sizes that operators need: proved, refuted with a diagnostic, or left to run
 * time as facts of the graph. The message of a fact that fails shows two sizes and where they come
 * from:
 *
 *     node "x" (Add): dimensions do not broadcast: dim 2 of "a" from Conv "c1" is 3, dim 2 of "b"
 * from Resize "r" is 2
 */
#include "ops/infer/infer.h"

enum {
	NAME_SHOWN =
		40, /* limit on a name: a message has up to five, in 508 bytes */
	SIZE_SHOWN =
		60, /* bytes of a size as an expression: a longer one says little to a reader */
};

/* Dim AXIS of operand K; K is -1: no operand. */
typedef struct OperandDim {
	int k, axis;
} OperandDim;

/* The last bytes of NAME, which tell more than the first. */
static const char *name_shown(Infer *in, const char *name)
{
	size_t n = strlen(name);

	if (n <= NAME_SHOWN)
		return name;
	name += n - (NAME_SHOWN - 3);
	while ((*name & 0xc0) == 0x80)
		name++;
	return arena_printf(in->arena, "...%s", name);
}

/* Prints `"a" from Conv "c1"`. A value without a name is printed as operand K, or as a value that
 * the expansion of N's node created, which the file does not have. */
static const char *value_shown(Infer *in, const Node *n, const Value *v, int k)
{
	const Loc user = node_loc(n), maker = v->def ? node_loc(v->def) : user;
	const bool inner = v->def && maker.node && user.node && !strcmp(maker.node, user.node);
	const char *text = v->name ? arena_printf(in->arena, "%s\"%s\"", v->def ? "" : "input ",
						  name_shown(in, v->name))
			   : inner ? "an intermediate value"
				   : arena_printf(in->arena, "operand %d", k + 1);

	if (!v->def || v->def->op == OP_Const || !maker.node || inner)
		return text;
	return arena_printf(in->arena, "%s from %s \"%s\"", text,
			    maker.op ? name_shown(in, maker.op) : "node",
			    name_shown(in, maker.node));
}

/* The operand of N that D is a size of: none where D is a constant, which a dim may equal by
 * chance. */
static OperandDim find_dim(const Node *n, const Dim *d)
{
	for (int k = 0; k < n->nin && !dim_is_const(d, NULL); k++) {
		const Type *t = infer_type(n, k);

		for (int i = 0; t && i < t->rank; i++)
			if (t->dims[i] == d)
				return (OperandDim){k, i};
	}
	return (OperandDim){-1, 0};
}

static const char *operand_dim_name(Infer *in, const Node *n, OperandDim o)
{
	return arena_printf(in->arena, "dim %d of %s is", o.axis,
			    value_shown(in, n, node_in(n, o.k), o.k));
}

/* "dim 2 of ... is", "element 0 of ... is"; null where D is neither. */
static const char *size_name(Infer *in, const Node *n, Dim *d)
{
	const OperandDim o = find_dim(n, d);
	const Sym *s = dim_as_sym(d);
	const SymSource from = s ? graph_source(in->graph, s) : (SymSource){0};
	int operand = 0;

	if (o.k >= 0)
		return operand_dim_name(in, n, o);
	if (!from.value)
		return NULL;
	while (operand < n->nin && node_in(n, operand) != from.value)
		operand++;
	if (operand == n->nin && !from.value->name)
		return NULL;
	return arena_printf(in->arena, "element %lld of %s is", (long long)from.at,
			    value_shown(in, n, from.value, operand < n->nin ? operand : 0));
}

/* Finds the dim at AT in the operands of N from FROM onwards; its k is -1 if no operand has it. */
static OperandDim place_of(const Node *n, int from, Dim *const *at)
{
	for (int k = from; k < n->nin; k++) {
		const Type *t = infer_type(n, k);

		for (int i = 0; t && i < t->rank; i++)
			if (&t->dims[i] == at)
				return (OperandDim){k, i};
	}
	return (OperandDim){-1, 0};
}

/* The size at AT, shown as dim O of an operand if it is one. */
static FactSize shown_as(Infer *in, const Node *n, OperandDim o, Dim *const *at)
{
	return (FactSize){o.k < 0 ? size_name(in, n, *at) : operand_dim_name(in, n, o), *at};
}

FactSize infer_dim_shown(Infer *in, Node *n, Dim *const *at)
{
	return shown_as(in, n, place_of(n, 0, at), at);
}

static void put_size(Infer *in, StrBuf *b, Dim *d)
{
	STRBUF_LOCAL(s);
	int64_t lo, hi;

	dim_print(&s, d);
	dim_bounds(in->ctx, d, &lo, &hi);
	if (s.n <= SIZE_SHOWN)
		strbuf_puts(b, strbuf_str(&s));
	else if (hi == DIM_INF)
		strbuf_printf(b, "%lld or more", (long long)lo);
	else
		strbuf_printf(b, "in %lld..%lld", (long long)lo, (long long)hi);
}

/* Names the sizes of SHOW that have no name. BOTH: there are two sizes, which are related by <= (if
 * LE) or ==. */
static void name_sizes(Infer *in, const Node *n, FactSize *show, bool le, bool both)
{
	const char *const limit[] = {le ? "expected at least" : "expected",
				     le ? "expected at most" : "expected"};

	for (int k = 0; k < 2; k++)
		if (show[k].dim && !show[k].name)
			show[k].name = size_name(in, n, show[k].dim);
	if (both && !show[0].name != !show[1].name) {
		const FactSize first = show[!show[0].name];
		const FactSize second = {limit[!!show[0].name], show[!!show[0].name].dim};

		show[0] = first;
		show[1] = second;
	}
	for (int k = 0; k < 2; k++)
		if (!show[k].name)
			show[k] = (FactSize){NULL, NULL};
	if (!show[0].dim) {
		show[0] = show[1];
		show[1] = (FactSize){NULL, NULL};
	}
}

static bool fact_fails(Infer *in, Node *n, const Fact *f)
{
	STRBUF_LOCAL(b);
	FactSize size;

	strbuf_puts(&b, f->what);
	for (int k = 0; fact_size(in->arena, f, k, &size); k++) {
		strbuf_puts(&b, size.name);
		put_size(in, &b, size.dim);
	}
	infer_error(in, n, "%s", strbuf_str(&b));
	return false;
}

/* The dim that is 0 if the equality F holds: A - B, or x - y if F states that "x == y", as a
 * number, is 1. */
static Dim *zero_of(Ctx *c, const Fact *f)
{
	Dim *condition = dim_equals(f->b, 1) ? dim_as_eq(c, f->a) : NULL;

	return condition ? condition : dim_sub(c, f->a, f->b);
}

/* If ZERO, which is 0, states a constant of a symbol, notes it: TO of dim_subst. */
static void note_constant(Ctx *c, Dim *zero, Dim **to)
{
	Dim *rest = dim_sub(c, zero, dim_const(c, dim_const_part(zero)));
	const Sym *s = dim_as_sym(rest);

	if (s)
		to[s->id] = dim_sub(c, rest, zero);
}

/* Whether A == B follows from an equality of G: where symbols have the constants that others state,
 * A - B is a multiple of the dim that is 0. */
static bool follows(const Graph *g, Dim *a, Dim *b)
{
	ARENA_LOCAL(tmp);
	Ctx *c = g->ctx;
	const int n = sym_count(c);
	Dim **to = NEW_ARRAY(tmp, n + 1, Dim *), *d, *q;
	DimList zeros = {0};

	VEC_EACH_AT (f, &g->facts)
		if (!f->le) {
			vec_push(tmp, &zeros, zero_of(c, f));
			note_constant(c, zeros.at[zeros.n - 1], to);
		}
	d = dim_subst(c, dim_sub(c, a, b), to, n);
	if (dim_equals(d, 0))
		return true;
	VEC_EACH (zero, &zeros)
		if (dim_divides(c, d, dim_subst(c, zero, to, n), &q))
			return true;
	return false;
}

/* Whether G states the fact, or facts from which it follows. */
static bool known(const Graph *g, Dim *a, Dim *b, bool le)
{
	VEC_EACH_AT (f, &g->facts)
		if (f->le == le && f->a == a && f->b == b)
			return true;
	return !le && follows(g, a, b);
}

/* A fact, or, where BROKEN, an error. Nodes that never run, as in the body of a loop of 0
 * iterations, need nothing. */
static bool leave_to_run_time(Infer *in, Node *n, Fact f, bool both, bool broken)
{
	Dim *when = infer_when(in, n);

	if (when && dim_equals(when, 0))
		return true;
	if (when && !broken) {
		f.a = dim_mul(in->ctx, when, f.a);
		f.b = dim_mul(in->ctx, when, f.b);
	}
	if (!broken && known(in->graph, f.a, f.b, f.le))
		return true;
	f.loc = node_loc(n);
	name_sizes(in, n, f.show, f.le, both);
	if (broken)
		return fact_fails(in, n, &f);
	vec_push(in->graph->arena, &in->graph->facts, f);
	return true;
}

static bool equal(Infer *in, Node *n, const Fact *f, bool both)
{
	int64_t lo, hi;
	Dim *diff;

	if (f->a == f->b)
		return true;
	diff = dim_sub(in->ctx, f->a, f->b);
	if (dim_equals(diff, 0))
		return true;
	dim_bounds(in->ctx, diff, &lo, &hi);
	return leave_to_run_time(in, n, *f, both, lo > 0 || hi < 0);
}

bool infer_equal(Infer *in, Node *n, Dim *a, Dim *b, const char *what)
{
	const Fact f = {.a = a, .b = b, .what = what, .show = {{NULL, a}, {NULL, b}}};

	return equal(in, n, &f, true);
}

bool infer_equal_shown(Infer *in, Node *n, Dim *a, Dim *b, const char *what, FactSize x, FactSize y)
{
	const Fact f = {.a = a, .b = b, .what = what, .show = {x, y}};

	return equal(in, n, &f, false);
}

bool infer_equal_dims(Infer *in, Node *n, Dim *const *a, Dim *const *b, const char *what)
{
	OperandDim x, y, other;

	if (*a == *b)
		return true;
	x = place_of(n, 0, a);
	y = place_of(n, 0, b);
	/* Operands of one type share the array of its dims: where A and B are in one array, B is
	 * taken for a dim of the next operand that has it. */
	other = y.k >= 0 && y.k == x.k ? place_of(n, y.k + 1, b) : (OperandDim){-1, 0};
	if (other.k >= 0)
		y = other;
	return infer_equal_shown(in, n, *a, *b, what, shown_as(in, n, x, a), shown_as(in, n, y, b));
}

bool infer_same_shape(Infer *in, Node *n, const Type *a, const Type *b, const char *what)
{
	if (a->rank != b->rank)
		return infer_error(in, n, "%s: the ranks are %d and %d", what, a->rank, b->rank);
	for (int d = 0; d < a->rank; d++)
		if (!infer_equal_dims(in, n, &a->dims[d], &b->dims[d], what))
			return false;
	return true;
}

bool infer_dim_equals(Infer *in, Node *n, Dim *const *a, Dim *b, const char *what)
{
	const Fact f = {
		.a = *a, .b = b, .what = what, .show = {infer_dim_shown(in, n, a), {NULL, b}}};

	return equal(in, n, &f, true);
}

/* Whether S is read from a value that is computed wherever the node N runs, and only there. */
static bool read_beside(const Node *n, const Sym *s)
{
	const Node *def = graph_source(n->graph, s).value->def;
	int depth = 0;

	for (n = n->prev; n && n != def; n = n->prev) {
		if (!depth &&
		    (n->op == OP_When || n->op == OP_Else || n->op == OP_For || n->op == OP_While))
			return false;
		depth += (n->op == OP_EndFor || n->op == OP_EndWhen) -
			 (n->op == OP_For || n->op == OP_When);
	}
	return n && !depth;
}

/* Whether S is read from a value of the graph. */
static bool is_read(const Infer *in, const Sym *s)
{
	return s && graph_source(in->graph, s).value;
}

/* A fact bounds a symbol that is read from data: records the bound in the symbol. */
static void tighten(Infer *in, const Node *n, Dim *a, Dim *b)
{
	const bool always = !infer_when(in, n);
	Sym *s = dim_as_sym(b);
	int64_t v;

	if (is_read(in, s) && dim_is_const(a, &v) && v > s->lo && (always || read_beside(n, s)))
		sym_bound(in->ctx, s, v, s->hi);
	s = dim_as_sym(a);
	if (is_read(in, s) && dim_is_const(b, &v) && v < s->hi && (always || read_beside(n, s)))
		sym_bound(in->ctx, s, s->lo, v);
}

static bool at_most(Infer *in, Node *n, const Fact *f, bool both)
{
	int64_t lo, hi;

	if (dim_prove_le(in->ctx, f->a, f->b))
		return true;
	dim_bounds(in->ctx, dim_sub(in->ctx, f->b, f->a), &lo, &hi);
	if (!leave_to_run_time(in, n, *f, both, hi < 0))
		return false;
	tighten(in, n, f->a, f->b);
	return true;
}

bool infer_le(Infer *in, Node *n, Dim *a, Dim *b, const char *what)
{
	const Fact f = {.a = a, .b = b, .le = true, .what = what, .show = {{NULL, a}, {NULL, b}}};

	return at_most(in, n, &f, true);
}

bool infer_le_shown(Infer *in, Node *n, Dim *a, Dim *b, const char *what, FactSize x, FactSize y)
{
	const Fact f = {.a = a, .b = b, .le = true, .what = what, .show = {x, y}};

	return at_most(in, n, &f, false);
}
