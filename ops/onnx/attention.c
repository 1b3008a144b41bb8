/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of transformers, as composites of matrix products, reductions and elementwise
 * operators: Attention, RotaryEmbedding, SwiGLU, CausalConvWithState. Elements smaller than f32
 * are computed in f32 between the products, and rounded where they become operands or results.
 *
 * Attention, for each batch entry and head, with queries i < S, keys j < T and a query's position
 * p = i + offset among the keys:
 *
 *     score[i,j] = softcap(scale * sum_d q[i,d] * k[j,d]) + mask[i,j], or -inf where j is hidden
 *     y[i,d]     = sum_j softmax_j(score)[i,j] * v[j,d]
 *
 * A query without visible keys gets zeros. Operators of other domains may add a sink: one more
 * logit for each head, which takes part in the softmax and has no value v. FlexAttention has two
 * bodies in place of masks and options: one maps all scores to scores, the other probabilities to
 * probabilities.
 */
#include "ops/infer/build.h"
#include "ops/infer/control.h"

#include <float.h>
#include <math.h>

static bool float_operand(Infer *in, Node *n, int k, int least_rank, int most_rank)
{
	const Type *t = infer_type(n, k);

	if (!infer_floats(in, n, k))
		return false;
	if (t->rank < least_rank || t->rank > most_rank)
		return infer_error(in, n, "operand %d has rank %d, expected %d to %d", k + 1,
				   t->rank, least_rank, most_rank);
	return true;
}

/* [batch, sequence, HEADS * size] as [batch, sequence, HEADS, size], where attribute ATTR is the
 * number of heads. Null after a diagnostic. */
static Value *apart_heads(Infer *in, Node *n, Value *v, const char *attr)
{
	int64_t heads = node_int(n, attr, 0);
	Ctx *c = infer_ctx(in);
	Dim *d[4];

	if (heads < 1 || heads > INT32_MAX) {
		infer_error(in, n,
			    "attribute \"%s\" is %lld, expected 1 or more for operands of rank 3",
			    attr, (long long)heads);
		return NULL;
	}
	d[0] = v->type->dims[0];
	d[1] = v->type->dims[1];
	d[2] = dim_const(c, heads);
	d[3] = dim_floordiv(c, v->type->dims[2], d[2]);
	if (!infer_equal(in, n, dim_mul(c, d[3], d[2]), v->type->dims[2],
			 "the heads do not divide the last dim"))
		return NULL;
	return expand_reshape(in, n, v, d, 4);
}

/* The same as [batch, HEADS, sequence, size], which operands of rank 4 are already. */
static Value *split_heads(Infer *in, Node *n, Value *v, const char *attr)
{
	static const int64_t perm[] = {0, 2, 1, 3};

	if (v->type->rank == 4)
		return v;
	v = apart_heads(in, n, v, attr);
	return v ? expand_transpose(in, n, v, perm, 4) : NULL;
}

Value *attention_join_heads(Infer *in, Node *n, Value *v)
{
	static const int64_t swap[] = {0, 2, 1, 3};
	Dim *const *from = v->type->dims;
	Dim *d[3] = {from[0], from[2], dim_mul(infer_ctx(in), from[1], from[3])};

	return expand_reshape(in, n, expand_transpose(in, n, v, swap, 4), d, 3);
}

/* ---- Attention ---- */

enum { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS };

typedef struct Attention {
	/* [batch, heads, sequence, size], where K and V include the past; if several heads of
	 * queries share one of keys, GROUP of them, [batch, heads of keys, group or 1, sequence,
	 * size] */
	Value *q, *k, *v;
	int rank;
	Dim *heads, *group;
	DType real; /* the type of scores */
	Dim *queries, *keys;
	Value *position, *key; /* p and j of the head of this file, to broadcast with scores */
	Value *visible;        /* bool, to broadcast with scores; null: all keys are */
	bool hides_all;        /* a query may be left without keys */
	Value *sink;           /* a logit for each head, broadcast with the scores; null: none */
} Attention;

