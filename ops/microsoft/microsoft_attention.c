/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of transformers of the domain com.microsoft, as composites of the standard's Attention,
 * RotaryEmbedding and TensorScatter: Attention, MultiHeadAttention, GroupQueryAttention,
 * RotaryEmbedding.
 *
 * Masks become an operand of the standard's Attention that is added to the scores: 0 where a key is
 * visible, and mask_filter_value where it is not, so that a query whose keys are all masked sees
 * them all alike.
 */
#include "ops/infer/build.h"
#include "ops/infer/infer.h"
#include "ops/onnx/shape.h"

#include <float.h>
#include <math.h>

/* Refuses operand K, which WHAT describes, if it is given. */
static bool absent(Infer *in, Node *n, int k, const char *what)
{
	return !node_in(n, k) ||
	       infer_error(in, n, "operand %d, %s, is not supported", k + 1, what);
}

static bool attr_absent(Infer *in, Node *n, const char *name)
{
	return !node_int(n, name, 0) ||
	       infer_error(in, n, "attribute \"%s\" is %lld, which is not supported", name,
			   (long long)node_int(n, name, 0));
}

/* Refuses string attribute NAME, unless it is "NONE". */
static bool attr_none(Infer *in, Node *n, const char *name)
{
	const char *s = node_str(n, name, "NONE");

	return !strcmp(s, "NONE") ||
	       infer_error(in, n, "attribute \"%s\" is \"%s\", and only NONE is supported", name, s);
}

static bool rank_is(Infer *in, Node *n, int k, int rank)
{
	return infer_type(n, k)->rank == rank ||
	       infer_error(in, n, "operand %d has rank %d, expected %d", k + 1,
			   infer_type(n, k)->rank, rank);
}

static Value *unsqueezed(Infer *in, Node *n, Value *v, const int64_t *axes, int count)
{
	return EXPAND(in, n, Unsqueeze, v, expand_ints(in, n, axes, count));
}

static Value *plus(Infer *in, Node *n, Value *a, Value *b)
{
	return !a ? b : !b ? a : EXPAND(in, n, Add, a, b);
}

static Value *both(Infer *in, Node *n, Value *a, Value *b)
{
	return !a ? b : !b ? a : EXPAND(in, n, And, a, b);
}

static const int64_t swap_heads[] = {0, 2, 1, 3};

/* [batch, length, HEADS * size] as [batch, HEADS, length, size]. */
static Value *split_heads(Infer *in, Node *n, Value *v, int64_t heads)
{
	Ctx *c = infer_ctx(in);
	Dim *d[4] = {v->type->dims[0], v->type->dims[1], dim_const(c, heads)};

	d[3] = dim_floordiv(c, v->type->dims[2], d[2]);
	return expand_transpose(in, n, expand_reshape(in, n, v, d, 4), swap_heads, 4);
}

/* ---- The standard's Attention ---- */

typedef struct Heads {
	Value *q, *k, *v, *mask, *past_k, *past_v; /* mask and past may be null */
	Value *sink;                               /* an extra logit for each head; may be null */
	int64_t heads, kv_heads;
	bool causal;
	int64_t scores; /* the qk_matmul_output_mode of result 4, or 0 if it is omitted */
} Heads;

/* Sets OUT to the result, the keys and values with the past, and the scores if H asks for them. */
static bool attend(Infer *in, Node *n, const Heads *h, Value *out[4])
{
	Value *const args[] = {h->q, h->k, h->v, h->mask, h->past_k, h->past_v};
	Node *m = expand_start(in, n, OP_Attention, args, 6, h->scores ? 4 : 3);
	float scale = node_float(n, "scale", 0), cap = node_float(n, "softcap", 0);

	node_set_int(m, "q_num_heads", h->heads);
	node_set_int(m, "kv_num_heads", h->kv_heads);
	node_set_int(m, "is_causal", h->causal);
	if (scale != 0)
		node_set_float(m, "scale", scale);
	if (cap > 0)
		node_set_float(m, "softcap", cap);
	if (h->scores)
		node_set_int(m, "qk_matmul_output_mode", h->scores);
	if (!h->sink) {
		expand_finish_all(in, m, out);
		return true;
	}
	if (!attention_with_sink(in, m, h->sink, out))
		return false;
	node_remove(m);
	return true;
}

static bool head_count(Infer *in, Node *n, const char *attr, int64_t *out)
{
	*out = node_int(n, attr, 0);
	return (*out > 0 && *out <= INT32_MAX) ||
	       infer_error(in, n, "attribute \"%s\" is %lld, expected 1 or more", attr,
			   (long long)*out);
}

/* 0 where SEE, which is bool, and the attribute mask_filter_value elsewhere. */
static Value *filtered(Infer *in, Node *n, Value *see)
{
	double hidden = (double)node_float(n, "mask_filter_value", -10000);

	return EXPAND(in, n, Where, see, expand_scalar(in, n, DT_F32, 0),
		      expand_scalar(in, n, DT_F32, hidden));
}

