/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions over axes, arg-reductions and prefixes. Axes that are known only at run time are
 * represented by a `flag` of 0 or 1 for each dim d: its kept extent is flag ? 1 : d, its reduced
 * extent is flag ? d : 1, and the operand is read at index kept + reduced. For known axes the flags
 * are constants, and the other terms fold away.
 */
#include "ops/infer/build.h"
#include "ops/onnx/shape.h"

#include <assert.h>

typedef struct Axes {
	int rank, count; /* rank of the operand; number of reduced axes */
	bool keep;
	Dim *flag[MAX_RANK]; /* 1: reduced */
} Axes;

/* Sets FLAG from COUNT axes given as dims, which may be negative. */
static bool flags_of_dims(Infer *in, Ctx *c, Node *n, Dim *const *v, int count, Axes *a)
{
	Dim *rank = dim_const(c, a->rank), *sum = dim_const(c, 0);

	if (count > a->rank)
		return infer_error(in, n, "%d axes are given for rank %d", count, a->rank);
	for (int d = 0; d < a->rank; d++)
		a->flag[d] = dim_const(c, 0);
	for (int i = 0; i < count; i++) {
		if (in && (!infer_le(in, n, dim_const(c, -a->rank), v[i], "axis is too small") ||
			   !infer_le(in, n, v[i], dim_const(c, a->rank - 1), "axis is too large")))
			return false;
		for (int d = 0; d < a->rank; d++)
			a->flag[d] = dim_max(c, a->flag[d],
					     dim_eq(c, dim_mod(c, v[i], rank), dim_const(c, d)));
	}
	for (int d = 0; d < a->rank; d++)
		sum = dim_add(c, sum, a->flag[d]);
	if (in && !infer_equal_shown(in, n, sum, dim_const(c, count), "an axis is given twice",
				     (FactSize){"axes given:", dim_const(c, count)},
				     (FactSize){"different ones:", sum}))
		return false;
	a->count = count;
	return true;
}

/* The axes of a Reduce node: operand 1; all if it is omitted or empty, or none with the noop
 * attribute. */
static bool reduce_axes(Infer *in, Node *n, bool check, Axes *a)
{
	Ctx *c = infer_ctx(in);
	const Type *x = infer_type(n, 0), *t = infer_type(n, 1);
	int count = 0;
	Dim **v = NULL;

	*a = (Axes){.rank = x->rank, .keep = node_int(n, "keepdims", 1) != 0};
	if (t) {
		if (t->rank > 1 || !dtype_is_int(t->dtype))
			return infer_error(in, n, "the axes have rank %d, expected 1",
					   infer_type(n, 1)->rank);
		v = infer_vector(in, n, 1, a->keep ? -1 : x->rank - infer_declared_rank(n),
				 &count);
		if (!v)
			return false;
	}
	if (count)
		return flags_of_dims(check ? in : NULL, c, n, v, count, a);
	a->count = node_int(n, "noop_with_empty_axes", 0) ? 0 : a->rank;
	for (int d = 0; d < a->rank; d++)
		a->flag[d] = dim_const(c, a->count != 0);
	return true;
}

/* 1 if dim D of the operand is dim J of the result (from which reduced dims are removed), else
 * 0. */
static Dim *axis_is_at(Ctx *c, const Axes *a, int d, int j)
{
	Dim *one = dim_const(c, 1), *pos = dim_const(c, 0);

	for (int b = 0; b < d; b++)
		pos = dim_add(c, pos, dim_sub(c, one, a->flag[b]));
	return dim_mul(c, dim_eq(c, pos, dim_const(c, j)), dim_sub(c, one, a->flag[d]));
}

static int reduced_dims(Ctx *c, const Axes *a, Dim *const *x, Dim **out)
{
	int rank = a->keep ? a->rank : a->rank - a->count;

	for (int j = 0; j < rank; j++) {
		if (a->keep) {
			out[j] = dim_select(c, a->flag[j], dim_const(c, 1), x[j]);
			continue;
		}
		out[j] = dim_const(c, 0);
		for (int d = 0; d < a->rank; d++)
			out[j] = dim_add(c, out[j], dim_mul(c, axis_is_at(c, a, d, j), x[d]));
	}
	return rank;
}

static bool infer_reduce(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Dim *dims[MAX_RANK];
	Axes a;
	int rank;

	if (!reduce_axes(in, n, true, &a))
		return false;
	rank = reduced_dims(infer_ctx(in), &a, x->dims, dims);
	return infer_result(in, n, 0, x->dtype, rank, dims);
}

/* ---- Statements ---- */

/* The points of a reduction: the result's and the reduced iterators, and the indices at which the
 * operand is read and the result is written. */
