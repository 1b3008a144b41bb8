/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recurrent operators: RNN, GRU and LSTM, as ONNX defines them. Each direction becomes one product
 * of all inputs with the input weights, and a loop over time whose iteration multiplies the state
 * with the recurrent weights and applies the gates. With sequence_lens, a state no longer changes
 * after its sequence's end, and the result is 0 there; so a reverse direction, which starts at the
 * end, needs no reversed copy.
 */
#include "ops/infer/control.h"

#include <strings.h>

enum { GATES_MAX = 4, ACTIVATIONS_MAX = 3 };

/* An activation function with its parameters. */
typedef struct Activation {
	const struct ActivationKind *kind;
	float alpha, beta;
} Activation;

typedef struct ActivationKind {
	const char *name;
	OpKind op;  /* OP_NONE: alpha * x + beta */
	int params; /* the number of alpha and beta that it has */
	float alpha, beta;
	bool scales; /* alpha * op(beta * x), for an operator without parameters */
} ActivationKind;

static const ActivationKind activations[] = {
	{"Relu", OP_Relu, 0, 0, 0, false},
	{"Tanh", OP_Tanh, 0, 0, 0, false},
	{"Sigmoid", OP_Sigmoid, 0, 0, 0, false},
	{"Affine", OP_NONE, 2, 1, 0, false},
	{"LeakyRelu", OP_LeakyRelu, 1, 0.01f, 0, false},
	{"ThresholdedRelu", OP_ThresholdedRelu, 1, 1, 0, false},
	{"ScaledTanh", OP_Tanh, 2, 1, 1, true},
	{"HardSigmoid", OP_HardSigmoid, 2, 0.2f, 0.5f, false},
	{"Elu", OP_Elu, 1, 1, 0, false},
	{"Softsign", OP_Softsign, 0, 0, 0, false},
	{"Softplus", OP_Softplus, 0, 0, 0, false},
};

/* One of the operators. */
typedef struct CellKind {
	int gates, activations;
	const char *const *defaults;
	bool cell; /* has a cell state beside the hidden state */
} CellKind;

/* A direction that is being built. */
typedef struct GateCell {
	Infer *in;
	Node *n;
	DType t;
	Dim *hidden;
	const Activation *act;
	float clip;       /* 0: none */
	Value *recurrent; /* [hidden, gates*hidden] */
	Value *rbias; /* GRU with linear_before_reset: [hidden], inside of the reset; else null */
	Value *peephole[3]; /* input, output and forget gate: [hidden]; null: none */
	bool input_forget, reset_after;
} GateCell;

/* ---- Nodes ---- */

/* Gate K of X, whose last axis has the gates one after another. After a diagnostic X has no type.
 */
static Value *gate(const GateCell *c, Value *x, int k)
{
	Ctx *ctx = c->in->ctx;
	Dim *from = dim_mul(ctx, c->hidden, dim_const(ctx, k));

	return expand_part(c->in, c->n, x, x->type->rank - 1, from, dim_add(ctx, from, c->hidden));
}

/* X[at] of the first axis, where AT is a constant. */
static Value *element(Infer *in, Node *n, Value *x, int at)
{
	return expand_row(in, n, x, dim_const(in->ctx, at));
}

/* X with its first two axes, time and batch, exchanged. */
static Value *swapped(Infer *in, Node *n, Value *x)
{
	return expand_transpose(in, n, x, (int64_t[]){1, 0, 2}, 3);
}

static Value *add(const GateCell *c, Value *a, Value *b)
{
	return !a ? b : !b ? a : EXPAND(c->in, c->n, Add, a, b);
}

static Value *scaled(const GateCell *c, float k, Value *x)
{
	return EXPAND(c->in, c->n, Mul, expand_scalar(c->in, c->n, c->t, (double)k), x);
}

/* Activation K of X. */
static Value *activate(const GateCell *c, int k, Value *x)
{
	const Activation *a = &c->act[k];
	Node *m;

	if (c->clip > 0)
		x = EXPAND(c->in, c->n, Clip, x, expand_scalar(c->in, c->n, c->t, (double)-c->clip),
			   expand_scalar(c->in, c->n, c->t, (double)c->clip));
	if (a->kind->scales) {
		x = scaled(c, a->beta, x);
		return scaled(c, a->alpha, expand_node(c->in, c->n, a->kind->op, &x, 1));
	}
	if (a->kind->op == OP_NONE)
		return add(c, scaled(c, a->alpha, x),
			   expand_scalar(c->in, c->n, c->t, (double)a->beta));
	m = expand_start(c->in, c->n, a->kind->op, &x, 1, 1);
	if (a->kind->params > 0)
		node_set_float(m, "alpha", a->alpha);
	if (a->kind->params > 1)
		node_set_float(m, "beta", a->beta);
	return expand_finish(c->in, m);
}

