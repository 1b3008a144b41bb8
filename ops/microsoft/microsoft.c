/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of the domain com.microsoft that ONNX Runtime's optimizers put in place of several
 * standard operators: activations, normalizations with a residual connection, embeddings, and
 * products with an activation. All are composites of the standard's operators. Elements smaller
 * than f32 are computed in f32 and rounded once at the end.
 */
#include "ops/infer/build.h"

/* Operand K in the type that sums of its elements are computed in; null if it is omitted. */
static Value *real_in(Infer *in, Node *n, int k)
{
	Value *v = node_in(n, k);

	return v ? expand_cast(in, n, v, acc_dtype(v->type->dtype)) : NULL;
}

static Value *add_if(Infer *in, Node *n, Value *a, Value *b)
{
	return b ? EXPAND(in, n, Add, a, b) : a;
}

/* ---- Activations ---- */

/* Gelu of X; APPROXIMATE: with tanh in place of erf. */
static Value *gelu(Infer *in, Node *n, Value *x, bool approximate)
{
	Node *m = expand_start(in, n, OP_Gelu, &x, 1, 1);

	if (approximate)
		node_set_str(m, "approximate", "tanh");
	return expand_finish(in, m);
}

static bool expand_gelu(Infer *in, Node *n, Value **out)
{
	return infer_floats(in, n, 0) &&
	       expand_result(in, n, 0, gelu(in, n, real_in(in, n, 0), false), out);
}

static bool expand_bias_gelu(Infer *in, Node *n, Value **out)
{
	const bool approximate = n->op == OP_microsoft_FastGelu;
	Value *x;

	if (!infer_floats(in, n, 0) || !contract_types(in, n))
		return false;
	x = add_if(in, n, real_in(in, n, 0), real_in(in, n, 1));
	return expand_result(in, n, 0, gelu(in, n, x, approximate), out);
}

static bool expand_quick_gelu(Infer *in, Node *n, Value **out)
{
	Value *x, *v;

	if (!infer_floats(in, n, 0))
		return false;
	x = real_in(in, n, 0);
	v = expand_scalar(in, n, x->type->dtype, (double)node_float(n, "alpha", 1.702F));
	v = EXPAND(in, n, Sigmoid, EXPAND(in, n, Mul, x, v));
	return expand_result(in, n, 0, EXPAND(in, n, Mul, x, v), out);
}

/* The first half of the last dim of x + bias, times Gelu of the second half. */
static bool expand_bias_split_gelu(Infer *in, Node *n, Value **out)
{
	int64_t size;
	Value *x, *half[2];
	int last = infer_type(n, 0)->rank - 1;

	if (!infer_floats(in, n, 0) || !contract_types(in, n))
		return false;
	if (last < 0 || !dim_is_const(infer_type(n, 0)->dims[last], &size) || size % 2)
		return infer_error(in, n, "the last dim must be a number, and even");
	x = EXPAND(in, n, Add, real_in(in, n, 0), real_in(in, n, 1));
	for (int i = 0; i < 2; i++)
		half[i] = expand_slice(in, n, x, last, i * (size / 2), (i + 1) * (size / 2), 1);
	return expand_result(in, n, 0, EXPAND(in, n, Mul, half[0], gelu(in, n, half[1], false)),
			     out);
}

const Op op_microsoft_Gelu = {.expand = expand_gelu, .types = "f"};
const Op op_microsoft_FastGelu = {.expand = expand_bias_gelu, .types = "f"};
const Op op_microsoft_BiasGelu = {.expand = expand_bias_gelu, .types = "f"};
const Op op_microsoft_QuickGelu = {
	.expand = expand_quick_gelu, .types = "f",
	.attrs = "alpha: float",
};
const Op op_microsoft_BiasSplitGelu = {.expand = expand_bias_split_gelu, .types = "f"};

/* ---- Normalizations ---- */

static bool float_tensors(Infer *in, Node *n)
{
	for (int k = 0; k < n->nin; k++)
		if (node_in(n, k) && !infer_floats(in, n, k))
			return false;
	return true;
}

