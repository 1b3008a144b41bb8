/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools: a reduction over a window in every spatial dim, with a guard if the window may reach
 * outside of the input. That over a large window is a pool of its rows, and then one of the columns
 * of their results. Global pools are composites of reductions over whole dims.
 */
#include "ops/infer/build.h"

static bool infer_pool(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Window w;

	if (!contract_types(in, n) || !window_init(in, infer_ctx(in), n, x, NULL, &w))
		return false;
	window_result(in, n, 0, x->dtype, x->dims[1], &w);
	if (node_out(n, 1))
		window_result(in, n, 1, DT_I64, x->dims[1], &w);
	return true;
}

typedef struct PoolNode {
	Buf *x, *out;
	Window w;
	Point band, red;
	Expr *xi[MAX_RANK], *oi[MAX_RANK], *guard;
} PoolNode;

static void pool_init(Node *n, Kernel *k, PoolNode *p)
{
	const Type *x = infer_type(n, 0);
	Dim *dims[MAX_RANK];
	char name[24];

	*p = (PoolNode){.x = lower_in(k, 0), .out = lower_out(k, 0)};
	window_init(NULL, k->ctx, n, x, NULL, &p->w);
	p->xi[0] = p->oi[0] = point_add(k, &p->band, "n", dims[0] = x->dims[0]);
	p->xi[1] = p->oi[1] = point_add(k, &p->band, "c", dims[1] = x->dims[1]);
	for (int d = 0; d < p->w.n; d++) {
		Expr *r;

		dims[d + 2] = p->w.out[d];
		snprintf(name, sizeof name, "h%d", d);
		p->oi[d + 2] = point_add(k, &p->band, name, p->w.out[d]);
		snprintf(name, sizeof name, "r%d", d);
		r = point_add(k, &p->red, name, p->w.kernel[d]);
		p->xi[d + 2] = window_index(k, &p->w, d, p->oi[d + 2], r, &p->guard);
	}
	if (!p->out)
		p->out = kernel_temp(k, "y", x->dtype, x->rank, dims);
}

/* ---- Large windows ---- */

/* Splitting a pool in two stores and loads the intermediate result, which costs as much as reading
 * this many elements of a window for each result. Measured on AVX2 and AVX-512: windows of 4x4 take
 * half as long when split, those of 3x3 1.3 times as long for sums and 0.7 to 2.5 times for
 * maxima. */
static const double FURTHER_POOL = 3;

/* The spatial dims of W in which a pool of that dim only changes something, in the order in which
 * pools of one dim each read the fewest elements; returns their number, or 0 if they read more than
 * one pool. */
static int dims_apart(const Window *w, int *order)
{
	double whole = 1, parts = 0, results = 1, saves[MAX_RANK];
	int64_t k[MAX_RANK];
	int n = 0;

	for (int d = 0; d < w->n; d++) {
		int at = n;

		if (!dim_is_const(w->kernel[d], &k[d]))
			return 0;
		whole *= (double)k[d];
		if (k[d] == 1 && w->out[d] == w->in[d])
			continue;
		/* with a large stride, little is left for later pools */
		saves[d] = (double)(w->stride[d] - 1) / (double)k[d];
		for (; at > 0 && saves[order[at - 1]] <= saves[d]; at--)
			order[at] = order[at - 1];
		order[at] = d;
		n++;
	}
	for (int i = n - 1; i >= 0; i--) {
		parts += results * ((double)k[order[i]] + (i ? FURTHER_POOL : 0));
		results *= (double)w->stride[order[i]];
	}
	return n > 1 && parts < whole ? n : 0;
}

/* Copies N's attribute NAME to M with OTHERWISE for all spatial dims but D, of RANK; pads have two
 * elements for each. */
static void one_dim(const Node *n, Node *m, const char *name, int d, int rank, int64_t otherwise)
{
	int count;
	const int64_t *from = node_ints(n, name, &count);
	int64_t to[2 * MAX_RANK];

	for (int i = 0; from && i < count; i++)
		to[i] = i % rank == d ? from[i] : otherwise;
	if (from)
		node_set_ints(m, name, to, count);
}

/* The maximum or the sums of V over the windows of N along spatial dim D only, of RANK. */
static Value *pool_dim(Infer *in, Node *n, Value *v, int d, int rank)
{
	const bool sum = n->op != OP_MaxPool;
	Node *m = expand_start(in, n, sum ? OP_AveragePool : OP_MaxPool, &v, 1, 1);

	one_dim(n, m, "kernel_shape", d, rank, 1);
	one_dim(n, m, "strides", d, rank, 1);
	one_dim(n, m, "dilations", d, rank, 1);
	one_dim(n, m, "pads", d, rank, 0);
	if (node_attr(n, "auto_pad"))
		node_set_str(m, "auto_pad", node_str(n, "auto_pad", ""));
	if (node_attr(n, "ceil_mode"))
		node_set_int(m, "ceil_mode", node_int(n, "ceil_mode", 0));
	if (sum)
		node_set_int(m, "sum", 1);
	return expand_finish(in, m);
}