/* ---- The cells ---- */

/* Each makes the next state H, and *C, from the state and X, this iteration's products with the
 * input weights: [batch, gates*hidden]. */
typedef Value *CellStep(const GateCell *c, Value *x, Value *h, Value **state);

static Value *rnn_step(const GateCell *c, Value *x, Value *h, Value **state)
{
	(void)state;
	return activate(c, 0, add(c, x, EXPAND(c->in, c->n, MatMul, h, c->recurrent)));
}

static Value *gru_step(const GateCell *c, Value *x, Value *h, Value **state)
{
	Infer *in = c->in;
	Node *n = c->n;
	Ctx *ctx = in->ctx;
	Dim *zero = dim_const(ctx, 0), *two = dim_mul(ctx, c->hidden, dim_const(ctx, 2)),
	    *three = dim_mul(ctx, c->hidden, dim_const(ctx, 3));
	Value *z, *r, *new, *sum;

	(void)state;
	if (c->reset_after) {
		Value *all = EXPAND(in, n, MatMul, h, c->recurrent);

		z = activate(c, 0, add(c, gate(c, x, 0), gate(c, all, 0)));
		r = activate(c, 0, add(c, gate(c, x, 1), gate(c, all, 1)));
		sum = EXPAND(in, n, Mul, r, add(c, gate(c, all, 2), c->rbias));
	} else {
		Value *zr = EXPAND(in, n, MatMul, h,
				   expand_part(in, n, c->recurrent, 1, zero, two));

		z = activate(c, 0, add(c, gate(c, x, 0), gate(c, zr, 0)));
		r = activate(c, 0, add(c, gate(c, x, 1), gate(c, zr, 1)));
		sum = EXPAND(in, n, MatMul, EXPAND(in, n, Mul, r, h),
			     expand_part(in, n, c->recurrent, 1, two, three));
	}
	new = activate(c, 1, add(c, gate(c, x, 2), sum));
	return add(c, EXPAND(in, n, Mul, EXPAND(in, n, Sub, expand_scalar(in, n, c->t, 1), z), new),
		   EXPAND(in, n, Mul, z, h));
}

static Value *peep(const GateCell *c, Value *x, int k, Value *state)
{
	return c->peephole[k] ? add(c, x, EXPAND(c->in, c->n, Mul, c->peephole[k], state)) : x;
}

static Value *lstm_step(const GateCell *c, Value *x, Value *h, Value **state)
{
	Infer *in = c->in;
	Node *n = c->n;
	Value *sum = add(c, x, EXPAND(in, n, MatMul, h, c->recurrent));
	Value *i = activate(c, 0, peep(c, gate(c, sum, 0), 0, *state));
	Value *f = c->input_forget ? EXPAND(in, n, Sub, expand_scalar(in, n, c->t, 1), i)
				   : activate(c, 0, peep(c, gate(c, sum, 2), 2, *state));
	Value *new = activate(c, 1, gate(c, sum, 3));

	*state = add(c, EXPAND(in, n, Mul, f, *state), EXPAND(in, n, Mul, i, new));
	return EXPAND(in, n, Mul, activate(c, 0, peep(c, gate(c, sum, 1), 1, *state)),
		      activate(c, 2, *state));
}

/* ---- Attributes ---- */

static const ActivationKind *activation_by_name(const char *name)
{
	for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
		if (!strcasecmp(activations[i].name, name))
			return &activations[i];
	return NULL;
}

/* Reads the activations of all directions. Alpha and beta are taken, in order, by the functions
 * that have them. */
