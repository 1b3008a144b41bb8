/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several column reductions in one block: a softmax or a norm over an axis that is not the
 * innermost one. The statements reduce across memory more than once, or read again the elements
 * that they reduced. A block has adjacent columns, as in passes/schedule/gpu/columns_reduce.c.
 * Inputs that several statements read are fetched to shared memory once, and temporaries between
 * the statements live there. Each loop over a block's elements is contiguous along the columns.
 * Where rows of columns begin within a sector, the loop is peeled to a sector's boundary: adjacent
 * threads have adjacent columns from there on, and a thread has the rows that begin at the same
 * offset in a sector. Where the block has all columns, and they are few, its rows are one
 * contiguous range.
 */
#include "passes/schedule/gpu/columns_impl.h"

#include "base/round.h"

enum {
	MOST_SIDE = 8 * WARP,
	USUAL_SIDE = 4 * WARP, /* threads along the columns, if blocks still have enough elements */
	LEAST_SIDE = WARP,
	SERIAL_TERMS = 64,     /* one thread sums this many terms or fewer */
	FEW_ELEMENTS = 1 << 8, /* elements of a block that are too few to be worth a launch */
	ENOUGH_ELEMENTS = 1 << 10,
	MANY_ELEMENTS = 8 << 10, /* elements of a block that gets twice the threads */
	KNOWN_TERMS = 1 << 20,   /* more terms than any block holds */
	FEW_ROWS = 16,           /* rows of a thread that are unrolled, at most */
	MANY_ROWS = 4,           /* rows of a thread for which several loads are kept in flight */
};

/* ---- What is taken ---- */

/* S iterates over more than the band. */
static bool is_inner(const Row *r, const Stmt *s)
{
	return s->niters > r->band->n;
}

/* The statements include several reductions, or one whose elements are read again; their points are
 * independent and complete. */
static bool takes(const Row *r)
{
	bool inner = false;
	int sums = 0;

	for (int i = r->first; i <= r->last; i++) {
		const Stmt *s = r->k->stmts.at[i];

		if (!gpu_is_plain(s) || (s->red && (s->nband != r->band->n || !is_inner(r, s))))
			return false;
		sums += s->red != MONOID_NONE;
		inner = inner || (!s->red && is_inner(r, s));
	}
	return sums && (inner || sums > 1);
}

/* ---- The band ---- */

/* Merges band iterators; Columns.group is the merged one that ends with X.n. */
static bool merge(Columns *c)
{
	Row *r = c->x.r;

	c->n = row_merge_band(r, c->all);
	row_stage_iters(r, c->all, c->n);
	for (int i = 0; i < c->n; i++)
		if (c->all[i].of[c->all[i].n - 1] == c->x.n)
			c->group = &c->all[i];
	return c->group != NULL;
}

/* Expresses the columns as X.block, the first column of a block, plus X.col. */
static void place_columns(Columns *c)
{
	Row *r = c->x.r;
	LBuild *b = r->b;
	Expr *at;

	c->x.block = l_iter(b, "from", c->group->extent);
	r->v0 = ex_iter(b->p, c->x.block);
	at = r->as[c->x.n] = ex_add(b->p, r->v0, ex_iter(b->p, c->x.col));
	for (int i = c->group->n - 1; i >= 0; i--) {
		const int g = c->group->of[i];
		Expr *extent = ex_dim(b->p, r->band->iter[g]->extent);

		r->pos[g] = i ? ex_op2(b->p, IN_mod, at, extent) : at;
		at = i ? ex_op2(b->p, IN_floordiv, at, extent) : at;
	}
}

/* ---- Loops over a block's elements ---- */

/* The loops around an element, innermost last. */
typedef struct ElementLoops {
	LNode *open[3];
	int n;
	Expr *guard;
} ElementLoops;

/* The number of rows after which the offset in a sector repeats, for rows read or written AT. */
static int64_t period(const Columns *c, Expr *at)
{
	int64_t by;
	Affine a;

	return ex_affine(c->x.r->k->ctx, at, &a) &&
			       dim_is_const(affine_coef(c->x.r->k->ctx, &a, c->term), &by)
		       ? gpu_period(by * c->x.bytes)
		       : gpu_sector(c->x.bytes);
}

