/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NonMaxSuppression: among boxes that overlap, the one with the highest score is selected. A loop
 * takes the candidates of each batch entry and class one by one, the best first
 * (ops/onnx/sort_keys.c), and selects those that overlap none of the selected boxes. It ends once
 * no class may select another one.
 */
#include "ir/graph/blocks.h"
#include "ops/infer/control.h"
#include "ops/onnx/shape.h"
#include "ops/onnx/sort.h"

#include <math.h>

static Value *larger_of(Infer *in, Node *n, Value *a, Value *b)
{
	return EXPAND(in, n, Max, a, b);
}

static Value *smaller_of(Infer *in, Node *n, Value *a, Value *b)
{
	return EXPAND(in, n, Min, a, b);
}

static Value *minus(Infer *in, Node *n, Value *a, Value *b)
{
	return EXPAND(in, n, Sub, a, b);
}

/* The lower corner of a box, then the upper one. */
enum { Y0, X0, Y1, X1, CORNERS };

/* Row K of V, [batch, class, rows, box]. */
static Value *row_of(Infer *in, Node *n, Value *v, int64_t k)
{
	return expand_slice(in, n, v, 2, k, k + 1, 1);
}

/* The corners of V, boxes as the operand has them, [batch, class, 4, box], in one value of the same
 * shape. */
static Value *corners(Infer *in, Node *n, Value *v)
{
	Value *c[CORNERS], *half = expand_scalar(in, n, DT_F32, 0.5), *a, *b;

	for (int k = 0; k < 2; k++) {
		a = row_of(in, n, v, k);
		b = row_of(in, n, v, k + 2);
		if (node_int(n, "center_point_box", 0)) { /* x, y, width, height */
			b = EXPAND(in, n, Mul, b, half);
			c[X0 - k] = minus(in, n, a, b);
			c[X1 - k] = EXPAND(in, n, Add, a, b);
		} else {
			c[Y0 + k] = smaller_of(in, n, a, b);
			c[Y1 + k] = larger_of(in, n, a, b);
		}
	}
	return expand_node_ints(in, n, OP_Concat, c, CORNERS, "axis", 2);
}

static Value *area(Infer *in, Node *n, Value *b)
{
	return EXPAND(in, n, Mul, minus(in, n, row_of(in, n, b, Y1), row_of(in, n, b, Y0)),
		      minus(in, n, row_of(in, n, b, X1), row_of(in, n, b, X0)));
}

/* The size of what the boxes A and B have in common, from corner LOWER to corner UPPER. */
static Value *common(Infer *in, Node *n, Value *a, Value *b, int lower, int upper)
{
	Value *size = minus(in, n,
			    smaller_of(in, n, row_of(in, n, a, upper), row_of(in, n, b, upper)),
			    larger_of(in, n, row_of(in, n, a, lower), row_of(in, n, b, lower)));

	return larger_of(in, n, size, expand_scalar(in, n, DT_F32, 0));
}

/* Whether box ONE overlaps each of the boxes B by more than the threshold: the area of the
 * intersection over that of the union. [batch, class, 1, box] */
static Value *overlaps(Infer *in, Node *n, Value *one, Value *b)
{
	Value *zero = expand_scalar(in, n, DT_F32, 0), *most, *both, *all;

	most = node_in(n, 3) ? expand_reshape(in, n, node_in(n, 3), NULL, 0) : zero;
	both = EXPAND(in, n, Mul, common(in, n, one, b, Y0, Y1), common(in, n, one, b, X0, X1));
	all = minus(in, n, EXPAND(in, n, Add, area(in, n, one), area(in, n, b)), both);
	return EXPAND(in, n, And, EXPAND(in, n, Greater, both, zero),
		      EXPAND(in, n, Greater, EXPAND(in, n, Div, both, all), most));
}

/* The selected boxes: their number, [batch, class, 1, 1], and their indices, [batch, class, 1,
 * most], the best first. Both have the rank of the boxes, so that all of an iteration can be one
 * kernel. */
typedef struct KeptBoxes {
	Value *count, *index;
} KeptBoxes;

/* Ends the loop L where none of MAY, [batch, class, 1, 1] of bool, holds. */
static void while_any(LoopBuild *l, Value *may)
{
	Dim *all = dims_product(l->in->ctx, may->type->dims, may->type->rank);
	Value *v = expand_reshape(l->in, l->n, expand_cast(l->in, l->n, may, DT_I64), &all, 1);

	loop_while(l, expand_reduce(l->in, l->n, OP_ReduceMax, v, 0, false));
}

