/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loop and Scan, whose bodies are graphs. The number of iterations is a size: a constant, an
 * expression of the inputs' dims, or an element of a tensor that the host reads during the run. A
 * value that a loop carries keeps its shape; where the body gives it another one, the sizes that
 * differ are carried as well, as a vector of integers from which symbols are read. Inference finds
 * them by typing the body again until nothing differs.
 */
#include "ir/graph/blocks.h"
#include "ops/infer/control.h"
#include "ops/infer/parts.h"
#include "ops/onnx/shape.h"

enum {
	GROWN_MAX =
		8, /* times that the body is typed again, for each value that it carries or stacks */
	UNROLLED_MAX = 64 /* nodes that take the place of a loop over sequences */
};

/* ---- Loops with a body that is a graph ---- */

/* A value that the body carries. */
typedef struct Carried {
	Value *init;
	bool grows[MAX_RANK]; /* the sizes that differ from iteration to iteration */
	bool any;
	int rank;
	int sizes; /* the number of the carried vector of its sizes, if any grows */
} Carried;

/* A value that the body carries; one that is not a tensor is carried in parts
 * (ops/infer/parts.h). */
typedef struct LoopValue {
	Value *init;
	const Type *type; /* while the rank of a sequence's tensors is not known, INIT itself is
			     passed to the body */
	int first;        /* of its parts in BodyLoop.var */
	bool listed;      /* the body gives a sequence where the type is that of an optional one */
} LoopValue;

typedef struct BodyLoop {
	Infer *in;
	Node *n;
	const Graph *body;
	int captured_from;
	Dim *trip;
	Value *go; /* the condition for the first iteration, or null: every iteration runs */
	LoopValue *value;
	Carried *var;
	/* stacked values; their sizes are carried to the next iteration if they may differ */
	Carried *each;
	int nvalue, nvar, neach;
	/* inputs of the body between the carried values and the captured ones */
	Value *(*slice)(struct BodyLoop *l, const LoopBuild *b, int k);
	int nslice;
	int lead; /* inputs of the body before the carried values: the number of the iteration and
		     the condition */
	/* computes an iteration, in place of BODY, and returns the stacked values; null: BODY */
	bool (*iteration)(struct BodyLoop *l, const LoopBuild *b, Value **results);
	bool appends; /* the body gives a further tensor for each carried value, a sequence that it
			 does not see */
	const int64_t *reverse;
} BodyLoop;

/* The type of T with the sizes that grow read from SIZES. */
static const Type *grown_type(Infer *in, const Carried *v, const Type *t, Value *sizes)
{
	Dim *dims[MAX_RANK];

	for (int d = 0; d < t->rank; d++)
		dims[d] = v->grows[d] ? control_size(in, sizes, d) : t->dims[d];
	return type_tensor(in->ctx, t->dtype, t->rank, dims);
}

/* Whether carried value K, which has type NOW in an iteration and NEXT after it, keeps its element
 * type and rank. */
static bool keeps_rank(Infer *in, Node *n, int k, const Type *now, const Type *next)
{
	return (now->dtype == next->dtype && now->rank == next->rank) ||
	       infer_error(
		       in, n,
		       "carried value %d is %s of rank %d before an iteration and %s of rank %d "
		       "after it",
		       k + 1, dtype_info[now->dtype].name, now->rank, dtype_info[next->dtype].name,
		       next->rank);
}

/* Compares the sizes of type NEXT with the sizes NOW that V has in an iteration. False: another
 * size grows. */
