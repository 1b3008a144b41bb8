/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators whose results have a size that the elements decide: NonZero and Compress. The elements
 * that are selected are counted; a prefix sum gives each its place, and those that are not selected
 * get the places after them. The count is a size that the host reads (ops/contents.c).
 */
#include "ops/shape.h"
#include "ops/sort.h"

Value *select_positions(Infer *in, Node *n, Value *mask)
{
	Ctx *c = in->ctx;
	Dim *most = mask->type->dims[0], *size;
	Value *one, *upto, *count, *at, *range, *place;
	int64_t lo, hi;
	int elements;

	one = expand_cast(in, n, mask, DT_I64);
	upto = EXPAND(in, n, CumSum, one, expand_scalar(in, n, DT_I64, 0));
	count = expand_node_ints(in, n, OP_ReduceSum, &one, 1, "keepdims", 0);
	size = infer_contents(in, n, count, &elements)[0];
	dim_bounds(c, most, &lo, &hi);
	if (dim_as_sym(size) && dim_as_sym(size)->src)
		sym_bound(c, dim_as_sym(size), 0, hi > DIM_FAR ? DIM_FAR : hi);
	range = expand_range(in, n, most);
	at = EXPAND(in, n, Where, mask, EXPAND(in, n, Sub, upto, expand_scalar(in, n, DT_I64, 1)),
		    EXPAND(in, n, Add, count, EXPAND(in, n, Sub, range, upto)));
	place = EXPAND(in, n, ScatterElements, range, at, range);
	return EXPAND(in, n, Gather, place, expand_range(in, n, size));
}

/* V as a vector. */
static Value *flat(Infer *in, Node *n, Value *v)
{
	const int64_t all = -1;

	return EXPAND(in, n, Reshape, v, expand_ints(in, n, &all, 1));
}

static bool expand_nonzero(Infer *in, Node *n, Value **out)
{
	const int64_t first = 0;
	Value *x = node_in(n, 0), *mask = x, *at, *parts[MAX_RANK];
	Ctx *c = in->ctx;
	Dim *stride = dim_const(c, 1);
	const int rank = x->type->rank;

	if (!rank)
		return infer_error(in, n, "the operand is a scalar, which is not supported");
	if (x->type->dtype != DT_BOOL)
		mask = EXPAND(in, n, Not,
			      EXPAND(in, n, Equal, x, expand_scalar(in, n, x->type->dtype, 0)));
	at = select_positions(in, n, flat(in, n, mask));
	if (!at)
		return false;
	for (int d = rank - 1; d >= 0; d--) {
		Value *v = d == rank - 1 ? at : EXPAND(in, n, Div, at, expand_size(in, n, stride));

		if (d)
			v = EXPAND(in, n, Mod, v, expand_size(in, n, x->type->dims[d]));
		parts[d] = expand_unsqueeze(in, n, v, first);
		stride = dim_mul(c, stride, x->type->dims[d]);
	}
	out[0] = rank == 1 ? parts[0] : expand_node_ints(in, n, OP_Concat, parts, rank, "axis", 0);
	return true;
}

const Op op_NonZero = {
	.expand = expand_nonzero, .doc = "scalars are not supported", .types = "fiubs"};

static bool expand_compress(Infer *in, Node *n, Value **out)
{
	const bool whole = !node_attr(n, "axis");
	Value *x = node_in(n, 0), *at;
	int axis = 0;

	if (infer_type(n, 1)->rank != 1 || infer_type(n, 1)->dtype != DT_BOOL)
		return infer_error(in, n, "the condition is no vector of bool");
	if (whole)
		x = flat(in, n, x);
	else if (!infer_axis(in, n, node_int(n, "axis", 0), x->type->rank, &axis))
		return false;
	at = select_positions(in, n, node_in(n, 1));
	if (!at)
		return false;
	out[0] = expand_node_ints(in, n, OP_Gather, (Value *[]){x, at}, 2, "axis", axis);
	return true;
}

const Op op_Compress = {.expand = expand_compress, .types = "fiubs", .attrs = "axis: int"};
