/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampling at points that are data: GridSample and AffineGrid, which makes such points.
 *
 * GridSample: y[n,c,o...] = x[n,c] at the point grid[n,o...], whose last dim has a coordinate in
 * [-1, 1] for each spatial dim, the last dim first. Nearest and linear sampling are one map. Cubic
 * sampling first computes, for every point and dim, four indices and weights, and is then a
 * reduction over the taps. Coordinates are clamped before they become indices, so that infinite and
 * NaN ones stay inside the input.
 */
#include "ops/infer/build.h"
#include "ops/onnx/shape.h"

enum { TAPS = 4 }; /* of cubic interpolation, in each dim */

typedef enum GridMode { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC, GRID_MODES } GridMode;
typedef enum GridPad { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION, GRID_PADS } GridPad;

typedef struct Grid {
	GridMode mode;
	GridPad pad;
	bool align; /* -1 and 1 are the centres of the corner pixels, not their outer edges */
	int n;      /* spatial dims */
	Buf *x, *grid, *out;
	CType real;
} Grid;

static bool grid_attrs(Infer *in, Node *n, Grid *g)
{
	static const char *const modes[] = {"linear", "nearest", "cubic"};
	static const char *const pads[] = {"zeros", "border", "reflection"};
	int mode, pad;

	*g = (Grid){.align = node_int(n, "align_corners", 0) != 0};
	if (!infer_choice(in, n, "mode", modes, GRID_MODES, &mode) ||
	    !infer_choice(in, n, "padding_mode", pads, GRID_PADS, &pad))
		return false;
	g->mode = (GridMode)mode;
	g->pad = (GridPad)pad;
	g->n = infer_type(n, 0)->rank - 2;
	return true;
}

static bool infer_grid_sample(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *grid = infer_type(n, 1);
	Dim *out[MAX_RANK];
	Grid g;

	if (!grid_attrs(in, n, &g))
		return false;
	if (x->rank < 3 || grid->rank != x->rank)
		return infer_error(
			in, n, "the operands have ranks %d and %d; expected the same, 3 or more",
			x->rank, grid->rank);
	if (!dtype_is_float(grid->dtype))
		return infer_error(in, n, "the grid has elements of type %s, expected floats",
				   dtype_info[grid->dtype].name);
	if (g.mode != GRID_NEAREST && !dtype_is_float(x->dtype))
		return infer_error(in, n, "elements of type %s are supported in mode nearest only",
				   dtype_info[x->dtype].name);
	if (!infer_equal_dims(in, n, &grid->dims[0], &x->dims[0], "the batches differ") ||
	    !infer_dim_equals(in, n, &grid->dims[x->rank - 1], dim_const(infer_ctx(in), g.n),
			      "the grid needs a coordinate for each spatial dim"))
		return false;
	out[0] = x->dims[0];
	out[1] = x->dims[1];
	for (int d = 0; d < g.n; d++)
		out[d + 2] = grid->dims[d + 1];
	infer_result(in, n, 0, x->dtype, x->rank, out);
	return g.pad == PAD_ZEROS || infer_places(in, n, x->dims + 2, g.n, out, x->rank);
}

/* X brought back into the interval by mirroring it at its ends LO and HI: the centres of the border
 * pixels, or their outer edges. */
static const char mirror[] =
	"let r = sub(hi, lo); let low = lt(x, lo); let d = select(low, sub(lo, x), sub(x, hi));"
	"let q = trunc(div(d, r)); let m = sub(d, mul(q, r));"
	"let even = eq(mul(trunc(mul(q, 0.5)), 2), q);"
	"let y = select(xor(even, low), sub(hi, m), add(lo, m));"
	"select(or(low, gt(x, hi)), select(gt(r, 0), y, lo), x)";

