/* SPDX-License-Identifier: Apache-2.0 */
/* The reference interpreter: buffers, and statements in order. Maps are evaluated here,
 * reductions in eval_reduce.c, contractions in eval_contract.c. */
#include "ir/eval/eval_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- What the kinds of statements share ---- */

Prog *run_prog(KernelRun *r)
{
	Prog *p = prog_new(r->a, r->k, r->o, r->bufs, r->s->iter, r->s->niters);

	p->keep = run_wants_bounds(r);
	return p;
}

EvalPoints run_point(KernelRun *r)
{
	EvalPoints at = {.n = 1, .pattern = r->pattern};

	r->pattern += 2;
	return at;
}

int run_slots(int from, int to, int *out)
{
	for (int i = from; i < to; i++)
		out[i - from] = i;
	return to - from;
}

bool run_failed(KernelRun *r, const Prog *p)
{
	r->status = p->fault ? EVAL_INDEX : EVAL_BAD;
	/* with a fault, index 0 stands for one out of range, and may be outside of an empty
	 * buffer */
	r->fault = (EvalFault){r->s, p->bad_index, p->bad_size, p->fault ? NULL : p->stray};
	return false;
}

EvalAccess run_write(KernelRun *r, const EvalAccess *write, int k)
{
	EvalAccess a = *write;

	a.buf = r->s->out[k];
	a.data = r->bufs[a.buf->id].data;
	a.bound = r->bufs[a.buf->id].bound;
	return a;
}

/* ---- Maps ---- */

static bool reads_own_output(const Stmt *s)
{
	for (int i = 0; i < s->nout; i++)
		EX_EACH_LOAD (x, s->val[i])
			if (x->load.buf == s->out[0])
				return true;
	return false;
}

static void store_map_bounds(KernelRun *r, Prog *p, const ResolvedAccess *at, int n)
{
	double b[2][STRIP], v[STRIP];
	double *out[4] = {b[0], r->s->nout > 1 ? b[1] : NULL, NULL, NULL};

	prog_bounds(p, out);
	for (int k = 0; k < r->s->nout; k++) {
		EvalAccess a = run_write(r, p->write, k);

		strip_to_f64(r->s->val[k]->ct, prog_val(p, k), v, n);
		for (int l = 0; l < n; l++)
			b[k][l] += b[k][l] > 0 ? ulp_of(a.buf->dtype, v[l]) : 0;
		if (a.bound)
			strip_store_bounds(&a, at, b[k], p->mask, n);
	}
}

static bool eval_map(KernelRun *r)
{
	const Stmt *s = r->s;
	Prog *p = run_prog(r);
	int slots[MAX_ITERS], n = run_slots(0, s->niters, slots);
	EvalPoints at = {0};
	ResolvedAccess where;
	StripWalk w;

	prog_guard(p, s->guard);
	for (int k = 0; k < s->nout; k++)
		prog_root(p, s->val[k]);
	prog_write(p, s->out[0], s->widx, s->nwidx);
	if (!prog_end(p))
		return run_failed(r, p);
	walk_init(&w, r->a, slots, n, r->extent, reads_own_output(s) ? 1 : STRIP, &r->pattern);
	for (bool more = walk_first(&w, &at); more; more = walk_next(&w, &at)) {
		if (!prog_run(p, &at))
			return run_failed(r, p);
		if (!prog_place(p, &at, &where)) {
			if (p->stray)
				return run_failed(r, p);
			continue;
		}
		for (int k = 0; k < s->nout; k++) {
			EvalAccess a = run_write(r, p->write, k);

			strip_store(&a, &where, prog_val(p, k), p->mask, at.n);
		}
		if (p->keep)
			store_map_bounds(r, p, &where, at.n);
	}
	return true;
}

/* ---- Kernels ---- */

typedef struct Mem {
	EvalBuf own; /* the buffer in plain row-major order */
	bool mine, mine_bound;
	int64_t dims[MAX_RANK], numel;
} Mem;

