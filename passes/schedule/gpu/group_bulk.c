/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bulk copies: elements that a block of many rows moves for all of its thread groups together.
 *
 * Where short rows begin within a sector, adjacent rows have parts of one sector, and groups that
 * access their rows separately would move it twice. If a buffer holds nothing but the rows, one
 * after the other, the block moves the rows of its groups as one contiguous range (ir/loop/loop.h,
 * BulkCopy). For longer rows the shared sectors are few, and groups access memory themselves.
 *
 * A buffer with one element for each row, such as a channel's scale: the block puts the elements of
 * its rows into shared memory.
 */
#include "passes/schedule/gpu/group_impl.h"

enum {
	/* bytes of a row: of longer rows, the two partial sectors are less than a tenth of all */
	SHORT_BYTES = 640,
	/* rows of a block, at least, unless they are longer than BULK_POINTS: threads of larger
	 * blocks have fewer registers. With so many rows, what the block reads for all of them, and
	 * the sectors that blocks share, hardly matter. */
	BULK_ROWS = 16,
	BULK_POINTS = 320
};

typedef struct GroupBulk {
	Group *t;
	BulkCandidates of;
	int64_t left; /* bytes of shared memory that are left */
} GroupBulk;

static bool is_split(const Group *t, const Iter *it)
{
	return iter_among(it, t->split, t->nsplit);
}

/* Iterator I of A has several points and is not one of SPLIT. */
static bool is_own(const Affine *a, int i, Iter *const *split, int n)
{
	return !dim_equals(a->iter[i]->extent, 1) && !iter_among(a->iter[i], split, n);
}

/* The number of elements that each iteration of a stage accesses at AT, where these are contiguous
 * and follow those of the iteration before: a[i][j] with i in SPLIT and j < 10 gives 10. SPLIT are
 * the N iterators of the stage. Null: the access has another form, or AT is null. 0: all iterations
 * access the same element. */
static Dim *own_elements(Ctx *c, Expr *at, Iter *const *split, int n)
{
	Dim *each = dim_const(c, 1), *step;
	int own = 0, found = 1;
	Affine a;

	if (!at || !ex_affine(c, at, &a) || !dim_equals(a.base, 0))
		return NULL;
	if (!a.n)
		return a.base;
	for (int i = 0; i < a.n; i++)
		own += is_own(&a, i, split, n);
	for (; own && found; own -= found) {
		found = 0;
		for (int i = 0; i < a.n && !found; i++)
			if (a.coef[i] == each && is_own(&a, i, split, n)) {
				each = dim_mul(c, each, a.iter[i]->extent);
				found = 1;
			}
	}
	if (own)
		return NULL;
	step = each;
	for (int i = n - 1; i >= 0; i--) {
		if (affine_coef(c, &a, split[i]) != step && !dim_equals(split[i]->extent, 1))
			return NULL;
		step = dim_mul(c, step, split[i]->extent);
	}
	return each;
}

void gpu_bulk_access(BulkCandidates *f, Buf *b, Expr *at, bool written)
{
	BulkCopy s = {.buf = b,
		      .each = own_elements(f->r->k->ctx, at, f->split, f->n),
		      .written = written};
	int i = 0;

	if (b->data || b->id >= f->r->nlocal)
		return;
	while (i < f->bulk.n && f->bulk.at[i].buf != b)
		i++;
	if (i < f->bulk.n) {
		BulkCopy *old = &f->bulk.at[i];

		/* an output is stored once, and not read */
		if (written || old->written || old->each != s.each)
			old->each = NULL;
		return;
	}
	vec_push(f->r->b->arena, &f->bulk, s);
}

void gpu_bulk_loads(BulkCandidates *f, Expr *e, bool always)
{
	EX_EACH_LOAD (x, e)
		gpu_bulk_access(f, x->load.buf, x->load.nidx ? x->load.idx[0] : l_int(f->r->b, 0),
				false);
	EX_EACH_LOAD_ALWAYS (x, always ? e : NULL)
		vec_push(f->r->b->arena, &f->read, x->load.buf);
}

void gpu_bulk_done(BulkCandidates *f)
{
	VEC_EACH_AT (s, &f->bulk) {
		bool read = s->written;

		for (int j = 0; j < f->read.n; j++)
			read = read || f->read.at[j] == s->buf;
		s->each = read ? s->each : NULL;
	}
}

