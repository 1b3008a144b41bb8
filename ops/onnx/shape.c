/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shape, Size, Transpose, and helpers of operators that move elements.
 *
 * Shapes, axes and counts may be known only at run time: they are dims, or nodes that are added
 * compute an entry for each dim. Only the number of axes, which determines the rank, must be known.
 */
#include "ops/onnx/shape.h"

/* ---- Shared ---- */

bool infer_sized(Infer *in, Node *n, int k, int64_t count)
{
	const Type *t = infer_type(n, k);
	Dim *numel, *want;

	if (!t || t->kind != TYPE_TENSOR || count < 0)
		return true;
	numel = type_numel(infer_ctx(in), t);
	if (dim_is_const(numel, NULL))
		return true;
	want = dim_const(infer_ctx(in), count);
	if (t->rank == 1
		    ? !infer_dim_equals(in, n, &t->dims[0], want,
					"an operand has another number of elements than it must")
		    : !infer_equal_shown(in, n, numel, want,
					 "an operand has another number of elements than it must",
					 (FactSize){arena_printf(infer_arena(in),
								 "operand %d has", k + 1),
						    numel},
					 (FactSize){"expected", want}))
		return false;
	node_set_input(n, k, EXPAND(in, n, Reshape, node_in(n, k), expand_ints(in, n, &count, 1)));
	return true;
}

int infer_declared_rank(const Node *n)
{
	const Value *v = node_out(n, 0);

	if (!v)
		return -1;
	return v->type && v->type->kind == TYPE_TENSOR ? v->type->rank : v->declared_rank - 1;
}

Dim **infer_vector(Infer *in, Node *n, int k, int want, int *count)
{
	const Type *t = infer_type(n, k);

	*count = 0;
	if (t && t->rank > 1) {
		infer_error(in, n, "operand %d has rank %d, expected 1", k + 1, t->rank);
		return NULL;
	}
	return infer_sized(in, n, k, want) ? infer_contents(in, n, node_in(n, k), count) : NULL;
}

Dim *infer_single(Infer *in, Node *n, int k)
{
	int count;
	Dim **d = infer_sized(in, n, k, 1) ? infer_contents(in, n, node_in(n, k), &count) : NULL;

	if (d && count != 1) {
		infer_error(in, n, "operand %d has %d elements, expected one", k + 1, count);
		return NULL;
	}
	return d ? d[0] : NULL;
}

bool infer_axes(Infer *in, Node *n, Dim *const *axes, int count, int rank, int *out)
{
	for (int i = 0; i < count; i++) {
		int64_t v;

		if (!dim_is_const(axes[i], &v))
			return infer_error(
				in, n,
				"the axes are computed at run time, which is not supported; make them constants");
		if (!infer_axis(in, n, v, rank, &out[i]))
			return false;
	}
	return true;
}

/* Whether there are no elements, of which there are ALL, where D is 0. */
static bool empty_with(Ctx *c, Dim *all, Dim *d)
{
	Dim *one_of, *rest;
	int64_t coef;

	/* D without its constant factor, if it is a product */
	return dim_term(c, d, 0, &coef, &one_of) &&
	       dim_divides(c, all, dim_term(c, d, 1, &coef, &rest) ? d : one_of, &rest);
}

bool infer_places(Infer *in, Node *n, Dim *const *d, int nd, Dim *const *dims, int rank)
{
	Ctx *c = infer_ctx(in);
	Dim *zero = dim_const(c, 0), *one = dim_const(c, 1), *all = dims_product(c, dims, rank);

	for (int i = 0; i < nd; i++) {
		Dim *empty = dim_sub(c, one, dim_min(c, one, d[i]));
		FactSize size = infer_dim_shown(in, n, &d[i]);

		size.name = size.name ? size.name : "its size is";
		if (!dim_prove_le(c, one, d[i]) && !empty_with(c, all, d[i]) &&
		    !infer_equal_shown(in, n, dim_mul(c, empty, all), zero,
				       "elements are taken from an empty dim", size, (FactSize){0}))
			return false;
	}
	return true;
}

/* ---- Reshaped loads ---- */

typedef struct DimGroup {
	int a0, a1, b0, b1;
} DimGroup; /* dims [a0, a1) of the buffer, [b0, b1) of the shape */

/* The next group after G: the fewest dims whose products are equal, or all that remain. */
static DimGroup next_group(Ctx *c, const DimGroup *g, Dim *const *a, int na, Dim *const *b, int nb)
{
	for (int i = g->a1; i <= na; i++)
		for (int j = g->b1; j <= nb; j++)
			if ((i > g->a1 || j > g->b1) &&
			    dims_product(c, a + g->a1, i - g->a1) ==
				    dims_product(c, b + g->b1, j - g->b1))
				return (DimGroup){g->a1, i, g->b1, j};
	return (DimGroup){g->a1, na, g->b1, nb};
}

/* Splits a group's flat index into the indices of the buffer's dims, by div and mod. */
static void split_group(Kernel *k, const DimGroup *g, Dim *const *a, Expr *flat, Expr **idx)
{
	Ctx *c = k->ctx;
	int first = -1, last = -1;

	for (int i = g->a0; i < g->a1; i++) {
		if (dim_equals(a[i], 1))
			continue;
		first = first < 0 ? i : first;
		last = i;
	}
	for (int i = g->a0; i < g->a1; i++) {
		Expr *e = flat;

		if (dim_equals(a[i], 1)) {
			idx[i] = at_int(k, 0);
			continue;
		}
		if (i != last)
			e = ex_op2(k->pool, IN_floordiv, e,
				   at_dim(k, dims_product(c, a + i + 1, g->a1 - i - 1)));
		if (i != first)
			e = ex_op2(k->pool, IN_mod, e, at_dim(k, a[i]));
		idx[i] = e;
	}
}

