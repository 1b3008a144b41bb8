/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/*
 * The simplifications of ex_inst: constants are folded by the functions of ir/expr/scalar.h
 * themselves, and identities are applied that are exact for every value. So there is no x + 0 and
 * no x * 0 on floats, where -0 and NaN would change.
 */
#include "ir/expr/expr_impl.h"
#include "ir/kernel/kernel.h"
#include "ir/expr/scalar.h"

#include <assert.h>
#include <string.h>

/* ---- Constants ---- */

typedef union Scalar {
	bool v_bool;
	int32_t v_i32;
	int64_t v_i64;
	uint32_t v_u32;
	uint64_t v_u64;
	float v_f32;
	double v_f64;
} Scalar;

static Scalar to_scalar(const Expr *e)
{
	Scalar s = {.v_i64 = 0};

	switch (e->ct) {
	case CT_BOOL: s.v_bool = e->i != 0; break;
	case CT_I32: s.v_i32 = (int32_t)e->i; break;
	case CT_I64: s.v_i64 = e->i; break;
	case CT_U32: s.v_u32 = (uint32_t)e->i; break;
	case CT_U64: s.v_u64 = (uint64_t)e->i; break;
	case CT_F32: s.v_f32 = (float)e->f; break;
	case CT_F64: s.v_f64 = e->f; break;
	case CT_NONE:
	case CT_COUNT: break;
	}
	return s;
}

static Expr *from_scalar(ExprPool *p, CType t, Scalar s)
{
	switch (t) {
	case CT_BOOL: return ex_int(p, t, s.v_bool);
	case CT_I32: return ex_int(p, t, s.v_i32);
	case CT_I64: return ex_int(p, t, s.v_i64);
	case CT_U32: return ex_int(p, t, s.v_u32);
	case CT_U64: return ex_int(p, t, (int64_t)s.v_u64);
	case CT_F32: return ex_float(p, t, (double)s.v_f32);
	case CT_F64: return ex_float(p, t, s.v_f64);
	case CT_NONE:
	case CT_COUNT: break;
	}
	assert(t != CT_NONE && t != CT_COUNT);
	return NULL;
}

#define ARGS_1(t) a[0].v_##t
#define ARGS_2(t) a[0].v_##t, a[1].v_##t
#define ARGS_3(t) a[0].v_##t, a[1].v_##t, a[2].v_##t
#define ON(CT, t, r, name, n)                              \
	case CT_##CT:                                      \
		out->v_##r = dl_##name##_##t(ARGS_##n(t)); \
		return true;
#define ON_INTS(name, n)           \
	ON(I32, i32, i32, name, n) \
	ON(I64, i64, i64, name, n) ON(U32, u32, u32, name, n) ON(U64, u64, u64, name, n)
#define ON_FLOATS(name, n) ON(F32, f32, f32, name, n) ON(F64, f64, f64, name, n)
#define SWITCH(cases)                         \
	switch (src) {                        \
		cases default : return false; \
	}
#define FOLD_ARITH(name, n) SWITCH(ON_INTS(name, n) ON_FLOATS(name, n))
#define FOLD_FLOAT(name, n) SWITCH(ON_FLOATS(name, n))
#define FOLD_INT(name, n) SWITCH(ON_INTS(name, n))
#define FOLD_BITS(name, n) SWITCH(ON(BOOL, bool, bool, name, n) ON_INTS(name, n))
#define FOLD_CMP(name, n)                                                              \
	SWITCH(ON(BOOL, bool, bool, name, n) ON(I32, i32, bool, name, n)               \
		       ON(I64, i64, bool, name, n) ON(U32, u32, bool, name, n)         \
			       ON(U64, u64, bool, name, n) ON(F32, f32, bool, name, n) \
				       ON(F64, f64, bool, name, n))
