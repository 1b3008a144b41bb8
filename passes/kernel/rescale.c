/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rescale: simplifies expressions that quantise a number. On CPUs that multiply bytes, three
 * constants become two:
 *
 *     q = min(max(i32(rint((f32(n) * s + t) * r) + z), 0), 255)
 *       = min(max(i32(rint(f32(n) * (s * r) + t * r) + z), 0), 255)
 *
 * The quotient was computed from bytes and is already rounded, so a tie between two integers may be
 * rounded to either (docs/numerics.md, "Quantised tensors"). On all targets, a number that is
 * quantised and immediately dequantised, as before a residual sum, is clamped as a float. This
 * rounds nothing else, so it is exact. Adding 0 turns -0 into 0:
 *
 *     f32(min(max(i32(rint(x) + z), 0), 255) - z) = min(max(rint(x), 0 - z), 255 - z) + 0
 *
 * The constants on the right are new constants of the model: kernels that differ only in them still
 * share their code.
 */
#include "passes/forms/form.h"
#include "passes/forms/algebra.h"
#include "passes/forms/through.h"
#include "passes/module.h"

#include <math.h>

/* Kernels may each have a copy of a constant of at most this many bytes: a vector with an element
 * for each channel. */
enum { MOST_COPIED = 1 << 14 };

typedef struct Rescale {
	Module *m;
	Node *n;
	bool found;
	/* the bounds that are operands of N, and their loads; null: none */
	double lo, hi;
	Expr *lowest, *highest;
} Rescale;

/* ---- Constants ---- */

/* Sets *PRODUCT to V * BY. False if the product overflows, or is a subnormal number although it is
 * not 0. */
static bool multiply(float v, float by, float *product)
{
	*product = v == 0 ? v : v * by;
	return v == 0 || isnormal(*product);
}

/* Constant E of N's kernel, an f32, times BY. Null if E is not such a constant, the products are
 * not normal, or other readers need a large copy of it. */
static Expr *constant_times(Node *n, Expr *e, float by)
{
	const Tensor *t = node_loaded_const(n, e);
	float product;
	Tensor *to;

	if (e->kind == EX_CONST && e->ct == CT_F32)
		return multiply((float)e->f, by, &product)
			       ? ex_float(node_kernel(n)->pool, CT_F32, product)
			       : NULL;
	if (!t || t->dtype != DT_F32 || t->bytes > MAX_CONSTANT || n->nin >= MAX_PARAMS ||
	    node_loaded(n, e)->type->layout ||
	    (t->bytes > MOST_COPIED && node_loaded(n, e)->uses->next))
		return NULL;
	to = tensor_new(n->graph->arena, DT_F32, t->rank, t->dims);
	for (int64_t i = 0, all = tensor_numel(t); i < all; i++) {
		if (!multiply(((const float *)t->data)[i], by, &product))
			return NULL;
		((float *)(uintptr_t)to->data)[i] = product;
	}
	return load_added(n, e->load.buf->name, graph_const(n->graph, to, n), e->load.idx,
			  e->load.nidx);
}

static Expr *times(Module *m, Node *n, Expr *e, float by);

/* A is a byte as a float, and B a constant. */
static bool is_byte_times_constant(Module *m, const Node *n, const Expr *a, const Expr *b)
{
	const Value *v = node_loaded(n, b);

	return ex_is_op(a, IN_cvt) && expr_is_narrow(a->op.arg[0]) && v && value_is_weights(m, v);
}

/* E, an expression of N's kernel, is an integer as f32, or a sum of bytes times constants, which
 * `algebra` computes in floats. */
static bool is_from_bytes(Module *m, const Node *n, const Expr *e)
{
	const Stmt *s = e->kind == EX_LOAD && e->load.buf->kind == BUF_TEMP
				? kernel_writer(node_kernel(n), e->load.buf)
				: NULL;
	const Expr *v = s && s->red == MONOID_sum ? s->val[0] : NULL;

	if (ex_is_op(e, IN_cvt))
		return e->op.arg[0]->ct == CT_I32;
	return v && ex_is_op(v, IN_mul) &&
	       (is_byte_times_constant(m, n, v->op.arg[0], v->op.arg[1]) ||
		is_byte_times_constant(m, n, v->op.arg[1], v->op.arg[0]));
}

/* A, an integer or a constant times one, times the constant B, times BY: both constants become one
 * if either has one element. */
static Expr *product_times(Module *m, Node *n, Expr *a, Expr *b, float by)
{
	ExprPool *p = node_kernel(n)->pool;
	Expr *c = ex_is_op(a, IN_mul) ? a->op.arg[1] : NULL, *d = NULL;
	float both;
	double v;

	if (!is_from_bytes(m, n, c ? a->op.arg[0] : a))
		return NULL;
	if (c && node_number(n, b, &v) && multiply((float)v, by, &both))
		d = constant_times(n, c, both);
	else if (c && node_number(n, c, &v) && multiply((float)v, by, &both))
		d = constant_times(n, b, both);
	if (d)
		return ex_op2(p, IN_mul, a->op.arg[0], d);
	d = constant_times(n, b, by);
	return d ? ex_op2(p, IN_mul, a, d) : NULL;
}

/* E, an expression of N's kernel, times BY, which is multiplied into E's constants. Null if that is
 * impossible. */
