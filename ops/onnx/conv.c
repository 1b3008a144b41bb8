/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions: one reduction of mul(x, w) over channels and taps, indexed by a window, into an
 * accumulator of acc_dtype, then a map that adds the bias. The group is a separate iterator.
 * DeformConv first samples the input at moved taps.
 */
#include "ops/infer/build.h"

/* ---- Conv ---- */

/* Adds out = acc (+ bias by channel); acc is a temporary. */
static void lower_bias(Kernel *k, Buf *acc, Buf *bias, Buf *out)
{
	Expr *idx[MAX_RANK], *val;
	Point all = {0};

	if (acc == out)
		return;
	point_add_dims(k, &all, out, idx);
	val = kernel_load(k, acc, idx);
	if (bias)
		val = ex_op2(k->pool, IN_add, val, kernel_load(k, bias, &idx[1]));
	point_map(k, &all, out, idx, val, NULL);
}

static bool conv_bias(Infer *in, Node *n, Dim *channels)
{
	const Type *b = infer_type(n, 2);

	if (b && b->rank != 1)
		return infer_error(in, n, "bias has rank %d, not 1", b->rank);
	return !b ||
	       infer_equal_shown(in, n, b->dims[0], channels, "bias and output channels differ",
				 infer_dim_shown(in, n, &b->dims[0]),
				 (FactSize){"the output has", channels});
}

/* The input has as many channels as the weight, which is WANTED with its groups. */
static bool input_channels(Infer *in, Node *n, Dim *wanted)
{
	Dim *const *x = &infer_type(n, 0)->dims[1], *const *w = &infer_type(n, 1)->dims[1];
	static const char what[] = "input channels differ from the weight's";

	if (wanted == *w)
		return infer_equal_dims(in, n, x, w, what);
	return infer_equal_shown(in, n, *x, wanted, what, infer_dim_shown(in, n, x),
				 (FactSize){"the weight's groups have", wanted});
}

static bool infer_conv(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *w = infer_type(n, 1);
	Ctx *c = infer_ctx(in);
	Dim *group = dim_const(c, node_int(n, "group", 1));
	Window win;

	if (!contract_types(in, n) || !window_init(in, c, n, x, w, &win))
		return false;
	if (node_int(n, "group", 1) < 1)
		return infer_error(in, n, "attribute \"group\" is %lld, expected 1 or more",
				   (long long)node_int(n, "group", 1));
	if (!input_channels(in, n, dim_mul(c, w->dims[1], group)) ||
	    !infer_equal_shown(in, n, dim_mod(c, w->dims[0], group), dim_const(c, 0),
			       "group does not divide the output channels",
			       infer_dim_shown(in, n, &w->dims[0]),
			       (FactSize){"group is", group}) ||
	    !conv_bias(in, n, w->dims[0]))
		return false;
	window_result(in, n, 0, x->dtype, w->dims[0], &win);
	return true;
}

static Expr *conv_term(Kernel *k, Buf *acc, Buf *x, Expr *const *xi, Buf *w, Expr *const *wi)
{
	CType ct = dtype_ctype(acc->dtype);

	return ex_op2(k->pool, IN_mul, ex_cvt(k->pool, ct, kernel_load(k, x, xi)),
		      ex_cvt(k->pool, ct, kernel_load(k, w, wi)));
}

