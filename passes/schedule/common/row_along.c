/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the iterator of a row's innermost loop. A strided access costs a cache line for each
 * point, while an access that does not depend on the iterator stays in a register. So the iterator
 * with the fewest strided accesses wins, then the one with the most contiguous ones. What a sum
 * reads counts more than what is done once for each sum.
 */
#include "passes/schedule/common/row.h"

enum {
	/* Points, at most, of an innermost loop of a transpose that is shorter than a vector, and
	 * unrolled. 224x224 pixels with channels innermost took 13 us for 3 channels so, and 59
	 * with vectors of pixels; of 5 channels, 172 and 110. */
	INTERLEAVED = 4,
	/* Points of a row for which the sum across lanes at its end is cheap. */
	LONG_REDUCTION = 64
};

/* A load of a sum's terms counts as so many accesses that are made once for a sum. 3x3 means of an
 * image with channels innermost, stored as planes of 16 channels, took 10 us so, and 46 without. */
enum { OFTEN = 8 };

/* Accesses with unit stride along an iterator, and with another stride. */
typedef struct StrideCounts {
	int runs, strides;
} StrideCounts;

static bool better(StrideCounts a, StrideCounts b)
{
	return a.strides != b.strides ? a.strides < b.strides : a.runs > b.runs;
}

static StrideCounts along(Ctx *c, Expr *at, const Iter *it)
{
	Dim *step = ex_step(c, at, it);
	const bool runs = step && dim_equals(step, 1);

	return (StrideCounts){runs, !runs && !(step && dim_equals(step, 0))};
}

/* The points of S read elements of BUF again and again, so that BUF stays in cache where its index
 * does not increase evenly from point to point: an image that is enlarged. 21 channels of 14x14
 * pixels, innermost, to planes of 224x224 took 0.26 ms with vectors of pixels, and 3.4 with vectors
 * of channels. */
static bool is_reread(Ctx *c, const Stmt *s, const Buf *buf)
{
	enum { OFTEN_READ = 4 };
	int64_t points, elements;

	return stmt_is_map(s) && buf != s->out[0] && dim_is_const(buf_numel(c, buf), &elements) &&
	       dim_is_const(iters_points(c, s->iter, s->niters), &points) &&
	       elements <= points / OFTEN_READ;
}

/* Likewise of an access of S to BUF at AT. Elements whose indices are data are near each other for
 * adjacent points, as the samples of an image: 32 channels of 64x64 points, stored as planes, took
 * 0.53 ms with vectors of points and 0.75 with vectors of channels. */
static StrideCounts access_along(Ctx *c, const Stmt *s, const Buf *buf, Expr *at, const Iter *it)
{
	return !ex_step(c, at, it) && (expr_has_load(at) || is_reread(c, s, buf))
		       ? (StrideCounts){0}
		       : along(c, at, it);
}

static bool fewer_points(Dim *d, int64_t than)
{
	int64_t n;

	return dim_is_const(d, &n) && n < than;
}

static bool fewer(const Iter *it, int64_t than)
{
	return fewer_points(it->extent, than);
}

/* IT has too few points for an innermost loop, as a stencil's taps. */
static bool is_short(const Iter *it)
{
	return fewer(it, SHORT_LOOP);
}

/* Band iterator B is the phase of a stride. A transposed convolution with stride 2 has two phases,
 * next to each other in a row of its result, whose sums have different taps. They are no vector; of
 * a stride of 16 or more, they are. */
static bool is_phase(const Row *r, int b)
{
	const Stmt *s = r->k->stmts.at[r->first];

	return is_short(r->band->iter[b]) && stmt_is_phase(r->k->ctx, s, r->band->of[s->id][b]);
}

/* ---- The vector iterator ---- */

typedef struct Steps {
	Row *r;
	StrideCounts band[MAX_ITERS], inner;
	/* some inner row is long, so the sum across lanes at its end is cheap in comparison */
	bool is_long;
} Steps;

/* The reduced iterators of S along which AT runs through memory as one are several, and have
 * enough points together for the sum across lanes to be cheap, as those of a pool over an image
 * have. */
static bool runs_together(Ctx *c, const Stmt *s, Expr *at)
{
	Dim *points = dim_const(c, 1);
	int merged = 0;

	for (int i = s->niters - 1; i >= s->nband; i--) {
		Dim *step = ex_step(c, at, s->iter[i]);

		if (step != points)
			break;
		points = dim_mul(c, points, s->iter[i]->extent);
		merged++;
	}
	return merged > 1 && !fewer_points(points, LONG_REDUCTION);
}