/* V with the heads in its dim AXIS as two dims: heads of keys and their groups. */
static Value *group_heads(Infer *in, Node *n, const Attention *a, Value *v, int axis)
{
	const Type *t = v->type;
	Dim *d[MAX_RANK];

	for (int i = 0; i < t->rank; i++)
		d[i < axis ? i : i + 1] = t->dims[i];
	d[axis] = dim_floordiv(infer_ctx(in), a->heads, a->group);
	d[axis + 1] = a->group;
	return expand_reshape(in, n, v, d, t->rank + 1);
}

/* The other way round, for values that have scores' dims. */
static Value *join_groups(Infer *in, Node *n, const Attention *a, Value *v)
{
	Dim *d[4];

	if (a->rank == 4)
		return v;
	d[0] = v->type->dims[0];
	d[1] = a->heads;
	d[2] = v->type->dims[3];
	d[3] = v->type->dims[4];
	return expand_reshape(in, n, v, d, 4);
}

/* Brings the operands to five dims if there are more query heads than key heads. So every key is
 * read once for a whole group, and none is copied. */
static bool grouped(Infer *in, Node *n, Attention *a)
{
	Ctx *c = infer_ctx(in);
	Dim *const *k = a->k->type->dims;

	a->rank = 4;
	a->heads = a->q->type->dims[1];
	if (!infer_equal_dims(in, n, &k[1], &a->v->type->dims[1],
			      "keys and values have different heads"))
		return false;
	if (a->heads == k[1])
		return true;
	a->group = dim_floordiv(c, a->heads, k[1]);
	if (!infer_equal(in, n, dim_mul(c, a->group, k[1]), a->heads,
			 "the number of query heads is not a multiple of the number of key heads"))
		return false;
	a->rank = 5;
	a->q = group_heads(in, n, a, a->q, 1);
	a->k = expand_unsqueeze(in, n, a->k, 2);
	a->v = expand_unsqueeze(in, n, a->v, 2);
	return true;
}

/* V after the past in operand PAST, which may be omitted. */
static Value *with_past(Infer *in, Node *n, Value *v, int past)
{
	if (!node_in(n, past))
		return v;
	return expand_node_ints(in, n, OP_Concat, (Value *[]){node_in(n, past), v}, 2, "axis", 2);
}

static bool attention_operands(Infer *in, Node *n, Attention *a, Value **out)
{
	Value **at[] = {&a->q, &a->k, &a->v};

	for (int k = Q; k <= V; k++) {
		if (!float_operand(in, n, k, 3, 4))
			return false;
		if (infer_type(n, k)->rank != infer_type(n, Q)->rank)
			return infer_error(in, n, "operand %d has rank %d, operand 1 %d", k + 1,
					   infer_type(n, k)->rank, infer_type(n, Q)->rank);
		*at[k] = split_heads(in, n, node_in(n, k), k == Q ? "q_num_heads" : "kv_num_heads");
		if (!*at[k])
			return false;
	}
	if (!node_in(n, PAST_K) != !node_in(n, PAST_V))
		return infer_error(in, n, "only one of past_key and past_value is given");
	if (node_in(n, PAST_K) && node_in(n, LENGTHS))
		return infer_error(in, n, "both past_key and nonpad_kv_seqlen are given");
	a->k = out[1] = with_past(in, n, a->k, PAST_K);
	a->v = out[2] = with_past(in, n, a->v, PAST_V);
	a->queries = a->q->type->dims[2];
	a->keys = a->k->type->dims[2];
	return grouped(in, n, a);
}

static Value *only_where(Infer *in, Node *n, Value *a, Value *b)
{
	return !a ? b : !b ? a : EXPAND(in, n, And, a, b);
}

/* A number for each entry of the batch, to broadcast with scores. */
static Value *by_batch(Infer *in, Node *n, const Attention *a, Value *v)
{
	static const int64_t axes[] = {1, 2, 3, 4};

	return EXPAND(in, n, Unsqueeze, v, expand_ints(in, n, axes, a->rank - 1));
}

/* Sets A->position and A->key: the offset of position is the number of keys in the past, or the
 * number of valid keys that precede the queries. */
static void positions(Infer *in, Node *n, Attention *a)
{
	Value *offset = NULL;

	a->key = expand_range(in, n, a->keys);
	a->position = expand_unsqueeze(in, n, expand_range(in, n, a->queries), 1);
	if (node_in(n, PAST_K))
		offset = expand_size(in, n, infer_type(n, PAST_K)->dims[2]);
	if (node_in(n, LENGTHS)) {
		offset = EXPAND(in, n, Sub, node_in(n, LENGTHS), expand_size(in, n, a->queries));
		offset = by_batch(in, n, a, offset);
	}
	if (offset)
		a->position = EXPAND(in, n, Add, a->position, offset);
}

