/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/tools/batch/judge.h"

#include "ir/graph/blocks.h"
#include "passes/forms/kernels.h"

#include <math.h>

static bool is_float(CType t)
{
	return t == CT_F32 || t == CT_F64;
}

/* Whether the result of the reduction S depends on the order of its terms, for arbitrary
 * numbers. */
static bool rounds(const Stmt *s)
{
	return (s->red == MONOID_sum || s->red == MONOID_prod) && is_float(s->val[0]->ct);
}

bool module_is_elementwise(Module *m)
{
	for (Node *n = m->graph->first; n; n = n->next) {
		Kernel *k = node_kernel(n);

		for (int i = 0; k && i < k->stmts.n; i++)
			if (rounds(k->stmts.at[i]))
				return false;
	}
	return true;
}

/* ---- Exactness: whether a value is a small integer if the inputs are small integers ---- */

typedef struct IntegerCheck {
	Module *m;
	bool *broken; /* by Value.id: the value may have a fraction */
	bool *buf;    /* by Buf.id of the current kernel: likewise */
	bool yes;
} IntegerCheck;

static bool whole_inst(const Expr *e)
{
	if (inst_is_func(e->op.inst) || inst_is_routine(e->op.inst))
		return false;
	return !(is_float(e->ct) &&
		 (e->op.inst == IN_div || e->op.inst == IN_sqrt || e->op.inst == IN_bits));
}

/* B is a table of quarters that a sum in f64 reads, as the filter of Winograd's F(2,3) does; the
 * sum is exact. */
static bool has_quarters(const Buf *b)
{
	const double *v = b->data;
	int64_t n;

	if (!v || b->dtype != DT_F64 || b->rank != 1 || !dim_is_const(b->dims[0], &n))
		return false;
	for (int64_t i = 0; i < n; i++)
		if (!(fabs(v[i]) <= 64) || 4 * v[i] != rint(4 * v[i]))
			return false;
	return true;
}

/* Node E by itself may have a fraction. */
static bool may_have_fraction(const IntegerCheck *w, const Expr *e)
{
	switch (e->kind) {
	case EX_INST: return !whole_inst(e);
	case EX_CONST: return is_float(e->ct) && isfinite(e->f) && e->f != rint(e->f);
	case EX_LOAD:
		return w->buf[e->load.buf->id] || (e->load.buf->data && !has_quarters(e->load.buf));
	default: return false;
	}
}

static bool const_is_whole(const Tensor *t)
{
	for (int64_t i = 0; dtype_is_float(t->dtype) && i < tensor_numel(t); i++) {
		double d = dtype_load_f64(t->dtype, t->data, i);

		if (!(fabs(d) <= 64) || d != rint(d))
			return false;
	}
	return true;
}

/* False if a sum has terms with fractions. */
static bool kernel_exact(IntegerCheck *w, Node *n, Kernel *k, bool *sums)
{
	w->buf = NEW_ARRAY(w->m->arena, k->bufs.n + 1, bool);
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == BUF_IN)
			w->buf[i] = w->broken[value_base(node_in(n, k->bufs.at[i]->param))->id];
	for (int i = 0; i < k->stmts.n; i++) {
		Stmt *s = k->stmts.at[i];

		/* A scatter adds to elements that another statement has written. */
		w->yes = !s->out[0] || !w->buf[s->out[0]->id];
		EX_EACH (e, s->val[0])
			w->yes = w->yes && !may_have_fraction(w, e);
		if (rounds(s) && !w->yes)
			return false;
		*sums = *sums || s->red == MONOID_sum || s->red == MONOID_prod;
		for (int o = 0; o < s->nout; o++)
			if (s->out[o])
				w->buf[s->out[o]->id] = w->buf[s->out[o]->id] || !w->yes;
	}
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == BUF_OUT)
			w->broken[n->out[k->bufs.at[i]->param]->id] = w->buf[i];
	return true;
}

bool module_is_exact_on_integers(Module *m)
{
	IntegerCheck w = {.m = m, .broken = NEW_ARRAY(m->arena, m->graph->nvalues + 1, bool)};
	bool sums = false;

	for (Node *n = m->graph->first; n; n = n->next) {
		Kernel *k = node_kernel(n);

		/* a loop may multiply integers until they are large */
		for (int i = 0; i < n->nout && op_is_control(n->op); i++)
			w.broken[n->out[i]->id] = true;
		if (n->op == OP_Const)
			w.broken[n->out[0]->id] = !const_is_whole(value_const(n->out[0]));
		else if (k && !kernel_exact(&w, n, k, &sums))
			return false;
	}
	return sums;
}

/* ---- Zeros of either sign ---- */

/* A zero that E computes may have either sign; BUF, by Buf.id: so may one in the buffer. */
static bool has_either_zero(const bool *buf, Expr *e)
{
	EX_EACH (x, e) {
		if (x->kind == EX_LOAD && buf[x->load.buf->id])
			return true;
		if ((ex_is_op(x, IN_max) || ex_is_op(x, IN_min)) && is_float(x->ct))
			return true;
	}
	return false;
}

/* Follows zeros of either sign through the statements of K, from the buffers that BUF has. */
static void follow_zeros(const Kernel *k, bool *buf)
{
	for (int i = 0; i < k->stmts.n; i++) {
		const Stmt *s = k->stmts.at[i];
		bool either = (s->red == MONOID_max || s->red == MONOID_min) &&
			      is_float(s->val[0]->ct);

		for (int o = 0; o < s->nout; o++)
			either = either || has_either_zero(buf, s->val[o]);
		for (int o = 0; o < s->nout; o++)
			if (s->out[o])
				buf[s->out[o]->id] = buf[s->out[o]->id] || either;
	}
}