/* Visibility by masks: for BATCH entries, QUERIES that follow PAST keys, and KEYS including the
 * past. */
typedef struct Visible {
	Dim *batch, *queries, *past, *keys;
} Visible;

/* LENGTHS, a number for each entry of the batch, to compare with the numbers of keys. */
static Value *by_entry(Infer *in, Node *n, Value *lengths)
{
	static const int64_t axes[] = {1, 2, 3};

	return expand_cast(in, n, unsqueezed(in, n, lengths, axes, 3), DT_I64);
}

/* Whether a key is visible by V, a vector: the number of visible keys of each entry; in Attention
 * perhaps followed by the first visible key of each. If V has 3 * batch + 2 elements, the rest are
 * the offsets of the entries in packed tensors. Null after a diagnostic. */
static Value *visible_by_length(Infer *in, Node *n, Value *v, const Visible *s)
{
	Ctx *c = infer_ctx(in);
	Dim *count = v->type->dims[0], *zero = dim_const(c, 0);
	Dim *twice = dim_mul(c, s->batch, dim_const(c, 2));
	const bool from = n->op == OP_microsoft_Attention && count == twice && count != zero;
	const bool packed = count == dim_add(c, dim_add(c, twice, s->batch), dim_const(c, 2));
	Value *key = expand_range(in, n, s->keys), *length = v, *see;

	if (from || packed)
		length = expand_part(in, n, v, 0, zero, s->batch);
	else if (!infer_dim_equals(in, n, &v->type->dims[0], s->batch,
				   "a mask of rank 1 has one length for each entry of the batch"))
		return NULL;
	see = EXPAND(in, n, Less, key, by_entry(in, n, length));
	if (!from)
		return see;
	v = by_entry(in, n, expand_part(in, n, v, 0, s->batch, count));
	return EXPAND(in, n, And, see, EXPAND(in, n, GreaterOrEqual, key, v));
}

/* Whether a key is visible by operand K, which has a number above 0 where it is: [batch, keys], of
 * Attention perhaps [batch, 1], which changes no probability; [batch, queries, keys]; or of
 * Attention for each two positions, [batch, 1, most, most]. Null after a diagnostic. */
static Value *visible_by_key(Infer *in, Node *n, int k, const Visible *s)
{
	static const int64_t front[] = {1, 2};
	Value *v = node_in(n, k), *one;
	Ctx *c = infer_ctx(in);
	const Type *t = v->type;
	Dim *const *last = &t->dims[t->rank - 1];
	const bool may_be_one = n->op == OP_microsoft_Attention && t->rank == 2 && *last != s->keys;

	if (t->rank == 4) {
		if (!infer_le_shown(in, n, s->keys, *last,
				    "the mask has fewer positions than there are keys",
				    (FactSize){"the keys are", s->keys},
				    infer_dim_shown(in, n, last)) ||
		    !infer_equal_dims(in, n, &t->dims[2], last, "the mask is not square"))
			return NULL;
		v = expand_part(in, n, v, 2, s->past, dim_add(c, s->past, s->queries));
		v = expand_part(in, n, v, 3, dim_const(c, 0), s->keys);
	} else if (!may_be_one && !infer_dim_equals(in, n, last, s->keys,
						    "the mask has not one entry for each key")) {
		return NULL;
	}
	v = EXPAND(in, n, Greater, v, expand_scalar(in, n, t->dtype, 0));
	if (t->rank < 4)
		v = unsqueezed(in, n, v, front, t->rank == 2 ? 2 : 1);
	if (!may_be_one)
		return v;
	one = EXPAND(in, n, Equal, expand_size(in, n, *last), expand_scalar(in, n, DT_I64, 1));
	return EXPAND(in, n, Expand, EXPAND(in, n, Or, v, one), expand_sizes(in, n, &s->keys, 1));
}

/* Sets *OUT to mask operand K, as a mask to be added to scores, or to null if it is omitted or
 * hides nothing. */
static bool key_mask(Infer *in, Node *n, int k, const Visible *s, Value **out)
{
	const bool of_attention = n->op == OP_microsoft_Attention;
	Value *v = node_in(n, k);
	int rank = v ? v->type->rank : 0;

	*out = NULL;
	if (!v || (of_attention && rank == 2 && dim_equals(v->type->dims[1], 1)))
		return true;
	if (rank < 1 || rank > (of_attention ? 4 : 3))
		return infer_error(in, n, "the mask, operand %d, has rank %d, expected 1 to %d",
				   k + 1, rank, of_attention ? 4 : 3);
	v = rank == 1 ? visible_by_length(in, n, v, s) : visible_by_key(in, n, k, s);
	*out = v ? filtered(in, n, v) : NULL;
	return v != NULL;
}

