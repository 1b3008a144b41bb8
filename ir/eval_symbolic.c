/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statements over symbolic integers: what shape arithmetic (Shape, Gather, Concat, Mul ...) means as dims.
 *
 * A value is an integer dim, or a float that is either a constant or dim/den with a constant den. The
 * latter covers the ways exporters scale a size through floats (cvt, mul by 0.5, floor, cvt back); it
 * takes the float arithmetic as exact, which holds for sizes below 2^24 in f32. Everything else gives up:
 * the caller then has a value that only run time knows.
 */
#include "ir/eval.h"

#include <assert.h>
#include <limits.h>
#include <math.h>

enum { POINTS_MAX = 1 << 16, ELEMS_MAX = 4096 };

typedef enum SymKind { SYM_FAIL, SYM_INT, SYM_RATIO, SYM_FLOAT } SymKind;

typedef struct SymVal {
	SymKind kind;
	Dim *d;      /* SYM_INT; numerator of SYM_RATIO */
	int64_t den; /* SYM_RATIO: > 0 */
	double f;    /* SYM_FLOAT */
} SymVal;

typedef struct SymEval {
	Kernel *k;
	Ctx *c;
	Arena *a;
	Dim *const *const *in;
	SymVal **bufs;      /* by Buf.id: row-major elements; null for inputs and tables */
	int64_t *it;        /* by Iter.id: the current point */
	SymVal *memo;       /* by Expr.id */
	int *stamp, now;    /* memo is of the current point where stamp == now */
	int work;
} SymEval;

static const SymVal fail = {SYM_FAIL, NULL, 0, 0};

static SymVal val_dim(Dim *d)
{
	return d ? (SymVal){SYM_INT, d, 1, 0} : fail;
}

static SymVal val_int(SymEval *s, int64_t v)
{
	return val_dim(dim_const(s->c, v));
}

static SymVal val_float(double f)
{
	return (SymVal){SYM_FLOAT, NULL, 1, f};
}

static SymVal val_ratio(SymEval *s, Dim *num, int64_t den)
{
	Dim *q;
	int64_t v;

	if (dim_is_const(num, &v))
		return val_float((double)v / (double)den);
	if (dim_divides(s->c, num, dim_const(s->c, den), &q))
		return (SymVal){SYM_RATIO, q, 1, 0};
	return (SymVal){SYM_RATIO, num, den, 0};
}

static bool is_const(SymVal v, int64_t *out)
{
	return v.kind == SYM_INT && dim_is_const(v.d, out);
}

/* A constant dyadic float as p/q with small q. */
static bool as_ratio(SymEval *s, SymVal v, Dim **num, int64_t *den)
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
	*num = dim_const(s->c, (int64_t)(v.f * (double)q));
	*den = q;
	return true;
}

/* ---- Instructions ---- */

static bool provably_ge0(SymEval *s, Dim *d)
{
	return dim_prove_le(s->c, dim_const(s->c, 0), d);
}

static SymVal div_trunc(SymEval *s, Dim *a, Dim *b, bool want_rem)
{
	int64_t x, y;
	Dim *q;

	if (dim_is_const(a, &x) && dim_is_const(b, &y)) {
		if (y == 0)
			return want_rem ? fail : val_int(s, 0);
		if (y == -1)
			return want_rem ? val_int(s, 0) : val_dim(dim_sub(s->c, dim_const(s->c, 0), a));
		return val_int(s, want_rem ? x % y : x / y);
	}
	/* By a size that is 0 at run time: 0, as a floor term has it. */
	if (!provably_ge0(s, b))
		return fail;
	if (dim_divides(s->c, a, b, &q))
		return want_rem ? val_int(s, 0) : val_dim(q);
	if (!provably_ge0(s, a))
		return fail;
	return val_dim(want_rem ? dim_mod(s->c, a, b) : dim_floordiv(s->c, a, b));
}

static SymVal divisor_known(SymEval *s, Dim *a, Dim *b, Dim *(*op)(Ctx *, Dim *, Dim *))
{
	int64_t y;

	if (dim_is_const(b, &y) ? y == 0 : !provably_ge0(s, b))
		return fail;
	return val_dim(op(s->c, a, b));
}

