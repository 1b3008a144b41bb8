/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of images: Col2Im sums blocks into an image, MaxUnpool puts the results of a MaxPool back,
 * CenterCropPad cuts or pads around the centre, and Crop and ImageScaler are of old opsets.
 */
#include "ops/infer/build.h"
#include "ops/infer/infer.h"
#include "ops/onnx/shape.h"

#include <limits.h>

/* ---- Col2Im ---- */

typedef struct ImageBlocks {
	int n; /* spatial dims */
	int64_t stride[MAX_RANK], dilation[MAX_RANK], pads[MAX_RANK * 2];
	Dim **image, **block;
	Dim *count[MAX_RANK]; /* blocks in each dim */
	Dim *size, *total;    /* elements of a block, blocks of an image */
} ImageBlocks;

/* How many spatial dims the operands and attributes of N have; -1: none of them tells. */
static int spatial_dims(const Node *n)
{
	static const char *const attr[] = {"strides", "dilations", "pads"};
	int count;

	for (int k = 1; k <= 2; k++)
		if (type_const_numel(infer_type(n, k), MAX_RANK) >= 0)
			return (int)type_const_numel(infer_type(n, k), MAX_RANK);
	for (int i = 0; i < 3; i++) {
		node_ints(n, attr[i], &count);
		if (count >= 0)
			return i < 2 ? count : count / 2;
	}
	return infer_declared_rank(n) - 2;
}

static bool blocks_init(Infer *in, Node *n, bool check, ImageBlocks *b)
{
	Ctx *c = infer_ctx(in);
	Dim *one = dim_const(c, 1);
	int images, blocks;

	b->image = infer_vector(in, n, 1, spatial_dims(n), &images);
	b->block = b->image ? infer_vector(in, n, 2, spatial_dims(n), &blocks) : NULL;
	if (!b->block)
		return false;
	b->n = images;
	if (images != blocks || images < 1 || images > MAX_RANK - 2)
		return infer_error(in, n, "image_shape has %d elements and block_shape %d", images,
				   blocks);
	if (!window_ints(check ? in : NULL, n, "strides", b->n, 1, 1, b->stride) ||
	    !window_ints(check ? in : NULL, n, "dilations", b->n, 1, 1, b->dilation) ||
	    !window_ints(check ? in : NULL, n, "pads", b->n * 2, 0, 0, b->pads))
		return false;
	for (int d = 0; d < b->n; d++) {
		Dim *room = dim_add(c, b->image[d], dim_const(c, b->pads[d] + b->pads[b->n + d]));

		room = dim_sub(c, room, one);
		room = dim_sub(
			c, room,
			dim_mul(c, dim_sub(c, b->block[d], one), dim_const(c, b->dilation[d])));
		if (check &&
		    (!infer_le(in, n, one, b->block[d], "a block is empty") ||
		     !infer_le(in, n, dim_const(c, 0), b->image[d], "a size is negative") ||
		     !infer_le(in, n, dim_const(c, -1), room, "a block exceeds the image")))
			return false;
		b->count[d] = dim_add(c, dim_floordiv(c, room, dim_const(c, b->stride[d])), one);
	}
	b->size = dims_product(c, b->block, b->n);
	b->total = dims_product(c, b->count, b->n);
	return true;
}

static bool infer_col2im(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Ctx *c = infer_ctx(in);
	Dim *out[MAX_RANK];
	ImageBlocks b;

	if (!dtype_is_float(x->dtype) && !dtype_is_int(x->dtype))
		return infer_error(in, n, "elements of type %s are not supported",
				   dtype_info[x->dtype].name);
	if (x->rank != 3)
		return infer_error(in, n, "the operand has rank %d, not 3", x->rank);
	if (!blocks_init(in, n, true, &b))
		return false;
	out[0] = x->dims[0];
	out[1] = dim_floordiv(c, x->dims[1], b.size);
	if (!infer_equal_shown(in, n, dim_mul(c, out[1], b.size), x->dims[1],
			       "dim 1 does not hold whole blocks",
			       infer_dim_shown(in, n, &x->dims[1]),
			       (FactSize){"a block has", b.size}) ||
	    !infer_dim_equals(in, n, &x->dims[2], b.total, "dim 2 is not the number of blocks"))
		return false;
	for (int d = 0; d < b.n; d++)
		out[d + 2] = b.image[d];
	return infer_result(in, n, 0, x->dtype, b.n + 2, out);
}

