/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resize: samples of the input at coordinates that each output dim gives by itself.
 *
 * Where the scale of a dim is a quotient of dims (sizes, or constant scales, which are exact binary
 * fractions), the coordinate is an exact quotient (a * y + b) / c of integers: no rounding, no floats,
 * and whole factors read at floordiv(y, factor). Otherwise (scales or a region of interest that only run
 * time knows) it is computed in f64, in the order of ONNX's reference. Nearest picks must not depend on
 * such rounding: exact quotients are used there only where they agree with the reference on every point
 * of a known size, or where no tie can be rounded away.
 *
 * Nearest and N-linear are one map. Cubic and antialiased sampling goes dim by dim: a small table of
 * weights (point, tap), then a contraction with it.
 */
#include "ops/build.h"

#include <math.h>

typedef enum Transform { HALF_PIXEL, SYMMETRIC, PYTORCH, ALIGN_CORNERS, ASYMMETRIC, CROP, TRANSFORM_COUNT } Transform;
typedef enum Nearest { PREFER_FLOOR, PREFER_CEIL, FLOOR, CEIL, NEAREST_COUNT } Nearest;
typedef enum Mode { NEAREST, LINEAR, CUBIC, MODE_COUNT } Mode;

static const char *const transform_name[] = {
	"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"
};
static const char *const nearest_name[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
static const char *const mode_name[] = {"nearest", "linear", "cubic"};

enum { X, ROI, SCALES, SIZES, MAX_SCALE_BITS = 40, MAP_AXES = 3 };

typedef struct Axis {
	bool used;       /* else the dim is copied */
	int at;          /* its place in roi and scales */
	Dim *in, *out;
	Dim *num, *den;  /* the scale; null: run time reads it */
} Axis;

typedef struct Sampling {
	Mode mode;
	Transform transform;
	Nearest nearest;
	bool antialias, exclude;
	int rank, count; /* dims; of them given in roi, scales, sizes */
	Axis axis[MAX_RANK];
} Sampling;

/* ---- Attributes and sizes ---- */

static bool choice(Infer *in, Node *n, const char *attr, const char *const *names, int count, int *out)
{
	const char *s = node_str(n, attr, names[0]);

	for (*out = 0; *out < count; ++*out)
		if (!strcmp(s, names[*out]))
			return true;
	*out = 0;
	return !in || infer_error(in, n, "%s \"%s\" is not supported", attr, s);
}

/* Operand K, where it is not omitted, in either of the two ways. */
static const Type *given(const Node *n, int k)
{
	const Type *t = infer_type(n, k);

	return t && t->rank == 1 && dim_equals(t->dims[0], 0) ? NULL : t;
}

static bool sampling_attrs(Infer *in, Node *n, Sampling *s)
{
	int mode, transform, nearest, count, axis;
	const int64_t *axes = node_ints(n, "axes", &count);
	bool seen[MAX_RANK] = {false};

	*s = (Sampling){.rank = infer_type(n, X)->rank};
	if (!choice(in, n, "mode", mode_name, MODE_COUNT, &mode) ||
	    !choice(in, n, "coordinate_transformation_mode", transform_name, TRANSFORM_COUNT, &transform) ||
	    !choice(in, n, "nearest_mode", nearest_name, NEAREST_COUNT, &nearest))
		return false;
	s->mode = (Mode)mode;
	s->transform = (Transform)transform;
	s->nearest = (Nearest)nearest;
	s->antialias = node_int(n, "antialias", 0) && s->mode != NEAREST;
	s->exclude = node_int(n, "exclude_outside", 0) && s->mode != NEAREST;
	s->count = count > 0 ? count : s->rank;
	if (in && s->count > s->rank)
		return infer_error(in, n, "has %d axes for rank %d", s->count, s->rank);
	for (int i = 0; i < s->count; i++) {
		axis = i;
		if (count > 0 && in && !infer_axis(in, n, axes[i], s->rank, &axis))
			return false;
		if (count > 0 && !in)
			axis = (int)(axes[i] < 0 ? axes[i] + s->rank : axes[i]);
		if (in && seen[axis])
			return infer_error(in, n, "axis %d is given twice", axis);
		seen[axis] = true;
		s->axis[axis].used = true;
		s->axis[axis].at = i;
	}
	return true;
}

/* SCALE as an exact quotient; false where it is too large, too small, or no positive number. */
static bool exact_scale(double scale, int64_t *num, int64_t *den)
{
	int e;
	double m;

	if (!(scale > 0) || scale > ldexp(1, MAX_SCALE_BITS - 24))
		return false;
	m = frexp(scale, &e);
	*num = (int64_t)ldexp(m, 24);
	e = 24 - e;
	while (e > 0 && *num % 2 == 0) {
		*num /= 2;
		e--;
	}
	if (e < 0)
		*num <<= -e;
	*den = INT64_C(1) << (e > 0 ? e : 0);
	return e <= MAX_SCALE_BITS;
}

/* floor(d * scale) as ONNX computes it, in f32. Of a symbolic dim: the product with the simple fraction
 * that rounds to SCALE, since the exact one would fall below whole sizes. */
static Dim *scaled_dim(Ctx *c, Dim *d, float scale, int64_t num, int64_t den)
{
	int64_t v;

	if (dim_is_const(d, &v))
		return dim_const(c, (int64_t)floorf((float)v * scale));
	for (int q = 1; q <= 1000 && den > 1024; q++) {
		double p = rint((double)scale * q);

		if (p >= 1 && (float)(p / q) == scale) {
			num = (int64_t)p;
			den = q;
		}
	}
	return dim_floordiv(c, dim_mul(c, d, dim_const(c, num)), dim_const(c, den));
}

/* The scale out / in, in lowest terms where one divides the other. */
static void scale_of_sizes(Ctx *c, Axis *a)
{
	Dim *q;

	a->num = a->out;
	a->den = a->in;
	if (dim_divides(c, a->out, a->in, &q)) {
		a->num = q;
		a->den = dim_const(c, 1);
	} else if (dim_divides(c, a->in, a->out, &q)) {
		a->num = dim_const(c, 1);
		a->den = q;
	}
}

/* Sizes that keep the aspect ratio: every axis has the least or the largest of the scales. */
static void keep_aspect(Ctx *c, Sampling *s, bool largest)
{
	Dim *num = NULL, *den = NULL, *two = dim_const(c, 2);

	for (int d = 0; d < s->rank; d++) {
		Axis *a = &s->axis[d];
		Dim *less, *here, *there;

		if (!a->used)
			continue;
		if (!num) {
			num = a->out;
			den = a->in;
			continue;
		}
		here = dim_mul(c, a->out, den);
		there = dim_mul(c, num, a->in);
		less = largest ? dim_le(c, there, here) : dim_le(c, here, there);
		num = dim_select(c, less, a->out, num);
		den = dim_select(c, less, a->in, den);
	}
	for (int d = 0; d < s->rank; d++) {
		Axis *a = &s->axis[d];

		if (!a->used)
			continue;
		a->out = dim_add(c, dim_mul(c, dim_mul(c, two, num), a->in), den);
		a->out = dim_floordiv(c, a->out, dim_mul(c, two, den));
		a->num = num;
		a->den = den;
	}
}

static bool by_sizes(Infer *in, Node *n, bool check, Sampling *s)
{
	const char *policy = node_str(n, "keep_aspect_ratio_policy", "stretch");
	Ctx *c = infer_ctx(in);
	int count;
	Dim **v = infer_contents(in, n, node_in(n, SIZES), &count);

	if (!v)
		return false;
	if (check && count != s->count)
		return infer_error(in, n, "sizes has %d elements, not %d", count, s->count);
	for (int d = 0; d < s->rank; d++) {
		Axis *a = &s->axis[d];

		if (!a->used)
			continue;
		a->out = v[a->at];
		if (check && !infer_le(in, n, dim_const(c, 0), a->out, "a size is negative"))
			return false;
		scale_of_sizes(c, a);
	}
	if (!strcmp(policy, "not_larger") || !strcmp(policy, "not_smaller"))
		keep_aspect(c, s, !strcmp(policy, "not_smaller"));
	else if (check && strcmp(policy, "stretch"))
		return infer_error(in, n, "keep_aspect_ratio_policy \"%s\" is not supported", policy);
	return true;
}

static bool by_scales(Infer *in, Node *n, Sampling *s)
{
	Ctx *c = infer_ctx(in);
	int count = 0;
	const double *v = infer_const_floats(in, node_in(n, SCALES), &count);

	if (!v || count != s->count)
		return infer_error(in, n, "scales has %d elements, not %d", count, s->count);
	for (int d = 0; d < s->rank; d++) {
		Axis *a = &s->axis[d];
		int64_t num, den;

		if (!a->used)
			continue;
		if (!exact_scale(v[a->at], &num, &den))
			return infer_error(in, n, "scale %g is not supported", v[a->at]);
		a->num = dim_const(c, num);
		a->den = dim_const(c, den);
		a->out = scaled_dim(c, a->in, (float)v[a->at], num, den);
	}
	return true;
}

/* Scales that only run time knows: their sizes are computed by nodes of their own, and stand as a fourth
 * operand beside them. */
static bool add_sizes(Infer *in, Node *n, const Sampling *s)
{
	int count;
	const int64_t *axes = node_ints(n, "axes", &count);
	Value *v;

	(void)s;
	v = EXPAND(in, n, Shape, node_in(n, X));
	if (count > 0)
		v = EXPAND(in, n, Gather, v, expand_ints(in, n, axes, count));
	v = EXPAND(in, n, Mul, expand_cast(in, n, v, DT_F32), node_in(n, SCALES));
	v = expand_cast(in, n, EXPAND(in, n, Floor, v), DT_I64);
	for (int k = n->nin; k <= SIZES; k++)
		node_set_input(n, k, NULL);
	node_set_input(n, SIZES, v);
	node_set_int(n, "runtime_scales", 1);
	return v->type != NULL;
}

/* All of N's meaning but the contents of roi. */
static bool sampling_init(Infer *in, Node *n, bool check, Sampling *s)
{
	bool runtime;
	int count;

	if (!sampling_attrs(check ? in : NULL, n, s))
		return false;
	for (int d = 0; d < s->rank; d++) {
		Axis *a = &s->axis[d];

		a->in = a->out = infer_type(n, X)->dims[d];
		a->num = a->den = dim_const(infer_ctx(in), 1);
	}
	if (check && s->transform == CROP && !given(n, ROI))
		return infer_error(in, n, "roi is missing");
	if (!given(n, SCALES) && !given(n, SIZES))
		return infer_error(in, n, "neither scales nor sizes are given");
	if (given(n, SCALES) && !given(n, SIZES) && !infer_const_floats(in, node_in(n, SCALES), &count) &&
	    !add_sizes(in, n, s))
		return false;
	runtime = node_int(n, "runtime_scales", 0) != 0;
	if (check && !runtime && given(n, SCALES) && given(n, SIZES))
		return infer_error(in, n, "both scales and sizes are given");
	if (!(given(n, SIZES) ? by_sizes(in, n, check, s) : by_scales(in, n, s)))
		return false;
	for (int d = 0; d < s->rank; d++) {
		Axis *a = &s->axis[d];

		if (a->num == a->den && a->in == a->out && s->transform != CROP)
			a->used = false;
		if (runtime && a->used)
			a->num = a->den = NULL;
	}
	return true;
}

static bool infer_resize(Infer *in, Node *n)
{
	const Type *x = infer_type(n, X);
	Dim *dims[MAX_RANK];
	Sampling s;

	if (!sampling_init(in, n, true, &s))
		return false;
	if (x->dtype == DT_STR || (x->dtype == DT_BOOL && s.mode != NEAREST))
		return infer_error(in, n, "elements of type %s are not supported", dtype_info[x->dtype].name);
	for (int d = 0; d < s.rank; d++)
		dims[d] = s.axis[d].out;
	infer_result(in, n, 0, x->dtype, s.rank, dims);
	return true;
}

/* ---- Coordinates ---- */

/* The coordinate for an output point: NUM / DEN in integers, or X in f64. */
typedef struct Coord {
	Expr *num, *den, *x;
} Coord;

/* x = (a * y + b) / c for a dim whose scale is a quotient of dims. */
static void exact_coefficients(Ctx *c, const Sampling *s, const Axis *a, Dim **pa, Dim **pb, Dim **pc)
{
	Dim *one = dim_const(c, 1), *two = dim_const(c, 2), *zero = dim_const(c, 0);

	*pa = dim_mul(c, two, a->den);
	*pb = dim_sub(c, a->den, a->num);
	*pc = dim_mul(c, two, a->num);
	if (s->transform == SYMMETRIC)
		*pb = dim_add(c, *pb, dim_sub(c, dim_mul(c, a->in, a->num), dim_mul(c, a->out, a->den)));
	if (s->transform == PYTORCH)
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

/* In f64: over y, n (input extent), m (output extent), s (scale), w (s * n), p and q (region). */
static const char *const transform_text[] = {
	[HALF_PIXEL] = "sub(div(add(y, 0.5), s), 0.5)",
	[SYMMETRIC] = "sub(add(mul(div(n, 2), sub(1, div(m, w))), div(add(y, 0.5), s)), 0.5)",
	[PYTORCH] = "select(eq(m, 1), 0, sub(div(add(y, 0.5), s), 0.5))",
	[ALIGN_CORNERS] = "select(eq(w, 1), 0, div(mul(y, sub(n, 1)), sub(w, 1)))",
	[ASYMMETRIC] = "div(y, s)",
	[CROP] = "add(select(eq(w, 1), div(mul(sub(q, p), sub(n, 1)), 2),"
		 " div(mul(mul(y, sub(q, p)), sub(n, 1)), sub(w, 1))), mul(p, sub(n, 1)))",
};

static Expr *load_float(Kernel *k, Buf *b, int at)
{
	Expr *i = ex_int(k->pool, CT_I64, at);

	return ex_cvt(k->pool, CT_F64, kernel_load(k, b, &i));
}

static Expr *dim_float(Kernel *k, CType t, Dim *d)
{
	return ex_cvt(k->pool, t, ex_dim(k->pool, d));
}

static Expr *scale_float(Kernel *k, CType t, const Axis *a)
{
	if (!a->num)
		return ex_cvt(k->pool, t, load_float(k, lower_in(k, SCALES), a->at));
	return ex_op2(k->pool, IN_div, dim_float(k, t, a->num), dim_float(k, t, a->den));
}

static Expr *float_coord(Kernel *k, const Sampling *s, const Axis *a, Expr *y)
{
	ExprPool *p = k->pool;
	Expr *scale = scale_float(k, CT_F64, a), *n = dim_float(k, CT_F64, a->in);
	Buf *roi = s->transform == CROP ? lower_in(k, ROI) : NULL;
	Expr *none = ex_num(p, CT_F64, 0);

	return BUILD_EXPR(k, CT_F64, transform_text[s->transform], {"y", ex_cvt(p, CT_F64, y)}, {"n", n},
			  {"m", dim_float(k, CT_F64, a->out)}, {"s", scale}, {"w", ex_op2(p, IN_mul, scale, n)},
			  {"p", roi ? load_float(k, roi, a->at) : none},
			  {"q", roi ? load_float(k, roi, s->count + a->at) : none});
}

static Coord coord(Kernel *k, const Sampling *s, const Axis *a, Expr *y)
{
	ExprPool *p = k->pool;
	Dim *da, *db, *dc;

	if (!a->num || s->transform == CROP)
		return (Coord){.x = float_coord(k, s, a, y)};
	exact_coefficients(k->ctx, s, a, &da, &db, &dc);
	return (Coord){.num = ex_add(p, ex_mul(p, y, ex_dim(p, da)), ex_dim(p, db)), .den = ex_dim(p, dc)};
}

static Expr *coord_floor(Kernel *k, const Coord *c)
{
	if (c->x)
		return ex_cvt(k->pool, CT_I64, ex_op1(k->pool, IN_floor, c->x));
	return ex_op2(k->pool, IN_floordiv, c->num, c->den);
}

/* The coordinate's fraction, in [0, 1). */
static Expr *coord_fraction(Kernel *k, CType t, const Coord *c)
{
	ExprPool *p = k->pool;

	if (c->x)
		return ex_cvt(p, t, ex_op2(p, IN_sub, c->x, ex_op1(p, IN_floor, c->x)));
	return ex_op2(p, IN_div, ex_cvt(p, t, ex_op2(p, IN_mod, c->num, c->den)), ex_cvt(p, t, c->den));
}

static Expr *clamped(Kernel *k, Expr *i, Dim *extent)
{
	ExprPool *p = k->pool;
	Expr *last = ex_dim(p, dim_sub(k->ctx, extent, dim_const(k->ctx, 1)));

	return ex_op2(p, IN_max, ex_op2(p, IN_min, i, last), ex_int(p, CT_I64, 0));
}

/* Whether a crop's point lies outside the input in any dim; null where there is no crop. */
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

/* The pick for num / den, and for x: the two must agree. */
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
	bool up = m == PREFER_FLOOR ? rest > 0.5 : m == PREFER_CEIL ? rest >= 0.5 : m == CEIL && rest > 0;

	return (int64_t)f + up;
}

static double reference_coord(const Sampling *s, double y, double n, double m, double scale)
{
	double w = scale * n;

	switch (s->transform) {
	case SYMMETRIC: return n / 2 * (1 - m / w) + (y + 0.5) / scale - 0.5;
	case PYTORCH: return m == 1 ? 0 : (y + 0.5) / scale - 0.5;
	case ALIGN_CORNERS: return w == 1 ? 0 : y * (n - 1) / (w - 1);
	case ASYMMETRIC: return y / scale;
	case HALF_PIXEL:
	case CROP:
	case TRANSFORM_COUNT: break;
	}
	return (y + 0.5) / scale - 0.5;
}

/* Whether exact quotients pick what ONNX's reference does. Of symbolic sizes: where the scale is a constant
 * or whole, so that a quotient that is a tie is computed without rounding. */
static bool exact_nearest(Ctx *c, const Sampling *s, const Axis *a)
{
	Dim *dim[3];
	int64_t n, m, num, den, k[3];

	if (!a->num || s->transform == CROP)
		return false;
	if (!dim_is_const(a->in, &n) || !dim_is_const(a->out, &m))
		return (dim_is_const(a->num, NULL) && dim_is_const(a->den, NULL)) || dim_equals(a->den, 1) ||
		       dim_equals(a->num, 1);
	exact_coefficients(c, s, a, &dim[0], &dim[1], &dim[2]);
	for (int i = 0; i < 3; i++)
		if (!dim_is_const(dim[i], &k[i]))
			return false;
	if (!dim_is_const(a->num, &num) || !dim_is_const(a->den, &den) || m > 1 << 20 || n > 1 << 20 || !den)
		return false;
	for (int64_t y = 0; y < m; y++)
		if (exact_pick(s->nearest, k[0] * y + k[1], k[2]) !=
		    float_pick(s->nearest, reference_coord(s, (double)y, (double)n, (double)m, (double)num / (double)den)))
			return false;
	return true;
}

/* A whole factor, taken at pixel centres or corners, repeats or skips elements: no rounding, no clamp. */
static Expr *whole_factor(Kernel *k, const Sampling *s, const Axis *a, Expr *y)
{
	Ctx *c = k->ctx;
	ExprPool *p = k->pool;
	bool corner = s->transform == ASYMMETRIC && s->nearest == FLOOR;
	bool centre = s->transform <= PYTORCH && (s->nearest == PREFER_FLOOR || s->nearest == PREFER_CEIL);

	if (!a->num || s->transform == CROP)
		return NULL;
	if (dim_equals(a->den, 1) && (corner || centre) && a->out == dim_mul(c, a->in, a->num))
		return ex_op2(p, IN_floordiv, y, ex_dim(p, a->num));
	if (dim_equals(a->num, 1) && corner && a->out == dim_floordiv(c, a->in, a->den))
		return ex_mul(p, y, ex_dim(p, a->den));
	return NULL;
}

static Expr *nearest_index(Kernel *k, const Sampling *s, const Axis *a, Expr *y)
{
	static const char *const exact[] = {
		"neg(floordiv(sub(d, mul(2, n)), mul(2, d)))", "floordiv(add(mul(2, n), d), mul(2, d))", "floordiv(n, d)",
		"neg(floordiv(neg(n), d))"
	};
	static const char *const real[] = {
		"let f = floor(x); select(gt(sub(x, f), 0.5), add(f, 1), f)",
		"let f = floor(x); select(ge(sub(x, f), 0.5), add(f, 1), f)", "floor(x)", "ceil(x)"
	};
	Expr *e = whole_factor(k, s, a, y);
	Coord c;

	if (e)
		return e;
	if (exact_nearest(k->ctx, s, a)) {
		c = coord(k, s, a, y);
		e = BUILD_EXPR(k, CT_I64, exact[s->nearest], {"n", c.num}, {"d", c.den});
	} else {
		e = BUILD_EXPR(k, CT_F64, real[s->nearest], {"x", float_coord(k, s, a, y)});
		e = ex_cvt(k->pool, CT_I64, e);
	}
	return clamped(k, e, a->in);
}

static void lower_nearest(Kernel *k, const Sampling *s, float extrapolation)
{
	Buf *x = lower_in(k, X), *out = lower_out(k, 0);
	Expr *oi[MAX_RANK], *xi[MAX_RANK], *val, *crop;
	Point all = {0};

	point_add_dims(k, &all, out, oi);
	for (int d = 0; d < s->rank; d++)
		xi[d] = s->axis[d].used ? nearest_index(k, s, &s->axis[d], oi[d]) : oi[d];
	val = kernel_load(k, x, xi);
	crop = outside(k, s, oi);
	if (crop)
		val = ex_op3(k->pool, IN_select, crop, ex_num(k->pool, val->ct, (double)extrapolation), val);
	point_map(k, &all, out, oi, val, NULL);
}

/* ---- Linear, as one map ---- */

/* What elements of T are interpolated in. */
static DType real_dtype(DType t)
{
	if (dtype_is_float(t))
		return acc_dtype(t);
	return dtype_info[t].bits <= 16 ? DT_F32 : DT_F64;
}

/* V, in the interpolation's type, as an element of T: integers round to nearest and saturate. */
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
		v = ex_op2(p, IN_max, ex_op2(p, IN_min, v, ex_num(p, v->ct, hi)), ex_num(p, v->ct, lo));
	return ex_cvt(p, dtype_ctype(t), v);
}

