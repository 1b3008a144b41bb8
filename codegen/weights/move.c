/* SPDX-License-Identifier: Apache-2.0 */
#include "codegen/weights/move.h"

#include "passes/forms/kernels.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Recognition ---- */

/* *TO += A * B; false on overflow. */
static bool add_product(int64_t *to, int64_t a, int64_t b)
{
	return !__builtin_mul_overflow(a, b, &a) && !__builtin_add_overflow(*to, a, to);
}

/* Writes E as a sum over the iterators IT. */
static bool linear(Kernel *k, Expr *e, Iter *const *it, int n, int64_t *coef, int64_t *base)
{
	Affine a;
	int found = 0;

	if (!ex_affine(k->ctx, e, &a) || !dim_is_const(a.base, base))
		return false;
	for (int i = 0; i < n; i++) {
		coef[i] = 0;
		for (int j = 0; j < a.n; j++)
			if (a.iter[j] == it[i]) {
				found++;
				if (!dim_is_const(a.coef[j], &coef[i]))
					return false;
			}
	}
	return found == a.n;
}

static bool is_zero(const Expr *e)
{
	return e->kind == EX_CONST &&
	       (ctype_is_float(e->ct) ? e->f == 0 && !signbit(e->f) : e->i == 0);
}

static bool edge_of(Kernel *k, Expr *cond, Iter *const *it, Move *m)
{
	if (cond->kind != EX_INST || cond->op.inst != IN_lt || cond->op.arg[1]->kind != EX_CONST ||
	    cond->op.arg[0]->ct != CT_I64 ||
	    !linear(k, cond->op.arg[0], it, m->n, m->edge, &m->edge_base))
		return false;
	return !__builtin_sub_overflow(m->edge_base, cond->op.arg[1]->i, &m->edge_base);
}

static bool source_of(Kernel *k, Expr *e, Iter *const *it, const Buf *out, Move *m)
{
	const Buf *b = e->kind == EX_LOAD ? e->load.buf : NULL;
	int64_t stride = 1, coef[MAX_ITERS], base, extent;

	if (!b || b->kind != BUF_IN || b->data || b->layout || b->dtype != out->dtype ||
	    e->load.nidx != b->rank)
		return false;
	for (int d = b->rank - 1; d >= 0; d--) {
		if (!linear(k, e->load.idx[d], it, m->n, coef, &base) ||
		    !dim_is_const(b->dims[d], &extent))
			return false;
		if (!add_product(&m->base, base, stride))
			return false;
		for (int i = 0; i < m->n; i++)
			if (!add_product(&m->from[i], coef[i], stride))
				return false;
		if (__builtin_mul_overflow(stride, extent, &stride))
			return false;
	}
	m->total = stride;
	m->param = b->param;
	return true;
}

/* Removes iterators of extent 1, and merges adjacent iterators that one stride steps through in
 * both source and destination. */
static void merge(Move *m)
{
	int n = 0;

	for (int i = 1; i < m->n; i++) {
		int64_t e = m->extent[i], from = 0, edge = 0;

		if (e == 1)
			continue;
		if (m->extent[n] == 1 ||
		    (add_product(&from, m->from[i], e) && add_product(&edge, m->edge[i], e) &&
		     m->from[n] == from && m->edge[n] == edge))
			e *= m->extent[n];
		else
			n++;
		m->extent[n] = e;
		m->from[n] = m->from[i];
		m->edge[n] = m->edge[i];
	}
	m->n = n + 1;
}

Move move_plain(int64_t n, int size)
{
	return (Move){
		.n = 1, .size = size, .extent = {n}, .from = {1}, .edge_base = -1, .total = n};
}

