/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pooling of regions of interest, whose corners are data: RoiAlign and MaxRoiPool. A region is
 * divided into a grid of bins, one for each output pixel.
 */
#include "ops/infer/build.h"
#include "ops/onnx/shape.h"

enum { X, ROIS, BATCH };

/* The extents of the loops over a bin, in both spatial dims, as the dims of a type. */
static const char bin_attr[] = "bin";

/*
 * The size of the largest bin of all regions, rounded up, in both dims: nodes before N compute it,
 * and an attribute stores the result. FIRST is the column of the regions' first corner;
 * SIZE(corner, corner) computes the size.
 */
static bool largest_bins(Infer *in, Node *n, int first, int64_t height, int64_t width,
			 Value *(*size)(Infer *, Node *, Value *, Value *))
{
	DType real = acc_dtype(infer_type(n, ROIS)->dtype);
	int64_t bins[2] = {width, height}, axis = 0, two = 2;
	Attr a = {.name = ctx_name(infer_ctx(in), bin_attr), .kind = ATTR_TYPE};
	Value *v = expand_cast(in, n, node_in(n, ROIS), real), *low, *high, *zero;
	Dim **d;
	int count;

	if (node_attr(n, bin_attr))
		return true;
	v = EXPAND(in, n, Mul, v,
		   expand_scalar(in, n, real, (double)node_float(n, "spatial_scale", 1)));
	low = expand_slice(in, n, v, 1, first, first + 2, 1);
	high = expand_slice(in, n, v, 1, first + 2, first + 4, 1);
	v = EXPAND(in, n, Div, size(in, n, low, high),
		   expand_cast(in, n, expand_ints(in, n, bins, 2), real));
	/* A region of NaN has no bins, and must not affect the bins of others. */
	zero = expand_scalar(in, n, real, 0);
	v = EXPAND(in, n, Where, EXPAND(in, n, Greater, v, zero), EXPAND(in, n, Ceil, v), zero);
	v = EXPAND(in, n, Max, EXPAND(in, n, ReduceMax, v, expand_ints(in, n, &axis, 1)), zero);
	v = EXPAND(in, n, Reshape, expand_cast(in, n, v, DT_I64), expand_ints(in, n, &two, 1));
	d = infer_contents(in, n, v, &count);
	if (!d || count != 2)
		return false;
	for (int i = 0; i < 2; i++) {
		Sym *s = dim_as_sym(d[i]);

		if (s && s->from_data && s->lo < 0)
			sym_bound(infer_ctx(in), s, 0, s->hi);
	}
	a.type = type_tensor(infer_ctx(in), DT_I64, 2, (Dim *[]){d[1], d[0]});
	node_set_attr(n, a);
	return true;
}

/* Checks the image and the regions, of COLUMNS numbers each. */
static bool region_operands(Infer *in, Node *n, int64_t columns)
{
	const Type *x = infer_type(n, X), *r = infer_type(n, ROIS);

	if (!dtype_is_float(x->dtype) || r->dtype != x->dtype)
		return infer_error(in, n, "the operands are %s and %s; expected the same floats",
				   dtype_info[x->dtype].name, dtype_info[r->dtype].name);
	if (x->rank != 4 || r->rank != 2)
		return infer_error(in, n, "the operands have ranks %d and %d; expected 4 and 2",
				   x->rank, r->rank);
	return infer_dim_equals(in, n, &r->dims[1], dim_const(infer_ctx(in), columns),
				"a region has another number of columns");
}

static bool region_result(Infer *in, Node *n, int64_t height, int64_t width)
{
	const Type *x = infer_type(n, X);
	Ctx *c = infer_ctx(in);
	Dim *out[4] = {infer_type(n, ROIS)->dims[0], x->dims[1], dim_const(c, height),
		       dim_const(c, width)};

	if (height < 1 || width < 1 || height > INT32_MAX || width > INT32_MAX)
		return infer_error(in, n, "the result would be %lld x %lld", (long long)height,
				   (long long)width);
	infer_result(in, n, 0, x->dtype, 4, out);
	return infer_places(in, n, x->dims, 1, out, 4) &&
	       infer_places(in, n, x->dims + 2, 2, out, 4);
}

/* Column C of the region R, scaled to the image. */
static Expr *corner(Kernel *k, Node *n, CType t, Expr *r, int column)
{
	Expr *idx[2] = {r, ex_int(k->pool, CT_I64, column)};
	Expr *v = ex_cvt(k->pool, t, kernel_load(k, lower_in(k, ROIS), idx));

	return ex_op2(k->pool, IN_mul, v,
		      ex_num(k->pool, t, (double)node_float(n, "spatial_scale", 1)));
}

/* ---- RoiAlign ---- */

