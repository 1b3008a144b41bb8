/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control flow: If, and what loops share. The bodies of operators of control flow are graphs. Inference puts
 * a body's nodes into the graph around it, between brackets (ir/blocks.h), so that every later pass sees one
 * list of nodes. An If whose condition is known when compiling is replaced by the side that runs. A condition
 * is a size: an expression of the inputs' dims, or an element of a tensor that the host reads during the run.
 */
#include "ops/control.h"

#include "ir/blocks.h"

/* ---- Bodies ---- */

static const int64_t *captures_of(const Node *n, int *total)
{
	int count;
	const int64_t *c = node_ints(n, "captures", &count);

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

static Node *copy_node(Infer *in, const Node *from, Node *before, Value *const *map)
{
	Value **args = NEW_ARRAY(in->arena, from->nin + 1, Value *);
	Node *n;

	for (int i = 0; i < from->nin; i++)
		args[i] = node_in(from, i) ? map[node_in(from, i)->id] : NULL;
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
		} else {
			n->out[i] = NULL;
		}
	return n;
}

bool control_put_body(Infer *in, Node *at, const Graph *body, Value *const *args, Value **results)
{
	Value **map = NEW_ARRAY(in->arena, body->nvalues + 1, Value *);
	DiagLoc before = diag_at(in->ctx, node_diag(at));
	bool ok = true;

	for (int i = 0; i < body->inputs.n; i++)
		map[body->inputs.at[i]->id] = args[i];
	for (const Node *n = body->first; n; n = n->next) {
		Node *copy = copy_node(in, n, at, map);
		Value **out = NEW_ARRAY(in->arena, n->nout + 1, Value *);

		diag_at(in->ctx, node_diag(copy));
		ok = infer_or_expand(in, copy, out) && ok;
		for (int i = 0; i < n->nout; i++)
			if (n->out[i])
				map[n->out[i]->id] = out[i];
	}
	diag_at(in->ctx, before);
	for (int i = 0; i < body->results.n; i++)
		results[i] = map[body->results.at[i]->value->id];
	return ok;
}

/* ---- If ---- */

Node *control_bracket(Infer *in, Node *n, OpKind op, Value *const *args, int nin, int nout)
{
	Node *b = node_new(in->graph, op, args, nin, nout, n);

	node_locs_from(b, n);
	return b;
}

/* The type of a value that has type A where C is 1, and B where it is 0; null after a diagnostic. */
static const Type *merge_types(Infer *in, Node *n, int k, Dim *c, const Type *a, const Type *b)
{
	Dim *dims[MAX_RANK];

	if (a->dtype != b->dtype || a->rank != b->rank) {
		infer_error(
			in, n,
			"result %d is %s of rank %d in one branch and %s of rank %d in the other, "
			"and which one runs is not known when compiling; --dim NAME=SIZE may fix the size that decides it",
			k + 1, dtype_info[a->dtype].name, a->rank, dtype_info[b->dtype].name,
			b->rank);
		return NULL;
	}
	for (int i = 0; i < a->rank; i++)
		dims[i] = a->dims[i] == b->dims[i] ? a->dims[i]
						   : dim_select(in->ctx, c, a->dims[i], b->dims[i]);
	return type_tensor(in->ctx, a->dtype, a->rank, dims);
}

Dim *control_when(Infer *in, Dim *outer, Dim *c)
{
	return outer ? dim_mul(in->ctx, outer, c) : c;
}

static bool put_both(Infer *in, Node *n, Dim *c, Graph *const *body, const int *from, Value **out)
{
	Value **side = NEW_ARRAY(in->arena, 2 * n->nout + 1, Value *);
	Value **args = NEW_ARRAY(in->arena, n->nin + 1, Value *);
	Dim *outer = in->when;
	Node *end;
	bool ok = true;

	for (int i = 0; i < n->nin; i++)
		args[i] = node_in(n, i);
	control_set_dim(control_bracket(in, n, OP_When, NULL, 0, 0), "value", c);
	in->when = control_when(in, outer, c);
	ok = control_put_body(in, n, body[0], args + from[0], side);
	control_bracket(in, n, OP_Else, NULL, 0, 0);
	in->when = control_when(in, outer, dim_sub(in->ctx, dim_const(in->ctx, 1), c));
	ok = control_put_body(in, n, body[1], args + from[1], side + n->nout) && ok;
	in->when = outer;
	end = control_bracket(in, n, OP_EndWhen, side, 2 * n->nout, n->nout);
	for (int i = 0; i < n->nout && ok; i++) {
		ok = side[i]->type && side[n->nout + i]->type;
		if (ok)
			end->out[i]->type = merge_types(in, n, i, c, side[i]->type,
							side[n->nout + i]->type);
		ok = ok && end->out[i]->type;
		out[i] = end->out[i];
	}
	return ok;
}

