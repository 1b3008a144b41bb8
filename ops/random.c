/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers: RandomUniform, RandomNormal and their Like forms, Bernoulli, Multinomial.
 *
 * The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
 * as 1, 2, 3", SC 2011): a function of a counter, which is the element's row-major index, and of a
 * key, which is made of the seed. So an element is the same on every processor, for any number of
 * threads and in every run. docs/numerics.md has the key and how words become numbers.
 *
 * A node without a seed gets the key that its result's name hashes to, and a warning.
 */
#include "ops/build.h"
#include "ops/infer.h"
#include "ops/shape.h"

static const char stream_attr[] = "stream";

/* ---- Philox ---- */

enum { WORDS = 4, ROUNDS = 10 };

static const uint32_t multiplier[2] = {0xD2511F53, 0xCD9E8D57}, weyl[2] = {0x9E3779B9, 0xBB67AE85};

static Expr *word(Kernel *k, uint32_t v)
{
	return ex_int(k->pool, CT_U32, (int64_t)v);
}

/* Replaces the counter C by four random words. */
static void philox(Kernel *k, Expr **c, uint32_t key0, uint32_t key1)
{
	ExprPool *p = k->pool;

	for (int i = 0; i < ROUNDS; i++) {
		Expr *high0 = ex_op2(p, IN_mulhi, c[0], word(k, multiplier[0])),
		     *low0 = ex_op2(p, IN_mul, c[0], word(k, multiplier[0])),
		     *high1 = ex_op2(p, IN_mulhi, c[2], word(k, multiplier[1])),
		     *low1 = ex_op2(p, IN_mul, c[2], word(k, multiplier[1]));

		c[0] = ex_op2(p, IN_xor, ex_op2(p, IN_xor, high1, c[1]), word(k, key0));
		c[2] = ex_op2(p, IN_xor, ex_op2(p, IN_xor, high0, c[3]), word(k, key1));
		c[1] = low1;
		c[3] = low0;
		key0 += weyl[0];
		key1 += weyl[1];
	}
}

/* The random words of the element at IT of the result of N. */
static void random_words(Kernel *k, const Node *n, const Buf *out, Iter *const *it, Expr **c)
{
	ExprPool *p = k->pool;
	Expr *at = at_int(k, 0);
	float seed = node_float(n, "seed", 0);
	uint32_t key;

	for (int d = 0; d < out->rank; d++)
		at = ex_add(p, ex_mul(p, at, at_dim(k, out->dims[d])), at_iter(k, it[d]));
	c[0] = ex_cvt(p, CT_U32, ex_op2(p, IN_and, at, at_int(k, 0xFFFFFFFF)));
	c[1] = ex_cvt(p, CT_U32, ex_op2(p, IN_shr, at, at_int(k, 32)));
	c[2] = c[3] = word(k, 0);
	memcpy(&key, &seed, sizeof key);
	philox(k, c, key, (uint32_t)node_int(n, stream_attr, 0));
}

/* A number in [0, 1): 24 bits of word I as f32, or 53 bits of it and the next one as f64. */
static Expr *unit(Kernel *k, CType t, Expr *const *c, int i)
{
	if (t == CT_F64)
		return BUILD_EXPR(k, t, "mul(f64(shr(or(shl(u64(a), 32), u64(b)), 11)), 0x1p-53)",
				  {"a", c[i]}, {"b", c[i + 1]});
	return BUILD_EXPR(k, t, "mul(f32(shr(a, 8)), 0x1p-24)", {"a", c[i]});
}

/* ---- Seeds ---- */

static uint32_t hash_name(const char *s)
{
	uint32_t h = 2166136261U; /* FNV-1a */

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619U;
	return h;
}

/* Gives N the attributes that its key is made of. */
static void add_key(Infer *in, Node *n)
{
	const char *name = n->out[0]->name ? n->out[0]->name : "";

	if (node_attr(n, "seed") || node_attr(n, stream_attr))
		return;
	node_set_int(n, stream_attr, (int64_t)hash_name(name));
	if (!in->seedless)
		diag_warning(in->ctx->diag, node_diag(n), "seed",
			     "there is no seed; every run has the same random numbers");
	in->seedless = true;
}

