/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unsigned: on CPUs, a tensor of quantised i8 that a product reads as u8, plus 128, is stored as
 * u8. CPUs multiply u8 by i8, and A can then be read where it lies:
 *
 *     q[i] = min(max(i32(x), -128), 127)           q[i] = min(max(i32(x), -128), 127) + 128
 *     acc[m,n] = sum round.u8(q[m,k] + 128) * w    acc[m,n] = sum q[m,k] * w
 *     y[i] = f32(q[i]) * s                         y[i] = f32(q[i] - 128) * s
 *
 * A zero point is part of this: what follows is that of u8, for which the zero point is 128 more.
 *
 *     q[i] = min(max(i32(rint(x) + z), -128), 127)    q[i] = min(max(i32(rint(x) + (z + 128)), 0), 255)
 *     y[i] = f32(q[i] - z) * s                        y[i] = f32(q[i] - (z + 128)) * s
 *
 * A tensor whose zero point is -128, the result of a Relu, is also stored so if no product reads
 * it: its zero point is then 0. A depthwise convolution with such an operand took 1.6 to 2.5 times
 * as long.
 *
 * A tensor without negative elements is u8 as it is, and products read it so (algebra.c).
 *
 * It runs after `fuse`, when the values between kernels are known. Inputs and results of the model
 * keep their types. Where products packed A instead, resnet50 with symmetric i8 took 1.10 times as
 * long on AVX-512 with VNNI, and mobilenet_v2 1.05 times.
 */
#include "ir/expr/expr_c.h"
#include "passes/forms/form.h"
#include "passes/forms/kernels.h"
#include "passes/forms/seven_bits.h"
#include "passes/forms/through.h"
#include "passes/module.h"

enum { OFFSET = 128 };

/* The load in E, a load plus constants that add up to *OFFSET; null: E is something else. */
static Expr *offset_load(Expr *e, int64_t *offset)
{
	for (*offset = 0; ex_is_op(e, IN_add) || ex_is_op(e, IN_sub); e = e->op.arg[0]) {
		if (e->ct != CT_I32 || e->op.n != 2 || e->op.arg[1]->kind != EX_CONST)
			return NULL;
		*offset += ex_is_op(e, IN_add) ? e->op.arg[1]->i : -e->op.arg[1]->i;
	}
	return e->kind == EX_LOAD ? e : NULL;
}

/* The load that E, round.u8(load + BY), makes unsigned; null: E is something else. */
static Expr *unsigned_load(const Expr *e, int64_t by)
{
	int64_t offset;
	Expr *load = ex_is_op(e, IN_round) && e->op.dtype == DT_U8
			     ? offset_load(e->op.arg[0], &offset)
			     : NULL;

	return load && offset == by ? load : NULL;
}

/* ---- Which tensors ---- */

/* E, of N's kernel, is a difference of integers whose second one is a number, *ZERO. */
static bool is_difference(const Node *n, const Expr *e, double *zero)
{
	return ex_is_op(e, IN_sub) && e->op.n == 2 && e->ct == CT_I32 &&
	       node_number(n, e->op.arg[1], zero);
}

/* Whether N's kernel K makes the elements of B unsigned by adding BY, or by subtracting their zero
 * point. */
static bool makes_unsigned(const Node *n, const Kernel *k, const Buf *b, int64_t by)
{
	double zero;

	for (int i = 0; i < k->stmts.n; i++)
		STMT_EACH (e, k->stmts.at[i]) {
			const Expr *load = by && is_difference(n, e, &zero) && zero == -(double)by
						   ? e->op.arg[0]
						   : unsigned_load(e, by);

			if (load && load->kind == EX_LOAD && load->load.buf == b)
				return true;
		}
	return false;
}

/* All readers of V are kernels, maybe behind views; *WANTS is set if one makes it unsigned by
 * adding BY. */
static bool readers_take(const Module *m, const Value *v, int64_t by, bool *wants)
{
	for (const Use *u = v->uses; u; u = u->next) {
		Node *n = u->user;
		Kernel *k = n ? node_kernel(n) : NULL;

		if (n && !k && (op_row[n->op].flags & OPF_VIEW) && u->slot == 0) {
			if (value_feeds_sym(n->out[0]) || !readers_take(m, n->out[0], by, wants))
				return false;
			continue;
		}
		if (!k || kernel_calls_routine(k))
			return false;
		*wants = *wants || makes_unsigned(n, k, kernel_param(k, BUF_IN, u->slot), by);
	}
	return true;
}

/* The kernel of V stores only numbers that it limits to the range of i8. */
static bool is_quantised(const Value *v)
{
	Kernel *k = v->def ? node_kernel(v->def) : NULL;
	const Buf *b = k && !kernel_calls_routine(k) ? kernel_param(k, BUF_OUT, v->index) : NULL;
	int64_t lo, hi;
	Expr *x;

	for (int i = 0; b && i < k->stmts.n; i++) {
		const Stmt *s = k->stmts.at[i];

		if (stmt_writes(s, b) &&
		    (s->red != MONOID_NONE || s->nout != 1 ||
		     !ex_limited(s->val[0], &x, &lo, &hi) || lo < INT8_MIN || hi > INT8_MAX))
			return false;
	}
	return b;
}

/* ---- The rewrite ---- */

/* NUMBER, as an operand of N of type T; null if it is 0. */
static Expr *operand(Node *n, DType t, double number)
{
	if (number == 0)
		return NULL;
	return load_added(n, "zero", graph_const_scalar(n->graph, t, number, n), NULL, 0);
}

