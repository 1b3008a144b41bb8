/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MoE of the domain com.microsoft, a mixture of experts. A row is multiplied by the matrices of K
 * experts that the router chooses for it.
 *
 * Of T rows of H elements and E experts with I elements inside:
 *
 *     weight, expert = TopK(softmax(router_probs))              [T, K]
 *     inner          = act(fc1[expert] * x + bias1[expert])     [T, K, I]
 *     out            = sum over K of weight * (fc2[expert] * inner + bias2[expert])
 *
 * The T * K pairs of a row and a choice are grouped by expert, in blocks of a few rows, so that a
 * product multiplies several rows by the matrices that it reads. With 3 experts, blocks of 2 rows
 * and the experts 0 2 0 2 0 of the pairs:
 *
 *     block    expert   pairs      pair     0 1 2 3 4
 *     0        0        0, 2       slot     0 4 1 5 2
 *     1        0        4, -
 *     2        2        1, 3
 *
 * The number of blocks is an upper bound that depends only on the sizes. Slots and blocks without
 * pairs have row 0 and an arbitrary expert; nothing reads their results. A Gather takes the blocks'
 * matrices out of the tensor of all matrices; the products read them in place
 * (passes/kernel/gathers.c), so that the weights of an unused expert are not read.
 *
 * Activation swiglu has two products, gate and linear: fc1 and fc3, or both in fc1, whose rows
 * alternate (swiglu_fusion 1) or are halves (2).
 *
 * QMoE has matrices of numbers of 2, 4 or 8 bits, packed as in MatMulNBits, with a scale for each
 * row or for each block of a row. Like the weights of MatMulNBits, they are dequantised as a whole
 * here; on CPUs the layout leaves constant ones narrow (passes/layout/panels_scaled.c).
 */
#include "ops/infer/build.h"
#include "ops/infer/infer.h"

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

/* The indices of the operands. In QMoE, the scales of a matrix follow it. */
static const int moe_places[MOE_INPUTS] = {0, 1, 2, 3, 4, 5, 6, 7},
		 qmoe_places[MOE_INPUTS] = {0, 1, 2, 4, 5, 7, 8, 10};

/* Other operands of QMoE: the zero points of fc1, fc2 and fc3; the weights of all experts. The
 * operands after these belong to formats that are not supported. */
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
	Dim *blocks, *block_rows;
	Value *slot;   /* [rows * choices]: the number of a pair's row in the blocks */
	Value *source; /* [blocks * block_rows]: the row of x in each slot */
	Value *expert; /* [blocks] */
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

/* The attribute with the number of bits of a number in operand WEIGHTS. */
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

/* The dims of the zero points of a matrix of ROWS rows of SIZE elements for each expert, to D.
 * Returns their number. */
static int zero_dims(Moe *m, Dim *rows, Dim *size, int64_t bits, Dim **d)
{
	d[0] = m->experts;
	d[1] = m->block ? rows : bytes_of(m, rows, bits);
	d[2] = bytes_of(m, blocks_of(m, size), bits);
	return m->block ? 3 : 2;
}

/* Reports that rows of SIZE elements of operand AT are not multiples of UNIT, which a block or a
 * byte has. */
static bool not_whole(Moe *m, int at, Dim *size, int64_t unit)
{
	STRBUF_LOCAL(b);

	dim_print(&b, size);
	infer_error(
		m->in, m->n,
		"a row of operand %d has %s elements, expected a multiple of %lld, the size of a %s",
		at + 1, strbuf_str(&b), (long long)unit, m->block ? "block" : "byte");
	return false;
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
		return not_whole(m, at, size, m->block ? m->block : 8 / bits);
	d[2] = blocks_of(m, size);
	if (!place_has_dims(m, at + 1, d, m->block ? 3 : 2) ||
	    !place_has_dims(m, zero, z, zero_dims(m, rows, size, bits, z)))
		return false;
	d[2] = bytes_of(m, size, bits);
	return has_dims(m, weights, d, 3);
}