static Expr *extrapolated(Kernel *k, const Sampling *s, Expr *const *y, float value, Expr *v)
{
	Expr *crop = outside(k, s, y);

	return crop ? ex_op3(k->pool, IN_select, crop, ex_num(k->pool, v->ct, (double)value), v) : v;
}

/* The sample at XI, whose dims below D are set: between two elements in each dim that is used. */
static Expr *linear_sample(Kernel *k, const Sampling *s, CType t, Buf *x, int d, Expr *const *y, Expr **xi)
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

static void lower_linear(Kernel *k, const Sampling *s, float extrapolation)
{
	Buf *x = lower_in(k, X), *out = lower_out(k, 0);
	CType t = dtype_ctype(real_dtype(x->dtype));
	Expr *oi[MAX_RANK], *xi[MAX_RANK], *val;
	Point all = {0};

	point_add_dims(k, &all, out, oi);
	val = linear_sample(k, s, t, x, 0, oi, xi);
	val = extrapolated(k, s, oi, extrapolation, val);
	point_map(k, &all, out, oi, to_element(k, out->dtype, val), NULL);
}

/* ---- Weighted taps, dim by dim ---- */

/* Half the taps of a dim: the filter's radius, stretched by an antialiased reduction. */
static Dim *half_taps(Ctx *c, const Sampling *s, const Axis *a)
{
	Dim *radius = dim_const(c, s->mode == CUBIC ? 2 : 1), *wide;

	if (!s->antialias)
		return radius;
	if (a->num)
		wide = dim_ceildiv(c, dim_mul(c, radius, a->den), a->num);
	else
		wide = dim_ceildiv(c, dim_mul(c, radius, a->in), dim_max(c, a->out, dim_const(c, 1)));
	return dim_max(c, radius, wide);
}

