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

	in->brackets = true;
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

/* What must be 1, else 0, for the nodes behind the bracket N, which is not closed before them, to run; null: nothing. */
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

static bool put_both(Infer *in, Node *n, Dim *c, Graph *const *body, const int *from, Value **out)
{
	Value **side = NEW_ARRAY(in->arena, 2 * n->nout + 1, Value *);
	Value **args = NEW_ARRAY(in->arena, n->nin + 1, Value *);
	Node *end;
	bool ok = true;

	for (int i = 0; i < n->nin; i++)
		args[i] = node_in(n, i);
	control_set_dim(control_bracket(in, n, OP_When, NULL, 0, 0), "value", c);
	ok = control_put_body(in, n, body[0], args + from[0], side);
	control_bracket(in, n, OP_Else, NULL, 0, 0);
	ok = control_put_body(in, n, body[1], args + from[1], side + n->nout) && ok;
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
	LoopBuild b = {.in = in, .n = n, .trip = trip, .ncarried = ninit, .outer = in->turn};
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
	b->in->turn = b->outer;
}

/* ---- Brackets ---- */

/* Types that a text gives are kept; others follow from the operands. */
static bool infer_bracket(Infer *in, Node *n)
{
	in->brackets = true;
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