static bool expand_if(Infer *in, Node *n, Value **out)
{
	static const char *const name[] = {"then_branch", "else_branch"};
	Graph *body[2];
	int from[2], count;
	Dim **c;
	int64_t v;

	for (int k = 0; k < 2; k++) {
		body[k] = control_body(in, n, name[k], &from[k]);
		if (!body[k])
			return false;
		if (body[k]->results.n != n->nout)
			return infer_error(in, n, "%s has %d results, and the node has %d", name[k],
					   body[k]->results.n, n->nout);
	}
	c = infer_contents(in, n, node_in(n, 0), &count);
	if (!c)
		return false;
	if (count != 1)
		return infer_error(in, n, "the condition has %d elements, expected one", count);
	if (dim_is_const(c[0], &v)) {
		Value **args = NEW_ARRAY(in->arena, n->nin + 1, Value *);

		for (int i = 0; i < n->nin; i++)
			args[i] = node_in(n, i);
		return control_put_body(in, n, body[v ? 0 : 1], args + from[v ? 0 : 1], out);
	}
	return put_both(in, n, c[0], body, from, out);
}

const Op op_If = {.expand = expand_if, .regions = true};

/* ---- Loops ---- */

LoopBuild loop_open(Infer *in, Node *n, Dim *trip, Value *const *init, int ninit)
{
	Ctx *c = in->ctx;
	LoopBuild b = {.in = in,
		       .n = n,
		       .trip = trip,
		       .ncarried = ninit,
		       .when = in->when,
		       .outer = in->turn};
	int64_t lo = 0, hi = DIM_FAR;
	Node *turn;
	Sym *s;

	b.open = control_bracket(in, n, OP_For, init, ninit, ninit);
	for (int i = 0; i < ninit; i++)
		b.open->out[i]->type = init[i]->type;
	b.carried = b.open->out;
	turn = control_bracket(in, n, OP_Turn, NULL, 0, 1);
	turn->out[0]->type = type_tensor(c, DT_I64, 0, NULL);
	s = sym_fresh(c, "turn");
	sym_read_from(s, turn->out[0]);
	if (trip) {
		control_set_dim(b.open, "trip", trip);
		dim_bounds(c, trip, &lo, &hi);
		if (lo < 1)
			in->when = control_when(in, b.when, dim_min(c, trip, dim_const(c, 1)));
	}
	sym_bound(c, s, 0, hi > DIM_FAR ? DIM_FAR : hi > 0 ? hi - 1 : 0);
	b.turn = s->dim;
	in->turn = s->dim;
	if (b.outer) /* no number is that of two turns, unless a While goes on for very long */
		in->turn = dim_add(c, s->dim,
				   dim_mul(c, b.outer, trip ? trip : dim_const(c, 1 << 24)));
	return b;
}

void loop_close(LoopBuild *b, Value *const *next, Value *const *each, int neach,
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
	b->in->when = b->when;
	b->in->turn = b->outer;
}

<<<<<<< HEAD
=======
/* ---- Loops with a body that is a graph ---- */

/* A value that the body carries. */
typedef struct Carried {
	Value *init;
	bool grows[MAX_RANK]; /* the sizes that differ from turn to turn */
	bool any;
	int sizes; /* the number of the carried vector of its sizes, if any grows */
} Carried;

typedef struct BodyLoop {
	Infer *in;
	Node *n;
	const Graph *body;
	int captured_from;
	Dim *trip;
	Value *go; /* the condition for the first turn, or null: every turn runs */
	Carried *var;
	int nvar, neach;
	/* what comes between the carried values and the captured ones among the body's inputs */
	Value *(*slice)(struct BodyLoop *l, const LoopBuild *b, int k);
	int nslice;
	int lead; /* inputs of the body before the carried values: the number of the turn and the condition */
	const int64_t *reverse;
} BodyLoop;