static const char *const filter_text[] = {
	[LINEAR] = "max(sub(1, abs(x)), 0)",
	[CUBIC] = "let v = abs(x); select(le(v, 1),"
		  " add(mul(mul(sub(mul(add(a, 2), v), add(a, 3)), v), v), 1),"
		  " select(lt(v, 2), sub(mul(add(mul(sub(mul(a, v), mul(5, a)), v), mul(8, a)), v), mul(4, a)), 0))",
};

/* A table of weights over (point, tap) for dim D. */
static Buf *weight_table(Kernel *k, Node *n, const Sampling *s, const Axis *a, DType type)
{
	Ctx *c = k->ctx;
	ExprPool *p = k->pool;
	CType t = dtype_ctype(type);
	Dim *half = half_taps(c, s, a), *dims[2] = {a->out, dim_mul(c, half, dim_const(c, 2))};
	Buf *raw = kernel_temp(k, "weight", type, 2, dims), *sum, *norm;
	Expr *idx[2], *tap, *w;
	Point all = {0}, band = {0}, red = {0};
	Coord at;

	point_add_dims(k, &all, raw, idx);
	at = coord(k, s, a, idx[0]);
	tap = ex_sub(p, ex_add(p, idx[1], ex_int(p, CT_I64, 1)), ex_dim(p, half));
	w = ex_op2(p, IN_sub, ex_cvt(p, t, tap), coord_fraction(k, t, &at));
	if (s->antialias && !(a->num && dim_prove_le(c, a->den, a->num)))
		w = ex_op2(p, IN_mul, w, ex_op2(p, IN_min, scale_float(k, t, a), ex_num(p, t, 1)));
	w = BUILD_EXPR(k, t, filter_text[s->mode], {"x", w},
		       {"a", ex_num(p, t, (double)node_float(n, "cubic_coeff_a", -0.75F))});
	if (s->exclude)
		w = ex_op3(p, IN_select, ex_inside(p, ex_add(p, coord_floor(k, &at), tap), ex_dim(p, a->in)), w,
			   ex_num(p, t, 0));
	point_map(k, &all, raw, idx, w, NULL);
	if (!s->antialias && !s->exclude)
		return raw;
	sum = kernel_temp(k, "total", type, 1, dims);
	norm = kernel_temp(k, "share", type, 2, dims);
	idx[0] = point_add(k, &band, "y", dims[0]);
	idx[1] = point_add(k, &red, "t", dims[1]);
	point_reduce(k, MONOID_sum, &band, &red, sum, idx, kernel_load(k, raw, idx), NULL);
	all = (Point){0};
	point_add_dims(k, &all, norm, idx);
	w = BUILD_EXPR(k, t, "div(w, select(eq(s, 0), 1, s))", {"w", kernel_load(k, raw, idx)},
		       {"s", kernel_load(k, sum, idx)});
	point_map(k, &all, norm, idx, w, NULL);
	return norm;
}

