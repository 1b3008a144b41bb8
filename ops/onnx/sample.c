/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling. If the scale of a dim is a quotient of dims, the coordinate is an exact quotient (a * y
 * + b) / c of integers, without rounding and floats; for an integer scale the element is at
 * floordiv(y, scale). Otherwise (scales or a region of interest that only run time knows) the
 * coordinate is computed in f64, in the order of ONNX's reference.
 *
 * Nearest sampling rounds the coordinate, and the result must be that of the reference, which
 * computes in f32 where scales are given, and in f64 where sizes are. If the sizes are known, exact
 * quotients are used only if they agree with the reference at every point; else only if no tie can
 * be rounded wrongly.
 *
 * Nearest and N-linear sampling are one map. Cubic and antialiased sampling work dim by dim: a
 * small table of weights for (tap, point), then a contraction with it.
 */
#include "ops/onnx/sample.h"

#include <math.h>

enum {
	/* Linear sampling in more dims works dim by dim: one map would read 2^dims elements for a
	 * point. */
	MAP_AXES = 3,
	/* For symbolic sizes, a scale P/Q with P up to this is exact in f32, too: a coordinate is a
	 * multiple of 1/2P, so that below 2^23 / P rounding to f32 does not reach the next one. */
	FEW_PARTS = 64,
};

/* ---- Coordinates ---- */

/* The coordinate of an output point: NUM / DEN in integers, or X in f64. */
typedef struct Coord {
	Expr *num, *den, *x;
} Coord;

/* Sets a, b and c so that x = (a * y + b) / c, for a dim whose scale is a quotient of dims. */
static void exact_coefficients(Ctx *c, const Sampling *s, const Axis *a, Dim **pa, Dim **pb,
			       Dim **pc)
{
	Dim *one = dim_const(c, 1), *two = dim_const(c, 2), *zero = dim_const(c, 0);

	*pa = dim_mul(c, two, a->den);
	*pb = s->transform == TF_HALF_PIXEL ? a->den : dim_sub(c, a->den, a->num);
	*pc = dim_mul(c, two, a->num);
	if (s->transform == SYMMETRIC)
		*pb = dim_add(c, *pb,
			      dim_sub(c, dim_mul(c, a->in, a->num), dim_mul(c, a->out, a->den)));
	if (s->transform == PYTORCH &&
	    !dim_prove_le(c, a->den, a->num)) /* otherwise the only element is taken anyway */
		*pb = dim_select(c, dim_eq(c, a->out, one), zero, *pb);
	if (s->transform == ASYMMETRIC || s->transform == ALIGN_CORNERS)
		*pb = zero;
	if (s->transform == ASYMMETRIC) {
		*pa = a->den;
		*pc = a->num;
	}
	if (s->transform == ALIGN_CORNERS) {
		*pa = dim_mul(c, dim_sub(c, a->in, one), a->den);
		*pc = dim_max(c, dim_sub(c, dim_mul(c, a->in, a->num), a->den), one);
	}
}

/* Coordinates in floats, over y, n (input extent), m (output extent), s (scale), w (s * n), o
 * (symmetric_offset), and a crop's p (start) and q (width as a fraction of the input). */
static const char *const transform_text[] = {
	[HALF_PIXEL] = "sub(div(add(y, 0.5), s), 0.5)",
	[SYMMETRIC] = "sub(add(o, div(add(y, 0.5), s)), 0.5)",
	[PYTORCH] = "select(eq(m, 1), 0, sub(div(add(y, 0.5), s), 0.5))",
	[ALIGN_CORNERS] = "select(eq(w, 1), 0, div(mul(y, sub(n, 1)), sub(w, 1)))",
	[ASYMMETRIC] = "div(y, s)",
	[TF_HALF_PIXEL] = "div(add(y, 0.5), s)",
	[CROP] =
		"add(p, select(eq(w, 1), div(mul(q, sub(n, 1)), 2), div(mul(mul(y, q), sub(n, 1)), sub(w, 1))))",
};

