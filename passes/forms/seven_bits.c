/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/seven_bits.h"

#include "passes/forms/kernels.h"

enum {
	MOST_LOADS = 64, /* limit on the loads that are looked through */
	MOST_ELEMENTS = 1 << 12
};

/* Which bound values are to have, and how many more loads are looked through. */
typedef struct Bounded {
	bool above; /* each is at most INT8_MAX; else each is at least 0 */
	int loads;
} Bounded;

static bool expr_is(const Node *n, const Expr *e, Bounded *of);

/* B has fewer values than its elements' type in expressions, so that a store may wrap. */
static bool may_wrap(const Buf *b)
{
	return dtype_is_int(b->dtype) &&
	       (!dtype_is_signed(b->dtype) || dtype_info[b->dtype].bits < 32);
}

/* Whether all statements of N's kernel that write B are maps with such values. Where they may wrap,
 * they have both bounds. */
static bool buf_is(const Node *n, const Buf *b, Bounded *of)
{
	const Kernel *k = node_kernel(n);
	bool any = false;

	VEC_EACH (s, &k->stmts) {
		Bounded other = {.above = !of->above};

		if (!stmt_writes(s, b))
			continue;
		if (!stmt_is_simple_map(s) || !expr_is(n, s->val[0], of))
			return false;
		if (may_wrap(b)) {
			other.loads = of->loads;
			if (!expr_is(n, s->val[0], &other))
				return false;
			of->loads = other.loads;
		}
		any = true;
	}
	return any;
}

static bool number_is(double x, const Bounded *of)
{
	return of->above ? x <= INT8_MAX : x >= 0;
}

static bool tensor_is(const Tensor *t, const Bounded *of)
{
	const int64_t n = tensor_numel(t);

	for (int64_t i = 0; i < n && n <= MOST_ELEMENTS; i++)
		if (!number_is(dtype_load_f64(t->dtype, t->data, i), of))
			return false;
	return n <= MOST_ELEMENTS;
}

static bool value_is(const Value *v, Bounded *of)
{
	const Node *n = v->def;
	const Kernel *k = n ? node_kernel(n) : NULL;
	const Buf *b;

	if (value_const(v))
		return dtype_info[v->type->dtype].bits <= 32 && tensor_is(value_const(v), of);
	if (n && (op_row[n->op].flags & OPF_VIEW))
		return value_is(node_in(n, 0), of);
	if (!k || kernel_calls_routine(k))
		return false;
	b = kernel_param(node_kernel(n), BUF_OUT, v->index);
	return b && buf_is(n, b, of);
}

static bool load_is(const Node *n, const Expr *e, Bounded *of)
{
	const Buf *b = e->load.buf;

	if (of->above ? b->dtype == DT_I8
		      : dtype_is_int(b->dtype) && !dtype_is_signed(b->dtype))
		return true;
	if (--of->loads < 0 || b->data)
		return false;
	if (b->kind == BUF_IN)
		return node_in(n, b->param) && value_is(node_in(n, b->param), of);
	return buf_is(n, b, of);
}

/* The conversion E neither wraps nor changes the sign: it saturates, or its type is a float or as
 * large as that of its operand. */
static bool keeps_sign(const Expr *e)
{
	const CType from = e->op.arg[0]->ct;

	return ctype_is_float(from) || ctype_is_float(e->ct) || from == e->ct;
}

/* E is a constant number above 0, or the only element of such a tensor, as scales are. */
static bool is_positive(const Node *n, const Expr *e)
{
	const Tensor *t = node_loaded_const(n, e);

	return t ? tensor_numel(t) == 1 && dtype_load_f64(t->dtype, t->data, 0) > 0
		 : e->kind == EX_CONST && e->f > 0;
}

static bool expr_is(const Node *n, const Expr *e, Bounded *of)
{
	Expr *const *arg = e->op.arg;

	if (e->kind == EX_CONST)
		return number_is(ctype_is_float(e->ct) ? e->f : (double)e->i, of);
	if (e->kind == EX_LOAD)
		return load_is(n, e, of);
	if (e->kind != EX_INST)
		return false;
	switch (e->op.inst) {
	case IN_max:
	case IN_min:
		if (e->op.n == 2 && (e->op.inst == IN_max) == of->above)
			return expr_is(n, arg[0], of) && expr_is(n, arg[1], of);
		return expr_is(n, arg[0], of) || (e->op.n == 2 && expr_is(n, arg[1], of));
	case IN_add:
	case IN_mul:
		return !of->above && e->op.n == 2 && ctype_is_float(e->ct) && expr_is(n, arg[0], of) &&
		       expr_is(n, arg[1], of);
	case IN_div: /* by -0.0 it would be negative */
		return !of->above && ctype_is_float(e->ct) && expr_is(n, arg[0], of) &&
		       is_positive(n, arg[1]);
	case IN_rint: return expr_is(n, arg[0], of);
	case IN_cvt: return keeps_sign(e) && expr_is(n, arg[0], of);
	case IN_select: return expr_is(n, arg[1], of) && expr_is(n, arg[2], of);
	default: return false;
	}
}

bool value_has_7_bits(const Value *v)
{
	return value_is(v, &(Bounded){false, MOST_LOADS}) &&
	       value_is(v, &(Bounded){true, MOST_LOADS});
}
