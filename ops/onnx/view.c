/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Views: Reshape, Flatten, Squeeze, Unsqueeze. They change the shape and leave the elements in
 * order. If the shape depends on data in a complicated way, nodes are added that compute it and the
 * view reads it from their result, so that no dim becomes long.
 */
#include "ops/infer/infer.h"
#include "ops/onnx/shape.h"

#include <assert.h>

/* ---- Reshape ---- */

typedef struct ReshapeTarget {
	int rank;
	int wild;           /* the index of the element that is the constant -1; -1: none is */
	int open;           /* the number of elements that may be -1 at run time */
	Dim *dim[MAX_RANK]; /* the target, with 0 replaced by the operand's dim */
	bool is_open[MAX_RANK];
	Dim **raw;
} ReshapeTarget;

/* Reads element J of the target shape. */
static bool target_dim(Infer *in, Node *n, ReshapeTarget *t, int j, bool zero)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	Dim *s = t->raw[j];
	int64_t v, lo, hi;

	t->dim[j] = s;
	if (dim_is_const(s, &v)) {
		if (v < -1)
			return infer_error(in, n, "dim %d of the target shape is %lld", j,
					   (long long)v);
		if (v == 0 && !zero && j >= x->rank)
			return infer_error(
				in, n,
				"dim %d of the target shape is 0, but the operand has rank %d", j,
				x->rank);
		if (v == -1 && t->wild >= 0)
			return infer_error(in, n, "two dims of the target shape are -1");
		if (v == 0 && !zero)
			t->dim[j] = x->dims[j];
		if (v == -1)
			t->wild = j;
		return true;
	}
	if (!dim_from_data(s))
		return infer_le(in, n, dim_const(c, 0), s, "a dim of the target shape is negative");
	dim_bounds(c, s, &lo, &hi);
	t->is_open[j] = lo < 0;
	t->open += lo < 0;
	if (lo <= 0 && !zero && j < x->rank)
		t->dim[j] = dim_select(c, dim_eq(c, s, dim_const(c, 0)), x->dims[j], s);
	return true;
}

static bool read_target(Infer *in, Node *n, ReshapeTarget *t)
{
	bool zero = node_int(n, "allowzero", 0) != 0;

	*t = (ReshapeTarget){.wild = -1};
	t->raw = infer_vector(in, n, 1, infer_declared_rank(n), &t->rank);
	if (!t->raw)
		return false;
	if (t->rank > MAX_RANK)
		return infer_error(in, n, "the result has rank %d; at most %d is supported",
				   t->rank, MAX_RANK);
	for (int j = 0; j < t->rank; j++)
		if (!target_dim(in, n, t, j, zero))
			return false;
	return true;
}

/* Makes SHAPE, whose elements are known to be sizes, the target. */
static bool set_target(Infer *in, Node *n, Value *shape)
{
	Dim **d;
	int count;

	infer_read_at_run_time(in, shape);
	d = infer_contents(in, n, shape, &count);
	for (int i = 0; i < count; i++)
		if (!infer_le(in, n, dim_const(infer_ctx(in), 0), d[i],
			      "a dim of the result is negative"))
			return false;
	node_set_input(n, 1, shape);
	node_set_int(n, "allowzero", 1);
	return true;
}

/* Requires that at most one element of WILD, which are true where the target is -1, is. */
static bool one_wild(Infer *in, Node *n, Value *wild)
{
	Ctx *c = infer_ctx(in);
	Value *sum = expand_cast(in, n, wild, DT_I64);
	Dim **count;
	int size;

	sum = expand_node_ints(in, n, OP_ReduceSum, &sum, 1, "keepdims", 0);
	infer_read_at_run_time(in, sum);
	count = infer_contents(in, n, sum, &size);
	return infer_equal_shown(in, n, dim_le(c, count[0], dim_const(c, 1)), dim_const(c, 1),
				 "the target shape has more than one -1",
				 (FactSize){"it has", count[0]}, (FactSize){0});
}