static void lower_conv(Infer *in, Node *n, Kernel *k)
{
	Ctx *c = k->ctx;
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, 0), *w = lower_in(k, 1), *bias = lower_in(k, 2),
	    *out = lower_out(k, 0), *acc;
	Dim *groups = dim_const(c, node_int(n, "group", 1)),
	    *per = dim_floordiv(c, w->dims[0], groups);
	Expr *xi[MAX_RANK], *wi[MAX_RANK], *oi[MAX_RANK], *g, *o, *ch, *guard = NULL;
	Point band = {0}, red = {0};
	char name[24];
	Window win;

	(void)in;
	window_init(NULL, c, n, infer_type(n, 0), infer_type(n, 1), &win);
	xi[0] = oi[0] = point_add(k, &band, "n", x->dims[0]);
	g = point_add(k, &band, "g", groups);
	o = point_add(k, &band, "o", per);
	ch = point_add(k, &red, "c", w->dims[1]);
	oi[1] = wi[0] = ex_add(p, ex_mul(p, g, ex_dim(p, per)), o);
	xi[1] = ex_add(p, ex_mul(p, g, ex_dim(p, w->dims[1])), ch);
	wi[1] = ch;
	for (int d = 0; d < win.n; d++) {
		snprintf(name, sizeof name, "h%d", d);
		oi[d + 2] = point_add(k, &band, name, out->dims[d + 2]);
		snprintf(name, sizeof name, "r%d", d);
		wi[d + 2] = point_add(k, &red, name, win.kernel[d]);
		xi[d + 2] = window_index(k, &win, d, oi[d + 2], wi[d + 2], &guard);
	}
	acc = acc_buf(k, out, !bias);
	point_reduce(k, MONOID_sum, &band, &red, acc, oi, conv_term(k, acc, x, xi, w, wi), guard);
	lower_bias(k, acc, bias, out);
}

/* ---- ConvTranspose ---- */

/* Sets the pads. out[q] sums x[t] * w[r] where q + begin - r * dilation == t * stride. */
static void transposed_pads(Ctx *c, Window *w, int d, Dim *natural, Dim *out, bool upper)
{
	Dim *total = dim_max(c, dim_sub(c, natural, out), dim_const(c, 0));
	Dim *half = dim_floordiv(c, total, dim_const(c, 2));

	w->out[d] = out;
	w->begin[d] = upper ? half : dim_sub(c, total, half);
	w->end[d] = dim_sub(c, total, w->begin[d]);
}

static bool transposed_init(Infer *in, Ctx *c, Node *n, Window *w)
{
	const Type *x = infer_type(n, 0), *wt = infer_type(n, 1);
	const char *pad = node_str(n, "auto_pad", "NOTSET");
	bool same = !strncmp(pad, "SAME_", 5), upper = !strcmp(pad, "SAME_UPPER");
	int64_t extra[MAX_RANK], pads[MAX_RANK * 2];
	int nshape;
	const int64_t *shape = node_ints(n, "output_shape", &nshape);

	memset(w, 0, sizeof *w);
	if (in && (x->rank < 3 || wt->rank != x->rank))
		return infer_error(in, n, "operands have rank %d and %d, not one rank of 3 or more",
				   x->rank, wt->rank);
	w->n = x->rank - 2;
	if (in && 4 + 3 * w->n > MAX_ITERS)
		return infer_error(in, n, "%d spatial dims; at most %d are supported", w->n,
				   (MAX_ITERS - 4) / 3);
	if (in && nshape > 0 && nshape != w->n && nshape != x->rank)
		return infer_error(in, n, "attribute \"output_shape\" has %d entries, expected %d",
				   nshape, w->n);
	if (!window_ints(in, n, "strides", w->n, 1, 1, w->stride) ||
	    !window_ints(in, n, "dilations", w->n, 1, 1, w->dilation) ||
	    !window_ints(in, n, "output_padding", w->n, 0, 0, extra) ||
	    !window_ints(in, n, "pads", w->n * 2, INT32_MIN, 0, pads))
		return false;
	for (int d = 0; d < w->n; d++) {
		Dim *s = dim_const(c, w->stride[d]), *one = dim_const(c, 1), *natural;
		bool valid = !strcmp(pad, "VALID");

		w->in[d] = x->dims[d + 2];
		w->kernel[d] = wt->dims[d + 2];
		natural = dim_add(c, dim_mul(c, s, dim_sub(c, w->in[d], one)),
				  dim_const(c, extra[d]));
		natural = dim_add(c, natural, window_extent(c, w, d));
		if (nshape > 0) {
			transposed_pads(c, w, d, natural, dim_const(c, shape[nshape - w->n + d]),
					upper);
			continue;
		}
		if (same) {
			transposed_pads(c, w, d, natural,
					dim_min(c, natural, dim_mul(c, w->in[d], s)), upper);
			continue;
		}
		w->begin[d] = dim_const(c, valid ? 0 : pads[d]);
		w->end[d] = dim_const(c, valid ? 0 : pads[w->n + d]);
		w->out[d] = dim_sub(c, dim_sub(c, natural, w->begin[d]), w->end[d]);
		if (in &&
		    !infer_le_shown(in, n, dim_const(c, 0), w->out[d], "pads exceed the result",
				    (FactSize){arena_printf(infer_arena(in),
							    "dim %d of the result is", d + 2),
					       w->out[d]},
				    (FactSize){0}))
			return false;
	}
	return true;
}