static bool same_sizes(Carried *v, const Type *now, const Type *next)
{
	bool same = true;

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

/* Whether an iteration decides the size D. */
static bool varies(const Node *open, const Dim *d)
{
	DIM_EACH_SYM (s, d) {
		const Value *from = graph_source(open->graph, s).value;

		if ((from && from->def && is_since(open, from->def)) ||
		    (s->def && varies(open, s->def)))
			return true;
	}
	return false;
}

/* Whether all iterations give values of the same sizes, of type T. If not, sets EACH for the sizes
 * that depend on the iteration. */
static bool same_in_iterations(Carried *each, const Node *open, const Type *t)
{
	bool same = true;

	each->rank = t->rank;
	for (int d = 0; d < t->rank; d++) {
		if (each->grows[d] || !varies(open, t->dims[d]))
			continue;
		each->grows[d] = each->any = true;
		same = false;
	}
	return same;
}

/* Carries the sizes of stacked value K, of type T, that depend on the iteration to the next
 * iteration, which must have the same ones. */
static bool next_sizes(BodyLoop *l, const LoopBuild *b, int k, const Type *t, Value **next)
{
	const Carried *each = &l->each[k];
	Ctx *c = l->in->ctx;
	Dim *later = dim_min(c, b->iteration, dim_const(c, 1));

	for (int d = 0; d < t->rank; d++)
		if (each->grows[d] &&
		    !infer_equal(l->in, l->n,
				 dim_mul(c, later, control_size(l->in, b->carried[each->sizes], d)),
				 dim_mul(c, later, t->dims[d]),
				 "the values that the loop stacks differ in size"))
			return false;
	next[each->sizes] = expand_dims(l->in, l->n, DT_I64, t->dims, t->rank, false);
	return true;
}

/* One attempt at making a loop, with the sizes that are known to grow so far. */
typedef struct LoopAttempt {
	BodyLoop *l;
	LoopBuild b;
	/* The values that the loop carries: the body's values, the sizes of those that grow, and,
	 * if the body decides whether another iteration follows, the condition and the number of
	 * iterations so far. */
	Value **init, **next, **last;
	int n;
	int go, iterations; /* the numbers of the condition and the count, or -1 */
	Value **results; /* results of the body: the carried values, then the stacked ones */
	int syms, facts; /* the number of nodes before */
} LoopAttempt;

static int carry(LoopAttempt *t, Value *init)
{
	t->init[t->n] = init;
	return t->n++;
}

/* The number of parts that are carried for V. */
static int carried_parts(const LoopValue *v)
{
	const Type *elem = type_listed(v->type);

	return elem && elem->rank < 0 ? 0 : type_parts(v->type);
}

/* Numbers the parts of the carried values; none is known to grow yet. */
static void number_parts(BodyLoop *l)
{
	l->nvar = 0;
	for (int i = 0; i < l->nvalue; i++) {
		l->value[i].first = l->nvar;
		l->nvar += carried_parts(&l->value[i]);
	}
	l->var = NEW_ARRAY(l->in->arena, l->nvar + 1, Carried);
}

static bool list_carried(LoopAttempt *t)
{
	static const int64_t none[MAX_RANK];
	BodyLoop *l = t->l;
	Infer *in = l->in;
	Value *part[PARTS_MAX];

	for (int i = 0; i < l->nvalue; i++) {
		const LoopValue *v = &l->value[i];
		const int parts = carried_parts(v);

		if (parts && !parts_of(in, l->n, v->init, v->type, part))
			return false;
		for (int k = 0; k < parts; k++)
			l->var[v->first + k].init = t->init[carry(t, part[k])];
	}
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
		return true;
	t->go = carry(t, l->go);
	t->iterations = carry(t, expand_scalar(in, l->n, DT_I64, 0));
	return true;
}

static void open_iteration(LoopAttempt *t)
{
	BodyLoop *l = t->l;
	Infer *in = l->in;

	t->b = loop_open(in, l->n, l->trip, t->init, t->n);
	if (t->go >= 0)
		loop_while(&t->b, t->b.carried[t->go]);
	for (int i = 0; i < l->nvar; i++)
		if (l->var[i].any)
			t->b.carried[i]->type = grown_type(in, &l->var[i], t->init[i]->type,
							   t->b.carried[l->var[i].sizes]);
}

/* The carried value I in an iteration. */
static Value *value_in_iteration(LoopAttempt *t, int i)
{
	const LoopValue *v = &t->l->value[i];

	return carried_parts(v) ? parts_join(t->l->in, t->l->n, v->type, t->b.carried + v->first)
				: v->init;
}

/* Appends the body's result for each carried sequence. */
static bool append(LoopAttempt *t)
{
	for (int i = 0; i < t->l->nvalue; i++) {
		t->results[i] = sequence_insert(t->l->in, t->l->n, value_in_iteration(t, i),
						t->results[i], NULL);
		if (!t->results[i])
			return false;
	}
	return true;
}

/* Puts the body into the loop. */
static bool put_iteration(LoopAttempt *t)
{
	BodyLoop *l = t->l;
	Infer *in = l->in;
	Value **args;
	int n = 0;

	if (l->iteration)
		return l->iteration(l, &t->b, t->results);
	args = NEW_ARRAY(in->arena, l->body->inputs.n + 1, Value *);
	if (l->lead) {
		args[n++] = expand_dims(in, l->n, DT_I64, &t->b.iteration, 1, true);
		args[n++] = t->go >= 0 ? t->b.carried[t->go] : expand_scalar(in, l->n, DT_BOOL, 1);
	}
	for (int i = 0; i < l->nvalue && !l->appends; i++)
		args[n++] = value_in_iteration(t, i);
	for (int i = 0; i < l->nslice; i++)
		args[n++] = l->slice(l, &t->b, i);
	for (int k = l->captured_from; n < l->body->inputs.n; k++)
		args[n++] = node_in(l->n, k);
	if (!control_put_body(in, l->n, l->body, args, t->results))
		return false;
	for (int i = 0; i < l->body->results.n; i++)
		if (!t->results[i] || !t->results[i]->type)
			return false;
	if (t->go >= 0 &&
	    !control_single(in, l->n, t->results[0], DT_BOOL, "the condition that the body gives"))
		return false;
	if (t->go >= 0)
		t->next[t->go] = expand_as_scalar(in, l->n, t->results[0]);
	t->results += l->lead ? 1 : 0;
	return !l->appends || append(t);
}

/* Compares the types after an iteration with those before it. *AGAIN: another iteration is needed,
 * with types that contain both. */
static bool compare_types(LoopAttempt *t, bool *again)
{
	BodyLoop *l = t->l;
	Infer *in = l->in;

	for (int i = 0; i < l->nvalue; i++) {
		LoopValue *v = &l->value[i];
		const Type *given = parts_ranked(in, l->n, t->results[i]);
		const Type *both = parts_merge(in, l->n, v->type, given, "a carried value");

		if (!both)
			return false;
		*again = *again || both != v->type;
		v->type = both;
		v->listed = given->kind == TYPE_SEQUENCE && both->kind == TYPE_OPTIONAL;
	}
	for (int i = 0; i < l->neach; i++)
		if (t->results[l->nvalue + i]->type->kind != TYPE_TENSOR)
			return infer_error(in, l->n, "stacks a value that is not a tensor");
	return true;
}

static bool next_parts(LoopAttempt *t)
{
	for (int i = 0; i < t->l->nvalue; i++) {
		const LoopValue *v = &t->l->value[i];

		if (!parts_of(t->l->in, t->l->n, t->results[i], v->type, t->next + v->first))
			return false;
	}
	return true;
}

/* Compares the sizes after an iteration with those before it. *AGAIN: another size differs. */
static bool compare_sizes(LoopAttempt *t, bool *again)
{
	BodyLoop *l = t->l;

	if (!compare_types(t, again))
		return false;
	if (*again) {
		number_parts(l);
		return true;
	}
	if (!next_parts(t))
		return false;
	for (int i = 0; i < l->nvar; i++) {
		const Type *now = t->b.carried[i]->type, *next = t->next[i]->type;

		if (!keeps_rank(l->in, l->n, i, now, next))
			return false;
		if (!same_sizes(&l->var[i], now, next))
			*again = true;
	}
	for (int i = 0; i < l->neach; i++)
		if (!same_in_iterations(&l->each[i], t->b.open, t->results[l->nvalue + i]->type))
			*again = true;
	return true;
}

/* The carried values other than the body's own. */
static bool list_next(LoopAttempt *t)
{
	BodyLoop *l = t->l;
	Infer *in = l->in;
	Dim *after = dim_add(in->ctx, t->b.iteration, dim_const(in->ctx, 1));

	for (int i = 0; i < l->nvar; i++)
		if (l->var[i].any)
			t->next[l->var[i].sizes] = expand_dims(in, l->n, DT_I64,
							       t->next[i]->type->dims,
							       t->next[i]->type->rank, false);
	for (int i = 0; i < l->neach; i++)
		if (l->each[i].any &&
		    !next_sizes(l, &t->b, i, t->results[l->nvalue + i]->type, t->next))
			return false;
	if (t->go >= 0)
		t->next[t->iterations] = expand_dims(in, l->n, DT_I64, &after, 1, true);
	return true;
}

/* The number of iterations that ran, once the loop has ended. */
static Dim *iterations_run(LoopAttempt *t)
{
	Dim *count;
	int n;

	t->last[t->iterations]->name = "iterations";
	count = infer_contents(t->l->in, t->l->n, t->last[t->iterations], &n)[0];
	if (dim_as_sym(count))
		sym_bound(t->l->in->ctx, dim_as_sym(count), 0, DIM_FAR);
	return count;
}

static void close_loop(LoopAttempt *t, Value **last, Value **all)
{
	BodyLoop *l = t->l;
	Infer *in = l->in;
	Dim *dims[MAX_RANK + 1], *count = l->trip;

	loop_end(&t->b, t->next, t->results + l->nvalue, l->neach, l->reverse,
		 t->go >= 0 ? dim_const(in->ctx, 0) : count, t->last, all);
	if (t->go >= 0)
		count = iterations_run(t);
	for (int i = 0; i < l->neach; i++) {
		const Type *type = all[i]->type;

		memcpy(dims, type->dims, (size_t)type->rank * sizeof *dims);
		dims[0] = count;
		for (int d = 1; d < type->rank; d++)
			if (l->each[i].grows[d - 1])
				dims[d] = control_size(in, t->last[l->each[i].sizes], d - 1);
		all[i]->type = type_tensor(in->ctx, type->dtype, type->rank, dims);
	}
	for (int i = 0; i < l->nvar; i++)
		if (l->var[i].any)
			t->last[i]->type = grown_type(in, &l->var[i], t->last[i]->type,
						      t->last[l->var[i].sizes]);
	loop_skip(&t->b, l->neach, t->last, all);
	for (int i = 0; i < l->nvalue; i++) {
		const LoopValue *v = &l->value[i];

		last[i] = parts_join(in, l->n, v->listed ? v->type->elem : v->type,
				     t->last + v->first);
	}
}

/* *AGAIN: another size grows, and everything that was made is removed. */
static bool try_loop(BodyLoop *l, Value **last, Value **all, bool *again)
{
	Infer *in = l->in;
	const int most = 2 * l->nvar + PARTS_MAX * l->nvalue + l->neach + 2;
	LoopAttempt t = {.l = l,
			 .go = -1,
			 .iterations = -1,
			 .syms = sym_count(in->ctx),
			 .facts = in->graph->facts.n};
	bool ok;

	t.init = NEW_ARRAY(in->arena, 3 * most, Value *);
	t.next = t.init + most;
	t.last = t.next + most;
	t.results = NEW_ARRAY(in->arena, (l->iteration ? l->neach : l->body->results.n) + 1,
			      Value *);
	*again = false;
	if (!list_carried(&t))
		return false;
	open_iteration(&t);
	ok = put_iteration(&t) && compare_sizes(&t, again);
	if (ok && !*again)
		ok = list_next(&t);
	if (ok && !*again) {
		close_loop(&t, last, all);
		return true;
	}
	in->iteration = t.b.outer;
	if (ok)
		control_undo(in, l->n, t.b.open, t.syms, t.facts);
	return ok;
}

static bool build_loop(BodyLoop *l, Value **out)
{
	bool again = true, ok = true;

	l->each = NEW_ARRAY(l->in->arena, l->neach + 1, Carried);
	number_parts(l);
	for (int i = 0; i < GROWN_MAX * (l->nvar + l->nvalue + l->neach + 1) && again && ok; i++)
		ok = try_loop(l, out, out + l->nvalue, &again);
	return ok &&
	       (!again || infer_error(l->in, l->n, "the sizes of the carried values do not converge"));
}

/* INIT: the first values that the body carries. */
static void carry_values(BodyLoop *l, Value *const *init)
{
	l->value = NEW_ARRAY(l->in->arena, l->nvalue + 1, LoopValue);
	for (int i = 0; i < l->nvalue; i++)
		l->value[i] = (LoopValue){.init = init[i], .type = init[i]->type};
}

static const Value *through_identities(const Value *v)
{
	while (v->def && v->def->op == OP_Identity)
		v = node_in(v->def, 0);
	return v;
}

/* Whether L's body gives the condition that it is given, or the constant true, which it may
 * capture. */
static bool is_always(const BodyLoop *l)
{
	const Value *v = through_identities(l->body->results.at[0]->value);
	const int captured = v->def ? -1 : v->index - l->lead - l->nvalue;
	const Tensor *t;

	if (captured >= 0)
		v = through_identities(node_in(l->n, l->captured_from + captured));
	t = value_const(v);
	return (captured < 0 && !v->def && v->index == 1) ||
	       (t && t->dtype == DT_BOOL && tensor_numel(t) == 1 && *(const bool *)t->data);
}

/* The number of iterations: operand 0, if it is there, and none if the condition is false from the
 * start. */
static bool loop_trip(Infer *in, Node *n, int own, bool always, BodyLoop *l)
{
	static const char never_ends[] =
		"the loop never ends: its condition is always true, and it "
		"has no number of iterations";
	Ctx *c = in->ctx;
	Value *m = own > 0 ? node_in(n, 0) : NULL, *cond = own > 1 ? node_in(n, 1) : NULL;
	Dim *first;

	if ((m && !control_single(in, n, m, DT_NONE, "the number of iterations")) ||
	    (cond && !control_single(in, n, cond, DT_BOOL, "the condition")))
		return false;
	first = cond && always ? infer_single(in, n, 1) : dim_const(c, 1);
	if (!first)
		return false;
	if (m) {
		l->trip = infer_single(in, n, 0);
		if (!l->trip)
			return false;
		l->trip = dim_max(c, l->trip, dim_const(c, 0));
		if (!dim_equals(first, 1))
			l->trip = dim_mul(c, l->trip, first);
		l->trip = dim_named(c, l->trip, "iterations");
	} else if (always && dim_equals(first, 1)) {
		return infer_error(in, n, "%s", never_ends);
	} else if (always) {
		if (!infer_equal_shown(in, n, first, dim_const(c, 0), never_ends,
				       (FactSize){"the condition is", first}, (FactSize){0}))
			return false;
		l->trip = dim_const(c, 0);
	}
	if (always)
		return true;
	l->go = cond ? expand_as_scalar(in, n, cond) : expand_scalar(in, n, DT_BOOL, 1);
	return true;
}

/* Whether a body replaces the loop for each iteration: there is only one, or a sequence is carried,
 * a loop over which gives sizes that are known only in the run. */
static bool unrolls(const BodyLoop *l)
{
	int64_t trip;
	bool lists = false;

	if (l->go || !dim_is_const(l->trip, &trip) || trip < 1 ||
	    (trip > 1 && (l->neach || trip > UNROLLED_MAX / (l->body->nnodes + 1))))
		return false;
	for (int i = 0; i < l->nvalue; i++)
		lists = lists || l->value[i].init->type->kind != TYPE_TENSOR;
	return lists || trip == 1;
}

/* The iterations of L, one after the other. OUT: the carried values, then the stacked ones. */
static bool unroll(BodyLoop *l, Value **out)
{
	Infer *in = l->in;
	const int nin = l->body->inputs.n, nout = l->body->results.n;
	Value **args = NEW_ARRAY(in->arena, nin + 1, Value *),
	      **results = NEW_ARRAY(in->arena, nout + 1, Value *);
	int64_t trip, first = 0;

	dim_is_const(l->trip, &trip);
	for (int i = 0; i < l->nvalue; i++)
		args[l->lead + i] = l->value[i].init;
	for (int i = l->lead + l->nvalue; i < nin; i++)
		args[i] = node_in(l->n, l->captured_from + i - l->lead - l->nvalue);
	for (int64_t at = 0; at < trip; at++) {
		args[0] = expand_scalar(in, l->n, DT_I64, (double)at);
		args[1] = expand_scalar(in, l->n, DT_BOOL, 1);
		if (!control_put_body(in, l->n, l->body, args, results))
			return false;
		for (int i = 0; i < nout; i++)
			if (!results[i] || !results[i]->type)
				return false;
		memcpy(args + l->lead, results + 1, (size_t)l->nvalue * sizeof *args);
	}
	for (int i = 0; i < l->nvalue + l->neach; i++)
		out[i] = i < l->nvalue ? results[1 + i]
				       : EXPAND(in, l->n, Unsqueeze, results[1 + i],
						expand_ints(in, l->n, &first, 1));
	return true;
}

static bool expand_loop(Infer *in, Node *n, Value **out)
{
	const int own = control_operands(n);
	BodyLoop l = {.in = in, .n = n, .lead = 2};
	Value **init;

	l.body = control_body(in, n, "body", &l.captured_from);
	if (!l.body)
		return false;
	l.nvalue = own > 2 ? own - 2 : 0;
	l.neach = l.body->results.n - 1 - l.nvalue;
	if (l.neach < 0 || l.nvalue + l.neach != n->nout ||
	    l.body->inputs.n != l.lead + l.nvalue + (n->nin - own))
		return infer_error(
			in, n,
			"carries %d values and has %d results; its body has %d inputs and "
			"%d results",
			l.nvalue, n->nout, l.body->inputs.n - (n->nin - own), l.body->results.n);
	if (!loop_trip(in, n, own, is_always(&l), &l))
		return false;
	init = NEW_ARRAY(in->arena, l.nvalue + 1, Value *);
	for (int i = 0; i < l.nvalue; i++) {
		init[i] = node_in(n, 2 + i);
		if (!init[i])
			return infer_error(in, n, "operand %d is missing", 3 + i);
	}
	carry_values(&l, init);
	return unrolls(&l) ? unroll(&l, out) : build_loop(&l, out);
}

const Op op_Loop = {
	.expand = expand_loop, .regions = true, .compound = true,
	.attrs = "body: graph",
	.doc = "after no iteration a scan output has the sizes that its body gives; in ONNX Runtime unknown sizes are 0",
};

/* ---- Scan ---- */

/* The properties of N's sequences for expand_scan. */
typedef struct ScanLoop {
	BodyLoop l;
	Value **sequence; /* the sliced axis first */
	const int64_t *reverse;
	bool ragged; /* the sequences may be longer than the iterations, and then stacked results
			end with zeros */
} ScanLoop;

static Value *scan_slice(BodyLoop *l, const LoopBuild *b, int k)
{
	const ScanLoop *s = (const ScanLoop *)l;
	Ctx *c = l->in->ctx;
	Dim *last = dim_sub(c, l->trip, dim_const(c, 1));

	return expand_row(l->in, l->n, s->sequence[k],
			  s->reverse[k] ? dim_sub(c, last, b->iteration) : b->iteration);
}

/* V with its axis FROM moved to TO. */
static Value *move_axis(Infer *in, Node *n, Value *v, int from, int to)
{
	const int rank = v->type->rank;
	int64_t perm[MAX_RANK];

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
	return expand_transpose(in, n, v, perm, rank);
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
		else if (s->ragged ? !infer_le(in, n, s->l.trip, v[i]->type->dims[axis],
					       "a sequence is shorter than its length")
				   : !infer_equal(in, n, s->l.trip, v[i]->type->dims[axis],
						  "the sequences differ in length"))
			return false;
		s->sequence[i] = move_axis(in, n, v[i], axis, 0);
	}
	return true;
}