static void find_part(Group *t, BulkCandidates *f, RowStmt *x)
{
	Buf *out;
	Expr *at;

	for (int i = 0; i < x->p.ne; i++)
		gpu_bulk_loads(f, x->p.e[i], !x->p.guard);
	gpu_bulk_loads(f, x->p.guard, false);
	if (!x->s->red) {
		gpu_bulk_access(f, x->out, x->p.guard ? NULL : x->p.write, true);
		return;
	}
	row_begin(t->r, x->s);
	for (int i = 0; i < x->s->nout; i++) {
		at = row_write_index(t->r, x->s, i, &out);
		gpu_bulk_access(f, out, x->s->update ? NULL : at, true);
	}
}

/* Threads of a block with bulk copies. */
static int bulk_threads(const Group *t)
{
	const int many = BULK_ROWS * t->r->b->stage->block.group;

	return many < BLOCK_THREADS || group_length(t, t->it->extent) > BULK_POINTS ? BLOCK_THREADS
										    : many;
}

/* Shared memory that bulk copy S needs; 0 if S is not possible or not worth it. */
static int64_t bulk_bytes(const Group *t, BulkCopy *s)
{
	const Stage *st = t->r->b->stage;
	const int bytes = dtype_bytes(s->buf->dtype), groups = bulk_threads(t) / st->block.group;
	Ctx *c = t->r->k->ctx;

	if (!s->each || dtype_info[s->buf->dtype].bits < 8 || dim_equals(s->each, 0) ||
	    group_length(t, t->it->extent) > SHORT_BYTES)
		return 0;
	s->most = group_length(t, s->each);
	if (s->most > SHORT_BYTES || s->most * bytes > SHORT_BYTES ||
	    groups * bytes % VECTOR_BYTES != 0 ||
	    dim_multiple(c, dim_mul(c, s->each, dim_const(c, bytes)), SECTOR))
		return 0;
	return gpu_shared_bytes(s->most * groups * bytes);
}

bool group_is_bulk(const Group *t, const Buf *b)
{
	const Stage *st = t->r->b->stage;

	for (int i = 0; i < st->block.bulk.n; i++)
		if (st->block.bulk.at[i].buf == b)
			return true;
	return false;
}

/* Takes BYTES of shared memory; false if they are not left. */
static bool take(GroupBulk *f, int64_t bytes)
{
	if (bytes > f->left)
		return false;
	f->left -= bytes;
	return true;
}

static void share_bulk(GroupBulk *f)
{
	Group *t = f->t;

	for (int i = 0; i < f->of.bulk.n; i++) {
		const int64_t bytes = bulk_bytes(t, &f->of.bulk.at[i]);

		if (bytes && take(f, bytes))
			vec_push(t->r->b->arena, &t->r->b->stage->block.bulk, f->of.bulk.at[i]);
	}
}

/* Adds bulk copies of single elements that all iterations read, in blocks that have a barrier
 * before the rows anyway. */
static void share_elements(GroupBulk *f)
{
	Group *t = f->t;

	for (int i = 0; i < f->of.bulk.n; i++) {
		BulkCopy s = f->of.bulk.at[i];

		s.most = 1;
		if (s.each && dim_equals(s.each, 0) && !s.written &&
		    dtype_info[s.buf->dtype].bits >= 8 && take(f, LINE))
			vec_push(t->r->b->arena, &t->r->b->stage->block.bulk, s);
	}
}

/* Collects loads of inputs with one element per row. */
static void find_one(GroupBulk *f, Expr *e)
{
	Group *t = f->t;
	const Stage *st = t->r->b->stage;
	const Buf *b = e->load.buf;
	Affine a;

	if (!gpu_may_stage(t->r, e) || b->id >= t->r->nlocal || !b->rank || t->nones == MOST_ONES ||
	    group_is_bulk(t, b) || !ex_affine(t->r->k->ctx, e->load.idx[0], &a) || !a.n)
		return;
	for (int i = 0; i < a.n; i++)
		if (!is_split(t, a.iter[i]))
			return;
	for (int i = 0; i < t->nones; i++)
		if (t->one[i].load == e)
			return;
	if (take(f, gpu_shared_bytes(bulk_threads(t) / st->block.group * dtype_info[b->dtype].bits /
				     8)))
		t->one[t->nones++] = (Staged){.load = e};
}