static Expr *load_at(Kernel *k, Buf *b, int at)
{
	Expr *i = ex_int(k->pool, CT_I64, at);

	return kernel_load(k, b, &i);
}

static Expr *dim_float(Kernel *k, CType t, Dim *d)
{
	return ex_cvt(k->pool, t, ex_dim(k->pool, d));
}

static Expr *scale_float(Kernel *k, const Sampling *s, CType t, const Axis *a)
{
	if (!a->num)
		return ex_cvt(k->pool, t, load_at(k, s->scales, a->at));
	return ex_op2(k->pool, IN_div, dim_float(k, t, a->num), dim_float(k, t, a->den));
}

/* Start and width of a crop as fractions of the input, computed in the type of roi, as the
 * reference does. */
static void crop_region(Kernel *k, const Sampling *s, const Axis *a, Expr **start, Expr **width)
{
	ExprPool *p = k->pool;
	Expr *from, *to, *last;

	*start = *width = ex_num(p, CT_F64, 0);
	if (s->transform != CROP)
		return;
	from = load_at(k, s->roi, a->at);
	to = load_at(k, s->roi, s->count + a->at);
	last = dim_float(k, from->ct, dim_sub(k->ctx, a->in, dim_const(k->ctx, 1)));
	*start = ex_cvt(p, CT_F64, ex_op2(p, IN_mul, from, last));
	*width = ex_cvt(p, CT_F64, ex_op2(p, IN_sub, to, from));
}

/* A coordinate in floats. With scales, the offset of half_pixel_symmetric is rounded to f32, and
 * the sum with it only once, as in ONNX Runtime. */
static Expr *float_coord(Kernel *k, const Sampling *s, const Axis *a, Expr *y)
{
	ExprPool *p = k->pool;
	const CType t = s->single ? CT_F32 : CT_F64, sum = s->transform == SYMMETRIC ? CT_F64 : t;
	Expr *scale = scale_float(k, s, t, a), *n = dim_float(k, t, a->in), *start, *width, *offset,
	     *m = dim_float(k, t, a->out), *w = ex_op2(p, IN_mul, scale, n);

	crop_region(k, s, a, &start, &width);
	offset = BUILD_EXPR(k, t, "mul(div(n, 2), sub(1, div(m, w)))", {"n", n}, {"m", m}, {"w", w});
	return ex_cvt(p, t,
		      BUILD_EXPR(k, sum, transform_text[s->transform], {"y", ex_cvt(p, sum, y)},
				 {"n", n}, {"m", m}, {"s", ex_cvt(p, sum, scale)}, {"w", w},
				 {"o", ex_cvt(p, sum, offset)}, {"p", start}, {"q", width}));
}

static Coord coord(Kernel *k, const Sampling *s, const Axis *a, Expr *y)
{
	ExprPool *p = k->pool;
	Dim *da, *db, *dc;

	if (!a->num || s->transform == CROP)
		return (Coord){.x = float_coord(k, s, a, y)};
	exact_coefficients(k->ctx, s, a, &da, &db, &dc);
	return (Coord){.num = ex_add(p, ex_mul(p, y, ex_dim(p, da)), ex_dim(p, db)),
		       .den = ex_dim(p, dc)};
}

static Expr *coord_floor(Kernel *k, const Coord *c)
{
	if (c->x)
		return ex_cvt(k->pool, CT_I64, ex_op1(k->pool, IN_floor, c->x));
	return ex_op2(k->pool, IN_floordiv, c->num, c->den);
}

/* The fractional part of the coordinate, in [0, 1). */
static Expr *coord_fraction(Kernel *k, CType t, const Coord *c)
{
	ExprPool *p = k->pool;

	if (c->x)
		return ex_cvt(p, t, ex_op2(p, IN_sub, c->x, ex_op1(p, IN_floor, c->x)));
	return ex_op2(p, IN_div, ex_cvt(p, t, ex_op2(p, IN_mod, c->num, c->den)),
		      ex_cvt(p, t, c->den));
}