/* V with zeros appended, so that it has SIZE elements along AXIS. */
static Value *lengthened(Infer *in, Node *n, Value *v, int64_t axis, Dim *size)
{
	Dim *pads[] = {dim_const(in->ctx, 0), dim_sub(in->ctx, size, v->type->dims[axis])};

	return EXPAND(in, n, Pad, v, expand_sizes(in, n, pads, 2),
		      expand_scalar(in, n, v->type->dtype, 0), expand_ints(in, n, &axis, 1));
}

/* Scans the operands V: the states, then the sequences. AXES has the axes of the sequences, then
 * those of the stacked results. */
static bool scan(ScanLoop *s, Value *const *v, const int64_t *axes, Value **out)
{
	BodyLoop *l = &s->l;

	if (!scan_sequences(s, v + l->nvalue, axes))
		return false;
	carry_values(l, v);
	if (!build_loop(l, out))
		return false;
	for (int i = 0; i < l->neach; i++) {
		Value **all = &out[l->nvalue + i];
		int axis;

		if (!infer_axis(l->in, l->n, axes[l->nslice + i], (*all)->type->rank, &axis))
			return false;
		if (s->ragged)
			*all = lengthened(l->in, l->n, *all, 0, s->sequence[0]->type->dims[0]);
		*all = move_axis(l->in, l->n, *all, 0, axis);
	}
	return true;
}

