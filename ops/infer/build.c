/* SPDX-License-Identifier: Apache-2.0 */
/* Points, statements, accumulators and windows: see build.h. */
#include "ops/infer/build.h"

#include <assert.h>
#include <limits.h>

Expr *point_add(Kernel *k, Point *p, const char *name, Dim *extent)
{
	if (dim_equals(extent, 1))
		return ex_int(k->pool, CT_I64, 0);
	assert(p->n < MAX_ITERS);
	p->it[p->n] = kernel_iter(k, name, extent);
	return ex_iter(k->pool, p->it[p->n++]);
}

void point_add_dims(Kernel *k, Point *p, const Buf *b, Expr **idx)
{
	char name[24];

	for (int i = 0; i < b->rank; i++) {
		snprintf(name, sizeof name, "i%d", i);
		idx[i] = point_add(k, p, name, b->dims[i]);
	}
}

Stmt *point_map(Kernel *k, const Point *p, Buf *out, Expr *const *widx, Expr *val, Expr *guard)
{
	return kernel_map(k, p->it, p->n, out, widx, val, guard);
}

Stmt *point_reduce(Kernel *k, Monoid m, const Point *band, const Point *red, Buf *out,
		   Expr *const *widx, Expr *val, Expr *guard)
{
	Point all = *band;
	Stmt *s;

	if (!red->n) {
		all.it[all.n++] = kernel_iter(k, "r", dim_const(k->ctx, 1));
	}
	for (int i = 0; i < red->n; i++)
		all.it[all.n++] = red->it[i];
	assert(all.n <= MAX_ITERS);
	s = kernel_map(k, all.it, all.n, out, widx, val, guard);
	s->nband = band->n;
	s->red = m;
	return s;
}

Stmt *point_reduce2(Kernel *k, Monoid m, const Point *band, const Point *red, Buf *const *out,
		    Expr *const *widx, Expr *const *val, Expr *guard)
{
	Stmt *s = point_reduce(k, m, band, red, out[0], widx, val[0], guard);

	assert(monoid_info[m].n == 2);
	s->nout = 2;
	s->out[1] = out[1];
	s->val[1] = ex_cvt(k->pool, dtype_ctype(out[1]->dtype), val[1]);
	return s;
}

DType acc_dtype(DType t)
{
	return ctype_dtype(dtype_ctype(t));
}

Buf *acc_buf(Kernel *k, Buf *out, bool last)
{
	DType t = acc_dtype(out->dtype);

	if (last && t == out->dtype)
		return out;
	return kernel_temp(k, "acc", t, out->rank, out->dims);
}

Expr *broadcast_index(Kernel *k, Dim *from, Dim *to, Expr *it)
{
	Ctx *c = k->ctx;
	Dim *one = dim_const(c, 1);
	int64_t lo, hi;

	if (from == to)
		return it;
	if (dim_equals(from, 1))
		return ex_int(k->pool, CT_I64, 0);
	dim_bounds(c, from, &lo, &hi);
	if (lo > 1 || dim_is_const(from, NULL))
		return it;
	return ex_mul(k->pool, it, ex_dim(k->pool, dim_min(c, one, dim_sub(c, from, one))));
}

bool contract_types(Infer *in, Node *n)
{
	DType t = infer_type(n, 0)->dtype;

	if (!dtype_is_float(t) && !dtype_is_int(t))
		return infer_error(in, n, "elements of type %s are not supported",
				   dtype_info[t].name);
	for (int i = 1; i < n->nin; i++)
		if (infer_type(n, i) && infer_type(n, i)->dtype != t)
			return infer_error(
				in, n, "operand %d has elements of type %s, operand 1 of %s", i + 1,
				dtype_info[infer_type(n, i)->dtype].name, dtype_info[t].name);
	return true;
}

Expr *build_string(Kernel *k, int64_t id)
{
	Expr *at = ex_int(k->pool, CT_I64, 0);

	return kernel_load(k, kernel_table(k, "string", DT_STR, 1, &id), &at);
}