static bool read_activations(Infer *in, Node *n, const CellKind *kind, int dirs, Activation *out)
{
	const Attr *a = node_attr(n, "activations");
	const int count = kind->activations * dirs;
	int nalpha, nbeta, alphas = 0, betas = 0;
	const float *alpha = node_floats(n, "activation_alpha", &nalpha),
		    *beta = node_floats(n, "activation_beta", &nbeta);

	if (a && (a->kind != ATTR_STRS || a->n != count))
		return infer_error(in, n, "attribute activations has %d elements, expected %d",
				   a->n, count);
	for (int i = 0; i < count; i++) {
		const char *name = a ? a->ss[i] : kind->defaults[i % kind->activations];

		out[i].kind = activation_by_name(name);
		if (!out[i].kind)
			return infer_error(in, n, "there is no activation \"%s\"", name);
		out[i].alpha = out[i].kind->params > 0 && alphas < nalpha ? alpha[alphas]
									  : out[i].kind->alpha;
		out[i].beta = out[i].kind->params > 1 && betas < nbeta ? beta[betas]
								       : out[i].kind->beta;
		alphas += out[i].kind->params > 0;
		betas += out[i].kind->params > 1;
	}
	return true;
}

/* The direction of N: 0 forward, 1 reverse, 2 both; -1 after a diagnostic. */
static int direction(Infer *in, Node *n)
{
	static const char *const names[] = {"forward", "reverse", "bidirectional"};
	const char *d = node_str(n, "direction", "forward");

	for (int i = 0; i < 3; i++)
		if (!strcmp(d, names[i]))
			return i;
	infer_error(in, n, "there is no direction \"%s\"", d);
	return -1;
}

/* ---- The operator ---- */

typedef struct Recurrent {
	Infer *in;
	Node *n;
	const CellKind *kind;
	CellStep *step;
	int dirs;
	Dim *time, *batch, *hidden;
	Value *x, *w, *r, *bias, *lens, *h0, *c0, *peepholes;
} Recurrent;

/* Operand K has these dims. */
static bool has_dims(Recurrent *q, int k, int rank, Dim *const *dims, const char *what)
{
	const Type *t = infer_type(q->n, k);

	if (!t)
		return true;
	if (t->rank != rank)
		return infer_error(q->in, q->n, "%s has rank %d, expected %d", what, t->rank, rank);
	for (int i = 0; i < rank; i++)
		if (!infer_dim_equals(q->in, q->n, &t->dims[i], dims[i],
				      arena_printf(q->in->arena, "%s does not fit", what)))
			return false;
	return true;
}

static bool check_operands(Recurrent *q, bool batch_first)
{
	Ctx *c = q->in->ctx;
	Dim *dirs = dim_const(c, q->dirs),
	    *all = dim_mul(c, q->hidden, dim_const(c, q->kind->gates)), *batch = q->batch;
	Dim *input = infer_type(q->n, 0)->dims[2];
	Dim *const state[] = {batch_first ? batch : dirs, batch_first ? dirs : batch, q->hidden};

	return has_dims(q, 1, 3, (Dim *[]){dirs, all, input}, "W") &&
	       has_dims(q, 2, 3, (Dim *[]){dirs, all, q->hidden}, "R") &&
	       has_dims(q, 3, 2, (Dim *[]){dirs, dim_mul(c, all, dim_const(c, 2))}, "B") &&
	       has_dims(q, 4, 1, &batch, "sequence_lens") &&
	       has_dims(q, 5, 3, state, "initial_h") &&
	       (!q->kind->cell ||
		(has_dims(q, 6, 3, state, "initial_c") &&
		 has_dims(q, 7, 2, (Dim *[]){dirs, dim_mul(c, q->hidden, dim_const(c, 3))}, "P")));
}

/* State number D of V; where V is omitted, zeros. */
static Value *first_state(const Recurrent *q, Value *v, int d)
{
	Dim *dims[] = {q->batch, q->hidden};
	Value *zero;

	if (v)
		return element(q->in, q->n, v, d);
	zero = expand_scalar(q->in, q->n, q->x->type->dtype, 0);
	return EXPAND(q->in, q->n, Expand, zero, expand_sizes(q->in, q->n, dims, 2));
}

/* W[d] or R[d] as the right operand of a product. */
static Value *right_operand(const Recurrent *q, Value *w, int d)
{
	return expand_transpose(q->in, q->n, element(q->in, q->n, w, d), (int64_t[]){1, 0}, 2);
}