typedef struct Reduction {
	Kernel *k;
	Buf *x, *out;
	Point band, red;
	Expr *xi[MAX_RANK], *oi[MAX_RANK];
	Dim *count; /* number of elements that are reduced to one */
	Axes axes;
} Reduction;

/* The index into dim D of the operand, without its reduced part. */
static Expr *kept_index(Reduction *r, int d)
{
	Ctx *c = r->k->ctx;
	ExprPool *p = r->k->pool;
	Expr *e = ex_int(p, CT_I64, 0);

	if (r->axes.keep)
		return r->oi[d];
	for (int j = 0; j < r->out->rank; j++)
		e = ex_add(p, e, ex_mul(p, r->oi[j], ex_dim(p, axis_is_at(c, &r->axes, d, j))));
	return e;
}

static void reduction_init(Infer *in, Node *n, Kernel *k, Reduction *r)
{
	Ctx *c = k->ctx;
	Dim *one = dim_const(c, 1);
	char name[24];

	*r = (Reduction){.k = k, .x = lower_in(k, 0), .out = lower_out(k, 0), .count = one};
	reduce_axes(in, n, false, &r->axes);
	point_add_dims(k, &r->band, r->out, r->oi);
	for (int d = 0; d < r->x->rank; d++) {
		Dim *extent = dim_select(c, r->axes.flag[d], r->x->dims[d], one);

		snprintf(name, sizeof name, "r%d", d);
		r->count = dim_mul(c, r->count, extent);
		r->xi[d] = ex_add(k->pool, kept_index(r, d), point_add(k, &r->red, name, extent));
	}
}

static Expr *reduction_load(Reduction *r, CType t)
{
	return ex_cvt(r->k->pool, t, kernel_load(r->k, r->x, r->xi));
}

/* A reduction: TERM over x, and FINISH over s (the sum) and n (the number of terms). */
typedef struct ReduceForm {
	OpKind op;
	Monoid monoid;
	const char *term, *finish;
	bool real; /* FINISH has fractions, so integers are computed in floats */
} ReduceForm;

static const ReduceForm reduce_form[] = {
	{OP_ReduceSum, MONOID_sum, "x", "s", false},
	{OP_ReduceMean, MONOID_sum, "x", "div(s, n)", false},
	{OP_ReduceProd, MONOID_prod, "x", "s", false},
	{OP_ReduceL1, MONOID_sum, "abs(x)", "s", false},
	{OP_ReduceSumSquare, MONOID_sum, "mul(x, x)", "s", false},
	{OP_ReduceL2, MONOID_sum, "mul(x, x)", "sqrt(s)", true},
	{OP_ReduceLogSum, MONOID_sum, "x", "log(s)", true},
};

/* The type that a form computes in for elements of T. */
static CType form_ctype(const ReduceForm *f, DType t)
{
	return f->real && !dtype_is_float(t) ? CT_F64 : dtype_ctype(t);
}

static void lower_form(Infer *in, Node *n, Kernel *k)
{
	const ReduceForm *f = reduce_form;
	Reduction r;
	DType t = lower_out(k, 0)->dtype;
	CType ct;
	Expr *x, *s;
	Buf *acc;

	while (f->op != n->op)
		f++;
	ct = form_ctype(f, t);
	reduction_init(in, n, k, &r);
	x = reduction_load(&r, ct);
	x = BUILD_EXPR(k, ct, f->term, {"x", x});
	acc = !strcmp(f->finish, "s") && ctype_dtype(ct) == t
		      ? r.out
		      : kernel_temp(k, "acc", ctype_dtype(ct), r.out->rank, r.out->dims);
	point_reduce(k, f->monoid, &r.band, &r.red, acc, r.oi, x, NULL);
	if (acc == r.out)
		return;
	s = BUILD_EXPR(k, ct, f->finish, {"s", kernel_load(k, acc, r.oi)},
		       {"n", ex_cvt(k->pool, ct, ex_dim(k->pool, r.count))});
	point_map(k, &r.band, r.out, r.oi, s, NULL);
}

/* log(sum(exp(x))), with x shifted by its maximum, or by 0 if that is infinite. */
static void lower_log_sum_exp(Infer *in, Node *n, Kernel *k)
{
	Reduction r;
	CType ct = form_ctype(&(ReduceForm){.real = true}, lower_out(k, 0)->dtype);
	DType t = ctype_dtype(ct);
	Buf *max, *sum;
	Expr *x, *m, *s;

	reduction_init(in, n, k, &r);
	max = kernel_temp(k, "max", t, r.out->rank, r.out->dims);
	sum = kernel_temp(k, "acc", t, r.out->rank, r.out->dims);
	x = reduction_load(&r, ct);
	point_reduce(k, MONOID_max, &r.band, &r.red, max, r.oi, x, NULL);
	m = BUILD_EXPR(k, ct, "select(lt(abs(m), inf), m, 0)", {"m", kernel_load(k, max, r.oi)});
	point_reduce(k, MONOID_sum, &r.band, &r.red, sum, r.oi,
		     BUILD_EXPR(k, ct, "exp(sub(x, m))", {"x", x}, {"m", m}), NULL);
	s = BUILD_EXPR(k, ct, "add(log(s), m)", {"s", kernel_load(k, sum, r.oi)}, {"m", m});
	point_map(k, &r.band, r.out, r.oi, s, NULL);
}

