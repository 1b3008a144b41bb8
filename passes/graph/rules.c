/* SPDX-License-Identifier: Apache-2.0 */
/* Equations over graph operators: parses their text once, matches it with nodes, and builds the
 * right sides. */
#include "passes/graph/rules.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const Rule rule_table[] = {
#define RULE(name, lhs, rhs, where, example, flags) {name, lhs, rhs, where, example, RULE_##flags},
#include "passes/graph/rules.def"
#undef RULE
	{0},
};

enum { MAX_ARGS = 4, MAX_NAMES = 8, MAX_NODES = 8 };

typedef enum PatKind {
	PAT_VALUE,
	PAT_NUMBER,
	PAT_OP,
	/* on the right side: a node with the operator and attributes of the labelled node of the
	 * left side */
	PAT_LIKE,
	PAT_CALL
} PatKind;

typedef struct Pat {
	PatKind kind;
	const char *name;  /* of the value, of the function, or of the labelled node */
	const char *label; /* label of the node, or null */
	OpKind op, or ;    /* OR: the second operator of A|B, or OP_NONE */
	/* PAT_NUMBER: the number; PAT_VALUE with HAS_NUMBER: the number that replaces an absent
	 * value */
	double number;
	bool optional, has_number;
	struct Pat *arg[MAX_ARGS];
	int nargs;
	struct Pat
		*attr; /* a call of a function that changes attributes of the new node, or null */
} Pat;

typedef struct Equation {
	const Rule *rule;
	Pat *lhs, *rhs;
	VEC(Pat *) where;
} Equation;

struct RuleSet {
	Arena *arena;
	VEC(Equation) at;
};

/* ---- Reading ---- */

typedef struct RuleText {
	Arena *arena;
	const Rule *rule;
	const char *p;
} RuleText;

/* Reports a mistake in the table. Every run would report it. */
static void must(const RuleText *t, bool ok, const char *wants)
{
	if (ok)
		return;
	fprintf(stderr,
		"passes/graph/rules.def: rule \"%s\": expected %s at \"%s\" of %s = %s where %s\n",
		t->rule->name, wants, t->p, t->rule->lhs, t->rule->rhs, t->rule->where);
	abort();
}

static char peek(RuleText *t)
{
	while (*t->p == ' ')
		t->p++;
	return *t->p;
}

static bool take(RuleText *t, char c)
{
	if (peek(t) != c)
		return false;
	t->p++;
	return true;
}

static const char *read_name(RuleText *t)
{
	const char *from = t->p;

	while (isalnum((unsigned char)*t->p) || *t->p == '_')
		t->p++;
	must(t, t->p > from, "a name");
	return arena_strndup(t->arena, from, (size_t)(t->p - from));
}

static bool read_number(RuleText *t, double *v)
{
	char *end;

	if (!isdigit((unsigned char)peek(t)) && *t->p != '-')
		return false;
	*v = strtod(t->p, &end);
	t->p = end;
	return true;
}

static OpKind must_be_op(const RuleText *t, const char *name)
{
	const OpKind op = op_by_name(name);

	must(t, op, "the name of an operator");
	return op;
}

static Pat *read_pat(RuleText *t)
{
	Pat *p = NEW(t->arena, Pat);

	if (read_number(t, &p->number)) {
		p->kind = PAT_NUMBER;
		p->optional = take(t, '?');
		return p;
	}
	p->name = read_name(t);
	if (take(t, '|'))
		p->or = must_be_op(t, read_name(t));
	if (take(t, ':'))
		p->label = read_name(t);
	if (take(t, '?')) {
		p->optional = true;
		p->has_number = read_number(t, &p->number);
	}
	if (!take(t, '('))
		return p;
	p->kind = isupper((unsigned char)*p->name) ? PAT_OP : PAT_CALL;
	p->op = p->kind == PAT_OP ? must_be_op(t, p->name) : OP_NONE;
	do {
		must(t, p->nargs < MAX_ARGS, "fewer arguments");
		p->arg[p->nargs++] = read_pat(t);
	} while (take(t, ','));
	must(t, take(t, ')'), "')'");
	if (take(t, '{')) {
		p->attr = read_pat(t);
		must(t, take(t, '}'), "'}'");
	}
	return p;
}

static Pat *read_side(RuleText *t, const char *text)
{
	Pat *p;

	t->p = text;
	p = read_pat(t);
	must(t, !peek(t), "the end");
	return p;
}

/* ---- Matching ---- */

typedef struct BoundName {
	const char *name;
	Value *v;
} BoundName;

