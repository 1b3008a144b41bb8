/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk copies (ir/loop/loop.h, BulkCopy): the elements of a buffer that the thread groups of a
 * block own together are contiguous, and move between global and shared memory as a whole: each
 * thread 16 bytes at a time, and the remainder at the end by elements. The range of each block
 * begins at a multiple of 16 bytes.
 */
#include "codegen/nvptx/kernel.h"

#include <assert.h>

enum { ACCESS = 16 };

/* A bulk copy of the block that is being emitted. */
typedef struct BlockBulk {
	LlKernel *k;
	const BulkCopy *s;
	int64_t most;      /* elements, at most */
	const char *first; /* index of the first one, as i64 */
	const char *count; /* number of elements */
	const char *shared;
} BlockBulk;

/* The iterations of a block; the last block may have fewer. */
static const char *iterations(LlKernel *k, int groups)
{
	LlFn *f = &k->f;
	Ctx *c = f->g->ctx;
	const char *left;

	if (dim_multiple(c, k->stage->extent, groups))
		return ll_number(f, groups);
	left = ll_set(f, "sub nsw i64 %s, %%first", ll_dim(k, k->stage->extent));
	return ll_set(f, "select i1 %s, i64 %s, i64 %d", ll_op(f, "icmp slt i64", left, groups),
		      left, groups);
}

static const char *times(LlKernel *k, const char *x, Dim *each)
{
	return ll_set(&k->f, "mul nuw nsw i64 %s, %s", x, ll_dim(k, each));
}

static BlockBulk part_of(LlKernel *k, const BulkCopy *s)
{
	const int groups = k->stage->block.threads / k->stage->block.group;
	BlockBulk p = {.k = k, .s = s, .most = s->most * groups};

	if (dim_equals(s->each, 0)) {
		p.most = 1;
		p.first = "0";
		p.count = "1";
		return p;
	}
	assert(groups * dtype_bytes(s->buf->dtype) % ACCESS == 0);
	p.first = times(k, "%first", s->each);
	p.count = times(k, iterations(k, groups), s->each);
	return p;
}

/* Copies a value of TYPE, aligned to ALIGN bytes, at element AT of the range. */
static void move(const BlockBulk *p, const char *type, int align, const char *at)
{
	LlFn *f = &p->k->f;
	const char *stored = ll_stored(p->s->buf->dtype), *in, *in_shared, *in_global, *all;
	const bool out = p->s->written;

	ll_access(p->k, (MemAccess){.memory = p->shared, .to = 1, .write = !out});
	ll_access(p->k, (MemAccess){.memory = p->s->buf, .to = 1, .write = out});
	in = ll_set(f, "add nuw nsw i64 %s, %s", p->first, at);
	in_shared = ll_gep(f, stored, 3, p->shared, at);
	in_global = ll_gep(f, stored, 1, ll_buf_name(p->k, p->s->buf), in);
	all = ll_set(f, "load %s, ptr addrspace(%d) %s, align %d", type, out ? 3 : 1,
		     out ? in_shared : in_global, align);
	ll_put(f, "store %s %s, ptr addrspace(%d) %s, align %d", type, all, out ? 1 : 3,
	       out ? in_global : in_shared, align);
}

/* Copies WHOLE accesses of VALUES elements each. */
static void move_whole(const BlockBulk *p, int values, const char *whole)
{
	LlKernel *k = p->k;
	LlFn *f = &k->f;
	const int threads = k->stage->block.threads;
	const char *type = arena_printf(f->arena, "<%d x %s>", values, ll_stored(p->s->buf->dtype));

	for (int64_t at = 0; at < p->most / values; at += threads) {
		const char *t = ll_plus(f, "%tid", at), *after = ll_open_if_in(k, t, NULL, whole);

		move(p, values == 1 ? ll_stored(p->s->buf->dtype) : type, ACCESS,
		     ll_op(f, "mul nuw nsw i64", t, values));
		ll_close_if(k, after);
	}
}

/* Copies the remaining elements, fewer than VALUES, after the WHOLE accesses. */
static void move_rest(const BlockBulk *p, int values, const char *whole)
{
	LlKernel *k = p->k;
	LlFn *f = &k->f;
	const char *from = ll_op(f, "mul nuw nsw i64", whole, values),
		   *at = ll_set(f, "add nuw nsw i64 %s, %%tid", from), *after;

	after = ll_open_if_in(k, at, NULL, p->count);
	move(p, ll_stored(p->s->buf->dtype), dtype_bytes(p->s->buf->dtype), at);
	ll_close_if(k, after);
}

static void move_bulk(const BlockBulk *p)
{
	LlFn *f = &p->k->f;
	const int values = ACCESS / dtype_bytes(p->s->buf->dtype);
	Dim *all = dim_mul(f->g->ctx, p->k->stage->extent, p->s->each);
	const bool one = p->most == 1;
	const char *whole = one ? "0" : ll_op(f, "udiv i64", p->count, values);

	if (!one)
		move_whole(p, values, whole);
	if (one || !dim_multiple(f->g->ctx, all, values))
		move_rest(p, values, whole);
}

void ll_bulk_in(LlKernel *k)
{
	VEC_EACH_AT (s, &k->stage->block.bulk) {
		BlockBulk p = part_of(k, s);

		p.shared = ll_declare_bulk(k, s->buf, p.most, p.first);
		if (!s->written)
			move_bulk(&p);
	}
}

void ll_bulk_out(LlKernel *k)
{
	bool any = false;

	VEC_EACH_AT (s, &k->stage->block.bulk) {
		BlockBulk p;

		if (!s->written)
			continue;
		if (!any)
			ll_barrier(k);
		any = true;
		p = part_of(k, s);
		p.shared = ll_bulk_name(k, s->buf);
		move_bulk(&p);
	}
}
