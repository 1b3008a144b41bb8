/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging on GPUs: a block fetches elements of memory once, to shared memory or to the registers of
 * its threads, and the statements read the copies. A strategy chooses the loads and the order in
 * which threads fetch. This file has the parts that all strategies share: which loads may be
 * staged, the declaration of a copy, the loops that fill it, and the statements' loads of it.
 *
 * Likewise a stage holds temporaries between its statements, in registers of the threads or in the
 * block's shared memory, instead of passing them through global memory. A strategy says how much of
 * each dim it holds; here the buffer is made that stands for the temporary.
 */
#include "passes/schedule/gpu/gpu_impl.h"

#include "base/round.h"

bool gpu_may_stage(const Row *r, const Expr *load)
{
	const Buf *b = load->load.buf;

	return !b->data && dtype_info[b->dtype].bits >= 8 && !gpu_writes(r, b);
}

int64_t gpu_shared_bytes(int64_t bytes)
{
	return bytes < INT64_MAX ? round_up(bytes, LINE) : bytes;
}

LNode *gpu_declare(LBuild *b, Buf *buf, Expr *at)
{
	LNode *n = l_node(b, LN_LOCAL);

	n->local.buf = buf;
	n->local.at = at;
	return n;
}

LNode *gpu_fetch(LBuild *b, Iter *it, Expr *end, Buf *copy, Expr *val, Expr *guard)
{
	LNode *loop = l_loop(b, LOOP_GROUP, it, l_int(b, 0), end, 1);

	l_store(b, copy, ex_iter(b->p, it), val, guard);
	l_close(b, loop);
	return loop;
}

LNode *gpu_open_access(LBuild *b, Iter *it, Expr *lo, Expr *end, int vector, Expr *guard)
{
	Expr *hi = ex_add(b->p, lo, l_int(b, vector));
	LNode *loop;

	if (end)
		hi = l_min(b, hi, end);
	if (guard)
		hi = ex_op3(b->p, IN_select, guard, hi, lo);
	loop = l_loop(b, LOOP_VECTOR, it, lo, hi, 1);
	loop->share.vector = vector;
	return loop;
}

Expr *gpu_from_copies(ExprPool *p, Expr *e, const Staged *of, int n)
{
	EX_MAP (x, p, &e)
		for (int i = 0; i < n; i++)
			if (of[i].load == x) {
				x = ex_load(p, of[i].copy, &(Expr *){of[i].at}, 1);
				break;
			}
	return e;
}

/* ---- Temporaries ---- */

/* The band index of the iterator by which S writes dim D; -1: S writes it by another index. */
static int written_along(const Row *r, const Stmt *s, int d)
{
	return s->widx[d]->kind == EX_ITER ? band_index(r->band, s, s->widx[d]->iter) : -1;
}

/* At each point of the band, S writes a single index of dim D. */
static bool is_banded(const Row *r, const Stmt *s, int d)
{
	for (int i = 0; i < s->niters; i++)
		if (band_index(r->band, s, s->iter[i]) < 0 && expr_has_iter(s->widx[d], s->iter[i]))
			return false;
	return true;
}

Buf *gpu_hold(Row *r, const Stmt *s, const Buf *t, const Held *h)
{
	Dim *dims[MAX_RANK] = {NULL};
	int n = 0, inner = -1;
	Buf *b;

	if (!row_may_be_local(r, s, t))
		return NULL;
	for (int i = 0; i < t->rank; i++) {
		const int d = buf_memory_dim(t, i), g = written_along(r, s, d);
		const bool known = !h->most || dim_is_const(t->dims[d], NULL);
		const Keep keep = g >= 0 && g == h->along                           ? KEEP_BLOCK
				  : g >= 0 && g == h->rows                          ? KEEP_ROWS
				  : is_banded(r, s, d) || dim_equals(t->dims[d], 1) ? KEEP_NOT
										    : KEEP_ALL;

		r->keep[t->id][d] = keep;
		inner = h->columns && keep == KEEP_BLOCK ? n : inner;
		if (keep != KEEP_NOT)
			dims[n++] = keep == KEEP_BLOCK  ? h->many
				    : keep == KEEP_ROWS ? h->nrows
				    : known             ? t->dims[d]
							: h->most;
	}
	b = r->local[t->id] = kernel_temp(r->k, t->name, t->dtype, n, dims);
	if (inner >= 0)
		b->layout = row_layout_with_inner(r->b->arena, n, inner);
	return b;
}

int64_t gpu_bytes_of(const Buf *b)
{
	enum { MOST = 1 << 20 };
	const int64_t bytes = buf_bytes(b, MOST);

	return bytes < 0 ? INT64_MAX : bytes;
}

/* ---- Alignment ---- */

/* Alignment of accesses on GPUs. Memory moves whole sectors of 32 bytes, and a thread accesses at
 * most 16 bytes at a time, at a multiple of the access's size. Where rows begin within a sector,
 * each access of a warp would touch one sector more than it needs. So strategies peel the first
 * access: lanes begin at the sector's boundary, and the first ones have no element. Rows of 50 f32
 * (200 bytes) begin 0, 8, 16 or 24 bytes after a boundary, and every fourth row begins alike.
 */

int64_t gpu_sector(int bytes)
{
	return SECTOR / bytes;
}

int gpu_vector(int bytes, int most)
{
	return VECTOR_BYTES / bytes < most ? VECTOR_BYTES / bytes : most;
}

int64_t gpu_divides(Ctx *c, Dim *d, int64_t most)
{
	while (most > 1 && !dim_multiple(c, d, most))
		most /= 2;
	return most;
}

int64_t gpu_aligned(Ctx *c, const Affine *at, const Iter *but, int64_t most)
{
	while (most > 1 && !affine_aligned(c, at, but, most))
		most /= 2;
	return most;
}

int64_t gpu_period(int64_t bytes)
{
	int64_t n = SECTOR;

	while (n > 1 && bytes * (n / 2) % SECTOR == 0)
		n /= 2;
	return n;
}

Expr *gpu_peel(LBuild *b, Expr *at, Iter *const *it, Expr *const *first, int n, int bytes)
{
	return ex_op2(b->p, IN_mod, ex_subst_iters(b->p, at, it, first, n),
		      l_int(b, gpu_sector(bytes)));
}