static SymVal not_val(SymEval *s, SymVal v)
{
	return val_dim(dim_sub(s->c, dim_const(s->c, 1), v.d));
}

static SymVal bit_op(SymEval *s, Inst i, CType t, Dim *a, Dim *b)
{
	int64_t x, y;

	if (dim_is_const(a, &x) && dim_is_const(b, &y))
		return val_int(s, i == IN_and ? x & y : i == IN_or ? x | y : x ^ y);
	if (t != CT_BOOL)
		return fail;
	switch (i) {
	case IN_and: return val_dim(dim_mul(s->c, a, b));
	case IN_or: return val_dim(dim_max(s->c, a, b));
	default: return not_val(s, val_dim(dim_eq(s->c, a, b)));
	}
}

static SymVal wrap_index(SymEval *s, Dim *i, Dim *n)
{
	int64_t x, y;
	Dim *zero = dim_const(s->c, 0);

	if (dim_is_const(i, &x) && dim_is_const(n, &y) && (x >= y || x < -y))
		return fail;
	if (provably_ge0(s, i))
		return dim_prove_lt(s->c, i, n) ? val_dim(i) : fail;
	if (dim_prove_lt(s->c, i, zero) && dim_prove_le(s->c, dim_sub(s->c, zero, n), i))
		return val_dim(dim_add(s->c, i, n));
	return fail;
}

static SymVal abs_int(SymEval *s, Dim *a)
{
	Dim *m = dim_sub(s->c, dim_const(s->c, 0), a);

	return val_dim(provably_ge0(s, a) ? a : dim_max(s->c, a, m));
}

static SymVal int_inst1(SymEval *s, const Expr *e, Dim *a)
{
	int64_t x;

	switch (e->op.inst) {
	case IN_neg: return val_dim(dim_sub(s->c, dim_const(s->c, 0), a));
	case IN_abs: return abs_int(s, a);
	case IN_isnan: return val_int(s, 0);
	case IN_not:
		if (e->ct == CT_BOOL)
			return not_val(s, val_dim(a));
		return dim_is_const(a, &x) ? val_int(s, ~x) : fail;
	default: return fail;
	}
}

static SymVal int_inst2(SymEval *s, const Expr *e, Dim *a, Dim *b)
{
	Ctx *c = s->c;

	switch (e->op.inst) {
	case IN_add: return val_dim(dim_add(c, a, b));
	case IN_sub: return val_dim(dim_sub(c, a, b));
	case IN_mul: return val_dim(dim_mul(c, a, b));
	case IN_div: return div_trunc(s, a, b, false);
	case IN_rem: return div_trunc(s, a, b, true);
	case IN_floordiv: return divisor_known(s, a, b, dim_floordiv);
	case IN_mod: return divisor_known(s, a, b, dim_mod);
	case IN_min: return val_dim(dim_min(c, a, b));
	case IN_max: return val_dim(dim_max(c, a, b));
	case IN_eq: return val_dim(dim_eq(c, a, b));
	case IN_ne: return not_val(s, val_dim(dim_eq(c, a, b)));
	case IN_le: return val_dim(dim_le(c, a, b));
	case IN_ge: return val_dim(dim_le(c, b, a));
	case IN_lt: return not_val(s, val_dim(dim_le(c, b, a)));
	case IN_gt: return not_val(s, val_dim(dim_le(c, a, b)));
	case IN_and:
	case IN_or:
	case IN_xor: return bit_op(s, e->op.inst, e->ct, a, b);
	case IN_index: return wrap_index(s, a, b);
	default: return fail;
	}
}