/* The form of opset 8: operands and results have a batch as their first axis. */
typedef struct BatchLoop {
	BodyLoop l;
	const ScanLoop *scan;
	Value *const *v; /* as for `scan` */
	const int64_t *axes;
	Value *lengths; /* of the sequences of each entry of the batch, or null */
} BatchLoop;

static bool scan_entry(BodyLoop *l, const LoopBuild *b, Value **results)
{
	const BatchLoop *batch = (const BatchLoop *)l;
	ScanLoop s = *batch->scan;
	const int count = s.l.nvalue + s.l.nslice;
	Value **row = NEW_ARRAY(l->in->arena, count + 1, Value *);
	int n;

	for (int i = 0; i < count; i++)
		row[i] = expand_row(l->in, l->n, batch->v[i], b->iteration);
	if (batch->lengths) {
		Dim **length = infer_contents(
			l->in, l->n, expand_row(l->in, l->n, batch->lengths, b->iteration), &n);

		if (!length || !infer_le(l->in, l->n, dim_const(l->in->ctx, 0), length[0],
					 "the length of a sequence is negative"))
			return false;
		s.l.trip = dim_max(l->in->ctx, length[0], dim_const(l->in->ctx, 0));
		s.ragged = true;
	}
	return scan(&s, row, batch->axes, results);
}

