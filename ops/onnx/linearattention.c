/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LinearAttention, as a loop over time that carries a matrix S of [key size, value size] for each
 * head. An iteration with the key k, the value v, the query q, and by the update rule a decay g and
 * a rate b:
 *
 *     S = exp(g) * S                       gated, gated_delta
 *     v = b * (v - S' k)                   delta, gated_delta
 *     S = S + k v'                         the outer product
 *     y = scale * S' q
 *
 * Elements smaller than f32 are computed in f32. Several heads of queries may read the matrix of
 * one head of keys.
 */
#include "ops/infer/build.h"
#include "ops/infer/control.h"

enum { QUERY, KEY, VALUE, STATE, DECAY, BETA };

typedef struct LinearCell {
	Infer *in;
	Node *n;
	DType real;
	Dim *batch, *time, *heads, *group, *key,
		*value;      /* GROUP: heads of queries for each of keys */
	Value *q, *k, *v;    /* time first: [time, batch, heads, group or 1, size] */
	Value *decay, *beta; /* [time, batch, heads or 1, key or 1, 1]; the decay's exponential */
} LinearCell;

/* Operand K, [batch, time, COUNT * GROUP * size], as [time, batch, COUNT, GROUP, size]; *SIZE gets
 * the size. Null after a diagnostic. */
static Value *by_time(const LinearCell *c, int k, Dim *count, Dim *group, Dim **size)
{
	static const int64_t perm[] = {1, 0, 2, 3, 4};
	const Type *t = infer_type(c->n, k);
	Ctx *ctx = c->in->ctx;
	Dim *all = dim_mul(ctx, count, group), *d[5];
	Value *v;

	if (!dtype_is_float(t->dtype) || t->rank != 3) {
		infer_error(c->in, c->n, "operand %d is %s of rank %d; expected floats of rank 3",
			    k + 1, dtype_info[t->dtype].name, t->rank);
		return NULL;
	}
	*size = dim_floordiv(ctx, t->dims[2], all);
	if (!infer_dim_equals(c->in, c->n, &t->dims[0], c->batch, "the batches differ") ||
	    !infer_dim_equals(c->in, c->n, &t->dims[1], c->time, "the lengths differ") ||
	    !infer_equal(c->in, c->n, dim_mul(ctx, *size, all), t->dims[2],
			 "the heads do not divide the last dim"))
		return NULL;
	d[0] = c->batch;
	d[1] = c->time;
	d[2] = count;
	d[3] = group;
	d[4] = *size;
	v = expand_reshape(c->in, c->n, expand_cast(c->in, c->n, node_in(c->n, k), c->real), d, 5);
	v = expand_transpose(c->in, c->n, v, perm, 5);
	return v;
}

/* The update rule's operands, which are there exactly if the rule has them. */
static bool read_rule(LinearCell *c)
{
	static const struct {
		const char *name;
		bool decay, beta;
	} rules[] = {{"linear", false, false},
		     {"gated", true, false},
		     {"delta", false, true},
		     {"gated_delta", true, true}};
	const char *name = node_str(c->n, "update_rule", "gated_delta");
	Ctx *ctx = c->in->ctx;
	Dim *one = dim_const(ctx, 1), *size, *heads;

	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
		if (strcmp(name, rules[i].name) != 0)
			continue;
		if (!node_in(c->n, DECAY) == rules[i].decay ||
		    !node_in(c->n, BETA) == rules[i].beta)
			return infer_error(c->in, c->n,
					   "update_rule \"%s\" takes %s decay and %s beta", name,
					   rules[i].decay ? "a" : "no", rules[i].beta ? "a" : "no");
		if (rules[i].decay && !(c->decay = by_time(c, DECAY, c->heads, one, &size)))
			return false;
		if (rules[i].decay && size != one &&
		    !infer_equal(c->in, c->n, size, c->key, "the decay has another size"))
			return false;
		if (rules[i].beta) {
			heads = infer_type(c->n, BETA)->rank == 3 &&
						dim_equals(infer_type(c->n, BETA)->dims[2], 1)
					? one
					: c->heads;
			if (!(c->beta = by_time(c, BETA, heads, one, &size)) ||
			    !infer_equal(c->in, c->n, size, one,
					 "beta has more than a number for each head"))
				return false;
		}
		return true;
	}
	return infer_error(c->in, c->n, "there is no update_rule \"%s\"", name);
}

