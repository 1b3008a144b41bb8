/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resize: its attributes, scales and sizes. Constant scales are exact binary fractions, and sizes
 * give scales that are quotients of dims; both are represented exactly. Scales that only run time
 * knows are read at run time, and extra nodes compute the sizes.
 */
#include "ops/onnx/sample.h"
#include "ops/onnx/shape.h"

#include <math.h>

static const char *const transform_name[] = {
	"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",  "align_corners",
	"asymmetric", "tf_crop_and_resize",   "tf_half_pixel_for_nn"};
static const char *const nearest_name[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
					   "ceil"};
static const char *const mode_name[] = {"nearest", "linear", "cubic"};

enum { X, ROI, SCALES, SIZES, MAX_SCALE_BITS = 40 };

/* ---- Attributes and sizes ---- */

/* The type of operand K; null if it is omitted or empty. */
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
	if (!infer_choice(in, n, "mode", mode_name, MODE_COUNT, &mode) ||
	    !infer_choice(in, n, "coordinate_transformation_mode", transform_name, TRANSFORM_COUNT,
			  &transform) ||
	    !infer_choice(in, n, "nearest_mode", nearest_name, NEAREST_COUNT, &nearest))
		return false;
	s->mode = (Mode)mode;
	s->transform = (Transform)transform;
	s->nearest = (Nearest)nearest;
	s->antialias = node_int(n, "antialias", 0) && s->mode != NEAREST;
	s->exclude = node_int(n, "exclude_outside", 0) && s->mode != NEAREST;
	s->ceil_below_one = node_int(n, "ceil_below_one", 0) != 0;
	s->cubic_a = node_float(n, "cubic_coeff_a", -0.75F);
	s->extrapolation = node_float(n, "extrapolation_value", 0.0F);
	s->count = count > 0 ? count : s->rank;
	if (in && s->count > s->rank)
		return infer_error(in, n, "%d axes are given for rank %d", s->count, s->rank);
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

/* SCALE as an exact quotient; false if it is too large, too small, or not a positive number. */
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

/* floor(d * scale) as ONNX computes it, in f32. A symbolic dim is multiplied by the simplest
 * fraction that rounds to SCALE; the exact binary fraction might be a little less, and floor
 * would then give one element too few. */
static Dim *scaled_dim(Ctx *c, Dim *d, float scale, int64_t num, int64_t den)
{
	int64_t v;

	if (dim_is_const(d, &v))
		return dim_const(c, (float)v * scale < 0x1p62F ? (int64_t)floorf((float)v * scale)
							       : INT64_MAX);
	for (int q = 1; q <= 1000 && den > 1024; q++) {
		double p = rint((double)scale * q);

		if (p >= 1 && (float)(p / q) == scale) {
			num = (int64_t)p;
			den = q;
		}
	}
	return dim_floordiv(c, dim_mul(c, d, dim_const(c, num)), dim_const(c, den));
}

/* The scale out / in; in lowest terms if one divides the other. */
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

/* Sizes that keep the aspect ratio: every axis gets the least, or the largest, of the scales. */
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
	const bool keeps = !strcmp(policy, "not_larger") || !strcmp(policy, "not_smaller");
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
		if (check && keeps &&
		    !infer_le(in, n, dim_const(c, 1), a->in,
			      "an axis without elements has no aspect ratio"))
			return false;
		scale_of_sizes(c, a);
	}
	if (keeps)
		keep_aspect(c, s, !strcmp(policy, "not_smaller"));
	else if (check && strcmp(policy, "stretch"))
		return infer_error(
			in, n,
			"attribute \"keep_aspect_ratio_policy\" is \"%s\", which is not supported",
			policy);
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
			return infer_error(
				in, n, "scale %g is not supported; it must be from 2^-17 to 2^16",
				v[a->at]);
		a->num = dim_const(c, num);
		a->den = dim_const(c, den);
		a->out = scaled_dim(c, a->in, (float)v[a->at], num, den);
	}
	return true;
}

/* Scales that only run time knows: extra nodes compute the sizes, which become an additional
 * fourth operand. */
static void add_sizes(Infer *in, Node *n)
{
	int count;
	const int64_t *axes = node_ints(n, "axes", &count);
	Value *v;

	v = EXPAND(in, n, Shape, node_in(n, X));
	if (count > 0)
		v = EXPAND(in, n, Gather, v, expand_ints(in, n, axes, count));
	v = EXPAND(in, n, Mul, expand_cast(in, n, v, DT_F32), node_in(n, SCALES));
	v = expand_cast(in, n, EXPAND(in, n, Floor, v), DT_I64);
	for (int k = n->nin; k <= SIZES; k++)
		node_set_input(n, k, NULL);
	node_set_input(n, SIZES, v);
	node_set_int(n, "runtime_scales", 1);
}