static Expr *times(Module *m, Node *n, Expr *e, float by)
{
	ExprPool *p = node_kernel(n)->pool;
	Expr *a = e->kind == EX_INST ? e->op.arg[0] : NULL, *b;

	if (ex_is_op(e, IN_mul))
		return product_times(m, n, a, e->op.arg[1], by);
	if (ex_is_op(e, IN_max) && e->op.n == 2 && by > 0 && e->op.arg[1]->kind == EX_CONST) {
		a = times(m, n, a, by);
		b = a ? constant_times(n, e->op.arg[1], by) : NULL;
		return b ? ex_op2(p, IN_max, a, b) : NULL;
	}
	if ((ex_is_op(e, IN_add) || ex_is_op(e, IN_sub)) && e->op.n == 2) {
		a = times(m, n, a, by);
		b = a ? times(m, n, e->op.arg[1], by) : NULL;
		return b ? ex_op2(p, e->op.inst, a, b) : NULL;
	}
	return constant_times(n, e, by);
}

/* ---- Quantised numbers ---- */

/* The parts of an expression that quantises. */
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

/* If E quantises a product with a constant, multiplies that constant into the others. */
static Expr *shorter_quotient(Rescale *x, Expr *e)
{
	ExprPool *p = node_kernel(x->n)->pool;
	Quantised q;
	Expr *of, *by;
	double r;

	if (!is_quantised(e, &q))
		return NULL;
	of = q.rounded->op.arg[0];
	if (!ex_is_op(of, IN_mul) || of->op.arg[1]->kind != EX_LOAD ||
	    !node_number(x->n, of->op.arg[1], &r) || of->op.arg[0]->kind != EX_INST)
		return NULL;
	by = times(x->m, x->n, of->op.arg[0], (float)r);
	if (!by)
		return NULL;
	x->found = true;
	of = ex_op1(p, IN_rint, by);
	of = q.zero ? ex_op2(p, IN_add, of, q.zero) : of;
	return ex_op2(p, IN_min, ex_op2(p, IN_max, ex_cvt(p, CT_I32, of), ex_int(p, CT_I32, q.lo)),
		      ex_int(p, CT_I32, q.hi));
}

/* Makes LO and HI operands of X's node, so that kernels that differ only in these bounds share
 * their code. */
static void set_limits(Rescale *x, double lo, double hi)
{
	Node *n = x->n;

	if (x->lowest && x->lo == lo && x->hi == hi)
		return;
	x->lo = lo;
	x->hi = hi;
	x->lowest = load_added(n, "lowest", graph_const_scalar(n->graph, DT_F32, lo, n), NULL, 0);
	x->highest = load_added(n, "highest", graph_const_scalar(n->graph, DT_F32, hi, n), NULL, 0);
}

/* If E is f32(q - zero), and q is a number quantised with the same zero point, E becomes a clamped
 * float. For NaN q is 0 and the clamped float is the lower bound, so this bound must be 0, too. */
static Expr *only_limited(Rescale *x, Expr *e)
{
	ExprPool *p = node_kernel(x->n)->pool;
	Expr *of = ex_is_op(e, IN_cvt) && e->ct == CT_F32 ? e->op.arg[0] : NULL, *v;
	double zero = 0, same = 0;
	DType type = DT_I32;
	Quantised q;

	if (of && ex_is_op(of, IN_sub)) {
		if (!node_number(x->n, of->op.arg[1], &zero))
			return NULL;
		of = of->op.arg[0];
	}
	if (of && ex_is_op(of, IN_round)) {
		type = of->op.dtype;
		of = of->op.arg[0];
	}
	if (!of || !is_quantised(of, &q) || q.lo != 0 ||
	    (type != DT_I32 &&
	     (!dtype_is_int(type) || dtype_is_signed(type) || q.hi >> dtype_info[type].bits)) ||
	    (q.zero && !node_number(x->n, q.zero, &same)) || same != zero ||
	    x->n->nin + 2 > MAX_PARAMS)
		return NULL;
	set_limits(x, (double)q.lo - zero, (double)q.hi - zero);
	x->found = true;
	v = ex_op3(p, IN_select, ex_op2(p, IN_gt, q.rounded, x->lowest), q.rounded, x->lowest);
	v = ex_op3(p, IN_select, ex_op2(p, IN_lt, v, x->highest), v, x->highest);
	return ex_op2(p, IN_add, v, ex_float(p, CT_F32, 0));
}

/* Simplifies the expressions of N's kernel; those that quantise a quotient only if QUOTIENTS.
 * Returns whether there was one. */
static bool rescale(Module *m, Node *n, bool quotients)
{
	Kernel *k = node_kernel(n);
	Rescale x = {.m = m, .n = n};
	const int nin = n->nin;
	int visits = MOST_VISITS;

	quotients = quotients && stems_from_bytes(n, &visits);
	VEC_EACH (s, &k->stmts) {
		if (s->red)
			continue;
		if (quotients)
			EX_MAP (e, k->pool, &s->val[0])
				e = shorter_quotient(&x, e) ?: e;
		EX_MAP (e, k->pool, &s->val[0])
			e = only_limited(&x, e) ?: e;
	}
	if (n->nin > nin)
		node_drop_unused_inputs(n);
	return x.found;
}

bool pass_rescale(Module *m)
{
	const bool quotients = !module_on_gpu(m) && module_multiplies_bytes(m);
	int budget = m->opt.rewrite_limit;

	if (m->opt.level == 0)
		return true;
	for (Node *n = m->graph->first; n; n = n->next)
		if (node_kernel(n) && !node_on_host(n) && budget != 0 && rescale(m, n, quotients)) {
			form_changed(m, n);
			budget -= budget > 0;
		}
	dce_graph(m);
	return true;
}