bool kernel_move(Kernel *k, Move *m)
{
	Stmt *s = k->stmts.at[0];
	Expr *val = s->val[0];
	Iter *it[MAX_ITERS];

	*m = (Move){.size = dtype_bytes(s->out[0]->dtype), .edge_base = -1};
	if (k->stmts.n != 1 || !stmt_is_simple_map(s) || s->out[0]->layout ||
	    dtype_info[s->out[0]->dtype].bits % 8)
		return false;
	for (int d = 0; d < s->nwidx; d++)
		if (s->widx[d]->kind == EX_ITER) {
			it[m->n] = s->widx[d]->iter;
			if (!dim_is_const(it[m->n]->extent, &m->extent[m->n]) ||
			    m->extent[m->n] < 1)
				return false;
			m->n++;
		}
	if (!m->n)
		return false;
	if (val->kind == EX_INST && val->op.inst == IN_select && is_zero(val->op.arg[2])) {
		if (!edge_of(k, val->op.arg[0], it, m))
			return false;
		val = val->op.arg[1];
	}
	if (!source_of(k, val, it, s->out[0], m))
		return false;
	merge(m);
	return true;
}

/* ---- Boxes ---- */

bool move_step(int n, const int64_t *lo, const int64_t *hi, int64_t *x)
{
	for (int i = n - 1; i >= 0; i--) {
		if (++x[i] < hi[i])
			return true;
		x[i] = lo[i];
	}
	return false;
}

static void range(int n, const int64_t *coef, int64_t base, const int64_t *lo, const int64_t *hi,
		  int64_t *min, int64_t *max)
{
	*min = *max = base;
	for (int i = 0; i < n; i++) {
		int64_t a = coef[i] * lo[i], b = coef[i] * (hi[i] - 1);

		*min += a < b ? a : b;
		*max += a < b ? b : a;
	}
}

bool move_range(const Move *m, const int64_t *lo, const int64_t *hi, int64_t *first, int64_t *last)
{
	int64_t none, some;

	range(m->n, m->edge, m->edge_base, lo, hi, &some, &none);
	range(m->n, m->from, m->base, lo, hi, first, last);
	*first = *first < 0 ? 0 : *first;
	*last = *last >= m->total ? m->total - 1 : *last;
	return some < 0 && *first <= *last;
}

enum { TILE = 16 };

/*
 * Moves of elements of S bytes, which need not be aligned. A row reads every STEP-th element. A
 * tile is a transpose: it is read and written by rows, through a copy that fits in the cache.
 */
#define SIZED(S)                                                                             \
	static void row_##S(const char *src, int64_t step, char *dst, int64_t n)             \
	{                                                                                    \
		for (int64_t i = 0; i < n; i++)                                              \
			memcpy(dst + i * S, src + i * step * S, S);                          \
	}                                                                                    \
	static void tile_##S(const char *src, int64_t sa, int64_t sb, char *dst, int64_t da, \
			     int64_t na, int64_t nb)                                         \
	{                                                                                    \
		char t[TILE][TILE][S];                                                       \
                                                                                             \
		for (int64_t b = 0; b < nb; b++)                                             \
			for (int64_t a = 0; a < na; a++)                                     \
				memcpy(t[a][b], src + (a * sa + b * sb) * S, S);             \
		for (int64_t a = 0; a < na; a++)                                             \
			memcpy(dst + a * da * S, t[a], (size_t)nb * S);                      \
	}
SIZED(1)
SIZED(2)
SIZED(4)
SIZED(8)

static const struct {
	void (*row)(const char *, int64_t, char *, int64_t);
	void (*tile)(const char *, int64_t, int64_t, char *, int64_t, int64_t, int64_t);
} sized[] = {
	[1] = {row_1, tile_1}, [2] = {row_2, tile_2}, [4] = {row_4, tile_4}, [8] = {row_8, tile_8}};

typedef struct MoveBox {
	const Move *m;
	const char *src;
	char *dst;
	const int64_t *origin;   /* the point at which DST begins */
	int64_t step[MAX_ITERS]; /* strides of DST */
} MoveBox;

/* The index of point X in DST. */
static char *to(const MoveBox *b, const int64_t *x)
{
	int64_t at = 0;

	for (int i = 0; i < b->m->n; i++)
		at += (x[i] - b->origin[i]) * b->step[i];
	return b->dst + at * b->m->size;
}

static const char *from(const MoveBox *b, const int64_t *x)
{
	int64_t at = b->m->base;

	for (int i = 0; i < b->m->n; i++)
		at += b->m->from[i] * x[i];
	return b->src + at * b->m->size;
}