static Dim *fresh_size(Infer *in, Value *sizes, int at)
{
	Sym *s = sym_fresh(in->ctx, "d");

	sym_read_from(s, sizes);
	s->at = at;
	sym_bound(in->ctx, s, 0, DIM_FAR);
	return s->dim;
}

/* The type of T with the sizes that grow read from SIZES. */
static const Type *grown_type(Infer *in, const Carried *v, const Type *t, Value *sizes)
{
	Dim *dims[MAX_RANK];

	for (int d = 0; d < t->rank; d++)
		dims[d] = v->grows[d] ? fresh_size(in, sizes, d) : t->dims[d];
	return type_tensor(in->ctx, t->dtype, t->rank, dims);
}

/* Compares the type of NEXT with that which V has in a turn. False: a further size grows, or a
 * diagnostic was reported. */
static bool same_sizes(Infer *in, Node *n, int k, Carried *v, const Type *now, const Type *next)
{
	bool same = true;

	if (now->dtype != next->dtype || now->rank != next->rank)
		return infer_error(
			in, n,
			"carried value %d is %s of rank %d before a turn and %s of rank %d "
			"after it",
			k + 1, dtype_info[now->dtype].name, now->rank, dtype_info[next->dtype].name,
			next->rank);
	for (int d = 0; d < now->rank; d++)
		if (!v->grows[d] && now->dims[d] != next->dims[d]) {
			v->grows[d] = v->any = true;
			same = false;
		}
	return same;
}

/* Whether the node N is after OPEN, in the list of nodes. */
static bool is_since(const Node *open, const Node *n)
{
	while (n && n != open)
		n = n->prev;
	return n == open;
}

typedef struct InLoop {
	const Node *open;
	bool yes;
} InLoop;

static void see_in_loop(void *arg, Sym *s)
{
	InLoop *l = arg;

	if (s->src && s->src->def && is_since(l->open, s->src->def))
		l->yes = true;
	if (s->def)
		dim_syms(s->def, see_in_loop, l);
}

/* Whether a turn decides the sizes of T. */
static bool varies(const Node *open, const Type *t)
{
	InLoop l = {open, false};

	for (int d = 0; d < t->rank; d++)
		dim_syms(t->dims[d], see_in_loop, &l);
	return l.yes;
}

/* Removes the nodes from OPEN up to the node that is being expanded. */
static void remove_since(BodyLoop *l, Node *open, int syms, int facts)
{
	infer_forget_syms(l->in, syms);
	for (Node *m = l->n->prev, *prev; m; m = prev) {
		prev = m->prev;
		node_remove(m);
		if (m == open)
			break;
	}
	l->in->graph->facts.n = facts;
}

/* One element, as the scalar that a bracket carries. */
static Value *as_scalar(Infer *in, Node *n, Value *v)
{
	if (!v->type || v->type->rank == 0)
		return v;
	return expand_node(in, n, OP_Reshape, (Value *[]){v, expand_ints(in, n, NULL, 0)}, 2);
}

/*
 * Makes the loop once, with the sizes that are known to grow so far. *AGAIN: another size grows, and
 * everything that was made is removed.
 */
