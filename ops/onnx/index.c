/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operators with indices that are data. Every index goes through `index`, which wraps negative ones
 * and faults if it is out of range. A scatter first copies its operand and then updates the copy:
 * either in order, so that the last update of an element wins, or through a monoid. TensorScatter
 * and ReverseSequence know from an element's place where it comes from, and write nothing twice.
 */
#include "ops/onnx/shape.h"

#include <assert.h>

static Expr *checked(Kernel *k, Expr *i, Dim *extent)
{
	return ex_op2(k->pool, IN_index, ex_cvt(k->pool, CT_I64, i), at_dim(k, extent));
}

static bool check_indices(Infer *in, Node *n, int k)
{
	if (!dtype_is_int(infer_type(n, k)->dtype))
		return infer_error(in, n, "the indices are %s, not integers",
				   dtype_info[infer_type(n, k)->dtype].name);
	return true;
}

/* Checks the axis and the operands of operators with indices along an axis. */
static bool check_axis(Infer *in, Node *n, int *axis)
{
	return check_indices(in, n, 1) &&
	       infer_axis(in, n, node_int(n, "axis", 0), infer_type(n, 0)->rank, axis);
}

/* ---- Gather ---- */

static bool infer_gather(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *i = infer_type(n, 1);
	Dim *out[2 * MAX_RANK];
	int axis, r = 0;

	if (!check_axis(in, n, &axis))
		return false;
	for (int a = 0; a < axis; a++)
		out[r++] = x->dims[a];
	for (int a = 0; a < i->rank; a++)
		out[r++] = i->dims[a];
	for (int a = axis + 1; a < x->rank; a++)
		out[r++] = x->dims[a];
	infer_result(in, n, 0, x->dtype, r, out);
	return infer_places(in, n, x->dims + axis, 1, out, r);
}

static void lower_gather(Infer *in, Node *n, Kernel *k)
{
	Buf *x = lower_in(k, 0), *i = lower_in(k, 1), *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK];
	int axis;

	infer_axis(in, n, node_int(n, "axis", 0), x->rank, &axis);
	kernel_iters_of(k, out, it);
	for (int a = 0; a < axis; a++)
		idx[a] = at_iter(k, it[a]);
	idx[axis] = checked(k, kernel_load_iters(k, i, it + axis), x->dims[axis]);
	for (int a = axis + 1; a < x->rank; a++)
		idx[a] = at_iter(k, it[a + i->rank - 1]);
	kernel_map_id(k, it, out, kernel_load(k, x, idx));
}

const Op op_Gather = {
	.within = true,
	.infer = infer_gather, .lower = lower_gather, .types = "fiubs",
	.attrs = "axis: int",
};

/* Checks that the indices have X's rank, and that their other dims are at most X's. */
static bool check_elements(Infer *in, Node *n, int *axis)
{
	const Type *x = infer_type(n, 0), *i = infer_type(n, 1);

	if (!check_axis(in, n, axis))
		return false;
	if (i->rank != x->rank)
		return infer_error(in, n, "the indices have rank %d, the operand %d", i->rank,
				   x->rank);
	for (int a = 0; a < x->rank; a++)
		if (a != *axis && !infer_le_shown(in, n, i->dims[a], x->dims[a],
						  "a dim of the indices is too large",
						  infer_dim_shown(in, n, &i->dims[a]),
						  infer_dim_shown(in, n, &x->dims[a])))
			return false;
	return true;
}

static bool infer_gatherelements(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *i = infer_type(n, 1);
	int axis;

	if (!check_elements(in, n, &axis))
		return false;
	infer_result(in, n, 0, x->dtype, i->rank, i->dims);
	return infer_places(in, n, x->dims + axis, 1, i->dims, i->rank);
}

