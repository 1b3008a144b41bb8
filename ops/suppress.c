/* SPDX-License-Identifier: Apache-2.0 */
/*
 * NonMaxSuppression: of boxes that overlap, the one with the highest score is kept. The candidates
 * of each batch entry and class are sorted by score; a loop goes through them, the best first, and
 * removes those that overlap it.
 */
#include "ir/blocks.h"
#include "ops/control.h"
#include "ops/shape.h"
#include "ops/sort.h"

#include <math.h>

/* The boxes of all candidates: [candidate, batch, class] each, for the lower and upper corner. */
typedef struct Boxes {
	Value *y0, *x0, *y1, *x1;
} Boxes;

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

/* Coordinate K of BOXES, [batch, 1, box]. */
static Value *coordinate(Infer *in, Node *n, int k)
{
	const int64_t axis = 1;
	Value *v = expand_slice(in, n, node_in(n, 0), 2, k, k + 1, 1);
	const Type *t = node_in(n, 0)->type;

	v = expand_reshape(in, n, v, t->dims, 2);
	return expand_unsqueeze(in, n, v, axis);
}

/* The corners of the boxes, [batch, 1, box] each. */
static Boxes corners(Infer *in, Node *n)
{
	Value *c[4], *half = expand_scalar(in, n, DT_F32, 0.5);

	for (int k = 0; k < 4; k++)
		c[k] = coordinate(in, n, k);
	if (node_int(n, "center_point_box", 0)) {
		Value *w = EXPAND(in, n, Mul, c[2], half), *h = EXPAND(in, n, Mul, c[3], half);

		return (Boxes){minus(in, n, c[1], h), minus(in, n, c[0], w),
			       EXPAND(in, n, Add, c[1], h), EXPAND(in, n, Add, c[0], w)};
	}
	return (Boxes){smaller_of(in, n, c[0], c[2]), smaller_of(in, n, c[1], c[3]),
		       larger_of(in, n, c[0], c[2]), larger_of(in, n, c[1], c[3])};
}

/* V, [batch, 1, box], at the boxes ORDER, [batch, class, candidate], as [candidate, batch, class].
 */
static Value *ordered(Infer *in, Node *n, Value *v, const Type *scores, Value *order)
{
	static const int64_t first[] = {2, 0, 1};

	v = EXPAND(in, n, Expand, v, expand_sizes(in, n, scores->dims, 3));
	v = expand_node_ints(in, n, OP_GatherElements, (Value *[]){v, order}, 2, "axis", 2);
	return expand_transpose(in, n, v, first, 3);
}

static Value *area(Infer *in, Node *n, const Boxes *b)
{
	return EXPAND(in, n, Mul, minus(in, n, b->y1, b->y0), minus(in, n, b->x1, b->x0));
}

/* Whether the box at ROW overlaps each of the boxes B by more than the threshold: the area of the
 * intersection over that of the union. */
static Value *overlaps(Infer *in, Node *n, const Boxes *b, Dim *row)
{
	Boxes one = {expand_row(in, n, b->y0, row), expand_row(in, n, b->x0, row),
		     expand_row(in, n, b->y1, row), expand_row(in, n, b->x1, row)};
	Value *zero = expand_scalar(in, n, DT_F32, 0), *most, *both, *all;
	Boxes common = {larger_of(in, n, one.y0, b->y0), larger_of(in, n, one.x0, b->x0),
			smaller_of(in, n, one.y1, b->y1), smaller_of(in, n, one.x1, b->x1)};

	most = node_in(n, 3) ? expand_reshape(in, n, node_in(n, 3), NULL, 0) : zero;
	both = EXPAND(in, n, Mul, larger_of(in, n, minus(in, n, common.y1, common.y0), zero),
		      larger_of(in, n, minus(in, n, common.x1, common.x0), zero));
	all = minus(in, n, EXPAND(in, n, Add, area(in, n, &one), area(in, n, b)), both);
	return EXPAND(in, n, And, EXPAND(in, n, Greater, both, zero),
		      EXPAND(in, n, Greater, EXPAND(in, n, Div, both, all), most));
}

/* Ends the loop that has just been opened once no class has KEPT less than MOST. */
static void while_any_may_be_kept(Infer *in, Node *n, Value *kept, Value *most)
{
	Dim *all = dims_product(in->ctx, kept->type->dims, kept->type->rank);
	Value *v = expand_cast(in, n, EXPAND(in, n, Less, kept, most), DT_I64);
	int count;

	v = expand_reduce(in, n, OP_ReduceMax, expand_reshape(in, n, v, &all, 1), 0, false);
	if (v->type)
		control_set_dim(control_bracket(in, n, OP_While, NULL, 0, 0), "value",
				infer_contents(in, n, v, &count)[0]);
}

/* Goes through the candidates, the best first. A candidate that is left is kept, and removes those
 * that it overlaps. LEFT: [candidate, batch, class] of bool. Returns those that are kept. */