/* Further results of a normalisation. */
typedef struct Moments {
	Value *mean;    /* null: not subtracted */
	Value *inverse; /* 1 / sqrt(variance + epsilon) */
} Moments;

/* (x - mean) / sqrt(variance + epsilon) * GAMMA + BETA over AXES or, if MEAN is false,
 * x / sqrt(mean of squares + epsilon) * GAMMA. */
static Value *normalised(Infer *in, Node *n, Value *x, const int64_t *axes, int naxes, bool mean,
			 Value *gamma, Value *beta, Moments *m)
{
	Value *list = expand_ints(in, n, axes, naxes), *v;
	float usual = n->op == OP_SimplifiedLayerNormalization ? 1e-5F : 1e-12F;
	double epsilon = (double)node_float(n, "epsilon", usual);

	*m = (Moments){0};
	if (mean) {
		m->mean = EXPAND(in, n, ReduceMean, x, list);
		x = EXPAND(in, n, Sub, x, m->mean);
	}
	v = EXPAND(in, n, ReduceMean, EXPAND(in, n, Mul, x, x), list);
	v = EXPAND(in, n, Add, v, expand_scalar(in, n, x->type->dtype, epsilon));
	m->inverse = EXPAND(in, n, Reciprocal, EXPAND(in, n, Sqrt, v));
	return add_if(in, n, EXPAND(in, n, Mul, EXPAND(in, n, Mul, x, m->inverse), gamma), beta);
}

static bool last_dim_fits(Infer *in, Node *n, int k)
{
	const Type *x = infer_type(n, 0), *t = infer_type(n, k);

	if (!t)
		return true;
	if (t->rank != 1)
		return infer_error(in, n, "operand %d has rank %d, expected 1", k + 1, t->rank);
	return infer_equal_dims(in, n, &t->dims[0], &x->dims[x->rank - 1],
				"an operand does not fit the last dim");
}

/* The sum of input, skip and bias, normalised over the last axis. The skip may lack the batch. The
 * moments are f32 for every operand; where no mean is subtracted, it is 0, as ONNX Runtime has
 * it. */
static bool expand_skip_norm(Infer *in, Node *n, Value **out)
{
	static const int64_t last = -1;
	const bool mean = n->op == OP_microsoft_SkipLayerNormalization;
	const int bias = mean ? 4 : 3;
	const Type *x = infer_type(n, 0), *s = infer_type(n, 1);
	Value *sum, *y;
	Moments m;

	if (!float_tensors(in, n) || !contract_types(in, n))
		return false;
	if (x->rank < 2 || s->rank > x->rank)
		return infer_error(in, n, "the operands have ranks %d and %d", x->rank, s->rank);
	for (int k = 2; k < n->nin; k++)
		if (!last_dim_fits(in, n, k))
			return false;
	sum = add_if(in, n, real_in(in, n, 0), real_in(in, n, bias));
	sum = EXPAND(in, n, Add, sum, real_in(in, n, 1));
	if (!infer_same_shape(in, n, x, sum->type, "the skip has more elements than the input"))
		return false;
	y = normalised(in, n, sum, &last, 1, mean, real_in(in, n, 2),
		       mean ? real_in(in, n, 3) : NULL, &m);
	if (node_out(n, 1) && m.mean)
		out[1] = expand_cast(in, n, m.mean, DT_F32);
	else if (node_out(n, 1))
		out[1] = EXPAND(in, n, Expand, expand_scalar(in, n, DT_F32, 0),
				expand_sizes(in, n, m.inverse->type->dims, x->rank));
	if (node_out(n, 2))
		out[2] = expand_cast(in, n, m.inverse, DT_F32);
	if (node_out(n, 3))
		out[3] = expand_cast(in, n, sum, x->dtype);
	return expand_result(in, n, 0, y, out);
}

/* RMSNormalization, with the inverse of the root as a result, which is f32 as ONNX Runtime has
 * it for every operand. */