static bool infer_conv_transpose(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *w = infer_type(n, 1);
	Ctx *c = infer_ctx(in);
	int64_t group = node_int(n, "group", 1);
	Dim *channels;
	Window win;

	if (!contract_types(in, n) || !transposed_init(in, c, n, &win))
		return false;
	if (group < 1)
		return infer_error(in, n, "attribute \"group\" is %lld, expected 1 or more",
				   (long long)group);
	channels = dim_mul(c, w->dims[1], dim_const(c, group));
	if (!infer_equal_dims(in, n, &x->dims[1], &w->dims[0],
			      "input channels differ from the weight's") ||
	    !infer_equal_shown(in, n, dim_mod(c, w->dims[0], dim_const(c, group)), dim_const(c, 0),
			       "group does not divide the input channels",
			       infer_dim_shown(in, n, &w->dims[0]),
			       (FactSize){"group is", dim_const(c, group)}) ||
	    !conv_bias(in, n, channels))
		return false;
	window_result(in, n, 0, x->dtype, channels, &win);
	return true;
}

/* Whether dim D of the output is split as q = stride * u + phase. Then only taps that meet an
 * input are summed, and every index is affine once the phase is fixed. */
static bool phased(const Window *w, int d)
{
	return w->stride[d] > 1 && w->dilation[d] == 1;
}

/* The extent of the result in dim D, rounded up to a multiple of the stride if it is split. */
static Dim *phased_extent(Ctx *c, const Window *w, int d)
{
	Dim *s = dim_const(c, w->stride[d]);

	return phased(w, d) ? dim_mul(c, dim_ceildiv(c, w->out[d], s), s) : w->out[d];
}

static Expr *phased_point(Kernel *k, Point *band, const Window *w, int d, Expr **u, Expr **phase)
{
	ExprPool *p = k->pool;
	Dim *s = dim_const(k->ctx, w->stride[d]);
	char name[24];

	snprintf(name, sizeof name, "h%d", d);
	if (!phased(w, d))
		return point_add(k, band, name, w->out[d]);
	*u = point_add(k, band, name, dim_ceildiv(k->ctx, w->out[d], s));
	snprintf(name, sizeof name, "p%d", d);
	*phase = point_add(k, band, name, s);
	return ex_add(p, ex_mul(p, *u, ex_dim(p, s)), *phase);
}

/* The index of TAP counted from the other end. Taps traverse the input backwards; in reverse order
 * they read it in memory order, as those of a Conv do. */
static Expr *last_first(Kernel *k, Expr *tap)
{
	ExprPool *p = k->pool;

	if (tap->kind != EX_ITER) /* the only one */
		return tap;
	return ex_sub(p, ex_dim(p, dim_sub(k->ctx, tap->iter->extent, dim_const(k->ctx, 1))), tap);
}