/* Adds operand K, if it is given, to the mask *MASK: a number for each query and key. */
static bool add_scores(Infer *in, Node *n, int k, Dim *keys, Value **mask)
{
	Value *v = node_in(n, k);

	if (!v)
		return true;
	if (!rank_is(in, n, k, 4) ||
	    !infer_dim_equals(in, n, &v->type->dims[3], keys,
			      "attention_bias has not one entry for each key"))
		return false;
	*mask = plus(in, n, *mask, expand_cast(in, n, v, DT_F32));
	return true;
}

/* ---- Attention ---- */

/* Entry WHICH of V along its first axis, which is removed. */
static Value *entry(Infer *in, Node *n, Value *v, int64_t which)
{
	return expand_node_ints(in, n, OP_Gather,
				(Value *[]){v, expand_scalar(in, n, DT_I64, (double)which)}, 2,
				"axis", 0);
}

static Value *stacked(Infer *in, Node *n, Value *a, Value *b)
{
	static const int64_t first = 0;

	return expand_node_ints(
		in, n, OP_Concat,
		(Value *[]){unsqueezed(in, n, a, &first, 1), unsqueezed(in, n, b, &first, 1)}, 2,
		"axis", 0);
}

/* Sets SIZE to the widths of queries, keys and values. */
static bool projection_sizes(Infer *in, Node *n, Dim *size[3])
{
	Ctx *c = infer_ctx(in);
	Dim *all = infer_type(n, 1)->dims[1];
	int count;
	const int64_t *given = node_ints(n, "qkv_hidden_sizes", &count);

	if (count > 0 && count != 3)
		return infer_error(in, n, "attribute \"qkv_hidden_sizes\" has %d entries, not 3",
				   count);
	for (int i = 0; i < 3; i++)
		size[i] = count > 0 ? dim_const(c, given[i])
				    : dim_floordiv(c, all, dim_const(c, 3));
	return infer_equal(in, n, dim_add(c, size[0], dim_add(c, size[1], size[2])), all,
			   "the weights are not as wide as queries, keys and values");
}

/* The attribute rotary_embedding_dim has no effect without do_rotary. */
static bool expand_attention(Infer *in, Node *n, Value **out)
{
	enum { X, WEIGHTS, BIAS, MASK, PAST, SCORES, PAST_LENGTH };
	Heads h = {.causal = node_int(n, "unidirectional", 0) != 0};
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, X);
	Dim *size[3], *from = dim_const(c, 0);
	Visible s;
	Value *all, **part[] = {&h.q, &h.k, &h.v}, *got[4];

	if (!head_count(in, n, "num_heads", &h.heads) || !infer_floats(in, n, X) ||
	    !rank_is(in, n, X, 3) || !rank_is(in, n, WEIGHTS, 2) ||
	    !attr_absent(in, n, "do_rotary") || !attr_absent(in, n, "past_present_share_buffer") ||
	    !absent(in, n, PAST_LENGTH, "the length of the past in a shared buffer") ||
	    (node_in(n, PAST) && !rank_is(in, n, PAST, 5)) || !projection_sizes(in, n, size))
		return false;
	h.kv_heads = h.heads;
	all = plus(in, n, EXPAND(in, n, MatMul, node_in(n, X), node_in(n, WEIGHTS)),
		   node_in(n, BIAS));
	for (int i = 0; i < 3; i++) {
		*part[i] = expand_part(in, n, all, 2, from, dim_add(c, from, size[i]));
		from = dim_add(c, from, size[i]);
	}
	s = (Visible){.batch = x->dims[0], .queries = x->dims[1], .past = dim_const(c, 0)};
	if (node_in(n, PAST)) {
		h.past_k = entry(in, n, node_in(n, PAST), 0);
		h.past_v = entry(in, n, node_in(n, PAST), 1);
		s.past = infer_type(n, PAST)->dims[3];
	}
	s.keys = dim_add(c, s.past, s.queries);
	if (!key_mask(in, n, MASK, &s, &h.mask) || !add_scores(in, n, SCORES, s.keys, &h.mask) ||
	    !attend(in, n, &h, got))
		return false;
	out[0] = got[0];
	if (node_out(n, 1))
		out[1] = stacked(in, n, got[1], got[2]);
	return true;
}

const Op op_microsoft_Attention = {
	.expand = expand_attention,
	.types = "f",
	.doc = "without rotary positions and shared buffers",
	.attrs = "do_rotary: int, mask_filter_value: float, num_heads: int, "
		 "past_present_share_buffer: int, qkv_hidden_sizes: ints, "
		 "rotary_embedding_dim: int, scale: float, unidirectional: int",
};

/* ---- MultiHeadAttention ---- */