typedef struct RuleMatch {
	BoundName name[MAX_NAMES]; /* values, and results of labelled nodes */
	int nnames;
	Node *node[MAX_NODES]; /* all nodes of the left side, the root first */
	int nnodes;
} RuleMatch;

/* The value named NAME; null if it is absent. */
static Value *lookup(const RuleMatch *m, const char *name)
{
	for (int i = 0; i < m->nnames; i++)
		if (!strcmp(m->name[i].name, name))
			return m->name[i].v;
	return NULL;
}

static bool bind(RuleMatch *m, const char *name, Value *v)
{
	for (int i = 0; i < m->nnames; i++)
		if (!strcmp(m->name[i].name, name))
			return m->name[i].v == v;
	assert(m->nnames < MAX_NAMES);
	m->name[m->nnames++] = (BoundName){name, v};
	return true;
}

static bool match(RuleMatch *m, const Pat *p, Value *v);

static bool match_args(RuleMatch *m, const Pat *p, const Node *n, bool swapped)
{
	for (int i = 0; i < p->nargs; i++) {
		Value *v = i < n->nin ? node_in(n, swapped ? 1 - i : i) : NULL;

		if (!v && p->arg[i]->optional) {
			if (p->arg[i]->kind == PAT_VALUE && !bind(m, p->arg[i]->name, NULL))
				return false;
		} else if (!match(m, p->arg[i], v)) {
			return false;
		}
	}
	return true;
}

static bool match_op(RuleMatch *m, const Pat *p, Value *v)
{
	Node *n = v->def;
	RuleMatch before;
	int nin = n ? n->nin : 0;

	if (!n || (n->op != p->op && n->op != p->or) || v->index)
		return false;
	while (nin && !node_in(n, nin - 1))
		nin--;
	for (int i = 1; i < n->nout; i++)
		if (n->out[i])
			return false;
	if (nin > p->nargs || (p->label && !bind(m, p->label, v)))
		return false;
	assert(m->nnodes < MAX_NODES);
	m->node[m->nnodes++] = n;
	before = *m;
	if (match_args(m, p, n, false))
		return true;
	*m = before;
	return nin == 2 && op_table[n->op]->commutative && match_args(m, p, n, true);
}

static bool match(RuleMatch *m, const Pat *p, Value *v)
{
	double x;

	if (!v)
		return false;
	switch (p->kind) {
	case PAT_VALUE: return bind(m, p->name, v);
	case PAT_NUMBER:
		return canon_splat(v, &x) && x == p->number && !signbit(x) == !signbit(p->number);
	case PAT_OP: return match_op(m, p, v);
	case PAT_LIKE:
	case PAT_CALL: break;
	}
	return false;
}

/* ---- Conditions ---- */

/* Each predicate is called with values that exist, in the order of the condition's arguments. */

static bool is_once(Canon *c, const Node *root, Value *const *v)
{
	(void)c;
	(void)root;
	return value_used_once(v[0]);
}

static bool is_weights(Canon *c, const Node *root, Value *const *v)
{
	(void)root;
	return value_is_weights(c->m, v[0]);
}

static bool is_ints(Canon *c, const Node *root, Value *const *v)
{
	(void)c;
	(void)root;
	return dtype_is_int(v[0]->type->dtype);
}

static bool is_own_weights(Canon *c, const Node *root, Value *const *v)
{
	(void)c;
	(void)root;
	return v[0]->def->op != OP_ConvTranspose || node_int(v[0]->def, "group", 1) == 1;
}

/* Whether V is a power of two with an exact reciprocal, so that multiplying by the reciprocal
 * overflows only if dividing does. */
static bool is_power2(Canon *c, const Node *root, Value *const *v)
{
	double x;
	int e;

	(void)c;
	(void)root;
	return dtype_is_float(v[0]->type->dtype) && canon_splat(v[0], &x) && isfinite(x) &&
	       fabs(frexp(x, &e)) == 0.5 && e > -8 && e < 8;
}

static bool is_divisor(Canon *c, const Node *root, Value *const *v)
{
	double x;

	(void)c;
	(void)root;
	return v[0]->type->dtype == DT_F32 && canon_splat(v[0], &x) && fabs(x) >= 1.0 / 128 &&
	       fabs(x) <= 128;
}

