/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes nodes that do nothing, and pairs that cancel. The kernel shows whether a node only passes
 * its operand on, not the operator: one map out[i,j] = x[i,j] is the operand itself (Identity, Cast
 * to the same type, a Slice of everything, a Pad by nothing, a Sum of one), and one that differs
 * only in dims of 1 is a View. A table by operator has the cases that a kernel does not show.
 */
#include "passes/graph/canon.h"
#include "passes/forms/kernels.h"
#include "passes/forms/parts.h"

#include <string.h>

/* ---- Copies ---- */

/* The load of K's only statement, a map without guard over the whole result that stores the loaded
 * elements. */
static Expr *only_load(Kernel *k)
{
	Stmt *s = k->stmts.n == 1 ? k->stmts.at[0] : NULL;

	if (!s || s->out[0]->kind != BUF_OUT || !stmt_is_simple_map(s) ||
	    s->val[0]->kind != EX_LOAD || s->val[0]->load.buf->kind != BUF_IN ||
	    s->val[0]->load.nidx != s->val[0]->load.buf->rank)
		return NULL;
	return s->val[0];
}

/* The next dim from *AT on that is not 1, with its iterator; false at the end. *IT is null if
 * the index is not an iterator. */
static bool next_iter(Expr *const *idx, const Buf *b, int *at, const Iter **it)
{
	while (*at < b->rank && dim_equals(b->dims[*at], 1))
		++*at;
	if (*at == b->rank)
		return false;
	*it = idx[*at]->kind == EX_ITER && idx[*at]->iter->extent == b->dims[*at] ? idx[*at]->iter
										  : NULL;
	++*at;
	return true;
}

static bool same_order(const Stmt *s, const Expr *load)
{
	const Buf *x = load->load.buf, *out = s->out[0];
	const Iter *a = NULL, *b = NULL;
	int i = 0, j = 0;

	for (;;) {
		bool more = next_iter(s->widx, out, &i, &a);

		if (more != next_iter(load->load.idx, x, &j, &b))
			return false;
		if (!more)
			return true;
		if (!a || a != b)
			return false;
	}
}

/* Whether A and B have the same dims in the same order, ignoring dims of 1. */
static bool same_dims(const Type *a, const Type *b)
{
	int i = 0, j = 0;

	for (;; i++, j++) {
		while (i < a->rank && dim_equals(a->dims[i], 1))
			i++;
		while (j < b->rank && dim_equals(b->dims[j], 1))
			j++;
		if (i == a->rank || j == b->rank)
			return i == a->rank && j == b->rank;
		if (a->dims[i] != b->dims[j])
			return false;
	}
}

static bool may_copy(const Node *n)
{
	const Type *t = n->nout > 0 && n->out[0] ? n->out[0]->type : NULL;

	if (!t || t->kind != TYPE_TENSOR || t->layout)
		return false;
	for (int k = 1; k < n->nout; k++)
		if (n->out[k])
			return false;
	for (int i = 0; i < n->nin; i++) {
		const Type *x = infer_type(n, i);

		if (x && x->kind == TYPE_TENSOR && x->dtype == t->dtype && !x->layout &&
		    same_dims(x, t))
			return true;
	}
	return false;
}

static bool simplify_copy(Canon *c, Node *n)
{
	Arena *tmp;
	Value *v = NULL;
	Kernel *k;
	Expr *e;

	if (!may_copy(n))
		return false;
	tmp = arena_new();
	k = lower_node(c->in, n, tmp);
	e = k ? only_load(k) : NULL;
	if (e && same_order(k->stmts.at[0], e))
		v = node_in(n, e->load.buf->param);
	arena_free(tmp);
	if (!v)
		return false;
	canon_replace(c, n, canon_view(c, n, v, n->out[0]->type));
	return true;
}

/* ---- Views ---- */

static bool simplify_view(Canon *c, Node *n)
{
	Value *x = node_in(n, 0);

	if (n->op == OP_View && x->type != n->out[0]->type && (!x->def || x->def->op != OP_View))
		return false;
	canon_replace(c, n, canon_view(c, n, x, n->out[0]->type));
	return true;
}

/* ---- Transpose ---- */

void canon_transpose_perm(const Node *n, int64_t *perm)
{
	int rank = infer_type(n, 0)->rank, count;
	const int64_t *p = node_ints(n, "perm", &count);

	for (int i = 0; i < rank; i++) {
		perm[i] = count == rank ? p[i] : rank - 1 - i;
		if (perm[i] < 0)
			perm[i] += rank;
	}
}

/* The parts of the dims of a View's operand and result, in their order in memory. */
typedef struct ViewParts {
	int n;
	bool one[MAX_RANK * 2];                        /* whether a part is 1 */
	int before[MAX_RANK * 2], after[MAX_RANK * 2]; /* the dim of the operand, of the result */
} ViewParts;