static bool try_loop(BodyLoop *l, Value **last, Value **all, bool *again)
{
	Infer *in = l->in;
	Ctx *c = in->ctx;
	const int syms = sym_count(c), facts = in->graph->facts.n, nbody = l->body->inputs.n;
	const int most = 2 * l->nvar + 2;
	Value **init = NEW_ARRAY(in->arena, most, Value *),
	      **next = NEW_ARRAY(in->arena, most, Value *),
	      ** final = NEW_ARRAY(in->arena, most, Value *);
	Value **args = NEW_ARRAY(in->arena, nbody + 1, Value *),
	      **results = NEW_ARRAY(in->arena, l->body->results.n + 1, Value *), *zero = NULL;
	int ninit = l->nvar, go = -1, turns = -1, r = l->lead ? 1 : 0;
	Dim *one = dim_const(c, 1), *count = l->trip;
	LoopBuild b;
	bool ok = true;

	*again = false;
	for (int i = 0; i < l->nvar; i++)
		init[i] = l->var[i].init;
	for (int i = 0; i < l->nvar; i++)
		if (l->var[i].any) {
			l->var[i].sizes = ninit;
			init[ninit++] = expand_dims(in, l->n, DT_I64, l->var[i].init->type->dims,
						    l->var[i].init->type->rank, false);
		}
	if (l->go) {
		go = ninit;
		init[ninit++] = l->go;
		turns = ninit;
		zero = expand_scalar(in, l->n, DT_I64, 0);
		init[ninit++] = zero;
	}
	b = loop_open(in, l->n, l->trip, init, ninit);
	if (go >= 0) {
		int n;
		Dim *d = infer_contents(in, l->n, b.carried[go], &n)[0];

		control_set_dim(bracket(in, l->n, OP_While, NULL, 0, 0), "value", d);
		in->when = when(in, in->when, d);
	}
	for (int i = 0; i < l->nvar; i++)
		if (l->var[i].any)
			b.carried[i]->type = grown_type(in, &l->var[i], init[i]->type,
							b.carried[l->var[i].sizes]);
	if (l->lead) {
		args[0] = expand_dims(in, l->n, DT_I64, &b.turn, 1, true);
		args[1] = go >= 0 ? b.carried[go] : expand_scalar(in, l->n, DT_BOOL, 1);
	}
	for (int i = 0; i < l->nvar; i++)
		args[l->lead + i] = b.carried[i];
	for (int i = 0; i < l->nslice; i++)
		args[l->lead + l->nvar + i] = l->slice(l, &b, i);
	for (int i = l->lead + l->nvar + l->nslice, k = l->captured_from; i < nbody; i++)
		args[i] = node_in(l->n, k++);
	ok = put_body(in, l->n, l->body, args, results);
	for (int i = 0; i < l->nvar && ok; i++) {
		next[i] = results[r + i];
		ok = next[i] && next[i]->type;
		if (ok && !same_sizes(in, l->n, i, &l->var[i], b.carried[i]->type, next[i]->type)) {
			*again = !in->errors;
			ok = *again;
		}
	}
	if (!ok || *again) {
		in->when = b.when;
		in->turn = b.outer;
		if (*again)
			remove_since(l, b.open, syms, facts);
		return ok;
	}
	for (int i = 0; i < l->nvar; i++)
		if (l->var[i].any)
			next[l->var[i].sizes] = expand_dims(in, l->n, DT_I64, next[i]->type->dims,
							    next[i]->type->rank, false);
	if (go >= 0) {
		Dim *after = dim_add(c, b.turn, one);

		next[go] = as_scalar(in, l->n, results[0]);
		next[turns] = expand_dims(in, l->n, DT_I64, &after, 1, true);
	}
	for (int i = 0; i < l->neach; i++) {
		const Type *t = results[r + l->nvar + i]->type;

		if (t && varies(b.open, t))
			return infer_error(
				in, l->n,
				"result %d stacks values whose sizes differ from turn to "
				"turn, which is not supported",
				l->nvar + i + 1);
		if (!t)
			return false;
	}
	if (go >= 0)
		count = NULL;
	loop_close(&b, next, results + r + l->nvar, l->neach, l->reverse,
		   count ? count : dim_const(c, 0), final, all);
	if (go >= 0) {
		int n;

		final[turns]->name = "turns";
		count = infer_contents(in, l->n, final[turns], &n)[0];
		if (dim_as_sym(count))
			sym_bound(c, dim_as_sym(count), 0, DIM_FAR);
		for (int i = 0; i < l->neach; i++) {
			Dim *dims[MAX_RANK];
			const Type *t = all[i]->type;

			memcpy(dims, t->dims, (size_t)t->rank * sizeof *dims);
			dims[0] = count;
			all[i]->type = type_tensor(c, t->dtype, t->rank, dims);
		}
	}
	for (int i = 0; i < l->nvar; i++) {
		last[i] = final[i];
		if (l->var[i].any)
			last[i]->type = grown_type(in, &l->var[i], last[i]->type,
						   final[l->var[i].sizes]);
	}
	return true;
}

static bool build_loop(BodyLoop *l, Value **out)
{
	bool again = true, ok = true;

	for (int i = 0; i < GROWN_MAX * (l->nvar + 1) && again && ok; i++)
		ok = try_loop(l, out, out + l->nvar, &again);
	return ok &&
	       (!again || infer_error(l->in, l->n, "the sizes of what it carries do not settle"));
}

