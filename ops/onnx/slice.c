/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slice, Split, Concat, Pad. Bounds and amounts that only run time knows are dims in the index
 * expressions, so all reads are affine.
 */
#include "ops/infer/infer.h"
#include "ops/onnx/shape.h"

#include <assert.h>

/* ---- Slice ---- */

typedef struct SliceRange {
	Dim *start, *step, *len;
} SliceRange;

/* The bound V of a slice of a dim of D elements: a negative one has D added once. Clamped to [LO, D
 * + HI]. If D is unknown, ONNX recommends the largest and the least integer for its ends, and some
 * models have those of 32 bits (https://onnx.ai/onnx/operators/onnx__Slice.html). */
static Dim *slice_bound(Ctx *c, Dim *v, Dim *d, int lo, int hi)
{
	Dim *low = dim_const(c, lo), *high = dim_add(c, d, dim_const(c, hi)), *w;
	int64_t k, vlo, vhi, known;
	const int64_t far = dim_is_const(d, &known) ? DIM_FAR : INT32_MAX;

	dim_bounds(c, v, &vlo, &vhi);
	if (dim_is_const(v, &k) && k >= far)
		return high;
	if (dim_is_const(v, &k) && k <= -far)
		return dim_min(c, low, high);
	if (vlo >= 0)
		return dim_min(c, v, high);
	if (vhi < 0)
		return dim_min(c, dim_max(c, low, dim_add(c, d, v)), high);
	/* Limited to [-d - 1, d] first, so that nothing overflows. */
	w = dim_min(c, dim_max(c, v, dim_sub(c, dim_const(c, -1), d)), d);
	w = dim_add(c, w, dim_mul(c, d, dim_le(c, w, dim_const(c, -1))));
	return dim_min(c, dim_max(c, low, w), high);
}

static SliceRange slice_signed(Ctx *c, Dim *d, Dim *start, Dim *end, Dim *step, bool forward)
{
	Dim *apart = dim_sub(c, end, start);
	SliceRange r = {.step = step};
	int64_t most;

	r.start = slice_bound(c, start, d, 0, forward ? 0 : -1);
	end = slice_bound(c, end, d, forward ? 0 : -1, forward ? 0 : -1);
	r.len = dim_max(c, dim_const(c, 0), dim_ceildiv(c, dim_sub(c, end, r.start), step));
	/* x[i:i+1] has at most one element, whatever i is. */
	if (forward && dim_is_const(dim_ceildiv(c, apart, step), &most) && most > 0)
		r.len = dim_min(c, r.len, dim_const(c, most));
	return r;
}

static SliceRange slice_dim(Ctx *c, Dim *d, Dim *start, Dim *end, Dim *step)
{
	int64_t lo, hi;
	SliceRange up, down;
	Dim *forward;

	dim_bounds(c, step, &lo, &hi);
	if (lo > 0 || hi < 0)
		return slice_signed(c, d, start, end, step, lo > 0);
	up = slice_signed(c, d, start, end, step, true);
	down = slice_signed(c, d, start, end, step, false);
	forward = dim_le(c, dim_const(c, 1), step);
	up.start = dim_select(c, forward, up.start, down.start);
	up.len = dim_select(c, forward, up.len, down.len);
	return up;
}

/* A vector of RANK elements: V's elements at the positions in AXES, FILL elsewhere. */
static Value *spread_by_axis(Infer *in, Node *n, Value *v, Value *axes, int rank, int64_t fill)
{
	int64_t all[MAX_RANK];

	for (int i = 0; i < MAX_RANK; i++)
		all[i] = fill;
	return EXPAND(in, n, ScatterElements, expand_ints(in, n, all, rank), axes,
		      expand_cast(in, n, v, DT_I64));
}

static bool is_known(Infer *in, Value *v)
{
	int count;

	return !v || infer_const_ints(in, v, &count);
}

/* The length of starts, ends, axes and steps: the one of them whose length is known tells it.
 * Otherwise it is 1 where there can be one axis at most. -1: unknown. */
static int slice_count(Infer *in, const Node *n)
{
	bool one = infer_type(n, 0)->rank == 1;
	int64_t lo, hi;

	for (int i = 1; i < 5; i++) {
		const Type *t = infer_type(n, i);

		if (type_const_numel(t, MAX_RANK) >= 0)
			return (int)type_const_numel(t, MAX_RANK);
		if (!t || t->rank != 1)
			continue;
		dim_bounds(infer_ctx(in), t->dims[0], &lo, &hi);
		one = one || hi == 1;
	}
	return one ? 1 : -1;
}

