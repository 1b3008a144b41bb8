/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposes on GPUs: maps whose loads are contiguous along other iterators than their store. A
 * block has a tile of points. It fetches the elements of the transposed loads to shared memory in
 * the order of the loads, and stores in the order of the store. A tile has whole iterators,
 * innermost ones first, and a part of one more, until the contiguous ranges of both the loads and
 * the store are long; so short rows, and batches of small matrices, have long ranges, too. Accesses
 * are of 16 bytes where sizes allow. Rows of the tile in shared memory are padded to an odd number
 * of elements, so that neither direction has bank conflicts. Where ranges are misaligned, as they
 * may be where sizes are not known, their first access is peeled to the boundary of a sector.
 * Transposes that keep rows of unknown length whole have tiles of their own
 * (passes/schedule/gpu/transpose_rows.c).
 */
#include "passes/schedule/gpu/transpose_impl.h"

enum {
	TILE = 1024,
	/* times as many points where contiguous ranges are misaligned: 24 KiB, of which an SM has
	 * room for several */
	MISALIGNED_TIMES = 6,
	/* bytes, accessed by 16: for rows so long, partial sectors are a small part */
	LONG_ROW = 10 * SECTOR
};

int64_t transpose_sector(const Way *w)
{
	return gpu_sector(dtype_bytes(w->buf->dtype));
}

static Dim *step(const TransposePlan *t, const Way *w, int i)
{
	return affine_coef(t->p->k->ctx, &w->a, t->p->it[i]);
}

bool transpose_way(const TransposePlan *t, const Buf *buf, Expr *at, Way *w)
{
	Ctx *c = t->p->k->ctx;
	Dim *next = dim_const(c, 1);

	*w = (Way){.buf = buf, .at = at};
	if (!ex_affine(c, at, &w->a))
		return false;
	for (int i = t->p->n - 1; i >= 0; i--) {
		bool taken = false;

		for (int j = 0; j < w->n; j++)
			taken = taken || w->along[j] == i;
		if (taken || step(t, w, i) != next)
			continue;
		w->along[w->n++] = i;
		next = dim_mul(c, next, t->p->it[i]->extent);
		i = t->p->n;
	}
	return true;
}

/* ---- What turns ---- */

static bool long_row(const Way *w, int64_t n)
{
	const int64_t bytes = n * dtype_bytes(w->buf->dtype);

	return bytes >= LONG_ROW && bytes % VECTOR_BYTES == 0;
}

/* Both the load and the store are contiguous along the same COMMON innermost iterators: whole rows
 * are permuted. A tile pays if rows are no multiple of a sector and not long. Each iterator must
 * have a step of its own in the load. Rows of unknown length must be a single iterator. */
static bool permutes_rows(const TransposePlan *t, const Way *in, int common)
{
	Ctx *c = t->p->k->ctx;
	Dim *row = dim_const(c, 1);
	int64_t n;

	for (int i = 0; i < common; i++)
		row = dim_mul(c, row, t->p->it[in->along[i]]->extent);
	if (dim_multiple(c, row, transpose_sector(in)) &&
	    dim_multiple(c, row, transpose_sector(&t->out)))
		return false;
	if (dim_is_const(row, &n) ? long_row(in, n) && long_row(&t->out, n) : common > 1)
		return false;
	for (int i = 0; i < t->p->n; i++) {
		if (dim_equals(step(t, in, i), 0))
			return false;
		for (int j = 0; j < i; j++)
			if (step(t, in, i) == step(t, in, j))
				return false;
	}
	return true;
}

/* IN and the store are contiguous along the same *COMMON innermost iterators, and then along
 * different ones. */
static bool is_transposed(const TransposePlan *t, const Way *in, int *common)
{
	int i = 0;

	while (i < in->n && i < t->out.n && in->along[i] == t->out.along[i])
		i++;
	*common = i;
	return i < in->n && i < t->out.n && !dim_equals(step(t, in, t->out.along[i]), 0) &&
	       (!i || permutes_rows(t, in, i));
}

/* Collects the transposed loads that every point makes and that are contiguous along the same
 * iterators as the first one. */
static void find_transposed(TransposePlan *t, Expr *e)
{
	int common;
	Way w;

	if (e->load.buf->data || dtype_info[e->load.buf->dtype].bits < 8 || t->n == MOST_LOADS ||
	    !transpose_way(t, e->load.buf, e->load.idx[0], &w) || !is_transposed(t, &w, &common))
		return;
	if (t->n && (common != t->common || w.along[common] != t->in[0].along[common]))
		return;
	t->common = common;
	t->in[t->n] = w;
	t->load[t->n++] = e;
}

/* ---- The tile ---- */

bool transpose_whole(const TransposePlan *t, int i)
{
	return dim_equals(t->p->it[i]->extent, t->tile[i]);
}

int64_t transpose_run(const TransposePlan *t, const Way *w, int *n)
{
	int64_t run = 1;

	for (*n = 0; *n < w->n && t->tile[w->along[*n]] > 1; ++*n) {
		run *= t->tile[w->along[*n]];
		if (!transpose_whole(t, w->along[*n])) {
			++*n;
			break;
		}
	}
	return run;
}

int64_t transpose_points(const TransposePlan *t)
{
	int64_t n = 1;

	for (int i = 0; i < t->p->n; i++)
		n *= t->tile[i];
	return n;
}

int transpose_order(const TransposePlan *t, const Way *w, int *order)
{
	bool seen[MAX_ITERS] = {false};
	int n = 0;

	for (int i = 0; i < w->n + t->p->n; i++) {
		const int it = i < w->n ? w->along[i] : i - w->n;

		if (!seen[it] && t->tile[it] > 1)
			order[n++] = it;
		seen[it] = true;
	}
	return n;
}

