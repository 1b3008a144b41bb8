/* SPDX-License-Identifier: Apache-2.0 */
/* Operators whose result depends on positions: Expand, Tile, ConstantOfShape, Range, EyeLike,
 * Trilu, DepthToSpace, SpaceToDepth. */
#include "ops/infer/build.h"
#include "ops/onnx/shape.h"

#include <assert.h>
#include <math.h>

/* Requires every one of D[0..n) to be at least 0. */
static bool check_sizes(Infer *in, Node *n, Dim *const *d, int count, const char *what)
{
	for (int i = 0; i < count; i++)
		if (!infer_le(in, n, dim_const(infer_ctx(in), 0), d[i], what))
			return false;
	return true;
}

static bool check_rank(Infer *in, Node *n, int rank)
{
	return rank <= MAX_RANK ||
	       infer_error(in, n, "the result has rank %d; at most %d is supported", rank,
			   MAX_RANK);
}

/* ---- Expand, Tile ---- */

static bool infer_expand(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Dim **s, *out[MAX_RANK];
	int count, rank;

	if (!(s = infer_vector(in, n, 1, infer_declared_rank(n), &count)) ||
	    !check_rank(in, n, count) ||
	    !check_sizes(in, n, s, count, "a dim of the target shape is negative"))
		return false;
	rank = infer_broadcast(in, n, x->dims, x->rank, s, count, out);
	if (rank < 0)
		return false;
	return infer_result(in, n, 0, x->dtype, rank, out);
}

static void lower_expand(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Iter *it[MAX_RANK];

	(void)in;
	(void)n;
	kernel_iters_of(k, out, it);
	kernel_map_id(k, it, out, lower_load_broadcast(k, lower_in(k, 0), it, out->rank));
}

const Op op_Expand = {
	.within = true, .infer = infer_expand, .lower = lower_expand, .types = "fiubs"};

static bool infer_tile(Infer *in, Node *n)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	Dim **r, *out[MAX_RANK];
	int count;

	if (!(r = infer_vector(in, n, 1, x->rank, &count)) ||
	    !check_sizes(in, n, r, count, "a repeat count is negative"))
		return false;
	if (count != x->rank)
		return infer_error(in, n, "%d repeat counts are given for rank %d", count, x->rank);
	for (int i = 0; i < count; i++)
		out[i] = dim_mul(c, x->dims[i], r[i]);
	return infer_result(in, n, 0, x->dtype, count, out);
}

static void lower_tile(Infer *in, Node *n, Kernel *k)
{
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK];

	(void)in;
	(void)n;
	kernel_iters_of(k, out, it);
	for (int i = 0; i < out->rank; i++) {
		if (dim_equals(x->dims[i], 1))
			idx[i] = at_int(k, 0);
		else if (x->dims[i] == out->dims[i])
			idx[i] = at_iter(k, it[i]);
		else
			idx[i] = ex_op2(k->pool, IN_mod, at_iter(k, it[i]), at_dim(k, x->dims[i]));
	}
	kernel_map_id(k, it, out, kernel_load(k, x, idx));
}

/* The number of adjacent elements that are repeated together, the last dims of X from AXIS on, is
 * less than MOST. */
static bool repeats_few(Ctx *c, const Type *x, int axis, int64_t most)
{
	int64_t run;

	return dim_is_const(dims_product(c, x->dims + axis, x->rank - axis), &run) && run < most;
}

/* Repetition is a broadcast along a dim of its own, which merges with the repeated one: x[2,3]
 * tiled by [1,4] is x[2,1,3] expanded to [2,4,3]. With too many dims it stays, and where only a
 * few elements are copied at a time. */