static bool half_pixel(const Node *n)
{
	return !strcmp(node_str(n, "coordinate_transformation_mode", "half_pixel"), "half_pixel");
}

static Value *aligned_size(Infer *in, Node *n, Value *low, Value *high)
{
	Value *v = EXPAND(in, n, Sub, high, low);

	if (half_pixel(n))
		return v;
	return EXPAND(in, n, Max, v, expand_scalar(in, n, v->type->dtype, 1));
}

static bool infer_roi_align(Infer *in, Node *n)
{
	int64_t height = node_int(n, "output_height", 1), width = node_int(n, "output_width", 1),
		ratio = node_int(n, "sampling_ratio", 0);
	const char *mode = node_str(n, "mode", "avg");
	const Type *b = infer_type(n, BATCH);

	if (!region_operands(in, n, 4) || !region_result(in, n, height, width))
		return false;
	if (strcmp(mode, "avg") && strcmp(mode, "max"))
		return infer_error(in, n, "mode is \"%s\", expected avg or max", mode);
	if (ratio < 0 || ratio > INT32_MAX)
		return infer_error(in, n, "sampling_ratio is %lld", (long long)ratio);
	if (b->rank != 1 || !dtype_is_int(b->dtype))
		return infer_error(in, n, "the batch indices are %s of rank %d",
				   dtype_info[b->dtype].name, b->rank);
	if (!infer_equal_dims(in, n, &b->dims[0], &infer_type(n, ROIS)->dims[0],
			      "there must be a batch index for each region"))
		return false;
	return ratio > 0 || largest_bins(in, n, 0, height, width, aligned_size);
}

/* The samples of one spatial dim of a bin, at the iterator AT of SAMPLES. */
typedef struct Samples {
	Expr *count, *at;
	Expr *low, *high; /* the elements between which a sample lies */
	Expr *fraction;
	Expr *outside; /* whether it is too far outside of the image, and counts as 0 */
} Samples;

/*
 * The samples AT of a bin with COUNT samples that begins at BASE and is SIZE long, if these numbers
 * are known only at run time. A region may be far larger than the image, so only samples near the
 * image are visited: those that are outside count as 0. Samples are more than half an element
 * apart, so at most 2 * EXTENT + 3 of them are in [-1, EXTENT]; with one that is outside on each
 * side, which the maximum needs, and two for rounding, that makes 2 * EXTENT + 7.
 */
static Expr *sample_near(Kernel *k, CType t, Dim *most, Dim *extent, Expr *base,
			 Expr *size, Expr *count, Point *red)
{
	Ctx *c = k->ctx;
	ExprPool *p = k->pool;
	Dim *near = dim_add(c, dim_mul(c, extent, dim_const(c, 2)), dim_const(c, 7));
	Expr *first = BUILD_EXPR(k, t, "floor(sub(div(mul(sub(-1, base), count), size), 0.5))",
				 {"base", base}, {"count", ex_cvt(p, t, count)}, {"size", size});

	first = ex_sub(p, ex_cvt(p, CT_I64, first), at_int(k, 2));
	first = ex_op2(p, IN_min, first, ex_sub(p, count, at_int(k, 1)));
	first = ex_op2(p, IN_max, first, at_int(k, 0));
	return ex_add(p, first, point_add(k, red, "s", dim_min(c, most, near)));
}

static Samples samples_init(Kernel *k, Node *n, CType t, int d, Expr *r, Expr *bin, Point *red)
{
	ExprPool *p = k->pool;
	Dim *extent = lower_in(k, X)->dims[d + 2], *bins = lower_out(k, 0)->dims[d + 2];
	int64_t ratio = node_int(n, "sampling_ratio", 0);
	Expr *shift = ex_num(p, t, half_pixel(n) ? 0.5 : 0), *start, *size, *real_bins, *base, *y,
	     *last;
	Samples s;

	start = ex_op2(p, IN_sub, corner(k, n, t, r, 1 - d), shift);
	size = ex_op2(p, IN_sub, ex_op2(p, IN_sub, corner(k, n, t, r, 3 - d), shift), start);
	if (!half_pixel(n))
		size = ex_op2(p, IN_max, size, ex_num(p, t, 1));
	real_bins = ex_cvt(p, t, at_dim(k, bins));
	size = ex_op2(p, IN_div, size, real_bins);
	base = ex_op2(p, IN_add, start, ex_op2(p, IN_mul, ex_cvt(p, t, bin), size));
	if (ratio) {
		s.count = at_int(k, ratio);
		s.at = point_add(k, red, "s", dim_const(k->ctx, ratio));
	} else {
		s.count = ex_cvt(p, CT_I64, ex_op1(p, IN_ceil, size));
		s.count = ex_op2(p, IN_max, s.count, at_int(k, 0));
		s.at = sample_near(k, t, node_attr(n, bin_attr)->type->dims[d], extent, base, size,
				   s.count, red);
	}
	y = BUILD_EXPR(k, t, "add(base, div(mul(add(at, 0.5), size), count))", {"base", base},
		       {"size", size}, {"at", ex_cvt(p, t, s.at)},
		       {"count", ex_cvt(p, t, s.count)});
	s.outside = BUILD_EXPR(k, t, "or(lt(y, -1), gt(y, n))", {"y", y},
			       {"n", ex_cvt(p, t, at_dim(k, extent))});
	y = ex_op2(p, IN_max, y, ex_num(p, t, 0));
	last = at_dim(k, dim_sub(k->ctx, extent, dim_const(k->ctx, 1)));
	s.low = ex_op2(p, IN_max, ex_op2(p, IN_min, ex_cvt(p, CT_I64, y), last), at_int(k, 0));
	s.high = ex_op2(p, IN_min, ex_add(p, s.low, at_int(k, 1)), last);
	s.fraction = ex_op3(p, IN_select, ex_op2(p, IN_ge, s.low, last), ex_num(p, t, 0),
			    ex_op2(p, IN_sub, y, ex_cvt(p, t, s.low)));
	return s;
}