/* Copies the key of N to M, which stands for it. */
static void same_seed(const Node *n, Node *m)
{
	const Attr *seed = node_attr(n, "seed");

	if (seed)
		node_set_attr(m, *seed);
	node_set_int(m, stream_attr, node_int(n, stream_attr, 0));
}

/* ---- RandomUniform, RandomNormal ---- */

static DType random_type(Infer *in, Node *n, DType otherwise)
{
	int64_t code = node_int(n, "dtype", dtype_info[otherwise].onnx);
	DType t = code > 0 && code < 1000 ? dtype_by_onnx((int)code) : DT_NONE;

	if (t == DT_NONE)
		infer_error(in, n, "attribute \"dtype\" is %lld, which is no element type",
			    (long long)code);
	return t;
}

static bool random_result(Infer *in, Node *n, DType otherwise, int rank, Dim *const *dims)
{
	DType t = random_type(in, n, otherwise);

	if (t == DT_NONE)
		return false;
	if (!dtype_is_float(t))
		return infer_error(in, n, "elements of type %s are not supported",
				   dtype_info[t].name);
	add_key(in, n);
	infer_result(in, n, 0, t, rank, dims);
	return true;
}

static bool infer_random(Infer *in, Node *n)
{
	Dim *dims[MAX_RANK];
	int rank;
	const int64_t *shape = node_ints(n, "shape", &rank);

	if (rank < 0 || rank > MAX_RANK)
		return infer_error(in, n,
				   "attribute \"shape\" is missing or has more than %d entries",
				   MAX_RANK);
	for (int d = 0; d < rank; d++) {
		if (shape[d] < 0)
			return infer_error(in, n, "attribute \"shape\" holds %lld",
					   (long long)shape[d]);
		dims[d] = dim_const(infer_ctx(in), shape[d]);
	}
	return random_result(in, n, DT_F32, rank, dims);
}

static bool infer_random_like(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);

	return random_result(in, n, x->dtype, x->rank, x->dims);
}

static Expr *float_attr(Kernel *k, const Node *n, CType t, const char *name, float otherwise)
{
	return ex_num(k->pool, t, (double)node_float(n, name, otherwise));
}

static void lower_uniform(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	CType t = dtype_ctype(out->dtype);
	Expr *c[WORDS];
	Iter *it[MAX_RANK];

	(void)in;
	kernel_iters_of(k, out, it);
	random_words(k, n, out, it, c);
	kernel_map_id(k, it, out,
		      BUILD_EXPR(k, t, "add(low, mul(u, sub(high, low)))", {"u", unit(k, t, c, 0)},
				 {"low", float_attr(k, n, t, "low", 0)},
				 {"high", float_attr(k, n, t, "high", 1)}));
}

/* Box and Muller's transform. The number under the logarithm is in (0, 1]. */
static void lower_normal(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	CType t = dtype_ctype(out->dtype);
	Expr *c[WORDS], *u;
	Iter *it[MAX_RANK];

	(void)in;
	kernel_iters_of(k, out, it);
	random_words(k, n, out, it, c);
	if (t == CT_F64)
		u = BUILD_EXPR(k, t, "sub(1, u)", {"u", unit(k, t, c, 0)});
	else
		u = BUILD_EXPR(k, t, "add(mul(f32(a), 0x1p-32), 0x1p-33)", {"a", c[0]});
	u = BUILD_EXPR(k, t, "mul(sqrt(mul(-2, log(u))), cos(mul(6.283185307179586, v)))", {"u", u},
		       {"v", unit(k, t, c, 2)});
	kernel_map_id(k, it, out,
		      BUILD_EXPR(k, t, "add(mean, mul(scale, z))", {"z", u},
				 {"mean", float_attr(k, n, t, "mean", 0)},
				 {"scale", float_attr(k, n, t, "scale", 1)}));
}

const Op op_RandomUniform = {.infer = infer_random, .lower = lower_uniform};
const Op op_RandomUniformLike = {.infer = infer_random_like, .lower = lower_uniform};
const Op op_RandomNormal = {.infer = infer_random, .lower = lower_normal};
const Op op_RandomNormalLike = {.infer = infer_random_like, .lower = lower_normal};

/* ---- Bernoulli ---- */