static Expr *clamped(Kernel *k, Expr *i, Dim *extent)
{
	ExprPool *p = k->pool;
	Expr *last = ex_dim(p, dim_sub(k->ctx, extent, dim_const(k->ctx, 1)));

	return ex_op2(p, IN_max, ex_op2(p, IN_min, i, last), ex_int(p, CT_I64, 0));
}

/* Whether the point of a crop is outside of the input in any dim; null if there is no crop. */
static Expr *outside(Kernel *k, const Sampling *s, Expr *const *y)
{
	ExprPool *p = k->pool;
	Expr *any = NULL;

	for (int d = 0; d < s->rank && s->transform == CROP; d++) {
		Coord c;
		Expr *out;

		if (!s->axis[d].used)
			continue;
		c = coord(k, s, &s->axis[d], y[d]);
		out = BUILD_EXPR(k, CT_F64, "or(lt(x, 0), gt(x, sub(n, 1)))", {"x", c.x},
				 {"n", dim_float(k, CT_F64, s->axis[d].in)});
		any = any ? ex_op2(p, IN_or, any, out) : out;
	}
	return any;
}

/* ---- Nearest ---- */

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b != 0 && (a ^ b) < 0);
}

/* The index that is chosen for num / den; float_pick must choose the same for x. */
static int64_t exact_pick(Nearest m, int64_t num, int64_t den)
{
	switch (m) {
	case PREFER_FLOOR: return -floor_div(den - 2 * num, 2 * den);
	case PREFER_CEIL: return floor_div(2 * num + den, 2 * den);
	case CEIL: return -floor_div(-num, den);
	case FLOOR:
	case NEAREST_COUNT: break;
	}
	return floor_div(num, den);
}

static int64_t float_pick(Nearest m, double x)
{
	double f = floor(x), rest = x - f;
	bool up = m == PREFER_FLOOR  ? rest > 0.5
		  : m == PREFER_CEIL ? rest >= 0.5
				     : m == CEIL && rest > 0;

	return (int64_t)f + up;
}

/* V, rounded to the type of the reference's coordinates. */
static double rounded(const Sampling *s, double v)
{
	return s->single ? (double)(float)v : v;
}

/* The parameters of float_coord. */
static double reference_coord(const Sampling *s, double y, double n, double m, double scale)
{
	const double w = rounded(s, scale * n), centre = rounded(s, y + 0.5);
	double offset;

	switch (s->transform) {
	case SYMMETRIC:
		offset = rounded(s, n / 2 * rounded(s, 1 - rounded(s, m / w)));
		return rounded(s, offset + (y + 0.5) / scale - 0.5);
	case PYTORCH: return m == 1 ? 0 : rounded(s, rounded(s, centre / scale) - 0.5);
	case ALIGN_CORNERS:
		return w == 1 ? 0 : rounded(s, rounded(s, y * (n - 1)) / rounded(s, w - 1));
	case ASYMMETRIC: return rounded(s, y / scale);
	case TF_HALF_PIXEL: return rounded(s, centre / scale);
	case HALF_PIXEL:
	case CROP:
	case TRANSFORM_COUNT: break;
	}
	return rounded(s, rounded(s, centre / scale) - 0.5);
}

/* Whether the scale is a quotient whose coordinates are exact in the reference's arithmetic. */
static bool few_parts(const Sampling *s, const Axis *a)
{
	int64_t num;

	if (!s->single)
		return (dim_is_const(a->num, NULL) && dim_is_const(a->den, NULL)) ||
		       dim_equals(a->den, 1) || dim_equals(a->num, 1);
	return dim_is_const(a->num, &num) && num <= FEW_PARTS;
}