/* Adds the taps of dim D; returns the index into the input, with that into the weights in *R. */
static Expr *phased_taps(Kernel *k, Point *red, const Window *w, int d, Expr *u, Expr *phase,
			 Expr **r, Expr **guard)
{
	Ctx *c = k->ctx;
	ExprPool *p = k->pool;
	Dim *s = dim_const(c, w->stride[d]), *whole;
	Expr *se = ex_dim(p, s), *e = ex_add(p, phase, ex_dim(p, w->begin[d])), *quot, *rest, *j,
	     *t;
	char name[24];

	snprintf(name, sizeof name, "r%d", d);
	j = last_first(k, point_add(k, red, name, dim_ceildiv(c, w->kernel[d], s)));
	if (dim_divides(c, w->begin[d], s, &whole)) {
		quot = ex_dim(p, whole);
		rest = phase;
	} else {
		quot = ex_op2(p, IN_floordiv, e, se);
		rest = ex_op2(p, IN_mod, e, se);
	}
	t = ex_sub(p, ex_add(p, u, quot), j);
	*r = ex_add(p, ex_mul(p, j, se), rest);
	if (!dim_divides(c, w->kernel[d], s, &whole))
		*guard = ex_and(p, *guard, ex_inside(p, *r, ex_dim(p, w->kernel[d])));
	*guard = ex_and(p, *guard, ex_inside(p, t, ex_dim(p, w->in[d])));
	return t;
}

static Expr *plain_taps(Kernel *k, Point *red, const Window *w, int d, Expr *q, Expr **r,
			Expr **guard)
{
	ExprPool *p = k->pool;
	Expr *s = ex_int(p, CT_I64, w->stride[d]), *e;
	char name[24];

	snprintf(name, sizeof name, "r%d", d);
	*r = last_first(k, point_add(k, red, name, w->kernel[d]));
	e = ex_sub(p, ex_add(p, q, ex_dim(p, w->begin[d])),
		   ex_mul(p, *r, ex_int(p, CT_I64, w->dilation[d])));
	if (w->stride[d] > 1) {
		*guard = ex_and(p, *guard,
				ex_op2(p, IN_eq, ex_op2(p, IN_mod, e, s), ex_int(p, CT_I64, 0)));
		e = ex_op2(p, IN_floordiv, e, s);
	}
	*guard = ex_and(p, *guard, ex_inside(p, e, ex_dim(p, w->in[d])));
	return e;
}

/* Adds out = acc (+ bias); acc may extend beyond both ends of out. */
static void transposed_bias(Kernel *k, const Window *w, Buf *acc, Buf *bias, Buf *out)
{
	ExprPool *p = k->pool;
	Expr *idx[MAX_RANK], *val, *guard = NULL;
	Point all = {0};

	idx[0] = point_add(k, &all, "n", out->dims[0]);
	idx[1] = point_add(k, &all, "o", out->dims[1]);
	for (int d = 0; d < w->n; d++) {
		Expr *u, *phase;

		idx[d + 2] = phased_point(k, &all, w, d, &u, &phase);
		if (phased_extent(k->ctx, w, d) != w->out[d])
			guard = ex_and(p, guard,
				       ex_op2(p, IN_lt, idx[d + 2], ex_dim(p, w->out[d])));
	}
	val = kernel_load(k, acc, idx);
	if (bias)
		val = ex_op2(p, IN_add, val, kernel_load(k, bias, &idx[1]));
	point_map(k, &all, out, idx, val, guard);
}

static void lower_conv_transpose(Infer *in, Node *n, Kernel *k)
{
	Ctx *c = k->ctx;
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, 0), *w = lower_in(k, 1), *bias = lower_in(k, 2),
	    *out = lower_out(k, 0), *acc = out;
	Dim *groups = dim_const(c, node_int(n, "group", 1)),
	    *per = dim_floordiv(c, w->dims[0], groups), *dims[MAX_RANK];
	Expr *xi[MAX_RANK], *wi[MAX_RANK], *oi[MAX_RANK], *g, *o, *guard = NULL;
	bool direct = !bias && acc_dtype(out->dtype) == out->dtype;
	Point band = {0}, red = {0};
	Window win;

	(void)in;
	transposed_init(NULL, c, n, &win);
	xi[0] = oi[0] = point_add(k, &band, "n", x->dims[0]);
	g = point_add(k, &band, "g", groups);
	o = point_add(k, &band, "o", w->dims[1]);
	oi[1] = ex_add(p, ex_mul(p, g, ex_dim(p, w->dims[1])), o);
	xi[1] = wi[0] = ex_add(p, ex_mul(p, g, ex_dim(p, per)), point_add(k, &red, "c", per));
	wi[1] = o;
	dims[0] = out->dims[0];
	dims[1] = out->dims[1];
	for (int d = 0; d < win.n; d++) {
		Expr *u, *phase;

		oi[d + 2] = phased_point(k, &band, &win, d, &u, &phase);
		dims[d + 2] = phased_extent(c, &win, d);
		direct &= dims[d + 2] == out->dims[d + 2];
		xi[d + 2] = phased(&win, d)
				    ? phased_taps(k, &red, &win, d, u, phase, &wi[d + 2], &guard)
				    : plain_taps(k, &red, &win, d, oi[d + 2], &wi[d + 2], &guard);
	}
	if (!direct)
		acc = kernel_temp(k, "acc", acc_dtype(out->dtype), out->rank, dims);
	point_reduce(k, MONOID_sum, &band, &red, acc, oi, conv_term(k, acc, x, xi, w, wi), guard);
	if (!direct)
		transposed_bias(k, &win, acc, bias, out);
}

