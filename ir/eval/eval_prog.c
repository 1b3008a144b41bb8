/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expressions as programs over strips: nodes in topological order, some of them lazy. A node may
 * fault if it is a load or an `index`, or depends on one. If such a node is reached only through an
 * arm of a select, or only under the guard, it is lazy: it is evaluated on demand, for the lanes
 * that take the arm. Every other node is evaluated once for the whole strip. eval_run.c runs the
 * programs.
 */
#include "ir/eval/eval_impl.h"

#include <assert.h>
#include <string.h>

/* Cache of the nodes that were made for the expressions of one body: the statement's, or a
 * function's expansion. */
typedef struct ExprMemo {
	const int *arg; /* the nodes that EX_PARAM stands for, or null */
	VEC(int) memo;  /* node + 1 by Expr.id */
} ExprMemo;

static int node_of(Prog *p, ExprMemo *sc, Expr *e);

Prog *prog_new(Arena *a, Kernel *k, const EvalOpts *o, EvalBuf *bufs, Iter *const *iter, int n)
{
	Prog *p = NEW(a, Prog);

	p->a = a;
	p->k = k;
	p->o = o;
	p->bufs = bufs;
	p->iter = iter;
	p->niters = n;
	p->guard = -1;
	p->shifted = -1;
	p->scope = NEW(a, ExprMemo);
	return p;
}

/* ---- Linear forms ---- */

static bool lin_add(Lin *to, const Lin *l, int64_t k)
{
	int64_t v;

	if (__builtin_mul_overflow(l->base, k, &v) ||
	    __builtin_add_overflow(to->base, v, &to->base))
		return false;
	for (int i = 0; i < l->n; i++) {
		int at = 0;

		while (at < to->n && to->term[at].slot != l->term[i].slot)
			at++;
		if (at == to->n)
			to->term[to->n++] = (LinTerm){l->term[i].slot, 0};
		if (__builtin_mul_overflow(l->term[i].coef, k, &v) ||
		    __builtin_add_overflow(to->term[at].coef, v, &to->term[at].coef))
			return false;
		if (!to->term[at].coef)
			to->term[at] = to->term[--to->n];
	}
	return true;
}

static int slot_of(Prog *p, const Iter *it)
{
	for (int i = 0; i < p->niters; i++)
		if (p->iter[i] == it)
			return i;
	p->bad = true;
	return 0;
}

static bool lin_of(Prog *p, const Expr *e, Lin *out)
{
	Lin a, b;

	*out = (Lin){0};
	switch (e->kind) {
	case EX_CONST: out->base = e->i; return true;
	case EX_DIM:
		if (!dim_eval(e->dim, p->o->sym, &out->base))
			p->bad = true;
		return true;
	case EX_ITER:
		out->n = 1;
		out->term[0] = (LinTerm){slot_of(p, e->iter), 1};
		return true;
	case EX_INST: break;
	default: return false;
	}
	if (e->op.inst == IN_neg)
		return lin_of(p, e->op.arg[0], &a) && lin_add(out, &a, -1);
	if (e->op.inst != IN_add && e->op.inst != IN_sub && e->op.inst != IN_mul)
		return false;
	if (!lin_of(p, e->op.arg[0], &a) || !lin_of(p, e->op.arg[1], &b))
		return false;
	if (e->op.inst == IN_mul && a.n == 0)
		return lin_add(out, &b, a.base);
	if (e->op.inst == IN_mul)
		return b.n == 0 && lin_add(out, &a, b.base);
	return lin_add(out, &a, 1) && lin_add(out, &b, e->op.inst == IN_add ? 1 : -1);
}

/* ---- Building ---- */

static int add_node(Prog *p, PNode n)
{
	vec_push(p->a, &p->nodes, n);
	return p->nodes.n - 1;
}

static int const_node(Prog *p, CType t, const void *one)
{
	PNode n = {.kind = EX_CONST, .ct = t};

	n.own = n.val = arena_alloc(p->a, STRIP * 8);
	vec_fill(t, n.own, one, STRIP);
	return add_node(p, n);
}

static int expr_const(Prog *p, const Expr *e)
{
	float f = (float)e->f;
	int32_t i = (int32_t)e->i;
	uint8_t b = e->i != 0;

	switch (e->ct) {
	case CT_F32: return const_node(p, e->ct, &f);
	case CT_F64: return const_node(p, e->ct, &e->f);
	case CT_I32:
	case CT_U32: return const_node(p, e->ct, &i);
	case CT_BOOL: return const_node(p, e->ct, &b);
	default: return const_node(p, e->ct, &e->i);
	}
}

