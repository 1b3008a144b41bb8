/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions over symbolic numbers: arithmetic on dims where they have it, else a failure. */
#include "ir/expr/symval.h"

#include <limits.h>
#include <math.h>

const SymVal symval_fail = {SYM_FAIL, NULL, 0, 0};

SymVal symval_dim(Dim *d)
{
	return d ? (SymVal){SYM_INT, d, 1, 0} : symval_fail;
}

SymVal symval_int(Ctx *c, int64_t v)
{
	return symval_dim(dim_const(c, v));
}

SymVal symval_float(double f)
{
	return (SymVal){SYM_FLOAT, NULL, 1, f};
}

SymVal symval_ratio(Ctx *c, Dim *num, int64_t den)
{
	Dim *q;
	int64_t v;

	if (dim_is_const(num, &v))
		return symval_float((double)v / (double)den);
	if (dim_divides(c, num, dim_const(c, den), &q))
		return (SymVal){SYM_RATIO, q, 1, 0};
	return (SymVal){SYM_RATIO, num, den, 0};
}

bool symval_is_const(SymVal v, int64_t *out)
{
	return v.kind == SYM_INT && dim_is_const(v.d, out);
}

/* A constant float p/q, where q is a small power of two. */
static bool as_ratio(Ctx *c, SymVal v, Dim **num, int64_t *den)
{
	int64_t q = 1;

	if (v.kind == SYM_RATIO) {
		*num = v.d;
		*den = v.den;
		return true;
	}
	if (v.kind != SYM_FLOAT || !(fabs(v.f) < 1 << 30))
		return false;
	while (q < 1 << 20 && v.f * (double)q != floor(v.f * (double)q))
		q *= 2;
	if (v.f * (double)q != floor(v.f * (double)q))
		return false;
	*num = dim_const(c, (int64_t)(v.f * (double)q));
	*den = q;
	return true;
}

static bool provably_ge0(Ctx *c, Dim *d)
{
	return dim_prove_le(c, dim_const(c, 0), d);
}

static SymVal div_trunc(Ctx *c, Dim *a, Dim *b, bool want_rem)
{
	int64_t x, y;
	Dim *q;

	if (dim_is_const(a, &x) && dim_is_const(b, &y)) {
		if (y == 0)
			return want_rem ? symval_fail : symval_int(c, 0);
		if (y == -1)
			return want_rem ? symval_int(c, 0)
					: symval_dim(dim_sub(c, dim_const(c, 0), a));
		return symval_int(c, want_rem ? x % y : x / y);
	}
	/* If the size is 0 at run time the quotient is 0, as for a floor term. */
	if (!provably_ge0(c, b))
		return symval_fail;
	if (dim_divides(c, a, b, &q))
		return want_rem ? symval_int(c, 0) : symval_dim(q);
	if (!provably_ge0(c, a))
		return symval_fail;
	return symval_dim(want_rem ? dim_mod(c, a, b) : dim_floordiv(c, a, b));
}

static SymVal divisor_known(Ctx *c, Dim *a, Dim *b, Dim *(*op)(Ctx *, Dim *, Dim *))
{
	int64_t y;

	if (dim_is_const(b, &y) ? y == 0 : !provably_ge0(c, b))
		return symval_fail;
	return symval_dim(op(c, a, b));
}

static SymVal not_val(Ctx *c, SymVal v)
{
	return symval_dim(dim_sub(c, dim_const(c, 1), v.d));
}

static SymVal bit_op(Ctx *c, Inst i, CType t, Dim *a, Dim *b)
{
	int64_t x, y;

	if (dim_is_const(a, &x) && dim_is_const(b, &y))
		return symval_int(c, i == IN_and ? x & y : i == IN_or ? x | y : x ^ y);
	if (t != CT_BOOL)
		return symval_fail;
	switch (i) {
	case IN_and: return symval_dim(dim_mul(c, a, b));
	case IN_or: return symval_dim(dim_max(c, a, b));
	default: return not_val(c, symval_dim(dim_eq(c, a, b)));
	}
}

static SymVal wrap_index(Ctx *c, Dim *i, Dim *n)
{
	int64_t x, y;
	Dim *zero = dim_const(c, 0);

	if (dim_is_const(i, &x) && dim_is_const(n, &y) && (x >= y || x < -y))
		return symval_fail;
	if (provably_ge0(c, i))
		return dim_prove_lt(c, i, n) ? symval_dim(i) : symval_fail;
	if (dim_prove_lt(c, i, zero) && dim_prove_le(c, dim_sub(c, zero, n), i))
		return symval_dim(dim_add(c, i, n));
	return symval_fail;
}

static SymVal abs_int(Ctx *c, Dim *a)
{
	Dim *m = dim_sub(c, dim_const(c, 0), a);

	return symval_dim(provably_ge0(c, a) ? a : dim_max(c, a, m));
}