static void lower_gatherelements(Infer *in, Node *n, Kernel *k)
{
	Buf *x = lower_in(k, 0), *i = lower_in(k, 1), *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK];
	int axis;

	infer_axis(in, n, node_int(n, "axis", 0), x->rank, &axis);
	kernel_iters_of(k, out, it);
	for (int a = 0; a < out->rank; a++)
		idx[a] = at_iter(k, it[a]);
	idx[axis] = checked(k, kernel_load_iters(k, i, it), x->dims[axis]);
	kernel_map_id(k, it, out, kernel_load(k, x, idx));
}

const Op op_GatherElements = {
	.infer = infer_gatherelements,
	.lower = lower_gatherelements,
	.types = "fiubs",
	.attrs = "axis: int",
};

/* ---- GatherND, ScatterND ---- */

/* The length M of an index tuple, which is the last dim of the indices. It determines a rank, so
 * it must be a constant, or follow from the rank of the updates. */
static bool tuple_length(Infer *in, Node *n, int batch, int *m)
{
	const Type *x = infer_type(n, 0), *i = infer_type(n, 1), *u = infer_type(n, 2);
	STRBUF_LOCAL(last);
	int64_t v;

	if (!check_indices(in, n, 1))
		return false;
	if (i->rank < 1)
		return infer_error(in, n, "the indices are a scalar, expected rank 1 or more");
	if (!dim_is_const(i->dims[i->rank - 1], &v)) {
		if (!u) {
			dim_print(&last, i->dims[i->rank - 1]);
			infer_error(
				in, n,
				"the last dim of the indices is %s, and must be a number, since "
				"the result's rank depends on it; bind it by --dim",
				strbuf_str(&last));
			return false;
		}
		v = i->rank - 1 + x->rank - u->rank;
		if (v >= 0 &&
		    !infer_dim_equals(in, n, &i->dims[i->rank - 1], dim_const(infer_ctx(in), v),
				      "the last dim of the indices does not fit the updates' rank"))
			return false;
	}
	if (batch < 0 || batch >= i->rank || v < 0 || v > x->rank - batch)
		return infer_error(in, n, "index tuples of %lld do not fit an operand of rank %d",
				   (long long)v, x->rank);
	*m = (int)v;
	return true;
}

static int batch_dims(Node *n)
{
	int64_t b = node_int(n, "batch_dims", 0);

	return b < 0 || b > MAX_RANK ? -1 : (int)b;
}

static bool infer_gathernd(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *i = infer_type(n, 1);
	Dim *out[2 * MAX_RANK];
	int batch = batch_dims(n), m, r = 0;

	if (!tuple_length(in, n, batch, &m))
		return false;
	for (int a = 0; a < batch; a++)
		if (!infer_equal_dims(in, n, &x->dims[a], &i->dims[a], "batch dims differ"))
			return false;
	for (int a = 0; a < i->rank - 1; a++)
		out[r++] = i->dims[a];
	for (int a = batch + m; a < x->rank; a++)
		out[r++] = x->dims[a];
	infer_result(in, n, 0, x->dtype, r, out);
	return infer_places(in, n, x->dims + batch, m, out, r);
}

/* Element J of the index tuple at the iterators IT, as an index into a dim of EXTENT. */
static Expr *tuple_at(Kernel *k, Buf *i, Iter *const *it, int j, Dim *extent)
{
	Expr *idx[MAX_RANK];

	for (int a = 0; a < i->rank - 1; a++)
		idx[a] = at_iter(k, it[a]);
	idx[i->rank - 1] = at_int(k, j);
	return checked(k, kernel_load(k, i, idx), extent);
}

static void lower_gathernd(Infer *in, Node *n, Kernel *k)
{
	Buf *x = lower_in(k, 0), *i = lower_in(k, 1), *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK];
	int batch = batch_dims(n), m = 0;

	tuple_length(in, n, batch, &m);
	kernel_iters_of(k, out, it);
	for (int a = 0; a < batch; a++)
		idx[a] = at_iter(k, it[a]);
	for (int a = batch; a < batch + m; a++)
		idx[a] = tuple_at(k, i, it, a - batch, x->dims[a]);
	for (int a = batch + m; a < x->rank; a++)
		idx[a] = at_iter(k, it[i->rank - 1 + a - batch - m]);
	kernel_map_id(k, it, out, kernel_load(k, x, idx));
}

