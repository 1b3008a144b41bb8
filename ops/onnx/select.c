/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators with a data-dependent result size: NonZero and Compress. The selected elements are
 * counted in each block. The sum of these counts is a size that the host reads
 * (ops/infer/contents.c), and their prefix sum is the offset of each block's positions. So memory
 * is needed for the blocks and for the selected elements, but not for all elements.
 */
#include "ir/graph/blocks.h"
#include "ops/infer/build.h"
#include "ops/infer/control.h"
#include "ops/onnx/shape.h"
#include "ops/onnx/sort.h"

/* Elements of a block: with fewer, the counts take more time to sum up, and with more, the ranks
 * within a block leave the L1 cache. */
enum { BLOCK = 256 };

/* ---- CountTrue and FindTrue ---- */

static bool infer_count_true(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Dim *blocks;

	if (x->rank != 1 || x->dtype != DT_BOOL)
		return infer_error(in, n, "has no vector of bool");
	blocks = dim_ceildiv(in->ctx, x->dims[0], dim_const(in->ctx, BLOCK));
	return infer_result(in, n, 0, DT_I64, 1, &blocks);
}

/* Sets *AT to the index of element J of block I. Returns the condition that it exists; null if it
 * always does. */
static Expr *element(Kernel *k, const Buf *mask, Expr *i, Expr *j, Expr **at)
{
	*at = ex_add(k->pool, ex_mul(k->pool, i, at_int(k, BLOCK)), j);
	return dim_multiple(k->ctx, mask->dims[0], BLOCK)
		       ? NULL
		       : ex_op2(k->pool, IN_lt, *at, at_dim(k, mask->dims[0]));
}

/* Element AT of MASK, as an i32. */
static Expr *counted(Kernel *k, Buf *mask, Expr *at)
{
	return ex_cvt(k->pool, CT_I32, kernel_load(k, mask, &at));
}

static void lower_count_true(Infer *in, Node *n, Kernel *k)
{
	Buf *mask = lower_in(k, 0), *out = lower_out(k, 0), *acc;
	Point blocks = {0}, elements = {0};
	Expr *i, *at, *inside;

	(void)in, (void)n;
	acc = kernel_temp(k, "acc", DT_I32, 1, out->dims);
	i = point_add(k, &blocks, "i", out->dims[0]);
	inside = element(k, mask, i, point_add(k, &elements, "j", dim_const(k->ctx, BLOCK)), &at);
	point_reduce(k, MONOID_sum, &blocks, &elements, acc, &i, counted(k, mask, at), inside);
	point_map(k, &blocks, out, &i, ex_cvt(k->pool, CT_I64, kernel_load(k, acc, &i)), NULL);
}

const Op op_CountTrue = {.infer = infer_count_true, .lower = lower_count_true, .types = "b"};

static bool infer_find_true(Infer *in, Node *n)
{
	Dim *size = control_dim(n, "at");

	if (!size || infer_type(n, 0)->rank != 1 || infer_type(n, 1)->rank != 1)
		return infer_error(in, n, "has no size, or an operand that is not a vector");
	return infer_result(in, n, 0, DT_I64, 1, &size);
}

static void lower_find_true(Infer *in, Node *n, Kernel *k)
{
	Buf *mask = lower_in(k, 0), *before = lower_in(k, 1), *out = lower_out(k, 0), *rank;
	Dim *dims[2] = {before->dims[0], dim_const(k->ctx, BLOCK)};
	Expr *i[4], *at, *inside, *place, *last, *one = at_int(k, 1);
	Iter *it[4];
	Stmt *s;

	(void)in, (void)n;
	rank = kernel_temp(k, "rank", DT_I32, 2, dims);
	for (int d = 0; d < 4; d++) {
		it[d] = kernel_iter(k, d % 2 ? "j" : "i", dims[d % 2]);
		i[d] = at_iter(k, it[d]);
	}
	inside = element(k, mask, i[0], i[1], &at);
	s = kernel_map(k, it, 2, rank, i, counted(k, mask, at), inside);
	s->nband = 1;
	s->red = MONOID_sum;
	s->scan = true;
	place = ex_cvt(k->pool, CT_I64, kernel_load(k, rank, i + 2));
	place = ex_add(k->pool, kernel_load(k, before, i + 2), ex_sub(k->pool, place, one));
	place = ex_op2(k->pool, IN_index, place, at_dim(k, out->dims[0]));
	inside = element(k, mask, i[2], i[3], &at);
	/* a guard is evaluated as a whole, so it loads in range at every point */
	last = ex_op2(k->pool, IN_min, at, ex_sub(k->pool, at_dim(k, mask->dims[0]), one));
	kernel_map(k, it + 2, 2, out, &place, at,
		   ex_and(k->pool, inside, kernel_load(k, mask, inside ? &last : &at)));
}

const Op op_FindTrue = {.infer = infer_find_true, .lower = lower_find_true, .types = "b"};

/* ---- What operators are made of ---- */

void select_bound(Ctx *c, Dim *size, Dim *most)
{
	int64_t lo, hi;

	dim_bounds(c, most, &lo, &hi);
	if (dim_as_sym(size) && dim_as_sym(size)->from_data)
		sym_bound(c, dim_as_sym(size), 0, hi > DIM_FAR ? DIM_FAR : hi);
}

Value *select_positions(Infer *in, Node *n, Value *mask)
{
	Ctx *c = in->ctx;
	Value *counts = EXPAND(in, n, CountTrue, mask), *count, *args[2] = {mask, NULL};
	Dim *size;
	int elements;
	Node *find;

	args[1] = expand_start(in, n, OP_CumSum,
			       (Value *[]){counts, expand_scalar(in, n, DT_I64, 0)}, 2, 1)
			  ->out[0];
	node_set_int(args[1]->def, "exclusive", 1);
	args[1] = expand_finish(in, args[1]->def);
	count = expand_node_ints(in, n, OP_ReduceSum, &counts, 1, "keepdims", 0);
	size = infer_contents(in, n, count, &elements)[0];
	select_bound(c, size, mask->type->dims[0]);
	find = expand_start(in, n, OP_FindTrue, args, 2, 1);
	control_set_dim(find, "at", size);
	return expand_finish(in, find);
}

/* ---- NonZero and Compress ---- */

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
		return infer_error(in, n, "the condition is not a vector of bool");
	if (whole)
		x = flat(in, n, x);
	else if (!infer_axis(in, n, node_int(n, "axis", 0), x->type->rank, &axis))
		return false;
	at = select_positions(in, n, node_in(n, 1));
	out[0] = expand_node_ints(in, n, OP_Gather, (Value *[]){x, at}, 2, "axis", axis);
	return true;
}

const Op op_Compress = {.expand = expand_compress, .types = "fiubs", .attrs = "axis: int"};
