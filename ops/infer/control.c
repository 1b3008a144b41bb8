/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control flow: If, and the parts that all loops share. The bodies of operators of control flow are
 * graphs. Inference puts a body's nodes into the graph around it, between brackets
 * (ir/graph/blocks.h), so that every later pass sees one list of nodes. An If whose condition is
 * known at compile time is replaced by the chosen side. A condition is a size: an expression of the
 * inputs' dims, or an element of a tensor that the host reads during the run.
 *
 * A value has one rank. If the sides of an If with an unknown condition give results of different
 * ranks, the nodes that depend on the results become part of both sides:
 *
 *     %y = If(%c) {then: Squeeze(%x), else: %x}
 *     %z = Softmax(Relu(%y))
 *
 * becomes
 *
 *     %z = If(%c) {then: Softmax(Relu(Squeeze(%x))), else: Softmax(Relu(%x))}
 */
#include "ops/infer/control.h"
#include "ops/infer/parts.h"
#include "ops/onnx/shape.h"

#include "ir/graph/blocks.h"

#include <math.h>
#include <stdlib.h>

enum {
	COPIES_MAX =
		1 << 16 /* nodes that are put into both sides of Ifs whose results differ in rank */
};

/* ---- Bodies ---- */

static const int64_t *captures_of(const Node *n, int *total)
{
	int count;
	const int64_t *c = node_ints(n, ATTR_CAPTURES, &count);

	*total = 0;
	for (int i = 0; i < count; i++)
		*total += (int)c[i];
	return c;
}

int control_operands(const Node *n)
{
	int captured;

	captures_of(n, &captured);
	return n->nin - captured;
}

Graph *control_body(Infer *in, Node *n, const char *name, int *from)
{
	int total;
	const int64_t *captured = captures_of(n, &total);

	*from = n->nin - total;
	for (int i = 0; i < n->regions.n; i++) {
		if (!strcmp(n->regions.at[i]->name, name))
			return n->regions.at[i];
		*from += captured ? (int)captured[i] : 0;
	}
	infer_error(in, n, "has no attribute \"%s\"", name);
	return NULL;
}

int control_own_inputs(const Node *n, const Graph *body)
{
	int total, k = 0;
	const int64_t *captured = captures_of(n, &total);

	while (n->regions.at[k] != body)
		k++;
	return body->inputs.n - (captured ? (int)captured[k] : 0);
}

Node *control_copy_node(Infer *in, const Node *from, Node *before, Value *const *map)
{
	Value **args = NEW_ARRAY(in->arena, from->nin + 1, Value *);
	Node *n;

	for (int i = 0; i < from->nin; i++)
		args[i] = node_in(from, i) && map[node_in(from, i)->id] ? map[node_in(from, i)->id]
									: node_in(from, i);
	n = node_new(in->graph, from->op, args, from->nin, from->nout, before);
	for (int i = 0; i < from->attrs.n; i++)
		node_set_attr(n, from->attrs.at[i]);
	node_locs_from(n, from);
	n->regions.at = from->regions.at;
	n->regions.n = from->regions.n;
	for (int i = 0; i < from->nout; i++)
		if (from->out[i]) {
			n->out[i]->name = from->out[i]->name;
			n->out[i]->type = from->out[i]->type;
			n->out[i]->declared = from->out[i]->declared;
			n->out[i]->declared_rank = from->out[i]->declared_rank;
			n->out[i]->declared_dims = from->out[i]->declared_dims;
		} else {
			n->out[i] = NULL;
		}
	return n;
}

/* Puts copies of the nodes from FIRST up to STOP before AT, not inferred yet. MAP, by Value.id, has
 * the replacements of operands (null: the operand itself); the copies of results are added to
 * it. */
static void copy_nodes(Infer *in, Node *at, const Node *first, const Node *stop, Value **map)
{
	for (const Node *n = first; n != stop; n = n->next) {
		const Node *copy = control_copy_node(in, n, at, map);

		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				map[n->out[i]->id] = copy->out[i];
	}
}