/* Part WHICH of V, [batch, length, heads, parts, size], as [batch, length, heads * size]. */
static Value *unpacked(Infer *in, Node *n, Value *v, int which)
{
	Dim *const *from = v->type->dims;
	Dim *d[3] = {from[0], from[1], dim_mul(infer_ctx(in), from[2], from[4])};

	return expand_reshape(in, n, expand_slice(in, n, v, 3, which, which + 1, 1), d, 3);
}

/* Sets the queries, keys and values of H from the operands, which may be packed together. */
static bool multi_head_operands(Infer *in, Node *n, Heads *h)
{
	Value *q = node_in(n, 0), *k = node_in(n, 1), *v = node_in(n, 2);
	int packed = !k ? 0 : 1;

	if ((k || v) && !rank_is(in, n, 0, 3))
		return false;
	if (k && v) {
		*h = (Heads){.q = q, .k = k, .v = v, .heads = h->heads};
		return (k->type->rank == v->type->rank &&
			(k->type->rank == 3 || k->type->rank == 4)) ||
		       infer_error(in, n,
				   "the keys have rank %d, the values %d, expected 3 or 4 for both",
				   k->type->rank, v->type->rank);
	}
	if (v || !rank_is(in, n, packed, 5))
		return v ? infer_error(in, n, "values without keys are given") : false;
	h->q = packed ? q : unpacked(in, n, q, 0);
	h->k = unpacked(in, n, packed ? k : q, packed ? 0 : 1);
	h->v = unpacked(in, n, packed ? k : q, packed ? 1 : 2);
	return true;
}

enum { M_BIAS = 3, M_MASK, M_SCORES, M_PAST_K, M_PAST_V, M_PAST_LENGTH, M_INDIRECTION };

/* Adds the bias to queries, keys and values; only to queries if keys and values already have
 * separate heads, since an earlier projection added the bias to them. */
static bool multi_head_bias(Infer *in, Node *n, Heads *h, bool projected)
{
	Value *bias = node_in(n, M_BIAS), **part[] = {&h->q, &h->k, &h->v};
	Ctx *c = infer_ctx(in);
	Dim *end[4] = {dim_const(c, 0)};

	if (!bias)
		return true;
	for (int i = 0; i < 3; i++)
		end[i + 1] = dim_add(c, end[i], (*part[i])->type->dims[2]);
	if (!rank_is(in, n, M_BIAS, 1) ||
	    !infer_dim_equals(in, n, &bias->type->dims[0], end[3],
			      "the bias is not as wide as queries, keys and values"))
		return false;
	for (int i = 0; i < (projected ? 1 : 3); i++)
		*part[i] = EXPAND(in, n, Add, *part[i],
				  expand_part(in, n, bias, 0, end[i], end[i + 1]));
	return true;
}

/* Result 4: the scores SCORES with masks, before the softmax. ONNX Runtime has the lowest f32 where
 * the standard's Attention has -inf. */
static Value *finite_scores(Infer *in, Node *n, const Heads *h, Value *scores)
{
	const DType t = scores->type->dtype;

	return h->causal && t == DT_F32
		       ? EXPAND(in, n, Max, scores, expand_scalar(in, n, t, (double)-FLT_MAX))
		       : scores;
}

/* The attribute unidirectional: a query sees the keys up to its position. ONNX Runtime lets the
 * last one see all of them, which differs where there are not as many new keys as queries. */
static void multi_head_causal(Infer *in, Node *n, Heads *h, const Visible *s)
{
	const int64_t axis = 1;
	Ctx *c = infer_ctx(in);
	Value *query, *at, *last, *see;

	if (!node_int(n, "unidirectional", 0) || dim_equals(s->queries, 1))
		return;
	h->causal = s->keys == dim_add(c, s->past, s->queries);
	if (h->causal)
		return;
	query = unsqueezed(in, n, expand_range(in, n, s->queries), &axis, 1);
	at = EXPAND(in, n, Add, query, expand_size(in, n, s->past));
	last = EXPAND(in, n, Equal, query,
		      expand_size(in, n, dim_sub(c, s->queries, dim_const(c, 1))));
	see = EXPAND(in, n, LessOrEqual, expand_range(in, n, s->keys), at);
	see = EXPAND(in, n, Where, EXPAND(in, n, Or, see, last), expand_scalar(in, n, DT_F32, 0),
		     expand_scalar(in, n, DT_F32, (double)-FLT_MAX));
	h->mask = plus(in, n, h->mask, see);
}