/* The spatial dims in which N's pool is computed apart, in order; 0 if it is not. */
static int pools_apart(Infer *in, Node *n, Window *w, int *order)
{
	window_init(in, infer_ctx(in), n, infer_type(n, 0), NULL, w);
	return node_int(n, "sum", 0) || node_out(n, 1) ? 0 : dims_apart(w, order);
}

static bool expand_max_pool(Infer *in, Node *n, Value **out)
{
	Value *v = node_in(n, 0);
	int order[MAX_RANK], parts;
	Window w;

	parts = pools_apart(in, n, &w, order);
	for (int i = 0; i < parts; i++)
		v = pool_dim(in, n, v, order[i], w.n);
	if (parts)
		out[0] = v;
	return true;
}

/* How many elements N's windows have along dim D of W: a number, or one for each result. */
static Value *count_along(Infer *in, Node *n, const Window *w, int d, DType real)
{
	Ctx *c = infer_ctx(in);
	Value *v = expand_scalar(in, n, real, 1);
	Dim *dims[MAX_RANK];

	if (!w->padded[d] || node_int(n, "count_include_pad", 0))
		return expand_cast(in, n, expand_size(in, n, w->kernel[d]), real);
	for (int i = 0; i < w->n + 2; i++)
		dims[i] = i == d + 2 ? w->in[d] : dim_const(c, 1);
	v = EXPAND(in, n, Expand, v, expand_sizes(in, n, dims, w->n + 2));
	return pool_dim(in, n, v, d, w->n);
}

static bool expand_average_pool(Infer *in, Node *n, Value **out)
{
	const DType t = infer_type(n, 0)->dtype, real = acc_dtype(t);
	Value *v, *count = NULL;
	int order[MAX_RANK], parts;
	Window w;

	parts = pools_apart(in, n, &w, order);
	for (int d = 0; d < w.n;
	     d++) /* the number of pad elements depends on the end of the window */
		if (w.ceil[d] && node_int(n, "count_include_pad", 0))
			parts = 0;
	if (!parts)
		return true;
	v = expand_cast(in, n, node_in(n, 0), real);
	for (int i = 0; i < parts; i++) {
		Value *along = count_along(in, n, &w, order[i], real);

		v = pool_dim(in, n, v, order[i], w.n);
		count = count ? EXPAND(in, n, Mul, count, along) : along;
	}
	out[0] = expand_cast(in, n, EXPAND(in, n, Div, v, count), t);
	return true;
}

/* The terms |x|^NORM of a norm, whose sums `root` takes; both in the type that sums have. */
static Value *powers(Infer *in, Node *n, int64_t norm)
{
	const DType real = acc_dtype(infer_type(n, 0)->dtype);
	Value *power = norm > 2 ? expand_scalar(in, n, real, (double)norm) : NULL,
	      *v = expand_cast(in, n, node_in(n, 0), real);

	if (norm == 2)
		return EXPAND(in, n, Mul, v, v);
	v = EXPAND(in, n, Abs, v);
	return power ? EXPAND(in, n, Pow, v, power) : v;
}

/* The NORMth root of SUM, in the type of N's operand. */
static Value *root(Infer *in, Node *n, Value *sum, int64_t norm)
{
	const DType t = infer_type(n, 0)->dtype, real = acc_dtype(t);

	if (norm == 2)
		sum = EXPAND(in, n, Sqrt, sum);
	else if (norm > 2)
		sum = EXPAND(in, n, Pow, sum, expand_scalar(in, n, real, 1.0 / (double)norm));
	return expand_cast(in, n, sum, t);
}

static bool expand_lp_pool(Infer *in, Node *n, Value **out)
{
	const int64_t norm = node_int(n, "p", 2);
	int order[MAX_RANK], parts;
	Window w;
	Value *v;

	parts = pools_apart(in, n, &w, order);
	if (!parts)
		return true;
	v = powers(in, n, norm);
	for (int i = 0; i < parts; i++)
		v = pool_dim(in, n, v, order[i], w.n);
	out[0] = root(in, n, v, norm);
	return true;
}

/* ---- MaxPool ---- */

/* The row-major index of the element in its tensor. */
static Expr *flat_index(Kernel *k, const PoolNode *p)
{
	Expr *e = p->xi[0];

	for (int d = 1; d < p->x->rank; d++)
		e = ex_add(k->pool, ex_mul(k->pool, e, ex_dim(k->pool, p->x->dims[d])), p->xi[d]);
	return e;
}