/* The copies of BODY's values, by Value.id; ARGS replace its inputs. */
static Value **copy_body(Infer *in, Node *at, const Graph *body, Value *const *args)
{
	Value **map = NEW_ARRAY(in->arena, body->nvalues + 1, Value *);

	for (int i = 0; i < body->inputs.n; i++)
		map[body->inputs.at[i]->id] = args[i];
	copy_nodes(in, at, body->first, NULL, map);
	return map;
}

/* The node after which the nodes that are put before AT follow. */
static Node *begin(Infer *in, Node *at)
{
	Node *first = node_new(in->graph, OP_EndWhen, NULL, 0, 0, at);

	node_locs_from(first, at);
	return first;
}

/* Infers the nodes between BEGIN and AT, and replaces V[0..n), values among them, by their
 * replacements. */
static bool infer_put(Infer *in, Node *begin, Node *at, Value **v, int n)
{
	Node *end = node_new(in->graph, OP_EndWhen, v, n, 0, at), *first = begin->next;
	DiagLoc before = diag_at(in->ctx, node_diag(at));
	bool ok;

	node_locs_from(end, at);
	node_remove(begin);
	ok = infer_nodes(in, first, end);
	diag_at(in->ctx, before);
	for (int i = 0; i < n; i++)
		v[i] = node_in(end, i);
	node_remove(end);
	return ok;
}

bool control_put_body(Infer *in, Node *at, const Graph *body, Value *const *args, Value **results)
{
	Node *first = begin(in, at);
	Value **map = copy_body(in, at, body, args);

	for (int i = 0; i < body->results.n; i++)
		results[i] = map[body->results.at[i]->value->id];
	return infer_put(in, first, at, results, body->results.n);
}

void control_undo(Infer *in, Node *n, Node *open, int syms, int facts)
{
	infer_forget_syms(in, syms);
	for (Node *m = n->prev, *prev; m; m = prev) {
		prev = m->prev;
		node_remove(m);
		if (m == open)
			break;
	}
	in->graph->facts.n = facts;
}

/* ---- If ---- */

bool control_single(Infer *in, Node *n, const Value *v, DType t, const char *what)
{
	const Type *type = v->type;

	if (type->kind != TYPE_TENSOR)
		return infer_error(in, n, "%s is not a tensor", what);
	if (t ? type->dtype != t : !dtype_is_int(type->dtype))
		return infer_error(in, n, "%s is %s, expected %s", what,
				   dtype_info[type->dtype].name,
				   t ? dtype_info[t].name : "an integer");
	return infer_equal(in, n, type_numel(in->ctx, type), dim_const(in->ctx, 1),
			   "the condition of the control flow has more or less than one element");
}

Dim *control_size(Infer *in, Value *sizes, int at)
{
	Sym *s = sym_fresh(in->ctx, "d");

	graph_set_source(in->graph, s, sizes, at);
	sym_bound(in->ctx, s, 0, DIM_FAR);
	return s->dim;
}

/* Makes a bracket before N. */
static Node *control_bracket(Infer *in, Node *n, OpKind op, Value *const *args, int nin, int nout)
{
	Node *b = node_new(in->graph, op, args, nin, nout, n);

	in->brackets = true;
	node_locs_from(b, n);
	return b;
}

/* The type of a value that has type A where C is 1, and B where it is 0; null if there is none,
 * with the fault in IN->unmerged. */
static const Type *merge_types(Infer *in, Node *n, int k, Dim *c, const Type *a, const Type *b)
{
	Dim *dims[MAX_RANK];

	if (a->dtype != b->dtype || a->rank != b->rank) {
		in->unmerged = arena_printf(
			in->arena,
			"result %d is %s of rank %d in one branch and %s of rank %d in the other, "
			"and which one runs is not known when compiling; --dim NAME=SIZE may fix the size that decides it",
			k + 1, dtype_info[a->dtype].name, a->rank, dtype_info[b->dtype].name,
			b->rank);
		in->unmerged_at = node_diag(n);
		return NULL;
	}
	for (int i = 0; i < a->rank; i++)
		dims[i] = a->dims[i] == b->dims[i] ? a->dims[i]
						   : dim_select(in->ctx, c, a->dims[i], b->dims[i]);
	return type_tensor(in->ctx, a->dtype, a->rank, dims);
}

/* A size that is 1 if the nodes after the bracket N, up to its closing bracket, are executed, and 0
 * if not; null: they always are. */