static void step_index(Steps *st, const Stmt *s, const Buf *buf, Expr *const *idx)
{
	Kernel *k = st->r->k;
	Expr *at = row_keeps(st->r, buf) ? NULL : flat_index(k, buf, idx);
	const int weight = buf != s->out[0] && s->niters > s->nband ? OFTEN : 1;
	StrideCounts inner = {0};

	for (int i = 0; at && i < s->niters; i++) {
		const int b = band_index(st->r->band, s, s->iter[i]);
		const StrideCounts a = access_along(k->ctx, s, buf, at, s->iter[i]);

		if (b >= 0) {
			st->band[b].runs += weight * a.runs;
			st->band[b].strides += weight * a.strides;
		} else if (!is_short(s->iter[i])) {
			inner.runs += a.runs;
			inner.strides += a.strides;
			st->is_long = st->is_long || (a.runs && !fewer(s->iter[i], LONG_REDUCTION));
		}
	}
	if (at && runs_together(k->ctx, s, at)) {
		inner.runs++;
		st->is_long = true;
	}
	/* an inner loop is contiguous, or all are strided */
	st->inner.runs += weight * inner.runs;
	st->inner.strides += weight * (inner.strides && !inner.runs);
}

/* An inner loop is better than band iterator B. If both are equally good, the inner one is,
 * provided that its rows are long. */
static bool goes_inside(const Steps *st, int b)
{
	return st->inner.runs &&
	       (better(st->inner, st->band[b]) || (st->is_long && !better(st->band[b], st->inner)));
}

/* Iterator B of a copy has so few points that they are unrolled inside a single loop over all
 * others, which compilers turn to vectors with shuffles: 3 channels of an image. */
static bool interleaves(const Row *r, int b)
{
	const Stmt *s = r->k->stmts.at[r->first];
	Row with = *r;
	Merged g[MAX_ITERS];

	with.vec = b;
	return fewer(r->band->iter[b], INTERLEAVED + 1) && r->first == r->last && stmt_is_map(s) &&
	       s->val[0]->kind == EX_LOAD && row_merge_band(&with, g) <= 2;
}

/* The vector loop should rather go along B than along A, which is outside of it. */
static bool rather(const Steps *st, int b, int a)
{
	if (better(st->band[a], st->band[b]))
		return false;
	return better(st->band[b], st->band[a]) || interleaves(st->r, b) || !interleaves(st->r, a);
}

void row_choose_vector(Row *r)
{
	Steps st = {.r = r};
	int best = -1;

	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i];

		STMT_EACH_LOAD (x, s)
			step_index(&st, s, x->load.buf, x->load.idx);
		step_index(&st, s, s->out[0], s->widx);
	}
	for (int b = 0; b < r->band->n; b++)
		if (!is_phase(r, b) && (best < 0 || rather(&st, b, best)))
			best = b;
	r->vec = best >= 0 && goes_inside(&st, best) ? -1 : best;
	for (int b = 0; b < r->band->n; b++)
		r->fixed[b] = b != r->vec;
}

/* ---- Transposes ---- */

typedef struct Transposed {
	const Row *r;
	int found;
} Transposed;

/* An access that is strided along the vector iterator is contiguous along another one of the
 * band. */
static void transposed_index(Transposed *t, const Stmt *s, const Buf *buf, Expr *const *idx)
{
	const Row *r = t->r;
	Ctx *c = r->k->ctx;
	Expr *at = flat_index(r->k, buf, idx);

	if (!access_along(c, s, buf, at, r->band->of[s->id][r->vec]).strides)
		return;
	for (int b = 0; b < r->band->n; b++)
		if (along(c, at, r->band->of[s->id][b]).runs && !is_short(r->band->iter[b]))
			t->found = b;
}

int row_transposed_iter(const Row *r)
{
	Transposed t = {r, -1};
	Stmt *s = r->k->stmts.at[r->first];

	if (r->vec < 0 || r->first != r->last || !stmt_is_map(s) || s->ordered || row_packed(s) ||
	    is_short(r->band->iter[r->vec]))
		return -1;
	STMT_EACH_LOAD (x, s)
		transposed_index(&t, s, x->load.buf, x->load.idx);
	transposed_index(&t, s, s->out[0], s->widx);
	return t.found;
}

/* ---- Lanes ---- */

int row_lane_of(const Points *t)
{
	StrideCounts best = {0};
	int at = -1;

	for (int i = 0; i < t->n; i++) {
		StrideCounts all = {0};

		for (int v = 0; v < t->ne; v++)
			EX_EACH_LOAD (x, t->e[v]) {
				StrideCounts a = {0};

				if (x->load.nidx == 1)
					a = along(t->k->ctx, x->load.idx[0], t->it[i]);
				all.runs += a.runs;
				all.strides += a.strides;
			}
		if (is_short(t->it[i]))
			all.runs = 0;
		if (at >= 0 && better(best, all))
			continue;
		best = all;
		at = i;
	}
	return at;
}
