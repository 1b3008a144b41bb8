/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recognises integers of the form byte - zero point, and floats that are such integers times a
 * scale, where the zero point and the scale are the same for all terms of a sum: either by the form
 * of an expression, looking through the maps that computed its operands; or by the values of an i32
 * constant, which folding may have made from the model's bytes.
 */
#include "passes/forms/algebra.h"
#include "passes/forms/contraction.h"
#include "passes/forms/through.h"

#include "passes/module.h"

#include <string.h>

enum {
	BYTES = 256,   /* number of values of a byte */
	MAX_CHAIN = 8, /* limit on successive maps that are looked through */
	MAX_COST = 2   /* limit on the cost of each of these maps */
};

/* ---- Constants ---- */

/* The 8-bit type that holds LO..HI minus *ZERO; DT_NONE if there are too many values. */
static DType byte_type(int64_t lo, int64_t hi, int64_t *zero)
{
	*zero = 0;
	if (lo >= INT8_MIN && hi <= INT8_MAX)
		return DT_I8;
	if (lo < 0 || hi > UINT8_MAX)
		*zero = -lo;
	return hi - lo < BYTES ? DT_U8 : DT_NONE;
}

/* Rewrites V, an i32 constant, as bytes minus *ZERO; null if V is not an i32 constant, or has too
 * many values. */
static Value *constant_as_bytes(Graph *g, const Value *v, Node *before, int64_t *zero)
{
	const Tensor *t = value_const(v);
	int64_t n, lo = INT32_MAX, hi = INT32_MIN;
	const int32_t *from;
	Tensor *bytes;
	uint8_t *to;
	DType type;

	if (!t || t->dtype != DT_I32 || t->bytes > MAX_CONSTANT || v->type->layout)
		return NULL;
	n = tensor_numel(t);
	from = t->data;
	for (int64_t i = 0; i < n; i++) {
		lo = from[i] < lo ? from[i] : lo;
		hi = from[i] > hi ? from[i] : hi;
	}
	type = n ? byte_type(lo, hi, zero) : DT_NONE;
	if (type == DT_NONE)
		return NULL;
	bytes = tensor_new(g->arena, type, t->rank, t->dims);
	to = (uint8_t *)(uintptr_t)bytes->data;
	for (int64_t i = 0; i < n; i++)
		to[i] = (uint8_t)(from[i] + *zero);
	return graph_const(g, bytes, before);
}

/* ---- What a load reads ---- */

/* The expression of the map whose result load E of N reads, if it is cheap enough to recompute for
 * each term; else null. */
static Expr *see_through(Node *n, Expr *e)
{
	const Stmt *s = loaded_map(n, e);
	const Node *def = s ? node_loaded(n, e)->def : NULL;

	if (!s || def->out[0]->type->dtype != e->load.buf->dtype || node_on_host(def) ||
	    (e->ct != CT_I32 && e->ct != CT_F32) || expr_cost(s->val[0]) > MAX_COST)
		return NULL;
	return load_as_map(n, e, s);
}

/* ---- Factors ---- */

/* Whether E is the same for all terms and can be evaluated outside of the sum. */
static bool is_zero_point(ExprPool *p, const Contraction *c, Expr *e)
{
	if (expr_has_any(e, c->k, c->nk))
		return false;
	EX_EACH_LOAD (x, e)
		for (int d = 0; d < x->load.nidx; d++) {
			Expr *in = ex_inside(p, x->load.idx[d], ex_dim(p, x->load.buf->dims[d]));

			if (in->kind != EX_CONST || !in->i)
				return false;
		}
	return !expr_can_fault(e);
}

static Expr *plus(ExprPool *p, Expr *a, Expr *b)
{
	return a && b ? ex_op2(p, IN_add, a, b) : a ? a : b;
}

static bool reads_zeros(const Node *n, const Expr *e)
{
	const Tensor *t = node_loaded_const(n, e);

	return t && t->bytes <= MAX_CONSTANT && tensor_is_zero(t);
}