static bool infer_bernoulli(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	DType t = random_type(in, n, x->dtype);

	if (t == DT_NONE)
		return false;
	if (!dtype_is_float(x->dtype) || t == DT_STR)
		return infer_error(in, n, "elements of type %s are not supported",
				   dtype_info[dtype_is_float(x->dtype) ? t : x->dtype].name);
	add_key(in, n);
	infer_result(in, n, 0, t, x->rank, x->dims);
	return true;
}

/* 1 with the probability that the operand has, else 0. */
static void lower_bernoulli(Infer *in, Node *n, Kernel *k)
{
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0);
	CType t = dtype_ctype(x->dtype), to = dtype_ctype(out->dtype);
	Expr *c[WORDS], *e;
	Iter *it[MAX_RANK];

	(void)in;
	kernel_iters_of(k, out, it);
	random_words(k, n, out, it, c);
	e = ex_op2(p, IN_lt, unit(k, t, c, 0), kernel_load_iters(k, x, it));
	kernel_map_id(k, it, out, ex_op3(p, IN_select, e, ex_num(p, to, 1), ex_num(p, to, 0)));
}

const Op op_Bernoulli = {.infer = infer_bernoulli, .lower = lower_bernoulli};

/* ---- Multinomial ---- */

/* Uniform numbers of the type REAL and the shape DIMS, with N's key. */
static Value *uniform(Infer *in, Node *n, DType real, Dim *const *dims, int rank)
{
	Value *like = EXPAND(in, n, Expand, expand_scalar(in, n, real, 0),
			     expand_sizes(in, n, dims, rank)),
	      *args[] = {like};
	Node *m = node_new(infer_graph(in), OP_RandomUniformLike, args, 1, 1, n);

	node_locs_from(m, n);
	same_seed(n, m);
	return infer_node(in, m) ? m->out[0] : NULL;
}

/* The class at which the running sum of the probabilities exceeds a uniform number: as many classes
 * as have a sum that does not. */
static bool expand_multinomial(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	DType t = random_type(in, n, DT_I32), real = acc_dtype(x->dtype);
	int64_t samples = node_int(n, "sample_size", 1), two = 2, one = 1;
	Ctx *c = infer_ctx(in);
	Dim *dims[2], *last[2];
	Value *p, *total, *u, *axis;

	if (t == DT_NONE)
		return false;
	if (!dtype_is_float(x->dtype) || x->rank != 2)
		return infer_error(in, n, "the operand is %s of rank %d; expected floats of rank 2",
				   dtype_info[x->dtype].name, x->rank);
	if (!dtype_is_int(t) || samples < 1)
		return infer_error(in, n, "%lld samples of type %s", (long long)samples,
				   dtype_info[t].name);
	if (!infer_le(in, n, dim_const(c, 1), x->dims[1], "there are no classes"))
		return false;
	dims[0] = x->dims[0];
	dims[1] = dim_const(c, samples);
	add_key(in, n);
	if (!(u = uniform(in, n, real, dims, 2)))
		return false;
	p = EXPAND(in, n, Softmax, expand_cast(in, n, node_in(n, 0), real));
	p = EXPAND(in, n, CumSum, p, expand_scalar(in, n, DT_I64, 1));
	last[0] = dim_sub(c, x->dims[1], dim_const(c, 1));
	last[1] = x->dims[1];
	axis = expand_ints(in, n, &one, 1);
	total = EXPAND(in, n, Slice, p, expand_sizes(in, n, &last[0], 1),
		       expand_sizes(in, n, &last[1], 1), axis);
	u = EXPAND(in, n, Unsqueeze, EXPAND(in, n, Mul, u, total), expand_ints(in, n, &two, 1));
	p = EXPAND(in, n, LessOrEqual, EXPAND(in, n, Unsqueeze, p, axis), u);
	p = expand_node_ints(
		in, n, OP_ReduceSum,
		(Value *[]){expand_cast(in, n, p, DT_I64), expand_ints(in, n, &two, 1)}, 2,
		"keepdims", 0);
	p = EXPAND(in, n, Min, p, expand_size(in, n, last[0]));
	out[0] = p->type ? expand_cast(in, n, p, t) : p;
	return out[0]->type != NULL;
}

const Op op_Multinomial = {.expand = expand_multinomial};