static bool expand_simplified_norm(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	int64_t axes[MAX_RANK];
	int axis;
	Value *y;
	Moments m;

	if (!float_tensors(in, n) || !infer_axis(in, n, node_int(n, "axis", -1), x->rank, &axis))
		return false;
	if (node_int(n, "stash_type", 1) != 1)
		return infer_error(in, n, "attribute \"stash_type\" is %lld, and only 1, f32, is supported",
				   (long long)node_int(n, "stash_type", 1));
	for (int d = axis; d < x->rank; d++)
		axes[d - axis] = d;
	y = normalised(in, n, real_in(in, n, 0), axes, x->rank - axis, false,
		       expand_cast(in, n, node_in(n, 1), acc_dtype(x->dtype)), NULL, &m);
	if (node_out(n, 1))
		out[1] = expand_cast(in, n, m.inverse, DT_F32);
	return expand_result(in, n, 1, y, out);
}

const Op op_SimplifiedLayerNormalization = {
	.expand = expand_simplified_norm, .types = "f",
	.attrs = "axis: int, epsilon: float, stash_type: int",
};
const Op op_microsoft_SkipLayerNormalization = {
	.expand = expand_skip_norm,
	.types = "f",
	.attrs = "epsilon: float",
};
const Op op_microsoft_SkipSimplifiedLayerNormalization = {
	.expand = expand_skip_norm,
	.types = "f",
	.attrs = "epsilon: float",
};

/* ---- EmbedLayerNormalization ---- */

enum { IDS, SEGMENTS, WORD, POSITION, SEGMENT, GAMMA, BETA, MASK, POSITION_IDS };

static const int embed_rank[] = {2, 2, 2, 2, 2, 1, 1, 2, 2};

/* How many entries of each row of the mask are 1; 0 without a mask. */
static Value *mask_index(Infer *in, Node *n)
{
	const int64_t last = 1;
	Value *v = node_in(n, MASK);

	if (!v)
		return EXPAND(in, n, Expand, expand_scalar(in, n, DT_I32, 0),
			      expand_sizes(in, n, infer_type(n, IDS)->dims, 1));
	v = EXPAND(in, n, Equal, v, expand_scalar(in, n, v->type->dtype, 1));
	return expand_reduce(in, n, OP_ReduceSum, expand_cast(in, n, v, DT_I32), last, false);
}

/* The attribute mask_index_type has no effect: it tells ONNX Runtime's inference whether there
 * is a second result. */
static bool expand_embed(Infer *in, Node *n, Value **out)
{
	static const int64_t last = -1;
	const Type *ids = infer_type(n, IDS);
	Value *v, *y;
	Moments m;

	for (int k = WORD; k <= BETA; k++)
		if (k != SEGMENT && !node_in(n, k))
			return infer_error(in, n, "operand %d is missing", k + 1);
	for (int k = 0; k < n->nin; k++)
		if (node_in(n, k) && infer_type(n, k)->rank != embed_rank[k])
			return infer_error(in, n, "operand %d has rank %d, expected %d", k + 1,
					   infer_type(n, k)->rank, embed_rank[k]);
	for (int k = WORD; k <= BETA; k++)
		if (node_in(n, k) && !infer_floats(in, n, k))
			return false;
	if (!node_in(n, SEGMENTS) != !node_in(n, SEGMENT))
		return infer_error(in, n, "only one of segment_ids and segment_embedding is given");
	v = EXPAND(in, n, Gather, real_in(in, n, WORD), node_in(n, IDS));
	y = node_in(n, POSITION_IDS) ? node_in(n, POSITION_IDS) : expand_range(in, n, ids->dims[1]);
	v = EXPAND(in, n, Add, v, EXPAND(in, n, Gather, real_in(in, n, POSITION), y));
	if (node_in(n, SEGMENT))
		v = EXPAND(in, n, Add, v,
			   EXPAND(in, n, Gather, real_in(in, n, SEGMENT), node_in(n, SEGMENTS)));
	y = normalised(in, n, v, &last, 1, true, real_in(in, n, GAMMA), real_in(in, n, BETA), &m);
	if (node_out(n, 1))
		out[1] = mask_index(in, n);
	if (node_out(n, 2))
		out[2] = expand_cast(in, n, v, infer_type(n, WORD)->dtype);
	return expand_result(in, n, WORD, y, out);
}