static bool expand_multi_head(Infer *in, Node *n, Value **out)
{
	Heads h = {0};
	Ctx *c = infer_ctx(in);
	Value *got[4] = {NULL};
	bool by_head;
	Visible s;

	if (!head_count(in, n, "num_heads", &h.heads) || !infer_floats(in, n, 0) ||
	    !absent(in, n, M_PAST_LENGTH, "the length of the past in a shared buffer") ||
	    !absent(in, n, M_INDIRECTION, "the indirection of a beam search"))
		return false;
	if (!multi_head_operands(in, n, &h))
		return false;
	h.kv_heads = h.heads;
	h.scores = node_out(n, 3) ? 2 : 0;
	h.past_k = node_in(n, M_PAST_K);
	h.past_v = node_in(n, M_PAST_V);
	by_head = h.k->type->rank == 4;
	s = (Visible){.batch = h.q->type->dims[0],
		      .past = dim_const(c, 0),
		      .queries = h.q->type->dims[1],
		      .keys = h.k->type->dims[by_head ? 2 : 1]};
	if (by_head) { /* the standard's wants all of one rank */
		h.k = attention_join_heads(in, n, h.k);
		h.v = attention_join_heads(in, n, h.v);
	}
	if (!multi_head_bias(in, n, &h, by_head) || (h.past_k && !rank_is(in, n, M_PAST_K, 4)))
		return false;
	s.past = h.past_k ? infer_type(n, M_PAST_K)->dims[2] : s.past;
	s.keys = dim_add(c, s.past, s.keys);
	if (!key_mask(in, n, M_MASK, &s, &h.mask) || !add_scores(in, n, M_SCORES, s.keys, &h.mask))
		return false;
	multi_head_causal(in, n, &h, &s);
	if (!attend(in, n, &h, got))
		return false;
	for (int i = 0; i < n->nout; i++)
		out[i] = node_out(n, i) ? got[i] : NULL;
	if (h.scores)
		out[3] = finite_scores(in, n, &h, got[3]);
	return true;
}

const Op op_microsoft_MultiHeadAttention = {
	.expand = expand_multi_head,
	.types = "f",
	.doc = "without shared buffers and beams",
	.attrs = "mask_filter_value: float, num_heads: int, scale: float, unidirectional: int",
};

/* ---- RotaryEmbedding ---- */

/* X rotated by the standard's RotaryEmbedding; its positions are POSITION. */
static Value *rotated(Infer *in, Node *n, Value *x, Value *cosine, Value *sine, Value *position,
		      int64_t heads, bool interleaved, int64_t size)
{
	Node *m = expand_start(in, n, OP_RotaryEmbedding, (Value *[]){x, cosine, sine, position}, 4,
			       1);

	node_set_int(m, "num_heads", heads);
	node_set_int(m, "interleaved", interleaved);
	node_set_int(m, "rotary_embedding_dim", size);
	return expand_finish(in, m);
}

/* Sets *SIZE to the number of elements that tables of cosines and sines, operands K and K + 1,
 * rotate. */
static bool rotary_size(Infer *in, Node *n, int k, int64_t *size)
{
	if (!node_in(n, k) || !node_in(n, k + 1))
		return infer_error(in, n, "operand %d is missing", (node_in(n, k) ? k + 1 : k) + 1);
	if (!rank_is(in, n, k, 2) || !rank_is(in, n, k + 1, 2))
		return false;
	if (!dim_is_const(infer_type(n, k)->dims[1], size))
		return infer_error(in, n,
				   "the width of the tables must be a number; bind it by --dim");
	*size *= 2;
	return true;
}

/* Checks that the tables rotate SIZE elements of a head: as many as attribute
 * rotary_embedding_dim says, or without it all. */
static bool rotary_fits(Infer *in, Node *n, int64_t heads, int64_t size)
{
	const Type *x = infer_type(n, 0);
	const int64_t given = node_int(n, "rotary_embedding_dim", 0);
	Ctx *c = infer_ctx(in);

	if (heads < 0 || heads > INT32_MAX)
		return infer_error(in, n, "attribute \"num_heads\" is %lld", (long long)heads);
	if (given && x->rank == 3 && !node_int(n, "num_heads", 0))
		return infer_error(in, n, "has attribute \"rotary_embedding_dim\" without \"num_heads\"");
	if (given && given != size)
		return infer_error(in, n, "attribute \"rotary_embedding_dim\" is %lld, and the tables rotate %lld elements",
				   (long long)given, (long long)size);
	return given || infer_dim_equals(in, n, &x->dims[x->rank - 1],
					 dim_const(c, x->rank == 4 ? size : heads * size),
					 "the tables do not rotate all elements of a head");
}