static int list_parts(const Type *t, const Parts **parts, int *dim, bool *one)
{
	int n = 0;

	for (int d = 0; d < t->rank; d++)
		for (int i = 0; i < parts_count(parts[d]); i++, n++) {
			dim[n] = d;
			one[n] = dim_equals(parts[d] ? parts[d]->dim[i] : t->dims[d], 1);
		}
	return n;
}

static bool find_parts(Canon *c, const Type *x, const Type *y, ViewParts *p)
{
	const Parts *of_x[MAX_RANK], *of_y[MAX_RANK];

	if (!parts_common(c->m->ctx, c->tmp, x, y, of_x, of_y))
		return false;
	p->n = list_parts(x, of_x, p->before, p->one);
	list_parts(y, of_y, p->after, p->one);
	return true;
}

/* Assigns to OUTER the order in which a Transpose PERM of the View's result, of RANK dims, moves
 * the dims of its operand, of which there are OF. False if it separates or reorders the parts of
 * one of them. Dims of 1 are first. */
static bool moves_whole_dims(const ViewParts *p, const int64_t *perm, int rank, int of,
			     int64_t *outer)
{
	bool moved[MAX_RANK] = {false};
	int64_t order[MAX_RANK];
	int n = 0, ones = 0, last = -1;

	for (int i = 0; i < rank; i++)
		for (int k = 0; k < p->n; k++) {
			const int d = p->before[k];

			if (p->after[k] != perm[i] || p->one[k])
				continue;
			if (last >= 0 && p->before[last] == d) {
				if (k < last)
					return false;
			} else {
				if (moved[d])
					return false;
				moved[d] = true;
				order[n++] = d;
			}
			last = k;
		}
	for (int d = 0; d < of; d++)
		if (!moved[d])
			outer[ones++] = d;
	memcpy(outer + ones, order, (size_t)n * sizeof *order);
	return true;
}

/* V's users only view its elements, or there are none besides the graph's results. */
static bool only_viewed(const Value *v)
{
	for (const Use *u = v->uses; u; u = u->next)
		if (u->user && !(op_row[u->user->op].flags & OPF_VIEW))
			return false;
	return true;
}

/* Transpose N of a View of what another operator computes becomes a View of a Transpose, which can
 * be fused with the operator, if it moves whole dims of the View's operand. For example, the
 * channels of a detector's convolution are classes of anchors, [n,a*k,h,w]. They become rows
 * [n,h,w,a,k]. If other operators than Views read N's result, the View stays away from them. */
static bool transpose_before_view(Canon *c, Node *n)
{
	Node *view = node_in(n, 0)->def;
	int64_t perm[MAX_RANK], outer[MAX_RANK];
	ViewParts parts;
	const Type *x;
	Node *t;

	if (!view || view->op != OP_View || !value_used_once(view->out[0]) ||
	    !node_in(view, 0)->def || node_in(view, 0)->def->op == OP_Const ||
	    !only_viewed(n->out[0]))
		return false;
	x = infer_type(view, 0);
	canon_transpose_perm(n, perm);
	if (!find_parts(c, x, view->out[0]->type, &parts) ||
	    !moves_whole_dims(&parts, perm, view->out[0]->type->rank, x->rank, outer))
		return false;
	t = node_new(c->g, OP_Transpose, (Value *[]){node_in(view, 0)}, 1, 1, n);
	node_locs_from(t, n);
	node_set_ints(t, "perm", outer, x->rank);
	infer_node(c->in, t);
	canon_replace(c, n, canon_view(c, n, t->out[0], n->out[0]->type));
	return true;
}

static bool simplify_transpose(Canon *c, Node *n)
{
	Node *d = node_in(n, 0)->def;
	int64_t a[MAX_RANK], b[MAX_RANK], perm[MAX_RANK];
	int rank = infer_type(n, 0)->rank;
	Node *x;

	if (!d || d->op != OP_Transpose)
		return transpose_before_view(c, n);
	canon_transpose_perm(d, a);
	canon_transpose_perm(n, b);
	for (int i = 0; i < rank; i++)
		perm[i] = a[b[i]];
	x = node_new(c->g, OP_Transpose, (Value *[]){node_in(d, 0)}, 1, 1, n);
	node_locs_from(x, n);
	node_locs_from(x, d);
	node_set_ints(x, "perm", perm, rank);
	x->out[0]->type = n->out[0]->type;
	canon_replace(c, n, x->out[0]);
	return true;
}

/* ---- Cast ---- */

/* Whether TO represents every value of FROM. */
static bool is_wider(DType from, DType to)
{
	int a = dtype_info[from].bits, b = dtype_info[to].bits;

	if (from == DT_BOOL)
		return dtype_is_int(to) || dtype_is_float(to);
	if (dtype_is_int(from) && dtype_is_int(to))
		return dtype_is_signed(from) == dtype_is_signed(to)
			       ? a < b
			       : !dtype_is_signed(from) && a < b;
	if (dtype_is_half(from))
		return to == DT_F32 || to == DT_F64;
	return from == DT_F32 && to == DT_F64;
}