/* Whether exact quotients choose the same elements as ONNX's reference. */
static bool exact_nearest(Ctx *c, const Sampling *s, const Axis *a)
{
	Dim *dim[3];
	int64_t n, m, num, den, k[3];

	if (!a->num || s->transform == CROP)
		return false;
	if (!dim_is_const(a->in, &n) || !dim_is_const(a->out, &m))
		return few_parts(s, a);
	exact_coefficients(c, s, a, &dim[0], &dim[1], &dim[2]);
	for (int i = 0; i < 3; i++)
		if (!dim_is_const(dim[i], &k[i]) || k[i] > INT64_C(1) << 40 ||
		    k[i] < -(INT64_C(1) << 40))
			return false;
	if (!dim_is_const(a->num, &num) || !dim_is_const(a->den, &den) || m > 1 << 20 ||
	    n > 1 << 20 || !den)
		return false;
	for (int64_t y = 0; y < m; y++)
		if (exact_pick(s->nearest, k[0] * y + k[1], k[2]) !=
		    float_pick(s->nearest, reference_coord(s, (double)y, (double)n, (double)m,
							   (double)num / (double)den)))
			return false;
	return true;
}

/* An integer factor with pixel centres or corners repeats or skips elements, without rounding
 * and limiting. */
static Expr *whole_factor(Kernel *k, const Sampling *s, const Axis *a, Expr *y)
{
	Ctx *c = k->ctx;
	ExprPool *p = k->pool;
	bool corner = s->transform == ASYMMETRIC && s->nearest == FLOOR;
	bool centre = s->transform <= PYTORCH &&
		      (s->nearest == PREFER_FLOOR || s->nearest == PREFER_CEIL);

	if (!a->num || s->transform == CROP)
		return NULL;
	if (dim_equals(a->den, 1) && (corner || centre) && a->out == dim_mul(c, a->in, a->num))
		return ex_op2(p, IN_floordiv, y, ex_dim(p, a->num));
	if (dim_equals(a->num, 1) && s->transform == ASYMMETRIC &&
	    (s->nearest == FLOOR || s->nearest == CEIL) && a->out == dim_floordiv(c, a->in, a->den))
		return ex_mul(p, y, ex_dim(p, a->den));
	return NULL;
}

/* The scale S for axis A: opset 10 rounds up where an image becomes smaller. A scale that is known
 * only at run time has no such form. */
static Sampling sampling_of(Ctx *c, const Sampling *s, const Axis *a)
{
	Sampling r = *s;

	if (s->ceil_below_one && a->num && dim_prove_lt(c, a->num, a->den)) {
		r.nearest = CEIL;
		r.ceil_below_one = false;
	}
	return r;
}

static Expr *nearest_index(Kernel *k, const Sampling *sampling, const Axis *a, Expr *y)
{
	static const char *const exact[] = {"neg(floordiv(sub(d, mul(2, n)), mul(2, d)))",
					    "floordiv(add(mul(2, n), d), mul(2, d))",
					    "floordiv(n, d)", "neg(floordiv(neg(n), d))"};
	static const char *const real[] = {
		"let f = floor(x); select(gt(sub(x, f), 0.5), add(f, 1), f)",
		"let f = floor(x); select(ge(sub(x, f), 0.5), add(f, 1), f)", "floor(x)",
		"ceil(x)"};
	const Sampling for_axis = sampling_of(k->ctx, sampling, a), *s = &for_axis;
	Expr *e = whole_factor(k, s, a, y), *x;
	Coord c;

	if (e)
		return e;
	if (exact_nearest(k->ctx, s, a)) {
		c = coord(k, s, a, y);
		e = BUILD_EXPR(k, CT_I64, exact[s->nearest], {"n", c.num}, {"d", c.den});
	} else {
		x = float_coord(k, s, a, y);
		e = BUILD_EXPR(k, x->ct, real[s->nearest], {"x", x});
		if (s->ceil_below_one && !a->num)
			e = BUILD_EXPR(k, x->ct, "select(lt(s, 1), ceil(x), e)", {"x", x}, {"e", e},
				       {"s", scale_float(k, s, x->ct, a)});
		e = ex_cvt(k->pool, CT_I64, e);
	}
	return clamped(k, e, a->in);
}

