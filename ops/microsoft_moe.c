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
 *
 * QMoE has matrices of numbers of 2, 4 or 8 bits, packed as those of MatMulNBits, with a scale for each row or for
 * each block of a row. They are gathered as such, and dequantised where they are multiplied.
 */
#include "ops/build.h"
#include "ops/infer.h"

#include <math.h>

/* The operands of both operators. */
typedef enum MoeInput {
	MOE_X,
	MOE_ROUTER,
	MOE_FC1,
	MOE_BIAS1,
	MOE_FC2,
	MOE_BIAS2,
	MOE_FC3,
	MOE_BIAS3,
	MOE_INPUTS
} MoeInput;

/* Where the operands are. In QMoE, the scales of a matrix follow it. */
static const int moe_places[MOE_INPUTS] = {0, 1, 2, 3, 4, 5, 6, 7},
		 qmoe_places[MOE_INPUTS] = {0, 1, 2, 4, 5, 7, 8, 10};

/* Other operands of QMoE: the zero points of fc1, fc2 and fc3; the weights of all experts. Those after these are
 * of formats that are not supported. */
enum { QMOE_ZERO = 11, QMOE_WEIGHTS = 14, QMOE_OTHERS };

typedef enum MoeActivation { MOE_RELU, MOE_GELU, MOE_SILU, MOE_IDENTITY, MOE_SWIGLU } MoeActivation;

/* The rows of gate and linear in fc1. */
typedef enum MoeFusion { MOE_APART, MOE_ALTERNATE, MOE_HALVES } MoeFusion;

typedef struct Moe {
	Infer *in;
	Node *n;
	const int *place; /* by MoeInput */
	int64_t block;    /* QMoE: elements of a row that have a scale; 0: all */
	Dim *rows, *hidden, *inner, *experts;
	Dim *choices;  /* experts of a row */
	Value *expert; /* [rows, choices] */
	int activation;
	bool halves;   /* fc1 has both products of swiglu */
} Moe;

static bool is_quantised(const Moe *m)
{
	return m->place == qmoe_places;
}

static Value *operand(const Moe *m, MoeInput k)
{
	return node_in(m->n, m->place[k]);
}

/* Checks that operand number K of the node, if it is given, has the COUNT dims D. */
static bool place_has_dims(Moe *m, int k, Dim *const *d, int count)
{
	const Type *t = node_in(m->n, k) ? infer_type(m->n, k) : NULL;

	if (t && t->rank != count)
		return infer_error(m->in, m->n, "operand %d has rank %d, expected %d", k + 1,
				   t->rank, count);
	for (int i = 0; t && i < count; i++)
		if (!infer_dim_equals(m->in, m->n, &t->dims[i], d[i],
				      "a dim of an operand differs"))
			return false;
	return true;
}

static bool has_dims(Moe *m, MoeInput k, Dim *const *d, int count)
{
	return place_has_dims(m, m->place[k], d, count);
}

/* The attribute that says how many bits a number of operand WEIGHTS has. */
static int64_t bits_of(const Moe *m, MoeInput weights)
{
	static const char *const names[] = {"fc1_expert_weight_bits", "fc2_expert_weight_bits",
					    "fc3_expert_weight_bits"};

	return node_int(m->n, names[((int)weights - MOE_FC1) / 2],
			node_int(m->n, "expert_weight_bits", 4));
}

/* The number of scales of a row of SIZE elements. */
static Dim *blocks_of(Moe *m, Dim *size)
{
	Ctx *c = infer_ctx(m->in);

	return m->block ? dim_floordiv(c, size, dim_const(c, m->block)) : dim_const(c, 1);
}

/* Bytes of COUNT numbers of BITS bits. */
static Dim *bytes_of(Moe *m, Dim *count, int64_t bits)
{
	Ctx *c = infer_ctx(m->in);

	return dim_ceildiv(c, count, dim_const(c, 8 / bits));
}

/* The dims of the zero points of a matrix of ROWS rows of SIZE elements for each expert, to D. Returns their number. */
static int zero_dims(Moe *m, Dim *rows, Dim *size, int64_t bits, Dim **d)
{
	d[0] = m->experts;
	d[1] = m->block ? rows : bytes_of(m, rows, bits);
	d[2] = bytes_of(m, blocks_of(m, size), bits);
	return m->block ? 3 : 2;
}

