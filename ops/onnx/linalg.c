/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Det and Inverse, as composites: Gaussian elimination with partial pivoting on all matrices of the
 * batch at once. Det has one step of nodes for each column, since its matrices shrink; Inverse is a
 * loop.
 */
#include "ops/infer/control.h"

enum { MAX_ORDER = 32 }; /* more would make too many nodes */

/* One step of elimination on A, of ORDER rows: exchanges the pivot's row with the first one,
 * multiplies *DET by the pivot, and returns the matrix without its first row and column. */
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
	place = expand_unsqueeze(in, n, place, last);
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
	for (; order > 1; order--)
		a = eliminate(in, n, a, order, &det);
	if (order == 0)
		a = EXPAND(in, n, Expand, expand_scalar(in, n, a->type->dtype, 1),
			   expand_sizes(in, n, t->dims, t->rank - 2));
	else
		a = expand_reshape(in, n, det ? EXPAND(in, n, Mul, det, a) : a, t->dims,
				   t->rank - 2);
	out[0] = expand_cast(in, n, a, t->dtype);
	return true;
}

const Op op_Det = {
	.types = "f", .expand = expand_det, .doc = "the order must be a number, at most 32"};

/* ---- Inverse ---- */

/* Whether T has square matrices; *DIMS gets its dims with twice the columns. */
static bool square(Infer *in, Node *n, const Type *t, Dim **dims)
{
	Dim *order = t->rank >= 2 ? t->dims[t->rank - 1] : NULL;

	if (!dtype_is_float(t->dtype))
		return infer_error(in, n, "elements of type %s are not supported",
				   dtype_info[t->dtype].name);
	if (!order)
		return infer_error(in, n, "the operand has rank %d, less than 2", t->rank);
	for (int d = 0; d < t->rank; d++)
		dims[d] = t->dims[d];
	dims[t->rank - 1] = dim_mul(infer_ctx(in), order, dim_const(infer_ctx(in), 2));
	return infer_equal_dims(in, n, &t->dims[t->rank - 2], &t->dims[t->rank - 1],
				"the matrices are not square");
}

/* The matrices A, and beside each the identity. */
static Value *beside_identity(Infer *in, Node *n, Value *a)
{
	const Type *t = a->type;
	Dim *order = t->dims[t->rank - 1];
	Value *index = expand_range(in, n, order), *eye;
	int64_t last = 1;

	eye = EXPAND(in, n, Equal, expand_unsqueeze(in, n, index, last), index);
	eye = expand_cast(in, n, eye, t->dtype);
	eye = EXPAND(in, n, Expand, eye, expand_sizes(in, n, t->dims, t->rank));
	return expand_node_ints(in, n, OP_Concat, (Value *[]){a, eye}, 2, "axis", -1);
}

/* One iteration of Gauss and Jordan on A, whose rows are numbered by INDEX [rows, 1]: the row with
 * the largest element of column AT from row AT on is exchanged with row AT and divided by that
 * element, and is subtracted from the other rows, so that column AT becomes that of the identity.
 */
static Value *clear_column(Infer *in, Node *n, Value *a, Value *at, Value *index)
{
	const Type *t = a->type;
	int64_t rows = t->rank - 2, cols = t->rank - 1, first = 0;
	Value *zero = expand_scalar(in, n, t->dtype, 0), *axis = expand_ints(in, n, &rows, 1);
	Value *one_at = expand_unsqueeze(in, n, at, first);
	Value *column, *size, *best, *is_best, *is_at, *row, *old, *pivot;

	column = expand_node_ints(in, n, OP_Gather, (Value *[]){a, one_at}, 2, "axis", cols);
	size = EXPAND(in, n, Where, EXPAND(in, n, Less, index, at),
		      expand_scalar(in, n, t->dtype, -1), EXPAND(in, n, Abs, column));
	best = expand_node_ints(in, n, OP_ArgMax, &size, 1, "axis", rows);
	is_best = EXPAND(in, n, Equal, index, best);
	is_at = EXPAND(in, n, Equal, index, at);
	row = EXPAND(in, n, ReduceSum, EXPAND(in, n, Where, is_best, a, zero), axis);
	old = expand_node_ints(in, n, OP_Gather, (Value *[]){a, one_at}, 2, "axis", rows);
	pivot = expand_node_ints(in, n, OP_Gather, (Value *[]){row, one_at}, 2, "axis", cols);
	row = EXPAND(in, n, Div, row, pivot);
	a = EXPAND(in, n, Where, is_best, old, a);
	column = expand_node_ints(in, n, OP_Gather, (Value *[]){a, one_at}, 2, "axis", cols);
	a = EXPAND(in, n, Sub, a, EXPAND(in, n, Mul, column, row));
	return EXPAND(in, n, Where, is_at, row, a);
}

static bool expand_inverse(Infer *in, Node *n, Value **out)
{
	const Type *t = infer_type(n, 0);
	Ctx *c = infer_ctx(in);
	Value *a, *index, *at, *next, *last;
	Dim *dims[MAX_RANK], *order, *from[1], *to[1];
	int64_t axis = 1;
	LoopBuild b;

	if (!square(in, n, t, dims))
		return false;
	order = t->dims[t->rank - 1];
	a = beside_identity(in, n,
			    expand_cast(in, n, node_in(n, 0), ctype_dtype(dtype_ctype(t->dtype))));
	a = expand_reshape(in, n, a, dims, t->rank);
	index = expand_unsqueeze(in, n, expand_range(in, n, order), axis);
	b = loop_open(in, n, order, &a, 1);
	at = expand_dims(in, n, DT_I64, &b.iteration, 1, true);
	next = clear_column(in, n, b.carried[0], at, index);
	loop_close(&b, &next, NULL, 0, NULL, dim_const(c, 0), &last, NULL);
	axis = t->rank - 1;
	from[0] = order;
	to[0] = dims[axis];
	a = EXPAND(in, n, Slice, last, expand_sizes(in, n, from, 1), expand_sizes(in, n, to, 1),
		   expand_ints(in, n, &axis, 1));
	out[0] = expand_cast(in, n, expand_reshape(in, n, a, t->dims, t->rank), t->dtype);
	return true;
}

const Op op_microsoft_Inverse = {.expand = expand_inverse, .types = "f"};