static void lower_nearest(Kernel *k, const Sampling *s)
{
	Buf *x = s->x, *out = s->out;
	Expr *oi[MAX_RANK], *xi[MAX_RANK], *val, *crop;
	Point all = {0};

	point_add_dims(k, &all, out, oi);
	for (int d = 0; d < s->rank; d++)
		xi[d] = s->axis[d].used ? nearest_index(k, s, &s->axis[d], oi[d]) : oi[d];
	val = kernel_load(k, x, xi);
	crop = outside(k, s, oi);
	if (crop)
		val = ex_op3(k->pool, IN_select, crop,
			     ex_num(k->pool, val->ct, (double)s->extrapolation), val);
	point_map(k, &all, out, oi, val, NULL);
}

/* ---- Linear, as one map ---- */

/* The type that elements of T are interpolated in. */
static DType real_dtype(DType t)
{
	if (dtype_is_float(t))
		return acc_dtype(t);
	return dtype_info[t].bits <= 16 ? DT_F32 : DT_F64;
}

/* Converts V from the interpolation's type to an element of T: integers are rounded to nearest
 * and saturate. */
static Expr *to_element(Kernel *k, DType t, Expr *v)
{
	ExprPool *p = k->pool;
	int bits = dtype_info[t].bits;
	double lo, hi;

	if (dtype_is_float(t))
		return v;
	v = ex_op1(p, IN_rint, v);
	lo = dtype_is_signed(t) ? -ldexp(1, bits - 1) : 0;
	hi = ldexp(1, dtype_is_signed(t) ? bits - 1 : bits) - 1;
	if (bits < 32)
		v = ex_op2(p, IN_max, ex_op2(p, IN_min, v, ex_num(p, v->ct, hi)),
			   ex_num(p, v->ct, lo));
	return ex_cvt(p, dtype_ctype(t), v);
}

static Expr *extrapolated(Kernel *k, const Sampling *s, Expr *const *y, Expr *v)
{
	Expr *crop = outside(k, s, y);

	return crop ? ex_op3(k->pool, IN_select, crop,
			     ex_num(k->pool, v->ct, (double)s->extrapolation), v)
		    : v;
}

/* The sample at index XI, which is set for dims below D: interpolates between two elements in
 * every dim that is resized. */
static Expr *linear_sample(Kernel *k, const Sampling *s, CType t, Buf *x, int d, Expr *const *y,
			   Expr **xi)
{
	ExprPool *p = k->pool;
	const Axis *a = &s->axis[d];
	Expr *at, *above, *frac, *rest, *lo, *hi;
	Coord c;

	if (d == s->rank)
		return ex_cvt(p, t, kernel_load(k, x, xi));
	xi[d] = y[d];
	if (!a->used)
		return linear_sample(k, s, t, x, d + 1, y, xi);
	c = coord(k, s, a, y[d]);
	at = coord_floor(k, &c);
	above = ex_add(p, at, ex_int(p, CT_I64, 1));
	frac = coord_fraction(k, t, &c);
	rest = ex_op2(p, IN_sub, ex_num(p, t, 1), frac);
	if (s->exclude) {
		Expr *zero = ex_num(p, t, 0), *one = ex_num(p, t, 1), *in0, *in1;

		in0 = ex_inside(p, at, ex_dim(p, a->in));
		in1 = ex_inside(p, above, ex_dim(p, a->in));
		rest = ex_op3(p, IN_select, in0, ex_op3(p, IN_select, in1, rest, one), zero);
		frac = ex_op2(p, IN_sub, one, rest);
	}
	xi[d] = clamped(k, at, a->in);
	lo = linear_sample(k, s, t, x, d + 1, y, xi);
	xi[d] = clamped(k, above, a->in);
	hi = linear_sample(k, s, t, x, d + 1, y, xi);
	return ex_op2(p, IN_add, ex_op2(p, IN_mul, lo, rest), ex_op2(p, IN_mul, hi, frac));
}