/* The keys that is_causal, the window and the lengths leave visible. */
static bool visible_keys(Infer *in, Node *n, Attention *a)
{
	int64_t left = node_int(n, "left_window_size", -1),
		right = node_int(n, "right_window_size", -1);
	Value *at, *see;

	if (left < -1 || right < -1)
		return infer_error(in, n, "a window size is %lld, expected -1 or more",
				   (long long)(left < -1 ? left : right));
	positions(in, n, a);
	if (node_int(n, "is_causal", 0))
		a->visible = EXPAND(in, n, LessOrEqual, a->key, a->position);
	if (left >= 0) {
		at = EXPAND(in, n, Sub, a->position, expand_scalar(in, n, DT_I64, (double)left));
		see = EXPAND(in, n, GreaterOrEqual, a->key, at);
		a->visible = only_where(in, n, a->visible, see);
	}
	if (right >= 0) {
		at = EXPAND(in, n, Add, a->position, expand_scalar(in, n, DT_I64, (double)right));
		see = EXPAND(in, n, LessOrEqual, a->key, at);
		a->visible = only_where(in, n, a->visible, see);
	}
	if (node_in(n, LENGTHS)) {
		at = by_batch(in, n, a, node_in(n, LENGTHS));
		a->visible = only_where(in, n, a->visible, EXPAND(in, n, Less, a->key, at));
	}
	a->hides_all = node_in(n, MASK) || node_in(n, LENGTHS) || left >= 0 || right >= 0;
	return true;
}

/* The mask with as many entries in its last dim as there are keys: keys past its end are hidden. */
static Value *whole_mask(Infer *in, Node *n, const Attention *a)
{
	Value *mask = node_in(n, MASK), *fill;
	const Type *t = mask->type;
	Ctx *c = infer_ctx(in);
	Dim *pads[2] = {dim_const(c, 0)};
	int64_t last = t->rank - 1;

	if (t->rank < 1 || t->rank > 4) {
		infer_error(in, n, "the mask has rank %d, expected 1 to 4", t->rank);
		return NULL;
	}
	if (t->dims[last] == a->keys)
		return mask;
	if (!infer_le_shown(in, n, t->dims[last], a->keys, "the mask is longer than the keys",
			    infer_dim_shown(in, n, &t->dims[last]),
			    (FactSize){"keys are", a->keys}))
		return NULL;
	pads[1] = dim_sub(c, a->keys, t->dims[last]);
	fill = expand_scalar(in, n, t->dtype, t->dtype == DT_BOOL ? 0 : -INFINITY);
	return EXPAND(in, n, Pad, mask, expand_sizes(in, n, pads, 2), fill,
		      expand_ints(in, n, &last, 1));
}

/* The mask with the dims of scores: its heads, if it has more than one, are grouped. */
static Value *grouped_mask(Infer *in, Node *n, const Attention *a, Value *mask)
{
	const Type *t = mask->type;
	Dim *d[4];

	if (a->rank == 4 || t->rank < 3)
		return mask;
	if (dim_equals(t->dims[t->rank - 3], 1))
		return expand_unsqueeze(in, n, mask, t->rank - 3);
	for (int i = 0; i < t->rank; i++)
		d[i] = t->dims[i];
	if (d[t->rank - 3] != a->heads) { /* only run time knows whether it is 1 */
		d[t->rank - 3] = a->heads;
		mask = EXPAND(in, n, Expand, mask, expand_sizes(in, n, d, t->rank));
	}
	return group_heads(in, n, a, mask, t->rank - 3);
}

/* The scores with the mask, and -inf for hidden keys; null after a diagnostic. */
static Value *masked(Infer *in, Node *n, const Attention *a, Value *s)
{
	Value *hidden = expand_scalar(in, n, a->real, -INFINITY), *mask;

	if (node_in(n, MASK)) {
		mask = whole_mask(in, n, a);
		mask = mask ? grouped_mask(in, n, a, mask) : NULL;
		if (!mask)
			return NULL;
		if (mask->type->dtype == DT_BOOL)
			s = EXPAND(in, n, Where, mask, s, hidden);
		else
			s = EXPAND(in, n, Add, s, expand_cast(in, n, mask, a->real));
	}
	return a->visible ? EXPAND(in, n, Where, a->visible, s, hidden) : s;
}