static bool expand_tile(Infer *in, Node *n, Value **out)
{
	/* Microseconds for 10,000 results, as a broadcast and with a remainder: 20 times 12
	 * elements 2.8 and 9.5, 20 times 6 4.7 and 10, 20 times 4 6.8 and 7.3, twice 4 5.1 and
	 * 3.8. */
	enum { LEAST_RUN = 6 };
	const Type *x = infer_type(n, 0), *y = n->out[0]->type;
	Dim *one = dim_const(infer_ctx(in), 1), *from[2 * MAX_RANK], *to[2 * MAX_RANK], **r;
	int count, rank = 0;
	Value *v = node_in(n, 0);

	if (!(r = infer_vector(in, n, 1, x->rank, &count)))
		return false;
	for (int i = 0; i < x->rank; i++) {
		if (x->dims[i] != one && x->dims[i] != y->dims[i]) {
			if (repeats_few(infer_ctx(in), x, i, LEAST_RUN))
				return true;
			from[rank] = one;
			to[rank++] = r[i];
		}
		from[rank] = x->dims[i];
		to[rank++] = x->dims[i] == one ? y->dims[i] : x->dims[i];
	}
	if (rank > MAX_RANK)
		return true;
	if (rank > x->rank)
		v = expand_reshape(in, n, v, from, rank);
	v = EXPAND(in, n, Expand, v, expand_sizes(in, n, to, rank));
	out[0] = rank > x->rank ? expand_reshape(in, n, v, y->dims, y->rank) : v;
	return true;
}

const Op op_Tile = {
	.infer = infer_tile, .expand = expand_tile, .lower = lower_tile, .types = "fiubs"};

/* ---- ConstantOfShape ---- */

static bool infer_constofshape(Infer *in, Node *n)
{
	const Attr *a = node_attr(n, "value");
	DType t = a && a->kind == ATTR_TENSOR ? a->t->dtype : DT_F32;
	Dim **s;
	int count;

	if (a && (a->kind != ATTR_TENSOR || tensor_numel(a->t) != 1))
		return infer_error(in, n, "value is not a tensor of one element");
	if (!(s = infer_vector(in, n, 0, infer_declared_rank(n), &count)) || !check_rank(in, n, count) ||
	    !check_sizes(in, n, s, count, "a dim of the shape is negative"))
		return false;
	return infer_result(in, n, 0, t, count, s);
}

static void lower_constofshape(Infer *in, Node *n, Kernel *k)
{
	const Attr *a = node_attr(n, "value");
	Buf *out = lower_out(k, 0);
	CType t = dtype_ctype(out->dtype);
	Iter *it[MAX_RANK];
	Expr *e;

	(void)in;
	kernel_iters_of(k, out, it);
	if (!a)
		e = ex_num(k->pool, t, 0);
	else if (ctype_is_float(t))
		e = ex_float(k->pool, t, dtype_load_f64(out->dtype, a->t->data, 0));
	else if (out->dtype == DT_STR)
		e = build_string(k, dtype_load_i64(DT_STR, a->t->data, 0));
	else
		e = ex_int(k->pool, t, dtype_load_i64(out->dtype, a->t->data, 0));
	kernel_map_id(k, it, out, e);
}

const Op op_ConstantOfShape = {
	.infer = infer_constofshape,
	.lower = lower_constofshape,
	.types = "ius",
	.attrs = "value: tensor",
};

/* ---- Range ---- */

static Dim *range_const(Infer *in, Node *n, bool *ok)
{
	double v[3];

	for (int i = 0; i < 3; i++) {
		int count;
		const double *f = infer_const_floats(in, node_in(n, i), &count);

		if (!f || count != 1)
			return NULL;
		v[i] = f[0];
	}
	v[0] = ceil((v[1] - v[0]) / v[2]);
	if (isnan(v[0]) || v[0] > 1e15) {
		*ok = infer_error(
			in, n,
			"the range has no finite number of elements: (limit - start) / delta is %g",
			v[0]);
		return NULL;
	}
	return dim_const(infer_ctx(in), v[0] > 0 ? (int64_t)v[0] : 0);
}