#define FOLD_TEST FOLD_CMP
#define FOLD_SELECT(name, n) return false;
#define FOLD_INDEX(name, n) return false;
#define FOLD_CVT(name, n) return fold_cvt(src, ct, a, out);
#define FOLD_BITCAST(name, n) return fold_bits(src, ct, a, out);
#define FOLD_ROUND(name, n) return fold_##name(dtype, a, out);

#define TO(CT, s, t)                                       \
	case CT_##CT:                                      \
		out->v_##t = dl_cvt_##s##_##t(a[0].v_##s); \
		return true;
#define FROM(CT, s)                                                                             \
	case CT_##CT:                                                                           \
		switch (ct) {                                                                   \
			TO(BOOL, s, bool)                                                       \
			TO(I32, s, i32)                                                         \
			TO(I64, s, i64)                                                         \
			TO(U32, s, u32) TO(U64, s, u64) TO(F32, s, f32) TO(F64, s, f64) default \
			    : return false;                                                     \
		}

static bool fold_cvt(CType src, CType ct, const Scalar *a, Scalar *out)
{
	switch (src) {
		FROM(BOOL, bool)
		FROM(I32, i32)
		FROM(I64, i64)
		FROM(U32, u32)
		FROM(U64, u64)
		FROM(F32, f32)
		FROM(F64, f64)
	default: return false;
	}
}

/* All members of a Scalar begin at the same address. */
static bool fold_bits(CType src, CType ct, const Scalar *a, Scalar *out)
{
	assert(dtype_info[ctype_dtype(src)].bits == dtype_info[ctype_dtype(ct)].bits);
	*out = *a;
	return true;
}

#define DL_ROUNDS(X) DL_SMALL_FLOATS(X, f32) DL_SMALL_INTS(X, i32)

static bool fold_round(DType t, const Scalar *a, Scalar *out)
{
#define X(CT, d, v) \
	case DT_##CT: out->v_##v = dl_round_##d(a->v_##v); return true;
	switch (t) {
		DL_ROUNDS(X)
	default: return false;
	}
#undef X
}

static bool fold_roundsat(DType t, const Scalar *a, Scalar *out)
{
#define X(CT, d, v) \
	case DT_##CT: out->v_##v = dl_roundsat_##d(a->v_##v); return true;
	switch (t) {
		DL_ROUNDS(X)
	default: return false;
	}
#undef X
}

static bool eval_inst(Inst i, CType src, CType ct, DType dtype, const Scalar *a, Scalar *out)
{
	switch (i) {
#define INST(name, n, rule, c) \
	case IN_##name:        \
		FOLD_##rule(name, n)
#include "ir/expr/insts.def"
#undef INST
	default: return false;
	}
}

/* Evaluates the function's expansion over constants, if the result is a constant. */
static Expr *fold_func(ExprPool *p, Inst i, CType ct, Expr *const *arg)
{
	Expr *with[2] = {arg[0], inst_info[i].nargs > 1 ? arg[1] : NULL};
	Expr *e = ex_func_body(p, i, ct);

	EX_MAP (x, p, &e)
		if (x->kind == EX_PARAM)
			x = with[x->param];
	return e->kind == EX_CONST ? e : NULL;
}

static Expr *fold_constants(ExprPool *p, Inst i, CType ct, DType dtype, Expr *const *arg, int n)
{
	Scalar a[3], out = {.v_i64 = 0}, unfused;

	for (int k = 0; k < n; k++) {
		if (arg[k]->kind != EX_CONST)
			return NULL;
		a[k] = to_scalar(arg[k]);
	}
	if (inst_is_func(i))
		return fold_func(p, i, ct, arg);
	if (i == IN_mad) {
		/* Only if rounding once and rounding twice give the same. */
		eval_inst(IN_mul, ct, ct, dtype, a, &out);
		eval_inst(IN_add, ct, ct, dtype, (Scalar[]){out, a[2]}, &unfused);
		eval_inst(IN_fma, ct, ct, dtype, a, &out);
		return from_scalar(p, ct, out) == from_scalar(p, ct, unfused)
			       ? from_scalar(p, ct, out)
			       : NULL;
	}
	if (i == IN_index) {
		int64_t at = arg[0]->i, len = arg[1]->i;

		if (at < 0)
			at = (int64_t)((uint64_t)at + (uint64_t)len);
		return at >= 0 && at < len ? ex_int(p, CT_I64, at) : NULL;
	}
	return eval_inst(i, arg[0]->ct, ct, dtype, a, &out) ? from_scalar(p, ct, out) : NULL;
}

