/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small panels on GPUs: a few short columns that are a contiguous piece of memory, such as those of
 * a softmax over 10 classes of 6 boxes: 60 elements. Each thread has a column, so the threads of a
 * warp have columns of several panels, and would read a part of a sector of each row. Where a
 * block's threads have whole panels, the block moves these by bulk copies (ir/loop/loop.h,
 * BulkCopy).
 */
#include "passes/schedule/gpu/gpu_impl.h"

#include "base/round.h"

enum {
	LEAST_THREADS = 2 * WARP,
	USUAL_THREADS = 8 * WARP, /* preferred upper bound, if some number of panels fits */
	MOST_THREADS = 32 * WARP
};

typedef struct Panels {
	Row *r;
	/* iterators over panels, outermost first; the last one is over columns */
	Iter *split[MAX_ITERS + 1];
	int n; /* number of iterators over panels */
	int64_t cols;
	BulkCandidates bulk; /* each: elements of a panel; after share_bulk, of a column */
	bool ok;
} Panels;

/* Finds the buffers whose accesses cover whole panels. */
static void find_all_bulk(Panels *x)
{
	Row *r = x->r;
	Buf *out;
	Expr *at;

	x->bulk = (BulkCandidates){.r = r, .split = x->split, .n = x->n};
	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i];

		row_begin(r, s);
		gpu_bulk_loads(&x->bulk, row_placed(r, s->val[0]), true);
		at = row_write_index(r, s, 0, &out);
		gpu_bulk_access(&x->bulk, out, at, true);
	}
	gpu_bulk_done(&x->bulk);
}

/* The number of threads, at most MOST, that covers whole panels, fits into shared memory, and
 * leaves the fewest lanes idle: with panels of 6 columns, 192 threads rather than 256. 0 if none
 * does. */
static int64_t threads_of(const Panels *x, int64_t most)
{
	int64_t best = 0, idle = WARP, of = 1; /* lanes, OF warps */

	for (int64_t n = x->cols; n <= most; n += x->cols) {
		const int64_t warps = ceil_div(n, WARP);
		int64_t bytes = 0;
		bool ok = n >= LEAST_THREADS;

		VEC_EACH_AT (s, &x->bulk.bulk) {
			const int64_t size = dtype_bytes(s->buf->dtype);

			ok = ok && n * size % VECTOR_BYTES == 0;
			bytes += gpu_shared_bytes(n * s->most * size);
		}
		if (!ok || bytes > SHARED || (warps * WARP - n) * of > idle * warps)
			continue;
		best = n;
		idle = warps * WARP - n;
		of = warps;
	}
	return best;
}

/* Turns the bulk copies from elements per panel to elements per column. Buffers with one element
 * per column are dropped: their accesses coalesce already. So are types of 8 bytes: ptxas hoists
 * the loads from shared memory, and a thread has not enough registers for a whole column of them.
 * False if every panel row begins at a sector's boundary: bulk copies would gain nothing. */
static bool share_bulk(Panels *x)
{
	bool misaligned = false;
	int64_t each;
	int n = 0;

	VEC_EACH_AT (s, &x->bulk.bulk) {
		const int bits = dtype_info[s->buf->dtype].bits;

		if (!s->each || s->buf->kind == BUF_TEMP || bits < 8 || bits > 32 ||
		    !dim_is_const(s->each, &each) || each <= x->cols || each % x->cols)
			continue;
		s->most = each / x->cols;
		s->each = dim_const(x->r->k->ctx, s->most);
		misaligned = misaligned || x->cols * bits / 8 % SECTOR;
		x->bulk.bulk.at[n++] = *s;
	}
	x->bulk.bulk.n = n;
	return misaligned;
}

/* Splits the band: iterators that merge with ALONG, the innermost one, are the columns, the others
 * number the panels. X.ok stays false if the number of columns is unknown or too large. */
static void place(Panels *x, int along)
{
	Row *r = x->r;
	Merged all[MAX_ITERS];
	const int n = row_merge_band(r, all);

	row_stage_iters(r, all, n);
	for (int i = 0; i < n; i++) {
		const int last = all[i].of[all[i].n - 1];

		if (last != along)
			x->split[x->n++] = r->rep[last];
		else
			x->ok = dim_is_const(all[i].extent, &x->cols) && x->cols > 1 &&
				x->cols <= MOST_THREADS;
	}
	x->split[x->n] = r->rep[along];
}

/* The threads of a block, with its bulk copies in X; 0 if the panels do not suit. */
static int64_t find_panels(Panels *x, int along)
{
	const Row *r = x->r;
	int64_t threads;

	place(x, along);
	for (int i = r->first; i <= r->last; i++)
		x->ok = x->ok && gpu_is_plain(r->k->stmts.at[i]);
	if (!x->ok)
		return 0;
	find_all_bulk(x);
	if (!share_bulk(x))
		return 0;
	threads = threads_of(x, USUAL_THREADS);
	return threads ? threads : threads_of(x, MOST_THREADS);
}

bool gpu_small_panels(Row *r, int along)
{
	Panels x = {.r = r};
	LBuild *b = r->b;
	const Row was = *r;
	const int64_t threads = along < 0 ? 0 : find_panels(&x, along);

	if (!threads) {
		*r = was;
		return false;
	}
	l_stage(b, "row", iters_points(r->k->ctx, x.split, x.n + 1));
	b->stage->block.group = 1;
	b->stage->block.threads = (int)threads;
	VEC_EACH_AT (s, &x.bulk.bulk) {
		vec_push(b->arena, &b->stage->block.bulk, *s);
	}
	l_split(b, x.split, x.n + 1, ex_iter(b->p, b->stage->var));
	for (int i = r->first; i <= r->last; i++)
		gpu_row_stmt(r, r->k->stmts.at[i], r->k->stmts.at[i]);
	return true;
}
