/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rescale: shortens what quantises a number, with s, r, t and z constant:
 *
 *     q = min(max(i32(rint((f32(n) * s + t) * r) + z), 0), 255)
 *       = min(max(i32(rint(f32(n) * (s * r) + t * r) + z), 0), 255)
 *
 * The quotient was computed from bytes and rounded already, so it may be rounded to either of two integers that it is in the
 * middle of (docs/numerics.md, "Quantised tensors"). And it shortens what quantises a number and dequantises it at once, as
 * before a residual sum. Nothing else is rounded, so this is exact, up to the sign of a zero:
 *
 *     f32(min(max(i32(rint(x) + z), 0), 255) - z) = min(max(rint(x), 0 - z), 255 - z)
 *
 * The constants on the right are new constants of the model: kernels that differ only in them still share their code.
 */
#include "passes/kernel/algebra.h"
#include "passes/kernel/through.h"
#include "passes/module.h"

#include <math.h>

typedef struct Rescale {
	Node *n;
	bool found;
} Rescale;

/* ---- Constants ---- */

/* The value of the one element of F32 or I32 that E, of N's kernel, loads, or of the constant E. */
static bool one_value(const Node *n, const Expr *e, double *v)
{
	const Tensor *t = node_loaded_const(n, e);

	if (e->kind == EX_CONST)
		*v = e->ct == CT_F32 ? e->f : (double)e->i;
	else if (t && tensor_numel(t) == 1 && (t->dtype == DT_F32 || t->dtype == DT_I32))
		*v = dtype_load_f64(t->dtype, t->data, 0);
	else
		return false;
	return e->ct == CT_F32 || e->ct == CT_I32;
}

/* E, of N's kernel, a constant of f32, times BY; null if it is none, or the products are not normal. */
static Expr *constant_times(Node *n, Expr *e, float by)
{
	ExprPool *p = node_kernel(n)->pool;
	const Tensor *t = node_loaded_const(n, e);
	Tensor *to;

	if (e->kind == EX_CONST && e->ct == CT_F32)
		return ex_float(p, CT_F32, (float)e->f * by);
	if (!t || t->dtype != DT_F32 || t->bytes > MAX_CONSTANT ||
	    node_loaded(n, e)->type->layout || n->nin >= MAX_PARAMS)
		return NULL;
	to = tensor_new(n->graph->arena, DT_F32, t->rank, t->dims);
	for (int64_t i = 0, all = tensor_numel(t); i < all; i++) {
		const float v = ((const float *)t->data)[i], product = v * by;

		if (v != 0 && !isnormal(product))
			return NULL;
		((float *)(uintptr_t)to->data)[i] = product;
	}
	return load_added(n, e->load.buf->name, graph_const(n->graph, to, n), e->load.idx,
			  e->load.nidx);
}

static Expr *times(Node *n, Expr *e, float by);

/* E is an integer as f32. */
static bool is_integer(const Expr *e)
{
	return ex_is_op(e, IN_cvt) && e->op.arg[0]->ct == CT_I32;
}

/* A, an integer or a constant times it, times the constant B times BY: both constants become one, if either has one element. */
static Expr *product_times(Node *n, Expr *a, Expr *b, float by)
{
	ExprPool *p = node_kernel(n)->pool;
	Expr *c = ex_is_op(a, IN_mul) ? a->op.arg[1] : NULL, *d = NULL;
	double v;

	if (!is_integer(c ? a->op.arg[0] : a))
		return NULL;
	if (c && one_value(n, b, &v))
		d = constant_times(n, c, (float)v * by);
	else if (c && one_value(n, c, &v))
		d = constant_times(n, b, (float)v * by);
	if (d)
		return ex_op2(p, IN_mul, a->op.arg[0], d);
	d = constant_times(n, b, by);
	return d ? ex_op2(p, IN_mul, a, d) : NULL;
}

/* E, of N's kernel, times BY, which constants of E take in; null if they do not. */
static Expr *times(Node *n, Expr *e, float by)
{
	ExprPool *p = node_kernel(n)->pool;
	Expr *a = e->kind == EX_INST ? e->op.arg[0] : NULL, *b;

	if (ex_is_op(e, IN_mul))
		return product_times(n, a, e->op.arg[1], by);
	if (ex_is_op(e, IN_max) && e->op.n == 2 && by > 0 && e->op.arg[1]->kind == EX_CONST) {
		a = times(n, a, by);
		return a ? ex_op2(p, IN_max, a, constant_times(n, e->op.arg[1], by)) : NULL;
	}
	if ((ex_is_op(e, IN_add) || ex_is_op(e, IN_sub)) && e->op.n == 2) {
		a = times(n, a, by);
		b = a ? times(n, e->op.arg[1], by) : NULL;
		return b ? ex_op2(p, e->op.inst, a, b) : NULL;
	}
	return constant_times(n, e, by);
}

/* ---- Quantised numbers ---- */

