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

/* Boxes: [batch, class, box] each, for the lower and upper corner. */
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

/* Coordinate V, [batch, 1, box], of box INDEX, [batch, class, 1]. */
static Value *of_box(Infer *in, Node *n, Value *v, const Type *scores, Value *index)
{
	v = EXPAND(in, n, Expand, v, expand_sizes(in, n, scores->dims, 3));
	return expand_node_ints(in, n, OP_GatherElements, (Value *[]){v, index}, 2, "axis", 2);
}

static Value *area(Infer *in, Node *n, const Boxes *b)
{
	return EXPAND(in, n, Mul, minus(in, n, b->y1, b->y0), minus(in, n, b->x1, b->x0));
}

/* Whether box ONE overlaps each of the boxes B by more than the threshold: the area of the
 * intersection over that of the union. */
static Value *overlaps(Infer *in, Node *n, const Boxes *one, const Boxes *b)
{
	Value *zero = expand_scalar(in, n, DT_F32, 0), *most, *both, *all;
	Boxes common = {larger_of(in, n, one->y0, b->y0), larger_of(in, n, one->x0, b->x0),
			smaller_of(in, n, one->y1, b->y1), smaller_of(in, n, one->x1, b->x1)};

	most = node_in(n, 3) ? expand_reshape(in, n, node_in(n, 3), NULL, 0) : zero;
	both = EXPAND(in, n, Mul, larger_of(in, n, minus(in, n, common.y1, common.y0), zero),
		      larger_of(in, n, minus(in, n, common.x1, common.x0), zero));
	all = minus(in, n, EXPAND(in, n, Add, area(in, n, one), area(in, n, b)), both);
	return EXPAND(in, n, And, EXPAND(in, n, Greater, both, zero),
		      EXPAND(in, n, Greater, EXPAND(in, n, Div, both, all), most));
}

/* The selected boxes: their number, [batch, class, 1], and their indices, [batch, class, most], the
 * best first. */
typedef struct KeptBoxes {
	Value *count, *index;
} KeptBoxes;

/* Ends the loop L where none of MAY, [batch, class, 1] of bool, holds. */
static void while_any(LoopBuild *l, Value *may)
{
	Dim *all = dims_product(l->in->ctx, may->type->dims, may->type->rank);
	Value *v = expand_reshape(l->in, l->n, expand_cast(l->in, l->n, may, DT_I64), &all, 1);

	loop_while(l, expand_reduce(l->in, l->n, OP_ReduceMax, v, 0, false));
}

/* Whether V, [batch, class, box], holds for some box: [batch, class, 1]. */
static Value *any_of(Infer *in, Node *n, Value *v)
{
	return expand_cast(
		in, n, expand_reduce(in, n, OP_ReduceMax, expand_cast(in, n, v, DT_U8), 2, true),
		DT_BOOL);
}

/* Takes the candidates by their SCORES, the best first. Each class has COUNT of them, at most
 * CANDIDATES. */