/* Rows at AT are adjacent: the next one begins where the last one ends. */
static bool rows_are_adjacent(const Columns *c, Expr *at)
{
	Affine a;

	return ex_affine(c->x.r->k->ctx, at, &a) &&
	       dim_equals(affine_coef(c->x.r->k->ctx, &a, c->term), c->wide);
}

/* The offset in its sector of the row of TERM at AT. */
static Expr *peel(const Columns *c, Expr *at, Expr *term)
{
	LBuild *b = c->x.r->b;
	Iter *from[2] = {c->term, c->x.col};
	Expr *with[2] = {term, l_int(b, 0)};

	return gpu_peel(b, at, from, with, 2, c->x.bytes);
}

/* A thread's N terms are unrolled. */
static bool is_unrolled(const Columns *c, int64_t n)
{
	return n <= FEW_ROWS && dim_is_const(c->term->extent, NULL);
}

/* Binds the column of thread T in the row of TERM at AT; returns whether the block has this
 * column. */
static Expr *place(Columns *c, Expr *at, Iter *t, Expr *term)
{
	LBuild *b = c->x.r->b;
	ExprPool *p = b->p;
	Expr *col = ex_op2(p, IN_mod, ex_iter(p, t), l_int(b, c->side));

	if (at)
		col = ex_sub(p, col, peel(c, at, term));
	l_let(b, c->x.col, col);
	return ex_and(p, ex_op2(p, IN_ge, col, l_int(b, 0)), ex_op2(p, IN_lt, col, c->many));
}

/* A thread has every LANES-th row from FIRST on. These are few, and unrolled. */
static void by_few_rows(Columns *c, Expr *at, Iter *t, Expr *first, int64_t lanes, ElementLoops *e)
{
	LBuild *b = c->x.r->b;
	ExprPool *p = b->p;
	const int64_t n = ceil_div(c->terms, lanes);
	Iter *u = l_iter(b, "u", dim_const(b->k->ctx, n));

	e->open[e->n++] = l_loop(b, LOOP_UNROLL, u, l_int(b, 0), l_int(b, n), 1);
	first = ex_add(p, first, ex_mul(p, ex_iter(p, u), l_int(b, lanes)));
	l_let(b, c->term, first);
	e->guard = ex_and(p, place(c, at, t, ex_iter(p, c->term)),
			  ex_op2(p, IN_lt, first, row_extent(c->x.r, c->term)));
}

/* Adjacent threads have adjacent columns: SIDE of them, less those before a misaligned row. A
 * thread has rows with the same offset in a sector, or every LANES-th if they are unrolled. */
static void by_rows(Columns *c, Expr *at, Iter *t, ElementLoops *e)
{
	LBuild *b = c->x.r->b;
	ExprPool *p = b->p;
	const int64_t lanes = c->x.threads / c->side, same = at ? period(c, at) : 1,
		      step = same > lanes ? same : lanes;
	Expr *first = ex_op2(p, IN_floordiv, ex_iter(p, t), l_int(b, c->side)), *in;

	if (is_unrolled(c, ceil_div(c->terms, lanes))) {
		by_few_rows(c, at, t, first, lanes, e);
		return;
	}
	if (same > lanes) {
		Iter *later = l_iter(b, "later", dim_const(b->k->ctx, same / lanes));

		e->open[e->n++] = l_loop(b, LOOP_SERIAL, later, l_int(b, 0), l_int(b, same / lanes),
					 1);
		first = ex_add(p, first, ex_mul(p, ex_iter(p, later), l_int(b, lanes)));
	}
	in = place(c, at, t, first);
	e->open[e->n++] = l_loop(
		b, c->terms >= MANY_ROWS * step ? LOOP_VECTOR : LOOP_SERIAL, c->term, first,
		ex_op3(p, IN_select, in, row_extent(c->x.r, c->term), l_int(b, 0)), step);
}