static bool is_channels(Canon *c, const Node *root, Value *const *v)
{
	const Type *t = v[0]->type, *y = v[1]->type;

	if (root->out[0]->type != y || !dim_is_const(y->dims[1], NULL) ||
	    !value_is_weights(c->m, v[0]))
		return false;
	for (int i = 0; i < t->rank; i++) {
		int axis = y->rank - t->rank + i;

		if (!dim_equals(t->dims[i], 1) && (axis != 1 || t->dims[i] != y->dims[1]))
			return false;
	}
	return true;
}

/* Whether the Pad node P adds constant, nonnegative numbers of zeros around the dims after the
 * second, and none around the first two. */
static bool zero_pads(Canon *c, const Node *p, int64_t *before, int64_t *after)
{
	int rank = infer_type(p, 0)->rank, n;
	const int64_t *pads = infer_const_ints(c->in, node_in(p, 1), &n);

	if (strcmp(node_str(p, "mode", "constant"), "constant") || !pads || n != 2 * rank)
		return false;
	for (int d = 0; d < rank; d++) {
		before[d] = pads[d];
		after[d] = pads[rank + d];
		if (before[d] < 0 || after[d] < 0 || before[d] + after[d] > INT16_MAX ||
		    (d < 2 && before[d] + after[d]))
			return false;
	}
	return true;
}

static bool is_zeros_around(Canon *c, const Node *root, Value *const *v)
{
	int64_t before[MAX_RANK], after[MAX_RANK];
	const char *mode = node_str(root, "auto_pad", "NOTSET");

	return (!strcmp(mode, "NOTSET") || !*mode) && zero_pads(c, v[0]->def, before, after);
}

static const struct Condition {
	const char *name;
	int nargs;
	bool (*holds)(Canon *c, const Node *root, Value *const *v);
} conditions[] = {
	{"once", 1, is_once},
	{"weights", 1, is_weights},
	{"ints", 1, is_ints},
	{"own_weights", 1, is_own_weights},
	{"power2", 1, is_power2},
	{"divisor", 1, is_divisor},
	{"channels", 2, is_channels},
	{"zeros_around", 1, is_zeros_around},
};

static const struct Condition *condition(const char *name)
{
	for (size_t i = 0; i < sizeof conditions / sizeof *conditions; i++)
		if (!strcmp(conditions[i].name, name))
			return &conditions[i];
	return NULL;
}

static bool holds(Canon *c, const Pat *p, const RuleMatch *m)
{
	Value *v[MAX_ARGS];

	for (int i = 0; i < p->nargs; i++) {
		v[i] = lookup(m, p->arg[i]->name);
		if (!v[i])
			return true;
	}
	return condition(p->name)->holds(c, m->node[0], v);
}

/* ---- Building ---- */

typedef struct Build {
	Canon *c;
	Value *(*value)(void *arg, const char *name);
	void *arg;
	const RuleMatch *m; /* null: builds the left side, for the test */
	Node *before;
	/* the alternatives of the left side that are still to be chosen, one bit each */
	unsigned pick;
} Build;

/* S, with one element or one for each channel, reshaped so that its channels are dim AXIS of RANK
 * dims. */
static Value *spread(Build *b, Value *s, int axis, int rank)
{
	Ctx *c = b->c->m->ctx;
	Dim *dims[MAX_RANK];

	for (int i = 0; i < rank; i++)
		dims[i] = i == axis ? type_numel(c, s->type) : dim_const(c, 1);
	return canon_view(b->c, b->before, s, type_tensor(c, s->type->dtype, rank, dims));
}

/* S reshaped to scale convolution C's weights by output channel, which is dim 0, for a
 * ConvTranspose dim 1. */
static Value *fn_of_outputs(Build *b, Value *const *arg)
{
	return spread(b, arg[0], arg[2]->def->op == OP_ConvTranspose ? 1 : 0, arg[1]->type->rank);
}

/* S as a vector with an element for each channel of C's result. */
static Value *fn_vector(Build *b, Value *const *arg)
{
	Value *v = spread(b, arg[0], 0, 1);
	int64_t channels;

	dim_is_const(arg[1]->type->dims[1], &channels);
	if (dim_equals(v->type->dims[0], channels))
		return v;
	return canon_node(b->c, b->before, OP_Expand,
			  (Value *[]){v, graph_const_ints(b->c->g, &channels, 1, b->before)}, 2);
}

/* A, the amounts of a Pad before Transpose T, in the order of T's result. */
static Value *fn_permuted(Build *b, Value *const *arg)
{
	int64_t perm[MAX_RANK], at[MAX_RANK * 2];
	const int rank = arg[1]->type->rank;

	canon_transpose_perm(arg[1]->def, perm);
	for (int i = 0; i < rank; i++) {
		at[i] = perm[i];
		at[rank + i] = rank + perm[i];
	}
	return canon_node(b->c, b->before, OP_Gather,
			  (Value *[]){arg[0], graph_const_ints(b->c->g, at, 2 * rank, b->before)},
			  2);
}