/* SINK, one element for each head of queries, to broadcast with scores. */
static Value *sink_logits(Infer *in, Node *n, const Attention *a, Value *sink)
{
	Ctx *c = infer_ctx(in);
	Dim *d[4] = {dim_const(c, 1), a->heads, dim_const(c, 1), dim_const(c, 1)};

	sink = expand_reshape(in, n, expand_cast(in, n, sink, a->real), d, 4);
	return a->rank == 5 ? group_heads(in, n, a, sink, 1) : sink;
}

/* softmax over the last axis, where the sum of a row includes the sink. HIDES_ALL: a row may be all
 * -inf, and then gives 0: the maximum is replaced by a finite number, and the sum of any other row
 * is at least 1. */
static Value *probabilities(Infer *in, Node *n, const Attention *a, Value *s)
{
	static const int64_t last = -1;
	Value *axis = expand_ints(in, n, &last, 1), *max, *sum;

	if (!a->hides_all && !a->sink)
		return EXPAND(in, n, Softmax, s);
	max = EXPAND(in, n, ReduceMax, s, axis);
	if (a->sink)
		max = EXPAND(in, n, Max, max, a->sink);
	max = EXPAND(in, n, Max, max,
		     expand_scalar(in, n, a->real, a->real == DT_F64 ? -DBL_MAX : -FLT_MAX));
	s = EXPAND(in, n, Exp, EXPAND(in, n, Sub, s, max));
	sum = EXPAND(in, n, ReduceSum, s, axis);
	if (a->sink)
		sum = EXPAND(in, n, Add, sum, EXPAND(in, n, Exp, EXPAND(in, n, Sub, a->sink, max)));
	sum = EXPAND(in, n, Max, sum, expand_scalar(in, n, a->real, 1));
	return EXPAND(in, n, Div, s, sum);
}

static Value *scaled_queries(Infer *in, Node *n, const Attention *a)
{
	DType t = a->q->type->dtype;
	Dim *size = a->q->type->dims[a->rank - 1];
	int64_t v;
	Value *s;

	if (node_attr(n, "scale"))
		s = expand_scalar(in, n, t, (double)node_float(n, "scale", 1));
	else if (dim_is_const(size, &v))
		s = expand_scalar(in, n, t, v > 0 ? 1 / sqrt((double)v) : 1);
	else
		s = EXPAND(in, n, Reciprocal,
			   EXPAND(in, n, Sqrt, expand_cast(in, n, expand_size(in, n, size), t)));
	return EXPAND(in, n, Mul, a->q, s);
}

static Value *soft_capped(Infer *in, Node *n, const Attention *a, Value *s)
{
	double cap = (double)node_float(n, "softcap", 0);
	Value *v;

	if (!(cap > 0))
		return s;
	v = expand_scalar(in, n, a->real, cap);
	return EXPAND(in, n, Mul, EXPAND(in, n, Tanh, EXPAND(in, n, Div, s, v)), v);
}

bool attention_with_sink(Infer *in, Node *n, Value *sink, Value **out)
{
	static const int64_t perm[2][5] = {{0, 1, 3, 2}, {0, 1, 2, 4, 3}};
	DType t = infer_type(n, Q)->dtype;
	int64_t mode = node_int(n, "qk_matmul_output_mode", 0);
	Attention a = {.real = acc_dtype(t)};
	Value *s, *stage[4];

	if (!attention_operands(in, n, &a, out) || !visible_keys(in, n, &a))
		return false;
	if (mode < 0 || mode > 3)
		return infer_error(in, n,
				   "attribute \"qk_matmul_output_mode\" is %lld, expected 0 to 3",
				   (long long)mode);
	if (dtype_by_onnx((int)node_int(n, "softmax_precision", 1)) == DT_F64)
		a.real = DT_F64;
	if (sink)
		a.sink = sink_logits(in, n, &a, sink);
	s = EXPAND(in, n, MatMul, scaled_queries(in, n, &a),
		   expand_transpose(in, n, a.k, perm[a.rank == 5], a.rank));
	stage[0] = s = expand_cast(in, n, s, a.real);
	stage[1] = s = soft_capped(in, n, &a, s);
	stage[2] = s = masked(in, n, &a, s);
	if (!s)
		return false;
	stage[3] = s = expand_cast(in, n, probabilities(in, n, &a, s), t);
	s = EXPAND(in, n, MatMul, s, expand_cast(in, n, a.v, t));
	s = join_groups(in, n, &a, s);
	out[0] = infer_type(n, Q)->rank == 3 ? attention_join_heads(in, n, s) : s;
	if (node_out(n, 3))
		out[3] = expand_cast(in, n, join_groups(in, n, &a, stage[mode]), t);
	return true;
}