static Dim *condition(Infer *in, const Node *n)
{
	Dim *one = dim_const(in->ctx, 1), *trip;
	int64_t lo, hi;

	switch (n->op) {
	case OP_When:
	case OP_While: return control_dim(n, "value");
	case OP_Else: return dim_sub(in->ctx, one, control_dim(block_open(n), "value"));
	default: break;
	}
	trip = control_dim(n, "trip");
	if (!trip)
		return NULL;
	dim_bounds(in->ctx, trip, &lo, &hi);
	return lo < 1 ? dim_min(in->ctx, trip, one) : NULL;
}

Dim *infer_when(Infer *in, const Node *n)
{
	Dim *all = NULL, *c;
	int depth = 0;

	for (n = n->prev; in->brackets && n; n = n->prev) {
		const bool opens = n->op == OP_For || n->op == OP_When;

		depth += n->op == OP_EndFor || n->op == OP_EndWhen;
		if (!depth && (opens || n->op == OP_Else || n->op == OP_While)) {
			c = condition(in, n);
			all = all && c ? dim_mul(in->ctx, all, c) : c ? c : all;
			n = n->op == OP_Else ? block_open(n) : n;
		} else {
			depth -= opens;
		}
	}
	return all;
}

/* The results of the two sides of an If. */
typedef struct Sides {
	Value **value[2];  /* one for each result */
	const Type **type; /* of each result */
	Value **part[2];   /* PARTS_MAX for each result */
	int n, nparts;     /* results; parts of all of them */
} Sides;

/* The parts of the results of side K, before the bracket N that ends it. */
static bool side_parts(Infer *in, Node *n, Sides *s, int k)
{
	s->nparts = 0;
	for (int i = 0; i < s->n; i++) {
		if (!parts_of(in, n, s->value[k][i], s->type[i], s->part[k] + s->nparts))
			return false;
		s->nparts += type_parts(s->type[i]);
	}
	return true;
}

static bool merge_sides(Infer *in, Node *n, Sides *s, Node *otherwise)
{
	for (int i = 0; i < s->n; i++) {
		Value *a = s->value[0][i], *b = s->value[1][i];

		if (!a->type || !b->type)
			return false;
		s->type[i] = parts_merge(in, n, parts_ranked(in, n, a), parts_ranked(in, n, b),
					 "a result");
		if (!s->type[i])
			return false;
	}
	return side_parts(in, otherwise, s, 0) && side_parts(in, n, s, 1);
}

/* An If, and the nodes that depend on its results: nodes of the range from REST up to STOP. */
typedef struct IfChoice {
	Infer *in;
	Node *n;
	Graph *body[2];
	int from[2]; /* the first operand that a body captures */
	Dim *c;      /* the condition */
	Node *rest;
	const Node *stop;
	Value **results; /* results of N and later nodes that are used outside */
	int nresults;
} IfChoice;

/* Reads the bodies and the condition. */
static bool read_choice(Infer *in, Node *n, IfChoice *ch)
{
	static const char *const name[] = {"then_branch", "else_branch"};
	*ch = (IfChoice){.in = in, .n = n};
	for (int k = 0; k < 2; k++) {
		ch->body[k] = control_body(in, n, name[k], &ch->from[k]);
		if (!ch->body[k])
			return false;
		if (ch->body[k]->results.n != n->nout)
			return infer_error(in, n, "%s has %d results, and the node has %d", name[k],
					   ch->body[k]->results.n, n->nout);
		if (control_own_inputs(n, ch->body[k]))
			return infer_error(in, n, "%s has inputs", name[k]);
	}
	if (!control_single(in, n, node_in(n, 0), DT_BOOL, "the condition"))
		return false;
	return (ch->c = infer_single(in, n, 0)) != NULL;
}

/* Copies side K before the If, with the dependent nodes. Returns the copies of the graph's values,
 * by Value.id. */
static Value **copy_side(IfChoice *ch, int k)
{
	Infer *in = ch->in;
	Node *n = ch->n;
	const Graph *body = ch->body[k];
	const int nvalues = in->graph->nvalues;
	Value **args = NEW_ARRAY(in->arena, n->nin + 1, Value *), **map, **whole;

	for (int i = 0; i < n->nin; i++)
		args[i] = node_in(n, i);
	map = copy_body(in, n, body, args + ch->from[k]);
	whole = NEW_ARRAY(in->arena, nvalues + 1, Value *);
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			whole[n->out[i]->id] = map[body->results.at[i]->value->id];
	copy_nodes(in, n, ch->rest, ch->stop, whole);
	return whole;
}