/* A single position is that of the first element of the sequence. */
static bool expand_rotary(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	int64_t heads = node_int(n, "num_heads", 0), size, width, first = 0;
	Value *position = node_in(n, 1);

	if (!infer_floats(in, n, 0) || !rotary_size(in, n, 2, &size) ||
	    !attr_absent(in, n, "is_packed_batching"))
		return false;
	if (node_attr(n, "scale") && node_float(n, "scale", 1) != 1)
		return infer_error(in, n, "attribute \"scale\" is not supported");
	if (x->rank != 3 && x->rank != 4)
		return infer_error(in, n, "operand has rank %d, expected 3 or 4", x->rank);
	if (x->rank == 3 && !heads) {
		if (!dim_is_const(x->dims[2], &width) || !size)
			return infer_error(in, n,
					   "the last dim must be a number; bind it by --dim");
		heads = width / size;
	}
	if (!rotary_fits(in, n, heads, size))
		return false;
	if (position->type->rank == 1) {
		position = EXPAND(in, n, Add, position,
				  expand_range(in, n, x->dims[x->rank == 4 ? 2 : 1]));
		position = unsqueezed(in, n, position, &first, 1);
	}
	*out = rotated(in, n, node_in(n, 0), node_in(n, 2), node_in(n, 3), position, heads,
		       node_int(n, "interleaved", 0) != 0, size);
	return true;
}

const Op op_microsoft_RotaryEmbedding = {
	.expand = expand_rotary,
	.types = "f",
	.doc = "without packed batches and a scale",
	.attrs = "interleaved: int, is_packed_batching: int, num_heads: int, "
		 "rotary_embedding_dim: int, scale: float",
};

/* ---- GroupQueryAttention ---- */

enum {
	G_Q,
	G_K,
	G_V,
	G_PAST_K,
	G_PAST_V,
	G_LENGTHS,
	G_TOTAL,
	G_COS,
	G_SIN,
	G_POSITION,
	G_SCORES,
	G_SINK,
	G_K_SCALE,
	G_V_SCALE,
	G_Q_NORM,
	G_K_NORM,
};

/* Result 4 and the attribute qk_output, which defines it, need each other. */
static bool group_query_scores(Infer *in, Node *n)
{
	const int64_t which = node_int(n, "qk_output", 0);

	if (which < 0 || which > 2)
		return infer_error(in, n, "attribute \"qk_output\" is %lld, expected 0 to 2",
				   (long long)which);
	return !which == !node_out(n, 3) ||
	       infer_error(
		       in, n,
		       which ? "attribute \"qk_output\" is %lld, which needs result 4"
			     : "result 4 needs attribute \"qk_output\" to be 1 or 2; it is %lld",
		       (long long)which);
}

/* Checks that operand K, if there is one, is a vector of COUNT floats. */
static bool vector_is(Infer *in, Node *n, int k, Dim *count, const char *what)
{
	return !node_in(n, k) || (infer_floats(in, n, k) && rank_is(in, n, k, 1) &&
				  infer_dim_equals(in, n, &infer_type(n, k)->dims[0], count, what));
}

static bool group_query_supported(Infer *in, Node *n)
{
	for (int k = G_LENGTHS; k <= G_TOTAL; k++)
		if (!node_in(n, k))
			return infer_error(in, n, "operand %d is missing", k + 1);
	return group_query_scores(in, n) && absent(in, n, G_K_SCALE, "the k_scale") &&
	       absent(in, n, G_V_SCALE, "the v_scale") && attr_none(in, n, "k_quant_type") &&
	       attr_none(in, n, "v_quant_type") && attr_absent(in, n, "kv_cache_bit_width") &&
	       attr_absent(in, n, "sliding_window_cache") && infer_floats(in, n, G_Q) &&
	       rank_is(in, n, G_Q, 3) && rank_is(in, n, G_LENGTHS, 1) &&
	       head_count(in, n, "num_heads", &(int64_t){0}) &&
	       head_count(in, n, "kv_num_heads", &(int64_t){0});
}

/* Without keys and values the first operand holds queries, keys and values side by side. */
static bool group_query_operands(Infer *in, Node *n, Heads *h)
{
	Ctx *c = infer_ctx(in);
	Value **part[] = {&h->q, &h->k, &h->v}, *all = node_in(n, G_Q);
	Dim *from = dim_const(c, 0), *to, *head;

	if (!node_in(n, G_K) != !node_in(n, G_V))
		return infer_error(in, n, "only one of keys and values is given");
	for (int i = 0; i < 3 && node_in(n, G_K); i++)
		*part[i] = node_in(n, i);
	if (h->k)
		return rank_is(in, n, G_K, 3) && rank_is(in, n, G_V, 3);
	head = dim_floordiv(c, all->type->dims[2], dim_const(c, h->heads + 2 * h->kv_heads));
	for (int i = 0; i < 3; i++) {
		to = dim_add(c, from, dim_mul(c, head, dim_const(c, i ? h->kv_heads : h->heads)));
		*part[i] = expand_part(in, n, all, 2, from, to);
		from = to;
	}
	return true;
}

/* Sets *SINK to the operand head_sink. smooth_softmax = 1 is a sink of 0, where that is omitted, as
 * ONNX Runtime's CPU kernel has it; other values have no effect. */