const Op op_microsoft_EmbedLayerNormalization = {
	.expand = expand_embed, .types = "i",
	.attrs = "epsilon: float, mask_index_type: int",
};

/* ---- Products with a scale or an activation ---- */

/* An activation that a product may end with. Its parameters are these attributes of the
 * standard's operator, and no default stands for one. */
static const struct {
	const char *name;
	OpKind op;
	const char *attrs[2];
} activations[] = {
	{"Relu", OP_Relu, {NULL}},
	{"Tanh", OP_Tanh, {NULL}},
	{"Sigmoid", OP_Sigmoid, {NULL}},
	{"Softplus", OP_Softplus, {NULL}},
	{"Softsign", OP_Softsign, {NULL}},
	{"HardSwish", OP_HardSwish, {NULL}},
	{"LeakyRelu", OP_LeakyRelu, {"alpha"}},
	{"ThresholdedRelu", OP_ThresholdedRelu, {"alpha"}},
	{"Elu", OP_Elu, {"alpha"}},
	{"Celu", OP_Celu, {"alpha"}},
	{"HardSigmoid", OP_HardSigmoid, {"alpha", "beta"}},
	{"ScaledTanh", OP_ScaledTanh, {"alpha", "beta"}},
	{"ParametricSoftplus", OP_ParametricSoftplus, {"alpha", "beta"}},
	{"Selu", OP_Selu, {"alpha", "gamma"}},
};

/* Sets *OUT to parameter K of the activation, of COUNT parameters: an entry of FusedConv's list,
 * which has all of them, or attribute NAME of FusedGemm. */
static bool parameter(Infer *in, Node *n, int k, int count, const char *name, float *out)
{
	const char *activation = node_str(n, "activation", ""), *attr;
	const float *list;
	int given;

	if (n->op == OP_microsoft_FusedGemm) {
		attr = arena_printf(infer_arena(in), "activation_%s", name);
		*out = node_float(n, attr, 0);
		return node_attr(n, attr) ||
		       infer_error(in, n, "the activation \"%s\" needs attribute \"%s\"",
				   activation, attr);
	}
	list = node_floats(n, "activation_params", &given);
	if (given != count)
		return infer_error(in, n, "the activation \"%s\" has %d parameters, expected %d",
				   activation, given < 0 ? 0 : given, count);
	*out = list[k];
	return true;
}

/* X after the activation that attribute "activation" names; null after a diagnostic. Clip, between
 * the parameters, is one of FusedConv only. */
static Value *activated(Infer *in, Node *n, Value *x)
{
	const char *name = node_str(n, "activation", "");
	const DType t = x->type->dtype;
	float v[2];
	Node *m;

	if (!*name)
		return x;
	if (!strcmp(name, "Clip") && n->op == OP_microsoft_FusedConv) {
		if (!parameter(in, n, 0, 2, "", &v[0]) || !parameter(in, n, 1, 2, "", &v[1]))
			return NULL;
		return EXPAND(in, n, Clip, x, expand_scalar(in, n, t, (double)v[0]),
			      expand_scalar(in, n, t, (double)v[1]));
	}
	for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
		const char *const *attrs = activations[i].attrs;
		const int count = !attrs[0] ? 0 : !attrs[1] ? 1 : 2;

		if (strcmp(activations[i].name, name))
			continue;
		for (int k = 0; k < count; k++)
			if (!parameter(in, n, k, count, attrs[k], &v[k]))
				return NULL;
		m = expand_start(in, n, activations[i].op, &x, 1, 1);
		for (int k = 0; k < count; k++)
			node_set_float(m, attrs[k], v[k]);
		return expand_finish(in, m);
	}
	infer_error(in, n, "the activation \"%s\" is not supported", name);
	return NULL;
}

