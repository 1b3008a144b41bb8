/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the arithmetic and the bytes of a kernel, as dims over its symbols. */
#include "passes/kernel/work.h"

#include "passes/kernel/kernels.h"

/* The points of iterators IT. An extent that may be negative has no points where it is. */
static Dim *points(Ctx *c, Iter *const *it, int n)
{
	Dim *all = dim_const(c, 1);

	for (int i = 0; i < n; i++)
		all = dim_mul(c, all, dim_max(c, it[i]->extent, dim_const(c, 0)));
	return all;
}

/* ---- Arithmetic ---- */

typedef struct Arithmetic {
	ExprPool *scratch; /* for expansions, so that the kernel's own pool stays as it is */
	bool *seen;        /* by Expr.id of the kernel's pool; null: nodes are visited once */
	int64_t n;
} Arithmetic;

static void count_node(void *arg, Expr *e)
{
	Arithmetic *a = arg;

	if (a->seen && a->seen[e->id])
		return;
	if (a->seen)
		a->seen[e->id] = true;
	if (e->kind != EX_INST || e->ct == CT_I64)
		return;
	switch (inst_info[e->op.inst].rule) {
	case RULE_FUNC: {
		Arithmetic body = {.scratch = a->scratch};

		ex_walk(ex_func_body(a->scratch, e->op.inst, e->ct), count_node, &body);
		a->n += body.n;
		break;
	}
	case RULE_ARITH:
	case RULE_FLOAT: a->n += e->op.inst == IN_fma || e->op.inst == IN_mad ? 2 : 1; break;
	default: break;
	}
}

/* Of combining the state of S with one term. */
static int64_t count_combination(const Stmt *s, ExprPool *scratch)
{
	const int n = monoid_info[s->red].n;
	Arithmetic a = {.scratch = scratch};
	Expr *state[2], *term[2];

	for (int i = 0; i < n; i++) {
		state[i] = ex_param(scratch, s->val[i]->ct, 2 * i);
		term[i] = ex_param(scratch, s->val[i]->ct, 2 * i + 1);
	}
	for (int i = 0; i < n; i++)
		ex_walk(monoid_combine(scratch, s->red, i, state, term), count_node, &a);
	return a.n;
}

static Dim *stmt_flops(const Kernel *k, const Stmt *s, ExprPool *scratch, Arena *tmp)
{
	Arithmetic a = {.scratch = scratch, .seen = NEW_ARRAY(tmp, expr_count(k->pool) + 1, bool)};

	for (int i = 0; i < 2; i++)
		if (s->val[i])
			ex_walk_outside_loads(s->val[i], count_node, &a);
	if (s->red != MONOID_NONE)
		a.n += count_combination(s, scratch);
	return dim_mul(k->ctx, dim_const(k->ctx, a.n), points(k->ctx, s->iter, s->niters));
}

/* ---- Bytes ---- */

typedef struct Traffic {
	const Kernel *k;
	const Stmt *s;
	bool *seen;     /* by Expr.id */
	Dim **elements; /* by Buf.id: accessed so far; null: none */
} Traffic;

/* S accesses B at indices IDX: at as many elements as the iterators in IDX have points. */
static void count_access(Traffic *t, const Buf *b, Expr *const *idx, int n)
{
	Ctx *c = t->k->ctx;
	Dim *all = dim_const(c, 1);

	if (b->kind == BUF_TEMP)
		return;
	for (int i = 0; i < t->s->niters; i++)
		for (int d = 0; d < n; d++)
			if (expr_has_iter(idx[d], t->s->iter[i])) {
				all = dim_mul(c, all, points(c, &t->s->iter[i], 1));
				break;
			}
	t->elements[b->id] = t->elements[b->id] ? dim_add(c, t->elements[b->id], all) : all;
}

static void count_load(void *arg, Expr *e)
{
	Traffic *t = arg;

	if (e->kind != EX_LOAD || t->seen[e->id])
		return;
	t->seen[e->id] = true;
	count_access(t, e->load.buf, e->load.idx, e->load.nidx);
}

/* The bytes of ELEMENTS of B, or of all of B if there are not as many. */
static Dim *buf_bytes(Ctx *c, const Buf *b, Dim *elements)
{
	Dim *whole = dim_const(c, 1);

	for (int d = 0; d < b->rank; d++)
		whole = dim_mul(c, whole, dim_max(c, b->dims[d], dim_const(c, 0)));
	return dim_ceildiv(
		c, dim_mul(c, dim_min(c, elements, whole), dim_const(c, dtype_info[b->dtype].bits)),
		dim_const(c, 8));
}

KernelWork kernel_work(const Kernel *k)
{
	Arena *tmp = arena_new();
	ExprPool *scratch = expr_pool_new(k->ctx, tmp);
	KernelWork w = {dim_const(k->ctx, 0), dim_const(k->ctx, 0)};
	Traffic t = {k, NULL, NULL, NEW_ARRAY(tmp, k->bufs.n + 1, Dim *)};

	for (int i = 0; i < k->stmts.n; i++) {
		t.s = k->stmts.at[i];
		t.seen = NEW_ARRAY(tmp, expr_count(k->pool) + 1, bool);
		w.flops = dim_add(k->ctx, w.flops, stmt_flops(k, t.s, scratch, tmp));
		stmt_exprs(t.s, count_load, &t);
		for (int o = 0; o < t.s->nout; o++)
			count_access(&t, t.s->out[o], t.s->widx, t.s->nwidx);
	}
	for (int i = 0; i < k->bufs.n; i++)
		if (t.elements[i])
			w.bytes = dim_add(k->ctx, w.bytes,
					  buf_bytes(k->ctx, k->bufs.at[i], t.elements[i]));
	arena_free(tmp);
	return w;
}