/* y[n,c,i...] = the sum, over the elements r of a block, of x[n, c * size + r, q], where the block
 * q has its element r at i: q * stride = i + pad - r * dilation in each dim. */
static void lower_col2im(Infer *in, Node *n, Kernel *k)
{
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0), *acc = acc_buf(k, out, true);
	Expr *o[MAX_RANK], *xi[3], *guard = NULL, *element = at_int(k, 0), *block = at_int(k, 0),
				   *q, *r;
	Point band = {0}, red = {0};
	ImageBlocks b;

	if (!blocks_init(in, n, false, &b))
		return;
	point_add_dims(k, &band, out, o);
	for (int d = 0; d < b.n; d++) {
		Expr *stride = at_int(k, b.stride[d]);

		r = point_add(k, &red, "r", b.block[d]);
		q = ex_sub(p, ex_add(p, o[d + 2], at_int(k, b.pads[d])),
			   ex_mul(p, r, at_int(k, b.dilation[d])));
		if (b.stride[d] > 1) {
			guard = ex_and(
				p, guard,
				ex_op2(p, IN_eq, ex_op2(p, IN_mod, q, stride), at_int(k, 0)));
			q = ex_op2(p, IN_floordiv, q, stride);
		}
		guard = ex_and(p, guard, ex_inside(p, q, at_dim(k, b.count[d])));
		element = ex_add(p, ex_mul(p, element, at_dim(k, b.block[d])), r);
		block = ex_add(p, ex_mul(p, block, at_dim(k, b.count[d])), q);
	}
	xi[0] = o[0];
	xi[1] = ex_add(p, ex_mul(p, o[1], at_dim(k, b.size)), element);
	xi[2] = block;
	point_reduce(k, MONOID_sum, &band, &red, acc, o, kernel_load(k, x, xi), guard);
	if (acc == out)
		return;
	band = (Point){0};
	point_add_dims(k, &band, out, o);
	point_map(k, &band, out, o, kernel_load(k, acc, o), NULL);
}

const Op op_Col2Im = {
	.infer = infer_col2im, .lower = lower_col2im, .types = "fiub",
	.attrs = "dilations: ints, pads: ints, strides: ints",
};

/* ---- MaxUnpool ---- */

/* The shape that the window would have made X from. */
static bool unpooled_shape(Infer *in, Node *n, Dim **out)
{
	const Type *x = infer_type(n, 0);
	int64_t kernel[MAX_RANK], stride[MAX_RANK], pads[MAX_RANK * 2];
	int rank = x->rank - 2, count;
	Ctx *c = infer_ctx(in);

	node_ints(n, "kernel_shape", &count);
	if (count != rank)
		return infer_error(in, n, "kernel_shape has %d entries for %d spatial dims", count,
				   rank);
	if (!window_ints(in, n, "kernel_shape", rank, 1, 1, kernel) ||
	    !window_ints(in, n, "strides", rank, 1, 1, stride) ||
	    !window_ints(in, n, "pads", rank * 2, 0, 0, pads))
		return false;
	out[0] = x->dims[0];
	out[1] = x->dims[1];
	for (int d = 0; d < rank; d++) {
		out[d + 2] = dim_sub(c, x->dims[d + 2], dim_const(c, 1));
		out[d + 2] = dim_mul(c, out[d + 2], dim_const(c, stride[d]));
		out[d + 2] = dim_add(c, out[d + 2],
				     dim_const(c, kernel[d] - pads[d] - pads[rank + d]));
		if (!infer_le(in, n, dim_const(c, 0), out[d + 2], "a size is negative"))
			return false;
	}
	return true;
}

/* Zeros, with the elements of X scattered to their flat indices. The indices count in the shape
 * that the window gives; a larger output_shape adds zeros after each dim's end. */