static const struct Function {
	const char *name;
	Value *(*build)(Build *b, Value *const *arg);
} functions[] = {{"of_outputs", fn_of_outputs}, {"vector", fn_vector}, {"permuted", fn_permuted}};

static const struct Function *function(const char *name)
{
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
		if (!strcmp(functions[i].name, name))
			return &functions[i];
	return NULL;
}

/* Sets X's pads to its own plus those of the Pad node that made V. */
static void attr_padded(Build *b, Node *x, Value *v)
{
	int64_t before[MAX_RANK], after[MAX_RANK], pads[MAX_RANK * 2];
	int rank = v->type->rank, have;
	const int64_t *old = node_ints(x, "pads", &have);

	zero_pads(b->c, v->def, before, after);
	for (int d = 2; d < rank; d++) {
		pads[d - 2] = before[d] + (have > 0 ? old[d - 2] : 0);
		pads[rank - 2 + d - 2] = after[d] + (have > 0 ? old[rank - 2 + d - 2] : 0);
	}
	node_set_ints(x, "pads", pads, 2 * (rank - 2));
}

static const struct AttrFunction {
	const char *name;
	void (*change)(Build *b, Node *x, Value *v);
} attr_functions[] = {{"padded", attr_padded}};

static const struct AttrFunction *attr_function(const char *name)
{
	for (size_t i = 0; i < sizeof attr_functions / sizeof *attr_functions; i++)
		if (!strcmp(attr_functions[i].name, name))
			return &attr_functions[i];
	return NULL;
}

/* A labelled node gets the location of the node that it replaces first, then those of the other
 * nodes of the left side. */
static void locate(Build *b, Node *x, const Node *like)
{
	if (like)
		node_locs_from(x, like);
	for (int i = 0; b->m && i < b->m->nnodes; i++)
		node_locs_from(x, b->m->node[i]);
}

/* The next alternative of the left side. */
static bool picked(Build *b)
{
	const bool yes = b->pick & 1;

	b->pick >>= 1;
	return yes;
}

/* Converts numbers among the operands ARG of P to scalars of the type of the other operands. */
static void build_numbers(Build *b, const Pat *p, Value **arg)
{
	DType t = DT_F32;

	for (int i = p->nargs - 1; i >= 0; i--)
		t = arg[i] && arg[i]->type ? arg[i]->type->dtype : t;
	for (int i = 0; i < p->nargs; i++) {
		const Pat *a = p->arg[i];

		if (!arg[i] && (b->m ? a->kind == PAT_NUMBER || a->has_number
				     : a->kind == PAT_NUMBER && !(a->optional && picked(b))))
			arg[i] = graph_const_scalar(b->c->g, t, a->number, b->before);
	}
}

static Value *build(Build *b, const Pat *p);

static Value *build_node(Build *b, const Pat *p, Value *const *arg)
{
	const Node *like = p->kind == PAT_LIKE ? lookup(b->m, p->name)->def : NULL;
	OpKind op = like ? like->op : p->or &&picked(b) ? p->or : p->op;
	int n = p->nargs;
	Node *x;

	while (n && !arg[n - 1])
		n--;
	x = node_new(b->c->g, op, arg, n, 1, b->before);
	locate(b, x, like);
	for (int i = 0; like && i < like->attrs.n; i++)
		node_set_attr(x, like->attrs.at[i]);
	if (p->attr)
		attr_function(p->attr->name)->change(b, x, b->value(b->arg, p->attr->arg[0]->name));
	return infer_node(b->c->in, x) ? x->out[0] : NULL;
}

/* Builds P; null if P is absent, or a node of the left side cannot be built. */
static Value *build(Build *b, const Pat *p)
{
	Value *arg[MAX_ARGS] = {NULL};

	if (p->kind == PAT_VALUE)
		return !b->m && p->optional && picked(b) ? NULL : b->value(b->arg, p->name);
	for (int i = 0; i < p->nargs; i++)
		if (p->arg[i]->kind != PAT_NUMBER)
			arg[i] = build(b, p->arg[i]);
	build_numbers(b, p, arg);
	for (int i = 0; i < p->nargs; i++)
		if (!arg[i] && !(p->arg[i]->optional && !b->m) && p->kind != PAT_LIKE)
			return NULL;
	return p->kind == PAT_CALL ? function(p->name)->build(b, arg) : build_node(b, p, arg);
}