/* Whether V holds for some box of which SOME holds, both [batch, class, 1, box]: [batch, class, 1,
 * 1]. A maximum from the lowest number on ends with the last such box (passes/kernel/bounds.c). */
static Value *any_of(Infer *in, Node *n, Value *v, Value *some)
{
	v = EXPAND(in, n, Where, some, expand_cast(in, n, v, DT_I32),
		   expand_scalar(in, n, DT_I32, INT32_MIN));
	return EXPAND(in, n, Greater, expand_reduce(in, n, OP_ReduceMax, v, 3, true),
		      expand_scalar(in, n, DT_I32, 0));
}

/* The type of numbers of boxes, of which there are at most BOXES: i32 where they fit, since vectors
 * have twice as many of them. */
static DType box_type(Ctx *c, Dim *boxes)
{
	int64_t lo, hi;

	dim_bounds(c, boxes, &lo, &hi);
	return hi <= INT32_MAX ? DT_I32 : DT_I64;
}

/* Takes the candidates by their SCORES, the best first. Each class has COUNT of them, at most
 * CANDIDATES. */
static KeptBoxes suppress(Infer *in, Node *n, Value *scores, Value *count, Dim *candidates)
{
	enum { KEYS, COUNT, INDEX, BOXES, CARRIED };
	Ctx *c = in->ctx;
	Dim *asked = node_in(n, 2) ? infer_single(in, n, 2) : dim_const(c, 0), *most, *dims[4];
	Value *init[CARRIED], *next[CARRIED], *last[CARRIED], *best, *index, *box, *keep, *here,
		*kept;
	Value *one = expand_scalar(in, n, DT_I64, 1), *zero;
	const DType type = box_type(c, scores->type->dims[2]);
	SortBlocks blocks;
	LoopBuild l;

	if (!asked)
		return (KeptBoxes){NULL, NULL};
	sort_blocks(in, n, scores, true, &blocks);
	most = dim_max(c, dim_const(c, 0), dim_min(c, asked, candidates));
	memcpy(dims, scores->type->dims, 2 * sizeof *dims);
	init[KEYS] = blocks.best;
	zero = expand_scalar(in, n, type, 0);
	dims[2] = dims[3] = dim_const(c, 1);
	init[COUNT] = EXPAND(in, n, Expand, zero, expand_sizes(in, n, dims, 4));
	dims[3] = most;
	init[INDEX] = EXPAND(in, n, Expand, zero, expand_sizes(in, n, dims, 4));
	dims[2] = dim_const(c, CORNERS);
	init[BOXES] = EXPAND(in, n, Expand, expand_scalar(in, n, DT_F32, 0),
			     expand_sizes(in, n, dims, 4));
	count = expand_unsqueeze(in, n, count, 3);
	l = loop_open(in, n, candidates, init, CARRIED);
	keep = EXPAND(
		in, n, And,
		EXPAND(in, n, Less, expand_cast(in, n, l.carried[COUNT], DT_I64),
		       expand_size(in, n, most)),
		EXPAND(in, n, Less, expand_dims(in, n, DT_I64, &l.iteration, 1, true), count));
	while_any(&l, keep);
	best = sort_blocks_take(in, n, &blocks, l.carried[KEYS], &next[KEYS]);
	/* a class without candidates has no key */
	index = EXPAND(in, n, Min, sort_key_index(in, n, best),
		       EXPAND(in, n, Sub, expand_size(in, n, scores->type->dims[2]), one));
	box = expand_node_ints(in, n, OP_GatherND, (Value *[]){node_in(n, 0), index}, 2,
			       "batch_dims", 1);
	box = corners(in, n, expand_unsqueeze(in, n, box, 3));
	/* a range of i64 costs nothing: it is the iterator */
	here = expand_range(in, n, most);
	kept = expand_cast(in, n, l.carried[COUNT], DT_I64);
	keep = EXPAND(in, n, And, keep,
		      EXPAND(in, n, Not,
			     any_of(in, n, overlaps(in, n, box, l.carried[BOXES]),
				    EXPAND(in, n, Less, here, kept))));
	here = EXPAND(in, n, And, EXPAND(in, n, Equal, here, kept), keep);
	next[COUNT] = EXPAND(in, n, Add, l.carried[COUNT], expand_cast(in, n, keep, type));
	next[INDEX] = EXPAND(in, n, Where, here,
			     expand_cast(in, n, expand_unsqueeze(in, n, index, 3), type),
			     l.carried[INDEX]);
	next[BOXES] = EXPAND(in, n, Where, here, box, l.carried[BOXES]);
	loop_close(&l, next, NULL, 0, NULL, candidates, last, NULL);
	return (KeptBoxes){expand_cast(in, n, last[COUNT], DT_I64),
			   expand_cast(in, n, last[INDEX], DT_I64)};
}