/* The coordinate in spatial dim D of the point at O, in pixels, as the padding wants it. */
static Expr *pixel(Kernel *k, const Grid *g, int d, Expr *const *o)
{
	ExprPool *p = k->pool;
	Dim *extent = g->x->dims[d + 2];
	Expr *idx[MAX_RANK], *x, *n = ex_cvt(p, g->real, ex_dim(p, extent)), *lo, *hi;

	idx[0] = o[0];
	for (int i = 0; i < g->n; i++)
		idx[i + 1] = o[i + 2];
	idx[g->n + 1] = ex_int(p, CT_I64, g->n - 1 - d);
	x = ex_cvt(p, g->real, kernel_load(k, g->grid, idx));
	x = BUILD_EXPR(k, g->real,
		       g->align ? "mul(mul(add(x, 1), 0.5), sub(n, 1))"
				: "mul(sub(mul(add(x, 1), n), 1), 0.5)",
		       {"x", x}, {"n", n});
	if (g->mode == GRID_NEAREST)
		x = ex_op1(p, IN_rint, x);
	lo = ex_num(p, g->real, g->align ? 0 : -0.5);
	hi = ex_op2(p, IN_sub, n, ex_num(p, g->real, g->align ? 1 : 0.5));
	if (g->pad == PAD_REFLECTION)
		return BUILD_EXPR(k, g->real, mirror, {"x", x}, {"lo", lo}, {"hi", hi});
	/* Cubic sampling clamps only the indices of its taps: at -0.2 two of them are pixel 0. */
	if (g->pad == PAD_BORDER && g->mode != GRID_CUBIC)
		return BUILD_EXPR(k, g->real,
				  "select(lt(x, 0), 0, select(gt(x, sub(n, 1)), sub(n, 1), x))",
				  {"x", x}, {"n", n});
	return BUILD_EXPR(k, g->real,
			  "select(lt(x, -4), -4, select(gt(x, add(n, 4)), add(n, 4), x))", {"x", x},
			  {"n", n});
}

/* The index at which the tap at index I of a dim of EXTENT is read; *INSIDE gets the condition that
 * it counts. */
static Expr *tap_index(Kernel *k, const Grid *g, Expr *i, Dim *extent, Expr **inside)
{
	ExprPool *p = k->pool;
	Expr *last = ex_dim(p, dim_sub(k->ctx, extent, dim_const(k->ctx, 1))),
	     *zero = ex_int(p, CT_I64, 0);

	if (g->pad == PAD_ZEROS)
		*inside = ex_and(p, *inside, ex_inside(p, i, ex_dim(p, extent)));
	if (g->pad == PAD_REFLECTION)
		i = BUILD_EXPR(k, CT_I64,
			       "let j = select(lt(i, 0), sub(neg(i), e), i);"
			       "select(gt(j, l), sub(add(mul(2, l), e), j), j)",
			       {"i", i}, {"l", last}, {"e", ex_int(p, CT_I64, !g->align)});
	return ex_op2(p, IN_max, ex_op2(p, IN_min, i, last), zero);
}

/* The element at XI, or 0 if the condition INSIDE fails. */
static Expr *sample_at(Kernel *k, const Grid *g, Expr *const *xi, Expr *inside)
{
	Expr *v = kernel_load(k, g->x, xi);

	return inside ? ex_op3(k->pool, IN_select, inside, v, ex_num(k->pool, v->ct, 0)) : v;
}

/* Interpolates linearly in dims D and above at the pixels AT, where XI is set for the dims below
 * D. */
static Expr *linear(Kernel *k, const Grid *g, int d, Expr *const *at, Expr **xi, Expr *inside)
{
	ExprPool *p = k->pool;
	Expr *low, *fraction, *end[2], *next;
	Dim *extent;

	if (d == g->n)
		return ex_cvt(p, g->real, sample_at(k, g, xi, inside));
	extent = g->x->dims[d + 2];
	low = ex_op1(p, IN_floor, at[d]);
	fraction = ex_op2(p, IN_sub, at[d], low);
	low = ex_cvt(p, CT_I64, low);
	for (int t = 0; t < 2; t++) {
		next = inside;
		xi[d + 2] = tap_index(k, g, ex_add(p, low, ex_int(p, CT_I64, t)), extent, &next);
		end[t] = linear(k, g, d + 1, at, xi, next);
	}
	return BUILD_EXPR(k, g->real, "add(mul(a, sub(1, f)), mul(b, f))", {"a", end[0]},
			  {"b", end[1]}, {"f", fraction});
}

static void lower_direct(Kernel *k, const Grid *g)
{
	ExprPool *p = k->pool;
	Expr *o[MAX_RANK], *xi[MAX_RANK], *at[MAX_RANK], *inside = NULL, *v;
	Point all = {0};

	point_add_dims(k, &all, g->out, o);
	xi[0] = o[0];
	xi[1] = o[1];
	for (int d = 0; d < g->n; d++)
		at[d] = pixel(k, g, d, o);
	if (g->mode == GRID_LINEAR) {
		v = linear(k, g, 0, at, xi, NULL);
	} else {
		for (int d = 0; d < g->n; d++)
			xi[d + 2] = tap_index(k, g, ex_cvt(p, CT_I64, at[d]), g->x->dims[d + 2],
					      &inside);
		v = sample_at(k, g, xi, inside);
	}
	point_map(k, &all, g->out, o, ex_cvt(p, dtype_ctype(g->out->dtype), v), NULL);
}

