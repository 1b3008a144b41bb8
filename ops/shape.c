/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes: Shape and Size, the views (Reshape and its kind), and ops that make or spread elements by
 * position alone.
 *
 * Shapes, axes and counts may be known only at run time; they are dims like any other, and an axis is then
 * a 0/1 dim for each place where it may be. Only the number of axes, which makes the rank, must be known.
 */
#include "ops/shape.h"

#include <assert.h>
#include <math.h>

/* ---- Shared ---- */

Dim *dims_product(Ctx *c, Dim *const *d, int n)
{
	Dim *p = dim_const(c, 1);

	for (int i = 0; i < n; i++)
		p = dim_mul(c, p, d[i]);
	return p;
}

bool infer_movable(Infer *in, Node *n, int k)
{
	if (infer_type(n, k) && infer_type(n, k)->dtype == DT_STR)
		return infer_error(in, n, "strings are not supported");
	return true;
}

Dim **infer_vector(Infer *in, Node *n, int k, int *count)
{
	const Type *t = infer_type(n, k);

	*count = 0;
	if (t && t->rank > 1) {
		infer_error(in, n, "operand %d has rank %d, not 1", k, t->rank);
		return NULL;
	}
	return infer_contents(in, n, node_in(n, k), count);
}

Dim *infer_single(Infer *in, Node *n, int k)
{
	int count;
	Dim **d = infer_contents(in, n, node_in(n, k), &count);

	if (d && count != 1) {
		infer_error(in, n, "operand %d has %d elements, not one", k, count);
		return NULL;
	}
	return d ? d[0] : NULL;
}

static void see_data(void *arg, Sym *s)
{
	if (s->src)
		*(bool *)arg = true;
}

bool dim_from_data(Dim *d)
{
	bool found = false;

	dim_syms(d, see_data, &found);
	return found;
}

/* AXES[i] in [0, rank). */
static bool wrap_axis(Infer *in, Node *n, Dim *axis, int rank, Dim **out)
{
	Ctx *c = infer_ctx(in);
	int64_t v;
	int a;

	if (dim_is_const(axis, &v)) {
		if (!infer_axis(in, n, v, rank, &a))
			return false;
		*out = dim_const(c, a);
		return true;
	}
	*out = dim_mod(c, axis, dim_const(c, rank));
	return infer_le(in, n, dim_const(c, -rank), axis, "an axis is out of range") &&
	       infer_le(in, n, axis, dim_const(c, rank - 1), "an axis is out of range");
}

bool infer_axis_flags(Infer *in, Node *n, Dim *const *axes, int count, int rank, Dim **flags)
{
	Ctx *c = infer_ctx(in);

	for (int a = 0; a < rank; a++)
		flags[a] = dim_const(c, 0);
	for (int i = 0; i < count; i++) {
		Dim *axis;

		if (!wrap_axis(in, n, axes[i], rank, &axis))
			return false;
		for (int a = 0; a < rank; a++)
			flags[a] = dim_max(c, flags[a], dim_eq(c, axis, dim_const(c, a)));
	}
	return true;
}

bool infer_per_axis(Infer *in, Node *n, Dim *const *axes, Dim *const *values, int count, int rank,
		    Dim *const *otherwise, Dim **per)
{
	Ctx *c = infer_ctx(in);

	for (int a = 0; a < rank; a++)
		per[a] = otherwise ? otherwise[a] : dim_const(c, 0);
	if (!axes && count > rank)
		return infer_error(in, n, "names %d axes of a tensor of rank %d", count, rank);
	for (int i = 0; i < count; i++) {
		Dim *axis = dim_const(c, i);

		if (axes && !wrap_axis(in, n, axes[i], rank, &axis))
			return false;
		for (int a = 0; a < rank; a++)
			per[a] = dim_select(c, dim_eq(c, axis, dim_const(c, a)), values[i], per[a]);
	}
	return true;
}

/* ---- Reshaped loads ---- */

typedef struct Group { int a0, a1, b0, b1; } Group; /* dims [a0, a1) of the buffer, [b0, b1) of the shape */

/* The next group after G: as few dims as have equal products, or all that is left. */
static Group next_group(Ctx *c, const Group *g, Dim *const *a, int na, Dim *const *b, int nb)
{
	for (int i = g->a1; i <= na; i++)
		for (int j = g->b1; j <= nb; j++)
			if ((i > g->a1 || j > g->b1) &&
			    dims_product(c, a + g->a1, i - g->a1) == dims_product(c, b + g->b1, j - g->b1))
				return (Group){g->a1, i, g->b1, j};
	return (Group){g->a1, na, g->b1, nb};
}