/* A channel in one of several groups is multiplied by its group's weights. If it is a group by
 * itself, it is multiplied by the weights of the result's channel with its index, if there are as
 * many. */
static WeightsAxes conv_weights_axes(const Node *n)
{
	const Type *x = node_in(n, 0)->type, *w = node_in(n, 1)->type;

	if (node_int(n, "group", 1) == 1)
		return (WeightsAxes){0, 1, 1};
	return (WeightsAxes){0, 1, dim_equals(w->dims[1], 1) && w->dims[0] == x->dims[1] ? 0 : -1};
}

/* The channels of all groups share the scales of one group. */
static WeightsAxes conv_transpose_weights_axes(const Node *n)
{
	(void)n;
	return (WeightsAxes){1, 1, 0};
}

const Op op_Conv = {
	.infer = infer_conv,
	.lower = lower_conv,
	.types = "fi",
	.weights_axes = conv_weights_axes,
	.attrs = "auto_pad: string, dilations: ints, group: int, kernel_shape: ints, pads: ints, "
		 "strides: ints",
};
const Op op_ConvTranspose = {
	.infer = infer_conv_transpose,
	.lower = lower_conv_transpose,
	.types = "f",
	.weights_axes = conv_transpose_weights_axes,
	.doc = "at most 9 spatial dims",
	.attrs = "auto_pad: string, dilations: ints, group: int, kernel_shape: ints, "
		 "output_padding: ints, output_shape: ints, pads: ints, strides: ints",
};

/* ---- DeformConv ---- */

/*
 * A convolution whose taps are moved by offsets, which are data. The first statement samples the
 * input at the taps, linearly between elements and with zeros outside:
 *
 *     sample[n,c,r...,o...] = mask * x[n,c] at o * stride - pad + r * dilation + offset
 *
 * and the second is a product with the weight, as in Conv.
 */
enum { DEFORM_X, DEFORM_W, DEFORM_OFFSET, DEFORM_BIAS, DEFORM_MASK };

/* Checks operand K, which has PER entries for each tap of each offset group. */
static bool deform_operand(Infer *in, Node *n, int k, const Window *w, Dim *per)
{
	const Type *t = infer_type(n, k), *x = infer_type(n, DEFORM_X);
	Ctx *c = infer_ctx(in);

	if (!t)
		return true;
	if (t->rank != x->rank)
		return infer_error(in, n, "operand %d has rank %d, the input %d", k + 1, t->rank,
				   x->rank);
	for (int d = 0; d < w->n; d++) {
		per = dim_mul(c, per, w->kernel[d]);
		if (!infer_dim_equals(in, n, &t->dims[d + 2], w->out[d],
				      "the offsets or the mask do not have the result's size"))
			return false;
	}
	return infer_equal_dims(in, n, &t->dims[0], &x->dims[0], "the batches differ") &&
	       infer_dim_equals(in, n, &t->dims[1], per,
				"the offsets or the mask do not have an entry for each tap");
}