/* Axes that only run time knows: nodes are added that compute starts, ends and steps for every
 * dim in order. */
static bool slice_all_axes(Infer *in, Node *n)
{
	int rank = infer_type(n, 0)->rank, count;
	Value *axes;

	if (is_known(in, node_in(n, 3)))
		return true;
	for (int i = 1; i < 5; i++)
		if (node_in(n, i) && !infer_vector(in, n, i, slice_count(in, n), &count))
			return false;
	axes = expand_cast(in, n, node_in(n, 3), DT_I64);
	node_set_input(n, 1, spread_by_axis(in, n, node_in(n, 1), axes, rank, 0));
	node_set_input(n, 2, spread_by_axis(in, n, node_in(n, 2), axes, rank, DIM_FAR));
	if (node_in(n, 4))
		node_set_input(n, 4, spread_by_axis(in, n, node_in(n, 4), axes, rank, 1));
	node_set_input(n, 3, NULL);
	for (int i = 1; i < 5; i++)
		if (node_in(n, i)) {
			if (!node_in(n, i)->type)
				return infer_error(
					in, n,
					"its axes are computed at run time in a way that is not supported; make them constants");
			infer_read_at_run_time(in, node_in(n, i));
		}
	return true;
}

static bool slice_ranges(Infer *in, Node *n, SliceRange *r)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	Dim **v[5] = {NULL}, *one = dim_const(c, 1), *zero = dim_const(c, 0);
	int count = -1;

	for (int i = 1; i < 5; i++) {
		int m;

		if (!node_in(n, i))
			continue;
		if (!(v[i] = infer_vector(in, n, i, slice_count(in, n), &m)))
			return false;
		if (count >= 0 && m != count)
			return infer_error(in, n,
					   "starts, ends, axes and steps have different lengths");
		count = m;
	}
	for (int a = 0; a < x->rank; a++)
		r[a] = (SliceRange){zero, one, x->dims[a]};
	for (int i = 0; i < count; i++) {
		Dim *step = v[4] ? v[4][i] : one;
		int a = i;

		if (v[3] ? !infer_axes(in, n, v[3] + i, 1, x->rank, &a)
			 : !infer_axis(in, n, i, x->rank, &a))
			return false;
		if (!infer_equal_shown(
			    in, n, dim_eq(c, step, zero), zero, "a step may not be 0",
			    (FactSize){arena_printf(infer_arena(in), "along axis %d it is", a),
				       step},
			    (FactSize){0}))
			return false;
		r[a] = slice_dim(c, x->dims[a], v[1][i], v[2][i], step);
	}
	return true;
}

static bool infer_slice(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	SliceRange r[MAX_RANK];
	Dim *out[MAX_RANK];

	if (!slice_all_axes(in, n) || !slice_ranges(in, n, r))
		return false;
	for (int a = 0; a < x->rank; a++)
		out[a] = r[a].len;
	return infer_result(in, n, 0, x->dtype, x->rank, out);
}

static void lower_slice(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK];
	SliceRange r[MAX_RANK];

	slice_ranges(in, n, r);
	kernel_iters_of(k, out, it);
	for (int a = 0; a < out->rank; a++)
		idx[a] = ex_add(k->pool, ex_mul(k->pool, at_iter(k, it[a]), at_dim(k, r[a].step)),
				at_dim(k, r[a].start));
	kernel_map_id(k, it, out, kernel_load(k, lower_in(k, 0), idx));
}

const Op op_Slice = {
	.within = true, .infer = infer_slice, .lower = lower_slice, .types = "fiubs"};

/* ---- Split ---- */

/* The sizes of the N->nout results. */
static bool split_sizes(Infer *in, Node *n, Dim *d, Dim **size)
{
	Ctx *c = infer_ctx(in);
	int64_t parts = node_int(n, "num_outputs", n->nout);
	Dim *sum = dim_const(c, 0), *chunk, **given;
	int count;

	if (node_in(n, 1)) {
		if (!(given = infer_vector(in, n, 1, n->nout, &count)))
			return false;
		if (count != n->nout)
			return infer_error(in, n, "%d sizes are given for %d results", count,
					   n->nout);
		for (int i = 0; i < count; i++) {
			size[i] = given[i];
			sum = dim_add(c, sum, given[i]);
			if (!infer_le(in, n, dim_const(c, 0), given[i], "a size is negative"))
				return false;
		}
		return infer_equal_shown(in, n, sum, d, "the sizes do not sum up to the dim",
					 (FactSize){"the sizes sum to", sum},
					 (FactSize){"the dim is", d});
	}
	if (parts != n->nout)
		return infer_error(in, n, "num_outputs is %lld, but there are %d results",
				   (long long)parts, n->nout);
	chunk = dim_ceildiv(c, d, dim_const(c, parts));
	for (int i = 0; i < n->nout; i++)
		size[i] = i < n->nout - 1
				  ? chunk
				  : dim_sub(c, d, dim_mul(c, chunk, dim_const(c, parts - 1)));
	return infer_le_shown(in, n, dim_const(c, 0), size[n->nout - 1],
			      "the dim is too small for that many pieces",
			      (FactSize){"the dim is", d},
			      (FactSize){"num_outputs is", dim_const(c, parts)});
}