static bool expand_max_unpool(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0), *i = infer_type(n, 1);
	static const int64_t none[MAX_RANK];
	Dim *dims[MAX_RANK], *flat, **given;
	Ctx *c = infer_ctx(in);
	Value *v, *zero;
	int count;

	if (x->rank < 3 || i->rank != x->rank)
		return infer_error(
			in, n, "the operands have ranks %d and %d; expected the same, 3 or more",
			x->rank, i->rank);
	if (!dtype_is_float(x->dtype) || !dtype_is_int(i->dtype))
		return infer_error(in, n,
				   "the operands are %s and %s; expected floats and integers",
				   dtype_info[x->dtype].name, dtype_info[i->dtype].name);
	if (!unpooled_shape(in, n, dims))
		return false;
	flat = dims_product(c, dims, x->rank);
	zero = expand_scalar(in, n, x->dtype, 0);
	v = EXPAND(in, n, Expand, zero, expand_sizes(in, n, &flat, 1));
	flat = dims_product(c, x->dims, x->rank);
	v = EXPAND(in, n, ScatterElements, v, expand_reshape(in, n, node_in(n, 1), &flat, 1),
		   expand_reshape(in, n, node_in(n, 0), &flat, 1));
	v = expand_reshape(in, n, v, dims, x->rank);
	out[0] = v;
	if (!node_in(n, 2))
		return true;
	if (!(given = infer_vector(in, n, 2, x->rank, &count)))
		return false;
	if (count != x->rank)
		return infer_error(in, n, "output_shape has %d elements for rank %d", count,
				   x->rank);
	for (int d = 0; d < x->rank; d++) {
		if (!infer_le(in, n, dims[d], given[d], "output_shape is too small"))
			return false;
		dims[d] = dim_sub(c, given[d], dims[d]);
	}
	zero = expand_ints(in, n, none, x->rank);
	zero = expand_node_ints(in, n, OP_Concat,
				(Value *[]){zero, expand_sizes(in, n, dims, x->rank)}, 2, "axis",
				0);
	out[0] = EXPAND(in, n, Pad, v, zero);
	return true;
}

const Op op_MaxUnpool = {
	.expand = expand_max_unpool,
	.types = "f",
	.doc = "an output_shape that is smaller than kernel_shape, strides and pads give is not supported",
	.attrs = "kernel_shape: ints, pads: ints, strides: ints",
};

/* ---- CenterCropPad ---- */

static bool cropped_dims(Infer *in, Node *n, bool check, Dim **out)
{
	const Type *x = infer_type(n, 0);
	const int64_t *axes;
	int count, given, axis;
	Dim **size;

	axes = node_ints(n, "axes", &given);
	size = infer_vector(in, n, 1, given < 0 ? x->rank : given, &count);
	if (!size)
		return false;
	if (count != (given < 0 ? x->rank : given))
		return infer_error(in, n, "%d sizes are given for %d axes", count,
				   given < 0 ? x->rank : given);
	for (int d = 0; d < x->rank; d++)
		out[d] = x->dims[d];
	for (int i = 0; i < count; i++) {
		axis = i;
		if (given >= 0 && !infer_axis(in, n, axes[i], x->rank, &axis))
			return false;
		out[axis] = size[i];
		if (check &&
		    !infer_le(in, n, dim_const(infer_ctx(in), 0), size[i], "a size is negative"))
			return false;
	}
	return true;
}

static bool infer_center(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Dim *out[MAX_RANK];

	if (!cropped_dims(in, n, true, out))
		return false;
	return infer_result(in, n, 0, x->dtype, x->rank, out);
}