/* Adds nodes that compute the number of elements, for floats that only run time knows; returns a
 * symbol read from their result. */
static Dim *range_float(Infer *in, Node *n)
{
	const Type *was = n->out[0]->type;
	Value *diff, *zero, *wide[3];
	Sym *s = was && was->rank == 1 ? dim_as_sym(was->dims[0]) : NULL;
	Dim **d;
	int count;

	if (s && s->from_data)
		return s->dim;
	for (int i = 0; i < 3; i++)
		wide[i] = expand_cast(in, n, node_in(n, i), DT_F64);
	diff = EXPAND(in, n, Div, EXPAND(in, n, Sub, wide[1], wide[0]), wide[2]);
	diff = expand_cast(in, n, EXPAND(in, n, Ceil, diff), DT_I64);
	zero = expand_scalar(in, n, DT_I64, 0);
	diff = EXPAND(in, n, Max, diff, zero);
	d = infer_contents(in, n, diff, &count);
	if (!d || count != 1)
		return NULL;
	s = dim_as_sym(d[0]);
	if (s && s->from_data && s->lo < 0)
		sym_bound(infer_ctx(in), s, 0, s->hi);
	return d[0];
}

static Dim *range_int(Infer *in, Node *n)
{
	Ctx *c = infer_ctx(in);
	Dim *start = infer_single(in, n, 0), *limit = infer_single(in, n, 1),
	    *delta = infer_single(in, n, 2);

	if (!start || !limit || !delta)
		return NULL;
	if (!infer_equal_shown(in, n, dim_eq(c, delta, dim_const(c, 0)), dim_const(c, 0),
			       "the step may not be 0", (FactSize){"delta is", delta},
			       (FactSize){0}))
		return NULL;
	return dim_max(c, dim_const(c, 0), dim_ceildiv(c, dim_sub(c, limit, start), delta));
}

static bool infer_range(Infer *in, Node *n)
{
	DType t = infer_type(n, 0)->dtype;
	bool ok = true;
	Dim *d;

	for (int i = 0; i < 3; i++) {
		const Type *o = infer_type(n, i);

		if (o->dtype != t || !(dtype_is_int(t) || dtype_is_float(t)))
			return infer_error(
				in, n,
				"operand %d is %s, operand 1 %s; expected numbers of one type",
				i + 1, dtype_info[o->dtype].name, dtype_info[t].name);
		for (int j = 0; j < o->rank; j++)
			if (!infer_dim_equals(in, n, &o->dims[j], dim_const(infer_ctx(in), 1),
					      "an operand is not a scalar"))
				return false;
		if (!infer_sized(in, n, i, 1))
			return false;
	}
	if (!dtype_is_float(t))
		d = range_int(in, n);
	else if (!(d = range_const(in, n, &ok)) && ok)
		d = range_float(in, n);
	if (!d)
		return false;
	return infer_result(in, n, 0, t, 1, &d);
}

/* Operand I of N, a single number. A constant integer is also a constant in the kernel, so that the
 * elements are an affine function of their index. */
static Expr *single(const Node *n, Kernel *k, int i)
{
	const Tensor *t = value_const(node_in(n, i));
	Buf *b = lower_in(k, i);
	Expr *idx[MAX_RANK];

	if (t && dtype_is_int(t->dtype))
		return ex_int(k->pool, dtype_ctype(t->dtype), dtype_load_i64(t->dtype, t->data, 0));
	for (int j = 0; j < b->rank; j++)
		idx[j] = at_int(k, 0);
	return kernel_load(k, b, idx);
}

static void lower_range(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	CType t = dtype_ctype(out->dtype);
	Iter *it;
	Expr *e;

	(void)in;
	kernel_iters_of(k, out, &it);
	e = ex_op2(k->pool, IN_mul, ex_cvt(k->pool, t, at_iter(k, it)), single(n, k, 2));
	kernel_map_id(k, &it, out, ex_op2(k->pool, IN_add, single(n, k, 0), e));
}