/* ---- Identities ---- */

static bool is_num(const Expr *e, double v)
{
	if (e->kind != EX_CONST)
		return false;
	return ctype_is_float(e->ct) ? !memcmp(&e->f, &v, sizeof v) : e->i == (int64_t)v;
}

static bool is_all_ones(const Expr *e)
{
	return e->kind == EX_CONST && !ctype_is_float(e->ct) && e->i == int_wrap(e->ct, -1);
}

static Expr *zero_of(ExprPool *p, CType t)
{
	return ex_num(p, t, 0);
}

/* Identities of two operands. A float sum may drop only -0. */
static Expr *fold_binary(ExprPool *p, Inst i, CType ct, Expr *a, Expr *b)
{
	bool is_int = !ctype_is_float(a->ct);

	switch (i) {
	case IN_add:
		if (is_num(b, is_int ? 0.0 : -0.0))
			return a;
		return is_num(a, is_int ? 0.0 : -0.0) ? b : NULL;
	case IN_sub:
		if (is_num(b, 0.0))
			return a;
		return is_int && a == b ? zero_of(p, ct) : NULL;
	case IN_mul:
		if (is_num(b, 1) || (is_int && is_num(a, 0)))
			return a;
		return is_num(a, 1) || (is_int && is_num(b, 0)) ? b : NULL;
	case IN_div:
	case IN_floordiv: return is_num(b, 1) ? a : NULL;
	case IN_mod:
	case IN_rem: return is_int && is_num(b, 1) ? zero_of(p, ct) : NULL;
	case IN_min:
	case IN_max: return a == b ? a : NULL;
	case IN_and:
		if (a == b || is_all_ones(b) || is_num(a, 0))
			return a;
		return is_all_ones(a) || is_num(b, 0) ? b : NULL;
	case IN_or:
		if (a == b || is_num(b, 0) || is_all_ones(a))
			return a;
		return is_num(a, 0) || is_all_ones(b) ? b : NULL;
	case IN_xor:
		if (a == b)
			return zero_of(p, ct);
		return is_num(b, 0) ? a : is_num(a, 0) ? b : NULL;
	case IN_shl:
	case IN_shr: return is_num(b, 0) ? a : NULL;
	case IN_eq:
	case IN_le:
	case IN_ge: return is_int && a == b ? ex_int(p, CT_BOOL, 1) : NULL;
	case IN_ne:
	case IN_lt:
	case IN_gt: return is_int && a == b ? ex_int(p, CT_BOOL, 0) : NULL;
	default: return NULL;
	}
}

static Expr *fold_select(ExprPool *p, Expr *c, Expr *a, Expr *b)
{
	if (c->kind == EX_CONST)
		return c->i ? a : b;
	if (a == b)
		return a;
	if (a->ct == CT_BOOL && is_num(a, 1) && is_num(b, 0))
		return c;
	if (c->kind == EX_INST && c->op.inst == IN_not)
		return ex_op3(p, IN_select, c->op.arg[0], b, a);
	return NULL;
}

