/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/apart.h"

#include "ir/graph/blocks.h"
#include "passes/forms/kernels.h"

/* ---- Sizes ---- */

bool apart_mentions(const Apart *x, const Dim *d)
{
	DIM_EACH_SYM (s, d)
		if (s == x->s || (s->def && apart_mentions(x, s->def)))
			return true;
	return false;
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

/* ---- Indices ---- */

enum { MOST_NESTED = 16 }; /* nodes that compute an index, one from the other */

/* Iterators of a statement that an index is computed by, and what they are at the point where it is
 * used. */
typedef struct IndexOf {
	const Stmt *s;
	Affine *at; /* by the iterators of S */
} IndexOf;

static bool index_value(Apart *x, const Node *n, Expr *e, const IndexOf *in, int nested,
			Affine *out);

/* OUT += K * A. */
static bool add_scaled(Apart *x, Affine *out, const Affine *a, Dim *k)
{
	Ctx *c = x->m->ctx;

	out->base = dim_add(c, out->base, dim_mul(c, a->base, k));
	for (int i = 0; i < a->n; i++)
		if (!affine_add_term(c, out, a->iter[i], dim_mul(c, a->coef[i], k)))
			return false;
	return true;
}

/* Element IDX, indices of node N's statement, of the constant T: one number, or a row of equal
 * steps, as Range makes it. */
static bool index_constant(Apart *x, const Node *n, const Tensor *t, Expr *const *idx,
			   const IndexOf *in, int nested, Affine *out)
{
	const int64_t *v = t->data, count = tensor_numel(t);
	Ctx *c = x->m->ctx;
	int64_t step;
	Affine at;
	int d = 0;

	if (t->dtype != DT_I64 || count < 1)
		return false;
	out->base = dim_const(c, v[0]);
	if (count == 1)
		return true;
	while (d < t->rank && t->dims[d] != count)
		d++;
	if (d == t->rank || !idx[d] || __builtin_sub_overflow(v[1], v[0], &step) ||
	    !index_value(x, n, idx[d], in, nested, &at))
		return false;
	for (int64_t i = 2, next; i < count; i++)
		if (__builtin_add_overflow(v[i - 1], step, &next) || v[i] != next)
			return false;
	return add_scaled(x, out, &at, dim_const(c, step));
}

/* Element IDX, indices of node N's statement, of V, which other nodes compute. */
static bool index_element(Apart *x, const Node *n, const Value *v, Expr *const *idx, int nidx,
			  const IndexOf *in, int nested, Affine *out)
{
	Affine *at = NEW_ARRAY(x->tmp, MAX_ITERS, Affine);
	const Tensor *constant = value_const(v);
	const Node *def = v->def;
	Kernel *k;
	const Stmt *s;

	if (constant && nidx == constant->rank)
		return index_constant(x, n, constant, idx, in, nested, out);
	if (!def || nested == MOST_NESTED || nidx != v->type->rank)
		return false;
	if (op_row[def->op].flags & OPF_VIEW) { /* one that only adds or drops dims of size 1 */
		const Value *from = node_in(def, 0);
		Expr **of = NEW_ARRAY(x->tmp, from->type->rank + 1, Expr *);
		int d = 0;

		for (int i = 0; i < from->type->rank; i++) {
			if (dim_equals(from->type->dims[i], 1))
				continue;
			while (d < nidx && dim_equals(v->type->dims[d], 1))
				d++;
			if (d == nidx || v->type->dims[d] != from->type->dims[i])
				return false;
			of[i] = idx[d++];
		}
		while (d < nidx && dim_equals(v->type->dims[d], 1))
			d++;
		return d == nidx && from->type->dtype == v->type->dtype &&
		       index_element(x, n, from, of, from->type->rank, in, nested + 1, out);
	}
	k = node_kernel(def);
	if (!k || k->stmts.n != 1 || def->nout != 1)
		return false;
	s = k->stmts.at[0];
	if (!stmt_is_simple_map(s) || s->nwidx != nidx)
		return false;
	for (int i = 0; i < s->niters; i++)
		for (int d = 0; d < nidx; d++)
			if (s->widx[d]->kind == EX_ITER && s->widx[d]->iter == s->iter[i] &&
			    (!idx[d] || !index_value(x, n, idx[d], in, nested + 1, &at[i])))
				return false;
	return index_value(x, def, s->val[0], &(IndexOf){s, at}, nested + 1, out);
}

/* E, of type i64, of a statement of node N as a sum of multiples of iterators: of this statement's
 * own, where IN is null, else of those that IN says. False where it is not such a sum. */
static bool index_value(Apart *x, const Node *n, Expr *e, const IndexOf *in, int nested,
			Affine *out)
{
	Ctx *c = x->m->ctx;
	Affine a, b;

	*out = (Affine){.base = dim_const(c, 0)};
	if (e->ct != CT_I64)
		return false;
	switch (e->kind) {
	case EX_CONST: out->base = dim_const(c, e->i); return true;
	case EX_DIM: out->base = e->dim; return true;
	case EX_ITER:
		for (int i = 0; in && i < in->s->niters; i++)
			if (in->s->iter[i] == e->iter) {
				*out = in->at[i];
				return true;
			}
		if (in)
			return false;
		*out = (Affine){
			.n = 1, .iter = {e->iter}, .coef = {dim_const(c, 1)}, .base = out->base};
		return true;
	case EX_LOAD: {
		const Value *v = node_loaded(n, e);

		return v && index_element(x, n, v, e->load.idx, e->load.nidx, in, nested, out);
	}
	case EX_INST:
		if ((!ex_is_op(e, IN_add) && !ex_is_op(e, IN_mul)) ||
		    !index_value(x, n, e->op.arg[0], in, nested, &a) ||
		    !index_value(x, n, e->op.arg[1], in, nested, &b))
			return false;
		if (ex_is_op(e, IN_add))
			return add_scaled(x, out, &a, dim_const(c, 1)) &&
			       add_scaled(x, out, &b, dim_const(c, 1));
		return a.n ? !b.n && add_scaled(x, out, &a, b.base)
			   : add_scaled(x, out, &b, a.base);
	case EX_PARAM: break;
	}
	return false;
}

/* Whether N computes one value of positions. */
static bool computes_position(Apart *x, const Node *n)
{
	const Kernel *k = node_kernel(n);
	Affine a;

	return k && k->stmts.n == 1 && n->nout == 1 && n->out[0]->type->dtype == DT_I64 &&
	       stmt_is_simple_map(k->stmts.at[0]) &&
	       index_value(x, n, k->stmts.at[0]->val[0], NULL, 0, &a);
}

/* Whether E, an index of node N into a dim of size D, is PART*k + j where D = S*k, and 0 <= j <
 * k. */
static bool index_in_part(Apart *x, const Node *n, const Iter *part, Dim *d, Expr *e)
{
	Ctx *c = x->m->ctx;
	Dim *k, *last, *zero = dim_const(c, 0);
	bool found = false;
	Affine a;

	if (!x->position || part->extent != x->s->dim || !dim_divides(c, d, x->s->dim, &k))
		return false;
	if (ex_is_op(e, IN_index) && e->op.arg[1]->kind == EX_DIM && e->op.arg[1]->dim == d)
		e = e->op.arg[0]; /* which does nothing to an index in the range */
	if (!index_value(x, n, e, NULL, 0, &a) || apart_mentions(x, a.base) ||
	    !dim_prove_le(c, zero, a.base))
		return false;
	last = a.base;
	for (int i = 0; i < a.n; i++) {
		if (a.iter[i] == part) {
			found = a.coef[i] == k;
			continue;
		}
		if (apart_mentions(x, a.coef[i]) || !dim_prove_le(c, zero, a.coef[i]))
			return false;
		last = dim_add(
			c, last,
			dim_mul(c, a.coef[i], dim_sub(c, a.iter[i]->extent, dim_const(c, 1))));
	}
	return found && dim_prove_lt(c, last, k);
}

/* ---- Statements ---- */

typedef struct StmtCheck {
	Apart *x;
	const Node *n;
	const Iter *part; /* the iterator of the parts; null: the statement has none */
	bool *seen;       /* by Expr.id */
} StmtCheck;

static bool is_position(const Apart *x, const Value *v)
{
	return x->position && v && x->position[v->id];
}

/* Whether the index E of a dim of size D reads the part that the statement computes. */
static bool reads_part(StmtCheck *c, Dim *d, Expr *e)
{
	return (e->kind == EX_ITER && e->iter == c->part && d == c->part->extent) ||
	       index_in_part(c->x, c->n, c->part, d, e);
}

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
		const Value *v = node_loaded(c->n, e);

		at = buf_parts(c->x, b);
		if (at == NOT_APART || is_position(c->x, v) ||
		    (at >= 0 && (!c->part || e->load.nidx != b->rank ||
				 !reads_part(c, b->dims[at], e->load.idx[at]))))
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

static bool stmt_apart(Apart *x, const Node *n, const Kernel *k, const Stmt *s)
{
	StmtCheck c = {x, n, NULL, NEW_ARRAY(x->tmp, expr_count(k->pool) + 1, bool)};
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
	if (op_is_control(n->op)) {
		for (int i = 0; i < n->nin; i++)
			if (is_position(x, node_in(n, i)))
				return false;
		return control_apart(x, n);
	}
	if (op_row[n->op].flags & OPF_VIEW) {
		const Value *from = node_in(n, 0), *to = n->out[0];
		const int a = apart_value(x, from), b = apart_value(x, to);

		if (x->position)
			x->position[to->id] = is_position(x, from);
		/* as many elements before the dim of parts, and so as many in a part */
		if (a < 0 || b < 0)
			return a == NO_PARTS && b == NO_PARTS;
		return apart_volume(x->m->ctx, from->type, 0, a) ==
		       apart_volume(x->m->ctx, to->type, 0, b);
	}
	for (int i = 0; k && i < k->stmts.n; i++)
		if (!stmt_apart(x, n, k, k->stmts.at[i])) {
			if (!x->position || !computes_position(x, n))
				return false;
			x->position[n->out[0]->id] = true;
		}
	return k != NULL;
}