const Op op_GatherND = {
	.infer = infer_gathernd,
	.lower = lower_gathernd,
	.types = "fiubs",
	.doc = "the last dim of the indices must be a number (a symbol, bound by --dim)",
	.attrs = "batch_dims: int since 12",
};

static bool check_reduction(Infer *in, Node *n, Monoid *m)
{
	static const struct {
		const char *name;
		Monoid m;
	} row[] = {
		{"none", MONOID_NONE}, {"add", MONOID_sum}, {"mul", MONOID_prod},
		{"max", MONOID_max},   {"min", MONOID_min},
	};
	const char *name = node_str(n, "reduction", "none");

	for (size_t i = 0; i < sizeof row / sizeof row[0]; i++)
		if (!strcmp(name, row[i].name)) {
			*m = row[i].m;
			if (*m && infer_type(n, 0)->dtype == DT_BOOL)
				return infer_error(in, n, "reduction \"%s\" is not defined on bool",
						   name);
			return true;
		}
	return infer_error(in, n, "reduction is \"%s\", expected none, add, mul, max or min", name);
}

static bool check_updates(Infer *in, Node *n, Dim *const *dims, int rank)
{
	const Type *x = infer_type(n, 0), *u = infer_type(n, 2);
	Monoid m;

	if (u->dtype != x->dtype)
		return infer_error(in, n, "the updates are %s, the operand %s",
				   dtype_info[u->dtype].name, dtype_info[x->dtype].name);
	if (u->rank != rank)
		return infer_error(in, n, "the updates have rank %d, not %d", u->rank, rank);
	for (int a = 0; a < rank; a++)
		if (!infer_dim_equals(in, n, &u->dims[a], dims[a],
				      "the updates have another shape"))
			return false;
	if (!check_reduction(in, n, &m))
		return false;
	return infer_result(in, n, 0, x->dtype, x->rank, x->dims);
}

static void copy_operand(Kernel *k)
{
	Buf *out = lower_out(k, 0);
	Iter *it[MAX_RANK];

	kernel_iters_of(k, out, it);
	kernel_map_id(k, it, out, kernel_load_iters(k, lower_in(k, 0), it));
}

/* Updates the result at IDX with every element of operand 2. */
static void scatter(Infer *in, Node *n, Kernel *k, Iter *const *it, Expr *const *idx)
{
	Buf *u = lower_in(k, 2), *out = lower_out(k, 0);
	Monoid m = MONOID_NONE;
	Stmt *s;

	check_reduction(in, n, &m);
	s = kernel_map(k, it, u->rank, out, idx, kernel_load_iters(k, u, it), NULL);
	s->update = true;
	s->red = m;
	s->ordered = m == MONOID_NONE;
}

static bool infer_scatternd(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *i = infer_type(n, 1);
	Dim *dims[2 * MAX_RANK];
	int m, r = 0;

	if (!tuple_length(in, n, 0, &m))
		return false;
	for (int a = 0; a < i->rank - 1; a++)
		dims[r++] = i->dims[a];
	for (int a = m; a < x->rank; a++)
		dims[r++] = x->dims[a];
	return check_updates(in, n, dims, r) && infer_places(in, n, x->dims, m, dims, r);
}

static void lower_scatternd(Infer *in, Node *n, Kernel *k)
{
	Buf *i = lower_in(k, 1), *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK];
	int m = 0;

	tuple_length(in, n, 0, &m);
	copy_operand(k);
	kernel_iters_of(k, lower_in(k, 2), it);
	for (int a = 0; a < m; a++)
		idx[a] = tuple_at(k, i, it, a, out->dims[a]);
	for (int a = m; a < out->rank; a++)
		idx[a] = at_iter(k, it[i->rank - 1 + a - m]);
	scatter(in, n, k, it, idx);
}