/* Element K of the rows of AT, [3, selected]. */
static Value *index_row(Infer *in, Node *n, Value *at, int k)
{
	return expand_row(in, n, at, dim_const(in->ctx, k));
}

static bool expand_suppression(Infer *in, Node *n, Value **out)
{
	const Type *boxes = infer_type(n, 0), *scores = infer_type(n, 1);
	Ctx *c = in->ctx;
	Value *mask, *count, *many, *at, *columns[3], *place;
	const int64_t axes = 2, one = 1;
	Dim *candidates, *size;
	KeptBoxes kept;
	int64_t lo, hi;

	if (boxes->rank != 3 || scores->rank != 3 || boxes->dtype != DT_F32 ||
	    scores->dtype != DT_F32)
		return infer_error(in, n, "boxes and scores must be of rank 3 and of f32");
	if (!infer_equal(in, n, boxes->dims[2], dim_const(c, 4), "a box has not four numbers") ||
	    !infer_equal_dims(in, n, &boxes->dims[0], &scores->dims[0],
			      "boxes and scores differ in their batch") ||
	    !infer_equal_dims(in, n, &boxes->dims[1], &scores->dims[2],
			      "boxes and scores differ in number"))
		return false;
	mask = node_in(n, 4) ? EXPAND(in, n, Greater, node_in(n, 1),
				      expand_reshape(in, n, node_in(n, 4), NULL, 0))
			     : EXPAND(in, n, Equal, node_in(n, 1), node_in(n, 1));
	count = EXPAND(in, n, ReduceSum, expand_cast(in, n, mask, DT_I64),
		       expand_ints(in, n, &axes, 1));
	many = expand_node_ints(
		in, n, OP_ReduceMax,
		(Value *[]){expand_node_ints(
			in, n, OP_Concat,
			(Value *[]){expand_ints(in, n, (int64_t[]){0}, 1),
				    expand_reshape(in, n, count,
						   (Dim *[]){dims_product(c, scores->dims, 2)}, 1)},
			2, "axis", 0)},
		1, "keepdims", 0);
	/* a symbol, with bounds, and not the largest of several elements */
	candidates = control_size(in, expand_reshape(in, n, many, (Dim *[]){dim_const(c, 1)}, 1),
				  0);
	dim_bounds(c, scores->dims[2], &lo, &hi);
	if (hi < DIM_FAR)
		sym_bound(c, dim_as_sym(candidates), 0, hi);
	kept = suppress(
		in, n,
		EXPAND(in, n, Where, mask, node_in(n, 1), expand_scalar(in, n, DT_F32, -INFINITY)),
		count, candidates);
	if (!kept.index)
		return false;
	size = kept.index->type->dims[3];
	kept.count = expand_reshape(
		in, n, kept.count, (Dim *[]){scores->dims[0], scores->dims[1], dim_const(c, 1)}, 3);
	at = EXPAND(in, n, NonZero, EXPAND(in, n, Less, expand_range(in, n, size), kept.count));
	for (int k = 0; k < 2; k++)
		columns[k] = index_row(in, n, at, k);
	place = EXPAND(in, n, Add,
		       EXPAND(in, n, Mul, columns[0], expand_size(in, n, scores->dims[1])),
		       columns[1]);
	place = EXPAND(in, n, Add, EXPAND(in, n, Mul, place, expand_size(in, n, size)),
		       index_row(in, n, at, 2));
	size = dims_product(c, kept.index->type->dims, 4);
	columns[2] = EXPAND(in, n, Gather, expand_reshape(in, n, kept.index, &size, 1), place);
	for (int k = 0; k < 3; k++)
		columns[k] = expand_unsqueeze(in, n, columns[k], one);
	out[0] = expand_node_ints(in, n, OP_Concat, columns, 3, "axis", 1);
	return true;
}

const Op op_NonMaxSuppression = {
	.expand = expand_suppression, .types = "f",
	.attrs = "center_point_box: int",
};