static bool put_side(IfChoice *ch, int k, Value **out)
{
	Node *first = begin(ch->in, ch->n);
	Value **map = copy_side(ch, k);

	for (int i = 0; i < ch->nresults; i++)
		out[i] = map[ch->results[i]->id];
	return infer_put(ch->in, first, ch->n, out, ch->nresults);
}

/* The first fault of a side. */
typedef struct Fault {
	Infer *in;
	DiagLoc at;
	const char *text; /* null: none */
} Fault;

static void note_fault(void *arg, DiagLoc at, const char *text)
{
	Fault *f = arg;

	if (!f->text)
		*f = (Fault){f->in, at, arena_printf(f->in->arena, "%s", text)};
}

/* put_side, whose errors are not reported: *F gets the first one. Warnings are reported if there is
 * none. */
static bool try_side(IfChoice *ch, int k, Value **out, Fault *f)
{
	Infer *in = ch->in;
	Diag *outer = in->ctx->diag, own = *outer;
	const int errors = in->errors;
	char *warnings = NULL;
	size_t size;
	bool ok;

	*f = (Fault){.in = in};
	own.sink = note_fault;
	own.sink_arg = f;
	own.out = outer->out ? open_memstream(&warnings, &size) : NULL;
	in->ctx->diag = &own;
	ok = put_side(ch, k, out);
	in->ctx->diag = outer;
	in->errors = errors;
	if (own.out)
		fclose(own.out);
	if (!f->text && !in->unmerged) {
		outer->warnings = own.warnings;
		if (warnings)
			fputs(warnings, outer->out);
	}
	free(warnings);
	return ok;
}

/* Requires at run time that side K is not chosen, for which compile time has found the fault F. */
static bool refuse_side(IfChoice *ch, int k, const Fault *f)
{
	Infer *in = ch->in;
	const char *what = arena_printf(
		in->arena, "its %s runs, with whose results node \"%s\" (%s) fails: %s",
		k ? "else_branch" : "then_branch", f->at.node ? f->at.node : "",
		f->at.op ? f->at.op : "", f->text);

	return infer_equal(in, ch->n, ch->c, dim_const(in->ctx, k), what);
}

/* Closes the brackets around both sides, which give SIDE: the results of the first side, then those
 * of the second. OUT gets the replacements of the If's results. */
static bool merge(IfChoice *ch, Value **side, Node *otherwise, Value **out)
{
	Infer *in = ch->in;
	Node *n = ch->n, *end;
	const int count = ch->nresults;
	Sides s = {.n = count,
		   .value = {side, side + count},
		   .type = NEW_ARRAY(in->arena, count + 1, const Type *)};

	for (int k = 0; k < 2; k++)
		s.part[k] = NEW_ARRAY(in->arena, 2 * PARTS_MAX * count + 1, Value *);
	if (!merge_sides(in, n, &s, otherwise))
		return false;
	memcpy(s.part[0] + s.nparts, s.part[1], (size_t)s.nparts * sizeof *s.part[0]);
	end = control_bracket(in, n, OP_EndWhen, s.part[0], 2 * s.nparts, s.nparts);
	for (int i = 0; i < s.nparts; i++) {
		end->out[i]->type = merge_types(in, n, i, ch->c, s.part[0][i]->type,
						s.part[1][i]->type);
		if (!end->out[i]->type)
			return false;
	}
	for (int i = 0, at = 0; i < count; at += type_parts(s.type[i++]))
		out[i] = parts_join(in, n, s.type[i], end->out + at);
	return true;
}

/* Puts both sides before the If, between brackets. OUT gets the replacements of the If's results.
 * If the dependent nodes accept the ranks of only one side, that side is used without a condition.
 * False after a diagnostic, or with IN->unmerged set; the graph is then unchanged. */
