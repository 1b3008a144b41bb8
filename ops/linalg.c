/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Det, as a composite: Gaussian elimination with partial pivoting, one step of nodes for each
 * column, on all matrices of the batch at once.
 */
#include "ops/op.h"

enum { MAX_ORDER = 32 }; /* more would make too many nodes */

/* One step on A, of ORDER rows: *DET is multiplied by the pivot, whose row is exchanged with the
 * first one, and the matrix without its first row and column is returned. */
static Value *eliminate(Infer *in, Node *n, Value *a, int64_t order, Value **det)
{
	const Type *t = a->type;
	int row_axis = t->rank - 2, col_axis = t->rank - 1;
	int64_t rows = row_axis, last = 1;
	Value *zero = expand_scalar(in, n, t->dtype, 0), *one = expand_scalar(in, n, t->dtype, 1);
	Value *axis = expand_ints(in, n, &rows, 1), *place, *at, *here, *row, *rest, *pivot,
	      *factor;

	at = EXPAND(in, n, Abs, expand_slice(in, n, a, col_axis, 0, 1, 1));
	at = expand_node_ints(in, n, OP_ArgMax, &at, 1, "axis", row_axis);
	place = expand_range(in, n, dim_const(infer_ctx(in), order));
	place = EXPAND(in, n, Unsqueeze, place, expand_ints(in, n, &last, 1));
	here = EXPAND(in, n, Equal, place, at);
	row = EXPAND(in, n, ReduceSum, EXPAND(in, n, Where, here, a, zero), axis);
	rest = EXPAND(in, n, Where, here, expand_slice(in, n, a, row_axis, 0, 1, 1), a);
	rest = expand_slice(in, n, rest, row_axis, 1, order, 1);
	pivot = expand_slice(in, n, row, col_axis, 0, 1, 1);
	at = EXPAND(in, n, Equal, at, expand_scalar(in, n, DT_I64, 0));
	at = EXPAND(in, n, Where, at, pivot, EXPAND(in, n, Neg, pivot));
	*det = *det ? EXPAND(in, n, Mul, *det, at) : at;
	/* Without a pivot the column is 0, and so is the determinant. */
	pivot = EXPAND(in, n, Where, EXPAND(in, n, Equal, pivot, zero), one, pivot);
	factor = EXPAND(in, n, Div, expand_slice(in, n, rest, col_axis, 0, 1, 1), pivot);
	row = EXPAND(in, n, Mul, factor, expand_slice(in, n, row, col_axis, 1, order, 1));
	return EXPAND(in, n, Sub, expand_slice(in, n, rest, col_axis, 1, order, 1), row);
}

static bool expand_det(Infer *in, Node *n, Value **out)
{
	const Type *t = infer_type(n, 0);
	Value *a = node_in(n, 0), *det = NULL;
	int64_t order;

	if (!dtype_is_float(t->dtype))
		return infer_error(in, n, "elements of type %s are not supported",
				   dtype_info[t->dtype].name);
	if (t->rank < 2 || !infer_equal_dims(in, n, &t->dims[t->rank - 2], &t->dims[t->rank - 1],
					     "the matrices are not square"))
		return t->rank < 2
			       ? infer_error(in, n, "the operand has rank %d, less than 2", t->rank)
			       : false;
	if (!dim_is_const(t->dims[t->rank - 1], &order) &&
	    !dim_is_const(t->dims[t->rank - 2], &order))
		return infer_error(in, n,
				   "the order of the matrices must be a number; bind it by --dim");
	if (order > MAX_ORDER)
		return infer_error(in, n, "matrices of order %lld are not supported; at most %d is",
				   (long long)order, MAX_ORDER);
	a = expand_cast(in, n, a, ctype_dtype(dtype_ctype(t->dtype)));
	for (; order > 1 && a->type; order--)
		a = eliminate(in, n, a, order, &det);
	if (!a->type)
		return false;
	if (order == 0)
		a = EXPAND(in, n, Expand, expand_scalar(in, n, a->type->dtype, 1),
			   expand_sizes(in, n, t->dims, t->rank - 2));
	else
		a = expand_reshape(in, n, det ? EXPAND(in, n, Mul, det, a) : a, t->dims,
				   t->rank - 2);
	out[0] = expand_cast(in, n, a, t->dtype);
	return out[0]->type != NULL;
}

const Op op_Det = {.expand = expand_det, .doc = "the order must be a number, at most 32"};