static bool buf_dims(const Buf *b, const EvalOpts *o, Mem *m)
{
	m->numel = 1;
	for (int d = 0; d < b->rank; d++)
		if (!dim_eval(b->dims[d], o->sym, &m->dims[d]) || m->dims[d] < 0 ||
		    __builtin_mul_overflow(m->numel, m->dims[d], &m->numel))
			return false;
	return dtype_size(b->dtype, m->numel) >= 0 && m->numel <= INT64_MAX / 16;
}

static bool open_buf(const Buf *b, const EvalOpts *o, const EvalBuf *from, Mem *m)
{
	if (!buf_dims(b, o, m))
		return false;
	if (b->data)
		return true;
	m->own = *from;
	if (b->kind == BUF_TEMP || b->layout || (!from->data && m->numel)) {
		if (b->kind == BUF_IN && !from->data && m->numel)
			return false;
		m->own.data = calloc((size_t)dtype_size(b->dtype, m->numel) + 8, 1);
		m->mine = true;
		if (!m->own.data)
			return false;
		if (b->layout && b->kind == BUF_IN && m->numel)
			layout_unpack(b, m->dims, from->data, m->own.data);
	}
	if (b->kind == BUF_TEMP && o->bounds) {
		m->own.bound = calloc((size_t)m->numel + 1, sizeof(double));
		m->mine_bound = true;
	}
	return !m->mine_bound || m->own.bound;
}

static void close_buf(const Buf *b, EvalBuf *to, Mem *m, bool ok)
{
	if (ok && m->mine && b->kind == BUF_OUT && b->layout && to->data)
		layout_pack(b, m->dims, m->own.data, to->data);
	if (m->mine)
		free(m->own.data);
	if (m->mine_bound)
		free(m->own.bound);
}

static EvalStatus eval_stmt(Kernel *k, Stmt *s, const EvalOpts *o, EvalBuf *bufs, EvalFault *fault)
{
	KernelRun r = {.k = k, .s = s, .o = o, .bufs = bufs, .a = arena_new(), .pattern = 2};

	for (int i = 0; i < s->niters && r.status == EVAL_OK; i++) {
		if (!dim_eval(s->iter[i]->extent, o->sym, &r.extent[i]))
			r.status = EVAL_BAD;
		if (r.extent[i] < 0)
			r.extent[i] = 0;
	}
	if (r.status == EVAL_OK && s->red == MONOID_NONE)
		eval_map(&r);
	else if (r.status == EVAL_OK && s->update && s->nband == s->niters)
		eval_scatter_update(&r);
	else if (r.status == EVAL_OK && !eval_contraction(&r))
		eval_reduce(&r);
	arena_free(r.a);
	if (r.status != EVAL_OK && fault)
		*fault = r.fault;
	return r.status;
}

/* K computes nothing: none of its results has elements. */
static bool is_idle(const Kernel *k, const EvalOpts *o)
{
	for (int i = 0; i < k->bufs.n; i++) {
		Mem m;

		if (k->bufs.at[i]->kind == BUF_OUT && (!buf_dims(k->bufs.at[i], o, &m) || m.numel))
			return false;
	}
	return true;
}

EvalStatus eval_kernel(Kernel *k, const EvalOpts *o, EvalBuf *bufs, EvalFault *fault)
{
	ARENA_LOCAL(a);
	Mem *mem = NEW_ARRAY(a, k->bufs.n, Mem);
	EvalBuf *own = NEW_ARRAY(a, k->bufs.n, EvalBuf);
	EvalStatus status = EVAL_OK;

	if (is_idle(k, o))
		return EVAL_OK;
	for (int i = 0; i < k->bufs.n; i++) {
		if (status == EVAL_OK && !open_buf(k->bufs.at[i], o, &bufs[i], &mem[i]))
			status = EVAL_BAD;
		own[i] = mem[i].own;
	}
	for (int i = 0; i < k->stmts.n && status == EVAL_OK; i++)
		status = eval_stmt(k, k->stmts.at[i], o, own, fault);
	for (int i = 0; i < k->bufs.n; i++)
		close_buf(k->bufs.at[i], &bufs[i], &mem[i], status == EVAL_OK);
	return status;
}