static bool read_linear(LinearCell *c)
{
	const Type *q = infer_type(c->n, QUERY);
	int64_t heads = node_int(c->n, "kv_num_heads", 0), all = node_int(c->n, "q_num_heads", 0);
	Ctx *ctx = c->in->ctx;
	Dim *size;

	if (q->rank != 3)
		return infer_error(c->in, c->n, "the queries have rank %d, not 3", q->rank);
	if (heads < 1 || all < heads || all % heads || all > INT32_MAX)
		return infer_error(c->in, c->n, "%lld heads of queries for %lld of keys",
				   (long long)all, (long long)heads);
	c->batch = q->dims[0];
	c->time = q->dims[1];
	c->heads = dim_const(ctx, heads);
	c->group = dim_const(ctx, all / heads);
	return (c->q = by_time(c, QUERY, c->heads, c->group, &c->key)) &&
	       (c->k = by_time(c, KEY, c->heads, dim_const(ctx, 1), &size)) &&
	       infer_equal(c->in, c->n, size, c->key, "queries and keys have different sizes") &&
	       (c->v = by_time(c, VALUE, c->heads, dim_const(ctx, 1), &c->value)) && read_rule(c);
}

/* The first state, [batch, heads, key, value]: operand 4, or zeros. */
static Value *initial_state(const LinearCell *c)
{
	Dim *d[4] = {c->batch, c->heads, c->key, c->value};
	const Type *t = infer_type(c->n, STATE);
	Value *zero;

	if (!t) {
		zero = expand_scalar(c->in, c->n, c->real, 0);
		return EXPAND(c->in, c->n, Expand, zero, expand_sizes(c->in, c->n, d, 4));
	}
	if (t->rank != 4) {
		infer_error(c->in, c->n, "the state has rank %d, not 4", t->rank);
		return NULL;
	}
	for (int i = 0; i < 4; i++)
		if (!infer_dim_equals(c->in, c->n, &t->dims[i], d[i],
				      "the state has another shape"))
			return NULL;
	return expand_cast(c->in, c->n, node_in(c->n, STATE), c->real);
}

static Value *scale_of(const LinearCell *c)
{
	float scale = node_float(c->n, "scale", 0);
	Value *v;

	if (scale != 0)
		return expand_scalar(c->in, c->n, c->real, (double)scale);
	v = expand_cast(c->in, c->n, expand_size(c->in, c->n, c->key), c->real);
	return EXPAND(c->in, c->n, Reciprocal, EXPAND(c->in, c->n, Sqrt, v));
}

/* [.., 1, size] as a column, [.., size, 1]. */
static Value *column(const LinearCell *c, Value *v)
{
	static const int64_t perm[] = {0, 1, 3, 2};

	return expand_transpose(c->in, c->n, v, perm, 4);
}

/* One iteration at the time T: *S is the state, and the result is [batch, heads, group, value]. */
static Value *linear_iteration(const LinearCell *c, Dim *t, Value *scale, Value **s)
{
	Infer *in = c->in;
	Node *n = c->n;
	Value *k = expand_row(in, n, c->k, t), *v = expand_row(in, n, c->v, t), *held;

	if (c->decay)
		*s = EXPAND(in, n, Mul, *s,
			    column(c, EXPAND(in, n, Exp, expand_row(in, n, c->decay, t))));
	if (c->beta) {
		held = EXPAND(in, n, MatMul, k, *s);
		v = EXPAND(in, n, Mul, expand_row(in, n, c->beta, t), EXPAND(in, n, Sub, v, held));
	}
	*s = EXPAND(in, n, Add, *s, EXPAND(in, n, Mul, column(c, k), v));
	v = EXPAND(in, n, MatMul, expand_row(in, n, c->q, t), *s);
	return EXPAND(in, n, Mul, v, scale);
}

static bool expand_linear_attention(Infer *in, Node *n, Value **out)
{
	static const int64_t perm[] = {1, 0, 2, 3, 4};
	DType t = infer_type(n, QUERY)->dtype;
	LinearCell c = {.in = in, .n = n, .real = acc_dtype(t)};
	Value *state, *each, *y, *scale;
	LoopBuild b;
	Dim *d[3];

	if (!read_linear(&c) || !(state = initial_state(&c)))
		return false;
	scale = scale_of(&c);
	b = loop_open(in, n, c.time, &state, 1);
	state = b.carried[0];
	each = linear_iteration(&c, b.iteration, scale, &state);
	loop_close(&b, &state, &each, 1, NULL, c.time, &state, &y);
	d[0] = c.batch;
	d[1] = c.time;
	d[2] = dim_mul(in->ctx, dim_mul(in->ctx, c.heads, c.group), c.value);
	y = expand_reshape(in, n, expand_transpose(in, n, y, perm, 5), d, 3);
	out[0] = expand_cast(in, n, y, t);
	if (node_out(n, 1))
		out[1] = expand_cast(in, n, state,
				     infer_type(n, STATE) ? infer_type(n, STATE)->dtype : t);
	return true;
}

const Op op_LinearAttention = {
	.expand = expand_linear_attention, .types = "f",
	.attrs = "chunk_size: int, kv_num_heads: int, q_num_heads: int, scale: float, "
		 "update_rule: string",
};
