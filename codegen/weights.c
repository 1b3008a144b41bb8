/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/weights.h"

#include "codegen/move.h"
#include "ir/eval.h"
#include "passes/kernels.h"
#include "runtime/hash.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A block is long along one iterator and short along the other: each of the rows that it touches may bring 64 KiB
 * of the file, or a large page. */
enum { CHUNK = 8 << 20, BLOCK = 16 << 20, LONG_STEP = 4096, MAX_THREADS = 16 };

/* One box of a move, from SRC to offset AT of the file. */
typedef struct Job {
	const Move *move;
	const void *src;
	bool mapped; /* SRC is a file's */
	int64_t at;
	int64_t lo[MAX_ITERS], hi[MAX_ITERS];
} Job;

typedef struct Weights {
	Module *m;
	int fd, threads;
	int64_t file;              /* where in FD the weights begin */
	char *base;                /* they, mapped */
	const WeightsFile *layout; /* of GPUs; null: all stands where the plan says */
	void **data;               /* by Value.id of bases: where the elements are */
	size_t *mine;    /* by Value.id: bytes of an anonymous mapping made here, 0 where none */
	VEC(Job *) jobs; /* boxes that wait; nothing reads what they write before they ran */
	size_t room;     /* for the largest */
	atomic_int next, fault; /* the job to take; an errno */
} Weights;

static DiagLoc here(const Weights *w)
{
	return (DiagLoc){.file = w->m->graph->file};
}

/* Pages that were read or written may leave memory: they are the file's. */
static void drop_pages(const void *p, size_t n)
{
	uintptr_t from = ((uintptr_t)p + 4095) & ~(uintptr_t)4095,
		  to = ((uintptr_t)p + n) & ~(uintptr_t)4095;

	if (to > from)
		madvise((void *)from, to - from, MADV_DONTNEED);
}

static size_t value_bytes(Module *m, const Value *v)
{
	int64_t n = 0;

	dim_is_const(type_storage(m->ctx, v->type), &n);
	return (size_t)(n * dtype_info[v->type->dtype].bits + 7) / 8;
}

static void *source(Weights *w, Value *v)
{
	v = value_base(v);
	if (value_const(v))
		return (void *)(uintptr_t)value_const(v)->data;
	return w->data[v->id];
}

/* Where V is in the file. */
static int64_t file_at(const Weights *w, const Value *v)
{
	return w->layout ? w->layout->at[v->id] : w->m->mem->value[v->id].offset;
}

/* V is stored, and stands there by now: it is the CPUs' too. */
static bool is_there(const Weights *w, const Value *v)
{
	return w->layout && w->m->mem->value[v->id].kind == PLACE_WEIGHTS &&
	       w->layout->at[v->id] < w->layout->own;
}

/* ---- Blocks ---- */

/* How a box of N iterators is cut into blocks of about WANT points: along its two longest, AT[0] the longest, by
 * STEP. The number of cuts; 0: it is one block. */
static int cut(const int64_t *extent, int n, int64_t want, int at[2], int64_t step[2])
{
	int64_t all = 1, rest;
	int cuts = 0;

	for (int i = 0; i < n; i++)
		all *= extent[i];
	for (; all > want && cuts < 2; cuts++) {
		int best = -1;

		for (int i = 0; i < n; i++)
			if (extent[i] > 1 && (!cuts || i != at[0]) &&
			    (best < 0 || extent[i] > extent[best]))
				best = i;
		if (best < 0)
			break;
		at[cuts] = best;
	}
	rest = all / (cuts ? extent[at[0]] : 1) / (cuts > 1 ? extent[at[1]] : 1);
	want = want / rest > 1 ? want / rest : 1;
	for (int i = 0; i < cuts; i++) {
		step[i] = i || cuts == 1     ? want / (i ? step[0] : 1)
			  : want < LONG_STEP ? want
					     : LONG_STEP;
		step[i] = step[i] < 1 ? 1 : step[i] > extent[at[i]] ? extent[at[i]] : step[i];
	}
	return cuts;
}

/* ---- Moves ---- */

