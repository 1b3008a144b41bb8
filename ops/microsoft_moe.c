/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MoE of the domain com.microsoft, a mixture of experts: a composite of TopK, Gather and products of one
 * vector each. A row's K experts have matrices of their own, which Gather takes out of the tensor of all
 * of them; fusion lets the products read them in place (stmt_gathered_product), so that the weights of an
 * expert that no row chooses are not read.
 *
 * Of T rows of H elements and E experts with I elements inside:
 *
 *     weight, expert = TopK(softmax(router_probs))              [T, K]
 *     inner          = act(fc1[expert] * x + bias1[expert])     [T, K, I]
 *     out            = sum over K of weight * (fc2[expert] * inner + bias2[expert])
 *
 * Activation swiglu has two products, gate and linear: fc1 and fc3, or both in fc1, whose rows alternate
 * (swiglu_fusion 1) or are halves (2).
 */
#include "ops/build.h"
#include "ops/infer.h"

#include <math.h>

typedef enum MoeInput {
	MOE_X,
	MOE_ROUTER,
	MOE_FC1,
	MOE_BIAS1,
	MOE_FC2,
	MOE_BIAS2,
	MOE_FC3,
	MOE_BIAS3
} MoeInput;

typedef enum MoeActivation { MOE_RELU, MOE_GELU, MOE_SILU, MOE_IDENTITY, MOE_SWIGLU } MoeActivation;

/* The rows of gate and linear in fc1. */
typedef enum MoeFusion { MOE_APART, MOE_ALTERNATE, MOE_HALVES } MoeFusion;

typedef struct Moe {
	Infer *in;
	Node *n;
	Dim *rows, *hidden, *inner, *experts;
	Dim *choices;  /* experts of a row */
	Value *expert; /* [rows, choices] */
	int activation;
	bool halves;   /* fc1 has both products of swiglu */
} Moe;

/* Checks that operand K, if it is given, has the COUNT dims D. */
static bool has_dims(Moe *m, MoeInput k, Dim *const *d, int count)
{
	const Type *t = node_in(m->n, (int)k) ? infer_type(m->n, (int)k) : NULL;

	if (t && t->rank != count)
		return infer_error(m->in, m->n, "operand %d has rank %d, expected %d", k + 1,
				   t->rank, count);
	for (int i = 0; t && i < count; i++)
		if (!infer_dim_equals(m->in, m->n, &t->dims[i], d[i],
				      "a dim of an operand differs"))
			return false;
	return true;
}

static bool check_operands(Moe *m)
{
	const Type *x = infer_type(m->n, MOE_X), *router = infer_type(m->n, MOE_ROUTER),
		   *fc2 = node_in(m->n, MOE_FC2) ? infer_type(m->n, MOE_FC2) : NULL;
	Ctx *c = infer_ctx(m->in);
	Dim *outer, *d[3];

	if (!fc2)
		return infer_error(m->in, m->n, "operand 5 is missing");
	if (!infer_floats(m->in, m->n, MOE_X) || !contract_types(m->in, m->n))
		return false;
	if (x->rank < 2 || router->rank != 2 || fc2->rank != 3)
		return infer_error(m->in, m->n,
				   "operands 1, 2 and 5 have ranks %d, %d and %d, expected 2 or more, 2 and 3",
				   x->rank, router->rank, fc2->rank);
	m->rows = dim_const(c, 1);
	for (int i = 0; i + 1 < x->rank; i++)
		m->rows = dim_mul(c, m->rows, x->dims[i]);
	m->hidden = x->dims[x->rank - 1];
	m->experts = router->dims[1];
	m->inner = fc2->dims[2];
	outer = m->halves ? dim_mul(c, m->inner, dim_const(c, 2)) : m->inner;
	if (!has_dims(m, MOE_ROUTER, (Dim *[]){m->rows, m->experts}, 2))
		return false;
	d[0] = m->experts;
	d[1] = m->hidden;
	d[2] = m->inner;
	if (!has_dims(m, MOE_FC2, d, 3) || !has_dims(m, MOE_BIAS2, d, 2))
		return false;
	d[1] = outer;
	d[2] = m->hidden;
	if (!has_dims(m, MOE_FC1, d, 3) || !has_dims(m, MOE_BIAS1, d, 2))
		return false;
	d[1] = m->inner;
	return has_dims(m, MOE_FC3, d, 3) && has_dims(m, MOE_BIAS3, d, 2);
}

/* Sets m->expert; returns the weights of the experts, [rows, choices], or null. */
static Value *route(Moe *m, int64_t choices)
{
	Infer *in = m->in;
	Node *n = m->n, *top;
	Value *p = node_in(n, MOE_ROUTER), *v[2];

	p = expand_cast(in, n, p, acc_dtype(p->type->dtype));
	p = expand_node_ints(in, n, OP_Softmax, &p, 1, "axis", -1);
	top = expand_start(in, n, OP_TopK, (Value *[]){p, expand_ints(in, n, &choices, 1)}, 2, 2);
	if (!infer_or_expand(in, top, v) || !v[0]->type)
		return NULL;
	m->expert = v[1];
	return node_int(n, "normalize_routing_weights", 0)
		       ? EXPAND(in, n, Div, v[0],
				expand_reduce(in, n, OP_ReduceSum, v[0], -1, true))
		       : v[0];
}

