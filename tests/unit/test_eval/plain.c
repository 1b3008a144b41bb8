/* SPDX-License-Identifier: Apache-2.0 */
/* A very simple interpreter: point by point, each expression folded to a constant by the pool. */
#include "tests/unit/test_eval/parts.h"

#include <assert.h>

typedef struct Plain {
	Kernel *k;
	const int64_t *sym;
	EvalBuf *bufs;
	int64_t it[64];
	Expr *param[4]; /* parameters of a monoid's combination */
	bool fault;
} Plain;

static Expr *fold(Plain *p, Expr *e);

static int64_t element(Plain *p, const Buf *b, Expr *const *idx, int n)
{
	int64_t at = 0, extent = 1;

	for (int i = 0; i < n; i++) {
		int64_t v = fold(p, idx[i])->i;

		if (n == b->rank)
			dim_eval(b->dims[i], p->sym, &extent);
		assert(v >= 0 && (n != b->rank || v < extent));
		at = at * extent + v;
	}
	return at;
}

static Expr *element_value(Plain *p, const Buf *b, int64_t at)
{
	const void *data = b->data ? b->data : p->bufs[b->id].data;
	CType t = dtype_ctype(b->dtype);

	if (ctype_is_float(t))
		return ex_float(p->k->pool, t, dtype_load_f64(b->dtype, data, at));
	return ex_int(p->k->pool, t, dtype_load_i64(b->dtype, data, at));
}

static Expr *fold_inst(Plain *p, Expr *e)
{
	Expr *a[3];

	if (e->op.inst == IN_select)
		return fold(p, e->op.arg[fold(p, e->op.arg[0])->i ? 1 : 2]);
	for (int i = 0; i < e->op.n; i++)
		a[i] = fold(p, e->op.arg[i]);
	switch (inst_info[e->op.inst].rule) {
	case RULE_CVT: return ex_cvt(p->k->pool, e->ct, a[0]);
	case RULE_BITCAST: return ex_bits(p->k->pool, e->ct, a[0]);
	case RULE_ROUND:
		return e->op.inst == IN_round ? ex_round(p->k->pool, e->op.dtype, a[0])
					      : ex_roundsat(p->k->pool, e->op.dtype, a[0]);
	case RULE_INDEX:
		if (a[0]->i < -a[1]->i || a[0]->i >= a[1]->i) {
			p->fault = true;
			return ex_int(p->k->pool, CT_I64, 0);
		}
		return ex_int(p->k->pool, CT_I64, a[0]->i + (a[0]->i < 0 ? a[1]->i : 0));
	default: return ex_inst(p->k->pool, e->op.inst, a, e->op.n);
	}
}

static Expr *fold(Plain *p, Expr *e)
{
	int64_t v = 0;

	switch (e->kind) {
	case EX_ITER: return ex_int(p->k->pool, CT_I64, p->it[e->iter->id]);
	case EX_DIM: dim_eval(e->dim, p->sym, &v); return ex_int(p->k->pool, CT_I64, v);
	case EX_LOAD:
		return element_value(p, e->load.buf,
				     element(p, e->load.buf, e->load.idx, e->load.nidx));
	case EX_INST: return fold_inst(p, e);
	case EX_PARAM: return p->param[e->param];
	default: return e;
	}
}

static void put(Plain *p, const Buf *b, int64_t at, const Expr *e)
{
	assert(e->kind == EX_CONST);
	if (ctype_is_float(e->ct))
		dtype_store_f64(b->dtype, p->bufs[b->id].data, at, e->f);
	else
		dtype_store_i64(b->dtype, p->bufs[b->id].data, at, e->i);
}

static bool next(Plain *p, const Stmt *s, int from, int to)
{
	for (int i = to - 1; i >= from; i--) {
		int64_t n = 0;

		dim_eval(s->iter[i]->extent, p->sym, &n);
		if (++p->it[s->iter[i]->id] < n)
			return true;
		p->it[s->iter[i]->id] = 0;
	}
	return false;
}

static bool any(Plain *p, const Stmt *s, int from, int to)
{
	int64_t n = 1;

	for (int i = from; i < to && n > 0; i++)
		dim_eval(s->iter[i]->extent, p->sym, &n);
	return n > 0;
}

static void plain_point(Plain *p, const Stmt *s)
{
	int n = s->red == MONOID_NONE ? s->nout : monoid_info[s->red].n;
	Expr *state[2], *combine[2], *a[2], *b[2];

	if (s->red == MONOID_NONE) {
		if (!s->guard || fold(p, s->guard)->i)
			for (int i = 0; i < n; i++)
				put(p, s->out[i], element(p, s->out[i], s->widx, s->nwidx),
				    fold(p, s->val[i]));
		return;
	}
	for (int i = 0; i < n; i++) {
		a[i] = ex_param(p->k->pool, s->val[i]->ct, i);
		b[i] = ex_param(p->k->pool, s->val[i]->ct, 2 + i);
	}
	for (int i = 0; i < n; i++)
		combine[i] = monoid_combine(p->k->pool, s->red, i, a, b);
	for (int i = 0; i < n; i++)
		state[i] = s->update ? element_value(p, s->out[i],
						     element(p, s->out[i], s->widx, s->nwidx))
				     : monoid_identity(p->k->pool, s->red, i, s->val[i]->ct);
	for (bool more = any(p, s, s->nband, s->niters); more;
	     more = next(p, s, s->nband, s->niters)) {
		if (!s->guard || fold(p, s->guard)->i) {
			for (int i = 0; i < n; i++) {
				p->param[i] = state[i];
				p->param[2 + i] = fold(p, s->val[i]);
			}
			for (int i = 0; i < n; i++)
				state[i] = fold(p, combine[i]);
		}
		for (int i = 0; s->scan && i < s->nout; i++)
			put(p, s->out[i], element(p, s->out[i], s->widx, s->nwidx), state[i]);
	}
	for (int i = 0; !s->scan && i < s->nout; i++)
		put(p, s->out[i], element(p, s->out[i], s->widx, s->nwidx), state[i]);
}

void plain_kernel(Kernel *k, const int64_t *sym, EvalBuf *bufs)
{
	Plain p = {.k = k, .sym = sym, .bufs = bufs};

	for (int i = 0; i < k->stmts.n; i++) {
		const Stmt *s = k->stmts.at[i];

		for (bool more = any(&p, s, 0, s->nband); more; more = next(&p, s, 0, s->nband))
			plain_point(&p, s);
	}
}