/* Checks that operand WEIGHTS has ROWS rows of SIZE elements for each expert. */
static bool check_weights(Moe *m, MoeInput weights, Dim *rows, Dim *size)
{
	const int at = m->place[weights], zero = QMOE_ZERO + ((int)weights - MOE_FC1) / 2;
	const int64_t bits = bits_of(m, weights);
	Ctx *c = infer_ctx(m->in);
	Dim *d[3] = {m->experts, rows, size}, *z[3];

	if (!is_quantised(m) || !node_in(m->n, at))
		return has_dims(m, weights, d, 3);
	if (bits != 2 && bits != 4 && bits != 8)
		return infer_error(m->in, m->n, "the weights have %lld bits, expected 2, 4 or 8",
				   (long long)bits);
	if (!node_in(m->n, at + 1))
		return infer_error(m->in, m->n, "operand %d is missing", at + 2);
	if (infer_type(m->n, at)->dtype != DT_U8 ||
	    (node_in(m->n, zero) && infer_type(m->n, zero)->dtype != DT_U8))
		return infer_error(m->in, m->n, "the weights and their zero points are not all of u8");
	if (!dim_multiple(c, size, m->block ? m->block : 8 / bits))
		return infer_error(m->in, m->n, "a row of the weights is not whole blocks and bytes");
	d[2] = blocks_of(m, size);
	if (!place_has_dims(m, at + 1, d, m->block ? 3 : 2) ||
	    !place_has_dims(m, zero, z, zero_dims(m, rows, size, bits, z)))
		return false;
	d[2] = bytes_of(m, size, bits);
	return has_dims(m, weights, d, 3);
}

/* The dim that is the number of elements inside, which fc2 tells. */
static Dim *inner_size(Moe *m, const Type *fc2)
{
	Ctx *c = infer_ctx(m->in);
	const int64_t bits = is_quantised(m) ? bits_of(m, MOE_FC2) : 8;

	return dim_mul(c, fc2->dims[2], dim_const(c, bits < 8 && bits > 0 ? 8 / bits : 1));
}

static bool check_operands(Moe *m)
{
	const Type *x = infer_type(m->n, MOE_X), *router = infer_type(m->n, MOE_ROUTER),
		   *fc2 = operand(m, MOE_FC2) ? infer_type(m->n, m->place[MOE_FC2]) : NULL;
	Ctx *c = infer_ctx(m->in);
	Dim *outer, *d[3];

	if (!fc2)
		return infer_error(m->in, m->n, "operand %d is missing", m->place[MOE_FC2] + 1);
	if (!infer_floats(m->in, m->n, MOE_X) ||
	    (!is_quantised(m) && !contract_types(m->in, m->n)))
		return false;
	if (x->rank < 2 || router->rank != 2 || fc2->rank != 3)
		return infer_error(m->in, m->n,
				   "operands 1, 2 and %d have ranks %d, %d and %d, expected 2 or more, 2 and 3",
				   m->place[MOE_FC2] + 1, x->rank, router->rank, fc2->rank);
	m->rows = dim_const(c, 1);
	for (int i = 0; i + 1 < x->rank; i++)
		m->rows = dim_mul(c, m->rows, x->dims[i]);
	m->hidden = x->dims[x->rank - 1];
	m->experts = router->dims[1];
	m->inner = inner_size(m, fc2);
	outer = m->halves ? dim_mul(c, m->inner, dim_const(c, 2)) : m->inner;
	d[0] = m->rows;
	d[1] = m->experts;
	if (!has_dims(m, MOE_ROUTER, d, 2) ||
	    (is_quantised(m) && !place_has_dims(m, QMOE_WEIGHTS, d, 2)) ||
	    !check_weights(m, MOE_FC2, m->hidden, m->inner) ||
	    !check_weights(m, MOE_FC1, outer, m->hidden) ||
	    !check_weights(m, MOE_FC3, m->inner, m->hidden))
		return false;
	d[0] = m->experts;
	d[1] = m->hidden;
	if (!has_dims(m, MOE_BIAS2, d, 2))
		return false;
	d[1] = outer;
	if (!has_dims(m, MOE_BIAS1, d, 2))
		return false;
	d[1] = m->inner;
	return has_dims(m, MOE_BIAS3, d, 2);
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
	p = is_quantised(m) ? node_in(n, QMOE_WEIGHTS) : NULL;
	if (p)
		v[0] = expand_node_ints(in, n, OP_GatherElements,
					(Value *[]){expand_cast(in, n, p, v[0]->type->dtype), v[1]}, 2,
					"axis", 1);
	return node_int(n, "normalize_routing_weights", 0)
		       ? EXPAND(in, n, Div, v[0],
				expand_reduce(in, n, OP_ReduceSum, v[0], -1, true))
		       : v[0];
}