static bool put_both(IfChoice *ch, Value **out)
{
	Infer *in = ch->in;
	Node *n = ch->n, *open, *other;
	const int syms = sym_count(in->ctx), facts = in->graph->facts.n, count = ch->nresults;
	Value **side = NEW_ARRAY(in->arena, 2 * count + 1, Value *);
	Fault fault[2] = {{.in = in}, {.in = in}};
	int syms_between, facts_between;
	bool ok;

	open = control_bracket(in, n, OP_When, NULL, 0, 0);
	control_set_dim(open, "value", ch->c);
	ok = ch->rest ? try_side(ch, 0, side, &fault[0]) : put_side(ch, 0, side);
	if (fault[0].text && !in->unmerged) {
		control_undo(in, n, open, syms, facts);
		return try_side(ch, 1, out, &fault[1])
			       ? refuse_side(ch, 0, &fault[0])
			       : in->unmerged == NULL &&
					 infer_fault(in, fault[0].at, fault[0].text);
	}
	syms_between = sym_count(in->ctx);
	facts_between = in->graph->facts.n;
	other = control_bracket(in, n, OP_Else, NULL, 0, 0);
	if (!in->unmerged && ch->rest)
		ok = try_side(ch, 1, side + count, &fault[1]) && ok;
	else if (!in->unmerged)
		ok = put_side(ch, 1, side + count) && ok;
	if (fault[1].text && !in->unmerged) {
		control_undo(in, n, other, syms_between, facts_between);
		node_remove(open);
		memcpy(out, side, (size_t)count * sizeof *out);
		return refuse_side(ch, 1, &fault[1]);
	}
	ok = ok && !in->unmerged && merge(ch, side, other, out);
	if (in->unmerged)
		control_undo(in, n, open, syms, facts);
	return ok && !in->unmerged;
}

static bool expand_if(Infer *in, Node *n, Value **out)
{
	Value **made = NEW_ARRAY(in->arena, n->nout + 1, Value *);
	IfChoice ch;
	int k = 0;

	if (!read_choice(in, n, &ch))
		return false;
	ch.results = NEW_ARRAY(in->arena, n->nout + 1, Value *);
	for (int i = 0; i < n->nout; i++)
		if (n->out[i])
			ch.results[ch.nresults++] = n->out[i];
	if (!put_both(&ch, made))
		return false;
	for (int i = 0; i < n->nout; i++)
		out[i] = n->out[i] ? made[k++] : NULL;
	return true;
}

/* N's results become OUT. */
static void replace_results(Node *n, Value *const *out)
{
	for (int i = 0; i < n->nout; i++) {
		if (!n->out[i])
			continue;
		if (!out[i]->name && out[i]->def)
			out[i]->name = n->out[i]->name;
		value_replace(n->out[i], out[i]);
	}
	node_remove(n);
}

bool control_known(Infer *in, Node *n, Node **next)
{
	const int errors = in->errors, facts = in->graph->facts.n;
	Value **out, **map, **args;
	Node *mark;
	const Graph *body;
	IfChoice ch;
	int64_t v;
	int k;

	for (int i = 0; i < n->nin; i++)
		if (!node_in(n, i) || !node_in(n, i)->type)
			return false;
	if (!n->nin || n->regions.n != 2)
		return false;
	if (!read_choice(in, n, &ch) || !dim_is_const(ch.c, &v)) {
		in->graph->facts.n = facts; /* expand_if reads it again */
		return in->errors > errors;
	}
	k = v ? 0 : 1;
	body = ch.body[k];
	args = NEW_ARRAY(in->arena, n->nin + 1, Value *);
	out = NEW_ARRAY(in->arena, n->nout + 1, Value *);
	for (int i = 0; i < n->nin; i++)
		args[i] = node_in(n, i);
	mark = begin(in, n);
	map = copy_body(in, n, body, args + ch.from[k]);
	for (int i = 0; i < n->nout; i++)
		out[i] = map[body->results.at[i]->value->id];
	replace_results(n, out);
	*next = mark->next;
	node_remove(mark);
	return true;
}

/* Whether V is a result of the graph, or used by a node outside of OF, by Node.id. */
static bool is_used_elsewhere(const Value *v, const bool *of)
{
	for (const Use *u = v->uses; u; u = u->next)
		if (!u->user || !of[u->user->id])
			return true;
	return false;
}