static bool write_all(Weights *w, const char *p, int64_t n, int64_t at)
{
	while (n > 0) {
		ssize_t got = pwrite(w->fd, p, (size_t)n, w->file + at);

		if (got < 0 && errno != EINTR) {
			atomic_store(&w->fault, errno);
			return false;
		}
		got = got < 0 ? 0 : got;
		p += got;
		n -= got;
		at += got;
	}
	return true;
}

/* Box J stands dense at P: its runs go where they belong. */
static void write_runs(Weights *w, const Job *j, const char *p)
{
	const Move *m = j->move;
	int64_t x[MAX_ITERS], step[MAX_ITERS], run = 1;
	int outer = m->n - 1;

	for (int i = m->n - 1, inner = 1; i >= 0; i--) {
		step[i] = i == m->n - 1 ? 1 : step[i + 1] * m->extent[i + 1];
		if (inner) {
			run *= j->hi[i] - j->lo[i];
			outer = i;
		}
		inner = inner && j->hi[i] - j->lo[i] == m->extent[i];
	}
	memcpy(x, j->lo, sizeof x);
	do {
		int64_t at = 0;

		for (int i = 0; i < m->n; i++)
			at += x[i] * step[i];
		if (!write_all(w, p, run * m->size, j->at + at * m->size))
			return;
		p += run * m->size;
	} while (move_step(outer, j->lo, j->hi, x));
}

static void run_job(Weights *w, const Job *j, char *buf)
{
	const Move *m = j->move;
	int64_t first, last;
	bool reads = move_range(m, j->lo, j->hi, &first, &last);

	if (m->n == 1 && m->from[0] == 1 && !m->edge[0] && m->edge_base < 0) {
		write_runs(w, j, (const char *)j->src + first * m->size);
	} else {
		move_box(m, j->src, j->lo, j->hi, buf);
		write_runs(w, j, buf);
	}
	if (reads && j->mapped)
		drop_pages((const char *)j->src + first * m->size,
			   (size_t)((last - first + 1) * m->size));
}

static void *work(void *arg)
{
	Weights *w = arg;
	char *buf = malloc(w->room);
	int i;

	if (!buf)
		atomic_store(&w->fault, ENOMEM);
	while (!atomic_load(&w->fault) && (i = atomic_fetch_add(&w->next, 1)) < w->jobs.n)
		run_job(w, w->jobs.at[i], buf);
	free(buf);
	return NULL;
}

/* Runs the jobs that wait, several at once. */
static bool run_jobs(Weights *w)
{
	pthread_t thread[MAX_THREADS];
	int n = 0, most = w->threads < MAX_THREADS ? w->threads : MAX_THREADS;

	atomic_store(&w->next, 0);
	while (n + 1 < most && n + 1 < w->jobs.n && !pthread_create(&thread[n], NULL, work, w))
		n++;
	if (w->jobs.n)
		work(w);
	while (n > 0)
		pthread_join(thread[--n], NULL);
	w->jobs.n = 0;
	w->room = 0;
	if (!w->fault)
		return true;
	return diag_error(w->m->ctx->diag, here(w), "cannot write the weights: %s",
			  strerror(w->fault));
}

/* As cut. One cut will do where what lies outermost in the output does so in the source: both are read and written
 * from end to end then. */
static int cut_move(const Move *m, int at[2], int64_t step[2])
{
	int64_t want = BLOCK / m->size, rest = 1;
	bool outermost = true;

	for (int i = 1; i < m->n; i++) {
		rest *= m->extent[i];
		outermost = outermost && llabs(m->from[i]) <= llabs(m->from[0]);
	}
	if (!outermost || rest > want)
		return cut(m->extent, m->n, want, at, step);
	at[0] = 0;
	step[0] = want / rest;
	return 1;
}

