/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the weights that are results of kernels (constant folding) with the interpreter.
 * Operands and results are mapped files, whose pages are released after each block.
 */
#include "codegen/weights/weights_impl.h"

#include "base/sys.h"
#include "ir/eval/eval.h"
#include "passes/forms/kernels.h"

/* An axis of a map that is evaluated a block at a time: in a block an iterator i becomes START +
 * i. */
typedef struct BlockAxis {
	Sym *start;
	int64_t step, total;
} BlockAxis;

typedef struct Blocked {
	BlockAxis ax[2];
	int n;
} Blocked;

static void block_axis(WeightsRun *w, Kernel *k, Stmt *s, int at, BlockAxis *ax)
{
	Iter *it = s->iter[at], *inner = kernel_iter(k, "b", dim_const(w->m->ctx, ax->step));
	Expr *with;

	ax->start = sym_fresh(w->m->ctx, "block");
	with = ex_add(k->pool, ex_iter(k->pool, inner), ex_dim(k->pool, ax->start->dim));
	for (int i = 0; i < s->nwidx; i++)
		s->widx[i] = ex_subst_iters(k->pool, s->widx[i], &it, &with, 1);
	s->val[0] = ex_subst_iters(k->pool, s->val[0], &it, &with, 1);
	if (s->guard)
		s->guard = ex_subst_iters(k->pool, s->guard, &it, &with, 1);
	s->guard = ex_and(k->pool, s->guard,
			  ex_op2(k->pool, IN_lt, with, ex_int(k->pool, CT_I64, ax->total)));
	s->iter[at] = inner;
}

static bool make_blocked(WeightsRun *w, Kernel *k, Blocked *b)
{
	Stmt *s = k->stmts.at[0];
	int64_t extent[MAX_ITERS], step[2];
	int at[2];

	*b = (Blocked){.n = 0, .ax = {{.step = 1, .total = 1}, {.step = 1, .total = 1}}};
	if (k->stmts.n != 1 || !stmt_is_simple_map(s))
		return false;
	for (int i = 0; i < s->niters; i++)
		if (!dim_is_const(s->iter[i]->extent, &extent[i]) || extent[i] < 1)
			return false;
	b->n = weights_cut(extent, s->niters, WEIGHTS_BLOCK / 4, at, step);
	for (int i = 0; i < b->n; i++)
		b->ax[i] = (BlockAxis){.step = step[i], .total = extent[at[i]]};
	for (int i = 0; i < b->n; i++)
		block_axis(w, k, s, at[i], &b->ax[i]);
	return b->n > 0;
}

static void drop_kernel_pages(WeightsRun *w, Node *n)
{
	for (int i = 0; i < n->nin; i++) {
		const Tensor *t = value_const(value_base(node_in(n, i)));

		if (t && tensor_in_file(t))
			drop_pages(t->data, (size_t)t->bytes);
	}
	for (int i = 0; i < n->nout; i++)
		if (w->m->mem->value[n->out[i]->id].kind == PLACE_WEIGHTS)
			drop_pages(w->data[n->out[i]->id], weights_bytes(w->m, n->out[i]));
}

static EvalStatus run_blocks(WeightsRun *w, Node *n, Kernel *k, const Blocked *b, EvalBuf *bufs,
			     EvalFault *fault)
{
	int64_t *sym = NEW_ARRAY(w->m->arena, sym_count(w->m->ctx) + 1, int64_t);
	EvalOpts o = {.mad_fused = true, .sym = sym};
	EvalStatus st = EVAL_OK;

	for (int64_t i = 0; i < b->ax[0].total && st == EVAL_OK; i += b->ax[0].step)
		for (int64_t j = 0; j < b->ax[1].total && st == EVAL_OK; j += b->ax[1].step) {
			sym[b->ax[0].start->id] = i;
			if (b->n > 1)
				sym[b->ax[1].start->id] = j;
			st = eval_kernel(k, &o, bufs, fault);
			drop_kernel_pages(w, n);
		}
	return st;
}

bool weights_interpret(WeightsRun *w, Node *n, Kernel *k)
{
	EvalBuf *bufs = NEW_ARRAY(w->m->arena, k->bufs.n + 1, EvalBuf);
	EvalOpts o = {.mad_fused = true};
	EvalFault fault = {0};
	EvalStatus st = EVAL_OK;
	Blocked b;

	VEC_EACH (buf, &k->bufs) {
		if (buf->kind == BUF_IN)
			bufs[buf->id].data = weights_source(w, node_in(n, buf->param));
		else if (buf->kind == BUF_OUT)
			bufs[buf->id].data = w->data[n->out[buf->param]->id];
	}
	if (make_blocked(w, k, &b)) {
		st = run_blocks(w, n, k, &b, bufs, &fault);
	} else {
		o.sym = NEW_ARRAY(w->m->arena, sym_count(w->m->ctx) + 1, int64_t);
		st = eval_kernel(k, &o, bufs, &fault);
		drop_kernel_pages(w, n);
	}
	if (st == EVAL_INDEX)
		return diag_error(
			w->m->ctx->diag, node_diag(n),
			"index out of range: %lld, in a dim of %lld; it was computed from constants when the model was compiled",
			(long long)fault.index, (long long)fault.size);
	if (st == EVAL_BAD && fault.stray)
		return diag_error(w->m->ctx->diag, node_diag(n),
				  "statement %d of the node's kernel reads or writes outside of %s",
				  fault.stmt->id, fault.stray->name);
	if (st != EVAL_OK)
		return diag_error(w->m->ctx->diag, node_diag(n),
				  "the value cannot be computed when the model is compiled");
	return true;
}