/* Checks that operand BIAS, if it is given, has the type of the rows and the two dims D. */
static bool check_bias(Moe *m, MoeInput bias, Dim *const *d)
{
	const DType x = infer_type(m->n, MOE_X)->dtype;
	const int at = m->place[bias];

	if (node_in(m->n, at) && infer_type(m->n, at)->dtype != x)
		return infer_error(
			m->in, m->n, "operand %d has elements of type %s, operand 1 of %s", at + 1,
			dtype_info[infer_type(m->n, at)->dtype].name, dtype_info[x].name);
	return has_dims(m, bias, d, 2);
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
	if (!check_bias(m, MOE_BIAS2, d))
		return false;
	d[1] = outer;
	if (!check_bias(m, MOE_BIAS1, d))
		return false;
	d[1] = m->inner;
	return check_bias(m, MOE_BIAS3, d);
}

/* Sets *EXPERT to the rows' experts; returns their weights. Both are [rows, choices]. Null after a
 * diagnostic. */
static Value *route(Moe *m, int64_t choices, Value **expert)
{
	Infer *in = m->in;
	Node *n = m->n, *top;
	Value *p = node_in(n, MOE_ROUTER), *v[2];

	p = expand_cast(in, n, p, acc_dtype(p->type->dtype));
	p = expand_node_ints(in, n, OP_Softmax, &p, 1, "axis", -1);
	top = expand_start(in, n, OP_TopK, (Value *[]){p, expand_ints(in, n, &choices, 1)}, 2, 2);
	expand_finish_all(in, top, v);
	*expert = v[1];
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

/* ---- Pairs of a row and a choice, by expert ---- */

/* Sets the sizes of M's blocks. Of P pairs, expert e has count[e], in ceil(count[e] / B) blocks
 * of B; since ceil(c / B) is at most 1 + (c - 1) / B, all experts have at most min(P, E) + max(P
 * - E, 0) / B blocks. So if P is at most E, larger blocks do not reduce their number: every pair
 * may have a different expert. The sizes must be short, or a symbol would abbreviate them
 * (ir/dim/dim_named.c). */
static void choose_blocks(Moe *m)
{
	enum { STEP = 4, MOST = 4 /* steps: more rows multiply no faster */ };
	Ctx *c = infer_ctx(m->in);
	Dim *one = dim_const(c, 1), *pairs = dim_mul(c, m->rows, m->choices), *steps, *more;
	int64_t experts;

	m->block_rows = one;
	if (dim_is_const(m->experts, &experts) && experts > 0) {
		steps = dim_floordiv(c, pairs, dim_add(c, m->experts, one));
		steps = dim_min(c, steps, dim_const(c, MOST));
		m->block_rows = dim_max(c, one, dim_mul(c, steps, dim_const(c, STEP)));
	}
	more = dim_max(c, dim_const(c, 0), dim_sub(c, pairs, m->experts));
	m->blocks = dim_add(c, dim_min(c, pairs, m->experts), dim_floordiv(c, more, m->block_rows));
}

static Value *int_of(Moe *m, int64_t x)
{
	return expand_scalar(m->in, m->n, DT_I64, (double)x);
}

/* The sums of V, integers, in axis 0 up to each element without it. */
static Value *sums_before(Moe *m, Value *v)
{
	Node *s = expand_start(m->in, m->n, OP_CumSum, (Value *[]){v, int_of(m, 0)}, 2, 1);

	node_set_int(s, "exclusive", 1);
	return expand_finish(m->in, s);
}

static Value *sum(Moe *m, Value *v, int64_t axis)
{
	return expand_reduce(m->in, m->n, OP_ReduceSum, v, axis, false);
}

/* Groups the pairs by the experts of EXPERT, [rows, choices], and sets m->slot, m->source and
 * m->expert. */
static void group_by_expert(Moe *m, Value *expert)
{
	Infer *in = m->in;
	Node *n = m->n;
	Ctx *c = infer_ctx(in);
	Dim *pairs = dim_mul(c, m->rows, m->choices), *slots = dim_mul(c, m->blocks, m->block_rows);
	Value *size = expand_size(in, n, m->block_rows), *is, *blocks, *first, *v;

	v = EXPAND(in, n, Equal,
		   expand_reshape(in, n, expert, (Dim *[]){pairs, dim_const(c, 1)}, 2),
		   expand_range(in, n, m->experts));
	is = expand_cast(in, n, v, DT_I64); /* [pairs, experts] */
	blocks = EXPAND(in, n, Add, sum(m, is, 0), EXPAND(in, n, Sub, size, int_of(m, 1)));
	blocks = EXPAND(in, n, Div, blocks, size);
	first = sums_before(m, blocks); /* the expert's first block */
	v = EXPAND(in, n, Add, sums_before(m, is), EXPAND(in, n, Mul, first, size));
	m->slot = sum(m, EXPAND(in, n, Mul, is, v), 1);
	v = EXPAND(in, n, Div, expand_range(in, n, pairs), expand_size(in, n, m->choices));
	m->source = expand_node_ints(
		in, n, OP_ScatterElements,
		(Value *[]){EXPAND(in, n, Expand, int_of(m, 0),
				   expand_unsqueeze(in, n, expand_size(in, n, slots), 0)),
			    m->slot, v},
		3, "axis", 0);
	/* a block's expert is the number of experts all of whose blocks are before it */
	v = expand_unsqueeze(in, n, expand_range(in, n, m->blocks), -1);
	v = EXPAND(in, n, LessOrEqual, EXPAND(in, n, Add, first, blocks), v);
	v = sum(m, expand_cast(in, n, v, DT_I64), 1);
	m->expert = EXPAND(in, n, Min, v,
			   EXPAND(in, n, Sub, expand_size(in, n, m->experts), int_of(m, 1)));
}

/* ---- Products ---- */

/* Entries of V, whose first dim is the experts, for the blocks' experts. */
static Value *chosen(Moe *m, Value *v)
{
	return EXPAND(m->in, m->n, Gather, v, m->expert);
}

/* The numbers of operand number K of QMoE, which has COUNT numbers of BITS bits in its last dim,
 * as floats of type REAL with the dims D. Null after a diagnostic. */
static Value *numbers(Moe *m, int k, int64_t bits, Dim *count, DType real, Dim *const *d)
{
	Infer *in = m->in;
	Node *n = m->n;
	Value *v = blocks_unpacked(in, n, node_in(n, k), bits, count);

	if (!v)
		return NULL;
	v = expand_cast(in, n, expand_reshape(in, n, v, d, 4), real);
	return v;
}

/* The matrices of operand WEIGHTS of QMoE as floats of type REAL. Null after a diagnostic. */
static Value *dequantised(Moe *m, MoeInput weights, DType real)
{
	Infer *in = m->in;
	Node *n = m->n;
	const int at = m->place[weights], zero = QMOE_ZERO + ((int)weights - MOE_FC1) / 2;
	const int64_t bits = bits_of(m, weights);
	Ctx *c = infer_ctx(in);
	Dim *one = dim_const(c, 1), *rows = infer_type(n, at)->dims[1],
	    *size = weights == MOE_FC2 ? m->inner : m->hidden, *blocks = blocks_of(m, size),
	    *block = m->block ? dim_const(c, m->block) : size,
	    *d[4] = {m->experts, rows, blocks, block};
	Value *w = numbers(m, at, bits, size, real, d), *z, *scale;

	if (!w)
		return NULL;
	d[3] = one;
	z = node_in(n, zero) ? numbers(m, zero, bits, m->block ? blocks : rows, real, d)
			     : expand_scalar(in, n, real, (double)(1 << (bits - 1)));
	if (!z)
		return NULL;
	scale = expand_cast(in, n, expand_reshape(in, n, node_in(n, at + 1), d, 4), real);
	w = EXPAND(in, n, Mul, EXPAND(in, n, Sub, w, z), scale);
	d[2] = size;
	return expand_reshape(in, n, w, d, 3);
}

/* Rows X, [blocks, block_rows, size], times the blocks' matrices in operand WEIGHTS, plus the
 * blocks' rows of BIAS. */
static Value *chosen_product(Moe *m, Value *x, MoeInput weights, MoeInput bias)
{
	static const int64_t perm[] = {0, 2, 1};
	Infer *in = m->in;
	Node *n = m->n;
	const DType t = x->type->dtype, real = is_quantised(m) ? acc_dtype(t) : t;
	Value *w = is_quantised(m) ? dequantised(m, weights, real) : operand(m, weights), *v;

	if (!w)
		return NULL;
	w = expand_transpose(in, n, chosen(m, w), perm, 3);
	v = expand_cast(in, n, EXPAND(in, n, MatMul, expand_cast(in, n, x, real), w), t);
	if (operand(m, bias))
		v = EXPAND(in, n, Add, v, expand_unsqueeze(in, n, chosen(m, operand(m, bias)), 1));
	return v;
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

/* The input of the second product, [blocks, block_rows, inner], for rows X. */
static Value *inner_rows(Moe *m, Value *x)
{
	Infer *in = m->in;
	Node *n = m->n;
	Ctx *c = infer_ctx(in);
	Value *a = chosen_product(m, x, MOE_FC1, MOE_BIAS1), *half[2];
	Dim *d[4] = {m->blocks, m->block_rows};
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
	Value *weight, *expert, *v;
	int64_t experts;

	if (!infer_choice(in, n, "activation_type", names, 5, &m.activation))
		return false;
	if (node_int(n, "use_sparse_mixer", 0))
		return infer_error(in, n, "use_sparse_mixer is not supported");
	if (fusion < MOE_APART || fusion > MOE_HALVES)
		return infer_error(in, n, "attribute \"swiglu_fusion\" is %lld, expected 0, 1 or 2",
				   (long long)fusion);
	m.halves = m.activation == MOE_SWIGLU && fusion != MOE_APART;
	if (m.activation == MOE_SWIGLU && m.halves == (operand(&m, MOE_FC3) != NULL))
		return infer_error(in, n, "swiglu needs either operand %d or a swiglu_fusion of 1 or 2",
				   m.place[MOE_FC3] + 1);
	m.block = is_quantised(&m) ? node_int(n, "block_size", 0) : 0;
	if (m.block < 0 || m.block > INT32_MAX || m.block % 8)
		return infer_error(
			in, n,
			"attribute \"block_size\" is %lld, expected a multiple of 8 below 2^31",
			(long long)m.block);
	if (!check_operands(&m))
		return false;
	if (!dim_is_const(m.experts, &experts))
		experts = INT64_MAX;
	if (choices < 1 || choices > experts)
		return infer_error(
			in, n, "attribute \"k\" is %lld, expected 1 to %lld, the number of experts",
			(long long)choices, (long long)experts);
	m.choices = dim_const(c, choices);
	choose_blocks(&m);
	weight = route(&m, choices, &expert);
	if (!weight)
		return false;
	group_by_expert(&m, expert);
	v = expand_reshape(in, n, node_in(n, MOE_X), (Dim *[]){m.rows, m.hidden}, 2);
	v = EXPAND(in, n, Gather, v, m.source);
	v = expand_reshape(in, n, v, (Dim *[]){m.blocks, m.block_rows, m.hidden}, 3);
	v = inner_rows(&m, v);
	v = v ? chosen_product(&m, v, MOE_FC2, MOE_BIAS2) : NULL;
	if (!v)
		return false;
	v = expand_reshape(in, n, v, (Dim *[]){dim_mul(c, m.blocks, m.block_rows), m.hidden}, 2);
	v = EXPAND(in, n, Gather, v, m.slot);
	v = expand_reshape(in, n, v, (Dim *[]){m.rows, m.choices, m.hidden}, 3);
	v = expand_cast(in, n, v, weight->type->dtype);
	weight = expand_reshape(in, n, weight, (Dim *[]){m.rows, m.choices, dim_const(c, 1)}, 3);
	v = EXPAND(in, n, Mul, v, weight);
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