/* activation(Conv(x, w, bias) + z) */
static bool expand_fused_conv(Infer *in, Node *n, Value **out)
{
	Value *v = expand_node_like(in, n, OP_Conv,
				    (Value *[]){node_in(n, 0), node_in(n, 1), node_in(n, 2)}, 3);

	out[0] = activated(in, n, add_if(in, n, v, node_in(n, 3)));
	return out[0] != NULL;
}

static bool expand_fused_gemm(Infer *in, Node *n, Value **out)
{
	Value *v = expand_node_like(in, n, OP_Gemm,
				    (Value *[]){node_in(n, 0), node_in(n, 1), node_in(n, 2)}, 3);

	out[0] = activated(in, n, v);
	return out[0] != NULL;
}

/* Operand K, [m, batch ..., k] as [batch ..., m, k] if BATCH, then with its last two dims
 * exchanged if LAST. */
static Value *factor(Infer *in, Node *n, int k, bool batch, bool last)
{
	int64_t perm[MAX_RANK], swap;
	int rank = infer_type(n, k)->rank;

	if (rank < 2 || (!batch && !last))
		return node_in(n, k);
	for (int d = 0; d < rank; d++)
		perm[d] = !batch || d == rank - 1 ? d : d == rank - 2 ? 0 : d + 1;
	if (last) {
		swap = perm[rank - 1];
		perm[rank - 1] = perm[rank - 2];
		perm[rank - 2] = swap;
	}
	return expand_transpose(in, n, node_in(n, k), perm, rank);
}

/* A * B times the attribute alpha. */
static Value *scaled_product(Infer *in, Node *n, Value *a, Value *b)
{
	double alpha = (double)node_float(n, "alpha", 1);
	Value *v = EXPAND(in, n, MatMul, a, b);

	return alpha == 1 ? v : EXPAND(in, n, Mul, v, expand_scalar(in, n, v->type->dtype, alpha));
}

static bool expand_fused_matmul(Infer *in, Node *n, Value **out)
{
	Value *a, *b;

	if (!float_tensors(in, n) || !contract_types(in, n))
		return false;
	a = factor(in, n, 0, node_int(n, "transBatchA", 0) != 0, node_int(n, "transA", 0) != 0);
	b = factor(in, n, 1, node_int(n, "transBatchB", 0) != 0, node_int(n, "transB", 0) != 0);
	*out = scaled_product(in, n, a, b);
	return true;
}

/* For types other than f32 alpha has no effect, as in ONNX Runtime. */
static bool expand_sparse_matmul(Infer *in, Node *n, Value **out)
{
	Value *a, *b;

	for (int k = 0; k < 2; k++)
		if (infer_type(n, k)->rank != 2)
			return infer_error(in, n, "operand %d has rank %d, expected 2", k + 1,
					   infer_type(n, k)->rank);
	if (!contract_types(in, n))
		return false;
	a = factor(in, n, 0, false, node_int(n, "transA", 0) != 0);
	b = factor(in, n, 1, false, node_int(n, "transB", 0) != 0);
	*out = infer_type(n, 0)->dtype == DT_F32 ? scaled_product(in, n, a, b)
						 : EXPAND(in, n, MatMul, a, b);
	return true;
}

const Op op_microsoft_FusedConv = {
	.expand = expand_fused_conv, .types = "f",
	.attrs = "activation: string, activation_params: floats, auto_pad: string, "
		 "dilations: ints, group: int, kernel_shape: ints, pads: ints, strides: ints",
};
const Op op_microsoft_FusedGemm = {
	.expand = expand_fused_gemm, .types = "f",
	.attrs = "activation: string, activation_alpha: float, activation_beta: float, "
		 "activation_gamma: float, alpha: float, beta: float, transA: int, transB: int",
};
const Op op_microsoft_FusedMatMul = {
	.expand = expand_fused_matmul, .types = "f",
	.attrs = "alpha: float, transA: int, transB: int, transBatchA: int, transBatchB: int",
};
const Op op_microsoft_SparseToDenseMatMul = {
	.expand = expand_sparse_matmul,
	.doc = "a sparse operand that is not constant is passed dense",
	.attrs = "alpha: float, transA: int, transB: int",
};