/* The element at I of a dim of size OUT is that at I + (IN - OUT) / 2, rounded towards zero. */
static void lower_center(Infer *in, Node *n, Kernel *k)
{
	Ctx *c = k->ctx;
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0);
	Expr *idx[MAX_RANK], *inside = NULL, *v;
	Iter *it[MAX_RANK];

	(void)in;
	(void)n;
	kernel_iters_of(k, out, it);
	for (int d = 0; d < out->rank; d++) {
		Dim *diff = dim_sub(c, x->dims[d], out->dims[d]);
		Dim *low = dim_le(c, diff, dim_const(c, -1));

		diff = dim_floordiv(c, dim_add(c, diff, low), dim_const(c, 2));
		idx[d] = ex_add(p, at_iter(k, it[d]), at_dim(k, diff));
		if (!dim_prove_le(c, out->dims[d], x->dims[d]))
			inside = ex_and(p, inside, ex_inside(p, idx[d], at_dim(k, x->dims[d])));
	}
	v = kernel_load(k, x, idx);
	if (inside)
		v = ex_op3(p, IN_select, inside, v, ex_num(p, v->ct, 0));
	kernel_map_id(k, it, out, v);
}

const Op op_CenterCropPad = {
	.infer = infer_center, .lower = lower_center, .types = "fiubs",
	.attrs = "axes: ints",
};

/* ---- Operators of images in the standard's first opsets ---- */

static bool image_operand(Infer *in, Node *n)
{
	const Type *t = infer_type(n, 0);

	return t->rank == 4 || infer_error(in, n, "the operand has rank %d, expected 4", t->rank);
}

/* Cuts off the `border`: left, top, right, bottom; or `scale` determines the height and width that
 * remain after the left and top border. */
static bool expand_crop(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	Ctx *c = infer_ctx(in);
	int count, nscale;
	const int64_t *border = node_ints(n, "border", &count);
	const int64_t *scale = node_ints(n, "scale", &nscale);
	static const int64_t axes[] = {2, 3};
	Dim *from[2], *to[2];

	if (!image_operand(in, n))
		return false;
	if (count != 4 || (nscale >= 0 && nscale != 2))
		return infer_error(
			in, n, "expected four numbers in \"border\", and two or none in \"scale\"");
	for (int i = 0; i < 2; i++) {
		const int64_t low = border[1 - i], high = border[3 - i];

		if (low < 0 || low > INT32_MAX || high < 0 || high > INT32_MAX ||
		    (scale && (scale[i] < 0 || scale[i] > INT32_MAX)))
			return infer_error(in, n, "a number is negative or too large");
		from[i] = dim_const(c, low);
		to[i] = scale ? dim_const(c, low + scale[i])
			      : dim_sub(c, x->dims[2 + i], dim_const(c, high));
		if (!infer_le(in, n, scale ? to[i] : from[i], scale ? x->dims[2 + i] : to[i],
			      "the cut is larger than the image"))
			return false;
	}
	out[0] = EXPAND(in, n, Slice, node_in(n, 0), expand_sizes(in, n, from, 2),
			expand_sizes(in, n, to, 2), expand_ints(in, n, axes, 2));
	return true;
}

const Op op_Crop = {.expand = expand_crop, .types = "f", .attrs = "border: ints, scale: ints"};

/* scale * x + bias[channel] */
static bool expand_image_scaler(Infer *in, Node *n, Value **out)
{
	const Type *x = infer_type(n, 0);
	int count;
	const float *bias = node_floats(n, "bias", &count);
	int64_t dims[3] = {count, 1, 1};
	Tensor *t;
	Value *y;

	if (!image_operand(in, n))
		return false;
	if (count < 1 || !dtype_is_float(x->dtype))
		return infer_error(in, n, "expected an operand of floats, and numbers in \"bias\"");
	if (!infer_dim_equals(in, n, &x->dims[1], dim_const(infer_ctx(in), count),
			      "the channels and \"bias\" differ in number"))
		return false;
	t = tensor_new(infer_arena(in), DT_F32, 3, dims);
	t->data = arena_copy(infer_arena(in), bias, (size_t)count * sizeof *bias);
	y = EXPAND(in, n, Mul, node_in(n, 0),
		   expand_scalar(in, n, x->dtype, (double)node_float(n, "scale", 1)));
	out[0] = EXPAND(in, n, Add, y, expand_cast(in, n, expand_tensor(in, n, t), x->dtype));
	return true;
}

const Op op_ImageScaler = {
	.expand = expand_image_scaler, .types = "f",
	.attrs = "bias: floats, scale: float",
};