static EvalAccess *access_new(Prog *p, ExprMemo *sc, Buf *b, Expr *const *idx, int n)
{
	EvalAccess *a = NEW(p->a, EvalAccess);
	bool flat = n != b->rank;
	int64_t stride = 1, extent;

	a->buf = b;
	a->n = n;
	a->data = b->data ? (void *)(uintptr_t)b->data : p->bufs[b->id].data;
	a->bound = b->data ? NULL : p->bufs[b->id].bound;
	a->extent = NEW_ARRAY(p->a, n + 1, int64_t);
	a->stride = NEW_ARRAY(p->a, n + 1, int64_t);
	a->lin = NEW_ARRAY(p->a, n, Lin);
	a->dim = arena_array(p->a, (size_t)n, sizeof *a->dim);
	a->idx = NEW_ARRAY(p->a, n, int);
	a->off = NEW_ARRAY(p->a, STRIP, int64_t);
	p->bad |= flat && (n != 1 || b->layout);
	for (int i = b->rank - 1; i >= 0; i--) {
		if (!dim_eval(b->dims[i], p->o->sym, &extent) || extent < 0) {
			p->bad = true;
			extent = 0;
		}
		if (!flat) {
			a->extent[i] = extent;
			a->stride[i] = stride;
		}
		if (__builtin_mul_overflow(stride, extent, &stride))
			p->bad = true;
	}
	if (flat) {
		a->extent[0] = stride;
		a->stride[0] = 1;
	}
	a->affine = true;
	for (int i = 0; i < n && a->affine; i++)
		a->affine = lin_of(p, idx[i], &a->lin[i]) &&
			    lin_add(&a->flat, &a->lin[i], a->stride[i]);
	for (int i = 0; i < n && !a->affine; i++)
		a->idx[i] = node_of(p, sc, idx[i]);
	return a;
}

static int load_node(Prog *p, ExprMemo *sc, Expr *e)
{
	PNode n = {.kind = EX_LOAD, .ct = e->ct, .faultable = true};

	n.access = access_new(p, sc, e->load.buf, e->load.idx, e->load.nidx);
	if (e->ct != dtype_ctype(e->load.buf->dtype))
		p->bad = true;
	return add_node(p, n);
}

static int func_node(Prog *p, Expr *e, const int *arg)
{
	ExprMemo sc = {.arg = arg};
	Expr *body = ex_func_body(p->k->pool, e->op.inst, e->ct);
	const int i = node_of(p, &sc, body);

	p->nodes.at[i].is_func = p->nodes.at[i].kind == EX_INST;
	p->has_funcs = p->has_funcs || p->nodes.at[i].is_func;
	return i;
}

static int inst_node(Prog *p, ExprMemo *sc, Expr *e)
{
	PNode n = {.kind = EX_INST,
		   .ct = e->ct,
		   .inst = e->op.inst,
		   .dtype = e->op.dtype,
		   .n = e->op.n};
	CType operand = e->op.arg[n.inst == IN_select ? 1 : 0]->ct;

	for (int i = 0; i < e->op.n; i++)
		n.arg[i] = node_of(p, sc, e->op.arg[i]);
	if (inst_is_func(n.inst))
		return func_node(p, e, n.arg);
	n.faultable = inst_may_fault(n.inst);
	for (int i = 0; i < e->op.n; i++)
		n.faultable |= p->nodes.at[n.arg[i]].faultable;
	if (n.inst == IN_mad && p->o->mad_fused)
		n.inst = IN_fma;
	switch (inst_info[n.inst].rule) {
	case RULE_INDEX:
	case RULE_ROUTINE:
	case RULE_ROUND: return add_node(p, n);
	case RULE_CVT: n.fn = vec_cvt(operand, e->ct); break;
	case RULE_BITCAST: n.fn = vec_bits(operand, e->ct); break;
	default: n.fn = vec_inst(n.inst, operand);
	}
	p->bad |= !n.fn;
	return add_node(p, n);
}

static int make_node(Prog *p, ExprMemo *sc, Expr *e)
{
	PNode n = {.kind = e->kind, .ct = e->ct};

	if (e->kind == EX_PARAM && sc->arg)
		return sc->arg[e->param];
	if (e->kind == EX_PARAM) {
		n.param = e->param;
		return add_node(p, n);
	}
	if (e->kind == EX_CONST)
		return expr_const(p, e);
	if (e->ct == CT_I64 && lin_of(p, e, &n.lin)) {
		if (n.lin.n == 0)
			return const_node(p, CT_I64, &n.lin.base);
		n.kind = EX_ITER;
		return add_node(p, n);
	}
	return e->kind == EX_LOAD ? load_node(p, sc, e) : inst_node(p, sc, e);
}

static int node_of(Prog *p, ExprMemo *sc, Expr *e)
{
	int made;

	while (sc->memo.n <= e->id)
		vec_push(p->a, &sc->memo, 0);
	if (sc->memo.at[e->id])
		return sc->memo.at[e->id] - 1;
	made = make_node(p, sc, e);
	sc->memo.at[e->id] = made + 1;
	return made;
}

void prog_guard(Prog *p, Expr *guard)
{
	if (guard)
		p->guard = node_of(p, p->scope, guard);
}

