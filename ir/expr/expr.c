/* SPDX-License-Identifier: Apache-2.0 */
/* Expressions: the hash-consing pool and constructors. */
#include "ir/expr/expr_impl.h"

#include "ir/kernel/kernel.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const InstInfo inst_info[INST_COUNT] = {
#define INST(name, n, rule, c) \
	[IN_##name] = {#name, n, RULE_##rule, c, NULL, NULL, CT_NONE, {CT_NONE}},
#include "ir/expr/insts.def"
#undef INST
#define FUNC(name, n, f32, f64) \
	[FN_##name] = {#name, n, RULE_FUNC, NULL, f32, f64, CT_NONE, {CT_NONE}},
#include "ir/expr/funcs.def"
#undef FUNC
#define ROUTINE(name, result, n, a, b, c)               \
	[RT_##name] = {#name, n,    RULE_ROUTINE, NULL, \
		       NULL,  NULL, CT_##result,  {CT_##a, CT_##b, CT_##c}},
#include "ir/expr/routines.def"
#undef ROUTINE
};

/* A shorter expansion where |x| <= limit; 0: there is none. */
static const struct {
	float limit;
	const char *f32;
} near_expansion[INST_COUNT] = {
#define FUNC(name, n, f32, f64)
#define NEAR(name, limit, f32) [FN_##name] = {limit, f32},
#include "ir/expr/funcs.def"
#undef FUNC
};

Inst inst_by_name(const char *name, size_t n)
{
	for (int i = 0; i < INST_COUNT; i++)
		if (strlen(inst_info[i].name) == n && !memcmp(inst_info[i].name, name, n))
			return (Inst)i;
	return INST_COUNT;
}

/* ---- The pool ---- */

ExprPool *expr_pool_new(Ctx *c, Arena *a)
{
	ExprPool *p = NEW(a, ExprPool);

	p->ctx = c;
	p->arena = a;
	p->nslots = 64;
	p->slot = NEW_ARRAY(a, p->nslots, Expr *);
	return p;
}

Ctx *expr_ctx(ExprPool *p)
{
	return p->ctx;
}

int expr_count(const ExprPool *p)
{
	return p->n;
}

static uint64_t hash_expr(const Expr *e)
{
	uint64_t h = hash_mix((uint64_t)e->kind << 8 | (uint64_t)e->ct, HASH_SEED), bits;

	switch (e->kind) {
	case EX_CONST: memcpy(&bits, &e->i, sizeof bits); return hash_mix(h, bits);
	case EX_ITER: return hash_mix(h, (uintptr_t)e->iter);
	case EX_DIM: return hash_mix(h, (uintptr_t)e->dim);
	case EX_PARAM: return hash_mix(h, (uint64_t)e->param);
	case EX_LOAD:
		h = hash_mix(h, (uintptr_t)e->load.buf);
		for (int i = 0; i < e->load.nidx; i++)
			h = hash_mix(h, (uintptr_t)e->load.idx[i]);
		return h;
	case EX_INST:
		h = hash_mix(h, (uint64_t)e->op.inst << 8 | (uint64_t)e->op.dtype);
		for (int i = 0; i < e->op.n; i++)
			h = hash_mix(h, (uintptr_t)e->op.arg[i]);
		return h;
	}
	return h;
}

static bool same_expr(const Expr *a, const Expr *b)
{
	if (a->kind != b->kind || a->ct != b->ct)
		return false;
	switch (a->kind) {
	case EX_CONST: return !memcmp(&a->i, &b->i, sizeof a->i);
	case EX_ITER: return a->iter == b->iter;
	case EX_DIM: return a->dim == b->dim;
	case EX_PARAM: return a->param == b->param;
	case EX_LOAD:
		return a->load.buf == b->load.buf && a->load.nidx == b->load.nidx &&
		       !memcmp(a->load.idx, b->load.idx,
			       (size_t)a->load.nidx * sizeof *a->load.idx);
	case EX_INST:
		return a->op.inst == b->op.inst && a->op.dtype == b->op.dtype &&
		       a->op.n == b->op.n &&
		       !memcmp(a->op.arg, b->op.arg, (size_t)a->op.n * sizeof *a->op.arg);
	}
	return false;
}

static void pool_grow(ExprPool *p)
{
	int n = p->nslots * 2;
	Expr **slot = NEW_ARRAY(p->arena, n, Expr *);

	for (int i = 0; i < p->nslots; i++) {
		Expr *e = p->slot[i];
		uint64_t h;

		if (!e)
			continue;
		for (h = hash_expr(e); slot[h & (uint64_t)(n - 1)]; h++)
			;
		slot[h & (uint64_t)(n - 1)] = e;
	}
	p->slot = slot;
	p->nslots = n;
}

/* The largest id of an iterator in E; -1 if E has none. */
static int inner_of(const Expr *e)
{
	Expr *const *arg;
	int inner = e->kind == EX_ITER ? e->id : -1;

	for (int i = ex_operands(e, &arg); i-- > 0;)
		inner = arg[i]->inner > inner ? arg[i]->inner : inner;
	return inner;
}

/* The pool's copy of KEY. */
static Expr *intern_expr(ExprPool *p, const Expr *key)
{
	uint64_t h = hash_expr(key), mask;
	Expr *e;

	if (p->n * 2 >= p->nslots)
		pool_grow(p);
	mask = (uint64_t)(p->nslots - 1);
	for (; (e = p->slot[h & mask]); h++)
		if (same_expr(e, key))
			return e;
	e = arena_copy(p->arena, key, sizeof *key);
	e->id = p->n++;
	e->nest = expr_nest(e);
	e->inner = inner_of(e);
	if (e->kind == EX_LOAD)
		e->load.idx = arena_copy(p->arena, key->load.idx,
					 (size_t)key->load.nidx * sizeof *key->load.idx);
	p->slot[h & mask] = e;
	return e;
}

/* ---- Leaves ---- */

int64_t int_wrap(CType t, int64_t v)
{
	switch (t) {
	case CT_BOOL: return v != 0;
	case CT_I32: return (int32_t)(uint32_t)(uint64_t)v;
	case CT_U32: return (uint32_t)(uint64_t)v;
	default: return v;
	}
}

Expr *ex_int(ExprPool *p, CType t, int64_t v)
{
	Expr key = {.kind = EX_CONST, .ct = t};

	assert(t != CT_NONE && !ctype_is_float(t));
	key.i = int_wrap(t, v);
	return intern_expr(p, &key);
}

Expr *ex_float(ExprPool *p, CType t, double v)
{
	Expr key = {.kind = EX_CONST, .ct = t};

	assert(ctype_is_float(t));
	if (isnan(v))
		v = (double)NAN;
	key.f = t == CT_F32 ? (double)(float)v : v;
	return intern_expr(p, &key);
}

Expr *ex_num(ExprPool *p, CType t, double v)
{
	static const double last[CT_COUNT] = {[CT_I32] = INT32_MAX, [CT_U32] = UINT32_MAX};

	if (ctype_is_float(t))
		return ex_float(p, t, v);
	if (t == CT_BOOL)
		return ex_int(p, t, v != 0);
	if (isnan(v))
		return ex_int(p, t, 0);
	if (t == CT_I32 || t == CT_U32)
		v = fmin(fmax(v, t == CT_I32 ? INT32_MIN : 0), last[t]);
	if (t == CT_U64)
		return ex_int(p, t, v >= 0x1p64 ? -1 : v < 0 ? 0 : (int64_t)(uint64_t)v);
	if (v < -0x1p63)
		return ex_int(p, t, INT64_MIN);
	return ex_int(p, t, v >= 0x1p63 ? INT64_MAX : (int64_t)v);
}

Expr *ex_iter(ExprPool *p, Iter *i)
{
	Expr key = {.kind = EX_ITER, .ct = CT_I64, .iter = i};

	return intern_expr(p, &key);
}

Expr *ex_dim(ExprPool *p, Dim *d)
{
	Expr key = {.kind = EX_DIM, .ct = CT_I64, .dim = d};
	int64_t v;

	return dim_is_const(d, &v) ? ex_int(p, CT_I64, v) : intern_expr(p, &key);
}

Dim *ex_as_dim(Ctx *c, const Expr *e)
{
	return e->kind == EX_DIM ? e->dim : e->kind == EX_CONST ? dim_const(c, e->i) : NULL;
}

Expr *ex_param(ExprPool *p, CType t, int k)
{
	Expr key = {.kind = EX_PARAM, .ct = t, .param = k};

	return intern_expr(p, &key);
}

Expr *ex_load(ExprPool *p, Buf *b, Expr *const *idx, int n)
{
	Expr key = {.kind = EX_LOAD, .ct = dtype_ctype(b->dtype)};
	Expr *at[MAX_RANK * 2];

	assert((n == b->rank || n == 1) && n <= MAX_RANK * 2);
	for (int i = 0; i < n; i++) {
		assert(idx[i]->ct == CT_I64);
		at[i] = idx[i];
	}
	key.load.buf = b;
	key.load.idx = at;
	key.load.nidx = n;
	return intern_expr(p, &key);
}

/* ---- Instructions ---- */

static int cmp_int(int64_t a, int64_t b)
{
	return (a > b) - (a < b);
}

/* Of the members that A and B, of one kind, have besides their operands. */
static int cmp_own(const Expr *a, const Expr *b)
{
	int c;

	switch (a->kind) {
	case EX_CONST:
		return ctype_is_float(a->ct) ? memcmp(&a->f, &b->f, sizeof a->f)
					     : cmp_int(a->i, b->i);
	case EX_ITER: return cmp_int(a->id, b->id);
	case EX_DIM: return dim_cmp(a->dim, b->dim);
	case EX_PARAM: return cmp_int(a->param, b->param);
	case EX_LOAD:
		/* a text numbers the buffers in another order, by kind, but keeps their names */
		c = strcmp(a->load.buf->name, b->load.buf->name);
		c = c ? c : cmp_int(a->load.buf->id, b->load.buf->id);
		return c ? c : cmp_int(a->load.nidx, b->load.nidx);
	case EX_INST:
		c = cmp_int(a->op.inst, b->op.inst);
		c = c ? c : cmp_int(a->op.dtype, b->op.dtype);
		return c ? c : cmp_int(a->op.n, b->op.n);
	}
	return 0;
}

int expr_cmp(const Expr *a, const Expr *b)
{
	Expr *const *x, *const *y;
	int n, c;

	if (a == b)
		return 0;
	c = cmp_int(a->inner, b->inner);
	c = c ? c : cmp_int(b->kind == EX_ITER, a->kind == EX_ITER);
	c = c ? c : cmp_int(a->kind, b->kind);
	if (c)
		return c;
	c = cmp_int(a->ct, b->ct);
	c = c ? c : cmp_own(a, b);
	n = ex_operands(a, &x);
	ex_operands(b, &y);
	/* equal operands are one expression, so only one pair is entered */
	for (int i = 0; i < n && !c; i++)
		c = expr_cmp(x[i], y[i]);
	return c;
}

Expr *ex_raw(ExprPool *p, Inst i, CType ct, DType dtype, Expr *const *arg, int n)
{
	Expr key = {.kind = EX_INST, .ct = ct};

	key.op.inst = i;
	key.op.dtype = dtype;
	key.op.n = n;
	for (int k = 0; k < n; k++)
		key.op.arg[k] = arg[k];
	return intern_expr(p, &key);
}

static Expr *make(ExprPool *p, Inst i, CType ct, DType dtype, Expr *const *arg, int n)
{
	Expr *e = ex_fold(p, i, ct, dtype, arg, n);

	return e ? e : ex_raw(p, i, ct, dtype, arg, n);
}

static CType routine_type(Inst i, Expr *const *arg, int n)
{
	for (int k = 0; k < n; k++)
		if (arg[k]->ct != inst_info[i].arg[k])
			return CT_NONE;
	return inst_info[i].result;
}

/* The result type of I for these operand types; CT_NONE if its rule does not accept them. */
static CType rule_type(Inst i, Expr *const *arg, int n)
{
	const InstRule rule = inst_info[i].rule;
	CType t = arg[rule == RULE_SELECT]->ct;
	bool is_float = ctype_is_float(t);

	if (rule == RULE_ROUTINE)
		return routine_type(i, arg, n);

	for (int k = rule == RULE_SELECT; k < n; k++)
		if (arg[k]->ct != t)
			return CT_NONE;
	switch (rule) {
	case RULE_ARITH: return t == CT_BOOL ? CT_NONE : t;
	case RULE_FLOAT:
	case RULE_FUNC: return is_float ? t : CT_NONE;
	case RULE_INT: return is_float || t == CT_BOOL ? CT_NONE : t;
	case RULE_CMP:
	case RULE_TEST: return CT_BOOL;
	case RULE_BITS: return is_float ? CT_NONE : t;
	case RULE_SELECT: return arg[0]->ct == CT_BOOL ? t : CT_NONE;
	case RULE_INDEX: return t == CT_I64 ? t : CT_NONE;
	case RULE_CVT:
	case RULE_BITCAST:
	case RULE_ROUND:
	case RULE_ROUTINE: break;
	}
	return CT_NONE;
}

/* min of bools is `and`, max is `or`. */
static Inst of_bools(Inst i, const Expr *a)
{
	if (a->ct == CT_BOOL && (i == IN_min || i == IN_max))
		return i == IN_min ? IN_and : IN_or;
	return i;
}

bool ex_inst_takes(Inst i, Expr *const *arg, int n)
{
	i = of_bools(i, arg[0]);
	return n == inst_info[i].nargs && rule_type(i, arg, n) != CT_NONE;
}

/* The type of *I of N operands ARG; *I becomes the instruction for bools, if they are. */
static CType resolve(Inst *i, Expr *const *arg, int n)
{
	CType t;

	*i = of_bools(*i, arg[0]);
	t = rule_type(*i, arg, n);
	assert(n == inst_info[*i].nargs && t != CT_NONE);
	return t;
}

Expr *ex_inst(ExprPool *p, Inst i, Expr *const *arg, int n)
{
	const CType t = resolve(&i, arg, n);

	return make(p, i, t, DT_NONE, arg, n);
}

Expr *ex_inst_as_is(ExprPool *p, Inst i, Expr *const *arg, int n)
{
	const CType t = resolve(&i, arg, n);

	return ex_raw(p, i, t, DT_NONE, arg, n);
}

Expr *ex_op1(ExprPool *p, Inst i, Expr *a)
{
	return ex_inst(p, i, &a, 1);
}

Expr *ex_op2(ExprPool *p, Inst i, Expr *a, Expr *b)
{
	return ex_inst(p, i, (Expr *[]){a, b}, 2);
}

Expr *ex_op3(ExprPool *p, Inst i, Expr *a, Expr *b, Expr *c)
{
	return ex_inst(p, i, (Expr *[]){a, b, c}, 3);
}

Expr *ex_cvt(ExprPool *p, CType to, Expr *a)
{
	return a->ct == to ? a : make(p, IN_cvt, to, DT_NONE, &a, 1);
}

Expr *ex_bits(ExprPool *p, CType to, Expr *a)
{
	assert(dtype_info[ctype_dtype(a->ct)].bits == dtype_info[ctype_dtype(to)].bits);
	return a->ct == to ? a : make(p, IN_bits, to, DT_NONE, &a, 1);
}

Expr *ex_round(ExprPool *p, DType t, Expr *a)
{
	assert(a->ct == dtype_ctype(t));
	return t == DT_STR || ctype_dtype(a->ct) == t ? a : make(p, IN_round, a->ct, t, &a, 1);
}

Expr *ex_roundsat(ExprPool *p, DType t, Expr *a)
{
	assert(a->ct == dtype_ctype(t));
	return t == DT_STR || ctype_dtype(a->ct) == t ? a : make(p, IN_roundsat, a->ct, t, &a, 1);
}

Expr *ex_add(ExprPool *p, Expr *a, Expr *b)
{
	return ex_op2(p, IN_add, a, b);
}

Expr *ex_sub(ExprPool *p, Expr *a, Expr *b)
{
	return ex_op2(p, IN_sub, a, b);
}

Expr *ex_mul(ExprPool *p, Expr *a, Expr *b)
{
	return ex_op2(p, IN_mul, a, b);
}

Expr *ex_and(ExprPool *p, Expr *a, Expr *b)
{
	if (!a || !b)
		return a ? a : b;
	return ex_op2(p, IN_and, a, b);
}

/* ---- Functions ---- */

float func_near_limit(Inst fn)
{
	return near_expansion[fn].limit;
}

float ex_near_limit(const Expr *e)
{
	const bool inst = e->kind == EX_INST && e->op.n == 1 && e->op.arg[0]->ct == CT_F32;

	if (inst && e->op.inst == IN_cvt && e->ct == CT_I64)
		return 0x1.fffffep30f;
	return inst && e->ct == CT_F32 ? func_near_limit(e->op.inst) : 0;
}

static Expr *func_body(ExprPool *p, Inst fn, FuncForm form, const char *text)
{
	Expr **at = &p->func[fn][form];
	const CType t = form == FUNC_F64 ? CT_F64 : CT_F32;
	ExprName names[] = {{"x", ex_param(p, t, 0)}, {"y", ex_param(p, t, 1)}};
	const char *err = NULL;

	if (!*at) {
		*at = ex_parse(p, text, t, names, inst_info[fn].nargs, &err);
		if (err) {
			fprintf(stderr, "ir/expr/funcs.def: %s: %s\n", inst_info[fn].name, err);
			abort();
		}
	}
	return *at;
}

Expr *ex_func_body(ExprPool *p, Inst fn, CType t)
{
	assert(inst_is_func(fn) && ctype_is_float(t));
	return t == CT_F64 ? func_body(p, fn, FUNC_F64, inst_info[fn].f64)
			   : func_body(p, fn, FUNC_F32, inst_info[fn].f32);
}

Expr *ex_func_near(ExprPool *p, Inst fn)
{
	assert(func_near_limit(fn) > 0);
	return func_body(p, fn, FUNC_NEAR, near_expansion[fn].f32);
}
