/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the loads of an expression by the maps and views that computed the loaded values, if
 * that costs nothing at run time: the value depends only on constants, or its elements are only
 * moved. */
#include "passes/forms/through.h"

enum { MAX_CHAIN = 16 /* limit on successive maps and views that are looked through */ };

/* Sets OUT to the index into TO of the element at IDX in FROM, which has as many elements. False if
 * sizes are unknown, or blocks of dims do not correspond. */
static bool index_through_view(ExprPool *p, const Type *from, const Type *to, Expr *const *idx,
			       Expr **out)
{
	int i = 0, j = 0;

	while (i < from->rank || j < to->rank) {
		Expr *flat = ex_int(p, CT_I64, 0);
		int64_t a = 1, b = 1, d;
		int first;

		for (first = j; first == j || a != b;) {
			const bool left = i < from->rank && (a <= b || j == to->rank);

			if ((!left && j == to->rank) ||
			    !dim_is_const(left ? from->dims[i] : to->dims[j], &d) || d < 1 ||
			    __builtin_mul_overflow(left ? a : b, d, left ? &a : &b))
				return false;
			if (left)
				flat = ex_add(p, ex_mul(p, flat, ex_int(p, CT_I64, d)), idx[i++]);
			else
				j++;
			if (a == b && i == from->rank && j == to->rank)
				break;
		}
		for (int e = j - 1; e >= first; e--) {
			Expr *extent = ex_dim(p, to->dims[e]);

			out[e] = e > first ? ex_op2(p, IN_mod, flat, extent) : flat;
			flat = ex_op2(p, IN_floordiv, flat, extent);
		}
	}
	return true;
}

Expr *load_added(Node *n, const char *name, Value *v, Expr *const *idx, int rank)
{
	return ex_load(node_kernel(n)->pool, node_add_operand(n, name, v), idx, rank);
}

bool expr_is_narrow(const Expr *e)
{
	return e->kind == EX_LOAD && dtype_is_int(e->load.buf->dtype) &&
	       dtype_info[e->load.buf->dtype].bits <= 8;
}

/* Load FROM may replace load E. Narrow integers need the same type: bytes that are numbers of fewer
 * bits are not stored in that type. */
static bool keeps_type(const Expr *from, const Expr *e)
{
	return !expr_is_narrow(e) || from->load.buf->dtype == e->load.buf->dtype;
}

Stmt *loaded_map(const Node *n, const Expr *e)
{
	const Value *v = node_loaded(n, e);
	Kernel *k = v && v->def && v->def->nout == 1 ? node_kernel(v->def) : NULL;
	Stmt *s = k && k->stmts.n == 1 ? k->stmts.at[0] : NULL;

	return s && e->load.nidx == s->nwidx && stmt_is_simple_map(s) && !expr_can_fault(s->val[0])
		       ? s
		       : NULL;
}

Expr *load_as_map(Node *n, const Expr *e, const Stmt *s)
{
	const Node *def = node_loaded(n, e)->def;
	Kernel *k = node_kernel(n), *from = node_kernel(def);
	Iter *it[MAX_ITERS];
	Expr *with[MAX_ITERS], *val;
	Value *in[2 * MAX_PARAMS];
	int iters = 0, nin = n->nin;

	if (nin + def->nin > MAX_PARAMS)
		return NULL;
	for (int d = 0; d < s->nwidx; d++)
		if (s->widx[d]->kind == EX_ITER) {
			it[iters] = s->widx[d]->iter;
			with[iters++] = e->load.idx[d];
		}
	val = kernel_import_expr(k, from, s->val[0], it, with, iters, def, in, &nin);
	for (int i = n->nin; i < nin; i++)
		node_set_input(n, i, in[i]);
	return ex_round(k->pool, s->out[0]->dtype, val);
}

static Expr *see_through(Module *m, Node *n, Expr *e, bool moves)
{
	const Value *v = node_loaded(n, e);
	const Node *def = v ? v->def : NULL;
	Expr *idx[MAX_RANK];
	const Stmt *s;

	if (!def || v->type->layout || (!moves && !value_is_weights(m, v)) ||
	    n->nin + def->nin > MAX_PARAMS)
		return NULL;
	if (def->op == OP_View && !node_in(def, 0)->type->layout &&
	    index_through_view(node_kernel(n)->pool, v->type, node_in(def, 0)->type, e->load.idx,
			       idx))
		return load_added(n, e->load.buf->name, node_in(def, 0), idx,
				  node_in(def, 0)->type->rank);
	s = loaded_map(n, e);
	if (!s ||
	    !(s->val[0]->kind == EX_LOAD ? keeps_type(s->val[0], e) : !moves && !expr_is_narrow(e)))
		return NULL;
	return load_as_map(n, e, s);
}

Expr *weights_through(Module *m, Node *n, Expr *e, bool moves)
{
	const Expr *before = NULL;

	for (int i = 0; i < MAX_CHAIN && e != before; i++) {
		before = e;
		EX_MAP (x, node_kernel(n)->pool, &e)
			x = see_through(m, n, x, moves) ?: x;
	}
	return e;
}