/* What an expression quantises. */
typedef struct Quantised {
	Expr *rounded; /* rint(x) */
	Expr *zero;    /* f32, or null: 0 */
	int64_t lo, hi;
} Quantised;

/* E is min(max(i32(rint(x) + zero), lo), hi). */
static bool is_quantised(const Expr *e, Quantised *q)
{
	const Expr *max = ex_is_op(e, IN_min) ? e->op.arg[0] : NULL, *cvt;

	if (!max || e->ct != CT_I32 || e->op.n != 2 || e->op.arg[1]->kind != EX_CONST ||
	    !ex_is_op(max, IN_max) || max->op.n != 2 || max->op.arg[1]->kind != EX_CONST)
		return false;
	cvt = max->op.arg[0];
	if (!ex_is_op(cvt, IN_cvt) || cvt->op.arg[0]->ct != CT_F32)
		return false;
	*q = (Quantised){cvt->op.arg[0], NULL, max->op.arg[1]->i, e->op.arg[1]->i};
	if (ex_is_op(q->rounded, IN_add) && q->rounded->op.n == 2) {
		q->zero = q->rounded->op.arg[1];
		q->rounded = q->rounded->op.arg[0];
	}
	return ex_is_op(q->rounded, IN_rint);
}

/* The rint in E becomes one of a shorter product. */
static Expr *shorter_quotient(void *arg, Expr *e)
{
	Rescale *x = arg;
	ExprPool *p = node_kernel(x->n)->pool;
	Quantised q;
	Expr *of, *by;
	double r;

	if (!is_quantised(e, &q))
		return NULL;
	of = q.rounded->op.arg[0];
	if (!ex_is_op(of, IN_mul) || of->op.arg[1]->kind != EX_LOAD ||
	    !one_value(x->n, of->op.arg[1], &r) || of->op.arg[0]->kind != EX_INST)
		return NULL;
	by = times(x->n, of->op.arg[0], (float)r);
	if (!by)
		return NULL;
	x->found = true;
	of = ex_op1(p, IN_rint, by);
	of = q.zero ? ex_op2(p, IN_add, of, q.zero) : of;
	return ex_op2(p, IN_min, ex_op2(p, IN_max, ex_cvt(p, CT_I32, of), ex_int(p, CT_I32, q.lo)),
		      ex_int(p, CT_I32, q.hi));
}

/* The limit V of a number, as an operand of N: kernels with other limits share their code. */
static Expr *limit(Node *n, const char *name, double v)
{
	return load_added(n, name, graph_const_scalar(n->graph, DT_F32, v, n), NULL, 0);
}

/* E is f32(q - zero) of a number that is quantised with the same zero point. Of NaN q is 0, which the limits give if 0 is the
 * lower one. */
static Expr *only_limited(void *arg, Expr *e)
{
	Rescale *x = arg;
	ExprPool *p = node_kernel(x->n)->pool;
	Expr *of = ex_is_op(e, IN_cvt) && e->ct == CT_F32 ? e->op.arg[0] : NULL, *lo, *hi;
	double zero = 0, same = 0;
	DType type = DT_I32;
	Quantised q;

	if (of && ex_is_op(of, IN_sub)) {
		if (!one_value(x->n, of->op.arg[1], &zero))
			return NULL;
		of = of->op.arg[0];
	}
	if (of && ex_is_op(of, IN_round))
		type = of->op.dtype, of = of->op.arg[0];
	if (!of || !is_quantised(of, &q) || q.lo != 0 ||
	    (type != DT_I32 &&
	     (!dtype_is_int(type) || dtype_is_signed(type) || q.hi >> dtype_info[type].bits)) ||
	    (q.zero && !one_value(x->n, q.zero, &same)) || same != zero ||
	    x->n->nin + 2 > MAX_PARAMS)
		return NULL;
	lo = limit(x->n, "lowest", (double)q.lo - zero);
	hi = limit(x->n, "highest", (double)q.hi - zero);
	x->found = true;
	lo = ex_op3(p, IN_select, ex_op2(p, IN_gt, q.rounded, lo), q.rounded, lo);
	return ex_op3(p, IN_select, ex_op2(p, IN_lt, lo, hi), lo, hi);
}

bool pass_rescale(Module *m)
{
	int budget = m->opt.rewrite_limit;

	if (m->opt.level == 0)
		return true;
	for (Node *n = m->graph->first; n; n = n->next) {
		Kernel *k = node_kernel(n);

		for (int i = 0; k && !node_on_host(n) && i < k->stmts.n && budget != 0; i++) {
			static const ExprMap rules[] = {shorter_quotient, only_limited};
			Rescale x = {n, false};
			Stmt *s = k->stmts.at[i];

			for (int r = 0; r < 2 && !s->red; r++)
				s->val[0] = ex_rewrite(k->pool, s->val[0], rules[r], &x);
			budget -= x.found && budget > 0;
			node_drop_unused_inputs(n);
		}
	}
	return true;
}