/* The ends of a type that is narrower than its scalar type: an empty set gives these, not the
 * monoid's identity. False if the identity is right. */
static bool narrow_ends(DType t, int64_t *lo, int64_t *hi)
{
	int bits = dtype_info[t].bits;

	if (!dtype_is_int(t) || bits >= 32)
		return false;
	*lo = dtype_is_signed(t) ? -(INT64_C(1) << (bits - 1)) : 0;
	*hi = dtype_is_signed(t) ? (INT64_C(1) << (bits - 1)) - 1 : (INT64_C(1) << bits) - 1;
	return true;
}

static void lower_extremum(Infer *in, Node *n, Kernel *k)
{
	const bool max = n->op == OP_ReduceMax;
	Reduction r;
	DType t = lower_out(k, 0)->dtype;
	CType ct = dtype_ctype(t);
	Monoid m = max ? MONOID_max : MONOID_min;
	int64_t lo = 0, hi = 0;
	Buf *acc;
	Expr *e;

	if (t == DT_BOOL)
		m = max ? MONOID_or : MONOID_and;
	reduction_init(in, n, k, &r);
	acc = r.out;
	if (narrow_ends(t, &lo, &hi) && !dim_prove_le(k->ctx, dim_const(k->ctx, 1), r.count))
		acc = kernel_temp(k, "acc", DT_I32, r.out->rank, r.out->dims);
	point_reduce(k, m, &r.band, &r.red, acc, r.oi, reduction_load(&r, ct), NULL);
	if (acc == r.out)
		return;
	e = ex_op2(k->pool, max ? IN_max : IN_min, kernel_load(k, acc, r.oi),
		   ex_int(k->pool, ct, max ? lo : hi));
	point_map(k, &r.band, r.out, r.oi, e, NULL);
}

/* ---- ArgMax, ArgMin ---- */

static bool arg_axes(Infer *in, Node *n, Axes *a)
{
	const Type *x = infer_type(n, 0);
	int axis;

	*a = (Axes){.rank = x->rank, .count = 1, .keep = node_int(n, "keepdims", 1) != 0};
	if (!infer_axis(in, n, node_int(n, "axis", 0), x->rank, &axis))
		return false;
	for (int d = 0; d < x->rank; d++)
		a->flag[d] = dim_const(infer_ctx(in), d == axis);
	return true;
}

static bool infer_arg(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Dim *dims[MAX_RANK];
	Axes a;
	int rank;

	if (!arg_axes(in, n, &a))
		return false;
	rank = reduced_dims(infer_ctx(in), &a, x->dims, dims);
	return infer_result(in, n, 0, DT_I64, rank, dims);
}

static void lower_arg(Infer *in, Node *n, Kernel *k)
{
	static const Monoid monoid[2][2] = {{MONOID_argmin_first, MONOID_argmin_last},
					    {MONOID_argmax_first, MONOID_argmax_last}};
	const bool last = node_int(n, "select_last_index", 0) != 0;
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0), *best;
	Point band = {0}, red = {0};
	Expr *xi[MAX_RANK], *oi[MAX_RANK], *val[2];
	Axes a;
	int axis = 0;

	if (!arg_axes(in, n, &a))
		return;
	while (!dim_equals(a.flag[axis], 1))
		axis++;
	point_add_dims(k, &band, out, oi);
	for (int d = 0; d < x->rank; d++)
		xi[d] = d == axis ? point_add(k, &red, "r", x->dims[d])
				  : oi[a.keep || d < axis ? d : d - 1];
	val[0] = kernel_load(k, x, xi);
	val[1] = xi[axis];
	best = kernel_temp(k, "best", x->dtype, out->rank, out->dims);
	point_reduce2(k, monoid[n->op == OP_ArgMax][last], &band, &red, (Buf *[]){best, out}, oi,
		      val, NULL);
}

/* ---- CumSum, CumProd ---- */