/* One group's flat position, taken apart by the dims of the buffer. */
static void split_group(Kernel *k, const Group *g, Dim *const *a, Expr *flat, Expr **idx)
{
	Ctx *c = k->ctx;
	int first = -1, last = -1;

	for (int i = g->a0; i < g->a1; i++) {
		if (dim_equals(a[i], 1))
			continue;
		first = first < 0 ? i : first;
		last = i;
	}
	for (int i = g->a0; i < g->a1; i++) {
		Expr *e = flat;

		if (dim_equals(a[i], 1)) {
			idx[i] = at_int(k, 0);
			continue;
		}
		if (i != last)
			e = ex_op2(k->pool, IN_floordiv, e, at_dim(k, dims_product(c, a + i + 1, g->a1 - i - 1)));
		if (i != first)
			e = ex_op2(k->pool, IN_mod, e, at_dim(k, a[i]));
		idx[i] = e;
	}
}

Expr *lower_load_reshaped(Kernel *k, Buf *b, Dim *const *dims, Expr *const *at, int n)
{
	Expr *idx[MAX_RANK];
	Group g = {0, 0, 0, 0};

	while (g.a1 < b->rank || g.b1 < n) {
		Expr *flat = at_int(k, 0);

		g = next_group(k->ctx, &g, b->dims, b->rank, dims, n);
		for (int j = g.b0; j < g.b1; j++)
			flat = ex_add(k->pool, ex_mul(k->pool, flat, at_dim(k, dims[j])), at[j]);
		split_group(k, &g, b->dims, flat, idx);
	}
	return kernel_load(k, b, idx);
}

static void lower_view(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *at[MAX_RANK];

	(void)in;
	(void)n;
	kernel_iters_of(k, out, it);
	for (int i = 0; i < out->rank; i++)
		at[i] = at_iter(k, it[i]);
	kernel_map_id(k, it, out, lower_load_reshaped(k, lower_in(k, 0), out->dims, at, out->rank));
}

/* ---- Shape, Size ---- */

static int clamp_end(int64_t v, int rank)
{
	if (v < 0)
		v += rank;
	return (int)(v < 0 ? 0 : v > rank ? rank : v);
}

static void shape_range(Node *n, int *from, int *to)
{
	int rank = infer_type(n, 0)->rank;

	*from = clamp_end(node_int(n, "start", 0), rank);
	*to = clamp_end(node_int(n, "end", rank), rank);
	if (*to < *from)
		*to = *from;
}

static bool infer_shape(Infer *in, Node *n)
{
	Dim *d;
	int from, to;

	shape_range(n, &from, &to);
	d = dim_const(infer_ctx(in), to - from);
	infer_result(in, n, 0, DT_I64, 1, &d);
	return true;
}

static void lower_shape(Infer *in, Node *n, Kernel *k)
{
	const Type *x = infer_type(n, 0);
	Iter *it;
	Expr *e = at_int(k, 0);
	int from, to;

	(void)in;
	shape_range(n, &from, &to);
	kernel_iters_of(k, lower_out(k, 0), &it);
	for (int i = to - 1; i >= from; i--)
		e = i == to - 1 ? at_dim(k, x->dims[i])
				: ex_op3(k->pool, IN_select,
					 ex_op2(k->pool, IN_eq, at_iter(k, it), at_int(k, i - from)),
					 at_dim(k, x->dims[i]), e);
	kernel_map_id(k, &it, lower_out(k, 0), e);
}

const Op op_Shape = {.infer = infer_shape, .lower = lower_shape};

static bool infer_size(Infer *in, Node *n)
{
	infer_result(in, n, 0, DT_I64, 0, NULL);
	return true;
}

static void lower_size(Infer *in, Node *n, Kernel *k)
{
	const Type *x = infer_type(n, 0);

	(void)in;
	kernel_map_id(k, NULL, lower_out(k, 0), at_dim(k, dims_product(k->ctx, x->dims, x->rank)));
}

const Op op_Size = {.infer = infer_size, .lower = lower_size};

/* ---- Reshape ---- */

/* Element J of the target shape where nothing is left to find out: 0 copies the operand's dim. */
static bool target_dim(Infer *in, Node *n, Dim *s, int j, bool zero, Dim **out, bool *open)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	int64_t v, lo, hi;

	*open = false;
	*out = s;
	if (dim_is_const(s, &v)) {
		if (v < -1)
			return infer_error(in, n, "dim %d of the target shape is %lld", j, (long long)v);
		if (v == 0 && !zero) {
			if (j >= x->rank)
				return infer_error(in, n, "dim %d of the target shape is 0, but the operand has rank %d",
						   j, x->rank);
			*out = x->dims[j];
		}
		*open = v == -1;
		return true;
	}
	if (!dim_from_data(s))
		return infer_le(in, n, dim_const(c, 0), s, "a dim of the target shape is negative");
	dim_bounds(c, s, &lo, &hi);
	*open = lo < 0;
	if (lo <= 0 && !zero && j < x->rank)
		*out = dim_select(c, dim_eq(c, s, dim_const(c, 0)), x->dims[j], s);
	return true;
}

