/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Column reductions on GPUs: the reduced iterator strides through memory, and a band iterator N is
 * contiguous. Sums of columns are such, and products of a few rows with a row-major matrix. A block
 * has a few adjacent columns. Consecutive threads take consecutive pieces of 16 bytes of a row, and
 * the rows are distributed over the rest. So the matrix is read once, in whole sectors, by many
 * threads. A thread has a state for each of its columns and for each point of an iterator M that
 * the matrix does not depend on: the rows of a vector or of a small batch. The states of a block
 * are combined across lanes by shuffles, then across warps in shared memory. The statements that
 * follow the reduction are computed at the block's points.
 */
#include "passes/schedule/gpu/columns_impl.h"

#include "base/round.h"

enum { MOST_ROWS = 8, SHORTEST = 64 };

/* ---- The nodes of a block ---- */

void column_local(ColumnBlock *x, const Stmt *s)
{
	const int64_t bytes = x->rows * x->cols * 8;
	Ctx *c = x->r->k->ctx;
	Buf *b = bytes > x->left ? NULL
				 : gpu_hold(x->r, s, s->out[0],
					    &(Held){.along = x->n,
						    .rows = x->skinny.n ? x->skinny.of[0] : -1,
						    .many = dim_const(c, x->cols),
						    .nrows = dim_const(c, x->rows)});

	if (!b)
		return;
	x->left -= bytes;
	gpu_declare(x->r->b, b, NULL);
}

/* Opens a loop over the block's points of the band, which binds X.col and X.row. */
static LNode *column_open(const ColumnBlock *x)
{
	LBuild *b = x->r->b;
	Iter *t = l_iter(b, "t", dim_const(b->k->ctx, x->rows * x->cols));
	LNode *loop = l_loop(b, LOOP_GROUP, t, l_int(b, 0), l_int(b, x->rows * x->cols), 1);

	l_let(b, x->col, ex_op2(b->p, IN_mod, ex_iter(b->p, t), l_int(b, x->cols)));
	l_let(b, x->row, ex_op2(b->p, IN_floordiv, ex_iter(b->p, t), l_int(b, x->cols)));
	return loop;
}

void column_store(const ColumnBlock *x, Stmt *s, Buf *out, Expr *at, Expr *val, LPart part)
{
	LNode *loop = column_open(x);
	Expr *guard = x->row_exists ? ex_and(x->r->b->p, x->guard, x->row_exists) : x->guard;

	row_does(x->r, l_store(x->r->b, out, at, val, guard), s, part, s->nband, NULL);
	l_close(x->r->b, loop);
}

static Expr *state_at(const ColumnBlock *x)
{
	ExprPool *p = x->r->b->p;

	return ex_add(p, ex_mul(p, ex_iter(p, x->row), ex_int(p, CT_I64, x->cols)),
		      ex_iter(p, x->col));
}

/* The offset of the block's first column in its sector, in the row that VAL reads; 0 if VAL reads
 * only shared memory. */
static Expr *peel_of(const ColumnBlock *x, Expr *val)
{
	Expr *zero = l_int(x->r->b, 0);
	Iter *col = x->col;

	EX_EACH_LOAD (e, val)
		if (!e->load.buf->data && e->load.buf->id < x->r->nlocal &&
		    ex_runs_along(x->r->k->ctx, e->load.idx[0], col))
			return gpu_peel(x->r->b, e->load.idx[0], &col, &zero, 1, x->bytes);
	return zero;
}

void column_sum(ColumnBlock *x, Stmt *s, const Points *p)
{
	Row *r = x->r;
	LBuild *b = r->b;
	Dim *states = dim_const(r->k->ctx, x->rows * x->cols);
	Expr *at = state_at(x), *out_at;
	Buf *out;
	LNode *n;

	x->acc = kernel_temp(r->k, "acc", ctype_dtype(s->val[0]->ct), 1, &states);
	gpu_declare(b, x->acc, NULL);
	column_store(x, s, x->acc, at, monoid_identity(r->k->pool, s->red, 0, s->val[0]->ct),
		     PART_INIT);
	n = row_state_node(r, LN_COLUMNS, s, &x->acc, at, p->e, x->guard);
	n->columns = NEW(b->arena, ColumnReduction);
	*n->columns = (ColumnReduction){x->col, x->row, (int)x->cols, (int)x->rows, x->valid};
	n->share.vector = x->peeled ? x->peeled : x->vector;
	if (x->peeled)
		n->share.peel = peel_of(x, p->e[0]);
	n->range.var = p->it[0];
	n->range.lo = l_int(b, 0);
	n->range.hi = row_extent(r, p->it[0]);
	row_does(r, n, s, PART_TERM, s->niters, p->at);
	out_at = row_write_index(r, s, 0, &out);
	column_store(x, s, out, out_at, ex_load(b->p, x->acc, &at, 1), PART_WRITE);
}

/* ---- What is taken ---- */