static bool narrow_load(Node *n, Expr *e, ByteFactor *out)
{
	Kernel *k = node_kernel(n);
	const Value *v = node_loaded(n, e);
	int64_t zero;
	Value *bytes = v && n->nin < MAX_PARAMS ? constant_as_bytes(n->graph, v, n, &zero) : NULL;

	if (!bytes)
		return false;
	out->byte = ex_load(k->pool, node_add_operand(n, e->load.buf->name, bytes), e->load.idx,
			    e->load.nidx);
	if (zero)
		out->zero = plus(k->pool, out->zero, ex_int(k->pool, CT_I32, zero));
	return true;
}

/* Sets OUT to E minus the zero point that OUT already has. */
static bool narrow(Node *n, const Contraction *c, Expr *e, ByteFactor *out)
{
	ExprPool *p = node_kernel(n)->pool;

	if (e->ct != CT_I32)
		return false;
	if (dtype_is_byte(contraction_type(e))) {
		out->byte = e;
		return true;
	}
	if (e->kind == EX_LOAD)
		return narrow_load(n, e, out);
	if (!ex_is_op(e, IN_sub) && !ex_is_op(e, IN_add))
		return false;
	for (int i = 1; i >= (ex_is_op(e, IN_sub) ? 1 : 0); i--) {
		Expr *zero = e->op.arg[i];

		if (!is_zero_point(p, c, zero))
			continue;
		if (!reads_zeros(n, zero))
			out->zero = plus(p, out->zero,
					 ex_is_op(e, IN_sub) ? zero : ex_op1(p, IN_neg, zero));
		return narrow(n, c, e->op.arg[1 - i], out);
	}
	return false;
}

/* The elements of constant T are in the range of type BYTE. */
static bool all_bytes(const Tensor *t, DType byte)
{
	const int64_t lo = byte == DT_U8 ? 0 : -128;
	const int64_t n = tensor_numel(t);

	for (int64_t i = 0; i < n; i++) {
		const int64_t v = dtype_load_i64(t->dtype, t->data, i);

		if (v < lo || v > lo + 255)
			return false;
	}
	return true;
}

/* N's zero point ZERO, which may be absent, is in the range of BYTE's type, so that their
 * difference has 8 bits and a sign. */
static bool is_in_range(const Node *n, const Expr *byte, const Expr *zero)
{
	const DType t = contraction_type(byte);
	const Tensor *of;

	if (!zero || contraction_type(zero) == t)
		return true;
	if (zero->kind == EX_CONST)
		return zero->i >= (t == DT_U8 ? 0 : -128) && zero->i <= (t == DT_U8 ? 255 : 127);
	of = node_loaded_const(n, zero);
	return of && of->bytes <= MAX_CONSTANT && all_bytes(of, t);
}

/* As narrow, for an f32. */
static bool narrow_scaled(Node *n, const Contraction *c, Expr *e, ByteFactor *out)
{
	ExprPool *p = node_kernel(n)->pool;

	if (e->ct != CT_F32)
		return false;
	if (ex_is_op(e, IN_cvt))
		return narrow(n, c, e->op.arg[0], out) && is_in_range(n, out->byte, out->zero);
	if (!ex_is_op(e, IN_mul))
		return false;
	for (int i = 1; i >= 0; i--) {
		Expr *scale = e->op.arg[i];

		if (!is_zero_point(p, c, scale))
			continue;
		out->scale = out->scale ? ex_op2(p, IN_mul, out->scale, scale) : scale;
		return narrow_scaled(n, c, e->op.arg[1 - i], out);
	}
	return false;
}

bool narrow_factor(Node *n, const Contraction *c, Expr *e, ByteFactor *out)
{
	const Expr *before = NULL;

	*out = (ByteFactor){NULL, NULL, NULL};
	for (int i = 0; i < MAX_CHAIN && e != before; i++) {
		before = e;
		EX_MAP (x, node_kernel(n)->pool, &e)
			x = see_through(n, x) ?: x;
	}
	return c->ct == CT_F32 ? narrow_scaled(n, c, e, out) : narrow(n, c, e, out);
}