static void add_jobs(Weights *w, const Move *m, const void *src, bool mapped, int64_t at)
{
	int axis[2];
	int64_t step[2], x[2] = {0, 0};
	int cuts = cut_move(m, axis, step);

	do {
		Job *j = NEW(w->m->arena, Job);
		size_t room = (size_t)m->size;

		*j = (Job){.move = m, .src = src, .mapped = mapped, .at = at};
		memcpy(j->hi, m->extent, sizeof j->hi);
		for (int i = 0; i < cuts; i++) {
			j->lo[axis[i]] = x[i];
			if (j->hi[axis[i]] > x[i] + step[i])
				j->hi[axis[i]] = x[i] + step[i];
		}
		for (int i = 0; i < m->n; i++)
			room *= (size_t)(j->hi[i] - j->lo[i]);
		w->room = room > w->room ? room : w->room;
		vec_push(w->m->arena, &w->jobs, j);
		if (cuts > 1 && (x[1] += step[1]) < m->extent[axis[1]])
			continue;
		x[1] = 0;
		x[0] += cuts ? step[0] : 1;
	} while (cuts && x[0] < m->extent[axis[0]]);
}

static void copy_const(Weights *w, Value *v)
{
	const Tensor *t = value_const(v);
	Move *m = NEW(w->m->arena, Move);

	*m = move_plain(t->bytes, 1);
	if (t->bytes && !is_there(w, v))
		add_jobs(w, m, t->data, t->file != NULL, file_at(w, v));
}

/* ---- The interpreter ---- */

/*
 * One large map, a block at a time, so that only the pages of a block, of what it reads (a transpose reads across)
 * and of what it writes, are in memory at once. An iterator becomes start + i, where the start is a symbol.
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
	s->guard = ex_and(k->pool, s->guard,
			  ex_op2(k->pool, IN_lt, with, ex_int(k->pool, CT_I64, ax->total)));
	s->iter[at] = inner;
}

static bool make_blocked(Weights *w, Kernel *k, Blocked *b)
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
	b->n = cut(extent, s->niters, BLOCK / 4, at, step);
	for (int i = 0; i < b->n; i++)
		b->ax[i] = (Axis){.step = step[i], .total = extent[at[i]]};
	for (int i = 0; i < b->n; i++)
		block_axis(w, k, s, at[i], &b->ax[i]);
	return b->n > 0;
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

static bool interpret(Weights *w, Node *n, Kernel *k)
{
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
	if (make_blocked(w, k, &b)) {
		st = run_blocks(w, n, k, &b, bufs);
	} else {
		o.sym = NEW_ARRAY(w->m->arena, sym_count(w->m->ctx) + 1, int64_t);
		st = eval_kernel(k, &o, bufs, &fault);
		drop_kernel_pages(w, n);
	}
	if (st == EVAL_INDEX)
		return diag_error(w->m->ctx->diag, node_diag(n),
				  "index out of range in a constant");
	if (st != EVAL_OK)
		return diag_error(w->m->ctx->diag, node_diag(n), "cannot compute a constant");
	return true;
}

/* ---- All of it ---- */

static bool place(Weights *w, Value *v, const Node *n)
{
	const Place *p = &w->m->mem->value[v->id];

	if (p->kind == PLACE_WEIGHTS) {
		w->data[v->id] = w->base + file_at(w, v);
		return true;
	}
	w->mine[v->id] = value_bytes(w->m, v) + 64;
	w->data[v->id] = mmap(NULL, w->mine[v->id], PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->data[v->id] != MAP_FAILED)
		return true;
	w->mine[v->id] = 0;
	return diag_error(w->m->ctx->diag, node_diag(n), "no memory for %zu bytes of constants",
			  value_bytes(w->m, v));
}

/* Constants, which no job that waits writes, are all that N reads. */
static bool reads_constants(const Node *n)
{
	for (int i = 0; i < n->nin; i++)
		if (!value_const(value_base(node_in(n, i))))
			return false;
	return true;
}

