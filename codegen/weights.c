/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/weights.h"

#include "ir/eval.h"
#include "passes/kernels.h"
#include "runtime/hash.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A block is long along one iterator and short along the other: each of the rows that it touches may bring 64 KiB
 * of the file, or a large page. */
enum { CHUNK = 8 << 20, BLOCK = 16 << 20, LONG_STEP = 4096 };

typedef struct Weights {
	Module *m;
	char *base;    /* the mapped output */
	void **data;   /* by Value.id of bases: where the elements are */
	size_t *mine;  /* by Value.id: bytes of an anonymous mapping made here, 0 where none */
} Weights;

static DiagLoc here(const Weights *w)
{
	return (DiagLoc){.file = w->m->graph->file};
}

/* Pages that were read or written may leave memory: they are the file's. */
static void drop_pages(const void *p, size_t n)
{
	uintptr_t from = ((uintptr_t)p + 4095) & ~(uintptr_t)4095, to = ((uintptr_t)p + n) & ~(uintptr_t)4095;

	if (to > from)
		madvise((void *)from, to - from, MADV_DONTNEED);
}

static size_t value_bytes(Module *m, const Value *v)
{
	int64_t n = 0;

	dim_is_const(type_storage(m->ctx, v->type), &n);
	return (size_t)(n * dtype_info[v->type->dtype].bits + 7) / 8;
}

static void copy_const(Weights *w, Value *v)
{
	const Tensor *t = value_const(v);
	const Place *p = &w->m->mem->value[v->id];

	for (int64_t at = 0; at < t->bytes; at += CHUNK) {
		size_t n = (size_t)(t->bytes - at < CHUNK ? t->bytes - at : CHUNK);

		memcpy(w->base + p->offset + at, (const char *)t->data + at, n);
		if (t->file)
			drop_pages((const char *)t->data + at, n);
		if (t->bytes >= CHUNK)
			drop_pages(w->base + p->offset + at, n);
	}
}

static void *source(Weights *w, Value *v)
{
	v = value_base(v);
	if (value_const(v))
		return (void *)(uintptr_t)value_const(v)->data;
	return w->data[v->id];
}

/*
 * One large map, a block of its two longest iterators at a time, so that only the pages of a block, of what it
 * reads (a transpose reads across) and of what it writes, are in memory at once. An iterator becomes start + i,
 * where the start is a symbol.
 */
typedef struct Axis {
	Sym *start;
	int64_t step, total;
} Axis;

typedef struct Blocked {
	Axis ax[2];
	int n;
} Blocked;

static void block_axis(Weights *w, Kernel *k, Stmt *s, int at, Axis *ax)
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
	s->guard = ex_and(k->pool, s->guard, ex_op2(k->pool, IN_lt, with, ex_int(k->pool, CT_I64, ax->total)));
	s->iter[at] = inner;
}

/* The longest iterator but NOT; -1 where there is none longer than 1. */
static int longest(const Stmt *s, const int64_t *extent, int not)
{
	int best = -1;

	for (int i = 0; i < s->niters; i++)
		if (i != not && extent[i] > 1 && (best < 0 || extent[i] > extent[best]))
			best = i;
	return best;
}

static bool make_blocked(Weights *w, Kernel *k, Blocked *b)
{
	Stmt *s = k->stmts.at[0];
	int64_t *extent = NEW_ARRAY(w->m->arena, s->niters + 1, int64_t), want = BLOCK / 4, all = 1, rest;
	int at[2];

	*b = (Blocked){.n = 0, .ax = {{.step = 1, .total = 1}, {.step = 1, .total = 1}}};
	if (k->stmts.n != 1 || !stmt_is_simple_map(s))
		return false;
	for (int i = 0; i < s->niters; i++) {
		if (!dim_is_const(s->iter[i]->extent, &extent[i]) || extent[i] < 1)
			return false;
		all *= extent[i];
	}
	at[0] = longest(s, extent, -1);
	if (all <= want || at[0] < 0)
		return false;
	at[1] = longest(s, extent, at[0]);
	b->n = at[1] < 0 ? 1 : 2;
	rest = all / extent[at[0]] / (b->n > 1 ? extent[at[1]] : 1);
	want = want / rest > 1 ? want / rest : 1;
	for (int i = 0; i < b->n; i++) {
		Axis *ax = &b->ax[i];

		ax->total = extent[at[i]];
		ax->step = i || b->n == 1 ? want / b->ax[0].step : want < LONG_STEP ? want : LONG_STEP;
		ax->step = ax->step < 1 ? 1 : ax->step > ax->total ? ax->total : ax->step;
	}
	for (int i = 0; i < b->n; i++)
		block_axis(w, k, s, at[i], &b->ax[i]);
	return true;
}

static void drop_kernel_pages(Weights *w, Node *n)
{
	for (int i = 0; i < n->nin; i++) {
		const Tensor *t = value_const(value_base(node_in(n, i)));

		if (t && t->file)
			drop_pages(t->data, (size_t)t->bytes);
	}
	for (int i = 0; i < n->nout; i++)
		if (w->m->mem->value[n->out[i]->id].kind == PLACE_WEIGHTS)
			drop_pages(w->data[n->out[i]->id], value_bytes(w->m, n->out[i]));
}