/* DST = SRC with dim D sampled. */
static void taps_pass(Kernel *k, Node *n, const Sampling *s, int d, Buf *src, Buf *dst, DType type)
{
	const Axis *a = &s->axis[d];
	ExprPool *p = k->pool;
	CType t = dtype_ctype(type);
	Buf *table = weight_table(k, n, s, a, type);
	Expr *oi[MAX_RANK], *xi[MAX_RANK], *wi[2], *tap;
	Point band = {0}, red = {0};
	Coord at;

	point_add_dims(k, &band, dst, oi);
	for (int i = 0; i < s->rank; i++)
		xi[i] = oi[i];
	wi[0] = oi[d];
	wi[1] = point_add(k, &red, "t", table->dims[1]);
	at = coord(k, s, a, oi[d]);
	tap = ex_sub(p, ex_add(p, wi[1], ex_int(p, CT_I64, 1)), ex_dim(p, half_taps(k->ctx, s, a)));
	xi[d] = clamped(k, ex_add(p, coord_floor(k, &at), tap), a->in);
	point_reduce(k, MONOID_sum, &band, &red, dst, oi,
		     ex_op2(p, IN_mul, ex_cvt(p, t, kernel_load(k, src, xi)), kernel_load(k, table, wi)), NULL);
}

static void lower_taps(Kernel *k, Node *n, const Sampling *s, float extrapolation)
{
	Buf *src = lower_in(k, X), *out = lower_out(k, 0);
	DType type = real_dtype(src->dtype);
	bool direct = out->dtype == type && s->transform != CROP;
	int last = -1;
	Dim *dims[MAX_RANK];
	Expr *oi[MAX_RANK], *val;
	Point all = {0};

	for (int d = 0; d < s->rank; d++) {
		dims[d] = src->dims[d];
		last = s->axis[d].used ? d : last;
	}
	for (int d = 0; d <= last; d++) {
		Buf *dst = out;

		if (!s->axis[d].used)
			continue;
		dims[d] = s->axis[d].out;
		if (d != last || !direct)
			dst = kernel_temp(k, "pass", type, s->rank, dims);
		taps_pass(k, n, s, d, src, dst, type);
		src = dst;
	}
	if (src == out)
		return;
	point_add_dims(k, &all, out, oi);
	val = extrapolated(k, s, oi, extrapolation, ex_cvt(k->pool, dtype_ctype(type), kernel_load(k, src, oi)));
	point_map(k, &all, out, oi, to_element(k, out->dtype, val), NULL);
}