/* Whether the time T is before the end of each sequence, [batch, 1]. */
static Value *in_sequence(const Recurrent *q, Dim *t)
{
	const int64_t one = 1;
	Value *now = expand_dims(q->in, q->n, q->lens->type->dtype, &t, 1, true);

	return expand_unsqueeze(q->in, q->n, EXPAND(q->in, q->n, Less, now, q->lens), one);
}

/* The biases of the products: those of the input and, except inside of a reset, those of the
 * recurrence; [gates*hidden]. */
static Value *product_bias(const Recurrent *q, GateCell *c, int d)
{
	Ctx *ctx = q->in->ctx;
	Dim *all = dim_mul(ctx, q->hidden, dim_const(ctx, q->kind->gates)),
	    *zero = dim_const(ctx, 0), *two = dim_mul(ctx, q->hidden, dim_const(ctx, 2));
	Value *b, *wb, *rb, *parts[2];

	if (!q->bias)
		return NULL;
	b = element(q->in, q->n, q->bias, d);
	wb = expand_part(q->in, q->n, b, 0, zero, all);
	rb = expand_part(q->in, q->n, b, 0, all, dim_add(ctx, all, all));
	if (!c->reset_after)
		return add(c, wb, rb);
	c->rbias = gate(c, rb, 2);
	parts[0] = add(c, expand_part(q->in, q->n, wb, 0, zero, two),
		       expand_part(q->in, q->n, rb, 0, zero, two));
	parts[1] = gate(c, wb, 2);
	return expand_node_ints(q->in, q->n, OP_Concat, parts, 2, "axis", 0);
}

/* Builds direction D; BACKWARD in time. Sets the stacked results [time, batch, hidden] and the last
 * states. */
static void build_direction(const Recurrent *q, GateCell *c, int d, bool backward, Value **y,
			    Value **h, Value **state)
{
	Infer *in = q->in;
	Ctx *ctx = in->ctx;
	Node *n = q->n;
	const int nstate = q->kind->cell ? 2 : 1;
	Value *init[2], *next[2], *last[2], *x, *each;
	const int64_t reverse = backward;
	LoopBuild b;
	Dim *t;

	c->recurrent = right_operand(q, q->r, d);
	for (int k = 0; q->peepholes && k < 3; k++)
		c->peephole[k] = gate(c, element(in, n, q->peepholes, d), k);
	x = add(c, EXPAND(in, n, MatMul, q->x, right_operand(q, q->w, d)), product_bias(q, c, d));
	init[0] = first_state(q, q->h0, d);
	init[1] = q->kind->cell ? first_state(q, q->c0, d) : NULL;
	b = loop_open(in, n, q->time, init, nstate);
	t = backward ? dim_sub(ctx, dim_sub(ctx, q->time, dim_const(ctx, 1)), b.iteration)
		     : b.iteration;
	next[1] = nstate > 1 ? b.carried[1] : NULL;
	next[0] = q->step(c, expand_row(in, n, x, t), b.carried[0], &next[1]);
	each = next[0];
	if (q->lens) {
		Value *runs = in_sequence(q, t);

		each = EXPAND(in, n, Where, runs, next[0], expand_scalar(in, n, c->t, 0));
		for (int k = 0; k < nstate; k++)
			next[k] = EXPAND(in, n, Where, runs, next[k], b.carried[k]);
	}
	loop_close(&b, next, &each, 1, &reverse, q->time, last, y);
	*h = last[0];
	*state = nstate > 1 ? last[1] : NULL;
}

/* Puts the directions' values side by side on a new axis AXIS. */
static Value *join(const Recurrent *q, Value *const *v, int64_t axis)
{
	Value *parts[2];

	for (int d = 0; d < q->dirs; d++)
		parts[d] = expand_unsqueeze(q->in, q->n, v[d], axis);
	return q->dirs == 1 ? parts[0]
			    : expand_node_ints(q->in, q->n, OP_Concat, parts, 2, "axis", axis);
}

static Value *operand(const Recurrent *q, int k)
{
	return node_in(q->n, k);
}