/* Removes a pair of casts: Cast(Cast(x, wider), type of x). */
static bool simplify_cast(Canon *c, Node *n)
{
	Node *d = node_in(n, 0)->def;

	if (!d || d->op != OP_Cast || infer_type(d, 0) != n->out[0]->type ||
	    !is_wider(infer_type(d, 0)->dtype, infer_type(n, 0)->dtype))
		return false;
	canon_replace(c, n, node_in(d, 0));
	return true;
}

static bool simplify_castlike(Canon *c, Node *n)
{
	Node *x = node_new(c->g, OP_Cast, (Value *[]){node_in(n, 0)}, 1, 1, n);

	node_locs_from(x, n);
	for (int i = 0; i < n->attrs.n; i++)
		node_set_attr(x, n->attrs.at[i]);
	node_set_int(x, "to", dtype_info[n->out[0]->type->dtype].onnx);
	x->out[0]->type = n->out[0]->type;
	canon_replace(c, n, x->out[0]);
	return true;
}

/* ---- Concat ---- */

/* Removes operands without elements. */
static bool simplify_concat(Canon *c, Node *n)
{
	Value **in = NEW_ARRAY(c->m->arena, n->nin, Value *);
	int count = 0, axis = (int)node_int(n, "axis", 0), rank = n->out[0]->type->rank;

	axis += axis < 0 ? rank : 0;
	for (int i = 0; i < n->nin; i++)
		if (!dim_equals(infer_type(n, i)->dims[axis], 0))
			in[count++] = node_in(n, i);
	if (count == n->nin || !count)
		return false;
	canon_concat(c, n, in, count);
	return true;
}

/* ---- Gather, Split ---- */

/* Slice [FROM, TO) of axis AXIS. */
static Value *slice(Canon *c, Node *n, Value *x, int64_t axis, int64_t from, int64_t to)
{
	return canon_node(c, n, OP_Slice,
			  (Value *[]){x, graph_const_ints(c->g, &from, 1, n),
				      graph_const_ints(c->g, &to, 1, n),
				      graph_const_ints(c->g, &axis, 1, n)},
			  4);
}

/* A Gather with one constant index in range becomes a Slice of one element, which needs no check
 * at run time. */
static bool simplify_gather(Canon *c, Node *n)
{
	const Type *x = infer_type(n, 0);
	int count, axis = (int)node_int(n, "axis", 0);
	const int64_t *at = infer_const_ints(c->in, node_in(n, 1), &count);
	int64_t start, d;

	if (!at || count != 1)
		return false;
	axis += axis < 0 ? x->rank : 0;
	start = at[0];
	if (start < 0 && dim_is_const(x->dims[axis], &d))
		start += d;
	if (start < 0 || !dim_prove_lt(c->m->ctx, dim_const(c->m->ctx, start), x->dims[axis]))
		return false;
	canon_replace(c, n,
		      canon_view(c, n, slice(c, n, node_in(n, 0), axis, start, start + 1),
				 n->out[0]->type));
	return true;
}

/* A Split becomes Slices, each of which can be fused with its users. */
static bool simplify_split(Canon *c, Node *n)
{
	int axis = (int)node_int(n, "axis", 0), rank = infer_type(n, 0)->rank;
	Value **part = NEW_ARRAY(c->m->arena, n->nout, Value *);
	int64_t at = 0, d;

	axis += axis < 0 ? rank : 0;
	for (int i = 0; i < n->nout; i++)
		if (!n->out[i] || !dim_is_const(n->out[i]->type->dims[axis], &d))
			return false;
	for (int i = 0; i < n->nout; i++, at += d) {
		dim_is_const(n->out[i]->type->dims[axis], &d);
		part[i] = slice(c, n, node_in(n, 0), axis, at, at + d);
		if (part[i]->type != n->out[i]->type)
			return false;
	}
	for (int i = 0; i < n->nout; i++) {
		part[i]->name = n->out[i]->name;
		value_move(n->out[i], part[i]);
	}
	node_remove(n);
	canon_count(c);
	return true;
}

/* ---- The table ---- */

typedef bool Simplify(Canon *c, Node *n);

static Simplify *const by_op[OP_COUNT] = {
	[OP_Cast] = simplify_cast,     [OP_CastLike] = simplify_castlike,
	[OP_Concat] = simplify_concat, [OP_Gather] = simplify_gather,
	[OP_Split] = simplify_split,   [OP_Transpose] = simplify_transpose,
};

bool simplify_node(Canon *c, Node *n)
{
	if (op_row[n->op].flags & OPF_VIEW)
		return simplify_view(c, n);
	return (by_op[n->op] && by_op[n->op](c, n)) || simplify_copy(c, n);
}
