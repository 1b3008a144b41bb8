/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Positions in 32 bits. Indices are i64, and so is what a value computes of them: the number of
 * elements in a window of a pool, or the mask of a diagonal, i <= j. AVX2 has half as many lanes of
 * 64 bits, and no instructions to multiply them, to compare for a minimum or to convert them to
 * floats. So a comparison or a conversion of positions that fit into 32 bits is computed in i32,
 * which gives the same number:
 *
 *     f32(min(29 - i, 3) - max(1 - i, 0))   becomes   f32(min(29 - i32(i), 3) - max(1 - i32(i), 0))
 *
 * Indices of loads and stores stay. AveragePool 3x3 took 0.42 of the time, on AVX2.
 */
#include "codegen/c/gen_c_impl.h"

typedef struct PositionRange {
	int64_t lo, hi; /* inclusive */
} PositionRange;

static bool fits(PositionRange s)
{
	return s.lo >= INT32_MIN && s.hi <= INT32_MAX;
}

static PositionRange range_of_ends(Inst i, PositionRange a, PositionRange b)
{
	const int64_t at[4] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
	PositionRange s = {at[0], at[0]};

	switch (i) {
	case IN_add: return (PositionRange){a.lo + b.lo, a.hi + b.hi};
	case IN_sub: return (PositionRange){a.lo - b.hi, a.hi - b.lo};
	case IN_min: return (PositionRange){a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
	case IN_max: return (PositionRange){a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
	default: break;
	}
	for (int k = 1; k < 4; k++) {
		s.lo = at[k] < s.lo ? at[k] : s.lo;
		s.hi = at[k] > s.hi ? at[k] : s.hi;
	}
	return s;
}

/* All values of E, which is computed of positions and sizes by additions, products and bounds;
 * false if it is not, or if some value on the way may not fit. */
static bool range_of(Ctx *c, const Expr *e, int depth, PositionRange *s)
{
	enum { MOST_DEPTH = 8 }; /* of operations, so that shared ones are not seen too often */
	PositionRange a, b;

	*s = (PositionRange){0, 0};
	if (depth > MOST_DEPTH)
		return false;
	switch (e->kind) {
	case EX_CONST: *s = (PositionRange){e->i, e->i}; break;
	case EX_ITER:
		dim_bounds(c, e->iter->extent, &s->lo, &s->hi);
		s->lo = 0;
		break;
	case EX_DIM: dim_bounds(c, e->dim, &s->lo, &s->hi); break;
	case EX_INST:
		if ((e->op.inst != IN_add && e->op.inst != IN_sub && e->op.inst != IN_mul &&
		     e->op.inst != IN_min && e->op.inst != IN_max) ||
		    !range_of(c, e->op.arg[0], depth + 1, &a) ||
		    !range_of(c, e->op.arg[1], depth + 1, &b))
			return false;
		*s = range_of_ends(e->op.inst, a, b);
		break;
	default: return false;
	}
	return e->ct == CT_I64 && fits(*s);
}

/* E, whose values range_of has bounded, in i32. */
static Expr *in_i32(ExprPool *p, Expr *e)
{
	if (e->kind == EX_CONST)
		return ex_int(p, CT_I32, e->i);
	if (e->kind != EX_INST)
		return ex_cvt(p, CT_I32, e);
	return ex_op2(p, e->op.inst, in_i32(p, e->op.arg[0]), in_i32(p, e->op.arg[1]));
}

/* E, if it is a comparison or a conversion of positions, in i32. */
static Expr *narrowed(Ctx *c, ExprPool *p, Expr *e)
{
	PositionRange s;

	if (ex_is_op(e, IN_cvt) && ctype_is_float(e->ct) && range_of(c, e->op.arg[0], 0, &s))
		return ex_cvt(p, e->ct, in_i32(p, e->op.arg[0]));
	if (e->kind == EX_INST && inst_compares(e->op.inst) && range_of(c, e->op.arg[0], 0, &s) &&
	    range_of(c, e->op.arg[1], 0, &s))
		return ex_op2(p, e->op.inst, in_i32(p, e->op.arg[0]), in_i32(p, e->op.arg[1]));
	return e;
}

void fn_narrow(const Schedule *s, LNode *n)
{
	const Kernel *k = s->kernel;

	for (; n; n = n->next) {
		if (n->kind == LN_STORE || n->kind == LN_UPDATE || n->kind == LN_REDUCE)
			for (int i = 0; i < (n->kind == LN_STORE ? 1 : n->store.nout); i++)
				EX_MAP (x, k->pool, &n->store.val[i])
					x = narrowed(k->ctx, k->pool, x);
		fn_narrow(s, n->body);
	}
}
