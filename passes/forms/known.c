/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the values that are known at compile time and worth storing: constants, and values that
 * depend only on constants. */
#include "ir/graph/blocks.h"
#include "passes/forms/kernels.h"
#include "passes/module.h"

/* Number of elements of a static type; INT64_MAX if that overflows. */
static int64_t static_numel(const Type *t)
{
	int64_t dims[MAX_RANK], n = 1;

	type_static(t, dims);
	for (int i = 0; i < t->rank; i++)
		if (dims[i] == 0)
			return 0;
	for (int i = 0; i < t->rank; i++)
		if (__builtin_mul_overflow(n, dims[i], &n))
			return INT64_MAX;
	return n;
}

/* Number of points of K's statements, whose extents are constants. */
static int64_t static_points(const Kernel *k)
{
	int64_t sum = 0;

	for (int i = 0; i < k->stmts.n; i++) {
		const Stmt *s = k->stmts.at[i];
		int64_t n = 1, extent;

		for (int j = 0; j < s->niters; j++)
			if (dim_is_const(s->iter[j]->extent, &extent) && extent > 0 &&
			    __builtin_mul_overflow(n, extent, &n))
				return INT64_MAX;
		if (__builtin_add_overflow(sum, n, &sum))
			return INT64_MAX;
	}
	return sum;
}

/* A large result of small operands (an Expand, an EyeLike) is computed at run time rather than
 * stored; so is one that takes too long to compute. */
static bool worth_storing(const Node *n)
{
	enum { LARGE = 1 << 22, GROWTH = 16 };
	int64_t from = 0, most = LARGE;

	for (int i = 0; i < n->nin; i++) {
		const Value *x = node_in(n, i);
		int64_t count = x && type_static(x->type, NULL) ? static_numel(x->type) : 0;

		from = count > INT64_MAX / GROWTH - from ? INT64_MAX / GROWTH : from + count;
	}
	most = from * GROWTH > most ? from * GROWTH : most;
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && type_static(n->out[i]->type, NULL) &&
		    static_numel(n->out[i]->type) > most)
			return false;
	return static_points(node_kernel(n)) <= INT64_C(1) << 31;
}

static bool may_be_weights(const Value *v)
{
	if (!v->def || op_is_control(v->def->op) || !type_static(v->type, NULL) ||
	    (v->place == ON_HOST && v->def->op != OP_Const))
		return false;
	if (node_kernel(v->def))
		return !kernel_has_syms(node_kernel(v->def)) && worth_storing(v->def);
	return v->def->op == OP_Const || v->def->nin > 0;
}

bool node_may_be_weights(const Node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && !may_be_weights(n->out[i]))
			return false;
	return true;
}

static bool inputs_are_weights(const Module *m, const Node *n)
{
	for (int i = 0; i < n->nin; i++)
		if (node_in(n, i) && !m->weights[node_in(n, i)->id])
			return false;
	return true;
}

bool value_is_weights(Module *m, const Value *v)
{
	Graph *g = m->graph;

	/* Operands come before their users, so one walk decides all values. */
	if (v->id >= m->nweights) {
		m->nweights = g->nvalues;
		m->weights = NEW_ARRAY(m->arena, m->nweights, bool);
		for (Node *n = g->first; n; n = n->next)
			for (int i = 0; i < n->nout; i++)
				if (n->out[i])
					m->weights[n->out[i]->id] = may_be_weights(n->out[i]) &&
								    inputs_are_weights(m, n);
	}
	return m->weights[v->id];
}

bool module_schedules(Module *m, const Node *n)
{
	return node_kernel(n) && !node_on_host(n) && n->nout && !value_is_weights(m, n->out[0]);
}

typedef struct Deps {
	Module *m;
	const Node *n;
	bool ok;
} Deps;

static void constant_load(void *arg, Expr *e)
{
	Deps *d = arg;

	if (e->kind == EX_LOAD)
		d->ok = d->ok && (e->load.buf->data ||
				  (e->load.buf->kind == BUF_IN &&
				   value_is_weights(d->m, node_in(d->n, e->load.buf->param))));
	if (e->kind == EX_DIM)
		d->ok = false;
}

bool expr_is_weights(Module *m, const Node *n, Expr *e)
{
	Deps d = {m, n, true};

	ex_walk(e, constant_load, &d);
	return d.ok;
}