/* Moves N, and the nodes before STOP that depend on it, before STOP, in their order. Returns the
 * first other node after N, N if all depend on it, or null if none does. OF, by Node.id, marks the
 * dependent nodes. */
static Node *gather_rest(Infer *in, Node *n, Node *stop, bool *of)
{
	VEC(Node *) rest = {0};
	Node *other = NULL;

	of[n->id] = true;
	for (Node *m = n->next; m != stop; m = m->next) {
		for (int i = 0; i < m->nin && !of[m->id]; i++)
			of[m->id] = node_in(m, i) && node_in(m, i)->def &&
				    of[node_in(m, i)->def->id];
		if (of[m->id])
			vec_push(in->arena, &rest, m);
		else if (!other)
			other = m;
	}
	if (!rest.n)
		return NULL;
	if (!other)
		return n;
	node_move(n, stop);
	for (int i = 0; i < rest.n; i++)
		node_move(rest.at[i], stop);
	return other;
}

bool control_both(Infer *in, Node *n, Node *stop, Node **next)
{
	bool *of = NEW_ARRAY(in->arena, in->graph->nnodes, bool);
	Node *last;
	Value **out;
	IfChoice ch;

	*next = gather_rest(in, n, stop, of);
	if (!*next)
		return false;
	in->unmerged = NULL;
	if (*next != n)
		return true;
	*next = stop;
	if (!read_choice(in, n, &ch))
		return false;
	ch.rest = n->next;
	ch.stop = stop;
	for (const Node *m = n; m != stop; m = m->next) {
		ch.nresults += m->nout;
		in->copied++;
	}
	if (in->copied > COPIES_MAX)
		return infer_error(
			in, n,
			"its branches give results of different ranks; with all nodes that depend on such "
			"results in both branches the model is too large");
	ch.results = NEW_ARRAY(in->arena, ch.nresults + 1, Value *);
	out = NEW_ARRAY(in->arena, ch.nresults + 1, Value *);
	ch.nresults = 0;
	for (const Node *m = n; m != stop; m = m->next)
		for (int i = 0; i < m->nout; i++)
			if (m->out[i] && is_used_elsewhere(m->out[i], of))
				ch.results[ch.nresults++] = m->out[i];
	if (!put_both(&ch, out))
		return false;
	for (int i = 0; i < ch.nresults; i++) {
		out[i]->name = ch.results[i]->name;
		value_replace(ch.results[i], out[i]);
	}
	for (last = stop ? stop->prev : in->graph->last; last != n;
	     last = stop ? stop->prev : in->graph->last)
		node_remove(last);
	node_remove(n);
	return true;
}

/* The accuracy of result O of BODY, whose inputs are the operands of N from number FROM on. */
static Accuracy body_accuracy(const Node *n, const Graph *body, int from, int o, int depth)
{
	const Value *v = o < body->results.n ? value_within(body->results.at[o]->value) : NULL;

	if (v && !v->def)
		v = node_in(n, from + v->index);
	return v ? value_accuracy(v, depth) : (Accuracy){0};
}

/* As exactly as by the more exact branch. An If counts as several operators in DEPTH: each asks for
 * two accuracies, so that n of them in a row would ask for 2^n. */
static void if_accuracy(const Node *n, int o, int depth, Accuracy *a)
{
	enum { OPERATORS = 16 };
	int from = control_operands(n);

	for (int i = 0; i < n->regions.n; i++) {
		const Graph *body = n->regions.at[i];
		const Accuracy one = body_accuracy(n, body, from, o, depth + OPERATORS);

		a->step = i ? fmin(a->step, one.step) : one.step;
		a->unit = i ? fmin(a->unit, one.unit) : one.unit;
		from += body->inputs.n;
	}
}

const Op op_If = {
	.expand = expand_if, .accuracy = if_accuracy, .regions = true, .compound = true,
	.attrs = "else_branch: graph, then_branch: graph",
};

/* ---- Loops ---- */

