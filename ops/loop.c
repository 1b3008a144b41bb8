/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loop and Scan, whose bodies are graphs. The number of turns is a size: a constant, an expression of the
 * inputs' dims, or an element of a tensor that the host reads during the run. A value that a loop carries
 * keeps its shape; where the body gives it another one, the sizes that differ are carried as well, as a vector
 * of integers from which symbols are read. Inference finds them by typing the body again until nothing differs.
 */
#include "ir/blocks.h"
#include "ops/control.h"

enum {
	GROWN_MAX = 8
}; /* times that the body is typed again, for each value that it carries or stacks */

/* ---- Loops with a body that is a graph ---- */

/* A value that the body carries. */
typedef struct Carried {
	Value *init;
	bool grows[MAX_RANK]; /* the sizes that differ from turn to turn */
	bool any;
	int rank;
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
	Carried *
		each; /* what is stacked; its sizes in a turn are carried to the next one, if they may differ */
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

/* Whether the turns all give values of the same sizes, of which T is the type. False also notes in EACH which
 * sizes a turn decides. */
static bool same_in_turns(Carried *each, const Node *open, const Type *t)
{
	bool same = true;

	each->rank = t->rank;
	for (int d = 0; d < t->rank; d++) {
		const Type one = {.kind = TYPE_TENSOR, .rank = 1, .dims = &t->dims[d]};

		if (each->grows[d] || !varies(open, &one))
			continue;
		each->grows[d] = each->any = true;
		same = false;
	}
	return same;
}

/* What a turn decides of the sizes of stacked value K, of type T, is carried to the next turn, which must decide
 * the same. */
static bool next_sizes(BodyLoop *l, const LoopBuild *b, int k, const Type *t, Value **next)
{
	const Carried *each = &l->each[k];
	Ctx *c = l->in->ctx;
	Dim *later = dim_min(c, b->turn, dim_const(c, 1));

	for (int d = 0; d < t->rank; d++)
		if (each->grows[d] &&
		    !infer_equal(l->in, l->n,
				 dim_mul(c, later, fresh_size(l->in, b->carried[each->sizes], d)),
				 dim_mul(c, later, t->dims[d]),
				 "the values that the loop stacks differ in size"))
			return false;
	next[each->sizes] = expand_dims(l->in, l->n, DT_I64, t->dims, t->rank, false);
	return true;
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

/* One attempt at making a loop, with the sizes that are known to grow so far. */
typedef struct LoopAttempt {
	BodyLoop *l;
	LoopBuild b;
	/* What the loop carries: the body's values, the sizes of those that grow, and, where the body decides
	 * whether a further turn follows, the condition and the number of turns so far. */
	Value **init, **next, **last;
	int n;
	int go, turns;   /* the numbers of the condition and the count, or -1 */
	Value **results; /* of the body: the values that it carries, then those that are stacked */
	int syms, facts; /* how many there were before */
} LoopAttempt;

static int carry(LoopAttempt *t, Value *init)
{
	t->init[t->n] = init;
	return t->n++;
}

static void list_carried(LoopAttempt *t)
{
	static const int64_t none[MAX_RANK];
	BodyLoop *l = t->l;
	Infer *in = l->in;

	for (int i = 0; i < l->nvar; i++)
		carry(t, l->var[i].init);
	for (int i = 0; i < l->nvar; i++) {
		const Type *type = l->var[i].init->type;

		if (l->var[i].any)
			l->var[i].sizes = carry(
				t, expand_dims(in, l->n, DT_I64, type->dims, type->rank, false));
	}
	for (int i = 0; i < l->neach; i++)
		if (l->each[i].any)
			l->each[i].sizes = carry(t, expand_ints(in, l->n, none, l->each[i].rank));
	if (!l->go)
		return;
	t->go = carry(t, l->go);
	t->turns = carry(t, expand_scalar(in, l->n, DT_I64, 0));
}

static void open_turn(LoopAttempt *t)
{
	BodyLoop *l = t->l;
	Infer *in = l->in;
	int n;

	t->b = loop_open(in, l->n, l->trip, t->init, t->n);
	if (t->go >= 0) {
		Dim *d = infer_contents(in, l->n, t->b.carried[t->go], &n)[0];

		control_set_dim(control_bracket(in, l->n, OP_While, NULL, 0, 0), "value", d);
	}
	for (int i = 0; i < l->nvar; i++)
		if (l->var[i].any)
			t->b.carried[i]->type = grown_type(in, &l->var[i], t->init[i]->type,
							   t->b.carried[l->var[i].sizes]);
}

/* Puts the body into the loop. */
static bool put_turn(LoopAttempt *t)
{
	BodyLoop *l = t->l;
	Infer *in = l->in;
	Value **args = NEW_ARRAY(in->arena, l->body->inputs.n + 1, Value *);
	int n = 0;

	if (l->lead) {
		args[n++] = expand_dims(in, l->n, DT_I64, &t->b.turn, 1, true);
		args[n++] = t->go >= 0 ? t->b.carried[t->go] : expand_scalar(in, l->n, DT_BOOL, 1);
	}
	for (int i = 0; i < l->nvar; i++)
		args[n++] = t->b.carried[i];
	for (int i = 0; i < l->nslice; i++)
		args[n++] = l->slice(l, &t->b, i);
	for (int k = l->captured_from; n < l->body->inputs.n; k++)
		args[n++] = node_in(l->n, k);
	if (!control_put_body(in, l->n, l->body, args, t->results))
		return false;
	for (int i = 0; i < l->body->results.n; i++)
		if (!t->results[i] || !t->results[i]->type)
			return false;
	if (t->go >= 0)
		t->next[t->go] = as_scalar(in, l->n, t->results[0]);
	t->results += l->lead ? 1 : 0;
	return true;
}

/* Compares the sizes that a turn gives with those that it began with. *AGAIN: another one differs. */
static bool compare_sizes(LoopAttempt *t, bool *again)
{
	BodyLoop *l = t->l;

	for (int i = 0; i < l->nvar; i++) {
		t->next[i] = t->results[i];
		if (!same_sizes(l->in, l->n, i, &l->var[i], t->b.carried[i]->type,
				t->next[i]->type))
			*again = true;
	}
	for (int i = 0; i < l->neach; i++)
		if (!same_in_turns(&l->each[i], t->b.open, t->results[l->nvar + i]->type))
			*again = true;
	return !l->in->errors;
}

/* What is carried beside the body's own values. */
static bool list_next(LoopAttempt *t)
{
	BodyLoop *l = t->l;
	Infer *in = l->in;
	Dim *after = dim_add(in->ctx, t->b.turn, dim_const(in->ctx, 1));

	for (int i = 0; i < l->nvar; i++)
		if (l->var[i].any)
			t->next[l->var[i].sizes] = expand_dims(in, l->n, DT_I64,
							       t->next[i]->type->dims,
							       t->next[i]->type->rank, false);
	for (int i = 0; i < l->neach; i++)
		if (l->each[i].any &&
		    !next_sizes(l, &t->b, i, t->results[l->nvar + i]->type, t->next))
			return false;
	if (t->go >= 0)
		t->next[t->turns] = expand_dims(in, l->n, DT_I64, &after, 1, true);
	return true;
}

/* The number of turns that ran, once the loop has ended. */
static Dim *turns_run(LoopAttempt *t)
{
	Dim *count;
	int n;

	t->last[t->turns]->name = "turns";
	count = infer_contents(t->l->in, t->l->n, t->last[t->turns], &n)[0];
	if (dim_as_sym(count))
		sym_bound(t->l->in->ctx, dim_as_sym(count), 0, DIM_FAR);
	return count;
}

static void close_loop(LoopAttempt *t, Value **last, Value **all)
{
	BodyLoop *l = t->l;
	Infer *in = l->in;
	Dim *dims[MAX_RANK + 1], *count = l->trip;

	loop_close(&t->b, t->next, t->results + l->nvar, l->neach, l->reverse,
		   t->go >= 0 ? dim_const(in->ctx, 0) : count, t->last, all);
	if (t->go >= 0)
		count = turns_run(t);
	for (int i = 0; i < l->neach; i++) {
		const Type *type = all[i]->type;

		memcpy(dims, type->dims, (size_t)type->rank * sizeof *dims);
		dims[0] = count;
		for (int d = 1; d < type->rank; d++)
			if (l->each[i].grows[d - 1])
				dims[d] = fresh_size(in, t->last[l->each[i].sizes], d - 1);
		all[i]->type = type_tensor(in->ctx, type->dtype, type->rank, dims);
	}
	for (int i = 0; i < l->nvar; i++) {
		last[i] = t->last[i];
		if (l->var[i].any)
			last[i]->type = grown_type(in, &l->var[i], last[i]->type,
						   t->last[l->var[i].sizes]);
	}
}

/* *AGAIN: another size grows, and everything that was made is removed. */
static bool try_loop(BodyLoop *l, Value **last, Value **all, bool *again)
{
	Infer *in = l->in;
	const int most = 2 * l->nvar + l->neach + 2;
	LoopAttempt t = {.l = l,
			 .go = -1,
			 .turns = -1,
			 .syms = sym_count(in->ctx),
			 .facts = in->graph->facts.n};
	bool ok;

	t.init = NEW_ARRAY(in->arena, 3 * most, Value *);
	t.next = t.init + most;
	t.last = t.next + most;
	t.results = NEW_ARRAY(in->arena, l->body->results.n + 1, Value *);
	*again = false;
	list_carried(&t);
	open_turn(&t);
	ok = put_turn(&t) && compare_sizes(&t, again);
	if (ok && !*again)
		ok = list_next(&t);
	if (ok && !*again) {
		close_loop(&t, last, all);
		return true;
	}
	in->turn = t.b.outer;
	if (ok)
		remove_since(l, t.b.open, t.syms, t.facts);
	return ok;
}

static bool build_loop(BodyLoop *l, Value **out)
{
	bool again = true, ok = true;

	l->each = NEW_ARRAY(l->in->arena, l->neach + 1, Carried);
	for (int i = 0; i < GROWN_MAX * (l->nvar + l->neach + 1) && again && ok; i++)
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
	const int own = control_operands(n);
	BodyLoop l = {.in = in, .n = n, .lead = 2};

	l.body = control_body(in, n, "body", &l.captured_from);
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

static bool scan_sequences(ScanLoop *s, Value *const *v, const int64_t *axes)
{
	Infer *in = s->l.in;
	Node *n = s->l.n;

	for (int i = 0; i < s->l.nslice; i++) {
		int axis;

		if (!infer_axis(in, n, axes[i], v[i]->type->rank, &axis))
			return false;
		if (!s->l.trip)
			s->l.trip = v[i]->type->dims[axis];
		else if (!infer_equal(in, n, s->l.trip, v[i]->type->dims[axis],
				      "the sequences differ in length"))
			return false;
		s->sequence[i] = move_axis(in, n, v[i], axis, 0);
	}
	return true;
}

/* Scans the operands V: the states, then the sequences. AXES has those of the sequences, then those of the
 * results that are stacked. */
static bool scan(ScanLoop *s, Value *const *v, const int64_t *axes, Value **out)
{
	BodyLoop *l = &s->l;

	if (!scan_sequences(s, v + l->nvar, axes))
		return false;
	l->var = NEW_ARRAY(l->in->arena, l->nvar + 1, Carried);
	for (int i = 0; i < l->nvar; i++)
		l->var[i].init = v[i];
	if (!build_loop(l, out))
		return false;
	for (int i = 0; i < l->neach; i++) {
		Value **all = &out[l->nvar + i];
		int axis;

		if (!infer_axis(l->in, l->n, axes[l->nslice + i], (*all)->type->rank, &axis))
			return false;
		*all = move_axis(l->in, l->n, *all, 0, axis);
	}
	return true;
}

/* As `scan`, for operands and results whose first axis is a batch: the form of opset 8. */
static bool scan_batch(ScanLoop *s, Value *const *v, const int64_t *axes, Value **out)
{
	Infer *in = s->l.in;
	Node *n = s->l.n;
	const int count = s->l.nvar + s->l.nslice;
	Value **row = NEW_ARRAY(in->arena, count + 1, Value *),
	      **each = NEW_ARRAY(in->arena, n->nout + 1, Value *);
	LoopBuild b;

	for (int i = 0; i < count; i++)
		if (v[i]->type->rank < 1 ||
		    !infer_equal(in, n, v[i]->type->dims[0], v[0]->type->dims[0],
				 "the operands differ in their batch"))
			return !in->errors && infer_error(in, n, "operand %d has no batch", i + 2);
	b = loop_open(in, n, v[0]->type->dims[0], NULL, 0);
	for (int i = 0; i < count; i++)
		row[i] = expand_row(in, n, v[i], b.turn);
	if (!scan(s, row, axes, each))
		return false;
	for (int i = 0; i < n->nout; i++)
		if (varies(b.open, each[i]->type))
			return infer_error(
				in, n,
				"result %d has sizes that grow, which is not supported for a "
				"batch; --dim may fix them",
				i + 1);
	loop_close(&b, NULL, each, n->nout, NULL, b.trip, NULL, out);
	return true;
}

static bool expand_scan(Infer *in, Node *n, Value **out)
{
	const int own = control_operands(n), nslice = (int)node_int(n, "num_scan_inputs", 0);
	const bool batched = node_int(n, "batched", 0) != 0;
	ScanLoop s = {.l = {.in = in, .n = n, .nslice = nslice, .slice = scan_slice}};
	int64_t *axes = NEW_ARRAY(in->arena, 3 * (own + n->nout) + 3, int64_t),
		*reverse = axes + own + n->nout + 1, *out_reverse = reverse + own + n->nout + 1;
	Value **v = NEW_ARRAY(in->arena, own + 1, Value *);

	s.l.body = control_body(in, n, "body", &s.l.captured_from);
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
	for (int i = 0; i < own; i++) {
		v[i] = node_in(n, i);
		if (!v[i])
			return infer_error(in, n, "operand %d is missing", i + 1);
	}
	s.sequence = NEW_ARRAY(in->arena, nslice + 1, Value *);
	s.reverse = reverse;
	s.l.reverse = out_reverse;
	return scan_ints(in, n, "scan_input_axes", nslice, axes) &&
	       scan_ints(in, n, "scan_input_directions", nslice, reverse) &&
	       scan_ints(in, n, "scan_output_axes", s.l.neach, axes + nslice) &&
	       scan_ints(in, n, "scan_output_directions", s.l.neach, out_reverse) &&
	       (batched ? scan_batch : scan)(&s, v, axes, out);
}

const Op op_Scan = {.expand = expand_scan, .regions = true};