static void lower_roi_align(Infer *in, Node *n, Kernel *k)
{
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, X), *out = lower_out(k, 0), *acc = acc_buf(k, out, false);
	bool max = !strcmp(node_str(n, "mode", "avg"), "max");
	CType t = dtype_ctype(x->dtype);
	Expr *o[4], *xi[4], *v[4], *e, *guard = NULL, *count;
	Point band = {0}, red = {0};
	Samples s[2];

	(void)in;
	point_add_dims(k, &band, out, o);
	for (int d = 0; d < 2; d++) {
		s[d] = samples_init(k, n, t, d, o[0], o[d + 2], &red);
		if (!node_int(n, "sampling_ratio", 0))
			guard = ex_and(p, guard, ex_op2(p, IN_lt, s[d].at, s[d].count));
	}
	xi[0] = ex_cvt(p, CT_I64, kernel_load(k, lower_in(k, BATCH), o));
	xi[0] = ex_op2(p, IN_index, xi[0], at_dim(k, x->dims[0]));
	xi[1] = o[1];
	for (int i = 0; i < 4; i++) {
		xi[2] = i & 2 ? s[0].high : s[0].low;
		xi[3] = i & 1 ? s[1].high : s[1].low;
		v[i] = kernel_load(k, x, xi);
	}
	e = BUILD_EXPR(
		k, t,
		max ? "let v = sub(1, fy); let u = sub(1, fx);"
		      "max(max(mul(mul(v, u), a), mul(mul(v, fx), b)),"
		      " max(mul(mul(fy, u), c), mul(mul(fy, fx), d)))"
		    : "let v = sub(1, fy); let u = sub(1, fx);"
		      "add(mul(v, add(mul(u, a), mul(fx, b))), mul(fy, add(mul(u, c), mul(fx, d))))",
		{"fy", s[0].fraction}, {"fx", s[1].fraction}, {"a", v[0]}, {"b", v[1]}, {"c", v[2]},
		{"d", v[3]});
	e = ex_op3(p, IN_select, ex_op2(p, IN_or, s[0].outside, s[1].outside), ex_num(p, t, 0), e);
	point_reduce(k, max ? MONOID_max : MONOID_sum, &band, &red, acc, o, e, guard);
	/* The number of samples as a float, as that of a huge region needs more than 64 bits. */
	count = ex_op2(p, IN_mul, ex_cvt(p, t, s[0].count), ex_cvt(p, t, s[1].count));
	e = kernel_load(k, acc, o);
	if (max)
		e = ex_op3(p, IN_select, ex_op2(p, IN_eq, count, ex_num(p, t, 0)), ex_num(p, t, 0),
			   e);
	else
		e = ex_op2(p, IN_div, e, ex_op2(p, IN_max, count, ex_num(p, t, 1)));
	point_map(k, &band, out, o, e, NULL);
}

const Op op_RoiAlign = {
	.infer = infer_roi_align, .lower = lower_roi_align, .types = "f",
	.attrs = "coordinate_transformation_mode: string since 16, mode: string, "
		 "output_height: int, output_width: int, sampling_ratio: int, spatial_scale: float, "
		 "bin: type own",
};

/* ---- MaxRoiPool ---- */

/* Rounds to nearest, halves away from 0. */
static const char round_text[] = "copysign(floor(add(abs(x), 0.5)), x)";