LoopBuild loop_open(Infer *in, Node *n, Dim *trip, Value *const *init, int ninit)
{
	Ctx *c = in->ctx;
	LoopBuild b = {.in = in, .n = n, .trip = trip, .ncarried = ninit, .outer = in->iteration};
	int64_t lo = 0, hi = DIM_FAR;
	Node *iteration;
	Sym *s;

	b.open = control_bracket(in, n, OP_For, init, ninit, ninit);
	for (int i = 0; i < ninit; i++)
		b.open->out[i]->type = init[i]->type;
	b.carried = b.open->out;
	iteration = control_bracket(in, n, OP_Iteration, NULL, 0, 1);
	iteration->out[0]->type = type_tensor(c, DT_I64, 0, NULL);
	s = sym_fresh(c, "iteration");
	graph_set_source(in->graph, s, iteration->out[0], 0);
	if (trip) {
		control_set_dim(b.open, "trip", trip);
		dim_bounds(c, trip, &lo, &hi);
	}
	sym_bound(c, s, 0, hi > DIM_FAR ? DIM_FAR : hi > 0 ? hi - 1 : 0);
	b.iteration = s->dim;
	in->iteration = s->dim;
	if (b.outer) /* no number is that of two iterations, unless a While goes on for very long */
		in->iteration = dim_add(c, s->dim,
					dim_mul(c, b.outer, trip ? trip : dim_const(c, 1 << 24)));
	return b;
}

void loop_while(LoopBuild *b, Value *go)
{
	int n;
	Dim *d = infer_contents(b->in, b->n, go, &n)[0];

	control_set_dim(control_bracket(b->in, b->n, OP_While, NULL, 0, 0), "value", d);
}

void loop_end(LoopBuild *b, Value *const *next, Value *const *each, int neach,
	      const int64_t *reverse, Dim *count, Value **last, Value **all)
{
	const int n = b->ncarried + neach;
	Value **args = NEW_ARRAY(b->in->arena, n + 1, Value *);
	Dim *dims[MAX_RANK + 1];
	Node *end;

	for (int i = 0; i < n; i++)
		args[i] = i < b->ncarried ? next[i] : each[i - b->ncarried];
	end = control_bracket(b->in, b->n, OP_EndFor, args, n, n);
	node_set_int(end, "carried", b->ncarried);
	if (reverse)
		node_set_ints(end, "reverse", reverse, neach);
	for (int i = 0; i < b->ncarried; i++) {
		end->out[i]->type = b->carried[i]->type;
		last[i] = end->out[i];
	}
	dims[0] = count;
	for (int i = 0; i < neach; i++) {
		const Type *t = each[i]->type;

		for (int d = 0; d < t->rank; d++)
			dims[d + 1] = t->dims[d];
		all[i] = end->out[b->ncarried + i];
		all[i]->type = type_tensor(b->in->ctx, t->dtype, t->rank + 1, dims);
	}
	b->in->iteration = b->outer;
}

void loop_skip(const LoopBuild *b, int neach, Value **last, Value **all)
{
	int64_t dims[MAX_RANK];

	if (!b->trip || !dim_equals(b->trip, 0))
		return;
	for (int i = 0; i < b->ncarried; i++)
		last[i] = node_in(b->open, i);
	for (int i = 0; i < neach; i++) {
		const Type *t = all[i]->type;

		if (type_static(t, dims))
			all[i] = expand_tensor(b->in, b->n,
					       tensor_new(b->in->arena, t->dtype, t->rank, dims));
	}
}

void loop_close(LoopBuild *b, Value *const *next, Value *const *each, int neach,
		const int64_t *reverse, Dim *count, Value **last, Value **all)
{
	loop_end(b, next, each, neach, reverse, count, last, all);
	loop_skip(b, neach, last, all);
}

/* ---- Brackets ---- */

/* Types from a text remain; others follow from the operands. */
static bool infer_bracket(Infer *in, Node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (!n->out[i]->type && i < n->nin && node_in(n, i))
			n->out[i]->type = node_in(n, i)->type;
		else if (!n->out[i]->type)
			return infer_error(in, n, "result %d has no type", i + 1);
	return true;
}

const Op op_When = {.infer = infer_bracket};
const Op op_Else = {.infer = infer_bracket};
const Op op_EndWhen = {.infer = infer_bracket};
const Op op_For = {.infer = infer_bracket};
const Op op_Iteration = {.infer = infer_bracket};
const Op op_While = {.infer = infer_bracket};
const Op op_EndFor = {.infer = infer_bracket};