bool *kernel_unsigned_zeros(Arena *a, const Kernel *k)
{
	bool *buf = NEW_ARRAY(a, k->bufs.n + 1, bool);

	follow_zeros(k, buf);
	return buf;
}

/* By Value.id of the graph: VALUE has it for the operands of N, and receives it for the results. */
static void follow_zeros_in_graph(Arena *a, Node *n, const Kernel *k, bool *value)
{
	bool *buf = NEW_ARRAY(a, k->bufs.n + 1, bool);

	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == BUF_IN)
			buf[i] = value[value_base(node_in(n, k->bufs.at[i]->param))->id];
	follow_zeros(k, buf);
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == BUF_OUT)
			value[n->out[k->bufs.at[i]->param]->id] = buf[i];
}

/* TO has zeros of either sign if FROM has. Returns whether that is new. */
static bool pass_zeros_on(bool *value, const Value *to, Value *from)
{
	const bool now = value[value_base(from)->id] && !value[to->id];

	value[to->id] = value[to->id] || now;
	return now;
}

/* Follows zeros through the bracket N. Returns whether an iteration's begin has more of them than
 * when N was last seen. */
static bool follow_zeros_in_bracket(Node *n, bool *value)
{
	bool more = false;

	for (int i = 0; i < n->nin; i++)
		pass_zeros_on(value, n->out[i % n->nout], node_in(n, i));
	for (int i = 0; i < loop_carried(n); i++)
		more = pass_zeros_on(value, block_open(n)->out[i], node_in(n, i)) || more;
	return more;
}

bool *module_unsigned_zeros(Module *m)
{
	const Graph *g = m->graph;
	bool *value = NEW_ARRAY(m->arena, g->nvalues + 1, bool);
	bool *result = NEW_ARRAY(m->arena, g->results.n + 1, bool);

	for (Node *n = g->first; n; n = n->next)
		if (node_kernel(n))
			follow_zeros_in_graph(m->arena, n, node_kernel(n), value);
		else if (op_is_control(n->op) && follow_zeros_in_bracket(n, value))
			n = block_open(n);
	for (int i = 0; i < g->results.n; i++)
		result[i] = value[value_base(g->results.at[i]->value)->id];
	return result;
}

/* ---- Comparing ---- */

/* Whether all elements are equal, and, if SIGNS, zeros have the same sign. */
static bool are_equal(const Array *a, const Array *b, bool signs, int64_t *at)
{
	for (int64_t i = 0; i < array_count(a); i++) {
		*at = i;
		if (dtype_is_float(a->dtype)) {
			double x = dtype_load_f64(a->dtype, a->data, i),
			       y = dtype_load_f64(b->dtype, b->data, i);

			if (!(isnan(x) && isnan(y)) &&
			    (x != y || (signs && !signbit(x) != !signbit(y))))
				return false;
		} else if (dtype_load_i64(a->dtype, a->data, i) !=
			   dtype_load_i64(b->dtype, b->data, i)) {
			return false;
		}
	}
	return true;
}

static double number(const Array *a, int64_t i)
{
	return dtype_is_float(a->dtype) ? dtype_load_f64(a->dtype, a->data, i)
					: (double)dtype_load_i64(a->dtype, a->data, i);
}

bool array_is_whole(const Array *a)
{
	if (a->items)
		return false;
	for (int64_t i = 0; dtype_is_float(a->dtype) && i < array_count(a); i++) {
		const double x = number(a, i);

		if (isfinite(x) && x != rint(x))
			return false;
	}
	return true;
}

/* The element with the largest error; NaN and infinity count most. */
static int64_t worst(const Array *got, const Array *want)
{
	int64_t at = 0;
	double most = -1;

	for (int64_t i = 0; i < array_count(got); i++) {
		double x = number(got, i), y = number(want, i), e = fabs(x - y);

		if ((isnan(x) && isnan(y)) || x == y)
			continue;
		if (!isfinite(e))
			return i;
		if (e > most) {
			most = e;
			at = i;
		}
	}
	return at;
}

/* Null, or how items of GOT differ from those of WANT. */
static const char *difference_of_items(Arena *a, const Array *got, const Array *want, Agreement how,
				       Tolerance t)
{
	const char *bad = NULL;

	for (int64_t i = 0; i < got->n_items && !bad; i++) {
		bad = difference(a, &got->items[i], &want->items[i], how, t);
		if (bad)
			bad = arena_printf(a, "item %lld: %s", (long long)i, bad);
	}
	return bad;
}

const char *difference(Arena *a, const Array *got, const Array *want, Agreement how, Tolerance t)
{
	Comparison c = compare(got, want, t);
	const char *why = c.why;
	int64_t at = 0;

	if (got->form != DL_TENSOR || want->form != DL_TENSOR)
		return got->form == want->form && got->n_items == want->n_items
			       ? difference_of_items(a, got, want, how, t)
			       : arena_strdup(a, why);

	if (c.ok && (how == AGREE_WITHIN || got->dtype == DT_STR ||
		     are_equal(got, want, how == AGREE_BITS, &at)))
		return NULL;
	if (c.ok)
		why = how == AGREE_BITS ? "not equal bit by bit" : "not equal";
	else if (got->dtype == DT_STR || got->dtype != want->dtype || got->rank != want->rank ||
		 c.max_abs + (double)c.unequal == 0)
		return arena_strdup(a, why);
	else
		at = worst(got, want);
	return arena_printf(a, "%s: [%lld] is %.9g, not %.9g", why, (long long)at, number(got, at),
			    number(want, at));
}