const Op op_Range = {
	.infer = infer_range, .lower = lower_range, .types = "fi",
	.attrs = "stash_type: int since 27",
};

/* ---- EyeLike, Trilu ---- */

static bool infer_eyelike(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	int64_t code = node_int(n, "dtype", dtype_info[x->dtype].onnx);
	DType t = code > 0 && code < 1000 ? dtype_by_onnx((int)code) : DT_NONE;

	if (x->rank != 2)
		return infer_error(in, n, "the operand has rank %d, not 2", x->rank);
	if (t == DT_NONE || t == DT_STR)
		return infer_error(
			in, n,
			"attribute \"dtype\" is %lld, which is not a supported element type",
			(long long)code);
	return infer_result(in, n, 0, t, 2, x->dims);
}

static void lower_eyelike(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	CType t = dtype_ctype(out->dtype);
	Iter *it[2];
	Expr *e;
	int64_t diagonal = node_int(n, "k", 0);

	(void)in;
	kernel_iters_of(k, out, it);
	e = ex_op2(k->pool, IN_eq, ex_sub(k->pool, at_iter(k, it[1]), at_iter(k, it[0])),
		   at_int(k, diagonal));
	kernel_map_id(k, it, out,
		      ex_op3(k->pool, IN_select, e, ex_num(k->pool, t, 1), ex_num(k->pool, t, 0)));
}

const Op op_EyeLike = {
	.infer = infer_eyelike, .lower = lower_eyelike, .types = "fiub",
	.attrs = "dtype: int, k: int",
};

static bool infer_trilu(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);

	if (x->rank < 2)
		return infer_error(in, n, "the operand has rank %d; at least 2 is needed", x->rank);
	if (node_in(n, 1) && !infer_single(in, n, 1))
		return false;
	return infer_result(in, n, 0, x->dtype, x->rank, x->dims);
}

static void lower_trilu(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Dim *diagonal = node_in(n, 1) ? infer_single(in, n, 1) : dim_const(k->ctx, 0);
	bool upper = node_int(n, "upper", 1) != 0;
	Expr *e;

	kernel_iters_of(k, out, it);
	e = ex_sub(k->pool, at_iter(k, it[out->rank - 1]), at_iter(k, it[out->rank - 2]));
	e = ex_op2(k->pool, upper ? IN_ge : IN_le, e, at_dim(k, diagonal));
	kernel_map_id(k, it, out,
		      ex_op3(k->pool, IN_select, e, kernel_load_iters(k, lower_in(k, 0), it),
			     ex_num(k->pool, dtype_ctype(out->dtype), 0)));
}

const Op op_Trilu = {
	.infer = infer_trilu, .lower = lower_trilu, .types = "fiubs",
	.attrs = "upper: int",
};

/* ---- DepthToSpace, SpaceToDepth ---- */

static bool block_size(Infer *in, Node *n, int64_t *b)
{
	const char *mode = node_str(n, "mode", "DCR");

	*b = node_int(n, "blocksize", 0);
	if (infer_type(n, 0)->rank != 4)
		return infer_error(in, n, "the operand has rank %d, not 4", infer_type(n, 0)->rank);
	if (*b < 1 || *b > INT32_MAX)
		return infer_error(in, n, "attribute \"blocksize\" is %lld, expected 1 or more",
				   (long long)*b);
	if (strcmp(mode, "DCR") && strcmp(mode, "CRD"))
		return infer_error(in, n, "mode is \"%s\", not \"DCR\" or \"CRD\"", mode);
	return true;
}

/* *AT / B, which must be exact. */
static bool exact_div(Infer *in, Node *n, Dim *const *at, int64_t b, Dim **q)
{
	Ctx *c = infer_ctx(in);

	*q = dim_floordiv(c, *at, dim_const(c, b));
	return infer_equal_shown(in, n, dim_mul(c, *q, dim_const(c, b)), *at,
				 "a dim is not a multiple of the block", infer_dim_shown(in, n, at),
				 (FactSize){"the block needs a multiple of", dim_const(c, b)});
}