Value *rule_example(Canon *c, int at, unsigned pick, Value *(*value)(void *arg, const char *name),
		    void *arg)
{
	Build b = {.c = c, .value = value, .arg = arg, .pick = pick};
	Value *v = build(&b, c->rules->at.at[at].lhs);

	return b.pick ? NULL : v;
}

/* ---- The table ---- */

static bool has_label(const Pat *p, const char *label)
{
	if (p->label && !strcmp(p->label, label))
		return true;
	for (int i = 0; i < p->nargs; i++)
		if (has_label(p->arg[i], label))
			return true;
	return false;
}

/* Whether side P mentions NAME, a value or the label of a node. */
static bool has_name(const Pat *p, const char *name)
{
	if (!strcmp(p->kind == PAT_VALUE ? p->name : p->label ? p->label : "", name))
		return true;
	for (int i = 0; i < p->nargs; i++)
		if (has_name(p->arg[i], name))
			return true;
	return false;
}

/* Checks that the values, nodes and functions that right side P mentions exist. */
static void must_know(RuleText *t, const Pat *lhs, Pat *p)
{
	if (p->kind == PAT_CALL && has_label(lhs, p->name))
		p->kind = PAT_LIKE;
	t->p = p->name ? p->name : "";
	must(t, p->kind != PAT_CALL || function(p->name), "a function of rules.c");
	must(t, p->kind != PAT_VALUE || has_name(lhs, p->name), "a name of the left side");
	if (p->attr) {
		t->p = p->attr->name;
		must(t, p->attr->nargs == 1 && attr_function(p->attr->name),
		     "a function of rules.c for attributes");
	}
	for (int i = 0; i < p->nargs; i++)
		must_know(t, lhs, p->arg[i]);
}

/* Checks that P is an existing predicate on values of the left side. */
static void must_hold(RuleText *t, const Pat *lhs, const Pat *p)
{
	t->p = p->name ? p->name : "";
	must(t, p->kind == PAT_CALL && condition(p->name), "a predicate of rules.c");
	must(t, p->nargs == condition(p->name)->nargs, "as many arguments as the predicate has");
	for (int i = 0; i < p->nargs; i++)
		must(t, p->arg[i]->kind == PAT_VALUE && has_name(lhs, p->arg[i]->name),
		     "a predicate over names of the left side");
}

RuleSet *rules_read(Arena *a)
{
	RuleSet *set = NEW(a, RuleSet);

	set->arena = a;
	for (const Rule *r = rule_table; r->name; r++) {
		Equation e = {.rule = r};
		RuleText t = {a, r, r->lhs};

		e.lhs = read_side(&t, r->lhs);
		must(&t, e.lhs->kind == PAT_OP, "an operator as the left side");
		t.p = r->rhs;
		e.rhs = read_side(&t, r->rhs);
		must(&t, e.rhs->kind != PAT_NUMBER, "a value or an operator as the right side");
		t.p = r->where;
		while (peek(&t))
			vec_push(a, &e.where, read_pat(&t));
		must_know(&t, e.lhs, e.rhs);
		for (int i = 0; i < e.where.n; i++)
			must_hold(&t, e.lhs, e.where.at[i]);
		vec_push(a, &set->at, e);
	}
	return set;
}

/* ---- Applying ---- */

static Value *bound_value(void *arg, const char *name)
{
	return lookup(arg, name);
}

bool rule_apply(Canon *c, int at, Node *n)
{
	Equation *e = &c->rules->at.at[at];
	RuleMatch m = {.nnames = 0};
	Value *v;

	if ((e->lhs->op != n->op && e->lhs->or != n->op) || n->nout < 1 || !n->out[0] ||
	    !match(&m, e->lhs, n->out[0]))
		return false;
	for (int i = 1; i < m.nnodes; i++)
		if (!canon_may_move_here(c, m.node[i]))
			return false;
	for (int i = 0; i < e->where.n; i++)
		if (!holds(c, e->where.at[i], &m))
			return false;
	v = build(&(Build){.c = c, .value = bound_value, .arg = &m, .m = &m, .before = n}, e->rhs);
	if (!v || v->type != n->out[0]->type)
		return false;
	canon_replace(c, n, v);
	return true;
}

bool rules_node(Canon *c, Node *n)
{
	for (int i = 0; i < c->rules->at.n; i++)
		if (rule_apply(c, i, n))
			return true;
	return false;
}