static bool scan_batch(const ScanLoop *s, Value *const *v, const int64_t *axes, Value *lengths,
		       Value **out)
{
	Infer *in = s->l.in;
	Node *n = s->l.n;
	BatchLoop b = {.l = {.in = in, .n = n, .neach = n->nout, .iteration = scan_entry},
		       .scan = s,
		       .v = v,
		       .axes = axes,
		       .lengths = lengths};

	for (int i = 0; i < s->l.nvalue + s->l.nslice; i++) {
		if (v[i]->type->rank < 1)
			return infer_error(in, n, "operand %d has no batch", i + 2);
		if (!infer_equal(in, n, v[i]->type->dims[0], v[0]->type->dims[0],
				 "the operands differ in their batch"))
			return false;
	}
	b.l.trip = v[0]->type->dims[0];
	if (lengths && (lengths->type->rank != 1 || !dtype_is_int(lengths->type->dtype)))
		return infer_error(in, n,
				   "the lengths of the sequences must be a vector of integers");
	return (!lengths ||
		infer_equal(in, n, lengths->type->dims[0], b.l.trip,
			    "the lengths of the sequences and the batch differ in number")) &&
	       build_loop(&b.l, out);
}

static bool expand_scan(Infer *in, Node *n, Value **out)
{
	const bool batched = node_int(n, "batched", 0) != 0,
		   lengths = node_int(n, "lengths", 0) != 0;
	const int own = control_operands(n) - lengths,
		  nslice = (int)node_int(n, "num_scan_inputs", 0);
	ScanLoop s = {.l = {.in = in, .n = n, .nslice = nslice, .slice = scan_slice}};
	int64_t *axes = NEW_ARRAY(in->arena, 3 * (own + n->nout) + 3, int64_t),
		*reverse = axes + own + n->nout + 1, *out_reverse = reverse + own + n->nout + 1;
	Value **v = NEW_ARRAY(in->arena, own + 1, Value *);

	s.l.body = control_body(in, n, "body", &s.l.captured_from);
	if (!s.l.body)
		return false;
	s.l.nvalue = own - nslice;
	s.l.neach = n->nout - s.l.nvalue;
	if (nslice < 1 || s.l.nvalue < 0 || s.l.neach < 0 || s.l.body->results.n != n->nout ||
	    s.l.body->inputs.n != n->nin - lengths)
		return infer_error(
			in, n,
			"has %d operands, %d of them sequences, and %d results; its body "
			"has %d inputs and %d results",
			own, nslice, n->nout, s.l.body->inputs.n - (n->nin - lengths - own),
			s.l.body->results.n);
	for (int i = 0; i < own; i++) {
		v[i] = node_in(n, i + lengths);
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
	       (batched ? scan_batch(&s, v, axes, lengths ? node_in(n, 0) : NULL, out)
			: scan(&s, v, axes, out));
}

const Op op_Scan = {
	.expand = expand_scan, .regions = true, .types = "fiubs",
	.attrs = "body: graph, num_scan_inputs: int, scan_input_axes: ints since 9, "
		 "scan_input_directions: ints since 9, scan_output_axes: ints since 9, "
		 "scan_output_directions: ints since 9, "
		 "batched: int own, lengths: int own",
};

/* ---- SequenceMap ---- */

typedef struct MapLoop {
	BodyLoop l;
	Items *sequence; /* for each operand; without an element type for a tensor, which every
			    iteration sees */
} MapLoop;

static Value *map_slice(BodyLoop *l, const LoopBuild *b, int k)
{
	const Items *s = &((const MapLoop *)l)->sequence[k];

	return s->elem ? sequence_at(l->in, l->n, s, expand_size(l->in, l->n, b->iteration))
		       : node_in(l->n, k);
}

/* The body once for each of the COUNT tensors of the sequences, which are listed, as are the
 * results. */
static bool map_listed(MapLoop *m, int count, Value **out)
{
	Infer *in = m->l.in;
	Node *n = m->l.n;
	Value **args = NEW_ARRAY(in->arena, n->nin + 1, Value *);
	Value **row = NEW_ARRAY(in->arena, n->nout + 1, Value *);
	Value **given = NEW_ARRAY(in->arena, count * n->nout + 1, Value *);

	for (int i = 0; i < count; i++) {
		for (int k = 0; k < n->nin; k++)
			args[k] = k < m->l.nslice && m->sequence[k].elem ? m->sequence[k].at[i]
									 : node_in(n, k);
		if (!control_put_body(in, n, m->l.body, args, row))
			return false;
		for (int k = 0; k < n->nout; k++)
			given[k * count + i] = row[k];
	}
	for (int k = 0; k < n->nout; k++)
		out[k] = expand_node(in, n, OP_SequenceConstruct, given + k * count, count);
	return true;
}

/* Reads the operands: determines whether all sequences are listed, and how many tensors each
 * has. */
static bool map_operands(MapLoop *m, bool *listed)
{
	Infer *in = m->l.in;
	Node *n = m->l.n;

	m->sequence = NEW_ARRAY(in->arena, m->l.nslice + 1, Items);
	*listed = true;
	for (int k = 0; k < m->l.nslice; k++) {
		Items *s = &m->sequence[k];
		Dim *count;

		if (infer_type(n, k)->kind == TYPE_TENSOR && k)
			continue;
		if (infer_type(n, k)->kind != TYPE_SEQUENCE || !type_listed(infer_type(n, k)))
			return infer_error(in, n, "operand %d must be a sequence of tensors",
					   k + 1);
		*s = items_of(in, n, node_in(n, k));
		count = items_count(in, s);
		if (!m->l.trip)
			m->l.trip = count;
		else if (!infer_equal(in, n, m->l.trip, count, "the sequences differ in length"))
			return false;
		*listed = *listed && s->listed;
	}
	return true;
}

/* The results grow by a tensor in every iteration. */
static bool map_loop(MapLoop *m, Value **out)
{
	BodyLoop *l = &m->l;
	Value **init = NEW_ARRAY(l->in->arena, l->n->nout + 1, Value *);

	for (int k = 0; k < l->nslice; k++)
		if (m->sequence[k].listed) {
			m->sequence[k] = items_with_parts(l->in, l->n, node_in(l->n, k), NULL);
			if (!m->sequence[k].data)
				return false;
		}
	for (int k = 0; k < l->n->nout; k++) /* of tensors of any type */
		init[k] = expand_node_ints(l->in, l->n, OP_SequenceEmpty, NULL, 0, "dtype", 0);
	l->nvalue = l->n->nout;
	carry_values(l, init);
	return build_loop(l, out);
}

static bool expand_sequence_map(Infer *in, Node *n, Value **out)
{
	const int own = control_operands(n);
	MapLoop m = {.l = {.in = in, .n = n, .nslice = own, .slice = map_slice, .appends = true}};
	int64_t count;
	bool listed;

	m.l.body = control_body(in, n, "body", &m.l.captured_from);
	if (!m.l.body)
		return false;
	if (m.l.body->inputs.n != n->nin || m.l.body->results.n != n->nout)
		return infer_error(in, n, "has %d operands and %d results; its body has %d and %d",
				   own, n->nout, m.l.body->inputs.n - (n->nin - own),
				   m.l.body->results.n);
	for (int k = 0; k < own; k++)
		if (!node_in(n, k))
			return infer_error(in, n, "operand %d is missing", k + 1);
	if (!map_operands(&m, &listed))
		return false;
	if (listed && dim_is_const(m.l.trip, &count) && count)
		return map_listed(&m, (int)count, out);
	return map_loop(&m, out);
}

const Op op_SequenceMap = {
	.expand = expand_sequence_map, .regions = true, .compound = true, .types = "fiubs",
	.attrs = "body: graph",
};
