/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers: RandomUniform, RandomNormal and their Like forms, Bernoulli and Multinomial. They
 * are composites of the operator Random.
 *
 * The generator is Philox4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy
 * as 1, 2, 3", SC 2011): a function of a counter, which is the element's row-major index and, in a
 * loop, the number of the iteration, and of a key, which is derived from the seed. So an element is
 * the same on every processor, for any number of threads and in every run. docs/numerics.md has the
 * key and how words become numbers.
 *
 * A node without a seed gets a warning, and the hash of its result's name as key.
 */
#include "ops/infer/build.h"
#include "ops/infer/infer.h"
#include "ops/onnx/shape.h"

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

/* A number in [0, 1): 24 bits of word I as f32, or 53 bits of it and the next one as f64. */
static Expr *unit(Kernel *k, CType t, Expr *const *c, int i)
{
	if (t == CT_F64)
		return BUILD_EXPR(k, t, "mul(f64(shr(or(shl(u64(a), 32), u64(b)), 11)), 0x1p-53)",
				  {"a", c[i]}, {"b", c[i + 1]});
	return BUILD_EXPR(k, t, "mul(f32(shr(a, 8)), 0x1p-24)", {"a", c[i]});
}

/* A number of the standard normal distribution, by Box and Muller's transform. The number under the
 * logarithm is in (0, 1]. */
static Expr *gaussian(Kernel *k, CType t, Expr *const *c)
{
	Expr *u;

	if (t == CT_F64)
		u = BUILD_EXPR(k, t, "sub(1, u)", {"u", unit(k, t, c, 0)});
	else
		u = BUILD_EXPR(k, t, "add(mul(f32(a), 0x1p-32), 0x1p-33)", {"a", c[0]});
	return BUILD_EXPR(k, t, "mul(sqrt(mul(-2, log(u))), cos(mul(6.283185307179586, v)))",
			  {"u", u}, {"v", unit(k, t, c, 2)});
}

/* ---- Random: the operator that the others expand to ---- */

static bool infer_numbers(Infer *in, Node *n)
{
	const Attr *a = node_attr(n, "value");
	const Type *t = a && a->kind == ATTR_TYPE ? a->type : NULL;

	if (!t || t->kind != TYPE_TENSOR || t->rank < 0 || !dtype_is_float(t->dtype))
		return infer_error(in, n, "has no value");
	return infer_result(in, n, 0, t->dtype, t->rank, t->dims);
}

static Expr *low_word(Kernel *k, Expr *e)
{
	return ex_cvt(k->pool, CT_U32, ex_op2(k->pool, IN_and, e, at_int(k, 0xFFFFFFFF)));
}

static Expr *high_word(Kernel *k, Expr *e)
{
	return low_word(k, ex_op2(k->pool, IN_shr, e, at_int(k, 32)));
}

static void lower_numbers(Infer *in, Node *n, Kernel *k)
{
	ExprPool *p = k->pool;
	Buf *iteration = lower_in(k, 0), *out = lower_out(k, 0);
	CType t = dtype_ctype(out->dtype);
	Expr *at = at_int(k, 0), *c[WORDS];
	float seed = node_float(n, "seed", 0);
	Iter *it[MAX_RANK];
	uint32_t key;

	(void)in;
	kernel_iters_of(k, out, it);
	for (int d = 0; d < out->rank; d++)
		at = ex_add(p, ex_mul(p, at, at_dim(k, out->dims[d])), at_iter(k, it[d]));
	c[0] = low_word(k, at);
	c[1] = high_word(k, at);
	at = iteration ? kernel_load(k, iteration, NULL) : at_int(k, 0);
	c[2] = low_word(k, at);
	c[3] = high_word(k, at);
	memcpy(&key, &seed, sizeof key);
	philox(k, c, key, (uint32_t)node_int(n, stream_attr, 0));
	at = node_int(n, "normal", 0) ? gaussian(k, t, c) : unit(k, t, c, 0);
	kernel_map_id(k, it, out, at);
}

const Op op_Random = {.infer = infer_numbers, .lower = lower_numbers};

/* ---- Seeds ---- */

static int64_t hash_name(const char *s)
{
	uint32_t h = 2166136261U; /* FNV-1a */

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 16777619U;
	return h;
}

static void warn_seedless(Infer *in, Node *n)
{
	if (!in->seedless)
		diag_warning(in->ctx->diag, node_diag(n), "seed",
			     "there is no seed; every run has the same random numbers");
	in->seedless = true;
}

Value *random_numbers(Infer *in, Node *n, DType t, int rank, Dim *const *dims, bool normal)
{
	Value *iteration = in->iteration ? expand_size(in, n, in->iteration) : NULL;
	Node *m = expand_start(in, n, OP_Random, &iteration, 1, 1);
	const Attr *seed = node_attr(n, "seed");
	Attr value = {.name = ctx_name(in->ctx, "value"),
		      .kind = ATTR_TYPE,
		      .type = type_tensor(in->ctx, t, rank, dims)};

	node_set_attr(m, value);
	if (normal)
		node_set_int(m, "normal", 1);
	if (seed) { /* Dropout's is an integer */
		node_set_float(m, "seed",
			       seed->kind == ATTR_INT ? (float)seed->i : node_float(n, "seed", 0));
	} else {
		node_set_int(m, stream_attr, hash_name(n->out[0]->name ? n->out[0]->name : ""));
		warn_seedless(in, n);
	}
	return expand_finish(in, m);
}