Expr *build_expr(Kernel *k, CType t, const char *text, const ExprName *names, int n)
{
	const char *err = NULL;
	Expr *e = ex_parse(k->pool, text, t, names, n, &err);

	assert(e && !err);
	return e;
}

/* ---- Windows ---- */

bool window_ints(Infer *in, Node *n, const char *name, int count, int64_t least, int64_t otherwise,
		 int64_t *out)
{
	int have;
	const int64_t *v = node_ints(n, name, &have);

	for (int i = 0; i < count; i++)
		out[i] = otherwise;
	if (have <= 0)
		return true;
	if (in && have != count)
		return infer_error(in, n, "attribute \"%s\" has %d entries, expected %d", name,
				   have, count);
	for (int i = 0; i < count && i < have; i++) {
		out[i] = v[i];
		if (in && (v[i] < least || v[i] > INT_MAX))
			return infer_error(in, n,
					   "attribute \"%s\" holds %lld, expected %lld to %d", name,
					   (long long)v[i], (long long)least, INT_MAX);
	}
	return true;
}

void window_result(Infer *in, Node *n, int k, DType t, Dim *channels, const Window *w)
{
	Dim *dims[MAX_RANK] = {infer_type(n, 0)->dims[0], channels};

	for (int d = 0; d < w->n; d++)
		dims[d + 2] = w->out[d];
	infer_result(in, n, k, t, w->n + 2, dims);
}

Dim *window_extent(Ctx *c, const Window *w, int d)
{
	Dim *one = dim_const(c, 1);

	return dim_add(c, dim_mul(c, dim_sub(c, w->kernel[d], one), dim_const(c, w->dilation[d])),
		       one);
}

/* The window's extents: kernel_shape, WEIGHT's dims, or both, which must be equal. */
static bool window_kernel(Infer *in, Ctx *c, Node *n, const Type *weight, Window *w)
{
	int have;
	const int64_t *v = node_ints(n, "kernel_shape", &have);

	if (!weight && have < 0)
		return !in || infer_error(in, n, "attribute \"kernel_shape\" is missing");
	if (in && have >= 0 && have != w->n)
		return infer_error(in, n, "kernel_shape has %d entries for %d spatial dims", have,
				   w->n);
	for (int i = 0; i < w->n; i++) {
		Dim *given = have > i ? dim_const(c, v[i]) : NULL;

		if (in && given && v[i] < 1)
			return infer_error(
				in, n, "attribute \"kernel_shape\" holds %lld, expected 1 or more",
				(long long)v[i]);
		w->kernel[i] = weight ? weight->dims[i + 2] : given;
		if (in && weight && given &&
		    !infer_dim_equals(in, n, &weight->dims[i + 2], given,
				      "kernel_shape differs from the weight's"))
			return false;
	}
	return true;
}

/* a / 2, rounded towards zero. */
static Dim *halved(Ctx *c, Dim *a)
{
	return dim_floordiv(c, dim_add(c, a, dim_le(c, a, dim_const(c, -1))), dim_const(c, 2));
}

/* SAME_UPPER and SAME_LOWER: the result has ceil(in / stride) points, and the pads are as large
 * as that needs. If it needs less than the input, a convolution starts at the first element, but
 * a pool is centred. */
static void window_same(Ctx *c, Window *w, int d, bool lower, bool pool)
{
	Dim *one = dim_const(c, 1), *s = dim_const(c, w->stride[d]), *total;

	w->out[d] = dim_ceildiv(c, w->in[d], s);
	total = dim_add(c, dim_mul(c, dim_sub(c, w->out[d], one), s), window_extent(c, w, d));
	total = dim_sub(c, total, w->in[d]);
	if (!pool)
		total = dim_max(c, total, dim_const(c, 0));
	w->begin[d] = halved(c, lower ? dim_add(c, total, one) : total);
	w->end[d] = dim_sub(c, total, w->begin[d]);
	w->padded[d] = !dim_equals(total, 0);
}

/* Explicit pads: the result has floor or ceil((in + pads - extent) / stride) + 1 points. With
 * ceil, a last window that would start beyond the input and its begin pad is dropped, and the
 * only one may be larger than the padded input, by less than the stride. */
