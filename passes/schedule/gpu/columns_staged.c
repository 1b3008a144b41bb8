/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The buffers that a block of columns holds in shared memory: inputs that several statements read,
 * fetched once, and the temporaries between the statements. A temporary takes the place of an input
 * or temporary that its statement reads last.
 */
#include "passes/schedule/gpu/columns_impl.h"

/* AT is contiguous along the columns; A is its affine form. Lowers Columns.begins to the alignment
 * of its rows. */
static bool along(Columns *c, Expr *at, Affine *a)
{
	Ctx *ctx = c->x.r->k->ctx;
	Expr *zero = l_int(c->x.r->b, 0);

	if (!ex_affine(ctx, ex_subst_iters(c->x.r->b->p, at, &c->x.block, &zero, 1), a) ||
	    !dim_equals(affine_coef(ctx, a, c->x.col), 1))
		return false;
	c->begins = gpu_aligned(ctx, a, c->x.col, c->begins);
	return true;
}

bool columns_run(Columns *c, Expr *at)
{
	Affine a;

	return along(c, at, &a) && !dim_equals(affine_coef(c->x.r->k->ctx, &a, c->term), 0);
}

void columns_see(Columns *c, const Buf *b)
{
	const int bytes = dtype_bytes(b->dtype);

	c->x.bytes = !c->x.bytes || bytes < c->x.bytes ? bytes : c->x.bytes;
}

/* AT depends on the terms, but not on the columns. */
static bool of_terms(const Columns *c, Expr *at)
{
	return expr_has_iter(at, c->term) && !expr_has_iter(at, c->x.col) &&
	       !expr_has_iter(at, c->x.block);
}

static void find_tile(Columns *c, Expr *e)
{
	bool run, shared;
	int i = 0;

	for (int j = 0; j < c->ntiles; j++)
		if (c->tile[j].temp == e->load.buf && c->tile[j].at != e->load.idx[0])
			c->tile[j].elsewhere = true;
	run = e->load.buf->kind != BUF_TEMP && columns_run(c, e->load.idx[0]);
	shared = of_terms(c, e->load.idx[0]);
	if ((!run && !shared) || !gpu_may_stage(c->x.r, e))
		return;
	if (run)
		columns_see(c, e->load.buf);
	while (i < c->ntiles && c->tile[i].load != e)
		i++;
	if (i == MOST_TILES)
		return;
	if (i == c->ntiles)
		c->tile[c->ntiles++] = (ColumnValue){.load = e, .last = -1, .shared = shared};
	c->tile[i].in += c->tile[i].last != c->at;
	c->tile[i].last = c->at;
}

void columns_find(Columns *c, Expr *val)
{
	EX_EACH_LOAD_ALWAYS (e, val)
		find_tile(c, e);
}

static int last_read(const Row *r, const Buf *t)
{
	int last = r->first;

	for (int i = r->first; i <= r->last; i++)
		if (stmt_reads(r->k->stmts.at[i], t))
			last = i;
	return last;
}

/* Drops inputs that only one statement reads, unless all columns share them, as each warp would
 * read those anew. */
static void drop_once(Columns *c)
{
	int n = 0;

	for (int i = 0; i < c->ntiles; i++)
		if (c->tile[i].temp || c->tile[i].shared || c->tile[i].in > 1)
			c->tile[n++] = c->tile[i];
	c->ntiles = n;
}

/* Each row of T holds just the terms and columns that S writes. *IN_ORDER: the terms lie in the
 * order of the iterators. */
static bool lies_by_terms(const Columns *c, const Stmt *s, const Buf *t, bool *in_order)
{
	const Row *r = c->x.r;
	Dim *terms = dim_const(r->k->ctx, 1);
	int last = -1, inner = 0, columns = 0;
	int64_t v;

	*in_order = true;
	for (int i = 0; i < t->rank; i++) {
		const int d = buf_memory_dim(t, i);
		const Iter *it = s->widx[d]->kind == EX_ITER ? s->widx[d]->iter : NULL;
		int at = 0;

		while (at < s->niters && s->iter[at] != it)
			at++;
		if (!it && !dim_equals(t->dims[d], 1))
			return false;
		columns += it && it == r->band->of[s->id][c->x.n];
		if (!it || row_is_fixed(r, it))
			continue;
		*in_order = *in_order && at > last;
		last = at;
		terms = dim_mul(r->k->ctx, terms, t->dims[d]);
		inner++;
	}
	return columns == 1 && terms == c->term->extent && (inner == 1 || dim_is_const(terms, &v));
}

bool columns_make(Columns *c, const Stmt *s, Expr *at)
{
	const Row *r = c->x.r;
	Buf *t = s->out[0];
	bool in_order;

	if (!row_may_be_local(r, s, t) || c->ntiles == MOST_TILES ||
	    !lies_by_terms(c, s, t, &in_order))
		return false;
	c->tile[c->ntiles++] = (ColumnValue){.temp = t,
					     .at = at,
					     .in = c->at,
					     .last = last_read(r, t),
					     .type = t->dtype,
					     .in_order = in_order};
	return true;
}