/* The chosen entries of operand number K, whose first dim is the experts. */
static Value *chosen(Moe *m, int k)
{
	return EXPAND(m->in, m->n, Gather, node_in(m->n, k), m->expert);
}

/* The chosen numbers of operand number K of QMoE, which has COUNT numbers of BITS bits in its last dim, as floats of type
 * REAL with the dims D. They are unpacked before they are gathered: of constants, when the model is compiled. Null after
 * a diagnostic. */
static Value *chosen_numbers(Moe *m, int k, int64_t bits, Dim *count, DType real, Dim *const *d)
{
	Infer *in = m->in;
	Node *n = m->n;
	Value *v = blocks_unpacked(in, n, node_in(n, k), bits, count);

	if (!v)
		return NULL;
	v = expand_reshape(in, n, v, (Dim *[]){m->experts, d[2], d[3], d[4]}, 4);
	v = v->type ? EXPAND(in, n, Gather, v, m->expert) : v;
	v = v->type ? expand_cast(in, n, v, real) : v;
	return v->type ? v : NULL;
}

/* Rows X, [rows, 1 or choices, size], times the chosen matrices of operand WEIGHTS of QMoE: a sum over blocks and the elements
 * of a block, so that fusion sees no View between the packed numbers and the sum. Null after a diagnostic. */
static Value *dequantised_product(Moe *m, Value *x, MoeInput weights)
{
	static const int64_t axes[] = {3, 4};
	Infer *in = m->in;
	Node *n = m->n;
	const int at = m->place[weights], zero = QMOE_ZERO + ((int)weights - MOE_FC1) / 2;
	const int64_t bits = bits_of(m, weights);
	const DType t = x->type->dtype, real = acc_dtype(t);
	Ctx *c = infer_ctx(in);
	Dim *one = dim_const(c, 1), *rows = infer_type(n, at)->dims[1],
	    *size = weights == MOE_FC2 ? m->inner : m->hidden, *blocks = blocks_of(m, size),
	    *block = m->block ? dim_const(c, m->block) : size,
	    *d[5] = {m->rows, m->choices, rows, blocks, block};
	Value *w = chosen_numbers(m, at, bits, size, real, d), *z, *scale, *v;

	if (!w)
		return NULL;
	d[4] = one;
	z = node_in(n, zero) ? chosen_numbers(m, zero, bits, m->block ? blocks : rows, real, d)
			     : expand_scalar(in, n, real, (double)(1 << (bits - 1)));
	if (!z)
		return NULL;
	scale = expand_reshape(in, n, node_in(n, at + 1),
			       (Dim *[]){m->experts, rows, blocks, one}, 4);
	scale = expand_cast(in, n, EXPAND(in, n, Gather, scale, m->expert), real);
	w = EXPAND(in, n, Mul, EXPAND(in, n, Sub, w, z), scale);
	v = expand_reshape(in, n, x, (Dim *[]){m->rows, x->type->dims[1], one, blocks, block}, 5);
	v = EXPAND(in, n, Mul, w, expand_cast(in, n, v, real));
	v = EXPAND(in, n, ReduceSum, v, expand_ints(in, n, axes, 2));
	return expand_reshape(in, n, expand_cast(in, n, v, t), d, 3);
}

/* Rows X, [rows, 1 or choices, size], times the chosen matrices of operand WEIGHTS. */
static Value *product_of_chosen(Moe *m, Value *x, MoeInput weights)
{
	static const int64_t last = -1;
	Infer *in = m->in;
	Node *n = m->n;
	Value *v;

	if (is_quantised(m))
		return dequantised_product(m, x, weights);
	v = EXPAND(in, n, MatMul, chosen(m, m->place[weights]), expand_unsqueeze(in, n, x, -1));
	return EXPAND(in, n, Squeeze, v, expand_ints(in, n, &last, 1));
}