/* The iterator with the smallest stride in the source. */
static int fastest(const Move *m, const int64_t *lo, const int64_t *hi)
{
	int best = m->n - 1;

	for (int i = 0; i < m->n - 1; i++)
		if (hi[i] - lo[i] > 1 && m->from[i] &&
		    (!m->from[best] || llabs(m->from[i]) < llabs(m->from[best]) ||
		     hi[best] - lo[best] == 1))
			best = i;
	return best;
}

static void tiles(const MoveBox *b, int a, const int64_t *x, int64_t na, int64_t nb)
{
	const Move *m = b->m;
	int64_t sa = m->from[a], sb = m->from[m->n - 1], da = b->step[a];
	const char *src = from(b, x);
	char *dst = to(b, x);

	for (int64_t i = 0; i < na; i += TILE)
		for (int64_t j = 0; j < nb; j += TILE)
			sized[m->size].tile(src + (i * sa + j * sb) * m->size, sa, sb,
					    dst + (i * da + j) * m->size, da,
					    na - i < TILE ? na - i : TILE,
					    nb - j < TILE ? nb - j : TILE);
}

/* Moves a box that is inside of the source. */
static void move_inside(const MoveBox *b, const int64_t *lo, const int64_t *hi)
{
	const Move *m = b->m;
	int last = m->n - 1, a = fastest(m, lo, hi);
	int64_t x[MAX_ITERS], end[MAX_ITERS], n = hi[last] - lo[last], min, max;

	range(m->n, m->from, m->base, lo, hi, &min, &max);
	assert(min >= 0 && max < m->total);
	memcpy(x, lo, (size_t)m->n * sizeof *x);
	memcpy(end, hi, (size_t)m->n * sizeof *x);
	if (a != last)
		end[a] = lo[a] + 1;
	do {
		if (a != last)
			tiles(b, a, x, hi[a] - lo[a], n);
		else if (m->from[last] == 1)
			memcpy(to(b, x), from(b, x), (size_t)(n * m->size));
		else
			sized[m->size].row(from(b, x), m->from[last], to(b, x), n);
	} while (move_step(last, lo, end, x));
}

static void move_outside(const MoveBox *b, const int64_t *lo, const int64_t *hi)
{
	int last = b->m->n - 1;
	int64_t x[MAX_ITERS];

	memcpy(x, lo, (size_t)b->m->n * sizeof *x);
	do
		memset(to(b, x), 0, (size_t)((hi[last] - lo[last]) * b->m->size));
	while (move_step(last, lo, hi, x));
}

/* Halves the box until each part is inside of the source or outside. */
static void move_part(const MoveBox *b, const int64_t *lo, const int64_t *hi)
{
	const Move *m = b->m;
	int64_t min, max, mid[MAX_ITERS];
	int cut = -1;

	range(m->n, m->edge, m->edge_base, lo, hi, &min, &max);
	if (max < 0) {
		move_inside(b, lo, hi);
		return;
	}
	if (min >= 0) {
		move_outside(b, lo, hi);
		return;
	}
	for (int i = 0; i < m->n && cut < 0; i++)
		if (m->edge[i] && hi[i] - lo[i] > 1)
			cut = i;
	memcpy(mid, hi, (size_t)m->n * sizeof *mid);
	mid[cut] = lo[cut] + (hi[cut] - lo[cut]) / 2;
	move_part(b, lo, mid);
	memcpy(mid, lo, (size_t)m->n * sizeof *mid);
	mid[cut] = lo[cut] + (hi[cut] - lo[cut]) / 2;
	move_part(b, mid, hi);
}

void move_box(const Move *m, const void *src, const int64_t *lo, const int64_t *hi, void *dst)
{
	MoveBox b = {.m = m, .src = src, .dst = dst, .origin = lo};
	int64_t step = 1;

	for (int i = m->n - 1; i >= 0; i--) {
		b.step[i] = step;
		step *= hi[i] - lo[i];
	}
	move_part(&b, lo, hi);
}