/* Whether TO represents every value of FROM. */
static bool ctype_holds(CType to, CType from)
{
	static const unsigned char holds[CT_COUNT] = {
#define B(t) (1 << CT_##t)
		[CT_BOOL] = B(BOOL),
		[CT_I32] = B(BOOL) | B(I32),
		[CT_I64] = B(BOOL) | B(I32) | B(I64) | B(U32),
		[CT_U32] = B(BOOL) | B(U32),
		[CT_U64] = B(BOOL) | B(U32) | B(U64),
		[CT_F32] = B(BOOL) | B(F32),
		[CT_F64] = B(BOOL) | B(I32) | B(U32) | B(F32) | B(F64),
#undef B
	};

	return holds[to] >> from & 1;
}

/* A is a value of type T already: an element of that type, or rounded to it by I. */
static bool is_of_type(const Expr *a, Inst i, DType t)
{
	return a->kind == EX_LOAD ? a->load.buf->dtype == t
				  : ex_is_op(a, i) && a->op.dtype == t;
}

static Expr *fold_unary(ExprPool *p, Inst i, CType ct, DType dtype, Expr *a)
{
	bool same = a->kind == EX_INST && a->op.inst == i;

	switch (i) {
	case IN_cvt:
		if (a->kind == EX_INST && a->op.inst == IN_cvt &&
		    ctype_holds(a->ct, a->op.arg[0]->ct))
			return ex_cvt(p, ct, a->op.arg[0]);
		return NULL;
	case IN_bits: return same ? ex_bits(p, ct, a->op.arg[0]) : NULL;
	case IN_neg:
	case IN_not: return same ? a->op.arg[0] : NULL;
	case IN_abs:
	case IN_floor:
	case IN_ceil:
	case IN_trunc:
	case IN_rint: return same ? a : NULL;
	case IN_round:
	case IN_roundsat: return is_of_type(a, i, dtype) ? a : NULL;
	case IN_isnan: return ctype_is_float(a->ct) ? NULL : ex_int(p, CT_BOOL, 0);
	default: return NULL;
	}
}

/* ---- i64 ---- */

static Expr *fold_dims(ExprPool *p, Inst i, Expr *a, Expr *b)
{
	Dim *x = ex_as_dim(p->ctx, a), *y = ex_as_dim(p->ctx, b);

	if (!x || !y)
		return NULL;
	switch (i) {
	case IN_floordiv: return ex_dim(p, dim_floordiv(p->ctx, x, y));
	case IN_mod: return ex_dim(p, dim_mod(p->ctx, x, y));
	case IN_min: return ex_dim(p, dim_min(p->ctx, x, y));
	case IN_max: return ex_dim(p, dim_max(p->ctx, x, y));
	default: return NULL;
	}
}

static Expr *fold_sum(ExprPool *p, Inst i, Expr *const *arg, int n)
{
	Ctx *c = p->ctx;
	Linear l, a, b;

	if (!linear_of(p, arg[0], &a) || (n > 1 && !linear_of(p, arg[1], &b)))
		return NULL;
	l.n = 0;
	l.base = dim_const(c, 0);
	if (i == IN_mul) {
		if (a.n && b.n)
			return NULL;
		return linear_add(p, &l, a.n ? &a : &b, a.n ? b.base : a.base) ? linear_expr(p, &l)
									       : NULL;
	}
	if (!linear_add(p, &l, &a, dim_const(c, i == IN_neg ? -1 : 1)))
		return NULL;
	if (n > 1 && !linear_add(p, &l, &b, dim_const(c, i == IN_sub ? -1 : 1)))
		return NULL;
	return linear_expr(p, &l);
}