const Op op_ScatterND = {
	.infer = infer_scatternd, .lower = lower_scatternd, .types = "fiubs",
	.attrs = "reduction: string since 16",
};

static bool infer_scatterelements(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *i = infer_type(n, 1);
	int axis;

	return check_elements(in, n, &axis) && check_updates(in, n, i->dims, i->rank) &&
	       infer_places(in, n, x->dims + axis, 1, i->dims, i->rank);
}

static void lower_scatterelements(Infer *in, Node *n, Kernel *k)
{
	Buf *u = lower_in(k, 2), *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK];
	int axis;

	infer_axis(in, n, node_int(n, "axis", 0), out->rank, &axis);
	copy_operand(k);
	kernel_iters_of(k, u, it);
	for (int a = 0; a < u->rank; a++)
		idx[a] = at_iter(k, it[a]);
	idx[axis] = checked(k, kernel_load_iters(k, lower_in(k, 1), it), out->dims[axis]);
	scatter(in, n, k, it, idx);
}

const Op op_ScatterElements = {
	.infer = infer_scatterelements,
	.lower = lower_scatterelements,
	.types = "fiubs",
	.attrs = "axis: int, reduction: string since 16",
};

/* ---- OneHot ---- */

/* The depth may be of any number type. A float that only run time knows is cast by an extra
 * node. Null after a diagnostic. */
static Dim *onehot_depth(Infer *in, Node *n, int axis)
{
	const Type *was = n->out[0]->type, *t = infer_type(n, 1);
	Value *v = node_in(n, 1);
	Sym *s = was && was->rank > axis ? dim_as_sym(was->dims[axis]) : NULL;
	const double *f;
	Dim **d;
	int count;

	if (dtype_is_int(t->dtype))
		return infer_single(in, n, 1);
	if (!infer_sized(in, n, 1, 1))
		return NULL;
	v = node_in(n, 1);
	f = infer_const_floats(in, v, &count);
	if (f && count == 1 && f[0] >= 0 && f[0] < 1e15)
		return dim_const(infer_ctx(in), (int64_t)f[0]);
	if (s && s->from_data)
		return s->dim;
	d = infer_contents(in, n, expand_cast(in, n, v, DT_I64), &count);
	if (d && count != 1)
		infer_error(in, n, "the depth has %d elements, expected one", count);
	return d && count == 1 ? d[0] : NULL;
}

static bool is_number(DType t)
{
	return dtype_is_int(t) || dtype_is_float(t);
}

static bool infer_onehot(Infer *in, Node *n)
{
	Ctx *c = infer_ctx(in);
	const Type *i = infer_type(n, 0), *d = infer_type(n, 1), *v = infer_type(n, 2);
	Dim *out[MAX_RANK], *depth;
	int axis;

	if (!is_number(i->dtype) || !is_number(d->dtype))
		return infer_error(in, n, "the indices are %s and the depth %s, expected numbers",
				   dtype_info[i->dtype].name, dtype_info[d->dtype].name);
	if (!infer_axis(in, n, node_int(n, "axis", -1), i->rank + 1, &axis))
		return false;
	if (i->rank + 1 > MAX_RANK)
		return infer_error(in, n, "the indices have rank %d; at most %d is supported",
				   i->rank, MAX_RANK - 1);
	if (v->rank != 1 || !infer_dim_equals(in, n, &v->dims[0], dim_const(c, 2),
					      "the values are not two, off and on"))
		return v->rank != 1 ? infer_error(in, n, "the values have rank %d, not 1", v->rank)
				    : false;
	depth = onehot_depth(in, n, axis);
	if (!depth || !infer_le(in, n, dim_const(c, 0), depth, "the depth is negative"))
		return false;
	for (int a = 0; a < i->rank; a++)
		out[a < axis ? a : a + 1] = i->dims[a];
	out[axis] = depth;
	return infer_result(in, n, 0, v->dtype, i->rank + 1, out);
}