static bool infer_deform(Infer *in, Node *n)
{
	const Type *x = infer_type(n, DEFORM_X), *w = infer_type(n, DEFORM_W),
		   *b = infer_type(n, DEFORM_BIAS);
	int64_t group = node_int(n, "group", 1), offsets = node_int(n, "offset_group", 1);
	Ctx *c = infer_ctx(in);
	Dim *groups = dim_const(c, group), *og = dim_const(c, offsets);
	Window win;

	if (!contract_types(in, n) || !window_init(in, c, n, x, w, &win))
		return false;
	if (group < 1 || offsets < 1 || 2 * win.n + 2 > MAX_RANK)
		return infer_error(in, n, "%lld groups, %lld groups of offsets and %d spatial dims",
				   (long long)group, (long long)offsets, win.n);
	if (!input_channels(in, n, dim_mul(c, w->dims[1], groups)) ||
	    !infer_equal(in, n, dim_mod(c, w->dims[0], groups), dim_const(c, 0),
			 "group does not divide the output channels") ||
	    !infer_equal(in, n, dim_mod(c, x->dims[1], og), dim_const(c, 0),
			 "offset_group does not divide the input channels") ||
	    !deform_operand(in, n, DEFORM_OFFSET, &win, dim_mul(c, og, dim_const(c, win.n))) ||
	    !deform_operand(in, n, DEFORM_MASK, &win, og))
		return false;
	if (b && b->rank != 1)
		return infer_error(in, n, "bias has rank %d, not 1", b->rank);
	if (b &&
	    !infer_equal_dims(in, n, &b->dims[0], &w->dims[0], "bias and output channels differ"))
		return false;
	window_result(in, n, 0, x->dtype, w->dims[0], &win);
	return true;
}

/* The input at the coordinates AT from dim D on, where XI is set for the dims before. An index that
 * is not INSIDE is limited, so that compilers may vectorise the load. */
static Expr *deform_sample(Kernel *k, CType t, Buf *x, int d, Expr *const *at, Expr **xi,
			   Expr *inside)
{
	ExprPool *p = k->pool;
	Expr *end[2], *low, *v, *i, *last;

	if (d == x->rank) {
		v = ex_cvt(p, t, kernel_load(k, x, xi));
		return ex_op3(p, IN_select, inside, v, ex_num(p, t, 0));
	}
	low = ex_op1(p, IN_floor, at[d]);
	last = ex_dim(p, dim_sub(k->ctx, x->dims[d], dim_const(k->ctx, 1)));
	for (int e = 0; e < 2; e++) {
		i = ex_add(p, ex_cvt(p, CT_I64, low), ex_int(p, CT_I64, e));
		xi[d] = ex_op2(p, IN_max, ex_op2(p, IN_min, i, last), ex_int(p, CT_I64, 0));
		end[e] = deform_sample(k, t, x, d + 1, at, xi,
				       ex_and(p, inside, ex_inside(p, i, ex_dim(p, x->dims[d]))));
	}
	return BUILD_EXPR(k, t, "add(mul(a, sub(1, f)), mul(b, f))", {"a", end[0]}, {"b", end[1]},
			  {"f", ex_op2(p, IN_sub, at[d], low)});
}