/* The block's rows are one contiguous range, which its threads traverse together. */
static void by_run(Columns *c, Expr *at, Iter *t, ElementLoops *e)
{
	ColumnBlock *x = &c->x;
	LBuild *b = x->r->b;
	ExprPool *p = b->p;
	Dim *all = dim_mul(b->k->ctx, c->term->extent, dim_const(b->k->ctx, c->wide));
	Iter *run = l_iter(b, "u", all);
	Expr *first = ex_iter(p, t), *u = ex_iter(p, run);

	if (at) {
		first = ex_sub(p, first, peel(c, at, l_int(b, 0)));
		first = ex_op3(p, IN_select, ex_op2(p, IN_lt, first, l_int(b, 0)),
			       ex_add(p, first, l_int(b, x->threads)), first);
	}
	e->open[e->n++] = l_loop(b, LOOP_VECTOR, run, first, ex_dim(p, all), x->threads);
	l_let(b, c->term, ex_op2(p, IN_floordiv, u, l_int(b, c->wide)));
	l_let(b, x->col, ex_op2(p, IN_mod, u, l_int(b, c->wide)));
}

LNode *columns_each(Columns *c, Expr *at, Buf *out, Expr *to, Expr *val)
{
	LBuild *b = c->x.r->b;
	Iter *t = l_iter(b, "t", dim_const(b->k->ctx, c->x.threads));
	ElementLoops e = {.n = 0};
	LNode *store;

	e.open[e.n++] = l_loop(b, LOOP_GROUP, t, l_int(b, 0), l_int(b, c->x.threads), 1);
	(c->run && (!at || rows_are_adjacent(c, at)) ? by_run : by_rows)(c, at, t, &e);
	store = l_store(b, out, to, val, e.guard);
	while (e.n)
		l_close(b, e.open[--e.n]);
	return store;
}

/* ---- Statements over columns ---- */

/* Rewrites S to the one iterator that all statements over the terms share; false if S has other
 * points. */
static bool over_terms(Columns *c, Stmt *s, Points *p)
{
	Buf *out;

	*p = row_free_points(c->x.r, s);
	p->write = s->red ? NULL : row_write_index(c->x.r, s, 0, &out);
	points_join(p);
	points_flatten(p);
	if (!c->term)
		c->term = l_iter(c->x.r->b, "i", p->it[0]->extent);
	if (p->it[0]->extent != c->term->extent)
		return false;
	points_rename(p, c->term);
	return true;
}

static bool look(Columns *c)
{
	Row *r = c->x.r;
	Points p;

	place_columns(c);
	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i];

		if (!is_inner(r, s))
			continue;
		row_begin(r, s);
		c->at = i;
		if (!over_terms(c, s, &p))
			return false;
		columns_find(c, p.e[0]);
		if (s->red)
			continue;
		if (s->out[0]->kind == BUF_TEMP) {
			if (!columns_make(c, s, p.write))
				return false;
			continue;
		}
		if (!columns_run(c, p.write))
			return false;
		columns_see(c, s->out[0]);
	}
	c->terms = gpu_most(r->b->sched, c->term->extent);
	c->terms = c->terms < KNOWN_TERMS ? c->terms : KNOWN_TERMS;
	columns_hold(c);
	return c->x.bytes && c->terms > 1;
}

/* ---- The shape ---- */

/* Upper bound of the threads that a peeled row leaves without a column. */
static int64_t before(const Columns *c)
{
	const int64_t sector = gpu_sector(c->x.bytes);

	return c->begins % sector ? sector - 1 : 0;
}

/* Columns of a block with SIDE threads along them: the columns are divided evenly, and a block
 * never has more than the threads that remain after peeling. */
static int64_t columns_of(const Columns *c, int64_t side)
{
	const int64_t sector = gpu_sector(c->x.bytes), most = side - before(c);
	int64_t n, parts;

	if (!dim_is_const(c->group->extent, &n))
		return most;
	parts = ceil_div(n, most);
	n = parts ? ceil_div(n, parts) : most;
	return parts > 1 && most == side ? round_up(n, sector) : n;
}