/* Converts a row-major index to one in which the first spatial dim varies fastest. */
static Expr *column_major(Kernel *k, const PoolNode *p, Expr *flat)
{
	ExprPool *e = k->pool;
	Dim *step = dim_const(k->ctx, 1), *size = step;
	Expr *sum = ex_int(e, CT_I64, 0), *digit[MAX_RANK];

	for (int d = p->w.n - 1; d >= 0; d--) {
		Expr *extent = ex_dim(e, p->w.in[d]);

		digit[d] = ex_op2(e, IN_mod, flat, extent);
		flat = ex_op2(e, IN_floordiv, flat, extent);
		size = dim_mul(k->ctx, size, p->w.in[d]);
	}
	for (int d = 0; d < p->w.n; d++) {
		sum = ex_add(e, sum, ex_mul(e, digit[d], ex_dim(e, step)));
		step = dim_mul(k->ctx, step, p->w.in[d]);
	}
	return ex_add(e, ex_mul(e, flat, ex_dim(e, size)), sum);
}

static void lower_max_pool(Infer *in, Node *n, Kernel *k)
{
	Buf *index = lower_out(k, 1), *rows = index;
	bool columns = node_int(n, "storage_order", 0) != 0;
	Expr *val[2];
	PoolNode p;

	(void)in;
	pool_init(n, k, &p);
	val[0] = kernel_load(k, p.x, p.xi);
	if (!index) {
		point_reduce(k, MONOID_max, &p.band, &p.red, p.out, p.oi, val[0], p.guard);
		return;
	}
	if (columns && p.w.n > 1)
		rows = kernel_temp(k, "rows", DT_I64, index->rank, index->dims);
	val[1] = flat_index(k, &p);
	point_reduce2(k, MONOID_argmax_first, &p.band, &p.red, (Buf *[]){p.out, rows}, p.oi, val,
		      p.guard);
	if (rows != index)
		point_map(k, &p.band, index, p.oi, column_major(k, &p, kernel_load(k, rows, p.oi)),
			  NULL);
}

/* ---- AveragePool; with attribute `sum`, it does not divide by the number of elements ---- */

/* The number of taps of dim D at output O that are inside the input; with PADS, inside the input or
 * its pads. */
static Expr *pool_count(Kernel *k, const PoolNode *p, int d, bool pads)
{
	const Window *w = &p->w;
	Ctx *c = k->ctx;
	ExprPool *e = k->pool;
	Expr *taps = ex_dim(e, w->kernel[d]), *zero = ex_int(e, CT_I64, 0),
	     *dil = ex_int(e, CT_I64, w->dilation[d]);
	Expr *first, *lo, *hi, *last;
	Dim *ext = window_extent(c, w, d);

	if (!w->padded[d] || (pads && !w->ceil[d]))
		return taps;
	first = ex_sub(e, ex_mul(e, p->oi[d + 2], ex_int(e, CT_I64, w->stride[d])),
		       ex_dim(e, w->begin[d]));
	last = ex_dim(
		e, dim_sub(c, pads ? dim_add(c, w->in[d], w->end[d]) : w->in[d], dim_const(c, 1)));
	hi = ex_op2(e, IN_floordiv, ex_sub(e, last, first), dil);
	hi = ex_op2(e, IN_min, ex_add(e, hi, ex_int(e, CT_I64, 1)), taps);
	if (pads)
		return hi;
	lo = ex_op2(e, IN_floordiv, ex_sub(e, ex_int(e, CT_I64, w->dilation[d] - 1), first), dil);
	hi = ex_sub(e, hi, ex_op2(e, IN_max, lo, zero));
	if (!dim_prove_lt(c, w->begin[d], ext) || !dim_prove_lt(c, w->end[d], ext))
		hi = ex_op2(e, IN_max, hi, zero);
	return hi;
}

static void lower_average_pool(Infer *in, Node *n, Kernel *k)
{
	bool pads = node_int(n, "count_include_pad", 0) != 0, sums = node_int(n, "sum", 0) != 0;
	Expr *count = ex_int(k->pool, CT_I64, 1), *sum;
	CType ct;
	Buf *acc;
	PoolNode p;

	(void)in;
	pool_init(n, k, &p);
	acc = acc_buf(k, p.out, sums);
	ct = dtype_ctype(acc->dtype);
	point_reduce(k, MONOID_sum, &p.band, &p.red, acc, p.oi, kernel_load(k, p.x, p.xi), p.guard);
	if (acc == p.out)
		return;
	for (int d = 0; d < p.w.n; d++)
		count = ex_mul(k->pool, count, pool_count(k, &p, d, pads));
	sum = ex_op2(k->pool, IN_div, kernel_load(k, acc, p.oi), ex_cvt(k->pool, ct, count));
	point_map(k, &p.band, p.out, p.oi, sum, NULL);
}