/* A block has several rows. */
static bool has_many_rows(const Group *t)
{
	const Stage *st = t->r->b->stage;
	int64_t rows;

	return st->block.group <= WARP && !t->skinny_row &&
	       !(dim_is_const(st->extent, &rows) && rows < BULK_ROWS);
}

void group_choose_bulk(Group *t)
{
	Stage *st = t->r->b->stage;
	GroupBulk f = {.t = t, .of = {.r = t->r, .split = t->split, .n = t->nsplit}};
	bool has_barrier = false;

	if (!has_many_rows(t))
		return;
	f.left = SHARED - bulk_threads(t) / st->block.group * t->shared - STATES;
	for (int i = 0; i < t->nkept; i++) {
		gpu_bulk_loads(&f.of, t->kept[i].is, true);
		if (t->kept[i].block)
			f.left -= gpu_shared_bytes(gpu_bytes_of(t->kept[i].buf));
		has_barrier = has_barrier || t->kept[i].block;
	}
	for (int i = 0; i < t->n; i++)
		find_part(t, &f.of, &t->part[i]);
	gpu_bulk_done(&f.of);
	share_bulk(&f);
	for (int i = 0; i < t->n; i++)
		for (int j = 0; j < t->part[i].p.ne && !t->part[i].p.guard; j++)
			EX_EACH_LOAD_ALWAYS (e, t->part[i].p.e[j])
				find_one(&f, e);
	if (st->block.bulk.n || t->nones)
		st->block.threads = bulk_threads(t);
	if (st->block.bulk.n || t->nones || has_barrier)
		share_elements(&f);
}

/* ---- One element of each row ---- */

void group_share_ones(Group *t)
{
	LBuild *b = t->r->b;
	Stage *st = b->stage;
	Dim *groups = dim_const(t->r->k->ctx, st->block.threads / st->block.group);

	if (!t->nones)
		return;
	st->block.first = l_iter(b, "first", st->extent);
	for (int i = 0; i < t->nones; i++) {
		const Buf *from = t->one[i].load->load.buf;

		t->one[i].copy = kernel_temp(t->r->k, from->name, from->dtype, 1, &groups);
		t->one[i].at = ex_sub(b->p, ex_iter(b->p, st->var), ex_iter(b->p, st->block.first));
	}
	for (int i = 0; i < t->n; i++)
		for (int j = 0; j < t->part[i].p.ne; j++)
			t->part[i].p.e[j] = gpu_from_copies(b->p, t->part[i].p.e[j], t->one,
							    t->nones);
	for (int i = 0; i < t->nkept; i++)
		t->kept[i].is = gpu_from_copies(b->p, t->kept[i].is, t->one, t->nones);
}

void group_fetch_ones(Group *t)
{
	LBuild *b = t->r->b;
	Stage *st = b->stage;
	Iter *row, *split[MAX_ITERS];
	Expr *with[MAX_ITERS], *p;
	LNode *loop;

	if (!t->nones)
		return;
	row = l_iter(b, "row", t->one[0].copy->dims[0]);
	p = ex_add(b->p, ex_iter(b->p, st->block.first), ex_iter(b->p, row));
	for (int i = 0; i < t->nones; i++)
		gpu_declare(b, t->one[i].copy, NULL);
	loop = l_loop(b, LOOP_GROUP, row, l_int(b, 0), row_extent(t->r, row), 1);
	for (int i = 0; i < t->nsplit; i++) {
		split[i] = l_iter(b, t->split[i]->name, t->split[i]->extent);
		with[i] = ex_iter(b->p, split[i]);
	}
	l_split(b, split, t->nsplit, p);
	for (int i = 0; i < t->nones; i++)
		l_store(b, t->one[i].copy, ex_iter(b->p, row),
			ex_subst_iters(b->p, t->one[i].load, t->split, with, t->nsplit),
			ex_op2(b->p, IN_lt, p, ex_dim(b->p, st->extent)));
	l_close(b, loop);
}
