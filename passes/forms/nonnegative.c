/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/forms/nonnegative.h"

#include "passes/forms/kernels.h"

enum {
	MOST_LOADS = 64, /* limit on the loads that are looked through */
	MOST_ELEMENTS = 1 << 12
};

static bool expr_is(const Node *n, const Expr *e, int *loads);

/* Whether all statements of N's kernel that write B are maps with such values. */
static bool buf_is(const Node *n, const Buf *b, int *loads)
{
	const Kernel *k = node_kernel(n);
	bool any = false;

	VEC_EACH (s, &k->stmts) {
		if (!stmt_writes(s, b))
			continue;
		if (!stmt_is_simple_map(s) || !expr_is(n, s->val[0], loads))
			return false;
		any = true;
	}
	return any;
}

static bool tensor_is(const Tensor *t)
{
	const int64_t n = tensor_numel(t);

	for (int64_t i = 0; i < n && n <= MOST_ELEMENTS; i++)
		if (!(dtype_load_f64(t->dtype, t->data, i) >= 0))
			return false;
	return n <= MOST_ELEMENTS;
}

static bool value_is(const Value *v, int *loads)
{
	const Node *n = v->def;
	const Kernel *k = n ? node_kernel(n) : NULL;
	const Buf *b;

	if (value_const(v))
		return dtype_info[v->type->dtype].bits <= 32 && tensor_is(value_const(v));
	if (n && (op_row[n->op].flags & OPF_VIEW))
		return value_is(node_in(n, 0), loads);
	if (!k || kernel_calls_routine(k))
		return false;
	b = kernel_param(node_kernel(n), BUF_OUT, v->index);
	return b && buf_is(n, b, loads);
}

static bool load_is(const Node *n, const Expr *e, int *loads)
{
	const Buf *b = e->load.buf;

	if (dtype_is_int(b->dtype) && !dtype_is_signed(b->dtype))
		return true;
	if (--*loads < 0 || b->data)
		return false;
	if (b->kind == BUF_IN)
		return node_in(n, b->param) && value_is(node_in(n, b->param), loads);
	return buf_is(n, b, loads);
}

/* The conversion E neither wraps nor changes the sign: it saturates, or its type is a float or as
 * large as that of its operand. */
static bool keeps_sign(const Expr *e)
{
	const CType from = e->op.arg[0]->ct;

	return ctype_is_float(from) || ctype_is_float(e->ct) || from == e->ct;
}

static bool expr_is(const Node *n, const Expr *e, int *loads)
{
	Expr *const *arg = e->op.arg;

	if (e->kind == EX_CONST)
		return ctype_is_float(e->ct) ? e->f >= 0 : e->i >= 0;
	if (e->kind == EX_LOAD)
		return load_is(n, e, loads);
	if (e->kind != EX_INST)
		return false;
	switch (e->op.inst) {
	case IN_max:
		return expr_is(n, arg[0], loads) || (e->op.n == 2 && expr_is(n, arg[1], loads));
	case IN_min: return e->op.n == 2 && expr_is(n, arg[0], loads) && expr_is(n, arg[1], loads);
	case IN_add:
	case IN_mul:
	case IN_div:
		return e->op.n == 2 && ctype_is_float(e->ct) && expr_is(n, arg[0], loads) &&
		       expr_is(n, arg[1], loads);
	case IN_rint: return expr_is(n, arg[0], loads);
	case IN_cvt: return keeps_sign(e) && expr_is(n, arg[0], loads);
	case IN_select: return expr_is(n, arg[1], loads) && expr_is(n, arg[2], loads);
	default: return false;
	}
}

bool value_is_nonnegative(const Value *v)
{
	int loads = MOST_LOADS;

	return value_is(v, &loads);
}