static bool expand_recurrent(Infer *in, Node *n, Value **out, const CellKind *kind, CellStep *step)
{
	const Type *x = infer_type(n, 0), *r = infer_type(n, 2);
	const bool batch_first = node_int(n, "layout", 0) != 0;
	const int dir = direction(in, n), dirs = dir == 2 ? 2 : 1;
	Recurrent q = {.in = in, .n = n, .kind = kind, .step = step, .dirs = dirs};
	Activation act[2 * ACTIVATIONS_MAX];
	Value *y[2], *h[2], *state[2];
	GateCell c;

	if (dir < 0 || !read_activations(in, n, kind, dirs, act))
		return false;
	if (x->rank != 3 || r->rank != 3 || !dtype_is_float(x->dtype))
		return infer_error(in, n, "X and R must be of rank 3, and of a float type");
	q.hidden = r->dims[2];
	q.time = x->dims[batch_first];
	q.batch = x->dims[!batch_first];
	if (!check_operands(&q, batch_first))
		return false;
	q.x = batch_first ? swapped(in, n, operand(&q, 0)) : operand(&q, 0);
	q.w = operand(&q, 1);
	q.r = operand(&q, 2);
	q.bias = operand(&q, 3);
	q.lens = operand(&q, 4);
	if (q.lens)
		q.lens = expand_bounded(
			in, n, q.lens, dim_add(infer_ctx(in), q.time, dim_const(infer_ctx(in), 1)));
	q.h0 = operand(&q, 5);
	q.c0 = kind->cell ? operand(&q, 6) : NULL;
	q.peepholes = kind->cell ? operand(&q, 7) : NULL;
	if (batch_first && q.h0)
		q.h0 = swapped(in, n, q.h0);
	if (batch_first && q.c0)
		q.c0 = swapped(in, n, q.c0);
	for (int d = 0; d < dirs; d++) {
		c = (GateCell){.in = in,
			       .n = n,
			       .t = x->dtype,
			       .hidden = q.hidden,
			       .act = act + d * kind->activations,
			       .clip = node_float(n, "clip", 0),
			       .input_forget = node_int(n, "input_forget", 0) != 0,
			       .reset_after = node_int(n, "linear_before_reset", 0) != 0 &&
					      kind->gates == 3};
		build_direction(&q, &c, d, dir == 1 || d == 1, &y[d], &h[d], &state[d]);
	}
	if (n->out[0]) {
		out[0] = join(&q, y, 1);
		if (batch_first)
			out[0] = expand_transpose(in, n, out[0], (int64_t[]){2, 0, 1, 3}, 4);
	}
	if (n->nout > 1 && n->out[1])
		out[1] = join(&q, h, batch_first);
	if (n->nout > 2 && n->out[2])
		out[2] = join(&q, state, batch_first);
	return true;
}

static bool expand_rnn(Infer *in, Node *n, Value **out)
{
	static const char *const f[] = {"Tanh"};
	static const CellKind kind = {1, 1, f, false};

	return expand_recurrent(in, n, out, &kind, rnn_step);
}

static bool expand_gru(Infer *in, Node *n, Value **out)
{
	static const char *const f[] = {"Sigmoid", "Tanh"};
	static const CellKind kind = {3, 2, f, false};

	return expand_recurrent(in, n, out, &kind, gru_step);
}

static bool expand_lstm(Infer *in, Node *n, Value **out)
{
	static const char *const f[] = {"Sigmoid", "Tanh", "Tanh"};
	static const CellKind kind = {4, 3, f, true};

	return expand_recurrent(in, n, out, &kind, lstm_step);
}

#define NO_STEPS "the last state of a sequence without steps is its initial state; in ONNX Runtime it is 0"

const Op op_RNN = {
	.expand = expand_rnn, .types = "f",
	.doc = NO_STEPS,
	.attrs = "activation_alpha: floats, activation_beta: floats, activations: strings, "
		 "clip: float, direction: string, hidden_size: int, layout: int since 14",
};
const Op op_GRU = {
	.expand = expand_gru, .types = "f",
	.doc = NO_STEPS,
	.attrs = "activation_alpha: floats, activation_beta: floats, activations: strings, "
		 "clip: float, direction: string, hidden_size: int, layout: int since 14, "
		 "linear_before_reset: int since 3",
};
const Op op_LSTM = {
	.expand = expand_lstm, .types = "f",
	.doc = NO_STEPS "; clip also bounds the input of the activation h, unlike in ONNX Runtime",
	.attrs = "activation_alpha: floats, activation_beta: floats, activations: strings, "
		 "clip: float, direction: string, hidden_size: int, input_forget: int, "
		 "layout: int since 14",
};
