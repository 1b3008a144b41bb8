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

	VEC_EACH (s, &k->stmts) {
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

/* The state of a value's answer. */
enum { UNDECIDED, IS_WEIGHTS, IS_COMPUTED };

/* The answer for value V. */
static char *answer_of(Module *m, const Value *v)
{
	if (v->id >= m->nweights) {
		const int n = 2 * m->graph->nvalues;
		char *more = NEW_ARRAY(m->arena, n, char);

		for (int i = 0; i < m->nweights; i++)
			more[i] = m->weights[i];
		m->weights = more;
		m->nweights = n;
	}
	return &m->weights[v->id];
}

/* An operand of V's node of which nothing is known yet; null: none. */
static Value *undecided_operand(Module *m, const Value *v)
{
	for (int i = 0; v->def && i < v->def->nin; i++) {
		Value *x = node_in(v->def, i);

		if (x && *answer_of(m, x) == UNDECIDED)
			return x;
	}
	return NULL;
}

/* Decides about V, all of whose node's operands are decided. */
static void decide(Module *m, const Value *v)
{
	bool yes = may_be_weights(v);

	for (int i = 0; yes && i < v->def->nin; i++)
		yes = !node_in(v->def, i) || *answer_of(m, node_in(v->def, i)) == IS_WEIGHTS;
	*answer_of(m, v) = yes ? IS_WEIGHTS : IS_COMPUTED;
}

bool value_is_weights(Module *m, const Value *v)
{
	VEC(const Value *) waits = {0}; /* each waits for the next one */
	Arena *tmp = NULL;

	for (const Value *at = v; *answer_of(m, v) == UNDECIDED;) {
		const Value *x = undecided_operand(m, at);

		if (x) {
			tmp = tmp ? tmp : arena_new();
			vec_push(tmp, &waits, at);
			at = x;
			continue;
		}
		decide(m, at);
		at = waits.n ? waits.at[--waits.n] : v;
	}
	arena_free(tmp);
	return *answer_of(m, v) == IS_WEIGHTS;
}

bool node_is_weights(Module *m, const Node *n)
{
	for (int i = 0; i < n->nout; i++)
		if (n->out[i] && !value_is_weights(m, n->out[i]))
			return false;
	return true;
}

void weights_changed(Module *m)
{
	m->weights = NULL;
	m->nweights = 0;
}

bool module_schedules(Module *m, const Node *n)
{
	return node_kernel(n) && !node_on_host(n) && n->nout && !value_is_weights(m, n->out[0]);
}

bool expr_is_weights(Module *m, const Node *n, Expr *e)
{
	EX_EACH (x, e)
		if (x->kind == EX_DIM || (x->kind == EX_LOAD && !x->load.buf->data &&
					  (x->load.buf->kind != BUF_IN ||
					   !value_is_weights(m, node_in(n, x->load.buf->param)))))
			return false;
	return true;
}