static bool scan_axis(Infer *in, Node *n, bool check, Axes *a)
{
	const Type *x = infer_type(n, 0), *t = infer_type(n, 1);
	Dim *axis;

	if (!t || t->rank > 1 || !dtype_is_int(t->dtype))
		return infer_error(in, n, "axis is not an integer");
	*a = (Axes){.rank = x->rank, .keep = true};
	axis = infer_single(in, n, 1);
	return axis && flags_of_dims(check ? in : NULL, infer_ctx(in), n, &axis, 1, a);
}

static bool infer_scan(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Axes a;

	if (!scan_axis(in, n, true, &a))
		return false;
	return infer_result(in, n, 0, x->dtype, x->rank, x->dims);
}

/* Step J writes at j, or, from the end, at last - j. It reads its term there, or one step
 * before. */
static void lower_scan(Infer *in, Node *n, Kernel *k)
{
	const bool sum = n->op == OP_CumSum;
	Ctx *c = k->ctx;
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0);
	Point all = {0};
	Dim *length = dim_const(c, 0), *one = dim_const(c, 1);
	bool reverse = node_int(n, "reverse", 0) != 0, exclusive = node_int(n, "exclusive", 0) != 0;
	Expr *kept[MAX_RANK], *xi[MAX_RANK], *oi[MAX_RANK], *j, *at, *from, *val;
	CType ct = dtype_ctype(out->dtype);
	Stmt *s;
	Axes a;
	int nband;

	scan_axis(in, n, false, &a);
	for (int d = 0; d < x->rank; d++) {
		kept[d] = point_add(k, &all, "i", dim_select(c, a.flag[d], one, x->dims[d]));
		length = dim_add(c, length, dim_mul(c, a.flag[d], x->dims[d]));
	}
	nband = all.n;
	all.it[all.n++] = kernel_iter(k, "j", length);
	j = ex_iter(p, all.it[nband]);
	at = reverse ? ex_sub(p, ex_dim(p, dim_sub(c, length, one)), j) : j;
	from = !exclusive ? at
	       : reverse  ? ex_add(p, at, ex_int(p, CT_I64, 1))
			  : ex_sub(p, at, ex_int(p, CT_I64, 1));
	for (int d = 0; d < x->rank; d++) {
		Expr *flag = ex_dim(p, a.flag[d]);

		oi[d] = ex_add(p, kept[d], ex_mul(p, at, flag));
		xi[d] = ex_add(p, kept[d], ex_mul(p, from, flag));
	}
	val = kernel_load(k, x, xi);
	if (exclusive)
		val = ex_op3(p, IN_select, ex_op2(p, IN_eq, j, ex_int(p, CT_I64, 0)),
			     ex_num(p, ct, sum ? 0 : 1), val);
	s = point_map(k, &all, out, oi, val, NULL);
	s->nband = nband;
	s->red = sum ? MONOID_sum : MONOID_prod;
	s->scan = true;
}

/* SINCE: the version from which on the operator has the attribute. */
#define REDUCTION(name, since, ...)                                                              \
	const Op op_##name = {.infer = infer_reduce,                                             \
			      .doc = "Axes given at run time must have a known number.",         \
			      .attrs = "keepdims: int, noop_with_empty_axes: int since " #since, \
			      __VA_ARGS__}

REDUCTION(ReduceSum, 13, .types = "fiu", .lower = lower_form);
REDUCTION(ReduceMean, 18, .types = "fiu", .lower = lower_form, .within = true);
REDUCTION(ReduceMax, 18, .types = "fiub", .lower = lower_extremum, .within = true);
REDUCTION(ReduceMin, 18, .types = "fiub", .lower = lower_extremum, .within = true);
REDUCTION(ReduceProd, 18, .types = "fiu", .lower = lower_form);
REDUCTION(ReduceL1, 18, .types = "fiu", .lower = lower_form);
REDUCTION(ReduceL2, 18, .types = "fiu", .lower = lower_form);
REDUCTION(ReduceLogSum, 18, .types = "fiu", .lower = lower_form);
REDUCTION(ReduceLogSumExp, 18, .types = "fiu", .lower = lower_log_sum_exp);
REDUCTION(ReduceSumSquare, 18, .types = "fiu", .lower = lower_form);
const Op op_ArgMax = {
	.types = "fiu",
	.infer = infer_arg,
	.lower = lower_arg,
	.attrs = "axis: int, keepdims: int, select_last_index: int since 12",
};
const Op op_ArgMin = {
	.types = "fiu",
	.infer = infer_arg,
	.lower = lower_arg,
	.attrs = "axis: int, keepdims: int, select_last_index: int since 12",
};
const Op op_CumSum = {
	.types = "fiu",
	.infer = infer_scan,
	.lower = lower_scan,
	.attrs = "exclusive: int, reverse: int",
};
const Op op_CumProd = {
	.types = "fiu",
	.infer = infer_scan,
	.lower = lower_scan,
	.attrs = "exclusive: int, reverse: int",
};
