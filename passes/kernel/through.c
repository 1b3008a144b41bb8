/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces the loads of an expression by the maps and views that computed what they read, where that
 * depends on constants alone: recomputing them costs nothing at run time. */
#include "passes/kernel/through.h"

enum { MAX_CHAIN = 16 /* number of successive maps and views that are looked through */ };

typedef struct ThroughWeights {
	Module *m;
	Node *n;
	bool moves, found;
} ThroughWeights;

/* Sets OUT to the index into TO of the element that is at IDX in FROM, of as many elements. False if
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
	Kernel *k = node_kernel(n);
	Buf *b = kernel_buf(k, BUF_IN, name, v->type);

	b->param = n->nin;
	node_set_input(n, n->nin, v);
	b->id = k->bufs.n - 1;
	return ex_load(k->pool, b, idx, rank);
}

bool expr_is_narrow(const Expr *e)
{
	return e->kind == EX_LOAD && dtype_is_int(e->load.buf->dtype) &&
	       dtype_info[e->load.buf->dtype].bits <= 8;
}

/* Load FROM may stand for load E, of narrow integers only if it has the same type: bytes that are
 * numbers of fewer bits are not stored as those. */
static bool keeps_type(const Expr *from, const Expr *e)
{
	return !expr_is_narrow(e) || from->load.buf->dtype == e->load.buf->dtype;
}

/* The statement of DEF, a kernel of one map, which load E may be replaced by; else null. */
static Stmt *map_of(const Node *def, const Expr *e, bool moves)
{
	Kernel *k = node_kernel(def);
	Stmt *s = k && k->stmts.n == 1 && def->nout == 1 ? k->stmts.at[0] : NULL;

	return s && stmt_is_simple_map(s) && !expr_can_fault(s->val[0]) &&
			       e->load.nidx == s->nwidx &&
			       (s->val[0]->kind == EX_LOAD ? keeps_type(s->val[0], e)
							   : !(moves || expr_is_narrow(e)))
		       ? s
		       : NULL;
}

static Expr *see_through(void *arg, Expr *e)
{
	ThroughWeights *t = arg;
	const Value *v = e->kind == EX_LOAD && e->load.buf->kind == BUF_IN
				 ? node_in(t->n, e->load.buf->param)
				 : NULL;
	Kernel *k = node_kernel(t->n);
	Expr *with[MAX_ITERS], *idx[MAX_RANK], *val;
	Value *in[2 * MAX_PARAMS];
	Iter *it[MAX_ITERS];
	int n = 0, nin = t->n->nin;
	const Node *def = v ? v->def : NULL;
	Stmt *s;

	if (!def || v->type->layout || !value_is_weights(t->m, v) || nin + def->nin > MAX_PARAMS)
		return NULL;
	if (def->op == OP_View && !node_in(def, 0)->type->layout &&
	    index_through_view(k->pool, v->type, node_in(def, 0)->type, e->load.idx, idx)) {
		t->found = true;
		return load_added(t->n, e->load.buf->name, node_in(def, 0), idx,
				  node_in(def, 0)->type->rank);
	}
	s = map_of(def, e, t->moves);
	if (!s)
		return NULL;
	for (int i = 0; i < node_kernel(def)->bufs.n; i++)
		node_kernel(def)->bufs.at[i]->id = i;
	for (int d = 0; d < s->nwidx; d++)
		if (s->widx[d]->kind == EX_ITER) {
			it[n] = s->widx[d]->iter;
			with[n++] = e->load.idx[d];
		}
	val = kernel_import_expr(k, node_kernel(def), s->val[0], it, with, n, def, in, &nin);
	for (int i = t->n->nin; i < nin; i++)
		node_set_input(t->n, i, in[i]);
	t->found = true;
	return ex_round(k->pool, s->out[0]->dtype, val);
}

Expr *weights_through(Module *m, Node *n, Expr *e, bool moves)
{
	ThroughWeights t = {m, n, moves, true};

	for (int i = 0; i < MAX_CHAIN && t.found; i++) {
		t.found = false;
		e = ex_rewrite(node_kernel(n)->pool, e, see_through, &t);
	}
	return e;
}