/* Makes the samples, over (batch, channel, taps..., points...). */
static Buf *deform_samples(Kernel *k, Node *n, const Window *w)
{
	Ctx *c = k->ctx;
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, DEFORM_X), *offset = lower_in(k, DEFORM_OFFSET),
	    *mask = lower_in(k, DEFORM_MASK), *out;
	DType real = acc_dtype(x->dtype);
	CType t = dtype_ctype(real);
	Dim *dims[MAX_RANK * 2], *per;
	Expr *idx[MAX_RANK * 2], *oi[MAX_RANK], *xi[MAX_RANK], *at[MAX_RANK], *tap, *v, *limit;
	Point all = {0};

	dims[0] = x->dims[0];
	dims[1] = x->dims[1];
	for (int d = 0; d < w->n; d++) {
		dims[d + 2] = w->kernel[d];
		dims[d + 2 + w->n] = w->out[d];
	}
	out = kernel_temp(k, "sample", real, 2 * w->n + 2, dims);
	point_add_dims(k, &all, out, idx);
	per = dim_floordiv(c, x->dims[1], dim_const(c, node_int(n, "offset_group", 1)));
	tap = ex_op2(p, IN_floordiv, idx[1], ex_dim(p, per));
	for (int d = 0; d < w->n; d++)
		tap = ex_add(p, ex_mul(p, tap, ex_dim(p, w->kernel[d])), idx[d + 2]);
	xi[0] = oi[0] = idx[0];
	xi[1] = idx[1];
	for (int d = 0; d < w->n; d++)
		oi[d + 2] = idx[d + 2 + w->n];
	for (int d = 0; d < w->n; d++) {
		Expr *base = ex_add(p, ex_mul(p, oi[d + 2], ex_int(p, CT_I64, w->stride[d])),
				    ex_mul(p, idx[d + 2], ex_int(p, CT_I64, w->dilation[d])));

		base = ex_cvt(p, t, ex_sub(p, base, ex_dim(p, w->begin[d])));
		oi[1] = ex_add(p, ex_mul(p, tap, ex_int(p, CT_I64, w->n)), ex_int(p, CT_I64, d));
		at[d + 2] = ex_op2(p, IN_add, base, ex_cvt(p, t, kernel_load(k, offset, oi)));
		/* Clamps points far outside to the range of indices. */
		limit = ex_cvt(p, t, ex_dim(p, w->in[d]));
		at[d + 2] = BUILD_EXPR(
			k, t, "select(lt(x, -2), -2, select(gt(x, add(n, 1)), add(n, 1), x))",
			{"x", at[d + 2]}, {"n", limit});
	}
	v = deform_sample(k, t, x, 2, at, xi, NULL);
	oi[1] = tap;
	if (mask)
		v = ex_op2(p, IN_mul, v, ex_cvt(p, t, kernel_load(k, mask, oi)));
	point_map(k, &all, out, idx, v, NULL);
	return out;
}

static void lower_deform(Infer *in, Node *n, Kernel *k)
{
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, DEFORM_X), *w = lower_in(k, DEFORM_W),
	    *bias = lower_in(k, DEFORM_BIAS), *out = lower_out(k, 0), *acc = acc_buf(k, out, !bias),
	    *sample;
	Dim *groups = dim_const(k->ctx, node_int(n, "group", 1)),
	    *per = dim_floordiv(k->ctx, w->dims[0], groups);
	Expr *si[MAX_RANK * 2], *wi[MAX_RANK], *oi[MAX_RANK], *g, *o;
	Point band = {0}, red = {0};
	char name[24];
	Window win;

	(void)in;
	window_init(NULL, k->ctx, n, infer_type(n, DEFORM_X), infer_type(n, DEFORM_W), &win);
	sample = deform_samples(k, n, &win);
	si[0] = oi[0] = point_add(k, &band, "n", x->dims[0]);
	g = point_add(k, &band, "g", groups);
	o = point_add(k, &band, "o", per);
	oi[1] = wi[0] = ex_add(p, ex_mul(p, g, ex_dim(p, per)), o);
	wi[1] = point_add(k, &red, "c", w->dims[1]);
	si[1] = ex_add(p, ex_mul(p, g, ex_dim(p, w->dims[1])), wi[1]);
	for (int d = 0; d < win.n; d++) {
		snprintf(name, sizeof name, "h%d", d);
		si[d + 2 + win.n] = oi[d + 2] = point_add(k, &band, name, out->dims[d + 2]);
		snprintf(name, sizeof name, "r%d", d);
		si[d + 2] = wi[d + 2] = point_add(k, &red, name, win.kernel[d]);
	}
	point_reduce(k, MONOID_sum, &band, &red, acc, oi, conv_term(k, acc, sample, si, w, wi),
		     NULL);
	lower_bias(k, acc, bias, out);
}

const Op op_DeformConv = {
	.types = "f",
	.infer = infer_deform,
	.lower = lower_deform,
	.doc = "at most 7 spatial dims",
	.attrs = "dilations: ints, group: int, kernel_shape: ints, offset_group: int, pads: ints, "
		 "strides: ints",
};