static bool window_explicit(Infer *in, Ctx *c, Node *n, Window *w, int d, bool ceil)
{
	Dim *s = dim_const(c, w->stride[d]), *one = dim_const(c, 1);
	Dim *start = dim_add(c, w->in[d], w->begin[d]);
	Dim *room = dim_add(c, start, w->end[d]);
	Dim *ext = window_extent(c, w, d);
	Dim *span = dim_sub(c, room, ext), *past, *quot;
	Dim *most = ceil ? dim_add(c, room, dim_const(c, w->stride[d] - 1)) : room;

	if (in &&
	    !infer_le_shown(
		    in, n, ext, most, "the window is larger than the padded input",
		    (FactSize){arena_printf(infer_arena(in), "along dim %d it spans", d + 2), ext},
		    (FactSize){ceil ? "the input with its pads and a stride less 1"
				    : "the input with its pads",
			       most}))
		return false;
	if (ceil && w->stride[d] > 1) {
		w->out[d] = dim_add(c, dim_ceildiv(c, span, s), one);
		past = dim_mul(c, dim_sub(c, w->out[d], one), s);
		w->out[d] = dim_sub(c, w->out[d], dim_le(c, start, past));
		w->ceil[d] = !dim_divides(c, span, s, &quot);
	} else {
		w->out[d] = dim_add(c, dim_floordiv(c, span, s), one);
	}
	w->padded[d] = w->ceil[d] || !dim_equals(w->begin[d], 0) || !dim_equals(w->end[d], 0);
	return true;
}

bool window_init(Infer *in, Ctx *c, Node *n, const Type *x, const Type *weight, Window *w)
{
	const char *pad = node_str(n, "auto_pad", "NOTSET");
	bool same = !strcmp(pad, "SAME_UPPER") || !strcmp(pad, "SAME_LOWER");
	bool ceil = node_int(n, "ceil_mode", 0) != 0;
	int64_t pads[MAX_RANK * 2];

	memset(w, 0, sizeof *w);
	if (in && x->rank < 3)
		return infer_error(in, n, "operand has rank %d, less than 3", x->rank);
	w->n = x->rank - 2;
	if (in && weight && weight->rank != x->rank)
		return infer_error(in, n, "weight has rank %d, the input %d", weight->rank,
				   x->rank);
	if (in && !same && strcmp(pad, "NOTSET") && strcmp(pad, "VALID") && *pad)
		return infer_error(
			in, n,
			"auto_pad is \"%s\", expected NOTSET, VALID, SAME_UPPER or SAME_LOWER",
			pad);
	for (int i = 0; i < w->n; i++)
		w->in[i] = x->dims[i + 2];
	if (!window_kernel(in, c, n, weight, w) ||
	    !window_ints(in, n, "strides", w->n, 1, 1, w->stride) ||
	    !window_ints(in, n, "dilations", w->n, 1, 1, w->dilation) ||
	    !window_ints(in, n, "pads", w->n * 2, INT_MIN, 0, pads))
		return false;
	for (int i = 0; i < w->n; i++) {
		bool valid = !strcmp(pad, "VALID");

		w->begin[i] = dim_const(c, valid ? 0 : pads[i]);
		w->end[i] = dim_const(c, valid ? 0 : pads[w->n + i]);
		if (same)
			window_same(c, w, i, !strcmp(pad, "SAME_LOWER"), !weight);
		else if (!window_explicit(in, c, n, w, i, ceil))
			return false;
	}
	return true;
}

Expr *window_index(Kernel *k, const Window *w, int d, Expr *o, Expr *r, Expr **guard)
{
	ExprPool *p = k->pool;
	Expr *i = ex_add(p, ex_mul(p, o, ex_int(p, CT_I64, w->stride[d])),
			 ex_mul(p, r, ex_int(p, CT_I64, w->dilation[d])));

	i = ex_sub(p, i, ex_dim(p, w->begin[d]));
	if (w->padded[d])
		*guard = ex_and(p, *guard, ex_inside(p, i, ex_dim(p, w->in[d])));
	return i;
}