/* The weight of a tap at the distance x, with the coefficient -0.75. */
static const char cubic_weight[] =
	"let v = abs(x); select(le(v, 1), add(mul(mul(sub(mul(1.25, v), 2.25), v), v), 1),"
	" select(lt(v, 2), sub(mul(add(mul(sub(mul(-0.75, v), -3.75), v), -6), v), -3), 0))";

/* The indices and weights of the taps of one dim, over (batch, o..., tap). The index is -1 where
 * the tap counts as 0. */
typedef struct Taps {
	Buf *index, *weight;
} Taps;

static Taps cubic_taps(Kernel *k, const Grid *g, int d)
{
	ExprPool *p = k->pool;
	Expr *idx[MAX_RANK], *o[MAX_RANK], *x, *low, *tap, *inside = NULL, *w, *at;
	Dim *dims[MAX_RANK];
	Point all = {0}, same = {0};
	Taps t;

	dims[0] = g->out->dims[0];
	for (int i = 0; i < g->n; i++)
		dims[i + 1] = g->out->dims[i + 2];
	dims[g->n + 1] = dim_const(k->ctx, TAPS);
	t.index = kernel_temp(k, "at", DT_I64, g->n + 2, dims);
	t.weight = kernel_temp(k, "weight", ctype_dtype(g->real), g->n + 2, dims);
	for (int pass = 0; pass < 2; pass++) {
		point_add_dims(k, pass ? &same : &all, t.index, idx);
		o[0] = idx[0];
		for (int i = 0; i < g->n; i++)
			o[i + 2] = idx[i + 1];
		x = pixel(k, g, d, o);
		low = ex_op1(p, IN_floor, x);
		tap = ex_sub(p, idx[g->n + 1], ex_int(p, CT_I64, 1));
		if (pass) {
			w = ex_op2(p, IN_sub, ex_op2(p, IN_sub, x, low), ex_cvt(p, g->real, tap));
			w = BUILD_EXPR(k, g->real, cubic_weight, {"x", w});
			point_map(k, &same, t.weight, idx, w, NULL);
			continue;
		}
		at = ex_add(p, ex_cvt(p, CT_I64, low), tap);
		at = tap_index(k, g, at, g->x->dims[d + 2], &inside);
		if (inside)
			at = ex_op3(p, IN_select, inside, at, ex_int(p, CT_I64, -1));
		point_map(k, &all, t.index, idx, at, NULL);
	}
	return t;
}

static void lower_cubic(Kernel *k, const Grid *g)
{
	ExprPool *p = k->pool;
	Buf *acc = acc_buf(k, g->out, true);
	Expr *o[MAX_RANK], *xi[MAX_RANK], *ti[MAX_RANK], *at, *inside = NULL, *v = NULL, *w,
							      *zero = ex_int(p, CT_I64, 0);
	Point band = {0}, red = {0};
	Taps taps[MAX_RANK];

	for (int d = 0; d < g->n; d++)
		taps[d] = cubic_taps(k, g, d);
	point_add_dims(k, &band, g->out, o);
	xi[0] = ti[0] = o[0];
	xi[1] = o[1];
	for (int d = 0; d < g->n; d++)
		ti[d + 1] = o[d + 2];
	for (int d = 0; d < g->n; d++) {
		Expr *last = ex_dim(p, dim_sub(k->ctx, g->x->dims[d + 2], dim_const(k->ctx, 1)));

		ti[g->n + 1] = point_add(k, &red, "t", dim_const(k->ctx, TAPS));
		at = kernel_load(k, taps[d].index, ti);
		w = kernel_load(k, taps[d].weight, ti);
		v = v ? ex_op2(p, IN_mul, v, w) : w;
		if (g->pad == PAD_ZEROS)
			inside = ex_and(p, inside, ex_op2(p, IN_ge, at, zero));
		xi[d + 2] = ex_op2(p, IN_max, ex_op2(p, IN_min, at, last), zero);
	}
	v = ex_op2(p, IN_mul, v, ex_cvt(p, g->real, sample_at(k, g, xi, inside)));
	point_reduce(k, MONOID_sum, &band, &red, acc, o, v, NULL);
	if (acc == g->out)
		return;
	band = (Point){0};
	point_add_dims(k, &band, g->out, o);
	point_map(k, &band, g->out, o, kernel_load(k, acc, o), NULL);
}