/* Rows X, [rows, 1 or choices, size], times the chosen matrices of operand WEIGHTS, plus the chosen rows of BIAS. */
static Value *chosen_product(Moe *m, Value *x, MoeInput weights, MoeInput bias)
{
	Infer *in = m->in;
	Node *n = m->n;
	Value *w = EXPAND(in, n, Gather, node_in(n, (int)weights), m->expert), *v, *b;
	static const int64_t last = -1;

	v = EXPAND(in, n, MatMul, w, expand_unsqueeze(in, n, x, -1));
	v = EXPAND(in, n, Squeeze, v, expand_ints(in, n, &last, 1));
	b = node_in(n, (int)bias);
	return b ? EXPAND(in, n, Add, v, EXPAND(in, n, Gather, b, m->expert)) : v;
}

static Value *scalar_like(Moe *m, const Value *v, float x)
{
	return expand_scalar(m->in, m->n, v->type->dtype, (double)x);
}

/* G * sigmoid(alpha * G) * (L + beta), of G and L within the limit. */
static Value *swiglu(Moe *m, Value *g, Value *l)
{
	Infer *in = m->in;
	Node *n = m->n;
	const float limit = node_float(n, "swiglu_limit", INFINITY);
	Value *s;

	if (limit < INFINITY) {
		g = EXPAND(in, n, Min, g, scalar_like(m, g, limit));
		l = EXPAND(in, n, Clip, l, scalar_like(m, l, -limit), scalar_like(m, l, limit));
	}
	s = EXPAND(in, n, Mul, g, scalar_like(m, g, node_float(n, "activation_alpha", 1)));
	s = EXPAND(in, n, Mul, g, EXPAND(in, n, Sigmoid, s));
	return EXPAND(in, n, Mul, s,
		      EXPAND(in, n, Add, l, scalar_like(m, l, node_float(n, "activation_beta", 0))));
}

static Value *activated(Moe *m, Value *x)
{
	Infer *in = m->in;
	Node *n = m->n, *gelu;

	switch (m->activation) {
	case MOE_RELU: return EXPAND(in, n, Relu, x);
	case MOE_GELU:
		gelu = expand_start(in, n, OP_Gelu, &x, 1, 1);
		node_set_str(gelu, "approximate", "tanh");
		return expand_finish(in, gelu);
	case MOE_SILU: return EXPAND(in, n, Mul, x, EXPAND(in, n, Sigmoid, x));
	default: return x;
	}
}

/* What the second product multiplies, [rows, choices, inner], of rows X. */
static Value *inner_rows(Moe *m, Value *x)
{
	Infer *in = m->in;
	Node *n = m->n;
	Ctx *c = infer_ctx(in);
	Value *a = chosen_product(m, x, MOE_FC1, MOE_BIAS1), *half[2];
	Dim *d[4] = {m->rows, m->choices};
	const bool alternate = node_int(n, "swiglu_fusion", 0) == MOE_ALTERNATE;

	if (node_in(n, MOE_FC3)) {
		Value *l = chosen_product(m, x, MOE_FC3, MOE_BIAS3);

		return m->activation == MOE_SWIGLU ? swiglu(m, a, l)
						   : EXPAND(in, n, Mul, activated(m, a), l);
	}
	if (!m->halves)
		return activated(m, a);
	d[alternate ? 2 : 3] = m->inner;
	d[alternate ? 3 : 2] = dim_const(c, 2);
	a = expand_reshape(in, n, a, d, 4);
	d[2] = m->inner;
	for (int i = 0; i < 2; i++)
		half[i] = expand_reshape(
			in, n, expand_slice(in, n, a, alternate ? 3 : 2, i, i + 1, 1), d, 3);
	return swiglu(m, half[0], half[1]);
}

static bool expand_moe(Infer *in, Node *n, Value **out)
{
	static const char *const names[] = {"relu", "gelu", "silu", "identity", "swiglu"};
	const int64_t choices = node_int(n, "k", 1), fusion = node_int(n, "swiglu_fusion", 0);
	Moe m = {.in = in, .n = n};
	Ctx *c = infer_ctx(in);
	const Type *t = infer_type(n, MOE_X);
	Value *weight, *v;

	if (!infer_choice(in, n, "activation_type", names, 5, &m.activation))
		return false;
	if (node_int(n, "use_sparse_mixer", 0) || fusion < MOE_APART || fusion > MOE_HALVES)
		return infer_error(in, n,
				   "use_sparse_mixer and a swiglu_fusion other than 0, 1 and 2 are not supported");
	m.halves = m.activation == MOE_SWIGLU && fusion != MOE_APART;
	if (m.activation == MOE_SWIGLU && m.halves == (node_in(n, MOE_FC3) != NULL))
		return infer_error(in, n, "swiglu needs either operand 7 or a swiglu_fusion of 1 or 2");
	if (!check_operands(&m))
		return false;
	m.choices = dim_const(c, choices);
	weight = route(&m, choices);
	if (!weight)
		return false;
	v = expand_reshape(in, n, node_in(n, MOE_X),
			   (Dim *[]){m.rows, dim_const(c, 1), m.hidden}, 3);
	v = chosen_product(&m, inner_rows(&m, v), MOE_FC2, MOE_BIAS2);
	v = expand_cast(in, n, v, weight->type->dtype);
	v = EXPAND(in, n, Mul, v, expand_unsqueeze(in, n, weight, -1));
	v = expand_reduce(in, n, OP_ReduceSum, v, 1, false);
	return expand_result(in, n, 0, expand_reshape(in, n, v, t->dims, t->rank), out);
}

const Op op_microsoft_MoE = {
	.expand = expand_moe,
	.types = "f",
	.doc = "without use_sparse_mixer",
	.attrs = "activation_alpha: float, activation_beta: float, activation_type: string, k: int, "
		 "normalize_routing_weights: int, swiglu_fusion: int, swiglu_limit: float, use_sparse_mixer: int",
};