int64_t transpose_steps(const TransposePlan *t, const Way *w, int64_t *steps)
{
	const int odd = t->out.along[t->common];
	int order[MAX_ITERS];
	const int count = transpose_order(t, w, order);
	int64_t n = 1;

	for (int i = 0; i < t->p->n; i++)
		steps[i] = 0;
	for (int i = 0; i < count; i++) {
		steps[order[i]] = order[i] == odd ? n | 1 : n;
		n = steps[order[i]] * t->tile[order[i]];
	}
	return n;
}

static bool fits(const TransposePlan *t)
{
	int64_t bytes = 0, steps[MAX_ITERS];

	for (int i = 0; i < t->n; i++)
		bytes += transpose_steps(t, &t->in[i], steps) *
			 ((dtype_info[ctype_dtype(t->load[i]->ct)].bits + 7) / 8);
	return bytes <= SHARED;
}

/* Points of iterator I in the next larger tile: all points of a short one, so that the contiguous
 * range can continue in the next iterator. */
static int64_t larger(const TransposePlan *t, int i)
{
	int64_t n, twice = t->tile[i] == 1 ? SIDE : 2 * t->tile[i];

	if (!dim_is_const(t->p->it[i]->extent, &n))
		return twice;
	return n <= twice || (t->tile[i] == 1 && n < LONG && n % SIDE) ? n : twice;
}

/* Extends the contiguous range of W, to a tile of at most MOST points, or more if the range is
 * shorter than SIDE. If no larger tile is possible, tries fewer points of an iterator, but not of
 * the innermost one. */
static bool grow(TransposePlan *t, const Way *w, int64_t most)
{
	int n, k = 0, i;
	const int64_t run = transpose_run(t, w, &n);

	while (k < w->n && transpose_whole(t, w->along[k]))
		k++;
	if (k == w->n)
		return false;
	i = w->along[k];
	for (int64_t was = t->tile[i], least = k ? 2 : SIDE, size = larger(t, i);;
	     size = size > SIDE ? SIDE : size / 2) {
		t->tile[i] = size;
		if (fits(t) && (transpose_points(t) <= most || run < SIDE))
			return true;
		t->tile[i] = was;
		if (was > 1 || size / 2 < least)
			return false;
	}
}

static void grow_all(TransposePlan *t, int64_t most)
{
	bool grew = true;
	int n;

	while (grew) {
		const bool in = transpose_run(t, &t->in[0], &n) <= transpose_run(t, &t->out, &n);

		grew = grow(t, in ? &t->in[0] : &t->out, most) ||
		       grow(t, in ? &t->out : &t->in[0], most);
	}
}

bool transpose_misaligned(const TransposePlan *t, const Way *w)
{
	Ctx *c = t->p->k->ctx;
	const int64_t sector = transpose_sector(w);
	bool aligned = dim_multiple(c, w->a.base, sector);
	int n;

	transpose_run(t, w, &n);
	for (int i = 0; i < t->p->n; i++) {
		Dim *by = step(t, w, i);
		bool in_run = false;

		for (int j = 0; j < n; j++)
			in_run = in_run || w->along[j] == i;
		if (in_run && transpose_whole(t, i))
			continue;
		if (in_run)
			by = dim_mul(c, by, dim_const(c, t->tile[i]));
		aligned = aligned && dim_multiple(c, by, sector);
	}
	return !aligned;
}

static bool any_misaligned(const TransposePlan *t)
{
	bool any = transpose_misaligned(t, &t->out);

	for (int i = 0; i < t->n; i++)
		any = any || transpose_misaligned(t, &t->in[i]);
	return any;
}

/* Chooses a tile of about TILE points; more where ranges are misaligned, as each has a partial
 * sector at both ends. */
static bool shape(TransposePlan *t)
{
	int64_t points = dtype_bytes(t->in[0].buf->dtype) < 4 ? 2 * TILE : TILE;
	int n;

	for (int i = 0; i < t->p->n; i++)
		t->tile[i] = 1;
	grow_all(t, points);
	if (any_misaligned(t))
		grow_all(t, points * MISALIGNED_TIMES);
	return transpose_run(t, &t->out, &n) > 1 && transpose_run(t, &t->in[0], &n) > 1;
}

/* Finds the transposed loads of S, whose points are P; false if there are none. */
static bool find(TransposePlan *t, const Stmt *s, Points *p)
{
	t->p = p;
	if (p->guard || dtype_info[s->out[0]->dtype].bits < 8 ||
	    !transpose_way(t, s->out[0], p->write, &t->out))
		return false;
	EX_EACH_LOAD_ALWAYS (e, p->e[0])
		find_transposed(t, e);
	return t->n > 0;
}

/* The length of the rows that T permutes, if it is unknown at compile time; else null. */
static Dim *unknown_row(const TransposePlan *t)
{
	Dim *n = t->common ? t->p->it[t->out.along[0]]->extent : NULL;

	return n && !dim_is_const(n, NULL) ? n : NULL;
}

Dim *gpu_transpose_length(const Stmt *s, Points *p)
{
	TransposePlan t = {.n = 0};

	return find(&t, s, p) ? unknown_row(&t) : NULL;
}

bool gpu_transpose(LBuild *b, Stmt *s, Points *p)
{
	TransposePlan t = {.b = b};

	if (!find(&t, s, p))
		return false;
	if (unknown_row(&t)) {
		transpose_rows(&t, s);
		return true;
	}
	if (!shape(&t))
		return false;
	transpose_emit(&t, s);
	return true;
}