static bool infer_reshape(Infer *in, Node *n)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	Dim **s, *out[MAX_RANK], *given = dim_const(c, 1), *numel, *q, *minus = dim_const(c, -1);
	bool zero = node_int(n, "allowzero", 0) != 0, open[MAX_RANK];
	int count, wild = -1;

	if (!infer_movable(in, n, 0) || !(s = infer_vector(in, n, 1, &count)))
		return false;
	if (count > MAX_RANK)
		return infer_error(in, n, "the result has rank %d; at most %d is supported", count, MAX_RANK);
	for (int j = 0; j < count; j++) {
		if (!target_dim(in, n, s[j], j, zero, &out[j], &open[j]))
			return false;
		if (dim_equals(s[j], -1)) {
			if (wild >= 0)
				return infer_error(in, n, "two dims of the target shape are -1");
			wild = j;
		}
	}
	/* Those that may be -1 at run time count as 1 then; beside a -1 that is known they cannot. */
	for (int j = 0; j < count; j++) {
		if (j == wild)
			continue;
		if (open[j] && wild >= 0) {
			if (!infer_le(in, n, dim_const(c, 0), s[j], "a dim of the target shape is negative"))
				return false;
			open[j] = false;
		}
		given = dim_mul(c, given, open[j] ? dim_select(c, dim_eq(c, s[j], minus), dim_const(c, 1), out[j])
						  : out[j]);
	}
	numel = dims_product(c, x->dims, x->rank);
	q = dim_floordiv(c, numel, given);
	for (int j = 0; j < count; j++) {
		if (j == wild)
			out[j] = q;
		else if (open[j])
			out[j] = dim_select(c, dim_eq(c, s[j], minus), q, out[j]);
	}
	if (!infer_equal(in, n, numel, wild >= 0 ? dim_mul(c, q, given) : dims_product(c, out, count),
			 "the operand's elements do not fill the target shape"))
		return false;
	infer_result(in, n, 0, x->dtype, count, out);
	return true;
}

const Op op_Reshape = {.infer = infer_reshape, .lower = lower_view, .doc = "strings are not supported"};

static bool infer_flatten(Infer *in, Node *n)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	int64_t axis = node_int(n, "axis", 1);
	Dim *out[2];
	int a;

	if (!infer_movable(in, n, 0))
		return false;
	if (axis < -x->rank || axis > x->rank)
		return infer_error(in, n, "axis %lld is out of range for rank %d", (long long)axis, x->rank);
	a = (int)(axis < 0 ? axis + x->rank : axis);
	out[0] = dims_product(c, x->dims, a);
	out[1] = dims_product(c, x->dims + a, x->rank - a);
	infer_result(in, n, 0, x->dtype, 2, out);
	return true;
}

const Op op_Flatten = {.infer = infer_flatten, .lower = lower_view, .doc = "strings are not supported"};

/* ---- Squeeze, Unsqueeze ---- */

/* Without axes every dim of 1 goes; one that only run time knows must not be 1, or the rank would vary. */
static bool squeeze_ones(Infer *in, Node *n, Dim **flags)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);

	for (int a = 0; a < x->rank; a++) {
		flags[a] = dim_const(c, dim_equals(x->dims[a], 1));
		if (!dim_is_const(x->dims[a], NULL) &&
		    !infer_equal(in, n, dim_eq(c, x->dims[a], dim_const(c, 1)), dim_const(c, 0),
				 "without axes a dim of 1 would change the rank"))
			return false;
	}
	return true;
}

/* OUT[j] is the dim that stands at place J of those of D whose flag is KEEP. */
static void place_dims(Ctx *c, Dim *const *d, Dim *const *flags, int rank, Dim **out, int nout)
{
	Dim *pos = dim_const(c, 0), *one = dim_const(c, 1);

	for (int j = 0; j < nout; j++)
		out[j] = dim_const(c, 0);
	for (int a = 0; a < rank; a++) {
		Dim *kept = dim_sub(c, one, flags[a]);

		for (int j = 0; j < nout; j++) {
			Dim *here = dim_mul(c, kept, dim_eq(c, pos, dim_const(c, j)));

			out[j] = dim_add(c, out[j], dim_mul(c, here, d[a]));
		}
		pos = dim_add(c, pos, kept);
	}
}

