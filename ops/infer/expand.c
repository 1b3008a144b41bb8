/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes nodes for `expand`; each gets its type when it is made.
 *
 * Where a node cannot be inferred, which has been reported, the expansion ends at once: control
 * returns to infer_or_expand, as if `expand` had returned false. So every value that `expand` gets
 * from these functions has a type.
 */
#include "ops/infer/infer.h"

Node *expand_start(Infer *in, Node *n, OpKind op, Value *const *args, int nargs, int nout)
{
	Node *m;

	while (nargs > 0 && !args[nargs - 1])
		nargs--;
	m = node_new(in->graph, op, args, nargs, nout, n);
	node_locs_from(m, n);
	return m;
}

void expand_finish_all(Infer *in, Node *m, Value **out)
{
	if (!infer_or_expand(in, m, out) && in->expansion)
		longjmp(in->expansion->end, 1);
}

Value *expand_finish(Infer *in, Node *m)
{
	Value *out[1] = {m->out[0]};

	expand_finish_all(in, m, out);
	return out[0];
}

Value *expand_node(Infer *in, Node *n, OpKind op, Value *const *args, int nargs)
{
	return expand_finish(in, expand_start(in, n, op, args, nargs, 1));
}

Value *expand_node_ints(Infer *in, Node *n, OpKind op, Value *const *args, int nargs,
			const char *attr, int64_t v)
{
	Node *m = expand_start(in, n, op, args, nargs, 1);

	node_set_int(m, attr, v);
	return expand_finish(in, m);
}

Value *expand_node_like(Infer *in, Node *n, OpKind op, Value *const *args, int nargs)
{
	Node *m = expand_start(in, n, op, args, nargs, 1);
	OpAttr taken;

	for (int i = 0; i < n->attrs.n; i++)
		if (op_row[op].flags & OPF_INTERNAL || op_attr_find(op, n->attrs.at[i].name, &taken))
			node_set_attr(m, n->attrs.at[i]);
	return expand_finish(in, m);
}

static Value *typed(Infer *in, Node *n, Value *v)
{
	node_locs_from(v->def, n);
	return expand_finish(in, v->def);
}

Value *expand_scalar(Infer *in, Node *n, DType t, double v)
{
	return typed(in, n, graph_const_scalar(in->graph, t, v, n));
}

Value *expand_tensor(Infer *in, Node *n, const Tensor *t)
{
	return typed(in, n, graph_const(in->graph, t, n));
}

Value *expand_ints(Infer *in, Node *n, const int64_t *v, int count)
{
	return typed(in, n, graph_const_ints(in->graph, v, count, n));
}

Value *expand_sizes(Infer *in, Node *n, Dim *const *d, int count)
{
	int64_t v[MAX_RANK];

	for (int i = 0; i < count; i++)
		if (!dim_is_const(d[i], &v[i]))
			return expand_dims(in, n, DT_I64, d, count, false);
	return expand_ints(in, n, v, count);
}

Value *expand_size(Infer *in, Node *n, Dim *d)
{
	int64_t v;

	return dim_is_const(d, &v) ? expand_scalar(in, n, DT_I64, (double)v)
				   : expand_dims(in, n, DT_I64, &d, 1, true);
}

Value *expand_reshape(Infer *in, Node *n, Value *v, Dim *const *d, int count)
{
	const Type *t = type_tensor(in->ctx, v->type->dtype, count, d);
	Node *m;

	if (t == v->type)
		return v;
	m = expand_start(in, n, OP_View, &v, 1, 1);
	m->out[0]->type = t;
	return expand_finish(in, m);
}

Value *expand_transpose(Infer *in, Node *n, Value *v, const int64_t *perm, int rank)
{
	Node *m = expand_start(in, n, OP_Transpose, &v, 1, 1);

	node_set_ints(m, "perm", perm, rank);
	return expand_finish(in, m);
}

Value *expand_range(Infer *in, Node *n, Dim *count)
{
	return EXPAND(in, n, Range, expand_scalar(in, n, DT_I64, 0), expand_size(in, n, count),
		      expand_scalar(in, n, DT_I64, 1));
}

/* Gather checks the elements; a negative one, which it would count from the end, is replaced by
 * COUNT. */
Value *expand_bounded(Infer *in, Node *n, Value *v, Dim *count)
{
	Value *at = expand_cast(in, n, v, DT_I64);

	at = EXPAND(in, n, Where, EXPAND(in, n, Less, at, expand_scalar(in, n, DT_I64, 0)),
		    expand_size(in, n, count), at);
	return expand_node_ints(in, n, OP_Gather, (Value *[]){expand_range(in, n, count), at}, 2,
				"axis", 0);
}

Value *expand_slice(Infer *in, Node *n, Value *v, int axis, int64_t from, int64_t to, int64_t step)
{
	int64_t at = axis;

	return EXPAND(in, n, Slice, v, expand_ints(in, n, &from, 1), expand_ints(in, n, &to, 1),
		      expand_ints(in, n, &at, 1), expand_ints(in, n, &step, 1));
}

Value *expand_part(Infer *in, Node *n, Value *v, int axis, Dim *from, Dim *to)
{
	int64_t at = axis;

	return EXPAND(in, n, Slice, v, expand_sizes(in, n, &from, 1), expand_sizes(in, n, &to, 1),
		      expand_ints(in, n, &at, 1));
}

Value *expand_as_scalar(Infer *in, Node *n, Value *v)
{
	return v->type->rank ? EXPAND(in, n, Reshape, v, expand_ints(in, n, NULL, 0)) : v;
}

Value *expand_unsqueeze(Infer *in, Node *n, Value *v, int64_t axis)
{
	return EXPAND(in, n, Unsqueeze, v, expand_ints(in, n, &axis, 1));
}

Value *expand_reduce(Infer *in, Node *n, OpKind op, Value *v, int64_t axis, bool keep)
{
	Value *args[2] = {v, expand_ints(in, n, &axis, 1)};

	return expand_node_ints(in, n, op, args, 2, "keepdims", keep);
}

bool expand_result(Infer *in, Node *n, int k, Value *v, Value **out)
{
	*out = expand_cast(in, n, v, infer_type(n, k)->dtype);
	return true;
}

Value *expand_cast(Infer *in, Node *n, Value *v, DType to)
{
	if (v->type->dtype == to)
		return v;
	return expand_node_ints(in, n, OP_Cast, (Value *[]){v}, 1, "to", dtype_info[to].onnx);
}