static bool infer_split(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Dim *out[MAX_RANK], **size = NEW_ARRAY(infer_arena(in), n->nout, Dim *);
	int axis;

	if (!infer_axis(in, n, node_int(n, "axis", 0), x->rank, &axis) ||
	    !split_sizes(in, n, x->dims[axis], size))
		return false;
	for (int i = 0; i < x->rank; i++)
		out[i] = x->dims[i];
	for (int i = 0; i < n->nout; i++) {
		out[axis] = size[i];
		infer_result(in, n, i, x->dtype, x->rank, out);
	}
	return true;
}

static void lower_split(Infer *in, Node *n, Kernel *k)
{
	const Type *x = infer_type(n, 0);
	Dim *at = dim_const(k->ctx, 0), **size = NEW_ARRAY(k->arena, n->nout, Dim *);
	int axis;

	infer_axis(in, n, node_int(n, "axis", 0), x->rank, &axis);
	split_sizes(in, n, x->dims[axis], size);
	for (int i = 0; i < n->nout; i++) {
		Buf *out = lower_out(k, i);
		Iter *it[MAX_RANK];
		Expr *idx[MAX_RANK];

		if (out) {
			kernel_iters_of(k, out, it);
			for (int a = 0; a < out->rank; a++)
				idx[a] = at_iter(k, it[a]);
			idx[axis] = ex_add(k->pool, idx[axis], at_dim(k, at));
			kernel_map_id(k, it, out, kernel_load(k, lower_in(k, 0), idx));
		}
		at = dim_add(k->ctx, at, size[i]);
	}
}

const Op op_Split = {
	.infer = infer_split, .lower = lower_split, .types = "fiubs",
	.attrs = "axis: int, num_outputs: int since 18",
};

/* ---- Concat ---- */

static bool infer_concat(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Dim *out[MAX_RANK];
	int axis;

	if (!x)
		return infer_error(in, n, "the first operand is missing");
	if (!node_attr(n, "axis"))
		return infer_error(in, n, "attribute \"axis\" is missing");
	if (!infer_axis(in, n, node_int(n, "axis", 0), x->rank, &axis))
		return false;
	for (int i = 0; i < x->rank; i++)
		out[i] = x->dims[i];
	for (int i = 1; i < n->nin; i++) {
		const Type *y = infer_type(n, i);

		if (!y || y->dtype != x->dtype || y->rank != x->rank)
			return infer_error(
				in, n,
				"operand %d is %s of rank %d, operand 1 %s of rank %d; they must agree",
				i + 1, y ? dtype_info[y->dtype].name : "missing, not a tensor",
				y ? y->rank : 0, dtype_info[x->dtype].name, x->rank);
		for (int a = 0; a < x->rank; a++) {
			if (a == axis)
				out[a] = dim_add(infer_ctx(in), out[a], y->dims[a]);
			else if (!infer_equal_dims(
					 in, n, &x->dims[a], &y->dims[a],
					 "dims of operands differ, and not along the axis"))
				return false;
		}
	}
	return infer_result(in, n, 0, x->dtype, x->rank, out);
}

/* One map for each operand, which writes its part of the result. */
static void lower_concat(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Dim *at = dim_const(k->ctx, 0);
	int axis;

	infer_axis(in, n, node_int(n, "axis", 0), out->rank, &axis);
	for (int i = 0; i < n->nin; i++) {
		Buf *b = lower_in(k, i);
		Iter *it[MAX_RANK];
		Expr *idx[MAX_RANK];

		if (dim_equals(b->dims[axis], 0) && (k->stmts.n || i < n->nin - 1))
			continue;
		kernel_iters_of(k, b, it);
		for (int a = 0; a < out->rank; a++)
			idx[a] = at_iter(k, it[a]);
		idx[axis] = ex_add(k->pool, idx[axis], at_dim(k, at));
		kernel_map(k, it, out->rank, out, idx, kernel_load_iters(k, b, it), NULL);
		at = dim_add(k->ctx, at, b->dims[axis]);
	}
}