static void lower_resize(Infer *in, Node *n, Kernel *k)
{
	float extrapolation = node_float(n, "extrapolation_value", 0.0F);
	Sampling s;
	int used = 0;

	if (!sampling_init(in, n, false, &s))
		return;
	for (int d = 0; d < s.rank; d++)
		used += s.axis[d].used;
	if (s.mode == NEAREST || !used)
		lower_nearest(k, &s, extrapolation);
	else if (s.mode == LINEAR && !s.antialias && used <= MAP_AXES)
		lower_linear(k, &s, extrapolation);
	else
		lower_taps(k, n, &s, extrapolation);
}

/* Upsample: a Resize whose pixels are their upper left corners. */
static bool expand_upsample(Infer *in, Node *n, Value **out)
{
	Value *v = expand_node(in, n, OP_Resize, (Value *[]){node_in(n, 0), NULL, node_in(n, 1)}, 3);

	node_set_str(v->def, "mode", node_str(n, "mode", "nearest"));
	node_set_str(v->def, "coordinate_transformation_mode", "asymmetric");
	node_set_str(v->def, "nearest_mode", "floor");
	out[0] = v;
	return v->type != NULL;
}

const Op op_Resize = {.infer = infer_resize, .lower = lower_resize};
const Op op_Upsample = {.expand = expand_upsample};