static SymVal int_inst1(Ctx *c, const Expr *e, Dim *a)
{
	int64_t x;

	switch (e->op.inst) {
	case IN_neg: return symval_dim(dim_sub(c, dim_const(c, 0), a));
	case IN_abs: return abs_int(c, a);
	case IN_isnan: return symval_int(c, 0);
	case IN_not:
		if (e->ct == CT_BOOL)
			return not_val(c, symval_dim(a));
		return dim_is_const(a, &x) ? symval_int(c, ~x) : symval_fail;
	default: return symval_fail;
	}
}

static SymVal int_inst2(Ctx *c, const Expr *e, Dim *a, Dim *b)
{

	switch (e->op.inst) {
	case IN_add: return symval_dim(dim_add(c, a, b));
	case IN_sub: return symval_dim(dim_sub(c, a, b));
	case IN_mul: return symval_dim(dim_mul(c, a, b));
	case IN_div: return div_trunc(c, a, b, false);
	case IN_rem: return div_trunc(c, a, b, true);
	case IN_floordiv: return divisor_known(c, a, b, dim_floordiv);
	case IN_mod: return divisor_known(c, a, b, dim_mod);
	case IN_min: return symval_dim(dim_min(c, a, b));
	case IN_max: return symval_dim(dim_max(c, a, b));
	case IN_eq: return symval_dim(dim_eq(c, a, b));
	case IN_ne: return not_val(c, symval_dim(dim_eq(c, a, b)));
	case IN_le: return symval_dim(dim_le(c, a, b));
	case IN_ge: return symval_dim(dim_le(c, b, a));
	case IN_lt: return not_val(c, symval_dim(dim_le(c, b, a)));
	case IN_gt: return not_val(c, symval_dim(dim_le(c, a, b)));
	case IN_and:
	case IN_or:
	case IN_xor: return bit_op(c, e->op.inst, e->ct, a, b);
	case IN_index: return wrap_index(c, a, b);
	default: return symval_fail;
	}
}

/* Rounds a float to a whole number: MODE is one of floor, ceil, trunc, rint. */
static SymVal whole(Ctx *c, Inst mode, SymVal v)
{
	Dim *den;

	if (v.kind == SYM_FLOAT)
		return symval_float(mode == IN_floor   ? floor(v.f)
				    : mode == IN_ceil  ? ceil(v.f)
				    : mode == IN_trunc ? trunc(v.f)
						       : rint(v.f));
	if (v.den == 1)
		return v;
	den = dim_const(c, v.den);
	if (mode == IN_trunc && provably_ge0(c, v.d))
		mode = IN_floor;
	if (mode == IN_floor)
		return (SymVal){SYM_RATIO, dim_floordiv(c, v.d, den), 1, 0};
	if (mode == IN_ceil)
		return (SymVal){SYM_RATIO, dim_ceildiv(c, v.d, den), 1, 0};
	return symval_fail;
}

static double float_arith(Inst i, double a, double b)
{
	switch (i) {
	case IN_add: return a + b;
	case IN_sub: return a - b;
	case IN_mul: return a * b;
	case IN_div: return a / b;
	case IN_min: return isnan(a) || a < b ? a : b;
	default: return isnan(a) || a > b ? a : b;
	}
}

static bool float_test(Inst i, double a, double b)
{
	switch (i) {
	case IN_eq: return a == b;
	case IN_ne: return a != b;
	case IN_lt: return a < b;
	case IN_le: return a <= b;
	case IN_gt: return a > b;
	default: return a >= b;
	}
}

static SymVal ratio_inst2(Ctx *c, const Expr *e, SymVal a, SymVal b)
{
	Dim *n1, *n2, *x, *y;
	int64_t d1, d2, den, v;

	if (!as_ratio(c, a, &n1, &d1) || !as_ratio(c, b, &n2, &d2))
		return symval_fail;
	if (d1 > INT_MAX || d2 > INT_MAX)
		return symval_fail;
	den = d1 * d2;
	x = dim_mul(c, n1, dim_const(c, d2));
	y = dim_mul(c, n2, dim_const(c, d1));
	switch (e->op.inst) {
	case IN_add: return symval_ratio(c, dim_add(c, x, y), den);
	case IN_sub: return symval_ratio(c, dim_sub(c, x, y), den);
	case IN_mul: return symval_ratio(c, dim_mul(c, n1, n2), den);
	case IN_div:
		if (!dim_is_const(y, &v) || v <= 0 || v > INT_MAX)
			return symval_fail;
		return symval_ratio(c, x, v);
	case IN_min: return symval_ratio(c, dim_min(c, x, y), den);
	case IN_max: return symval_ratio(c, dim_max(c, x, y), den);
	case IN_eq:
	case IN_ne:
	case IN_lt:
	case IN_le:
	case IN_gt:
	case IN_ge: return int_inst2(c, e, x, y);
	default: return symval_fail;
	}
}