/* The element at index IDX of B, read as a tensor of DIMS with the same order of elements. Groups
 * of dims with equal products are matched, so that merged dims stay affine and only a split dim
 * needs div and mod. */
static Expr *lower_load_reshaped(Kernel *k, Buf *b, Dim *const *dims, Expr *const *at, int n)
{
	Expr *idx[MAX_RANK];
	DimGroup g = {0, 0, 0, 0};

	while (g.a1 < b->rank || g.b1 < n) {
		Expr *flat = at_int(k, 0);

		g = next_group(k->ctx, &g, b->dims, b->rank, dims, n);
		for (int j = g.b0; j < g.b1; j++)
			flat = ex_add(k->pool, ex_mul(k->pool, flat, at_dim(k, dims[j])), at[j]);
		split_group(k, &g, b->dims, flat, idx);
	}
	return kernel_load(k, b, idx);
}

void lower_view(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *at[MAX_RANK];

	(void)in;
	(void)n;
	kernel_iters_of(k, out, it);
	for (int i = 0; i < out->rank; i++)
		at[i] = at_iter(k, it[i]);
	kernel_map_id(k, it, out, lower_load_reshaped(k, lower_in(k, 0), out->dims, at, out->rank));
}

/* ---- Shape, Size ---- */

static int clamp_end(int64_t v, int rank)
{
	if (v < 0)
		v += rank;
	return (int)(v < 0 ? 0 : v > rank ? rank : v);
}

static void shape_range(Node *n, int *from, int *to)
{
	int rank = infer_type(n, 0)->rank;

	*from = clamp_end(node_int(n, "start", 0), rank);
	*to = clamp_end(node_int(n, "end", rank), rank);
	if (*to < *from)
		*to = *from;
}

static bool infer_shape(Infer *in, Node *n)
{
	Dim *d;
	int from, to;

	shape_range(n, &from, &to);
	d = dim_const(infer_ctx(in), to - from);
	return infer_result(in, n, 0, DT_I64, 1, &d);
}

static void lower_shape(Infer *in, Node *n, Kernel *k)
{
	const Type *x = infer_type(n, 0);
	Iter *it;
	Expr *e = at_int(k, 0);
	int from, to;

	(void)in;
	shape_range(n, &from, &to);
	kernel_iters_of(k, lower_out(k, 0), &it);
	for (int i = to - 1; i >= from; i--)
		e = i == to - 1
			    ? at_dim(k, x->dims[i])
			    : ex_op3(k->pool, IN_select,
				     ex_op2(k->pool, IN_eq, at_iter(k, it), at_int(k, i - from)),
				     at_dim(k, x->dims[i]), e);
	kernel_map_id(k, &it, lower_out(k, 0), e);
}

const Op op_Shape = {
	.infer = infer_shape, .lower = lower_shape, .types = "fiubs",
	.attrs = "end: int since 15, start: int since 15",
};

static bool infer_size(Infer *in, Node *n)
{
	return infer_result(in, n, 0, DT_I64, 0, NULL);
}

static void lower_size(Infer *in, Node *n, Kernel *k)
{
	const Type *x = infer_type(n, 0);

	(void)in;
	kernel_map_id(k, NULL, lower_out(k, 0), at_dim(k, dims_product(k->ctx, x->dims, x->rank)));
}

const Op op_Size = {.infer = infer_size, .lower = lower_size, .types = "fiubs"};

/* ---- Transpose ---- */

static bool transpose_perm(Infer *in, Node *n, int *perm)
{
	int rank = infer_type(n, 0)->rank, count;
	const int64_t *p = node_ints(n, "perm", &count);
	bool seen[MAX_RANK] = {false};

	for (int i = 0; i < rank; i++)
		perm[i] = rank - 1 - i;
	if (count < 0)
		return true;
	if (count != rank)
		return infer_error(in, n, "perm has %d entries for rank %d", count, rank);
	for (int i = 0; i < rank; i++) {
		if (!infer_axis(in, n, p[i], rank, &perm[i]))
			return false;
		if (seen[perm[i]])
			return infer_error(in, n, "perm names axis %d twice", perm[i]);
		seen[perm[i]] = true;
	}
	return true;
}

static bool infer_transpose(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0);
	Dim *out[MAX_RANK];
	int perm[MAX_RANK];

	if (!transpose_perm(in, n, perm))
		return false;
	for (int i = 0; i < x->rank; i++)
		out[i] = x->dims[perm[i]];
	return infer_result(in, n, 0, x->dtype, x->rank, out);
}

static void lower_transpose(Infer *in, Node *n, Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK];
	int perm[MAX_RANK];

	transpose_perm(in, n, perm);
	kernel_iters_of(k, out, it);
	for (int i = 0; i < out->rank; i++)
		idx[perm[i]] = at_iter(k, it[i]);
	kernel_map_id(k, it, out, kernel_load(k, lower_in(k, 0), idx));
}

const Op op_Transpose = {
	.within = true,
	.infer = infer_transpose, .lower = lower_transpose, .types = "fiubs",
	.attrs = "perm: ints",
};