static bool expand_attention(Infer *in, Node *n, Value **out)
{
	return attention_with_sink(in, n, NULL, out);
}

const Op op_Attention = {
	.expand = expand_attention, .types = "f",
	.attrs = "is_causal: int, kv_num_heads: int, left_window_size: int since 25, "
		 "q_num_heads: int, qk_matmul_output_mode: int, right_window_size: int since 25, "
		 "scale: float, softcap: float, softmax_precision: int",
};

/* ---- FlexAttention ---- */

static Graph *body_named(const Node *n, const char *name)
{
	for (int i = 0; i < n->regions.n; i++)
		if (!strcmp(n->regions.at[i]->name, name))
			return n->regions.at[i];
	return NULL;
}

/* Applies the body NAME of N to S, scores or probabilities, whose type it preserves; S itself
 * without such a body. Null after a diagnostic. */
static Value *modified(Infer *in, Node *n, const Attention *a, const char *name, Value *s)
{
	Graph *body = body_named(n, name);
	Value **args, *made = NULL;
	const Type *t;
	int from;

	s = join_groups(in, n, a, s);
	t = s->type;
	if (!body || !t)
		return a->rank == 5 && t ? group_heads(in, n, a, s, 1) : s;
	control_body(in, n, name, &from);
	if (control_own_inputs(n, body) != 1 || body->results.n != 1) {
		infer_error(in, n, "%s has %d inputs and %d results, expected one of each", name,
			    control_own_inputs(n, body), body->results.n);
		return NULL;
	}
	args = NEW_ARRAY(infer_arena(in), body->inputs.n, Value *);
	args[0] = s;
	for (int i = 1; i < body->inputs.n; i++)
		args[i] = node_in(n, from + i - 1);
	if (!control_put_body(in, n, body, args, &made))
		return NULL;
	if (made->type->dtype != t->dtype || made->type->rank != t->rank) {
		infer_error(in, n, "%s makes %s of rank %d of %s of rank 4", name,
			    dtype_info[made->type->dtype].name, made->type->rank,
			    dtype_info[t->dtype].name);
		return NULL;
	}
	for (int d = 0; d < t->rank; d++)
		if (!infer_equal(in, n, made->type->dims[d], t->dims[d], "the body changes a size"))
			return NULL;
	return a->rank == 5 ? group_heads(in, n, a, made, 1) : made;
}

static bool expand_flex(Infer *in, Node *n, Value **out)
{
	static const int64_t perm[2][5] = {{0, 1, 3, 2}, {0, 1, 2, 4, 3}};
	DType t = infer_type(n, Q)->dtype;
	Attention a = {.real = t == DT_F64 ? DT_F64 : DT_F32};
	Value *s, *unused[4];

	for (int k = Q; k <= V; k++)
		if (!float_operand(in, n, k, 4, 4))
			return false;
	if (node_attr(n, "softmax_precision"))
		a.real = dtype_by_onnx((int)node_int(n, "softmax_precision", 1));
	if (!dtype_is_float(a.real))
		return infer_error(in, n, "attribute \"softmax_precision\" names no float type");
	if (!attention_operands(in, n, &a, unused))
		return false;
	s = EXPAND(in, n, MatMul, scaled_queries(in, n, &a),
		   expand_transpose(in, n, a.k, perm[a.rank == 5], a.rank));
	s = modified(in, n, &a, "score_mod", expand_cast(in, n, s, a.real));
	if (!s)
		return false;
	s = modified(in, n, &a, "prob_mod", EXPAND(in, n, Softmax, s));
	if (!s)
		return false;
	s = EXPAND(in, n, MatMul, s, expand_cast(in, n, a.v, a.real));
	out[0] = expand_cast(in, n, join_groups(in, n, &a, s), t);
	return true;
}