/* Replaces the target by nodes that compute it at run time, with 0 and -1 replaced. */
static bool resolve_target(Infer *in, Node *n, int rank)
{
	const Type *x = infer_type(n, 0);
	int64_t none[MAX_RANK] = {0};
	Value *s = expand_cast(in, n, node_in(n, 1), DT_I64), *base, *wild, *given, *q;

	if (!node_int(n, "allowzero", 0)) {
		base = expand_node_ints(in, n, OP_Shape, (Value *[]){node_in(n, 0)}, 1, "end",
					rank);
		if (rank > x->rank)
			base = expand_node_ints(
				in, n, OP_Concat,
				(Value *[]){base, expand_ints(in, n, none, rank - x->rank)}, 2,
				"axis", 0);
		s = EXPAND(in, n, Where, EXPAND(in, n, Equal, s, expand_scalar(in, n, DT_I64, 0)),
			   base, s);
	}
	wild = EXPAND(in, n, Equal, s, expand_scalar(in, n, DT_I64, -1));
	if (!one_wild(in, n, wild))
		return false;
	given = EXPAND(in, n, Where, wild, expand_scalar(in, n, DT_I64, 1), s);
	given = expand_node_ints(in, n, OP_ReduceProd, (Value *[]){given}, 1, "keepdims", 0);
	q = EXPAND(in, n, Div, EXPAND(in, n, Size, node_in(n, 0)), given);
	s = EXPAND(in, n, Where, wild, q, s);
	return set_target(in, n, s);
}

/* If dim J turns out to be -1 at run time, it is Q, the quotient of the other sizes; a fact
 * requires -1 or Q. */
static bool fill_open(Infer *in, Node *n, ReshapeTarget *t, int j, Dim *q)
{
	Ctx *c = infer_ctx(in);
	Dim *s = t->raw[j], *off = dim_mul(c, dim_sub(c, s, q), dim_add(c, s, dim_const(c, 1)));

	if (t->dim[j] != s)
		off = dim_mul(c, off,
			      dim_select(c, dim_eq(c, s, dim_const(c, 0)),
					 dim_sub(c, infer_type(n, 0)->dims[j], q),
					 dim_const(c, 1)));
	t->dim[j] = q;
	return infer_equal_shown(
		in, n, off, dim_const(c, 0), "the operand's elements do not fill the target shape",
		(FactSize){arena_printf(infer_arena(in), "dim %d of the target is", j), s},
		(FactSize){"expected", q});
}

static bool infer_reshape(Infer *in, Node *n)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	Dim *given = dim_const(c, 1), *numel, *q, *total;
	ReshapeTarget t;
	int64_t lo, hi;
	int last = -1;

	if (!read_target(in, n, &t))
		return false;
	for (int j = 0; j < t.rank; j++) {
		if (j == t.wild)
			continue;
		/* Besides the known -1 no other element may be negative. */
		if (t.is_open[j] && t.wild >= 0) {
			if (!infer_le(in, n, dim_const(c, 0), t.raw[j],
				      "a dim of the target shape is negative"))
				return false;
		} else if (t.is_open[j]) {
			last = j;
			continue;
		}
		given = dim_mul(c, given, t.dim[j]);
	}
	dim_bounds(c, given, &lo, &hi);
	if (last >= 0 && (t.open > 1 || lo < 1))
		return resolve_target(in, n, t.rank) && infer_reshape(in, n);
	numel = dims_product(c, x->dims, x->rank);
	q = dim_floordiv(c, numel, given);
	total = dim_mul(c, q, given);
	if (t.wild >= 0)
		t.dim[t.wild] = q;
	else if (last >= 0) {
		if (!fill_open(in, n, &t, last, q))
			return false;
	} else {
		total = given;
	}
	if (!infer_equal_shown(
		    in, n, numel, total, "the operand's elements do not fill the target shape",
		    (FactSize){"the operand has", numel}, (FactSize){"the target", given}))
		return false;
	return infer_result(in, n, 0, x->dtype, t.rank, t.dim);
}