/* Rounds a float to a whole number: MODE is one of floor, ceil, trunc, rint. */
static SymVal whole(SymEval *s, Inst mode, SymVal v)
{
	Dim *den;

	if (v.kind == SYM_FLOAT)
		return val_float(mode == IN_floor ? floor(v.f) : mode == IN_ceil ? ceil(v.f) :
				 mode == IN_trunc ? trunc(v.f) : rint(v.f));
	if (v.den == 1)
		return v;
	den = dim_const(s->c, v.den);
	if (mode == IN_trunc && provably_ge0(s, v.d))
		mode = IN_floor;
	if (mode == IN_floor)
		return (SymVal){SYM_RATIO, dim_floordiv(s->c, v.d, den), 1, 0};
	if (mode == IN_ceil)
		return (SymVal){SYM_RATIO, dim_ceildiv(s->c, v.d, den), 1, 0};
	return fail;
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

static SymVal ratio_inst2(SymEval *s, const Expr *e, SymVal a, SymVal b)
{
	Dim *n1, *n2, *x, *y;
	int64_t d1, d2, den, v;
	Ctx *c = s->c;

	if (!as_ratio(s, a, &n1, &d1) || !as_ratio(s, b, &n2, &d2))
		return fail;
	if (d1 > INT_MAX || d2 > INT_MAX)
		return fail;
	den = d1 * d2;
	x = dim_mul(c, n1, dim_const(c, d2));
	y = dim_mul(c, n2, dim_const(c, d1));
	switch (e->op.inst) {
	case IN_add: return val_ratio(s, dim_add(c, x, y), den);
	case IN_sub: return val_ratio(s, dim_sub(c, x, y), den);
	case IN_mul: return val_ratio(s, dim_mul(c, n1, n2), den);
	case IN_div:
		if (!dim_is_const(y, &v) || v <= 0 || v > INT_MAX)
			return fail;
		return val_ratio(s, x, v);
	case IN_min: return val_ratio(s, dim_min(c, x, y), den);
	case IN_max: return val_ratio(s, dim_max(c, x, y), den);
	case IN_eq: case IN_ne: case IN_lt: case IN_le: case IN_gt: case IN_ge:
		return int_inst2(s, e, x, y);
	default: return fail;
	}
}

static SymVal float_inst2(SymEval *s, const Expr *e, SymVal a, SymVal b)
{
	bool test = inst_info[e->op.inst].rule == RULE_CMP;

	if (a.kind != SYM_FLOAT || b.kind != SYM_FLOAT)
		return ratio_inst2(s, e, a, b);
	if (test)
		return val_int(s, float_test(e->op.inst, a.f, b.f));
	switch (e->op.inst) {
	case IN_add: case IN_sub: case IN_mul: case IN_div: case IN_min: case IN_max: {
		double r = float_arith(e->op.inst, a.f, b.f);

		return val_float(e->ct == CT_F32 ? (double)(float)r : r);
	}
	default: return fail;
	}
}

static SymVal float_inst1(SymEval *s, const Expr *e, SymVal a)
{
	switch (e->op.inst) {
	case IN_floor: case IN_ceil: case IN_trunc: case IN_rint:
		return whole(s, e->op.inst, a);
	case IN_neg:
		if (a.kind == SYM_FLOAT)
			return val_float(-a.f);
		return (SymVal){SYM_RATIO, dim_sub(s->c, dim_const(s->c, 0), a.d), a.den, 0};
	case IN_abs: return a.kind == SYM_FLOAT ? val_float(fabs(a.f)) : provably_ge0(s, a.d) ? a : fail;
	case IN_isnan: return a.kind == SYM_FLOAT ? val_int(s, isnan(a.f)) : val_int(s, 0);
	default: return fail;
	}
}

/* An integer constant as type T holds it, saturating as dl_cvt does between integers. */
static SymVal int_to(SymEval *s, CType t, Dim *d, bool saturate)
{
	int64_t v;

	if (t == CT_BOOL)
		return not_val(s, val_dim(dim_eq(s->c, d, dim_const(s->c, 0))));
	if (!dim_is_const(d, &v) || t == CT_I64)
		return val_dim(d);
	if (t == CT_I32 && (v < INT32_MIN || v > INT32_MAX))
		return saturate ? val_int(s, v < 0 ? INT32_MIN : INT32_MAX) : fail;
	if (t == CT_U32 && (v < 0 || v > UINT32_MAX))
		return saturate ? val_int(s, v < 0 ? 0 : UINT32_MAX) : fail;
	return t == CT_U64 && v < 0 ? fail : val_dim(d);
}

static SymVal convert(SymEval *s, const Expr *e, SymVal a)
{
	CType from = e->op.arg[0]->ct;

	if (!ctype_is_float(from)) {
		if (!ctype_is_float(e->ct))
			return int_to(s, e->ct, a.d, false);
		return val_ratio(s, a.d, 1);
	}
	if (ctype_is_float(e->ct)) {
		if (a.kind == SYM_FLOAT && e->ct == CT_F32)
			a.f = (double)(float)a.f;
		return a;
	}
	if (e->ct == CT_BOOL && a.kind == SYM_FLOAT)
		return val_int(s, a.f != 0);
	a = whole(s, IN_trunc, a);
	if (a.kind == SYM_RATIO)
		return int_to(s, e->ct, a.d, true);
	if (a.kind != SYM_FLOAT)
		return fail;
	if (isnan(a.f))
		return val_int(s, 0);
	return fabs(a.f) < 0x1p62 ? int_to(s, e->ct, dim_const(s->c, (int64_t)a.f), true) : fail;
}

/* Rounding to an element type: what is known to fit stays. */
static SymVal round_to(SymEval *s, const Expr *e, SymVal a)
{
	int64_t v;

	if (a.kind == SYM_FLOAT)
		return e->ct == CT_F32 ? val_float((double)dtype_round_f32(e->op.dtype, (float)a.f,
								     e->op.inst == IN_roundsat)) : fail;
	if (a.kind == SYM_INT && dtype_is_int(e->op.dtype)) {
		int bits = dtype_info[e->op.dtype].bits;
		bool sign = dtype_is_signed(e->op.dtype);
		int64_t lo = sign ? -((int64_t)1 << (bits - 1)) : 0;
		int64_t hi = sign ? -(lo + 1) : ((int64_t)1 << (bits - 1)) * 2 - 1;

		if (bits >= 64 || (is_const(a, &v) && v >= lo && v <= hi))
			return a;
		(void)s;
	}
	return fail;
}

/* ---- Expressions ---- */

static SymVal eval(SymEval *s, const Expr *e);

static bool flat_index(SymEval *s, const Buf *b, Expr *const *idx, int n, int64_t *out)
{
	int64_t at = 0;

	if (n != b->rank && n != 1)
		return false;
	for (int i = 0; i < n; i++) {
		int64_t v, extent = 0;

		if (!is_const(eval(s, idx[i]), &v))
			return false;
		if (n == b->rank && (!dim_is_const(b->dims[i], &extent) || v >= extent))
			return false;
		if (v < 0)
			return false;
		at = at * extent + v;
	}
	*out = at;
	return true;
}

static SymVal load(SymEval *s, const Expr *e)
{
	const Buf *b = e->load.buf;
	int64_t at;
	Dim *d;

	if (!flat_index(s, b, e->load.idx, e->load.nidx, &at))
		return fail;
	if (b->data && ctype_is_float(e->ct))
		return val_float(dtype_load_f64(b->dtype, b->data, at));
	if (b->data)
		return val_int(s, dtype_load_i64(b->dtype, b->data, at));
	if (b->kind != BUF_IN)
		return s->bufs[b->id] ? s->bufs[b->id][at] : fail;
	d = s->in && s->in[b->param] ? s->in[b->param][at] : NULL;
	if (!d)
		return fail;
	return ctype_is_float(e->ct) ? val_ratio(s, d, 1) : val_dim(d);
}

static SymVal inst(SymEval *s, const Expr *e)
{
	SymVal a, b;
	int64_t cond;

	if (inst_is_func(e->op.inst))
		return fail;
	a = eval(s, e->op.arg[0]);
	if (a.kind == SYM_FAIL)
		return fail;
	if (e->op.inst == IN_select) {
		if (is_const(a, &cond))
			return eval(s, e->op.arg[cond ? 1 : 2]);
		b = eval(s, e->op.arg[1]);
		SymVal c = eval(s, e->op.arg[2]);
		if (b.kind != SYM_INT || c.kind != SYM_INT)
			return fail;
		return val_dim(dim_select(s->c, a.d, b.d, c.d));
	}
	if (e->op.inst == IN_cvt)
		return convert(s, e, a);
	if (inst_info[e->op.inst].rule == RULE_ROUND)
		return round_to(s, e, a);
	if (e->op.n == 1)
		return a.kind == SYM_INT ? int_inst1(s, e, a.d) : float_inst1(s, e, a);
	if (e->op.n != 2)
		return fail;
	b = eval(s, e->op.arg[1]);
	if (b.kind == SYM_FAIL)
		return fail;
	return a.kind == SYM_INT ? int_inst2(s, e, a.d, b.d) : float_inst2(s, e, a, b);
}

static SymVal eval(SymEval *s, const Expr *e)
{
	SymVal r = fail;

	if (s->stamp[e->id] == s->now)
		return s->memo[e->id];
	switch (e->kind) {
	case EX_CONST: r = ctype_is_float(e->ct) ? val_float(e->f) : val_int(s, e->i); break;
	case EX_ITER: r = val_int(s, s->it[e->iter->id]); break;
	case EX_DIM: r = val_dim(e->dim); break;
	case EX_LOAD: r = load(s, e); break;
	case EX_INST: r = inst(s, e); break;
	case EX_PARAM: break;
	}
	if (e->ct == CT_U64 && e->kind == EX_CONST && e->i < 0)
		r = fail;
	s->stamp[e->id] = s->now;
	s->memo[e->id] = r;
	return r;
}

/* ---- Statements ---- */

static SymVal combine(SymEval *s, const Stmt *st, SymVal a, SymVal b)
{
	static const Inst by_monoid[MONOID_COUNT] = {
		[MONOID_sum] = IN_add, [MONOID_prod] = IN_mul, [MONOID_max] = IN_max,
		[MONOID_min] = IN_min, [MONOID_or] = IN_or, [MONOID_and] = IN_and
	};
	static const Inst none; /* IN_neg: combines nothing */
	Expr e = {.kind = EX_INST, .ct = st->val[0]->ct};

	e.op.inst = by_monoid[st->red];
	e.op.n = 2;
	if (e.op.inst == none || a.kind == SYM_FAIL || b.kind == SYM_FAIL)
		return fail;
	return a.kind == SYM_INT ? int_inst2(s, &e, a.d, b.d) : float_inst2(s, &e, a, b);
}

static void put(SymEval *s, const Stmt *st, SymVal v)
{
	int64_t at;

	if (flat_index(s, st->out[0], st->widx, st->nwidx, &at))
		s->bufs[st->out[0]->id][at] = v;
	else
		s->work = POINTS_MAX; /* the place is unknown, so everything is */
}

/* Steps the point of iterators [from, to) of ST; false after the last. */
static bool step(SymEval *s, const Stmt *st, int from, int to)
{
	s->now++;
	for (int i = to - 1; i >= from; i--) {
		int64_t n;

		if (dim_is_const(st->iter[i]->extent, &n) && ++s->it[st->iter[i]->id] < n)
			return true;
		s->it[st->iter[i]->id] = 0;
	}
	return false;
}

/* The points of iterators [from, to), or -1 where not constant or too many. */
static int64_t points(const Stmt *st, int from, int to)
{
	int64_t total = 1, n;

	for (int i = from; i < to; i++) {
		if (!dim_is_const(st->iter[i]->extent, &n) || n < 0 || n > POINTS_MAX)
			return -1;
		total *= n;
		if (total > POINTS_MAX)
			return -1;
	}
	return total;
}

static bool guarded(SymEval *s, const Stmt *st, bool *holds)
{
	int64_t g = 1;

	if (st->guard && !is_const(eval(s, st->guard), &g))
		return false;
	*holds = g != 0;
	return true;
}

/* One band point: its map, or its whole reduction. */
static bool run_point(SymEval *s, const Stmt *st, int64_t nred)
{
	SymVal state;
	int64_t at;
	bool holds;

	if (st->red == MONOID_NONE) {
		if (!guarded(s, st, &holds))
			return false;
		if (holds)
			put(s, st, eval(s, st->val[0]));
		return true;
	}
	if (!st->update)
		state = eval(s, monoid_identity(s->k->pool, st->red, 0, st->val[0]->ct));
	else if (flat_index(s, st->out[0], st->widx, st->nwidx, &at))
		state = s->bufs[st->out[0]->id][at];
	else
		return false;
	for (int64_t r = 0; r < nred; r++) {
		if (!guarded(s, st, &holds))
			return false;
		if (holds)
			state = combine(s, st, state, eval(s, st->val[0]));
		if (st->scan)
			put(s, st, state);
		if (r + 1 < nred)
			step(s, st, st->nband, st->niters);
	}
	s->now++;
	for (int i = st->nband; i < st->niters; i++)
		s->it[st->iter[i]->id] = 0;
	if (!st->scan)
		put(s, st, state);
	return true;
}

static bool run_stmt(SymEval *s, const Stmt *st)
{
	int64_t nband = points(st, 0, st->nband), nred = points(st, st->nband, st->niters);

	if (nband < 0 || nred < 0 || st->nout != 1)
		return false;
	if (st->red != MONOID_NONE && monoid_info[st->red].n != 1)
		return false;
	for (int i = 0; i < st->niters; i++)
		s->it[st->iter[i]->id] = 0;
	s->now++;
	for (int64_t i = 0; i < nband; i++) {
		s->work += (int)(nred + 1);
		if (s->work >= POINTS_MAX || !run_point(s, st, nred) || s->work >= POINTS_MAX)
			return false;
		step(s, st, 0, st->nband);
	}
	return true;
}

static bool make_bufs(SymEval *s)
{
	for (int i = 0; i < s->k->bufs.n; i++) {
		const Buf *b = s->k->bufs.at[i];
		int64_t total = 1, n;

		if (b->kind == BUF_IN || b->data)
			continue;
		for (int d = 0; d < b->rank; d++) {
			if (!dim_is_const(b->dims[d], &n) || n < 0 || n > ELEMS_MAX)
				return false;
			total *= n;
			if (total > ELEMS_MAX)
				return false;
		}
		s->bufs[i] = NEW_ARRAY(s->a, total, SymVal);
	}
	return true;
}

/* What the out buffer holds, as dims. */
static bool read_out(SymEval *s, const Buf *b, Dim **out, int n)
{
	int64_t total = 1, v;

	for (int d = 0; d < b->rank; d++)
		total *= dim_is_const(b->dims[d], &v) ? v : 0;
	if (total != n)
		return false;
	for (int i = 0; i < n; i++) {
		SymVal e = s->bufs[b->id][i];
		int64_t c = 0;

		if (e.kind == SYM_FLOAT && e.f == floor(e.f) && fabs(e.f) < 0x1p53)
			e = val_int(s, c = (int64_t)e.f);
		if (e.kind == SYM_FAIL || e.kind == SYM_FLOAT || e.den != 1)
			return false;
		out[i] = e.d;
	}
	return true;
}

/* Identities of the monoids are made now: the memo is as large as the pool. */
static void make_identities(Kernel *k)
{
	for (int i = 0; i < k->stmts.n; i++) {
		const Stmt *st = k->stmts.at[i];

		if (st->red != MONOID_NONE && !st->update)
			monoid_identity(k->pool, st->red, 0, st->val[0]->ct);
	}
}

bool eval_symbolic(Kernel *k, Dim *const *const *in, Dim **out, int n)
{
	SymEval s = {.k = k, .c = k->ctx, .a = arena_new(), .in = in, .now = 1};
	const Buf *result = NULL;
	bool ok = true;

	make_identities(k);
	s.bufs = NEW_ARRAY(s.a, k->bufs.n, SymVal *);
	s.it = NEW_ARRAY(s.a, k->iters.n, int64_t);
	s.memo = NEW_ARRAY(s.a, expr_count(k->pool), SymVal);
	s.stamp = NEW_ARRAY(s.a, expr_count(k->pool), int);
	for (int i = 0; i < k->bufs.n; i++)
		if (k->bufs.at[i]->kind == BUF_OUT) {
			ok &= !result;
			result = k->bufs.at[i];
		}
	ok = ok && result && make_bufs(&s);
	for (int i = 0; ok && i < k->stmts.n; i++)
		ok = run_stmt(&s, k->stmts.at[i]);
	ok = ok && read_out(&s, result, out, n);
	arena_free(s.a);
	return ok;
}