static Value *suppress(Infer *in, Node *n, const Boxes *b, Value *left, Dim *candidates)
{
	const int64_t axes[] = {1, 2};
	Value *range = EXPAND(in, n, Unsqueeze, expand_range(in, n, candidates),
			      expand_ints(in, n, axes, 2));
	Value *most = node_in(n, 2) ? expand_reshape(in, n, node_in(n, 2), NULL, 0)
				    : expand_scalar(in, n, DT_I64, 0);
	Value *init[3], *next[3], *last[3], *now, *keep, *removed;
	LoopBuild l;

	init[0] = left;
	init[1] = EXPAND(in, n, Expand, expand_scalar(in, n, DT_I64, 0),
			 expand_sizes(in, n, left->type->dims + 1, 2));
	init[2] = expand_scalar(in, n, DT_I64, 0); /* how many candidates have been looked at */
	l = loop_open(in, n, candidates, init, 3);
	while_any_may_be_kept(in, n, l.carried[1], most);
	now = expand_dims(in, n, DT_I64, &l.iteration, 1, true);
	keep = EXPAND(in, n, And, expand_row(in, n, l.carried[0], l.iteration),
		      EXPAND(in, n, Less, l.carried[1], most));
	removed = EXPAND(in, n, And, EXPAND(in, n, And, keep, EXPAND(in, n, Greater, range, now)),
			 overlaps(in, n, b, l.iteration));
	next[0] = EXPAND(in, n, And, l.carried[0], EXPAND(in, n, Not, removed));
	next[0] = EXPAND(in, n, Where, EXPAND(in, n, Equal, range, now), keep, next[0]);
	next[1] = EXPAND(in, n, Add, l.carried[1], expand_cast(in, n, keep, DT_I64));
	next[2] = EXPAND(in, n, Add, l.carried[2], expand_scalar(in, n, DT_I64, 1));
	loop_close(&l, next, NULL, 0, NULL, candidates, last, NULL);
	return EXPAND(in, n, And, last[0], EXPAND(in, n, Less, range, last[2]));
}

/* Element K of the rows of AT, [3, selected]. */
static Value *index_row(Infer *in, Node *n, Value *at, int k)
{
	return expand_row(in, n, at, dim_const(in->ctx, k));
}

static bool expand_suppression(Infer *in, Node *n, Value **out)
{
	static const int64_t last[] = {1, 2, 0};
	const Type *boxes = infer_type(n, 0), *scores = infer_type(n, 1);
	Ctx *c = in->ctx;
	Value *mask, *count, *many, *order, *sorted, *left, *at, *columns[3], *place;
	const int64_t axes = 2, one = 1;
	Dim *candidates, *size;
	Boxes b;
	int n_elements;
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
	if (!many->type)
		return false;
	candidates = infer_contents(in, n, many, &n_elements)[0];
	dim_bounds(c, scores->dims[2], &lo, &hi);
	if (dim_as_sym(candidates) && dim_as_sym(candidates)->src)
		sym_bound(c, dim_as_sym(candidates), 0, hi > DIM_FAR ? DIM_FAR : hi);
	sorted = sort_last(
		in, n,
		EXPAND(in, n, Where, mask, node_in(n, 1), expand_scalar(in, n, DT_F32, -INFINITY)),
		true, &order);
	if (!sorted)
		return false;
	order = sort_first(in, n, order, candidates);
	b = corners(in, n);
	b = (Boxes){ordered(in, n, b.y0, scores, order), ordered(in, n, b.x0, scores, order),
		    ordered(in, n, b.y1, scores, order), ordered(in, n, b.x1, scores, order)};
	left = EXPAND(in, n, Less, expand_range(in, n, candidates), count);
	left = expand_transpose(in, n, left, (int64_t[]){2, 0, 1}, 3);
	at = EXPAND(in, n, NonZero,
		    expand_transpose(in, n, suppress(in, n, &b, left, candidates), last, 3));
	for (int k = 0; k < 2; k++)
		columns[k] = index_row(in, n, at, k);
	place = EXPAND(in, n, Add,
		       EXPAND(in, n, Mul, columns[0], expand_size(in, n, scores->dims[1])),
		       columns[1]);
	place = EXPAND(in, n, Add, EXPAND(in, n, Mul, place, expand_size(in, n, candidates)),
		       index_row(in, n, at, 2));
	size = dims_product(c, order->type->dims, 3);
	columns[2] = EXPAND(in, n, Gather, expand_reshape(in, n, order, &size, 1), place);
	for (int k = 0; k < 3; k++)
		columns[k] = expand_unsqueeze(in, n, columns[k], one);
	out[0] = expand_node_ints(in, n, OP_Concat, columns, 3, "axis", 1);
	return in->errors == 0;
}

const Op op_NonMaxSuppression = {
	.expand = expand_suppression, .types = "f",
	.attrs = "center_point_box: int",
};