const Op op_Reshape = {
	.infer = infer_reshape,
	.lower = lower_view,
	.types = "fiubs",
	.doc = "with allowzero = 0, a target dim that is computed from the sizes of inputs and is 0 at run time remains 0, and does not copy the operand's dim",
	.attrs = "allowzero: int since 14",
};

static bool infer_flatten(Infer *in, Node *n)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	int64_t axis = node_int(n, "axis", 1);
	Dim *out[2];
	int a;

	if (axis < -x->rank || axis > x->rank)
		return infer_error(in, n, "axis %lld is out of range for rank %d", (long long)axis,
				   x->rank);
	a = (int)(axis < 0 ? axis + x->rank : axis);
	out[0] = dims_product(c, x->dims, a);
	out[1] = dims_product(c, x->dims + a, x->rank - a);
	return infer_result(in, n, 0, x->dtype, 2, out);
}

const Op op_Flatten = {
	.infer = infer_flatten, .lower = lower_view, .types = "fiubs",
	.attrs = "axis: int",
};

/* ---- Squeeze, Unsqueeze ---- */

/* Without axes every dim of 1 is removed. Which dims these are must not depend on the run, as the
 * rank would: where the model declares the result's rank, it tells whether dims that only run time
 * knows are removed; otherwise they must not be 1. */
static bool squeeze_ones(Infer *in, Node *n, bool *gone)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	const int declared = infer_declared_rank(n);
	int known = 0, open = 0;

	for (int a = 0; a < x->rank; a++) {
		gone[a] = dim_equals(x->dims[a], 1);
		known += gone[a];
		open += !dim_is_const(x->dims[a], NULL);
	}
	if (declared >= 0 && declared == x->rank - known)
		return true;
	for (int a = 0; a < x->rank; a++) {
		if (dim_is_const(x->dims[a], NULL))
			continue;
		if (declared >= 0 && declared == x->rank - known - open)
			gone[a] = true;
		else if (!infer_equal_shown(in, n, dim_eq(c, x->dims[a], dim_const(c, 1)),
					    dim_const(c, 0),
					    "a dim of 1 would change the rank; name the axes",
					    infer_dim_shown(in, n, &x->dims[a]), (FactSize){0}))
			return false;
	}
	return true;
}

/*
 * Axes that only run time knows: nodes compute the result's shape, and the node becomes a Reshape
 * to it. FLAGS has a 1 at each axis. BEFORE counts, at each position, the dims before it that are
 * not axes, which is the index of that dim in the other shape.
 */
typedef struct AxisPlaces {
	Value *flags, *before;
} AxisPlaces;

static AxisPlaces axis_places(Infer *in, Node *n, int count, int rank)
{
	int64_t fill[MAX_RANK];
	Value *axes = expand_cast(in, n, node_in(n, 1), DT_I64),
	      *zero = expand_scalar(in, n, DT_I64, 0), *none, *ones;
	AxisPlaces p;

	for (int i = 0; i < MAX_RANK; i++)
		fill[i] = 0;
	none = expand_ints(in, n, fill, rank);
	for (int i = 0; i < MAX_RANK; i++)
		fill[i] = 1;
	ones = expand_ints(in, n, fill, count);
	p.flags = EXPAND(in, n, ScatterElements, none, axes, ones);
	ones = expand_scalar(in, n, DT_I64, 1);
	p.before = expand_node_ints(in, n, OP_CumSum,
				    (Value *[]){EXPAND(in, n, Sub, ones, p.flags), zero}, 2,
				    "exclusive", 1);
	return p;
}

static bool become_reshape(Infer *in, Node *n, Value *shape)
{
	n->op = OP_Reshape;
	return set_target(in, n, shape) && infer_reshape(in, n);
}

