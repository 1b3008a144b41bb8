/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes all weights of a module, and computes their hash. Weights are constants, and results of
 * nodes that read only constants, in the order of the graph. Moves are queued as jobs, which run
 * before something reads their results.
 */
#include "codegen/weights/weights_impl.h"

#include "base/sys.h"
#include "passes/forms/kernels.h"
#include "runtime/hash.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { CHUNK = 8 << 20 }; /* bytes that are hashed before their pages are released */

DiagLoc weights_here(const WeightsRun *w)
{
	return (DiagLoc){.file = w->m->graph->file};
}

size_t weights_bytes(Module *m, const Value *v)
{
	int64_t n = 0;

	dim_is_const(type_storage(m->ctx, v->type), &n);
	return (size_t)(n * dtype_info[v->type->dtype].bits + 7) / 8;
}

void *weights_source(WeightsRun *w, Value *v)
{
	v = value_base(v);
	if (value_const(v))
		return (void *)(uintptr_t)value_const(v)->data;
	return w->data[v->id];
}

/* The offset of V in the file. */
static int64_t file_at(const WeightsRun *w, const Value *v)
{
	return w->layout ? w->layout->at[v->id] : w->m->mem->value[v->id].offset;
}

/* Whether V was already written, because the plan for CPUs shares it. */
static bool already_written(const WeightsRun *w, const Value *v)
{
	return w->layout && w->m->mem->value[v->id].kind == PLACE_WEIGHTS &&
	       w->layout->at[v->id] < w->layout->own;
}

static void copy_tensor(WeightsRun *w, const Tensor *t, int64_t at)
{
	Move *m = NEW(w->m->arena, Move);

	*m = move_plain(t->bytes, 1);
	if (t->bytes)
		weights_add_jobs(w, m, t->data, tensor_in_file(t), at);
}

/* Writes the constants that are stored, and the default values of inputs. */
static void copy_constants(WeightsRun *w)
{
	const MemPlan *mem = w->m->mem;

	VEC_EACH (v, &mem->stored)
		if (value_const(v) && !already_written(w, v))
			copy_tensor(w, value_const(v), file_at(w, v));
	for (int i = 0; mem->presets && i < w->m->graph->inputs.n; i++)
		if (mem->presets[i] >= 0)
			copy_tensor(w, w->m->graph->inputs.at[i]->preset, mem->presets[i]);
}

static bool place(WeightsRun *w, Value *v, const Node *n)
{
	const Place *p = &w->m->mem->value[v->id];

	if (p->kind == PLACE_WEIGHTS) {
		w->data[v->id] = w->base + file_at(w, v);
		return true;
	}
	w->anonymous[v->id] = weights_bytes(w->m, v) + 64;
	w->data[v->id] = mmap(NULL, w->anonymous[v->id], PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->data[v->id] != MAP_FAILED)
		return true;
	w->anonymous[v->id] = 0;
	return diag_error(w->m->ctx->diag, node_diag(n), "no memory for %zu bytes of constants",
			  weights_bytes(w->m, v));
}

/* Whether N reads only constants, which no queued job writes. */
static bool reads_constants(const Node *n)
{
	for (int i = 0; i < n->nin; i++)
		if (!value_const(value_base(node_in(n, i))))
			return false;
	return true;
}

static bool compute(WeightsRun *w, Node *n)
{
	Kernel *k = kernel_clone(node_kernel(n), w->m->arena);
	const Place *p = &w->m->mem->value[n->out[0]->id];
	Move *m = NEW(w->m->arena, Move);
	const Value *from;
	const void *src;
	bool there = true;

	for (int i = 0; i < n->nout; i++)
		there = there && already_written(w, n->out[i]);
	for (int i = 0; i < n->nout && there; i++)
		w->data[n->out[i]->id] = w->base + file_at(w, n->out[i]);
	if (there)
		return true;
	if (!reads_constants(n) && !weights_run_jobs(w))
		return false;
	for (int i = 0; i < n->nout; i++)
		if (!place(w, n->out[i], n))
			return false;
	kernel_physical(k);
	if (!kernel_move(k, m))
		return weights_interpret(w, n, k);
	from = value_base(node_in(n, m->param));
	src = weights_source(w, node_in(n, m->param));
	if (p->kind == PLACE_WEIGHTS)
		weights_add_jobs(w, m, src, value_const(from) && tensor_in_file(value_const(from)),
				 file_at(w, n->out[0]));
	else
		move_box(m, src, (int64_t[MAX_ITERS]){0}, m->extent, w->data[n->out[0]->id]);
	return true;
}