/* ---- LpPool ---- */

static void lower_lp_pool(Infer *in, Node *n, Kernel *k)
{
	int64_t norm = node_int(n, "p", 2);
	const char *term = norm == 1 ? "abs(x)" : norm == 2 ? "mul(x, x)" : "pow(abs(x), p)";
	const char *finish = norm == 1 ? "x" : norm == 2 ? "sqrt(x)" : "pow(x, div(1, p))";
	ExprName names[2] = {{"x", NULL}, {"p", NULL}};
	CType ct;
	Buf *acc;
	PoolNode p;

	(void)in;
	pool_init(n, k, &p);
	acc = acc_buf(k, p.out, norm == 1);
	ct = dtype_ctype(acc->dtype);
	names[0].e = kernel_load(k, p.x, p.xi);
	names[1].e = ex_num(k->pool, ct, (double)norm);
	point_reduce(k, MONOID_sum, &p.band, &p.red, acc, p.oi, build_expr(k, ct, term, names, 2),
		     p.guard);
	if (acc == p.out)
		return;
	names[0].e = kernel_load(k, acc, p.oi);
	point_map(k, &p.band, p.out, p.oi, build_expr(k, ct, finish, names, 2), NULL);
}

static bool infer_lp_pool(Infer *in, Node *n)
{
	if (node_int(n, "p", 2) < 1)
		return infer_error(in, n, "attribute \"p\" is %lld, expected 1 or more",
				   (long long)node_int(n, "p", 2));
	return infer_pool(in, n);
}

/* ---- Global pools ---- */

/* The spatial axes, as a constant operand; null after a diagnostic. */
static Value *spatial_axes(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	int64_t axes[MAX_RANK];

	if (x->rank < 3) {
		infer_error(in, n, "operand has rank %d, less than 3", x->rank);
		return NULL;
	}
	for (int d = 2; d < x->rank; d++)
		axes[d - 2] = d;
	return expand_ints(in, n, axes, x->rank - 2);
}

static bool expand_global(Infer *in, Node *n, Value **out)
{
	Value *axes = spatial_axes(in, n);

	if (axes)
		out[0] = n->op == OP_GlobalMaxPool ? EXPAND(in, n, ReduceMax, node_in(n, 0), axes)
						   : EXPAND(in, n, ReduceMean, node_in(n, 0), axes);
	return axes != NULL;
}

static bool expand_global_lp(Infer *in, Node *n, Value **out)
{
	Value *axes = spatial_axes(in, n), *x = node_in(n, 0);
	int64_t norm = node_int(n, "p", 2);

	if (!axes)
		return false;
	if (norm < 1)
		return infer_error(in, n, "attribute \"p\" is %lld, expected 1 or more",
				   (long long)norm);
	out[0] = norm == 1 ? EXPAND(in, n, ReduceL1, x, axes)
		 : norm == 2
			 ? EXPAND(in, n, ReduceL2, x, axes)
			 : root(in, n, EXPAND(in, n, ReduceSum, powers(in, n, norm), axes), norm);
	return true;
}

const Op op_MaxPool = {
	.within = true,
	.infer = infer_pool,
	.expand = expand_max_pool,
	.lower = lower_max_pool,
	.types = "fiu",
	.attrs = "auto_pad: string, ceil_mode: int since 10, dilations: ints since 10, "
		 "kernel_shape: ints, pads: ints, storage_order: int since 8, strides: ints",
};
const Op op_AveragePool = {
	.within = true,
	.types = "f",
	.infer = infer_pool,
	.expand = expand_average_pool,
	.lower = lower_average_pool,
	.attrs =
		"auto_pad: string, ceil_mode: int since 10, count_include_pad: int since 7, "
		"dilations: ints since 19, kernel_shape: ints, pads: ints, strides: ints, sum: int own",
};
const Op op_LpPool = {
	.types = "f",
	.infer = infer_lp_pool,
	.expand = expand_lp_pool,
	.lower = lower_lp_pool,
	.attrs = "auto_pad: string, ceil_mode: int since 18, dilations: ints since 18, "
		 "kernel_shape: ints, p: int, pads: ints, strides: ints",
};
const Op op_GlobalAveragePool = {.within = true, .expand = expand_global, .types = "f"};
const Op op_GlobalMaxPool = {.within = true, .expand = expand_global, .types = "f"};
const Op op_GlobalLpPool = {.types = "f", .expand = expand_global_lp, .attrs = "p: int"};
