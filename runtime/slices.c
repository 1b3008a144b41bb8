/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A batch in slices (dl_program.slice). Each thread takes whole slices and computes the whole
 * program for them, in separate memory. Threads then do not wait for each other after each kernel,
 * and none reads or overwrites data in another's caches, which is slow if they share no cache. A
 * batch is rarely a multiple of the threads' slices; all threads together compute its last
 * elements, kernel by kernel. They compute the whole batch in this way, a slice for each thread at
 * a time, if there are fewer than two slices for each thread, since a fast thread could then not
 * help a slow one; and in a profile, because the times of a kernel in several threads would be
 * added up.
 */
#include "runtime/rt.h"

#include <string.h>

/* A batch of ALL elements, which is computed for X's context. */
typedef struct Batch {
	dl_exec *x;
	int64_t all;
	_Atomic int32_t status; /* of a slice that failed */
} Batch;

Slices rt_slices(const dl_model *m, const int64_t *sym)
{
	const dl_program *p = m->prog;
	const int64_t round = dl_mul(p->slice, m->threads), all = p->slice ? sym[p->slice_sym] : 0;

	if (!p->slice || round >= all)
		return (Slices){0, 0};
	if (m->threads == 1 || m->profile || round > all / 2)
		return (Slices){0, round};
	return (Slices){all - all % round, round};
}

/* The bytes of a thread's arrays of dl_exec: sym, in, out and buf. */
static int64_t array_bytes(const dl_program *p)
{
	const uint64_t n = rt_n_sym(p) + (uint64_t)p->desc->n_in + (uint64_t)p->desc->n_out +
			   (uint64_t)p->n_buf;

	return dl_align((int64_t)(n * sizeof(int64_t)));
}

int64_t rt_slice_bytes(const dl_program *p, int64_t arena, int64_t scratch, int64_t *scratch_at)
{
	*scratch_at = dl_add(array_bytes(p), arena);
	return dl_add(*scratch_at, scratch);
}

/* Makes X a copy of FROM with separate arrays, at MEMORY. */
static void own_arrays(dl_exec *x, const dl_exec *from, char *memory)
{
	const dl_program *p = from->prog;
	const dl_desc *d = p->desc;
	char *arena = memory + array_bytes(p);

	*x = *from;
	x->sym = (int64_t *)(void *)memory;
	x->in = (void **)(void *)(x->sym + rt_n_sym(p));
	x->out = x->in + d->n_in;
	x->buf = x->out + d->n_out;
	memcpy(x->sym, from->sym, rt_n_sym(p) * sizeof(*x->sym));
	memcpy(x->in, from->in, (size_t)d->n_in * sizeof(*x->in));
	memcpy(x->out, from->out, (size_t)d->n_out * sizeof(*x->out));
	for (int32_t b = 0; b < p->n_buf; b++) {
		const int64_t at = from->ctx->slice_offset[b];

		x->buf[b] = at < 0 ? NULL : arena + at;
	}
}

/* Moves the data of each of X's inputs and outputs that has a dim of the ALL elements of a batch by
 * N elements. */
static void move(dl_exec *x, int64_t n, int64_t all)
{
	const dl_program *p = x->prog;
	const dl_desc *d = p->desc;

	for (int32_t i = 0; i < d->n_in + d->n_out; i++) {
		const bool in = i < d->n_in;
		const dl_io *io = in ? dl_desc_in(d, i) : dl_desc_out(d, i - d->n_in);
		const int64_t *shape = in ? x->in_shape[i] : x->out_shape[i - d->n_in];
		void **data = in ? &x->in[i] : &x->out[i - d->n_in];
		const int64_t each = rt_bytes(io->dtype, rt_volume(shape, io->rank)) / all;
		bool moves = false;

		for (int32_t k = 0; k < io->rank; k++)
			moves = moves || dl_io_dim(io, k)->sym == p->slice_sym;
		if (moves && each)
			*data = (char *)*data + each * n;
	}
}

/* A job: slices BEGIN to END - 1, in the thread's MEMORY. */
static void run_slices(const dl_kctx *k, int64_t begin, int64_t end, void *memory)
{
	Batch *batch = k->buf[0];
	const dl_program *p = batch->x->prog;
	PoolThread alone = {.scratch = (char *)memory + batch->x->ctx->slice_scratch};
	dl_exec x;

	own_arrays(&x, batch->x, memory);
	x.thread = &alone;
	x.sym[p->slice_sym] = p->slice;
	move(&x, begin * p->slice, batch->all);
	for (int64_t i = begin; i < end && !x.status; i++) {
		p->exec(&x);
		move(&x, p->slice, batch->all);
	}
	if (x.status)
		batch->status = x.status;
}

/* Computes the first N elements of a batch of ALL; each thread computes whole slices. */
static int divide(dl_exec *x, int64_t n, int64_t all)
{
	dl_context *c = x->ctx;
	Batch batch = {x, all, DL_OK};
	void *const arg[] = {&batch};
	const dl_kctx k = {.buf = arg};
	Job job = {.fn = run_slices,
		   .k = &k,
		   .n = n / x->prog->slice,
		   .grain = 1,
		   .scratch = c->arena,
		   .scratch_bytes = c->slice_bytes,
		   .flush = x->prog->desc->flags & DL_DESC_FLUSH};

	rt_job_run(c, &job);
	return batch.status || __atomic_load_n(&c->fault, __ATOMIC_RELAXED)
		       ? rt_exec_failed(x, batch.status)
		       : DL_OK;
}

int rt_exec_slices(dl_exec *x, Slices s)
{
	const dl_program *p = x->prog;
	int64_t *size = &x->sym[p->slice_sym];
	const int64_t all = *size;
	int64_t from = s.apart;
	int rc;

	x->part = 1;
	rc = s.apart ? divide(x, s.apart, all) : DL_OK;
	move(x, from, all);
	while (from < all && !rc && !x->status) {
		*size = s.together < all - from ? s.together : all - from;
		rc = rt_exec_host(x);
		move(x, *size, all);
		from += *size;
	}
	move(x, -from, all);
	*size = all;
	x->part = 0;
	return rc;
}