static Value *rounded(Infer *in, Node *n, Value *v)
{
	Value *half = expand_scalar(in, n, acc_dtype(infer_type(n, ROIS)->dtype), 0.5);

	return EXPAND(in, n, Mul,
		      EXPAND(in, n, Floor, EXPAND(in, n, Add, EXPAND(in, n, Abs, v), half)),
		      EXPAND(in, n, Sign, v));
}

static Value *pooled_size(Infer *in, Node *n, Value *low, Value *high)
{
	Value *one = expand_scalar(in, n, acc_dtype(infer_type(n, ROIS)->dtype), 1);
	Value *v = EXPAND(in, n, Sub, rounded(in, n, high), rounded(in, n, low));

	return EXPAND(in, n, Max, EXPAND(in, n, Add, v, one), one);
}

static bool infer_max_roi(Infer *in, Node *n)
{
	int count;
	const int64_t *shape = node_ints(n, "pooled_shape", &count);

	if (count != 2)
		return infer_error(in, n, "pooled_shape has %d entries, expected 2", count);
	return region_operands(in, n, 5) && region_result(in, n, shape[0], shape[1]) &&
	       largest_bins(in, n, 1, shape[0], shape[1], pooled_size);
}

/* The index of an element of the bin in dim D of the image; *GUARD gets its bounds, and *EMPTY
 * whether there is none. */
static Expr *bin_element(Kernel *k, Node *n, CType t, int d, Expr *r, Expr *bin, Point *red,
			 Expr **guard, Expr **empty)
{
	ExprPool *p = k->pool;
	Ctx *c = k->ctx;
	Dim *extent = lower_in(k, X)->dims[d + 2], *largest = node_attr(n, bin_attr)->type->dims[d];
	Expr *low, *high, *size, *from, *to, *at, *bins;

	low = BUILD_EXPR(k, t, round_text, {"x", corner(k, n, t, r, 2 - d)});
	high = BUILD_EXPR(k, t, round_text, {"x", corner(k, n, t, r, 4 - d)});
	bins = ex_cvt(p, t, at_dim(k, lower_out(k, 0)->dims[d + 2]));
	size = BUILD_EXPR(k, t, "div(max(add(sub(high, low), 1), 1), bins)", {"high", high},
			  {"low", low}, {"bins", bins});
	bin = ex_cvt(p, t, bin);
	from = BUILD_EXPR(k, t, "max(add(floor(mul(bin, size)), low), 0)", {"bin", bin},
			  {"size", size}, {"low", low});
	to = BUILD_EXPR(k, t, "min(add(ceil(mul(add(bin, 1), size)), low), n)", {"bin", bin},
			{"size", size}, {"low", low}, {"n", ex_cvt(p, t, at_dim(k, extent))});
	/* A bin touches at most one element more than its size, rounded up. */
	at = point_add(k, red, "s", dim_min(c, extent, dim_add(c, largest, dim_const(c, 1))));
	at = ex_add(p, ex_cvt(p, CT_I64, from), at);
	*guard = ex_and(p, *guard, ex_op2(p, IN_lt, at, ex_cvt(p, CT_I64, to)));
	from = ex_op2(p, IN_ge, from, to);
	*empty = *empty ? ex_op2(p, IN_or, *empty, from) : from;
	return at;
}

static void lower_max_roi(Infer *in, Node *n, Kernel *k)
{
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, X), *out = lower_out(k, 0),
	    *best = kernel_temp(k, "best", x->dtype, 4, out->dims);
	CType t = dtype_ctype(x->dtype);
	Expr *o[4], *xi[4], *idx[2], *guard = NULL, *empty = NULL, *e;
	Point band = {0}, red = {0};

	(void)in;
	point_add_dims(k, &band, out, o);
	idx[0] = o[0];
	idx[1] = at_int(k, 0);
	xi[0] = ex_cvt(p, CT_I64, kernel_load(k, lower_in(k, ROIS), idx));
	xi[0] = ex_op2(p, IN_index, xi[0], at_dim(k, x->dims[0]));
	xi[1] = o[1];
	for (int d = 0; d < 2; d++)
		xi[d + 2] = bin_element(k, n, t, d, o[0], o[d + 2], &red, &guard, &empty);
	point_reduce(k, MONOID_max, &band, &red, best, o, kernel_load(k, x, xi), guard);
	e = ex_op3(p, IN_select, empty, ex_num(p, t, 0), kernel_load(k, best, o));
	point_map(k, &band, out, o, e, NULL);
}

const Op op_MaxRoiPool = {
	.infer = infer_max_roi, .lower = lower_max_roi, .types = "f",
	.attrs = "pooled_shape: ints, spatial_scale: float, bin: type own",
};