/* Chooses the block's threads, and how they share out sums: with few columns, several lanes reduce
 * a column together. */
static void share(Columns *c)
{
	ColumnBlock *x = &c->x;

	x->threads = c->terms * c->wide > MANY_ELEMENTS ? 2 * COLUMN_THREADS : COLUMN_THREADS;
	x->cols = c->wide;
	x->peeled = (int)((c->wide + before(c) + WARP - 1) / WARP);
	c->run = dim_equals(c->group->extent, c->wide) && c->wide * 4 < c->side * 3;
	if (c->terms <= SERIAL_TERMS || c->wide > WARP / 2)
		return;
	for (x->cols = 1; x->cols < c->wide;)
		x->cols *= 2;
	x->peeled = 0;
}

/* The block's static shared memory (states, and values of the band's points) fits, and so do the
 * slots in ROOM. */
static bool fits(Columns *c, const Gpu *gpu, int64_t room)
{
	const Row *r = c->x.r;
	int64_t static_bytes = 0, tiles = 0;

	share(c);
	for (int i = r->first; i <= r->last; i++)
		if (r->k->stmts.at[i]->red)
			static_bytes += (c->x.cols * 8 + LINE) * (c->x.threads / WARP + 1);
	for (int i = 0; i < c->slots; i++)
		tiles += columns_bytes(c, i);
	c->x.left = STATIC_SHARED - static_bytes;
	static_bytes += (r->last - r->first + 1) * (c->x.cols * 8 + LINE);
	if (static_bytes > STATIC_SHARED || tiles > room)
		return false;
	static_bytes += tiles + GPU_DRIVER;
	return static_bytes <= gpu_block_room(r->b->sched, gpu, static_bytes);
}

/* Chooses the columns of a block: as many as fit while other blocks still fit on the SM, else as
 * many as fit alone. False if a block would have next to nothing to do. */
static bool shape(Columns *c, const Gpu *gpu)
{
	/* misaligned rows have a partial sector at either end */
	const int64_t room[] = {SHARED, gpu->shared, gpu->shared},
		      least[] = {before(c) ? 8 * gpu_sector(c->x.bytes) : 2 * LEAST_SIDE,
				 2 * LEAST_SIDE, before(c) ? LEAST_SIDE : gpu_sector(c->x.bytes)},
		      most = c->terms * USUAL_SIDE < ENOUGH_ELEMENTS ? MOST_SIDE : USUAL_SIDE;

	for (size_t i = 0; i < sizeof room / sizeof *room; i++)
		for (c->side = most; c->side >= least[i]; c->side /= 2) {
			c->wide = columns_of(c, c->side);
			while (c->side > LEAST_SIDE && columns_of(c, c->side / 2) == c->wide)
				c->side /= 2;
			if (fits(c, gpu, room[i]))
				return c->terms * c->wide >= FEW_ELEMENTS;
		}
	return columns_let_go(c) && shape(c, gpu);
}

/* ---- The stage ---- */

/* Computes the number of columns of this block: the last one may have fewer. */
static void have_columns(Columns *c)
{
	LBuild *b = c->x.r->b;
	Iter *many = l_iter(b, "columns", dim_const(b->k->ctx, c->wide + 1));

	l_let(b, many,
	      l_min(b, l_int(b, c->wide),
		    ex_sub(b->p, ex_dim(b->p, c->group->extent), c->x.r->v0)));
	c->many = ex_iter(b->p, many);
	c->x.guard = ex_op2(b->p, IN_lt, ex_iter(b->p, c->x.col), c->many);
}

