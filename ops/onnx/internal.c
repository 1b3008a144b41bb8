/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators of the graph IR itself, which passes make; no model file names them.
 *
 * View   the operand's elements in the same order with the result's type. It replaces Reshape and
 *        similar operators once their shape operand has become dims; only its type matters.
 * Copy   the operand on the other side: from the GPU's memory to the host's, or back
 *        (passes/kernel/place.c).
 * Dims   a vector (with `scalar`, a scalar) of integers that are dims. Attribute `value` is a type:
 * its element type is the result's, its dims are the result's elements. Row    one index along the
 * operand's first axis. Attribute `at` is a type whose only dim is that index, which is known to be
 * in range: the number of a loop's iteration.
 */
#include "ir/graph/blocks.h"
#include "ops/infer/build.h"
#include "ops/infer/infer.h"
#include "ops/onnx/shape.h"

static bool infer_view(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *t = n->out[0]->type;
	Ctx *c = infer_ctx(in);

	if (!t || t->kind != TYPE_TENSOR || t->rank < 0 || t->layout)
		return infer_error(in, n, "the result has no plain type");
	if (t->dtype != x->dtype)
		return infer_error(in, n,
				   "the result's element type is another than the operand's");
	return infer_equal(in, n, dims_product(c, x->dims, x->rank),
			   dims_product(c, t->dims, t->rank),
			   "the operand's elements do not fill the result");
}

const Op op_View = {.infer = infer_view, .lower = lower_view};

static bool infer_copy(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);

	return infer_result(in, n, 0, x->dtype, x->rank, x->dims);
}

const Op op_Copy = {.infer = infer_copy};

static const Type *dims_value(const Node *n)
{
	const Attr *a = node_attr(n, "value");

	return a && a->kind == ATTR_TYPE ? a->type : NULL;
}

static bool infer_dims(Infer *in, Node *n)
{
	const Type *t = dims_value(n);
	bool scalar = node_int(n, "scalar", 0) != 0;
	Dim *d;

	if (!t || t->kind != TYPE_TENSOR || t->rank < 0 ||
	    (!dtype_is_int(t->dtype) && t->dtype != DT_BOOL))
		return infer_error(in, n, "has no value");
	if (scalar && t->rank != 1)
		return infer_error(in, n, "a scalar of %d elements", t->rank);
	d = dim_const(infer_ctx(in), t->rank);
	return infer_result(in, n, 0, t->dtype, scalar ? 0 : 1, &d);
}

static void lower_dims(Infer *in, Node *n, Kernel *k)
{
	const Type *t = dims_value(n);
	Buf *out = lower_out(k, 0);
	Iter *it[1];
	Expr *e = NULL;

	(void)in;
	kernel_iters_of(k, out, it);
	for (int i = t->rank - 1; i >= 0; i--)
		e = !e ? at_dim(k, t->dims[i])
		       : ex_op3(k->pool, IN_select,
				ex_op2(k->pool, IN_eq, at_iter(k, it[0]), at_int(k, i)),
				at_dim(k, t->dims[i]), e);
	kernel_map_id(k, it, out, ex_cvt(k->pool, dtype_ctype(out->dtype), e ? e : at_int(k, 0)));
}

const Op op_Dims = {.infer = infer_dims, .lower = lower_dims};

static bool infer_row(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);

	if (!control_dim(n, "at") || x->rank < 1)
		return infer_error(in, n, "has no index, or the operand no axis");
	return infer_result(in, n, 0, x->dtype, x->rank - 1, x->dims + 1);
}

static void lower_row(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Expr *idx[MAX_RANK + 1];
	Point p = {0};

	(void)in;
	idx[0] = at_dim(k, control_dim(n, "at"));
	point_add_dims(k, &p, out, idx + 1);
	point_map(k, &p, out, idx + 1, kernel_load(k, lower_in(k, 0), idx), NULL);
}

const Op op_Row = {.infer = infer_row, .lower = lower_row};

Value *expand_row(Infer *in, Node *n, Value *x, Dim *at)
{
	Node *r = expand_start(in, n, OP_Row, &x, 1, 1);

	control_set_dim(r, "at", at);
	return expand_finish(in, r);
}

Value *expand_dims(Infer *in, Node *n, DType t, Dim *const *d, int count, bool scalar)
{
	Node *x = expand_start(in, n, OP_Dims, NULL, 0, 1);

	node_set_attr(x, (Attr){.name = "value",
				.kind = ATTR_TYPE,
				.type = type_tensor(in->ctx, t, count, d)});
	if (scalar)
		node_set_int(x, "scalar", 1);
	return expand_finish(in, x);
}