static bool group_query_sink(Infer *in, Node *n, int64_t heads, Value **sink)
{
	Ctx *c = infer_ctx(in);
	Dim *count = dim_const(c, heads);

	*sink = node_in(n, G_SINK);
	if (*sink || node_int(n, "smooth_softmax", 0) != 1)
		return vector_is(in, n, G_SINK, count, "head_sink needs one element for each head");
	*sink = EXPAND(in, n, Expand, expand_scalar(in, n, DT_F32, 0),
		       expand_sizes(in, n, &count, 1));
	return true;
}

/* Each of the HEADS heads of *V, [batch, length, heads * size], divided by the root of its mean
 * square and multiplied by operand WEIGHT. */
static bool group_query_norm(Infer *in, Node *n, Value **v, int64_t heads, int weight)
{
	Ctx *c = infer_ctx(in);
	Dim *const *joined = (*v)->type->dims;
	Dim *apart[4] = {joined[0], joined[1], dim_const(c, heads)};
	Value *x;
	Node *m;

	apart[3] = dim_floordiv(c, joined[2], apart[2]);
	if (!vector_is(in, n, weight, apart[3],
		       "the weights of a norm need one element for each of a head"))
		return false;
	x = expand_reshape(in, n, *v, apart, 4);
	m = expand_start(in, n, OP_SimplifiedLayerNormalization, (Value *[]){x, node_in(n, weight)},
			 2, 1);
	node_set_float(m, "epsilon", node_float(n, "qk_norm_epsilon", 1e-6F));
	x = expand_finish(in, m);
	*v = expand_reshape(in, n, x, joined, 3);
	return true;
}

/* The norms of queries and keys, which come before the rotation. The attribute qk_norm_epsilon has
 * no effect without their weights. */
static bool group_query_norms(Infer *in, Node *n, Heads *h)
{
	if (!node_in(n, G_Q_NORM) != !node_in(n, G_K_NORM))
		return infer_error(in, n, "only one of q_norm_weight and k_norm_weight is given");
	return !node_in(n, G_Q_NORM) || (group_query_norm(in, n, &h->q, h->heads, G_Q_NORM) &&
					 group_query_norm(in, n, &h->k, h->kv_heads, G_K_NORM));
}

/* V, [batch, length, heads * size], written into the past, operand PAST, from row START[batch] on;
 * the result has CAPACITY rows. */
static Value *cached(Infer *in, Node *n, Value *v, int past, Value *start, Dim *capacity,
		     int64_t heads)
{
	static const int64_t axis = 2;
	Ctx *c = infer_ctx(in);
	Dim *d[4], *pads[2] = {dim_const(c, 0)};
	Value *old = node_in(n, past), *zero = expand_scalar(in, n, v->type->dtype, 0);

	v = split_heads(in, n, v, heads);
	if (old) {
		pads[1] = dim_sub(c, capacity, old->type->dims[2]);
		if (!dim_equals(pads[1], 0))
			old = EXPAND(in, n, Pad, old, expand_sizes(in, n, pads, 2), zero,
				     expand_ints(in, n, &axis, 1));
	} else {
		for (int i = 0; i < 4; i++)
			d[i] = i == 2 ? capacity : v->type->dims[i];
		old = EXPAND(in, n, Expand, zero, expand_sizes(in, n, d, 4));
	}
	return expand_node_ints(in, n, OP_TensorScatter, (Value *[]){old, v, start}, 3, "axis", 2);
}

/* The first COUNT rows of cache V, which has as many. */
static Value *first_rows(Infer *in, Node *n, Value *v, Dim *count)
{
	Dim *sizes[] = {count, dim_sub(infer_ctx(in), v->type->dims[2], count)};
	Value *part[2];
	Node *split;

	if (dim_equals(sizes[1], 0))
		return v;
	split = expand_start(in, n, OP_Split, (Value *[]){v, expand_sizes(in, n, sizes, 2)}, 2, 2);
	node_set_int(split, "axis", 2);
	split->out[1] = NULL;
	expand_finish_all(in, split, part);
	return part[0];
}

/* Sets *VISIBLE to the condition that a query sees a key, and *OUT to the mask with the bias: a
 * query at position p sees the keys up to p, or up to the last one if the attribute causal is 0,
 * and only the last ones if there is a window. */
static bool group_query_mask(Infer *in, Node *n, Value *start, Dim *queries, Dim *keys,
			     Value **visible, Value **out)
{
	static const int64_t back[] = {1, 2, 3}, last = 1;
	const bool causal = node_int(n, "causal", 1) != 0;
	int64_t window = node_int(n, "local_window_size", -1);
	Value *key = expand_range(in, n, keys), *at, *see, *bias = node_in(n, G_SCORES);

	at = unsqueezed(in, n, expand_range(in, n, queries), &last, 1);
	at = EXPAND(in, n, Add, at, unsqueezed(in, n, start, back, 3));
	see = causal ? EXPAND(in, n, LessOrEqual, key, at)
		     : EXPAND(in, n, LessOrEqual, key,
			      unsqueezed(in, n, expand_cast(in, n, node_in(n, G_LENGTHS), DT_I64),
					 back, 3));
	if (window > 0)
		see = both(in, n, see,
			   EXPAND(in, n, Greater,
				  EXPAND(in, n, Add, key,
					 expand_scalar(in, n, DT_I64, (double)window)),
				  at));
	*out = *visible = see;
	if (bias && (!rank_is(in, n, G_SCORES, 4) ||
		     !infer_dim_equals(in, n, &bias->type->dims[3], keys,
				       "attention_bias has not one entry for each key")))
		return false;
	if (bias)
		*out = EXPAND(in, n, Where, see, expand_cast(in, n, bias, DT_F32),
			      expand_scalar(in, n, DT_F32, -INFINITY));
	return true;
}