static void hash_all(WeightsRun *w, uint64_t *hash)
{
	dl_hash h;

	dl_hash_init(&h);
	for (int64_t at = 0; at < w->m->mem->weights; at += CHUNK) {
		size_t n = (size_t)(w->m->mem->weights - at < CHUNK ? w->m->mem->weights - at
								    : CHUNK);

		dl_hash_update(&h, w->base + at, n);
		if (w->m->mem->weights > WEIGHTS_BLOCK)
			drop_pages(w->base + at, n);
	}
	*hash = dl_hash_value(&h);
}

/* Writes the weights of M at the offsets of LAYOUT. Sets *HASH only if LAYOUT is null. */
static bool write_module(Module *m, const WeightsFile *layout, int fd, int64_t base, int threads,
			 uint64_t *hash)
{
	WeightsRun w = {.m = m, .layout = layout, .fd = fd, .file = base, .threads = threads};
	size_t total = (size_t)(layout ? layout->bytes : m->mem->weights);
	bool ok = true;

	if (!total)
		return true;
	if (ftruncate(fd, base + (int64_t)total))
		return diag_error(m->ctx->diag, weights_here(&w),
				  "cannot write %zu bytes of weights: %s", total, strerror(errno));
	w.base = mmap(NULL, total, PROT_READ | PROT_WRITE, MAP_SHARED, fd, base);
	if (w.base == MAP_FAILED)
		return diag_error(m->ctx->diag, weights_here(&w), "cannot map the weights: %s",
				  strerror(errno));
	w.data = NEW_ARRAY(m->arena, m->graph->nvalues + 1, void *);
	w.anonymous = NEW_ARRAY(m->arena, m->graph->nvalues + 1, size_t);
	copy_constants(&w);
	for (Node *n = m->graph->first; n && ok; n = n->next)
		if (node_kernel(n) && n->nout && value_is_weights(m, n->out[0]))
			ok = compute(&w, n);
	ok = ok && weights_run_jobs(&w);
	if (ok && !layout)
		hash_all(&w, hash);
	for (int i = 0; i < m->graph->nvalues; i++)
		if (w.anonymous[i])
			munmap(w.data[i], w.anonymous[i]);
	munmap(w.base, total);
	return ok;
}

int64_t weights_size(Module *m)
{
	return m->gpu ? weights_file(m)->bytes : m->mem->weights;
}

/* Hashes N bytes of FD from AT onwards. */
static bool hash_file(int fd, int64_t at, int64_t n, uint64_t *hash)
{
	WeightsRun all = {.base = mmap(NULL, (size_t)n, PROT_READ, MAP_SHARED, fd, at)};
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

static bool weights_may_fault(Module *m)
{
	for (Node *n = m->graph->first; n; n = n->next)
		if (node_kernel(n) && n->nout && value_is_weights(m, n->out[0]) &&
		    kernel_can_fault(node_kernel(n)))
			return true;
	return m->gpu && weights_may_fault(m->gpu);
}

bool weights_check(Module *m)
{
	uint64_t hash;
	FILE *f;
	bool ok;

	if (!weights_may_fault(m))
		return true;
	f = tmpfile();
	if (!f)
		return diag_error(m->ctx->diag, (DiagLoc){.file = m->graph->file},
				  "cannot make a temporary file: %s", strerror(errno));
	ok = weights_write(m, fileno(f), 0, 1, &hash);
	fclose(f);
	return ok;
}