static bool takes(const Row *r)
{
	const Stmt *s = r->k->stmts.at[r->first];
	int64_t terms = 1, lo, hi;

	for (int i = s->nband; i < s->niters; i++) {
		dim_bounds(r->k->ctx, s->iter[i]->extent, &lo, &hi);
		terms = hi < SHORTEST && terms < SHORTEST ? terms * hi : SHORTEST;
	}
	return gpu_chain(r) && !s->guard && terms >= SHORTEST;
}

/* ---- The matrix ---- */

static void look(ColumnBlock *x, const Stmt *s, const Expr *load)
{
	Ctx *c = x->r->k->ctx;
	const Buf *b = load->load.buf;
	const int bytes = dtype_bytes(b->dtype);
	const Iter *n = x->r->band->of[s->id][x->n],
		   *m = x->m < 0 ? NULL : x->r->band->of[s->id][x->m];
	Affine a;

	if (b->data || dtype_info[b->dtype].bits < 8 ||
	    !ex_affine(c, flat_index(x->r->k, b, load->load.idx), &a) ||
	    !dim_equals(affine_coef(c, &a, n), 1))
		return;
	if (!x->bytes && s->niters == s->nband + 1 &&
	    dim_is_const(affine_coef(c, &a, s->iter[s->nband]), &x->by))
		x->by *= bytes;
	x->bytes = bytes > x->bytes ? bytes : x->bytes;
	if (m && !dim_equals(affine_coef(c, &a, m), 0))
		x->m = -1;
	x->vector = (int)gpu_aligned(c, &a, n, gpu_vector(bytes, x->vector));
}

/* Finds the iterators for ColumnBlock.rows: the rows of a skinny product, else the longest short
 * band iterator that the matrix does not depend on. */
static void find_rows(ColumnBlock *x, const SkinnyRows *skinny)
{
	Stmt *s = x->r->k->stmts.at[x->r->first];
	int best = -1;

	x->skinny = *skinny;
	x->rows = skinny->n ? skinny->most : 1;
	if (skinny->n && !gpu_is_skinny(&x->skinny, x->n))
		return;
	x->skinny.n = 0;
	x->rows = 1;
	for (int b = 0; b < x->r->band->n; b++) {
		ColumnBlock trial = {.r = x->r, .n = x->n, .m = b, .vector = MOST_VECTOR};
		int64_t v;

		if (b == x->n || !dim_is_const(x->r->band->iter[b]->extent, &v) || v > MOST_ROWS ||
		    v <= x->rows)
			continue;
		STMT_EACH_LOAD (load, s)
			look(&trial, s, load);
		if (trial.m == b) {
			best = b;
			x->rows = v;
		}
	}
	if (best >= 0)
		x->skinny = (SkinnyRows){.of = {best},
					 .n = 1,
					 .rows = x->r->band->iter[best]->extent,
					 .most = x->rows};
}

/* Shapes a block for rows that begin within sectors. The columns are divided evenly into blocks as
 * wide as a thread has states for. A warp takes the rows that begin at the same offset in a sector:
 * with rows of 50 f32 (200 bytes), every fourth one. */
static bool shape_peeled(ColumnBlock *x)
{
	enum { MOST_THREADS = 2 * COLUMN_THREADS };
	const int64_t sector = gpu_sector(x->bytes), period = gpu_period(x->by),
		      most = (x->bytes < 4 ? COLUMN_BLOCKS : COLUMN_BLOCKS / 2) * WARP -
			     (sector - 1);
	int64_t n, parts;

	if (x->skinny.n || x->by <= 0 || !dim_is_const(x->r->band->iter[x->n]->extent, &n) ||
	    n <= WARP || (x->vector > 1 && x->by % SECTOR == 0 && n % sector == 0))
		return false;
	if (period * WARP > MOST_THREADS)
		return false;
	if (period * WARP > x->threads)
		x->threads = (int)period * WARP;
	parts = ceil_div(n, most);
	x->cols = ceil_div(n, parts);
	x->peeled = (int)((x->cols + sector - 1 + WARP - 1) / WARP);
	x->left = SHARED - x->cols * (x->threads / WARP) * 8;
	return true;
}

/* Chooses the columns and threads of a block. If there are fewer blocks than SMs, blocks get fewer
 * columns. If a block has all columns, and rows are no multiple of a sector, its rows are one
 * contiguous range, and it gets more threads instead. */