static void open_stage(Columns *c)
{
	ColumnBlock *x = &c->x;
	Row *r = x->r;
	LBuild *b = r->b;
	Ctx *ctx = r->k->ctx;
	Iter *split[MAX_ITERS + 1], *block;
	int n = 0;

	block = l_iter(b, "block", dim_ceildiv(ctx, c->group->extent, dim_const(ctx, c->wide)));
	for (int i = 0; i < c->n; i++)
		if (&c->all[i] != c->group)
			split[n++] = r->rep[c->all[i].of[c->all[i].n - 1]];
	split[n++] = block;
	l_stage(b, "columns", iters_points(ctx, split, n));
	b->stage->block.group = b->stage->block.threads = x->threads;
	l_split(b, split, n, ex_iter(b->p, b->stage->var));
	l_let(b, x->block, ex_mul(b->p, ex_iter(b->p, block), l_int(b, c->wide)));
	c->many = l_int(b, c->wide);
	if (x->cols != c->wide || !dim_multiple(ctx, c->group->extent, c->wide))
		have_columns(c);
}

/* Emits a sum in which one thread sums each column. */
static void serial_sum(Columns *c, Stmt *s, const Points *p)
{
	Row *r = c->x.r;
	LBuild *b = r->b;
	Iter *t = l_iter(b, "t", dim_const(r->k->ctx, c->wide));
	const bool few = is_unrolled(c, c->terms);
	LNode *loop = l_loop(b, LOOP_GROUP, t, l_int(b, 0), c->many, 1), *terms = NULL, *n;
	Expr *zero = l_int(b, 0);
	Buf *acc[2];

	l_let(b, c->x.col, ex_iter(b->p, t));
	row_declare_state(r, s, acc, NULL);
	row_init_state(r, s, acc, zero);
	if (few)
		terms = l_loop(b, LOOP_UNROLL, c->term, zero, row_extent(r, c->term), 1);
	n = row_state_node(r, few ? LN_UPDATE : LN_REDUCE, s, acc, zero, p->e, NULL);
	if (!few) {
		n->range.var = c->term;
		n->range.lo = zero;
		n->range.hi = row_extent(r, c->term);
	}
	row_does(r, n, s, PART_TERM, s->niters, p->at);
	if (few)
		l_close(b, terms);
	row_store_state(r, s, acc, zero);
	l_close(b, loop);
}

static void inner_stmt(Columns *c, Stmt *s)
{
	Row *r = c->x.r;
	Points p;
	Expr *at[MAX_ITERS];
	LNode *store;
	Buf *out;

	columns_local(c, s);
	over_terms(c, s, &p);
	p.e[0] = columns_held(c, p.e[0]);
	if (s->red && c->terms <= SERIAL_TERMS)
		serial_sum(c, s, &p);
	else if (s->red)
		column_sum(&c->x, s, &p);
	if (s->red)
		return;
	row_write_index(r, s, 0, &out);
	store = columns_each(c, out->id < r->nlocal ? p.write : NULL, out, p.write, p.e[0]);
	row_point(r, p.at, at);
	l_does(r->b, store, PART_WRITE, at, s->niters);
}

bool gpu_columns(Row *r, const Gpu *gpu, int along)
{
	Columns c = {.x = {.r = r, .n = along, .m = -1, .vector = 1, .rows = 1}, .begins = SECTOR};
	const Row was = *r;
	Buf *out;
	Expr *at;

	if (along < 0 || !takes(r))
		return false;
	c.x.col = l_iter(r->b, "j", dim_const(r->k->ctx, MOST_SIDE));
	c.x.row = l_iter(r->b, "m", dim_const(r->k->ctx, 1));
	if (!merge(&c) || !look(&c) || !shape(&c, gpu)) {
		*r = was;
		return false;
	}
	open_stage(&c);
	columns_fetch(&c);
	for (int i = r->first; i <= r->last; i++) {
		Stmt *s = r->k->stmts.at[i];

		row_begin(r, s);
		c.at = i;
		if (s->red || !is_inner(r, s))
			column_local(&c.x, s);
		if (is_inner(r, s)) {
			inner_stmt(&c, s);
			continue;
		}
		at = row_write_index(r, s, 0, &out);
		column_store(&c.x, s, out, at, row_placed(r, s->val[0]), PART_WRITE);
	}
	return true;
}