static bool infer_squeeze(Infer *in, Node *n)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	Dim *flags[MAX_RANK], *out[MAX_RANK], **axes, *zero = dim_const(c, 0), *gone;
	int count = 0, left = x->rank;
	int64_t v;

	if (!infer_movable(in, n, 0))
		return false;
	if (!node_in(n, 1)) {
		if (!squeeze_ones(in, n, flags))
			return false;
	} else if (!(axes = infer_vector(in, n, 1, &count)) ||
		   !infer_axis_flags(in, n, axes, count, x->rank, flags)) {
		return false;
	}
	gone = zero;
	for (int a = 0; a < x->rank; a++) {
		gone = dim_add(c, gone, flags[a]);
		if (!infer_equal(in, n, dim_mul(c, flags[a], dim_sub(c, x->dims[a], dim_const(c, 1))), zero,
				 "a squeezed dim is not 1"))
			return false;
	}
	left = x->rank - (dim_is_const(gone, &v) ? (int)v : count);
	if (left < 0 || !infer_equal(in, n, gone, dim_const(c, x->rank - left), "an axis is named twice"))
		return left < 0 ? infer_error(in, n, "has more axes than dims") : false;
	place_dims(c, x->dims, flags, x->rank, out, left);
	infer_result(in, n, 0, x->dtype, left, out);
	return true;
}

const Op op_Squeeze = {.infer = infer_squeeze, .lower = lower_view, .doc = "strings are not supported"};

static bool infer_unsqueeze(Infer *in, Node *n)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	Dim *flags[MAX_RANK], *out[MAX_RANK], **axes, *pos = dim_const(c, 0), *one = dim_const(c, 1);
	int count, rank;

	if (!infer_movable(in, n, 0) || !(axes = infer_vector(in, n, 1, &count)))
		return false;
	rank = x->rank + count;
	if (rank > MAX_RANK)
		return infer_error(in, n, "the result has rank %d; at most %d is supported", rank, MAX_RANK);
	if (!infer_axis_flags(in, n, axes, count, rank, flags))
		return false;
	for (int j = 0; j < rank; j++) {
		Dim *d = dim_const(c, 0);

		for (int a = 0; a < x->rank; a++)
			d = dim_add(c, d, dim_mul(c, dim_eq(c, pos, dim_const(c, a)), x->dims[a]));
		out[j] = dim_select(c, flags[j], one, d);
		pos = dim_add(c, pos, dim_sub(c, one, flags[j]));
	}
	if (!infer_equal(in, n, pos, dim_const(c, x->rank), "an axis is named twice"))
		return false;
	infer_result(in, n, 0, x->dtype, rank, out);
	return true;
}

const Op op_Unsqueeze = {.infer = infer_unsqueeze, .lower = lower_view, .doc = "strings are not supported"};

/* ---- Transpose ---- */

static bool transpose_perm(Infer *in, Node *n, int *perm)
{
	int rank = infer_type(n, 0)->rank, count;
	const int64_t *p = node_ints(n, "perm", &count);
	bool seen[MAX_RANK] = {false};

	for (int i = 0; i < rank; i++)
		perm[i] = rank - 1 - i;
	if (count < 0)
		return true;
	if (count != rank)
		return infer_error(in, n, "perm has %d entries for rank %d", count, rank);
	for (int i = 0; i < rank; i++) {
		if (!infer_axis(in, n, p[i], rank, &perm[i]))
			return false;
		if (seen[perm[i]])
			return infer_error(in, n, "perm names axis %d twice", perm[i]);
		seen[perm[i]] = true;
	}
	return true;
}

static bool infer_transpose(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Dim *out[MAX_RANK];
	int perm[MAX_RANK];

	if (!infer_movable(in, n, 0) || !transpose_perm(in, n, perm))
		return false;
	for (int i = 0; i < x->rank; i++)
		out[i] = x->dims[perm[i]];
	infer_result(in, n, 0, x->dtype, x->rank, out);
	return true;
}

static void lower_transpose(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK];
	int perm[MAX_RANK];

	transpose_perm(in, n, perm);
	kernel_iters_of(k, out, it);
	for (int i = 0; i < out->rank; i++)
		idx[perm[i]] = at_iter(k, it[i]);
	kernel_map_id(k, it, out, kernel_load(k, lower_in(k, 0), idx));
}

const Op op_Transpose = {.infer = infer_transpose, .lower = lower_transpose, .doc = "strings are not supported"};
