/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/apart.h"

#include "ir/graph/blocks.h"
#include "passes/forms/kernels.h"

/* ---- Sizes ---- */

static void see_sym(void *arg, Sym *s)
{
	Apart *x = arg;

	x->mentioned = x->mentioned || s == x->s;
	if (s->def)
		dim_syms(s->def, see_sym, x);
}

bool apart_mentions(Apart *x, const Dim *d)
{
	x->mentioned = false;
	dim_syms(d, see_sym, x);
	return x->mentioned;
}

/* Whether D is S or, with MULTIPLES, S*k. */
static bool is_parts(Apart *x, Dim *d)
{
	Dim *k;

	return d == x->s->dim ||
	       (x->multiples && dim_divides(x->m->ctx, d, x->s->dim, &k) && !apart_mentions(x, k));
}

/* The only dim that depends on S, if it is one of parts. */
static int dim_of_parts(Apart *x, Dim *const *dims, int rank)
{
	int at = NO_PARTS;

	for (int d = 0; d < rank; d++) {
		if (!apart_mentions(x, dims[d]))
			continue;
		if (at >= 0 || !is_parts(x, dims[d]))
			return NOT_APART;
		at = d;
	}
	return at;
}

static int buf_parts(Apart *x, const Buf *b)
{
	return dim_of_parts(x, b->dims, b->rank);
}

int apart_value(Apart *x, const Value *v)
{
	return dim_of_parts(x, v->type->dims, v->type->rank);
}

Dim *apart_volume(Ctx *c, const Type *t, int from, int to)
{
	Dim *all = dim_const(c, 1);

	for (int d = from; d < to; d++)
		all = dim_mul(c, all, t->dims[d]);
	return all;
}

/* ---- Statements ---- */

typedef struct StmtCheck {
	Apart *x;
	const Iter *part; /* the iterator of the parts; null: the statement has none */
	bool *seen;       /* by Expr.id */
} StmtCheck;

static bool expr_apart(StmtCheck *c, Expr *e)
{
	Expr *const *child = NULL;
	int n, at = NO_PARTS;

	if (c->seen[e->id])
		return true;
	c->seen[e->id] = true;
	if (e->kind == EX_ITER)
		return e->iter != c->part;
	if (e->kind == EX_DIM)
		return !apart_mentions(c->x, e->dim);
	if (e->kind == EX_LOAD) {
		const Buf *b = e->load.buf;

		at = buf_parts(c->x, b);
		if (at == NOT_APART ||
		    (at >= 0 &&
		     (!c->part || e->load.nidx != b->rank || e->load.idx[at]->kind != EX_ITER ||
		      e->load.idx[at]->iter != c->part || b->dims[at] != c->part->extent)))
			return false;
	}
	n = ex_operands(e, &child);
	for (int i = 0; i < n; i++)
		if (i != at && !expr_apart(c, child[i]))
			return false;
	return true;
}

/* Whether iterator I of S has the extent of the parts, and indexes dim AT of S's output. */
static bool writes_parts(const Stmt *s, int i, int at)
{
	return s->iter[i]->extent == s->out[0]->dims[at] && s->widx[at]->kind == EX_ITER &&
	       s->widx[at]->iter == s->iter[i];
}

static bool stmt_apart(Apart *x, const Kernel *k, const Stmt *s)
{
	StmtCheck c = {x, NULL, NEW_ARRAY(x->tmp, expr_count(k->pool) + 1, bool)};
	const int at = buf_parts(x, s->out[0]);

	for (int o = 0; o < s->nout; o++)
		if (buf_parts(x, s->out[o]) != at ||
		    (at >= 0 && s->out[o]->dims[at] != s->out[0]->dims[at]))
			return false;
	if (at == NOT_APART || (at >= 0 && s->nwidx != s->out[0]->rank))
		return false;
	for (int i = 0; i < s->niters; i++) {
		if (at >= 0 && i < s->nband && writes_parts(s, i, at))
			c.part = s->iter[i];
		else if (apart_mentions(x, s->iter[i]->extent))
			return false;
	}
	if (at >= 0 && !c.part)
		return false;
	for (int d = 0; d < s->nwidx; d++)
		if (d != at && !expr_apart(&c, s->widx[d]))
			return false;
	for (int o = 0; o < 2; o++)
		if (s->val[o] && !expr_apart(&c, s->val[o]))
			return false;
	return !s->guard || expr_apart(&c, s->guard);
}

/* ---- Nodes ---- */

/* Whether A and B have no parts, or both the same, where B has MORE dims before them. */
static bool same_parts(Apart *x, const Value *a, const Value *b, int more)
{
	const int at = apart_value(x, a), to = apart_value(x, b);

	if (at < 0 || to < 0)
		return at == NO_PARTS && to == NO_PARTS;
	return to == at + more && a->type->dims[at] == b->type->dims[to];
}

/* Whether a bracket passes the same parts on, and none of its sizes depends on S. */
static bool control_apart(Apart *x, const Node *n)
{
	const char *const sizes[] = {"trip", "value"};
	const int carried = n->op == OP_For ? n->nin : loop_carried(n);
	const Node *open = n->op == OP_EndFor ? block_open(n) : NULL;

	for (int i = 0; i < 2; i++) {
		const Dim *size = control_dim(n, sizes[i]);

		if (size && apart_mentions(x, size))
			return false;
	}
	for (int k = 0; k < n->nout; k++) {
		const Value *v = n->out[k];

		if (n->op == OP_Iteration || !v)
			continue;
		if (!same_parts(x, node_in(n, k), v, n->op == OP_EndFor && k >= carried) ||
		    (n->op == OP_EndWhen && !same_parts(x, node_in(n, k + n->nout), v, 0)))
			return false;
	}
	for (int k = 0; open && k < carried; k++)
		if (open->out[k] && !same_parts(x, node_in(n, k), open->out[k], 0))
			return false;
	return true;
}

bool apart_node(Apart *x, const Node *n)
{
	const Kernel *k = node_kernel(n);

	if (n->op == OP_Const)
		return true;
	if (op_is_control(n->op))
		return control_apart(x, n);
	if (op_row[n->op].flags & OPF_VIEW) {
		const Value *from = node_in(n, 0), *to = n->out[0];
		const int a = apart_value(x, from), b = apart_value(x, to);

		/* as many elements before the dim of parts, and so as many in a part */
		if (a < 0 || b < 0)
			return a == NO_PARTS && b == NO_PARTS;
		return apart_volume(x->m->ctx, from->type, 0, a) ==
		       apart_volume(x->m->ctx, to->type, 0, b);
	}
	for (int i = 0; k && i < k->stmts.n; i++)
		if (!stmt_apart(x, k, k->stmts.at[i]))
			return false;
	return k != NULL;
}