int prog_root(Prog *p, Expr *e)
{
	assert(p->nroots < 4);
	p->root[p->nroots] = node_of(p, p->scope, e);
	return p->nroots++;
}

void prog_write(Prog *p, Buf *b, Expr *const *idx, int n)
{
	p->write = access_new(p, p->scope, b, idx, n);
}

/* ---- Order and storage ---- */

int prog_operands(const PNode *n, int *out)
{
	if (n->kind == EX_INST) {
		memcpy(out, n->arg, sizeof n->arg);
		return n->n;
	}
	if (n->kind == EX_LOAD && !n->access->affine) {
		memcpy(out, n->access->idx, (size_t)n->access->n * sizeof *out);
		return n->access->n;
	}
	return 0;
}

static void mark_eager(Prog *p, int at)
{
	PNode *n = &p->nodes.at[at];
	int arg[MAX_RANK + 3], count;

	if (n->eager)
		return;
	n->eager = true;
	count = prog_operands(n, arg);
	for (int i = 0; i < count; i++)
		if (!(n->kind == EX_INST && n->inst == IN_select && i > 0))
			mark_eager(p, arg[i]);
}

static void share_storage(Prog *p)
{
	int n = p->nodes.n, arg[MAX_RANK + 3];
	int *last = NEW_ARRAY(p->a, n, int);
	VEC(void *) unused = {0};

	for (int i = 0; i < n; i++) {
		int count = prog_operands(&p->nodes.at[i], arg);

		for (int j = 0; j < count; j++)
			last[arg[j]] = p->nodes.at[i].eager && last[arg[j]] != n ? i : n;
		if (!p->nodes.at[i].eager)
			last[i] = n;
	}
	for (int i = 0; i < p->nroots; i++)
		last[p->root[i]] = n;
	for (int i = 0; p->write && !p->write->affine && i < p->write->n; i++)
		last[p->write->idx[i]] = n;
	if (p->guard >= 0)
		last[p->guard] = n;
	for (int i = 0; i < n; i++) {
		PNode *e = &p->nodes.at[i];
		int count = prog_operands(e, arg);

		if (e->kind == EX_CONST || e->kind == EX_PARAM)
			continue;
		e->own = unused.n && !p->keep ? unused.at[--unused.n]
					      : arena_alloc(p->a, STRIP * 8);
		e->val = e->own;
		for (int j = 0; j < count; j++) {
			void *own = p->nodes.at[arg[j]].own;

			if (last[arg[j]] != i || p->nodes.at[arg[j]].kind == EX_CONST || !own)
				continue;
			last[arg[j]] = n; /* an operand that is used twice is freed once */
			vec_push(p->a, &unused, own);
		}
	}
}

static bool is_range_test(const Prog *p, const PNode *n)
{
	return n->kind == EX_INST && n->inst >= IN_lt && n->inst <= IN_ge &&
	       p->nodes.at[n->arg[0]].kind == EX_ITER && p->nodes.at[n->arg[1]].kind == EX_CONST;
}

static void mark_range_tests(Prog *p)
{
	int arg[MAX_RANK + 3];

	for (int i = 0; i < p->nodes.n; i++)
		p->nodes.at[i].unread = p->nodes.at[i].kind == EX_ITER;
	VEC_EACH_AT (n, &p->nodes) {
		int count = prog_operands(n, arg);

		n->by_range = is_range_test(p, n);
		for (int k = 0; k < count; k++)
			p->nodes.at[arg[k]].unread &= n->by_range;
	}
	for (int i = 0; i < p->nroots; i++)
		p->nodes.at[p->root[i]].unread = false;
	for (int i = 0; p->write && !p->write->affine && i < p->write->n; i++)
		p->nodes.at[p->write->idx[i]].unread = false;
}

bool prog_end(Prog *p)
{
	if (p->bad)
		return false;
	mark_range_tests(p);
	for (int i = 0; i < p->nodes.n; i++)
		if (!p->nodes.at[i].faultable)
			mark_eager(p, i);
	if (p->guard >= 0)
		mark_eager(p, p->guard);
	for (int i = 0; i < p->nroots && p->guard < 0; i++)
		mark_eager(p, p->root[i]);
	for (int i = 0; p->guard < 0 && p->write && !p->write->affine && i < p->write->n; i++)
		mark_eager(p, p->write->idx[i]);
	share_storage(p);
	for (int i = 0; i < p->nodes.n; i++)
		if (!p->nodes.at[i].eager)
			p->nodes.at[i].done = arena_alloc(p->a, STRIP);
	p->lost = arena_alloc(p->a, STRIP);
	p->all = arena_alloc(p->a, STRIP);
	memset(p->all, 1, STRIP);
	return true;
}

void prog_param(Prog *p, int param, const void *val)
{
	for (int i = 0; i < p->nodes.n; i++)
		if (p->nodes.at[i].kind == EX_PARAM && p->nodes.at[i].param == param)
			p->nodes.at[i].val = (void *)(uintptr_t)val;
}