static void lower_onehot(Infer *in, Node *n, Kernel *k)
{
	Buf *i = lower_in(k, 0), *v = lower_in(k, 2), *out = lower_out(k, 0);
	ExprPool *p = k->pool;
	Iter *it[MAX_RANK], *rest[MAX_RANK];
	Expr *at, *zero = at_int(k, 0), *one = at_int(k, 1);
	int axis, r = 0;

	infer_axis(in, n, node_int(n, "axis", -1), out->rank, &axis);
	kernel_iters_of(k, out, it);
	for (int a = 0; a < out->rank; a++)
		if (a != axis)
			rest[r++] = it[a];
	at = ex_cvt(p, CT_I64, kernel_load_iters(k, i, rest));
	at = ex_op3(p, IN_select, ex_op2(p, IN_lt, at, zero),
		    ex_add(p, at, at_dim(k, out->dims[axis])), at);
	kernel_map_id(k, it, out,
		      ex_op3(p, IN_select, ex_op2(p, IN_eq, at, at_iter(k, it[axis])),
			     kernel_load(k, v, &one), kernel_load(k, v, &zero)));
}

const Op op_OneHot = {
	.infer = infer_onehot, .lower = lower_onehot, .types = "fius",
	.attrs = "axis: int",
};

/* ---- TensorScatter ---- */

/* The result at place T of the axis is the update at T - start, or else the cache at T. So every
 * element is computed once, and nothing is written twice. */
static bool scatter_axis(Infer *in, Node *n, int *axis)
{
	int rank = infer_type(n, 0)->rank;

	if (!infer_axis(in, n, node_int(n, "axis", -2), rank, axis))
		return false;
	return *axis > 0 || infer_error(in, n, "the axis is the batch dim");
}

static bool is_circular(const Node *n)
{
	return !strcmp(node_str(n, "mode", "linear"), "circular");
}

static bool infer_tensor_scatter(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *u = infer_type(n, 1), *w = infer_type(n, 2);
	int axis;

	if (!scatter_axis(in, n, &axis) || (w && !check_indices(in, n, 2)))
		return false;
	if (!is_circular(n) && strcmp(node_str(n, "mode", "linear"), "linear"))
		return infer_error(in, n, "mode is \"%s\", expected linear or circular",
				   node_str(n, "mode", ""));
	if (u->dtype != x->dtype || u->rank != x->rank)
		return infer_error(in, n, "the update is %s of rank %d, the cache %s of rank %d",
				   dtype_info[u->dtype].name, u->rank, dtype_info[x->dtype].name,
				   x->rank);
	for (int a = 0; a < x->rank; a++)
		if (a == axis ? !infer_le_shown(in, n, u->dims[a], x->dims[a],
						"the update is longer than the cache",
						infer_dim_shown(in, n, &u->dims[a]),
						infer_dim_shown(in, n, &x->dims[a]))
			      : !infer_equal_dims(in, n, &u->dims[a], &x->dims[a],
						  "the update and the cache differ in a dim"))
			return false;
	if (w && w->rank != 1)
		return infer_error(in, n, "the write indices have rank %d, not 1", w->rank);
	if (w && !infer_equal_dims(in, n, &w->dims[0], &x->dims[0],
				   "the write indices and the cache have different batches"))
		return false;
	return infer_result(in, n, 0, x->dtype, x->rank, x->dims);
}