static SymVal float_inst2(Ctx *c, const Expr *e, SymVal a, SymVal b)
{
	bool test = inst_info[e->op.inst].rule == RULE_CMP;

	if (a.kind != SYM_FLOAT || b.kind != SYM_FLOAT)
		return ratio_inst2(c, e, a, b);
	if (test)
		return symval_int(c, float_test(e->op.inst, a.f, b.f));
	switch (e->op.inst) {
	case IN_add:
	case IN_sub:
	case IN_mul:
	case IN_div:
	case IN_min:
	case IN_max: {
		double r = float_arith(e->op.inst, a.f, b.f);

		return symval_float(e->ct == CT_F32 ? (double)(float)r : r);
	}
	default: return symval_fail;
	}
}

static SymVal float_inst1(Ctx *c, const Expr *e, SymVal a)
{
	switch (e->op.inst) {
	case IN_floor:
	case IN_ceil:
	case IN_trunc:
	case IN_rint: return whole(c, e->op.inst, a);
	case IN_neg:
		if (a.kind == SYM_FLOAT)
			return symval_float(-a.f);
		return (SymVal){SYM_RATIO, dim_sub(c, dim_const(c, 0), a.d), a.den, 0};
	case IN_abs:
		return a.kind == SYM_FLOAT    ? symval_float(fabs(a.f))
		       : provably_ge0(c, a.d) ? a
					      : symval_fail;
	case IN_isnan: return a.kind == SYM_FLOAT ? symval_int(c, isnan(a.f)) : symval_int(c, 0);
	default: return symval_fail;
	}
}

/* An integer constant converted to type T; saturating, as dl_cvt between integers, if SATURATE. */
static SymVal int_to(Ctx *c, CType t, Dim *d, bool saturate)
{
	int64_t v;

	if (t == CT_BOOL)
		return not_val(c, symval_dim(dim_eq(c, d, dim_const(c, 0))));
	if (!dim_is_const(d, &v) || t == CT_I64)
		return symval_dim(d);
	if (t == CT_I32 && (v < INT32_MIN || v > INT32_MAX))
		return saturate ? symval_int(c, v < 0 ? INT32_MIN : INT32_MAX) : symval_fail;
	if (t == CT_U32 && (v < 0 || v > UINT32_MAX))
		return saturate ? symval_int(c, v < 0 ? 0 : UINT32_MAX) : symval_fail;
	return t == CT_U64 && v < 0 ? symval_fail : symval_dim(d);
}

static SymVal convert(Ctx *c, const Expr *e, SymVal a)
{
	CType from = e->op.arg[0]->ct;

	if (!ctype_is_float(from)) {
		if (!ctype_is_float(e->ct))
			return int_to(c, e->ct, a.d, false);
		return symval_ratio(c, a.d, 1);
	}
	if (ctype_is_float(e->ct)) {
		if (a.kind == SYM_FLOAT && e->ct == CT_F32)
			a.f = (double)(float)a.f;
		return a;
	}
	if (e->ct == CT_BOOL && a.kind == SYM_FLOAT)
		return symval_int(c, a.f != 0);
	a = whole(c, IN_trunc, a);
	if (a.kind == SYM_RATIO)
		return int_to(c, e->ct, a.d, true);
	if (a.kind != SYM_FLOAT)
		return symval_fail;
	if (isnan(a.f))
		return symval_int(c, 0);
	return fabs(a.f) < 0x1p62 ? int_to(c, e->ct, dim_const(c, (int64_t)a.f), true)
				  : symval_fail;
}

/* Rounds to an element type; a value that is known to fit is unchanged. */
static SymVal round_to(const Expr *e, SymVal a)
{
	int64_t v;

	if (a.kind == SYM_FLOAT)
		return e->ct == CT_F32
			       ? symval_float((double)dtype_round_f32(e->op.dtype, (float)a.f,
								      e->op.inst == IN_roundsat))
			       : symval_fail;
	if (a.kind == SYM_INT && dtype_is_int(e->op.dtype)) {
		int bits = dtype_info[e->op.dtype].bits;
		bool sign = dtype_is_signed(e->op.dtype);
		int64_t lo = sign ? -((int64_t)1 << (bits - 1)) : 0;
		int64_t hi = sign ? -(lo + 1) : ((int64_t)1 << (bits - 1)) * 2 - 1;

		if (bits >= 64 || (symval_is_const(a, &v) && v >= lo && v <= hi))
			return a;
	}
	return symval_fail;
}

SymVal symval_inst(Ctx *c, const Expr *e, SymVal a, SymVal b)
{
	if (e->op.inst == IN_cvt)
		return convert(c, e, a);
	if (inst_info[e->op.inst].rule == RULE_ROUND)
		return round_to(e, a);
	if (e->op.n == 1)
		return a.kind == SYM_INT ? int_inst1(c, e, a.d) : float_inst1(c, e, a);
	if (e->op.n != 2 || b.kind == SYM_FAIL)
		return symval_fail;
	return a.kind == SYM_INT ? int_inst2(c, e, a.d, b.d) : float_inst2(c, e, a, b);
}