/* ---- RandomUniform, RandomNormal ---- */

/* The element type that attribute dtype names; DT_NONE after a diagnostic. */
static DType random_type(Infer *in, Node *n, DType otherwise)
{
	int64_t code = node_int(n, "dtype", dtype_info[otherwise].onnx);
	DType t = code > 0 && code < 1000 ? dtype_by_onnx((int)code) : DT_NONE;

	if (t == DT_NONE || t == DT_STR) {
		infer_error(in, n, "attribute \"dtype\" is %lld, which is not a type of numbers",
			    (long long)code);
		return DT_NONE;
	}
	return t;
}

/* OFFSET + SCALE * random numbers of the shape DIMS, rounded once. */
static bool scaled(Infer *in, Node *n, DType otherwise, int rank, Dim *const *dims, bool normal,
		   Value **out)
{
	DType t = random_type(in, n, otherwise), real = acc_dtype(t);
	double offset, scale;
	Value *v;

	if (t == DT_NONE)
		return false;
	if (!dtype_is_float(t))
		return infer_error(in, n, "elements of type %s are not supported",
				   dtype_info[t].name);
	offset = (double)(normal ? node_float(n, "mean", 0) : node_float(n, "low", 0));
	scale = normal ? (double)node_float(n, "scale", 1)
		       : (double)node_float(n, "high", 1) - offset;
	v = random_numbers(in, n, real, rank, dims, normal);
	v = EXPAND(in, n, Mul, v, expand_scalar(in, n, real, scale));
	v = EXPAND(in, n, Add, v, expand_scalar(in, n, real, offset));
	out[0] = expand_cast(in, n, v, t);
	return true;
}

static bool expand_of_shape(Infer *in, Node *n, Value **out)
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
		dims[d] = dim_const(in->ctx, shape[d]);
	}
	return scaled(in, n, DT_F32, rank, dims, n->op == OP_RandomNormal, out);
}

static bool expand_like(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);

	return scaled(in, n, x->dtype, x->rank, x->dims, n->op == OP_RandomNormalLike, out);
}

const Op op_RandomUniform = {
	.expand = expand_of_shape,
	.attrs = "dtype: int, high: float, low: float, seed: float, shape: ints",
};
const Op op_RandomUniformLike = {
	.expand = expand_like,
	.types = "fiubs",
	.attrs = "dtype: int, high: float, low: float, seed: float",
};
const Op op_RandomNormal = {
	.expand = expand_of_shape,
	.attrs = "dtype: int, mean: float, scale: float, seed: float, shape: ints",
};
const Op op_RandomNormalLike = {
	.expand = expand_like,
	.types = "fiubs",
	.attrs = "dtype: int, mean: float, scale: float, seed: float",
};

/* ---- Bernoulli ---- */

/* 1 with the probability that the operand has, else 0. */
static bool expand_bernoulli(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	DType t = random_type(in, n, x->dtype), real = acc_dtype(x->dtype);
	Value *v;

	if (t == DT_NONE)
		return false;
	v = random_numbers(in, n, real, x->rank, x->dims, false);
	v = EXPAND(in, n, Less, v, expand_cast(in, n, node_in(n, 0), real));
	out[0] = expand_cast(in, n, v, t);
	return true;
}

const Op op_Bernoulli = {
	.types = "f", .expand = expand_bernoulli,
	.attrs = "dtype: int, seed: float",
};

/* ---- Multinomial ---- */

/* The class at which the running sum of the probabilities exceeds a uniform number: as many classes
 * as have a sum that does not. */
static bool expand_multinomial(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	DType t = random_type(in, n, DT_I32), real = acc_dtype(x->dtype);
	int64_t samples = node_int(n, "sample_size", 1), two = 2, one = 1;
	Ctx *c = in->ctx;
	Dim *dims[2], *last;
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
	u = random_numbers(in, n, real, 2, dims, false);
	p = EXPAND(in, n, Softmax, expand_cast(in, n, node_in(n, 0), real));
	p = EXPAND(in, n, CumSum, p, expand_scalar(in, n, DT_I64, 1));
	last = dim_sub(c, x->dims[1], dim_const(c, 1));
	axis = expand_ints(in, n, &one, 1);
	total = expand_part(in, n, p, 1, last, x->dims[1]);
	u = expand_unsqueeze(in, n, EXPAND(in, n, Mul, u, total), two);
	p = EXPAND(in, n, LessOrEqual, EXPAND(in, n, Unsqueeze, p, axis), u);
	p = expand_cast(in, n, p, DT_I64);
	p = expand_reduce(in, n, OP_ReduceSum, p, two, false);
	p = EXPAND(in, n, Min, p, expand_size(in, n, last));
	out[0] = expand_cast(in, n, p, t);
	return true;
}

const Op op_Multinomial = {
	.expand = expand_multinomial, .types = "f",
	.attrs = "dtype: int, sample_size: int, seed: float",
};