static void lower_linear(Kernel *k, const Sampling *s)
{
	Buf *x = s->x, *out = s->out;
	CType t = dtype_ctype(real_dtype(x->dtype));
	Expr *oi[MAX_RANK], *xi[MAX_RANK], *val;
	Point all = {0};

	point_add_dims(k, &all, out, oi);
	val = linear_sample(k, s, t, x, 0, oi, xi);
	val = extrapolated(k, s, oi, val);
	point_map(k, &all, out, oi, to_element(k, out->dtype, val), NULL);
}

/* ---- Weighted taps, dim by dim ---- */

/* Half the number of taps in a dim: the filter's radius, enlarged when antialiasing a reduction. */
static Dim *half_taps(Ctx *c, const Sampling *s, const Axis *a)
{
	Dim *radius = dim_const(c, s->mode == CUBIC ? 2 : 1), *wide;

	if (!s->antialias)
		return radius;
	if (a->num)
		wide = dim_ceildiv(c, dim_mul(c, radius, a->den), a->num);
	else
		wide = dim_ceildiv(c, dim_mul(c, radius, a->in),
				   dim_max(c, a->out, dim_const(c, 1)));
	return dim_max(c, radius, wide);
}

static const char *const filter_text[] = {
	[LINEAR] = "max(sub(1, abs(x)), 0)",
	[CUBIC] =
		"let v = abs(x); select(le(v, 1),"
		" add(mul(mul(sub(mul(add(a, 2), v), add(a, 3)), v), v), 1),"
		" select(lt(v, 2), sub(mul(add(mul(sub(mul(a, v), mul(5, a)), v), mul(8, a)), v), mul(4, a)), 0))",
};

/* Makes the table of weights over (tap, point) for dim D: those of adjacent points are adjacent. */
static Buf *weight_table(Kernel *k, const Sampling *s, const Axis *a, DType type)
{
	Ctx *c = k->ctx;
	ExprPool *p = k->pool;
	CType t = dtype_ctype(type);
	Dim *half = half_taps(c, s, a), *dims[2] = {dim_mul(c, half, dim_const(c, 2)), a->out};
	Buf *raw = kernel_temp(k, "weight", type, 2, dims), *sum, *norm;
	Expr *idx[2], *tap, *w;
	Point all = {0}, band = {0}, red = {0};
	Coord at;

	point_add_dims(k, &all, raw, idx);
	at = coord(k, s, a, idx[1]);
	tap = ex_sub(p, ex_add(p, idx[0], ex_int(p, CT_I64, 1)), ex_dim(p, half));
	w = ex_op2(p, IN_sub, ex_cvt(p, t, tap), coord_fraction(k, t, &at));
	if (s->antialias && !(a->num && dim_prove_le(c, a->den, a->num)))
		w = ex_op2(p, IN_mul, w,
			   ex_op2(p, IN_min, scale_float(k, s, t, a), ex_num(p, t, 1)));
	w = BUILD_EXPR(k, t, filter_text[s->mode], {"x", w},
		       {"a", ex_num(p, t, (double)s->cubic_a)});
	if (s->exclude)
		w = ex_op3(p, IN_select,
			   ex_inside(p, ex_add(p, coord_floor(k, &at), tap), ex_dim(p, a->in)), w,
			   ex_num(p, t, 0));
	point_map(k, &all, raw, idx, w, NULL);
	if (!s->antialias && !s->exclude)
		return raw;
	sum = kernel_temp(k, "total", type, 1, dims + 1);
	norm = kernel_temp(k, "share", type, 2, dims);
	idx[1] = point_add(k, &band, "y", dims[1]);
	idx[0] = point_add(k, &red, "t", dims[0]);
	point_reduce(k, MONOID_sum, &band, &red, sum, idx + 1, kernel_load(k, raw, idx), NULL);
	all = (Point){0};
	point_add_dims(k, &all, norm, idx);
	w = BUILD_EXPR(k, t, "div(w, select(eq(s, 0), 1, s))", {"w", kernel_load(k, raw, idx)},
		       {"s", kernel_load(k, sum, idx + 1)});
	point_map(k, &all, norm, idx, w, NULL);
	return norm;
}