static bool squeeze_at_run_time(Infer *in, Node *n, int count)
{
	int rank = infer_type(n, 0)->rank;
	int64_t fill[MAX_RANK + 1] = {0};
	Value *left = expand_scalar(in, n, DT_I64, rank - count), *to, *shape;
	AxisPlaces p = axis_places(in, n, count, rank);

	to = EXPAND(in, n, Where, EXPAND(in, n, Equal, p.flags, expand_scalar(in, n, DT_I64, 1)),
		    left, p.before);
	shape = EXPAND(in, n, ScatterElements, expand_ints(in, n, fill, rank - count + 1), to,
		       EXPAND(in, n, Shape, node_in(n, 0)));
	fill[1] = rank - count;
	shape = EXPAND(in, n, Slice, shape, expand_ints(in, n, fill, 1),
		       expand_ints(in, n, fill + 1, 1));
	return become_reshape(in, n, shape);
}

static bool unsqueeze_at_run_time(Infer *in, Node *n, int count)
{
	int rank = infer_type(n, 0)->rank;
	Value *one = expand_scalar(in, n, DT_I64, 1), *shape;
	AxisPlaces p = axis_places(in, n, count, rank + count);

	shape = expand_node_ints(in, n, OP_Concat,
				 (Value *[]){EXPAND(in, n, Shape, node_in(n, 0)),
					     expand_ints(in, n, (int64_t[]){1}, 1)},
				 2, "axis", 0);
	shape = EXPAND(in, n, Gather, shape, p.before);
	shape = EXPAND(in, n, Where, EXPAND(in, n, Equal, p.flags, one), one, shape);
	return become_reshape(in, n, shape);
}

static bool infer_squeeze(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Dim *out[MAX_RANK], **axes, *one = dim_const(infer_ctx(in), 1);
	bool gone[MAX_RANK] = {false};
	int count = 0, left = 0, at;

	if (!node_in(n, 1)) {
		if (!squeeze_ones(in, n, gone))
			return false;
	} else {
		if (!(axes = infer_vector(in, n, 1, x->rank - infer_declared_rank(n), &count)))
			return false;
		if (!dims_are_const(axes, count))
			return count <= x->rank
				       ? squeeze_at_run_time(in, n, count)
				       : infer_error(in, n, "%d axes are given for rank %d", count,
						     x->rank);
		for (int i = 0; i < count; i++) {
			if (!infer_axes(in, n, axes + i, 1, x->rank, &at))
				return false;
			gone[at] = true;
		}
	}
	for (int a = 0; a < x->rank; a++) {
		if (!gone[a])
			out[left++] = x->dims[a];
		else if (!infer_dim_equals(in, n, &x->dims[a], one, "a squeezed dim is not 1"))
			return false;
	}
	return infer_result(in, n, 0, x->dtype, left, out);
}

const Op op_Squeeze = {.infer = infer_squeeze, .lower = lower_view, .types = "fiubs"};

static bool infer_unsqueeze(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Dim *out[MAX_RANK], **axes;
	bool added[MAX_RANK] = {false};
	int count, rank, from = 0, at;

	if (!(axes = infer_vector(in, n, 1, infer_declared_rank(n) - x->rank, &count)))
		return false;
	rank = x->rank + count;
	if (rank > MAX_RANK)
		return infer_error(in, n, "the result has rank %d; at most %d is supported", rank,
				   MAX_RANK);
	if (!dims_are_const(axes, count))
		return unsqueeze_at_run_time(in, n, count);
	for (int i = 0; i < count; i++) {
		if (!infer_axes(in, n, axes + i, 1, rank, &at))
			return false;
		if (added[at])
			return infer_error(in, n, "an axis is named twice");
		added[at] = true;
	}
	for (int j = 0; j < rank; j++)
		out[j] = added[j] ? dim_const(infer_ctx(in), 1) : x->dims[from++];
	return infer_result(in, n, 0, x->dtype, rank, out);
}

const Op op_Unsqueeze = {.infer = infer_unsqueeze, .lower = lower_view, .types = "fiubs"};