static bool infer_depthtospace(Infer *in, Node *n)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	Dim *out[4];
	int64_t b;

	if (!block_size(in, n, &b) || !exact_div(in, n, &x->dims[1], b * b, &out[1]))
		return false;
	out[0] = x->dims[0];
	for (int i = 2; i < 4; i++)
		out[i] = dim_mul(c, x->dims[i], dim_const(c, b));
	return infer_result(in, n, 0, x->dtype, 4, out);
}

static void lower_depthtospace(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Iter *it[4];
	Expr *b = at_int(k, node_int(n, "blocksize", 1)), *sub, *idx[4];
	ExprPool *p = k->pool;

	(void)in;
	kernel_iters_of(k, out, it);
	idx[0] = at_iter(k, it[0]);
	idx[2] = ex_op2(p, IN_floordiv, at_iter(k, it[2]), b);
	idx[3] = ex_op2(p, IN_floordiv, at_iter(k, it[3]), b);
	sub = ex_add(p, ex_mul(p, ex_op2(p, IN_mod, at_iter(k, it[2]), b), b),
		     ex_op2(p, IN_mod, at_iter(k, it[3]), b));
	if (!strcmp(node_str(n, "mode", "DCR"), "DCR"))
		idx[1] = ex_add(p, ex_mul(p, sub, at_dim(k, out->dims[1])), at_iter(k, it[1]));
	else
		idx[1] = ex_add(p, ex_mul(p, at_iter(k, it[1]), ex_mul(p, b, b)), sub);
	kernel_map_id(k, it, out, kernel_load(k, lower_in(k, 0), idx));
}

const Op op_DepthToSpace = {
	.infer = infer_depthtospace, .lower = lower_depthtospace, .types = "fiubs",
	.attrs = "blocksize: int, mode: string since 11",
};

static bool infer_spacetodepth(Infer *in, Node *n)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0);
	Dim *out[4];
	int64_t b;

	if (!block_size(in, n, &b) || !exact_div(in, n, &x->dims[2], b, &out[2]) ||
	    !exact_div(in, n, &x->dims[3], b, &out[3]))
		return false;
	out[0] = x->dims[0];
	out[1] = dim_mul(c, x->dims[1], dim_const(c, b * b));
	return infer_result(in, n, 0, x->dtype, 4, out);
}

static void lower_spacetodepth(Infer *in, Node *n, Kernel *k)
{
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0);
	Iter *it[4];
	Expr *b = at_int(k, node_int(n, "blocksize", 1)), *sub, *idx[4];
	ExprPool *p = k->pool;
	bool depth_first = !strcmp(node_str(n, "mode", "DCR"), "DCR");
	Expr *inner = depth_first ? at_dim(k, x->dims[1]) : ex_mul(p, b, b);

	(void)in;
	kernel_iters_of(k, out, it);
	sub = ex_op2(p, depth_first ? IN_floordiv : IN_mod, at_iter(k, it[1]), inner);
	idx[0] = at_iter(k, it[0]);
	idx[1] = ex_op2(p, depth_first ? IN_mod : IN_floordiv, at_iter(k, it[1]), inner);
	idx[2] = ex_add(p, ex_mul(p, at_iter(k, it[2]), b), ex_op2(p, IN_floordiv, sub, b));
	idx[3] = ex_add(p, ex_mul(p, at_iter(k, it[3]), b), ex_op2(p, IN_mod, sub, b));
	kernel_map_id(k, it, out, kernel_load(k, x, idx));
}

const Op op_SpaceToDepth = {
	.infer = infer_spacetodepth, .lower = lower_spacetodepth, .types = "fiubs",
	.attrs = "blocksize: int, mode: string since 28",
};