static void shape(ColumnBlock *x, const Gpu *gpu)
{
	Ctx *c = x->r->k->ctx;
	Dim *n = x->r->band->iter[x->n]->extent, *blocks;
	int64_t many;
	bool run;

	x->vector = (int)gpu_divides(c, n, x->vector);
	if (shape_peeled(x))
		return;
	x->cols = x->vector == 1 ? WARP : LINE / x->bytes;
	if (x->cols > WARP * x->vector) /* at most a warp along the columns */
		x->cols = WARP * x->vector;
	while (dim_is_const(n, &many) && x->cols / 2 >= many && x->cols > x->vector)
		x->cols /= 2;
	while (x->cols > x->vector && x->rows * x->cols * COLUMN_THREADS / WARP * 8 > SHARED)
		x->cols /= 2;
	run = !x->skinny.n && dim_is_const(n, &many) && many <= x->cols && x->by % SECTOR;
	for (int64_t cols = x->cols;
	     x->vector > 1 && cols > gpu_sector(x->bytes) && cols > x->vector;) {
		blocks = dim_ceildiv(c, n, dim_const(c, x->cols));
		for (int b = 0; b < x->r->band->n; b++)
			if (b != x->n && !gpu_is_skinny(&x->skinny, b))
				blocks = dim_mul(c, blocks, x->r->band->iter[b]->extent);
		if (!dim_is_const(blocks, &many) || many >= gpu->sms)
			break;
		cols /= 2;
		x->cols = run ? x->cols : cols;
		x->threads *= run ? 2 : 1;
	}
	x->left = SHARED - x->rows * x->cols * x->threads / WARP * 8;
}

/* ---- The stage ---- */

/* Expresses the skinny rows by the block's row X.row: the block has all rows, or, if their number
 * is unknown, one block of them. Terms are computed for X.rows rows in any case: READ clamps rows
 * that do not exist to the last one. */
static void place_rows(ColumnBlock *x, bool read)
{
	LBuild *b = x->r->b;
	ExprPool *p = b->p;
	Expr *flat = ex_iter(p, x->row), *as = flat, *all = ex_dim(p, x->skinny.rows);

	x->r->row_at = flat;
	if (x->row_block && x->rows == 1)
		flat = as = ex_iter(p, x->row_block);
	if (x->row_block && x->rows > 1) {
		Expr *first = ex_mul(p, ex_iter(p, x->row_block), l_int(b, x->rows));

		flat = as = ex_add(p, first, flat);
		if (read)
			as = ex_op2(p, IN_min, flat, ex_sub(p, all, l_int(b, 1)));
		x->row_exists = ex_op2(p, IN_lt, flat, all);
		x->valid = ex_op2(p, IN_min, l_int(b, x->rows), ex_sub(p, all, first));
	}
	if (x->skinny.n)
		gpu_skinny_place(x->r, &x->skinny, as, flat);
}

static void place_band(ColumnBlock *x)
{
	Row *r = x->r;
	LBuild *b = r->b;
	Ctx *c = r->k->ctx;
	Iter *split[MAX_ITERS + 1];
	int n = 0;

	x->col = l_iter(b, "j", dim_const(c, x->cols));
	x->row = l_iter(b, "m", dim_const(c, x->rows));
	x->block = l_iter(b, "block",
			  dim_ceildiv(c, r->band->iter[x->n]->extent, dim_const(c, x->cols)));
	if (x->skinny.n && !dim_is_const(x->skinny.rows, NULL))
		split[n++] = x->row_block = l_iter(
			b, "rows", dim_ceildiv(c, x->skinny.rows, dim_const(c, x->rows)));
	for (int i = 0; i < r->band->n; i++)
		if (i != x->n && !gpu_is_skinny(&x->skinny, i))
			split[n++] = r->rep[i];
	split[n++] = x->block;
	l_stage(b, "columns", iters_points(c, split, n));
	b->stage->block.group = b->stage->block.threads = x->threads;
	l_split(b, split, n, ex_iter(b->p, b->stage->var));
	r->v0 = ex_mul(b->p, ex_iter(b->p, x->block), l_int(b, x->cols));
	r->as[x->n] = r->pos[x->n] = ex_add(b->p, r->v0, ex_iter(b->p, x->col));
	place_rows(x, false);
	if (!dim_multiple(c, r->band->iter[x->n]->extent, x->cols))
		x->guard = ex_op2(b->p, IN_lt, r->as[x->n],
				  ex_dim(b->p, r->band->iter[x->n]->extent));
}

static void sum(ColumnBlock *x, Stmt *s)
{
	Points p;

	place_rows(x, true);
	p = row_free_points(x->r, s);
	place_rows(x, false);
	points_join(&p);
	points_flatten(&p);
	column_sum(x, s, &p);
}

bool gpu_column_reduce(Row *r, const Gpu *gpu, int along, const SkinnyRows *skinny)
{
	ColumnBlock x = {
		.r = r, .n = along, .m = -1, .vector = MOST_VECTOR, .threads = COLUMN_THREADS};

	if (along < 0 || !takes(r))
		return false;
	find_rows(&x, skinny);
	STMT_EACH_LOAD (load, r->k->stmts.at[r->first])
		look(&x, r->k->stmts.at[r->first], load);
	if (!x.bytes)
		return false;
	shape(&x, gpu);
	place_band(&x);
	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i];
		Buf *out;
		Expr *at;

		row_begin(r, s);
		column_local(&x, s);
		if (s->red) {
			sum(&x, s);
			continue;
		}
		at = row_write_index(r, s, 0, &out);
		column_store(&x, s, out, at, row_placed(r, s->val[0]), PART_WRITE);
	}
	return true;
}
