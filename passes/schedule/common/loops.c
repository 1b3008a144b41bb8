/* SPDX-License-Identifier: Apache-2.0 */
#include "passes/schedule/common/loops.h"

#include <assert.h>

enum {
	/* Instructions for a point, at most, of the maps after a product or a stencil that are
	 * unrolled over some of its points: a bias, a residual and an activation have up to 8.
	 * Functions are not: they gained nothing on AVX-512, and took 1.1 times as long on AVX2,
	 * which has too few registers for their constants. */
	MOST_SHORT_MAPS = 16,
	/* Iterations of a vector loop, at most, for which a masked remainder costs less than a
	 * peeled one. */
	SHORT_VECTOR = 128,
	/* A vector that is masked for so many elements or fewer takes as long as the elements do
	 * one by one, and loads beyond them. */
	LEAST_MASKED = 4,
	/* Bytes of a local on a thread's stack, which may be small. Larger locals are in scratch.
	 * So is a local of more than SMALL_LOCAL_BYTES with which those of its stage would take
	 * more than STAGE_STACK_BYTES. These are a part of the stack that docs/c-api.md says a run
	 * takes. */
	STACK_BYTES = 8192,
	STAGE_STACK_BYTES = 32768,
	SMALL_LOCAL_BYTES = 256
};

LBuild l_build(Kernel *k, Schedule *s)
{
	return (LBuild){.sched = s, .k = k, .p = k->pool, .arena = k->arena, .stmt = -1};
}

void l_of(LBuild *b, const Stmt *s)
{
	b->stmt = s->id;
	b->loc = s->loc;
}

LNode *l_node(LBuild *b, LNodeKind kind)
{
	LNode *n = NEW(b->arena, LNode);

	n->kind = kind;
	n->loc = b->loc;
	n->point.stmt = b->stmt;
	*b->tail = n;
	b->tail = &n->next;
	return n;
}

Iter *l_iter(LBuild *b, const char *name, Dim *extent)
{
	return kernel_iter(b->k, name, extent);
}

bool l_short(Dim *extent)
{
	int64_t v;

	return dim_is_const(extent, &v) && v > LEAST_MASKED && v <= SHORT_VECTOR;
}

Expr *l_int(LBuild *b, int64_t v)
{
	return ex_int(b->p, CT_I64, v);
}

Expr *l_min(LBuild *b, Expr *x, Expr *y)
{
	return ex_op2(b->p, IN_min, x, y);
}

Expr *l_max(LBuild *b, Expr *x, Expr *y)
{
	return ex_op2(b->p, IN_max, x, y);
}

LNode *l_loop(LBuild *b, LoopKind kind, Iter *var, Expr *lo, Expr *hi, int64_t step)
{
	LNode *n = l_node(b, LN_LOOP);

	n->loop.kind = kind;
	n->range.var = var;
	n->range.lo = lo;
	n->range.hi = hi;
	n->loop.step = step;
	b->tail = &n->body;
	return n;
}

bool stmts_are_short(const Kernel *k, int first, int last)
{
	int n = 0;

	for (int i = first; i <= last; i++)
		for (int o = 0; o < 2; o++)
			EX_EACH (e, k->stmts.at[i]->val[o])
				if (e->kind == EX_INST)
					n += inst_is_func(e->op.inst) ? MOST_SHORT_MAPS + 1 : 1;
	return n <= MOST_SHORT_MAPS;
}

LNode *l_where(LBuild *b, Expr *cond)
{
	Expr *one = l_int(b, 1), *zero = l_int(b, 0);

	return l_loop(b, LOOP_SERIAL, l_iter(b, "once", dim_const(b->k->ctx, 1)), zero,
		      ex_op3(b->p, IN_select, cond, one, zero), 1);
}

void l_close(LBuild *b, LNode *loop)
{
	b->tail = &loop->next;
}

void l_let(LBuild *b, Iter *var, Expr *value)
{
	LNode *n = l_node(b, LN_LET);

	n->range.var = var;
	n->range.lo = value;
}

LNode *l_store(LBuild *b, Buf *buf, Expr *idx, Expr *val, Expr *guard)
{
	LNode *n = l_node(b, LN_STORE);

	n->store.nout = 1;
	n->store.buf[0] = buf;
	n->store.idx = idx;
	n->store.val[0] = val;
	n->store.guard = guard;
	return n;
}

void l_does(LBuild *b, LNode *n, LPart part, Expr *const *at, int nat)
{
	n->point.part = part;
	n->point.nat = nat;
	n->point.at = NEW_ARRAY(b->arena, nat + 1, Expr *);
	for (int i = 0; i < nat; i++)
		n->point.at[i] = at[i];
}

void l_local(LBuild *b, Buf *buf)
{
	LNode *n = l_node(b, LN_LOCAL);
	Dim *bytes = dim_const(b->k->ctx, (dtype_info[buf->dtype].bits + 7) / 8);
	int64_t v;

	n->local.buf = buf;
	for (int i = 0; i < buf->rank; i++)
		bytes = dim_mul(b->k->ctx, bytes, buf->dims[i]);
	if (dim_is_const(bytes, &v) &&
	    (v <= SMALL_LOCAL_BYTES ||
	     (v <= STACK_BYTES && b->stage->cpu.stack + v <= STAGE_STACK_BYTES))) {
		b->stage->cpu.stack += v > SMALL_LOCAL_BYTES ? v : 0;
		return;
	}
	/* in scratch: n->local.at is its offset in bytes */
	n->local.at = ex_dim(b->p, b->stage->scratch);
	bytes = dim_mul(b->k->ctx, dim_ceildiv(b->k->ctx, bytes, dim_const(b->k->ctx, 64)),
			dim_const(b->k->ctx, 64));
	b->stage->scratch = dim_add(b->k->ctx, b->stage->scratch, bytes);
}

Buf *l_temp(LBuild *b, const char *name, DType t, Dim *extent)
{
	Buf *buf = kernel_temp(b->k, name, t, extent ? 1 : 0, extent ? &extent : NULL);

	l_local(b, buf);
	return buf;
}

Stage *l_stage(LBuild *b, const char *strategy, Dim *extent)
{
	Stage *s = NEW(b->arena, Stage);

	s->strategy = strategy;
	s->name = b->sched->stages.n
			  ? arena_printf(b->arena, "%s_%d", b->k->name, b->sched->stages.n)
			  : b->k->name;
	s->extent = extent;
	s->cpu.grain = dim_const(b->k->ctx, 1);
	s->var = l_iter(b, "p", extent);
	s->scratch = dim_const(b->k->ctx, 0);
	vec_push(b->arena, &b->sched->stages, s);
	b->stage = s;
	b->tail = &s->body;
	return s;
}

void l_grain(LBuild *b, int64_t enough, Dim *work)
{
	Ctx *c = b->k->ctx;
	Dim *one = dim_const(c, 1);

	b->stage->cpu.grain = dim_max(c, one,
				      dim_floordiv(c, dim_const(c, enough), dim_max(c, one, work)));
}

void l_split(LBuild *b, Iter *const *var, int n, Expr *p)
{
	if (n == 1)
		l_let(b, var[0], p);
	for (int i = n - 1; i > 0; i--) {
		Expr *extent = ex_dim(b->p, var[i]->extent);
		Iter *rest = i > 1 ? l_iter(b, "q", iters_points(b->k->ctx, var, i)) : var[0];

		l_let(b, var[i], ex_op2(b->p, IN_mod, p, extent));
		l_let(b, rest, ex_op2(b->p, IN_floordiv, p, extent));
		p = ex_iter(b->p, rest);
	}
}