static KeptBoxes suppress(Infer *in, Node *n, Value *scores, Value *count, Dim *candidates)
{
	enum { KEYS, COUNT, INDEX, Y0, X0, Y1, X1, CARRIED };
	Ctx *c = in->ctx;
	const Type *t = scores->type;
	Dim *asked = node_in(n, 2) ? infer_single(in, n, 2) : dim_const(c, 0), *most, *dims[3];
	Value *init[CARRIED], *next[CARRIED], *last[CARRIED], *best, *index, *keep, *here;
	Value *zero = expand_scalar(in, n, DT_I64, 0), *one = expand_scalar(in, n, DT_I64, 1);
	Boxes all, box, kept;
	SortBlocks blocks;
	LoopBuild l;

	if (!asked)
		return (KeptBoxes){NULL, NULL};
	sort_blocks(in, n, scores, true, &blocks);
	most = dim_max(c, dim_const(c, 0), dim_min(c, asked, candidates));
	memcpy(dims, t->dims, sizeof dims);
	init[KEYS] = blocks.best;
	dims[2] = dim_const(c, 1);
	init[COUNT] = EXPAND(in, n, Expand, zero, expand_sizes(in, n, dims, 3));
	dims[2] = most;
	init[INDEX] = EXPAND(in, n, Expand, zero, expand_sizes(in, n, dims, 3));
	for (int i = Y0; i < CARRIED; i++)
		init[i] = EXPAND(in, n, Expand, expand_scalar(in, n, DT_F32, 0),
				 expand_sizes(in, n, dims, 3));
	all = corners(in, n);
	l = loop_open(in, n, candidates, init, CARRIED);
	keep = EXPAND(
		in, n, And, EXPAND(in, n, Less, l.carried[COUNT], expand_size(in, n, most)),
		EXPAND(in, n, Less, expand_dims(in, n, DT_I64, &l.iteration, 1, true), count));
	while_any(&l, keep);
	best = sort_blocks_take(in, n, &blocks, l.carried[KEYS], &next[KEYS]);
	/* a class without candidates has no key */
	index = EXPAND(in, n, Min, sort_key_index(in, n, best),
		       EXPAND(in, n, Sub, expand_size(in, n, t->dims[2]), one));
	box = (Boxes){of_box(in, n, all.y0, t, index), of_box(in, n, all.x0, t, index),
		      of_box(in, n, all.y1, t, index), of_box(in, n, all.x1, t, index)};
	kept = (Boxes){l.carried[Y0], l.carried[X0], l.carried[Y1], l.carried[X1]};
	here = expand_range(in, n, most);
	keep = EXPAND(in, n, And, keep,
		      EXPAND(in, n, Not,
			     any_of(in, n,
				    EXPAND(in, n, And, overlaps(in, n, &box, &kept),
					   EXPAND(in, n, Less, here, l.carried[COUNT])))));
	here = EXPAND(in, n, And, EXPAND(in, n, Equal, here, l.carried[COUNT]), keep);
	next[COUNT] = EXPAND(in, n, Add, l.carried[COUNT], expand_cast(in, n, keep, DT_I64));
	next[INDEX] = EXPAND(in, n, Where, here, index, l.carried[INDEX]);
	next[Y0] = EXPAND(in, n, Where, here, box.y0, kept.y0);
	next[X0] = EXPAND(in, n, Where, here, box.x0, kept.x0);
	next[Y1] = EXPAND(in, n, Where, here, box.y1, kept.y1);
	next[X1] = EXPAND(in, n, Where, here, box.x1, kept.x1);
	loop_close(&l, next, NULL, 0, NULL, candidates, last, NULL);
	return (KeptBoxes){last[COUNT], last[INDEX]};
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
	candidates = infer_contents(in, n, many, &n_elements)[0];
	dim_bounds(c, scores->dims[2], &lo, &hi);
	if (dim_as_sym(candidates) && dim_as_sym(candidates)->from_data)
		sym_bound(c, dim_as_sym(candidates), 0, hi > DIM_FAR ? DIM_FAR : hi);
	kept = suppress(
		in, n,
		EXPAND(in, n, Where, mask, node_in(n, 1), expand_scalar(in, n, DT_F32, -INFINITY)),
		count, candidates);
	if (!kept.index)
		return false;
	size = kept.index->type->dims[2];
	at = EXPAND(in, n, NonZero, EXPAND(in, n, Less, expand_range(in, n, size), kept.count));
	for (int k = 0; k < 2; k++)
		columns[k] = index_row(in, n, at, k);
	place = EXPAND(in, n, Add,
		       EXPAND(in, n, Mul, columns[0], expand_size(in, n, scores->dims[1])),
		       columns[1]);
	place = EXPAND(in, n, Add, EXPAND(in, n, Mul, place, expand_size(in, n, size)),
		       index_row(in, n, at, 2));
	size = dims_product(c, kept.index->type->dims, 3);
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