/* Rotates the queries and keys of H, whose first positions are START[batch]. */
static bool group_query_rotated(Infer *in, Node *n, Heads *h, Value *start, Dim *length)
{
	const bool mixed = node_int(n, "rotary_interleaved", 0) != 0;
	const int64_t last = 1;
	Value *cosine = node_in(n, G_COS), *sine = node_in(n, G_SIN), *at = node_in(n, G_POSITION);
	int64_t size;

	if (!rotary_size(in, n, G_COS, &size))
		return false;
	if (!at)
		at = EXPAND(in, n, Add, unsqueezed(in, n, start, &last, 1),
			    expand_range(in, n, length));
	h->q = rotated(in, n, h->q, cosine, sine, at, h->heads, mixed, size);
	h->k = rotated(in, n, h->k, cosine, sine, at, h->kv_heads, mixed, size);
	return true;
}

/* Of each batch entry, the past has seqlens_k + 1 - S valid rows, none if that is negative; the S
 * new keys follow these. Only the first total_sequence_length rows of the caches are read. Result 4
 * is 0 where a key is hidden, even before the softmax. */
static bool expand_group_query(Infer *in, Node *n, Value **out)
{
	Heads h = {0};
	Ctx *c = infer_ctx(in);
	Dim *total, *capacity, *length = infer_type(n, G_Q)->dims[1];
	Value *start, *visible, *got[4];

	if (!group_query_supported(in, n))
		return false;
	h.heads = node_int(n, "num_heads", 0);
	h.kv_heads = node_int(n, "kv_num_heads", 0);
	h.scores = node_out(n, 3) ? node_int(n, "qk_output", 0) + 1 : 0;
	if (!node_in(n, G_PAST_K) != !node_in(n, G_PAST_V))
		return infer_error(in, n, "only one of past_key and past_value is given");
	if (node_in(n, G_PAST_K) && (!rank_is(in, n, G_PAST_K, 4) || !rank_is(in, n, G_PAST_V, 4)))
		return false;
	if (!group_query_sink(in, n, h.heads, &h.sink) || !group_query_operands(in, n, &h) ||
	    !group_query_norms(in, n, &h) || !(total = infer_single(in, n, G_TOTAL)))
		return false;
	capacity = total;
	if (node_in(n, G_PAST_K))
		capacity = dim_max(c, capacity, infer_type(n, G_PAST_K)->dims[2]);
	start = EXPAND(in, n, Sub, expand_bounded(in, n, node_in(n, G_LENGTHS), total),
		       expand_size(in, n, dim_sub(c, length, dim_const(c, 1))));
	start = EXPAND(in, n, Max, start, expand_scalar(in, n, DT_I64, 0));
	if (node_int(n, "do_rotary", 0) && !group_query_rotated(in, n, &h, start, length))
		return false;
	out[1] = cached(in, n, h.k, G_PAST_K, start, capacity, h.kv_heads);
	out[2] = cached(in, n, h.v, G_PAST_V, start, capacity, h.kv_heads);
	h.q = split_heads(in, n, h.q, h.heads);
	h.k = first_rows(in, n, out[1], total);
	h.v = first_rows(in, n, out[2], total);
	if (!group_query_mask(in, n, start, length, total, &visible, &h.mask))
		return false;
	if (!attend(in, n, &h, got))
		return false;
	out[0] = attention_join_heads(in, n, got[0]);
	if (h.scores)
		out[3] = EXPAND(in, n, Where, visible, got[3],
				expand_scalar(in, n, infer_type(n, G_Q)->dtype, 0));
	return true;
}

const Op op_microsoft_GroupQueryAttention = {
	.expand = expand_group_query,
	.types = "f",
	.doc = "without quantised or sliding caches",
	.attrs = "causal: int, do_rotary: int, k_quant_type: string, kv_cache_bit_width: int, "
		 "kv_num_heads: int, local_window_size: int, num_heads: int, "
		 "qk_norm_epsilon: float, qk_output: int, rotary_interleaved: int, scale: float, "
		 "sliding_window_cache: int, smooth_softmax: int, softcap: float, "
		 "v_quant_type: string",
};