const Op op_preview_FlexAttention = {
	.expand = expand_flex, .regions = true, .types = "f",
	.attrs = "prob_mod: graph, scale: float, score_mod: graph, softmax_precision: int",
};

/* ---- RotaryEmbedding ---- */

/* The cosines or sines in operand K, to broadcast with a half of the elements that are rotated. */
static Value *rotary_table(Infer *in, Node *n, int k, DType real)
{
	int64_t axis = infer_type(n, 0)->rank == 4 ? 1 : 2;
	Value *v = node_in(n, k);

	if (node_in(n, 3))
		v = EXPAND(in, n, Gather, v, node_in(n, 3));
	return expand_cast(in, n, expand_unsqueeze(in, n, v, axis), real);
}

/* The first or second element of each pair that is rotated, of X in [.., .., .., size]. */
static Value *rotary_half(Infer *in, Node *n, Value *x, int64_t size, bool interleaved, int second)
{
	if (interleaved)
		return expand_slice(in, n, x, 3, second, size, 2);
	return expand_slice(in, n, x, 3, second * (size / 2), size / 2 + second * (size / 2), 1);
}

static Value *concat_last(Infer *in, Node *n, Value *a, Value *b)
{
	return expand_node_ints(in, n, OP_Concat, (Value *[]){a, b}, 2, "axis", -1);
}

/* Puts the pairs (A, B) together again: [a0 a1 ... b0 b1 ...] or [a0 b0 a1 b1 ...]. */
static Value *rotary_pairs(Infer *in, Node *n, Value *a, Value *b, bool interleaved)
{
	int64_t last = -1;
	Value *axis;
	Dim *d[4];

	if (!interleaved)
		return concat_last(in, n, a, b);
	for (int i = 0; i < 4; i++)
		d[i] = a->type->dims[i];
	d[3] = dim_mul(infer_ctx(in), d[3], dim_const(infer_ctx(in), 2));
	axis = expand_ints(in, n, &last, 1);
	a = concat_last(in, n, EXPAND(in, n, Unsqueeze, a, axis),
			EXPAND(in, n, Unsqueeze, b, axis));
	return expand_reshape(in, n, a, d, 4);
}

static bool expand_rotary(Infer *in, Node *n, Value **out)
{
	const Type *t = infer_type(n, 0);
	DType real = acc_dtype(t->dtype);
	bool interleaved = node_int(n, "interleaved", 0) != 0;
	int64_t size = node_int(n, "rotary_embedding_dim", 0), head;
	Value *x, *cosine, *sine, *a, *b, *y, *z;

	if (!float_operand(in, n, 0, 3, 4))
		return false;
	x = t->rank == 4 ? node_in(n, 0) : apart_heads(in, n, node_in(n, 0), "num_heads");
	if (!x)
		return false;
	if (!dim_is_const(x->type->dims[3], &head))
		return infer_error(in, n, "the size of a head must be a number; bind it by --dim");
	size = size ? size : head;
	if (size < 0 || size > head || size % 2)
		return infer_error(in, n, "%lld elements of %lld cannot be rotated in pairs",
				   (long long)size, (long long)head);
	cosine = rotary_table(in, n, 1, real);
	sine = rotary_table(in, n, 2, real);
	a = expand_cast(in, n, rotary_half(in, n, x, size, interleaved, 0), real);
	b = expand_cast(in, n, rotary_half(in, n, x, size, interleaved, 1), real);
	y = EXPAND(in, n, Sub, EXPAND(in, n, Mul, cosine, a), EXPAND(in, n, Mul, sine, b));
	z = EXPAND(in, n, Add, EXPAND(in, n, Mul, sine, a), EXPAND(in, n, Mul, cosine, b));
	y = expand_cast(in, n, rotary_pairs(in, n, y, z, interleaved), t->dtype);
	if (size < head)
		y = concat_last(in, n, y, expand_slice(in, n, x, 3, size, head, 1));
	out[0] = t->rank == 4 ? y : expand_reshape(in, n, y, t->dims, 3);
	return true;
}

