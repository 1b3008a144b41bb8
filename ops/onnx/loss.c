/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Losses of classifiers, as composites. For scores x[n,c,d...], classes target[n,d...] and weights
 * w[c], which are 1 if they are omitted, and 0 where target is ignore_index:
 *
 *     loss[n,d...] = -w[target[n,d...]] * x[n, target[n,d...], d...]
 *
 * The mean is the sum of the losses over the sum of their weights.
 */
#include "ops/infer/build.h"

enum { X, TARGET, WEIGHT };

typedef struct Loss {
	DType real;
	Value *x;       /* of the type REAL */
	Value *ignored; /* bool; null: no class is ignored */
	Value *target;  /* 0 where ignored */
} Loss;

static bool loss_operands(Infer *in, Node *n, Loss *l)
{
	const Type *x = infer_type(n, X), *t = infer_type(n, TARGET);
	const char *how = node_str(n, "reduction", "mean");

	if (!dtype_is_int(t->dtype))
		return infer_error(in, n, "the target is %s, not integers",
				   dtype_info[t->dtype].name);
	if (x->rank < 2 || t->rank != x->rank - 1)
		return infer_error(in, n, "the scores have rank %d and the target %d", x->rank,
				   t->rank);
	if (infer_type(n, WEIGHT) && infer_type(n, WEIGHT)->rank != 1)
		return infer_error(in, n, "the weights have rank %d, not 1",
				   infer_type(n, WEIGHT)->rank);
	if (strcmp(how, "none") && strcmp(how, "sum") && strcmp(how, "mean"))
		return infer_error(in, n, "reduction is \"%s\", expected none, sum or mean", how);
	for (int i = 0; i < t->rank; i++)
		if (!infer_equal_dims(in, n, &t->dims[i], &x->dims[i ? i + 1 : 0],
				      "the scores and the target have different shapes"))
			return false;
	*l = (Loss){.real = acc_dtype(x->dtype), .target = node_in(n, TARGET)};
	l->x = expand_cast(in, n, node_in(n, X), l->real);
	if (node_attr(n, "ignore_index")) {
		Value *v = expand_scalar(in, n, t->dtype, (double)node_int(n, "ignore_index", 0));

		l->ignored = EXPAND(in, n, Equal, l->target, v);
		v = expand_scalar(in, n, t->dtype, 0);
		l->target = EXPAND(in, n, Where, l->ignored, v, l->target);
	}
	return true;
}

/* The weight of each element of the target; null if all are 1. */
static Value *element_weights(Infer *in, Node *n, const Loss *l)
{
	Value *w = NULL, *zero = expand_scalar(in, n, l->real, 0);

	if (node_in(n, WEIGHT)) {
		w = expand_cast(in, n, node_in(n, WEIGHT), l->real);
		w = EXPAND(in, n, Gather, w, l->target);
	}
	if (l->ignored)
		w = EXPAND(in, n, Where, l->ignored, zero,
			   w ? w : expand_scalar(in, n, l->real, 1));
	return w;
}

static Value *sum_all(Infer *in, Node *n, Value *v)
{
	return expand_node_ints(in, n, OP_ReduceSum, &v, 1, "keepdims", 0);
}

/* The loss of the logarithms of probabilities X, in X's type. */
static Value *likelihood_loss(Infer *in, Node *n, const Loss *l, Value *x)
{
	const char *how = node_str(n, "reduction", "mean");
	int64_t axis = 1;
	Value *axes = expand_ints(in, n, &axis, 1), *v, *w = element_weights(in, n, l);

	v = EXPAND(in, n, Unsqueeze, l->target, axes);
	v = expand_node_ints(in, n, OP_GatherElements, (Value *[]){x, v}, 2, "axis", 1);
	v = EXPAND(in, n, Neg, EXPAND(in, n, Squeeze, v, axes));
	/* a score that is infinite must not make NaN of the weight 0 */
	if (l->ignored)
		v = EXPAND(in, n, Where, l->ignored, expand_scalar(in, n, l->real, 0), v);
	if (w)
		v = EXPAND(in, n, Mul, v, w);
	if (!strcmp(how, "sum"))
		return sum_all(in, n, v);
	if (!strcmp(how, "mean"))
		return w ? EXPAND(in, n, Div, sum_all(in, n, v), sum_all(in, n, w))
			 : expand_node_ints(in, n, OP_ReduceMean, &v, 1, "keepdims", 0);
	return v;
}

static bool expand_likelihood(Infer *in, Node *n, Value **out)
{
	Loss l;

	return loss_operands(in, n, &l) &&
	       expand_result(in, n, X, likelihood_loss(in, n, &l, l.x), &out[0]);
}

static bool expand_cross_entropy(Infer *in, Node *n, Value **out)
{
	Value *p;
	Loss l;

	if (!loss_operands(in, n, &l))
		return false;
	p = expand_node_ints(in, n, OP_LogSoftmax, &l.x, 1, "axis", 1);
	if (node_out(n, 1) && !expand_result(in, n, X, p, &out[1]))
		return false;
	return expand_result(in, n, X, likelihood_loss(in, n, &l, p), &out[0]);
}

const Op op_NegativeLogLikelihoodLoss = {
	.types = "f", .expand = expand_likelihood,
	.attrs = "ignore_index: int, reduction: string",
};
const Op op_SoftmaxCrossEntropyLoss = {
	.types = "f", .expand = expand_cross_entropy,
	.attrs = "ignore_index: int, reduction: string",
};