const Op op_Concat = {
	.infer = infer_concat, .lower = lower_concat, .grouped = true, .types = "fiubs",
	.attrs = "axis: int",
};

/* ---- Pad ---- */

typedef enum PadMode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP, PAD_UNKNOWN } PadMode;

static PadMode pad_mode(const Node *n)
{
	static const char *const name[] = {"constant", "reflect", "edge", "wrap"};
	const char *mode = node_str(n, "mode", "constant");
	int m = 0;

	while (m < PAD_UNKNOWN && strcmp(mode, name[m]))
		m++;
	return (PadMode)m;
}

/* The number of pads; below -1: only run time knows it. */
static int pads_length(const Node *n)
{
	const int64_t count = type_const_numel(infer_type(n, 1), 2 * MAX_RANK);

	return count < 0 ? -2 : (int)count;
}

/* How many elements are added before and after each axis; negative numbers remove elements. */
static bool pad_amounts(Infer *in, Node *n, Dim **before, Dim **after)
{
	int rank = infer_type(n, 0)->rank, count, naxes = rank;
	Dim **pads, **axes = NULL;

	if (node_in(n, 3) && !(axes = infer_vector(in, n, 3, pads_length(n) / 2, &naxes)))
		return false;
	if (!(pads = infer_vector(in, n, 1, 2 * naxes, &count)))
		return false;
	if (count != 2 * naxes)
		return infer_error(in, n, "%d pads are given for %d axes, expected %d", count,
				   naxes, 2 * naxes);
	for (int a = 0; a < rank; a++)
		before[a] = after[a] = dim_const(infer_ctx(in), 0);
	for (int i = 0; i < naxes; i++) {
		int a = i;

		if (axes && !infer_axes(in, n, axes + i, 1, rank, &a))
			return false;
		before[a] = pads[i];
		after[a] = pads[naxes + i];
	}
	return true;
}

static bool pad_all_axes(Infer *in, Node *n)
{
	int rank = infer_type(n, 0)->rank, count, npads;
	Value *axes, *half[2], *pads;

	if (is_known(in, node_in(n, 3)))
		return true;
	if (!infer_vector(in, n, 3, pads_length(n) / 2, &count) ||
	    !infer_vector(in, n, 1, 2 * count, &npads))
		return false;
	if (npads != 2 * count)
		return infer_error(in, n, "%d pads are given for %d axes, expected %d", npads,
				   count, 2 * count);
	axes = expand_cast(in, n, node_in(n, 3), DT_I64);
	pads = expand_cast(in, n, node_in(n, 1), DT_I64);
	for (int i = 0; i < 2; i++) {
		Value *from = expand_ints(in, n, (int64_t[]){i ? count : 0}, 1);
		Value *to = expand_ints(in, n, (int64_t[]){i ? npads : count}, 1);

		half[i] = spread_by_axis(in, n, EXPAND(in, n, Slice, pads, from, to), axes, rank,
					 0);
	}
	pads = expand_node_ints(in, n, OP_Concat, half, 2, "axis", 0);
	infer_read_at_run_time(in, pads);
	node_set_input(n, 1, pads);
	node_set_input(n, 3, NULL);
	return true;
}

/* For a dim of SIZE: first CUT elements are removed at its beginning, so that LEN are left; then
 * ADD elements are added before them, and more after them. */
typedef struct PadAxis {
	Dim *cut, *add, *len;
} PadAxis;

static PadAxis pad_axis(Ctx *c, Dim *size, Dim *before, Dim *after)
{
	Dim *zero = dim_const(c, 0);
	PadAxis a = {.cut = dim_max(c, zero, dim_sub(c, zero, before)),
		     .add = dim_max(c, zero, before)};

	a.len = dim_sub(c, dim_sub(c, size, a.cut), dim_max(c, zero, dim_sub(c, zero, after)));
	return a;
}

/* Requires that elements are left to copy from: there are none if -3 and +5 pad a dim of 1, though
 * the result's size is positive. */