static void lower_tensor_scatter(Infer *in, Node *n, Kernel *k)
{
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, 0), *u = lower_in(k, 1), *w = lower_in(k, 2), *out = lower_out(k, 0);
	Expr *idx[MAX_RANK], *at, *start = at_int(k, 0), *value;
	Iter *it[MAX_RANK];
	Dim *room;
	int axis;

	infer_axis(in, n, node_int(n, "axis", -2), out->rank, &axis);
	kernel_iters_of(k, out, it);
	if (w)
		start = ex_cvt(p, CT_I64, kernel_load_iters(k, w, it));
	/* The last start leaves room for the whole update. */
	room = dim_add(k->ctx, dim_sub(k->ctx, out->dims[axis], u->dims[axis]),
		       dim_const(k->ctx, 1));
	if (w && !is_circular(n))
		start = ex_op2(p, IN_index, start, at_dim(k, room));
	at = ex_sub(p, at_iter(k, it[axis]), start);
	if (is_circular(n))
		at = ex_op2(p, IN_mod, at, at_dim(k, out->dims[axis]));
	for (int a = 0; a < out->rank; a++)
		idx[a] = a == axis ? at : at_iter(k, it[a]);
	value = ex_op3(p, IN_select, ex_inside(p, at, at_dim(k, u->dims[axis])),
		       kernel_load(k, u, idx), kernel_load_iters(k, x, it));
	kernel_map_id(k, it, out, value);
}

const Op op_TensorScatter = {
	.infer = infer_tensor_scatter,
	.lower = lower_tensor_scatter,
	.types = "fiubs",
	.attrs = "axis: int, mode: string",
};

/* ---- ReverseSequence ---- */

static bool reversed_axes(Infer *in, Node *n, int *batch, int *time)
{
	int64_t b = node_int(n, "batch_axis", 1), t = node_int(n, "time_axis", 0);

	*batch = b != 0;
	*time = t != 0;
	return (b == 0 && t == 1) || (b == 1 && t == 0) ||
	       infer_error(in, n,
			   "batch_axis is %lld and time_axis %lld; expected 0 and 1 or 1 and 0",
			   (long long)b, (long long)t);
}

static bool infer_reverse_sequence(Infer *in, Node *n)
{
	const Type *x = infer_type(n, 0), *len = infer_type(n, 1);
	int batch, time;

	if (!check_indices(in, n, 1) || !reversed_axes(in, n, &batch, &time))
		return false;
	if (x->rank < 2 || len->rank != 1)
		return infer_error(in, n,
				   "the operands have ranks %d and %d; expected 2 or more, and 1",
				   x->rank, len->rank);
	if (!infer_equal_dims(in, n, &len->dims[0], &x->dims[batch],
			      "there must be a length for each entry of the batch"))
		return false;
	return infer_result(in, n, 0, x->dtype, x->rank, x->dims);
}

static void lower_reverse_sequence(Infer *in, Node *n, Kernel *k)
{
	ExprPool *p = k->pool;
	Buf *x = lower_in(k, 0), *out = lower_out(k, 0);
	Iter *it[MAX_RANK];
	Expr *idx[MAX_RANK], *len, *t;
	int batch, time;

	reversed_axes(in, n, &batch, &time);
	kernel_iters_of(k, out, it);
	len = checked(k, kernel_load_iters(k, lower_in(k, 1), &it[batch]),
		      dim_add(k->ctx, x->dims[time], dim_const(k->ctx, 1)));
	t = at_iter(k, it[time]);
	for (int a = 0; a < out->rank; a++)
		idx[a] = at_iter(k, it[a]);
	idx[time] = ex_op3(p, IN_select, ex_op2(p, IN_lt, t, len),
			   ex_sub(p, ex_sub(p, len, t), at_int(k, 1)), t);
	kernel_map_id(k, it, out, kernel_load(k, x, idx));
}

const Op op_ReverseSequence = {
	.infer = infer_reverse_sequence,
	.lower = lower_reverse_sequence,
	.types = "fiubs",
	.attrs = "batch_axis: int, time_axis: int",
};