/* Whether result K of BODY is its input number INPUT, or the constant true. */
static bool is_always(const Graph *body, int k, int input)
{
	const Value *v = body->results.at[k]->value;
	const Tensor *t;

	while (v->def && v->def->op == OP_Identity)
		v = node_in(v->def, 0);
	t = value_const(v);
	return (!v->def && v->index == input) ||
	       (t && t->dtype == DT_BOOL && tensor_numel(t) == 1 && *(const bool *)t->data);
}

/* The operand K of N, a scalar or a vector of one element, as a size; null after a diagnostic. */
static Dim *single(Infer *in, Node *n, int k)
{
	int count;
	Dim **d = infer_contents(in, n, node_in(n, k), &count);

	if (d && count != 1)
		infer_error(in, n, "operand %d has %d elements, expected one", k + 1, count);
	return d && count == 1 ? d[0] : NULL;
}

/* The number of turns: operand 0, if it is there, and none if the condition is false from the start. */
static bool loop_trip(Infer *in, Node *n, int own, bool always, BodyLoop *l)
{
	Ctx *c = in->ctx;
	Value *m = own > 0 ? node_in(n, 0) : NULL, *cond = own > 1 ? node_in(n, 1) : NULL;
	Dim *first = cond && always ? single(in, n, 1) : dim_const(c, 1);

	if (!first)
		return false;
	if (m) {
		l->trip = single(in, n, 0);
		if (!l->trip)
			return false;
		l->trip = dim_max(c, l->trip, dim_const(c, 0));
		if (!dim_equals(first, 1))
			l->trip = dim_mul(c, l->trip, first);
		l->trip = dim_named(c, l->trip, "turns");
	} else if (always && !dim_equals(first, 0)) {
		return infer_error(in, n,
				   "the loop never ends: its condition is always true, and it "
				   "has no number of turns");
	} else if (always) {
		l->trip = dim_const(c, 0);
	}
	if (always)
		return true;
	l->go = cond ? as_scalar(in, n, cond) : expand_scalar(in, n, DT_BOOL, 1);
	return true;
}

static bool expand_loop(Infer *in, Node *n, Value **out)
{
	const int own = own_operands(n);
	BodyLoop l = {.in = in, .n = n, .lead = 2};

	l.body = body_of(in, n, "body", &l.captured_from);
	if (!l.body)
		return false;
	l.nvar = own > 2 ? own - 2 : 0;
	l.neach = l.body->results.n - 1 - l.nvar;
	if (l.neach < 0 || l.nvar + l.neach != n->nout ||
	    l.body->inputs.n != l.lead + l.nvar + (n->nin - own))
		return infer_error(
			in, n,
			"carries %d values and has %d results; its body has %d inputs and "
			"%d results",
			l.nvar, n->nout, l.body->inputs.n - (n->nin - own), l.body->results.n);
	if (!loop_trip(in, n, own, is_always(l.body, 0, 1), &l))
		return false;
	l.var = NEW_ARRAY(in->arena, l.nvar + 1, Carried);
	for (int i = 0; i < l.nvar; i++) {
		l.var[i].init = node_in(n, 2 + i);
		if (!l.var[i].init)
			return infer_error(in, n, "operand %d is missing", 3 + i);
	}
	return build_loop(&l, out);
}

const Op op_Loop = {.expand = expand_loop, .regions = true};

/* ---- Scan ---- */

/* What expand_scan knows of N's sequences. */
typedef struct ScanLoop {
	BodyLoop l;
	Value **sequence; /* the sliced axis first */
	const int64_t *reverse;
} ScanLoop;

static Value *scan_slice(BodyLoop *l, const LoopBuild *b, int k)
{
	const ScanLoop *s = (const ScanLoop *)l;
	Ctx *c = l->in->ctx;
	Dim *last = dim_sub(c, l->trip, dim_const(c, 1));

	return expand_row(l->in, l->n, s->sequence[k],
			  s->reverse[k] ? dim_sub(c, last, b->turn) : b->turn);
}

/* V with its axis FROM moved to TO. */
static Value *move_axis(Infer *in, Node *n, Value *v, int from, int to)
{
	const int rank = v->type->rank;
	int64_t perm[MAX_RANK];
	Node *t;

	if (from == to)
		return v;
	for (int d = 0, at = 0; d < rank; d++) {
		if (d == to) {
			perm[d] = from;
			continue;
		}
		at += at == from;
		perm[d] = at++;
	}
	t = node_new(in->graph, OP_Transpose, &v, 1, 1, n);
	node_locs_from(t, n);
	node_set_ints(t, "perm", perm, rank);
	infer_node(in, t);
	return t->out[0];
}