static EvalStatus run_blocks(Weights *w, Node *n, Kernel *k, const Blocked *b, EvalBuf *bufs)
{
	int64_t *sym = NEW_ARRAY(w->m->arena, sym_count(w->m->ctx) + 1, int64_t);
	EvalOpts o = {.mad_fused = true, .sym = sym};
	EvalStatus st = EVAL_OK;
	Stmt *fault;

	for (int64_t i = 0; i < b->ax[0].total && st == EVAL_OK; i += b->ax[0].step)
		for (int64_t j = 0; j < b->ax[1].total && st == EVAL_OK; j += b->ax[1].step) {
			sym[b->ax[0].start->id] = i;
			if (b->n > 1)
				sym[b->ax[1].start->id] = j;
			st = eval_kernel(k, &o, bufs, &fault);
			drop_kernel_pages(w, n);
		}
	return st;
}

static bool run_kernel(Weights *w, Node *n)
{
	Kernel *k = kernel_clone(node_kernel(n), w->m->arena);
	EvalBuf *bufs = NEW_ARRAY(w->m->arena, k->bufs.n + 1, EvalBuf);
	EvalOpts o = {.mad_fused = true};
	Stmt *fault = NULL;
	EvalStatus st = EVAL_OK;
	Blocked b;

	for (int i = 0; i < k->bufs.n; i++) {
		Buf *buf = k->bufs.at[i];

		if (buf->kind == BUF_IN)
			bufs[buf->id].data = source(w, node_in(n, buf->param));
		else if (buf->kind == BUF_OUT)
			bufs[buf->id].data = w->data[n->out[buf->param]->id];
	}
	kernel_physical(k);
	if (make_blocked(w, k, &b)) {
		st = run_blocks(w, n, k, &b, bufs);
	} else {
		o.sym = NEW_ARRAY(w->m->arena, sym_count(w->m->ctx) + 1, int64_t);
		st = eval_kernel(k, &o, bufs, &fault);
		drop_kernel_pages(w, n);
	}
	if (st == EVAL_INDEX)
		return diag_error(w->m->ctx->diag, node_diag(n), "index out of range in a constant");
	if (st != EVAL_OK)
		return diag_error(w->m->ctx->diag, node_diag(n), "cannot compute a constant");
	return true;
}

static bool compute(Weights *w, Node *n)
{
	for (int i = 0; i < n->nout; i++) {
		Value *v = n->out[i];
		const Place *p = &w->m->mem->value[v->id];

		if (p->kind == PLACE_WEIGHTS) {
			w->data[v->id] = w->base + p->offset;
			continue;
		}
		w->mine[v->id] = value_bytes(w->m, v) + 64;
		w->data[v->id] = mmap(NULL, w->mine[v->id], PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (w->data[v->id] == MAP_FAILED) {
			w->mine[v->id] = 0;
			return diag_error(w->m->ctx->diag, node_diag(n), "no memory for %zu bytes of constants", value_bytes(w->m, v));
		}
	}
	return run_kernel(w, n);
}

static void hash_all(Weights *w, uint64_t *hash)
{
	dl_hash h;

	dl_hash_init(&h);
	for (int64_t at = 0; at < w->m->mem->weights; at += CHUNK) {
		size_t n = (size_t)(w->m->mem->weights - at < CHUNK ? w->m->mem->weights - at : CHUNK);

		dl_hash_update(&h, w->base + at, n);
		if (w->m->mem->weights > BLOCK)
			drop_pages(w->base + at, n);
	}
	*hash = dl_hash_value(&h);
}

bool weights_write(Module *m, int fd, int64_t base, uint64_t *hash)
{
	Weights w = {.m = m};
	size_t total = (size_t)m->mem->weights;
	bool ok = true;

	if (!total)
		return true;
	if (ftruncate(fd, base + (int64_t)total))
		return diag_error(m->ctx->diag, here(&w), "cannot write %zu bytes of weights: %s", total, strerror(errno));
	w.base = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, base);
	if (w.base == MAP_FAILED)
		return diag_error(m->ctx->diag, here(&w), "cannot map the weights: %s", strerror(errno));
	w.data = NEW_ARRAY(m->arena, m->graph->nvalues + 1, void *);
	w.mine = NEW_ARRAY(m->arena, m->graph->nvalues + 1, size_t);
	for (int i = 0; i < m->mem->stored.n; i++)
		if (value_const(m->mem->stored.at[i]))
			copy_const(&w, m->mem->stored.at[i]);
	for (Node *n = m->graph->first; n && ok; n = n->next)
		if (node_kernel(n) && n->nout && value_is_weights(n->out[0]))
			ok = compute(&w, n);
	if (ok)
		hash_all(&w, hash);
	for (int i = 0; i < m->graph->nvalues; i++)
		if (w.mine[i])
			munmap(w.data[i], w.mine[i]);
	munmap(w.base, total);
	return ok;
}