static bool pad_copies(Infer *in, Node *n, int axis, Dim *before, Dim *after, Dim *out)
{
	Ctx *c = infer_ctx(in);
	Dim *one = dim_const(c, 1),
	    *len = pad_axis(c, infer_type(n, 0)->dims[axis], before, after).len, *enough = len;

	if (dim_equals(before, 0) && dim_equals(after, 0))
		return true;
	if (!dim_prove_le(c, one, out)) /* or the result is empty */
		enough = dim_max(c, len, dim_sub(c, one, out));
	return infer_le_shown(
		in, n, one, enough, "nothing is left of a dim to pad it from",
		(FactSize){arena_printf(infer_arena(in), "of dim %d there are left", axis), len},
		(FactSize){0});
}

static bool infer_pad(Infer *in, Node *n)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	Dim *before[MAX_RANK], *after[MAX_RANK], *out[MAX_RANK];
	PadMode mode = pad_mode(n);

	if (mode == PAD_UNKNOWN)
		return infer_error(in, n,
				   "mode is \"%s\", expected constant, reflect, edge or wrap",
				   node_str(n, "mode", ""));
	if (node_in(n, 2) &&
	    (infer_type(n, 2)->dtype != x->dtype || type_static(infer_type(n, 2), NULL) == false))
		return infer_error(in, n,
				   "the value to pad with is not a scalar of the operand's type");
	if (!pad_all_axes(in, n) || !pad_amounts(in, n, before, after))
		return false;
	for (int a = 0; a < x->rank; a++) {
		out[a] = dim_add(c, x->dims[a], dim_add(c, before[a], after[a]));
		if (!infer_le_shown(
			    in, n, dim_const(c, 0), out[a],
			    "negative pads cut off more elements than the dim has",
			    (FactSize){arena_printf(infer_arena(in), "dim %d of the result is", a),
				       out[a]},
			    (FactSize){0}))
			return false;
		if (mode != PAD_CONSTANT && !pad_copies(in, n, a, before[a], after[a], out[a]))
			return false;
	}
	return infer_result(in, n, 0, x->dtype, x->rank, out);
}

/* The index in [0, LEN) of the element that the padded axis has at E. */
static Expr *pad_place(Kernel *k, PadMode mode, Expr *e, Dim *len)
{
	Ctx *c = k->ctx;
	ExprPool *p = k->pool;
	Dim *last = dim_sub(c, len, dim_const(c, 1)), *period = dim_mul(c, last, dim_const(c, 2));
	Expr *m;

	switch (mode) {
	case PAD_EDGE:
		return ex_op2(p, IN_min, ex_op2(p, IN_max, e, at_int(k, 0)), at_dim(k, last));
	case PAD_WRAP: return ex_op2(p, IN_mod, e, at_dim(k, len));
	case PAD_REFLECT:
		m = ex_op2(p, IN_mod, e, at_dim(k, dim_max(c, period, dim_const(c, 1))));
		return ex_op2(p, IN_min, m, ex_sub(p, at_dim(k, period), m));
	case PAD_CONSTANT:
	case PAD_UNKNOWN: break;
	}
	return e;
}

static Expr *pad_value(Kernel *k, DType t)
{
	Buf *b = lower_in(k, 2);
	Expr *idx[MAX_RANK];

	if (!b)
		return ex_num(k->pool, dtype_ctype(t), 0);
	for (int i = 0; i < b->rank; i++)
		idx[i] = at_int(k, 0);
	return kernel_load(k, b, idx);
}

static void lower_pad(Infer *in, Node *n, Kernel *k)
{
	Ctx *c = k->ctx;
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0);
	Dim *before[MAX_RANK], *after[MAX_RANK];
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK], *inside = NULL, *e;
	PadMode mode = pad_mode(n);

	pad_amounts(in, n, before, after);
	kernel_iters_of(k, out, it);
	for (int a = 0; a < out->rank; a++) {
		const PadAxis p = pad_axis(c, x->dims[a], before[a], after[a]);

		e = ex_sub(k->pool, at_iter(k, it[a]), at_dim(k, p.add));
		if (!dim_equals(before[a], 0) || !dim_equals(after[a], 0)) {
			if (mode == PAD_CONSTANT)
				inside = ex_and(k->pool, inside,
						ex_inside(k->pool, e, at_dim(k, p.len)));
			else
				e = pad_place(k, mode, e, p.len);
		}
		idx[a] = ex_add(k->pool, e, at_dim(k, p.cut));
	}
	e = kernel_load(k, x, idx);
	if (inside)
		e = ex_op3(k->pool, IN_select, inside, e, pad_value(k, out->dtype));
	kernel_map_id(k, it, out, e);
}

const Op op_Pad = {
	.infer = infer_pad, .lower = lower_pad, .types = "fiubs",
	.attrs = "mode: string",
};