const Op op_RotaryEmbedding = {
	.expand = expand_rotary, .types = "f",
	.attrs = "interleaved: int, num_heads: int, rotary_embedding_dim: int",
};

/* ---- SwiGLU ---- */

static Value *swish(Infer *in, Node *n, Value *x, float alpha)
{
	DType t = x->type->dtype;
	Value *v = alpha == 1 ? x : EXPAND(in, n, Mul, x, expand_scalar(in, n, t, (double)alpha));

	return EXPAND(in, n, Mul, x, EXPAND(in, n, Sigmoid, v));
}

static bool expand_swiglu(Infer *in, Node *n, Value **out)
{
	const Type *a = infer_type(n, 0), *b = infer_type(n, 1);
	DType real = acc_dtype(a->dtype);
	Value *v;

	if (!float_operand(in, n, 0, 0, MAX_RANK) || !contract_types(in, n))
		return false;
	if (a->rank != b->rank)
		return infer_error(in, n, "the operands have ranks %d and %d", a->rank, b->rank);
	for (int i = 0; i < a->rank; i++)
		if (!infer_equal_dims(in, n, &a->dims[i], &b->dims[i],
				      "the operands have different shapes"))
			return false;
	v = swish(in, n, expand_cast(in, n, node_in(n, 0), real), node_float(n, "alpha", 1));
	v = EXPAND(in, n, Mul, v, expand_cast(in, n, node_in(n, 1), real));
	out[0] = expand_cast(in, n, v, a->dtype);
	return true;
}

const Op op_SwiGLU = {.expand = expand_swiglu, .types = "f", .attrs = "alpha: float"};

/* ---- CausalConvWithState ---- */

/* The state of a first step, whose elements are 0. */
static Value *zero_state(Infer *in, Node *n, Dim *const *d)
{
	Value *zero = expand_scalar(in, n, infer_type(n, 0)->dtype, 0);

	return EXPAND(in, n, Expand, zero, expand_sizes(in, n, d, 3));
}

/* The input after the state, convolved channel by channel; the next state is its end. */
static bool expand_causal_conv(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0), *w = infer_type(n, 1);
	const char *act = node_str(n, "activation", "none");
	bool smooth = !strcmp(act, "silu") || !strcmp(act, "swish");
	int64_t channels, to = INT64_MAX, axis = 2;
	Ctx *c = infer_ctx(in);
	Value *all, *y, *start;
	Dim *d[3];

	if (!float_operand(in, n, 0, 3, 3) || !float_operand(in, n, 1, 3, 3))
		return false;
	if (!smooth && strcmp(act, "none"))
		return infer_error(in, n, "activation is \"%s\", expected none, silu or swish",
				   act);
	if (!dim_is_const(x->dims[1], &channels) && !dim_is_const(w->dims[0], &channels))
		return infer_error(in, n, "the channels must be a number; bind them by --dim");
	d[0] = x->dims[0];
	d[1] = x->dims[1];
	d[2] = dim_sub(c, w->dims[2], dim_const(c, 1));
	start = node_in(n, 3) ? node_in(n, 3) : zero_state(in, n, d);
	all = expand_node_ints(in, n, OP_Concat, (Value *[]){start, node_in(n, 0)}, 2, "axis", 2);
	y = expand_node_ints(in, n, OP_Conv, (Value *[]){all, node_in(n, 1), node_in(n, 2)}, 3,
			     "group", channels);
	if (smooth) {
		y = swish(in, n, expand_cast(in, n, y, acc_dtype(x->dtype)), 1);
		y = expand_cast(in, n, y, x->dtype);
	}
	out[0] = y;
	if (!node_out(n, 1))
		return true;
	out[1] = EXPAND(in, n, Slice, all, expand_sizes(in, n, &x->dims[2], 1),
			expand_ints(in, n, &to, 1), expand_ints(in, n, &axis, 1));
	return true;
}

const Op op_CausalConvWithState = {
	.expand = expand_causal_conv,
	.types = "f",
	.doc = "the channels must be a number (a symbol, bound by --dim)",
	.attrs = "activation: string",
};
