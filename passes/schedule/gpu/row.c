/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows on GPUs: statements under their common band. Where rows are contiguous in memory, a thread
 * group has a row: a part of a warp, a warp or a block (passes/schedule/gpu/group.c). Otherwise
 * each thread has a row, and adjacent threads have adjacent rows.
 */
#include "passes/schedule/gpu/gpu_impl.h"

enum { ROW_THREADS = 128 };

static bool keeps_order(const Stmt *s)
{
	return s->scan || s->ordered || (s->update && s->nband == s->niters);
}

int64_t gpu_most(const Schedule *s, Dim *d)
{
	int64_t lo, hi;

	dim_bounds(s->kernel->ctx, d, &lo, &hi);
	return d == s->where.size && s->where.most < hi ? s->where.most : hi;
}

int64_t gpu_block_room(Schedule *s, const Gpu *gpu, int64_t wanted)
{
	const int64_t room = s->where.shared ? s->where.shared : gpu->block_shared;

	s->short_of_shared = s->short_of_shared || wanted > room;
	return room;
}

/* The points of S in one row of BAND. */
static Dim *row_points(Kernel *k, const Band *band, const Stmt *s)
{
	Dim *n = dim_const(k->ctx, 1);

	for (int j = s->red ? s->nband : 0; j < s->niters; j++)
		if (band_index(band, s, s->iter[j]) < 0)
			n = dim_mul(k->ctx, n, s->iter[j]->extent);
	return n;
}

/* Upper bound of the points of S in a row; 2^20 where it is unknown. */
static int64_t most_points(const Row *r, const Stmt *s)
{
	enum { MANY = 1 << 20 };
	const int64_t n = gpu_most(r->b->sched, row_points(r->k, r->band, s));

	return n < MANY ? n : MANY;
}

Dim *gpu_row_length(Kernel *k)
{
	Band band;
	Dim *n;

	if (kernel_kind(k) == FORM_ORDER)
		return NULL;
	band_of(k, k->arena, &band);
	for (int i = 0; i < k->stmts.n; i++) {
		n = row_points(k, &band, k->stmts.at[i]);
		if (!dim_is_const(n, NULL))
			return n;
	}
	return NULL;
}

/* Contiguous accesses of memory, weighted by points: along each band iterator, and along the
 * others. */
typedef struct AccessCounts {
	Row *r;
	double band[MAX_ITERS], inner;
} AccessCounts;

bool gpu_writes(const Row *r, const Buf *b)
{
	for (int i = r->first; i <= r->last; i++)
		if (stmt_writes(r->k->stmts.at[i], b))
			return true;
	return false;
}

/* The access of B is one of global memory. Temporaries of this stage mostly stay on chip.
 * Temporaries of other stages that have one element per row are read once, and do not count. */
static bool from_memory(const Row *r, const Stmt *s, const Buf *b, const Affine *at)
{
	bool inner = false;

	if (b->kind != BUF_TEMP)
		return true;
	if (gpu_writes(r, b))
		return false;
	for (int i = 0; i < at->n; i++)
		inner = inner || band_index(r->band, s, at->iter[i]) < 0;
	return inner;
}

static void count_runs(AccessCounts *x, const Stmt *s, const Buf *buf, Expr *const *idx)
{
	Kernel *k = x->r->k;
	const double points = (double)most_points(x->r, s);
	Affine a;

	if (buf->rank == 0 || buf->data || !ex_affine(k->ctx, flat_index(k, buf, idx), &a) ||
	    !from_memory(x->r, s, buf, &a))
		return;
	for (int i = 0; i < s->niters; i++) {
		const int b = band_index(x->r->band, s, s->iter[i]);

		if (!dim_equals(affine_coef(k->ctx, &a, s->iter[i]), 1))
			continue;
		if (b >= 0)
			x->band[b] += points;
		else
			x->inner += points;
	}
}

/* The iterator of the band along which most accesses are contiguous, or -1. */
static int most_run(const AccessCounts *x)
{
	int best = -1;

	for (int b = 0; b < x->r->band->n; b++)
		if (best < 0 || x->band[b] >= x->band[best])
			best = b;
	return best;
}

/* The number of threads that share a row. *ALONG: the band iterator that is contiguous in memory
 * across rows, or -1. */
static int choose_group(Row *r, int *along)
{
	enum { SHORT = 2, WARPS_ROW = 1024 };
	int group = 1;
	AccessCounts x = {.r = r};
	int64_t n = 1;
	bool alone = false;

	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i];

		alone = alone || keeps_order(s) || row_packed(s);
		n = most_points(r, s) > n ? most_points(r, s) : n;
		STMT_EACH_LOAD (load, s)
			count_runs(&x, s, load->load.buf, load->load.idx);
		if (!s->red)
			count_runs(&x, s, s->out[0], s->widx);
	}
	*along = most_run(&x);
	if (alone || n < SHORT || (*along >= 0 && x.inner <= x.band[*along]))
		return 1;
	while (group < n && group < WARP)
		group *= 2;
	if (group < WARP)
		return group;
	return n <= WARPS_ROW ? WARP : ROW_THREADS;
}