/* The same, plus the chosen rows of BIAS. */
static Value *chosen_product(Moe *m, Value *x, MoeInput weights, MoeInput bias)
{
	Value *v = product_of_chosen(m, x, weights);

	return v && v->type && operand(m, bias)
		       ? EXPAND(m->in, m->n, Add, v, chosen(m, m->place[bias]))
		       : v;
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

	if (!a)
		return NULL;
	if (operand(m, MOE_FC3)) {
		Value *l = chosen_product(m, x, MOE_FC3, MOE_BIAS3);

		if (!l)
			return NULL;
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

static bool expand_experts(Infer *in, Node *n, const int *place, Value **out)
{
	static const char *const names[] = {"relu", "gelu", "silu", "identity", "swiglu"};
	const int64_t choices = node_int(n, "k", 1), fusion = node_int(n, "swiglu_fusion", 0);
	Moe m = {.in = in, .n = n, .place = place};
	Ctx *c = infer_ctx(in);
	const Type *t = infer_type(n, MOE_X);
	Value *weight, *v;

	if (!infer_choice(in, n, "activation_type", names, 5, &m.activation))
		return false;
	if (node_int(n, "use_sparse_mixer", 0) || fusion < MOE_APART || fusion > MOE_HALVES)
		return infer_error(in, n,
				   "use_sparse_mixer and a swiglu_fusion other than 0, 1 and 2 are not supported");
	m.halves = m.activation == MOE_SWIGLU && fusion != MOE_APART;
	if (m.activation == MOE_SWIGLU && m.halves == (operand(&m, MOE_FC3) != NULL))
		return infer_error(in, n, "swiglu needs either operand %d or a swiglu_fusion of 1 or 2",
				   m.place[MOE_FC3] + 1);
	m.block = is_quantised(&m) ? node_int(n, "block_size", 0) : 0;
	if (m.block < 0 || m.block > INT32_MAX || m.block % 8)
		return infer_error(in, n, "attribute \"block_size\" is %lld, expected a multiple of 8",
				   (long long)m.block);
	if (!check_operands(&m))
		return false;
	m.choices = dim_const(c, choices);
	weight = route(&m, choices);
	if (!weight)
		return false;
	v = expand_reshape(in, n, node_in(n, MOE_X),
			   (Dim *[]){m.rows, dim_const(c, 1), m.hidden}, 3);
	v = inner_rows(&m, v);
	v = v && v->type ? chosen_product(&m, v, MOE_FC2, MOE_BIAS2) : NULL;
	if (!v)
		return false;
	v = expand_cast(in, n, v, weight->type->dtype);
	v = EXPAND(in, n, Mul, v, expand_unsqueeze(in, n, weight, -1));
	v = expand_reduce(in, n, OP_ReduceSum, v, 1, false);
	return expand_result(in, n, 0, expand_reshape(in, n, v, t->dims, t->rank), out);
}

static bool expand_moe(Infer *in, Node *n, Value **out)
{
	return expand_experts(in, n, moe_places, out);
}

const Op op_microsoft_MoE = {
	.expand = expand_moe,
	.types = "f",
	.doc = "without use_sparse_mixer",
	.attrs = "activation_alpha: float, activation_beta: float, activation_type: string, k: int, "
		 "normalize_routing_weights: int, swiglu_fusion: int, swiglu_limit: float, use_sparse_mixer: int",
};

static bool expand_qmoe(Infer *in, Node *n, Value **out)
{
	static const char *const types[] = {"int"};
	int type;

	if (!infer_choice(in, n, "quant_type", types, 1, &type))
		return false;
	for (int i = QMOE_OTHERS; i < n->nin; i++)
		if (node_in(n, i))
			return infer_error(in, n, "operand %d is not supported", i + 1);
	if (node_int(n, "weights_prepacked", -1) > 0)
		return infer_error(in, n, "weights_prepacked is not supported");
	return expand_experts(in, n, qmoe_places, out);
}

const Op op_microsoft_QMoE = {
	.expand = expand_qmoe,
	.types = "f",
	.doc = "without use_sparse_mixer, prepacked weights and a quant_type other than int; 2, 4 or 8 bits; "
	       "accuracy_level has no effect",
	.attrs = "accuracy_level: int, activation_alpha: float, activation_beta: float, "
		 "activation_type: string, block_size: int, expert_weight_bits: int, "
		 "fc1_expert_weight_bits: int, fc2_expert_weight_bits: int, fc3_expert_weight_bits: int, "
		 "k: int, normalize_routing_weights: int, quant_type: string, swiglu_fusion: int, "
		 "swiglu_limit: float, use_sparse_mixer: int, weights_prepacked: int",
};