/* Comparisons, min and max that are decided by the range [LO, HI] of D = B - A. */
static Expr *fold_compare(ExprPool *p, Inst i, Expr *a, Expr *b)
{
	Dim *lo, *hi, *zero = dim_const(p->ctx, 0);
	Linear la, d;
	bool less, less_eq, greater, greater_eq;

	if (!linear_of(p, b, &d) || !linear_of(p, a, &la) ||
	    !linear_add(p, &d, &la, dim_const(p->ctx, -1)) || !linear_range(p, &d, &lo, &hi))
		return NULL;
	less_eq = dim_prove_le(p->ctx, zero, lo);
	greater_eq = dim_prove_le(p->ctx, hi, zero);
	less = less_eq && dim_prove_lt(p->ctx, zero, lo);
	greater = greater_eq && dim_prove_lt(p->ctx, hi, zero);
	switch (i) {
	case IN_min: return less_eq ? a : greater_eq ? b : NULL;
	case IN_max: return less_eq ? b : greater_eq ? a : NULL;
	case IN_lt: return less || greater_eq ? ex_int(p, CT_BOOL, less) : NULL;
	case IN_le: return less_eq || greater ? ex_int(p, CT_BOOL, less_eq) : NULL;
	case IN_gt: return greater || less_eq ? ex_int(p, CT_BOOL, greater) : NULL;
	case IN_ge: return greater_eq || less ? ex_int(p, CT_BOOL, greater_eq) : NULL;
	case IN_eq: return less || greater ? ex_int(p, CT_BOOL, 0) : NULL;
	case IN_ne: return less || greater ? ex_int(p, CT_BOOL, 1) : NULL;
	default: return NULL;
	}
}

/* Simplifies min(min(a, b), c) if the order of c and a, or of c and b, is known. */
static Expr *fold_nested(ExprPool *p, Inst i, Expr *a, Expr *c)
{
	for (int k = 0; k < 2 && a->kind == EX_INST && a->op.inst == i; k++) {
		Expr *one = fold_compare(p, i, a->op.arg[k], c);

		if (one)
			return one == c ? ex_op2(p, i, a->op.arg[1 - k], c) : a;
	}
	return NULL;
}

static Expr *fold_extreme(ExprPool *p, Inst i, Expr *a, Expr *b)
{
	Expr *e = fold_dims(p, i, a, b);

	e = e ? e : fold_compare(p, i, a, b);
	e = e ? e : fold_nested(p, i, a, b);
	return e ? e : fold_nested(p, i, b, a);
}

static Expr *fold_i64(ExprPool *p, Inst i, Expr *const *arg, int n)
{
	Expr *e;
	Dim *lo, *hi, *len;
	Linear l;

	switch (i) {
	case IN_add:
	case IN_sub:
	case IN_neg:
	case IN_mul: return fold_sum(p, i, arg, n);
	case IN_floordiv:
	case IN_mod:
		e = fold_dims(p, i, arg[0], arg[1]);
		return e ? e : fold_divmod(p, i, arg[0], arg[1]);
	case IN_min:
	case IN_max: return fold_extreme(p, i, arg[0], arg[1]);
	case IN_lt:
	case IN_le:
	case IN_gt:
	case IN_ge:
	case IN_eq:
	case IN_ne: return fold_compare(p, i, arg[0], arg[1]);
	case IN_index:
		len = ex_as_dim(p->ctx, arg[1]);
		if (len && linear_of(p, arg[0], &l) && linear_range(p, &l, &lo, &hi) &&
		    dim_prove_le(p->ctx, dim_const(p->ctx, 0), lo) && dim_prove_lt(p->ctx, hi, len))
			return arg[0];
		return NULL;
	default: return NULL;
	}
}

Expr *ex_fold(ExprPool *p, Inst i, CType ct, DType dtype, Expr *const *arg, int n)
{
	Expr *e = fold_constants(p, i, ct, dtype, arg, n);

	if (e)
		return e;
	if (n == 1)
		e = fold_unary(p, i, ct, dtype, arg[0]);
	else if (n == 2 && !inst_is_func(i))
		e = fold_binary(p, i, ct, arg[0], arg[1]);
	else if (i == IN_select)
		e = fold_select(p, arg[0], arg[1], arg[2]);
	if (e || arg[0]->ct != CT_I64 || inst_info[i].rule == RULE_CVT)
		return e;
	return fold_i64(p, i, arg, n);
}