static void lower_grid_sample(Infer *in, Node *n, Kernel *k)
{
	Grid g;

	(void)in;
	grid_attrs(NULL, n, &g);
	g.x = lower_in(k, 0);
	g.grid = lower_in(k, 1);
	g.out = lower_out(k, 0);
	g.real = dtype_ctype(g.grid->dtype);
	if (g.x->dtype == DT_F64)
		g.real = CT_F64;
	if (g.mode == GRID_CUBIC)
		lower_cubic(k, &g);
	else
		lower_direct(k, &g);
}

const Op op_GridSample = {
	.infer = infer_grid_sample,
	.lower = lower_grid_sample,
	.types = "fiubs",
	.doc = "other elements than floats in mode nearest only",
	.attrs = "align_corners: int, mode: string, padding_mode: string",
};

/* ---- AffineGrid ---- */

/* grid[n,o...,i] = sum over j of theta[n,i,j] * position[j] + theta[n,i,last], where the position
 * has a coordinate in [-1, 1] for each spatial dim, the last dim first. */
static bool infer_affine_grid(Infer *in, Node *n)
{
	const Type *t = infer_type(n, 0);
	Ctx *c = infer_ctx(in);
	Dim **size, *out[MAX_RANK];
	int count;
	int64_t columns = -3;

	if (!dtype_is_float(t->dtype) || t->rank != 3)
		return infer_error(in, n, "theta is %s of rank %d, expected floats of rank 3",
				   dtype_info[t->dtype].name, t->rank);
	dim_is_const(t->dims[2], &columns);
	if (!(size = infer_vector(in, n, 1, columns < MAX_RANK ? (int)columns + 1 : -1, &count)))
		return false;
	if (count < 3 || count > MAX_RANK)
		return infer_error(in, n, "size has %d elements, expected 4 or 5", count);
	if (!infer_dim_equals(in, n, &t->dims[0], size[0],
			      "theta and size have different batches") ||
	    !infer_dim_equals(in, n, &t->dims[1], dim_const(c, count - 2),
			      "theta needs a row for each spatial dim") ||
	    !infer_dim_equals(in, n, &t->dims[2], dim_const(c, count - 1),
			      "theta needs a column for each spatial dim, and one more"))
		return false;
	out[0] = t->dims[0];
	for (int d = 2; d < count; d++) {
		out[d - 1] = size[d];
		if (!infer_le(in, n, dim_const(c, 0), size[d], "a size is negative"))
			return false;
	}
	out[count - 1] = dim_const(c, count - 2);
	return infer_result(in, n, 0, t->dtype, count, out);
}

static void lower_affine_grid(Infer *in, Node *n, Kernel *k)
{
	ExprPool *p = k->pool;
	Buf *theta = lower_in(k, 0), *out = lower_out(k, 0);
	bool align = node_int(n, "align_corners", 0) != 0;
	int spatial = out->rank - 2;
	CType t = dtype_ctype(out->dtype);
	Expr *o[MAX_RANK], *idx[3], *sum, *at, *extent;
	Point all = {0};

	(void)in;
	point_add_dims(k, &all, out, o);
	idx[0] = o[0];
	idx[1] = o[out->rank - 1];
	idx[2] = ex_int(p, CT_I64, spatial);
	sum = kernel_load(k, theta, idx);
	for (int d = spatial - 1; d >= 0; d--) {
		extent = ex_cvt(p, t, ex_dim(p, out->dims[d + 1]));
		at = BUILD_EXPR(k, t,
				align ? "select(eq(n, 1), -1, sub(div(mul(2, i), sub(n, 1)), 1))"
				      : "sub(div(add(mul(2, i), 1), n), 1)",
				{"i", ex_cvt(p, t, o[d + 1])}, {"n", extent});
		idx[2] = ex_int(p, CT_I64, spatial - 1 - d);
		sum = ex_op2(p, IN_add, sum, ex_op2(p, IN_mul, at, kernel_load(k, theta, idx)));
	}
	point_map(k, &all, out, o, sum, NULL);
}

const Op op_AffineGrid = {
	.infer = infer_affine_grid, .lower = lower_affine_grid, .types = "f",
	.attrs = "align_corners: int",
};