static bool compute(Weights *w, Node *n)
{
	Kernel *k = kernel_clone(node_kernel(n), w->m->arena);
	const Place *p = &w->m->mem->value[n->out[0]->id];
	Move *m = NEW(w->m->arena, Move);
	const Value *from;
	const void *src;
	bool there = true;

	for (int i = 0; i < n->nout; i++)
		there = there && is_there(w, n->out[i]);
	for (int i = 0; i < n->nout && there; i++)
		w->data[n->out[i]->id] = w->base + file_at(w, n->out[i]);
	if (there)
		return true;
	if (!reads_constants(n) && !run_jobs(w))
		return false;
	for (int i = 0; i < n->nout; i++)
		if (!place(w, n->out[i], n))
			return false;
	kernel_physical(k);
	if (!kernel_move(k, m))
		return interpret(w, n, k);
	from = value_base(node_in(n, m->param));
	src = source(w, node_in(n, m->param));
	if (p->kind == PLACE_WEIGHTS)
		add_jobs(w, m, src, value_const(from) && value_const(from)->file,
			 file_at(w, n->out[0]));
	else
		move_box(m, src, (int64_t[MAX_ITERS]){0}, m->extent, w->data[n->out[0]->id]);
	return true;
}

static void hash_all(Weights *w, uint64_t *hash)
{
	dl_hash h;

	dl_hash_init(&h);
	for (int64_t at = 0; at < w->m->mem->weights; at += CHUNK) {
		size_t n = (size_t)(w->m->mem->weights - at < CHUNK ? w->m->mem->weights - at
								    : CHUNK);

		dl_hash_update(&h, w->base + at, n);
		if (w->m->mem->weights > BLOCK)
			drop_pages(w->base + at, n);
	}
	*hash = dl_hash_value(&h);
}

/* The weights of M, as LAYOUT has them; *HASH only without. */
static bool write_module(Module *m, const WeightsFile *layout, int fd, int64_t base, int threads,
			 uint64_t *hash)
{
	Weights w = {.m = m, .layout = layout, .fd = fd, .file = base, .threads = threads};
	size_t total = (size_t)(layout ? layout->bytes : m->mem->weights);
	bool ok = true;

	if (!total)
		return true;
	if (ftruncate(fd, base + (int64_t)total))
		return diag_error(m->ctx->diag, here(&w), "cannot write %zu bytes of weights: %s",
				  total, strerror(errno));
	w.base = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, base);
	if (w.base == MAP_FAILED)
		return diag_error(m->ctx->diag, here(&w), "cannot map the weights: %s",
				  strerror(errno));
	w.data = NEW_ARRAY(m->arena, m->graph->nvalues + 1, void *);
	w.mine = NEW_ARRAY(m->arena, m->graph->nvalues + 1, size_t);
	for (int i = 0; i < m->mem->stored.n; i++)
		if (value_const(m->mem->stored.at[i]))
			copy_const(&w, m->mem->stored.at[i]);
	for (Node *n = m->graph->first; n && ok; n = n->next)
		if (node_kernel(n) && n->nout && value_is_weights(m, n->out[0]))
			ok = compute(&w, n);
	ok = ok && run_jobs(&w);
	if (ok && !layout)
		hash_all(&w, hash);
	for (int i = 0; i < m->graph->nvalues; i++)
		if (w.mine[i])
			munmap(w.data[i], w.mine[i]);
	munmap(w.base, total);
	return ok;
}

int64_t weights_size(Module *m)
{
	return m->gpu ? weights_file(m)->bytes : m->mem->weights;
}

/* The hash of N bytes of FD from AT on. */
static bool hash_file(int fd, int64_t at, int64_t n, uint64_t *hash)
{
	Weights all = {.base = mmap(NULL, (size_t)n, PROT_READ, MAP_SHARED, fd, at)};
	MemPlan plan = {.weights = n};
	Module m = {.mem = &plan};

	if (all.base == MAP_FAILED)
		return false;
	all.m = &m;
	hash_all(&all, hash);
	munmap(all.base, (size_t)n);
	return true;
}

bool weights_write(Module *m, int fd, int64_t base, int threads, uint64_t *hash)
{
	const WeightsFile *all = weights_file(m);

	if (!write_module(m, NULL, fd, base, threads, hash))
		return false;
	if (!all || all->bytes <= all->own)
		return true;
	return write_module(m->gpu, all, fd, base, threads, hash) &&
	       (hash_file(fd, base, all->bytes, hash) ||
		diag_error(m->ctx->diag, (DiagLoc){.file = m->graph->file},
			   "cannot map the weights: %s", strerror(errno)));
}