/* Reads the attribute NAME, COUNT ints that default to 0. */
static bool scan_ints(Infer *in, Node *n, const char *name, int count, int64_t *out)
{
	int have;
	const int64_t *v = node_ints(n, name, &have);

	if (have >= 0 && have != count)
		return infer_error(in, n, "attribute %s has %d elements, expected %d", name, have,
				   count);
	for (int i = 0; i < count; i++)
		out[i] = have < 0 ? 0 : v[i];
	return true;
}

static bool scan_sequences(ScanLoop *s, const int64_t *axes)
{
	Infer *in = s->l.in;
	Node *n = s->l.n;

	for (int i = 0; i < s->l.nslice; i++) {
		Value *v = node_in(n, s->l.nvar + i);
		int axis;

		if (!v || !v->type)
			return infer_error(in, n, "operand %d is missing", s->l.nvar + i + 1);
		if (!infer_axis(in, n, axes[i], v->type->rank, &axis))
			return false;
		if (!s->l.trip)
			s->l.trip = v->type->dims[axis];
		else if (!infer_equal(in, n, s->l.trip, v->type->dims[axis],
				      "the sequences differ in length"))
			return false;
		s->sequence[i] = move_axis(in, n, v, axis, 0);
	}
	return true;
}

static bool expand_scan(Infer *in, Node *n, Value **out)
{
	const int own = own_operands(n), nslice = (int)node_int(n, "num_scan_inputs", 0);
	ScanLoop s = {.l = {.in = in, .n = n, .nslice = nslice, .slice = scan_slice}};
	int64_t *axes = NEW_ARRAY(in->arena, 4 * (own + n->nout) + 4, int64_t),
		*reverse = axes + own + n->nout + 1, *out_axes = reverse + own + n->nout + 1,
		*out_reverse = out_axes + own + n->nout + 1;

	s.l.body = body_of(in, n, "body", &s.l.captured_from);
	if (!s.l.body)
		return false;
	s.l.nvar = own - nslice;
	s.l.neach = n->nout - s.l.nvar;
	if (nslice < 1 || s.l.nvar < 0 || s.l.neach < 0 || s.l.body->results.n != n->nout ||
	    s.l.body->inputs.n != n->nin)
		return infer_error(
			in, n,
			"has %d operands, %d of them sequences, and %d results; its body "
			"has %d inputs and %d results",
			own, nslice, n->nout, s.l.body->inputs.n - (n->nin - own),
			s.l.body->results.n);
	s.sequence = NEW_ARRAY(in->arena, nslice + 1, Value *);
	s.reverse = reverse;
	s.l.reverse = out_reverse;
	if (!scan_ints(in, n, "scan_input_axes", nslice, axes) ||
	    !scan_ints(in, n, "scan_input_directions", nslice, reverse) ||
	    !scan_ints(in, n, "scan_output_axes", s.l.neach, out_axes) ||
	    !scan_ints(in, n, "scan_output_directions", s.l.neach, out_reverse) ||
	    !scan_sequences(&s, axes))
		return false;
	s.l.var = NEW_ARRAY(in->arena, s.l.nvar + 1, Carried);
	for (int i = 0; i < s.l.nvar; i++)
		s.l.var[i].init = node_in(n, i);
	if (!build_loop(&s.l, out))
		return false;
	for (int i = 0; i < s.l.neach; i++) {
		Value **v = &out[s.l.nvar + i];
		int axis;

		if (!infer_axis(in, n, out_axes[i], (*v)->type->rank, &axis))
			return false;
		*v = move_axis(in, n, *v, 0, axis);
	}
	return true;
}

const Op op_Scan = {.expand = expand_scan, .regions = true};

>>>>>>> 77ec2bb5c1f0a5fa07f63803117da5f15b11ab86
/* ---- Brackets ---- */

/* Types that a text gives are kept; others follow from the operands. */
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
const Op op_Turn = {.infer = infer_bracket};
const Op op_While = {.infer = infer_bracket};
const Op op_EndFor = {.infer = infer_bracket};
