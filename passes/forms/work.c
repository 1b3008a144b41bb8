/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the arithmetic and the bytes of a kernel, as dims over its symbols. */
#include "passes/forms/work.h"

/* The points of iterators IT. An extent that may be negative has no points where it is. */
static Dim *points(Ctx *c, Iter *const *it, int n)
{
	Dim *all = dim_const(c, 1);

	for (int i = 0; i < n; i++)
		all = dim_mul(c, all, dim_max(c, it[i]->extent, dim_const(c, 0)));
	return all;
}

/* ---- Arithmetic ---- */

/* The operations of an instruction of an expression, for one point. SCRATCH receives expansions, so
 * that the kernel's pool does not grow. */
static int64_t count_inst(ExprPool *scratch, const Expr *e)
{
	int64_t n = 0;

	if (e->kind != EX_INST || e->ct == CT_I64)
		return 0;
	switch (inst_info[e->op.inst].rule) {
	case RULE_FUNC:
		EX_EACH (x, ex_func_body(scratch, e->op.inst, e->ct))
			n += count_inst(scratch, x);
		return n;
	case RULE_ARITH:
	case RULE_FLOAT: return e->op.inst == IN_fma || e->op.inst == IN_mad ? 2 : 1;
	default: return 0;
	}
}

/* The operations of combining the state of S with one term. */
static int64_t count_combination(const Stmt *s, ExprPool *scratch)
{
	const int n = monoid_info[s->red].n;
	Expr *state[2], *term[2];
	int64_t all = 0;

	for (int i = 0; i < n; i++) {
		state[i] = ex_param(scratch, s->val[i]->ct, 2 * i);
		term[i] = ex_param(scratch, s->val[i]->ct, 2 * i + 1);
	}
	for (int i = 0; i < n; i++)
		EX_EACH (x, monoid_combine(scratch, s->red, i, state, term))
			all += count_inst(scratch, x);
	return all;
}

/* An instruction is executed once for each point of the iterators that it depends on: a factor of a
 * product that is computed first, for example, once for each element, not for each term. */
static Dim *stmt_flops(const Kernel *k, const Stmt *s, ExprPool *scratch, Arena *tmp)
{
	bool *seen = NEW_ARRAY(tmp, expr_count(k->pool) + 1, bool); /* by Expr.id */
	Ctx *c = k->ctx;
	Dim *all = dim_const(c, 0);

	for (int i = 0; i < 2; i++)
		EX_EACH_OUTSIDE_LOADS (e, s->val[i]) {
			const int64_t each = seen[e->id] ? 0 : count_inst(scratch, e);
			Dim *n = dim_const(c, each);

			seen[e->id] = true;
			for (int j = 0; each && j < s->niters; j++)
				if (expr_has_iter(e, s->iter[j]))
					n = dim_mul(c, n, points(c, &s->iter[j], 1));
			all = dim_add(c, all, n);
		}
	if (s->red == MONOID_NONE)
		return all;
	return dim_add(c, all,
		       dim_mul(c, dim_const(c, count_combination(s, scratch)),
			       points(c, s->iter, s->niters)));
}

/* ---- Bytes ---- */

typedef struct Traffic {
	const Kernel *k;
	const Stmt *s;
	Dim **elements; /* by Buf.id: the elements accessed so far; null: none */
} Traffic;

/* S accesses B at indices IDX: as many elements as the iterators in IDX have points. */
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

/* The bytes of ELEMENTS of B, or of all of B if B has fewer. */
static Dim *bytes_touched(Ctx *c, const Buf *b, Dim *elements)
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
	ARENA_LOCAL(tmp);
	ExprPool *scratch = expr_pool_new(k->ctx, tmp);
	KernelWork w = {dim_const(k->ctx, 0), dim_const(k->ctx, 0)};
	Traffic t = {k, NULL, NEW_ARRAY(tmp, k->bufs.n + 1, Dim *)};

	for (int i = 0; i < k->stmts.n; i++) {
		bool *seen = NEW_ARRAY(tmp, expr_count(k->pool) + 1, bool); /* by Expr.id */

		t.s = k->stmts.at[i];
		w.flops = dim_add(k->ctx, w.flops, stmt_flops(k, t.s, scratch, tmp));
		STMT_EACH_LOAD (x, t.s) {
			if (!seen[x->id])
				count_access(&t, x->load.buf, x->load.idx, x->load.nidx);
			seen[x->id] = true;
		}
		for (int o = 0; o < t.s->nout; o++)
			count_access(&t, t.s->out[o], t.s->widx, t.s->nwidx);
	}
	for (int i = 0; i < k->bufs.n; i++)
		if (t.elements[i])
			w.bytes = dim_add(k->ctx, w.bytes,
					  bytes_touched(k->ctx, k->bufs.at[i], t.elements[i]));
	return w;
}