/* E, a difference of N's kernel whose first operand is a load of B minus OFFSET, as one difference;
 * else null. */
static Expr *one_difference(Node *n, const Expr *e, const Buf *b)
{
	ExprPool *p = node_kernel(n)->pool;
	int64_t offset;
	double zero;
	Expr *load, *other;

	if (!is_difference(n, e, &zero) || e->op.arg[1]->kind == EX_CONST || n->nin >= MAX_PARAMS)
		return NULL;
	load = offset_load(e->op.arg[0], &offset);
	if (!load || load->load.buf != b || offset != -OFFSET)
		return NULL;
	other = operand(n, DT_I32, zero + (double)OFFSET);
	return other ? ex_op2(p, IN_sub, load, other) : load;
}

/* Makes buffer B of N's kernel unsigned where it reads it: its elements are BY more, OFFSET or
 * 0. */
static void shift_loads(Node *n, Buf *b, int64_t by)
{
	Kernel *k = node_kernel(n);
	ExprPool *p = k->pool;

	b->dtype = DT_U8;
	for (int i = 0; i < k->stmts.n; i++)
		STMT_MAP (e, k, k->stmts.at[i]) {
			Expr *load = unsigned_load(e, 0);

			if (e->kind == EX_LOAD && e->load.buf == b)
				e = by ? ex_op2(p, IN_sub, e, ex_int(p, CT_I32, by)) : e;
			else if (load && load->load.buf == b)
				e = load;
			else
				e = one_difference(n, e, b) ?: e;
		}
}

static void rewrite_readers(Module *m, Value *v, int64_t by)
{
	VEC(Use) uses = {0};

	v->type = type_tensor(m->ctx, DT_U8, v->type->rank, v->type->dims);
	for (const Use *u = v->uses; u; u = u->next) /* a new operand of a reader moves its uses */
		vec_push(m->arena, &uses, *u);
	VEC_EACH_AT (u, &uses) {
		Kernel *k = node_kernel(u->user);
		Buf *b = k ? kernel_param(k, BUF_IN, u->slot) : NULL;

		if (!k)
			rewrite_readers(m, u->user->out[0], by);
		else if (b)
			shift_loads(u->user, b, by);
	}
}

/* All operands of N are bytes or constants, so that its kernel computes no NaN. */
static bool reads_bytes(Module *m, const Node *n)
{
	for (int i = 0; i < n->nin; i++)
		if (node_in(n, i) && !dtype_is_byte(node_in(n, i)->type->dtype) &&
		    !value_is_weights(m, node_in(n, i)))
			return false;
	return true;
}

/* E, a number of N's kernel that is limited to i8, plus OFFSET. Where it is quantised, that is
 * added to the zero point: both are exact up to numbers far outside of the limits. i32(NaN) is
 * 0. */
static Expr *plus_offset(Module *m, Node *n, Expr *e)
{
	ExprPool *p = node_kernel(n)->pool;
	Expr *x = NULL, *zero = NULL;
	int64_t lo, hi;
	double number = 0;

	if (ex_limited(e, &x, &lo, &hi) && ex_is_op(x, IN_add) && x->op.n == 2) {
		zero = x->op.arg[1];
		x = x->op.arg[0];
	}
	if (!x || lo != INT8_MIN || !ex_is_op(x, IN_rint) || !reads_bytes(m, n) ||
	    n->nin >= MAX_PARAMS || (zero && !node_number(n, zero, &number)))
		return ex_op2(p, IN_add, e, ex_int(p, CT_I32, OFFSET));
	zero = operand(n, DT_F32, number + (double)OFFSET);
	x = ex_cvt(p, CT_I32, zero ? ex_op2(p, IN_add, x, zero) : x);
	x = ex_op2(p, IN_max, x, ex_int(p, CT_I32, lo + OFFSET));
	return ex_op2(p, IN_min, x, ex_int(p, CT_I32, hi + OFFSET));
}

/* The kernel of V may read what it has stored. */
static void rewrite_writer(Module *m, const Value *v, int64_t by)
{
	Kernel *k = node_kernel(v->def);
	Buf *b = kernel_param(k, BUF_OUT, v->index);

	shift_loads(v->def, b, by);
	VEC_EACH (s, &k->stmts)
		if (by && stmt_writes(s, b))
			s->val[0] = plus_offset(m, v->def, s->val[0]);
}

bool pass_unsigned(Module *m)
{
	bool any = false;

	for (Node *n = m->graph->first; n && !module_on_gpu(m); n = n->next)
		for (int i = 0; i < n->nout; i++) {
			Value *v = n->out[i];
			bool wants = false, as_it_is = false;
			int64_t by;

			if (!v || v->type->dtype != DT_I8 || v->type->layout ||
			    value_is_weights(m, v) || value_feeds_sym(v) || !is_quantised(v) ||
			    !readers_take(m, v, 0, &as_it_is) ||
			    !readers_take(m, v, OFFSET, &wants))
				continue;
			as_it_is = as_it_is && value_has_7_bits(v);
			if (!as_it_is && !wants)
				continue;
			by = as_it_is ? 0 : OFFSET;
			rewrite_writer(m, v, by);
			rewrite_readers(m, v, by);
			any = true;
		}
	for (Node *n = m->graph->first; n && any; n = n->next)
		if (node_kernel(n))
			node_drop_unused_inputs(n);
	return true;
}