Buf *gpu_make_local(Row *r, const Stmt *s, const Buf *t)
{
	return gpu_hold(r, s, t, &(Held){.along = -1, .rows = -1});
}

/* Declares temporary T, which S writes, as a local of one thread: in registers or, if it is small,
 * in local memory. */
static void own_local(Row *r, const Stmt *s, const Buf *t)
{
	enum { OWN = 256 };
	Buf *b = gpu_make_local(r, s, t);

	if (b && b->rank && (dtype_info[b->dtype].bits < 8 || gpu_bytes_of(b) > OWN))
		r->local[t->id] = NULL;
	else if (b)
		gpu_declare(r->b, b, NULL);
}

bool gpu_is_plain(const Stmt *s)
{
	return !s->guard && !s->update && !s->scan && !s->ordered && s->nout == 1 &&
	       s->nwidx == s->out[0]->rank && !row_packed(s) && !expr_can_fault(s->val[0]) &&
	       (!s->red || monoid_info[s->red].n == 1);
}

bool gpu_chain(const Row *r)
{
	const Stmt *s = r->k->stmts.at[r->first];

	if (!s->red || monoid_info[s->red].n != 1 || s->nout != 1 || s->update || s->scan ||
	    s->ordered || s->nband != r->band->n || expr_can_fault(s->val[0]))
		return false;
	for (int i = r->first; i <= r->last; i++) {
		const Stmt *x = r->k->stmts.at[i];

		if (x->nwidx != x->out[0]->rank || row_packed(x) ||
		    (i > r->first && (!stmt_is_map(x) || x->guard || x->niters != r->band->n)))
			return false;
	}
	return true;
}

void gpu_row_stmt(Row *r, Stmt *s, Stmt *as)
{
	row_begin(r, s);
	for (int o = 0; o < s->nout; o++)
		own_local(r, s, s->out[o]);
	r->s = as;
	row_emit(r);
}

/* Each statement has few points of a row, and their number is known, so its loops are unrolled and
 * locals stay in registers. */
static bool few_points(const Row *r)
{
	enum { FEW = 32 };

	for (int i = r->first; i <= r->last; i++) {
		const Stmt *s = r->k->stmts.at[i];
		int64_t points = 1, n;

		for (int j = 0; j < s->niters; j++) {
			if (band_index(r->band, s, s->iter[j]) >= 0)
				continue;
			if (!dim_is_const(s->iter[j]->extent, &n) || n * points > FEW)
				return false;
			points *= n;
		}
	}
	return true;
}

void gpu_row(LBuild *b, const Gpu *gpu, const char *strategy, int first, int last, const Band *band,
	     const SkinnyRows *skinny)
{
	Row r = row_new(b, first, last, band);
	Iter *split[MAX_ITERS], *each = NULL;
	int along, n = 0, group;

	for (int i = 0; i < band->n; i++) {
		r.fixed[i] = true;
		r.rep[i] = l_iter(b, band->iter[i]->name, band->iter[i]->extent);
		r.as[i] = r.pos[i] = ex_iter(b->p, r.rep[i]);
	}
	group = choose_group(&r, &along);
	if (group == 1 && (gpu_column_reduce(&r, gpu, along, skinny) ||
			   gpu_stencil(&r, gpu, along) || gpu_columns(&r, gpu, along)))
		return;
	r.unrolled = group == 1 && few_points(&r);
	if (r.unrolled && gpu_small_panels(&r, along))
		return;
	if (group > 1 && skinny->n && skinny->along) {
		each = l_iter(b, "m", skinny->rows);
		gpu_skinny_place(&r, skinny, ex_iter(b->p, each), ex_iter(b->p, each));
	}
	for (int i = 0; i < band->n; i++)
		if (i != along && !(each && gpu_is_skinny(skinny, i)))
			split[n++] = r.rep[i];
	if (along >= 0 && !(each && gpu_is_skinny(skinny, along)))
		split[n++] = r.rep[along];
	l_stage(b, strategy, iters_points(b->k->ctx, split, n));
	b->stage->block.group = group;
	b->stage->block.threads = ROW_THREADS;
	l_split(b, split, n, ex_iter(b->p, b->stage->var));
	if (b->stage->block.group > 1)
		gpu_group(&r, gpu, split, n, each);
	for (int i = first; i <= last && b->stage->block.group == 1; i++)
		gpu_row_stmt(&r, b->k->stmts.at[i], b->k->stmts.at[i]);
}