/* If there are temporaries, inputs are held in the type they are computed with, so that a temporary
 * can take their slot. */
static void widen(Columns *c)
{
	bool temps = false;

	for (int i = 0; i < c->ntiles; i++)
		temps = temps || c->tile[i].temp;
	for (int i = 0; i < c->ntiles; i++) {
		ColumnValue *t = &c->tile[i];

		if (!t->temp)
			t->type = temps ? ctype_dtype(t->load->ct) : t->load->load.buf->dtype;
	}
}

/* Assigns slots. A temporary takes the slot of an input or temporary of the same width that its
 * statement reads last, and only at the current point. */
static void find_slots(Columns *c)
{
	for (int i = 0; i < c->ntiles; i++) {
		ColumnValue *t = &c->tile[i];

		t->slot = -1;
		for (int j = 0; j < i && t->in_order && t->slot < 0; j++) {
			bool last = c->tile[j].last == t->in && !c->tile[j].elsewhere &&
				    !c->tile[j].shared &&
				    dtype_info[c->tile[j].type].bits == dtype_info[t->type].bits;

			for (int k = 0; k < i && last; k++)
				last = k == j || c->tile[k].slot != c->tile[j].slot ||
				       c->tile[k].last < t->in;
			t->slot = last ? c->tile[j].slot : -1;
		}
		if (t->slot >= 0)
			continue;
		c->slot[c->slots] = t;
		t->slot = c->slots++;
	}
}

void columns_hold(Columns *c)
{
	drop_once(c);
	widen(c);
	find_slots(c);
}

bool columns_let_go(Columns *c)
{
	const bool held = c->ntiles > 0;

	for (int i = 0; i < c->ntiles; i++)
		if (c->tile[i].temp)
			return false;
	c->ntiles = c->slots = 0;
	return held;
}

int64_t columns_bytes(const Columns *c, int i)
{
	const int64_t elements = c->terms * (c->slot[i]->shared ? 1 : c->wide);

	return gpu_shared_bytes(dtype_size(c->slot[i]->type, elements));
}

/* ---- Nodes ---- */

/* The index in the copy of T at the current term and column. */
static Expr *in_tile(const Columns *c, const ColumnValue *t)
{
	ExprPool *p = c->x.r->b->p;

	if (t->shared)
		return ex_iter(p, c->term);
	return ex_add(p, ex_mul(p, ex_iter(p, c->term), l_int(c->x.r->b, c->wide)),
		      ex_iter(p, c->x.col));
}

static void declare(Columns *c, const ColumnValue *t)
{
	int64_t at = 0;

	for (int i = 0; i < t->slot; i++)
		at += columns_bytes(c, i);
	gpu_declare(c->x.r->b, t->buf, l_int(c->x.r->b, at));
}

void columns_fetch(Columns *c)
{
	LBuild *b = c->x.r->b;
	int64_t all = 0;

	for (int i = 0; i < c->slots; i++)
		all += columns_bytes(c, i);
	b->stage->scratch = dim_const(b->k->ctx, all);
	b->stmt = -1;
	for (int i = 0; i < c->ntiles; i++) {
		ColumnValue *t = &c->tile[i];
		Dim *points = dim_const(b->k->ctx, c->terms * (t->shared ? 1 : c->wide));

		if (t->temp)
			continue;
		t->buf = kernel_temp(b->k, t->load->load.buf->name, t->type, 1, &points);
		declare(c, t);
		if (t->shared)
			gpu_fetch(b, c->term, row_extent(c->x.r, c->term), t->buf, t->load, NULL);
		else
			columns_each(c, t->load->load.idx[0], t->buf, in_tile(c, t), t->load);
	}
}

void columns_local(Columns *c, const Stmt *s)
{
	Ctx *ctx = c->x.r->k->ctx;

	for (int i = 0; i < c->ntiles; i++)
		if (c->tile[i].temp == s->out[0]) {
			c->tile[i].buf = gpu_hold(c->x.r, s, s->out[0],
						  &(Held){.along = c->x.n,
							  .rows = -1,
							  .many = dim_const(ctx, c->wide),
							  .most = dim_const(ctx, c->terms),
							  .columns = true});
			declare(c, &c->tile[i]);
		}
}

Expr *columns_held(Columns *c, Expr *val)
{
	Staged held[MOST_TILES];
	int n = 0;

	for (int i = 0; i < c->ntiles; i++) {
		const ColumnValue *t = &c->tile[i];

		if (t->load && c->at <= t->last)
			held[n++] = (Staged){t->load, t->buf, in_tile(c, t)};
	}
	return gpu_from_copies(c->x.r->b->p, val, held, n);
}