/* Operand K, scales or sizes, has rank 1, and an element for each axis. */
static bool sized_operand(Infer *in, Node *n, int k, const Sampling *s)
{
	const Type *t = given(n, k);

	if (!t)
		return true;
	if (t->rank != 1)
		return infer_error(in, n, "operand %d has rank %d, expected 1", k + 1, t->rank);
	return infer_sized(in, n, k, s->count) &&
	       infer_dim_equals(in, n, &t->dims[0], dim_const(infer_ctx(in), s->count),
				"scales or sizes must have one element for each axis");
}

/* The region of a crop: a start and an end for each axis. */
static bool region_operand(Infer *in, Node *n, const Sampling *s)
{
	const Type *t = given(n, ROI);

	if (!t)
		return infer_error(in, n, "roi is missing");
	if (t->rank != 1)
		return infer_error(in, n, "roi has rank %d, not 1", t->rank);
	if (!infer_floats(in, n, ROI))
		return false;
	return infer_dim_equals(in, n, &t->dims[0], dim_const(infer_ctx(in), 2 * (int64_t)s->count),
				"roi needs a start and an end for each axis");
}

/* Reads everything of N except for the elements of roi. */
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
	if (check && s->transform == CROP && !region_operand(in, n, s))
		return false;
	if (!given(n, SCALES) && !given(n, SIZES))
		return infer_error(in, n, "neither scales nor sizes are given");
	if (check && (!sized_operand(in, n, SCALES, s) || !sized_operand(in, n, SIZES, s)))
		return false;
	if (given(n, SCALES) && !given(n, SIZES) &&
	    !infer_const_floats(in, node_in(n, SCALES), &count))
		add_sizes(in, n);
	runtime = node_int(n, "runtime_scales", 0) != 0;
	if (check && !runtime && given(n, SCALES) && given(n, SIZES))
		return infer_error(in, n, "both scales and sizes are given");
	s->single = s->mode == NEAREST && s->transform != CROP && given(n, SCALES);
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
	if ((x->dtype == DT_STR || x->dtype == DT_BOOL) && s.mode != NEAREST)
		return infer_error(in, n, "elements of type %s are not supported",
				   dtype_info[x->dtype].name);
	for (int d = 0; d < s.rank; d++)
		dims[d] = s.axis[d].out;
	infer_result(in, n, 0, x->dtype, s.rank, dims);
	/* When dims are sampled one by one, the dims after D are those of X while D is sampled. */
	for (int d = s.rank - 1; d >= 0; d--) {
		if (dims[d] != x->dims[d] && !infer_places(in, n, x->dims + d, 1, dims, s.rank))
			return false;
		if (sample_by_dim(&s))
			dims[d] = x->dims[d];
	}
	return true;
}

static void lower_resize(Infer *in, Node *n, Kernel *k)
{
	Sampling s;

	if (!sampling_init(in, n, false, &s))
		return;
	s.x = lower_in(k, X);
	s.roi = lower_in(k, ROI);
	s.scales = lower_in(k, SCALES);
	s.out = lower_out(k, 0);
	sample_lower(k, &s);
}

/* Upsample is a Resize that samples pixels at their upper left corners. */
static bool expand_upsample(Infer *in, Node *n, Value **out)
{
	Value *v = expand_node(in, n, OP_Resize, (Value *[]){node_in(n, 0), NULL, node_in(n, 1)},
			       3);

	node_set_str(v->def, "mode", node_str(n, "mode", "nearest"));
	node_set_str(v->def, "coordinate_transformation_mode", "asymmetric");
	node_set_str(v->def, "nearest_mode", "floor");
	out[0] = v;
	return true;
}

const Op op_Resize = {
	.infer = infer_resize,
	.lower = lower_resize,
	.types = "fiubs",
	.doc = "bool only in mode nearest, scales from 2^-17 to 2^16; a length of 1 under "
	       "pytorch_half_pixel is sampled at 0, as the standard says",
	.attrs = "antialias: int since 18, axes: ints since 18, "
		 "coordinate_transformation_mode: string since 11, cubic_coeff_a: float since 11, "
		 "exclude_outside: int since 11, extrapolation_value: float since 11, "
		 "keep_aspect_ratio_policy: string since 18, mode: string, "
		 "nearest_mode: string since 11, runtime_scales: int own, ceil_below_one: int own",
};
const Op op_Upsample = {.expand = expand_upsample, .types = "fiubs", .attrs = "mode: string"};