/* DST = SRC with dim D resized. */
static void taps_pass(Kernel *k, const Sampling *s, int d, Buf *src, Buf *dst, DType type)
{
	const Axis *a = &s->axis[d];
	ExprPool *p = k->pool;
	CType t = dtype_ctype(type);
	Buf *table = weight_table(k, s, a, type);
	Expr *oi[MAX_RANK], *xi[MAX_RANK], *wi[2], *tap;
	Point band = {0}, red = {0};
	Coord at;

	point_add_dims(k, &band, dst, oi);
	for (int i = 0; i < s->rank; i++)
		xi[i] = oi[i];
	wi[0] = point_add(k, &red, "t", table->dims[0]);
	wi[1] = oi[d];
	at = coord(k, s, a, oi[d]);
	tap = ex_sub(p, ex_add(p, wi[0], ex_int(p, CT_I64, 1)), ex_dim(p, half_taps(k->ctx, s, a)));
	xi[d] = clamped(k, ex_add(p, coord_floor(k, &at), tap), a->in);
	point_reduce(
		k, MONOID_sum, &band, &red, dst, oi,
		ex_op2(p, IN_mul, ex_cvt(p, t, kernel_load(k, src, xi)), kernel_load(k, table, wi)),
		NULL);
}

/* How many times as large A makes its dim; 1 if that is not known. */
static double growth(const Axis *a)
{
	int64_t in, out;

	return dim_is_const(a->in, &in) && dim_is_const(a->out, &out) && in && out
		       ? (double)out / (double)in
		       : 1;
}

/* The dims that are resized, those that shrink most first: later passes have fewer elements then. A
 * crop of 32x32 pixels to 7x7 in a batch and channels that are resized, too, by 1, took three times
 * as long in the order of dims. Returns their number. */
static int pass_order(const Sampling *s, int *order)
{
	int n = 0;

	for (int d = 0; d < s->rank; d++) {
		int at = n;

		if (!s->axis[d].used)
			continue;
		for (; at && growth(&s->axis[order[at - 1]]) > growth(&s->axis[d]); at--)
			order[at] = order[at - 1];
		order[at] = d;
		n++;
	}
	return n;
}

static void lower_taps(Kernel *k, const Sampling *s)
{
	Buf *src = s->x, *out = s->out;
	DType type = real_dtype(src->dtype);
	bool direct = out->dtype == type && s->transform != CROP;
	int order[MAX_RANK];
	const int n = pass_order(s, order);
	Dim *dims[MAX_RANK];
	Expr *oi[MAX_RANK], *val;
	Point all = {0};

	memcpy(dims, src->dims, (size_t)s->rank * sizeof *dims);
	for (int i = 0; i < n; i++) {
		const int d = order[i];
		Buf *dst = out;

		dims[d] = s->axis[d].out;
		if (i + 1 < n || !direct)
			dst = kernel_temp(k, "pass", type, s->rank, dims);
		taps_pass(k, s, d, src, dst, type);
		src = dst;
	}
	if (src == out)
		return;
	point_add_dims(k, &all, out, oi);
	val = extrapolated(k, s, oi, ex_cvt(k->pool, dtype_ctype(type), kernel_load(k, src, oi)));
	point_map(k, &all, out, oi, to_element(k, out->dtype, val), NULL);
}

static int axes_used(const Sampling *s)
{
	int used = 0;

	for (int d = 0; d < s->rank; d++)
		used += s->axis[d].used;
	return used;
}

bool sample_by_dim(const Sampling *s)
{
	const int used = axes_used(s);

	return used && s->mode != NEAREST && (s->mode != LINEAR || s->antialias || used > MAP_AXES);
}

void sample_lower(Kernel *k, const Sampling *s)
{
	if (sample_by_dim(s))
		lower_taps(k, s);
	else if (s->mode == NEAREST || !axes_used(s))
		lower_nearest(k, s);
	else
		lower_linear(k, s);
}
